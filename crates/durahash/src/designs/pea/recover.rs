//! Opening, and checking.
//!
//! Recovery strides the array of the directory from segment to segment, and makes the directory in
//! DRAM from them. No segment is read and nothing is stored, but that extents which nothing
//! names are given back: those made by a split, a merge or a doubling that did not commit, or left by one
//! that did.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::hash::WordMix;
use durahash_media::{ErrorKind, Medium, Place, Reserved, Result, wait_lock};

use super::layout::BUCKET_BYTES;
use super::strategy::{Policy, Shape, Strategy, is_small};
use super::{STASH_LOCK, Table, Writers};
use crate::extendible::array::{Array, Sound};
use crate::extendible::count::IncrementalCount;
use crate::extendible::directory::Directory;
use crate::extendible::growth::{Count, Growth};
use crate::extendible::unit::Unit;
use crate::index::{Finding, IndexStats, PeaStats};

/// The pool's counter of a multimap's entries beyond one a slot, and one more: zero where they were
/// not counted.
pub(crate) const EXTRA_COUNTER: usize = 6;

/// Bytes of locks and count of a segment, which stand apart by as many extents as the segments.
const ROW_BYTES: u64 = 128;

impl<M: Medium, const MULTI: bool> Table<M, MULTI> {
    /// Makes the first two segments, and the root.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full); [`Options`](ErrorKind::Options) for a geometry or policy that
    /// cannot be.
    pub fn create(map: impl Into<Place<M>>, policy: Policy) -> Result<Self> {
        let map = map.into();
        let pea = Self::new(map, policy)?;
        if pea.large.extents > 1 {
            pea.sizes.store(pea.large.small(pea.pool.extent_bytes()).to_word(), Ordering::Release);
        }
        let images = [(); 2].map(|()| pea.new_image(pea.shape())).into();
        let take = |extents| pea.map.take_unit_extents(extents);
        for fresh in pea.write_images(0, 1, images, take)? {
            pea.publish(&fresh);
        }
        pea.writers.extra_count.set(0);
        // There is none before it.
        let _ = pea.writers.array.write(&pea.map, (1, 1), &|i| pea.directory.find(i << 63))?;
        Ok(pea)
    }

    /// Rebuilds the directory in DRAM from the array.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) where the words of the array do not follow each other;
    /// [`Options`](ErrorKind::Options) for a policy that cannot be.
    pub fn open(map: impl Into<Place<M>>, policy: Policy) -> Result<Self> {
        Self::read(map.into(), policy)?()
    }

    /// The part of [`open`](Self::open) that stores nothing; it returns the other one.
    pub(crate) fn read(map: Place<M>, policy: Policy) -> Result<impl FnOnce() -> Result<Self>> {
        let mut pea = Self::new(map, policy)?;
        let sound = pea.read_array()?;
        sound.units.iter().for_each(|(_, place)| pea.count_strategy(*place, 1));
        if sound.units.iter().any(|(_, place)| is_small(*place)) {
            pea.sizes.store(pea.large.small(pea.pool.extent_bytes()).to_word(), Ordering::Release);
        }
        pea.directory = pea.writers.array.adopt(&sound, &pea.writers.growth)?;
        // A number that the pool cannot hold is none, whatever its checksum says.
        let max_bytes = pea.map.format().max_bytes;
        let saved = pea.map.saved(EXTRA_COUNTER).and_then(|count| count.checked_sub(1));
        if let Some(count) = saved.filter(|count| MULTI && *count <= max_bytes) {
            pea.writers.extra_count.set(count);
        }
        Ok(move || {
            pea.pool.begin()?;
            let named = pea.extents_of_all(&sound);
            let mut unnamed = pea.map.unit_extents();
            unnamed.retain(|extent| !named.contains(extent));
            // The first that are a large segment's are kept.
            let shape = pea.shape();
            let last = shape.extents as usize - 1;
            let is_run = |some: &[u64]| some[last] - some[0] == last as u64;
            let run = unnamed.windows(last + 1).position(is_run).filter(|_| !shape.is_small);
            if let Some(at) = run {
                *wait_lock(&pea.writers.reserve, pea.medium()) = Some(unnamed[at]);
                unnamed.drain(at..=at + last);
            }
            unnamed.into_iter().try_for_each(|extent| pea.pool.release_extent(extent))?;
            pea.writers.array.release_others(&pea.map, sound.depth)?;
            Ok(pea)
        })
    }

    fn new(map: Place<M>, policy: Policy) -> Result<Self> {
        let pool = Arc::clone(map.pool());
        let format = map.format();
        if !(1..=2).contains(&policy.split_bits) || policy.first > policy.last {
            let what = "Pea Hash splits in two or four, and starts before it ends";
            return Err(ErrorKind::Options { what }.into());
        }
        let max_bytes = pool.max_bytes();
        let large = Shape::large(&map, MULTI, policy)?;
        let growth = Growth::default();
        Ok(Table {
            directory: Directory::new(1, &growth)?,
            rows: Reserved::growing(0, max_bytes.div_ceil(pool.extent_bytes()) * 2)?,
            large,
            sizes: AtomicU64::new(large.to_word()),
            mix: WordMix::new(format.seed),
            writers: Writers {
                growth,
                in_force: [const { AtomicU64::new(0) }; 3],
                started: [const { Count::new() }; 3],
                array: Array::new(format.seed),
                reserve: std::sync::Mutex::default(),
                scratch: std::sync::Mutex::default(),
                numbers: AtomicU64::new(Self::first_number(pool.epoch())),
                extra_count: IncrementalCount::default(),
            },
            pool,
            map,
        })
    }

    /// The extents of all segments of an array.
    fn extents_of_all(&self, sound: &Sound) -> HashSet<u64> {
        sound.units.iter().flat_map(|(_, place)| self.extents(*place)).collect()
    }

    /// Reads the array: each segment has extents of its own, and a strategy; or two are small.
    pub(super) fn read_array(&self) -> Result<Sound> {
        let units = self.map.unit_extents();
        self.rows.cover(units.last().map_or(0, |last| (last + 1) * 2))?;
        let mut named = HashSet::new();
        let mut all_small = None;
        let segments = (units.len() as u64).div_ceil(self.large.extents);
        self.writers.array.read(&self.map, segments, |place| {
            let is_small = is_small(place);
            let may_be = if is_small {
                self.large.extents > 1 && place.depth() == 1
            } else {
                Strategy::from_tag(place.tag()).is_some()
            };
            may_be
                && *all_small.get_or_insert(is_small) == is_small
                && self.extents(place).all(|i| units.binary_search(&i).is_ok() && named.insert(i))
        })
    }

    /// The figures of [`IndexBase::stats`](crate::index::IndexBase::stats).
    pub(super) fn figures(&self) -> IndexStats {
        let segments = self.writers.growth.units();
        let (depth, shape) = (self.directory.depth(), self.shape());
        let arrays = Array::extents(&self.map, depth);
        let in_force = &self.writers.in_force;
        let strategies = std::array::from_fn(|i| in_force[i].load(Ordering::Relaxed));
        let strategies_at_start = std::array::from_fn(|i| self.writers.started[i].get());
        IndexStats {
            // Nothing but a directory that names what is not there could keep them from being
            // counted, and such a directory is not opened.
            slots_used: self.live_slots().unwrap_or(0),
            slots: segments * u64::from(shape.buckets() * shape.used.count_ones()),
            medium_bytes: (segments * shape.extents + arrays) * self.pool.extent_bytes(),
            dram_bytes: self.directory.bytes() + segments * shape.extents * ROW_BYTES,
            pea: Some(PeaStats { strategies, strategies_at_start }),
            ..self.writers.growth.figures(depth)
        }
    }

    /// Verifies PEA-1 to PEA-6, PEA-9 and PEA-10; see the [module docs](super).
    pub(super) fn check_all(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let mut report = |invariant, off, what: String| found(Finding { invariant, off, what });
        let sound = match self.read_array() {
            Ok(read) => read,
            Err(e) => {
                report("PEA-1", 256, e.to_string());
                return Ok(());
            }
        };
        let mut named = self.extents_of_all(&sound);
        let Sound { first, depth, units: segments } = sound;
        if (first, depth) != (self.writers.array.first(), self.directory.depth()) {
            report("PEA-4", 256, "the root and the directory in use differ".to_owned());
            return Ok(());
        }
        let mut depths = vec![0; depth as usize + 1];
        for (prefix, place) in &segments {
            depths[place.depth() as usize] += 1;
            if !self.directory.names(*prefix, place.depth(), place.to_word()) {
                let what = format!("a directory entry of {prefix:#018x} names something else");
                report("PEA-1", self.offset(place.number()), what);
            }
            self.check_segment(*prefix, *place, &mut report)?;
        }
        self.writers.growth.check(&depths, "segments", |what| report("PEA-6", 0, what));
        let reserve = *wait_lock(&self.writers.reserve, self.medium());
        let units = self.map.unit_extents();
        for i in reserve.into_iter().flat_map(|first| first..first + self.large.extents) {
            if !named.insert(i) || units.binary_search(&i).is_err() {
                report(
                    "PEA-5",
                    self.offset(i),
                    "an extent that is not kept for a merge".to_owned(),
                );
            }
        }
        let arrays = first..first + Array::extents(&self.map, depth);
        let units = units.into_iter().filter(|i| !named.contains(i));
        let directories = self.map.directory_extents().into_iter();
        for i in units.chain(directories.filter(|i| !arrays.contains(i))) {
            report("PEA-5", self.offset(i), "an extent that nothing names".to_owned());
        }
        Ok(())
    }

    /// PEA-2, PEA-3, PEA-9 and PEA-10, the count and the locks of one segment.
    fn check_segment(
        &self,
        prefix: u64,
        place: Unit,
        report: &mut impl FnMut(&'static str, u64, String),
    ) -> Result<()> {
        let segment = place.number();
        let mut hashes = HashSet::new();
        let mut live = 0;
        for number in 0..self.shape().buckets() {
            let bucket = self.bucket(segment, number)?;
            let off = self.offset(segment) + u64::from(number) * BUCKET_BYTES;
            let head = self.head(bucket);
            live += u64::from(head.live().count_ones());
            if head.is_gone() {
                report("PEA-9", off, "the head of a bucket is gone, with its slots".to_owned());
            }
            if head.live() & !self.shape().used != 0 {
                report("PEA-2", off, "a slot is live that the geometry does not use".to_owned());
            }
            for i in durahash_media::probe::BitMask(head.live()) {
                let h = self.medium().load(&bucket.slots[i as usize].h);
                if !self.shape().finds((prefix, place), number, head, (i, h)) {
                    report("PEA-2", off, format!("no lookup finds {h:#018x} in slot {i}"));
                } else if !hashes.insert(h) && !MULTI {
                    report("PEA-3", off, format!("hash {h:#018x} is there twice"));
                } else if self.is_cut_off(segment, number, h)? {
                    let what = format!("lookups of {h:#018x} end before they come to slot {i}");
                    report("PEA-10", off, what);
                }
            }
        }
        let count = self.counted(segment);
        if count != 0 && count - 1 != live {
            let what = format!("{live} live slots, the count says {}", count - 1);
            report("PEA-6", self.offset(segment), what);
        }
        if (0..=STASH_LOCK).any(|i| self.lock(segment, i).is_locked()) {
            report("PEA-6", self.offset(segment), "a lock is held".to_owned());
        }
        Ok(())
    }
}
