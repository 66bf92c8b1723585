//! Checkpoints: the base gets what the batches hold, so that the ring can be used again.
//!
//! | Step | Power lost after it |
//! |---|---|
//! | C1 what is *applied* is noted; then the bits of its pages are taken | as before |
//! | C2 those pages are copied from the image, word by word, some MiB at a time | as before |
//! | C3 a snapshot is noted whose cut came after the copies | as before, with its batch |
//! | C4 the copies are written, and their check words (**S-8**); when all are, a sync | pages old, new or torn: what differs lies in lines of batches from the head to that of C3, which are replayed |
//! | C5 the head is what C1 noted, over the older of two, durable | one head or the other; both right |
//! | C6 the ring up to there, and spill files up to there, are free | |
//!
//! C3 waits until the batch is *noted*: over one that is only durable the next process may write another.
//!
//! **The way out.** A snapshot that finds no room, while a checkpoint waits for it at C3 or there is none: it reads the batches from
//! the head to the noted one, writes their lines to the base in this order, syncs, and writes a head behind them. It uses no
//! page of the image and needs no room. It has the lock under which the base is written, and the checkpoint at C3
//! finds out that it was overtaken, and drops its copies. Batches of pages whose bits were taken are in the base then.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::core::{Base, Core, io_of};
use super::disk::LiveDisk;
use super::head::{Head, Position, RING_OFF};
use super::parts::{Lines, Pages, Ring};
use super::sums::{PAGE, Sums, writing};
use crate::error::{Error, Result};
use crate::medium::logged::disk::aligned;
use crate::medium::logged::format::{BLOCK_BYTES, put};
use crate::medium::{Line, sys};
use crate::primitive::lock;

/// Pages that are copied at a time: 16 MiB, as fresh memory costs more than a snapshot.
const COPIED_PAGES: usize = 1 << 12;
/// Bytes of the area that may be used for each byte of the rest of the pool.
const PER_BYTE: u64 = 4;

impl<D: LiveDisk> Core<D> {
    /// Brings all batches that are applied now to the base; false where another checkpoint is under way. One that `closes` leaves
    /// closed heads, if no batch came meanwhile.
    pub(super) fn checkpoint(&self, closes: bool) -> bool {
        self.checkpoint_or(closes).unwrap_or_else(|e| {
            self.fail(&io_of(e));
            true
        })
    }

    /// Makes a checkpoint if one is due, and then the ring longer if it is to be: under a load for which the next one is due before
    /// this one ends, too. False if none was made, or another thread's is under way, which is as good.
    pub(super) fn check_due(&self) -> bool {
        let made = self.needs_checkpoint() && self.checkpoint(false);
        if self.is_short() && !self.has_failed() {
            self.extend();
        }
        made
    }

    fn checkpoint_or(&self, closes: bool) -> Result<bool> {
        let (to, pages, ways_out) = {
            let mut base = lock(&self.base);
            if base.under_way.is_some() || self.has_failed() {
                return Ok(self.has_failed());
            }
            self.note_old(&mut base)?;
            let (to, pages) = lock(&self.applied).take();
            if to.batch <= self.head().at.batch {
                return Ok(true);
            }
            let pages = Arc::new(pages);
            base.under_way = Some(Arc::clone(&pages));
            (to, pages, base.ways_out)
        };
        let done = self.copy_pages(&pages, ways_out);
        let taker = closes.then(|| lock(&self.taker));
        let mut base = lock(&self.base);
        base.under_way = None;
        if !done? || base.ways_out != ways_out || self.has_failed() {
            return Ok(true);
        }
        self.disk.sync_data().map_err(|e| self.writing(e))?;
        let closed = taker.is_some_and(|taker| taker.last == to);
        self.move_head(&mut base, Head { at: to, closed, ..self.head() })?;
        Ok(true)
    }

    /// C2 to C4; false if a way out was taken meanwhile, or the log has failed.
    fn copy_pages(&self, pages: &[u64], ways_out: u64) -> Result<bool> {
        let mut buffer = Vec::new();
        for pages in pages.chunks(COPIED_PAGES) {
            let len = self.disk.region().len();
            let bytes = aligned(&mut buffer, pages.len() * BLOCK_BYTES);
            for (page, bytes) in pages.iter().zip(bytes.chunks_exact_mut(BLOCK_BYTES)) {
                let off = page * BLOCK_BYTES as u64;
                let words = (len - off).min(BLOCK_BYTES as u64) / 8;
                let words = self.disk.region().words(off, words)?;
                words.iter().zip(bytes.chunks_exact_mut(8)).for_each(|(word, bytes)| {
                    put(bytes, 0, &[word.load()]);
                });
            }
            fence(Ordering::SeqCst);
            self.commit(self.barrier.epoch());
            let base = lock(&self.base);
            if base.ways_out != ways_out || self.has_failed() {
                return Ok(false);
            }
            let off_and_len = |page: &u64| (page * PAGE, (len - page * PAGE).min(PAGE) as usize);
            for (page, bytes) in pages.iter().zip(bytes.chunks_exact_mut(BLOCK_BYTES)) {
                // The bytes of an area are not those of the image.
                for area in &base.areas {
                    let (off, page_bytes) = off_and_len(page);
                    let start = area.bytes().start.max(off);
                    let end = area.bytes().end.min(off + page_bytes as u64);
                    if start < end {
                        let bytes = &mut bytes[(start - off) as usize..(end - off) as usize];
                        self.disk.read_pool(start, bytes)?;
                    }
                }
            }
            let mut at = 0;
            for run in pages.chunk_by(|a, b| a + 1 == *b) {
                let off = run[0] * BLOCK_BYTES as u64;
                let run_bytes = ((len - off) as usize).min(run.len() * BLOCK_BYTES);
                let written = self.disk.write_pages(off, &bytes[at..at + run_bytes]);
                written.map_err(|e| self.writing(e))?;
                at += run.len() * BLOCK_BYTES;
            }
            let damaged = lock(&self.damaged).clone();
            let mut sums = Sums::new(&self.disk, &base.areas, &damaged);
            for (page, bytes) in pages.iter().zip(bytes.chunks_exact(BLOCK_BYTES)) {
                let (off, page_bytes) = off_and_len(page);
                sums.written(off, &bytes[..page_bytes], None)?;
            }
            sums.write()?;
        }
        Ok(true)
    }

    /// C5 and C6, with `base` locked and the base synced: `next` is the head, but for its generation. A closed one is written to both
    /// places.
    fn move_head(&self, base: &mut Base, next: Head) -> Result<()> {
        let before = self.head();
        if let Some(follower) = &mut base.follower {
            self.follow(follower, next.at);
        }
        let generation = before.generation + if next.closed { 2 } else { 1 };
        let next = Head { generation, ..next };
        debug_assert!(next.at.batch >= before.at.batch);
        if next.closed {
            self.write_head(&next.pair()[0])?;
        }
        self.write_head(&next)?;
        self.set_head(next);
        (before.at.batch..next.at.batch).for_each(|batch| self.disk.remove_spill(batch + 1));
        self.counts.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn write_head(&self, head: &Head) -> Result<()> {
        self.settle()?;
        let mut buffer = Vec::new();
        let bytes = aligned(&mut buffer, BLOCK_BYTES);
        bytes.copy_from_slice(&head.to_bytes());
        self.disk.write_log(head.off(), bytes).map_err(|e| self.writing(e))
    }

    pub(super) fn writing(&self, e: io::Error) -> Error {
        writing(&self.disk, e)
    }

    /// O6: the pages of batches that another process had noted, before the first checkpoint of this one. What a failed sync
    /// of that process has hidden is written once more, too.
    pub(super) fn note_old(&self, base: &mut Base) -> Result<()> {
        let Some(noted) = base.noted_before else { return Ok(()) };
        let (mut pages, end) = (BTreeSet::new(), self.disk.region().len());
        self.each_line(self.head().at, noted, &mut |off, _| {
            // Not of what was cut off by a close that did not come to its end.
            if off < end {
                pages.insert(off / BLOCK_BYTES as u64);
            }
            Ok(())
        })?;
        let mut applied = lock(&self.applied);
        pages.into_iter().for_each(|page| applied.set(page));
        base.noted_before = None;
        Ok(())
    }

    /// The lines of the batches behind `at`, which no head is behind, up to `to`.
    pub(super) fn each_line(
        &self,
        mut at: Position,
        to: Position,
        take: &mut dyn FnMut(u64, &Line) -> Result<()>,
    ) -> Result<()> {
        let head = &self.head();
        let ring = Ring::of(&self.disk, head);
        let mut each = |lines: Lines<'_>| lines.iter().try_for_each(|(off, line)| take(off, &line));
        while at.batch < to.batch {
            at = ring.batch(head, at, Some(&mut each))?.ok_or_else(|| {
                Error::corrupt("the log is damaged (place in the log's ring)", at.place)
            })?;
        }
        Ok(())
    }

    /// Room in the ring, for who has the turn to take a snapshot; `last` is behind the last batch.
    pub(super) fn make_room(&self, last: Position) -> io::Result<()> {
        let mut base = lock(&self.base);
        // A checkpoint may just have ended.
        if self.head().at.batch == last.batch {
            return Ok(());
        }
        self.way_out(&mut base, last).map_err(io_of)
    }

    fn way_out(&self, base: &mut Base, last: Position) -> Result<()> {
        base.ways_out += 1;
        let head = self.head();
        let (mut pages, end) = (Pages::default(), self.disk.region().len());
        let (areas, damaged) = (&base.areas, lock(&self.damaged).clone());
        let sums = || Sums::new(&self.disk, areas, &damaged);
        let may_differ = head.at.batch < base.unsure_to;
        self.each_line(head.at, last, &mut |off, line| {
            // What a batch has of an area's bytes is older than the area.
            if off >= end || areas.iter().any(|area| area.bytes().contains(&off)) {
                return Ok(());
            }
            if pages.is_full() {
                pages.write(&self.disk, sums(), may_differ)?;
            }
            pages.put(off, line);
            Ok(())
        })?;
        pages.write(&self.disk, sums(), may_differ)?;
        self.disk.sync_data().map_err(|e| self.writing(e))?;
        base.noted_before = None;
        // A checkpoint writes no page, and so no check word, of which no batch behind the head has a line (S-8).
        lock(&self.applied).clear();
        self.move_head(base, Head { at: last, ..head })
    }

    /// The live file is damaged: there is no batch of it, and no later process trusts it.
    pub(super) fn give_up(&self, e: &io::Error) {
        self.header().set_bad();
        let _base = lock(&self.base);
        let head = self.head();
        let bad = Head { bad: true, generation: head.generation + 1, ..head };
        // If it cannot be written, the header says so in this boot.
        if self.write_head(&bad).is_ok() {
            self.set_head(bad);
        }
        self.fail(e);
    }

    /// The last checkpoint, when nobody stores any more: the base is the whole pool.
    pub(super) fn close(&self) -> Result<()> {
        loop {
            self.commit(self.barrier.epoch());
            self.failure()?;
            let taker = lock(&self.taker);
            let (last, head) = (taker.last, self.head());
            if head.closed {
                return Ok(());
            }
            if head.at == last {
                let _base = lock(&self.base);
                let next = Head { closed: true, generation: head.generation + 2, ..self.head() };
                let written = next.pair().iter().try_for_each(|head| self.write_head(head));
                if let Err(e) = written {
                    self.fail(&io_of(e));
                    return self.failure();
                }
                self.set_head(next);
                return Ok(());
            }
            drop(taker);
            if !self.checkpoint(true) {
                self.wait_for_checkpoint(&head);
            }
        }
    }

    /// The ring's bytes that a pool of this size shall have, if these are more.
    fn wanted_ring(&self) -> Option<u64> {
        let most = self.disk.log_bytes() - RING_OFF;
        let rest = self.disk.bytes_beside_log().min(self.disk.log_bytes());
        let wanted = (rest * PER_BYTE).next_power_of_two().min(most);
        (wanted / 2 >= self.head().ring_bytes || wanted == most)
            .then_some(wanted)
            .filter(|wanted| *wanted > self.head().ring_bytes && !self.has_failed())
    }

    pub(super) fn is_short(&self) -> bool {
        self.wanted_ring().is_some_and(|wanted| wanted > lock(&self.base).refused)
    }

    /// Lets the ring have more of its area, if the pool has grown: when what counts lies in one lap, so that all of it is at
    /// the same place of the longer ring.
    pub(super) fn extend(&self) {
        let Some(wanted) = self.wanted_ring() else { return };
        let in_one_lap = |head: &Head, end: u64| end <= head.lap().end;
        let head = self.head();
        if !in_one_lap(&head, self.end.load(Ordering::Acquire)) {
            return;
        }
        match self.disk.fill_log(RING_OFF + head.ring_bytes, RING_OFF + wanted) {
            Ok(()) => {}
            Err(e) if sys::is(&e, rustix::io::Errno::IO) => return self.fail(&e),
            // Each try takes the last space of a disk for a moment.
            Err(_) => {
                lock(&self.base).refused = wanted;
                return;
            }
        }
        let taker = lock(&self.taker);
        let _base = lock(&self.base);
        let head = self.head();
        if self.has_failed() || !in_one_lap(&head, taker.last.place) {
            return;
        }
        let (start, generation) = (head.lap().start, head.generation + 1);
        let next = Head { generation, start, ring_bytes: wanted, ..head };
        match self.write_head(&next) {
            Ok(()) => self.set_head(next),
            Err(e) => self.fail(&io_of(e)),
        }
    }
}
