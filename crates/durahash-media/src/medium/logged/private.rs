//! The pages of the image that are memory of this process; `reclaim.rs` gives them back.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::param::page_size;

use crate::error::Result;
use crate::medium::{Dram, Memory, Region, Storage};
use crate::word::PmU64;

/// Pages that are dropped under one close of the gate, at the most.
const AT_ONCE: usize = 64;

/// Which pages of an image are private: those of which a line was flushed.
pub(super) struct Private {
    /// A bit for each page; changed while no line can be numbered. `None` where there is no limit.
    bits: Option<Dram>,
    pub(super) count: AtomicU64,
    /// Pages beyond which some are given back.
    pub(super) limit: u64,
    pub(super) page_bytes: u64,
    /// How often the caller was the only one who would give some back.
    turns: AtomicU64,
}

impl Private {
    /// Nothing is private yet in this image.
    pub(super) fn new(image: &Region, limit_bytes: u64) -> Result<Private> {
        let page_bytes = page_size() as u64;
        let mut bits = None;
        if limit_bytes < u64::MAX {
            bits = Some(Dram::new(bits_bytes(image.max_bytes(), page_bytes))?);
        }
        let limit = limit_bytes / page_bytes;
        let private =
            Private { bits, count: AtomicU64::new(0), limit, page_bytes, turns: AtomicU64::new(0) };
        private.cover(image.len())?;
        Ok(private)
    }

    /// Makes room for the pages of an image of so many bytes.
    pub(super) fn cover(&self, image_bytes: u64) -> Result<()> {
        let bytes = bits_bytes(image_bytes, self.page_bytes);
        self.bits.as_ref().map_or(Ok(()), |bits| bits.grow(bytes))
    }

    /// The bits of 64 pages.
    fn word(&self, i: u64) -> Option<&PmU64> {
        self.bits.as_ref()?.region().at(i * 8).ok()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.count.load(Ordering::Relaxed) * self.page_bytes
    }

    /// True if some shall be given back.
    pub(super) fn is_too_much(&self) -> bool {
        self.count.load(Ordering::Relaxed) > self.limit
    }

    /// True each 64th time, as the caller looks at all of them.
    pub(super) fn is_turn(&self) -> bool {
        self.turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(64)
    }

    /// Notes that the page with byte `off` is private; true if that makes it too much.
    pub(super) fn add(&self, off: u64) -> bool {
        let page = off / self.page_bytes;
        self.change(page, |bits| bits | 1 << (page % 64)) && self.is_too_much()
    }

    pub(super) fn change(&self, page: u64, change: impl FnOnce(u64) -> u64) -> bool {
        let Some(word) = self.word(page / 64) else {
            return false;
        };
        let (old, new) = (word.load(), change(word.load()));
        if old == new {
            return false;
        }
        word.store(new);
        if new > old {
            self.count.fetch_add(1, Ordering::Relaxed);
        } else {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// Private pages from `*at` on, a few, by their offsets; none at the end of an image of so many
    /// bytes.
    pub(super) fn some(&self, at: &mut u64, image_bytes: u64) -> Vec<u64> {
        let mut found = Vec::new();
        let words = image_bytes.div_ceil(self.page_bytes * 64);
        while *at < words && found.len() < AT_ONCE {
            let mut bits = self.word(*at).map_or(0, PmU64::load);
            while bits != 0 {
                found.push((*at * 64 + u64::from(bits.trailing_zeros())) * self.page_bytes);
                bits &= bits - 1;
            }
            *at += 1;
        }
        found
    }
}

/// Bytes of a bit for each page of an image, in whole words.
fn bits_bytes(image_bytes: u64, page_bytes: u64) -> u64 {
    image_bytes.div_ceil(page_bytes).div_ceil(64) * 8
}
