//! Extents for a log, so that a pool and its log are one file.
//!
//! A log is made beside a pool that lies in the page cache, which writes pages back in any order. So each
//! step is on the disk before the next begins, and a loss of power leaves the pool as it was, closed or
//! not, with a log or without:
//!
//! | Step | Then | If power is lost after this step |
//! |---|---|---|
//! | the file is lengthened | sync of the file | longer than the pool: cut or used later |
//! | the number of extents | sync | there are free ones at the end |
//! | their kinds, log | sync | some say so, and the superblock names no log: they are free |
//! | the area: zeros, then two heads | sync after each | as before |
//! | the area's length | sync | as before |
//! | its offset | sync | there is an empty log |

use std::time::Duration;

use super::extents::Extents;
use super::{Pool, Superblock};
use crate::error::{Error, Limit, Result};
use crate::lock::wait_lock;
use crate::medium::{
    AREA_BYTES_MIN, LOG_ALIGN, LogSpace, Mapped, Medium, Memory, SyncMode, format_log, place_log,
};
use crate::word::bits;

const SYNC_MODE_OFF: u64 = std::mem::offset_of!(Superblock, sync_mode) as u64;

/// The mode of a word; `None` for a word of a later format.
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
        mode_of(word).ok_or_else(|| Error::corrupt("the stored mode is unknown", SYNC_MODE_OFF))
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

#[allow(private_bounds, reason = "public for a mapped file only")]
impl<M: LogSpace> Pool<M> {
    /// Makes an area for a log of about `bytes` bytes, if there is none. Comes before
    /// [`begin`](Pool::begin), whose place it does not take.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full): nothing has changed then; [`Io`](crate::ErrorKind::Io).
    pub fn add_log(&self, bytes: u64) -> Result<()> {
        let medium = &self.medium;
        let superblock = self.at::<Superblock>(0)?;
        if medium.load(&superblock.log[0]) != 0 {
            return Ok(());
        }
        // Sizes near the end of the number range would overflow where the log is placed.
        if bytes > self.format.max_bytes {
            let max_bytes = self.format.max_bytes;
            return Err(Error::full(bytes, Limit::Pool { max_bytes }));
        }
        let extent_bytes = self.extent_bytes();
        let head_bytes = self.format.head_extents() * extent_bytes;
        let mut extents = wait_lock(&self.extents, medium);
        let (off, bytes) = place(&extents, extent_bytes, bytes)?;
        let range = off / extent_bytes..(off + bytes).div_ceil(extent_bytes);
        if range.end > extents.kinds().len() as u64 {
            medium.grow(range.end * extent_bytes)?;
            // Of the file: that of a range need not take the length along.
            medium.sync_file()?;
            extents.count_in(medium, range.end)?;
            medium.sync(0, head_bytes)?;
        }
        extents.mark_log(medium, range)?;
        medium.sync(0, head_bytes)?;
        format_log(medium, off, bytes, self.uuid)?;
        for (word, v) in superblock.log.iter().zip([off, bytes]).rev() {
            medium.store(word, v);
            medium.flush(word);
            medium.sync(0, head_bytes)?;
        }
        Ok(())
    }
}

/// Offset and bytes of the area of a log of about `bytes` bytes, in extents that are free: where the log
/// may be written past the page cache, if there is such a place.
pub(super) fn place(extents: &Extents, extent_bytes: u64, bytes: u64) -> Result<(u64, u64)> {
    // Extents of less than a page may begin inside one.
    let align = extent_bytes.max(LOG_ALIGN);
    let anywhere = (bytes.max(AREA_BYTES_MIN).next_multiple_of(align), align);
    for (bytes, align) in place_log(bytes).into_iter().chain([anywhere]) {
        let mut end = bytes.next_multiple_of(align);
        while end.div_ceil(extent_bytes) <= extents.max() {
            let off = end - bytes;
            if extents.are_free(off / extent_bytes..end.div_ceil(extent_bytes)) {
                return Ok((off, bytes));
            }
            end += align;
        }
    }
    Err(Error::full(bytes, Limit::Pool { max_bytes: extents.max() * extent_bytes }))
}

impl Pool<Mapped> {
    /// True if the pool has a log.
    ///
    /// # Errors
    /// Never for a pool that is open; the bounds are checked all the same.
    pub fn has_log(&self) -> Result<bool> {
        Ok(self.medium.load(&self.at::<Superblock>(0)?.log[0]) != 0)
    }

    /// The medium, of a pool that nobody uses.
    pub fn into_medium(self) -> Mapped {
        self.medium
    }
}
