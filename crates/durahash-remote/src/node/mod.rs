//! Memory nodes: a process that lends memory, and how clients find it.
//!
//! A node has a [`LentMemory`], or a [`FileMemory`] that outlives it, listens on a TCP port ([`Listening`]), and tells
//! clients that know the right [`Token`] how to reach its memory ([`Offer`]). The node does nothing else for its clients:
//! they reach the memory through the fabric, past the node. Only memory [over TCP](crate::tcp) is served by the node
//! ([`Service`]). A client keeps a connection ([`Link`]) to each of its nodes
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
//! client that breaks the protocol can corrupt the index. The [`Token`] admits clients. It never crosses the network,
//! and control connections are encrypted. What else it protects depends on the fabric: over
//! [TCP](crate::tcp) all access to the memory; memory that a client reaches past the node, only where it is.
//!
//! # Protocol
//! Numbers are little-endian. A client begins:
//!
//! ```text
//! off  0  magic number "durnode\0"
//!      8  protocol version, 4 bytes
//!     12  1 if it has a token, else 0, 4 bytes
//!     16  first message of Noise_NNpsk0_25519_AESGCM_BLAKE2s, 48 bytes, without a payload
//! ```
//!
//! The prologue of that handshake is the bytes before it. Its key is the BLAKE2s hash of "durahash node token\0", a byte
//! that is 1 if there is a token, and the token. The node answers, and ends the connection unless the verdict is 0:
//!
//! ```text
//! off  0  magic number "durnode\0"
//!      8  protocol version, 4 bytes
//!     12  verdict, 4 bytes: 0 welcome, 1 another version, 2 a token is required, 3 another token is required,
//!         4 no token is required, 5 too many connections, 6 too many that come at once: come again
//!     16  length of what follows, 4 bytes: at most 8192, and 0 unless the verdict is 0
//!     20  second message of the handshake, whose payload is the offer:
//!
//! off  0  id of the memory, 8 bytes
//!      8  bytes of the memory, 8 bytes
//!     16  rows of clients, 4 bytes
//!     20  length of the fabric's name, 2 bytes: at most 32; then the name
//!         length of the place, 2 bytes: at most 4096; then the place, whose meaning depends on the fabric
//! ```
//!
//! From then on each message is a record: the length of a Noise message, 2 bytes, and the message. The client sends the
//! byte 1 at once, and then periodically, and the node answers each with the byte 0. Over [TCP](crate::tcp) there are
//! other requests as well; otherwise any other record ends the connection. Magic number, version, verdict and length have
//! the same offsets in all versions.
//!
//! A node that requires no token refuses a client that shows one: it is not the node that the client expects. A client is
//! admitted with its first record, so the repetition of a recorded first message is not.
//!
//! # Time limits
//! Each read and write has a time limit ([`Limits`]), and so has a whole handshake. So neither a silent peer
//! nor one that sends garbage blocks others. The number of connections of a node is bounded, and so is that of
//! handshakes, each with its thread and its descriptor. A wrong token is answered after a pause, and an address that shows
//! many is not listened to until a time has passed for each: `node/guesses.rs`.

mod figures;
mod file;
mod guesses;
mod limits;
mod link;
mod listening;
mod memory;
mod message;
mod nodes;
mod notices;
#[cfg(test)]
mod tests;
mod token;

pub use figures::Figure;
pub use file::FileMemory;
pub use limits::Limits;
pub use link::Link;
pub(crate) use listening::Attend;
pub use listening::{Gauges, Listening, Service};
pub use memory::{LentMemory, LentPlace};
pub use message::Offer;
#[cfg(test)]
pub(crate) use message::{answer, encode};
pub use nodes::{Nodes, Offers};
pub use notices::Notice;
pub use token::Token;
