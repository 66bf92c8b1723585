//! The operations of the files under a live image: small enough to be simulated whole.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use super::head::{FileName, LIVE_WORDS};
use crate::error::Result;
use crate::medium::logged::Disk;
use crate::medium::{Changes, LINE_BYTES};
use crate::word::PmU64;

/// A pool's file with a ring of batches in it, and the live file that was found: enough to see what the last process left.
///
/// Before [`adopt_live`](LiveSource::adopt_live) the image shows the base.
pub trait LiveSource: Disk {
    /// The pool's file.
    fn pool_name(&self) -> FileName;

    /// This boot of the machine.
    fn boot(&self) -> [u64; 2];

    /// The mount through which the live file is reached.
    fn mount(&self) -> u64;

    /// The header of the live file that is there, and the file, if there is one.
    ///
    /// # Errors
    /// The system's error, where a file is there that cannot be read.
    fn find_live(&self) -> io::Result<Option<([u64; LIVE_WORDS], FileName)>>;

    /// An error that the system had when it wrote the live file back, since the last question.
    ///
    /// # Errors
    /// That one.
    fn check_live(&self) -> io::Result<()>;

    /// Lets the image be what the live file holds that was [found](LiveSource::find_live).
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io), [`Full`](crate::ErrorKind::Full).
    fn adopt_live(&self) -> Result<()>;

    /// Reads bytes of the base, whatever the image shows.
    ///
    /// # Errors
    /// As [`read_pool`](Disk::read_pool).
    fn read_base(&self, off: u64, bytes: &mut [u8]) -> Result<()> {
        self.read_pool(off, bytes)
    }

    /// Reads a spill file.
    ///
    /// # Errors
    /// The system's error.
    fn read_spill(&self, batch: u64) -> io::Result<Vec<u8>>;
}

/// A pool's file with a ring of batches in it, and its live file.
///
/// Beside the bytes of a [`Disk`], of which the pool is the base:
///
/// | bytes | written by | survive |
/// |---|---|---|
/// | the image, [`region`](Disk::region), once there is a live file | all stores | the process |
/// | [marks](LiveDisk::mark), [header](LiveDisk::header) | the medium | the process |
/// | the base | [`write_pages`](LiveDisk::write_pages) | as lines of a [`Disk`]: after [`sync_data`](Disk::sync_data) surely |
/// | spill files | [`write_spill`](LiveDisk::write_spill) | the loss of power, when that has returned |
///
/// Before [`adopt_live`](LiveSource::adopt_live) or [`make_live`](LiveDisk::make_live) the image shows the base, and stores to it are
/// lost.
pub trait LiveDisk: LiveSource {
    /// Called when the image shows the pool that is gone on with, before anything is lent from it: it ends where that
    /// pool does.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt).
    fn shown(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes a live file that holds what the image shows, in place of another one; marks and header are zero. Those of its bytes
    /// that are not zero go through `watch`, with their place.
    ///
    /// # Errors
    /// As [`adopt_live`](LiveSource::adopt_live).
    fn make_live(&self, watch: &mut dyn FnMut(u64, &[u8])) -> Result<FileName>;

    /// Lets stores to the image reach the live file no more: it stays as it is. Loads see both. Changes are not counted from then
    /// on.
    fn abandon_live(&self);

    /// Counters for readers in other processes, if there may be any.
    #[inline(always)]
    fn changes(&self) -> Option<&Changes> {
        None
    }

    /// The words of the header.
    fn header(&self) -> &[PmU64];

    /// The mark of a line of the image.
    fn mark(&self, line: u64) -> &AtomicU8;

    /// The marks of lines, all before the log's area or all behind it.
    fn marks(&self, lines: Range<u64>) -> &[AtomicU8];

    /// Starts to fetch the mark of a line, which may be none of the image.
    fn prefetch_mark(&self, _line: u64) {}

    /// The part of the image to which nobody stores: the log's area.
    fn unused(&self) -> Range<u64>;

    /// Reads bytes of the image as they are now, while they may be stored to: some words before, some after.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    fn read_image(&self, off: u64, bytes: &mut [u8]) -> Result<()>;

    /// Writes whole pages of the base, but for the last one, which may end with the pool.
    ///
    /// # Errors
    /// The system's error.
    fn write_pages(&self, off: u64, bytes: &[u8]) -> io::Result<()>;

    /// The same of many pages, one by one, which the system may gather.
    ///
    /// # Errors
    /// The system's error.
    fn write_pages_lazily(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_pages(off, bytes)
    }

    /// Writes bytes of the log's area, whole blocks, past what the system believes to be on the disk; they are there when the
    /// drive's cache was emptied.
    ///
    /// # Errors
    /// The system's error. Any part of it may be on the disk then.
    fn write_log_soon(&self, off: u64, bytes: &[u8]) -> io::Result<()>;

    /// Lines that a part of a batch has room for: as many as it may at the most, unless parts are to be short, so that batches have many.
    fn part_entries(&self) -> usize {
        usize::MAX
    }

    /// Says that a page of the base will be read soon.
    fn will_read(&self, _off: u64) {}

    /// Writes a spill file, durably.
    ///
    /// # Errors
    /// The system's error.
    fn write_spill(&self, batch: u64, bytes: &[u8]) -> io::Result<()>;

    /// Removes a spill file, if it can be.
    fn remove_spill(&self, batch: u64);
}

/// Makes the marks of lines that the pool grows by zero: a close that was killed has cut them off, and left what they had.
pub(in crate::medium) fn clear_marks<'a>(bytes: Range<u64>, mark: impl Fn(u64) -> &'a AtomicU8) {
    for line in bytes.start / LINE_BYTES..bytes.end.div_ceil(LINE_BYTES) {
        let mark = mark(line);
        if mark.load(Ordering::Relaxed) != 0 {
            mark.store(0, Ordering::Relaxed);
        }
    }
}
