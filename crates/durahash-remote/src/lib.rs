//! A hash index on remote memory, reached by one-sided verbs.
//!
//! - [`executor`]: many clients, and many operations of each, on one thread.
//! - [`fabric`]: the way to the memory of nodes: [`Local`](fabric::Local), memory that processes of one
//!   host share, and [`Sim`](fabric::Sim), a simulation in virtual time.
#![forbid(unsafe_code)]

// From low to high: a module uses only what stands in the groups above its own
// (`durahash/tests/layers.rs`).
pub mod executor;

pub mod fabric;

pub use durahash_media::{Error, ErrorKind, Result};
