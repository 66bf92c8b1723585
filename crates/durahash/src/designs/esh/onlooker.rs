//! Readers of a table that another process writes: what they see of ESH (`designs/onlooker.rs` has the rest).
//!
//! They see the array of the directory and the segments, with locks and epochs, at which they do not look. A lookup finds the segment by the
//! words of the array alone (`extendible/array.rs`), and in it the home of its hash, and the buckets behind that as far as OFRB says.
//! That holds for a segment that was not repaired, too: a kill or a crash leaves an OFRB that is too large, never one that is too small.
//!
//! # What the writer counts
//! - **ON-1** An insert, an update, a remove: its hash. After the last store, before a lock is released; and of a remove
//!   before another entry comes home to the slot, which is live then again.
//! - **ON-2** An entry that comes home: its hash, when it is live in both places.
//! - **ON-3** A split, a merge, a segment that is mended or repaired: all hashes of the segment, or of both. After the last store; before
//!   the directory in DRAM says so, or the locks are released, and so before the next operation there.
//! - **ON-4** A new array: all hashes, before the old one is given back.
//!
//! # Why a lookup is right
//! It reads the counter of its hash `h`, finds the segment, and reads the commit word and the fingerprints of the home, then of
//! each bucket up to OFRB, which it reads behind the home's slots, until a slot has `h`; then that bucket's commit word again, by which the
//! slot must be live; then the counter again. If that is the same, at most one operation on `h` has stored
//! meanwhile: they hold the lock of its home, as one does that brings `h` home; changes of the segment hold all. What was found is what
//! that one had left:
//!
//! | the writer stores | a reader that comes then | why that is right |
//! |---|---|---|
//! | payload, `h` and fingerprint of a slot that is not live | passes by; or has found the slot live before, when it was another entry's, and finds `h`: then the slot is not live when it asks again, and it looks again | the slot changes next by the commit; where it is live again, `h` is in it, or was removed before, and ON-1 told |
//! | home's commit word with a larger OFRB | looks further, and finds nothing | nothing is there yet |
//! | commit word with the slot | the entry or not | one word; fingerprint and OFRB are there before |
//! | payload (update) | one or the other | one word |
//! | commit word without the slot, then its fingerprint | has loaded the commit word before, and finds the entry, or misses it by its fingerprint | removed and not, at once: it is not counted yet |
//! | smaller OFRB or OC | ends earlier | what OFRB led to is gone, and was `h`, or none of `h` |
//! | an entry that comes home: slot, then commit word of the home, **ON-2**, then the commit word of the other bucket without it | has looked into the home before, and into the other bucket behind, and finds it in neither: ON-2 came between; or finds one of both, which have one payload | while it is in both, no other operation has the lock of its home |
//! | a new segment, past the cache; then its words in the array | one segment or the other | the old one stays as it is until ON-3 tells, and all locks of it are held; the new one is there before its words, with the same entries |
//! | repair: commit words without the further one of two slots of a hash; exact OC and OFRB | the nearer one, which is looked at first, and stays | ON-3 tells before the next operation |
//! | locks, epochs | does not look at them | |
//! | anything, into a segment that was given up | is late, and ON-3 told | |
//!
//! The commit word and the fingerprints of a bucket are stored by those only who hold its lock, and what they store of `h` changes
//! by operations on `h` alone.
//!
//! # Why a walk is right
//! It reads all buckets of a segment during which no hash of the segment was counted, so each hash has at most one operation half
//! done, as above. Of two slots of a hash the one nearer to its home counts. A segment has some hundreds of entries.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Place, Result};

use super::layout::{BUCKET_BYTES, Bucket, Commit, Fingerprints};
use super::overflow::Shape;
use crate::designs::onlooker::{Sight, Watch};
use crate::extendible::array::Array;
use crate::extendible::extend;
use crate::extendible::unit::Unit;
use crate::index::{EshStats, Finding, IndexStats};

/// What readers in other processes see of a table.
pub struct Segments<M: Medium> {
    watch: Watch<M>,
    array: Array,
    shape: Shape,
}

/// What a walk finds of a segment: {h, distance from its home, payload}.
type Records = Vec<(u64, u32, u64)>;

impl<M: Medium> Segments<M> {
    /// The segment of `h`, and the first of its hashes; `None` where a look was in vain.
    fn seek(&self, h: u64) -> Result<Option<(u64, Unit)>> {
        let segments = self.watch.pool().max_bytes() / self.shape.segment_bytes();
        let is_one = |(_, place): &(u64, Unit)| place.number() < segments;
        Ok(self.array.seek(&self.watch.map, h)?.filter(is_one))
    }

    fn offset(&self, place: Unit, number: u32) -> u64 {
        place.number() * self.shape.segment_bytes() + u64::from(number) * BUCKET_BYTES
    }

    fn bucket(&self, place: Unit, number: u32) -> Result<&Bucket> {
        self.watch.pool().at(self.offset(place, number))
    }

    fn commit(&self, bucket: &Bucket) -> Commit {
        Commit(self.watch.medium().load(&bucket.commit))
    }

    fn fingerprints(&self, bucket: &Bucket) -> Fingerprints {
        let medium = self.watch.medium();
        let word = medium.load(&bucket.fingerprints[0]);
        Fingerprints([word, medium.load(&bucket.fingerprints[1])])
    }

    /// The payload of `h` in one bucket, if it is there; `None` where the look was in vain.
    fn payload_in(&self, h: u64, bucket: &Bucket) -> Option<Option<u64>> {
        let medium = self.watch.medium();
        let live = self.commit(bucket).live();
        for slot in self.fingerprints(bucket).candidates(h, live) {
            let words = &bucket.slots[slot as usize];
            if medium.load(&words.h) == h {
                let payload = medium.load(&words.payload);
                let is_live = self.commit(bucket).live() & 1 << slot != 0;
                return is_live.then_some(Some(payload));
            }
        }
        Some(None)
    }

    /// Appends what is in one bucket; false where its commit word was changed meanwhile.
    fn records_in(
        &self,
        (prefix, place): (u64, Unit),
        number: u32,
        records: &mut Records,
        found: &mut Vec<Finding>,
    ) -> Result<bool> {
        let (medium, shape) = (self.watch.medium(), self.shape);
        let bucket = self.bucket(place, number)?;
        let (commit, fingerprints) = (self.commit(bucket), self.fingerprints(bucket));
        for slot in BitMask(commit.live() & shape.used) {
            let words = &bucket.slots[slot as usize];
            let h = medium.load(&words.h);
            if extend::covers(prefix, place.depth(), h) && fingerprints.names(slot, h) {
                let distance = shape.distance(shape.home(h), number);
                records.push((h, distance, medium.load(&words.payload)));
            } else {
                let what = format!("no lookup finds {h:#018x} in slot {slot}");
                found.push(Finding::new("ESH-2", self.offset(place, number), what));
            }
        }
        // A remove makes a fingerprint wrong, and an insert may take the slot of an entry that has gone home, after that.
        Ok(self.commit(bucket) == commit)
    }
}

impl<M: Medium> Sight for Segments<M> {
    type Medium = M;

    const INVARIANT: &'static str = "ESH-1";

    fn new(map: Place<M>) -> Result<Self> {
        let shape = Shape::of_map(&map)?;
        let array = Array::new(map.format().seed);
        Ok(Segments { watch: Watch::new(map, "the directory is broken"), array, shape })
    }

    fn watch(&self) -> &Watch<M> {
        &self.watch
    }

    fn payload(&self, h: u64) -> Result<Option<Option<u64>>> {
        let Some((_, place)) = self.seek(h)? else { return Ok(None) };
        let (home, mut reach) = (self.shape.home(h), 0);
        for distance in 0.. {
            let bucket = self.bucket(place, self.shape.after(home, distance))?;
            match self.payload_in(h, bucket) {
                Some(None) => {}
                found => return Ok(found),
            }
            if distance == 0 {
                reach = self.commit(bucket).reach(self.shape.buckets);
            }
            if distance == reach {
                break;
            }
        }
        Ok(Some(None))
    }

    /// Verifies ESH-2 and ESH-3, but for how far from its home a slot is.
    fn unit(
        &self,
        at: u64,
        out: &mut Vec<(u64, u64)>,
        found: &mut Vec<Finding>,
    ) -> Result<(Unit, Option<u64>)> {
        let known = found.len();
        let mut records = Records::new();
        let (prefix, place) = self.watch.look_at_unit(at, |depth| {
            records.clear();
            found.truncate(known);
            let Some((prefix, place)) = self.seek(at)? else { return Ok(None) };
            if place.depth() < depth {
                return Ok(Some(Err(place.depth())));
            }
            for number in 0..self.shape.buckets {
                if !self.records_in((prefix, place), number, &mut records, found)? {
                    return Ok(None);
                }
            }
            Ok(Some(Ok((prefix, place))))
        })?;
        records.sort_unstable();
        records.dedup_by(|next, kept| {
            let is_double = next.0 == kept.0;
            if is_double && next.2 != kept.2 {
                let what = format!("hash {:#018x} is there twice, with two payloads", next.0);
                found.push(Finding::new("ESH-3", self.offset(place, 0), what));
            }
            is_double
        });
        out.extend(records.iter().filter(|(h, ..)| *h >= at).map(|(h, _, payload)| (*h, *payload)));
        Ok((place, extend::next(prefix, place.depth())))
    }

    fn figures(&self, units: &[Unit], depth: u32) -> IndexStats {
        let segments = units.len() as u64;
        let arrays = Array::extents(&self.watch.map, depth) * self.watch.pool().extent_bytes();
        IndexStats {
            slots: segments * self.shape.capacity(),
            medium_bytes: segments * self.shape.segment_bytes() + arrays,
            esh: Some(EshStats::default()),
            ..IndexStats::default()
        }
    }
}
