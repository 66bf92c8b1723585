//! A hash index on remote memory, reached by one-sided verbs.
//!
//! - [`executor`]: many clients, and many operations of each, on one thread.
//! - [`fabric`]: the way to the memory of other nodes; [`Sim`](fabric::Sim), a simulated one.
#![forbid(unsafe_code)]

// From low to high: a module uses only what stands in the groups above its own
// (`durahash/tests/layers.rs`).
pub mod executor;

pub mod fabric;

pub use durahash_media::{Error, ErrorKind, Result};
