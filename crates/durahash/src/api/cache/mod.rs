//! Maps whose entries expire.

// From low to high.
mod bounds;
mod queue;
mod saved;

pub(crate) mod inner;

mod evict;
mod look;
mod soonest;

mod sweep;

mod guard;
pub(crate) mod iter;

pub(crate) mod gone;
mod scan;
mod write;

pub(crate) mod any;

use std::borrow::Borrow;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use durahash_media::{Durability, Result};

use self::guard::Guard;
use self::inner::Inner;
use self::iter::CacheIter;
use self::look::look;
use super::map::Map;
use crate::engine::Single;
use crate::engine::data::Data;
use crate::engine::design::Design;
use crate::engine::expiry::{NEVER, Timed};
use crate::engine::maps::Handle;
use crate::engine::record::KeyHash;
use crate::engine::settings::Settings;
use crate::engine::stats::Stats;
use crate::index::Finding;

/// A durable map from `K` to `V` that forgets: an entry may have a time at which it expires.
///
/// It is made and opened by [`Options`](crate::Options), as a [`Map`] is, and a [`Pool`](crate::Pool) may have several.
/// The pool says that the values expire: a `Map` does not open it, nor a cache the pool of a `Map`. Clones are handles
/// of one cache; the options of the first are those of all.
///
/// **Expiry.** From the instant at which an entry expires nothing gives it, counts it or compares with it, also after the
/// cache was opened again: the key is absent. Its space comes back when the key is put again, or by a sweep
/// in the background ([`Options::sweep`](crate::Options::sweep)), which takes a bounded share of one core: at most a
/// quarter, and about a hundredth where little expires, where it finds all within a hundred times as long as a walk takes, while a step of
/// some hundred entries takes ten milliseconds or less.
///
/// **Bounds.** With [`Options::max_entries`](crate::Options::max_entries) or
/// [`max_bytes_used`](crate::Options::max_bytes_used) an insert that finds no room evicts, as
/// [`eviction`](crate::Options::eviction) says. An eviction is a removal: durable, and at one instant. A lookup that finds its key tells the policy, in
/// DRAM, without a lock. A value that a closure makes longer may be stored before others go for it, while all of these are over the
/// bound by [a fiftieth](crate::Options::max_bytes_used) or less; else it waits for that. One that is larger than the
/// bound is refused, and so is one without room where nothing is evicted, after the closure has run. A closure must
/// change no map of the pool: it may get `Full` where its own place is all that is left, or wait for ever. With [`keep_evicted`](crate::Options::keep_evicted) what goes by itself is told.
///
/// **Damage.** A lookup of a damaged entry is an error. [`put`](Cache::put) writes over it, and an eviction removes it, as what it was
/// can be computed or fetched again; it is not told, as it cannot be read.
///
/// **Time** is in milliseconds. A cache asks the system for the time of day at its open, and counts on from there by a clock
/// that nobody sets. An open begins no earlier than the latest time that the cache has seen: of that the pool has a
/// copy, made by a close, and once a second while entries expire. So a clock that is set back revives nothing; but for what expired in the last
/// second before a kill. Without the sweep's thread it is [`step`](Cache::step) that stores the time, where half a second went by since.
/// - An open while the system's clock is far ahead lets expire what would expire by then, and stores that time. Later opens begin
///   there, and count on: lifetimes are as long as ever, but a time of day that is given to [`put_until`](Cache::put_until) is past. The way back, once the
///   clock is right and the cache is closed: open its second map as a `Map<u64, [u8]>` and remove key 0, the latest time.
/// - While a machine sleeps, the time of an open cache stands still: what would have expired meanwhile lives as much longer, until it
///   is opened again.
///
/// **Space.** Where key and value are words, an entry that does not expire takes a slot, as in a `Map`, and is verified as
/// there. Any other value has a word more in front of it. Values of up to 56 bytes beside keys of up to 64, both of fixed
/// size, lie in cells of one line, as a rule. The pool has a second map, with `.cache` behind the
/// name of the cache, which no other map may have. [`Pool::remove`](crate::Pool::remove) removes both; a cache is not renamed.
///
/// **Durability and concurrency** are those of [`Map`]. A change that depends on what is there, as by
/// [`touch`](Cache::touch), reads the clock while the key's bucket is locked.
///
/// ```
/// use std::time::Duration;
///
/// use durahash::{Cache, Options};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("sessions.pool");
/// let sessions: Cache<str, str> = Options::new().create(&path)?;
/// sessions.put_for("4711", "Ada", Duration::from_secs(3600))?;
/// sessions.close()?;
///
/// let sessions: Cache<str, str> = Options::new().open(&path)?;
/// assert_eq!(sessions.get("4711")?.as_deref(), Some("Ada"));
/// # Ok(())
/// # }
/// ```
pub struct Cache<K: Data + ?Sized, V: Data + ?Sized> {
    pub(super) map: Map<K, Timed<V>>,
    inner: Arc<Inner>,
    // The last field: it ends when the others are gone.
    guard: Arc<Guard>,
}

/// The time of day of an expiry, if it is one.
fn time_of(expiry: u64) -> Option<SystemTime> {
    (expiry != NEVER).then(|| UNIX_EPOCH + Duration::from_millis(expiry))
}

impl<K: Data + ?Sized, V: Data + ?Sized> Cache<K, V> {
    pub(super) fn new(handle: Handle<Single>, settings: &Settings) -> Result<Self> {
        let guard = Guard::of(&handle, &settings.cache_options)?;
        Ok(Cache { map: Map::new(handle), inner: Arc::clone(&guard.inner), guard })
    }

    /// The result of `f` with expiry and bytes of the value of `key`, if it has one.
    #[inline]
    fn look<R>(&self, key: &K::Ref, f: impl FnMut(u64, &[u8]) -> Option<R>) -> Result<Option<R>> {
        self.map.handle.run(|engine| {
            let mut buffer = K::Buffer::default();
            let key = K::bytes(key, &mut buffer);
            let hash = engine.key_hash(key);
            self.inner.fetch(engine.records.hashes.h(hash));
            let found = look(&self.map, &self.inner.time, (key, hash), f)?;
            if found.is_some() {
                self.inner.hit(engine.records.hashes.h(hash));
            }
            Ok(found)
        })
    }

    /// The value of `key`.
    ///
    /// **Concurrency.** As [`Map::get`].
    ///
    /// # Errors
    /// As [`Map::get`].
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// assert_eq!(cache.get(&1)?, Some(10));
    /// assert_eq!(cache.get(&2)?, None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[inline]
    pub fn get(&self, key: &K::Ref) -> Result<Option<V::Owned>> {
        self.look(key, |_, value| V::from_bytes(value))
    }

    /// Calls `f` with the value of `key`, if there is one, and returns its result.
    ///
    /// **Concurrency** and errors as of [`Map::get_with`].
    ///
    /// # Errors
    /// As [`Map::get`].
    ///
    /// ```
    /// let cache: durahash::Cache<str, str> = durahash::Options::new().in_memory()?;
    /// cache.put("key", "a long text")?;
    /// assert_eq!(cache.get_with("key", |text| text.len())?, Some(11));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_with<R>(&self, key: &K::Ref, f: impl FnOnce(&V::Ref) -> R) -> Result<Option<R>> {
        let mut f = Some(f);
        self.look(key, |_, value| V::with(value, f.take()?))
    }

    /// As [`get_with`](Cache::get_with); `f` gets also when the entry expires, if it does.
    ///
    /// **Concurrency.** Value and expiry are those of one instant.
    ///
    /// # Errors
    /// As [`Map::get`].
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// let clock = durahash::cache::Clock::manual(1_000);
    /// let cache: durahash::Cache<str, str> = durahash::Options::new().clock(clock).in_memory()?;
    /// cache.put_for("key", "value", Duration::from_secs(1))?;
    /// let found = cache.get_with_expiry("key", |text, at| (text.len(), at))?;
    /// assert_eq!(found, Some((5, Some(UNIX_EPOCH + Duration::from_secs(2)))));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_with_expiry<R>(
        &self,
        key: &K::Ref,
        f: impl FnOnce(&V::Ref, Option<SystemTime>) -> R,
    ) -> Result<Option<R>> {
        let mut f = Some(f);
        self.look(key, |expiry, value| {
            let f = f.take()?;
            V::with(value, |value| f(value, time_of(expiry)))
        })
    }

    /// The values of many keys, into `out`, which is as long.
    ///
    /// **Concurrency.** Each key is looked up as by [`get`](Cache::get), at an instant of its own.
    ///
    /// # Errors
    /// As [`get`](Cache::get); `out` holds anything then.
    ///
    /// # Panics
    /// When `keys` and `out` are not equally long.
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// let mut out = [None; 2];
    /// cache.get_many(&[1, 2], &mut out)?;
    /// assert_eq!(out, [Some(10), None]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_many<Q: Borrow<K::Ref>>(
        &self,
        keys: &[Q],
        out: &mut [Option<V::Owned>],
    ) -> Result<()> {
        let engine = &*self.map.handle.engine;
        let one = |key: &[u8], hash: KeyHash| {
            let found =
                look(&self.map, &self.inner.time, (key, hash), |_, value| V::from_bytes(value))?;
            if found.is_some() {
                self.inner.hit(engine.records.hashes.h(hash));
            }
            Ok(found)
        };
        // No value with its expiry is a word.
        self.map.handle.run(|_| self.map.look_up_many(keys, out, |_| Ok(None), one))
    }

    /// True if `key` has a value.
    ///
    /// **Concurrency.** As [`get`](Cache::get).
    ///
    /// # Errors
    /// As [`get`](Cache::get).
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// assert!(!cache.contains_key(&1)?);
    /// cache.put(&1, &10)?;
    /// assert!(cache.contains_key(&1)?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn contains_key(&self, key: &K::Ref) -> Result<bool> {
        Ok(self.look(key, |_, _| Some(()))?.is_some())
    }

    /// When the entry of `key` expires: `Some(None)` for one that never does, `None` where there is no entry.
    ///
    /// **Concurrency.** As [`get`](Cache::get).
    ///
    /// # Errors
    /// As [`get`](Cache::get).
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// let clock = durahash::cache::Clock::manual(1_000);
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().clock(clock).in_memory()?;
    /// cache.put(&1, &10)?;
    /// cache.put_for(&2, &20, Duration::from_secs(1))?;
    /// assert_eq!(cache.expires_at(&1)?, Some(None));
    /// assert_eq!(cache.expires_at(&2)?, Some(Some(UNIX_EPOCH + Duration::from_secs(2))));
    /// assert_eq!(cache.expires_at(&3)?, None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn expires_at(&self, key: &K::Ref) -> Result<Option<Option<SystemTime>>> {
        self.look(key, |expiry, _| Some(time_of(expiry)))
    }

    /// All keys and values that have not expired. Their order has no meaning.
    ///
    /// **Concurrency.** As [`Map::iter`].
    ///
    /// # Errors
    /// As [`Map::iter`].
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// assert_eq!(cache.iter().collect::<durahash::Result<Vec<_>>>()?, [(1, 10)]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn iter(&self) -> CacheIter<K, V> {
        CacheIter::new(self.map.clone(), Arc::clone(&self.inner))
    }

    /// How many entries are stored, with those that have expired and were not removed yet.
    ///
    /// **Concurrency** and errors as of [`Map::len`].
    ///
    /// # Errors
    /// As [`Map::len`].
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// assert_eq!(cache.len()?, 1);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn len(&self) -> Result<u64> {
        self.map.len()
    }

    /// How many entries have not expired, which takes a walk over all.
    ///
    /// **Concurrency.** Exact while there are no writers: as many as had not expired when the walk came to them.
    ///
    /// # Errors
    /// As [`iter`](Cache::iter).
    ///
    /// ```
    /// use std::time::Duration;
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// cache.put_for(&2, &20, Duration::ZERO)?;
    /// assert_eq!(cache.count()?, 1);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn count(&self) -> Result<u64> {
        self.map.handle.run(|engine| engine.count_live(&|| self.inner.time.now()))
    }

    /// True if there is no entry that has not expired.
    ///
    /// **Concurrency.** As [`iter`](Cache::iter), of which it takes the first step.
    ///
    /// # Errors
    /// As [`iter`](Cache::iter).
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// assert!(cache.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        self.iter().next().transpose().map(|first| first.is_none())
    }

    /// As [`Map::sync`].
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.sync()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.map.sync()
    }

    /// As [`Map::backup`]: the backup is a cache, whose entries expire as those of this one.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let to = dir.path().join("backup.pool");
    /// cache.backup(&to)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        self.map.backup(to)
    }

    /// As [`Map::stats`]; [`keys`](Stats::keys) counts what is stored, as [`len`](Cache::len).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// assert_eq!(cache.stats()?.keys, 1);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = self.map.stats()?;
        stats.cache = Some(self.map.handle.run(|_| self.inner.stats())?);
        Ok(stats)
    }

    /// As [`Map::check`]; the sweep rests meanwhile. So what `found` inserts gets no room by what has expired, and a
    /// [`step`](Cache::step) of it sweeps nothing.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.check(&mut |finding| panic!("{finding:?}"))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let _rest = self.inner.rest();
        self.map.check(found)
    }

    /// Does a piece of background work, as [`Map::step`], and goes on with the sweep; returns true if more is waiting.
    /// Once it returns false, all that had expired at the first of these calls is removed, if no thread of the sweep had begun a round
    /// before.
    ///
    /// # Errors
    /// As [`Map::step`], and as [`remove`](Cache::remove).
    ///
    /// ```
    /// use std::time::Duration;
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().sweep(false).in_memory()?;
    /// cache.put_for(&1, &10, Duration::ZERO)?;
    /// assert_eq!((cache.get(&1)?, cache.len()?), (None, 1));
    /// while cache.step()? {}
    /// assert_eq!(cache.len()?, 0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn step(&self) -> Result<bool> {
        let more = self.map.step()?;
        self.map.handle.run(|_| Ok(self.inner.sweep()?.round.is_none() | more))
    }

    /// The design that the pool was made as.
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// println!("design: {}", cache.design());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn design(&self) -> Design {
        self.map.design()
    }

    /// The crashes that an acknowledged operation survives.
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// println!("survives: {}", cache.durability());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.map.durability()
    }

    /// As [`Map::may_wait`](crate::Map::may_wait).
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// assert!(!cache.may_wait(), "memory does not");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn may_wait(&self) -> bool {
        self.map.may_wait()
    }

    /// The pool's file; `None` in memory.
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// assert_eq!(cache.path(), None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.map.path()
    }

    /// Ends the sweep, and closes the pool, if this is the last handle, as [`Map::close`].
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.close()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        let Cache { map, inner, guard } = self;
        let ended = Arc::into_inner(guard).map_or(Ok(()), |guard| guard.end(1));
        drop(inner);
        ended.map_err(|e| e.at_path(map.path())).and(map.close())
    }
}

// As of a map.
impl<K: Data + ?Sized, V: Data + ?Sized> UnwindSafe for Cache<K, V> {}
impl<K: Data + ?Sized, V: Data + ?Sized> RefUnwindSafe for Cache<K, V> {}

impl<K: Data + ?Sized, V: Data + ?Sized> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        let (inner, guard) = (Arc::clone(&self.inner), Arc::clone(&self.guard));
        Cache { map: self.map.clone(), inner, guard }
    }
}

impl<K: Data + ?Sized, V: Data + ?Sized> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.handle.engine.describe("Cache", f)
    }
}

impl<K: Data + ?Sized, V: Data + ?Sized> IntoIterator for &Cache<K, V> {
    type Item = Result<(K::Owned, V::Owned)>;
    type IntoIter = CacheIter<K, V>;

    fn into_iter(self) -> CacheIter<K, V> {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
