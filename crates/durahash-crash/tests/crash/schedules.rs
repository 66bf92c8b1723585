//! Threads under chosen schedules, with a crash at every event.
//!
//! Each run makes a small table on a simulated medium and lets three threads work on few keys. Every
//! call into the medium and every event of a lock is a point at which the scheduler may let another
//! thread go on: at random, or by priorities that change at a few points (PCT), or with one thread
//! stopped for good wherever it is, while the others run until they end or wait for it.
//!
//! Of the trace, every crash state at every point is recovered and held against the histories of
//! its keys: what a crash leaves must be explained together with every answer that was given before
//! it, so a value that was read and then lost is found as well as an acknowledged operation.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use durahash::Result;
use durahash::batch::{Fault, plant};
use durahash_crash::case::{Case, Table};
use durahash_crash::cases::named;
use durahash_crash::linear::{Operation, outcomes};
use durahash_crash::script::{Op, Rng};
use durahash_crash::states::{CrashState, Explorer, Model, Visit};
use durahash_media::Event;
use durahash_media::sim::{Action, Call, Hook, Sim, Site, Step, budget, seed, take_turns};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicUsize, Ordering};

const THREADS: usize = 3;
const OPS: usize = 4;

/// Lets the scheduler choose before every call, and may stop a thread for good.
struct Switch {
    /// Where the scheduler takes its choice.
    point: AtomicUsize,
    stop: Stop,
    /// Of [`Stop::After`], the calls that the thread has made; of [`Stop::BehindGrowth`], 1 and the
    /// thread that has passed the fence.
    progress: Mutex<usize>,
    /// How many threads have ended, so that the stopped one can in the end.
    ended: Arc<AtomicUsize>,
}

/// Where a thread is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Nowhere,
    /// This thread, after so many calls.
    After(u32, usize),
    /// The first thread that has taken or made an extent, before it fences anything itself.
    BehindGrowth,
}

fn current() -> u32 {
    usize::from(shuttle::current::me()) as u32
}

impl Hook for Switch {
    fn thread(&self) -> u32 {
        current()
    }

    fn before(&self, call: Call, site: Site) {
        match call {
            Call::Event(Event::Wait) => shuttle::thread::yield_now(),
            _ => drop(self.point.load(Ordering::Relaxed)),
        }
        if self.stops_here(call, site) {
            // Others that wait for it yield too; it goes on when they have had many turns.
            for _ in 0..200 {
                if self.ended.load(Ordering::Relaxed) == THREADS - 1 {
                    break;
                }
                shuttle::thread::yield_now();
            }
        }
    }
}

impl Switch {
    fn stops_here(&self, call: Call, site: Site) -> bool {
        let mut progress = self.progress.lock().unwrap();
        match self.stop {
            Stop::Nowhere => false,
            Stop::After(thread, calls) => {
                *progress += usize::from(thread == current());
                thread == current() && *progress == calls
            }
            Stop::BehindGrowth => {
                let extents = site.file().ends_with("extents.rs");
                if *progress == 0 && extents && call == Call::Fence {
                    *progress = 1 + current() as usize;
                }
                let stops = *progress == 1 + current() as usize && !extents;
                if stops {
                    *progress = usize::MAX;
                }
                stops
            }
        }
    }
}

/// An operation as a thread did it.
#[derive(Clone, Copy)]
struct Done {
    op: Op,
    answer: Option<u64>,
}

/// Marks in the trace: twice the operation's number, and one more for its end.
fn mark(sim: &Sim, number: usize, end: bool) {
    sim.mark(2 * number as u64 + u64::from(end));
}

/// The history of `key` up to step `at` of `trace`.
fn history(trace: &[Step], done: &[Done], key: u16) -> Vec<Operation> {
    let mut begun = vec![None; done.len()];
    let mut operations = Vec::new();
    for (time, step) in trace.iter().enumerate() {
        let Action::Mark(mark) = step.action else {
            continue;
        };
        let number = (mark / 2) as usize;
        let Done { op, answer } = done[number];
        if op.key() != Some(key) {
            continue;
        }
        if mark % 2 == 0 {
            begun[number] = Some(operations.len());
            operations.push(Operation { op, begin: time as u64, end: None });
        } else if let Some(i) = begun[number] {
            operations[i].end = Some((time as u64, answer));
        }
    }
    operations
}

/// Recovers the states of one trace and holds them against its histories.
struct Judge<'a> {
    case: &'a Case,
    model: Model,
    keys: Vec<u64>,
    /// The value of each key before the trace.
    initial: Vec<Option<u64>>,
    trace: &'a [Step],
    done: &'a [Done],
    /// The values that each key may have, as of the step that was passed last, and their hash.
    allowed: Vec<Vec<Option<u64>>>,
    allowed_hash: u64,
    /// States that were judged, in this run or an earlier one.
    known: &'a mut HashSet<(u64, u64)>,
    wrong: Option<String>,
}

impl Judge<'_> {
    fn allow(&mut self, at: usize) {
        for (key, allowed) in self.allowed.iter_mut().enumerate() {
            let history = history(&self.trace[..at], self.done, key as u16);
            *allowed = outcomes(self.initial[key], &history);
            allowed.sort_unstable();
            if allowed.is_empty() {
                self.wrong = Some(format!("key {key} is not linearizable: {history:?}"));
            }
        }
        let mut hasher = DefaultHasher::new();
        self.allowed.hash(&mut hasher);
        self.allowed_hash = hasher.finish();
    }

    fn recover(&self, image: &[u64]) -> Result<(), String> {
        let sim = Sim::from_image(image, self.case.max_bytes);
        let sim = sim.with_line_order(self.model.same_line_order());
        let table = (self.case.open)(sim).map_err(|e| format!("recovery failed: {e}"))?;
        let mut wrong = None;
        table.check(&mut |finding| wrong = Some(format!("{finding:?}"))).unwrap();
        let mut contents = Vec::new();
        table.contents(&mut contents).unwrap();
        for (key, h) in self.keys.iter().enumerate() {
            let found = contents.iter().find(|(other, _)| other == h).map(|(_, v)| *v);
            if !self.allowed[key].contains(&found) {
                let allowed = &self.allowed[key];
                wrong = Some(format!("key {key} holds {found:?}, explained are {allowed:?}"));
            }
        }
        wrong.map_or(Ok(()), Err)
    }
}

impl Visit for Judge<'_> {
    fn passed(&mut self, step: usize) -> bool {
        let is_mark = matches!(self.trace[step].action, Action::Mark(_));
        if is_mark {
            self.allow(step + 1);
        }
        is_mark
    }

    fn state(&mut self, state: &CrashState<'_>) -> ControlFlow<()> {
        if self.wrong.is_none() && self.known.insert((state.hash, self.allowed_hash)) {
            self.wrong = self.recover(state.image).err();
        }
        match &mut self.wrong {
            None => ControlFlow::Continue(()),
            Some(wrong) => {
                *wrong = format!("a crash before step {} of the trace: {wrong}", state.at);
                ControlFlow::Break(())
            }
        }
    }
}

/// Does an operation on a table.
type Apply = dyn Fn(&dyn Table, Op, u64) -> Result<Option<u64>> + Send + Sync;

/// The work of threads.
#[derive(Clone)]
struct Work {
    case: Case,
    model: Model,
    /// Every thread puts what is not there yet, and much is split.
    crowd: bool,
    /// The table was opened again after it was left as a crash leaves it.
    left: bool,
    apply: Arc<Apply>,
}

impl Work {
    fn new(name: &str, model: Model) -> Self {
        let left = name == "esh-left";
        let case = named(if left { "esh" } else { name });
        Work { case, model, crowd: false, left, apply: Arc::new(|table, op, h| table.apply(op, h)) }
    }
}

/// One run, inside a shuttle execution: what is wrong, if anything, with the trace but for the steps
/// that are `left_out`.
fn run(
    work: &Work,
    seed: u64,
    known: &Mutex<HashSet<(u64, u64)>>,
    left_out: &dyn Fn(&Step) -> bool,
) -> Option<String> {
    let &Work { ref case, model, crowd, .. } = work;
    let mut rng = Rng::new(seed);
    let mut sim = Sim::new(case.max_bytes).with_line_order(model.same_line_order());
    let mut table: Arc<dyn Table> = Arc::from((case.create)(sim.clone()).unwrap());
    let keys = case.keys.clone();
    let mut prefill = case.prefills[rng.below(case.prefills.len())].clone();
    if crowd {
        let absent = |rng: &mut Rng| (0..keys.len() as u16).filter(|_| rng.below(2) == 0).collect();
        let absent: Vec<u16> = absent(&mut rng);
        let rest = (0..keys.len() as u16).filter(|key| !absent.contains(key));
        prefill.ops = rest.map(|key| case.translate(Op::Put(key, 1), 0)).collect();
        prefill.kinds = absent.iter().map(|key| case.translate(Op::Put(*key, 0), 0)).collect();
    }
    for op in &prefill.ops {
        if let Some(key) = op.key() {
            table.apply(*op, keys[usize::from(key)]).unwrap();
        }
    }
    let mut before = Vec::new();
    table.contents(&mut before).unwrap();
    if case.is_lazy {
        // A copy: who drops a map closes its pool.
        let copy = Sim::from_image(&sim.image(), case.max_bytes);
        sim = copy.with_line_order(model.same_line_order());
    }
    if work.left || case.is_lazy {
        table = Arc::from((case.open)(sim.clone()).unwrap());
    }
    let value = |h: &u64| before.iter().find(|(other, _)| other == h).map(|(_, v)| *v);
    let initial: Vec<Option<u64>> = keys.iter().map(value).collect();
    let image = sim.image();

    // Writes to few keys, so that threads meet, those that the exhaustive scripts of this state use;
    // reads of all that is there, since a split or merge moves what nobody writes.
    let present: Vec<u16> =
        (0..keys.len() as u16).filter(|k| initial[usize::from(*k)].is_some()).collect();
    let few: Vec<u16> = prefill.kinds.iter().filter_map(|op| op.key()).collect();
    let pick = |rng: &mut Rng, number: usize| {
        let key = few[rng.below(few.len())];
        let v = 1000 + number as u64;
        let op = match rng.below(9) {
            _ if crowd => Op::Put(key, v),
            0 | 1 => Op::Put(key, v),
            2 => Op::Insert(key, v),
            3 => Op::Update(key, v),
            4 | 5 => Op::Remove(key),
            _ if present.is_empty() => Op::Get(key),
            _ => Op::Get(present[rng.below(present.len())]),
        };
        case.translate(op, rng.number())
    };
    let ops: Vec<Op> = (0..THREADS * OPS).map(|i| pick(&mut rng, i)).collect();
    let ended = Arc::new(AtomicUsize::new(0));
    let stop = match rng.below(4) {
        0 => Stop::Nowhere,
        1 => Stop::BehindGrowth,
        _ => {
            Stop::After(1 + rng.below(THREADS + usize::from(case.synced)) as u32, 1 + rng.below(60))
        }
    };
    sim.record(Vec::new());
    sim.set_hook(Box::new(Switch {
        point: AtomicUsize::new(0),
        stop,
        progress: Mutex::new(0),
        ended: Arc::clone(&ended),
    }));
    let failed: Arc<Mutex<Option<String>>> = Arc::default();
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let numbers = thread * OPS..(thread + 1) * OPS;
            let ops = ops[numbers.clone()].to_vec();
            let (table, sim, keys) = (Arc::clone(&table), sim.clone(), keys.clone());
            let (ended, apply) = (Arc::clone(&ended), Arc::clone(&work.apply));
            let failed = Arc::clone(&failed);
            shuttle::thread::spawn(move || {
                let mut done = Vec::new();
                for (number, op) in numbers.zip(ops) {
                    mark(&sim, number, false);
                    let h = keys[usize::from(op.key().expect("every one has a key"))];
                    let answer = match apply(&*table, op, h) {
                        Ok(answer) => answer,
                        Err(e) => {
                            failed.lock().unwrap().get_or_insert_with(|| format!("{op:?}: {e}"));
                            break;
                        }
                    };
                    mark(&sim, number, true);
                    done.push(Done { op, answer });
                }
                ended.fetch_add(1, Ordering::Relaxed);
                done
            })
        })
        .collect();
    // Beside them, who does steps as long as they work; it may be the one that is stopped.
    let steps = case.synced.then(|| {
        let (table, ended) = (Arc::clone(&table), Arc::clone(&ended));
        shuttle::thread::spawn(move || {
            while ended.load(Ordering::Relaxed) < THREADS {
                table.apply(Op::Step, 0).unwrap();
                shuttle::thread::yield_now();
            }
        })
    });
    let done: Vec<Done> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    steps.into_iter().for_each(|steps| steps.join().unwrap());
    if let Some(failed) = failed.lock().unwrap().take() {
        return Some(format!("seed {seed}, {}, {ops:?}: {failed}", prefill.name));
    }
    let mut trace = sim.recorded();
    trace.retain(|step| !left_out(step));

    let mut known = known.lock().unwrap();
    let mut judge = Judge {
        case,
        model,
        allowed: vec![Vec::new(); keys.len()],
        allowed_hash: 0,
        keys,
        initial,
        trace: &trace,
        done: &done,
        known: &mut known,
        wrong: None,
    };
    judge.allow(0);
    // Under this model there are so many states that a part of the schedules must do.
    if model != Model::Word || seed.is_multiple_of(budget(20, 8)) {
        let one_in = budget(if crowd { 1 } else { 32 }, 1);
        let _ = Explorer::new(model, seed).one_in(one_in).explore(&image, &trace, 0, &mut judge);
    }
    // The end of it all without a crash: the table itself, and its history.
    judge.allow(trace.len());
    let told = judge.wrong.take().or_else(|| judge.recover(&sim.image()).err());
    let mut findings = Vec::new();
    table.check(&mut |finding| findings.push(finding)).unwrap();
    let told = told.or_else(|| (!findings.is_empty()).then(|| format!("{findings:?}")));
    told.map(|told| format!("seed {seed}, {}, {ops:?}: {told}", prefill.name))
}

/// How schedules are drawn, from a seed on: at random, or by priorities that change at three points.
pub(crate) enum How {
    AtRandom(u64),
    ByPriorities(u64),
}
use How::{AtRandom, ByPriorities};

/// Runs `f` under so many schedules, and gives it the number of each.
pub(crate) fn each(how: &How, schedules: usize, f: impl Fn(u64) + Send + Sync + 'static) {
    // All threads of a schedule are one of the system's.
    take_turns();
    let number = std::sync::atomic::AtomicU64::new(0);
    let f = move || f(number.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    let from = seed(0);
    match how {
        AtRandom(seed) => {
            let scheduler = RandomScheduler::new_from_seed(seed + from, schedules);
            shuttle::Runner::new(scheduler, config()).run(f)
        }
        ByPriorities(seed) => {
            let scheduler = PctScheduler::new_from_seed(seed + from, 3, schedules);
            shuttle::Runner::new(scheduler, config()).run(f)
        }
    };
}

fn schedules() -> usize {
    budget(100, 2500)
}

fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    // Test code, which is compiled with few optimisations, needs more than the default of 32 KiB.
    config.stack_size = 256 << 10;
    config.max_steps = shuttle::MaxSteps::FailAfter(200_000);
    config
}

fn explore(name: &str, model: Model, how: &How, schedules: usize) {
    let work = Work::new(name, model);
    let known = Arc::new(Mutex::new(HashSet::new()));
    let states = Arc::clone(&known);
    each(how, schedules, move |number| {
        if let Some(wrong) = run(&work, seed(0) + number, &known, &|_| false) {
            panic!("{wrong}");
        }
    });
    let states = states.lock().unwrap().len();
    println!("{name}: {schedules} schedules, {states} crash states under {}", model.name());
}

/// The extents of a pool are taken by one thread and used by another, which fences its own flushes
/// only. Each of these fences is left out in turn, and missed.
#[test]
fn fences_that_only_other_threads_need() {
    let sites: Arc<Mutex<BTreeSet<Site>>> = Arc::default();
    let missed: Arc<Mutex<BTreeMap<Site, String>>> = Arc::default();
    let (of_run, found) = (Arc::clone(&sites), Arc::clone(&missed));
    let first = budget(40, 200);
    let work = Work { crowd: true, ..Work::new("reh", Model::X86) };
    each(&AtRandom(6), budget(400, 2500), move |number| {
        let target = {
            let (sites, found) = (of_run.lock().unwrap(), found.lock().unwrap());
            sites.iter().find(|site| !found.contains_key(*site)).copied()
        };
        // The first runs only find out which fences there are.
        // All are known, and missed.
        if number >= first && target.is_none() {
            return;
        }
        let left_out = |step: &Step| {
            let fence = step.action == Action::Fence && step.site.file().ends_with("extents.rs");
            if fence {
                of_run.lock().unwrap().insert(step.site);
            }
            fence && number >= first && target == Some(step.site)
        };
        let known = Mutex::new(HashSet::new());
        if let Some(wrong) = run(&work, seed(0) + number, &known, &left_out)
            && let Some(target) = target
        {
            found.lock().unwrap().insert(target, wrong);
        }
    });
    let (sites, missed) = (sites.lock().unwrap(), missed.lock().unwrap());
    assert!(!sites.is_empty());
    for site in sites.iter() {
        let wrong = missed.get(site);
        println!("{site}: {}", wrong.unwrap_or_else(|| panic!("{site} is not needed")));
    }
}

/// Declares tests: cases, of which one may take a share of the schedules, models, and how schedules are drawn.
macro_rules! schedules {
    ($($(#[$doc:meta])* $name:ident: $($case:literal $(/ $share:literal)? $model:ident $how:expr),+;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            $(explore($case, Model::$model, &$how, schedules() $(/ $share)?);)+
        }
    )*};
}

schedules! {
    reh_ranges_at_random_x86: "reh-ranges" X86 AtRandom(51);
    reh_ranges_by_priorities_word: "reh-ranges" Word ByPriorities(52);
    maps_of_ranges_at_random_x86: "reh-ranges-map"/5 X86 AtRandom(53);
    reh_at_random_x86: "reh" X86 AtRandom(1);
    reh_by_priorities_x86: "reh" X86 ByPriorities(2);
    reh_at_random_word: "reh" Word AtRandom(3);
    reh_by_priorities_word: "reh" Word ByPriorities(4);
    pea_at_random_x86: "pea" X86 AtRandom(11);
    pea_by_priorities_x86: "pea" X86 ByPriorities(12);
    pea_at_random_word: "pea" Word AtRandom(13);
    pea_by_priorities_word: "pea" Word ByPriorities(14);
    /// Others come to a table while its segments become large.
    pea_small_at_random_x86: "pea-small" X86 AtRandom(61);
    pea_small_by_priorities_word: "pea-small" Word ByPriorities(62);
    esh_at_random_x86: "esh" X86 AtRandom(21);
    esh_by_priorities_x86: "esh" X86 ByPriorities(22);
    esh_at_random_word: "esh" Word AtRandom(23);
    esh_by_priorities_word: "esh" Word ByPriorities(24);
    /// Segments that nobody has come to since a crash: threads meet in their repair.
    esh_unrepaired_at_random: "esh-left"/10 X86 AtRandom(25), "esh-left"/10 Word ByPriorities(26);
    rewo_at_random_x86: "rewo" X86 AtRandom(31);
    rewo_by_priorities_word: "rewo" Word ByPriorities(32);
    /// Two buckets of copies in DRAM for all keys: what is answered from them is durable, and not old.
    rewo_cached_at_random_x86: "rewo-cached" X86 AtRandom(33);
    rewo_cached_by_priorities_x86: "rewo-cached" X86 ByPriorities(34);
    /// The same, where another thread changes copies while writers wait for the medium: what writers and it
    /// say to each other, at every call of either.
    rewo_synced_at_random_x86: "rewo-synced" X86 AtRandom(35);
    rewo_synced_by_priorities_word: "rewo-synced" Word ByPriorities(36);
    /// Lists of values, made and undone, beside readers of all values of a key.
    multimaps_at_random_x86: "pea-multi" X86 AtRandom(16), "pea-multi-map"/5 X86 AtRandom(17);
    multimaps_by_priorities_x86: "pea-multi" X86 ByPriorities(18);
    multimaps_at_random_word: "pea-multi" Word AtRandom(19);
    /// Byte strings with chains of equal hashes, and the sweep; in the last, copies in DRAM that are looked
    /// for elsewhere from some moment on, and records that they name.
    maps_at_random_x86: "reh-map"/5 X86 AtRandom(5), "pea-map"/5 X86 AtRandom(15),
        "esh-map"/5 X86 AtRandom(27), "rewo-map"/5 X86 AtRandom(35),
        "rewo-small-map"/5 X86 AtRandom(36), "rewo-small-map"/5 X86 ByPriorities(37);
    /// Batches, and changes of single keys that they change, too.
    batches_at_random_x86: "reh-batch-threads"/2 X86 AtRandom(41), "pea-batch-threads"/2 X86 AtRandom(42),
        "esh-batch-threads"/5 X86 AtRandom(43), "rewo-batch-threads"/2 X86 AtRandom(44),
        "reh-batch-map-threads"/2 X86 AtRandom(45);
    batches_by_priorities_word: "reh-batch-threads"/2 Word ByPriorities(46),
        "reh-batch-map-threads"/2 Word ByPriorities(47);
}

/// The violation by a fault of batches that hurts only other threads, if it is found.
pub(crate) fn hurts_threads(fault: Fault) -> Option<String> {
    let found = Arc::new(Mutex::new(None));
    let told = Arc::clone(&found);
    let work = Work::new("reh-batch-map-threads", Model::X86);
    // All threads of a schedule are one of the system's.
    each(&AtRandom(48), budget(600, 2500), move |number| {
        plant(Some(fault));
        if told.lock().unwrap().is_none() {
            *told.lock().unwrap() = run(&work, number, &Mutex::default(), &|_| false);
        }
        plant(None);
    });
    found.lock().unwrap().take()
}

/// A value that was read and then lost, though its put was never acknowledged: a get answers with it before it is
/// durable.
#[test]
fn values_seen_too_early_are_found() {
    let found = Arc::new(Mutex::new(None));
    let told = Arc::clone(&found);
    let under_way = Mutex::new(BTreeMap::new());
    let hasty = move |table: &dyn Table, op, key| match op {
        Op::Get(_) => {
            let seen = under_way.lock().unwrap().get(&key).copied();
            seen.map_or_else(|| table.apply(op, key), |v| Ok(Some(v)))
        }
        Op::Put(_, v) => {
            under_way.lock().unwrap().insert(key, v);
            let done = table.apply(op, key);
            under_way.lock().unwrap().remove(&key);
            done
        }
        _ => table.apply(op, key),
    };
    let work = Work { apply: Arc::new(hasty), ..Work::new("reh", Model::X86) };
    each(&AtRandom(7), schedules(), move |number| {
        if told.lock().unwrap().is_none() {
            let wrong = run(&work, seed(0) + number, &Mutex::default(), &|_| false);
            *told.lock().unwrap() = wrong;
        }
    });
    println!("{}", found.lock().unwrap().as_ref().expect("not found"));
}
