//! Lines of a log, shown in the image.
//!
//! Lines that follow one another in a log lie anywhere in the pool, and of those that are the same bytes of
//! it the last one counts. So they are gathered, some megabytes at a time, and shown in the order of the
//! pool: then a page is copied, and one that comes from the disk is read, once for all of its lines, and
//! beside its neighbours. What was shown is noted, 16 bytes for each page, so that the same lines are
//! written to the pool later, from the image.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use super::disk::Disk;
use super::format::Line;
use crate::medium::LINE_BYTES;

/// Bits of a line's place among those that are gathered: 18 MiB of them.
const PLACE_BITS: u32 = 18;
/// Lines that one word of bits tells of.
const GROUP_LINES: u64 = 64;

/// See the module docs in the source.
#[derive(Default)]
pub(super) struct Shown {
    gathered: Vec<(u64, Line)>,
    /// Their numbers and places, to be sorted.
    order: Vec<u64>,
    /// Which lines were shown of each group that has any, by its number.
    groups: HashMap<u64, u64, BuildHasherDefault<NumberHasher>>,
}

/// Numbers need no better one; who made them hostile made only the opening of their own pool slow.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
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

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: u32 = self.groups.values().map(|bits| bits.count_ones()).sum();
        write!(f, "{lines} lines")
    }
}

impl Shown {
    /// The line at `off` is this one from now on: in the image once it is [finished](Shown::finish).
    pub(super) fn put<D: Disk>(&mut self, disk: &D, off: u64, line: &Line) {
        self.gathered.push((off, *line));
        if self.gathered.len() == 1 << PLACE_BITS {
            self.show(disk);
        }
    }

    /// Shows what is gathered. No line comes any more.
    pub(super) fn finish<D: Disk>(&mut self, disk: &D) {
        self.show(disk);
        (self.gathered, self.order) = (Vec::new(), Vec::new());
    }

    fn show<D: Disk>(&mut self, disk: &D) {
        // An address has fewer bits than there is room for.
        let numbered = self.gathered.iter().zip(0_u64..);
        let keys = numbered.map(|((off, _), place)| ((off / LINE_BYTES) << PLACE_BITS) | place);
        self.order.clear();
        self.order.extend(keys);
        self.order.sort_unstable();
        for (i, key) in self.order.iter().enumerate() {
            let number = key >> PLACE_BITS;
            if self.order.get(i + 1).is_some_and(|next| next >> PLACE_BITS == number) {
                continue;
            }
            let (off, line) = &self.gathered[(key & ((1 << PLACE_BITS) - 1)) as usize];
            disk.show_line(*off, line);
            *self.groups.entry(number / GROUP_LINES).or_default() |= 1 << (number % GROUP_LINES);
        }
        self.gathered.clear();
    }

    /// The offsets of the lines that were shown, in the order of the pool.
    pub(super) fn lines(&self) -> impl Iterator<Item = u64> + use<> {
        let mut groups: Vec<(u64, u64)> = self.groups.iter().map(|(n, bits)| (*n, *bits)).collect();
        groups.sort_unstable();
        groups.into_iter().flat_map(|(group, bits)| {
            let shown = (0..GROUP_LINES).filter(move |i| (bits >> i) & 1 == 1);
            shown.map(move |i| (group * GROUP_LINES + i) * LINE_BYTES)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::medium::logged::SimDisk;

    #[test]
    fn the_last_of_each_line_is_shown_and_noted_in_the_order_of_the_pool() {
        const POOL_BYTES: u64 = 64 << 10;
        let disk = SimDisk::new(POOL_BYTES, 0, false);
        disk.grow(POOL_BYTES).unwrap();
        let mut shown = Shown::default();
        // More than are gathered at a time, and these not all in the same order.
        let count = (1_u64 << PLACE_BITS) + 1000;
        let line_at = |v: u64| (count - v) * 3 % 700 + 1;
        for v in 0..count {
            shown.put(&disk, line_at(v) * LINE_BYTES, &[v; 8]);
        }
        shown.finish(&disk);
        let found: Vec<u64> = shown.lines().map(|off| off / LINE_BYTES).collect();
        assert_eq!(found, (1..=700).collect::<Vec<_>>());
        for line in found {
            let last = (0..count).rev().find(|v| line_at(*v) == line).unwrap();
            let words = disk.region().words(line * LINE_BYTES, 8).unwrap();
            assert!(words.iter().all(|word| word.load() == last), "line {line}");
        }
    }
}
