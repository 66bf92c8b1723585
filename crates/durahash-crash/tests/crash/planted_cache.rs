//! Faults of caches, each planted by the cache itself, or by REH below it, under the feature `planted`, and found: by crash
//! states of scripts, by an open behind a kill, and by threads that come between. Without a fault all of it passes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use durahash::cache::Clock;
use durahash::forgetting::{Fault, plant};
use durahash::{Cache, Options, reh};
use durahash_crash::cases::named;
use durahash_crash::script::Op;
use durahash_media::sim::{Call, Hook, Sim, Site};
use durahash_media::{Event, Geometry};

use crate::planted::by_scripts;
use crate::stage::{Scene, every_place, puts};

/// A fault of the cache, or of REH; none without both.
type Planted = (Option<Fault>, Option<reh::Fault>);

/// What is found with this fault, and that nothing is without it.
fn is_found(fault: Planted, find: impl Fn() -> Option<String>) {
    are_found(&[fault], find);
}

/// What is found with each of these faults, and that nothing is without one.
fn are_found(faults: &[Planted], find: impl Fn() -> Option<String>) {
    for fault in faults {
        plant(fault.0);
        reh::plant(fault.1);
        let found = find();
        plant(None);
        reh::plant(None);
        println!("{fault:?}: {}", found.unwrap_or_else(|| panic!("{fault:?} is missed")));
    }
    assert_eq!(find(), None);
}

const MAX_BYTES: u64 = 512 << 10;

fn options() -> Options {
    let geometry = Geometry { extent_shift: 12, slots: 3, hash_bits: 0, buckets: 0 };
    Options::new().seed(1).geometry(geometry).sweep(false)
}

/// A cache that has stored its time, and is killed; the next open has a clock that was set back.
fn revived() -> Option<String> {
    let sim = Sim::new(MAX_BYTES);
    let before = options().clock(Clock::manual(1000));
    let cache: Cache<u64, u64> = before.create_on(sim.clone()).unwrap();
    cache.step().unwrap();
    cache.put_for(&1, &10, Duration::ZERO).unwrap();
    let killed = Sim::from_image(&sim.image(), MAX_BYTES);
    let after = options().clock(Clock::manual(500));
    let cache: Cache<u64, u64> = after.open_on(killed).unwrap();
    cache.get(&1).unwrap().map(|value| format!("{value} is back"))
}

#[test]
fn what_has_expired_and_is_revived_by_a_crash_is_found() {
    is_found((Some(Fault::TimeForgotten), None), revived);
}

/// By scripts of one operation.
#[test]
fn what_is_evicted_twice_or_revived_by_a_merge_is_found() {
    let revived = (None, Some(reh::Fault::CopiesKept));
    let find = |name: &str| by_scripts(&named(name), 0, 60, 16);
    are_found(&[revived, (Some(Fault::KeptFirst), None)], || find("cache-evicted"));
    is_found(revived, || find("cache-aside"));
}

/// What had expired is put again while a sweep is held up wherever it is.
#[test]
fn a_sweep_that_removes_what_is_there_again_is_found() {
    let before = [puts(&[0, 1, 2]), vec![Op::Remove(1)]].concat();
    let other = vec![Op::Put(1, 2)];
    let scene = Scene { before, one: vec![Op::Step], other, ..Scene::default() };
    is_found((Some(Fault::RemovedByKey), None), || every_place(&named("cache"), &scene).err());
}

/// Comes before the first call of a put, and wherever it waits, with a put of its own; and counts before every call.
#[derive(Default)]
struct Between {
    cache: Mutex<Option<Cache<u64, u64>>>,
    is_inside: AtomicBool,
    puts: AtomicU64,
    most: AtomicU64,
}

struct Comes(Arc<Between>);

impl Hook for Comes {
    fn before(&self, call: Call, _site: Site) {
        let between = &*self.0;
        // Its own calls.
        if between.is_inside.swap(true, Ordering::Relaxed) {
            return;
        }
        let cache = between.cache.lock().unwrap().clone();
        if let Some(cache) = cache {
            between.most.fetch_max(cache.len().unwrap(), Ordering::Relaxed);
            if call == Call::Event(Event::Wait) || between.puts.load(Ordering::Relaxed) == 0 {
                let number = between.puts.fetch_add(1, Ordering::Relaxed);
                cache.put(&(100 + number), &0).unwrap();
            }
        }
        between.is_inside.store(false, Ordering::Relaxed);
    }
}

const MAX: u64 = 4;

fn overrun() -> Option<String> {
    let sim = Sim::new(MAX_BYTES);
    let cache: Cache<u64, u64> = options().max_entries(MAX).create_on(sim.clone()).unwrap();
    (0..MAX).for_each(|key| cache.put(&key, &key).unwrap());
    let between = Arc::new(Between::default());
    *between.cache.lock().unwrap() = Some(cache.clone());
    sim.set_hook(Box::new(Comes(Arc::clone(&between))));
    cache.put(&MAX, &MAX).unwrap();
    *between.cache.lock().unwrap() = None;
    let (puts, most) = (between.puts.load(Ordering::Relaxed), between.most.load(Ordering::Relaxed));
    assert!(puts > 0);
    (most > MAX).then(|| format!("{most} entries"))
}

#[test]
fn a_bound_that_threads_overrun_is_found() {
    is_found((Some(Fault::CountedLate), None), overrun);
}
