//! Iteration, unit by unit.
//!
//! The cursor is the place of a hash in an order (`walk.rs`), not the place of a unit. So a key that is there throughout
//! is given exactly once, whatever moves. All entries of one hash of a multimap are given together, as they are at one
//! instant.

use durahash_media::{Error, Result};

use super::data::{Data, no_value};
use super::maps::Handle;
use super::records::{Pair, is_damage};
use super::walk::Place;
use super::{Engine, Kind};

/// Entries, one unit after the other.
pub(crate) struct Entries<E: Kind> {
    handle: Handle<E>,
    /// Where the next unit begins.
    at: Option<Place>,
    /// How many units in a row may have no entries, and how many still may.
    most_empty_units: u64,
    empty_units: u64,
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
    pub(crate) fn new(handle: Handle<E>) -> Self {
        let at = Place::first(&*handle.engine.index);
        Self::from(handle, at, u64::MAX)
    }

    /// Those from a place on, up to so many units in a row that have none.
    pub(crate) fn from(handle: Handle<E>, at: Place, most_empty_units: u64) -> Self {
        let (unit, words, pairs) = (Vec::new(), Vec::new(), Vec::new());
        let empty_units = most_empty_units;
        let at = Some(at);
        Entries { handle, at, most_empty_units, empty_units, unit, words, pairs, damage: None }
    }

    /// Where the next unit begins, if there is one; `None` while entries of this one are left.
    pub(crate) fn next_unit(&self) -> Option<Option<Place>> {
        let is_done = self.unit.is_empty() && self.words.is_empty() && self.pairs.is_empty();
        (is_done && self.damage.is_none()).then_some(self.at)
    }

    /// The next entry, as `f` makes it of what was found.
    fn next<T>(&mut self, f: impl FnOnce(&Engine<E>, Entry) -> Result<T>) -> Option<Result<T>> {
        let found = self.find()?;
        Some(self.handle.run(|engine| f(engine, found?)))
    }

    fn find(&mut self) -> Option<Result<Entry>> {
        loop {
            if let Some((h, v)) = self.words.pop() {
                return Some(Ok(Entry::Words(self.handle.engine.mix.unmix(h), v)));
            }
            if let Some(pair) = self.pairs.pop() {
                return Some(Ok(Entry::Bytes(pair)));
            }
            if let Some(e) = self.damage.take() {
                return Some(Err(e));
            }
            if self.unit.is_empty() {
                let at = self.at?;
                match at.step(&*self.handle.engine.index, &mut self.unit) {
                    Ok(next) => self.at = next,
                    Err(e) => {
                        self.unit.clear();
                        self.at = at.behind(&*self.handle.engine.index).flatten();
                        // Damage is told of once.
                        if !(at.is_sample() && self.at.is_some() && is_damage(&e)) {
                            return Some(Err(e));
                        }
                    }
                }
                if self.unit.is_empty() {
                    self.empty_units = self.empty_units.checked_sub(1)?;
                    continue;
                }
                self.empty_units = self.most_empty_units;
                self.unit.reverse();
            }
            let Entries { handle, unit, words, pairs, .. } = self;
            self.damage = E::take(&handle.engine, unit, words, pairs).err();
        }
    }

    /// The next key and value, of known types.
    pub(crate) fn next_typed<K: Data + ?Sized, V: Data + ?Sized>(
        &mut self,
    ) -> Option<Result<(K::Owned, V::Owned)>> {
        self.next(|_, entry| {
            let (key, value) = match entry {
                Entry::Words(key, value) => (K::from_word(key), V::from_word(value)),
                Entry::Bytes((key, value)) => (K::from_vec(key), V::from_vec(value)),
            };
            key.zip(value).ok_or_else(no_value)
        })
    }

    /// The next key and value, as bytes of a record.
    pub(crate) fn next_raw(&mut self) -> Option<Result<Pair>> {
        self.next(|engine, entry| match entry {
            Entry::Words(k, v) => Ok((engine.key.unword(k)?, engine.value.unword(v)?)),
            Entry::Bytes(pair) => Ok(pair),
        })
    }

    /// The texts of the next key and value.
    pub(crate) fn next_texts(&mut self) -> Option<Result<Pair>> {
        let pair = self.next_raw()?;
        let Engine { key, value, .. } = *self.handle.engine;
        Some(pair.and_then(|(k, v)| self.handle.run(|_| Ok((key.show(k)?, value.show(v)?)))))
    }
}
