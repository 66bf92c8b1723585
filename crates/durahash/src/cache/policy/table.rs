//! What lookups leave behind for the queues, without a lock.

/// A few bits for each entry.
pub(super) trait Table: Send + Sync {
    /// For about so many entries: it may grow to some times as many.
    fn new(entries: usize) -> Self;

    /// A lookup found the entry.
    fn hit(&self, hash: u64);

    /// Starts to fetch what a hit of the entry changes.
    fn fetch(&self, _hash: u64) {}

    /// Makes room for so many entries.
    fn grow(&self, entries: usize);

    /// An entry goes, about the `turn`th.
    fn evicting(&self, _turn: usize) {}

    fn bytes(&self) -> usize;
}

/// Nothing.
impl Table for () {
    fn new(_entries: usize) -> Self {}

    fn hit(&self, _hash: u64) {}

    fn grow(&self, _entries: usize) {}

    fn bytes(&self) -> usize {
        0
    }
}
