//! Opening, and checking.
//!
//! Recovery strides the array of the directory from segment to segment, and makes the directory in
//! DRAM of what it meets. No segment is read and nothing is stored, but that extents which nothing
//! names are given back: what a split, a merge or a doubling made that did not commit, or left that
//! did.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::hash::WordMix;
use durahash_media::{ErrorKind, Medium, Place, Reserved, Result, wait_lock};

use super::layout::{BUCKET_BYTES, Head, SLOTS, used_slots};
use super::strategy::{Policy, Shape, Strategy};
use super::{STASH_LOCK, Table, Writers};
use crate::designs::slots_of;
use crate::extendible::array::{Array, Sound};
use crate::extendible::count::IncrementalCount;
use crate::extendible::directory::Directory;
use crate::extendible::growth::{Count, Growth};
use crate::extendible::unit::Unit;
use crate::index::{Finding, IndexStats, PeaStats};

/// The pool's counter of a multimap's entries beyond one a slot, and one more: zero where they were
/// not counted.
pub(crate) const EXTRA_COUNTER: usize = 6;

/// Buckets of a segment for which it has one pair of stash buckets, but at least one pair.
const BUCKETS_PER_PAIR: u32 = 64;

/// The most that [`Policy::first_until`] is in a multimap.
const MULTI_FIRST_UNTIL: u32 = 6;

/// Bytes of locks and count of a segment.
const ROW_BYTES: u64 = 128;

impl<M: Medium, const MULTI: bool> Table<M, MULTI> {
    /// Makes the first two segments, and the root.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full); [`Options`](ErrorKind::Options) for a geometry or policy that
    /// cannot be.
    pub fn create(pool: impl Into<Place<M>>, policy: Policy) -> Result<Self> {
        let pool = pool.into();
        let pea = Self::new(pool, policy)?;
        let images = vec![pea.new_image(), pea.new_image()];
        for fresh in pea.write_images(0, 1, images, || pea.pool.take_unit_extent())? {
            pea.publish(&fresh);
        }
        pea.writers.extra_count.set(0);
        // There is none before it.
        let _ = pea.writers.array.write(&pea.pool, (1, 1), &|i| pea.directory.find(i << 63))?;
        Ok(pea)
    }

    /// Rebuilds the directory in DRAM from the array.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) where the words of the array do not follow each other;
    /// [`Options`](ErrorKind::Options) for a policy that cannot be.
    pub fn open(pool: impl Into<Place<M>>, policy: Policy) -> Result<Self> {
        Self::read(pool.into(), policy)?()
    }

    /// The part of [`open`](Self::open) that stores nothing; it returns the other one.
    pub(crate) fn read(pool: Place<M>, policy: Policy) -> Result<impl FnOnce() -> Result<Self>> {
        let mut pea = Self::new(pool, policy)?;
        let sound = pea.read_array()?;
        sound.units.iter().for_each(|(_, place)| pea.count_strategy(*place, 1));
        pea.directory = pea.writers.array.adopt(&sound, &pea.writers.growth)?;
        // A number that the pool cannot hold is none, whatever its checksum says.
        let max_bytes = pea.pool.format().max_bytes;
        let saved = pea.pool.saved(EXTRA_COUNTER).and_then(|count| count.checked_sub(1));
        if let Some(count) = saved.filter(|count| MULTI && *count <= max_bytes) {
            pea.writers.extra_count.set(count);
        }
        Ok(move || {
            pea.pool.begin()?;
            let named: HashSet<u64> = sound.units.iter().map(|(_, place)| place.number()).collect();
            let units = pea.pool.unit_extents();
            for segment in units.into_iter().filter(|extent| !named.contains(extent)) {
                pea.give_up(segment)?;
            }
            pea.writers.array.release_others(&pea.pool, sound.depth)?;
            Ok(pea)
        })
    }

    fn new(pool: Place<M>, policy: Policy) -> Result<Self> {
        let format = pool.format();
        let slots = slots_of(format, SLOTS, "Pea Hash has 2 to 15 slots a bucket")?;
        if !(1..=2).contains(&policy.split_bits) || policy.first > policy.last {
            let what = "Pea Hash splits in two or four, and starts before it ends";
            return Err(ErrorKind::Options { what }.into());
        }
        let buckets = (pool.extent_bytes() / BUCKET_BYTES) as u32;
        // Format 3 has two stash buckets in segments of any size, and no end bits.
        let is_older = pool.is_of_format_3();
        let pairs = if is_older { 1 } else { (buckets / BUCKETS_PER_PAIR).max(1) };
        // Where a bucket of a multimap is full, a key gets a list.
        let most = if MULTI { MULTI_FIRST_UNTIL } else { SLOTS };
        let first_until = policy.first_until.min(most);
        let max_bytes = pool.max_bytes();
        let growth = Growth::default();
        Ok(Table {
            directory: Directory::new(1, &growth)?,
            rows: Reserved::growing(0, max_bytes.div_ceil(pool.extent_bytes()) * 2)?,
            shape: Shape {
                main: buckets - 2 * pairs,
                pairs,
                end: if is_older { 0 } else { Head::<MULTI>::END },
                // The last slot of a multimap's bucket is for a list.
                slots: slots - u32::from(MULTI),
                used: used_slots(slots),
                policy: Policy { first_until, ..policy },
            },
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
        })
    }

    /// Reads the array: each segment is an extent of its own, with a strategy.
    pub(super) fn read_array(&self) -> Result<Sound> {
        let units = self.pool.unit_extents();
        self.rows.cover(units.last().map_or(0, |last| (last + 1) * 2))?;
        let mut named = HashSet::new();
        self.writers.array.read(&self.pool, units.len() as u64, |place| {
            Strategy::from_tag(place.tag()).is_some()
                && units.binary_search(&place.number()).is_ok()
                && named.insert(place.number())
        })
    }

    /// The figures of [`IndexBase::stats`](crate::index::IndexBase::stats).
    pub(super) fn figures(&self) -> IndexStats {
        let segments = self.writers.growth.units();
        let depth = self.directory.depth();
        let arrays = Array::extents(&self.pool, depth);
        let in_force = &self.writers.in_force;
        let strategies = std::array::from_fn(|i| in_force[i].load(Ordering::Relaxed));
        let strategies_at_start = std::array::from_fn(|i| self.writers.started[i].get());
        IndexStats {
            // Nothing but a directory that names what is not there could keep them from being
            // counted, and such a directory is not opened.
            slots_used: self.live_slots().unwrap_or(0),
            slots: segments * u64::from(self.shape.buckets() * self.shape.used.count_ones()),
            medium_bytes: (segments + arrays) * self.pool.extent_bytes(),
            dram_bytes: self.directory.bytes() + segments * ROW_BYTES,
            pea: Some(PeaStats { strategies, strategies_at_start }),
            ..self.writers.growth.figures(depth)
        }
    }

    /// Verifies PEA-1 to PEA-6, PEA-9 and PEA-10; see the [module docs](super).
    pub(super) fn check_all(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let mut report = |invariant, off, what: String| found(Finding { invariant, off, what });
        let Sound { first, depth, units: segments } = match self.read_array() {
            Ok(read) => read,
            Err(e) => {
                report("PEA-1", 256, e.to_string());
                return Ok(());
            }
        };
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
        let mut named: HashSet<u64> = segments.iter().map(|(_, place)| place.number()).collect();
        named.extend(*wait_lock(&self.writers.reserve, self.medium()));
        let arrays = first..first + Array::extents(&self.pool, depth);
        let units = self.pool.unit_extents().into_iter().filter(|i| !named.contains(i));
        let directories = self.pool.directory_extents().into_iter();
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
        for number in 0..self.shape.buckets() {
            let bucket = self.bucket(segment, number)?;
            let off = self.offset(segment) + u64::from(number) * BUCKET_BYTES;
            let head = self.head(bucket);
            live += u64::from(head.live().count_ones());
            if head.is_gone() {
                report("PEA-9", off, "the head of a bucket is gone, with its slots".to_owned());
            }
            if head.live() & !self.shape.used != 0 {
                report("PEA-2", off, "a slot is live that the geometry does not use".to_owned());
            }
            for i in durahash_media::probe::BitMask(head.live()) {
                let h = self.medium().load(&bucket.slots[i as usize].h);
                if !self.is_found(place, prefix, number, head, i, h) {
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
