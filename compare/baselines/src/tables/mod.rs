//! Hash tables of other papers, on a medium of durahash: CCEH, Dash and Level hashing.
//!
//! Each is written from its paper, and is as crash-safe as that makes it. `cceh.rs`, `dash/` and `level.rs` say at
//! their beginning what is kept of the paper and where they depart from it; `directory.rs` is what two of them have in
//! common. Keys and values are words, and a key is its own hash, as for the designs: the maps in front of them mix it.
//!
//! - **Space.** Their segments, levels and directories are extents of a [`Pool`], which finds free space again after a
//!   crash. The papers leave that to an allocator.
//! - **Threads.** [`Shared`] has one lock in DRAM for a whole table: one writer, or readers. The papers' own locks
//!   (CCEH: one for a segment; Dash: versions in the buckets; Level hashing: one for a slot) are not here, so what is
//!   counted is without the lines that locks store to, and what threads gain is not to be measured.
//! - **Strings.** Keys may be strings of 16 bytes, in records that slots name (`keys.rs`).
//! - **Closing.** They keep no check words: a pool of theirs is measured in the open that made it.

mod cceh;
mod dash;
mod directory;
mod keys;
mod level;

#[cfg(test)]
mod crash;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use durahash::index::{Change, Index, IndexBase, Reader, Room, Updater};
use durahash::{Finding, IndexStats, Map};
use durahash_bench::{Make, driver};
use durahash_media::hash::WordMix;
use durahash_media::{Event, Format, Geometry, Medium, PmU64, Pool, Result, on_media};

use cceh::Cceh;
use dash::Dash;
pub(crate) use keys::Keys;
use level::Level;

on_media! {
    /// A slot.
    pub(crate) struct Slot: 16, align 16 {
        /// The key.
        pub(crate) key: PmU64,
        /// Its value.
        pub(crate) value: PmU64,
    }
}

/// The second hash of a key, for tables that have two.
const SECOND: WordMix = WordMix::new(2);

/// The space of a table.
pub(crate) struct Space {
    /// Slots, free ones too.
    pub(crate) slots: u64,
    /// Bytes of segments or levels, and of the directory.
    pub(crate) bytes: u64,
    /// Splits or resizes since the open.
    pub(crate) growths: u64,
}

/// A table of a paper, as one writer or several readers use it. A key is named by its hash.
pub(crate) trait Table: Send + Sync {
    /// Where a key is.
    type At: Copy;

    /// Where a key is, and its value.
    fn find(&self, key: u64) -> Result<Option<(Self::At, u64)>>;

    /// Inserts a key that is not there. An error has changed nothing that is found.
    fn insert(&mut self, key: u64, value: u64) -> Result<()>;

    /// Changes the value of a key.
    fn update(&mut self, at: Self::At, key: u64, value: u64) -> Result<()>;

    /// Removes a key.
    fn remove(&mut self, at: Self::At, key: u64) -> Result<()>;

    /// Calls `f` with all keys and their values.
    fn each(&self, f: &mut dyn FnMut(u64, u64)) -> Result<()>;

    /// Its space.
    fn space(&self) -> Space;

    /// Verifies what else must hold, beside that no key is there twice.
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()>;
}

/// A table that threads share, as the driver of benchmarks and the crash tester use it.
pub(crate) struct Shared<M: Medium, T> {
    pool: Arc<Pool<M>>,
    table: RwLock<T>,
    /// How many keys there are. The papers keep no such number.
    count: AtomicU64,
    mix: WordMix,
}

impl<M: Medium, T: Table> Shared<M, T> {
    /// A table in a pool.
    pub(crate) fn new(pool: Arc<Pool<M>>, table: T) -> Result<Self> {
        let mix = WordMix::new(pool.format().seed);
        let mut count = 0;
        table.each(&mut |_, _| count += 1)?;
        Ok(Shared { pool, table: RwLock::new(table), count: count.into(), mix })
    }

    fn reading<R>(&self, read: impl FnOnce(&T) -> Result<R>) -> Result<R> {
        read(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn as_operation<R>(&self, act: impl FnOnce() -> Result<R>) -> Result<R> {
        self.pool.medium().event(Event::Begin);
        let done = act();
        self.pool.medium().event(Event::Ack);
        done
    }

    fn change(&self, key: u64, f: Updater<'_>) -> Result<Option<u64>> {
        self.pool.writable()?;
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        self.pool.medium().event(Event::Locked(0));
        let done = change(&mut *table, key, f, &self.count);
        self.pool.medium().event(Event::Unlocked(0));
        done
    }
}

/// The writer's part of an operation.
fn change(
    table: &mut impl Table,
    key: u64,
    f: Updater<'_>,
    count: &AtomicU64,
) -> Result<Option<u64>> {
    let found = table.find(key)?;
    let value = found.map(|(_, value)| value);
    match (f(value)?, found) {
        (Change::Set(new), Some((at, _))) => table.update(at, key, new)?,
        (Change::Set(new), None) => {
            table.insert(key, new)?;
            count.fetch_add(1, Ordering::Relaxed);
        }
        (Change::Remove, Some((at, _))) => {
            table.remove(at, key)?;
            count.fetch_sub(1, Ordering::Relaxed);
        }
        (Change::Keep, _) | (Change::Remove, None) => {}
    }
    Ok(value)
}

impl<M: Medium, T: Table> IndexBase for Shared<M, T> {
    type Slot = u64;

    /// All at once.
    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        let from = out.len();
        self.reading(|table| {
            table.each(&mut |key, value| {
                if key >= at {
                    out.push((key, value));
                }
            })
        })?;
        out[from..].sort_unstable();
        Ok(None)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.count.load(Ordering::Relaxed))
    }

    fn stats(&self) -> IndexStats {
        let mut stats = IndexStats::default();
        stats.slots_used = self.count.load(Ordering::Relaxed);
        let space = self.table.read().unwrap_or_else(PoisonError::into_inner).space();
        (stats.slots, stats.medium_bytes, stats.splits) = (space.slots, space.bytes, space.growths);
        stats
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let mut all = Vec::new();
        self.scan(0, &mut all)?;
        for pair in all.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            found(Finding::new("TABLE-1", 0, format!("key {:#x} is there twice", pair[0].0)));
        }
        self.reading(|table| table.check(found))
    }
}

impl<M: Medium, T: Table> Index for Shared<M, T> {
    fn get(&self, h: u64) -> Result<Option<u64>> {
        self.as_operation(|| self.reading(|table| Ok(table.find(h)?.map(|(_, value)| value))))
    }

    fn read(&self, h: u64, f: Reader<'_>) -> Result<()> {
        self.as_operation(|| {
            self.reading(|table| f(table.find(h)?.map(|(_, value)| value), &|| true))
        })
    }

    fn update(&self, h: u64, _room: Room, f: Updater<'_>) -> Result<Option<u64>> {
        self.as_operation(|| self.change(h, f))
    }
}

impl<M: Medium, T: Table> driver::Table for Shared<M, T> {
    fn get(&self, key: u64) -> durahash_bench::Result<Option<u64>> {
        Ok(Index::get(self, self.mix.mix(key))?)
    }

    fn put(&self, key: u64, value: u64) -> durahash_bench::Result<()> {
        let set = &mut |_| Ok(Change::Set(value));
        Ok(self.update(self.mix.mix(key), Room::ForNew, set).map(drop)?)
    }

    fn remove(&self, key: u64) -> durahash_bench::Result<bool> {
        let remove = &mut |_| Ok(Change::Remove);
        Ok(self.update(self.mix.mix(key), Room::None, remove)?.is_some())
    }
}

/// A table that is measured: one of these, or a map of durahash.
pub(crate) trait Subject: driver::Table {
    /// Its figures.
    fn figures(&self) -> IndexStats;

    /// Makes room for so many more keys, where a table can before they come.
    fn reserve(&self, _keys: u64) -> durahash_bench::Result<()> {
        Ok(())
    }

    /// Does a step of a resize that goes on beside operations; false if there is none.
    fn step(&self) -> durahash_bench::Result<bool> {
        Ok(false)
    }
}

impl<M: Medium, T: Table> Subject for Shared<M, T> {
    fn figures(&self) -> IndexStats {
        self.stats()
    }
}

impl Subject for Map<u64, u64> {
    fn figures(&self) -> IndexStats {
        self.index_stats()
    }

    fn reserve(&self, keys: u64) -> durahash_bench::Result<()> {
        Ok(Map::reserve(self, keys)?)
    }

    fn step(&self) -> durahash_bench::Result<bool> {
        Ok(Map::step(self)?)
    }
}

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Baseline {
    Cceh,
    /// With two segments for each key.
    CcehOfTwo,
    Dash,
    Level,
}

impl Baseline {
    /// All of them.
    pub(crate) const ALL: [Baseline; 4] =
        [Baseline::Cceh, Baseline::CcehOfTwo, Baseline::Dash, Baseline::Level];

    /// The name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Baseline::Cceh => "cceh",
            Baseline::CcehOfTwo => "cceh of two",
            Baseline::Dash => "dash",
            Baseline::Level => "level",
        }
    }
}

/// A table of a paper, and log2 of the bytes of its segments, or of the first top level of Level hashing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfSize {
    pub(crate) baseline: Baseline,
    pub(crate) shift: u8,
    pub(crate) keys: Keys,
}

impl Make for Baseline {
    type Made = Box<dyn Subject>;

    fn on<M: Medium>(self, medium: M) -> durahash_bench::Result<Box<dyn Subject>> {
        OfSize { baseline: self, shift: 14, keys: Keys::Words }.on(medium)
    }
}

impl Make for OfSize {
    type Made = Box<dyn Subject>;

    fn on<M: Medium>(self, medium: M) -> durahash_bench::Result<Box<dyn Subject>> {
        // A segment is an extent.
        let geometry = Geometry { extent_shift: self.shift, ..Geometry::default() };
        let format = Format::of_index(0, geometry, medium.region().max_bytes());
        let pool = Arc::new(Pool::create(medium, &format)?);
        pool.publish()?;
        let for_table = Arc::clone(&pool);
        let keys = self.keys;
        Ok(match self.baseline {
            Baseline::Cceh => Box::new(Shared::new(pool, Cceh::create(for_table, false, keys)?)?),
            Baseline::CcehOfTwo => {
                Box::new(Shared::new(pool, Cceh::create(for_table, true, keys)?)?)
            }
            Baseline::Dash => Box::new(Shared::new(pool, Dash::create(for_table, keys)?)?),
            Baseline::Level => Box::new(Shared::new(pool, Level::create(for_table, keys)?)?),
        })
    }
}
