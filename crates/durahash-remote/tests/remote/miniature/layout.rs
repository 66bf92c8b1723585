//! The layout of memory, in words, and the bits of a word.
//!
//! ```text
//! 0      reserved, so that no object has address 0
//! 1      the epoch
//! 2      the global depth
//! 4      a row for each client: 0 free, ROW_DEAD, or epoch + ROW_LIVE
//! 12     the sweep: phase 2, half, client 8 from bit 8, turn from bit 16
//! 13     the shelf: address of the first bag, or 0
//! 14     the window of the claim: from, to
//! 16     the end of the chunks that were taken
//! 24     the directory, 8 cells: address of a CurSegment, or 0
//! 32     objects:
//!   KV block     key + 1 | value
//!   MainSegment  length | epoch of the last commit that waited | entries, sorted by fp
//!   CurSegment   word A | suffix | 3 buddies | entries | hints
//!   bag          next | epoch | address and length of an extent
//!
//! word A   address of the MainSegment 24, generation 16, depth 8
//! entry    address of the KV block 24, fp 4, fp2 4 (in a MainSegment), tombstone 1, depth bits 4,
//!          generation 8 from bit 40
//! hint     fp2 4, tombstone 1 (where that rule is off), generation 8 from bit 8
//! ```

use super::rules::{DEPTH_BITS, Key, MAX_DEPTH};

/// An index of a word.
pub(crate) type Addr = usize;

pub(crate) const EPOCH: Addr = 1;
pub(crate) const ROOT: Addr = 2;
pub(crate) const SWEEP: Addr = 12;
pub(crate) const SHELF: Addr = 13;
pub(crate) const LOW: Addr = 14;
pub(crate) const HIGH: Addr = 15;
pub(crate) const BUMP: Addr = 16;
pub(crate) const DIRECTORY: Addr = 24;
pub(crate) const CELLS: usize = 1 << MAX_DEPTH;
pub(crate) const HEAP: usize = DIRECTORY + CELLS;

pub(crate) const ROWS: usize = 8;
pub(crate) const ROW_LIVE: u64 = 1 << 32;
pub(crate) const ROW_DEAD: u64 = 1 << 33;

pub(crate) fn row(client: usize) -> Addr {
    assert!(client < ROWS, "a row for each client");
    4 + client
}

pub(crate) fn row_is_live(row: u64) -> bool {
    row != 0 && row != ROW_DEAD
}

pub(crate) const IDLE: u64 = 0;
pub(crate) const PREPARING: u64 = 1;
pub(crate) const CLAIMED: u64 = 2;

/// The word of the sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) phase: u64,
    /// 0 the lower, 1 the upper.
    pub(crate) half: u64,
    pub(crate) client: usize,
    /// Counts the changes of the word.
    pub(crate) turn: u64,
}

impl Claim {
    pub(crate) fn of(word: u64) -> Self {
        let client = (word >> 8 & 0xff) as usize;
        Self { phase: word & 3, half: word >> 2 & 1, client, turn: word >> 16 }
    }

    pub(crate) fn word(self) -> u64 {
        self.phase | self.half << 2 | (self.client as u64) << 8 | self.turn << 16
    }
}

/// Of a MainSegment.
pub(crate) const MAIN_HEAD: usize = 2;
pub(crate) const MAIN_ENTRIES: usize = 8;
/// Of a CurSegment.
pub(crate) const CUR_HEAD: usize = 2 + MAX_DEPTH as usize;

pub(crate) const fn buddy(cur: Addr, depth: u64) -> Addr {
    cur + 2 + depth as usize
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Block,
    Main,
    Cur,
}

impl Class {
    pub(crate) const fn words(self, entries: usize) -> usize {
        match self {
            Self::Block => 2,
            Self::Main => MAIN_HEAD + MAIN_ENTRIES,
            Self::Cur => CUR_HEAD + 2 * entries,
        }
    }
}

/// Word A of a CurSegment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct A(pub(crate) u64);

impl A {
    pub(crate) fn new(main: Addr, generation: u64, depth: u64) -> Self {
        Self(main as u64 | generation << 24 | depth << 40)
    }

    pub(crate) fn main(self) -> Addr {
        (self.0 & 0xff_ffff) as Addr
    }

    pub(crate) fn generation(self) -> u64 {
        self.0 >> 24 & 0xffff
    }

    pub(crate) fn depth(self) -> u64 {
        self.0 >> 40
    }
}

/// The state of an entry under some word A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Live,
    Free,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    /// The depth bits are those of the round of four splits (here two) that `depth` is in.
    pub(crate) fn new(block: Addr, key: Key, tombstone: bool, depth: u64, generation: u64) -> Self {
        Self(block as u64 | key.fp << 24 | u64::from(tombstone) << 32 | generation << 40)
            .with_depth_bits(key, depth)
    }

    pub(crate) fn with_depth_bits(self, key: Key, depth: u64) -> Self {
        let round = depth / DEPTH_BITS * DEPTH_BITS;
        let bits = key.hash >> round & ((1 << DEPTH_BITS) - 1);
        Self(self.0 & !(0xf << 33) | bits << 33)
    }

    pub(crate) fn with_fp2(self, fp2: u64) -> Self {
        Self(self.0 & !(0xf << 28) | fp2 << 28)
    }

    pub(crate) fn block(self) -> Addr {
        (self.0 & 0xff_ffff) as Addr
    }

    pub(crate) fn fp(self) -> u64 {
        self.0 >> 24 & 0xf
    }

    pub(crate) fn fp2(self) -> u64 {
        self.0 >> 28 & 0xf
    }

    pub(crate) fn tombstone(self) -> bool {
        self.0 >> 32 & 1 == 1
    }

    /// The bit that a split at `depth` divides by.
    pub(crate) fn depth_bit(self, depth: u64) -> bool {
        self.0 >> (33 + depth % DEPTH_BITS) & 1 == 1
    }

    pub(crate) fn state(self, a: A, wrap: u64) -> State {
        let generation = self.0 >> 40 & 0xff;
        match (a.generation() + wrap - generation) % wrap {
            0 => State::Live,
            1 => State::Free,
            _ => State::Other,
        }
    }
}

/// The hint, written unsignaled after an entry's swap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint(pub(crate) u64);

impl Hint {
    pub(crate) fn new(fp2: u64, tombstone: bool, generation: u64) -> Self {
        Self(fp2 | u64::from(tombstone) << 4 | generation << 8)
    }

    pub(crate) fn is_of(self, generation: u64) -> bool {
        self.0 >> 8 == generation
    }

    pub(crate) fn fp2(self) -> u64 {
        self.0 & 0xf
    }

    pub(crate) fn tombstone(self) -> bool {
        self.0 >> 4 & 1 == 1
    }
}
