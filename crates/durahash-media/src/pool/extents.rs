//! Extents: their kinds, free ones, and growing ahead of use.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::checks::Checks;
use super::class::{self, CHUNK_MAX, Classes};
use super::superblock::{Format, MAPS_MAX, Superblock};
use super::table::Table;
use crate::error::{Error, ErrorKind, Limit, Result};
use crate::medium::{AREA_BYTES_MIN, Medium, SumArea};
use crate::word::bits;

/// The most that a pool grows by in one step.
const GROWTH_BYTES_MAX: u64 = 1 << 30;
/// The least, where a system call is dearer than some space.
const GROWTH_BYTES_MIN: u64 = 256 << 10;
/// Up to this size a pool doubles.
const DOUBLES_BYTES: u64 = 4 << 20;

/// The use of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// Nothing.
    Free,
    /// The superblock and the extent table.
    Head,
    /// Units of a map's design, buckets or segments; the number of the map.
    Units(u8),
    /// A directory of this map.
    Directory(u8),
    /// The first extent of an object that takes several.
    RunHead,
    /// A further extent of such an object, or of a chunk.
    RunRest,
    /// Part of the log's area.
    Log,
    /// Part of the area of check words.
    Checks,
    /// Record blocks of a size class; of a large one the first extent of a chunk.
    Blocks(u8),
}

/// Codes of size classes start here.
const FIRST_CLASS: u8 = 16;
const LAST_CLASS: u8 = FIRST_CLASS + class::LAST;

/// The kinds without a class, by their codes.
const KINDS: [ExtentKind; 8] = {
    use ExtentKind::{Checks, Directory, Free, Head, Log, RunHead, RunRest, Units};
    [Free, Head, Units(0), Directory(0), RunHead, RunRest, Log, Checks]
};

/// Codes of units and directories of further maps start here, two for each map.
const FIRST_OWNED: u8 = 128;
const LAST_OWNED: u8 = FIRST_OWNED + 2 * MAPS_MAX - 1;

impl ExtentKind {
    pub(crate) fn code(self) -> u8 {
        match self {
            ExtentKind::Blocks(class) => FIRST_CLASS + class,
            ExtentKind::Units(map @ 1..) => FIRST_OWNED + 2 * (map - 1),
            ExtentKind::Directory(map @ 1..) => FIRST_OWNED + 2 * (map - 1) + 1,
            _ => (0..).zip(KINDS).find(|(_, kind)| *kind == self).map_or(0, |(code, _)| code),
        }
    }

    /// True if its blocks have check words: records have sums of their own, but the lists of a multimap, which
    /// lie among them, have none.
    fn is_checked(self, records: bool) -> bool {
        use ExtentKind::{Blocks, Checks, Free, Log, RunHead, RunRest};
        match self {
            Free | Log | Checks => false,
            Blocks(class) if class::is_cell(class) => true,
            RunHead | RunRest | Blocks(_) => records,
            _ => true,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            FIRST_CLASS..=LAST_CLASS => Some(ExtentKind::Blocks(code - FIRST_CLASS)),
            FIRST_OWNED..=LAST_OWNED => {
                let map = (code - FIRST_OWNED) / 2 + 1;
                let is_unit = code.is_multiple_of(2);
                Some(if is_unit { ExtentKind::Units(map) } else { ExtentKind::Directory(map) })
            }
            _ => KINDS.get(usize::from(code)).copied(),
        }
    }

    /// The map that has the extent for itself, if one has.
    pub(crate) fn map(self) -> Option<u8> {
        match self {
            ExtentKind::Units(map) | ExtentKind::Directory(map) => Some(map),
            _ => None,
        }
    }
}

/// The kind of extent `i`, from the table on the medium: for readers, who take no lock.
#[inline]
pub(crate) fn kind_on_medium<M: Medium>(medium: &M, table: &Table, i: u64) -> Result<ExtentKind> {
    let off = table.off(i);
    let word = medium.load(medium.region().at(off / 8 * 8)?);
    ExtentKind::from_code(bits(word, (off % 8) as u32 * 8, 8) as u8)
        .ok_or_else(|| Error::corrupt("unknown kind of extent", off))
}

/// Stores and flushes the kind of extent `i` in the table; the caller fences.
fn store_kind<M: Medium>(
    (checks, table): (&Checks, &Table),
    medium: &M,
    i: u64,
    kind: ExtentKind,
) -> Result<()> {
    let off = table.off(i);
    checks.touch(medium, off / 8 * 8);
    let word = medium.region().at(off / 8 * 8)?;
    let shift = (off % 8) * 8;
    let others = medium.load(word) & !(0xff << shift);
    medium.store(word, others | u64::from(kind.code()) << shift);
    medium.flush(word);
    Ok(())
}

fn extents_of(area: Option<SumArea>) -> Range<u64> {
    area.map_or(0..0, |SumArea { off, extents, extent_shift }| {
        off >> extent_shift..(off >> extent_shift) + extents
    })
}

/// The extents of the log that the superblock names, none for offset zero: they are there, and are its.
fn log_extents(
    (off, bytes): (u64, u64),
    shift: u32,
    kinds: &[ExtentKind],
    table: &Table,
) -> Result<Range<u64>> {
    let place = || Error::corrupt("place of the log", std::mem::offset_of!(Superblock, log) as u64);
    let end = off.checked_add(bytes).ok_or_else(place)?;
    let log = off >> shift..end.div_ceil(1 << shift);
    let is_too_short = off != 0 && bytes < AREA_BYTES_MIN;
    if is_too_short || log.end > kinds.len() as u64 {
        return Err(place());
    }
    match log.clone().find(|i| kinds[*i as usize] != ExtentKind::Log) {
        Some(i) => Err(Error::corrupt("the kind of an extent of the log is wrong", table.off(i))),
        None => Ok(log),
    }
}

/// The extents of a pool, mirrored in DRAM.
pub(crate) struct Extents {
    kinds: Vec<ExtentKind>,
    free: BTreeSet<u64>,
    max: u64,
    shift: u32,
    table: Arc<Table>,
    /// Extents of what never was whole, found at open: rests of runs without a head, and parts of a log
    /// or of extent tables that the superblock does not name.
    headless: Vec<u64>,
    pub(crate) checks: Arc<Checks>,
}

impl Extents {
    /// Begins a new pool's table.
    pub(crate) fn create<M: Medium>(
        medium: &M,
        format: &Format,
        table: &Arc<Table>,
    ) -> Result<Self> {
        let mut extents = Extents {
            kinds: vec![ExtentKind::Free],
            free: BTreeSet::new(),
            max: format.max_extents(),
            shift: u32::from(format.geometry.extent_shift),
            table: Arc::clone(table),
            headless: Vec::new(),
            checks: Arc::new(Checks::new(u32::from(format.geometry.extent_shift), None)),
        };
        extents.set_kind(medium, 0, ExtentKind::Head)?;
        Ok(extents)
    }

    /// Reads the kinds of a pool of `count` extents, of which pages may be missing if it is `torn`.
    pub(crate) fn open<M: Medium>(
        medium: &M,
        format: &Format,
        count: u64,
        table: &Arc<Table>,
        classes: &Classes,
        torn: bool,
    ) -> Result<Self> {
        let unknown = |i| Error::corrupt("the kind of an extent is unknown", table.off(i));
        let mut kinds = Vec::with_capacity(count as usize);
        let mut free = BTreeSet::new();
        for i in 0..count {
            let kind = kind_on_medium(medium, table, i)?;
            if matches!(kind, ExtentKind::Blocks(class) if !classes.has(class)) {
                return Err(unknown(i));
            }
            if kind == ExtentKind::Free {
                free.insert(i);
            }
            kinds.push(kind);
        }
        let shift = u32::from(format.geometry.extent_shift);
        // A file may be longer than its pool, but not in use there (POOL-1): else the number of
        // extents is damaged, and what is not counted would be handed out.
        let file_bytes = medium.file_bytes().max(medium.region().len());
        let end = format.max_extents().min(file_bytes >> shift).min(table.end(count - 1));
        for i in count..end {
            if kind_on_medium(medium, table, i)? != ExtentKind::Free {
                return Err(Error::corrupt("extent in use behind the last", table.off(i)));
            }
        }
        let (max, table) = (format.max_extents(), Arc::clone(table));
        let checks = Arc::new(Checks::new(shift, None));
        let mut extents = Extents { kinds, free, max, shift, table, headless: Vec::new(), checks };
        extents.find_heads()?;
        extents.find_headless(classes);
        extents.find_checks(medium, torn)?;
        let superblock = medium.region().at::<Superblock>(0)?;
        let [off, bytes] = [0, 1].map(|i| medium.load(&superblock.log[i]));
        // A length without an offset is what a crash left of making a log.
        extents.find_log(off, if off == 0 { 0 } else { bytes })?;
        Ok(extents)
    }

    /// Sees to it that the head has its extents, and no others are kept for it.
    fn find_heads(&mut self) -> Result<()> {
        let heads = self.table.heads();
        if let Some(i) = heads.iter().find(|i| self.kinds[**i as usize] != ExtentKind::Head) {
            let what = "the kind of an extent of the head is wrong";
            return Err(Error::corrupt(what, self.table.off(*i)));
        }
        for i in self.of_kind(ExtentKind::Head) {
            if !heads.contains(&i) {
                // A crash may leave this.
                self.kinds[i as usize] = ExtentKind::Free;
                self.headless.push(i);
            }
        }
        Ok(())
    }

    /// Sees to it that the log has its extents, and no others are kept for it.
    fn find_log(&mut self, off: u64, bytes: u64) -> Result<()> {
        let log = log_extents((off, bytes), self.shift, &self.kinds, &self.table)?;
        for i in 0..self.kinds.len() as u64 {
            if self.kinds[i as usize] == ExtentKind::Log && !log.contains(&i) {
                self.kinds[i as usize] = ExtentKind::Free;
                self.headless.push(i);
            }
        }
        Ok(())
    }

    /// Finds the area of check words, and sees to it that no other extents are kept for one.
    fn find_checks<M: Medium>(&mut self, medium: &M, torn: bool) -> Result<()> {
        let is_named = medium.load(&medium.region().at::<Superblock>(0)?.checks[0]) != 0;
        let is_there = |area: &SumArea| {
            let first = area.off >> self.shift;
            let kinds = first.checked_add(area.extents).and_then(|end| {
                self.kinds.get(usize::try_from(first).ok()?..usize::try_from(end).ok()?)
            });
            area.off.is_multiple_of(1 << self.shift)
                && kinds.is_some_and(|kinds| kinds.iter().all(|kind| *kind == ExtentKind::Checks))
        };
        let word = |off| Ok(medium.load(medium.region().at(off)?));
        let area = SumArea::named(word)?.filter(|area| !torn && is_there(area));
        let mut checks = Checks::new(self.shift, area);
        checks.is_lost = is_named && !torn && area.is_none();
        let range = extents_of(checks.area());
        for i in 0..self.kinds.len() as u64 {
            if self.kinds[i as usize] == ExtentKind::Checks && !range.contains(&i) {
                self.kinds[i as usize] = ExtentKind::Free;
                self.headless.push(i);
            }
        }
        self.checks = Arc::new(checks);
        Ok(())
    }

    /// The ranges of bytes whose blocks have check words.
    pub(crate) fn checked(&self, records: bool) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (i, kind) in (0_u64..).zip(&self.kinds) {
            let (start, end) = (i << self.shift, (i + 1) << self.shift);
            match ranges.last_mut() {
                _ if !kind.is_checked(records) => {}
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Sees to it that there is an area of check words for all extents, if there is room for one.
    pub(crate) fn make_checks<M: Medium>(&mut self, medium: &M) -> Result<()> {
        // The pool may grow by a quarter, and by the area.
        let count = self.kinds.len() as u64;
        self.make_checks_for(medium, count + count / 4 + 2)
    }

    /// The same behind a growth, where the medium keeps the words itself, in extents that are free.
    fn follow_growth<M: Medium>(&mut self, medium: &M) -> Result<()> {
        let most = 2 * self.kinds.len() as u64;
        if medium.disk_sums().is_none() || self.find_run(self.extents_of_checks(most)).is_none() {
            return Ok(());
        }
        self.make_checks_for(medium, most)
    }

    /// Extents of an area for so many.
    fn extents_of_checks(&self, count: u64) -> u64 {
        SumArea::extents_for(self.checks.blocks_of(count), 1 << self.shift)
    }

    fn make_checks_for<M: Medium>(&mut self, medium: &M, most: u64) -> Result<()> {
        if self.checks.extents() >= self.kinds.len() as u64 {
            return Ok(());
        }
        let checks = Arc::clone(&self.checks);
        let extents = self.extents_of_checks(most);
        let first = match self.take_run(medium, extents, [ExtentKind::Checks; 2]) {
            Err(e) if matches!(e.kind(), ErrorKind::Full { .. }) => return Ok(()),
            first => first?,
        };
        let old = checks.area();
        let area = SumArea { off: first << self.shift, extents, extent_shift: self.shift };
        match medium.disk_sums() {
            Some(sums) => {
                // Which writes over what a loss of power leaves, where nothing on the disk says yet that this is free.
                medium.sync(0, size_of::<Superblock>() as u64)?;
                sums.add(area)?;
                checks.name(medium, area)?;
                medium.sync(0, size_of::<Superblock>() as u64)?;
                sums.keep_only(Some(area));
            }
            None => checks.move_to(medium, area)?,
        }
        for i in extents_of(old) {
            self.release(medium, i)?;
        }
        Ok(())
    }

    /// Takes the rests of runs and chunks for free whose head did not become durable before a crash.
    fn find_headless(&mut self, classes: &Classes) {
        // Rests that may follow.
        let mut room = 0;
        for i in 0..self.kinds.len() {
            room = match self.kinds[i] {
                ExtentKind::RunHead => u64::MAX,
                ExtentKind::Blocks(class) if classes.is_large(class) => CHUNK_MAX - 1,
                ExtentKind::RunRest if room > 0 => room - 1,
                kind => {
                    if kind == ExtentKind::RunRest {
                        self.kinds[i] = ExtentKind::Free;
                        self.headless.push(i as u64);
                    }
                    0
                }
            };
        }
    }

    /// How many rests follow extent `i`.
    pub(crate) fn rests(&self, i: u64) -> u64 {
        let behind = self.kinds.iter().skip(i as usize + 1);
        behind.take_while(|kind| **kind == ExtentKind::RunRest).count() as u64
    }

    /// Frees on the medium, too, the extents that [`find_headless`](Self::find_headless) and others found: a crash came
    /// before their head.
    #[track_caller]
    pub(crate) fn release_headless<M: Medium>(&mut self, medium: &M) -> Result<()> {
        for i in std::mem::take(&mut self.headless) {
            self.release(medium, i)?;
        }
        // Or before a table was made that the next growth needs.
        match self.table.missing(self.kinds.len() as u64) {
            Some(k) if self.find_run(self.table.extents_of(k)).is_some() => {
                self.make_table(medium, k)
            }
            _ => Ok(()),
        }
    }

    /// Every extent's kind, by its number.
    pub(crate) fn kinds(&self) -> &[ExtentKind] {
        &self.kinds
    }

    /// The numbers of all extents of one kind.
    pub(crate) fn of_kind(&self, kind: ExtentKind) -> Vec<u64> {
        let all = self.kinds.iter().enumerate();
        all.filter(|(_, other)| **other == kind).map(|(i, _)| i as u64).collect()
    }

    /// Takes an extent for `kind`, growing the pool if there is none.
    pub(crate) fn take<M: Medium>(&mut self, medium: &M, kind: ExtentKind) -> Result<u64> {
        let before = self.kinds.len();
        if self.free.is_empty() {
            self.grow(medium, 1)?;
        }
        let i = *self.free.first().expect("grown by at least one");
        self.forget_blocks(medium, i..i + 1);
        self.set_kind(medium, i, kind)?;
        // Another thread may be the first to link what is in the extent, and fences its own flushes.
        medium.fence();
        self.free.remove(&i);
        if self.kinds.len() > before {
            self.follow_growth(medium)?;
        }
        Ok(i)
    }

    /// True if all of these extents are free, or not there yet.
    pub(crate) fn are_free(&self, mut range: Range<u64>) -> bool {
        range.all(|i| i >= self.kinds.len() as u64 || self.kinds[i as usize] == ExtentKind::Free)
    }

    /// The most extents that the pool may have.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// Stores the kind of a log's extents, which are free; the caller syncs.
    pub(crate) fn mark_log<M: Medium>(&mut self, medium: &M, range: Range<u64>) -> Result<()> {
        self.headless.retain(|i| !range.contains(i));
        for i in range {
            self.set_kind(medium, i, ExtentKind::Log)?;
            self.free.remove(&i);
        }
        Ok(())
    }

    /// Takes `count` extents in a row for one object, of which the first is `head`. Their kinds are
    /// durable with the stores that the caller makes there and fences before anything names it.
    pub(crate) fn take_run<M: Medium>(
        &mut self,
        medium: &M,
        count: u64,
        [head, rest]: [ExtentKind; 2],
    ) -> Result<u64> {
        let before = self.kinds.len();
        let first = loop {
            if let Some(first) = self.find_run(count) {
                break first;
            }
            let tail =
                (0..self.kinds.len() as u64).rev().take_while(|i| self.free.contains(i)).count()
                    as u64;
            // A table that a growth ahead of use needs may take some of it.
            self.grow(medium, count - tail)?;
        };
        self.forget_blocks(medium, first..first + count);
        for i in first..first + count {
            self.set_kind(medium, i, if i == first { head } else { rest })?;
            self.free.remove(&i);
        }
        if self.kinds.len() > before {
            self.follow_growth(medium)?;
        }
        Ok(first)
    }

    /// Extents that are taken hold anything.
    fn forget_blocks<M: Medium>(&self, medium: &M, range: Range<u64>) {
        self.checks.mark(medium, range.start << self.shift..range.end << self.shift, false);
    }

    /// The first of `count` free extents in a row.
    pub(crate) fn find_run(&self, count: u64) -> Option<u64> {
        let (mut first, mut found) = (0, 0);
        for &i in &self.free {
            if found == 0 || i != first + found {
                (first, found) = (i, 0);
            }
            found += 1;
            if found == count {
                return Some(first);
            }
        }
        None
    }

    /// Gives an extent back that nothing durable reaches any more.
    pub(crate) fn release<M: Medium>(&mut self, medium: &M, i: u64) -> Result<()> {
        self.set_kind(medium, i, ExtentKind::Free)?;
        // Another thread may cut it off, where the table must say free (POOL-1).
        medium.fence();
        self.free.insert(i);
        Ok(())
    }

    /// Gives back all extents of a map.
    pub(crate) fn release_of<M: Medium>(&mut self, medium: &M, map: u8) -> Result<()> {
        for i in 0..self.kinds.len() {
            if self.kinds[i].map() == Some(map) {
                self.release(medium, i as u64)?;
            }
        }
        Ok(())
    }

    /// Backs at least `need` more extents, beside those of a table that they need: a quarter of the
    /// pool, ahead of use, or what the medium has.
    fn grow<M: Medium>(&mut self, medium: &M, need: u64) -> Result<()> {
        let have = self.kinds.len() as u64;
        let mut wanted = need;
        while let Some(extents) = self.tables_for(have + wanted)
            && wanted < need + extents
        {
            wanted = need + extents;
        }
        let need = wanted;
        let extents = |bytes: u64| (bytes >> self.shift).max(1);
        // A small pool takes a quarter of a mebibyte, and doubles up to some.
        // Without a log, most of which may be a hole.
        let log = self.kinds.iter().filter(|kind| **kind == ExtentKind::Log).count() as u64;
        let used = have - log;
        let ahead = (used / 4).max(used.min(extents(DOUBLES_BYTES))).max(extents(GROWTH_BYTES_MIN));
        let ahead = if self.shift < 16 { (used / 4).max(1) } else { ahead };
        let ahead = ahead.min(extents(GROWTH_BYTES_MAX)).max(need);
        let room = self.max.saturating_sub(have);
        let full = |limit| Error::full(need << self.shift, limit);
        if room < need {
            return Err(full(Limit::Pool { max_bytes: self.max << self.shift }));
        }
        let mut step = ahead.min(room);
        loop {
            match medium.grow((have + step) << self.shift) {
                Ok(()) => break,
                Err(e) => match e.kind() {
                    ErrorKind::Full { limit, .. } if step == need => {
                        return Err(full(*limit).at_path(e.path()));
                    }
                    // Less far ahead, as long as it is enough.
                    ErrorKind::Full { .. } => step = (step / 2).max(need),
                    _ => return Err(e),
                },
            }
        }
        self.count_in(medium, have + step)
    }

    /// Extents of the tables that are made before the pool has `count` extents.
    fn tables_for(&self, count: u64) -> Option<u64> {
        let first = self.table.missing(count)?;
        let made = (first..).take_while(|k| count > self.table.most_before(*k) / 2);
        Some(made.map(|k| self.table.extents_of(k)).sum())
    }

    /// Makes extents up to number `count`, which are backed, a part of the pool.
    pub(crate) fn count_in<M: Medium>(&mut self, medium: &M, count: u64) -> Result<()> {
        while (self.kinds.len() as u64) < count {
            let missing = self.table.missing(count);
            let end = missing.map_or(count, |k| count.min(self.table.most_before(k)));
            self.count_in_table(medium, end)?;
            if let Some(k) = missing {
                self.make_table(medium, k)?;
            }
        }
        Ok(())
    }

    /// The same, of extents whose tables are there.
    fn count_in_table<M: Medium>(&mut self, medium: &M, count: u64) -> Result<()> {
        let have = self.kinds.len() as u64;
        for i in have..count {
            // Nothing was there (POOL-1): what the table says else is damage.
            if !matches!(kind_on_medium(medium, &self.table, i), Ok(ExtentKind::Free)) {
                store_kind((&self.checks, &self.table), medium, i, ExtentKind::Free)?;
                medium.fence();
            }
        }
        self.set_count(medium, count)?;
        // No kind before the number that makes it count (POOL-1).
        medium.fence();
        for i in have..count {
            self.kinds.push(ExtentKind::Free);
            self.free.insert(i);
        }
        Ok(())
    }

    /// Makes table `k` in free extents. See the docs of `table.rs`.
    fn make_table<M: Medium>(&mut self, medium: &M, k: usize) -> Result<()> {
        let count = self.table.extents_of(k);
        let Some(first) = self.find_run(count) else {
            let limit = Limit::Design("no extents in a row are free for the table of extents");
            return Err(Error::full(count << self.shift, limit));
        };
        self.forget_blocks(medium, first..first + count);
        for i in first..first + count {
            self.set_kind(medium, i, ExtentKind::Head)?;
            self.free.remove(&i);
        }
        let off = first << self.shift;
        self.table.clear(medium, k, off)?;
        self.checks.touch(medium, 0);
        self.table.name(medium, k, off)
    }

    /// Drops the free extents at the pool's end; returns how many extents are left.
    pub(crate) fn cut<M: Medium>(&mut self, medium: &M) -> Result<u64> {
        let mut count = self.kinds.len() as u64;
        while self.free.remove(&(count - 1)) {
            count -= 1;
        }
        if count < self.kinds.len() as u64 {
            self.set_count(medium, count)?;
            self.kinds.truncate(count as usize);
        }
        Ok(count)
    }

    /// Stores and flushes the number of extents; the caller fences, or syncs.
    fn set_count<M: Medium>(&self, medium: &M, count: u64) -> Result<()> {
        let word = &medium.region().at::<Superblock>(0)?.extents;
        self.checks.touch(medium, 0);
        medium.store(word, count);
        medium.flush(word);
        Ok(())
    }

    /// Stores and flushes the kind of extent `i`; the caller fences.
    fn set_kind<M: Medium>(&mut self, medium: &M, i: u64, kind: ExtentKind) -> Result<()> {
        store_kind((&self.checks, &self.table), medium, i, kind)?;
        self.kinds[i as usize] = kind;
        Ok(())
    }
}
