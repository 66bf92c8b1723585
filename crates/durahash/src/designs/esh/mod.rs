//! ESH: extendible hashing whose segments fill completely before they split.
//!
//! # Paper
//! Dereje Regassa, Heon Young Yeom, Junseok Hwang: *ESH: Design and Implementation of an Optimal
//! Hashing Scheme for Persistent Memory*, Applied Sciences 13(20), 2023. Kept: segments of 256-byte
//! buckets that lend each other room (§4.1), their metadata in 32 bytes of the bucket (Fig. 3: lock,
//! state, overflow bit OB, overflow records address OFRB, overflow counter OC, membership counter MC),
//! probing distance four (§5.1), a bucket as the unit of locking with readers that take no lock, delete
//! that brings an overflowed record home (§4.2), a split only when no slot of the segment is free.
//!
//! # Where state lives
//! Everything is in the pool, locks too: a bucket's is in its head, beside what a lookup reads anyway.
//! Beside them, in DRAM, a copy of the directory (`crate::extendible::directory`), which is made at every open
//! from the array alone, a counter, and a byte for each bucket: how many slots are live, so that a removal knows
//! if two buddies are sparse without reading their heads. A lookup reads one bucket, and those that OFRB tells of if
//! it does not find its hash there.
//!
//! # Layout
//! `layout.rs`, with a picture.
//!
//! # Invariants
//! As cited by `check`:
//! - **ESH-1** From the first word of the array on, each word says how far its segment reaches, and
//!   the next one stands there; depths divide indices, check sums agree. The directory in DRAM says
//!   the same in every entry; its front too, or that the segment is deeper than itself.
//! - **ESH-2** Every live slot has an `h` of its segment's hashes, with the fingerprint of `h`, no
//!   further from its home than that one's OFRB says.
//! - **ESH-3** No two live slots have the same `h`; but in a segment that was not repaired yet, they
//!   may if one is in its home and both have the same payload.
//! - **ESH-4** No local depth exceeds the global depth; commit words say that of the array.
//! - **ESH-5** Every segment of an extent of units is named by the array or free, never both; every
//!   extent of directories belongs to the array.
//! - **ESH-6** In each commit word MC, OB and the parity agree with the rest. OC is exact, but in a
//!   segment that was not repaired yet.
//! - **ESH-7** The counters of depths and of live slots, and those of buckets that are known, are exact, and no
//!   lock is held.
//!
//! # Commit steps
//! A writer holds W of its hash's home bucket, and of one bucket more if it changes that. X of the home
//! is held from the first store of a row marked ✕ to the end. A change of a segment as a whole holds W
//! of all its locks, and X of all of them only while it switches the directory in DRAM. "Near" slots
//! lie in the line of the head.
//!
//! | Operation | Stores | Then | If power fails after this step |
//! |---|---|---|---|
//! | insert | payload and `h` of a free slot; its fingerprint | flush, fence; left to the next step for a near slot where lines keep order | slot not live |
//! | | ✕ commit word: live, MC + 1 | flush, drain | inserted |
//! | insert, home full | slot and fingerprint in another bucket; the home's OB, OFRB, OC + 1 | flush both, but a near slot where lines keep order, fence | slot not live; OFRB larger than need be, OC too large |
//! | | ✕ the other bucket's commit word: live, MC + 1 | flush, drain | inserted |
//! | update | ✕ payload | flush, drain | old or new payload, one word |
//! | remove, in the home | ✕ commit word without it; then, where lines keep order, its fingerprint | flush, drain | there or not, one word |
//! | remove, elsewhere | ✕ that bucket's commit word without it; the home's OC | flush both, drain | there or not; OC may be wrong |
//! | | the home's OFRB, if less is enough | | OFRB larger than need be |
//! | remove, home full, some elsewhere | ✕ commit word without it | flush, fence | removed |
//! | | into its slot: one from elsewhere, with fingerprint | flush, fence, as for an insert | slot not live |
//! | | commit word: live, OC − 1 | flush, fence | both are live, with one payload |
//! | | the other bucket's commit word without it | flush, drain | it has come home |
//! | | the home's OFRB, if less is enough | | OFRB larger than need be |
//! | split | two new segments, past the cache; word of the upper in the array | flush, fence | the word stands inside the range of the old one: not looked at, and nothing else names them: free |
//! | | word of the lower, where the old one stood | flush, fence | split; nothing names the old segment: free |
//! | merge | a new segment, past the cache | fence | free |
//! | | its word, where the lower of the old ones stood | flush, fence | merged; the upper's word stands inside its range |
//! | split, merge | kind of the old segment's extent := free, if no segment of that is named (`space.rs`) | flush, fence | given back by the next open |
//! | doubling, halving | new array: the word of each segment at its new place | flush, fence | nothing names it: free |
//! | | root word {array, depth} | flush, fence | switched; nothing names the old array: free |
//! | repair | ✕ the date of each bucket, with W and X of all | | no thread relies on it after a crash |
//! | | commit words: the nearest of two equal slots alone is live | flush, fence | repaired again |
//! | | commit words: exact OB, OFRB, OC | flush all heads, drain | any of them: repaired again |
//!
//! OFRB is durable before a slot that it leads to, and smaller only after that is durably gone. OC is exact
//! while no crash happens, and nothing depends on it after one.
//!
//! The directory's lock is held, shared for a row of the array and exclusively for a new one, from
//! the first store to the array until the directory in DRAM says the same.
//!
//! # Recovery
//! `recover.rs`: the array is strided from segment to segment, and no segment is read. `repair.rs`: a
//! lock has an epoch, and a thread that comes to a bucket of an epoch before the last unclean open
//! repairs its segment first, reader or writer. The epochs are durable with the heads, so that a pool
//! that is closed cleanly need not be repaired again. Everything that a crash leaves is sound enough for
//! lookups that go everywhere, so a pool that must not be written to is read without repair. The root
//! word 1 keeps the epoch of the last unclean open, so that a clean one need not repair.
//!
//! # Concurrency
//! Every change of a hash is made under W of its home, and raises the home's version, wherever in the
//! segment its slot is. Readers: directory entry, version of the home, entry again, the home, the
//! buckets up to OFRB, version. Another bucket on the way may change meanwhile, and slots of the home
//! bucket that are another home's: live slots of this home no other writer touches, but a slot that
//! another home gave up may be filled for this one, before that is committed and X is set. So a lookup
//! that found its hash checks again that the slot is live; it is again only under X. The commit word of another
//! bucket is shared with its own writers, so W of that is taken too: by waiting if it is the higher one, else by
//! trying, after which all is let go and begun again. A writer that takes all locks of a segment takes them in
//! ascending order, then a second segment's by trying, then the directory's.
//! Readers never wait for a split: the old segment stays as it is until the directory is switched, and
//! is given up with higher versions, so a reader that is still in it starts over. Two writers wait for
//! each other only if both change one bucket, or its hashes.
//! An extent of which no segment is named goes back to the pool, with the locks that lie in it: `space.rs` says
//! how late writers and readers are kept from its next use. Writers count themselves while they go to a lock,
//! and readers look at the directory's view last.
//! Readers in other processes see nothing of this. The writer counts changes for them, if it was told to (`onlooker.rs`).
//! A repair holds W and X of all buckets. Some of them may have been in use: of a segment that was
//! damaged, some epochs may be old and others not.
//!
//! # Departures from the paper
//! - Fourteen slots of sixteen bytes. "28 pairs of 8 bytes" do not fit beside 32 bytes of metadata.
//! - "The data within it is considered invalid" after a crash would lose acknowledged changes:
//!   segments are repaired instead, and the state flag is the epoch of an open.
//! - MC counts all live slots, not those from other buckets: it shares a word with the bits it counts,
//!   so that either tells of damage to the other.
//! - A split writes both halves anew. In place, the lower half would keep its overflowed records away
//!   from home although there is room now: simulated over growth, hits read 1.12 buckets instead of
//!   1.04 and misses 1.63 instead of 1.21. It also leaves nothing stale behind that a crash could keep
//!   and a merge revive.
//! - Lookups use the copy of the directory, so on the medium only the first word of a segment's
//!   range counts (`crate::extendible::array`). It grows by a new array; its words have check sums.
//! - A reader validates one version, that of the home.
//! - Sparse buddies merge, and the directory halves.

mod check;
mod count;
mod grow;
mod image;
mod layout;
mod onlooker;
mod overflow;
mod planted;
mod records;
mod recover;
mod repair;
mod space;
mod write;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use durahash_media::{
    EpochLock, Epochs, Event, LINE_BYTES, Medium, Place, Pool, Present, Reserved, Result, Version,
};

use crate::extendible::array::Array;
use crate::extendible::count::IncrementalCount;
use crate::extendible::directory::{Directory, Sought};
use crate::extendible::extend;
use crate::extendible::free::FreeUnits;
use crate::extendible::growth::{Count, Growth, split_ahead};
use crate::extendible::unit::Unit;
use crate::index::{
    Change, Finding, Index, IndexBase, IndexStats, PREFETCHED, Reader, Room, Updater, WalkOrder,
    last_read, operation,
};
use crate::util::arrivals::{Arrivals, Passed};
use layout::{BUCKET_BYTES, Commit, Fingerprints, MAX_BUCKETS, SAVED, preferred_line};
use overflow::Shape;

/// A reader beside the writer of a table in another process.
#[doc(hidden)]
pub type Onlooker<M> = super::onlooker::Onlooker<onlooker::Segments<M>>;
#[cfg(feature = "planted")]
pub use planted::plant;
#[doc(hidden)]
pub use {super::Slot, layout::Bucket, planted::Fault};

/// The root word that keeps the epoch of the last unclean open; the first names the array.
pub(crate) const DATES_ROOT: usize = 1;

/// Tries of an optimistic reader before it takes the lock.
const READ_TRIES: u32 = 16;

/// ESH over a pool. See the [module docs](self).
pub struct Esh<M: Medium> {
    pool: Arc<Pool<M>>,
    /// The map's part of the pool.
    map: Place<M>,
    /// Names segments by their numbers.
    directory: Directory<u64>,
    shape: Shape,
    epochs: Epochs,
    present: Present,
    live_count: IncrementalCount,
    /// By the number of the bucket: its live slots, and one more; zero where that was not asked yet.
    counts: Reserved<1, u8>,
    writers: Writers,
}

/// The state that structure changes store to: kept off the lines that every lookup reads.
#[repr(align(128))]
struct Writers {
    growth: Growth,
    array: Array,
    free: Mutex<Free>,
    /// Threads that found a segment in the directory, and go to one of its locks.
    arrivals: Arrivals,
    /// Memory in which segments were made.
    scratch: Mutex<Vec<Vec<u64>>>,
    repairs: Count,
    /// Where background repair goes on; behind the last hash when it is done.
    repair_at: AtomicU64,
}

/// Segments that exist and that nothing names.
struct Free {
    units: FreeUnits,
    /// Extents that go back to the pool.
    leaving: Vec<(u64, Passed)>,
}

/// A live slot that was found.
#[derive(Clone, Copy)]
struct Hit {
    bucket: u32,
    slot: u32,
    payload: u64,
}

impl<M: Medium> Esh<M> {
    #[inline(always)]
    fn medium(&self) -> &M {
        self.pool.medium()
    }

    /// The place of `h` now.
    #[inline(always)]
    fn find(&self, h: u64) -> Unit {
        Unit::from_word(self.directory.find(h))
    }

    #[inline(always)]
    fn offset(&self, place: Unit) -> u64 {
        place.number() * self.shape.segment_bytes()
    }

    #[inline(always)]
    fn bucket(&self, place: Unit, bucket: u32) -> Result<&Bucket> {
        self.pool.at(self.offset(place) + u64::from(bucket) * BUCKET_BYTES)
    }

    /// Before the first store to a bucket, which may be that of its lock.
    #[inline(always)]
    fn touch(&self, bucket: &Bucket) {
        self.pool.touch(self.medium().region().offset_of(&bucket.commit));
    }

    #[inline(always)]
    fn lock_of<'a>(&'a self, bucket: &'a Bucket) -> EpochLock<'a> {
        EpochLock::new(&bucket.lock, self.epochs, &self.present)
    }

    #[inline(always)]
    fn commit(&self, bucket: &Bucket) -> Commit {
        Commit(self.medium().load(&bucket.commit))
    }

    /// Stores a commit word with other live slots, and their count. The caller holds W of the bucket.
    #[inline(always)]
    #[track_caller]
    fn store_commit(&self, bucket: &Bucket, commit: Commit) {
        self.medium().store(&bucket.commit, commit.0);
        self.count_of(bucket).store(commit.count() as u8 + 1, Ordering::Release);
    }

    #[inline(always)]
    fn count_of(&self, bucket: &Bucket) -> &AtomicU8 {
        let [count] =
            self.counts.row(self.medium().region().offset_of(&bucket.commit) / BUCKET_BYTES);
        count
    }

    #[inline(always)]
    fn fingerprints(&self, bucket: &Bucket) -> Fingerprints {
        let medium = self.medium();
        let word = medium.load(&bucket.fingerprints[0]);
        Fingerprints([word, medium.load(&bucket.fingerprints[1])])
    }

    /// Starts to fetch the head of the home of `h`, and the line in which `h` probably is.
    #[inline(always)]
    fn prefetch_home(&self, h: u64, place: Unit) {
        let off = self.offset(place) + u64::from(self.shape.home(h)) * BUCKET_BYTES;
        let region = self.medium().region();
        region.speculate(off);
        region.speculate(off + preferred_line(h) as u64 * LINE_BYTES);
    }

    /// The slot of `h` in one bucket.
    #[inline(always)]
    fn probe_bucket(&self, h: u64, number: u32, bucket: &Bucket) -> Option<Hit> {
        let medium = self.medium();
        let live = self.commit(bucket).live();
        for slot in self.fingerprints(bucket).candidates(h, live) {
            let words = &bucket.slots[slot as usize];
            if medium.load(&words.h) == h {
                let payload = medium.load(&words.payload);
                // The slot may have been another home's when it was live, and be that of an insert
                // now which is not committed. If it is live again, that has raised the home's version.
                if self.commit(bucket).live() & 1 << slot != 0 {
                    return Some(Hit { bucket: number, slot, payload });
                }
            }
        }
        None
    }

    /// The slot of `h`, as far from its home as it may be. The caller holds W of the home, or validates
    /// its version afterwards.
    #[inline(always)]
    fn probe(&self, h: u64, place: Unit, home: &Bucket) -> Result<Option<Hit>> {
        self.medium().event(Event::Look);
        let number = self.shape.home(h);
        if let Some(found) = self.probe_bucket(h, number, home) {
            return Ok(Some(found));
        }
        let reach = self.commit(home).reach(self.shape.buckets);
        self.probe_beyond(h, place, number, reach)
    }

    /// The slot of `h` in the next `reach` buckets after its home.
    #[inline(always)]
    fn probe_beyond(&self, h: u64, place: Unit, home: u32, reach: u32) -> Result<Option<Hit>> {
        for distance in 1..=reach {
            self.medium().event(Event::Look);
            let number = self.shape.after(home, distance);
            let found = self.probe_bucket(h, number, self.bucket(place, number)?);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// One optimistic look; `None` where it was in vain: a writer came meanwhile, the segment is not
    /// repaired yet, or the medium is damaged. [`look_again`](Self::look_again) knows what to do then.
    #[inline(always)]
    fn look(&self, h: u64) -> Option<Option<u64>> {
        let sought = self.approach(h)?;
        self.look_in(h, &sought, |lock, version| lock.validate(self.medium(), version))
    }

    /// The segment of `h`, whose most probable lines are being fetched.
    #[inline(always)]
    fn approach(&self, h: u64) -> Option<Sought<'_, u64>> {
        let sought = self.directory.seek(h)?;
        self.prefetch_home(h, Unit::from_word(sought.entry()));
        Some(sought)
    }

    /// The same in one segment; `is_valid` says if what was seen under a version of the home's lock counts.
    #[inline(always)]
    fn look_in<'a>(
        &'a self,
        h: u64,
        sought: &Sought<'a, u64>,
        is_valid: impl Fn(EpochLock<'a>, Version) -> bool,
    ) -> Option<Option<u64>> {
        let place = Unit::from_word(sought.entry());
        let home = self.bucket(place, self.shape.home(h)).ok()?;
        let lock = self.lock_of(home);
        let version = lock.try_read(self.medium())?;
        if !self.directory.still_has(sought) {
            return None;
        }
        let found = self.probe(h, place, home).ok()?;
        let is_valid = is_valid(lock, version) && self.directory.is_unchanged(sought);
        is_valid.then_some(found.map(|found| found.payload))
    }

    /// After a look in vain.
    #[cold]
    #[inline(never)]
    fn look_again(&self, h: u64) -> Result<Option<u64>> {
        self.medium().event(Event::Wait);
        last_read(|f| self.read_with(h, f))
    }

    /// The body of [`Index::read`]. After many looks in vain writers of the home are made to wait for
    /// once.
    fn read_with(&self, h: u64, f: Reader<'_>) -> Result<()> {
        let medium = self.medium();
        for _ in 0..READ_TRIES {
            let sought = self.directory.sought(h);
            let place = Unit::from_word(sought.entry());
            self.prefetch_home(h, place);
            let home = self.bucket(place, self.shape.home(h))?;
            let lock = self.lock_of(home);
            let is_there = || self.directory.is_current(&sought);
            let Some(version) = lock.read(medium, is_there)? else {
                if self.repair(h, place)? {
                    continue;
                }
                // No thread repairs it, so none writes to it either.
                let found = self.probe_everywhere(h, place)?;
                return f(found.map(|found| found.payload), &|| true);
            };
            if !is_there() {
                continue;
            }
            let is_valid =
                || lock.validate(medium, version) && self.directory.is_unchanged(&sought);
            // An error that comes of reading what a writer has since taken away is no error.
            let found = self.probe(h, place, home);
            let done = found.and_then(|found| f(found.map(|found| found.payload), &is_valid));
            if is_valid() {
                return done;
            }
            medium.event(Event::Wait);
        }
        let held = self.hold(h)?;
        let found = self.probe(h, held.place, held.home);
        let done = found.and_then(|found| f(found.map(|found| found.payload), &|| true));
        held.release_unchanged();
        done
    }

    /// The slot of `h` in a segment whose heads may not be relied on. In its home it counts first.
    fn probe_everywhere(&self, h: u64, place: Unit) -> Result<Option<Hit>> {
        let number = self.shape.home(h);
        match self.probe_bucket(h, number, self.bucket(place, number)?) {
            None => self.probe_beyond(h, place, number, self.shape.buckets - 1),
            found => Ok(found),
        }
    }

    /// The slots of the segment that covers `at`, from `at` on, at one instant.
    fn scan_unit(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        let mut twice = Vec::new();
        let mut tries = 0;
        let (place, records) = loop {
            if tries == READ_TRIES {
                let whole = self.hold_whole(at)?;
                let place = whole.place;
                let prefix = extend::prefix(at, place.depth());
                let records = self.records(place, prefix, true, &mut twice);
                whole.release_unchanged();
                break (place, records?);
            }
            tries += 1;
            let sought = self.directory.sought(at);
            let place = Unit::from_word(sought.entry());
            let prefix = extend::prefix(at, place.depth());
            let is_there = || self.directory.is_current(&sought);
            let Some(versions) = self.versions(place, &is_there)? else {
                if self.repair(at, place)? {
                    continue;
                }
                break (place, self.records(place, prefix, false, &mut twice)?);
            };
            if is_there() {
                let records = self.records(place, prefix, true, &mut twice);
                if self.are_valid(place, &versions)? && self.directory.is_unchanged(&sought) {
                    break (place, records?);
                }
            }
            self.medium().event(Event::Wait);
        };
        let wanted = records.iter().filter(|record| record.h >= at);
        out.extend(wanted.map(|record| (record.h, record.payload)));
        let depth = place.depth();
        Ok(extend::next(extend::prefix(at, depth), depth))
    }

    /// The versions of all buckets of a segment; `None` where it is not repaired yet.
    fn versions(
        &self,
        place: Unit,
        is_there: &dyn Fn() -> bool,
    ) -> Result<Option<[Option<Version>; MAX_BUCKETS as usize]>> {
        let mut versions = [None; MAX_BUCKETS as usize];
        for (number, version) in (0..self.shape.buckets).zip(&mut versions) {
            *version = self.lock_of(self.bucket(place, number)?).read(self.medium(), is_there)?;
            if version.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(versions))
    }

    /// True if no bucket of a segment was changed.
    fn are_valid(&self, place: Unit, versions: &[Option<Version>]) -> Result<bool> {
        for (number, version) in (0..self.shape.buckets).zip(versions) {
            let lock = self.lock_of(self.bucket(place, number)?);
            if !version.is_some_and(|version| lock.validate(self.medium(), version)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<M: Medium> IndexBase for Esh<M> {
    type Slot = u64;

    fn reserve(&self, entries: u64) -> Result<()> {
        split_ahead(entries, self.shape.capacity() / 2, |h, to| self.split_once(h, to))
    }

    fn prefetch(&self, h: &[u64]) {
        for h in h {
            self.directory.prefetch(*h);
        }
        for h in h {
            self.prefetch_home(*h, self.find(*h));
        }
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        self.scan_unit(at, out)
    }

    fn walk_order(&self) -> WalkOrder {
        self.directory.walk_order(&self.writers.growth)
    }

    fn step(&self) -> Result<bool> {
        self.release_extents()?;
        self.repair_some()
    }

    fn give_back(&self) -> Result<()> {
        self.release_extents()
    }

    fn mend(&self) -> Result<()> {
        self.mend_all()
    }

    fn len(&self) -> Result<u64> {
        self.live_slots()
    }

    fn close(&self) {
        // If it fails, the next open finds the free extents.
        let _ = self.release_extents();
        if let Some(live) = self.live_count.get() {
            self.map.save(SAVED, live + 1);
        }
    }

    base_methods!();
}

impl<M: Medium> Index for Esh<M> {
    #[inline]
    fn get(&self, h: u64) -> Result<Option<u64>> {
        operation(self.medium(), || match self.look(h) {
            Some(found) => Ok(found),
            None => self.look_again(h),
        })
    }

    looks_in_batches!();
    index_methods!();
}
