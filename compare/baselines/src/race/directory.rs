//! The directory as a client remembers it, and how it is read and changed.

use durahash_media::Result;
use durahash_remote::fabric::{Batch, Fabric};

use super::Race;
use super::layout::{Cell, Ptr, ROOT_AT, Root, WORD, cell_at, suffix, word};

/// Cells, as many as the directory had when it was read, each with the subtable that entries come from.
#[derive(Default)]
pub(super) struct Directory {
    depth: u32,
    sites: Vec<Site>,
}

impl Directory {
    pub(super) fn bytes(&self) -> u64 {
        self.sites.len() as u64 * WORD
    }

    fn idx(&self, h: u64) -> usize {
        suffix(h, self.depth) as usize
    }
}

/// Where a hash belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub(super) cell: Cell,
    /// The subtable that entries come from yet.
    pub(super) old: Option<Ptr>,
}

impl<F: Fabric> Race<F> {
    /// Where a hash belongs, as far as this client knows.
    pub(super) fn site(&self, h: u64) -> Site {
        let directory = self.directory.borrow();
        directory.sites[directory.idx(h)]
    }

    /// Where the cell of a hash is that [`site`](Self::site) goes by.
    pub(super) fn cell_idx(&self, h: u64) -> u64 {
        self.directory.borrow().idx(h) as u64
    }

    /// Reads the cell of a hash, and all of them where there are more than this client knows.
    pub(super) async fn refresh(&self, h: u64) -> Result<()> {
        let (depth, idx) = {
            let directory = self.directory.borrow();
            (directory.depth, directory.idx(h) as u64)
        };
        let mut batch = Batch::new();
        let (root, cell) = (batch.read(ROOT_AT, 8), batch.read(cell_at(idx), 8));
        let done = self.fabric.post(batch).await?;
        let now = Root(done.word(root)).depth();
        if now > depth {
            return self.read_directory(now).await;
        }
        let site = self.sites(&[(idx, Cell(done.word(cell)))]).await?;
        if let Some(known) = self.directory.borrow_mut().sites.get_mut(idx as usize) {
            *known = site[0];
        }
        Ok(())
    }

    /// Reads all cells of a directory that is at least so deep.
    pub(super) async fn read_directory(&self, depth: u32) -> Result<()> {
        let done = self.read(cell_at(0), (WORD << depth) as usize).await?;
        let cells: Vec<(u64, Cell)> =
            (0..1 << depth).map(|idx| (idx, Cell(word(done.bytes(0), idx as usize)))).collect();
        let sites = self.sites(&cells).await?;
        let mut directory = self.directory.borrow_mut();
        if directory.sites.is_empty() || directory.depth < depth {
            *directory = Directory { depth, sites };
        }
        Ok(())
    }

    /// The sites of cells, with the subtables that entries come from. Those are read later: a subtable
    /// keeps the cell of its lowest suffix whenever it splits.
    async fn sites(&self, cells: &[(u64, Cell)]) -> Result<Vec<Site>> {
        let mut batch = Batch::new();
        for (idx, cell) in cells.iter().filter(|(_, cell)| cell.is_moving()) {
            batch.read(cell_at(suffix(*idx, cell.depth() - 1)), 8);
        }
        let done = self.fabric.post(batch).await?;
        let mut moving = 0;
        let sites = cells.iter().map(|(_, cell)| {
            let old = cell.is_moving().then(|| {
                moving += 1;
                Cell(done.word(moving - 1)).subtable()
            });
            Site { cell: *cell, old }
        });
        Ok(sites.collect())
    }

    /// Keeps others from writing cells; the depth of the directory.
    pub(super) async fn lock_root(&self) -> Result<u32> {
        let depth = self.directory.borrow().depth;
        let mut free = Root::new(depth);
        loop {
            let found = Root(self.swap(ROOT_AT, free.0, free.locked().0).await?);
            if found == free {
                return Ok(free.depth());
            }
            free = Root::new(found.depth());
            if found == free.locked() {
                self.fabric.sleep_ns(0).await;
            }
        }
    }

    pub(super) async fn unlock_root(&self, depth: u32) -> Result<()> {
        self.write_word(ROOT_AT, Root::new(depth).0).await
    }

    /// Doubles the directory, whose lock is held; its depth then.
    pub(super) async fn double(&self, depth: u32) -> Result<u32> {
        let half = self.read(cell_at(0), (WORD << depth) as usize).await?;
        self.post(|batch| batch.write(cell_at(1 << depth), half.bytes(0))).await?;
        self.write_word(ROOT_AT, Root::new(depth + 1).locked().0).await?;
        self.count(|stats| stats.doublings += 1);
        Ok(depth + 1)
    }

    /// Writes all cells of a suffix, below a directory's depth. Its lock is held.
    pub(super) fn write_cells(batch: &mut Batch, at: u64, cell: Cell, depth: u32) {
        for idx in (at..1 << depth).step_by(1 << cell.depth()) {
            batch.write_word(cell_at(idx), cell.0);
        }
    }
}
