//! A copy of a pool that is in use.
//!
//! A pool with a live image is copied as one cut of it: the medium makes the copy, which is then recovered, as after a loss
//! of power, before it has a name (`durahash-media`, `medium/live/backup.rs`; `beside.rs` where another process writes). A pool that was closed, and is open for
//! reading, is copied byte by byte. Any other is written anew, entry by entry.

use std::path::Path;

use durahash_media::{CopiedAs, Dax, FileLock, Mapped, MappedOptions, Pool, PoolCopy, Result};

use super::compact::copy_all;
use super::maps::OpenPool;
use super::open::open_on;
use super::settings::Settings;
use super::spec::{Required, refused};

impl OpenPool {
    /// See [`Map::backup`](crate::Map::backup).
    pub(crate) fn backup(&self, to: &Path, watch: &mut dyn FnMut(u64, u64)) -> Result<()> {
        self.check_process()?;
        let copy = PoolCopy::create(to)?;
        match self.store.copy_to(&copy, watch)? {
            CopiedAs::Nothing if self.store.facts().suspect => {
                refused("a suspect pool is not backed up: dump it into a new one")
            }
            CopiedAs::Nothing => copy_all(self, to, &Settings::new(), watch)?.publish(),
            CopiedAs::Closed => verified(copy.into_lock())?.publish(),
            CopiedAs::Cut => recovered(copy.finish()?)?.publish(),
        }
    }
}

/// Of the copy's file, which nobody else knows of.
fn reopen(lock: FileLock) -> Result<Mapped> {
    let mut options = MappedOptions::default();
    options.dax = Dax::Off;
    Mapped::reopen(lock, &options)
}

/// Verifies the check words of a closed pool.
fn verified(copy: FileLock) -> Result<FileLock> {
    let pool = Pool::open(reopen(copy)?, false)?;
    pool.verify()?;
    Ok(pool.medium().file_lock())
}

/// Closes a pool that is as a loss of power leaves it.
fn recovered(copy: FileLock) -> Result<FileLock> {
    let settings = Settings { verify: true, dax: Dax::Off, ..Settings::new() };
    let file = reopen(copy)?;
    let lock = file.file_lock();
    open_on(&settings, file, Required::ANY)?.close_last()?;
    Ok(lock)
}
