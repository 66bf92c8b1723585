//! A client's cache: the directory, and the contents of segments under their whole word A.
//!
//! The cache may be stale. The directory is a hint, from which suffix, depth and buddies lead to the segment.
//! A cached segment is valid only while its word A is the same bit by bit. A generation
//! repeats after 65,536 merges at the earliest, so segments that were not confirmed for
//! [`FORGET_EPOCHS`] epochs are dropped.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use crate::planted::{Fault, planted};

use super::fptable::FpTable;
use super::layout::{Entry, Item, Ref, Suffix, WordA, fp, fp2, suffix};
use super::options::{Options, Technique};
use super::spread::Spread;
use super::walk::Position;

/// Two epochs admit 32 generations at most, so 500 admit 8,000.
pub(super) const FORGET_EPOCHS: u64 = 500;
/// Entries read behind the cached ones, when few were appended lately.
const WINDOW: u32 = 8;

/// The directory as this client knows it.
#[derive(Debug)]
pub(super) struct Directory {
    depth: u32,
    cells: Vec<Ref>,
}

impl Directory {
    /// Creates it from the cells of depth `depth`. A cell that was not written yet is replaced by the one without
    /// its top bit; `None` if the first one is missing.
    pub(super) fn new(depth: u32, mut cells: Vec<Ref>) -> Option<Self> {
        if cells.first()?.is_none() {
            return None;
        }
        for idx in 1..cells.len() {
            if cells[idx].is_none() {
                cells[idx] = cells[idx & !(1 << idx.ilog2())];
            }
        }
        Some(Directory { depth, cells })
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    pub(super) fn find(&self, hash: u64) -> Ref {
        self.cells[suffix(hash, self.depth) as usize]
    }

    /// Positions of segments from `at` on, as far as the directory tells them: where its cells name another one.
    pub(super) fn positions(&self, at: Position, most: usize) -> Vec<Position> {
        let mut all = vec![at];
        let mut last = at;
        while all.len() < most
            && let Some(next) = last.behind(self.depth)
        {
            if self.find(next.hash()) != self.find(last.hash()) {
                all.push(next);
            }
            last = next;
        }
        all
    }

    /// The segment `cur` has the hashes that end in the low `depth` bits of `bits`.
    pub(super) fn learn(&mut self, cur: Ref, bits: u64, depth: u32) {
        while self.depth < depth {
            self.cells.extend_from_within(..);
            self.depth += 1;
        }
        let from = suffix(bits, depth) as usize;
        if self.cells[from] != cur {
            self.cells[from..].iter_mut().step_by(1 << depth).for_each(|cell| *cell = cur);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        8 * self.cells.len()
    }
}

/// An entry that was seen, and its fp2 if that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedEntry {
    pub(super) entry: Entry,
    pub(super) fp2: Option<u8>,
}

/// A MainSegment as this client has written it.
#[derive(Clone, Debug)]
pub(super) struct Main {
    pub(super) items: Rc<Vec<Item>>,
    /// As in its header.
    pub(super) mark: u64,
}

impl Main {
    /// Entries that it counts for among those that are kept.
    fn counted(&self) -> usize {
        self.items.len().max(1)
    }

    /// Its entries that may be of a key with this hash.
    fn matching(&self, hash: u64) -> Vec<Entry> {
        let (fp, fp2) = (fp(hash), fp2(hash));
        let from = self.items.partition_point(|item| item.entry.fp() < fp);
        let same = self.items[from..].iter().take_while(|item| item.entry.fp() == fp);
        same.filter(|item| item.fp2 == fp2).map(|item| item.entry).collect()
    }
}

/// The contents of a segment under one word A.
#[derive(Debug)]
struct View {
    a: WordA,
    /// Its entries from the first one on. The offset to append at is their number, or more.
    seen: Vec<CachedEntry>,
    /// Entries behind those that this client has appended: answers may come out of order.
    ahead: BTreeMap<u32, CachedEntry>,
    /// The first entry that no append of this client is under way to.
    next: u32,
    /// The first one that none wants that is under way, if each gets the one after that of the append before.
    wanted: u32,
    table: Option<Rc<FpTable>>,
    /// The MainSegment, if it is kept, and its number in the order of keeping.
    main: Option<(u64, Rc<Main>)>,
    /// Entries that were appended between the last two looks.
    grown: u32,
    confirmed: u64,
    /// This client has merged it, and so knows that no entry was live then.
    began_empty: bool,
    /// The words of all entries then, unless an append of this client has met others.
    olds: Vec<u64>,
    /// An operation of this client merges it.
    merging: bool,
}

impl View {
    fn new(a: WordA, epoch: u64) -> Self {
        View {
            a,
            seen: Vec::new(),
            ahead: BTreeMap::new(),
            next: 0,
            wanted: 0,
            table: None,
            main: None,
            grown: 0,
            confirmed: epoch,
            began_empty: false,
            olds: Vec::new(),
            merging: false,
        }
    }

    /// Its entries that may be of a key with this fp and fp2, newest first.
    fn matching(&self, fp: u8, fp2: u8) -> Vec<Entry> {
        let may_be = |seen: &&CachedEntry| {
            seen.entry.fp() == fp && seen.fp2.is_none_or(|known| known == fp2)
        };
        self.seen.iter().rev().filter(may_be).map(|seen| seen.entry).collect()
    }

    /// Moves entries from `ahead` as far as none is missing before them.
    fn catch_up(&mut self) {
        while let Some(first) = self.ahead.first_entry()
            && *first.key() as usize <= self.seen.len()
        {
            let (idx, entry) = first.remove_entry();
            match self.seen.get_mut(idx as usize) {
                Some(seen) => *seen = entry,
                None => self.seen.push(entry),
            }
        }
    }
}

/// A segment. It never moves, so its suffix and its buddies stay.
#[derive(Debug)]
struct Segment {
    suffix: Suffix,
    buddies: Vec<Ref>,
    view: View,
}

impl Segment {
    /// See [`would_guess`](Cache::would_guess).
    fn guess(&self, hash: u64, epoch: u64) -> Option<(WordA, u32, u64)> {
        let Segment { suffix: place, view, .. } = self;
        let idx = view.next.max(view.seen.len() as u32);
        let old = *view.olds.get(idx as usize)?;
        let is_fresh = epoch <= view.confirmed + 1 || planted(Fault::GuessStale);
        let is_of = suffix(hash, view.a.depth()) == place.bits;
        (is_fresh && is_of).then_some((view.a, idx, old))
    }
}

/// The cached state that a batch relies on, copied when it is posted: coroutines share the cache.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) a: WordA,
    pub(super) suffix: Suffix,
    /// Cached entries.
    pub(super) offset: u32,
    /// Entries to read from there on.
    pub(super) window: u32,
    pub(super) table: Option<Rc<FpTable>>,
    /// Cached entries that may be of the key, newest first.
    pub(super) before: Vec<Entry>,
    /// Those of the MainSegment, if it is kept.
    pub(super) kept: Option<Vec<Entry>>,
}

/// The contents of a segment.
type Whole = (Suffix, Vec<(Entry, Option<u8>)>, Rc<Main>);

#[derive(Debug)]
pub(super) struct Cache {
    pub(super) directory: Directory,
    segments: HashMap<Ref, Segment, Spread>,
    without: Option<Technique>,
    /// Segments whose MainSegments are kept, the one that was written last at the end.
    kept: BTreeMap<u64, Ref>,
    /// How many entries these have, an empty one counted as one, and may have.
    kept_entries: usize,
    kept_max: usize,
}

impl Cache {
    pub(super) fn new(directory: Directory, options: &Options) -> Self {
        let without = options.without;
        let kept_max = if without.is_none() { options.kept_entries as usize } else { 0 };
        let (segments, kept) = (HashMap::default(), BTreeMap::new());
        Cache { directory, segments, without, kept, kept_entries: 0, kept_max }
    }

    /// The cached state of `cur`, unless it was not confirmed for long, with entries of the key that has this hash.
    pub(super) fn snapshot(
        &self,
        cur: Ref,
        entries: u32,
        key: Option<u64>,
        epoch: u64,
    ) -> Option<Snapshot> {
        let Segment { suffix, view, .. } = self.segments.get(&cur)?;
        let old = epoch.saturating_sub(view.confirmed) >= FORGET_EPOCHS;
        if old || self.without == Some(Technique::Segments) {
            return None;
        }
        let offset = view.seen.len() as u32;
        let is_known = offset > 0 || view.began_empty;
        let window = if is_known { WINDOW.max(2 * view.grown) } else { entries };
        Some(Snapshot {
            a: view.a,
            suffix: *suffix,
            offset,
            window: window.min(entries - offset),
            table: view.table.clone(),
            before: key.map_or(Vec::new(), |hash| view.matching(fp(hash), fp2(hash))),
            kept: key.zip(view.main.as_ref()).map(|(hash, (_, main))| main.matching(hash)),
        })
    }

    /// Adds or replaces a segment.
    pub(super) fn meet(
        &mut self,
        cur: Ref,
        a: WordA,
        suffix: Suffix,
        buddies: Vec<Ref>,
        epoch: u64,
    ) {
        self.unkeep(cur);
        self.segments.insert(cur, Segment { suffix, buddies, view: View::new(a, epoch) });
    }

    /// Whether the cached contents of a segment are those under word A `a`.
    pub(super) fn is_of(&self, cur: Ref, a: WordA) -> bool {
        self.segments.get(&cur).is_some_and(|segment| segment.view.a.is(a))
    }

    /// Drops the contents of a segment whose word A has changed.
    pub(super) fn turn(&mut self, cur: Ref, a: WordA, epoch: u64) {
        self.unkeep(cur);
        if let Some(segment) = self.segments.get_mut(&cur) {
            segment.view = View::new(a, epoch);
        }
    }

    /// Word A was `a`, and `entries` are the live ones from `offset` on.
    pub(super) fn saw(&mut self, cur: Ref, a: WordA, offset: u32, entries: &[Entry], epoch: u64) {
        let Some(view) = self.view(cur, a) else { return };
        view.confirmed = view.confirmed.max(epoch);
        let known = view.seen.len();
        if let Some(new) = known.checked_sub(offset as usize).and_then(|skip| entries.get(skip..)) {
            view.grown = new.len() as u32;
            view.seen.extend(new.iter().map(|&entry| CachedEntry { entry, fp2: None }));
            view.catch_up();
        }
    }

    /// This client appended `entry` at `idx`, and so word A was `a`.
    pub(super) fn appended(
        &mut self,
        cur: Ref,
        a: WordA,
        idx: u32,
        entry: Entry,
        fp2: u8,
        epoch: u64,
    ) {
        let Some(view) = self.view(cur, a) else { return };
        view.confirmed = view.confirmed.max(epoch);
        view.ahead.insert(idx, CachedEntry { entry, fp2: Some(fp2) });
        view.catch_up();
    }

    /// Another append looks at a cached segment: how many entries it must see behind the cached ones.
    pub(super) fn want(&mut self, cur: Ref) -> u32 {
        let Some(Segment { view, .. }) = self.segments.get_mut(&cur) else { return 0 };
        let offset = view.seen.len() as u32;
        view.wanted = view.wanted.max(view.next).max(offset) + 1;
        view.wanted - offset
    }

    /// This client has merged `cur` to word A `a`: no entry was live then, and these were their words.
    pub(super) fn emptied(&mut self, cur: Ref, a: WordA, olds: Vec<u64>) {
        if let Some(view) = self.view(cur, a) {
            (view.began_empty, view.olds) = (true, olds);
        }
    }

    /// The entry to which the next append of this client goes, and its word, if the segment is as this client has emptied
    /// it but for its own appends, and has the hash. Word A was confirmed an epoch before at most: until it has changed
    /// 96 times, no word of an entry comes again. A caller that takes the entry [reserves](Self::reserve) it.
    pub(super) fn would_guess(&self, cur: Ref, hash: u64, epoch: u64) -> Option<(WordA, u32, u64)> {
        self.segments.get(&cur)?.guess(hash, epoch).filter(|_| self.without.is_none())
    }

    /// The same, and reserves it.
    pub(super) fn guess(&mut self, cur: Ref, hash: u64, epoch: u64) -> Option<(WordA, u32, u64)> {
        let segment = self.segments.get_mut(&cur)?;
        let (a, idx, old) = segment.guess(hash, epoch).filter(|_| self.without.is_none())?;
        segment.view.next = idx + 1;
        Some((a, idx, old))
    }

    /// A guess was wrong.
    pub(super) fn guess_no_more(&mut self, cur: Ref, a: WordA) {
        if let Some(view) = self.view(cur, a) {
            view.olds = Vec::new();
        }
    }

    /// Notes whether an operation of this client merges a segment; from the next word A on none does.
    pub(super) fn set_merging(&mut self, cur: Ref, a: WordA, merging: bool) {
        if let Some(view) = self.view(cur, a) {
            view.merging = merging;
        }
    }

    pub(super) fn is_merging(&self, cur: Ref, a: WordA) -> bool {
        let segment = self.segments.get(&cur);
        segment.is_some_and(|segment| segment.view.a == a && segment.view.merging)
    }

    /// Whether an operation of this client merges a segment, as far as it is known.
    pub(super) fn merges(&self, cur: Ref) -> bool {
        self.segments.get(&cur).is_some_and(|segment| segment.view.merging)
    }

    /// The entry from `first` on to which this client's next append goes, if that is before `end`.
    pub(super) fn reserve(&mut self, cur: Ref, a: WordA, first: u32, end: u32) -> Option<u32> {
        let mut view = self.view(cur, a);
        let idx = view.as_ref().map_or(first, |view| first.max(view.next));
        (idx < end).then(|| {
            if let Some(view) = &mut view {
                view.next = idx + 1;
            }
            idx
        })
    }

    /// Sets the fp2 of a cached entry.
    pub(super) fn learn_fp2(&mut self, cur: Ref, a: WordA, entry: Entry, fp2: u8) {
        let Some(view) = self.view(cur, a) else { return };
        if let Some(seen) = view.seen.iter_mut().rev().find(|seen| seen.entry == entry) {
            seen.fp2 = Some(fp2);
        }
    }

    pub(super) fn set_table(&mut self, cur: Ref, a: WordA, table: Rc<FpTable>) {
        if self.without == Some(Technique::Tables) {
            return;
        }
        if let Some(view) = self.view(cur, a) {
            view.table = Some(table);
        }
    }

    /// Entries that are kept, an empty MainSegment counted as one.
    pub(super) fn kept_len(&self) -> usize {
        self.kept_entries
    }

    /// Keeps the MainSegment that this client has written, as far as there is room.
    pub(super) fn keep(&mut self, cur: Ref, a: WordA, main: Main) {
        self.unkeep(cur);
        let number = self.kept.last_key_value().map_or(0, |(last, _)| last + 1);
        let entries = main.counted();
        let Some(view) = self.view(cur, a) else { return };
        view.main = Some((number, Rc::new(main)));
        self.kept.insert(number, cur);
        self.kept_entries += entries;
        while self.kept_entries > self.kept_max
            && let Some((_, &oldest)) = self.kept.first_key_value()
        {
            self.unkeep(oldest);
        }
    }

    /// Takes a MainSegment that was kept.
    fn unkeep(&mut self, cur: Ref) -> Option<Rc<Main>> {
        let (number, main) = self.segments.get_mut(&cur)?.view.main.take()?;
        self.kept.remove(&number);
        self.kept_entries -= main.counted();
        Some(main)
    }

    /// The suffix, the entries, and the MainSegment, of a full segment that this client knows whole. Then that is not kept.
    pub(super) fn take_whole(&mut self, cur: Ref, a: WordA, entries: u32) -> Option<Whole> {
        let Segment { suffix, view, .. } = self.segments.get(&cur)?;
        if !view.a.is(a) || view.seen.len() != entries as usize {
            return None;
        }
        let seen = view.seen.iter().map(|seen| (seen.entry, seen.fp2)).collect();
        Some((*suffix, seen, self.unkeep(cur)?))
    }

    fn view(&mut self, cur: Ref, a: WordA) -> Option<&mut View> {
        self.segments.get_mut(&cur).map(|segment| &mut segment.view).filter(|view| view.a.is(a))
    }

    pub(super) fn buddy(&self, cur: Ref, level: u32) -> Ref {
        let segment = self.segments.get(&cur);
        segment.map_or(Ref::NONE, |segment| segment.buddies[level as usize])
    }

    /// Adds buddies of `cur` from `level` on, which never change.
    pub(super) fn learn_buddies(
        &mut self,
        cur: Ref,
        level: u32,
        buddies: impl Iterator<Item = Ref>,
    ) {
        let Some(segment) = self.segments.get_mut(&cur) else { return };
        let known = segment.buddies[level as usize..].iter_mut();
        for (known, buddy) in known.zip(buddies).filter(|(_, buddy)| !buddy.is_none()) {
            *known = buddy;
        }
    }

    /// Cached segments, bytes of their FPTables, and bytes of the same as plain tables.
    pub(super) fn sizes(&self) -> (usize, usize, usize) {
        let tables = self.segments.values().filter_map(|segment| segment.view.table.as_ref());
        let (bytes, count) = tables.fold((0, 0), |(sum, n), table| (sum + table.bytes(), n + 1));
        (self.segments.len(), bytes, count * 1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_tells_where_segments_begin() {
        let [a, b, c] = [1, 2, 3].map(Ref::from_word);
        // The cells of 00, 01, 10 and 11: `a` has all hashes that end in 0.
        let directory = Directory::new(2, vec![a, b, a, c]).unwrap();
        let [first, second, third] = [0b00, 0b01, 0b11].map(Position::of);
        assert_eq!(directory.positions(Position::START, 9), [first, second, third]);
        assert_eq!(directory.positions(Position::START, 2), [first, second]);
        assert_eq!(directory.positions(third, 9), [third]);
        // A segment that begins inside of a cell, as the directory is old.
        let inside = Position::of(0b101);
        assert_eq!(directory.positions(inside, 9), [inside, third]);
        let small = Directory::new(0, vec![a]).unwrap();
        assert_eq!(small.positions(Position::START, 9), [first]);
    }

    fn cache(kept_entries: u32, segments: u64) -> Cache {
        let options = Options { kept_entries, ..Options::default() };
        let cells = vec![Ref::from_word(1)];
        let mut cache = Cache::new(Directory::new(0, cells).unwrap(), &options);
        for cur in 0..segments {
            let suffix = Suffix { bits: 0, made: 0 };
            cache.meet(Ref::from_word(cur), WordA(1), suffix, Vec::new(), 0);
        }
        cache
    }

    #[test]
    fn empty_mains_are_kept_as_few_as_others() {
        let mut cache = cache(2, 3);
        let kept = |cache: &Cache| {
            [0, 1, 2].map(|cur| {
                cache.snapshot(Ref::from_word(cur), 1, Some(0), 0).unwrap().kept.is_some()
            })
        };
        for cur in [0, 1, 0, 2] {
            cache.keep(Ref::from_word(cur), WordA(1), Main { items: Rc::default(), mark: 0 });
        }
        assert_eq!((kept(&cache), cache.kept_len()), ([true, false, true], 2));
        cache.turn(Ref::from_word(0), WordA(2), 0);
        assert_eq!((kept(&cache), cache.kept_len()), ([false, false, true], 1));
    }

    #[test]
    fn appends_that_are_answered_out_of_order_are_known() {
        let mut cache = cache(0, 1);
        let cur = Ref::from_word(0);
        for (idx, known) in [(2, 0), (3, 0), (0, 1), (1, 4)] {
            cache.appended(cur, WordA(1), idx, Entry(idx.into()), 0, 0);
            assert_eq!(cache.snapshot(cur, 9, None, 0).unwrap().offset, known);
        }
    }
}
