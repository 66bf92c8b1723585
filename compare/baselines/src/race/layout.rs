//! The layout of the nodes' regions, and the bits of a hash that pick a place.
//!
//! ```text
//! node 0   0  magic   8  root {depth, lock}   16  bump   64  directory, 8 bytes a cell
//! others              16  bump
//! cell     {pointer 48, local depth 8, LOCK, MOVING}
//! subtable groups of three buckets:  | main 0 | overflow | main 1 |
//!                                     \-- side 0 --/  \-- and side 1: both share the overflow
//! bucket   header {local depth 8, suffix 56}, then slots
//! slot     {pointer 48, MARK, length 7 in units of 64 bytes, fingerprint 8}; 0: free
//! block    {key bytes 32, value bytes 32}, key, value
//! ```
//!
//! A pointer is {node 8, offset 40 in units of 64 bytes}; offset 0 of node 0 is no object's.

use durahash_media::{ErrorKind, Result};
use durahash_remote::fabric::Addr;

pub(super) const MAGIC: u64 = 0x4543_4152_0000_0001;
pub(super) const MAGIC_AT: Addr = Addr::new(0, 0);
pub(super) const ROOT_AT: Addr = Addr::new(0, 8);
const BUMP_OFF: u64 = 16;
const DATA_OFF: u64 = 64;
/// Pointers and lengths count in these bytes.
pub(super) const UNIT: u64 = 64;
/// The largest block that a slot's length can tell.
const BLOCK_UNITS_MAX: u64 = 127;
const BLOCK_HEADER: usize = 8;
pub(super) const WORD: u64 = 8;
const MARK: u64 = 1 << 48;
const LOCK: u64 = 1 << 56;
const MOVING: u64 = 1 << 57;
const PTR_MASK: u64 = (1 << 48) - 1;

pub(super) fn bump_at(node: u8) -> Addr {
    Addr::new(node, BUMP_OFF)
}

pub(super) fn cell_at(idx: u64) -> Addr {
    Addr::new(0, DATA_OFF + idx * WORD)
}

/// Where blocks and subtables begin on a node.
pub(super) fn data_off(node: u8, max_depth: u32) -> u64 {
    let directory = if node == 0 { WORD << max_depth } else { 0 };
    (DATA_OFF + directory).next_multiple_of(UNIT)
}

/// The low bits of a hash.
pub(super) fn suffix(h: u64, depth: u32) -> u64 {
    h & ((1 << depth) - 1)
}

pub(super) fn word(bytes: &[u8], idx: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[idx * 8..][..8]);
    u64::from_le_bytes(word)
}

/// An address in 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ptr(u64);

impl Ptr {
    pub(super) fn new(addr: Addr) -> Self {
        Ptr((u64::from(addr.node()) << 40) | (addr.off() / UNIT))
    }

    pub(super) fn addr(self) -> Addr {
        Addr::new((self.0 >> 40) as u8, (self.0 & ((1 << 40) - 1)) * UNIT)
    }
}

/// A word of a bucket that names a block, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(pub(super) u64);

impl Slot {
    pub(super) const FREE: Slot = Slot(0);

    pub(super) fn new(fp: u8, block: Ptr, bytes: u64) -> Self {
        Slot(u64::from(fp) << 56 | bytes.div_ceil(UNIT) << 49 | block.0)
    }

    pub(super) fn is_free(self) -> bool {
        self.0 == 0
    }

    pub(super) fn fp(self) -> u8 {
        (self.0 >> 56) as u8
    }

    pub(super) fn block(self) -> (Addr, usize) {
        (Ptr(self.0 & PTR_MASK).addr(), ((self.0 >> 49 & 127) * UNIT) as usize)
    }

    /// Its entry is on the way to another subtable: only the client that marked it changes it.
    pub(super) fn is_marked(self) -> bool {
        self.0 & MARK != 0
    }

    pub(super) fn marked(self) -> Self {
        Slot(self.0 | MARK)
    }

    pub(super) fn unmarked(self) -> Self {
        Slot(self.0 & !MARK)
    }
}

/// The first word of a bucket: which hashes belong there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header(pub(super) u64);

impl Header {
    pub(super) fn new(depth: u32, suffix: u64) -> Self {
        Header(suffix << 8 | u64::from(depth))
    }

    pub(super) fn owns(self, h: u64) -> bool {
        suffix(h, (self.0 & 0xff) as u32) == self.0 >> 8
    }
}

/// A word of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(pub(super) u64);

impl Cell {
    pub(super) fn new(subtable: Ptr, depth: u32) -> Self {
        Cell(u64::from(depth) << 48 | subtable.0)
    }

    pub(super) fn subtable(self) -> Ptr {
        Ptr(self.0 & PTR_MASK)
    }

    pub(super) fn depth(self) -> u32 {
        (self.0 >> 48 & 0xff) as u32
    }

    pub(super) fn locked(self) -> Self {
        Cell(self.0 | LOCK)
    }

    pub(super) fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// Its subtable is new: entries are on their way there yet.
    pub(super) fn moving(self) -> Self {
        Cell(self.0 | LOCK | MOVING)
    }

    pub(super) fn is_moving(self) -> bool {
        self.0 & MOVING != 0
    }
}

/// The depth of the directory, and a lock bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root(pub(super) u64);

impl Root {
    pub(super) fn new(depth: u32) -> Self {
        Root(depth.into())
    }

    pub(super) fn depth(self) -> u32 {
        (self.0 & 0xff) as u32
    }

    pub(super) fn locked(self) -> Self {
        Root(self.0 | 1 << 8)
    }
}

/// Two neighbouring buckets, a main one and the overflow: their offset in a subtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Combined {
    pub(super) off: u64,
    /// The main bucket is the second of the two.
    pub(super) main_last: bool,
}

/// Sizes of a subtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) groups: u32,
    pub(super) slots: u32,
}

impl Geometry {
    pub(super) fn bucket_bytes(self) -> u64 {
        (1 + u64::from(self.slots)) * WORD
    }

    pub(super) fn buckets(self) -> u64 {
        3 * u64::from(self.groups)
    }

    pub(super) fn subtable_bytes(self) -> u64 {
        self.buckets() * self.bucket_bytes()
    }

    pub(super) fn capacity(self) -> u64 {
        self.buckets() * u64::from(self.slots)
    }

    /// The two candidates of a hash, of which `spread` is another; their groups differ.
    pub(super) fn candidates(self, h: u64, spread: u64) -> [Combined; 2] {
        let groups = u64::from(self.groups);
        let below = |bits: u64, n: u64| ((bits & 0xffff_ffff) * n) >> 32;
        let first = below(spread, groups);
        let second = (first + 1 + below(spread >> 32, groups - 1)) % groups;
        let combined = |group: u64, side: u64| Combined {
            off: (group * 3 + side) * self.bucket_bytes(),
            main_last: side == 1,
        };
        [combined(first, h >> 40 & 1), combined(second, h >> 41 & 1)]
    }

    /// The bytes of a subtable without entries.
    pub(super) fn empty(self, header: Header) -> Vec<u8> {
        let mut bytes = vec![0; self.subtable_bytes() as usize];
        for bucket in bytes.chunks_exact_mut(self.bucket_bytes() as usize) {
            bucket[..8].copy_from_slice(&header.0.to_le_bytes());
        }
        bytes
    }

    /// The offsets of all slots of a bucket, given its offset.
    pub(super) fn slot_offs(self, bucket: u64) -> impl Iterator<Item = u64> {
        (1..=u64::from(self.slots)).map(move |i| bucket + i * WORD)
    }
}

/// A block of a key and its value.
pub(super) fn encode(key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
    let bytes = BLOCK_HEADER + key.len() + value.len();
    let limit = BLOCK_UNITS_MAX * UNIT;
    if bytes as u64 > limit {
        let what = "block of a key and its value";
        return Err(ErrorKind::TooLarge { what, bytes: bytes as u64, limit_bytes: limit }.into());
    }
    let mut block = Vec::with_capacity(bytes);
    block.extend_from_slice(&(key.len() as u32).to_le_bytes());
    block.extend_from_slice(&(value.len() as u32).to_le_bytes());
    block.extend_from_slice(key);
    block.extend_from_slice(value);
    Ok(block)
}

/// The key and the value of a block.
pub(super) fn decode(block: &[u8]) -> Result<(&[u8], &[u8])> {
    let lengths = word(block, 0);
    let (key, value) = ((lengths & 0xffff_ffff) as usize, (lengths >> 32) as usize);
    let rest = &block[BLOCK_HEADER..];
    if key + value > rest.len() {
        let what = "a block is longer than its slot says";
        return Err(ErrorKind::Corrupt { what, off: 0 }.into());
    }
    Ok((&rest[..key], &rest[key..][..value]))
}
