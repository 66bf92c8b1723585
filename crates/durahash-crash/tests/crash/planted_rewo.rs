//! Faults that Rewo-Hash's paper invites, and that its own departures do, each planted by the
//! design itself under the feature `planted`, and found: by crash states of scripts, and by threads that are held
//! up. The design without a fault passes all of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use durahash::index::Index;
use durahash::rewo::{Cache, Fault, Rewo, SYNC_BY_CALLS, plant};
use durahash_crash::case::{Case, Table};
use durahash_crash::cases::rewo_with;
use durahash_crash::linear::{Operation, outcomes};
use durahash_crash::run::Tester;
use durahash_crash::script::{Op, Rng};
use durahash_crash::states::Model;
use durahash_media::Event;
use durahash_media::sim::{Call, Hook, Sim, Site, budget, seed};

use crate::stage::{Scene, every_place};

/// No cached table; one of two buckets; one whose size follows the tables'; one of two buckets, where steps
/// change copies while writers wait for the medium.
const NO_CACHE: Cache = Cache { bytes: Some(0), fill: false, sync_threads: 0 };
const CACHED: Cache = Cache { bytes: Some(256), ..NO_CACHE };
const FOLLOWS: Cache = Cache { bytes: None, ..NO_CACHE };
const SYNCED: Cache = Cache { bytes: Some(257), sync_threads: SYNC_BY_CALLS, ..NO_CACHE };

/// Rewo-Hash with this cached table.
fn rewo(cache: Cache) -> Case {
    let step = |rewo: &Rewo<Sim>| if rewo.sync_copies() { Ok(true) } else { rewo.step() };
    rewo_with("rewo-planted", 64 << 10, cache, step)
}

/// Runs `f` in a thread with a fault, or without one.
fn with<T>(fault: Option<Fault>, f: impl FnOnce() -> T) -> T {
    plant(fault);
    let done = f();
    plant(None);
    done
}

#[test]
fn every_fault_is_planted_here() {
    println!("{} faults", Fault::ALL.len());
    for fault in Fault::ALL {
        let is_planted = include_str!("planted_rewo.rs").contains(&format!("Fault::{fault:?}"));
        assert!(is_planted, "{fault:?}");
    }
}

/// What a script alone finds, with or without a crash.
fn by_scripts(fault: Option<Fault>, cache: Cache) -> Option<String> {
    let case = rewo(cache);
    let mut tester = Tester::new(&case, Model::X86);
    let run = || {
        tester.exhaustive(1)?;
        (seed(0)..seed(20)).try_for_each(|seed| tester.random(seed, 200))
    };
    with(fault, run).err().map(|failure| failure.to_string())
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

/// The first of these scenes, held up before each call in turn, in which something is wrong.
fn first_wrong(
    cache: Cache,
    fault: Option<Fault>,
    mut scenes: impl Iterator<Item = Scene>,
) -> Option<String> {
    let case = rewo(cache);
    let wrong = |scene| every_place(&case, &Scene { fault, ..scene }).err();
    with(fault, || scenes.find_map(wrong))
}

/// Tables of any load, to which others add meanwhile, so that they grow. The one reads or adds, too.
fn resizes(count: u64) -> impl Iterator<Item = Scene> {
    (seed(0)..seed(count)).map(|seed| {
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
        Scene { before, one: vec![one], other: others, ..Scene::default() }
    })
}

/// Who reads what is being replaced, and who replaces it.
fn replaced(crashes: bool) -> impl Iterator<Item = Scene> {
    [1, 4, 8, 20, 26_u16].into_iter().flat_map(move |count| {
        let before: Vec<Op> = (0..=count).map(|i| Op::Put(i * 9 % 32, 1)).collect();
        (0..=count).map(move |i| i * 9 % 32).map(move |key| {
            let (put, get) = (vec![Op::Put(key, 2)], vec![Op::Get(key)]);
            let (one, other) = if crashes { (put, get) } else { (get, put) };
            Scene { before: before.clone(), one, other, crashes, ..Scene::default() }
        })
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
            let other = vec![Op::Step, Op::Get(one.key().expect("every one has a key"))];
            let one = vec![one];
            Scene { before: before.clone(), one, other, crashes: true, ..Scene::default() }
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
    let wrong = Arc::new(Mutex::new(None));
    let told = Arc::clone(&wrong);
    let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(seed(8), schedules);
    // All of its threads are one of the system's.
    let runner = shuttle::Runner::new(scheduler, shuttle::Config::new());
    let run = move || {
        if told.lock().unwrap().is_some() {
            return;
        }
        let case = rewo(SYNCED);
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
    };
    with(fault, || runner.run(run));
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
        let scenes = resizes(20_000).skip(budget(begin, 0));
        let found = first_wrong(NO_CACHE, Some(fault), scenes);
        println!("{fault:?}: {}\n", found.unwrap_or_else(|| panic!("{fault:?} is missed")));
    }
    assert_eq!(first_wrong(NO_CACHE, None, resizes(100)), None);
}
