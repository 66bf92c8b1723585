//! Iteration in the order of hashes.
//!
//! The cursor is a hash, not a place: an index gives the slots of the unit that covers it, in order,
//! and where the next unit begins. Units may split and merge between two steps; the hashes that were
//! given stay below the cursor and the others above it. So a key that is there throughout is given
//! exactly once, whatever moves. All entries of one hash of a multimap are given together, as they
//! are at one instant.

use std::sync::Arc;

use durahash_media::{Error, Result};

use crate::engine::core::{Core, Pair, Untyped, no_value};
use crate::engine::data::Data;
use crate::engine::map::Raw;
use crate::engine::multi_map::MultiRaw;
use crate::index::{OneKey, Scanned, Values};

/// Entries of unknown types.
#[derive(Default)]
pub(crate) struct Ready {
    /// Hash and value, where they are words.
    words: Vec<(u64, u64)>,
    /// Where they are bytes.
    pairs: Vec<Pair>,
}

/// What is iterated over.
pub(crate) trait Entered: Untyped {
    /// Takes the slots of one hash, or of more, off the end of `unit`, and adds their entries to
    /// `ready`. What is damaged is reported after the others were found.
    fn take(&self, unit: &mut Vec<(u64, Self::Slot)>, ready: &mut Ready) -> Result<()>;
}

impl Entered for Raw {
    fn take(&self, unit: &mut Vec<(u64, u64)>, ready: &mut Ready) -> Result<()> {
        if self.is_words() {
            ready.words.append(unit);
            return Ok(());
        }
        // The record is looked up again, since its slot may have changed since the scan.
        unit.pop().map_or(Ok(()), |(h, _)| self.pairs(h, &mut ready.pairs))
    }
}

impl Entered for MultiRaw {
    fn take(&self, unit: &mut Vec<(u64, Scanned)>, ready: &mut Ready) -> Result<()> {
        let Some((h, _)) = unit.last().copied() else {
            return Ok(());
        };
        let mut found = Values::default();
        let mut is_list = false;
        while let Some((_, slot)) = unit.pop_if(|(other, _)| *other == h) {
            match slot {
                Scanned::One(v) => found.payloads.push(v),
                Scanned::Many(_) => is_list = true,
            }
        }
        if !self.is_words() {
            // Records are looked up again, since slots may have changed since the scan.
            return self.pairs(h, &mut ready.pairs);
        }
        let read = if is_list {
            self.index.read(h, &OneKey, &mut found, &mut |_, _| Ok(()))
        } else {
            Ok(())
        };
        ready.words.extend(found.payloads.into_iter().map(|v| (h, v)));
        read
    }
}

/// Entries, one unit after the other.
pub(crate) struct Entries<R: Entered> {
    raw: Arc<R>,
    /// Where the next unit begins.
    at: Option<u64>,
    /// What is left of this one, in reverse.
    unit: Vec<(u64, R::Slot)>,
    ready: Ready,
    damage: Option<Error>,
}

/// One entry.
enum Entry {
    Words(u64, u64),
    Bytes(Pair),
}

impl<R: Entered> Entries<R> {
    pub(crate) fn new(raw: Arc<R>) -> Self {
        Entries { raw, at: Some(0), unit: Vec::new(), ready: Ready::default(), damage: None }
    }

    fn next(&mut self) -> Option<Result<Entry>> {
        loop {
            if let Some((h, v)) = self.ready.words.pop() {
                return Some(Ok(Entry::Words(self.raw.mix.unmix(h), v)));
            }
            if let Some(pair) = self.ready.pairs.pop() {
                return Some(Ok(Entry::Bytes(pair)));
            }
            if let Some(e) = self.damage.take() {
                return Some(Err(e));
            }
            if self.unit.is_empty() {
                match self.raw.scan(self.at?, &mut self.unit) {
                    Ok(next) => self.at = next,
                    Err(e) => {
                        // Where the next unit begins is not known.
                        self.at = None;
                        self.unit.clear();
                        return Some(Err(e));
                    }
                }
                self.unit.reverse();
            }
            self.damage = self.raw.take(&mut self.unit, &mut self.ready).err();
        }
    }

    /// The next key and value, of known types.
    pub(crate) fn next_typed<K: Data + ?Sized, V: Data + ?Sized>(
        &mut self,
    ) -> Option<Result<(K::Owned, V::Owned)>> {
        Some(self.next()?.and_then(|entry| {
            let (key, value) = match entry {
                Entry::Words(key, value) => (K::from_word(key), V::from_word(value)),
                Entry::Bytes((key, value)) => (K::from_vec(key), V::from_vec(value)),
            };
            key.zip(value).ok_or_else(no_value)
        }))
    }

    /// The texts of the next key and value.
    pub(crate) fn next_texts(&mut self) -> Option<Result<Pair>> {
        Some(self.next()?.and_then(|entry| {
            let Core { key, value, .. } = **self.raw;
            let (k, v) = match entry {
                Entry::Words(k, v) => (key.unword(k)?, value.unword(v)?),
                Entry::Bytes(pair) => pair,
            };
            Ok((key.show(k)?, value.show(v)?))
        }))
    }
}
