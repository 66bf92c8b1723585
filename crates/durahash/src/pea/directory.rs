//! The directory of an extendible hash table, in DRAM.
//!
//! An entry is one word {number of the unit, a tag of the design's, local depth}. There is one buffer
//! for each global depth, kept and reused; the depth that readers use is one word.

use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::{DirectoryLock, ErrorKind, Medium, Result, Rows, bits};

use crate::extend;

/// The largest global depth.
pub(crate) const MAX_DEPTH: u32 = 44;

/// A directory entry: where the unit of a hash is. Equal places are the same unit at the same depth
/// and with the same tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) const fn new(number: u64, depth: u32) -> Self {
        Place(number << 16 | depth as u64)
    }

    /// The same with another tag.
    pub(crate) const fn with_tag(self, tag: u8) -> Self {
        Place(self.0 & !0xff00 | (tag as u64) << 8)
    }

    /// The place in an entry of a buffer that is being filled.
    pub(crate) fn from_entry(entry: &AtomicU64) -> Self {
        Place(entry.load(Ordering::Acquire))
    }

    /// Puts the place into such an entry.
    pub(crate) fn to_entry(self, entry: &AtomicU64) {
        entry.store(self.0, Ordering::Release);
    }

    /// What else the design has to know of the unit.
    #[inline(always)]
    pub(crate) const fn tag(self) -> u8 {
        bits(self.0, 8, 8) as u8
    }

    /// The unit's number.
    #[inline(always)]
    pub(crate) const fn number(self) -> u64 {
        self.0 >> 16
    }

    /// Its local depth.
    #[inline(always)]
    pub(crate) const fn depth(self) -> u32 {
        bits(self.0, 0, 8) as u32
    }
}

/// A place, and the word of the directory that it was read from.
pub(crate) struct Sought<'a> {
    pub(crate) place: Place,
    depth: u32,
    entry: &'a AtomicU64,
}

/// The directory. Readers take no lock; whoever stores entries holds [`Directory::lock`] shared,
/// whoever changes the depth holds it exclusively.
pub(crate) struct Directory {
    depth: AtomicU64,
    buffers: Box<[OnceLock<Rows<1>>]>,
    pub(crate) lock: Apart<DirectoryLock>,
}

/// Keeps what writers store to off the lines that every lookup reads.
#[repr(align(128))]
pub(crate) struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A directory may always have this many entries, and [`ENTRIES_PER_UNIT`] for each unit
/// beyond.
const ENTRIES_ALWAYS: u64 = 1 << 16;
/// With uniform hashes there are about 16 at the most.
pub(crate) const ENTRIES_PER_UNIT: u64 = 256;

impl Directory {
    /// A directory of global depth `depth`, without entries.
    pub(crate) fn new(depth: u32) -> Result<Self> {
        let directory = Directory {
            depth: AtomicU64::new(u64::from(depth)),
            buffers: (0..=MAX_DEPTH).map(|_| OnceLock::new()).collect(),
            lock: Apart(DirectoryLock::new()),
        };
        directory.buffer_for(depth)?;
        Ok(directory)
    }

    /// The global depth.
    #[inline(always)]
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Acquire) as u32
    }

    #[inline(always)]
    fn buffer(&self, depth: u32) -> &Rows<1> {
        self.buffers[depth as usize].get().expect("a buffer is made before its depth is set")
    }

    fn buffer_for(&self, depth: u32) -> Result<&Rows<1>> {
        let buffer = &self.buffers[depth as usize];
        if buffer.get().is_none() {
            // Only the holder of the lock gets here, so nobody else sets it.
            let _ = buffer.set(Rows::new(1 << depth)?);
        }
        Ok(self.buffer(depth))
    }

    /// The place of `h` now.
    #[inline(always)]
    pub(crate) fn find(&self, h: u64) -> Place {
        self.seek(h).place
    }

    /// The place of `h` now, and where that was read.
    #[inline(always)]
    pub(crate) fn seek(&self, h: u64) -> Sought<'_> {
        loop {
            let depth = self.depth();
            let [entry] = self.buffer(depth).row(extend::index(h, depth));
            let place = Place(entry.load(Ordering::Acquire));
            // A buffer that was just given up reads as zeros; the new depth is there already.
            if place.0 != 0 {
                return Sought { place, depth, entry };
            }
        }
    }

    /// Whether `h` is still where it was found.
    #[inline(always)]
    pub(crate) fn is_current(&self, h: u64, sought: &Sought<'_>) -> bool {
        let place = Place(sought.entry.load(Ordering::Acquire));
        (place == sought.place && self.depth() == sought.depth) || self.find(h) == sought.place
    }

    /// Starts to fetch the entry of `h`.
    #[inline(always)]
    pub(crate) fn prefetch(&self, h: u64) {
        let depth = self.depth();
        self.buffer(depth).prefetch(extend::index(h, depth));
    }

    /// Points the entries of a unit to `place`; the caller holds the lock shared, or is alone.
    pub(crate) fn set(&self, prefix: u64, place: Place) {
        let depth = self.depth();
        let buffer = self.buffer(depth);
        for i in extend::entries(prefix, place.depth(), depth) {
            buffer.row(i)[0].store(place.0, Ordering::Release);
        }
    }

    /// Whether all entries of a unit are `place`.
    pub(crate) fn names(&self, prefix: u64, place: Place) -> bool {
        let depth = self.depth();
        let buffer = self.buffer(depth);
        extend::entries(prefix, place.depth(), depth)
            .all(|i| buffer.row(i)[0].load(Ordering::Acquire) == place.0)
    }

    /// Makes the global depth larger than `local`. A design that keeps its directory on the medium,
    /// too, does so in `keep`, which gets the new depth and what will be there.
    ///
    /// # Errors
    /// [`Skewed`](ErrorKind::Skewed) where that would be out of proportion to `units`; those of
    /// `keep`.
    pub(crate) fn double<M: Medium>(
        &self,
        medium: &M,
        local: u32,
        units: u64,
        keep: impl FnOnce(u32, &Rows<1>) -> Result<()>,
    ) -> Result<bool> {
        self.lock.exclusive(medium, || {
            let depth = self.depth();
            if depth > local {
                return Ok(false);
            }
            let entries = 2_u64 << depth;
            if depth == MAX_DEPTH
                || entries > ENTRIES_ALWAYS.max(units.saturating_mul(ENTRIES_PER_UNIT))
            {
                return Err(ErrorKind::Skewed { depth: depth + 1 }.into());
            }
            let to = self.buffer_for(depth + 1)?;
            let from = self.buffer(depth);
            for i in 0..1 << depth {
                // A late reader may look into a buffer that is being filled again, so what an entry
                // names goes with it.
                let entry = from.row(i)[0].load(Ordering::Acquire);
                to.row(2 * i)[0].store(entry, Ordering::Release);
                to.row(2 * i + 1)[0].store(entry, Ordering::Release);
            }
            keep(depth + 1, to)?;
            self.switch(depth + 1);
            Ok(true)
        })
    }

    /// Halves the directory if `unused` says, under the lock, that no unit has the present depth
    /// or the one below: a depth to spare, so that splits and merges in turn do not double and
    /// halve each time. `keep` as in [`double`](Self::double); where it fails, all stays as it is.
    pub(crate) fn halve<M: Medium>(
        &self,
        medium: &M,
        unused: impl Fn(u32) -> bool,
        keep: impl FnOnce(u32, &Rows<1>) -> Result<()>,
    ) -> bool {
        self.lock.exclusive(medium, || {
            let depth = self.depth();
            if depth < 3 || !unused(depth) || !unused(depth - 1) {
                return false;
            }
            let Ok(to) = self.buffer_for(depth - 1) else {
                return false;
            };
            let from = self.buffer(depth);
            for i in 0..1 << (depth - 1) {
                // As in `double`.
                to.row(i)[0].store(from.row(2 * i)[0].load(Ordering::Acquire), Ordering::Release);
            }
            if keep(depth - 1, to).is_err() {
                return false;
            }
            self.switch(depth - 1);
            true
        })
    }

    /// Publishes the filled buffer of `depth`, then gives the other's memory back.
    fn switch(&self, depth: u32) {
        let before = self.depth.swap(u64::from(depth), Ordering::AcqRel) as u32;
        self.buffer(before).release();
    }

    /// Bytes of the buffer in use.
    pub(crate) fn bytes(&self) -> u64 {
        8 << self.depth()
    }
}
