//! Memory nodes: a process that lends memory, and how clients find it.
//!
//! A node has a [`LentMemory`], listens on a TCP port ([`Listening`]), and tells whoever shows the right
//! [`Token`] what to reach its memory by ([`Offer`]). That is all it does for its clients: what they do with
//! the memory goes by the fabric, past the node. A client has a connection ([`Link`]) to each of its nodes
//! for as long as it uses their memory; where one ends, or falls silent, that node is lost to it
//! ([`Nodes`]). Over which fabric memory is reached, its node says ([`Offers`]).
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
//! A client that can write to the memory is fully trusted: it can write anything anywhere, and nothing can be
//! told about an index after a client that does not keep to the protocol. The token keeps out mistakes: a
//! client of another index, a wrong port. It crosses the network as it is, so it does not keep out who
//! listens there. Bind to the loopback address, or to a network on which everybody is trusted.
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
//! and the node answers, which is the end of the connection unless the verdict is 0:
//!
//! ```text
//! off  0  magic number "durnode\0"
//!      8  protocol version, 4 bytes
//!     12  verdict, 4 bytes: 0 welcome, 1 another version, 2 a token is wanted, 3 another token is wanted,
//!         4 no token is wanted, 5 too many connections
//!     16  length of what follows, 4 bytes: at most 8192, and 0 unless the verdict is 0
//!     20  id of the memory, 8 bytes
//!     28  bytes of the memory, 8 bytes
//!     36  rows of clients, 4 bytes
//!     40  length of the fabric's name, 2 bytes: at most 32; then the name
//!         length of the place, 2 bytes: at most 4096; then the place, which means what the fabric says
//! ```
//!
//! From then on the client sends the byte 1 every so often, and the node answers each with the byte 2. Any
//! other byte ends the connection. Magic number, version, verdict and length stay where they are in all
//! versions.
//!
//! A node that wants no token refuses a client that shows one: it is another node than the client thinks.
//!
//! # Time limits
//! All reads and writes have one ([`Limits`]), a handshake one for the whole of it. So neither a silent peer
//! nor one that sends garbage holds anybody up, and a node has a bounded number of connections.

mod limits;
mod link;
mod listening;
mod memory;
mod message;
mod nodes;
mod offers;
mod stream;
#[cfg(test)]
mod tests;
mod token;

pub use limits::Limits;
pub use link::Link;
pub use listening::Listening;
pub use memory::{LentMemory, LentPlace};
pub use message::Offer;
pub use nodes::Nodes;
pub use offers::Offers;
pub use token::Token;
