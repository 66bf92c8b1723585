//! A hash index on remote memory, reached by one-sided verbs.
//!
//! - [`RemoteMap`]: the index SepHash, with byte strings as keys and values; [`BlockingMap`] is the same for
//!   threads that wait, [`TaskMap`] for tasks of any async runtime.
//! - [`executor`]: runs many clients, and many operations of each, on one thread.
//! - [`fabric`]: access to the memory of nodes. [`Local`](fabric::Local) is memory that processes of one
//!   host share, [`Sim`](fabric::Sim) a simulation in virtual time.
//! - [`tcp`]: the same verbs over an encrypted connection between machines. The crate `durahash-ucx` has them over RDMA.
//! - [`node`]: processes that lend memory, and how clients find them.
#![forbid(unsafe_code)]

// From low to high: a module uses only what stands in the groups above its own
// (`durahash/tests/suite/layers.rs`).
pub mod executor;
#[doc(hidden)]
pub mod planted;
mod wire;

pub mod fabric;

pub mod node;
mod sep;

mod map;
pub mod tcp;

mod served;

mod blocking;
mod tasks;

pub use blocking::{BlockingMap, BlockingPages};
pub use map::{Compared, Pages, Pair, RemoteMap};
pub use sep::{Change, LIMIT_BYTES, Options, Report, Stats, Summary, Technique};
pub use tasks::{TaskMap, TaskPages};

pub use durahash_media::{Error, ErrorKind, Result};
