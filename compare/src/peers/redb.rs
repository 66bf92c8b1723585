//! redb.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::Path;

use durahash_bench::Result;
use redb::backends::FileBackend;
use redb::{
    BackendError, Builder, Database, Durability, ReadableDatabase, StorageBackend, TableDefinition,
};

use super::{TRANSACTION, sorted};
use crate::store::{Bytes, Pair, says, word};

const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

/// When commits reach the file, and the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sync {
    /// The file at some time.
    Never,
    /// The file; the disk when the system writes its page cache.
    File,
    /// The disk.
    Disk,
}

pub(crate) struct Redb {
    database: Database,
    durability: Durability,
}

impl Redb {
    pub(crate) fn open(dir: &Path, cache_bytes: usize, sync: Sync) -> Result<Self> {
        let path = dir.join("redb");
        let mut file = File::options();
        let file = file.read(true).write(true).create(true).truncate(false);
        let backend = FileBackend::new(file.open(path).map_err(says)?).map_err(says)?;
        let mut builder = Builder::new();
        builder.set_cache_size(cache_bytes);
        let database = match sync {
            Sync::File => builder.create_with_backend(Unsynced(backend)),
            Sync::Never | Sync::Disk => builder.create_with_backend(backend),
        };
        let redb = Redb {
            database: database.map_err(says)?,
            durability: match sync {
                Sync::Never => Durability::None,
                Sync::File | Sync::Disk => Durability::Immediate,
            },
        };
        redb.write(&[]).map_err(says)?;
        Ok(redb)
    }

    fn write(&self, pairs: &[Pair<'_>]) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        let mut table = transaction.open_table(PAIRS)?;
        for (key, value) in pairs {
            table.insert(key, value)?;
        }
        drop(table);
        Ok(transaction.commit()?)
    }

    fn read(
        &self,
        keys: &[&[u8]],
        mut found: impl FnMut(Option<&[u8]>),
    ) -> Result<(), redb::Error> {
        let table = self.database.begin_read()?.open_table(PAIRS)?;
        for key in keys {
            found(table.get(key)?.as_ref().map(|value| value.value()));
        }
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<bool, redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(self.durability)?;
        let found = transaction.open_table(PAIRS)?.remove(key)?.is_some();
        transaction.commit()?;
        Ok(found)
    }
}

impl Bytes for Redb {
    fn get(&self, key: &[u8]) -> Result<Option<u64>> {
        let mut out = [None];
        self.get_many(&[key], &mut out)?;
        Ok(out[0])
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(&[(key, value)]).map_err(says)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        self.delete(key).map_err(says)
    }

    fn get_many(&self, keys: &[&[u8]], out: &mut [Option<u64>]) -> Result<()> {
        let mut out = out.iter_mut();
        let mut all = Ok(());
        let found = |value: Option<&[u8]>| match (out.next(), value.map(word).transpose()) {
            (Some(out), Ok(word)) => *out = word,
            (_, Err(e)) => all = Err(e),
            (None, Ok(_)) => {}
        };
        self.read(keys, found).map_err(says)?;
        all
    }

    fn put_many(&self, pairs: &[Pair<'_>]) -> Result<()> {
        self.write(&sorted(pairs)).map_err(says)
    }

    fn put_batch(&self) -> usize {
        TRANSACTION
    }
}

/// A file that is written, but never forced to the disk.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }
}
