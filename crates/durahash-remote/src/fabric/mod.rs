//! The way to remote memory: one-sided verbs on regions that nodes lend out.
//!
//! A [`Batch`] of verbs is posted together and awaited together: one round trip. Every fabric guarantees:
//!
//! - **No order** between verbs, of one batch or of several, except through awaiting:
//!   all of a batch takes effect after it was posted and before its future is ready.
//! - A read or write of more than one word takes effect word by word, at different times and in any
//!   order. A word is 8 bytes at an offset that is a multiple of 8; the bytes of one verb in one word
//!   take effect together.
//! - [`compare_swap`](Batch::compare_swap) and [`fetch_add`](Batch::fetch_add) are atomic among
//!   themselves and to reads and writes of that word.
//! - An awaited write is visible to every later read of any client.
//! - A [write that is not awaited](Fabric::write_unsignaled) takes effect at any time until a
//!   [`flush`](Fabric::flush) of its node, posted after it, is ready.
//! - When a client dies, each word of each verb under way takes effect or does not, at any time until
//!   the client is [evicted](Fabric::evict). The same holds of writes that are not flushed
//!   when the last handle of a client is dropped.
//!
//! Numbers in memory are little-endian.

mod addr;
mod batch;
mod counts;
mod local;
mod sim;

pub use addr::Addr;
pub use batch::{Batch, Done, Kind, Verb};
pub use counts::Counts;
pub(crate) use local::beside::Beside;
pub use local::{Local, LocalClient, LocalOptions};
pub use sim::{Chaos, Choice, Hook, Nic, Sim, SimClient, SimOptions, Stage, VerbEvent};

use std::io;

use durahash_media::{Error, Result};

/// The error of a fabric when live clients have all rows: an [`Io`](durahash_media::ErrorKind::Io) of the
/// kind [`ResourceBusy`](io::ErrorKind::ResourceBusy).
#[must_use]
pub fn no_row(max_clients: u32) -> Error {
    let what = format!(
        "the client table is full: all {max_clients} clients are alive; try again when one has left"
    );
    Error::io("registering a client", None, io::Error::new(io::ErrorKind::ResourceBusy, what))
}

/// A client's endpoint on a fabric. Clones are the same client: each of its coroutines has one.
///
/// **Concurrency.** A future posts when it is first polled. Dropping it afterwards cancels
/// nothing: its verbs still take effect, or fail silently.
pub trait Fabric: Clone + 'static {
    /// Posts the verbs of `batch`; ready when all of them have taken effect. One round trip, or none
    /// when the batch is empty.
    ///
    /// # Errors
    /// [`OutOfRegion`](durahash_media::ErrorKind::OutOfRegion) and
    /// [`Unaligned`](durahash_media::ErrorKind::Unaligned) when a verb is invalid; then none was posted.
    /// [`NodeLost`](durahash_media::ErrorKind::NodeLost) when a node did not answer within the
    /// fabric's deadline: each verb may have taken effect, and those to a lost node may still do so.
    /// [`Evicted`](durahash_media::ErrorKind::Evicted) when the nodes no longer accept verbs of this client;
    /// verbs that it posted before may have taken effect.
    fn post(&self, batch: Batch) -> impl Future<Output = Result<Done>>;

    /// Posts a write that is not awaited.
    ///
    /// # Errors
    /// As [`post`](Fabric::post) for an invalid verb; the next flush reports other failures.
    fn write_unsignaled(&self, addr: Addr, bytes: &[u8]) -> Result<()>;

    /// Waits until all writes to `node` that this client did not await have taken
    /// effect. One round trip, or none when there are no such writes.
    ///
    /// # Errors
    /// As [`post`](Fabric::post), for those writes.
    fn flush(&self, node: u8) -> impl Future<Output = Result<()>>;

    /// The number of nodes; they are numbered from 0.
    fn nodes(&self) -> u8;

    /// Bytes of the region of `node`.
    ///
    /// # Panics
    /// When there is no such node.
    fn node_bytes(&self, node: u8) -> u64;

    /// Nanoseconds since an arbitrary start, which may differ between clients.
    fn now_ns(&self) -> u64;

    /// Waits for `ns` nanoseconds, and at least until other tasks had a chance to run.
    fn sleep_ns(&self, ns: u64) -> impl Future<Output = ()>;

    /// This client's verbs since it was created.
    fn counts(&self) -> Counts;

    /// The row of this client in the client table: no other live client of the fabric has the same.
    ///
    /// The row of a client that left, or was evicted, is given out again; without a
    /// [lease](Fabric::lease_ns) a client that dies is evicted at once. When the next client has the row, no verb of the
    /// previous one takes effect any more, but what it wrote remains in memory.
    fn row(&self) -> u32;

    /// The number of rows: clients at once, at most.
    fn max_clients(&self) -> u32;

    /// Nanoseconds for which a client must have been silent before it may be evicted; `None` when the fabric
    /// knows for certain which clients are dead, and evicts no others.
    fn lease_ns(&self) -> Option<u64>;

    /// Whether a compare-and-swap of this client takes effect after all its writes and compare-and-swaps to that node that
    /// it posted before, and not unless all these did. A batch is posted when its future is first polled, and its verbs in
    /// the order in which they were added. Writes that are not awaited do not count.
    fn orders_swaps(&self) -> bool {
        false
    }

    /// Another client of the same memory, where this one has lost a node: the nodes are asked whether they are there
    /// again, which blocks for as long as connecting takes. `None` where no node is lost, or the fabric knows no way back.
    ///
    /// # Errors
    /// When a node is not there, or has other memory; those of a new client.
    fn again(&self) -> Option<Result<Self>> {
        None
    }

    /// Shuts out the client of `row`: no verb of it takes effect afterwards. Returns `true` for a free row, and `false`
    /// when the client is alive and the fabric does not evict live clients.
    ///
    /// Without a [lease](Fabric::lease_ns) only a client that died or left is evicted. With a lease the client of the row
    /// is evicted even if it lives, and its later verbs fail with `Evicted`: the caller must have
    /// seen that it was silent for a lease.
    ///
    /// # Errors
    /// As [`post`](Fabric::post), and when the fabric cannot find out whether the client is alive.
    fn evict(&self, row: u32) -> impl Future<Output = Result<bool>>;
}
