//! Rewo-Hash on the medium: tables of buckets, and the block that names them.
//!
//! ```text
//! bucket, 256 bytes
//! line  bytes
//! 0       0  commit word   8 fingerprints   16 slot 0 {h, payload}   32 slot 1   48 slot 2
//! 1      64  slot 3 ... 6
//! 2     128  slot 7 ... 10
//! 3     192  slot 11 ... 14
//!
//! commit word
//! bits 0-14 live slots   15-29 slots that are being moved away   30-44 bit 4 of the hashes in the live slots
//!     45-59 bit 5 of them   60 one, where a slot is live   63 parity
//!
//! fingerprints
//! bits 4i to 4i + 3: the lowest bits of the hash in slot i
//! ```
//!
//! So a fingerprint has six bits, of which two become visible with the slot.
//!
//! A table is a run of extents of buckets, a power of two of them, and so is the number of its buckets.
//! The block of tables, of which an extent has several, says which there are:
//!
//! ```text
//! line  bytes
//! 0       0  state   8 cursor   16 table 0 ... 56 table 5
//! 1      64  table 6 ... 13
//! 2     128  table 14   136 table 15   144 the reserved table   152 the overtaken table
//!       160  check sum   168 anything
//!
//! state: bits 0-2 resize: 0 none, 1 grow, 2 shrink, 3 rebuild, 4 rebuild over a grow or shrink,
//!                 5 rebuild over a rebuild
//!        bits 3-7 number of tables, without those behind
//! table: bits 0-5 extents, as an exponent of two   8-45 first extent   0 is none
//!
//! root word: bits 0-45 number of the block, counted in blocks from the pool's start   46-63 check sum
//! ```

use durahash_media::hash::WordMix;
use durahash_media::probe::{self, BitMask};
use durahash_media::{PmU64, bits, on_media};

use crate::designs::Slot;

/// The root word that names the block of tables.
pub(crate) const ROOT: usize = 0;

/// Slots of a bucket.
pub(super) const SLOTS: u32 = 15;

/// The counter of the superblock that keeps how many slots are live, and one more.
pub(super) const SAVED: usize = 0;

/// Bytes of a bucket, and of a block of tables.
pub(super) const BUCKET_BYTES: u64 = 256;

/// Tables that there may be, without those of rebuilds.
pub(super) const TABLES: usize = 16;

on_media! {
    /// The unit that is probed and locked.
    pub struct Bucket: 256, align 256 {
        /// Live slots with two bits of each hash, and those that are being moved away: what commits.
        pub commit: PmU64,
        /// Four bits of each hash.
        pub fingerprints: PmU64,
        /// The slots.
        pub slots: [Slot; 15],
    }

    /// Which tables there are, and how far a resize has come.
    pub struct Tables: 256, align 256 {
        /// The resize that is under way, and how many tables there are.
        pub state: PmU64,
        /// Buckets that the resize has migrated.
        pub cursor: PmU64,
        /// The tables.
        pub tables: [PmU64; 16],
        /// The table of a rebuild.
        pub reserved: PmU64,
        /// That of a rebuild which could not go on.
        pub overtaken: PmU64,
        /// Check sum of the words before.
        pub sum: PmU64,
        /// Anything.
        pub spare: [PmU64; 11],
    }
}

/// Words of a block of tables that its check sum is of.
pub(super) const BLOCK_WORDS: usize = TABLES + 4;

/// These words, in their order.
pub(super) fn fields(block: &Tables) -> impl Iterator<Item = &PmU64> {
    let head = [&block.state, &block.cursor].into_iter();
    head.chain(&block.tables).chain([&block.reserved, &block.overtaken])
}

/// All slots of a bucket.
const ALL: u64 = (1 << SLOTS) - 1;
/// Where bits 4 and 5 of the hashes begin.
const HIGH_SHIFTS: [u32; 2] = [2 * SLOTS, 3 * SLOTS];
/// Where a slot is live.
const ANY: u64 = 1 << (4 * SLOTS);
const PARITY_BIT: u32 = 63;

/// The commit word of a bucket. Zero is an empty bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Commit(pub(super) u64);

impl Commit {
    /// Changed to these bits. A parity that is wrong stays so, until the bucket is mended.
    #[inline(always)]
    const fn changed(self, word: u64) -> Self {
        let flips = ((self.0 ^ word) & !(1 << PARITY_BIT)).count_ones() as u64 & 1;
        Commit(word & !(1 << PARITY_BIT) | self.0 & 1 << PARITY_BIT ^ flips << PARITY_BIT)
    }

    /// Live slots, one bit each.
    #[inline(always)]
    pub(super) const fn live(self) -> u16 {
        (self.0 & ALL) as u16
    }

    /// Slots whose copy is about to be live elsewhere.
    #[inline(always)]
    pub(super) const fn leaving(self) -> u16 {
        (self.0 >> SLOTS & ALL) as u16
    }

    /// How many are live.
    #[inline(always)]
    pub(super) const fn count(self) -> u32 {
        self.live().count_ones()
    }

    /// True if its parts agree, nothing leaves that is not live, and no other slot has bits of a hash.
    pub(super) const fn is_sound(self) -> bool {
        self.0.count_ones() & 1 == 0 && self.0 == self.keep(self.live(), self.leaving()).0
    }

    /// With one more live slot, that of `h`. What damage left of a slot that is not live goes.
    #[inline(always)]
    pub(super) const fn with(self, slot: u32, h: u64) -> Self {
        let all = 1 | 1 << SLOTS | 1 << HIGH_SHIFTS[0] | 1 << HIGH_SHIFTS[1];
        let high = bits(h, 4, 1) << HIGH_SHIFTS[0] | bits(h, 5, 1) << HIGH_SHIFTS[1];
        self.changed(self.0 & !(all << slot) | ANY | (1 | high) << slot)
    }

    /// With these of the live slots, and these of them being moved away.
    #[inline(always)]
    pub(super) const fn keep(self, live: u16, leaving: u16) -> Self {
        let live = (live & self.live()) as u64;
        let any = (live != 0) as u64 * ANY;
        let high = self.0 & (live << HIGH_SHIFTS[0] | live << HIGH_SHIFTS[1]);
        let leaving = (leaving as u64 & live) << SLOTS;
        self.changed(live | leaving | high | any)
    }

    /// Without a slot, being moved or not.
    #[inline(always)]
    pub(super) const fn without(self, slot: u32) -> Self {
        self.keep(self.live() & !(1 << slot), self.leaving())
    }

    /// With a slot marked as being moved away.
    #[inline(always)]
    pub(super) const fn with_leaving(self, slot: u32) -> Self {
        self.keep(self.live(), self.leaving() | 1 << slot)
    }

    /// The slots, live or not, of which it does not say that they hold another hash. Where the parity is wrong, it
    /// says nothing: one flipped bit of 30 to 59 hides no slot.
    #[inline(always)]
    const fn may_hold(self, h: u64) -> u16 {
        let fourth = self.0 >> HIGH_SHIFTS[0] ^ 0_u64.wrapping_sub(bits(h, 4, 1));
        let fifth = self.0 >> HIGH_SHIFTS[1] ^ 0_u64.wrapping_sub(bits(h, 5, 1));
        let is_right = !(self.0.count_ones() as u64) & 1;
        !((fourth | fifth) & 0_u64.wrapping_sub(is_right)) as u16
    }
}

/// The part of the fingerprint of a hash that lies beside the commit word.
#[inline(always)]
const fn fingerprint(h: u64) -> u8 {
    bits(h, 0, 4) as u8
}

/// The fingerprints of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprints(pub(super) u64);

impl Fingerprints {
    /// The live slots that may hold `h`.
    #[inline(always)]
    pub(super) const fn candidates(self, commit: Commit, h: u64) -> BitMask {
        let live = commit.live() & commit.may_hold(h);
        BitMask(probe::match_nibble(self.0, fingerprint(h)).0 & live)
    }

    /// True if slot `i`, which is live, may hold `h`.
    pub(super) const fn names(self, commit: Commit, i: u32, h: u64) -> bool {
        bits(self.0, i * 4, 4) as u8 == fingerprint(h) && commit.may_hold(h) & 1 << i != 0
    }

    /// With that of `h` for slot `i`.
    #[inline(always)]
    pub(super) const fn with(self, i: u32, h: u64) -> Self {
        Fingerprints(self.0 & !(0xf << (i * 4)) | (fingerprint(h) as u64) << (i * 4))
    }

    /// With wrong ones for some slots, so that a flipped bit among the live slots does not bring back
    /// what was there.
    #[inline(always)]
    pub(super) fn without(self, slots: u16) -> Self {
        Fingerprints(BitMask(slots).fold(self.0, |word, i| word ^ 0xf << (i * 4)))
    }
}

/// The slots that are used where a bucket has `count` of them. One or two are in the first line, so
/// that small buckets have all that whole ones have.
pub(super) fn used_slots(count: u32) -> u16 {
    let first = |n: u32| (1_u16 << n) - 1;
    let near = count.div_ceil(2).min(3);
    first(near) | first(count - near) << 3
}

/// Of 46 bits and a check sum above them.
const SUM_SHIFT: u32 = 46;

/// The root word that names a block of tables.
pub(super) fn root_word(mix: WordMix, block: u64) -> u64 {
    block | mix.mix(block) >> SUM_SHIFT << SUM_SHIFT
}

/// The block that a root word names; `None` where it is damaged.
pub(super) fn block_of(mix: WordMix, root: u64) -> Option<u64> {
    let block = bits(root, 0, SUM_SHIFT);
    (root == root_word(mix, block)).then_some(block)
}

/// The check sum of the words of a block of tables.
pub(super) fn sum_of(mix: WordMix, words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0, |sum, word| mix.mix(mix.mix(sum) ^ word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of these live slots: slot i has hash i * 16.
    fn commit(live: u16, leaving: u16) -> Commit {
        let all = BitMask(live).fold(Commit(0), |c, i| c.with(i, u64::from(i) << 4));
        all.keep(live, leaving)
    }

    #[test]
    fn commit_words_give_their_parts_back() {
        assert_eq!(commit(0, 0), Commit(0), "zeros are an empty bucket");
        for (live, leaving) in [(0, 0), (0x7fff, 0x7fff), (0x1234, 0x0010), (1, 1)] {
            let word = commit(live, leaving);
            assert!(word.is_sound());
            assert_eq!((word.live(), word.leaving()), (live, leaving));
            assert_eq!(word.with(3, 3 << 4), commit(live | 8, leaving & !8));
            assert_eq!(word.with(3, 3 << 4).with_leaving(3), commit(live | 8, leaving | 8));
            assert_eq!(word.without(4), commit(live & !16, leaving & !16));
            for damaged in (0..64).map(|bit| Commit(word.0 ^ 1 << bit)) {
                assert!(!damaged.is_sound() && damaged.may_hold(!0) == !0);
                let changed = damaged.with(3, 0).with_leaving(3).without(4);
                assert!(!changed.is_sound() && !changed.keep(0, 0).is_sound());
            }
        }
        assert_eq!(commit(1, 2), commit(1, 0));
        let word = commit(0, 0).with(0, 0).with(1, 1 << 4);
        assert_eq!([0, 1, 2, 3].map(|high| word.may_hold(high << 4) & 3), [1, 2, 0, 0]);
    }

    #[test]
    fn fingerprints_are_those_of_their_slots() {
        let (mut all, mut live) = (Fingerprints(0), Commit(0));
        let hash = |i: u32| u64::from(i / 4) | u64::from(i % 4) << 4 | 1 << 9;
        for i in 0..SLOTS {
            (all, live) = (all.with(i, hash(i)), live.with(i, hash(i)));
        }
        for i in 0..SLOTS {
            let h = hash(i);
            assert_eq!(all.candidates(live, h).collect::<Vec<_>>(), [i]);
            assert!(all.names(live, i, h) && !all.names(live, (i + 1) % SLOTS, h));
            assert!(all.candidates(live.without(i), h).is_empty());
            assert!(!all.without(1 << i).names(live, i, h));
            let others = !(1 << i) & 0x7fff;
            assert!(all.without(others).names(live, i, h));
            assert!(BitMask(others).all(|i| !all.without(others).names(live, i, hash(i))));
        }
    }

    #[test]
    fn small_buckets_have_slots_in_two_lines() {
        assert_eq!(used_slots(SLOTS), 0x7fff);
        for count in 2..=SLOTS {
            let used = used_slots(count);
            assert_eq!(used.count_ones(), count);
            assert!(used & 7 != 0 && used & !7 != 0 && used & 0x8000 == 0);
        }
    }

    #[test]
    fn damaged_roots_and_blocks_do_not_pass() {
        let mix = WordMix::new(7);
        let root = root_word(mix, 12345);
        assert_eq!(block_of(mix, root), Some(12345));
        assert!((0..64).all(|bit| block_of(mix, root ^ 1 << bit).is_none()));
        let words = [1_u64, 0, 7];
        let sum = sum_of(mix, words.into_iter());
        for (i, bit) in (0..3).flat_map(|i| (0..64).map(move |bit| (i, bit))) {
            let mut other = words;
            other[i] ^= 1 << bit;
            assert_ne!(sum_of(mix, other.into_iter()), sum);
        }
    }
}
