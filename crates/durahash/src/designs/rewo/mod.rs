//! Rewo-Hash: a cuckoo table on the medium that is written without logs, and a bounded copy in DRAM of slots
//! that are looked up often.
//!
//! # Paper
//! Zexuan Li, Kaixin Huang: *A Read-Efficient and Write-Optimized Hash Table for Intel Optane DC
//! Persistent Memory* (Rewo-Hash). Kept: 256-byte buckets whose bitmap, lock map and fingerprints are
//! metadata beside the slots (§3.2), two buckets for a hash and at most two evictions (§3.1, §3.4),
//! lookups that ask the cached table first (§3.3), writes without logs, slots past the processor's cache
//! (§3.4), a cached table that is never ahead of the medium (§3.5), resizing by tables that are
//! added, with a full rebuild after sixteen, shared by writers and background work (§3.6), recovery by
//! the lock map (§3.7, Algorithm 6).
//!
//! # Where state lives
//! Buckets are in the pool, and one block that says which tables of them there are. In DRAM: the same
//! as words (`tables.rs`), locks, a counter, and the cached table (`cached.rs`). A lookup reads no block if
//! the cached table has the hash, else at most two; during a resize at most four, and six where one has to
//! overtake another; fewer where the walk over the sources has passed those of the hash.
//!
//! # Layout
//! `layout.rs`, with a picture.
//!
//! # Invariants
//! As cited by `check`:
//! - **REWO-1** The root names a block of tables whose check sum is right; its tables are runs of
//!   extents of units, no two overlap, and they are those in use.
//! - **REWO-2** Every live slot is in one of the two buckets of its hash in the table that owns it, or,
//!   during a resize, in a bucket from the cursor on, of the table that owned it before; its fingerprint
//!   is that of its hash.
//! - **REWO-3** No two live slots have the same `h`.
//! - **REWO-4** Commit words agree with their parity, and have bits of hashes of live slots only. No slot is marked as leaving while nothing moves.
//! - **REWO-5** Every extent of units belongs to a table, or to one that is being prepared; there is one
//!   extent of directories, that of the block.
//! - **REWO-6** The counter of live slots is exact, and no lock is held.
//! - **REWO-7** Every copy in the cached table has the payload of its slot; every slot has a copy but in buckets of
//!   that table that are marked.
//!
//! # Commit steps
//! A writer holds W of all buckets that its hash may be in: two, during a resize four or six. X of a bucket is
//! held from the first store of a row marked ✕ to the end.
//!
//! | Operation | Stores | Then | If power fails after this step |
//! |---|---|---|---|
//! | insert | payload and `h` of a free slot past the cache; its fingerprint, flushed where lines keep no order | fence | slot not live |
//! | | ✕ commit word: live, with two bits of the hash | flush, drain | inserted |
//! | update | ✕ payload | flush, drain | old or new payload, one word |
//! | remove | ✕ commit word without it; then, where lines keep order, its fingerprint | flush, drain | there or not, one word |
//! | move | commit word: the slot is leaving; into another bucket: a copy, as for an insert | flush, fence | leaving and alone: the mark is dropped |
//! | | the other commit word: live, not leaving | flush, fence | both are live, with one payload: the one that is leaving is dropped |
//! | | ✕ commit word without it | flush, fence | moved |
//! | new table | empty commit words | flush, fence | nothing names it: free |
//! | resize begins | a block of tables, written aside | flush, fence | nothing names it |
//! | | root word | flush, drain | begun; nothing has moved yet |
//! | progress | a block with a larger cursor, written aside; root word | the same | buckets before the cursor need not be looked at again |
//! | resize ends | a block without what was given up, written aside; root word | the same | ended; space that nothing names is free |
//! | recovery | commit words without doubles and marks | flush, drain | any of them: recovered again |
//!
//! Evictions, migrations and the steps that make room are moves, all of them; several slots of a bucket move
//! together, with as many fences as one. An update changes the slot where
//! it is, so two copies never differ.
//!
//! # Recovery
//! `recover.rs`: one word of each bucket is read, in parallel where that pays. A slot that is leaving is
//! dropped if, and only if, there is another that is not, in a bucket that the hash may be in; all of
//! that is durable before the first operation. After a clean close no bucket is read. A resize goes on
//! from the cursor.
//!
//! # Concurrency
//! Locks are an array of version words in DRAM that the buckets share (`locks.rs`).
//! Readers: tables, versions of all buckets that the hash may be in, tables again, the buckets, versions.
//! A move needs no X of the bucket that it goes to: as long as both copies are live they are equal, and
//! a reader that misses both has seen the old one be cleared, under X of its bucket.
//! Writers take the locks of all buckets of the hash in ascending order and look at the tables again; the
//! locks of other buckets, for moves, are tried only, after which all is let go and begun again.
//! A change of the tables holds the mutex of resizes and none of the locks, and takes each of them once
//! after the switch: so all writers that go by the tables before are done, and readers begin again,
//! before the first slot is migrated, or a table is given up. That mutex is taken before locks.
//! In which order the buckets are looked into is a matter of speed: during a resize first those where the
//! walk has yet to come by, else those for new slots.
//! How far a resize has come is told every few buckets (`LiveTables::pass`). A reader of that leaves out the sources
//! before it: all of their slots have come to where they go, under versions that are read later, and nothing
//! comes back, as only what a table owns is put or evicted into its buckets. Two writers of one hash of whom
//! one leaves out sources meet at the locks of the buckets for new slots, which both take.
//! No operation waits for more than the migration of a bucket: one that finds the mutex taken leaves that to its
//! holder, as long as the walk is ahead of the inserts, and else migrates one bucket when it has it. Only where
//! an insert finds no room does it help until there is some: how rare that is, `grow.rs` says. A step in the
//! background that needs space for a table, and there is none, answers that nothing is waiting.
//!
//! Readers in other processes see nothing of this. The writer counts changes of a map for them, if it was told to (`onlooker.rs`).
//!
//! # Departures from the paper
//! - Fifteen slots of sixteen bytes; bitmap, lock map and two bits of each hash in one word, four more bits of
//!   it in another. Eight slots of 31 bytes would straddle lines and words.
//! - An update stores the payload in place, by one word. The paper's takes another slot of the bucket,
//!   and evicts where there is none.
//! - Versions in DRAM instead of hardware transactions and of locks in the lock map, which is the mark of
//!   a move and nothing else.
//! - A move marks its source first. Recovery looks for the double of a marked slot everywhere where it
//!   may be, and drops no slot that is marked without a double.
//! - Both buckets of a hash are in one region of 512 buckets, so that iteration can give every key
//!   exactly once while keys move (`tables.rs`): a region is read as it is at one instant.
//! - A resize starts at a load of 0.92, or before, where an insert finds no room, however it looks. A table
//!   that others cannot relieve, because hashes share their first bits, is followed by a rebuild at once.
//! - A resize that finds no room where a slot shall go, as the paper's would never end, is overtaken by a
//!   rebuild: that begins before the other has ended, and its slots may be in three tables.
//! - A shrink is its own resize, of the last table, and a rebuild into half of one.
//! - The cached table has one bucket for a hash instead of two, and as many buckets as the largest power of
//!   two within its bound. The writer of a slot changes its copy, before other threads can see the slot: the
//!   threads for that (§3.5, Figs. 6 and 7) are an option (`cache_sync.rs`); no writer waits for one that sleeps,
//!   but for one that has begun.
//!   Where its size follows the other tables, copies that are in another bucket since then are dropped
//!   piece by piece, and no other change of its size begins before.

mod block;
mod cache_sync;
mod cached;
mod check;
mod cuckoo;
mod grow;
mod layout;
mod locks;
mod onlooker;
mod planted;
mod recover;
mod scan;
mod tables;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use durahash_media::hash::WordMix;
use durahash_media::{Event, Medium, Place, Pool, Reserved, Result, Version, VersionLock};

use crate::extendible::growth::Count;
use crate::index::{
    Change, Finding, Index, IndexBase, IndexStats, PREFETCHED, Reader, Room, Updater, WalkOrder,
    last_read, operation,
};
use crate::util::counter::Counter;
use cache_sync::CacheSync;
use cached::{Cached, Looked};
use layout::{BUCKET_BYTES, Commit, Fingerprints, SAVED};
use planted::planted;
use tables::{LiveTables, PLACES, Places, Table, View};

/// A reader beside the writer of a table in another process.
#[doc(hidden)]
pub type Onlooker<M> = super::onlooker::Onlooker<onlooker::Buckets<M>>;
#[cfg(feature = "planted")]
pub use planted::plant;
#[doc(hidden)]
pub use {super::Slot, cache_sync::SYNC_BY_CALLS, layout::Bucket, layout::Tables, planted::Fault};

/// Tries of an optimistic reader before it takes the locks.
const READ_TRIES: u32 = 16;

/// How much DRAM the cached table of a Rewo-Hash takes, and when it is filled.
///
/// ```
/// use durahash::rewo::Cache;
/// use durahash::{Design, Options};
/// let cache = Cache::of_bytes(64 << 20);
/// let map = Options::new().design(Design::Rewo).cache(cache).in_memory::<durahash::Map<u64, u64>>()?;
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cache {
    /// Bytes at the most; 0 is no cached table. Unless set, an eighth of the tables in the pool,
    /// whatever that is.
    pub bytes: Option<u64>,
    /// True if it is filled when a pool is opened, as far as it goes, instead of by lookups.
    pub fill: bool,
    /// Threads that change copies while writers wait for the medium, 64 at the most. With none, the
    /// default, writers do that themselves. A thread keeps its core busy until it has looked for work
    /// 20,000 times in vain; then it sleeps.
    pub sync_threads: u32,
}

impl Cache {
    /// So many bytes at the most, filled by lookups and changed by writers.
    #[must_use]
    pub const fn of_bytes(bytes: u64) -> Self {
        Cache { bytes: Some(bytes), fill: false, sync_threads: 0 }
    }
}

/// Rewo-Hash over a pool. See the [module docs](self).
pub struct Rewo<M: Medium> {
    /// First, so that its threads have ended when the others are dropped.
    cache_sync: Option<CacheSync>,
    pool: Arc<Pool<M>>,
    /// The map's part of the pool.
    map: Place<M>,
    live_tables: LiveTables,
    /// Locks of buckets: that of a bucket is found by the lowest bits of its number.
    locks: Reserved<1>,
    stripe_mask: u64,
    remix: WordMix,
    /// Slots of a bucket that are used, and how many they are.
    used: u16,
    slots: u32,
    /// True if commit words may have bits of hashes.
    cached: Arc<Cached>,
    cache: Cache,
    live: Counter,
    writers: Writers,
}

/// The state that resizes store to: kept off the lines that every lookup reads.
#[repr(align(128))]
#[derive(Default)]
struct Writers {
    resizing: Mutex<Resizing>,
    /// True if a table is being prepared; if copies are being swept.
    prepares: AtomicBool,
    sweeps: AtomicBool,
    pace: Pace,
    grows: Count,
    shrinks: Count,
    rebuilds: Count,
    migrated: Count,
    walked: Count,
}

/// The state that the mutex of resizes guards.
#[derive(Default)]
struct Resizing {
    /// The block of tables that the root names, counted in blocks.
    block: u64,
    /// The position of the walk over the sources, and the one that the block has.
    cursor: u64,
    saved: u64,
    prepared: Option<Prepared>,
    /// Buckets of the cached table, from the first on, that may have copies which belong elsewhere since
    /// their number changed.
    unswept: u64,
    /// If fewer slots than that are live, the tables may be halved: at some more it did not work.
    shrinks_below: Option<u64>,
}

/// A table that nothing names yet.
#[derive(Clone, Copy)]
struct Prepared {
    table: Table,
    /// Buckets that are empty, durably.
    done: u64,
}

/// How fast a resize must be, for writers. Set when one begins.
#[derive(Default)]
struct Pace {
    /// Of so many writes one migrates a bucket.
    every: AtomicU64,
    /// Buckets of the walk that are left.
    todo: AtomicU64,
    /// Slots that may be live, and so many more for each of these buckets, while the walk is not behind.
    limit: AtomicU64,
}

/// A live slot that was found.
#[derive(Clone, Copy)]
struct Hit {
    bucket: u64,
    slot: u32,
    payload: u64,
}

/// Versions of buckets, as they were read.
type Versions = [Option<Version>; PLACES];

impl<M: Medium> Rewo<M> {
    #[inline(always)]
    fn medium(&self) -> &M {
        self.pool.medium()
    }

    #[inline(always)]
    fn bucket(&self, number: u64) -> Result<&Bucket> {
        self.pool.at(number.wrapping_mul(BUCKET_BYTES))
    }

    #[inline(always)]
    fn commit(&self, bucket: &Bucket) -> Commit {
        Commit(self.medium().load(&bucket.commit))
    }

    #[inline(always)]
    fn stripe(&self, bucket: u64) -> u64 {
        bucket & self.stripe_mask
    }

    #[inline(always)]
    fn lock_at(&self, stripe: u64) -> VersionLock<'_> {
        VersionLock::new(&self.locks.row(stripe)[0])
    }

    #[inline(always)]
    fn lock_of(&self, bucket: u64) -> VersionLock<'_> {
        self.lock_at(self.stripe(bucket))
    }

    /// Counts a change of one entry for readers in other processes (`onlooker.rs`), before its buckets are released.
    #[inline(always)]
    fn count_change(&self, remixed: u64) {
        if !planted(Fault::EntryUncounted) {
            self.medium().changed(remixed, u64::BITS);
        }
    }

    /// Counts that everything may be elsewhere for them.
    fn count_all(&self) {
        if let Some(changes) = self.medium().changes() {
            changes.raise_moves(0, 0);
        }
    }

    /// Starts to fetch the first lines of the buckets of a hash.
    #[inline(always)]
    fn prefetch_buckets(&self, places: &Places) {
        for number in places.all() {
            self.medium().region().speculate(number.wrapping_mul(BUCKET_BYTES));
        }
    }

    /// The places of a hash, of which everything that an operation touches is on its way.
    #[inline(always)]
    fn approach(&self, h: u64, view: View) -> Places {
        let remixed = self.remix.mix(h);
        self.cached.prefetch(remixed);
        let places = self.live_tables.places(view, h, remixed);
        self.prefetch_buckets(&places);
        places.all().iter().for_each(|number| self.locks.prefetch(self.stripe(*number)));
        places
    }

    /// The slot of `h` in one bucket. The caller holds W, or validates the version afterwards.
    #[inline(always)]
    fn probe(&self, h: u64, number: u64) -> Result<Option<Hit>> {
        let medium = self.medium();
        medium.event(Event::Look);
        let bucket = self.bucket(number)?;
        let commit = self.commit(bucket);
        let fingerprints = Fingerprints(medium.load(&bucket.fingerprints));
        for slot in fingerprints.candidates(commit, h) {
            let words = &bucket.slots[slot as usize];
            if medium.load(&words.h) == h {
                let payload = medium.load(&words.payload);
                return Ok(Some(Hit { bucket: number, slot, payload }));
            }
        }
        Ok(None)
    }

    /// The slot of `h`, wherever it may be.
    #[inline(always)]
    fn probe_all(&self, h: u64, places: &Places) -> Result<Option<Hit>> {
        for numbers in places.in_order() {
            for number in numbers {
                let found = self.probe(h, *number)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// True if no bucket was changed since its version was read.
    #[inline(always)]
    fn are_valid(&self, places: &Places, versions: &Versions) -> bool {
        places.all().iter().zip(versions).all(|(number, version)| {
            version.is_some_and(|version| self.lock_of(*number).validate(version))
        })
    }

    /// One optimistic look; `None` where it was in vain: a writer came meanwhile, or the medium is
    /// damaged. [`look_again`](Self::look_again) knows what to do then.
    #[inline(always)]
    fn look(&self, h: u64, remixed: u64) -> Option<Option<u64>> {
        let (places, versions, found) = self.glance(h, remixed)?;
        if let Some(found) = found {
            self.copy(h, remixed, &places, &versions, found);
        }
        Some(found.map(|found| found.payload))
    }

    /// The same past the cached table, with all that was relied on.
    #[inline(always)]
    fn glance(&self, h: u64, remixed: u64) -> Option<(Places, Versions, Option<Hit>)> {
        let view = self.live_tables.load();
        self.medium().event(Event::Look);
        let places = self.live_tables.places(view, h, remixed);
        self.prefetch_buckets(&places);
        let (versions, found) = self.glance_at(h, view, &places)?;
        self.are_valid(&places, &versions).then_some((places, versions, found))
    }

    /// The same at places that were told under a view, before it is said that the versions are valid.
    #[inline(always)]
    fn glance_at(&self, h: u64, view: View, places: &Places) -> Option<(Versions, Option<Hit>)> {
        let mut versions = [None; PLACES];
        for (number, version) in places.all().iter().zip(&mut versions) {
            *version = Some(self.lock_of(*number).try_read(self.medium())?);
        }
        if !planted(Fault::TablesOnce) && !self.live_tables.is_current(view) {
            return None;
        }
        let found = self.probe_all(h, places).ok()?;
        Some((versions, found))
    }

    /// Makes a copy of what was found in the cached table, unless a writer came meanwhile.
    #[inline(always)]
    fn copy(&self, h: u64, remixed: u64, places: &Places, versions: &Versions, found: Hit) {
        if self.cached.is_off() {
            return;
        }
        let at = places.all().iter().position(|number| *number == found.bucket);
        if let Some(version) = at.and_then(|at| versions[at]) {
            let lock = self.lock_of(found.bucket);
            self.cached
                .fill(self.medium(), (h, remixed), found.payload, || lock.is_free_at(version));
        }
    }

    /// After a look in vain.
    #[cold]
    #[inline(never)]
    fn look_again(&self, h: u64) -> Result<Option<u64>> {
        self.medium().event(Event::Wait);
        last_read(|f| self.read_in_pool(h, f))
    }

    /// The body of [`Index::read`].
    fn read_with(&self, h: u64, f: Reader<'_>) -> Result<()> {
        if let Some(copied) = self.cached.read(self.medium(), h, self.remix.mix(h)) {
            let done = f(Some(copied.payload), &|| copied.is_valid());
            if copied.is_valid() {
                return done;
            }
        }
        self.read_in_pool(h, f)
    }

    /// The same, past the cached table. After many looks in vain writers of the buckets are made to
    /// wait for once.
    fn read_in_pool(&self, h: u64, f: Reader<'_>) -> Result<()> {
        let (medium, remixed) = (self.medium(), self.remix.mix(h));
        for _ in 0..READ_TRIES {
            let view = self.live_tables.load();
            let places = self.live_tables.places(view, h, remixed);
            self.prefetch_buckets(&places);
            let mut versions = [None; PLACES];
            for (number, version) in places.all().iter().zip(&mut versions) {
                *version = Some(self.lock_of(*number).read(medium));
            }
            if !self.live_tables.is_current(view) {
                continue;
            }
            let is_valid = || self.are_valid(&places, &versions);
            // An error that comes of reading what a writer has since taken away is no error.
            let found = self.probe_all(h, &places);
            let done = match &found {
                Ok(found) => f(found.map(|found| found.payload), &is_valid),
                Err(_) => Ok(()),
            };
            if is_valid() {
                if let Some(found) = found? {
                    self.copy(h, remixed, &places, &versions, found);
                }
                return done;
            }
            medium.event(Event::Wait);
        }
        let held = self.hold(h, remixed);
        let done = match self.probe_all(h, &held.places) {
            Ok(found) => f(found.map(|found| found.payload), &|| true),
            Err(e) => Err(e),
        };
        held.release();
        done
    }
}

impl<M: Medium> Rewo<M> {
    /// Changes the copies that writers have ordered and no thread has changed yet, as a thread of
    /// [`sync_threads`](Cache::sync_threads) would; true if there were any. It waits for no thread, and readers do not
    /// see the copies before the writers have made their changes durable.
    #[doc(hidden)]
    pub fn sync_copies(&self) -> bool {
        let cache_sync = self.cache_sync.as_ref();
        cache_sync.is_some_and(|cache_sync| cache_sync.sync(self.medium(), &self.cached))
    }
}

impl<M: Medium> IndexBase for Rewo<M> {
    type Slot = u64;

    fn prefetch(&self, h: &[u64]) {
        let view = self.live_tables.load();
        for h in h {
            self.approach(*h, view);
        }
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        self.scan_unit(at, out)
    }

    fn position(&self, h: u64) -> u64 {
        self.remix.mix(h)
    }

    /// In ascending order the first region of another index would be full long before its tables are.
    fn walk_order(&self) -> WalkOrder {
        let wanted = self.live_tables.wanted(self.live_tables.load());
        WalkOrder::Reversed(wanted.region_bits())
    }

    fn step(&self) -> Result<bool> {
        self.work_in_background()
    }

    fn close(&self) {
        self.map.save(SAVED, self.live.get() + 1);
        if self.pool.writable().is_ok() {
            // A table that is not given back now is found to be free at the next open.
            let _ = self.forget_prepared(&mut self.resizing());
        }
    }

    fn mend(&self) -> Result<()> {
        self.mend_all()
    }

    fn len(&self) -> Result<u64> {
        Ok(self.live.get())
    }

    base_methods!();
}

impl<M: Medium> Index for Rewo<M> {
    #[inline]
    fn get(&self, h: u64) -> Result<Option<u64>> {
        operation(self.medium(), || {
            let remixed = self.remix.mix(h);
            match self.cached.look(self.medium(), h, remixed) {
                Looked::Hit(payload) => Ok(Some(payload)),
                Looked::Absent => Ok(None),
                Looked::Miss => match self.look(h, remixed) {
                    Some(found) => Ok(found),
                    None => self.look_again(h),
                },
            }
        })
    }

    fn read(&self, h: u64, f: Reader<'_>) -> Result<()> {
        operation(self.medium(), || self.read_with(h, f))
    }

    fn update(&self, h: u64, room: Room, f: Updater<'_>) -> Result<Option<u64>> {
        self.pool.writable()?;
        let (found, left) = operation(self.medium(), || self.update_slot(h, room, f))?;
        self.maintain(h, left);
        Ok(found)
    }

    fn look_in_batch(&self, h: &[u64], rooms: &[Room], out: &mut [Option<Option<u64>>]) {
        let view = self.live_tables.load();
        self.medium().event(Event::Look);
        let mut places = [const { Places::none() }; PREFETCHED];
        for (h, places) in h.iter().zip(&mut places) {
            *places = self.approach(*h, view);
        }
        for (((h, room), out), places) in h.iter().zip(rooms).zip(out).zip(&places) {
            *out = operation(self.medium(), || self.look_unlocked(*h, *room, view, places));
        }
    }
}
