//! Backups: the pool as a cut leaves it, in a new file, while operations go on.
//!
//! The pages of the image are read one after the other, while stores change them. So the copy has each line as it was at
//! some moment, and two lines of two moments. But a line that was stored to meanwhile is in a batch: a backup *follows* the
//! batches from before the first page to behind the last, and puts their lines over the copy.
//!
//! | Step | Killed, or power lost, after it |
//! |---|---|
//! | B1 the last noted batch is where it follows from | no file has a name: nothing is left |
//! | B2 the image is read, a MiB at a time, and written to the copy. Behind each, the lines of the batches that were noted meanwhile are kept in a file of their own | the same |
//! | B3 a snapshot is noted whose cut came after the last page was read; the lines up to it are kept, too, and it follows no more | the same. This is the backup's **cut** |
//! | B4 the copy is as long as the pool is now, and the kept lines are put into it in their order; its check words are those of the base as B1 has found them, but of pages that were not at rest then (`verify.rs`), and of the lines | the same |
//! | B5 the superblock of the copy names its file; its log is an empty one (`PoolCopy::finish`) | the same |
//! | B6 the copy is opened: its designs recover it as after a loss of power. It is closed (`durahash`, `engine/backup.rs`) | the same |
//! | B7 all of it is synced; it gets its name; the directory is synced | without the name, or a closed pool |
//!
//! *The copy is the cut.* A line that is in no followed batch was not stored to between the cut of B1's batch and that of
//! B3: every store before the cut of B3 is in a batch up to it (**S-4**). So what was read of it, at whatever moment, is what
//! the cut has. Of any other line the last followed batch that has it says what the cut has, whatever was read: half of it
//! from before a store, perhaps. What the pool has grown by meanwhile was zeros before it was stored to, and so is the end
//! of the copy. A page that the system has lost, as it could not write it back, is found out by the snapshot of B3 (**S-6**).
//!
//! Writers wait for a backup at the gate, for its cut; and who needs the base, while the backup reads the ring. Before
//! batches leave the ring (C6, and the way out), the thread that frees it reads those that the backup lacks into memory, and waits
//! for no other disk. If the backup has more of these there than the ring has bytes, and than 64 MiB, when still more
//! are to leave, its disk takes less than the pool writes: it ends with an error.
//!
//! Extents are not shared with the pool, though file systems could: a store to one takes space, and a pool's bytes
//! have theirs (**POOL-1**). Else a checkpoint would fail on a full disk, and a store through a mapping end the process.

use std::io;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

use super::core::{Core, Follower};
use super::disk::LiveDisk;
use super::head::Position;
use super::parts::ENTRY_BYTES;
use super::sums::PAGE;
use super::verify::Words;
use crate::error::{Error, Result};
use crate::medium::logged::format::{put, word};
use crate::medium::{Blank, CHECKS_OFF, Line};
use crate::primitive::lock;

/// Bytes that are read at a time, and after how many the copy is synced: more of them in the cache, to be written, would slow
/// down stores to the live file.
const CHUNK_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 1 << 20 };
const SYNC_BYTES: u64 = 64 << 20;
/// Bytes of lines that it may always have in memory.
const BEHIND_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 64 << 20 };
/// Lines that are put into the copy at a time.
const AT_ONCE: usize = 1 << 14;

/// Ends the following.
struct Following<'a, D: LiveDisk>(&'a Core<D>);

impl<D: LiveDisk> Drop for Following<'_, D> {
    fn drop(&mut self) {
        lock(&self.0.base).follower = None;
    }
}

impl<D: LiveDisk> Core<D> {
    /// B1 to B4. One at a time.
    pub(super) fn back_up(&self, to: &dyn Blank, watch: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.failure()?;
        let _one = lock(&self.backing_up);
        // B1
        let (following, words) = self.start_following()?;
        let mut kept = 0;
        // B2
        let (len, hole) = (self.disk.region().len(), self.disk.unused());
        let read = |off, bytes: &mut [u8]| self.disk.read_image(off, bytes);
        copy_pages(to, (len, hole.clone()), false, read, |done, of| {
            self.keep(to, &mut kept)?;
            watch(done, of);
            Ok(())
        })?;
        // B3
        fence(Ordering::SeqCst);
        self.commit(self.barrier.epoch());
        self.failure()?;
        self.keep(to, &mut kept)?;
        drop(following);
        // B4
        let len = self.disk.region().len();
        to.reach(len, hole)?;
        let areas = words.iter().map(|words| words.area);
        let is_moved = !areas.eq(lock(&self.base).areas.iter().copied());
        put_kept(to, len, kept, words.filter(|_| !is_moved))?;
        // The place of the words is not that of the cut: the copy gets others when it is closed.
        if is_moved { to.store_line(CHECKS_OFF, &[0]) } else { Ok(()) }
    }

    fn start_following(&self) -> Result<(Following<'_, D>, Option<Words>)> {
        let mut base = lock(&self.base);
        // Before the pages are asked about: what a batch behind it changes meanwhile is followed, and has no word of then.
        let at = lock(&self.applied).last;
        let words = self.words_at_rest(&mut base)?;
        base.follower = Some(Follower { at, lines: Vec::new(), failed: None });
        Ok((Following(self), words))
    }

    /// Lets a backup have the lines up to `to`, with the base locked: none of these batches leaves the ring meanwhile.
    pub(super) fn follow(&self, follower: &mut Follower, to: Position) {
        let Follower { at, lines, failed } = follower;
        if failed.is_some() || at.batch >= to.batch {
            return;
        }
        let is_behind = lines.len() as u64 > self.head().ring_bytes.max(BEHIND_BYTES);
        let read = if is_behind {
            let why = "more is written to the pool than the backup's disk takes; back up when less is, or to a \
                       faster disk";
            Err(Error::io("backing up", self.disk.path().map(Into::into), io::Error::other(why)))
        } else {
            self.each_line(*at, to, &mut |off, line| {
                push_entry(lines, off, line);
                Ok(())
            })
        };
        match read {
            Ok(()) => *at = to,
            Err(e) => {
                *lines = Vec::new();
                *failed = Some(e);
            }
        }
    }

    /// Keeps the lines of all batches that are noted now behind `kept` bytes of others.
    fn keep(&self, to: &dyn Blank, kept: &mut u64) -> Result<()> {
        let lines = {
            let mut base = lock(&self.base);
            let last = lock(&self.applied).last;
            let Some(follower) = &mut base.follower else {
                unreachable!("it follows until it ends");
            };
            self.follow(follower, last);
            match follower.failed.take() {
                Some(e) => return Err(e),
                None => std::mem::take(&mut follower.lines),
            }
        };
        to.keep(*kept, &lines)?;
        *kept += lines.len() as u64;
        Ok(())
    }
}

/// B2: reads all but the hole of so many bytes, and writes it to the copy, which has zeros there unless this is done `again`. Behind each
/// piece `behind` is told how much of how much is copied.
pub(super) fn copy_pages(
    to: &dyn Blank,
    (len, hole): (u64, Range<u64>),
    again: bool,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
    mut behind: impl FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    to.reach(len, hole.clone())?;
    let parts = [0..hole.start.min(len), hole.end.min(len)..len];
    let of = parts.iter().map(|part| part.end - part.start).sum();
    let (mut done, mut bytes) = (0, vec![0; CHUNK_BYTES as usize]);
    for part in parts {
        for off in part.clone().step_by(CHUNK_BYTES as usize) {
            let bytes = &mut bytes[..(part.end - off).min(CHUNK_BYTES) as usize];
            read(off, bytes)?;
            if again || bytes.iter().any(|byte| *byte != 0) {
                to.write(off, bytes)?;
            }
            done += bytes.len() as u64;
            behind(done, of)?;
            if done % SYNC_BYTES < CHUNK_BYTES {
                to.sync()?;
            }
        }
    }
    Ok(())
}

/// Adds a line to those that are to be kept.
pub(super) fn push_entry(lines: &mut Vec<u8>, off: u64, line: &Line) {
    let entry = lines.len();
    lines.resize(entry + ENTRY_BYTES, 0);
    put(&mut lines[entry..], 0, &[off]);
    put(&mut lines[entry..], 8, line);
}

/// B4: the lines in the first `kept` bytes, of a pool of `len`, and the check words.
pub(super) fn put_kept(
    to: &dyn Blank,
    len: u64,
    kept: u64,
    mut check_words: Option<Words>,
) -> Result<()> {
    let mut bytes = vec![0; AT_ONCE * ENTRY_BYTES];
    for at in (0..kept).step_by(bytes.len()) {
        let bytes = &mut bytes[..(kept - at).min((AT_ONCE * ENTRY_BYTES) as u64) as usize];
        to.kept(at, bytes)?;
        for entry in bytes.chunks_exact(ENTRY_BYTES) {
            // What was cut off by a close that did not come to its end.
            if word(entry, 0) >= len {
                continue;
            }
            let words: [u64; 8] = std::array::from_fn(|i| word(entry, 8 + i * 8));
            to.store_line(word(entry, 0), &words)?;
            if let Some(check_words) = &mut check_words {
                // A checkpoint that wrote it has written the whole page.
                check_words.mark(word(entry, 0) / PAGE * PAGE, PAGE);
            }
        }
    }
    check_words.map_or(Ok(()), |words| to.write(words.area.off, &words.bytes))
}
