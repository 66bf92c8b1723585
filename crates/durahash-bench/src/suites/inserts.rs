//! Inserts, each timed, and told apart by what they made the index do.

use std::time::Instant;

use durahash::{IndexStats, Map};
use hdrhistogram::Histogram;

use crate::driver::histogram;
use crate::error::Result;

/// The case of inserts that split something.
pub(super) const SPLITTING: &str = "insert that splits";
/// The case of those of them that double the directory as well.
pub(super) const DOUBLING: &str = "insert that doubles";

/// The percentiles that are told of inserts.
pub(super) const PERCENTILES: [(&str, u64); 5] =
    [("p50_ns", 2), ("p90_ns", 10), ("p99_ns", 100), ("p99.9_ns", 1000), ("p99.99_ns", 10_000)];

/// Inserts into a map, and the nanoseconds that they took. Looking at the map is not timed.
pub(super) struct Inserts<'a> {
    map: &'a Map<u64, u64>,
    before: IndexStats,
    pub(super) others: Histogram<u64>,
    pub(super) splitting: Histogram<u64>,
    pub(super) doubling: Histogram<u64>,
}

impl<'a> Inserts<'a> {
    pub(super) fn new(map: &'a Map<u64, u64>) -> Self {
        let [others, splitting, doubling] = [(); 3].map(|()| histogram());
        Inserts { map, before: map.index_stats(), others, splitting, doubling }
    }

    /// Inserts a key; the figures of the index after it.
    pub(super) fn put(&mut self, key: u64) -> Result<&IndexStats> {
        let from = Instant::now();
        self.map.put(&key, &key)?;
        let ns = from.elapsed().as_nanos() as u64;
        let stats = self.map.index_stats();
        if stats.doublings != self.before.doublings {
            self.doubling.saturating_record(ns);
        }
        let latency =
            if moved(&stats, &self.before) { &mut self.splitting } else { &mut self.others };
        latency.saturating_record(ns);
        self.before = stats;
        Ok(&self.before)
    }

    /// Changes by others before the next insert do not count for it.
    pub(super) fn resume(&mut self) {
        self.before = self.map.index_stats();
    }
}

/// True if something split, merged, doubled or halved between two looks.
pub(super) fn moved(now: &IndexStats, before: &IndexStats) -> bool {
    let events = |stats: &IndexStats| (stats.splits, stats.merges, stats.doublings, stats.halvings);
    events(now) != events(before)
}
