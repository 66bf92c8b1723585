//! The operations of a disk under a log: small enough to be simulated whole.

use std::io;
use std::ops::Range;
use std::path::Path;

use super::format::{BLOCK_BYTES, Layout, Line};
use crate::error::Result;
use crate::identity::FileId;
use crate::medium::{Region, sys};
use crate::word::PmU64;

/// A pool's file and the log's area in it, as far as a log is concerned.
///
/// Three kinds of bytes, each with its own rule:
///
/// | bytes | written by | on the disk |
/// |---|---|---|
/// | the image, [`region`](Disk::region) | all stores | never |
/// | the pool | [`write_line`](Disk::write_line) | at any time, sector by sector in any order; after [`sync_data`](Disk::sync_data) surely |
/// | the area | [`write_log`](Disk::write_log) | when that returns; if it does not, any of its sectors |
///
/// [`staged`](Disk::staged) words may reach the disk at any time, or never. All but the image
/// outlives the process.
pub trait Disk: Send + Sync {
    /// The image that the program loads from and stores to. Where nothing was stored since the open
    /// it shows the pool.
    fn region(&self) -> &Region;

    /// Bytes of the log's area.
    fn log_bytes(&self) -> u64;

    /// Where the parts of the area are when all of it is used.
    fn whole(&self) -> Layout {
        Layout::of(self.log_bytes())
    }

    /// Bytes of the pool without the area.
    fn bytes_beside_log(&self) -> u64 {
        self.region().len().saturating_sub(self.log_bytes())
    }

    /// The parts of the area are these from now on.
    fn lay_out(&self, _parts: Layout) {}

    /// Makes zeros of the area, which no part has reached yet, from byte `from` up to `to`, whole blocks: there is
    /// space for it when this returns, and after the next sync of the pool it is on the disk.
    ///
    /// # Errors
    /// The system's error. For want of space nothing is lost, and the disk is as usable as before.
    fn fill_log(&self, from: u64, to: u64) -> io::Result<()> {
        self.write_log(from, &vec![0; (to - from) as usize])
    }

    /// Reads the area.
    ///
    /// # Errors
    /// The system's error.
    fn read_log(&self, off: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Says that a block of the area will be read soon.
    fn will_read_log(&self, _off: u64) {}

    /// Reads blocks of the ring, into memory that is aligned as they are.
    ///
    /// # Errors
    /// The system's error.
    fn read_ring(&self, off: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_log(off, bytes)
    }

    /// The parts of these bytes of the area that something was written to: all others are zeros. The system may take for written what it has
    /// read ahead.
    fn written_in(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        vec![bytes]
    }

    /// True if [`read_ring`](Disk::read_ring) reads the drive, past the page cache.
    fn reads_drive(&self) -> bool {
        false
    }

    /// Puts the contents of the drive's cache on the disk.
    ///
    /// # Errors
    /// The system's error.
    fn flush_drive(&self) -> io::Result<()>;

    /// Writes whole blocks of the area; they are on the disk when this returns.
    ///
    /// # Errors
    /// The system's error. Any part of it may be on the disk then.
    fn write_log(&self, off: u64, bytes: &[u8]) -> io::Result<()>;

    /// Writes bytes of the area, whole blocks, that are read there already: on the disk, when this
    /// returns, even where an earlier write or sync of them failed.
    ///
    /// # Errors
    /// The system's error. Any part of it may be on the disk then.
    fn rewrite_log(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_log(off, bytes)
    }

    /// The area's words for staged lines, if they are to outlive the process.
    fn staged(&self) -> Option<&[PmU64]>;

    /// Writes a line of the pool at `off`.
    fn write_line(&self, off: u64, line: &Line);

    /// Reads the pool, with all lines that were written to it; whole words.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) beyond its end.
    fn read_pool(&self, off: u64, bytes: &mut [u8]) -> Result<()>;

    /// Shows a line that the log held at open in the image, and changes nothing else.
    fn show_line(&self, off: u64, line: &Line) {
        store_line(self.region(), off, line);
    }

    /// Puts every line that was written before on the disk.
    ///
    /// # Errors
    /// The system's error.
    fn sync_data(&self) -> io::Result<()>;

    /// Lengthens the pool to `bytes` bytes, durably: logged lines may lie there from now on.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) where there is no space: nothing has changed then.
    fn grow(&self, bytes: u64) -> Result<()>;

    /// As [`Storage::begin`](crate::Storage::begin): before the first write to the pool or the area.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) where there is no space for the file's holes: nothing has changed
    /// then.
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    /// True if `bytes` bytes of the image from `off`, whole pages, are those of the pool, so that they may
    /// be [forgotten](Disk::forget).
    fn shows_pool(&self, _off: u64, _bytes: u64) -> bool {
        false
    }

    /// Drops private pages so that the image shows the pool again. Returns true on success.
    fn forget(&self, _off: u64, _bytes: u64) -> bool {
        false
    }

    /// Bytes of the image that may be memory of this process.
    fn private_bytes_max(&self) -> u64 {
        u64::MAX
    }

    /// Cuts the pool to `bytes` bytes; the last thing done to a disk.
    ///
    /// # Errors
    /// The system's error.
    fn trim(&self, bytes: u64) -> Result<()>;

    /// Tells the pool's file from copies of it.
    fn file_id(&self) -> FileId {
        FileId::default()
    }

    /// The device that the file lies on: who waits for one disk waits for no other.
    fn device(&self) -> u64 {
        0
    }

    /// Bytes of the pool's file when it was opened, zero if there is none.
    fn file_bytes(&self) -> u64 {
        0
    }

    /// The pool's file.
    fn path(&self) -> Option<&Path> {
        None
    }
}

/// Stores a line to the words at `off`, past the medium.
pub(super) fn store_line(region: &Region, off: u64, line: &Line) {
    let words = region.words(off, line.len() as u64);
    for (word, v) in words.into_iter().flatten().zip(line) {
        word.store(*v);
    }
}

/// `bytes` bytes of `buffer`, aligned as direct writes need.
pub(in crate::medium) fn aligned(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes + BLOCK_BYTES {
        *buffer = vec![0; bytes + BLOCK_BYTES];
        sys::wish_huge_buffer(buffer);
    }
    let lead = buffer.as_ptr().align_offset(BLOCK_BYTES);
    &mut buffer[lead..lead + bytes]
}
