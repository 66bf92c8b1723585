//! Space in a pool: extents for the designs, and blocks of size classes for records.
//!
//! Which blocks are free is known in DRAM only, and found again by reachability after an open
//! (`sweep.rs`): a block needs no store of its own to be taken or freed. An extent's class stands in
//! the extent table before any of its blocks is handed out. Objects larger than the largest class
//! take a run of whole extents.
//!
//! An extent that holds nothing any more goes back to the pool at once, also for another use. A
//! reader that is late may then find foreign words where a record was; its version check rejects
//! what it read, and words are words, so nothing undefined happens.

use super::Pool;
use super::extents::{ExtentKind, Extents, kind_on_medium};
use super::sweep::Sweep;
use crate::error::{Error, ErrorKind, Result};
use crate::lock::wait_lock;
use crate::medium::Medium;

/// Blocks are multiples of this.
const STEP_BYTES: u64 = 16;
/// The smallest class.
const SMALLEST_BYTES: u64 = 32;

/// Bytes of a block of size class `class`: four classes for each doubling from 64 bytes on, so that
/// at most a fifth of a block is unused.
pub(crate) fn class_bytes(class: u8) -> u64 {
    let class = u64::from(class);
    if class < 2 {
        return SMALLEST_BYTES + class * STEP_BYTES;
    }
    let (doubling, quarter) = ((class - 2) / 4, (class - 2) % 4);
    (64 + quarter * 16) << doubling
}

/// The smallest class that holds `bytes`; `None` where only a run of extents does. A class has at
/// least two blocks an extent.
pub(crate) fn class_of(bytes: u64, extent_bytes: u64) -> Option<u8> {
    if bytes > extent_bytes / 2 {
        return None;
    }
    if bytes <= 48 {
        return Some(u8::from(bytes > 32));
    }
    let bytes = bytes.max(64);
    // The doubling whose four classes reach from 64 << d to 112 << d.
    let mut doubling = bytes.ilog2() - 6;
    let mut quarter = (bytes - (64 << doubling)).div_ceil(16 << doubling);
    if quarter == 4 {
        (doubling, quarter) = (doubling + 1, 0);
    }
    let class = 2 + doubling * 4 + quarter as u32;
    (class_bytes(class as u8) <= extent_bytes / 2).then_some(class as u8)
}

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

    /// Whether `i` is new in the set.
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
    class: u8,
    /// Blocks that may be handed out.
    free: BlockSet,
    free_count: u64,
    /// Blocks found reachable so far, while a sweep is to find out about this extent.
    pub(crate) marks: Option<BlockSet>,
}

/// What the allocator knows about record space. An object is named by its offset.
pub(crate) struct Blocks {
    extent_bytes: u64,
    /// By number of extent.
    by_extent: Vec<Option<Box<BlockExtent>>>,
    /// For each class, the extents with free blocks that may be handed out.
    partial: Vec<Vec<u64>>,
    pub(crate) sweep: Option<Sweep>,
}

/// Figures about the space of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes of the file or mapping.
    pub bytes: u64,
    /// Bytes of the superblock and the extent table.
    pub head_bytes: u64,
    /// Bytes of extents of units.
    pub unit_bytes: u64,
    /// Bytes of extents of directories.
    pub directory_bytes: u64,
    /// Bytes of record blocks in use (of all that may be, until the sweep has ended).
    pub record_bytes: u64,
    /// Bytes of extents that hold nothing.
    pub free_bytes: u64,
    /// Whether free record space is still to be found.
    pub sweep_pending: bool,
}

impl Blocks {
    /// What is known at an open: extents of records are full until the sweep has looked.
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

    fn count_in(&self, class: u8) -> u64 {
        self.extent_bytes / class_bytes(class)
    }

    /// Adds an extent whose blocks are all free (`new`), or not known yet.
    fn add(&mut self, i: u64, class: u8, new: bool) {
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
    fn pop(&mut self, class: u8) -> Option<u64> {
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
            return Err(Error::corrupt("freed what is no block", i));
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
    fn retire<M: Medium>(&mut self, extents: &mut Extents, medium: &M, i: u64) -> Result<()> {
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
            return Err(Error::corrupt("freed what is no block", off));
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
            let count = match self.extent_mut(i) {
                Some(extent) => {
                    let marks = extent.marks.take();
                    let count = marks.as_ref().map_or(0, |marks| marks.0.len() as u64 * 64);
                    let count = count.min(self.count_in(self.class_at(i)));
                    let extent = self.extent_mut(i).expect("just found");
                    for block in 0..count {
                        if marks.as_ref().is_some_and(|marks| !marks.contains(block)) {
                            extent.free.insert(block);
                            extent.free_count += 1;
                        }
                    }
                    extent.free_count
                }
                None => continue,
            };
            let class = self.class_at(i);
            if count > 0 {
                self.class_mut(class).push(i);
            }
            if count == self.count_in(class) {
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

    fn class_at(&self, i: u64) -> u8 {
        self.by_extent[i as usize].as_ref().map_or(0, |extent| extent.class)
    }

    /// Whether the object at `off` is older than this open and not swept yet; marks it if so. The
    /// second answer: whether the mark is new.
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
            head_bytes: of(|kind| *kind == ExtentKind::Head),
            unit_bytes: of(|kind| *kind == ExtentKind::Units),
            directory_bytes: of(|kind| *kind == ExtentKind::Directory),
            record_bytes: runs + blocks,
            free_bytes: of(|kind| *kind == ExtentKind::Free),
            sweep_pending: self.sweep.is_some(),
        }
    }
}

impl<M: Medium> Pool<M> {
    /// Bytes of an extent.
    #[inline]
    pub fn extent_bytes(&self) -> u64 {
        1 << self.format().geometry.extent_shift
    }

    /// Takes an extent for units of the design, whose contents are anything; returns its number.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full); nothing has changed then.
    pub fn take_unit_extent(&self) -> Result<u64> {
        wait_lock(&self.extents, &self.medium).take(&self.medium, ExtentKind::Units)
    }

    /// Takes `count` extents in a row for one large unit. Their kinds are durable with what the caller
    /// fences before anything names them.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full); nothing has changed then.
    pub fn take_unit_extents(&self, count: u64) -> Result<u64> {
        wait_lock(&self.extents, &self.medium).take_units(&self.medium, count)
    }

    /// Takes `count` extents in a row for a directory, whose contents are anything; returns the
    /// number of the first.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full); nothing has changed then.
    pub fn take_directory_extents(&self, count: u64) -> Result<u64> {
        wait_lock(&self.extents, &self.medium).take_directory(&self.medium, count)
    }

    /// Gives back an extent of units or of a directory that nothing durable names.
    ///
    /// # Errors
    /// Never for an extent of this pool.
    pub fn release_extent(&self, i: u64) -> Result<()> {
        wait_lock(&self.extents, &self.medium).release(&self.medium, i)
    }

    /// The numbers of all extents of units.
    pub fn unit_extents(&self) -> Vec<u64> {
        wait_lock(&self.extents, &self.medium).of_kind(ExtentKind::Units)
    }

    /// The numbers of all extents of directories.
    pub fn directory_extents(&self) -> Vec<u64> {
        wait_lock(&self.extents, &self.medium).of_kind(ExtentKind::Directory)
    }

    /// Takes a block of at least `bytes` bytes and returns its offset. Its contents are anything.
    /// `None` when the pool would have to grow although a sweep may still find space, unless
    /// `may_grow`.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full); nothing has changed then.
    pub fn alloc_block(&self, bytes: u64, may_grow: bool) -> Result<Option<u64>> {
        let medium = &self.medium;
        let mut extents = wait_lock(&self.extents, medium);
        let mut blocks = wait_lock(&self.blocks, medium);
        let may_grow = may_grow || blocks.sweep.is_none();
        let extent_bytes = self.extent_bytes();
        let Some(class) = class_of(bytes, extent_bytes) else {
            let count = bytes.div_ceil(extent_bytes);
            if !may_grow && extents.find_run(count).is_none() {
                return Ok(None);
            }
            return Ok(Some(extents.take_run(medium, count)? * extent_bytes));
        };
        if let Some(off) = blocks.pop(class) {
            return Ok(Some(off));
        }
        if !may_grow && extents.free_count() == 0 {
            return Ok(None);
        }
        let i = extents.take(medium, ExtentKind::Blocks(class))?;
        blocks.add(i, class, true);
        Ok(blocks.pop(class))
    }

    /// Frees the block at `off`, which nothing durable names any more.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) where there is no block.
    pub fn free_block(&self, off: u64) -> Result<()> {
        let medium = &self.medium;
        let mut extents = wait_lock(&self.extents, medium);
        let mut blocks = wait_lock(&self.blocks, medium);
        if blocks.mark(off)?.is_some() {
            // Older than this open: the sweep may have passed the slot that named it, or not; it is
            // released when the sweep ends.
            if let Some(sweep) = &mut blocks.sweep {
                sweep.freed.push(off);
            }
            return Ok(());
        }
        blocks.free(&mut extents, medium, off)
    }

    /// Bytes of the block at `off`: a bound for every length that is read from it. Takes no lock.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) where there is no block.
    #[inline]
    pub fn block_bytes(&self, off: u64) -> Result<u64> {
        let shift = self.format().geometry.extent_shift;
        let (i, within) = (off >> shift, off & (self.extent_bytes() - 1));
        let count = self.medium.region().len() >> shift;
        let corrupt = || Error::from(ErrorKind::Corrupt { what: "no record block here", off });
        if i >= count.min(self.format().max_bytes >> shift) {
            return Err(corrupt());
        }
        match kind_on_medium(&self.medium, i)? {
            ExtentKind::Blocks(class) => {
                let bytes = class_bytes(class);
                let fits = within.is_multiple_of(bytes)
                    && bytes <= self.extent_bytes() / 2
                    && within + bytes <= self.extent_bytes();
                if fits { Ok(bytes) } else { Err(corrupt()) }
            }
            ExtentKind::RunHead if within == 0 => {
                let mut end = i + 1;
                while end < count && kind_on_medium(&self.medium, end)? == ExtentKind::RunRest {
                    end += 1;
                }
                Ok((end - i) << shift)
            }
            _ => Err(corrupt()),
        }
    }

    /// Calls `f` with the offset of every block in use; nothing while a sweep is pending.
    pub fn each_block(&self, f: &mut dyn FnMut(u64)) {
        let extents = wait_lock(&self.extents, &self.medium);
        let blocks = wait_lock(&self.blocks, &self.medium);
        if blocks.sweep.is_some() {
            return;
        }
        let extent_bytes = self.extent_bytes();
        for (i, kind) in extents.kinds().iter().enumerate() {
            let start = i as u64 * extent_bytes;
            match (kind, blocks.by_extent.get(i).and_then(Option::as_deref)) {
                (ExtentKind::RunHead, _) => f(start),
                (ExtentKind::Blocks(class), Some(extent)) => (0..blocks.count_in(*class))
                    .filter(|block| !extent.free.contains(*block))
                    .for_each(|block| f(start + block * class_bytes(*class))),
                _ => {}
            }
        }
    }

    /// Gives all extents of blocks that are free as a whole back to the pool.
    pub(crate) fn retire_free_block_extents(&self) -> Result<()> {
        let mut extents = wait_lock(&self.extents, &self.medium);
        let mut blocks = wait_lock(&self.blocks, &self.medium);
        for i in 0..blocks.by_extent.len() {
            let empty = blocks.by_extent[i]
                .as_ref()
                .is_some_and(|e| e.marks.is_none() && e.free_count == blocks.count_in(e.class));
            if empty {
                blocks.retire(&mut extents, &self.medium, i as u64)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_say_and_waste_little() {
        let extent_bytes = 512 << 10;
        let mut last = 0;
        for bytes in 1..=extent_bytes / 2 {
            let class = class_of(bytes, extent_bytes).unwrap();
            let got = class_bytes(class);
            assert!(got >= bytes, "{bytes} in {got}");
            assert!(class >= last);
            last = class;
            if class > 0 {
                assert!(class_bytes(class - 1) < bytes, "{bytes} would fit a smaller class");
            }
            if bytes > 64 {
                assert!((got - bytes) * 5 <= got, "{bytes} wastes too much of {got}");
            }
        }
        assert_eq!(class_of(extent_bytes / 2 + 1, extent_bytes), None);
        assert_eq!(class_bytes(class_of(extent_bytes / 2, extent_bytes).unwrap()), 256 << 10);
        assert_eq!(class_of(1 << 29, 1 << 30), Some(94), "the last class that has a code");
    }
}
