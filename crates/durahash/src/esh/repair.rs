//! Repair: what a crash may have left of a segment becomes exact, before anybody relies on it.
//!
//! A crash leaves an OC that is wrong, an OFRB that is larger than need be, and a slot that was on its
//! way home in both places. Fingerprints are durable before the commit word that names their slots:
//! they are right. Live slots that no lookup finds are damage, and stay for `check` to tell.

use std::sync::atomic::Ordering;

use durahash_media::{DatedLock, Event, Medium, Result, Taken};

use super::layout::{Commit, MAX_BUCKETS};
use super::{Esh, Place};
use crate::extend;

/// Segments that a step of background work looks at.
const STEP: u32 = 64;

/// The lock of the first bucket of a segment that is being repaired. Dropped as `Held` is.
struct Claim<'a, M: Medium> {
    esh: &'a Esh<M>,
    lock: DatedLock<'a>,
    released: bool,
}

impl<M: Medium> Claim<'_, M> {
    #[track_caller]
    fn release(mut self) {
        self.lock.unlock_changed(self.esh.medium());
        self.released = true;
    }
}

impl<M: Medium> Drop for Claim<'_, M> {
    fn drop(&mut self) {
        if !self.released {
            self.esh.pool.poison();
            self.lock.unlock_changed(self.esh.medium());
        }
    }
}

impl<M: Medium> Esh<M> {
    /// Sees to it that the segment of `h`, which was found at `place` with a date from before a crash,
    /// is repaired; false where the pool must not be written to.
    #[cold]
    pub(super) fn repair(&self, h: u64, place: Place) -> Result<bool> {
        let medium = self.medium();
        let home = self.lock_of(self.bucket(place, self.shape.home(h))?);
        let first = self.lock_of(self.bucket(place, 0)?);
        loop {
            if self.pool.writable().is_err() {
                return Ok(false);
            }
            if home.is_covered(medium) || self.find(h) != place {
                return Ok(true);
            }
            if first.try_claim(medium)? == Taken::Yes {
                break;
            }
            medium.event(Event::Wait);
            std::thread::yield_now();
        }
        let claim = Claim { esh: self, lock: first, released: false };
        let is_due = self.find(h) == place && !self.is_repaired(place)?;
        if is_due {
            self.make_exact(place, extend::prefix(h, place.depth()))?;
            for number in 1..self.shape.buckets {
                self.lock_of(self.bucket(place, number)?).date(medium);
            }
            self.writers.repairs.add(1);
        }
        claim.release();
        Ok(true)
    }

    /// Repairs the segment of `h`, at `place`, whichever of its buckets need it. Those of an image that no
    /// writer made may have any dates.
    pub(super) fn repair_all(&self, h: u64, place: Place) -> Result<()> {
        for number in 0..self.shape.buckets {
            if !self.lock_of(self.bucket(place, number)?).is_covered(self.medium()) {
                let of_home = extend::prefix(h, place.depth()) | u64::from(number) << 8;
                self.repair(of_home, place)?;
            }
        }
        Ok(())
    }

    /// Whether all buckets of a segment but the first have a date that is to be trusted.
    fn is_repaired(&self, place: Place) -> Result<bool> {
        for number in 1..self.shape.buckets {
            if !self.lock_of(self.bucket(place, number)?).is_covered(self.medium()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the commit words of a segment exact and durable.
    fn make_exact(&self, place: Place, prefix: u64) -> Result<()> {
        let (medium, shape) = (self.medium(), self.shape);
        let mut twice = Vec::new();
        let records = self.records(place, prefix, false, &mut twice)?;
        let mut overflow = [(0, 0); MAX_BUCKETS as usize];
        for record in records.iter().filter(|record| record.distance > 0) {
            let (count, reach) = &mut overflow[shape.home(record.h) as usize];
            *count += 1;
            *reach = (*reach).max(record.distance);
        }
        let mut changes = false;
        for (number, overflow) in (0..shape.buckets).zip(overflow) {
            let bucket = self.bucket(place, number)?;
            let before = self.commit(bucket);
            let doubles = twice.iter().filter(|record| record.bucket == number);
            let live = doubles.fold(before.live(), |live, record| live & !(1 << record.slot));
            let exact = Commit::new(live, overflow, place.depth());
            // No crash makes a word contradict itself: that is damage, which stays to be told.
            if exact != before && (before.is_sound() || live != before.live()) {
                medium.store(&bucket.commit, exact.0);
                medium.flush(&bucket.commit);
                changes = true;
            }
        }
        if changes {
            medium.drain();
        }
        Ok(())
    }

    /// Repairs segments that nobody has come to yet; whether more may be waiting.
    pub(super) fn repair_some(&self) -> Result<bool> {
        let next = &self.writers.repair_at;
        for _ in 0..STEP {
            let from = next.load(Ordering::Relaxed);
            if from == u64::MAX || self.pool.writable().is_err() {
                return Ok(false);
            }
            let place = self.find(from);
            self.repair_all(from, place)?;
            let prefix = extend::prefix(from, place.depth());
            next.store(extend::next(prefix, place.depth()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        Ok(true)
    }
}
