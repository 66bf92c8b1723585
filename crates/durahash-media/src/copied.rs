//! Room for words that are copied out of a medium at once.

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
/// let words = medium.region().at(64)?;
/// medium.store(medium.region().at(72)?, 0x0201);
/// let mut copied = CopiedWords::new();
/// assert!(copied.bytes().is_empty());
/// medium.copy_words(words, &mut copied);
/// assert_eq!(copied.bytes()[8..11], [1, 2, 0]);
/// # Ok::<(), durahash_media::Error>(())
/// ```
pub struct CopiedWords {
    words: MaybeUninit<[[u8; 8]; COPIED_WORDS]>,
    is_filled: bool,
}

impl CopiedWords {
    /// Room without words.
    #[inline(always)]
    #[must_use]
    pub const fn new() -> Self {
        CopiedWords { words: MaybeUninit::uninit(), is_filled: false }
    }

    /// The bytes of the words that were copied last; none before.
    #[inline(always)]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        if !self.is_filled {
            return &[];
        }
        // SAFETY: every byte was written before the flag was set.
        unsafe { self.words.assume_init_ref() }.as_flattened()
    }

    /// Copies words, each with a load of its own.
    #[inline(always)]
    pub(crate) fn fill(&mut self, src: &[PmU64; COPIED_WORDS], load: impl Fn(&PmU64) -> u64) {
        let words = self.words.as_mut_ptr().cast::<[u8; 8]>();
        for (i, word) in src.iter().enumerate() {
            // SAFETY: `i` is less than the number of words.
            unsafe { words.add(i).write(load(word).to_le_bytes()) };
        }
        self.is_filled = true;
    }

    /// The same with few instructions and stores: a processor has only so many of these under way, and while it
    /// waits for words it shall begin with the next lookup.
    #[inline(always)]
    pub(crate) fn fill_at_once(&mut self, src: &[PmU64; COPIED_WORDS]) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            // SAFETY: 256 bytes are there to be read, and as many to be written; SSE is part of the x86-64 baseline.
            // The compiler knows nothing of the loads but that they happen here, so another thread may store to the
            // words meanwhile. The processor keeps their order, as that of acquire loads.
            unsafe {
                std::arch::asm!(
                    "movups xmm0, [{src} + 0]",
                    "movups xmm1, [{src} + 16]",
                    "movups xmm2, [{src} + 32]",
                    "movups xmm3, [{src} + 48]",
                    "movups xmm4, [{src} + 64]",
                    "movups xmm5, [{src} + 80]",
                    "movups xmm6, [{src} + 96]",
                    "movups xmm7, [{src} + 112]",
                    "movups [{to} + 0], xmm0",
                    "movups [{to} + 16], xmm1",
                    "movups [{to} + 32], xmm2",
                    "movups [{to} + 48], xmm3",
                    "movups [{to} + 64], xmm4",
                    "movups [{to} + 80], xmm5",
                    "movups [{to} + 96], xmm6",
                    "movups [{to} + 112], xmm7",
                    "movups xmm0, [{src} + 128]",
                    "movups xmm1, [{src} + 144]",
                    "movups xmm2, [{src} + 160]",
                    "movups xmm3, [{src} + 176]",
                    "movups xmm4, [{src} + 192]",
                    "movups xmm5, [{src} + 208]",
                    "movups xmm6, [{src} + 224]",
                    "movups xmm7, [{src} + 240]",
                    "movups [{to} + 128], xmm0",
                    "movups [{to} + 144], xmm1",
                    "movups [{to} + 160], xmm2",
                    "movups [{to} + 176], xmm3",
                    "movups [{to} + 192], xmm4",
                    "movups [{to} + 208], xmm5",
                    "movups [{to} + 224], xmm6",
                    "movups [{to} + 240], xmm7",
                    src = in(reg) src.as_ptr(),
                    to = in(reg) self.words.as_mut_ptr(),
                    out("xmm0") _,
                    out("xmm1") _,
                    out("xmm2") _,
                    out("xmm3") _,
                    out("xmm4") _,
                    out("xmm5") _,
                    out("xmm6") _,
                    out("xmm7") _,
                    options(nostack, preserves_flags)
                );
            }
            self.is_filled = true;
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
    fn both_ways_copy_all_words() {
        let words = std::array::from_fn(|i| PmU64::new(0x0101_0101_0101_0101 * (i as u64 + 1)));
        let mut copied = [CopiedWords::new(), CopiedWords::new()];
        copied[0].fill(&words, PmU64::load);
        copied[1].fill_at_once(&words);
        let want: Vec<u8> = (1..=COPIED_WORDS as u8).flat_map(|byte| [byte; 8]).collect();
        assert!(copied.iter().all(|copied| copied.bytes() == want));
    }
}
