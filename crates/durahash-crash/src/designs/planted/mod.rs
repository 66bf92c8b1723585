//! Rewo-Hash with a fault: a copy of its sources, in which faults are planted (`build/rewo.rs`, `build.rs`)
//! and chosen at run time. The design itself knows nothing of them.

use std::cell::Cell;

use durahash::{Finding, Result};
use durahash_media::sim::Sim;

use self::copy::rewo::{Cache, Rewo, SYNC_BY_CALLS};
use super::synced::Synced;
use super::{RewoSubject, pool};
use crate::script::Op;
use crate::subject::{Prefill, Subject, Table};

#[allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    unused_imports,
    clippy::all,
    reason = "a copy, whose original is linted"
)]
mod copy {
    include!(concat!(env!("OUT_DIR"), "/planted/mod.rs"));
}

/// What the copy uses of the library's traits.
#[allow(unused_imports, reason = "as the copy's other modules use them")]
mod index {
    pub(super) use durahash::{Change, Finding, Index, IndexStats, Reader, Room, Updater};
    use durahash_media::{Event, Medium, Result};

    #[track_caller]
    pub(super) fn operation<M: Medium, T>(medium: &M, f: impl FnOnce() -> T) -> T {
        medium.event(Event::Begin);
        let done = f();
        medium.event(Event::Ack);
        done
    }

    pub(super) fn last_read(read: impl FnOnce(Reader<'_>) -> Result<()>) -> Result<Option<u64>> {
        let mut last = None;
        read(&mut |payload, _| {
            last = payload;
            Ok(())
        })?;
        Ok(last)
    }
}

/// What is wrong with a Rewo-Hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The commit word may be durable before the slot.
    CommitFirst,
    /// Readers see a new payload before it is durable.
    SeenFirst,
    /// A move clears its slot before the copy is live.
    ClearedFirst,
    /// A move does not mark its slot.
    Unmarked,
    /// Recovery drops a slot that is leaving and has no double.
    MarkedDropped,
    /// Recovery keeps both slots of a move.
    BothKept,
    /// Recovery leaves the marks of moves.
    MarksStay,
    /// The cursor is behind a bucket before that is empty.
    CursorFirst,
    /// Operations leave out buckets that the walk over the sources has yet to come to.
    PassedFirst,
    /// They leave out those that a walk before had passed.
    PassedKept,
    /// The root names a block of tables that is not durable.
    RootFirst,
    /// The space of a table is given back while the block of tables names it.
    GivenUpFirst,
    /// A copy in DRAM is changed before its slot is durable.
    CopyFirst,
    /// A copy in DRAM is not changed with its slot.
    CopyKept,
    /// A copy in DRAM stays when its slot is removed.
    CopyOutlives,
    /// A copy in DRAM is made without a look at the version of the bucket that it was read from.
    FilledUnseen,
    /// The cached table is believed to have everything when a copy has given way, or was not made.
    OverflowKept,
    /// A copy stays where the cached table had it when it had another size.
    Unswept,
    /// Readers see what a thread has copied before the writer has made it durable.
    SyncedEarly,
    /// A thread copies what its writer has taken back since, and others have changed again.
    SyncedLate,
    /// Readers do not look at the tables again.
    TablesOnce,
    /// Writers do not.
    TablesOnceToWrite,
    /// The tables are switched without passing through all locks.
    NotPassed,
}

thread_local! {
    /// Of the table that this thread works on.
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Whether the table that this thread works on has this fault.
fn planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Changes of the sources that cannot be made any more, because what they change is not there.
#[must_use]
pub fn lost() -> &'static [&'static str] {
    copy::LOST
}

/// Bytes of a cached table whose size follows the tables'.
pub const FOLLOWS: u64 = u64::MAX;

/// Bytes of a cached table of two buckets, where steps change copies while writers wait for the medium.
pub const SYNCED: u64 = 257;

/// Rewo-Hash with a fault, or a copy of it without one, and so many bytes for the cached table.
pub struct RewoPlanted<const CACHE_BYTES: u64>(pub Option<Fault>);

struct Planted {
    fault: Option<Fault>,
    table: Box<dyn Table>,
}

impl<const CACHE_BYTES: u64> RewoPlanted<CACHE_BYTES> {
    fn cache() -> Cache {
        let bytes = (CACHE_BYTES != FOLLOWS).then_some(CACHE_BYTES);
        let sync_threads = if CACHE_BYTES == SYNCED { SYNC_BY_CALLS } else { 0 };
        Cache { bytes, sync_threads, ..Cache::default() }
    }
}

impl<const CACHE_BYTES: u64> Subject for RewoPlanted<CACHE_BYTES> {
    const NAME: &'static str = "rewo-planted";
    const MAX_BYTES: u64 = RewoSubject::MAX_BYTES;

    fn create(&self, sim: Sim) -> Result<Box<dyn Table>> {
        PLANTED.set(self.0);
        let pool = pool::create(sim, 4, 3, Self::MAX_BYTES)?;
        let index = Synced::new(Rewo::create(pool.clone(), Self::cache())?, Rewo::sync_copies);
        pool.publish()?;
        Ok(Box::new(Planted { fault: self.0, table: pool::table(pool, index) }))
    }

    fn open(&self, sim: Sim) -> Result<Box<dyn Table>> {
        PLANTED.set(self.0);
        let pool = pool::open(sim)?;
        let index = Synced::new(Rewo::open(pool.clone(), Self::cache())?, Rewo::sync_copies);
        Ok(Box::new(Planted { fault: self.0, table: pool::table(pool, index) }))
    }

    fn keys(&self) -> Vec<u64> {
        RewoSubject::default().keys()
    }

    fn prefills(&self) -> Vec<Prefill> {
        RewoSubject::default().prefills()
    }
}

impl Planted {
    fn table(&self) -> &dyn Table {
        PLANTED.set(self.fault);
        &*self.table
    }
}

impl Table for Planted {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        self.table().apply(op, key)
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        self.table().contents(out)
    }

    fn len(&self) -> Result<u64> {
        self.table().len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.table().check(found)
    }

    fn was_closed(&self) -> Option<bool> {
        self.table.was_closed()
    }

    fn close(self: Box<Self>) -> Result<()> {
        PLANTED.set(self.fault);
        self.table.close()
    }
}
