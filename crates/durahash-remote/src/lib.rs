//! A hash index on remote memory, reached by one-sided verbs.
//!
//! - [`RemoteMap`]: SepHash, byte strings as keys and values; [`BlockingMap`], for threads that wait.
//! - [`executor`]: many clients, and many operations of each, on one thread.
//! - [`fabric`]: the way to the memory of nodes: [`Local`](fabric::Local), memory that processes of one
//!   host share, and [`Sim`](fabric::Sim), a simulation in virtual time. The crate `durahash-ucx` has one between machines.
//! - [`node`]: processes that lend memory, and how clients find it.
#![forbid(unsafe_code)]

// From low to high: a module uses only what stands in the groups above its own
// (`durahash/tests/suite/layers.rs`).
pub mod executor;
#[doc(hidden)]
pub mod planted;

pub mod fabric;

pub mod node;
mod sep;

mod map;

mod blocking;

pub use blocking::{BlockingMap, BlockingPages};
pub use map::{Compared, Pages, RemoteMap};
pub use sep::{LIMIT_BYTES, Options, Report, Tally, Technique};

pub use durahash_media::{Error, ErrorKind, Result};
