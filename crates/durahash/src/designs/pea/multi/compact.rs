//! Compaction: the key that has most slots of a full bucket gets a list.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Result};

use crate::designs::pea::MultiPea;
use crate::designs::pea::buffer::Lists;
use crate::designs::pea::layout::{Bucket, Head, SLOTS};
use crate::designs::pea::write::Locks;
use crate::index::Keys;

impl<M: Medium> MultiPea<M> {
    /// The slots of the key that has most values in slots of a bucket, at least two; `None` where all
    /// keys differ, or no slot is free for a list.
    pub(super) fn most_slots(
        &self,
        bucket: &Bucket,
        head: Head<true>,
        keys: &dyn Keys,
    ) -> Result<Option<u16>> {
        let medium = self.medium();
        if self.shape().used & !head.live() == 0 {
            return Ok(None);
        }
        let mut left = head.live() & !head.lists();
        let mut hashes = [0; SLOTS as usize];
        for i in BitMask(left) {
            hashes[i as usize] = medium.load(&bucket.slots[i as usize].h);
        }
        // A damaged slot is compacted with no other: it does not keep others out of the bucket.
        let are_same =
            |a, b| keys.are_same(self.payload(bucket, a), self.payload(bucket, b)).unwrap_or(false);
        let mut most = 0_u16;
        while let Some(i) = BitMask(left).lowest() {
            let mut same = 1 << i;
            for other in BitMask(left & !same) {
                if hashes[other as usize] == hashes[i as usize] && are_same(i, other) {
                    same |= 1 << other;
                }
            }
            left &= !same;
            if same.count_ones() > most.count_ones() {
                most = same;
            }
        }
        Ok((most.count_ones() > 1).then_some(most))
    }

    /// Gives the key of `slots` a list of their values, and of one that is `added`.
    pub(super) fn compact(
        &self,
        held: &Locks<'_, M, true>,
        (number, bucket): (u32, &Bucket),
        head: Head<true>,
        slots: u16,
        added: Option<u64>,
    ) -> Result<()> {
        let medium = self.medium();
        let first = slots.trailing_zeros() as usize;
        let h = medium.load(&bucket.slots[first].h);
        let count = slots.count_ones() as usize + usize::from(added.is_some());
        let values = BitMask(slots).map(|i| self.payload(bucket, i)).chain(added);
        let name = self.write_buffer(h, self.bytes_for(count), 0, values)?;
        self.replace_slots(held, (number, bucket), head, slots, (h, name, true));
        self.add_count(held.place.number(), 1 - i64::from(slots.count_ones()));
        self.writers.extra_count.add(h, count as i64 - 1);
        Ok(())
    }
}
