//! Operations that panic in the middle, at any call into the medium, while others wait for their
//! locks: no thread waits for good, none builds on half a change, and nothing that is answered from
//! then on can be lost.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use durahash::ErrorKind;
use durahash_crash::case::{Case, Table};
use durahash_crash::cases::{SyncCopies, named, open_with};
use durahash_crash::quiet::catch;
use durahash_crash::script::{Op, exhaustive};
use durahash_crash::states::{CrashState, Explorer, Model};
use durahash_media::sim::{Action, Call, Hook, Sim, Site, Step, budget, seed};

use crate::stage::Other;

/// Panics once, when so many more calls were made; never again, since what unwinds calls too.
#[derive(Default)]
struct Break {
    left: AtomicI64,
    /// Done before the panic: another thread begins an operation, and waits for what is held.
    before: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    other: Arc<Other>,
}

thread_local! {
    static IS_OTHER: Cell<bool> = const { Cell::new(false) };
    /// Done before each call, by a thread whose own calls do not count.
    static SYNC: RefCell<Option<Arc<OnceLock<SyncCopies>>>> = const { RefCell::new(None) };
    static SYNCS: Cell<bool> = const { Cell::new(false) };
    /// How often there was something to do.
    static SYNCED: Cell<u64> = const { Cell::new(0) };
}

const DISARMED: i64 = i64::MAX;
/// Keys of others that are tried.
const OTHERS_MAX: usize = 3;
/// An operation that needs more calls than this waits for a lock that no thread will release.
const CALLS_MAX: u64 = 100_000;

struct Switch(Arc<Break>);

impl Hook for Switch {
    fn thread(&self) -> u32 {
        u32::from(IS_OTHER.get())
    }

    fn before(&self, call: Call, site: Site) {
        let this = &self.0;
        if IS_OTHER.get() {
            this.other.before(call);
            return;
        }
        if SYNCS.replace(true) {
            return;
        }
        if SYNC.with_borrow(|sync| {
            sync.as_ref().and_then(|sync| sync.get()).is_some_and(|sync| sync())
        }) {
            SYNCED.set(SYNCED.get() + 1);
        }
        SYNCS.set(false);
        // Events are nothing on other media, and cannot fail.
        let left = &this.left;
        if matches!(call, Call::Event(_)) || left.load(Ordering::Relaxed) == DISARMED {
            return;
        }
        if left.fetch_sub(1, Ordering::Relaxed) == 0 {
            left.store(DISARMED, Ordering::Relaxed);
            let before = this.before.lock().unwrap().take();
            if let Some(before) = before {
                before();
            }
            panic!("on purpose, at {call:?} in {site}");
        }
    }
}

fn all(table: &dyn Table, keys: &[u64]) -> Vec<Option<u64>> {
    let get = |(i, key): (usize, &u64)| table.apply(Op::Get(i as u16), *key).expect("a lookup");
    keys.iter().enumerate().map(get).collect()
}

/// The value that the other one brings.
const OTHERS: u64 = 88;

/// Runs `op` on the table in `image` and breaks off at call `n`; true if it came so far. Another
/// thread meanwhile replaces the value of `other`.
fn breaks_at(case: &Case, model: Model, image: &[u64], op: Op, n: i64, other: Option<u16>) -> bool {
    let keys = case.keys.clone();
    let sim = Sim::from_image(image, case.max_bytes).with_line_order(model.same_line_order());
    let switch = Arc::new(Break { left: AtomicI64::new(DISARMED), ..Break::default() });
    sim.set_hook(Box::new(Switch(Arc::clone(&switch))));
    sim.set_budget(Some(CALLS_MAX));
    sim.record(Vec::new());
    let table: Arc<dyn Table> = Arc::from((case.open)(sim.clone()).expect("opens"));
    let mut before = all(&*table, &keys);
    let key = op.key().map(usize::from);
    let word = key.map_or(0, |key| keys[key]);
    let opened = sim.recorded();
    let begin = opened.len();
    sim.record(opened);
    let thread = Arc::new(Mutex::new(None));
    if let Some(other) = other {
        let (begun, next, table) =
            (Arc::clone(&thread), Arc::clone(&switch.other), Arc::clone(&table));
        let op = case.translate(Op::Update(other, OTHERS), 1);
        let word = keys[usize::from(other)];
        *switch.before.lock().unwrap() = Some(Box::new(move || {
            let work = move || {
                IS_OTHER.set(true);
                table.apply(op, word)
            };
            *begun.lock().unwrap() = Some(next.begin(work));
        }));
    }
    switch.left.store(n, Ordering::Relaxed);
    let done = catch(|| table.apply(op, word));
    switch.left.store(DISARMED, Ordering::Relaxed);
    // The table, and with it the medium, is held by what was not done.
    *switch.before.lock().unwrap() = None;
    let Err(said) = done else {
        return false;
    };
    assert!(said.contains("on purpose"), "{op}, call {n}: {said}");
    if let (Some(thread), Some(other)) = (thread.lock().unwrap().take(), other) {
        match thread.join().expect("it ends, too") {
            Ok(found) => {
                let i = usize::from(other);
                let op = case.translate(Op::Update(other, OTHERS), 1);
                let answer = op.answer(before[i]);
                assert_eq!(found, answer, "{op}, call {n}: {other} was found so meanwhile");
                before[i] = op.outcome(before[i]);
            }
            Err(e) => assert!(matches!(e.kind(), ErrorKind::Poisoned), "{op}, call {n}: {e}"),
        }
    }
    // Lookups are answered, the key has its old value or its new one, and the others have theirs.
    let seen = all(&*table, &keys);
    for (i, (before, seen)) in before.iter().zip(&seen).enumerate() {
        let new = op.outcome(*before);
        assert!(seen == before || (key == Some(i) && *seen == new), "{op}, call {n}: key {i}");
    }
    let broken = sim.recorded();
    let is_store = |step: &Step| step.thread == 0 && matches!(step.action, Action::Store { .. });
    let stored = broken[begin..].iter().any(is_store);
    sim.record(broken);
    // Nobody hangs: a writer is refused, or nothing was held.
    for (i, word) in keys.iter().enumerate() {
        let next = case.translate(Op::Update(i as u16, 9), 1);
        match table.apply(next, *word) {
            Err(e) => assert!(matches!(e.kind(), ErrorKind::Poisoned), "{op}, call {n}: {e}"),
            Ok(found) => {
                assert_eq!(found, next.answer(seen[i]), "{op}, call {n}");
                // A map writes its records before it holds anything.
                assert!(!stored || case.name != "reh", "{op}, call {n}: not closed");
                return true;
            }
        }
    }
    let trace = sim.recorded();
    let late = key.map(|i| (i, op.outcome(before[i]))).filter(|(i, _)| seen[*i] == before[*i]);
    let mut wrong = None;
    let mut judge = |state: &CrashState<'_>| {
        let sim = Sim::from_image(state.image, case.max_bytes);
        let sim = sim.with_line_order(model.same_line_order());
        let table = (case.open)(sim).expect("recovers");
        let mut findings = Vec::new();
        table.check(&mut |finding| findings.push(finding)).expect("checks");
        let mut found = all(&*table, &keys);
        // The operation that broke off may still have been done, as one without an answer.
        if let Some((i, new)) = late
            && found[i] == new
        {
            found[i] = seen[i];
        }
        if findings.is_empty() && found == seen {
            return ControlFlow::Continue(());
        }
        wrong = Some(format!("{seen:?} were seen, then {found:?}; {findings:?}"));
        ControlFlow::Break(())
    };
    let mut explorer = Explorer::new(model, seed(1)).one_in(budget(16, 4));
    let _ = explorer.explore(image, &trace, trace.len() - 1, &mut judge);
    assert!(wrong.is_none(), "{op}, call {n}, {}: {}", model.name(), wrong.unwrap());
    true
}

/// Breaks of each operation of those that are tried from each prefill, after as many others: at every call. Of many
/// states that a crash may leave after one, a deep run recovers the extreme ones and one in four, the suite fewer.
fn every_break(case: &Case, model: Model, others_before: u32) -> usize {
    let mut count = 0;
    for prefill in &case.prefills {
        // Not a divisor of how many there are, so that each operation has its turn.
        let every = budget(if others_before == 0 { 1 } else { 7 }, 1);
        for ops in exhaustive(&prefill.kinds, others_before + 1).step_by(every) {
            let sim = Sim::new(case.max_bytes).with_line_order(model.same_line_order());
            let table = (case.create)(sim.clone()).expect("a table");
            for op in prefill.ops.iter().chain(&ops[..others_before as usize]) {
                let key = op.key().map_or(0, |key| case.keys.clone()[usize::from(key)]);
                table.apply(*op, key).expect("what leads there");
            }
            let image = sim.image();
            let op = ops[others_before as usize];
            let others = prefill.ops.iter().filter_map(|op| op.key());
            let others = others.filter(|key| Some(*key) != op.key()).take(OTHERS_MAX);
            for other in others.map(Some).chain([None]).step_by(budget(3, 1)) {
                let breaks = |n: &i64| breaks_at(case, model, &image, op, *n, other);
                count += (0..).step_by(budget(5, 1)).take_while(breaks).count();
            }
        }
    }
    println!("{}: {count} breaks under {}", case.name, model.name());
    count
}

/// How many breaks there are at least: all of these in a deep run.
fn at_least(breaks: usize) -> usize {
    budget(breaks / 100, breaks)
}

/// Declares tests: more than so many breaks in a deep run, of cases under models, after so many operations.
macro_rules! breaks {
    ($($(#[$doc:meta])* $name:ident: > $at_least:literal, $($case:literal $model:ident after $others:literal),+;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            let breaks = [$(every_break(&named($case), Model::$model, $others)),+];
            assert!(breaks.iter().sum::<usize>() > at_least($at_least), "only {breaks:?} breaks");
        }
    )*};
}

breaks! {
    reh_breaks_anywhere_by_ranges: > 3000, "reh-ranges" X86 after 1, "reh-ranges" Word after 1;
    reh_breaks_anywhere: > 3000, "reh" X86 after 1, "reh" Word after 1;
    pea_breaks_anywhere: > 3000, "pea" Word after 1;
    /// The prefills lead to each kind of change by themselves, and what breaks is repaired before.
    esh_breaks_anywhere: > 3000, "esh" Word after 0;
    rewo_breaks_anywhere: > 3000, "rewo-cached" Word after 0;
    /// The prefills lead to each kind of change by themselves.
    multimaps_break_anywhere: > 5000, "pea-multi" X86 after 0;
    maps_over_reh_break_anywhere: > 3000, "reh-map" X86 after 1, "reh-map" Word after 1;
    maps_over_pea_break_anywhere: > 1500, "pea-map" X86 after 1;
    maps_over_esh_break_anywhere: > 1500, "esh-map" X86 after 1;
    maps_over_rewo_break_anywhere: > 1500, "rewo-map" X86 after 1;
}

/// Rewo-Hash, whose copies another changes as soon as a writer has ordered it, at whatever call that breaks
/// off then.
#[test]
fn rewo_breaks_anywhere_with_copies_that_others_change() {
    let open = |sim| {
        let sync = Arc::default();
        let table = open_with(sim, Arc::clone(&sync))?;
        SYNC.set(Some(sync));
        Ok(table)
    };
    let ordered = Case { name: "rewo-ordered", open: Arc::new(open), ..named("rewo-synced") };
    let breaks = every_break(&ordered, Model::Word, 0);
    let synced = SYNCED.get();
    println!("{synced} times copies were changed meanwhile");
    let is_enough = breaks > at_least(3000) && synced > at_least(2000) as u64;
    assert!(is_enough, "only {breaks} breaks, {synced}");
}
