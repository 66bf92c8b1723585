//! A change of one key of byte strings, worked out while its bucket is locked.
//!
//! The commit of every change is the one store of the slot's payload that the index makes: a new record
//! stands at the head of its chain, and records before one that is replaced or removed are copied, so
//! nothing that is reachable is ever written to. A removal needs space for such copies.

use std::sync::MutexGuard;

use durahash_media::{Error, Result};

use super::outcome::Outcome;
use super::record::Draft;
use super::records::{Record, always};
use super::{Engine, Single};
use crate::index::Change;

/// When a change shall be made.
#[derive(Clone, Copy)]
pub(crate) enum Rule<'a> {
    Always,
    IfAbsent,
    IfEqual(&'a [u8]),
}

/// A change of one key, worked out while the bucket is locked.
pub(crate) struct Edit<'a> {
    engine: &'a Engine<Single>,
    h: u64,
    key: &'a [u8],
    rule: Rule<'a>,
    /// The new record, and where it stands; none for a removal.
    draft: Option<(Draft<'a>, u64)>,
    /// The new record's name, which `next` is a part of.
    name: u64,
    /// Where the copies of the records in `before` stand.
    copies: Vec<u64>,
    /// The record that goes, or 0, and those that stood before it.
    replaced: u64,
    before: Vec<Record>,
    pub(crate) outcome: Outcome,
    pub(crate) had: bool,
    /// By how much the number of chained records changes, which is locked until the commit.
    chained: Option<(MutexGuard<'a, Option<u64>>, i64)>,
    pub(crate) again: Option<Again>,
}

/// Why a change has to be tried again: what it waits for must not be waited for under a lock.
#[derive(Clone, Copy)]
pub(crate) enum Again {
    /// No space without growth while a sweep is pending.
    AfterSweep,
    /// Another thread counts the chained records.
    AfterCount,
}

impl<'a> Edit<'a> {
    /// Writes the new record, before any lock is taken.
    pub(crate) fn new(
        engine: &'a Engine<Single>,
        h: u64,
        key: &'a [u8],
        rule: Rule<'a>,
        draft: Option<Draft<'a>>,
    ) -> Result<Self> {
        let mut edit = Edit {
            engine,
            h,
            key,
            rule,
            draft: None,
            name: 0,
            copies: Vec::new(),
            replaced: 0,
            before: Vec::new(),
            outcome: Outcome::Done,
            had: false,
            chained: None,
            again: None,
        };
        if let Some(draft) = draft {
            let off = match engine.store.alloc(draft.bytes())? {
                Some(off) => off,
                None => {
                    engine.finish_sweep()?;
                    let none = || Error::corrupt("a sweep is reported, but none is pending", 0);
                    engine.store.alloc(draft.bytes())?.ok_or_else(none)?
                }
            };
            edit.draft = Some((draft, off));
            match engine.store.write(off, &engine.records.hashes, &draft) {
                Ok(name) => edit.name = name,
                Err(e) => {
                    edit.abandon();
                    return Err(e);
                }
            }
        }
        Ok(edit)
    }

    /// The key is absent; `next` names a record of another key with its hash, or is 0.
    pub(crate) fn absent(&mut self, next: u64) -> Result<Change> {
        match (&mut self.draft, self.rule) {
            (Some((draft, off)), Rule::Always | Rule::IfAbsent) => {
                if next != 0 {
                    let Some(chained) = self.engine.try_lock_chained() else {
                        self.again = Some(Again::AfterCount);
                        return Ok(Change::Keep);
                    };
                    self.chained = Some((chained, 1));
                    draft.next = next;
                    self.name =
                        self.engine.store.write(*off, &self.engine.records.hashes, draft)?;
                }
                Ok(Change::Set(self.name))
            }
            _ => {
                self.outcome = Outcome::Absent;
                Ok(Change::Keep)
            }
        }
    }

    /// There are records with the key's hash.
    pub(crate) fn present(&mut self, head: u64, old: Option<&mut Vec<u8>>) -> Result<Change> {
        let engine = self.engine;
        if engine.sweep_pending() {
            engine.records.mark_chain(head)?;
        }
        let found = engine.records.find(self.h, head, self.key, &mut self.before, &always)?;
        let Some(record) = found else {
            self.before.clear();
            return self.absent(head);
        };
        if self.draft.is_some_and(|(_, off)| off == record.off) {
            // The new record came to lie where damage points to; it must not be taken for an old one
            // and freed.
            return Err(Error::corrupt("a slot names a block that was free", record.off));
        }
        self.had = true;
        let mut value = Vec::new();
        let wanted = old.is_some();
        let old = old.unwrap_or(&mut value);
        // Where the value matters, or `next` is about to be trusted, the record must be sound.
        if wanted || record.header.next != 0 || matches!(self.rule, Rule::IfEqual(_)) {
            engine.records.copy_value(&record, old, &always)?;
            engine.records.verify(&record, engine.records.hashes.key(self.key), old)?;
        }
        let refused = match self.rule {
            Rule::Always => false,
            Rule::IfAbsent => true,
            Rule::IfEqual(want) => old != want,
        };
        if refused {
            self.outcome = Outcome::Present;
            self.before.clear();
            return Ok(Change::Keep);
        }
        // The chain without the record, from its end.
        let mut rest = record.header.next;
        for record in self.before.iter().rev() {
            let (key, value) = engine.records.load(record)?;
            let key_hash = engine.records.hashes.key(&key);
            let draft = Draft { key_hash, key: &key, value: &value, next: rest };
            let Some(copy) = engine.store.alloc(draft.bytes())? else {
                self.again = Some(Again::AfterSweep);
                return Ok(Change::Keep);
            };
            self.copies.push(copy);
            rest = engine.store.write(copy, &engine.records.hashes, &draft)?;
        }
        let change = match &mut self.draft {
            Some((draft, off)) => {
                if rest != 0 {
                    draft.next = rest;
                    self.name = engine.store.write(*off, &engine.records.hashes, draft)?;
                }
                Change::Set(self.name)
            }
            None if rest == 0 => Change::Remove,
            None => {
                let Some(chained) = engine.try_lock_chained() else {
                    self.again = Some(Again::AfterCount);
                    return Ok(Change::Keep);
                };
                self.chained = Some((chained, -1));
                Change::Set(rest)
            }
        };
        self.replaced = record.off;
        Ok(change)
    }

    /// The change is durable: what it replaced is free.
    pub(crate) fn finish(self) {
        if let Some((mut chained, by)) = self.chained
            && let Some(count) = &mut *chained
        {
            *count = count.saturating_add_signed(by);
        }
        if self.replaced != 0 {
            self.engine.release(self.replaced);
        }
        for record in self.before {
            self.engine.release(record.off);
        }
    }

    /// The change was not made: what it wrote is free.
    pub(crate) fn abandon(self) {
        if let Some((_, off)) = self.draft {
            self.engine.release(off);
        }
        for off in self.copies {
            self.engine.release(off);
        }
    }
}
