//! Opening.
//!
//! The root names the block of tables. After a clean close that is all. Else the commit word of every
//! bucket is read, and moves that were under way are ended: Algorithm 6, but that a slot which is leaving is
//! dropped only if it has a double, wherever that may be, and all of them before the first operation.

use std::sync::{Arc, Mutex};

use durahash_media::probe::BitMask;
use durahash_media::{Error, Medium, Place, Reserved, Result, wait_lock};

use super::block::{block_words, remix_of, tables_in};
use super::cache_sync::CacheSync;
use super::cached::{self, Cached};
use super::layout::{self, BUCKET_BYTES, SAVED, SLOTS, used_slots};
use super::planted::{Fault, planted};
use super::tables::{LiveTables, Table, TableSet};
use super::{Cache, Rewo, Writers};
use crate::designs::slots_of;
use crate::index::{IndexStats, RewoStats};
use crate::util::counter::Counter;
use crate::util::parallel::in_parts;

/// The most locks: they stay in the processor's caches. And the fewest.
const LOCKS_MAX: u64 = 1 << 14;
const LOCKS_MIN: u64 = 16;
/// Bytes that a pool may have for each lock, where these are few.
const LOCK_BYTES: u64 = 1 << 14;

/// Buckets to a piece of the scan, and pieces to a thread.
const PIECE: u64 = 4096;
const PIECES_PER_THREAD: usize = 8;

/// The result of a scan of all buckets.
#[derive(Default)]
struct Scanned {
    live: u64,
    /// Buckets with slots that are leaving.
    leaving: Vec<u64>,
}

impl<M: Medium> Rewo<M> {
    /// Makes the first table, and the root.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full); [`Options`](crate::ErrorKind::Options) for a geometry that cannot be.
    pub fn create(map: impl Into<Place<M>>, cache: Cache) -> Result<Self> {
        let map = map.into();
        let per_extent = map.pool().extent_bytes() / BUCKET_BYTES;
        let extent = map.take_directory_extents(1)?;
        let first = map.take_unit_extents(1)? * per_extent;
        let table = Table { first, shift: per_extent.ilog2() };
        let rewo = Self::new(map, cache, &TableSet::one(table))?;
        let medium = rewo.medium();
        for number in first..first + per_extent {
            let bucket = rewo.bucket(number)?;
            medium.store(&bucket.commit, 0);
            medium.flush(&bucket.commit);
        }
        {
            let mut resizing = rewo.resizing();
            resizing.block = extent * per_extent + 1;
            // Fences what was flushed, too.
            rewo.write_block(&mut resizing, &TableSet::one(table), 0)?;
        }
        rewo.cached.begin(rewo.cache_buckets(&TableSet::one(table)), true);
        Ok(rewo)
    }

    /// Reads which tables there are, and undoes what a crash left half done.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the block of tables is damaged;
    /// [`Options`](crate::ErrorKind::Options) for a geometry that cannot be.
    pub fn open(map: impl Into<Place<M>>, cache: Cache) -> Result<Self> {
        Self::read(map.into(), cache)?()
    }

    /// The part of [`open`](Self::open) that stores nothing; it returns the other one.
    pub(crate) fn read(map: Place<M>, cache: Cache) -> Result<impl FnOnce() -> Result<Self>> {
        let mut found = read_block(&map)?;
        let rewo = Self::new(map, cache, &found.wanted)?;
        let slots: u64 = found.wanted.all().map(|(_, table)| table.buckets()).sum();
        let slots = slots * u64::from(SLOTS);
        let saved = rewo.map.saved(SAVED).filter(|_| rewo.pool.was_clean());
        let saved = saved.and_then(|saved| saved.checked_sub(1)).filter(|live| *live <= slots);
        let mut is_behind = false;
        let scanned = match saved {
            Some(live) => Scanned { live, leaving: Vec::new() },
            None => {
                let cursor = rewo.trusted_cursor(&found)?;
                is_behind = std::mem::replace(&mut found.cursor, cursor) != cursor;
                rewo.scan_all(&found.wanted)?
            }
        };
        rewo.live.add(scanned.live as i64);
        Ok(move || {
            // Before the first store, and before stores are relied on that a killed process left in caches.
            rewo.pool.begin()?;
            rewo.undo_moves(&scanned.leaving)?;
            {
                let mut resizing = rewo.resizing();
                resizing.block = found.number;
                (resizing.cursor, resizing.saved) = (found.cursor, found.cursor);
                if is_behind && rewo.pool.writable().is_ok() {
                    // After a clean close no open would look again.
                    rewo.write_block(&mut resizing, &found.wanted, found.cursor)?;
                }
                rewo.live_tables.pass(&found.wanted, found.cursor);
                rewo.set_pace(&found.wanted, found.cursor);
            }
            let tables: Vec<Table> = found.wanted.all().map(|(_, table)| table).collect();
            for extent in rewo.unnamed(&tables, found.number) {
                rewo.pool.release_extent(extent)?;
            }
            rewo.cached.begin(rewo.cache_buckets(&found.wanted), rewo.live.get() == 0);
            if cache.fill {
                rewo.fill_cache(&found.wanted)?;
            }
            Ok(rewo)
        })
    }

    fn new(map: Place<M>, cache: Cache, wanted: &TableSet) -> Result<Self> {
        let pool = Arc::clone(map.pool());
        let format = map.format();
        let slots = slots_of(format, SLOTS, "Rewo-Hash has 2 to 15 slots a bucket")?;
        let bytes = pool.max_bytes();
        let locks = (bytes / LOCK_BYTES).clamp(LOCKS_MIN, LOCKS_MAX);
        let stripe_mask = locks.next_power_of_two() - 1;
        let cache_bytes = cache.bytes.unwrap_or(bytes / 8).min(bytes);
        let cached = Arc::new(Cached::new(cache_bytes / cached::BUCKET_BYTES)?);
        Ok(Rewo {
            live_tables: LiveTables::new(wanted),
            locks: Reserved::new(stripe_mask + 1)?,
            stripe_mask,
            remix: remix_of(format.seed),
            used: used_slots(slots),
            slots,
            cache_sync: CacheSync::start(cache.sync_threads, &pool, &cached)?,
            cached,
            cache,
            live: Counter::default(),
            writers: Writers::default(),
            pool,
            map,
        })
    }

    /// Reads the commit words of all buckets.
    fn scan_all(&self, wanted: &TableSet) -> Result<Scanned> {
        let pieces: Vec<_> = wanted
            .all()
            .flat_map(|(_, table)| {
                let end = table.first + table.buckets();
                (table.first..end)
                    .step_by(PIECE as usize)
                    .map(move |from| from..(from + PIECE).min(end))
            })
            .collect();
        let all = Mutex::new(Scanned::default());
        in_parts(&pieces, PIECES_PER_THREAD, |pieces| {
            let mut own = Scanned::default();
            for number in pieces.iter().cloned().flatten() {
                let commit = self.commit(self.bucket(number)?);
                own.live += u64::from(commit.count());
                if commit.leaving() != 0 {
                    own.leaving.push(number);
                }
            }
            let mut all = wait_lock(&all, self.medium());
            all.live += own.live;
            all.leaving.extend(own.leaving);
            Ok(())
        })?;
        let mut all = all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.leaving.sort_unstable();
        Ok(all)
    }

    /// The cursor of a resize, or the first bucket before it that is not as empty as it should be: of what
    /// is not moved when its table is given up, nothing would be known any more. Where a part of each
    /// bucket stays and pages may be of different ages, all of the sources are walked over again.
    fn trusted_cursor(&self, found: &TablesBlock) -> Result<u64> {
        if self.pool.is_suspect() && !found.wanted.empties_sources() {
            return Ok(0);
        }
        if found.wanted.empties_sources() {
            let sources = found.wanted.sources().flat_map(|(_, table)| table.numbers());
            for (at, number) in (0..found.cursor).zip(sources) {
                if self.commit(self.bucket(number)?).live() != 0 {
                    return Ok(at);
                }
            }
        }
        Ok(found.cursor)
    }

    /// Drops every slot that is leaving and has come to where it was going; the others stay.
    fn undo_moves(&self, leaving: &[u64]) -> Result<()> {
        let medium = self.medium();
        let view = self.live_tables.load();
        for number in leaving {
            let bucket = self.bucket(*number)?;
            let before = self.commit(bucket);
            let mut live = before.live();
            for slot in BitMask(before.leaving() & live) {
                let h = medium.load(&bucket.slots[slot as usize].h);
                let places = self.live_tables.places(view, h, self.remix.mix(h));
                if planted(Fault::MarkedDropped)
                    || !planted(Fault::BothKept)
                        && self.has_double(h, places.all(), (*number, slot))?
                {
                    live &= !(1 << slot);
                    self.live.add(-1);
                }
            }
            let marks = if planted(Fault::MarksStay) { before.leaving() & live } else { 0 };
            self.clear(bucket, before.keep(live, marks));
        }
        if !leaving.is_empty() {
            medium.drain();
        }
        Ok(())
    }

    /// True if a hash is live in one of some buckets, and not leaving; not counting one slot.
    fn has_double(&self, h: u64, places: &[u64], but: (u64, u32)) -> Result<bool> {
        let view = self.live_tables.load();
        let mut found = false;
        for number in places {
            self.each_slot(view, *number, &mut |other| {
                found |= other.h == h && !other.leaves && (*number, other.slot) != but;
            })?;
        }
        Ok(found)
    }

    /// Extents in use that are of none of some tables, and not that of a block's number.
    pub(super) fn unnamed(&self, tables: &[Table], block: u64) -> Vec<u64> {
        let per_extent = self.pool.extent_bytes() / BUCKET_BYTES;
        let is_named = |extent: &u64| tables.iter().any(|table| table.has(extent * per_extent));
        let units = self.map.unit_extents().into_iter().filter(|extent| !is_named(extent));
        let directories = self.map.directory_extents().into_iter();
        units.chain(directories.filter(|extent| *extent != block / per_extent)).collect()
    }

    /// Copies everything into the cached table, as far as it goes.
    fn fill_cache(&self, wanted: &TableSet) -> Result<()> {
        self.cached.begin(self.cache_buckets(wanted), true);
        let view = self.live_tables.load();
        for number in wanted.all().flat_map(|(_, table)| table.numbers()) {
            self.each_slot(view, number, &mut |slot| {
                if slot.is_found {
                    let remixed = self.remix.mix(slot.h);
                    self.cached.add(self.medium(), slot.h, remixed, slot.payload);
                }
            })?;
        }
        Ok(())
    }

    /// The figures of [`IndexBase::stats`](crate::index::IndexBase::stats).
    pub(super) fn figures(&self) -> IndexStats {
        let wanted = self.live_tables.wanted(self.live_tables.load());
        let buckets: u64 = wanted.all().map(|(_, table)| table.buckets()).sum();
        let cached = self.cached.buckets();
        IndexStats {
            slots_used: self.live.get(),
            slots: buckets * u64::from(self.slots),
            medium_bytes: buckets * BUCKET_BYTES + self.pool.extent_bytes(),
            dram_bytes: (self.stripe_mask + 1) * 8 + cached * cached::BUCKET_BYTES,
            splits: self.writers.grows.get(),
            merges: self.writers.shrinks.get(),
            rewo: Some(RewoStats {
                tables: wanted.all().count() as u64,
                rebuilds: self.writers.rebuilds.get(),
                migrated: self.writers.migrated.get(),
                walked: self.writers.walked.get(),
                cached_slots: cached * u64::from(cached::SLOTS),
                cached_all: self.cached.has_all(),
                replaced: self.cached.replaced(),
                synced: self.cache_sync.as_ref().map_or(0, CacheSync::done),
            }),
            ..IndexStats::default()
        }
    }
}

/// A block of tables that was read and found sound.
pub(super) struct TablesBlock {
    /// Counted in blocks.
    pub(super) number: u64,
    pub(super) wanted: TableSet,
    pub(super) cursor: u64,
}

/// Reads the block that the root names.
///
/// # Errors
/// [`Corrupt`](crate::ErrorKind::Corrupt) where it is damaged, or names what is no table.
pub(super) fn read_block<M: Medium>(map: &Place<M>) -> Result<TablesBlock> {
    let per_extent = map.pool().extent_bytes() / BUCKET_BYTES;
    let number = layout::block_of(remix_of(map.format().seed), map.root(layout::ROOT)?)
        .filter(|block| map.directory_extents().contains(&(block / per_extent)))
        .ok_or_else(|| Error::corrupt("the root of the tables", 256))?;
    let corrupt = || Error::corrupt("the block of tables", number * BUCKET_BYTES);
    let words = block_words(map, number)?.ok_or_else(corrupt)?;
    let wanted = tables_in(map, &words).ok_or_else(corrupt)?;
    // So many extents in a row.
    let units = map.unit_extents();
    let is_run = |(_, table): (usize, Table)| {
        let (first, extents) = (table.first / per_extent, table.buckets() / per_extent);
        let last = first + extents - 1;
        let at = units.binary_search(&first).ok();
        at.is_some_and(|at| units.get(at + (extents - 1) as usize) == Some(&last))
    };
    if !wanted.all().all(is_run) {
        return Err(corrupt());
    }
    // Each table is as large as all before it.
    let sizes = wanted.tables[..wanted.count].iter().flatten().map(|table| table.buckets());
    let is_doubling = sizes
        .enumerate()
        .try_fold(0, |sum, (i, buckets)| (i == 0 || buckets == sum).then_some(sum + buckets));
    if is_doubling.is_none() {
        return Err(corrupt());
    }
    let mut all: Vec<Table> = wanted.all().map(|(_, table)| table).collect();
    all.sort_unstable_by_key(|table| table.first);
    let is_disjoint = all.windows(2).all(|two| !two[0].has(two[1].first));
    let cursor = words[1];
    if !is_disjoint || cursor > wanted.total() {
        return Err(corrupt());
    }
    Ok(TablesBlock { number, wanted, cursor })
}
