//! Batches: changes of any keys, of which a crash leaves all or none.
//!
//! Every change of one hash is one store of its slot's payload, of words as of records, since records are
//! written before they are named and are never changed. So a batch is a list of hashes with their payloads
//! before and after. This list, the *intent*, is a record like any other; a word of the superblock names it
//! while the batch is being applied.
//!
//! # Steps
//!
//! | Step | Stores | Then | If it stops after this step |
//! |---|---|---|---|
//! | 1 | (DRAM) the [gate](durahash_media::Gate) is closed for the hashes | | nothing happened |
//! | 2 | each bucket is found free of writers, its payload before is read; new records and copies | flush, fence | nothing names them: free |
//! | 3 | the intent | flush, fence | the same |
//! | 4 | `batch` := the intent's name, **the commit** | flush, drain | the next open does steps 5 and 6 |
//! | 5 | the payloads: what is put, then what is removed | flush, drain each | the same |
//! | 6 | `batch` := 0 | flush, drain | done |
//! | 7 | (DRAM) records that were replaced, and the intent's, are free; the gate is open | | |
//!
//! Where step 5 finds no room, the batch is undone:
//!
//! | Step | Stores | Then | If it stops after this step |
//! |---|---|---|---|
//! | u1 | `batch` := the name with bit 63 set | flush, drain | the next open does u2 and u3 |
//! | u2 | the payloads before; what was not there is removed | flush, drain each | the same |
//! | u3 | `batch` := 0 | flush, drain | nothing happened |
//! | u4 | (DRAM) new records, and the intent's, are free; the gate is open | | |
//!
//! Nothing is removed before all is put that may need room. So what an undo sets back is there, and it needs
//! neither a slot nor a record, unless damage keeps step 5 from a removal. Records before and after are kept until
//! step 7 or u4.
//!
//! Behind a log the drains only order (`Engine::batch`), as a crash leaves a prefix of the log, and the batch
//! waits for the disk once, at its end.
//!
//! # Concurrency
//! One batch at a time in a pool. A writer of another thread looks at the gate under the lock of its bucket. Step 2
//! reads as a reader does, and what it reads counts if it finds the lock free afterwards; else it takes the lock
//! ([`Index::look_in_batch`](crate::index::Index::look_in_batch)). If a writer had the lock before, step 2 reads what
//! it stored. If it has it afterwards, it sees the gate closed ([`Gate`](durahash_media::Gate)), releases the lock,
//! and waits until the batch has ended. So from step 2 to step 7 the payloads
//! of the hashes are what the intent says, before or after, and an intent that is done again at the next
//! open writes over no change that was acknowledged: such a change was made before step 2, or after step 6 was durable.
//!
//! Readers do not wait, and see the payloads change one by one. What they see is not lost by a crash: from step 4
//! on the batch is as durable as its mode promises. Only an undo takes back what they may have seen.
//!
//! # Cost
//! Against puts of the same entries a batch goes to every bucket twice, in steps 2 and 5, and writes 16 to 24 bytes an
//! operation. Step 2 takes hashes in groups, and fetches the lines of a group, and the records that they name, before
//! the first of them is used. It takes no lock, so the misses of a hash overlap those of the next ones. Where it
//! finds nothing, the index fetches the line in which step 5 will insert: a store to a line that is not there would
//! hold up the next locked instruction. Step 5 of a small batch finds all these lines in the cache; that of a larger
//! one takes groups, too, and fetches their lines again.
//!
//! # The intent
//!
//! ```text
//! record  without a key; its value is words, groups of one to 24 hashes of one map:
//!   head  bits  0-47  two for each hash: it has a payload before (the first), after (the second)
//!         bits 48-55  how many hashes
//!         bits 56-63  number of the map
//!   then for each hash: the hash, the payload before if there is one, the payload after if there is one
//! ```

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use durahash_media::{Error, ErrorKind, Result, bits};

use super::edit::{Edit, Rule};
use super::maps::Handle;
use super::record::{Draft, Hashes, MAX_VALUE_BYTES, Store, offset};
use super::records::Records;
use super::{Engine, Single, lock};
use crate::index::{Change, PREFETCHED, Room};

/// The bit of a name that says that the batch is being undone. No intent has a `next`.
const UNDO: u64 = 1 << 63;
/// The most slots whose lines, which step 2 has loaded, are expected in the processor's second cache in step 5: three
/// lines each.
const HELD: usize = 4096;
/// Hashes of a group of the intent.
const GROUP: usize = 24;
const COUNT_SHIFT: u32 = 48;
const MAP_SHIFT: u32 = 56;

/// An operation of a batch.
pub(crate) struct Op {
    pub(crate) h: u64,
    /// Which of the batch's maps.
    pub(crate) map: u8,
    pub(crate) what: What,
}

/// What it does.
pub(crate) enum What {
    /// Gives a key of words this value, or none.
    Word(Option<u64>),
    /// The same of byte strings: key and value stand one behind the other, from here on.
    Bytes { at: usize, key_bytes: u32, value_bytes: Option<u32> },
}

/// Maps by their numbers in the pool.
type Engines = BTreeMap<u8, Arc<Engine<Single>>>;

/// A slot that a batch changes, with its payload before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// Which of the batch's maps; in an intent, and where one is done, the map's number.
    map: u8,
    h: u64,
    old: Option<u64>,
    new: Option<u64>,
}

impl Slot {
    /// Gives the slot this payload, or removes it.
    fn set(&self, engine: &Engine<Single>, payload: Option<u64>) -> Result<()> {
        let (change, room) = match payload {
            Some(payload) => (Change::Set(payload), Room::ForNewOfBatch),
            None => (Change::Remove, Room::OfBatch),
        };
        engine.index.update(self.h, room, &mut |_| Ok(change)).map(drop)
    }
}

/// Applies all of `ops`, of `maps` of one pool, or none of them.
pub(crate) fn apply(maps: &[Handle<Single>], ops: &[Op], bytes: &[u8]) -> Result<()> {
    let (Some(engine), false) = (maps.first(), ops.is_empty()) else {
        return Ok(());
    };
    engine.store.writable()?;
    engine.with_room(|| apply_once(engine, maps, ops, bytes))
}

/// The same, if there is room.
fn apply_once(
    engine: &Engine<Single>,
    maps: &[Handle<Single>],
    ops: &[Op],
    bytes: &[u8],
) -> Result<()> {
    let gate = engine.store.gate();
    let turn = lock(gate.turn(), &*engine.store);
    // Nothing below waits for a sweep.
    maps.iter().try_for_each(|map| map.finish_sweep())?;
    let chained =
        maps.iter().map(|map| (!map.is_words()).then(|| (map.lock_chained(), 0))).collect();
    engine.batch(|| {
        if !planted(Fault::GateOpen) {
            gate.close_for(ops.iter().map(|op| op.h));
        }
        let closed = Closed { engine, ops };
        let mut batch = Batch::new(maps, ops, bytes, chained);
        let done = batch.read().and_then(|()| batch.change());
        batch.end(done.is_ok());
        drop((closed, turn));
        done
    })
}

/// Opens the gate when it is dropped.
struct Closed<'a> {
    engine: &'a Engine<Single>,
    ops: &'a [Op],
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The batch may be half done, and nobody may build on that.
            self.engine.store.poison();
        }
        self.engine.store.gate().open_for(self.ops.iter().map(|op| op.h));
    }
}

/// A batch under way.
struct Batch<'a> {
    maps: &'a [Handle<Single>],
    store: &'a dyn Store,
    ops: &'a [Op],
    bytes: &'a [u8],
    slots: Vec<Slot>,
    /// Numbers of slots and one, by their hashes: each where it belongs, or behind others.
    places: Vec<u32>,
    /// The blocks of records that were written, and of those that go.
    written: Vec<u64>,
    gone: Vec<u64>,
    /// Of maps of byte strings, the number of records that hang on others, and by how much it changes.
    chained: Vec<Option<(MutexGuard<'a, Option<u64>>, i64)>>,
    /// The block of the intent, or 0.
    intent: u64,
    /// The pool may name the intent.
    is_named: bool,
}

impl<'a> Batch<'a> {
    fn new(
        maps: &'a [Handle<Single>],
        ops: &'a [Op],
        bytes: &'a [u8],
        chained: Vec<Option<(MutexGuard<'a, Option<u64>>, i64)>>,
    ) -> Self {
        let records = if chained.iter().any(Option::is_some) { ops.len() } else { 0 };
        Batch {
            maps,
            store: &*maps[0].store,
            ops,
            bytes,
            slots: Vec::with_capacity(ops.len()),
            places: vec![0; (2 * ops.len()).next_power_of_two()],
            written: Vec::with_capacity(records),
            gone: Vec::with_capacity(records),
            chained,
            intent: 0,
            is_named: false,
        }
    }

    /// Step 2.
    fn read(&mut self) -> Result<()> {
        for ops in self.ops.chunk_by(|a, b| a.map == b.map) {
            let map = &self.maps[usize::from(ops[0].map)];
            for ops in ops.chunks(PREFETCHED) {
                let (mut hashes, mut names) = ([0; PREFETCHED], [None; PREFETCHED]);
                hashes.iter_mut().zip(ops).for_each(|(h, op)| *h = op.h);
                let hashes = &hashes[..ops.len()];
                if map.is_words() {
                    map.index.prefetch(hashes);
                } else {
                    map.prefetch_records(hashes, &mut names[..ops.len()])?;
                }
                ops.iter().try_for_each(|op| self.read_one(op))?;
            }
        }
        // An operation that broke off may have left a bucket half done.
        self.store.writable()
    }

    /// Finds out the payloads of one operation's slot, before and after.
    fn read_one(&mut self, op: &Op) -> Result<()> {
        let engine: &'a Engine<Single> = &self.maps[usize::from(op.map)];
        let mut edit = match op.what {
            What::Word(_) => None,
            What::Bytes { at, key_bytes, value_bytes } => {
                let key_end = at + key_bytes as usize;
                let key = &self.bytes[at..key_end];
                let value = value_bytes.map(|bytes| &self.bytes[key_end..][..bytes as usize]);
                let key_hash = engine.records.hashes.key(key);
                let draft = value.map(|value| Draft { key_hash, key, value, next: 0 });
                Some(Edit::new(engine, op.h, key, Rule::Always, draft)?)
            }
        };
        let mut payload_after = |payload| match (&mut edit, &op.what) {
            (Some(edit), _) => edit.in_batch(payload),
            (None, What::Word(new)) => Ok(*new),
            (None, What::Bytes { .. }) => unreachable!("these have an edit"),
        };
        let place = self.place(op);
        let done = match self.places[place] {
            0 => {
                let is_put =
                    !matches!(op.what, What::Word(None) | What::Bytes { value_bytes: None, .. });
                let room = if is_put { Room::ForNewOfBatch } else { Room::OfBatch };
                let old = match engine.index.look_in_batch(op.h, room) {
                    _ if planted(Fault::LockUnseen) => engine.index.get(op.h),
                    Some(old) => Ok(old),
                    None => engine.index.update(op.h, room, &mut |_| Ok(Change::Keep)),
                };
                old.and_then(|old| {
                    let new = payload_after(old)?;
                    self.slots.push(Slot { map: op.map, h: op.h, old, new });
                    self.places[place] = self.slots.len() as u32;
                    Ok(())
                })
            }
            // No other thread changes it any more.
            number => {
                let slot = &mut self.slots[number as usize - 1];
                payload_after(slot.new).map(|new| slot.new = new)
            }
        };
        // Also after an error: what it wrote is freed with the rest.
        if let (Some(edit), Some((_, by))) = (edit, &mut self.chained[usize::from(op.map)]) {
            *by += edit.leave_to_batch(&mut self.written, &mut self.gone);
        }
        done
    }

    /// Where the number of an operation's slot stands, or belongs.
    fn place(&self, op: &Op) -> usize {
        let mask = self.places.len() - 1;
        // The first bits of a hash are the ones that are always used.
        let mut place = op.h.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20) as usize & mask;
        loop {
            let number = self.places[place];
            let slot = self.slots.get((number as usize).wrapping_sub(1));
            if slot.is_none_or(|slot| slot.h == op.h && slot.map == op.map) {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    /// Steps 3 to 6.
    fn change(&mut self) -> Result<()> {
        self.slots.retain(|slot| slot.old != slot.new);
        if self.slots.is_empty() {
            return Ok(());
        }
        let name = self.write_intent()?;
        self.is_named = true;
        self.store.set_batch(name)?;
        let engine = |slot: &Slot| &*self.maps[usize::from(slot.map)];
        if let Err(e) = redo(&self.slots, engine) {
            // A pool that another thread has stopped takes no undo either: the next open ends the batch as it was begun.
            let undone =
                self.store.writable().and_then(|()| undo(self.store, name, &self.slots, engine));
            if undone.is_err() {
                // The next open goes on with it. Until then nobody may build on a part of it.
                self.store.poison();
            } else {
                self.is_named = false;
            }
            return Err(e);
        }
        self.store.set_batch(0)?;
        self.is_named = false;
        Ok(())
    }

    /// Step 3; the intent's name.
    fn write_intent(&mut self) -> Result<u64> {
        let value = encode(&self.slots, |map| self.maps[usize::from(map)].map);
        if value.len() > MAX_VALUE_BYTES {
            let (bytes, limit_bytes) = (value.len() as u64, MAX_VALUE_BYTES as u64);
            return Err(ErrorKind::TooLarge { what: "batch", bytes, limit_bytes }.into());
        }
        let hashes = hashes(self.store);
        let draft = Draft { key_hash: hashes.key(&[]), key: &[], value: &value, next: 0 };
        // Of few sizes: each size keeps an extent.
        let none = || Error::corrupt("a sweep is reported, but none is pending", 0);
        self.intent = self.store.alloc(draft.bytes().next_power_of_two())?.ok_or_else(none)?;
        self.store.write(self.intent, &hashes, &draft)
    }

    /// Steps 7 and u4.
    fn end(mut self, is_done: bool) {
        if self.is_named {
            // What it names is needed at the next open.
            return;
        }
        if is_done {
            for (count, by) in self.chained.iter_mut().flatten() {
                **count = count.map(|count| count.saturating_add_signed(*by));
            }
        }
        let mut free = if is_done { self.gone } else { self.written };
        free.extend(Some(self.intent).filter(|off| *off != 0));
        free.into_iter().for_each(|off| self.maps[0].release(off));
    }
}

/// Step 5.
fn redo<'a>(slots: &[Slot], engine: impl Fn(&Slot) -> &'a Engine<Single>) -> Result<()> {
    let is_held = slots.len() <= HELD;
    for is_put in [true, false] {
        for slots in slots.chunk_by(|a, b| a.map == b.map) {
            let engine = engine(&slots[0]);
            for slots in slots.chunks(PREFETCHED) {
                let mut hashes = [0; PREFETCHED];
                let mut count = 0;
                let due = || slots.iter().filter(|slot| slot.new.is_some() == is_put);
                for (h, slot) in hashes.iter_mut().zip(due()) {
                    *h = slot.h;
                    count += 1;
                }
                if !is_held {
                    engine.index.prefetch(&hashes[..count]);
                }
                due().try_for_each(|slot| slot.set(engine, slot.new))?;
            }
        }
    }
    Ok(())
}

/// The hashes of intents: those of the pool, of whatever maps.
fn hashes(store: &dyn Store) -> Hashes {
    Hashes::new(store.format().seed, 0, false)
}

/// Steps u1 to u3.
fn undo<'a>(
    store: &dyn Store,
    name: u64,
    slots: &[Slot],
    engine: impl Fn(&Slot) -> &'a Engine<Single>,
) -> Result<()> {
    store.set_batch(name | UNDO)?;
    slots.iter().try_for_each(|slot| slot.set(engine(slot), slot.old))?;
    store.set_batch(0)
}

/// The words of an intent, as bytes. `number` says of the batch's maps which one of the pool it is.
fn encode(slots: &[Slot], number: impl Fn(u8) -> u8) -> Vec<u8> {
    let mut words: Vec<[u8; 8]> = Vec::with_capacity(slots.len() * 3 + slots.len() / GROUP + 2);
    for slots in slots.chunk_by(|a, b| a.map == b.map).flat_map(|slots| slots.chunks(GROUP)) {
        let flags = slots.iter().rev().fold(0, |flags, slot| {
            flags << 2 | u64::from(slot.new.is_some()) << 1 | u64::from(slot.old.is_some())
        });
        let map = u64::from(number(slots[0].map));
        let head = flags | (slots.len() as u64) << COUNT_SHIFT | map << MAP_SHIFT;
        words.push(head.to_le_bytes());
        for slot in slots {
            words.push(slot.h.to_le_bytes());
            words.extend([slot.old, slot.new].into_iter().flatten().map(u64::to_le_bytes));
        }
    }
    words.into_flattened()
}

/// The slots of an intent; `None` where the bytes are none.
fn decode(value: &[u8]) -> Option<Vec<Slot>> {
    let (words, rest) = value.as_chunks::<8>();
    let mut words = words.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let mut slots = Vec::new();
    while let Some(head) = words.next() {
        let (count, map) = (bits(head, COUNT_SHIFT, 8), bits(head, MAP_SHIFT, 8) as u8);
        for i in 0..count {
            let flags = head.checked_shr(2 * i as u32).filter(|_| count <= GROUP as u64)?;
            let mut next_if = |is_there| if is_there { words.next().map(Some) } else { Some(None) };
            let (h, old) = (next_if(true)??, next_if(flags & 1 != 0)?);
            let new = next_if(flags & 2 != 0)?;
            slots.push(Slot { map, h, old, new });
        }
    }
    rest.is_empty().then_some(slots)
}

/// A batch that a crash has cut off, as the pool has it.
pub(crate) struct Pending {
    /// The superblock's word; 0 is none.
    named: u64,
    slots: Vec<Slot>,
}

/// Reads and verifies what a crash has left of a batch, before anything is written. `is_map` says of a number if
/// the pool has a map of it, which is no multimap.
///
/// A pool that pages may be missing of is opened without the batch, where damage keeps it from that.
pub(crate) fn pending(
    store: &Arc<dyn Store>,
    is_map: impl Fn(u8) -> bool,
    accept_suspect: bool,
) -> Result<Pending> {
    let named = store.batch()?;
    if named == 0 {
        return Ok(Pending { named, slots: Vec::new() });
    }
    let name = named & !UNDO;
    let records =
        Records { store: Arc::clone(store), hashes: hashes(&**store), cell: None, known: None };
    let damaged = || Error::corrupt("the batch that a crash has cut off", offset(name));
    let value = records.at(name).and_then(|record| records.load(&record));
    let slots = value.and_then(|(_, value)| {
        decode(&value).filter(|slots| slots.iter().all(|slot| is_map(slot.map))).ok_or_else(damaged)
    });
    match slots {
        Ok(slots) => Ok(Pending { named, slots }),
        Err(_) if accept_suspect => Ok(Pending { named, slots: Vec::new() }),
        Err(e) => Err(e),
    }
}

/// Ends such a batch, when all maps are recovered and before anything else is written. What it was to put is put
/// where there is room, else it is undone. A reader does so in its own copy of the pool.
pub(crate) fn recover(
    store: &Arc<dyn Store>,
    Pending { named, slots }: Pending,
    map: impl Fn(u8) -> Option<Arc<Engine<Single>>>,
    accept_suspect: bool,
) -> Result<()> {
    if named == 0 {
        return Ok(());
    }
    let mut engines = Engines::new();
    for number in slots.iter().map(|slot| slot.map) {
        if let Some(map) = map(number) {
            engines.entry(number).or_insert(map);
        }
    }
    let engine = |slot: &Slot| &*engines[&slot.map];
    if !accept_suspect {
        // Where damage hides one of them, the batch is left whole to an open that finds it mended.
        slots.iter().try_for_each(|slot| engine(slot).index.get(slot.h).map(drop))?;
    }
    store.recover_copy(true);
    let name = named & !UNDO;
    let ended = if named == name && redo(&slots, engine).is_ok() {
        store.set_batch(0)
    } else {
        undo(&**store, name, &slots, engine)
    };
    let ended = if accept_suspect { ended.or_else(|_| store.set_batch(0)) } else { ended };
    store.recover_copy(false);
    // What hangs on others may be more now, or less.
    engines.values().for_each(|engine| *engine.lock_chained() = None);
    ended
}

/// A fault of batches that tests plant, to prove that it would be found; as those of Rewo-Hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Others write to what a batch changes.
    GateOpen,
    /// A batch reads what a writer that has the lock is about to change.
    LockUnseen,
}

thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// From now on the batches of this thread have this fault.
#[cfg(feature = "planted")]
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

fn planted(fault: Fault) -> bool {
    cfg!(feature = "planted") && PLANTED.get() == Some(fault)
}
