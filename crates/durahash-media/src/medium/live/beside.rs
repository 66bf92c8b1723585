//! Backups by another process, beside the one that writes: that one need not know of it, and never waits for it.
//!
//! What is read is what a loss of power would leave, base and ring, while both change. There is no lock: what was written over before
//! it was read is found out.
//!
//! | Step | What |
//! |---|---|
//! | A1 | the newest head is read, and the batches behind it: from now on they are *followed*, and their lines are kept |
//! | A2 | the base is read, a MiB at a time, and written to the copy; behind each the lines of the batches that came meanwhile are kept |
//! | A3 | the check words of the base are read |
//! | A4 | until two batches have come since A1, or no line had a mark: the writer is waited for |
//! | A5 | all batches that are there are followed to the last one, N; then the writer is still the same, and has the pool open. The cut of N is the backup's **cut** |
//! | B4 | on as in `backup.rs`: the kept lines are put into the copy, in their order |
//!
//! *The copy is the cut.* What the base has at any time is of the batches up to one that is noted then (**S-2**). So all that was read of
//! it is of batches up to N, as A5 comes later. A line that is in no batch behind the head of A1 was not stored to between the cut of that
//! head and that of N: the base had it when the head was written (**S-3**), and a checkpoint that wrote it since has written the same.
//! Any other line is kept as the last of these batches has it.
//!
//! *No batch is missed.* Each counts only if all of it is sound and chained to the one before. Where there is none, the newest head is read
//! again: if it is not behind the batches that are kept, nothing of the ring behind them was free to be written over, so
//! this is its end. If it is, the backup begins anew, some times. A head with another salt, or a closed one, is of another open.
//! A longer ring has what counts at the same places.
//!
//! *What had returned before the call is in it.* A store that no snapshot has yet has a mark (**S-4**), which goes when its batch is noted. One
//! snapshot is taken after the other: of those whose batches A1 has not found the first may have had its cut before the call,
//! the second has not.
//!
//! *Check words.* A checkpoint writes pages that batches behind the head have lines of, and their words; a close
//! writes others, and is found out by A5. So blocks of pages that have no kept line have the words that were read (**S-8**), and all others
//! get marks.

use std::ops::Range;
use std::time::Duration;

use super::backup::{copy_pages, push_entry, put_kept, too_slow};
use super::disk::LiveSource;
use super::head::{Head, Position};
use super::parts::{Lines, Ring};
use super::verify::Words;
use crate::error::{ErrorKind, Result};
use crate::medium::logged::area::LogArea;
use crate::medium::logged::format::word;
use crate::medium::logged::recover::{AreaHead, newest_of_any};
use crate::medium::{Blank, CHECKS_OFF, LINE_BYTES, SumArea};

/// Times that it begins.
const ATTEMPTS: u32 = 4;
/// Between two looks at what the writer has done.
const ROUND: Duration = Duration::from_millis(2);
/// The line of the superblock that says where the check words are, and the words in it.
const CHECKS_LINE: u64 = CHECKS_OFF / LINE_BYTES * LINE_BYTES;
const CHECKS_AT: usize = (CHECKS_OFF - CHECKS_LINE) as usize / 8;

/// What a backup has to know of the writer.
pub(in crate::medium) trait Writer {
    /// That it is the one of before, and has the pool open; the image is as long as it says now.
    ///
    /// # Errors
    /// [`WriterGone`](ErrorKind::WriterGone), [`Io`](ErrorKind::Io).
    fn is_there(&self) -> Result<()>;

    /// True if no line had a mark at some moment of this call, each for itself.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io).
    fn is_at_rest(&self) -> Result<bool>;
}

/// Follows the batches of a writer.
struct Following<'a, D> {
    disk: &'a D,
    uuid: [u64; 2],
    to: &'a dyn Blank,
    head: Head,
    /// All batches up to there, behind the head of A1, are kept.
    at: Position,
    kept: u64,
    /// Where the check words are, as the last kept batch says that has it.
    checks: Option<[u64; 2]>,
    is_overtaken: bool,
}

fn newest<D: LiveSource>(disk: &D, uuid: [u64; 2]) -> Result<Head> {
    match newest_of_any(disk, uuid)? {
        AreaHead::Ring(head) if !head.closed && !head.bad => Ok(head),
        _ => Err(ErrorKind::WriterGone.into()),
    }
}

impl<D: LiveSource> Following<'_, D> {
    /// Keeps the lines of all batches that are there, unless it was overtaken.
    fn keep(&mut self) -> Result<()> {
        while !self.is_overtaken {
            let (mut lines, mut checks) = (Vec::new(), self.checks);
            let mut take = |some: Lines<'_>| {
                for (off, line) in some.iter() {
                    push_entry(&mut lines, off, &line);
                    if off == CHECKS_LINE {
                        checks = Some([line[CHECKS_AT], line[CHECKS_AT + 1]]);
                    }
                }
                Ok(())
            };
            let read = Ring::of(self.disk, &self.head).batch(&self.head, self.at, Some(&mut take));
            if let Ok(Some(behind)) = read {
                self.to.keep(self.kept, &lines)?;
                (self.at, self.checks, self.kept) =
                    (behind, checks, self.kept + lines.len() as u64);
                continue;
            }
            let newest = newest(self.disk, self.uuid)?;
            if newest.salt != self.head.salt {
                return Err(ErrorKind::WriterGone.into());
            }
            self.is_overtaken = newest.at.batch > self.at.batch;
            if self.is_overtaken {
                break;
            }
            read?;
            if newest.generation <= self.head.generation {
                break;
            }
            self.head = newest;
        }
        Ok(())
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
        let (at, kept, checks, is_overtaken) = (head.at, 0, None, false);
        let mut following = Following { disk, uuid, to, head, at, kept, checks, is_overtaken };
        following.keep()?;
        let first = following.at.batch;
        // A2
        let len = disk.region().len();
        let read = |off, bytes: &mut [u8]| disk.read_base(off, bytes);
        let copied = copy_pages(to, (len, hole.clone()), attempt > 0, read, |done, of| {
            following.keep()?;
            watch(done, of);
            if following.is_overtaken { Err(too_slow(disk.path())) } else { Ok(()) }
        });
        if following.is_overtaken {
            continue;
        }
        copied?;
        // A3
        let words = words_of(disk)?;
        // A4, and A5
        loop {
            let is_at_rest = writer.is_at_rest()?;
            following.keep()?;
            if is_at_rest || following.at.batch >= first + 2 || following.is_overtaken {
                break;
            }
            writer.is_there()?;
            std::thread::sleep(ROUND);
        }
        writer.is_there()?;
        newest(disk, uuid)?;
        if following.is_overtaken {
            continue;
        }
        // B4
        to.reach(disk.region().len(), hole)?;
        let is_moved = following
            .checks
            .is_some_and(|checks| words.as_ref().is_none_or(|words| words.area.words() != checks));
        put_kept(to, following.kept, words.filter(|_| !is_moved))?;
        return if is_moved { to.store_line(CHECKS_OFF, &[0]) } else { Ok(()) };
    }
    Err(too_slow(disk.path()))
}

/// The check words of the base.
fn words_of<D: LiveSource>(disk: &D) -> Result<Option<Words>> {
    let word_at = |off| {
        let mut bytes = [0; 8];
        disk.read_base(off, &mut bytes)?;
        Ok(word(&bytes, 0))
    };
    let area = SumArea::named(word_at)?.filter(|area| area.lies_in(disk.region()));
    area.map(|area| {
        let Range { start, end } = area.bytes();
        let mut bytes = vec![0; (end - start) as usize];
        disk.read_base(start, &mut bytes)?;
        Ok(Words { area, bytes })
    })
    .transpose()
}
