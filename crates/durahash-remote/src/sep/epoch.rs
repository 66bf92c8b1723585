//! Epochs: when unlinked memory is free, and when a generation divisible by 32 may be committed.
//!
//! Every operation has a tag: the latest global epoch its client knew when it began. The client's
//! row shows an epoch that is at most every tag. The global epoch moves from e to e + 1 only when
//! every live row shows e, so it is never more than one above any tag, and
//!
//! - in epoch t + 3 no operation reads blocks that an operation with tag t unlinked;
//! - an operation with tag t commits in epoch t + 1 at the latest; in t + 3
//!   no operation is left that began before that.
//!
//! | Step of a tick | Then |
//! |---|---|
//! | read global epoch | awaited |
//! | flush all nodes | awaited: the unsignaled writes of operations with older tags have landed |
//! | own row: swap to the lowest tag, or the global epoch | awaited |
//! | read client table | awaited; after the epoch, so that no row is missed that began under an earlier one |
//! | global epoch: swap to e + 1, if all live rows show e | |
//! | rows that keep it back: evict at the nodes, then swap to dead | a swap that fails: it lives |

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use durahash_media::{Error, ErrorKind, Result};

use crate::fabric::{Batch, Done, Fabric};
use crate::planted::{Fault, planted};

use super::Core;
use super::layout::{EPOCH, Row, RowState, epoch_of, word_at, words};

/// Ticks for which a row must keep the epoch back before the fabric is asked about it.
const PATIENCE: u32 = 3;
/// The longest wait of an operation for the epoch.
const STALLED_NS: u64 = 10_000_000_000;
/// Microseconds that a leaving client waits for its operations.
const LEAVES: u32 = 10_000;

#[derive(Debug)]
pub(super) struct Epochs {
    /// The word of this client's row.
    pub(super) row: Row,
    /// Operations under way by tag.
    tags: BTreeMap<u64, u32>,
    /// The latest global epoch seen: the tag of operations that begin now.
    pub(super) latest: u64,
    /// When the last heartbeat that has arrived was posted.
    beat_ns: u64,
    /// A swap of the row is under way.
    swapping: bool,
    ticking: bool,
    pub(super) ticked_ns: u64,
    /// Rows that hold the epoch back: their word, since when, for how many ticks.
    behind: HashMap<u32, (Row, u64, u32)>,
}

impl Epochs {
    pub(super) fn new(row: Row, posted_ns: u64) -> Self {
        Epochs {
            row,
            tags: BTreeMap::new(),
            latest: row.epoch(),
            beat_ns: posted_ns,
            swapping: false,
            ticking: false,
            ticked_ns: posted_ns,
            behind: HashMap::new(),
        }
    }

    fn enter(&mut self) -> u64 {
        let tag = if planted(Fault::TagOfRow) { self.row.epoch() } else { self.latest };
        *self.tags.entry(tag).or_default() += 1;
        tag
    }

    fn again(&mut self, tag: u64) {
        *self.tags.entry(tag).or_default() += 1;
    }

    fn leave(&mut self, tag: u64) {
        if let Some(count) = self.tags.get_mut(&tag) {
            *count -= 1;
            if *count == 0 {
                self.tags.remove(&tag);
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tags.is_empty()
    }
}

/// An operation under way. Blocks that it has seen linked are not reused while it lives.
pub(super) struct Op<'a, F: Fabric> {
    core: &'a Core<F>,
    /// It runs alone, and all others are refused.
    excludes: bool,
    pub(super) tag: u64,
}

impl<F: Fabric> Drop for Op<'_, F> {
    fn drop(&mut self) {
        self.core.epochs.borrow_mut().leave(self.tag);
        if self.excludes {
            self.core.excluded.set(false);
        }
    }
}

/// Holds the tag while a batch is under way. If its future is dropped before the batch is done, the
/// verbs may take effect at any time, so the tag is never given back.
struct Posted<'a>(&'a RefCell<Epochs>, u64);

impl<'a> Posted<'a> {
    fn new(epochs: &'a RefCell<Epochs>, tag: u64) -> Self {
        epochs.borrow_mut().again(tag);
        Posted(epochs, tag)
    }

    fn done(self) {
        self.0.borrow_mut().leave(self.1);
    }
}

impl<'a, F: Fabric> Op<'a, F> {
    pub(super) fn new(core: &'a Core<F>) -> Self {
        let tag = core.epochs.borrow_mut().enter();
        Op { core, excludes: false, tag }
    }

    /// Creates an operation that runs alone: all others of this client fail until it is dropped.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) when operations are under way.
    pub(super) fn exclusive(core: &'a Core<F>) -> Result<Self> {
        if core.excluded.get() || !core.epochs.borrow().is_idle() {
            return Err(ErrorKind::Locked.into());
        }
        core.excluded.set(true);
        let tag = core.epochs.borrow_mut().enter();
        Ok(Op { core, excludes: true, tag })
    }

    /// Waits without holding an epoch: the caller must not use results of earlier reads.
    pub(super) async fn wait(&mut self, ns: u64) {
        if planted(Fault::WaitsHolding) {
            self.core.fabric.sleep_ns(ns).await;
            return;
        }
        self.core.epochs.borrow_mut().leave(self.tag);
        // Not left twice if the future is dropped here.
        self.core.epochs.borrow_mut().again(u64::MAX);
        self.tag = u64::MAX;
        self.core.fabric.sleep_ns(ns).await;
        let mut epochs = self.core.epochs.borrow_mut();
        epochs.leave(u64::MAX);
        self.tag = epochs.enter();
    }

    /// Fails if another operation runs alone, or the client has left.
    pub(super) fn admitted(&self) -> Result<()> {
        if self.core.excluded.get() && !self.excludes {
            return Err(ErrorKind::Locked.into());
        }
        if self.core.closed.get() {
            return Err(ErrorKind::Closed.into());
        }
        Ok(())
    }

    /// Posts a batch, within the lease.
    pub(super) async fn post(&self, batch: Batch) -> Result<Done> {
        self.admitted()?;
        self.core.within_lease(2).await?;
        if batch.only_reads() {
            // If the future is dropped here, the results are never seen.
            let done = self.core.fabric.post(batch).await?;
            self.core.within_lease(1).await?;
            return Ok(done);
        }
        let posted = Posted::new(&self.core.epochs, self.tag);
        match self.core.fabric.post(batch).await {
            Ok(done) => {
                posted.done();
                self.core.within_lease(1).await?;
                Ok(done)
            }
            Err(error) => {
                // After any other failure the verbs may still take effect.
                if matches!(
                    error.kind(),
                    ErrorKind::OutOfRegion { .. } | ErrorKind::Unaligned { .. }
                ) {
                    posted.done();
                }
                Err(error)
            }
        }
    }
}

impl<F: Fabric> Core<F> {
    /// Makes sure that a heartbeat was posted within the last `1/part` of the lease and arrived.
    async fn within_lease(&self, part: u64) -> Result<()> {
        let Some(lease_ns) = self.fabric.lease_ns() else { return Ok(()) };
        if planted(Fault::LeaseBefore) && part == 2 || planted(Fault::LeaseAfter) && part == 1 {
            return Ok(());
        }
        let late = || {
            let beat_ns = self.epochs.borrow().beat_ns;
            self.fabric.now_ns() - beat_ns >= lease_ns / part
        };
        while late() {
            let epoch = self.epochs.borrow().row.epoch();
            self.swap_row(epoch, RowState::Live).await?;
        }
        Ok(())
    }

    /// Moves this client's row.
    async fn swap_row(&self, epoch: u64, state: RowState) -> Result<()> {
        while self.epochs.borrow().swapping {
            self.fabric.sleep_ns(1000).await;
        }
        let guard = Flag::set(&self.epochs, |epochs| &mut epochs.swapping);
        loop {
            let old = self.epochs.borrow().row;
            let epoch = epoch.max(old.epoch());
            let new = Row::new(state, old.beat().wrapping_add(1), epoch, old.incarnation());
            let posted_ns = self.fabric.now_ns();
            let mut batch = Batch::new();
            batch.compare_swap(self.geometry.row(self.fabric.row()), old.0, new.0);
            let found = Row(self.fabric.post(batch).await?.word(0));
            let mut epochs = self.epochs.borrow_mut();
            if found == old {
                (epochs.row, epochs.beat_ns) = (new, posted_ns);
                if planted(Fault::BeatWhenSeen) {
                    epochs.beat_ns = self.fabric.now_ns();
                }
                break;
            } else if found.is_of(old) {
                // A swap whose future was dropped has won.
                epochs.row = found;
            } else {
                return Err(ErrorKind::Evicted.into());
            }
        }
        drop(guard);
        Ok(())
    }

    /// Sends a heartbeat, advances the epoch if possible, and frees memory that waited for it.
    pub(crate) async fn tick(&self) -> Result<()> {
        if self.closed.get() || self.epochs.borrow().ticking {
            return Ok(());
        }
        let guard = Flag::set(&self.epochs, |epochs| &mut epochs.ticking);
        let mut batch = Batch::new();
        batch.read(EPOCH, 8);
        let global = epoch_of(self.fabric.post(batch).await?.word(0))?;
        let lowest = {
            let mut epochs = self.epochs.borrow_mut();
            epochs.latest = epochs.latest.max(global);
            match epochs.tags.keys().next() {
                Some(&tag) if !planted(Fault::RowIsLatest) => tag.min(global),
                _ => global,
            }
        };
        if lowest > self.epochs.borrow().row.epoch() && !planted(Fault::Unflushed) {
            for node in 0..self.geometry.nodes {
                self.fabric.flush(node).await?;
            }
        }
        self.swap_row(lowest, RowState::Live).await?;
        // After the read of the epoch: a client that registers later reads the epoch later, too.
        let mut batch = Batch::new();
        let rows = self.fabric.rows().min(self.geometry.rows);
        batch.read(self.geometry.row(0), 8 * rows as usize);
        let done = self.fabric.post(batch).await?;
        let rows: Vec<Row> = words(done.bytes(0)).map(Row).collect();
        self.space.borrow_mut().collect(global);
        let ready = self.evict_dead(global, &rows).await?;
        if (ready || planted(Fault::RowsUnasked)) && self.epochs.borrow().row.epoch() == global {
            let mut batch = Batch::new();
            batch.compare_swap(EPOCH, global, global + 1);
            let found = epoch_of(self.fabric.post(batch).await?.word(0))?;
            let mut epochs = self.epochs.borrow_mut();
            epochs.latest = epochs.latest.max(found.max(global + 1));
        }
        self.epochs.borrow_mut().ticked_ns = self.fabric.now_ns();
        drop(guard);
        Ok(())
    }

    /// How long an operation waits for the epoch: long enough for the eviction of a dead client.
    pub(super) fn patience_ns(&self) -> u64 {
        STALLED_NS.max(10 * self.fabric.lease_ns().unwrap_or(0))
    }

    /// The error of an operation that has waited for the epoch in vain.
    pub(super) fn held_back(&self) -> Error {
        let epochs = self.epochs.borrow();
        let longest = epochs.behind.iter().max_by_key(|(_, (_, _, ticks))| *ticks);
        let who = match longest {
            Some((row, _)) => format!("the client in row {row}"),
            None => "this client has an operation whose future was dropped or failed: it".into(),
        };
        let what =
            format!("{who} is alive and holds the epoch back; it must run `service`, or be closed");
        let source = std::io::Error::new(std::io::ErrorKind::TimedOut, what);
        Error::io("waiting for the epoch to move", None, source)
    }

    /// Returns whether no other row holds the epoch back. Evicts dead clients whose rows do so for long.
    async fn evict_dead(&self, global: u64, rows: &[Row]) -> Result<bool> {
        let mut ready = true;
        for (&row, idx) in rows.iter().zip(0..) {
            let behind = row.state() == RowState::Live && row.epoch() != global;
            if !behind || idx == self.fabric.row() {
                self.epochs.borrow_mut().behind.remove(&idx);
                continue;
            }
            ready = false;
            let now_ns = self.fabric.now_ns();
            let (since_ns, ticks) = {
                let mut epochs = self.epochs.borrow_mut();
                let seen = epochs.behind.entry(idx).or_insert((row, now_ns, 0));
                if seen.0 != row {
                    *seen = (row, now_ns, 0);
                }
                seen.2 += 1;
                (seen.1, seen.2)
            };
            let late = match self.fabric.lease_ns() {
                Some(lease_ns) => now_ns - since_ns >= lease_ns,
                None => ticks >= PATIENCE,
            };
            if late && (planted(Fault::Unfenced) || self.fabric.evict(idx).await?) {
                let mut batch = Batch::new();
                batch.compare_swap(self.geometry.row(idx), row.0, row.with_state(RowState::Dead).0);
                let swapped = self.fabric.post(batch).await?.word(0) == row.0;
                self.tally.borrow_mut().evictions += u64::from(swapped);
            }
        }
        Ok(ready)
    }

    /// Frees this client's row. If verbs of dropped futures may be under way, the row stays for the
    /// other clients to evict.
    pub(crate) async fn leave(&self) -> Result<()> {
        self.closed.set(true);
        while self.epochs.borrow().ticking {
            self.fabric.sleep_ns(1000).await;
        }
        // Operations under way end at their next post. Those whose futures were dropped never do.
        for _ in 0..LEAVES {
            if self.epochs.borrow().is_idle() {
                break;
            }
            self.fabric.sleep_ns(1000).await;
        }
        for node in 0..self.geometry.nodes {
            self.fabric.flush(node).await?;
        }
        if self.epochs.borrow().is_idle() {
            let epoch = self.epochs.borrow().row.epoch();
            self.swap_row(epoch, RowState::Free).await?;
        }
        Ok(())
    }

    pub(crate) fn has_left(&self) -> bool {
        self.closed.get()
    }

    /// Rows that are live, apart from this client's.
    pub(super) async fn others(&self) -> Result<Vec<u32>> {
        let mut batch = Batch::new();
        batch.read(self.geometry.row(0), 8 * self.geometry.rows as usize);
        let done = self.fabric.post(batch).await?;
        let mut live = Vec::new();
        for (row, idx) in words(done.bytes(0)).map(Row).zip(0..) {
            if idx == self.fabric.row() || row.state() != RowState::Live {
                continue;
            }
            let dead = self.fabric.lease_ns().is_none() && self.fabric.evict(idx).await?;
            if dead {
                let mut batch = Batch::new();
                batch.compare_swap(self.geometry.row(idx), row.0, row.with_state(RowState::Dead).0);
                self.fabric.post(batch).await?;
            } else {
                live.push(idx);
            }
        }
        Ok(live)
    }

    /// Registers this client in the row that the fabric gave it. Awaited before anything else is read.
    pub(super) async fn register(fabric: &F, geometry: &super::layout::Geometry) -> Result<Epochs> {
        let row = fabric.row();
        if row >= geometry.rows {
            let what = "the client table of the index is smaller than that of the fabric, and this client's row is beyond it";
            return Err(ErrorKind::Options { what }.into());
        }
        let at = geometry.row(row);
        loop {
            let mut batch = Batch::new();
            batch.read(EPOCH, 8);
            batch.read(at, 8);
            let done = fabric.post(batch).await?;
            let old = Row(word_at(done.bytes(1), 0));
            let new = Row::new(
                RowState::Live,
                0,
                epoch_of(done.word(0))?,
                old.incarnation().wrapping_add(1),
            );
            let posted_ns = fabric.now_ns();
            let mut batch = Batch::new();
            batch.compare_swap(at, old.0, new.0);
            // It may fail once, if another client marks the row's previous client as dead.
            if fabric.post(batch).await?.word(0) == old.0 {
                // The epoch may have advanced before the row was visible; from now on it advances
                // at most once.
                let mut batch = Batch::new();
                batch.read(EPOCH, 8);
                let latest = epoch_of(fabric.post(batch).await?.word(0))?;
                let latest = if planted(Fault::EpochOnce) { new.epoch() } else { latest };
                return Ok(Epochs { latest, ..Epochs::new(new, posted_ns) });
            }
        }
    }
}

/// Sets a flag of the epochs until it is dropped.
struct Flag<'a>(&'a RefCell<Epochs>, fn(&mut Epochs) -> &mut bool);

impl<'a> Flag<'a> {
    fn set(epochs: &'a RefCell<Epochs>, flag: fn(&mut Epochs) -> &mut bool) -> Self {
        *flag(&mut epochs.borrow_mut()) = true;
        Flag(epochs, flag)
    }
}

impl Drop for Flag<'_> {
    fn drop(&mut self) {
        *self.1(&mut self.0.borrow_mut()) = false;
    }
}
