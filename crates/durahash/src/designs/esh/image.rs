//! A segment that is made in DRAM before it is written to the medium in one go.

use durahash_media::{Medium, Result};

use super::layout::{
    BUCKET_BYTES, BUCKET_WORDS, Bucket, Commit, Fingerprints, LINES, MAX_BUCKETS, far_slot_for,
};
use super::overflow::Shape;
use super::records::Record;
use super::{Esh, Unit};

/// The future content of a segment.
pub(super) struct Image {
    shape: Shape,
    words: Vec<u64>,
    live: [u16; MAX_BUCKETS as usize],
    /// How many hashes of each bucket are elsewhere, and how far.
    overflow: [(u32, u32); MAX_BUCKETS as usize],
}

impl Image {
    /// Of these records: each in its home, as long as that has room.
    pub(super) fn new<'a>(
        shape: Shape,
        records: impl Iterator<Item = &'a Record>,
        mut words: Vec<u64>,
    ) -> Self {
        words.clear();
        words.resize(shape.buckets as usize * BUCKET_WORDS, 0);
        let (live, overflow) = ([0; MAX_BUCKETS as usize], [(0, 0); MAX_BUCKETS as usize]);
        let mut image = Image { shape, words, live, overflow };
        for bucket in 0..shape.buckets {
            image.set_fingerprints(bucket, Fingerprints::EMPTY);
        }
        let mut away = Vec::new();
        for record in records {
            let home = shape.home(record.h);
            if image.count(home) < shape.slots {
                image.put(home, record);
            } else {
                away.push(record);
            }
        }
        for record in away {
            let home = shape.home(record.h);
            let bucket = shape.choose(home, |bucket| image.count(bucket));
            let bucket = bucket.expect("no more records than slots");
            image.put(bucket, record);
            let (count, reach) = &mut image.overflow[home as usize];
            *count += 1;
            *reach = (*reach).max(shape.distance(home, bucket));
        }
        image
    }

    /// Its memory.
    pub(super) fn into_words(self) -> Vec<u64> {
        self.words
    }

    fn count(&self, bucket: u32) -> u32 {
        self.live[bucket as usize].count_ones()
    }

    fn fingerprints(&self, bucket: u32) -> Fingerprints {
        let at = bucket as usize * BUCKET_WORDS;
        Fingerprints([self.words[at + 2], self.words[at + 3]])
    }

    fn set_fingerprints(&mut self, bucket: u32, fingerprints: Fingerprints) {
        let at = bucket as usize * BUCKET_WORDS;
        self.words[at + 2..at + 4].copy_from_slice(&fingerprints.0);
    }

    fn put(&mut self, bucket: u32, record: &Record) {
        let live = &mut self.live[bucket as usize];
        let slot = far_slot_for(record.h, self.shape.used & !*live);
        *live |= 1 << slot;
        let at = bucket as usize * BUCKET_WORDS + 4 + slot as usize * 2;
        self.words[at..at + 2].copy_from_slice(&[record.h, record.payload]);
        self.set_fingerprints(bucket, self.fingerprints(bucket).with(slot, record.h));
    }
}

impl<M: Medium> Esh<M> {
    /// Writes a segment, which nothing names yet, every line that has something in it; the caller
    /// fences.
    pub(super) fn write(&self, place: Unit, image: &Image) -> Result<()> {
        let medium = self.medium();
        let end = self.offset(place) + self.shape.segment_bytes();
        self.counts.cover(end / BUCKET_BYTES)?;
        for number in 0..self.shape.buckets {
            let bucket: &Bucket = self.bucket(place, number)?;
            self.touch(bucket);
            let words = &image.words[number as usize * BUCKET_WORDS..][..BUCKET_WORDS];
            let (live, overflow) = (image.live[number as usize], image.overflow[number as usize]);
            let value = |slot: usize| (words[4 + slot * 2], words[5 + slot * 2]);
            for slots in LINES.iter().skip(1).filter(|slots| live & **slots != 0) {
                let first = slots.trailing_zeros() as usize;
                for (slot, words) in (first..).zip(&bucket.slots[first..first + 4]) {
                    medium.store_nt(&words.h, value(slot).0);
                    medium.store_nt(&words.payload, value(slot).1);
                }
            }
            for (slot, words) in bucket.slots[..2].iter().enumerate() {
                medium.store(&words.h, value(slot).0);
                medium.store(&words.payload, value(slot).1);
            }
            medium.store(&bucket.fingerprints[0], words[2]);
            medium.store(&bucket.fingerprints[1], words[3]);
            self.store_commit(bucket, Commit::new(live, overflow, place.depth()));
            self.lock_of(bucket).stamp(medium)?;
            medium.flush(&bucket.commit);
        }
        Ok(())
    }
}
