//! Making a table, and opening one.
//!
//! An open that finds an array of words reads no bucket: ranges are made as operations come to them (`ranges.rs`), and
//! free buckets found by a sweep (`sweep.rs`). Where there is no array, because the pool is small or lost it,
//! and where pages may be missing, so that words cannot be relied on, the open walks the whole chain:
//! all is one range then, and damage is told by the open.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use durahash_media::{ErrorKind, Medium, Place, Reserved, Result, wait_lock};

use super::layout::{BUCKET_BYTES, Link, MAX_BUCKETS, ROOT, SAVED, SLOTS, WORDS_ROOT, marker};
use super::planted::{Fault, planted};
use super::ranges::ALL_PARTS;
use super::space::Space;
use super::words::Words;
use super::{Reh, Writers};
use crate::designs::slots_of;
use crate::extendible::directory::{Directory, is_proportionate, noted_depths};
use crate::extendible::free::FreeUnits;
use crate::extendible::growth::Growth;
use crate::index::IndexStats;
use crate::util::counter::Counter;

impl<M: Medium> Reh<M> {
    /// Makes the first two buckets, and the root.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full); [`Options`](ErrorKind::Options) for a geometry without slots.
    pub fn create(map: impl Into<Place<M>>) -> Result<Self> {
        let map = map.into();
        let reh = Self::new(map)?;
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
        reh.map.set_root(ROOT, lower)?;
        reh.writers.growth.count(1, 2);
        Ok(reh)
    }

    /// Opens a table, and recovers what cannot wait until an operation comes to it.
    ///
    /// # Errors
    /// Where there is no array of words, [`Corrupt`](ErrorKind::Corrupt) if the siblings do not cover all hashes in
    /// order; else that is told by operations on the hashes that it is about.
    pub fn open(map: impl Into<Place<M>>) -> Result<Self> {
        Self::read(map.into())?()
    }

    /// The part of [`open`](Self::open) that stores nothing; it returns the other one.
    pub(crate) fn read(map: Place<M>) -> Result<impl FnOnce() -> Result<Self>> {
        let mut reh = Self::new(map)?;
        let mut extents = reh.map.unit_extents();
        // An extent beyond was taken and not yet given back.
        let beyond = extents.partition_point(|i| reh.numbers(*i).end <= reh.metas.most());
        let beyond = extents.split_off(beyond);
        reh.metas.cover(extents.last().map_or(0, |last| reh.numbers(*last).end))?;
        reh.recovered = vec![0; extents.last().map_or(0, |last| last / 64 + 1) as usize];
        for extent in &extents {
            reh.recovered[(extent / 64) as usize] |= 1 << (extent % 64);
        }
        if reh.pool.may_lack_pages() {
            // This open alone is told so.
            reh.map.doubt_root(WORDS_ROOT);
        }
        let has_words = reh.words.adopt(&reh.map)?;
        if has_words {
            reh.expect(&extents)?;
        } else {
            reh.recover_all(&extents)?;
        }
        Ok(move || {
            reh.pool.begin()?;
            if !has_words {
                reh.find_free(&extents)?;
                if reh.map.root(WORDS_ROOT)? != 0 {
                    reh.map.set_root(WORDS_ROOT, 0)?;
                }
            }
            let own = reh.words.own_extents(&reh.map);
            let others = reh.map.directory_extents().into_iter().filter(|i| !own.contains(i));
            others.chain(beyond).try_for_each(|i| reh.pool.release_extent(i))?;
            Ok(reh)
        })
    }

    fn new(map: Place<M>) -> Result<Self> {
        let pool = Arc::clone(map.pool());
        let format = map.format();
        let slots = slots_of(format, SLOTS, "REH has 2 to 15 slots a bucket")?;
        let bytes = pool.max_bytes();
        let (growth, per_extent) = (Growth::default(), pool.extent_bytes() / BUCKET_BYTES);
        let (free, unswept) = (FreeUnits::new(per_extent), Default::default());
        let space = Space { free, unswept, is_counted: true };
        Ok(Reh {
            metas: Reserved::growing(0, (bytes / BUCKET_BYTES).min(MAX_BUCKETS))?,
            directory: Directory::new(1, &growth)?,
            full: ((1_u32 << slots) - 1) as u16,
            words: Words::new(&map),
            recovered: Vec::new(),
            live: Counter::default(),
            writers: Writers {
                space: Mutex::new(space),
                sweeping: Mutex::default(),
                making: Mutex::default(),
                damaged: Mutex::default(),
                growth,
                parts_to_make: AtomicU64::new(0),
                next_place: AtomicU64::new(0),
                found_live: AtomicU64::new(0),
                saved_live: None,
            },
            pool,
            map,
        })
    }

    /// Leaves everything to later operations: a directory of zeros, and extents to be swept.
    fn expect(&mut self, extents: &[u64]) -> Result<()> {
        let buckets = extents.len() as u64 * self.per_extent();
        let (depth, front) = self.words.noted();
        let (depth, front) = noted_depths(depth.max(self.words.depth()), front, buckets);
        let front = if planted(Fault::FrontShallow) { 1 } else { front };
        self.directory = Directory::of_depths(depth, front)?;
        self.writers.growth.expect(if planted(Fault::SkewedEarly) { 1 } else { buckets.max(1) });
        self.writers.parts_to_make = AtomicU64::new(ALL_PARTS);
        // A number that the buckets cannot hold is none, whatever its checksum says.
        let saved = self.map.saved(SAVED).and_then(|saved| saved.checked_sub(1));
        self.writers.saved_live = saved.filter(|n| *n <= buckets * u64::from(self.slots()));
        let mut space = wait_lock(&self.writers.space, self.medium());
        (space.unswept, space.is_counted) = (extents.iter().copied().collect(), false);
        drop(space);
        Ok(())
    }

    /// Walks the whole chain, as one range.
    fn recover_all(&mut self, extents: &[u64]) -> Result<()> {
        self.read_ahead(extents)?;
        let met = self.walk(&self.range(0)?)?;
        let depth = met.iter().map(|met| met.depth).max().unwrap_or(1);
        if !is_proportionate(depth, met.len() as u64) {
            let numbers = extents.iter().flat_map(|i| self.numbers(*i));
            let is_written = |n: &u64| {
                let link = self.bucket(*n).map(|bucket| self.medium().load(&bucket.link));
                link.is_ok_and(|link| Link::from_word(link).is_some())
            };
            if !is_proportionate(depth, numbers.filter(is_written).count() as u64) {
                return Err(ErrorKind::Skewed { depth }.into());
            }
        }
        // The front is as deep as these make it.
        let depths = Growth::default();
        met.iter().for_each(|met| depths.count(met.depth, 1));
        self.directory = Directory::new(depth, &depths)?;
        self.store_rows(&met);
        self.enter(&met);
        Ok(())
    }

    /// Buckets that the walk has not met are free; extents without any that it has go back to the pool.
    fn find_free(&self, extents: &[u64]) -> Result<()> {
        let mut empty = Vec::new();
        let mut space = wait_lock(&self.writers.space, self.medium());
        for extent in extents {
            let free = self.numbers(*extent).rev().filter(|n| !self.meta(*n).is_made());
            empty.extend(space.free.add_found(*extent, free.collect()));
        }
        drop(space);
        empty.into_iter().try_for_each(|extent| self.pool.release_extent(extent))
    }

    /// The figures of [`IndexBase::stats`](crate::index::IndexBase::stats), of all that is sound.
    pub(super) fn figures(&self) -> IndexStats {
        let _ = self.make_all();
        let growth = &self.writers.growth;
        let buckets = growth.units();
        IndexStats {
            slots_used: self.met_count(),
            slots: buckets * u64::from(self.slots()),
            medium_bytes: buckets * BUCKET_BYTES,
            dram_bytes: self.directory.bytes() + buckets * size_of::<[AtomicU64; 4]>() as u64,
            ..growth.figures(self.directory.depth())
        }
    }
}
