//! Connections between nodes and clients: encrypted, and between peers that know the same secret.
//!
//! [`noise`] makes the keys and seals records, [`inbox`] cuts what arrives into records, and [`Channel`] is a
//! connection of which one thread reads and writes whole records, with time limits.

// From low to high.
mod inbox;
mod noise;
mod stream;

mod channel;

pub(crate) use channel::Channel;
pub(crate) use inbox::Inbox;
pub(crate) use noise::{Cipher, Handshake, Key, RECORD_BYTES};
pub(crate) use stream::{left, read_all, write_all};
