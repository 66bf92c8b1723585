//! The cached table: copies in DRAM of slots that were looked up.
//!
//! ```text
//! bucket, 128 bytes: version lock, word of state, then seven slots {h, payload}
//! word of state: bits 0-6 live slots   7-13 slots that were hit since the last replacement
//!                14-55 six bits of each slot's hash   62 the bucket does not have everything
//!                63 a writer waits for the lock
//! ```
//! A lookup of a hash that is not here reads the first 64 bytes of a bucket, and nothing else.
//!
//! Why a lookup never sees an old payload, or one that is not durable: a writer changes the copy while it holds the
//! locks of all buckets that its hash may be in, after the slot is durable and before other threads can see it
//! there (or a thread does before, with readers kept out until then: `cache_sync.rs`); and a copy is made under the
//! lock of its bucket here only if the version of the bucket that it
//! was read from is still the same, and no writer holds that. So a writer that comes later finds the
//! copy, and one that came earlier has raised the version, or holds the lock. A lookup stores nothing
//! but a mark that it hit, once, and its copy; for that it tries the lock, and does not wait.
//!
//! While the number of buckets changes, and writers may look for a copy elsewhere, none are made, and
//! a copy that was read counts only if the number is the same afterwards. Copies that are in another bucket by the
//! new number are not found. They are [swept](Cached::sweep) before the number changes again, so that it
//! does not bring them back as they were.
//!
//! A copy that would replace another is only made at one lookup in eight: hashes that are looked up often come here
//! all the same, and others push fewer of them out, and cost their lookups no lock.
//!
//! The table has one bucket for each hash, unlike the paper's two. A hash that is not here is looked up in the
//! pool, unless the bucket has everything that it might have: it is [marked](Cached::leave_out), for good, before
//! the first slot is left out or replaced. A lookup that saw it without the mark did so before that, and the slot
//! that is left out is not seen before its writer lets go of the locks in the pool. Where most buckets are
//! marked, or the table began without the pool's slots, or has another size since, all count as marked
//! ([`overflow`](Cached::overflow)), and inserts do not come here.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use durahash_media::{Medium, Reserved, Result, Version, VersionLock, bits};

use super::planted::{Fault, planted};
use crate::extendible::growth::Count;

/// Bytes of a bucket.
pub(super) const BUCKET_BYTES: u64 = 128;
/// Slots of a bucket.
pub(super) const SLOTS: u32 = 7;
const ALL: u64 = (1 << SLOTS) - 1;
const HIT_BIT: u32 = SLOTS;
const TAG_BIT: u32 = 2 * SLOTS;
const TAG_BITS: u32 = 6;
const PARTIAL: u64 = 1 << 62;
const WANTED: u64 = 1 << 63;
const _: () = assert!(TAG_BIT + SLOTS * TAG_BITS <= 62);
/// The lowest bit of every tag.
const TAG_ONES: u64 = {
    let (mut ones, mut slot) = (0, 0);
    while slot < SLOTS {
        ones |= 1 << (slot * TAG_BITS);
        slot += 1;
    }
    ones
};

/// Of so many lookups, one makes a copy that replaces another.
const REPLACES: u64 = 8;
/// Buckets of a table that is so small that every lookup does.
const ALWAYS: u64 = 16;

thread_local! {
    /// Draws the lookups that replace something.
    static DRAW: Cell<u64> = const { Cell::new(0) };
}

/// The answer of a bucket.
pub(super) enum Looked {
    Hit(u64),
    /// Not here, and nowhere.
    Absent,
    /// Not here.
    Miss,
}

/// A writer's change of the copy of a slot.
#[derive(Clone, Copy)]
pub(super) enum Copy {
    /// The slot is new: it is here, too, where its bucket has room.
    Insert(u64),
    /// It has another payload.
    Set(u64),
    /// It is gone.
    Remove,
}

/// How an attempt to change a copy ended.
pub(super) enum Tried {
    /// The bucket that is locked now, if something changed.
    Changed(Option<u64>),
    /// Another has the bucket.
    Busy,
}

/// A payload from a bucket, and a way to ask if it is still there.
pub(super) struct Copied<'a> {
    pub(super) payload: u64,
    seen: Seen<'a>,
}

impl Copied<'_> {
    /// True if all that was loaded before was that of the payload.
    pub(super) fn is_valid(&self) -> bool {
        // Writers do not change copies any more once it is stopped.
        self.seen.is_valid() && !self.seen.cached.stopped.load(Ordering::SeqCst)
    }
}

/// The bucket of a hash at one instant.
struct Seen<'a> {
    cached: &'a Cached,
    lock: VersionLock<'a>,
    version: Version,
    /// How many buckets there were. Where there are others now, writers look for the copy elsewhere, so
    /// the version says nothing.
    buckets: u64,
}

impl Seen<'_> {
    #[inline(always)]
    fn is_valid(&self) -> bool {
        self.lock.validate(self.version)
            && self.cached.buckets.load(Ordering::SeqCst) == self.buckets
    }
}

/// See the module docs in the source.
pub(super) struct Cached {
    rows: Reserved<16>,
    /// Buckets in use: a power of two, or none.
    buckets: AtomicU64,
    /// True if all buckets count as marked.
    overflow: AtomicBool,
    /// How many buckets are marked.
    partial: AtomicU64,
    /// True if copies are made: not while the number of buckets changes.
    fills: AtomicBool,
    /// True if no lookup comes here any more.
    stopped: AtomicBool,
    replaced: Count,
}

impl Cached {
    /// For so many buckets at the most; none in use.
    pub(super) fn new(most: u64) -> Result<Self> {
        Ok(Cached {
            rows: Reserved::growing(0, most)?,
            buckets: AtomicU64::new(0),
            overflow: AtomicBool::new(true),
            partial: AtomicU64::new(0),
            fills: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            replaced: Count::new(),
        })
    }

    /// Begins a table that no thread uses yet, of so many buckets; `has_all`: they have everything, which is
    /// nothing.
    pub(super) fn begin(&self, buckets: u64, has_all: bool) {
        let buckets = self.most_of(buckets);
        self.buckets.store(buckets, Ordering::SeqCst);
        self.overflow.store(!has_all || buckets == 0, Ordering::SeqCst);
        self.fills.store(buckets > 0, Ordering::SeqCst);
    }

    /// The largest power of two that is no more than that, and than there can be.
    fn most_of(&self, buckets: u64) -> u64 {
        let wanted = buckets.min(self.rows.most());
        // Where there are no addresses for so many, there are fewer.
        let most = if self.rows.cover(wanted).is_ok() { wanted } else { self.rows.count() };
        if most == 0 { 0 } else { 1 << most.ilog2() }
    }

    pub(super) fn buckets(&self) -> u64 {
        self.buckets.load(Ordering::SeqCst)
    }

    /// Ends it for good: an operation broke off, and a slot that it changed in the pool may be here as it was.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// True if there is room for a bucket.
    pub(super) fn can_be_on(&self) -> bool {
        self.rows.most() > 0
    }

    /// True if nothing is ever here.
    #[inline(always)]
    pub(super) fn is_off(&self) -> bool {
        self.buckets.load(Ordering::Relaxed) == 0
    }

    /// True if every slot is here.
    pub(super) fn has_all(&self) -> bool {
        let has_any = !self.overflow.load(Ordering::SeqCst) && !self.stopped.load(Ordering::SeqCst);
        has_any && self.partial.load(Ordering::SeqCst) == 0
    }

    /// True if the slot of a hash is here, if there is one.
    pub(super) fn has_all_like(&self, remixed: u64) -> bool {
        self.row(remixed).is_some_and(|(row, _)| self.is_whole(row))
    }

    /// True if every slot is here that this bucket might have.
    #[inline(always)]
    fn is_whole(&self, row: &[AtomicU64; 16]) -> bool {
        row[1].load(Ordering::SeqCst) & PARTIAL == 0 && !self.overflow.load(Ordering::SeqCst)
    }

    /// A slot that this bucket might have is not here from now on. Its lock is held.
    fn leave_out(&self, row: &[AtomicU64; 16]) {
        let is_marked = row[1].load(Ordering::SeqCst) & PARTIAL != 0;
        if is_marked || planted(Fault::OverflowKept) {
            return;
        }
        row[1].fetch_or(PARTIAL, Ordering::SeqCst);
        if self.partial.fetch_add(1, Ordering::SeqCst) >= self.buckets() / 2 {
            self.overflow.store(true, Ordering::SeqCst);
        }
    }

    /// How often a slot was replaced by another.
    pub(super) fn replaced(&self) -> u64 {
        self.replaced.get()
    }

    /// The bucket of a hash, and of how many.
    #[inline(always)]
    fn row(&self, remixed: u64) -> Option<(&[AtomicU64; 16], u64)> {
        let buckets = self.buckets.load(Ordering::SeqCst);
        let is_on = buckets > 0 && !self.stopped.load(Ordering::SeqCst);
        is_on.then(|| (self.rows.row(Self::at(remixed, buckets)), buckets))
    }

    /// The bucket of a hash among so many. Other bits than those of the pool's buckets.
    #[inline(always)]
    const fn at(remixed: u64, buckets: u64) -> u64 {
        remixed >> 26 & (buckets - 1)
    }

    /// Starts to fetch the bucket of a hash.
    #[inline(always)]
    pub(super) fn prefetch(&self, remixed: u64) {
        let buckets = self.buckets.load(Ordering::Relaxed);
        if buckets > 0 {
            self.rows.prefetch(Self::at(remixed, buckets));
        }
    }

    /// The bits of a hash that the word of state has.
    #[inline(always)]
    const fn tag(remixed: u64) -> u64 {
        remixed >> (64 - TAG_BITS)
    }

    #[inline(always)]
    fn slot_of(row: &[AtomicU64; 16], h: u64, remixed: u64) -> Option<u32> {
        let state = row[1].load(Ordering::Acquire);
        // Zero where the tag is the same. A neighbour that borrows may look the same and is not: `h` tells.
        let differs = (state >> TAG_BIT) ^ (TAG_ONES * Self::tag(remixed));
        let mut same = differs.wrapping_sub(TAG_ONES) & !differs & TAG_ONES << (TAG_BITS - 1);
        while same != 0 {
            let slot = same.trailing_zeros() / TAG_BITS;
            if state & 1 << slot != 0 && row[2 + slot as usize * 2].load(Ordering::Acquire) == h {
                return Some(slot);
            }
            same &= same - 1;
        }
        None
    }

    /// The bucket of a hash, and the payload of the copy if there is one; `None` where a writer changes
    /// it.
    #[inline(always)]
    fn seek<M: Medium>(&self, medium: &M, h: u64, remixed: u64) -> Option<(Seen<'_>, Option<u64>)> {
        let (row, buckets) = self.row(remixed)?;
        let lock = VersionLock::new(&row[0]);
        let seen = Seen { cached: self, lock, version: lock.try_read(medium)?, buckets };
        let Some(slot) = Self::slot_of(row, h, remixed) else {
            return Some((seen, None));
        };
        let payload = row[3 + slot as usize * 2].load(Ordering::Acquire);
        if !seen.is_valid() {
            return None;
        }
        let hit = 1 << (HIT_BIT + slot);
        if row[1].load(Ordering::Relaxed) & hit == 0 {
            row[1].fetch_or(hit, Ordering::Relaxed);
        }
        Some((seen, Some(payload)))
    }

    /// The copy of a slot.
    #[inline(always)]
    pub(super) fn read<M: Medium>(&self, medium: &M, h: u64, remixed: u64) -> Option<Copied<'_>> {
        let (seen, payload) = self.seek(medium, h, remixed)?;
        Some(Copied { payload: payload?, seen })
    }

    /// Looks a hash up.
    #[inline(always)]
    pub(super) fn look<M: Medium>(&self, medium: &M, h: u64, remixed: u64) -> Looked {
        match self.seek(medium, h, remixed) {
            Some((_, Some(payload))) => Looked::Hit(payload),
            // After the slots: a slot that was taken out of them was so after the mark.
            Some((seen, None)) => {
                let is_whole = self.is_whole(self.rows.row(Self::at(remixed, seen.buckets)));
                if is_whole && seen.is_valid() { Looked::Absent } else { Looked::Miss }
            }
            None => Looked::Miss,
        }
    }

    /// Makes a copy of a slot, if it `is_current` under the lock of the bucket here.
    pub(super) fn fill<M: Medium>(
        &self,
        medium: &M,
        (h, remixed): (u64, u64),
        payload: u64,
        is_current: impl Fn() -> bool,
    ) {
        let Some((row, buckets)) = self.row(remixed) else {
            return;
        };
        let lock = VersionLock::new(&row[0]);
        let is_wanted = Self::is_due(row, buckets, h) && self.fills.load(Ordering::SeqCst);
        medium.event(durahash_media::Event::Look);
        if !is_wanted || !lock.try_lock(medium) {
            return;
        }
        // Between, the number of buckets may have changed.
        let is_here = self.buckets.load(Ordering::SeqCst) == buckets;
        let is_due = is_here
            && self.fills.load(Ordering::SeqCst)
            && (planted(Fault::FilledUnseen) || is_current());
        if is_due && Self::slot_of(row, h, remixed).is_none() {
            let slot = self.slot_for_copy(row);
            lock.exclude_readers();
            Self::put(row, slot, (h, remixed), payload);
            lock.unlock_changed(medium);
        } else {
            lock.unlock_unchanged(medium);
        }
    }

    /// True if a lookup makes a copy: where there is room, or if it is its turn.
    fn is_due(row: &[AtomicU64; 16], buckets: u64, h: u64) -> bool {
        if buckets <= ALWAYS || bits(row[1].load(Ordering::Relaxed), 0, SLOTS) != ALL {
            return true;
        }
        // Drawn, since lookups may come round in a rhythm of their own.
        let drawn = (DRAW.get() ^ h).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        DRAW.set(drawn.wrapping_add(1));
        drawn.is_multiple_of(REPLACES)
    }

    /// A free slot, or the next that was not hit since the last time that all were. Its lock is held.
    fn slot_for_copy(&self, row: &[AtomicU64; 16]) -> u32 {
        let state = row[1].load(Ordering::Acquire);
        let live = bits(state, 0, SLOTS);
        if live != ALL {
            return live.trailing_ones();
        }
        self.leave_out(row);
        self.replaced.add(1);
        let hit = bits(state, HIT_BIT, SLOTS);
        if hit == ALL {
            row[1].fetch_and(!(ALL << HIT_BIT), Ordering::Relaxed);
            return 0;
        }
        hit.trailing_ones()
    }

    fn put(row: &[AtomicU64; 16], slot: u32, (h, remixed): (u64, u64), payload: u64) {
        row[2 + slot as usize * 2].store(h, Ordering::Release);
        row[3 + slot as usize * 2].store(payload, Ordering::Release);
        let tag_bit = TAG_BIT + slot * TAG_BITS;
        let cleared = 1 << (HIT_BIT + slot) | ((1 << TAG_BITS) - 1) << tag_bit;
        row[1].fetch_and(!cleared, Ordering::Release);
        row[1].fetch_or(1 << slot | Self::tag(remixed) << tag_bit, Ordering::Release);
    }

    /// Changes the copy of a slot, and leaves its bucket locked, with readers out, until it is
    /// [shown](Self::show); `None` where nothing was to change. The locks of the hash in the pool are held.
    pub(super) fn change<M: Medium>(
        &self,
        medium: &M,
        h: u64,
        remixed: u64,
        copy: Copy,
    ) -> Option<u64> {
        let (row, buckets) = self.row(remixed)?;
        let lock = VersionLock::new(&row[0]);
        if !lock.try_lock(medium) {
            loop {
                // Threads leave it alone from now on, so that the wait is for one writer's drain at the most.
                row[1].fetch_or(WANTED, Ordering::Relaxed);
                medium.wait();
                if lock.try_lock(medium) {
                    break;
                }
            }
            row[1].fetch_and(!WANTED, Ordering::Relaxed);
        }
        self.change_locked(medium, (row, buckets), (h, remixed), copy)
    }

    /// The same, unless a thread has the lock of the bucket, or waits for it: then the writer does it.
    pub(super) fn try_change<M: Medium>(
        &self,
        medium: &M,
        h: u64,
        remixed: u64,
        copy: Copy,
    ) -> Tried {
        let Some((row, buckets)) = self.row(remixed) else {
            return Tried::Changed(None);
        };
        let is_wanted = row[1].load(Ordering::Relaxed) & WANTED != 0;
        if is_wanted || !VersionLock::new(&row[0]).try_lock(medium) {
            return Tried::Busy;
        }
        Tried::Changed(self.change_locked(medium, (row, buckets), (h, remixed), copy))
    }

    /// The lock of the bucket is held.
    fn change_locked<M: Medium>(
        &self,
        medium: &M,
        (row, buckets): (&[AtomicU64; 16], u64),
        (h, remixed): (u64, u64),
        copy: Copy,
    ) -> Option<u64> {
        let lock = VersionLock::new(&row[0]);
        let slot = Self::slot_of(row, h, remixed);
        let changed = match (copy, slot) {
            (Copy::Set(payload), Some(slot)) => {
                lock.exclude_readers();
                row[3 + slot as usize * 2].store(payload, Ordering::Release);
                true
            }
            (Copy::Remove, Some(slot)) => {
                lock.exclude_readers();
                row[1].fetch_and(!(1 << slot), Ordering::Release);
                true
            }
            (Copy::Set(_) | Copy::Remove, None) => false,
            (Copy::Insert(payload), slot) => {
                let live = bits(row[1].load(Ordering::Acquire), 0, SLOTS);
                // Two of a hash are damage: then there is a slot that is not here.
                let has_room = live != ALL && slot.is_none();
                if has_room {
                    lock.exclude_readers();
                    Self::put(row, live.trailing_ones(), (h, remixed), payload);
                } else {
                    self.leave_out(row);
                }
                has_room
            }
        };
        if !changed {
            lock.unlock_unchanged(medium);
        }
        changed.then(|| Self::at(remixed, buckets))
    }

    /// Lets readers see the change.
    pub(super) fn show<M: Medium>(&self, medium: &M, bucket: u64) {
        VersionLock::new(&self.rows.row(bucket)[0]).unlock_changed(medium);
    }

    /// The same, of a change that may or may not have become durable: it is forgotten, and so are the
    /// others of its bucket.
    pub(super) fn withdraw<M: Medium>(&self, medium: &M, bucket: u64) {
        let row = self.rows.row(bucket);
        self.leave_out(row);
        row[1].fetch_and(!ALL, Ordering::Release);
        self.show(medium, bucket);
    }

    /// True if a change would not be for this table anyway.
    #[inline(always)]
    pub(super) fn ignores(&self, copy: Copy) -> bool {
        self.is_off() || matches!(copy, Copy::Insert(_)) && self.overflow.load(Ordering::SeqCst)
    }

    /// Puts a copy where there is room for it, when a pool is opened.
    pub(super) fn add<M: Medium>(&self, medium: &M, h: u64, remixed: u64, payload: u64) {
        if let Some(bucket) = self.change(medium, h, remixed, Copy::Insert(payload)) {
            self.show(medium, bucket);
        }
    }

    /// Drops all copies of a hash, of which there may be several in a pool that is damaged.
    pub(super) fn forget<M: Medium>(&self, medium: &M, h: u64, remixed: u64) {
        let Some((row, _)) = self.row(remixed) else {
            return;
        };
        let lock = VersionLock::new(&row[0]);
        lock.lock(medium);
        // One of its slots may stay.
        self.leave_out(row);
        lock.exclude_readers();
        while let Some(slot) = Self::slot_of(row, h, remixed) {
            row[1].fetch_and(!(1 << slot), Ordering::Release);
        }
        lock.unlock_changed(medium);
    }

    /// Changes the number of buckets; how many, from the first on, are to be swept before it changes again.
    /// `pass_writers` waits for all writers that have not seen the stores before it.
    pub(super) fn resize(&self, wanted: u64, pass_writers: impl FnOnce()) -> u64 {
        let (before, after) = (self.buckets(), self.most_of(wanted));
        if before == after {
            pass_writers();
            return 0;
        }
        self.fills.store(false, Ordering::SeqCst);
        self.overflow.store(true, Ordering::SeqCst);
        self.buckets.store(after, Ordering::SeqCst);
        pass_writers();
        self.fills.store(after > 0, Ordering::SeqCst);
        before
    }

    /// Drops copies from some buckets that are in another one since the number of buckets changed: writers
    /// look for them there.
    pub(super) fn sweep<M: Medium>(
        &self,
        medium: &M,
        rows: Range<u64>,
        remix: impl Fn(u64) -> u64,
    ) {
        let buckets = self.buckets();
        for i in rows {
            let row = self.rows.row(i);
            let lock = VersionLock::new(&row[0]);
            while !lock.try_lock(medium) {
                if self.stopped.load(Ordering::SeqCst) {
                    // A writer that broke off may have it.
                    return;
                }
                medium.wait();
            }
            let live = bits(row[1].load(Ordering::Acquire), 0, SLOTS);
            let elsewhere = (0..SLOTS).filter(|slot| {
                let h = row[2 + *slot as usize * 2].load(Ordering::Acquire);
                live & 1 << slot != 0 && (buckets == 0 || Self::at(remix(h), buckets) != i)
            });
            let swept = elsewhere.fold(0, |swept, slot| swept | 1 << slot);
            if swept == 0 {
                lock.unlock_unchanged(medium);
            } else {
                lock.exclude_readers();
                row[1].fetch_and(!swept, Ordering::Release);
                lock.unlock_changed(medium);
            }
        }
    }

    /// Calls `f` with every copy, and true if its bucket is the right one and unlocked; not with copies that are to be
    /// swept from the first buckets, `unswept` of them. There are no writers meanwhile.
    pub(super) fn each(
        &self,
        unswept: u64,
        remix: impl Fn(u64) -> u64,
        f: &mut dyn FnMut(u64, u64, bool),
    ) {
        let buckets = if self.stopped.load(Ordering::SeqCst) { 0 } else { self.buckets() };
        for i in 0..buckets {
            let row = self.rows.row(i);
            let live = bits(row[1].load(Ordering::Acquire), 0, SLOTS);
            for slot in (0..SLOTS).filter(|slot| live & 1 << slot != 0) {
                let [h, payload] =
                    [2, 3].map(|at| row[at + slot as usize * 2].load(Ordering::Acquire));
                let remixed = remix(h);
                let is_here = Self::at(remixed, buckets) == i;
                if !is_here && i < unswept {
                    continue;
                }
                let is_right = is_here
                    && !VersionLock::new(&row[0]).is_locked()
                    && Self::slot_of(row, h, remixed) == Some(slot);
                f(h, payload, is_right);
            }
        }
    }
}
