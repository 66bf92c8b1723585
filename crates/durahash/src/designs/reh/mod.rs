//! REH: extendible hashing whose buckets alone are persistent.
//!
//! # Paper
//! Zhengtao Li, Zhipeng Tan, Jianxi Chen: *REH: Redesigning Extendible Hashing for Commercial
//! Non-Volatile Memory*. Kept: selective persistence (§III-B), 256-byte buckets with a sibling
//! pointer (§III-C), fingerprints in DRAM (§III-D), failure-atomic split and merge (§III-E),
//! optimistic readers (§III-F), recovery by the sibling chain (§III-G, Algorithm 1).
//!
//! # Where state lives
//! Buckets are in the pool, one root word names the first. Another names an array of words, by which a walk along the
//! buckets can begin in the middle (`words.rs`). Directory, bitmaps, fingerprints and locks are in DRAM and made
//! again after every open, each part when an operation first comes to it (`ranges.rs`).
//! A lookup that hits reads one line of the medium; a miss needs none, but for a fingerprint that happens to be equal.
//! The most probable line of a hash is prefetched together with the metadata, needed or not,
//! except on persistent memory: that hides one of two latencies of a hit, and
//! a miss does not wait for it.
//!
//! # Layout
//! `layout.rs`, with a picture.
//!
//! # Invariants
//! As cited by `check`:
//! - **REH-1** From the first bucket on, the siblings cover all hashes in order, each once: every
//!   bucket begins where the one before ends, and its prefix word says so.
//! - **REH-2** A slot is live if and only if the first `local depth` bits of its `h` are the
//!   bucket's prefix; the bitmap says the same, and the fingerprint is that of `h`, if the bucket was met.
//! - **REH-3** No two live slots have the same `h`.
//! - **REH-4** The directory entries of a bucket's range, and no others, name it; the metadata say
//!   its depth; no local depth exceeds the global depth. The front names it too, or says that it is
//!   deeper than itself.
//! - **REH-5** Every bucket of an extent of units that is swept is on the chain or on the free list, never both.
//! - **REH-6** The counters of depths and of live slots are exact when every bucket was met, and no lock is held.
//! - **REH-7** A word of the array is missing or right, at every moment and after every crash: if it is not zero, the
//!   bucket that it names is on the durable chain and begins there.
//!
//! # Commit steps
//! The lock's X is held from the first store of a row marked ✕ to the end of its operation. An
//! insert needs none: its slot becomes visible by the bitmap in DRAM, after the drain.
//!
//! | Operation | Stores | Then | If power fails after this step |
//! |---|---|---|---|
//! | insert | payload of a free slot | flush, fence where lines keep no order | slot does not match the prefix: free |
//! | | its `h` | flush, drain | inserted |
//! | update | ✕ payload | flush, drain | old or new payload, one word |
//! | remove | ✕ `h` := marker | flush, drain | there or not, one word |
//! | split | new bucket: live slots of the upper half, else markers; prefix; link {depth + 1, old sibling} | flush, fence | nothing links to it: free |
//! | | old bucket's link := {depth + 1, new bucket} | flush, fence | split; moved slots no longer match the old prefix; the word of the new bucket is missing, if there is a place for one |
//! | | under the directory's lock, shared: word := new bucket, if it begins at a place; the entries in DRAM | flush | word missing or right |
//! | merge | free slots of the lower bucket: live slots of the upper; marker where a stale `h` belongs to the upper | flush | none of it matches the lower prefix: free |
//! | | under the directory's lock, shared, to the end: word of the upper := 0, if there is one | flush, fence | not merged; word missing |
//! | | lower bucket's link := {depth − 1, upper's sibling} | flush, fence | merged; nothing links to the upper: free |
//! | | the entries in DRAM | | the same |
//! | | kind of its extent := free, if no bucket of that is linked | flush, fence | given back by the sweep of the next open |
//! | another array | under the directory's lock, exclusively: kinds of its extents; all words, from the directory in DRAM | flush, fence | the array before; extents that no root names are given back by the next open |
//! | | root of the array | flush, fence | the new array; the extents of the one before are given back by the next open |
//! | directory or front of another depth | their depths, if there is an array | flush | those before: deepened where deeper buckets are met |
//! | extent taken before the sweep is through | count of these + 1 | flush, fence | counted; a sweep finds free buckets |
//! | | kind of the extent | flush, fence | a sweep finds its buckets to be free |
//! | end of the sweep | count := free buckets / buckets of an extent | flush, fence | the count before |
//! | making a range, sweeping an extent | nothing | | |
//!
//! # Words that are missing or right
//! Of two halves the lower one keeps its place in all splits and merges, so a word stays right until its bucket is the
//! *upper* one of a merge. That merge clears the word, and the fence that it has anyway makes this durable before its
//! commit. A split stores a word after the fence of its commit, so a durable word means a durable link. Stores of
//! words, and a merge from the clearing until DRAM names the lower bucket, are under the directory's lock, shared; an
//! array is written under it exclusively, from the directory in DRAM. So nothing ever leads to a bucket that is free,
//! was used again, or lies in an extent that holds records by now. A word that fails its check sum, or leads to no
//! bucket that begins there, counts as missing: that makes a range longer.
//!
//! The array is written anew when there are twice as many buckets, so it has a word for four to eight. In between a
//! bucket that splits is nearly always deeper than the array, and nothing is stored. A pool whose buckets take less
//! than sixteen extents has none: an open walks all of it. So does one of a format before, whose writers would leave
//! wrong words, and one that lost pages with the power, where words may be older than buckets: its root becomes zero
//! before the pool forgets the loss.
//!
//! Nothing is erased by a split, so the lower bucket keeps stale copies. A merge would revive them
//! with their old payloads, and even entries removed since; therefore it overwrites all of them
//! before its commit.
//!
//! # Recovery
//! `recover.rs`, `ranges.rs`, `sweep.rs`. No store to the medium is needed: the chain says which buckets are live, and a
//! slot's `h` says if it is live. So recovery is idempotent, however often it is cut short. It goes on while the pool
//! is used. Until every range is made, the directory is not halved and its front not lowered, no other array is
//! written, nothing is swept, and the bound of a directory's size takes every bucket of an extent of units for one on
//! the chain. A damaged range keeps it so; a split then gets a bucket of a new extent.
//!
//! # Concurrency
//! Readers: directory entry, version, entry again, metadata, one slot, version. Writers take W of
//! the bucket and look at the entry again. A split holds W of the old and the new bucket, a merge
//! of both buckets; the second lock of a merge is only tried, and a merge that does not get it lets
//! go of the first and begins again. A split holds X of the old bucket only while it switches the
//! directory entries and takes the moved slots out of the bitmap: readers never wait for the
//! copying. A merge needs no X: an answer from either bucket stays true until the upper's
//! version is raised, and only then is the lower's lock released to the next writer. A bucket that
//! leaves the chain gets a higher version before it can be
//! reused, so a reader that is still in it starts over. Rows are never made zero again, and versions never restart.
//!
//! Locks are taken in this order: buckets, the sweep's mutex, the mutex for making a range, the directory's lock. A
//! merge holds the last of these, shared, while it waits for its two fences; else it is held for DRAM stores, and
//! exclusively for another array. The mutex of the list of free buckets is held for the list only. A split or merge
//! may make the next range, as it compares its link with it.
//!
//! Readers in other processes see nothing of this. The writer counts changes for them, if it was told to (`onlooker.rs`).
//!
//! # Departures from the paper
//! - An empty slot holds a marker that cannot match the prefix instead of a reserved key; global
//!   depth therefore starts at 1.
//! - Algorithm 1 compares with the raw index `i`; it must be shifted to the local depth, and the
//!   global depth is not known before the walk. Siblings are offsets, not pointers.
//! - The reserved word holds the prefix, so that a bucket tells where it begins. Because the chain decides what is
//!   live, a bucket that left it needs no mark of its own.
//! - The paper walks the whole chain at every open. Here an array of words lets each part be walked when an operation
//!   first comes to it; the words take at most a 128th of the buckets' space when they are written.
//! - A second, shallower directory in DRAM answers most lookups (`crate::extendible::directory`): the paper's has
//!   a local depth in each entry and is asked alone. An entry is the number of a bucket here, and the
//!   local depth is with the metadata.
//! - The lock word is 62 bits of version with W and X instead of 31 bits with one.
//! - Merge is not simply the inverse of split (see above).

mod check;
mod damaged;
mod grow;
mod layout;
mod meta;
mod onlooker;
mod planted;
mod ranges;
mod recover;
mod space;
mod sweep;
mod words;
mod write;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use durahash_media::{Event, Medium, Place, Pool, Reserved, Result, Version, VersionLock};

use crate::extendible::directory::{Directory, Sought};
use crate::extendible::extend::{self, MAX_DEPTH};
use crate::extendible::growth::{Growth, split_ahead};
use crate::index::{
    Change, Finding, Index, IndexBase, IndexStats, PREFETCHED, Reader, Room, Updater, WalkOrder,
    last_read, operation,
};
use crate::util::counter::Counter;
use damaged::Damaged;
use layout::{BUCKET_BYTES, SAVED, SLOT_BYTES, preferred_slot};
use meta::Meta;
use space::Space;
use words::Words;

/// A reader beside the writer of a table in another process.
#[doc(hidden)]
pub type Onlooker<M> = super::onlooker::Onlooker<onlooker::Chain<M>>;
#[doc(hidden)]
pub use planted::Fault;
#[cfg(feature = "planted")]
pub use planted::plant;
#[doc(hidden)]
pub use {super::Slot, layout::Bucket};

/// Tries of an optimistic reader before it takes the lock.
const READ_TRIES: u32 = 16;

/// REH over a pool. See the [module docs](self).
pub struct Reh<M: Medium> {
    pool: Arc<Pool<M>>,
    /// The map's part of the pool.
    map: Place<M>,
    /// Names buckets by their numbers.
    directory: Directory<u32>,
    /// Metadata, by the number of the bucket.
    metas: Reserved<4>,
    /// The bitmap of a bucket without a free slot.
    full: u16,
    words: Words,
    /// The extents that were of units at the open, one bit each.
    recovered: Vec<u64>,
    /// By how much the number of live slots has changed since the open.
    live: Counter,
    writers: Writers,
}

/// The state that splits and merges store to: kept off the lines that every lookup reads.
#[repr(align(128))]
struct Writers {
    space: Mutex<Space>,
    /// Held while extents are swept or taken.
    sweeping: Mutex<()>,
    /// Held while the result of a walk of a range is taken over.
    making: Mutex<()>,
    /// Ranges that cannot be made.
    damaged: Mutex<Damaged>,
    growth: Growth,
    /// Parts of all hashes whose ranges are not made.
    parts_to_make: AtomicU64,
    /// Where background work goes on.
    next_place: AtomicU64,
    /// Live slots in the ranges that were made, when they were; and of all, if the last close saved them.
    found_live: AtomicU64,
    saved_live: Option<u64>,
}

impl<M: Medium> Reh<M> {
    #[inline(always)]
    fn medium(&self) -> &M {
        self.pool.medium()
    }

    #[inline(always)]
    fn bucket(&self, number: u64) -> Result<&Bucket> {
        self.pool.at(number * BUCKET_BYTES)
    }

    #[inline(always)]
    fn meta(&self, bucket: u64) -> Meta<'_> {
        Meta::of(&self.metas, bucket)
    }

    /// True if `h` still belongs to a bucket: asked after reading the version of that bucket, or
    /// taking its lock.
    #[inline(always)]
    fn still(&self, h: u64, bucket: u64) -> bool {
        self.directory.find(h) == bucket
    }

    /// Slots of a bucket that are used.
    fn slots(&self) -> u32 {
        self.full.count_ones()
    }

    /// Starts to fetch the line of the bucket in which `h` probably is, while the metadata are
    /// fetched.
    #[inline(always)]
    fn prefetch_slot(&self, h: u64, bucket: u64) {
        let off = bucket * BUCKET_BYTES + u64::from(preferred_slot(h)) * SLOT_BYTES;
        self.medium().region().speculate(off);
    }

    /// The payload of `h` in a bucket, and its slot. The caller holds W, or validates the version
    /// afterwards.
    #[inline(always)]
    fn probe(&self, h: u64, bucket: u64) -> Result<Option<(u32, u64)>> {
        let medium = self.medium();
        medium.event(Event::Look);
        let candidates = self.meta(bucket).candidates(h);
        if candidates.is_empty() {
            return Ok(None);
        }
        let bucket = self.bucket(bucket)?;
        for i in candidates {
            let slot = &bucket.slots[i as usize];
            if medium.load(&slot.h) == h {
                return Ok(Some((i, medium.load(&slot.payload))));
            }
        }
        Ok(None)
    }

    /// One optimistic look; `None` where it was in vain: a writer came meanwhile, or the medium is
    /// damaged. [`look_again`](Self::look_again) knows what to do then.
    #[inline(always)]
    fn look(&self, h: u64) -> Option<Option<u64>> {
        let sought = self.directory.seek(h)?;
        self.prefetch_slot(h, sought.entry());
        self.look_in(h, &sought, |lock, version, _| lock.validate(version))
    }

    /// The same in one bucket; `is_valid` says if the payload that was seen under a version of its lock counts.
    #[inline(always)]
    fn look_in<'a>(
        &'a self,
        h: u64,
        sought: &Sought<'_, u32>,
        is_valid: impl FnOnce(VersionLock<'a>, Version, Option<u64>) -> bool,
    ) -> Option<Option<u64>> {
        let medium = self.medium();
        let meta = self.meta(sought.entry());
        let version = meta.lock().try_read(medium)?;
        if !self.directory.is_current(sought) {
            return None;
        }
        medium.event(Event::Look);
        let candidates = meta.candidates(h);
        let mut found = None;
        if !candidates.is_empty() {
            let bucket = self.bucket(sought.entry()).ok()?;
            for i in candidates {
                let slot = &bucket.slots[i as usize];
                if medium.load(&slot.h) == h {
                    found = Some(medium.load(&slot.payload));
                    break;
                }
            }
        }
        is_valid(meta.lock(), version, found).then_some(found)
    }

    /// The buckets of a few hashes, of which everything that a lookup reads is on its way.
    #[inline(always)]
    fn approach<'a>(&'a self, h: &[u64], sought: &mut [Option<Sought<'a, u32>>; PREFETCHED]) {
        for h in h {
            self.directory.prefetch(*h);
        }
        for (h, sought) in h.iter().zip(sought) {
            *sought = self.approach_one(*h);
        }
    }

    #[inline(always)]
    fn approach_one(&self, h: u64) -> Option<Sought<'_, u32>> {
        let sought = self.directory.seek(h)?;
        self.metas.prefetch(sought.entry());
        self.prefetch_slot(h, sought.entry());
        Some(sought)
    }

    /// After a look in vain.
    #[cold]
    #[inline(never)]
    fn look_again(&self, h: u64) -> Result<Option<u64>> {
        self.medium().event(Event::Wait);
        last_read(|f| self.read_with(h, f))
    }

    /// The body of [`Index::read`]. After many looks in vain writers of the bucket are made to wait
    /// for once.
    fn read_with(&self, h: u64, f: Reader<'_>) -> Result<()> {
        let medium = self.medium();
        for _ in 0..READ_TRIES {
            let bucket = self.find(h)?;
            self.prefetch_slot(h, bucket);
            let lock = self.meta(bucket).lock();
            let version = lock.read(medium);
            if !self.still(h, bucket) {
                continue;
            }
            // An error that comes of reading what a writer has since taken away is no error.
            let done = self
                .probe(h, bucket)
                .and_then(|found| f(found.map(|(_, payload)| payload), &|| lock.validate(version)));
            if lock.validate(version) {
                return done;
            }
            medium.event(Event::Wait);
        }
        let held = self.hold(h)?;
        let found = self.probe(h, held.bucket);
        let done = found.and_then(|found| f(found.map(|(_, payload)| payload), &|| true));
        held.release_unchanged();
        done
    }

    /// How many live slots there are, if that is known without making ranges.
    fn known_count(&self) -> Option<u64> {
        let saved = self.writers.saved_live;
        let known = || saved.map(|before| before.saturating_add_signed(self.live.change()));
        if self.is_complete() { Some(self.met_count()) } else { known() }
    }

    /// How many there are in ranges that are made.
    fn met_count(&self) -> u64 {
        let found = self.writers.found_live.load(Ordering::Acquire);
        found.saturating_add_signed(self.live.change())
    }

    fn count(&self) -> Result<u64> {
        if let Some(count) = self.known_count() {
            return Ok(count);
        }
        self.make_all().map(|()| self.met_count())
    }

    fn scan_unit(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        let from = out.len();
        // Returns the bucket's depth.
        let collect = |number: u64, out: &mut Vec<(u64, u64)>| -> Result<u32> {
            out.truncate(from);
            let medium = self.medium();
            let (bucket, meta) = (self.bucket(number)?, self.meta(number));
            // Before the live slots: see `merge`. A bucket that is being taken out of use may say
            // anything.
            let depth = meta.depth().clamp(1, MAX_DEPTH);
            let prefix = extend::prefix(at, depth);
            for i in durahash_media::probe::BitMask(meta.live()) {
                let slot = &bucket.slots[i as usize];
                let h = medium.load(&slot.h);
                // Only a break of a remove leaves a live bit on a slot that is none.
                if h >= at && extend::covers(prefix, depth, h) {
                    out.push((h, medium.load(&slot.payload)));
                }
            }
            Ok(depth)
        };
        let mut tries = 0;
        let depth = loop {
            if tries == READ_TRIES {
                let held = self.hold(at)?;
                let done = collect(held.bucket, out);
                held.release_unchanged();
                break done?;
            }
            tries += 1;
            let bucket = self.find(at)?;
            let lock = self.meta(bucket).lock();
            let version = lock.read(self.medium());
            if self.still(at, bucket) {
                let done = collect(bucket, out);
                if lock.validate(version) {
                    break done?;
                }
            }
            self.medium().event(Event::Wait);
        };
        out[from..].sort_unstable();
        Ok(extend::next(extend::prefix(at, depth), depth))
    }
}

#[cfg(feature = "planted")]
impl<M: Medium> Reh<M> {
    /// The depth of the directory's front, for tests.
    pub fn front_depth(&self) -> u32 {
        self.directory.depths().1
    }
}

impl<M: Medium> IndexBase for Reh<M> {
    type Slot = u64;

    fn reserve(&self, entries: u64) -> Result<()> {
        split_ahead(entries, u64::from(self.slots()).div_ceil(2), |h, to| self.split_once(h, to))
    }

    fn prefetch(&self, h: &[u64]) {
        for h in h {
            self.directory.prefetch(*h);
        }
        for h in h {
            self.approach_one(*h);
        }
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        self.scan_unit(at, out)
    }

    fn walk_order(&self) -> WalkOrder {
        self.directory.walk_order(&self.writers.growth)
    }

    fn behind(&self, at: u64) -> Option<Option<u64>> {
        self.behind_range(at)
    }

    fn len(&self) -> Result<u64> {
        self.count()
    }

    fn step(&self) -> Result<bool> {
        self.work()
    }

    fn mend(&self) -> Result<()> {
        self.mend_words()
    }

    fn give_back(&self) -> Result<()> {
        if self.pool.writable().is_ok() { self.sweep_all() } else { Ok(()) }
    }

    fn warm(&self, stop: &AtomicBool) {
        self.make_in_parts(stop);
    }

    fn close(&self) {
        // One more; zero where some ranges were not made, and no close has saved it.
        self.map.save(SAVED, self.known_count().map_or(0, |count| count + 1));
    }

    base_methods!();
}

impl<M: Medium> Index for Reh<M> {
    #[inline(always)]
    fn get(&self, h: u64) -> Result<Option<u64>> {
        operation(self.medium(), || match self.look(h) {
            Some(found) => Ok(found),
            None => self.look_again(h),
        })
    }

    fn prefetch_to_insert(&self, h: u64) {
        if let Some(sought) = self.directory.seek(h) {
            self.prefetch_free(h, sought.entry());
        }
    }

    fn get_many(&self, h: &[u64], out: &mut [Option<u64>]) -> Result<()> {
        let mut sought = [const { None }; PREFETCHED];
        for (h, out) in h.chunks(PREFETCHED).zip(out.chunks_mut(PREFETCHED)) {
            self.approach(h, &mut sought);
            for ((h, out), sought) in h.iter().zip(out).zip(&sought) {
                *out = operation(self.medium(), || {
                    match sought.as_ref().and_then(|sought| {
                        self.look_in(*h, sought, |lock, version, _| lock.validate(version))
                    }) {
                        Some(found) => Ok(found),
                        None => self.look_again(*h),
                    }
                })?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn read_once(&self, h: u64, f: impl FnOnce(u64)) -> Option<bool> {
        operation(self.medium(), || {
            let sought = self.directory.seek(h)?;
            self.prefetch_slot(h, sought.entry());
            let found = self.look_in(h, &sought, |lock, version, found| {
                if let Some(payload) = found {
                    f(payload);
                }
                lock.validate(version)
            });
            found.map(|found| found.is_some())
        })
    }

    fn look_in_batch(&self, h: &[u64], rooms: &[Room], out: &mut [Option<Option<u64>>]) {
        let mut sought = [const { None }; PREFETCHED];
        self.approach(h, &mut sought);
        for (((h, room), out), sought) in h.iter().zip(rooms).zip(out).zip(&sought) {
            *out = operation(self.medium(), || self.look_unlocked(*h, *room, sought.as_ref()?));
        }
    }

    index_methods!();
}
