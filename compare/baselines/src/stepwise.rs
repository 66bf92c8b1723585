//! A client of a fabric, with what it takes beyond the verbs: its processor's time, and, to see what SepHash saves, completions that
//! SepHash does not await.

use std::cell::Cell;
use std::rc::Rc;

use durahash_media::Result;
use durahash_remote::fabric::{Addr, Batch, Counts, Done, Fabric, Kind};

use crate::assumed::Computing;

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

/// The client. Clones are the same one, and have one processor.
#[derive(Clone)]
pub(crate) struct Stepwise<F> {
    client: F,
    awaited: Awaited,
    /// What its processor takes for a batch before that is posted; nothing where a real one computes.
    computing: Computing,
    /// Its processor is free from then on, by the fabric's clock.
    free_ns: Rc<Cell<u64>>,
}

impl<F: Fabric> Stepwise<F> {
    pub(crate) fn new(client: F, awaited: Awaited, computing: Computing) -> Self {
        Stepwise { client, awaited, computing, free_ns: Rc::default() }
    }

    /// Keeps the processor for verbs, behind what the client's other coroutines have kept it for; how long until that is done.
    fn compute(&self, count: impl FnOnce(&mut Counts)) -> u64 {
        if self.computing == Computing::NONE {
            return 0;
        }
        let (mut counts, now) = (Counts::default(), self.now_ns());
        count(&mut counts);
        let ends = self.free_ns.get().max(now) + self.computing.ns(counts);
        self.free_ns.set(ends);
        ends - now
    }

    /// Awaits the writes that an operation leaves unawaited.
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
        // The bytes that come back stand in the order of the verbs, in both.
        let back = (0..count).flat_map(|i| done.bytes(i)).copied().collect();
        Ok(Done::new(verbs, back))
    }
}

/// Methods that are those of the client.
macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $ty:ty)?) -> $answer:ty;)*) => {$(
        fn $name(&self $(, $arg: $ty)?) -> $answer {
            self.client.$name($($arg)?)
        }
    )*};
}

impl<F: Fabric> Fabric for Stepwise<F> {
    async fn post(&self, batch: Batch) -> Result<Done> {
        let ns = self.compute(|counts| batch.count(counts));
        if ns != 0 {
            self.client.sleep_ns(ns).await;
        }
        match self.awaited {
            Awaited::Blocks => self.post_apart(batch).await,
            Awaited::Nothing | Awaited::Hints => self.client.post(batch).await,
        }
    }

    fn write_unsignaled(&self, addr: Addr, bytes: &[u8]) -> Result<()> {
        // The next batch of the client waits for this.
        self.compute(|counts| counts.write_unsignaled(bytes));
        self.client.write_unsignaled(addr, bytes)
    }

    async fn flush(&self, node: u8) -> Result<()> {
        self.client.flush(node).await
    }

    async fn sleep_ns(&self, ns: u64) {
        self.client.sleep_ns(ns).await;
    }

    forward! {
        fn nodes() -> u8;
        fn node_bytes(node: u8) -> u64;
        fn now_ns() -> u64;
        fn counts() -> Counts;
        fn row() -> u32;
        fn max_clients() -> u32;
        fn lease_ns() -> Option<u64>;
    }

    fn orders_swaps(&self) -> bool {
        // Else what is posted waits first, and other coroutines may overtake it.
        let at_once = self.awaited != Awaited::Blocks && self.computing == Computing::NONE;
        at_once && self.client.orders_swaps()
    }

    async fn evict(&self, row: u32) -> Result<bool> {
        self.client.evict(row).await
    }
}
