//! Byte strings in the pool, read: records, and chains of those whose hashes are equal.
//!
//! A slot's payload names one record; further keys of the same hash hang on it by `next`. Chains are longer
//! than one record practically only in tests, which shorten the hash.
//!
//! Readers copy a record between two reads of the bucket's version. What they load may be stale or
//! reused meanwhile; they ask before they trust a length that would grow a buffer, and verify the
//! checksum once the version was found unchanged.

use std::ops::Range;
use std::sync::Arc;

use durahash_media::{Error, ErrorKind, Result};

use super::record::{Hashes, Header, MAX_KEY_BYTES, MAX_VALUE_BYTES, Store, offset};
use crate::util::cycle::CycleDetector;

/// A key and its value, as bytes.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A record where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) off: u64,
    pub(crate) header: Header,
}

/// The records of a pool.
pub(crate) struct Records {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hashes: Hashes,
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

    /// Calls `f` with each record of the chain that `payload` begins, until it says false.
    pub(crate) fn walk(
        &self,
        payload: u64,
        still: &dyn Fn() -> bool,
        f: &mut dyn FnMut(Record) -> Result<bool>,
    ) -> Result<()> {
        let mut name = payload;
        let mut cycle = CycleDetector::default();
        loop {
            let header = self.store.header(name)?;
            let off = offset(name);
            if !f(Record { off, header })? || header.next == 0 || !still() {
                return Ok(());
            }
            name = header.next;
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
        self.walk(payload, still, &mut |record| {
            if self.store.key_is(record.off, &record.header, key)? {
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
        self.copy(record, 0..bytes, out, still)
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
        self.copy(record, record.header.key_bytes..record.header.key_bytes + bytes, out, still)
    }

    /// Copies these of the bytes behind a record's header, if `still` allows that `out` grows for it.
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
        self.store.copy(record.off, range.start, out)
    }

    /// True if a key whose hash is `key_hash` belongs to slot `h`.
    pub(crate) fn of_slot(&self, record: &Record, h: u64, key_hash: u64) -> Result<()> {
        if self.hashes.h(key_hash) == h {
            Ok(())
        } else {
            Err(Error::corrupt("a slot names a record with another hash", record.off))
        }
    }

    /// Verifies the checksum of a record that was copied.
    pub(crate) fn verify(&self, record: &Record, key_hash: u64, value: &[u8]) -> Result<()> {
        let Header { lengths, next, checksum, .. } = record.header;
        if self.hashes.checksum(key_hash, lengths, next, value) == checksum {
            Ok(())
        } else {
            Err(Error::corrupt("a record's checksum does not match", record.off))
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

    /// The record of this name.
    pub(crate) fn at(&self, name: u64) -> Result<Record> {
        let header = self.store.header(name)?;
        Ok(Record { off: offset(name), header })
    }

    /// The key and value of a record of slot `h`, verified.
    pub(crate) fn load_of(&self, h: u64, name: u64) -> Result<Pair> {
        let record = self.at(name)?;
        let pair = self.load(&record)?;
        self.of_slot(&record, h, self.hashes.key(&pair.0))?;
        Ok(pair)
    }

    /// Marks every record of the chain that `payload` begins, as far as damage lets it be followed.
    pub(crate) fn mark_chain(&self, payload: u64) -> Result<()> {
        is_whole(
            self.walk(payload, &always, &mut |record| self.store.mark(record.off).map(|_| true)),
        )
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
