//! SepHash: an index on remote memory, reached by one-sided verbs only.
//!
//! # Paper
//! Xinhao Min, Kai Lu, Pengyu Liu, Jiguang Wan, Changsheng Xie, Daohui Wang, Ting Yao, Huatao Wu:
//! *SepHash: A Write-Optimized Hash Index On Disaggregated Memory via Separate Segment Structure*,
//! PVLDB 17 (5), 2024. Kept: a small CurSegment that is appended to in front of a large MainSegment
//! sorted by fingerprint (§4.2.1), depth information in entries, merge and split as one batch of
//! writes and one swap (§4.2.2), append by compare-and-swap at a remembered offset, writes that
//! nobody waits for (§4.3), the FPTable of record points (§4.4.2).
//!
//! # Where state lives
//! All that counts is in the nodes' regions; nodes only keep it. A client remembers the directory,
//! and of each segment what is keyed by its whole word A: entries seen, the append offset, the FPTable.
//! Clients also have memory: chunks, free blocks, blocks that wait for their epoch.
//!
//! # Layout
//! `layout.rs`, with pictures. The directory is indexed by the low bits of a hash, fingerprints are
//! the top ones. KV blocks and segments are spread over the nodes; the directory, the client table
//! and the epoch are on node 0.
//!
//! # Invariants
//! As cited by `check`, which needs that nobody writes:
//! - **SEP-1** Every hash belongs to one segment: its suffix is that of the segment in all bits of its
//!   local depth, and from every ancestor the buddies of the differing levels lead there.
//! - **SEP-2** An entry's KV block is whole and of a key with the entry's fp and depth information,
//!   and with the segment's suffix; where the hint is of the generation, or in a MainSegment, with
//!   that fp2.
//! - **SEP-3** A MainSegment is sorted by fp, its counts are right, it has no tombstone.
//! - **SEP-4** No key is twice in a MainSegment. The value of a key is what the newest entry of its
//!   CurSegment says, else that of its MainSegment.
//! - **SEP-5** Every cell of the directory below the global depth names an ancestor of its hashes'
//!   segment, or that itself.
//! - **SEP-6** No two blocks of the index, or of this client, overlap, and all lie in chunks that were
//!   taken.
//!
//! # Commit steps
//! As tables, per batch: operations on a key in `write.rs`, what they look at in `look.rs`; merge,
//! split and doubling in `grow.rs`; ticks in `epoch.rs`; making an index in `open.rs`. One swap is
//! each one's commit: an entry of its CurSegment, or its word A.
//!
//! # Recovery
//! None is needed: whatever a client leaves half done is private, or is finished by whoever comes next.
//! A death loses memory to the others: the unused part of the client's chunks, its free and its waiting
//! blocks, and what its operations had just taken or unlinked. `check` says how much; `sweep`
//! (`check.rs`), done by a client that is alone, finds it again.
//!
//! # Concurrency
//! Coroutines of a client share what it remembers; each batch is judged by a snapshot taken when it
//! was posted. No verbs are ordered but by awaiting. An entry is live with its generation's bits and
//! free with those of the one before; anything else means that word A was stale. A full segment is
//! frozen, its merge a function of what is frozen, so any number may merge it at the same time, and
//! whoever is there first wins. Memory and generations go by epochs (`epoch.rs`): one divisible by 32
//! is committed only when no operation is left from before the last such one, so neither the 7 bits
//! of an entry nor the 16 of word A come round under anybody.
//!
//! # Departures from the paper
//! - No bitmap as a filter for the CurSegment: it would be written after the insert had returned, so a
//!   search by another client could miss an acknowledged insert, and a late write would land in the
//!   next generation. The remembered beginning of an append-only segment answers the same question
//!   exactly, and writes nothing.
//! - A generation of 7 bits in place of the sign bit, whose lowest it is; 16 bits in word A. Tombstones
//!   are entries of length 0 that name a block with the key, so that a merge sees them.
//! - Whether a full segment splits depends on what word A names alone, not on the merged length, so
//!   that all mergers of a generation decide alike. At the maximum depth segments grow.
//! - A new segment is published in its buddy word; the directory is a hint that anybody mends, and
//!   doubles without a lock.
//! - The FPTable has 16 bits for δ and as many record points as it takes; what a reader adds on both sides
//!   is exactly what the builder allowed.
//! - A conditional operation (insert where nothing is, compare and set, get and put) is one swap at
//!   the first free entry of what it has read.

// From low to high, as in `lib.rs`.
mod layout;
mod options;
mod ranges;

mod fold;
mod fptable;
mod space;

mod cache;

mod epoch;

mod look;

mod check;
mod grow;
mod open;
mod write;

use std::cell::{Cell, RefCell};

use durahash_media::hash::ByteHash;

use crate::fabric::Fabric;
use cache::Cache;
use epoch::Epochs;
use layout::Geometry;
use space::Space;

pub use check::Report;
pub(crate) use check::{Position, is_damage};
pub use layout::LIMIT_BYTES;
pub use options::{Options, Technique};
pub(crate) use write::Decision;

/// What one client has of an index. Its coroutines share it.
pub(crate) struct Core<F: Fabric> {
    pub(crate) fabric: F,
    geometry: Geometry,
    options: Options,
    hash: ByteHash,
    cache: RefCell<Cache>,
    space: RefCell<Space>,
    epochs: RefCell<Epochs>,
    tally: RefCell<Tally>,
    /// The depth of the directory, or less.
    global_depth: Cell<u32>,
    /// Nodes of which all chunks are taken.
    exhausted: Vec<Cell<bool>>,
    /// The last block wanted was not to be had.
    short: Cell<bool>,
    /// The client has left.
    closed: Cell<bool>,
    /// An operation needs to be alone.
    excluded: Cell<bool>,
}

/// What a client did, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
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
    /// Times that a segment had passed on a hash to its buddy.
    pub hops: u64,
    /// Times that a segment had turned to another generation since it was last seen.
    pub turns: u64,
    /// Swaps of an entry that another client had filled first.
    pub conflicts: u64,
    /// Times that an operation waited for a full segment to be merged, or for an epoch.
    pub waits: u64,
    /// Chunks taken from nodes.
    pub chunks: u64,
    /// Merges after an append that failed; the next append to that segment tells why.
    pub merge_failures: u64,
    /// Clients evicted.
    pub evictions: u64,
    /// Bytes of KV blocks that are kept because nobody knows whether they were published.
    pub doubtful_bytes: u64,
    /// Segments remembered.
    pub known_segments: u64,
    /// Bytes of their FPTables.
    pub table_bytes: u64,
    /// Bytes of the same tables without record points.
    pub plain_table_bytes: u64,
    /// Bytes of the directory remembered.
    pub directory_bytes: u64,
    /// Bytes of chunks not used yet, of what is free beside, and of blocks that wait for their epoch.
    pub held_bytes: [u64; 3],
}

impl<F: Fabric> Core<F> {
    pub(crate) fn stats(&self) -> Tally {
        let cache = self.cache.borrow();
        let (segments, bytes, plain) = cache.sizes();
        let space = self.space.borrow();
        Tally {
            doubtful_bytes: space.doubtful_bytes,
            known_segments: segments as u64,
            table_bytes: bytes as u64,
            plain_table_bytes: plain as u64,
            directory_bytes: cache.directory.bytes() as u64,
            held_bytes: space.held(),
            ..*self.tally.borrow()
        }
    }
}
