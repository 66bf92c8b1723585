//! A client's memory on the nodes: its chunks, free blocks, and blocks that wait for their epoch.
//!
//! A client takes a chunk by a fetch-and-add of a node's bump word, or takes what other clients gave to the shelf
//! (`shelf.rs`). When the client dies, the unused part of its chunks, its free blocks and its waiting blocks are leaked
//! until a sweep (`reclaim.rs`). While a sweep has claimed a window of each node, nothing that lies in it is held here:
//! the claim drops it, and whatever comes in later passes [`Space::outside`].
//!
//! Small blocks are whole units, come from a chunk, and are reused for the same size and on the same node, to which a
//! client sends a block together with the swap that names it. Large ones come
//! from ranges, and are joined with their free neighbours. Their sizes are up to an eighth apart: a MainSegment is
//! a little longer after most merges, and the old one goes to the client that merged, which rarely owns its
//! neighbours. With sizes of whole units it would stay unused until the next splits. That would save 0.45
//! bytes of each entry, and cost 94 when four clients fill an index with 250,000 of them: they would take
//! 2.7 times the bytes in use, not 1.4 times (1.8 with sizes a sixteenth apart; `tests/remote/costs/memory.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::ops::Range;

use crate::fabric::Addr;
use crate::planted::{Fault, planted};

use super::layout::{Ref, UNIT};
use super::ranges::Ranges;

/// Bytes of the block for `bytes`: a function of these alone, as the block's size is not stored.
pub(super) fn block_bytes(bytes: usize) -> u64 {
    let bytes = bytes.max(1) as u64;
    bytes.next_multiple_of((1 << bytes.ilog2() >> 3).max(UNIT))
}

/// An unlinked block, and the epoch from which on it is free.
#[derive(Clone, Copy, Debug)]
struct RetiredBlock {
    epoch: u64,
    block: Ref,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Chunk {
    off: u64,
    end: u64,
}

/// Small blocks that a range has room for if it becomes a chunk before smaller ranges do.
const RECYCLED: u64 = 16;
/// The largest block that counts as small: segments are larger, most KV blocks are not.
const SMALL: u64 = 512;
/// Bytes of a bag of the shelf, and the extents that it has room for.
pub(super) const BAG_BYTES: u64 = 1024;
pub(super) const BAG_EXTENTS: usize = 125;
/// The longest extent of a bag, in units of 22 bits.
const EXTENT_MAX: u64 = UNIT << 21;
/// Pieces that are set aside, at most.
const ASIDE: usize = 1 << 16;

/// Free memory for the shelf: extents, and a block of [`BAG_BYTES`] that will tell of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bag {
    pub(super) at: Ref,
    /// The epoch from which on the extents are free.
    pub(super) epoch: u64,
    pub(super) extents: Vec<(Ref, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Space {
    /// One for each node, for small blocks.
    chunks: Vec<Chunk>,
    /// Free small blocks, by bytes and node.
    free: BTreeMap<(u64, u8), Vec<Ref>>,
    /// For each node, the other free memory.
    ranges: Vec<Ranges>,
    waiting: VecDeque<RetiredBlock>,
    next: usize,
    free_bytes: u64,
    waiting_bytes: u64,
    /// Of blocks whose publication has an unknown outcome.
    pub(super) doubtful_bytes: u64,
    /// What a sweep has claimed of each node; empty if none has.
    windows: Vec<Range<u64>>,
    /// Of the client that sweeps: free memory that was dropped because it lies in a window. It is as before if the sweep gives up.
    aside: Option<Vec<(Addr, u64)>>,
    /// Bytes of retired blocks that were dropped because they lie in a window. The sweep may have passed them; it finds
    /// what else is dropped.
    dropped_bytes: u64,
    /// Bytes that this client has leaked and has not told of in the nodes.
    pub(super) owed_bytes: u64,
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

    /// Takes a block of `bytes`, whole units, from this client's memory.
    pub(super) fn take(&mut self, node: u8, bytes: u64) -> Option<Ref> {
        if bytes > SMALL {
            return self.take_range(node, bytes, 0).map(|(block, _)| block);
        }
        if let Some(block) = self.free.get_mut(&(bytes, node)).and_then(Vec::pop) {
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

    /// Takes `bytes` of a range of `node`, or all of it if less than `least` would be left.
    fn take_range(&mut self, node: u8, bytes: u64, least: u64) -> Option<(Ref, u64)> {
        let (off, bytes) = self.ranges[usize::from(node)].take(bytes, least)?;
        self.free_bytes -= bytes;
        Some((Ref::new(Addr::new(node, off)), bytes))
    }

    /// As [`take`](Space::take), or out of a range: KV blocks reuse the memory of old MainSegments before
    /// another chunk is taken.
    pub(super) fn take_or_recycle(&mut self, node: u8, bytes: u64) -> Option<Ref> {
        let block = self.take(node, bytes);
        if block.is_some() || bytes > SMALL {
            return block;
        }
        let some = RECYCLED * bytes;
        let range = self.take_range(node, some, some);
        let (from, got) = range.or_else(|| self.take_range(node, bytes, u64::MAX))?;
        self.add_chunk(node, bytes, from.addr().off(), got);
        self.take(node, bytes)
    }

    /// Takes a block when no node has a chunk left: from larger blocks, or from the rests of
    /// chunks joined with their neighbours.
    pub(super) fn take_larger(&mut self, bytes: u64) -> Option<Ref> {
        let larger = self.free.range_mut((bytes, 0)..).find(|(_, blocks)| !blocks.is_empty());
        if let Some((&(larger, _), blocks)) = larger {
            let block = blocks.pop()?;
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

    /// Adds a chunk of `node` for blocks of the kind of `bytes`.
    pub(super) fn add_chunk(&mut self, node: u8, bytes: u64, off: u64, chunk_bytes: u64) {
        for (addr, chunk_bytes) in self.enter(Addr::new(node, off), chunk_bytes) {
            match chunk_bytes {
                0 => {}
                _ if bytes > SMALL => self.put_range(addr, chunk_bytes),
                _ => self.end_chunk(node, Chunk { off: addr.off(), end: addr.off() + chunk_bytes }),
            }
        }
    }

    /// Replaces the chunk of `node` by `new`, and frees the rest of the old one.
    fn end_chunk(&mut self, node: u8, new: Chunk) {
        let Chunk { off, end } = std::mem::replace(&mut self.chunks[usize::from(node)], new);
        self.put(Ref::new(Addr::new(node, off)), end - off);
    }

    fn put_range(&mut self, addr: Addr, bytes: u64) {
        self.ranges[usize::from(addr.node())].put(addr.off(), bytes);
        self.free_bytes += bytes;
    }

    /// The parts of some memory before and behind the window. What lies inside is dropped.
    fn outside(&self, addr: Addr, bytes: u64) -> [(Addr, u64); 2] {
        let Some(window) = self.windows.get(usize::from(addr.node())) else {
            return [(addr, bytes), (addr, 0)];
        };
        let end = addr.off() + bytes;
        let to = window.start.clamp(addr.off(), end);
        let from = window.end.clamp(to, end);
        [(addr, to - addr.off()), (addr.add(from - addr.off()), end - from)]
    }

    /// The same of free memory, which the client that sweeps sets aside.
    fn enter(&mut self, addr: Addr, bytes: u64) -> [(Addr, u64); 2] {
        let parts = self.outside(addr, bytes);
        let dropped = bytes - parts[0].1 - parts[1].1;
        if let Some(aside) = self.aside.as_mut().filter(|aside| dropped > 0 && aside.len() < ASIDE)
        {
            aside.push((addr.add(parts[0].1), dropped));
        }
        parts
    }

    /// Frees whole units, possibly none, that were never published, or whose epoch has passed.
    pub(super) fn put(&mut self, block: Ref, bytes: u64) {
        for (addr, bytes) in self.enter(block.addr(), bytes) {
            match bytes {
                0 => {}
                1..=SMALL => {
                    self.free.entry((bytes, addr.node())).or_default().push(Ref::new(addr));
                    self.free_bytes += bytes;
                }
                _ => self.put_range(addr, bytes),
            }
        }
    }

    /// Adds a block that an operation of epoch `epoch` has unlinked.
    pub(super) fn retire(&mut self, epoch: u64, block: Ref, bytes: u64) {
        let epochs = if planted(Fault::TwoEpochs) { 2 } else { 3 };
        self.wait(epoch + epochs, block, bytes);
    }

    /// Adds a block that is free from `epoch` on.
    fn wait(&mut self, epoch: u64, block: Ref, bytes: u64) {
        let parts = if planted(Fault::RetiredUnfiltered) {
            [(block.addr(), bytes), (block.addr(), 0)]
        } else {
            self.outside(block.addr(), bytes)
        };
        self.dropped_bytes += bytes - parts[0].1 - parts[1].1;
        for (addr, bytes) in parts.into_iter().filter(|part| part.1 > 0) {
            self.waiting.push_back(RetiredBlock { epoch, block: Ref::new(addr), bytes });
            self.waiting_bytes += bytes;
        }
    }

    /// Adds the extents of a bag that an operation with this tag has taken, and retires its block. What lies in a window counts as leaked,
    /// unless this client `sweeps`: another client may know a claim that has ended.
    pub(super) fn adopt(&mut self, bag: &Bag, tag: u64, epoch: u64, sweeps: bool) {
        let dropped_bytes = self.dropped_bytes;
        self.retire(tag, bag.at, BAG_BYTES);
        for &(block, bytes) in &bag.extents {
            if bag.epoch > epoch {
                self.wait(bag.epoch, block, bytes);
                continue;
            }
            if planted(Fault::BagUnfiltered) {
                self.put_range(block.addr(), bytes);
            } else {
                let before = self.free_bytes;
                self.add(block.addr(), bytes);
                self.dropped_bytes += bytes - (self.free_bytes - before);
            }
        }
        if sweeps {
            self.dropped_bytes = dropped_bytes;
        }
    }

    /// Returns whether anything of this bag, or its own block, lies in a window.
    pub(super) fn claims(&self, bag: &Bag) -> bool {
        let mut all = bag.extents.iter().copied().chain([(bag.at, BAG_BYTES)]);
        all.any(|(at, bytes)| {
            let [before, after] = self.outside(at.addr(), bytes);
            before.1 + after.1 < bytes
        })
    }

    /// What lies outside of the windows in new bags of about `bag_bytes`, whose blocks are this client's, and the rest.
    /// Where there are too few blocks it is `None`; with `must`, what there are no blocks for is of the rest.
    pub(super) fn rebag(
        &mut self,
        bags: &[Bag],
        epoch: u64,
        bag_bytes: u64,
        must: bool,
    ) -> Option<[Vec<Bag>; 2]> {
        let (mut new, mut rest, mut sum) = (Vec::<Bag>::new(), Vec::new(), 0);
        for bag in bags {
            let epoch = if bag.epoch > epoch { bag.epoch } else { 0 };
            let mut left = Bag { extents: Vec::new(), ..*bag };
            for &(block, bytes) in &bag.extents {
                let outside = self.outside(block.addr(), bytes);
                for (addr, bytes) in outside.into_iter().filter(|part| part.1 > 0) {
                    let has_room = |bag: &Bag| {
                        bag.epoch == epoch && bag.extents.len() < BAG_EXTENTS && sum < bag_bytes
                    };
                    if !new.last().is_some_and(has_room) {
                        if new.is_empty() {
                            self.join();
                        }
                        let Some(at) = self.take_any_range(BAG_BYTES) else {
                            if must {
                                left.extents.push((Ref::new(addr), bytes));
                                continue;
                            }
                            self.unbag(&new);
                            return None;
                        };
                        new.push(Bag { at, epoch, extents: Vec::new() });
                        sum = 0;
                    }
                    new.last_mut()?.extents.push((Ref::new(addr), bytes));
                    sum += bytes;
                }
                let [before, after] = outside.map(|part| part.1);
                if before + after < bytes {
                    let from = Ref::new(block.addr().add(before));
                    left.extents.push((from, bytes - before - after));
                }
            }
            rest.push(left);
        }
        Some([new, rest])
    }

    /// Takes the blocks of bags back that nobody has seen.
    pub(super) fn unbag(&mut self, bags: &[Bag]) {
        bags.iter().for_each(|bag| self.put(bag.at, BAG_BYTES));
    }

    /// Frees memory that need not be whole blocks: it is joined with its neighbours.
    pub(super) fn add(&mut self, addr: Addr, bytes: u64) {
        for (addr, bytes) in self.enter(addr, bytes) {
            if bytes > 0 {
                self.put_range(addr, bytes);
            }
        }
    }

    /// Drops all that lies in these windows, from now on too. The client that `sweeps` sets it aside.
    pub(super) fn claim(&mut self, windows: Vec<Range<u64>>, sweeps: bool) {
        self.lift();
        let new = Space {
            windows,
            aside: sweeps.then(Vec::new),
            next: self.next,
            doubtful_bytes: self.doubtful_bytes,
            owed_bytes: self.owed_bytes,
            ..Space::new(self.chunks.len() as u8)
        };
        let old = mem::replace(self, new);
        for (addr, bytes) in old.free_ranges() {
            self.put(Ref::new(addr), bytes);
        }
        for waiting in old.waiting {
            self.wait(waiting.epoch, waiting.block, waiting.bytes);
        }
        // The sweep finds these.
        self.dropped_bytes = 0;
    }

    /// Forgets all, as it was given to others or counts as leaked.
    pub(super) fn forget(&mut self) {
        *self = Space {
            next: self.next,
            doubtful_bytes: self.doubtful_bytes,
            owed_bytes: self.owed_bytes,
            ..Space::new(self.chunks.len() as u8)
        };
    }

    /// Ends the claim of a sweep that gives up, before another one begins.
    pub(super) fn take_back(&mut self) {
        let aside = self.aside.take();
        self.lift();
        for (addr, bytes) in aside.into_iter().flatten() {
            self.add(addr, bytes);
        }
    }

    /// Ends the claim.
    pub(super) fn lift(&mut self) {
        self.aside = None;
        self.owed_bytes += mem::take(&mut self.dropped_bytes);
        self.windows.clear();
    }

    /// Bytes that are free at once.
    pub(super) fn free_bytes(&self) -> u64 {
        let [chunks, free, _] = self.held();
        chunks + free
    }

    /// Moves small blocks, and what is left of chunks, to the ranges, where neighbours are joined.
    fn join(&mut self) {
        for ((bytes, _), blocks) in mem::take(&mut self.free) {
            self.free_bytes -= bytes * blocks.len() as u64;
            blocks.into_iter().for_each(|block| self.put_range(block.addr(), bytes));
        }
        for node in 0..self.chunks.len() as u8 {
            let Chunk { off, end } = mem::take(&mut self.chunks[usize::from(node)]);
            if off < end {
                self.put_range(Addr::new(node, off), end - off);
            }
        }
    }

    /// Takes free memory out until `keep` bytes are left, in at most `count` bags of about `bag_bytes`: the largest
    /// pieces. Of all of it the smallest come first, as those that follow have room for the bags.
    pub(super) fn give(&mut self, keep: u64, bag_bytes: u64, count: usize) -> Vec<Bag> {
        let mut bags = Vec::new();
        if self.free_bytes() <= keep {
            return bags;
        }
        self.join();
        while bags.len() < count && self.free_bytes > keep {
            let Some(at) = self.take_any_range(BAG_BYTES) else { break };
            let (mut extents, mut sum) = (Vec::new(), 0);
            while extents.len() < BAG_EXTENTS && sum < bag_bytes && self.free_bytes > keep {
                let most = (bag_bytes - sum).next_multiple_of(UNIT).min(EXTENT_MAX);
                let nodes = self.chunks.len();
                let node = usize::from(self.turn());
                let found = (0..nodes).find_map(|i| {
                    let node = (node + i) % nodes;
                    Some((node, self.ranges[node].take_some(keep > 0, most)?))
                });
                let Some((node, (off, bytes))) = found else { break };
                self.free_bytes -= bytes;
                extents.push((Ref::new(Addr::new(node as u8, off)), bytes));
                sum += bytes;
            }
            bags.push(Bag { at, epoch: 0, extents });
        }
        bags
    }

    /// Takes waiting blocks out, as far as there are free blocks for their bags.
    pub(super) fn give_waiting(&mut self, count: usize) -> Vec<Bag> {
        let mut bags = Vec::new();
        self.join();
        while bags.len() < count && !self.waiting.is_empty() {
            let Some(at) = self.take_any_range(BAG_BYTES) else { break };
            let mut bag = Bag { at, epoch: 0, extents: Vec::new() };
            while bag.extents.len() < BAG_EXTENTS
                && let Some(waiting) = self.waiting.front_mut()
            {
                let (block, bytes) = (waiting.block, waiting.bytes.min(EXTENT_MAX));
                bag.epoch = bag.epoch.max(waiting.epoch);
                bag.extents.push((block, bytes));
                self.waiting_bytes -= bytes;
                if waiting.bytes == bytes {
                    self.waiting.pop_front();
                } else {
                    waiting.block = Ref::new(block.addr().add(bytes));
                    waiting.bytes -= bytes;
                }
            }
            bags.push(bag);
        }
        bags
    }

    /// Frees the blocks that waited for the global epoch `epoch`.
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

    /// Bytes of chunks, of free blocks, and of waiting ones.
    pub(super) fn held(&self) -> [u64; 3] {
        let chunks = self.chunks.iter().map(|chunk| chunk.end - chunk.off).sum();
        [chunks, self.free_bytes, self.waiting_bytes]
    }

    /// All ranges held, as (address, bytes).
    pub(super) fn ranges(&self) -> Vec<(Addr, u64)> {
        let waiting = self.waiting.iter().map(|waiting| (waiting.block.addr(), waiting.bytes));
        self.free_ranges().into_iter().chain(waiting).collect()
    }

    fn free_ranges(&self) -> Vec<(Addr, u64)> {
        let chunks = (self.chunks.iter().zip(0..))
            .map(|(chunk, node)| (Addr::new(node, chunk.off), chunk.end - chunk.off));
        let ranges = (self.ranges.iter().zip(0..)).flat_map(|(ranges, node)| {
            ranges.iter().map(move |(off, bytes)| (Addr::new(node, off), bytes))
        });
        let free = self.free.iter().flat_map(|(&(bytes, _), blocks)| {
            blocks.iter().map(move |block| (block.addr(), bytes))
        });
        chunks.chain(free).chain(ranges).filter(|&(_, bytes)| bytes > 0).collect()
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
    fn the_rest_of_a_larger_block_serves_blocks_of_its_size() {
        let mut space = Space::new(1);
        (0..1000).for_each(|i| space.put(Ref::new(Addr::new(0, 4096 + i * 1024)), 512));
        (0..1000).for_each(|_| {
            space.take(0, 64).or_else(|| space.take_larger(64)).unwrap();
        });
        assert_eq!(space.held()[1], 448_000);
        assert_eq!((0..1000).filter_map(|_| space.take(0, 512)).count(), 875);
    }

    #[test]
    fn small_blocks_are_taken_of_the_node_that_is_asked_for() {
        let mut space = Space::new(2);
        let at = [0, 1].map(|node| Ref::new(Addr::new(node, 4096)));
        at.into_iter().for_each(|block| space.put(block, 64));
        assert_eq!([space.take(0, 64), space.take(0, 64)], [Some(at[0]), None]);
        assert_eq!(space.take(1, 64), Some(at[1]));
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

    #[test]
    fn nothing_in_a_window_is_held_or_given() {
        let at = |off| Ref::new(Addr::new(0, off));
        let fill = |space: &mut Space| {
            space.add_chunk(0, 64, 4096, 8192);
            space.put(at(16_384), 4096);
            space.put(at(20_480), 64);
            space.retire(1, at(30_720), 4096);
            let bag = Bag { at: at(64), epoch: 0, extents: vec![(at(40_960), 8192)] };
            space.adopt(&bag, 1, 1, true);
        };
        let window = 8192..32_768;
        let mut space = Space::new(1);
        fill(&mut space);
        space.claim(vec![window.clone()], true);
        assert_eq!(space.held(), [0, 4096 + 8192, 3072]);
        space.take_back();
        assert_eq!(space.held(), [0, 8192 + 4096 + 64 + 8192, 3072]);
        let mut other = Space::new(1);
        other.claim(vec![window], false);
        fill(&mut other);
        assert_eq!(other.held(), [4096, 8192, 3072]);
        other.lift();
        assert_eq!(other.owed_bytes, 2048);
        let bags = other.give(0, 4096, 9);
        let given = bags.iter().flat_map(|bag| &bag.extents).map(|extent| extent.1).sum::<u64>();
        assert_eq!(given + bags.len() as u64 * BAG_BYTES, 4096 + 8192);
        assert_eq!(other.held(), [0, 0, 3072]);
    }

    #[test]
    fn new_bags_have_what_lies_outside_of_a_window() {
        let at = |off| Ref::new(Addr::new(0, off));
        let bag = |own, epoch, extents| Bag { at: at(own), epoch, extents };
        let mut space = Space::new(1);
        let window = 8192..16_384;
        space.claim(vec![window], true);
        let bags = [
            bag(1024, 0, vec![(at(4096), 8192), (at(20_480), 4096)]),
            bag(9216, 7, vec![(at(40_960), 64)]),
            bag(2048, 0, vec![(at(12_288), 8192)]),
        ];
        assert!(bags.iter().all(|bag| space.claims(bag)));
        assert!(!space.claims(&bag(7168, 0, vec![(at(16_384), 64), (at(8128), 64)])));
        space.put(at(65_536), 2 * BAG_BYTES);
        assert!(space.rebag(&bags, 5, 1 << 20, false).is_none(), "three are needed");
        assert_eq!(space.held(), [0, 2 * BAG_BYTES, 0]);
        let [new, rest] = space.rebag(&bags, 5, 1 << 20, true).unwrap();
        assert_eq!((new.len(), rest[2].extents.len()), (2, 2));
        space.unbag(&new);
        space.put(at(131_072), BAG_BYTES);
        let told = |bags: &[Bag]| -> Vec<_> {
            bags.iter().map(|bag| (bag.epoch, bag.extents.clone())).collect()
        };
        let [new, rest] = space.rebag(&bags, 5, 1 << 20, false).unwrap();
        let outside = [(at(4096), 4096), (at(20_480), 4096)].to_vec();
        let others = [(7, vec![(at(40_960), 64)]), (0, vec![(at(16_384), 4096)])];
        assert_eq!(told(&new), [&[(0, outside)][..], &others].concat());
        let inside = [(at(8192), 4096), (at(12_288), 4096)].map(|extent| vec![extent]);
        let [first, last] = inside;
        assert_eq!(told(&rest), [(0, first), (7, vec![]), (0, last)]);
        space.unbag(&new);
        // What waited is free.
        let [new, _] = space.rebag(&bags, 7, 1 << 20, false).unwrap();
        assert_eq!(new.iter().map(|bag| bag.extents.len()).collect::<Vec<_>>(), [4]);
        assert_eq!(space.held(), [0, 2 * BAG_BYTES, 0]);
    }
}
