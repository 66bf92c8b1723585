//! Batches of one verb.

use durahash_media::Result;

use crate::fabric::{Addr, Batch, Done, Fabric};

use super::layout::words;

/// Posts batches: a fabric, or an operation within its lease.
pub(super) trait Post {
    async fn send(&self, batch: Batch) -> Result<Done>;

    async fn read(&self, at: Addr, len: usize) -> Result<Vec<u8>> {
        Ok(self.send(Batch::of(|batch| batch.read(at, len))).await?.into_bytes())
    }

    async fn read_words(&self, at: Addr, count: usize) -> Result<Vec<u64>> {
        Ok(words(&self.read(at, 8 * count).await?).collect())
    }

    async fn read_word(&self, at: Addr) -> Result<u64> {
        Ok(self.send(Batch::of(|batch| batch.read(at, 8))).await?.word(0))
    }

    async fn write(&self, at: Addr, bytes: &[u8]) -> Result<()> {
        self.send(Batch::of(|batch| batch.write(at, bytes))).await.map(drop)
    }

    /// Stores `new` if the word is `old`, and returns the previous word.
    async fn swap_word(&self, at: Addr, old: u64, new: u64) -> Result<u64> {
        Ok(self.send(Batch::of(|batch| batch.compare_swap(at, old, new))).await?.word(0))
    }
}

impl<F: Fabric> Post for F {
    async fn send(&self, batch: Batch) -> Result<Done> {
        self.post(batch).await
    }
}
