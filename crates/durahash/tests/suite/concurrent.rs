//! Two threads and more on one map: what each may see, whatever the others do. Written for any
//! design on any medium that takes real threads.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use durahash::{Design, Map, MultiMap, Options, Outcome};
use durahash_media::sim::{Call, Hook, Sim, Site};
use durahash_testkit::{
    Exit, Model, Sample, Setup, assert_equal, assert_sound, budget, colliding, seed, tiny,
};

/// Rounds of a thread: enough for every split and merge of a tiny pool to happen many times.
fn rounds() -> u64 {
    budget(400, 2_000)
}

/// A small generator, different for each thread, equal in each run of a seed.
struct Random(u64);

impl Random {
    fn new(thread: u64) -> Self {
        Random(thread + (seed(0) << 32))
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Each thread owns a part of the keys and sees exactly its own changes of them.
fn disjoint_keys<K: Sample + ?Sized, V: Sample + ?Sized>(place: &Setup) {
    const THREADS: u64 = 2;
    const KEYS: u64 = 60;
    let map: Map<K, V> = place.create();
    let model: Model = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|t| {
                let map = map.clone();
                scope.spawn(move || {
                    let (mut random, mut model) = (Random::new(t), Model::new());
                    for _ in 0..rounds() {
                        let k = random.below(KEYS) * THREADS + t;
                        let v = random.below(64);
                        let key = K::sample(k);
                        let old = if random.below(5) < 3 {
                            let old = map.insert(key.borrow(), V::sample(v).borrow()).unwrap();
                            (old, model.insert(k, v))
                        } else {
                            (map.remove(key.borrow()).unwrap(), model.remove(&k))
                        };
                        assert_eq!(old.0, old.1.map(V::sample));
                        let other = random.below(KEYS) * THREADS + t;
                        let found = map.get(K::sample(other).borrow()).unwrap();
                        assert_eq!(found, model.get(&other).map(|v| V::sample(*v)));
                    }
                    model
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert_equal(&map, &model);
    assert_sound(&map);
    let map = place.reopen(map, Exit::Dead);
    assert_equal(&map, &model);
    assert_sound(&map);
}

/// Counters that several threads raise, by turns in one operation and by compare-and-exchange: no increment is
/// lost or doubled.
fn shared_counters<K: Sample + ?Sized>(place: &Setup) {
    const THREADS: u64 = 2;
    const KEYS: u64 = 8;
    let map: Map<K, u64> = place.create();
    thread::scope(|scope| {
        for t in 0..THREADS {
            let map = map.clone();
            scope.spawn(move || {
                let mut random = Random::new(t);
                for round in 0..rounds() {
                    let key = K::sample(random.below(KEYS));
                    if round % 2 == 0 {
                        map.fetch_add(key.borrow(), 1).unwrap();
                        continue;
                    }
                    loop {
                        let outcome = match map.get(key.borrow()).unwrap() {
                            None => map.try_insert(key.borrow(), &1).unwrap(),
                            Some(n) => map.compare_exchange(key.borrow(), &n, &(n + 1)).unwrap(),
                        };
                        if outcome == Outcome::Done {
                            break;
                        }
                    }
                }
            });
        }
    });
    let sum: u64 = map.iter().map(|pair| pair.unwrap().1).sum();
    assert_eq!(sum, THREADS * rounds());
    assert_sound(&map);
}

/// Readers and iterators, while other keys come and go so that units split and merge all the time:
/// what stays is always found, with one of the values that it may have, and given exactly once.
fn readers_during_growth<K: Sample + ?Sized, V: Sample + ?Sized>(place: &Setup) {
    const STABLE: u64 = 40;
    const COMING: u64 = 300;
    let map: Map<K, V> = place.create();
    for k in 0..STABLE {
        map.put(K::sample(k).borrow(), V::sample(k % 8).borrow()).unwrap();
    }
    let (done, walks) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            // At least a few walks fall into the time of the changes, however threads are scheduled.
            for round in 0.. {
                for k in STABLE..STABLE + COMING {
                    map.put(K::sample(k).borrow(), V::sample(k % 64).borrow()).unwrap();
                    let stable = k % STABLE;
                    let value = stable % 8 + (k + round) % 3 * 8;
                    map.put(K::sample(stable).borrow(), V::sample(value).borrow()).unwrap();
                }
                for k in STABLE..STABLE + COMING {
                    map.remove(K::sample(k).borrow()).unwrap();
                }
                if round >= budget(1, 3) && walks.load(Ordering::Relaxed) >= budget(2, 6) {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            let stable: HashMap<K::Owned, u64> = (0..STABLE).map(|k| (K::sample(k), k)).collect();
            while !done.load(Ordering::Relaxed) {
                let mut seen = HashMap::new();
                for pair in &map {
                    let (key, value) = pair.unwrap();
                    assert_eq!(seen.insert(key, value), None, "a key was given twice");
                }
                for (key, k) in &stable {
                    let value = seen.iter().find(|(seen, _)| *seen == key);
                    let (_, value) = value.expect("a key that stays was not given");
                    assert!(is_one_of::<V>(*k, value), "a value that the key never had");
                }
                walks.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut random = Random::new(3);
        while !done.load(Ordering::Relaxed) {
            let k = random.below(STABLE);
            let value = map.get(K::sample(k).borrow()).unwrap().expect("a key that stays");
            assert!(is_one_of::<V>(k, &value), "a value that the key never had");
            assert_eq!(map.get(K::sample(1 << 20).borrow()).unwrap(), None);
        }
    });
    assert_equal(&map, &(0..STABLE).map(|k| (k, value_of(&map, k))).collect());
    assert_sound(&map);
}

/// True if a stable key may have this value.
fn is_one_of<V: Sample + ?Sized>(k: u64, v: &V::Owned) -> bool {
    (0..3).any(|i| *v == V::sample(k % 8 + i * 8))
}

/// The number of the value that a stable key has at the end.
fn value_of<K: Sample + ?Sized, V: Sample + ?Sized>(map: &Map<K, V>, k: u64) -> u64 {
    let value = map.get(K::sample(k).borrow()).unwrap().expect("a key that stays");
    (0..64).find(|v| V::sample(*v) == value).expect("a sample value")
}

/// Records are found free again while writers go on, after a death: nothing is lost, nothing is
/// used twice.
fn sweep_during_writes<K: Sample + ?Sized>(place: &Setup) {
    const KEYS: u64 = 200;
    let map: Map<K, [u8]> = place.create();
    for k in 0..KEYS {
        map.put(K::sample(k).borrow(), &<[u8]>::sample(k)).unwrap();
    }
    let map = place.reopen(map, Exit::Dead);
    let model: Model = thread::scope(|scope| {
        scope.spawn(|| while map.step().unwrap() {});
        // The first call counts the chains, which must neither hold writers up for good nor miscount.
        scope.spawn(|| map.len().unwrap());
        let mut random = Random(5);
        let mut model: Model = (0..KEYS).map(|k| (k, k)).collect();
        for _ in 0..rounds() {
            let (k, v) = (random.below(KEYS), random.below(256));
            if random.below(3) < 2 {
                map.put(K::sample(k).borrow(), &<[u8]>::sample(v)).unwrap();
                model.insert(k, v);
            } else {
                let old = map.remove(K::sample(k).borrow()).unwrap();
                assert_eq!(old, model.remove(&k).map(<[u8]>::sample));
            }
        }
        model
    });
    while map.step().unwrap() {}
    assert_equal(&map, &model);
    assert_sound(&map);
}

#[test]
fn threads_see_their_own_keys() {
    for place in Setup::all(tiny()) {
        disjoint_keys::<u64, u64>(&place);
        disjoint_keys::<str, [u8]>(&place);
    }
    for place in Setup::all(colliding()) {
        disjoint_keys::<str, u64>(&place);
    }
}

#[test]
fn threads_share_counters() {
    for place in Setup::all(tiny()) {
        shared_counters::<u64>(&place);
        shared_counters::<str>(&place);
    }
    for place in Setup::all(colliding()) {
        shared_counters::<str>(&place);
    }
}

#[test]
fn readers_and_iterators_during_growth() {
    for place in Setup::all(tiny()) {
        readers_during_growth::<u64, u64>(&place);
        readers_during_growth::<str, [u8]>(&place);
    }
}

#[test]
fn readers_and_iterators_of_chains() {
    for place in Setup::all(colliding()) {
        readers_during_growth::<str, u64>(&place);
    }
}

#[test]
fn a_sweep_during_writes() {
    for place in Setup::all(tiny()) {
        sweep_during_writes::<str>(&place);
    }
    for place in Setup::all(colliding()) {
        sweep_during_writes::<str>(&place);
    }
}

type Length = Box<dyn Fn() -> u64 + Send>;

/// Asks for the length where a change may not be durable yet: at each drain.
#[derive(Clone, Default)]
struct AskAtDrain {
    length: Arc<Mutex<Option<Length>>>,
    answers: Arc<Mutex<Vec<u64>>>,
}

impl Hook for AskAtDrain {
    fn before(&self, call: Call, _site: Site) {
        if call == Call::Drain
            && let Some(length) = &*self.length.lock().unwrap()
        {
            self.answers.lock().unwrap().push(length());
        }
    }
}

impl AskAtDrain {
    /// A medium, and the map that `make` makes of it.
    fn on<T>(&self, make: impl FnOnce(Sim) -> T) -> T {
        let sim = Sim::new(16 << 20);
        sim.set_hook(Box::new(self.clone()));
        make(sim)
    }

    /// Does a change. Until it is durable, the length is the former one.
    fn watch(&self, length: impl Fn() -> u64, change: impl FnOnce()) {
        let before = length();
        self.answers.lock().unwrap().clear();
        change();
        let answers = self.answers.lock().unwrap();
        let first = answers.first().expect("a change ends with a drain");
        assert_eq!(*first, before, "of lengths {answers:?}");
    }
}

#[test]
fn the_length_counts_nothing_that_a_crash_could_take_back() {
    const KEYS: u64 = 400;
    for design in Design::ALL {
        let ask = AskAtDrain::default();
        let options = Options::new().design(*design).geometry(tiny());
        let map: Map<u64, u64> = ask.on(|sim| options.create_on(sim).unwrap());
        let other = map.clone();
        *ask.length.lock().unwrap() = Some(Box::new(move || other.len().unwrap()));
        let watch = |change: &dyn Fn()| ask.watch(|| map.len().unwrap(), change);
        (0..KEYS).for_each(|k| watch(&|| map.put(&k, &k).unwrap()));
        (0..KEYS).for_each(|k| watch(&|| assert!(map.remove(&k).unwrap().is_some())));
        *ask.length.lock().unwrap() = None;
    }

    let ask = AskAtDrain::default();
    let options = Options::new().geometry(tiny());
    let map: MultiMap<u64, u64> = ask.on(|sim| options.create_on(sim).unwrap());
    let other = map.clone();
    *ask.length.lock().unwrap() = Some(Box::new(move || other.len().unwrap()));
    let watch = |change: &dyn Fn()| ask.watch(|| map.len().unwrap(), change);
    (0..KEYS).for_each(|v| watch(&|| map.add(&(v % 40), &v).unwrap()));
    for k in 0..40 {
        (0..8).for_each(|v| watch(&|| assert!(map.remove_one(&k, &(v * 40 + k)).unwrap())));
        watch(&|| assert_eq!(map.remove_all(&k).unwrap(), 2));
    }
    *ask.length.lock().unwrap() = None;
}
