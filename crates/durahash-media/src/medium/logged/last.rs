//! The last of each line that a log holds.
//!
//! A log has many lines of the same bytes of the pool, of which the last counts. Kept by pages they take
//! no more memory than the part of the pool that they are of, and are shown and written in its order.

use std::fmt;

use super::format::Line;
use crate::medium::LINE_BYTES;

const PAGE_LINES: u64 = 64;

/// See the module docs in the source.
#[derive(Default)]
pub(super) struct LastLines {
    /// Number of each page of the pool among `pages`, counted from one; zero has none.
    index: Vec<u32>,
    pages: Vec<Page>,
}

struct Page {
    number: u64,
    /// Which lines are there.
    there: u64,
    lines: Box<[Line; PAGE_LINES as usize]>,
}

impl fmt::Debug for LastLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lines of {} pages", self.pages.len())
    }
}

impl LastLines {
    /// The line at `off`, in a pool of so many bytes, is this one from now on.
    pub(super) fn put(&mut self, pool_bytes: u64, off: u64, line: &Line) {
        let number = off / LINE_BYTES / PAGE_LINES;
        if self.index.is_empty() {
            self.index = vec![0; pool_bytes.div_ceil(LINE_BYTES * PAGE_LINES) as usize];
        }
        let at = &mut self.index[number as usize];
        if *at == 0 {
            self.pages.push(Page {
                number,
                there: 0,
                lines: Box::new([[0; 8]; PAGE_LINES as usize]),
            });
            *at = self.pages.len() as u32;
        }
        let page = &mut self.pages[*at as usize - 1];
        let i = off / LINE_BYTES % PAGE_LINES;
        page.there |= 1 << i;
        page.lines[i as usize] = *line;
    }

    /// Calls `f` with the offset of each line and the line, in the order of the pool.
    pub(super) fn each(&self, f: &mut dyn FnMut(u64, &Line)) {
        for at in self.index.iter().filter(|at| **at != 0) {
            let page = &self.pages[*at as usize - 1];
            for i in (0..PAGE_LINES).filter(|i| page.there >> i & 1 == 1) {
                let off = (page.number * PAGE_LINES + i) * LINE_BYTES;
                f(off, &page.lines[i as usize]);
            }
        }
    }
}
