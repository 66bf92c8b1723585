//! A client's part of an index, which its coroutines share, and counts of its work.

use std::cell::{Cell, RefCell};
use std::task::Waker;

use durahash_media::hash::ByteHash;

use crate::fabric::Fabric;

use super::cache::Cache;
use super::claim::Reclaim;
use super::layout::{Geometry, Ref};
use super::options::Options;
use super::space::Space;
use super::tags::{Epochs, Rest};

/// A client's part of an index.
pub(crate) struct Core<F: Fabric> {
    pub(crate) fabric: F,
    pub(super) geometry: Geometry,
    pub(super) options: Options,
    pub(super) hash: ByteHash,
    pub(super) cache: RefCell<Cache>,
    pub(super) space: RefCell<Space>,
    pub(super) epochs: RefCell<Epochs>,
    pub(super) reclaim: RefCell<Reclaim>,
    pub(super) stats: RefCell<Stats>,
    /// The depth of the directory, or less.
    pub(super) global_depth: Cell<u32>,
    /// Nodes of which all chunks are taken.
    pub(super) exhausted: Vec<Cell<bool>>,
    /// The first bag of the shelf, as this client saw it last: whether it is worth a look.
    pub(super) shelf: Cell<Ref>,
    /// A coroutine takes memory from a node, or from the shelf.
    pub(super) taking: Cell<bool>,
    /// The last allocation failed.
    pub(super) short: Cell<bool>,
    /// The client has left.
    pub(super) closed: Cell<bool>,
    pub(super) rest: Cell<Rest>,
    /// Wakes the task that sleeps while the client rests.
    pub(super) dozing: Cell<Option<Waker>>,
}

/// Counts of a client's work, and sizes of its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Merges committed.
    pub merges: u64,
    /// Splits committed.
    pub splits: u64,
    /// Merges and splits that another client committed first.
    pub lost: u64,
    /// Keys read by merges and splits.
    pub keys_read: u64,
    /// Doublings of the directory.
    pub doublings: u64,
    /// Steps from a segment to its buddy.
    pub hops: u64,
    /// Cached segments that were of an earlier generation.
    pub turns: u64,
    /// Swaps of an entry that failed because another client had filled it.
    pub conflicts: u64,
    /// Batches of several puts that went together.
    pub batches: u64,
    /// Those of which a put took effect behind one that did not.
    pub batches_parted: u64,
    /// Those that filled a segment.
    pub batches_full: u64,
    /// Waits of operations for a merge, or for an epoch.
    pub waits: u64,
    /// Chunks taken from nodes.
    pub chunks: u64,
    /// Failed merges after an append; the next append to that segment returns the error.
    pub merge_failures: u64,
    /// Clients evicted.
    pub evictions: u64,
    /// Sweeps that this client has finished.
    pub sweeps: u64,
    /// Sweeps that it gave up: it met damage, or the epoch stood still.
    pub sweep_failures: u64,
    /// Bytes of KV blocks that are kept because their publication has an unknown outcome.
    pub doubtful_bytes: u64,
    /// Cached segments.
    pub known_segments: u64,
    /// Bytes of their FPTables.
    pub table_bytes: u64,
    /// Bytes of the same tables without record points.
    pub plain_table_bytes: u64,
    /// Entries of MainSegments that are kept, an empty one counted as one.
    pub kept_entries: u64,
    /// Bytes of the cached directory.
    pub directory_bytes: u64,
    /// Bytes of unused parts of chunks, of free blocks, and of blocks that wait for their epoch.
    pub held_bytes: [u64; 3],
}

impl<F: Fabric> Core<F> {
    pub(crate) fn options(&self) -> Options {
        self.options
    }

    pub(crate) fn stats(&self) -> Stats {
        let cache = self.cache.borrow();
        let (segments, bytes, plain) = cache.sizes();
        let space = self.space.borrow();
        Stats {
            doubtful_bytes: space.doubtful_bytes,
            known_segments: segments as u64,
            table_bytes: bytes as u64,
            plain_table_bytes: plain as u64,
            kept_entries: cache.kept_len() as u64,
            directory_bytes: cache.directory.bytes() as u64,
            held_bytes: space.held(),
            ..*self.stats.borrow()
        }
    }
}
