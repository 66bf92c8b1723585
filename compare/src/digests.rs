//! Keys and values of fixed sizes, as digests are, made of the words that a table is asked for.

use durahash::{Data, Map};
use durahash_bench::Result;
use durahash_bench::driver::Table;

use crate::store::{Bytes, word};

/// A map of such keys and values.
pub(crate) trait Fixed<const K: usize, const V: usize>: Send + Sync {
    /// The first word of the value, so that it must be reached.
    fn get(&self, key: &[u8; K]) -> Result<Option<u64>>;

    fn put(&self, key: [u8; K], value: [u8; V]) -> Result<()>;

    fn remove(&self, key: &[u8; K]) -> Result<bool>;

    fn get_many(&self, keys: &[[u8; K]], out: &mut [Option<u64>]) -> Result<()> {
        for (key, out) in keys.iter().zip(out) {
            *out = self.get(key)?;
        }
        Ok(())
    }

    fn put_many(&self, pairs: &[([u8; K], [u8; V])]) -> Result<()> {
        pairs.iter().try_for_each(|(key, value)| self.put(*key, *value))
    }
}

/// A table of words, on a map of fixed sizes.
pub(crate) struct Digests<S, const K: usize, const V: usize>(pub(crate) S);

/// The bytes of a word, and numbers made of it behind them.
fn spread<const N: usize>(word: u64) -> [u8; N] {
    let mut bytes = [0; N];
    for (chunk, i) in bytes.chunks_mut(8).zip(1..) {
        let word = word.wrapping_mul(i) ^ (i >> 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    bytes
}

impl<S: Fixed<K, V>, const K: usize, const V: usize> Table for Digests<S, K, V> {
    #[inline]
    fn get(&self, key: u64) -> Result<Option<u64>> {
        self.0.get(&spread(key))
    }

    #[inline]
    fn put(&self, key: u64, value: u64) -> Result<()> {
        self.0.put(spread(key), spread(value))
    }

    fn remove(&self, key: u64) -> Result<bool> {
        self.0.remove(&spread(key))
    }

    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) -> Result<()> {
        let keys: Vec<[u8; K]> = keys.iter().map(|key| spread(*key)).collect();
        self.0.get_many(&keys, out)
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        let pairs: Vec<_> =
            pairs.iter().map(|(key, value)| (spread(*key), spread(*value))).collect();
        self.0.put_many(&pairs)
    }
}

impl<const K: usize, const V: usize> Fixed<K, V> for Map<[u8; K], [u8; V]>
where
    [u8; K]: Data<Ref = [u8; K]>,
    [u8; V]: Data<Ref = [u8; V], Owned = [u8; V]>,
{
    #[inline]
    fn get(&self, key: &[u8; K]) -> Result<Option<u64>> {
        self.get_with(key, |value| word(value))?.transpose()
    }

    #[inline]
    fn put(&self, key: [u8; K], value: [u8; V]) -> Result<()> {
        Ok(Map::put(self, &key, &value)?)
    }

    fn remove(&self, key: &[u8; K]) -> Result<bool> {
        Ok(Map::remove(self, key)?.is_some())
    }

    fn get_many(&self, keys: &[[u8; K]], out: &mut [Option<u64>]) -> Result<()> {
        let mut values = vec![None; keys.len()];
        Map::get_many(self, keys, &mut values)?;
        for (out, value) in out.iter_mut().zip(values) {
            *out = value.as_ref().map(|value| word(value)).transpose()?;
        }
        Ok(())
    }

    fn put_many(&self, pairs: &[([u8; K], [u8; V])]) -> Result<()> {
        Ok(Map::put_many(self, pairs)?)
    }
}

/// A store of byte strings.
pub(crate) struct OnBytes<S>(pub(crate) S);

impl<S: Bytes, const K: usize, const V: usize> Fixed<K, V> for OnBytes<S> {
    fn get(&self, key: &[u8; K]) -> Result<Option<u64>> {
        self.0.get(key)
    }

    fn put(&self, key: [u8; K], value: [u8; V]) -> Result<()> {
        self.0.put(&key, &value)
    }

    fn remove(&self, key: &[u8; K]) -> Result<bool> {
        self.0.remove(key)
    }
}
