//! Extents for a log, so that a pool and its log are one file.

use std::time::Duration;

use super::{Pool, Superblock};
use crate::error::{Error, Result};
use crate::lock::wait_lock;
use crate::medium::{AREA_BYTES_MIN, LOG_ALIGN, Mapped, Medium, SyncMode};
use crate::word::bits;

const SYNC_MODE_OFF: u64 = std::mem::offset_of!(Superblock, sync_mode) as u64;

/// The mode that a word stands for; `None` for a word of a later
/// format.
fn mode_of(word: u64) -> Option<SyncMode> {
    match bits(word, 0, 8) {
        0 => Some(SyncMode::Process),
        1 => Some(SyncMode::Strict),
        2 => Some(SyncMode::Interval(Duration::from_millis(word >> 8))),
        _ => None,
    }
}

fn to_word(mode: SyncMode) -> u64 {
    match mode {
        SyncMode::Process => 0,
        SyncMode::Strict => 1,
        SyncMode::Interval(every) => 2 | (every.as_millis().clamp(1, 1 << 32) as u64) << 8,
    }
}

impl<M: Medium> Pool<M> {
    /// The mode that the pool on `medium` is opened in if nothing else is asked for.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where it says none that is known.
    pub fn sync_mode(medium: &M) -> Result<SyncMode> {
        let word = medium.load(&medium.region().at::<Superblock>(0)?.sync_mode);
        mode_of(word).ok_or_else(|| Error::corrupt("mode of the pool", SYNC_MODE_OFF))
    }

    /// Stores the mode that the pool is opened in from now on.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    pub fn set_sync_mode(&self, mode: SyncMode) -> Result<()> {
        let word = &self.at::<Superblock>(0)?.sync_mode;
        self.medium.store(word, to_word(mode));
        self.medium.flush(word);
        self.medium.sync(0, size_of::<Superblock>() as u64)
    }
}

impl Pool<Mapped> {
    /// Makes an area for a log, of `bytes` bytes or as many more as make whole extents and a log, if
    /// there is none. Comes before [`begin`](Pool::begin), whose place it does not take.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full); [`Io`](crate::ErrorKind::Io).
    pub fn add_log(&self, bytes: u64) -> Result<()> {
        let medium = &self.medium;
        let superblock = self.at::<Superblock>(0)?;
        if medium.load(&superblock.log[0]) != 0 {
            return Ok(());
        }
        let extent_bytes = self.extent_bytes();
        // Extents of less than a page may begin inside one.
        let bytes = bytes.max(AREA_BYTES_MIN + LOG_ALIGN);
        let mut extents = wait_lock(&self.extents, medium);
        let (first, count) = extents.take_log(medium, bytes.div_ceil(extent_bytes))?;
        let head_bytes = self.format.head_extents() * extent_bytes;
        medium.sync(0, head_bytes)?;
        let (off, bytes) =
            medium.format_log(first * extent_bytes, count * extent_bytes, self.uuid)?;
        medium.store(&superblock.log[1], bytes);
        medium.flush(superblock);
        medium.sync(0, head_bytes)?;
        medium.store(&superblock.log[0], off);
        medium.flush(superblock);
        medium.sync(0, head_bytes)
    }

    /// The medium, of a pool that nobody uses.
    pub fn into_medium(self) -> Mapped {
        self.medium
    }
}
