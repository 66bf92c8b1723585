//! A change of one key of byte strings, worked out while its bucket is locked.
//!
//! The commit of every change is the one store of the slot's payload that the index makes: a new record
//! stands at the head of its chain, and records before one that is replaced or removed are copied, so
//! nothing that is reachable is ever written to. A removal needs space for such copies.
//!
//! An update whose closure decides runs it once, under the bucket's lock, when nothing is left to wait for:
//! a sweep has ended before, and the count of chained records is held where the change may need it. Its
//! record is written and fenced under the lock.

use std::cell::OnceCell;
use std::sync::MutexGuard;

use durahash_media::{Error, ErrorKind, Result};

use super::outcome::Outcome;
use super::record::{Draft, check_sizes};
use super::records::{Record, always};
use super::{Engine, Single};
use crate::index::Change;

/// Keys that share one hash, at most: every operation on one of them reads those before it. So many are found only
/// with the pool's seed.
const CHAIN_MAX: usize = 256;

/// When a change shall be made.
#[derive(Clone, Copy)]
pub(crate) enum Rule<'a> {
    Always,
    IfAbsent,
    IfEqual(&'a [u8]),
}

/// Decides on a change by the value that is there.
pub(crate) type Decide<'a> = &'a mut dyn FnMut(Option<&[u8]>) -> Result<Change<Vec<u8>>>;

/// A change of one key, worked out while the bucket is locked.
pub(crate) struct Edit<'a> {
    engine: &'a Engine<Single>,
    h: u64,
    key: &'a [u8],
    rule: Rule<'a>,
    /// The new record, and where it stands, 0 in the slot; none for a removal.
    draft: Option<(Draft<'a>, u64)>,
    /// The new record's name, which `next` is a part of; or what the slot has in place of one.
    name: u64,
    /// Where the copies of the records in `before` stand.
    copies: Vec<u64>,
    /// The record that goes, or 0, and those that stood before it.
    replaced: u64,
    before: Vec<Record>,
    pub(crate) outcome: Outcome,
    pub(crate) had: bool,
    /// The number of chained records, locked until the commit, and by how much it changes.
    chained: Option<MutexGuard<'a, Option<u64>>>,
    by: i64,
    /// The batch that this is a part of has it locked.
    is_locked: bool,
    pub(crate) again: Option<Again>,
}

/// Why a change has to be tried again: it must not wait under a lock.
#[derive(Clone, Copy)]
pub(crate) enum Again {
    /// No space without growth while a sweep is pending.
    AfterSweep,
    /// Another thread counts the chained records.
    AfterCount,
}

impl<'a> Edit<'a> {
    /// Writes the new record, before any lock is taken.
    #[inline(always)]
    pub(crate) fn new(
        engine: &'a Engine<Single>,
        h: u64,
        key: &'a [u8],
        rule: Rule<'a>,
        draft: Option<Draft<'a>>,
    ) -> Result<Self> {
        let (mut off, mut name) = (0, 0);
        if let Some(draft) = &draft {
            if let Some(payload) = engine.records.payload_of(draft) {
                name = payload;
            } else {
                off = match engine.records.alloc(draft)? {
                    Some(off) => off,
                    None => {
                        engine.finish_sweep()?;
                        let none = || Error::corrupt("a sweep is reported, but none is pending", 0);
                        engine.records.alloc(draft)?.ok_or_else(none)?
                    }
                };
                name = engine.records.write(off, draft).inspect_err(|_| engine.release(off))?;
            }
        }
        Ok(Edit {
            engine,
            h,
            key,
            rule,
            draft: draft.map(|draft| (draft, off)),
            name,
            copies: Vec::new(),
            replaced: 0,
            before: Vec::new(),
            outcome: Outcome::Done,
            had: false,
            chained: None,
            by: 0,
            is_locked: false,
            again: None,
        })
    }

    /// The new record did not come to lie where damage points to: it must not be taken for an old one and freed.
    fn is_not_at(&self, old: Option<&Record>) -> Result<()> {
        match (self.draft, old) {
            (Some((_, off)), Some(record)) if off == record.off && off != 0 => {
                Err(Error::corrupt("a slot names a block that was free", off))
            }
            _ => Ok(()),
        }
    }

    /// Locks the number of chained records, which changes by `by`; false if the change has to be tried again.
    fn counts(&mut self, by: i64) -> bool {
        if !self.is_locked {
            self.chained = self.engine.try_lock_chained();
            self.is_locked = self.chained.is_some();
        }
        self.by = by;
        if !self.is_locked {
            self.again = Some(Again::AfterCount);
        }
        self.is_locked
    }

    /// Works out a part of a batch, which has locked the number of chained records: the payload that the slot
    /// will have in the place of this one.
    pub(crate) fn in_batch(&mut self, payload: Option<u64>) -> Result<Option<u64>> {
        self.is_locked = true;
        let change = match payload {
            Some(payload) => self.present(payload, None)?,
            None => self.absent(0)?,
        };
        debug_assert!(self.again.is_none(), "a batch waits for sweeps before");
        Ok(match change {
            Change::Keep => payload,
            Change::Set(name) => Some(name),
            Change::Remove => None,
        })
    }

    /// Leaves the blocks of its new records, and of those that go, to the batch that it is a part of. Returns the
    /// change of the number of chained records.
    pub(crate) fn leave_to_batch(self, written: &mut Vec<u64>, gone: &mut Vec<u64>) -> i64 {
        written.extend(self.draft.map(|(_, off)| off));
        written.extend(self.copies);
        if self.outcome == Outcome::Done {
            gone.extend(Some(self.replaced).filter(|off| *off != 0));
            gone.extend(self.before.iter().map(|record| record.off));
        }
        self.by
    }

    /// A block for a record, while the bucket is locked; `None` where a sweep has to find one.
    fn alloc(&self, draft: &Draft<'_>) -> Result<Option<u64>> {
        // No sweep is pending where the pool is full, so none waits for the lock.
        self.engine.with_room(|| self.engine.records.alloc(draft))
    }

    /// Changes the key, whose slot has this payload, as `decide` says. `room` keeps the new value.
    pub(crate) fn decide(
        &mut self,
        payload: Option<u64>,
        room: &'a OnceCell<Vec<u8>>,
        decide: Decide<'_>,
    ) -> Result<Change> {
        let (engine, head) = (self.engine, payload.unwrap_or(0));
        let found = match payload {
            Some(_) => engine.records.find(self.h, head, self.key, &mut self.before, &always)?,
            None => None,
        };
        let is_chained = engine.records.is_chained(head);
        if payload.is_some() && (found.is_none() || is_chained) && !self.counts(0) {
            return Ok(Change::Keep);
        }
        let mut old = Vec::new();
        if let Some(record) = &found {
            engine.records.copy_value(record, &mut old, &always)?;
            engine.records.verify(record, engine.records.hashes.key(self.key), &old)?;
        }
        match (decide(found.is_some().then_some(&*old))?, found) {
            (Change::Keep, _) | (Change::Remove, None) => {
                self.outcome = Outcome::Absent;
                self.before.clear();
                Ok(Change::Keep)
            }
            (Change::Remove, Some(record)) => self.replace(&record),
            (Change::Set(value), found) => {
                check_sizes(self.key, &value)?;
                let key_hash = engine.records.hashes.key(self.key);
                let (key, value) = (self.key, room.get_or_init(|| value));
                let draft = Draft { key_hash, key, value, next: 0 };
                if let Some(payload) = engine.records.payload_of(&draft) {
                    (self.draft, self.name) = (Some((draft, 0)), payload);
                } else {
                    let none = || Error::corrupt("a sweep is reported, but none is pending", 0);
                    let off = self.alloc(&draft)?.ok_or_else(none)?;
                    self.draft = Some((draft, off));
                    self.is_not_at(found.as_ref())?;
                    self.name = engine.records.write(off, &draft)?;
                }
                match found {
                    Some(record) => self.replace(&record),
                    None => self.absent(head),
                }
            }
        }
    }

    /// The key is absent; `next` names a record of another key with its hash, or is 0.
    pub(crate) fn absent(&mut self, next: u64) -> Result<Change> {
        let chained = std::mem::take(&mut self.before).len();
        if self.draft.is_some() && chained >= CHAIN_MAX {
            return Err(ErrorKind::Skewed { depth: u64::BITS }.into());
        }
        match (&self.draft, self.rule) {
            (Some(_), Rule::Always | Rule::IfAbsent) => {
                if next != 0 && !(self.link(next)? && self.counts(1)) {
                    return Ok(Change::Keep);
                }
                Ok(Change::Set(self.name))
            }
            _ => {
                self.outcome = Outcome::Absent;
                Ok(Change::Keep)
            }
        }
    }

    /// Writes the new record once more, with a next one, for which a cell has no room; false if the change has to be
    /// tried again.
    fn link(&mut self, next: u64) -> Result<bool> {
        let engine = self.engine;
        let Some((draft, mut off)) = self.draft else { return Ok(true) };
        let linked = Draft { next, ..draft };
        if !engine.records.has_room(&draft, next) {
            let Some(larger) = self.alloc(&linked)? else {
                self.again = Some(Again::AfterSweep);
                return Ok(false);
            };
            engine.release(std::mem::replace(&mut off, larger));
        }
        self.draft = Some((linked, off));
        self.name = engine.records.write(off, &linked)?;
        Ok(true)
    }

    /// There are records with the key's hash.
    pub(crate) fn present(&mut self, head: u64, old: Option<&mut Vec<u8>>) -> Result<Change> {
        let engine = self.engine;
        if engine.sweep_pending() {
            engine.records.mark_chain(self.h, head)?;
        }
        let found = engine.records.find(self.h, head, self.key, &mut self.before, &always)?;
        let Some(record) = found else {
            return self.absent(head);
        };
        self.is_not_at(Some(&record))?;
        self.had = true;
        let mut value = Vec::new();
        let wanted = old.is_some();
        let old = old.unwrap_or(&mut value);
        // Where the value matters, or `next` is about to be trusted, the record must be sound. A cell that is not may
        // be that of another key, and is not freed.
        let matters = wanted || record.header.next != 0 || matches!(self.rule, Rule::IfEqual(_));
        let mut is_own = true;
        if matters || record.is_cell() {
            engine.records.copy_value(&record, old, &always)?;
            let verified = engine.records.verify(&record, engine.records.hashes.key(self.key), old);
            is_own = verified.is_ok();
            if matters {
                verified?;
            }
        }
        let refused = match self.rule {
            Rule::Always => false,
            Rule::IfAbsent => true,
            Rule::IfEqual(want) => old != want,
        };
        if refused {
            self.outcome = Outcome::Present(());
            self.before.clear();
            return Ok(Change::Keep);
        }
        let change = self.replace(&record)?;
        if !is_own {
            self.replaced = 0;
        }
        Ok(change)
    }

    /// The first of the records that the slot leads to goes, whatever its key is. `bytes`: of its entry.
    pub(crate) fn first(
        &mut self,
        payload: Option<u64>,
        (bytes, expiry): (&mut u64, &mut u64),
    ) -> Result<Change> {
        let (engine, Some(head)) = (self.engine, payload) else {
            self.outcome = Outcome::Absent;
            return Ok(Change::Keep);
        };
        if engine.sweep_pending() {
            engine.records.mark_chain(self.h, head)?;
        }
        // A damaged slot may name the record of another, which is not its to free.
        let record = engine.records.first(self.h, head)?;
        (*bytes, *expiry) = (engine.bytes_of(&record), engine.records.first_word(&record)?);
        self.had = true;
        self.replace(&record)
    }

    /// The new record, or none, in the place of one.
    fn replace(&mut self, record: &Record) -> Result<Change> {
        let engine = self.engine;
        // The chain without the record, from its end.
        let mut rest = record.header.next;
        for record in self.before.iter().rev() {
            let (key, value) = engine.records.load(record)?;
            let key_hash = engine.records.hashes.key(&key);
            let draft = Draft { key_hash, key: &key, value: &value, next: rest };
            let Some(copy) = self.alloc(&draft)? else {
                self.again = Some(Again::AfterSweep);
                return Ok(Change::Keep);
            };
            self.copies.push(copy);
            rest = engine.records.write(copy, &draft)?;
        }
        let change = match &self.draft {
            Some(_) => {
                if rest != 0 && !self.link(rest)? {
                    return Ok(Change::Keep);
                }
                Change::Set(self.name)
            }
            None if rest == 0 => Change::Remove,
            None => {
                if !self.counts(-1) {
                    return Ok(Change::Keep);
                }
                Change::Set(rest)
            }
        };
        self.replaced = record.off;
        Ok(change)
    }

    /// The change is durable: frees the records that it replaced.
    pub(crate) fn finish(mut self) {
        if let Some(count) = self.chained.as_deref_mut() {
            *count = count.map(|count| count.saturating_add_signed(self.by));
        }
        if self.replaced != 0 {
            self.engine.release(self.replaced);
        }
        for record in self.before {
            self.engine.release(record.off);
        }
    }

    /// The change was not made: frees its new records.
    pub(crate) fn abandon(self) {
        if let Some((_, off)) = self.draft {
            self.engine.release(off);
        }
        for off in self.copies {
            self.engine.release(off);
        }
    }
}
