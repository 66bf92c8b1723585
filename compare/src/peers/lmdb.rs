//! LMDB, through heed.

use std::path::Path;

use durahash_bench::Result;
use heed::types::Bytes as Raw;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, WithTls};

use super::{TRANSACTION, sorted};
use crate::store::{Bytes, Pair, says, word};

/// Bytes of address space; the file is as long, but sparse.
const MAP_BYTES: usize = 64 << 30;

pub(crate) struct Lmdb {
    env: Env<WithTls>,
    pairs: Database<'static, Raw, Raw>,
}

impl Lmdb {
    #[expect(unsafe_code, reason = "heed maps a file, which others might change")]
    pub(crate) fn open(dir: &Path, flags: EnvFlags) -> Result<Self> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: the flags leave locks as they are, and say only when bytes reach the disk.
        unsafe { options.flags(flags) };
        // SAFETY: the directory is this program's own. The file in it is opened by one process at
        // a time, once, and changed by nothing else.
        let env = unsafe { options.open(dir) }.map_err(says)?;
        let transaction = env.write_txn().map_err(says)?;
        let pairs = env
            .create_databases_and_commit(transaction, |opener, transaction| {
                let pairs = opener.create_database(transaction, None);
                pairs.map(CommitOrAbort::<_, ()>::Commit)
            })
            .map_err(says)?
            .unwrap_commit();
        Ok(Lmdb { env, pairs })
    }

    fn write(&self, pairs: &[Pair<'_>]) -> heed::Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in pairs {
            self.pairs.put(&mut transaction, key, value)?;
        }
        transaction.commit()
    }
}

impl Bytes for Lmdb {
    fn get(&self, key: &[u8]) -> Result<Option<u64>> {
        let transaction = self.env.read_txn().map_err(says)?;
        let value = self.pairs.get(&transaction, key).map_err(says)?;
        value.map(word).transpose()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(&[(key, value)]).map_err(says)
    }

    fn remove(&self, key: &[u8]) -> Result<bool> {
        let mut transaction = self.env.write_txn().map_err(says)?;
        let found = self.pairs.delete(&mut transaction, key).map_err(says)?;
        transaction.commit().map_err(says)?;
        Ok(found)
    }

    fn get_many(&self, keys: &[&[u8]], out: &mut [Option<u64>]) -> Result<()> {
        let transaction = self.env.read_txn().map_err(says)?;
        for (key, out) in keys.iter().zip(out) {
            let value = self.pairs.get(&transaction, key).map_err(says)?;
            *out = value.map(word).transpose()?;
        }
        Ok(())
    }

    fn put_many(&self, pairs: &[Pair<'_>]) -> Result<()> {
        self.write(&sorted(pairs)).map_err(says)
    }

    fn put_batch(&self) -> usize {
        TRANSACTION
    }
}
