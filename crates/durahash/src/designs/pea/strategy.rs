//! Adaptive hashing (§3.2): where in its segment an entry may be, and where a new one goes. And the shape of segments:
//! those of a new pool are small, and use the last strategy only.
//!
//! Each strategy contains the one before: all later ones find the entries that it placed. So a
//! segment changes its strategy by one word, without moving an entry.
//!
//! A hash has a row of buckets: its first, its second, and the two of one pair of the stash. An entry
//! goes to its first bucket as long as there is room, and a lookup ends where the end bit says so
//! (`layout.rs`): so few buckets have entries elsewhere, and most misses read one bucket. That leaves the
//! buckets less even than if the emptier one was taken, for which two things make up: the stash, a 32nd of the
//! segment, and the last entry but one that a first bucket would take, which goes to the second one where that is
//! much emptier. Few entries do, but they fill the buckets that no other would.

use durahash_media::{Medium, Place, Result, bits};

use super::layout::{BUCKET_BYTES, Head, SLOTS, used_slots};
use crate::designs::slots_of;
use crate::extendible::extend;
use crate::extendible::unit::Unit;

/// Buckets of a segment for which it has one pair of stash buckets, but at least one pair.
const BUCKETS_PER_PAIR: u32 = 64;

/// The most that [`Policy::first_until`] is in a multimap.
const MULTI_FIRST_UNTIL: u32 = 6;

/// The tag of a small segment, instead of that of its strategy, which is the last one.
pub(super) const SMALL: u8 = 3;

/// True if the segment at `place` is a small one.
pub(super) const fn is_small(place: Unit) -> bool {
    place.tag() == SMALL
}

/// How the entries of a segment are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Strategy {
    /// In its first bucket.
    Single,
    /// In the first or the second.
    TwoChoice,
    /// In one of these, or in the segment's stash.
    Stash,
}

impl Strategy {
    /// All strategies, in the order in which a segment takes them up.
    pub const ALL: [Strategy; 3] = [Strategy::Single, Strategy::TwoChoice, Strategy::Stash];

    pub(super) const fn tag(self) -> u8 {
        self as u8
    }

    pub(super) const fn from_tag(tag: u8) -> Option<Self> {
        match tag {
            0 => Some(Strategy::Single),
            1 => Some(Strategy::TwoChoice),
            2 => Some(Strategy::Stash),
            _ => None,
        }
    }

    /// The strategy of the segment at `place`.
    #[inline(always)]
    pub(super) const fn of(place: Unit) -> Self {
        match place.tag() {
            0 => Strategy::Single,
            1 => Strategy::TwoChoice,
            _ => Strategy::Stash,
        }
    }

    /// The one after it.
    pub(super) const fn next(self) -> Option<Self> {
        Self::from_tag(self.tag() + 1)
    }
}

/// A second bucket that has so many entries fewer than the first, or less, takes an entry one early.
const MUCH_EMPTIER: u32 = 4;

/// How a table grows: which strategies its segments go through, and what a split does. It is no part
/// of the format, and may differ from open to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// Halvings of the hashes at a split: 1 gives two segments, 2 gives four, as in the paper.
    pub split_bits: u32,
    /// Entries that the first bucket of a key takes before the emptier of its two does, of fifteen slots; one fewer
    /// where the second bucket has at least four fewer than the first. 0 is the paper's balanced insert. In a multimap
    /// at most six, as keys get lists where buckets are full.
    pub first_until: u32,
    /// The strategy that new segments start with, if it holds their entries.
    pub first: Strategy,
    /// The last strategy before a split.
    pub last: Strategy,
    /// True if an insert behind the first line of a bucket moves entries out of that line (§3.4).
    pub moving: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            split_bits: 1,
            first_until: 14,
            first: Strategy::Single,
            last: Strategy::Stash,
            moving: true,
        }
    }
}

/// The two main buckets of a hash, which always differ, and its pair of the stash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Homes {
    pub(super) first: u32,
    pub(super) second: u32,
    /// The first bucket of the pair.
    pub(super) stash: u32,
}

impl Homes {
    /// Of `h` among `main` buckets and so many pairs: the first from the bits above the fingerprint, the
    /// second and the pair from a remix of all bits.
    #[inline(always)]
    pub(super) const fn of(h: u64, main: u32, pairs: u32) -> Self {
        let first = scale(h >> 8 & 0xffff_ffff, main);
        let mix = h.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let second = scale(mix >> 32, main - 1);
        let pair = scale(mix & 0xffff_ffff, pairs);
        Homes { first, second: second + (second >= first) as u32, stash: main + 2 * pair }
    }

    /// The row of buckets that a lookup visits, in its order, as far as no end bit ends it.
    pub(super) fn buckets(self, strategy: Strategy) -> impl Iterator<Item = u32> {
        let count = match strategy {
            Strategy::Single => 1,
            Strategy::TwoChoice => 2,
            Strategy::Stash => 4,
        };
        [self.first, self.second, self.stash, self.stash + 1].into_iter().take(count)
    }

    /// Those that a lookup visits before this one.
    pub(super) fn before(self, bucket: u32) -> impl Iterator<Item = u32> {
        self.buckets(Strategy::Stash).take_while(move |home| *home != bucket)
    }
}

/// A 32-bit number, scaled to the range `0..count`.
#[inline(always)]
const fn scale(bits: u64, count: u32) -> u32 {
    ((bits * count as u64) >> 32) as u32
}

/// The sizes of a segment, and what is done with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Main buckets.
    pub(super) main: u32,
    /// Pairs of stash buckets.
    pub(super) pairs: u32,
    /// Extents.
    pub(super) extents: u64,
    /// True for the first two segments of a pool, as long as they are small.
    pub(super) is_small: bool,
    /// Slots of a bucket that are used, and which.
    pub(super) slots: u32,
    pub(super) used: u16,
    pub(super) policy: Policy,
}

impl Shape {
    /// That of large segments of a map.
    ///
    /// # Errors
    /// [`Options`](durahash_media::ErrorKind::Options) for a geometry that cannot be.
    pub(super) fn large<M: Medium>(map: &Place<M>, is_multi: bool, policy: Policy) -> Result<Self> {
        let format = map.format();
        let slots = slots_of(format, SLOTS, "Pea Hash has 2 to 15 slots a bucket")?;
        // Where a bucket of a multimap is full, a key gets a list.
        let most = if is_multi { MULTI_FIRST_UNTIL } else { SLOTS };
        let first_until = policy.first_until.min(most);
        let large = Shape {
            main: 0,
            pairs: 0,
            extents: 1,
            is_small: false,
            // The last slot of a multimap's bucket is for a list.
            slots: slots - u32::from(is_multi),
            used: used_slots(slots),
            policy: Policy { first_until, ..policy },
        };
        let extents = u64::from(format.geometry.buckets.max(1));
        Ok(large.of(extents, map.pool().extent_bytes()))
    }

    /// The same of segments of so many extents of `extent_bytes` bytes.
    pub(super) fn of(self, extents: u64, extent_bytes: u64) -> Self {
        let buckets = (extents * extent_bytes / BUCKET_BYTES) as u32;
        let pairs = (buckets / BUCKETS_PER_PAIR).max(1);
        Shape { main: buckets - 2 * pairs, pairs, extents, ..self }
    }

    /// That of small segments of the same pool.
    pub(super) fn small(self, extent_bytes: u64) -> Shape {
        Shape { is_small: true, ..self.of(1, extent_bytes) }
    }

    /// The properties in which segments of one pool may differ, as one word.
    pub(super) const fn to_word(self) -> u64 {
        self.main as u64 | (self.pairs as u64) << 32 | (self.is_small as u64) << 63
    }

    /// That of segments like these which has this word.
    #[inline(always)]
    pub(super) const fn with_word(self, word: u64) -> Self {
        let is_small = word >> 63 == 1;
        let extents = if is_small { 1 } else { self.extents };
        let (main, pairs) = (word as u32, bits(word, 32, 31) as u32);
        Shape { main, pairs, extents, is_small, ..self }
    }

    /// The buckets of a hash.
    #[inline(always)]
    pub(super) const fn homes(&self, h: u64) -> Homes {
        Homes::of(h, self.main, self.pairs)
    }

    /// Of the slots of a segment's main buckets.
    pub(super) fn three_quarters(&self) -> u64 {
        u64::from(self.main * self.slots) * 3 / 4
    }

    /// True if lookups find `h` in slot `i` of a bucket, in the segment of this place and these hashes (PEA-2).
    pub(super) fn finds<const MULTI: bool>(
        &self,
        (prefix, place): (u64, Unit),
        bucket: u32,
        head: Head<MULTI>,
        (i, h): (u32, u64),
    ) -> bool {
        extend::covers(prefix, place.depth(), h)
            && head.names(i, h)
            && self.homes(h).buckets(Strategy::of(place)).any(|home| home == bucket)
    }

    /// All buckets of a segment.
    pub(super) const fn buckets(&self) -> u32 {
        self.main + 2 * self.pairs
    }

    /// The bucket for a new entry, of those that `strategy` allows; `live` says how many entries a
    /// bucket has.
    #[inline]
    pub(super) fn choose(
        &self,
        strategy: Strategy,
        homes: Homes,
        mut live: impl FnMut(u32) -> u32,
    ) -> Option<u32> {
        let first = live(homes.first);
        if strategy == Strategy::Single {
            return (first < self.slots).then_some(homes.first);
        }
        let until = self.policy.first_until.min(self.slots);
        if first + 1 < until {
            return Some(homes.first);
        }
        let second = live(homes.second);
        if first < until && second + MUCH_EMPTIER > first {
            return Some(homes.first);
        }
        if first.min(second) < self.slots {
            return Some(if first <= second { homes.first } else { homes.second });
        }
        if strategy == Strategy::TwoChoice {
            return None;
        }
        [homes.stash, homes.stash + 1].into_iter().find(|bucket| live(*bucket) < self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::used_slots;
    use super::*;

    #[test]
    fn homes_differ_and_reach_every_bucket() {
        for main in [2, 3, 14, 2046] {
            let mut met = vec![[false; 2]; main as usize];
            for i in 0..u64::from(main) * 40 {
                let homes = Homes::of(durahash_media::hash::WordMix::new(1).mix(i), main, 3);
                assert!([0, 2, 4].contains(&(homes.stash - main)));
                assert!(homes.first < main && homes.second < main);
                assert_ne!(homes.first, homes.second);
                met[homes.first as usize][0] = true;
                met[homes.second as usize][1] = true;
            }
            assert!(met.iter().all(|met| *met == [true; 2]), "of {main}");
        }
    }

    #[test]
    fn every_strategy_contains_the_one_before() {
        let homes = Homes::of(0x1234_5678_9abc_def0, 14, 1);
        let buckets = |strategy| homes.buckets(strategy).collect::<Vec<_>>();
        assert_eq!(homes.before(homes.first).count(), 0);
        assert_eq!(homes.before(15).collect::<Vec<_>>(), [homes.first, homes.second, 14]);
        assert_eq!(buckets(Strategy::Single), [homes.first]);
        assert_eq!(buckets(Strategy::TwoChoice), [homes.first, homes.second]);
        assert_eq!(buckets(Strategy::Stash), [homes.first, homes.second, 14, 15]);
        let policy = Policy { first_until: 3, ..Policy::default() };
        let (extents, is_small, used) = (1, false, used_slots(4));
        let shape = Shape { main: 14, pairs: 1, extents, is_small, slots: 4, used, policy };
        let choose = |strategy, first, second| {
            shape.choose(strategy, homes, |bucket| match bucket {
                b if b == homes.first => first,
                b if b == homes.second => second,
                14 => 4,
                _ => 0,
            })
        };
        assert_eq!(choose(Strategy::Single, 3, 0), Some(homes.first));
        assert_eq!(choose(Strategy::Single, 4, 0), None);
        assert_eq!(choose(Strategy::TwoChoice, 2, 0), Some(homes.first));
        assert_eq!(choose(Strategy::TwoChoice, 3, 2), Some(homes.second));
        assert_eq!(choose(Strategy::TwoChoice, 4, 4), None);
        assert_eq!(choose(Strategy::Stash, 4, 4), Some(15));

        let shape = Shape { slots: 15, policy: Policy::default(), ..shape };
        let choose = |first, second| {
            let live = |bucket| if bucket == homes.first { first } else { second };
            shape.choose(Strategy::TwoChoice, homes, live)
        };
        assert_eq!(choose(12, 0), Some(homes.first));
        assert_eq!([10, 9].map(|second| choose(13, second)), [homes.first, homes.second].map(Some));
        assert_eq!(
            [14, 13].map(|second| choose(14, second)),
            [homes.first, homes.second].map(Some)
        );
    }
}
