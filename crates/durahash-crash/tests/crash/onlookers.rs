//! Readers beside a writer that see none of its locks: held up before each of their calls into the medium while whole
//! operations are done, and looking while the writer is held up before each of its own. Both are played by one
//! thread.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;

use durahash::esh::{self, Esh};
use durahash::index::{Change, Index, Room};
use durahash::pea::{self, Pea};
use durahash::reh::{self, Reh};
use durahash::rewo::{self, Cache, Rewo};
use durahash_crash::script::Rng;
use durahash_media::hash::WordMix;
use durahash_media::sim::{Call, Hook, Sim, Site, budget, seed};
use durahash_media::{Format, Geometry, Pool};

use crate::planted::with;

const MAX_BYTES: u64 = 4 << 20;
const KEYS: usize = 40;

/// A table, and a reader of it.
type Both = (Arc<dyn Index>, Box<dyn Index>);
/// Makes them.
type Design = fn() -> (Sim, Both);

const DESIGNS: [Design; 5] = [reh, pea, pea_of_small, esh, rewo];

fn pool(design: u8, buckets: u8) -> (Sim, Arc<Pool<Sim>>) {
    let sim = Sim::new(MAX_BYTES);
    let geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets };
    let format = Format::of_index(design, geometry, MAX_BYTES);
    let pool = Pool::create(sim.clone(), &format).unwrap();
    (sim, Arc::new(pool))
}

fn reh() -> (Sim, Both) {
    let (sim, pool) = pool(1, 1);
    let table = Reh::create(Arc::clone(&pool)).unwrap();
    (sim, (Arc::new(table), Box::new(reh::Onlooker::new(pool).unwrap())))
}

/// Segments of four buckets.
fn pea() -> (Sim, Both) {
    pea_of(1)
}

/// The first two of four, others of eight.
fn pea_of_small() -> (Sim, Both) {
    pea_of(2)
}

fn pea_of(buckets: u8) -> (Sim, Both) {
    let (sim, pool) = pool(2, buckets);
    let table = Pea::create(Arc::clone(&pool), pea::Policy::default()).unwrap();
    (sim, (Arc::new(table), Box::new(pea::Onlooker::new(pool).unwrap())))
}

fn esh() -> (Sim, Both) {
    let (sim, pool) = pool(3, 4);
    let table = Esh::create(Arc::clone(&pool)).unwrap();
    (sim, (Arc::new(table), Box::new(esh::Onlooker::new(pool).unwrap())))
}

/// Tables of four buckets, and more.
fn rewo() -> (Sim, Both) {
    let (sim, pool) = pool(4, 0);
    let table = Rewo::create(Arc::clone(&pool), Cache::of_bytes(0)).unwrap();
    (sim, (Arc::new(table), Box::new(rewo::Onlooker::new(pool).unwrap())))
}

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

/// The `i`-th key: half of them in a fourth of all hashes, so that depths differ; and of two fingerprints, so that
/// lookups come to slots of others.
fn key(i: usize) -> u64 {
    const MIX: WordMix = WordMix::new(42);
    let h = MIX.mix(i as u64);
    (if i.is_multiple_of(2) { h >> 2 } else { h }) & !0xfe
}

/// A key, and its new value if it is put.
type Operation = (u64, Option<u64>);

fn update(table: &dyn Index, (h, value): Operation) {
    let change = value.map_or(Change::Remove, Change::Set);
    table.update(h, Room::ForNew, &mut |_| Ok(change)).unwrap();
}

/// An operation that is held up, and how it goes on.
type Held = (Operation, Box<dyn FnOnce()>);

/// Does an operation in another thread, which is held up before one of its calls until the answer is called.
fn hold_up(table: Arc<dyn Index>, operation: Operation, mut calls: usize) -> impl FnOnce() {
    let (held, is_held) = mpsc::channel::<()>();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let wait = move || {
        if calls == 0 {
            held.send(()).unwrap();
            let _ = goes_on.recv();
        }
        calls = calls.wrapping_sub(1);
    };
    let thread = thread::spawn(move || interrupted(wait, || update(&*table, operation)));
    // Or it is done.
    let _ = is_held.recv();
    move || {
        drop(go_on);
        thread.join().unwrap();
    }
}

/// A table, a reader of it, and what it has.
struct Play {
    table: Arc<dyn Index>,
    onlooker: Box<dyn Index>,
    model: Cell<BTreeMap<u64, u64>>,
    rng: Cell<Option<Rng>>,
    next: Cell<u64>,
    /// Puts of ten operations; it turns.
    puts: Cell<usize>,
}

impl Play {
    fn new(design: Design, seed: u64) -> Rc<Self> {
        let (sim, (table, onlooker)) = design();
        sim.set_hook(Box::new(Between));
        let (model, rng) = (Cell::default(), Cell::new(Some(Rng::new(seed))));
        Rc::new(Play { table, onlooker, model, rng, next: Cell::new(1), puts: Cell::new(8) })
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

    /// The next operation.
    fn draw(&self) -> Operation {
        if self.below(30) == 0 {
            self.puts.set([8, 2][self.below(2)]);
        }
        let h = key(self.below(KEYS));
        self.next.set(self.next.get() + 1);
        (h, (self.below(10) < self.puts.get()).then_some(self.next.get()))
    }

    /// Does it.
    fn apply(&self, operation: Operation) {
        update(&*self.table, operation);
        self.note(operation);
    }

    /// It is done.
    fn note(&self, (h, value): Operation) {
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
fn by_held_up_writers(design: Design, operations: usize) -> Option<String> {
    let play = Play::new(design, seed(1));
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

/// Readers are held up before one of their calls while some operations are done, and sometimes a last one to a part.
fn by_held_up_readers(design: Design, rounds: u64) -> Option<String> {
    let play = Play::new(design, seed(2));
    (0..60).for_each(|_| play.apply(play.draw()));
    (0..rounds).find_map(|round| {
        let (before, h) = (play.model(), key(play.below(KEYS)));
        // The values that each key has had meanwhile.
        let had: Rc<Cell<BTreeMap<u64, BTreeSet<Option<u64>>>>> = Rc::default();
        let (seen, writer) = (Rc::clone(&had), Rc::clone(&play));
        let held: Rc<Cell<Option<Held>>> = Rc::default();
        let holds = Rc::clone(&held);
        let is_walk = round % 4 == 0;
        let mut calls = play.below(if is_walk { 400 } else { [16, 40][play.below(2)] });
        // Few, so that a change of the key itself need not hide what it met; or so many that the table grows or shrinks.
        let count = [0, 1, 3, 10, 80][play.below(5)];
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
                if !is_walk && writer.below(3) == 0 {
                    let (of, value) = (writer.draw().0, Some(writer.next.get()));
                    let value = value.filter(|_| writer.below(2) == 0);
                    let operation = (if writer.below(2) == 0 { of } else { h }, value);
                    // A remove that brings another entry home looks for it.
                    let most = if value.is_some() { 12 } else { [60, 150][writer.below(2)] };
                    let go_on = hold_up(Arc::clone(&writer.table), operation, writer.below(most));
                    had.entry(operation.0).or_default().insert(value);
                    holds.set(Some((operation, Box::new(go_on))));
                }
                seen.set(had);
            }
            calls = calls.wrapping_sub(1);
        };
        let found = interrupted(interrupt, || match is_walk {
            true => play.scanned(),
            false => play.onlooker.get(h).unwrap().into_iter().map(|v| (h, v)).collect(),
        });
        let mut is_unseen = false;
        if let Some((operation, go_on)) = held.take() {
            let is_new = (h, found.first().map(|(_, v)| *v)) == operation;
            // None may have been seen for another reason.
            let is_put = operation.1.is_some();
            is_unseen = is_put && is_new && play.onlooker.get(h).unwrap() != operation.1;
            go_on();
            play.note(operation);
        }
        let had = had.take();
        let mut keys = (0..KEYS).map(key).filter(|other| is_walk || *other == h);
        keys.find_map(|h| {
            let values: Vec<u64> =
                found.iter().filter(|(other, _)| *other == h).map(|(_, v)| *v).collect();
            let value = values.first().copied();
            let is_right = before.get(&h).copied() == value
                || had.get(&h).is_some_and(|had| had.contains(&value));
            (!is_right || is_unseen || values.len() > 1).then(|| {
                format!("round {round}: {h:#x} had {:?}, {had:?}, found {values:?}", before.get(&h))
            })
        })
    })
}

#[test]
fn a_reader_beside_a_writer_that_is_held_up_sees_one_state_or_the_other() {
    for design in DESIGNS {
        assert_eq!(by_held_up_writers(design, budget(150, 3000) as usize), None);
    }
}

#[test]
fn readers_that_are_held_up_see_what_was_there() {
    for design in DESIGNS {
        assert_eq!(by_held_up_readers(design, budget(40_000, 2_000_000)), None);
    }
}

fn are_found<F: Copy + Debug>(plant: fn(Option<F>), faults: &[F], design: Design) {
    for fault in faults {
        let found = with(plant, Some(*fault), || by_held_up_readers(design, 1_000_000));
        println!("{fault:?}: {}", found.unwrap_or_else(|| panic!("{fault:?} is missed")));
    }
}

#[test]
fn changes_that_are_not_counted_are_found() {
    {
        use reh::Fault;
        let faults = [Fault::EntryUncounted, Fault::SplitUncounted, Fault::MergeUncounted];
        are_found(reh::plant, &faults, reh);
    }
    use pea::Fault;
    let faults = [Fault::EntryUncounted, Fault::MoveUncounted, Fault::SegmentUncounted];
    are_found(pea::plant, &faults, pea);
}

#[test]
fn walks_over_segments_that_were_replaced_and_entries_that_come_home_uncounted_are_found() {
    are_found(pea::plant, &[pea::Fault::SegmentOnce], pea);
    are_found(esh::plant, esh::Fault::ALL, esh);
    use rewo::Fault;
    let faults = [Fault::EntryUncounted, Fault::MoveUncounted, Fault::MovedUnseen];
    are_found(rewo::plant, &faults, rewo);
}
