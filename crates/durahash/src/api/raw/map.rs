//! Maps with keys and values as bytes.

use std::cell::RefCell;

use durahash_media::Result;

use super::{change, change_many, checked, look, look_up_many, with_word};
use crate::api::any::AnyMap;
use crate::api::scan::{Cursor, step};
use crate::engine::edit::Rule;
use crate::engine::entries::Entries;
use crate::engine::outcome::Outcome;
use crate::engine::records::Pair;

/// Keys and values as the bytes that the pool keeps: numbers in little-endian order, texts in UTF-8. Bytes that are no
/// value of the pool's type are [`Text`](crate::ErrorKind::Text); else durability, concurrency and errors are those
/// of [`Map`](crate::Map), method by method.
///
/// ```
/// use durahash::{AnyMap, Options, Type};
/// let map: AnyMap = Options::new().types(Type::U32, Type::Str).in_memory()?;
/// map.put_raw(&7_u32.to_le_bytes(), b"seven")?;
/// assert_eq!(map.get_raw(&7_u32.to_le_bytes(), |value| value.len())?, Some(5));
/// assert!(map.put_raw(&[7], b"seven").is_err());
/// assert_eq!(map.remove_raw(&7_u32.to_le_bytes())?.as_deref(), Some(&b"seven"[..]));
/// # Ok::<(), durahash::Error>(())
/// ```
impl AnyMap {
    /// Calls `f` with the value of `key`, if there is one, and returns its result. No lock is held.
    ///
    /// # Errors
    /// As [`Map::get`](crate::Map::get).
    #[inline]
    pub fn get_raw<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.handle.run(|engine| {
            let key = checked(engine.key, key)?;
            if !engine.is_words() {
                return look(engine, key, engine.key_hash(key), f);
            }
            let found = engine.index.get(engine.word_hash(key))?;
            found.map(|word| with_word(engine.value, word, f)).transpose()
        })
    }

    /// True if `key` has a value.
    ///
    /// # Errors
    /// As [`Map::get`](crate::Map::get).
    pub fn contains_raw(&self, key: &[u8]) -> Result<bool> {
        self.handle.run(|engine| {
            let key = checked(engine.key, key)?;
            if engine.is_words() {
                return Ok(engine.index.get(engine.word_hash(key))?.is_some());
            }
            engine.contains_bytes(key, engine.key_hash(key))
        })
    }

    /// Inserts or replaces the value of `key`.
    ///
    /// # Errors
    /// As [`Map::put`](crate::Map::put).
    #[inline]
    pub fn put_raw(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.handle.run(|engine| change(engine, key, Some(value), Rule::Always, None).map(drop))
    }

    /// Removes `key`; returns the value it had.
    ///
    /// # Errors
    /// As [`Map::remove`](crate::Map::remove).
    pub fn remove_raw(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.handle.run(|engine| {
            let mut old = Vec::new();
            let (_, had) = change(engine, key, None, Rule::Always, Some(&mut old))?;
            Ok(had.then_some(old))
        })
    }

    /// Gives `key` the value `new`, or removes it, if it has the value `old`, or none.
    ///
    /// # Errors
    /// As [`Map::compare_exchange`](crate::Map::compare_exchange).
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Outcome, Type};
    /// let map: AnyMap = Options::new().types(Type::Str, Type::Str).in_memory()?;
    /// assert_eq!(map.compare_exchange_raw(b"key", None, Some(b"a"))?, Outcome::Done);
    /// assert_eq!(map.compare_exchange_raw(b"key", None, Some(b"b"))?, Outcome::Present(b"a".to_vec()));
    /// assert_eq!(map.compare_exchange_raw(b"key", Some(b"a"), None)?, Outcome::Done);
    /// assert_eq!(map.compare_exchange_raw(b"key", Some(b"a"), None)?, Outcome::Absent);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn compare_exchange_raw(
        &self,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Outcome<Vec<u8>>> {
        self.handle.run(|engine| {
            let mut found = Vec::new();
            let (done, had) = match (old, new) {
                (Some(old), new) => {
                    let rule = Rule::IfEqual(checked(engine.value, old)?);
                    change(engine, key, new, rule, Some(&mut found))?
                }
                (None, Some(_)) => change(engine, key, new, Rule::IfAbsent, Some(&mut found))?,
                (None, None) => match self.get_raw(key, <[u8]>::to_vec)? {
                    Some(value) => return Ok(Outcome::Present(value)),
                    None => (true, false),
                },
            };
            Ok(match (done, had) {
                (true, _) => Outcome::Done,
                (false, true) => Outcome::Present(found),
                (false, false) => Outcome::Absent,
            })
        })
    }

    /// Calls `found` with the value of each of `count` keys, in their order.
    ///
    /// # Errors
    /// As [`Map::get_many`](crate::Map::get_many).
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// let map: AnyMap = Options::new().types(Type::Str, Type::Str).in_memory()?;
    /// let (keys, values) = ([b"a", b"b"], [b"1", b"2"]);
    /// map.put_many_raw(1, |i| (keys[i], values[i]))?;
    /// let mut lengths = Vec::new();
    /// map.get_many_raw(2, |i| keys[i], |_, value| lengths.push(value.map(|value| value.len())))?;
    /// assert_eq!(lengths, [Some(1), None]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_many_raw<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8],
        found: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let found = RefCell::new(found);
        self.handle.run(|engine| {
            let word = |i, word: Option<u64>| match word {
                Some(word) => with_word(engine.value, word, |v| found.borrow_mut()(i, Some(v))),
                None => {
                    found.borrow_mut()(i, None);
                    Ok(())
                }
            };
            look_up_many(engine, count, key, word, |i, key, h| {
                if look(engine, key, h, |v| found.borrow_mut()(i, Some(v)))?.is_none() {
                    found.borrow_mut()(i, None);
                }
                Ok(())
            })
        })
    }

    /// Calls `found` for each of `count` keys, with true if it has a value.
    ///
    /// # Errors
    /// As [`Map::contains_many`](crate::Map::contains_many).
    pub fn contains_many_raw<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8],
        found: impl FnMut(usize, bool),
    ) -> Result<()> {
        let found = RefCell::new(found);
        self.handle.run(|engine| {
            let tell = |i, is_there| {
                found.borrow_mut()(i, is_there);
                Ok(())
            };
            let word = |i, word: Option<u64>| tell(i, word.is_some());
            look_up_many(engine, count, key, word, |i, key, h| {
                tell(i, engine.contains_bytes(key, h)?)
            })
        })
    }

    /// Inserts or replaces `count` pairs, in their order.
    ///
    /// # Errors
    /// As [`Map::put_many`](crate::Map::put_many).
    pub fn put_many_raw<'k>(
        &self,
        count: usize,
        pair: impl Fn(usize) -> (&'k [u8], &'k [u8]),
    ) -> Result<()> {
        self.many(count, |i| pair(i).0, |i| Some(pair(i).1), Rule::Always, |_, _| ())
    }

    /// Inserts those of `count` pairs whose keys are absent, in their order; calls `done` for each, with true if it was
    /// inserted.
    ///
    /// # Errors
    /// As [`Map::put_many`](crate::Map::put_many).
    pub fn insert_many_raw<'k>(
        &self,
        count: usize,
        pair: impl Fn(usize) -> (&'k [u8], &'k [u8]),
        done: impl FnMut(usize, bool),
    ) -> Result<()> {
        self.many(count, |i| pair(i).0, |i| Some(pair(i).1), Rule::IfAbsent, done)
    }

    /// Removes `count` keys; calls `done` for each, with true if it had a value.
    ///
    /// # Errors
    /// As [`Map::remove_many`](crate::Map::remove_many).
    pub fn remove_many_raw<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8],
        done: impl FnMut(usize, bool),
    ) -> Result<()> {
        self.many(count, key, |_| None, Rule::Always, done)
    }

    fn many<'k>(
        &self,
        count: usize,
        key: impl Fn(usize) -> &'k [u8],
        new: impl Fn(usize) -> Option<&'k [u8]>,
        rule: Rule<'_>,
        mut done: impl FnMut(usize, bool),
    ) -> Result<()> {
        self.handle.run(|engine| {
            let prefetch = |hashes: &[u64]| engine.index.prefetch(hashes);
            change_many(engine, count, &key, prefetch, |i| {
                let (is_done, _) = change(engine, key(i), new(i), rule, None)?;
                done(i, is_done);
                Ok(())
            })
        })
    }

    /// The next entries of a walk, about `n`, and the cursor for those after them, as [`Map::scan`](crate::Map::scan).
    ///
    /// # Errors
    /// As there.
    pub fn scan_raw(&self, from: Cursor, n: usize) -> Result<(Vec<Pair>, Option<Cursor>)> {
        self.handle.run(|_| step(&self.handle, from, n, Entries::next_raw))
    }
}
