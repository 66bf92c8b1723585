//! A multimap without types: an index, a pool, and what holds for keys of words and of bytes alike.
//!
//! Where key and value both fit a word, an entry of the index is a value. Otherwise it is the name of
//! a record that has key and value, so that keys whose hashes are equal are told apart. Such records
//! hang on nothing: their `next` is 0.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use durahash_media::{ErrorKind, Medium, Place, Pool, Result};

use super::design::Design;
use super::durable::Durable;
use super::record::{Draft, check_sizes, has_checksum, lengths, offset};
use super::records::{Pair, Record, Records, is_damage, is_whole};
use super::{Engine, Host, Kind, Made, Member, Multi, Rest};
use crate::designs::pea::{EXTRA_COUNTER, MultiOnlooker, MultiPea};
use crate::index::{Finding, Keys, MultiIndex, OneKey, Scanned, Values};

impl Kind for Multi {
    const NUMBER: u8 = 1;
    const DESIGN: Design = Design::Pea;
    type Index = dyn MultiIndex;
    type Slot = Scanned;

    fn index<M: Medium>(place: Place<M>, made: Made) -> Result<Rest<dyn MultiIndex>> {
        let (design, options, is_new) = made;
        if design != Design::Pea {
            return Err(ErrorKind::Options { what: "only Pea Hash has multimaps" }.into());
        }
        let pool = Arc::clone(place.pool());
        if pool.looks_on() {
            return Ok(durable(|| MultiOnlooker::new(place), pool));
        }
        Ok(if is_new {
            durable(move || MultiPea::create(place, options.policy), pool)
        } else {
            durable(MultiPea::read(place, options.policy)?, pool)
        })
    }

    fn index_of(host: &dyn Host, map: u8, made: Made) -> Result<Rest<dyn MultiIndex>> {
        host.multi(map, made)
    }

    fn member(engine: Arc<Engine<Self>>) -> Member {
        Member::Multi(engine)
    }

    fn of(member: &Member) -> Option<&Arc<Engine<Self>>> {
        match member {
            Member::Multi(engine) => Some(engine),
            Member::Single(_) => None,
        }
    }

    fn mark_unit(engine: &Engine<Self>, unit: &[(u64, Scanned)]) -> Result<()> {
        unit.chunk_by(|a, b| a.0 == b.0)
            .try_for_each(|of_one| engine.mark_hash(of_one[0].0, of_one))
    }

    fn free_unit(engine: &Engine<Self>, unit: &[(u64, Scanned)]) -> Result<()> {
        for of_one in unit.chunk_by(|a, b| a.0 == b.0) {
            let (h, mut values) = (of_one[0].0, Values::default());
            is_whole(engine.index.read(h, &OneKey, &mut values, &mut |_, _| Ok(())))?;
            values.buffers.into_iter().for_each(|off| engine.release(off));
            engine.release_records(h, &values.payloads);
        }
        Ok(())
    }

    fn take(
        engine: &Engine<Self>,
        unit: &mut Vec<(u64, Scanned)>,
        words: &mut Vec<(u64, u64)>,
        pairs: &mut Vec<Pair>,
    ) -> Result<()> {
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
        if !engine.is_words() {
            // Records are looked up again, since slots may have changed since the scan.
            return engine.pairs(h, pairs);
        }
        let read = if is_list {
            engine.index.read(h, &OneKey, &mut found, &mut |_, _| Ok(()))
        } else {
            Ok(())
        };
        // What was read of a writer that is gone may be of any key.
        if is_whole_or_damaged(&read) {
            words.extend(found.payloads.into_iter().map(|v| (h, v)));
        }
        read
    }

    fn add_word(engine: &Engine<Self>, h: u64, payload: u64) -> Result<()> {
        engine.add_word(h, payload)
    }

    fn add_pair(engine: &Engine<Self>, key: &[u8], value: &[u8]) -> Result<()> {
        engine.add(key, value)
    }

    /// - **REC-1** Every record lies in a block, is intact, and belongs to its slot.
    /// - **REC-2** No block is named twice.
    /// - **REC-3** Every block in use is named (once the sweep has ended).
    /// - **MAP-1** Every entry is a key and a value of their types.
    /// - **MAP-2** A key has values in slots, or a list, not both.
    /// - **MAP-3** All values of a list are of one key.
    fn check_own(
        engine: &Engine<Self>,
        found: &mut dyn FnMut(Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<HashSet<u64>> {
        engine.index.check(found)?;
        let entries = match engine.index.len() {
            // Then a list is damaged, which was found.
            Err(e) if is_damage(&e) => 0,
            len => len?,
        };
        let (mut looked, mut named) = (0, HashSet::new());
        // Beside a writer, slots and blocks may be another key's by now.
        let looks_on = engine.store.looks_on();
        engine.each_hash(&mut |h, slots| {
            let mut values = Values::default();
            let read = engine.index.read(h, &OneKey, &mut values, &mut |_, _| Ok(()));
            match read {
                Err(e) if matches!(e.kind(), ErrorKind::WriterGone) => return Err(e),
                Err(e) => found(Finding::new("REC-1", 0, format!("hash {h:#018x}: {e}"))),
                Ok(()) => {}
            }
            let mut blocks = values.buffers.clone();
            if engine.is_words() {
                let many = slots.iter().any(|(_, slot)| matches!(slot, Scanned::Many(_)));
                if many && slots.len() > 1 {
                    let what = format!("hash {h:#018x} has a list and other slots");
                    found(Finding { invariant: "MAP-2", off: 0, what });
                }
                for v in &values.payloads {
                    engine.check_word_pair(h, *v, found);
                }
            } else if looks_on {
                engine.check_pairs(h, found)?;
            } else {
                blocks.extend(values.payloads.iter().map(|name| offset(*name)));
                engine.check_records(h, slots, &values, found);
            }
            for off in blocks.into_iter().filter(|_| !looks_on) {
                if !named.insert(off) {
                    let what = format!("named twice, also by hash {h:#018x}");
                    found(Finding { invariant: "REC-2", off, what });
                }
            }
            for _ in 0..values.payloads.len() {
                looked += 1;
                watch(looked, entries.max(looked));
            }
            Ok(())
        })?;
        Ok(named)
    }

    fn len(engine: &Engine<Self>) -> Result<u64> {
        engine.len()
    }

    fn save(engine: &Engine<Self>) {
        let extra = engine.index.extra_count();
        engine.store.save(engine.map, EXTRA_COUNTER, extra.map_or(0, |count| count + 1));
    }
}

/// True if what was read is of one instant, as far as it is intact.
fn is_whole_or_damaged(read: &Result<()>) -> bool {
    read.as_ref().err().is_none_or(is_damage)
}

/// As that of maps.
fn durable<I: MultiIndex + 'static, M: Medium>(
    index: impl FnOnce() -> Result<I> + 'static,
    pool: Arc<Pool<M>>,
) -> Rest<dyn MultiIndex> {
    Box::new(move || {
        let index = index()?;
        let waits = M::DRAIN_WAITS || pool.looks_on();
        Ok(if waits { Box::new(Durable::new(index, pool)) } else { Box::new(index) })
    })
}

/// A key of bytes among those of its hash.
struct ByteKey<'a> {
    records: &'a Records,
    h: u64,
    key: &'a [u8],
}

impl Keys for ByteKey<'_> {
    fn is_meant(&self, name: u64) -> Result<bool> {
        let record = self.records.at(name)?;
        if self.records.key_is(&record, self.key)? {
            return Ok(true);
        }
        // Another key of the same hash, or the wanted one, damaged? No entry is called absent because
        // of damage.
        self.records.load_of(self.h, name).map(|_| false)
    }

    fn are_same(&self, one: u64, other: u64) -> Result<bool> {
        let mut key = Vec::new();
        self.records.copy_key(&self.records.at(one)?, &mut key, &|| true)?;
        let other = self.records.at(other)?;
        self.records.key_is(&other, &key)
    }
}

/// A closure over the slots of a hash.
type OfHash<'a> = &'a mut dyn FnMut(u64, &[(u64, Scanned)]) -> Result<()>;

/// Values that are copied between two checks that the copies still count.
const ASKED_EVERY: usize = 64;

/// Values of bytes that were copied, one behind the other.
#[derive(Default)]
struct Copies {
    bytes: Vec<u8>,
    /// Each record, and where its value ends.
    ends: Vec<(Record, usize)>,
}

impl Engine<Multi> {
    fn byte_key<'a>(&'a self, key: &'a [u8]) -> ByteKey<'a> {
        ByteKey { records: &self.records, h: self.records.hash(key), key }
    }

    /// Adds a value that is a word.
    pub(crate) fn add_word(&self, h: u64, v: u64) -> Result<()> {
        self.with_room(|| self.index.add(h, v, &OneKey))
    }

    /// Adds a value of bytes.
    pub(crate) fn add(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, value)?;
        self.store.writable()?;
        let keys = self.byte_key(key);
        let draft = Draft { key_hash: self.records.hashes.key(key), key, value, next: 0 };
        self.with_room(|| {
            while !self.add_record(&keys, &draft)? {
                self.finish_sweep()?;
            }
            Ok(())
        })
    }

    /// One try; false where a sweep has to find space.
    fn add_record(&self, keys: &ByteKey<'_>, draft: &Draft<'_>) -> Result<bool> {
        let Some(off) = self.store.alloc(draft.bytes())? else {
            return Ok(false);
        };
        // Written before any lock is taken.
        let written = self.store.write(off, &self.records.hashes, draft);
        let added = written.and_then(|name| self.index.add(keys.h, name, keys));
        if added.is_err() {
            self.release(off);
        }
        added.map(|()| true)
    }

    /// Calls `f` with each value of `key`, as bytes.
    pub(crate) fn each_value(
        &self,
        key: &[u8],
        f: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<u64> {
        let keys = self.byte_key(key);
        let mut copies = Copies::default();
        self.index.read(keys.h, &keys, &mut Values::default(), &mut |names, still| {
            copies.bytes.clear();
            copies.ends.clear();
            for (i, name) in names.iter().enumerate() {
                let record = self.records.at(*name)?;
                let from = copies.bytes.len();
                let end = from + record.header.value_bytes;
                let ask = end > copies.bytes.capacity() || i.is_multiple_of(ASKED_EVERY);
                if ask && !still() {
                    return Ok(());
                }
                copies.bytes.resize(end, 0);
                self.store.copy(
                    record.body(),
                    record.header.key_bytes,
                    &mut copies.bytes[from..],
                )?;
                copies.ends.push((record, end));
            }
            Ok(())
        })?;
        let key_hash = self.records.hashes.key(key);
        let mut from = 0;
        for (record, end) in &copies.ends {
            self.records.verify(record, key_hash, &copies.bytes[from..*end])?;
            from = *end;
        }
        from = 0;
        for (_, end) in &copies.ends {
            f(&copies.bytes[from..*end])?;
            from = *end;
        }
        Ok(copies.ends.len() as u64)
    }

    /// How many values a key of bytes has.
    pub(crate) fn count(&self, key: &[u8]) -> Result<u64> {
        let keys = self.byte_key(key);
        self.index.count(keys.h, &keys)
    }

    /// Removes one value of `key`; true if it was there.
    pub(crate) fn remove_one(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let keys = self.byte_key(key);
        let key_hash = self.records.hashes.key(key);
        let mut found = Vec::new();
        let mut is_it = |name| {
            let record = self.records.at(name)?;
            if record.header.value_bytes != value.len() {
                return Ok(false);
            }
            self.records.copy_value(&record, &mut found, &|| true)?;
            self.records.verify(&record, key_hash, &found)?;
            let is_same = found == value;
            if is_same {
                self.mark_records(&[name])?;
            }
            Ok(is_same)
        };
        // First only where the name says that it may be: the records of other values are not loaded.
        // A damaged name may say anything, so no value is called absent before all were looked at.
        let checksum =
            self.records.hashes.checksum(key_hash, lengths(key.len(), value.len()), 0, value);
        let mut may_be = |name| if has_checksum(name, checksum) { is_it(name) } else { Ok(false) };
        let removed = match self.index.remove_one(keys.h, &keys, &mut may_be)? {
            None => self.index.remove_one(keys.h, &keys, &mut is_it)?,
            removed => removed,
        };
        if let Some(name) = removed {
            self.release(offset(name));
        }
        Ok(removed.is_some())
    }

    /// Removes all values of a key of bytes; how many they were.
    pub(crate) fn remove_all(&self, key: &[u8]) -> Result<u64> {
        let keys = self.byte_key(key);
        let mut removed = Vec::new();
        let mut gone = |names: &[u64]| {
            removed.extend_from_slice(names);
            self.mark_records(names)
        };
        let count = self.index.remove_all(keys.h, &keys, Some(&mut gone))?;
        for name in removed {
            self.release(offset(name));
        }
        Ok(count)
    }

    /// Every key and value whose hash is `h`. Damage is reported after the others were
    /// found.
    pub(crate) fn pairs(&self, h: u64, out: &mut Vec<Pair>) -> Result<()> {
        let mut copies: Vec<Result<(Record, Pair)>> = Vec::new();
        let read = self.index.read(h, &OneKey, &mut Values::default(), &mut |names, still| {
            copies.clear();
            for name in names {
                copies.push(self.records.at(*name).and_then(|record| {
                    let mut pair = Pair::default();
                    self.records.copy_key(&record, &mut pair.0, still)?;
                    self.records.copy_value(&record, &mut pair.1, still)?;
                    Ok((record, pair))
                }));
                if !still() {
                    break;
                }
            }
            Ok(())
        });
        if !is_whole_or_damaged(&read) {
            return read;
        }
        let mut damage = read.err();
        for copy in copies {
            let sound = copy.and_then(|(record, pair)| {
                let key_hash = self.records.hashes.key(&pair.0);
                self.records.of_slot(&record, h, key_hash)?;
                self.records.verify(&record, key_hash, &pair.1)?;
                Ok(pair)
            });
            match sound {
                Ok(pair) => out.push(pair),
                Err(e) => drop(damage.get_or_insert(e)),
            }
        }
        damage.map_or(Ok(()), Err)
    }

    /// Calls `f` with the slots of each hash.
    fn each_hash(&self, f: OfHash<'_>) -> Result<()> {
        self.each_unit(&mut |slots| {
            slots.chunk_by(|a, b| a.0 == b.0).try_for_each(|of_one| f(of_one[0].0, of_one))
        })
    }

    /// How many hashes have their entries in buffers.
    pub(crate) fn lists(&self) -> Result<u64> {
        let mut lists = 0;
        self.each_hash(&mut |_, slots| {
            lists += u64::from(slots.iter().any(|(_, slot)| matches!(slot, Scanned::Many(_))));
            Ok(())
        })?;
        Ok(lists)
    }

    /// Marks the blocks in use by the slots of a hash, as they were a moment ago.
    fn mark_hash(&self, h: u64, slots: &[(u64, Scanned)]) -> Result<()> {
        let mut values = Values::default();
        let mut many = false;
        for (_, slot) in slots {
            match slot {
                Scanned::One(payload) => values.payloads.push(*payload),
                Scanned::Many(name) => {
                    many = true;
                    self.store.mark(offset(*name))?;
                }
            }
        }
        self.mark_records(&values.payloads)?;
        if many {
            // Values that damage cuts off cannot be read either: nothing is lost by leaving
            // them unmarked, and the damage must not keep the space of all others.
            is_whole(self.index.read(h, &OneKey, &mut values, &mut |_, _| Ok(())))?;
        }
        for off in values.buffers {
            self.store.mark(off)?;
        }
        self.mark_records(&values.payloads)
    }

    /// Before the commit after which nothing names these records, if the entries are any, as Pea Hash does with its
    /// buffers; and in a walk.
    fn mark_records(&self, names: &[u64]) -> Result<()> {
        if self.is_words() || !self.sweep_pending() {
            return Ok(());
        }
        names.iter().try_for_each(|name| self.store.mark(offset(*name)).map(drop))
    }

    /// Does a piece of background work; true if more is waiting.
    pub(crate) fn step(&self) -> Result<bool> {
        self.sweep_step()
    }

    /// Frees the records that were a hash's, if the entries are none themselves.
    fn release_records(&self, h: u64, payloads: &[u64]) {
        for name in payloads.iter().filter(|_| !self.is_words()) {
            // A damaged slot may name the record of another: that is not its to free.
            if self.records.load_of(h, *name).is_ok() {
                self.release(offset(*name));
            }
        }
    }

    /// Removes everything that is there when the walk comes by, damaged or not.
    pub(crate) fn clear(&self) -> Result<()> {
        self.store.writable()?;
        self.batch(|| {
            self.index.mend()?;
            self.each_hash(&mut |h, _| {
                let mut removed = Vec::new();
                let mut gone = |names: &[u64]| {
                    removed.extend_from_slice(names);
                    self.mark_records(names)
                };
                self.index.wipe(h, &mut gone)?;
                self.release_records(h, &removed);
                Ok(())
            })
        })
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> Result<u64> {
        self.index.len()
    }

    /// The keys and values of one hash, as they are at a moment of its own.
    fn check_pairs(&self, h: u64, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let mut pairs = Vec::new();
        match self.pairs(h, &mut pairs) {
            Err(e) if matches!(e.kind(), ErrorKind::WriterGone) => return Err(e),
            Err(e) => found(Finding::new("REC-1", 0, format!("hash {h:#018x}: {e}"))),
            Ok(()) => {}
        }
        pairs.iter().for_each(|pair| self.check_byte_pair((h, 0), pair, found));
        Ok(())
    }

    /// The records of one hash.
    fn check_records(
        &self,
        h: u64,
        slots: &[(u64, Scanned)],
        values: &Values,
        found: &mut dyn FnMut(Finding),
    ) {
        // Every key, and true if it has a value in a slot.
        let mut keys = BTreeMap::<Vec<u8>, bool>::new();
        for name in &values.payloads {
            match self.records.load_of(h, *name) {
                Ok(pair) => {
                    self.check_byte_pair((h, *name), &pair, found);
                    let in_slot = slots.iter().any(|(_, slot)| *slot == Scanned::One(*name));
                    *keys.entry(pair.0).or_default() |= in_slot;
                }
                Err(e) => {
                    let what = format!("hash {h:#018x}: {e}");
                    found(Finding { invariant: "REC-1", off: offset(*name), what });
                }
            }
        }
        let has_list = slots.iter().any(|(_, slot)| matches!(slot, Scanned::Many(_)));
        if has_list && (slots.len() > 1 || keys.len() > 1) {
            for (key, in_slot) in &keys {
                self.check_key(h, key, *in_slot, found);
            }
        }
    }

    /// Checks a lookup of a key, where others of its hash may be in the way.
    fn check_key(&self, h: u64, key: &[u8], in_slot: bool, found: &mut dyn FnMut(Finding)) {
        let keys = self.byte_key(key);
        let mut own = Values::default();
        let read = self.index.read(h, &keys, &mut own, &mut |_, _| Ok(()));
        let (Ok(()), Ok(count)) = (read, self.index.count(h, &keys)) else {
            // Damage, which was found.
            return;
        };
        let Some(name) = own.payloads.first() else {
            // Its values are in the list of another key, for which that is found.
            return;
        };
        // Of several lists, one is counted.
        if in_slot && !own.buffers.is_empty() || count != own.payloads.len() as u64 {
            let what = format!("a key of hash {h:#018x} has a list and other slots");
            found(Finding { invariant: "MAP-2", off: offset(*name), what });
        }
        for name in own.payloads {
            if matches!(keys.is_meant(name), Ok(false)) {
                let what = format!("in the list of another key of hash {h:#018x}");
                found(Finding { invariant: "MAP-3", off: offset(name), what });
            }
        }
    }
}

#[cfg(test)]
mod tests;
