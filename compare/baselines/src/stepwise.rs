//! A client of the simulated fabric that waits for what SepHash does not wait for.

use durahash_media::Result;
use durahash_remote::fabric::{Addr, Batch, Counts, Done, Fabric, Kind, SimClient};

/// A completion that is awaited, beyond those that SepHash awaits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Awaited {
    #[default]
    Nothing,
    /// Writes that nobody waits for, before an operation ends: hints.
    Hints,
    /// Writes of a batch, before its reads are posted: a block, before its segment is looked at.
    Blocks,
}

/// The client, with what is waited for.
#[derive(Clone)]
pub(crate) struct Stepwise {
    pub(crate) client: SimClient,
    pub(crate) awaited: Awaited,
}

impl Stepwise {
    /// Awaits what an operation leaves unawaited.
    pub(crate) async fn end(&self) -> Result<()> {
        if self.awaited == Awaited::Hints {
            for node in 0..self.nodes() {
                self.flush(node).await?;
            }
        }
        Ok(())
    }

    /// Posts the writes of a batch, then the others.
    async fn post_apart(&self, batch: Batch) -> Result<Done> {
        let (verbs, out, _) = batch.into_parts();
        let (mut writes, mut others) = (Batch::new(), Batch::new());
        for verb in &verbs {
            match verb.kind {
                Kind::Write => {
                    writes.write(verb.addr, &out[verb.start as usize..][..verb.len as usize])
                }
                Kind::Read => others.read(verb.addr, verb.len as usize),
                Kind::CompareSwap { old, new } => others.compare_swap(verb.addr, old, new),
                Kind::FetchAdd { n } => others.fetch_add(verb.addr, n),
            };
        }
        self.client.post(writes).await?;
        let count = others.len();
        let done = self.client.post(others).await?;
        // What comes back stands in the order of the verbs, in both.
        let back = (0..count).flat_map(|i| done.bytes(i)).copied().collect();
        Ok(Done::new(verbs, back))
    }
}

impl Fabric for Stepwise {
    async fn post(&self, batch: Batch) -> Result<Done> {
        match self.awaited {
            Awaited::Blocks => self.post_apart(batch).await,
            Awaited::Nothing | Awaited::Hints => self.client.post(batch).await,
        }
    }

    fn write_unsignaled(&self, addr: Addr, bytes: &[u8]) -> Result<()> {
        self.client.write_unsignaled(addr, bytes)
    }

    async fn flush(&self, node: u8) -> Result<()> {
        self.client.flush(node).await
    }

    fn nodes(&self) -> u8 {
        self.client.nodes()
    }

    fn node_bytes(&self, node: u8) -> u64 {
        self.client.node_bytes(node)
    }

    fn now_ns(&self) -> u64 {
        self.client.now_ns()
    }

    async fn sleep_ns(&self, ns: u64) {
        self.client.sleep_ns(ns).await;
    }

    fn counts(&self) -> Counts {
        self.client.counts()
    }

    fn row(&self) -> u32 {
        self.client.row()
    }

    fn max_clients(&self) -> u32 {
        self.client.max_clients()
    }

    fn lease_ns(&self) -> Option<u64> {
        self.client.lease_ns()
    }

    async fn evict(&self, row: u32) -> Result<bool> {
        self.client.evict(row).await
    }
}
