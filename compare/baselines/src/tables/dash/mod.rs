//! Dash: extendible hashing whose buckets are blocks of the medium.
//!
//! # Paper
//! Baotong Lu, Xiangpeng Hao, Tianzheng Wang, Eric Lo: *Dash: Scalable Hashing on Persistent Memory*, PVLDB 13(8), 2020;
//! Dash-EH. Kept: segments of 16 KiB, of buckets of 256 bytes with 32 bytes of metadata and 14 slots (§4.1, Fig. 4);
//! fingerprints (§4.2); inserts into the emptier of two neighbours, displacement of one key, and two stash buckets with
//! overflow fingerprints and counters in the buckets that keys overflow from (§4.3); an insert that makes slot, then
//! metadata durable; overflow metadata that is made anew after a crash; the segment's states, and a split that is
//! done again after a crash (§4.7, §4.8).
//!
//! `layout.rs` has the words.
//!
//! | Operation | Stores | Then | If power fails after this step |
//! |---|---|---|---|
//! | insert | slot | flush, fence | not live |
//! | | fingerprint and commit word, which are in one line | flush, fence | inserted |
//! | displacement | an insert elsewhere; then the commit word without it | flush, fence | there twice, alike: one is dropped at the open |
//! | insert, stash | as an insert; the overflow word | | the overflow words are made anew at the open |
//! | update | value | flush, fence | old or new, one word |
//! | remove | commit word; of a key in the stash, the overflow word | flush, fence | there or not |
//! | split | the new segment, empty: state new | flush, fence | nothing names it |
//! | | head of the old one: splitting, link to the new one | flush, fence | the new one is emptied and filled again |
//! | | the new one, with copies of its keys | flush, fence | the same |
//! | | head of the new one: normal | flush, fence | the rest is done again |
//! | | words of the directory (`directory.rs`) | flush, fence | the same |
//! | | commit words of the old one, without the keys that left | flush, fence | the same |
//! | | head of the old one: normal, one deeper | flush, fence | split |
//!
//! # Departures
//! - The 16 KiB have the head and the stash in them, so that there are 61 other buckets: a segment is an extent.
//! - Segments are repaired when the table is opened, not when an operation first comes to each.
//! - The paper says that a split is done again with a check that keys are unique. Here the new segment is emptied
//!   before, as a crash may have left metadata there without their slots, and keeps its copies once they are durable.
//! - The directory changes by the order of its stores, as in CCEH, not by a transaction, and lookups go by a copy of it in DRAM.
//! - In a new segment where a key finds no room, all keys stand where they stood in the old one.

mod layout;
mod probe;
mod split;

#[cfg(test)]
mod recover;

use durahash::Finding;
use durahash_media::{Medium, Place, Pool, Result};

use super::directory::Directory;
use super::{Keys, Slot, Space, Table};
use layout::{BLOCK_BYTES, Bucket, Commit, Head, HeadWord, Overflow, SLOTS, State};

/// Stash buckets of a segment.
const STASHES: u64 = 2;

/// Dash over a pool. See the module docs.
pub(crate) struct Dash<M: Medium> {
    directory: Directory<M>,
    /// Buckets of a segment without the stash, and slots of a bucket that are used.
    buckets: u64,
    slots: u32,
    keys: Keys,
    segments: u64,
    splits: u64,
}

/// Where a key is: in this bucket of the segment, stash included, and in this slot.
#[derive(Clone, Copy)]
pub(crate) struct At {
    segment: u64,
    bucket: u64,
    slot: u32,
}

impl<M: Medium> Dash<M> {
    /// An empty one.
    pub(crate) fn create(place: impl Into<Place<M>>, keys: Keys) -> Result<Self> {
        let place = place.into();
        let segments = [place.take_unit_extent()?, place.take_unit_extent()?];
        let dash = Self::over(Directory::create(place, segments)?, keys);
        for number in segments {
            dash.clear(number, HeadWord { state: State::Normal, depth: 1, link: None })?;
        }
        Ok(dash)
    }

    fn over(directory: Directory<M>, keys: Keys) -> Self {
        let geometry = directory.place().format().geometry;
        let buckets = directory.place().pool().extent_bytes() / BLOCK_BYTES - 1 - STASHES;
        let slots = if geometry.slots == 0 { SLOTS } else { SLOTS.min(geometry.slots.into()) };
        Dash { directory, buckets, slots, keys, segments: 2, splits: 0 }
    }

    fn pool(&self) -> &Pool<M> {
        self.directory.place().pool()
    }

    fn medium(&self) -> &M {
        self.pool().medium()
    }

    fn bucket(&self, segment: u64, bucket: u64) -> Result<&Bucket> {
        self.pool().at(segment * self.pool().extent_bytes() + (1 + bucket) * BLOCK_BYTES)
    }

    /// All buckets of a segment, those of the stash last.
    fn all_buckets(&self) -> std::ops::Range<u64> {
        0..self.buckets + STASHES
    }

    fn stash(&self) -> std::ops::Range<u64> {
        self.buckets..self.buckets + STASHES
    }

    fn slot(&self, at: At) -> Result<&Slot> {
        Ok(&self.bucket(at.segment, at.bucket)?.slots[at.slot as usize])
    }

    fn head(&self, segment: u64) -> Result<HeadWord> {
        let head: &Head = self.pool().at(segment * self.pool().extent_bytes())?;
        Ok(HeadWord::from_word(self.medium().load(&head.word)))
    }

    fn set_head(&self, segment: u64, to: HeadWord) -> Result<()> {
        let head: &Head = self.pool().at(segment * self.pool().extent_bytes())?;
        self.medium().store(&head.word, to.to_word());
        self.medium().flush(&head.word);
        self.medium().fence();
        Ok(())
    }

    /// Makes a segment an empty one, durably.
    fn clear(&self, segment: u64, head: HeadWord) -> Result<()> {
        for number in self.all_buckets() {
            let bucket = self.bucket(segment, number)?;
            self.medium().store(&bucket.commit, 0);
            self.medium().store(&bucket.overflow, 0);
            self.medium().flush_fresh(&bucket.commit);
        }
        self.set_head(segment, head)
    }

    /// The bucket of a hash. The lowest byte is its fingerprint, the first bits are the directory's.
    fn home(&self, h: u64) -> u64 {
        ((h >> 8 & 0xffff) * self.buckets) >> 16
    }

    fn after(&self, bucket: u64) -> u64 {
        (bucket + 1) % self.buckets
    }

    fn before(&self, bucket: u64) -> u64 {
        (bucket + self.buckets - 1) % self.buckets
    }

    fn commit(&self, bucket: &Bucket) -> Commit {
        Commit(self.medium().load(&bucket.commit))
    }

    fn overflow(&self, bucket: &Bucket) -> Overflow {
        Overflow(self.medium().load(&bucket.overflow))
    }

    /// Calls `f` with each live slot of a segment: where it is, the hash of its key, and its content.
    fn each_of(&self, segment: u64, mut f: impl FnMut(At, u64, (u64, u64))) -> Result<()> {
        for number in self.all_buckets() {
            let bucket = self.bucket(segment, number)?;
            let live = self.commit(bucket).live();
            for slot in (0..SLOTS).filter(|slot| live & 1 << slot != 0) {
                let words = &bucket.slots[slot as usize];
                let pair = (self.medium().load(&words.key), self.medium().load(&words.value));
                f(At { segment, bucket: number, slot }, self.keys.hash(self.pool(), pair.0)?, pair);
            }
        }
        Ok(())
    }

    /// Takes a slot out of use; durably, if it `persists`.
    fn free(&self, at: At, persists: bool) -> Result<()> {
        let bucket = self.bucket(at.segment, at.bucket)?;
        let commit = self.commit(bucket).without(at.slot);
        self.medium().store(&bucket.commit, commit.0);
        if persists {
            self.medium().flush(&bucket.commit);
            self.medium().drain();
        }
        Ok(())
    }
}

impl<M: Medium> Table for Dash<M> {
    type At = At;

    fn find(&self, key: u64) -> Result<Option<(At, u64)>> {
        self.probe(self.directory.find(key).number(), key)
    }

    fn insert(&mut self, key: u64, value: u64) -> Result<()> {
        let pair = (self.keys.make(self.pool(), key)?, value);
        loop {
            let segment = self.directory.find(key);
            if self.insert_into(segment.number(), key, pair, true)? {
                return Ok(());
            }
            self.split(key, segment)?;
        }
    }

    fn update(&mut self, at: At, _key: u64, value: u64) -> Result<()> {
        let word = &self.slot(at)?.value;
        self.medium().store(word, value);
        self.medium().flush(word);
        self.medium().drain();
        Ok(())
    }

    fn remove(&mut self, at: At, key: u64) -> Result<()> {
        self.free(at, true)?;
        if at.bucket >= self.buckets {
            self.forget_overflow(at.segment, key, at.bucket - self.buckets)?;
        }
        Ok(())
    }

    fn each(&self, f: &mut dyn FnMut(u64, u64)) -> Result<()> {
        for (_, entry) in self.directory.segments()? {
            self.each_of(entry.number(), |_, key, (_, value)| f(key, value))?;
        }
        Ok(())
    }

    fn space(&self) -> Space {
        Space {
            slots: self.segments * (self.buckets + STASHES) * u64::from(self.slots),
            bytes: self.segments * self.pool().extent_bytes() + self.directory.bytes(),
            growths: self.splits,
        }
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.directory.check(found)?;
        let mut all = Vec::new();
        for (h, entry) in self.directory.segments()? {
            let head = self.head(entry.number())?;
            if (head.state, head.depth) != (State::Normal, entry.depth()) {
                found(Finding::new("DASH-1", h, format!("a segment is {head:?}")));
            }
            self.each_of(entry.number(), |_, key, (_, value)| all.push((key, value)))?;
        }
        for (key, value) in all {
            if self.find(key)?.map(|(_, value)| value) != Some(value) {
                found(Finding::new("DASH-2", 0, format!("key {key:#x} is not found as it stands")));
            }
        }
        Ok(())
    }
}
