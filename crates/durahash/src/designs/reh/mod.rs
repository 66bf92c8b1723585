//! REH: extendible hashing whose buckets alone are persistent.
//!
//! # Paper
//! Zhengtao Li, Zhipeng Tan, Jianxi Chen: *REH: Redesigning Extendible Hashing for Commercial
//! Non-Volatile Memory*. Kept: selective persistence (§III-B), 256-byte buckets with a sibling
//! pointer (§III-C), fingerprints in DRAM (§III-D), failure-atomic split and merge (§III-E),
//! optimistic readers (§III-F), recovery by the sibling chain (§III-G, Algorithm 1).
//!
//! # Where state lives
//! Buckets are in the pool, one root word names the first. Directory, bitmaps, fingerprints and
//! locks are in DRAM and rebuilt at every open. A lookup that hits reads one line
//! of the medium; a miss needs none, but for a fingerprint that happens to be equal. The line in
//! which a hash most probably is is asked for together with the metadata, before it is known
//! whether it is needed, except on persistent memory: that hides one of two latencies of a hit, and
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
//!   bucket's prefix; the bitmap says the same, and the fingerprint is that of `h`.
//! - **REH-3** No two live slots have the same `h`.
//! - **REH-4** The directory entries of a bucket's range, and no others, name it; the metadata say
//!   its depth; no local depth exceeds the global depth. The front names it too, or says that it is
//!   deeper than itself.
//! - **REH-5** Every bucket of an extent of units is on the chain or on the free list, never both.
//! - **REH-6** The counters of depths and of live slots are exact, and no lock is held.
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
//! | | old bucket's link := {depth + 1, new bucket} | flush, fence | split; what moved no longer matches the old prefix |
//! | merge | free slots of the lower bucket: live slots of the upper; marker where a stale `h` belongs to the upper | flush, fence | none of it matches the lower prefix: free |
//! | | lower bucket's link := {depth − 1, upper's sibling} | flush, fence | merged; nothing links to the upper: free |
//! | | kind of its extent := free, if no bucket of that is linked | flush, fence | given back by the next open |
//!
//! Nothing is erased by a split, so the lower bucket keeps stale copies. A merge would revive them
//! with their old payloads, and even what was removed since; therefore it overwrites all of them
//! before its commit.
//!
//! # Recovery
//! `recover.rs`. No store to the medium is needed: the chain says which buckets are live, and a
//! slot's `h` says whether it is. So recovery is idempotent, however often it is cut short.
//!
//! # Concurrency
//! Readers: directory entry, version, entry again, metadata, one slot, version. Writers take W of
//! the bucket and look at the entry again. A split holds W of the old and the new bucket, a merge
//! of both buckets; the second lock of a merge is only tried, and a merge that does not get it lets
//! go of the first and begins again. A split holds X of the old bucket only while it switches the
//! directory entries and takes the moved slots out of the bitmap: readers never wait for the
//! copying. A merge needs no X: what a reader finds in either bucket stays true until the upper's
//! version is raised, and only then is the lower's lock released to the next writer. A bucket that
//! leaves the chain gets a higher version before it can be
//! reused, so a reader that is still in it starts over. Locks are taken buckets first, then the
//! directory's, which is held for DRAM stores only.
//!
//! # Departures from the paper
//! - An empty slot holds a marker that cannot match the prefix instead of a reserved key; global
//!   depth therefore starts at 1.
//! - Algorithm 1 compares with the raw index `i`; it must be shifted to the local depth, and the
//!   global depth is not known before the walk. Siblings are offsets, not pointers.
//! - The reserved word holds the prefix, so that recovery reads all extents in parallel and follows
//!   the chain in DRAM afterwards. Because the chain decides what is live, a bucket that left it
//!   needs no mark of its own.
//! - A second, shallower directory in DRAM answers most lookups (`crate::extendible::directory`): the paper's has
//!   a local depth in each entry and is asked alone. An entry is the number of a bucket here, and the
//!   local depth is with the metadata.
//! - The lock word is 62 bits of version with W and X instead of 31 bits with one.
//! - Merge is not simply the inverse of split (see above).

mod grow;
mod layout;
mod meta;
mod recover;
mod write;

use std::sync::Mutex;

use durahash_media::{Event, Medium, Place, Reserved, Result, Version, VersionLock};

use crate::extendible::directory::{Directory, Sought};
use crate::extendible::extend::{self, MAX_DEPTH};
use crate::extendible::free::FreeUnits;
use crate::extendible::growth::{Growth, split_ahead};
use crate::index::{
    Change, Finding, Index, IndexBase, IndexStats, PREFETCHED, Reader, Room, Updater, last_read,
    operation,
};
use crate::util::counter::Counter;
use layout::{BUCKET_BYTES, SLOT_BYTES, preferred_slot};
use meta::Meta;

pub use layout::{Bucket, Slot};

/// The root word that names the first bucket, by its number. It never changes: the first bucket is
/// the lower one in every merge.
pub(crate) const ROOT: usize = 0;

/// Tries of an optimistic reader before it takes the lock.
const READ_TRIES: u32 = 16;

/// REH over a pool. See the [module docs](self).
pub struct Reh<M: Medium> {
    pool: Place<M>,
    /// Names buckets by their numbers.
    directory: Directory<u32>,
    /// Metadata, by the number of the bucket.
    metas: Reserved<4>,
    /// Slots of a bucket that are used.
    slots: u32,
    live: Counter,
    writers: Writers,
}

/// The state that splits and merges store to: kept off the lines that every lookup reads.
#[repr(align(128))]
struct Writers {
    /// Buckets that exist and are not on the chain.
    free: Mutex<FreeUnits>,
    growth: Growth,
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

    /// The bucket of `h` now.
    #[inline(always)]
    fn find(&self, h: u64) -> u64 {
        self.directory.find(h)
    }

    /// True if `h` still belongs to a bucket: asked after reading the version of that bucket, or
    /// taking its lock.
    #[inline(always)]
    fn still(&self, h: u64, bucket: u64) -> bool {
        self.find(h) == bucket
    }

    /// The bitmap of a bucket without a free slot.
    fn full(&self) -> u16 {
        ((1_u32 << self.slots) - 1) as u16
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
        self.look_in(h, &sought, VersionLock::validate)
    }

    /// The same in one bucket; `is_valid` says if what was seen under a version of its lock counts.
    #[inline(always)]
    fn look_in<'a>(
        &'a self,
        h: u64,
        sought: &Sought<'_, u32>,
        is_valid: impl Fn(VersionLock<'a>, Version) -> bool,
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
        is_valid(meta.lock(), version).then_some(found)
    }

    /// The buckets of a few hashes, of which everything that a lookup reads is on its way.
    #[inline(always)]
    fn approach<'a>(&'a self, h: &[u64], sought: &mut [Option<Sought<'a, u32>>; PREFETCHED]) {
        for h in h {
            self.directory.prefetch(*h);
        }
        for (h, sought) in h.iter().zip(sought) {
            *sought = self.directory.seek(*h);
            if let Some(sought) = sought {
                self.metas.prefetch(sought.entry());
                self.prefetch_slot(*h, sought.entry());
            }
        }
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
            let bucket = self.find(h);
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
        let held = self.hold(h);
        let found = self.probe(h, held.bucket);
        let done = found.and_then(|found| f(found.map(|(_, payload)| payload), &|| true));
        held.release_unchanged();
        done
    }

    fn scan_unit(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        let from = out.len();
        // Returns the bucket's depth.
        let collect = |number: u64, out: &mut Vec<(u64, u64)>| -> Result<u32> {
            out.truncate(from);
            let medium = self.medium();
            let (bucket, meta) = (self.bucket(number)?, self.meta(number));
            // Before what is live: see `merge`. A bucket that is being taken out of use may say
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
                let held = self.hold(at);
                let done = collect(held.bucket, out);
                held.release_unchanged();
                break done?;
            }
            tries += 1;
            let bucket = self.find(at);
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

impl<M: Medium> IndexBase for Reh<M> {
    type Slot = u64;

    fn reserve(&self, entries: u64) -> Result<()> {
        split_ahead(entries, u64::from(self.slots).div_ceil(2), |h, to| self.split_once(h, to))
    }

    fn prefetch(&self, h: &[u64]) {
        for h in h.chunks(PREFETCHED) {
            self.approach(h, &mut [const { None }; PREFETCHED]);
        }
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        self.scan_unit(at, out)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.live.get())
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

    fn get_many(&self, h: &[u64], out: &mut [Option<u64>]) -> Result<()> {
        let mut sought = [const { None }; PREFETCHED];
        for (h, out) in h.chunks(PREFETCHED).zip(out.chunks_mut(PREFETCHED)) {
            self.approach(h, &mut sought);
            for ((h, out), sought) in h.iter().zip(out).zip(&sought) {
                *out = operation(self.medium(), || {
                    match sought
                        .as_ref()
                        .and_then(|sought| self.look_in(*h, sought, VersionLock::validate))
                    {
                        Some(found) => Ok(found),
                        None => self.look_again(*h),
                    }
                })?;
            }
        }
        Ok(())
    }

    index_methods!();
}
