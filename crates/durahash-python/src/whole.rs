//! What a cache does with all of its entries, and its figures.

use std::sync::atomic::Ordering::Relaxed;

use durahash::Cursor;
use pyo3::prelude::*;

use crate::cache::Cache;
use crate::codec::split;
use crate::common::{Entries, Given, Owner, STEP, next_step};
use crate::core::Objects;
use crate::plain;

/// How many entries were removed as they had expired, since the cache was made.
fn expired(cache: &Objects) -> durahash::Result<u64> {
    Ok(cache.stats()?.cache.map_or(0, |stats| stats.expired))
}

#[pymethods]
impl Cache {
    /// Removes all entries that were set with this tag; returns how many. It walks over all entries, and others may write
    /// meanwhile: an entry that has the tag all the time goes.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c.set("a", 1, tag="odd"), c.set("b", 2, tag="even"), c.set("c", 3, tag="odd")
    /// (True, True, True)
    /// >>> c.evict("odd"), len(c)
    /// (2, 1)
    fn evict<'py>(&self, py: Python<'py>, tag: &Bound<'py, PyAny>) -> PyResult<u64> {
        let tag = plain::key(tag)?;
        let (mut at, mut removed, mut n) = (Some(Cursor::START), 0, STEP);
        while let Some(from) = at {
            let (count, next, step) = self.core.wait(py, |cache| {
                let (entries, next) = cache.scan(from, n)?;
                let (has_tag, mut count) = (|value: &[u8]| split(value).0 == Some(&tag), 0);
                for (key, _) in entries.iter().filter(|(_, value)| has_tag(value)) {
                    count += u64::from(cache.remove_if(key, |value, _| has_tag(value))?.is_some());
                }
                Ok((count, next, next_step(n, &entries)))
            })?;
            (removed, at, n) = (removed + count, next, step);
            py.check_signals()?;
        }
        Ok(removed)
    }

    /// Removes what has expired now, for which nobody needs to wait: it is given to nobody, and a thread in the
    /// background takes its space back. Returns how many entries were removed meanwhile.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c.set("a", 1, expire=0)
    /// True
    /// >>> "a" in c, c.expire() in (0, 1), len(c)
    /// (False, True, 0)
    fn expire(&self, py: Python<'_>) -> PyResult<u64> {
        let before = self.core.wait(py, expired)?;
        // The first round may have been begun before.
        for _ in 0..2 {
            while self.core.wait(py, Objects::step)? {
                py.check_signals()?;
            }
        }
        Ok(self.core.wait(py, expired)?.saturating_sub(before))
    }

    /// Removes everything; returns how many entries there were.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c["a"] = 1
    /// >>> c.clear(), len(c)
    /// (1, 0)
    fn clear(&self, py: Python<'_>) -> PyResult<u64> {
        self.core.wait(py, |cache| {
            let count = cache.len()?;
            cache.clear().map(|()| count)
        })
    }

    /// How many lookups have found their key, and how many have not, while they were counted. ``enable`` says whether they
    /// are from now on, ``reset`` begins anew. They are counted in this process, and not kept.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c.stats(enable=True)
    /// (0, 0)
    /// >>> c.get("a")
    /// >>> c.stats()
    /// (0, 1)
    #[pyo3(signature = (enable = true, reset = false))]
    fn stats(&self, enable: bool, reset: bool) -> (u64, u64) {
        self.counts.store(enable, Relaxed);
        if reset {
            return (self.hits.swap(0, Relaxed), self.misses.swap(0, Relaxed));
        }
        (self.hits.load(Relaxed), self.misses.load(Relaxed))
    }

    /// Bytes that the entries take. With a ``size_limit`` they are never more than that.
    ///
    /// >>> c = durahash.Cache(size_limit=1 << 20)
    /// >>> c["a"] = bytes(1000)
    /// >>> 1000 < c.volume() < 2000
    /// True
    fn volume(&self, py: Python<'_>) -> PyResult<u64> {
        let stats = self.core.wait(py, Objects::stats)?;
        let bounded = stats.cache.and_then(|cache| cache.bytes_used);
        Ok(bounded.unwrap_or(stats.index.medium_bytes + stats.space.record_bytes))
    }

    /// Figures about the entries, the bounds and the pool, as a ``durahash.CacheStats``.
    ///
    /// >>> c = durahash.Cache(max_entries=10)
    /// >>> for n in range(100):
    /// ...     c[n] = n
    /// >>> c.info().entries, c.info().max_entries, c.info().evicted, c.info().eviction_policy
    /// (10, 10, 90, 'tinylfu')
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stats = self.core.wait(py, Objects::stats)?;
        crate::common::stats(py, &stats)
    }

    /// An iterator over the pairs of keys and values.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c["a"] = 1
    /// >>> dict(c.items())
    /// {'a': 1}
    fn items(slf: &Bound<'_, Self>) -> Entries {
        Entries::new(Owner::Cache(slf.clone().unbind()), Given::Items)
    }
}
