//! Known free buckets.

use std::collections::BTreeSet;

use crate::extendible::free::FreeUnits;

/// Free buckets, and extents that may have others.
pub(super) struct Space {
    /// Buckets that exist and are not on the chain.
    pub(super) free: FreeUnits,
    /// Extents older than this open that the sweep has not come to.
    pub(super) unswept: BTreeSet<u64>,
    /// The count of extents taken before the sweep's end has begun anew.
    pub(super) is_counted: bool,
}

impl Space {
    /// Adds a bucket that nothing durable links to. The extent that is to go back to the pool, if there is one now.
    pub(super) fn give(&mut self, bucket: u64) -> Option<u64> {
        // Another use may store to an extent that was given back.
        self.free.give(bucket).inspect(|extent| {
            self.unswept.remove(extent);
        })
    }

    /// Adds the buckets that were found to be free in an extent that is swept. The extent, if all of it is free now.
    pub(super) fn add_swept(&mut self, extent: u64, free: Vec<u64>) -> Option<u64> {
        // If it was given back meanwhile, all of it was known.
        if self.unswept.remove(&extent) { self.free.add_found(extent, free) } else { None }
    }
}
