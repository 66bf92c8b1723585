//! Iteration over a multimap, in the order of hashes.
//!
//! As over a map (`iter.rs`): the cursor is a hash. All entries of one hash are given together, as
//! they are at one instant.

use std::marker::PhantomData;
use std::sync::Arc;

use durahash_media::{Error, Result};

use crate::chain::Pair;
use crate::data::Data;
use crate::index::{OneKey, Scanned, Values};
use crate::multi_raw::MultiRaw;
use crate::raw::no_value;

/// Hashes of one unit after the other, with their slots.
struct Hashes {
    raw: Arc<MultiRaw>,
    /// Where the next unit begins.
    at: Option<u64>,
    /// What is left of this one, in reverse.
    unit: Vec<(u64, Scanned)>,
}

impl Hashes {
    fn new(raw: Arc<MultiRaw>) -> Self {
        Hashes { raw, at: Some(0), unit: Vec::new() }
    }

    /// The next hash, and its values if each of them had a slot; `out` is empty where not.
    fn next(&mut self, out: &mut Vec<u64>) -> Option<Result<u64>> {
        while self.unit.is_empty() {
            match self.raw.index.scan(self.at?, &mut self.unit) {
                Ok(next) => {
                    self.at = next;
                    self.unit.reverse();
                }
                Err(e) => {
                    // Where the next unit begins is not known.
                    self.at = None;
                    self.unit.clear();
                    return Some(Err(e));
                }
            }
        }
        let (h, _) = *self.unit.last()?;
        let mut many = false;
        out.clear();
        while let Some((_, slot)) = self.unit.pop_if(|(other, _)| *other == h) {
            match slot {
                Scanned::One(v) => out.push(v),
                Scanned::Many(_) => many = true,
            }
        }
        if many {
            out.clear();
        }
        Some(Ok(h))
    }
}

/// Entries that are words.
pub(crate) struct MultiWords {
    hashes: Hashes,
    h: u64,
    /// What is left of the values of `h`.
    ready: Values,
}

impl MultiWords {
    pub(crate) fn new(raw: Arc<MultiRaw>) -> Self {
        MultiWords { hashes: Hashes::new(raw), h: 0, ready: Values::default() }
    }

    pub(crate) fn raw(&self) -> &MultiRaw {
        &self.hashes.raw
    }

    /// The next hash and value.
    pub(crate) fn next(&mut self) -> Option<Result<(u64, u64)>> {
        loop {
            if let Some(v) = self.ready.payloads.pop() {
                return Some(Ok((self.h, v)));
            }
            self.h = match self.hashes.next(&mut self.ready.payloads)? {
                Ok(h) => h,
                Err(e) => return Some(Err(e)),
            };
            if self.ready.payloads.is_empty() {
                let index = &self.hashes.raw.index;
                let read = index.read(self.h, &OneKey, &mut self.ready, &mut |_, _| Ok(()));
                if let Err(e) = read {
                    return Some(Err(e));
                }
            }
        }
    }
}

/// Entries that are bytes.
pub(crate) struct MultiPairs {
    hashes: Hashes,
    /// Pairs of one hash.
    ready: Vec<Pair>,
    damage: Option<Error>,
}

impl MultiPairs {
    pub(crate) fn new(raw: Arc<MultiRaw>) -> Self {
        MultiPairs { hashes: Hashes::new(raw), ready: Vec::new(), damage: None }
    }

    pub(crate) fn raw(&self) -> &MultiRaw {
        &self.hashes.raw
    }

    /// The next key and value.
    pub(crate) fn next(&mut self) -> Option<Result<Pair>> {
        loop {
            if let Some(pair) = self.ready.pop() {
                return Some(Ok(pair));
            }
            if let Some(e) = self.damage.take() {
                return Some(Err(e));
            }
            let h = match self.hashes.next(&mut Vec::new())? {
                Ok(h) => h,
                Err(e) => return Some(Err(e)),
            };
            // Records are looked up again, since slots may have changed since the scan.
            self.damage = self.hashes.raw.pairs(h, &mut self.ready).err();
        }
    }
}

/// Iterator over a [`MultiMap`](crate::MultiMap). See [`MultiMap::iter`](crate::MultiMap::iter).
///
/// ```
/// # let map = durahash::Options::new().in_memory_multi::<str, u64>()?;
/// map.add("one", &1)?;
/// for pair in &map {
///     let (key, value) = pair?;
///     assert_eq!((key.as_str(), value), ("one", 1));
/// }
/// # Ok::<(), durahash::Error>(())
/// ```
pub struct MultiIter<K: Data + ?Sized, V: Data + ?Sized> {
    source: Source,
    types: PhantomData<fn(&K, &V)>,
}

enum Source {
    Words(MultiWords),
    Bytes(MultiPairs),
}

impl<K: Data + ?Sized, V: Data + ?Sized> MultiIter<K, V> {
    pub(crate) fn new(raw: Arc<MultiRaw>) -> Self {
        let source = if raw.is_words() {
            Source::Words(MultiWords::new(raw))
        } else {
            Source::Bytes(MultiPairs::new(raw))
        };
        MultiIter { source, types: PhantomData }
    }
}

impl<K: Data + ?Sized, V: Data + ?Sized> Iterator for MultiIter<K, V> {
    type Item = Result<(K::Owned, V::Owned)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = match &mut self.source {
            Source::Words(words) => match words.next()? {
                Ok((h, word)) => (K::from_word(words.raw().mix.unmix(h)), V::from_word(word)),
                Err(e) => return Some(Err(e)),
            },
            Source::Bytes(pairs) => match pairs.next()? {
                Ok((key, value)) => (K::from_vec(key), V::from_vec(value)),
                Err(e) => return Some(Err(e)),
            },
        };
        Some(key.zip(value).ok_or_else(no_value))
    }
}
