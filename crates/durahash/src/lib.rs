//! Hash maps in a file that survive a crash: lookups of words about as fast as in a map in memory, and data survives `kill -9`,
//! and in some modes the loss of power.
//!
//! ```
//! use durahash::{Map, Options};
//!
//! # fn main() -> durahash::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("ages.pool");
//! let ages: Map<str, u32> = Options::new().open_or_create(&path)?;
//! ages.put("Ada", &36)?; // durable when it returns
//! assert_eq!(ages.get("Ada")?, Some(36));
//! # Ok(())
//! # }
//! ```
//!
//! # Usage
//!
//! [`Options`] makes and opens *pools*, files with one map each, or with several ([`Pool`]):
//!
//! - [`Map`] has one value for each key, [`MultiMap`] any number of them. The types of keys and values are those of
//!   [`Data`]: numbers, `bool`, `char`, tuples of them, arrays of bytes, `[u8]` and `str`; structs by the features
//!   `zerocopy` and `serde`. A map is fastest if both are words.
//! - [`Cache`] is a map that forgets: entries expire, and go where it has a bound.
//! - [`AnyMap`], [`AnyMultiMap`] and [`AnyCache`] open pools whose types are known at run time.
//!
//! Every operation takes `&self`; clones of a map are handles of one pool. One process at a time has a pool open for
//! writing, or several for reading ([`Options::read_only`]), also beside a writer that allows it ([`Options::readers`]). Dropping the last handle closes the
//! pool; [`Map::close`] closes it and reports errors.
//!
//! An entry is changed in one step by [`Map::update`], of which [`Map::fetch_add`], [`Map::get_or_insert_with`]
//! and [`Map::remove_if`] are short forms:
//!
//! ```
//! use durahash::{Change, Map, Options, Result};
//!
//! # fn main() -> Result<()> {
//! let stock: Map<str, u64> = Options::new().in_memory()?;
//! stock.fetch_add("apples", 2)?;
//! stock.update("apples", |n| match n {
//!     Some(n) if n > 1 => Change::Set(n - 1),
//!     _ => Change::Remove,
//! })?;
//! assert_eq!(stock.get("apples")?, Some(1));
//! # Ok(())
//! # }
//! ```
//!
//! # Durability
//!
//! An operation that has returned is as durable as the pool's mode promises; there is no `save`. [`Map::durability`]
//! tells what an open pool survives, and [`SyncMode`] chooses it:
//!
//! | the pool lies | mode | process killed | system crashed, power lost |
//! |---|---|---|---|
//! | in a file on a disk | [`Interval`](SyncMode::Interval), the default | yes | all but the last 0.1 to 0.2 s, or more where the disk cannot keep up |
//! | | [`Strict`](SyncMode::Strict) | yes | yes |
//! | | [`Process`](SyncMode::Process), the default on tmpfs | yes | no: the pool is refused |
//! | in a file on a DAX file system | any | yes | yes |
//! | in memory ([`Options::in_memory`]) | | no | no |
//!
//! [`Map::sync`] puts everything that has returned on the disk. After a crash [`Options::open`] recovers the pool; the
//! recovery may itself be interrupted any number of times.
//!
//! # Consistency
//!
//! Operations on one key are linearizable, and no lookup returns a value that a crash covered by the mode could undo.
//! A [`Batch`] of puts and removals is there after a crash as a whole or not at all; a reader may see a part of it
//! while it is applied. Other operations on several keys are not atomic: a crash leaves a prefix of
//! [`Map::put_many`], and an iteration is no snapshot. It gives each key that is there all the time exactly once. There
//! are no transactions.
//!
//! An operation that returns an error has changed nothing, with two exceptions: the earlier part of a batch may be
//! there, and after [`Io`](ErrorKind::Io) behind a log the next open may find the operation or not. [`ErrorKind`] lists
//! the errors.
//!
//! # Performance
//!
//! - Words (integers, short arrays) are several times as fast as byte strings, which cost a record each, and a
//!   checksum when it is written and when it is first read.
//! - Keys and values of fixed size of up to 64 bytes, as digests, are kept in cells without header: next to words, the
//!   smallest and the fastest.
//! - [`Map::get_many`] hides the latency of memory: two to four times the rate of [`Map::get`]. [`Map::put_many`]
//!   shares the writes to the disk.
//! - [`Map::put`] reads no old value, [`Map::get_with`] and [`Map::contains_key`] reuse a buffer of the thread
//!   (up to 64 KiB).
//! - A lookup in REH writes no shared memory, once its part of the state in DRAM is made and its record is verified, so
//!   lookups scale with threads.
//! - In the mode `Strict` an operation waits for one write of the disk, which threads and batches share.
//!
//! # Async
//!
//! Operations are ordinary calls of about a microsecond and need no executor. These can wait for the disk: every
//! operation in the mode `Strict`, an insert that the log has no room for, `sync`, `close` and `open`. Run them on your
//! runtime's threads for blocking work.
//!
//! # Choosing a design
//!
//! [`Options::design`] chooses the design of a new pool; an existing pool keeps its own:
//!
//! - [`Design::Reh`], the default: the fewest reads and writes, a steady load factor, and opens in milliseconds. It
//!   takes 6 bytes of DRAM for each entry, which the first operations after an open fill again.
//! - [`Design::Pea`]: opens in milliseconds at any size, keeps almost nothing in DRAM, and has the multimaps. A lookup
//!   of an absent key reads 1.3 buckets.
//! - [`Design::Esh`]: opens in milliseconds, and its splits are small. An insert writes one more line.
//! - [`Design::Rewo`]: answers skewed lookups on a slow medium from a table in DRAM.
//!
//! These times hold after a close, in the mode `Process`, and with a live image. After a kill a log of lines adds up to
//! 0.2 s.
//!
//! # Custom media
//!
//! Implement `durahash_media::Medium`, and make a pool on it by [`Options::create_on`]. A design is written within this
//! crate: [`index::Index`] says what one has to do.

#![forbid(unsafe_code)]

// From low to high: a module uses only what stands in the groups above its own (`tests/suite/layers.rs`).

mod util;

pub mod cache;
pub mod index;

mod extendible;

mod designs;

mod engine;

mod api;

pub use api::any::{AnyIter, AnyMap, AnyMultiIter, AnyMultiMap};
pub use api::batch::Batch;
pub use api::cache::Cache;
pub use api::cache::any::AnyCache;
pub use api::cache::gone::Gone;
pub use api::cache::iter::CacheIter;
pub use api::iter::{Iter, MultiIter};
pub use api::map::Map;
pub use api::multi_map::MultiMap;
pub use api::openable::{NamedMap, Openable};
pub use api::options::Options;
pub use api::pool::{MapInfo, Pool};
pub use api::scan::{Cursor, ScanStep};
pub use designs::{esh, pea, reh, rewo};
pub use durahash_media::{
    Dax, Durability, Error, ErrorKind, Limit, LogStats, PoolStats, Result, SyncMode,
};
pub use engine::data::{Data, Expiring, Integer, Object, Tuple, Type, Word};
pub use engine::design::Design;
pub use engine::outcome::Outcome;
pub use engine::record::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
pub use engine::stats::{CacheStats, Stats};
#[cfg(feature = "zerocopy")]
pub use engine::wrappers::Plain;
#[cfg(feature = "serde")]
pub use engine::wrappers::Serde;
pub use index::{Change, EshStats, Finding, IndexStats, PeaStats, RewoStats};

/// Faults that tests of the crash tester plant in batches.
#[doc(hidden)]
pub mod batch {
    pub use crate::engine::batch::Fault;
    #[cfg(feature = "planted")]
    pub use crate::engine::batch::plant;
}

/// Faults that they plant in caches.
#[doc(hidden)]
pub mod forgetting {
    pub use crate::cache::planted::Fault;
    #[cfg(feature = "planted")]
    pub use crate::cache::planted::plant;
}

/// Eviction policies, for the simulator of `durahash-bench`.
#[doc(hidden)]
pub mod policy {
    pub use crate::cache::policy::{Evict, Policy, Victim};
}

/// Layouts of byte strings in a pool, for tests of the format.
#[doc(hidden)]
pub mod layout {
    pub use crate::engine::record::RecordHeader;
}
