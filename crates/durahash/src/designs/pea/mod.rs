//! Pea Hash: extendible hashing whose segments change their strategy as they fill.
//!
//! # Paper
//! Zhuoxuan Liu, Shimin Chen: *Pea Hash: A Performant Extendible Adaptive Hashing Index*, SIGMOD
//! 2023. Kept: segments of 512 KiB that are hash tables of their own (§3.1), the strategies single,
//! two-choice and two-choice with stash (§3.2), buckets of 256 bytes with a bitmap and 14
//! fingerprints, which in a multimap adapt to keys with few values and with many (§3.3), entry moving
//! (§3.4), segments built aside and linked by one word, recovery from the directory alone.
//!
//! # Where state lives
//! Segments and the directory are in the pool; a root word names the array of the directory. Locks,
//! a copy of the directory (`crate::extendible::directory`), and one count for each segment are in DRAM. The copy and
//! the locks are made at every open from the array alone, a count when it is first asked for: no segment is read. A
//! lookup reads one bucket, and up to three more where no end bit ends it.
//!
//! # Layout
//! `layout.rs`, with a picture. A segment is a row of extents, and its stash buckets are its own last ones. The first
//! two segments are *small*, of one extent, until one of them is full: so a new pool is.
//! The parts that only a multimap has are in `multi/`, with commit steps of its own, and `buffer.rs`.
//!
//! # Invariants
//! As cited by `check`:
//! - **PEA-1** From the first word of the array on, each word says how far its segment reaches, and
//!   the next one stands there; depths divide indices, check sums agree. The directory in DRAM says
//!   the same in every entry; its front too, or that the segment is deeper than itself.
//! - **PEA-2** Every live slot has an `h` of its segment's hashes, in a bucket where the segment's
//!   strategy looks for it, with the fingerprint of `h`; it is one that the geometry uses.
//! - **PEA-3** No two live slots of a map have the same `h`.
//! - **PEA-4** No local depth exceeds the global depth.
//! - **PEA-5** Every extent of units belongs to one segment of the directory, but for one segment that is kept for
//!   merges; every extent of directories belongs to the array. Either two segments are small, of depth 1, and no others
//!   are there, or none is small.
//! - **PEA-6** The counters of depths, and the counts of live slots and of a multimap's other entries
//!   that are known, are exact, and no lock is held.
//! - **PEA-7** In a multimap, all live slots of an `h` are in one bucket, and in every bucket one slot
//!   is not live.
//! - **PEA-8** A list is a chain of sound value buffers of its `h` with two values or more.
//! - **PEA-9** The first word of no head is zero, as that of a page of zeros is.
//! - **PEA-10** Of the buckets that a lookup of a live slot's `h` visits before that slot's, none has its end
//!   bit set.
//!
//! # Commit steps
//! A point write holds W of the locks of its key's buckets; X of the lock of the bucket that it
//! changes is held from the first store of a row marked ✕ to the end. A change of a segment as a
//! whole holds W of all its locks, and X of all of them only while it switches the directory in
//! DRAM.
//!
//! | Operation | Stores | Then | If power fails after this step |
//! |---|---|---|---|
//! | insert, not into the first bucket | heads of the buckets before this one, without their end bits, if any is set | flush, a fence before the commit | lookups look further, and find nothing there |
//! | insert, slot in line 0 | payload and `h` of a free slot | flush, fence where lines keep no order | slot not live |
//! | | ✕ head word 0 with its bit and fingerprint | flush, drain | inserted |
//! | insert, slot in another line | payload and `h` there; copies of entries of line 0 in free slots of that line; head word 1 | flush (with the head only where lines keep no order), fence | slots not live |
//! | | ✕ head word 0: the new bits, and not those of what was copied | flush, drain | inserted, and moved |
//! | update | ✕ payload | flush, drain | old or new payload, one word |
//! | remove | ✕ head word 0 without the bit, then word 1 where lines keep order | flush, drain | there or not, one word |
//! | transition | the segment's word in the array, with the next strategy | flush, fence | the strategy, with nothing placed by it yet |
//! | split | new segments, past the cache | fence | nothing names them: free |
//! | | words of all of them but the lowest | flush, fence | they stand inside the range of the old word: not looked at |
//! | | word of the lowest, where the old one stood | flush, fence | split; nothing names the old segment: free |
//! | merge | new segment, past the cache | fence | free |
//! | | its word, where the lower of the old ones stood | flush, fence | merged; the upper's word stands inside its range |
//! | small ones become large | two large segments, past the cache | fence | free |
//! | | new array: the words of both | flush, fence | nothing names it, and them: free |
//! | | root word | flush, fence | large; nothing names the small ones and their array: free |
//! | doubling, halving | new array: the word of each segment at its new place | flush, fence | nothing names it: free |
//! | | root word {array, depth} | flush, fence | switched; nothing names the old array: free |
//!
//! The directory's lock is held, shared for a row of the array and exclusively for a new one, from
//! the first store to the array until the directory in DRAM says the same. The old segments and the
//! old array go back to the pool after that; one segment is kept, also by a close, so that a merge needs
//! no space.
//!
//! An end bit is set in the heads of a new segment, cleared in the memory in which a split, a merge or a repair
//! makes one, cleared by the commit that fills a bucket, and never set again: removals may leave it clear in
//! vain. The insert that clears it holds W of the bucket's lock and does not stop readers. A reader that saw the bit
//! set, and no `h` in the bucket until the version was confirmed, saw that nothing of `h` was elsewhere at that instant
//! either. A bit that is set in vain, which only damage does, hides entries until `compact` has mended it.
//!
//! A new segment takes entries by the policy, from the first strategy on. Should their number fit
//! but not their places, which only tiny segments see, it keeps the places of the old segment, of
//! whose entries it has a part.
//!
//! # Recovery
//! `recover.rs`. The array is strided from segment to segment. No store is needed, so recovery is
//! idempotent; extents of units or directories that nothing names are given back, but for those of one large segment.
//!
//! # Concurrency
//! A segment has fourteen locks for its main buckets and one for its stash. Readers: directory
//! entry, version of the first bucket, entry again, bucket; where its end bit is clear and the strategy has
//! more buckets, the version of each before it is read; at the end all versions again. A change of an entry of the directory raises
//! all versions of its segments, so the version that was read before the entry was confirmed vouches
//! for the entry too. Every writer of a key holds the lock of its first bucket, whatever the
//! strategy; locks of a segment are taken in ascending order (two buckets may share one), then a
//! second segment's by trying, then the directory's. A writer that finds no room lets go of its
//! locks, takes all of them, looks again, and then changes the strategy or splits.
//! Readers never wait for a split: the old segment stays as it is until the directory is switched.
//! An extent that was given up gets higher versions first, so a reader that is still in it starts
//! over. Segments become large under all locks of both; the sizes by which operations find buckets are loaded after the
//! entry of the directory, and change between the exclusion of the readers and the new entries.
//! Readers in other processes see nothing of this. The writer counts changes for them, if it was told to (`onlooker.rs`, `multi/onlooker.rs`).
//!
//! # Departures from the paper
//! - Two-way splits are the default: uniform keys fill all segments at the same time, so four-way splits
//!   leave three quarters of the space empty at once.
//! - End bits, and an entry goes to its first bucket until that holds fourteen, or thirteen where the second is much
//!   emptier: so most misses read one bucket. As the buckets are less even than with the balanced insert, the stash
//!   is a 32nd of a segment, in pairs of buckets, instead of two buckets. These are a [`Policy`], but for the stash.
//! - Two small segments come first, which are rewritten as large ones: a new pool takes a few extents, not
//!   segments of half a mebibyte each. They have the last strategy from the start.
//! - The stash is part of the segment. Its own segments, and the array that finds them,
//!   would have to be allocated, recovered and locked.
//! - Lookups use the copy of the directory, so on the medium only the first word of a segment's
//!   range counts: a split stores two words, a transition one, whatever the depth.
//! - The directory grows by a new array, not in one of two fixed regions. Its words have check sums:
//!   a flipped bit would misplace a segment.
//! - The two buckets of a key always differ; sparse buddies merge.
//! - Locks are version words of 64 bits that stop readers only from commit to drain, instead of
//!   counters with thread numbers.
//! - A bucket is not compacted in place under a log: a slot of each is kept free, in which the list
//!   of a key appears by the same store that its other slots go by. Any slot may be a list's; the
//!   head has a bit for each, for which two fingerprints make room.
//! - All entries of a hash are in one bucket, so that they go, and are read, at once. Sparse buddies
//!   may have no room for them in one segment; then a merge is not tried again at every removal.
//! - Compaction takes one key at a time, the one with most slots. A list whose last value but one
//!   goes is given up again, and buffers shrink when a quarter is left.

mod buffer;
mod grow;
mod image;
mod layout;
mod multi;
mod onlooker;
mod planted;
mod recover;
mod strategy;
mod write;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use durahash_media::hash::WordMix;
use durahash_media::{
    Event, LINE_BYTES, Medium, Place, Pool, Reserved, Result, Version, VersionLock, bits,
};

use crate::designs::one_of_each;
use crate::extendible::array::Array;
use crate::extendible::count::IncrementalCount;
use crate::extendible::directory::{Directory, Sought};
use crate::extendible::extend;
use crate::extendible::growth::{Count, Growth};
use crate::extendible::unit::Unit;
use crate::index::{
    Change, Finding, Index, IndexBase, IndexStats, PREFETCHED, Reader, Room, Updater, WalkOrder,
    operation,
};
use layout::{BUCKET_BYTES, Entry, Head, preferred_line};
use strategy::{Homes, Shape, is_small};

pub(crate) use recover::EXTRA_COUNTER;

pub use strategy::{Policy, Strategy};
/// A reader beside the writer of a table in another process.
#[doc(hidden)]
pub type Onlooker<M> = super::onlooker::Onlooker<onlooker::Segments<M, false>>;
#[doc(hidden)]
pub use multi::MultiOnlooker;
#[doc(hidden)]
pub use planted::Fault;
#[cfg(feature = "planted")]
pub use planted::plant;
#[doc(hidden)]
pub use {super::Slot, buffer::BufferHeader, layout::Bucket};

/// Tries of an optimistic reader before it takes the locks.
const READ_TRIES: u32 = 16;

/// Locks of a segment's main buckets: words 0 to 13 of its two rows.
const STRIPES: u32 = 14;
/// The lock of its stash.
const STASH_LOCK: u32 = 14;
/// The word with its live slots, plus one, in bits 0-31, which are zero where they were not counted;
/// and in bits 32-63 how many it and its buddy had when they could not be merged, zero where they
/// could.
const COUNT: u32 = 15;
const COUNT_BITS: u32 = 32;

/// The number of a segment: that of its first extent.
type Segment = u64;

/// Pea Hash over a pool. See the [module docs](self).
pub type Pea<M> = Table<M, false>;

/// Pea Hash with any number of payloads for each hash. See the [module docs](self).
pub type MultiPea<M> = Table<M, true>;

/// A map, or a multimap, over a pool.
pub struct Table<M: Medium, const MULTI: bool> {
    pool: Arc<Pool<M>>,
    /// The map's part of the pool.
    map: Place<M>,
    /// Names segments by their places.
    directory: Directory<u64>,
    /// Locks and count, two rows for each segment.
    rows: Reserved<8>,
    /// That of large segments; what others differ in is in `sizes`.
    large: Shape,
    /// The word of the shape that all segments have now.
    sizes: AtomicU64,
    mix: WordMix,
    writers: Writers,
}

/// The state that structure changes store to: kept off the lines that every lookup reads.
#[repr(align(128))]
struct Writers {
    growth: Growth,
    /// How many segments have each strategy, and how many began with it since the pool was opened.
    in_force: [AtomicU64; 3],
    started: [Count; 3],
    array: Array,
    /// A large segment that nothing names, kept for merges, which free two: a full pool can shrink.
    reserve: Mutex<Option<Segment>>,
    /// Memory in which segments were made.
    scratch: Mutex<Vec<Vec<u64>>>,
    /// The number of the next value buffer.
    numbers: AtomicU64,
    /// How many entries of a multimap there are beyond one a slot.
    extra_count: IncrementalCount,
}

/// The lock, among a segment's, of one of its buckets.
#[inline(always)]
fn stripe(bucket: u32, main: u32) -> u32 {
    if bucket < main { bucket % STRIPES } else { STASH_LOCK }
}

/// A live slot that was found.
#[derive(Clone, Copy)]
struct Hit {
    bucket: u32,
    slot: u32,
    payload: u64,
}

/// The versions that a lookup relies on.
struct Seen<'a> {
    first: (VersionLock<'a>, Version),
    second: Option<(VersionLock<'a>, Version)>,
    stash: Option<(VersionLock<'a>, Version)>,
}

impl Seen<'_> {
    /// True if nothing was changed that the lookup relied on.
    #[inline(always)]
    fn is_valid(&self) -> bool {
        let valid = |(lock, version): (VersionLock<'_>, Version)| lock.validate(version);
        self.second.is_none_or(valid) && self.stash.is_none_or(valid) && valid(self.first)
    }

    /// True if besides no writer has one of the locks. The first comes first: all writers of the hash take it, and one
    /// of a slot elsewhere, which leaves its version, may have let go of it but not yet of a bucket that it opened.
    fn is_free(&self, medium: &impl Medium) -> bool {
        let free = |(lock, version): (VersionLock<'_>, Version)| lock.is_free_at(version);
        let is_free = free(self.first);
        medium.event(Event::Look);
        is_free && self.second.is_none_or(free) && self.stash.is_none_or(free)
    }
}

impl<M: Medium, const MULTI: bool> Table<M, MULTI> {
    #[inline(always)]
    fn medium(&self) -> &M {
        self.pool.medium()
    }

    /// The place of `h` now.
    #[inline(always)]
    fn find(&self, h: u64) -> Unit {
        Unit::from_word(self.directory.find(h))
    }

    /// The shape of the segments. It changes once, while readers are kept out of the first two: so a reader that loads
    /// it after an entry of the directory, and finds entry and version unchanged afterwards, had the one of that entry.
    #[inline(always)]
    fn shape(&self) -> Shape {
        self.large.with_word(self.sizes.load(Ordering::Acquire))
    }

    /// The extents of the segment at `place`.
    fn extents(&self, place: Unit) -> Range<u64> {
        let count = if is_small(place) { 1 } else { self.large.extents };
        place.number()..place.number() + count
    }

    fn offset(&self, segment: Segment) -> u64 {
        segment << self.map.format().geometry.extent_shift
    }

    #[inline(always)]
    fn bucket(&self, segment: Segment, bucket: u32) -> Result<&Bucket> {
        self.pool.at(self.offset(segment) + u64::from(bucket) * BUCKET_BYTES)
    }

    /// One of the sixteen words of a segment in DRAM.
    #[inline(always)]
    fn word(&self, segment: Segment, i: u32) -> &AtomicU64 {
        &self.rows.row(segment * 2 + u64::from(i / 8))[(i % 8) as usize]
    }

    #[inline(always)]
    fn lock(&self, segment: Segment, i: u32) -> VersionLock<'_> {
        VersionLock::new(self.word(segment, i))
    }

    #[inline(always)]
    fn head(&self, bucket: &Bucket) -> Head<MULTI> {
        let medium = self.medium();
        let word = medium.load(&bucket.head[0]);
        Head([word, medium.load(&bucket.head[1])])
    }

    /// Starts to fetch the head of the bucket in which `h` most probably is.
    #[inline(always)]
    fn prefetch_head(&self, place: Unit, homes: Homes) {
        if let Ok(bucket) = self.bucket(place.number(), homes.first) {
            self.medium().prefetch(&bucket.head);
        }
    }

    /// Starts to fetch the line of the first bucket in which `h` probably is, if not in that of the
    /// head.
    #[inline(always)]
    fn prefetch_preferred(&self, h: u64, place: Unit, homes: Homes) {
        let bucket = self.offset(place.number()) + u64::from(homes.first) * BUCKET_BYTES;
        self.medium().region().speculate(bucket + preferred_line(h) as u64 * LINE_BYTES);
    }

    /// Starts to fetch the slot that probably has `h`, whose first bucket's head was fetched; or the head
    /// of the second bucket.
    fn prefetch_slot(&self, h: u64, place: Unit) {
        let homes = self.shape().homes(h);
        let Ok(bucket) = self.bucket(place.number(), homes.first) else {
            return;
        };
        let head = self.head(bucket);
        if let Some(i) = head.candidates(h).lowest() {
            self.medium().prefetch(&bucket.slots[i as usize]);
        } else if head.0[0] & Head::<MULTI>::END == 0
            && Strategy::of(place) != Strategy::Single
            && let Ok(bucket) = self.bucket(place.number(), homes.second)
        {
            self.medium().prefetch(&bucket.head);
        }
    }

    /// Starts to fetch what an operation on each of these will touch.
    fn prefetch_all(&self, h: &[u64]) {
        for h in h {
            self.directory.prefetch(*h);
        }
        for h in h {
            let place = self.find(*h);
            self.prefetch_head(place, self.shape().homes(*h));
        }
        for h in h {
            self.prefetch_slot(*h, self.find(*h));
        }
    }

    /// The slot of `h` in one bucket, and true if it is in none of those that a lookup visits after it.
    /// The caller holds its lock, or validates its version afterwards.
    #[inline(always)]
    fn probe(&self, h: u64, segment: Segment, number: u32) -> Result<(Option<Hit>, bool)> {
        let medium = self.medium();
        medium.event(Event::Look);
        let bucket = self.bucket(segment, number)?;
        let head = self.head(bucket);
        for slot in head.candidates(h) {
            let words = &bucket.slots[slot as usize];
            if medium.load(&words.h) == h {
                let payload = medium.load(&words.payload);
                return Ok((Some(Hit { bucket: number, slot, payload }), true));
            }
        }
        Ok((None, head.0[0] & Head::<MULTI>::END != 0))
    }

    /// The version of a bucket's lock, before the bucket is read.
    #[inline(always)]
    fn version(&self, segment: Segment, bucket: u32) -> (VersionLock<'_>, Version) {
        let lock = self.lock(segment, stripe(bucket, self.shape().main));
        (lock, lock.read(self.medium()))
    }

    /// The segment of `h`, whose most probable lines are being fetched.
    #[inline(always)]
    fn approach(&self, h: u64) -> Option<Sought<'_, u64>> {
        let sought = self.directory.seek(h)?;
        let place = Unit::from_word(sought.entry());
        let homes = self.shape().homes(h);
        self.prefetch_head(place, homes);
        self.prefetch_preferred(h, place, homes);
        Some(sought)
    }

    /// One try of a reader: the answer counts if the versions seen are valid afterwards. `None` where
    /// the directory was changed at that moment.
    #[inline(always)]
    fn glance(&self, h: u64) -> Option<(Result<Option<Hit>>, Seen<'_>)> {
        self.glance_in(h, &self.approach(h)?)
    }

    /// The same in one segment.
    #[inline(always)]
    fn glance_in<'a>(
        &'a self,
        h: u64,
        sought: &Sought<'a, u64>,
    ) -> Option<(Result<Option<Hit>>, Seen<'a>)> {
        let place = Unit::from_word(sought.entry());
        let homes = self.shape().homes(h);
        let first = self.version(place.number(), homes.first);
        if !self.directory.is_current(sought) {
            return None;
        }
        let mut seen = Seen { first, second: None, stash: None };
        let found = match self.probe(h, place.number(), homes.first) {
            Ok((None, false)) if Strategy::of(place) != Strategy::Single => {
                self.glance_further(h, place, homes, &mut seen)
            }
            found => found.map(|(found, _)| found),
        };
        Some((found, seen))
    }

    /// The second bucket, and the stash if there is one.
    #[inline]
    fn glance_further<'a>(
        &'a self,
        h: u64,
        place: Unit,
        homes: Homes,
        seen: &mut Seen<'a>,
    ) -> Result<Option<Hit>> {
        let segment = place.number();
        seen.second = Some(self.version(segment, homes.second));
        let (found, ends) = self.probe(h, segment, homes.second)?;
        if found.is_some() || ends || Strategy::of(place) == Strategy::TwoChoice {
            return Ok(found);
        }
        seen.stash = Some(self.version(segment, homes.stash));
        let (found, ends) = self.probe(h, segment, homes.stash)?;
        if found.is_some() || ends {
            return Ok(found);
        }
        Ok(self.probe(h, segment, homes.stash + 1)?.0)
    }

    #[inline(always)]
    fn lookup(&self, h: u64) -> Result<Option<u64>> {
        for _ in 0..READ_TRIES {
            if let Some((found, seen)) = self.glance(h) {
                if seen.is_valid() {
                    return Ok(found?.map(|found| found.payload));
                }
                self.medium().event(Event::Wait);
            }
        }
        self.lookup_locked(h)
    }

    /// After many failures: writers of the buckets are made to wait for once.
    #[cold]
    fn lookup_locked(&self, h: u64) -> Result<Option<u64>> {
        let mut held = self.hold(h);
        let found = held.find(h);
        held.release_unchanged();
        Ok(found?.map(|found| found.payload))
    }

    /// Calls `f` with the entry that a lookup finds and a way to ask if it still holds: again while it
    /// does not, at last under the locks.
    #[inline]
    fn look<T>(
        &self,
        h: u64,
        mut f: impl FnMut(Result<Option<Hit>>, &dyn Fn() -> bool) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..READ_TRIES {
            let Some((found, seen)) = self.glance(h) else {
                continue;
            };
            // An error that comes of reading what a writer has since taken away is no error.
            let done = f(found, &|| seen.is_valid());
            if seen.is_valid() {
                return done;
            }
            self.medium().event(Event::Wait);
        }
        let mut held = self.hold(h);
        let done = f(held.find(h), &|| true);
        held.release_unchanged();
        done
    }

    fn read_with(&self, h: u64, f: Reader<'_>) -> Result<()> {
        self.look(h, |found, still| f(found?.map(|found| found.payload), still))
    }

    /// Calls `f` with the entries of one bucket that lookups find there. The caller holds its lock,
    /// or validates its version afterwards.
    fn each_in(
        &self,
        place: Unit,
        prefix: u64,
        number: u32,
        f: &mut dyn FnMut(u64, Entry),
    ) -> Result<()> {
        let medium = self.medium();
        let bucket = self.bucket(place.number(), number)?;
        let head = self.head(bucket);
        for i in durahash_media::probe::BitMask(head.live()) {
            let slot = &bucket.slots[i as usize];
            let h = medium.load(&slot.h);
            if self.shape().finds((prefix, place), number, head, (i, h)) {
                let is_list = head.lists() & 1 << i != 0;
                f(h, Entry { payload: medium.load(&slot.payload), is_list });
            }
        }
        Ok(())
    }

    /// The entries of the segment that covers `at`, from `at` on. Each bucket is read by itself:
    /// between two buckets nothing moves, unless the stash's version is raised, as it is by whatever
    /// changes the segment.
    fn scan_unit<T>(
        &self,
        at: u64,
        out: &mut Vec<T>,
        item: impl Fn(u32, u64, Entry) -> T,
    ) -> Result<Option<u64>> {
        let from = out.len();
        let mut tries = 0;
        let place = loop {
            out.truncate(from);
            if tries == READ_TRIES {
                let whole = self.hold_whole(at);
                let place = whole.place;
                let done = self.collect(place, at, out, &item);
                whole.release_unchanged();
                done?;
                break place;
            }
            tries += 1;
            let Some(sought) = self.directory.seek(at) else {
                continue;
            };
            let place = Unit::from_word(sought.entry());
            let stash = self.version(place.number(), self.shape().main);
            if !self.directory.is_current(&sought) {
                continue;
            }
            let done = self.collect(place, at, out, &item);
            if stash.0.validate(stash.1) {
                done?;
                break place;
            }
            self.medium().event(Event::Wait);
        };
        let depth = place.depth();
        Ok(extend::next(extend::prefix(at, depth), depth))
    }

    /// The entries of a segment from `at` on, of each bucket at one instant. They count if
    /// the stash's version is unchanged afterwards.
    fn collect<T>(
        &self,
        place: Unit,
        at: u64,
        out: &mut Vec<T>,
        item: &impl Fn(u32, u64, Entry) -> T,
    ) -> Result<()> {
        let prefix = extend::prefix(at, place.depth());
        for number in 0..self.shape().buckets() {
            let from = out.len();
            loop {
                out.truncate(from);
                let (lock, version) = self.version(place.number(), number);
                let done = self.each_in(place, prefix, number, &mut |h, entry| {
                    if h >= at {
                        out.push(item(number, h, entry));
                    }
                });
                if lock.validate(version) {
                    done?;
                    break;
                }
                self.medium().event(Event::Wait);
            }
        }
        Ok(())
    }

    /// How many live slots the segment of `h` has; counts them if that was not done yet.
    fn live_around(&self, h: u64) -> Result<(Unit, u64)> {
        loop {
            let place = self.find(h);
            let count = self.counted(place.number());
            if count == 0 {
                let whole = self.hold_whole(h);
                let counted = self.count(whole.place.number());
                if let Ok(live) = counted {
                    self.set_count(whole.place.number(), live);
                }
                whole.release_unchanged();
                counted?;
            } else if self.find(h) == place {
                return Ok((place, count - 1));
            }
        }
    }

    /// Counts the live slots of a segment all of whose locks are held.
    fn count(&self, segment: Segment) -> Result<u64> {
        (0..self.shape().buckets()).try_fold(0, |sum, number| {
            let live = self.head(self.bucket(segment, number)?).live();
            Ok(sum + u64::from(live.count_ones()))
        })
    }

    /// How many live slots there are.
    fn live_slots(&self) -> Result<u64> {
        let (mut sum, mut at) = (0, Some(0));
        while let Some(from) = at {
            let (place, live) = self.live_around(from)?;
            let prefix = extend::prefix(from, place.depth());
            if prefix == from {
                sum += live;
                at = extend::next(prefix, place.depth());
            } else {
                // Merged with segments that were counted already.
                (sum, at) = (0, Some(0));
            }
        }
        Ok(sum)
    }

    /// The live slots of a segment, plus one; zero where they were not counted.
    fn counted(&self, segment: Segment) -> u64 {
        bits(self.word(segment, COUNT).load(Ordering::Acquire), 0, COUNT_BITS)
    }

    fn set_count(&self, segment: Segment, live: u64) {
        self.word(segment, COUNT).store(live + 1, Ordering::Release);
    }

    /// Adds to a segment's count. One of its locks is held, so that it is not being counted.
    fn add_count(&self, segment: Segment, by: i64) {
        if self.counted(segment) != 0 {
            // A thread that sees the count sees all that was done before, such as a deferred drain.
            self.word(segment, COUNT).fetch_add(by as u64, Ordering::Release);
        }
    }
}

impl<M: Medium> IndexBase for Table<M, false> {
    type Slot = u64;

    fn reserve(&self, entries: u64) -> Result<()> {
        self.split_for(entries)
    }

    fn prefetch(&self, h: &[u64]) {
        self.prefetch_all(h);
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        let from = out.len();
        let next = self.scan_unit(at, out, |_, h, entry| (h, entry.payload))?;
        let mut unit = out.split_off(from);
        unit.sort_unstable();
        // An entry may be removed and inserted again while the walk is between its two buckets.
        one_of_each(&mut unit, |h| self.lookup(h))?;
        out.append(&mut unit);
        Ok(next)
    }

    fn walk_order(&self) -> WalkOrder {
        self.directory.walk_order(&self.writers.growth)
    }

    fn mend(&self) -> Result<()> {
        self.mend_all()
    }

    fn len(&self) -> Result<u64> {
        self.live_slots()
    }

    base_methods!();
}

impl<M: Medium> Index for Table<M, false> {
    #[inline(always)]
    fn get(&self, h: u64) -> Result<Option<u64>> {
        operation(self.medium(), || self.lookup(h))
    }

    #[inline(always)]
    fn read_once(&self, h: u64, f: impl FnOnce(u64)) -> Option<bool> {
        operation(self.medium(), || {
            let (found, seen) = self.glance(h)?;
            let found = found.ok()?.map(|found| f(found.payload));
            seen.is_valid().then_some(found.is_some())
        })
    }

    looks_in_batches!();
    index_methods!();
}
