//! A pool whose program works on a *live image* that outlives the process, and whose file is written from snapshots of it.
//!
//! Stores go to the live image, a file that is mapped shared: when the process is killed the kernel has them all. It
//! may write them back at any time and in any order, so after a loss of power the live image is worth nothing. Every interval
//! a *snapshot* therefore appends the lines that have changed to a ring in the pool's file, as one *batch*: a consistent cut of all
//! stores. A *checkpoint* brings batches to the pool's own bytes, the *base*.
//!
//! | part | where | survives |
//! |---|---|---|
//! | live image | live file; the kernel may write it back at any time, in any order | `kill -9` |
//! | marks, a byte for each line; header | live file | `kill -9` |
//! | base; ring of batches; two heads; spill files | the pool's file; spill files beside it | loss of power |
//! | state of the gate, lists of lines and copies, bits of pages | memory | nothing |
//!
//! A set of stores is a *consistent cut* if with a store it has all that happened before it: earlier stores of its thread, and
//! stores that its thread had seen, by whatever way. A cut is one of the states that the flushes and fences of a design
//! allow, so these do nothing here.
//!
//! A *mark* is zero, or the lowest byte of the epoch in which its line was first stored to and is not durable yet.
//! A batch is *durable* when its write has returned, and *noted* when the header says so, too.
//!
//! # Rules
//! - **S-1** All stores of an epoch happen before its cut, and the cut before all stores of the next (`barrier.rs`).
//! - **S-2** No byte reaches the base before a batch that has it, or a later one of its line, is noted, and all batches before that.
//! - **S-3** No part is written over before a durable head is behind it; no head is written before the base is synced; no head
//!   goes back. A head is written by who holds the lock of the base.
//! - **S-4** A line that differs from the base with the noted batches has a mark, before it differs.
//! - **S-5** While an epoch is copied, the first change of one of its lines in the next is preceded by a copy.
//! - **S-6** No batch gets its final part if the live file had an error when it was written back before the last copy.
//! - **S-7** Before the ring or the base is written the head that was read is durable, and not closed; before the first store none on the
//!   disk that would count is closed.
//! - **S-8** A block of the base that has no mark in the area of check words, and no line in a batch behind the head, has the sum
//!   that the base has for it. Only who writes the base writes that area: the image's bytes of it mean nothing.
//!
//! The steps stand in `barrier.rs` (a store, a cut), `core.rs` (marks), `snapshot.rs`, `checkpoint.rs`, and `open.rs`.
//!
//! # Check words
//! Each write of pages to the base is followed by their sums, before the sync that the head waits for. So S-8 needs no order between
//! a page and its sum: of either a loss of power may leave what was there before, but then the head is the old one, and the page has
//! lines in batches behind it, of which replay marks all blocks.
//!
//! | Step | Words in the base | Power lost after it |
//! |---|---|---|
//! | C4, for some pages | sums of what was written, and no marks of these blocks; not synced | words and pages old or new, each by itself: all of them are marked by replay |
//! | C4, the sync | | the same |
//! | C5 | | the new head: blocks without lines behind it have right sums |
//! | way out | the same for its pages. What a page has of the base is verified before: where a killed process may have written it, and it is not right, the block gets a mark | the same |
//! | replay | marks of all blocks of pages that get lines, with these pages; sync; then the heads | replayed once more |
//! | begin | marks of blocks behind the pool's end, as bytes that come to be there are zeros; synced before it grows | the same |
//! | another area; close | see `verify.rs` | |
//!
//! This costs a checkpoint a page of sums for each 1,024 blocks among which it writes one, and one of marks for each 32,768.
//!
//! After a kill the kernel has all that was written; what it lost in silence has lines in the batches whose pages O6 takes, and
//! their words are written with them. Of pages that have such lines nothing is verified before.
//!
//! Bytes that are copied from the base to a new image are verified then. A block that is damaged keeps a wrong sum, whatever is
//! stored there, until this process is killed. What changes by itself in an image, in a page that a checkpoint then writes before
//! anybody has verified it, gets a sum that is right.
//!
//! # Modes
//! `Interval`: nobody waits. A thread takes a snapshot so long after the first store since the one before. `Strict`: a drain waits for
//! the snapshot of the epoch in which it ends, which the first to wait takes, for all that come meanwhile. Drains
//! that are [deferred](Memory::defer) note the epoch instead, and every operation waits for that before it returns. With readers in other
//! processes (`mapped/seen.rs`) a thread takes snapshots in `Strict`, too: of stores behind which no drain comes.
//!
//! # Failures
//! The first write or sync that fails ends it: nothing is tried again, and every operation returns the error. With the gate
//! closed the image becomes private, as operations that fail may undo what they have stored. The next process in the same boot trusts the live image, which has every store. If the *live file* could not be written
//! back, the kernel may have dropped a page of it: the batch at hand is given up, header and head say *bad*, and
//! the next process takes base and batches, if its caller accepts that. An error between two processes can vanish with the
//! inode's memory: this gap is not closed. A live file in memory does not have it.
//!
//! A ring that cannot be read fails the first checkpoint after a kill, while the image is whole: what to do then is to
//! dump it. A forked child has no mapping of the image. A signal handler may not store: a thread has one `inside`, and lists
//! to which nobody else appends.
//!
//! # Not yet
//! Copies of parts of the base instead of all of it when a live file is made. An operation does not yield while a snapshot is late: so where all
//! processors are busy, the cut that a loss of power leaves grows older, up to what half of the ring holds.
//!
//! Writers in several processes: `docs/durability.md` says what they would need.

// From low to high.
pub(in crate::medium) mod head;
mod planted;
mod slot;

mod applied;
mod barrier;
pub(in crate::medium) mod disk;

mod sums;

mod parts;

mod core;

mod checkpoint;
mod snapshot;

mod background;
mod open;

mod verify;

mod backup;

mod beside;

#[cfg_attr(loom, allow(dead_code, reason = "live files are not modelled"))]
mod layout;

#[cfg(not(loom))]
mod place;

#[cfg(not(loom))]
mod file;
#[cfg(all(test, loom))]
mod loom;
#[cfg(all(test, not(loom), not(miri)))]
mod tests;

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::core::Core;
use super::{
    Blank, Changes, CopiedAs, DiskSums, Durability, LINE_BYTES, LogStats, Memory, Region, Storage,
    SumArea,
};
use crate::copied::CopiedWords;
use crate::error::{ErrorKind, Result};
use crate::identity::FileId;
use crate::medium::background::Background;
use crate::primitive::lock;
use crate::word::{OnMedia, PmU64};
use open::Found;

pub(super) use beside::{EXTENTS_LINE, Writer};
pub use disk::{LiveDisk, LiveSource};
#[cfg(not(loom))]
pub use file::LiveFiles;
pub use head::{FileName, LIVE_WORDS};
pub(super) use layout::Layout;
#[cfg(any(test, feature = "sim"))]
pub(super) use parts::{Places, batches, part_of};

/// A pool with a live image. See the module docs in the source.
pub struct Live<D: LiveDisk> {
    core: Arc<Core<D>>,
    strict: bool,
    /// The file is a copy of one that was in use.
    is_copy: bool,
    /// Tells this medium from others in what threads know of it.
    id: u64,
    /// Batches of operations with deferred drains ended in this epoch or before.
    deferred: AtomicU64,
    /// The state to go on from, until it has begun.
    found: Mutex<Option<Found>>,
    /// The threads in the background, if there are any.
    background: Option<Background>,
}

thread_local! {
    /// The medium on which this thread defers drains; zero if it does not.
    static DEFERS: Cell<u64> = const { Cell::new(0) };
}

impl<D: LiveDisk + 'static> Live<D> {
    /// The pool on `disk`, with the ring of `head`. Nothing is written before [`begin`](Storage::begin).
    pub(in crate::medium) fn over(
        disk: D,
        head: head::Head,
        strict: bool,
        accept_suspect: bool,
    ) -> Result<Self> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let mut disk = disk;
        let found = open::look(&disk, &head, accept_suspect)?;
        disk.shown()?;
        let core = Core::new(disk, head, strict);
        lock(&core.base).areas.extend(SumArea::of(core.disk.region()));
        Ok(Live {
            core: Arc::new(core),
            strict,
            is_copy: false,
            id: IDS.fetch_add(1, Ordering::Relaxed),
            deferred: AtomicU64::new(0),
            found: Mutex::new(Some(found)),
            background: None,
        })
    }

    /// The steps of the threads in the background, to be taken by hand.
    #[cfg(any(test, feature = "sim"))]
    pub fn steps(&self) -> LiveSteps<D> {
        LiveSteps(Arc::clone(&self.core))
    }

    fn defers(&self) -> bool {
        DEFERS.get() == self.id
    }

    /// The lines of words that lie in the image: the first, and how many.
    #[inline(always)]
    fn lines_of(&self, words: &[PmU64]) -> (u64, u64) {
        let off = (words.as_ptr().addr() - self.region().base().addr().get()) as u64;
        let first = off / LINE_BYTES;
        (first, (off + size_of_val(words) as u64).div_ceil(LINE_BYTES) - first)
    }
}

/// The steps that threads in the background take; they outlive the medium.
#[cfg(any(test, feature = "sim"))]
pub struct LiveSteps<D: LiveDisk>(Arc<Core<D>>);

#[cfg(any(test, feature = "sim"))]
impl<D: LiveDisk> LiveSteps<D> {
    /// Takes a snapshot.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) where there was a failure, now or before.
    pub fn write(&self) -> Result<()> {
        self.0.take_due();
        self.0.failure()
    }

    /// Makes a checkpoint, and the ring longer if it is to be.
    ///
    /// # Errors
    /// As [`write`](LiveSteps::write).
    pub fn checkpoint(&self) -> Result<()> {
        let _ = self.0.checkpoint(false);
        if self.0.is_short() {
            self.0.extend();
        }
        self.0.failure()
    }
}

impl<D: LiveDisk + 'static> Memory for Live<D> {
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
        self.core.disk.region()
    }
    #[inline(always)]
    fn changes(&self) -> Option<&Changes> {
        self.core.disk.changes()
    }
    #[inline]
    fn store(&self, word: &PmU64, v: u64) {
        self.core.pass(self.region().offset_of(word) / LINE_BYTES, 1, || word.store(v));
    }
    #[inline]
    fn cas(&self, word: &PmU64, old: u64, new: u64) -> Result<u64, u64> {
        self.core.pass(self.region().offset_of(word) / LINE_BYTES, 1, || word.cas(old, new))
    }

    #[inline(always)]
    fn expect_store(&self, off: u64) {
        self.core.disk.prefetch_mark(off / LINE_BYTES);
    }

    #[inline(always)]
    fn flush<T: OnMedia + ?Sized>(&self, _obj: &T) {}
    #[inline(always)]
    fn fence(&self) {}

    #[inline]
    fn drain(&self) {
        if !self.strict {
            return;
        }
        let epoch = self.core.barrier.epoch();
        if self.defers() {
            self.deferred.fetch_max(epoch, Ordering::AcqRel);
        } else {
            self.core.commit(epoch);
        }
    }

    /// Many words at each pass of the gate, but not so many that it could not be closed.
    fn copy_in(&self, dst: &[PmU64], src: &[u8]) {
        const AT_ONCE: usize = 512;
        let (words, rest) = src.as_chunks::<8>();
        for (dst, words) in dst.chunks(AT_ONCE).zip(words.chunks(AT_ONCE)) {
            let dst = &dst[..words.len().min(dst.len())];
            let (first, lines) = self.lines_of(dst);
            self.core.pass(first, lines, || {
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

    fn defer(&self, defer: bool) {
        DEFERS.set(if defer { self.id } else { 0 });
    }
    #[inline]
    fn is_durable(&self) -> bool {
        let durable = !self.strict || self.core.is_done(self.deferred.load(Ordering::Acquire));
        durable && !self.core.has_failed()
    }

    fn may_wait(&self) -> bool {
        self.strict || self.core.is_nearly_full.load(Ordering::Relaxed)
    }

    fn wait_until_durable(&self) -> Result<()> {
        if self.strict && !self.defers() {
            let deferred = self.deferred.load(Ordering::Acquire);
            if !self.core.is_done(deferred) {
                self.core.commit(deferred);
            }
        }
        // In every mode: a lookup may have seen the store of a change that was refused.
        self.core.failure()
    }
}

impl<D: LiveDisk + 'static> Storage for Live<D> {
    fn begin(&self) -> Result<()> {
        let mut found = lock(&self.found);
        if let Some(found) = &*found {
            self.core.begin(found, self.strict)?;
        }
        *found = None;
        Ok(())
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        self.core.failure()?;
        let grown = self.core.settle().and_then(|()| self.core.disk.grow(bytes));
        grown.inspect_err(|e| match e.kind() {
            ErrorKind::Full { .. } => {}
            // Of a write that failed, perhaps of something else, the system tells this once.
            ErrorKind::Io { source, .. } => self.core.fail(source),
            _ => self.core.fail(&io::Error::other("growing the pool")),
        })
    }

    /// For any range, everything that was stored is in the ring, on the disk, afterwards.
    fn sync(&self, _off: u64, _bytes: u64) -> Result<()> {
        self.core.take_due();
        self.core.failure()
    }

    /// Brings everything to the base first: a pool that is closed is whole without its live image.
    fn trim(&self, bytes: u64) -> Result<()> {
        self.core.close()?;
        self.core.disk.trim(bytes)
    }
    fn copy_to(&self, to: &dyn Blank, watch: &mut dyn FnMut(u64, u64)) -> Result<CopiedAs> {
        self.core.back_up(to, watch)?;
        Ok(CopiedAs::Cut)
    }
    fn disk_sums(&self) -> Option<&dyn DiskSums> {
        Some(self)
    }
    fn durability(&self) -> Durability {
        if self.strict { Durability::Strict } else { Durability::Interval }
    }
    fn huge_bytes(&self) -> Option<u64> {
        super::dram::huge_bytes(self.region().base().addr().get() as u64, self.region().len())
    }
    fn keeps_cuts(&self) -> bool {
        true
    }
    fn is_copy(&self) -> bool {
        self.is_copy
    }
    fn log_stats(&self) -> Option<LogStats> {
        Some(self.core.stats())
    }
    fn file_id(&self) -> FileId {
        self.core.disk.file_id()
    }
    fn file_bytes(&self) -> u64 {
        self.core.disk.file_bytes()
    }
    fn path(&self) -> Option<&Path> {
        self.core.disk.path()
    }
}

impl<D: LiveDisk> Drop for Live<D> {
    fn drop(&mut self) {
        // They hold the core, too.
        if let Some(background) = self.background.take() {
            let is_own = background.is_own();
            background.stop();
            let found = self.found.get_mut().unwrap_or_else(PoisonError::into_inner);
            if is_own && found.is_none() {
                // Of a map that was poisoned, and so not closed. No caller is left to hear of a failure.
                self.core.take_due();
            }
        }
    }
}
