//! Memory of the nodes: chunks taken from their bump words, nothing given back.

use durahash_media::{Error, Limit, Result};
use durahash_remote::fabric::{Addr, Fabric};

use super::Race;
use super::layout::{Ptr, UNIT, bump_at};

#[derive(Clone, Copy, Default)]
struct Chunk {
    off: u64,
    end: u64,
}

/// Space that a client took and has not used.
pub(super) struct Space {
    chunks: Vec<Chunk>,
    turn: usize,
}

impl Space {
    pub(super) fn new(nodes: u8) -> Self {
        Space { chunks: vec![Chunk::default(); nodes.into()], turn: 0 }
    }

    fn turn(&mut self) -> u8 {
        self.turn = (self.turn + 1) % self.chunks.len();
        self.turn as u8
    }

    fn take(&mut self, node: u8, bytes: u64) -> Option<Ptr> {
        let chunk = &mut self.chunks[usize::from(node)];
        let off = chunk.off;
        (chunk.end - off >= bytes).then(|| {
            chunk.off += bytes;
            Ptr::new(Addr::new(node, off))
        })
    }
}

impl<F: Fabric> Race<F> {
    /// Room for `bytes`, on the nodes in turn; a full one is passed over.
    pub(super) async fn take(&self, bytes: u64) -> Result<Ptr> {
        let bytes = bytes.next_multiple_of(UNIT);
        for _ in 0..self.fabric.nodes() {
            let node = self.space.borrow_mut().turn();
            loop {
                if let Some(block) = self.space.borrow_mut().take(node, bytes) {
                    return Ok(block);
                }
                let chunk = self.options.chunk_bytes.max(bytes).next_multiple_of(UNIT);
                let off = self.post(|batch| batch.fetch_add(bump_at(node), chunk)).await?.word(0);
                let end = self.fabric.node_bytes(node);
                if off.saturating_add(chunk) > end {
                    break;
                }
                self.count(|stats| stats.chunks += 1);
                self.space.borrow_mut().chunks[usize::from(node)] = Chunk { off, end: off + chunk };
            }
        }
        Err(Error::full(bytes, Limit::Nodes))
    }
}
