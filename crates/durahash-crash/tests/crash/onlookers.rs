//! Readers beside a writer that see none of its locks: held up before each of their calls into the medium while whole
//! operations are done, and looking while the writer is held up before each of its own. Both are played by one
//! thread.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::panic::catch_unwind;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;

use durahash::esh::{self, Esh};
use durahash::index::{Change, Index, IndexBase, MultiIndex, OneKey, Room, Scanned, Values};
use durahash::pea::{self, MultiOnlooker, MultiPea, Pea};
use durahash::reh::{self, Reh};
use durahash::rewo::{self, Cache, Rewo};
use durahash_crash::script::Rng;
use durahash_media::hash::WordMix;
use durahash_media::sim::{Call, Hook, Sim, Site, budget, seed};
use durahash_media::{Format, Geometry, Pool};

use crate::planted::with;

const MAX_BYTES: u64 = 4 << 20;
const KEYS: usize = 40;

/// A map or a multimap: the values of keys.
trait Table: Send + Sync {
    fn apply(&self, operation: Operation);

    /// Half of all operations are on so many keys.
    fn few_keys(&self) -> usize {
        KEYS
    }

    /// The values of the key of an operation, in order, when it is done.
    fn after(&self, before: &[u64], operation: Operation) -> Vec<u64>;
}

/// A reader of one.
trait Reader {
    /// The values of a key, in order.
    fn get(&self, h: u64) -> Vec<u64>;

    fn count(&self, h: u64) -> u64;

    /// All keys and values that a walk finds.
    fn walk(&self) -> Vec<(u64, u64)>;
}

struct OfMap<I>(I);

impl<I: Index> Table for OfMap<I> {
    fn apply(&self, (h, what): Operation) {
        let change = if let What::Put(value) = what { Change::Set(value) } else { Change::Remove };
        self.0.update(h, Room::ForNew, &mut |_| Ok(change)).unwrap();
    }

    fn after(&self, _: &[u64], (_, what): Operation) -> Vec<u64> {
        if let What::Put(value) = what { vec![value] } else { Vec::new() }
    }
}

impl<I: Index> Reader for OfMap<I> {
    fn get(&self, h: u64) -> Vec<u64> {
        self.0.get(h).unwrap().into_iter().collect()
    }

    fn count(&self, h: u64) -> u64 {
        self.get(h).len() as u64
    }

    fn walk(&self) -> Vec<(u64, u64)> {
        scanned(&self.0)
    }
}

struct OfMultimap<I>(I);

impl<I: MultiIndex> Table for OfMultimap<I> {
    fn apply(&self, (h, what): Operation) {
        match what {
            What::Put(value) => self.0.add(h, value, &OneKey).unwrap(),
            What::Remove(value) => {
                self.0.remove_one(h, &OneKey, &mut |found| Ok(found == value)).map(drop).unwrap();
            }
            What::RemoveAll => drop(self.0.remove_all(h, &OneKey, None).unwrap()),
        }
    }

    fn few_keys(&self) -> usize {
        4
    }

    fn after(&self, before: &[u64], (_, what): Operation) -> Vec<u64> {
        let mut values = before.to_vec();
        match what {
            What::Put(value) => values.push(value),
            What::Remove(value) => values.retain(|other| *other != value),
            What::RemoveAll => values.clear(),
        }
        values.sort_unstable();
        values
    }
}

impl<I: MultiIndex> Reader for OfMultimap<I> {
    fn get(&self, h: u64) -> Vec<u64> {
        let mut found = Values::default();
        self.0.read(h, &OneKey, &mut found, &mut |_, _| Ok(())).unwrap();
        found.payloads.sort_unstable();
        found.payloads
    }

    fn count(&self, h: u64) -> u64 {
        self.0.count(h, &OneKey).unwrap()
    }

    fn walk(&self) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for of_one in scanned(&self.0).chunk_by(|a, b| a.0 == b.0) {
            let h = of_one[0].0;
            let one = |(_, slot): &(u64, Scanned)| match slot {
                Scanned::One(value) => Some((h, *value)),
                Scanned::Many(_) => None,
            };
            match of_one.iter().map(one).collect::<Option<Vec<_>>>() {
                Some(values) => all.extend(values),
                None => all.extend(self.get(h).into_iter().map(|value| (h, value))),
            }
        }
        all
    }
}

/// All slots that a reader finds by a walk.
fn scanned<I: IndexBase>(onlooker: &I) -> Vec<(u64, I::Slot)> {
    let (mut at, mut all) = (Some(0), Vec::new());
    while let Some(from) = at {
        at = onlooker.scan(from, &mut all).unwrap();
    }
    all
}

/// A table, and a reader of it.
type Both = (Arc<dyn Table>, Box<dyn Reader>);
/// Makes them.
type Design = fn() -> (Sim, Both);

const DESIGNS: [Design; 6] = [reh, pea, pea_of_small, esh, rewo, multi];

fn pool(design: u8, buckets: u8) -> (Sim, Arc<Pool<Sim>>) {
    pool_of(design, buckets, 3)
}

fn pool_of(design: u8, buckets: u8, slots: u8) -> (Sim, Arc<Pool<Sim>>) {
    let sim = Sim::new(MAX_BYTES);
    let geometry = Geometry { extent_shift: 10, slots, hash_bits: 0, buckets };
    let format = Format::of_index(design, geometry, MAX_BYTES);
    let pool = Pool::create(sim.clone(), &format).unwrap();
    (sim, Arc::new(pool))
}

fn reh() -> (Sim, Both) {
    let (sim, pool) = pool(1, 1);
    let table = Reh::create(Arc::clone(&pool)).unwrap();
    (sim, (Arc::new(OfMap(table)), Box::new(OfMap(reh::Onlooker::new(pool).unwrap()))))
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
    (sim, (Arc::new(OfMap(table)), Box::new(OfMap(pea::Onlooker::new(pool).unwrap()))))
}

fn esh() -> (Sim, Both) {
    let (sim, pool) = pool(3, 4);
    let table = Esh::create(Arc::clone(&pool)).unwrap();
    (sim, (Arc::new(OfMap(table)), Box::new(OfMap(esh::Onlooker::new(pool).unwrap()))))
}

/// Buckets of six slots, as values move in their bucket; value buffers of four values and more.
fn multi() -> (Sim, Both) {
    let (sim, pool) = pool_of(2, 1, 6);
    let table = MultiPea::create(Arc::clone(&pool), pea::Policy::default()).unwrap();
    let onlooker = MultiOnlooker::new(pool).unwrap();
    (sim, (Arc::new(OfMultimap(table)), Box::new(OfMultimap(onlooker))))
}

/// Tables of four buckets, and more.
fn rewo() -> (Sim, Both) {
    let (sim, pool) = pool(4, 0);
    let table = Rewo::create(Arc::clone(&pool), Cache::of_bytes(0)).unwrap();
    (sim, (Arc::new(OfMap(table)), Box::new(OfMap(rewo::Onlooker::new(pool).unwrap()))))
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

/// A key, and what is done.
type Operation = (u64, What);

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// A value comes, of a map in the place of the one before.
    Put(u64),
    /// This value goes; that of a map, whatever it is.
    Remove(u64),
    /// All values of the key go.
    RemoveAll,
}

/// An operation that is held up, and how it goes on.
type Held = (Operation, Box<dyn FnOnce()>);

/// Does an operation in another thread, which is held up before one of its calls until the answer is called.
fn hold_up(table: Arc<dyn Table>, operation: Operation, mut calls: usize) -> impl FnOnce() {
    let (held, is_held) = mpsc::channel::<()>();
    let (go_on, goes_on) = mpsc::channel::<()>();
    let wait = move || {
        if calls == 0 {
            held.send(()).unwrap();
            let _ = goes_on.recv();
        }
        calls = calls.wrapping_sub(1);
    };
    let thread = thread::spawn(move || interrupted(wait, || table.apply(operation)));
    // Or it is done.
    let _ = is_held.recv();
    move || {
        drop(go_on);
        thread.join().unwrap();
    }
}

/// A table, a reader of it, and what it has.
struct Play {
    table: Arc<dyn Table>,
    onlooker: Box<dyn Reader>,
    /// The values of each key that has had any.
    model: Cell<BTreeMap<u64, Vec<u64>>>,
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

    fn model(&self) -> BTreeMap<u64, Vec<u64>> {
        let model = self.model.take();
        self.model.set(model.clone());
        model
    }

    /// One of the keys.
    fn key(&self) -> u64 {
        key(self.below([self.table.few_keys(), KEYS][self.below(2)]))
    }

    /// The next operation.
    fn draw(&self) -> Operation {
        if self.below(30) == 0 {
            self.puts.set([8, 2][self.below(2)]);
        }
        self.draw_of(self.key(), self.below(10) < self.puts.get())
    }

    /// One of this key.
    fn draw_of(&self, h: u64, is_put: bool) -> Operation {
        self.next.set(self.next.get() + 1);
        if is_put {
            return (h, What::Put(self.next.get()));
        }
        let values = self.model().remove(&h).unwrap_or_default();
        if values.is_empty() || self.below(60) == 0 {
            return (h, What::RemoveAll);
        }
        (h, What::Remove(values[self.below(values.len())]))
    }

    /// What the key of an operation will have.
    fn after(&self, operation: Operation) -> Vec<u64> {
        let before = self.model().remove(&operation.0).unwrap_or_default();
        self.table.after(&before, operation)
    }

    /// Does it; what its key has then.
    fn apply(&self, operation: Operation) -> Vec<u64> {
        self.table.apply(operation);
        self.note(operation)
    }

    /// It is done.
    fn note(&self, operation: Operation) -> Vec<u64> {
        let after = self.after(operation);
        let mut model = self.model.take();
        model.insert(operation.0, after.clone());
        self.model.set(model);
        after
    }
}

/// A reader looks while the writer is held up before each of its calls.
fn by_held_up_writers(design: Design, operations: usize) -> Option<String> {
    let play = Play::new(design, seed(1));
    let wrong = Rc::new(Cell::new(None));
    for _ in 0..operations {
        let operation = play.draw();
        let before = play.model();
        let after = play.after(operation);
        let (told, looking) = (Rc::clone(&wrong), Rc::clone(&play));
        let look = move || {
            let allowed = |h: u64, found: &[u64]| {
                let had = before.get(&h).map_or(&[][..], Vec::as_slice);
                found == had || h == operation.0 && found == after
            };
            for h in (0..KEYS).map(key) {
                let found = looking.onlooker.get(h);
                let count = looking.onlooker.count(h);
                if !allowed(h, &found) || count != found.len() as u64 {
                    told.set(Some(format!("{operation:?}: {h:#x} has {found:?}, {count}")));
                }
            }
            let all = by_key(looking.onlooker.walk());
            let values = |h| all.get(&h).map_or(&[][..], Vec::as_slice);
            if (0..KEYS).map(key).any(|h| !allowed(h, values(h))) {
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
    // So many that lists have several buffers.
    let count = if play.table.few_keys() < KEYS { 1500 } else { 60 };
    (0..count).for_each(|_| drop(play.apply(play.draw_of(play.key(), play.below(10) < 8))));
    (0..rounds).find_map(|round| {
        let (before, h) = (play.model(), play.key());
        // What each key has had meanwhile.
        let had: Rc<Cell<BTreeMap<u64, BTreeSet<Vec<u64>>>>> = Rc::default();
        let (seen, writer) = (Rc::clone(&had), Rc::clone(&play));
        let held: Rc<Cell<Option<Held>>> = Rc::default();
        let holds = Rc::clone(&held);
        let (is_walk, is_count) = (round % 4 == 0, round % 16 == 1);
        let mut calls = play.below(if is_walk { 400 } else { [16, 40, 120][play.below(3)] });
        // Few, so that a change of the key itself need not hide what it met; or so many that the table grows or shrinks.
        let count = [0, 1, 3, 10, 80][play.below(5)];
        if play.below(2) == 0 {
            play.puts.set([9, 5, 0][play.below(3)]);
        }
        let interrupt = move || {
            if calls == 0 {
                let mut had = seen.take();
                for _ in 0..count {
                    let operation = writer.draw();
                    had.entry(operation.0).or_default().insert(writer.apply(operation));
                }
                if !is_walk && writer.below(3) == 0 {
                    let is_put = writer.below(2) == 0;
                    let of = if writer.below(2) == 0 { writer.key() } else { h };
                    let operation = writer.draw_of(of, is_put);
                    // A remove that brings another entry home looks for it.
                    let most = if is_put { 12 } else { [60, 150][writer.below(2)] };
                    let go_on = hold_up(Arc::clone(&writer.table), operation, writer.below(most));
                    had.entry(operation.0).or_default().insert(writer.after(operation));
                    holds.set(Some((operation, Box::new(go_on))));
                }
                seen.set(had);
            }
            calls = calls.wrapping_sub(1);
        };
        let mut count = None;
        let found = by_key(interrupted(interrupt, || match is_walk {
            true => play.onlooker.walk(),
            false if is_count => {
                count = Some(play.onlooker.count(h) as usize);
                Vec::new()
            }
            false => play.onlooker.get(h).into_iter().map(|v| (h, v)).collect(),
        }));
        let mut is_unseen = false;
        if let Some((operation, go_on)) = held.take() {
            // None may have been seen for another reason.
            if let (of, What::Put(value)) = operation
                && found.get(&of).is_some_and(|values| values.contains(&value))
            {
                is_unseen = !play.onlooker.get(of).contains(&value);
            }
            go_on();
            play.note(operation);
        }
        let had = had.take();
        let mut keys = (0..KEYS).map(key).filter(|other| is_walk || *other == h);
        keys.find_map(|h| {
            let values = found.get(&h).cloned().unwrap_or_default();
            let is_it = |state: &Vec<u64>| match count {
                Some(count) => state.len() == count,
                None => *state == values,
            };
            let is_right = is_it(&before.get(&h).cloned().unwrap_or_default())
                || had.get(&h).is_some_and(|had| had.iter().any(is_it));
            (!is_right || is_unseen).then(|| {
                let (before, had) = (before.get(&h), had.get(&h));
                format!(
                    "round {round}: {h:#x} had {before:?}, {had:?}, found {values:?}, {count:?}"
                )
            })
        })
    })
}

/// The values of each key, in order.
fn by_key(found: Vec<(u64, u64)>) -> BTreeMap<u64, Vec<u64>> {
    let mut all = BTreeMap::<_, Vec<_>>::new();
    found.into_iter().for_each(|(h, value)| all.entry(h).or_default().push(value));
    all.values_mut().for_each(|values| values.sort_unstable());
    all
}

#[test]
fn a_reader_beside_a_writer_that_is_held_up_sees_one_state_or_the_other() {
    for design in DESIGNS {
        assert_eq!(by_held_up_writers(design, budget(150, 3000) as usize), None);
    }
}

/// For so many rounds that each planted fault of the design, below, comes well within them.
#[test]
fn readers_that_are_held_up_see_what_was_there() {
    for (design, rounds) in
        DESIGNS.into_iter().zip([40_000, 15_000, 15_000, 40_000, 20_000, 10_000])
    {
        assert_eq!(by_held_up_readers(design, budget(rounds, 2_000_000)), None);
    }
}

fn are_found<F: Copy + Debug>(plant: fn(Option<F>), faults: &[F], design: Design) {
    for fault in faults {
        let find = || by_held_up_readers(design, 1_000_000);
        let fails = |_| Some("a reader fails".to_owned());
        let found = with(plant, Some(*fault), || catch_unwind(find).unwrap_or_else(fails));
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
fn faults_of_what_readers_of_multimaps_rely_on_are_found() {
    use pea::Fault;
    let faults = [Fault::ValuesUnnoted, Fault::HeadOnce, Fault::EntryUncounted];
    // The others are found behind 50,000 rounds and more.
    are_found(pea::plant, &faults[..budget(1, 3) as usize], multi);
}

#[test]
fn walks_over_segments_that_were_replaced_and_entries_that_come_home_uncounted_are_found() {
    are_found(pea::plant, &[pea::Fault::SegmentOnce], pea);
    are_found(esh::plant, esh::Fault::ALL, esh);
    use rewo::Fault;
    let faults = [Fault::EntryUncounted, Fault::MoveUncounted, Fault::MovedUnseen];
    are_found(rewo::plant, &faults, rewo);
}
