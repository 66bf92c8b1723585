//! Rewo-Hash on the medium: a block that names tables, and their buckets.

use durahash_media::hash::WordMix;

use super::{BUCKET_WORDS, Image, ROOT, SEED, UNITS};

/// Words of a block that its check sum is of.
const BLOCK_WORDS: usize = 20;
/// Its entries of tables.
const ENTRY: usize = 2;
const ENTRIES: usize = 18;
/// Bits of a root word, or of a commit word, that say something.
const ROOT_BITS: u32 = 46;
const SLOTS: u32 = 15;

impl Image<'_> {
    pub(super) fn tables(&mut self) {
        match self.below(9) {
            0..=3 => self.block(),
            4..=6 => self.commit(),
            _ => self.cuckoo_slot(),
        }
    }

    fn remix(&self) -> WordMix {
        WordMix::new(!self.words[SEED])
    }

    /// The block, and the root, with their check sums put right.
    fn block(&mut self) {
        let number = self.words[ROOT] & ((1 << ROOT_BITS) - 1);
        let at = (number as usize).wrapping_mul(BUCKET_WORDS);
        if at.checked_add(BUCKET_WORDS).is_none_or(|end| end > self.words.len()) {
            return;
        }
        let entry = at + ENTRY + self.below(ENTRIES);
        let unit = (self.extent(|kind| kind == UNITS) / self.extent_words()) as u64;
        match self.below(8) {
            0 => self.change_one_of(at, BLOCK_WORDS),
            1 => self.words[at] = self.words[at] & !7 | self.below(8) as u64,
            2 => self.words[at] = self.words[at] & 7 | (self.below(18) as u64) << 3,
            3 => self.words[at + 1] = self.below(20) as u64,
            4 => self.words[entry] = unit << 8 | self.below(4) as u64,
            5 => self.words[entry] = 0,
            6 => self.words[entry] ^= 1 << self.below(12),
            _ => {
                // One table more, and a resize.
                let count = (self.words[at] >> 3) as usize & 31;
                if count < ENTRIES - 2 {
                    self.words[at + ENTRY + count] = unit << 8;
                    self.words[at] = (count as u64 + 1) << 3 | self.below(3) as u64;
                }
            }
        }
        let mix = self.remix();
        let words = self.words[at..at + BLOCK_WORDS].iter();
        self.words[at + BLOCK_WORDS] = words.fold(0, |sum, word| mix.mix(mix.mix(sum) ^ word));
        if self.below(8) == 0 {
            let other = number ^ 1 << self.below(3);
            self.words[ROOT] = other | mix.mix(other) >> ROOT_BITS << ROOT_BITS;
        }
    }

    /// Live slots and those that are leaving, with the parity put right.
    fn commit(&mut self) {
        let bucket = self.bucket();
        if bucket + BUCKET_WORDS > self.words.len() {
            return;
        }
        let (i, j) = (self.slot_number() as u32, self.slot_number() as u32);
        let word = match self.below(4) {
            0 => self.words[bucket] ^ 1 << i,
            1 => self.words[bucket] ^ 1 << (SLOTS + i),
            2 => self.words[bucket] | 1 << i | 1 << (SLOTS + j),
            _ => self.words[bucket] ^ 1 << i ^ 1 << (SLOTS + i),
        };
        self.set_commit(bucket, word);
    }

    fn set_commit(&mut self, bucket: usize, word: u64) {
        let word = word & ((1 << (2 * SLOTS)) - 1);
        self.words[bucket] = word | u64::from(word.count_ones() % 2) << 63;
    }

    /// A slot, with its fingerprint; often one that is in another bucket, too.
    fn cuckoo_slot(&mut self) {
        let Some((bucket, other)) = self.buckets() else { return };
        let i = self.slot_number();
        let slot = bucket + 2 + 2 * i;
        let from = other + 2 + 2 * self.slot_number();
        match self.below(6) {
            0 => self.change(slot),
            1 => self.change(slot + 1),
            2 => self.change(bucket + 1),
            3 => self.words[slot] = self.words[from],
            4 => self.words[slot + 1] = self.some_name(),
            _ => {
                self.words.copy_within(from..from + 2, slot);
                self.set_commit(bucket, self.words[bucket] | 1 << i);
            }
        }
        let nibble = self.words[slot] & 0xf;
        self.words[bucket + 1] = self.words[bucket + 1] & !(0xf << (4 * i)) | nibble << (4 * i);
    }
}
