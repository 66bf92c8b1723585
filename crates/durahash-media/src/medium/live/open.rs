//! A pool behind a ring, as the last process left it.
//!
//! The live image is used if all of this holds (*the trust test*):
//!
//! 1. there is a live file, its header is whole, and its boot is this one;
//! 2. both files are those that the header names, and the live file is the one that the head names; the salt is the head's;
//! 3. neither header nor head says that it is bad, and the system tells of no error when it was written back;
//! 4. the parts of the ring lead from the head to the batch that the header notes, and at most one batch lies behind it;
//! 5. if the file is reached through another mount than was noted, the bodies of these parts are sound as well. A container that
//!    is started again changes the mount.
//!
//! Every other use of the pool writes a head with another salt, or that names no live file, first. So a copy of both files, an older
//! pool in the place of this one, and a live file whose inode was used again are found out. If the test
//! fails, a closed pool needs no live image; under *another boot* the pool is what base and batches hold, a consistent cut;
//! under the *same boot* it is refused, as stores that were promised to survive would be missing, unless the
//! caller accepts that.
//!
//! | Step, with the live image | If it stops after this step |
//! |---|---|
//! | O1 before anything is written (`settle`): the newest head is written again, as it is, in its place, and the drive's cache is emptied: it may have been there only. With batches behind a head that is not closed, that comes with the first snapshot | the same |
//! | O2 if it is closed: a head that is not, over the other | the pool is in use; the image has everything |
//! | O3 another epoch, in the header too; the ring goes on behind the noted batch | the same |
//! | O4 by who takes the first snapshot: *each* line whose mark is not zero, whatever its value, gets this epoch's mark and is listed | marks are not zero |
//! | O5 that snapshot. It has all these lines, so it is a cut of both processes | one more batch |
//! | O6 before the first checkpoint: the pages of all batches from the head to the noted one (`checkpoint.rs`) | the same |
//!
//! The program begins behind O3, in `Strict` behind O5. Waits for the disk: heads; first pages and the first part of each of the last
//! batches, which are asked for before they are looked at; of a pool that was closed, O1 and O2.
//!
//! | Step, without it | If it stops after this step |
//! |---|---|
//! | the lines of the batches behind the head are written to the base, and marks of their blocks to its check words; sync | the same batches |
//! | the live file: space for all of it, the base's bytes, which are verified, marks of zeros | the same, and a file that nobody names |
//! | if the head was not closed: two heads with a new salt, which are, one after the other, over both; then the live file's header | a closed pool |
//! | a head that names it, and is not closed | in use; the image is the base |

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use super::barrier::next;
use super::core::Core;
use super::disk::{LiveDisk, LiveSource};
use super::head::{FileName, Head, Noted, Position, begins};
use super::parts::{Lines, Ring};
use super::sums::PAGE;
use crate::error::{Error, ErrorKind, Result};
use crate::medium::logged::disk::aligned;
use crate::medium::logged::format::{BLOCK_BYTES, word};
use crate::medium::{LINE_BYTES, Region, SumArea};
use crate::primitive::lock;
use crate::word::PmU64;

/// Marks that are looked at together.
const MARKS_AT_ONCE: usize = 64;
/// Lines of a log whose places are fetched before they are stored to: these are far apart.
const AHEAD: usize = 16;
/// The epoch of a new live file.
const FIRST_EPOCH: u64 = 1;

/// What there is to go on from.
pub(super) enum Found {
    /// The live image, and what its header says.
    Image(Noted),
    /// The base with the batches up to there, which the image shows in these pages.
    Base { to: Position, pages: BTreeSet<u64> },
}

/// Looks at what the last process left behind `head`, and shows it in the image. Changes nothing else.
///
/// # Errors
/// [`NoLiveImage`](ErrorKind::NoLiveImage); [`Corrupt`](ErrorKind::Corrupt) where the log is damaged; [`Io`](ErrorKind::Io).
pub(super) fn look<D: LiveSource>(disk: &D, head: &Head, accept_suspect: bool) -> Result<Found> {
    let trusted = trust(disk, head)?;
    if let Ok(noted) = trusted {
        disk.adopt_live()?;
        return Ok(Found::Image(noted));
    }
    let mut found = (head.at, BTreeSet::new());
    if head.closed {
        return Ok(Found::Base { to: found.0, pages: found.1 });
    }
    // Where a boot is not known it may be the same.
    let may_be_same = head.boot == disk.boot() || [head.boot, disk.boot()].contains(&[0; 2]);
    if let Err(why) = trusted
        && may_be_same
        && !accept_suspect
    {
        return Err(ErrorKind::NoLiveImage { why }.into());
    }
    let (ring, region) = (Ring::of(disk, head), disk.region());
    let (to, pages) = &mut found;
    // A log has many lines of each page, in no order.
    let mut changed = Vec::new();
    let mut show = |lines: Lines<'_>| {
        let mut soon = lines.iter().skip(AHEAD);
        for (off, line) in lines.iter() {
            if let Some((off, _)) = soon.next() {
                region.speculate(off);
            }
            check(region, off)?;
            disk.show_line(off, &line);
            let page = (off / PAGE) as usize;
            // The file may be far longer than the pool.
            if changed.len() <= page {
                changed.resize(page + 1, false);
            }
            changed[page] = true;
        }
        Ok(())
    };
    while let Some(behind) = ring.batch(head, *to, Some(&mut show))? {
        *to = behind;
    }
    let changed = (0..).zip(changed).filter(|(_, changed)| *changed);
    pages.extend(changed.map(|(page, _)| page));
    if ring.proves(head.uuid, to.batch)? {
        let what = "the log is damaged before its end, so what was acknowledged is missing; \
                    take a copy of the pool, if there is one (place in the log's ring)";
        return Err(Error::corrupt(what, to.place));
    }
    settle_sums(disk, &mut found.1)?;
    Ok(Found::Base { to: found.0, pages: found.1 })
}

/// Of check words the image shows what the base has, and no batch: but the blocks that batches have changed have none (**S-8**).
fn settle_sums<D: LiveSource>(disk: &D, pages: &mut BTreeSet<u64>) -> Result<()> {
    let region = disk.region();
    let Some(area) = SumArea::of(region) else { return Ok(()) };
    let Range { start, end } = area.bytes();
    for page in pages.range(start / PAGE..end.div_ceil(PAGE)) {
        let lines = (page * PAGE).max(start)..(page * PAGE + PAGE).min(end);
        for off in lines.step_by(LINE_BYTES as usize) {
            let mut bytes = [0; LINE_BYTES as usize];
            disk.read_base(off, &mut bytes)?;
            disk.show_line(off, &std::array::from_fn(|i| word(&bytes, i * 8)));
        }
    }
    for page in std::mem::take(pages) {
        let blocks = (page * PAGE) >> area.shift()..((page + 1) * PAGE) >> area.shift();
        for (off, bit) in blocks.take_while(|block| *block < area.blocks()).map(|b| area.mark(b)) {
            let word: &PmU64 = region.at(off)?;
            word.store(word.load() | bit);
            pages.insert(off / PAGE);
        }
        pages.insert(page);
    }
    Ok(())
}

fn check(region: &Region, off: u64) -> Result<()> {
    let inside = off.is_multiple_of(LINE_BYTES) && off <= region.len().saturating_sub(LINE_BYTES);
    if inside { Ok(()) } else { Err(Error::corrupt("a log entry points outside the pool", off)) }
}

/// The trust test: what the header says, or why the image is not trusted.
fn trust<D: LiveSource>(disk: &D, head: &Head) -> Result<Result<Noted, &'static str>> {
    let (words, live) = match disk.find_live() {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(Err("the file of its live image is not there")),
        Err(_) => return Ok(Err("the file of its live image cannot be read")),
    };
    let Some(noted) = Noted::from_words(&words) else {
        return Ok(Err("the file of its live image has no header"));
    };
    if disk.boot() == [0; 2] || (noted.boot, head.boot) != (disk.boot(), disk.boot()) {
        return Ok(Err("its live image is of another boot of the machine"));
    }
    let names = (noted.pool, noted.live, head.live);
    if names != (disk.pool_name(), live, live) || noted.salt != head.salt {
        return Ok(Err("its live image is of another state of the pool, or a copy"));
    }
    if noted.bad || head.bad || disk.check_live().is_err() {
        return Ok(Err("its live image could not be written to its disk"));
    }
    let ring = Ring::of(disk, head);
    // One part tells where the next one is; so they would be waited for one by one.
    begins(&words, head.at, noted.last).for_each(|place| ring.will_read(place));
    let bodies = noted.mount != disk.mount();
    let step = |at| {
        let mut ignore = |_: Lines<'_>| Ok(());
        ring.batch(head, at, if bodies { Some(&mut ignore) } else { None })
    };
    let mut at = head.at;
    while at.batch < noted.last.batch
        && let Some(behind) = step(at)?
    {
        at = behind;
    }
    if at != noted.last {
        return Ok(Err("its log does not lead to the state of its live image"));
    }
    if let Some(behind) = step(at)?
        && (head.closed || step(behind)?.is_some())
    {
        return Ok(Err("its log goes on behind the state of its live image"));
    }
    Ok(Ok(noted))
}

impl<D: LiveDisk> Core<D> {
    /// Goes on from what was found: see the module docs.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io), [`Full`](ErrorKind::Full).
    pub(super) fn begin(&self, found: &Found, strict: bool) -> Result<()> {
        match found {
            Found::Image(noted) => self.begin_image(noted, strict),
            Found::Base { to, pages } => self.begin_base(*to, pages),
        }
    }

    fn begin_image(&self, noted: &Noted, strict: bool) -> Result<()> {
        let head = self.head();
        let areas = [self.area_of_cut(noted), SumArea::of(self.disk.region())];
        let mut areas: Vec<_> = areas.into_iter().flatten().collect();
        areas.dedup();
        lock(&self.base).areas = areas;
        *lock(&self.is_doubted) = true;
        // With a batch behind it, there is no closed head on the disk, as which the pool would need no live image.
        if head.closed || noted.last == head.at {
            self.settle()?;
        }
        if head.closed {
            let next = Head { generation: head.generation + 1, closed: false, ..head };
            self.write_head(&next)?;
            self.set_head(next);
        }
        // Before the pool grows. A process that was killed in a close may have made it shorter.
        if self.begin_sums()? {
            self.disk.sync_data().map_err(|e| self.writing(e))?;
        }
        let epoch = next(noted.epoch);
        self.header().set_epoch(epoch);
        self.header().set_mount(self.disk.mount());
        self.start(epoch, noted.last);
        if noted.last != head.at {
            let mut base = lock(&self.base);
            base.noted_before = Some(noted.last);
            base.unsure_to = noted.last.batch;
        }
        self.unscanned.store(true, Ordering::Relaxed);
        if strict {
            self.commit(epoch);
        } else if !head.closed {
            // Processes that are killed one after the other, before an interval is over, would never write.
            self.call_at_once();
        }
        self.failure()
    }

    /// O4, by who takes the first snapshot, in the epoch that it ends. A line that a thread stores to before the scan comes to it may
    /// be listed by both.
    pub(super) fn scan(&self, epoch: u64) {
        let (slot, list) = (self.slot(), &self.slot().dirty[(epoch & 1) as usize]);
        let byte = epoch as u8;
        let (len, unused) = (self.disk.region().len(), self.disk.unused());
        for part in [0..unused.start.min(len), unused.end.min(len)..len] {
            let lines = part.start / LINE_BYTES..part.end / LINE_BYTES;
            let firsts = lines.clone().step_by(MARKS_AT_ONCE);
            for (first, marks) in firsts.zip(self.disk.marks(lines).chunks(MARKS_AT_ONCE)) {
                // Nearly all are zero.
                if marks.iter().fold(0, |any, mark| any | mark.load(Ordering::Relaxed)) == 0 {
                    continue;
                }
                list.reserve(MARKS_AT_ONCE as u64);
                let mut raised = 0;
                for (line, mark) in (first..).zip(marks) {
                    let found = mark.load(Ordering::Relaxed);
                    if found == 0 {
                        continue;
                    }
                    // One that seems to be of this epoch may be of a process long ago. Else a thread makes it the same meanwhile, or
                    // this does.
                    if found != byte {
                        let (set, seen) = (Ordering::AcqRel, Ordering::Relaxed);
                        raised += u64::from(mark.compare_exchange(found, byte, set, seen).is_ok());
                    }
                    list.push([line]);
                }
                slot.count_raised(raised);
            }
        }
        self.unscanned.store(false, Ordering::Release);
    }

    /// O1, before the first write to the pool's file. The last process may also have written pages through the cache, which are
    /// to be on the disk before others are written past it.
    pub(super) fn settle(&self) -> Result<()> {
        let mut is_doubted = lock(&self.is_doubted);
        if *is_doubted {
            let mut buffer = Vec::new();
            let bytes = aligned(&mut buffer, BLOCK_BYTES);
            let head = self.head();
            bytes.copy_from_slice(&head.to_bytes());
            let written = self.disk.write_log_soon(head.off(), bytes);
            written.and_then(|()| self.disk.flush_drive()).map_err(|e| self.writing(e))?;
        }
        *is_doubted = false;
        Ok(())
    }

    fn begin_base(&self, to: Position, pages: &BTreeSet<u64>) -> Result<()> {
        self.disk.begin()?;
        let (region, mut buffer) = (self.disk.region(), Vec::new());
        for page in pages {
            let off = page * BLOCK_BYTES as u64;
            // Lines behind the pool's end, stored before it was cut there, are not the pool's any more.
            let len = region.len().saturating_sub(off).min(BLOCK_BYTES as u64);
            if len == 0 {
                continue;
            }
            let bytes = aligned(&mut buffer, len as usize);
            for (word, bytes) in region.words(off, len / 8)?.iter().zip(bytes.chunks_exact_mut(8)) {
                bytes.copy_from_slice(&word.load().to_le_bytes());
            }
            self.disk.write_pages_lazily(off, bytes).map_err(|e| self.writing(e))?;
        }
        // Of blocks that are not there.
        if self.begin_sums()? || !pages.is_empty() {
            self.disk.sync_data().map_err(|e| self.writing(e))?;
        }
        let head = self.head();
        let salt = getrandom::u64()
            .map_err(|e| Error::io("asking for random bytes", None, io::Error::other(e)))?;
        let closed = Head { salt, at: to, ..head.disowned() };
        let has_boot = self.disk.boot() != [0; 2];
        // Nothing names it yet. If there is no space for it, the pool is as it was.
        let live = if has_boot {
            self.disk.make_live(&mut |off, bytes| self.verify_copied(off, bytes))?
        } else {
            FileName::default()
        };
        // A head that was closed says all that these would.
        if !head.closed {
            closed.pair().iter().try_for_each(|head| self.write_head(head))?;
        }
        (head.at.batch..to.batch).for_each(|batch| self.disk.remove_spill(batch + 1));
        if !has_boot {
            let what = "a live image needs a system that tells its boots apart (boot_id in /proc)";
            return Err(ErrorKind::Options { what }.into());
        }
        let (boot, pool, mount) = (self.disk.boot(), self.disk.pool_name(), self.disk.mount());
        let (epoch, bad) = (FIRST_EPOCH, false);
        self.header().make(&Noted { boot, pool, live, salt, epoch, last: to, bad, mount });
        let (generation, pool) = (closed.generation + 1, self.disk.file_id());
        let open = Head { generation, closed: false, live, boot, pool, ..closed };
        self.write_head(&open)?;
        self.set_head(open);
        self.start(epoch, to);
        Ok(())
    }

    /// The ring goes on behind `last`, in an epoch that no store was made in.
    fn start(&self, epoch: u64, last: Position) {
        self.barrier.begin(epoch);
        lock(&self.taker).last = last;
        lock(&self.applied).start(last);
        self.end.store(last.place, Ordering::Release);
    }
}
