//! Two bits for each entry, found by its hash: how often it was hit.
//!
//! A cell belongs to every entry that hashes there: there is no room for telling them apart. With eight cells for an
//! entry one in nine shares its own. A byte has four cells; threads that change two of them at once may lose a change.

use std::sync::atomic::{AtomicU8, Ordering};

use super::growing::Growing;
use super::table::Table;

/// Bytes for each entry.
const BYTES_PER_ENTRY: usize = 2;

/// Cells that hits raise to `MOST`, at most 3.
pub(super) struct Cells<const MOST: u8>(Growing<1, u8>);

/// The cell of a hash, as it was.
pub(super) struct Cell<'a> {
    byte: &'a AtomicU8,
    shift: u32,
    value: u8,
}

impl Cell<'_> {
    pub(super) fn value(&self) -> u8 {
        self.value
    }

    /// Changes the value, at most 3.
    pub(super) fn set(&self, value: u8) {
        if value != self.value {
            let others = self.byte.load(Ordering::Relaxed) & !(3 << self.shift);
            self.byte.store(others | value << self.shift, Ordering::Relaxed);
        }
    }
}

impl<const MOST: u8> Cells<MOST> {
    pub(super) fn cell(&self, hash: u64) -> Cell<'_> {
        let [byte] = self.0.of(hash >> 2);
        let shift = (hash & 3) as u32 * 2;
        Cell { byte, shift, value: byte.load(Ordering::Relaxed) >> shift & 3 }
    }

    /// The cell of a hash has at least so many hits.
    pub(super) fn raise(&self, hash: u64, hits: u8) {
        let cell = self.cell(hash);
        cell.set(MOST.min(cell.value().max(hits)));
    }
}

impl<const MOST: u8> Table for Cells<MOST> {
    fn new(entries: usize) -> Self {
        Cells(Growing::new(entries.saturating_mul(BYTES_PER_ENTRY)))
    }

    fn hit(&self, hash: u64) {
        let cell = self.cell(hash);
        cell.set(MOST.min(cell.value() + 1));
    }

    fn fetch(&self, hash: u64) {
        self.0.now().fetch(hash >> 2);
    }

    fn grow(&self, entries: usize) {
        self.0.grow(entries * BYTES_PER_ENTRY);
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
