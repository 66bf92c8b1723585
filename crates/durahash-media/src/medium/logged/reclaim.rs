//! Pages of the image that are memory of this process, and how they are given back.
//!
//! A page of the image that was stored to is a copy of the file's page, which the system can neither
//! write back nor drop. Once all that was flushed of it is in the pool, and it has no other bytes than the
//! file's page, it may be dropped: the next load sees the file's page. So a pool may be larger
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
//! The growth of a pool, up to a quarter of the bound, is huge pages of the process from the start and is
//! not given back: lookups there take half the time that they take in small pages.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::disk::Disk;
use super::gate;
use super::log::Log;
use crate::primitive::lock;

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
        let until = {
            // The parts of the area stay where they are.
            let _head = lock(&self.head);
            self.unwritten(None, &mut unwritten)
        };
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

    /// Adds the pages of lines that are not written to the pool, from number `from` on; returns the number
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
