//! Pages of the image that are memory of this process, and how they are given back.
//!
//! A page of the image that was stored to is a copy of the file's page, which the system can neither
//! write back nor drop. Once all that was flushed of it is in the pool, and it has no other bytes than the
//! file's page, it may be dropped: whoever looks at it next sees the file's page. So a pool may be larger
//! than memory.
//!
//! | Step | Why |
//! |---|---|
//! | all lines are written | else no page is equal that is in use |
//! | pages that look equal are chosen | the gate is closed for little else than the next steps |
//! | the [gate](super::gate) is closed | no store is lost between the look at a page and its drop |
//! | no line is numbered any more | |
//! | pages are left out of which a line is not written to the pool yet | it may be older than what the page holds, and would be seen once the page is the file's |
//! | those that are still equal are dropped | |
//!
//! A store that was made before, and is flushed after, is copied from the file's page then: the same bytes.
//! Readers pass no gate: they see the same bytes on either page.
//!
//! What a pool grows by, up to a quarter of the bound, is huge pages of the process from the start and is
//! not given back: lookups there take half the time that they take in small pages.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::param::page_size;

use super::disk::Disk;
use super::gate;
use super::log::Log;
use crate::error::Result;
use crate::medium::{Dram, Memory, Region, Storage};
use crate::word::PmU64;

/// Pages that are dropped under one close of the gate, at the most.
const AT_ONCE: usize = 64;

/// Which pages of an image are private: those of which a line was flushed.
pub(super) struct Private {
    /// A bit for each page; changed while no line can be numbered. `None` where there is no limit.
    bits: Option<Dram>,
    count: AtomicU64,
    /// Pages beyond which some are given back.
    limit: u64,
    page_bytes: u64,
}

impl Private {
    /// Nothing is private yet, in an image of so many bytes at the most.
    pub(super) fn new(image: &Region, limit_bytes: u64) -> Result<Private> {
        let page_bytes = page_size() as u64;
        let mut bits = None;
        if limit_bytes < u64::MAX {
            let bytes = image.reserved().div_ceil(page_bytes).div_ceil(64) * 8;
            let dram = Dram::new(bytes)?;
            dram.grow(bytes)?;
            bits = Some(dram);
        }
        Ok(Private { bits, count: AtomicU64::new(0), limit: limit_bytes / page_bytes, page_bytes })
    }

    /// The bits of 64 pages.
    fn word(&self, i: u64) -> Option<&PmU64> {
        self.bits.as_ref()?.region().at(i * 8).ok()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.count.load(Ordering::Relaxed) * self.page_bytes
    }

    /// Whether some shall be given back.
    pub(super) fn is_too_much(&self) -> bool {
        self.count.load(Ordering::Relaxed) > self.limit
    }

    /// Notes that the page with byte `off` is private; whether that makes it too much.
    pub(super) fn add(&self, off: u64) -> bool {
        let page = off / self.page_bytes;
        self.change(page, |bits| bits | 1 << (page % 64)) && self.is_too_much()
    }

    fn change(&self, page: u64, change: impl FnOnce(u64) -> u64) -> bool {
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
    fn some(&self, at: &mut u64, image_bytes: u64) -> Vec<u64> {
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

impl<D: Disk> Log<D> {
    /// Gives private pages back until half of what is allowed is left, as far as they are equal to the
    /// file's.
    pub(super) fn give_back(&self) {
        self.commit(self.next());
        let private = &self.private;
        let mut at = 0;
        while private.count.load(Ordering::Relaxed) > private.limit / 2 && !self.has_failed() {
            let pages = private.some(&mut at, self.disk.region().len());
            if pages.is_empty() {
                return;
            }
            self.give_back_some(&pages);
        }
    }

    fn give_back_some(&self, pages: &[u64]) {
        let page_bytes = self.private.page_bytes;
        let is_equal = |page: &u64| self.disk.shows_pool(*page, page_bytes);
        let likely: Vec<u64> = pages.iter().copied().filter(is_equal).collect();
        if likely.is_empty() {
            return;
        }
        let mut unwritten = HashSet::new();
        let until = self.unwritten(None, &mut unwritten);
        let _ = gate::closed(|| {
            self.while_unnumbered(|| {
                self.unwritten(Some(until), &mut unwritten);
                for page in likely.iter().filter(|page| !unwritten.contains(*page)) {
                    if is_equal(page) && self.disk.forget(*page, page_bytes) {
                        let page = page / page_bytes;
                        self.private.change(page, |bits| bits & !(1 << (page % 64)));
                    }
                }
            });
        });
    }

    /// Adds the pages of lines that are not written to the pool, from number `from` on; what comes
    /// behind the last.
    fn unwritten(&self, from: Option<u64>, pages: &mut HashSet<u64>) -> u64 {
        let until = self.next();
        // A line that is written meanwhile may be read as another one, and keeps a page for a while.
        for number in from.unwrap_or_else(|| self.durable())..until {
            pages.insert(
                self.staged_off(number) / self.private.page_bytes * self.private.page_bytes,
            );
        }
        until
    }
}
