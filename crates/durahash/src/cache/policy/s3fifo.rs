//! S3-FIFO, after Yang, Zhang, Qiu, Yue and Rashmi, *FIFO Queues are All You Need for Cache Eviction* (SOSP 2023).
//!
//! A new entry comes into a small queue, a tenth of all. From its end it goes into the main queue if it was hit more
//! than once; else it is the victim, and remembered as a ghost. What comes again while it is remembered goes into the
//! main queue at once. There an entry goes round once more for each hit, up to three.

use super::cells::Cells;
use super::ghost::Ghost;
use super::queue::Queue;
use super::sharded::Queues;

/// The part of the entries that the small queue has: one in so many.
const SMALL_PART: usize = 10;
/// Hits with which an entry leaves the small queue for the main one.
const HITS_TO_STAY: u8 = 2;
/// The most hits that count.
const HITS_MAX: u8 = 3;
/// What is saved of an entry of the main queue, beside its hits. Ghosts are not saved.
const SECOND: u8 = 4;

#[derive(Default)]
pub(super) struct S3Fifo {
    small: Queue,
    main: Queue,
    ghost: Ghost,
}

impl Queues for S3Fifo {
    type Table = Cells<HITS_MAX>;

    fn insert(&mut self, hash: u64, _cells: &Self::Table) {
        if self.ghost.take(hash) {
            self.main.push(hash);
        } else {
            self.small.push(hash);
        }
    }

    fn pop(&mut self, cells: &Self::Table) -> Option<u64> {
        // After once around the small queue and three times around the main one all cells are 0, unless they are hit all
        // the while.
        for _ in 0..(1 + usize::from(HITS_MAX)) * self.len() {
            if self.small.len() > self.len() / SMALL_PART || self.main.len() == 0 {
                let hash = self.small.pop()?;
                let cell = cells.cell(hash);
                if cell.value() < HITS_TO_STAY {
                    self.ghost.add(hash, self.len() - self.len() / SMALL_PART);
                    return Some(hash);
                }
                cell.set(0);
                self.main.push(hash);
            } else {
                let hash = self.main.pop()?;
                let cell = cells.cell(hash);
                if cell.value() == 0 {
                    return Some(hash);
                }
                cell.set(cell.value() - 1);
                self.main.push(hash);
            }
        }
        self.main.pop().or_else(|| self.small.pop())
    }

    fn each(&self, cells: &Self::Table, f: &mut dyn FnMut(u64, u8)) {
        self.small.each(&mut |hash| f(hash, cells.cell(hash).value()));
        self.main.each(&mut |hash| f(hash, SECOND | cells.cell(hash).value()));
    }

    fn restore(&mut self, hash: u64, known: u8, cells: &Self::Table) {
        cells.raise(hash, known & !SECOND);
        let queue = if known & SECOND > 0 { &mut self.main } else { &mut self.small };
        queue.push(hash);
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    fn retain(&mut self, keep: &mut dyn FnMut(u64) -> bool) {
        self.small.retain(keep);
        self.main.retain(keep);
    }

    fn bytes(&self) -> usize {
        self.small.bytes() + self.main.bytes() + self.ghost.bytes()
    }
}
