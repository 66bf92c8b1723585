//! One byte against sixteen: the search for a fingerprint.
//!
//! The sixteen bytes come as two words that were already loaded from their atomics, so a back end
//! never touches memory that others write: byte `i` is byte `i % 8`, counted from the least
//! significant, of word `i / 8`. Three back ends give the same answer under the same name; the
//! target decides at compile time which one is used.

mod generic;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod sse2;

// Big-endian aarch64 numbers the lanes of a vector otherwise; it takes the portable way.
#[cfg(not(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little")
)))]
use generic as backend;
#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use neon as backend;
#[cfg(target_arch = "x86_64")]
use sse2 as backend;

/// A set of positions 0 to 15: an iterator over them, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitMask(pub u16);

impl BitMask {
    /// True if no position is in the set.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest position in the set.
    #[inline(always)]
    #[must_use]
    pub fn lowest(self) -> Option<u32> {
        (self.0 != 0).then(|| self.0.trailing_zeros())
    }
}

impl Iterator for BitMask {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let lowest = self.lowest()?;
        self.0 &= self.0 - 1;
        Some(lowest)
    }
}

/// The positions at which `words` hold `byte`.
#[inline(always)]
#[must_use]
pub fn match_byte(words: [u64; 2], byte: u8) -> BitMask {
    BitMask(backend::match_byte(words, byte))
}

/// The positions at which the sixteen half bytes of `word` are `nibble`, counted from the lowest.
#[inline(always)]
#[must_use]
pub const fn match_nibble(word: u64, nibble: u8) -> BitMask {
    const LOWEST: u64 = 0x1111_1111_1111_1111;
    let differs = word ^ ((nibble as u64 & 0xf) * LOWEST);
    let differs = differs | differs >> 2;
    let mut equal = !(differs | differs >> 1) & LOWEST;
    // The bits of sixteen half bytes next to each other.
    equal = (equal | equal >> 3) & 0x0303_0303_0303_0303;
    equal = (equal | equal >> 6) & 0x000f_000f_000f_000f;
    equal = (equal | equal >> 12) & 0x0000_00ff_0000_00ff;
    BitMask((equal | equal >> 24) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn naive(words: [u64; 2], byte: u8) -> u16 {
        let bytes = words.map(u64::to_le_bytes);
        (0..16).fold(0, |mask, i| mask | u16::from(bytes[i / 8][i % 8] == byte) << i)
    }

    fn agree(words: [u64; 2], byte: u8) {
        let want = naive(words, byte);
        assert_eq!(generic::match_byte(words, byte), want, "{words:x?} {byte:#x}");
        assert_eq!(match_byte(words, byte).0, want, "{words:x?} {byte:#x}");
    }

    #[test]
    fn every_byte_at_every_position_over_close_backgrounds() {
        for byte in 0..=u8::MAX {
            // Neighbours by one bit or by a carry are what a back end would confuse.
            for other in [0, 1, 0x7f, 0x80, 0xff, byte ^ 1, byte ^ 0x80, !byte, byte] {
                let background = u64::from_le_bytes([other; 8]);
                agree([background; 2], byte);
                for i in 0..16 {
                    let mut words = [background; 2];
                    let shift = i % 8 * 8;
                    words[i / 8] &= !(0xff << shift);
                    words[i / 8] |= u64::from(byte) << shift;
                    agree(words, byte);
                }
            }
        }
    }

    #[test]
    fn every_set_of_positions() {
        for set in 0..=u16::MAX {
            for (byte, other) in [(0, 1), (0xff, 0), (0x80, 0x81), (7, 6)] {
                let word = |bits: u16| {
                    u64::from_le_bytes(std::array::from_fn(|i| {
                        if bits >> i & 1 == 1 { byte } else { other }
                    }))
                };
                let words = [word(set & 0xff), word(set >> 8)];
                agree(words, byte);
                assert_eq!(match_byte(words, byte).0, set);
            }
        }
    }

    #[test]
    fn every_half_byte_at_every_position() {
        for nibble in 0..16_u8 {
            for other in 0..16 {
                for i in 0..16 {
                    let background = 0x1111_1111_1111_1111 * other;
                    let word = background & !(0xf << (i * 4)) | u64::from(nibble) << (i * 4);
                    let all = if other == u64::from(nibble) { u16::MAX } else { 1 << i };
                    assert_eq!(match_nibble(word, nibble).0, all);
                }
            }
        }
        assert_eq!(match_nibble(0x0123_4567_89ab_cdef, 0xf).0, 1);
        assert_eq!(match_nibble(0x0123_4567_89ab_cdef, 0x0).0, 1 << 15);
    }

    #[test]
    fn a_mask_gives_its_positions_from_the_lowest() {
        let mask = BitMask(0b1000_0000_0010_0001);
        assert_eq!(mask.lowest(), Some(0));
        assert_eq!(mask.collect::<Vec<_>>(), [0, 5, 15]);
        assert!(BitMask(0).is_empty());
        assert_eq!(BitMask(0).next(), None);
    }
}
