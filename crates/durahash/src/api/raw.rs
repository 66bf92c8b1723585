//! Maps whose types are known at run time, with keys and values as the bytes that a pool keeps: for other languages.
//!
//! The bytes are those of a record: numbers in little-endian order, texts in UTF-8, the parts of a tuple one behind the
//! other. What is no value of the pool's type is [`Text`](crate::ErrorKind::Text).

use durahash_media::{ErrorKind, Result};

use super::any::{AnyMap, AnyMultiMap};
use super::map::with_scratch;
use super::scan::Cursor;
use crate::engine::data::{Type, no_value};
use crate::engine::edit::Rule;
use crate::engine::entries::Entries;
use crate::engine::maps::Handle;
use crate::engine::outcome::Outcome;
use crate::engine::record::{KeyHash, Short};
use crate::engine::records::Pair;
use crate::engine::walk::Place;
use crate::engine::{Engine, Kind, Single};
use crate::index::{Change, OneKey, PREFETCHED, Room, Values};

/// The longest part of bytes that an error repeats.
const SHOWN_BYTES: usize = 32;

/// Bytes that are a value of this type.
#[inline]
fn checked(ty: Type, bytes: &[u8]) -> Result<&[u8]> {
    if ty.has_bytes(bytes) { Ok(bytes) } else { Err(refused(ty, bytes)) }
}

#[cold]
fn refused(ty: Type, bytes: &[u8]) -> crate::Error {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]).into_owned();
    ErrorKind::Text { text, wanted: ty.to_string() }.into()
}

/// Calls `f` with the bytes of a word that was found.
#[inline]
fn with_word<R>(ty: Type, word: u64, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
    match ty.fixed_bytes() {
        Some(bytes) if ty.has_word(word) => Ok(f(&word.to_le_bytes()[..bytes])),
        _ => Err(no_value()),
    }
}

/// Calls `f` with the value of a key of bytes whose hash is known.
#[inline]
fn look<R>(
    engine: &Engine<Single>,
    key: &[u8],
    key_hash: KeyHash,
    f: impl FnOnce(&[u8]) -> R,
) -> Result<Option<R>> {
    let mut short = Short::new();
    match engine.look_once(key, key_hash, Some(&mut short)) {
        Some(false) => Ok(None),
        Some(true) => Ok(Some(f(short.value()))),
        None => {
            with_scratch(|buffer| Ok(engine.get_bytes(key, key_hash, buffer)?.then(|| f(buffer))))
        }
    }
}

/// Looks up as many keys: `word` answers for a payload that is a word, `one` for another key.
#[inline(always)]
fn look_up_many<'k>(
    engine: &Engine<Single>,
    count: usize,
    key: impl Fn(usize) -> &'k [u8],
    mut word: impl FnMut(usize, Option<u64>) -> Result<()>,
    mut one: impl FnMut(usize, &[u8], KeyHash) -> Result<()>,
) -> Result<()> {
    for from in (0..count).step_by(PREFETCHED) {
        let (mut hashes, mut words) = ([0; PREFETCHED], [None; PREFETCHED]);
        let n = PREFETCHED.min(count - from);
        if engine.is_words() {
            for (i, h) in hashes[..n].iter_mut().enumerate() {
                *h = engine.word_hash(checked(engine.key, key(from + i))?);
            }
            engine.index.get_many(&hashes[..n], &mut words[..n])?;
            for (i, found) in words[..n].iter().enumerate() {
                word(from + i, *found)?;
            }
            continue;
        }
        let mut hashes = [KeyHash::default(); PREFETCHED];
        for (i, h) in hashes[..n].iter_mut().enumerate() {
            *h = engine.key_hash(checked(engine.key, key(from + i))?);
        }
        engine.prefetch_records(&hashes[..n])?;
        for (i, h) in hashes[..n].iter().enumerate() {
            one(from + i, key(from + i), *h)?;
        }
    }
    Ok(())
}

/// Runs `change` with all numbers below `count`, as one batch; the slots of a few keys are fetched before.
fn change_many<'k, K: Kind>(
    engine: &Engine<K>,
    count: usize,
    key: impl Fn(usize) -> &'k [u8],
    prefetch: impl Fn(&[u64]),
    mut change: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    engine.batch(|| {
        for from in (0..count).step_by(PREFETCHED) {
            let n = PREFETCHED.min(count - from);
            let mut hashes = [0; PREFETCHED];
            for (i, h) in hashes[..n].iter_mut().enumerate() {
                *h = hash(engine, checked(engine.key, key(from + i))?);
            }
            prefetch(&hashes[..n]);
            (from..from + n).try_for_each(&mut change)?;
        }
        Ok(())
    })
}

/// The hash that the index gets of a key.
#[inline]
fn hash<K: Kind>(engine: &Engine<K>, key: &[u8]) -> u64 {
    if engine.is_words() { engine.word_hash(key) } else { engine.records.hash(key) }
}

/// Makes `new` the value of `key`, or removes it, as `rule` allows; says if so, and if there was a value, which goes to
/// `old`.
#[inline]
fn change(
    engine: &Engine<Single>,
    key: &[u8],
    new: Option<&[u8]>,
    rule: Rule<'_>,
    old: Option<&mut Vec<u8>>,
) -> Result<(bool, bool)> {
    checked(engine.key, key)?;
    new.map(|new| checked(engine.value, new)).transpose()?;
    if !engine.is_words() {
        let (outcome, had) = engine.change(key, new, rule, old)?;
        return Ok((outcome.is_done() && (had || new.is_some()), had));
    }
    let change = new.map_or(Change::Remove, |new| Change::Set(Type::word(new)));
    let room = match (new, rule) {
        (Some(_), Rule::Always | Rule::IfAbsent) => Room::ForNew,
        _ => Room::None,
    };
    let allows = |found: Option<u64>| match rule {
        Rule::Always => true,
        Rule::IfAbsent => found.is_none(),
        Rule::IfEqual(want) => found == Some(Type::word(want)),
    };
    let mut update = |found| Ok(if allows(found) { change } else { Change::Keep });
    let found = engine.update_word(engine.word_hash(key), room, &mut update)?;
    if let (Some(word), Some(old)) = (found, old) {
        with_word(engine.value, word, |bytes| old.extend_from_slice(bytes))?;
    }
    Ok((allows(found) && (found.is_some() || new.is_some()), found.is_some()))
}

/// The next entries of a walk, as of [`Map::scan`](crate::Map::scan).
fn scan<K: Kind>(
    handle: &Handle<K>,
    from: Cursor,
    n: usize,
) -> Result<(Vec<Pair>, Option<Cursor>)> {
    let index = &*handle.engine.index;
    let at = match from {
        Cursor::START => Place::first(index),
        cursor => Place::from_word(index, cursor.to_word()),
    };
    let mut entries = Entries::from(handle.clone(), at, at.most_empty_units());
    let cursor = |next: Option<Place>| next.map(|place| Cursor::from_word(place.to_word()));
    let mut found = Vec::new();
    while let Some(entry) = entries.next_raw() {
        found.push(entry?);
        if found.len() >= n.max(1)
            && let Some(next) = entries.next_unit()
        {
            return Ok((found, cursor(next)));
        }
    }
    Ok((found, cursor(entries.next_unit().flatten())))
}

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
        let found = std::cell::RefCell::new(found);
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
        let found = std::cell::RefCell::new(found);
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
        self.handle.run(|_| scan(&self.handle, from, n))
    }
}

/// Keys and values as the bytes that the pool keeps, as of [`AnyMap`].
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

    /// The next entries of a walk, as [`AnyMap::scan_raw`].
    ///
    /// # Errors
    /// As there.
    pub fn scan_raw(&self, from: Cursor, n: usize) -> Result<(Vec<Pair>, Option<Cursor>)> {
        self.handle.run(|_| scan(&self.handle, from, n))
    }
}
