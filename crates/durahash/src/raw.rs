//! A map without types: an index, a pool, and what holds for keys of words and of bytes alike.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use durahash_media::hash::WordMix;
use durahash_media::{Durability, Error, ErrorKind, Result};

use crate::data::Type;
use crate::design::Design;
use crate::index::{Change, Finding, Index, IndexStats, Room};
use crate::record::{Hashes, Store, is_chained, offset};
use crate::stats::Stats;

/// The pool's counter of records that hang on others, and one more: zero where they were not counted.
/// Designs take theirs from the other end.
const CHAINED_COUNTER: usize = 6;

/// What [`Map`](crate::Map) and [`AnyMap`](crate::AnyMap) are handles to.
pub(crate) struct Raw {
    pub(crate) index: Box<dyn Index>,
    core: Core,
    /// How many records hang on others, once it is known. Held while a chain changes.
    chained: Mutex<Option<u64>>,
    closed: bool,
}

/// A pool and its types: what maps and multimaps have in common.
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
    pub(crate) sweep_at: Mutex<u64>,
    /// A sweep never comes back.
    swept: AtomicBool,
}

impl Deref for Raw {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.core
    }
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
        }
    }

    /// Whether slots hold keys and values themselves.
    #[inline]
    pub(crate) fn is_words(&self) -> bool {
        self.key.is_word() && self.value.is_word()
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
            emulates: facts.emulates,
            counts: facts.counts,
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
}

impl Raw {
    /// `is_new`: it was just made, and is empty. `start`: when its open began.
    pub(crate) fn new(
        index: Box<dyn Index>,
        store: Arc<dyn Store>,
        design: Design,
        key: Type,
        value: Type,
        is_new: bool,
        start: Instant,
    ) -> Self {
        let format = store.format();
        let chained = if is_new {
            Some(0)
        } else {
            // A number that the pool cannot hold is none, whatever its checksum says.
            let saved = store.saved(CHAINED_COUNTER);
            saved.and_then(|count| count.checked_sub(1)).filter(|count| *count <= format.max_bytes)
        };
        let core = Core::new(store, design, key, value, start);
        Raw { index, core, chained: Mutex::new(chained), closed: false }
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

    /// How many keys there are. Counts chains at first, after the pool was not closed.
    pub(crate) fn len(&self) -> Result<u64> {
        if self.is_words() {
            return self.index.len();
        }
        let mut chained = self.lock_chained();
        let count = match *chained {
            Some(count) => count,
            None => {
                let mut count = 0;
                self.each_slot(&mut |h, payload| {
                    if is_chained(payload) {
                        let mut offs = Vec::new();
                        self.chain(h, payload, &mut offs)?;
                        count += offs.len().saturating_sub(1) as u64;
                    }
                    Ok(())
                })?;
                *chained = Some(count);
                count
            }
        };
        Ok(self.index.len()? + count)
    }

    /// Calls `f` with every slot.
    fn each_slot(&self, f: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<()> {
        let mut slots = Vec::new();
        let mut at = Some(0);
        while let Some(from) = at {
            slots.clear();
            at = self.index.scan(from, &mut slots)?;
            for (h, payload) in &slots {
                f(*h, *payload)?;
            }
        }
        Ok(())
    }

    /// The offsets of the records that hang on slot `h`, whose payload was `payload` a moment ago;
    /// those before the damage where there is some.
    fn chain(&self, h: u64, payload: u64, offs: &mut Vec<u64>) -> Result<()> {
        if !is_chained(payload) {
            offs.push(offset(payload));
            return Ok(());
        }
        self.index.read(h, &mut |payload, still| {
            offs.clear();
            let Some(payload) = payload else {
                return Ok(());
            };
            self.walk(payload, still, &mut |link| {
                offs.push(link.off);
                Ok(true)
            })
        })
    }

    /// Marks every record that hangs on a slot which is about to change, if a sweep is pending.
    pub(crate) fn mark(&self, payload: u64) -> Result<()> {
        if !self.sweep_pending() {
            return Ok(());
        }
        is_whole(self.walk(payload, &|| true, &mut |link| self.store.mark(link.off).map(|_| true)))
            .map(drop)
    }

    /// Marks the records of one more unit; whether more is left.
    fn sweep_step(&self) -> Result<bool> {
        let mut at = self.lock(&self.sweep_at);
        if !self.sweep_pending() {
            return Ok(false);
        }
        let mut slots = Vec::new();
        let next = self.index.scan(*at, &mut slots)?;
        for (h, payload) in slots {
            let mut offs = Vec::new();
            // What cannot be reached through damage cannot be read either: nothing is lost by
            // leaving it unmarked, and the damage must not keep the space of all others.
            if !is_whole(self.chain(h, payload, &mut offs))? {
                offs.push(offset(payload));
            }
            for off in offs {
                self.store.mark(off)?;
            }
        }
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

    /// A piece of background work; whether more is waiting.
    pub(crate) fn step(&self) -> Result<bool> {
        Ok(self.sweep_step()? | self.index.step()?)
    }

    /// Removes every slot that is there when the walk comes by, damaged ones too.
    pub(crate) fn clear(&self) -> Result<()> {
        self.store.writable()?;
        self.batch(|| {
            self.index.mend()?;
            // Once more, for what damage made two slots of: the first walk removes one of them.
            for _ in 0..2 {
                self.each_slot(&mut |h, _| {
                    while !self.clear_slot(h)? {
                        drop(self.lock_chained());
                    }
                    Ok(())
                })?;
            }
            Ok(())
        })
    }

    /// Removes the slot of `h`; false while somebody counts chains.
    fn clear_slot(&self, h: u64) -> Result<bool> {
        let words = self.is_words();
        let mut offs = Vec::new();
        let mut chained = None;
        let (mut busy, mut whole) = (false, true);
        self.index.update(h, Room::None, &mut |payload| {
            let Some(payload) = payload.filter(|_| !words) else {
                return Ok(Change::Remove);
            };
            self.mark(payload)?;
            let mut key = Vec::new();
            whole = is_whole(self.walk(payload, &|| true, &mut |link| {
                // A damaged slot may name the record of another: that is not its to free.
                self.copy_key(&link, &mut key, &|| true)?;
                self.of_slot(&link, h, self.hashes.key(&key))?;
                offs.push(link.off);
                Ok(true)
            }))?;
            if is_chained(payload) || !whole {
                chained = self.try_lock_chained();
                busy = chained.is_none();
            }
            Ok(if busy { Change::Keep } else { Change::Remove })
        })?;
        if busy {
            return Ok(false);
        }
        if let Some(count) = chained.as_deref_mut() {
            // Nobody knows how many hung on a damaged one: they are counted anew.
            *count = count
                .filter(|_| whole)
                .map(|count| count.saturating_sub((offs.len() as u64).saturating_sub(1)));
        }
        for off in offs {
            self.release(off);
        }
        Ok(true)
    }

    /// Figures about the whole.
    pub(crate) fn stats(&self) -> Result<Stats> {
        let keys = self.len()?;
        self.figures(keys, self.index.stats())
    }

    /// Verifies every invariant of the design and of the records.
    /// `watch` is told how many slots of how many were looked at.
    pub(crate) fn check(
        &self,
        found: &mut dyn FnMut(Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        self.index.check(found)?;
        let slots = self.index.len()?;
        let mut looked = 0;
        let mut looked_at_one = || {
            looked += 1;
            watch(looked, slots);
        };
        if self.is_words() {
            self.check_words(found, &mut looked_at_one)
        } else {
            self.check_records(found, &mut looked_at_one)
        }
    }

    /// **MAP-1** Every slot's words are a key and a value of their types.
    fn check_words(
        &self,
        found: &mut dyn FnMut(Finding),
        looked_at_one: &mut dyn FnMut(),
    ) -> Result<()> {
        self.each_slot(&mut |h, payload| {
            looked_at_one();
            self.check_word_pair(h, payload, found);
            Ok(())
        })
    }

    /// - **REC-1** Every record of every slot lies in a block, is intact, and belongs to its slot.
    /// - **REC-2** No block is named twice, and no key stands in two records of a chain.
    /// - **REC-3** Every block in use is named (once the sweep has ended).
    /// - **REC-4** The number of records that hang on others is the one that is kept.
    /// - **MAP-1** as for words.
    fn check_records(
        &self,
        found: &mut dyn FnMut(Finding),
        looked_at_one: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut named = HashSet::new();
        let mut chained = 0;
        self.each_slot(&mut |h, payload| {
            looked_at_one();
            let mut rec = |invariant, off, what: String| found(Finding { invariant, off, what });
            let mut offs = Vec::new();
            if let Err(e) = self.chain(h, payload, &mut offs) {
                rec("REC-1", offset(payload), format!("slot {h:#018x}: {e}"));
            }
            chained += offs.len().saturating_sub(1) as u64;
            for off in offs {
                if !named.insert(off) {
                    rec("REC-2", off, format!("named twice, also by slot {h:#018x}"));
                }
            }
            let mut pairs = Vec::new();
            if let Err(e) = self.pairs(h, &mut pairs) {
                rec("REC-1", offset(payload), format!("slot {h:#018x}: {e}"));
            }
            let mut keys = HashSet::new();
            for (key, value) in &pairs {
                if !keys.insert(key) {
                    let what = format!("a key stands twice in the chain of slot {h:#018x}");
                    rec("REC-2", offset(payload), what);
                }
                for (ty, bytes) in [(self.key, key), (self.value, value)] {
                    if !ty.has_bytes(bytes) {
                        let what = format!("{} bytes are no {ty}: slot {h:#018x}", bytes.len());
                        rec("MAP-1", offset(payload), what);
                    }
                }
            }
            Ok(())
        })?;
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
        let kept = *self.lock_chained();
        if let Some(kept) = kept.filter(|kept| *kept != chained) {
            let what = format!("{chained} records hang on others, {kept} are counted");
            found(Finding { invariant: "REC-4", off: 0, what });
        }
        Ok(())
    }

    /// Closes the pool; nobody else has a handle.
    pub(crate) fn close(mut self) -> Result<()> {
        self.shut()
    }

    fn shut(&mut self) -> Result<()> {
        self.closed = true;
        if self.store.is_read_only() {
            return Ok(());
        }
        if let Some(count) = *self.lock_chained() {
            self.store.save(CHAINED_COUNTER, count + 1);
        }
        self.store.close()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if !self.closed {
            // Nobody is left to hear of a failure: the pool stays unclean and is recovered when it
            // is opened. `close` reports.
            let _ = self.shut();
        }
    }
}

/// Whether a walk came to its end; damage on the way is no error here.
fn is_whole(walked: Result<()>) -> Result<bool> {
    match walked {
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt { .. }) => Ok(false),
        walked => walked.map(|()| true),
    }
}

/// A word that is no value of its type, or bytes that are none.
#[cold]
pub(crate) fn no_value() -> Error {
    Error::corrupt("bytes that are no value of their type", 0)
}
