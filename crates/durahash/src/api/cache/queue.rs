//! Entries that went by themselves, for a caller that keeps something beside them: evicted ones, and those that expired.
//!
//! An entry goes from the cache to the map beside it by one batch, so that a crash leaves it in one of them. It stays
//! there until the caller is done with it. The batch removes what was read before, so nothing may change it meanwhile:
//! all that change the entries of a hash take a turn, each other's end awaited.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use durahash_media::Result;

use super::super::batch::Batch;
use super::super::map::Map;
use crate::cache::planted::{Fault, planted};
use crate::engine::expiry::split;
use crate::engine::maps::Handle;
use crate::engine::records::Pair;
use crate::engine::{Single, lock};

/// The keys of entries that went are numbers from here on: of the open, and of the entry.
pub(super) const FIRST: u64 = 1 << OPEN_SHIFT;
const OPEN_SHIFT: u32 = 32;

/// Turns, each of the hashes that begin with its number.
const TURN_BITS: u32 = 6;

/// Bytes of the length of a key, which stands before it; its value stands behind it.
const LENGTH_BYTES: usize = 4;

/// What went, and is not done yet.
pub(super) struct Queue {
    beside: Map<u64, [u8]>,
    next: AtomicU64,
    turns: Vec<Mutex<()>>,
}

impl Queue {
    /// `next`: the number that an earlier open left off at.
    pub(super) fn new(beside: Map<u64, [u8]>, next: u64) -> Result<Self> {
        let open = u64::from(beside.handle.engine.store.facts().epoch) + 1;
        let turns = (0..1 << TURN_BITS).map(|_| Mutex::default()).collect();
        // The cache may have been open before in this open of the pool.
        let mut next = next.max(open << OPEN_SHIFT);
        for id in beside.keys() {
            next = next.max(id? + 1);
        }
        Ok(Queue { beside, next: AtomicU64::new(next), turns })
    }

    /// The number of the next entry.
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// What is above all numbers of this open.
    pub(super) fn end(&self) -> u64 {
        ((self.next() >> OPEN_SHIFT) + 1) << OPEN_SHIFT
    }

    /// Waits until no other thread changes an entry of this hash.
    pub(super) fn turn(&self, h: u64) -> MutexGuard<'_, ()> {
        let turn = &self.turns[(h >> (u64::BITS - TURN_BITS)) as usize];
        lock(turn, &*self.beside.handle.engine.store)
    }

    /// Moves an entry here; its caller has its turn.
    pub(super) fn take(
        &self,
        map: &Handle<Single>,
        h: u64,
        (key, value): &Pair,
        _turn: &MutexGuard<'_, ()>,
    ) -> Result<()> {
        let value = split(value).map_or(&value[..], |(_, value)| value);
        let entry = [&(key.len() as u32).to_le_bytes(), &key[..], value].concat();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        if planted(Fault::KeptFirst) {
            self.beside.put(&id, &entry)?;
        }
        let mut batch = Batch::new();
        batch.add_bytes(map, h, key, None)?;
        batch.put(&self.beside, &id, &entry)?;
        batch.apply()
    }
}

/// The key and the value of what went.
pub(super) fn parts(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = entry.split_first_chunk::<LENGTH_BYTES>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
