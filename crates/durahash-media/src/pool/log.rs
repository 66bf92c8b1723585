//! Extents for a log, so that a pool and its log are one file.
//!
//! A log is made beside a pool that lies in the page cache, which writes pages back in any order. So each
//! step is on the disk before the next begins, and a loss of power leaves the pool as it was, closed or
//! not, with a log or without:
//!
//! | Step | Then | If power is lost after this step |
//! |---|---|---|
//! | the file is lengthened, by a hole but for the part that a new log uses | sync of the file | longer than the pool: cut or used later |
//! | there is no area of check words | sync | the next close makes one |
//! | the number of extents | sync | there are free ones at the end |
//! | their kinds, log | sync | some say so, and the superblock names no log: they are free |
//! | the part of the area that a new log uses: zeros, then two heads | sync after each | as before |
//! | the area's length | sync | as before |
//! | its offset | sync | there is an empty log |
//!
//! A closed log is replaced by a longer one in the same way. Between the two the pool has none: before the new
//! length the offset is zero, and the old one's extents are free after the new offset is there.
//!
//! | Step | Then | If power is lost after this step |
//! |---|---|---|
//! | as above, up to the area's heads | as above | the old log; the new extents are free |
//! | offset zero | sync | no log, as the pool was closed; the extents of both are free |
//! | length, offset | as above | as above |
//! | kinds of the old extents: free | sync | the new log; those are free anyway |

use std::time::Duration;

use super::extents::Extents;
use super::{Pool, Superblock};
use crate::error::{Error, Limit, Result};
use crate::lock::wait_lock;
use crate::medium::{
    AREA_BYTES_MIN, LOG_ALIGN, LogSpace, Mapped, Medium, Memory, SyncMode, end_of_log, format_log,
    place_log, used_at_first,
};
use crate::word::bits;

/// Longer pools have all of a new log's area reserved, as a further extent table may lie where it was to be; and
/// longer logs, so that one for which there is no space is refused.
const HOLE_BYTES_MAX: u64 = 1 << 30;

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
        self.touch(SYNC_MODE_OFF);
        self.medium.store(word, to_word(mode));
        self.medium.flush(word);
        self.medium.sync(0, size_of::<Superblock>() as u64)
    }
}

#[allow(private_bounds, reason = "public for a mapped file only")]
impl<M: LogSpace> Pool<M> {
    /// Makes an area for a log of about `bytes` bytes, if there is none: for one of lines, or for the ring beside a live image.
    /// Comes before [`begin`](Pool::begin), whose place it does not take.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full): nothing has changed then; [`Io`](crate::ErrorKind::Io).
    pub fn add_log(&self, bytes: u64, is_ring: bool) -> Result<()> {
        if self.medium.load(&self.at::<Superblock>(0)?.log[0]) != 0 {
            return Ok(());
        }
        self.make_log(bytes, is_ring)
    }

    /// Makes a log of about one `part`-th of the rest of the pool, at the most `most` bytes, in the place of a shorter
    /// one, if the pool was closed. Comes before [`begin`](Pool::begin), as [`add_log`](Pool::add_log). The pool has no check words then until it is closed
    /// again: to `verify` the pool is to do so now.
    ///
    /// # Errors
    /// As [`add_log`](Pool::add_log), and [`verify`](Pool::verify).
    pub fn replace_log(&self, part: u64, most: u64, is_ring: bool, verify: bool) -> Result<()> {
        let had = self.medium.load(&self.at::<Superblock>(0)?.log[1]);
        let rest = self.stats().bytes.saturating_sub(had);
        let bytes = (rest / part).next_power_of_two().min(most);
        if bytes > had && self.was_clean && self.medium.is_log_closed() {
            if verify {
                self.verify()?;
            }
            self.make_log(bytes, is_ring)?;
        }
        Ok(())
    }

    fn make_log(&self, bytes: u64, is_ring: bool) -> Result<()> {
        let medium = &self.medium;
        let superblock = self.at::<Superblock>(0)?;
        // Sizes near the end of the number range would overflow where the log is placed.
        let max_bytes = self.format.max_bytes;
        if bytes > max_bytes.min(1 << 42) {
            let long = Limit::Design("no log has more than 4 TiB");
            let limit = if bytes > max_bytes { Limit::Pool { max_bytes } } else { long };
            return Err(Error::full(bytes, limit));
        }
        let extent_bytes = self.extent_bytes();
        let [off_word, bytes_word] = &superblock.log;
        let [old_off, old_bytes] = [off_word, bytes_word].map(|word| medium.load(word));
        // The old area's holes are filled now, so that its next use is not refused space.
        medium.fill(old_off, old_off + old_bytes)?;
        let mut extents = wait_lock(&self.extents, medium);
        let sync = || medium.sync(0, medium.region().len());
        // The area of check words stays in use until the pool is opened again.
        let forget_checks = || self.checks.forget(medium).and_then(|()| sync());
        // There is space for the new one when the old one's image goes, which comes before the first store.
        let leave_old = || medium.disown_image().and_then(|()| forget_checks());
        // The unused part of a new log is a hole, where that is much of the file.
        let has_hole = medium.region().len().max(bytes) < HOLE_BYTES_MAX;
        let mut reserved = medium.region().len();
        let (off, bytes, range) = loop {
            let (off, bytes) = place(&extents, extent_bytes, bytes)?;
            let range = off / extent_bytes..(off + bytes).div_ceil(extent_bytes);
            let end = range.end * extent_bytes;
            let hole = if has_hole { off + used_at_first(bytes) } else { end };
            medium.grow_with_hole(end, hole)?;
            medium.fill(reserved, hole)?;
            reserved = hole.max(reserved);
            if range.end <= extents.kinds().len() as u64 {
                break (off, bytes, range);
            }
            // Of the file: that of a range need not take the length along.
            medium.sync_file()?;
            leave_old()?;
            // An extent table that the pool needs now may take an extent there.
            extents.count_in(medium, range.end)?;
            sync()?;
        };
        leave_old()?;
        extents.mark_log(medium, range)?;
        sync()?;
        format_log(medium, off, bytes, self.uuid, is_ring)?;
        for (word, v) in [(off_word, 0), (bytes_word, bytes), (off_word, off)] {
            if medium.load(word) != v {
                medium.store(word, v);
                medium.flush(word);
                sync()?;
            }
        }
        if old_off != 0 {
            for i in old_off / extent_bytes..(old_off + old_bytes).div_ceil(extent_bytes) {
                extents.release(medium, i)?;
            }
            sync()?;
        }
        Ok(())
    }
}

/// Offset and bytes of the area of a log of about `bytes` bytes, in extents that are free: where the log
/// may be written past the page cache, if there is such a place; and directly behind what is in use, as the
/// extents before it would have to be reserved.
pub(super) fn place(extents: &Extents, extent_bytes: u64, bytes: u64) -> Result<(u64, u64)> {
    // Extents of less than a page may begin inside one.
    let align = extent_bytes.max(LOG_ALIGN);
    let len = extents.kinds().len() as u64;
    let in_use = (0..len).rev().find(|i| !extents.are_free(*i..*i + 1)).map_or(0, |i| i + 1);
    let behind = (in_use * extent_bytes).next_multiple_of(align);
    if let Some(end) = end_of_log(behind, bytes)
        && end.div_ceil(extent_bytes) <= extents.max()
    {
        return Ok((behind, end - behind));
    }
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

    /// The medium, of a pool that is not in use.
    pub fn into_medium(self) -> Mapped {
        self.medium
    }
}
