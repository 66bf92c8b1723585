//! A number that is summed over all hashes after an unclean open, while operations go on.
//!
//! One thread counts, unit by unit in the order of hashes, each with all its locks held. A writer adds to the number if
//! its hash was counted already, and leaves it alone otherwise. So the number is exact although others write meanwhile.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::util::counter::Counter;

/// A number that is counted up to some hash.
#[derive(Default)]
pub(crate) struct IncrementalCount {
    sum: Counter,
    /// Half of the hash up to which all is counted: the first hash of a unit is even.
    counted_to: AtomicU64,
    /// Damage took something that was counted, of which the number is unknown.
    lost: AtomicBool,
    /// Held by the thread that counts.
    pub(crate) counting: Mutex<()>,
}

/// Half of the hash behind all others.
const ALL: u64 = 1 << 63;

impl IncrementalCount {
    /// The number is known.
    pub(crate) fn set(&self, sum: u64) {
        self.sum.add(sum as i64);
        self.counted_to.store(ALL, Ordering::Release);
    }

    /// Adds to the number. The caller holds the lock of `h`.
    #[inline]
    pub(crate) fn add(&self, h: u64, by: i64) {
        if self.is_counted(h) {
            self.sum.add(by);
        }
    }

    /// True if `h` is counted.
    #[inline]
    pub(crate) fn is_counted(&self, h: u64) -> bool {
        h >> 1 < self.counted_to.load(Ordering::Acquire)
    }

    /// The next hash to count from; `None` where all is counted.
    pub(crate) fn next(&self) -> Option<u64> {
        let next = self.counted_to.load(Ordering::Acquire);
        (next != ALL).then_some(next << 1)
    }

    /// Everything up to `next` is counted, `more` of it now. The caller holds all locks of the units that it
    /// counted.
    pub(crate) fn advance(&self, more: u64, next: Option<u64>) {
        self.sum.add(more as i64);
        self.counted_to.store(next.map_or(ALL, |next| next >> 1), Ordering::Release);
    }

    /// The number, if all is counted and none was lost.
    pub(crate) fn get(&self) -> Option<u64> {
        let known = self.next().is_none() && !self.lost.load(Ordering::Acquire);
        known.then(|| self.sum.get())
    }

    /// Damage took something that was counted: the number is unknown until the pool is opened again.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }
}
