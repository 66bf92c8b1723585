//! An index behind a log: nothing is answered before it is as durable as was promised.
//!
//! Designs hold their locks until their drain has returned, so what others see is durable. Two things
//! a drain cannot do: a batch defers it, and then what others see is not durable yet; and it cannot
//! fail. Therefore every operation [settles](durahash_media::Medium::settle) before it returns, here,
//! for all designs. Other media have nothing to settle, and their indexes are not wrapped.

use std::sync::Arc;

use durahash_media::{Medium, Pool, Result};

use crate::index::{Finding, Index, IndexStats, Reader, Room, Updater};

/// Of known types, so that a lookup costs no further call.
pub(crate) struct Settled<I, M: Medium> {
    index: I,
    pool: Arc<Pool<M>>,
}

impl<I: Index, M: Medium> Settled<I, M> {
    pub(crate) fn new(index: I, pool: Arc<Pool<M>>) -> Self {
        Settled { index, pool }
    }

    #[inline]
    fn settle(&self) -> Result<()> {
        self.pool.medium().settle()
    }

    /// What was only looked at.
    #[inline]
    fn seen<T>(&self, found: Result<T>) -> Result<T> {
        self.settle()?;
        found
    }
}

impl<I: Index, M: Medium> Index for Settled<I, M> {
    fn get(&self, h: u64) -> Result<Option<u64>> {
        self.seen(self.index.get(h))
    }

    fn prefetch(&self, h: &[u64]) {
        self.index.prefetch(h);
    }

    fn get_many(&self, h: &[u64], out: &mut [Option<u64>]) -> Result<()> {
        self.seen(self.index.get_many(h, out))
    }

    fn read(&self, h: u64, f: Reader<'_>) -> Result<()> {
        self.seen(self.index.read(h, f))
    }

    fn update(&self, h: u64, room: Room, f: Updater<'_>) -> Result<Option<u64>> {
        // Before, too: a log that has failed takes nothing more.
        self.settle()?;
        let found = self.index.update(h, room, f);
        self.settle()?;
        found
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        self.seen(self.index.scan(at, out))
    }

    fn step(&self) -> Result<bool> {
        let more = self.index.step()?;
        self.settle()?;
        Ok(more)
    }

    fn mend(&self) -> Result<()> {
        self.index.mend()?;
        self.settle()
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
}
