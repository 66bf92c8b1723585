//! Where the slots of a home bucket may be, and where a new one goes: the paper's own idea.
//!
//! A segment is a ring of buckets. What its home has no room for goes to the emptiest of the next
//! three, then further, so that a segment fills completely before it splits; OFRB bounds how far
//! lookups follow.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Result};

use super::layout::{BUCKET_BYTES, Bucket, MAX_BUCKETS, used_slots};
use super::{Esh, Place};
use crate::extendible::extend;

/// Buckets after its home that a new slot prefers.
const NEXT: u32 = 3;

/// The sizes of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Buckets, a power of two.
    pub(super) buckets: u32,
    /// Slots of a bucket that are used, and which.
    pub(super) slots: u32,
    pub(super) used: u16,
}

impl Shape {
    /// Of so many buckets of so many slots.
    pub(super) fn new(buckets: u32, slots: u32) -> Self {
        Shape { buckets, slots, used: used_slots(slots) }
    }

    pub(super) const fn segment_bytes(&self) -> u64 {
        self.buckets as u64 * BUCKET_BYTES
    }

    /// Slots of a segment.
    pub(super) const fn capacity(&self) -> u64 {
        self.buckets as u64 * self.slots as u64
    }

    /// The home bucket of `h`: the bits above the fingerprint.
    #[inline(always)]
    pub(super) const fn home(&self, h: u64) -> u32 {
        (h >> 8) as u32 & (self.buckets - 1)
    }

    /// The bucket that is `distance` after `bucket`.
    #[inline(always)]
    pub(super) const fn after(&self, bucket: u32, distance: u32) -> u32 {
        (bucket + distance) & (self.buckets - 1)
    }

    /// How far after its home a bucket is.
    #[inline(always)]
    pub(super) const fn distance(&self, home: u32, bucket: u32) -> u32 {
        bucket.wrapping_sub(home) & (self.buckets - 1)
    }

    /// The bucket for a new slot of a home that is full; `live` says how many a bucket has.
    pub(super) fn choose(&self, home: u32, live: impl Fn(u32) -> u32) -> Option<u32> {
        let (mut best, mut least) = (None, self.slots);
        for distance in 1..self.buckets {
            if distance > NEXT && best.is_some() {
                break;
            }
            let bucket = self.after(home, distance);
            let live = live(bucket);
            if live < least {
                (best, least) = (Some(bucket), live);
            }
        }
        best
    }
}

/// A live slot of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    pub(super) h: u64,
    /// How far from its home it is.
    pub(super) distance: u32,
    pub(super) bucket: u32,
    pub(super) slot: u32,
    pub(super) payload: u64,
}

impl<M: Medium> Esh<M> {
    /// The slots of a segment that lookups find, in the order of their hashes. What is there twice, as
    /// a crash may leave it, counts where it is nearest to its home; the others go to `twice`. Where
    /// the heads may not be relied on, `dated` is false, and a slot may be anywhere.
    pub(super) fn records(
        &self,
        place: Place,
        prefix: u64,
        dated: bool,
        twice: &mut Vec<Record>,
    ) -> Result<Vec<Record>> {
        let (medium, shape) = (self.medium(), self.shape);
        let mut reach = [shape.buckets; MAX_BUCKETS as usize];
        if dated {
            for bucket in 0..shape.buckets {
                let commit = self.commit(self.bucket(place, bucket)?);
                reach[bucket as usize] = commit.reach(shape.buckets);
            }
        }
        let mut records = Vec::with_capacity(shape.capacity() as usize);
        for number in 0..shape.buckets {
            let bucket = self.bucket(place, number)?;
            let (commit, fingerprints) = (self.commit(bucket), self.fingerprints(bucket));
            for slot in BitMask(commit.live() & shape.used) {
                let words = &bucket.slots[slot as usize];
                let h = medium.load(&words.h);
                let home = shape.home(h);
                let distance = shape.distance(home, number);
                if extend::covers(prefix, place.depth(), h)
                    && fingerprints.names(slot, h)
                    && distance <= reach[home as usize]
                {
                    let payload = medium.load(&words.payload);
                    records.push(Record { h, distance, bucket: number, slot, payload });
                }
            }
        }
        records.sort_unstable();
        records.dedup_by(|next, kept| {
            let is_double = next.h == kept.h;
            if is_double {
                twice.push(*next);
            }
            is_double
        });
        Ok(records)
    }

    /// How many slots elsewhere belong to `home`, and how far the furthest of them is, without the one
    /// at `except`. Calls `f` with each of them, the furthest first, until it says that it has seen
    /// enough. The caller holds W of the home, so that none of them moves.
    pub(super) fn overflow_of(
        &self,
        place: Place,
        home: u32,
        reach: u32,
        except: Option<(u32, u32)>,
        mut f: impl FnMut(Record),
    ) -> Result<(u32, u32)> {
        let (medium, shape) = (self.medium(), self.shape);
        let (mut count, mut furthest) = (0, 0);
        for distance in (1..=reach).rev() {
            let number = shape.after(home, distance);
            let bucket = self.bucket(place, number)?;
            for slot in BitMask(self.commit(bucket).live()) {
                let words = &bucket.slots[slot as usize];
                let h = medium.load(&words.h);
                if shape.home(h) == home && except != Some((number, slot)) {
                    count += 1;
                    furthest = furthest.max(distance);
                    let payload = medium.load(&words.payload);
                    f(Record { h, distance, bucket: number, slot, payload });
                }
            }
        }
        Ok((count, furthest))
    }

    /// True if a bucket has a free slot.
    pub(super) fn has_room(&self, bucket: &Bucket) -> bool {
        self.commit(bucket).count() < self.shape.slots
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::SLOTS;
    use super::*;

    #[test]
    fn overflow_goes_to_the_emptiest_of_the_next_three_then_further() {
        let shape = Shape::new(8, SLOTS);
        let choose = |live: [u32; 8]| shape.choose(6, |bucket| live[bucket as usize]);
        assert_eq!(choose([5, 4, 0, 0, 0, 0, 14, 6]), Some(1), "7, 0 and 1 are next to 6");
        assert_eq!(choose([4, 4, 0, 0, 0, 0, 14, 4]), Some(7), "the nearest of equal ones");
        assert_eq!(choose([14, 14, 9, 0, 0, 0, 14, 14]), Some(2), "the next that has room");
        assert_eq!(choose([14, 14, 14, 14, 14, 13, 14, 14]), Some(5));
        assert_eq!(choose([14; 8]), None);
        assert_eq!(Shape::new(2, 3).choose(1, |_| 2), Some(0));
    }

    #[test]
    fn buckets_are_a_ring() {
        for buckets in [2, 4, 64] {
            let shape = Shape::new(buckets, SLOTS);
            for home in 0..buckets {
                for distance in 0..buckets {
                    let bucket = shape.after(home, distance);
                    assert_eq!(shape.distance(home, bucket), distance);
                }
            }
            let mut met = vec![false; buckets as usize];
            (0..256_u64).for_each(|i| met[shape.home(i << 8) as usize] = true);
            assert!(met.iter().all(|met| *met));
        }
    }
}
