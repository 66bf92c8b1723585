//! Level hashing: two levels of buckets, of which the lower one takes what the upper one has no room for.
//!
//! # Paper
//! Pengfei Zuo, Yu Hua, Jie Wu: *Write-Optimized and High-Performance Hashing Index Scheme for Persistent Memory*, OSDI
//! 2018. Kept: two hashes of a key, so that it may be in two buckets of the top level and in the two of the bottom one
//! that each pair of them shares (§3.1); buckets of 128 bytes with a token for each slot; a search that begins in the level
//! with more keys; an insert into the emptier bucket of the top level, then of the bottom one, and else after one movement: to
//! the other bucket of a key in its level, or from the bottom level to the top one; a resize that makes the top level the
//! bottom one under a new top and moves the keys of the old bottom (§3.2); inserts, removes, resizes and most updates
//! without a log (§3.3). Of pairs of words a bucket has seven, as in the port that Dash and Pea Hash are compared with; the
//! authors' program has four, of 31 bytes.
//!
//! ```text
//! root word 0      log2 of the buckets of the top level (bits 0-7), resizing (bit 8)
//! root words 1-3   offset of the level of 2^k buckets, in word 1 + k % 3: top, bottom, and while resizing a third
//! bucket           byte 0  tokens: which slots are live; 16  seven slots, unless the geometry says fewer
//! ```
//!
//! | Operation | Stores | Then | If power fails after this step |
//! |---|---|---|---|
//! | insert | slot | flush, fence | not live |
//! | | token | flush, fence | inserted |
//! | movement | an insert into another bucket of the key | | there twice, alike |
//! | | the token of the slot that it leaves | flush, fence | moved |
//! | update | the pair in a free slot of the bucket | flush, fence | not live |
//! | | both tokens, one word | flush, fence | updated |
//! | update, bucket full | value | flush, fence | old or new, one word |
//! | remove | token | flush, fence | there or not |
//! | resize | the new level, with no tokens; its root word | flush, fence | the root word is not looked at |
//! | | root word 0: one more, resizing | flush, fence | goes on at the open |
//! | | of each key of the lowest level: an insert above, then its token | flush, fence | there twice, alike; goes on |
//! | | root word 0: not resizing | flush, fence | resized |
//!
//! # Departures
//! - A full bucket's update needs no log, as a value is one word.
//! - A slot and its token are flushed one after the other, as in the port. The authors' program flushes the first three slots
//!   of a bucket, which lie in the line of the token, with it.
//! - Both hashes lead to all buckets of a level; in the programs each leads to a half of them. Keys move from the bottom to the
//!   top before the first resize, too.
//! - The first level fills an extent, and there is no way to shrink. A resize that finds no room for a key in the new top
//!   level, by a movement neither, is an error, as the paper says nothing of it.
//! - A key that a crash left there twice is found once. Before it is changed or removed one of the two goes, as in the
//!   paper, which does this for updates.

use durahash::Finding;
use durahash_media::{Error, ErrorKind, Medium, Place, PmU64, Result, on_media};

use super::{Keys, SECOND, Slot, Space, Table};

const BUCKET_BYTES: u64 = 128;
/// Slots of a bucket.
const SLOTS: u32 = 7;
const RESIZING: u64 = 1 << 8;

on_media! {
    /// A bucket.
    pub(crate) struct Bucket: 128, align 64 {
        /// A bit for each slot that is live.
        pub(crate) tokens: PmU64,
        /// Zero, or anything.
        pub(crate) unused: PmU64,
        /// Slots.
        pub(crate) slots: [Slot; 7],
    }
}

/// Level hashing over a pool. See the module docs.
pub(crate) struct Level<M: Medium> {
    place: Place<M>,
    /// Offsets of the levels, by log2 of their buckets modulo three.
    levels: [u64; 3],
    /// Log2 of the buckets of the top level.
    log: u32,
    /// Keys of each level, in the order of `levels`.
    items: [u64; 3],
    slots: u32,
    keys: Keys,
    resizes: u64,
}

/// Where a key is: log2 of its level's buckets, a bucket's offset, and a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    log: u32,
    bucket: u64,
    slot: u32,
}

impl<M: Medium> Level<M> {
    /// An empty one.
    pub(crate) fn create(place: impl Into<Place<M>>, keys: Keys) -> Result<Self> {
        let mut level = Self::over(place.into(), keys);
        let log = match u32::from(level.place.format().geometry.buckets) {
            0 => (level.place.pool().extent_bytes() / BUCKET_BYTES).ilog2(),
            buckets => buckets.ilog2().max(1),
        };
        level.make_level(log - 1)?;
        level.make_level(log)?;
        level.set_state(log, false)?;
        Ok(level)
    }

    /// The one that is there.
    #[cfg(test)]
    pub(crate) fn open(place: impl Into<Place<M>>, keys: Keys) -> Result<Self> {
        let mut level = Self::over(place.into(), keys);
        level.place.pool().begin()?;
        let state = level.place.root(0)?;
        level.log = u32::from(state as u8);
        for i in 0..3 {
            level.levels[i] = level.place.root(1 + i)?;
        }
        let resizing = state & RESIZING != 0;
        for log in level.log.saturating_sub(1 + u32::from(resizing))..=level.log {
            for i in 0..1 << log {
                let tokens = level.tokens(level.levels[log as usize % 3] + i * BUCKET_BYTES)?;
                level.items[log as usize % 3] += u64::from(tokens.count_ones());
            }
        }
        if resizing {
            level.move_lowest()?;
        }
        level.release_others()?;
        Ok(level)
    }

    fn over(place: Place<M>, keys: Keys) -> Self {
        let slots = match u32::from(place.format().geometry.slots) {
            0 => SLOTS,
            slots => slots.min(SLOTS),
        };
        Level { place, levels: [0; 3], log: 0, items: [0; 3], slots, keys, resizes: 0 }
    }

    fn medium(&self) -> &M {
        self.place.pool().medium()
    }

    fn bucket(&self, off: u64) -> Result<&Bucket> {
        self.place.pool().at(off)
    }

    fn set_state(&mut self, log: u32, resizing: bool) -> Result<()> {
        let resizing = if resizing { RESIZING } else { 0 };
        self.place.set_root(0, u64::from(log) | resizing)?;
        self.log = log;
        Ok(())
    }

    /// Extents of a level of `1 << log` buckets.
    fn extents(&self, log: u32) -> u64 {
        (BUCKET_BYTES << log).div_ceil(self.place.pool().extent_bytes())
    }

    /// Makes a level without keys, durably.
    fn make_level(&mut self, log: u32) -> Result<()> {
        let pool = self.place.pool();
        let off = self.place.take_unit_extents(self.extents(log))? * pool.extent_bytes();
        for i in 0..1 << log {
            let tokens = &self.bucket(off + i * BUCKET_BYTES)?.tokens;
            self.medium().store(tokens, 0);
            self.medium().flush_fresh(tokens);
        }
        self.medium().fence();
        let i = log as usize % 3;
        self.place.set_root(1 + i, off)?;
        (self.levels[i], self.items[i]) = (off, 0);
        Ok(())
    }

    /// The two buckets of a key in a level.
    fn buckets_in(&self, log: u32, key: u64) -> [u64; 2] {
        let index = |h: u64| h.checked_shr(64 - log).unwrap_or(0);
        [key, SECOND.mix(key)].map(|h| self.levels[log as usize % 3] + index(h) * BUCKET_BYTES)
    }

    fn tokens(&self, bucket: u64) -> Result<u64> {
        Ok(self.medium().load(&self.bucket(bucket)?.tokens))
    }

    fn slot(&self, at: At) -> Result<&Slot> {
        Ok(&self.bucket(at.bucket)?.slots[at.slot as usize])
    }

    fn pair(&self, at: At) -> Result<(u64, u64)> {
        let slot = self.slot(at)?;
        Ok((self.medium().load(&slot.key), self.medium().load(&slot.value)))
    }

    /// The hash of the key that a slot's word stands for.
    fn hash(&self, word: u64) -> Result<u64> {
        self.keys.hash(self.place.pool(), word)
    }

    fn free_slot(&self, bucket: u64) -> Result<Option<u32>> {
        let slot = self.tokens(bucket)?.trailing_ones();
        Ok((slot < self.slots).then_some(slot))
    }

    fn set_tokens(&self, bucket: u64, tokens: u64) -> Result<()> {
        let word = &self.bucket(bucket)?.tokens;
        self.medium().store(word, tokens);
        self.medium().flush(word);
        self.medium().drain();
        Ok(())
    }

    fn free(&mut self, at: At) -> Result<()> {
        self.items[at.log as usize % 3] -= 1;
        self.set_tokens(at.bucket, self.tokens(at.bucket)? & !(1 << at.slot))
    }

    /// Fills a free slot, which is not live yet.
    fn fill(&self, at: At, (key, value): (u64, u64)) -> Result<()> {
        let slot = self.slot(at)?;
        self.medium().store(&slot.key, key);
        self.medium().store(&slot.value, value);
        self.medium().flush(slot);
        self.medium().fence();
        Ok(())
    }

    fn put(&mut self, at: At, pair: (u64, u64)) -> Result<()> {
        self.fill(at, pair)?;
        self.items[at.log as usize % 3] += 1;
        self.set_tokens(at.bucket, self.tokens(at.bucket)? | 1 << at.slot)
    }

    /// The first place of a key, the level with more keys before the other one, but for `other`. Only a crash leaves two,
    /// and these are alike.
    fn place(&self, key: u64, other: Option<At>) -> Result<Option<At>> {
        let [bottom, top] = [self.log - 1, self.log];
        let items = |log: u32| self.items[log as usize % 3];
        for log in if items(top) > items(bottom) { [top, bottom] } else { [bottom, top] } {
            for bucket in self.buckets_in(log, key) {
                let tokens = self.tokens(bucket)?;
                for slot in (0..self.slots).filter(|slot| tokens & 1 << slot != 0) {
                    let at = At { log, bucket, slot };
                    if Some(at) == other {
                        continue;
                    }
                    let word = self.medium().load(&self.slot(at)?.key);
                    if self.keys.is(self.place.pool(), word, key)? {
                        return Ok(Some(at));
                    }
                }
            }
        }
        Ok(None)
    }

    /// A free slot for a key in a level, in the emptier of its buckets.
    fn room(&self, log: u32, key: u64) -> Result<Option<At>> {
        let [first, second] = self.buckets_in(log, key);
        let fuller = self.tokens(first)?.count_ones() > self.tokens(second)?.count_ones();
        let bucket = if fuller { second } else { first };
        Ok(self.free_slot(bucket)?.map(|slot| At { log, bucket, slot }))
    }

    /// Moves a key from one of the full buckets of `key` in a level to another one of its own, in the level `to`. The slot
    /// that is free now.
    fn make_room(&mut self, log: u32, to: u32, key: u64) -> Result<Option<At>> {
        for bucket in self.buckets_in(log, key) {
            for slot in 0..self.slots {
                let from = At { log, bucket, slot };
                let pair = self.pair(from)?;
                for other in self.buckets_in(to, self.hash(pair.0)?) {
                    if other != bucket
                        && let Some(slot) = self.free_slot(other)?
                    {
                        self.put(At { log: to, bucket: other, slot }, pair)?;
                        self.free(from)?;
                        return Ok(Some(from));
                    }
                }
            }
        }
        Ok(None)
    }

    /// A free slot for a new key.
    fn any_room(&mut self, key: u64) -> Result<Option<At>> {
        let [bottom, top] = [self.log - 1, self.log];
        for log in [top, bottom] {
            if let Some(at) = self.room(log, key)? {
                return Ok(Some(at));
            }
        }
        for (from, to) in [(top, top), (bottom, bottom), (bottom, top)] {
            if let Some(at) = self.make_room(from, to, key)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    fn resize(&mut self) -> Result<()> {
        self.make_level(self.log + 1)?;
        self.set_state(self.log + 1, true)?;
        self.move_lowest()?;
        self.resizes += 1;
        Ok(())
    }

    /// Moves the keys of the lowest of three levels to the top one.
    fn move_lowest(&mut self) -> Result<()> {
        let lowest = self.log.checked_sub(2).ok_or_else(|| Error::corrupt("levels", 0))?;
        let off = self.levels[lowest as usize % 3];
        for i in 0..1 << lowest {
            let bucket = off + i * BUCKET_BYTES;
            let tokens = self.tokens(bucket)?;
            for slot in (0..self.slots).filter(|slot| tokens & 1 << slot != 0) {
                let at = At { log: lowest, bucket, slot };
                let pair = self.pair(at)?;
                let h = self.hash(pair.0)?;
                if self.place(h, None)?.is_none() {
                    let room = match self.room(self.log, h)? {
                        Some(room) => Some(room),
                        None => self.make_room(self.log, self.log, h)?,
                    };
                    let Some(room) = room else {
                        return Err(ErrorKind::Skewed { depth: self.log }.into());
                    };
                    self.put(room, pair)?;
                }
                self.free(at)?;
            }
        }
        self.set_state(self.log, false)?;
        self.release_others()
    }

    /// Extents of the levels.
    fn named(&self) -> Vec<u64> {
        let mut named = Vec::new();
        for log in [self.log, self.log - 1] {
            let first = self.levels[log as usize % 3] / self.place.pool().extent_bytes();
            named.extend(first..first + self.extents(log));
        }
        named.sort_unstable();
        named
    }

    fn release_others(&self) -> Result<()> {
        let named = self.named();
        let others = self.place.unit_extents().into_iter();
        others
            .filter(|number| named.binary_search(number).is_err())
            .try_for_each(|number| self.place.pool().release_extent(number))
    }

    /// Of a key that is there twice, leaves the one at `at`.
    fn leave_one(&mut self, at: At, key: u64) -> Result<()> {
        while let Some(other) = self.place(key, Some(at))? {
            self.free(other)?;
        }
        Ok(())
    }
}

impl<M: Medium> Table for Level<M> {
    type At = At;

    fn find(&self, key: u64) -> Result<Option<(At, u64)>> {
        let first = self.place(key, None)?;
        first.map(|at| Ok((at, self.pair(at)?.1))).transpose()
    }

    fn insert(&mut self, key: u64, value: u64) -> Result<()> {
        let word = self.keys.make(self.place.pool(), key)?;
        loop {
            if let Some(at) = self.any_room(key)? {
                return self.put(at, (word, value));
            }
            self.resize()?;
        }
    }

    fn update(&mut self, at: At, key: u64, value: u64) -> Result<()> {
        self.leave_one(at, key)?;
        let Some(slot) = self.free_slot(at.bucket)? else {
            let word = &self.slot(at)?.value;
            self.medium().store(word, value);
            self.medium().flush(word);
            self.medium().drain();
            return Ok(());
        };
        self.fill(At { slot, ..at }, (self.pair(at)?.0, value))?;
        let tokens = self.tokens(at.bucket)?;
        self.set_tokens(at.bucket, tokens & !(1 << at.slot) | 1 << slot)
    }

    fn remove(&mut self, at: At, key: u64) -> Result<()> {
        self.leave_one(at, key)?;
        self.free(at)
    }

    fn each(&self, f: &mut dyn FnMut(u64, u64)) -> Result<()> {
        for log in [self.log, self.log - 1] {
            for i in 0..1 << log {
                let bucket = self.levels[log as usize % 3] + i * BUCKET_BYTES;
                let tokens = self.tokens(bucket)?;
                for slot in (0..self.slots).filter(|slot| tokens & 1 << slot != 0) {
                    let at = At { log, bucket, slot };
                    let (word, value) = self.pair(at)?;
                    let key = self.hash(word)?;
                    // Of two that are alike, the one that is found.
                    if self.place(key, None)? == Some(at) {
                        f(key, value);
                    }
                }
            }
        }
        Ok(())
    }

    fn space(&self) -> Space {
        let buckets = 3 << (self.log - 1);
        Space {
            slots: buckets * u64::from(self.slots),
            bytes: buckets * BUCKET_BYTES,
            growths: self.resizes,
        }
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let mut units = self.place.unit_extents();
        units.sort_unstable();
        if units != self.named() {
            found(Finding::new("LEVEL-1", 0, "extents and those of the levels differ"));
        }
        Ok(())
    }
}
