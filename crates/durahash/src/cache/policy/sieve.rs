//! SIEVE, after Zhang, Yang, Yue, Vigfusson and Rashmi, *SIEVE is Simpler than LRU* (NSDI 2024): a hand goes from the
//! oldest entry to the newest, over and over. It takes the first that was not hit since it last came by; the others stay
//! where they are.
//!
//! The hand is between two queues: what it has passed, and what is before it, where new entries come last. At the end
//! all lie behind it, and it begins anew.

use std::mem;

use super::cells::Cells;
use super::queue::Queue;
use super::sharded::Queues;

/// What is saved of an entry that the hand has passed, beside its hits.
const SECOND: u8 = 4;

#[derive(Default)]
pub(super) struct Sieve {
    passed: Queue,
    ahead: Queue,
}

impl Queues for Sieve {
    type Table = Cells<1>;

    fn insert(&mut self, hash: u64, _cells: &Self::Table) {
        self.ahead.push(hash);
    }

    fn pop(&mut self, cells: &Self::Table) -> Option<u64> {
        // Once around all cells are 0, unless they are hit all the while.
        for _ in 0..self.len() {
            let hash = self.next()?;
            let cell = cells.cell(hash);
            if cell.value() == 0 {
                return Some(hash);
            }
            cell.set(0);
            self.passed.push(hash);
        }
        self.next()
    }

    fn each(&self, cells: &Self::Table, f: &mut dyn FnMut(u64, u8)) {
        self.ahead.each(&mut |hash| f(hash, cells.cell(hash).value()));
        self.passed.each(&mut |hash| f(hash, SECOND | cells.cell(hash).value()));
    }

    fn restore(&mut self, hash: u64, known: u8, cells: &Self::Table) {
        cells.raise(hash, known & !SECOND);
        let queue = if known & SECOND > 0 { &mut self.passed } else { &mut self.ahead };
        queue.push(hash);
    }

    fn len(&self) -> usize {
        self.passed.len() + self.ahead.len()
    }

    fn retain(&mut self, keep: &mut dyn FnMut(u64) -> bool) {
        self.passed.retain(keep);
        self.ahead.retain(keep);
    }

    fn bytes(&self) -> usize {
        self.passed.bytes() + self.ahead.bytes()
    }
}

impl Sieve {
    /// Takes the entry at the hand.
    fn next(&mut self) -> Option<u64> {
        if self.ahead.len() == 0 {
            mem::swap(&mut self.passed, &mut self.ahead);
        }
        self.ahead.pop()
    }
}
