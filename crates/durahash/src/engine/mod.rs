//! Maps and multimaps without type parameters, compiled once whatever the types of keys and values are: an
//! index of words, and a pool that has byte strings.
//!
//! The way of a call, from [`api`](crate::api):
//!
//! - Of words (key and value both fit one): straight to the [`Index`](crate::index::Index), a design; the
//!   hash is a bijection of the key, the payload is the value.
//! - Of byte strings: `map.rs` or `multi_map.rs`, which look for the key among the `records.rs` of its hash,
//!   in the slot that the index has of it. `edit.rs` is a change of one key. Where keys and values have fixed
//!   sizes, a record without a next one is a cell (`cell.rs`). `known.rs` says which records are verified.
//! - Of several keys, all or none: `batch.rs`.
//! - Of files: `open.rs`, `compact.rs`, `backup.rs`.
//!
//! `durable.rs` stands between these and the design: behind a log an operation waits there until it is durable.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};
use std::time::{Duration, Instant};

use durahash_media::hash::WordMix;
use durahash_media::{
    Dram, Durability, Error, ErrorKind, Format, Limit, Medium, Place, Pool, Result,
};

use self::cell::Cell;
use self::data::{Data, Type};
use self::design::Design;
use self::durable::Lookup;
use self::known::Known;
use self::record::{Hashes, Store, offset};
use self::records::{Pair, Records};
use self::settings::DesignOptions;
use self::stats::Stats;
use crate::index::{Finding, IndexBase, IndexStats, MultiIndex, PREFETCHED};

// From low to high.
pub(crate) mod data;
pub(crate) mod design;
pub(crate) mod outcome;

pub(crate) mod expiry;

pub(crate) mod cell;
pub(crate) mod known;

pub(crate) mod record;

pub(crate) mod durable;
pub(crate) mod records;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod text;
pub(crate) mod walk;
pub(crate) mod wrappers;

pub(crate) mod spec;

// These use the engine itself, below.
pub(crate) mod maps;

pub(crate) mod edit;
pub(crate) mod entries;

pub(crate) mod batch;
pub(crate) mod forget;

pub(crate) mod open;

pub(crate) mod compact;

pub(crate) mod backup;

pub(crate) mod map;
pub(crate) mod multi_map;

/// A map: one value for each key.
pub(crate) enum Single {}

/// A multimap: any number of values for each key.
pub(crate) enum Multi {}

/// Bytes of a slot, of any design.
pub(crate) const ENTRY_BYTES: u64 = 16;

/// Bytes of memory that room for an entry takes, of any design, at the most: the number of units is a power of two.
const RESERVED_BYTES: u64 = 72;

/// The pool's counter of records that hang on others, and one more: zero where they were not counted.
/// Designs take theirs from the other end.
const CHAINED_COUNTER: usize = 6;

/// Design, its options, and true for a new index.
pub(crate) type Made = (Design, DesignOptions, bool);

/// The rest of making or opening an index: the part that may store.
pub(crate) type Rest<I> = Box<dyn FnOnce() -> Result<Box<I>>>;

/// The differences between a map and a multimap.
pub(crate) trait Kind: Sized + 'static {
    /// The kind's number in the superblock.
    const NUMBER: u8;
    /// The design of a new pool, unless another is asked for.
    const DESIGN: Design;
    /// The index that a design offers for it.
    type Index: IndexBase<Slot = Self::Slot> + ?Sized;
    /// The content of a slot, as an index scans it.
    type Slot: Copy;

    /// The index of a map: a new one where there is nothing, or the one that is there, which is read, and found
    /// sound, here.
    fn index<M: Medium>(place: Place<M>, made: Made) -> Result<Rest<Self::Index>>;

    /// The same, of a pool whose medium is forgotten.
    fn index_of(host: &dyn Host, map: u8, made: Made) -> Result<Rest<Self::Index>>;

    /// An engine of this kind as one of any.
    fn member(engine: Arc<Engine<Self>>) -> Member;

    /// The engine, if it is of this kind.
    fn of(member: &Member) -> Option<&Arc<Engine<Self>>>;

    /// True if slots name blocks.
    fn names_blocks(_engine: &Engine<Self>) -> bool {
        true
    }

    /// Marks the blocks in use by the slots of a unit, as they were a moment ago.
    fn mark_unit(engine: &Engine<Self>, unit: &[(u64, Self::Slot)]) -> Result<()>;

    /// Frees the blocks that the slots of a unit name, of a map that is no more.
    fn free_unit(engine: &Engine<Self>, unit: &[(u64, Self::Slot)]) -> Result<()>;

    /// Takes the slots of one hash, or of more, off the end of `unit`, and adds their entries: hash and
    /// value if these are words, else key and value. Damage is reported after the others were found.
    fn take(
        engine: &Engine<Self>,
        unit: &mut Vec<(u64, Self::Slot)>,
        words: &mut Vec<(u64, u64)>,
        pairs: &mut Vec<Pair>,
    ) -> Result<()>;

    /// Verifies every invariant of the map alone; the blocks that it names. `watch` is told how many entries of
    /// how many were looked at.
    fn check_own(
        engine: &Engine<Self>,
        found: &mut dyn FnMut(Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<HashSet<u64>>;

    /// How many entries there are.
    fn len(engine: &Engine<Self>) -> Result<u64>;

    /// Adds an entry of words; a map has no value of its key yet, a multimap any number of them.
    fn add_word(engine: &Engine<Self>, h: u64, payload: u64) -> Result<()>;

    /// The same of an entry of byte strings.
    fn add_pair(engine: &Engine<Self>, key: &[u8], value: &[u8]) -> Result<()>;

    /// Leaves state in the pool, before it is closed, that the next open can use.
    fn save(engine: &Engine<Self>);
}

/// Where a pool is made or opened.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    /// A new one in memory.
    Memory,
    /// A new file.
    New(&'a Path),
    /// A file that is there.
    Existing(&'a Path),
}

/// A map of either kind.
#[derive(Clone)]
pub(crate) enum Member {
    /// A map.
    Single(Arc<Engine<Single>>),
    /// A multimap.
    Multi(Arc<Engine<Multi>>),
}

/// Makes and opens the indexes of a pool, its medium forgotten.
pub(crate) trait Host: Send + Sync {
    /// The pool.
    fn store(&self) -> Arc<dyn Store>;

    /// As [`Kind::index`] of a map.
    fn single(&self, map: u8, made: Made) -> Result<Rest<dyn Lookup>>;

    /// As [`Kind::index`] of a multimap.
    fn multi(&self, map: u8, made: Made) -> Result<Rest<dyn MultiIndex>>;
}

impl<M: Medium> Host for Arc<Pool<M>> {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(self) as Arc<dyn Store>
    }

    fn single(&self, map: u8, made: Made) -> Result<Rest<dyn Lookup>> {
        Single::index(Place::of(self, map)?, made)
    }

    fn multi(&self, map: u8, made: Made) -> Result<Rest<dyn MultiIndex>> {
        Multi::index(Place::of(self, map)?, made)
    }
}

/// The maps of a pool, as one of them needs them.
pub(crate) trait Peers: Send + Sync {
    /// Marks the blocks of one more unit of one of the maps; true if more is left. Damage that hides slots ends
    /// it for this open: the pool grows then, and is full although there may be space.
    fn sweep_step(&self) -> Result<bool>;

    /// Finds the free space that the pool does not know of yet: ends the sweep, lets the maps give back extents that
    /// they put off, and takes back blocks kept for further records. It may be called while a bucket is locked, if the
    /// sweep has ended.
    fn find_room(&self) -> Result<()>;

    /// True if there is one map.
    fn is_alone(&self) -> bool;
}

/// Takes a mutex whose holder may call the medium: polled, so that a simulated schedule can let
/// the holder go on.
pub(crate) fn lock<'a, T>(mutex: &'a Mutex<T>, store: &dyn Store) -> MutexGuard<'a, T> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            // One assignment changes the data that they guard.
            Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
            Err(TryLockError::WouldBlock) => store.wait(),
        }
    }
}

/// **POOL-4** A block has its check word, if it was not stored to since the last close.
fn check_blocks(store: &dyn Store, found: &mut dyn FnMut(Finding)) {
    store.check_blocks(&mut |off, what| {
        found(Finding { invariant: "POOL-4", off, what: what.to_owned() });
    });
}

/// **REC-3** A block in use is named by a slot (once the sweep has ended).
fn unnamed(off: u64) -> Finding {
    Finding { invariant: "REC-3", off, what: "block in use that no slot names".into() }
}

/// An index and its pool. [`Map`](crate::Map), [`MultiMap`](crate::MultiMap) and the types with `Any`
/// in their names are handles to it.
pub(crate) struct Engine<K: Kind> {
    pub(crate) index: Box<K::Index>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) records: Records,
    /// The number of the map in its pool, and what the pool says of it.
    map: u8,
    format: Format,
    peers: Weak<dyn Peers>,
    pub(crate) design: Design,
    pub(crate) key: Type,
    pub(crate) value: Type,
    /// The hash of keys that are words.
    pub(crate) mix: WordMix,
    /// How long the open took, recovery included.
    open_time: Duration,
    /// How many records hang on others, once it is known; in a map only. Held while a chain changes.
    chained: Mutex<Option<u64>>,
    /// A sweep never comes back.
    swept: AtomicBool,
}

impl<K: Kind> Engine<K> {
    /// `verifies`: lookups verify every record. `start`: when the open began.
    fn new(
        index: Box<K::Index>,
        (store, peers): (Arc<dyn Store>, Weak<dyn Peers>),
        (map, format): (u8, &Format),
        (design, key, value): (Design, Type, Type),
        (is_new, verifies): (bool, bool),
        start: Instant,
    ) -> Result<Self> {
        let hash_bits = format.geometry.hash_bits;
        let cell = Cell::of(key, value, hash_bits)
            .filter(|_| format.cells)
            .map(|cell| if format.in_slots { cell } else { cell.without_slots() });
        let hashes = Hashes::new(format.seed, hash_bits, cell.is_some());
        let is_words = key.is_word() && value.is_word();
        let has_known = K::NUMBER == Single::NUMBER && !is_words && cell.is_none() && !verifies;
        let known = has_known.then(|| Known::new(store.max_bytes())).transpose()?;
        let chained = if is_new {
            Some(0)
        } else {
            // A number that the pool cannot hold is none, whatever its checksum says.
            let saved = store.saved(map, CHAINED_COUNTER).and_then(|count| count.checked_sub(1));
            saved.filter(|count| *count <= format.max_bytes)
        };
        Ok(Engine {
            index,
            records: Records { store: Arc::clone(&store), hashes, cell, known },
            store,
            map,
            format: format.clone(),
            peers,
            design,
            key,
            value,
            mix: WordMix::new(format.seed),
            open_time: start.elapsed(),
            chained: Mutex::new(chained),
            swept: AtomicBool::new(false),
        })
    }

    /// The number of the map in its pool.
    pub(crate) fn number(&self) -> u8 {
        self.map
    }

    /// True if slots hold keys and values themselves.
    #[inline]
    pub(crate) fn is_words(&self) -> bool {
        self.key.is_word() && self.value.is_word()
    }

    /// The hash that the index gets of a key; `words` is [`is_words`](Self::is_words), known beforehand.
    #[inline(always)]
    pub(crate) fn hash<T: Data + ?Sized>(&self, key: &T::Ref, words: bool) -> u64 {
        if words {
            self.mix.mix(T::to_word(key))
        } else {
            self.records.hash(T::bytes(key, &mut T::Buffer::default()))
        }
    }

    /// The same of a few keys, as many as there is room for.
    pub(crate) fn hash_many<'a, 'b, T: Data + ?Sized>(
        &self,
        keys: impl Iterator<Item = &'a T::Ref>,
        words: bool,
        room: &'b mut [u64; PREFETCHED],
    ) -> &'b [u64] {
        let mut count = 0;
        for (h, key) in room.iter_mut().zip(keys) {
            *h = self.hash::<T>(key, words);
            count += 1;
        }
        &room[..count]
    }

    /// The hash of a key that is a word, by the bytes of a record.
    pub(crate) fn word_hash(&self, key: &[u8]) -> u64 {
        self.mix.mix(Type::word(key))
    }

    /// Runs `f`, whose operations are durable together when this returns: where each would wait for
    /// a disk, they wait for it once.
    pub(crate) fn batch<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        struct Batch<'a>(&'a dyn Store);
        impl Drop for Batch<'_> {
            fn drop(&mut self) {
                self.0.defer(false);
            }
        }
        self.store.defer(true);
        let batch = Batch(&*self.store);
        let done = f();
        drop(batch);
        // Also after an error: earlier changes are durable.
        self.store.wait_until_durable()?;
        done
    }

    /// Makes units for so many more entries.
    pub(crate) fn reserve(&self, additional: u64) -> Result<()> {
        self.store.writable()?;
        let entries = self.index.len()?.saturating_add(additional);
        let bytes = entries.saturating_mul(ENTRY_BYTES);
        // First, as it also limits a map for which no limit was set. The system promises more memory than it has, and ends
        // the process that takes it.
        if self.store.durability() == Durability::None {
            let there = self.store.facts().space.unit_bytes;
            let wanted = entries.saturating_mul(RESERVED_BYTES).saturating_sub(there);
            if wanted > Dram::memory_left() {
                return Err(Error::full(wanted, Limit::Memory));
            }
        }
        let max_bytes = self.store.max_bytes();
        if bytes > max_bytes {
            return Err(Error::full(bytes, Limit::Pool { max_bytes }));
        }
        self.with_room(|| self.index.reserve(entries))
    }

    /// Puts everything that has returned where loss of power does not reach it.
    pub(crate) fn sync(&self) -> Result<()> {
        self.store.writable()?;
        self.store.sync()
    }

    /// True while free record space is still to be found in this open.
    pub(crate) fn sweep_pending(&self) -> bool {
        if self.swept.load(Ordering::Relaxed) {
            return false;
        }
        let pending = self.store.sweep_goes_on();
        if !pending {
            self.swept.store(true, Ordering::Relaxed);
        }
        pending
    }

    /// Runs `f`, which changes nothing where the pool is full; once more then, after all room was
    /// [found](Peers::find_room). So it does even if nothing is left to be found: another thread may have found it
    /// since `f` failed.
    pub(crate) fn with_room<T>(&self, mut f: impl FnMut() -> Result<T>) -> Result<T> {
        match f() {
            Err(e) if self.is_full(&e) => {
                self.find_room()?;
                f()
            }
            done => done,
        }
    }

    /// True if the operation that has failed so is tried once more, when room was found.
    pub(crate) fn is_full(&self, e: &Error) -> bool {
        matches!(e.kind(), ErrorKind::Full { .. }) && self.store.writable().is_ok()
    }

    /// As [`Peers::find_room`].
    pub(crate) fn find_room(&self) -> Result<()> {
        self.peers.upgrade().map_or(Ok(()), |peers| peers.find_room())
    }

    /// Gives a block back that nothing durable names; 0 is none.
    pub(crate) fn release(&self, off: u64) {
        if off != 0 {
            // The operation has its result; a block that cannot be freed now (the pool was closed to
            // writes meanwhile) is found by the sweep of the next open.
            let _ = self.store.free(off);
        }
    }

    /// Figures about the whole.
    pub(crate) fn figures(&self, keys: u64, index: IndexStats) -> Result<Stats> {
        let facts = self.store.facts();
        let sync_mode = self.store.sync_mode()?;
        // A reader promises nothing of its own: the pool's writers do.
        let durability = match facts.durability {
            Durability::Process if self.store.is_read_only() => sync_mode.durability(),
            durability => durability,
        };
        Ok(Stats {
            design: self.design,
            key_type: self.key,
            value_type: self.value,
            keys,
            index,
            space: facts.space,
            durability,
            sync_mode,
            epoch: facts.epoch,
            open_time: self.open_time,
            recovered: facts.recovered,
            suspect: facts.suspect,
            log: facts.log,
            cache: None,
        })
    }

    /// **MAP-1** Words are a key and a value of their types.
    pub(crate) fn check_word_pair(&self, h: u64, payload: u64, found: &mut dyn FnMut(Finding)) {
        for (ty, word) in [(self.key, self.mix.unmix(h)), (self.value, payload)] {
            if !ty.has_word(word) {
                let what = format!("{word:#x} is not a valid {ty} (slot of hash {h:#018x})");
                found(Finding { invariant: "MAP-1", off: 0, what });
            }
        }
    }

    /// The same of a record's bytes.
    pub(crate) fn check_byte_pair(
        &self,
        (h, name): (u64, u64),
        (key, value): &Pair,
        found: &mut dyn FnMut(Finding),
    ) {
        for (ty, bytes) in [(self.key, key), (self.value, value)] {
            if !ty.has_bytes(bytes) {
                let what =
                    format!("{} bytes are not a valid {ty} (slot of hash {h:#018x})", bytes.len());
                found(Finding { invariant: "MAP-1", off: offset(name), what });
            }
        }
    }

    /// Verifies every invariant of the map, the check words of the pool, and all else of a pool that has no other map. `watch` is told how many entries
    /// of how many were looked at.
    pub(crate) fn check(
        &self,
        found: &mut dyn FnMut(Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        check_blocks(&*self.store, found);
        let named = K::check_own(self, found, watch)?;
        if !self.peers.upgrade().is_some_and(|peers| peers.is_alone()) {
            return Ok(());
        }
        // The closure may look at the map, so no lock is held while it runs.
        let mut others = Vec::new();
        self.store.each_block(&mut |off| {
            if !named.contains(&off) {
                others.push(off);
            }
        });
        others.into_iter().for_each(|off| found(unnamed(off)));
        Ok(())
    }

    /// The `Debug` text of a handle.
    pub(crate) fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name}<{}, {}> ({})", self.key, self.value, self.design)
    }

    /// The number of records that hang on others, locked against change.
    pub(crate) fn lock_chained(&self) -> MutexGuard<'_, Option<u64>> {
        lock(&self.chained, &*self.store)
    }

    /// The same for a writer, who holds a bucket that the counting thread may wait for: it must not
    /// wait in turn.
    pub(crate) fn try_lock_chained(&self) -> Option<MutexGuard<'_, Option<u64>>> {
        match self.chained.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Calls `f` with the slots of each unit.
    pub(crate) fn each_unit(&self, f: OfUnit<'_, K::Slot>) -> Result<()> {
        self.units(f, false)
    }

    /// The same of those that can be read, where it is known behind which damage others are. The damage is a finding
    /// of the index.
    pub(crate) fn each_sound_unit(&self, f: OfUnit<'_, K::Slot>) -> Result<()> {
        self.units(f, true)
    }

    fn units(&self, f: OfUnit<'_, K::Slot>, skips: bool) -> Result<()> {
        let mut slots = Vec::new();
        let mut at = Some(0);
        while let Some(from) = at {
            slots.clear();
            at = match self.index.scan(from, &mut slots) {
                Ok(next) => {
                    f(&slots)?;
                    next
                }
                Err(e) if skips && hides_slots(&e) => self.index.behind(from).ok_or(e)?,
                Err(e) => return Err(e),
            };
        }
        Ok(())
    }

    /// Marks the blocks of the unit at `at`; where the next one begins.
    fn mark_from(&self, at: u64) -> Result<Option<u64>> {
        let mut slots = Vec::new();
        let next = if K::names_blocks(self) { self.index.scan(at, &mut slots)? } else { None };
        K::mark_unit(self, &slots)?;
        Ok(next)
    }

    /// Frees all blocks of a map that is no more.
    fn free_records(&self) -> Result<()> {
        self.each_unit(&mut |slots| K::free_unit(self, slots))
    }

    /// Marks the blocks of one more unit of one of the pool's maps; true if more is left.
    pub(crate) fn sweep_step(&self) -> Result<bool> {
        match self.peers.upgrade() {
            Some(peers) if self.sweep_pending() => peers.sweep_step(),
            _ => Ok(false),
        }
    }

    /// Ends the sweep here and now.
    pub(crate) fn finish_sweep(&self) -> Result<()> {
        while self.sweep_step()? {}
        Ok(())
    }
}

/// True if it is damage that keeps slots from being read.
fn hides_slots(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Corrupt { .. } | ErrorKind::Skewed { .. })
}

/// A closure over the slots of a unit.
type OfUnit<'a, S> = &'a mut dyn FnMut(&[(u64, S)]) -> Result<()>;
