//! Where the kinds of extents stand.
//!
//! A byte for each extent, in tables of which each has as many as all before it together, so that a small
//! pool has a small one, and a large pool few:
//!
//! ```text
//! table 0    extents 0 .. G          second half of extent 0; G is half the bytes of an extent
//! table k    extents G << k-1 .. G << k   in extents of their own, anywhere before the first of these
//! ```
//!
//! Table `k` is made ahead, when the pool has more than half of the extents before its first one: an
//! extent has its kind in a table that is there.
//!
//! | Step | Then | If it stops after this step |
//! |---|---|---|
//! | kinds of the table's extents: head | | heads that nothing names, as below |
//! | zeros in the table | flush, fence | heads that nothing names: found to be free at open |
//! | the table's offset in the superblock | flush, fence | a table whose extents are all free |

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use super::superblock::{FURTHER_TABLES, Format, Superblock};
use crate::error::{Error, Result};
use crate::medium::Medium;

/// Of a table that is not there: no offset of a medium.
const NONE: u64 = 1 << 62;
/// A power of two, so that no index is out of range.
const LEVELS: usize = 32;

/// The tables of a pool.
pub(crate) struct Table {
    group_shift: u32,
    extent_shift: u32,
    max_extents: u64,
    /// For each table, its offset less the number of its first extent, wrapping.
    starts: [AtomicU64; LEVELS],
}

impl Table {
    /// That of a new pool.
    pub(crate) fn create(format: &Format) -> Self {
        let starts = [const { AtomicU64::new(NONE) }; LEVELS];
        starts[0].store(format.extent_bytes() / 2, Ordering::Relaxed);
        let extent_shift = u32::from(format.geometry.extent_shift);
        let (group_shift, max_extents) = (extent_shift - 1, format.max_extents());
        Table { group_shift, extent_shift, max_extents, starts }
    }

    /// That of a pool of `count` extents. Their kinds are not looked at.
    pub(crate) fn open<M: Medium>(medium: &M, format: &Format, count: u64) -> Result<Self> {
        let superblock = medium.region().at::<Superblock>(0)?;
        let table = Self::create(format);
        for (i, word) in superblock.tables.iter().enumerate() {
            let (k, off) = (i + 1, medium.load(word));
            if off == 0 {
                if table.first(k) < count {
                    return Err(damaged(i));
                }
                continue;
            }
            let range = table.extents_at(k, off);
            let fits = off.is_multiple_of(format.extent_bytes())
                && range.start > 0
                && range.end <= count.min(table.first(k));
            if !fits {
                return Err(damaged(i));
            }
            table.add(k, off);
        }
        Ok(table)
    }

    /// Takes note of tables that the writer of the pool has made since.
    pub(crate) fn follow<M: Medium>(&self, medium: &M) -> Result<()> {
        let superblock = medium.region().at::<Superblock>(0)?;
        for (k, word) in (1..).zip(&superblock.tables) {
            let off = medium.load(word);
            if off != 0 && self.starts[k].load(Ordering::Relaxed) == NONE {
                self.add(k, off);
            }
        }
        Ok(())
    }

    fn level(&self, i: u64) -> usize {
        (u64::BITS - (i >> self.group_shift).leading_zeros()) as usize % LEVELS
    }

    /// Where the kind of extent `i` stands; nowhere on the medium if it has no table.
    #[inline(always)]
    pub(crate) fn off(&self, i: u64) -> u64 {
        // A thread learns of an extent from one that has made its table.
        self.starts[self.level(i)].load(Ordering::Relaxed).wrapping_add(i)
    }

    /// The first extent of table `k`, but the first.
    fn first(&self, k: usize) -> u64 {
        1 << (self.group_shift + k as u32 - 1)
    }

    /// The extent behind the last that has its kind in the same table as `i`.
    pub(crate) fn end(&self, i: u64) -> u64 {
        self.first(self.level(i) + 1)
    }

    /// The extents that table `k` has to itself, if it lies at `off`.
    fn extents_at(&self, k: usize, off: u64) -> Range<u64> {
        let first = off >> self.extent_shift;
        first..first.saturating_add(self.extents_of(k))
    }

    /// How many extents table `k` takes.
    pub(crate) fn extents_of(&self, k: usize) -> u64 {
        self.first(k).div_ceil(1 << self.extent_shift)
    }

    /// Bytes of table `k`.
    pub(crate) fn bytes_of(&self, k: usize) -> u64 {
        self.first(k)
    }

    fn add(&self, k: usize, off: u64) {
        self.starts[k].store(off.wrapping_sub(self.first(k)), Ordering::Release);
    }

    /// The table that is made before a pool has `count` extents, if it is not there: its number.
    pub(crate) fn missing(&self, count: u64) -> Option<usize> {
        let is_made = |k: &usize| self.starts[*k].load(Ordering::Relaxed) != NONE;
        let k = (1..=FURTHER_TABLES).find(|k| !is_made(k))?;
        (count > self.first(k) / 2 && self.max_extents > self.first(k)).then_some(k)
    }

    /// The most extents that can be there before table `k`, which is missing.
    pub(crate) fn most_before(&self, k: usize) -> u64 {
        self.first(k)
    }

    /// Makes the bytes of table `k` zeros, at `off`, durably. Zeros are stored too: where an extent held check words, a live image may show zeros,
    /// and the base have others.
    pub(crate) fn clear<M: Medium>(&self, medium: &M, k: usize, off: u64) -> Result<()> {
        let words = medium.region().words(off, self.bytes_of(k) / 8)?;
        words.iter().for_each(|word| medium.store(word, 0));
        medium.flush(words);
        medium.fence();
        Ok(())
    }

    /// Names table `k`, which lies at `off`, durably.
    pub(crate) fn name<M: Medium>(&self, medium: &M, k: usize, off: u64) -> Result<()> {
        let word = &medium.region().at::<Superblock>(0)?.tables[k - 1];
        medium.store(word, off);
        medium.flush(word);
        medium.fence();
        self.add(k, off);
        Ok(())
    }

    /// All extents of the head: of the superblock, and of the tables that are named.
    pub(crate) fn heads(&self) -> Vec<u64> {
        let named = (1..=FURTHER_TABLES).filter_map(|k| {
            let start = self.starts[k].load(Ordering::Relaxed);
            (start != NONE).then(|| self.extents_at(k, start.wrapping_add(self.first(k))))
        });
        std::iter::once(0).chain(named.flatten()).collect()
    }
}

fn damaged(i: usize) -> Error {
    let off = std::mem::offset_of!(Superblock, tables) + i * 8;
    Error::corrupt("place of an extent table", off as u64)
}
