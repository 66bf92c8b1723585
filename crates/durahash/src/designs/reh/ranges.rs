//! Recovery, range by range: a range reaches from a bucket that the array names to the next one.
//!
//! A range is made as a whole, by the thread that first comes to it, before anybody can be in it. Until then the
//! directory in DRAM has zeros for its hashes.
//!
//! 1. Without a lock, its buckets are walked by their siblings. Each must lie in an extent that was one of units
//!    at the open, have a sound link and begin where the one before ends; the last one's link must name the bucket
//!    where the next range begins.
//! 2. Under the mutex for making, the directory is asked again. If it has the range by now, all is forgotten. Else
//!    no thread has stored to a bucket of the range since the open, nor to the words where it begins and ends: writers
//!    come through the directory, and a merge that clears the word of a range has found the range before it, too. So
//!    the result of the walk is true, also if it is [`Corrupt`](ErrorKind::Corrupt): that is remembered, and operations
//!    that come to the range return it, and no others.
//! 3. Rows are stored and counted, and then the entries of the directory, under its lock, exclusively: a writer that
//!    finds the first entry of a bucket may split it, or merge it, while the others are being stored, but stores
//!    entries only when all of these are.
//!
//! Each bucket of a walk is known by the one before, so a walk waits for every one of them. When not only a few ranges
//! are made, those of eight places are therefore walked together, one bucket of each in turn, and taken over under one
//! lock. Each is looked at for itself in step 2, and damage of one is that one's alone.
//!
//! Work is bounded by the number of buckets, whatever the bytes are: positions only rise, and a bucket has one
//! prefix, so it is in one range at one place; a range that is damaged is walked once.
//! A thread that makes a range takes no lock of a bucket, and waits for none.

use std::sync::atomic::{AtomicBool, Ordering};

use durahash_media::hash::fingerprint;
use durahash_media::{Error, ErrorKind, Event, Medium, Result, wait_lock};

use super::Reh;
use super::layout::{BUCKET_BYTES, Bucket, Link, ROOT};
use super::planted::{Fault, planted};
use crate::extendible::extend::{self, MAX_DEPTH};
use crate::util::parallel::in_parts;

/// All hashes, in parts of which the deepest bucket has one.
pub(super) const ALL_PARTS: u64 = 1 << MAX_DEPTH;

/// Ranges are made together whose places are the same but for so many bits: words of one line. Each next bucket is
/// known by the one before, so one range alone waits for every bucket of it.
const PLACES_BESIDE: u32 = 3;

/// Until this part of all hashes is made, each range is made alone: a user of few waits for no more than these.
const MADE_ALONE_PART: u64 = 16;

/// Words whose ranges a step of background work makes.
const WORDS_PER_STEP: u64 = 64;

/// Words whose ranges a thread makes at a time, when all are made.
const WORDS_PER_PART: usize = 1 << 10;

/// Extents that a thread reads ahead, at least.
const EXTENTS_PER_THREAD: usize = 16;

/// A bucket that a walk has met, and its slots.
pub(super) struct Met {
    pub(super) number: u64,
    pub(super) prefix: u64,
    pub(super) depth: u32,
    live: u16,
    fingerprints: [u64; 2],
}

/// Where a range begins and where the next one does, and the first bucket of each; the end of all hashes, and none.
#[derive(Clone, Copy)]
pub(super) struct Range {
    from: u64,
    first: u64,
    end: Option<u64>,
    next: u64,
}

/// How far a range was walked.
struct Walk {
    range: Range,
    at: Option<u64>,
    number: u64,
    met: Vec<Met>,
}

impl Range {
    fn has(&self, h: u64) -> bool {
        self.from <= h && self.end.is_none_or(|end| h < end)
    }
}

impl Walk {
    fn new(range: Range) -> Self {
        let (at, number) = (Some(range.from), range.first);
        Walk { range, at, number, met: Vec::with_capacity(16) }
    }
}

impl<M: Medium> Reh<M> {
    /// The bucket of `h`, whose range is made if this operation is the first in it.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) where the buckets of the range do not follow each other;
    /// [`Skewed`](ErrorKind::Skewed) for one that is deeper than there can be; [`Io`](ErrorKind::Io).
    #[inline(always)]
    pub(super) fn find(&self, h: u64) -> Result<u64> {
        match self.directory.seek(h) {
            Some(sought) => Ok(sought.entry()),
            None => self.find_again(h),
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn find_again(&self, h: u64) -> Result<u64> {
        loop {
            if self.is_complete() {
                return Ok(self.directory.find(h));
            }
            if !self.directory.has(self.medium(), h) {
                self.make(h)?;
            }
            if let Some(sought) = self.directory.seek(h) {
                return Ok(sought.entry());
            }
            // The view is being changed.
            self.medium().event(Event::Wait);
        }
    }

    /// True if every range is made.
    #[inline]
    pub(super) fn is_complete(&self) -> bool {
        self.writers.growth.is_complete()
    }

    /// Makes the range of `h`, unless another thread does it first, and those beside it.
    fn make(&self, h: u64) -> Result<()> {
        let medium = self.medium();
        if let Some((_, e)) = self.known_damage(h) {
            return Err(e);
        }
        let walked = self.walk_beside(h)?;
        let making = wait_lock(&self.writers.making, medium);
        let growth = &self.writers.growth;
        let (mut all, mut done) = (Vec::new(), Ok(()));
        for (range, met) in walked {
            if self.directory.has(medium, range.from) && !planted(Fault::NoSecondLook) {
                continue;
            }
            let deepest = |met: &[Met]| met.iter().map(|met| met.depth).max().unwrap_or(1);
            let fits = |met: &Vec<_>| self.directory.deepen(medium, deepest(met), growth.bound());
            match met.and_then(|met| fits(&met).map(|()| met)) {
                Ok(met) => all.extend(met),
                Err(e) => {
                    wait_lock(&self.writers.damaged, medium).add(range.from, range.end, &e);
                    if range.has(h) {
                        done = Err(e);
                    }
                }
            }
        }
        if all.is_empty() {
            return done;
        }
        debug_assert!(!all.iter().any(|met| self.meta(met.number).is_made()), "made twice");
        self.store_rows(&all);
        self.directory.lock.exclusive(medium, || self.enter(&all));
        let parts: u64 = all.iter().map(|met| 1 << (MAX_DEPTH - met.depth)).sum();
        if self.writers.parts_to_make.fetch_sub(parts, Ordering::AcqRel) == parts {
            growth.expect(0);
            self.directory.fit_front(medium, growth);
        }
        drop(making);
        done
    }

    /// The range of `h`, and when not only a few are made those beside it that are not, each with its buckets.
    fn walk_beside(&self, h: u64) -> Result<Vec<(Range, Result<Vec<Met>>)>> {
        let depth = self.words.depth();
        let to_make = self.writers.parts_to_make.load(Ordering::Relaxed);
        if to_make > ALL_PARTS - ALL_PARTS / MADE_ALONE_PART || depth <= PLACES_BESIDE {
            let range = self.range(h)?;
            return Ok(vec![(range, self.walk(&range))]);
        }
        let first = extend::prefix(h, depth - PLACES_BESIDE);
        let end = extend::next(first, depth - PLACES_BESIDE);
        // The first buckets come all at the same time.
        for i in 0..1 << PLACES_BESIDE {
            let number = self.words.get(&self.map, first + i * extend::span(depth));
            number.into_iter().for_each(|number| self.prefetch_bucket(number));
        }
        let mut walks = Vec::with_capacity(1 << PLACES_BESIDE);
        let mut range = self.range(first)?;
        loop {
            // A range that goes on elsewhere may be long, and is left to operations there.
            let is_beside = range.from >= first
                && end.is_none_or(|end| range.end.is_some_and(|own| own <= end))
                && self.known_damage(range.from).is_none();
            if (range.has(h) || is_beside) && self.directory.seek(range.from).is_none() {
                walks.push((Walk::new(range), None));
            }
            match range.end {
                Some(from) if end.is_none_or(|end| from < end) => {
                    range = self.range_from(from, range.next)
                }
                _ => break,
            }
        }
        // One bucket of each in turn, so that none is waited for alone.
        let mut left = walks.len();
        while left > 0 {
            for (walk, done) in walks.iter_mut().filter(|(_, done)| done.is_none()) {
                *done = self.step_walk(walk).map(|goes_on| (!goes_on).then_some(())).transpose();
                left -= usize::from(done.is_some());
            }
        }
        let walked = |(walk, done): (Walk, Option<Result<()>>)| {
            (walk.range, done.unwrap_or(Ok(())).map(|()| walk.met))
        };
        Ok(walks.into_iter().map(walked).collect())
    }

    /// The end of the damaged range that `h` is in, and its error, where that is known.
    fn known_damage(&self, h: u64) -> Option<(Option<u64>, Error)> {
        wait_lock(&self.writers.damaged, self.medium()).at(h)
    }

    /// True if every bucket on the chain has a row. Where damage hides some, it never becomes true.
    pub(super) fn knows_all(&self) -> Result<bool> {
        if self.is_complete() {
            return Ok(true);
        }
        if !wait_lock(&self.writers.damaged, self.medium()).is_empty() {
            return Ok(false);
        }
        match self.make_all() {
            Err(e) if is_damage(&e) => Ok(false),
            made => made.map(|()| true),
        }
    }

    /// Counts buckets whose rows are stored, and stores their entries.
    pub(super) fn enter(&self, met: &[Met]) {
        for same in met.chunk_by(|a, b| a.depth == b.depth) {
            self.writers.growth.count(same[0].depth, same.len() as i64);
        }
        met.iter().for_each(|met| self.directory.set(met.prefix, met.depth, met.number));
    }

    /// Stores the rows of buckets that no thread can be in, and counts their live slots.
    pub(super) fn store_rows(&self, met: &[Met]) {
        let mut live = 0;
        for met in met {
            self.meta(met.number).fill(met.fingerprints, met.live, met.depth);
            live += u64::from(met.live.count_ones());
        }
        self.writers.found_live.fetch_add(live, Ordering::Release);
    }

    /// The bucket that a word names, if it begins there.
    fn begins(&self, prefix: u64) -> Option<u64> {
        let number = self.words.get(&self.map, prefix)?;
        let bucket = self.recovered_bucket(number)?;
        let link = Link::from_word(self.medium().load(&bucket.link))?;
        let is_there = self.medium().load(&bucket.prefix) == prefix
            && extend::prefix(prefix, link.depth) == prefix;
        is_there.then_some(number)
    }

    /// A bucket of an extent that was one of units at the open.
    fn recovered_bucket(&self, number: u64) -> Option<&Bucket> {
        let extent = number / self.per_extent();
        let word = self.recovered.get((extent / 64) as usize)?;
        if word & 1 << (extent % 64) == 0 { None } else { self.bucket(number).ok() }
    }

    fn prefetch_bucket(&self, number: u64) {
        if let Some(bucket) = self.recovered_bucket(number) {
            self.medium().prefetch(bucket);
        }
    }

    /// Where the range behind that of `h` begins, and its first bucket; the end of all hashes, and no bucket.
    fn next_range(&self, h: u64) -> (Option<u64>, u64) {
        let depth = self.words.depth();
        if depth == 0 {
            return (None, 0);
        }
        let next = |h: &u64| extend::next(extend::prefix(*h, depth), depth);
        let mut places = std::iter::successors(next(&h), next);
        let found = places.find_map(|place| Some((place, self.begins(place)?)));
        found.map_or((None, 0), |(place, number)| (Some(place), number))
    }

    /// Where hashes behind a range begin that could not be made, if there are any.
    pub(super) fn behind_range(&self, h: u64) -> Option<Option<u64>> {
        let end = || self.known_damage(h).map_or_else(|| self.next_range(h).0, |(end, _)| end);
        (!self.is_complete()).then(end)
    }

    /// The range that begins with this bucket, at the place of its word.
    fn range_from(&self, from: u64, first: u64) -> Range {
        let (end, next) = self.next_range(from);
        Range { from, first, end, next }
    }

    pub(super) fn range(&self, h: u64) -> Result<Range> {
        let depth = self.words.depth();
        let step = if depth == 0 { 0 } else { extend::span(depth) };
        let mut from = if depth == 0 { 0 } else { extend::prefix(h, depth) };
        let first = loop {
            if from == 0 {
                break self.map.root(ROOT)?;
            }
            if let Some(number) = self.begins(from) {
                break number;
            }
            from -= step;
        };
        self.prefetch_bucket(first);
        let (end, next) = self.next_range(h);
        Ok(Range { from, first, end, next })
    }

    /// The buckets of a range.
    pub(super) fn walk(&self, range: &Range) -> Result<Vec<Met>> {
        let mut walk = Walk::new(*range);
        while self.step_walk(&mut walk)? {}
        Ok(walk.met)
    }

    /// Reads one more bucket of a range; false at its end.
    #[inline]
    fn step_walk(&self, walk: &mut Walk) -> Result<bool> {
        let (number, Range { end, next, .. }) = (walk.number, walk.range);
        if walk.at == end {
            if number == next {
                return Ok(false);
            }
            let what = if end.is_none() {
                "the last bucket has a sibling"
            } else {
                "a bucket's sibling is not the next one"
            };
            return Err(Error::corrupt(what, number.wrapping_mul(BUCKET_BYTES)));
        }
        let corrupt = |what| Error::corrupt(what, number.wrapping_mul(BUCKET_BYTES));
        let is_inside = |at: &u64| end.is_none_or(|end| *at < end);
        let Some(prefix) = walk.at.filter(is_inside) else {
            return Err(corrupt("a bucket reaches beyond the next one"));
        };
        let bucket =
            self.recovered_bucket(number).ok_or_else(|| corrupt("a sibling is not a bucket"))?;
        let (one, sibling) = self
            .read_bucket(number, bucket, prefix)
            .ok_or_else(|| corrupt("the buckets do not follow each other"))?;
        walk.at = extend::next(prefix, one.depth);
        walk.met.push(one);
        walk.number = sibling;
        Ok(true)
    }

    /// A bucket that begins at `prefix`, and its sibling; `None` where it does not.
    fn read_bucket(&self, number: u64, bucket: &Bucket, prefix: u64) -> Option<(Met, u64)> {
        let medium = self.medium();
        let Link { depth, sibling } = Link::from_word(medium.load(&bucket.link))?;
        if medium.load(&bucket.prefix) != prefix || extend::prefix(prefix, depth) != prefix {
            return None;
        }
        // These come while the slots are looked at.
        self.prefetch_bucket(sibling);
        self.metas.prefetch(number);
        let (mut live, mut fingerprints) = (0, [0; 2]);
        for (i, h) in self.valid_slots(bucket, prefix, depth) {
            live |= 1 << i;
            fingerprints[(i / 8) as usize] |= u64::from(fingerprint(h)) << (i % 8 * 8);
        }
        Some((Met { number, prefix, depth, live, fingerprints }, sibling))
    }

    /// The live slots of a bucket, from what is on the medium alone (REH-2).
    pub(super) fn valid_slots<'a>(
        &'a self,
        bucket: &'a Bucket,
        prefix: u64,
        depth: u32,
    ) -> impl Iterator<Item = (u32, u64)> + 'a {
        (0..self.slots())
            .map(move |i| (i, self.medium().load(&bucket.slots[i as usize].h)))
            .filter(move |(_, h)| extend::covers(prefix, depth, *h))
    }

    /// How many places there are where ranges may begin.
    pub(super) fn places(&self) -> u64 {
        1 << self.words.depth()
    }

    /// Makes the ranges in which these places are, until `stop` says so.
    ///
    /// # Errors
    /// Damage of the first that is not sound, when all others are made; any other error at once.
    fn make_places(&self, places: std::ops::Range<u64>, stop: impl Fn() -> bool) -> Result<()> {
        let depth = self.words.depth();
        let at = |i| if depth == 0 { 0 } else { i << (64 - depth) };
        let (mut i, mut done) = (places.start, Ok(()));
        while i < places.end && !stop() {
            match self.find(at(i)) {
                Ok(_) => i += 1,
                Err(e) if is_damage(&e) => {
                    done = done.and(Err(e));
                    let behind = self.behind_range(at(i)).flatten();
                    i = behind.map_or(places.end, |h| extend::index(h, depth).max(i + 1));
                }
                Err(e) => return Err(e),
            }
        }
        done
    }

    /// Makes all ranges that are sound.
    ///
    /// # Errors
    /// As [`make_places`](Self::make_places).
    pub(super) fn make_all(&self) -> Result<()> {
        let done = self.make_places(0..self.places(), || self.is_complete());
        // Others find the entries of the last one before it is counted, and all are known to be made.
        drop(wait_lock(&self.writers.making, self.medium()));
        done
    }

    /// The same by several threads, and then all other background work, until `stop` says so; damage is returned
    /// by the operations that come to it.
    pub(super) fn make_in_parts(&self, stop: &AtomicBool) {
        let stops = || stop.load(Ordering::Relaxed) || self.is_complete();
        let places: Vec<u64> = if stops() { Vec::new() } else { (0..self.places()).collect() };
        let _ = in_parts(&places, WORDS_PER_PART, |places| {
            let from = places.first().copied().unwrap_or_default();
            let _ = self.make_places(from..from + places.len() as u64, stops);
            Ok(())
        });
        while !stop.load(Ordering::Relaxed) && matches!(self.work(), Ok(true)) {}
    }

    /// Reads every extent of units, so that a walk that goes from one to the other finds it in memory.
    pub(super) fn read_ahead(&self, extents: &[u64]) -> Result<()> {
        in_parts(extents, EXTENTS_PER_THREAD, |extents| {
            for number in extents.iter().flat_map(|i| self.numbers(*i)).step_by(16) {
                self.medium().load(&self.bucket(number)?.link);
            }
            Ok(())
        })
    }

    /// Makes the ranges in so many more places, but those that are damaged; false if there are no more places.
    pub(super) fn make_some(&self, count: u64) -> Result<bool> {
        if self.is_complete() {
            return Ok(false);
        }
        let from = self.writers.next_place.fetch_add(count, Ordering::Relaxed);
        let places = from..self.places().min(from.saturating_add(count));
        if places.is_empty() {
            return Ok(false);
        }
        match self.make_places(places, || false) {
            Err(e) if !is_damage(&e) => Err(e),
            _ => Ok(true),
        }
    }

    /// Does a piece of background work: a few ranges, and when all are made an extent of the sweep. True if more is
    /// waiting.
    pub(super) fn work(&self) -> Result<bool> {
        if self.make_some(WORDS_PER_STEP)? {
            return Ok(true);
        }
        if self.pool.writable().is_err() {
            return Ok(false);
        }
        if self.sweep_extent()? {
            return Ok(true);
        }
        self.renew_words();
        Ok(false)
    }
}

/// True if an error is of what lies on the medium.
pub(super) fn is_damage(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Corrupt { .. } | ErrorKind::Skewed { .. })
}
