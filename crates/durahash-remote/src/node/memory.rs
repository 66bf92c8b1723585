//! Memory that a node lends to processes of its host.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use durahash_media::{Error, ErrorKind, Result};

use super::message::Offer;
use crate::fabric::{Local, LocalOptions};

/// The name of the fabric that such memory is on.
pub(super) const LOCAL: &str = "local";
/// Clients at once, at most.
pub(super) const MAX_CLIENTS: u32 = 64;
/// The usual place for memory that processes share.
const SHARED: &str = "/dev/shm";

/// A directory for the memory that a node is going to lend. It exists before the memory, so that a process which
/// removes it after the node is killed can start first.
#[derive(Debug)]
pub struct LentPlace {
    dir: PathBuf,
    inode: u64,
}

impl LentPlace {
    /// Creates the directory `dir`; without one, a directory with a random name in `/dev/shm`, or in
    /// the directory for temporary files if there is no `/dev/shm`.
    ///
    /// # Errors
    /// [`Exists`](ErrorKind::Exists); [`Io`](ErrorKind::Io).
    pub fn make(dir: Option<&Path>) -> Result<Self> {
        let dir = dir.map_or_else(some_dir, |dir| Ok(dir.to_owned()))?;
        Local::make_dir(&dir)?;
        Self::made(&dir)
    }

    /// Opens the directory `dir`, which another process has [created](Self::make) for this one.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io).
    pub fn made(dir: &Path) -> Result<Self> {
        // Clients may have another current directory.
        let place = fs::canonicalize(dir).and_then(|dir| {
            let inode = fs::metadata(&dir)?.ino();
            Ok(LentPlace { dir, inode })
        });
        place.map_err(|e| Error::io("looking for", Some(dir.into()), e))
    }

    /// The directory, and its inode.
    #[must_use]
    pub fn place(&self) -> (&Path, u64) {
        (&self.dir, self.inode)
    }

    /// Allocates `bytes` of zeroed memory, a multiple of 4096. A failure removes the directory.
    ///
    /// # Errors
    /// As [`Local::create`].
    pub fn lend(self, bytes: u64) -> Result<LentMemory> {
        let options = LocalOptions {
            node_bytes: vec![bytes],
            max_clients: MAX_CLIENTS,
            ..Default::default()
        };
        let local = Local::fill(&self.dir, &options)?;
        Ok(LentMemory { dir: self.dir, local, bytes })
    }

    /// Removes the directory `dir`, if it has this inode, with all files of a node there.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when a file cannot be removed; [`Exists`](ErrorKind::Exists) when it is another directory.
    pub fn clear(dir: &Path, inode: u64) -> Result<()> {
        let found = fs::metadata(dir);
        let found = found.map_err(|e| Error::io("looking for", Some(dir.into()), e))?;
        if found.ino() != inode {
            return Err(ErrorKind::Exists.into());
        }
        Local::remove_files(dir)
    }
}

/// Memory that a node lends: a directory with a file for the region, and one for each client's
/// row. Dropping it removes the files; processes that have attached them can go on using them.
pub struct LentMemory {
    dir: PathBuf,
    local: Local,
    bytes: u64,
}

impl LentMemory {
    /// Creates memory in a new directory, as of [`LentPlace::make`]. All space is allocated at once.
    ///
    /// # Errors
    /// As [`LentPlace::make`] and [`LentPlace::lend`].
    pub fn create(dir: Option<&Path>, bytes: u64) -> Result<Self> {
        LentPlace::make(dir)?.lend(bytes)
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The way to it, for clients.
    #[must_use]
    pub fn offer(&self) -> Offer {
        Offer {
            id: self.local.id(),
            bytes: self.bytes,
            max_clients: MAX_CLIENTS,
            fabric: LOCAL.into(),
            place: self.dir.as_os_str().as_bytes().to_vec(),
        }
    }
}

impl Drop for LentMemory {
    fn drop(&mut self) {
        // Another process may have removed it. Other failures have no caller to return to.
        drop(Local::remove(&self.dir, self.local.id()));
    }
}

/// A random path.
fn some_dir() -> Result<PathBuf> {
    let number = getrandom::u64().map_err(|e| {
        Error::io("choosing a random name for a node's memory", None, io::Error::other(e))
    })?;
    let shared = Path::new(SHARED);
    let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    Ok(parent.join(format!("durahash-node-{number:016x}")))
}

/// Why memory on the fabric of this name cannot be attached.
pub(super) fn unknown(fabric: &str) -> Error {
    let what = match fabric {
        "tcp" => "the node lends its memory over TCP, which `tcp::Tcp` reaches",
        "ucx" => "the node lends its memory over UCX; this build has no UCX",
        _ => "the node lends its memory over a fabric that this build does not know",
    };
    ErrorKind::Options { what }.into()
}
