//! Removing one value of a key.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, PmU64, Result};

use crate::designs::pea::MultiPea;
use crate::designs::pea::buffer::{Buffer, CYCLE, Lists, offset};
use crate::designs::pea::layout::Bucket;
use crate::designs::pea::write::Locks;
use crate::index::{Keys, Room};
use crate::util::cycle::CycleDetector;

impl<M: Medium> MultiPea<M> {
    pub(super) fn remove_value(
        &self,
        h: u64,
        keys: &dyn Keys,
        wanted: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let mut held = self.hold_to_write(h, Room::None)?;
        let mut dead = Vec::new();
        let removed = self.try_remove(&mut held, h, keys, wanted, &mut dead);
        let Some((bucket, payload)) = or_release!(held, removed) else {
            held.release_unchanged();
            return Ok(None);
        };
        held.release_changed(bucket);
        self.free_buffers(dead);
        Ok(Some(payload))
    }

    fn try_remove<'a>(
        &'a self,
        held: &mut Locks<'a, M, true>,
        h: u64,
        keys: &dyn Keys,
        wanted: &mut dyn FnMut(u64) -> Result<bool>,
        dead: &mut Vec<u64>,
    ) -> Result<Option<(u32, u64)>> {
        let segment = held.place.number();
        let Some(found) = held.find(h)? else {
            return Ok(None);
        };
        let number = found.bucket;
        let bucket = self.bucket(segment, number)?;
        let head = self.head(bucket);
        let own = self.own(bucket, head, h, keys)?;
        for i in BitMask(own.values) {
            let payload = self.payload(bucket, i);
            if wanted(payload)? {
                held.exclude_readers(number);
                self.store_head(bucket, head.without(i), h);
                self.add_count(segment, -1);
                return Ok(Some((number, payload)));
            }
        }
        let Some(slot) = own.list else {
            return Ok(None);
        };
        self.remove_from_list(held, (number, bucket, slot), h, wanted, dead)
    }

    /// The buffer of a list with a wanted value, the value's position, and the word that names the
    /// buffer.
    fn seek<'a>(
        &'a self,
        list: &'a PmU64,
        h: u64,
        wanted: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<Option<(Buffer<'a>, usize, &'a PmU64)>> {
        let medium = self.medium();
        let mut link = list;
        let mut cycle = CycleDetector::default();
        loop {
            let buffer = self.buffer(h, medium.load(link))?;
            for i in buffer.state.positions() {
                if wanted(medium.load(&buffer.values[i]))? {
                    return Ok(Some((buffer, i, link)));
                }
            }
            if buffer.next == 0 {
                return Ok(None);
            }
            cycle.step(offset(buffer.name), offset(buffer.next), CYCLE)?;
            link = &buffer.header.next;
        }
    }

    fn remove_from_list<'a>(
        &'a self,
        held: &mut Locks<'a, M, true>,
        (number, bucket, slot): (u32, &'a Bucket, u32),
        h: u64,
        wanted: &mut dyn FnMut(u64) -> Result<bool>,
        dead: &mut Vec<u64>,
    ) -> Result<Option<(u32, u64)>> {
        let medium = self.medium();
        let list = &bucket.slots[slot as usize].payload;
        let Some((buffer, i, link)) = self.seek(list, h, wanted)? else {
            return Ok(None);
        };
        let gone = medium.load(&buffer.values[i]);
        if let Some(rest) = self.only_other(bucket, h, medium.load(list), (buffer.name, i))? {
            // One is left: back into the bucket.
            self.walk(h, medium.load(list), &|| true, &mut |buffer| {
                dead.push(offset(buffer.name));
                Ok(true)
            })?;
            self.mark_buffers(dead)?;
            let head = self.head(bucket);
            self.replace_slots(held, (number, bucket), head, 1 << slot, (h, rest, false));
        } else if buffer.state.live() == 1 {
            dead.push(offset(buffer.name));
            self.mark_buffers(dead)?;
            self.store_word_of(held, (number, h), link, buffer.next);
        } else if let Some(name) = self.smaller(h, &buffer, i) {
            dead.push(offset(buffer.name));
            self.mark_buffers(dead)?;
            medium.fence();
            self.store_word_of(held, (number, h), link, name);
        } else {
            let (copy_to, state) = buffer.state.without(i);
            if let Some(at) = copy_to {
                let last = medium.load(&buffer.values[buffer.state.count - 1]);
                self.store_value(&buffer, at, last);
            }
            let word = self.new_state(&buffer, state);
            self.store_word_of(held, (number, h), &buffer.header.state, word);
        }
        self.writers.extra_count.add(h, -1);
        Ok(Some((number, gone)))
    }

    /// The other value of a list of two, where there is a free slot for it.
    fn only_other(
        &self,
        bucket: &Bucket,
        h: u64,
        list: u64,
        (name, gone): (u64, usize),
    ) -> Result<Option<u64>> {
        let medium = self.medium();
        let has_room = self.shape().used & !self.head(bucket).live() != 0;
        let (mut count, mut other) = (0, None);
        self.walk(h, list, &|| true, &mut |buffer| {
            for i in buffer.state.positions().take(3) {
                count += 1;
                if (buffer.name, i) != (name, gone) {
                    other = Some(medium.load(&buffer.values[i]));
                }
            }
            Ok(count <= 2)
        })?;
        Ok(other.filter(|_| count == 2 && has_room))
    }

    /// Writes a smaller buffer in the place of one of which only a quarter will be left, if there is
    /// space for it: a removal needs none.
    fn smaller(&self, h: u64, buffer: &Buffer<'_>, gone: usize) -> Option<u64> {
        let medium = self.medium();
        let left = buffer.state.live() - 1;
        if buffer.bytes() == self.smallest_bytes() || left * 4 > buffer.values.len() {
            return None;
        }
        let rest = buffer.state.positions().filter(|i| *i != gone);
        let values = rest.map(|i| medium.load(&buffer.values[i]));
        self.write_buffer(h, self.bytes_for(left), buffer.next, values).ok()
    }
}
