//! Iteration in the order of hashes.
//!
//! The cursor is a hash, not a place: an index gives the slots of the unit that covers it, in order,
//! and where the next unit begins. Units may split and merge between two steps; the hashes that were
//! given stay below the cursor and the others above it. So a key that is there throughout is given
//! exactly once, whatever moves.

use std::marker::PhantomData;
use std::sync::Arc;

use durahash_media::Result;

use crate::chain::Pair;
use crate::data::Data;
use crate::raw::{Raw, no_value};

/// Slots of one unit after the other.
pub(crate) struct Slots {
    raw: Arc<Raw>,
    /// Where the next unit begins.
    at: Option<u64>,
    /// What is left of this one, in reverse.
    unit: Vec<(u64, u64)>,
}

impl Slots {
    pub(crate) fn new(raw: Arc<Raw>) -> Self {
        Slots { raw, at: Some(0), unit: Vec::new() }
    }

    pub(crate) fn raw(&self) -> &Raw {
        &self.raw
    }

    pub(crate) fn next(&mut self) -> Option<Result<(u64, u64)>> {
        loop {
            if let Some(slot) = self.unit.pop() {
                return Some(Ok(slot));
            }
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
    }
}

/// Keys and values as bytes, whatever their types.
pub(crate) struct Pairs {
    slots: Slots,
    /// Pairs of one slot.
    ready: Vec<Pair>,
    damage: Option<durahash_media::Error>,
}

impl Pairs {
    pub(crate) fn new(raw: Arc<Raw>) -> Self {
        Pairs { slots: Slots::new(raw), ready: Vec::new(), damage: None }
    }

    pub(crate) fn raw(&self) -> &Raw {
        &self.slots.raw
    }
}

impl Iterator for Pairs {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        loop {
            if let Some(pair) = self.ready.pop() {
                return Some(Ok(pair));
            }
            if let Some(e) = self.damage.take() {
                return Some(Err(e));
            }
            let h = match self.slots.next()? {
                Ok((h, _)) => h,
                Err(e) => return Some(Err(e)),
            };
            // The record is looked up again, since its slot may have changed since the scan.
            self.damage = self.slots.raw.pairs(h, &mut self.ready).err();
        }
    }
}

/// Iterator over a [`Map`](crate::Map). See [`Map::iter`](crate::Map::iter).
///
/// ```
/// # let map = durahash::Options::new().in_memory::<str, u64>()?;
/// map.put("one", &1)?;
/// for pair in &map {
///     let (key, value) = pair?;
///     assert_eq!((key.as_str(), value), ("one", 1));
/// }
/// # Ok::<(), durahash::Error>(())
/// ```
pub struct Iter<K: Data + ?Sized, V: Data + ?Sized> {
    source: Source,
    types: PhantomData<fn(&K, &V)>,
}

enum Source {
    Words(Slots),
    Bytes(Pairs),
}

impl<K: Data + ?Sized, V: Data + ?Sized> Iter<K, V> {
    pub(crate) fn new(raw: Arc<Raw>) -> Self {
        let source = if raw.is_words() {
            Source::Words(Slots::new(raw))
        } else {
            Source::Bytes(Pairs::new(raw))
        };
        Iter { source, types: PhantomData }
    }
}

impl<K: Data + ?Sized, V: Data + ?Sized> Iterator for Iter<K, V> {
    type Item = Result<(K::Owned, V::Owned)>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = match &mut self.source {
            Source::Words(slots) => match slots.next()? {
                Ok((h, word)) => (K::from_word(slots.raw.mix.unmix(h)), V::from_word(word)),
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
