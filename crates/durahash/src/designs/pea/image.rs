//! A segment that is made in DRAM before it is written to the medium in one go.

use durahash_media::{Medium, Result};

use super::layout::{BUCKET_WORDS, Head, LINES, SLOTS, slot_for, used_slots};
use super::strategy::{SMALL, Shape, Strategy};
use super::{Entry, Segment, Table};

/// Words of a line.
const LINE_WORDS: usize = 8;

/// The words of a segment.
pub(super) struct Image<const MULTI: bool> {
    shape: Shape,
    words: Vec<u64>,
    /// The strategy that finds all entries.
    pub(super) strategy: Strategy,
    /// How many entries it has.
    pub(super) live: u64,
}

impl<const MULTI: bool> Image<MULTI> {
    /// An empty segment in `words`, which are used again.
    pub(super) fn new(shape: Shape, mut words: Vec<u64>) -> Self {
        words.clear();
        words.resize(shape.buckets() as usize * BUCKET_WORDS, 0);
        let first = if shape.is_small { Strategy::Stash } else { shape.policy.first };
        let mut image = Image { shape, words, strategy: first, live: 0 };
        image.restart(first);
        image
    }

    /// The tag of the segment.
    pub(super) fn tag(&self) -> u8 {
        if self.shape.is_small { SMALL } else { self.strategy.tag() }
    }

    /// How many extents it takes.
    pub(super) fn extents(&self) -> u64 {
        self.shape.extents
    }

    /// Its memory.
    pub(super) fn into_words(self) -> Vec<u64> {
        self.words
    }

    fn head(&self, bucket: u32) -> Head<MULTI> {
        let at = bucket as usize * BUCKET_WORDS;
        Head([self.words[at], self.words[at + 1]])
    }

    fn set_head(&mut self, bucket: u32, head: Head<MULTI>) {
        let at = bucket as usize * BUCKET_WORDS;
        self.words[at..at + 2].copy_from_slice(&head.0);
    }

    /// Adds the entries of a hash where the policy puts them, by the next strategy if this one has no
    /// room; false where none has. They stay together.
    pub(super) fn add(&mut self, h: u64, entries: &[Entry]) -> bool {
        let homes = self.shape.homes(h);
        let more = entries.len() as u32 - 1;
        loop {
            let live = |bucket| self.head(bucket).live().count_ones() + more;
            if let Some(bucket) = self.shape.choose(self.strategy, homes, live) {
                return self.add_to(bucket, h, entries);
            }
            match self.strategy.next().filter(|next| *next <= self.shape.policy.last) {
                Some(next) => self.strategy = next,
                None => return false,
            }
        }
    }

    /// Adds entries to this bucket, which any of its strategies allows, and opens those before it; false
    /// where it has no room for them.
    pub(super) fn add_to(&mut self, bucket: u32, h: u64, entries: &[Entry]) -> bool {
        let mut head = self.head(bucket);
        let has_room = |slots: u16| (slots & !head.live()).count_ones() >= entries.len() as u32;
        // Damage may bring more slots to life than the geometry has; nothing of them is dropped.
        let Some(slots) = [self.shape.used, used_slots(SLOTS)].into_iter().find(|s| has_room(*s))
        else {
            return false;
        };
        for entry in entries {
            let i = slot_for::<MULTI>(h, slots & !head.live());
            head = if entry.is_list { head.with_list(i, h) } else { head.with(i, h) };
            let at = bucket as usize * BUCKET_WORDS + 2 + i as usize * 2;
            self.words[at..at + 2].copy_from_slice(&[h, entry.payload]);
        }
        self.set_head(bucket, head);
        for before in self.shape.homes(h).before(bucket) {
            let Head([first, second]) = self.head(before);
            self.set_head(before, Head([first & !Head::<MULTI>::END, second]));
        }
        self.live += entries.len() as u64;
        true
    }

    /// Empties it, for entries that this strategy places.
    pub(super) fn restart(&mut self, strategy: Strategy) {
        for bucket in 0..self.shape.buckets() {
            self.set_head(bucket, Head::EMPTY);
        }
        (self.strategy, self.live) = (strategy, 0);
    }
}

impl<M: Medium, const MULTI: bool> Table<M, MULTI> {
    /// Writes a segment past the cache, every line that has something in it; the caller fences.
    pub(super) fn write(&self, segment: Segment, image: &Image<MULTI>) -> Result<()> {
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
