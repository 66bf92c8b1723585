//! SepHash: an index on remote memory, reached by one-sided verbs only.
//!
//! # Paper
//! Xinhao Min, Kai Lu, Pengyu Liu, Jiguang Wan, Changsheng Xie, Daohui Wang, Ting Yao, Huatao Wu:
//! *SepHash: A Write-Optimized Hash Index On Disaggregated Memory via Separate Segment Structure*,
//! PVLDB 17 (5), 2024. Kept: a small CurSegment that is appended to in front of a large MainSegment
//! sorted by fingerprint (§4.2.1), depth information in entries, merge and split as one batch of
//! writes and one swap (§4.2.2), append by compare-and-swap at a remembered offset, unsignaled
//! writes (§4.3), the FPTable of record points (§4.4.2).
//!
//! # Where state lives
//! The index is in the nodes' regions; nodes only store it. A client caches the directory,
//! and under the whole word A of each segment its entries, the append offset and the FPTable.
//! A client also owns memory: chunks, free blocks, blocks that wait for their epoch.
//!
//! # Layout
//! See `layout.rs`, which has pictures. The low bits of a hash index the directory, and its top bits are the
//! fingerprints. KV blocks and segments are spread over the nodes; the directory, the client table
//! and the epoch are on node 0.
//!
//! # Invariants
//! `check` cites them. It needs an index that no client writes to:
//! - **SEP-1** Every hash belongs to one segment: its suffix is that of the segment in all bits of its
//!   local depth, and from every ancestor the buddies of the differing levels lead there.
//! - **SEP-2** An entry's KV block is whole, and its key has the entry's fp and depth information,
//!   the segment's suffix, and the fp2 of the hint if that is of the generation, or of the MainSegment.
//! - **SEP-3** A MainSegment is sorted by fp, its counts are right, it has no tombstone.
//! - **SEP-4** No key is twice in a MainSegment. The newest entry of a key in its CurSegment, or else the
//!   one in its MainSegment, has its value.
//! - **SEP-5** Every cell of the directory below the global depth names an ancestor of its hashes'
//!   segment, or that itself.
//! - **SEP-6** No two blocks of the index, of this client, or on the shelf, overlap, and all lie in chunks that
//!   were taken.
//!
//! # Commit steps
//! Tables list them by batch: operations on a key in `write.rs`, their reads in `look.rs`; merge,
//! split and doubling in `grow.rs`; ticks in `epoch.rs`; creation in `open.rs`; free memory that goes from client to
//! client in `shelf.rs`; sweeps in `reclaim.rs`. One swap commits each
//! of them: of an entry of its CurSegment, or of its word A.
//!
//! # Recovery
//! None is needed: unfinished work of a dead client is private, or the next client finishes it.
//! A death leaks memory: the unused part of the client's chunks, its free and its waiting
//! blocks, and blocks that its operations had just allocated or unlinked. A sweep by any client finds it, while all
//! others work.
//!
//! # Concurrency
//! Coroutines of a client share its cache; the results of a batch are compared with a snapshot of the cache from when it
//! was posted. Only awaiting orders verbs. An entry is live if it has its generation's bits, and
//! free if it has those of the one before; other bits mean that word A was stale. A full segment is
//! frozen, and its merge is a function of the frozen contents, so any number of clients may merge it at the same time,
//! and the first one wins. Memory and generations depend on epochs (`epoch.rs`): a generation divisible by 32
//! is committed only when no operation is left from before the last such one, so neither the 7 bits
//! of an entry nor the 16 of word A wrap around during an operation.
//!
//! # Departures from the paper
//! - MainSegments have at most 16 CurSegments by default, not 64: a merge writes a quarter, lookups read half.
//! - No bitmap as a filter for the CurSegment: it would be written after the insert had returned, so a
//!   search by another client could miss an acknowledged insert, and a late write would land in the
//!   next generation. The cached prefix of an append-only segment answers the same question
//!   exactly, and needs no write.
//! - A generation of 7 bits replaces the sign bit, which is its lowest; word A has 16 bits. Tombstones
//!   are entries of length 0 that name a block with the key, so that a merge sees them.
//! - The decision to split a full segment depends only on the MainSegment that word A names, not on the merged length, so
//!   that all mergers of a generation decide alike. At the maximum depth segments grow.
//! - The buddy word publishes a new segment; the directory is a hint that any client updates, and
//!   doubles without a lock.
//! - The FPTable has 16 bits for δ and any number of record points; the margin of a reader on both sides
//!   is exactly the tolerance of the builder.
//! - A conditional operation (insert if absent, compare and set, get and put) is one swap of
//!   the first free entry in the state that it has read.

// From low to high, as in `lib.rs`.
mod layout;
mod options;
mod ranges;
mod spread;
mod verbs;

mod extent;
mod fold;
mod fptable;
mod space;
mod walk;

mod cache;
mod claim;
mod tags;

mod client;

mod epoch;

mod look;

mod check;
mod grow;
mod open;
mod reclaim;
mod rest;
mod shelf;
mod summary;
mod write;

pub use check::Report;
pub(crate) use client::Core;
pub use client::Stats;
pub(crate) use extent::Extent;
pub use layout::LIMIT_BYTES;
pub use options::{Options, Technique};
pub use summary::Summary;
pub(crate) use walk::{Position, is_damage};
pub use write::Change;
pub(crate) use write::{Found, Left, Together};
