//! An operation reads the entries of its key batch by batch, until it has a snapshot of the segment
//! at some time while it ran.
//!
//! | Batch | What is read |
//! |---|---|
//! | 1 | word A; buddies from the known depth on; entries from the known ones on; the MainSegment's entries with the fp, by the known FPTable, or its header; or, where the client has kept the MainSegment, the KV blocks of the entries that it knows |
//! | | word A is another, or an entry is neither live nor free in its generation: the cached state is dropped, batch 1 again |
//! | | the suffix is another: batch 1 of the buddy |
//! | | no free entry in the window, and it is not the end: the next window |
//! | 2 | the MainSegment's entries with the fp, if their place was unknown (before it, the rest of a header with wide counts) |
//!
//! A segment that is not cached is read whole, with buddies and entries, in place of batch 1.

use std::ops::Range;
use std::rc::Rc;

use durahash_media::{Error, Result};

use crate::fabric::{Batch, Done, Fabric};
use crate::planted::{Fault, planted};

use super::Core;
use super::cache::Snapshot;
use super::epoch::Op;
use super::fptable::FpTable;
use super::layout::{
    Entry, ITEM_BYTES, Item, Kv, MAIN_FIRST_READ, MainHeader, Ref, State, Suffix, WordA, fp, fp2,
    items, main_header_bytes, suffix, word_at, words,
};
use super::verbs::Post;

/// KV blocks of the CurSegment read in one batch.
pub(super) const AT_ONCE: usize = 8;
/// Buddies read with word A: so many splits since the last look take no further batch.
const BUDDIES: u32 = 4;
/// Entries of a MainSegment that a look which goes with others reads at most.
const TOGETHER_ITEMS: usize = 1024;
/// Looks after which a segment whose word A keeps changing counts as damaged.
const LAPS: u32 = 100_000;

/// Looks at an unchanged segment that is no snapshot, after which it counts as damaged.
const STUCK: u32 = 100;

/// How often a segment was no snapshot, with the same word A.
#[derive(Default)]
pub(super) struct Stuck(Option<(Ref, u64)>, u32);

impl Stuck {
    /// Counts a look that was in vain.
    pub(super) fn at(&mut self, cur: Ref, a: WordA) -> Result<()> {
        if self.0.replace((cur, a.0)) != Some((cur, a.0)) {
            self.1 = 0;
        }
        self.1 += 1;
        if self.1 < STUCK {
            return Ok(());
        }
        Err(Error::corrupt("an entry of another generation", cur.addr().off()))
    }
}

/// A snapshot of a segment.
#[derive(Debug)]
pub(super) struct Sight {
    pub(super) cur: Ref,
    pub(super) a: WordA,
    /// Entries of the CurSegment that may be the key's, newest first.
    pub(super) newer: Vec<Entry>,
    /// Index of the first free entry, and the words of it and some that follow. None if it is full.
    pub(super) free: Option<(u32, Vec<u64>)>,
    /// Entries of the MainSegment that may be the key's, for [`Scope::Key`].
    pub(super) settled: Vec<Entry>,
    /// The blocks of those that were known before.
    pub(super) early: Option<Early>,
}

impl Sight {
    /// Of a segment of which nothing but word A is known.
    pub(super) fn of(cur: Ref, a: WordA) -> Self {
        Sight { cur, a, newer: Vec::new(), free: None, settled: Vec::new(), early: None }
    }

    /// Whether the blocks that are read first were.
    pub(super) fn has_blocks(&self) -> bool {
        let read = self.early.as_ref().map_or(&[][..], |early| &early.entries);
        read.iter().eq(self.newer.iter().take(AT_ONCE).chain(&self.settled))
    }

    /// Whether all blocks were read whole.
    pub(super) fn is_read(&self) -> bool {
        let is_whole = |early: &Early| {
            (early.from..).zip(&early.entries).all(|(i, entry)| {
                let kv = Kv::parse(early.done.bytes(i), entry.kv().addr().off());
                kv.is_ok_and(|kv| kv.is_whole())
            })
        };
        self.newer.len() <= AT_ONCE && self.has_blocks() && self.early.iter().all(is_whole)
    }
}

/// KV blocks that were read together with word A.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) entries: Vec<Entry>,
    pub(super) done: Rc<Done>,
    /// The place of the first block among the verbs.
    pub(super) from: usize,
}

/// The entries to read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// The first free entry.
    Append,
    /// That, and all entries that may be the key's.
    Key,
}

/// A block to be written with the first batch.
pub(super) type Block = Option<(Ref, Vec<u8>)>;

impl<F: Fabric> Core<F> {
    /// Looks at the segment of `hash`, writing `block` meanwhile.
    pub(super) async fn look(
        &self,
        op: &Op<'_, F>,
        hash: u64,
        scope: Scope,
        block: &mut Block,
    ) -> Result<Sight> {
        let mut cur = self.cache.borrow().directory.find(hash);
        let mut stuck = Stuck::default();
        for _ in 0..LAPS {
            let known = self.known(op, cur, hash, scope);
            let (a, place, window, offset, main, early) = match &known {
                None => {
                    let (a, suffix, window) = self.meet(op, cur, block).await?;
                    (a, suffix, window, 0, None, None)
                }
                Some(known) => {
                    let mut known_a = known.a;
                    let mut batch = Batch::with_capacity(8);
                    write_block(&mut batch, block);
                    let asked = self.ask(&mut batch, cur, known, hash, scope);
                    let done = Rc::new(op.send(batch).await?);
                    let seen = self.seen(cur, known, asked, &done);
                    if planted(Fault::ComparedLate) {
                        let now = self.cache.borrow();
                        let now = now.snapshot(cur, self.geometry.cur, None, op.tag);
                        known_a = now.map_or(known_a, |now| now.a);
                    }
                    if !seen.a.is(known_a) {
                        self.has_turned(op, cur, seen.a)?;
                        if planted(Fault::ComparedLate) {
                            continue;
                        }
                    }
                    (seen.a, known.suffix, seen.window, known.offset, seen.main, seen.early)
                }
            };
            let buddy = || self.cache.borrow().buddy(cur, (hash ^ place.bits).trailing_zeros());
            if suffix(hash, a.depth()) != place.bits
                && !(planted(Fault::ZeroBuddy) && buddy().is_none())
            {
                cur = self.follow(op, cur, place, a, hash).await?;
                continue;
            }
            let is_deeper = a.depth() > self.cache.borrow().directory.depth();
            if is_deeper && !planted(Fault::ZeroBuddy) {
                self.has_split(op, cur, place, a).await?;
            }
            self.cache.borrow_mut().directory.learn(cur, place.bits, a.depth());
            let is_believed = planted(Fault::OffsetKept) || planted(Fault::ComparedLate);
            if known.as_ref().is_some_and(|known| !known.a.is(a)) && !is_believed {
                continue;
            }
            let Some((live, free)) = self.entries(op, cur, a, offset, window).await? else {
                stuck.at(cur, a)?;
                self.cache.borrow_mut().turn(cur, a, op.tag);
                continue;
            };
            self.cache.borrow_mut().saw(cur, a, offset, &live, op.tag);
            let mut sight = Sight { free, early, ..Sight::of(cur, a) };
            if scope == Scope::Key {
                let (before, kept, table) = match known {
                    Some(known) => (known.before, known.kept, known.table),
                    None => (Vec::new(), None, None),
                };
                sight.newer = newer(&live, hash, before);
                sight.settled = match kept {
                    Some(kept) => kept,
                    None => self.settled(op, cur, a, hash, table, main).await?,
                };
            }
            return Ok(sight);
        }
        Err(Error::corrupt("a segment whose word A changes at every look", cur.addr().off()))
    }

    /// Looks at the segments of several hashes by one batch, with the verbs of looks that run at once. `None` for those
    /// of whose segment too little is cached, or that is not as it was cached, or of which more must be read.
    pub(super) async fn look_together(
        &self,
        op: &Op<'_, F>,
        hashes: &[u64],
    ) -> Result<Vec<Option<Sight>>> {
        let mut batch = Batch::with_capacity(8 * hashes.len());
        let ask = |&hash| {
            let cur = self.cache.borrow().directory.find(hash);
            let known = self.known(op, cur, hash, Scope::Key)?;
            // Else only a header would come, or more than is to go with others.
            let range = known.table.as_ref().map(|table| table.range(fp(hash)));
            if known.kept.is_none() && range.is_none_or(|range| range.len() > TOGETHER_ITEMS) {
                return None;
            }
            let asked = self.ask(&mut batch, cur, &known, hash, Scope::Key);
            Some((cur, hash, known, asked))
        };
        let all: Vec<_> = hashes.iter().map(ask).collect();
        if all.iter().all(Option::is_none) {
            return Ok(hashes.iter().map(|_| None).collect());
        }
        let done = Rc::new(op.send(batch).await?);
        let sight = |(cur, hash, known, asked)| self.as_known(op, cur, hash, known, asked, &done);
        Ok(all.into_iter().map(|asked| asked.and_then(sight)).collect())
    }

    /// The snapshot of a segment that is as it was known, if all that belongs to it was read.
    fn as_known(
        &self,
        op: &Op<'_, F>,
        cur: Ref,
        hash: u64,
        known: Snapshot,
        asked: Asked,
        done: &Rc<Done>,
    ) -> Option<Sight> {
        let seen = self.seen(cur, &known, asked, done);
        let (a, place) = (seen.a, known.suffix);
        if !a.is(known.a) && !planted(Fault::TogetherUnseen) {
            self.has_turned(op, cur, a).ok()?;
            return None;
        }
        let is_deeper = a.depth() > self.cache.borrow().directory.depth();
        if suffix(hash, a.depth()) != place.bits || is_deeper {
            return None;
        }
        let mut live = Vec::new();
        let window = self.first_free(a, known.offset, &seen.window, &mut live);
        if let Window::Other = window {
            return None;
        }
        let mut cache = self.cache.borrow_mut();
        cache.directory.learn(cur, place.bits, a.depth());
        cache.saw(cur, a, known.offset, &live, op.tag);
        let free = match window {
            Window::Free(idx, words) => Some((idx, words)),
            Window::End => None,
            Window::Other | Window::More => return None,
        };
        let settled = match (known.kept, known.table, seen.main) {
            (Some(kept), ..) => kept,
            (None, Some(table), Some((range, bytes))) => {
                whole(&bytes, &range, table.len(), hash).ok()?
            }
            _ => return None,
        };
        let newer = newer(&live, hash, known.before);
        Some(Sight { newer, free, settled, early: seen.early, ..Sight::of(cur, a) })
    }

    /// What is known of a segment before a batch is posted. Read together: coroutines share the cache.
    fn known(&self, op: &Op<'_, F>, cur: Ref, hash: u64, scope: Scope) -> Option<Snapshot> {
        let mut cache = self.cache.borrow_mut();
        let key = (scope == Scope::Key).then_some(hash);
        let mut known = cache.snapshot(cur, self.geometry.cur, key, op.tag)?;
        if key.is_none() && self.appends_together() {
            let rest = self.geometry.cur - known.offset;
            known.window = known.window.max(cache.want(cur)).min(rest);
        }
        Some(known)
    }

    /// Notes that a segment has another word A than was cached.
    fn has_turned(&self, op: &Op<'_, F>, cur: Ref, a: WordA) -> Result<()> {
        self.sound(cur, a)?;
        let mut cache = self.cache.borrow_mut();
        // Another operation of this client may have seen the same, or made it.
        if !cache.is_of(cur, a) {
            self.stats.borrow_mut().turns += 1;
            cache.turn(cur, a, op.tag);
        }
        Ok(())
    }

    /// Checks a word A that was read.
    fn sound(&self, cur: Ref, a: WordA) -> Result<()> {
        if a.depth() > self.geometry.max_depth || a.main().is_none() {
            return Err(Error::corrupt("word A of a CurSegment", cur.addr().off()));
        }
        Ok(())
    }

    /// Reads a segment that is not cached.
    async fn meet(
        &self,
        op: &Op<'_, F>,
        cur: Ref,
        block: &mut Block,
    ) -> Result<(WordA, Suffix, Vec<u64>)> {
        let mut batch = Batch::new();
        let read = batch.read(cur.addr(), self.geometry.hint_off(0) as usize);
        write_block(&mut batch, block);
        let done = op.send(batch).await?;
        let bytes = done.bytes(read);
        let (a, suffix) = (WordA(word_at(bytes, 0)), Suffix::from_word(word_at(bytes, 8)));
        let entries_off = self.geometry.entries_off() as usize;
        let buddies_end = self.geometry.buddy_off(self.geometry.max_depth) as usize;
        let buddies = words(&bytes[16..buddies_end]).map(Ref::from_word).collect();
        self.sound(cur, a)?;
        if suffix.made > a.depth() || suffix.bits >> suffix.made != 0 {
            return Err(Error::corrupt("the suffix of a CurSegment", cur.addr().off() + 8));
        }
        self.cache.borrow_mut().meet(cur, a, suffix, buddies, op.tag);
        Ok((a, suffix, words(&bytes[entries_off..]).collect()))
    }

    /// Adds batch 1 at a cached segment. Where the entries of the MainSegment that may be the key's are known, it reads
    /// the KV blocks of these, and of the cached ones.
    fn ask(&self, batch: &mut Batch, cur: Ref, known: &Snapshot, hash: u64, scope: Scope) -> Asked {
        let (at, depth) = (cur.addr(), known.a.depth());
        let a = batch.read(at, 8);
        let levels = BUDDIES.min(self.geometry.max_depth - depth);
        let buddies = (levels > 0)
            .then(|| batch.read(at.add(self.geometry.buddy_off(depth)), 8 * levels as usize));
        let window = (known.window > 0).then(|| {
            let off = self.geometry.entry_off(known.offset);
            batch.read(at.add(off), 8 * known.window as usize)
        });
        let reads_main = scope == Scope::Key && known.kept.is_none();
        let main = reads_main.then(|| match &known.table {
            None => (0..0, batch.read(known.a.main().addr(), MAIN_FIRST_READ)),
            Some(table) => {
                let range = table.range(fp(hash));
                let read = read_items(batch, known.a.main(), table.len(), range.clone());
                (range, read)
            }
        });
        let early = known.kept.as_ref().map(|kept| {
            let (entries, from) = (first_read(&known.before, kept), batch.len());
            for entry in &entries {
                self.read_block(batch, entry.kv(), entry.len().first_read());
            }
            (entries, from)
        });
        Asked { a, buddies, window, main, early }
    }

    /// What batch 1 has brought back.
    fn seen(&self, cur: Ref, known: &Snapshot, asked: Asked, done: &Rc<Done>) -> Seen {
        if let Some(buddies) = asked.buddies {
            let buddies = words(done.bytes(buddies)).map(Ref::from_word);
            self.cache.borrow_mut().learn_buddies(cur, known.a.depth(), buddies);
        }
        Seen {
            a: WordA(done.word(asked.a)),
            window: asked.window.map_or(Vec::new(), |i| words(done.bytes(i)).collect()),
            main: asked.main.map(|(range, i)| (range, done.bytes(i).to_vec())),
            early: asked.early.map(|(entries, from)| Early {
                entries,
                done: Rc::clone(done),
                from,
            }),
        }
    }

    /// Checks that a segment has split as often as its depth says, before the cached directory grows by that.
    async fn has_split(&self, op: &Op<'_, F>, cur: Ref, place: Suffix, a: WordA) -> Result<()> {
        let level = a.depth() - 1;
        if level < place.made || !self.cache.borrow().buddy(cur, level).is_none() {
            return Ok(());
        }
        // The buddy may have been read before word A was; by now it is published.
        let at = cur.addr().add(self.geometry.buddy_off(level));
        let buddy = Ref::from_word(op.read_word(at).await?);
        if buddy.is_none() {
            return Err(Error::corrupt("word A of a CurSegment", cur.addr().off()));
        }
        self.cache.borrow_mut().learn_buddies(cur, level, std::iter::once(buddy));
        Ok(())
    }

    /// The buddy that has taken over a hash.
    async fn follow(
        &self,
        op: &Op<'_, F>,
        cur: Ref,
        place: Suffix,
        a: WordA,
        hash: u64,
    ) -> Result<Ref> {
        let level = (hash ^ place.bits).trailing_zeros();
        if level < place.made {
            return Err(Error::corrupt("a directory cell, or a buddy", cur.addr().off()));
        }
        debug_assert!(level < a.depth());
        self.stats.borrow_mut().hops += 1;
        for _ in 0..LAPS {
            let buddy = self.cache.borrow().buddy(cur, level);
            if !buddy.is_none() {
                let bits = suffix(hash, level + 1);
                self.cache.borrow_mut().directory.learn(buddy, bits, level + 1);
                return Ok(buddy);
            }
            // The buddy was read before word A; by now it is published.
            let levels = self.geometry.max_depth - level;
            let at = cur.addr().add(self.geometry.buddy_off(level));
            let buddies = op.read_words(at, levels as usize).await?;
            let buddies = buddies.into_iter().map(Ref::from_word);
            self.cache.borrow_mut().learn_buddies(cur, level, buddies);
        }
        Err(Error::corrupt("a segment without its buddy", cur.addr().off()))
    }

    /// The live entries from `offset` on, and the free one after them, given the first ones read;
    /// `None` when they are of another generation.
    #[allow(clippy::type_complexity, reason = "used once")]
    async fn entries(
        &self,
        op: &Op<'_, F>,
        cur: Ref,
        a: WordA,
        offset: u32,
        mut window: Vec<u64>,
    ) -> Result<Option<(Vec<Entry>, Option<(u32, Vec<u64>)>)>> {
        let mut live = Vec::new();
        loop {
            match self.first_free(a, offset, &window, &mut live) {
                Window::Other => return Ok(None),
                Window::Free(idx, words) => return Ok(Some((live, Some((idx, words))))),
                Window::End => return Ok(Some((live, None))),
                Window::More => {}
            }
            let end = offset + live.len() as u32;
            let more = (2 * window.len().max(8)).min((self.geometry.cur - end) as usize);
            let at = cur.addr().add(self.geometry.entry_off(end));
            window = op.read_words(at, more).await?;
        }
    }

    /// Adds the live entries of a window, which is the one behind those from `offset` on that are in `live`.
    fn first_free(&self, a: WordA, offset: u32, window: &[u64], live: &mut Vec<Entry>) -> Window {
        let mut read = window.iter().copied().map(Entry);
        for entry in read.by_ref() {
            match entry.state(a.generation()) {
                State::Live => live.push(entry),
                State::Other if !planted(Fault::OtherIsFree) => return Window::Other,
                State::Free | State::Other => {
                    let rest = read.clone();
                    let rest = rest.take_while(|e| e.state(a.generation()) == State::Free);
                    let words = std::iter::once(entry).chain(rest).map(|e| e.0).collect();
                    let idx = offset + live.len() as u32;
                    if planted(Fault::BehindFree) {
                        live.extend(read.filter(|e| e.state(a.generation()) == State::Live));
                    }
                    return Window::Free(idx, words);
                }
            }
        }
        let is_end = offset + live.len() as u32 == self.geometry.cur;
        if is_end || planted(Fault::WindowIsAll) { Window::End } else { Window::More }
    }

    /// The MainSegment's entries that may be of a key with this hash.
    async fn settled(
        &self,
        op: &Op<'_, F>,
        cur: Ref,
        a: WordA,
        hash: u64,
        table: Option<Rc<FpTable>>,
        read: Option<(Range<u32>, Vec<u8>)>,
    ) -> Result<Vec<Entry>> {
        let main = a.main();
        let (table, mut range, mut bytes) = match (table, read) {
            (Some(table), Some((range, bytes))) => (table, range, bytes),
            (_, read) => {
                let header = match read {
                    Some((_, header)) => header,
                    None => op.read(main.addr(), MAIN_FIRST_READ).await?,
                };
                let header = self.main_header(op, main, &header).await?;
                let table = Rc::new(FpTable::new(&header.counts));
                self.cache.borrow_mut().set_table(cur, a, Rc::clone(&table));
                let range = table.range(fp(hash));
                let bytes = self.read_range(op, main, table.len(), &range).await?;
                (table, range, bytes)
            }
        };
        loop {
            let (from, to) = match whole(&bytes, &range, table.len(), hash) {
                Ok(same) => return Ok(same),
                Err(ends) => ends,
            };
            let more = 8.max(range.end - range.start);
            if !from {
                range.start = range.start.saturating_sub(more);
            }
            if !to {
                range.end = (range.end + more).min(table.len());
            }
            bytes = self.read_range(op, main, table.len(), &range).await?;
        }
    }

    /// The header of a MainSegment. `first` is all of it unless counts are wide.
    pub(super) async fn main_header(
        &self,
        op: &Op<'_, F>,
        main: Ref,
        first: &[u8],
    ) -> Result<MainHeader> {
        let (off, bytes) = (main.addr().off(), MainHeader::bytes(first));
        if bytes <= first.len() {
            return MainHeader::parse(first, off);
        }
        MainHeader::parse(&op.read(main.addr(), bytes).await?, off)
    }

    pub(super) async fn read_range(
        &self,
        op: &Op<'_, F>,
        main: Ref,
        len: u32,
        range: &Range<u32>,
    ) -> Result<Vec<u8>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let batch = Batch::of(|batch| read_items(batch, main, len, range.clone()));
        Ok(op.send(batch).await?.into_bytes())
    }
}

/// The places of what batch 1 reads.
struct Asked {
    a: usize,
    buddies: Option<usize>,
    window: Option<usize>,
    main: Option<(Range<u32>, usize)>,
    /// The entries whose blocks it reads, and the place of the first one.
    early: Option<(Vec<Entry>, usize)>,
}

/// Results of batch 1.
struct Seen {
    a: WordA,
    window: Vec<u64>,
    main: Option<(Range<u32>, Vec<u8>)>,
    early: Option<Early>,
}

/// What is behind the live entries of a window.
enum Window {
    /// The first free entry, and the words of it and of some that follow.
    Free(u32, Vec<u64>),
    /// The end of the CurSegment, or the next window.
    End,
    More,
    /// An entry that is not of the generation.
    Other,
}

/// Entries of the CurSegment that may be the key's, newest first: of those that were read, and those known before.
fn newer(live: &[Entry], hash: u64, before: Vec<Entry>) -> Vec<Entry> {
    let read = live.iter().rev().filter(|entry| entry.fp() == fp(hash)).copied();
    let mut newer: Vec<_> = read.collect();
    // Most often no memory is taken.
    if newer.is_empty() {
        newer = before;
    } else {
        newer.extend(before);
    }
    if planted(Fault::OldestFirst) {
        newer.reverse();
    }
    newer
}

/// The entries that may be a key's of a range of a MainSegment of `len`, or whether its ends show that it is whole: both
/// are at the segment's ends, or at entries of another fp.
fn whole(
    bytes: &[u8],
    range: &Range<u32>,
    len: u32,
    hash: u64,
) -> std::result::Result<Vec<Entry>, (bool, bool)> {
    let fp = fp(hash);
    let list: Vec<Item> = items(bytes).collect();
    let from = range.start == 0 || list.first().is_some_and(|i| i.entry.fp() < fp);
    let to = range.end == len || list.last().is_some_and(|i| i.entry.fp() > fp);
    if !(from && to || planted(Fault::RangeUnchecked)) {
        return Err((from, to));
    }
    let same = list.iter().filter(|i| i.entry.fp() == fp && i.fp2 == fp2(hash));
    Ok(same.map(|item| item.entry).collect())
}

/// The entries whose KV blocks are read first: the newest of the CurSegment, and those of the MainSegment.
pub(super) fn first_read(newer: &[Entry], settled: &[Entry]) -> Vec<Entry> {
    newer.iter().take(AT_ONCE).chain(settled).copied().collect()
}

pub(super) fn write_block(batch: &mut Batch, block: &mut Block) {
    if let Some((at, bytes)) = block.take() {
        batch.write(at.addr(), &bytes);
    }
}

/// Reads some entries of a MainSegment that has `len`.
fn read_items(batch: &mut Batch, main: Ref, len: u32, range: Range<u32>) -> usize {
    let off = main_header_bytes(len as usize) + ITEM_BYTES * range.start as usize;
    batch.read(main.addr().add(off as u64), ITEM_BYTES * range.len())
}
