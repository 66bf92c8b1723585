//! Maps and multimaps without type parameters, compiled once whatever the types of keys and values are: an
//! index of words, and a pool that has byte strings.
//!
//! The way of a call, from [`api`](crate::api):
//!
//! - Of words (key and value both fit one): straight to the [`Index`](crate::index::Index), a design; the
//!   hash is a bijection of the key, the payload is the value.
//! - Of byte strings: `map.rs` or `multi_map.rs`, which look for the key among the `records.rs` of its hash,
//!   in the slot that the index has of it. `edit.rs` is a change of one key.
//! - Of files: `open.rs`.
//!
//! Behind a log, `durable.rs` stands between these and the design.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use durahash_media::hash::WordMix;
use durahash_media::{Durability, Error, ErrorKind, FileLock, Medium, Pool, Result};

use self::data::{Data, Type};
use self::design::Design;
use self::record::{Hashes, Store, offset};
use self::records::{Pair, Records};
use self::settings::{DesignOptions, Settings};
use self::stats::Stats;
use crate::index::{Finding, IndexBase, IndexStats, PREFETCHED};

// From low to high.
pub(crate) mod data;
pub(crate) mod design;
pub(crate) mod durable;
pub(crate) mod outcome;
pub(crate) mod record;

pub(crate) mod records;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod text;
pub(crate) mod wrappers;

// These use the engine itself, below.
pub(crate) mod edit;
pub(crate) mod entries;
pub(crate) mod open;

pub(crate) mod compact;

pub(crate) mod map;
pub(crate) mod multi_map;

/// A map: one value for each key.
pub enum Single {}

/// A multimap: any number of values for each key.
pub enum Multi {}

/// The names of the kinds, by their numbers in the superblock.
const KINDS: [&str; 2] = ["map", "multimap"];

/// The pool's counter of records that hang on others, and one more: zero where they were not counted.
/// Designs take theirs from the other end.
const CHAINED_COUNTER: usize = 6;

/// The differences between a map and a multimap.
pub trait Kind: Sized + 'static {
    /// The kind's number in the superblock.
    const NUMBER: u8;
    /// The design of a new pool, unless another is asked for.
    const DESIGN: Design;
    /// The index that a design offers for it.
    type Index: IndexBase<Slot = Self::Slot> + ?Sized;
    /// The content of a slot, as an index scans it.
    type Slot: Copy;

    /// The index of a pool: a new one in an empty pool, or the one that is there.
    fn index<M: Medium>(
        pool: &Arc<Pool<M>>,
        design: Design,
        options: DesignOptions,
        is_new: bool,
    ) -> Result<Box<Self::Index>>;

    /// Makes or opens one. Not generic, so that every design over every medium of the library is compiled
    /// in this crate, once, and not in each crate that names its keys.
    fn make(settings: &Settings, types: Option<(Type, Type)>, at: At<'_>) -> Result<Made<Self>>;

    /// Writes the pool at `path` anew, without gaps. Not generic, as [`make`](Kind::make).
    fn compact(
        settings: &Settings,
        types: Option<(Type, Type)>,
        path: &Path,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()>;

    /// Marks what the slots of a unit, as they were a moment ago, keep from being free.
    fn mark_unit(engine: &Engine<Self>, unit: &[(u64, Self::Slot)]) -> Result<()>;

    /// Takes the slots of one hash, or of more, off the end of `unit`, and adds their entries: hash and
    /// value if these are words, else key and value. Damage is reported after the others were found.
    fn take(
        engine: &Engine<Self>,
        unit: &mut Vec<(u64, Self::Slot)>,
        words: &mut Vec<(u64, u64)>,
        pairs: &mut Vec<Pair>,
    ) -> Result<()>;

    /// Adds an entry of words to what holds no value of its key, or any number of them.
    fn add_word(engine: &Engine<Self>, h: u64, payload: u64) -> Result<()>;

    /// The same of an entry of byte strings.
    fn add_pair(engine: &Engine<Self>, key: &[u8], value: &[u8]) -> Result<()>;

    /// Leaves in the pool, before it is closed, what the next open can use.
    fn save(engine: &Engine<Self>);
}

/// Where a pool is made or opened.
#[derive(Clone, Copy)]
pub enum At<'a> {
    /// A new one in memory.
    Memory,
    /// A new file.
    New(&'a Path),
    /// A file that is there.
    Existing(&'a Path),
}

/// A map that was made or opened, and the lock of its file.
pub(crate) type Made<K> = (Engine<K>, Option<FileLock>);

/// An index and its pool: what [`Map`](crate::Map), [`MultiMap`](crate::MultiMap) and the types with `Any`
/// in their names are handles to.
pub struct Engine<K: Kind> {
    pub(crate) index: Box<K::Index>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) records: Records,
    pub(crate) design: Design,
    pub(crate) key: Type,
    pub(crate) value: Type,
    /// The hash of keys that are words.
    pub(crate) mix: WordMix,
    /// How long the open took, recovery included.
    recovery: Duration,
    /// How many records hang on others, once it is known; in a map only. Held while a chain changes.
    chained: Mutex<Option<u64>>,
    /// Where the sweep goes on; held during a step.
    sweep_at: Mutex<u64>,
    /// A sweep never comes back.
    swept: AtomicBool,
    closed: AtomicBool,
    /// The process that opened it: a forked child has a copy of this, without the mapped file.
    process: u32,
}

impl<K: Kind> Engine<K> {
    /// `chained`: how many records hang on others, if it is known. `start`: when the open began.
    pub(crate) fn new(
        index: Box<K::Index>,
        store: Arc<dyn Store>,
        (design, key, value): (Design, Type, Type),
        chained: Option<u64>,
        start: Instant,
    ) -> Self {
        let (seed, hash_bits) = (store.format().seed, store.format().geometry.hash_bits);
        let hashes = Hashes::new(seed, hash_bits);
        Engine {
            index,
            records: Records { store: Arc::clone(&store), hashes },
            store,
            design,
            key,
            value,
            mix: WordMix::new(seed),
            recovery: start.elapsed(),
            chained: Mutex::new(chained),
            sweep_at: Mutex::new(0),
            swept: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            process: std::process::id(),
        }
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

    /// Takes a mutex whose holder may call the medium: polled, so that a simulated schedule can let
    /// the holder go on.
    fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        loop {
            match mutex.try_lock() {
                Ok(guard) => return guard,
                // What they guard is changed by one assignment.
                Err(TryLockError::Poisoned(guard)) => return guard.into_inner(),
                Err(TryLockError::WouldBlock) => self.store.wait(),
            }
        }
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
        // Also after an error: what was done before it is durable.
        self.store.settle()?;
        done
    }

    /// Puts everything that has returned where loss of power does not reach it.
    pub(crate) fn sync(&self) -> Result<()> {
        self.store.writable()?;
        self.store.sync()
    }

    /// True while free record space is still to be found.
    pub(crate) fn sweep_pending(&self) -> bool {
        if self.swept.load(Ordering::Relaxed) {
            return false;
        }
        let pending = self.store.sweep_pending();
        if !pending {
            self.swept.store(true, Ordering::Relaxed);
        }
        pending
    }

    /// True if the pool is full only until a sweep has found the free space.
    pub(crate) fn is_full_for_now(&self, e: &Error) -> bool {
        matches!(e.kind(), ErrorKind::Full { .. }) && self.sweep_pending()
    }

    /// Gives a block back that nothing durable names.
    pub(crate) fn release(&self, off: u64) {
        // The operation has its result; a block that cannot be freed now (the pool was closed to
        // writes meanwhile) is found by the sweep of the next open.
        let _ = self.store.free(off);
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
            huge_bytes: facts.huge_bytes,
            epoch: facts.epoch,
            recovery: self.recovery,
            suspect: facts.suspect,
            log: facts.log,
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

    /// **REC-3** Every block in use is one of `named` (once the sweep has ended).
    pub(crate) fn check_named(&self, named: &HashSet<u64>, found: &mut dyn FnMut(Finding)) {
        // The closure may look at the map, so no lock is held while it runs.
        let mut unnamed = Vec::new();
        self.store.each_block(&mut |off| {
            if !named.contains(&off) {
                unnamed.push(off);
            }
        });
        for off in unnamed {
            let what = "block in use that no slot names".into();
            found(Finding { invariant: "REC-3", off, what });
        }
    }

    /// The `Debug` text of a handle.
    pub(crate) fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name}<{}, {}> ({})", self.key, self.value, self.design)
    }

    /// The number of records that hang on others, locked against change.
    pub(crate) fn lock_chained(&self) -> MutexGuard<'_, Option<u64>> {
        self.lock(&self.chained)
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
        let mut slots = Vec::new();
        let mut at = Some(0);
        while let Some(from) = at {
            slots.clear();
            at = self.index.scan(from, &mut slots)?;
            f(&slots)?;
        }
        Ok(())
    }

    /// Marks the blocks of one more unit; whether more is left.
    pub(crate) fn sweep_step(&self) -> Result<bool> {
        let mut at = self.lock(&self.sweep_at);
        if !self.sweep_pending() {
            return Ok(false);
        }
        let mut slots = Vec::new();
        let next = self.index.scan(*at, &mut slots)?;
        K::mark_unit(self, &slots)?;
        match next {
            Some(next) => {
                *at = next;
                Ok(true)
            }
            None => self.store.finish_sweep().map(|()| false),
        }
    }

    /// Ends the sweep here and now.
    pub(crate) fn finish_sweep(&self) -> Result<()> {
        while self.sweep_step()? {}
        Ok(())
    }

    /// Closes the pool, if that was not done; this is the last handle.
    pub(crate) fn close(&self) -> Result<()> {
        if self.process != std::process::id() {
            // Never dropped: that would unmap what this process has mapped in the file's place.
            std::mem::forget(Arc::clone(&self.store));
            let what = "a forked child has no part in the pools of its parent";
            return Err(ErrorKind::Options { what }.into());
        }
        if self.closed.swap(true, Ordering::Relaxed) || self.store.is_read_only() {
            return Ok(());
        }
        K::save(self);
        self.store.close()
    }
}

impl<K: Kind> Drop for Engine<K> {
    fn drop(&mut self) {
        // Nothing is left that could report a failure: the pool stays unclean and is recovered when it is
        // opened. `close` reports.
        let _ = self.close();
    }
}

/// A closure over the slots of a unit.
type OfUnit<'a, S> = &'a mut dyn FnMut(&[(u64, S)]) -> Result<()>;
