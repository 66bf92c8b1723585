//! A segment that is made in DRAM before it is written to the medium in one go.

use durahash_media::{Medium, Result};

use super::layout::{BUCKET_WORDS, Head, LINES, slot_for};
use super::strategy::{Shape, Strategy};
use super::{Pea, Segment};

/// Words of a line.
const LINE_WORDS: usize = 8;

/// The words of a segment.
pub(super) struct Image {
    shape: Shape,
    words: Vec<u64>,
    /// What finds all that is in it.
    pub(super) strategy: Strategy,
    /// How many entries it has.
    pub(super) live: u64,
}

impl Image {
    /// An empty segment in `words`, which are used again.
    pub(super) fn new(shape: Shape, mut words: Vec<u64>) -> Self {
        words.clear();
        words.resize(shape.buckets() as usize * BUCKET_WORDS, 0);
        let mut image = Image { shape, words, strategy: shape.policy.first, live: 0 };
        for bucket in 0..shape.buckets() {
            image.set_head(bucket, Head::EMPTY);
        }
        image
    }

    /// Its memory.
    pub(super) fn into_words(self) -> Vec<u64> {
        self.words
    }

    fn head(&self, bucket: u32) -> Head {
        let at = bucket as usize * BUCKET_WORDS;
        Head([self.words[at], self.words[at + 1]])
    }

    fn set_head(&mut self, bucket: u32, head: Head) {
        let at = bucket as usize * BUCKET_WORDS;
        self.words[at..at + 2].copy_from_slice(&head.0);
    }

    /// Adds an entry where the policy puts it, by the next strategy if this one has no room; false
    /// where none has.
    pub(super) fn add(&mut self, h: u64, payload: u64) -> bool {
        let homes = self.shape.homes(h);
        loop {
            let live = |bucket| self.head(bucket).live().count_ones();
            if let Some(bucket) = self.shape.choose(self.strategy, homes, live) {
                return self.add_to(bucket, h, payload);
            }
            match self.strategy.next().filter(|next| *next <= self.shape.policy.last) {
                Some(next) => self.strategy = next,
                None => return false,
            }
        }
    }

    /// Adds an entry to this bucket, which any of its strategies allows; false where it is full.
    pub(super) fn add_to(&mut self, bucket: u32, h: u64, payload: u64) -> bool {
        let head = self.head(bucket);
        let free = self.shape.used & !head.live();
        if free == 0 {
            return false;
        }
        let i = slot_for(h, free);
        self.set_head(bucket, head.with(i, h));
        let at = bucket as usize * BUCKET_WORDS + 2 + i as usize * 2;
        self.words[at..at + 2].copy_from_slice(&[h, payload]);
        self.live += 1;
        true
    }

    /// Empties it, for another try by another strategy.
    pub(super) fn restart(&mut self, strategy: Strategy) {
        for bucket in 0..self.shape.buckets() {
            self.set_head(bucket, Head::EMPTY);
        }
        (self.strategy, self.live) = (strategy, 0);
    }
}

impl<M: Medium> Pea<M> {
    /// Writes a segment past the cache, every line that has something in it; the caller fences.
    pub(super) fn write(&self, segment: Segment, image: &Image) -> Result<()> {
        let medium = self.medium();
        let words = self.pool.words(self.offset(segment), image.words.len() as u64)?;
        for bucket in 0..image.shape.buckets() {
            let live = image.head(bucket).live();
            let from = bucket as usize * BUCKET_WORDS;
            for (line, slots) in LINES.iter().enumerate() {
                // The first line has the head.
                if line == 0 || live & slots != 0 {
                    let line = from + line * LINE_WORDS..from + (line + 1) * LINE_WORDS;
                    for (word, v) in words[line.clone()].iter().zip(&image.words[line]) {
                        medium.store_nt(word, *v);
                    }
                }
            }
        }
        Ok(())
    }
}
