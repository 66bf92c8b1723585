//! Maps: words, and byte strings whose records hang on the slot of their hash.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::Arc;

use durahash_media::{ErrorKind, Medium, Place, Pool, Result};

use super::cell::Cell;
use super::data::Expiring;
use super::design::Design;
use super::durable::{Durable, Lookup};
use super::edit::{Again, Decide, Edit, Rule};
use super::outcome::Outcome;
use super::record::{Draft, KeyHash, Short, check_sizes, is_chained, offset};
use super::records::{Pair, Record, always, is_damage, is_whole};
use super::settings::DesignOptions;
use super::{CHAINED_COUNTER, Engine, Host, Kind, Made, Member, Rest, Single};
use crate::designs::esh::{self, Esh};
use crate::designs::pea::{self, Pea};
use crate::designs::reh::{self, Reh};
use crate::designs::rewo::{self, Rewo};
use crate::index::{Change, Finding, Index, PREFETCHED, Room, Updater};

impl Kind for Single {
    const NUMBER: u8 = 0;
    const DESIGN: Design = Design::Reh;
    type Index = dyn Lookup;
    type Slot = u64;

    fn index<M: Medium>(place: Place<M>, made: Made) -> Result<Rest<dyn Lookup>> {
        let (design, options, is_new) = made;
        let pool = Arc::clone(place.pool());
        let DesignOptions { policy, cache } = options;
        if pool.looks_on() {
            return match design {
                Design::Reh => Ok(durable(|| reh::Onlooker::new(place), pool)),
                Design::Pea => Ok(durable(|| pea::Onlooker::new(place), pool)),
                Design::Esh => Ok(durable(|| esh::Onlooker::new(place), pool)),
                Design::Rewo => Ok(durable(|| rewo::Onlooker::new(place), pool)),
            };
        }
        Ok(match (design, is_new) {
            (Design::Reh, true) => durable(|| Reh::create(place), pool),
            (Design::Reh, false) => durable(Reh::read(place)?, pool),
            (Design::Pea, true) => durable(move || Pea::create(place, policy), pool),
            (Design::Pea, false) => durable(Pea::read(place, policy)?, pool),
            (Design::Esh, true) => durable(|| Esh::create(place), pool),
            (Design::Esh, false) => durable(Esh::read(place)?, pool),
            (Design::Rewo, true) => durable(move || Rewo::create(place, cache), pool),
            (Design::Rewo, false) => durable(Rewo::read(place, cache)?, pool),
        })
    }

    fn index_of(host: &dyn Host, map: u8, made: Made) -> Result<Rest<dyn Lookup>> {
        host.single(map, made)
    }

    fn member(engine: Arc<Engine<Self>>) -> Member {
        Member::Single(engine)
    }

    fn of(member: &Member) -> Option<&Arc<Engine<Self>>> {
        match member {
            Member::Single(engine) => Some(engine),
            Member::Multi(_) => None,
        }
    }

    fn names_blocks(engine: &Engine<Self>) -> bool {
        !engine.is_words()
    }

    fn mark_unit(engine: &Engine<Self>, unit: &[(u64, u64)]) -> Result<()> {
        // The writer of a chain that was changed since the scan has marked its old records.
        for (h, payload) in unit {
            if engine.records.value_in(*payload).is_some() {
                continue;
            }
            engine.store.mark(offset(*payload))?;
            if is_chained(*payload) || engine.records.is_displaced(*payload) {
                engine.records.mark_chain(*h, *payload)?;
            }
        }
        Ok(())
    }

    fn free_unit(engine: &Engine<Self>, unit: &[(u64, u64)]) -> Result<()> {
        for (h, payload) in unit.iter().filter(|_| !engine.is_words()) {
            let mut offs = Vec::new();
            engine.own_records((*h, *payload), false, &mut offs)?;
            offs.into_iter().for_each(|off| engine.release(off));
        }
        Ok(())
    }

    fn take(
        engine: &Engine<Self>,
        unit: &mut Vec<(u64, u64)>,
        words: &mut Vec<(u64, u64)>,
        pairs: &mut Vec<Pair>,
    ) -> Result<()> {
        if engine.is_words() {
            words.append(unit);
            return Ok(());
        }
        // The record is looked up again, since its slot may have changed since the scan.
        unit.pop().map_or(Ok(()), |(h, _)| engine.pairs(h, pairs))
    }

    fn add_word(engine: &Engine<Self>, h: u64, payload: u64) -> Result<()> {
        engine.update_word(h, Room::ForNew, &mut |_| Ok(Change::Set(payload))).map(drop)
    }

    fn add_pair(engine: &Engine<Self>, key: &[u8], value: &[u8]) -> Result<()> {
        engine.change(key, Some(value), Rule::Always, None).map(drop)
    }

    fn check_own(
        engine: &Engine<Self>,
        found: &mut dyn FnMut(Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<HashSet<u64>> {
        engine.index.check(found)?;
        let slots = match engine.index.len() {
            // `check` has found the damage that keeps them from being counted.
            Err(e) if is_damage(&e) => 0,
            len => len?,
        };
        let mut looked = 0;
        let mut looked_at_one = || {
            looked += 1;
            watch(looked, slots.max(looked));
        };
        if engine.is_words() {
            engine.check_words(found, &mut looked_at_one).map(|()| HashSet::new())
        } else {
            engine.check_records(found, &mut looked_at_one)
        }
    }

    fn len(engine: &Engine<Self>) -> Result<u64> {
        engine.len()
    }

    fn save(engine: &Engine<Self>) {
        let count = *engine.lock_chained();
        engine.store.save(engine.map, CHAINED_COUNTER, count.map_or(0, |count| count + 1));
        engine.index.close();
    }
}

fn durable<I: Index + 'static, M: Medium>(
    index: impl FnOnce() -> Result<I> + 'static,
    pool: Arc<Pool<M>>,
) -> Rest<dyn Lookup> {
    Box::new(move || Ok(Box::new(Durable::new(index()?, pool))))
}

impl Engine<Single> {
    /// As [`Index::update`], in a map of words. If the pool is full, room is found first: that of records of its
    /// other maps.
    #[inline(always)]
    pub(crate) fn update_word(&self, h: u64, room: Room, f: Updater<'_>) -> Result<Option<u64>> {
        let done = self.index.update(h, room, f);
        // It is returned in place: a copy costs.
        if done.is_err() { self.update_with_room(done, h, room, f) } else { done }
    }

    #[cold]
    fn update_with_room(
        &self,
        done: Result<Option<u64>>,
        h: u64,
        room: Room,
        f: Updater<'_>,
    ) -> Result<Option<u64>> {
        match done {
            // Then `f` did not run.
            Err(e) if self.is_full(&e) => {
                self.find_room()?;
                self.index.update(h, room, f)
            }
            done => done,
        }
    }

    /// The hash of a key of bytes, for those that look for it.
    #[inline]
    pub(crate) fn key_hash(&self, key: &[u8]) -> KeyHash {
        self.records.hashes.key(key)
    }

    /// As [`Lookup::look_once`]; where it cannot tell, [`get_bytes`](Self::get_bytes) does.
    #[inline]
    pub(crate) fn look_once(
        &self,
        key: &[u8],
        key_hash: KeyHash,
        out: Option<&mut Short>,
    ) -> Option<bool> {
        if self.records.cell.is_some() {
            return self.look_for_any_cell(key, key_hash, out);
        }
        let h = self.records.hashes.h(key_hash);
        self.index.look_once(self.records.known.as_ref()?, h, key, out)
    }

    /// The same where maps of the caller's types have this cell. It is a constant there, and so are all its sizes.
    #[inline(always)]
    pub(crate) fn look_for_usual_cell(
        &self,
        cell: Cell,
        key: &[u8],
        key_hash: KeyHash,
        out: &mut Short,
    ) -> Option<bool> {
        if self.records.cell == Some(cell) {
            self.look_for_cell(cell, key, key_hash, Some(out))
        } else {
            self.look_once(key, key_hash, Some(out))
        }
    }

    /// The value of a hash, with its expiry, where slots have values: `Some(None)` if there is none, and none if it is
    /// not in its slot.
    #[inline(always)]
    pub(crate) fn look_in_slot(
        &self,
        cell: Cell,
        h: u64,
    ) -> Result<Option<Option<[u8; 2 * Expiring::BYTES]>>> {
        let Some(payload) = self.index.get(h)? else { return Ok(Some(None)) };
        Ok(cell.value_in(payload).and_then(|value| cell.bytes_of(value)).map(Some))
    }

    /// The same for a cell that the caller does not know. It is rare, and what it calls is large.
    #[inline(never)]
    fn look_for_any_cell(
        &self,
        key: &[u8],
        key_hash: KeyHash,
        out: Option<&mut Short>,
    ) -> Option<bool> {
        self.look_for_cell(self.records.cell?, key, key_hash, out)
    }

    /// The same where there are cells. One that is another key's, or damaged, is looked at again.
    #[inline(always)]
    fn look_for_cell(
        &self,
        cell: Cell,
        key: &[u8],
        key_hash: KeyHash,
        out: Option<&mut Short>,
    ) -> Option<bool> {
        let h = self.records.hashes.h(key_hash);
        let is_for_value = out.is_some();
        let mut own = Short::new(Short::LONGEST);
        let short = out.unwrap_or(&mut own);
        let found = if cell.is_in_slots() {
            self.index.look_beside_values(cell, h, short)
        } else {
            self.index.look_for_cell(cell, h, short)
        };
        let Some(name) = found? else { return Some(false) };
        let is_intact = || short.is_intact(cell, name, &self.records.hashes, key_hash);
        (short.is_of(cell, key) && (!is_for_value || is_intact())).then_some(true)
    }

    /// Copies the value of `key` into `out`; true if there is one.
    pub(crate) fn get_bytes(
        &self,
        key: &[u8],
        key_hash: KeyHash,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let h = self.records.hashes.h(key_hash);
        let (mut found, mut is_known) = (None, false);
        self.index.read(h, &mut |payload, still| {
            found = match payload {
                Some(payload) => self.records.find(h, payload, key, &mut Vec::new(), still)?,
                None => None,
            };
            match &found {
                Some(record) => {
                    is_known = self.records.is_known(record.off);
                    self.records.copy_value(record, out, still)
                }
                None => Ok(()),
            }
        })?;
        if let Some(record) = found.filter(|_| !is_known) {
            self.records.verify(&record, key_hash, out)?;
            self.records.add_known(record.off);
        }
        Ok(found.is_some())
    }

    /// Starts to fetch the records of a few keys, at most [`PREFETCHED`], after a lookup of their payloads.
    pub(crate) fn prefetch_records(&self, keys: &[KeyHash]) -> Result<()> {
        let (mut hashes, mut names) = ([0; PREFETCHED], [None; PREFETCHED]);
        for (h, key) in hashes.iter_mut().zip(keys) {
            *h = self.records.hashes.h(*key);
        }
        let names = &mut names[..keys.len()];
        self.index.get_many(&hashes[..keys.len()], names)?;
        for name in names.iter().flatten() {
            self.records.prefetch(*name);
        }
        Ok(())
    }

    /// Starts to fetch the first record of a hash, whose bucket is there.
    pub(crate) fn prefetch_entry(&self, h: u64) {
        if let Ok(Some(name)) = self.index.get(h) {
            self.records.prefetch(name);
        }
    }

    /// True if `key` has a value.
    pub(crate) fn contains_bytes(&self, key: &[u8], key_hash: KeyHash) -> Result<bool> {
        if let Some(found) = self.look_once(key, key_hash, None) {
            return Ok(found);
        }
        let h = self.records.hashes.h(key_hash);
        let mut found = false;
        self.index.read(h, &mut |payload, still| {
            found = match payload {
                Some(payload) => {
                    self.records.find(h, payload, key, &mut Vec::new(), still)?.is_some()
                }
                None => false,
            };
            Ok(())
        })?;
        Ok(found)
    }

    /// Makes `new` the value of `key`, or removes the key, as `rule` allows. Its old value goes to
    /// `old`, if [`Outcome::Done`]; empty where it had nothing, with the second answer false.
    pub(crate) fn change(
        &self,
        key: &[u8],
        new: Option<&[u8]>,
        rule: Rule<'_>,
        mut old: Option<&mut Vec<u8>>,
    ) -> Result<(Outcome, bool)> {
        check_sizes(key, new.unwrap_or_default())?;
        self.store.writable()?;
        if let Some(outcome) = self.refused(key, rule, old.as_deref_mut())? {
            return Ok((outcome, outcome == Outcome::Present(())));
        }
        self.with_room(|| self.change_once(key, new, rule, old.as_deref_mut()))
    }

    /// The same, if there is room.
    fn change_once(
        &self,
        key: &[u8],
        new: Option<&[u8]>,
        rule: Rule<'_>,
        mut old: Option<&mut Vec<u8>>,
    ) -> Result<(Outcome, bool)> {
        let key_hash = self.records.hashes.key(key);
        let h = self.records.hashes.h(key_hash);
        let room = match (new, rule) {
            (Some(_), Rule::Always | Rule::IfAbsent) => Room::ForNew,
            _ => Room::None,
        };
        loop {
            // Forgets the value that an earlier try found.
            old.iter_mut().for_each(|old| old.clear());
            let draft = new.map(|value| Draft { key_hash, key, value, next: 0 });
            let mut edit = Edit::new(self, h, key, rule, draft)?;
            let updated = self.index.update(h, room, &mut |payload| match payload {
                Some(payload) => edit.present(payload, old.as_deref_mut()),
                None => edit.absent(0),
            });
            if let Some(answer) = self.end(edit, updated)? {
                return Ok(answer);
            }
        }
    }

    /// Ends an edit behind the update that it was worked out in: its outcome, and whether there was a record; none if it
    /// has to be tried again.
    #[inline(always)]
    pub(super) fn end(
        &self,
        edit: Edit<'_>,
        updated: Result<Option<u64>>,
    ) -> Result<Option<(Outcome, bool)>> {
        if let Err(e) = updated {
            edit.abandon();
            return Err(e);
        }
        if let Some(again) = edit.again {
            edit.abandon();
            match again {
                Again::AfterSweep => self.finish_sweep()?,
                Again::AfterCount => drop(self.lock_chained()),
            }
            return Ok(None);
        }
        let answer = (edit.outcome, edit.had);
        match edit.outcome {
            Outcome::Done => edit.finish(),
            Outcome::Present(()) | Outcome::Absent => edit.abandon(),
        }
        Ok(Some(answer))
    }

    /// The outcome, if `rule` forbids a change of `key` before a record is written for it.
    fn refused(
        &self,
        key: &[u8],
        rule: Rule<'_>,
        old: Option<&mut Vec<u8>>,
    ) -> Result<Option<Outcome>> {
        let want = match rule {
            Rule::Always => return Ok(None),
            Rule::IfAbsent => None,
            Rule::IfEqual(want) => Some(want),
        };
        let mut value = Vec::new();
        let old = old.unwrap_or(&mut value);
        Ok(match (self.get_bytes(key, self.key_hash(key), old)?, want) {
            (true, Some(want)) => (old != want).then_some(Outcome::Present(())),
            (true, None) => Some(Outcome::Present(())),
            (false, Some(_)) => Some(Outcome::Absent),
            (false, None) => None,
        })
    }

    /// Does what `decide` says, which is called once with the value of `key`, while its bucket is locked.
    pub(crate) fn update(&self, key: &[u8], room: Room, decide: Decide<'_>) -> Result<()> {
        check_sizes(key, &[])?;
        self.store.writable()?;
        if self.sweep_pending() {
            self.finish_sweep()?;
        }
        let mut decided = false;
        let mut once = |old: Option<&[u8]>| {
            decided = true;
            decide(old)
        };
        match self.update_once(key, room, &mut once) {
            Err(e) if !decided && self.is_full(&e) => {
                self.find_room()?;
                self.update_once(key, room, decide)
            }
            done => done,
        }
    }

    /// The same, if there is room for a slot.
    fn update_once(&self, key: &[u8], room: Room, decide: Decide<'_>) -> Result<()> {
        let h = self.records.hash(key);
        let value = OnceCell::new();
        loop {
            let mut edit = Edit::new(self, h, key, Rule::Always, None)?;
            let updated = self
                .index
                .update(h, room, &mut |payload| edit.decide(payload, &value, &mut *decide));
            match (updated, edit.again, edit.outcome) {
                (Ok(_), None, Outcome::Done) => edit.finish(),
                (Ok(_), Some(_), _) => {
                    edit.abandon();
                    drop(self.lock_chained());
                    continue;
                }
                (updated, ..) => {
                    edit.abandon();
                    updated?;
                }
            }
            return Ok(());
        }
    }

    /// Every key and value whose hash is `h`. A damaged record ends the chain, since its `next` may
    /// lead to one that was replaced; it is reported after those before it were found.
    pub(crate) fn pairs(&self, h: u64, out: &mut Vec<Pair>) -> Result<()> {
        let mut copies: Vec<(Record, Pair)> = Vec::new();
        let mut damage = None;
        self.index.read(h, &mut |payload, still| {
            copies.clear();
            damage = None;
            let Some(payload) = payload else {
                return Ok(());
            };
            let walked = self.records.walk((h, payload), still, &mut |record| {
                let mut pair = (Vec::new(), Vec::new());
                self.records.copy_key(&record, &mut pair.0, still)?;
                self.records.copy_value(&record, &mut pair.1, still)?;
                copies.push((record, pair));
                Ok(true)
            });
            // A wild offset met by a late reader is no damage: the index asks again.
            damage = walked.err();
            Ok(())
        })?;
        for (record, pair) in copies {
            let key_hash = self.records.hashes.key(&pair.0);
            self.records.of_slot(&record, h, key_hash)?;
            self.records.verify(&record, key_hash, &pair.1)?;
            out.push(pair);
        }
        damage.map_or(Ok(()), Err)
    }

    /// How many keys there are. Counts chains at first, after the pool was not closed.
    pub(crate) fn len(&self) -> Result<u64> {
        if self.is_words() {
            return self.index.len();
        }
        let mut chained = self.lock_chained();
        let count = match *chained {
            Some(count) => count,
            None => {
                let mut count = 0;
                self.each_slot(&mut |h, payload| {
                    if self.records.is_chained(payload) {
                        let mut names = Vec::new();
                        self.chain(h, payload, &mut names)?;
                        count += names.len().saturating_sub(1) as u64;
                    }
                    Ok(())
                })?;
                *chained = Some(count);
                count
            }
        };
        Ok(self.index.len()? + count)
    }

    /// Calls `f` with every slot.
    fn each_slot(&self, f: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<()> {
        self.each_unit(&mut |slots| slots.iter().try_for_each(|(h, payload)| f(*h, *payload)))
    }

    /// The same with every slot that can be read.
    fn each_sound_slot(&self, f: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<()> {
        let f = &mut |slots: &[(u64, u64)]| slots.iter().try_for_each(|(h, v)| f(*h, *v));
        self.each_sound_unit(f)
    }

    /// The names of the records that hang on slot `h`, whose payload was `payload` a moment ago;
    /// those before the damage where there is some.
    fn chain(&self, h: u64, payload: u64, names: &mut Vec<u64>) -> Result<()> {
        if !self.records.is_chained(payload) {
            names.push(payload);
            return Ok(());
        }
        self.index.read(h, &mut |payload, still| {
            names.clear();
            let Some(mut name) = payload else {
                return Ok(());
            };
            self.records.walk((h, name), still, &mut |record| {
                names.push(std::mem::replace(&mut name, record.header.next));
                Ok(true)
            })
        })
    }

    /// Does a piece of background work; true if more is waiting.
    pub(crate) fn step(&self) -> Result<bool> {
        Ok(self.sweep_step()? | self.index.step()?)
    }

    /// Removes every slot that is there when the walk comes by, damaged ones too.
    pub(crate) fn clear(&self) -> Result<()> {
        self.clear_by(&mut |h| self.clear_hash(h, false).map(drop))
    }

    /// The same, where `clear_one` removes the slot of a hash.
    pub(crate) fn clear_by(&self, clear_one: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        self.store.writable()?;
        self.batch(|| {
            self.index.mend()?;
            // Once more, for hashes that damage gave two slots: the first walk removes one of them.
            for _ in 0..2 {
                self.each_slot(&mut |h, _| clear_one(h))?;
            }
            let mut chained = self.lock_chained();
            if *chained != Some(0) {
                // Damage took some before they were removed: the others are counted anew.
                *chained = None;
            }
            Ok(())
        })
    }

    /// The offsets of the records that hang on slot `h`, which no thread changes; false where damage hides some, or is in
    /// their values, if these are `verified`.
    fn own_records(
        &self,
        (h, payload): (u64, u64),
        verified: bool,
        offs: &mut Vec<u64>,
    ) -> Result<bool> {
        let mut key = Vec::new();
        is_whole(self.records.walk((h, payload), &|| true, &mut |record| {
            // A damaged slot may name the record of another: that is not its to free.
            self.records.copy_key(&record, &mut key, &|| true)?;
            self.records.of_slot(&record, h, self.records.hashes.key(&key))?;
            if record.is_cell() {
                self.records.load(&record)?;
            }
            offs.push(record.off);
            if verified {
                self.records.load(&record)?;
            }
            Ok(true)
        }))
    }

    /// Removes the slot of `h`; the bytes of its entries, if these are records. One that is damaged counts as one without
    /// bytes. Or only if one is `damaged`.
    pub(crate) fn clear_hash(&self, h: u64, damaged: bool) -> Result<Vec<u64>> {
        loop {
            if let Some(sizes) = self.clear_slot(h, damaged)? {
                return Ok(sizes);
            }
            drop(self.lock_chained());
        }
    }

    /// The same; none while another thread counts chains.
    fn clear_slot(&self, h: u64, damaged: bool) -> Result<Option<Vec<u64>>> {
        let words = self.is_words();
        let (mut offs, mut sizes) = (Vec::new(), Vec::new());
        let mut chained = None;
        let (mut busy, mut whole) = (false, true);
        self.index.update(h, Room::None, &mut |payload| {
            let Some(payload) = payload.filter(|_| !words) else {
                return Ok(Change::Remove);
            };
            if self.sweep_pending() {
                self.records.mark_chain(h, payload)?;
            }
            whole = self.own_records((h, payload), damaged, &mut offs)?;
            if damaged && whole {
                offs.clear();
                return Ok(Change::Keep);
            }
            if !is_whole(self.sizes_of((h, payload), &always, &mut sizes))? {
                sizes = vec![0];
            }
            if self.records.is_chained(payload) || !whole {
                chained = self.try_lock_chained();
                busy = chained.is_none();
            }
            Ok(if busy { Change::Keep } else { Change::Remove })
        })?;
        if busy {
            return Ok(None);
        }
        if let Some(count) = chained.as_deref_mut() {
            // How many hung on a damaged one is unknown: they are counted anew.
            *count = count
                .filter(|_| whole)
                .map(|count| count.saturating_sub((offs.len() as u64).saturating_sub(1)));
        }
        for off in offs {
            self.release(off);
        }
        Ok(Some(sizes))
    }

    /// **MAP-1** Every slot's words are a key and a value of their types.
    fn check_words(
        &self,
        found: &mut dyn FnMut(Finding),
        looked_at_one: &mut dyn FnMut(),
    ) -> Result<()> {
        self.each_sound_slot(&mut |h, payload| {
            looked_at_one();
            self.check_word_pair(h, payload, found);
            Ok(())
        })
    }

    /// - **REC-1** Every record of every slot lies in a block, is intact, and belongs to its slot.
    /// - **REC-2** No block is named twice, and no key stands in two records of a chain.
    /// - **REC-3** Every block in use is named (once the sweep has ended).
    /// - **REC-4** The number of records that hang on others is the one that is kept.
    /// - **MAP-1** as for words.
    fn check_records(
        &self,
        found: &mut dyn FnMut(Finding),
        looked_at_one: &mut dyn FnMut(),
    ) -> Result<HashSet<u64>> {
        let mut named = HashSet::new();
        let mut chained = 0;
        // Beside a writer the slot may have another record by now.
        let looks_on = self.store.looks_on();
        self.each_sound_slot(&mut |h, payload| {
            looked_at_one();
            let mut rec = |invariant, off, what: String| found(Finding { invariant, off, what });
            let mut names = Vec::new();
            let is_named = !looks_on && self.records.value_in(payload).is_none();
            if is_named && let Err(e) = self.chain(h, payload, &mut names) {
                rec("REC-1", offset(payload), format!("slot {h:#018x}: {e}"));
            }
            chained += names.len().saturating_sub(1) as u64;
            for name in names {
                let off = offset(name);
                if let Err(e) = self.store.block_bytes(off) {
                    rec("REC-1", off, format!("slot {h:#018x}: {e}"));
                } else if self.records.is_displaced(name) {
                    rec("REC-1", off, format!("slot {h:#018x}: a cell in a block of other size"));
                }
                if !named.insert(off) {
                    rec("REC-2", off, format!("named twice, also by slot {h:#018x}"));
                }
            }
            let mut pairs = Vec::new();
            match self.pairs(h, &mut pairs) {
                Err(e) if matches!(e.kind(), ErrorKind::WriterGone) => return Err(e),
                Err(e) => rec("REC-1", offset(payload), format!("slot {h:#018x}: {e}")),
                Ok(()) => {}
            }
            let mut keys = HashSet::new();
            for pair in &pairs {
                if !keys.insert(&pair.0) {
                    let what = format!("a key stands twice in the chain of slot {h:#018x}");
                    found(Finding { invariant: "REC-2", off: offset(payload), what });
                }
                self.check_byte_pair((h, payload), pair, found);
            }
            Ok(())
        })?;
        let kept = *self.lock_chained();
        if let Some(kept) = kept.filter(|kept| *kept != chained && !looks_on) {
            let what = format!("{chained} records hang on others, {kept} are counted");
            found(Finding { invariant: "REC-4", off: 0, what });
        }
        Ok(named)
    }
}
