//! Opening.
//!
//! Recovery strides the array of the directory from segment to segment, and makes the directory in
//! DRAM from them. No segment is read, so it takes the time of one scan of the array. All
//! segments that nothing names are free; extents without any that is named go back to the pool.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use durahash_media::hash::WordMix;
use durahash_media::{Epochs, Medium, Place, Present, Reserved, Result};

use super::layout::{BUCKET_BYTES, SAVED};
use super::overflow::Shape;
use super::{DATES_ROOT, Esh, Free, Writers};
use crate::extendible::array::{Array, Sound};
use crate::extendible::count::IncrementalCount;
use crate::extendible::directory::Directory;
use crate::extendible::growth::{Count, Growth};
use crate::index::{EshStats, IndexStats};
use crate::util::arrivals::Arrivals;

/// A set of segments, by their numbers.
struct Segments(Vec<u64>);

impl Segments {
    fn new(count: u64) -> Self {
        Segments(vec![0; count.div_ceil(64) as usize])
    }

    fn contains(&self, number: u64) -> bool {
        self.0.get((number / 64) as usize).is_some_and(|word| word & 1 << (number % 64) != 0)
    }

    /// True if `number`, which is in range, is new in the set.
    fn insert(&mut self, number: u64) -> bool {
        let new = !self.contains(number);
        self.0[(number / 64) as usize] |= 1 << (number % 64);
        new
    }
}

impl<M: Medium> Esh<M> {
    /// Makes the first two segments, and the roots.
    ///
    /// # Errors
    /// [`Full`](durahash_media::ErrorKind::Full); [`Options`](durahash_media::ErrorKind::Options) for a geometry that cannot be.
    pub fn create(map: impl Into<Place<M>>) -> Result<Self> {
        let map = map.into();
        let now = map.pool().epoch();
        let esh = Self::new(map, Epochs { now, trusted_from: now })?;
        for prefix in [0, 1 << 63] {
            let fresh = esh.write_fresh(esh.take_segment()?, prefix, 1, &[])?;
            esh.publish(&fresh);
        }
        esh.live_count.set(0);
        esh.map.set_root(DATES_ROOT, esh.dates_word())?;
        // There is none before it.
        let _ = esh.writers.array.write(&esh.map, (1, 1), &|i| esh.directory.find(i << 63))?;
        Ok(esh)
    }

    /// Rebuilds the directory in DRAM from the array.
    ///
    /// # Errors
    /// [`Corrupt`](durahash_media::ErrorKind::Corrupt) where the words of the array do not follow each other;
    /// [`Options`](durahash_media::ErrorKind::Options) for a geometry that cannot be.
    pub fn open(map: impl Into<Place<M>>) -> Result<Self> {
        Self::read(map.into())?()
    }

    /// The part of [`open`](Self::open) that stores nothing; it returns the other one.
    pub(crate) fn read(map: Place<M>) -> Result<impl FnOnce() -> Result<Self>> {
        let now = map.pool().epoch();
        let mut esh = Self::new(map, Epochs { now, trusted_from: now })?;
        let (sound, named) = esh.read_array()?;
        esh.directory = esh.writers.array.adopt(&sound, &esh.writers.growth)?;
        let is_dated = esh.pool.was_clean() && esh.trust_dates()?;
        if let Some(live) = esh.map.saved(SAVED).and_then(|saved| saved.checked_sub(1))
            && esh.pool.was_clean()
        {
            esh.live_count.set(live);
        }
        Ok(move || {
            esh.pool.begin()?;
            if !is_dated && !esh.pool.is_read_only() {
                // Before anything has this date.
                esh.map.set_root(DATES_ROOT, esh.dates_word())?;
            }
            esh.find_free(&named)?;
            esh.writers.array.release_others(&esh.map, sound.depth)?;
            Ok(esh)
        })
    }

    fn new(map: Place<M>, epochs: Epochs) -> Result<Self> {
        let pool = Arc::clone(map.pool());
        let format = map.format();
        let shape = Shape::of_map(&map)?;
        let growth = Growth::default();
        let per_extent = pool.extent_bytes() / shape.segment_bytes();
        Ok(Esh {
            directory: Directory::new(1, &growth)?,
            shape,
            epochs,
            present: Present::new(pool.max_bytes())?,
            live_count: IncrementalCount::default(),
            counts: Reserved::growing(0, pool.max_bytes().div_ceil(BUCKET_BYTES))?,
            writers: Writers {
                growth,
                array: Array::new(format.seed),
                free: std::sync::Mutex::new(Free::new(per_extent)),
                arrivals: Arrivals::default(),
                scratch: std::sync::Mutex::default(),
                repairs: Count::new(),
                repair_at: AtomicU64::new(0),
            },
            pool,
            map,
        })
    }

    /// The root word of the epochs that are trusted: the first, and a check sum above it.
    fn dates_word(&self) -> u64 {
        self.epochs_word_of(self.epochs.trusted_from)
    }

    fn epochs_word_of(&self, epoch: u32) -> u64 {
        let mix = WordMix::new(self.map.format().seed);
        u64::from(epoch) | mix.mix(u64::from(epoch)) >> 32 << 32
    }

    /// After a clean close, trusts all epochs since the last unclean open, if the root tells when that
    /// was; else everything is repaired, which is never wrong.
    fn trust_dates(&mut self) -> Result<bool> {
        let word = self.map.root(DATES_ROOT)?;
        let epoch = word as u32;
        let is_sound = word == self.epochs_word_of(epoch) && epoch <= self.epochs.now;
        if is_sound {
            self.epochs.trusted_from = epoch;
        }
        Ok(is_sound)
    }

    /// Reads the array, and the set of segments that it names.
    fn read_array(&self) -> Result<(Sound, Segments)> {
        let per_extent = self.per_extent();
        let extents = self.map.unit_extents();
        let count = extents.last().map_or(0, |last| last + 1);
        self.counts.cover(count * self.pool.extent_bytes() / BUCKET_BYTES)?;
        let mut units = Segments::new(count);
        for extent in &extents {
            units.insert(*extent);
        }
        let mut named = Segments::new(count * per_extent);
        let segments = extents.len() as u64 * per_extent;
        let sound = self.writers.array.read(&self.map, segments, |place| {
            place.tag() == 0
                && units.contains(place.number() / per_extent)
                && named.insert(place.number())
        })?;
        Ok((sound, named))
    }

    /// Segments that nothing names are free; extents without any other go back to the pool.
    fn find_free(&self, named: &Segments) -> Result<()> {
        let mut free = self.free();
        for extent in self.map.unit_extents() {
            let is_free = |number: &u64| !named.contains(*number);
            if self.segments_of(extent).all(|number| is_free(&number)) {
                self.pool.release_extent(extent)?;
            } else {
                free.units.add(extent, self.segments_of(extent).filter(is_free));
            }
        }
        Ok(())
    }

    /// The figures of [`IndexBase::stats`](crate::index::IndexBase::stats).
    pub(super) fn figures(&self) -> IndexStats {
        let segments = self.writers.growth.units();
        // Before all are counted, which repairs those that are not yet.
        let (repairs, unrepaired) = (self.writers.repairs.get(), self.unrepaired());
        let depth = self.directory.depth();
        let arrays = Array::extents(&self.map, depth) * self.pool.extent_bytes();
        IndexStats {
            // Nothing but a directory that names what is not there could keep them from being
            // counted, and such a directory is not opened.
            slots_used: self.live_slots().unwrap_or(0),
            slots: segments * self.shape.capacity(),
            medium_bytes: segments * self.shape.segment_bytes() + arrays,
            dram_bytes: self.directory.bytes() + segments * u64::from(self.shape.buckets),
            esh: Some(EshStats { repairs, unrepaired }),
            ..self.writers.growth.figures(depth)
        }
    }

    /// Reads the array, and lists the segments that it does not name, for `check`.
    pub(super) fn read_all(&self) -> Result<(Sound, Vec<u64>)> {
        let (sound, named) = self.read_array()?;
        let per_extent = self.per_extent();
        let extents = self.map.unit_extents().into_iter();
        let numbers = extents.flat_map(|i| i * per_extent..(i + 1) * per_extent);
        Ok((sound, numbers.filter(|number| !named.contains(*number)).collect()))
    }
}
