//! A walk over the whole index, which no client changes meanwhile: checks the places of entries, and counts.

use std::collections::HashSet;

use durahash_media::{ErrorKind, Result};
use durahash_remote::fabric::Fabric;

use super::Race;
use super::layout::{Cell, Header, ROOT_AT, Root, WORD, cell_at, decode, word};

/// The contents of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) subtables: u64,
    /// Slots with an entry.
    pub(crate) entries: u64,
    /// Slots.
    pub(crate) capacity: u64,
    /// Depth of the directory.
    pub(crate) depth: u32,
    /// Bytes of subtables and of the directory in use.
    pub(crate) index_bytes: u64,
}

impl<F: Fabric> Race<F> {
    /// Reads all subtables, and the key of each entry.
    ///
    /// # Errors
    /// `Corrupt` where a cell or a header is wrong, an entry is not in its place or on its way, or a key is
    /// there twice; those of the fabric.
    pub(crate) async fn census(&self) -> Result<Census> {
        let wrong = |what| Err(ErrorKind::Corrupt { what, off: 0 }.into());
        let root = Root(self.read(ROOT_AT, 8).await?.word(0));
        if root != Root::new(root.depth()) {
            return wrong("the root is locked");
        }
        let cells = self.read(cell_at(0), (WORD << root.depth()) as usize).await?;
        let mut census = Census { depth: root.depth(), ..Census::default() };
        let mut seen = HashSet::new();
        let mut keys = HashSet::new();
        for idx in 0..1u64 << root.depth() {
            let cell = Cell(word(cells.bytes(0), idx as usize));
            let low = super::layout::suffix(idx, cell.depth());
            if cell != Cell::new(cell.subtable(), cell.depth()) {
                return wrong("a cell is locked");
            }
            if Cell(word(cells.bytes(0), low as usize)) != cell {
                return wrong("cells of one suffix differ");
            }
            if seen.insert(cell.subtable()) {
                self.count_subtable(cell, low, &mut census, &mut keys).await?;
            }
        }
        census.capacity = census.subtables * self.geometry.capacity();
        census.index_bytes =
            census.subtables * self.geometry.subtable_bytes() + (WORD << root.depth());
        Ok(census)
    }

    async fn count_subtable(
        &self,
        cell: Cell,
        low: u64,
        census: &mut Census,
        keys: &mut HashSet<Vec<u8>>,
    ) -> Result<()> {
        let wrong = |what| Err(ErrorKind::Corrupt { what, off: 0 }.into());
        census.subtables += 1;
        let bytes = self.geometry.bucket_bytes();
        for (off, header, slots) in self.read_buckets(cell.subtable()).await? {
            if header != Header::new(cell.depth(), low) {
                return wrong("a header is not that of its subtable");
            }
            let blocks = self.read_blocks(slots.iter().map(|(_, slot)| *slot)).await?;
            for (i, (_, slot)) in slots.iter().enumerate() {
                let (key, _) = decode(blocks.bytes(i))?;
                let h = self.hash(key);
                let near = self.geometry.candidates(h, self.spread.mix(h));
                let in_place = near.iter().any(|at| at.off == off || at.off + bytes == off);
                if slot.is_marked() || !in_place || !header.owns(h) || slot.fp() != (h >> 56) as u8
                {
                    return wrong("an entry is not in its place");
                }
                if !keys.insert(key.to_vec()) {
                    return wrong("a key is there twice");
                }
            }
            census.entries += slots.len() as u64;
        }
        Ok(())
    }
}
