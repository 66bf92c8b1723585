//! Merge and split of a full CurSegment, and the directory that follows.
//!
//! | Operation | Batch | What | If the client dies after it |
//! |---|---|---|---|
//! | merge, split | | where this client has written the MainSegment, and knows all entries behind it, batches 1 and 2 are not needed, unless the next generation is divisible by 32 | |
//! | | 1 | read CurSegment and the header of the MainSegment (the global epoch, where the next generation is divisible by 32) | |
//! | | 2 | read the MainSegment's entries (before it, the rest of a header with wide counts) | |
//! | | 3 | read the keys that must be compared (the rest of long ones: once more) | |
//! | merge | 4 | write the new MainSegment, and the hints that were missing | the new one is lost to a sweep |
//! | | 5 | swap word A: {new, generation + 1, depth} | merged: all entries are free at once |
//! | split | 4 | write both new MainSegments and the new CurSegment, hints | they are lost to a sweep |
//! | | 5 | swap buddy\[depth\] from zero | the upper half belongs to the index; the next client that splits adopts it |
//! | | 6 | swap word A: {lower half, generation + 1, depth + 1} | split |
//! | | | directory cells of the upper half, unsignaled | looks follow the buddy |
//! | doubling | 1 | read the directory | |
//! | | 2 | write it again behind itself | no client looks there |
//! | | 3 | swap the global depth | doubled |
//!
//! The inputs are frozen: only the swap of word A changes a full CurSegment, and the new
//! contents and the decision to split are functions of it. So any number of clients may merge it at
//! the same time, and one swap wins. A loser frees the blocks that it has not published.
//!
//! The merger writes the hints that are missing, so every generation ends with all of them. A hint
//! of another generation counts as unknown, and one of the generation is true.

use std::cell::Cell;
use std::rc::Rc;

use durahash_media::{Error, Limit, Result};

use crate::fabric::{Addr, Batch, Fabric};
use crate::planted::{Fault, hint_generation, planted};

use super::Core;
use super::cache::Main;
use super::epoch::Op;
use super::fold::{Compared, Frozen, Keys, divide};
use super::fptable::FpTable;
use super::layout::{
    BUMP_OFF, EPOCH, Entry, ITEM_BYTES, Item, Kv, MAIN_ENTRIES_MAX, MAIN_FIRST_READ, MainHeader,
    ROOT, Ref, State, Suffix, UNIT, WordA, cell, counts_of, cur_segment, epoch_of, fp, fp2, items,
    main_bytes, main_segment, suffix, usable_bytes, word_at, words,
};
use super::options::Technique;
use super::space::block_bytes;
use super::verbs::Post;
use super::write::MERGING_NS;

/// Generations between two commits that wait until no operation is left from before the last one.
const STRIDE: u16 = 32;
/// Cells written after a split; further ones keep an ancestor, and looks follow its buddies.
const MENDED: usize = 256;
/// Bags that an allocation pops at most.
const POPS: u32 = 8;
/// Bytes of the directory read or written at once.
const PIECE: u64 = 1 << 18;
/// The longest wait for another coroutine that takes memory.
const TAKING_NS: u64 = 1_000_000_000;

/// A segment that was read whole.
pub(super) struct Segment {
    pub(super) cur: Ref,
    pub(super) a: WordA,
    pub(super) suffix: Suffix,
    /// The upper half of a split that was not committed: it belongs to the index already.
    pub(super) pending: Ref,
    pub(super) header: MainHeader,
    /// Live entries and their hints, and those of the MainSegment.
    pub(super) frozen: Frozen,
    /// The global epoch, if it was read.
    epoch: u64,
}

impl<F: Fabric> Core<F> {
    /// Merges or splits the full segment `cur` whose word A was `a`; does nothing if another
    /// client has done it.
    pub(super) async fn merge(&self, op: &mut Op<'_, F>, cur: Ref, a: WordA) -> Result<()> {
        let stride = if planted(Fault::Narrow) { 1 } else { STRIDE };
        let turning = a.generation().wrapping_add(1).is_multiple_of(stride);
        let began_ns = self.fabric.now_ns();
        loop {
            let known = self.known_segment(cur, a).filter(|_| !turning);
            let is_known = known.is_some();
            let full = match known {
                None => self.read_segment(op, cur, a, Some(turning)).await?,
                known => known,
            };
            let full = full.filter(|full| full.frozen.cur.len() as u32 == self.geometry.cur);
            let Some(full) = full else { return Ok(()) };
            if turning
                && !planted(Fault::TurnsUnwaited)
                && full.header.mark != 0
                && full.epoch < full.header.mark + 2
            {
                // An operation may be under way since the last such generation. The wait holds no epoch.
                let mut wait_ns = self.options.wait_ns;
                loop {
                    self.stats.borrow_mut().waits += 1;
                    op.wait(wait_ns).await;
                    self.epochs.borrow_mut().hurry();
                    let beat_ns = self.fabric.now_ns();
                    self.beat(false).await?;
                    if self.fabric.now_ns() - began_ns >= self.patience_ns() {
                        return Err(self.held_back());
                    }
                    // Over TCP it reads the segment again only when that is of use: many may wait, and keep each other's
                    // ticks from the node.
                    let is_early = self.epochs.borrow().latest < full.header.mark + 2;
                    if !self.appends_together() || !is_early {
                        break;
                    }
                    if op.read_word(cur.addr()).await? != a.0 {
                        return Ok(());
                    }
                    wait_ns = wait_ns.max((self.fabric.now_ns() - beat_ns).min(MERGING_NS));
                }
                continue;
            }
            // It is committed at an epoch of tag + 1 at the latest.
            let mark = if turning { op.tag + 1 } else { full.header.mark };
            let mut len = full.header.len;
            if planted(Fault::SplitByHints) {
                let unknown = full.frozen.cur.iter().filter(|(_, hint)| hint.is_none()).count();
                len = len.saturating_sub(unknown as u32);
            }
            let splits = self.geometry.splits(a, len);
            let dep_tells = a.depth() % 4 != 3 && self.options.without != Some(Technique::Depths);
            let compared = full.frozen.compared();
            let all = splits && !dep_tells;
            let keys = self.keys(op, &full.frozen, &compared, all).await?;
            let folded = full.frozen.fold(&compared, &keys);
            // Those that this client knows may not be there.
            let hints = hints(&full.frozen, &keys, is_known);
            let olds = full.frozen.cur.iter().map(|(entry, _)| entry.0).collect();
            let committed = if splits {
                let halves = divide(&folded.kept, a.depth(), &keys);
                self.commit_split(op, cur, a, full.suffix, halves, mark, &hints, olds).await?
            } else {
                self.commit_merge(op, cur, a, folded.kept, mark, &hints, olds).await?
            };
            if committed {
                self.retire(op, a.main(), main_bytes(full.header.len as usize));
                for entry in &folded.dropped {
                    self.retire(op, entry.kv(), keys.of(*entry).bytes);
                }
                if splits {
                    self.mend(cur, full.suffix, a.depth()).await?;
                }
            } else {
                self.stats.borrow_mut().lost += 1;
            }
            return Ok(());
        }
    }

    fn retire(&self, op: &Op<'_, F>, block: Ref, bytes: usize) {
        let (mut space, bytes) = (self.space.borrow_mut(), block_bytes(bytes));
        if planted(Fault::ReusedAtOnce) {
            return space.put(block, bytes);
        }
        space.retire(op.tag, block, bytes);
    }

    /// A full segment that this client knows whole, as it has written the MainSegment.
    fn known_segment(&self, cur: Ref, a: WordA) -> Option<Segment> {
        let mut cache = self.cache.borrow_mut();
        let (suffix, entries, main) = cache.take_whole(cur, a, self.geometry.cur)?;
        let mark = main.mark;
        let header = MainHeader { len: main.items.len() as u32, mark, counts: Vec::new() };
        let frozen = Frozen { cur: entries, main: Rc::clone(&main.items) };
        Some(Segment { cur, a, suffix, pending: Ref::NONE, header, frozen, epoch: 0 })
    }

    /// Batches 1 and 2; `None` if word A is not `a` any more, or was not all the time. For a merge, `turning`
    /// says whether to read the global epoch, too.
    pub(super) async fn read_segment(
        &self,
        op: &Op<'_, F>,
        cur: Ref,
        a: WordA,
        turning: Option<bool>,
    ) -> Result<Option<Segment>> {
        let mut batch = Batch::new();
        batch.read(cur.addr(), self.geometry.cur_bytes());
        batch.read(a.main().addr(), MAIN_FIRST_READ);
        let epoch = (turning == Some(true)).then(|| batch.read(EPOCH, 8));
        let done = op.send(batch).await?;
        let epoch = epoch.map_or(Ok(0), |epoch| epoch_of(done.word(epoch)))?;
        let bytes = done.bytes(0);
        if word_at(bytes, 0) != a.0 {
            return Ok(None);
        }
        let (entries, hints) = bytes.split_at(self.geometry.hint_off(0) as usize);
        let entries = words(&entries[self.geometry.entries_off() as usize..]).map(Entry);
        // A hint of another generation is unknown.
        let believed = turning.is_some() && planted(Fault::HintOfAny);
        let hints = hints.chunks_exact(2).map(|hint| {
            (believed || hint[0] == hint_generation(a.generation())).then_some(hint[1])
        });
        let mut live = Vec::new();
        for (entry, hint) in entries.zip(hints) {
            match entry.state(a.generation()) {
                State::Live => live.push((entry, hint)),
                State::Free => break,
                State::Other => return Ok(None),
            }
        }
        let pending = if a.depth() < self.geometry.max_depth {
            Ref::from_word(word_at(bytes, self.geometry.buddy_off(a.depth()) as usize))
        } else {
            Ref::NONE
        };
        let header = self.main_header(op, a.main(), done.bytes(1)).await?;
        let suffix = Suffix::from_word(word_at(bytes, 8));
        let settled = self.read_range(op, a.main(), header.len, &(0..header.len)).await?;
        let frozen = Frozen { cur: live, main: Rc::new(items(&settled).collect()) };
        Ok(Some(Segment { cur, a, suffix, pending, header, frozen, epoch }))
    }

    /// Batch 3: the keys that a fold needs.
    pub(super) async fn keys(
        &self,
        op: &Op<'_, F>,
        frozen: &Frozen,
        compared: &Compared,
        all: bool,
    ) -> Result<Keys> {
        let wanted = frozen.wanted(compared, all);
        let mut keys = Keys::with_capacity(wanted.len());
        if wanted.is_empty() {
            return Ok(keys);
        }
        self.stats.borrow_mut().keys_read += wanted.len() as u64;
        let starts = wanted.iter().map(|entry| (entry.kv(), UNIT as usize));
        let done = self.read_blocks(op, starts).await?;
        let mut long = Vec::new();
        for (i, entry) in wanted.iter().enumerate() {
            let kv = Kv::parse(done.bytes(i), entry.kv().addr().off())?;
            match kv.key() {
                Some(key) => self.know(&mut keys, *entry, key, kv.block_bytes())?,
                None => long.push((entry, kv.block_bytes(), kv.block_bytes() - kv.value_len)),
            }
        }
        let ends = long.iter().map(|&(entry, _, bytes)| (entry.kv(), bytes));
        let done = self.read_blocks(op, ends).await?;
        for (i, (entry, bytes, _)) in long.into_iter().enumerate() {
            let off = entry.kv().addr().off();
            let kv = Kv::parse(done.bytes(i), off)?;
            let key = kv.key().ok_or_else(|| Error::corrupt("the length of a key", off))?;
            self.know(&mut keys, *entry, key, bytes)?;
        }
        Ok(keys)
    }

    fn know(&self, keys: &mut Keys, entry: Entry, key: &[u8], bytes: usize) -> Result<()> {
        let hash = self.hash.hash(key);
        if fp(hash) != entry.fp() {
            return Err(Error::corrupt("the key of an entry", entry.kv().addr().off()));
        }
        keys.insert(entry, hash, key, bytes);
        Ok(())
    }

    fn write_hints(&self, batch: &mut Batch, cur: Ref, a: WordA, hints: &[(u32, u8)]) {
        for run in hints.chunk_by(|hint, next| hint.0 + 1 == next.0) {
            let at = cur.addr().add(self.geometry.hint_off(run[0].0));
            let bytes = run.iter().flat_map(|&(_, fp2)| [hint_generation(a.generation()), fp2]);
            batch.write(at, &bytes.collect::<Vec<_>>());
        }
    }

    /// Posts the blocks that the next swap will name, unless they go `together`, and returns the batch for that swap.
    async fn complete(
        &self,
        op: &Op<'_, F>,
        batch: Batch,
        together: bool,
        not_if: Fault,
    ) -> Result<Batch> {
        if together || planted(not_if) {
            return Ok(batch);
        }
        op.send(batch).await?;
        Ok(Batch::new())
    }

    #[allow(clippy::too_many_arguments, reason = "what a merge is made of")]
    async fn commit_merge(
        &self,
        op: &Op<'_, F>,
        cur: Ref,
        a: WordA,
        kept: Vec<Item>,
        mark: u64,
        hints: &[(u32, u8)],
        olds: Vec<u64>,
    ) -> Result<bool> {
        // At the maximum depth only; the segment stays full, and is read.
        if kept.len() as u64 > MAIN_ENTRIES_MAX {
            let limit = Limit::Design("a segment of the largest depth is full");
            return Err(Error::full((kept.len() * ITEM_BYTES) as u64, limit));
        }
        let bytes = main_segment(&kept, mark);
        let taken = block_bytes(bytes.len());
        let main = self.allocate(op, self.near(cur), bytes.len()).await?;
        let mut batch = Batch::new();
        batch.write(main.addr(), &bytes);
        self.write_hints(&mut batch, cur, a, hints);
        let together = self.go_together(main, cur);
        let mut batch = self.complete(op, batch, together, Fault::CommitWithMain).await?;
        let new = a.merged(main);
        let swap = batch.compare_swap(cur.addr(), a.0, new.0);
        if op.send(batch).await?.word(swap) != a.0 {
            self.space.borrow_mut().put(main, taken);
            return Ok(false);
        }
        self.stats.borrow_mut().merges += 1;
        self.turned(op, cur, new, Main { items: Rc::new(kept), mark }, olds);
        Ok(true)
    }

    /// Updates the cache after this client has turned the segment to its next generation.
    fn turned(&self, op: &Op<'_, F>, cur: Ref, new: WordA, main: Main, olds: Vec<u64>) {
        let mut cache = self.cache.borrow_mut();
        cache.turn(cur, new, op.tag);
        if self.appends_together() {
            cache.emptied(cur, new, olds);
        }
        cache.set_table(cur, new, Rc::new(FpTable::new(&counts_of(&main.items))));
        cache.keep(cur, new, main);
    }

    #[allow(clippy::too_many_arguments, reason = "what a split is made of")]
    async fn commit_split(
        &self,
        op: &Op<'_, F>,
        cur: Ref,
        a: WordA,
        place: Suffix,
        [lower, upper]: [Vec<Item>; 2],
        mark: u64,
        hints: &[(u32, u8)],
        olds: Vec<u64>,
    ) -> Result<bool> {
        let depth = a.depth();
        let lower_bytes = main_segment(&lower, mark);
        // No generation of the new segment was divisible by 32 yet.
        let upper_bytes = main_segment(&upper, 0);
        let cur_bytes = self.geometry.cur_bytes();
        let sizes = [lower_bytes.len(), upper_bytes.len(), cur_bytes];
        let [low, up, buddy] = self.allocate_all(op, self.near(cur), sizes).await?;
        let up_a = WordA::new(up, 1, depth + 1);
        let up_place = Suffix { bits: place.bits | 1 << depth, made: depth + 1 };
        let mut batch = Batch::new();
        batch.write(low.addr(), &lower_bytes);
        batch.write(up.addr(), &upper_bytes);
        batch.write(buddy.addr(), &cur_segment(&self.geometry, up_a, up_place));
        self.write_hints(&mut batch, cur, a, hints);
        let together = self.go_together(low, cur) && self.go_together(up, cur);
        let together = together && self.go_together(buddy, cur);
        let mut batch = self.complete(op, batch, together, Fault::BuddyWithHalves).await?;
        let new = a.split(low);
        let commit = || op.swap_word(cur.addr(), a.0, new.0);
        let early = if planted(Fault::BuddyLast) { Some(commit().await?) } else { None };
        let free_upper = || {
            let mut space = self.space.borrow_mut();
            space.put(up, block_bytes(sizes[1]));
            space.put(buddy, block_bytes(sizes[2]));
        };
        let buddy_at = cur.addr().add(self.geometry.buddy_off(depth));
        let swap = batch.compare_swap(buddy_at, 0, buddy.word());
        let found = op.send(batch).await?.word(swap);
        let published = if found == 0 {
            buddy
        } else {
            // Another client's upper half is published, and stays.
            free_upper();
            if planted(Fault::NotAdopted) { buddy } else { Ref::from_word(found) }
        };
        let swapped = match early {
            Some(swapped) => swapped,
            None => commit().await?,
        };
        {
            let mut cache = self.cache.borrow_mut();
            cache.learn_buddies(cur, depth, std::iter::once(published));
            cache.directory.learn(published, up_place.bits, depth + 1);
        }
        if swapped != a.0 {
            if planted(Fault::LoserFrees) && found == 0 {
                free_upper();
            }
            self.space.borrow_mut().put(low, block_bytes(sizes[0]));
            return Ok(false);
        }
        self.stats.borrow_mut().splits += 1;
        self.turned(op, cur, new, Main { items: Rc::new(lower), mark }, olds);
        if published == buddy {
            let buddies = vec![Ref::NONE; self.geometry.max_depth as usize];
            self.cache.borrow_mut().meet(buddy, up_a, up_place, buddies, op.tag);
            let zeros = vec![0; self.geometry.cur as usize];
            self.turned(op, buddy, up_a, Main { items: Rc::new(upper), mark: 0 }, zeros);
        }
        Ok(true)
    }

    async fn allocate_all(
        &self,
        op: &Op<'_, F>,
        near: Option<u8>,
        bytes: [usize; 3],
    ) -> Result<[Ref; 3]> {
        // The upper half of the segment lies together, on the node whose turn it is.
        let other = near.map(|_| self.space.borrow_mut().turn());
        let mut blocks = [Ref::NONE; 3];
        for (i, near) in [near, other, other].into_iter().enumerate() {
            match self.allocate(op, near, bytes[i]).await {
                Ok(block) => blocks[i] = block,
                Err(error) => {
                    for (block, bytes) in blocks.into_iter().zip(bytes).take(i) {
                        self.space.borrow_mut().put(block, block_bytes(bytes));
                    }
                    return Err(error);
                }
            }
        }
        Ok(blocks)
    }

    /// Doubles the directory as often as `depth` needs, and writes the cells of the upper half of a
    /// split at depth `depth`.
    async fn mend(&self, cur: Ref, place: Suffix, depth: u32) -> Result<()> {
        let buddy = self.cache.borrow().buddy(cur, depth);
        if buddy.is_none() {
            return Ok(());
        }
        let global = self.double(depth + 1).await?;
        let bits = place.bits | 1 << depth;
        let cells = (suffix(bits, depth + 1)..1 << global).step_by(1 << (depth + 1));
        for idx in cells.take(MENDED) {
            let word = cell(buddy, depth + 1);
            self.fabric.write_unsignaled(self.geometry.directory(idx), &word.to_le_bytes())?;
        }
        Ok(())
    }

    /// Doubles the directory until its depth is at least `depth`.
    async fn double(&self, depth: u32) -> Result<u32> {
        loop {
            let known = self.global_depth.get();
            if known >= depth {
                return Ok(known);
            }
            let global = self.fabric.read_word(ROOT).await? as u32;
            if global > self.geometry.max_depth {
                return Err(Error::corrupt("the depth of the directory", ROOT.off()));
            }
            self.global_depth.set(global);
            if global >= depth {
                continue;
            }
            let double = || self.fabric.swap_word(ROOT, global.into(), u64::from(global) + 1);
            if planted(Fault::DoubledFirst) {
                double().await?;
            }
            let bytes = 8u64 << global;
            for from in (0..bytes).step_by(PIECE as usize) {
                let len = PIECE.min(bytes - from);
                let cells =
                    self.fabric.read(self.geometry.directory(from / 8), len as usize).await?;
                self.fabric.write(self.geometry.directory((bytes + from) / 8), &cells).await?;
            }
            if double().await? == u64::from(global) {
                self.stats.borrow_mut().doublings += 1;
                self.global_depth.set(global + 1);
            }
        }
    }

    /// The node for what a segment will name, where a swap of the segment may go together with it.
    pub(super) fn near(&self, cur: Ref) -> Option<u8> {
        let near = self.appends_together() && !planted(Fault::TogetherAnywhere);
        near.then(|| cur.addr().node())
    }

    /// Whether the fabric has a swap of the segment take effect after a write of this block that is posted with it.
    pub(super) fn go_together(&self, block: Ref, cur: Ref) -> bool {
        let anywhere = planted(Fault::TogetherAnywhere) && self.appends_together();
        anywhere || self.near(cur) == Some(block.addr().node())
    }

    /// Allocates a block for `bytes`, on the node `near`, else on that whose turn it is, or on any that has room: of this
    /// client's memory, else from the shelf, else of a new chunk.
    pub(super) async fn allocate(
        &self,
        op: &Op<'_, F>,
        near: Option<u8>,
        bytes: usize,
    ) -> Result<Ref> {
        let bytes = block_bytes(bytes);
        let first = near.unwrap_or_else(|| self.space.borrow_mut().turn());
        match self.take_own(first, bytes) {
            Some(block) => Ok(block),
            None => Box::pin(self.acquire(op, first, bytes)).await,
        }
    }

    /// Takes a block of this client's memory, of `first` unless all chunks of that node are taken.
    pub(super) fn take_own(&self, first: u8, bytes: u64) -> Option<Ref> {
        let nodes = self.geometry.nodes;
        let own = |node| self.space.borrow_mut().take_or_recycle(node, bytes);
        if self.exhausted[usize::from(first)].get() {
            return (0..nodes).find_map(|i| own((first + i) % nodes));
        }
        own(first)
    }

    /// Takes more memory, and a block of it.
    async fn acquire(&self, op: &Op<'_, F>, first: u8, bytes: u64) -> Result<Ref> {
        let own = |node| self.space.borrow_mut().take_or_recycle(node, bytes);
        let any = || (0..self.geometry.nodes).find_map(|i| own((first + i) % self.geometry.nodes));
        // One coroutine takes memory, and the others take of it, but for one that is not polled.
        let began_ns = self.fabric.now_ns();
        while self.taking.replace(true) && self.fabric.now_ns() - began_ns < TAKING_NS {
            self.fabric.sleep_ns(1000).await;
            if let Some(block) = self.take_own(first, bytes) {
                return Ok(block);
            }
        }
        let _taking = Taking(&self.taking);
        if !self.shelf.get().is_none()
            && let Some(block) = self.pop(op, POPS, any).await?
        {
            return Ok(block);
        }
        for i in 0..self.geometry.nodes {
            let node = (first + i) % self.geometry.nodes;
            if let Some(block) = own(node) {
                return Ok(block);
            }
            // A chunk of before a sweep may lie in its window.
            while self.take_chunk(op, node, bytes).await? {
                if let Some(block) = self.space.borrow_mut().take(node, bytes) {
                    return Ok(block);
                }
            }
        }
        let larger = || self.space.borrow_mut().take_larger(bytes);
        let block = match larger() {
            None => self.pop(op, u32::MAX, larger).await?,
            block => block,
        };
        // The blocks that wait for their epoch are needed.
        self.short.set(block.is_none());
        block.ok_or_else(|| Error::full(bytes, Limit::Nodes))
    }

    /// Takes a chunk of any node that has one.
    pub(super) async fn take_any_chunk(&self, op: &Op<'_, F>, block_bytes: u64) -> Result<bool> {
        for node in 0..self.geometry.nodes {
            if self.take_chunk(op, node, block_bytes).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a chunk of `node` for a block of `block_bytes`, and returns whether there was one.
    async fn take_chunk(&self, op: &Op<'_, F>, node: u8, block_bytes: u64) -> Result<bool> {
        if self.exhausted[usize::from(node)].get() {
            return Ok(false);
        }
        // A node that is used up takes no more additions, which would overflow the bump word in the end.
        let usable = usable_bytes(&self.fabric, node);
        let bytes = self.options.chunk_bytes.min(usable).max(block_bytes).next_multiple_of(UNIT);
        let bump = Addr::new(node, BUMP_OFF);
        let off = op.send(Batch::of(|batch| batch.fetch_add(bump, bytes))).await?.word(0);
        if off < self.geometry.first_chunk(node) || !off.is_multiple_of(UNIT) {
            return Err(Error::corrupt("the bump word of a node", bump.off()));
        }
        let got = usable.saturating_sub(off).min(bytes);
        if got > 0 {
            self.stats.borrow_mut().chunks += 1;
            self.space.borrow_mut().add_chunk(node, block_bytes, off, got);
        }
        self.exhausted[usize::from(node)].set(got < bytes);
        Ok(got >= block_bytes)
    }
}

/// Ends the taking of memory.
struct Taking<'a>(&'a Cell<bool>);

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The fp2 of entries without a hint, or of `all`, by index.
fn hints(frozen: &Frozen, keys: &Keys, all: bool) -> Vec<(u32, u8)> {
    let fp2_of = |entry: &Entry| fp2(keys.of(*entry).hash);
    (frozen.cur.iter().zip(0..))
        .filter(|((_, hint), _)| all || hint.is_none())
        .map(|((entry, hint), idx)| (idx, hint.unwrap_or_else(|| fp2_of(entry))))
        .collect()
}
