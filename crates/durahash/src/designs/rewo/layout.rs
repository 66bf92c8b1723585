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
//! bits 0-14 live slots   15-29 slots that are being moved away   63 parity
//!
//! fingerprints
//! bits 4i to 4i + 3: the lowest bits of the hash in slot i
//! ```
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

/// Slots of a bucket.
pub(super) const SLOTS: u32 = 15;

/// Bytes of a bucket, and of a block of tables.
pub(super) const BUCKET_BYTES: u64 = 256;

/// Tables that there may be, without those of rebuilds.
pub(super) const TABLES: usize = 16;

on_media! {
    /// A hash and its payload.
    pub struct Slot: 16, align 16 {
        /// The hash.
        pub h: PmU64,
        /// The payload.
        pub payload: PmU64,
    }

    /// The unit that is probed and locked.
    pub struct Bucket: 256, align 256 {
        /// Live slots, and those that are being moved away: what commits.
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
const PARITY_BIT: u32 = 63;

/// The commit word of a bucket. Zero is an empty bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Commit(pub(super) u64);

impl Commit {
    /// Of these live slots, some of which are being moved away.
    #[inline(always)]
    pub(super) const fn new(live: u16, leaving: u16) -> Self {
        let word = live as u64 | (leaving as u64) << SLOTS;
        Commit(word | ((word.count_ones() & 1) as u64) << PARITY_BIT)
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

    /// True if its parts agree, and nothing leaves that is not live.
    pub(super) const fn is_sound(self) -> bool {
        self.0 == Commit::new(self.live(), self.leaving()).0 && self.leaving() & !self.live() == 0
    }

    /// With one more live slot.
    #[inline(always)]
    pub(super) const fn with(self, slot: u32) -> Self {
        Commit::new(self.live() | 1 << slot, self.leaving())
    }

    /// Without a slot, whether it was being moved or not.
    #[inline(always)]
    pub(super) const fn without(self, slot: u32) -> Self {
        Commit::new(self.live() & !(1 << slot), self.leaving() & !(1 << slot))
    }

    /// With a slot marked as being moved away.
    #[inline(always)]
    pub(super) const fn with_leaving(self, slot: u32) -> Self {
        Commit::new(self.live(), self.leaving() | 1 << slot)
    }
}

/// The fingerprint of a hash.
#[inline(always)]
const fn fingerprint(h: u64) -> u8 {
    bits(h, 0, 4) as u8
}

/// The fingerprints of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprints(pub(super) u64);

impl Fingerprints {
    /// The slots that may hold `h`.
    #[inline(always)]
    pub(super) const fn candidates(self, h: u64, live: u16) -> BitMask {
        BitMask(probe::match_nibble(self.0, fingerprint(h)).0 & live)
    }

    /// True if slot `i` may hold `h`.
    pub(super) const fn names(self, i: u32, h: u64) -> bool {
        bits(self.0, i * 4, 4) as u8 == fingerprint(h)
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

    #[test]
    fn commit_words_say_what_they_were_made_of() {
        assert_eq!(Commit(0), Commit::new(0, 0), "zeros are an empty bucket");
        for (live, leaving) in [(0, 0), (0x7fff, 0x7fff), (0x1234, 0x0010), (1, 1)] {
            let commit = Commit::new(live, leaving);
            assert!(commit.is_sound());
            assert_eq!((commit.live(), commit.leaving()), (live, leaving));
            assert_eq!(commit.with(3), Commit::new(live | 8, leaving));
            assert_eq!(commit.with(3).with_leaving(3), Commit::new(live | 8, leaving | 8));
            assert_eq!(commit.without(4), Commit::new(live & !16, leaving & !16));
            assert!((0..64).all(|bit| !Commit(commit.0 ^ 1 << bit).is_sound()));
        }
        assert!(!Commit::new(1, 2).is_sound());
    }

    #[test]
    fn fingerprints_are_those_of_their_slots() {
        let mut all = Fingerprints(0);
        for i in 0..SLOTS {
            all = all.with(i, u64::from(i) + 16);
        }
        for i in 0..SLOTS {
            let h = u64::from(i) + 16;
            assert_eq!(all.candidates(h, 0x7fff).collect::<Vec<_>>(), [i]);
            assert!(all.names(i, h) && !all.names((i + 1) % SLOTS, h));
            assert!(all.candidates(h, 0x7fff & !(1 << i)).is_empty());
            assert!(!all.without(1 << i).names(i, h));
            let others = !(1 << i) & 0x7fff;
            assert!(all.without(others).names(i, h));
            assert!(BitMask(others).all(|i| !all.without(others).names(i, u64::from(i) + 16)));
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
