//! candystore.

use std::path::Path;

use candystore::{CandyStore, Config};
use durahash_bench::Result;

use crate::store::{Bytes, says, word};

pub(crate) struct Candy(CandyStore);

impl Candy {
    /// With `checkpoints`, it forces what it wrote to the disk now and then.
    pub(crate) fn open(dir: &Path, checkpoints: bool) -> Result<Self> {
        let mut config = Config::default();
        if !checkpoints {
            config.checkpoint_interval = None;
            config.checkpoint_delta_bytes = None;
        }
        CandyStore::open(dir, config).map(Candy).map_err(says)
    }
}

impl Bytes for Candy {
    fn get(&self, key: &[u8]) -> Result<Option<u64>> {
        let value = self.0.get(key).map_err(says)?;
        value.as_deref().map(word).transpose()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.set(key, value).map_err(says).map(drop)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.0.remove(key).map_err(says)?.is_some())
    }
}
