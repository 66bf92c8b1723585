//! Byte keys over an index of words: records, and chains of keys whose hashes are equal.
//!
//! A slot's payload names one record; further keys of the same hash hang on it by `next`. Whatever
//! changes, the commit is the one store of the slot's payload that the index makes: a new record
//! stands at the head of its chain, and records before one that is replaced or removed are copied,
//! so nothing that is reachable is ever written to. Chains are longer than one record practically
//! only in tests, which shorten the hash: so it is no loss that a removal needs space for such
//! copies.
//!
//! Readers copy a record between two reads of the bucket's version. What they load may be stale or
//! reused meanwhile; they ask before they trust a length that would grow a buffer, and verify the
//! checksum once the version was found unchanged.

use std::ops::Range;
use std::sync::MutexGuard;

use durahash_media::{Error, Result};

use crate::engine::core::{Core, Pair, Untyped};
use crate::engine::map::Raw;
use crate::engine::outcome::Outcome;
use crate::engine::record::{Draft, Header, MAX_KEY_BYTES, MAX_VALUE_BYTES, check_sizes, offset};
use crate::index::{Change, Room};
use crate::util::cycle::Circle;

/// When a change shall be made.
#[derive(Clone, Copy)]
pub(crate) enum Rule<'a> {
    Always,
    IfAbsent,
    IfEqual(&'a [u8]),
}

/// A record where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) off: u64,
    pub(crate) header: Header,
}

fn always() -> bool {
    true
}

impl Raw {
    /// Copies the value of `key` into `out`; whether there is one.
    pub(crate) fn get_bytes(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let key_hash = self.hashes.key(key);
        let h = self.hashes.h(key_hash);
        let mut found = None;
        self.index.read(h, &mut |payload, still| {
            found = match payload {
                Some(payload) => self.find(h, payload, key, &mut Vec::new(), still)?,
                None => None,
            };
            match &found {
                Some(link) => self.copy_value(link, out, still),
                None => Ok(()),
            }
        })?;
        match found {
            Some(link) => self.verify(&link, key_hash, out).map(|()| true),
            None => Ok(false),
        }
    }

    /// Starts to fetch the records of a few hashes, after what the index has of them. `room` is as
    /// long as `hashes`.
    pub(crate) fn prefetch_records(&self, hashes: &[u64], room: &mut [Option<u64>]) -> Result<()> {
        self.index.get_many(hashes, room)?;
        for name in room.iter().flatten() {
            self.store.prefetch(*name);
        }
        Ok(())
    }

    /// Whether there is a value of `key`.
    pub(crate) fn contains_bytes(&self, key: &[u8]) -> Result<bool> {
        let h = self.hashes.h(self.hashes.key(key));
        let mut found = false;
        self.index.read(h, &mut |payload, still| {
            found = match payload {
                Some(payload) => self.find(h, payload, key, &mut Vec::new(), still)?.is_some(),
                None => false,
            };
            Ok(())
        })?;
        Ok(found)
    }

    /// Makes `new` the value of `key`, or removes the key, as `rule` allows. What it had goes to
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
        if let Some(outcome) = self.refused(key, rule)? {
            return Ok((outcome, outcome == Outcome::Present));
        }
        let key_hash = self.hashes.key(key);
        let h = self.hashes.h(key_hash);
        let room = match (new, rule) {
            (Some(_), Rule::Always | Rule::IfAbsent) => Room::ForNew,
            _ => Room::None,
        };
        loop {
            let draft = new.map(|value| Draft { key_hash, key, value, next: 0 });
            let mut plan = match Plan::new(self, h, key, rule, draft) {
                Err(e) if self.is_full_for_now(&e) => {
                    self.finish_sweep()?;
                    continue;
                }
                plan => plan?,
            };
            let updated = self.index.update(h, room, &mut |payload| match payload {
                Some(payload) => plan.present(payload, old.as_deref_mut()),
                None => plan.absent(0),
            });
            if let Err(e) = updated {
                plan.abandon();
                if self.is_full_for_now(&e) {
                    self.finish_sweep()?;
                    continue;
                }
                return Err(e);
            }
            if let Some(again) = plan.again {
                plan.abandon();
                match again {
                    Again::AfterSweep => self.finish_sweep()?,
                    Again::AfterCount => drop(self.lock_chained()),
                }
                continue;
            }
            let answer = (plan.outcome, plan.had);
            match plan.outcome {
                Outcome::Done => plan.settle(),
                Outcome::Present | Outcome::Absent => plan.abandon(),
            }
            return Ok(answer);
        }
    }

    /// Whether `rule` forbids a change of `key` already before a record is written for it.
    fn refused(&self, key: &[u8], rule: Rule<'_>) -> Result<Option<Outcome>> {
        match rule {
            Rule::Always => Ok(None),
            Rule::IfAbsent => Ok(self.contains_bytes(key)?.then_some(Outcome::Present)),
            Rule::IfEqual(want) => {
                let mut value = Vec::new();
                if !self.get_bytes(key, &mut value)? {
                    return Ok(Some(Outcome::Absent));
                }
                Ok((value != want).then_some(Outcome::Present))
            }
        }
    }

    /// Every key and value whose hash is `h`. A damaged record ends the chain, since its `next` may
    /// lead to one that was replaced; it is reported after those before it were found.
    pub(crate) fn pairs(&self, h: u64, out: &mut Vec<Pair>) -> Result<()> {
        let mut copies: Vec<(Link, Pair)> = Vec::new();
        let mut damage = None;
        self.index.read(h, &mut |payload, still| {
            copies.clear();
            damage = None;
            let Some(payload) = payload else {
                return Ok(());
            };
            let walked = self.walk(payload, still, &mut |link| {
                let mut pair = (Vec::new(), Vec::new());
                self.copy_key(&link, &mut pair.0, still)?;
                self.copy_value(&link, &mut pair.1, still)?;
                copies.push((link, pair));
                Ok(true)
            });
            // A wild offset met by a late reader is no damage: the index asks again.
            damage = walked.err();
            Ok(())
        })?;
        for (link, pair) in copies {
            let key_hash = self.hashes.key(&pair.0);
            self.of_slot(&link, h, key_hash)?;
            self.verify(&link, key_hash, &pair.1)?;
            out.push(pair);
        }
        damage.map_or(Ok(()), Err)
    }
}

impl Core {
    /// Calls `f` with each record of the chain that `payload` begins, until it says false.
    pub(crate) fn walk(
        &self,
        payload: u64,
        still: &dyn Fn() -> bool,
        f: &mut dyn FnMut(Link) -> Result<bool>,
    ) -> Result<()> {
        let mut name = payload;
        let mut circle = Circle::default();
        loop {
            let header = self.store.header(name)?;
            let off = offset(name);
            if !f(Link { off, header })? || header.next == 0 || !still() {
                return Ok(());
            }
            name = header.next;
            circle.step(off, offset(name), "a chain of records runs in a circle")?;
        }
    }

    /// The record of `key` in the chain that `payload` begins. Those before it go to `before`.
    fn find(
        &self,
        h: u64,
        payload: u64,
        key: &[u8],
        before: &mut Vec<Link>,
        still: &dyn Fn() -> bool,
    ) -> Result<Option<Link>> {
        let mut found = None;
        self.walk(payload, still, &mut |link| {
            if self.store.key_is(link.off, &link.header, key)? {
                found = Some(link);
                return Ok(false);
            }
            // Another key of the same hash, or the wanted one, damaged? No key is called absent
            // because of damage.
            let (mut other, mut value) = (Vec::new(), Vec::new());
            self.copy_key(&link, &mut other, still)?;
            self.copy_value(&link, &mut value, still)?;
            let other_hash = self.hashes.key(&other);
            if still() {
                self.of_slot(&link, h, other_hash)?;
                self.verify(&link, other_hash, &value)?;
            }
            before.push(link);
            Ok(true)
        })?;
        Ok(found)
    }

    pub(crate) fn copy_key(
        &self,
        link: &Link,
        out: &mut Vec<u8>,
        still: &dyn Fn() -> bool,
    ) -> Result<()> {
        let bytes = link.header.key_bytes;
        if bytes > MAX_KEY_BYTES {
            return Err(Error::corrupt("key longer than any", link.off));
        }
        self.copy(link, 0..bytes, out, still)
    }

    pub(crate) fn copy_value(
        &self,
        link: &Link,
        out: &mut Vec<u8>,
        still: &dyn Fn() -> bool,
    ) -> Result<()> {
        let bytes = link.header.value_bytes;
        if bytes > MAX_VALUE_BYTES {
            return Err(Error::corrupt("value longer than any", link.off));
        }
        self.copy(link, link.header.key_bytes..link.header.key_bytes + bytes, out, still)
    }

    /// Copies these of the bytes behind a record's header, if `still` allows that `out` grows for it.
    fn copy(
        &self,
        link: &Link,
        range: Range<usize>,
        out: &mut Vec<u8>,
        still: &dyn Fn() -> bool,
    ) -> Result<()> {
        if range.len() > out.capacity() && !still() {
            return Ok(());
        }
        out.resize(range.len(), 0);
        self.store.copy(link.off, range.start, out)
    }

    /// Whether a key whose hash is `key_hash` belongs to slot `h`.
    pub(crate) fn of_slot(&self, link: &Link, h: u64, key_hash: u64) -> Result<()> {
        if self.hashes.h(key_hash) == h {
            Ok(())
        } else {
            Err(Error::corrupt("record of another hash", link.off))
        }
    }

    /// Verifies the checksum of a record that was copied.
    pub(crate) fn verify(&self, link: &Link, key_hash: u64, value: &[u8]) -> Result<()> {
        let Header { lengths, next, checksum, .. } = link.header;
        if self.hashes.checksum(key_hash, lengths, next, value) == checksum {
            Ok(())
        } else {
            Err(Error::corrupt("checksum of a record", link.off))
        }
    }

    /// A record that is locked, whole and verified.
    pub(crate) fn load(&self, link: &Link) -> Result<Pair> {
        let mut pair = (Vec::new(), Vec::new());
        self.copy_key(link, &mut pair.0, &always)?;
        self.copy_value(link, &mut pair.1, &always)?;
        self.verify(link, self.hashes.key(&pair.0), &pair.1)?;
        Ok(pair)
    }
}

/// A change of one key, worked out while the bucket is locked.
struct Plan<'a> {
    raw: &'a Raw,
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
    before: Vec<Link>,
    outcome: Outcome,
    had: bool,
    /// By how much the number of chained records changes, which is locked until the commit.
    chained: Option<(MutexGuard<'a, Option<u64>>, i64)>,
    again: Option<Again>,
}

/// Why a change has to be tried again: what it waits for must not be waited for under a lock.
#[derive(Clone, Copy)]
enum Again {
    /// No space without growth while a sweep is pending.
    AfterSweep,
    /// Somebody counts the chained records.
    AfterCount,
}

impl<'a> Plan<'a> {
    /// Writes the new record, before any lock is taken.
    fn new(
        raw: &'a Raw,
        h: u64,
        key: &'a [u8],
        rule: Rule<'a>,
        draft: Option<Draft<'a>>,
    ) -> Result<Self> {
        let mut plan = Plan {
            raw,
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
            let off = match raw.store.alloc(draft.bytes())? {
                Some(off) => off,
                None => {
                    raw.finish_sweep()?;
                    let none = || Error::corrupt("no space although no sweep is pending", 0);
                    raw.store.alloc(draft.bytes())?.ok_or_else(none)?
                }
            };
            plan.draft = Some((draft, off));
            match raw.store.write(off, &raw.hashes, &draft) {
                Ok(name) => plan.name = name,
                Err(e) => {
                    plan.abandon();
                    return Err(e);
                }
            }
        }
        Ok(plan)
    }

    /// The key is absent; `next` names a record of another key with its hash, or is 0.
    fn absent(&mut self, next: u64) -> Result<Change> {
        match (&mut self.draft, self.rule) {
            (Some((draft, off)), Rule::Always | Rule::IfAbsent) => {
                if next != 0 {
                    let Some(chained) = self.raw.try_lock_chained() else {
                        self.again = Some(Again::AfterCount);
                        return Ok(Change::Keep);
                    };
                    self.chained = Some((chained, 1));
                    draft.next = next;
                    self.name = self.raw.store.write(*off, &self.raw.hashes, draft)?;
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
    fn present(&mut self, head: u64, old: Option<&mut Vec<u8>>) -> Result<Change> {
        let raw = self.raw;
        raw.mark(head)?;
        let found = raw.find(self.h, head, self.key, &mut self.before, &always)?;
        let Some(link) = found else {
            self.before.clear();
            return self.absent(head);
        };
        if self.draft.is_some_and(|(_, off)| off == link.off) {
            // The new record came to lie where damage points to; it must not be taken for an old one
            // and freed.
            return Err(Error::corrupt("a slot names a block that was free", link.off));
        }
        self.had = true;
        let mut value = Vec::new();
        let wanted = old.is_some();
        let old = old.unwrap_or(&mut value);
        // Where the value matters, or `next` is about to be trusted, the record must be sound.
        if wanted || link.header.next != 0 || matches!(self.rule, Rule::IfEqual(_)) {
            raw.copy_value(&link, old, &always)?;
            raw.verify(&link, raw.hashes.key(self.key), old)?;
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
        let mut rest = link.header.next;
        for link in self.before.iter().rev() {
            let (key, value) = raw.load(link)?;
            let key_hash = raw.hashes.key(&key);
            let draft = Draft { key_hash, key: &key, value: &value, next: rest };
            let Some(copy) = raw.store.alloc(draft.bytes())? else {
                self.again = Some(Again::AfterSweep);
                return Ok(Change::Keep);
            };
            self.copies.push(copy);
            rest = raw.store.write(copy, &raw.hashes, &draft)?;
        }
        let change = match &mut self.draft {
            Some((draft, off)) => {
                if rest != 0 {
                    draft.next = rest;
                    self.name = raw.store.write(*off, &raw.hashes, draft)?;
                }
                Change::Set(self.name)
            }
            None if rest == 0 => Change::Remove,
            None => {
                let Some(chained) = raw.try_lock_chained() else {
                    self.again = Some(Again::AfterCount);
                    return Ok(Change::Keep);
                };
                self.chained = Some((chained, -1));
                Change::Set(rest)
            }
        };
        self.replaced = link.off;
        Ok(change)
    }

    /// The change is durable: what it replaced is free.
    fn settle(self) {
        if let Some((mut chained, by)) = self.chained
            && let Some(count) = &mut *chained
        {
            *count = count.saturating_add_signed(by);
        }
        if self.replaced != 0 {
            self.raw.release(self.replaced);
        }
        for link in self.before {
            self.raw.release(link.off);
        }
    }

    /// The change was not made: what it wrote is free.
    fn abandon(self) {
        if let Some((_, off)) = self.draft {
            self.raw.release(off);
        }
        for off in self.copies {
            self.raw.release(off);
        }
    }
}
