//! The last of each line that a log holds.
//!
//! A log has many lines of the same bytes of the pool, of which the last counts. Kept once they take a
//! hundred bytes each, or less, however large the pool is, and are shown and written in its order.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use super::format::Line;

/// See the module docs in the source.
#[derive(Default)]
pub(super) struct LastLines {
    /// Where a line stands, by its offset.
    places: HashMap<u64, u32, BuildHasherDefault<OffsetHasher>>,
    lines: Vec<(u64, Line)>,
}

/// Offsets need no better one; who made them hostile made only the opening of their own pool slow.
#[derive(Default)]
struct OffsetHasher(u64);

impl Hasher for OffsetHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, v: u64) {
        let product = u128::from(self.0 ^ v) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl fmt::Debug for LastLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lines", self.lines.len())
    }
}

impl LastLines {
    /// The line at `off` is this one from now on.
    pub(super) fn put(&mut self, off: u64, line: &Line) {
        match self.places.entry(off) {
            Entry::Occupied(place) => self.lines[*place.get() as usize].1 = *line,
            Entry::Vacant(place) => {
                // A log has fewer blocks than that.
                place.insert(self.lines.len() as u32);
                self.lines.push((off, *line));
            }
        }
    }

    /// No line is added any more.
    pub(super) fn close(&mut self) {
        self.places = HashMap::default();
        self.lines.sort_unstable_by_key(|(off, _)| *off);
    }

    /// Calls `f` with the offset of each line and the line, in the order of the pool, once it is closed.
    pub(super) fn each(&self, f: &mut dyn FnMut(u64, &Line)) {
        self.lines.iter().for_each(|(off, line)| f(*off, line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_each_line_is_kept_in_the_order_of_the_pool() {
        let mut last = LastLines::default();
        for v in 0..1000_u64 {
            last.put((999 - v) % 300 * 64, &[v; 8]);
        }
        last.close();
        let mut found = Vec::new();
        last.each(&mut |off, line| found.push((off, line[7])));
        let last_of = |place: u64| (0..1000).rev().find(|v| (999 - v) % 300 == place).unwrap();
        let expected: Vec<(u64, u64)> = (0..300).map(|i| (i * 64, last_of(i))).collect();
        assert_eq!(found, expected);
    }
}
