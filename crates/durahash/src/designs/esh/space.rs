//! Segments that nothing names, and extents of them that go back to the pool.
//!
//! The lock of a bucket is in the bucket, so a thread that found a segment in the directory stores there
//! before it knows if the segment is still named. An extent of which all segments are free therefore
//! waits (`leaving`) until every thread has arrived that may have found one of them.
//!
//! | Step | Stores | Then | If power fails after this step |
//! |---|---|---|---|
//! | split, merge | word of the array, see the [module docs](super) | flush, fence | the old segments are free, and their extent may have no other |
//! | | (DRAM: the directory names the new ones; versions of the old ones raised) | | the same |
//! | the extent's last segment is given | (DRAM: no segment of it can be taken) | | the same |
//! | every writer has arrived at a lock it looked for | (DRAM: the directory's view changes; the locks are forgotten) | | the same |
//! | the extent goes back | its kind := free | flush, fence | free: the open finds that nothing names it, whatever its kind |
//!
//! - **Writers**, and threads that repair, enter (`util/arrivals.rs`) before they look into the directory, and leave when
//!   they hold a lock under which the directory still says the same: no other thread gives up such a
//!   segment. One that enters after the directory has changed does not find the segment. So no thread holds a lock
//!   of an extent that goes back, and none comes to it.
//! - **Readers** store nothing, and enter nothing. They may read foreign words where a segment was, the same
//!   word as the version that they validate, too. The view of the directory changes before that, and is what
//!   they look at last: they start over.
//! - An extent that comes back is new: its locks begin anew. Versions that readers knew there count no more, as
//!   the view has changed since.
//!
//! No thread waits for those on the way, of which one may wait for a lock: extents that are due are looked for
//! again when the next segment is given, when the pool is full, in a step of background work, and at the close.

use std::sync::MutexGuard;

use durahash_media::{Medium, Result, wait_lock};

use super::{Esh, Free};
use crate::extendible::free::FreeUnits;
use crate::util::arrivals::Passed;

impl Free {
    /// None, of extents with so many segments each.
    pub(super) fn new(per_extent: u64) -> Self {
        Free { units: FreeUnits::new(per_extent), leaving: Vec::new() }
    }
}

impl<M: Medium> Esh<M> {
    pub(super) fn free(&self) -> MutexGuard<'_, Free> {
        wait_lock(&self.writers.free, self.medium())
    }

    /// Segments to an extent.
    pub(super) fn per_extent(&self) -> u64 {
        self.pool.extent_bytes() / self.shape.segment_bytes()
    }

    /// The segments of an extent, the first of them last.
    pub(super) fn segments_of(&self, extent: u64) -> impl Iterator<Item = u64> + Clone + use<M> {
        let per_extent = self.per_extent();
        (extent * per_extent..(extent + 1) * per_extent).rev()
    }

    /// All segments that are free.
    pub(super) fn free_segments(&self) -> Vec<u64> {
        let free = self.free();
        let leaving = free.leaving.iter().flat_map(|(extent, _)| self.segments_of(*extent));
        free.units.iter().chain(leaving).collect()
    }

    /// A segment that nothing names. The last one is kept for merges, which free two: a full pool can shrink.
    pub(super) fn take_segment(&self) -> Result<u64> {
        let mut free = self.free();
        if free.units.count() < 2 {
            let extent = match free.leaving.pop() {
                Some((extent, _)) => {
                    self.pool.renew_extent(extent);
                    extent
                }
                None => self.map.take_unit_extent()?,
            };
            free.units.add(extent, self.segments_of(extent));
        }
        Ok(free.units.take().expect("an extent has a segment"))
    }

    /// The same for a merge, also if the pool is full.
    pub(super) fn take_for_merge(&self) -> Result<u64> {
        self.take_segment().or_else(|e| self.free().units.take().ok_or(e))
    }

    /// Gives back a segment that nothing durable names any more.
    pub(super) fn give_segment(&self, number: u64) -> Result<()> {
        let mut free = self.free();
        if let Some(extent) = free.units.give(number) {
            free.leaving.push((extent, Passed::default()));
        }
        self.release_due(&mut free)
    }

    /// Gives extents back to the pool, if no thread is on the way to them any more.
    pub(super) fn release_extents(&self) -> Result<()> {
        self.release_due(&mut self.free())
    }

    /// The same. All that was due is in the pool when another thread has the lock.
    fn release_due(&self, free: &mut Free) -> Result<()> {
        if free.leaving.is_empty() || self.pool.writable().is_err() {
            // The next open does it.
            return Ok(());
        }
        let bytes = self.pool.extent_bytes();
        let mut i = 0;
        while let Some((_, passed)) = free.leaving.get_mut(i) {
            if !self.writers.arrivals.have_passed(passed) {
                i += 1;
                continue;
            }
            let (extent, _) = free.leaving.swap_remove(i);
            self.directory.change_use();
            self.present.remove(extent * bytes..(extent + 1) * bytes);
            self.pool.release_extent(extent)?;
        }
        Ok(())
    }
}
