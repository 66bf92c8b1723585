//! Large arrays in DRAM: zeroed, reserved whole, taken page by page as they are touched.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Result;
use crate::zeroed::Zeroed;

/// A fixed number of rows of `N` atomic words each, all zero at first.
///
/// Address space is reserved for all rows at once, memory only for those that were written, in huge
/// pages where the system gives them. Rows never move, so a row may be read while others are added.
pub struct Reserved<const N: usize> {
    memory: Zeroed,
    count: u64,
}

impl<const N: usize> Reserved<N> {
    /// `count` rows of zeros.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) when the system has no address space for them.
    pub fn new(count: u64) -> Result<Self> {
        const { assert!(N > 0 && N <= 16) }
        Ok(Reserved { memory: Zeroed::new(count, size_of::<[AtomicU64; N]>() as u64)?, count })
    }

    /// Row `i`.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline(always)]
    #[must_use]
    pub fn row(&self, i: u64) -> &[AtomicU64; N] {
        assert!(i < self.count, "row out of range");
        // SAFETY: in range; zeroed or written memory is a valid array of atomics, and lives as long
        // as `self`.
        unsafe { &*self.memory.base().as_ptr().add(i as usize * N).cast::<[AtomicU64; N]>() }
    }

    /// Starts to fetch row `i`; nothing where there is none.
    #[inline(always)]
    pub fn prefetch(&self, i: u64) {
        crate::medium::prefetch_line(
            self.memory.base().as_ptr().wrapping_add(i as usize * N).cast(),
        );
    }

    /// How many rows there are.
    #[inline(always)]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Zeroes all rows and gives their memory back to the system. A thread that still reads a row
    /// sees the old value or zero.
    pub fn release(&self) {
        if !self.memory.give_back() {
            for word in (0..self.count).flat_map(|i| self.row(i)) {
                word.store(0, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn rows_are_zero_stay_put_and_are_given_back() {
        for count in [1, 100, 1 << 20] {
            let rows = Reserved::<4>::new(count).unwrap();
            let last = rows.row(count - 1);
            assert_eq!(last[3].load(Relaxed), 0);
            last[3].store(7, Relaxed);
            assert_eq!(rows.row(count - 1)[3].load(Relaxed), 7);
            rows.release();
            assert_eq!(last[3].load(Relaxed), 0);
        }
    }

    #[test]
    #[should_panic(expected = "row out of range")]
    fn no_row_beyond_the_last() {
        let rows = Reserved::<4>::new(3).unwrap();
        let _ = rows.row(3);
    }
}
