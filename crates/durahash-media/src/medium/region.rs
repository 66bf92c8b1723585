//! The bytes of a medium: one range of addresses, backed from its start.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ADDRESS_BYTES;
use crate::error::{Error, Limit, Result};
use crate::word::{OnMedia, PmU64};

/// A range of addresses whose first [`len`](Region::len) bytes are backed by memory.
///
/// The backed part only grows while the region lives, so a reference into it stays good for as long
/// as the region is borrowed. It always points to words ([`OnMedia`]), so any bytes, even
/// those of a wild offset, are a valid value.
pub struct Region {
    base: NonNull<u8>,
    len: AtomicU64,
    /// All ones, or zero where nothing is fetched on speculation.
    speculation: u64,
    max_bytes: u64,
}

// SAFETY: the region is plain memory that is read and written through atomics only; its maker
// keeps it mapped for the region's life.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// A region from `base` that never has more than `max_bytes`, of which the first `len` are backed.
    ///
    /// # Safety
    /// `base` is aligned to 4096 bytes (256 for a simulated medium's); `len` bytes from it are
    /// readable and writable, stay so while the region lives, and are accessed as atomics only. Of a pool that
    /// another process writes they are readable only, and nobody stores.
    pub(crate) unsafe fn new(base: NonNull<u8>, len: u64, max_bytes: u64) -> Self {
        debug_assert!(base.as_ptr().addr().is_multiple_of(256) && len <= max_bytes);
        Region { base, len: AtomicU64::new(len), speculation: u64::MAX, max_bytes }
    }

    /// Bytes that are backed.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// The region never has more bytes. It has fewer where there are no addresses for them.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// The limit that a growth beyond its [`max_bytes`](Region::max_bytes) meets.
    pub(crate) fn limit(&self) -> Limit {
        let max_bytes = self.max_bytes;
        if max_bytes < ADDRESS_BYTES { Limit::Pool { max_bytes } } else { Limit::Addresses }
    }

    /// Records that the first `len` bytes are backed now.
    ///
    /// # Safety
    /// They are, as in [`Region::new`].
    pub(crate) unsafe fn set_len(&self, len: u64) {
        debug_assert!(len >= self.len() && len <= self.max_bytes);
        self.len.store(len, Ordering::Release);
    }

    /// Ends the region at `len`, before anything was lent from beyond.
    pub(crate) fn end_at(&mut self, len: u64) {
        *self.len.get_mut() = len.min(self.len());
    }

    /// Lends nothing any more.
    pub(crate) fn end(&self) {
        self.len.store(0, Ordering::Release);
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The offset of `word`, which lies in this region.
    #[inline(always)]
    #[must_use]
    pub fn offset_of(&self, word: &PmU64) -> u64 {
        (word.addr().addr() - self.base.as_ptr().addr()) as u64
    }

    /// The same region, of which no line is fetched that may not be needed: reading is dear.
    pub(crate) fn without_speculation(self) -> Self {
        Region { speculation: 0, ..self }
    }

    /// Starts to fetch the line at `off`, wherever that is, which is probably needed. Does nothing
    /// on persistent memory, whose bandwidth is dear.
    #[inline(always)]
    pub fn speculate(&self, off: u64) {
        let off = off & self.speculation;
        super::prefetch_line(self.base.as_ptr().wrapping_add(off as usize));
    }

    /// The `T` at offset `off`.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when the offset is not aligned or its bytes are not
    /// backed. An offset that is merely stale reads words that the caller's version check rejects.
    #[inline(always)]
    pub fn at<T: OnMedia>(&self, off: u64) -> Result<&T> {
        const { assert!(align_of::<T>() <= 256, "no base is aligned to more") }
        let bytes = size_of::<T>() as u64;
        let len = self.len();
        if off > len.wrapping_sub(bytes)
            || len < bytes
            || !off.is_multiple_of(align_of::<T>() as u64)
        {
            return Err(Error::corrupt("offset out of bounds", off));
        }
        // SAFETY: in bounds and aligned (the base is at least as aligned as any OnMedia type here);
        // OnMedia types are valid for any bytes and are accessed atomically.
        Ok(unsafe { &*self.base.as_ptr().add(off as usize).cast::<T>() })
    }

    /// `count` words from offset `off`.
    ///
    /// # Errors
    /// As [`Region::at`].
    #[inline]
    pub fn words(&self, off: u64, count: u64) -> Result<&[PmU64]> {
        let len = self.len();
        let end = count.checked_mul(8).and_then(|bytes| off.checked_add(bytes));
        if end.is_none_or(|end| end > len) || !off.is_multiple_of(8) {
            return Err(Error::corrupt("offset out of bounds", off));
        }
        // SAFETY: as in `at`.
        Ok(unsafe {
            std::slice::from_raw_parts(
                self.base.as_ptr().add(off as usize).cast::<PmU64>(),
                count as usize,
            )
        })
    }
}
