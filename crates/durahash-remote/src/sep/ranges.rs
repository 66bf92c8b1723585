//! Free memory of one node as ranges, with neighbours joined. A MainSegment is a little longer
//! after most merges, so the memory of the old one is of use only together with its neighbours.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// Bytes by offset.
    by_off: BTreeMap<u64, u64>,
    /// The same as (bytes, offset).
    by_bytes: BTreeSet<(u64, u64)>,
}

impl Ranges {
    fn insert(&mut self, off: u64, bytes: u64) {
        self.by_off.insert(off, bytes);
        self.by_bytes.insert((bytes, off));
    }

    fn remove(&mut self, off: u64, bytes: u64) {
        self.by_off.remove(&off);
        self.by_bytes.remove(&(bytes, off));
    }

    /// Frees a range, which overlaps no free one.
    pub(super) fn put(&mut self, mut off: u64, mut bytes: u64) {
        debug_assert!(self.by_off.range(off..off + bytes).next().is_none(), "free twice");
        if let Some((&before, &more)) = self.by_off.range(..off).next_back()
            && before + more == off
        {
            self.remove(before, more);
            (off, bytes) = (before, bytes + more);
        }
        let end = off + bytes;
        if let Some(&more) = self.by_off.get(&end) {
            self.remove(end, more);
            bytes += more;
        }
        self.insert(off, bytes);
    }

    /// Takes the beginning of the smallest range that has room, as (offset, bytes): `bytes`, or all of the
    /// range if less than `least` would be left.
    pub(super) fn take(&mut self, bytes: u64, least: u64) -> Option<(u64, u64)> {
        let &(all, off) = self.by_bytes.range((bytes, 0)..).next()?;
        self.remove(off, all);
        let left = all - bytes;
        if left < least || left == 0 {
            return Some((off, all));
        }
        self.insert(off + bytes, left);
        Some((off, bytes))
    }

    /// Takes the largest range, or the smallest, or as much of it.
    pub(super) fn take_some(&mut self, largest: bool, most: u64) -> Option<(u64, u64)> {
        let &(all, off) = if largest { self.by_bytes.last() } else { self.by_bytes.first() }?;
        self.remove(off, all);
        if all > most {
            self.insert(off + most, all - most);
        }
        Some((off, all.min(most)))
    }

    /// All, as (offset, bytes).
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.by_off.iter().map(|(&off, &bytes)| (off, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_the_smallest_serves() {
        let mut ranges = Ranges::default();
        for (off, bytes) in [(0, 64), (192, 64), (1024, 128)] {
            ranges.put(off, bytes);
        }
        ranges.put(64, 128);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(0, 256), (1024, 128)]);
        assert_eq!(ranges.take(64, 0), Some((1024, 64)));
        assert_eq!(ranges.take(128, 0), Some((0, 128)));
        assert_eq!(ranges.take(256, 0), None);
        assert_eq!(ranges.take(64, 64), Some((1088, 64)));
        assert_eq!(ranges.take(64, 128), Some((128, 128)));
        assert_eq!(ranges.take(64, 0), None);
    }

    /// Ranges that are taken and put back in any order are one range again in the end.
    #[test]
    fn what_is_put_back_is_whole() {
        let mix = durahash_media::hash::WordMix::new(3);
        let mut ranges = Ranges::default();
        ranges.put(64, 1 << 20);
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for i in 0..4000 {
            let drawn = mix.mix(i);
            if drawn.is_multiple_of(3) && !taken.is_empty() {
                let (off, bytes) = taken.swap_remove(drawn as usize / 3 % taken.len());
                ranges.put(off, bytes);
            } else if let Some(range) = ranges.take(drawn % 97 * 64 + 64, 0) {
                taken.push(range);
            }
            let mut all: Vec<_> = taken.iter().copied().chain(ranges.iter()).collect();
            all.sort_unstable();
            assert!(all.windows(2).all(|two| two[0].0 + two[0].1 == two[1].0));
            assert_eq!(all.iter().map(|range| range.1).sum::<u64>(), 1 << 20);
        }
        taken.into_iter().for_each(|(off, bytes)| ranges.put(off, bytes));
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(64, 1 << 20)]);
    }
}
