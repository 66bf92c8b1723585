//! Check words: a CRC of every block of 4 KiB, written when the pool is closed, so that damage is found.
//!
//! They lie in an area of their own, whole extents, which the superblock names (`medium/sums.rs`): a bit for each block,
//! its mark, which is set before the block is stored to, and its CRC.
//!
//! - **POOL-4** A block that has no mark has the CRC that is stored for it.
//!
//! This holds at every instant, so a crash needs no repair: a pool that was not closed has sums for all
//! that was not stored to since.
//!
//! A medium with a live image keeps the words itself ([`DiskSums`](crate::medium::DiskSums)): of the bytes on its disk,
//! by the checkpoint that brings them there. Stores take no note of them then, and the pool only says where they are; **S-8**
//! (`medium/live/mod.rs`) holds in place of POOL-4.
//!
//! | Step | Stores | Then | If it stops after this step |
//! |---|---|---|---|
//! | first store to a block since the open | its mark | flush, fence | a block without a sum |
//! | | (the store) | | the same |
//! | close: the area, where there is none or it is too short | its extents' kinds; all marks, but those that the area before did not have, and its sums | flush | extents that nothing names: free |
//! | | the area's offset := 0, if there was one | flush, fence | no sums |
//! | | its length and CRC | flush, fence | no sums |
//! | | its offset | flush, fence | the area |
//! | close: the data | (flushed before as far as they must be) | sync, and flush of blocks with a mark | unclean |
//! | | sums of blocks with a mark | flush, fence | as before: the marks are there |
//! | | those marks := 0 | flush, sync | sums of all blocks |
//! | | the state | see the [pool](super) | closed |
//!
//! A block is verified before it gets its mark: else the next close would give damage a sum that is right.
//! One that was found damaged gets a sum that is wrong.
//!
//! After a loss of power that pages in the page cache did not survive, marks may be older than their
//! blocks: then there are no sums until the next close. The same holds where the superblock's words of
//! the area are damaged.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::superblock::Superblock;
use crate::error::Result;
use crate::lock::wait_lock;
use crate::medium::{BLOCK_SHIFT_MAX, MARKS, Medium, SumArea, sum_of};
use crate::word::{PmU64, bits};

/// The check words of a pool.
#[derive(Default)]
pub(crate) struct Checks {
    shift: u32,
    extent_bytes: u64,
    off: AtomicU64,
    /// Blocks that the area has room for; zero without one.
    blocks: AtomicU64,
    /// The blocks whose mark is known to be durable, a bit each.
    marked: Box<[AtomicU64]>,
    /// Held while marks are set. The blocks that were found damaged before they got theirs.
    damaged: Mutex<BTreeSet<u64>>,
    /// The superblock names an area that is none.
    pub(crate) is_lost: bool,
}

impl Checks {
    /// Of a pool with this area, if it has one.
    pub(crate) fn new(extent_shift: u32, area: Option<SumArea>) -> Self {
        let extent_bytes = 1 << extent_shift;
        let blocks = area.map_or(0, SumArea::blocks);
        Checks {
            shift: extent_shift.min(BLOCK_SHIFT_MAX),
            extent_bytes,
            off: AtomicU64::new(area.map_or(0, |area| area.off)),
            blocks: AtomicU64::new(blocks),
            marked: (0..blocks / MARKS).map(|_| AtomicU64::new(0)).collect(),
            damaged: Mutex::default(),
            is_lost: false,
        }
    }

    /// True if there is an area.
    pub(crate) fn exist(&self) -> bool {
        self.blocks.load(Ordering::Acquire) != 0
    }

    /// Extents whose blocks the area has room for.
    pub(crate) fn extents(&self) -> u64 {
        (self.blocks.load(Ordering::Acquire) << self.shift) / self.extent_bytes
    }

    /// The area, if there is one.
    pub(crate) fn area(&self) -> Option<SumArea> {
        let off = self.off.load(Ordering::Acquire);
        let blocks = self.blocks.load(Ordering::Acquire);
        let extents = SumArea::extents_for(blocks, self.extent_bytes);
        let extent_shift = self.extent_bytes.ilog2();
        (blocks != 0).then_some(SumArea { off, extents, extent_shift })
    }

    /// Blocks of so many extents.
    pub(crate) fn blocks_of(&self, extents: u64) -> u64 {
        (extents * self.extent_bytes) >> self.shift
    }

    /// Blocks in these ranges of bytes.
    pub(crate) fn blocks_in(&self, covered: &[Range<u64>]) -> u64 {
        covered.iter().map(|range| (range.end - range.start) >> self.shift).sum()
    }

    /// Before the first store to the block at `off` since the open.
    #[inline]
    pub(crate) fn touch<M: Medium>(&self, medium: &M, off: u64) {
        let block = off >> self.shift;
        let marked = self.marked.get((block / MARKS) as usize);
        let is_marked = |word: &AtomicU64| word.load(Ordering::Acquire) & 1 << (block % MARKS) != 0;
        if !marked.is_some_and(is_marked) {
            self.mark(medium, off..off + 1, true);
        }
    }

    /// The same of these bytes.
    pub(crate) fn touch_bytes<M: Medium>(&self, medium: &M, range: Range<u64>) {
        if range.end - range.start <= 1 << self.shift {
            self.touch(medium, range.start);
            self.touch(medium, range.end - 1);
        } else {
            self.mark(medium, range, true);
        }
    }

    /// Marks the blocks in which these bytes lie, and verifies them before, unless nothing that they hold
    /// counts.
    #[cold]
    #[inline(never)]
    pub(crate) fn mark<M: Medium>(&self, medium: &M, range: Range<u64>, counts: bool) {
        let end = range.end.div_ceil(1 << self.shift).min(self.blocks.load(Ordering::Acquire));
        let first = range.start >> self.shift;
        if let Some(sums) = medium.disk_sums() {
            if !counts {
                sums.forget(range);
            }
            return;
        }
        if first >= end {
            return;
        }
        let mut damaged = wait_lock(&self.damaged, medium);
        let Some((marks, sums)) = self.words(medium) else {
            return;
        };
        let parts = || words_of(first..end);
        let mut stored = false;
        for (i, mask) in parts() {
            let word = &marks[i as usize];
            let before = medium.load(word);
            for block in blocks_in(i, mask & !before).filter(|_| counts) {
                if self.sum(medium, block, false) != Some(sum_in(medium, sums, block)) {
                    damaged.insert(block);
                }
            }
            if before & mask != mask {
                medium.store(word, before | mask);
                medium.flush(word);
                stored = true;
            }
        }
        if !counts {
            damaged.retain(|block| !(first..end).contains(block));
        }
        if stored {
            medium.fence();
        }
        // Only now: a writer that sees a mark stores.
        for (i, mask) in parts() {
            if let Some(word) = self.marked.get(i as usize) {
                word.fetch_or(mask, Ordering::Release);
            }
        }
    }

    /// The words of the marks and of the sums.
    fn words<'a, M: Medium>(&self, medium: &'a M) -> Option<(&'a [PmU64], &'a [PmU64])> {
        let blocks = self.blocks.load(Ordering::Acquire);
        let count = blocks / MARKS + blocks / 2;
        let words = medium.region().words(self.off.load(Ordering::Acquire), count).ok()?;
        (blocks != 0).then(|| words.split_at((blocks / MARKS) as usize))
    }

    /// The CRC of a block as it is, or of its words that are durable after a sync; `None` beyond the medium.
    fn sum<M: Medium>(&self, medium: &M, block: u64, durable: bool) -> Option<u32> {
        let mut bytes = [0; 1 << BLOCK_SHIFT_MAX];
        let bytes = &mut bytes[..1 << self.shift];
        let off = block << self.shift;
        let words = medium.region().words(off, bytes.len() as u64 / 8).ok()?;
        if durable {
            // Locks, say, are never flushed.
            medium.copy_durable(off, bytes).ok()?;
        } else {
            medium.copy_out(words, 0, bytes);
        }
        Some(sum_of(block, bytes))
    }

    /// Makes `area`, in extents that were taken for it and are all marks of blocks that have no sum, the
    /// area; the marks and sums of the one before are copied to it.
    pub(crate) fn move_to<M: Medium>(&self, medium: &M, area: SumArea) -> Result<()> {
        let next = Checks::new(self.extent_bytes.ilog2(), Some(area));
        let Some((marks, sums)) = next.words(medium) else {
            return Ok(());
        };
        self.touch(medium, 0);
        let before = self.words(medium).unwrap_or_default();
        for (i, word) in marks.iter().enumerate() {
            medium.store(word, before.0.get(i).map_or(u64::MAX, |word| medium.load(word)));
        }
        for (word, old) in sums.iter().zip(before.1) {
            medium.store(word, medium.load(old));
        }
        medium.flush_fresh(marks);
        medium.flush_fresh(&sums[..before.1.len()]);
        self.name(medium, area)
    }

    /// Lets the superblock name `area`, and no other one meanwhile.
    pub(crate) fn name<M: Medium>(&self, medium: &M, area: SumArea) -> Result<()> {
        self.forget(medium)?;
        let superblock = medium.region().at::<Superblock>(0)?;
        // Before the offset, which follows a fence.
        for (word, v) in superblock.checks.iter().zip(area.words()).rev() {
            medium.store(word, v);
            medium.flush(word);
            medium.fence();
        }
        self.off.store(area.off, Ordering::Release);
        self.blocks.store(area.blocks(), Ordering::Release);
        Ok(())
    }

    /// There is no area from here on; its extents are free at the next open.
    pub(crate) fn forget<M: Medium>(&self, medium: &M) -> Result<()> {
        let word = &medium.region().at::<Superblock>(0)?.checks[0];
        if medium.load(word) != 0 {
            medium.store(word, 0);
            medium.flush(word);
            medium.fence();
        }
        self.blocks.store(0, Ordering::Release);
        Ok(())
    }

    /// Stores the sums of all blocks in these ranges of bytes that have a mark, as they are durable; then takes
    /// the marks away. The caller syncs before and afterwards.
    pub(crate) fn renew<M: Medium>(&self, medium: &M, covered: &[Range<u64>]) {
        let Some((marks, sums)) = self.words(medium) else {
            return;
        };
        let damaged = wait_lock(&self.damaged, medium);
        for (i, mask) in self.words_of_all(covered) {
            let of_word = blocks_in(i, medium.load(&marks[i as usize]) & mask);
            let (mut first, mut last) = (u64::MAX, 0);
            for block in of_word {
                let Some(sum) = self.sum(medium, block, true) else { continue };
                // Damage stays to be told.
                let sum = if damaged.contains(&block) { !sum } else { sum };
                store_sum(medium, sums, block, sum);
                (first, last) = (first.min(block / 2), block / 2);
            }
            if first <= last {
                medium.flush(&sums[first as usize..=last as usize]);
            }
        }
        medium.fence();
        for (i, mask) in self.words_of_all(covered) {
            let word = &marks[i as usize];
            let before = medium.load(word);
            if before & mask != 0 {
                medium.store(word, before & !mask);
                medium.flush(word);
            }
        }
    }

    /// Calls `found` with the offset of every damaged block in these ranges of bytes.
    pub(crate) fn verify<M: Medium>(
        &self,
        medium: &M,
        covered: &[Range<u64>],
        found: &mut dyn FnMut(u64),
    ) {
        let Some((marks, sums)) = self.words(medium) else {
            return;
        };
        if let Some(sums) = medium.disk_sums() {
            sums.verify(covered, found);
            return;
        }
        let known = wait_lock(&self.damaged, medium).clone();
        let known = known.iter().map(|block| block << self.shift);
        known.filter(|off| covered.iter().any(|range| range.contains(off))).for_each(&mut *found);
        self.each_unmarked(medium, covered, &mut |block| {
            let is_right = self.sum(medium, block, false) == Some(sum_in(medium, sums, block));
            // It may have been stored to meanwhile: by then it had its mark.
            let mark = medium.load(&marks[(block / MARKS) as usize]) & 1 << (block % MARKS);
            if !is_right && mark == 0 {
                found(block << self.shift);
            }
        });
    }

    /// How many blocks in these ranges of bytes have a sum.
    pub(crate) fn count<M: Medium>(&self, medium: &M, covered: &[Range<u64>]) -> u64 {
        let mut count = 0;
        match medium.disk_sums() {
            Some(sums) if self.exist() => count = sums.count(covered),
            Some(_) => {}
            None => self.each_unmarked(medium, covered, &mut |_| count += 1),
        }
        count
    }

    /// Calls `f` with every block in these ranges of bytes that has a sum.
    fn each_unmarked<M: Medium>(&self, medium: &M, covered: &[Range<u64>], f: &mut dyn FnMut(u64)) {
        let Some((marks, _)) = self.words(medium) else {
            return;
        };
        for (i, mask) in self.words_of_all(covered) {
            blocks_in(i, !medium.load(&marks[i as usize]) & mask).for_each(&mut *f);
        }
    }

    /// Words of marks of blocks in these ranges of bytes, and which bits of each.
    fn words_of_all(&self, covered: &[Range<u64>]) -> impl Iterator<Item = (u64, u64)> {
        let (shift, all) = (self.shift, self.blocks.load(Ordering::Acquire));
        covered.iter().flat_map(move |range| {
            words_of((range.start >> shift).min(all)..(range.end >> shift).min(all))
        })
    }
}

/// The words of marks that these blocks have, and which bits of each.
fn words_of(blocks: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let Range { start, end } = blocks;
    (start / MARKS..end.div_ceil(MARKS)).map(move |i| {
        let (from, to) = (start.max(i * MARKS), end.min((i + 1) * MARKS));
        let count = to.saturating_sub(from) as u32;
        (i, (u64::MAX.checked_shr(64 - count).unwrap_or(0)) << (from % MARKS))
    })
}

/// The blocks of a word of marks.
fn blocks_in(i: u64, mut mask: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.checked_sub(1)?;
        Some(i * MARKS + u64::from(bit))
    })
}

fn sum_in<M: Medium>(medium: &M, sums: &[PmU64], block: u64) -> u32 {
    bits(medium.load(&sums[(block / 2) as usize]), (block % 2) as u32 * 32, 32) as u32
}

fn store_sum<M: Medium>(medium: &M, sums: &[PmU64], block: u64, sum: u32) {
    let word = &sums[(block / 2) as usize];
    let shift = block % 2 * 32;
    let other = medium.load(word) & !(u64::from(u32::MAX) << shift);
    medium.store(word, other | u64::from(sum) << shift);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_marks_have_the_bits_of_their_blocks() {
        for (start, end) in [(0, 1), (0, 64), (63, 65), (5, 200), (64, 64), (70, 70), (127, 128)] {
            let blocks: Vec<u64> =
                words_of(start..end).flat_map(|(i, mask)| blocks_in(i, mask)).collect();
            assert_eq!(blocks, (start..end).collect::<Vec<_>>());
        }
    }
}
