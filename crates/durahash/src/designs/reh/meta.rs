//! REH's metadata in DRAM: 32 bytes for each bucket, at a place that is computed from its number, so
//! that bucket and metadata are fetched together.
//!
//! ```text
//! metadata of bucket n, row n
//!  0  lock: {version, X, W}, see VersionLock
//!  8  fingerprints of slots 0-7
//! 16  fingerprints of slots 8-14; local depth
//! 24  bitmap of live slots
//! ```
//!
//! A row is zero until its bucket is met, or made. It is never made zero again.

use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::hash::fingerprint;
use durahash_media::probe::{self, BitMask};
use durahash_media::{Reserved, VersionLock, bits};

use super::layout::ALL_SLOTS;

/// The metadata of one bucket.
#[derive(Clone, Copy)]
pub(crate) struct Meta<'a>(&'a [AtomicU64; 4]);

/// Where the local depth lies in the second word of fingerprints.
const DEPTH_SHIFT: u32 = 56;

impl<'a> Meta<'a> {
    #[inline(always)]
    pub(crate) fn of(rows: &'a Reserved<4>, bucket: u64) -> Self {
        Meta(rows.row(bucket))
    }

    #[inline(always)]
    pub(crate) fn lock(self) -> VersionLock<'a> {
        VersionLock::new(&self.0[0])
    }

    /// Live slots, one bit each.
    #[inline(always)]
    pub(crate) fn live(self) -> u16 {
        self.0[3].load(Ordering::Acquire) as u16
    }

    /// Live slots whose fingerprint is that of `h`.
    #[inline(always)]
    pub(crate) fn candidates(self, h: u64) -> BitMask {
        let words = [self.0[1].load(Ordering::Acquire), self.0[2].load(Ordering::Acquire)];
        BitMask(probe::match_byte(words, fingerprint(h)).0 & self.live() & ALL_SLOTS)
    }

    /// The local depth.
    #[inline]
    pub(crate) fn depth(self) -> u32 {
        (self.0[2].load(Ordering::Acquire) >> DEPTH_SHIFT) as u32
    }

    #[inline]
    pub(crate) fn set_depth(self, depth: u32) {
        let others = self.0[2].load(Ordering::Relaxed) & !(0xff << DEPTH_SHIFT);
        self.0[2].store(others | u64::from(depth) << DEPTH_SHIFT, Ordering::Release);
    }

    /// Marks a slot as live, with its fingerprint.
    #[inline]
    pub(crate) fn add(self, slot: u32, h: u64) {
        let word = &self.0[1 + (slot / 8) as usize];
        let shift = slot % 8 * 8;
        let others = word.load(Ordering::Relaxed) & !(0xff << shift);
        word.store(others | u64::from(fingerprint(h)) << shift, Ordering::Release);
        self.set_live(self.live() | 1 << slot);
    }

    #[inline]
    pub(crate) fn set_live(self, live: u16) {
        self.0[3].store(u64::from(live), Ordering::Release);
    }

    /// Stores everything but the lock, of a bucket that no thread can be in.
    pub(crate) fn fill(self, fingerprints: [u64; 2], live: u16, depth: u32) {
        self.0[1].store(fingerprints[0], Ordering::Release);
        self.0[2].store(fingerprints[1] | u64::from(depth) << DEPTH_SHIFT, Ordering::Release);
        self.set_live(live);
    }

    /// True if there is a row: the bucket is on the chain, or was since the open.
    pub(crate) fn is_made(self) -> bool {
        self.depth() != 0
    }

    /// The fingerprint kept for a slot.
    pub(crate) fn fingerprint(self, slot: u32) -> u8 {
        bits(self.0[1 + (slot / 8) as usize].load(Ordering::Acquire), slot % 8 * 8, 8) as u8
    }
}
