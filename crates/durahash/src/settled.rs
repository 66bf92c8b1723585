//! An index behind a log: nothing is answered before it is as durable as was promised.
//!
//! Designs hold their locks until their drain has returned, so what others see is durable. Two things
//! a drain cannot do: a batch defers it, and then what others see is not durable yet; and it cannot
//! fail. Therefore every operation [settles](durahash_media::Medium::settle) before it returns, here,
//! for all designs. Other media have nothing to settle, and their indexes are not wrapped.

use std::sync::Arc;

use durahash_media::Result;

use crate::index::{Change, Finding, Index, IndexStats, Reader, Room, Updater};
use crate::record::Store;

pub(crate) struct Settled {
    index: Box<dyn Index>,
    store: Arc<dyn Store>,
}

impl Settled {
    pub(crate) fn new(index: Box<dyn Index>, store: Arc<dyn Store>) -> Self {
        Settled { index, store }
    }

    /// What was only looked at.
    fn seen<T>(&self, found: Result<T>) -> Result<T> {
        self.store.settle(false)?;
        found
    }
}

impl Index for Settled {
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
        self.store.settle(true)?;
        let mut changed = false;
        let found = self.index.update(h, room, &mut |payload| {
            let change = f(payload)?;
            changed = change != Change::Keep;
            Ok(change)
        });
        self.store.settle(changed)?;
        found
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        self.seen(self.index.scan(at, out))
    }

    fn step(&self) -> Result<bool> {
        let more = self.index.step()?;
        self.store.settle(true)?;
        Ok(more)
    }

    fn mend(&self) -> Result<()> {
        self.index.mend()?;
        self.store.settle(true)
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
