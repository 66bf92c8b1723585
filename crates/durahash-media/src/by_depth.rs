//! Arrays of `2^depth` words, one for each depth: the parts of a directory in DRAM.

use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::error::Result;
use crate::zeroed::Zeroed;

/// A word of [`ByDepth`] or [`Reserved`](crate::Reserved): `u8`, `u32` or `u64`, which is an atomic in memory.
pub trait DepthWord: Copy + Eq + Into<u64> + sealed::Sealed {
    /// The word in memory.
    type Atomic: Send + Sync;

    /// The words of a new array.
    const ZERO: Self;

    /// The largest value.
    const MAX: Self;

    /// A number that is not too large.
    fn from_u64(v: u64) -> Self;

    /// Acquire load.
    fn load(word: &Self::Atomic) -> Self;

    /// Release store.
    fn store(self, word: &Self::Atomic);
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! depth_word {
    ($($word:ident, $atomic:ident;)*) => {$(
        impl sealed::Sealed for $word {}

        impl DepthWord for $word {
            type Atomic = $atomic;

            const ZERO: Self = 0;
            const MAX: Self = $word::MAX;

            #[inline(always)]
            fn from_u64(v: u64) -> Self {
                debug_assert!(v <= u64::from($word::MAX), "too large for a word");
                v as $word
            }

            #[inline(always)]
            fn load(word: &$atomic) -> Self {
                word.load(Ordering::Acquire)
            }

            #[inline(always)]
            fn store(self, word: &$atomic) {
                word.store(self, Ordering::Release);
            }
        }
    )*};
}

depth_word! {
    u8, AtomicU8;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// An array of words for each depth, indexed by the first `depth` bits of a hash.
///
/// Arrays are made one by one, all zero, and never move: a word may be read while others are made.
pub struct ByDepth<W: DepthWord> {
    /// Where the array of each depth begins, so that a lookup needs one load to know. There is one
    /// for each value of six bits, so that no index is out of range.
    starts: [AtomicPtr<W::Atomic>; 64],
    arrays: Box<[OnceLock<Zeroed>]>,
}

impl<W: DepthWord> ByDepth<W> {
    /// The largest depth.
    pub const MAX_DEPTH: u32 = 44;

    /// No arrays yet.
    #[must_use]
    pub fn new() -> Self {
        ByDepth {
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
            drop(array.set(Zeroed::new(1 << depth, size_of::<W::Atomic>() as u64)?));
        }
        let array = array.get().expect("made by the first thread");
        // Every thread stores it: the first may not have got here yet.
        self.starts[depth as usize].store(array.base().as_ptr().cast(), Ordering::Release);
        Ok(())
    }

    /// The word of `h` at a depth.
    ///
    /// # Panics
    /// Where no array was made for it.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, depth: u32, h: u64) -> &W::Atomic {
        let start = self.starts[(depth % 64) as usize].load(Ordering::Acquire);
        assert!(!start.is_null(), "no array of this depth");
        // SAFETY: an array that begins somewhere has `2^depth` words, and the index has `depth`
        // bits; it stays there as long as `self`. `DepthWord` is sealed, so a word is an atomic
        // integer, for which zeros are valid and lines well aligned.
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
                W::ZERO.store(self.word(depth, i << (64 - depth)));
            }
        }
    }
}

impl<W: DepthWord> Default for ByDepth<W> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_are_found<W: DepthWord + std::fmt::Debug>() {
        let levels = ByDepth::<W>::new();
        let [seven, nine] = [7, 9].map(W::from_u64);
        for depth in [1, 2, 17, 20] {
            levels.make(depth).unwrap();
            let (first, last) = (levels.word(depth, 0), levels.word(depth, u64::MAX));
            assert_eq!(W::load(last), W::ZERO);
            W::MAX.store(last);
            seven.store(first);
            levels.make(depth).unwrap();
            levels.prefetch(depth, u64::MAX);
            let before = levels.word(depth, !(1 << (64 - depth)));
            assert!(!std::ptr::eq(before, last), "every bit of the depth counts");
            assert_eq!(W::load(levels.word(depth, u64::MAX)), W::MAX);
            assert_eq!(W::load(levels.word(depth, 0)), seven);
            levels.release(depth);
            assert_eq!([first, last].map(W::load), [W::ZERO; 2]);
            nine.store(last);
        }
        assert_eq!(W::load(levels.word(1, u64::MAX)), nine, "each for itself");
    }

    #[test]
    fn words_are_found_by_the_first_bits_stay_put_and_are_given_back() {
        words_are_found::<u32>();
        words_are_found::<u64>();
    }

    #[test]
    #[should_panic(expected = "no array of this depth")]
    fn an_array_that_was_not_made_has_no_words() {
        let _ = ByDepth::<u32>::new().word(3, 0);
    }
}
