//! Space in a pool: extents for the designs, and blocks of size classes for records.
//!
//! Which blocks are free is known in DRAM only, and found again by reachability after an open
//! (`sweep.rs`): a block needs no store of its own to be taken or freed. An extent's class stands in
//! the extent table before any of its blocks is handed out. Blocks of large classes lie in chunks, up to 32 extents
//! in a row, of which the first has the class: a chunk takes at most half of what its class has already, so that a
//! small pool stays small, and a large one has blocks without gaps. Objects larger than the largest class, and those
//! that whole extents hold as well, take a run of these.
//!
//! An extent that holds nothing any more goes back to the pool at once, also for another use; but for the last one of
//! a class, and for the end of a chunk. These go back when the pool is full. A
//! reader that is late may then find foreign words where a record was; its version check rejects
//! them, and words are words, so nothing undefined happens.

use super::Pool;
use super::blocks::Blocks;
use super::class::{CHUNK_MAX, class_of_cell};
use super::extents::{ExtentKind, kind_on_medium};
use crate::error::{Error, ErrorKind, Result};
use crate::lock::wait_lock;
use crate::medium::{Event, Medium};

impl<M: Medium> Pool<M> {
    /// Bytes of an extent.
    #[inline]
    pub fn extent_bytes(&self) -> u64 {
        1 << self.format().geometry.extent_shift
    }

    /// Gives back an extent of units or of a directory that nothing durable names.
    ///
    /// # Errors
    /// Never for an extent of this pool.
    pub fn release_extent(&self, i: u64) -> Result<()> {
        wait_lock(&self.extents, &self.medium).release(&self.medium, i)
    }

    /// Before an extent that nothing durable names is written anew, without having been given back: it may be
    /// older than this open, and then it still has check words.
    pub fn renew_extent(&self, i: u64) {
        let extent_bytes = self.extent_bytes();
        self.checks.mark(&self.medium, i * extent_bytes..(i + 1) * extent_bytes, false);
    }

    /// Takes a block of at least `bytes` bytes and returns its offset. Its contents are anything.
    /// `None` when the pool would have to grow although a sweep may still find space, unless
    /// `may_grow`, or the sweep was [given up](Pool::give_up_sweep).
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full); nothing has changed then.
    pub fn alloc_block(&self, bytes: u64, may_grow: bool) -> Result<Option<u64>> {
        self.alloc_of(self.classes.of(bytes), bytes, may_grow)
    }

    /// The same of a cell, whose block has just `bytes` bytes, a multiple of eight from 16 to 136.
    ///
    /// # Errors
    /// As [`alloc_block`](Self::alloc_block).
    pub fn alloc_cell(&self, bytes: u64, may_grow: bool) -> Result<Option<u64>> {
        self.alloc_of(class_of_cell(bytes), bytes, may_grow)
    }

    fn alloc_of(&self, class: Option<u8>, bytes: u64, may_grow: bool) -> Result<Option<u64>> {
        let medium = &self.medium;
        // Most often an extent has a block, and none has to be taken.
        let pop = |blocks: &mut Blocks, class| {
            let off = blocks.pop(class)?;
            self.touch_bytes(off, bytes);
            Some(off)
        };
        if let Some(off) = class.and_then(|class| pop(&mut wait_lock(&self.blocks, medium), class))
        {
            return Ok(Some(off));
        }
        let mut extents = wait_lock(&self.extents, medium);
        let mut blocks = wait_lock(&self.blocks, medium);
        let may_grow = may_grow || blocks.sweep.as_ref().is_none_or(|sweep| sweep.given_up);
        let extent_bytes = self.extent_bytes();
        let Some(class) = class else {
            let count = bytes.div_ceil(extent_bytes);
            if !may_grow && extents.find_run(count).is_none() {
                return Ok(None);
            }
            let kinds = [ExtentKind::RunHead, ExtentKind::RunRest];
            return Ok(Some(extents.take_run(medium, count, kinds)? * extent_bytes));
        };
        // Another thread may have taken one, or freed a block.
        if let Some(off) = pop(&mut blocks, class) {
            return Ok(Some(off));
        }
        let [need, mut count] = blocks.extents_of(class);
        let kinds = [ExtentKind::Blocks(class), ExtentKind::RunRest];
        let first = loop {
            if may_grow || extents.find_run(count).is_some() {
                match extents.take_run(medium, count, kinds) {
                    Err(e) if count > need && matches!(e.kind(), ErrorKind::Full { .. }) => {}
                    first => break first?,
                }
            } else if count == need {
                return Ok(None);
            }
            count = (count / 2).max(need);
        };
        // Another thread may be the first to link a block, and fences its own flushes.
        medium.fence();
        blocks.add(first..first + count, class, true);
        Ok(blocks.pop(class))
    }

    /// Frees the block at `off`, which nothing durable names any more. If it may be older than this open, it was
    /// [marked](Pool::mark_block) before the commit that says so.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) where there is no block.
    pub fn free_block(&self, off: u64) -> Result<()> {
        let medium = &self.medium;
        // Others may have ended a sweep since the commit, and taken the blocks that it found.
        medium.event(Event::Look);
        let mut extents = wait_lock(&self.extents, medium);
        let mut blocks = wait_lock(&self.blocks, medium);
        if blocks.mark(off)?.is_some() {
            // Older than this open: the sweep may have passed the slot that named it, or not; it is
            // released when the sweep ends.
            if let Some(sweep) = blocks.sweep.as_mut().filter(|sweep| !sweep.given_up) {
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
        let corrupt =
            || Error::from(ErrorKind::Corrupt { what: "an offset names no record block", off });
        if i >= count {
            return Err(corrupt());
        }
        match kind_on_medium(&self.medium, &self.table, i)? {
            ExtentKind::Blocks(class) => {
                let bytes = self.classes.bytes(class);
                if within.is_multiple_of(bytes) && within + bytes <= self.extent_bytes() {
                    return Ok(bytes);
                }
            }
            ExtentKind::RunHead if within == 0 => {
                let mut end = i + 1;
                while end < count
                    && kind_on_medium(&self.medium, &self.table, end)? == ExtentKind::RunRest
                {
                    end += 1;
                }
                return Ok((end - i) << shift);
            }
            ExtentKind::RunRest => {}
            _ => return Err(corrupt()),
        }
        self.bytes_in_chunk(off, count)?.ok_or_else(corrupt)
    }

    /// The same of a block in a chunk, whose extents are some of the first `count`.
    fn bytes_in_chunk(&self, off: u64, count: u64) -> Result<Option<u64>> {
        let shift = self.format().geometry.extent_shift;
        let kind = |i| kind_on_medium(&self.medium, &self.table, i);
        let at = off >> shift;
        let mut first = at;
        while kind(first)? == ExtentKind::RunRest {
            if first == 0 || at - first == CHUNK_MAX {
                return Ok(None);
            }
            first -= 1;
        }
        let ExtentKind::Blocks(class) = kind(first)? else {
            return Ok(None);
        };
        let bytes = self.classes.bytes(class);
        let end = (off + bytes).div_ceil(1 << shift);
        if !self.classes.is_large(class)
            || !(off - (first << shift)).is_multiple_of(bytes)
            || end > count.min(first + CHUNK_MAX)
        {
            return Ok(None);
        }
        for i in at + 1..end {
            if kind(i)? != ExtentKind::RunRest {
                return Ok(None);
            }
        }
        Ok(Some(bytes))
    }

    /// Calls `f` with the offset of every record block in use; nothing while a sweep is pending.
    pub fn each_block(&self, f: &mut dyn FnMut(u64)) {
        if self.looks_on() {
            return;
        }
        let table = wait_lock(&self.maps, &self.medium).table_off();
        let f = &mut |off| {
            if off != table {
                f(off);
            }
        };
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
                (ExtentKind::Blocks(class), Some(extent)) => (0..extent.count)
                    .filter(|block| !extent.free.contains(*block))
                    .for_each(|block| f(blocks.off(i as u64, *class, block))),
                _ => {}
            }
        }
    }

    /// Gives extents of record blocks in which no block is in use back to the pool, also those at the end of a
    /// chunk. It is for a pool that is full: else they are kept, for blocks of the same class.
    ///
    /// # Errors
    /// Never for the extents of this pool.
    pub fn give_back_blocks(&self) -> Result<()> {
        // Each operation on a full pool asks for it, and it looks at all extents.
        if wait_lock(&self.blocks, &self.medium).has_none_to_give {
            return Ok(());
        }
        let mut extents = wait_lock(&self.extents, &self.medium);
        let mut blocks = wait_lock(&self.blocks, &self.medium);
        blocks.retire_free(&mut extents, &self.medium)?;
        let count = blocks.by_extent.len() as u64;
        (0..count).try_for_each(|i| blocks.shorten(&mut extents, &self.medium, i))?;
        blocks.has_none_to_give = true;
        Ok(())
    }

    /// Gives all extents of blocks that are free as a whole back to the pool.
    pub(crate) fn retire_free_block_extents(&self) -> Result<()> {
        let mut extents = wait_lock(&self.extents, &self.medium);
        wait_lock(&self.blocks, &self.medium).retire_free(&mut extents, &self.medium)
    }
}
