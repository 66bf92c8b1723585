//! About the least recently used (CLOCK): the oldest goes, but one that was hit goes round once more.

use super::cells::Cells;
use super::queue::Queue;
use super::sharded::Queues;

#[derive(Default)]
pub(super) struct Lru(Queue);

impl Queues for Lru {
    type Table = Cells<1>;

    fn insert(&mut self, hash: u64, _cells: &Self::Table) {
        self.0.push(hash);
    }

    fn pop(&mut self, cells: &Self::Table) -> Option<u64> {
        // Once around all cells are 0, unless they are hit all the while.
        for _ in 0..self.0.len() {
            let hash = self.0.pop()?;
            let cell = cells.cell(hash);
            if cell.value() == 0 {
                return Some(hash);
            }
            cell.set(0);
            self.0.push(hash);
        }
        self.0.pop()
    }

    fn each(&self, cells: &Self::Table, f: &mut dyn FnMut(u64, u8)) {
        self.0.each(&mut |hash| f(hash, cells.cell(hash).value()));
    }

    fn restore(&mut self, hash: u64, known: u8, cells: &Self::Table) {
        cells.raise(hash, known);
        self.0.push(hash);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn retain(&mut self, keep: &mut dyn FnMut(u64) -> bool) {
        self.0.retain(keep);
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
