//! Memory of the nodes as one client has it: chunks that it took, free blocks, blocks that wait for
//! their epoch.
//!
//! A chunk is taken from a node by a fetch-and-add of the node's bump word and never goes back. What
//! a client has when it dies is lost to the others until an exclusive sweep: the unused part of its
//! chunks, its free blocks, its waiting blocks.

use std::collections::{BTreeMap, VecDeque};

use crate::fabric::Addr;

use super::layout::{Ref, UNIT};

/// Bytes of the block that `bytes` are put in: multiples of 64 up to 1 KiB, then eighths of a power
/// of two.
pub(super) fn class_bytes(bytes: usize) -> u64 {
    let bytes = (bytes.max(1) as u64).next_multiple_of(UNIT);
    if bytes <= 1024 {
        return bytes;
    }
    bytes.next_multiple_of(step(bytes - 1))
}

/// The largest class not above `bytes`, a multiple of 64.
fn class_below(bytes: u64) -> u64 {
    if bytes <= 1024 { bytes } else { bytes / step(bytes) * step(bytes) }
}

/// Distance of classes around `bytes`.
fn step(bytes: u64) -> u64 {
    (1 << bytes.ilog2() >> 3).max(UNIT)
}

/// A block that nothing names any more, and from which epoch on it is free.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    epoch: u64,
    block: Ref,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    off: u64,
    end: u64,
}

/// How many blocks a free block must have room for, to be made a chunk of.
const RECYCLED: u64 = 16;
/// The largest block that counts as small: segments are larger, most KV blocks are not.
const SMALL: u64 = 1024;

#[derive(Debug, Default)]
pub(super) struct Space {
    /// Of each node one for small blocks and one for large ones.
    chunks: Vec<[Chunk; 2]>,
    /// By bytes.
    free: BTreeMap<u64, Vec<Ref>>,
    waiting: VecDeque<Waiting>,
    next: usize,
    free_bytes: u64,
    waiting_bytes: u64,
    /// Of blocks whose publication has an unknown outcome.
    pub(super) doubtful_bytes: u64,
}

impl Space {
    pub(super) fn new(nodes: u8) -> Self {
        Space { chunks: vec![[Chunk::default(); 2]; nodes.into()], ..Space::default() }
    }

    /// The node whose turn it is.
    pub(super) fn turn(&mut self) -> u8 {
        self.next = (self.next + 1) % self.chunks.len();
        self.next as u8
    }

    /// A block of `bytes`, a class, without asking a node.
    pub(super) fn take(&mut self, node: u8, bytes: u64) -> Option<Ref> {
        if let Some(block) = self.free.get_mut(&bytes).and_then(Vec::pop) {
            self.free_bytes -= bytes;
            return Some(block);
        }
        let chunk = &mut self.chunks[usize::from(node)][usize::from(bytes > SMALL)];
        let off = chunk.off;
        (chunk.end - off >= bytes).then(|| {
            chunk.off += bytes;
            Ref::new(Addr::new(node, off))
        })
    }

    /// The same, or out of what a larger free block is made a chunk of.
    pub(super) fn take_or_recycle(&mut self, node: u8, bytes: u64) -> Option<Ref> {
        let block = self.take(node, bytes);
        block.or_else(|| self.recycle(node, bytes).then(|| self.take(node, bytes)).flatten())
    }

    /// Makes a chunk of the largest free block of `node`, if it is large for blocks of `bytes`: what
    /// MainSegments have left serves KV blocks before another chunk is taken.
    fn recycle(&mut self, node: u8, bytes: u64) -> bool {
        if bytes > SMALL {
            return false;
        }
        let large =
            self.free.range_mut(bytes.saturating_mul(RECYCLED)..).rev().find_map(|(&size, of)| {
                let idx = of.iter().rposition(|block| block.addr().node() == node)?;
                Some((size, of.swap_remove(idx)))
            });
        let Some((size, block)) = large else { return false };
        self.free_bytes -= size;
        self.add_chunk(node, bytes, block.addr().off(), size);
        true
    }

    /// A block from a larger free one, where no node has a chunk any more.
    pub(super) fn take_larger(&mut self, bytes: u64) -> Option<Ref> {
        let (&larger, _) = self.free.range(bytes..).find(|(_, blocks)| !blocks.is_empty())?;
        let block = self.free.get_mut(&larger)?.pop()?;
        self.free_bytes -= larger;
        self.put_range(block.addr().add(bytes), larger - bytes);
        Some(block)
    }

    /// A chunk of `node` was taken for blocks such as those of `class` bytes; what is left of the one
    /// before becomes free blocks.
    pub(super) fn add_chunk(&mut self, node: u8, class: u64, off: u64, bytes: u64) {
        let new = Chunk { off, end: off + bytes };
        let chunk = &mut self.chunks[usize::from(node)][usize::from(class > SMALL)];
        let old = std::mem::replace(chunk, new);
        self.put_range(Addr::new(node, old.off), old.end - old.off);
    }

    /// Makes blocks of a range.
    pub(super) fn put_range(&mut self, mut addr: Addr, mut bytes: u64) {
        while bytes > 0 {
            let class = class_below(bytes);
            self.put(Ref::new(addr), class);
            (addr, bytes) = (addr.add(class), bytes - class);
        }
    }

    /// A block that nothing names, and nothing ever did or everybody has moved on.
    pub(super) fn put(&mut self, block: Ref, bytes: u64) {
        self.free.entry(bytes).or_default().push(block);
        self.free_bytes += bytes;
    }

    /// A block that was unlinked by an operation of epoch `epoch`.
    pub(super) fn retire(&mut self, epoch: u64, block: Ref, bytes: u64) {
        self.waiting.push_back(Waiting { epoch: epoch + 3, block, bytes });
        self.waiting_bytes += bytes;
    }

    /// The global epoch is `epoch`: frees what waited for it.
    pub(super) fn collect(&mut self, epoch: u64) {
        let mut kept = VecDeque::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.epoch <= epoch {
                self.waiting_bytes -= waiting.bytes;
                self.put(waiting.block, waiting.bytes);
            } else {
                kept.push_back(waiting);
            }
        }
        self.waiting = kept;
    }

    /// Forgets everything: a sweep finds it again.
    pub(super) fn clear(&mut self) {
        *self = Space::new(self.chunks.len() as u8);
    }

    /// Bytes of chunks, of free blocks, and of waiting ones.
    pub(super) fn held(&self) -> [u64; 3] {
        let chunks = self.chunks.iter().flatten().map(|chunk| chunk.end - chunk.off).sum();
        [chunks, self.free_bytes, self.waiting_bytes]
    }

    /// All ranges held, as (address, bytes).
    pub(super) fn ranges(&self) -> Vec<(Addr, u64)> {
        let chunks = (self.chunks.iter().zip(0..))
            .flat_map(|(both, node)| both.map(|c| (Addr::new(node, c.off), c.end - c.off)));
        let free = self
            .free
            .iter()
            .flat_map(|(&bytes, blocks)| blocks.iter().map(move |block| (block.addr(), bytes)));
        let waiting = self.waiting.iter().map(|waiting| (waiting.block.addr(), waiting.bytes));
        chunks.chain(free).chain(waiting).filter(|&(_, bytes)| bytes > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_at_most_an_eighth() {
        let mut classes = 0;
        let mut last = 0;
        for bytes in (1..200_000).chain([1 << 20, (1 << 21) + 16]) {
            let class = class_bytes(bytes);
            assert!(class >= bytes as u64 && class.is_multiple_of(UNIT) && class >= last);
            assert!(class - (bytes as u64) < UNIT.max(bytes as u64 / 8), "{bytes}: {class}");
            assert_eq!((class_bytes(class as usize), class_below(class)), (class, class));
            let below = class_below((bytes as u64).next_multiple_of(UNIT));
            assert!(below <= (bytes as u64).next_multiple_of(UNIT) && class_below(below) == below);
            classes += u64::from(class != last);
            last = class;
        }
        assert!(classes < 90, "{classes}");
    }

    #[test]
    fn ranges_are_carved_without_overlap_and_nothing_is_lost() {
        let mut space = Space::new(1);
        space.add_chunk(0, 64, 4096, 10_048);
        let mut taken = 0;
        for bytes in [64, 1024, 192, 512, 64] {
            let class = class_bytes(bytes);
            assert_eq!(space.take(0, class).unwrap().addr().off(), 4096 + taken);
            taken += class;
        }
        space.add_chunk(0, 64, 1 << 20, 64);
        let [chunk, free, _] = space.held();
        assert_eq!((chunk, free), (64, 10_048 - taken));
        assert_eq!(space.ranges().iter().map(|range| range.1).sum::<u64>(), chunk + free);
        assert!(space.take_larger(128).is_some());
        assert_eq!(space.held()[1], 10_048 - taken - 128);
    }

    #[test]
    fn waiting_blocks_are_free_three_epochs_later() {
        let mut space = Space::new(1);
        space.retire(5, Ref::from_word(9), 64);
        space.collect(7);
        assert!(space.take(0, 64).is_none());
        space.collect(8);
        assert_eq!(space.take(0, 64), Some(Ref::from_word(9)));
    }
}
