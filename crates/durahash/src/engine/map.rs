//! A map without types: an index, a pool, and what holds for keys of words and of bytes alike.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Instant;

use durahash_media::Result;

use crate::engine::core::{Core, Untyped, is_whole};
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::record::{Store, is_chained, offset};
use crate::index::{Change, Finding, Index, Room};

/// The pool's counter of records that hang on others, and one more: zero where they were not counted.
/// Designs take theirs from the other end.
const CHAINED_COUNTER: usize = 6;

/// What [`Map`](crate::Map) and [`AnyMap`](crate::AnyMap) are handles to.
pub(crate) struct Raw {
    pub(crate) index: Box<dyn Index>,
    core: Core,
    /// How many records hang on others, once it is known. Held while a chain changes.
    chained: Mutex<Option<u64>>,
}

impl Deref for Raw {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.core
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
        Raw { index, core, chained: Mutex::new(chained) }
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
        self.each_unit(&mut |slots| slots.iter().try_for_each(|(h, payload)| f(*h, *payload)))
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
            for pair in &pairs {
                if !keys.insert(&pair.0) {
                    let what = format!("a key stands twice in the chain of slot {h:#018x}");
                    found(Finding { invariant: "REC-2", off: offset(payload), what });
                }
                self.check_byte_pair((h, payload), pair, found);
            }
            Ok(())
        })?;
        self.check_named(&named, found);
        let kept = *self.lock_chained();
        if let Some(kept) = kept.filter(|kept| *kept != chained) {
            let what = format!("{chained} records hang on others, {kept} are counted");
            found(Finding { invariant: "REC-4", off: 0, what });
        }
        Ok(())
    }
}

impl Untyped for Raw {
    type Slot = u64;

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        self.index.scan(at, out)
    }

    fn mark_unit(&self, unit: &[(u64, u64)]) -> Result<()> {
        for (h, payload) in unit {
            let mut offs = Vec::new();
            // What cannot be reached through damage cannot be read either: nothing is lost by
            // leaving it unmarked, and the damage must not keep the space of all others.
            if !is_whole(self.chain(*h, *payload, &mut offs))? {
                offs.push(offset(*payload));
            }
            for off in offs {
                self.store.mark(off)?;
            }
        }
        Ok(())
    }

    fn save(&self) {
        if let Some(count) = *self.lock_chained() {
            self.store.save(CHAINED_COUNTER, count + 1);
        }
        self.index.close();
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure: the pool stays unclean and is recovered when it is
        // opened. `close` reports.
        let _ = self.close();
    }
}
