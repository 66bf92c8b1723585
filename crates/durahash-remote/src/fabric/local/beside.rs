//! A fabric beside the file of a node: a directory that is named after the file, so that it is the same for every
//! node that serves this file, and no copy of it.
//!
//! | name in it | what it is |
//! |---|---|
//! | `client-…` | for each row a file, which its client has locked, also when it outlives the node |
//! | `node-0` | a link to the node's file, there while that is open for processes of this host |
//! | `attached` | a file that each process has locked, shared, which has attached the region |
//!
//! A node has `attached` for itself when no process can store to the region any more. Then it removes the link,
//! closes the file, and removes the directory. Who attaches locks first and follows the link then, so it finds an open file
//! or none.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind, FileId, Result};

use super::names::{node_path, remove_files, row_path};

/// The name of the file that is locked by those who have attached the region.
const ATTACHED: &str = "attached";
/// Time between two looks for them.
const LOOK: Duration = Duration::from_millis(20);

/// The directory beside the file of a node.
#[derive(Debug)]
pub(crate) struct Beside {
    dir: PathBuf,
}

impl Beside {
    /// That of the file at `file`, which is this one and has so many rows. What is missing is made, unless clients
    /// may be alive whose locks would be missing: then it is an error.
    pub(crate) fn open(file: &Path, id: FileId, rows: u32, may_be_mapped: bool) -> Result<Self> {
        let dir = file.with_file_name(id.clients_name());
        match fs::create_dir(&dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Error::io("making the directory of clients", Some(dir), e));
            }
            _ => {}
        }
        for path in (0..rows).map(|row| row_path(&dir, row)).chain([dir.join(ATTACHED)]) {
            let mut options = OpenOptions::new();
            options.write(true).create(!may_be_mapped).mode(0o600);
            let opened = options.open(&path);
            opened.map_err(|e| {
                Error::io("looking for what a client that may be alive has locked", Some(path), e)
            })?;
        }
        Ok(Beside { dir })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Lets processes attach the file.
    pub(crate) fn invite(&self, file: &Path) -> Result<()> {
        self.remove_link()?;
        let failed = |e| Error::io("linking to the region", Some(self.dir.clone()), e);
        symlink(file, node_path(&self.dir, 0)).map_err(failed)
    }

    /// Waits until no process has the region attached, and keeps all from attaching it.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) when processes have it attached for longer than `patience`.
    pub(crate) fn empty(&self, patience: Duration) -> Result<File> {
        let path = self.dir.join(ATTACHED);
        let failed = |e| Error::io("waiting for clients to leave", Some(path.clone()), e);
        let file = File::open(&path).map_err(failed)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if start.elapsed() < patience => thread::sleep(LOOK),
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::from(ErrorKind::Locked).at_path(&*self.dir));
                }
                Err(TryLockError::Error(e)) => return Err(failed(e)),
            }
        }
        self.remove_link()?;
        Ok(file)
    }

    /// Removes all of it, when the file is closed and this process has `attached`. What cannot be removed stays: without
    /// clients it says nothing.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(self.dir.join(ATTACHED));
        drop(remove_files(&self.dir));
    }

    fn remove_link(&self) -> Result<()> {
        match fs::remove_file(node_path(&self.dir, 0)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("removing the link to the region", Some(self.dir.clone()), e))
            }
            _ => Ok(()),
        }
    }
}

/// Returns whether the directory `dir` is the one beside this file.
pub(super) fn is_of(dir: &Path, id: FileId) -> bool {
    dir.file_name().is_some_and(|name| *name == *id.clients_name())
}

/// What a process keeps while it has the region of the directory `dir` attached: nothing where that is not beside the
/// file of a node.
pub(super) fn hold(dir: &Path) -> Result<Option<File>> {
    let path = dir.join(ATTACHED);
    let failed = |e| Error::io("attaching the region", Some(path.clone()), e);
    let file = match File::open(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let stays = match file.try_lock_shared() {
        // The node may have removed it meanwhile, and the next one has another.
        Ok(()) => fs::metadata(&path).and_then(|named| Ok(named.ino() == file.metadata()?.ino())),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    };
    if stays.map_err(failed)? {
        return Ok(Some(file));
    }
    let what = "its node is being stopped";
    Err(failed(io::Error::new(io::ErrorKind::ResourceBusy, what)))
}
