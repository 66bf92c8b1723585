//! Backups by another process, beside the one that writes: that one need not know of it, and never waits for it.
//!
//! What is read is what a loss of power would leave, base and ring, while both change. There is no lock: what was written over before
//! it was read is found out.
//!
//! | Step | What |
//! |---|---|
//! | A1 | the newest head is read, and then how long the pool is; the batches behind the head are *followed* from now on, and their lines kept |
//! | A2 | the base is read, a MiB at a time, and written to the copy; behind each the lines of the batches that were noted meanwhile are kept |
//! | A3 | the check words of the base are read |
//! | A4 | until two batches were noted since A1, or no line had a mark: the writer is waited for |
//! | A5 | all batches are kept that are noted now, up to N; then the writer is still the same, and has the pool open. The cut of N is the backup's **cut** |
//! | B4 | on as in `backup.rs`: the kept lines are put into the copy, in their order |
//!
//! *The copy is the cut.* What the base has at any time is of the batches up to one that is noted then (**S-2**). So all that was read of
//! it is of batches up to N, as A5 comes later. A line that is in no batch behind the head of A1 was not stored to between the cut of that
//! head and that of N: the base had it when the head was written (**S-3**), and a checkpoint that wrote it since has written the same.
//! Any other line is kept as the last of these batches has it. The pool is as long as the cut says, by the last kept line of its superblock, or else as
//! it was when A1 asked, which is no less than at the cut of the head. What it has grown by since was zeros before it was stored to.
//!
//! *No batch is missed.* The header of the live file tells which one was noted last: the larger of its two numbers, as each is written when that batch
//! is durable, and a process that takes over from a killed one has noted a batch of its own, by the sync of its state, before it counts changes for
//! readers. Every batch up to it is in the ring, sound and chained to the
//! one before, or was written over. Where it is not there the newest head is read again: it tells of a longer ring, in which
//! what counts is at the same places, or that the backup was overtaken, and begins anew, some times. Nothing is read beyond, so a writer that never
//! rests does not hold the backup up. A head with another salt, or a closed one, is of another open.
//!
//! *What had returned before the call is in it.* A store that no snapshot has yet has a mark (**S-4**), which goes when its batch is noted. One
//! snapshot is taken after the other: of those that A1 has not found noted the first may have had its cut before the call,
//! the second has not.
//!
//! *Check words.* A checkpoint writes pages that batches behind the head have lines of, and their words. So blocks of pages that have no
//! kept line have the words that were read (**S-8**), and all others get marks. A close that begins meanwhile adds sums
//! before it takes marks away, which are read before sums. Of a page with a kept line the other lines are those of the base, and
//! damage in them is not found out, as after a loss of power.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::backup::{copy_pages, push_entry, put_kept};
use super::disk::LiveSource;
use super::head::{Head, LIVE_WORDS, Noted, Position, last_batch};
use super::parts::{Lines, Ring};
use super::verify::Words;
use crate::error::{Error, ErrorKind, Result};
use crate::medium::logged::area::{EXTENTS_OFF, LogArea};
use crate::medium::logged::format::word;
use crate::medium::logged::recover::{AreaHead, newest_of_any};
use crate::medium::{Blank, CHECKS_OFF, LINE_BYTES, Line, SumArea};

/// Times that it begins.
const ATTEMPTS: u32 = 4;
/// Between two looks at what the writer has done.
const ROUND: Duration = Duration::from_millis(2);
/// For so long it waits for the next batch.
const PATIENCE: Duration = Duration::from_secs(120);
/// The line of the superblock that says how long the pool is.
pub(in crate::medium) const EXTENTS_LINE: u64 = EXTENTS_OFF / LINE_BYTES * LINE_BYTES;
/// The one that says where the check words are, and the words in it.
const CHECKS_LINE: u64 = CHECKS_OFF / LINE_BYTES * LINE_BYTES;
const CHECKS_AT: usize = (CHECKS_OFF - CHECKS_LINE) as usize / 8;

/// What a backup has to know of the writer.
pub(in crate::medium) trait Writer {
    /// That it is the one of before, and has the pool open.
    ///
    /// # Errors
    /// [`WriterGone`](ErrorKind::WriterGone), [`Io`](ErrorKind::Io).
    fn is_there(&self) -> Result<()>;

    /// Bytes of the pool now.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt), [`Io`](ErrorKind::Io).
    fn pool_bytes(&self) -> Result<u64>;

    /// Bytes of the pool as this line of its superblock says, the one at [`EXTENTS_LINE`].
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt).
    fn said_bytes(&self, line: &Line) -> Result<u64>;

    /// The words of the live file's header, each by itself.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io).
    fn header(&self) -> Result<[u64; LIVE_WORDS]>;

    /// True if each line of a pool of so many bytes, looked at one after the other, had no mark.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io).
    fn is_at_rest(&self, pool_bytes: u64) -> Result<bool>;
}

/// Follows the batches of a writer.
struct Following<'a, D> {
    disk: &'a D,
    uuid: [u64; 2],
    writer: &'a dyn Writer,
    to: &'a dyn Blank,
    head: Head,
    /// All batches up to there, behind the head of A1, are kept.
    at: Position,
    kept: u64,
    /// Where the check words are, as the last kept batch says that has it.
    checks: Option<[u64; 2]>,
    /// The line of the superblock that says how long the pool is, as the last kept batch has it that has one.
    extents: Option<Line>,
    is_overtaken: bool,
}

fn newest<D: LiveSource>(disk: &D, uuid: [u64; 2]) -> Result<Head> {
    match newest_of_any(disk, uuid)? {
        AreaHead::Ring(head) if !head.closed && !head.bad => Ok(head),
        _ => Err(ErrorKind::WriterGone.into()),
    }
}

impl<D: LiveSource> Following<'_, D> {
    /// Keeps the lines of all batches that are noted now, unless it was overtaken; the number of the last.
    fn keep(&mut self) -> Result<u64> {
        let header = self.writer.header()?;
        if Noted::from_words(&header).is_none_or(|noted| noted.salt != self.head.salt) {
            return Err(ErrorKind::WriterGone.into());
        }
        let noted = last_batch(&header);
        while self.at.batch < noted && !self.is_overtaken {
            let (mut lines, mut checks, mut extents) = (Vec::new(), self.checks, self.extents);
            let mut take = |some: Lines<'_>| {
                for (off, line) in some.iter() {
                    push_entry(&mut lines, off, &line);
                    if off == CHECKS_LINE {
                        checks = Some([line[CHECKS_AT], line[CHECKS_AT + 1]]);
                    }
                    if off == EXTENTS_LINE {
                        extents = Some(line);
                    }
                }
                Ok(())
            };
            let read = Ring::of(self.disk, &self.head).batch(&self.head, self.at, Some(&mut take));
            if let Ok(Some(behind)) = read {
                self.to.keep(self.kept, &lines)?;
                (self.at, self.checks, self.extents) = (behind, checks, extents);
                self.kept += lines.len() as u64;
                continue;
            }
            let newest = newest(self.disk, self.uuid)?;
            if newest.salt != self.head.salt {
                return Err(ErrorKind::WriterGone.into());
            }
            let is_longer =
                newest.generation > self.head.generation && newest.at.batch <= self.at.batch;
            self.is_overtaken = !is_longer;
            if newest.at.batch <= self.at.batch {
                read?;
            }
            self.head = newest;
        }
        Ok(noted)
    }
}

/// A1 to B4, of a pool whose log has this area.
pub(super) fn copy_beside<D: LiveSource>(
    disk: &D,
    area: LogArea,
    writer: &dyn Writer,
    to: &dyn Blank,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let (uuid, hole) = (area.uuid, area.off..area.off + area.bytes);
    for attempt in 0..ATTEMPTS {
        writer.is_there()?;
        // A1
        let head = newest(disk, uuid)?;
        let len = writer.pool_bytes()?;
        let (at, kept, checks, extents, is_overtaken) = (head.at, 0, None, None, false);
        let mut following =
            Following { disk, uuid, writer, to, head, at, kept, checks, extents, is_overtaken };
        let first = following.keep()?;
        if following.is_overtaken {
            continue;
        }
        // A2
        let (read, mut of) = (|off, bytes: &mut [u8]| disk.read_base(off, bytes), 0);
        let copied = copy_pages(to, (len, hole.clone()), attempt > 0, read, |done, all| {
            following.keep()?;
            of = all;
            watch(done, all);
            if following.is_overtaken { Err(overtaken(disk)) } else { Ok(()) }
        });
        if following.is_overtaken {
            continue;
        }
        copied?;
        // A3
        let words = words_of(disk, len)?;
        // A4, and A5
        let mut seen = (0, Instant::now());
        loop {
            let is_due = following.at.batch < first + 2;
            let is_at_rest = !is_due || writer.is_at_rest(writer.pool_bytes()?)?;
            let noted = following.keep()?;
            if is_at_rest || following.is_overtaken {
                break;
            }
            writer.is_there()?;
            if seen.0 != noted {
                seen = (noted, Instant::now());
            }
            if seen.1.elapsed() > PATIENCE {
                return Err(error(
                    disk,
                    "the process that writes has taken no snapshot for two minutes: it is stopped, or its interval is longer; \
                     back up when it goes on, or by that process (`Map::backup`)",
                ));
            }
            watch(of, of);
            std::thread::sleep(ROUND);
        }
        writer.is_there()?;
        newest(disk, uuid)?;
        if following.is_overtaken {
            continue;
        }
        // B4
        let len = following.extents.map_or(Ok(len), |line| writer.said_bytes(&line))?;
        to.reach(len, hole)?;
        let is_moved = following
            .checks
            .is_some_and(|checks| words.as_ref().is_none_or(|words| words.area.words() != checks));
        put_kept(to, len, following.kept, words.filter(|_| !is_moved))?;
        return if is_moved { to.store_line(CHECKS_OFF, &[0]) } else { Ok(()) };
    }
    Err(overtaken(disk))
}

fn error<D: LiveSource>(disk: &D, why: &'static str) -> Error {
    Error::io("backing up", disk.path().map(Into::into), io::Error::other(why))
}

fn overtaken<D: LiveSource>(disk: &D) -> Error {
    error(
        disk,
        "the log was written over before it was read, several times; back up when less is written to the pool, \
                 or by the process that writes",
    )
}

/// The check words of the base of so many bytes.
fn words_of<D: LiveSource>(disk: &D, len: u64) -> Result<Option<Words>> {
    let word_at = |off| {
        let mut bytes = [0; 8];
        disk.read_base(off, &mut bytes)?;
        Ok(word(&bytes, 0))
    };
    let area = SumArea::named(word_at)?.filter(|area| area.bytes().end <= len);
    area.map(|area| {
        let Range { start, end } = area.bytes();
        let mut bytes = vec![0; (end - start) as usize];
        disk.read_base(start, &mut bytes)?;
        Ok(Words { area, bytes })
    })
    .transpose()
}
