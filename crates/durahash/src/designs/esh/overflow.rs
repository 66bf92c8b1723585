//! Where the slots of a home bucket may be, and where a new one goes: the paper's own idea.
//!
//! A segment is a ring of buckets. An entry whose home has no room goes to the emptiest of the next
//! three, then further, so that a segment fills completely before it splits; OFRB bounds how far
//! lookups follow.

use durahash_media::{ErrorKind, Medium, Place, Result};

use super::layout::{BUCKET_BYTES, MAX_BUCKETS, SLOTS, used_slots};
use crate::designs::slots_of;

/// Buckets of a segment, where the geometry does not say.
const BUCKETS: u32 = 4;

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
    /// That of a map.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) for a geometry that cannot be.
    pub(super) fn of_map<M: Medium>(map: &Place<M>) -> Result<Self> {
        let format = map.format();
        let slots = slots_of(format, SLOTS, "ESH has 2 to 14 slots a bucket")?;
        let buckets = match u32::from(format.geometry.buckets) {
            0 => BUCKETS,
            buckets @ 2..=MAX_BUCKETS if buckets.is_power_of_two() => buckets,
            _ => {
                let what = "ESH has 2 to 64 buckets a segment, a power of two";
                return Err(ErrorKind::Options { what }.into());
            }
        };
        let shape = Shape::new(buckets, slots);
        if shape.segment_bytes() > map.pool().extent_bytes() {
            let what = "a segment of ESH fits an extent";
            return Err(ErrorKind::Options { what }.into());
        }
        Ok(shape)
    }

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
