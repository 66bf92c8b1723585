//! Arrays of `2^depth` short words, one for each depth: what a directory in DRAM is made of.

use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::error::Result;
use crate::zeroed::Zeroed;

/// An array of 32-bit words for each depth, indexed by the first `depth` bits of a hash.
///
/// Arrays are made one by one, all zero, and never move: a word may be read while others are made.
pub struct Levels {
    /// Where the array of each depth begins, so that a lookup needs one load to know. There is one
    /// for each value of six bits, so that no index is out of range.
    starts: [AtomicPtr<AtomicU32>; 64],
    arrays: Box<[OnceLock<Zeroed>]>,
}

impl Levels {
    /// The largest depth.
    pub const MAX_DEPTH: u32 = 44;

    /// No arrays yet.
    #[must_use]
    pub fn new() -> Self {
        Levels {
            starts: [const { AtomicPtr::new(null_mut()) }; 64],
            arrays: (0..=Self::MAX_DEPTH).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Makes the array of a depth, from 1 to [`MAX_DEPTH`](Self::MAX_DEPTH), if there is none.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) when the system has no address space for it.
    ///
    /// # Panics
    /// For other depths.
    pub fn make(&self, depth: u32) -> Result<()> {
        assert!(depth > 0, "a hash has bits");
        let array = &self.arrays[depth as usize];
        if array.get().is_none() {
            // Of several that are made at once one is kept.
            drop(array.set(Zeroed::new(1 << depth, size_of::<AtomicU32>() as u64)?));
        }
        let array = array.get().expect("made by whoever came first");
        // By all who come: the first may not have got here yet.
        self.starts[depth as usize].store(array.base().as_ptr().cast(), Ordering::Release);
        Ok(())
    }

    /// The word of `h` at a depth.
    ///
    /// # Panics
    /// Where no array was made for it.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, depth: u32, h: u64) -> &AtomicU32 {
        let start = self.starts[(depth % 64) as usize].load(Ordering::Acquire);
        assert!(!start.is_null(), "no array of this depth");
        // SAFETY: an array that begins somewhere has `2^depth` words, and the index has `depth`
        // bits; it stays there as long as `self`.
        unsafe { &*start.add((h >> ((64 - depth) % 64)) as usize) }
    }

    /// Starts to fetch the word of `h` at a depth.
    #[inline(always)]
    pub fn prefetch(&self, depth: u32, h: u64) {
        let start = self.starts[(depth % 64) as usize].load(Ordering::Acquire);
        let word = start.wrapping_add((h >> ((64 - depth) % 64)) as usize);
        crate::medium::prefetch_line(word.cast());
    }

    /// Zeroes the array of a depth and gives its memory back to the system. A thread that still
    /// reads a word sees its old value or zero.
    pub fn release(&self, depth: u32) {
        if self.arrays[depth as usize].get().is_some_and(|array| !array.give_back()) {
            for i in 0..1_u64 << depth {
                self.word(depth, i << (64 - depth)).store(0, Ordering::Release);
            }
        }
    }
}

impl Default for Levels {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_the_first_bits_stay_put_and_are_given_back() {
        let levels = Levels::new();
        for depth in [1, 2, 17, 20] {
            levels.make(depth).unwrap();
            let last = levels.word(depth, u64::MAX);
            assert_eq!(last.load(Ordering::Relaxed), 0);
            last.store(depth, Ordering::Relaxed);
            levels.word(depth, 0).store(7, Ordering::Relaxed);
            levels.make(depth).unwrap();
            levels.prefetch(depth, u64::MAX);
            let before = levels.word(depth, !(1 << (64 - depth)));
            assert!(!std::ptr::eq(before, last), "every bit of the depth counts");
            assert_eq!(levels.word(depth, u64::MAX).load(Ordering::Relaxed), depth);
            levels.release(depth);
            assert_eq!(levels.word(depth, 0).load(Ordering::Relaxed), 0);
            last.store(9, Ordering::Relaxed);
        }
        assert_eq!(levels.word(1, u64::MAX).load(Ordering::Relaxed), 9, "each for itself");
    }

    #[test]
    #[should_panic(expected = "no array of this depth")]
    fn an_array_that_was_not_made_has_no_words() {
        let _ = Levels::new().word(3, 0);
    }
}
