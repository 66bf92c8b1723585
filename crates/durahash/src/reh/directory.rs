//! REH's directory in DRAM.
//!
//! A directory entry is the number of a bucket; its local depth is with the metadata.
//!
//! Local depths spread over three or four values, so most entries of a directory of the global
//! depth repeat their neighbours: it has four to sixteen for each bucket, more than stays in a
//! cache. A lookup therefore asks a second, shallower directory first, the *front*. It names every
//! bucket that is not deeper than itself, and says [`DEEP`] where buckets are: then the whole
//! directory knows. There is an array for each depth of either, kept and reused; the two depths in
//! use are one word, the view.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use durahash_media::{DirectoryLock, ErrorKind, Levels, Medium, Result, bits};

use super::MAX_DEPTH;
use crate::extend;

/// What the front says where buckets are deeper than itself.
const DEEP: u32 = u32::MAX;

/// Numbers of buckets are lower than this, so that they fit an entry: buckets lie in a pool's first
/// tebibyte, and REH is full when that is, even if a larger pool still has room for records.
pub(crate) const MAX_BUCKETS: u64 = DEEP as u64;

/// The depths of both directories, in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
struct View(u64);

impl View {
    const fn new(depth: u32, front: u32) -> Self {
        View((depth as u64) << 8 | front as u64)
    }

    /// The global depth.
    #[inline(always)]
    const fn depth(self) -> u32 {
        bits(self.0, 8, 8) as u32
    }

    #[inline(always)]
    const fn front(self) -> u32 {
        bits(self.0, 0, 8) as u32
    }
}

/// A bucket, and the word of the directory that it was read from.
pub(crate) struct Sought<'a> {
    pub(crate) bucket: u64,
    view: View,
    word: &'a AtomicU32,
}

/// The directory. Readers take no lock; whoever stores entries holds [`Directory::lock`] shared,
/// whoever changes the view holds it exclusively. While nobody does the latter, every array that is
/// not in the view is zero; so a word that is not zero was right when it was loaded, whatever the
/// view was that led to it.
pub(crate) struct Directory {
    view: AtomicU64,
    front: Levels,
    whole: Levels,
    pub(crate) lock: Apart<DirectoryLock>,
}

/// Keeps what writers store to off the lines that every lookup reads.
#[repr(align(128))]
pub(crate) struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A directory may always have this many entries, and [`ENTRIES_PER_BUCKET`] for each bucket
/// beyond.
const ENTRIES_ALWAYS: u64 = 1 << 16;
/// With uniform hashes there are about 16 at the most.
pub(crate) const ENTRIES_PER_BUCKET: u64 = 256;

/// The front is made deeper when more than one bucket in this many is deeper than it: such a
/// bucket costs its lookups another line.
const DEEP_SHARE: u64 = 8;

impl Directory {
    /// A directory of global depth `depth`, without entries, for buckets of which `depths[d]` have
    /// local depth `d`.
    pub(crate) fn new(depth: u32, depths: &[AtomicU64]) -> Result<Self> {
        let front = (1..depth).find(|front| !is_shallow(*front, depths)).unwrap_or(depth);
        let directory = Directory {
            view: AtomicU64::new(View::new(depth, front).0),
            front: Levels::new(),
            whole: Levels::new(),
            lock: Apart(DirectoryLock::new()),
        };
        directory.front.make(front)?;
        directory.whole.make(depth)?;
        Ok(directory)
    }

    #[inline(always)]
    fn view(&self) -> View {
        View(self.view.load(Ordering::Acquire))
    }

    /// The global depth.
    pub(crate) fn depth(&self) -> u32 {
        self.view().depth()
    }

    /// The bucket of `h` now.
    #[inline(always)]
    pub(crate) fn find(&self, h: u64) -> u64 {
        loop {
            // An array that was just given up reads as zeros; the new view is there already.
            if let Some(sought) = self.seek(h) {
                return sought.bucket;
            }
        }
    }

    /// The bucket of `h` now, and where that was read; `None` for a moment while the view changes.
    #[inline(always)]
    pub(crate) fn seek(&self, h: u64) -> Option<Sought<'_>> {
        let view = self.view();
        let mut word = self.front.word(view.front(), h);
        let mut entry = word.load(Ordering::Acquire);
        if entry == DEEP {
            word = self.whole.word(view.depth(), h);
            entry = word.load(Ordering::Acquire);
        }
        (entry != 0).then_some(Sought { bucket: u64::from(entry), view, word })
    }

    /// Whether a bucket is still named where it was found.
    #[inline(always)]
    pub(crate) fn is_current(&self, sought: &Sought<'_>) -> bool {
        u64::from(sought.word.load(Ordering::Acquire)) == sought.bucket
            && self.view() == sought.view
    }

    /// Starts to fetch the entry of `h`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, h: u64) {
        self.front.prefetch(self.view().front(), h);
    }

    /// Makes the entries of a unit name `bucket`; the caller holds the lock shared, or is alone.
    pub(crate) fn set(&self, prefix: u64, local: u32, bucket: u64) {
        let view = self.view();
        fill(&self.whole, view.depth(), prefix, local, bucket as u32);
        if local <= view.front() {
            fill(&self.front, view.front(), prefix, local, bucket as u32);
        } else {
            self.front.word(view.front(), prefix).store(DEEP, Ordering::Release);
        }
    }

    /// Whether all entries of a unit name `bucket`.
    pub(crate) fn names(&self, prefix: u64, local: u32, bucket: u64) -> bool {
        let view = self.view();
        let all = |levels, depth, local, entry| {
            words(levels, depth, prefix, local).all(|word| word.load(Ordering::Acquire) == entry)
        };
        all(&self.whole, view.depth(), local, bucket as u32)
            && if local <= view.front() {
                all(&self.front, view.front(), local, bucket as u32)
            } else {
                all(&self.front, view.front(), view.front(), DEEP)
            }
    }

    /// Makes room for buckets deeper than `local`, of which there are `depths[d]` of local depth
    /// `d` now: a whole directory that is deeper, and a front that is not too shallow. Whether the
    /// former was made.
    ///
    /// # Errors
    /// [`Skewed`](ErrorKind::Skewed) where that would be out of proportion to the buckets.
    pub(crate) fn fit<M: Medium>(
        &self,
        medium: &M,
        local: u32,
        depths: &[AtomicU64],
    ) -> Result<bool> {
        let view = self.view();
        let doubles = view.depth() <= local;
        if !doubles && !is_shallow(view.front(), depths) {
            return Ok(false);
        }
        self.lock.exclusive(medium, || {
            let view = self.view();
            let (mut depth, mut front) = (view.depth(), view.front());
            if depth <= local {
                let buckets = total(depths);
                let entries = 2_u64 << depth;
                if depth == MAX_DEPTH
                    || entries > ENTRIES_ALWAYS.max(buckets.saturating_mul(ENTRIES_PER_BUCKET))
                {
                    return Err(ErrorKind::Skewed { depth: depth + 1 }.into());
                }
                self.copy_whole(depth, depth + 1)?;
                depth += 1;
            }
            // Without memory for a deeper front this one goes on: it is only slower.
            if front < depth
                && is_shallow(front, depths)
                && self.make_front(depth, front + 1).is_ok()
            {
                front += 1;
            }
            self.switch(View::new(depth, front));
            Ok(depth > view.depth())
        })
    }

    /// Halves the directory if, under the lock, no bucket has the present depth or the one below: a
    /// depth to spare, so that splits and merges in turn do not double and halve each time. Makes
    /// the front shallower with like reluctance. Whether the directory was halved.
    pub(crate) fn shrink<M: Medium>(&self, medium: &M, depths: &[AtomicU64]) -> bool {
        let halves = |view: View| {
            let unused = |depth: u32| depths[depth as usize].load(Ordering::Relaxed) == 0;
            view.depth() > 2 && unused(view.depth()) && unused(view.depth() - 1)
        };
        let lowers = |view: View| {
            let front = view.front();
            front > 1 && deeper(front - 1, depths) * 2 * DEEP_SHARE < total(depths)
        };
        if !halves(self.view()) && !lowers(self.view()) {
            return false;
        }
        self.lock.exclusive(medium, || {
            let view = self.view();
            let (mut depth, mut front) = (view.depth(), view.front());
            if halves(view) && self.copy_whole(depth, depth - 1).is_ok() {
                depth -= 1;
            }
            if (lowers(view) || front > depth) && self.make_front(depth, front - 1).is_ok() {
                front -= 1;
            }
            if front > depth {
                // There is no memory for another front.
                self.whole.release(depth);
                return false;
            }
            self.switch(View::new(depth, front));
            depth < view.depth()
        })
    }

    /// Fills the whole directory of depth `to` with what that of depth `from` says; the caller
    /// holds the lock exclusively. A late reader may look into an array that is being filled again,
    /// so what an entry names goes with it.
    fn copy_whole(&self, from: u32, to: u32) -> Result<()> {
        self.whole.make(to)?;
        for i in 0..1_u64 << to {
            let h = i << (64 - to);
            let entry = self.whole.word(from, h).load(Ordering::Acquire);
            self.whole.word(to, h).store(entry, Ordering::Release);
        }
        Ok(())
    }

    /// Fills the front of depth `to` from the whole directory of depth `depth`, likewise.
    fn make_front(&self, depth: u32, to: u32) -> Result<()> {
        self.front.make(to)?;
        for i in 0..1_u64 << to {
            let h = i << (64 - to);
            let last = h | (u64::MAX >> to);
            let [first, last] =
                [h, last].map(|h| self.whole.word(depth, h).load(Ordering::Acquire));
            // A unit is all of this range, or more, or there are several.
            let entry = if first == last { first } else { DEEP };
            self.front.word(to, h).store(entry, Ordering::Release);
        }
        Ok(())
    }

    /// Publishes filled arrays, then gives the memory of those before back.
    fn switch(&self, view: View) {
        let before = View(self.view.swap(view.0, Ordering::AcqRel));
        if before.depth() != view.depth() {
            self.whole.release(before.depth());
        }
        if before.front() != view.front() {
            self.front.release(before.front());
        }
    }

    /// Bytes of the arrays in use.
    pub(crate) fn bytes(&self) -> u64 {
        let view = self.view();
        (4 << view.depth()) + (4 << view.front())
    }
}

/// How many buckets there are, when `depths[d]` have local depth `d`.
fn total(depths: &[AtomicU64]) -> u64 {
    depths.iter().map(|count| count.load(Ordering::Relaxed)).sum()
}

/// How many of them are deeper than `depth`.
fn deeper(depth: u32, depths: &[AtomicU64]) -> u64 {
    total(&depths[depth as usize + 1..])
}

/// Whether too many buckets are deeper than a front of depth `front`.
fn is_shallow(front: u32, depths: &[AtomicU64]) -> bool {
    deeper(front, depths) * DEEP_SHARE > total(depths)
}

/// The words of a unit in the array of depth `depth`.
fn words(levels: &Levels, depth: u32, prefix: u64, local: u32) -> impl Iterator<Item = &AtomicU32> {
    extend::entries(prefix, local, depth).map(move |i| levels.word(depth, i << (64 - depth)))
}

fn fill(levels: &Levels, depth: u32, prefix: u64, local: u32, entry: u32) {
    for word in words(levels, depth, prefix, local) {
        word.store(entry, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use durahash_media::Dram;

    use super::*;

    /// Units split and merge at random, some much deeper than others; both directories name the
    /// right bucket for every hash all the time, and the front stays shallower when few are deep.
    #[test]
    fn both_directories_name_every_unit_while_depths_change() {
        let medium = Dram::new(4096).unwrap();
        let depths = [const { AtomicU64::new(0) }; MAX_DEPTH as usize + 1];
        let add = |depth: u32, by: i64| {
            depths[depth as usize].fetch_add(by as u64, Ordering::Relaxed);
        };
        let directory = Directory::new(1, &depths).unwrap();
        let mut units = BTreeMap::from([(0, (1, 1)), (1_u64 << 63, (1, 2))]);
        add(1, 2);
        for (prefix, (depth, bucket)) in &units {
            directory.set(*prefix, *depth, *bucket);
        }
        let (mut next, mut shallower, mut random) = (3, 0, 7_u64);
        for step in 0..6000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // One corner is split more often than the rest.
            let h = if step % 40 == 0 { random >> 6 } else { random };
            let (&prefix, &(depth, bucket)) = units.range(..=h).next_back().unwrap();
            if random >> 32 & 0xff < if step < 3000 { 160 } else { 60 } && depth < 13 {
                directory.fit(&medium, depth, &depths).unwrap();
                add(depth, -1);
                add(depth + 1, 2);
                let upper = extend::buddy(prefix, depth + 1);
                for unit in [(upper, next), (prefix, bucket)] {
                    directory.set(unit.0, depth + 1, unit.1);
                    units.insert(unit.0, (depth + 1, unit.1));
                }
                next += 1;
            } else if depth > 1 {
                let buddy = extend::buddy(prefix, depth);
                let (lower, upper) = (prefix.min(buddy), prefix.max(buddy));
                if units.get(&buddy).is_some_and(|(other, _)| *other == depth) {
                    add(depth - 1, 1);
                    add(depth, -2);
                    units.remove(&upper);
                    let unit = units.get_mut(&lower).unwrap();
                    unit.0 -= 1;
                    directory.set(lower, unit.0, unit.1);
                    directory.shrink(&medium, &depths);
                }
            }
            shallower += u32::from(directory.view().front() + 1 < directory.depth());
            assert_eq!(directory.find(h), units.range(..=h).next_back().unwrap().1.1);
            if step % 50 == 0 {
                assert!(
                    units.iter().all(|(prefix, (d, bucket))| directory.names(*prefix, *d, *bucket))
                );
                assert!(units.values().all(|(depth, _)| *depth <= directory.depth()));
            }
        }
        assert!(shallower > 1000, "{shallower}");
    }
}
