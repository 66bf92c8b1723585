//! Changes of caches.

use std::borrow::Borrow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use durahash_media::Result;

use super::super::map::with_scratch;
use super::bounds::{Place, overtaken};
use super::evict::growth;
use super::{Cache, time_of};
use crate::cache::clock::millis_of;
use crate::engine::data::{Data, no_value};
use crate::engine::expiry::{NEVER, is_over, split};
use crate::engine::outcome::Outcome;
use crate::index::{Change, Room};

/// An expiry that is this long after `now`.
fn after(now: u64, lifetime: Duration) -> u64 {
    now.saturating_add(millis_of(lifetime)).max(NEVER + 1)
}

/// Appends a value with its expiry to `out`.
fn write<V: Data + ?Sized>(expiry: u64, value: &V::Ref, out: &mut Vec<u8>) {
    out.extend_from_slice(&expiry.to_le_bytes());
    out.extend_from_slice(V::bytes(value, &mut V::Buffer::default()));
}

/// The expiry and the value of bytes, if they are one.
fn decode<V: Data + ?Sized>(bytes: &[u8]) -> Option<(u64, V::Owned)> {
    let (expiry, value) = split(bytes)?;
    V::from_bytes(value).map(|value| (expiry, value))
}

/// What a closure has said of an entry, while room is made for it.
struct Said<R> {
    /// The value with its expiry that it was told of.
    of: Option<Vec<u8>>,
    new: Vec<u8>,
    result: R,
    /// Bytes of the entry, and how many more these are.
    after: i64,
    more: i64,
}

/// The change to this value with its expiry.
fn set<V: Data + ?Sized>(expiry: u64, value: &V::Ref) -> Change<Vec<u8>> {
    let mut bytes = Vec::new();
    write::<V>(expiry, value, &mut bytes);
    Change::Set(bytes)
}

impl<K: Data + ?Sized, V: Data + ?Sized> Cache<K, V> {
    /// Inserts or replaces the value of `key`, a damaged one too. The entry does not expire.
    ///
    /// **Durability** and **Concurrency.** As [`Map::put`](crate::Map::put).
    ///
    /// # Errors
    /// As [`Map::insert`](crate::Map::insert).
    ///
    /// ```
    /// let cache: durahash::Cache<str, [u8]> = durahash::Options::new().in_memory()?;
    /// cache.put("key", b"value")?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put(&self, key: &K::Ref, value: &V::Ref) -> Result<()> {
        self.put_with(key, value, NEVER)
    }

    /// Inserts or replaces the value of `key`, which expires after `lifetime`.
    ///
    /// **Durability** and **Concurrency.** As [`put`](Cache::put). The lifetime begins with the call.
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    ///
    /// ```
    /// use std::time::Duration;
    /// let cache: durahash::Cache<str, str> = durahash::Options::new().in_memory()?;
    /// cache.put_for("key", "value", Duration::from_secs(60))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put_for(&self, key: &K::Ref, value: &V::Ref, lifetime: Duration) -> Result<()> {
        self.put_with(key, value, after(self.inner.time.now(), lifetime))
    }

    /// Inserts or replaces the value of `key`, which expires at this time of day: at once, if that is past.
    ///
    /// **Durability** and **Concurrency.** As [`put`](Cache::put).
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// let cache: durahash::Cache<str, str> = durahash::Options::new().in_memory()?;
    /// cache.put_until("key", "value", SystemTime::now() + Duration::from_secs(60))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put_until(&self, key: &K::Ref, value: &V::Ref, at: SystemTime) -> Result<()> {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.put_with(key, value, after(0, since))
    }

    fn put_with(&self, key: &K::Ref, value: &V::Ref, expiry: u64) -> Result<()> {
        let stored = self.map.handle.run(|engine| {
            if expiry == NEVER
                && let Some((h, payload)) = engine.in_slot::<K, V>(key, value)
                && self.inner.put_in_slot(h, payload)?
            {
                return Ok(());
            }
            with_scratch(|bytes| {
                write::<V>(expiry, value, bytes);
                self.inner.put(K::bytes(key, &mut K::Buffer::default()), bytes)
            })
        });
        self.inner.notes(expiry);
        stored
    }

    /// Changes the entry of `key`, while its bucket is locked, as `f` says of the expiry and the value that it has, and
    /// of the time; one that has expired is none. Returns the other result of `f`.
    ///
    /// Where there is no room for what `f` says, room is made, and `f` is called again. It answers `None` where it cannot be: then what it
    /// has said is stored, if the entry is still what it was told of.
    fn change<R>(
        &self,
        key: &K::Ref,
        room: Room,
        mut f: impl FnMut(Option<(u64, V::Owned)>, u64) -> Option<(Change<Vec<u8>>, R)>,
    ) -> Result<R> {
        let inner = &*self.inner;
        let mut buffer = K::Buffer::default();
        let bytes = K::bytes(key, &mut buffer);
        let (mut said, mut done) = (None::<Said<R>>, None);
        loop {
            let (mut place, turn) = self.map.handle.run(|_| {
                let place = match &said {
                    None => inner.place(bytes, room, (0, 0), false)?,
                    Some(said) => inner.place(bytes, room, (said.after, said.more), true)?,
                };
                Ok((place, inner.turn(bytes)?))
            })?;
            let may_insert = Place::room(&place, room);
            let (mut sizes, mut is_late, mut new_expiry) = ((None, None), false, NEVER);
            let mut refused = None;
            let updated = self.map.update_in(key, may_insert, |old| {
                let now = inner.time.now();
                let found = match old.as_deref().map(decode::<V>) {
                    // Bytes that are no value: nothing is changed.
                    Some(None) => return Change::Keep,
                    found => found.flatten(),
                };
                let live = found.filter(|(expiry, _)| !is_over(*expiry, now));
                // What has expired since the turn began is kept first; what has gone needs a place.
                is_late = live.is_none()
                    && if old.is_some() { turn.is_some() } else { may_insert != room };
                if is_late {
                    return Change::Keep;
                }
                let before = old.as_deref().map(|old| inner.bytes(bytes, old));
                let of = old.filter(|_| live.is_some());
                let told = said.take();
                let (new, result) = match f(live, now) {
                    Some((Change::Set(new), result)) => (new, result),
                    Some((change, result)) => {
                        let is_kept = matches!(change, Change::Keep);
                        sizes = (before, before.filter(|_| is_kept));
                        done = Some(result);
                        return change;
                    }
                    None => match told {
                        Some(told) if told.of == of => (told.new, told.result),
                        _ => {
                            refused = told.map(|told| overtaken(told.after));
                            return Change::Keep;
                        }
                    },
                };
                let after = inner.bytes(bytes, &new);
                let more = growth(before, after);
                match inner.may_store(&mut place, after, more) {
                    Ok(true) => {
                        new_expiry = split(&new).map_or(NEVER, |(expiry, _)| expiry);
                        (sizes, done) = ((before, Some(after)), Some(result));
                        return Change::Set(new);
                    }
                    Ok(false) => {
                        is_late = true;
                        said = Some(Said { of, new, result, after, more });
                    }
                    Err(e) => refused = Some(e),
                }
                Change::Keep
            });
            inner.notes(new_expiry);
            updated?;
            drop(turn);
            if let Some(refused) = refused {
                return self.map.handle.run(|_| Err(refused));
            }
            if !is_late {
                let h = inner.handle.engine.records.hash(bytes);
                inner.settle(place, h, sizes.0, sizes.1);
                return done.ok_or_else(no_value);
            }
        }
    }

    /// Changes the value of `key` as `f` says of the one that it has; returns the value that it has then. An entry
    /// keeps its expiry; a new one has none.
    ///
    /// In a full cache another entry goes for an absent key before `f` is called, also if `f` leaves the key absent: it
    /// runs while the bucket is locked, which is too late for that. So is it for a value that becomes longer: if there is
    /// no room for that, [nor beyond the bound](crate::Options::max_bytes_used), room is made when `f` has returned and the
    /// bucket is free, and the value is stored then.
    ///
    /// **Durability** and **Concurrency.** As [`Map::update`](crate::Map::update).
    ///
    /// # Errors
    /// As [`Map::update`](crate::Map::update). [`Full`](crate::ErrorKind::Full), with [`Limit::Overtaken`](crate::Limit::Overtaken),
    /// also where another thread changes the entry, or it goes or expires, while room is made for the new value: nothing is changed
    /// then, but `f` has run.
    ///
    /// ```
    /// use durahash::Change;
    /// let cache: durahash::Cache<str, u64> = durahash::Options::new().in_memory()?;
    /// for _ in 0..3 {
    ///     cache.update("visits", |n| Change::Set(n.unwrap_or(0) + 1))?;
    /// }
    /// assert_eq!(cache.get("visits")?, Some(3));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn update(
        &self,
        key: &K::Ref,
        f: impl FnOnce(Option<V::Owned>) -> Change<V::Owned>,
    ) -> Result<Option<V::Owned>> {
        let mut f = Some(f);
        self.change(key, Room::ForNew, |old, _| {
            let f = f.take()?;
            let expiry = old.as_ref().map_or(NEVER, |(expiry, _)| *expiry);
            let before = old.map(|(_, value)| value);
            Some(match f(before.clone()) {
                Change::Keep => (Change::Keep, before),
                Change::Set(new) => (set::<V>(expiry, new.borrow()), Some(new)),
                Change::Remove => (Change::Remove, None),
            })
        })
    }

    /// The value of `key`; of an absent one the value that `f` makes, which is inserted, and expires after
    /// `lifetime`, if that is given.
    ///
    /// **Durability** and **Concurrency.** As [`Map::get_or_insert_with`](crate::Map::get_or_insert_with). But where room is made for
    /// what `f` has made, as in [`update`](Cache::update), another thread may insert before, whose value is returned then.
    ///
    /// # Errors
    /// As [`update`](Cache::update).
    ///
    /// ```
    /// use std::time::Duration;
    /// let cache: durahash::Cache<u64, str> = durahash::Options::new().in_memory()?;
    /// let minute = Some(Duration::from_secs(60));
    /// assert_eq!(cache.get_or_insert_with(&1, minute, || "one".to_owned())?, "one");
    /// assert_eq!(cache.get_or_insert_with(&1, minute, || unreachable!())?, "one");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_or_insert_with(
        &self,
        key: &K::Ref,
        lifetime: Option<Duration>,
        f: impl FnOnce() -> V::Owned,
    ) -> Result<V::Owned> {
        if let Some(value) = self.get(key)? {
            return Ok(value);
        }
        let mut f = Some(f);
        self.change(key, Room::ForNew, |old, now| match old {
            Some((_, value)) => Some((Change::Keep, value)),
            None => {
                let expiry = lifetime.map_or(NEVER, |lifetime| after(now, lifetime));
                let value = f.take()?();
                Some((set::<V>(expiry, value.borrow()), value))
            }
        })
    }

    /// Inserts `key` with `value` if the key is absent. The entry expires after `lifetime`, if that is given.
    ///
    /// **Durability** and **Concurrency.** As [`put`](Cache::put): of several that try at once, one succeeds. The lifetime begins
    /// with the change.
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use durahash::Outcome;
    /// let locks: durahash::Cache<str, u64> = durahash::Options::new().in_memory()?;
    /// let minute = Some(Duration::from_secs(60));
    /// assert_eq!(locks.try_insert("door", &1, minute)?, Outcome::Done);
    /// assert_eq!(locks.try_insert("door", &2, minute)?, Outcome::Present(1));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn try_insert(
        &self,
        key: &K::Ref,
        value: &V::Ref,
        lifetime: Option<Duration>,
    ) -> Result<Outcome<V::Owned>> {
        if let Some(found) = self.get(key)? {
            return Ok(Outcome::Present(found));
        }
        self.change(key, Room::ForNew, |old, now| {
            Some(match old {
                Some((_, found)) => (Change::Keep, Outcome::Present(found)),
                None => {
                    let expiry = lifetime.map_or(NEVER, |lifetime| after(now, lifetime));
                    (set::<V>(expiry, value), Outcome::Done)
                }
            })
        })
    }

    /// Replaces the value of `key` by `new` if it is `old`. The entry keeps its expiry.
    ///
    /// **Durability** and **Concurrency.** As [`put`](Cache::put).
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    ///
    /// ```
    /// use durahash::Outcome;
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// assert_eq!(cache.compare_exchange(&1, &10, &11)?, Outcome::Absent);
    /// cache.put(&1, &10)?;
    /// assert_eq!(cache.compare_exchange(&1, &10, &11)?, Outcome::Done);
    /// assert_eq!(cache.compare_exchange(&1, &10, &12)?, Outcome::Present(11));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn compare_exchange(
        &self,
        key: &K::Ref,
        old: &V::Ref,
        new: &V::Ref,
    ) -> Result<Outcome<V::Owned>> {
        self.change(key, Room::None, |found, _| {
            let Some((expiry, value)) = found else { return Some((Change::Keep, Outcome::Absent)) };
            // Values are equal if their bits are.
            let (mut of_old, mut of_found) = (V::Buffer::default(), V::Buffer::default());
            Some(if V::bytes(old, &mut of_old) == V::bytes(value.borrow(), &mut of_found) {
                (set::<V>(expiry, new), Outcome::Done)
            } else {
                (Change::Keep, Outcome::Present(value))
            })
        })
    }

    /// Removes `key`; returns the value it had.
    ///
    /// **Durability** and **Concurrency.** As [`Map::remove`](crate::Map::remove).
    ///
    /// # Errors
    /// As [`Map::remove`](crate::Map::remove).
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// assert_eq!(cache.remove(&1)?, Some(10));
    /// assert_eq!(cache.remove(&1)?, None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[doc(alias = "take")]
    pub fn remove(&self, key: &K::Ref) -> Result<Option<V::Owned>> {
        self.change(key, Room::None, |old, _| Some((Change::Remove, old.map(|(_, value)| value))))
    }

    /// Removes `key` if `f` says so of its value, and of the time at which it expires, if it does; returns the value that
    /// was removed.
    ///
    /// **Durability** and **Concurrency.** As [`Map::remove_if`](crate::Map::remove_if).
    ///
    /// # Errors
    /// As [`remove`](Cache::remove).
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// assert_eq!(cache.remove_if(&1, |_, expires| expires.is_some())?, None);
    /// assert_eq!(cache.remove_if(&1, |value, _| *value == 10)?, Some(10));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_if(
        &self,
        key: &K::Ref,
        f: impl FnOnce(&V::Ref, Option<SystemTime>) -> bool,
    ) -> Result<Option<V::Owned>> {
        let mut f = Some(f);
        self.change(key, Room::None, |old, _| {
            let f = f.take()?;
            Some(match old {
                Some((expiry, value)) if f(value.borrow(), time_of(expiry)) => {
                    (Change::Remove, Some(value))
                }
                _ => (Change::Keep, None),
            })
        })
    }

    /// Removes everything, as [`Map::clear`](crate::Map::clear). What has expired is told, where
    /// [that is kept](crate::Options::keep_evicted).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// cache.clear()?;
    /// assert!(cache.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn clear(&self) -> Result<()> {
        self.map.handle.run(|_| self.inner.clear())
    }

    /// Lets the entry of `key` expire after `lifetime`, whatever was set before; false where there is no entry. The entry is
    /// written anew.
    ///
    /// **Durability** and **Concurrency.** As [`update`](Cache::update). The lifetime begins with the change.
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    ///
    /// ```
    /// use std::time::Duration;
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// assert!(cache.expire(&1, Duration::ZERO)?);
    /// assert_eq!(cache.get(&1)?, None);
    /// assert!(!cache.expire(&1, Duration::ZERO)?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn expire(&self, key: &K::Ref, lifetime: Duration) -> Result<bool> {
        self.set_expiry(key, |_, now| after(now, lifetime))
    }

    /// Lets the entry of `key` live for `lifetime` from now on, if it would expire earlier; false where there is no
    /// entry.
    ///
    /// **Durability** and **Concurrency.** As [`expire`](Cache::expire).
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    ///
    /// ```
    /// use std::time::Duration;
    /// let clock = durahash::cache::Clock::manual(0);
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().clock(clock.clone()).in_memory()?;
    /// let minute = Duration::from_secs(60);
    /// cache.put_for(&1, &10, minute)?;
    /// clock.advance(minute / 2);
    /// assert!(cache.touch(&1, minute)?);
    /// clock.advance(minute / 2);
    /// assert_eq!(cache.get(&1)?, Some(10));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn touch(&self, key: &K::Ref, lifetime: Duration) -> Result<bool> {
        self.set_expiry(
            key,
            |expiry, now| {
                if expiry == NEVER { NEVER } else { expiry.max(after(now, lifetime)) }
            },
        )
    }

    /// Lets the entry of `key` never expire; false where there is no entry.
    ///
    /// **Durability** and **Concurrency.** As [`expire`](Cache::expire).
    ///
    /// # Errors
    /// As [`put`](Cache::put).
    ///
    /// ```
    /// use std::time::Duration;
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put_for(&1, &10, Duration::from_secs(60))?;
    /// assert!(cache.persist(&1)?);
    /// assert_eq!(cache.expires_at(&1)?, Some(None));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn persist(&self, key: &K::Ref) -> Result<bool> {
        self.set_expiry(key, |_, _| NEVER)
    }

    /// Gives the entry of `key` the expiry that `f` makes of the one that it has, and of the time; false where there is
    /// no entry.
    fn set_expiry(&self, key: &K::Ref, f: impl Fn(u64, u64) -> u64) -> Result<bool> {
        self.change(key, Room::None, |old, now| {
            Some(match old {
                None => (Change::Keep, false),
                Some((expiry, value)) => match f(expiry, now) {
                    new if new == expiry => (Change::Keep, true),
                    new => (set::<V>(new, value.borrow()), true),
                },
            })
        })
    }
}
