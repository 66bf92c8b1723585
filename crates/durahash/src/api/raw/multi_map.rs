//! Multimaps with keys and values as bytes.

use durahash_media::Result;

use super::{change_many, checked, with_word};
use crate::api::any::AnyMultiMap;
use crate::api::scan::{Cursor, step};
use crate::engine::data::Type;
use crate::engine::entries::Entries;
use crate::engine::records::Pair;
use crate::index::{OneKey, Values};

/// Keys and values as the bytes that the pool keeps, as of [`AnyMap`](crate::AnyMap).
///
/// ```
/// use durahash::{AnyMultiMap, Cursor, Options, Type};
/// let map: AnyMultiMap = Options::new().types(Type::Str, Type::U8).in_memory()?;
/// map.add_raw(b"key", &[1])?;
/// map.add_raw(b"key", &[2])?;
/// assert_eq!((map.count_raw(b"key")?, map.remove_one_raw(b"key", &[1])?), (2, true));
/// let mut values = Vec::new();
/// map.each_raw(b"key", |value| values.push(value[0]))?;
/// assert_eq!(values, [2]);
/// assert_eq!(map.scan_raw(Cursor::START, 10)?.0, [(b"key".to_vec(), vec![2])]);
/// # Ok::<(), durahash::Error>(())
/// ```
impl AnyMultiMap {
    /// Adds a value of `key`.
    ///
    /// # Errors
    /// As [`MultiMap::add`](crate::MultiMap::add).
    pub fn add_raw(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.handle.run(|engine| {
            let (key, value) = (checked(engine.key, key)?, checked(engine.value, value)?);
            if engine.is_words() {
                return engine.add_word(engine.word_hash(key), Type::word(value));
            }
            engine.add(key, value)
        })
    }

    /// Adds `count` pairs, in their order.
    ///
    /// # Errors
    /// As [`MultiMap::add_many`](crate::MultiMap::add_many).
    pub fn add_many_raw<'k>(
        &self,
        count: usize,
        pair: impl Fn(usize) -> (&'k [u8], &'k [u8]),
    ) -> Result<()> {
        self.handle.run(|engine| {
            let prefetch = |hashes: &[u64]| engine.index.prefetch(hashes);
            change_many(
                engine,
                count,
                |i| pair(i).0,
                prefetch,
                |i| {
                    let (key, value) = pair(i);
                    self.add_raw(key, value)
                },
            )
        })
    }

    /// Calls `f` with each value of `key`; how many there were.
    ///
    /// # Errors
    /// As [`MultiMap::each`](crate::MultiMap::each).
    pub fn each_raw(&self, key: &[u8], mut f: impl FnMut(&[u8])) -> Result<u64> {
        self.handle.run(|engine| {
            let key = checked(engine.key, key)?;
            if !engine.is_words() {
                return engine.each_value(key, &mut |bytes| {
                    f(bytes);
                    Ok(())
                });
            }
            let mut found = Values::default();
            engine.index.read(engine.word_hash(key), &OneKey, &mut found, &mut |_, _| Ok(()))?;
            for word in &found.payloads {
                with_word(engine.value, *word, &mut f)?;
            }
            Ok(found.payloads.len() as u64)
        })
    }

    /// Returns the number of values of `key`.
    ///
    /// # Errors
    /// As [`MultiMap::count`](crate::MultiMap::count).
    pub fn count_raw(&self, key: &[u8]) -> Result<u64> {
        self.handle.run(|engine| {
            let key = checked(engine.key, key)?;
            if engine.is_words() {
                return engine.index.count(engine.word_hash(key), &OneKey);
            }
            engine.count(key)
        })
    }

    /// Removes one of the values of `key` that equal `value`; false if there was none.
    ///
    /// # Errors
    /// As [`MultiMap::remove_one`](crate::MultiMap::remove_one).
    pub fn remove_one_raw(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.handle.run(|engine| {
            let (key, value) = (checked(engine.key, key)?, checked(engine.value, value)?);
            if !engine.is_words() {
                return engine.remove_one(key, value);
            }
            let word = Type::word(value);
            let wanted = &mut |v| Ok(v == word);
            Ok(engine.index.remove_one(engine.word_hash(key), &OneKey, wanted)?.is_some())
        })
    }

    /// Removes all values of `key` at once; how many they were.
    ///
    /// # Errors
    /// As [`MultiMap::remove_all`](crate::MultiMap::remove_all).
    pub fn remove_all_raw(&self, key: &[u8]) -> Result<u64> {
        self.handle.run(|engine| {
            let key = checked(engine.key, key)?;
            if engine.is_words() {
                return engine.index.remove_all(engine.word_hash(key), &OneKey, None);
            }
            engine.remove_all(key)
        })
    }

    /// The next entries of a walk, as [`AnyMap::scan_raw`](crate::AnyMap::scan_raw).
    ///
    /// # Errors
    /// As there.
    pub fn scan_raw(&self, from: Cursor, n: usize) -> Result<(Vec<Pair>, Option<Cursor>)> {
        self.handle.run(|_| step(&self.handle, from, n, Entries::next_raw))
    }
}
