//! The file beside a pool by which readers in other processes follow what its writer changes.
//!
//! The writer makes it, or takes one that is there, before its first store; the counters in it ([`Changes`]) say of
//! which open they are. A reader maps pool or live image (`seen.rs`) and counters, to read them only, without the pool's lock.
//!
//! *Of which open.* A reader trusts the counters if they are of the epoch in the pool's state word, which is not
//! clean. Every open for writing stores another epoch there before its first other store, but behind a log perhaps elsewhere: in
//! another live file, or in pages of its own. And it takes the epoch from the counters before that, also if it counts nothing.
//! Every close stores a clean state. So a reader that finds the same state word and the same epoch behind its
//! loads has seen no store that was not counted. The counters get the epoch when all maps are recovered. An older
//! pool that is put in the place of one may come to the same epoch once more, and so may a new pool in a file of the
//! same number.
//!
//! *The end of a file.* A process that reads a mapping beyond the end of its file is killed by the system, and a
//! reader may be stopped for any time just before a load. Readers hold a shared lock on this file. A close cuts pool and live
//! file only with that lock exclusively, which it tries once; where there are readers they stay as long
//! as they are. So the same file is used again by later writers, as old readers may still have it: it goes only with the
//! exclusive lock. Of the pool a reader touches only what the number of extents in the superblock says, which
//! is there, whatever growth may fail.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;

use super::file::{PoolFile, real_dir};
use super::map::{Mapping, Sharing};
use crate::error::Result;
use crate::identity::FileId;
use crate::medium::changes::{Changes, EPOCH_OFF, FILE_BYTES, FILE_SHIFT, Named};
use crate::medium::process::Process;
use crate::medium::sys;

/// Between two looks of a reader that waits, and looks after which it asks if the writer lives.
const ROUND: Duration = Duration::from_micros(50);
const ASKED_EVERY: u32 = 20;

/// The file, and what is in it.
pub(super) struct Readers {
    pub(super) changes: Changes,
    file: File,
    /// Of the writer, who takes it away, and its process.
    path: Option<PathBuf>,
    process: Process,
    /// The writer was found dead: nothing is written to the disk any more.
    is_left: AtomicBool,
}

fn path_beside(pool: &PoolFile, id: FileId) -> io::Result<PathBuf> {
    Ok(real_dir(pool.path())?.join(id.readers_name()))
}

/// The file that is there, if it is one of the pool's owner: another user's could say anything, and is used by nobody.
fn open(pool: &PoolFile, path: &Path, to_write: bool) -> io::Result<Option<File>> {
    let owner = sys::metadata(pool.file())?.uid();
    let is_owners = |file: &Metadata| file.is_file() && file.uid() == owner;
    match sys::name_metadata(path) {
        Ok(named) if is_owners(&named) => {}
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => return Ok(None),
    }
    let file = match sys::open_no_link(path, to_write) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    Ok(is_owners(&sys::metadata(&file)?).then_some(file))
}

/// A new one.
fn create(pool: &PoolFile, path: &Path) -> io::Result<File> {
    let file = sys::create(path, 0o600).map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            io::Error::other(format!("{} is not a file of the pool's owner", path.display()))
        }
        _ => e,
    })?;
    if let Err(e) = share(&file, pool).and_then(|()| allocate(&file)) {
        // One of another owner is used by nobody, and is in the way.
        let _ = sys::unlink(path);
        return Err(e);
    }
    Ok(file)
}

/// Who may read or write the pool may do so with this file.
fn share(file: &File, pool: &PoolFile) -> io::Result<()> {
    let (own, owner) = (sys::metadata(file)?, sys::metadata(pool.file())?);
    if own.uid() != owner.uid() {
        sys::change_owner(file, Some(owner.uid()), None)?;
    }
    let is_groups =
        own.gid() == owner.gid() || sys::change_owner(file, None, Some(owner.gid())).is_ok();
    sys::change_mode(file, owner.mode() & if is_groups { 0o666 } else { 0o606 })
}

fn allocate(file: &File) -> io::Result<()> {
    match sys::allocate(file, 0, FILE_BYTES) {
        Err(e) if sys::is(&e, Errno::OPNOTSUPP) => {
            sys::write_at(file, &vec![0; FILE_BYTES as usize], 0)
        }
        allocated => allocated,
    }
}

/// Locks the file of `path` for a reader; false where the last writer is about to remove it, or has.
fn lock(file: &File, path: &Path) -> io::Result<bool> {
    if !sys::try_lock(file, true)? {
        return Ok(false);
    }
    let locked = sys::metadata(file)?;
    match sys::name_metadata(path) {
        Ok(named) => Ok((named.dev(), named.ino()) == (locked.dev(), locked.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

impl Readers {
    fn map(file: File, sharing: Sharing, path: Option<PathBuf>) -> io::Result<Self> {
        let mapping = Mapping::new(&file, sharing, FILE_BYTES, FILE_BYTES, 0)?;
        let words = mapping.base().cast();
        // SAFETY: the mapping is that long, begins at a page, and goes with the counters. A reader
        // only reads them.
        let changes = unsafe { Changes::over(words, FILE_SHIFT, Box::new(mapping)) };
        Ok(Readers {
            changes,
            file,
            path,
            process: Process::own(),
            is_left: AtomicBool::new(false),
        })
    }

    /// True if a reader need not wait until what it has seen is on the disk: what a killed writer has left may never be.
    #[inline]
    pub(super) fn is_all_durable(&self) -> bool {
        self.changes.is_all_durable() || self.is_left.load(Ordering::Relaxed)
    }

    /// Waits for that, but not for what is stored meanwhile, as long as the writer that is known has `pool` open.
    #[cold]
    pub(super) fn wait_until_all_durable(&self, pool: &File) -> io::Result<()> {
        let (stored, mut rounds) = (self.changes.stored(), 0_u32);
        let is_left = || self.is_left.load(Ordering::Relaxed);
        while !self.changes.is_durable_to(stored) && !is_left() && self.changes.are_as_named() {
            rounds += 1;
            if rounds.is_multiple_of(ASKED_EVERY) && !sys::is_locked(pool)? {
                self.is_left.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(ROUND);
        }
        Ok(())
    }

    /// Those of a writer, which has the pool's lock.
    pub(super) fn of_writer(pool: &PoolFile, id: FileId) -> io::Result<Self> {
        let path = path_beside(pool, id)?;
        let file = match open(pool, &path, true)? {
            Some(file) => {
                allocate(&file)?;
                file
            }
            None => create(pool, &path)?,
        };
        let readers = Self::map(file, Sharing::PageCache, Some(path))?;
        readers.changes.count_for(0);
        readers.changes.name(Named::default());
        // For a reader of the last writer the count says that this is another one.
        readers.changes.stores_in(0);
        readers.changes.durable_to(0);
        Ok(readers)
    }

    /// Those of a reader; `None` where no writer has made the file, or one is about to cut the pool.
    pub(super) fn of_reader(pool: &PoolFile, id: FileId) -> io::Result<Option<Self>> {
        let path = path_beside(pool, id)?;
        let Some(file) = open(pool, &path, false)? else { return Ok(None) };
        if !lock(&file, &path)? || sys::metadata(&file)?.len() < FILE_BYTES {
            return Ok(None);
        }
        Self::map(file, Sharing::Seen, None).map(Some)
    }
}

/// Lets no reader trust the counters that an earlier writer has left, as this one counts nothing. The file stays:
/// readers of that writer may have it locked.
pub(super) fn distrust(pool: &PoolFile, id: FileId) -> io::Result<()> {
    match open(pool, &path_beside(pool, id)?, true)? {
        Some(file) => sys::write_at(&file, &[0; 8], EPOCH_OFF),
        None => Ok(()),
    }
}

/// True if no reader has the pool mapped, nor will before this open file is closed.
fn are_gone(file: &File) -> bool {
    sys::try_lock(file, false).is_ok_and(|locked| locked)
}

/// Runs `cut`, which cuts the pool, unless a reader has it mapped, or may have. `own`: the writer's, if it has any.
pub(super) fn unless_read(
    (pool, id): (&PoolFile, FileId),
    own: Option<&Readers>,
    cut: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // Held until the pool is cut.
    let found = match own {
        Some(_) => None,
        None => match path_beside(pool, id).and_then(|path| open(pool, &path, false)) {
            Ok(found) => found,
            Err(_) => return Ok(()),
        },
    };
    let file = own.map(|readers| &readers.file).or(found.as_ref());
    if file.is_none_or(are_gone) { cut() } else { Ok(()) }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // A forked child has a copy, without the mapping.
        let Some(path) = self.path.as_ref().filter(|_| self.process == Process::own()) else {
            return;
        };
        self.changes.count_for(0);
        if are_gone(&self.file) {
            // If it stays, the next writer takes it.
            let _ = sys::unlink(path);
        }
    }
}
