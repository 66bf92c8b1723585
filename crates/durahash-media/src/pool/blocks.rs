//! Blocks of size classes for records.
//!
//! DRAM alone knows which blocks are free; reachability finds them again after an open (`sweep.rs`):
//! a block needs no store of its own to be taken or freed.

use std::collections::BTreeMap;

use super::class::class_bytes;
use super::extents::{ExtentKind, Extents};
use crate::error::{Error, Result};
use crate::medium::Medium;

/// A set of blocks of one extent.
pub(crate) struct BlockSet(Vec<u64>);

impl BlockSet {
    pub(crate) fn empty(count: u64) -> Self {
        BlockSet(vec![0; count.div_ceil(64) as usize])
    }

    fn full(count: u64) -> Self {
        let mut set = Self::empty(count);
        for i in 0..count {
            set.insert(i);
        }
        set
    }

    pub(crate) fn contains(&self, i: u64) -> bool {
        self.0[(i / 64) as usize] & 1 << (i % 64) != 0
    }

    /// True if `i` is new in the set.
    pub(crate) fn insert(&mut self, i: u64) -> bool {
        let new = !self.contains(i);
        self.0[(i / 64) as usize] |= 1 << (i % 64);
        new
    }

    fn remove(&mut self, i: u64) {
        self.0[(i / 64) as usize] &= !(1 << (i % 64));
    }

    fn first(&self) -> Option<u64> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word as u64 * 64 + u64::from(self.0[word].trailing_zeros()))
    }
}

/// An extent of record blocks.
pub(crate) struct BlockExtent {
    pub(crate) class: u8,
    /// Blocks that may be handed out.
    pub(crate) free: BlockSet,
    pub(crate) free_count: u64,
    /// Blocks found reachable so far, while a sweep is to find out about this extent.
    pub(crate) marks: Option<BlockSet>,
}

/// A sweep under way.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Extents of blocks that are older than this open.
    pub(crate) extents: Vec<u64>,
    /// First extents of older runs, and whether they are marked.
    pub(crate) runs: BTreeMap<u64, bool>,
    /// Older blocks freed meanwhile.
    pub(crate) freed: Vec<u64>,
}

/// The allocator's view of record space. An object is named by its offset.
pub(crate) struct Blocks {
    extent_bytes: u64,
    /// By number of extent.
    pub(crate) by_extent: Vec<Option<Box<BlockExtent>>>,
    /// For each class, the extents with free blocks that may be handed out.
    partial: Vec<Vec<u64>>,
    pub(crate) sweep: Option<Sweep>,
}

/// Figures about the space of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Bytes of the file or mapping.
    pub bytes: u64,
    /// Bytes beyond which the pool never grows, if a limit was set.
    pub max_bytes: Option<u64>,
    /// Bytes of the superblock and the extent tables.
    pub head_bytes: u64,
    /// Bytes of extents of units.
    pub unit_bytes: u64,
    /// Bytes of extents of directories.
    pub directory_bytes: u64,
    /// Bytes of record blocks in use (of all that may be, until the sweep has ended).
    pub record_bytes: u64,
    /// Bytes of extents of check words.
    pub check_bytes: u64,
    /// Bytes of extents that hold nothing.
    pub free_bytes: u64,
    /// Blocks of 4 KiB that get a check word when the pool is closed: all but those of records of a map, which
    /// have sums of their own.
    pub checked_blocks: u64,
    /// Of these, blocks that have one: they were not stored to since the last close.
    pub verifiable_blocks: u64,
    /// True if free record space is still to be found.
    pub sweep_pending: bool,
}

impl Blocks {
    /// The state at an open: extents of records are full until the sweep has looked.
    pub(crate) fn new(extents: &Extents, extent_bytes: u64) -> Self {
        let mut blocks =
            Blocks { extent_bytes, by_extent: Vec::new(), partial: Vec::new(), sweep: None };
        let mut sweep = Sweep::default();
        for (i, kind) in extents.kinds().iter().enumerate() {
            match kind {
                ExtentKind::Blocks(class) => {
                    blocks.add(i as u64, *class, false);
                    sweep.extents.push(i as u64);
                }
                ExtentKind::RunHead => {
                    sweep.runs.insert(i as u64, false);
                }
                _ => {}
            }
        }
        if !sweep.extents.is_empty() || !sweep.runs.is_empty() {
            blocks.sweep = Some(sweep);
        }
        blocks
    }

    pub(crate) fn count_in(&self, class: u8) -> u64 {
        self.extent_bytes / class_bytes(class)
    }

    /// Adds an extent whose blocks are all free (`new`), or not known yet.
    pub(crate) fn add(&mut self, i: u64, class: u8, new: bool) {
        let count = self.count_in(class);
        if self.by_extent.len() <= i as usize {
            self.by_extent.resize_with(i as usize + 1, || None);
        }
        self.by_extent[i as usize] = Some(Box::new(BlockExtent {
            class,
            free: if new { BlockSet::full(count) } else { BlockSet::empty(count) },
            free_count: if new { count } else { 0 },
            marks: (!new).then(|| BlockSet::empty(count)),
        }));
        if new {
            self.class_mut(class).push(i);
        }
    }

    fn class_mut(&mut self, class: u8) -> &mut Vec<u64> {
        if self.partial.len() <= usize::from(class) {
            self.partial.resize_with(usize::from(class) + 1, Vec::new);
        }
        &mut self.partial[usize::from(class)]
    }

    pub(crate) fn extent_mut(&mut self, i: u64) -> Option<&mut BlockExtent> {
        self.by_extent.get_mut(i as usize)?.as_deref_mut()
    }

    /// Which block of which extent lies at `off`.
    fn locate(&self, off: u64) -> Option<(u64, u64)> {
        let i = off / self.extent_bytes;
        let extent = self.by_extent.get(i as usize)?.as_deref()?;
        let within = off % self.extent_bytes;
        let bytes = class_bytes(extent.class);
        let block = within / bytes;
        (within.is_multiple_of(bytes) && block < self.count_in(extent.class)).then_some((i, block))
    }

    /// A free block of `class` in an extent that has one.
    pub(crate) fn pop(&mut self, class: u8) -> Option<u64> {
        let i = *self.class_mut(class).last()?;
        let extent_bytes = self.extent_bytes;
        let extent = self.extent_mut(i)?;
        let block = extent.free.first()?;
        extent.free.remove(block);
        extent.free_count -= 1;
        if extent.free_count == 0 {
            self.class_mut(class).pop();
        }
        Some(i * extent_bytes + block * class_bytes(class))
    }

    /// Makes a block free again; an extent that is free as a whole goes back to the pool, but for
    /// the last one with room of its class.
    fn push<M: Medium>(
        &mut self,
        extents: &mut Extents,
        medium: &M,
        i: u64,
        block: u64,
    ) -> Result<()> {
        let Some(extent) = self.extent_mut(i) else {
            return Err(Error::corrupt("a freed address is not a block", i));
        };
        let class = extent.class;
        if extent.free.contains(block) {
            // Two slots of a damaged pool name it.
            let off = i * self.extent_bytes + block * class_bytes(class);
            return Err(Error::corrupt("block freed twice", off));
        }
        extent.free.insert(block);
        extent.free_count += 1;
        let free_count = extent.free_count;
        if free_count == 1 {
            self.class_mut(class).push(i);
        }
        if free_count == self.count_in(class) && self.class_mut(class).len() > 1 {
            self.retire(extents, medium, i)?;
        }
        Ok(())
    }

    /// Gives an extent back to the pool.
    pub(crate) fn retire<M: Medium>(
        &mut self,
        extents: &mut Extents,
        medium: &M,
        i: u64,
    ) -> Result<()> {
        if let Some(extent) = self.by_extent[i as usize].take() {
            self.class_mut(extent.class).retain(|other| *other != i);
        }
        extents.release(medium, i)
    }

    /// Frees the object at `off`, of which no sweep needs to hear.
    pub(crate) fn free<M: Medium>(
        &mut self,
        extents: &mut Extents,
        medium: &M,
        off: u64,
    ) -> Result<()> {
        if let Some((i, block)) = self.locate(off) {
            return self.push(extents, medium, i, block);
        }
        let first = off / self.extent_bytes;
        if !off.is_multiple_of(self.extent_bytes)
            || extents.kinds().get(first as usize) != Some(&ExtentKind::RunHead)
        {
            return Err(Error::corrupt("a freed address is not a block", off));
        }
        let rest = extents.kinds()[first as usize + 1..]
            .iter()
            .take_while(|kind| **kind == ExtentKind::RunRest)
            .count() as u64;
        // The head last: should the process die between, no rest is without a head that names it.
        for i in (first..=first + rest).rev() {
            extents.release(medium, i)?;
        }
        Ok(())
    }

    /// Ends the sweep: what was not marked is free.
    pub(crate) fn end_sweep<M: Medium>(&mut self, extents: &mut Extents, medium: &M) -> Result<()> {
        let Some(mut sweep) = self.sweep.take() else {
            return Ok(());
        };
        for i in sweep.extents {
            let extent_bytes = self.extent_bytes;
            let Some(extent) = self.extent_mut(i) else { continue };
            let (class, count) = (extent.class, extent_bytes / class_bytes(extent.class));
            if let Some(marks) = extent.marks.take() {
                for block in (0..count).filter(|block| !marks.contains(*block)) {
                    extent.free.insert(block);
                    extent.free_count += 1;
                }
            }
            let free_count = extent.free_count;
            if free_count > 0 {
                self.class_mut(class).push(i);
            }
            if free_count == count {
                self.retire(extents, medium, i)?;
            }
        }
        for (first, marked) in sweep.runs {
            if !marked {
                self.free(extents, medium, first * self.extent_bytes)?;
            }
        }
        // Damaged slots may have named the same block.
        sweep.freed.sort_unstable();
        sweep.freed.dedup();
        for off in sweep.freed {
            self.free(extents, medium, off)?;
        }
        Ok(())
    }

    /// Marks the object at `off`, if it is older than this open and not swept yet; true if the mark is
    /// new.
    pub(crate) fn mark(&mut self, off: u64) -> Result<Option<bool>> {
        if self.sweep.is_none() {
            return Ok(None);
        }
        if let Some((i, block)) = self.locate(off) {
            return Ok(self
                .extent_mut(i)
                .and_then(|extent| extent.marks.as_mut())
                .map(|marks| marks.insert(block)));
        }
        let first = off / self.extent_bytes;
        if off.is_multiple_of(self.extent_bytes)
            && let Some(mark) = self.sweep.as_mut().and_then(|sweep| sweep.runs.get_mut(&first))
        {
            return Ok(Some(!std::mem::replace(mark, true)));
        }
        Ok(None)
    }

    pub(crate) fn stats(&self, extents: &Extents, extent_bytes: u64) -> PoolStats {
        let of = |wanted: fn(&ExtentKind) -> bool| {
            extents.kinds().iter().filter(|kind| wanted(kind)).count() as u64 * extent_bytes
        };
        let runs = of(|kind| matches!(kind, ExtentKind::RunHead | ExtentKind::RunRest));
        let blocks: u64 = self
            .by_extent
            .iter()
            .flatten()
            .map(|e| (self.count_in(e.class) - e.free_count) * class_bytes(e.class))
            .sum();
        PoolStats {
            bytes: extents.kinds().len() as u64 * extent_bytes,
            max_bytes: None,
            head_bytes: of(|kind| *kind == ExtentKind::Head),
            unit_bytes: of(|kind| matches!(kind, ExtentKind::Units(_))),
            directory_bytes: of(|kind| matches!(kind, ExtentKind::Directory(_))),
            record_bytes: runs + blocks,
            check_bytes: of(|kind| *kind == ExtentKind::Checks),
            free_bytes: of(|kind| *kind == ExtentKind::Free),
            checked_blocks: 0,
            verifiable_blocks: 0,
            sweep_pending: self.sweep.is_some(),
        }
    }
}
