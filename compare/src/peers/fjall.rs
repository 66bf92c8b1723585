//! fjall.

use std::path::Path;

use durahash_bench::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::store::{Bytes, Pair, says, word};

/// Pairs of a batch, which fjall writes to its journal as a whole.
const BATCH: usize = 10_000;

pub(crate) struct Fjall {
    database: Database,
    pairs: Keyspace,
    /// True if every insert and batch is synced.
    synced: bool,
}

impl Fjall {
    /// With `buffered`, the end of the journal stays in this process's memory.
    pub(crate) fn open(dir: &Path, cache_bytes: usize, buffered: bool) -> Result<Self> {
        let database = Database::builder(dir)
            .cache_size(cache_bytes as u64)
            .manual_journal_persist(buffered)
            .open()
            .map_err(says)?;
        let options = || KeyspaceCreateOptions::default().manual_journal_persist(buffered);
        let pairs = database.keyspace("pairs", options).map_err(says)?;
        Ok(Fjall { database, pairs, synced: false })
    }

    /// The same, with every insert and batch on the disk when it returns.
    pub(crate) fn open_synced(dir: &Path, cache_bytes: usize) -> Result<Self> {
        Ok(Fjall { synced: true, ..Self::open(dir, cache_bytes, true)? })
    }

    fn sync(&self) -> Result<()> {
        match self.synced {
            true => self.database.persist(PersistMode::SyncData).map_err(says),
            false => Ok(()),
        }
    }
}

impl Bytes for Fjall {
    fn get(&self, key: &[u8]) -> Result<Option<u64>> {
        let value = self.pairs.get(key).map_err(says)?;
        value.map(|value| word(&value)).transpose()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.pairs.insert(key, value).map_err(says)?;
        self.sync()
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        let found = self.pairs.contains_key(key).map_err(says)?;
        self.pairs.remove(key).map_err(says)?;
        Ok(found)
    }

    fn put_many(&self, pairs: &[Pair<'_>]) -> Result<()> {
        let mut batch = self.database.batch();
        for (key, value) in pairs {
            batch.insert(&self.pairs, *key, *value);
        }
        batch.commit().map_err(says)?;
        self.sync()
    }

    fn put_batch(&self) -> usize {
        BATCH
    }
}
