//! Pea Hash on the medium: segments of buckets, and the directory's words.
//!
//! ```text
//! bucket, 256 bytes
//! line  bytes
//! 0       0  head {bitmap 16, fingerprints of slots 0-5}   8 fingerprints of slots 6-13
//!        16  slot 0 {h, payload}    32 slot 1     48 slot 2
//! 1      64  slot 3                 80 slot 4     96 slot 5    112 slot 6
//! 2     128  slot 7                144 slot 8    160 slot 9    176 slot 10
//! 3     192  slot 11               208 slot 12   224 slot 13   240 slot 14 (no fingerprint)
//! ```
//!
//! Bit 0 of the bitmap is the *end bit*; bit `i + 1` says that slot `i` is live. The first word of the
//! head is the commit word: it has the whole bitmap, so an entry moves within a bucket at once.
//!
//! A lookup goes from bucket to bucket (`strategy.rs`). Where the end bit is set, it ends: no entry whose
//! lookup comes by this bucket lies in a later one. The bit is set in a new bucket, and cleared before
//! the first such entry is there.
//!
//! The buckets of a multimap have two sets of slots and fewer fingerprints:
//!
//! ```text
//! head {live slots 16, lists 16, fingerprints of slots 0-3}   8 fingerprints of slots 4-11
//! ```
//!
//! Bit `i` of the first set says that slot `i` is live, of the second that its payload names a value
//! buffer (`buffer.rs`) instead of being a value. Slots 12 to 14 have no fingerprint. Bit 15 of the first
//! set is the end bit.
//!
//! A segment is a row of extents, as many as the geometry says, but of one while it is small: main buckets, and behind
//! them pairs of stash buckets, as many as `strategy.rs` says. Its word in the array of the directory
//! (`crate::extendible::array`) has the strategy as its tag, or that of small segments.

use durahash_media::hash::fingerprint;
use durahash_media::probe::{self, BitMask};
use durahash_media::{PmU64, bits, on_media};

use crate::designs::Slot;

/// The content of a live slot beside its hash: a payload, or in a multimap the name of a value buffer.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) payload: u64,
    pub(super) is_list: bool,
}

/// Slots of a bucket.
pub(super) const SLOTS: u32 = 15;

/// Bytes of a bucket: one block.
pub(super) const BUCKET_BYTES: u64 = 256;

/// Words of a bucket.
pub(super) const BUCKET_WORDS: usize = 32;

on_media! {
    /// The unit that is probed.
    pub struct Bucket: 256, align 256 {
        /// Bitmap (bits 0-15) and fingerprints.
        pub head: [PmU64; 2],
        /// The slots.
        pub slots: [Slot; 15],
    }
}

/// The lines of a bucket, as sets of slots.
pub(super) const LINES: [u16; 4] = [0x0007, 0x0078, 0x0780, 0x7800];

/// The free slots that are to be used before the others of `free`: every lookup that comes to the
/// bucket loads those without a fingerprint when they are live, so they are the last.
pub(super) const fn better<const MULTI: bool>(free: u16) -> u16 {
    let named = free & !Head::<MULTI>::UNNAMED;
    if named != 0 { named } else { free }
}

/// The line of a bucket that `h` goes to where there is a choice. A lookup fetches it together with
/// the head, instead of after it.
#[inline(always)]
pub(super) const fn preferred_line(h: u64) -> usize {
    1 + ((bits(h, 8, 8) as usize * 3) >> 8)
}

/// The slot for `h`, of those that are free, in a bucket that is written as a whole: the first line
/// stays free for inserts that follow.
pub(super) const fn slot_for<const MULTI: bool>(h: u64, free: u16) -> u32 {
    let free = better::<MULTI>(free);
    let preferred = free & LINES[preferred_line(h)];
    let far = free & !LINES[0];
    let best = if preferred != 0 {
        preferred
    } else if far != 0 {
        far
    } else {
        free
    };
    best.trailing_zeros()
}

/// The slots that are used where a bucket has `count` of them. Up to half of them are in the first
/// line and the next ones behind the first word of the head, so that small buckets have all that
/// whole ones have.
pub(super) fn used_slots(count: u32) -> u16 {
    let near = if count == SLOTS { 3 } else { (count / 2).min(3) };
    let far = [7, 8, 9, 10, 3, 4, 5, 6, 11, 12, 13, 14];
    let far = far.iter().take((count - near) as usize);
    far.fold((1 << near) - 1, |used, i| used | 1 << i)
}

/// The head of a bucket, of a map or of a multimap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head<const MULTI: bool>(pub(super) [u64; 2]);

impl<const MULTI: bool> Head<MULTI> {
    /// The end bit.
    pub(super) const END: u64 = if MULTI { 1 << 15 } else { 1 };

    /// Of a new bucket: its slots have zeros, but not the fingerprint of that.
    pub(super) const EMPTY: Self = Head([u64::MAX << (Self::FIRST_BYTE * 8) | Self::END, u64::MAX]);

    /// Bits before those of live slots.
    const FIRST_BIT: u32 = if MULTI { 0 } else { 1 };
    /// Bytes before the fingerprints.
    const FIRST_BYTE: u32 = if MULTI { 4 } else { 2 };
    /// Slots that have a fingerprint.
    const NAMED: u32 = 16 - Self::FIRST_BYTE;
    /// The others, as a set.
    const UNNAMED: u16 = (1 << SLOTS) - (1 << Self::NAMED);
    /// The first bit of those that tell lists from values.
    const LISTS_BIT: u32 = 16;

    /// True if damage, such as a page of zeros, has replaced the head: slots that are not live have no
    /// fingerprint of zero.
    pub(super) const fn is_gone(self) -> bool {
        self.0[0] == 0
    }

    /// Live slots, one bit each.
    #[inline(always)]
    pub(super) const fn live(self) -> u16 {
        bits(self.0[0], Self::FIRST_BIT, SLOTS) as u16
    }

    /// Live slots that name value buffers. Only a multimap has any.
    #[inline(always)]
    pub(super) const fn lists(self) -> u16 {
        if MULTI { bits(self.0[0], Self::LISTS_BIT, SLOTS) as u16 & self.live() } else { 0 }
    }

    /// True if a slot that is not live is said to name a buffer, which only damage leaves behind.
    pub(super) const fn has_stray_lists(self) -> bool {
        MULTI && bits(self.0[0], Self::LISTS_BIT, SLOTS) as u16 & !self.live() != 0
    }

    /// Live slots that may hold `h`, by their fingerprints.
    #[inline(always)]
    pub(super) fn candidates(self, h: u64) -> BitMask {
        let equal = probe::match_byte(self.0, fingerprint(h)).0 >> Self::FIRST_BYTE;
        BitMask((equal | Self::UNNAMED) & self.live())
    }

    /// True if slot `i` is live, and a lookup of `h` looks into it.
    pub(super) fn names(self, i: u32, h: u64) -> bool {
        self.candidates(h).0 & 1 << i != 0
    }

    /// With `h` in slot `i`.
    #[inline]
    pub(super) const fn with(mut self, i: u32, h: u64) -> Self {
        self.0[0] |= 1 << (i + Self::FIRST_BIT);
        if MULTI {
            // Where it was set, it was damaged.
            self.0[0] &= !(1 << (Self::LISTS_BIT + i));
        }
        if i < Self::NAMED {
            let at = i + Self::FIRST_BYTE;
            let (word, shift) = (at as usize / 8, at % 8 * 8);
            self.0[word] = self.0[word] & !(0xff << shift) | (fingerprint(h) as u64) << shift;
        }
        self
    }

    /// With a list of `h` in slot `i`.
    pub(super) const fn with_list(self, i: u32, h: u64) -> Self {
        let mut head = self.with(i, h);
        head.0[0] |= 1 << (Self::LISTS_BIT + i);
        head
    }

    /// Without slot `i`. Its fingerprint is made wrong as well, so that a flipped bit in the bitmap
    /// does not bring the entry back, and not zero, so that a head of zeros is damaged.
    #[inline]
    pub(super) const fn without(mut self, i: u32) -> Self {
        self.0[0] &= !(1 << (i + Self::FIRST_BIT));
        if MULTI {
            self.0[0] &= !(1 << (Self::LISTS_BIT + i));
        }
        if i < Self::NAMED {
            let at = i + Self::FIRST_BYTE;
            let (word, shift) = (at as usize / 8, at % 8 * 8);
            self.0[word] = (self.0[word] ^ 0xff << shift) | 1 << shift;
        }
        self
    }

    /// Without any of these slots.
    pub(super) fn without_all(self, slots: u16) -> Self {
        BitMask(slots).fold(self, Self::without)
    }
}

#[cfg(test)]
mod tests {
    use durahash_media::hash::WordMix;

    use super::*;

    #[test]
    fn heads_know_their_slots() {
        let mut head = Head::<false>::EMPTY;
        for i in (0..SLOTS).rev() {
            head = head.with(i, u64::from(i) + 100);
        }
        assert_eq!(head.live(), used_slots(SLOTS));
        for i in 0..SLOTS {
            // The last slot has no fingerprint, so it is always looked at.
            let found: Vec<u32> = head.candidates(u64::from(i) + 100).collect();
            assert_eq!(found, if i == 14 { vec![14] } else { vec![i, 14] });
            assert!(!head.without(i).names(i, u64::from(i) + 100));
            let revived = Head::<false>([head.without(i).0[0] | 2 << i, head.without(i).0[1]]);
            assert_eq!(revived.names(i, u64::from(i) + 100), i == 14);
        }
        assert_eq!((0..SLOTS).fold(head, Head::without).live(), 0);
        for fingerprint in 0..=255 {
            let head = Head::<false>([0, 0]).with(0, fingerprint).without(0);
            assert!(!head.is_gone() && head.0[0] >> 16 != fingerprint);
        }
        assert_eq!(LINES.iter().fold(0, |all, line| all | line), used_slots(SLOTS));
    }

    #[test]
    fn the_slot_without_a_fingerprint_is_the_last() {
        for i in 0..1000_u64 {
            let h = WordMix::new(1).mix(i);
            let line = preferred_line(h);
            assert!((1..=3).contains(&line));
            assert!(LINES[line] & 1 << slot_for::<false>(h, used_slots(SLOTS)) != 0);
            let mut free = used_slots(SLOTS);
            let mut order = Vec::new();
            while free != 0 {
                order.push(slot_for::<false>(h, free));
                free &= !(1 << slot_for::<false>(h, free));
            }
            assert_eq!(order[11..], [0, 1, 2, 14]);
        }
    }

    #[test]
    fn heads_of_multimaps_tell_lists_from_values() {
        let mut head = Head::<true>::EMPTY;
        assert_eq!((head.live(), head.lists()), (0, 0));
        for i in 0..SLOTS {
            let h = u64::from(i) + 100;
            head = if i % 2 == 0 { head.with(i, h) } else { head.with_list(i, h) };
        }
        assert_eq!((head.live(), head.lists()), (0x7fff, 0x2aaa));
        for i in 0..SLOTS {
            // Three slots have no fingerprint, so they are always looked at.
            let mut named: Vec<u32> = vec![i, 12, 13, 14];
            named.sort_unstable();
            named.dedup();
            assert_eq!(head.candidates(u64::from(i) + 100).collect::<Vec<_>>(), named);
            let without = head.without(i);
            assert_eq!(without.live() | 1 << i, 0x7fff);
            assert!(!without.names(i, u64::from(i) + 100) && without.lists() & 1 << i == 0);
        }
        assert_eq!(head.without_all(0x7fff).live(), 0);
        assert_eq!(head.without_all(0x7fff).lists(), 0);
    }

    #[test]
    fn a_stray_list_is_told_and_not_taken_over() {
        let mut head = Head::<true>::EMPTY;
        assert!(!head.with_list(3, 7).has_stray_lists());
        head.0[0] |= 1 << (Head::<true>::LISTS_BIT + 3);
        assert!(head.has_stray_lists());
        assert_eq!(head.with(3, 7).lists(), 0);
        assert_eq!(head.with_list(3, 7).lists(), 1 << 3);
    }

    #[test]
    fn small_buckets_have_two_lines() {
        for count in 2..SLOTS {
            assert_eq!(used_slots(count).count_ones(), count);
            assert!(used_slots(count) & LINES[0] != 0 && used_slots(count) & LINES[2] != 0);
        }
    }
}
