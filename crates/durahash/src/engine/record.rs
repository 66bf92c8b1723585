//! Byte-string records in the pool.
//!
//! ```text
//! byte  0  lengths   key (bits 0-31), value (bits 32-63)
//!       8  checksum  over the key's hash, lengths, next and value; seeded
//!      16  next      name of the record of another key with the same hash; 0 is none
//!      24  key, then value, without a gap; the last word padded with zeros
//! ```
//!
//! A record is written and fenced before anything names it, and never changes afterwards. Its name
//! is a word, the payload of a slot or the `next` of another record:
//!
//! ```text
//! name  bits 0-47   offset of the record
//!       bits 48-62  the lowest bits of its checksum
//!       bit  63     it has a `next`
//! ```
//!
//! A checksum alone vouches for a record, not for the name that led to it: blocks that were freed
//! keep their records, and one of them may be of the same key. With a part of the checksum in the
//! name, a name that was damaged does not pass an old value off as the present one. Looking costs
//! nothing: the header is read for its lengths.

use std::path::Path;

use durahash_media::hash::{ByteHash, WordMix};
use durahash_media::{
    Blank, COPIED_WORDS, CopiedAs, CopiedWords, Durability, Error, ErrorKind, Format, Gate,
    LINE_BYTES, LogStats, Medium, PmU64, Pool, PoolStats, Result, SyncMode, on_media,
};

use super::cell::{Cell, is_cell};
use super::data::Type;

on_media! {
    /// The header of a record.
    pub struct RecordHeader: 24, align 8 {
        /// Bytes of the key (bits 0-31) and of the value (bits 32-63).
        pub lengths: PmU64,
        /// Checksum of everything else.
        pub checksum: PmU64,
        /// Name of the next record of the chain; 0 is none.
        pub next: PmU64,
    }
}

pub(crate) const HEADER_BYTES: u64 = size_of::<RecordHeader>() as u64;

/// The largest key, in bytes.
pub const MAX_KEY_BYTES: usize = 1 << 20;
/// The largest value, in bytes: 1 GiB.
///
/// ```
/// use durahash::{ErrorKind, MAX_KEY_BYTES, Options};
/// let map = Options::new().in_memory::<durahash::Map<[u8], u64>>()?;
/// let refused = map.put(&vec![0; MAX_KEY_BYTES + 1], &1).unwrap_err();
/// assert!(matches!(refused.kind(), ErrorKind::TooLarge { .. }));
/// # Ok::<(), durahash::Error>(())
/// ```
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// How much of a record is fetched before its lengths are known: most records are not longer, and
/// of those that are the processor fetches the rest by itself.
pub(crate) const PREFETCH_BYTES: u64 = 256;

/// The flag of a name whose record has a `next`.
const CHAINED: u64 = 1 << 63;
const OFFSET_BITS: u32 = 48;
const OFFSET: u64 = (1 << OFFSET_BITS) - 1;

/// The name of the record at `off` that has this checksum and `next`.
fn name(off: u64, checksum: u64, next: u64) -> u64 {
    let chained = if next == 0 { 0 } else { CHAINED };
    off | checksum << OFFSET_BITS & !CHAINED | chained
}

/// True if a name is that of a record with this checksum and no next one, as far as it says.
pub(crate) fn has_checksum(named: u64, checksum: u64) -> bool {
    name(offset(named), checksum, 0) == named
}

/// The offset in a name, of a record or of a cell.
pub(crate) fn offset(name: u64) -> u64 {
    name & OFFSET & !7
}

/// True if a name says that its record has a next one.
pub(crate) fn is_chained(name: u64) -> bool {
    name & CHAINED != 0
}

/// A header as it was loaded, its lengths within the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) lengths: u64,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) checksum: u64,
    pub(crate) next: u64,
}

/// A short value, copied out of its record; or a cell.
pub(crate) struct Short {
    words: CopiedWords,
    /// Where the value begins, and its bytes.
    begin: usize,
    bytes: usize,
    /// Bytes of a value, at most.
    limit: usize,
}

impl Short {
    /// Bytes of the longest that is copied.
    pub(crate) const LONGEST: usize = 8 * COPIED_WORDS;

    /// Bytes of the longest that is copied of this type.
    pub(crate) const fn limit(ty: Type) -> usize {
        match ty.fixed_bytes() {
            Some(bytes) => bytes,
            None => Self::LONGEST,
        }
    }

    /// Room for one of at most so many bytes.
    #[inline(always)]
    pub(crate) fn new(limit: usize) -> Self {
        Short { words: CopiedWords::new(), begin: 0, bytes: 0, limit }
    }

    /// How many words are copied of a value that begins at this byte of the first.
    #[inline(always)]
    fn copied_words(&self, begin: usize) -> usize {
        (begin + self.limit).div_ceil(8).min(COPIED_WORDS)
    }

    #[inline(always)]
    pub(crate) fn value(&self) -> &[u8] {
        &self.words.bytes()[self.begin..][..self.bytes]
    }
}

impl Short {
    /// Copies the cell of this name; false if it is not a cell's.
    #[inline(always)]
    pub(crate) fn copy_cell<M: Medium>(&mut self, pool: &Pool<M>, cell: Cell, name: u64) -> bool {
        let Ok(words) = pool.words(offset(name), cell.bytes() / 8) else { return false };
        pool.medium().copy_words(words, &mut self.words);
        (self.begin, self.bytes) = (cell.key_bytes() - cell.skip(), cell.value_bytes());
        is_cell(name) && !is_chained(name)
    }

    /// True if the cell that was copied is of this key.
    #[inline(always)]
    pub(crate) fn is_of(&self, cell: Cell, key: &[u8]) -> bool {
        self.words.bytes().starts_with(&key[cell.skip()..])
    }

    /// True if the cell that was copied, and has this name, is intact.
    #[inline(always)]
    pub(crate) fn is_intact(
        &self,
        cell: Cell,
        name: u64,
        hashes: &Hashes,
        key_hash: KeyHash,
    ) -> bool {
        let Some(bytes) = self.words.bytes().get(..cell.bytes() as usize) else { return false };
        let value = &bytes[cell.key_bytes() - cell.skip()..][..cell.value_bytes()];
        let last = bytes.last_chunk().map_or(0, |last| u64::from_le_bytes(*last));
        cell.kept_by(name, last) == cell.kept(hashes.cell_checksum(key_hash, value))
    }
}

/// The seeded hashes of a pool of byte keys.
#[derive(Clone, Debug)]
pub(crate) struct Hashes {
    bytes: ByteHash,
    mix: WordMix,
    /// The bits of a hash that are used: all, but for tests of chains.
    used: u64,
    /// The hash is a bijection of the key's first word, as cells need it.
    of_first: bool,
}

/// The hash of a key, and where there are cells its first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyHash {
    hash: u64,
    first: u64,
}

impl Hashes {
    pub(crate) fn new(seed: u64, hash_bits: u8, cells: bool) -> Self {
        let used = match hash_bits {
            0 | 64.. => u64::MAX,
            bits => !(u64::MAX >> bits),
        };
        Hashes { bytes: ByteHash::new(seed), mix: WordMix::new(seed), used, of_first: cells }
    }

    /// The whole hash of a key.
    #[inline]
    pub(crate) fn key(&self, key: &[u8]) -> KeyHash {
        if !self.of_first {
            return KeyHash { hash: self.bytes.hash(key), first: 0 };
        }
        let (first, rest) = match key.split_first_chunk() {
            Some((first, rest)) => (u64::from_le_bytes(*first), rest),
            None => (Type::word(key), &key[key.len()..]),
        };
        KeyHash { hash: self.mix.mix(first ^ self.rest(rest)), first }
    }

    fn rest(&self, rest: &[u8]) -> u64 {
        if rest.is_empty() { 0 } else { self.bytes.hash(rest) }
    }

    /// The first word of the key whose rest is this, and whose whole hash is `hash`.
    pub(crate) fn first(&self, hash: u64, rest: &[u8]) -> u64 {
        self.mix.unmix(hash) ^ self.rest(rest)
    }

    /// The hash that an index gets of a key whose hash is `key_hash`.
    pub(crate) fn h(&self, key_hash: KeyHash) -> u64 {
        key_hash.hash & self.used
    }

    /// The checksum of a cell: of its value, of the hash, which its slot has, and of the first word, which is made of
    /// that and of the rest of the key.
    #[inline]
    pub(crate) fn cell_checksum(&self, key_hash: KeyHash, value: &[u8]) -> u64 {
        self.mix.mix(self.mix.mix(self.bytes.hash(value) ^ key_hash.hash) ^ key_hash.first)
    }

    /// The checksum of a record. Each step is a bijection of the part that it adds, so that no change of one
    /// of them goes unseen.
    pub(crate) fn checksum(&self, key_hash: KeyHash, lengths: u64, next: u64, value: &[u8]) -> u64 {
        let sum = self.mix.mix(self.bytes.hash(value) ^ lengths);
        self.mix.mix(self.mix.mix(sum ^ key_hash.hash) ^ next)
    }
}

pub(crate) fn lengths(key_bytes: usize, value_bytes: usize) -> u64 {
    key_bytes as u64 | (value_bytes as u64) << 32
}

/// The content of a record that is to be written.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) key_hash: KeyHash,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) next: u64,
}

impl Draft<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        HEADER_BYTES + (self.key.len() + self.value.len()) as u64
    }
}

/// Figures about a pool and its medium.
#[derive(Clone, Debug)]
pub(crate) struct PoolFacts {
    pub(crate) space: PoolStats,
    pub(crate) durability: Durability,
    pub(crate) epoch: u32,
    pub(crate) recovered: bool,
    pub(crate) suspect: bool,
    pub(crate) log: Option<LogStats>,
}

/// A pool, its medium forgotten: the code above the designs is compiled once for all media.
pub(crate) trait Store: Send + Sync {
    /// As [`Pool::format`].
    fn format(&self) -> &Format;
    /// As [`Pool::max_bytes`].
    fn max_bytes(&self) -> u64;
    /// As [`Pool::writable`].
    fn writable(&self) -> Result<()>;
    /// As [`Pool::alloc_block`], where nothing may grow while a sweep goes on.
    fn alloc(&self, bytes: u64) -> Result<Option<u64>>;
    /// The same of a cell.
    fn alloc_cell(&self, bytes: u64) -> Result<Option<u64>>;
    /// As [`Pool::free_block`].
    fn free(&self, off: u64) -> Result<()>;
    /// As [`Pool::mark_block`].
    fn mark(&self, off: u64) -> Result<bool>;
    /// As [`Pool::keep_extent`].
    fn keep_extent(&self, off: u64);
    /// As [`Pool::sweep_goes_on`].
    fn sweep_goes_on(&self) -> bool;
    /// As [`Pool::give_up_sweep`].
    fn give_up_sweep(&self);
    /// As [`Pool::finish_sweep`].
    fn finish_sweep(&self) -> Result<()>;
    /// As [`Pool::give_back_blocks`].
    fn give_back_blocks(&self) -> Result<()>;
    /// Writes a record into the block at `off`, which nothing names yet, and fences it; its name.
    fn write(&self, off: u64, hashes: &Hashes, draft: &Draft<'_>) -> Result<u64>;
    /// The same of a cell of these bytes.
    fn write_cell(&self, off: u64, bytes: &[u8]) -> Result<()>;
    /// Starts to fetch these bytes.
    fn prefetch(&self, off: u64, bytes: u64);
    /// Loads the header of the record that has this name, checks its lengths against the block, and
    /// that it is the one that is meant. The bytes behind the header are on their way then.
    fn header(&self, name: u64) -> Result<Header>;
    /// As [`Pool::block_bytes`].
    fn block_bytes(&self, off: u64) -> Result<u64>;
    /// Loads the last word of the cell of so many bytes that lies at `off`; the rest is on its way then. If it is a
    /// cell, its checksum alone says: the table of extents is not read.
    fn cell_end(&self, off: u64, bytes: u64) -> Result<u64>;
    /// True if these bytes stand at `off`.
    fn starts_with(&self, off: u64, bytes: &[u8]) -> Result<bool>;
    /// Copies `out.len()` bytes from byte `skip` behind `off` on.
    fn copy(&self, off: u64, skip: usize, out: &mut [u8]) -> Result<()>;
    /// One round of waiting for another thread, which simulation sees.
    fn wait(&self);
    /// As [`Pool::saved`].
    fn saved(&self, map: u8, i: usize) -> Option<u64>;
    /// As [`Pool::save`].
    fn save(&self, map: u8, i: usize, v: u64);
    /// As [`Pool::maps`].
    fn maps(&self) -> Vec<(u8, String, Format)>;
    /// As [`Pool::begin_map`].
    fn begin_map(&self, name: &str, format: &Format) -> Result<u8>;
    /// As [`Pool::publish_map`].
    fn publish_map(&self, map: u8) -> Result<()>;
    /// As [`Pool::rename_map`].
    fn rename_map(&self, map: u8, name: &str) -> Result<()>;
    /// As [`Pool::begin_removal`].
    fn begin_removal(&self, map: u8) -> Result<()>;
    /// As [`Pool::finish_removal`].
    fn finish_removal(&self, map: u8) -> Result<()>;
    /// As [`Pool::gate`].
    fn gate(&self) -> &Gate;
    /// As [`Pool::batch`].
    fn batch(&self) -> Result<u64>;
    /// As [`Pool::set_batch`].
    fn set_batch(&self, name: u64) -> Result<()>;
    /// As [`Pool::recover_copy`].
    fn recover_copy(&self, is_begin: bool);
    /// As [`Pool::poison`].
    fn poison(&self);
    /// As [`Pool::each_block`].
    fn each_block(&self, f: &mut dyn FnMut(u64));
    /// As [`Pool::check_blocks`].
    fn check_blocks(&self, found: &mut dyn FnMut(u64, &'static str));
    /// As [`Medium::durability`].
    fn durability(&self) -> Durability;
    /// As [`Storage::path`](durahash_media::Storage::path).
    fn path(&self) -> Option<&Path>;
    /// As [`Pool::sync_mode`].
    fn sync_mode(&self) -> Result<SyncMode>;
    /// As [`Memory::defer`](durahash_media::Memory::defer).
    fn defer(&self, defer: bool);
    /// As [`Memory::may_wait`](durahash_media::Memory::may_wait).
    fn may_wait(&self) -> bool;
    /// As [`Memory::wait_until_durable`](durahash_media::Memory::wait_until_durable).
    fn wait_until_durable(&self) -> Result<()>;
    /// As [`Medium::sync`], of everything.
    fn sync(&self) -> Result<()>;
    /// As [`Storage::copy_to`](durahash_media::Storage::copy_to).
    fn copy_to(&self, to: &dyn Blank, watch: &mut dyn FnMut(u64, u64)) -> Result<CopiedAs>;
    /// As [`Pool::is_read_only`].
    fn is_read_only(&self) -> bool;
    /// As [`Pool::looks_on`].
    fn looks_on(&self) -> bool;
    /// As [`Pool::close`].
    fn close(&self) -> Result<()>;
    /// Figures.
    fn facts(&self) -> PoolFacts;
    /// As [`Storage::huge_bytes`](durahash_media::Storage::huge_bytes).
    fn huge_bytes(&self) -> Option<u64>;
}

impl<M: Medium> Store for Pool<M> {
    fn format(&self) -> &Format {
        Pool::format(self)
    }

    fn max_bytes(&self) -> u64 {
        Pool::max_bytes(self)
    }

    fn writable(&self) -> Result<()> {
        Pool::writable(self)
    }

    fn alloc(&self, bytes: u64) -> Result<Option<u64>> {
        self.alloc_block(bytes, false)
    }

    fn alloc_cell(&self, bytes: u64) -> Result<Option<u64>> {
        Pool::alloc_cell(self, bytes, false)
    }

    fn free(&self, off: u64) -> Result<()> {
        self.free_block(off)
    }

    fn mark(&self, off: u64) -> Result<bool> {
        self.mark_block(off)
    }

    fn keep_extent(&self, off: u64) {
        Pool::keep_extent(self, off);
    }

    fn sweep_goes_on(&self) -> bool {
        Pool::sweep_goes_on(self)
    }

    fn give_up_sweep(&self) {
        Pool::give_up_sweep(self);
    }

    fn finish_sweep(&self) -> Result<()> {
        Pool::finish_sweep(self)
    }

    fn give_back_blocks(&self) -> Result<()> {
        Pool::give_back_blocks(self)
    }

    fn write(&self, off: u64, hashes: &Hashes, draft: &Draft<'_>) -> Result<u64> {
        let medium = self.medium();
        let words = self.words(off, draft.bytes().div_ceil(8))?;
        let lengths = lengths(draft.key.len(), draft.value.len());
        let checksum = hashes.checksum(draft.key_hash, lengths, draft.next, draft.value);
        let (header, body) = words.split_at(HEADER_BYTES as usize / 8);
        for (word, v) in header.iter().zip([lengths, checksum, draft.next]) {
            medium.store(word, v);
        }
        // The word that key and value share is put together first.
        let (key, key_end) = draft.key.split_at(draft.key.len() / 8 * 8);
        let (key_words, rest) = body.split_at(key.len() / 8);
        medium.copy_in(key_words, key);
        if key_end.is_empty() {
            medium.copy_in(rest, draft.value);
        } else {
            let (begin, value) = draft.value.split_at(draft.value.len().min(8 - key_end.len()));
            let mut shared = [0; 8];
            shared[..key_end.len()].copy_from_slice(key_end);
            shared[key_end.len()..][..begin.len()].copy_from_slice(begin);
            medium.copy_in(&rest[..1], &shared);
            medium.copy_in(&rest[1..], value);
        }
        medium.flush_fresh(words);
        medium.fence();
        Ok(name(off, checksum, draft.next))
    }

    fn write_cell(&self, off: u64, bytes: &[u8]) -> Result<()> {
        let medium = self.medium();
        let words = self.words(off, bytes.len() as u64 / 8)?;
        medium.copy_in(words, bytes);
        medium.flush_fresh(words);
        medium.fence();
        Ok(())
    }

    fn prefetch(&self, off: u64, bytes: u64) {
        for line in (off / LINE_BYTES * LINE_BYTES..off + bytes).step_by(LINE_BYTES as usize) {
            self.medium().region().speculate(line);
        }
    }

    fn block_bytes(&self, off: u64) -> Result<u64> {
        Pool::block_bytes(self, off)
    }

    fn cell_end(&self, off: u64, bytes: u64) -> Result<u64> {
        if off % LINE_BYTES + bytes > LINE_BYTES {
            self.medium().region().speculate(off);
        }
        Ok(self.medium().load(self.at::<PmU64>(off + bytes - 8)?))
    }

    fn header(&self, named: u64) -> Result<Header> {
        let off = offset(named);
        let block_bytes = self.block_bytes(off)?;
        let medium = self.medium();
        // The lengths say how far it goes, but only when the first line is there.
        for line in (LINE_BYTES..block_bytes.min(PREFETCH_BYTES)).step_by(LINE_BYTES as usize) {
            medium.region().speculate(off + line);
        }
        let words = self.at::<RecordHeader>(off)?;
        let lengths = medium.load(&words.lengths);
        let header = Header {
            lengths,
            key_bytes: (lengths & u64::from(u32::MAX)) as usize,
            value_bytes: (lengths >> 32) as usize,
            checksum: medium.load(&words.checksum),
            next: medium.load(&words.next),
        };
        if HEADER_BYTES + header.key_bytes as u64 + header.value_bytes as u64 > block_bytes {
            return Err(Error::corrupt("record longer than its block", off));
        }
        if name(off, header.checksum, header.next) != named {
            return Err(Error::corrupt("not the record that the slot names", off));
        }
        Ok(header)
    }

    fn starts_with(&self, off: u64, bytes: &[u8]) -> Result<bool> {
        Ok(self.medium().starts_with(self.words(off, bytes.len().div_ceil(8) as u64)?, bytes))
    }

    fn copy(&self, off: u64, skip: usize, out: &mut [u8]) -> Result<()> {
        let end = (skip + out.len()).div_ceil(8) as u64;
        let words = self.words(off, end)?;
        self.medium().copy_out(words, skip, out);
        Ok(())
    }

    fn wait(&self) {
        self.medium().wait();
    }

    fn saved(&self, map: u8, i: usize) -> Option<u64> {
        Pool::saved(self, map, i)
    }

    fn save(&self, map: u8, i: usize, v: u64) {
        Pool::save(self, map, i, v);
    }

    fn maps(&self) -> Vec<(u8, String, Format)> {
        Pool::maps(self)
    }

    fn begin_map(&self, name: &str, format: &Format) -> Result<u8> {
        Pool::begin_map(self, name, format)
    }

    fn publish_map(&self, map: u8) -> Result<()> {
        Pool::publish_map(self, map)
    }

    fn rename_map(&self, map: u8, name: &str) -> Result<()> {
        Pool::rename_map(self, map, name)
    }

    fn begin_removal(&self, map: u8) -> Result<()> {
        Pool::begin_removal(self, map)
    }

    fn finish_removal(&self, map: u8) -> Result<()> {
        Pool::finish_removal(self, map)
    }

    fn gate(&self) -> &Gate {
        Pool::gate(self)
    }

    fn batch(&self) -> Result<u64> {
        Pool::batch(self)
    }

    fn set_batch(&self, name: u64) -> Result<()> {
        Pool::set_batch(self, name)
    }

    fn recover_copy(&self, is_begin: bool) {
        Pool::recover_copy(self, is_begin);
    }

    fn poison(&self) {
        Pool::poison(self);
    }

    fn each_block(&self, f: &mut dyn FnMut(u64)) {
        Pool::each_block(self, f);
    }

    fn check_blocks(&self, found: &mut dyn FnMut(u64, &'static str)) {
        Pool::check_blocks(self, found);
    }

    fn durability(&self) -> Durability {
        self.medium().durability()
    }

    fn path(&self) -> Option<&Path> {
        self.medium().path()
    }

    fn sync_mode(&self) -> Result<SyncMode> {
        Pool::sync_mode(self.medium())
    }

    fn defer(&self, defer: bool) {
        self.medium().defer(defer);
    }

    fn may_wait(&self) -> bool {
        self.medium().may_wait()
    }

    fn wait_until_durable(&self) -> Result<()> {
        self.medium().wait_until_durable()
    }

    fn sync(&self) -> Result<()> {
        let medium = self.medium();
        let synced = medium.sync(0, medium.region().len());
        if synced.is_err() {
            // It is never tried again and called success.
            self.poison();
        }
        synced
    }

    fn copy_to(&self, to: &dyn Blank, watch: &mut dyn FnMut(u64, u64)) -> Result<CopiedAs> {
        self.check_writer()?;
        self.medium().copy_to(to, watch)
    }

    fn is_read_only(&self) -> bool {
        Pool::is_read_only(self)
    }

    fn looks_on(&self) -> bool {
        Pool::looks_on(self)
    }

    fn close(&self) -> Result<()> {
        Pool::close(self)
    }

    fn huge_bytes(&self) -> Option<u64> {
        self.medium().huge_bytes()
    }

    fn facts(&self) -> PoolFacts {
        let medium = self.medium();
        PoolFacts {
            space: self.stats(),
            durability: medium.durability(),
            epoch: self.epoch(),
            recovered: !self.was_clean(),
            suspect: self.is_suspect(),
            log: medium.log_stats(),
        }
    }
}

/// Copies the value out of the record that has this name, if it is short and the key is this one; true if so.
/// Key and value are fetched together with the header, since what a lookup waits for decides nothing: neither
/// the place of the value, nor how much is copied: as much as values of the type may have.
/// Without `out` the key alone decides.
#[inline(always)]
pub(crate) fn copy_short<M: Medium>(
    pool: &Pool<M>,
    named: u64,
    key: &[u8],
    out: Option<&mut Short>,
) -> bool {
    let medium = pool.medium();
    let off = offset(named);
    let key_words = key.len() / 8;
    let (header_words, begin) = (HEADER_BYTES as usize / 8, key.len() % 8);
    let copied_words = out.as_ref().map_or(1, |out| out.copied_words(begin));
    // Where the pool ends before that, the record is read as a long one.
    let Ok(words) = pool.words(off, (header_words + key_words + copied_words) as u64) else {
        return false;
    };
    let Some(([lengths, checksum, next], body)) = words.split_first_chunk() else {
        return false;
    };
    let value = &body[key_words..];
    let have = medium.load(lengths);
    let bytes = (have >> 32) as usize;
    if have & u64::from(u32::MAX) != key.len() as u64
        || (out.is_some() && begin + bytes > 8 * copied_words)
        || name(off, medium.load(checksum), medium.load(next)) != named
        || !medium.starts_with(body, key)
    {
        return false;
    }
    if let Some(out) = out {
        // Of a constant number of words the copy has fewer instructions.
        match value.first_chunk::<COPIED_WORDS>() {
            Some(all) => medium.copy_words(all, &mut out.words),
            None => medium.copy_words(value, &mut out.words),
        }
        (out.begin, out.bytes) = (begin, bytes);
    }
    true
}

/// Refuses keys and values that are too large.
pub(crate) fn check_sizes(key: &[u8], value: &[u8]) -> Result<()> {
    for (what, bytes, limit) in
        [("key", key.len(), MAX_KEY_BYTES), ("value", value.len(), MAX_VALUE_BYTES)]
    {
        if bytes > limit {
            let (bytes, limit_bytes) = (bytes as u64, limit as u64);
            return Err(ErrorKind::TooLarge { what, bytes, limit_bytes }.into());
        }
    }
    Ok(())
}
