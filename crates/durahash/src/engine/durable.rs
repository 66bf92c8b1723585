//! An index behind a log: nothing is answered before it is as durable as was promised.
//!
//! Designs hold their locks until their drain has returned, so the changes that other threads see are durable.
//! A drain has two limits: a batch defers it, so that others see changes that are not durable yet, and it cannot
//! fail. Therefore every operation [waits](durahash_media::Memory::wait_until_durable) here before it returns,
//! for all designs. Media without a log have nothing to wait for: nothing of it is compiled for them.
//!
//! Here design and medium are known types for the last time. So the look of a map of byte strings, at slot and
//! record, is one call and not three.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use durahash_media::{Medium, Pool, Result};

use super::cell::Cell;
use super::known::Known;
use super::record::{Short, Store, copy_short, offset};
use crate::index::{
    Finding, Gone, Index, IndexBase, IndexStats, Keys, MultiIndex, MultiReader, Reader, Room,
    Updater, Values, WalkOrder,
};

/// An index whose lookups also reach the records.
pub(crate) trait Lookup: Index {
    /// Looks once for `key`, whose hash is `h`: true if it is there. Its value goes to `out`, if that is asked for.
    /// `None` where this cannot tell: a writer came between, the value is long, or the record is not known, or is
    /// another key's.
    fn look_once(&self, known: &Known, h: u64, key: &[u8], out: Option<&mut Short>)
    -> Option<bool>;

    /// Looks once for a hash, and copies its cell to `out`: the cell's name, if there is one. `None` where this cannot
    /// tell.
    fn look_for_cell(&self, cell: Cell, h: u64, out: &mut Short) -> Option<Option<u64>>;

    /// The same where a slot may have a value in place of a name: what it is cannot be told then.
    fn look_beside_values(&self, cell: Cell, h: u64, out: &mut Short) -> Option<Option<u64>>;
}

impl<I: Index, M: Medium> Lookup for Durable<I, M> {
    fn look_once(
        &self,
        known: &Known,
        h: u64,
        key: &[u8],
        out: Option<&mut Short>,
    ) -> Option<bool> {
        let pool = &*self.pool;
        let mut is_it = false;
        let found = self.read_once(h, |name| {
            // For the key alone a record is not verified, only its header.
            is_it = (known.has(offset(name)) || out.is_none() && pool.header(name).is_ok())
                && copy_short(pool, name, key, out);
        })?;
        (is_it || !found).then_some(found)
    }

    fn look_for_cell(&self, cell: Cell, h: u64, out: &mut Short) -> Option<Option<u64>> {
        self.look(h, |name| out.copy_cell(&self.pool, cell, name))
    }

    fn look_beside_values(&self, cell: Cell, h: u64, out: &mut Short) -> Option<Option<u64>> {
        self.look(h, |name| cell.value_in(name).is_none() && out.copy_cell(&self.pool, cell, name))
    }
}

/// Of known types, so that a lookup costs no further call.
pub(crate) struct Durable<I, M: Medium> {
    index: I,
    pool: Arc<Pool<M>>,
}

impl<I, M: Medium> Durable<I, M> {
    pub(crate) fn new(index: I, pool: Arc<Pool<M>>) -> Self {
        Durable { index, pool }
    }

    /// Looks once for a hash: its name, if `copy` says so of it; none where that cannot be told.
    #[inline(always)]
    fn look(&self, h: u64, mut copy: impl FnMut(u64) -> bool) -> Option<Option<u64>>
    where
        I: Index,
    {
        let mut copied = None;
        let found = self.read_once(h, |name| copied = copy(name).then_some(name))?;
        (copied.is_some() || !found).then_some(copied)
    }

    fn wait(&self) -> Result<()> {
        self.pool.medium().wait_until_durable()
    }

    /// Runs an operation that may change something. It waits before, too: a log that has failed takes nothing more.
    fn changed<T>(&self, f: impl FnOnce(&I) -> Result<T>) -> Result<T> {
        if !M::DRAIN_WAITS {
            return f(&self.index);
        }
        self.wait()?;
        let done = f(&self.index);
        self.wait()?;
        done
    }

    /// Returns the result of a lookup when it is durable.
    ///
    /// It is returned in place: a copy causes a store-forwarding stall (−25 %).
    #[inline(always)]
    fn seen<T>(&self, found: Result<T>) -> Result<T> {
        if !self.pool.medium().is_durable() {
            return self.after_wait(found);
        }
        // Of a reader in another process: it may be another writer that has told so.
        if !M::DRAIN_WAITS && self.pool.looks_on() {
            self.pool.check_writer()?;
        }
        found
    }

    #[cold]
    fn after_wait<T>(&self, found: Result<T>) -> Result<T> {
        self.wait()?;
        // Of a reader in another process: its writer may have failed to write what was found.
        self.pool.check_writer()?;
        found
    }
}

impl<I: IndexBase, M: Medium> IndexBase for Durable<I, M> {
    type Slot = I::Slot;

    fn prefetch(&self, h: &[u64]) {
        self.index.prefetch(h);
    }

    fn len(&self) -> Result<u64> {
        self.seen(self.index.len())
    }

    fn stats(&self) -> IndexStats {
        self.index.stats()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.index.check(found)
    }

    fn mend(&self) -> Result<()> {
        self.changed(|index| index.mend())
    }

    fn reserve(&self, entries: u64) -> Result<()> {
        self.changed(|index| index.reserve(entries))
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, I::Slot)>) -> Result<Option<u64>> {
        self.seen(self.index.scan(at, out))
    }

    fn step(&self) -> Result<bool> {
        let more = self.index.step()?;
        self.wait()?;
        Ok(more)
    }

    fn give_back(&self) -> Result<()> {
        self.index.give_back()
    }

    fn position(&self, h: u64) -> u64 {
        self.index.position(h)
    }

    fn walk_order(&self) -> WalkOrder {
        self.index.walk_order()
    }

    fn behind(&self, at: u64) -> Option<Option<u64>> {
        self.index.behind(at)
    }

    fn warm(&self, stop: &AtomicBool) {
        self.index.warm(stop);
    }

    fn close(&self) {
        self.index.close();
    }
}

impl<I: Index, M: Medium> Index for Durable<I, M> {
    fn get(&self, h: u64) -> Result<Option<u64>> {
        self.seen(self.index.get(h))
    }

    fn prefetch_to_insert(&self, h: u64) {
        self.index.prefetch_to_insert(h);
    }

    fn get_many(&self, h: &[u64], out: &mut [Option<u64>]) -> Result<()> {
        self.seen(self.index.get_many(h, out))
    }

    fn read(&self, h: u64, f: Reader<'_>) -> Result<()> {
        self.seen(self.index.read(h, f))
    }

    #[inline(always)]
    fn read_once(&self, h: u64, f: impl FnOnce(u64)) -> Option<bool> {
        let found = self.index.read_once(h, f)?;
        // Where it never will be durable, the read that follows says so.
        self.seen(Ok(found)).ok()
    }

    fn update(&self, h: u64, room: Room, f: Updater<'_>) -> Result<Option<u64>> {
        self.changed(|index| index.update(h, room, f))
    }

    fn make_way(&self, h: u64, f: Updater<'_>) -> Result<Option<u64>> {
        self.changed(|index| index.make_way(h, f))
    }

    fn look_in_batch(&self, h: &[u64], rooms: &[Room], out: &mut [Option<Option<u64>>]) {
        self.index.look_in_batch(h, rooms, out);
    }

    fn change_in_batch(&self, h: &[u64], payloads: &[Option<u64>]) -> Result<()> {
        self.changed(|index| index.change_in_batch(h, payloads))
    }
}

impl<I: MultiIndex, M: Medium> MultiIndex for Durable<I, M> {
    fn add(&self, h: u64, payload: u64, keys: &dyn Keys) -> Result<()> {
        self.changed(|index| index.add(h, payload, keys))
    }

    fn read(&self, h: u64, keys: &dyn Keys, found: &mut Values, f: MultiReader<'_>) -> Result<()> {
        self.seen(self.index.read(h, keys, found, f))
    }

    fn count(&self, h: u64, keys: &dyn Keys) -> Result<u64> {
        self.seen(self.index.count(h, keys))
    }

    fn remove_one(
        &self,
        h: u64,
        keys: &dyn Keys,
        wanted: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        self.changed(|index| index.remove_one(h, keys, wanted))
    }

    fn remove_all(&self, h: u64, keys: &dyn Keys, gone: Option<Gone<'_>>) -> Result<u64> {
        self.changed(|index| index.remove_all(h, keys, gone))
    }

    fn wipe(&self, h: u64, gone: Gone<'_>) -> Result<()> {
        self.changed(|index| index.wipe(h, gone))
    }

    fn extra_count(&self) -> Option<u64> {
        self.index.extra_count()
    }
}
