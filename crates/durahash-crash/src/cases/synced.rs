//! Copies that are changed while writers wait for the medium, by nobody's thread: by steps, or before calls into
//! the medium.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use durahash::Result;
use durahash::index::IndexBase;
use durahash::rewo::{Cache, Rewo, SYNC_BY_CALLS};
use durahash_media::sim::{Call, Hook, Sim, Site};

use super::ROOMY;
use super::words::{REWO, Shared, TINY, creates, opens, rewo};
use crate::case::{Case, Slots, Table};

/// Changes the copies that writers have ordered; true if there were any.
pub type SyncCopies = Box<dyn Fn() -> bool + Send + Sync>;

/// Changes the copies that were ordered, before some of the calls into the medium.
struct Between {
    sync: Arc<OnceLock<SyncCopies>>,
    calls: AtomicU64,
}

thread_local! {
    /// True while this thread does so: that calls into the medium, too.
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

/// A cached table of two buckets.
const CACHE: Cache = {
    let mut cache = Cache::of_bytes(256);
    cache.sync_threads = SYNC_BY_CALLS;
    cache
};

/// Changes the copies that writers have ordered, or else does a step.
fn sync_or_step(rewo: &Rewo<Sim>) -> Result<bool> {
    if rewo.sync_copies() { Ok(true) } else { rewo.step() }
}

/// A step of it changes copies, too.
fn table(pool: Shared, rewo: Rewo<Sim>, sync: &OnceLock<SyncCopies>) -> Box<dyn Table> {
    let index = Arc::new(rewo);
    // The medium holds the hook.
    let weak = Arc::downgrade(&index);
    let _ = sync.set(Box::new(move || weak.upgrade().is_some_and(|index| index.sync_copies())));
    Box::new(Slots { index, step: sync_or_step, pool: Some(pool) })
}

fn create_with(sim: Sim, sync: Arc<OnceLock<SyncCopies>>) -> Result<Box<dyn Table>> {
    let made = move |pool: Shared| Ok(table(Arc::clone(&pool), Rewo::create(pool, CACHE)?, &sync));
    creates((REWO, TINY), ROOMY, made)(sim)
}

/// Opens it with copies that a call of the closure put into `sync` changes, too. The call returns true if there
/// were any.
///
/// # Errors
/// Those of the design.
pub fn open_with(sim: Sim, sync: Arc<OnceLock<SyncCopies>>) -> Result<Box<dyn Table>> {
    opens(move |pool| Ok(table(Arc::clone(&pool), Rewo::open(pool, CACHE)?, &sync)))(sim)
}

/// Rewo-Hash under test with a cached table of two buckets, whose copies are changed by steps.
pub(super) fn by_steps() -> Case {
    Case {
        name: "rewo-synced",
        synced: true,
        create: Arc::new(|sim| create_with(sim, Arc::default())),
        open: Arc::new(|sim| open_with(sim, Arc::default())),
        ..rewo("", ROOMY, 0)
    }
}

/// The same, where they are changed in the middle of operations: before a quarter of the calls into the medium.
pub(super) fn between() -> Case {
    let hook = |sim: &Sim| {
        let sync: Arc<OnceLock<SyncCopies>> = Arc::default();
        sim.set_hook(Box::new(Between { sync: Arc::clone(&sync), calls: AtomicU64::new(0) }));
        sync
    };
    Case {
        name: "rewo-between",
        synced: false,
        create: Arc::new(move |sim| {
            let sync = hook(&sim);
            create_with(sim, sync)
        }),
        open: Arc::new(move |sim| {
            let sync = hook(&sim);
            open_with(sim, sync)
        }),
        ..by_steps()
    }
}
