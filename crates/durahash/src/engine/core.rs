//! What a map and a multimap without types have in common: a pool, the walk over its slots, the
//! sweep, and the end.

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use durahash_media::hash::WordMix;
use durahash_media::{Durability, Error, ErrorKind, Result};

use crate::engine::data::{Data, Type};
use crate::engine::design::Design;
use crate::engine::record::{Hashes, Store, offset};
use crate::engine::stats::Stats;
use crate::index::{Finding, IndexStats, PREFETCHED};

/// A key and its value, as bytes.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// A pool, its types, and how far work on it has come.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) design: Design,
    pub(crate) key: Type,
    pub(crate) value: Type,
    pub(crate) mix: WordMix,
    pub(crate) hashes: Hashes,
    /// How long the open took, recovery included.
    pub(crate) recovery: Duration,
    /// Where the sweep goes on; held during a step.
    sweep_at: Mutex<u64>,
    /// A sweep never comes back.
    swept: AtomicBool,
    closed: AtomicBool,
}

impl Core {
    /// `start`: when the open began.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        design: Design,
        key: Type,
        value: Type,
        start: Instant,
    ) -> Self {
        let (seed, hash_bits) = (store.format().seed, store.format().geometry.hash_bits);
        Core {
            store,
            design,
            key,
            value,
            mix: WordMix::new(seed),
            hashes: Hashes::new(seed, hash_bits),
            recovery: start.elapsed(),
            sweep_at: Mutex::new(0),
            swept: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether slots hold keys and values themselves.
    #[inline]
    pub(crate) fn is_words(&self) -> bool {
        self.key.is_word() && self.value.is_word()
    }

    /// What the index knows a key by; `words` is [`is_words`](Self::is_words), known beforehand.
    #[inline(always)]
    pub(crate) fn hash<K: Data + ?Sized>(&self, key: &K, words: bool) -> u64 {
        if words {
            self.mix.mix(key.to_word())
        } else {
            self.hashes.h(self.hashes.key(key.bytes(&mut [0; 16])))
        }
    }

    /// The same of a few keys, as many as there is room for.
    pub(crate) fn hash_many<'a, 'b, K: Data + ?Sized + 'a>(
        &self,
        keys: impl Iterator<Item = &'a K>,
        words: bool,
        room: &'b mut [u64; PREFETCHED],
    ) -> &'b [u64] {
        let mut count = 0;
        for (h, key) in room.iter_mut().zip(keys) {
            *h = self.hash(key, words);
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
    pub(crate) fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
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

    /// Whether free record space is still to be found.
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

    /// Whether the pool is full only as long as a sweep has not found what is free.
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
                let what = format!("{word:#x} is no {ty} (slot of hash {h:#018x})");
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
                let what = format!("{} bytes are no {ty} (slot of hash {h:#018x})", bytes.len());
                found(Finding { invariant: "MAP-1", off: offset(name), what });
            }
        }
    }

    /// **REC-3** Every block in use is one of `named` (once the sweep has ended).
    pub(crate) fn check_named(&self, named: &HashSet<u64>, found: &mut dyn FnMut(Finding)) {
        // Whoever hears of a finding may look at the map, so no lock is held meanwhile.
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

    /// What `Debug` says of a handle.
    pub(crate) fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name}<{}, {}> ({})", self.key, self.value, self.design)
    }
}

/// What is done with the slots of a unit.
pub(crate) type OfUnit<'a, S> = &'a mut dyn FnMut(&[(u64, S)]) -> Result<()>;

/// A map or a multimap whose types are not known.
pub(crate) trait Untyped: Deref<Target = Core> {
    /// What an index has in a slot.
    type Slot: Copy;

    /// The slots of the unit that covers hash `at`, in the order of their hashes, and where the next
    /// unit begins.
    fn scan(&self, at: u64, out: &mut Vec<(u64, Self::Slot)>) -> Result<Option<u64>>;

    /// Marks what the slots of a unit, as they were a moment ago, keep from being free.
    fn mark_unit(&self, unit: &[(u64, Self::Slot)]) -> Result<()>;

    /// Leaves in the pool, before it is closed, what the next open can use.
    fn save(&self);

    /// Calls `f` with the slots of each unit.
    fn each_unit(&self, f: OfUnit<'_, Self::Slot>) -> Result<()> {
        let mut slots = Vec::new();
        let mut at = Some(0);
        while let Some(from) = at {
            slots.clear();
            at = self.scan(from, &mut slots)?;
            f(&slots)?;
        }
        Ok(())
    }

    /// Marks the blocks of one more unit; whether more is left.
    fn sweep_step(&self) -> Result<bool> {
        let mut at = self.lock(&self.sweep_at);
        if !self.sweep_pending() {
            return Ok(false);
        }
        let mut slots = Vec::new();
        let next = self.scan(*at, &mut slots)?;
        self.mark_unit(&slots)?;
        match next {
            Some(next) => {
                *at = next;
                Ok(true)
            }
            None => self.store.finish_sweep().map(|()| false),
        }
    }

    /// Ends the sweep here and now.
    fn finish_sweep(&self) -> Result<()> {
        while self.sweep_step()? {}
        Ok(())
    }

    /// Closes the pool, if that was not done; nobody else has a handle.
    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::Relaxed) || self.store.is_read_only() {
            return Ok(());
        }
        self.save();
        self.store.close()
    }
}

/// Whether a walk came to its end; damage on the way is no error here.
pub(crate) fn is_whole(walked: Result<()>) -> Result<bool> {
    match walked {
        Err(e) if is_damage(&e) => Ok(false),
        walked => walked.map(|()| true),
    }
}

pub(crate) fn is_damage(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Corrupt { .. })
}

/// A word that is no value of its type, or bytes that are none.
#[cold]
pub(crate) fn no_value() -> Error {
    Error::corrupt("bytes that are no value of their type", 0)
}
