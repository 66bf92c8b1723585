//! Readers beside a writer of REH that see none of its locks: held up before each of their calls into the medium while whole
//! operations are done, and looking while the writer is held up before each of its own. Both are played by one
//! thread.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use durahash::index::{Change, Index, IndexBase, Room};
use durahash::reh::{Fault, Onlooker, Reh, plant};
use durahash_crash::script::Rng;
use durahash_media::hash::WordMix;
use durahash_media::sim::{Call, Hook, Sim, Site, budget, seed};
use durahash_media::{Format, Geometry, Pool};

const MAX_BYTES: u64 = 4 << 20;
const KEYS: usize = 40;

type Interruption = Box<dyn FnMut()>;

thread_local! {
    /// Comes before each call into the medium, but for its own.
    static BETWEEN: Cell<Option<Interruption>> = const { Cell::new(None) };
}

struct Between;

impl Hook for Between {
    fn thread(&self) -> u32 {
        0
    }

    fn before(&self, _: Call, _: Site) {
        if let Some(mut f) = BETWEEN.take() {
            f();
            BETWEEN.set(Some(f));
        }
    }
}

/// Runs `f` with `interruption` before each of its calls.
fn interrupted<T>(interruption: impl FnMut() + 'static, f: impl FnOnce() -> T) -> T {
    BETWEEN.set(Some(Box::new(interruption)));
    let done = f();
    BETWEEN.set(None);
    done
}

/// The `i`-th key: half of them in a fourth of all hashes, so that depths differ.
fn key(i: usize) -> u64 {
    const MIX: WordMix = WordMix::new(42);
    let h = MIX.mix(i as u64);
    if i.is_multiple_of(2) { h >> 2 } else { h }
}

/// A table, a reader of it, and what it has.
struct Play {
    reh: Reh<Sim>,
    onlooker: Onlooker<Sim>,
    model: Cell<BTreeMap<u64, u64>>,
    rng: Cell<Option<Rng>>,
    next: Cell<u64>,
    /// Puts of ten operations; it turns.
    puts: Cell<usize>,
}

impl Play {
    fn new(seed: u64) -> Rc<Self> {
        let sim = Sim::new(MAX_BYTES);
        let geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 1 };
        let format = Format::of_index(1, geometry, MAX_BYTES);
        let pool = Arc::new(Pool::create(sim.clone(), &format).unwrap());
        let reh = Reh::create(Arc::clone(&pool)).unwrap();
        let onlooker = Onlooker::new(pool);
        sim.set_hook(Box::new(Between));
        let (model, rng) = (Cell::default(), Cell::new(Some(Rng::new(seed))));
        Rc::new(Play { reh, onlooker, model, rng, next: Cell::new(1), puts: Cell::new(8) })
    }

    fn below(&self, n: usize) -> usize {
        let mut rng = self.rng.take().unwrap();
        let drawn = rng.below(n);
        self.rng.set(Some(rng));
        drawn
    }

    fn model(&self) -> BTreeMap<u64, u64> {
        let model = self.model.take();
        self.model.set(model.clone());
        model
    }

    /// The next operation: a key, and its new value if it is put.
    fn draw(&self) -> (u64, Option<u64>) {
        if self.below(30) == 0 {
            self.puts.set([8, 2][self.below(2)]);
        }
        let h = key(self.below(KEYS));
        self.next.set(self.next.get() + 1);
        (h, (self.below(10) < self.puts.get()).then_some(self.next.get()))
    }

    /// Does it.
    fn apply(&self, (h, value): (u64, Option<u64>)) {
        let change = value.map_or(Change::Remove, Change::Set);
        self.reh.update(h, Room::ForNew, &mut |_| Ok(change)).unwrap();
        let mut model = self.model.take();
        match value {
            Some(value) => model.insert(h, value),
            None => model.remove(&h),
        };
        self.model.set(model);
    }

    /// All that a reader finds by a walk.
    fn scanned(&self) -> Vec<(u64, u64)> {
        let (mut at, mut all) = (Some(0), Vec::new());
        while let Some(from) = at {
            at = self.onlooker.scan(from, &mut all).unwrap();
        }
        all
    }
}

/// A reader looks while the writer is held up before each of its calls.
fn by_held_up_writers(operations: usize) -> Option<String> {
    let play = Play::new(seed(1));
    let wrong = Rc::new(Cell::new(None));
    for _ in 0..operations {
        let operation = play.draw();
        let before = play.model();
        let mut after = before.clone();
        match operation {
            (h, Some(value)) => after.insert(h, value),
            (h, None) => after.remove(&h),
        };
        let (told, looking) = (Rc::clone(&wrong), Rc::clone(&play));
        let look = move || {
            let allowed = |h: u64, found: Option<u64>| {
                [before.get(&h), after.get(&h)].contains(&found.as_ref())
            };
            for h in (0..KEYS).map(key) {
                let found = looking.onlooker.get(h).unwrap();
                if !allowed(h, found) {
                    told.set(Some(format!("{operation:?}: {h:#x} has {found:?}")));
                }
            }
            let all: BTreeMap<u64, u64> = looking.scanned().into_iter().collect();
            if (0..KEYS).map(key).any(|h| !allowed(h, all.get(&h).copied())) {
                told.set(Some(format!("{operation:?}: a walk finds {all:?}")));
            }
        };
        interrupted(look, || play.apply(operation));
        if let Some(wrong) = wrong.take() {
            return Some(wrong);
        }
    }
    None
}

/// Readers are held up before one of their calls while some operations are done.
fn by_held_up_readers(rounds: u64) -> Option<String> {
    let play = Play::new(seed(2));
    (0..60).for_each(|_| play.apply(play.draw()));
    (0..rounds).find_map(|round| {
        let (before, h) = (play.model(), key(play.below(KEYS)));
        // The values that each key has had meanwhile.
        let had: Rc<Cell<BTreeMap<u64, BTreeSet<Option<u64>>>>> = Rc::default();
        let (seen, writer) = (Rc::clone(&had), Rc::clone(&play));
        let is_walk = round % 4 == 0;
        let mut calls = play.below(if is_walk { 400 } else { 40 });
        // Few, so that a change of the key itself need not hide what it met; or so many that the table grows or shrinks.
        let count = [1, 3, 10, 80][play.below(4)];
        if play.below(2) == 0 {
            play.puts.set([9, 5, 0][play.below(3)]);
        }
        let interrupt = move || {
            if calls == 0 {
                let mut had = seen.take();
                for _ in 0..count {
                    let (h, value) = writer.draw();
                    writer.apply((h, value));
                    had.entry(h).or_default().insert(value);
                }
                seen.set(had);
            }
            calls = calls.wrapping_sub(1);
        };
        let found = interrupted(interrupt, || match is_walk {
            true => play.scanned(),
            false => play.onlooker.get(h).unwrap().into_iter().map(|v| (h, v)).collect(),
        });
        let had = had.take();
        let mut keys = (0..KEYS).map(key).filter(|other| is_walk || *other == h);
        keys.find_map(|h| {
            let values: Vec<u64> =
                found.iter().filter(|(other, _)| *other == h).map(|(_, v)| *v).collect();
            let value = values.first().copied();
            let is_right = before.get(&h).copied() == value
                || had.get(&h).is_some_and(|had| had.contains(&value));
            (!is_right || values.len() > 1).then(|| {
                format!("round {round}: {h:#x} had {:?}, {had:?}, found {values:?}", before.get(&h))
            })
        })
    })
}

#[test]
fn a_reader_beside_a_writer_that_is_held_up_sees_one_state_or_the_other() {
    assert_eq!(by_held_up_writers(budget(150, 3000) as usize), None);
}

#[test]
fn readers_that_are_held_up_see_what_was_there() {
    assert_eq!(by_held_up_readers(budget(150_000, 5_000_000)), None);
}

#[test]
fn changes_that_are_not_counted_are_found() {
    for fault in [Fault::EntryUncounted, Fault::SplitUncounted, Fault::MergeUncounted] {
        plant(Some(fault));
        let found = by_held_up_readers(3_000_000);
        plant(None);
        println!("{fault:?}: {}", found.unwrap_or_else(|| panic!("{fault:?} is missed")));
    }
}
