//! The operations on a key. Every write is an append of one entry, by one swap.
//!
//! | Operation | Batch | What | If the client dies after it |
//! |---|---|---|---|
//! | put, delete | 1 | write the KV block; look at the segment; where the fabric orders swaps, and the segment was emptied by this client and appended to by no other, batch 2 in its place | the block is lost to a sweep |
//! | | 2 | swap the first free entry, of the generation before, for the new one | done |
//! | | | hint, unsignaled | a merge reads the key in its place |
//! | | | the client that filled the last entry merges | another client merges later |
//! | | | where the fabric orders swaps, other appends of this client are under way to the entries before | none after the first that does not take effect does, so no free entry is before a live one |
//! | puts of several keys | 1 | where the fabric orders swaps: write the block and swap the entry of each put that needs no look, as if each posted its own | each put by itself |
//! | | | a hint for each run of entries, unsignaled | as above |
//! | | | merges of the segments that are full now; then another batch, with what belongs to these | |
//! | get | 1 | look at the segment | |
//! | | 2 | KV blocks of the entries that may be the key's, newest first | |
//! | gets of several keys | 1, 2 | each batch of those whose segments are known, as one | |
//! | conditional | 1, 2 | as get, down to the first free entry | |
//! | | 3 | write the KV block, with batch 4 where the fabric orders swaps | |
//! | | 4 | swap exactly that entry: no other append came in between | done |

use std::rc::Rc;

use durahash_media::{Error, ErrorKind, Limit, Result};

use crate::fabric::{Batch, Done, Fabric};
use crate::planted::{Fault, hint_generation, planted};

use super::Core;
use super::claim::Hope;
use super::epoch::Op;
use super::layout::{
    Entry, Kv, LIMIT_BYTES, Len, Ref, State, WordA, dep, fp, fp2, kv_block, kv_bytes,
};
use super::look::{AT_ONCE, Block, Early, Scope, Sight, first_read, write_block};
use super::space::block_bytes;
use super::verbs::Post;

/// Waits for the client that filled a segment to merge it, before another client does.
const WAITS: u32 = 4;
/// Round trips of a merge.
const MERGE_TRIPS: u64 = 5;
/// The longest wait for another operation of this client that merges, and at a time for another client: what answered
/// slowly may have stood still.
pub(super) const MERGING_NS: u64 = 1_000_000_000;

/// Bytes of blocks after which no more go together: others of this client, as its ticks, wait behind them.
const TOGETHER_BYTES: usize = 256 << 10;

/// What becomes of a key; see [`update`](crate::RemoteMap::update).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has this value.
    Set(Vec<u8>),
    /// It has none.
    Remove,
    /// It stays as it is.
    Keep,
}

impl<F: Fabric> Core<F> {
    fn check_sizes(key: &[u8], value: &[u8]) -> Result<()> {
        for (what, bytes) in [("key", key.len()), ("value", value.len())] {
            if bytes > LIMIT_BYTES {
                let (bytes, limit_bytes) = (bytes as u64, LIMIT_BYTES as u64);
                return Err(ErrorKind::TooLarge { what, bytes, limit_bytes }.into());
            }
        }
        Ok(())
    }

    /// The value of `key`.
    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Self::check_sizes(key, &[])?;
        self.upkeep().await?;
        let hash = self.hash.hash(key);
        let op = Op::new(self);
        let sight = self.look(&op, hash, Scope::Key, &mut None).await?;
        self.value(&op, key, hash, &sight).await
    }

    /// The values of several keys: of those whose segments this client knows by one batch, and another one for the blocks
    /// that it did not know, with the verbs of lookups that run at once. What takes more is [left](Self::get_left).
    pub(crate) async fn get_together<'a>(&'a self, keys: &'a [Vec<u8>]) -> Result<Found<'a, F>> {
        keys.iter().try_for_each(|key| Self::check_sizes(key, &[]))?;
        self.upkeep().await?;
        let op = Op::new(self);
        let hashes: Vec<_> = keys.iter().map(|key| self.hash.hash(key)).collect();
        let mut sights = self.look_together(&op, &hashes).await?;
        self.read_together(&op, &mut sights).await?;
        let mut found = Found { op, values: vec![None; keys.len()], left: Vec::new() };
        for (i, sight) in sights.into_iter().enumerate() {
            match sight {
                Some(sight) if sight.is_read() => {
                    let value = self.value(&found.op, &keys[i], hashes[i], &sight);
                    found.values[i] = value.await?;
                }
                sight => found.left.push(Left { place: i, key: &keys[i], sight }),
            }
        }
        Ok(found)
    }

    /// The value of a key that was left: the rest of its lookup, or all of it.
    pub(crate) async fn get_left(
        &self,
        found: &Found<'_, F>,
        left: &Left<'_>,
    ) -> Result<Option<Vec<u8>>> {
        match &left.sight {
            Some(sight) => self.value(&found.op, left.key, self.hash.hash(left.key), sight).await,
            None => self.get(left.key).await,
        }
    }

    /// Reads the blocks of all these that were not read with word A.
    async fn read_together(&self, op: &Op<'_, F>, sights: &mut [Option<Sight>]) -> Result<()> {
        let (mut batch, mut of) = (Batch::new(), Vec::new());
        for sight in sights.iter_mut().flatten().filter(|sight| !sight.has_blocks()) {
            let (entries, from) = (first_read(&sight.newer, &sight.settled), batch.len());
            for entry in &entries {
                self.read_block(&mut batch, entry.kv(), entry.len().first_read());
            }
            of.push((sight, entries, from));
        }
        if of.is_empty() {
            return Ok(());
        }
        let done = Rc::new(op.send(batch).await?);
        for (sight, entries, from) in of {
            sight.early = Some(Early { entries, done: Rc::clone(&done), from });
        }
        Ok(())
    }

    /// Puts a value, or removes the key.
    pub(crate) async fn append(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        Self::check_sizes(key, value.unwrap_or_default())?;
        self.upkeep().await?;
        let hash = self.hash.hash(key);
        let mut op = Op::new(self);
        // Before a block is allocated that could not be freed.
        op.admitted().await?;
        let mut hope = Hope::default();
        loop {
            let done = self.append_once(&mut op, hash, key, value).await;
            match done {
                Ok(None) => return Ok(()),
                // The wait holds no block.
                Ok(Some(sight)) => match Box::pin(self.full(&mut op, &sight)).await {
                    Err(e) if is_full(&e) && Box::pin(self.hope(&mut op, &mut hope)).await? => {}
                    merged => merged?,
                },
                Err(e) if is_full(&e) && Box::pin(self.hope(&mut op, &mut hope)).await? => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Places a block, and appends its entry; frees the block and returns the segment if that is full.
    async fn append_once(
        &self,
        op: &mut Op<'_, F>,
        hash: u64,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<Option<Sight>> {
        let cur = self.cache.borrow().directory.find(hash);
        let (mut block, kv) = self.block(op, cur, key, value).await?;
        // The block may be published, or still be written: after an error only a sweep finds out.
        let mut doubtful = false;
        let done = self.append_block(op, hash, kv, &mut block, &mut doubtful).await;
        let mut space = self.space.borrow_mut();
        match &done {
            Ok(None) => {}
            Err(_) if doubtful => space.doubtful_bytes += kv.bytes,
            Ok(Some(_)) | Err(_) => space.put(kv.at, kv.bytes),
        }
        done
    }

    async fn append_block(
        &self,
        op: &mut Op<'_, F>,
        hash: u64,
        kv: KvBlock,
        block: &mut Block,
        doubtful: &mut bool,
    ) -> Result<Option<Sight>> {
        // Reserved only if the swap is posted at once.
        op.admitted().await?;
        if let Some((sight, idx, old)) = self.guess(op, hash, kv) {
            *doubtful = true;
            let there = self.swap(op, hash, &sight, idx, old, kv, block).await?;
            *doubtful = false;
            if there.is_none() {
                self.appended(op, &sight, idx).await;
                return Ok(None);
            }
            self.cache.borrow_mut().guess_no_more(sight.cur, sight.a);
        }
        loop {
            *doubtful |= block.is_some();
            let mut none = None;
            let first = if planted(Fault::EntryFirst) { &mut none } else { &mut *block };
            let sight = self.look(op, hash, Scope::Append, first).await?;
            *doubtful = false;
            let Some((first, frees)) = &sight.free else { return Ok(Some(sight)) };
            let (first, mut idx) = (*first, *first);
            loop {
                // Reserved only if the swap is posted at once.
                op.admitted().await?;
                let end = first + frees.len() as u32;
                let Some(free) = self.next_free(&sight, idx, end) else { break };
                idx = free;
                let old = frees[(idx - first) as usize];
                *doubtful = true;
                let there = self.swap(op, hash, &sight, idx, old, kv, &mut None).await?;
                *doubtful = false;
                match there {
                    None => {
                        if planted(Fault::EntryFirst) {
                            op.send(Batch::of(|batch| write_block(batch, block))).await?;
                        }
                        self.appended(op, &sight, idx).await;
                        return Ok(None);
                    }
                    Some(_) if planted(Fault::SwapUnseen) => return Ok(None),
                    // The entry there is of this generation, so the next one is the first free one.
                    Some(there) if there.state(sight.a.generation()) == State::Live => idx += 1,
                    Some(_) => break,
                }
            }
        }
    }

    /// The entry that an append takes without a look, and its word.
    fn guess(&self, op: &Op<'_, F>, hash: u64, kv: KvBlock) -> Option<(Sight, u32, u64)> {
        let mut cache = self.cache.borrow_mut();
        let cur = cache.directory.find(hash);
        if !self.go_together(kv.at, cur) || planted(Fault::EntryFirst) {
            return None;
        }
        let (a, idx, old) = cache.guess(cur, hash, op.tag)?;
        Some((Sight::of(cur, a), idx, old))
    }

    /// The entry from `idx` on that an append takes, if it is before `end`. Other appends of this client, under way to
    /// the entries before it, take effect before it does, or do not because the entry is no more free.
    fn next_free(&self, sight: &Sight, idx: u32, end: u32) -> Option<u32> {
        if self.appends_together() || planted(Fault::OrderAssumed) {
            return self.cache.borrow_mut().reserve(sight.cur, sight.a, idx, end);
        }
        (idx < end).then_some(idx)
    }

    /// Whether appends of this client to one segment are under way at the same time.
    pub(crate) fn appends_together(&self) -> bool {
        self.fabric.orders_swaps() && self.fabric.lease_ns().is_none()
    }

    /// Reads, decides, and appends unless another append came in between. Returns the value found, and whether
    /// one was written.
    pub(crate) async fn conditional(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(Option<Vec<u8>>, bool)> {
        Self::check_sizes(key, &[])?;
        self.upkeep().await?;
        let hash = self.hash.hash(key);
        let mut op = Op::new(self);
        let mut hope = Hope::default();
        loop {
            let sight = self.look(&op, hash, Scope::Key, &mut None).await?;
            let found = self.value(&op, key, hash, &sight).await?;
            let value = match decide(found.as_deref()) {
                Change::Keep => return Ok((found, false)),
                Change::Remove => None,
                Change::Set(value) => Some(value),
            };
            let Some((idx, frees)) = &sight.free else {
                match Box::pin(self.full(&mut op, &sight)).await {
                    Err(e) if is_full(&e) && Box::pin(self.hope(&mut op, &mut hope)).await? => {}
                    merged => merged?,
                }
                continue;
            };
            Self::check_sizes(key, value.as_deref().unwrap_or_default())?;
            let (mut block, kv) = match self.block(&op, sight.cur, key, value.as_deref()).await {
                Err(e) if is_full(&e) && Box::pin(self.hope(&mut op, &mut hope)).await? => continue,
                placed => placed?,
            };
            let written = async {
                if !self.go_together(kv.at, sight.cur) {
                    op.send(Batch::of(|batch| write_block(batch, &mut block))).await?;
                }
                // Reserved only if the swap is posted at once. Another append that is under way to this entry wins.
                op.admitted().await?;
                self.next_free(&sight, *idx, *idx + 1);
                self.swap(&op, hash, &sight, *idx, frees[0], kv, &mut block).await
            };
            match written.await {
                Ok(None) => {
                    self.appended(&mut op, &sight, *idx).await;
                    return Ok((found, true));
                }
                Ok(Some(_)) if planted(Fault::DecidedOnce) => {
                    self.space.borrow_mut().put(kv.at, kv.bytes);
                    self.append(key, value.as_deref()).await?;
                    return Ok((found, true));
                }
                // The block was never published.
                Ok(Some(_)) => self.space.borrow_mut().put(kv.at, kv.bytes),
                Err(error) => {
                    self.space.borrow_mut().doubtful_bytes += kv.bytes;
                    return Err(error);
                }
            }
        }
    }

    /// A KV block for an entry of `cur`, not written yet.
    async fn block(
        &self,
        op: &Op<'_, F>,
        cur: Ref,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(Block, KvBlock)> {
        let bytes = kv_block(&self.hash, key, value.unwrap_or_default());
        let taken = block_bytes(bytes.len());
        let at = self.allocate(op, self.near(cur), bytes.len()).await?;
        let len = if value.is_none() { Len::TOMBSTONE } else { Len::of_block(bytes.len()) };
        Ok((Some((at, bytes)), KvBlock { at, bytes: taken, len }))
    }

    /// Swaps a free entry, writing `block` before, and returns the entry that was there first, if there was one.
    #[allow(clippy::too_many_arguments, reason = "what an append is made of")]
    async fn swap(
        &self,
        op: &Op<'_, F>,
        hash: u64,
        sight: &Sight,
        idx: u32,
        old: u64,
        kv: KvBlock,
        block: &mut Block,
    ) -> Result<Option<Entry>> {
        let mut batch = Batch::new();
        write_block(&mut batch, block);
        let swap = Swap::new(hash, sight.cur, sight.a, idx, old, kv);
        let number = self.post_swap(&mut batch, &swap);
        let found = op.send(batch).await?.word(number);
        let there = self.swapped(op, &swap, found);
        if there.is_none() {
            let hint = [hint_generation(swap.a.generation()), fp2(hash)];
            let at = swap.cur.addr().add(self.geometry.hint_off(idx));
            self.fabric.write_unsignaled(at, &hint)?;
        }
        Ok(there)
    }

    fn post_swap(&self, batch: &mut Batch, swap: &Swap) -> usize {
        let at = swap.cur.addr().add(self.geometry.entry_off(swap.idx));
        batch.compare_swap(at, swap.old, swap.entry.0)
    }

    /// Notes what a swap has found. Returns the entry that was there first, if there was one.
    fn swapped(&self, op: &Op<'_, F>, swap: &Swap, found: u64) -> Option<Entry> {
        let Swap { hash, cur, a, idx, old, entry } = *swap;
        let there = if found == old { entry } else { Entry(found) };
        if there.state(a.generation()) == State::Live {
            let mut cache = self.cache.borrow_mut();
            if found == old {
                cache.appended(cur, a, idx, entry, fp2(hash), op.tag);
            } else {
                cache.saw(cur, a, idx, &[there], op.tag);
            }
        }
        if found == old {
            return None;
        }
        self.stats.borrow_mut().conflicts += 1;
        Some(there)
    }

    /// Puts the values of keys that differ, as far as this client can append them without a look, by one batch: the same
    /// verbs in the same order as of puts that run at once, but for their hints. What is not put is left to
    /// [`append`](Self::append), or to another call while segments that are full are merged; never all to another call.
    pub(crate) async fn append_together(
        &self,
        pairs: &[(&[u8], &[u8])],
    ) -> Result<Together<'_, F>> {
        self.upkeep().await?;
        let op = Op::new(self);
        // Before entries are reserved, and blocks allocated that could not be freed.
        op.admitted().await?;
        let mut together = Together::default();
        let mut batch = Batch::with_capacity(2 * pairs.len());
        let mut posted = Vec::with_capacity(pairs.len());
        let mut batch_bytes = 0;
        for (i, (key, value)) in pairs.iter().enumerate() {
            if batch_bytes > TOGETHER_BYTES {
                together.later.push(i);
                continue;
            }
            match self.guess_block(&op, key, value) {
                Some((bytes, kv, swap)) => {
                    batch.write(kv.at.addr(), &bytes);
                    batch_bytes += bytes.len();
                    posted.push((i, kv, self.post_swap(&mut batch, &swap), swap));
                }
                None => together.left.push(i),
            }
        }
        if !posted.is_empty() {
            let done = match op.send(batch).await {
                Ok(done) => done,
                Err(error) => {
                    // Any of the blocks may be published, or still be written.
                    let bytes = posted.iter().map(|(_, kv, ..)| kv.bytes).sum::<u64>();
                    self.space.borrow_mut().doubtful_bytes += bytes;
                    return Err(error);
                }
            };
            self.swapped_together(&op, &posted, &done, &mut together)?;
        }
        // Others wait for the merge, too; but one at least is put, or waits by itself.
        let cache = self.cache.borrow();
        let waits = |i: &usize| {
            let cur = cache.directory.find(self.hash.hash(pairs[*i].0));
            cache.merges(cur) || together.full.iter().any(|filled| filled.sight.cur == cur)
        };
        let left = std::mem::take(&mut together.left);
        let (waiting, left): (Vec<_>, _) = left.into_iter().partition(waits);
        together.later.extend(waiting);
        together.left = left;
        if together.later.len() == pairs.len() {
            together.left.extend(together.later.pop());
        }
        Ok(together)
    }

    /// Notes what swaps that went together have found, and writes the hints of those that took effect.
    fn swapped_together<'a>(
        &'a self,
        op: &Op<'a, F>,
        posted: &[(usize, KvBlock, usize, Swap)],
        done: &Done,
        together: &mut Together<'a, F>,
    ) -> Result<()> {
        let (mut hints, mut lost, mut parted) = (Vec::<HintRun>::new(), false, false);
        for (i, kv, number, swap) in posted {
            let there = self.swapped(op, swap, done.word(*number));
            if there.is_some() && !planted(Fault::SwapsUnseen) {
                // The block was never published.
                self.space.borrow_mut().put(kv.at, kv.bytes);
                self.cache.borrow_mut().guess_no_more(swap.cur, swap.a);
                together.left.push(*i);
                lost = true;
                continue;
            }
            together.put.push(*i);
            parted |= lost;
            let hint = [hint_generation(swap.a.generation()), fp2(swap.hash)];
            match hints.iter_mut().rfind(|run| run.cur == swap.cur && run.end == swap.idx) {
                Some(run) => {
                    run.end += 1;
                    run.bytes.extend(hint);
                }
                None => {
                    hints.push(HintRun { cur: swap.cur, end: swap.idx + 1, bytes: hint.into() })
                }
            }
            if swap.idx + 1 == self.geometry.cur {
                // An operation of its own, which begins before this one ends.
                let (op, sight) = (op.twin(), Sight::of(swap.cur, swap.a));
                together.full.push(Filled { op, sight });
            }
        }
        for run in hints {
            let first = run.end - run.bytes.len() as u32 / 2;
            let at = run.cur.addr().add(self.geometry.hint_off(first));
            self.fabric.write_unsignaled(at, &run.bytes)?;
        }
        let mut stats = self.stats.borrow_mut();
        stats.batches += u64::from(posted.len() > 1);
        stats.batches_parted += u64::from(parted);
        stats.batches_full += u64::from(posted.len() > 1 && !together.full.is_empty());
        Ok(())
    }

    /// A block of this client's memory, and the entry for it that an append takes without a look, where there are both.
    fn guess_block(
        &self,
        op: &Op<'_, F>,
        key: &[u8],
        value: &[u8],
    ) -> Option<(Vec<u8>, KvBlock, Swap)> {
        if planted(Fault::EntryFirst) {
            return None;
        }
        Self::check_sizes(key, value).ok()?;
        let hash = self.hash.hash(key);
        let mut cache = self.cache.borrow_mut();
        let cur = cache.directory.find(hash);
        let node = self.near(cur)?;
        let (a, idx, old) = cache.would_guess(cur, hash, op.tag)?;
        let bytes = kv_bytes(key.len(), value.len());
        let (taken, len) = (block_bytes(bytes), Len::of_block(bytes));
        let kv = KvBlock { at: self.take_own(node, taken)?, bytes: taken, len };
        if !self.go_together(kv.at, cur) {
            self.space.borrow_mut().put(kv.at, kv.bytes);
            return None;
        }
        cache.reserve(cur, a, idx, idx + 1);
        Some((kv_block(&self.hash, key, value), kv, Swap::new(hash, cur, a, idx, old, kv)))
    }

    /// Merges a segment whose last entry this client has filled. What it has put is put even if the merge fails.
    pub(crate) async fn merge_filled(&self, filled: Filled<'_, F>) {
        let Filled { mut op, sight } = filled;
        self.appended(&mut op, &sight, self.geometry.cur - 1).await;
    }

    /// After an append: merges if it filled the last entry. The append is done even if the merge fails.
    async fn appended(&self, op: &mut Op<'_, F>, sight: &Sight, idx: u32) {
        if idx + 1 == self.geometry.cur && Box::pin(self.merge_alone(op, sight)).await.is_err() {
            // The segment stays full, so the next append to it fails in the same way and returns the error.
            self.stats.borrow_mut().merge_failures += 1;
        }
    }

    /// Waits until a full segment is merged; merges it if nobody else does.
    async fn full(&self, op: &mut Op<'_, F>, sight: &Sight) -> Result<()> {
        let is_merging = || self.cache.borrow().is_merging(sight.cur, sight.a);
        let began_ns = self.fabric.now_ns();
        while self.appends_together() && is_merging() {
            op.wait(self.options.wait_ns).await;
            if !is_merging() {
                return Ok(());
            }
            // The operation that merges may not be polled.
            if self.fabric.now_ns() - began_ns >= MERGING_NS {
                break;
            }
        }
        let mut wait_ns = self.options.wait_ns;
        for _ in 0..WAITS {
            self.stats.borrow_mut().waits += 1;
            op.wait(wait_ns).await;
            let asked_ns = self.fabric.now_ns();
            if op.read_word(sight.cur.addr()).await? != sight.a.0 {
                return Ok(());
            }
            if self.appends_together() {
                // The nodes answer more slowly than an RDMA NIC, the more so the more clients merge the same.
                let merge_ns = MERGE_TRIPS * (self.fabric.now_ns() - asked_ns);
                wait_ns = wait_ns.max(merge_ns.min(MERGING_NS));
            }
        }
        if planted(Fault::OthersMerge) {
            return Ok(());
        }
        self.merge_alone(op, sight).await
    }

    /// Merges a full segment. Other operations of this client wait for it.
    async fn merge_alone(&self, op: &mut Op<'_, F>, sight: &Sight) -> Result<()> {
        let set = |merging| self.cache.borrow_mut().set_merging(sight.cur, sight.a, merging);
        set(true);
        // The future may be dropped.
        let _ends = Ends(|| set(false));
        self.merge(op, sight.cur, sight.a).await
    }

    /// The value of `key` among the entries seen.
    async fn value(
        &self,
        op: &Op<'_, F>,
        key: &[u8],
        hash: u64,
        sight: &Sight,
    ) -> Result<Option<Vec<u8>>> {
        let mut newer = &sight.newer[..];
        let mut settled = &sight.settled[..];
        let mut older = None;
        while !newer.is_empty() || !settled.is_empty() {
            let (now, later) = newer.split_at(newer.len().min(AT_ONCE));
            let candidates = first_read(newer, settled);
            let read;
            let (done, from) = match &sight.early {
                Some(early) if early.entries == candidates => (&*early.done, early.from),
                _ => {
                    let blocks = candidates.iter().map(|e| (e.kv(), e.len().first_read()));
                    read = self.read_blocks(op, blocks).await?;
                    (&read, 0)
                }
            };
            for (i, &entry) in candidates.iter().enumerate() {
                let found = self.compare(op, key, hash, sight, entry, done.bytes(from + i)).await?;
                match found {
                    Some(None) if planted(Fault::TombstonePassed) => {}
                    Some(value) if i < now.len() => return Ok(value),
                    // Entries of the CurSegment that were not read yet are newer.
                    Some(value) => older = Some(value),
                    None => {}
                }
            }
            (newer, settled) = (later, &[]);
        }
        Ok(older.flatten())
    }

    /// Returns the value of an entry, or `None` in it for a tombstone; `None` if the entry is of another key.
    async fn compare(
        &self,
        op: &Op<'_, F>,
        key: &[u8],
        hash: u64,
        sight: &Sight,
        entry: Entry,
        bytes: &[u8],
    ) -> Result<Option<Option<Vec<u8>>>> {
        let off = entry.kv().addr().off();
        let mut kv = Kv::parse(bytes, off)?;
        if let Some(other) = kv.key().filter(|&other| other != key) {
            let other = fp2(self.hash.hash(other));
            self.cache.borrow_mut().learn_fp2(sight.cur, sight.a, entry, other);
            return Ok(None);
        }
        if !kv.may_be(key) {
            return Ok(None);
        }
        let whole;
        if !kv.is_whole() {
            whole = self.read_blocks(op, [(entry.kv(), kv.block_bytes())]).await?;
            kv = Kv::parse(whole.bytes(0), off)?;
        }
        if kv.key() != Some(key) {
            return Ok(None);
        }
        self.cache.borrow_mut().learn_fp2(sight.cur, sight.a, entry, fp2(hash));
        let value = kv.value(&self.hash, off)?;
        Ok(Some((!entry.is_tombstone()).then(|| value.to_vec())))
    }

    /// Reads the first bytes of blocks, each up to the end of its node.
    pub(super) async fn read_blocks(
        &self,
        op: &Op<'_, F>,
        blocks: impl IntoIterator<Item = (Ref, usize)>,
    ) -> Result<Done> {
        let blocks = blocks.into_iter();
        let mut batch = Batch::with_capacity(blocks.size_hint().0);
        blocks.for_each(|(at, bytes)| self.read_block(&mut batch, at, bytes));
        op.send(batch).await
    }

    /// Reads the first bytes of a block, up to the end of its node.
    pub(super) fn read_block(&self, batch: &mut Batch, at: Ref, bytes: usize) {
        let addr = at.addr();
        // Without such a node, the fabric returns the error.
        let there = addr.node() < self.geometry.nodes;
        let end = if there { self.fabric.node_bytes(addr.node()) } else { u64::MAX };
        batch.read(addr, bytes.min(end.saturating_sub(addr.off()) as usize));
    }
}

/// Of memory, which may come back.
fn is_full(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Full { limit, .. } if !matches!(limit, Limit::Design(_)))
}

/// Does something when it is dropped.
struct Ends<F: Fn()>(F);

impl<F: Fn()> Drop for Ends<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Lookups that went together.
pub(crate) struct Found<'a, F: Fabric> {
    /// In the order of the keys, but of those that are left.
    pub(crate) values: Vec<Option<Vec<u8>>>,
    pub(crate) left: Vec<Left<'a>>,
    op: Op<'a, F>,
}

/// A lookup that was not ended.
pub(crate) struct Left<'a> {
    /// Of its key.
    pub(crate) place: usize,
    pub(crate) key: &'a [u8],
    /// Its segment, if that was seen.
    sight: Option<Sight>,
}

/// Puts that went together.
pub(crate) struct Together<'a, F: Fabric> {
    /// The places of those that were put.
    pub(crate) put: Vec<usize>,
    /// Of those to be put by themselves, and of those that wait for a merge, or had no room in the batch.
    pub(crate) left: Vec<usize>,
    pub(crate) later: Vec<usize>,
    /// Segments to be [merged](Core::merge_filled).
    pub(crate) full: Vec<Filled<'a, F>>,
}

impl<F: Fabric> Default for Together<'_, F> {
    fn default() -> Self {
        let (put, left, later, full) = Default::default();
        Together { put, left, later, full }
    }
}

/// A segment whose last entry was filled, and the operation that merges it.
pub(crate) struct Filled<'a, F: Fabric> {
    op: Op<'a, F>,
    sight: Sight,
}

/// Hints of entries that follow one another.
struct HintRun {
    cur: Ref,
    /// The entry behind the last one.
    end: u32,
    bytes: Vec<u8>,
}

/// A swap of a free entry.
struct Swap {
    hash: u64,
    cur: Ref,
    a: WordA,
    idx: u32,
    old: u64,
    entry: Entry,
}

impl Swap {
    fn new(hash: u64, cur: Ref, a: WordA, idx: u32, old: u64, kv: KvBlock) -> Self {
        let entry = Entry::new(kv.at, fp(hash), kv.len, a.generation(), dep(hash, a.depth()));
        Swap { hash, cur, a, idx, old, entry }
    }
}

/// A KV block that was placed.
#[derive(Clone, Copy)]
struct KvBlock {
    at: Ref,
    bytes: u64,
    len: Len,
}
