//! Removes what has expired and what is evicted, by the hash of its key.
//!
//! | an eviction, its bucket locked | an insert that it is for |
//! |---|---|
//! | the first record or cell of the hash is read, and found to be the slot's own | |
//! | records that hang on it are left: the slot names the next one, or is removed; flush, drain: the commit, as of any removal of the design | |
//! | unlocked; the block is free, in DRAM alone | |
//! | | takes a block, writes it, flush, fence; the slot's commit, as of any insert |
//!
//! A crash between leaves one entry less. What is kept of an entry that went (`keep_evicted`) is written by the batch that
//! removes it.

use durahash_media::Result;

use super::cell::Cell;
use super::data::Data;
use super::edit::{Edit, Rule};
use super::expiry::{NEVER, is_over, split};
use super::record::{HEADER_BYTES, Header};
use super::records::{Record, is_damage};
use super::{ENTRY_BYTES, Engine, Single};
use crate::cache::planted::{Fault, planted};
use crate::index::Change;

impl Engine<Single> {
    /// Bytes of an entry: its slot, and its record or cell, where the slot does not have the value.
    pub(crate) fn entry_bytes(&self, key: &[u8], value: &[u8]) -> u64 {
        let in_slot = self.records.cell.and_then(|cell| cell.payload_of(value)).is_some();
        self.bytes_of_parts(in_slot, key.len(), value.len())
    }

    /// The same of an entry that is there.
    pub(super) fn bytes_of(&self, record: &Record) -> u64 {
        let Header { key_bytes, value_bytes, .. } = record.header;
        self.bytes_of_parts(record.is_in_slot(), key_bytes, value_bytes)
    }

    fn bytes_of_parts(&self, in_slot: bool, key_bytes: usize, value_bytes: usize) -> u64 {
        let record = match self.records.cell {
            Some(_) if in_slot => 0,
            Some(cell) => cell.bytes(),
            None => HEADER_BYTES + (key_bytes + value_bytes) as u64,
        };
        ENTRY_BYTES + record
    }

    /// True if slots have values themselves, where these do not expire.
    #[inline]
    pub(crate) fn is_in_slots(&self) -> bool {
        self.records.cell.is_some_and(Cell::is_in_slots)
    }

    /// The hash of a key and the payload of its slot, where the slot has the value.
    #[inline]
    pub(crate) fn in_slot<K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        key: &K::Ref,
        value: &V::Ref,
    ) -> Option<(u64, u64)> {
        if !K::TYPE.is_word() || !V::TYPE.is_word() {
            return None;
        }
        let payload = self.records.value_in(V::to_word(value))?;
        Some((self.mix.mix(K::to_word(key)), payload))
    }

    /// The expiries of the values whose keys have the hash `h`, which are not verified.
    pub(crate) fn expiries(&self, h: u64, out: &mut Vec<u64>) -> Result<()> {
        self.index.read(h, &mut |payload, still| {
            out.clear();
            payload.map_or(Ok(()), |payload| {
                self.records.walk((h, payload), still, &mut |record| {
                    out.push(self.records.first_word(&record)?);
                    Ok(true)
                })
            })
        })
    }

    /// How many values have not expired when the walk comes to them.
    pub(crate) fn count_live(&self, now: &dyn Fn() -> u64) -> Result<u64> {
        let (mut live, mut expiries) = (0, Vec::new());
        self.each_unit(&mut |slots| {
            for (h, _) in slots {
                self.expiries(*h, &mut expiries)?;
                let now = now();
                live += expiries.iter().filter(|expiry| !is_over(**expiry, now)).count() as u64;
            }
            Ok(())
        })?;
        Ok(live)
    }

    /// Calls `f` with the hash of each key, and with the bytes of its entry, if these are `wanted`. One that is damaged
    /// counts as one without bytes.
    pub(crate) fn each_size(&self, wanted: bool, f: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let mut sizes = Vec::new();
        self.each_sound_unit(&mut |slots| {
            for (h, payload) in slots {
                if !wanted && !self.records.is_chained(*payload) {
                    f(*h, 0);
                    continue;
                }
                match self.sizes(*h, &mut sizes) {
                    Err(e) if is_damage(&e) => sizes = vec![0],
                    sized => sized?,
                }
                sizes.iter().for_each(|bytes| f(*h, *bytes));
            }
            Ok(())
        })
    }

    /// The bytes of the entries whose keys have the hash `h`.
    fn sizes(&self, h: u64, out: &mut Vec<u64>) -> Result<()> {
        self.index.read(h, &mut |payload, still| {
            out.clear();
            payload.map_or(Ok(()), |payload| self.sizes_of((h, payload), still, out))
        })
    }

    /// The same of those of a slot that has this payload.
    pub(super) fn sizes_of(
        &self,
        slot: (u64, u64),
        still: &dyn Fn() -> bool,
        out: &mut Vec<u64>,
    ) -> Result<()> {
        self.records.walk(slot, still, &mut |record| {
            out.push(self.bytes_of(&record));
            Ok(true)
        })
    }

    /// Removes the entries whose keys have the hash `h` and whose values have expired: each as it was when that was
    /// found, and not if it has changed since. Calls `gone` with the key and the value of each.
    pub(crate) fn remove_expired(
        &self,
        h: u64,
        now: u64,
        gone: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let mut pairs = Vec::new();
        self.pairs(h, &mut pairs)?;
        pairs.retain(|(_, value)| split(value).is_some_and(|(expiry, _)| is_over(expiry, now)));
        for (key, value) in pairs {
            let by_key = planted(Fault::RemovedByKey);
            let rule = if by_key { Rule::Always } else { Rule::IfEqual(&value) };
            if self.change(&key, None, rule, None)?.0.is_done() {
                gone(&key, &value);
            }
        }
        Ok(())
    }

    /// Removes one entry whose key has the hash `h`, if there is one; returns its bytes and its expiry. An error where
    /// it is damaged.
    pub(crate) fn evict(&self, h: u64) -> Result<Option<(u64, u64)>> {
        if self.is_in_slots() {
            let mut is_named = false;
            let found = self.index.make_way(h, &mut |found| {
                is_named = found.is_some_and(|payload| !self.records.has_value(payload));
                Ok(if is_named { Change::Keep } else { Change::Remove })
            })?;
            if !is_named {
                return Ok(found.map(|_| (ENTRY_BYTES, NEVER)));
            }
        }
        self.store.writable()?;
        // A part of a chain is copied for it.
        self.with_room(|| {
            loop {
                let (mut bytes, mut expiry) = (0, NEVER);
                let mut edit = Edit::new(self, h, &[], Rule::Always, None)?;
                let first = &mut |found| edit.first(found, (&mut bytes, &mut expiry));
                let updated = self.index.make_way(h, first);
                if let Some((_, had)) = self.end(edit, updated)? {
                    return Ok(had.then_some((bytes, expiry)));
                }
            }
        })
    }
}
