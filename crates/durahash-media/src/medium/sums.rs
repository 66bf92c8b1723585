//! The place of check words: a bit and a CRC-32 for each block of a pool, in an area of its own.
//!
//! ```text
//! bytes
//! 0               marks: a bit for each block of the pool; one that has it has no sum
//! blocks / 8      sums: a CRC-32 for each block, in the halves of words
//! ```
//!
//! The superblock names the area: its offset, and its extents with the CRC of both numbers. The words of the superblock that
//! every open changes count as zeros.

use std::ops::{Range, RangeInclusive};

use crate::error::Result;
use crate::medium::Region;
use crate::word::{PmU64, bits};

/// The most bytes of a block; one of a pool of smaller extents is an extent.
pub(crate) const BLOCK_SHIFT_MAX: u32 = 12;
/// Blocks of a word of marks.
pub(crate) const MARKS: u64 = 64;
/// Where the superblock says where the area is.
pub(crate) const CHECKS_OFF: u64 = 488;
/// The shift of an extent's size, in the superblock.
const GEOMETRY_OFF: u64 = 40;
const EXTENT_SHIFTS: RangeInclusive<u32> = 10..=30;
/// The words of the superblock that every open changes: state, boot id, and file.
const CHANGED: [Range<usize>; 2] = [128..152, 184..192];

/// An area of check words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumArea {
    pub(crate) off: u64,
    /// Extents that it takes.
    pub(crate) extents: u64,
    pub(crate) extent_shift: u32,
}

impl SumArea {
    /// The least extents of an area for so many blocks.
    #[cfg(not(loom))]
    pub(crate) fn extents_for(blocks: u64, extent_bytes: u64) -> u64 {
        (blocks.next_multiple_of(MARKS) * 33).div_ceil(extent_bytes * 8)
    }

    /// The bytes of its extents.
    pub(crate) fn bytes(self) -> Range<u64> {
        self.off..self.off + (self.extents << self.extent_shift)
    }

    /// The bytes of a block, as a shift.
    pub(crate) fn shift(self) -> u32 {
        self.extent_shift.min(BLOCK_SHIFT_MAX)
    }

    /// Blocks that it has room for.
    pub(crate) fn blocks(self) -> u64 {
        (self.extents << self.extent_shift) * 8 / 33 / MARKS * MARKS
    }

    /// Where the mark of a block is: the offset of a word, and the bit.
    pub(crate) fn mark(self, block: u64) -> (u64, u64) {
        (self.off + block / MARKS * 8, 1 << (block % MARKS))
    }

    /// Where the sum of a block is: the offset of a word, and from which bit on.
    pub(crate) fn sum(self, block: u64) -> (u64, u32) {
        (self.off + self.blocks() / 8 + block / 2 * 8, (block % 2) as u32 * 32)
    }

    /// The two words by which a superblock names it.
    pub(crate) fn words(self) -> [u64; 2] {
        let mut crc = crc32fast::Hasher::new();
        [self.off, self.extents].iter().for_each(|word| crc.update(&word.to_le_bytes()));
        [self.off, self.extents << 32 | u64::from(crc.finalize())]
    }

    /// The area that a superblock with these words names, unless they are damaged.
    pub(crate) fn named(word: impl Fn(u64) -> Result<u64>) -> Result<Option<SumArea>> {
        let words = [word(CHECKS_OFF)?, word(CHECKS_OFF + 8)?];
        let (off, extents) = (words[0], bits(words[1], 32, 32));
        let extent_shift = bits(word(GEOMETRY_OFF)?, 0, 8) as u32;
        let area = SumArea { off, extents, extent_shift };
        let is_possible = off != 0 && EXTENT_SHIFTS.contains(&extent_shift);
        Ok(Some(area).filter(|area| is_possible && area.words() == words))
    }

    pub(crate) fn lies_in(self, region: &Region) -> bool {
        let end = self.off.checked_add(self.extents << self.extent_shift);
        end.is_some_and(|end| end <= region.len())
            && self.off.is_multiple_of(1 << self.extent_shift)
    }

    /// The area that the pool in `region` names, if it lies in there.
    pub(crate) fn of(region: &Region) -> Option<SumArea> {
        let area = SumArea::named(|off| region.at::<PmU64>(off).map(PmU64::load)).ok()?;
        area.filter(|area| area.lies_in(region))
    }
}

/// The sum of a block with these bytes.
pub(crate) fn sum_of(block: u64, bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    if block != 0 {
        crc.update(bytes);
        return crc.finalize();
    }
    let mut at = 0;
    for Range { start, end } in CHANGED {
        crc.update(&bytes[at..start]);
        crc.update(&[0; 32][..end - start]);
        at = end;
    }
    crc.update(&bytes[at..]);
    crc.finalize()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_area_has_room_for_its_blocks() {
        for extent_shift in [10, 12, 16, 19] {
            for blocks in [1, 64, 65, 1000, 100_000] {
                let extents = SumArea::extents_for(blocks, 1 << extent_shift);
                let area = SumArea { off: 0, extents, extent_shift };
                assert!(area.blocks() >= blocks);
                assert!(area.sum(area.blocks() - 1).0 + 8 <= area.bytes().end);
                let less = SumArea { extents: extents - 1, ..area };
                assert!(extents == 1 || less.blocks() < blocks);
            }
        }
    }
}
