//! Insert, update and remove: one commit word each.

use durahash_media::{Medium, Result};

use super::layout::{BUCKET_BYTES, Bucket, marker, preferred_slot, slot_for};
use super::meta::Meta;
use super::planted::{Fault, planted};
use super::{Change, Reh, Room, Sought, Updater};

/// W of one bucket. A guard that is dropped without a
/// release broke off: the pool takes no more writes then, and no thread waits for the lock.
pub(super) struct Guard<'a, M: Medium> {
    reh: &'a Reh<M>,
    pub(super) bucket: u64,
    pub(super) meta: Meta<'a>,
    released: bool,
}

impl<'a, M: Medium> Guard<'a, M> {
    /// Takes W of a bucket; the caller checks afterwards that it is still the right one.
    pub(super) fn lock(reh: &'a Reh<M>, bucket: u64) -> Self {
        let meta = reh.meta(bucket);
        meta.lock().lock(reh.medium());
        Guard { reh, bucket, meta, released: false }
    }

    /// As [`Guard::lock`], unless another writer holds it.
    pub(super) fn try_lock(reh: &'a Reh<M>, bucket: u64) -> Option<Self> {
        let meta = reh.meta(bucket);
        let taken = meta.lock().try_lock(reh.medium());
        // Lazily: a value that is made and dropped would release another writer's lock.
        taken.then(|| Guard { reh, bucket, meta, released: false })
    }

    /// Stops readers: visible stores follow.
    pub(super) fn exclude_readers(&self) {
        self.meta.lock().exclude_readers();
    }

    #[track_caller]
    pub(super) fn release_changed(mut self) {
        self.released = true;
        self.meta.lock().unlock_changed(self.reh.medium());
    }

    pub(super) fn release_unchanged(mut self) {
        self.released = true;
        self.meta.lock().unlock_unchanged(self.reh.medium());
    }
}

impl<M: Medium> Drop for Guard<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.released {
            self.give_up();
        }
    }
}

impl<M: Medium> Guard<'_, M> {
    /// The thread unwinds in the middle of a change.
    #[cold]
    #[inline(never)]
    fn give_up(&self) {
        self.reh.pool.poison();
        let medium = self.reh.medium();
        if let Ok(bucket) = self.reh.bucket(self.bucket) {
            medium.flush(bucket);
            medium.drain();
        }
        medium.changed(0, 0);
        self.meta.lock().unlock_changed(medium);
    }
}

impl<M: Medium> Reh<M> {
    /// Takes W of the bucket of `h`.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    #[inline(always)]
    pub(super) fn hold(&self, h: u64) -> Result<Guard<'_, M>> {
        loop {
            let Some(sought) = self.directory.seek(h) else {
                self.find_again(h)?;
                continue;
            };
            let bucket = sought.entry();
            self.medium().expect_store(bucket * BUCKET_BYTES);
            // The line that will be stored to, together with the lock's: a store, a write-back and
            // the next locked instruction would wait for it.
            if let Ok(bucket) = self.bucket(bucket) {
                self.medium().prefetch(&bucket.slots[preferred_slot(h) as usize]);
            }
            let held = Guard::lock(self, bucket);
            if self.directory.is_current(&sought) {
                return Ok(held);
            }
            held.release_unchanged();
        }
    }

    #[inline(always)]
    fn hold_to_write(&self, h: u64, room: Room) -> Result<Guard<'_, M>> {
        hold_admitted!(self, h, room, self.hold(h)?)
    }

    /// Splits the bucket of `h`, unless it has depth `to` already; true if it did.
    pub(super) fn split_once(&self, h: u64, to: u32) -> Result<bool> {
        let held = self.hold_to_write(h, Room::ForNew)?;
        let due = held.meta.depth() < to;
        if due {
            self.split(held, h)?;
        } else {
            held.release_unchanged();
        }
        Ok(due)
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
            let held = self.hold_to_write(h, room)?;
            let found = or_release!(held, self.probe(h, held.bucket));
            if found.is_none() && room.is_for_new() && held.meta.live() == self.full {
                self.split(held, h)?;
                continue;
            }
            let payload = found.map(|(_, payload)| payload);
            let done = f(payload).and_then(|change| Ok((change, self.bucket(held.bucket)?)));
            let (change, bucket) = or_release!(held, done);
            match (change, found) {
                (Change::Set(v), Some((i, _))) => self.set(held, bucket, (h, i), v),
                (Change::Set(v), None) => self.insert(held, bucket, h, v),
                (Change::Remove, Some((i, _))) => self.remove(held, bucket, h, i),
                (Change::Keep, _) | (Change::Remove, None) => held.release_unchanged(),
            }
            return Ok((payload, change));
        }
    }

    /// The body of [`Index::look_in_batch`](crate::index::Index::look_in_batch).
    #[inline(always)]
    pub(super) fn look_unlocked(
        &self,
        h: u64,
        room: Room,
        sought: &Sought<'_, u32>,
    ) -> Option<Option<u64>> {
        let found = self.look_in(h, sought, |lock, version, _| lock.is_free_at(version))?;
        if found.is_none() && room.is_for_new() {
            self.prefetch_free(h, sought.entry())?;
        }
        Some(found)
    }

    /// Starts to fetch the slot that `h` gets in a bucket; `None` if none is free.
    #[inline(always)]
    pub(super) fn prefetch_free(&self, h: u64, bucket: u64) -> Option<()> {
        let free = self.full & !self.meta(bucket).live();
        let bucket = self.bucket(bucket).ok().filter(|_| free != 0)?;
        self.medium().prefetch(&bucket.slots[slot_for(h, free) as usize]);
        Some(())
    }

    #[inline(always)]
    fn insert(&self, held: Guard<'_, M>, bucket: &Bucket, h: u64, payload: u64) {
        let medium = self.medium();
        self.pool.touch(held.bucket * BUCKET_BYTES);
        let free = self.full & !held.meta.live();
        assert!(free != 0, "Room::None was given for what inserts");
        let i = slot_for(h, free);
        let slot = &bucket.slots[i as usize];
        // Readers need not wait: they see the slot when the bitmap says so, and that is after the
        // drain.
        medium.store(&slot.payload, payload);
        if !medium.same_line_order() {
            medium.flush(&slot.payload);
            medium.fence();
        }
        medium.store(&slot.h, h);
        medium.flush(slot);
        medium.drain();
        self.live.add(1);
        held.meta.add(i, h);
        self.changed_entry(h);
        held.release_changed();
    }

    #[inline(always)]
    fn set(&self, held: Guard<'_, M>, bucket: &Bucket, (h, i): (u64, u32), payload: u64) {
        let medium = self.medium();
        let slot = &bucket.slots[i as usize];
        self.pool.touch(held.bucket * BUCKET_BYTES);
        held.exclude_readers();
        medium.store(&slot.payload, payload);
        medium.flush(&slot.payload);
        medium.drain();
        self.changed_entry(h);
        held.release_changed();
    }

    /// Counts a change of one entry, before its bucket is released.
    #[inline(always)]
    fn changed_entry(&self, h: u64) {
        if !planted(Fault::EntryUncounted) {
            self.medium().changed(h, u64::BITS);
        }
    }

    fn remove(&self, held: Guard<'_, M>, bucket: &Bucket, h: u64, i: u32) {
        let medium = self.medium();
        let slot = &bucket.slots[i as usize];
        self.pool.touch(held.bucket * BUCKET_BYTES);
        held.exclude_readers();
        medium.store(&slot.h, marker(h));
        medium.flush(&slot.h);
        medium.drain();
        self.live.add(-1);
        held.meta.set_live(held.meta.live() & !(1 << i));
        self.changed_entry(h);
        held.release_changed();
    }
}
