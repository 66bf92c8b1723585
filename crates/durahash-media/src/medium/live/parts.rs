//! A batch in the ring: one part after the other.
//!
//! ```text
//! part   0  "DURAPART"    8 salt     16 uuid (2)   32 number of its batch
//!       40  index of the part in the batch (bits 0-31), CRC of the head (bits 32-63)
//!       48  entries       56 bytes of the part, whole blocks   64 the last batch that was noted before
//!       72  chain (bits 0-31), CRC of the body (bits 32-63)
//!       80  final (bit 0), spilled (bit 1)            88 zero
//!       96  entries {offset in the pool; 64 bytes}, or of a spilled batch {bytes of its file, their CRC}
//! ```
//!
//! A chain is the CRC of the head of the part before it, which has that of its body in it. **A batch counts only if
//! all its parts up to the final one are sound and chained.** A part lies at its place, from the ring's first on, modulo the ring's
//! length, and may go on at the ring's beginning. A batch that is longer than half the ring goes to a file of its own, which holds the
//! parts; one final part in the ring names it.

use std::collections::BTreeMap;
use std::io;

use super::disk::{LiveDisk, LiveSource};
use super::head::{Head, Position, RING_OFF};
use super::sums::{Sums, write_runs};
use crate::error::{Error, Result};
use crate::medium::LINE_BYTES;
use crate::medium::logged::disk::aligned;
use crate::medium::logged::format::{BLOCK_BYTES, Line, is_sealed, put, seal, word};

const PART_MAGIC: u64 = u64::from_le_bytes(*b"DURAPART");
const HEAD_BYTES: usize = 96;
const HEAD_CRC_AT: usize = 40;
pub(super) const ENTRY_BYTES: usize = 8 + LINE_BYTES as usize;
/// Bytes of a part, at the most.
const PART_BYTES_MAX: usize = 4 << 20;
const FINAL: u64 = 1;
const SPILLED: u64 = 2;

/// Entries that a part has room for, at the most.
const PART_ENTRIES: usize = (PART_BYTES_MAX - HEAD_BYTES) / ENTRY_BYTES;

/// Lines on their way into a batch.
pub(super) struct Batch {
    buffer: Vec<u8>,
    /// Entries that each part but the last one has.
    part_entries: usize,
    /// Entries so far.
    count: usize,
    /// Where the next one goes, and how many more the part has room for.
    next: usize,
    room: usize,
}

/// A batch that is ready to be written.
pub(super) struct Sealed<'a> {
    /// Its bytes in the ring.
    pub(super) bytes: &'a [u8],
    /// Where each part ends in them.
    ends: Vec<usize>,
    /// The position behind it.
    pub(super) end: Position,
    /// The bytes of its spill file.
    pub(super) spill: Option<Vec<u8>>,
}

fn part_bytes(entries: usize) -> usize {
    (HEAD_BYTES + entries * ENTRY_BYTES).next_multiple_of(BLOCK_BYTES)
}

impl Batch {
    /// An empty one, of parts with so many entries.
    pub(super) fn new(part_entries: usize) -> Self {
        let part_entries = part_entries.clamp(1, PART_ENTRIES);
        Batch { buffer: Vec::new(), part_entries, count: 0, next: HEAD_BYTES, room: part_entries }
    }

    pub(super) fn clear(&mut self) {
        (self.count, self.next, self.room) = (0, HEAD_BYTES, self.part_entries);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Makes room for so many entries at all.
    pub(super) fn reserve(&mut self, entries: usize) {
        let bytes = self.bytes_of(entries) + BLOCK_BYTES;
        if self.buffer.len() < bytes {
            let had = self.bytes();
            let lead = self.buffer.as_ptr().align_offset(BLOCK_BYTES).min(self.buffer.len());
            let mut buffer = Vec::new();
            let new = aligned(&mut buffer, bytes);
            new[..had].copy_from_slice(&self.buffer[lead..][..had]);
            self.buffer = buffer;
        }
    }

    fn bytes_of(&self, entries: usize) -> usize {
        let (whole, rest) = (entries / self.part_entries, entries % self.part_entries);
        whole * part_bytes(self.part_entries) + if rest > 0 { part_bytes(rest) } else { 0 }
    }

    fn bytes(&self) -> usize {
        self.bytes_of(self.count)
    }

    /// Adds a line, for which there is room.
    pub(super) fn push(&mut self, off: u64, line: &Line) {
        let lead = self.buffer.as_ptr().align_offset(BLOCK_BYTES);
        let entry = &mut self.buffer[lead + self.next..][..ENTRY_BYTES];
        put(entry, 0, &[off]);
        put(entry, 8, line);
        (self.count, self.next, self.room) =
            (self.count + 1, self.next + ENTRY_BYTES, self.room - 1);
        if self.room == 0 {
            self.next = self.next.next_multiple_of(BLOCK_BYTES) + HEAD_BYTES;
            self.room = self.part_entries;
        }
    }

    fn spills(&self, head: &Head) -> bool {
        self.bytes() as u64 > head.ring_bytes / 2
    }

    /// Bytes that it takes in the ring of `head`.
    pub(super) fn ring_bytes(&self, head: &Head) -> u64 {
        if self.spills(head) { BLOCK_BYTES as u64 } else { self.bytes() as u64 }
    }

    /// Makes it the batch behind `last`, which is the last one that was noted, in the ring of `head`.
    pub(super) fn seal(&mut self, head: &Head, last: Position) -> Sealed<'_> {
        let (count, bytes, spills) = (self.count, self.bytes(), self.spills(head));
        let (batch, noted) = (last.batch + 1, last.batch);
        let all = aligned(&mut self.buffer, bytes);
        let (mut ends, mut chain, mut left) = (Vec::new(), last.chain, count);
        for (i, part) in all.chunks_mut(part_bytes(self.part_entries)).enumerate() {
            let entries = left.min(self.part_entries);
            left -= entries;
            part[HEAD_BYTES + entries * ENTRY_BYTES..].fill(0);
            let flags = if left == 0 { FINAL } else { 0 };
            chain = seal_part(part, head, [batch, i as u64, entries as u64, noted, flags], chain);
            ends.push(ends.last().unwrap_or(&0) + part.len());
        }
        let spill = spills.then(|| all.to_vec());
        let Some(spill) = spill else {
            let end = Position { batch, place: last.place + bytes as u64, chain };
            let bytes = aligned(&mut self.buffer, bytes);
            return Sealed { bytes, ends, end, spill: None };
        };
        let part = aligned(&mut self.buffer, BLOCK_BYTES);
        part.fill(0);
        put(part, HEAD_BYTES, &[bytes as u64, u64::from(crc32fast::hash(&spill))]);
        let chain = seal_part(part, head, [batch, 0, 0, noted, FINAL | SPILLED], last.chain);
        let end = Position { batch, place: last.place + BLOCK_BYTES as u64, chain };
        Sealed { bytes: part, ends: vec![BLOCK_BYTES], end, spill: Some(spill) }
    }
}

impl Sealed<'_> {
    /// Where each part begins and ends in its bytes.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(from, to)| (from as u64, &self.bytes[from..*to]))
    }
}

fn seal_part(
    part: &mut [u8],
    head: &Head,
    [batch, index, entries, noted, flags]: [u64; 5],
    chain: u32,
) -> u32 {
    let body = crc32fast::hash(&part[HEAD_BYTES..]);
    let (bytes, [uuid0, uuid1]) = (part.len() as u64, head.uuid);
    put(part, 0, &[PART_MAGIC, head.salt, uuid0, uuid1, batch, index, entries, bytes, noted]);
    put(&mut part[..HEAD_BYTES], 72, &[u64::from(chain) | u64::from(body) << 32, flags, 0]);
    seal(&mut part[..HEAD_BYTES], HEAD_CRC_AT)
}

/// The head of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartHead {
    salt: u64,
    uuid: [u64; 2],
    batch: u64,
    index: u64,
    entries: u64,
    bytes: u64,
    noted: u64,
    chain: u32,
    body_crc: u32,
    flags: u64,
    crc: u32,
}

impl PartHead {
    fn read(block: &[u8]) -> Option<PartHead> {
        let head = &block[..HEAD_BYTES];
        if word(head, 0) != PART_MAGIC {
            return None;
        }
        let crc = is_sealed(head, HEAD_CRC_AT)?;
        let at = |at: usize| word(head, at);
        let (entries, bytes) = (at(48), at(56));
        let fits = entries <= PART_ENTRIES as u64 && bytes <= PART_BYTES_MAX as u64;
        if !fits || bytes < part_bytes(entries as usize) as u64 || bytes % BLOCK_BYTES as u64 != 0 {
            return None;
        }
        Some(PartHead {
            salt: at(8),
            uuid: [at(16), at(24)],
            batch: at(32),
            index: at(40) & u64::from(u32::MAX),
            entries,
            bytes,
            noted: at(64),
            chain: at(72) as u32,
            body_crc: (at(72) >> 32) as u32,
            flags: at(80),
            crc,
        })
    }

    fn continues(&self, head: &Head, at: Position, index: u64) -> bool {
        (self.salt, self.uuid) == (head.salt, head.uuid)
            && (self.batch, self.index, self.chain) == (at.batch + 1, index, at.chain)
    }
}

/// Takes the lines of a part of a batch.
pub(super) type Take<'a> = &'a mut dyn FnMut(Lines<'_>) -> Result<()>;

/// The lines of a part, and where each lies in the pool.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    fn of(part: &'a [u8], entries: u64) -> Self {
        let bytes = &part[HEAD_BYTES..];
        Lines(&bytes[..bytes.len().min((entries as usize).saturating_mul(ENTRY_BYTES))])
    }

    pub(super) fn iter(self) -> impl Iterator<Item = (u64, Line)> + use<'a> {
        let entries = self.0.chunks_exact(ENTRY_BYTES);
        entries.map(|entry| (word(entry, 0), std::array::from_fn(|i| word(entry, 8 + i * 8))))
    }
}

/// Reads and writes the ring of a disk.
pub(super) struct Ring<'a, D> {
    disk: &'a D,
    ring_bytes: u64,
    start: u64,
}

impl<'a, D: LiveSource> Ring<'a, D> {
    pub(super) fn of(disk: &'a D, head: &Head) -> Self {
        Ring { disk, ring_bytes: head.ring_bytes, start: head.start }
    }

    /// Runs `f` for the pieces of `bytes` bytes from `place` on: where they lie in the area, and which of the bytes.
    fn pieces(
        &self,
        place: u64,
        bytes: usize,
        mut f: impl FnMut(u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let off = (place - self.start) % self.ring_bytes;
        let straight = ((self.ring_bytes - off) as usize).min(bytes);
        f(RING_OFF + off, 0..straight)?;
        if straight < bytes { f(RING_OFF, straight..bytes) } else { Ok(()) }
    }

    /// Writes bytes, durably.
    pub(super) fn write(&self, place: u64, bytes: &[u8]) -> io::Result<()> {
        self.pieces(place, bytes.len(), |off, range| self.disk.write_log(off, &bytes[range]))
    }

    fn read(&self, place: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.pieces(place, bytes.len(), |off, range| self.disk.read_log(off, &mut bytes[range]))
    }

    /// Says that the first part of the batch at `place` will be read soon.
    pub(super) fn will_read(&self, place: u64) {
        let _ = self.pieces(place, BLOCK_BYTES, |off, _| {
            self.disk.will_read_log(off);
            Ok(())
        });
    }

    /// The batch behind `at`, if there is one: the position behind it. Its lines go to `take`, if they are wanted.
    pub(super) fn batch(
        &self,
        head: &Head,
        at: Position,
        take: Option<Take<'_>>,
    ) -> Result<Option<Position>> {
        let failed = |e| reading(self.disk, e);
        let mut bodies = take.is_some().then(Vec::new);
        let mut end = at;
        for index in 0.. {
            let mut block = vec![0; BLOCK_BYTES];
            // No batch is longer than the ring.
            if end.place - at.place > self.ring_bytes - BLOCK_BYTES as u64 {
                return Ok(None);
            }
            self.read(end.place, &mut block).map_err(failed)?;
            let Some(part) = PartHead::read(&block) else { return Ok(None) };
            let before = Position { chain: end.chain, ..at };
            if !part.continues(head, before, index) || part.bytes > self.ring_bytes {
                return Ok(None);
            }
            if let Some(bodies) = &mut bodies {
                let mut bytes = vec![0; part.bytes as usize];
                self.read(end.place, &mut bytes).map_err(failed)?;
                if crc32fast::hash(&bytes[HEAD_BYTES..]) != part.body_crc {
                    return Ok(None);
                }
                bodies.push((part, bytes));
            }
            end = Position { place: end.place + part.bytes, chain: part.crc, ..at };
            if part.flags & FINAL != 0 {
                break;
            }
        }
        let end = Position { batch: at.batch + 1, ..end };
        if let (Some(bodies), Some(take)) = (bodies, take) {
            for (part, bytes) in bodies {
                if part.flags & SPILLED == 0 {
                    take(Lines::of(&bytes, part.entries))?;
                } else if !self.spilled(end.batch, &bytes, take)? {
                    return Ok(None);
                }
            }
        }
        Ok(Some(end))
    }

    /// Takes the lines of a spill file that the part in `bytes` names; false if it is not the one.
    fn spilled(&self, batch: u64, bytes: &[u8], take: Take<'_>) -> Result<bool> {
        let file = match self.disk.read_spill(batch) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let what =
                    "a file of the log, durahash-….spill, is not beside the pool (its batch)";
                return Err(Error::corrupt(what, batch));
            }
            Err(e) => return Err(reading(self.disk, e)),
        };
        let named = [word(bytes, HEAD_BYTES), word(bytes, HEAD_BYTES + 8)];
        if named != [file.len() as u64, u64::from(crc32fast::hash(&file))] {
            return Ok(false);
        }
        let mut rest = &file[..];
        while let Some(part) = rest.get(..HEAD_BYTES).and_then(PartHead::read) {
            let (bytes, behind) = rest.split_at((part.bytes as usize).min(rest.len()));
            take(Lines::of(bytes, part.entries))?;
            rest = behind;
        }
        Ok(true)
    }

    /// True if a sound part of the ring, of whatever open, says that a batch behind `last` was noted.
    pub(super) fn proves(&self, uuid: [u64; 2], last: u64) -> Result<bool> {
        const CHUNK: usize = 1 << 20;
        let failed = |e| reading(self.disk, e);
        let (mut buffer, block) = (Vec::new(), BLOCK_BYTES as u64);
        let ring = RING_OFF..RING_OFF + self.ring_bytes;
        for part in self.disk.written_in(ring) {
            let (mut off, end) = (part.start / block * block, part.end.next_multiple_of(block));
            while off < end {
                let bytes = aligned(&mut buffer, ((end - off) as usize).min(CHUNK));
                self.disk.read_ring(off, bytes).map_err(failed)?;
                let mut blocks = bytes.chunks_exact(BLOCK_BYTES);
                if blocks.any(|block| {
                    word(block, 64) > last
                        && PartHead::read(block)
                            .is_some_and(|part| part.uuid == uuid && part.noted > last)
                }) {
                    return Ok(true);
                }
                off += bytes.len() as u64;
            }
        }
        Ok(false)
    }
}

/// The index in its batch of the part that these bytes begin with, and whether it is the final one.
#[cfg(any(test, feature = "sim"))]
pub(in crate::medium) fn part_of(bytes: &[u8]) -> Option<(u64, bool)> {
    let part = bytes.get(..HEAD_BYTES).and_then(PartHead::read)?;
    Some((part.index, part.flags & FINAL != 0))
}

/// Where a batch lies in the area, and its number, if it is in a spill file.
#[cfg(any(test, feature = "sim"))]
pub(in crate::medium) type Places = (Vec<std::ops::Range<u64>>, Option<u64>);

/// The batches behind `head`.
#[cfg(any(test, feature = "sim"))]
pub(in crate::medium) fn batches<D: LiveSource>(disk: &D, head: &Head) -> Result<Vec<Places>> {
    let (ring, mut all, mut at) = (Ring::of(disk, head), Vec::new(), head.at);
    let mut block = [0; BLOCK_BYTES];
    while let Some(end) = ring.batch(head, at, Some(&mut |_| Ok(())))? {
        let mut places = Vec::new();
        let place = |off, bytes: std::ops::Range<usize>| {
            places.push(off..off + bytes.len() as u64);
            Ok(())
        };
        let bytes = (end.place - at.place) as usize;
        ring.pieces(at.place, bytes, place)
            .and_then(|()| ring.read(at.place, &mut block))
            .map_err(|e| reading(disk, e))?;
        let is_spilled = PartHead::read(&block).is_some_and(|part| part.flags & SPILLED != 0);
        all.push((places, is_spilled.then_some(end.batch)));
        at = end;
    }
    Ok(all)
}

pub(super) fn reading<D: LiveSource>(disk: &D, e: io::Error) -> Error {
    Error::io("reading the log of the pool", disk.path().map(Into::into), e)
}

/// Lines by the pages that they lie in, to be written to the base a page at a time.
#[derive(Default)]
pub(super) struct Pages(BTreeMap<u64, Page>);

/// A page of the base: lines that it is to have, and which of its lines these are.
struct Page {
    bytes: Box<[u8; BLOCK_BYTES]>,
    has: u64,
}

impl Pages {
    /// Pages that are gathered before they are written.
    const MOST: usize = 4096;

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= Self::MOST
    }

    pub(super) fn put(&mut self, off: u64, line: &Line) {
        let page = off / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let none = || Page { bytes: Box::new([0; BLOCK_BYTES]), has: 0 };
        let Page { bytes, has } = self.0.entry(page).or_insert_with(none);
        put(&mut bytes[(off - page) as usize..][..LINE_BYTES as usize], 0, line);
        *has |= 1 << ((off - page) / LINE_BYTES);
    }

    /// Writes them to the base. The lines that they lack are read from there; the disk is asked for all of these pages before
    /// it is waited for the first. What is read may be wrong where it `may_differ` ([`Sums::written`]).
    pub(super) fn write<D: LiveDisk>(
        &mut self,
        disk: &D,
        mut sums: Sums<'_, D>,
        may_differ: bool,
    ) -> Result<()> {
        let pages = std::mem::take(&mut self.0);
        let end = disk.region().len();
        let lacking = |page: &Page| page.has != u64::MAX;
        pages.iter().filter(|(_, page)| lacking(page)).for_each(|(off, _)| disk.will_read(*off));
        let whole = pages.into_iter().map(|(off, page)| {
            let mut before = vec![0; (end - off).min(BLOCK_BYTES as u64) as usize];
            if lacking(&page) {
                disk.read_pool(off, &mut before)?;
            }
            let mut bytes = before.clone();
            let lines = bytes.chunks_mut(LINE_BYTES as usize);
            for (i, (line, new)) in lines.zip(page.bytes.chunks(LINE_BYTES as usize)).enumerate() {
                if page.has >> i & 1 == 1 {
                    line.copy_from_slice(&new[..line.len()]);
                }
            }
            let before = lacking(&page).then_some((&before[..], may_differ));
            sums.written(off, &bytes, before)?;
            Ok((off, bytes))
        });
        write_runs(disk, whole)?;
        sums.write().map(drop)
    }
}
