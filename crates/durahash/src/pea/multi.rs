//! Multimaps: any number of entries for each hash (§3.3).
//!
//! All entries of a hash are in one bucket: values in slots of their own, as long as there are few,
//! and behind that a list of value buffers (`buffer.rs`) in a slot that the head marks. So whatever
//! happens to a key is committed by one word: the head of its bucket, the payload of its list's
//! slot, or the state or link of one buffer. No log is needed, and none has to be replayed.
//!
//! One slot of each bucket stays free for the next list: where an entry finds no other slot, the key
//! that has most slots of the bucket gets a list there, in the same store that frees its slots
//! (compaction). A bucket whose keys all differ is full with one slot less than that of a map.
//!
//! # Commit steps
//! As in the [module docs](super), whose rows for insert and remove hold for values in slots.
//!
//! | Operation | Stores | Then | If power fails after this step |
//! |---|---|---|---|
//! | compaction | a buffer; `h` and its name in a free slot; head word 1 with the fingerprint | flush, fence | nothing names the buffer: free |
//! | | ✕ head word 0: the list, and not the slots whose values it has; then word 1 where lines keep order | flush, drain | the same values |
//! | add, to a list with room | the value, at a position that does not count | flush, fence, but in the state's line where lines keep order | not there |
//! | | ✕ the buffer's state | flush, drain | added |
//! | add, to a full buffer | a new one: twice the size with all values, or of the largest size before it | flush, fence | nothing names it: free |
//! | | ✕ payload of the list's slot | flush, drain | added |
//! | remove, of a list | copy of the last value at the missing position, if one is missing | flush, fence, as for add | the same values |
//! | | ✕ the buffer's state: another position is missing, or fewer count | flush, drain | removed |
//! | remove, most are gone | a smaller buffer with the others | flush, fence | nothing names it: free |
//! | | ✕ the word that named the larger one: payload of the slot, or link of the buffer before | flush, drain | removed |
//! | remove, the last of a buffer | ✕ the word that named it, with the name of the next one | flush, drain | removed |
//! | remove, one is left | it in a free slot; head word 1 | flush, fence | slot not live |
//! | | ✕ head word 0: that slot, and not the list | flush, drain | removed |
//! | remove all | ✕ head word 0 without the key's slots; then word 1 where lines keep order | flush, drain | all are there, or none |
//!
//! Buffers that nothing names any more go back to the pool after that.

use std::collections::HashMap;

use durahash_media::probe::BitMask;
use durahash_media::{Error, ErrorKind, Event, Medium, PmU64, Result, wait_lock};

use super::buffer::{BESIDE_HEADER, Buffer, offset};
use super::layout::{BUCKET_BYTES, Bucket, Head, LINES, SLOTS, better};
use super::strategy::Strategy;
use super::write::Held;
use super::{Entry, Found, MultiPea, READ_TRIES, Segment};
use crate::extend;
use crate::index::{Finding, IndexStats, Keys, MultiIndex, MultiReader, Scanned, Values};

/// The slots of a key in its bucket.
struct Own {
    /// Those that hold values.
    values: u16,
    /// The one that names its list.
    list: Option<u32>,
}

/// What became of a try to add.
enum Tried {
    /// The entry is in this bucket.
    Added(u32),
    /// A key of this bucket got a list: there is room now.
    Compacted(u32),
    /// There is room in no bucket.
    NoRoom,
}

impl<M: Medium> MultiPea<M> {
    /// The slots of `h` in a bucket, whosever key they are.
    fn slots_of(&self, bucket: &Bucket, head: Head<true>, h: u64) -> u16 {
        head.candidates(h).fold(0, |slots, i| {
            let is_there = self.medium().load(&bucket.slots[i as usize].h) == h;
            slots | u16::from(is_there) << i
        })
    }

    fn payload(&self, bucket: &Bucket, slot: u32) -> u64 {
        self.medium().load(&bucket.slots[slot as usize].payload)
    }

    /// The slots of a key. The caller holds the bucket's lock, or validates its version afterwards.
    fn own(&self, bucket: &Bucket, head: Head<true>, h: u64, keys: &dyn Keys) -> Result<Own> {
        let mut own = Own { values: 0, list: None };
        for i in BitMask(self.slots_of(bucket, head, h)) {
            let payload = self.payload(bucket, i);
            if head.lists() & 1 << i == 0 {
                own.values |= u16::from(keys.is_meant(payload)?) << i;
            } else if keys.is_meant(self.buffer(h, payload)?.any(self.medium()))? {
                own.list = Some(i);
            }
        }
        Ok(own)
    }

    /// Collects the entries of a key, which was found in this bucket.
    fn gather(
        &self,
        (segment, found): (Segment, Option<Found>),
        h: u64,
        keys: &dyn Keys,
        out: &mut Values,
        still: &dyn Fn() -> bool,
    ) -> Result<()> {
        out.payloads.clear();
        out.buffers.clear();
        let Some(found) = found else {
            return Ok(());
        };
        let medium = self.medium();
        let bucket = self.bucket(segment, found.bucket)?;
        let head = self.head(bucket);
        for i in BitMask(self.slots_of(bucket, head, h)) {
            let payload = self.payload(bucket, i);
            if head.lists() & 1 << i == 0 {
                if keys.is_meant(payload)? {
                    out.payloads.push(payload);
                }
                continue;
            }
            let mut is_meant = None;
            self.walk(h, payload, still, &mut |buffer| {
                let meant = match is_meant {
                    Some(meant) => meant,
                    None => *is_meant.insert(keys.is_meant(buffer.any(medium))?),
                };
                let room = out.payloads.capacity() - out.payloads.len();
                if !meant || (buffer.state.count > room && !still()) {
                    return Ok(false);
                }
                out.buffers.push(offset(buffer.name));
                buffer.each(medium, |v| out.payloads.push(v));
                Ok(true)
            })?;
        }
        Ok(())
    }

    fn read_values(
        &self,
        h: u64,
        keys: &dyn Keys,
        out: &mut Values,
        f: MultiReader<'_>,
    ) -> Result<()> {
        for _ in 0..READ_TRIES {
            let Some((found, seen)) = self.glance(h) else {
                continue;
            };
            // Of another segment only if what was seen is not valid any more.
            let segment = self.find(h).number();
            let still = || seen.is_valid();
            let done = found.and_then(|found| self.gather((segment, found), h, keys, out, &still));
            let done = f(&out.payloads, &still).and(done);
            if seen.is_valid() {
                return done;
            }
            self.medium().event(Event::Wait);
        }
        let mut held = self.hold(h);
        let segment = held.place.number();
        let done =
            held.find(h).and_then(|found| self.gather((segment, found), h, keys, out, &|| true));
        let done = f(&out.payloads, &|| true).and(done);
        held.release_unchanged();
        done
    }

    /// How many entries a key has that was found in this bucket.
    fn count_found(
        &self,
        (segment, found): (Segment, Option<Found>),
        h: u64,
        keys: &dyn Keys,
        still: &dyn Fn() -> bool,
    ) -> Result<u64> {
        let Some(found) = found else {
            return Ok(0);
        };
        let bucket = self.bucket(segment, found.bucket)?;
        let own = self.own(bucket, self.head(bucket), h, keys)?;
        let mut count = u64::from(own.values.count_ones());
        if let Some(slot) = own.list {
            self.walk(h, self.payload(bucket, slot), still, &mut |buffer| {
                count += buffer.state.live() as u64;
                Ok(true)
            })?;
        }
        Ok(count)
    }

    fn count_values(&self, h: u64, keys: &dyn Keys) -> Result<u64> {
        for _ in 0..READ_TRIES {
            let Some((found, seen)) = self.glance(h) else {
                continue;
            };
            let segment = self.find(h).number();
            let still = || seen.is_valid();
            let counted =
                found.and_then(|found| self.count_found((segment, found), h, keys, &still));
            if seen.is_valid() {
                return counted;
            }
            self.medium().event(Event::Wait);
        }
        let mut held = self.hold(h);
        let segment = held.place.number();
        let counted =
            held.find(h).and_then(|found| self.count_found((segment, found), h, keys, &|| true));
        held.release_unchanged();
        counted
    }

    fn add_entry(&self, h: u64, payload: u64, keys: &dyn Keys) -> Result<()> {
        loop {
            let mut held = self.hold_to_write(h)?;
            let mut dead = None;
            match self.try_add(&mut held, h, payload, keys, &mut dead) {
                Ok(Tried::Added(bucket)) => {
                    held.release_changed(bucket);
                    self.free_buffers(dead);
                    return Ok(());
                }
                Ok(Tried::Compacted(bucket)) => held.release_changed(bucket),
                Ok(Tried::NoRoom) => {
                    let place = held.place;
                    held.release_unchanged();
                    self.make_room(h, place)?;
                }
                Err(e) => {
                    held.release_unchanged();
                    return Err(e);
                }
            }
        }
    }

    fn try_add<'a>(
        &'a self,
        held: &mut Held<'a, M, true>,
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
        let free = self.shape.used & !head.live();
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
        held: &mut Held<'_, M, true>,
        h: u64,
        payload: u64,
        keys: &dyn Keys,
    ) -> Result<Tried> {
        let segment = held.place.number();
        let strategy = Strategy::of(held.place);
        let live = |number| match self.bucket(segment, number) {
            Ok(bucket) => self.head(bucket).live().count_ones(),
            // Not there: nothing goes into it.
            Err(_) => self.shape.slots,
        };
        if let Some(number) = self.shape.choose(strategy, held.homes, live) {
            let bucket = self.bucket(segment, number)?;
            self.insert_into(held, bucket, number, h, payload);
            return Ok(Tried::Added(number));
        }
        for number in held.homes.buckets(strategy, self.shape.main) {
            let bucket = self.bucket(segment, number)?;
            let head = self.head(bucket);
            if let Some(slots) = self.most_slots(bucket, head, keys)? {
                self.compact(held, (number, bucket), head, slots, None)?;
                return Ok(Tried::Compacted(number));
            }
        }
        Ok(Tried::NoRoom)
    }

    /// The slots of the key that has most values in slots of a bucket, at least two; `None` where all
    /// keys differ, or no slot is free for a list.
    fn most_slots(
        &self,
        bucket: &Bucket,
        head: Head<true>,
        keys: &dyn Keys,
    ) -> Result<Option<u16>> {
        let medium = self.medium();
        if self.shape.used & !head.live() == 0 {
            return Ok(None);
        }
        let mut left = head.live() & !head.lists();
        let mut hashes = [0; SLOTS as usize];
        for i in BitMask(left) {
            hashes[i as usize] = medium.load(&bucket.slots[i as usize].h);
        }
        // What is damaged is compacted with nothing: it does not keep others out of the bucket.
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
    fn compact(
        &self,
        held: &Held<'_, M, true>,
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
        self.writers.beyond.add(h, count as i64 - 1);
        Ok(())
    }

    /// Puts one entry in the place of several slots of a bucket, in a free one: by one word.
    fn replace_slots(
        &self,
        held: &Held<'_, M, true>,
        (number, bucket): (u32, &Bucket),
        head: Head<true>,
        slots: u16,
        (h, payload, is_list): (u64, u64, bool),
    ) {
        let medium = self.medium();
        let free = self.shape.used & !head.live();
        let near = free & LINES[0];
        let i = if near != 0 { near } else { better::<true>(free) }.trailing_zeros();
        let slot = &bucket.slots[i as usize];
        medium.store(&slot.payload, payload);
        medium.store(&slot.h, h);
        medium.flush(slot);
        let with = if is_list { head.with_list(i, h) } else { head.with(i, h) };
        // Not yet the fingerprints of what goes: it is found until the commit.
        medium.store(&bucket.head[1], with.0[1]);
        if !M::SAME_LINE_ORDER {
            medium.flush(&bucket.head[1]);
        }
        medium.fence();
        let new = with.without_all(slots);
        held.exclude_readers(number);
        self.store_head(bucket, new);
    }

    /// Stores a head from which slots have gone: the commit.
    fn store_head(&self, bucket: &Bucket, new: Head<true>) {
        let medium = self.medium();
        medium.store(&bucket.head[0], new.0[0]);
        if M::SAME_LINE_ORDER {
            // Never durable before the commit. It matters for damage only.
            medium.store(&bucket.head[1], new.0[1]);
        }
        medium.flush(&bucket.head);
        medium.drain();
    }

    /// Stores the word that commits a change of a list.
    fn store_word_of<'a>(
        &self,
        held: &mut Held<'a, M, true>,
        bucket: u32,
        word: &'a PmU64,
        v: u64,
    ) {
        let medium = self.medium();
        held.touches(word);
        held.exclude_readers(bucket);
        medium.store(word, v);
        medium.flush(word);
        medium.drain();
    }

    /// Stores a value where no reader looks for one, before the state that says so.
    fn store_value(&self, buffer: &Buffer<'_>, at: usize, v: u64) {
        let medium = self.medium();
        medium.store(&buffer.values[at], v);
        if !M::SAME_LINE_ORDER || at >= BESIDE_HEADER {
            medium.flush(&buffer.values[at]);
            medium.fence();
        }
    }

    /// Adds a value to a list. The buffer that was replaced, if one was.
    fn append<'a>(
        &'a self,
        held: &mut Held<'a, M, true>,
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
            self.store_word_of(held, number, &buffer.header.state, word);
        } else {
            let name = if buffer.bytes() < self.largest_bytes() {
                dead = Some(offset(buffer.name));
                let values = buffer.state.positions().map(|i| medium.load(&buffer.values[i]));
                self.write_buffer(h, buffer.bytes() * 2, buffer.next, values.chain([v]))?
            } else {
                self.write_buffer(h, self.largest_bytes(), buffer.name, [v].into_iter())?
            };
            medium.fence();
            self.store_word_of(held, number, payload, name);
        }
        self.writers.beyond.add(h, 1);
        Ok(dead)
    }

    /// Gives buffers back that nothing names.
    fn free_buffers(&self, offs: impl IntoIterator<Item = u64>) {
        for off in offs {
            // The operation has its result; what cannot be freed now is found by the next sweep.
            let _ = self.pool.free_block(off);
        }
    }

    fn remove_value(
        &self,
        h: u64,
        keys: &dyn Keys,
        wanted: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        let mut held = self.hold_to_write(h)?;
        let mut dead = Vec::new();
        match self.try_remove(&mut held, h, keys, wanted, &mut dead) {
            Ok(Some((bucket, payload))) => {
                held.release_changed(bucket);
                self.free_buffers(dead);
                Ok(Some(payload))
            }
            Ok(None) => {
                held.release_unchanged();
                Ok(None)
            }
            Err(e) => {
                held.release_unchanged();
                Err(e)
            }
        }
    }

    fn try_remove<'a>(
        &'a self,
        held: &mut Held<'a, M, true>,
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
                self.store_head(bucket, head.without(i));
                self.add_count(segment, -1);
                return Ok(Some((number, payload)));
            }
        }
        let Some(slot) = own.list else {
            return Ok(None);
        };
        self.remove_from_list(held, (number, bucket, slot), h, wanted, dead)
    }

    fn remove_from_list<'a>(
        &'a self,
        held: &mut Held<'a, M, true>,
        (number, bucket, slot): (u32, &'a Bucket, u32),
        h: u64,
        wanted: &mut dyn FnMut(u64) -> Result<bool>,
        dead: &mut Vec<u64>,
    ) -> Result<Option<(u32, u64)>> {
        let medium = self.medium();
        let list = &bucket.slots[slot as usize].payload;
        // Where the value is, and the word that names its buffer.
        let mut link = list;
        let mut hit: Option<(Buffer<'a>, usize, &'a PmU64)> = None;
        // As in `walk`.
        let (mut at, mut passed) = (0_u64, 0);
        loop {
            let buffer = self.buffer(h, medium.load(link))?;
            at += 1;
            for i in buffer.state.positions() {
                if wanted(medium.load(&buffer.values[i]))? {
                    hit = Some((buffer, i, link));
                    break;
                }
            }
            if hit.is_some() || buffer.next == 0 {
                break;
            }
            if at.is_power_of_two() {
                passed = offset(buffer.name);
            }
            if offset(buffer.next) == passed {
                return Err(Error::corrupt("a list of values runs in a circle", passed));
            }
            link = &buffer.header.next;
        }
        let Some((buffer, i, link)) = hit else {
            return Ok(None);
        };
        let gone = medium.load(&buffer.values[i]);
        if let Some(rest) = self.only_other(bucket, h, medium.load(list), (buffer.name, i))? {
            // One is left: back into the bucket.
            self.walk(h, medium.load(list), &|| true, &mut |buffer| {
                dead.push(offset(buffer.name));
                Ok(true)
            })?;
            let head = self.head(bucket);
            self.replace_slots(held, (number, bucket), head, 1 << slot, (h, rest, false));
        } else if buffer.state.live() == 1 {
            self.store_word_of(held, number, link, buffer.next);
            dead.push(offset(buffer.name));
        } else if let Some(name) = self.smaller(h, &buffer, i) {
            medium.fence();
            self.store_word_of(held, number, link, name);
            dead.push(offset(buffer.name));
        } else {
            let (copy_to, state) = buffer.state.without(i);
            if let Some(at) = copy_to {
                let last = medium.load(&buffer.values[buffer.state.count - 1]);
                self.store_value(&buffer, at, last);
            }
            let word = self.new_state(&buffer, state);
            self.store_word_of(held, number, &buffer.header.state, word);
        }
        self.writers.beyond.add(h, -1);
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
        let has_room = self.shape.used & !self.head(bucket).live() != 0;
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

    fn remove_key(
        &self,
        h: u64,
        keys: &dyn Keys,
        mut removed: Option<&mut Vec<u64>>,
    ) -> Result<u64> {
        let medium = self.medium();
        let mut held = self.hold_to_write(h)?;
        let mut dead = Vec::new();
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
            for i in BitMask(own.values) {
                if let Some(removed) = &mut removed {
                    removed.push(self.payload(bucket, i));
                }
            }
            if let Some(slot) = own.list {
                slots |= 1 << slot;
                self.walk(h, self.payload(bucket, slot), &|| true, &mut |buffer| {
                    count += buffer.state.live() as u64;
                    dead.push(offset(buffer.name));
                    if let Some(removed) = &mut removed {
                        buffer.each(medium, |v| removed.push(v));
                    }
                    Ok(true)
                })?;
            }
            Ok((slots != 0).then_some((found.bucket, bucket, head, slots, count)))
        };
        let looked = look();
        match looked {
            Ok(Some((number, bucket, head, slots, count))) => {
                held.exclude_readers(number);
                self.store_head(bucket, head.without_all(slots));
                let live = i64::from(slots.count_ones());
                self.add_count(segment, -live);
                self.writers.beyond.add(h, live - count as i64);
                held.release_changed(number);
                self.free_buffers(dead);
                Ok(count)
            }
            Ok(None) => {
                held.release_unchanged();
                Ok(0)
            }
            Err(e) => {
                held.release_unchanged();
                Err(e)
            }
        }
    }

    /// Removes the slots of a hash in one bucket, damaged or not; whether there were any.
    fn wipe_bucket(&self, h: u64, removed: &mut Vec<u64>) -> Result<bool> {
        let medium = self.medium();
        let mut held = self.hold_to_write(h)?;
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
        let (mut dead, mut beyond, mut whole) = (Vec::new(), 0, true);
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
            beyond += count - 1;
        }
        held.exclude_readers(number);
        self.store_head(bucket, head.without_all(slots));
        self.add_count(segment, -i64::from(slots.count_ones()));
        if whole {
            self.writers.beyond.add(h, -beyond);
        } else {
            self.writers.beyond.lose();
        }
        held.release_changed(number);
        self.free_buffers(dead);
        Ok(true)
    }

    /// Counts the lists that were not counted yet; all of them where the number is lost.
    fn count_beyond(&self) -> Result<u64> {
        let beyond = &self.writers.beyond;
        let _counting = wait_lock(&beyond.counting, self.medium());
        while let Some(at) = beyond.next() {
            self.count_lists(at, |more, next| beyond.advance(more, next))?;
        }
        if let Some(known) = beyond.get() {
            return Ok(known);
        }
        let (mut sum, mut at) = (0, Some(0));
        while let Some(from) = at {
            self.count_lists(from, |more, next| (sum, at) = (sum + more, next))?;
        }
        Ok(sum)
    }

    /// Counts the lists from hash `at` to the end of its segment, and tells how many values they have
    /// beyond one a slot, and the hash to go on from, while all locks of the segment are held.
    fn count_lists(&self, at: u64, tell: impl FnOnce(u64, Option<u64>)) -> Result<()> {
        let whole = self.hold_whole(at);
        let prefix = extend::prefix(at, whole.place.depth());
        let mut more = 0;
        let mut counted = Ok(());
        let seen = self.each_hash(whole.place, prefix, &mut |_, h, entries| {
            if counted.is_err() || h < at {
                return;
            }
            for entry in entries.iter().filter(|entry| entry.is_list) {
                let mut count = 0;
                counted = self.walk(h, entry.payload, &|| true, &mut |buffer| {
                    count += buffer.state.live() as u64;
                    Ok(true)
                });
                more += count.max(1) - 1;
            }
        });
        let seen = seen.and(counted);
        if seen.is_ok() {
            tell(more, extend::next(prefix, whole.place.depth()));
        }
        whole.release_unchanged();
        seen
    }

    /// PEA-7 and PEA-8, and the number of entries beyond one a slot.
    pub(super) fn check_lists(
        &self,
        segments: &[(u64, super::place::Place)],
        found: &mut dyn FnMut(Finding),
    ) -> Result<()> {
        let mut report = |invariant, off, what| found(Finding { invariant, off, what });
        let mut buffers = std::collections::HashSet::new();
        let mut beyond = 0;
        for (prefix, place) in segments {
            let mut homes: HashMap<u64, u32> = HashMap::new();
            for number in 0..self.shape.buckets() {
                let head = self.head(self.bucket(place.number(), number)?);
                let off = self.offset(place.number()) + u64::from(number) * BUCKET_BYTES;
                if head.has_stray_lists() {
                    report("PEA-7", off, "a list in a slot that is not live".to_owned());
                }
                if head.live() & !self.shape.used != 0 || head.live() == self.shape.used {
                    report("PEA-7", off, "no slot is free".to_owned());
                }
            }
            self.each_hash(*place, *prefix, &mut |number, h, entries| {
                let off = self.offset(place.number()) + u64::from(number) * BUCKET_BYTES;
                if *homes.entry(h).or_insert(number) != number {
                    report("PEA-7", off, format!("hash {h:#018x} is in another bucket, too"));
                }
                for entry in entries.iter().filter(|entry| entry.is_list) {
                    let mut count = 0;
                    let walked = self.walk(h, entry.payload, &|| true, &mut |buffer| {
                        count += buffer.state.live() as u64;
                        Ok(buffers.insert(offset(buffer.name)))
                    });
                    match walked {
                        Err(e) => report("PEA-8", off, format!("list of {h:#018x}: {e}")),
                        Ok(()) if count < 2 => {
                            report("PEA-8", off, format!("list of {h:#018x}: {count} values"));
                        }
                        Ok(()) => {}
                    }
                    beyond += count.max(1) - 1;
                }
            })?;
        }
        if let Some(counted) = self.writers.beyond.get().filter(|counted| *counted != beyond) {
            let what = format!("{beyond} entries beyond one a slot, the counter says {counted}");
            report("PEA-6", 0, what);
        }
        Ok(())
    }
}

impl<M: Medium> MultiIndex for MultiPea<M> {
    fn add(&self, h: u64, payload: u64, keys: &dyn Keys) -> Result<()> {
        self.pool.writable()?;
        self.medium().event(Event::Begin);
        let done = self.add_entry(h, payload, keys);
        self.medium().event(Event::Ack);
        done
    }

    fn read(&self, h: u64, keys: &dyn Keys, found: &mut Values, f: MultiReader<'_>) -> Result<()> {
        self.medium().event(Event::Begin);
        let done = self.read_values(h, keys, found, f);
        self.medium().event(Event::Ack);
        done
    }

    fn count(&self, h: u64, keys: &dyn Keys) -> Result<u64> {
        self.medium().event(Event::Begin);
        let counted = self.count_values(h, keys);
        self.medium().event(Event::Ack);
        counted
    }

    fn prefetch(&self, h: &[u64]) {
        self.prefetch_all(h);
    }

    fn remove_one(
        &self,
        h: u64,
        keys: &dyn Keys,
        wanted: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        self.pool.writable()?;
        self.medium().event(Event::Begin);
        let done = self.remove_value(h, keys, wanted);
        self.medium().event(Event::Ack);
        let removed = done?;
        if removed.is_some() {
            self.merge_around(h);
        }
        Ok(removed)
    }

    fn remove_all(&self, h: u64, keys: &dyn Keys, removed: Option<&mut Vec<u64>>) -> Result<u64> {
        self.pool.writable()?;
        self.medium().event(Event::Begin);
        let done = self.remove_key(h, keys, removed);
        self.medium().event(Event::Ack);
        let count = done?;
        if count > 0 {
            self.merge_around(h);
        }
        Ok(count)
    }

    fn wipe(&self, h: u64, removed: &mut Vec<u64>) -> Result<()> {
        self.pool.writable()?;
        while self.wipe_bucket(h, removed)? {}
        self.merge_around(h);
        Ok(())
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, Scanned)>) -> Result<Option<u64>> {
        let mut slots = Vec::new();
        let next = self.scan_unit(at, &mut slots, |bucket, h, entry| (h, bucket, entry))?;
        slots.sort_unstable_by_key(|(h, bucket, _)| (*h, *bucket));
        // A hash that left one bucket and came to another meanwhile is in one of them.
        for of_one in slots.chunk_by(|a, b| a.0 == b.0) {
            let (h, first, _) = of_one[0];
            let there = of_one.iter().filter(|(_, bucket, _)| *bucket == first);
            out.extend(there.map(|(_, _, Entry { payload, is_list })| {
                (h, if *is_list { Scanned::Many(*payload) } else { Scanned::One(*payload) })
            }));
        }
        Ok(next)
    }

    fn mend(&self) -> Result<()> {
        self.mend_all()
    }

    fn len(&self) -> Result<u64> {
        let beyond = self.count_beyond()?;
        Ok(self.live_slots()? + beyond)
    }

    fn beyond_slots(&self) -> Option<u64> {
        self.writers.beyond.get()
    }

    fn stats(&self) -> IndexStats {
        self.figures()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.check_all(found)?;
        match self.read_array() {
            Ok(array) => self.check_lists(&array.segments, found),
            // It was found above.
            Err(_) => Ok(()),
        }
    }
}
