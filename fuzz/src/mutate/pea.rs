//! Pea Hash on the medium: the directory's words, and buckets of segments.

use durahash_media::hash::{WordMix, fingerprint};

use super::{CHAINED, DIRECTORY, Image, ROOT, SEED, UNITS, is_multi};

/// Slots stand behind the head.
const SLOTS: usize = 2;
const SUM_SHIFT: u32 = 46;
/// Stands for a prefix in the root's check sum.
const ROOT_PREFIX: u64 = u64::MAX;
/// The deepest directory that is thought to be there.
const DEPTH_MAX: u64 = 20;

impl Image<'_> {
    pub(super) fn segment(&mut self) {
        match self.below(9) {
            0..=3 => self.directory(),
            4 | 5 => self.head(),
            _ => self.entry(),
        }
    }

    pub(super) fn mix(&self) -> WordMix {
        WordMix::new(self.words[SEED])
    }

    /// A word of the directory with a right check sum.
    fn seal_word(&self, word: u64, prefix: u64) -> u64 {
        let (mix, word) = (self.mix(), word & ((1 << SUM_SHIFT) - 1));
        word | mix.mix(mix.mix(prefix) ^ word) >> SUM_SHIFT << SUM_SHIFT
    }

    /// Depth and first word of the array.
    fn array(&self) -> (u64, usize) {
        let root = self.words[ROOT];
        let extent = (root >> 8 & ((1 << 38) - 1)) as usize;
        ((root & 63).clamp(1, DEPTH_MAX), extent.saturating_mul(self.extent_words()))
    }

    /// A place in the array where a segment may begin, and the prefix of that.
    fn at_in_array(&mut self) -> (usize, u64) {
        let (depth, array) = self.array();
        let mut i = self.below(1 << depth);
        // Words that count stand at multiples of large powers of two.
        i &= usize::MAX << self.below(depth as usize + 1);
        (array.saturating_add(i), (i as u64) << (64 - depth))
    }

    /// Fields of one word, behind a check sum that is mostly right.
    fn field(&mut self, word: u64) -> u64 {
        match self.below(6) {
            0 => word & !63 | self.below(64) as u64,
            1 => word & !63 | (word & 63).wrapping_add(1) & 63,
            2 => word & !63 | (word & 63).wrapping_sub(1) & 63,
            3 => word & !0xc0 | (self.below(4) as u64) << 6,
            4 => {
                let kind = [UNITS, UNITS, DIRECTORY, 0][self.below(4)];
                let extent = self.extent(|of| of == kind) / self.extent_words();
                word & 0xff | (extent as u64) << 8
            }
            _ => self.edge(word),
        }
    }

    fn directory(&mut self) {
        let (at, prefix) = match self.below(4) {
            0 => (ROOT, ROOT_PREFIX),
            _ => self.at_in_array(),
        };
        let Some(&word) = self.words.get(at) else {
            return;
        };
        match self.below(8) {
            0 => self.change(at),
            1 => {
                let (other, _) = self.at_in_array();
                let word = self.words.get(other).copied().unwrap_or(0);
                self.words[at] = self.seal_word(word, prefix);
            }
            2 => self.double(),
            3 => self.split(at, prefix),
            _ => {
                let word = self.field(word);
                self.words[at] = self.seal_word(word, prefix);
            }
        }
    }

    /// The array doubles where it is. That keeps it sound, if the extent is large enough.
    fn double(&mut self) {
        let (depth, array) = self.array();
        let count = 1 << depth;
        if array.saturating_add(2 * count) > self.words.len() {
            return;
        }
        for i in (0..count).rev() {
            self.words[array + 2 * i] = self.words[array + i];
        }
        self.words[ROOT] = self.seal_word(self.words[ROOT].wrapping_add(1), ROOT_PREFIX);
    }

    /// A segment becomes two, of which the second is any.
    fn split(&mut self, at: usize, prefix: u64) {
        let (depth, _) = self.array();
        let local = self.words[at] & 63;
        if prefix == ROOT_PREFIX || local == 0 || local >= depth {
            return;
        }
        let sibling = at + (1 << (depth - local - 1));
        if sibling >= self.words.len() {
            return;
        }
        let word = self.words[at].wrapping_add(1);
        let extent = self.extent(|kind| kind == UNITS) / self.extent_words();
        let other = word & 0xff | (extent as u64) << 8;
        self.words[at] = self.seal_word(word, prefix);
        self.words[sibling] = self.seal_word(other, prefix | 1 << (63 - local));
    }

    /// Where the bits of live slots begin, and the bytes of fingerprints.
    fn bits(&self) -> (u32, usize) {
        if is_multi(self.words) { (0, 4) } else { (1, 2) }
    }

    /// Says that slot `i` is live, with the right fingerprint.
    fn enliven(&mut self, bucket: usize, i: usize) {
        let (bit, byte) = self.bits();
        self.words[bucket] |= 1 << (i as u32 + bit);
        let at = i + byte;
        if at < 16 {
            let byte = fingerprint(self.words[bucket + SLOTS + 2 * i]);
            let (word, shift) = (bucket + at / 8, at % 8 * 8);
            self.words[word] = self.words[word] & !(0xff << shift) | u64::from(byte) << shift;
        }
    }

    fn head(&mut self) {
        let Some((bucket, other)) = self.buckets() else { return };
        let i = self.slot_number();
        match self.below(6) {
            0 => self.change(bucket),
            1 => self.change(bucket + 1),
            2 => self.words[bucket] ^= 1 << self.below(32),
            3 => self.enliven(bucket, i),
            4 if is_multi(self.words) => {
                self.enliven(bucket, i);
                self.words[bucket] ^= 1 << (16 + i);
            }
            _ => self.words.copy_within(other..other + 2, bucket),
        }
    }

    /// A slot and its bits in the head.
    fn entry(&mut self) {
        let Some((bucket, other)) = self.buckets() else { return };
        let i = self.slot_number();
        let slot = bucket + SLOTS + 2 * i;
        let from = [bucket, bucket, other][self.below(3)] + SLOTS + 2 * self.slot_number();
        match self.below(8) {
            0 => self.change(slot),
            // The same bits in front lead to the same segment.
            1 => self.words[slot] ^= self.rng.number() >> (8 + self.rng.below(56)),
            2 => self.words.copy_within(from..from + 2, slot),
            3 => self.words[slot] = self.words[from],
            4 => self.change(slot + 1),
            5 => self.words[slot + 1] = self.words[from + 1],
            6 => self.words[slot + 1] ^= CHAINED,
            _ => self.words[slot + 1] = self.some_name(),
        }
        if self.below(4) > 0 {
            self.enliven(bucket, i);
        }
    }
}
