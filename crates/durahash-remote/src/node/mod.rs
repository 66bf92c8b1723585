//! Memory nodes: a process that lends memory, and how clients find it.
//!
//! A node has a [`LentMemory`], or a [`FileMemory`] that outlives it, listens on a TCP port ([`Listening`]), and tells
//! clients that show the right [`Token`] how to reach its memory ([`Offer`]). The node does nothing else for its clients: they reach the
//! memory through the fabric, past the node. A client keeps a connection ([`Link`]) to each of its nodes
//! while it uses their memory; if a connection ends or falls silent, the client counts the node as lost
//! ([`Nodes`]). The node's offer names the fabric ([`Offers`]).
//!
//! ```
//! use durahash_remote::node::{LentMemory, Limits, Listening, Nodes};
//! use durahash_remote::{BlockingMap, Options};
//! # let tmp = tempfile::tempdir().unwrap();
//! # let place = tmp.path().join("node");
//! let memory = LentMemory::create(Some(&place), 64 << 20)?;
//! let node = Listening::bind("127.0.0.1:0", memory.offer(), None, Limits::default())?;
//!
//! // In the same or another process of this host:
//! let nodes = Nodes::connect(&[node.address().to_string()], None, &Limits::default())?;
//! let map = BlockingMap::create(nodes.local().client()?, Options::default())?;
//! map.put(b"key", b"value")?;
//! # Ok::<(), durahash_remote::Error>(())
//! ```
//!
//! # Trust
//! A client that can write to the memory is fully trusted: it can write anything anywhere, and a
//! client that breaks the protocol can corrupt the index. The token prevents mistakes, such as a
//! client of another index or a wrong port. It crosses the network unencrypted, so it does not keep out an
//! eavesdropper. Bind to the loopback address, or to a network on which every host is trusted.
//!
//! # Protocol
//! Numbers are little-endian. A client begins:
//!
//! ```text
//! off  0  magic number "durnode\0"
//!      8  protocol version, 4 bytes
//!     12  length of the token, 4 bytes: at most 1024, 0 for none
//!     16  the token
//! ```
//!
//! The node answers, and ends the connection unless the verdict is 0:
//!
//! ```text
//! off  0  magic number "durnode\0"
//!      8  protocol version, 4 bytes
//!     12  verdict, 4 bytes: 0 welcome, 1 another version, 2 a token is required, 3 another token is required,
//!         4 no token is required, 5 too many connections
//!     16  length of what follows, 4 bytes: at most 8192, and 0 unless the verdict is 0
//!     20  id of the memory, 8 bytes
//!     28  bytes of the memory, 8 bytes
//!     36  rows of clients, 4 bytes
//!     40  length of the fabric's name, 2 bytes: at most 32; then the name
//!         length of the place, 2 bytes: at most 4096; then the place, whose meaning depends on the fabric
//! ```
//!
//! From then on the client sends the byte 1 periodically, and the node answers each with the byte 2. Any
//! other byte ends the connection. Magic number, version, verdict and length have the same offsets in all
//! versions.
//!
//! A node that requires no token refuses a client that shows one: it is not the node that the client expects.
//!
//! # Time limits
//! Each read and write has a time limit ([`Limits`]), and so has a whole handshake. So neither a silent peer
//! nor one that sends garbage blocks others. The number of connections of a node is bounded.

mod file;
mod limits;
mod link;
mod listening;
mod memory;
mod message;
mod nodes;
mod stream;
#[cfg(test)]
mod tests;
mod token;

pub use file::FileMemory;
pub use limits::Limits;
pub use link::Link;
pub use listening::Listening;
pub use memory::{LentMemory, LentPlace};
pub use message::Offer;
pub use nodes::{Nodes, Offers};
pub use token::Token;
