//! A subtable is split: the table of its steps is in the front page.

use durahash_media::{Error, Limit, Result};
use durahash_remote::fabric::{Batch, Fabric};

use super::directory::Site;
use super::layout::{Cell, Header, Ptr, Slot, cell_at, decode, suffix, word};
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
        self.count(|tally| {
            tally.splits += 1;
            tally.split_ns += ended - started;
        });
        self.refresh(h).await
    }

    async fn split(&self, cell: Cell, low: u64, to: Ptr) -> Result<()> {
        let (from, depth) = (cell.subtable(), cell.depth() + 1);
        let high = low | 1 << (depth - 1);
        let (stays, goes) = (Header::new(depth, low), Header::new(depth, high));
        let mut batch = Batch::new();
        batch.write(to.addr(), &self.geometry.empty(goes));
        self.fabric.post(batch).await?;
        let mut global = self.lock_root().await?;
        if global < depth {
            global = self.double(global).await?;
        }
        let mut batch = Batch::new();
        for bucket in 0..self.geometry.buckets() {
            batch.write_word(from.addr().add(bucket * self.geometry.bucket_bytes()), stays.0);
        }
        self.fabric.post(batch).await?;
        let cells = [(low, Cell::new(from, depth)), (high, Cell::new(to, depth))];
        let mut batch = Batch::new();
        Self::write_cells(&mut batch, low, cells[0].1.locked(), global);
        Self::write_cells(&mut batch, high, cells[1].1.moving(), global);
        self.fabric.post(batch).await?;
        self.unlock_root(global).await?;
        self.move_entries(Halves { from, to, stays }).await?;
        let global = self.lock_root().await?;
        let mut batch = Batch::new();
        for (at, cell) in cells {
            Self::write_cells(&mut batch, at, cell, global);
        }
        self.fabric.post(batch).await?;
        self.unlock_root(global).await
    }

    async fn move_entries(&self, halves: Halves) -> Result<()> {
        let subtable =
            self.read(halves.from.addr(), self.geometry.subtable_bytes() as usize).await?;
        let bytes = self.geometry.bucket_bytes();
        for bucket in 0..self.geometry.buckets() {
            let off = bucket * bytes;
            let words = &subtable.bytes(0)[off as usize..][..bytes as usize];
            let slots = self.geometry.slot_offs(off).zip(1..);
            let slots: Vec<(u64, Slot)> = slots
                .map(|(off, i)| (off, Slot(word(words, i))))
                .filter(|(_, s)| !s.is_free())
                .collect();
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
        let mut batch = Batch::new();
        for (off, slot) in &slots {
            batch.compare_swap(halves.from.addr().add(*off), slot.unmarked().0, slot.marked().0);
        }
        let marked = self.fabric.post(batch).await?;
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        for (i, (off, slot)) in slots.into_iter().enumerate() {
            let is_ours = marked.word(i) == slot.unmarked().0;
            if is_ours { &mut ours } else { &mut others }.push((off, slot.unmarked()));
        }
        match self.options.moves {
            Moves::Each => {
                for one in ours {
                    self.move_marked(halves.from, halves.to, &[one]).await?;
                }
            }
            Moves::Batched => {
                self.move_marked(halves.from, halves.to, &ours).await?;
            }
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
        self.count(|tally| tally.moved += moved);
        Ok(moved)
    }
}
