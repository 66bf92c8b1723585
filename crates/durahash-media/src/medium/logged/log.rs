//! The log: lines are numbered and staged, written as blocks, and forgotten by a checkpoint.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;

use super::disk::{Disk, aligned};
use super::format::{
    BLOCK_BYTES, BLOCK_LINES, Head, Layout, Line, STAGED_WORDS, fill_block, staged_sum,
};
use super::private::Private;
use super::recover::{write_head, write_heads};
use crate::error::{Error, Result};
use crate::medium::crew::Seat;
use crate::medium::group::Group;
use crate::medium::{Dram, LINE_BYTES, LogStats, Memory, Storage};
use crate::primitive::{Backoff, lock};
use crate::word::PmU64;

/// Blocks of one write, at the most: so many that a disk is busy with them for longer than it takes to answer. They are
/// about half of what a log of the usual size stages.
const BATCH_BLOCKS: u64 = 1024;
/// Lines that are staged under one hold of the lock, at the most.
const STAGED_AT_ONCE: u64 = 64;

#[derive(Default)]
struct Counts {
    bytes: AtomicU64,
    writes: AtomicU64,
    checkpoints: AtomicU64,
}

/// A log over a disk. See the [module docs](super) for the order of its steps.
pub(super) struct Log<D: Disk> {
    pub(super) disk: D,
    /// Where the parts of the area are. A holder of `writer` or `tail` sees it as it is.
    layout: AtomicU64,
    /// Half of it was in use since this was asked for the last time.
    pub(super) was_half_full: AtomicBool,
    /// Bytes of the rest of the pool when there was no space for a longer log.
    pub(super) refused_at: AtomicU64,
    salt: u64,
    /// Number of the line that comes next. The lock is held while a line gets its number and is
    /// copied; the mirror is for threads that only look.
    pub(super) tail: Mutex<u64>,
    next: AtomicU64,
    /// True if the writer was called and has not begun, or there is none. Changed while `tail` is locked. The thread that sets
    /// it calls after it has let `tail` go: lines that others stage in between rely on that call, and are as late as it is.
    is_due: AtomicBool,
    /// Where lines are staged that need not outlive the process.
    own: Option<Dram>,
    /// Number of the first line of this open.
    first: u64,
    /// All lines with smaller numbers are in the log, on the disk, and were written to the pool.
    durable: AtomicU64,
    pub(super) writer: Mutex<Writer>,
    /// The head on the disk; held during a checkpoint. Locked before `writer`, and that before `tail`.
    pub(super) head: Mutex<Head>,
    /// The first block that the head needs.
    start: AtomicU64,
    /// The error number of the first failure; zero if there was none.
    failed: AtomicI32,
    counts: Counts,
    pub(super) private: Private,
    /// The turn to write, and the threads that wait for it.
    group: Group,
    pub(super) wake: OnceLock<Wake>,
}

/// Threads that work in the background, so that others need not wait.
pub(super) struct Wake {
    /// Writes staged lines, so long after the first of them was staged.
    pub(super) writer: Option<(Seat, Duration)>,
    /// Makes checkpoints.
    pub(super) checkpointer: Seat,
}

/// Where the log goes on; held during a write.
pub(super) struct Writer {
    block: u64,
    chain: u32,
    head: Head,
    buffer: Vec<u8>,
}

/// [`lock`] for a mutex that is mostly held for less time than it takes to wake a thread: a thread sleeps
/// only after a long wait.
fn lock_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    const ROUNDS: u32 = 32;
    let mut backoff = Backoff::new();
    for _ in 0..ROUNDS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) => backoff.wait(),
        }
    }
    lock(mutex)
}

impl<D: Disk> Log<D> {
    /// A log that goes on from `head`, which is on the disk, and behind which nothing counts.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) where the system has no address space.
    pub(super) fn new(disk: D, head: Head, strict: bool) -> Result<Self> {
        let layout = head.parts;
        disk.lay_out(layout);
        let own = match disk.staged() {
            Some(_) => None,
            None => Some(Dram::new(layout.staged_bytes.max(disk.whole().staged_bytes))?),
        };
        let log = Log {
            private: Private::new(disk.region(), disk.private_bytes_max())?,
            layout: AtomicU64::new(layout.to_word()),
            was_half_full: AtomicBool::new(false),
            refused_at: AtomicU64::new(0),
            salt: head.salt,
            tail: Mutex::new(head.line),
            next: AtomicU64::new(head.line),
            is_due: AtomicBool::new(false),
            own,
            first: head.line,
            durable: AtomicU64::new(head.line),
            writer: Mutex::new(Writer {
                block: head.block,
                chain: head.chain,
                head,
                buffer: Vec::new(),
            }),
            start: AtomicU64::new(head.block),
            head: Mutex::new(head),
            failed: AtomicI32::new(0),
            counts: Counts::default(),
            group: Group::new(strict),
            wake: OnceLock::new(),
            disk,
        };
        log.grow_own(layout)?;
        Ok(log)
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::from_word(self.layout.load(Ordering::Acquire))
    }

    /// The parts of the area are these from now on; with nothing staged, and `writer` and `tail` locked.
    pub(super) fn set_layout(&self, parts: Layout) {
        self.disk.lay_out(parts);
        self.layout.store(parts.to_word(), Ordering::Release);
    }

    /// Memory for the staged lines of a log with these parts, where they need not outlive the process.
    pub(super) fn grow_own(&self, parts: Layout) -> Result<()> {
        self.own.as_ref().map_or(Ok(()), |own| own.grow(parts.staged_bytes))
    }

    /// Number of the line that comes next: all flushed so far have smaller ones.
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    fn slot(&self, number: u64) -> &[PmU64] {
        let at = number % self.layout().staged_lines() * STAGED_WORDS as u64;
        let words = match &self.own {
            Some(own) => own.region().words(at * 8, STAGED_WORDS as u64).ok(),
            None => self.disk.staged().map(|words| &words[at as usize..][..STAGED_WORDS]),
        };
        words.expect("the parts of the area are inside")
    }

    /// Stages `count` lines of the image from byte `off` on, one after the other.
    pub(super) fn append(&self, off: u64, count: u64) {
        let (mut at, end) = (off, off + count * LINE_BYTES);
        while at < end {
            if self.has_failed() {
                return;
            }
            let mut tail = lock_soon(&self.tail);
            // The last holder may have failed in the middle of a step.
            if self.has_failed() {
                return;
            }
            let capacity = self.layout().staged_lines();
            let in_use = *tail - self.durable();
            let lines = (capacity - in_use).min((end - at) / LINE_BYTES).min(STAGED_AT_ONCE);
            let mut too_much = false;
            for _ in 0..lines {
                self.stage(*tail, at);
                too_much |= self.private.add(at);
                *tail += 1;
                at += LINE_BYTES;
            }
            let next = *tail;
            self.next.store(next, Ordering::Release);
            let is_first = !self.is_due.load(Ordering::Relaxed);
            if is_first {
                self.is_due.store(true, Ordering::Relaxed);
            }
            drop(tail);
            if is_first {
                self.call_writer();
            }
            if lines == 0 {
                // There may be no other thread to make room.
                self.commit(next);
            } else if in_use < capacity / 2
                && in_use + lines >= capacity / 2
                && let Some(Wake { writer: Some((writer, _)), .. }) = self.wake.get()
            {
                writer.call(Duration::ZERO);
            }
            if too_much
                && let Some(wake) = self.wake.get()
                && !wake.checkpointer.call(Duration::ZERO)
                && self.private.is_turn()
            {
                // There is no thread that would.
                self.give_back();
            }
        }
    }

    /// Has the first line that is staged since a write, and those behind it, written in time.
    #[cold]
    fn call_writer(&self) {
        if let Some(Wake { writer: Some((writer, every)), .. }) = self.wake.get()
            && !writer.call(*every)
        {
            // There is no thread that would. Lines of others may be staged by now, which rely on this call.
            self.write_due();
        }
    }

    /// Writes what is staged when that is due, all of it: a line that is staged from now on leads to a call of its own.
    pub(super) fn write_due(&self) {
        let tail = lock(&self.tail);
        self.is_due.store(false, Ordering::Relaxed);
        drop(tail);
        self.commit(self.next());
    }

    /// Runs `f` while no line gets a number.
    pub(super) fn while_unnumbered(&self, f: impl FnOnce()) {
        let tail = lock_soon(&self.tail);
        f();
        drop(tail);
    }

    /// Where the line of this number lies in the pool, which is staged.
    pub(super) fn staged_off(&self, number: u64) -> u64 {
        self.slot(number)[1].load()
    }

    /// Copies the line at `off`, which is line number `number` of the log, with `tail` locked.
    fn stage(&self, number: u64, off: u64) {
        let Ok(words) = self.disk.region().words(off, LINE_BYTES / 8) else {
            unreachable!("what is flushed lies in the image");
        };
        let line: Line = std::array::from_fn(|i| words[i].load());
        let slot = self.slot(number);
        for (word, v) in slot[3..].iter().zip(line) {
            word.store(v);
        }
        slot[1].store(off);
        if self.own.is_none() {
            slot[2].store(staged_sum(self.salt, number, off, &line));
        }
        // Last: the process may be killed at any instant.
        slot[0].store(number);
    }

    /// Puts all lines below number `upto` on the disk, together with lines that others staged meanwhile;
    /// not if the log has failed.
    pub(super) fn commit(&self, upto: u64) {
        let is_done = || self.durable() >= upto || self.has_failed();
        while let Some(turn) = self.group.turn_unless(&is_done) {
            // A log that has failed meanwhile does not write again.
            if self.has_failed() {
                return;
            }
            let in_use = {
                let mut writer = lock(&self.writer);
                // The same.
                if self.has_failed() {
                    return;
                }
                if let Err(e) = self.write_batch(&mut writer) {
                    self.fail(&e);
                }
                writer.block - self.start.load(Ordering::Acquire)
            };
            drop(turn);
            if self.has_failed() {
                return;
            }
            if in_use * 2 >= self.layout().ring_blocks {
                self.was_half_full.store(true, Ordering::Relaxed);
                if let Some(wake) = self.wake.get() {
                    wake.checkpointer.call(Duration::ZERO);
                }
            }
            if self.is_tight(in_use) {
                self.relieve();
            }
        }
    }

    /// Writes staged lines, as far as there is room in the ring, and then to the pool.
    pub(super) fn write_batch(&self, writer: &mut Writer) -> io::Result<()> {
        let layout = self.layout();
        let ring = layout.ring_blocks;
        let from = self.durable();
        let free = ring - (writer.block - self.start.load(Ordering::Acquire));
        let lines = (self.next() - from).min(free.min(BATCH_BLOCKS) * BLOCK_LINES);
        let blocks = lines.div_ceil(BLOCK_LINES);
        let Writer { block, chain, head, buffer, .. } = writer;
        let bytes = aligned(buffer, blocks as usize * BLOCK_BYTES);
        let (mut number, end, mut last) = (from, from + lines, *chain);
        for bytes in bytes.chunks_exact_mut(BLOCK_BYTES) {
            let first = number;
            let (count, crc) = fill_block(head, last, [first, from], bytes, &mut || {
                let (off, line) = (number < end).then(|| self.staged_line(number))?;
                number += 1;
                Some((off, line))
            });
            debug_assert_eq!(number, first + count);
            last = crc;
        }
        let straight = (ring - *block % ring).min(blocks);
        let (straight, wrapped) = bytes.split_at(straight as usize * BLOCK_BYTES);
        let parts = [(*block, straight), (*block + (straight.len() / BLOCK_BYTES) as u64, wrapped)];
        for (block, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            self.disk.write_log(layout.block_off(block), part)?;
            self.counts.writes.fetch_add(1, Ordering::Relaxed);
        }
        // Only now: what is written there may be on the disk before this returns.
        for number in from..end {
            let (off, line) = self.staged_line(number);
            self.disk.write_line(off, &line);
        }
        self.counts.bytes.fetch_add(blocks * BLOCK_BYTES as u64, Ordering::Relaxed);
        (*block, *chain) = (*block + blocks, last);
        self.durable.store(end, Ordering::Release);
        Ok(())
    }

    fn staged_line(&self, number: u64) -> (u64, Line) {
        let slot = self.slot(number);
        debug_assert_eq!(slot[0].load(), number);
        (slot[1].load(), std::array::from_fn(|i| slot[3 + i].load()))
    }

    /// True if a writer must make room first. Where a thread in the background does so, no writer waits for
    /// it, and for the sync of the pool, while a single block is free.
    fn is_tight(&self, in_use: u64) -> bool {
        let ring = self.layout().ring_blocks;
        if self.wake.get().is_some() { in_use == ring } else { in_use * 4 >= ring * 3 }
    }

    /// Makes a checkpoint, unless another thread has made room meanwhile.
    fn relieve(&self) {
        let mut head = lock(&self.head);
        let in_use = lock(&self.writer).block - self.start.load(Ordering::Acquire);
        if self.is_tight(in_use) {
            self.checkpoint_from(&mut head, false);
        }
    }

    /// Forgets all lines that are in the log now, after the pool has them on the disk. The log uses more of
    /// its area then, if it is to.
    pub(super) fn checkpoint(&self) {
        let parts = self.prepare();
        let mut head = lock(&self.head);
        self.checkpoint_from(&mut head, false);
        if let Some(parts) = parts {
            self.extend(&mut head, parts);
        }
    }

    /// The last checkpoint: nothing is logged behind it. Both heads say so, and no line is left that
    /// the other one would bring back when the pool was changed without the log.
    pub(super) fn close(&self) {
        self.checkpoint_from(&mut lock(&self.head), true);
    }

    /// True if a checkpoint would be made ahead of need.
    pub(super) fn is_half_full(&self) -> bool {
        let in_use = lock(&self.writer).block - self.start.load(Ordering::Acquire);
        in_use * 2 >= self.layout().ring_blocks
    }

    pub(super) fn checkpoint_from(&self, head: &mut Head, closed: bool) {
        if self.has_failed() {
            return;
        }
        // The lock is not held any longer: others write on, and may need all of the ring for it.
        let next = Head { closed, ..self.behind(&lock(&self.writer), head) };
        self.move_to(head, next, closed);
    }

    /// The head behind all that is written.
    pub(super) fn behind(&self, writer: &Writer, head: &Head) -> Head {
        let (block, chain, line) = (writer.block, writer.chain, self.durable());
        Head { generation: head.generation + 1, line, block, chain, ..*head }
    }

    /// Syncs the pool, and then writes the next head; or `both` heads, so that it does
    /// not matter which of them is left.
    pub(super) fn move_to(&self, head: &mut Head, mut next: Head, both: bool) {
        if let Err(e) = self.disk.sync_data() {
            return self.fail(&e);
        }
        let written = if both {
            next.generation += 1;
            write_heads(&self.disk, next)
        } else if next.block != head.block {
            write_head(&self.disk, next)
        } else {
            next = *head;
            Ok(())
        };
        if let Err(e) = written {
            return self.fail(&e);
        }
        *head = next;
        // Only now may a thread write over blocks that the head before needs.
        self.start.store(next.block, Ordering::Release);
        self.counts.checkpoints.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn fail(&self, e: &io::Error) {
        const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
        let errno = e.raw_os_error().filter(|errno| *errno != 0).unwrap_or(EIO);
        // The first one counts; it is never tried again.
        let _ = self.failed.compare_exchange(0, errno, Ordering::SeqCst, Ordering::SeqCst);
    }

    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) != 0
    }

    /// Why the log has failed, if it has.
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

    #[inline]
    pub(super) fn is_durable(&self, upto: u64) -> bool {
        self.durable() >= upto
    }

    pub(super) fn stats(&self) -> LogStats {
        LogStats {
            area_bytes: self.layout().bytes(),
            lines: self.next() - self.first,
            bytes: self.counts.bytes.load(Ordering::Relaxed),
            writes: self.counts.writes.load(Ordering::Relaxed),
            checkpoints: self.counts.checkpoints.load(Ordering::Relaxed),
            private_bytes: self.private.bytes(),
        }
    }
}
