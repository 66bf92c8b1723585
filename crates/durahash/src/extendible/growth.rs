//! Counters of extendible hashing: units by depth, and events since the pool was opened.

use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::{Medium, Result};

use crate::extendible::extend::MAX_DEPTH;
use crate::index::IndexStats;

/// Units by depth, and events. Units are counted under the directory's lock, together with the
/// entries that are stored: these counters decide if it may be halved.
pub(crate) struct Growth {
    depths: [AtomicU64; MAX_DEPTH as usize + 1],
    /// Their sum.
    units: AtomicU64,
    /// While not all units were found and counted: how many there may be at the most. Else zero.
    most: AtomicU64,
    pub(crate) splits: Count,
    pub(crate) merges: Count,
    pub(crate) doublings: Count,
    pub(crate) halvings: Count,
}

/// How an attempt to merge two units ended.
#[derive(Clone, Copy)]
pub(crate) enum Merge {
    Done,
    /// There is nothing to merge, or it must not be.
    NotDue,
    /// Another writer was in the way.
    Busy,
}

/// Merges as often as that does something.
pub(crate) fn merge_all<M: Medium>(medium: &M, mut merge_once: impl FnMut() -> Merge) {
    loop {
        match merge_once() {
            Merge::Done => {}
            Merge::NotDue => return,
            Merge::Busy => {
                medium.wait();
            }
        }
    }
}

/// Makes units for `entries`, of which each shall have `per_unit`: `split_once` splits the unit of a hash, unless
/// that has the depth already, and says if it did. All units of a depth come before the next, so that the directory
/// is never larger than they justify.
pub(crate) fn split_ahead(
    entries: u64,
    per_unit: u64,
    mut split_once: impl FnMut(u64, u32) -> Result<bool>,
) -> Result<()> {
    let last = (entries.div_ceil(per_unit) as f64).log2().ceil() as u32;
    for depth in 1..=last.min(MAX_DEPTH) {
        for i in 0..1_u64 << depth {
            split_once(i << (64 - depth), depth)?;
        }
    }
    Ok(())
}

/// How often something happened.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) const fn new() -> Self {
        Count(AtomicU64::new(0))
    }

    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Growth {
    fn default() -> Self {
        Growth {
            depths: [const { AtomicU64::new(0) }; MAX_DEPTH as usize + 1],
            units: AtomicU64::new(0),
            most: AtomicU64::new(0),
            splits: Count::default(),
            merges: Count::default(),
            doublings: Count::default(),
            halvings: Count::default(),
        }
    }
}

impl Growth {
    /// Adds to the number of units of one depth.
    pub(crate) fn count(&self, depth: u32, by: i64) {
        self.depths[depth as usize].fetch_add(by as u64, Ordering::Relaxed);
        self.units.fetch_add(by as u64, Ordering::Relaxed);
    }

    /// Says that units are still to be found, and that there are no more than `most`; zero says that all were.
    pub(crate) fn expect(&self, most: u64) {
        self.most.store(most, Ordering::Release);
    }

    /// True if every unit is counted.
    pub(crate) fn is_complete(&self) -> bool {
        self.most.load(Ordering::Acquire) == 0
    }

    /// A number of units that there are not more of, but for those of splits since it was expected.
    pub(crate) fn bound(&self) -> u64 {
        self.units().max(self.most.load(Ordering::Acquire))
    }

    /// How many units have this depth.
    fn of_depth(&self, depth: u32) -> u64 {
        self.depths[depth as usize].load(Ordering::Relaxed)
    }

    /// Reports every depth whose counter differs from the number of `units` that were found.
    pub(crate) fn check(&self, depths: &[u64], units: &str, mut report: impl FnMut(String)) {
        for (depth, count) in (0..).zip(depths) {
            let counter = self.of_depth(depth);
            if *count != counter {
                report(format!("{count} {units} of depth {depth}, the counter says {counter}"));
            }
        }
    }

    /// How many units are deeper than that.
    pub(crate) fn deeper_than(&self, depth: u32) -> u64 {
        let deeper = &self.depths[depth as usize + 1..];
        deeper.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// How many units there are.
    pub(crate) fn units(&self) -> u64 {
        self.units.load(Ordering::Relaxed)
    }

    /// Figures, but for those of slots and space.
    pub(crate) fn figures(&self, global_depth: u32) -> IndexStats {
        let depths: Vec<u64> = (0..=MAX_DEPTH).map(|depth| self.of_depth(depth)).collect();
        let deepest = depths.iter().rposition(|n| *n != 0).map_or(0, |depth| depth + 1);
        IndexStats {
            global_depth,
            depths: depths[..deepest].to_vec(),
            splits: self.splits.get(),
            merges: self.merges.get(),
            doublings: self.doublings.get(),
            halvings: self.halvings.get(),
            ..IndexStats::default()
        }
    }
}
