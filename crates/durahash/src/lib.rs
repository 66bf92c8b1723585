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
mod index;
mod util;

mod extendible;

mod designs;

mod engine;

mod api;

pub use api::any::{AnyIter, AnyMap, AnyMultiIter, AnyMultiMap};
pub use api::iter::{Iter, MultiIter};
pub use api::map::Map;
pub use api::multi_map::MultiMap;
pub use api::options::Options;
pub use designs::{esh, pea, reh, rewo};
pub use durahash_media::{
    Counts, Dax, Durability, Error, ErrorKind, LogStats, PoolStats, Result, SyncMode,
};
pub use engine::data::{Data, Type};
pub use engine::design::Design;
pub use engine::outcome::Outcome;
pub use engine::record::{MAX_KEY_BYTES, MAX_VALUE_BYTES, RecordHeader};
pub use engine::stats::Stats;
pub use index::{
    Change, Finding, Index, IndexStats, Keys, MultiIndex, MultiReader, OneKey, Reader, Room,
    Scanned, Updater, Values,
};
