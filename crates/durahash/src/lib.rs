//! Crash-consistent hash indexes for persistent memory, files and DRAM.

#![forbid(unsafe_code)]

mod count;
mod data;
mod extend;
mod index;
mod outcome;
pub mod reh;

mod any;
mod chain;
mod compact;
mod design;
mod iter;
mod map;
mod options;
mod raw;
mod record;
mod stats;
mod text;

pub use any::{AnyIter, AnyMap};
pub use data::{Data, Type};
pub use design::Design;
pub use durahash_media::{Counts, Dax, Durability, Error, ErrorKind, Latency, PoolStats, Result};
pub use index::{Change, Finding, Index, IndexStats, Reader, Room, Updater};
pub use iter::Iter;
pub use map::Map;
pub use options::Options;
pub use outcome::Outcome;
pub use record::{MAX_KEY_BYTES, MAX_VALUE_BYTES, RecordHeader};
pub use stats::Stats;
