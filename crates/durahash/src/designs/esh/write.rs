//! Insert, update and remove. The commit steps are in the [module docs](super).

use durahash_media::{EpochLock, Medium, Result, Taken};

use super::layout::{BUCKET_BYTES, Bucket, is_near, slot_for};
use super::planted::{Fault, planted};
use super::records::Record;
use super::{Change, Esh, Hit, Room, Sought, Unit, Updater};

/// W of the home of a hash, and the place that was found right under it; W of one more bucket once that
/// is asked for. Locks that are dropped without a release broke off: the pool takes no more writes then,
/// and no thread waits for them.
pub(super) struct Locks<'a, M: Medium> {
    esh: &'a Esh<M>,
    pub(super) place: Unit,
    number: u32,
    pub(super) home: &'a Bucket,
    other: Option<&'a Bucket>,
    released: bool,
}

impl<'a, M: Medium> Locks<'a, M> {
    /// Takes one more bucket of the segment. [`Busy`](Taken::Busy) where that would not be in order, and
    /// another writer has it: the caller lets go of all, and begins again.
    fn take(&mut self, number: u32) -> Result<Taken> {
        let (esh, medium) = (self.esh, self.esh.medium());
        let bucket = esh.bucket(self.place, number)?;
        esh.touch(bucket);
        let lock = esh.lock_of(bucket);
        let taken = if number > self.number { lock.lock(medium)? } else { lock.try_lock(medium)? };
        if taken == Taken::Yes {
            self.other = Some(bucket);
        }
        Ok(taken)
    }

    /// Lets go of that bucket again, if one was taken. A release that breaks off itself is done again.
    #[track_caller]
    fn give_back(&mut self) {
        if let Some(bucket) = self.other {
            self.esh.lock_of(bucket).unlock_unchanged(self.esh.medium());
            self.other = None;
        }
    }

    /// Stops readers of the home's hashes: visible stores follow.
    fn exclude_readers(&self) {
        self.esh.lock_of(self.home).exclude_readers(self.esh.medium());
    }

    /// Releases all locks, after a change of one of the home's hashes.
    #[inline(always)]
    #[track_caller]
    fn release_changed(mut self) {
        self.give_back();
        self.esh.lock_of(self.home).unlock_changed(self.esh.medium());
        self.released = true;
    }

    #[track_caller]
    pub(super) fn release_unchanged(mut self) {
        self.give_back();
        self.esh.lock_of(self.home).unlock_unchanged(self.esh.medium());
        self.released = true;
    }
}

impl<M: Medium> Drop for Locks<'_, M> {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        self.esh.pool.poison();
        let medium = self.esh.medium();
        for bucket in [Some(self.home), self.other].into_iter().flatten() {
            medium.flush(bucket);
            medium.drain();
        }
        medium.changed(0, 0);
        self.give_back();
        self.esh.lock_of(self.home).unlock_changed(medium);
    }
}

/// A slot for an entry that may be inserted.
enum Secured {
    /// In a bucket that is held.
    Yes,
    /// Another writer was in the way.
    Busy,
    /// The segment has a bucket that was not repaired.
    Stale,
    /// No slot of the segment was free a moment ago.
    Full,
}

impl<M: Medium> Esh<M> {
    /// Takes W of the home of `h`.
    #[inline(always)]
    pub(super) fn hold(&self, h: u64) -> Result<Locks<'_, M>> {
        let number = self.shape.home(h);
        loop {
            let _on_the_way = self.writers.arrivals.enter();
            let place = self.find(h);
            self.prefetch_home(h, place);
            let home = self.bucket(place, number)?;
            self.medium().expect_store(self.offset(place) + u64::from(number) * BUCKET_BYTES);
            self.touch(home);
            if self.lock_of(home).lock(self.medium())? == Taken::Stale {
                if !self.repair(h, place)? {
                    self.pool.writable()?;
                }
                continue;
            }
            let held = Locks { esh: self, place, number, home, other: None, released: false };
            if self.find(h) == place {
                return Ok(held);
            }
            held.release_unchanged();
        }
    }

    #[inline(always)]
    fn hold_to_write(&self, h: u64, room: Room) -> Result<Locks<'_, M>> {
        hold_admitted!(self, h, room, {
            self.pool.writable()?;
            self.hold(h)?
        })
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
            let (found, secured) = or_release!(held, self.prepare(&mut held, h, room));
            match secured {
                Secured::Yes => {}
                Secured::Busy => {
                    held.release_unchanged();
                    self.medium().wait();
                    continue;
                }
                Secured::Stale => {
                    let place = held.place;
                    held.release_unchanged();
                    if !self.repair(h, place)? {
                        self.pool.writable()?;
                    }
                    continue;
                }
                Secured::Full => {
                    let place = held.place;
                    held.release_unchanged();
                    self.make_room(h, place)?;
                    continue;
                }
            }
            let payload = found.map(|found| found.payload);
            let change = or_release!(held, f(payload));
            match (change, found) {
                (Change::Set(v), Some(at)) => self.set(held, (h, at), v),
                (Change::Set(v), None) => {
                    assert!(room.is_for_new(), "Room::None was given for what inserts");
                    self.insert(held, h, v);
                }
                (Change::Remove, Some(at)) if at.bucket == held.number => {
                    self.remove_at_home(held, h, at)?;
                }
                (Change::Remove, Some(at)) => self.remove_elsewhere(held, h, at)?,
                (Change::Keep, _) | (Change::Remove, None) => held.release_unchanged(),
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
        let is_free = |lock: EpochLock<'_>, version| lock.is_free_at(self.medium(), version);
        let found = self.look_in(h, sought, is_free)?;
        if found.is_none() && room.is_for_new() {
            let (place, number) = (self.find(h), self.shape.home(h));
            let mut bucket = self.bucket(place, number).ok()?;
            if !self.has_room(bucket) {
                bucket = self.bucket(place, self.neighbour(place, number)?).ok()?;
            }
            let slot = slot_for(h, self.shape.used & !self.commit(bucket).live());
            // Another writer may have filled the bucket.
            self.medium().prefetch(bucket.slots.get(slot as usize)?);
        }
        Some(found)
    }

    /// The slot of `h`, whose bucket is held then; else, if that may be needed, the bucket for it.
    #[inline(always)]
    fn prepare(
        &self,
        held: &mut Locks<'_, M>,
        h: u64,
        room: Room,
    ) -> Result<(Option<Hit>, Secured)> {
        let found = self.probe(h, held.place, held.home)?;
        let secured = match found {
            Some(at) if at.bucket == held.number => Secured::Yes,
            Some(at) => match held.take(at.bucket)? {
                Taken::Yes => Secured::Yes,
                Taken::Busy => Secured::Busy,
                Taken::Stale => Secured::Stale,
            },
            None if !room.is_for_new() => Secured::Yes,
            None => self.secure(held)?,
        };
        Ok((found, secured))
    }

    /// A bucket with room for a hash of this home.
    #[inline(always)]
    fn secure(&self, held: &mut Locks<'_, M>) -> Result<Secured> {
        if self.has_room(held.home) {
            return Ok(Secured::Yes);
        }
        loop {
            let Some(number) = self.neighbour(held.place, held.number) else {
                return Ok(Secured::Full);
            };
            match held.take(number)? {
                Taken::Yes => {}
                Taken::Busy => return Ok(Secured::Busy),
                Taken::Stale => return Ok(Secured::Stale),
            }
            if held.other.is_some_and(|bucket| self.has_room(bucket)) {
                return Ok(Secured::Yes);
            }
            held.give_back();
        }
    }

    /// The bucket that takes an entry without room at home; `None` if the segment was full a moment ago.
    fn neighbour(&self, place: Unit, home: u32) -> Option<u32> {
        self.shape.choose(home, |number| match self.bucket(place, number) {
            Ok(bucket) => self.commit(bucket).count(),
            // Not there: nothing goes into it.
            Err(_) => self.shape.slots,
        })
    }

    /// Stores an entry into a free slot of a bucket, with its fingerprint, and flushes as far as the
    /// commit word does not do it. True if that has to be fenced. W of the bucket is held.
    #[inline(always)]
    fn fill(&self, bucket: &Bucket, slot: u32, h: u64, payload: u64) -> bool {
        let medium = self.medium();
        let words = &bucket.slots[slot as usize];
        medium.store(&words.payload, payload);
        medium.store(&words.h, h);
        let word = slot as usize / 8;
        let fingerprints = self.fingerprints(bucket).with(slot, h);
        medium.store(&bucket.fingerprints[word], fingerprints.0[word]);
        if !medium.same_line_order() {
            medium.flush(&bucket.fingerprints[word]);
        }
        if !is_near(slot) {
            medium.flush(words);
        }
        !medium.same_line_order() || !is_near(slot)
    }

    /// The slot that was secured for `h`, and its bucket.
    #[inline(always)]
    fn free_slot<'a>(&self, held: &Locks<'a, M>, h: u64) -> (&'a Bucket, u32) {
        let bucket = held.other.unwrap_or(held.home);
        (bucket, slot_for(h, self.shape.used & !self.commit(bucket).live()))
    }

    #[inline(always)]
    fn insert(&self, held: Locks<'_, M>, h: u64, payload: u64) {
        let medium = self.medium();
        let buckets = self.shape.buckets;
        let (bucket, slot) = self.free_slot(&held, h);
        let commit = self.commit(bucket);
        let mut fences = self.fill(bucket, slot, h, payload);
        if held.other.is_some() {
            let home = self.commit(held.home);
            let reach = home.reach(buckets).max(self.distance_of(&held, bucket));
            medium.store(&held.home.commit, home.with_overflow((home.overflowed() + 1, reach)).0);
            medium.flush(&held.home.commit);
            fences = true;
        }
        if fences {
            medium.fence();
        }
        held.exclude_readers();
        self.store_commit(bucket, commit.with_live(commit.live() | 1 << slot, buckets));
        medium.flush(&bucket.commit);
        medium.drain();
        self.live_count.add(h, 1);
        self.changed_entry(h);
        held.release_changed();
    }

    /// How far from the home another bucket of its segment is.
    fn distance_of(&self, held: &Locks<'_, M>, bucket: &Bucket) -> u32 {
        let region = self.medium().region();
        let off = region.offset_of(&bucket.commit) - self.offset(held.place);
        self.shape.distance(held.number, (off / super::BUCKET_BYTES) as u32)
    }

    #[inline(always)]
    fn set(&self, held: Locks<'_, M>, (h, at): (u64, Hit), payload: u64) {
        let medium = self.medium();
        let bucket = held.other.unwrap_or(held.home);
        let word = &bucket.slots[at.slot as usize].payload;
        held.exclude_readers();
        medium.store(word, payload);
        medium.flush(word);
        medium.drain();
        self.changed_entry(h);
        held.release_changed();
    }

    /// Counts a change of one entry for readers in other processes (`onlooker.rs`), before its home is released.
    #[inline(always)]
    fn changed_entry(&self, h: u64) {
        if !planted(Fault::EntryUncounted) {
            self.medium().changed(h, u64::BITS);
        }
    }

    /// Takes a slot out of the commit word of its bucket, and flushes that.
    fn clear(&self, bucket: &Bucket, slot: u32) {
        let medium = self.medium();
        let commit = self.commit(bucket);
        let live = commit.live() & !(1 << slot);
        self.store_commit(bucket, commit.with_live(live, self.shape.buckets));
        if medium.same_line_order() {
            // Its fingerprint, never durable before the commit. It matters for damage only.
            let word = slot as usize / 8;
            let wrong = self.fingerprints(bucket).without(slot);
            medium.store(&bucket.fingerprints[word], wrong.0[word]);
        }
        medium.flush(&bucket.commit);
    }

    fn remove_at_home(&self, mut held: Locks<'_, M>, h: u64, at: Hit) -> Result<()> {
        let medium = self.medium();
        let home = self.commit(held.home);
        let returns = if home.count() == self.shape.slots && home.reach(self.shape.buckets) > 0 {
            or_release!(held, self.returning(&mut held, home.reach(self.shape.buckets)))
        } else {
            None
        };
        held.exclude_readers();
        self.clear(held.home, at.slot);
        match returns {
            None => {
                medium.drain();
                self.changed_entry(h);
            }
            Some(returns) => {
                medium.fence();
                // Before the slot is live again, with another hash.
                self.changed_entry(h);
                self.bring_home(&held, at.slot, returns);
            }
        }
        self.live_count.add(h, -1);
        held.release_changed();
        Ok(())
    }

    /// Of the home's hashes that are elsewhere, the one furthest away, if its bucket, which is held
    /// then, can be had; and the overflow without it.
    fn returning(
        &self,
        held: &mut Locks<'_, M>,
        reach: u32,
    ) -> Result<Option<(Record, (u32, u32))>> {
        let (place, number) = (held.place, held.number);
        let Some(record) = self.furthest(place, number, reach, None)? else {
            return Ok(None);
        };
        if held.take(record.bucket)? != Taken::Yes {
            return Ok(None);
        }
        let left = self.left_without(held, (record.bucket, record.slot))?;
        Ok(Some((record, left)))
    }

    /// The overflow of the home without the slot at `gone`: how many slots, and how far the furthest is.
    /// Few removals have to look for that.
    fn left_without(&self, held: &Locks<'_, M>, gone: (u32, u32)) -> Result<(u32, u32)> {
        let (home, reach) =
            (self.commit(held.home), self.commit(held.home).reach(self.shape.buckets));
        if !home.is_sound() {
            // Damage: their number is unknown, and none may be left behind.
            return Ok((home.overflowed(), reach));
        }
        let count = home.overflowed().saturating_sub(1);
        if count == 0 {
            return Ok((0, 0));
        }
        if self.shape.distance(held.number, gone.0) < reach {
            return Ok((count, reach));
        }
        let furthest = self.furthest(held.place, held.number, reach, Some(gone))?;
        Ok((count, furthest.map_or(0, |record| record.distance)))
    }

    /// Moves a slot from the other bucket into a free one of the home.
    fn bring_home(&self, held: &Locks<'_, M>, slot: u32, (record, left): (Record, (u32, u32))) {
        let medium = self.medium();
        let (home, buckets) = (held.home, self.shape.buckets);
        let from = held.other.expect("the other bucket is held");
        if self.fill(home, slot, record.h, record.payload) {
            medium.fence();
        }
        let commit = self.commit(home);
        let commit = commit
            .with_live(commit.live() | 1 << slot, buckets)
            .with_overflow((left.0, commit.reach(buckets)));
        self.store_commit(home, commit);
        medium.flush(&home.commit);
        medium.fence();
        if !planted(Fault::HomeUncounted) {
            medium.changed(record.h, u64::BITS);
        }
        self.clear(from, record.slot);
        medium.drain();
        self.shorten(home, left);
    }

    /// Stores a smaller OFRB, if less is enough, after the slots that it led to are durably gone. A larger one
    /// does no harm, so it is not flushed.
    fn shorten(&self, home: &Bucket, left: (u32, u32)) {
        let commit = self.commit(home).with_overflow(left);
        if commit != self.commit(home) {
            self.medium().store(&home.commit, commit.0);
        }
    }

    fn remove_elsewhere(&self, held: Locks<'_, M>, h: u64, at: Hit) -> Result<()> {
        let medium = self.medium();
        let (home, buckets) = (held.home, self.shape.buckets);
        let reach = self.commit(home).reach(buckets);
        let left = or_release!(held, self.left_without(&held, (at.bucket, at.slot)));
        held.exclude_readers();
        medium.store(&home.commit, self.commit(home).with_overflow((left.0, reach)).0);
        medium.flush(&home.commit);
        self.clear(held.other.expect("its bucket is held"), at.slot);
        medium.drain();
        self.shorten(home, left);
        self.live_count.add(h, -1);
        self.changed_entry(h);
        held.release_changed();
        Ok(())
    }
}
