//! The locks that a writer holds.
//!
//! A lock guards all buckets whose numbers are equal modulo the number of locks. A writer takes those of
//! all buckets that its hash may be in, in ascending order, and looks at the tables again. All further
//! ones, for what it moves out of the way, it only tries to take.

use durahash_media::{Event, Medium, Result};

use super::layout::BUCKET_BYTES;
use super::planted::{Fault, planted};
use super::tables::{PLACES, Places, View};
use super::{Rewo, Room};

/// The most slots that are moved at once.
pub(super) const MOVES: usize = 8;
/// The most locks and buckets that are held at once: all places of a hash and those of two evictions; or a
/// bucket and those that its slots are moved to.
const HELD: usize = MOVES + 1;
const _: () = assert!(HELD >= PLACES + 2);

/// W of some locks. Locks that are dropped without a release broke off: the pool takes no more writes
/// then, and no thread waits for them.
pub(super) struct Locks<'a, M: Medium> {
    rewo: &'a Rewo<M>,
    pub(super) view: View,
    pub(super) places: Places,
    stripes: [u64; HELD],
    count: usize,
    /// Of which readers were stopped, one bit each.
    changed: u32,
    /// Buckets that may have been stored to.
    buckets: [u64; HELD],
    bucket_count: usize,
    released: bool,
}

impl<'a, M: Medium> Locks<'a, M> {
    fn new(rewo: &'a Rewo<M>, view: View, places: Places) -> Self {
        Locks {
            rewo,
            view,
            places,
            stripes: [0; HELD],
            count: 0,
            changed: 0,
            buckets: [0; HELD],
            bucket_count: 0,
            released: false,
        }
    }

    /// Takes the locks of buckets, waiting for them.
    fn lock(&mut self, buckets: &[u64]) {
        let mut stripes = [0; PLACES];
        let stripes = &mut stripes[..buckets.len()];
        stripes.iter_mut().zip(buckets).for_each(|(s, b)| *s = self.rewo.stripe(*b));
        stripes.sort_unstable();
        for (i, stripe) in stripes.iter().enumerate() {
            if i == 0 || stripes[i - 1] != *stripe {
                self.rewo.lock_at(*stripe).lock(self.rewo.medium());
                self.stripes[self.count] = *stripe;
                self.count += 1;
            }
        }
        buckets.iter().for_each(|bucket| self.add(*bucket));
    }

    fn add(&mut self, bucket: u64) {
        if !self.buckets[..self.bucket_count].contains(&bucket) {
            self.buckets[self.bucket_count] = bucket;
            self.bucket_count += 1;
        }
    }

    /// Takes the lock of one more bucket, unless another writer has it, or the pool takes no more writes.
    pub(super) fn try_take(&mut self, bucket: u64) -> bool {
        let stripe = self.rewo.stripe(bucket);
        if !self.stripes[..self.count].contains(&stripe) {
            let lock = self.rewo.lock_at(stripe);
            if !lock.try_lock(self.rewo.medium()) {
                return false;
            }
            if self.rewo.pool.writable().is_err() {
                // It may come from an operation that broke off: no thread must write on.
                lock.unlock_unchanged(self.rewo.medium());
                return false;
            }
            self.stripes[self.count] = stripe;
            self.count += 1;
        }
        self.add(bucket);
        true
    }

    /// Stops readers of a bucket that is held: visible stores follow.
    pub(super) fn exclude_readers(&mut self, bucket: u64) {
        let stripe = self.rewo.stripe(bucket);
        let at = self.stripes[..self.count].iter().position(|held| *held == stripe);
        let at = at.expect("only what is held is changed");
        self.rewo.pool.touch(bucket * BUCKET_BYTES);
        if self.changed & 1 << at == 0 {
            self.changed |= 1 << at;
            self.rewo.lock_at(stripe).exclude_readers();
        }
    }

    /// How much is held now.
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.count, self.bucket_count)
    }

    /// Lets go of what was taken since.
    #[track_caller]
    pub(super) fn release_since(&mut self, (count, buckets): (usize, usize)) {
        while self.count > count {
            let at = self.count - 1;
            let lock = self.rewo.lock_at(self.stripes[at]);
            if self.changed & 1 << at != 0 {
                lock.unlock_changed(self.rewo.medium());
            } else {
                lock.unlock_unchanged(self.rewo.medium());
            }
            // Not before: a release that breaks off is done again.
            self.changed &= !(1 << at);
            self.count = at;
        }
        self.bucket_count = buckets;
    }

    /// Lets go of everything; all changes are durable.
    #[track_caller]
    pub(super) fn release(mut self) {
        self.release_since((0, 0));
        self.released = true;
    }
}

impl<M: Medium> Drop for Locks<'_, M> {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        self.rewo.pool.poison();
        self.rewo.cached.stop();
        let medium = self.rewo.medium();
        for number in &self.buckets[..self.bucket_count] {
            if let Ok(bucket) = self.rewo.bucket(*number) {
                medium.flush(bucket);
            }
        }
        medium.drain();
        self.rewo.count_all();
        self.release_since((0, 0));
    }
}

impl<M: Medium> Rewo<M> {
    /// Takes the locks of all buckets that `h` may be in.
    pub(super) fn hold(&self, h: u64, remixed: u64) -> Locks<'_, M> {
        loop {
            let view = self.live_tables.load();
            let places = self.live_tables.places(view, h, remixed);
            self.prefetch_buckets(&places);
            let bytes = |number: &u64| number.wrapping_mul(BUCKET_BYTES);
            places.all().iter().for_each(|number| self.medium().expect_store(bytes(number)));
            let mut held = Locks::new(self, view, places);
            self.medium().event(Event::Look);
            held.lock(places.all());
            if planted(Fault::TablesOnceToWrite) || self.live_tables.is_current(view) {
                return held;
            }
            held.release();
            self.medium().event(Event::Wait);
        }
    }

    /// As [`hold`](Self::hold), for a writer. A writer that waited for a lock may get it from an operation
    /// that broke off: it must not write on.
    pub(super) fn hold_to_write(
        &self,
        (h, remixed): (u64, u64),
        room: Room,
    ) -> Result<Locks<'_, M>> {
        loop {
            self.pool.writable()?;
            let held = self.hold(h, remixed);
            let admits = self.pool.admits(h, room.is_of_batch());
            if matches!(admits, Ok(true)) {
                return Ok(held);
            }
            held.release();
            admits?;
            self.pool.wait_for_batch(h);
        }
    }

    /// Takes the lock of one bucket, which a resize works on; tables do not change meanwhile.
    pub(super) fn hold_bucket(&self, view: View, bucket: u64) -> Locks<'_, M> {
        let mut held = Locks::new(self, view, Places::none());
        held.lock(&[bucket]);
        held
    }

    /// Waits until every writer is done that does not see the tables as they are now, and makes all
    /// readers look again.
    pub(super) fn pass_writers(&self) {
        for stripe in 0..=self.stripe_mask {
            if planted(Fault::NotPassed) {
                break;
            }
            let lock = self.lock_at(stripe);
            lock.lock(self.medium());
            lock.unlock_changed(self.medium());
        }
    }
}
