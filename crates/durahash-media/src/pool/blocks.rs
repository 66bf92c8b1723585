//! Blocks of size classes for records.
//!
//! Blocks of a large class lie in a *chunk*, up to 32 extents in a row, one behind the other; of a smaller one, in
//! one extent. DRAM alone knows which blocks are free; reachability finds them again after an open (`sweep.rs`):
//! a block needs no store of its own to be taken or freed.

use std::collections::BTreeMap;
use std::ops::Range;

use super::class::{CHUNK_MAX, Classes};
use super::extents::{ExtentKind, Extents};
use crate::error::{Error, Result};
use crate::medium::Medium;

/// A set of blocks of one extent or chunk.
pub(crate) struct BlockSet {
    words: Vec<u64>,
    /// Words before this one are zero.
    from: usize,
}

impl BlockSet {
    pub(crate) fn empty(count: u64) -> Self {
        BlockSet { words: vec![0; count.div_ceil(64) as usize], from: 0 }
    }

    fn full(count: u64) -> Self {
        let mut set = Self::empty(count);
        for i in 0..count {
            set.insert(i);
        }
        set
    }

    pub(crate) fn contains(&self, i: u64) -> bool {
        self.words[(i / 64) as usize] & 1 << (i % 64) != 0
    }

    /// True if `i` is new in the set.
    pub(crate) fn insert(&mut self, i: u64) -> bool {
        let new = !self.contains(i);
        self.words[(i / 64) as usize] |= 1 << (i % 64);
        self.from = self.from.min((i / 64) as usize);
        new
    }

    fn remove(&mut self, i: u64) {
        self.words[(i / 64) as usize] &= !(1 << (i % 64));
    }

    fn first(&mut self) -> Option<u64> {
        let zeros = self.words.get(self.from..)?.iter().take_while(|word| **word == 0).count();
        self.from += zeros;
        let word = self.words.get(self.from)?;
        Some(self.from as u64 * 64 + u64::from(word.trailing_zeros()))
    }
}

/// An extent of record blocks, or a chunk.
pub(crate) struct BlockExtent {
    pub(crate) class: u8,
    /// Extents that it has.
    extents: u64,
    /// Blocks that it has.
    pub(crate) count: u64,
    /// Blocks that may be handed out.
    pub(crate) free: BlockSet,
    pub(crate) free_count: u64,
    /// Blocks found reachable so far, while a sweep is to find out about this extent.
    pub(crate) marks: Option<BlockSet>,
}

/// A sweep under way.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Extents of blocks, and first ones of chunks, that are older than this open.
    pub(crate) extents: Vec<u64>,
    /// First extents of older runs; true if marked.
    pub(crate) runs: BTreeMap<u64, bool>,
    /// Older blocks freed meanwhile.
    pub(crate) freed: Vec<u64>,
    /// It does not end in this open.
    pub(crate) given_up: bool,
}

/// The extents of a class.
#[derive(Default)]
struct OfClass {
    /// The extents with free blocks that may be handed out.
    partial: Vec<u64>,
    /// How many extents.
    extents: u64,
}

/// The allocator's view of record space. An object is named by its offset.
pub(crate) struct Blocks {
    extent_bytes: u64,
    classes: Classes,
    /// By number of extent, of a chunk its first one.
    pub(crate) by_extent: Vec<Option<Box<BlockExtent>>>,
    of_class: Vec<OfClass>,
    pub(crate) sweep: Option<Sweep>,
    /// Nothing became free since all that could go back to the pool went back.
    pub(crate) has_none_to_give: bool,
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
    /// Of these, blocks that have one: they were not stored to since the last close, with a live image since the last checkpoint.
    pub verifiable_blocks: u64,
    /// True if free record space is still to be found: until the next open, where damage allows no sweep.
    pub sweep_pending: bool,
}

impl Blocks {
    /// The state at an open: extents of records are full until the sweep has looked.
    pub(crate) fn new(extents: &Extents, classes: &Classes, extent_bytes: u64) -> Self {
        let mut blocks = Blocks {
            extent_bytes,
            classes: classes.clone(),
            by_extent: Vec::new(),
            of_class: Vec::new(),
            sweep: None,
            has_none_to_give: false,
        };
        let mut sweep = Sweep::default();
        for (i, kind) in extents.kinds().iter().enumerate() {
            match kind {
                ExtentKind::Blocks(class) => {
                    let rests = if classes.is_large(*class) { extents.rests(i as u64) } else { 0 };
                    blocks.add(i as u64..i as u64 + 1 + rests, *class, false);
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

    /// Adds an extent, or a chunk, whose blocks are all free (`new`), or not known yet.
    pub(crate) fn add(&mut self, range: Range<u64>, class: u8, new: bool) {
        self.has_none_to_give = false;
        let (i, extents) = (range.start, range.end - range.start);
        let count = self.classes.blocks_in(class, extents);
        if self.by_extent.len() <= i as usize {
            self.by_extent.resize_with(i as usize + 1, || None);
        }
        self.by_extent[i as usize] = Some(Box::new(BlockExtent {
            class,
            extents,
            count,
            free: if new { BlockSet::full(count) } else { BlockSet::empty(count) },
            free_count: if new { count } else { 0 },
            marks: (!new).then(|| BlockSet::empty(count)),
        }));
        let of_class = self.class_mut(class);
        of_class.extents += extents;
        if new {
            of_class.partial.push(i);
        }
    }

    fn class_mut(&mut self, class: u8) -> &mut OfClass {
        if self.of_class.len() <= usize::from(class) {
            self.of_class.resize_with(usize::from(class) + 1, OfClass::default);
        }
        &mut self.of_class[usize::from(class)]
    }

    /// The fewest extents that more blocks of `class` are taken from at once, and the best number.
    pub(crate) fn extents_of(&mut self, class: u8) -> [u64; 2] {
        let have = self.class_mut(class).extents;
        self.classes.extents_of(class, have)
    }

    pub(crate) fn extent_mut(&mut self, i: u64) -> Option<&mut BlockExtent> {
        self.by_extent.get_mut(i as usize)?.as_deref_mut()
    }

    /// Which block of which extent or chunk lies at `off`.
    fn locate(&self, off: u64) -> Option<(u64, u64)> {
        let at = off / self.extent_bytes;
        let mut near = (0..=at).rev().take(CHUNK_MAX as usize);
        let (i, extent) =
            near.find_map(|i| Some((i, self.by_extent.get(i as usize)?.as_deref()?)))?;
        let within = off - i * self.extent_bytes;
        let bytes = self.classes.bytes(extent.class);
        let block = within / bytes;
        (within.is_multiple_of(bytes) && block < extent.count).then_some((i, block))
    }

    /// The offset of a block.
    pub(crate) fn off(&self, i: u64, class: u8, block: u64) -> u64 {
        i * self.extent_bytes + block * self.classes.bytes(class)
    }

    /// A free block of `class` in an extent that has one.
    pub(crate) fn pop(&mut self, class: u8) -> Option<u64> {
        let i = *self.class_mut(class).partial.last()?;
        let extent = self.extent_mut(i)?;
        let block = extent.free.first()?;
        extent.free.remove(block);
        extent.free_count -= 1;
        if extent.free_count == 0 {
            self.class_mut(class).partial.pop();
        }
        Some(self.off(i, class, block))
    }

    /// Makes a block free again; an extent or chunk that is free as a whole goes back to the pool, but for
    /// the last extent with room of its class.
    fn push<M: Medium>(
        &mut self,
        extents: &mut Extents,
        medium: &M,
        i: u64,
        block: u64,
    ) -> Result<()> {
        self.has_none_to_give = false;
        let Some(extent) = self.extent_mut(i) else {
            return Err(Error::corrupt("a freed address is not a block", i));
        };
        let class = extent.class;
        if extent.free.contains(block) {
            // Two slots of a damaged pool name it.
            return Err(Error::corrupt("block freed twice", self.off(i, class, block)));
        }
        extent.free.insert(block);
        extent.free_count += 1;
        let (free_count, is_chunk) = (extent.free_count, extent.extents > 1);
        let is_free = free_count == extent.count;
        if free_count == 1 {
            self.class_mut(class).partial.push(i);
        }
        if is_free && (is_chunk || self.class_mut(class).partial.len() > 1) {
            self.retire(extents, medium, i)?;
        }
        Ok(())
    }

    /// Gives an extent or a chunk back to the pool.
    pub(crate) fn retire<M: Medium>(
        &mut self,
        extents: &mut Extents,
        medium: &M,
        i: u64,
    ) -> Result<()> {
        let Some(extent) = self.by_extent[i as usize].take() else {
            return Ok(());
        };
        let of_class = self.class_mut(extent.class);
        of_class.partial.retain(|other| *other != i);
        of_class.extents -= extent.extents;
        release_all(extents, medium, i..i + extent.extents)
    }

    /// Gives all extents and chunks back that are free as a whole.
    pub(crate) fn retire_free<M: Medium>(
        &mut self,
        extents: &mut Extents,
        medium: &M,
    ) -> Result<()> {
        for i in 0..self.by_extent.len() {
            let is_free = |e: &BlockExtent| e.marks.is_none() && e.free_count == e.count;
            if self.by_extent[i].as_deref().is_some_and(is_free) {
                self.retire(extents, medium, i as u64)?;
            }
        }
        Ok(())
    }

    /// Gives the extents at the end of a chunk back to the pool in which no block is in use. There is one.
    pub(crate) fn shorten<M: Medium>(
        &mut self,
        extents: &mut Extents,
        medium: &M,
        i: u64,
    ) -> Result<()> {
        let extent_bytes = self.extent_bytes;
        let Some(extent) = self.by_extent[i as usize].as_deref_mut() else {
            return Ok(());
        };
        let bytes = self.classes.bytes(extent.class);
        let is_used = |block: &u64| !extent.free.contains(*block);
        let last = (0..extent.count).rev().find(is_used);
        let had = extent.extents;
        let keep = last.map_or(had, |last| ((last + 1) * bytes).div_ceil(extent_bytes));
        if keep == had {
            return Ok(());
        }
        let count = self.classes.blocks_in(extent.class, keep);
        (count..extent.count).for_each(|block| extent.free.remove(block));
        extent.free_count -= extent.count - count;
        (extent.count, extent.extents) = (count, keep);
        let (class, is_full) = (extent.class, extent.free_count == 0);
        let of_class = self.class_mut(class);
        of_class.extents -= had - keep;
        if is_full {
            of_class.partial.retain(|other| *other != i);
        }
        release_all(extents, medium, i + keep..i + had)
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
        let end = first + 1 + extents.rests(first);
        release_all(extents, medium, first..end)
    }

    /// Ends the sweep: unmarked blocks are free.
    pub(crate) fn end_sweep<M: Medium>(&mut self, extents: &mut Extents, medium: &M) -> Result<()> {
        let Some(mut sweep) = self.sweep.take() else {
            return Ok(());
        };
        self.has_none_to_give = false;
        for i in sweep.extents {
            let Some(extent) = self.extent_mut(i) else { continue };
            let (class, count) = (extent.class, extent.count);
            if let Some(marks) = extent.marks.take() {
                for block in (0..count).filter(|block| !marks.contains(*block)) {
                    extent.free.insert(block);
                    extent.free_count += 1;
                }
            }
            let free_count = extent.free_count;
            if free_count > 0 {
                self.class_mut(class).partial.push(i);
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

    /// Forgets an older extent, so that nothing of it is handed out or given back.
    pub(crate) fn keep(&mut self, i: u64) {
        let Some(extent) = self.by_extent.get_mut(i as usize).and_then(Option::take) else {
            return;
        };
        let of_class = self.class_mut(extent.class);
        of_class.partial.retain(|other| *other != i);
        of_class.extents -= extent.extents;
        let extent_bytes = self.extent_bytes;
        if let Some(sweep) = &mut self.sweep {
            sweep.freed.retain(|off| !(i..i + extent.extents).contains(&(off / extent_bytes)));
        }
    }

    pub(crate) fn stats(&self, extents: &Extents, extent_bytes: u64) -> PoolStats {
        let of = |wanted: fn(&ExtentKind) -> bool| {
            extents.kinds().iter().filter(|kind| wanted(kind)).count() as u64 * extent_bytes
        };
        let runs = of(|kind| matches!(kind, ExtentKind::RunHead | ExtentKind::RunRest));
        let (mut blocks, mut rests) = (0, 0);
        for extent in self.by_extent.iter().flatten() {
            blocks += (extent.count - extent.free_count) * self.classes.bytes(extent.class);
            rests += (extent.extents - 1) * extent_bytes;
        }
        PoolStats {
            bytes: extents.kinds().len() as u64 * extent_bytes,
            max_bytes: None,
            head_bytes: of(|kind| *kind == ExtentKind::Head),
            unit_bytes: of(|kind| matches!(kind, ExtentKind::Units(_))),
            directory_bytes: of(|kind| matches!(kind, ExtentKind::Directory(_))),
            record_bytes: runs - rests + blocks,
            check_bytes: of(|kind| *kind == ExtentKind::Checks),
            free_bytes: of(|kind| *kind == ExtentKind::Free),
            checked_blocks: 0,
            verifiable_blocks: 0,
            sweep_pending: self.sweep.is_some(),
        }
    }
}

/// Gives back the extents of a run or a chunk: the head last, so that there is no rest without a head if it stops
/// between.
fn release_all<M: Medium>(extents: &mut Extents, medium: &M, range: Range<u64>) -> Result<()> {
    range.rev().try_for_each(|i| extents.release(medium, i))
}
