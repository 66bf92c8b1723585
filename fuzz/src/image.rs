//! Images of pools, as inputs.

use crate::Rng;

/// Bytes that a pool of the seeds may grow to.
pub(crate) const MAX_BYTES: u64 = 256 << 10;
pub(crate) const SEED: u64 = 7;

pub(crate) fn input(types: u8, rng: &mut Rng, image: &[u64]) -> Vec<u8> {
    let head = [u64::from(types), rng.number()];
    let all = head.iter().chain(image);
    all.flat_map(|word| word.to_le_bytes()).collect()
}
