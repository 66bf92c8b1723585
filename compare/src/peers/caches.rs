//! Caches with a bound of entries: ours, and those of other crates, each with its defaults and the hash that all have.

use std::path::Path;

use durahash::{Cache, Options, SyncMode};
use durahash_bench::Result;
use durahash_bench::driver::Table;
use foldhash::fast::RandomState;

use crate::store::Subject;

/// A cache that is measured.
pub(crate) trait Cached: Subject {
    /// How many entries it has, once it has done what it does later.
    fn len(&self) -> Result<u64>;

    /// Closes it.
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A cache with room for so many entries: that in a directory, if it has one.
type Open = fn(&Path, u64) -> Result<Box<dyn Cached>>;

/// All of them.
pub(crate) const CACHES: [(&str, Open); 6] = [
    ("durahash, memory", |_, entries| Ok(Box::new(Own(options(entries).in_memory()?)))),
    (OWN_FILE, |dir, entries| {
        // As the stores are measured: nothing is forced to the disk.
        let options = options(entries).sync_mode(SyncMode::Process);
        Ok(Box::new(Own(options.open_or_create(dir.join("cache.pool"))?)))
    }),
    ("moka", |_, entries| {
        let builder = moka::sync::Cache::builder().max_capacity(entries);
        Ok(Box::new(Moka(builder.build_with_hasher(RandomState::default()))))
    }),
    ("quick_cache", |_, entries| {
        let (items, hash) = (entries as usize, RandomState::default());
        let lifecycle = quick_cache::sync::DefaultLifecycle::default();
        let weighter = quick_cache::UnitWeighter;
        let cache = quick_cache::sync::Cache::with(items, entries, weighter, hash, lifecycle);
        Ok(Box::new(Quick(cache)))
    }),
    ("foyer", |_, entries| foyer_with(entries, foyer::LruConfig::default().into())),
    ("foyer, S3-FIFO", |_, entries| foyer_with(entries, foyer::S3FifoConfig::default().into())),
];

/// The one that is there after its process was killed.
pub(crate) const OWN_FILE: &str = "durahash, file";

fn options(entries: u64) -> Options {
    Options::new().max_entries(entries)
}

struct Own(Cache<u64, u64>);

impl Table for Own {
    #[inline]
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.0.get(&key)?)
    }

    #[inline]
    fn put(&self, key: u64, value: u64) -> Result<()> {
        Ok(self.0.put(&key, &value)?)
    }

    fn remove(&self, key: u64) -> Result<bool> {
        Ok(self.0.remove(&key)?.is_some())
    }
}

impl Cached for Own {
    fn len(&self) -> Result<u64> {
        Ok(self.0.len()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}

/// A cache of another crate: how a value is read, put and removed, and entries are counted.
macro_rules! cache {
    ($name:ident, $cache:ty, |$self:ident, $key:ident| $get:expr, |$k:ident, $v:ident| $put:expr, $remove:expr, $len:expr) => {
        struct $name($cache);

        impl Table for $name {
            #[inline]
            fn get(&$self, $key: u64) -> Result<Option<u64>> {
                Ok($get)
            }

            #[inline]
            fn put(&$self, $k: u64, $v: u64) -> Result<()> {
                $put;
                Ok(())
            }

            fn remove(&$self, $key: u64) -> Result<bool> {
                Ok($remove)
            }
        }

        impl Cached for $name {
            fn len(&$self) -> Result<u64> {
                Ok($len)
            }
        }
    };
}

cache!(
    Moka,
    moka::sync::Cache<u64, u64, RandomState>,
    |self, key| self.0.get(&key),
    |k, v| self.0.insert(k, v),
    self.0.remove(&key).is_some(),
    {
        self.0.run_pending_tasks();
        self.0.entry_count()
    }
);
cache!(
    Quick,
    quick_cache::sync::Cache<u64, u64, quick_cache::UnitWeighter, RandomState>,
    |self, key| self.0.get(&key),
    |k, v| self.0.insert(k, v),
    self.0.remove(&key).is_some(),
    self.0.len() as u64
);
cache!(
    Foyer,
    foyer::Cache<u64, u64, RandomState>,
    |self, key| self.0.get(&key).map(|entry| *entry.value()),
    |k, v| drop(self.0.insert(k, v)),
    self.0.remove(&key).is_some(),
    self.0.entries() as u64
);

fn foyer_with(entries: u64, eviction: foyer::EvictionConfig) -> Result<Box<dyn Cached>> {
    let builder = foyer::CacheBuilder::new(entries as usize).with_eviction_config(eviction);
    Ok(Box::new(Foyer(builder.with_hash_builder(RandomState::default()).build())))
}
