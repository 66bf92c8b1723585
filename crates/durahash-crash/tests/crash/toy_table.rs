//! A table to test the tester on: small, and wrong in as many ways as are asked for.
//!
//! The first block holds the root: the number of slots. Slots follow, pairs of
//! hash and payload, as many as the root says; an empty one has a hash of all ones. Inserting stores
//! the payload, then the hash; removing moves the last slot into the gap, so that for a moment a key
//! is there twice, and recovery removes the second.

use std::sync::{Arc, Mutex, MutexGuard};

use durahash::index::{Change, Index, IndexBase, Reader, Room, Updater};
use durahash::{Finding, IndexStats, Result};
use durahash_crash::case::{Case, Prefill, Slots, Table};
use durahash_crash::script::Op;
use durahash_media::sim::Sim;
use durahash_media::{Event, Memory, PmU64, Storage};

const EMPTY: u64 = u64::MAX;
const SLOTS_OFF: u64 = 256;
/// Two lines of slots at a time.
const STEP: u64 = 8;
const SLOT_BYTES: u64 = 16;

/// Its fault: the classes of faults that published tables were found to have, by their
/// numbers in `docs/testing.md`. Class 9, allocators, is in `blocks.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// The commit word is durable before its data (class 1).
    CommitFirst,
    /// A replacement is two words that are not one atomic store (class 2).
    TwoWords,
    /// The capacity is durable before the slots that it counts (class 3).
    CapacityFirst,
    /// A mark that means something only to a running process blocks a slot after a restart (class 5).
    MarkStays,
    /// The lock is released before the stores are durable (class 6).
    VisibleFirst,
    /// Only the first line of an object is flushed (class 7).
    FirstLine,
    /// The fresh table is not persisted before it is published (class 8).
    FreshUnpersisted,
    /// Of two copies, recovery leaves both (class 10).
    BothCopies,
    /// Recovery forgets to flush its repairs.
    RepairUnflushed,
    /// State in DRAM is rebuilt wrongly (class 11).
    WrongCount,
    /// A remove clears the moved slot before its new home is durable (class 4).
    ClearFirst,
    /// Recovery never ends.
    Endless,
    /// Recovery panics where it could have repaired.
    Panics,
}

pub(crate) struct Toy {
    sim: Sim,
    bug: Bug,
    /// How many keys there are; also the writers' lock.
    len: Mutex<u64>,
}

impl Toy {
    fn create(sim: Sim, bug: Bug) -> Result<Self> {
        let toy = Toy { sim, bug, len: Mutex::new(0) };
        toy.sim.grow(SLOTS_OFF)?;
        toy.add_slots(0)?;
        toy.sim.publish()?;
        Ok(toy)
    }

    fn open(sim: Sim, bug: Bug) -> Result<Self> {
        let toy = Toy { sim, bug, len: Mutex::new(0) };
        let live = toy.live()?;
        for (at, (h, slot)) in live.iter().enumerate() {
            if live[..at].iter().any(|(other, _)| other == h) {
                assert_ne!(bug, Bug::Panics, "a key is there twice");
                if bug == Bug::Endless {
                    loop {
                        toy.live()?;
                    }
                }
                if bug != Bug::BothCopies {
                    toy.sim.store(&slot[0], EMPTY);
                    if bug != Bug::RepairUnflushed {
                        toy.persist(&slot[0]);
                    }
                }
            }
        }
        let len = toy.live()?.len() as u64;
        *toy.lock() = if bug == Bug::WrongCount { live.len() as u64 } else { len };
        Ok(toy)
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.len.lock().unwrap()
    }

    fn words(&self, off: u64, count: u64) -> Result<&[PmU64]> {
        self.sim.region().words(off, count)
    }

    #[track_caller]
    fn persist(&self, word: &PmU64) {
        self.sim.flush(word);
        self.sim.drain();
    }

    fn slots(&self) -> Result<Vec<&[PmU64]>> {
        let count = self.sim.load(&self.words(0, 1)?[0]);
        (0..count).map(|slot| self.words(SLOTS_OFF + slot * SLOT_BYTES, 2)).collect()
    }

    fn live(&self) -> Result<Vec<(u64, &[PmU64])>> {
        let mut live: Vec<_> =
            self.slots()?.into_iter().map(|slot| (self.sim.load(&slot[0]), slot)).collect();
        live.retain(|(h, _)| *h != EMPTY);
        Ok(live)
    }

    fn add_slots(&self, count: u64) -> Result<()> {
        let off = SLOTS_OFF + count * SLOT_BYTES;
        self.sim.grow(off + STEP * SLOT_BYTES)?;
        let fresh = self.words(off, STEP * 2)?;
        let root = &self.words(0, 1)?[0];
        let early = self.bug == Bug::CapacityFirst;
        if early {
            self.sim.store(root, count + STEP);
            self.persist(root);
        }
        for slot in fresh.chunks(2) {
            self.sim.store(&slot[0], EMPTY);
        }
        match self.bug {
            Bug::FirstLine => self.sim.flush(&fresh[..8]),
            Bug::FreshUnpersisted => {}
            _ => self.sim.flush(fresh),
        }
        self.sim.fence();
        if !early {
            self.sim.store(root, count + STEP);
            self.persist(root);
        }
        Ok(())
    }

    fn insert(&self, h: u64, payload: u64) -> Result<()> {
        let slots = self.slots()?;
        let free =
            slots.iter().find(|slot| self.sim.load(&slot[0]) == EMPTY && !self.is_blocked(slot));
        let Some(slot) = free else {
            self.add_slots(slots.len() as u64)?;
            return self.insert(h, payload);
        };
        if self.bug == Bug::MarkStays {
            // "In use", until the insert is done.
            self.sim.store(&slot[1], EMPTY);
        }
        if self.bug == Bug::CommitFirst {
            self.sim.store(&slot[0], h);
        }
        self.sim.store(&slot[1], payload);
        if !self.sim.same_line_order() {
            self.sim.flush(&slot[1]);
            self.sim.fence();
        }
        self.sim.store(&slot[0], h);
        self.commit(&slot[0]);
        Ok(())
    }

    /// Persists the word that makes an operation visible, and lets others see it.
    fn commit(&self, word: &PmU64) {
        self.sim.flush(word);
        if self.bug == Bug::VisibleFirst {
            self.sim.event(Event::Unlocked(0));
        }
        self.sim.drain();
        if self.bug != Bug::VisibleFirst {
            self.sim.event(Event::Unlocked(0));
        }
    }

    fn is_blocked(&self, slot: &[PmU64]) -> bool {
        self.bug == Bug::MarkStays && self.sim.load(&slot[1]) == EMPTY
    }

    fn remove(&self, gap: &[PmU64]) -> Result<()> {
        let live = self.live()?;
        let (h, last) = live[live.len() - 1];
        if !std::ptr::eq(last, gap) {
            // Not by one store: the gap goes away first, then the moved slot appears in it.
            self.sim.store(&gap[0], EMPTY);
            if !self.sim.same_line_order() {
                self.persist(&gap[0]);
            }
            if self.bug == Bug::ClearFirst {
                self.sim.store(&last[0], EMPTY);
                self.persist(&last[0]);
            }
            self.sim.store(&gap[1], self.sim.load(&last[1]));
            if !self.sim.same_line_order() {
                self.sim.flush(&gap[1]);
                self.sim.fence();
            }
            self.sim.store(&gap[0], h);
            self.persist(&gap[0]);
        }
        self.sim.store(&last[0], EMPTY);
        self.commit(&last[0]);
        Ok(())
    }

    fn write(&self, h: u64, f: Updater<'_>, len: &mut u64) -> Result<Option<u64>> {
        let live = self.live()?;
        let found = live.iter().find(|(other, _)| *other == h);
        let payload = found.map(|(_, slot)| self.sim.load(&slot[1]));
        match (f(payload)?, found) {
            (Change::Set(v), Some((_, slot))) if self.bug == Bug::TwoWords => {
                self.sim.store(&slot[0], EMPTY);
                self.persist(&slot[0]);
                self.insert(h, v)?;
            }
            (Change::Set(v), Some((_, slot))) => {
                self.sim.store(&slot[1], v);
                self.commit(&slot[1]);
            }
            (Change::Set(v), None) => {
                self.insert(h, v)?;
                *len += 1;
            }
            (Change::Remove, Some((_, slot))) => {
                self.remove(slot)?;
                *len -= 1;
            }
            (Change::Keep, _) | (Change::Remove, None) => {}
        }
        Ok(payload)
    }
}

impl IndexBase for Toy {
    type Slot = u64;

    fn scan(&self, _at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        let live = self.live()?;
        out.extend(live.iter().map(|(h, slot)| (*h, self.sim.load(&slot[1]))));
        Ok(None)
    }

    fn len(&self) -> Result<u64> {
        Ok(*self.lock())
    }

    fn stats(&self) -> IndexStats {
        IndexStats::default()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        for (at, slot) in self.slots()?.iter().enumerate() {
            if self.sim.load(&slot[0]) == EMPTY && self.is_blocked(slot) {
                let off = SLOTS_OFF + at as u64 * SLOT_BYTES;
                found(Finding::new("TOY-1", off, "a slot is in use by nobody"));
            }
        }
        Ok(())
    }
}

impl Index for Toy {
    fn get(&self, h: u64) -> Result<Option<u64>> {
        let live = self.live()?;
        let found = live.iter().find(|(other, _)| *other == h);
        Ok(found.map(|(_, slot)| self.sim.load(&slot[1])))
    }

    fn read(&self, h: u64, f: Reader<'_>) -> Result<()> {
        let _lock = self.lock();
        f(self.get(h)?, &|| true)
    }

    fn update(&self, h: u64, _room: Room, f: Updater<'_>) -> Result<Option<u64>> {
        let mut len = self.lock();
        self.sim.event(Event::Locked(0));
        self.write(h, f, &mut len)
    }
}

/// The toy with a bug, under test.
pub(crate) fn toy(bug: Bug) -> Case {
    let table = |index| -> Box<dyn Table> {
        Box::new(Slots { index: Arc::new(index), step: Toy::step, pool: None })
    };
    let kinds = vec![
        Op::Put(0, 0),
        Op::Insert(1, 0),
        Op::Update(1, 0),
        Op::Remove(0),
        Op::Remove(6),
        Op::Put(7, 0),
    ];
    let filled = |count| (0..count).map(|key| Op::Put(key, 1)).collect();
    Case {
        recovery_calls: 10_000,
        keys: (0..12).rev().collect(),
        prefills: vec![
            Prefill { name: "empty", ops: Vec::new(), kinds: kinds.clone() },
            Prefill { name: "below-full", ops: filled(7), kinds: kinds.clone() },
            Prefill { name: "grown", ops: filled(9), kinds },
        ],
        ..Case::new(
            "toy",
            4096,
            Arc::new(move |sim| Toy::create(sim, bug).map(table)),
            Arc::new(move |sim| Toy::open(sim, bug).map(table)),
        )
    }
}
