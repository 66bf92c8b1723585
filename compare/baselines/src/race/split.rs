//! A subtable is split: the table of its steps is in the front page.

use durahash_media::{Error, Limit, Result};
use durahash_remote::fabric::{Batch, Fabric};

use super::directory::Site;
use super::layout::{Cell, Header, Ptr, Slot, cell_at, decode, suffix};
use super::{Moves, Race};

/// A subtable and the one that half of its entries go to.
#[derive(Clone, Copy)]
struct Halves {
    from: Ptr,
    to: Ptr,
    /// The header of the old one: what it does not own goes.
    stays: Header,
}

impl<F: Fabric> Race<F> {
    /// Splits the subtable of a hash, which has no room for it, or waits for the client that does.
    pub(super) async fn make_room(&self, site: Site, h: u64) -> Result<()> {
        let cell = site.cell;
        if cell.is_locked() {
            self.pause().await;
            return self.refresh(h).await;
        }
        let wanted_bytes = self.geometry.subtable_bytes();
        if cell.depth() == self.options.max_depth {
            return Err(Error::full(wanted_bytes, Limit::Nodes));
        }
        // The block is lost if another client is faster; so take it only then.
        let at = cell_at(suffix(h, cell.depth()));
        if self.swap(at, cell.0, cell.locked().0).await? != cell.0 {
            self.pause().await;
            return self.refresh(h).await;
        }
        let started = self.fabric.now_ns();
        let to = match self.take(wanted_bytes).await {
            Ok(to) => to,
            Err(e) => {
                self.write_word(at, cell.0).await?;
                return Err(e);
            }
        };
        self.split(cell, suffix(h, cell.depth()), to).await?;
        let ended = self.fabric.now_ns();
        self.count(|stats| {
            stats.splits += 1;
            stats.split_ns += ended - started;
        });
        self.refresh(h).await
    }

    async fn split(&self, cell: Cell, low: u64, to: Ptr) -> Result<()> {
        let (from, depth) = (cell.subtable(), cell.depth() + 1);
        let high = low | 1 << (depth - 1);
        let (stays, goes) = (Header::new(depth, low), Header::new(depth, high));
        self.post(|batch| batch.write(to.addr(), &self.geometry.empty(goes))).await?;
        let mut global = self.lock_root().await?;
        if global < depth {
            global = self.double(global).await?;
        }
        self.post(|batch| {
            for bucket in 0..self.geometry.buckets() {
                batch.write_word(from.addr().add(bucket * self.geometry.bucket_bytes()), stays.0);
            }
        })
        .await?;
        let cells = [(low, Cell::new(from, depth)), (high, Cell::new(to, depth))];
        self.post(|batch| {
            Self::write_cells(batch, low, cells[0].1.locked(), global);
            Self::write_cells(batch, high, cells[1].1.moving(), global);
        })
        .await?;
        self.unlock_root(global).await?;
        self.move_entries(Halves { from, to, stays }).await?;
        let global = self.lock_root().await?;
        self.post(|batch| cells.map(|(at, cell)| Self::write_cells(batch, at, cell, global)))
            .await?;
        self.unlock_root(global).await
    }

    async fn move_entries(&self, halves: Halves) -> Result<()> {
        for (_, _, slots) in self.read_buckets(halves.from).await? {
            self.move_bucket(halves, slots).await?;
        }
        Ok(())
    }

    /// Moves the entries of a bucket that go.
    async fn move_bucket(&self, halves: Halves, mut slots: Vec<(u64, Slot)>) -> Result<()> {
        let blocks = self.read_blocks(slots.iter().map(|(_, slot)| *slot)).await?;
        let mut i = 0;
        let mut wrong = Ok(());
        slots.retain(|_| {
            let key = decode(blocks.bytes(i)).map(|(key, _)| self.hash(key));
            i += 1;
            match key {
                Ok(h) => !halves.stays.owns(h),
                Err(e) => {
                    wrong = Err(e);
                    false
                }
            }
        });
        wrong?;
        let mark = |(off, slot): &(u64, Slot), batch: &mut Batch| {
            batch.compare_swap(halves.from.addr().add(*off), slot.unmarked().0, slot.marked().0)
        };
        let marked = self.post(|batch| slots.iter().map(|one| mark(one, batch)).count()).await?;
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        for (i, (off, slot)) in slots.into_iter().enumerate() {
            let is_ours = marked.word(i) == slot.unmarked().0;
            if is_ours { &mut ours } else { &mut others }.push((off, slot.unmarked()));
        }
        let at_once = match self.options.moves {
            Moves::Each => 1,
            Moves::Batched => ours.len().max(1),
        };
        for some in ours.chunks(at_once) {
            self.move_marked(halves.from, halves.to, some).await?;
        }
        for (off, _) in others {
            self.move_changed(halves, off).await?;
        }
        Ok(())
    }

    /// Moves what is in a slot that others have changed since it was read, if it goes.
    async fn move_changed(&self, halves: Halves, off: u64) -> Result<()> {
        let mut tried = None;
        loop {
            let slot = Slot(self.read(halves.from.addr().add(off), 8).await?.word(0));
            // Twice the same: its place is taken, so it came late, and the client that put it takes it back.
            if slot.is_free() || tried == Some(slot) {
                return Ok(());
            }
            if slot.is_marked() {
                self.pause().await;
                continue;
            }
            let (at, bytes) = slot.block();
            let block = self.read(at, bytes).await?;
            if halves.stays.owns(self.hash(decode(block.bytes(0))?.0)) {
                return Ok(());
            }
            if self.relocate(halves.from, halves.to, off, slot).await? {
                return Ok(());
            }
            tried = Some(slot);
        }
    }

    /// Moves one entry to the same place of another subtable; `false` if it was changed meanwhile, or the
    /// place is taken.
    pub(super) async fn relocate(&self, from: Ptr, to: Ptr, off: u64, slot: Slot) -> Result<bool> {
        let marked = slot.marked();
        if self.swap(from.addr().add(off), slot.0, marked.0).await? != slot.0 {
            return Ok(false);
        }
        Ok(self.move_marked(from, to, &[(off, slot)]).await? == 1)
    }

    /// Copies entries that this client has marked, then frees their slots; or takes the marks away where the
    /// place is taken. How many were moved.
    async fn move_marked(&self, from: Ptr, to: Ptr, slots: &[(u64, Slot)]) -> Result<u64> {
        let mut batch = Batch::new();
        for (off, slot) in slots {
            batch.compare_swap(to.addr().add(*off), Slot::FREE.0, slot.0);
        }
        let copied = self.fabric.post(batch).await?;
        let mut batch = Batch::new();
        let mut moved = 0;
        for (i, (off, slot)) in slots.iter().enumerate() {
            let fits = Slot(copied.word(i)).is_free();
            moved += u64::from(fits);
            let left = if fits { Slot::FREE } else { *slot };
            batch.write_word(from.addr().add(*off), left.0);
        }
        self.fabric.post(batch).await?;
        self.count(|stats| stats.moved += moved);
        Ok(moved)
    }
}
