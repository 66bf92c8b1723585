//! Changes of one entry that a closure decides on, at one instant; and what is made of them.

use std::borrow::Borrow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use durahash_media::Result;

use super::common::{in_pieces, remove_unless};
use super::map::Map;
use crate::engine::data::{Data, Integer, no_value};
use crate::engine::edit::Rule;
use crate::index::{Change, Room};

impl<K: Data + ?Sized, V: Data + ?Sized> Map<K, V> {
    /// Changes the entry of `key` as `f` says of the value that it has; returns the value that it has
    /// then. `f` runs once.
    ///
    /// **Durability.** As [`insert`](Map::insert).
    /// **Concurrency.** The read and the change are one instant. `f` runs while the key's bucket is
    /// locked: it should be short. Inside of it an operation on this map, or a change of any map of the
    /// pool, may wait for ever. If it panics, nothing is changed, and the panic goes on.
    ///
    /// # Errors
    /// As [`insert`](Map::insert). One that is found after `f` ran has changed nothing either, but for
    /// [`Io`](crate::ErrorKind::Io) behind a log, as [`Map`] says.
    ///
    /// ```
    /// use durahash::Change;
    /// let map: durahash::Map<str, u64> = durahash::Options::new().in_memory()?;
    /// for _ in 0..3 {
    ///     map.update("visits", |n| Change::Set(n.unwrap_or(0) + 1))?;
    /// }
    /// assert_eq!(map.get("visits")?, Some(3));
    /// let left = map.update("visits", |n| if n == Some(3) { Change::Remove } else { Change::Keep })?;
    /// assert_eq!(left, None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn update(
        &self,
        key: &K::Ref,
        f: impl FnOnce(Option<V::Owned>) -> Change<V::Owned>,
    ) -> Result<Option<V::Owned>> {
        self.update_in(key, Room::ForNew, f)
    }

    /// The same; `room` says if a new entry may be made.
    pub(super) fn update_in(
        &self,
        key: &K::Ref,
        room: Room,
        f: impl FnOnce(Option<V::Owned>) -> Change<V::Owned>,
    ) -> Result<Option<V::Owned>> {
        self.handle.run(|engine| {
            let (mut f, mut panic, mut after) = (Some(f), None, None);
            let mut decide = |old| {
                let f = f.take().expect("an index runs it once");
                catch_unwind(AssertUnwindSafe(|| f(old))).unwrap_or_else(|payload| {
                    panic = Some(payload);
                    Change::Keep
                })
            };
            let updated = if Self::WORDS {
                let mut decide = |old| {
                    // The store of another thread may not be durable yet, and `f` may tell of it.
                    engine.store.wait_until_durable()?;
                    Ok(match decide(Self::value(old)?) {
                        Change::Keep => {
                            after = Self::value(old)?;
                            Change::Keep
                        }
                        Change::Set(new) => {
                            let word = V::to_word(new.borrow());
                            after = Some(new);
                            Change::Set(word)
                        }
                        Change::Remove => Change::Remove,
                    })
                };
                engine.update_word(self.hash(key), room, &mut decide).map(drop)
            } else {
                let value = |old: Option<&[u8]>| match old {
                    Some(old) => V::from_bytes(old).map(Some).ok_or_else(no_value),
                    None => Ok(None),
                };
                let mut decide = |old: Option<&[u8]>| {
                    engine.store.wait_until_durable()?;
                    Ok(match decide(value(old)?) {
                        Change::Keep => {
                            after = value(old)?;
                            Change::Keep
                        }
                        Change::Set(new) => {
                            let bytes = V::bytes(new.borrow(), &mut V::Buffer::default()).to_vec();
                            after = Some(new);
                            Change::Set(bytes)
                        }
                        Change::Remove => Change::Remove,
                    })
                };
                engine.update(K::bytes(key, &mut K::Buffer::default()), room, &mut decide)
            };
            if let Some(panic) = panic {
                resume_unwind(panic);
            }
            updated.map(|()| after)
        })
    }

    /// The value of `key`; of an absent one the value that `f` makes, which is inserted.
    ///
    /// **Durability** and **Concurrency.** As [`get`](Map::get) where there is a value, else as
    /// [`update`](Map::update): of several that come at once, one makes the value for all.
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    ///
    /// ```
    /// let map: durahash::Map<u64, str> = durahash::Options::new().in_memory()?;
    /// assert_eq!(map.get_or_insert_with(&1, || "one".to_owned())?, "one");
    /// assert_eq!(map.get_or_insert_with(&1, || unreachable!())?, "one");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_or_insert_with(
        &self,
        key: &K::Ref,
        f: impl FnOnce() -> V::Owned,
    ) -> Result<V::Owned> {
        if let Some(value) = self.get(key)? {
            return Ok(value);
        }
        let change = |old: Option<_>| if old.is_some() { Change::Keep } else { Change::Set(f()) };
        self.update(key, change)?.ok_or_else(no_value)
    }

    /// Removes `key` if `f` says so of its value; returns the value that was removed.
    ///
    /// **Durability** and **Concurrency.** As [`update`](Map::update).
    ///
    /// # Errors
    /// As [`remove`](Map::remove).
    ///
    /// ```
    /// let sessions: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// sessions.put(&1, &1_700_000_000)?;
    /// assert_eq!(sessions.remove_if(&1, |expires| *expires < 1_600_000_000)?, None);
    /// assert_eq!(sessions.remove_if(&1, |expires| *expires < 1_800_000_000)?, Some(1_700_000_000));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_if(
        &self,
        key: &K::Ref,
        f: impl FnOnce(&V::Ref) -> bool,
    ) -> Result<Option<V::Owned>> {
        let mut removed = None;
        self.update_in(key, Room::None, |old| match old {
            Some(old) if f(old.borrow()) => {
                removed = Some(old);
                Change::Remove
            }
            _ => Change::Keep,
        })?;
        Ok(removed)
    }

    /// Removes all entries but those of which `f` says that they stay; returns how many it removed.
    ///
    /// **Durability.** All that were removed stay away after a crash once this returns.
    /// **Concurrency.** As [`iter`](Map::iter). `f` runs while no lock is held. An entry goes only with the
    /// value of which `f` said so: one that is changed meanwhile stays.
    ///
    /// # Errors
    /// As [`iter`](Map::iter) and [`remove`](Map::remove); some entries may be gone then.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put_many(&[(1, 10), (2, 20), (3, 30)])?;
    /// assert_eq!(map.retain(|key, _| key % 2 == 1)?, 1);
    /// assert_eq!(map.len()?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn retain(&self, mut f: impl FnMut(&K::Ref, &V::Ref) -> bool) -> Result<u64> {
        self.handle.run(|engine| {
            let keep = |(key, value): &(K::Owned, V::Owned)| f(key.borrow(), value.borrow());
            remove_unless(self.iter(), keep, |pairs| {
                engine.batch(|| {
                    pairs.iter().try_fold(0, |removed, (key, value)| {
                        Ok(removed + u64::from(self.remove_equal(key.borrow(), value.borrow())?))
                    })
                })
            })
        })
    }

    /// Removes an entry that is still this; returns true if it was.
    fn remove_equal(&self, key: &K::Ref, value: &V::Ref) -> Result<bool> {
        if Self::WORDS {
            let word = Some(V::to_word(value));
            let mut update = |found| Ok(if found == word { Change::Remove } else { Change::Keep });
            return Ok(
                self.handle.engine.update_word(self.hash(key), Room::None, &mut update)? == word
            );
        }
        let mut buffer = V::Buffer::default();
        let rule = Rule::IfEqual(V::bytes(value, &mut buffer));
        let (outcome, _) = self.handle.engine.change(
            K::bytes(key, &mut K::Buffer::default()),
            None,
            rule,
            None,
        )?;
        Ok(outcome.is_done())
    }

    /// Removes many keys; returns how many of them had values.
    ///
    /// **Durability.** `Ok` means that all stay away after a crash. After a crash, or an error, a prefix
    /// of them is gone.
    /// **Concurrency.** Each key is removed as by [`remove`](Map::remove), at an instant of its own.
    ///
    /// # Errors
    /// As [`remove`](Map::remove).
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put_many(&[(1, 10), (2, 20)])?;
    /// assert_eq!(map.remove_many(&[1, 2, 3])?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_many<Q: Borrow<K::Ref>>(&self, keys: &[Q]) -> Result<u64> {
        self.handle.run(|engine| {
            let mut removed = 0;
            engine.batch(|| {
                for key in keys {
                    removed += u64::from(self.remove(key.borrow())?.is_some());
                }
                Ok(())
            })?;
            Ok(removed)
        })
    }

    /// Inserts or replaces all pairs of an iterator, as [`put_many`](Map::put_many) does a thousand at a
    /// time. There is no `FromIterator`, which could not report an error: make a map, and extend it.
    ///
    /// # Errors
    /// As [`insert`](Map::insert); a prefix of the pairs is in the map then.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.extend((0..5000).map(|i| (i, i * i)))?;
    /// assert_eq!(map.len()?, 5000);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn extend<Q: Borrow<K::Ref>, W: Borrow<V::Ref>>(
        &self,
        pairs: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<()> {
        in_pieces(pairs, |pairs| self.put_many(pairs))
    }

    /// All keys, as [`iter`](Map::iter) gives them.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// assert_eq!(map.keys().collect::<durahash::Result<Vec<_>>>()?, [1]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = Result<K::Owned>> + use<K, V> {
        self.iter().map(|entry| entry.map(|(key, _)| key))
    }

    /// All values, as [`iter`](Map::iter) gives them.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// assert_eq!(map.values().collect::<durahash::Result<Vec<_>>>()?, [10]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn values(&self) -> impl Iterator<Item = Result<V::Owned>> + use<K, V> {
        self.iter().map(|entry| entry.map(|(_, value)| value))
    }
}

impl<K: Data + ?Sized, V: Integer> Map<K, V> {
    /// Adds `by` to the value of `key`, of which 0 is in the place of none; returns the value before. The sum
    /// wraps around, as those of atomics do.
    ///
    /// **Durability** and **Concurrency.** As [`update`](Map::update).
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    ///
    /// ```
    /// let map: durahash::Map<str, u64> = durahash::Options::new().in_memory()?;
    /// assert_eq!(map.fetch_add("hits", 2)?, 0);
    /// assert_eq!(map.fetch_add("hits", 1)?, 2);
    /// assert_eq!(map.get("hits")?, Some(3));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn fetch_add(&self, key: &K::Ref, by: V) -> Result<V> {
        let mut before = V::ZERO;
        self.update(key, |old| {
            before = old.unwrap_or(before);
            Change::Set(before.plus(by))
        })?;
        Ok(before)
    }
}

impl<K: Data + ?Sized, V: Data<Ref = [u8]> + ?Sized> Map<K, V> {
    /// Copies the value of `key` into `out`, in the place of what was there; returns true if there is one.
    ///
    /// **Concurrency.** As [`get`](Map::get).
    ///
    /// # Errors
    /// As [`get`](Map::get); `out` holds anything then.
    ///
    /// ```
    /// let map: durahash::Map<str, [u8]> = durahash::Options::new().in_memory()?;
    /// map.put("key", b"value")?;
    /// let mut out = Vec::new();
    /// assert!(map.get_into("key", &mut out)?);
    /// assert_eq!(out, b"value");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_into(&self, key: &K::Ref, out: &mut Vec<u8>) -> Result<bool> {
        self.handle.run(|engine| {
            out.clear();
            let mut buffer = K::Buffer::default();
            let key = K::bytes(key, &mut buffer);
            engine.get_bytes(key, engine.key_hash(key), out)
        })
    }
}
