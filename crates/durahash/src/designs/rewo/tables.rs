//! Which tables there are, and where in them a hash may be.
//!
//! The first table owns all hashes at first. Table `n` is as large as all before it together, and takes
//! those whose bit `n`, counted from the most significant, is 1. So the owner of a hash is named by the
//! last of the bits used so far that is 1.
//!
//! Within a table, a hash has two buckets, which a remix of it chooses, both in one region of at most
//! 512 buckets. The first bits of the remix say which region, whatever the size of the table: so
//! iteration goes in the order of remixed hashes, region by region, and a key that moves stays where
//! it is in that order.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::{bits, hash};

use super::layout::TABLES;
use super::planted::{Fault, planted};

/// Buckets of a region, as an exponent of two.
const REGION_SHIFT: u32 = 9;

/// Where the unit after that of `at` begins, if units have so many bits in common.
pub(super) fn next_unit(at: u64, bits: u32) -> Option<u64> {
    let next = hash::prefix(at, bits) + 1;
    (next >> bits == 0).then(|| next << (64 - bits))
}

/// Buckets that a hash may be in at the most: two at rest, four in a resize, six while a resize that was
/// not finished is overtaken by another one.
pub(super) const PLACES: usize = 6;

/// Where the reserved table stands behind the others, and one that a rebuild had and gave up.
pub(super) const RESERVED: usize = TABLES;
pub(super) const OVERTAKEN: usize = TABLES + 1;
/// All of them.
pub(super) const ALL: usize = TABLES + 2;

/// The resize that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resize {
    None,
    /// The last table takes the hashes whose last bit is 1.
    Grow,
    /// The last table gives its hashes back.
    Shrink,
    /// The reserved table takes all hashes.
    Rebuild,
    /// The same, begun when a grow or shrink could not go on: the last table or the one before may
    /// have a hash of the last table.
    Overtake,
    /// The same, begun when a rebuild could not go on: its table may have a hash, too.
    Again,
}

impl Resize {
    const CODES: [Resize; 6] = [
        Resize::None,
        Resize::Grow,
        Resize::Shrink,
        Resize::Rebuild,
        Resize::Overtake,
        Resize::Again,
    ];

    /// The resize of a code.
    pub(super) fn from_code(code: u64) -> Option<Self> {
        Self::CODES.get(code as usize).copied()
    }

    /// How many tables it needs.
    pub(super) const fn needs(self) -> usize {
        if matches!(self, Resize::Grow | Resize::Shrink | Resize::Overtake) { 2 } else { 1 }
    }

    /// True if it has a table, of `count` and those behind.
    pub(super) const fn has(self, count: usize, table: usize) -> bool {
        table < count
            || (table == RESERVED && self.is_rebuild())
            || (table == OVERTAKEN && matches!(self, Resize::Again))
    }

    /// True if all hashes go to the reserved table.
    pub(super) const fn is_rebuild(self) -> bool {
        matches!(self, Resize::Rebuild | Resize::Overtake | Resize::Again)
    }
}

/// A table: its first bucket, and how many there are, as an exponent of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) first: u64,
    pub(super) shift: u32,
}

impl Table {
    pub(super) const fn buckets(self) -> u64 {
        1 << self.shift
    }

    /// Its buckets.
    pub(super) const fn numbers(self) -> Range<u64> {
        self.first..self.first + self.buckets()
    }

    /// True if a bucket is one of its own.
    pub(super) const fn has(self, bucket: u64) -> bool {
        bucket.wrapping_sub(self.first) < self.buckets()
    }

    /// How many of the first bits of a remixed hash say which region it is in.
    pub(super) const fn region_bits(self) -> u32 {
        self.shift.saturating_sub(REGION_SHIFT)
    }

    /// The first bucket of a region, and how many it has.
    const fn region(self, remixed: u64) -> (u64, u64) {
        let shift = self.shift - self.region_bits();
        (self.first + (hash::prefix(remixed, self.region_bits()) << shift), 1 << shift)
    }

    /// The buckets of a region.
    pub(super) const fn region_numbers(self, remixed: u64) -> Range<u64> {
        let (first, buckets) = self.region(remixed);
        first..first + buckets
    }

    /// The two buckets of a hash, by its remix.
    #[inline(always)]
    pub(super) const fn pair(self, remixed: u64) -> [u64; 2] {
        let (first, buckets) = self.region(remixed);
        let one = remixed & (buckets - 1);
        let other = remixed >> 16 & (buckets - 1);
        let other = if other == one { other ^ 1 } else { other };
        [first + one, first + other]
    }

    const fn to_entry(self) -> u64 {
        self.first << 8 | self.shift as u64
    }

    const fn from_entry(entry: u64) -> Self {
        Table { first: entry >> 8, shift: bits(entry, 0, 8) as u32 }
    }
}

/// Tables, and what becomes of them. In the order of the medium, the reserved one last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableSet {
    pub(super) resize: Resize,
    pub(super) count: usize,
    pub(super) tables: [Option<Table>; ALL],
}

impl TableSet {
    /// One table alone.
    pub(super) fn one(table: Table) -> Self {
        let mut tables = [None; ALL];
        tables[0] = Some(table);
        TableSet { resize: Resize::None, count: 1, tables }
    }

    /// Every table with its number.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, Table)> {
        self.tables.into_iter().enumerate().filter_map(|(i, table)| Some((i, table?)))
    }

    /// How many bits tell the regions of the largest table apart.
    pub(super) fn region_bits(&self) -> u32 {
        self.all().map(|(_, table)| table.region_bits()).max().unwrap_or(0)
    }

    /// Buckets of all tables but those behind.
    pub(super) fn buckets(&self) -> u64 {
        self.all().filter(|(i, _)| *i < TABLES).map(|(_, table)| table.buckets()).sum()
    }

    /// The tables that a resize takes hashes from, in the order in which it does.
    pub(super) fn sources(&self) -> impl Iterator<Item = (usize, Table)> {
        let last = self.count - 1;
        let range = match self.resize {
            Resize::None => 0..0,
            Resize::Grow => 0..last,
            Resize::Shrink => last..self.count,
            Resize::Rebuild | Resize::Overtake | Resize::Again => 0..self.count,
        };
        self.all().filter(move |(i, _)| range.contains(i) || *i == OVERTAKEN)
    }

    /// Buckets of the sources.
    pub(super) fn total(&self) -> u64 {
        self.sources().map(|(_, table)| table.buckets()).sum()
    }

    /// True if the sources are given up in the end, so that nothing may be left in them.
    pub(super) const fn empties_sources(&self) -> bool {
        !matches!(self.resize, Resize::None | Resize::Grow)
    }

    /// The bucket at a position of the walk over the sources, and its table.
    pub(super) fn source(&self, mut at: u64) -> Option<(usize, u64)> {
        for (i, table) in self.sources() {
            if at < table.buckets() {
                return Some((i, table.first + at));
            }
            at -= table.buckets();
        }
        None
    }

    /// What it says of hashes, wherever the tables are.
    const fn view(&self) -> View {
        View((self.count as u64) << COUNT_BIT | self.resize as u64)
    }

    /// All buckets that a hash may be in, those that the walk over the sources has passed among them.
    pub(super) fn places(&self, h: u64, remixed: u64) -> impl Iterator<Item = u64> {
        let view = self.view();
        let numbers = [Some(view.target(h))].into_iter().chain(view.sources(h)).flatten();
        numbers.filter_map(|i| self.tables[i]).flat_map(move |table| table.pair(remixed))
    }

    /// The tables that are left when the resize has ended.
    pub(super) fn finished(&self) -> Self {
        let mut done = TableSet { resize: Resize::None, ..*self };
        match self.resize {
            Resize::None | Resize::Grow => {}
            Resize::Shrink => {
                done.count -= 1;
                done.tables[done.count] = None;
            }
            Resize::Rebuild | Resize::Overtake | Resize::Again => {
                done.tables = [None; ALL];
                (done.count, done.tables[0]) = (1, self.tables[RESERVED]);
            }
        }
        done
    }
}

/// The owner of a hash among so many tables.
#[inline(always)]
const fn owner(h: u64, count: usize) -> usize {
    // Bit n, the last that is used, is the lowest of these.
    let used = hash::prefix(h, count as u32 - 1);
    if used == 0 { 0 } else { count - 1 - used.trailing_zeros() as usize }
}

/// The buckets that a hash may be in: pairs, the one for new slots first.
#[derive(Clone, Copy)]
pub(super) struct Places {
    buckets: [u64; PLACES],
    count: usize,
    /// Where it probably is: the number of the first bucket to look into. The order is a matter of speed.
    probable: usize,
}

impl Places {
    pub(super) const fn none() -> Self {
        Places { buckets: [0; PLACES], count: 0, probable: 0 }
    }

    pub(super) fn of(pair: [u64; 2]) -> Self {
        let mut places = Places { count: 2, ..Places::none() };
        [places.buckets[0], places.buckets[1]] = pair;
        places
    }

    #[inline(always)]
    pub(super) fn all(&self) -> &[u64] {
        &self.buckets[..self.count]
    }

    /// All of them, in two pieces: first those where it probably is.
    #[inline(always)]
    pub(super) fn in_order(&self) -> [&[u64]; 2] {
        let (others, probable) = self.all().split_at(self.probable);
        [probable, others]
    }

    /// The two for new slots.
    #[inline(always)]
    pub(super) fn target(&self) -> [u64; 2] {
        [self.buckets[0], self.buckets[1]]
    }
}

/// The tables in DRAM, as operations see them. One bank of entries is in use, the other is for the
/// next change; the word of state switches, and never has the same value twice.
pub(super) struct LiveTables {
    state: AtomicU64,
    banks: [[AtomicU64; ALL]; 2],
    passed: Passed,
}

/// The first bucket of the walk over the sources that may still have slots that belong elsewhere: its table's
/// number above, and its own within the table below. Before it no operation looks for slots that have moved.
/// Off the line of the state: it is stored to all through a resize.
#[repr(align(128))]
struct Passed(AtomicU64);

const PASSED_TABLE_BIT: u32 = 56;

/// A value of the word of state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct View(u64);

const COUNT_BIT: u32 = 3;
const BANK_BIT: u32 = 8;
/// Counts changes; the lowest bit of it is the bank.
const CHANGE: u64 = 1 << BANK_BIT;

impl LiveTables {
    pub(super) fn new(wanted: &TableSet) -> Self {
        let banks = std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0)));
        let passed = Passed(AtomicU64::new(0));
        let live_tables = LiveTables { state: AtomicU64::new(0), banks, passed };
        live_tables.publish(wanted);
        live_tables
    }

    /// From here on, these are the tables.
    pub(super) fn publish(&self, wanted: &TableSet) {
        let before = self.state.load(Ordering::Relaxed) >> BANK_BIT;
        let next = (before + 1) * CHANGE;
        for (entry, table) in self.bank(View(next)).iter().zip(wanted.tables) {
            entry.store(table.map_or(0, Table::to_entry), Ordering::Release);
        }
        // Before the state: a thread that sees these tables does not see how far a walk over others came.
        if !planted(Fault::PassedKept) {
            self.passed.0.store(0, Ordering::Relaxed);
        }
        self.state.store(next | wanted.view().0, Ordering::SeqCst);
    }

    /// The walk over the sources of these tables, which are in use, has come to a position: slots of the buckets
    /// before it that belong elsewhere are there, durably, and nothing comes back.
    pub(super) fn pass(&self, wanted: &TableSet, at: u64) {
        if let Some((table, number)) = wanted.source(at) {
            let first = wanted.tables[table].map_or(0, |table| table.first);
            let passed = (table as u64) << PASSED_TABLE_BIT | (number - first);
            self.passed.0.store(passed, Ordering::Release);
        }
    }

    #[inline(always)]
    fn bank(&self, view: View) -> &[AtomicU64; ALL] {
        &self.banks[bits(view.0, BANK_BIT, 1) as usize]
    }

    /// The tables now.
    #[inline(always)]
    pub(super) fn load(&self) -> View {
        View(self.state.load(Ordering::Acquire))
    }

    /// True if they are still the same.
    #[inline(always)]
    pub(super) fn is_current(&self, view: View) -> bool {
        self.load() == view
    }

    #[inline(always)]
    pub(super) fn table(&self, view: View, i: usize) -> Table {
        Table::from_entry(self.bank(view)[i].load(Ordering::Acquire))
    }

    /// The tables of a view, which is current.
    pub(super) fn wanted(&self, view: View) -> TableSet {
        let count = view.count();
        let table = |i| view.resize().has(count, i).then(|| self.table(view, i));
        TableSet { resize: view.resize(), count, tables: std::array::from_fn(table) }
    }

    /// The two buckets in one table.
    #[inline(always)]
    pub(super) fn pair(&self, view: View, table: usize, remixed: u64) -> [u64; 2] {
        self.table(view, table).pair(remixed)
    }

    /// Where a hash may be.
    #[inline(always)]
    pub(super) fn places(&self, view: View, h: u64, remixed: u64) -> Places {
        let mut places = Places { count: 2, ..Places::none() };
        [places.buckets[0], places.buckets[1]] = self.pair(view, view.target(h), remixed);
        if view.is_resizing() {
            self.add_sources(view, h, remixed, &mut places);
        }
        places
    }

    /// Those where it may still be. Where the walk has passed them is read after the view and before it is
    /// looked at again: so it is of this view, or 0, or all of this is in vain.
    #[inline(never)]
    fn add_sources(&self, view: View, h: u64, remixed: u64, places: &mut Places) {
        let passed = self.passed.0.load(Ordering::Acquire);
        for number in view.sources(h).into_iter().flatten() {
            let table = self.table(view, number);
            let pair = table.pair(remixed);
            let is_passed = |bucket: u64| {
                let at = bucket.wrapping_sub(table.first);
                (number as u64) << PASSED_TABLE_BIT | at < passed
            };
            if pair.into_iter().all(is_passed) {
                continue;
            }
            if !is_passed(pair[0]) {
                // Few slots are new since the resize began: the others are still here.
                places.probable = 2;
            }
            places.buckets[places.count..places.count + 2].copy_from_slice(&pair);
            places.count += 2;
        }
    }
}

impl View {
    #[inline(always)]
    pub(super) fn resize(self) -> Resize {
        Resize::from_code(bits(self.0, 0, COUNT_BIT)).unwrap_or(Resize::None)
    }

    /// Tables, without the reserved one.
    #[inline(always)]
    pub(super) const fn count(self) -> usize {
        bits(self.0, COUNT_BIT, 5) as usize
    }

    #[inline(always)]
    pub(super) const fn is_resizing(self) -> bool {
        bits(self.0, 0, COUNT_BIT) != 0
    }

    /// The table for a new slot of `h`.
    #[inline(always)]
    pub(super) fn target(self, h: u64) -> usize {
        match self.resize() {
            Resize::None | Resize::Grow => owner(h, self.count()),
            Resize::Shrink => owner(h, self.count() - 1),
            Resize::Rebuild | Resize::Overtake | Resize::Again => RESERVED,
        }
    }

    /// The tables that may still have it.
    fn sources(self, h: u64) -> [Option<usize>; 2] {
        let count = self.count();
        let now = owner(h, count);
        // The table that has a hash of the last one before a grow, or after a shrink.
        let other = if now == count - 1 && count > 1 { Some(owner(h, count - 1)) } else { None };
        match self.resize() {
            Resize::None => [None; 2],
            Resize::Grow => [other, None],
            Resize::Shrink => [other.map(|_| now), None],
            Resize::Rebuild => [Some(now), None],
            Resize::Overtake => [Some(now), other],
            Resize::Again => [Some(OVERTAKEN), Some(now)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_used_bit_that_is_1_names_the_owner() {
        assert_eq!(owner(u64::MAX, 1), 0);
        for count in 1..=TABLES {
            assert_eq!(owner(0, count), 0);
            assert_eq!(owner(u64::MAX >> (count - 1), count), 0, "bits that are not used yet");
            for n in 1..count {
                let h = 1 << (64 - n);
                assert_eq!(owner(h, count), n);
                assert_eq!(owner(h | 1 << 63 | 1, count), n);
            }
        }
    }

    fn tables(count: usize, resize: Resize) -> TableSet {
        let mut wanted = TableSet::one(Table { first: 16, shift: 2 });
        (wanted.count, wanted.resize) = (count, resize);
        let mut first = 20;
        for i in 1..count {
            let shift = 2 + i as u32 - 1;
            wanted.tables[i] = Some(Table { first, shift });
            first += 1 << shift;
        }
        if resize.is_rebuild() {
            wanted.tables[RESERVED] = Some(Table { first, shift: 2 + count as u32 });
            first += wanted.tables[RESERVED].map_or(0, Table::buckets);
        }
        if resize == Resize::Again {
            wanted.tables[OVERTAKEN] = Some(Table { first, shift: 3 });
        }
        wanted
    }

    /// During a resize a hash may be where it was before, and where it will be after.
    #[test]
    fn a_resize_looks_where_hashes_were_and_where_they_go() {
        let mix = hash::WordMix::new(3);
        for count in 2..=TABLES {
            for (resize, before, after) in [
                (Resize::Grow, count - 1, Some(count)),
                (Resize::Shrink, count, Some(count - 1)),
                (Resize::Rebuild, count, None),
            ] {
                let wanted = tables(count, resize);
                let live_tables = LiveTables::new(&wanted);
                let view = live_tables.load();
                assert_eq!(live_tables.wanted(view), wanted);
                for h in (0..500).map(|i| mix.mix(i)) {
                    let target = after.map_or(RESERVED, |after| owner(h, after));
                    assert_eq!(view.target(h), target);
                    let source = owner(h, before);
                    let places = live_tables.places(view, h, mix.mix(h));
                    let want: &[usize] =
                        if source == target { &[target] } else { &[target, source] };
                    let pairs = want.iter().flat_map(|i| live_tables.pair(view, *i, mix.mix(h)));
                    assert_eq!(places.all(), pairs.collect::<Vec<_>>());
                }
            }
        }
    }

    /// Both buckets of a pair are behind the walk, or lookups go there.
    #[test]
    fn buckets_that_the_walk_has_passed_are_not_looked_at_again() {
        let mix = hash::WordMix::new(7);
        for resize in
            [Resize::Grow, Resize::Shrink, Resize::Rebuild, Resize::Overtake, Resize::Again]
        {
            let wanted = tables(4, resize);
            let live_tables = LiveTables::new(&wanted);
            let view = live_tables.load();
            for at in 0..wanted.total() {
                live_tables.pass(&wanted, at);
                let behind: Vec<_> = (0..at).map_while(|at| wanted.source(at)).collect();
                for h in (0..200).map(|i| mix.mix(i)) {
                    let places = live_tables.places(view, h, mix.mix(h));
                    assert_eq!(places.target(), live_tables.pair(view, view.target(h), mix.mix(h)));
                    let sources = view.sources(h).into_iter().flatten();
                    let left =
                        sources.map(|table| (table, live_tables.pair(view, table, mix.mix(h))));
                    let left = left.filter(|(table, pair)| {
                        !pair.iter().all(|number| behind.contains(&(*table, *number)))
                    });
                    let left: Vec<_> = left.flat_map(|(_, pair)| pair).collect();
                    assert_eq!(places.all()[2..], left);
                    // In whatever order, each of them is looked into.
                    let mut order = places.in_order().concat();
                    order.sort_unstable();
                    let mut all = places.all().to_vec();
                    all.sort_unstable();
                    assert_eq!(order, all);
                }
            }
            live_tables.publish(&wanted);
            let looks = |h: u64| live_tables.places(live_tables.load(), h, mix.mix(h)).all().len();
            assert!((0..200).all(|i| looks(mix.mix(i)) >= 4 || !resize.is_rebuild()));
        }
    }

    #[test]
    fn the_walk_over_sources_meets_each_of_their_buckets_once() {
        for (resize, from) in [
            (Resize::Grow, 0..4),
            (Resize::Shrink, 4..5),
            (Resize::Overtake, 0..5),
            (Resize::Again, 0..5),
        ] {
            let wanted = tables(5, resize);
            let met: Vec<_> = (0..).map_while(|at| wanted.source(at)).collect();
            assert_eq!(met.len() as u64, wanted.total());
            let all = wanted.all().filter(|(i, _)| from.contains(i) || *i == OVERTAKEN);
            let all = all.flat_map(|(i, t)| (0..t.buckets()).map(move |b| (i, t.first + b)));
            assert_eq!(met, all.collect::<Vec<_>>());
        }
    }

    #[test]
    fn both_buckets_are_in_the_region_that_the_first_bits_name() {
        let mix = hash::WordMix::new(5);
        for shift in [2, 8, 9, 10, 14] {
            let table = Table { first: 1 << 20, shift };
            for r in (0..1000).map(|i| mix.mix(i)) {
                let (first, buckets) = table.region(r);
                let pair = table.pair(r);
                assert!(pair[0] != pair[1]);
                assert!(pair.iter().all(|b| (first..first + buckets).contains(b)));
                assert!(table.has(first) && table.has(first + buckets - 1));
                let nth = (first - table.first) / buckets;
                assert_eq!(nth, hash::prefix(r, shift.saturating_sub(9)));
            }
            assert!(!table.has((1 << 20) - 1) && !table.has((1 << 20) + table.buckets()));
        }
    }
}
