//! Crash-consistent hash indexes for persistent memory, files and DRAM.
//!
//! [`Options`] makes or opens a [`Map`] of typed keys and values, a [`MultiMap`], which has any number of
//! values for each key, or an [`AnyMap`] or [`AnyMultiMap`] of types known at run time. When an operation returns, what it did survives what [`Durability`] says of the medium
//! that the map lies on; nothing needs to be saved or synced.
//!
//! ```
//! use durahash::{Map, Options};
//!
//! # fn main() -> durahash::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("ages.pool");
//! let ages: Map<str, u32> = Options::new().open_or_create(&path)?;
//! ages.put("Ada", &36)?;
//! assert_eq!(ages.get("Ada")?, Some(36));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

// From low to high: a module uses only what stands in the groups above its own (`tests/layers.rs`).
mod circle;
mod count;
mod data;
mod extend;
mod index;
mod outcome;
mod parallel;
mod place;

mod growth;

mod directory;

mod array;

// The designs. None uses another.
pub mod esh;
pub mod pea;
pub mod reh;
pub mod rewo;

mod design;
mod record;

mod settled;
mod stats;

mod untyped;

mod raw;

mod chain;
mod text;

mod multi_raw;

mod entries;
mod handle;
mod open;

mod iter;

mod map;
mod multi_map;

mod options;

mod compact;

mod any;

pub use any::{AnyIter, AnyMap, AnyMultiIter, AnyMultiMap};
pub use data::{Data, Type};
pub use design::Design;
pub use durahash_media::{
    Counts, Dax, Durability, Error, ErrorKind, LogStats, PoolStats, Result, SyncMode,
};
pub use index::{
    Change, Finding, Index, IndexStats, Keys, MultiIndex, MultiReader, OneKey, Reader, Room,
    Scanned, Updater, Values,
};
pub use iter::{Iter, MultiIter};
pub use map::Map;
pub use multi_map::MultiMap;
pub use options::Options;
pub use outcome::Outcome;
pub use record::{MAX_KEY_BYTES, MAX_VALUE_BYTES, RecordHeader};
pub use stats::Stats;
