//! Maps by addresses, and by hashes of keys.

use std::hash::{BuildHasherDefault, Hasher};

/// For keys of one word that is an address or a hash: a client looks several up for each operation, and a hash that resists
/// chosen keys takes as long as all else that the operation does with the map. A node that chose its addresses to make its
/// clients slow could as well not answer; the hashes of keys have the seed of the index, to be chosen where keys come from others
/// ([`Options::seed`](super::Options::seed)).
pub(super) type Spread = BuildHasherDefault<Word>;

/// Odd, and well spread.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Default)]
pub(super) struct Word(u64);

impl Hasher for Word {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, word: u64) {
        // Both halves: a map takes the lowest bits and the highest, and addresses and hashes of one segment differ in some.
        let product = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
