//! Memory that a node lends from a file.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use durahash_media::{Error, ErrorKind, NodeFile, Result, SharedHeader};

use super::memory::{LOCAL, MAX_CLIENTS};
use super::message::Offer;
use crate::fabric::{Beside, Local};

/// Rows of a file, at most.
const ROWS_MAX: u64 = 4096;

/// The memory of a node in a file: what clients store there outlives the node.
///
/// After a kill of the node, however it came about, the next node on the file has every store of its clients. A node that
/// [closes](Self::close) the file has put all of it on the disk, so it outlives the machine as well. A
/// file that was not closed when the machine went down is refused, as pages may be missing, and so is a copy that was
/// made while it was not closed, unless `accept_suspect`; [`is_suspect`](Self::is_suspect) says so ever after.
///
/// Id and size are those of the file, so an index over several nodes finds the memory of each of them again. So are the
/// rows, but over TCP.
/// Clients of a node that ended connect again. Processes of this host, to which it was [lent](Self::lend), keep it
/// attached, and count as alive, until they drop what they had opened.
///
/// While it is open, a directory `durahash-….clients` lies beside it, which the clients of this host lock.
///
/// ```
/// use durahash_remote::node::{FileMemory, Limits, Listening, Nodes};
/// use durahash_remote::{BlockingMap, Options};
/// # let tmp = tempfile::tempdir().unwrap();
/// # let path = tmp.path().join("memory.node");
/// FileMemory::create(&path, 64 << 20)?;
/// let memory = FileMemory::open(&path, None, false)?;
/// let node = Listening::bind("127.0.0.1:0", memory.lend()?, None, Limits::default())?;
/// let nodes = Nodes::connect(&[node.address().to_string()], None, &Limits::default())?;
/// let map = BlockingMap::create(nodes.local().client()?, Options::default())?;
/// map.put(b"key", b"value")?;
/// // That is what a kill leaves.
/// drop((map, nodes, node, memory));
///
/// let memory = FileMemory::open(&path, None, false)?;
/// let node = Listening::bind("127.0.0.1:0", memory.lend()?, None, Limits::default())?;
/// let nodes = Nodes::connect(&[node.address().to_string()], None, &Limits::default())?;
/// let map = BlockingMap::open(nodes.local().client()?, Options::default())?;
/// assert_eq!(map.get(b"key")?.as_deref(), Some(&b"value"[..]));
/// drop((map, nodes, node));
/// memory.close(std::time::Duration::from_secs(10))?;
/// # Ok::<(), durahash_remote::Error>(())
/// ```
pub struct FileMemory {
    file: NodeFile,
    path: PathBuf,
    beside: Beside,
    /// Kept where no process of this host may attach the region.
    alone: Option<File>,
}

impl FileMemory {
    /// Makes a file at `path`, which must be free, for `bytes` bytes of memory, a multiple of 4096. All space is taken
    /// at once.
    ///
    /// # Errors
    /// As [`NodeFile::create`](durahash_media::NodeFile::create).
    pub fn create(path: &Path, bytes: u64) -> Result<()> {
        let id = getrandom::u64().map_err(|e| {
            Error::io("choosing a random id for a region", None, io::Error::other(e))
        })?;
        let header = SharedHeader { id, number: 0, count: 1, rows: MAX_CLIENTS.into(), bytes };
        NodeFile::create(path, header, 0o600)
    }

    /// Opens the file at `path`; with `bytes`, its memory must have that size.
    ///
    /// # Errors
    /// As [`NodeFile::open`](durahash_media::NodeFile::open); [`Io`](durahash_media::ErrorKind::Io) when the directory
    /// beside it cannot be made, or is not whole although clients of a node that was killed may be alive.
    /// `accept_suspect` takes them for dead then.
    pub fn open(path: &Path, bytes: Option<u64>, accept_suspect: bool) -> Result<Self> {
        // Before it is open on the disk: what is missing then may be what clients have locked.
        let beside = |file: &NodeFile| Self::beside(file, path, accept_suspect);
        let (file, (path, beside)) = NodeFile::open_after(path, bytes, accept_suspect, beside)?;
        Ok(FileMemory { file, path, beside, alone: None })
    }

    fn beside(file: &NodeFile, path: &Path, accept_suspect: bool) -> Result<(PathBuf, Beside)> {
        let found = file.region().header().rows;
        let expected = found.clamp(1, ROWS_MAX);
        if found != expected {
            let what = "the number of rows";
            return Err(ErrorKind::Region { what, found, expected }.into());
        }
        // Clients may have another current directory.
        let path = fs::canonicalize(path);
        let path = path.map_err(|e| Error::io("looking for", None, e))?;
        let may_be_mapped = file.may_be_mapped() && !accept_suspect;
        let beside = Beside::open(&path, file.id(), found as u32, may_be_mapped)?;
        Ok((path, beside))
    }

    /// The file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &NodeFile {
        &self.file
    }

    /// True if the file was once opened although pages may have been missing.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.file.is_suspect()
    }

    /// Asks the system whether it could not write pages back since it was asked last. A node asks again and again, and ends
    /// then: clients may read what was there before.
    ///
    /// # Errors
    /// [`Io`](durahash_media::ErrorKind::Io) with what the system says. The file is suspect from then on.
    pub fn written_back(&self) -> Result<()> {
        self.file.written_back()
    }

    /// Lends the memory to processes of this host: the offer for them.
    ///
    /// # Errors
    /// [`Io`](durahash_media::ErrorKind::Io).
    pub fn lend(&self) -> Result<Offer> {
        self.beside.invite(&self.path)?;
        let header = self.file.region().header();
        Ok(Offer {
            id: header.id,
            bytes: header.bytes,
            max_clients: header.rows as u32,
            fabric: LOCAL.into(),
            place: self.beside.dir().as_os_str().as_bytes().to_vec(),
        })
    }

    /// Keeps processes of this host from attaching the memory: for a fabric that reaches it through this process.
    ///
    /// # Errors
    /// [`Locked`](durahash_media::ErrorKind::Locked) when processes have it attached, as clients of a
    /// node that [lent](Self::lend) it may; [`Io`](durahash_media::ErrorKind::Io).
    pub fn shut(mut self) -> Result<Self> {
        match self.beside.empty(Duration::ZERO) {
            Ok(alone) => self.alone = Some(alone),
            Err(e) => {
                if !self.file.may_be_mapped() {
                    // Nobody has stored to it. That it is not served is what is told.
                    drop(self.file.close());
                }
                return Err(e);
            }
        }
        Ok(self)
    }

    /// The memory for this process, which drops it before the file.
    pub(crate) fn served(&self) -> Result<Local> {
        self.file.map_again().map(Local::alone)
    }

    /// Waits until no process of this host has the memory attached, puts all of it on the disk, and marks the file as
    /// closed there. Clients that reach it through this process must have none under way.
    ///
    /// # Errors
    /// [`Locked`](durahash_media::ErrorKind::Locked) when a process has it attached for longer than `patience`: it might
    /// store to it later. Then the file is on the disk, but not closed. [`Io`](durahash_media::ErrorKind::Io).
    pub fn close(mut self, patience: Duration) -> Result<()> {
        let alone = self.alone.take().map_or_else(|| self.beside.empty(patience), Ok);
        match alone {
            Ok(_alone) => {
                let _locked = self.file.close()?;
                self.beside.remove();
                Ok(())
            }
            Err(e) => self.file.sync().and(Err(e)),
        }
    }
}

#[cfg(test)]
mod tests;
