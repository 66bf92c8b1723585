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
//! | 5 | the payloads: puts first, then removals | flush, drain each | the same |
//! | 6 | `batch` := 0 | flush, drain | done |
//! | 7 | (DRAM) records that were replaced, and the intent's, are free; the gate is open | | |
//!
//! Where step 5 finds no room, the batch is undone:
//!
//! | Step | Stores | Then | If it stops after this step |
//! |---|---|---|---|
//! | u1 | `batch` := the name with bit 63 set | flush, drain | the next open does u2 and u3 |
//! | u2 | the payloads before; keys that were not there are removed | flush, drain each | the same |
//! | u3 | `batch` := 0 | flush, drain | nothing happened |
//! | u4 | (DRAM) new records, and the intent's, are free; the gate is open | | |
//!
//! Nothing is removed before all is put that may need room. So the entries that an undo sets back are there, and it
//! needs neither a slot nor a record, unless damage keeps step 5 from a removal. Records before and after are kept
//! until step 7 or u4.
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
//! Readers do not wait, and see the payloads change one by one. A crash does not lose what they see: from step 4
//! on the batch is as durable as its mode promises. Only an undo takes back what they may have seen.
//!
//! # Cost
//! Against puts of the same entries a batch goes to every bucket twice, in steps 2 and 5, and writes 16 to 24 bytes an
//! operation. Both steps take hashes in groups, one call of the index for each. Step 2 fetches the lines of a group, and
//! the records that they name, before the first of them is used. It takes no lock, so the misses of a hash overlap
//! those of the next ones. Where it finds nothing, the index fetches the line in which step 5 will insert: a store to
//! a line that is not there would hold up the next locked instruction. Step 5 of a small batch finds all these lines in
//! the cache; that of a larger one fetches its groups' lines again. The gate's bits tell of most hashes that they
//! have one operation: only for the others the batch keeps a table.
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

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use durahash_media::{Error, ErrorKind, Gate, Result, bits};

use super::edit::{Edit, Rule};
use super::maps::Handle;
use super::record::{Draft, Hashes, MAX_VALUE_BYTES, Store, offset};
use super::records::Records;
use super::{Engine, Single, lock};
use crate::index::{Change, PREFETCHED, Room};
use crate::util::planted::faults;

/// The bit of a name that says that the batch is being undone. No intent has a `next`.
const UNDO: u64 = 1 << 63;
/// The most slots whose lines, which step 2 has loaded, are expected in the processor's second cache in step 5: three
/// lines each.
const HELD: usize = 2048;
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

/// The change.
pub(crate) enum What {
    /// Gives a key of words this value, or none.
    Word(Option<u64>),
    /// The same of byte strings: key and value stand one behind the other, from here on.
    Bytes { at: usize, key_bytes: u32, value_bytes: Option<u32> },
}

impl Op {
    /// Room for what it puts.
    fn room(&self) -> Room {
        match self.what {
            What::Word(None) | What::Bytes { value_bytes: None, .. } => Room::OfBatch,
            _ => Room::ForNewOfBatch,
        }
    }
}

/// Maps by their numbers in the pool.
type Engines = BTreeMap<u8, Arc<Engine<Single>>>;

/// A slot that a batch changes, with its payloads before and after.
#[derive(Clone, Copy, Debug)]
struct Slot {
    h: u64,
    /// Those that it has none of are 0.
    payloads: [u64; 2],
    /// Which of them it has, a bit each, as in an intent.
    has: u8,
    /// Which of the batch's maps; in an intent, and where one is done, the map's number.
    map: u8,
}

impl Slot {
    fn new(map: u8, h: u64, old: Option<u64>, new: Option<u64>) -> Self {
        let has = u8::from(new.is_some()) << 1 | u8::from(old.is_some());
        Slot { h, payloads: [old.unwrap_or(0), new.unwrap_or(0)], has, map }
    }

    fn old(&self) -> Option<u64> {
        (self.has & 1 != 0).then_some(self.payloads[0])
    }

    fn new_payload(&self) -> Option<u64> {
        (self.has & 2 != 0).then_some(self.payloads[1])
    }

    fn is_changed(&self) -> bool {
        self.payloads[0] != self.payloads[1] || matches!(self.has, 1 | 2)
    }
}

/// Applies all of `ops`, of `maps` of one pool, or none of them.
pub(crate) fn apply(maps: &[Handle<Single>], ops: &[Op], bytes: &[u8]) -> Result<()> {
    let (Some(first), false) = (maps.first(), ops.is_empty()) else {
        return Ok(());
    };
    first.run(|engine| {
        engine.store.writable()?;
        engine.with_room(|| apply_once(engine, maps, ops, bytes))
    })
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
    maps.iter().try_for_each(|map| map.engine.finish_sweep())?;
    let chained = maps
        .iter()
        .map(|map| (!map.engine.is_words()).then(|| (map.engine.lock_chained(), 0)))
        .collect();
    engine.batch(|| {
        if !planted(Fault::GateOpen) {
            gate.close_for(ops.iter().map(|op| op.h));
        }
        let closed = Closed { engine, ops, unwinds: std::thread::panicking() };
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
    /// The thread unwinds already, so the batch is not what has panicked.
    unwinds: bool,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinds {
            // The batch may be half done, and no operation may build on that.
            self.engine.store.poison();
        }
        self.engine.store.gate().open_for(self.ops.iter().map(|op| op.h));
    }
}

/// A batch under way.
struct Batch<'a> {
    maps: &'a [Handle<Single>],
    store: &'a dyn Store,
    gate: &'a Gate,
    ops: &'a [Op],
    bytes: &'a [u8],
    slots: Vec<Slot>,
    /// Numbers of slots and one, by their hashes: each where it belongs, or behind others. Of those hashes only
    /// that may be of several operations.
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
            store: &*maps[0].engine.store,
            gate: maps[0].engine.store.gate(),
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
        let ops = self.ops;
        for_runs(
            ops,
            self.maps.len(),
            |op| op.map,
            |ops| ops.chunks(PREFETCHED).try_for_each(|ops| self.read_group(ops)),
        )?;
        // An operation that broke off may have left a bucket half done.
        self.store.writable()
    }

    /// The same of a few operations on one map.
    fn read_group(&mut self, ops: &[Op]) -> Result<()> {
        let engine = self.engine(ops[0].map);
        let (mut hashes, mut rooms) = ([0; PREFETCHED], [Room::OfBatch; PREFETCHED]);
        for (i, op) in ops.iter().enumerate() {
            (hashes[i], rooms[i]) = (op.h, op.room());
        }
        let seen = &mut [None; PREFETCHED][..ops.len()];
        engine.index.look_in_batch(&hashes[..ops.len()], &rooms[..ops.len()], seen);
        if !engine.is_words() {
            let names = seen.iter().flatten().flatten();
            names.for_each(|name| engine.records.prefetch(*name));
        }
        ops.iter().zip(seen).try_for_each(|(op, seen)| self.read_one(op, *seen))
    }

    /// Finds out the payloads of one operation's slot, before and after. `seen` is the one before, if a look has
    /// told it.
    #[inline]
    fn read_one(&mut self, op: &Op, seen: Option<Option<u64>>) -> Result<()> {
        match op.what {
            What::Word(new) => self.note(op, seen, |_| Ok(new)),
            What::Bytes { at, key_bytes, value_bytes } => {
                let key_end = at + key_bytes as usize;
                let value = value_bytes.map(|bytes| &self.bytes[key_end..][..bytes as usize]);
                self.read_bytes(op, seen, &self.bytes[at..key_end], value)
            }
        }
    }

    /// The same of a key of bytes and its new value. The new record is written.
    fn read_bytes(
        &mut self,
        op: &Op,
        seen: Option<Option<u64>>,
        key: &'a [u8],
        value: Option<&'a [u8]>,
    ) -> Result<()> {
        let engine = self.engine(op.map);
        let key_hash = engine.records.hashes.key(key);
        let draft = value.map(|value| Draft { key_hash, key, value, next: 0 });
        let mut edit = Edit::new(engine, op.h, key, Rule::Always, draft)?;
        let done = self.note(op, seen, |payload| edit.in_batch(payload));
        // Also after an error: what it wrote is freed with the rest.
        if let Some((_, by)) = &mut self.chained[usize::from(op.map)] {
            *by += edit.leave_to_batch(&mut self.written, &mut self.gone);
        }
        done
    }

    /// Notes the slot of an operation, with the payload that `after` makes of the one before.
    #[inline(always)]
    fn note(
        &mut self,
        op: &Op,
        seen: Option<Option<u64>>,
        after: impl FnOnce(Option<u64>) -> Result<Option<u64>>,
    ) -> Result<()> {
        // Of most hashes a bit says that there is no other operation.
        // A gate that a fault has left open knows nothing.
        let may_be = planted(Fault::GateOpen) || self.gate.may_be_of_several(op.h);
        let place = may_be.then(|| self.place(op));
        let number = place.map_or(0, |place| self.places[place]);
        if number != 0 {
            // No other thread changes it any more.
            let slot = &mut self.slots[number as usize - 1];
            *slot = Slot::new(slot.map, slot.h, slot.old(), after(slot.new_payload())?);
            return Ok(());
        }
        let engine = self.engine(op.map);
        let old = match seen {
            _ if planted(Fault::LockUnseen) => engine.index.get(op.h)?,
            Some(old) => old,
            None => engine.index.update(op.h, op.room(), &mut |_| Ok(Change::Keep))?,
        };
        self.slots.push(Slot::new(op.map, op.h, old, after(old)?));
        if let Some(place) = place {
            self.places[place] = self.slots.len() as u32;
        }
        Ok(())
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
        self.slots.retain(Slot::is_changed);
        if self.slots.is_empty() {
            return Ok(());
        }
        let name = self.write_intent()?;
        self.is_named = true;
        self.store.set_batch(name)?;
        let engine = |slot: &Slot| self.engine(slot.map);
        if let Err(e) = redo(&self.slots, self.maps.len(), engine) {
            // A pool that another thread has stopped takes no undo either: the next open ends the batch as it was begun.
            let undone = self
                .store
                .writable()
                .and_then(|()| undo(self.store, name, &self.slots, self.maps.len(), engine));
            if undone.is_err() {
                // The next open goes on with it. Until then no operation may build on a part of it.
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

    /// The map of this number in the batch.
    fn engine(&self, map: u8) -> &'a Engine<Single> {
        &self.maps[usize::from(map)].engine
    }

    /// Step 3; the intent's name.
    fn write_intent(&mut self) -> Result<u64> {
        let value = encode(&self.slots, |map| self.engine(map).map);
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
            // The next open needs the records that it names.
            return;
        }
        if is_done {
            for (count, by) in self.chained.iter_mut().flatten() {
                **count = count.map(|count| count.saturating_add_signed(*by));
            }
        }
        let mut free = if is_done { self.gone } else { self.written };
        free.extend(Some(self.intent).filter(|off| *off != 0));
        free.into_iter().for_each(|off| self.maps[0].engine.release(off));
    }
}

/// Calls `f` with each run of what belongs to one map.
#[inline(always)]
fn for_runs<'a, T>(
    all: &'a [T],
    maps: usize,
    map: impl Fn(&T) -> u8,
    mut f: impl FnMut(&'a [T]) -> Result<()>,
) -> Result<()> {
    if maps == 1 { f(all) } else { all.chunk_by(|a, b| map(a) == map(b)).try_for_each(f) }
}

/// Step 5.
fn redo<'a>(
    slots: &[Slot],
    maps: usize,
    engine: impl Fn(&Slot) -> &'a Engine<Single>,
) -> Result<()> {
    let is_held = slots.len() <= HELD;
    let has_new = |slot: &Slot| slot.new_payload().is_some();
    let is_put_only = slots.iter().all(has_new);
    for is_put in [true, false].into_iter().take(if is_put_only { 1 } else { 2 }) {
        for_runs(
            slots,
            maps,
            |slot| slot.map,
            |slots| {
                let due = slots.iter().filter(|slot| has_new(slot) == is_put);
                change_all(engine(&slots[0]), due, Slot::new_payload, is_held)
            },
        )?;
    }
    Ok(())
}

/// Gives all of these slots, of one map, these payloads, or removes them, in this order.
fn change_all<'a>(
    engine: &Engine<Single>,
    due: impl Iterator<Item = &'a Slot>,
    payload: fn(&Slot) -> Option<u64>,
    is_held: bool,
) -> Result<()> {
    let change = |hashes: &[u64], payloads: &[Option<u64>]| {
        if !is_held {
            engine.index.prefetch(hashes);
        }
        engine.index.change_in_batch(hashes, payloads)
    };
    let (mut hashes, mut payloads) = ([0; PREFETCHED], [None; PREFETCHED]);
    let mut count = 0;
    for slot in due {
        (hashes[count], payloads[count]) = (slot.h, payload(slot));
        count += 1;
        if count == PREFETCHED {
            change(&hashes, &payloads)?;
            count = 0;
        }
    }
    if count > 0 { change(&hashes[..count], &payloads[..count]) } else { Ok(()) }
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
    maps: usize,
    engine: impl Fn(&Slot) -> &'a Engine<Single>,
) -> Result<()> {
    store.set_batch(name | UNDO)?;
    for_runs(
        slots,
        maps,
        |slot| slot.map,
        |slots| change_all(engine(&slots[0]), slots.iter(), Slot::old, true),
    )?;
    store.set_batch(0)
}

/// The words of an intent, as bytes. `number` says of the batch's maps which one of the pool it is.
fn encode(slots: &[Slot], number: impl Fn(u8) -> u8) -> Vec<u8> {
    let mut words: Vec<[u8; 8]> = Vec::with_capacity(slots.len() * 3 + slots.len() / GROUP + 2);
    for slots in slots.chunk_by(|a, b| a.map == b.map).flat_map(|slots| slots.chunks(GROUP)) {
        let map = u64::from(number(slots[0].map));
        let mut head = (slots.len() as u64) << COUNT_SHIFT | map << MAP_SHIFT;
        let (mut group, mut count) = ([0; 1 + 3 * GROUP], 1);
        for (i, slot) in slots.iter().enumerate() {
            head |= u64::from(slot.has) << (2 * i);
            group[count] = slot.h;
            count += 1;
            for (i, payload) in slot.payloads.iter().enumerate() {
                // The next value overwrites a payload that it does not have.
                group[count] = *payload;
                count += usize::from(slot.has >> i & 1);
            }
        }
        group[0] = head;
        words.extend(group[..count].iter().map(|word| word.to_le_bytes()));
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
            slots.push(Slot::new(map, h, old, new));
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

/// Reads and verifies a batch that a crash has left, before anything is written. `is_map` says of a number if
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

/// Ends such a batch, when all maps are recovered and before anything else is written. Its puts are done
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
    let ended = if named == name && redo(&slots, engines.len(), engine).is_ok() {
        store.set_batch(0)
    } else {
        undo(&**store, name, &slots, engines.len(), engine)
    };
    let ended = if accept_suspect { ended.or_else(|_| store.set_batch(0)) } else { ended };
    store.recover_copy(false);
    // More entries may hang on others now, or fewer.
    engines.values().for_each(|engine| *engine.lock_chained() = None);
    ended
}

faults! {
    /// Others write to the slots that a batch changes.
    GateOpen,
    /// A batch reads a slot that a writer with the lock is about to change.
    LockUnseen,
}
