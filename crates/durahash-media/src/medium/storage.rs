//! Managing storage: a file's length, its name, its way to the disk. Rare, so object-safe.

use std::ops::Range;
use std::path::Path;

use super::SumArea;
use crate::error::Result;
use crate::identity::{self, FileId};

/// The failure that an acknowledged operation survives, if the file lies on a disk or on persistent memory. A file in
/// memory (tmpfs) is lost with the machine, whatever the mode.
///
/// ```
/// # use durahash_media as durahash;
/// use durahash::Durability;
/// assert!(Durability::Strict > Durability::Process && Durability::Process > Durability::None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: the bytes die with the process.
    None,
    /// The death of the process at any instant, not of the machine.
    Process,
    /// The death of the process; of the loss of power, all but the last moments: everything up to some
    /// operation is left, and nothing after it.
    Interval,
    /// Loss of power.
    Strict,
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Durability::None => "none (dies with the process)",
            Durability::Process => "process (survives kill -9, not power failure)",
            Durability::Interval => {
                "interval (survives kill -9; after power failure, all but the last moments)"
            }
            Durability::Strict => "strict (survives power failure)",
        })
    }
}

/// Counts of a log since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// Bytes that the log uses in the file: the more, the longer the pool is.
    pub area_bytes: u64,
    /// Lines that were flushed.
    pub lines: u64,
    /// Bytes that were written to the log, whole blocks.
    pub bytes: u64,
    /// Writes to the log, each of them waited for.
    pub writes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes of the image that are memory of this process, in whole pages.
    pub private_bytes: u64,
}

/// A new file that a pool is copied into, while nobody else knows of it.
pub trait Blank {
    /// Lengthens the file to `bytes` bytes, with space on the disk under all of it but for `hole`.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full), [`Io`](crate::ErrorKind::Io).
    fn reach(&self, bytes: u64, hole: Range<u64>) -> Result<()>;

    /// Writes bytes of the file.
    ///
    /// # Errors
    /// As [`reach`](Blank::reach).
    fn write(&self, off: u64, bytes: &[u8]) -> Result<()>;

    /// Puts what was written on the disk.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    fn sync(&self) -> Result<()>;

    /// Keeps bytes that are no part of the file, as long as it is not whole.
    ///
    /// # Errors
    /// As [`reach`](Blank::reach).
    fn keep(&self, off: u64, bytes: &[u8]) -> Result<()>;

    /// Reads bytes that were kept.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    fn kept(&self, off: u64, bytes: &mut [u8]) -> Result<()>;

    /// Stores the words of a line, of a file that is as long as it will be.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the line lies outside; [`Io`](crate::ErrorKind::Io).
    fn store_line(&self, off: u64, words: &[u64]) -> Result<()>;
}

/// What a copy of a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiedAs {
    /// There is none: this medium can be copied only through the index.
    Nothing,
    /// A pool that was closed.
    Closed,
    /// A pool as a loss of power leaves it, without its log.
    Cut,
}

/// Check words that a medium keeps itself, of the bytes on its disk, where the pool's words would be later, or earlier. A block
/// that has a mark in the area has none. It is said where the area is before anything is stored there, and again after.
pub trait DiskSums {
    /// Keeps them in `area`, too, which has bytes of anything: of each block what the area before says, or a mark.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    fn add(&self, area: SumArea) -> Result<()>;

    /// Keeps them there and nowhere else. A pool that says so is on the disk.
    fn keep_only(&self, area: Option<SumArea>);

    /// Forgets what it knows of damage in these bytes, as nothing there counts.
    fn forget(&self, bytes: Range<u64>);

    /// Gives all blocks in these ranges check words, on the disk, but those that are to be written there. Nobody stores.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    fn complete(&self, covered: &[Range<u64>]) -> Result<()>;

    /// Calls `found` with the offset of every block in these ranges that is damaged, or cannot be read: on the disk, or in the
    /// image where that is the same. Others may store meanwhile.
    fn verify(&self, covered: &[Range<u64>], found: &mut dyn FnMut(u64));

    /// How many blocks in these ranges have a check word.
    fn count(&self, covered: &[Range<u64>]) -> u64;
}

/// The storage behind a medium's bytes. Nothing here runs for each operation, except while a pool
/// grows.
pub trait Storage: Send + Sync + 'static {
    /// Called before the first store of an open: allocates a file's holes, and replays a log into
    /// it. Until then the file is unchanged.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) if there is no space: nothing has changed then.
    /// [`Io`](crate::ErrorKind::Io) with the system's answer.
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    /// Makes stores durable that a killed process did not flush, as an open reads them. Does nothing
    /// where no store survives the process, or where only a sync writes back.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    fn write_back(&self) -> Result<()> {
        Ok(())
    }

    /// Backs the first `bytes` bytes, never sparsely.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) if there is no space: nothing has changed then.
    fn grow(&self, bytes: u64) -> Result<()>;

    /// Makes flushed lines in `bytes` bytes from `off` survive more than
    /// [`durability`](Storage::durability) promises: for a file in the page cache, writes them to the
    /// disk.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io). A failed sync is never tried again and called success.
    #[track_caller]
    fn sync(&self, off: u64, bytes: u64) -> Result<()>;

    /// Gives a pool that was made under a temporary name its own name.
    ///
    /// # Errors
    /// [`Exists`](crate::ErrorKind::Exists) if the name is taken.
    fn publish(&self) -> Result<()> {
        Ok(())
    }

    /// Cuts the file to `bytes` bytes; the last call to a medium.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    fn trim(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Copies the pool as it is at one moment to `to`, while operations go on. `watch` is told how many bytes of how many are copied.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full), [`Io`](crate::ErrorKind::Io): the pool itself is as it was.
    fn copy_to(&self, _to: &dyn Blank, _watch: &mut dyn FnMut(u64, u64)) -> Result<CopiedAs> {
        Ok(CopiedAs::Nothing)
    }

    /// The check words of the pool, if the medium keeps them.
    fn disk_sums(&self) -> Option<&dyn DiskSums> {
        None
    }

    /// The failure that an acknowledged operation survives.
    fn durability(&self) -> Durability;

    /// True if what survives is always a consistent cut of all stores, flushed or not: no sync is needed for their order.
    fn keeps_cuts(&self) -> bool {
        false
    }

    /// True if this is a copy of a pool in use, whatever its state word says.
    fn is_copy(&self) -> bool {
        false
    }

    /// Counts of the log, if there is one.
    fn log_stats(&self) -> Option<LogStats> {
        None
    }

    /// Tells a new pool from all others. Constant in a simulation, which repeats exactly.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the system has no random bytes.
    fn new_uuid(&self) -> Result<[u64; 2]> {
        identity::new_uuid()
    }

    /// Tells this boot of the machine from others; zeros where the system does not tell. Constant
    /// in a simulation.
    fn boot_id(&self) -> [u64; 2] {
        identity::boot_id()
    }

    /// Tells the pool's file from copies of it; zero where there is none.
    fn file_id(&self) -> FileId {
        FileId::default()
    }

    /// Bytes of the pool's file when it was opened, zero if there is none. It may be longer than the pool.
    fn file_bytes(&self) -> u64 {
        0
    }

    /// True if no store may reach the file: recovery then happens in private pages.
    fn read_only(&self) -> bool {
        false
    }

    /// Lets a reader beside a writer see the first `bytes` bytes, which the file has by now.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io), [`Full`](crate::ErrorKind::Full) where there are no addresses for them.
    fn follow(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Bytes in huge pages, where the system tells.
    fn huge_bytes(&self) -> Option<u64> {
        None
    }

    /// The pool's file.
    fn path(&self) -> Option<&Path> {
        None
    }
}
