//! What a log needs of a disk: small enough to be simulated whole.

use std::io;
use std::path::Path;

use super::format::Line;
use crate::error::Result;
use crate::medium::Region;
use crate::word::PmU64;

/// A pool's file and the log's area in it, as far as a log is concerned.
///
/// Three kinds of bytes, each with its own rule:
///
/// | bytes | written by | on the disk |
/// |---|---|---|
/// | the image, [`region`](Disk::region) | everybody's stores | never |
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

    /// Reads the area.
    ///
    /// # Errors
    /// What the system says.
    fn read_log(&self, off: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Writes whole blocks of the area; they are on the disk when this returns.
    ///
    /// # Errors
    /// What the system says. Any part of it may be on the disk then.
    fn write_log(&self, off: u64, bytes: &[u8]) -> io::Result<()>;

    /// Puts the area on the disk as it is read now, staged words too: the process that wrote it may
    /// have been killed before it was.
    ///
    /// # Errors
    /// What the system says.
    fn sync_log(&self) -> io::Result<()>;

    /// The area's words for staged lines, if they are to outlive the process.
    fn staged(&self) -> Option<&[PmU64]>;

    /// Writes a line of the pool at `off`.
    fn write_line(&self, off: u64, line: &Line);

    /// Writes a line that the log held at open: to the pool, and so that the image shows it.
    fn restore_line(&self, off: u64, line: &Line) {
        self.write_line(off, line);
    }

    /// Puts every line that was written before on the disk.
    ///
    /// # Errors
    /// What the system says.
    fn sync_data(&self) -> io::Result<()>;

    /// Lengthens the pool to `bytes` bytes, durably: what is logged may lie there from now on.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) where there is no space: nothing has changed then.
    fn grow(&self, bytes: u64) -> Result<()>;

    /// As [`Medium::fill_holes`](crate::Medium::fill_holes).
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) where there is no space: nothing has changed then.
    fn fill_holes(&self) -> Result<()> {
        Ok(())
    }

    /// Cuts the pool to `bytes` bytes; the last thing done to a disk.
    ///
    /// # Errors
    /// What the system says.
    fn trim(&self, bytes: u64) -> Result<()>;

    /// The pool's file.
    fn path(&self) -> Option<&Path> {
        None
    }
}
