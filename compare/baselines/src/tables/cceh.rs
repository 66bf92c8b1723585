//! CCEH: extendible hashing whose buckets are cache lines.
//!
//! # Paper
//! Moohyeon Nam, Hokeun Cha, Young-ri Choi, Sam H. Noh, Beomseok Nam: *Write-Optimized Dynamic Hashing for Persistent
//! Memory*, FAST 2019. Kept: segments of 16 KiB, of 64-byte buckets of four slots; the directory by the most
//! significant bits of the hash, the bucket by the least significant ones; linear probing over four buckets; an insert
//! that stores the value, then the key, and flushes their line once; lazy deletion, by which a split copies the keys
//! that leave and lets them stand where they were, as their prefix is not the segment's any more; the order in which
//! a split changes the directory, and the recovery by that.
//!
//! ```text
//! segment, an extent   256 buckets of 4 slots; a slot is the word of a key (`keys.rs`), all ones if it is free, and a value
//! root word 1          1 if a key has two segments
//! ```
//!
//! | Operation | Stores | Then | If power fails after this step |
//! |---|---|---|---|
//! | insert | value, then key, of a slot whose key is not of the segment | flush, fence | one line: not there as long as the key is not |
//! | update | value | flush, fence | old or new, one word |
//! | remove | key := all ones | flush, fence | there or not |
//! | split | the new segment with its keys | flush, fence | nothing names it |
//! | | the directory's words of both, but the first | flush, fence | taken back: the old segment has all keys |
//! | | the first word | flush, fence | split |
//!
//! # Departures
//! - None of the order of stores to a line: as in the paper, a medium must keep it, or an insert may leave its key with
//!   another value.
//! - Of the keys that leave, those are put in their first free slot; if one does not fit so, all stand where they stood.
//! - Lookups go by a copy of the directory in DRAM (`directory.rs`).
//! - The word of the directory has the local depth, so that a lookup reads no head of a segment.
//! - Two segments (the option `both`): a key that has no room by its first hash goes where the second one leads, before
//!   anything is split.

use durahash::{ErrorKind, Finding};
use durahash_media::{Medium, Place, PmU64, Result, on_media};

use super::directory::{Directory, Entry};
use super::{Keys, SECOND, Slot, Space, Table};

/// A slot that was never filled, or whose key was removed.
const EMPTY: u64 = u64::MAX;
const BUCKET_BYTES: u64 = 64;
/// Buckets that a key may be in, from its own on.
const PROBED: u64 = 4;

on_media! {
    /// A bucket.
    pub(crate) struct Bucket: 64, align 64 {
        /// Its slots.
        pub(crate) slots: [Slot; 4],
    }
}

/// CCEH over a pool. See the module docs.
pub(crate) struct Cceh<M: Medium> {
    directory: Directory<M>,
    /// Buckets of a segment, and slots of a bucket.
    buckets: u64,
    slots: usize,
    keys: Keys,
    both: bool,
    segments: u64,
    splits: u64,
}

/// The content of a slot.
type Pair = (u64, u64);

impl<M: Medium> Cceh<M> {
    /// An empty one; with `both`, a key has two segments.
    pub(crate) fn create(place: impl Into<Place<M>>, both: bool, keys: Keys) -> Result<Self> {
        let place = place.into();
        let (buckets, slots) = shape(&place);
        let mut segments = [0; 2];
        for number in &mut segments {
            *number = place.take_unit_extent()?;
            fill(&place, *number, &vec![(EMPTY, 0); buckets as usize * slots], slots)?;
        }
        place.set_root(1, both.into())?;
        let directory = Directory::create(place, segments)?;
        Ok(Cceh { directory, buckets, slots, keys, both, segments: 2, splits: 0 })
    }

    /// The one that is there.
    #[cfg(test)]
    pub(crate) fn open(place: impl Into<Place<M>>, keys: Keys) -> Result<Self> {
        let place = place.into();
        place.pool().begin()?;
        let (buckets, slots) = shape(&place);
        let both = place.root(1)? == 1;
        let mut directory = Directory::open(place)?;
        directory.recover()?;
        directory.release_others()?;
        let segments = directory.segments()?.len() as u64;
        Ok(Cceh { directory, buckets, slots, keys, both, segments, splits: 0 })
    }

    fn medium(&self) -> &M {
        self.directory.place().pool().medium()
    }

    fn bucket(&self, segment: Entry, bucket: u64) -> Result<&Bucket> {
        let pool = self.directory.place().pool();
        pool.at(segment.number() * pool.extent_bytes() + bucket * BUCKET_BYTES)
    }

    /// The hashes of a key, by its first one.
    fn hashes(&self, h: u64) -> impl Iterator<Item = u64> + use<M> {
        [Some(h), self.both.then(|| SECOND.mix(h))].into_iter().flatten()
    }

    /// The buckets that a hash may be in.
    fn probed(&self, h: u64) -> impl Iterator<Item = u64> + use<M> {
        let mask = self.buckets - 1;
        (0..PROBED.min(self.buckets)).map(move |i| (h + i) & mask)
    }

    /// The hash of the key in a slot, by the word there.
    fn hash(&self, word: u64) -> Result<Option<u64>> {
        let pool = self.directory.place().pool();
        (word != EMPTY).then(|| self.keys.hash(pool, word)).transpose()
    }

    /// The hashes by which a key, if there is one, belongs into a bucket of a segment that begins with the bits of `prefix`:
    /// none if it was left behind by a split.
    fn places(
        &self,
        h: Option<u64>,
        bucket: u64,
        prefix: u64,
        depth: u32,
    ) -> impl Iterator<Item = u64> {
        let is_there = move |h: &u64| {
            (h ^ prefix) >> (64 - depth) == 0 && self.probed(*h).any(|probed| probed == bucket)
        };
        h.into_iter().flat_map(|h| self.hashes(h)).filter(is_there)
    }

    /// Calls `f` with each key of a segment: its position, its hash, and the slot's content.
    fn each_of(
        &self,
        prefix: u64,
        segment: Entry,
        mut f: impl FnMut(usize, u64, Pair),
    ) -> Result<()> {
        for bucket in 0..self.buckets {
            for (i, slot) in self.bucket(segment, bucket)?.slots[..self.slots].iter().enumerate() {
                let word = self.medium().load(&slot.key);
                let h = self.hash(word)?;
                if let Some(h) = h
                    && self.places(Some(h), bucket, prefix, segment.depth()).next().is_some()
                {
                    let pair = (word, self.medium().load(&slot.value));
                    f(bucket as usize * self.slots + i, h, pair);
                }
            }
        }
        Ok(())
    }

    /// A slot that a new key of hash `h` may have.
    fn free_slot(&self, h: u64) -> Result<Option<&Slot>> {
        let segment = self.directory.find(h);
        for number in self.probed(h) {
            for slot in &self.bucket(segment, number)?.slots[..self.slots] {
                let there = self.hash(self.medium().load(&slot.key))?;
                if self.places(there, number, h, segment.depth()).next().is_none() {
                    return Ok(Some(slot));
                }
            }
        }
        Ok(None)
    }

    fn split(&mut self, h: u64) -> Result<()> {
        let segment = self.directory.find(h);
        let depth = segment.depth();
        self.directory.deepen(depth + 1)?;
        let number = self.directory.place().take_unit_extent()?;
        let is_upper = |h: u64| h >> (63 - depth) & 1 == 1;
        let mut leaving = Vec::new();
        self.each_of(h, segment, |at, of_key, pair| {
            let bucket = (at / self.slots) as u64;
            let mut places = self.places(Some(of_key), bucket, h, depth);
            // One that may stay by either hash stays.
            if let Some(first) = places.next().filter(|first| is_upper(*first))
                && places.all(is_upper)
            {
                leaving.push((at, first, pair));
            }
        })?;
        let fresh = self.placed(&leaving).unwrap_or_else(|| {
            let mut fresh = self.none();
            leaving.iter().for_each(|(at, _, pair)| fresh[*at] = *pair);
            fresh
        });
        fill(self.directory.place(), number, &fresh, self.slots)?;
        self.directory.split(h, segment.number(), depth, number)?;
        self.segments += 1;
        self.splits += 1;
        Ok(())
    }

    fn none(&self) -> Vec<Pair> {
        vec![(EMPTY, 0); self.buckets as usize * self.slots]
    }

    /// The keys of a new segment, each in its first free slot.
    fn placed(&self, keys: &[(usize, u64, Pair)]) -> Option<Vec<Pair>> {
        let mut fresh = self.none();
        for (_, h, pair) in keys {
            let mut slots = self.probed(*h).flat_map(|bucket| {
                let first = bucket as usize * self.slots;
                first..first + self.slots
            });
            let at = slots.find(|at| fresh[*at].0 == EMPTY)?;
            fresh[at] = *pair;
        }
        Some(fresh)
    }

    fn slot(&self, off: u64) -> Result<&Slot> {
        self.directory.place().pool().at(off)
    }

    fn persist(&self, word: &PmU64) {
        self.medium().flush(word);
        self.medium().drain();
    }
}

/// Buckets of a segment and slots of a bucket: all that an extent has room for, unless the geometry says fewer.
fn shape<M: Medium>(place: &Place<M>) -> (u64, usize) {
    let geometry = place.format().geometry;
    let all = place.pool().extent_bytes() / BUCKET_BYTES;
    let of = |n: u8, all: u64| if n == 0 { all } else { all.min(n.into()) };
    (of(geometry.buckets, all), of(geometry.slots, 4) as usize)
}

/// Fills a new segment, durably.
fn fill<M: Medium>(place: &Place<M>, number: u64, pairs: &[Pair], slots: usize) -> Result<()> {
    let (pool, medium) = (place.pool(), place.pool().medium());
    let off = number * pool.extent_bytes();
    for (bucket, pairs) in (0..).zip(pairs.chunks(slots)) {
        let bucket: &Bucket = pool.at(off + bucket * BUCKET_BYTES)?;
        for (slot, (key, value)) in bucket.slots.iter().zip(pairs) {
            medium.store(&slot.value, *value);
            medium.store(&slot.key, *key);
        }
        medium.flush_fresh(bucket);
    }
    medium.fence();
    Ok(())
}

impl<M: Medium> Table for Cceh<M> {
    type At = u64;

    fn find(&self, key: u64) -> Result<Option<(u64, u64)>> {
        let pool = self.directory.place().pool();
        for h in self.hashes(key) {
            let segment = self.directory.find(h);
            for number in self.probed(h) {
                for slot in &self.bucket(segment, number)?.slots[..self.slots] {
                    let word = self.medium().load(&slot.key);
                    if word != EMPTY && self.keys.is(pool, word, key)? {
                        let off = self.medium().region().offset_of(&slot.key);
                        return Ok(Some((off, self.medium().load(&slot.value))));
                    }
                }
            }
        }
        Ok(None)
    }

    fn insert(&mut self, key: u64, value: u64) -> Result<()> {
        let word = self.keys.make(self.directory.place().pool(), key)?;
        if word == EMPTY {
            return Err(
                ErrorKind::Options { what: "CCEH keeps the key of all ones for itself" }.into()
            );
        }
        loop {
            for h in self.hashes(key) {
                if let Some(slot) = self.free_slot(h)? {
                    self.medium().store(&slot.value, value);
                    self.medium().store(&slot.key, word);
                    self.persist(&slot.key);
                    return Ok(());
                }
            }
            self.split(key)?;
        }
    }

    fn update(&mut self, at: u64, _key: u64, value: u64) -> Result<()> {
        let slot = self.slot(at)?;
        self.medium().store(&slot.value, value);
        self.persist(&slot.value);
        Ok(())
    }

    fn remove(&mut self, at: u64, _key: u64) -> Result<()> {
        let slot = self.slot(at)?;
        self.medium().store(&slot.key, EMPTY);
        self.persist(&slot.key);
        Ok(())
    }

    fn each(&self, f: &mut dyn FnMut(u64, u64)) -> Result<()> {
        for (h, segment) in self.directory.segments()? {
            self.each_of(h, segment, |_, key, (_, value)| f(key, value))?;
        }
        Ok(())
    }

    fn space(&self) -> Space {
        let slots = self.buckets * self.slots as u64;
        let segment_bytes = self.directory.place().pool().extent_bytes();
        Space {
            slots: self.segments * slots,
            bytes: self.segments * segment_bytes + self.directory.bytes(),
            growths: self.splits,
        }
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.directory.check(found)
    }
}
