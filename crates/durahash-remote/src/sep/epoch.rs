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
//! | heed a sweep | `reclaim.rs` |
//! | flush all nodes | awaited: the unsignaled writes of operations with older tags have landed |
//! | own row: swap to the lowest tag, or the global epoch | awaited |
//! | read client table, if it is this client's turn | awaited; after the epoch, so that no row is missed that began under an earlier one |
//! | global epoch: swap to e + 1, if all live rows show e | |
//! | rows that keep it back: evict at the nodes, then swap to dead | a swap that fails: it lives |
//! | a step of a sweep, and memory in excess to the shelf | `reclaim.rs`, `shelf.rs` |
//!
//! A client that leaves gives its memory to the shelf, then frees its row. So does one that rests (`rest.rs`).

use std::cell::RefCell;

use durahash_media::{Error, ErrorKind, Result};

use crate::fabric::{Batch, Done, Fabric};
use crate::planted::{Fault, planted};

use super::Core;
use super::layout::{EPOCH, Geometry, Row, RowState, epoch_of};
use super::tags::{ASKS, Epochs, PATIENCE, Rest};
use super::verbs::Post;

/// The longest wait of an operation for the epoch.
const STALLED_NS: u64 = 10_000_000_000;
/// Microseconds that a leaving client waits for its operations.
const LEAVES: u32 = 10_000;

/// An operation under way. Blocks that it has seen linked are not reused while it lives.
pub(super) struct Op<'a, F: Fabric> {
    core: &'a Core<F>,
    /// It is of a tick, or of the leaving itself: it goes on when the client leaves, which waits for it.
    tends: bool,
    pub(super) tag: u64,
}

impl<F: Fabric> Drop for Op<'_, F> {
    fn drop(&mut self) {
        self.core.epochs.borrow_mut().leave(self.tag);
    }
}

impl<'a, F: Fabric> Op<'a, F> {
    pub(super) fn new(core: &'a Core<F>) -> Self {
        let tag = core.epochs.borrow_mut().enter();
        Op { core, tends: false, tag }
    }

    /// An operation of a tick, or of a client that leaves.
    pub(super) fn tending(core: &'a Core<F>) -> Self {
        let mut op = Op::new(core);
        op.tends = true;
        op
    }

    /// An operation of its own that goes on with what this one knows.
    pub(super) fn twin(&self) -> Self {
        self.core.epochs.borrow_mut().again(self.tag);
        Op { ..*self }
    }

    /// Waits without holding an epoch: the caller must not use results of earlier reads, and holds no block, which
    /// a sweep could take for free.
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

    /// Fails if the client has left.
    pub(super) async fn admitted(&self) -> Result<()> {
        if self.core.closed.get() && !self.tends {
            return Err(self.core.left().await);
        }
        Ok(())
    }
}

impl<F: Fabric> Post for Op<'_, F> {
    /// Posts a batch, within the lease.
    async fn send(&self, batch: Batch) -> Result<Done> {
        self.admitted().await?;
        self.core.within_lease(2).await?;
        // If the future is dropped, or fails otherwise, the verbs may take effect at any time, so the tag is never
        // given back. The results of reads alone are never seen then.
        let tag = (!batch.only_reads()).then_some(self.tag);
        let epochs = &self.core.epochs;
        tag.inspect(|&tag| epochs.borrow_mut().again(tag));
        let posted = self.core.fabric.post(batch).await;
        let is_over = posted.as_ref().err().is_none_or(|error| {
            matches!(error.kind(), ErrorKind::OutOfRegion { .. } | ErrorKind::Unaligned { .. })
        });
        tag.filter(|_| is_over).inspect(|&tag| epochs.borrow_mut().leave(tag));
        let done = posted?;
        self.core.within_lease(1).await?;
        Ok(done)
    }
}

impl<F: Fabric> Core<F> {
    /// Makes sure that a heartbeat was posted within the last `1/part` of the lease and arrived.
    pub(super) async fn within_lease(&self, part: u64) -> Result<()> {
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
    pub(super) async fn swap_row(&self, epoch: u64, state: RowState) -> Result<()> {
        while self.epochs.borrow().swapping {
            self.fabric.sleep_ns(1000).await;
        }
        let guard = FlagGuard::set(&self.epochs, |epochs| &mut epochs.swapping);
        loop {
            let old = self.epochs.borrow().row;
            let epoch = epoch.max(old.epoch());
            let new = Row::new(state, old.beat().wrapping_add(1), epoch, old.incarnation());
            let posted_ns = self.fabric.now_ns();
            let at = self.geometry.row(self.fabric.row());
            let found = Row(self.fabric.swap_word(at, old.0, new.0).await?);
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

    /// Sends a heartbeat, advances the epoch if possible, frees memory that waited for it, takes a step of a sweep, and
    /// gives memory in excess to other clients.
    pub(crate) async fn tick(&self) -> Result<()> {
        self.beat(true).await
    }

    /// The same, and sweeps and gives memory only if it `gives`: if the future is dropped then, the epoch stands still.
    pub(super) async fn beat(&self, gives: bool) -> Result<()> {
        if self.closed.get() || self.epochs.borrow().ticking {
            return Ok(());
        }
        match self.rest.get() {
            // An operation that woke was dropped.
            Rest::Ends => return self.wake().await,
            Rest::Yes => return Ok(()),
            _ => {}
        }
        if planted(Fault::WokenUnregistered) && self.epochs.borrow().row.state() == RowState::Free {
            return Ok(());
        }
        let guard = FlagGuard::set(&self.epochs, |epochs| &mut epochs.ticking);
        let global = epoch_of(self.fabric.read_word(EPOCH).await?)?;
        let Some(told) = self.listen().await? else {
            // Another tick acknowledges this epoch.
            let epoch = self.epochs.borrow().row.epoch();
            self.swap_row(epoch, RowState::Live).await?;
            self.epochs.borrow_mut().ticked_ns = self.fabric.now_ns();
            return Ok(());
        };
        self.heed(told);
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
        // After the read of the epoch: a client that registers later reads the epoch later, too. All rows: a client of an
        // earlier session of the nodes may have one beyond those of this session.
        // And always where silence for a lease decides who is dead: a row's beats repeat.
        let looks = self.epochs.borrow_mut().is_to_look() || self.fabric.lease_ns().is_some();
        let rows = if looks { Some(self.rows(self.geometry.rows).await?) } else { None };
        self.space.borrow_mut().collect(global);
        let ready = match &rows {
            Some(rows) => self.evict_dead(global, rows).await?,
            None => false,
        };
        if let Some(rows) = &rows {
            let live = rows.iter().filter(|row| row.state() == RowState::Live).count();
            self.epochs.borrow_mut().looked(self.fabric.row(), live);
        }
        if (ready || planted(Fault::RowsUnasked)) && self.epochs.borrow().row.epoch() == global {
            let found = epoch_of(self.fabric.swap_word(EPOCH, global, global + 1).await?)?;
            let mut epochs = self.epochs.borrow_mut();
            epochs.latest = epochs.latest.max(found.max(global + 1));
        }
        self.tend(global, rows.as_deref(), gives).await?;
        self.epochs.borrow_mut().ticked_ns = self.fabric.now_ns();
        drop(guard);
        Ok(())
    }

    /// Keeps ticks of this client away until what is returned is dropped.
    pub(super) async fn still(&self) -> FlagGuard<'_> {
        while self.epochs.borrow().ticking {
            self.fabric.sleep_ns(1000).await;
        }
        FlagGuard::set(&self.epochs, |epochs| &mut epochs.ticking)
    }

    /// Nanoseconds that an operation waits for the epoch: enough for the eviction of a dead client.
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
        let (mut ready, mut late) = (true, Vec::new());
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
            let is_late = match self.fabric.lease_ns() {
                Some(lease_ns) => now_ns - since_ns >= lease_ns,
                // It may only be idle.
                None => ticks >= PATIENCE,
            };
            if is_late {
                late.push((idx, row));
            }
        }
        // They take turns.
        let asked = self.epochs.borrow().asked;
        let first = late.partition_point(|&(idx, _)| idx <= asked);
        late.rotate_left(first);
        let mut lives = 0;
        for (idx, row) in late {
            self.epochs.borrow_mut().asked = idx;
            if planted(Fault::Unfenced) || self.fabric.evict(idx).await? {
                // Owed before: the future may be dropped when the row is marked.
                let bytes = self.death_bytes();
                self.space.borrow_mut().owed_bytes += bytes;
                if self.mark_dead(row, idx).await? {
                    self.stats.borrow_mut().evictions += 1;
                } else {
                    self.space.borrow_mut().owed_bytes -= bytes;
                }
            } else {
                lives += 1;
                if lives == ASKS {
                    break;
                }
            }
        }
        Ok(ready)
    }

    /// Gives this client's memory to the others, and frees its row. If verbs of dropped futures may be under way, the
    /// row stays for the other clients to evict.
    pub(crate) async fn leave(&self) -> Result<()> {
        self.closed.set(true);
        while self.epochs.borrow().ticking {
            self.fabric.sleep_ns(1000).await;
        }
        self.end_doze();
        if self.rest.get() == Rest::Yes {
            return Ok(());
        }
        self.return_from_rest().await?;
        // Operations under way end at their next post. Those whose futures were dropped never do.
        for _ in 0..LEAVES {
            if self.epochs.borrow().is_idle() {
                break;
            }
            self.fabric.sleep_ns(1000).await;
        }
        // What others put back later is leaked: then the row stays, and its death counts.
        let was_idle = self.epochs.borrow().is_idle();
        for node in 0..self.geometry.nodes {
            self.fabric.flush(node).await?;
        }
        self.stop_sweep().await?;
        let op = Op::tending(self);
        self.give_back(&op).await?;
        drop(op);
        // Clients that do not know of a sweep's end drop what it found: then another sweep is due.
        let latest = self.epochs.borrow().latest;
        if self.reclaim.borrow().found.is_none_or(|epoch| epoch <= latest) {
            self.settle().await?;
        }
        self.space.borrow_mut().lift();
        self.repay().await?;
        if was_idle && self.epochs.borrow().is_idle() {
            let epoch = self.epochs.borrow().row.epoch();
            self.swap_row(epoch, RowState::Free).await?;
        }
        Ok(())
    }

    pub(crate) fn has_left(&self) -> bool {
        self.closed.get()
    }

    /// The error of an operation of a client that has left: that of the fabric where it has lost a node, as the client that
    /// goes on in its place closes it.
    pub(super) async fn left(&self) -> Error {
        let read = self.fabric.read_word(EPOCH).await;
        read.err().unwrap_or_else(|| ErrorKind::Closed.into())
    }

    /// The first rows of the client table.
    async fn rows(&self, count: u32) -> Result<Vec<Row>> {
        let words = self.fabric.read_words(self.geometry.row(0), count as usize).await?;
        Ok(words.into_iter().map(Row).collect())
    }

    /// Returns `false` if the row has changed meanwhile.
    async fn mark_dead(&self, row: Row, idx: u32) -> Result<bool> {
        let dead = row.with_state(RowState::Dead);
        Ok(self.fabric.swap_word(self.geometry.row(idx), row.0, dead.0).await? == row.0)
    }

    /// Registers this client in the row that the fabric gave it, and returns whether its previous client died and is
    /// not marked as dead. Awaited before anything else is read.
    pub(super) async fn register(fabric: &F, geometry: &Geometry) -> Result<(Epochs, bool)> {
        let row = fabric.row();
        if row >= geometry.rows {
            let what = "the client table of the index is smaller than that of the fabric, and this client's row is beyond it";
            return Err(ErrorKind::Options { what }.into());
        }
        let at = geometry.row(row);
        loop {
            let both = Batch::of(|batch| (batch.read(EPOCH, 8), batch.read(at, 8)));
            let done = fabric.post(both).await?;
            let (epoch, old) = (epoch_of(done.word(0))?, Row(done.word(1)));
            let new = Row::new(RowState::Live, 0, epoch, old.incarnation().wrapping_add(1));
            let posted_ns = fabric.now_ns();
            // It may fail once, if another client marks the row's previous client as dead.
            if fabric.swap_word(at, old.0, new.0).await? == old.0 {
                // The epoch may have advanced before the row was visible; from now on it advances
                // at most once.
                let latest = epoch_of(fabric.read_word(EPOCH).await?)?;
                let latest = if planted(Fault::EpochOnce) { new.epoch() } else { latest };
                let epochs = Epochs { latest, ..Epochs::new(new, posted_ns) };
                return Ok((epochs, old.state() == RowState::Live));
            }
        }
    }
}

/// Sets a flag of the epochs until it is dropped.
pub(super) struct FlagGuard<'a>(&'a RefCell<Epochs>, fn(&mut Epochs) -> &mut bool);

impl<'a> FlagGuard<'a> {
    fn set(epochs: &'a RefCell<Epochs>, flag: fn(&mut Epochs) -> &mut bool) -> Self {
        *flag(&mut epochs.borrow_mut()) = true;
        FlagGuard(epochs, flag)
    }
}

impl Drop for FlagGuard<'_> {
    fn drop(&mut self) {
        *self.1(&mut self.0.borrow_mut()) = false;
    }
}
