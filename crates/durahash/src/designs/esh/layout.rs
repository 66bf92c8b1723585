//! ESH on the medium: segments of buckets.
//!
//! ```text
//! bucket, 256 bytes
//! line  bytes
//! 0       0  commit word   8 lock   16 fingerprints of slots 0-7   24 of slots 8-13
//!        32  slot 0 {h, payload}    48 slot 1
//! 1      64  slot 2                 80 slot 3     96 slot 4    112 slot 5
//! 2     128  slot 6                144 slot 7    160 slot 8    176 slot 9
//! 3     192  slot 10               208 slot 11   224 slot 12   240 slot 13
//!
//! commit word
//! bits 0-13 live slots   14-19 OFRB   20 OB   21-30 OC   31-34 MC   35-40 local depth   63 parity
//! ```
//!
//! MC, how many slots are live, shares the word with the bits that it counts. OC is how many slots
//! elsewhere in the segment hold hashes whose home this bucket is, OFRB how far, in ring order, the
//! furthest of them may be, and OB says if there may be any. The lock is a
//! [`EpochLock`](durahash_media::EpochLock).
//!
//! A segment is a run of buckets, and its number is its offset divided by its size. Its word in the
//! array of the directory is that of `crate::extendible::array`, without a tag.

use durahash_media::hash::fingerprint;
use durahash_media::probe::{self, BitMask};
use durahash_media::{PmU64, bits, on_media};

use crate::designs::Slot;

/// Slots of a bucket.
pub(super) const SLOTS: u32 = 14;

/// The pool's counter of live slots, and one more: zero where they were not counted.
pub(super) const SAVED: usize = 0;

/// Bytes of a bucket: one block.
pub(super) const BUCKET_BYTES: u64 = 256;

/// Words of a bucket.
pub(super) const BUCKET_WORDS: usize = 32;

/// The most buckets of a segment.
pub(super) const MAX_BUCKETS: u32 = 64;

on_media! {
    /// The unit that is probed and locked.
    pub struct Bucket: 256, align 256 {
        /// Live slots, overflow and depth: what commits.
        pub commit: PmU64,
        /// Open epoch, version, X and W.
        pub lock: PmU64,
        /// The lowest bytes of the hashes in the slots.
        pub fingerprints: [PmU64; 2],
        /// The slots.
        pub slots: [Slot; 14],
    }
}

/// The lines of a bucket, as sets of slots.
pub(super) const LINES: [u16; 4] = [0x0003, 0x003c, 0x03c0, 0x3c00];

/// The line of a bucket that `h` goes to where there is a choice. A lookup fetches it together with
/// the head, instead of after it.
#[inline(always)]
pub(super) const fn preferred_line(h: u64) -> usize {
    1 + ((bits(h, 14, 8) as usize * 3) >> 8)
}

/// The slot for `h`, of those that are free: beside the head, where one flush does for both; else in
/// the line where lookups expect it.
pub(super) const fn slot_for(h: u64, free: u16) -> u32 {
    if free & LINES[0] != 0 { (free & LINES[0]).trailing_zeros() } else { far_slot_for(h, free) }
}

/// The slot for `h` in a bucket that is written as a whole: the first line stays free for inserts
/// that follow.
pub(super) const fn far_slot_for(h: u64, free: u16) -> u32 {
    let (preferred, far) = (free & LINES[preferred_line(h)], free & !LINES[0]);
    let best = if preferred != 0 {
        preferred
    } else if far != 0 {
        far
    } else {
        free
    };
    best.trailing_zeros()
}

/// True if slot `i` lies in the line of the head.
pub(super) const fn is_near(i: u32) -> bool {
    LINES[0] & 1 << i != 0
}

/// The slots that are used where a bucket has `count` of them. One or two are in the first line and
/// the next ones behind the first word of the fingerprints, so that small buckets have all that
/// whole ones have.
pub(super) fn used_slots(count: u32) -> u16 {
    let near = if count < 4 { 1 } else { 2 };
    let far = [8, 9, 6, 7, 2, 3, 4, 5, 10, 11, 12, 13];
    let far = far.iter().take((count - near) as usize);
    far.fold((1 << near) - 1, |used, i| used | 1 << i)
}

const REACH_BIT: u32 = 14;
const OVERFLOW_BIT: u32 = 20;
const COUNT_BIT: u32 = 21;
const MEMBERS_BIT: u32 = 31;
const DEPTH_BIT: u32 = 35;
const PARITY_BIT: u32 = 63;
/// The largest OC.
const OVERFLOWED_MOST: u32 = (1 << (MEMBERS_BIT - COUNT_BIT)) - 1;

/// The commit word of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Commit(pub(super) u64);

impl Commit {
    /// Of a bucket with these live slots, in a segment of this depth, `overflowed` of whose hashes are
    /// elsewhere, the furthest of them at most `reach` away.
    #[inline]
    pub(super) const fn new(live: u16, (overflowed, reach): (u32, u32), depth: u32) -> Self {
        let word = live as u64
            | (reach as u64) << REACH_BIT
            | ((reach > 0) as u64) << OVERFLOW_BIT
            | (overflowed as u64) << COUNT_BIT
            | (live.count_ones() as u64) << MEMBERS_BIT
            | (depth as u64) << DEPTH_BIT;
        Commit(word | ((word.count_ones() & 1) as u64) << PARITY_BIT)
    }

    /// Live slots, one bit each.
    #[inline(always)]
    pub(super) const fn live(self) -> u16 {
        bits(self.0, 0, SLOTS) as u16
    }

    /// How many are live.
    #[inline(always)]
    pub(super) const fn count(self) -> u32 {
        self.live().count_ones()
    }

    /// How many slots elsewhere belong here, but that a crash may leave it wrong. Of a damaged word it is more than
    /// there can be, so that it does not come to none while there are any.
    #[inline]
    pub(super) const fn overflowed(self) -> u32 {
        if self.is_intact() { bits(self.0, COUNT_BIT, 10) as u32 } else { OVERFLOWED_MOST }
    }

    /// How far from home a hash may be, in a segment of `buckets` buckets. A damaged word does not
    /// know.
    #[inline(always)]
    pub(super) const fn reach(self, buckets: u32) -> u32 {
        let reach = bits(self.0, REACH_BIT, 6) as u32;
        if self.is_intact() && reach < buckets { reach } else { buckets - 1 }
    }

    /// The local depth of the segment.
    pub(super) const fn depth(self) -> u32 {
        bits(self.0, DEPTH_BIT, 6) as u32
    }

    /// True if it can be told that a bit has flipped.
    #[inline(always)]
    const fn is_intact(self) -> bool {
        self.0.count_ones().is_multiple_of(2)
    }

    /// True if its parts agree.
    pub(super) const fn is_sound(self) -> bool {
        let reach = bits(self.0, REACH_BIT, 6) as u32;
        self.0 == Commit::new(self.live(), (self.overflowed(), reach), self.depth()).0
    }

    /// With other live slots.
    #[inline(always)]
    pub(super) const fn with_live(self, live: u16, buckets: u32) -> Self {
        Commit::new(live, (self.overflowed(), self.reach(buckets)), self.depth())
    }

    /// With another overflow. No segment has as many records as the counter could count: a larger one
    /// is damage.
    #[inline]
    pub(super) const fn with_overflow(self, (overflowed, reach): (u32, u32)) -> Self {
        let overflowed = if overflowed > OVERFLOWED_MOST { OVERFLOWED_MOST } else { overflowed };
        Commit::new(self.live(), (overflowed, reach), self.depth())
    }
}

/// The fingerprints of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprints(pub(super) [u64; 2]);

impl Fingerprints {
    /// Of a new bucket: its slots have zeros, but not the fingerprint of that.
    pub(super) const EMPTY: Self = Fingerprints([u64::MAX; 2]);

    /// The slots that may hold `h`.
    #[inline(always)]
    pub(super) fn candidates(self, h: u64, live: u16) -> BitMask {
        BitMask(probe::match_byte(self.0, fingerprint(h)).0 & live)
    }

    /// True if slot `i` may hold `h`.
    pub(super) fn names(self, i: u32, h: u64) -> bool {
        self.0[i as usize / 8] >> (i % 8 * 8) & 0xff == u64::from(fingerprint(h))
    }

    /// With that of `h` for slot `i`.
    #[inline]
    pub(super) const fn with(mut self, i: u32, h: u64) -> Self {
        let (word, shift) = (i as usize / 8, i % 8 * 8);
        self.0[word] = self.0[word] & !(0xff << shift) | (fingerprint(h) as u64) << shift;
        self
    }

    /// With a wrong one for slot `i`, so that a flipped bit among the live slots does not bring back
    /// what was there.
    #[inline]
    pub(super) const fn without(mut self, i: u32) -> Self {
        self.0[i as usize / 8] ^= 0xff << (i % 8 * 8);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_words_give_their_parts_back() {
        for (live, overflow, depth) in
            [(0, (0, 0), 1), (0x3fff, (882, 63), 44), (0x1234, (7, 1), 20), (1, (0, 3), 2)]
        {
            let commit = Commit::new(live, overflow, depth);
            assert!(commit.is_sound());
            assert_eq!((commit.live(), commit.count()), (live, live.count_ones()));
            assert_eq!((commit.overflowed(), commit.reach(64)), overflow);
            assert_eq!(commit.depth(), depth);
            assert_eq!(commit.with_live(5, 64), Commit::new(5, overflow, depth));
            assert_eq!(commit.with_overflow((2, 2)), Commit::new(live, (2, 2), depth));
            for bit in 0..64 {
                let flipped = Commit(commit.0 ^ 1 << bit);
                assert!(!flipped.is_sound());
                assert_eq!(flipped.with_live(1, 64).overflowed(), OVERFLOWED_MOST);
                assert_eq!(flipped.reach(64), 63, "a lookup looks everywhere");
            }
        }
        assert_eq!(Commit::new(0, (1, 7), 1).reach(4), 3, "not beyond the segment");
    }

    #[test]
    fn fingerprints_are_those_of_their_slots() {
        let mut all = Fingerprints::EMPTY;
        for i in 0..SLOTS {
            all = all.with(i, u64::from(i) + 100);
        }
        for i in 0..SLOTS {
            let h = u64::from(i) + 100;
            assert_eq!(all.candidates(h, 0x3fff).collect::<Vec<_>>(), [i]);
            assert!(all.names(i, h) && !all.names((i + 1) % SLOTS, h));
            assert!(!all.without(i).names(i, h));
            assert!(all.candidates(h, !(1 << i)).is_empty());
        }
    }

    #[test]
    fn slots_near_the_head_come_first_in_inserts_and_last_in_images() {
        assert_eq!(LINES.iter().fold(0, |all, line| all | line), used_slots(SLOTS));
        for count in 2..=SLOTS {
            assert_eq!(used_slots(count).count_ones(), count);
            assert!(used_slots(count) & LINES[0] != 0 && used_slots(count) & LINES[2] != 0);
        }
        for h in (0..1000_u64).map(|i| durahash_media::hash::WordMix::new(1).mix(i)) {
            let line = preferred_line(h);
            assert!((1..=3).contains(&line));
            assert!(is_near(slot_for(h, used_slots(SLOTS))));
            assert!(LINES[line] & 1 << slot_for(h, used_slots(SLOTS) & !LINES[0]) != 0);
            assert!(LINES[line] & 1 << far_slot_for(h, used_slots(SLOTS)) != 0);
            assert!(is_near(far_slot_for(h, LINES[0])));
        }
    }
}
