//! Insert, update and remove: one commit word each.

use std::cell::Cell;

use durahash_media::probe::BitMask;
use durahash_media::{Medium, PmU64, Result};

use super::layout::{BUCKET_BYTES, Bucket, Head, LINES, better, preferred_line};
use super::planted::{Fault, planted};
use super::strategy::{Homes, Strategy};
use super::{Change, Hit, Room, STASH_LOCK, Segment, Sought, Table, Updater, stripe};
use crate::extendible::unit::Unit;

/// W of the locks of a key's main buckets, and of the stash's once it is asked for, and the place
/// that was found right under them. Locks that are dropped without a release broke off: the pool takes
/// no more writes then, and no thread waits for them.
pub(super) struct Locks<'a, M: Medium, const MULTI: bool> {
    pea: &'a Table<M, MULTI>,
    pub(super) place: Unit,
    pub(super) homes: Homes,
    /// The locks that are held, ascending, and which of them are of buckets that were opened.
    locks: [u32; 3],
    count: usize,
    opened: Cell<[bool; 3]>,
    /// The word of a list that is about to be changed.
    touched: Option<&'a PmU64>,
    released: bool,
}

impl<'a, M: Medium, const MULTI: bool> Locks<'a, M, MULTI> {
    /// Takes the locks for `h`, which the caller finds right afterwards or releases.
    #[inline(always)]
    fn lock(pea: &'a Table<M, MULTI>, h: u64, place: Unit) -> Self {
        let homes = pea.shape().homes(h);
        let (a, b) =
            (stripe(homes.first, pea.shape().main), stripe(homes.second, pea.shape().main));
        let (locks, opened) = ([0; 3], Cell::default());
        let mut held =
            Locks { pea, place, homes, locks, count: 0, opened, touched: None, released: false };
        if Strategy::of(place) == Strategy::Single || a == b {
            held.take(a);
        } else {
            held.take(a.min(b));
            held.take(a.max(b));
        }
        held
    }

    /// Takes one more lock, which is higher than all before it.
    fn take(&mut self, i: u32) {
        self.pea.lock(self.place.number(), i).lock(self.pea.medium());
        self.locks[self.count] = i;
        self.count += 1;
    }

    /// Takes the lock of a bucket, if it is one of the stash's. The others are held.
    pub(super) fn take_if_stash(&mut self, bucket: u32) {
        let is_held = self.locks[self.count - 1] == STASH_LOCK;
        if bucket >= self.pea.shape().main && !is_held {
            self.take(STASH_LOCK);
        }
    }

    /// The slot of `h`. Takes the stash's lock where `h` may be there.
    pub(super) fn find(&mut self, h: u64) -> Result<Option<Hit>> {
        let (pea, segment) = (self.pea, self.place.number());
        for bucket in self.homes.buckets(Strategy::of(self.place)) {
            self.take_if_stash(bucket);
            let (found, ends) = pea.probe(h, segment, bucket)?;
            if found.is_some() || ends {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The bucket for a new entry. Takes the stash's lock where it may be there.
    pub(super) fn choose(&mut self) -> Option<u32> {
        let (pea, place, homes) = (self.pea, self.place, self.homes);
        pea.shape().choose(Strategy::of(place), homes, |number| {
            self.take_if_stash(number);
            pea.live_in(place.number(), number)
        })
    }

    /// Should the operation break off, this word is to be durable as well.
    pub(super) fn touches(&mut self, word: &'a PmU64) {
        self.touched = Some(word);
    }

    /// Before the first store to a bucket.
    pub(super) fn touch(&self, bucket: u32) {
        let off = self.pea.offset(self.place.number()) + u64::from(bucket) * BUCKET_BYTES;
        self.pea.pool.touch(off);
    }

    /// Stops readers of one bucket: visible stores to it follow.
    pub(super) fn exclude_readers(&self, bucket: u32) {
        let i = stripe(bucket, self.pea.shape().main);
        self.touch(bucket);
        self.pea.lock(self.place.number(), i).exclude_readers();
    }

    /// A bucket's end bit is cleared: its version is raised when the locks are released, as that is all that says so
    /// to the [look of a batch](Table::look_unlocked) that ended there.
    fn opens(&self, bucket: u32) {
        let i = stripe(bucket, self.pea.shape().main);
        let mut opened = self.opened.get();
        (0..self.count).for_each(|at| opened[at] |= self.locks[at] == i);
        self.opened.set(opened);
    }

    /// Releases all locks, after a change of one bucket.
    #[track_caller]
    pub(super) fn release_changed(mut self, bucket: u32) {
        self.release(Some(stripe(bucket, self.pea.shape().main)));
    }

    #[track_caller]
    pub(super) fn release_unchanged(mut self) {
        self.release(None);
    }

    #[track_caller]
    fn release(&mut self, changed: Option<u32>) {
        self.released = true;
        for (i, opened) in self.locks[..self.count].iter().zip(self.opened.get()) {
            let lock = self.pea.lock(self.place.number(), *i);
            if opened || changed == Some(*i) {
                lock.unlock_changed(self.pea.medium());
            } else {
                lock.unlock_unchanged(self.pea.medium());
            }
        }
    }
}

impl<M: Medium, const MULTI: bool> Drop for Locks<'_, M, MULTI> {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        let (pea, segment) = (self.pea, self.place.number());
        pea.pool.poison();
        let medium = pea.medium();
        for number in self.homes.buckets(Strategy::of(self.place)) {
            if let Ok(bucket) = pea.bucket(segment, number) {
                medium.flush(bucket);
                medium.drain();
            }
        }
        if let Some(word) = self.touched {
            medium.flush(word);
            medium.drain();
        }
        medium.changed(0, 0);
        for i in &self.locks[..self.count] {
            pea.lock(segment, *i).unlock_changed(medium);
        }
    }
}

impl<M: Medium, const MULTI: bool> Table<M, MULTI> {
    /// Takes the locks of `h`.
    #[inline(always)]
    pub(super) fn hold(&self, h: u64) -> Locks<'_, M, MULTI> {
        loop {
            let place = self.find(h);
            let homes = self.shape().homes(h);
            self.prefetch_head(place, homes);
            let first = self.offset(place.number()) + u64::from(homes.first) * BUCKET_BYTES;
            self.medium().expect_store(first);
            let held = Locks::lock(self, h, place);
            if self.find(h) == place {
                return held;
            }
            held.release_unchanged();
        }
    }

    #[inline(always)]
    pub(super) fn hold_to_write(&self, h: u64, room: Room) -> Result<Locks<'_, M, MULTI>> {
        hold_admitted!(self, h, room, self.hold(h))
    }

    /// The body of [`Index::update`](crate::index::Index::update): what was found, and what was done.
    #[inline(always)]
    pub(super) fn update_slot(
        &self,
        h: u64,
        room: Room,
        f: Updater<'_>,
    ) -> Result<(Option<u64>, Change)> {
        loop {
            let mut held = self.hold_to_write(h, room)?;
            let (found, target) = or_release!(held, self.target(&mut held, h));
            if found.is_none() && target.is_none() && room.is_for_new() {
                let place = held.place;
                held.release_unchanged();
                self.make_room(h, place)?;
                continue;
            }
            let payload = found.map(|found| found.payload);
            let done = f(payload).and_then(|change| {
                let number = found.map(|found| found.bucket).or(target);
                let bucket = number.map(|number| self.bucket(held.place.number(), number));
                Ok((change, bucket.transpose()?))
            });
            let (change, bucket) = or_release!(held, done);
            match (change, found, bucket) {
                (Change::Set(v), Some(at), Some(bucket)) => self.set(held, bucket, (h, at), v),
                (Change::Set(v), None, Some(bucket)) => {
                    let number = target.expect("a bucket is that of the target");
                    self.insert(held, bucket, number, h, v);
                }
                (Change::Remove, Some(at), Some(bucket)) => self.remove(held, bucket, (h, at)),
                (Change::Set(_), ..) => {
                    held.release_unchanged();
                    panic!("Room::None was given for what inserts");
                }
                (Change::Keep | Change::Remove, ..) => held.release_unchanged(),
            }
            return Ok((payload, change));
        }
    }

    /// The body of [`Index::look_in_batch`](crate::index::Index::look_in_batch).
    #[inline(always)]
    pub(super) fn look_unlocked<'a>(
        &'a self,
        h: u64,
        room: Room,
        sought: &Sought<'a, u64>,
    ) -> Option<Option<u64>> {
        let seen = self.glance_in(h, sought).filter(|(_, seen)| seen.is_free(self.medium()));
        let (found, _) = seen?;
        let found = found.ok()?;
        if found.is_none() && room.is_for_new() {
            let place = self.find(h);
            let live = |number| self.live_in(place.number(), number);
            let number = self.shape().choose(Strategy::of(place), self.shape().homes(h), live)?;
            self.prefetch_free(self.bucket(place.number(), number).ok()?, h);
        }
        Some(found.map(|found| found.payload))
    }

    /// The slot of `h`, or the bucket that has room for it; neither where none has.
    fn target(&self, held: &mut Locks<'_, M, MULTI>, h: u64) -> Result<(Option<Hit>, Option<u32>)> {
        let found = held.find(h)?;
        if found.is_some() {
            return Ok((found, None));
        }
        Ok((None, held.choose()))
    }

    fn live_in(&self, segment: Segment, number: u32) -> u32 {
        match self.bucket(segment, number) {
            Ok(bucket) => self.head(bucket).live().count_ones(),
            // Not there: nothing goes into it.
            Err(_) => self.shape().slots,
        }
    }

    fn insert(
        &self,
        held: Locks<'_, M, MULTI>,
        bucket: &Bucket,
        number: u32,
        h: u64,
        payload: u64,
    ) {
        self.insert_into(&held, bucket, number, h, payload);
        held.release_changed(number);
    }

    /// Puts an entry into a free slot of a bucket.
    pub(super) fn insert_into(
        &self,
        held: &Locks<'_, M, MULTI>,
        bucket: &Bucket,
        number: u32,
        h: u64,
        payload: u64,
    ) {
        let medium = self.medium();
        let opened = number != held.homes.first && self.open_before(held, number);
        held.touch(number);
        let head = self.head(bucket);
        let free = self.shape().used & !head.live();
        let near = free & LINES[0];
        let new = if near != 0 {
            let i = near.trailing_zeros();
            let slot = &bucket.slots[i as usize];
            medium.store(&slot.payload, payload);
            medium.store(&slot.h, h);
            if !medium.same_line_order() {
                medium.flush(slot);
            }
            if opened || !medium.same_line_order() {
                medium.fence();
            }
            head.with(i, h)
        } else {
            self.insert_far(bucket, head, free, h, payload)
        };
        let is_full = new.live().count_ones() >= self.shape().slots;
        // The next entries go elsewhere, and need not open it.
        let word = if is_full { new.0[0] & !Head::<MULTI>::END } else { new.0[0] };
        held.exclude_readers(number);
        medium.store(&bucket.head[0], word);
        medium.flush(&bucket.head);
        medium.drain();
        self.add_count(held.place.number(), 1);
        if medium.changes().is_some() {
            self.changed_entry(h);
            self.changed_places(bucket, head.live() & !new.live());
        }
    }

    /// Counts the entries of slots that were moved.
    #[cold]
    fn changed_places(&self, bucket: &Bucket, moved: u16) {
        let medium = self.medium();
        for i in BitMask(moved).filter(|_| !planted(Fault::MoveUncounted)) {
            medium.changed(medium.load(&bucket.slots[i as usize].h), u64::BITS);
        }
    }

    /// Counts a change of one entry for readers in other processes (`onlooker.rs`), before its bucket is released.
    #[inline(always)]
    pub(super) fn changed_entry(&self, h: u64) {
        let Some(changes) = self.medium().changes() else { return };
        if !planted(Fault::EntryUncounted) {
            changes.raise(h, u64::BITS);
        }
        if MULTI && !planted(Fault::ValuesUnnoted) {
            changes.note(h);
        }
    }

    /// Clears the end bits of the buckets that a lookup visits before this one, and flushes what it
    /// cleared, which the caller fences before it commits; true if there was any. Readers are not stopped:
    /// one that saw the bit set did so before the entry was there, and one that does not looks further.
    fn open_before(&self, held: &Locks<'_, M, MULTI>, number: u32) -> bool {
        let medium = self.medium();
        let mut opened = false;
        for before in held.homes.before(number) {
            let Ok(bucket) = self.bucket(held.place.number(), before) else {
                continue;
            };
            let word = medium.load(&bucket.head[0]);
            if word & Head::<MULTI>::END != 0 {
                held.touch(before);
                held.opens(before);
                medium.store(&bucket.head[0], word & !Head::<MULTI>::END);
                medium.flush(&bucket.head[0]);
                opened = true;
            }
        }
        opened
    }

    /// Slots of the first line that may be moved.
    fn movable(&self, head: Head<MULTI>) -> u16 {
        let values = head.live() & !head.lists();
        if self.shape().policy.moving { values & LINES[0] } else { 0 }
    }

    /// Starts to fetch the line in which `h` would be inserted, if not in that of the head.
    fn prefetch_free(&self, bucket: &Bucket, h: u64) {
        let medium = self.medium();
        let head = self.head(bucket);
        let free = self.shape().used & !head.live();
        if free & LINES[0] == 0 {
            let near = [0, 1, 2].map(|i| medium.load(&bucket.slots[i].h));
            let line = far_line(near, self.movable(head), better::<MULTI>(free), h);
            medium.prefetch(&bucket.slots[line * 4 - 1]);
        }
    }

    /// Puts an entry into the emptiest of the further lines, of equal ones into that which most
    /// entries prefer. Since that line is written anyway, entries of the first line are moved there,
    /// so that the next inserts find room beside the head; lists stay near it. Returns the head that
    /// says so.
    fn insert_far(
        &self,
        bucket: &Bucket,
        head: Head<MULTI>,
        free: u16,
        h: u64,
        payload: u64,
    ) -> Head<MULTI> {
        let medium = self.medium();
        let near = [0, 1, 2].map(|i| medium.load(&bucket.slots[i].h));
        let free = better::<MULTI>(free);
        let movable = self.movable(head);
        let line = far_line(near, movable, free, h);
        let mut room = BitMask(free & LINES[line]);
        let mut new = head;
        let mut put = |h, payload| {
            let Some(i) = room.next() else {
                return false;
            };
            let slot = &bucket.slots[i as usize];
            medium.store(&slot.payload, payload);
            medium.store(&slot.h, h);
            new = new.with(i, h);
            true
        };
        put(h, payload);
        let mut moved = 0;
        for i in BitMask(movable) {
            if put(near[i as usize], medium.load(&bucket.slots[i as usize].payload)) {
                moved |= 1 << i;
            }
        }
        for i in BitMask(moved) {
            new = new.without(i);
        }
        medium.flush(&bucket.slots[line * 4 - 1..line * 4 + 3]);
        medium.store(&bucket.head[1], new.0[1]);
        if !medium.same_line_order() {
            medium.flush(&bucket.head[1]);
        }
        medium.fence();
        new
    }

    #[inline(always)]
    fn set(&self, held: Locks<'_, M, MULTI>, bucket: &Bucket, (h, at): (u64, Hit), payload: u64) {
        let medium = self.medium();
        let slot = &bucket.slots[at.slot as usize];
        held.exclude_readers(at.bucket);
        medium.store(&slot.payload, payload);
        medium.flush(&slot.payload);
        medium.drain();
        self.changed_entry(h);
        held.release_changed(at.bucket);
    }

    fn remove(&self, held: Locks<'_, M, MULTI>, bucket: &Bucket, (h, at): (u64, Hit)) {
        let medium = self.medium();
        let new = self.head(bucket).without(at.slot);
        held.exclude_readers(at.bucket);
        medium.store(&bucket.head[0], new.0[0]);
        if medium.same_line_order() {
            // Its fingerprint, never durable before the commit. It matters for damage only.
            medium.store(&bucket.head[1], new.0[1]);
        }
        medium.flush(&bucket.head);
        medium.drain();
        self.add_count(held.place.number(), -1);
        self.changed_entry(h);
        held.release_changed(at.bucket);
    }
}

/// The emptiest of the further lines, of equal ones that which most entries prefer, of `h` and those of the `near`
/// ones that are `movable`.
#[inline(always)]
fn far_line(near: [u64; 3], movable: u16, free: u16, h: u64) -> usize {
    let fit = |line: usize| {
        let prefer = BitMask(movable).filter(|i| preferred_line(near[*i as usize]) == line);
        let prefer = prefer.count() + usize::from(preferred_line(h) == line);
        ((free & LINES[line]).count_ones(), prefer)
    };
    (2..LINES.len()).fold(1, |line, other| if fit(other) > fit(line) { other } else { line })
}
