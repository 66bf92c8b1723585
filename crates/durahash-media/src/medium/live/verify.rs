//! What the pool has to say of the check words of the base, and ask.
//!
//! | Step | Stores | Power lost, or killed, after it |
//! |---|---|---|
//! | another area | (the pool) a snapshot, which says that its extents are free | the extents as they were |
//! | | its bytes in the base: words of the area before, else marks; sync | extents that nothing names |
//! | | (the pool) the superblock's words in the image; their snapshot | where a cut has the old words, the old area, which is kept, too, until then |
//! | | the area before is not kept any more, and is given back | the new area |
//! | close: blocks that have a mark and are at rest | their sums; sync | the marks are there |
//! | | their marks are taken away; sync | sums of all blocks |
//! | | the last checkpoint | see `checkpoint.rs` |
//!
//! A page of the base is *at rest* where no batch behind the head has a line of it. Then a block of it that has no mark has the sum
//! that is stored for it, and the image has the same bytes, but for lines that are marked.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, MutexGuard};

use super::Live;
use super::core::{Base, Core, io_of};
use super::disk::LiveDisk;
use super::head::{Noted, Position};
use super::open::Found;
use super::sums::{PAGE, Sums, write_runs};
use crate::error::{Error, Result};
use crate::medium::logged::area::SUPERBLOCK_BYTES;
use crate::medium::logged::format::{put, word};
use crate::medium::{CHECKS_OFF, DiskSums, LINE_BYTES, MARKS, SumArea, sum_of};
use crate::primitive::lock;

/// Pages that are verified, or given sums, at a time.
const PAGES: u64 = 256;

/// What a process left that has not been gone on from yet.
struct Before {
    /// Pages that are not at rest.
    pages: BTreeSet<u64>,
    /// The image is another one than the base.
    has_image: bool,
}

/// The bytes of an area of check words.
pub(super) struct Words {
    pub(super) area: SumArea,
    pub(super) bytes: Vec<u8>,
}

impl Words {
    /// Takes the sums of the blocks away in which these bytes lie.
    pub(super) fn mark(&mut self, off: u64, bytes: u64) {
        let area = self.area;
        let blocks = off >> area.shift()..(off + bytes).div_ceil(1 << area.shift());
        for (off, bit) in blocks.take_while(|b| *b < area.blocks()).map(|b| area.mark(b)) {
            let at = (off - area.off) as usize;
            let v = word(&self.bytes, at) | bit;
            put(&mut self.bytes, at, &[v]);
        }
    }
}

impl<D: LiveDisk> Core<D> {
    /// The pages that batches behind `self.head()` up to `to` have lines of.
    fn pages_to(&self, to: Position) -> Result<BTreeSet<u64>> {
        let mut pages = BTreeSet::new();
        self.each_line(self.head().at, to, &mut |off, _| {
            pages.insert(off / PAGE);
            Ok(())
        })?;
        Ok(pages)
    }

    fn is_at_rest(&self, base: &Base, before: Option<&Before>, page: u64) -> bool {
        if let Some(before) = before {
            return !before.pages.contains(&page);
        }
        let is_taken = |pages: &Arc<Vec<u64>>| pages.binary_search(&page).is_ok();
        !base.under_way.as_ref().is_some_and(is_taken) && !lock(&self.applied).has(page)
    }

    /// The base; before the pool has begun as its last process left it.
    fn base_for(&self, before: Option<&Before>) -> Result<MutexGuard<'_, Base>> {
        let mut base = lock(&self.base);
        if before.is_none() {
            self.note_old(&mut base)?;
        }
        Ok(base)
    }

    /// True if the image has these bytes in a page that is at rest, or lines that it will not be for long.
    fn image_has(&self, base: &Base, off: u64, bytes: &[u8]) -> bool {
        let lines = off / LINE_BYTES..(off + bytes.len() as u64) / LINE_BYTES;
        let is_unmarked =
            || lines.clone().all(|line| self.disk.mark(line).load(Ordering::Acquire) == 0);
        let Ok(words) = self.disk.region().words(off, bytes.len() as u64 / 8) else {
            return true;
        };
        if !is_unmarked() {
            return true;
        }
        let is_same = words
            .iter()
            .zip(bytes.as_chunks().0)
            .all(|(word, bytes)| word.load() == u64::from_le_bytes(*bytes));
        // What was stored to meanwhile has a mark, or the bit that it got before it lost that.
        fence(Ordering::Acquire);
        is_same || !is_unmarked() || !self.is_at_rest(base, None, off / PAGE)
    }

    /// The blocks among some pages that are damaged: on the disk, or in the image, if there is one.
    fn damaged_in(
        &self,
        (pages, covered): (Range<u64>, &Range<u64>),
        before: Option<&Before>,
    ) -> Result<BTreeSet<u64>> {
        let mut wrong = BTreeSet::new();
        let base = self.base_for(before)?;
        let Some(area) = base.areas.last().copied() else { return Ok(wrong) };
        let (none, len) = (BTreeSet::new(), self.disk.region().len());
        let mut sums = Sums::new(&self.disk, &base.areas, &none);
        for page in pages {
            if !self.is_at_rest(&base, before, page) {
                continue;
            }
            let off = page * PAGE;
            let mut bytes = vec![0; len.saturating_sub(off).min(PAGE) as usize];
            let is_read = self.disk.read_pool(off, &mut bytes).is_ok();
            let of_page = off.max(covered.start)..(off + bytes.len() as u64).min(covered.end);
            for block in sums.blocks(area, of_page) {
                let start = block << area.shift();
                let bytes = &bytes[(start - off) as usize..][..1 << area.shift()];
                let is_right = match sums.is_right(area, block, bytes)? {
                    Some(is_right) => is_right && is_read,
                    None => continue,
                };
                let has_image = before.is_none_or(|before| before.has_image);
                if !is_right || has_image && !self.image_has(&base, start, bytes) {
                    wrong.insert(start);
                }
            }
        }
        Ok(wrong)
    }

    fn verify(&self, covered: &[Range<u64>], before: Option<&Before>, found: &mut dyn FnMut(u64)) {
        let Some(area) = lock(&self.base).areas.last().copied() else { return };
        let known: BTreeSet<u64> =
            lock(&self.damaged).iter().map(|block| block << area.shift()).collect();
        let is_covered = |off: &&u64| covered.iter().any(|range| range.contains(*off));
        known.iter().filter(is_covered).for_each(|off| found(*off));
        for range in covered {
            let (first, end) = (range.start / PAGE, range.end.div_ceil(PAGE));
            for start in (first..end).step_by(PAGES as usize) {
                let pages = start..(start + PAGES).min(end);
                match self.damaged_in((pages, range), before) {
                    Ok(wrong) => wrong.difference(&known).for_each(|off| found(*off)),
                    // Of ring or area.
                    Err(_) => found(start * PAGE),
                }
            }
        }
    }

    fn count(&self, covered: &[Range<u64>], before: Option<&Before>) -> Result<u64> {
        let base = self.base_for(before)?;
        let Some(area) = base.areas.last().copied() else { return Ok(0) };
        let (none, mut count) = (BTreeSet::new(), 0);
        let mut sums = Sums::new(&self.disk, &base.areas, &none);
        for range in covered {
            let (mut marks, mut of) = (0, u64::MAX);
            for block in sums.blocks(area, range.clone()) {
                let (off, bit) = area.mark(block);
                if off != of {
                    (marks, of) = (sums.word(off)?, off);
                }
                let is_at_rest = || self.is_at_rest(&base, before, (block << area.shift()) / PAGE);
                count += u64::from(marks & bit == 0 && is_at_rest());
            }
        }
        Ok(count)
    }

    /// The check words of what is at rest.
    pub(super) fn words_at_rest(&self, base: &mut Base) -> Result<Option<Words>> {
        self.note_old(base)?;
        let Some(area) = base.areas.last().copied() else { return Ok(None) };
        let Range { start, end } = area.bytes();
        let mut words = Words { area, bytes: vec![0; (end - start) as usize] };
        self.disk.read_pool(start, &mut words.bytes)?;
        let pages = 0..self.disk.region().len().div_ceil(PAGE);
        pages
            .filter(|page| !self.is_at_rest(base, None, *page))
            .for_each(|page| words.mark(page * PAGE, PAGE));
        Ok(Some(words))
    }

    /// The base, when no checkpoint is under way.
    fn base_at_rest(&self) -> MutexGuard<'_, Base> {
        loop {
            let base = lock(&self.base);
            if base.under_way.is_none() {
                return base;
            }
            drop(base);
            self.wait_for_checkpoint(&self.head());
        }
    }

    fn complete(&self, covered: &[Range<u64>]) -> Result<()> {
        let mut base = self.base_at_rest();
        self.note_old(&mut base)?;
        let Some(area) = base.areas.last().copied() else { return Ok(()) };
        self.settle()?;
        let (areas, none, mut blocks) = (&base.areas, BTreeSet::new(), Vec::new());
        let new_sums = || Sums::new(&self.disk, areas, &none);
        let mut sums = new_sums();
        for range in covered {
            for block in sums.blocks(area, range.clone()) {
                let page = (block << area.shift()) / PAGE;
                if sums.has_mark(area, block)? && self.is_at_rest(&base, None, page) {
                    blocks.push(block);
                }
            }
        }
        if blocks.is_empty() {
            return Ok(());
        }
        let (mut bytes, mut done) = (vec![0; 1 << area.shift()], Vec::new());
        for blocks in blocks.chunks(PAGES as usize * 64) {
            let mut sums = new_sums();
            for block in blocks {
                let off = block << area.shift();
                self.disk.read_pool(off, &mut bytes)?;
                // Where the area was before, the base has words that the image has not.
                if self.image_has(&base, off, &bytes) {
                    sums.set_sum(area, *block, sum_of(*block, &bytes))?;
                    done.push(*block);
                }
            }
            sums.write()?;
        }
        self.disk.sync_data().map_err(|e| self.writing(e))?;
        for blocks in done.chunks(PAGES as usize * 64) {
            let mut sums = new_sums();
            blocks.iter().try_for_each(|block| sums.set_mark(area, *block, false))?;
            sums.write()?;
        }
        self.disk.sync_data().map_err(|e| self.writing(e))
    }

    fn add_area(&self, area: SumArea) -> Result<()> {
        let mut base = lock(&self.base);
        self.settle()?;
        let Range { start, end } = area.bytes();
        // Nobody gives the blocks of an area sums: none, before they change, neither in this one nor in the one before.
        let (none, own) = (BTreeSet::new(), start >> area.shift()..end >> area.shift());
        let mut sums = Sums::new(&self.disk, &base.areas, &none);
        for (old, block) in base.areas.iter().flat_map(|old| own.clone().map(move |b| (*old, b))) {
            if block < old.blocks() {
                sums.set_marks(old, block / MARKS * MARKS, 1 << (block % MARKS))?;
            }
        }
        if sums.write()? {
            self.disk.sync_data().map_err(|e| self.writing(e))?;
        }
        let len = self.disk.region().len();
        let pages = start / PAGE * PAGE..end.next_multiple_of(PAGE).min(len);
        let mut bytes = vec![0; (pages.end - pages.start) as usize];
        self.disk.read_pool(pages.start, &mut bytes)?;
        let words = &mut bytes[(start - pages.start) as usize..(end - pages.start) as usize];
        words.fill(0);
        words[..area.blocks() as usize / 8].fill(u8::MAX);
        let place = |off: u64| (off - start) as usize;
        if let Some(old) = base.areas.last() {
            let blocks = old.blocks().min(area.blocks());
            let copies = [
                (old.mark(0).0, area.mark(0).0, blocks / 8),
                (old.sum(0).0, area.sum(0).0, blocks * 4),
            ];
            for (from, to, bytes) in copies {
                self.disk.read_pool(from, &mut words[place(to)..][..bytes as usize])?;
            }
        }
        let all = (pages.start..pages.end).step_by(PAGE as usize).zip(bytes.chunks(PAGE as usize));
        write_runs(&self.disk, all.map(|(off, page)| Ok((off, page.to_vec()))))?;
        self.disk.sync_data().map_err(|e| self.writing(e))?;
        base.areas.push(area);
        Ok(())
    }

    /// The area that a loss of power leaves, where a process was killed while the pool changed from one to another: it is not
    /// that of the image then. A ring that cannot be read fails the first checkpoint.
    pub(super) fn area_of_cut(&self, noted: &Noted) -> Option<SumArea> {
        let line = CHECKS_OFF / LINE_BYTES;
        let is_known = (line + 1) * LINE_BYTES > self.disk.region().len()
            || self.disk.mark(line).load(Ordering::Relaxed) == 0;
        if is_known { None } else { self.area_at(noted.last).unwrap_or_default() }
    }

    fn area_at(&self, to: Position) -> Result<Option<SumArea>> {
        let mut bytes = [0; SUPERBLOCK_BYTES as usize];
        self.disk.read_pool(0, &mut bytes)?;
        self.each_line(self.head().at, to, &mut |off, line| {
            if let Some(bytes) = bytes.get_mut(off as usize..) {
                put(bytes, 0, line);
            }
            Ok(())
        })?;
        let area = SumArea::named(|off| Ok(word(&bytes, off as usize)))?;
        Ok(area.filter(|area| area.lies_in(self.disk.region())))
    }

    /// Before the pool grows: what the check words say of what is behind its end, where bytes become zeros, does not count. True if
    /// there is anything to sync.
    pub(super) fn begin_sums(&self) -> Result<bool> {
        let base = lock(&self.base);
        let (none, len) = (BTreeSet::new(), self.disk.region().len());
        let mut sums = Sums::new(&self.disk, &base.areas, &none);
        for area in &base.areas {
            let first = len >> area.shift();
            for block in (first / MARKS * MARKS..area.blocks()).step_by(MARKS as usize) {
                let behind = if block < first { u64::MAX << (first - block) } else { u64::MAX };
                sums.set_marks(*area, block, behind)?;
            }
        }
        if !sums.is_changed() {
            return Ok(false);
        }
        self.settle()?;
        sums.write()
    }

    /// Sees to it that what is copied from the base to the image is verified.
    pub(super) fn verify_copied(&self, off: u64, bytes: &[u8]) {
        let base = lock(&self.base);
        let Some(area) = base.areas.last().copied() else { return };
        let none = BTreeSet::new();
        let mut sums = Sums::new(&self.disk, &base.areas, &none);
        let size = 1 << area.shift();
        let start = off.next_multiple_of(size);
        let end = (off + bytes.len() as u64) / size * size;
        for block in sums.blocks(area, start..end.max(start)) {
            let at = ((block << area.shift()) - off) as usize;
            if matches!(sums.is_right(area, block, &bytes[at..][..size as usize]), Ok(Some(false)))
            {
                lock(&self.damaged).insert(block);
            }
        }
    }

    fn or_fail<T>(&self, done: Result<T>) -> Result<T> {
        done.map_err(|e| {
            self.fail(&io_of(e));
            let failure = self.failure().err();
            failure.unwrap_or_else(|| Error::corrupt("the check words", CHECKS_OFF))
        })
    }
}

impl<D: LiveDisk + 'static> Live<D> {
    fn before(&self) -> Result<Option<Before>> {
        Ok(match &*lock(&self.found) {
            None => None,
            Some(Found::Base { pages, .. }) => {
                Some(Before { pages: pages.clone(), has_image: false })
            }
            Some(Found::Image(noted)) => {
                Some(Before { pages: self.core.pages_to(noted.last)?, has_image: true })
            }
        })
    }
}

impl<D: LiveDisk + 'static> DiskSums for Live<D> {
    fn add(&self, area: SumArea) -> Result<()> {
        self.core.or_fail(self.core.add_area(area))
    }

    fn keep_only(&self, area: Option<SumArea>) {
        if lock(&self.core.base).areas.len() > 1 {
            // Until what names the other area is on the disk, a loss of power leaves this one's words. A failure is told later.
            self.core.take_due();
        }
        let mut base = lock(&self.core.base);
        base.areas.retain(|kept| Some(*kept) == area);
        if base.areas.is_empty() {
            // It was found by words that mean nothing.
            lock(&self.core.damaged).clear();
        }
    }

    fn forget(&self, bytes: Range<u64>) {
        let mut damaged = lock(&self.core.damaged);
        if !damaged.is_empty()
            && let Some(area) = SumArea::of(self.core.disk.region())
        {
            damaged.retain(|block| !bytes.contains(&(block << area.shift())));
        }
    }

    fn complete(&self, covered: &[Range<u64>]) -> Result<()> {
        self.core.failure()?;
        self.core.or_fail(self.core.complete(covered))
    }

    fn verify(&self, covered: &[Range<u64>], found: &mut dyn FnMut(u64)) {
        match self.before() {
            Ok(before) => self.core.verify(covered, before.as_ref(), found),
            // A ring that cannot be read.
            Err(_) => found(0),
        }
    }

    fn count(&self, covered: &[Range<u64>]) -> u64 {
        let count = self.before().and_then(|before| self.core.count(covered, before.as_ref()));
        count.unwrap_or(0)
    }
}
