//! Figures about a map.

use std::time::Duration;

use durahash_media::{Durability, LogStats, PoolStats, SyncMode};

use crate::cache::Policy;
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::index::IndexStats;

/// Figures about a map, its pool and its medium. See [`Map::stats`](crate::Map::stats).
///
/// ```
/// let map = durahash::Options::new().in_memory::<durahash::Map<u64, u64>>()?;
/// map.put(&1, &10)?;
/// let stats = map.stats()?;
/// assert_eq!((stats.keys, stats.index.slots_used), (1, 1));
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// The design.
    pub design: Design,
    /// Type of the keys.
    pub key_type: Type,
    /// Type of the values; of a cache [`Type::Expiring`], which [`AnyCache::value_type`](crate::AnyCache::value_type)
    /// leaves out.
    pub value_type: Type,
    /// How many keys there are.
    pub keys: u64,
    /// Slots, depths and what happened since the open.
    pub index: IndexStats,
    /// Extents and blocks of the pool; `space.bytes` is the size of the file.
    pub space: PoolStats,
    /// The crashes that an acknowledged operation survives.
    pub durability: Durability,
    /// The mode that the pool is opened in for writing, if no other is asked for.
    pub sync_mode: SyncMode,
    /// The number of this open; larger than that of every open before, but for those of which a loss of power has left nothing.
    pub epoch: u32,
    /// How long the open took, with as much of the recovery as the design does then.
    pub open_time: Duration,
    /// True if the pool had not been closed, so that it had to be recovered.
    pub recovered: bool,
    /// True if the pool was ever opened although pages may have been missing.
    pub suspect: bool,
    /// Figures of the log since the open, if the pool uses one.
    pub log: Option<LogStats>,
    /// Figures that only a [`Cache`](crate::Cache) has.
    pub cache: Option<CacheStats>,
}

/// Figures of a [`Cache`](crate::Cache). What it stores counts where it has a bound.
///
/// ```
/// use durahash::{Cache, Options};
/// let cache: Cache<u64, u64> = Options::new().max_entries(100).in_memory()?;
/// for key in 0..1000 {
///     cache.put(&key, &key)?;
/// }
/// let stats = cache.stats()?.cache.unwrap();
/// assert_eq!((stats.entries, stats.max_entries, stats.evicted), (Some(100), Some(100), 900));
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Entries that are stored, or about to be, if there is a bound.
    pub entries: Option<u64>,
    /// Their bytes, if bytes have a bound: those of slots and of records.
    pub bytes_used: Option<u64>,
    /// As [`Options::max_entries`](crate::Options::max_entries).
    pub max_entries: Option<u64>,
    /// As [`Options::max_bytes_used`](crate::Options::max_bytes_used).
    pub max_bytes_used: Option<u64>,
    /// As [`Options::eviction`](crate::Options::eviction).
    pub eviction: Option<Policy>,
    /// Bytes of DRAM by which the policy knows the entries; a table for few is taken as a whole, up to 64 KiB.
    pub policy_bytes: u64,
    /// Entries that were evicted, in this open and in those before it that ended by a close.
    pub evicted: u64,
    /// Entries that had expired and were removed, also as victims, in the same opens.
    pub expired: u64,
}

impl Stats {
    /// Slots in use, as a part of all slots.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// assert!(map.stats()?.load_factor() > 0.0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn load_factor(&self) -> f64 {
        ratio(self.index.slots_used, self.index.slots)
    }

    /// Bytes on the medium in use for slots and records, for each key. The records are those of the pool: where it
    /// has several maps, of all of them.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// assert!(map.stats()?.medium_bytes_per_key() >= 16.0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn medium_bytes_per_key(&self) -> f64 {
        ratio(self.index.medium_bytes + self.space.record_bytes, self.keys)
    }

    /// Bytes of DRAM for directory, metadata and locks, for each key.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// assert!(map.stats()?.dram_bytes_per_key() > 0.0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn dram_bytes_per_key(&self) -> f64 {
        ratio(self.index.dram_bytes, self.keys)
    }
}

/// `part / whole`; nothing of nothing is nothing.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
