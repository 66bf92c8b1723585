//! Copies that are changed while writers wait for the medium, by nobody's thread: by steps, or before calls into
//! the medium.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use durahash::rewo::{Cache, Rewo, SYNC_BY_CALLS};
use durahash::{Finding, Index, IndexStats, Reader, Result, Room, Updater};
use durahash_media::sim::{Call, Hook, Sim, Site};
use durahash_media::{Medium, Pool};

use super::{RewoSubject, pool};
use crate::subject::{Prefill, Subject, Table};

/// An index whose step first changes the copies that writers have ordered.
pub(super) struct Synced<I> {
    index: Arc<I>,
    sync: fn(&I) -> bool,
}

impl<I: Index> Synced<I> {
    pub(super) fn new(index: I, sync: fn(&I) -> bool) -> Self {
        Synced { index: Arc::new(index), sync }
    }
}

impl<I: Index> Index for Synced<I> {
    fn get(&self, h: u64) -> Result<Option<u64>> {
        self.index.get(h)
    }

    fn read(&self, h: u64, f: Reader<'_>) -> Result<()> {
        self.index.read(h, f)
    }

    fn update(&self, h: u64, room: Room, f: Updater<'_>) -> Result<Option<u64>> {
        self.index.update(h, room, f)
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        self.index.scan(at, out)
    }

    fn step(&self) -> Result<bool> {
        if (self.sync)(&self.index) { Ok(true) } else { self.index.step() }
    }

    fn close(&self) {
        self.index.close();
    }

    fn mend(&self) -> Result<()> {
        self.index.mend()
    }

    fn len(&self) -> Result<u64> {
        self.index.len()
    }

    fn stats(&self) -> IndexStats {
        self.index.stats()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.index.check(found)
    }
}

/// Changes the copies that writers have ordered; whether there were any.
pub type SyncCopies = Box<dyn Fn() -> bool + Send + Sync>;

/// Changes what is ordered before some of the calls into the medium.
struct Between {
    sync: Arc<OnceLock<SyncCopies>>,
    calls: AtomicU64,
}

thread_local! {
    /// Whether this thread does so already: that calls into the medium, too.
    static SYNCS: Cell<bool> = const { Cell::new(false) };
}

/// The end of that, also where it is broken off.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        SYNCS.set(false);
    }
}

impl Hook for Between {
    fn before(&self, _call: Call, _site: Site) {
        let drawn = self.calls.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if drawn >> 62 != 0 || SYNCS.get() {
            return;
        }
        SYNCS.set(true);
        let _ends = Ends;
        if let Some(sync) = self.sync.get() {
            sync();
        }
    }
}

/// Rewo-Hash under test with a cached table of two buckets, whose copies are changed by steps.
pub type RewoSyncedSubject = RewoSynced<false>;

/// The same, where they are changed in the middle of operations: before a quarter of the calls into the medium.
pub type RewoBetweenSubject = RewoSynced<true>;

/// Rewo-Hash under test, whose copies are changed `BETWEEN` calls into the medium, or else by steps.
#[derive(Default)]
pub struct RewoSynced<const BETWEEN: bool>;

impl<const BETWEEN: bool> RewoSynced<BETWEEN> {
    const CACHE: Cache = Cache { bytes: Some(256), fill: false, sync_threads: SYNC_BY_CALLS };

    fn table<M: Medium>(
        pool: Arc<Pool<M>>,
        index: Rewo<M>,
        sync: &OnceLock<SyncCopies>,
    ) -> Box<dyn Table> {
        let synced = Synced::new(index, Rewo::sync_copies);
        // The medium holds the hook.
        let index = Arc::downgrade(&synced.index);
        let _ =
            sync.set(Box::new(move || index.upgrade().is_some_and(|index| index.sync_copies())));
        pool::table(pool, synced)
    }

    fn hook(sim: &Sim) -> Arc<OnceLock<SyncCopies>> {
        let sync = Arc::default();
        if BETWEEN {
            sim.set_hook(Box::new(Between { sync: Arc::clone(&sync), calls: AtomicU64::new(0) }));
        }
        sync
    }
}

impl RewoSynced<false> {
    /// Opens it with copies that are changed by whoever calls what `sync` has then, too; it says whether
    /// there were any.
    ///
    /// # Errors
    /// Those of the design.
    pub fn open_with(sim: Sim, sync: &OnceLock<SyncCopies>) -> Result<Box<dyn Table>> {
        let pool = pool::open(sim)?;
        let index = Rewo::open(pool.clone(), Self::CACHE)?;
        Ok(Self::table(pool, index, sync))
    }
}

impl<const BETWEEN: bool> Subject for RewoSynced<BETWEEN> {
    const NAME: &'static str = if BETWEEN { "rewo-between" } else { "rewo-synced" };
    const MAX_BYTES: u64 = RewoSubject::MAX_BYTES;
    const SYNCED: bool = !BETWEEN;

    fn create(&self, sim: Sim) -> Result<Box<dyn Table>> {
        let sync = Self::hook(&sim);
        let pool = pool::create(sim, 4, 3, Self::MAX_BYTES)?;
        let index = Rewo::create(pool.clone(), Self::CACHE)?;
        pool.publish()?;
        Ok(Self::table(pool, index, &sync))
    }

    fn open(&self, sim: Sim) -> Result<Box<dyn Table>> {
        let sync = Self::hook(&sim);
        let pool = pool::open(sim)?;
        let index = Rewo::open(pool.clone(), Self::CACHE)?;
        Ok(Self::table(pool, index, &sync))
    }

    fn keys(&self) -> Vec<u64> {
        RewoSubject::default().keys()
    }

    fn prefills(&self) -> Vec<Prefill> {
        RewoSubject::default().prefills()
    }
}
