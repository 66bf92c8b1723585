//! Walks over the whole index: `check`, figures, iteration, and what a sweep (`reclaim.rs`) visits.

use std::collections::{HashSet, VecDeque};

use durahash_media::{Error, Result};

use crate::fabric::{Addr, Fabric};
use crate::planted::{Fault, planted};

use super::Core;
use super::epoch::Op;
use super::grow::Segment;
use super::layout::{
    BUMP_OFF, Item, Kv, MAIN_FIRST_READ, ROOT, Ref, SHELF, Suffix, UNIT, WordA, counts_of, dep, fp,
    fp2, main_bytes, suffix, usable_bytes,
};
use super::look::{Scope, Stuck};
use super::space::{BAG_BYTES, block_bytes};
use super::verbs::Post;
use super::walk::{Position, is_damage};

/// The result of [`check`](crate::RemoteMap::check).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Segments.
    pub segments: u64,
    /// Entries of CurSegments and MainSegments.
    pub entries: u64,
    /// Keys that have a value.
    pub keys: u64,
    /// Depth of the directory.
    pub depth: u32,
    /// Depth of the deepest segment.
    pub deepest: u32,
    /// Segments that cannot split any more.
    pub at_max_depth: u64,
    /// Bytes of CurSegments, MainSegments and the part of the directory that is in use.
    pub index_bytes: u64,
    /// Bytes of KV blocks that entries name, including those of replaced and removed values.
    pub kv_bytes: u64,
    /// Entries that the segments' memory has room for.
    pub capacity: u64,
    /// Bytes that clients took from the nodes.
    pub taken_bytes: u64,
    /// Those of them that are free for this client, or wait for their epoch.
    pub held_bytes: u64,
    /// Those of them that are free for any client: that lie on the shelf.
    pub shelf_bytes: u64,
    /// Those of them that are none of these: free for other clients that live, or leaked by dead ones.
    pub unaccounted_bytes: u64,
}

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// Bytes of a KV block, its key and its value.
type Whole = (usize, Vec<u8>, Vec<u8>);

/// The keys and values of a segment.
pub(crate) struct Page {
    pub(crate) pairs: Vec<Pair>,
    /// The damage that hides others.
    pub(crate) damage: VecDeque<Error>,
    pub(crate) next: Option<Position>,
}

impl<F: Fabric> Core<F> {
    /// A snapshot of the segment at `at`.
    pub(super) async fn visit(&self, op: &Op<'_, F>, at: Position) -> Result<Segment> {
        let mut stuck = Stuck::default();
        loop {
            let sight = self.look(op, at.hash(), Scope::Append, &mut None).await?;
            if let Some(segment) = self.read_segment(op, sight.cur, sight.a, None).await? {
                return Ok(segment);
            }
            stuck.at(sight.cur, sight.a)?;
        }
    }

    /// The same of a walk that must not miss a segment, and the next position.
    pub(super) async fn visit_at(
        &self,
        op: &Op<'_, F>,
        at: Position,
    ) -> Result<(Segment, Option<Position>)> {
        let segment = self.visit(op, at).await?;
        let (a, place) = (segment.a, segment.suffix);
        // SEP-1
        if !at.is_of(place) || a.depth() > self.geometry.max_depth {
            let off = segment.cur.addr().off();
            return Err(Error::corrupt("a segment whose suffix does not match its place", off));
        }
        Ok((segment, at.after(a, place)))
    }

    /// The MainSegment of the upper half of a split that was not committed, and its length. Its entries are
    /// those of the segment.
    pub(super) async fn pending(
        &self,
        op: &Op<'_, F>,
        segment: &Segment,
    ) -> Result<Option<(Ref, u32)>> {
        if segment.pending.is_none() || planted(Fault::PendingOverlooked) {
            return Ok(None);
        }
        let main = WordA(op.read_word(segment.pending.addr()).await?).main();
        let first = op.read(main.addr(), MAIN_FIRST_READ).await?;
        Ok(Some((main, self.main_header(op, main, &first).await?.len)))
    }

    /// The keys and values of the segment at `at`, and the next position. The page lists damaged blocks; an error
    /// is damage of the segment itself, behind which the walk cannot continue.
    pub(crate) async fn page(&self, at: Position) -> Result<Page> {
        self.upkeep().await?;
        let op = Op::new(self);
        let seen = self.visit(&op, at).await?;
        let mut page = Page {
            next: at.after(seen.a, seen.suffix),
            pairs: Vec::new(),
            damage: VecDeque::new(),
        };
        let compared = seen.frozen.compared();
        let keys = match self.keys(&op, &seen.frozen, &compared, false).await {
            Ok(keys) => keys,
            Err(e) if is_damage(&e) => {
                // Without the key of an entry, an older one of the same fingerprint may be outdated: none is returned.
                page.damage.push_back(e);
                return Ok(page);
            }
            Err(e) => return Err(e),
        };
        let folded = seen.frozen.fold(&compared, &keys);
        page.pairs.reserve(folded.kept.len());
        for some in folded.kept.chunks(256) {
            for pair in self.read_pairs(&op, some).await? {
                match pair {
                    Ok((_, key, value)) => page.pairs.push((key, value)),
                    Err(e) => page.damage.push_back(e),
                }
            }
        }
        Ok(page)
    }

    /// Whole KV blocks, or the damage of each.
    async fn read_pairs(&self, op: &Op<'_, F>, list: &[Item]) -> Result<Vec<Result<Whole>>> {
        let blocks = list.iter().map(|item| (item.entry.kv(), item.entry.len().first_read()));
        let done = self.read_blocks(op, blocks).await?;
        let mut pairs = Vec::with_capacity(list.len());
        for (i, item) in list.iter().enumerate() {
            let off = item.entry.kv().addr().off();
            let whole;
            let kv = match Kv::parse(done.bytes(i), off) {
                Ok(kv) if !kv.is_whole() => {
                    whole = self.read_blocks(op, [(item.entry.kv(), kv.block_bytes())]).await?;
                    Kv::parse(whole.bytes(0), off)
                }
                parsed => parsed,
            };
            pairs.push(kv.and_then(|kv| {
                let key = kv.key().filter(|_| kv.is_whole());
                let key = key.ok_or_else(|| Error::corrupt("the lengths of a KV block", off))?;
                Ok((kv.block_bytes(), key.to_vec(), kv.value(&self.hash, off)?.to_vec()))
            }));
        }
        Ok(pairs)
    }

    /// Verifies the numbered invariants. No other client may write meanwhile.
    pub(crate) async fn check(&self) -> Result<Report> {
        self.wake().await?;
        let op = &Op::new(self);
        for node in 0..self.geometry.nodes {
            self.fabric.flush(node).await?;
        }
        let mut report = Report::default();
        let mut used = Vec::new();
        let mut seen = HashSet::new();
        let mut at = Some(Position::START);
        while let Some(position) = at {
            let (segment, next) = self.visit_at(op, position).await?;
            if !seen.insert(segment.cur) {
                let off = segment.cur.addr().off();
                return Err(Error::corrupt("a segment in two places", off));
            }
            self.check_segment(op, &segment, &mut report, &mut used).await?;
            at = next;
        }
        self.check_directory(op, &seen, &mut report).await?;
        // SEP-6. The bumps come last: a client that leaves may take a chunk for a bag meanwhile.
        let (held, shelf) = self.free_ranges(op).await?;
        let mut bumps = Vec::new();
        for node in 0..self.geometry.nodes {
            let first = self.geometry.first_chunk(node);
            let word = op.read_word(Addr::new(node, BUMP_OFF)).await?;
            let bump = word.min(usable_bytes(&self.fabric, node));
            if bump < first || !word.is_multiple_of(UNIT) {
                return Err(Error::corrupt("the bump word of a node", BUMP_OFF));
            }
            report.taken_bytes += bump - first;
            bumps.push(bump);
        }
        let sum = |ranges: &[(Addr, u64)]| ranges.iter().map(|range| range.1).sum();
        (report.held_bytes, report.shelf_bytes) = (sum(&held), sum(&shelf));
        let mut all: Vec<_> = [used, held, shelf].concat();
        all.sort_unstable();
        let mut before = Addr::new(0, 0);
        for &(from, bytes) in &all {
            let end = from.add(bytes);
            let node = from.node();
            let first = self.geometry.first_chunk(node);
            if from < before || from.off() < first || end.off() > bumps[usize::from(node)] {
                return Err(Error::corrupt("a block that overlaps another", from.off()));
            }
            before = end;
        }
        let accounted = all.iter().map(|range| range.1).sum::<u64>();
        report.unaccounted_bytes = report.taken_bytes - accounted;
        Ok(report)
    }

    async fn check_segment(
        &self,
        op: &Op<'_, F>,
        segment: &Segment,
        report: &mut Report,
        used: &mut Vec<(Addr, u64)>,
    ) -> Result<()> {
        let Segment { cur, a, suffix: place, header, frozen, .. } = segment;
        let depth = a.depth();
        // SEP-3
        let sorted = frozen.main.is_sorted_by_key(|item| item.entry.fp());
        if !sorted || counts_of(&frozen.main)[..] != header.counts[..] {
            return Err(Error::corrupt("the order of a MainSegment", a.main().addr().off()));
        }
        if frozen.main.iter().any(|item| item.entry.is_tombstone()) {
            return Err(Error::corrupt("a tombstone in a MainSegment", a.main().addr().off()));
        }
        let entries = frozen.cur.iter().copied();
        let settled = frozen.main.iter().map(|item| (item.entry, Some(item.fp2)));
        let (list, known): (Vec<Item>, Vec<Option<u8>>) = (entries.chain(settled))
            .map(|(entry, fp2)| (Item { entry, fp2: fp2.unwrap_or(0) }, fp2))
            .unzip();
        let mut keys = Vec::with_capacity(list.len());
        for (some, known) in list.chunks(256).zip(known.chunks(256)) {
            let pairs = self.read_pairs(op, some).await?;
            for ((item, pair), known) in some.iter().zip(pairs).zip(known) {
                let (bytes, key, _) = pair?;
                let (entry, at) = (item.entry, item.entry.kv().addr());
                let hash = self.hash.hash(&key);
                let same = entry.fp() == fp(hash)
                    && entry.dep() == dep(hash, depth)
                    && suffix(hash, depth) == place.bits
                    && known.is_none_or(|known| known == fp2(hash));
                if !same {
                    return Err(Error::corrupt(
                        "an entry that does not match the key in its block",
                        at.off(),
                    ));
                }
                used.push((at, block_bytes(bytes)));
                report.kv_bytes += block_bytes(bytes);
                keys.push(key);
            }
        }
        // SEP-4
        let main: HashSet<&Vec<u8>> = keys[frozen.cur.len()..].iter().collect();
        if main.len() != frozen.main.len() {
            return Err(Error::corrupt("a key twice in a MainSegment", a.main().addr().off()));
        }
        let mut newest: HashSet<&Vec<u8>> = HashSet::new();
        for (key, item) in keys.iter().zip(&list).take(frozen.cur.len()).rev() {
            if newest.insert(key) && !item.entry.is_tombstone() {
                report.keys += 1;
            }
        }
        report.keys += main.iter().filter(|key| !newest.contains(**key)).count() as u64;
        let main_size = block_bytes(main_bytes(header.len as usize));
        let cur_size = block_bytes(self.geometry.cur_bytes());
        used.push((a.main().addr(), main_size));
        used.push((cur.addr(), cur_size));
        if let Some((main, len)) = self.pending(op, segment).await? {
            used.push((segment.pending.addr(), cur_size));
            used.push((main.addr(), block_bytes(main_bytes(len as usize))));
            report.index_bytes += cur_size + block_bytes(main_bytes(len as usize));
        }
        report.segments += 1;
        report.entries += list.len() as u64;
        report.deepest = report.deepest.max(depth);
        report.at_max_depth += u64::from(depth == self.geometry.max_depth);
        report.index_bytes += main_size + cur_size;
        report.capacity += u64::from(self.geometry.cur) + u64::from(header.len);
        Ok(())
    }

    /// Free memory of this client, and on the shelf.
    async fn free_ranges(&self, op: &Op<'_, F>) -> Result<(Vec<(Addr, u64)>, Vec<(Addr, u64)>)> {
        // No tick moves some from one to the other meanwhile.
        let _still = self.still().await;
        let mut shelf = Vec::new();
        let mut at = Ref::from_word(op.read_word(SHELF).await?);
        while !at.is_none() {
            let (bag, next) = self.read_bag(op, at).await?;
            shelf.push((at.addr(), BAG_BYTES));
            shelf.extend(bag.extents.iter().map(|&(at, bytes)| (at.addr(), bytes)));
            at = next;
        }
        Ok((self.space.borrow().ranges(), shelf))
    }

    /// SEP-5: each cell names a segment of the index, from which the hashes of the cell are found.
    async fn check_directory(
        &self,
        op: &Op<'_, F>,
        segments: &HashSet<Ref>,
        report: &mut Report,
    ) -> Result<()> {
        report.depth = op.read_word(ROOT).await? as u32;
        if report.depth > self.geometry.max_depth {
            return Err(Error::corrupt("the depth of the directory", ROOT.off()));
        }
        let count = 1u64 << report.depth;
        report.index_bytes += 8 * count;
        for from in (0..count).step_by(4096) {
            let some = (count - from).min(4096);
            let cells = op.read_words(self.geometry.directory(from), some as usize).await?;
            for (cur, idx) in cells.into_iter().map(Ref::from_word).zip(from..) {
                let off = self.geometry.directory(idx).off();
                if !segments.contains(&cur) {
                    return Err(Error::corrupt("a directory cell that names no segment", off));
                }
                let place = Suffix::from_word(op.read_word(cur.addr().add(8)).await?);
                if place.made > report.depth || suffix(idx, place.made) != place.bits {
                    return Err(Error::corrupt(
                        "a directory cell that names a segment of other hashes",
                        off,
                    ));
                }
            }
        }
        Ok(())
    }
}
