//! Byte strings in the pool: records or cells, and chains of those whose hashes are equal.
//!
//! A slot's payload names one record; further keys of the same hash hang on it by `next`. Chains are longer
//! than one record practically only in tests, which shorten the hash.
//!
//! Readers copy a record between two reads of the bucket's version. The words that they load may be stale or
//! reused meanwhile; they ask before they trust a length that would grow a buffer. Once the version was
//! found unchanged, they verify the checksum, unless the record is known to be intact (`known.rs`).

use std::ops::Range;
use std::sync::Arc;

use durahash_media::{Error, ErrorKind, Result};

use super::cell::{self, Cell, is_cell};
use super::data::Expiring;
use super::expiry::NEVER;
use super::known::Known;
use super::record::{
    Draft, HEADER_BYTES, Hashes, Header, KeyHash, MAX_KEY_BYTES, MAX_VALUE_BYTES, PREFETCH_BYTES,
    Store, is_chained, lengths, offset,
};
use crate::util::cycle::CycleDetector;

/// A key and its value, as bytes.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A record where it stands, or a cell or a value in its slot, whose header is made up.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    /// 0 in the slot.
    pub(crate) off: u64,
    pub(crate) header: Header,
    /// The hash of its slot.
    h: u64,
    cell: Option<Cell>,
    /// The bytes of a value in its slot.
    in_slot: Option<[u8; 2 * Expiring::BYTES]>,
}

impl Record {
    /// Where key and value stand.
    pub(crate) fn body(&self) -> u64 {
        if self.cell.is_some() { self.off } else { self.off + HEADER_BYTES }
    }

    /// True if the key does not tell whose it is: the hash is a part of every key.
    pub(crate) fn is_cell(&self) -> bool {
        self.cell.is_some()
    }

    /// True if the slot has the value.
    pub(crate) fn is_in_slot(&self) -> bool {
        self.in_slot.is_some()
    }

    /// Bytes of the key that do not stand there.
    fn skip(&self) -> usize {
        self.cell.map_or(0, Cell::skip)
    }
}

/// The records of a pool.
pub(crate) struct Records {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hashes: Hashes,
    /// The layout of cells, where what has no `next` is one.
    pub(crate) cell: Option<Cell>,
    /// Records that lookups do not verify, if there may be such.
    pub(crate) known: Option<Known>,
}

/// A reader that holds a lock loads nothing that is stale.
pub(crate) fn always() -> bool {
    true
}

impl Records {
    /// The hash by which an index knows `key`.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hashes.h(self.hashes.key(key))
    }

    fn cell_of(&self, draft: &Draft<'_>) -> Option<Cell> {
        self.cell.filter(|_| draft.next == 0)
    }

    /// The value that a payload is.
    #[inline]
    pub(crate) fn value_in(&self, payload: u64) -> Option<u64> {
        self.cell.and_then(|cell| cell.value_in(payload))
    }

    /// True if a payload is a value, and is no damaged one.
    pub(crate) fn has_value(&self, payload: u64) -> bool {
        self.cell
            .is_some_and(|cell| cell.value_in(payload).and_then(|v| cell.bytes_of(v)).is_some())
    }

    /// The payload that a draft is, where its slot has the value.
    #[inline(always)]
    pub(crate) fn payload_of(&self, draft: &Draft<'_>) -> Option<u64> {
        self.cell.and_then(|cell| cell.payload_of(draft.value))
    }

    /// True if a payload is the name of a record that has a next one.
    pub(crate) fn is_chained(&self, payload: u64) -> bool {
        is_chained(payload) && self.value_in(payload).is_none()
    }

    /// Takes a block for a draft, as [`Store::alloc`].
    pub(crate) fn alloc(&self, draft: &Draft<'_>) -> Result<Option<u64>> {
        match self.cell_of(draft) {
            Some(cell) => self.store.alloc_cell(cell.bytes()),
            None => self.store.alloc(draft.bytes()),
        }
    }

    /// True if a draft's block holds it with this `next`, too.
    pub(crate) fn has_room(&self, draft: &Draft<'_>, next: u64) -> bool {
        self.cell_of(draft).is_none() || next == 0
    }

    /// Writes a draft into its block, as [`Store::write`].
    pub(crate) fn write(&self, off: u64, draft: &Draft<'_>) -> Result<u64> {
        let Some(cell) = self.cell_of(draft) else {
            let name = self.store.write(off, &self.hashes, draft)?;
            self.add_known(off);
            return Ok(name);
        };
        if (draft.key.len(), draft.value.len()) != (cell.key_bytes(), cell.value_bytes()) {
            // Out of a damaged pool: the bytes of a type's values have its length.
            return Err(Error::corrupt(
                "an entry has other lengths than the types of its map",
                off,
            ));
        }
        let sum = self.hashes.cell_checksum(draft.key_hash, draft.value);
        let mut room = [0; cell::BYTES_MAX];
        self.store.write_cell(off, cell.fill((draft.key, draft.value), sum, &mut room))?;
        Ok(cell.name(off, sum))
    }

    /// Starts to fetch the record or cell of this name.
    pub(crate) fn prefetch(&self, name: u64) {
        if self.value_in(name).is_some() {
            return;
        }
        let bytes = self.cell.filter(|_| is_cell(name)).map_or(PREFETCH_BYTES, Cell::bytes);
        self.store.prefetch(offset(name), bytes);
        if let Some(known) = &self.known {
            known.prefetch(offset(name));
        }
    }

    /// The record or cell that slot `h` leads to under this name.
    fn record(&self, h: u64, name: u64) -> Result<Record> {
        let header = |cell: Cell, checksum| {
            let (key_bytes, value_bytes) = (cell.key_bytes(), cell.value_bytes());
            let lengths = lengths(key_bytes, value_bytes);
            Header { lengths, key_bytes, value_bytes, checksum, next: 0 }
        };
        if let Some(cell) = self.cell
            && let Some(value) = cell.value_in(name)
        {
            let longer = || Error::corrupt("a slot's value is none of its type", 0);
            let in_slot = Some(cell.bytes_of(value).ok_or_else(longer)?);
            return Ok(Record { off: 0, header: header(cell, 0), h, cell: Some(cell), in_slot });
        }
        let (off, in_slot) = (offset(name), None);
        if !is_cell(name) {
            return Ok(Record { off, header: self.store.header(name)?, h, cell: None, in_slot });
        }
        let Some(cell) = self.cell.filter(|_| !is_chained(name)) else {
            return Err(Error::corrupt("the name of a cell where there can be none", off));
        };
        let checksum = cell.kept_by(name, self.store.cell_end(off, cell.bytes())?);
        Ok(Record { off, header: header(cell, checksum), h, cell: Some(cell), in_slot })
    }

    /// True if a record has this key, whose hash is that of its slot.
    pub(crate) fn key_is(&self, record: &Record, key: &[u8]) -> Result<bool> {
        Ok(record.header.key_bytes == key.len()
            && (record.in_slot.is_some()
                || self.store.starts_with(record.body(), &key[record.skip()..])?))
    }

    /// Calls `f` with each record of the chain that `payload`, of slot `h`, begins, until it says false.
    pub(crate) fn walk(
        &self,
        (h, payload): (u64, u64),
        still: &dyn Fn() -> bool,
        f: &mut dyn FnMut(Record) -> Result<bool>,
    ) -> Result<()> {
        let mut name = payload;
        let mut cycle = CycleDetector::default();
        loop {
            let record = self.record(h, name)?;
            let (off, next) = (record.off, record.header.next);
            if !f(record)? || next == 0 || !still() {
                return Ok(());
            }
            name = next;
            cycle.step(off, offset(name), "a chain of records has a cycle")?;
        }
    }

    /// The record of `key` in the chain that `payload` begins. Those before it go to `before`.
    pub(crate) fn find(
        &self,
        h: u64,
        payload: u64,
        key: &[u8],
        before: &mut Vec<Record>,
        still: &dyn Fn() -> bool,
    ) -> Result<Option<Record>> {
        let mut found = None;
        self.walk((h, payload), still, &mut |record| {
            if self.key_is(&record, key)? {
                found = Some(record);
                return Ok(false);
            }
            // Another key of the same hash, or the wanted one, damaged? No key is called absent
            // because of damage.
            let (mut other, mut value) = (Vec::new(), Vec::new());
            self.copy_key(&record, &mut other, still)?;
            self.copy_value(&record, &mut value, still)?;
            let other_hash = self.hashes.key(&other);
            if still() {
                self.of_slot(&record, h, other_hash)?;
                self.verify(&record, other_hash, &value)?;
            }
            before.push(record);
            Ok(true)
        })?;
        Ok(found)
    }

    pub(crate) fn copy_key(
        &self,
        record: &Record,
        out: &mut Vec<u8>,
        still: &dyn Fn() -> bool,
    ) -> Result<()> {
        let bytes = record.header.key_bytes;
        if bytes > MAX_KEY_BYTES {
            return Err(Error::corrupt("a record's key length exceeds the maximum", record.off));
        }
        let skip = record.skip();
        if skip == 0 {
            return self.copy(record, 0..bytes, out, still);
        }
        out.resize(bytes, 0);
        let (first, rest) = out.split_at_mut(skip);
        if record.in_slot.is_none() {
            self.store.copy(record.body(), 0, rest)?;
        }
        first.copy_from_slice(&self.first_of(record, rest)?[..skip]);
        Ok(())
    }

    pub(crate) fn copy_value(
        &self,
        record: &Record,
        out: &mut Vec<u8>,
        still: &dyn Fn() -> bool,
    ) -> Result<()> {
        let bytes = record.header.value_bytes;
        if bytes > MAX_VALUE_BYTES {
            return Err(Error::corrupt("a record's value length exceeds the maximum", record.off));
        }
        if let Some(in_slot) = record.in_slot {
            out.clear();
            out.extend_from_slice(&in_slot[..bytes]);
            return Ok(());
        }
        let start = record.header.key_bytes - record.skip();
        self.copy(record, start..start + bytes, out, still)
    }

    /// The first word of a record's value.
    pub(crate) fn first_word(&self, record: &Record) -> Result<u64> {
        let mut word = [0; 8];
        if record.in_slot.is_some() {
            return Ok(NEVER);
        }
        if record.header.value_bytes < word.len() {
            return Err(Error::corrupt("a value has no word before it", record.off));
        }
        self.store.copy(record.body(), record.header.key_bytes - record.skip(), &mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    /// Copies these of the bytes of a record's body, if `still` allows that `out` grows for it.
    fn copy(
        &self,
        record: &Record,
        range: Range<usize>,
        out: &mut Vec<u8>,
        still: &dyn Fn() -> bool,
    ) -> Result<()> {
        if range.len() > out.capacity() && !still() {
            return Ok(());
        }
        out.resize(range.len(), 0);
        self.store.copy(record.body(), range.start, out)
    }

    /// True if a key whose hash is `key_hash` belongs to slot `h`.
    pub(crate) fn of_slot(&self, record: &Record, h: u64, key_hash: KeyHash) -> Result<()> {
        if self.hashes.h(key_hash) == h {
            Ok(())
        } else {
            Err(Error::corrupt("a slot names a record with another hash", record.off))
        }
    }

    /// Verifies the checksum of a record that was copied.
    pub(crate) fn verify(&self, record: &Record, key_hash: KeyHash, value: &[u8]) -> Result<()> {
        let Header { lengths, next, checksum, .. } = record.header;
        let sum = match record.cell {
            _ if record.in_slot.is_some() => return Ok(()),
            Some(cell) => cell.kept(self.hashes.cell_checksum(key_hash, value)),
            None => self.hashes.checksum(key_hash, lengths, next, value),
        };
        if sum == checksum {
            Ok(())
        } else {
            Err(Error::corrupt("a record's checksum does not match", record.off))
        }
    }

    /// True if the record at `off` need not be verified. A reader asks before it validates what it relied on.
    pub(crate) fn is_known(&self, off: u64) -> bool {
        self.known.as_ref().is_some_and(|known| known.has(off))
    }

    /// Takes note of a record that was written, or found to be intact.
    #[inline]
    pub(crate) fn add_known(&self, off: u64) {
        if let Some(known) = &self.known {
            known.add(off);
        }
    }

    /// A record that is locked, whole and verified.
    pub(crate) fn load(&self, record: &Record) -> Result<Pair> {
        let mut pair = (Vec::new(), Vec::new());
        self.copy_key(record, &mut pair.0, &always)?;
        self.copy_value(record, &mut pair.1, &always)?;
        self.verify(record, self.hashes.key(&pair.0), &pair.1)?;
        Ok(pair)
    }

    /// The record of this name, where there are no cells.
    pub(crate) fn at(&self, name: u64) -> Result<Record> {
        self.record(0, name)
    }

    /// The key and value of a record of slot `h`, verified.
    pub(crate) fn load_of(&self, h: u64, name: u64) -> Result<Pair> {
        let record = self.record(h, name)?;
        let pair = self.load(&record)?;
        self.of_slot(&record, h, self.hashes.key(&pair.0))?;
        Ok(pair)
    }

    /// The record of this name, which is locked, and surely of slot `h`; verified where that is not known, or where its
    /// `next` is about to be trusted.
    pub(crate) fn first(&self, h: u64, name: u64) -> Result<Record> {
        let record = self.record(h, name)?;
        if record.in_slot.is_some() {
            return Ok(record);
        }
        if let Some(cell) = record.cell {
            return self.check_cell(&record, cell).map(|()| record);
        }
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.copy_key(&record, &mut key, &always)?;
        let key_hash = self.hashes.key(&key);
        self.of_slot(&record, h, key_hash)?;
        if record.header.next != 0 || !self.is_known(record.off) {
            self.copy_value(&record, &mut value, &always)?;
            self.verify(&record, key_hash, &value)?;
        }
        Ok(record)
    }

    /// The same of a cell, in one look.
    fn check_cell(&self, record: &Record, cell: Cell) -> Result<()> {
        // Room for a key, whose first word does not stand there, and for what does.
        let mut room = [0; 8 + cell::BYTES_MAX];
        let (skip, key_bytes) = (cell.skip(), cell.key_bytes());
        self.store.copy(record.body(), 0, &mut room[skip..key_bytes + cell.value_bytes()])?;
        let (key, value) = room[..key_bytes + cell.value_bytes()].split_at_mut(key_bytes);
        if skip > 0 {
            let word = self.first_of(record, &key[skip..])?;
            key[..skip].copy_from_slice(&word[..skip]);
        }
        let key_hash = self.hashes.key(key);
        self.of_slot(record, record.h, key_hash)?;
        self.verify(record, key_hash, value)
    }

    /// The first word of a cell's key, whose rest is this.
    fn first_of(&self, record: &Record, rest: &[u8]) -> Result<[u8; 8]> {
        let word = self.hashes.first(record.h, rest).to_le_bytes();
        if word[record.skip()..].iter().any(|b| *b != 0) {
            return Err(Error::corrupt("the hash of a slot is not one of its keys", record.off));
        }
        Ok(word)
    }

    /// True if a name is a cell's, and the kind of its extent says that there is no such cell. Lookups do not ask.
    pub(crate) fn is_displaced(&self, name: u64) -> bool {
        let is_cell = is_cell(name) && self.value_in(name).is_none();
        self.cell.filter(|_| is_cell).is_some_and(|cell| {
            !matches!(self.store.block_bytes(offset(name)), Ok(bytes) if bytes == cell.bytes())
        })
    }

    /// Marks every record of the chain that `payload`, of slot `h`, begins, as far as damage lets it be followed: the
    /// rest cannot be read either, and must not keep the space of all others. Where a cell is sound, but the
    /// kind of its extent is not, nothing else there is given away.
    pub(crate) fn mark_chain(&self, h: u64, payload: u64) -> Result<()> {
        let mut name = payload;
        is_whole(self.walk((h, payload), &always, &mut |record| {
            if record.in_slot.is_none() {
                self.store.mark(record.off)?;
            }
            let named = std::mem::replace(&mut name, record.header.next);
            if self.is_displaced(named) && self.load(&record).is_ok() {
                self.store.keep_extent(record.off);
            }
            Ok(true)
        }))
        .map(drop)
    }
}

/// True if a walk came to its end; damage on the way is no error here.
pub(crate) fn is_whole(walked: Result<()>) -> Result<bool> {
    match walked {
        Err(e) if is_damage(&e) => Ok(false),
        walked => walked.map(|()| true),
    }
}

pub(crate) fn is_damage(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Corrupt { .. })
}
