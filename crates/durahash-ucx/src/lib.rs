//! Remote memory over [UCX](https://openucx.org): InfiniBand and RoCE where there is a NIC, TCP and
//! shared memory elsewhere.
//!
//! Everything here needs the cargo feature `ucx`, and with it a C compiler, `pkg-config`, and UCX 1.13 or
//! later with its headers (Debian: `libucx-dev`). Without the feature this crate is empty.
//!
//! - `UcxNode` lends memory out: it registers a region, serves it by a thread, and gives some bytes that reach it.
//! - `Ucx` is a client of such nodes, a [`Fabric`](durahash_remote::fabric::Fabric), made of these bytes.
//!
//! With a control connection ([`durahash_remote::node`]):
//!
//! ```text
//! UCX_TLS=tcp UCX_NET_DEVICES=eth0    as both processes need it
//!
//! let memory = UcxNode::start(&UcxNodeOptions { bytes: 1 << 30, ..Default::default() })?;
//! Listening::bind("10.0.0.1:7410", memory.offer(), Some(token), Limits::default())?.serve();
//!
//! // `nodes` is `Trusted::new(["10.0.0.1:7410"])`, by which the client answers for who listens there.
//! let client = Ucx::find(&nodes, Some(&token), &Limits::default(), deadline)?;
//! let map = BlockingMap::create(client, Options::default())?;
//! ```
//!
//! UCX's environment variables choose devices and transports, the same for nodes and clients: `UCX_TLS=tcp
//! UCX_NET_DEVICES=lo` is TCP on loopback. Shared memory of one host is used only where it is asked for and
//! nothing else is, as by `UCX_TLS=posix,self`: it does not tell of nodes that have ended. What UCX itself has to say of
//! connections that break it writes to the standard output; `UCX_LOG_LEVEL` and `UCX_LOG_FILE` say how much, and where,
//! and `quiet` keeps it from that.
//!
//! **Trust.** Nodes and clients trust one another, and everybody on the network between them, wholly. Whoever has
//! the bytes that reach a region can read and write all of it. Over TCP, and wherever else UCX makes up for what a
//! transport lacks, whoever reaches the port of UCX can write **anywhere in the process** of the node: UCX
//! checks neither who asks nor where. The token of a control connection does not protect that port. There is no
//! encryption. A client in turn believes what nodes say: see `Trusted`. So: a network of its own, or loopback, and
//! nobody on it who could not as well run code in every process.
//!
//! **Words.** UCX does not promise that words are copied whole. They are as long as the NIC, or `memcpy`,
//! stores aligned words whole, which those that are known do. Of fewer bytes than a word a reader may see a part,
//! over shared memory, when they are 3, 5, 6 or 7.
//!
//! **One way to a region at a time.** Atomics of a NIC are not atomic with those of a processor. So a region is not
//! to be reached over InfiniBand by some clients and over TCP or shared memory by others, nor by the node's own
//! process: this crate gives it no access.
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
