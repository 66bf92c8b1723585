//! A redo log of flushed lines: acknowledged operations survive the loss of power on any disk.
//!
//! A file that is mapped and written back by the kernel reaches the disk in any order, so after a
//! loss of power it may be a mixture that no design can recover. But a medium is told every line
//! that must be durable, in an order that every design survives being cut at. So here the program
//! works on an *image* that the kernel never writes back (a private mapping of the pool's file);
//! every line that is flushed is numbered and goes to a *log*, in the order of the numbers; and the
//! *pool* in the file is written from the log only. At every instant the log, up to its last sound
//! line, is one such prefix.
//!
//! # The order of writes
//!
//! | Step | Who | Before it | If it stops after this step |
//! |---|---|---|---|
//! | store | a thread, to the image | | nothing happened |
//! | flush: the line gets the next number and is copied to the staged lines | the same thread, under a short lock | | `Interval`: a line of the log, unless power fails. `Strict`: nothing happened |
//! | fence | | | (numbers are in order as it is) |
//! | write: staged lines, in order and without a gap, as blocks behind the last one | one thread at a time; in `Strict` a thread that drains, for all that have flushed | the ring has room for them | some of the blocks: those before the first bad one count |
//! | the write is durable | the disk | | lines of the log; a drain that waited for one of them returns |
//! | the lines are written to the pool, to any of its sectors at any time | the same writer | *the write is durable* | replayed over whatever is there |
//! | their staged places are free | | *the write is durable* | |
//! | checkpoint: block and number where the log will begin are noted | one thread at a time | all lines before were written to the pool | |
//! | the pool is synced | the same | | as before |
//! | a head with what was noted, over the older of two | the same | *the pool is synced* | the one or the other head; both are right |
//! | blocks before it may be written over | | *the head is durable* | |
//!
//! A log uses more of its area once it is half full (`extend.rs`).
//!
//! Recovery has a table of its own (`recover.rs`). Two rules carry everything:
//!
//! - **LOG-1** No byte of a line is written to the pool before the line, and all lines with smaller
//!   numbers, are durable in the log. So whatever part of these writes a crash leaves, replay from
//!   the head on writes each of these lines once more, the last of each line last.
//! - **LOG-2** No block is written over, and no staged line, before its contents are durable
//!   elsewhere: in the pool, before a durable head; in the log.
//!
//! With them, the pool after replay is exactly the pool of the head with all lines of the log
//! stored in order: as if the program had stopped, with nothing in its caches,
//! after the last flush that counts. Of a line that is in both no older state comes back, and no
//! store that was never flushed is there at all.
//!
//! # Why the number and the copy are one step
//! Two threads may flush one line (two records lie in it, say). Were the copy taken before the
//! number, an older copy could have the larger number, and be replayed last. Were it taken after
//! the number, without the lock, it could hold a store that *relies* on a line with a larger number:
//! thread A takes number 10 for line X and sleeps; B flushes line Y as number 11, fences, and stores
//! to X what relies on it; A copies that. A log that ends with line 10 then has the one without the
//! other. Under the lock, a copy holds only stores that were made before it, and whatever those rely
//! on has a smaller number. It also leaves no gaps to wait for: all that is between taking a number
//! and having copied the line is eight loads and eleven stores. A thread that is put to sleep there holds the
//! others up for as long as the system lets them run instead; a kill ends them all.
//!
//! Stores of one thread to one line are logged in program order, as that thread's flush copies
//! them all: `same_line_order`. Of another thread that stores to *the same line at the same time*, a
//! copy may hold a later store and not an earlier one; so a commit word may rely on others in its
//! line only where one lock guards all of the line. Where lines are shared by locks (records,
//! extent table) everything relied on is one word or unlinked.
//!
//! # Modes
//! `Strict`: a drain waits until flushed lines are durable. The first thread that comes to wait
//! writes them, for all; a thread that comes meanwhile waits for the next write, which
//! often another thread makes for it (`group.rs`). A batch of operations may [`defer`](Memory::defer) its drains: its
//! locks are released before it is durable, so from then on every operation of any thread, before it returns,
//! waits for all that was deferred ([`wait_until_durable`](Memory::wait_until_durable)). No operation reports a change
//! that might still be lost.
//!
//! `Interval`: no operation waits. A thread writes staged lines, every so often. They lie in a
//! shared mapping of the log's area, where the kernel keeps them when the process is killed; each
//! with a sum over its number, its words and the open's salt, so that after a loss of power they are
//! taken only as far as they continue the log. A private image and private staging would lose
//! acknowledged operations with the process.
//!
//! # Failures
//! The first write or sync that fails, or growth for another reason than a full disk, ends the log:
//! nothing is tried again, as a second sync may call success what the first one lost. No line is staged
//! any more. Every change then returns the system's error, and so does every lookup, in any mode: it
//! might tell of changes that were never written, or that were refused. Changes that were
//! acknowledged before are in the log, and are there at the next open.
//!
//! # Memory
//! The image is private: a page that was stored to is memory of this process, beside the page of the
//! file. Beyond a bound (`Options::private_bytes`, half of the machine's memory unless set) pages that
//! are equal to the file's are given back, by a step in the background (`reclaim.rs`). Pages beyond
//! the bound are those flushed while that step goes on: never more than a page for each line that the
//! log has room for, as these are the pages that may differ from the file. Space by which the pool grows while it
//! is open is memory of this process from the start, in huge pages, up to a quarter of the bound.

pub(in crate::medium) mod area;
mod background;
pub(in crate::medium) mod disk;
mod extend;
pub(in crate::medium) mod file;
pub(in crate::medium) mod format;
mod gate;
mod log;
#[cfg(not(loom))]
mod make;
mod mode;
mod private;
mod reclaim;
pub(in crate::medium) mod recover;
mod replay;
#[cfg(all(test, not(loom)))]
mod tests;

pub(super) use area::{
    OldLog, PoolView, SUPERBLOCK_BYTES, begin_file, empty_log, is_closed, is_copy,
    is_left_in_cache, log_range, name_file, pool_bytes, said_bytes,
};
pub use disk::Disk;
pub use file::FileDisk;
pub use format::Line;
pub use mode::SyncMode;
// For a pool that makes its log.
#[cfg(not(loom))]
pub(crate) use {
    area::{FORMAT_VERSION, LOG_OFF, TABLES, TABLES_OFF},
    format::{AREA_BYTES_MIN, LOG_ALIGN},
    make::{LogSpace, end_of_log, format_log, place_log, used_at_first},
};

use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::{Durability, LINE_BYTES, LogStats, Memory, Region, Storage};
use crate::copied::CopiedWords;
use crate::error::{ErrorKind, Result};
use crate::identity::FileId;
use crate::medium::background::Background;
use crate::primitive::lock;
use crate::word::{OnMedia, PmU64};
use format::Head;
use log::Log;
use recover::Recovered;

/// A pool behind a log. See the module docs in the source.
pub struct Logged<D: Disk> {
    log: Arc<Log<D>>,
    strict: bool,
    /// Tells this medium from others in what threads know of it.
    id: u64,
    /// Lines that were flushed by batches with deferred drains have smaller numbers.
    deferred: AtomicU64,
    /// The contents of the log at open, and the head to begin with, until it has begun.
    old: Mutex<Option<(Recovered, Head)>>,
    /// The threads in the background, if there are any.
    background: Option<Background>,
}

thread_local! {
    /// The medium on which this thread defers drains; zero if it does not.
    static DEFERS: Cell<u64> = const { Cell::new(0) };
    /// Lines with non-temporal stores that were not logged yet, one for each medium, as a
    /// processor's buffers would combine them: {medium, offset}.
    static COMBINING: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

impl<D: Disk + 'static> Logged<D> {
    /// The pool behind the log on `disk`, whose image shows what was `found`. Nothing is written before
    /// [`begin`](Storage::begin).
    pub(in crate::medium) fn over(disk: D, found: Recovered, strict: bool) -> Result<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let next = found.next(false)?;
        Ok(Logged {
            log: Arc::new(Log::new(disk, next, strict)?),
            strict,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            deferred: AtomicU64::new(0),
            old: Mutex::new(Some((found, next))),
            background: None,
        })
    }

    /// The steps of the threads in the background, to be taken by hand.
    #[cfg(any(test, feature = "sim"))]
    pub fn steps(&self) -> LogSteps<D> {
        LogSteps(Arc::clone(&self.log))
    }

    fn defers(&self) -> bool {
        DEFERS.get() == self.id
    }

    /// Logs the lines of what starts at address `at`.
    fn append(&self, at: usize, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let off = (at - self.region().base().addr().get()) as u64;
        let first = off / LINE_BYTES;
        let count = (off + bytes as u64).div_ceil(LINE_BYTES) - first;
        self.log.append(first * LINE_BYTES, count);
    }

    /// Logs the line that this thread stores to past the cache, if there is one other than `but`.
    fn end_combining(&self, but: Option<u64>) {
        // Of a thread that is about to end, none: see `store_nt`.
        let line = COMBINING.try_with(|lines| {
            let mut lines = lines.borrow_mut();
            let at = lines.iter().position(|(id, line)| *id == self.id && Some(*line) != but)?;
            Some(lines.swap_remove(at).1)
        });
        if let Ok(Some(off)) = line {
            self.log.append(off, 1);
        }
    }
}

/// The steps that threads in the background take on a log; they outlive the medium.
#[cfg(any(test, feature = "sim"))]
pub struct LogSteps<D: Disk>(Arc<Log<D>>);

#[cfg(any(test, feature = "sim"))]
impl<D: Disk> LogSteps<D> {
    /// Writes staged lines to the log.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) where the log has failed, now or before.
    pub fn write(&self) -> Result<()> {
        self.0.commit(self.0.next());
        self.0.failure()
    }

    /// Gives pages of the image back, if more are memory of this process than shall be.
    ///
    /// # Errors
    /// As [`write`](LogSteps::write).
    pub fn give_back(&self) -> Result<()> {
        if self.0.private.is_too_much() {
            self.0.give_back();
        }
        self.0.failure()
    }

    /// Writes back the lines of the log, and forgets them.
    ///
    /// # Errors
    /// As [`write`](LogSteps::write).
    pub fn checkpoint(&self) -> Result<()> {
        self.0.checkpoint();
        self.0.failure()
    }
}

impl<D: Disk + 'static> Memory for Logged<D> {
    const DRAIN_WAITS: bool = true;
    #[inline(always)]
    fn same_line_order(&self) -> bool {
        true
    }
    #[inline(always)]
    fn copy_words(&self, src: &[PmU64], dst: &mut CopiedWords) {
        dst.fill_at_once(src);
    }
    #[inline(always)]
    fn region(&self) -> &Region {
        self.log.disk.region()
    }
    #[inline]
    fn store(&self, word: &PmU64, v: u64) {
        gate::pass(|| word.store(v));
    }
    #[inline]
    fn cas(&self, word: &PmU64, old: u64, new: u64) -> Result<u64, u64> {
        gate::pass(|| word.cas(old, new))
    }

    fn store_nt(&self, word: &PmU64, v: u64) {
        let line = self.region().offset_of(word) / LINE_BYTES * LINE_BYTES;
        self.end_combining(Some(line));
        self.store(word, v);
        let noted = COMBINING.try_with(|lines| {
            let mut lines = lines.borrow_mut();
            if !lines.contains(&(self.id, line)) {
                lines.push((self.id, line));
            }
        });
        if noted.is_err() {
            // The thread is about to end, and drops a map of its own: nothing is combined any more.
            self.log.append(line, 1);
        }
    }

    #[inline]
    fn flush<T: OnMedia + ?Sized>(&self, obj: &T) {
        self.append(std::ptr::from_ref(obj).addr(), size_of_val(obj));
    }
    #[inline]
    fn fence(&self) {
        self.end_combining(None);
    }

    #[inline]
    fn drain(&self) {
        self.fence();
        if !self.strict {
            return;
        }
        let next = self.log.next();
        if self.defers() {
            self.deferred.fetch_max(next, Ordering::AcqRel);
        } else {
            self.log.commit(next);
        }
    }

    /// Many words at each pass of the gate, but not so many that it could not be closed.
    fn copy_in(&self, dst: &[PmU64], src: &[u8]) {
        const AT_ONCE: usize = 512;
        let (words, rest) = src.as_chunks::<8>();
        for (dst, words) in dst.chunks(AT_ONCE).zip(words.chunks(AT_ONCE)) {
            gate::pass(|| {
                for (word, bytes) in dst.iter().zip(words) {
                    word.store(u64::from_le_bytes(*bytes));
                }
            });
        }
        if let Some(word) = dst.get(words.len()).filter(|_| !rest.is_empty()) {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            self.store(word, u64::from_le_bytes(padded));
        }
    }

    /// Of the pool: the image has stores, too, that were never flushed.
    fn copy_durable(&self, off: u64, out: &mut [u8]) -> Result<()> {
        self.log.disk.read_pool(off, out)
    }

    fn defer(&self, defer: bool) {
        DEFERS.set(if defer { self.id } else { 0 });
    }
    #[inline]
    fn is_durable(&self) -> bool {
        let durable = !self.strict || self.log.is_durable(self.deferred.load(Ordering::Acquire));
        durable && !self.log.has_failed()
    }

    fn wait_until_durable(&self) -> Result<()> {
        if self.strict && !self.defers() {
            let deferred = self.deferred.load(Ordering::Acquire);
            if !self.log.is_durable(deferred) {
                self.log.commit(deferred);
            }
        }
        // In every mode: a lookup may have seen the store of a change that was refused.
        self.log.failure()
    }
}

impl<D: Disk + 'static> Storage for Logged<D> {
    fn begin(&self) -> Result<()> {
        let mut old = lock(&self.old);
        if let Some((found, next)) = &*old {
            self.log.disk.begin()?;
            recover::begin(&self.log.disk, found, *next)?;
            if found.lines > 0 {
                // All stores so far are in the pool now. If the pages stay, they cost memory.
                let _ = self.log.disk.forget(0, self.region().len());
            }
        }
        *old = None;
        Ok(())
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        self.log.failure()?;
        self.log.private.cover(bytes)?;
        self.log.disk.grow(bytes).inspect_err(|e| match e.kind() {
            ErrorKind::Full { .. } => {}
            // Of a write that failed, perhaps of something else, the system tells this once.
            ErrorKind::Io { source, .. } => self.log.fail(source),
            _ => self.log.fail(&io::Error::other("growing the pool")),
        })
    }

    /// For any range, everything that was flushed is in the log, on the disk, afterwards.
    fn sync(&self, _off: u64, _bytes: u64) -> Result<()> {
        self.fence();
        self.log.commit(self.log.next());
        self.log.failure()
    }

    /// Empties the log first: a pool that is closed is whole without it.
    fn trim(&self, bytes: u64) -> Result<()> {
        self.sync(0, bytes)?;
        self.log.close();
        self.log.failure()?;
        self.log.disk.trim(bytes)
    }
    fn durability(&self) -> Durability {
        if self.strict { Durability::Strict } else { Durability::Interval }
    }
    fn huge_bytes(&self) -> Option<u64> {
        super::dram::huge_bytes(self.region().base().addr().get() as u64, self.region().len())
    }
    fn log_stats(&self) -> Option<LogStats> {
        Some(self.log.stats())
    }
    fn file_id(&self) -> FileId {
        self.log.disk.file_id()
    }
    fn file_bytes(&self) -> u64 {
        self.log.disk.file_bytes()
    }
    fn path(&self) -> Option<&Path> {
        self.log.disk.path()
    }
}

impl<D: Disk> Drop for Logged<D> {
    fn drop(&mut self) {
        // They hold the log, too.
        if let Some(background) = self.background.take() {
            let is_own = background.is_own();
            background.stop();
            if is_own {
                // Acknowledged changes that are only staged: a map that was closed has none, but one that
                // was poisoned was not closed. No caller is left to hear of a failure.
                self.log.commit(self.log.next());
            }
        }
    }
}
