//! Faults that Rewo-Hash's paper invites, and that its own departures do, each planted by the
//! design itself under the feature `planted`, and found: by crash states of scripts, and by threads that are held
//! up. The design without a fault passes all of it.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use durahash::index::Index;
use durahash::rewo::{Cache, Fault, Rewo, SYNC_BY_CALLS, plant};
use durahash::{Finding, Result};
use durahash_crash::budget::Budget;
use durahash_crash::case::{Case, Make, Table};
use durahash_crash::cases::rewo_with;
use durahash_crash::linear::{Operation, outcomes};
use durahash_crash::run::Tester;
use durahash_crash::script::{Op, Rng};
use durahash_crash::states::{CrashState, Explorer, Model, Visit};
use durahash_media::Event;
use durahash_media::sim::{Call, Hook, Sim, Site, name_thread};

/// No cached table; one of two buckets; one whose size follows the tables'; one of two buckets, where steps
/// change copies while writers wait for the medium.
const NO_CACHE: Cache = Cache { bytes: Some(0), fill: false, sync_threads: 0 };
const CACHED: Cache = Cache { bytes: Some(256), ..NO_CACHE };
const FOLLOWS: Cache = Cache { bytes: None, ..NO_CACHE };
const SYNCED: Cache = Cache { bytes: Some(257), sync_threads: SYNC_BY_CALLS, ..NO_CACHE };

/// A table with a fault, which is that of the thread that works on it.
struct Planted {
    fault: Option<Fault>,
    table: Box<dyn Table>,
}

impl Planted {
    fn table(&self) -> &dyn Table {
        plant(self.fault);
        &*self.table
    }
}

impl Table for Planted {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        self.table().apply(op, key)
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        self.table().contents(out)
    }

    fn len(&self) -> Result<u64> {
        self.table().len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.table().check(found)
    }

    fn was_closed(&self) -> Option<bool> {
        self.table.was_closed()
    }

    fn close(self: Box<Self>) -> Result<()> {
        plant(self.fault);
        self.table.close()
    }
}

/// Rewo-Hash with a fault, or without one, and this cached table.
fn rewo(fault: Option<Fault>, cache: Cache) -> Case {
    let step = |rewo: &Rewo<Sim>| if rewo.sync_copies() { Ok(true) } else { rewo.step() };
    let rewo = rewo_with("rewo-planted", 64 << 10, cache, step);
    let made = |make: Make| -> Make {
        Arc::new(move |sim| {
            plant(fault);
            Ok(Box::new(Planted { fault, table: make(sim)? }))
        })
    };
    let (create, open) = (made(Arc::clone(&rewo.create)), made(Arc::clone(&rewo.open)));
    Case { create, open, ..rewo }
}

/// The end of a thread's fault.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        plant(None);
    }
}

#[test]
fn every_fault_is_planted_here() {
    for fault in Fault::ALL {
        let is_planted = include_str!("planted_rewo.rs").contains(&format!("Fault::{fault:?}"));
        assert!(is_planted, "{fault:?}");
    }
}

/// What a script alone finds, with or without a crash.
fn by_scripts(fault: Option<Fault>, cache: Cache) -> Option<String> {
    let _ends = Ends;
    let case = rewo(fault, cache);
    let mut tester = Tester::new(&case, Model::X86);
    let done =
        tester.exhaustive(1).and_then(|()| (0..20).try_for_each(|seed| tester.random(seed, 200)));
    done.err().map(|failure| failure.to_string())
}

#[test]
fn what_is_written_and_recovered_wrongly_is_found() {
    let faults = [
        Fault::CommitFirst,
        Fault::ClearedFirst,
        Fault::Unmarked,
        Fault::MarkedDropped,
        Fault::BothKept,
        Fault::MarksStay,
        Fault::CursorFirst,
        Fault::PassedFirst,
        Fault::PassedKept,
        Fault::RootFirst,
        Fault::GivenUpFirst,
    ];
    for fault in faults {
        let found =
            by_scripts(Some(fault), NO_CACHE).unwrap_or_else(|| panic!("{fault:?} is missed"));
        println!("{fault:?}: {found}\n");
    }
    assert_eq!(by_scripts(None, NO_CACHE), None);
}

#[test]
fn copies_that_are_not_those_of_their_slots_are_found() {
    for fault in [Fault::CopyKept, Fault::CopyOutlives, Fault::OverflowKept] {
        let found = by_scripts(Some(fault), CACHED);
        println!("{fault:?}: {}\n", found.unwrap_or_else(|| panic!("{fault:?} is missed")));
    }
    assert_eq!(by_scripts(None, CACHED), None);
    let found = by_scripts(Some(Fault::Unswept), FOLLOWS);
    println!("Unswept: {}\n", found.expect("Unswept is missed"));
    assert_eq!(by_scripts(None, FOLLOWS), None);
}

/// What is done before, by whom is held up, and by others meanwhile.
#[derive(Debug)]
struct Scene {
    before: Vec<Op>,
    one: Op,
    others: Vec<Op>,
    /// Whether crashes are looked at, after the others' answers.
    crashes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Nobody,
    One,
    Others,
}

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Nobody) };
}

type Crash = Box<dyn Fn(&Stage) + Send + Sync>;

/// What was done, by operations on each key; what is wrong is told once.
struct Stage {
    table: Mutex<Option<Arc<dyn Table>>>,
    sim: Sim,
    subject_keys: Vec<u64>,
    others: Vec<Op>,
    /// Calls that are left until the one is held up.
    left: AtomicUsize,
    clock: AtomicU64,
    histories: Mutex<HashMap<u16, Vec<Operation>>>,
    wrong: Mutex<Option<String>>,
    /// Whether the others have ended, or wait for the one.
    is_over: Mutex<bool>,
    turned: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// What is done once they have ended before the one goes on.
    crash: Option<Crash>,
}

impl Stage {
    fn tell(&self, wrong: String) {
        self.wrong.lock().unwrap().get_or_insert(wrong);
    }

    /// Does an operation, and writes it down.
    fn apply(&self, table: &dyn Table, op: Op) {
        let Some(key) = op.key() else {
            if let Err(e) = table.apply(op, 0) {
                self.tell(format!("{op}: {e}"));
            }
            return;
        };
        let begin = self.clock.fetch_add(1, Ordering::SeqCst);
        let at = {
            let mut histories = self.histories.lock().unwrap();
            let history = histories.entry(key).or_default();
            history.push(Operation { op, begin, end: None });
            history.len() - 1
        };
        let done =
            catch_unwind(AssertUnwindSafe(|| table.apply(op, self.subject_keys[usize::from(key)])));
        match done {
            Ok(Ok(answer)) => {
                let end = self.clock.fetch_add(1, Ordering::SeqCst);
                let mut histories = self.histories.lock().unwrap();
                histories.get_mut(&key).expect("begun")[at].end = Some((end, answer));
            }
            Ok(Err(e)) => self.tell(format!("{op}: {e}")),
            Err(_) => self.tell(format!("{op} panicked")),
        }
    }

    fn is_over(&self) {
        *self.is_over.lock().unwrap() = true;
        self.turned.notify_all();
    }

    /// What others do while the one is held up.
    fn let_others(self: &Arc<Self>) {
        let stage = Arc::clone(self);
        let table = self.table.lock().unwrap().clone().expect("set before");
        let thread = std::thread::spawn(move || {
            ROLE.set(Role::Others);
            name_thread(2);
            for op in &stage.others {
                stage.apply(&*table, *op);
            }
            drop(table);
            stage.is_over();
        });
        let mut is_over = self.is_over.lock().unwrap();
        while !*is_over {
            is_over = self.turned.wait(is_over).unwrap();
        }
        drop(is_over);
        *self.thread.lock().unwrap() = Some(thread);
        if let Some(crash) = &self.crash {
            crash(self);
        }
    }
}

struct Switch(Arc<Stage>);

impl Hook for Switch {
    fn before(&self, call: Call, _site: Site) {
        match ROLE.get() {
            Role::Nobody => {}
            Role::One => {
                let left = &self.0.left;
                if left.load(Ordering::Relaxed) > 0 && left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    ROLE.set(Role::Nobody);
                    self.0.let_others();
                }
            }
            Role::Others if call == Call::Event(Event::Wait) => self.0.is_over(),
            Role::Others => {}
        }
    }
}

/// Recovers what a crash leaves, and holds it against the answers.
struct Crashes<'a> {
    case: &'a Case,
    keys: &'a [u64],
    allowed: HashMap<u16, Vec<Option<u64>>>,
    wrong: Option<String>,
}

impl Visit for Crashes<'_> {
    fn passed(&mut self, _step: usize) -> bool {
        false
    }

    fn state(&mut self, state: &CrashState<'_>) -> ControlFlow<()> {
        let sim = Sim::from_image(state.image, self.case.max_bytes);
        let table = (self.case.open)(sim).expect("recovered");
        for (key, allowed) in &self.allowed {
            let held = table.apply(Op::Get(*key), self.keys[usize::from(*key)]).expect("a lookup");
            if !allowed.contains(&held) {
                self.wrong = Some(format!("a crash leaves {held:?}, explained are {allowed:?}"));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether the one was held up before its call number `at`, and what is wrong then.
fn play(case: &Case, scene: &Scene, at: usize) -> (bool, Option<String>) {
    let keys = case.keys.clone();
    let sim = Sim::new(case.max_bytes);
    let table: Arc<dyn Table> = Arc::from((case.create)(sim.clone()).expect("a table"));
    let mut initial = vec![None; keys.len()];
    for op in &scene.before {
        let key = usize::from(op.key().expect("every one has a key"));
        table.apply(*op, keys[key]).expect("nothing fails here");
        initial[key] = op.outcome(initial[key]);
    }
    let image = sim.image();
    let (initials, of_subject) = (initial.clone(), keys.clone());
    let of_crash = case.clone();
    let crash = move |stage: &Stage| {
        let trace = stage.sim.recorded();
        let histories = stage.histories.lock().unwrap();
        let allowed = histories
            .iter()
            .map(|(key, history)| (*key, outcomes(initials[usize::from(*key)], history)))
            .collect();
        let mut crashes = Crashes { case: &of_crash, keys: &of_subject, allowed, wrong: None };
        let _ = Explorer::new(Model::X86, 1).explore(&image, &trace, usize::MAX, &mut crashes);
        if let Some(wrong) = crashes.wrong {
            stage.tell(wrong);
        }
    };
    let stage = Arc::new(Stage {
        table: Mutex::new(Some(Arc::clone(&table))),
        sim: sim.clone(),
        subject_keys: keys.clone(),
        others: scene.others.clone(),
        left: AtomicUsize::new(at),
        clock: AtomicU64::new(0),
        histories: Mutex::default(),
        wrong: Mutex::default(),
        is_over: Mutex::new(false),
        turned: Condvar::new(),
        thread: Mutex::default(),
        crash: scene.crashes.then(|| Box::new(crash) as Crash),
    });
    sim.set_hook(Box::new(Switch(Arc::clone(&stage))));
    name_thread(1);
    if scene.crashes {
        sim.record(Vec::new());
    }
    ROLE.set(Role::One);
    stage.apply(&*table, scene.one);
    ROLE.set(Role::Nobody);
    let thread = stage.thread.lock().unwrap().take();
    let was_held_up = thread.is_some();
    if let Some(thread) = thread {
        thread.join().expect("it ends");
    }
    // The table holds the hook by its medium.
    *stage.table.lock().unwrap() = None;

    if stage.wrong.lock().unwrap().is_none() {
        for key in 0..keys.len() as u16 {
            stage.apply(&*table, Op::Get(key));
        }
        let mut findings = Vec::new();
        table.check(&mut |finding| findings.push(finding)).expect("checks");
        if !findings.is_empty() {
            stage.tell(format!("{findings:?}"));
        }
        for (key, history) in &*stage.histories.lock().unwrap() {
            if outcomes(initial[usize::from(*key)], history).is_empty() {
                stage.tell(format!("key {key} is not linearizable: {history:?}"));
            }
        }
    }
    let wrong = stage.wrong.lock().unwrap().take();
    (was_held_up, wrong)
}

/// The first of these scenes, held up before each call in turn, in which something is wrong.
fn first_wrong(
    cache: Cache,
    fault: Option<Fault>,
    scenes: impl Iterator<Item = Scene>,
) -> Option<String> {
    let _ends = Ends;
    let case = rewo(fault, cache);
    for (number, scene) in scenes.enumerate() {
        for at in 1.. {
            let (was_held_up, wrong) = play(&case, &scene, at);
            if let Some(wrong) = wrong {
                return Some(format!("held up at {at} of scene {number}, {scene:?}: {wrong}"));
            }
            if !was_held_up {
                break;
            }
        }
    }
    None
}

/// Tables of any load, to which others add meanwhile, so that they grow. The one reads or adds, too.
fn resizes(count: u64) -> impl Iterator<Item = Scene> {
    (0..count).map(|seed| {
        let mut rng = Rng::new(seed);
        let mut keys: Vec<u16> = (0..34).collect();
        let mut any = |rng: &mut Rng| keys.swap_remove(rng.below(keys.len()));
        let before: Vec<Op> = (0..8 + rng.below(23)).map(|_| Op::Put(any(&mut rng), 1)).collect();
        let one = match rng.below(3) {
            0 => Op::Get(before[rng.below(before.len())].key().expect("every one has a key")),
            _ => Op::Put(any(&mut rng), 2),
        };
        let mut others = vec![Op::Put(any(&mut rng), 3), Op::Put(any(&mut rng), 4)];
        others.extend([Op::Step; 8]);
        Scene { before, one, others, crashes: false }
    })
}

/// Who reads what is being replaced, and who replaces it.
fn replaced(crashes: bool) -> impl Iterator<Item = Scene> {
    [1, 4, 8, 20, 26_u16].into_iter().flat_map(move |count| {
        let before: Vec<Op> = (0..=count).map(|i| Op::Put(i * 9 % 32, 1)).collect();
        let read = move |one, other| (one, vec![other]);
        let pairs = (0..=count).map(move |i| i * 9 % 32).map(move |key| match crashes {
            true => read(Op::Put(key, 2), Op::Get(key)),
            false => read(Op::Get(key), Op::Put(key, 2)),
        });
        pairs.map(move |(one, others)| Scene { before: before.clone(), one, others, crashes })
    })
}

#[test]
fn what_is_seen_before_it_is_durable_is_found() {
    let found = first_wrong(NO_CACHE, Some(Fault::SeenFirst), replaced(true));
    println!("{}\n", found.expect("SeenFirst is missed"));
    let found = first_wrong(CACHED, Some(Fault::CopyFirst), replaced(true));
    println!("{}\n", found.expect("CopyFirst is missed"));
    assert_eq!(first_wrong(NO_CACHE, None, replaced(true)), None);
    assert_eq!(first_wrong(CACHED, None, replaced(true)), None);
}

/// A copy is changed while its writer is held up and a reader comes.
fn synced() -> impl Iterator<Item = Scene> {
    [1, 4, 8_u16].into_iter().flat_map(|count| {
        let before: Vec<Op> = (0..=count).map(|i| Op::Put(i * 9 % 32, 1)).collect();
        let keys = (0..=count).map(|i| i * 9 % 32);
        let changes = keys.flat_map(|key| [Op::Put(key, 2), Op::Remove(key), Op::Put(31, 2)]);
        changes.map(move |one| {
            let others = vec![Op::Step, Op::Get(one.key().expect("every one has a key"))];
            Scene { before: before.clone(), one, others, crashes: true }
        })
    })
}

#[test]
fn copies_by_others_that_are_seen_before_they_are_durable_are_found() {
    let found = first_wrong(SYNCED, Some(Fault::SyncedEarly), synced());
    println!("{}\n", found.expect("SyncedEarly is missed"));
    assert_eq!(first_wrong(SYNCED, None, synced()), None);
}

/// Every call is a point at which a scheduler may let another thread go on. Who does steps is held up for
/// long where it looks or has taken a lock.
struct Points(shuttle::sync::atomic::AtomicUsize);

impl Hook for Points {
    fn thread(&self) -> u32 {
        usize::from(shuttle::current::me()) as u32
    }

    fn before(&self, call: Call, _site: Site) {
        let is_long =
            self.thread() == STEPS && matches!(call, Call::Event(Event::Look | Event::Locked(_)));
        if call == Call::Event(Event::Wait) || is_long {
            (0..if is_long { 40 } else { 1 }).for_each(|_| shuttle::thread::yield_now());
        } else {
            self.0.load(shuttle::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// Who does steps: the last of three that begin.
const STEPS: u32 = 3;

/// Two who write to a key and read it, and one who does steps, under so many schedules: the first history
/// that nothing explains.
fn by_schedules(fault: Option<Fault>, schedules: usize) -> Option<String> {
    let _ends = Ends;
    let wrong = Arc::new(Mutex::new(None));
    let told = Arc::clone(&wrong);
    let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(8, schedules);
    shuttle::Runner::new(scheduler, shuttle::Config::new()).run(move || {
        if told.lock().unwrap().is_some() {
            return;
        }
        let case = rewo(fault, SYNCED);
        let h = case.keys.clone()[0];
        let sim = Sim::new(case.max_bytes);
        let table: Arc<dyn Table> = Arc::from((case.create)(sim.clone()).expect("a table"));
        table.apply(Op::Put(0, 1), h).expect("nothing fails here");
        sim.set_hook(Box::new(Points(shuttle::sync::atomic::AtomicUsize::new(0))));
        let clock = Arc::new(AtomicU64::new(0));
        let histories = [vec![2, 3], vec![4, 5], vec![]].map(|values: Vec<u64>| {
            let (table, clock) = (Arc::clone(&table), Arc::clone(&clock));
            shuttle::thread::spawn(move || {
                if values.is_empty() {
                    (0..6).for_each(|_| drop(table.apply(Op::Step, 0)));
                }
                let ops = values.into_iter().flat_map(|v| [Op::Put(0, v), Op::Get(0)]);
                let history = ops.map(|op| {
                    let begin = clock.fetch_add(1, Ordering::SeqCst);
                    let answer = table.apply(op, h).expect("nothing fails here");
                    let end = clock.fetch_add(1, Ordering::SeqCst);
                    Operation { op, begin, end: Some((end, answer)) }
                });
                history.collect::<Vec<_>>()
            })
        });
        let mut history: Vec<Operation> =
            histories.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect();
        let last = table.apply(Op::Get(0), h).expect("nothing fails here");
        let now = clock.load(Ordering::SeqCst);
        history.push(Operation { op: Op::Get(0), begin: now, end: Some((now + 1, last)) });
        if outcomes(Some(1), &history).is_empty() {
            *told.lock().unwrap() = Some(format!("{history:?}"));
        }
    });
    wrong.lock().unwrap().take()
}

#[test]
fn copies_by_others_that_come_too_late_are_found() {
    let found = by_schedules(Some(Fault::SyncedLate), 5_000);
    println!("{}\n", found.expect("SyncedLate is missed"));
    assert_eq!(by_schedules(None, 2_000), None);
}

#[test]
fn copies_of_what_was_replaced_meanwhile_are_found() {
    let found = first_wrong(CACHED, Some(Fault::FilledUnseen), replaced(false));
    println!("{}\n", found.expect("FilledUnseen is missed"));
    assert_eq!(first_wrong(CACHED, None, replaced(false)), None);
}

#[test]
fn who_does_not_see_that_tables_change_is_found() {
    // The suite begins not long before the scene that shows it.
    let faults = [(Fault::TablesOnce, 0), (Fault::TablesOnceToWrite, 0), (Fault::NotPassed, 1400)];
    for (fault, begin) in faults {
        let scenes = resizes(20_000).skip(Budget::get().of(begin, 0));
        let found = first_wrong(NO_CACHE, Some(fault), scenes);
        println!("{fault:?}: {}\n", found.unwrap_or_else(|| panic!("{fault:?} is missed")));
    }
    assert_eq!(first_wrong(NO_CACHE, None, resizes(100)), None);
}
