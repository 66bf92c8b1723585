//! How many entries of a multimap there are beyond one a slot.
//!
//! The number is saved by a clean close. After any other end it is counted when it is first asked
//! for, segment by segment in the order of hashes, each with all its locks held: a writer that changes a
//! list adds to the number if its hash was counted already, and leaves it alone otherwise. So the
//! number is exact although others write meanwhile.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::util::counter::Counter;

/// A number that is counted up to some hash.
#[derive(Default)]
pub(super) struct ExtraCount {
    sum: Counter,
    /// Half of the hash up to which lists are counted: what begins a segment is even.
    counted_to: AtomicU64,
    /// Damage took a list whose length nobody knows: until the pool is opened again the number is
    /// counted each time that it is asked for.
    lost: AtomicBool,
    /// Held by who counts.
    pub(super) counting: Mutex<()>,
}

/// Where all is counted.
const ALL: u64 = 1 << 63;

impl ExtraCount {
    /// The number is known.
    pub(super) fn set(&self, sum: u64) {
        self.sum.add(sum as i64);
        self.counted_to.store(ALL, Ordering::Release);
    }

    /// The list of `h` got so many values more. The caller holds its lock.
    pub(super) fn add(&self, h: u64, by: i64) {
        if self.is_counted(h) {
            self.sum.add(by);
        }
    }

    /// True if the list of `h` is counted.
    pub(super) fn is_counted(&self, h: u64) -> bool {
        h >> 1 < self.counted_to.load(Ordering::Acquire)
    }

    /// The next hash to count from; `None` where all is counted.
    pub(super) fn next(&self) -> Option<u64> {
        let next = self.counted_to.load(Ordering::Acquire);
        (next != ALL).then_some(next << 1)
    }

    /// Everything up to `next` is counted, `more` of it now. The caller holds all locks of what it
    /// counted.
    pub(super) fn advance(&self, more: u64, next: Option<u64>) {
        self.sum.add(more as i64);
        self.counted_to.store(next.map_or(ALL, |next| next >> 1), Ordering::Release);
    }

    /// The number, if all is counted and none was lost.
    pub(super) fn get(&self) -> Option<u64> {
        let known = self.next().is_none() && !self.lost.load(Ordering::Acquire);
        known.then(|| self.sum.get())
    }

    /// Damage took a list.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }
}
