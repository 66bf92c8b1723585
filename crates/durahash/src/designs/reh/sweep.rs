//! Buckets that are free: known ones, those of the sweep, and new extents.
//!
//! Until the sweep of an open is through, an extent that is older than the open may have unknown free
//! buckets. The sweep begins when every range is made, and goes by these extents, each once. A bucket without a row
//! is free: one that was on the chain at the open has a row by now, and one that was freed since has one, too, and is
//! on the list already. Where damage hides a part of the chain there is no sweep in this open: any bucket may lie in
//! that part, whatever its own words say.
//!
//! A split takes a known free bucket. If there is none, it takes a new extent, as long as not too many were
//! taken since a sweep last ended (over all opens), or if damage allows no sweep. Otherwise it makes all ranges, and
//! sweeps extents until one has a free bucket. A split that takes an extent makes its part of the ranges, so that few
//! are left for the last; but an open that begins with all of them taken, after several crashes, has one wait for all:
//! about 20 ms for a million keys.
//! The count is on the medium, durable before the extent's kind, so crashes that let no sweep end keep no more than
//! a sixteenth of the extents beyond what is needed.

use durahash_media::{Error, ErrorKind, Limit, Medium, Result, wait_lock};

use super::Reh;
use super::layout::{BUCKET_BYTES, MAX_BUCKETS, TAKEN_ROOT};
use super::planted::{Fault, planted};

/// So many extents may always be taken before a sweep ends, and a part of all where that is more.
const TAKEN_ALWAYS: u64 = 4;
const TAKEN_PART: u64 = 16;

impl<M: Medium> Reh<M> {
    /// Buckets to an extent.
    pub(super) fn per_extent(&self) -> u64 {
        self.pool.extent_bytes() / BUCKET_BYTES
    }

    /// The numbers of the buckets of an extent.
    pub(super) fn numbers(&self, extent: u64) -> std::ops::Range<u64> {
        extent * self.per_extent()..(extent + 1) * self.per_extent()
    }

    pub(super) fn take_bucket(&self) -> Result<u64> {
        if let Some(bucket) = self.take_known() {
            return Ok(bucket);
        }
        let _sweeping = wait_lock(&self.writers.sweeping, self.medium());
        loop {
            if let Some(bucket) = self.take_known() {
                return Ok(bucket);
            }
            let is_swept = self.is_swept()?;
            if is_swept || self.may_take_extent()? || !self.knows_all()? {
                match self.take_extent(is_swept) {
                    Err(e) if matches!(e.kind(), ErrorKind::Full { .. }) && !is_swept => {
                        if !self.knows_all()? {
                            return Err(e);
                        }
                        while self.sweep_next()? {}
                    }
                    taken => return taken,
                }
            } else {
                self.sweep_next()?;
            }
        }
    }

    fn take_known(&self) -> Option<u64> {
        let mut space = wait_lock(&self.writers.space, self.medium());
        let bucket = space.free.take()?;
        // The next split's: its stores would wait for these lines.
        if let Some(Ok(next)) = space.free.peek().map(|next| self.bucket(next)) {
            self.medium().prefetch(next);
        }
        Some(bucket)
    }

    /// True if every free bucket is known. When that is so for the first time, the count begins anew: the next open
    /// does not know the free buckets, and may take as much as is left. The caller has the sweep's mutex.
    fn is_swept(&self) -> Result<bool> {
        let mut space = wait_lock(&self.writers.space, self.medium());
        if !space.unswept.is_empty() || std::mem::replace(&mut space.is_counted, true) {
            return Ok(space.unswept.is_empty());
        }
        let count = space.free.count() / self.per_extent();
        drop(space);
        if self.map.root(TAKEN_ROOT)? != count {
            self.map.set_root(TAKEN_ROOT, count)?;
        }
        Ok(true)
    }

    fn may_take_extent(&self) -> Result<bool> {
        Ok(self.map.root(TAKEN_ROOT)? < self.taken_most())
    }

    /// How many extents may be taken before a sweep ends.
    fn taken_most(&self) -> u64 {
        TAKEN_ALWAYS.max(self.map.unit_extents().len() as u64 / TAKEN_PART)
    }

    /// Takes an extent and returns its first bucket; the others are free. The caller has the sweep's mutex.
    fn take_extent(&self, is_swept: bool) -> Result<u64> {
        let count = if is_swept { 0 } else { self.map.root(TAKEN_ROOT)? };
        if !is_swept {
            self.make_some(self.places() / self.taken_most() + 1)?;
            let more = u64::from(!planted(Fault::Uncounted));
            self.map.set_root(TAKEN_ROOT, count.saturating_add(more))?;
        }
        let taken = self.map.take_unit_extent().and_then(|extent| {
            let numbers = self.numbers(extent);
            let limit = Limit::Design("REH can number no more buckets");
            let covered = if numbers.end > MAX_BUCKETS {
                Err(Error::full(BUCKET_BYTES, limit))
            } else {
                self.metas.cover(numbers.end)
            };
            if let Err(e) = covered {
                self.pool.release_extent(extent)?;
                return Err(e);
            }
            let mut space = wait_lock(&self.writers.space, self.medium());
            space.free.add(extent, (numbers.start + 1..numbers.end).rev());
            Ok(numbers.start)
        });
        if taken.is_err() && !is_swept {
            self.map.set_root(TAKEN_ROOT, count)?;
        }
        taken
    }

    /// Gives back a bucket that nothing durable links to, and its extent, if that is empty now. Its metadata
    /// stay: their versions tell a late reader that the bucket is none.
    pub(super) fn give_bucket(&self, bucket: u64) -> Result<()> {
        let empty = wait_lock(&self.writers.space, self.medium()).give(bucket);
        empty.map_or(Ok(()), |extent| self.release_extent(extent))
    }

    fn release_extent(&self, extent: u64) -> Result<()> {
        // Readers in other processes may be late, and come to buckets that were there.
        self.medium().changed(0, 0);
        self.pool.release_extent(extent)
    }

    /// Sweeps one extent; false if all are swept, or damage allows no sweep.
    ///
    /// # Errors
    /// As [`find`](Reh::find), but for damage.
    pub(super) fn sweep_extent(&self) -> Result<bool> {
        let _sweeping = wait_lock(&self.writers.sweeping, self.medium());
        self.sweep_next()
    }

    /// The same. The caller has the sweep's mutex.
    fn sweep_next(&self) -> Result<bool> {
        if !self.knows_all()? || self.is_swept()? {
            return Ok(false);
        }
        let medium = self.medium();
        let next = wait_lock(&self.writers.space, medium).unswept.first().copied();
        let Some(extent) = next else {
            return Ok(true);
        };
        let is_free = |number: &u64| {
            let prefix = || self.bucket(*number).map_or(0, |bucket| medium.load(&bucket.prefix));
            if planted(Fault::FreeByName) {
                return self.directory.find(prefix()) != *number;
            }
            !self.meta(*number).is_made()
        };
        let free = self.numbers(extent).rev().filter(is_free).collect();
        let empty = wait_lock(&self.writers.space, medium).add_swept(extent, free);
        if let Some(extent) = empty {
            self.release_extent(extent)?;
        }
        self.is_swept()?;
        Ok(true)
    }

    /// Finds all space that is free. A sweep waits for no bucket, so the caller may have one.
    ///
    /// # Errors
    /// As [`sweep_extent`](Reh::sweep_extent).
    pub(super) fn sweep_all(&self) -> Result<()> {
        while self.sweep_extent()? {}
        Ok(())
    }
}
