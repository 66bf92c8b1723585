//! Room for words that are copied out of a medium at once.

use std::hint::black_box;
use std::mem::MaybeUninit;

use crate::word::PmU64;

/// Words that are copied at once.
pub const COPIED_WORDS: usize = 32;

/// Room for the bytes of [`COPIED_WORDS`] words. It is not cleared before it is used.
///
/// ```
/// use durahash_media::{CopiedWords, Dram, Memory, Storage};
/// let medium = Dram::new(4096)?;
/// medium.grow(4096)?;
/// medium.store(medium.region().at(72)?, 0x0201);
/// let mut copied = CopiedWords::new();
/// assert!(copied.bytes().is_empty());
/// medium.copy_words(medium.region().words(64, 3)?, &mut copied);
/// assert_eq!(copied.bytes()[8..11], [1, 2, 0]);
/// # Ok::<(), durahash_media::Error>(())
/// ```
pub struct CopiedWords {
    words: MaybeUninit<[[u8; 8]; COPIED_WORDS]>,
    /// How many were copied.
    count: usize,
}

impl CopiedWords {
    /// Room without words.
    #[inline(always)]
    #[must_use]
    pub fn new() -> Self {
        // Of a constant the compiler would make a call that clears the room, too.
        CopiedWords { words: MaybeUninit::uninit(), count: black_box(0) }
    }

    /// The bytes of the words that were copied last; none before.
    #[inline(always)]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: so many words were written.
        let words = unsafe {
            std::slice::from_raw_parts(self.words.as_ptr().cast::<[u8; 8]>(), self.count)
        };
        words.as_flattened()
    }

    /// Copies words, each with a load of its own; at most as many as there is room for.
    #[inline(always)]
    pub(crate) fn fill(&mut self, src: &[PmU64], load: impl Fn(&PmU64) -> u64) {
        let words = self.words.as_mut_ptr().cast::<[u8; 8]>();
        // As many as are written, also if a load panics.
        self.count = 0;
        for (i, word) in src.iter().take(COPIED_WORDS).enumerate() {
            // SAFETY: `i` is less than the number of words.
            unsafe { words.add(i).write(load(word).to_le_bytes()) };
        }
        self.count = src.len().min(COPIED_WORDS);
    }

    /// The same with few instructions and stores: a processor has only so many of these under way, and while it
    /// waits for words it shall begin with the next lookup.
    #[inline(always)]
    pub(crate) fn fill_at_once(&mut self, src: &[PmU64]) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            /// Words that are copied by one step.
            const STEP: usize = 4;
            let count = src.len().min(COPIED_WORDS);
            let Some(last) = count.checked_sub(STEP) else {
                return self.fill(src, PmU64::load);
            };
            let to = self.words.as_mut_ptr().cast::<[u8; 8]>();
            let mut at = 0;
            loop {
                // SAFETY: so many words are there to be read, and to be written; SSE is part of the x86-64 baseline.
                // The compiler knows nothing of the loads but that they happen here, so another thread may store to
                // the words meanwhile. The processor keeps their order, as that of acquire loads.
                unsafe {
                    std::arch::asm!(
                        "movups xmm0, [{src}]",
                        "movups xmm1, [{src} + 16]",
                        "movups [{to}], xmm0",
                        "movups [{to} + 16], xmm1",
                        src = in(reg) src.as_ptr().add(at),
                        to = in(reg) to.add(at),
                        out("xmm0") _,
                        out("xmm1") _,
                        options(nostack, preserves_flags)
                    );
                }
                if at == last {
                    break;
                }
                // The last step may copy words for the second time.
                at = (at + STEP).min(last);
            }
            self.count = count;
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        self.fill(src, PmU64::load);
    }
}

impl Default for CopiedWords {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_copy_any_number_of_words() {
        let words: Vec<PmU64> = (1..=40).map(|i| PmU64::new(0x0101_0101_0101_0101 * i)).collect();
        for count in 0..=words.len() {
            let mut copied = [CopiedWords::new(), CopiedWords::new()];
            copied[0].fill(&words[..count], PmU64::load);
            copied[1].fill_at_once(&words[..count]);
            let want: Vec<u8> =
                (1..=count.min(COPIED_WORDS) as u8).flat_map(|byte| [byte; 8]).collect();
            assert!(copied.iter().all(|copied| copied.bytes() == want), "{count}");
        }
    }
}
