//! Remote memory over [UCX](https://openucx.org): InfiniBand and RoCE where there is a NIC, TCP and
//! shared memory elsewhere.
//!
//! Everything here needs the cargo feature `ucx`, and with it a C compiler, `pkg-config`, and UCX 1.13 or
//! later with its headers (Debian: `libucx-dev`). Without the feature this crate is empty.
//!
//! - `UcxNode` lends memory: it registers a region, serves it on a thread, and returns the connect info of the region.
//! - `Ucx` is a client of such nodes, a [`Fabric`](durahash_remote::fabric::Fabric), created from their connect info.
//!
//! With a control connection ([`durahash_remote::node`]):
//!
//! ```text
//! UCX_TLS=tcp UCX_NET_DEVICES=eth0    in the environment of both processes
//!
//! let mut options = UcxNodeOptions::default();
//! options.bytes = 1 << 30;
//! let memory = UcxNode::start(&options)?;
//! Listening::bind("10.0.0.1:7410", memory.offer(), Some(token), Limits::default())?.serve();
//!
//! // `nodes` is `Trusted::new(["10.0.0.1:7410"])`: the caller vouches for the process that listens there.
//! let client = Ucx::find(&nodes, Some(&token), &Limits::default(), deadline)?;
//! let map = BlockingMap::create(client, Options::default())?;
//! ```
//!
//! UCX's environment variables choose devices and transports, the same for nodes and clients: `UCX_TLS=tcp
//! UCX_NET_DEVICES=lo` is TCP on loopback. Shared memory of one host is used only if it alone is
//! selected, as by `UCX_TLS=posix,self`, because it does not report that a node has ended. UCX logs broken
//! connections to the standard output; `UCX_LOG_LEVEL` and `UCX_LOG_FILE` set the level and the file,
//! and `quiet` turns that off.
//!
//! **Trust.** Nodes and clients trust one another, and every host on the network between them, completely. A process
//! with the connect info of a region can read and write all of it. Over TCP, and over other transports
//! that UCX emulates RMA on, any host that reaches UCX's port can write **anywhere in the process** of the node: UCX
//! checks neither the sender nor the address. The token of a control connection does not protect that port, and nothing
//! is encrypted. A client in turn believes what nodes send: see `Trusted`. So use loopback, or a network of its own
//! whose hosts might as well run code in every process.
//!
//! **Words.** UCX does not guarantee that words are copied whole. They are if the NIC, or `memcpy`,
//! stores aligned words whole, as all known ones do. Over shared memory a reader may see a part of a write of 3, 5, 6 or
//! 7 bytes.
//!
//! **One way to a region at a time.** Atomics of a NIC are not atomic with those of a processor. So all clients must reach
//! a region in the same way: not some over InfiniBand and others over TCP or shared memory. The node's own
//! process has no access to it.
#![deny(unsafe_code)]

#[cfg(all(feature = "ucx", not(target_endian = "little")))]
compile_error!("numbers in remote memory are little-endian, and atomics of UCX are the machine's");

// From low to high: a module uses only what stands in the groups above its own
// (`durahash/tests/suite/layers.rs`).
#[cfg(feature = "ucx")]
mod leases;

#[cfg(feature = "ucx")]
mod connect_info;

#[cfg(feature = "ucx")]
#[allow(unsafe_code, reason = "bindings to C; nothing else of this crate is unsafe")]
mod sys;

#[cfg(feature = "ucx")]
mod link;
#[cfg(feature = "ucx")]
mod node;

#[cfg(feature = "ucx")]
mod client;

#[cfg(feature = "ucx")]
pub use client::Ucx;
#[cfg(feature = "ucx")]
pub use node::{UcxNode, UcxNodeOptions};
#[cfg(feature = "ucx")]
pub use sys::{Trusted, quiet};
