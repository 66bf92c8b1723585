//! Repair: makes a segment that a crash may have left exact, before any operation relies on it.
//!
//! A crash leaves an OC that is wrong, an OFRB that is larger than need be, and a slot that was on its
//! way home in both places. Fingerprints are durable before the commit word that names their slots:
//! they are right. Live slots that no lookup finds are damage, and stay for `check` to tell.

use std::sync::atomic::Ordering;

use durahash_media::{Medium, Result};

use super::layout::{Commit, MAX_BUCKETS};
use super::{Esh, Unit};
use crate::extendible::extend;

/// Segments that a step of background work looks at.
const STEP: u32 = 64;

/// W and X of the buckets of a segment that is being repaired. Dropped as `Locks` is.
struct Claim<'a, M: Medium> {
    esh: &'a Esh<M>,
    place: Unit,
    /// How many are held, from the first on.
    count: u32,
    /// True if one of them could not be relied on.
    is_stale: bool,
}

impl<'a, M: Medium> Claim<'a, M> {
    /// Takes all, in their order, and stamps them with the present epoch. The caller checks the place afterwards.
    fn of(esh: &'a Esh<M>, place: Unit) -> Result<Self> {
        let mut claim = Claim { esh, place, count: 0, is_stale: false };
        while claim.count < esh.shape.buckets {
            let bucket = esh.bucket(place, claim.count)?;
            esh.touch(bucket);
            let lock = esh.lock_of(bucket);
            claim.is_stale |= !lock.claim(esh.medium())?;
            claim.count += 1;
        }
        Ok(claim)
    }

    #[track_caller]
    fn release(mut self) {
        self.release_all();
    }

    #[track_caller]
    fn release_all(&mut self) {
        while self.count > 0 {
            if let Ok(bucket) = self.esh.bucket(self.place, self.count - 1) {
                self.esh.lock_of(bucket).unlock_changed(self.esh.medium());
            }
            // Not before: a release that breaks off is done again.
            self.count -= 1;
        }
    }
}

impl<M: Medium> Drop for Claim<'_, M> {
    fn drop(&mut self) {
        if self.count > 0 {
            // They are dated, and were not repaired.
            self.esh.pool.poison();
            self.release_all();
        }
    }
}

impl<M: Medium> Esh<M> {
    /// Sees to it that the segment of `h`, of which a bucket was found at `place` with a date from
    /// before a crash, is repaired; false where the pool must not be written to.
    #[cold]
    pub(super) fn repair(&self, h: u64, place: Unit) -> Result<bool> {
        // First, as a segment may be repaired and written to before the pool takes no more writes.
        let is_writable = self.pool.writable().is_ok();
        let _on_the_way = self.writers.arrivals.enter();
        // In this order: a segment that is not named any more may have foreign words where its locks were.
        if self.find(h) != place || self.is_repaired(place)? {
            return Ok(true);
        }
        if !is_writable {
            return Ok(false);
        }
        let claim = Claim::of(self, place)?;
        if claim.is_stale && self.find(h) == place {
            self.make_exact(place, extend::prefix(h, place.depth()))?;
            self.medium().changed(h, place.depth());
            self.writers.repairs.add(1);
        }
        claim.release();
        Ok(true)
    }

    /// How many segments are to be repaired yet.
    pub(super) fn unrepaired(&self) -> u64 {
        if self.live_count.get().is_some() {
            // The thread that counted repaired all of them.
            return 0;
        }
        let (mut count, mut at) = (0, Some(0));
        while let Some(from) = at {
            let place = self.find(from);
            // A segment that is not there is not repaired either.
            count += u64::from(!self.is_repaired(place).unwrap_or(true));
            at = extend::next(extend::prefix(from, place.depth()), place.depth());
        }
        count
    }

    /// True if all buckets of a segment have a date that is to be trusted.
    fn is_repaired(&self, place: Unit) -> Result<bool> {
        for number in 0..self.shape.buckets {
            if !self.lock_of(self.bucket(place, number)?).is_covered(self.medium()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the commit words of a segment exact, and durable with the epochs beside them, also those
    /// that were exact before: a killed process may not have flushed them.
    fn make_exact(&self, place: Unit, prefix: u64) -> Result<()> {
        let (medium, shape) = (self.medium(), self.shape);
        let mut twice = Vec::new();
        let records = self.records(place, prefix, false, &mut twice)?;
        let mut overflow = [(0, 0); MAX_BUCKETS as usize];
        for record in records.iter().filter(|record| record.distance > 0) {
            let (count, reach) = &mut overflow[shape.home(record.h) as usize];
            *count += 1;
            *reach = (*reach).max(record.distance);
        }
        // Slots that are there twice first: OFRB leads to them until they are durably gone.
        let mut fences = false;
        for number in 0..shape.buckets {
            let bucket = self.bucket(place, number)?;
            let before = self.commit(bucket);
            let doubles = twice.iter().filter(|record| record.bucket == number);
            let live = doubles.fold(before.live(), |live, record| live & !(1 << record.slot));
            if live != before.live() {
                self.store_commit(bucket, before.with_live(live, shape.buckets));
                medium.flush(&bucket.commit);
                fences = true;
            }
        }
        if fences {
            medium.fence();
        }
        for (number, overflow) in (0..shape.buckets).zip(overflow) {
            let bucket = self.bucket(place, number)?;
            let before = self.commit(bucket);
            let exact = Commit::new(before.live(), overflow, place.depth());
            // No crash makes a word contradict itself: that is damage, which stays to be told.
            if exact != before && before.is_sound() {
                medium.store(&bucket.commit, exact.0);
            }
            medium.flush(&bucket.commit);
        }
        medium.drain();
        Ok(())
    }

    /// Repairs some segments that no operation has come to yet; true if more may be waiting.
    pub(super) fn repair_some(&self) -> Result<bool> {
        let next = &self.writers.repair_at;
        for _ in 0..STEP {
            let from = next.load(Ordering::Relaxed);
            if from == u64::MAX || self.pool.writable().is_err() {
                return Ok(false);
            }
            let place = self.find(from);
            self.repair(from, place)?;
            let prefix = extend::prefix(from, place.depth());
            next.store(extend::next(prefix, place.depth()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        Ok(true)
    }
}
