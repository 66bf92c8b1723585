//! What a live image consists of in memory, and the marks of its lines.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use super::applied::Applied;
use super::barrier::{Barrier, byte_before};
use super::disk::LiveDisk;
use super::head::{Head, Header, Position, RING_OFF};
use super::parts::{Batch, ENTRY_BYTES};
use super::slot::Slot;
use crate::error::{Error, ErrorKind, Result};
use crate::medium::crew::Seat;
use crate::medium::group::Group;
use crate::medium::logged::Line;
use crate::medium::{Changes, LINE_BYTES, LogStats, SumArea};
use crate::primitive::lock;

/// A batch shall have no more than this part of the ring.
const BATCH_PART: u64 = 4;
/// Nor shall more of the ring be in use than this part before a line is marked.
const FREE_PART: u64 = 2;
/// A thread looks so often whether too many lines are marked: after as many as it has marked itself.
const LOOKS_EVERY: u64 = 64;
/// Bytes of a page, at the least.
const PAGE_BYTES: u64 = 4096;
const PAGE_LINES: u64 = PAGE_BYTES / LINE_BYTES;

/// Threads that work in the background, so that others need not wait.
pub(super) struct Wake {
    /// Takes snapshots, so long after the first store since the one before.
    pub(super) taker: Option<(Seat, Duration)>,
    /// Makes checkpoints.
    pub(super) checkpointer: Seat,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) lines: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) checkpoints: AtomicU64,
}

/// Who writes the base.
#[derive(Default)]
pub(super) struct Base {
    /// The pages of the checkpoint that is between C1 and C5.
    pub(super) under_way: Option<Arc<Vec<u64>>>,
    /// Where the check words of the base are: one place, and while the pool changes from it to another one, both.
    pub(super) areas: Vec<SumArea>,
    /// Up to this batch, a killed process may have written its pages to the base, or not.
    pub(super) unsure_to: u64,
    /// Ways out that were taken.
    pub(super) ways_out: u64,
    /// Batches up to there, from the head on, were noted by another process: their bits are still to be made.
    pub(super) noted_before: Option<Position>,
    /// A length for which there was no space.
    pub(super) refused: u64,
    /// The backup that is under way.
    pub(super) follower: Option<Follower>,
}

/// A backup, which has the lines of all batches from its beginning on, also of those that are gone from the ring.
pub(super) struct Follower {
    /// Behind the last batch that it has.
    pub(super) at: Position,
    /// Lines that it has not kept elsewhere yet, each behind its offset.
    pub(super) lines: Vec<u8>,
    /// Why it has come to its end.
    pub(super) failed: Option<Error>,
}

/// Who takes snapshots: one thread at a time.
pub(super) struct Taker {
    /// Behind the last batch.
    pub(super) last: Position,
    pub(super) batch: Batch,
    /// Lines of the epoch that is copied.
    pub(super) lines: Vec<u64>,
}

impl Taker {
    fn new(last: Position, part_entries: usize) -> Self {
        Taker { last, batch: Batch::new(part_entries), lines: Vec::new() }
    }
}

/// A live image over its files. See the [module docs](super) for the order of its steps.
pub(super) struct Core<D: LiveDisk> {
    pub(super) disk: D,
    pub(super) barrier: Barrier,
    id: u64,
    strict: bool,
    /// Lines of the epoch before are copied by the thread that changes them first.
    pub(super) copying: AtomicBool,
    /// Marks that became zero again, in all.
    pub(super) lowered: AtomicU64,
    /// A snapshot was called for and has not begun.
    pub(super) is_due: AtomicBool,
    /// The turn to take a snapshot, and the threads that wait for it.
    pub(super) group: Group,
    pub(super) taker: Mutex<Taker>,
    /// The last epoch whose snapshot is noted.
    pub(super) done: AtomicU64,
    /// Held while the base or a head is written; after `taker`, where both are.
    pub(super) base: Mutex<Base>,
    /// Marks of a killed process are still to be found (`Core::scan`).
    pub(super) unscanned: AtomicBool,
    /// Whether the head may be in the drive's cache only.
    pub(super) is_doubted: Mutex<bool>,
    /// Blocks that were found damaged when they were copied to the image.
    pub(super) damaged: Mutex<BTreeSet<u64>>,
    /// Held by who makes a backup.
    pub(super) backing_up: Mutex<()>,
    /// The durable head. Held for no longer than it takes to look.
    head: Mutex<Head>,
    /// Told when it moves.
    moved: Condvar,
    /// What the batches have changed since a checkpoint looked.
    pub(super) applied: Mutex<Applied>,
    /// The place behind the last batch.
    pub(super) end: AtomicU64,
    /// The error number of the first failure; zero if there was none.
    failed: AtomicI32,
    /// As who last looked for room saw it: who marks more lines soon waits.
    pub(super) is_nearly_full: AtomicBool,
    pub(super) counts: Counts,
    pub(super) wake: OnceLock<Wake>,
}

impl<D: LiveDisk> Core<D> {
    /// Over a disk that nobody stores to yet.
    pub(super) fn new(disk: D, head: Head, strict: bool) -> Self {
        let barrier = Barrier::new(1, strict);
        Core {
            id: barrier.slots.id(),
            barrier,
            strict,
            copying: AtomicBool::new(false),
            lowered: AtomicU64::new(0),
            is_due: AtomicBool::new(false),
            group: Group::new(strict),
            taker: Mutex::new(Taker::new(head.at, disk.part_entries())),
            done: AtomicU64::new(0),
            base: Mutex::default(),
            unscanned: AtomicBool::new(false),
            is_doubted: Mutex::default(),
            damaged: Mutex::default(),
            backing_up: Mutex::default(),
            head: Mutex::new(head),
            moved: Condvar::new(),
            applied: Mutex::new(Applied::new(head.at)),
            end: AtomicU64::new(head.at.place),
            failed: AtomicI32::new(0),
            is_nearly_full: AtomicBool::new(false),
            counts: Counts::default(),
            wake: OnceLock::new(),
            disk,
        }
    }

    pub(super) fn header(&self) -> Header<'_> {
        Header(self.disk.header())
    }

    /// Where readers in other processes find which epochs are on the disk, if they are to wait for that.
    pub(super) fn waited_for(&self) -> Option<&Changes> {
        self.disk.changes().filter(|_| self.strict)
    }

    #[inline(always)]
    pub(super) fn slot(&self) -> &Slot {
        self.barrier.slots.own(self.id)
    }

    pub(super) fn line(&self, line: u64) -> Line {
        let Ok(words) = self.disk.region().words(line * LINE_BYTES, LINE_BYTES / 8) else {
            unreachable!("what was marked lies in the image");
        };
        std::array::from_fn(|i| words[i].load())
    }

    /// Runs `store`, which stores to words of `lines` lines from `first` on, or changes none. It does not panic.
    #[inline(always)]
    pub(super) fn pass<T>(&self, first: u64, lines: u64, store: impl FnOnce() -> T) -> T {
        let slot = self.slot();
        let byte = self.barrier.byte_hint();
        let is_marked = |line, byte| self.disk.mark(line).load(Ordering::Acquire) == byte;
        if (first..first + lines).any(|line| !is_marked(line, byte)) {
            self.prepare(slot, first, lines);
        }
        let mut epoch = self.barrier.enter(slot);
        let mut raised = false;
        while (first..first + lines).any(|line| !is_marked(line, epoch as u8)) {
            raised = self.raise_all(slot, first, lines, epoch);
            if raised {
                break;
            }
            epoch = self.barrier.enter(slot);
        }
        let done = store();
        self.barrier.leave(slot);
        if raised {
            self.call();
        }
        done
    }

    /// Raises the marks of lines, if the lists have room for them. Else this thread, which came with an epoch that has ended,
    /// makes room outside, and is to enter again.
    #[cold]
    #[inline(never)]
    fn raise_all(&self, slot: &Slot, first: u64, lines: u64, epoch: u64) -> bool {
        let parity = (epoch & 1) as usize;
        if !slot.dirty[parity].has_room(lines) || !slot.saves[parity].has_room(lines) {
            self.barrier.leave(slot);
            self.prepare(slot, first, lines);
            return false;
        }
        (first..first + lines).for_each(|line| self.raise(slot, line, epoch));
        true
    }

    /// Step 0: page faults happen here, not inside; and a thread that marks too many lines waits here.
    #[cold]
    #[inline(never)]
    fn prepare(&self, slot: &Slot, first: u64, lines: u64) {
        for parity in 0..2 {
            slot.dirty[parity].reserve(lines);
            slot.saves[parity].reserve(lines);
        }
        let words = self.disk.region().words(first * LINE_BYTES, lines * LINE_BYTES / 8);
        let byte = self.barrier.byte_hint();
        for line in first..first + lines {
            if line != first && !(line * LINE_BYTES).is_multiple_of(PAGE_BYTES)
                || self.was_touched(line, byte)
            {
                continue;
            }
            if let Ok(words) = &words {
                words[((line - first) * LINE_BYTES / 8) as usize].touch();
            }
            let mark = self.disk.mark(line);
            if line == first || std::ptr::from_ref(mark).addr().is_multiple_of(PAGE_BYTES as usize)
            {
                // A compiler that knew the zero would leave out the store.
                mark.fetch_or(black_box(0), Ordering::Relaxed);
            }
        }
        let raised = slot.raised.load(Ordering::Relaxed);
        if raised >= slot.looks_at.load(Ordering::Relaxed) {
            slot.looks_at.store(raised + LOOKS_EVERY, Ordering::Relaxed);
            self.wait_for_room();
        }
    }

    /// True if a line of the page of this one has this mark, of the present epoch: its page, and that of the marks, were stored to a
    /// moment ago. A touch is an instruction that waits for the line, and for all stores before it.
    fn was_touched(&self, line: u64, byte: u8) -> bool {
        let first = line / PAGE_LINES * PAGE_LINES;
        let end = (first + PAGE_LINES).min(self.disk.region().len() / LINE_BYTES);
        (first..end).any(|line| self.disk.mark(line).load(Ordering::Relaxed) == byte)
    }

    /// Lines that are marked.
    fn marked(&self) -> u64 {
        let lowered = self.lowered.load(Ordering::Acquire);
        let slots = self.barrier.slots.all();
        let raised = slots.iter().map(|slot| slot.raised.load(Ordering::Relaxed)).sum::<u64>();
        raised.saturating_sub(lowered)
    }

    pub(super) fn head(&self) -> Head {
        *lock(&self.head)
    }

    /// Another head is durable now.
    pub(super) fn set_head(&self, head: Head) {
        *lock(&self.head) = head;
        self.moved.notify_all();
    }

    /// Bytes of the ring that are in use.
    pub(super) fn in_use(&self, head: &Head) -> u64 {
        self.end.load(Ordering::Acquire).saturating_sub(head.at.place)
    }

    /// Waits while more lines are marked than a batch shall have, or the ring is so full that only what is marked
    /// already has room: until a checkpoint ends.
    fn wait_for_room(&self) {
        while !self.has_failed() {
            let head = self.head();
            let most = head.ring_bytes / BATCH_PART / ENTRY_BYTES as u64;
            let (marked, in_use) = (self.marked(), self.in_use(&head));
            let next = in_use + marked * ENTRY_BYTES as u64;
            let is_nearly_full = marked * 4 > most * 3 || next * FREE_PART > head.ring_bytes;
            if is_nearly_full != self.is_nearly_full.load(Ordering::Relaxed) {
                self.is_nearly_full.store(is_nearly_full, Ordering::Relaxed);
            }
            if marked > most {
                // Takes a snapshot, or waits for the one who does.
                self.commit(self.barrier.epoch());
                continue;
            }
            let wake = self.wake.get();
            if marked > most / 2
                && let Some(Wake { taker: Some((taker, _)), .. }) = wake
            {
                taker.call(Duration::ZERO);
            }
            if in_use * FREE_PART <= head.ring_bytes {
                return;
            }
            // By the thread for it, or where there is none by this one; not if another has begun one.
            let is_called = wake.is_some_and(|wake| wake.checkpointer.call(Duration::ZERO));
            if is_called || !self.checkpoint(false) {
                self.wait_for_checkpoint(&head);
            }
        }
    }

    /// Waits a moment for another thread's checkpoint to end.
    pub(super) fn wait_for_checkpoint(&self, before: &Head) {
        let head = lock(&self.head);
        if head.generation == before.generation {
            // It may have failed.
            let _ = self.moved.wait_timeout(head, Duration::from_millis(10));
        }
    }

    /// Has a checkpoint made if a quarter of the ring is in use; where there is no thread for it, when half is.
    pub(super) fn call_checkpointer(&self) {
        if self.needs_checkpoint()
            && let Some(wake) = self.wake.get()
        {
            wake.checkpointer.call(Duration::ZERO);
        }
    }

    pub(super) fn needs_checkpoint(&self) -> bool {
        let head = self.head();
        self.in_use(&head) * 4 >= head.ring_bytes && !self.has_failed()
    }

    /// Steps 4 to 6: the first store to a line in this epoch.
    fn raise(&self, slot: &Slot, line: u64, epoch: u64) {
        // Before the mark: who finds that stores without coming here.
        if let Some(changes) = self.waited_for() {
            changes.stores_in(epoch);
        }
        let (byte, parity) = (epoch as u8, (epoch & 1) as usize);
        let mark = self.disk.mark(line);
        let mut found = mark.load(Ordering::Acquire);
        loop {
            if found == byte {
                // Another thread has listed it.
                return;
            }
            if found != byte_before(byte) || !self.copying.load(Ordering::Acquire) {
                // Others change it to the same, or from the byte before to zero, which comes first or fails. So two
                // threads may list a line, without harm.
                // What the scan finds changed it does not count.
                let is_first = self.unscanned.load(Ordering::Acquire);
                let before = mark.swap(byte, Ordering::AcqRel);
                if before == 0 || is_first && before != byte {
                    slot.count_raised(1);
                }
                break;
            }
            let copy = self.line(line);
            match mark.compare_exchange(found, byte, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let mut entry = [line; 9];
                    entry[1..].copy_from_slice(&copy);
                    slot.saves[parity].push(entry);
                    break;
                }
                Err(now) => found = now,
            }
        }
        slot.dirty[parity].push([line]);
    }

    /// Has a snapshot taken in time, after the first store since the one before began.
    ///
    /// A store that finds it called for: the call is taken back before a cut, and that comes after the store.
    #[inline]
    pub(super) fn call(&self) {
        if !self.is_due.load(Ordering::Relaxed) {
            self.call_taker(false);
        }
    }

    /// Has a snapshot taken as soon as there is a thread for it.
    pub(super) fn call_at_once(&self) {
        self.call_taker(true);
    }

    #[cold]
    fn call_taker(&self, at_once: bool) {
        if let Some(Wake { taker: Some((taker, every)), .. }) = self.wake.get()
            && !self.is_due.swap(true, Ordering::SeqCst)
            && !taker.call(if at_once { Duration::ZERO } else { *every })
        {
            // There is no thread that would. Stores of others may rely on this call by now.
            self.take_due();
        }
    }

    /// Takes a snapshot of all that was stored before.
    pub(super) fn take_due(&self) {
        // First: another's snapshot may be under way, before its cut, and serve for this one. Stores that have found it called
        // for are of no later epoch.
        self.is_due.store(false, Ordering::SeqCst);
        self.commit(self.barrier.epoch());
    }

    pub(super) fn is_done(&self, epoch: u64) -> bool {
        self.done.load(Ordering::Acquire) >= epoch
    }

    /// The first failure ends it. From then on every operation is an error, and may undo what it has done; so the live
    /// file keeps what it has: all that was acknowledged, and the rest as a kill would leave it.
    pub(super) fn fail(&self, e: &io::Error) {
        const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
        let errno = e.raw_os_error().filter(|errno| *errno != 0).unwrap_or(EIO);
        self.barrier.while_shut(|| {
            if !self.has_failed() {
                self.header().set_poisoned(errno);
                // First: what is stored from now on is not acknowledged.
                self.failed.store(errno, Ordering::SeqCst);
                self.disk.abandon_live();
            }
        });
        // Threads that wait for a checkpoint.
        self.moved.notify_all();
    }

    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) != 0
    }

    /// Why it has failed, if it has.
    pub(super) fn failure(&self) -> Result<()> {
        match self.failed.load(Ordering::Acquire) {
            0 => Ok(()),
            errno => Err(Error::io(
                "writing the log of the pool",
                self.disk.path().map(Into::into),
                io::Error::from_raw_os_error(errno),
            )),
        }
    }

    pub(super) fn stats(&self) -> LogStats {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LogStats {
            area_bytes: RING_OFF + self.head().ring_bytes,
            lines: count(&self.counts.lines),
            bytes: count(&self.counts.bytes),
            writes: count(&self.counts.writes),
            checkpoints: count(&self.counts.checkpoints),
            private_bytes: 0,
        }
    }
}

pub(super) fn io_of(e: Error) -> io::Error {
    match e.kind() {
        ErrorKind::Io { source, .. } => {
            source.raw_os_error().map_or_else(|| io::Error::other(""), io::Error::from_raw_os_error)
        }
        _ => io::Error::other("the log cannot be read"),
    }
}
