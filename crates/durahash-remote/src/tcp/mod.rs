//! Verbs over an encrypted TCP connection, served by the node's threads.
//!
//! Unlike over shared memory or RDMA, the node takes part in each operation: a thread for each client decrypts its
//! verbs, checks that each lies in the region, and runs them on the memory as [`Local`](crate::fabric::Local) does, with
//! the processor's atomics. So a node knows which clients are dead, and shuts a client out without a lease; and nothing
//! but the region can be reached, by nobody without the node's token.
//!
//! ```
//! use durahash_remote::node::{Limits, Listening, Offers, Token};
//! use durahash_remote::tcp::{Tcp, TcpMemory};
//! use durahash_remote::{BlockingMap, Options};
//! let token = Token::new(b"0123456789abcdef")?; // A random one, outside of examples
//! let memory = TcpMemory::anonymous(64 << 20, 64)?;
//! let node = Listening::bind("127.0.0.1:0", &memory, Some(token.clone()), Limits::default())?;
//!
//! // In the same process, or on another host:
//! let nodes = [node.address().to_string()];
//! let offers = Offers::gather(&nodes, Some(&token), &Limits::default())?;
//! let map = BlockingMap::create(Tcp::attach(offers)?, Options::default())?;
//! map.put(b"key", b"value")?;
//! # Ok::<(), durahash_remote::Error>(())
//! ```
//!
//! # Protocol
//! After the handshake (see [`node`](crate::node)) a client joins, and sends requests in records; see `tcp/frames.rs`.
//! A record of verbs holds those of one or several batches, or a part of one. The node runs them one after the other and
//! answers them together, so a write is visible when its record is answered, and flushes wait for answers only.
//!
//! # Trust
//! Who has the token can write to the whole region, and evict clients. Who has not can open connections, of which few at
//! a time are waited for, and a short while: one that opens many keeps clients from connecting. Wrong tokens are taken
//! slowly from each address. Traffic is encrypted and authenticated by the Noise protocol
//! (`Noise_NNpsk0_25519_AESGCM_BLAKE2s`), with keys of each connection that the token does not reveal later; its
//! timing and lengths are visible. Tokens must be random: see [`Token`](crate::node::Token).

// From low to high.
mod frames;
mod ops;
mod work;

mod rows;

mod conn;
mod memory;

mod pool;
mod requests;

mod client;
mod session;

mod warden;

#[cfg(test)]
mod tests;

pub use client::Tcp;
pub use memory::TcpMemory;
#[doc(hidden)]
pub use requests::Requests;
pub use warden::{Seated, Warden};
