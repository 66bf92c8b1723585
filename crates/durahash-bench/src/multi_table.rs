//! The operations that are measured of tables with many values for a key.

use durahash::MultiMap;

use crate::error::Result;

/// A table of words with any number of words for each. Every operation is as durable, when it
/// returns, as the table promises.
pub trait MultiTable: Sync {
    /// Adds a value of `key`.
    fn add(&self, key: u64, value: u64) -> Result<()>;

    /// A copy of all values of `key`, in no order.
    fn get_all(&self, key: u64) -> Result<Vec<u64>>;

    /// How many values `key` has.
    fn count(&self, key: u64) -> Result<u64>;

    /// Removes one value of `key`; true if it was there.
    fn remove_one(&self, key: u64, value: u64) -> Result<bool>;

    /// Removes all values of `key`; returns their number.
    fn remove_all(&self, key: u64) -> Result<u64>;

    /// Bytes in use on the medium: of buckets and what leads to them, and of values elsewhere.
    fn medium_bytes(&self) -> Result<[u64; 2]>;

    /// Keys whose values lie elsewhere than in their buckets.
    fn lists(&self) -> Result<u64>;
}

impl MultiTable for MultiMap<u64, u64> {
    fn add(&self, key: u64, value: u64) -> Result<()> {
        Ok(MultiMap::add(self, &key, &value)?)
    }

    fn get_all(&self, key: u64) -> Result<Vec<u64>> {
        Ok(MultiMap::get_all(self, &key)?)
    }

    fn count(&self, key: u64) -> Result<u64> {
        Ok(MultiMap::count(self, &key)?)
    }

    fn remove_one(&self, key: u64, value: u64) -> Result<bool> {
        Ok(MultiMap::remove_one(self, &key, &value)?)
    }

    fn remove_all(&self, key: u64) -> Result<u64> {
        Ok(MultiMap::remove_all(self, &key)?)
    }

    fn medium_bytes(&self) -> Result<[u64; 2]> {
        let stats = self.stats()?;
        Ok([stats.index.medium_bytes, stats.space.record_bytes])
    }

    fn lists(&self) -> Result<u64> {
        Ok(MultiMap::lists(self)?)
    }
}
