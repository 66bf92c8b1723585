//! REH on the medium: buckets, and root words. The array of words is in `words.rs`.
//!
//! ```text
//! line  bytes
//! 0       0  slot 0 {h, payload}    16 slot 1     32 slot 2     48 slot 3
//! 1      64  slot 4                 80 slot 5     96 slot 6    112 slot 7
//! 2     128  slot 8                144 slot 9    160 slot 10   176 slot 11
//! 3     192  slot 12               208 slot 13   224 slot 14
//!       240  link {sibling's offset 48, local depth 16}
//!       248  prefix: the hash bits of the bucket, left-aligned
//! ```
//!
//! A slot lies within one line. The link is the commit word of splits and merges. The paper leaves
//! the last word reserved; with the prefix in it a bucket says where its place in the chain is, so a walk
//! can begin at it, and a sweep can ask if it is still there.

use durahash_media::{PmU64, bits, on_media};

use crate::designs::Slot;
use crate::extendible::directory::Directory;
use crate::extendible::extend::MAX_DEPTH;

/// Slots of a bucket.
pub(crate) const SLOTS: u32 = 15;

/// All of them, one bit each.
pub(crate) const ALL_SLOTS: u16 = (1 << SLOTS) - 1;

/// Bytes of a bucket: one block.
pub(crate) const BUCKET_BYTES: u64 = 256;

/// Numbers of buckets are lower than this, so that they fit an entry of the directory: buckets lie in
/// a pool's first tebibyte, and REH is full when that is, even if a larger pool still has room for
/// records.
pub(crate) const MAX_BUCKETS: u64 = Directory::<u32>::DEEP as u64;

/// The root word that names the first bucket, by its number. It never changes: the first bucket is
/// the lower one in every merge.
pub(crate) const ROOT: usize = 0;

/// The root word that names the array of words, and says how deep it is.
pub(crate) const WORDS_ROOT: usize = 1;

/// The root word with the depths of directory (bits 8-15) and front (bits 0-7) when they last changed.
pub(crate) const HINT_ROOT: usize = 2;

/// The root word that counts extents taken before a sweep was through, since one was.
pub(crate) const TAKEN_ROOT: usize = 3;

/// The pool's counter of live slots, and one more: zero where they were not counted.
pub(crate) const SAVED: usize = 0;

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: u64 = 16;

on_media! {
    /// The unit that is probed, locked and split.
    pub struct Bucket: 256, align 256 {
        /// The slots; a hash that does not match the prefix marks an empty one.
        pub slots: [Slot; 15],
        /// Local depth (bits 0-15) and offset of the next bucket in hash order (bits 16-63).
        pub link: PmU64,
        /// The bucket's hash prefix.
        pub prefix: PmU64,
    }
}

/// The `h` of an empty slot: a value whose first bit is not that of the bucket's
/// prefix, so every key remains legal. It stays right for the bucket's whole life, because local
/// depths begin at 1.
#[inline(always)]
pub(crate) const fn marker(prefix: u64) -> u64 {
    if prefix >> 63 == 0 { u64::MAX } else { 0 }
}

/// The first slot of the line that `h` goes to if there is room. A lookup fetches that line together
/// with the metadata, instead of after it.
#[inline(always)]
pub(crate) const fn preferred_slot(h: u64) -> u32 {
    bits(h, 8, 2) as u32 * 4
}

/// The slot for `h` among those that are `free`, one bit each: in its preferred line, if one is.
#[inline(always)]
pub(crate) const fn slot_for(h: u64, free: u16) -> u32 {
    let preferred = free & (0xf << preferred_slot(h));
    if preferred != 0 { preferred.trailing_zeros() } else { free.trailing_zeros() }
}

/// A bucket's link, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The local depth.
    pub(crate) depth: u32,
    /// Number of the next bucket in hash order; 0 after the last.
    pub(crate) sibling: u64,
}

impl Link {
    pub(crate) const fn to_word(self) -> u64 {
        ((self.sibling * BUCKET_BYTES) << 16) | self.depth as u64
    }

    /// `None` where the word is no link.
    pub(crate) const fn from_word(word: u64) -> Option<Self> {
        let depth = bits(word, 0, 16) as u32;
        let off = bits(word, 16, 48);
        if depth == 0 || depth > MAX_DEPTH || !off.is_multiple_of(BUCKET_BYTES) {
            return None;
        }
        Some(Link { depth, sibling: off / BUCKET_BYTES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_match_no_prefix_and_links_come_back() {
        assert_eq!([marker(0), marker(1 << 63)], [u64::MAX, 0]);
        for depth in 1..=MAX_DEPTH {
            for prefix in [0, crate::extendible::extend::prefix(u64::MAX, depth), 1 << 63] {
                assert!(!crate::extendible::extend::covers(prefix, depth, marker(prefix)));
            }
            let link = Link { depth, sibling: (1 << 40) - 1 };
            assert_eq!(Link::from_word(link.to_word()), Some(link));
        }
        assert_eq!(Link::from_word(0), None);
        assert_eq!(Link::from_word(1 << 16 | 1), None);
    }
}
