//! Large arrays in DRAM: zeroed, reserved ahead of use, taken page by page as they are touched.

use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::by_depth::DepthWord;
use crate::error::Result;
use crate::medium::SMALL_BYTES;
use crate::primitive::lock;
use crate::zeroed::Zeroed;

/// Rows of `N` atomic words each, all zero at first.
///
/// Addresses are reserved ahead of use, memory is taken for rows that were written, in huge
/// pages where the system gives them. Rows never move, so a row may be read while others are added.
pub struct Reserved<const N: usize, W: DepthWord = u64> {
    memory: Zeroed,
    count: AtomicU64,
    most: u64,
    growth: Mutex<()>,
    words: PhantomData<W::Atomic>,
}

impl<const N: usize, W: DepthWord> Reserved<N, W> {
    const ROW_BYTES: u64 = size_of::<[W::Atomic; N]>() as u64;

    /// `count` rows of zeros.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) when the system has no address space for them.
    pub fn new(count: u64) -> Result<Self> {
        const { assert!(N > 0 && N <= 16) }
        Ok(Self::over(Zeroed::new(count, Self::ROW_BYTES)?, count, count))
    }

    /// `count` rows of zeros, and more when they are [covered](Reserved::cover), up to `most`.
    ///
    /// # Errors
    /// As [`Reserved::new`].
    pub fn growing(count: u64, most: u64) -> Result<Self> {
        const { assert!(N > 0 && N <= 16) }
        let memory = Zeroed::growing(count, most, Self::ROW_BYTES)?;
        // A caller that comes to a row behind the first ones asks for huge pages.
        let first = count.max(SMALL_BYTES / Self::ROW_BYTES).min(most);
        let count =
            memory.mapped_bytes().map_or(most, |bytes| (bytes / Self::ROW_BYTES).min(first));
        Ok(Self::over(memory, count, most))
    }

    fn over(memory: Zeroed, count: u64, most: u64) -> Self {
        let (count, growth) = (AtomicU64::new(count), Mutex::new(()));
        Reserved { memory, count, most, growth, words: PhantomData }
    }

    /// Sees to it that there are `count` rows.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) where there are no addresses for them;
    /// [`Io`](crate::ErrorKind::Io) with the system's error.
    ///
    /// # Panics
    /// When there shall never be so many.
    #[inline]
    pub fn cover(&self, count: u64) -> Result<()> {
        if count <= self.count() { Ok(()) } else { self.lengthen(count) }
    }

    #[cold]
    fn lengthen(&self, count: u64) -> Result<()> {
        assert!(count <= self.most, "row out of range");
        let _growth = lock(&self.growth);
        self.memory.cover(count * Self::ROW_BYTES, self.most.saturating_mul(Self::ROW_BYTES))?;
        let bytes = self.memory.mapped_bytes().unwrap_or(0);
        // A thread learns of a row from one that covered it.
        self.count.fetch_max((bytes / Self::ROW_BYTES).min(self.most), Ordering::Release);
        Ok(())
    }

    /// Row `i`.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline(always)]
    #[must_use]
    pub fn row(&self, i: u64) -> &[W::Atomic; N] {
        assert!(i < self.count(), "row out of range");
        // SAFETY: in range; zeroed or written memory is a valid array of atomics, which a sealed
        // `DepthWord` is, and lives as long as `self`.
        unsafe { &*self.memory.base().as_ptr().cast::<[W::Atomic; N]>().add(i as usize) }
    }

    /// Row `i`, if there is one.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, i: u64) -> Option<&[W::Atomic; N]> {
        (i < self.count()).then(|| self.row(i))
    }

    /// Starts to fetch row `i`; nothing where there is none.
    #[inline(always)]
    pub fn prefetch(&self, i: u64) {
        crate::medium::prefetch_line(
            self.memory.base().as_ptr().cast::<[W::Atomic; N]>().wrapping_add(i as usize).cast(),
        );
    }

    /// How many rows there are.
    #[inline(always)]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How many rows there may ever be.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Zeroes all rows and gives their memory back to the system. A thread that still reads a row
    /// sees the old value or zero.
    pub fn release(&self) {
        if !self.memory.give_back() {
            for word in (0..self.count()).flat_map(|i| self.row(i)) {
                W::ZERO.store(word);
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
        let bytes = Reserved::<1, u8>::new(3).unwrap();
        bytes.row(1)[0].store(7, Relaxed);
        assert_eq!([0, 1, 2].map(|i| bytes.row(i)[0].load(Relaxed)), [0, 7, 0]);
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
    fn covered_rows_stay_put() {
        let rows = Reserved::<4>::growing(1, 1 << 40).unwrap();
        let before = rows.count();
        assert_eq!(before * 32, SMALL_BYTES, "who comes behind these asks for huge pages");
        let first = rows.row(0);
        first[0].store(5, Relaxed);
        rows.cover(3 * before).unwrap();
        rows.row(3 * before - 1)[3].store(6, Relaxed);
        assert!(std::ptr::eq(first, rows.row(0)) && rows.row(0)[0].load(Relaxed) == 5);
        rows.release();
        assert_eq!((first[0].load(Relaxed), rows.row(3 * before - 1)[3].load(Relaxed)), (0, 0));
    }

    #[test]
    #[should_panic(expected = "row out of range")]
    fn no_row_beyond_the_last() {
        let rows = Reserved::<4>::new(3).unwrap();
        let _ = rows.row(3);
    }
}
