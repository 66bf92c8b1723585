//! Insert, update and remove. The commit steps are in the [module docs](super).

use durahash_media::{Medium, Result, Version};

use super::cache_sync::Ordered;
use super::cached::Copy;
use super::cuckoo::Room as Made;
use super::layout::{BUCKET_BYTES, Fingerprints};
use super::locks::Locks;
use super::planted::{Fault, planted};
use super::tables::{Places, View};
use super::{Change, Hit, Rewo, Room, Updater};

/// The state in which an operation left its bucket, for the maintenance after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing worth a look.
    Nothing,
    /// A bucket without a free slot.
    Full,
    /// A bucket with few slots that are live.
    Sparse,
    /// Anything: the operation needed room and has done its piece of a resize.
    Excused,
}

impl<M: Medium> Rewo<M> {
    /// The body of [`Index::update`](crate::index::Index::update): what was found, and what was left.
    pub(super) fn update_slot(
        &self,
        h: u64,
        room: Room,
        f: Updater<'_>,
    ) -> Result<(Option<u64>, Left)> {
        let remixed = self.remix.mix(h);
        let mut has_helped = false;
        loop {
            let mut held = self.hold_to_write((h, remixed), room)?;
            let (found, target) = match self.prepare(&mut held, h, room) {
                Ok((found, Made::At(target))) => (found, target),
                Ok((_, Made::Busy)) => {
                    held.release();
                    self.medium().wait();
                    continue;
                }
                Ok((_, Made::None)) => {
                    let view = held.view;
                    held.release();
                    has_helped |= self.make_room(view)?;
                    continue;
                }
                Err(e) => {
                    held.release();
                    return Err(e);
                }
            };
            let payload = found.map(|found| found.payload);
            let done = f(payload).and_then(|change| match (change, found) {
                (Change::Set(v), Some(at)) => self.set(&mut held, (h, remixed), at, v),
                (Change::Set(v), None) => {
                    assert!(room.is_for_new(), "Room::None was given for what inserts");
                    self.insert(&mut held, (h, remixed), target, v)
                }
                (Change::Remove, Some(at)) => self.remove(&mut held, (h, remixed), at),
                (Change::Keep, _) | (Change::Remove, None) => Ok(Left::Nothing),
            });
            held.release();
            let left = done?;
            return Ok((payload, if has_helped { Left::Excused } else { left }));
        }
    }

    /// The body of [`Index::look_in_batch`](crate::index::Index::look_in_batch).
    #[inline(always)]
    pub(super) fn look_unlocked(
        &self,
        h: u64,
        room: Room,
        view: View,
        places: &Places,
    ) -> Option<Option<u64>> {
        let (versions, found) = self.glance_at(h, view, places)?;
        let is_free = |(number, version): (&u64, &Option<Version>)| {
            version.is_some_and(|version| self.lock_of(*number).is_free_at(version))
        };
        if !places.all().iter().zip(&versions).all(is_free) {
            return None;
        }
        if found.is_none() && room.is_for_new() {
            let bucket = self.bucket(self.choose(places.target()).ok()??).ok()?;
            let slot = (self.used & !self.commit(bucket).live()).trailing_zeros();
            // Another writer may have filled the bucket.
            self.medium().prefetch(bucket.slots.get(slot as usize)?);
        }
        Some(found.map(|found| found.payload))
    }

    /// The slot of `h`; else, if that may be needed, a bucket with room for it.
    fn prepare(&self, held: &mut Locks<'_, M>, h: u64, room: Room) -> Result<(Option<Hit>, Made)> {
        if let Some(found) = self.probe_all(h, &held.places)? {
            return Ok((Some(found), Made::At(found.bucket)));
        }
        if !room.is_for_new() {
            return Ok((None, Made::At(0)));
        }
        let pair = held.places.target();
        match self.choose(pair)? {
            Some(number) => Ok((None, Made::At(number))),
            None => Ok((None, self.evict(held, h, pair)?)),
        }
    }

    /// Of two buckets, the one for a new slot: the first, as long as there is much room in it, so that
    /// most lookups find there what they look for; then the emptier one. `None` where both are full.
    pub(super) fn choose(&self, pair: [u64; 2]) -> Result<Option<u64>> {
        self.choose_beside(pair, |_| 0)
    }

    /// The same, where some slots are about to be live.
    pub(super) fn choose_beside(
        &self,
        pair: [u64; 2],
        taken_of: impl Fn(u64) -> u16,
    ) -> Result<Option<u64>> {
        let count = |number| -> Result<u32> {
            Ok((self.commit(self.bucket(number)?).live() | taken_of(number)).count_ones())
        };
        let one = count(pair[0])?;
        if one < self.slots - self.slots / 4 {
            return Ok(Some(pair[0]));
        }
        let other = count(pair[1])?;
        let (number, count) = if other < one { (pair[1], other) } else { (pair[0], one) };
        Ok((count < self.slots).then_some(number))
    }

    /// Stores an entry into a slot of a bucket that is neither live nor taken, past the cache, and its
    /// fingerprint; the caller fences. Where lines keep no order, the fingerprint is flushed, too.
    pub(super) fn fill(&self, (number, taken): (u64, u16), h: u64, payload: u64) -> Result<u32> {
        let medium = self.medium();
        let bucket = self.bucket(number)?;
        let free = self.used & !(self.commit(bucket).live() | taken);
        assert!(free != 0, "a bucket with room was chosen");
        let slot = free.trailing_zeros();
        let words = &bucket.slots[slot as usize];
        self.pool.touch(number * BUCKET_BYTES);
        medium.store_nt(&words.payload, payload);
        medium.store_nt(&words.h, h);
        let fingerprints = Fingerprints(medium.load(&bucket.fingerprints)).with(slot, h);
        medium.store(&bucket.fingerprints, fingerprints.0);
        if !medium.same_line_order() {
            medium.flush(&bucket.fingerprints);
        }
        Ok(slot)
    }

    /// An order for the cached table, which a thread of it may prepare; it takes effect when it is ended.
    #[inline]
    fn copy_when_durable(&self, h: u64, remixed: u64, copy: Copy) -> Ordered<'_, M> {
        let cache_sync = self.cache_sync.as_ref();
        Ordered::new((self.medium(), &self.cached, cache_sync), (h, remixed), copy)
    }

    fn insert(
        &self,
        held: &mut Locks<'_, M>,
        (h, remixed): (u64, u64),
        number: u64,
        payload: u64,
    ) -> Result<Left> {
        let medium = self.medium();
        let slot = self.fill((number, 0), h, payload)?;
        let bucket = self.bucket(number)?;
        let copied = self.copy_when_durable(h, remixed, Copy::Insert(payload));
        if !planted(Fault::CommitFirst) {
            medium.fence();
        }
        held.exclude_readers(number);
        let commit = self.commit(bucket).with(slot, h);
        medium.store(&bucket.commit, commit.0);
        medium.flush(&bucket.commit);
        medium.drain();
        self.live.add(1);
        copied.end();
        self.count_change(remixed);
        Ok(if commit.count() >= self.slots { Left::Full } else { Left::Nothing })
    }

    /// In place: a payload is one word. Not past the cache, where it would be in no order for readers.
    fn set(
        &self,
        held: &mut Locks<'_, M>,
        (h, remixed): (u64, u64),
        at: Hit,
        payload: u64,
    ) -> Result<Left> {
        let medium = self.medium();
        let slot = &self.bucket(at.bucket)?.slots[at.slot as usize];
        let copied = self.copy_when_durable(h, remixed, Copy::Set(payload));
        if planted(Fault::CopyFirst) {
            let copied = self.copy_when_durable(h, remixed, Copy::Set(payload));
            copied.end();
        }
        if !planted(Fault::SeenFirst) {
            held.exclude_readers(at.bucket);
        }
        medium.store(&slot.payload, payload);
        medium.flush(&slot.payload);
        medium.drain();
        if !planted(Fault::CopyKept) {
            copied.end();
        }
        self.count_change(remixed);
        Ok(Left::Nothing)
    }

    fn remove(&self, held: &mut Locks<'_, M>, (h, remixed): (u64, u64), at: Hit) -> Result<Left> {
        let medium = self.medium();
        let bucket = self.bucket(at.bucket)?;
        let copied = self.copy_when_durable(h, remixed, Copy::Remove);
        held.exclude_readers(at.bucket);
        let commit = self.commit(bucket).without(at.slot);
        self.clear(bucket, commit);
        medium.drain();
        self.live.add(-1);
        if !planted(Fault::CopyOutlives) {
            copied.end();
        }
        self.count_change(remixed);
        Ok(if commit.count() * 3 <= self.slots { Left::Sparse } else { Left::Nothing })
    }
}
