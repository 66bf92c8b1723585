//! The way to remote memory: one-sided verbs on regions that nodes lend out.
//!
//! A [`Batch`] of verbs is posted together and awaited together: one round trip. What may be relied on,
//! whatever the fabric:
//!
//! - **No order** holds between verbs, neither of one batch nor of several, except through awaiting:
//!   a batch takes effect whole after it was posted and before its future is ready.
//! - A read or write of more than one word takes effect word by word, at different times and in any
//!   order. A word is 8 bytes at an offset that is a multiple of 8; the bytes of one verb in one word
//!   take effect together.
//! - [`compare_swap`](Batch::compare_swap) and [`fetch_add`](Batch::fetch_add) are atomic among
//!   themselves and to reads and writes of that word.
//! - An awaited write is visible to every later read of any client.
//! - A [write that is not awaited](Fabric::write_unsignaled) takes effect at any time until a
//!   [`flush`](Fabric::flush) of its node, posted after it, is ready.
//! - Of what a client had posted when it died, each word of each verb takes effect or does not, until
//!   the client is [evicted](Fabric::evict). The same holds of writes that a client has not flushed
//!   when its last handle is dropped.
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
pub use local::{Local, LocalClient, LocalOptions};
pub use sim::{Chaos, Choice, Hook, Moment, Nic, Sim, SimClient, SimOptions, VerbKind, What};

use std::io;

use durahash_media::{Error, Result};

/// What a fabric says when all its rows have clients that live: an [`Io`](durahash_media::ErrorKind::Io) of the
/// kind [`ResourceBusy`](io::ErrorKind::ResourceBusy).
#[must_use]
pub fn no_row(rows: u32) -> Error {
    let what = format!(
        "the table of clients is full: all {rows} of them live; try again when one has left"
    );
    Error::io("taking a row", None, io::Error::new(io::ErrorKind::ResourceBusy, what))
}

/// A client's endpoint on a fabric. Clones are the same client: its coroutines have one each.
///
/// **Concurrency.** A future posts when it is first polled. One that is dropped afterwards stops
/// nothing: its verbs take effect or fail, and nobody is told.
pub trait Fabric: Clone + 'static {
    /// Posts the verbs of `batch`; ready when all of them have taken effect. One round trip, or none
    /// when the batch is empty.
    ///
    /// # Errors
    /// [`OutOfRegion`](durahash_media::ErrorKind::OutOfRegion) and
    /// [`Unaligned`](durahash_media::ErrorKind::Unaligned) when a verb is wrong; then none was posted.
    /// [`NodeLost`](durahash_media::ErrorKind::NodeLost) when a node did not answer within the
    /// fabric's deadline: each verb may have taken effect or not, and those to a lost node may yet.
    /// [`Evicted`](durahash_media::ErrorKind::Evicted) when the nodes accept nothing from this client
    /// any more; verbs posted before that was so may have taken effect.
    fn post(&self, batch: Batch) -> impl Future<Output = Result<Done>>;

    /// Posts a write that nobody waits for.
    ///
    /// # Errors
    /// As [`post`](Fabric::post) where the verb is wrong; what else fails does at the next flush.
    fn write_unsignaled(&self, addr: Addr, bytes: &[u8]) -> Result<()>;

    /// Ready when all writes to `node` that were posted by this client and not awaited have taken
    /// effect. One round trip, or none when there are no such writes.
    ///
    /// # Errors
    /// As [`post`](Fabric::post), for those writes.
    fn flush(&self, node: u8) -> impl Future<Output = Result<()>>;

    /// How many nodes there are; they are numbered from 0.
    fn nodes(&self) -> u8;

    /// Bytes of the region of `node`.
    ///
    /// # Panics
    /// When there is no such node.
    fn node_bytes(&self, node: u8) -> u64;

    /// Nanoseconds since some start, which clients may have different ones of.
    fn now_ns(&self) -> u64;

    /// Ready after `ns` nanoseconds, and never before other tasks had a chance to run.
    fn sleep_ns(&self, ns: u64) -> impl Future<Output = ()>;

    /// What this client has done since it was made.
    fn counts(&self) -> Counts;

    /// The row of this client: no other client of the fabric that lives has the same.
    ///
    /// The row of a client that left, or is dead and evicted, is given out again; without a
    /// [lease](Fabric::lease_ns) to die is to be evicted. Nothing of the one before takes effect any
    /// more when the next one has its row, but what it left behind in memory is there yet.
    fn row(&self) -> u32;

    /// How many rows there are, so how many clients can live at once.
    fn rows(&self) -> u32;

    /// How long a client must have shown no life before it may be evicted; `None` when the fabric
    /// knows for certain who is dead, and evicts nobody else.
    fn lease_ns(&self) -> Option<u64>;

    /// Makes sure that nothing posted by the client of `row` takes effect any more. `false` when that
    /// client lives and the fabric does not evict the living. A row that nobody has is `true`.
    ///
    /// Without a [lease](Fabric::lease_ns) only a client that is dead, or has left, is evicted. With
    /// one, whoever has the row is, and all it posts from then on fails as `Evicted`: the caller has
    /// seen that it showed no life.
    ///
    /// # Errors
    /// As [`post`](Fabric::post), and where it cannot be told whether the client lives.
    fn evict(&self, row: u32) -> impl Future<Output = Result<bool>>;
}
