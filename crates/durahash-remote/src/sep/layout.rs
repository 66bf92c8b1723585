//! The layout of the nodes' regions: bit fields, offsets and bytes. No function here posts a verb.
//!
//! ```text
//! node 0                                      every other node
//! 0     header: magic, version, geometry,     0     header
//!       seed, id                              64    bump word, window
//! 64    bump word: first byte never carved    512   chunks
//! 72    window of a sweep: its first byte
//! 80    and the first one behind it
//! 128   global depth
//! 192   global epoch
//! 256   sweep: phase, row, incarnation, turn, part
//! 264   shelf: the first bag
//! 272   bytes leaked since the index was made
//! 280   those when the last sweep began
//! 288   bytes in use then
//! 512   client table: one word per row
//! ...   directory: 2^max_depth cells
//! ...   chunks
//! ```
//!
//! A **CurSegment** of `n` entries:
//!
//! ```text
//! 0     word A: MainSegment 42, generation 16, local depth 6
//! 8     suffix of its hashes, and the depth it was made with
//! 16    buddy of each level 0..max_depth, 8 bytes each
//! ...   n entries of 8 bytes, from the next multiple of 64 on
//! ...   n hints of 2 bytes: generation, fp2
//! ```
//!
//! A **MainSegment** of `m` entries: `m`, the mark, 256 counts of 2 bytes (of 4 if `m` does
//! not fit 2), then `m` entries of 9 bytes (entry, fp2), by fp. A **KV block**: key length 4, value
//! length 4, checksum 8, key, value.

use durahash_media::hash::ByteHash;
use durahash_media::{Error, ErrorKind, Result};

use crate::fabric::Addr;
use crate::planted::{Fault, generation_bits, planted};

/// The unit of addresses in entries.
pub(super) const UNIT: u64 = 64;
/// Bytes of the first read of a KV block whose entry does not tell its length.
pub(super) const FIRST_READ: usize = 7 * UNIT as usize;
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"DURASEP\0");
/// 3: the shelf and the words of sweeps.
pub(super) const VERSION: u64 = 3;
pub(super) const BUMP_OFF: u64 = 64;
/// Two words: the window of a sweep.
pub(super) const WINDOW_OFF: u64 = 72;
pub(super) const ROOT: Addr = Addr::new(0, 128);
pub(super) const EPOCH: Addr = Addr::new(0, 192);
/// Words of sweeps, and of the shelf.
pub(super) const SWEEP: Addr = Addr::new(0, 256);
pub(super) const SHELF: Addr = Addr::new(0, 264);
pub(super) const LEAKED: Addr = Addr::new(0, 272);
pub(super) const SWEPT: Addr = Addr::new(0, 280);
const TABLE_OFF: u64 = 512;
pub(super) const HEADER_BYTES: usize = 56;
pub(super) const FPS: usize = 256;
/// Bytes of the first read of a MainSegment's header: all of it, unless counts are wide.
pub(super) const MAIN_FIRST_READ: usize = 16 + 2 * FPS;
/// More entries are damage. A MainSegment of so many is still read at once.
pub(super) const MAIN_ENTRIES_MAX: u64 = 1 << 28;
pub(super) const ITEM_BYTES: usize = 9;
pub(super) const KV_HEADER: usize = 16;
/// The most bytes of a key, and of a value.
pub const LIMIT_BYTES: usize = 1 << 20;
const REF_BITS: u32 = 42;
const NODE_SHIFT: u32 = 34;

pub(super) const fn field(word: u64, at: u32, bits: u32) -> u64 {
    word >> at & ((1 << bits) - 1)
}

/// An address as it stands in entries: 8 bits of node, 34 bits of units. 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash, Default)]
pub(super) struct Ref(u64);

impl Ref {
    pub(super) const NONE: Ref = Ref(0);

    pub(super) fn new(addr: Addr) -> Self {
        debug_assert!(addr.off().is_multiple_of(UNIT) && addr.off() / UNIT < 1 << NODE_SHIFT);
        Ref((u64::from(addr.node()) << NODE_SHIFT) | (addr.off() / UNIT))
    }

    pub(super) fn addr(self) -> Addr {
        Addr::new((self.0 >> NODE_SHIFT) as u8, field(self.0, 0, NODE_SHIFT) * UNIT)
    }

    pub(super) fn word(self) -> u64 {
        self.0
    }

    pub(super) fn from_word(word: u64) -> Self {
        Ref(field(word, 0, REF_BITS))
    }

    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// The length of the KV block as its entry has it: 1 to 6 units, or 7 if the header of the block has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Len(pub(super) u8);

impl Len {
    /// The key was removed; the block holds the key.
    pub(super) const TOMBSTONE: Len = Len(0);

    pub(super) fn of_block(bytes: usize) -> Self {
        Len(bytes.div_ceil(UNIT as usize).min(7) as u8)
    }

    /// Bytes that the first read of the block covers.
    pub(super) fn first_read(self) -> usize {
        if self == Len::TOMBSTONE { FIRST_READ } else { usize::from(self.0) * UNIT as usize }
    }
}

/// Fields of a word: type, first bit, number of bits.
macro_rules! fields {
    ($word:ident: $($name:ident $type:ty [$at:expr, $bits:expr])*) => {
        impl $word {
            $(pub(super) fn $name(self) -> $type { field(self.0, $at, $bits) as $type })*
        }
    };
}

fields!(Entry: fp u8 [42, 8] dep u8 [60, 4]);
fields!(WordA: generation u16 [42, 16] depth u32 [58, 6]);
fields!(Row: beat u16 [2, 10] epoch u64 [12, EPOCH_BITS] incarnation u16 [54, 10]);

/// An entry: address 42, fp 8, length 3, generation 7, depth information 4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(super) struct Entry(pub(super) u64);

/// The state of an entry in a generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Live,
    Free,
    /// Neither: the word A that named the generation was stale.
    Other,
}

impl Entry {
    pub(super) fn new(kv: Ref, fp: u8, len: Len, generation: u16, dep: u8) -> Self {
        debug_assert!(dep < 16);
        Entry(
            kv.0 | u64::from(fp) << 42
                | u64::from(len.0) << 50
                | u64::from(generation & generation_bits()) << 53
                | u64::from(dep) << 60,
        )
    }

    pub(super) fn kv(self) -> Ref {
        Ref::from_word(self.0)
    }

    pub(super) fn len(self) -> Len {
        Len(field(self.0, 50, 3) as u8)
    }

    pub(super) fn is_tombstone(self) -> bool {
        self.len() == Len::TOMBSTONE
    }

    /// The entry as a MainSegment has it: no generation, and depth information `dep`.
    pub(super) fn settled(self, dep: u8) -> Self {
        Entry::new(self.kv(), self.fp(), self.len(), 0, dep)
    }

    /// Its state in `generation`: live with the bits of that, free with those of the one before.
    pub(super) fn state(self, generation: u16) -> State {
        let bits = field(self.0, 53, 7);
        if self.0 != 0 && bits == u64::from(generation & generation_bits()) {
            State::Live
        } else if bits == u64::from(generation.wrapping_sub(1) & generation_bits()) {
            State::Free
        } else {
            State::Other
        }
    }
}

/// Word A of a CurSegment: which MainSegment, generation, local depth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WordA(pub(super) u64);

impl WordA {
    pub(super) fn new(main: Ref, generation: u16, depth: u32) -> Self {
        debug_assert!(depth < 64);
        WordA(main.0 | u64::from(generation) << 42 | u64::from(depth) << 58)
    }

    pub(super) fn main(self) -> Ref {
        Ref::from_word(self.0)
    }

    /// Returns whether contents that were cached under one word are valid under the other.
    pub(super) fn is(self, other: WordA) -> bool {
        self == other || planted(Fault::KnownByAddress) && self.main() == other.main()
    }

    /// The word that commits a merge into `main`.
    pub(super) fn merged(self, main: Ref) -> Self {
        WordA::new(main, self.generation().wrapping_add(1), self.depth())
    }

    /// The word that commits a split whose lower half is `main`.
    pub(super) fn split(self, main: Ref) -> Self {
        WordA::new(main, self.generation().wrapping_add(1), self.depth() + 1)
    }
}

/// A cell of the directory: CurSegment 42, local depth 6.
pub(super) fn cell(cur: Ref, depth: u32) -> u64 {
    cur.0 | u64::from(depth) << 42
}

/// The suffix word of a CurSegment: suffix, and the depth with which it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Suffix {
    pub(super) bits: u64,
    pub(super) made: u32,
}

impl Suffix {
    pub(super) fn word(self) -> u64 {
        self.bits | u64::from(self.made) << 58
    }

    pub(super) fn from_word(word: u64) -> Self {
        Suffix { bits: field(word, 0, 58), made: field(word, 58, 6) as u32 }
    }
}

/// The low `depth` bits of a hash.
pub(super) fn suffix(hash: u64, depth: u32) -> u64 {
    hash & ((1 << depth) - 1)
}

pub(super) fn fp(hash: u64) -> u8 {
    (hash >> 56) as u8
}

pub(super) fn fp2(hash: u64) -> u8 {
    (hash >> 48) as u8
}

/// The four bits of a hash by which splits at `depth` and the rest of its round divide.
pub(super) fn dep(hash: u64, depth: u32) -> u8 {
    field(hash, depth / 4 * 4, 4) as u8
}

/// Sizes of an index; part of its headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Geometry {
    /// Entries of a CurSegment.
    pub(super) cur: u32,
    /// Entries of a MainSegment beyond which it splits.
    pub(super) limit: u32,
    pub(super) max_depth: u32,
    pub(super) rows: u32,
    pub(super) nodes: u8,
}

impl Geometry {
    pub(super) fn entries_off(&self) -> u64 {
        (16 + 8 * u64::from(self.max_depth)).next_multiple_of(UNIT)
    }

    pub(super) fn entry_off(&self, idx: u32) -> u64 {
        self.entries_off() + 8 * u64::from(idx)
    }

    pub(super) fn hint_off(&self, idx: u32) -> u64 {
        self.entry_off(self.cur) + 2 * u64::from(idx)
    }

    pub(super) fn buddy_off(&self, level: u32) -> u64 {
        16 + 8 * u64::from(level)
    }

    pub(super) fn cur_bytes(&self) -> usize {
        self.hint_off(self.cur) as usize
    }

    pub(super) fn row(&self, row: u32) -> Addr {
        Addr::new(0, TABLE_OFF + 8 * u64::from(row))
    }

    pub(super) fn directory(&self, idx: u64) -> Addr {
        Addr::new(0, self.directory_off() + 8 * idx)
    }

    fn directory_off(&self) -> u64 {
        (TABLE_OFF + 8 * u64::from(self.rows)).next_multiple_of(UNIT)
    }

    /// The offset of the first chunk on `node`.
    pub(super) fn first_chunk(&self, node: u8) -> u64 {
        if node == 0 { self.directory_off() + (8 << self.max_depth) } else { TABLE_OFF }
            .next_multiple_of(UNIT)
    }

    /// Returns whether a segment with this word A and `main` entries in its MainSegment splits when its CurSegment is
    /// full. It depends only on the MainSegment that word A names, so all mergers decide alike.
    pub(super) fn splits(&self, a: WordA, main: u32) -> bool {
        u64::from(main) + u64::from(self.cur) > self.limit.into() && a.depth() < self.max_depth
    }

    pub(super) fn check(&self) -> Result<()> {
        let refuse = |what| Err(ErrorKind::Options { what }.into());
        if !(2..=4096).contains(&self.cur) {
            return refuse("a CurSegment has 2 to 4,096 entries");
        }
        if self.limit < self.cur || self.limit > 1 << 20 {
            return refuse("a MainSegment holds a CurSegment, and at most 2^20 entries");
        }
        // The hash has 48 bits below its fingerprints, and the last split looks at four more.
        if !(1..=40).contains(&self.max_depth) {
            return refuse("the maximum depth is 1 to 40");
        }
        if !(1..=4096).contains(&self.rows) {
            return refuse("the client table has 1 to 4,096 rows");
        }
        Ok(())
    }
}

/// The header of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) geometry: Geometry,
    pub(super) node: u8,
    pub(super) seed: u64,
    pub(super) id: u64,
}

impl Header {
    /// All but the magic, which is stored last.
    pub(super) fn words(&self) -> [u64; 6] {
        let Geometry { cur, limit, max_depth, rows, nodes } = self.geometry;
        [
            VERSION | u64::from(nodes) << 32 | u64::from(self.node) << 40,
            u64::from(cur) | u64::from(limit) << 32,
            u64::from(max_depth) | u64::from(rows) << 32,
            self.seed,
            self.id,
            0,
        ]
    }

    /// Parses a header.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let word = |i: usize| word_at(bytes, 8 * i);
        if word(0) != MAGIC {
            return Err(ErrorKind::NotAPool { why: "the region holds no index" }.into());
        }
        let found = word(1) & u64::from(u32::MAX);
        if found != VERSION {
            return Err(ErrorKind::Version { found, expected: VERSION }.into());
        }
        let geometry = Geometry {
            cur: word(2) as u32,
            limit: (word(2) >> 32) as u32,
            max_depth: word(3) as u32,
            rows: (word(3) >> 32) as u32,
            nodes: (word(1) >> 32) as u8,
        };
        if geometry.check().is_err() {
            return Err(Error::corrupt("the geometry of the index", 16));
        }
        Ok(Header { geometry, node: (word(1) >> 40) as u8, seed: word(4), id: word(5) })
    }
}

/// Bits of an epoch in a row: at a tick of a millisecond they last for 139 years.
const EPOCH_BITS: u32 = 42;

/// The global epoch in a node's word; one that is too large to have been reached is damage.
pub(super) fn epoch_of(word: u64) -> Result<u64> {
    if word >= (1 << EPOCH_BITS) - 16 {
        return Err(Error::corrupt("the epoch", EPOCH.off()));
    }
    Ok(word)
}

/// A row of the client table: state 2, beat 10, epoch 42, incarnation 10.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row(pub(super) u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowState {
    /// Free: never used, or of a client that has left, or rests.
    Free,
    Live,
    /// Evicted; it stays so until a new client takes the row.
    Dead,
}

impl Row {
    pub(super) fn new(state: RowState, beat: u16, epoch: u64, incarnation: u16) -> Self {
        debug_assert!(epoch >> EPOCH_BITS == 0);
        Row(state as u64
            | u64::from(beat & 0x3ff) << 2
            | epoch << 12
            | u64::from(incarnation & 0x3ff) << 54)
    }

    pub(super) fn state(self) -> RowState {
        match field(self.0, 0, 2) {
            0 => RowState::Free,
            1 => RowState::Live,
            _ => RowState::Dead,
        }
    }

    /// Returns whether the client that had `row` made this of it by a swap.
    pub(super) fn is_of(self, row: Row) -> bool {
        self.state() == RowState::Live && self.incarnation() == row.incarnation()
    }

    pub(super) fn with_state(self, state: RowState) -> Self {
        Row::new(state, self.beat(), self.epoch(), self.incarnation())
    }
}

/// Bytes of a node that an address can name, whole units.
pub(super) fn usable_bytes<F: crate::fabric::Fabric>(fabric: &F, node: u8) -> u64 {
    (fabric.node_bytes(node) / UNIT * UNIT).min(UNIT << NODE_SHIFT)
}

/// The word at a byte offset.
pub(super) fn word_at(bytes: &[u8], off: usize) -> u64 {
    u64::from_le_bytes(*bytes[off..].first_chunk().expect("eight bytes"))
}

fn half_at(bytes: &[u8], off: usize) -> u32 {
    u32::from_le_bytes(*bytes[off..].first_chunk().expect("four bytes"))
}

/// All words of `bytes`.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| word_at(word, 0))
}

/// An entry of a MainSegment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Item {
    pub(super) entry: Entry,
    pub(super) fp2: u8,
}

/// The header of a MainSegment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MainHeader {
    pub(super) len: u32,
    /// The epoch that the last generation divisible by 32 was committed in, or a later one; 0 if
    /// there was none.
    pub(super) mark: u64,
    pub(super) counts: Vec<u32>,
}

impl MainHeader {
    /// Bytes of the header that begins with `first`.
    pub(super) fn bytes(first: &[u8]) -> usize {
        main_header_bytes(word_at(first, 0) as usize)
    }

    pub(super) fn parse(bytes: &[u8], off: u64) -> Result<Self> {
        let corrupt = || Err(Error::corrupt("the counts of a MainSegment", off));
        let len = word_at(bytes, 0);
        // The read was for a shorter header, if this is damaged.
        let Some(words) = bytes.get(16..Self::bytes(bytes)) else { return corrupt() };
        let counts: Vec<u32> = words.chunks_exact(words.len() / FPS).map(count_of).collect();
        if counts.iter().map(|&count| u64::from(count)).sum::<u64>() != len
            || len > MAIN_ENTRIES_MAX
        {
            return corrupt();
        }
        Ok(MainHeader { len: len as u32, mark: epoch_of(word_at(bytes, 8))?, counts })
    }
}

/// Bytes of one count: 2, or 4 with so many entries that a count might not fit.
fn count_bytes(len: usize) -> usize {
    if len <= u16::MAX.into() { 2 } else { 4 }
}

fn count_of(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |count, &byte| count << 8 | u32::from(byte))
}

/// Bytes before the entries of a MainSegment that has `len`.
pub(super) fn main_header_bytes(len: usize) -> usize {
    16 + count_bytes(len) * FPS
}

pub(super) fn main_bytes(len: usize) -> usize {
    main_header_bytes(len) + ITEM_BYTES * len
}

/// The number of entries of each fp.
pub(super) fn counts_of(items: &[Item]) -> [u32; FPS] {
    let mut counts = [0; FPS];
    items.iter().for_each(|item| counts[usize::from(item.entry.fp())] += 1);
    counts
}

/// The bytes of a MainSegment; `items` are sorted by fp.
pub(super) fn main_segment(items: &[Item], mark: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(main_bytes(items.len()));
    bytes.extend_from_slice(&(items.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&mark.to_le_bytes());
    for count in counts_of(items) {
        bytes.extend_from_slice(&count.to_le_bytes()[..count_bytes(items.len())]);
    }
    let head = bytes.len();
    bytes.resize(main_bytes(items.len()), 0);
    for (bytes, item) in bytes[head..].chunks_exact_mut(ITEM_BYTES).zip(items) {
        bytes[..8].copy_from_slice(&item.entry.0.to_le_bytes());
        bytes[8] = item.fp2;
    }
    bytes
}

/// The entries in bytes of a MainSegment that begin at one.
pub(super) fn items(bytes: &[u8]) -> impl Iterator<Item = Item> {
    bytes.chunks_exact(ITEM_BYTES).map(|item| Item { entry: Entry(word_at(item, 0)), fp2: item[8] })
}

/// The bytes of a new CurSegment: generation 1, nothing in it.
pub(super) fn cur_segment(geometry: &Geometry, a: WordA, suffix: Suffix) -> Vec<u8> {
    let mut bytes = vec![0; geometry.cur_bytes()];
    bytes[..8].copy_from_slice(&a.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&suffix.word().to_le_bytes());
    bytes
}

/// Bytes of a KV block.
pub(super) fn kv_bytes(key: usize, value: usize) -> usize {
    KV_HEADER + key + value
}

fn kv_sum(hash: &ByteHash, body: &[u8], lens: u64) -> u64 {
    hash.hash(body) ^ lens.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The bytes of a KV block.
pub(super) fn kv_block(hash: &ByteHash, key: &[u8], value: &[u8]) -> Vec<u8> {
    let lens = key.len() as u64 | (value.len() as u64) << 32;
    let mut bytes = Vec::with_capacity(kv_bytes(key.len(), value.len()));
    bytes.resize(KV_HEADER, 0);
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    let sum = kv_sum(hash, &bytes[KV_HEADER..], lens);
    bytes[..8].copy_from_slice(&lens.to_le_bytes());
    bytes[8..16].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// A KV block, or its beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kv<'a> {
    pub(super) key_len: usize,
    pub(super) value_len: usize,
    bytes: &'a [u8],
}

impl<'a> Kv<'a> {
    pub(super) fn parse(bytes: &'a [u8], off: u64) -> Result<Self> {
        if bytes.len() < KV_HEADER {
            return Err(Error::corrupt("the address of a KV block", off));
        }
        let (key_len, value_len) = (half_at(bytes, 0) as usize, half_at(bytes, 4) as usize);
        if key_len > LIMIT_BYTES || value_len > LIMIT_BYTES {
            return Err(Error::corrupt("the lengths of a KV block", off));
        }
        Ok(Kv { key_len, value_len, bytes })
    }

    /// Bytes of the whole block.
    pub(super) fn block_bytes(&self) -> usize {
        kv_bytes(self.key_len, self.value_len)
    }

    /// The key, if all of it was read.
    pub(super) fn key(&self) -> Option<&'a [u8]> {
        self.bytes.get(KV_HEADER..KV_HEADER + self.key_len)
    }

    /// Returns whether the part of the block that was read may be of this key.
    pub(super) fn may_be(&self, key: &[u8]) -> bool {
        let read = &self.bytes[KV_HEADER..self.bytes.len().min(KV_HEADER + self.key_len)];
        self.key_len == key.len() && key.starts_with(read)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.bytes.len() >= self.block_bytes()
    }

    /// The value of a block that was read whole.
    pub(super) fn value(&self, hash: &ByteHash, off: u64) -> Result<&'a [u8]> {
        let body = &self.bytes[KV_HEADER..self.block_bytes()];
        if kv_sum(hash, body, word_at(self.bytes, 0)) != word_at(self.bytes, 8) {
            return Err(Error::corrupt("the checksum of a KV block", off));
        }
        Ok(&body[self.key_len..])
    }
}

#[cfg(test)]
mod tests;
