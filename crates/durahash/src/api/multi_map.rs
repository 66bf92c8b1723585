//! Typed multimaps.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;

use durahash_media::{Durability, Result};

use super::common::{common_methods, in_pieces, remove_unless, typed_traits};
use super::iter::MultiIter;
use crate::engine::Multi;
use crate::engine::data::{Data, no_value};
use crate::engine::design::Design;
use crate::engine::maps::Handle;
use crate::engine::stats::Stats;
use crate::index::{Finding, OneKey, PREFETCHED, Values};

/// A durable map from `K` to any number of `V` for each key, made by [`Options`](crate::Options).
///
/// The values of a key are a multiset: equal ones are kept apart, and have no order. A few values of
/// a key stand where those of a map would, many of them one behind the other in a buffer that grows
/// with them, so that adding takes the same time however many there are. Only Pea Hash has
/// multimaps.
///
/// A multimap is a handle: clones share one pool, every operation takes `&self`, and threads need
/// nothing else. The pool is closed when the last handle, and the last iterator, is gone.
///
/// **Durability.** When an operation returns, its change and all that it saw survive the crashes that
/// [`durability`](MultiMap::durability) names. An operation that returns an error has
/// changed nothing, with two exceptions: the earlier part of a batch may be there, and after
/// [`Io`](crate::ErrorKind::Io) behind a log the next open may find the operation or not.
///
/// **Concurrency.** Every operation on one key is linearizable, also one that reads or removes all of
/// its values: it takes effect at one instant between its call and its return. Readers take no lock,
/// unless writers of the same bucket keep them from finishing again and again. In the mode
/// [`Strict`](crate::SyncMode::Strict) they wait for batches that are not on the disk yet. Operations on
/// several keys (batches, iteration, [`clear`](MultiMap::clear), [`len`](MultiMap::len)) are not one
/// instant.
///
/// ```
/// use durahash::{MultiMap, Options};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("edges.pool");
/// let edges: MultiMap<u32, u32> = Options::new().create(&path)?;
/// edges.add(&1, &2)?;
/// edges.add(&1, &3)?;
/// edges.close()?;
///
/// let edges: MultiMap<u32, u32> = Options::new().open(&path)?;
/// let mut ends = edges.get_all(&1)?;
/// ends.sort();
/// assert_eq!(ends, [2, 3]);
/// assert!(edges.remove_one(&1, &2)?);
/// assert_eq!(edges.count(&1)?, 1);
/// # Ok(())
/// # }
/// ```
pub struct MultiMap<K: Data + ?Sized, V: Data + ?Sized> {
    pub(super) handle: Handle<Multi>,
    types: PhantomData<fn(&K, &V)>,
}

impl<K: Data + ?Sized, V: Data + ?Sized> MultiMap<K, V> {
    /// True if entries are keys and values themselves.
    const WORDS: bool = K::TYPE.is_word() && V::TYPE.is_word();

    pub(crate) fn new(handle: Handle<Multi>) -> Self {
        debug_assert!(handle.engine.key == K::TYPE && handle.engine.value == V::TYPE);
        MultiMap { handle, types: PhantomData }
    }

    fn hash(&self, key: &K::Ref) -> u64 {
        self.handle.engine.hash::<K>(key, Self::WORDS)
    }

    /// Adds a value of `key`, beside those that it has.
    ///
    /// **Durability.** `Ok` means the entry outlives a crash; `Err` leaves the multimap as it was, except as
    /// [`MultiMap`] says.
    /// **Concurrency.** Takes effect when it is durable. One that does not return because of a crash
    /// may have taken effect: a program that adds again may have added twice.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) when the pool has to grow and may not or cannot;
    /// [`Skewed`](crate::ErrorKind::Skewed) when too many keys share a hash prefix, or more than a
    /// dozen keys of bytes a hash; [`TooLarge`](crate::ErrorKind::TooLarge) for a key beyond
    /// [`MAX_KEY_BYTES`](crate::MAX_KEY_BYTES) or a value beyond
    /// [`MAX_VALUE_BYTES`](crate::MAX_VALUE_BYTES);
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned);
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the pool is damaged.
    ///
    /// ```
    /// let map: durahash::MultiMap<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.add(&1, &10)?;
    /// map.add(&1, &10)?;
    /// assert_eq!(map.get_all(&1)?, [10, 10]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn add(&self, key: &K::Ref, value: &V::Ref) -> Result<()> {
        self.handle.run(|engine| {
            if Self::WORDS {
                return engine.add_word(self.hash(key), V::to_word(value));
            }
            let (mut of_key, mut of_value) = (K::Buffer::default(), V::Buffer::default());
            engine.add(K::bytes(key, &mut of_key), V::bytes(value, &mut of_value))
        })
    }

    /// Adds many pairs, in their order.
    ///
    /// **Durability.** `Ok` means that all entries outlive a crash. After a crash, or an error, a
    /// prefix of the pairs was added.
    /// **Concurrency.** Each pair is added as by [`add`](MultiMap::add), at an instant of its own.
    ///
    /// # Errors
    /// As [`add`](MultiMap::add).
    ///
    /// ```
    /// let map: durahash::MultiMap<str, u64> = durahash::Options::new().in_memory()?;
    /// map.add_many(&[("one", 1), ("one", 2)])?;
    /// assert_eq!(map.len()?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn add_many<Q: Borrow<K::Ref>, W: Borrow<V::Ref>>(&self, pairs: &[(Q, W)]) -> Result<()> {
        self.handle.run(|engine| {
            engine.batch(|| {
                for pairs in pairs.chunks(PREFETCHED) {
                    let keys = pairs.iter().map(|(key, _)| key.borrow());
                    let mut hashes = [0; PREFETCHED];
                    engine.index.prefetch(engine.hash_many::<K>(keys, Self::WORDS, &mut hashes));
                    for (key, value) in pairs {
                        self.add(key.borrow(), value.borrow())?;
                    }
                }
                Ok(())
            })
        })
    }

    /// Adds all pairs of an iterator, as [`add_many`](MultiMap::add_many) does a thousand at a time.
    ///
    /// # Errors
    /// As [`add`](MultiMap::add); a prefix of the pairs was added then.
    ///
    /// ```
    /// let map: durahash::MultiMap<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.extend((0..5000).map(|i| (i % 10, i)))?;
    /// assert_eq!(map.count(&3)?, 500);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn extend<Q: Borrow<K::Ref>, W: Borrow<V::Ref>>(
        &self,
        pairs: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<()> {
        in_pieces(pairs, |pairs| self.add_many(pairs))
    }

    /// Calls `f` with each value of `key`, in no order; how many there were.
    ///
    /// The values are a copy of all of them at one instant, and no lock is held: `f` may use the
    /// multimap.
    ///
    /// **Concurrency.** Never blocks a writer for good, and never gives a value that a crash that
    /// [`durability`](MultiMap::durability) covers could take back.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the pool is damaged; [`Io`](crate::ErrorKind::Io) once its disk has failed;
    /// [`WriterGone`](crate::ErrorKind::WriterGone) of a [reader](crate::Options::readers) whose writer has gone.
    ///
    /// ```
    /// let map: durahash::MultiMap<str, u64> = durahash::Options::new().in_memory()?;
    /// map.add_many(&[("key", 1), ("key", 2)])?;
    /// let mut sum = 0;
    /// assert_eq!(map.each("key", |value| sum += value)?, 2);
    /// assert_eq!(sum, 3);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn each(&self, key: &K::Ref, mut f: impl FnMut(&V::Ref)) -> Result<u64> {
        self.handle.run(|engine| {
            if Self::WORDS {
                let words = self.words(key)?;
                for word in &words {
                    f(V::from_word(*word).ok_or_else(no_value)?.borrow());
                }
                return Ok(words.len() as u64);
            }
            let mut buffer = K::Buffer::default();
            engine.each_value(K::bytes(key, &mut buffer), &mut |bytes| {
                V::with(bytes, &mut f).ok_or_else(no_value)
            })
        })
    }

    /// The values of a key that are words.
    fn words(&self, key: &K::Ref) -> Result<Vec<u64>> {
        let mut found = Values::default();
        self.handle.engine.index.read(self.hash(key), &OneKey, &mut found, &mut |_, _| Ok(()))?;
        Ok(found.payloads)
    }

    /// All values of `key`, in no order.
    ///
    /// **Concurrency.** As [`each`](MultiMap::each).
    ///
    /// # Errors
    /// As [`each`](MultiMap::each).
    ///
    /// ```
    /// let map: durahash::MultiMap<str, str> = durahash::Options::new().in_memory()?;
    /// assert!(map.get_all("key")?.is_empty());
    /// map.add("key", "value")?;
    /// assert_eq!(map.get_all("key")?, ["value"]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_all(&self, key: &K::Ref) -> Result<Vec<V::Owned>> {
        self.handle.run(|engine| {
            if Self::WORDS {
                let words = self.words(key)?;
                return words.into_iter().map(|w| V::from_word(w).ok_or_else(no_value)).collect();
            }
            let mut all = Vec::new();
            let mut buffer = K::Buffer::default();
            engine.each_value(K::bytes(key, &mut buffer), &mut |bytes| {
                all.push(V::from_bytes(bytes).ok_or_else(no_value)?);
                Ok(())
            })?;
            Ok(all)
        })
    }

    /// Returns the number of values of `key`, without reading them.
    ///
    /// **Concurrency.** As [`each`](MultiMap::each).
    ///
    /// # Errors
    /// As [`each`](MultiMap::each).
    ///
    /// ```
    /// let map: durahash::MultiMap<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.add_many(&[(1, 10), (1, 11), (2, 20)])?;
    /// assert_eq!((map.count(&1)?, map.count(&3)?), (2, 0));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn count(&self, key: &K::Ref) -> Result<u64> {
        self.handle.run(|engine| {
            if Self::WORDS {
                return engine.index.count(self.hash(key), &OneKey);
            }
            engine.count(K::bytes(key, &mut K::Buffer::default()))
        })
    }

    /// True if `key` has a value.
    ///
    /// **Concurrency.** As [`each`](MultiMap::each).
    ///
    /// # Errors
    /// As [`each`](MultiMap::each).
    ///
    /// ```
    /// let map: durahash::MultiMap<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.add(&1, &10)?;
    /// assert!(map.contains_key(&1)? && !map.contains_key(&2)?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn contains_key(&self, key: &K::Ref) -> Result<bool> {
        Ok(self.count(key)? > 0)
    }

    /// Removes one of the values of `key` that equal `value`; false if there was none.
    ///
    /// **Durability.** `Ok` means that it stays away after a crash; `Err` leaves the multimap as it
    /// was. **Concurrency.** Takes effect when it is durable. **Cost.** It looks for the value among
    /// all of the key, the newest buffer first, while writers near the key wait.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned),
    /// [`Corrupt`](crate::ErrorKind::Corrupt) as for [`add`](MultiMap::add). A full pool is no reason
    /// to fail.
    ///
    /// ```
    /// let map: durahash::MultiMap<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.add_many(&[(1, 10), (1, 10)])?;
    /// assert!(map.remove_one(&1, &10)?);
    /// assert_eq!(map.get_all(&1)?, [10]);
    /// assert!(!map.remove_one(&1, &11)?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_one(&self, key: &K::Ref, value: &V::Ref) -> Result<bool> {
        self.handle.run(|engine| {
            if Self::WORDS {
                let word = V::to_word(value);
                let wanted = &mut |v| Ok(v == word);
                return Ok(engine.index.remove_one(self.hash(key), &OneKey, wanted)?.is_some());
            }
            let (mut of_key, mut of_value) = (K::Buffer::default(), V::Buffer::default());
            engine.remove_one(K::bytes(key, &mut of_key), V::bytes(value, &mut of_value))
        })
    }

    /// Removes all values of `key` at once; how many they were.
    ///
    /// **Durability.** `Ok` means that they stay away after a crash; a crash before leaves all of them
    /// or none. **Concurrency.** As [`remove_one`](MultiMap::remove_one).
    ///
    /// # Errors
    /// As [`remove_one`](MultiMap::remove_one).
    ///
    /// ```
    /// let map: durahash::MultiMap<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.add_many(&[(1, 10), (1, 11)])?;
    /// assert_eq!(map.remove_all(&1)?, 2);
    /// assert_eq!(map.remove_all(&1)?, 0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_all(&self, key: &K::Ref) -> Result<u64> {
        self.handle.run(|engine| {
            if Self::WORDS {
                return engine.index.remove_all(self.hash(key), &OneKey, None);
            }
            engine.remove_all(K::bytes(key, &mut K::Buffer::default()))
        })
    }

    /// Removes all pairs but those of which `f` says that they stay; returns how many it removed.
    ///
    /// **Durability.** All that were removed stay away after a crash once this returns.
    /// **Concurrency.** As [`iter`](MultiMap::iter). `f` runs while no lock is held.
    ///
    /// # Errors
    /// As [`iter`](MultiMap::iter) and [`remove_one`](MultiMap::remove_one); some pairs may be gone then.
    ///
    /// ```
    /// let map: durahash::MultiMap<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.add_many(&[(1, 10), (1, 11), (2, 21)])?;
    /// assert_eq!(map.retain(|_, value| value % 2 == 1)?, 1);
    /// assert_eq!(map.get_all(&1)?, [11]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn retain(&self, mut f: impl FnMut(&K::Ref, &V::Ref) -> bool) -> Result<u64> {
        self.handle.run(|engine| {
            let keep = |(key, value): &(K::Owned, V::Owned)| f(key.borrow(), value.borrow());
            remove_unless(self.iter(), keep, |pairs| {
                engine.batch(|| {
                    pairs.iter().try_fold(0, |removed, (key, value)| {
                        Ok(removed + u64::from(self.remove_one(key.borrow(), value.borrow())?))
                    })
                })
            })
        })
    }

    /// All keys and values, each pair as often as it is there. Their order has no meaning.
    ///
    /// **Concurrency.** Every pair that is there from the first step to the last is given exactly
    /// as often as it is there; one that comes or goes meanwhile may be given or not. The values of
    /// one key are those of one instant. Writers do not wait for an iterator. It keeps the pool open.
    ///
    /// # Errors
    /// An item is an error where an entry is damaged; the iterator goes on behind it if it can.
    ///
    /// ```
    /// let map: durahash::MultiMap<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.add_many(&[(1, 10), (1, 10), (2, 20)])?;
    /// let mut pairs = map.iter().collect::<durahash::Result<Vec<_>>>()?;
    /// pairs.sort();
    /// assert_eq!(pairs, [(1, 10), (1, 10), (2, 20)]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn iter(&self) -> MultiIter<K, V> {
        MultiIter::new(self.handle.clone())
    }

    /// Returns the number of keys that have their values in buffers. It looks at every slot.
    #[doc(hidden)]
    pub fn lists(&self) -> Result<u64> {
        self.handle.run(|engine| engine.lists())
    }

    common_methods! {
        entries: "pairs of a key and a value",
        example: "let map: durahash::MultiMap<u64, u64> = durahash::Options::new().in_memory()?;",
        put: "map.add(&1, &10)?;"
    }
}

typed_traits!(MultiMap, MultiIter);
