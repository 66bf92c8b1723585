//! The directory of extendible hashing, in DRAM.
//!
//! An entry is a number by which a design finds a unit. Units differ in
//! their entries; none is zero, and all are lower than [`DEEP`](Directory::DEEP), the largest that
//! fits a word.
//!
//! Local depths spread over a few values, so most entries of a directory of the global depth repeat
//! their neighbours: with small units it has four to sixteen for each, more than stays in a cache. A
//! lookup therefore asks a second, shallower directory first, the *front*. It names every unit that
//! is not deeper than itself, and says `DEEP` where units are: then the whole directory knows. There
//! is an array for each depth of either, kept and reused; the two depths in use are one word, the
//! view.
//!
//! An entry is zero as long as its unit was not found, of a design that looks for units only when an operation comes to
//! them. The front says the same, or `DEEP`.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::{ByDepth, DepthWord, DirectoryLock, ErrorKind, Medium, Result, bits};

use crate::extendible::extend::{self, MAX_DEPTH};
use crate::extendible::growth::Growth;
use crate::index::WalkOrder;

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

/// An entry, and the word of the directory that it was read from.
pub(crate) struct Sought<'a, W: DepthWord> {
    entry: W,
    view: u64,
    word: &'a W::Atomic,
}

impl<W: DepthWord> Sought<'_, W> {
    #[inline(always)]
    pub(crate) fn entry(&self) -> u64 {
        self.entry.into()
    }
}

/// The directory. Readers take no lock; a writer that stores entries holds [`Directory::lock`] shared,
/// one that changes the view holds it exclusively. While none does the latter, every array that is
/// not in the view is zero; so a word that is not zero was right when it was loaded, whatever the
/// view was that led to it.
pub(crate) struct Directory<W: DepthWord> {
    /// The view, and above it how often space of units went to another use.
    view: AtomicU64,
    front: ByDepth<W>,
    whole: ByDepth<W>,
    pub(crate) lock: Apart<DirectoryLock>,
}

/// Keeps words that writers store to off the lines that every lookup reads.
#[repr(align(128))]
pub(crate) struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Bits of the view.
const USES_SHIFT: u32 = 16;

/// A directory may always have this many entries, and [`ENTRIES_PER_UNIT`] for each unit beyond.
const ENTRIES_ALWAYS: u64 = 1 << 16;
/// With uniform hashes there are about 16 at the most.
const ENTRIES_PER_UNIT: u64 = 256;

/// How many entries a directory of so many units may have.
fn most_entries(units: u64) -> u64 {
    ENTRIES_ALWAYS.max(units.saturating_mul(ENTRIES_PER_UNIT))
}

/// The depth of a directory of so many units, and that of its front, as they were noted when there may have
/// been other units: within the limits.
pub(crate) fn noted_depths(depth: u32, front: u32, units: u64) -> (u32, u32) {
    let depth = depth.clamp(1, MAX_DEPTH).min(most_entries(units).ilog2());
    (depth, front.clamp(1, depth))
}

/// Up to this depth, half a gigabyte of directory, a pool is opened whatever its size: one that was
/// far larger may keep a deep unit.
const RECOVERED_DEPTH_MAX: u32 = 26;

/// Some of those units may have gone back to the pool since the directory was that deep.
const RECOVERED_ENTRIES_PER_UNIT: u64 = 4 * ENTRIES_PER_UNIT;

/// True if a directory is in proportion to the units that were ever written, free ones too. Else a file
/// with holes that was made with malice would take all memory.
pub(crate) fn is_proportionate(depth: u32, units: u64) -> bool {
    depth <= RECOVERED_DEPTH_MAX || 1 << depth <= units.saturating_mul(RECOVERED_ENTRIES_PER_UNIT)
}

/// The front is made deeper when more than one unit in this many is deeper than it: such a unit
/// costs its lookups another line.
const DEEP_SHARE: u64 = 8;

/// While not all units were found, those that were are few if they are not even one to this power of two of the front's
/// entries.
const FEW_SHIFT: u32 = 4;

impl<W: DepthWord> Directory<W> {
    /// The entry of the front where units are deeper than itself.
    pub(crate) const DEEP: W = W::MAX;

    /// A directory of global depth `depth`, without entries, for the units that were counted.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when the system has no address space for it.
    pub(crate) fn new(depth: u32, growth: &Growth) -> Result<Self> {
        let front = (1..depth).find(|front| !is_shallow(*front, growth)).unwrap_or(depth);
        Self::of_depths(depth, front)
    }

    /// The same with a front of this depth, which is not larger.
    ///
    /// # Errors
    /// As [`Directory::new`].
    pub(crate) fn of_depths(depth: u32, front: u32) -> Result<Self> {
        const { assert!(MAX_DEPTH <= ByDepth::<W>::MAX_DEPTH) }
        let directory = Directory {
            view: AtomicU64::new(View::new(depth, front).0),
            front: ByDepth::new(),
            whole: ByDepth::new(),
            lock: Apart(DirectoryLock::new()),
        };
        directory.front.make(front)?;
        directory.whole.make(depth)?;
        Ok(directory)
    }

    #[inline(always)]
    fn view(&self) -> View {
        View(bits(self.view_word(), 0, USES_SHIFT))
    }

    #[inline(always)]
    fn view_word(&self) -> u64 {
        self.view.load(Ordering::Acquire)
    }

    /// The global depth.
    pub(crate) fn depth(&self) -> u32 {
        self.view().depth()
    }

    /// The global depth, and above it that of the front.
    pub(crate) fn depths(&self) -> (u32, u32) {
        let view = self.view();
        (view.depth(), view.front())
    }

    /// The order of a walk over the units. The directory of another index that is filled in ascending order is as deep
    /// as this one when it has few units yet.
    pub(crate) fn walk_order(&self, growth: &Growth) -> WalkOrder {
        let fits = self.depth() < ENTRIES_ALWAYS.ilog2() && growth.is_complete();
        if fits {
            WalkOrder::Ascending
        } else {
            WalkOrder::SampleFirst(growth.bound().next_power_of_two().ilog2())
        }
    }

    /// True if the unit of `h` was found.
    pub(crate) fn has<M: Medium>(&self, medium: &M, h: u64) -> bool {
        // An array that is being given up, or filled, has zeros of its own.
        self.lock.shared(medium, || W::load(self.whole.word(self.view().depth(), h)) != W::ZERO)
    }

    /// The entry of `h` now, whose unit was found.
    #[inline(always)]
    pub(crate) fn find(&self, h: u64) -> u64 {
        self.sought(h).entry()
    }

    /// The same, and where it was read.
    #[inline(always)]
    pub(crate) fn sought(&self, h: u64) -> Sought<'_, W> {
        loop {
            // An array that was just given up reads as zeros; the new view is there already.
            if let Some(sought) = self.seek(h) {
                return sought;
            }
        }
    }

    /// The entry of `h` now, and where that was read; `None` for a moment while the view changes.
    #[inline(always)]
    pub(crate) fn seek(&self, h: u64) -> Option<Sought<'_, W>> {
        let view = self.view_word();
        let mut word = self.front.word(View(view).front(), h);
        let mut entry = W::load(word);
        if entry == Self::DEEP {
            word = self.whole.word(View(view).depth(), h);
            entry = W::load(word);
        }
        (entry != W::ZERO).then_some(Sought { entry, view, word })
    }

    /// True if an entry still stands where it was found.
    #[inline(always)]
    pub(crate) fn is_current(&self, sought: &Sought<'_, W>) -> bool {
        self.still_has(sought) && self.is_unchanged(sought)
    }

    /// True if the same entry stands there. It is current if [`is_unchanged`](Self::is_unchanged) says so
    /// afterwards.
    #[inline(always)]
    pub(crate) fn still_has(&self, sought: &Sought<'_, W>) -> bool {
        W::load(sought.word) == sought.entry
    }

    /// True if neither directory has another depth, and no space of units went to another use.
    #[inline(always)]
    pub(crate) fn is_unchanged(&self, sought: &Sought<'_, W>) -> bool {
        self.view_word() == sought.view
    }

    /// Space that no entry names is about to go to another use: a reader that is late may find foreign words
    /// there, and must not believe them.
    pub(crate) fn change_use(&self) {
        self.view.fetch_add(1 << USES_SHIFT, Ordering::Release);
    }

    /// Starts to fetch the entry of `h`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, h: u64) {
        self.front.prefetch(self.view().front(), h);
    }

    /// Stores the entry of a unit wherever it stands; the caller holds the lock shared, or is alone.
    pub(crate) fn set(&self, prefix: u64, local: u32, entry: u64) {
        let entry = W::from_u64(entry);
        debug_assert!(entry != W::ZERO && entry != Self::DEEP, "no entry of a unit");
        let view = self.view();
        fill(&self.whole, view.depth(), prefix, local, entry);
        if local <= view.front() {
            fill(&self.front, view.front(), prefix, local, entry);
        } else {
            Self::DEEP.store(self.front.word(view.front(), prefix));
        }
    }

    /// True if a unit has this entry everywhere.
    pub(crate) fn names(&self, prefix: u64, local: u32, entry: u64) -> bool {
        let (view, entry) = (self.view(), W::from_u64(entry));
        let all = |levels, depth, local, entry| {
            words::<W>(levels, depth, prefix, local).all(|word| W::load(word) == entry)
        };
        all(&self.whole, view.depth(), local, entry)
            && if local <= view.front() {
                all(&self.front, view.front(), local, entry)
            } else {
                all(&self.front, view.front(), view.front(), Self::DEEP)
            }
    }

    /// Makes room for units of depth `depth`: a whole directory that is as deep, and a front that is
    /// not too shallow for the units there are. A design that keeps its directory on the medium, too,
    /// does so in `keep`, which gets a new global depth and the entry at each index.
    ///
    /// # Errors
    /// [`Skewed`](ErrorKind::Skewed) where that would be out of proportion to the units;
    /// [`Io`](ErrorKind::Io) without memory; those of `keep`. All stays as it is then.
    pub(crate) fn fit<M: Medium>(
        &self,
        medium: &M,
        depth: u32,
        growth: &Growth,
        keep: impl FnOnce(u32, &dyn Fn(u64) -> u64) -> Result<()>,
    ) -> Result<()> {
        let view = self.view();
        if depth <= view.depth() && !is_shallow(view.front(), growth) {
            return Ok(());
        }
        self.lock.exclusive(medium, || {
            let view = self.view();
            let depth = depth.max(view.depth());
            let doublings = depth - view.depth();
            if doublings > 0 && (depth > MAX_DEPTH || 1 << depth > most_entries(growth.bound())) {
                return Err(ErrorKind::Skewed { depth }.into());
            }
            let deepens = view.front() < depth && is_shallow(view.front(), growth);
            self.change(View::new(depth, view.front() + u32::from(deepens)), keep)?;
            growth.doublings.add(doublings.into());
            Ok(())
        })
    }

    /// Makes the whole directory as deep as a unit that was found needs it, where there may be so many `units`.
    ///
    /// # Errors
    /// [`Skewed`](ErrorKind::Skewed) where that is out of proportion; [`Io`](ErrorKind::Io) without memory.
    pub(crate) fn deepen<M: Medium>(&self, medium: &M, depth: u32, units: u64) -> Result<()> {
        if depth <= self.view().depth() {
            return Ok(());
        }
        if !is_proportionate(depth, units) {
            return Err(ErrorKind::Skewed { depth }.into());
        }
        self.lock.exclusive(medium, || {
            let view = self.view();
            if depth <= view.depth() {
                return Ok(());
            }
            self.change(View::new(depth, view.front()), |_, _| Ok(()))
        })
    }

    /// Makes the front deeper until it is not too shallow, when all units were found. Without memory it stays as it
    /// is, and is only slower.
    pub(crate) fn fit_front<M: Medium>(&self, medium: &M, growth: &Growth) {
        let mut before = 0;
        while before < self.view().front() {
            before = self.view().front();
            let _ = self.fit(medium, 0, growth, |_, _| Ok(()));
        }
    }

    /// Halves the directory if, under the lock, no unit has the present depth or the `spare` ones
    /// below: depths to spare, so that splits and merges in turn do not double and halve each time.
    /// Makes the front shallower with like reluctance. `keep` is as in [`fit`](Self::fit); where it
    /// fails, or memory, all stays as it is.
    pub(crate) fn shrink<M: Medium>(
        &self,
        medium: &M,
        growth: &Growth,
        spare: u32,
        keep: impl FnOnce(u32, &dyn Fn(u64) -> u64) -> Result<()>,
    ) {
        let halves = |view: View| {
            let depth = view.depth();
            depth > 2 && growth.deeper_than(depth.saturating_sub(spare + 1)) == 0
        };
        let lowers = |view: View| {
            let front = view.front();
            front > 1 && growth.deeper_than(front - 1) * 2 * DEEP_SHARE < growth.units()
        };
        // Those that were not found yet may be deep.
        if !growth.is_complete() || !halves(self.view()) && !lowers(self.view()) {
            return;
        }
        self.lock.exclusive(medium, || {
            let view = self.view();
            let depth = view.depth() - u32::from(halves(view));
            let lowers = lowers(view) || view.front() > depth;
            let to = View::new(depth, view.front() - u32::from(lowers));
            if to != view && self.change(to, keep).is_ok() {
                growth.halvings.add((view.depth() - depth).into());
            }
        });
    }

    /// Fills the arrays of another view, has a whole directory of another depth kept, and publishes
    /// them. The caller holds the lock exclusively.
    fn change(
        &self,
        mut to: View,
        keep: impl FnOnce(u32, &dyn Fn(u64) -> u64) -> Result<()>,
    ) -> Result<()> {
        let from = self.view();
        let depth = to.depth();
        let mut unused = Unused { directory: self, view: to, used: from };
        if depth != from.depth() {
            self.copy_whole(from.depth(), depth)?;
        }
        if to.front() != from.front()
            && let Err(e) = self.make_front(depth, to.front())
        {
            // The present one goes on, if it may be as deep: it is only slower.
            if from.front() > depth {
                return Err(e);
            }
            to = View::new(depth, from.front());
        }
        if depth != from.depth() {
            keep(depth, &|i| W::load(self.whole.word(depth, i << (64 - depth))).into())?;
        }
        // The depths alone.
        self.view.fetch_add(to.0.wrapping_sub(from.0), Ordering::Release);
        (unused.view, unused.used) = (from, to);
        Ok(())
    }

    /// Fills the whole directory of depth `to` with the entries of depth `from`; the caller
    /// holds the lock exclusively. A late reader may look into an array that is being filled again,
    /// so what an entry names goes with it.
    fn copy_whole(&self, from: u32, to: u32) -> Result<()> {
        self.whole.make(to)?;
        for i in 0..1_u64 << to {
            let h = i << (64 - to);
            let entry = W::load(self.whole.word(from, h));
            // Zeros are there already, and their memory need not be.
            if entry != W::ZERO {
                entry.store(self.whole.word(to, h));
            }
        }
        Ok(())
    }

    /// Fills the front of depth `to` from the whole directory of depth `depth`, likewise.
    fn make_front(&self, depth: u32, to: u32) -> Result<()> {
        self.front.make(to)?;
        for i in 0..1_u64 << to {
            let h = i << (64 - to);
            let last = h | (u64::MAX >> to);
            let [first, last] = [h, last].map(|h| W::load(self.whole.word(depth, h)));
            // A unit is all of this range, or more; or there are several, or some that were not found.
            let is_one = first == last && first != W::ZERO;
            let entry = if is_one { first } else { Self::DEEP };
            entry.store(self.front.word(to, h));
        }
        Ok(())
    }

    /// Bytes of the arrays in use.
    pub(crate) fn bytes(&self) -> u64 {
        let view = self.view();
        let bytes = size_of::<W>() as u64;
        (bytes << view.depth()) + (bytes << view.front())
    }
}

/// The arrays of `view` that `used` has not: given up when this is dropped, also by a panic.
struct Unused<'a, W: DepthWord> {
    directory: &'a Directory<W>,
    view: View,
    used: View,
}

impl<W: DepthWord> Drop for Unused<'_, W> {
    fn drop(&mut self) {
        if self.view.depth() != self.used.depth() {
            self.directory.whole.release(self.view.depth());
        }
        if self.view.front() != self.used.front() {
            self.directory.front.release(self.view.front());
        }
    }
}

/// True if too many units are deeper than a front of depth `front`. A few that were found first do not say so.
fn is_shallow(front: u32, growth: &Growth) -> bool {
    let units = growth.units();
    let says_something = growth.is_complete() || units >> front.saturating_sub(FEW_SHIFT) > 0;
    says_something && growth.deeper_than(front) * DEEP_SHARE > units
}

/// The words of a unit in the array of depth `depth`.
fn words<W: DepthWord>(
    levels: &ByDepth<W>,
    depth: u32,
    prefix: u64,
    local: u32,
) -> impl Iterator<Item = &W::Atomic> {
    extend::entries(prefix, local, depth).map(move |i| levels.word(depth, i << (64 - depth)))
}

fn fill<W: DepthWord>(levels: &ByDepth<W>, depth: u32, prefix: u64, local: u32, entry: W) {
    words(levels, depth, prefix, local).for_each(|word| entry.store(word));
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use durahash_media::Dram;

    use super::*;

    /// A directory of depth 1 with units 1 and 2, counted.
    fn two_units<W: DepthWord>() -> (Directory<W>, Growth) {
        let growth = Growth::default();
        growth.count(1, 2);
        let directory = Directory::new(1, &growth).unwrap();
        directory.set(0, 1, 1);
        directory.set(1 << 63, 1, 2);
        (directory, growth)
    }

    /// Units split, in two or in four, and merge at random, some much deeper than others; both
    /// directories name the right one for every hash all the time, the front stays shallower when
    /// few are deep, and what is kept is what is there.
    fn depths_change<W: DepthWord>(split_bits: u32) {
        let medium = Dram::new(4096).unwrap();
        let (directory, growth) = two_units::<W>();
        let mut units = BTreeMap::from([(0, (1, 1)), (1_u64 << 63, (1, 2))]);
        let (kept, changes) = (Cell::new(1), Cell::new(0));
        let keep = |depth: u32, entry: &dyn Fn(u64) -> u64| {
            for i in 0..1 << depth {
                assert_eq!(entry(i), directory.find(i << (64 - depth)));
            }
            kept.set(depth);
            changes.set(changes.get() + 1);
            Ok(())
        };
        let (mut next, mut shallower, mut random) = (3, 0, 7_u64);
        for step in 0..9000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let splits_in_256 = [160, 60, 0][step / 3000];
            let h = match step {
                // In the end all merges, the deepest first.
                6000.. => *units.iter().max_by_key(|(_, (depth, _))| depth).unwrap().0,
                // One corner is split more often than the rest.
                _ if step % 40 == 0 => random >> 6,
                _ => random,
            };
            let (&prefix, &(depth, _)) = units.range(..=h).next_back().unwrap();
            let splits = random >> 32 & 0xff < splits_in_256;
            let new_depth = depth + split_bits;
            if splits && new_depth <= 13 {
                directory.fit(&medium, new_depth, &growth, keep).unwrap();
                growth.count(depth, -1);
                growth.count(new_depth, 1 << split_bits);
                for part in 0..1 << split_bits {
                    let prefix = prefix + part * extend::span(new_depth);
                    directory.set(prefix, new_depth, next);
                    units.insert(prefix, (new_depth, next));
                    next += 1;
                }
            } else if depth > 1 {
                let buddy = extend::buddy(prefix, depth);
                let (lower, upper) = (prefix.min(buddy), prefix.max(buddy));
                if units.get(&buddy).is_some_and(|(other, _)| *other == depth) {
                    growth.count(depth - 1, 1);
                    growth.count(depth, -2);
                    units.remove(&upper);
                    let unit = units.get_mut(&lower).unwrap();
                    unit.0 -= 1;
                    directory.set(lower, unit.0, unit.1);
                    directory.shrink(&medium, &growth, split_bits, keep);
                }
            }
            shallower += u32::from(directory.view().front() + 1 < directory.depth());
            assert_eq!(directory.find(h), units.range(..=h).next_back().unwrap().1.1);
            if step % 50 == 0 {
                assert!(
                    units.iter().all(|(prefix, (d, unit))| directory.names(*prefix, *d, *unit))
                );
                assert!(units.values().all(|(depth, _)| *depth <= directory.depth()));
            }
        }
        assert_eq!(kept.get(), directory.depth());
        assert!(growth.halvings.get() > 0);
        let doublings = growth.doublings.get() - growth.halvings.get();
        assert_eq!(doublings + 1, directory.depth().into());
        assert!(changes.get() <= growth.doublings.get() + growth.halvings.get());
        assert!(shallower > 1000, "{shallower}");
    }

    #[test]
    fn both_directories_name_every_unit_while_depths_change() {
        depths_change::<u32>(1);
        depths_change::<u64>(2);
    }

    /// Where the copy cannot be kept, a deeper directory and a shallower one leave nothing behind.
    #[test]
    fn a_copy_that_fails_changes_nothing() {
        let medium = Dram::new(4096).unwrap();
        let (directory, growth) = two_units::<u64>();
        let fails = |_: u32, _: &dyn Fn(u64) -> u64| Err(ErrorKind::Poisoned.into());
        assert!(directory.fit(&medium, 3, &growth, fails).is_err());
        assert_eq!(directory.depth(), 1);
        assert!((0..8).all(|i| u64::load(directory.whole.word(3, i << 61)) == 0));
        directory.fit(&medium, 5, &growth, |_, _| Ok(())).unwrap();
        let view = directory.view();
        directory.shrink(&medium, &growth, 1, fails);
        assert!(directory.view() == view && growth.halvings.get() == 0);
        assert!((0..16).all(|i| u64::load(directory.whole.word(4, i << 60)) == 0));
        assert!(directory.names(0, 1, 1) && directory.names(1 << 63, 1, 2));
        directory.shrink(&medium, &growth, 1, |_, _| Ok(()));
        assert_eq!((directory.depth(), growth.halvings.get()), (4, 1));
    }

    #[test]
    fn entries_sought_before_a_change_of_use_are_told_apart() {
        let medium = Dram::new(4096).unwrap();
        let (directory, growth) = two_units::<u64>();
        for round in 0..3 {
            let sought = directory.sought(0);
            assert!(directory.is_unchanged(&sought) && directory.is_current(&sought));
            directory.change_use();
            assert!(!directory.is_unchanged(&sought) && directory.still_has(&sought));
            let sought = directory.sought(0);
            directory.fit(&medium, 3, &growth, |_, _| Ok(())).unwrap();
            directory.shrink(&medium, &growth, 0, |_, _| Ok(()));
            // The depths alone are the same again.
            assert_eq!(directory.is_unchanged(&sought), directory.depth() == 1 || round > 0);
        }
        assert_eq!((directory.find(0), directory.find(u64::MAX)), (1, 2));
    }

    /// Entries of unknown units are zero, however the depths change, and nothing becomes shallower before all is there.
    #[test]
    fn units_are_found_one_by_one() {
        let medium = Dram::new(4096).unwrap();
        let growth = Growth::default();
        growth.expect(1 << 20);
        let directory = Directory::<u32>::of_depths(5, 3).unwrap();
        let found = |h: u64| directory.seek(h).map(|sought| sought.entry());
        let add = |prefix: u64, depth: u32, entry: u64| {
            directory.deepen(&medium, depth, growth.bound()).unwrap();
            growth.count(depth, 1);
            directory.set(prefix, depth, entry);
        };
        add(0, 3, 7);
        add(0b0011 << 60, 7, 8);
        assert_eq!((directory.depth(), found(1), found(0b0011 << 60)), (7, Some(7), Some(8)));
        assert!(directory.has(&medium, 1) && !directory.has(&medium, u64::MAX));
        // The front gets deeper, between units that were found and others.
        for front in 4..=5 {
            growth.count(7, 1 << 10);
            directory.fit(&medium, 7, &growth, |_, _| Ok(())).unwrap();
            assert_eq!(directory.depths(), (7, front));
            assert_eq!((found(1), found(0b0011 << 60)), (Some(7), Some(8)));
            assert!([u64::MAX, 1 << 61, 0b0011 << 60 | 1 << 58].map(found) == [None; 3]);
        }
        add(0b11 << 62, 2, 9);
        assert_eq!(found(u64::MAX), Some(9));
        growth.count(7, -(2 << 10));
        growth.count(7, -1);
        directory.set(0b001 << 61, 3, 8);
        let shrink = || directory.shrink(&medium, &growth, 0, |_, _| Ok(()));
        shrink();
        assert_eq!(directory.depths(), (7, 5));
        growth.expect(0);
        shrink();
        assert_eq!((directory.depths(), growth.halvings.get()), ((6, 4), 1));
        // Notes are kept to what is allowed.
        assert_eq!(noted_depths(20, 18, 1 << 20), (20, 18));
        assert_eq!(noted_depths(0, 0, 1), (1, 1));
        assert_eq!(noted_depths(255, 255, 1 << 10), (18, 18));
        assert!(directory.deepen(&medium, 40, 5).is_err());
    }

    #[test]
    fn a_directory_stays_in_proportion_to_its_units() {
        let medium = Dram::new(4096).unwrap();
        let (directory, growth) = two_units::<u32>();
        let fit = |depth| directory.fit(&medium, depth, &growth, |_, _| Ok(()));
        for depth in [17, MAX_DEPTH, MAX_DEPTH + 1, 63] {
            let refused = fit(depth).unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::Skewed { depth: d } if *d == depth));
        }
        assert!(fit(16).is_ok());
        growth.count(2, 1 << 40);
        assert!(matches!(fit(MAX_DEPTH + 1).unwrap_err().kind(), ErrorKind::Skewed { .. }));
    }
}
