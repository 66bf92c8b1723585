//! Removing all values of a key, or all that there is of a hash.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Result};

use crate::designs::pea::MultiPea;
use crate::designs::pea::buffer::{Lists, offset};
use crate::index::{Gone, Keys, Room};

impl<M: Medium> MultiPea<M> {
    pub(super) fn remove_key(
        &self,
        h: u64,
        keys: &dyn Keys,
        mut gone: Option<Gone<'_>>,
    ) -> Result<u64> {
        let medium = self.medium();
        let mut held = self.hold_to_write(h, Room::None)?;
        let (mut dead, mut removed) = (Vec::new(), Vec::new());
        let segment = held.place.number();
        let mut look = || {
            let Some(found) = held.find(h)? else {
                return Ok(None);
            };
            let bucket = self.bucket(segment, found.bucket)?;
            let head = self.head(bucket);
            let own = self.own(bucket, head, h, keys)?;
            let mut count = u64::from(own.values.count_ones());
            let mut slots = own.values;
            removed.extend(BitMask(own.values).map(|i| self.payload(bucket, i)));
            if let Some(slot) = own.list {
                slots |= 1 << slot;
                self.walk(h, self.payload(bucket, slot), &|| true, &mut |buffer| {
                    count += buffer.state.live() as u64;
                    dead.push(offset(buffer.name));
                    if gone.is_some() {
                        buffer.each(medium, |v| removed.push(v));
                    }
                    Ok(true)
                })?;
            }
            self.mark_buffers(&dead)?;
            if let Some(gone) = &mut gone {
                gone(&removed)?;
            }
            Ok((slots != 0).then_some((found.bucket, bucket, head, slots, count)))
        };
        let looked = look();
        let Some((number, bucket, head, slots, count)) = or_release!(held, looked) else {
            held.release_unchanged();
            return Ok(0);
        };
        held.exclude_readers(number);
        self.store_head(bucket, head.without_all(slots), h);
        let live = i64::from(slots.count_ones());
        self.add_count(segment, -live);
        self.writers.extra_count.add(h, live - count as i64);
        held.release_changed(number);
        self.free_buffers(dead);
        Ok(count)
    }

    /// Removes the slots of a hash in one bucket, damaged or not; true if there were any.
    pub(super) fn wipe_bucket(&self, h: u64, gone: Gone<'_>) -> Result<bool> {
        let medium = self.medium();
        let mut held = self.hold_to_write(h, Room::None)?;
        let segment = held.place.number();
        let found = held.find(h).and_then(|found| match found {
            Some(found) => Ok(Some((found.bucket, self.bucket(segment, found.bucket)?))),
            None => Ok(None),
        });
        let (number, bucket) = match found {
            Ok(Some(found)) => found,
            found => {
                held.release_unchanged();
                return found.map(|_| false);
            }
        };
        let head = self.head(bucket);
        let slots = self.slots_of(bucket, head, h);
        let (mut dead, mut removed) = (Vec::new(), Vec::new());
        let (mut extra, mut whole) = (0, true);
        for i in BitMask(slots) {
            let payload = self.payload(bucket, i);
            if head.lists() & 1 << i == 0 {
                removed.push(payload);
                continue;
            }
            let mut count = 0;
            let walked = self.walk(h, payload, &|| true, &mut |buffer| {
                count += buffer.state.live() as i64;
                dead.push(offset(buffer.name));
                buffer.each(medium, |v| removed.push(v));
                Ok(true)
            });
            whole &= walked.is_ok();
            extra += count - 1;
        }
        or_release!(held, self.mark_buffers(&dead).and_then(|()| gone(&removed)));
        held.exclude_readers(number);
        self.store_head(bucket, head.without_all(slots), h);
        self.add_count(segment, -i64::from(slots.count_ones()));
        if whole {
            self.writers.extra_count.add(h, -extra);
        } else {
            self.writers.extra_count.lose();
        }
        held.release_changed(number);
        self.free_buffers(dead);
        Ok(true)
    }
}
