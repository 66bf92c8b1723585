//! The slots of a segment, read as a whole.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Result};

use super::layout::{Bucket, MAX_BUCKETS};
use super::{Esh, Unit};
use crate::extendible::extend;

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
    /// The slots of a segment that lookups find, in the order of their hashes. A hash that is there twice, as
    /// a crash may leave it, counts where it is nearest to its home; the others go to `twice`. Where
    /// the heads may not be relied on, `dated` is false, and a slot may be anywhere.
    pub(super) fn records(
        &self,
        place: Unit,
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

    /// The slot furthest from `home` of those elsewhere that belong to it, at most `reach` away; the one at
    /// `except` does not count. The caller holds W of the home, so that none of them moves.
    pub(super) fn furthest(
        &self,
        place: Unit,
        home: u32,
        reach: u32,
        except: Option<(u32, u32)>,
    ) -> Result<Option<Record>> {
        let (medium, shape) = (self.medium(), self.shape);
        for distance in (1..=reach).rev() {
            let number = shape.after(home, distance);
            let bucket = self.bucket(place, number)?;
            for slot in BitMask(self.commit(bucket).live()) {
                let words = &bucket.slots[slot as usize];
                let h = medium.load(&words.h);
                if shape.home(h) == home && except != Some((number, slot)) {
                    let payload = medium.load(&words.payload);
                    return Ok(Some(Record { h, distance, bucket: number, slot, payload }));
                }
            }
        }
        Ok(None)
    }

    /// True if a bucket has a free slot.
    pub(super) fn has_room(&self, bucket: &Bucket) -> bool {
        self.commit(bucket).count() < self.shape.slots
    }
}
