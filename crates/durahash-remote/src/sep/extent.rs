//! What the first words of a node tell of an index to the node itself.

use crate::fabric::{Addr, Kind, Local, Verb};

use super::layout::{BUMP_OFF, HEADER_BYTES, Header, UNIT, word_at};

/// How far an index extends in the memory of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Bytes that clients took.
    pub(crate) taken_bytes: u64,
    /// Bytes behind these.
    pub(crate) free_bytes: u64,
}

impl Extent {
    /// In the memory of this one node; `None` without an index.
    pub(crate) fn of(node: &Local) -> Option<Self> {
        let mut bytes = [0; BUMP_OFF as usize + 8];
        let len = bytes.len() as u32;
        let all = Verb { addr: Addr::new(0, 0), kind: Kind::Read, start: 0, len };
        node.execute(&[all], &[], &mut bytes).ok()?;
        let Header { geometry, node: number, .. } = Header::parse(&bytes[..HEADER_BYTES]).ok()?;
        let first = geometry.first_chunk(number);
        let end = (node.bytes(0) / UNIT * UNIT).max(first);
        // It may have been raised beyond the end.
        let bump = word_at(&bytes, BUMP_OFF as usize).clamp(first, end);
        Some(Extent { taken_bytes: bump - first, free_bytes: end - bump })
    }
}
