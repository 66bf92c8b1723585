//! Verifying all invariants. They are listed in the [module docs](super).

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Result};

use super::layout::{BUCKET_BYTES, MAX_BUCKETS};
use super::{Esh, Unit};
use crate::extendible::array::Array;
use crate::extendible::extend;
use crate::index::Finding;

/// The invariant about locks and counters.
pub(super) const LOCKS: &str = "ESH-7";

/// Takes a violation: the invariant, the offset, and words.
pub(super) type Report<'a> = &'a mut dyn FnMut(&'static str, u64, String);

impl<M: Medium> Esh<M> {
    /// Verifies ESH-1 to ESH-7.
    pub(super) fn check_all(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let mut report = |invariant, off, what: String| found(Finding { invariant, off, what });
        let (sound, unnamed) = match self.read_all() {
            Ok(read) => read,
            Err(e) => {
                report("ESH-1", 256, e.to_string());
                return Ok(());
            }
        };
        let depth = self.directory.depth();
        if (sound.first, sound.depth) != (self.writers.array.first(), depth) {
            report("ESH-4", 256, "the root and the directory in use differ".to_owned());
            return Ok(());
        }
        let mut depths = vec![0; depth as usize + 1];
        let mut live = 0;
        for (prefix, place) in &sound.units {
            depths[place.depth() as usize] += 1;
            if !self.directory.names(*prefix, place.depth(), place.to_word()) {
                let what = format!("a directory entry of {prefix:#018x} names something else");
                report("ESH-1", self.offset(*place), what);
            }
            live += self.check_segment(*prefix, *place, &mut report)?;
        }
        self.writers.growth.check(&depths, "segments", |what| report(LOCKS, 0, what));
        if let Some(counter) = self.live_count.get().filter(|counter| *counter != live) {
            report(LOCKS, 0, format!("{live} live slots, the counter says {counter}"));
        }
        self.check_free(unnamed, &mut report);
        let arrays = sound.first..sound.first + Array::extents(&self.map, depth);
        let directories = self.map.directory_extents().into_iter();
        for extent in directories.filter(|extent| !arrays.contains(extent)) {
            let off = extent * self.pool.extent_bytes();
            report("ESH-5", off, "an extent that nothing names".to_owned());
        }
        Ok(())
    }

    /// ESH-5: what nothing names is free, once.
    fn check_free(&self, unnamed: Vec<u64>, report: Report<'_>) {
        let mut free = self.free_segments();
        free.sort_unstable();
        if free != unnamed {
            let what =
                format!("{} segments are named by nothing, {} free", unnamed.len(), free.len());
            let differs = free.iter().zip(&unnamed).position(|(a, b)| a != b);
            let number = differs.map_or(0, |at| unnamed[at]);
            report("ESH-5", number * self.shape.segment_bytes(), what);
        }
    }

    /// ESH-2, ESH-3, ESH-6, the depth and the locks of one segment; how many live slots it has.
    pub(super) fn check_segment(
        &self,
        prefix: u64,
        place: Unit,
        report: Report<'_>,
    ) -> Result<u64> {
        let (medium, shape) = (self.medium(), self.shape);
        let off = |number: u32| self.offset(place) + u64::from(number) * BUCKET_BYTES;
        let mut is_dated = true;
        let mut commits = Vec::with_capacity(shape.buckets as usize);
        for number in 0..shape.buckets {
            let bucket = self.bucket(place, number)?;
            let lock = self.lock_of(bucket);
            is_dated &= lock.is_covered(medium);
            if lock.is_locked(medium) {
                report(LOCKS, off(number), "a lock is held".to_owned());
            }
            let (commit, count) =
                (self.commit(bucket), self.count_of(bucket).load(Ordering::Acquire));
            if count != 0 && u32::from(count) - 1 != commit.count() {
                let (are, says) = (commit.count(), count - 1);
                report(LOCKS, off(number), format!("{are} live slots, the count says {says}"));
            }
            commits.push(commit);
        }
        let mut away = [0; MAX_BUCKETS as usize];
        let mut met: HashMap<u64, (u32, u64)> = HashMap::new();
        let mut live = 0;
        for number in 0..shape.buckets {
            let bucket = self.bucket(place, number)?;
            let (commit, fingerprints) = (commits[number as usize], self.fingerprints(bucket));
            for i in BitMask(commit.live()) {
                live += 1;
                let slot = &bucket.slots[i as usize];
                let (h, payload) = (medium.load(&slot.h), medium.load(&slot.payload));
                let home = shape.home(h);
                let distance = shape.distance(home, number);
                away[home as usize] += u32::from(distance > 0);
                if !extend::covers(prefix, place.depth(), h)
                    || !fingerprints.names(i, h)
                    || distance > commits[home as usize].reach(shape.buckets)
                    || shape.used & 1 << i == 0
                {
                    report("ESH-2", off(number), format!("no lookup finds {h:#018x} in slot {i}"));
                }
                let Some((other, before)) = met.insert(h, (distance, payload)) else {
                    continue;
                };
                live -= u64::from(!is_dated);
                if is_dated || before != payload || (other > 0 && distance > 0) {
                    report("ESH-3", off(number), format!("hash {h:#018x} is there twice"));
                }
            }
        }
        for (number, commit) in (0..).zip(&commits) {
            if !commit.is_sound() {
                report("ESH-6", off(number), "a commit word contradicts itself".to_owned());
            } else if commit.depth() != place.depth() {
                let (is, says) = (place.depth(), commit.depth());
                report("ESH-4", off(number), format!("of depth {is}, the commit word says {says}"));
            } else if is_dated && commit.overflowed() != away[number as usize] {
                let (are, says) = (away[number as usize], commit.overflowed());
                report("ESH-6", off(number), format!("{are} slots overflowed, OC says {says}"));
            }
        }
        Ok(live)
    }
}
