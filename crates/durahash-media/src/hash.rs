//! The frozen hashes that pools are built on, and the bits of a hash that designs draw from.
//!
//! Both hashes are seeded per pool, and their outputs are part of the format: they never change.
//! Integers go through [`WordMix`], a bijection, so that two keys never share a hash and the key
//! comes back out of it. Byte strings go through [`ByteHash`].

use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};

/// Odd, and well spread: Evensen's constant for xorshift-multiply finalisers.
const MULTIPLIER: u64 = 0x0e98_46af_9b1a_615d;
const INVERSE: u64 = inverse(MULTIPLIER);

/// The inverse of an odd number modulo 2^64, by Newton: each round doubles the bits that are right.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut round = 0;
    while round < 6 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        round += 1;
    }
    x
}

/// The `i`-th number drawn from a seed (SplitMix64).
const fn draw(seed: u64, i: u64) -> u64 {
    let mut x = seed.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A seeded bijection of 64-bit words that spreads every input bit over all output bits.
///
/// ```
/// use durahash_media::hash::WordMix;
/// let mix = WordMix::new(7);
/// assert_eq!(mix.unmix(mix.mix(42)), 42);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WordMix {
    before: u64,
    between: u64,
}

impl WordMix {
    /// The bijection of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        WordMix { before: draw(seed, 1), between: draw(seed, 2) }
    }

    /// The hash of `word`.
    #[inline(always)]
    #[must_use]
    pub const fn mix(&self, word: u64) -> u64 {
        let mut x = word ^ self.before;
        x ^= x >> 32;
        x = x.wrapping_mul(MULTIPLIER);
        x ^= x >> 32;
        x ^= self.between;
        x = x.wrapping_mul(MULTIPLIER);
        x ^ (x >> 28)
    }

    /// The word whose hash is `h`.
    #[inline(always)]
    #[must_use]
    pub const fn unmix(&self, h: u64) -> u64 {
        let mut x = h ^ (h >> 28) ^ (h >> 56);
        x = x.wrapping_mul(INVERSE);
        x ^= self.between;
        x ^= x >> 32;
        x = x.wrapping_mul(INVERSE);
        x ^= x >> 32;
        x ^ self.before
    }
}

/// The seeded hash of byte strings: rapidhash v3, its secrets drawn from the seed as well.
#[derive(Clone, Debug)]
pub struct ByteHash(RapidSecrets);

impl ByteHash {
    /// The hash of `seed`. Keep it: the secrets are drawn here, not at each use.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        ByteHash(RapidSecrets::seed(seed))
    }

    /// The hash of `bytes`.
    #[inline]
    #[must_use]
    pub const fn hash(&self, bytes: &[u8]) -> u64 {
        rapidhash_v3_seeded(bytes, &self.0)
    }
}

/// The first `depth` bits of a hash, as a number: what a directory of that depth is indexed by.
/// `depth` is at most 63.
#[inline(always)]
#[must_use]
pub const fn prefix(h: u64, depth: u32) -> u64 {
    // Two shifts, because one by 64 is not defined.
    (h >> 1) >> (63 - depth)
}

/// The lowest eight bits of a hash, compared before the whole.
#[inline(always)]
#[must_use]
pub const fn fingerprint(h: u64) -> u8 {
    h as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_frozen() {
        let mix = WordMix::new(0x5eed);
        let words = [0, 1, 42, u64::MAX].map(|w| mix.mix(w));
        let want = [
            0x6535_0d94_ae11_9b9e,
            0x30b6_5dda_7c92_994f,
            0x5792_ca9d_e9fb_8727,
            0x28af_8264_ea63_9f98,
        ];
        assert_eq!(words, want, "{words:#018x?}");
        let hash = ByteHash::new(0x5eed);
        let long: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let bytes =
            [&b""[..], b"a", b"durahash", b"a key of 17 bytes", &long].map(|b| hash.hash(b));
        let want = [
            0x44b7_968c_42ec_e604,
            0x0256_d99d_bfa5_f6c4,
            0x1507_d26d_6740_3300,
            0x73db_03f9_91f0_8e48,
            0x6a91_4f8c_b935_57c9,
        ];
        assert_eq!(bytes, want, "{bytes:#018x?}");
    }

    #[test]
    fn the_mix_is_a_bijection() {
        for seed in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let mix = WordMix::new(seed);
            for i in 0..64 {
                for word in [1 << i, (1u64 << i) - 1, !(1 << i), draw(seed, i)] {
                    assert_eq!(mix.unmix(mix.mix(word)), word);
                    assert_eq!(mix.mix(mix.unmix(word)), word);
                }
            }
        }
    }

    /// Flipping an input bit flips every output bit half of the time, also for the small numbers
    /// that keys often are.
    #[test]
    fn the_mix_avalanches() {
        const SAMPLES: u64 = 8192;
        let mix = WordMix::new(1);
        for spread in [1, 0x9e37_79b9_7f4a_7c15] {
            for input in 0..64 {
                let mut flips = [0u64; 64];
                for i in 0..SAMPLES {
                    let word = u64::wrapping_mul(i, spread);
                    let changed = mix.mix(word) ^ mix.mix(word ^ 1 << input);
                    for (bit, count) in flips.iter_mut().enumerate() {
                        *count += changed >> bit & 1;
                    }
                }
                for (output, count) in flips.iter().enumerate() {
                    let share = *count as f64 / SAMPLES as f64;
                    assert!((0.42..0.58).contains(&share), "{input} -> {output}: {share}");
                }
            }
        }
    }

    #[test]
    fn another_seed_is_another_hash() {
        for word in 0..100 {
            assert_ne!(WordMix::new(1).mix(word), WordMix::new(2).mix(word));
        }
        assert_ne!(ByteHash::new(1).hash(b""), ByteHash::new(2).hash(b""));
        assert_ne!(ByteHash::new(1).hash(b"key"), ByteHash::new(2).hash(b"key"));
    }

    #[test]
    fn prefix_and_fingerprint_take_opposite_ends() {
        let h = 0xa000_0000_0000_00ff;
        assert_eq!(prefix(h, 0), 0);
        assert_eq!(prefix(h, 1), 1);
        assert_eq!(prefix(h, 4), 0xa);
        assert_eq!(prefix(h, 63), h >> 1);
        assert_eq!(fingerprint(h), 0xff);
    }
}
