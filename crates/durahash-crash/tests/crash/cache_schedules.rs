//! A cache with expiry under chosen schedules: threads put, remove and read entries, move the clock on, sweep, and look
//! at what was told. Every call into the medium is a point at which another thread may go on (`schedules.rs`).
//!
//! What each key answered must be explained, where every moment at which the clock was moved on is an operation on every
//! key. An eviction is a removal that may happen, but only of what is told in the end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use durahash::cache::Clock;
use durahash::forgetting::{Fault, plant};
use durahash::{Cache, Options};
use durahash_crash::linear::outcomes_by;
use durahash_crash::script::Rng;
use durahash_media::sim::{Call, Hook, Sim, Site, budget, seed};
use durahash_media::{Event, Geometry};

use crate::schedules::{How, each};

const THREADS: u64 = 3;
const OPS: u64 = 5;
const KEYS: usize = 3;
/// By how much the clock is moved on, and where it begins.
const PASS: Duration = Duration::from_secs(1);

/// How often the clock was moved on when a value expires; odd ones do.
fn end(v: u64) -> Option<u64> {
    (v % 2 == 1).then_some(1 + v / 2 % 3)
}

/// What a key has: how often the clock was moved on, and the value that was put last, if there is one.
fn state(passes: u64, value: Option<u64>) -> Option<u64> {
    Some(passes << 32 | value.map_or(0, |v| v + 1))
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Put(u64, u64),
    Remove(u64),
    Get(u64),
    /// Moves the clock on.
    Pass,
    Sweep,
    /// What was told to have gone is not there.
    Look,
}

impl Op {
    fn random(rng: &mut Rng, v: u64) -> Self {
        let key = rng.below(KEYS) as u64;
        match rng.below(10) {
            0..4 => Op::Put(key, v),
            4 => Op::Remove(key),
            5 | 6 => Op::Get(key),
            7 => Op::Pass,
            8 => Op::Sweep,
            _ => Op::Look,
        }
    }
}

/// An operation, when it began and ended, and what it found.
type Done = (Op, u64, u64, Option<u64>);

/// Lets the scheduler choose before every call.
struct Switch(shuttle::sync::atomic::AtomicUsize);

impl Hook for Switch {
    fn before(&self, call: Call, _site: Site) {
        match call {
            Call::Event(Event::Wait) => shuttle::thread::yield_now(),
            _ => drop(self.0.load(Ordering::Relaxed)),
        }
    }
}

struct Stage {
    cache: Cache<u64, u64>,
    clock: Clock,
    /// The bound, if there is one; what goes is told then.
    max: Option<u64>,
    now: AtomicU64,
    wrong: Mutex<Option<String>>,
}

impl Stage {
    fn tell(&self, wrong: String) {
        self.wrong.lock().unwrap().get_or_insert(wrong);
    }

    /// The values that went, and their keys. None of them is there, or went twice.
    fn told(&self) -> BTreeMap<u64, u64> {
        let mut told = BTreeMap::new();
        for gone in self.cache.evicted().map(Result::unwrap) {
            let is_there = self.cache.get(&gone.key).unwrap() == Some(gone.value);
            if told.insert(gone.value, gone.key).is_some() || is_there {
                self.tell(format!("{} went, and twice or is there", gone.value));
            }
        }
        told
    }

    fn apply(&self, op: Op) -> Done {
        let cache = &self.cache;
        let begin = self.now.fetch_add(1, Ordering::Relaxed);
        let mut found = None;
        match op {
            Op::Put(key, v) => match end(v) {
                Some(passes) => {
                    let at = UNIX_EPOCH + PASS * (1 + passes as u32);
                    cache.put_until(&key, &v, at).unwrap();
                }
                None => cache.put(&key, &v).unwrap(),
            },
            Op::Remove(key) => found = cache.remove(&key).unwrap(),
            Op::Get(key) => found = cache.get(&key).unwrap(),
            Op::Pass => self.clock.advance(PASS),
            Op::Sweep => while cache.step().unwrap() {},
            Op::Look => drop(self.told()),
        }
        let stored = cache.len().unwrap();
        if self.max.is_some_and(|max| stored > max) {
            self.tell(format!("{stored} entries behind {op:?}"));
        }
        (op, begin, self.now.fetch_add(1, Ordering::Relaxed), found)
    }

    /// The answers of one key, by what went in the end.
    fn explain(&self, key: u64, done: &[Done], told: &BTreeMap<u64, u64>) {
        let is_of = |op: &Op| match op {
            Op::Put(of, _) | Op::Remove(of) | Op::Get(of) => *of == key,
            Op::Pass => true,
            Op::Sweep | Op::Look => false,
        };
        let done: Vec<Done> = done.iter().filter(|(op, ..)| is_of(op)).copied().collect();
        let times: Vec<_> = done.iter().map(|(_, begin, end, _)| (*begin, Some(*end))).collect();
        let step = |i: usize, now: Option<u64>| {
            let (op, _, _, found) = done[i];
            let (passes, value) = now.map_or((0, 0), |now| (now >> 32, now & u64::from(u32::MAX)));
            let value = value.checked_sub(1).filter(|v| end(*v).is_none_or(|end| passes < end));
            let went = |v: &u64| told.get(v) == Some(&key);
            let is_explained =
                found == value || found.is_none() && value.as_ref().is_some_and(went);
            match op {
                Op::Put(_, v) => Some(state(passes, Some(v))),
                Op::Pass => Some(state(passes + 1, value)),
                Op::Remove(_) => is_explained.then(|| state(passes, None)),
                _ => is_explained.then(|| state(passes, found)),
            }
        };
        if outcomes_by(None, &times, &step).is_empty() {
            self.tell(format!("key {key} is not linearizable: {done:?}, {told:?}"));
        }
    }
}

/// One run: what is wrong with it.
fn run(max: Option<u64>, seed: u64) -> Option<String> {
    let mut rng = Rng::new(seed);
    let geometry = Geometry { extent_shift: 12, slots: 3, hash_bits: 0, buckets: 0 };
    let clock = Clock::manual(PASS.as_millis() as u64);
    let options = Options::new().seed(1).geometry(geometry).sweep(false).clock(clock.clone());
    let options = match max {
        Some(max) => options.max_entries(max).keep_evicted(true),
        None => options,
    };
    let sim = Sim::new(512 << 10);
    let cache = options.create_on(sim.clone()).unwrap();
    let (now, wrong) = (AtomicU64::new(0), Mutex::default());
    let stage = Arc::new(Stage { cache, clock, max, now, wrong });
    sim.set_hook(Box::new(Switch(shuttle::sync::atomic::AtomicUsize::new(0))));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let values = thread * OPS..(thread + 1) * OPS;
            let ops: Vec<Op> = values.map(|v| Op::random(&mut rng, v)).collect();
            let stage = Arc::clone(&stage);
            shuttle::thread::spawn(move || {
                ops.into_iter().map(|op| stage.apply(op)).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut done: Vec<Done> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    let told = stage.told();
    done.extend((0..KEYS as u64).map(|key| stage.apply(Op::Get(key))));
    (0..KEYS as u64).for_each(|key| stage.explain(key, &done, &told));
    stage.cache.check(&mut |finding| stage.tell(format!("{finding:?}"))).unwrap();
    let wrong = stage.wrong.lock().unwrap().take();
    wrong.map(|wrong| format!("seed {seed}: {wrong}"))
}

/// What so many schedules find with this fault; they end with the first.
fn find(fault: Option<Fault>, max: Option<u64>, how: &How, schedules: usize) -> Option<String> {
    let found = Arc::new(Mutex::new(None));
    let told = Arc::clone(&found);
    each(how, schedules, move |number| {
        // All threads of a schedule are one of the system's.
        plant(fault);
        if told.lock().unwrap().is_none() {
            *told.lock().unwrap() = run(max, seed(0) + number);
        }
        plant(None);
    });
    found.lock().unwrap().take()
}

#[test]
fn cache_schedules_find_nothing_without_a_fault() {
    for max in [None, Some(2)] {
        for how in [How::AtRandom(71), How::ByPriorities(72)] {
            assert_eq!(find(None, max, &how, budget(200, 20_000)), None);
        }
    }
}

#[test]
fn cache_faults_that_threads_show_are_found_by_schedules() {
    let faults = [
        (Fault::RemovedByKey, None, How::AtRandom(73)),
        (Fault::ToldEarly, Some(2), How::ByPriorities(72)),
    ];
    for (fault, max, how) in faults {
        let found = find(Some(fault), max, &how, 5000);
        println!("{fault:?}: {}", found.unwrap_or_else(|| panic!("{fault:?} is missed")));
    }
}
