//! How often keys were looked up of late: of entries, and of keys that went or never stayed.
//!
//! ```text
//!  row, by the low bits of the hash: 8 counters of 16 bits
//!      5       4      3     0
//!  | 11 bits of the hash | used | count |      three counters for each entry; a count of 0 is a free counter
//! ```
//!
//! A key that has no counter takes the one of its row that counts least, if that counts 1; else it lowers that. So keys
//! that come once pass through, and those that come often stay, also where they are no entries. From time to time the counts of one
//! row are halved: those of all in 36 times as many evictions as there are entries, or more of these where they are few.
//!
//! Counters with bits of the hash have two advantages over a sketch of counts alone of the same size (TinyLFU's): keys
//! that come once, of which there are many, add nothing to others' counts, and the counts of what comes often outlive
//! them. Threads that change counters of one word at once may lose a change.

use std::sync::atomic::{AtomicU64, Ordering};

use super::growing::{Growing, Now};
use super::table::Table;

const COUNTERS: usize = 8;
const COUNTERS_PER_ENTRY: usize = 3;
/// Rows beside these: a cache of few entries knows many more keys than it has.
const ROWS_MORE: usize = 192;
/// Evictions for each row that entries have, until it is halved.
const EVICTIONS_PER_ROW: usize = 96;

const COUNT: u16 = 15;
const USED: u16 = 16;
const TAG: u16 = !31;

/// Counters of a word.
const LANES: usize = 4;

/// What each counter of a row weighs in its sum: powers of 31.
const WEIGHTS: [[u64; LANES]; COUNTERS / LANES] = {
    let mut weights = [[1; LANES]; COUNTERS / LANES];
    let mut i = COUNTERS - 1;
    while i > 0 {
        let next = (weights[i / LANES][i % LANES] * 31) & 0xffff;
        i -= 1;
        weights[i / LANES][i % LANES] = next;
    }
    weights
};

/// Two words, so that all counters are compared at once.
struct Row<'a>(&'a [AtomicU64; COUNTERS / LANES]);

pub(super) struct Frequencies(Growing<{ COUNTERS / LANES }, u64>);

/// The rows that there are now, for several hashes.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a>(Now<'a, { COUNTERS / LANES }, u64>);

/// Rows for so many entries.
fn rows(entries: usize) -> usize {
    entries.saturating_mul(COUNTERS_PER_ENTRY) / COUNTERS + ROWS_MORE
}

/// The bits of a hash in its counter: neither those of its row nor those of its shard.
fn tag(hash: u64) -> u16 {
    (hash >> 40) as u16 & TAG
}

/// A word whose counters are all this one.
const fn all(counter: u16) -> u64 {
    counter as u64 * 0x0001_0001_0001_0001
}

/// The highest bit of each counter of a word that is that of a tag.
fn with_tag(word: u64, tag: u16) -> u64 {
    // The lowest five bits of a tag are 0, so nothing carries from one counter to the next.
    let other = ((word ^ all(tag)) & all(TAG)) >> 1;
    let counts = (word & all(COUNT)) + all(0x7fff);
    counts & !(other + all(0x7fff)) & all(0x8000)
}

/// The sum of the counters of a word, each by its weight; the lower half of it counts.
fn weighed(word: u64, weights: [u64; LANES]) -> u32 {
    // Of two counters that are 32 bits apart, one multiplication has the sum in its upper half: nothing carries into it.
    let two = |lanes: u64, of_low: u64, of_high: u64| {
        (lanes & 0xffff_0000_ffff).wrapping_mul(of_low << 32 | of_high) >> 32
    };
    (two(word, weights[0], weights[2]) + two(word >> 16, weights[1], weights[3])) as u32
}

/// Of the counters of a row that count least the first one, from `first` on and then from the beginning.
fn least(row: [u64; COUNTERS / LANES], first: usize) -> usize {
    let mut left = row.map(|_| all(1));
    // By each bit of a count, from the highest on: of those that are left, the ones where it is 0, if there are any.
    for bit in (0..COUNT.count_ones()).rev() {
        let zero = [left[0] & !(row[0] >> bit), left[1] & !(row[1] >> bit)];
        let is_any = zero[0] | zero[1] != 0;
        left = [0, 1].map(|i| if is_any { zero[i] } else { left[i] });
    }
    // A bit of each counter, one beside the other: no two products meet.
    let bits = left.map(|word| word.wrapping_mul(1 << 48 | 1 << 33 | 1 << 18 | 1 << 3) >> 48);
    let bits = (bits[0] | bits[1] << LANES) as u8;
    (first + bits.rotate_right(first as u32).trailing_zeros() as usize) % COUNTERS
}

impl Row<'_> {
    fn words(&self) -> [u64; COUNTERS / LANES] {
        self.0.each_ref().map(|word| word.load(Ordering::Relaxed))
    }

    fn counters(&self) -> [u16; COUNTERS] {
        let words = self.words();
        std::array::from_fn(|i| (words[i / LANES] >> (i % LANES * 16)) as u16)
    }

    fn set(&self, i: usize, old: u16, new: u16) {
        if old != new {
            let (word, shift) = (&self.0[i / LANES], i % LANES * 16);
            let others = word.load(Ordering::Relaxed) & !(0xffff << shift);
            word.store(others | u64::from(new) << shift, Ordering::Relaxed);
        }
    }

    /// The counter of a hash, and what it is; the row is what was loaded.
    #[inline(always)]
    fn find(words: [u64; COUNTERS / LANES], hash: u64) -> Option<(usize, u16)> {
        let found = words.map(|word| with_tag(word, tag(hash)));
        let word = usize::from(found[0] == 0);
        if found[word] == 0 {
            return None;
        }
        let lane = found[word].trailing_zeros() as usize / 16;
        Some((word * LANES + lane, (words[word] >> (lane * 16)) as u16))
    }

    /// Counts one more; the key is used, or new.
    fn count(&self, hash: u64, used: u16) {
        let words = self.words();
        if let Some((i, old)) = Self::find(words, hash) {
            let count = COUNT.min((old & COUNT) + 1);
            return self.set(i, old, tag(hash) | used | count);
        }
        // Of those that count alike, any, and another one whenever the row has changed: keys that came one after another
        // over and over would take each other's.
        let sum = weighed(words[0], WEIGHTS[0]).wrapping_add(weighed(words[1], WEIGHTS[1]));
        let first = (u64::from(sum as u16 >> 8) ^ hash >> 53) as usize % COUNTERS;
        let i = least(words, first);
        let old = (words[i / LANES] >> (i % LANES * 16)) as u16;
        self.set(i, old, if old & COUNT <= 1 { tag(hash) | used | 1 } else { old - 1 });
    }

    /// Halves all counts; those of 1 stay.
    fn halve(&self) {
        for (i, old) in self.counters().into_iter().enumerate() {
            self.set(i, old, old & !COUNT | (old & COUNT).div_ceil(2));
        }
    }
}

impl Frequencies {
    #[inline]
    pub(super) fn rows(&self) -> Rows<'_> {
        Rows(self.0.now())
    }

    /// An entry is new.
    pub(super) fn came(&self, hash: u64) {
        self.rows().row(hash).count(hash, 0);
    }
}

impl<'a> Rows<'a> {
    #[inline]
    fn row(self, hash: u64) -> Row<'a> {
        Row(self.0.of(hash))
    }

    /// How often the key came, at most 15; and if the entry was hit since it came or since that was taken.
    pub(super) fn get(self, hash: u64) -> (u16, bool) {
        let counter = Row::find(self.row(hash).words(), hash).map_or(0, |(_, counter)| counter);
        (counter & COUNT, counter & USED > 0)
    }

    /// The same; from here on it was not hit.
    #[inline]
    pub(super) fn take_used(self, hash: u64) -> (u16, bool) {
        let row = self.row(hash);
        let Some((i, old)) = Row::find(row.words(), hash) else { return (0, false) };
        row.set(i, old, old & !USED);
        (old & COUNT, old & USED > 0)
    }

    /// Starts to fetch the row of a hash.
    #[inline]
    pub(super) fn fetch(self, hash: u64) {
        self.0.fetch(hash);
    }
}

impl Table for Frequencies {
    fn new(entries: usize) -> Self {
        Frequencies(Growing::new(rows(entries)))
    }

    fn hit(&self, hash: u64) {
        self.rows().row(hash).count(hash, USED);
    }

    fn fetch(&self, hash: u64) {
        self.rows().fetch(hash);
    }

    fn grow(&self, entries: usize) {
        self.0.grow(rows(entries));
    }

    fn evicting(&self, turn: usize) {
        let rows = self.0.len();
        let every = (EVICTIONS_PER_ROW * rows.saturating_sub(ROWS_MORE) / rows).max(1);
        if turn.is_multiple_of(every) {
            Row(self.0.at(turn / every % rows)).halve();
        }
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several counters of a row at once are as one after the other.
    #[test]
    fn a_row_is_weighed_and_compared_at_once() {
        let mix = durahash_media::hash::WordMix::new(7);
        for i in 0..2000 {
            let words = [mix.mix(2 * i), mix.mix(2 * i + 1)].map(|word| word | (all(3) * (i % 3)));
            let atomics = words.map(AtomicU64::new);
            let counters = Row(&atomics).counters();
            let sum = counters.iter().fold(0_u16, |sum, c| sum.wrapping_mul(31).wrapping_add(*c));
            let own = [0, 1].map(|i| weighed(words[i], WEIGHTS[i]));
            assert_eq!(own[0].wrapping_add(own[1]) as u16, sum);
            for first in 0..COUNTERS {
                let by_count = |k: &usize| counters[(first + k) % COUNTERS] & COUNT;
                let k = (0..COUNTERS).min_by_key(by_count).unwrap();
                assert_eq!(least(words, first), (first + k) % COUNTERS);
            }
        }
    }

    /// Beside a hundred times as many keys that come once.
    #[test]
    fn what_comes_often_outlives_what_comes_once() {
        let frequencies = Frequencies::new(400);
        frequencies.grow(400);
        let mix = durahash_media::hash::WordMix::new(7);
        for round in 0..10 {
            (0..50).for_each(|i| frequencies.hit(mix.mix(i)));
            (0..500).for_each(|i| frequencies.came(mix.mix(1 << 32 | round << 16 | i)));
        }
        let known = (0..50).filter(|i| frequencies.rows().get(mix.mix(*i)).0 > 3).count();
        let others =
            (0..500).filter(|i| frequencies.rows().get(mix.mix(1 << 32 | i)).0 > 1).count();
        assert!(known > 45 && others < 5, "{known} {others}");
        // Used once.
        assert!(
            frequencies.rows().take_used(mix.mix(0)).1
                && !frequencies.rows().take_used(mix.mix(0)).1
        );
        // Evictions halve all counts, but none to nothing.
        (0..EVICTIONS_PER_ROW * frequencies.0.len() * 4).for_each(|i| frequencies.evicting(i));
        assert!((0..50).all(|i| frequencies.rows().get(mix.mix(i)).0 <= 1));
    }
}
