//! Snapshots: the lines that changed in an epoch, as they were at its end, become a batch.
//!
//! | Step | Killed after it | Power lost after it |
//! |---|---|---|
//! | S1 copies are to be made | marks that are not zero name all lines that differ from the base and the noted batches | the cut before |
//! | S2 the header names the next epoch; the cut (`barrier.rs`) | the same | the same |
//! | S3 of each listed line: if it has the epoch's mark, it is copied; a fence; if it still has the mark, the copy counts. Else it is missing | the same | the same |
//! | S4 if any is missing: each thread is seen outside once. Then the length of each list of copies is read, once, and so much of it taken | the same | the same |
//! | S5 no copies any more. The system is asked for errors of the live file: with one there is no batch (`Core::give_up`) | the same | the same |
//! | S6, S7 when there is room in the ring, part by part is written, each durable when that returns; a batch that is longer than half the ring to a file first | the next process goes on behind the noted batch; these lines are still marked | without the final part, the cut before; with it, **this cut** |
//! | S8 the batch is noted in the header; who waits for it returns | the next process goes on behind it; its lines are marked, and come once more | this cut |
//! | S9 bits of the pages, for the next checkpoint; then the batch is *applied* | bits are made anew from the ring | this cut |
//! | S10 of each listed line: the mark changes from this epoch's to zero, by one exchange | a line without a mark is as in the base and the noted batches | this cut |
//! | S11 the lists of this epoch are empty | | |
//!
//! The copies are of the cut: a store of the next epoch comes after the mark of that epoch, and a thread that reads it and
//! fences sees that mark; so a copy behind which the old mark is still there has no such store. The thread that changed the mark
//! meanwhile copied the line before, and was inside until behind the append to its list.

use std::io;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::barrier::next;
use super::core::{Core, Taker, io_of};
use super::disk::LiveDisk;
use super::parts::Ring;
use crate::medium::{LINE_BYTES, prefetch_line};
use crate::primitive::{lock, rest, spin};

/// Lines that are fetched ahead.
const AHEAD: usize = 16;
/// Between two looks at a thread that stays inside.
const REST: Duration = Duration::from_micros(30);

/// A snapshot that panics, which only a bug makes it do, leaves lists that the next one would misunderstand.
struct Unfinished<'a, D: LiveDisk>(&'a Core<D>);

impl<D: LiveDisk> Drop for Unfinished<'_, D> {
    fn drop(&mut self) {
        self.0.fail(&io::Error::other("a snapshot has panicked"));
    }
}

impl<D: LiveDisk> Core<D> {
    /// Waits until the snapshot of `epoch` is noted, which this thread takes if no other does; not if there was a failure.
    pub(super) fn commit(&self, epoch: u64) {
        let is_done = || self.is_done(epoch) || self.has_failed();
        while let Some(turn) = self.group.turn_unless(&is_done) {
            // One that has failed meanwhile does not write again.
            if self.has_failed() {
                return;
            }
            let guard = Unfinished(self);
            if let Err(e) = self.take(&mut lock(&self.taker)) {
                self.fail(&e);
            }
            std::mem::forget(guard);
            drop(turn);
            self.call_checkpointer();
        }
    }

    fn take(&self, taker: &mut Taker) -> io::Result<()> {
        let epoch = self.barrier.epoch();
        let scans = self.unscanned.load(Ordering::Relaxed);
        if scans {
            self.scan(epoch);
        }
        // S1. A call that comes from now on is for the next one.
        self.is_due.store(false, Ordering::SeqCst);
        self.copying.store(true, Ordering::SeqCst);
        // S2
        self.header().set_epoch(next(epoch));
        let cut = self.barrier.cut();
        if cut.is_err() {
            self.copying.store(false, Ordering::SeqCst);
        }
        cut?;
        if self.has_failed() {
            // Since the last look: the image is private, and no batch may have what the live file lacks.
            self.copying.store(false, Ordering::SeqCst);
            return Ok(());
        }
        // S3
        let slots = self.barrier.slots.all();
        let (parity, byte) = ((epoch & 1) as usize, epoch as u8);
        let Taker { batch, lines, .. } = taker;
        batch.clear();
        lines.clear();
        for slot in &slots {
            let list = &slot.dirty[parity];
            lines.extend((0..list.len()).map(|i| list.get(i)[0]));
        }
        if scans {
            // A thread may have listed lines, too, of which the batch would be too long.
            lines.sort_unstable();
            lines.dedup();
        }
        batch.reserve(lines.len());
        let mut missing = false;
        for (i, line) in lines.iter().enumerate() {
            if let Some(ahead) = lines.get(i + AHEAD) {
                self.disk.region().speculate(ahead * LINE_BYTES);
                prefetch_line(std::ptr::from_ref(self.disk.mark(*ahead)).cast());
            }
            let is_marked = |order| self.disk.mark(*line).load(order) == byte;
            if is_marked(Ordering::Acquire) {
                let copy = self.line(*line);
                fence(Ordering::Acquire);
                if is_marked(Ordering::Relaxed) {
                    batch.push(line * LINE_BYTES, &copy);
                    continue;
                }
            }
            missing = true;
        }
        // S4. Threads that come from now on save nothing that is missing.
        if missing {
            // The last look may have seen a mark and nothing that came before it.
            fence(Ordering::Acquire);
            let slots = self.barrier.slots.all();
            for slot in &slots {
                let mut rounds = 0_u32;
                while slot.inside.load(Ordering::Acquire) != 0 {
                    // It may be stopped for long, or wait for this processor.
                    rounds = rounds.saturating_add(1);
                    if rounds < 1000 { spin() } else { rest(REST) }
                }
            }
            let lens: Vec<u64> = slots.iter().map(|slot| slot.saves[1 - parity].len()).collect();
            batch.reserve(lines.len() + lens.iter().sum::<u64>() as usize);
            for (slot, len) in slots.iter().zip(lens) {
                for i in 0..len {
                    let entry = slot.saves[1 - parity].get(i);
                    let copy = std::array::from_fn(|k| entry[1 + k]);
                    batch.push(entry[0] * LINE_BYTES, &copy);
                }
            }
        }
        // S5
        self.copying.store(false, Ordering::SeqCst);
        if let Err(e) = self.disk.check_live() {
            self.give_up(&e);
            return Err(e);
        }
        self.write(taker)?;
        if let Some(changes) = self.waited_for() {
            changes.durable_to(epoch);
        }
        self.forget_marks(epoch, &taker.lines);
        // S11
        for slot in self.barrier.slots.all() {
            slot.dirty[parity].clear();
            slot.saves[parity].clear();
        }
        self.done.store(epoch, Ordering::Release);
        Ok(())
    }

    /// S6 to S9.
    fn write(&self, taker: &mut Taker) -> io::Result<()> {
        self.settle().map_err(io_of)?;
        let Taker { last, batch, lines } = taker;
        if batch.is_empty() {
            return Ok(());
        }
        let head = loop {
            let head = self.head();
            if last.place + batch.ring_bytes(&head) - head.at.place <= head.ring_bytes {
                break head;
            }
            self.make_room(*last)?;
        };
        let sealed = batch.seal(&head, *last);
        if let Some(spill) = &sealed.spill {
            self.disk.write_spill(sealed.end.batch, spill)?;
        }
        let ring = Ring::of(&self.disk, &head);
        for (at, part) in sealed.parts() {
            ring.write(last.place + at, part)?;
            self.counts.writes.fetch_add(1, Ordering::Relaxed);
            self.counts.bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
        *last = sealed.end;
        // S8
        self.header().note(*last);
        // S9
        self.counts.lines.fetch_add(lines.len() as u64, Ordering::Relaxed);
        lock(&self.applied).add(lines, *last);
        self.end.store(last.place, Ordering::Release);
        Ok(())
    }

    /// S10.
    fn forget_marks(&self, epoch: u64, lines: &[u64]) {
        let byte = epoch as u8;
        let forgotten = lines.iter().enumerate().filter(|(i, line)| {
            if let Some(ahead) = lines.get(i + AHEAD) {
                prefetch_line(std::ptr::from_ref(self.disk.mark(*ahead)).cast());
            }
            let mark = self.disk.mark(**line);
            mark.compare_exchange(byte, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        self.lowered.fetch_add(forgotten.count() as u64, Ordering::Release);
    }
}
