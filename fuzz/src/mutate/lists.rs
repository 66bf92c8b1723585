//! Lists of value buffers, which multimaps have behind a slot.

use super::{BUCKET_WORDS, Image, OFFSET, RECORDS};

/// Words of a buffer before its values.
const STATE: usize = 0;
const NEXT: usize = 1;
const SEAL: usize = 2;
const NUMBER: usize = 3;
const HEADER: usize = 4;

/// A list as a slot names it.
struct List {
    /// The slot.
    slot: usize,
    /// The word that names the buffer: of the slot, or of the buffer before.
    link: usize,
    /// Where the buffer is.
    at: usize,
}

impl Image<'_> {
    /// Any buffer of a list.
    fn any_list(&mut self) -> Option<List> {
        for _ in 0..32 {
            let bucket = self.bucket();
            if bucket + BUCKET_WORDS > self.words.len() {
                continue;
            }
            let i = self.slot_number();
            let head = self.words[bucket];
            if head & head >> 16 & 1 << i == 0 {
                continue;
            }
            let slot = bucket + 2 + 2 * i;
            let mut link = slot + 1;
            for _ in 0..self.below(4) {
                let next = (self.words[link] & OFFSET) as usize / 8 + NEXT;
                if self.words.get(next).is_some_and(|next| *next != 0) {
                    link = next;
                }
            }
            let at = (self.words[link] & OFFSET) as usize / 8;
            if at + HEADER < self.words.len() {
                return Some(List { slot, link, at });
            }
        }
        None
    }

    /// The name of the buffer at word `at`.
    fn buffer_name(&self, at: usize) -> u64 {
        let seal = self.words.get(at + SEAL).copied().unwrap_or(0);
        (at * 8) as u64 | seal & !OFFSET
    }

    /// Makes the buffer at word `at` one of hash `h`.
    fn seal_buffer(&mut self, h: u64, at: usize) {
        let mix = self.mix();
        let seal = mix.mix(mix.mix(mix.mix(h) ^ self.words[at + NUMBER]) ^ (at * 8) as u64);
        self.words[at + SEAL] = seal;
        self.seal_state(at);
    }

    /// Puts the check sum of a buffer's state right.
    fn seal_state(&mut self, at: usize) {
        let state = self.words[at + STATE] & ((1 << 40) - 1);
        let sum = self.mix().mix(self.words[at + SEAL] ^ state) >> 40 << 40;
        self.words[at + STATE] = state | sum;
    }

    pub(super) fn list(&mut self) {
        let (Some(list), Some(other)) = (self.any_list(), self.any_list()) else {
            let at = self.extent(|kind| kind >= RECORDS);
            return self.change(at);
        };
        let List { slot, link, at } = list;
        let h = self.words[slot];
        match self.below(14) {
            0 => self.change_one_of(at, HEADER),
            1 => self.change(link),
            2..=4 => {
                let count = self.words[at] & 0xf_ffff;
                let (count, missing) = match self.below(5) {
                    0 => (count + 1, 0),
                    1 => (count.saturating_sub(1), 0),
                    2 => (count, self.below(count as usize + 2) as u64),
                    3 => (self.below(200) as u64, 0),
                    _ => (count, self.below(200) as u64),
                };
                self.words[at + STATE] = count | missing << 20;
                self.seal_state(at);
            }
            5 => self.words[at + NEXT] = self.buffer_name(at),
            6 | 7 => self.words[at + NEXT] = self.buffer_name(other.at),
            8 => {
                // Of this hash too, and behind this buffer: two lists may lead there.
                self.seal_buffer(h, other.at);
                self.words[at + NEXT] = self.buffer_name(other.at);
                if self.below(2) == 0 {
                    self.words[other.link] = self.buffer_name(other.at);
                }
            }
            9 => self.words[link] = self.buffer_name(other.at),
            10 => {
                // A buffer in the middle of another, or in a block of another size.
                let inside = self.extent(|kind| kind >= RECORDS) + 4 * self.below(256);
                if inside + HEADER < self.words.len() {
                    self.words.copy_within(at..at + HEADER, inside);
                    self.seal_buffer(h, inside);
                    self.words[link] = self.buffer_name(inside);
                }
            }
            11 => self.change_one_of(at + HEADER, 8),
            12 => {
                let (from, to) = (at + HEADER + self.below(8), at + HEADER + self.below(8));
                if from.max(to) < self.words.len() {
                    self.words[to] = self.words[from];
                }
            }
            _ => {
                let record = self.record_word();
                let word = at + HEADER + self.below(8);
                if word < self.words.len() {
                    self.words[word] = self.name(record);
                }
            }
        }
    }
}
