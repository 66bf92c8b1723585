//! Maps of byte strings of our own.

use std::path::Path;

use durahash::{Data, Design, Map, Options, SyncMode};
use durahash_bench::Result;

use crate::store::{Bytes, word};

/// Opens the pool in a directory, or makes one.
pub(crate) fn own<K: Data + ?Sized, V: Data + ?Sized>(
    dir: &Path,
    design: Design,
    force_flushes: bool,
) -> Result<Map<K, V>> {
    // As the others are measured: nothing is forced to the disk.
    let options = Options::new().design(design).force_flushes(force_flushes);
    let options = options.sync_mode(SyncMode::Process);
    Ok(options.open_or_create(dir.join("map.pool"))?)
}

impl Bytes for Map<[u8], [u8]> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<u64>> {
        self.get_with(key, word)?.transpose()
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(Map::put(self, key, value)?)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(Map::remove(self, key)?.is_some())
    }

    fn get_many(&self, keys: &[&[u8]], out: &mut [Option<u64>]) -> Result<()> {
        let mut values = vec![None; keys.len()];
        Map::get_many(self, keys, &mut values)?;
        for (out, value) in out.iter_mut().zip(values) {
            *out = value.as_deref().map(word).transpose()?;
        }
        Ok(())
    }

    fn put_many(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        Ok(Map::put_many(self, pairs)?)
    }
}
