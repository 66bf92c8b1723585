//! Figures without a walk over the index.

use std::collections::HashSet;

use durahash_media::{Error, Result};

use crate::fabric::{Addr, Batch, Fabric};

use super::Core;
use super::claim::Words;
use super::epoch::Op;
use super::layout::{BUMP_OFF, ROOT, SWEEP, usable_bytes, words};
use super::verbs::Post;
use super::walk::Position;

/// Segments that are looked at, at most: one for each ending of so many bits.
const SEGMENTS: u64 = 1 << SEGMENT_BITS;
const SEGMENT_BITS: u32 = 5;

/// The result of [`summary`](crate::RemoteMap::summary).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Keys that have a value, estimated by some segments. Values that were replaced or removed since their segment was merged
    /// count, too.
    pub keys_about: u64,
    /// Segments that were looked at, at most 32.
    pub segments_seen: u64,
    /// Depth of the directory.
    pub depth: u32,
    /// Bytes that clients took from the nodes.
    pub taken_bytes: u64,
    /// Bytes of the nodes that no client has taken.
    pub free_bytes: u64,
    /// What dead clients may have leaked since the last sweep, at most.
    pub leaked_bytes: u64,
}

impl<F: Fabric> Core<F> {
    /// Figures from a few reads, however large the index is.
    pub(crate) async fn summary(&self) -> Result<Summary> {
        self.upkeep().await?;
        let op = &Op::new(self);
        let nodes = 0..self.geometry.nodes;
        let mut batch = Batch::new();
        batch.read(ROOT, 8);
        batch.read(SWEEP, 40);
        for node in nodes.clone() {
            batch.read(Addr::new(node, BUMP_OFF), 8);
        }
        let done = op.send(batch).await?;
        if done.word(0) > self.geometry.max_depth.into() {
            return Err(Error::corrupt("the depth of the directory", ROOT.off()));
        }
        let told: Vec<u64> = words(done.bytes(1)).collect();
        let mut summary = Summary {
            depth: done.word(0) as u32,
            leaked_bytes: Words::new(&told).lost(),
            ..Summary::default()
        };
        for node in nodes {
            let first = self.geometry.first_chunk(node);
            let end = usable_bytes(&self.fabric, node).max(first);
            let bump = done.word(2 + usize::from(node)).clamp(first, end);
            summary.taken_bytes += bump - first;
            summary.free_bytes += end - bump;
        }
        let (mut seen, mut keys) = (HashSet::new(), 0);
        for ending in 0..SEGMENTS {
            let segment = self.visit(op, Position::of(ending)).await?;
            if !seen.insert(segment.cur) {
                continue;
            }
            let fresh = segment.frozen.cur.iter().filter(|(entry, _)| !entry.is_tombstone());
            let entries = (segment.frozen.main.len() + fresh.count()) as u64;
            // As many as all segments with its ending would have.
            let alike = 1 << segment.a.depth().saturating_sub(SEGMENT_BITS);
            keys = entries.saturating_mul(alike).saturating_add(keys);
        }
        (summary.keys_about, summary.segments_seen) = (keys, seen.len() as u64);
        Ok(summary)
    }
}
