//! Adding: into a slot of the bucket, or to the key's list.

use durahash_media::{ErrorKind, Medium, Result};

use crate::designs::pea::MultiPea;
use crate::designs::pea::buffer::{Lists, offset};
use crate::designs::pea::layout::Bucket;
use crate::designs::pea::strategy::Strategy;
use crate::designs::pea::write::Locks;
use crate::extendible::extend;
use crate::index::{Keys, Room};

/// The result of a try to add.
enum Tried {
    /// The entry is in this bucket.
    Added(u32),
    /// A key of this bucket got a list: there is room now.
    Compacted(u32),
    /// There is room in no bucket.
    NoRoom,
}

impl<M: Medium> MultiPea<M> {
    pub(super) fn add_entry(&self, h: u64, payload: u64, keys: &dyn Keys) -> Result<()> {
        loop {
            let mut held = self.hold_to_write(h, Room::None)?;
            let mut dead = None;
            let tried = self.try_add(&mut held, h, payload, keys, &mut dead);
            match or_release!(held, tried) {
                Tried::Added(bucket) => {
                    held.release_changed(bucket);
                    self.free_buffers(dead);
                    return Ok(());
                }
                Tried::Compacted(bucket) => held.release_changed(bucket),
                Tried::NoRoom => {
                    let place = held.place;
                    held.release_unchanged();
                    self.make_room(h, place)?;
                }
            }
        }
    }

    fn try_add<'a>(
        &'a self,
        held: &mut Locks<'a, M, true>,
        h: u64,
        payload: u64,
        keys: &dyn Keys,
        dead: &mut Option<u64>,
    ) -> Result<Tried> {
        let segment = held.place.number();
        let Some(found) = held.find(h)? else {
            return self.try_add_new(held, h, payload, keys);
        };
        let number = found.bucket;
        let bucket = self.bucket(segment, number)?;
        let head = self.head(bucket);
        let own = self.own(bucket, head, h, keys)?;
        if let Some(slot) = own.list {
            *dead = self.append(held, (number, bucket, slot), h, payload)?;
            return Ok(Tried::Added(number));
        }
        let free = self.shape().used & !head.live();
        if free.count_ones() > 1 {
            self.insert_into(held, bucket, number, h, payload);
            return Ok(Tried::Added(number));
        }
        let most = self.most_slots(bucket, head, keys)?;
        if free != 0
            && own.values != 0
            && own.values.count_ones() >= most.map_or(0, u16::count_ones)
        {
            self.compact(held, (number, bucket), head, own.values, Some(payload))?;
            return Ok(Tried::Added(number));
        }
        if let Some(slots) = most {
            self.compact(held, (number, bucket), head, slots, None)?;
            return Ok(Tried::Compacted(number));
        }
        if self.slots_of(bucket, head, h) == head.live() {
            // However deep it gets, these keys stay together.
            return Err(ErrorKind::Skewed { depth: extend::MAX_DEPTH }.into());
        }
        Ok(Tried::NoRoom)
    }

    /// As [`try_add`](Self::try_add), where there is no entry of the hash.
    fn try_add_new(
        &self,
        held: &mut Locks<'_, M, true>,
        h: u64,
        payload: u64,
        keys: &dyn Keys,
    ) -> Result<Tried> {
        let segment = held.place.number();
        if let Some(number) = held.choose() {
            let bucket = self.bucket(segment, number)?;
            self.insert_into(held, bucket, number, h, payload);
            return Ok(Tried::Added(number));
        }
        for number in held.homes.buckets(Strategy::of(held.place)) {
            let bucket = self.bucket(segment, number)?;
            let head = self.head(bucket);
            if let Some(slots) = self.most_slots(bucket, head, keys)? {
                self.compact(held, (number, bucket), head, slots, None)?;
                return Ok(Tried::Compacted(number));
            }
        }
        Ok(Tried::NoRoom)
    }

    /// Adds a value to a list. The buffer that was replaced, if one was.
    fn append<'a>(
        &'a self,
        held: &mut Locks<'a, M, true>,
        (number, bucket, slot): (u32, &'a Bucket, u32),
        h: u64,
        v: u64,
    ) -> Result<Option<u64>> {
        let medium = self.medium();
        let payload = &bucket.slots[slot as usize].payload;
        let buffer = self.buffer(h, medium.load(payload))?;
        let mut dead = None;
        if let Some((at, state)) = buffer.state.with_one(buffer.values.len()) {
            self.store_value(&buffer, at, v);
            let word = self.new_state(&buffer, state);
            self.store_word_of(held, (number, h), &buffer.header.state, word);
        } else {
            let name = if buffer.bytes() < self.largest_bytes() {
                let old = offset(buffer.name);
                self.mark_buffers(&[old])?;
                dead = Some(old);
                let values = buffer.state.positions().map(|i| medium.load(&buffer.values[i]));
                self.write_buffer(h, buffer.bytes() * 2, buffer.next, values.chain([v]))?
            } else {
                self.write_buffer(h, self.largest_bytes(), buffer.name, [v].into_iter())?
            };
            medium.fence();
            self.store_word_of(held, (number, h), payload, name);
        }
        self.writers.extra_count.add(h, 1);
        Ok(dead)
    }
}
