//! Maps whose types are known at run time, with keys and values as the bytes that a pool keeps: for other languages.
//!
//! The bytes are those of a record: numbers in little-endian order, texts in UTF-8, the parts of a tuple one behind the
//! other. What is no value of the pool's type is [`Text`](crate::ErrorKind::Text).

mod map;
mod multi_map;

use durahash_media::{ErrorKind, Result};

use super::map::with_scratch;
use crate::engine::data::{Type, no_value};
use crate::engine::edit::Rule;
use crate::engine::record::{KeyHash, Short};
use crate::engine::{Engine, Kind, Single};
use crate::index::{Change, PREFETCHED, Room};

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
    let mut short = Short::new(Short::LONGEST);
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
