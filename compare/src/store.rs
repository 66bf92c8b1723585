//! The measured tables, and how the two kinds of data reach them: words, and byte strings by number.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use durahash_bench::driver::{self, BATCH, Run, Table, Timed};
use durahash_bench::workload::{Op, Workload};
use durahash_bench::{Error, Result};

use crate::strings::Strings;

/// A table that is measured, of whatever type.
pub(crate) trait Subject: Table + Send {
    /// [`driver::run`] of this table, with everything inlined into it.
    fn measure(&self, workload: Workload, streams: &[Vec<Op>]) -> Result<Run>;
}

impl<T: Table + Send> Subject for T {
    fn measure(&self, workload: Workload, streams: &[Vec<Op>]) -> Result<Run> {
        driver::run(self, workload, streams, Timed::Whole)
    }
}

/// A key and its value.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

/// A map of byte strings. A lookup gives the first word of the value, so that it must be reached.
pub(crate) trait Bytes: Send + Sync {
    fn get(&self, key: &[u8]) -> Result<Option<u64>>;

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    fn remove(&self, key: &[u8]) -> Result<bool>;

    fn get_many(&self, keys: &[&[u8]], out: &mut [Option<u64>]) -> Result<()> {
        for (key, out) in keys.iter().zip(out) {
            *out = self.get(key)?;
        }
        Ok(())
    }

    fn put_many(&self, pairs: &[Pair<'_>]) -> Result<()> {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    /// How many pairs `put_many` likes best.
    fn put_batch(&self) -> usize {
        BATCH
    }
}

/// The first word of a value.
#[inline]
pub(crate) fn word(value: &[u8]) -> Result<u64> {
    match value.first_chunk() {
        Some(word) => Ok(u64::from_le_bytes(*word)),
        None => Err(wrong(format!("a value of {} bytes", value.len()))),
    }
}

pub(crate) fn wrong(what: String) -> Error {
    Error::Wrong { what }
}

/// The error of another store.
pub(crate) fn says(e: impl StdError + Send + Sync + 'static) -> Error {
    Error::Io { doing: "another store", path: None, source: io::Error::other(e) }
}

/// A map of words, on one of byte strings.
pub(crate) struct Words<S>(pub(crate) S);

impl<S: Bytes> Table for Words<S> {
    #[inline]
    fn get(&self, key: u64) -> Result<Option<u64>> {
        self.0.get(&key.to_le_bytes())
    }

    #[inline]
    fn put(&self, key: u64, value: u64) -> Result<()> {
        self.0.put(&key.to_le_bytes(), &value.to_le_bytes())
    }

    fn remove(&self, key: u64) -> Result<bool> {
        self.0.remove(&key.to_le_bytes())
    }

    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) -> Result<()> {
        let keys: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        self.0.get_many(&keys, out)
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        let bytes = |(key, value): &(u64, u64)| (key.to_le_bytes(), value.to_le_bytes());
        let pairs: Vec<([u8; 8], [u8; 8])> = pairs.iter().map(bytes).collect();
        let pairs: Vec<Pair<'_>> = pairs.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        self.0.put_many(&pairs)
    }

    fn put_batch(&self) -> usize {
        self.0.put_batch()
    }
}

/// A map of byte strings whose keys and values are named by number.
pub(crate) struct Numbered<S> {
    pub(crate) store: S,
    pub(crate) strings: Arc<Strings>,
}

impl<S> Numbered<S> {
    /// A value that was found is the right one.
    #[inline]
    fn checked(&self, number: u64, found: Option<u64>) -> Result<Option<u64>> {
        match found {
            Some(found) if Ok(found) != word(self.strings.value(number)).map_err(drop) => {
                Err(wrong(format!("another key's value for key {number}")))
            }
            _ => Ok(found),
        }
    }
}

impl<S: Bytes> Table for Numbered<S> {
    #[inline]
    fn get(&self, number: u64) -> Result<Option<u64>> {
        self.checked(number, self.store.get(self.strings.key(number))?)
    }

    #[inline]
    fn put(&self, number: u64, _value: u64) -> Result<()> {
        let strings = &self.strings;
        self.store.put(strings.key(number), strings.value(number))
    }

    fn remove(&self, number: u64) -> Result<bool> {
        self.store.remove(self.strings.key(number))
    }

    fn get_many(&self, numbers: &[u64], out: &mut [Option<u64>]) -> Result<()> {
        let keys: Vec<&[u8]> = numbers.iter().map(|n| self.strings.key(*n)).collect();
        self.store.get_many(&keys, out)?;
        for (number, found) in numbers.iter().zip(out) {
            self.checked(*number, *found)?;
        }
        Ok(())
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        let strings = &self.strings;
        let pair = |(number, _): &(u64, u64)| (strings.key(*number), strings.value(*number));
        let pairs: Vec<Pair<'_>> = pairs.iter().map(pair).collect();
        self.store.put_many(&pairs)
    }

    fn put_batch(&self) -> usize {
        self.store.put_batch()
    }
}
