//! Records that need not be verified again: those that this open has read and found intact, or has written.
//!
//! A bit in DRAM for each 16 bytes of the pool says that a record of the map which begins there is known. All are zero
//! at the open, clean or not. A bit that is set stays, because only this process writes the block afterwards. So a set
//! bit means that the record there was found intact since the open, or was written since. A reader looks at the bit
//! before it validates the version under which the slot named the record: otherwise the block might have got another
//! record, with its bit, in between.
//!
//! Bits are set without a locked instruction. One that is lost to another thread costs a verification.

use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::{Reserved, Result};

/// Blocks begin at multiples of this.
const STEP_SHIFT: u32 = 4;
/// Bytes of the pool for which a row has a bit.
const ROW_SHIFT: u32 = STEP_SHIFT + 9;

/// The bits of a map.
pub(crate) struct Known(Reserved<8>);

impl Known {
    /// Those of a pool of up to so many bytes: nothing is known.
    pub(crate) fn new(max_bytes: u64) -> Result<Self> {
        Ok(Known(Reserved::growing(0, (max_bytes >> ROW_SHIFT) + 1)?))
    }

    /// True if the record that a slot names, and that begins at `off`, is known.
    #[inline(always)]
    pub(crate) fn has(&self, off: u64) -> bool {
        let (row, word, bit) = place(off);
        // With all that the thread that set the bit had seen and done before.
        let is_set = |row: &[AtomicU64; 8]| row[word].load(Ordering::Acquire) & bit != 0;
        off.is_multiple_of(1 << STEP_SHIFT) && self.0.get(row).is_some_and(is_set)
    }

    /// Starts to fetch the bit of a record.
    #[inline(always)]
    pub(crate) fn prefetch(&self, off: u64) {
        self.0.prefetch(place(off).0);
    }

    /// Adds the record at `off`. Where there is no memory for that, it is verified again.
    #[inline]
    pub(crate) fn add(&self, off: u64) {
        let (row, word, bit) = place(off);
        if off.is_multiple_of(1 << STEP_SHIFT)
            && row < self.0.most()
            && self.0.cover(row + 1).is_ok()
        {
            let word = &self.0.row(row)[word];
            let others = word.load(Ordering::Acquire);
            if others & bit == 0 {
                word.store(others | bit, Ordering::Release);
            }
        }
    }
}

/// Row, word and bit of an offset.
#[inline(always)]
fn place(off: u64) -> (u64, usize, u64) {
    (off >> ROW_SHIFT, (off >> (STEP_SHIFT + 6) & 7) as usize, 1 << (off >> STEP_SHIFT & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_of_a_record_has_a_bit_of_its_own() {
        let known = Known::new(1 << 20).unwrap();
        let offs = [0, 16, 32, 1008, 1024, 8176, 8192, (1 << 20) - 16];
        for (i, off) in offs.iter().enumerate() {
            known.add(*off);
            assert!(offs.iter().enumerate().all(|(j, off)| known.has(*off) == (j <= i)));
        }
    }

    #[test]
    fn other_places_are_never_known() {
        let known = Known::new(1 << 20).unwrap();
        for off in [8, 24, 1 << 21, 1 << 47, u64::MAX] {
            known.add(off);
            assert!(!known.has(off), "{off}");
        }
    }
}
