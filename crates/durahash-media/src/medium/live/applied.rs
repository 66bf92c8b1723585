//! Which pages batches have changed since a checkpoint looked.

use super::head::Position;
use crate::medium::LINE_BYTES;
use crate::medium::logged::format::BLOCK_BYTES;

const PAGE_LINES: u64 = BLOCK_BYTES as u64 / LINE_BYTES;

/// What the batches since the last look have changed.
pub(super) struct Applied {
    pub(super) last: Position,
    /// Pages, by their numbers; in words of bits.
    bits: Vec<u64>,
}

impl Applied {
    pub(super) fn new(last: Position) -> Self {
        Applied { last, bits: Vec::new() }
    }

    /// Batches up to this one are those of another process, if they are not in the base.
    pub(super) fn start(&mut self, last: Position) {
        self.last = last;
    }

    pub(super) fn set(&mut self, page: u64) {
        let at = page as usize / 64;
        if at >= self.bits.len() {
            self.bits.resize(at + 1, 0);
        }
        self.bits[at] |= 1 << (page % 64);
    }

    pub(super) fn has(&self, page: u64) -> bool {
        self.bits.get(page as usize / 64).is_some_and(|bits| bits >> (page % 64) & 1 == 1)
    }

    /// S9.
    pub(super) fn add(&mut self, lines: &[u64], last: Position) {
        lines.iter().for_each(|line| self.set(line / PAGE_LINES));
        self.last = last;
    }

    /// All of it is in the base.
    pub(super) fn clear(&mut self) {
        self.bits.fill(0);
    }

    /// C1.
    pub(super) fn take(&mut self) -> (Position, Vec<u64>) {
        let mut pages = Vec::new();
        for (at, bits) in self.bits.iter_mut().enumerate() {
            let mut bits = std::mem::take(bits);
            while bits != 0 {
                pages.push(at as u64 * 64 + u64::from(bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
        (self.last, pages)
    }
}
