//! Mutations of images that know what the words are: hostile values behind valid checksums.

mod lists;
mod pea;
mod reh;
mod rewo;

use durahash_media::hash::{ByteHash, WordMix};

use crate::Rng;

/// The word of design and kind.
const CONTENTS: usize = 3;
const TYPES_WORD: usize = 4;
const GEOMETRY: usize = 5;
const SEED: usize = 7;
const CRC: usize = 11;
const STATE: usize = 16;
const EXTENTS: usize = 19;
const SAVED: usize = 24;
/// The saved counter of records that hang on others.
const CHAINED_COUNTER: usize = 6;
const ROOT: usize = 32;
const TABLE: usize = 64;
const BUCKET_WORDS: usize = 32;
/// The flag of a name whose record has a next one.
const CHAINED: u64 = 1 << 63;
/// The offset in a name; the rest of it is of the record's checksum.
const OFFSET: u64 = (1 << 48) - 1;
/// Records that are put right because of one of their chain.
const RENAMED_MAX: usize = 4;

/// Tags of types are below this; the last is that of arrays.
const TYPES: usize = 16;
const ARRAY: u64 = 15;
/// Kinds of extents: of units, of a directory, and of records from this on.
const UNITS: u8 = 2;
const DIRECTORY: u8 = 3;
const RECORDS: u8 = 4;

/// Changes `image` in one way. `other` is another image, to copy from.
pub(crate) fn mutate_words(rng: &mut Rng, image: &mut Vec<u64>, other: &[u64]) {
    if image.len() < TABLE + 1 {
        image.push(rng.number());
        return;
    }
    let mut pool = Image { rng, words: image };
    match pool.rng.below(24) {
        0 => pool.change_one_of(0, pool.words.len()),
        1..=4 => pool.superblock(),
        5 | 6 => pool.kind(),
        7..=15 => pool.structure(),
        16..=20 => pool.object(),
        21 => pool.swap_extents(),
        22 => pool.copy(other),
        _ => pool.cut(),
    }
    pool.seal();
}

/// True if an image says that it is of a multimap.
pub(crate) fn is_multi(image: &[u64]) -> bool {
    image.get(CONTENTS).is_some_and(|contents| contents >> 8 & 0xff == 1)
}

struct Image<'a> {
    rng: &'a mut Rng,
    words: &'a mut Vec<u64>,
}

impl Image<'_> {
    /// The structures of a design.
    fn structure(&mut self) {
        match self.words[CONTENTS] & 0xff {
            2 => self.segment(),
            4 => self.tables(),
            _ => self.chain(),
        }
    }

    /// The objects that slots lead to.
    fn object(&mut self) {
        if is_multi(self.words) && self.below(2) == 0 {
            self.list();
        } else {
            self.record();
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound.max(1))
    }

    /// Words of an extent; those of the seeds have no others.
    fn extent_words(&self) -> usize {
        1 << ((self.words[GEOMETRY] & 0xff).clamp(10, 12) - 3)
    }

    fn extents(&self) -> usize {
        self.words.len() / self.extent_words()
    }

    fn kind_of(&self, extent: usize) -> u8 {
        let word = self.words.get(TABLE + extent / 8).copied().unwrap_or(0);
        word.to_le_bytes()[extent % 8]
    }

    /// The first word of an extent whose kind is `wanted`, or of any.
    fn extent(&mut self, wanted: impl Fn(u8) -> bool) -> usize {
        let count = self.extents();
        let fitting: Vec<usize> = (0..count).filter(|i| wanted(self.kind_of(*i))).collect();
        let extent =
            if fitting.is_empty() { self.below(count) } else { fitting[self.below(fitting.len())] };
        extent * self.extent_words()
    }

    /// The first word of a bucket.
    fn bucket(&mut self) -> usize {
        let buckets = self.extent_words() / BUCKET_WORDS;
        let from = self.extent(|kind| kind == UNITS);
        from + self.below(buckets) * BUCKET_WORDS
    }

    /// The first words of two buckets, if both are whole.
    fn buckets(&mut self) -> Option<(usize, usize)> {
        let (bucket, other) = (self.bucket(), self.bucket());
        (bucket.max(other) + BUCKET_WORDS <= self.words.len()).then_some((bucket, other))
    }

    /// The name of some record, mostly; or its offset with anything beside it.
    fn some_name(&mut self) -> u64 {
        let at = self.record_word();
        match self.below(4) {
            0 => (at * 8) as u64 | self.rng.number() & !OFFSET,
            _ => self.name(at),
        }
    }

    /// The number of a slot; more often than not one that small buckets have.
    fn slot_number(&mut self) -> usize {
        match self.below(4) {
            0 => self.below(15),
            _ => [0, 1, 2, 3, 7, 8][self.below(6)],
        }
    }

    /// Where a record may be: what a slot names, or the next of it, or anything.
    fn record_word(&mut self) -> usize {
        let mut named = 0;
        for _ in 0..8 {
            let slot = self.bucket() + 2 * self.slot_number() + 1;
            named = self.words.get(slot).map_or(0, |v| v & OFFSET) as usize / 8;
            if named != 0 {
                break;
            }
        }
        let next = self.words.get(named + 2).map_or(0, |v| v & OFFSET) as usize / 8;
        let from = self.extent(|kind| kind >= RECORDS);
        let anywhere = from + self.below(self.extent_words());
        let choice = [named, named, next, anywhere];
        choice[self.below(4)]
    }

    /// A word that is likely to be at an edge.
    fn edge(&mut self, old: u64) -> u64 {
        let r = self.rng.number();
        match self.below(10) {
            0 => 0,
            1 => u64::MAX,
            2 => old ^ 1 << (r % 64),
            3 => old.wrapping_add(1),
            4 => old.wrapping_sub(1),
            5 => 1 << (r % 64),
            6 => u64::MAX >> (r % 64),
            7 => r % (8 * self.words.len() as u64),
            8 => self.words[self.rng.below(self.words.len())],
            _ => r,
        }
    }

    fn change(&mut self, at: usize) {
        if let Some(&old) = self.words.get(at) {
            self.words[at] = self.edge(old);
        }
    }

    fn change_one_of(&mut self, from: usize, count: usize) {
        let at = from + self.below(count);
        self.change(at);
    }

    fn superblock(&mut self) {
        let at = match self.below(8) {
            0 => self.below(CRC),
            1 => STATE + self.below(3),
            2 => EXTENTS,
            3 => SAVED + self.below(8),
            4 => return self.words[SAVED + CHAINED_COUNTER] = self.below(10) as u64,
            5 => {
                // Only an array has a length.
                let tag = |tag: u64| if tag == ARRAY { tag | 5 << 8 } else { tag };
                let [key, value] = [0; 2].map(|_| tag(self.below(TYPES) as u64));
                return self.words[TYPES_WORD] = key | value << 32;
            }
            6 => return self.words[ROOT] = (self.bucket() / BUCKET_WORDS) as u64,
            _ => ROOT,
        };
        self.change(at);
    }

    fn kind(&mut self) {
        let extent = self.below(self.extents() + 1);
        let kind = match self.below(4) {
            0 => self.below(6) as u8,
            1 => 16 + self.below(12) as u8,
            2 => self.kind_of(extent) ^ 1 << self.below(8),
            _ => self.rng.number() as u8,
        };
        if let Some(word) = self.words.get_mut(TABLE + extent / 8) {
            let mut bytes = word.to_le_bytes();
            bytes[extent % 8] = kind;
            *word = u64::from_le_bytes(bytes);
        }
    }

    fn record(&mut self) {
        let at = self.record_word();
        if at + 3 > self.words.len() {
            return;
        }
        match self.below(7) {
            0 => self.change(at),
            1 => {
                let bytes = u64::from(u32::MAX) - self.below(64) as u64;
                let shift = 32 * self.below(2);
                self.words[at] = self.words[at] & !(0xffff_ffff << shift) | bytes << shift;
            }
            2 => self.words[at] = self.below(80) as u64 | (self.below(2000) as u64) << 32,
            3 => {
                let next = self.record_word();
                self.words[at + 2] = self.name(next);
            }
            4 => self.change(at + 2),
            5 => {
                // The same key and value once more in the chain.
                let next = (self.words[at + 2] & OFFSET) as usize / 8;
                if next.max(at) + 8 <= self.words.len() {
                    self.words[next] = self.words[at];
                    self.words.copy_within(at + 3..at + 8, next + 3);
                    self.seal_record(next, RENAMED_MAX);
                }
            }
            _ => self.change_one_of(at + 3, 8),
        }
        if self.below(5) > 0 {
            self.seal_record(at, RENAMED_MAX);
        }
    }

    /// The name of the record at word `at`.
    fn name(&self, at: usize) -> u64 {
        let [checksum, next] = self.words.get(at + 1..at + 3).map_or([0; 2], |v| [v[0], v[1]]);
        let chained = if next == 0 { 0 } else { CHAINED };
        (at * 8) as u64 | checksum << 48 & !CHAINED | chained
    }

    /// Puts the names right that lead to the record at word `at`, and the records that they are in.
    fn rename(&mut self, at: usize, left: usize) {
        let name = self.name(at);
        for i in 0..self.words.len() {
            if at == 0 || self.words[i] & OFFSET != name & OFFSET {
                continue;
            }
            match self.kind_of(i / self.extent_words()) {
                UNITS => self.words[i] = name,
                // A value of a list.
                RECORDS.. if is_multi(self.words) => self.words[i] = name,
                RECORDS.. if left > 0 && i >= 2 => {
                    self.words[i] = name;
                    self.seal_record(i - 2, left - 1);
                }
                _ => {}
            }
        }
    }

    /// Computes a record's checksum, where its lengths allow, and mostly makes its name agree.
    fn seal_record(&mut self, at: usize, left: usize) {
        let [lengths, _, next] = self.words[at..at + 3] else {
            return;
        };
        let (key, value) = (lengths as u32 as usize, (lengths >> 32) as usize);
        let bytes: Vec<u8> = self.words[at + 3..]
            .iter()
            .take((key + value).div_ceil(8))
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let Some((key, value)) = bytes.get(..key + value).map(|pair| pair.split_at(key)) else {
            return;
        };
        let (mix, hash) = (WordMix::new(self.words[SEED]), ByteHash::new(self.words[SEED]));
        let sum = mix.mix(hash.hash(value) ^ lengths);
        self.words[at + 1] = mix.mix(mix.mix(sum ^ hash.hash(key)) ^ next);
        if self.below(8) > 0 {
            self.rename(at, left);
        }
    }

    fn swap_extents(&mut self) {
        let (a, b) = (self.extent(|_| true), self.extent(|_| true));
        for i in 0..self.extent_words() {
            if a.max(b) + i < self.words.len() {
                self.words.swap(a + i, b + i);
            }
        }
    }

    fn copy(&mut self, other: &[u64]) {
        let from = self.below(other.len());
        let count = self.below(64).min(other.len() - from);
        let at = self.below(self.words.len());
        let count = count.min(self.words.len() - at);
        self.words[at..at + count].copy_from_slice(&other[from..from + count]);
    }

    fn cut(&mut self) {
        let (words, len) = (self.extent_words(), self.words.len());
        let len = match self.below(3) {
            0 => len + words,
            1 => len.saturating_sub(words).max(TABLE + 1),
            _ => TABLE + 1 + self.below(len - TABLE),
        };
        self.words.resize(len, 0);
    }

    /// Puts most checksums of the superblock right.
    fn seal(&mut self) {
        let crc = |words: &[u64]| {
            let mut crc = crc32fast::Hasher::new();
            for word in words {
                crc.update(&word.to_le_bytes());
            }
            u64::from(crc.finalize())
        };
        if self.below(16) > 0 {
            self.words[CRC] = crc(&self.words[..CRC]);
        }
        if self.below(2) > 0 {
            let state = self.words[STATE];
            let counters = &self.words[SAVED..SAVED + 7];
            self.words[SAVED + 7] = crc(&[counters, &[state]].concat());
        }
    }
}
