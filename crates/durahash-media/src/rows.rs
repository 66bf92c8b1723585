//! Large arrays in DRAM: zeroed, reserved whole, taken page by page as they are touched.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, madvise};

use crate::error::{ErrorKind, Result};
use crate::medium::{ADDRESS_BYTES, Anonymous};

/// A fixed number of rows of `N` atomic words each, all zero at first.
///
/// Address space is reserved for all rows at once, memory only for those that were written, in huge
/// pages where the system gives them. Rows never move, so a row may be read while others are added.
pub struct Rows<const N: usize> {
    base: NonNull<AtomicU64>,
    count: u64,
    /// What keeps `base` good: a mapping, or words on the heap for a small array (which is what
    /// tests open by the thousand, and what Miri understands).
    mapping: Option<Anonymous>,
    heap: Vec<AlignedLine>,
}

/// A line of words, so that rows on the heap keep to lines as those in a mapping do.
#[repr(C, align(64))]
struct AlignedLine([AtomicU64; 8]);

// SAFETY: the rows are atomics, and what holds them is owned by the struct.
unsafe impl<const N: usize> Send for Rows<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Rows<N> {}

/// Arrays up to this size are taken from the heap.
const HEAP_BYTES: u64 = 64 << 10;

impl<const N: usize> Rows<N> {
    /// `count` rows of zeros.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) when the system has no address space for them.
    pub fn new(count: u64) -> Result<Self> {
        const { assert!(N > 0 && N <= 8) }
        let bytes = count
            .checked_mul(size_of::<[AtomicU64; N]>() as u64)
            .filter(|bytes| *bytes <= ADDRESS_BYTES)
            .ok_or(ErrorKind::Options { what: "an array larger than the address space" })?;
        if bytes <= HEAP_BYTES {
            let mut heap = Vec::new();
            heap.resize_with(bytes.div_ceil(64).max(1) as usize, || {
                AlignedLine([const { AtomicU64::new(0) }; 8])
            });
            let base = NonNull::new(heap.as_mut_ptr()).expect("a vector's pointer").cast();
            return Ok(Rows { base, count, mapping: None, heap });
        }
        let mapping = Anonymous::reserve(bytes)?;
        Ok(Rows { base: mapping.base.cast(), count, mapping: Some(mapping), heap: Vec::new() })
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
        unsafe { &*self.base.as_ptr().add(i as usize * N).cast::<[AtomicU64; N]>() }
    }

    /// Starts to fetch row `i`; nothing where there is none.
    #[inline(always)]
    pub fn prefetch(&self, i: u64) {
        crate::medium::prefetch_line(self.base.as_ptr().wrapping_add(i as usize * N).cast());
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
        match &self.mapping {
            Some(mapping) => {
                // SAFETY: our own anonymous mapping; reading it afterwards gives zeros.
                let advised = unsafe {
                    madvise(
                        mapping.base.as_ptr().cast(),
                        mapping.bytes as usize,
                        Advice::LinuxDontNeed,
                    )
                };
                if advised.is_err() {
                    self.zero();
                }
            }
            None => self.zero(),
        }
    }

    fn zero(&self) {
        for i in 0..self.count {
            for word in self.row(i) {
                word.store(0, std::sync::atomic::Ordering::Release);
            }
        }
    }

    /// Bytes of memory in huge pages, where the system tells.
    #[must_use]
    pub fn huge_bytes(&self) -> Option<u64> {
        self.mapping.as_ref()?.huge_bytes()
    }
}

impl<const N: usize> Drop for Rows<N> {
    fn drop(&mut self) {
        // The words on the heap have no destructor of their own; this names who owns them.
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn rows_are_zero_stay_put_and_are_given_back() {
        for count in [1, 100, 1 << 20] {
            let rows = Rows::<4>::new(count).unwrap();
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
        let rows = Rows::<4>::new(3).unwrap();
        let _ = rows.row(3);
    }
}
