//! Memory of the nodes as one client has it: chunks that it took, free blocks, blocks that wait for
//! their epoch.
//!
//! A chunk is taken from a node by a fetch-and-add of the node's bump word and never goes back. What
//! a client has when it dies is lost to the others until an exclusive sweep: the unused part of its
//! chunks, its free blocks, its waiting blocks.
//!
//! Small blocks are whole units, come from a chunk, and once free serve those of their size. Large ones come
//! from ranges, and go back to what lies beside them. Their sizes are up to an eighth apart: a MainSegment is
//! a little longer after most merges, and what it has left goes to whoever has merged, who rarely has what
//! lies beside it. With sizes of whole units nobody could use it until the next splits. That would save 0.45
//! bytes of each entry, and cost 94 where four clients fill an index with 250,000 of them: they would take
//! 2.7 times the bytes in use, not 1.4 times (1.8 with sizes a sixteenth apart; `tests/costs/memory.rs`).

use std::collections::{BTreeMap, VecDeque};

use crate::fabric::Addr;
use crate::planted::{Fault, planted};

use super::layout::{Ref, UNIT};
use super::ranges::Ranges;

/// Bytes of the block that `bytes` are put in: a function of these alone, as nothing else is told of it.
pub(super) fn block_bytes(bytes: usize) -> u64 {
    let bytes = bytes.max(1) as u64;
    bytes.next_multiple_of((1 << bytes.ilog2() >> 3).max(UNIT))
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

/// How many small blocks a range must have room for, to be made a chunk of.
const RECYCLED: u64 = 16;
/// The largest block that counts as small: segments are larger, most KV blocks are not.
const SMALL: u64 = 512;

#[derive(Debug, Default)]
pub(super) struct Space {
    /// Of each node one, for small blocks.
    chunks: Vec<Chunk>,
    /// Free small blocks, by bytes.
    free: BTreeMap<u64, Vec<Ref>>,
    /// Of each node what is free beside, in ranges.
    ranges: Vec<Ranges>,
    waiting: VecDeque<Waiting>,
    next: usize,
    free_bytes: u64,
    waiting_bytes: u64,
    /// Of blocks whose publication has an unknown outcome.
    pub(super) doubtful_bytes: u64,
}

impl Space {
    pub(super) fn new(nodes: u8) -> Self {
        Space {
            chunks: vec![Chunk::default(); nodes.into()],
            ranges: (0..nodes).map(|_| Ranges::default()).collect(),
            ..Space::default()
        }
    }

    /// The node whose turn it is.
    pub(super) fn turn(&mut self) -> u8 {
        self.next = (self.next + 1) % self.chunks.len();
        self.next as u8
    }

    /// A block of `bytes`, whole units, without asking a node.
    pub(super) fn take(&mut self, node: u8, bytes: u64) -> Option<Ref> {
        if bytes > SMALL {
            return self.take_range(node, bytes, 0).map(|(block, _)| block);
        }
        if let Some(block) = self.free.get_mut(&bytes).and_then(Vec::pop) {
            self.free_bytes -= bytes;
            return Some(block);
        }
        let chunk = &mut self.chunks[usize::from(node)];
        let off = chunk.off;
        (chunk.end - off >= bytes).then(|| {
            chunk.off += bytes;
            Ref::new(Addr::new(node, off))
        })
    }

    /// `bytes` of a range of `node`, or all of it where less than `least` would be left.
    fn take_range(&mut self, node: u8, bytes: u64, least: u64) -> Option<(Ref, u64)> {
        let (off, bytes) = self.ranges[usize::from(node)].take(bytes, least)?;
        self.free_bytes -= bytes;
        Some((Ref::new(Addr::new(node, off)), bytes))
    }

    /// As [`take`](Space::take), or out of a range: what MainSegments have left serves KV blocks before
    /// another chunk is taken.
    pub(super) fn take_or_recycle(&mut self, node: u8, bytes: u64) -> Option<Ref> {
        let block = self.take(node, bytes);
        if block.is_some() || bytes > SMALL {
            return block;
        }
        let some = RECYCLED * bytes;
        let (from, got) = self.take_range(node, some, some)?;
        self.add_chunk(node, bytes, from.addr().off(), got);
        self.take(node, bytes)
    }

    /// A block of whatever is free, where no node has a chunk any more: larger blocks, and the rests of
    /// chunks with what lies beside them.
    pub(super) fn take_larger(&mut self, bytes: u64) -> Option<Ref> {
        let larger = self.free.range(bytes..).find(|(_, blocks)| !blocks.is_empty());
        if let Some((&larger, _)) = larger {
            let block = self.free.get_mut(&larger)?.pop()?;
            self.free_bytes -= larger;
            self.put(Ref::new(block.addr().add(bytes)), larger - bytes);
            return Some(block);
        }
        self.take_any_range(bytes).or_else(|| {
            (0..self.chunks.len() as u8).for_each(|node| self.end_chunk(node, Chunk::default()));
            self.take_any_range(bytes)
        })
    }

    fn take_any_range(&mut self, bytes: u64) -> Option<Ref> {
        (0..self.ranges.len() as u8).find_map(|node| Some(self.take_range(node, bytes, 0)?.0))
    }

    /// A chunk of `node` was taken for blocks such as those of `bytes`.
    pub(super) fn add_chunk(&mut self, node: u8, bytes: u64, off: u64, chunk_bytes: u64) {
        if bytes > SMALL {
            return self.put_range(Addr::new(node, off), chunk_bytes);
        }
        let new = Chunk { off, end: off + chunk_bytes };
        self.end_chunk(node, new);
    }

    /// What is left of the chunk of `node` is free as any block; `new` is the next one.
    fn end_chunk(&mut self, node: u8, new: Chunk) {
        let Chunk { off, end } = std::mem::replace(&mut self.chunks[usize::from(node)], new);
        self.put(Ref::new(Addr::new(node, off)), end - off);
    }

    fn put_range(&mut self, addr: Addr, bytes: u64) {
        self.ranges[usize::from(addr.node())].put(addr.off(), bytes);
        self.free_bytes += bytes;
    }

    /// Whole units that nothing names, and nothing ever did or everybody has moved on; perhaps none.
    pub(super) fn put(&mut self, block: Ref, bytes: u64) {
        match bytes {
            0 => {}
            1..=SMALL => {
                self.free.entry(bytes).or_default().push(block);
                self.free_bytes += bytes;
            }
            _ => self.put_range(block.addr(), bytes),
        }
    }

    /// A block that was unlinked by an operation of epoch `epoch`.
    pub(super) fn retire(&mut self, epoch: u64, block: Ref, bytes: u64) {
        let epochs = if planted(Fault::TwoEpochs) { 2 } else { 3 };
        self.waiting.push_back(Waiting { epoch: epoch + epochs, block, bytes });
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
        let chunks = self.chunks.iter().map(|chunk| chunk.end - chunk.off).sum();
        [chunks, self.free_bytes, self.waiting_bytes]
    }

    /// All ranges held, as (address, bytes).
    pub(super) fn ranges(&self) -> Vec<(Addr, u64)> {
        let chunks = (self.chunks.iter().zip(0..))
            .map(|(chunk, node)| (Addr::new(node, chunk.off), chunk.end - chunk.off));
        let ranges = (self.ranges.iter().zip(0..)).flat_map(|(ranges, node)| {
            ranges.iter().map(move |(off, bytes)| (Addr::new(node, off), bytes))
        });
        let free = self
            .free
            .iter()
            .flat_map(|(&bytes, blocks)| blocks.iter().map(move |block| (block.addr(), bytes)));
        let waiting = self.waiting.iter().map(|waiting| (waiting.block.addr(), waiting.bytes));
        chunks.chain(free).chain(ranges).chain(waiting).filter(|&(_, bytes)| bytes > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_carved_without_overlap_and_nothing_is_lost() {
        let mut space = Space::new(1);
        space.add_chunk(0, 64, 4096, 10_048);
        let mut taken = 0;
        for bytes in [64, 448, 192, 512, 64] {
            assert_eq!(space.take(0, bytes).unwrap().addr().off(), 4096 + taken);
            taken += bytes;
        }
        space.add_chunk(0, 64, 1 << 20, 64);
        let [chunk, free, _] = space.held();
        assert_eq!((chunk, free), (64, 10_048 - taken));
        assert_eq!(space.ranges().iter().map(|range| range.1).sum::<u64>(), chunk + free);
        assert!(space.take_larger(128).is_some());
        assert_eq!(space.held()[1], 10_048 - taken - 128);
    }

    #[test]
    fn large_blocks_have_few_sizes_and_small_ones_are_whole_units() {
        let sizes = [0, 1, 64, 65, 1000, 1025, 4097, 36_000, 65_537].map(block_bytes);
        assert_eq!(sizes, [64, 64, 64, 128, 1024, 1152, 4608, 36_864, 73_728]);
        assert!((1..100_000).all(|bytes| block_bytes(bytes) as usize * 8 <= (bytes + 72) * 9));
    }

    #[test]
    fn what_a_larger_block_has_left_serves_blocks_of_its_size() {
        let mut space = Space::new(1);
        (0..1000).for_each(|i| space.put(Ref::new(Addr::new(0, 4096 + i * 1024)), 512));
        (0..1000).for_each(|_| {
            space.take(0, 64).or_else(|| space.take_larger(64)).unwrap();
        });
        assert_eq!(space.held()[1], 448_000);
        assert_eq!((0..1000).filter_map(|_| space.take(0, 512)).count(), 875);
    }

    #[test]
    fn a_chunk_for_small_blocks_serves_a_large_one_in_the_end() {
        let mut space = Space::new(1);
        space.add_chunk(0, 64, 4096, 8192);
        assert!(space.take(0, 64).is_some() && space.take(0, 4096).is_none());
        assert_eq!(space.take_larger(4096).unwrap().addr().off(), 4160);
        assert_eq!(space.held(), [0, 8192 - 64 - 4096, 0]);
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
