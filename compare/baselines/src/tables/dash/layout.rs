//! The words of Dash.
//!
//! ```text
//! segment, an extent of 16 KiB   block 0: head; 61 buckets; 2 stash buckets
//! head     state (bits 0-7), local depth (8-15), number of the segment that the last split made, plus one (16-63)
//!
//! bucket   byte 0    commit word: slots that are live (bits 0-13), of these those whose home is the bucket before
//!                    (14-27), how many are live (28-31); the paper's lock and version (32-63) are not used
//!               8    fingerprints of the 14 slots, a byte each
//!              24    overflow word: of keys in the stash whose home is this bucket or the one before, four fingerprints
//!                    (bits 0-31), which of these are in use (32-35), those of the bucket before (36-39), their stash
//!                    buckets, two bits each (40-47); keys in the stash that found no such place (48-63)
//!              32    slots
//! ```

use durahash_media::{PmU64, bits, on_media};

use super::super::Slot;

pub(super) const BLOCK_BYTES: u64 = 256;
/// Slots of a bucket.
pub(super) const SLOTS: u32 = 14;
/// Fingerprints of overflow that a bucket has room for.
const OVERFLOWS: u32 = 4;

on_media! {
    /// The head of a segment.
    pub(crate) struct Head: 8, align 8 {
        /// State, depth and link.
        pub(super) word: PmU64,
    }

    /// A bucket, of the stash or not.
    pub(crate) struct Bucket: 256, align 256 {
        /// The commit word.
        pub(super) commit: PmU64,
        /// Fingerprints of the slots.
        pub(super) fingerprints: [PmU64; 2],
        /// The overflow word.
        pub(super) overflow: PmU64,
        /// Slots.
        pub(super) slots: [Slot; 14],
    }
}

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Normal,
    /// Some of its keys go to the segment that it links to.
    Splitting,
    /// A split fills it.
    New,
}

/// The head's word, taken apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadWord {
    pub(super) state: State,
    pub(super) depth: u32,
    pub(super) link: Option<u64>,
}

impl HeadWord {
    pub(super) fn from_word(word: u64) -> Self {
        let state = match bits(word, 0, 8) {
            1 => State::Splitting,
            2 => State::New,
            _ => State::Normal,
        };
        let (depth, link) = (bits(word, 8, 8) as u32, (word >> 16).checked_sub(1));
        HeadWord { state, depth, link }
    }

    pub(super) fn to_word(self) -> u64 {
        let link = self.link.map_or(0, |number| number + 1);
        self.state as u64 | u64::from(self.depth) << 8 | link << 16
    }
}

/// The fingerprint of a hash.
pub(super) fn fingerprint(h: u64) -> u8 {
    h as u8
}

/// A commit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Commit(pub(super) u64);

impl Commit {
    pub(super) fn live(self) -> u16 {
        bits(self.0, 0, SLOTS) as u16
    }

    /// The live slots whose home is the bucket before.
    pub(super) fn of_before(self) -> u16 {
        bits(self.0, SLOTS, SLOTS) as u16
    }

    /// How many slots are live.
    pub(super) fn count(self) -> u32 {
        bits(self.0, 28, 4) as u32
    }

    #[must_use]
    pub(super) fn with(self, slot: u32, is_of_before: bool) -> Self {
        Commit((self.0 | 1 << slot | u64::from(is_of_before) << (SLOTS + slot)) + (1 << 28))
    }

    #[must_use]
    pub(super) fn without(self, slot: u32) -> Self {
        Commit((self.0 & !(1 << slot | 1 << (SLOTS + slot))) - (1 << 28))
    }
}

/// A word of fingerprints with another one in a place.
pub(super) fn with_fingerprint(word: u64, place: u32, fingerprint: u8) -> u64 {
    word & !(0xff << (8 * place)) | u64::from(fingerprint) << (8 * place)
}

/// An overflow word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overflow(pub(super) u64);

impl Overflow {
    /// Keys in the stash that have no fingerprint anywhere.
    pub(super) fn others(self) -> u64 {
        self.0 >> 48
    }

    /// The same, and one more or less.
    #[must_use]
    pub(super) fn with_others(self, others: u64) -> Self {
        Overflow(self.0 & !(0xffff << 48) | others << 48)
    }

    /// The stash bucket of each fingerprint like this one, of keys whose home is the bucket before or this one, with
    /// its place.
    pub(super) fn places(self, like: u8, is_of_before: bool) -> impl Iterator<Item = (u32, u64)> {
        (0..OVERFLOWS).filter_map(move |i| {
            let is_used = bits(self.0, 32 + i, 1) == 1;
            let is_meant = bits(self.0, 36 + i, 1) == u64::from(is_of_before);
            let is_like = bits(self.0, 8 * i, 8) == u64::from(like);
            (is_used && is_meant && is_like).then(|| (i, bits(self.0, 40 + 2 * i, 2)))
        })
    }

    /// The same word with a fingerprint more, if there is room.
    pub(super) fn with(self, fingerprint: u8, is_of_before: bool, stash: u64) -> Option<Self> {
        let i = (0..OVERFLOWS).find(|i| bits(self.0, 32 + i, 1) == 0)?;
        let word = with_fingerprint(self.0, i, fingerprint) & !(1 << (36 + i) | 3 << (40 + 2 * i));
        let marks = 1 << (32 + i) | u64::from(is_of_before) << (36 + i) | stash << (40 + 2 * i);
        Some(Overflow(word | marks))
    }

    /// The same word without the fingerprint in a place.
    #[must_use]
    pub(super) fn without(self, i: u32) -> Self {
        Overflow(self.0 & !(1 << (32 + i)))
    }
}
