//! Opening, and checking.
//!
//! Recovery has two passes. The first reads every extent of buckets, in parallel where that pays,
//! and computes the bitmap and fingerprints of each bucket from its own prefix and depth. The
//! second follows the siblings, in DRAM, from the first bucket on; what it meets is live, and must
//! begin where the bucket before it ends. All other buckets are free: a split or merge that did not
//! commit, or the upper half of a merge that did.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::hash::fingerprint;
use durahash_media::{Error, ErrorKind, Medium, Place, Reserved, Result, wait_lock};

use super::layout::{BUCKET_BYTES, Bucket, Link, MAX_BUCKETS, SLOTS, marker};
use super::{ROOT, Reh, Writers};
use crate::designs::slots_of;
use crate::extendible::directory::{Directory, is_proportionate};
use crate::extendible::extend::{self, MAX_DEPTH};
use crate::extendible::free::FreeUnits;
use crate::extendible::growth::Growth;
use crate::index::{Finding, IndexStats};
use crate::util::counter::Counter;
use crate::util::parallel::in_parts;

/// Extents to a thread of the first pass, at least.
const EXTENTS_PER_THREAD: usize = 16;

/// Buckets as the second pass sees them, by number: {link, prefix}; zero where there is none.
type Seen = Reserved<2>;

/// Stands in the link of a bucket that the second pass has met.
const MET: u64 = u64::MAX;

impl<M: Medium> Reh<M> {
    /// Makes the first two buckets, and the root.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full); [`Options`](ErrorKind::Options) for a geometry without slots.
    pub fn create(pool: impl Into<Place<M>>) -> Result<Self> {
        let pool = pool.into();
        let reh = Self::new(pool)?;
        let (lower, upper) = (reh.take_bucket()?, reh.take_bucket()?);
        let medium = reh.medium();
        for (number, prefix, sibling) in [(lower, 0, upper), (upper, 1 << 63, 0)] {
            let bucket = reh.bucket(number)?;
            for slot in &bucket.slots {
                medium.store(&slot.h, marker(prefix));
            }
            medium.store(&bucket.prefix, prefix);
            medium.store(&bucket.link, Link { depth: 1, sibling }.to_word());
            medium.flush_fresh(bucket);
            reh.directory.set(prefix, 1, number);
            reh.meta(number).set_depth(1);
        }
        reh.pool.set_root(ROOT, lower)?;
        reh.writers.growth.count(1, 2);
        Ok(reh)
    }

    /// Rebuilds directory and metadata from the buckets.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) where the siblings do not cover all hashes in order.
    pub fn open(pool: impl Into<Place<M>>) -> Result<Self> {
        Self::read(pool.into())?()
    }

    /// The part of [`open`](Self::open) that stores nothing; it returns the other one.
    pub(crate) fn read(pool: Place<M>) -> Result<impl FnOnce() -> Result<Self>> {
        let mut reh = Self::new(pool)?;
        let mut extents = reh.pool.unit_extents();
        let per_extent = reh.pool.extent_bytes() / BUCKET_BYTES;
        // An extent beyond was taken and not yet given back.
        let beyond = extents.partition_point(|i| (i + 1) * per_extent <= reh.metas.most());
        let beyond = extents.split_off(beyond);
        let numbers = extents.last().map_or(0, |last| (last + 1) * per_extent);
        reh.metas.cover(numbers)?;
        let seen = Seen::new(numbers)?;
        reh.read_extents(&extents, per_extent, &seen)?;
        let chain = follow(reh.pool.root(ROOT)?, &seen)?;

        let depth = chain.iter().map(|unit| unit.depth).max().unwrap_or(1);
        if !is_proportionate(depth, chain.len() as u64) {
            let written =
                (0..seen.count()).filter(|n| seen.row(*n)[0].load(Ordering::Relaxed) != 0);
            if !is_proportionate(depth, written.count() as u64) {
                return Err(ErrorKind::Skewed { depth }.into());
            }
        }
        let mut depths = [0; MAX_DEPTH as usize + 1];
        chain.iter().for_each(|unit| depths[unit.depth as usize] += 1);
        let growth = &reh.writers.growth;
        (0..).zip(depths).for_each(|(depth, count)| growth.count(depth, count));
        reh.directory = Directory::new(depth, growth)?;
        let mut live = 0;
        for unit in &chain {
            reh.directory.set(unit.prefix, unit.depth, unit.bucket);
            live += i64::from(reh.meta(unit.bucket).live().count_ones());
        }
        reh.live.add(live);
        Ok(move || {
            reh.pool.begin()?;
            reh.find_free(&extents, per_extent, &seen)?;
            beyond.into_iter().try_for_each(|i| reh.pool.release_extent(i))?;
            Ok(reh)
        })
    }

    fn new(pool: Place<M>) -> Result<Self> {
        let format = pool.format();
        let slots = slots_of(format, SLOTS, "REH has 2 to 15 slots a bucket")?;
        let bytes = format.max_bytes.min(pool.medium().region().max_bytes());
        let (growth, per_extent) = (Growth::default(), pool.extent_bytes() / BUCKET_BYTES);
        Ok(Reh {
            metas: Reserved::growing(0, (bytes / BUCKET_BYTES).min(MAX_BUCKETS))?,
            directory: Directory::new(1, &growth)?,
            slots,
            live: Counter::default(),
            writers: Writers { free: Mutex::new(FreeUnits::new(per_extent)), growth },
            pool,
        })
    }

    /// The first pass.
    fn read_extents(&self, extents: &[u64], per_extent: u64, seen: &Seen) -> Result<()> {
        in_parts(extents, EXTENTS_PER_THREAD, |extents| {
            for number in extents.iter().flat_map(|i| i * per_extent..(i + 1) * per_extent) {
                self.read_bucket(number, seen.row(number))?;
            }
            Ok(())
        })
    }

    fn read_bucket(&self, number: u64, seen: &[AtomicU64; 2]) -> Result<()> {
        let medium = self.medium();
        let bucket = self.bucket(number)?;
        let link = medium.load(&bucket.link);
        let Some(Link { depth, .. }) = Link::from_word(link) else {
            return Ok(());
        };
        let prefix = medium.load(&bucket.prefix);
        seen[0].store(link, Ordering::Relaxed);
        seen[1].store(prefix, Ordering::Relaxed);
        let meta = self.meta(number);
        meta.set_depth(depth);
        for (i, h) in self.valid_slots(bucket, prefix, depth) {
            meta.add(i, h);
        }
        Ok(())
    }

    /// The live slots of a bucket, from what is on the medium alone (REH-2).
    fn valid_slots<'a>(
        &'a self,
        bucket: &'a Bucket,
        prefix: u64,
        depth: u32,
    ) -> impl Iterator<Item = (u32, u64)> + 'a {
        (0..self.slots)
            .map(move |i| (i, self.medium().load(&bucket.slots[i as usize].h)))
            .filter(move |(_, h)| extend::covers(prefix, depth, *h))
    }

    /// Buckets that the second pass has not met are free; extents without any that it has go back
    /// to the pool.
    fn find_free(&self, extents: &[u64], per_extent: u64, seen: &Seen) -> Result<()> {
        let mut free = wait_lock(&self.writers.free, self.medium());
        for i in extents {
            let numbers = (i * per_extent..(i + 1) * per_extent).rev();
            let is_free = |n: &u64| seen.row(*n)[0].load(Ordering::Relaxed) != MET;
            if numbers.clone().all(|n| is_free(&n)) {
                self.pool.release_extent(*i)?;
            } else {
                free.add(*i, numbers.filter(is_free));
            }
        }
        Ok(())
    }

    /// The figures of [`IndexBase::stats`](crate::index::IndexBase::stats).
    pub(super) fn figures(&self) -> IndexStats {
        let growth = &self.writers.growth;
        let buckets = growth.units();
        IndexStats {
            slots_used: self.live.get(),
            slots: buckets * u64::from(self.slots),
            medium_bytes: buckets * BUCKET_BYTES,
            dram_bytes: self.directory.bytes() + buckets * size_of::<[AtomicU64; 4]>() as u64,
            ..growth.figures(self.directory.depth())
        }
    }

    /// Verifies REH-1 to REH-6; see the [module docs](super).
    pub(super) fn check_all(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let medium = self.medium();
        let per_extent = self.pool.extent_bytes() / BUCKET_BYTES;
        let extents = self.pool.unit_extents();
        let mut met = vec![false; extents.last().map_or(0, |i| (i + 1) * per_extent) as usize];
        let mut depths = [0; MAX_DEPTH as usize + 1];
        let mut live = 0;
        let mut report = |invariant, number: u64, what: String| {
            found(Finding { invariant, off: number * BUCKET_BYTES, what });
        };
        let (mut number, mut expected) = (self.pool.root(ROOT)?, Some(0));
        while let Some(position) = expected {
            if extents.binary_search(&(number / per_extent)).is_err() {
                report("REH-1", number, format!("no bucket is here to cover {position:#018x}"));
                break;
            }
            let bucket = self.bucket(number)?;
            let Some(link) = Link::from_word(medium.load(&bucket.link)) else {
                report("REH-1", number, "the link is damaged".to_owned());
                break;
            };
            let prefix = medium.load(&bucket.prefix);
            if prefix != position || extend::prefix(prefix, link.depth) != prefix {
                let what = format!("prefix {prefix:#018x} where {position:#018x} should begin");
                report("REH-1", number, what);
                break;
            }
            met[number as usize] = true;
            depths[link.depth as usize] += 1;
            live += self.check_bucket(number, bucket, prefix, link.depth, &mut report);
            expected = extend::next(prefix, link.depth);
            number = link.sibling;
        }
        if expected.is_none() && number != 0 {
            report("REH-1", number, "the last bucket has a sibling".to_owned());
        }
        for free in wait_lock(&self.writers.free, medium).iter() {
            if std::mem::replace(&mut met[free as usize], true) {
                report("REH-5", free, "a bucket in use is on the free list".to_owned());
            }
        }
        for number in extents.iter().flat_map(|i| i * per_extent..(i + 1) * per_extent) {
            if !met[number as usize] {
                report("REH-5", number, "a bucket is neither used nor free".to_owned());
            }
        }
        self.writers.growth.check(&depths, "buckets", |what| report("REH-6", 0, what));
        if live != self.live.get() {
            let what = format!("{live} live slots, the counter says {}", self.live.get());
            report("REH-6", 0, what);
        }
        Ok(())
    }

    /// REH-2 to REH-4, and the lock, of one bucket; returns its live slots.
    fn check_bucket(
        &self,
        number: u64,
        bucket: &Bucket,
        prefix: u64,
        depth: u32,
        report: &mut impl FnMut(&'static str, u64, String),
    ) -> u64 {
        let meta = self.meta(number);
        let (mut live, mut hashes) = (0_u16, [0; SLOTS as usize]);
        for (i, h) in self.valid_slots(bucket, prefix, depth) {
            let before = &hashes[..live.count_ones() as usize];
            if before.contains(&h) {
                report("REH-3", number, format!("hash {h:#018x} is there twice"));
            }
            hashes[live.count_ones() as usize] = h;
            live |= 1 << i;
            if meta.fingerprint(i) != fingerprint(h) {
                report("REH-2", number, format!("wrong fingerprint of slot {i}"));
            }
        }
        if meta.live() != live {
            let what = format!("bitmap {:#06x}, the slots say {live:#06x}", meta.live());
            report("REH-2", number, what);
        }
        if meta.lock().is_locked() {
            report("REH-6", number, "the lock is held".to_owned());
        }
        if depth > self.directory.depth() {
            report("REH-4", number, format!("local depth {depth} exceeds the global depth"));
        } else if !self.directory.names(prefix, depth, number) {
            report("REH-4", number, "a directory entry names something else".to_owned());
        }
        if meta.depth() != depth {
            let what = format!("local depth {depth}, the metadata say {}", meta.depth());
            report("REH-4", number, what);
        }
        u64::from(live.count_ones())
    }
}

/// A bucket that the second pass has met.
struct Unit {
    bucket: u64,
    prefix: u64,
    depth: u32,
}

/// The second pass: the chain from bucket `first` on. It ends, since every bucket on it must begin
/// where no other does.
fn follow(first: u64, seen: &Seen) -> Result<Vec<Unit>> {
    let mut chain = Vec::new();
    let (mut number, mut expected) = (first, Some(0));
    while let Some(position) = expected {
        let corrupt = |what| Error::corrupt(what, number.wrapping_mul(BUCKET_BYTES));
        if number >= seen.count() {
            return Err(corrupt("a sibling is not a bucket"));
        }
        let [link, prefix] = seen.row(number);
        let link = Link::from_word(link.swap(MET, Ordering::Relaxed))
            .ok_or_else(|| corrupt("a sibling is not a bucket"))?;
        if prefix.load(Ordering::Relaxed) != position
            || extend::prefix(position, link.depth) != position
        {
            return Err(corrupt("the buckets do not follow each other"));
        }
        chain.push(Unit { bucket: number, prefix: position, depth: link.depth });
        expected = extend::next(position, link.depth);
        number = link.sibling;
    }
    if number != 0 {
        return Err(Error::corrupt("the last bucket has a sibling", number * BUCKET_BYTES));
    }
    Ok(chain)
}
