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

use durahash::{Finding, Result};
use durahash_crash::budget::Budget;
use durahash_crash::case::{Case, Make, Table};
use durahash_crash::cases::named;
use durahash_crash::linear::{Operation, outcomes};
use durahash_crash::script::{Op, Rng};
use durahash_crash::states::{CrashState, Explorer, Model, Visit};
use durahash_media::Event;
use durahash_media::sim::{Action, Call, Hook, Sim, Site, Step};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
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
    /// What each key had before the trace.
    initial: Vec<Option<u64>>,
    trace: &'a [Step],
    done: &'a [Done],
    /// What each key may have, as of the step that was passed last, and its hash.
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

/// One run, inside a shuttle execution: what is wrong, if anything, with the trace but for the steps
/// that are `left_out`. In a `crowd` everybody puts what is not there yet, and much is split.
fn run(
    case: &Case,
    model: Model,
    seed: u64,
    known: &Mutex<HashSet<(u64, u64)>>,
    crowd: bool,
    left_out: &dyn Fn(&Step) -> bool,
) -> Option<String> {
    let mut rng = Rng::new(seed);
    let sim = Sim::new(case.max_bytes).with_line_order(model.same_line_order());
    let table: Arc<dyn Table> = Arc::from((case.create)(sim.clone()).unwrap());
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
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let numbers = thread * OPS..(thread + 1) * OPS;
            let ops = ops[numbers.clone()].to_vec();
            let (table, sim, keys) = (Arc::clone(&table), sim.clone(), keys.clone());
            let ended = Arc::clone(&ended);
            shuttle::thread::spawn(move || {
                let mut done = Vec::new();
                for (number, op) in numbers.zip(ops) {
                    mark(&sim, number, false);
                    let h = keys[usize::from(op.key().expect("every one has a key"))];
                    let answer = table.apply(op, h).unwrap();
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
    if model != Model::Word || seed.is_multiple_of(word_every()) {
        let one_in = Budget::get().one_in(if crowd { 1 } else { 32 });
        let _ = Explorer::new(model, seed).one_in(one_in).explore(&image, &trace, 0, &mut judge);
    }
    // The end of it all without a crash: the table itself, and its history.
    judge.allow(trace.len());
    let told = judge.wrong.take().or_else(|| judge.recover(&sim.image()).err());
    let mut findings = Vec::new();
    table.check(&mut |finding| findings.push(finding)).unwrap();
    assert!(findings.is_empty(), "seed {seed}, {}: {findings:?}", prefill.name);
    told.map(|told| format!("seed {seed}, {}, {ops:?}: {told}", prefill.name))
}

fn schedules() -> usize {
    Budget::get().schedules()
}

/// Of how many schedules one has its crash states visited under `Word`.
fn word_every() -> u64 {
    Budget::get().word_every()
}

/// Schedules at random, from a seed of the run's on.
fn at_random(seed: u64, schedules: usize) -> RandomScheduler {
    RandomScheduler::new_from_seed(seed + Budget::get().seed, schedules)
}

/// Schedules by priorities that change at so many points.
fn by_priorities(seed: u64, depth: usize, schedules: usize) -> PctScheduler {
    PctScheduler::new_from_seed(seed + Budget::get().seed, depth, schedules)
}

fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    // What is compiled with few optimisations, for tests, needs more than the 32 KiB that there are.
    config.stack_size = 256 << 10;
    config.max_steps = shuttle::MaxSteps::FailAfter(200_000);
    config
}

fn explore(name: &str, model: Model, scheduler: impl Scheduler + 'static) {
    explore_case(named(name), model, scheduler);
}

fn explore_case(case: Case, model: Model, scheduler: impl Scheduler + 'static) {
    let seed = Arc::new(std::sync::atomic::AtomicU64::new(Budget::get().seed));
    let known = Arc::new(Mutex::new(HashSet::new()));
    let states = Arc::clone(&known);
    shuttle::Runner::new(scheduler, config()).run(move || {
        let seed = seed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if let Some(wrong) = run(&case, model, seed, &known, false, &|_| false) {
            panic!("{wrong}");
        }
    });
    println!("{} crash states under {}", states.lock().unwrap().len(), model.name());
}

/// The extents of a pool are taken by one thread and used by another, which fences its own flushes
/// only. Each of these fences is left out in turn, and missed.
#[test]
fn fences_that_only_other_threads_need() {
    let sites: Arc<Mutex<BTreeSet<Site>>> = Arc::default();
    let missed: Arc<Mutex<BTreeMap<Site, String>>> = Arc::default();
    let (of_run, found) = (Arc::clone(&sites), Arc::clone(&missed));
    let seed = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let first = Budget::get().of(40, 200);
    let case = named("reh");
    let scheduler = at_random(6, Budget::get().of(400, 2500));
    shuttle::Runner::new(scheduler, config()).run(move || {
        let seed = seed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let target = {
            let (sites, found) = (of_run.lock().unwrap(), found.lock().unwrap());
            sites.iter().find(|site| !found.contains_key(*site)).copied()
        };
        // The first runs only find out which fences there are.
        // All are known, and missed.
        if seed >= first && target.is_none() {
            return;
        }
        let left_out = |step: &Step| {
            let fence = step.action == Action::Fence && step.site.file().ends_with("extents.rs");
            if fence {
                of_run.lock().unwrap().insert(step.site);
            }
            fence && seed >= first && target == Some(step.site)
        };
        let known = Mutex::new(HashSet::new());
        if let Some(wrong) = run(&case, Model::X86, seed, &known, true, &left_out)
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

#[test]
fn reh_at_random_x86() {
    explore("reh", Model::X86, at_random(1, schedules()));
}

#[test]
fn reh_by_priorities_x86() {
    let scheduler = by_priorities(2, 3, schedules());
    explore("reh", Model::X86, scheduler);
}

#[test]
fn reh_at_random_word() {
    explore("reh", Model::Word, at_random(3, schedules()));
}

#[test]
fn reh_by_priorities_word() {
    let scheduler = by_priorities(4, 3, schedules());
    explore("reh", Model::Word, scheduler);
}

#[test]
fn pea_at_random_x86() {
    explore("pea", Model::X86, at_random(11, schedules()));
}

#[test]
fn pea_by_priorities_x86() {
    let scheduler = by_priorities(12, 3, schedules());
    explore("pea", Model::X86, scheduler);
}

#[test]
fn pea_at_random_word() {
    explore("pea", Model::Word, at_random(13, schedules()));
}

#[test]
fn pea_by_priorities_word() {
    let scheduler = by_priorities(14, 3, schedules());
    explore("pea", Model::Word, scheduler);
}

#[test]
fn esh_at_random_x86() {
    explore("esh", Model::X86, at_random(21, schedules()));
}

#[test]
fn esh_by_priorities_x86() {
    let scheduler = by_priorities(22, 3, schedules());
    explore("esh", Model::X86, scheduler);
}

#[test]
fn esh_at_random_word() {
    explore("esh", Model::Word, at_random(23, schedules()));
}

#[test]
fn esh_by_priorities_word() {
    let scheduler = by_priorities(24, 3, schedules());
    explore("esh", Model::Word, scheduler);
}

/// Segments that nobody has come to since a crash: threads meet in their repair.
#[test]
fn esh_unrepaired_at_random() {
    explore_case(left(), Model::X86, at_random(25, schedules() / 10));
    let scheduler = by_priorities(26, 3, schedules() / 10);
    explore_case(left(), Model::Word, scheduler);
}

/// ESH, opened again after it was left as a crash leaves it.
fn left() -> Case {
    let esh = named("esh");
    let (create, open) = (Arc::clone(&esh.create), Arc::clone(&esh.open));
    let create = move |sim: Sim| -> Result<Box<dyn Table>> {
        let table = Mutex::new(Arc::from(create(sim.clone())?));
        Ok(Box::new(Reopened { sim, open: Arc::clone(&open), table }))
    };
    Case { name: "esh-left", create: Arc::new(create), ..esh }
}

struct Reopened {
    sim: Sim,
    open: Make,
    table: Mutex<Arc<dyn Table>>,
}

impl Reopened {
    fn table(&self) -> Arc<dyn Table> {
        Arc::clone(&self.table.lock().unwrap())
    }
}

impl Table for Reopened {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        self.table().apply(op, key)
    }

    /// What the prefill made is asked for once, before the threads begin.
    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        let mut table = self.table.lock().unwrap();
        table.contents(out)?;
        *table = Arc::from((self.open)(self.sim.clone())?);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.table().len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.table().check(found)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn rewo_at_random_x86() {
    explore("rewo", Model::X86, at_random(31, schedules()));
}

#[test]
fn rewo_by_priorities_word() {
    let scheduler = by_priorities(32, 3, schedules());
    explore("rewo", Model::Word, scheduler);
}

/// Two buckets of copies in DRAM for all keys: what is answered from them is durable, and not old.
#[test]
fn rewo_cached_at_random_x86() {
    explore("rewo-cached", Model::X86, at_random(33, schedules()));
}

#[test]
fn rewo_cached_by_priorities_x86() {
    let scheduler = by_priorities(34, 3, schedules());
    explore("rewo-cached", Model::X86, scheduler);
}

/// The same, where another thread changes copies while writers wait for the medium: what writers and it say
/// to each other, at every call of either.
#[test]
fn rewo_synced_at_random_x86() {
    explore("rewo-synced", Model::X86, at_random(35, schedules()));
}

#[test]
fn rewo_synced_by_priorities_word() {
    let scheduler = by_priorities(36, 3, schedules());
    explore("rewo-synced", Model::Word, scheduler);
}

/// Lists of values, made and undone, beside readers of all values of a key.
#[test]
fn multimaps_at_random_x86() {
    explore("pea-multi", Model::X86, at_random(16, schedules()));
    let scheduler = at_random(17, schedules() / 5);
    explore("pea-multi-map", Model::X86, scheduler);
}

#[test]
fn multimaps_by_priorities_x86() {
    let scheduler = by_priorities(18, 3, schedules());
    explore("pea-multi", Model::X86, scheduler);
}

#[test]
fn multimaps_at_random_word() {
    explore("pea-multi", Model::Word, at_random(19, schedules()));
}

/// Byte strings with chains of equal hashes, and the sweep.
#[test]
fn maps_at_random_x86() {
    let scheduler = at_random(5, schedules() / 5);
    explore("reh-map", Model::X86, scheduler);
    let scheduler = at_random(15, schedules() / 5);
    explore("pea-map", Model::X86, scheduler);
    let scheduler = at_random(27, schedules() / 5);
    explore("esh-map", Model::X86, scheduler);
    let scheduler = at_random(35, schedules() / 5);
    explore("rewo-map", Model::X86, scheduler);
    // Copies in DRAM that are looked for elsewhere from some moment on, and records that they name.
    let scheduler = at_random(36, schedules() / 5);
    explore("rewo-small-map", Model::X86, scheduler);
    let scheduler = by_priorities(37, 3, schedules() / 5);
    explore("rewo-small-map", Model::X86, scheduler);
}

/// REH, but that a value that is being put is answered before it is durable.
fn hasty() -> Case {
    let reh = named("reh");
    let create = Arc::clone(&reh.create);
    let create = move |sim| -> Result<Box<dyn Table>> {
        Ok(Box::new(Ahead { table: create(sim)?, under_way: Mutex::default() }))
    };
    Case { name: "hasty", create: Arc::new(create), ..reh }
}

struct Ahead {
    table: Box<dyn Table>,
    /// What is being put, by key.
    under_way: Mutex<BTreeMap<u64, u64>>,
}

impl Table for Ahead {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        let early = |v| self.under_way.lock().unwrap().insert(key, v);
        match op {
            Op::Get(_) => {
                let seen = self.under_way.lock().unwrap().get(&key).copied();
                seen.map_or_else(|| self.table.apply(op, key), |v| Ok(Some(v)))
            }
            Op::Put(_, v) => {
                early(v);
                let done = self.table.apply(op, key);
                self.under_way.lock().unwrap().remove(&key);
                done
            }
            _ => self.table.apply(op, key),
        }
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        self.table.contents(out)
    }

    fn len(&self) -> Result<u64> {
        self.table.len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.table.check(found)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.table.close()
    }
}

/// A value that was read and then lost, though its put was never acknowledged.
#[test]
fn what_is_seen_too_early_is_found() {
    let found = Arc::new(Mutex::new(None));
    let (told, seed) = (Arc::clone(&found), Arc::new(std::sync::atomic::AtomicU64::new(0)));
    let case = hasty();
    let scheduler = at_random(7, schedules());
    shuttle::Runner::new(scheduler, config()).run(move || {
        let seed = seed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let known = Mutex::default();
        if told.lock().unwrap().is_none() {
            let wrong = run(&case, Model::X86, seed, &known, false, &|_| false);
            *told.lock().unwrap() = wrong;
        }
    });
    println!("{}", found.lock().unwrap().as_ref().expect("not found"));
}
