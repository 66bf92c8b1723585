//! REH on the medium: chains of buckets, and their slots.

use super::{BUCKET_WORDS, CHAINED, Image};

const LINK: usize = 30;
const PREFIX: usize = 31;

impl Image<'_> {
    pub(super) fn chain(&mut self) {
        match self.below(9) {
            0..=4 => self.sibling(),
            _ => self.slot(),
        }
    }

    /// Links and prefixes. One way keeps the chain sound: the last bucket becomes two, and so on.
    fn sibling(&mut self) {
        let Some((bucket, other)) = self.buckets() else { return };
        let link = self.words[bucket + LINK];
        let sibling = (other * 8) as u64;
        match self.below(6) {
            0 => self.change(bucket + LINK),
            1 => self.change(bucket + PREFIX),
            2 => self.words[bucket + LINK] = link & !0xffff | self.below(70) as u64,
            3 => self.words[bucket + LINK] = sibling << 16 | link & 0xffff,
            _ => {
                let depth = (link & 0xffff).clamp(1, 62);
                let prefix = self.words[bucket + PREFIX];
                self.words[other + PREFIX] = prefix | 1 << (63 - depth);
                self.words[other + LINK] = link.wrapping_add(1);
                self.words[bucket + LINK] = sibling << 16 | (depth + 1);
            }
        }
    }

    fn slot(&mut self) {
        let bucket = self.bucket();
        let slot = bucket + 2 * self.slot_number();
        if bucket + BUCKET_WORDS > self.words.len() {
            return;
        }
        let prefix = self.words[bucket + PREFIX];
        let depth = (self.words[bucket + LINK] & 0xffff).min(63);
        let other = bucket + 2 * self.slot_number();
        match self.below(7) {
            0 => self.change(slot),
            1 => self.words[slot] = prefix | self.rng.number() >> depth,
            2 => self.words[slot] = self.words[other],
            3 => self.change(slot + 1),
            4 => self.words[slot + 1] = self.words[other + 1],
            5 => self.words[slot + 1] ^= CHAINED,
            _ => self.words[slot + 1] = self.some_name(),
        }
    }
}
