//! Typed maps over any design on any medium.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;

use durahash_media::{Durability, Result};

use super::common::{common_methods, typed_traits};
use super::iter::Iter;
use crate::engine::Single;
use crate::engine::cell::Cell as EntryCell;
use crate::engine::data::{Data, no_value};
use crate::engine::design::Design;
use crate::engine::edit::Rule;
use crate::engine::maps::Handle;
use crate::engine::outcome::Outcome;
use crate::engine::record::{KeyHash, Short};
use crate::engine::stats::Stats;
use crate::index::{Change, Finding, IndexStats, PREFETCHED, Room};

/// Keys of a batch that are hashed and looked up at a time.
const BATCH: usize = 64;

/// A durable map from `K` to `V`, made by [`Options`](crate::Options).
///
/// A map is a handle: clones share one pool, every operation takes `&self`, and threads need nothing
/// else. The pool is closed when the last handle, and the last iterator, is gone.
///
/// **Durability.** When an operation returns, its change and all that it saw survive the crashes that
/// [`durability`](Map::durability) names. An operation that returns an error has
/// changed nothing, with two exceptions: the earlier part of a batch may be there, and after
/// [`Io`](crate::ErrorKind::Io) behind a log the next open may find the operation or not.
///
/// **Concurrency.** Every operation on one key is linearizable: it takes effect at one instant
/// between its call and its return, in one order for all threads. A reader waits only for the short commit
/// of a writer in the same bucket, with four exceptions:
///
/// - After an open the first lookup in a part of a REH map makes that part's state in DRAM.
/// - After a crash the first lookup in a segment of ESH repairs it.
/// - In the mode [`Strict`](crate::SyncMode::Strict) a lookup waits for batches that are not on the
///   disk yet.
/// - A reader that writers overtake again and again takes the lock.
///
/// Operations on several keys (batches, iteration, [`clear`](Map::clear), [`len`](Map::len)) are not
/// one instant.
///
/// ```
/// use durahash::{Map, Options};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("ages.pool");
/// let ages: Map<str, u32> = Options::new().create(&path)?;
/// ages.insert("Ada", &36)?;
/// ages.close()?;
///
/// let ages: Map<str, u32> = Options::new().open(&path)?;
/// assert_eq!(ages.get("Ada")?, Some(36));
/// # Ok(())
/// # }
/// ```
pub struct Map<K: Data + ?Sized, V: Data + ?Sized> {
    pub(super) handle: Handle<Single>,
    types: PhantomData<fn(&K, &V)>,
}

thread_local! {
    /// Where values are copied to that are not kept.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Buffers larger than this are not kept for the next call.
const SCRATCH_BYTES: usize = 64 << 10;

/// Runs `f` with an empty buffer that this thread uses again and again.
pub(super) fn with_scratch<R>(f: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    // Taken, not borrowed: `f` may come here again. The destructor of another thread-local may come here
    // after the buffer was destroyed: it gets one of its own.
    let mut buffer = SCRATCH.try_with(Cell::take).unwrap_or_default();
    buffer.clear();
    let done = f(&mut buffer);
    if buffer.capacity() <= SCRATCH_BYTES {
        let _ = SCRATCH.try_with(|scratch| scratch.set(buffer));
    }
    done
}

impl<K: Data + ?Sized, V: Data + ?Sized> Map<K, V> {
    /// True if slots hold keys and values themselves.
    pub(super) const WORDS: bool = K::TYPE.is_word() && V::TYPE.is_word();
    /// The cell of an entry, if maps of these types have cells.
    const CELL: Option<EntryCell> = EntryCell::of(K::TYPE, V::TYPE, 0);

    pub(crate) fn new(handle: Handle<Single>) -> Self {
        debug_assert!(handle.engine.key == K::TYPE && handle.engine.value == V::TYPE);
        Map { handle, types: PhantomData }
    }

    /// Of other types than the pool's, whose bytes they are: byte strings, if not both are words there.
    pub(super) fn of_bytes(handle: Handle<Single>) -> Self {
        Map { handle, types: PhantomData }
    }

    #[inline]
    pub(super) fn hash(&self, key: &K::Ref) -> u64 {
        self.handle.engine.hash::<K>(key, Self::WORDS)
    }

    /// The value of a word that was found.
    #[inline]
    pub(super) fn value(word: Option<u64>) -> Result<Option<V::Owned>> {
        match word {
            Some(word) => V::from_word(word).map(Some).ok_or_else(no_value),
            None => Ok(None),
        }
    }

    /// The value of `key`.
    ///
    /// **Concurrency.** Does not block writers (exceptions: see [`Map`]). Never returns a value that a
    /// crash that [`durability`](Map::durability) covers could take back.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the pool is damaged; [`Io`](crate::ErrorKind::Io) once its disk has failed;
    /// [`WriterGone`](crate::ErrorKind::WriterGone) of a [reader](crate::Options::readers) whose writer has gone.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// assert_eq!(map.get(&1)?, Some(10));
    /// assert_eq!(map.get(&2)?, None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[inline]
    pub fn get(&self, key: &K::Ref) -> Result<Option<V::Owned>> {
        self.handle.run(|engine| {
            if Self::WORDS {
                return Self::value(engine.index.get(self.hash(key))?);
            }
            let mut buffer = K::Buffer::default();
            let key = K::bytes(key, &mut buffer);
            self.get_hashed(key, engine.key_hash(key))
        })
    }

    /// The value of a key whose hash is known.
    #[inline]
    fn get_hashed(&self, key: &[u8], key_hash: KeyHash) -> Result<Option<V::Owned>> {
        self.with_bytes((key, key_hash), V::from_bytes, |_| {
            if V::TYPE.fixed_bytes().is_some() {
                return self.with_copy((key, key_hash), V::from_bytes);
            }
            let mut value = Vec::new();
            if !self.handle.engine.get_bytes(key, key_hash, &mut value)? {
                return Ok(None);
            }
            V::from_vec(value).map(Some).ok_or_else(no_value)
        })
    }

    /// Calls `f` with the bytes of the value of a key, if there is one; `f` answers `None` if they are no value.
    /// Where one look does not find it, `long` does.
    #[inline]
    fn with_bytes<R, F: FnOnce(&[u8]) -> Option<R>>(
        &self,
        (key, key_hash): (&[u8], KeyHash),
        f: F,
        long: impl FnOnce(F) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        let engine = &*self.handle.engine;
        if let Some(cell) = Self::CELL.filter(|cell| cell.is_in_slots())
            && engine.records.cell == Some(cell)
            && let Some(found) = engine.look_in_slot(cell, engine.records.hashes.h(key_hash))?
        {
            return found.map_or(Ok(None), |bytes| {
                f(&bytes[..cell.value_bytes()]).map(Some).ok_or_else(no_value)
            });
        }
        let mut short = Short::new(const { Short::limit(V::TYPE) });
        let found = match Self::CELL {
            Some(cell) => engine.look_for_usual_cell(cell, key, key_hash, &mut short),
            None => engine.look_once(key, key_hash, Some(&mut short)),
        };
        match found {
            Some(false) => Ok(None),
            Some(true) => f(short.value()).map(Some).ok_or_else(no_value),
            None => long(f),
        }
    }

    /// The same, wherever the value is found.
    #[inline]
    pub(super) fn find<R>(
        &self,
        key: (&[u8], KeyHash),
        f: impl FnOnce(&[u8]) -> Option<R>,
    ) -> Result<Option<R>> {
        self.with_bytes(key, f, |f| self.with_copy(key, f))
    }

    /// The same, of a value that is copied to a buffer of the thread.
    fn with_copy<R>(
        &self,
        (key, key_hash): (&[u8], KeyHash),
        f: impl FnOnce(&[u8]) -> Option<R>,
    ) -> Result<Option<R>> {
        with_scratch(|buffer| {
            if !self.handle.engine.get_bytes(key, key_hash, buffer)? {
                return Ok(None);
            }
            f(buffer).map(Some).ok_or_else(no_value)
        })
    }

    /// Calls `f` with the value of `key`, if there is one, and returns its result.
    ///
    /// The value is a copy, on the stack or in a buffer of the thread, which is reused (up to 64 KiB). No lock is held:
    /// `f` may use the map.
    ///
    /// **Concurrency.** As [`get`](Map::get).
    ///
    /// # Errors
    /// As [`get`](Map::get).
    ///
    /// ```
    /// let map: durahash::Map<str, str> = durahash::Options::new().in_memory()?;
    /// map.put("key", "a long text")?;
    /// assert_eq!(map.get_with("key", |text| text.len())?, Some(11));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_with<R>(&self, key: &K::Ref, f: impl FnOnce(&V::Ref) -> R) -> Result<Option<R>> {
        self.handle.run(|engine| {
            if Self::WORDS {
                return Ok(self.get(key)?.map(|v| f(v.borrow())));
            }
            let mut buffer = K::Buffer::default();
            let key = K::bytes(key, &mut buffer);
            let key = (key, engine.key_hash(key));
            self.with_bytes(key, |bytes| V::with(bytes, f), |f| self.with_copy(key, f))
        })
    }

    /// True if `key` has a value.
    ///
    /// **Concurrency.** As [`get`](Map::get).
    ///
    /// # Errors
    /// As [`get`](Map::get).
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// assert!(!map.contains_key(&1)?);
    /// map.put(&1, &10)?;
    /// assert!(map.contains_key(&1)?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn contains_key(&self, key: &K::Ref) -> Result<bool> {
        self.handle.run(|engine| {
            if Self::WORDS {
                return Ok(engine.index.get(self.hash(key))?.is_some());
            }
            let mut buffer = K::Buffer::default();
            let key = K::bytes(key, &mut buffer);
            engine.contains_bytes(key, engine.key_hash(key))
        })
    }

    /// Inserts or replaces the value of `key`; returns the value it had.
    ///
    /// **Durability.** `Ok` means the entry outlives a crash; `Err` leaves the map as it was, except as [`Map`] says.
    /// **Concurrency.** Takes effect when it is durable; readers see the old value until then.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) when the pool has to grow and may not or cannot;
    /// [`Skewed`](crate::ErrorKind::Skewed) when too many keys share a hash prefix, or 256 byte keys a hash;
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for a key beyond
    /// [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) or a value beyond
    /// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES);
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned);
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the pool is damaged. A damaged value can be
    /// replaced by [`put`](Map::put), which does not read it.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// assert_eq!(map.insert(&1, &10)?, None);
    /// assert_eq!(map.insert(&1, &11)?, Some(10));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn insert(&self, key: &K::Ref, value: &V::Ref) -> Result<Option<V::Owned>> {
        self.handle.run(|_| {
            if Self::WORDS {
                return self.change_word(key, Room::ForNew, Change::Set(V::to_word(value)));
            }
            self.change_bytes(key, Some(value))
        })
    }

    /// Inserts or replaces the value of `key`, and reads nothing back.
    ///
    /// **Durability** and **Concurrency** as [`insert`](Map::insert).
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    ///
    /// ```
    /// let map: durahash::Map<str, [u8]> = durahash::Options::new().in_memory()?;
    /// map.put("key", b"value")?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[inline]
    pub fn put(&self, key: &K::Ref, value: &V::Ref) -> Result<()> {
        self.handle.run(|engine| {
            if Self::WORDS {
                let new = V::to_word(value);
                let mut update = |_| Ok(Change::Set(new));
                return engine.update_word(self.hash(key), Room::ForNew, &mut update).map(drop);
            }
            self.change(key, Some(value), Rule::Always, None).map(drop)
        })
    }

    /// Inserts `key` with `value` if the key is absent.
    ///
    /// **Durability** and **Concurrency** as [`insert`](Map::insert): of several that try at once,
    /// one succeeds.
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    ///
    /// ```
    /// use durahash::Outcome;
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// assert_eq!(map.try_insert(&1, &10)?, Outcome::Done);
    /// assert_eq!(map.try_insert(&1, &11)?, Outcome::Present(10));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn try_insert(&self, key: &K::Ref, value: &V::Ref) -> Result<Outcome<V::Owned>> {
        self.handle.run(|engine| {
            if Self::WORDS {
                let new = V::to_word(value);
                let found = engine.update_word(self.hash(key), Room::ForNew, &mut |found| {
                    Ok(if found.is_none() { Change::Set(new) } else { Change::Keep })
                })?;
                return Ok(Self::value(found)?.map_or(Outcome::Done, Outcome::Present));
            }
            self.change_if(key, value, Rule::IfAbsent)
        })
    }

    /// Replaces the value of `key` by `new` if it is `old`.
    ///
    /// **Durability** and **Concurrency** as [`insert`](Map::insert).
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    ///
    /// ```
    /// use durahash::Outcome;
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// assert_eq!(map.compare_exchange(&1, &10, &11)?, Outcome::Absent);
    /// map.put(&1, &10)?;
    /// assert_eq!(map.compare_exchange(&1, &10, &11)?, Outcome::Done);
    /// assert_eq!(map.compare_exchange(&1, &10, &12)?, Outcome::Present(11));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn compare_exchange(
        &self,
        key: &K::Ref,
        old: &V::Ref,
        new: &V::Ref,
    ) -> Result<Outcome<V::Owned>> {
        self.handle.run(|engine| {
            if Self::WORDS {
                let (old, new) = (V::to_word(old), V::to_word(new));
                let found = engine.update_word(self.hash(key), Room::None, &mut |found| {
                    Ok(if found == Some(old) { Change::Set(new) } else { Change::Keep })
                })?;
                if found == Some(old) {
                    return Ok(Outcome::Done);
                }
                return Ok(Self::value(found)?.map_or(Outcome::Absent, Outcome::Present));
            }
            self.change_if(key, new, Rule::IfEqual(V::bytes(old, &mut V::Buffer::default())))
        })
    }

    /// Removes `key`; returns the value it had.
    ///
    /// **Durability.** `Ok` means the key stays away after a crash; `Err` leaves the map as it was, except as [`Map`]
    /// says.
    /// **Concurrency.** As [`insert`](Map::insert).
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned),
    /// [`Corrupt`](crate::ErrorKind::Corrupt) as for [`insert`](Map::insert). A full pool is no
    /// reason to fail.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// assert_eq!(map.remove(&1)?, Some(10));
    /// assert_eq!(map.remove(&1)?, None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[doc(alias = "take")]
    pub fn remove(&self, key: &K::Ref) -> Result<Option<V::Owned>> {
        self.handle.run(|_| {
            if Self::WORDS {
                return self.change_word(key, Room::None, Change::Remove);
            }
            self.change_bytes(key, None)
        })
    }

    /// A change of a map of words; the value before. One that is damaged is found before anything changes.
    fn change_word(&self, key: &K::Ref, room: Room, change: Change) -> Result<Option<V::Owned>> {
        let mut update = |old| Self::value(old).map(|_| change);
        Self::value(self.handle.engine.update_word(self.hash(key), room, &mut update)?)
    }

    /// The same of a map of bytes.
    fn change_bytes(&self, key: &K::Ref, new: Option<&V::Ref>) -> Result<Option<V::Owned>> {
        let mut old = Vec::new();
        let (_, had) = self.change(key, new, Rule::Always, Some(&mut old))?;
        if had { V::from_vec(old).map(Some).ok_or_else(no_value) } else { Ok(None) }
    }

    /// The same, where `rule` allows it; the value that it was refused for.
    fn change_if(&self, key: &K::Ref, new: &V::Ref, rule: Rule<'_>) -> Result<Outcome<V::Owned>> {
        let mut old = Vec::new();
        Ok(match self.change(key, Some(new), rule, Some(&mut old))?.0 {
            Outcome::Done => Outcome::Done,
            Outcome::Present(()) => Outcome::Present(V::from_vec(old).ok_or_else(no_value)?),
            Outcome::Absent => Outcome::Absent,
        })
    }

    /// A change of a map of bytes.
    fn change(
        &self,
        key: &K::Ref,
        new: Option<&V::Ref>,
        rule: Rule<'_>,
        old: Option<&mut Vec<u8>>,
    ) -> Result<(Outcome, bool)> {
        let (mut of_key, mut of_new) = (K::Buffer::default(), V::Buffer::default());
        let new = new.map(|v| V::bytes(v, &mut of_new));
        self.handle.engine.change(K::bytes(key, &mut of_key), new, rule, old)
    }

    /// The values of many keys, into `out`, which is as long.
    ///
    /// **Concurrency.** Each key is looked up as by [`get`](Map::get), at an instant of its own.
    ///
    /// # Errors
    /// As [`get`](Map::get); `out` holds anything then.
    ///
    /// # Panics
    /// When `keys` and `out` are not equally long.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// let mut out = [None; 2];
    /// map.get_many(&[1, 2], &mut out)?;
    /// assert_eq!(out, [Some(10), None]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_many<Q: Borrow<K::Ref>>(
        &self,
        keys: &[Q],
        out: &mut [Option<V::Owned>],
    ) -> Result<()> {
        self.handle
            .run(|_| self.look_up_many(keys, out, Self::value, |key, h| self.get_hashed(key, h)))
    }

    /// Looks many keys up: true in `out`, which is as long, for each that has a value.
    ///
    /// **Concurrency**, errors and panics as of [`get_many`](Map::get_many).
    ///
    /// # Errors
    /// As [`get`](Map::get).
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// let mut out = [false; 2];
    /// map.contains_many(&[1, 2], &mut out)?;
    /// assert_eq!(out, [true, false]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn contains_many<Q: Borrow<K::Ref>>(&self, keys: &[Q], out: &mut [bool]) -> Result<()> {
        self.handle.run(|engine| {
            let contains = |key: &[u8], h| engine.contains_bytes(key, h);
            self.look_up_many(keys, out, |word| Ok(word.is_some()), contains)
        })
    }

    /// Many lookups at once: `word` makes the answer of a value that is a word, `one` looks up another.
    #[inline(always)]
    pub(super) fn look_up_many<Q: Borrow<K::Ref>, T>(
        &self,
        keys: &[Q],
        out: &mut [T],
        word: impl Fn(Option<u64>) -> Result<T>,
        one: impl Fn(&[u8], KeyHash) -> Result<T>,
    ) -> Result<()> {
        assert_eq!(keys.len(), out.len(), "a place for every answer");
        if !Self::WORDS {
            for (keys, out) in keys.chunks(PREFETCHED).zip(out.chunks_mut(PREFETCHED)) {
                let engine = &self.handle.engine;
                let mut hashes = [KeyHash::default(); PREFETCHED];
                for (h, key) in hashes.iter_mut().zip(keys) {
                    *h = engine.key_hash(K::bytes(key.borrow(), &mut K::Buffer::default()));
                }
                engine.prefetch_records(&hashes[..keys.len()])?;
                for ((key, h), out) in keys.iter().zip(hashes).zip(out) {
                    *out = one(K::bytes(key.borrow(), &mut K::Buffer::default()), h)?;
                }
            }
            return Ok(());
        }
        let (mut hashes, mut words) = ([0; BATCH], [None; BATCH]);
        for (keys, out) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)) {
            let (hashes, words) = (&mut hashes[..keys.len()], &mut words[..keys.len()]);
            for (h, key) in hashes.iter_mut().zip(keys) {
                *h = self.hash(key.borrow());
            }
            self.handle.engine.index.get_many(hashes, words)?;
            for (out, found) in out.iter_mut().zip(words) {
                *out = word(*found)?;
            }
        }
        Ok(())
    }

    /// Inserts or replaces many pairs, in their order.
    ///
    /// **Durability.** `Ok` means that all entries outlive a crash. After a crash, or an error, a
    /// prefix of the pairs is in the map.
    /// **Concurrency.** Each pair is put as by [`put`](Map::put), at an instant of its own.
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    ///
    /// ```
    /// let map: durahash::Map<str, u64> = durahash::Options::new().in_memory()?;
    /// map.put_many(&[("one", 1), ("two", 2)])?;
    /// assert_eq!(map.len()?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put_many<Q: Borrow<K::Ref>, W: Borrow<V::Ref>>(&self, pairs: &[(Q, W)]) -> Result<()> {
        self.handle.run(|engine| {
            engine.batch(|| {
                for pairs in pairs.chunks(PREFETCHED) {
                    let keys = pairs.iter().map(|(key, _)| key.borrow());
                    let mut hashes = [0; PREFETCHED];
                    engine.index.prefetch(engine.hash_many::<K>(keys, Self::WORDS, &mut hashes));
                    for (key, value) in pairs {
                        self.put(key.borrow(), value.borrow())?;
                    }
                }
                Ok(())
            })
        })
    }

    /// All keys and values. Their order has no meaning.
    ///
    /// **Concurrency.** Every key that is there from the first step to the last is given exactly
    /// once; one that comes or goes meanwhile may be given or not. Writers do not wait for an iterator. It
    /// keeps the pool open.
    ///
    /// # Errors
    /// An item is an error where an entry is damaged; the iterator goes on behind it if it can.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put_many(&[(1, 10), (2, 20)])?;
    /// let mut pairs = map.iter().collect::<durahash::Result<Vec<_>>>()?;
    /// pairs.sort();
    /// assert_eq!(pairs, [(1, 10), (2, 20)]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn iter(&self) -> Iter<K, V> {
        Iter::new(self.handle.clone())
    }

    /// The design's part of [`stats`](Map::stats), at the cost of a few loads: for benchmarks that
    /// look after every operation.
    #[doc(hidden)]
    #[must_use]
    pub fn index_stats(&self) -> IndexStats {
        self.handle.engine.index.stats()
    }

    common_methods! {
        entries: "keys",
        example: "let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;",
        put: "map.put(&1, &10)?;"
    }
}

typed_traits!(Map, Iter);
