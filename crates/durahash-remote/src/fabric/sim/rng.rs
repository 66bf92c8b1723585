//! Random numbers by seed: xorshift64* over a mixed seed, which is enough to choose schedules.

#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Rng((z ^ (z >> 31)).max(1))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number up to `max`, of any magnitude: small ones are as frequent as large ones.
    pub(super) fn magnitude(&mut self, max: u64) -> u64 {
        let shift = self.below(u64::from(64 - max.leading_zeros()) + 1);
        self.below((max >> shift).saturating_add(1))
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }
}
