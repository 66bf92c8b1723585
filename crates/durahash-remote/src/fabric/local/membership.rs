//! Membership: each live client holds a lock on the file of its row, which the system releases when the process dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use durahash_media::process::Process;
use durahash_media::{Error, Result};

use super::super::no_row;
use super::names::row_path;

/// The rows that clients have.
pub(super) enum Membership {
    Anonymous(Mutex<Vec<bool>>),
    Files { dir: PathBuf, rows: u32, mode: u32 },
}

/// A file that is locked by this process.
pub(super) struct RowLock {
    file: File,
    process: Process,
}

impl Drop for RowLock {
    fn drop(&mut self) {
        // A forked child has a copy of `self`, but the lock is its parent's. Closing would do it, but
        // not while a child that was just forked has the file.
        if self.process == Process::own() {
            let _ = self.file.unlock();
        }
    }
}

impl Membership {
    pub(super) fn count(&self) -> u32 {
        match self {
            Membership::Anonymous(taken) => lock(taken).len() as u32,
            Membership::Files { rows, .. } => *rows,
        }
    }

    pub(super) fn take(&self) -> Result<(u32, Option<RowLock>)> {
        match self {
            Membership::Anonymous(taken) => {
                let mut taken = lock(taken);
                let row = taken.iter().position(|taken| !taken);
                let row = row.ok_or_else(|| no_row(taken.len() as u32))?;
                taken[row] = true;
                Ok((row as u32, None))
            }
            Membership::Files { dir, rows, mode } => {
                for row in 0..*rows {
                    let path = row_path(dir, row);
                    let failed = |e| Error::io("registering a client", Some(path.clone()), e);
                    let mut options = OpenOptions::new();
                    options.read(true).write(true).create(true).truncate(false).mode(*mode);
                    let file = options.open(&path).map_err(failed)?;
                    match file.try_lock() {
                        Ok(()) => {
                            let process = Process::own();
                            return Ok((row, Some(RowLock { file, process })));
                        }
                        Err(TryLockError::WouldBlock) => {}
                        Err(TryLockError::Error(e)) => return Err(failed(e)),
                    }
                }
                Err(no_row(*rows))
            }
        }
    }

    /// The number of clients.
    pub(super) fn taken_count(&self) -> Result<u32> {
        let taken = |row| match (self, self.taken(row)) {
            (Membership::Files { dir, .. }, Err(_)) if !row_path(dir, row).exists() => Ok(false),
            (_, taken) => taken,
        };
        (0..self.count()).map(|row| taken(row).map(u32::from)).sum()
    }

    /// Frees a row of anonymous memory; otherwise the lock does it.
    pub(super) fn give_back(&self, row: u32) {
        if let Membership::Anonymous(taken) = self {
            lock(taken)[row as usize] = false;
        }
    }

    /// Returns whether a client has the row, which one had before. A missing file is an error.
    pub(super) fn taken(&self, row: u32) -> Result<bool> {
        match self {
            Membership::Anonymous(taken) => {
                Ok(lock(taken).get(row as usize).is_some_and(|taken| *taken))
            }
            Membership::Files { rows, .. } if row >= *rows => Ok(false),
            Membership::Files { dir, .. } => {
                let path = row_path(dir, row);
                let failed =
                    |e| Error::io("testing whether a client is alive", Some(path.clone()), e);
                let file = File::open(&path).map_err(failed)?;
                // Shared, so two tests at the same time do not disturb each other. A client that
                // wants the row at this moment takes the next one.
                match file.try_lock_shared() {
                    Ok(()) => Ok(false),
                    Err(TryLockError::WouldBlock) => Ok(true),
                    Err(TryLockError::Error(e)) => Err(failed(e)),
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
