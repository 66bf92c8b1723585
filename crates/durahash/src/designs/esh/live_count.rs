//! How many slots are live, counted once after an unclean open, while operations go on.
//!
//! All hashes below a cursor are counted: who changes one of them adds to the counter, who changes
//! another leaves that to the count. The cursor passes a segment while all its locks are held.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::{Medium, Result, wait_lock};

use super::Esh;
use crate::extendible::extend::{self, MAX_DEPTH};
use crate::util::counter::Counter;

/// Hashes differ here in no more than what one segment has.
const SHIFT: u32 = 64 - MAX_DEPTH;
/// The cursor behind all hashes.
const END: u64 = 1 << MAX_DEPTH;

/// The pool's counter of live slots, and one more: zero where they were not counted.
pub(super) const SAVED: usize = 0;

/// What is counted.
#[derive(Default)]
pub(super) struct LiveCount {
    live: Counter,
    /// Hashes below it are counted, in units of the deepest segment.
    cursor: AtomicU64,
    /// Held by who counts.
    counting: Mutex<()>,
}

impl LiveCount {
    /// All is counted: so many.
    pub(super) fn set(&self, live: u64) {
        self.live.add(live as i64);
        self.cursor.store(END, Ordering::Release);
    }

    /// Adds to the count. W of the home of `h` is held.
    #[inline]
    pub(super) fn add(&self, h: u64, by: i64) {
        if h >> SHIFT < self.cursor.load(Ordering::Acquire) {
            self.live.add(by);
        }
    }

    /// The number, if it is known.
    pub(super) fn get(&self) -> Option<u64> {
        (self.cursor.load(Ordering::Acquire) == END).then(|| self.live.get())
    }
}

impl<M: Medium> Esh<M> {
    /// How many slots are live.
    pub(super) fn live_slots(&self) -> Result<u64> {
        if let Some(live) = self.live_count.get() {
            return Ok(live);
        }
        if self.pool.writable().is_err() {
            return self.live_now();
        }
        let _counting = wait_lock(&self.live_count.counting, self.medium());
        loop {
            let cursor = self.live_count.cursor.load(Ordering::Relaxed);
            if cursor == END {
                return Ok(self.live_count.live.get());
            }
            let from = cursor << SHIFT;
            let whole = self.hold_whole(from)?;
            let depth = whole.place.depth();
            let prefix = extend::prefix(from, depth);
            let counted = self.count_from(whole.place, prefix, from);
            if let Ok(live) = counted {
                self.live_count.live.add(live as i64);
                let next = extend::next(prefix, depth).map_or(END, |next| next >> SHIFT);
                self.live_count.cursor.store(next, Ordering::Release);
            }
            whole.release_unchanged();
            counted?;
        }
    }

    /// Counts the live slots of a segment whose hashes are not below `from`.
    fn count_from(&self, place: super::Place, prefix: u64, from: u64) -> Result<u64> {
        if prefix != from {
            // It was merged with what was counted before.
            let records = self.records(place, prefix, true, &mut Vec::new())?;
            return Ok(records.iter().filter(|record| record.h >= from).count() as u64);
        }
        (0..self.shape.buckets).try_fold(0, |sum, bucket| {
            Ok(sum + u64::from(self.commit(self.bucket(place, bucket)?).count()))
        })
    }

    /// The same where nobody writes, and nothing may be repaired.
    fn live_now(&self) -> Result<u64> {
        let (mut all, mut at, mut sum) = (Vec::new(), Some(0), 0);
        while let Some(from) = at {
            at = self.scan_unit(from, &mut all)?;
            sum += all.len() as u64;
            all.clear();
        }
        Ok(sum)
    }
}
