//! Iteration in the order of hashes.
//!
//! The cursor is a hash, not a place: an index gives the slots of the unit that covers it, in order,
//! and where the next unit begins. Units may split and merge between two steps; the hashes that were
//! given stay below the cursor and the others above it. So a key that is there throughout is given
//! exactly once, whatever moves. All entries of one hash of a multimap are given together, as they
//! are at one instant.

use durahash_media::{Error, Result};

use super::Kind;
use super::data::{Data, no_value};
use super::maps::Handle;
use super::records::Pair;
use crate::index::IndexBase;

/// Entries, one unit after the other.
pub(crate) struct Entries<E: Kind> {
    engine: Handle<E>,
    /// Where the next unit begins.
    at: Option<u64>,
    /// The rest of this one, in reverse.
    unit: Vec<(u64, E::Slot)>,
    /// Entries that were found: hash and value, where they are words,
    words: Vec<(u64, u64)>,
    /// or key and value.
    pairs: Vec<Pair>,
    damage: Option<Error>,
}

/// One entry.
enum Entry {
    Words(u64, u64),
    Bytes(Pair),
}

impl<E: Kind> Entries<E> {
    pub(crate) fn new(engine: Handle<E>) -> Self {
        Self::from(engine, 0)
    }

    /// Those from the unit at `at` on.
    pub(crate) fn from(engine: Handle<E>, at: u64) -> Self {
        let (words, pairs) = (Vec::new(), Vec::new());
        Entries { engine, at: Some(at), unit: Vec::new(), words, pairs, damage: None }
    }

    /// Where the next unit begins, if there is one; `None` while entries of this one are left.
    pub(crate) fn next_unit(&self) -> Option<Option<u64>> {
        let is_done = self.unit.is_empty() && self.words.is_empty() && self.pairs.is_empty();
        (is_done && self.damage.is_none()).then_some(self.at)
    }

    fn next(&mut self) -> Option<Result<Entry>> {
        loop {
            if let Some((h, v)) = self.words.pop() {
                return Some(Ok(Entry::Words(self.engine.mix.unmix(h), v)));
            }
            if let Some(pair) = self.pairs.pop() {
                return Some(Ok(Entry::Bytes(pair)));
            }
            if let Some(e) = self.damage.take() {
                return Some(Err(e));
            }
            if self.unit.is_empty() {
                let at = self.at?;
                match self.engine.index.scan(at, &mut self.unit) {
                    Ok(next) => self.at = next,
                    Err(e) => {
                        self.at = self.engine.index.behind(at).flatten();
                        self.unit.clear();
                        return Some(Err(e));
                    }
                }
                self.unit.reverse();
            }
            let Entries { engine, unit, words, pairs, .. } = self;
            self.damage = E::take(engine, unit, words, pairs).err();
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
            let (key, value) = (self.engine.key, self.engine.value);
            let (k, v) = match entry {
                Entry::Words(k, v) => (key.unword(k)?, value.unword(v)?),
                Entry::Bytes(pair) => pair,
            };
            Ok((key.show(k)?, value.show(v)?))
        }))
    }
}
