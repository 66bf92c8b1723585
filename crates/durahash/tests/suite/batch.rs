//! Batches against a model, in full pools, beside other writers, and their costs.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use durahash::esh::Esh;
use durahash::index::{Change, Index, Room};
use durahash::pea::{Pea, Policy};
use durahash::reh::Reh;
use durahash::rewo::{Cache, Rewo};
use durahash::{AnyMap, Batch, Design, ErrorKind, Map, Options, Pool};
use durahash_media::sim::{Call, Hook, Sim, Site};
use durahash_media::{Dram, Geometry, Superblock};
use durahash_testkit::{
    Exit, Model, Sample, Setup, assert_equal, assert_sound, budget, colliding, pool_on, seed, tiny,
};

use super::spread;

const KEYS: u64 = 200;

/// Adds random operations, and says what they leave of `model`.
fn fill<K: Sample + ?Sized, V: Sample + ?Sized>(
    batch: &mut Batch,
    map: &Map<K, V>,
    model: &Model,
    random_seed: u64,
) -> Model {
    let mut after = model.clone();
    let count = spread(random_seed) % 60;
    for i in 0..count {
        let number = spread(random_seed ^ i << 32);
        let (key, value) = (number % KEYS, number >> 40);
        if number >> 20 & 3 == 0 {
            batch.remove(map, K::sample(key).borrow()).unwrap();
            after.remove(&key);
        } else {
            batch.put(map, K::sample(key).borrow(), V::sample(value).borrow()).unwrap();
            after.insert(key, value);
        }
    }
    assert_eq!(batch.len(), count as usize);
    after
}

fn batches_do_as_the_model<K: Sample + ?Sized, V: Sample + ?Sized>(geometry: Geometry) {
    for setup in Setup::all(geometry) {
        let mut map: Map<K, V> = setup.create();
        let mut model = Model::new();
        let mut batch = Batch::new();
        for round in 0..budget(12, 100) {
            batch.clear();
            model = fill(&mut batch, &map, &model, seed(1) << 20 | round);
            batch.apply().unwrap();
            if round % 3 == 0 {
                // The batch holds the pool open.
                batch.clear();
                let exit = if round % 2 == 0 { Exit::Closed } else { Exit::Dead };
                map = setup.reopen(map, exit);
            } else {
                // Once more is the same.
                batch.apply().unwrap();
            }
            assert_equal(&map, &model);
            assert_sound(&map);
        }
    }
}

#[test]
fn batches_of_words_do_as_the_model() {
    batches_do_as_the_model::<u64, u64>(tiny());
}

#[test]
fn batches_of_records_do_as_the_model() {
    batches_do_as_the_model::<str, [u8]>(tiny());
}

#[test]
fn batches_of_records_with_equal_hashes_do_as_the_model() {
    batches_do_as_the_model::<[u8], str>(colliding());
}

/// Of a pool that is full a batch is refused as a whole, wherever it finds no room.
fn full_pools_refuse_whole_batches<K: Sample + ?Sized, V: Sample + ?Sized>(max_bytes: u64) {
    for design in Design::ALL {
        let options = Options::new().design(*design).geometry(tiny()).seed(3).max_bytes(max_bytes);
        let map: Map<K, V> = options.in_memory().unwrap();
        let mut model = Model::new();
        let (mut refused, mut done) = (0, 0);
        for round in 0..200 {
            let mut batch = Batch::new();
            let mut after = model.clone();
            for i in 0..40 {
                let number = spread(round << 16 | i);
                let (key, value) = (number % 5000, number >> 40);
                batch.put(&map, K::sample(key).borrow(), V::sample(value).borrow()).unwrap();
                after.insert(key, value);
            }
            let some = model.keys().take(if refused % 3 == 2 { 60 } else { 5 });
            for key in some {
                if model.get(key) != after.get(key) {
                    continue;
                }
                batch.remove(&map, K::sample(*key).borrow()).unwrap();
                after.remove(key);
            }
            match batch.apply() {
                Ok(()) => (model, done) = (after, done + 1),
                Err(e) => {
                    assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}");
                    refused += 1;
                }
            }
            assert_equal(&map, &model);
            assert_sound(&map);
        }
        println!("{design}: {done} done, {refused} refused");
        assert!(refused > 0 && done > 0, "{design}: {done} done, {refused} refused");
    }
}

#[test]
fn full_pools_refuse_whole_batches_of_words() {
    full_pools_refuse_whole_batches::<u64, u64>(96 << 10);
}

#[test]
fn full_pools_refuse_whole_batches_of_records() {
    full_pools_refuse_whole_batches::<str, [u8]>(192 << 10);
}

/// Puts and removals of other threads are neither lost nor left behind: every record is named once.
#[test]
fn batches_and_writers_of_the_same_keys_wait_for_each_other() {
    for design in Design::ALL {
        let map: Map<u64, str> = Options::new().design(*design).in_memory().unwrap();
        let rounds = budget(300, 3000);
        let text = |i: u64| format!("{i:0width$}", width = 1 + (i % 90) as usize);
        thread::scope(|scope| {
            for own in 0..2 {
                let map = &map;
                scope.spawn(move || {
                    let mut batch = Batch::new();
                    for round in 0..rounds {
                        batch.clear();
                        for key in 0..16 {
                            match spread(round << 8 | key << 1 | own) % 4 {
                                0 => batch.remove(map, &key).unwrap(),
                                value => batch.put(map, &key, &text(round + value)).unwrap(),
                            }
                        }
                        // Keys that only these threads write are of one of their batches.
                        for key in 100..108 {
                            batch.put(map, &key, &text(round << 1 | own)).unwrap();
                        }
                        batch.apply().unwrap();
                    }
                });
            }
            for round in 0..rounds * 8 {
                let key = spread(round) % 16;
                if round % 3 == 0 {
                    map.remove(&key).unwrap();
                } else {
                    map.put(&key, &text(round)).unwrap();
                }
            }
        });
        assert_sound(&map);
        let all: Vec<_> = (100..108).map(|key| map.get(&key).unwrap()).collect();
        assert!(all.iter().all(|value| *value == all[0]), "{all:?}");
    }
}

fn look_in_batch(index: &dyn Index, h: u64, room: Room) -> Option<Option<u64>> {
    let mut seen = [None];
    index.look_in_batch(&[h], &[room], &mut seen);
    seen[0]
}

#[test]
fn a_batch_sees_no_half_change_without_a_lock() {
    let dram = || pool_on(Dram::new(64 << 20).unwrap(), Geometry::default());
    let designs: [&dyn Index; 4] = [
        &Reh::create(dram()).unwrap(),
        &Pea::create(dram(), Policy::default()).unwrap(),
        &Esh::create(dram()).unwrap(),
        &Rewo::create(dram(), Cache::default()).unwrap(),
    ];
    for index in designs {
        for h in (0..1000).map(spread) {
            let look = |room| look_in_batch(index, h, room);
            assert_eq!(look(Room::OfBatch), Some(None));
            let mut under_lock = |_| {
                assert_eq!(look(Room::ForNewOfBatch), None);
                Ok(Change::Set(!h))
            };
            assert_eq!(index.update(h, Room::ForNew, &mut under_lock).unwrap(), None);
            assert_eq!(look(Room::ForNewOfBatch), Some(Some(!h)));
            assert_eq!(index.update(h, Room::None, &mut |_| Ok(Change::Remove)).unwrap(), Some(!h));
            assert_eq!(look(Room::ForNewOfBatch), Some(None));
            index.update(h, Room::ForNew, &mut |_| Ok(Change::Set(h))).unwrap();
        }
    }
}

type Event = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Instants {
    calls: AtomicUsize,
    what: Mutex<Option<Event>>,
    releases: AtomicUsize,
    stopped: Mutex<Option<mpsc::Sender<()>>>,
    goes_on: AtomicBool,
}

/// An event before the n-th call from now on of the thread that made it. Another thread stops before its n-th release
/// of a lock, until the first one waits for it or is done.
#[derive(Clone)]
struct Meanwhile(Arc<Instants>, thread::ThreadId);

impl Meanwhile {
    fn happen(&self) {
        let what = self.0.what.lock().unwrap().take();
        what.into_iter().for_each(|what| what());
    }
}

impl Hook for Meanwhile {
    fn before(&self, call: Call, _: Site) {
        use durahash_media::Event::{Unlocked, Wait};
        let at = &*self.0;
        if thread::current().id() == self.1 {
            at.goes_on.fetch_or(matches!(call, Call::Event(Wait)), Ordering::Relaxed);
            if at.calls.fetch_sub(1, Ordering::Relaxed) == 0 {
                self.happen();
            }
        } else if matches!(call, Call::Event(Unlocked(_)))
            && at.releases.fetch_sub(1, Ordering::Relaxed) == 0
        {
            let stopped = at.stopped.lock().unwrap().take();
            stopped.into_iter().for_each(|stopped| stopped.send(()).unwrap());
            while !at.goes_on.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        }
    }
}

type Make = fn(&Sim) -> Box<dyn Index>;

/// A writer that has the lock when a look begins may end at any instant of it, or have released some of its locks.
#[test]
fn a_batch_sees_nothing_from_before_a_change_that_ended_meanwhile() {
    fn pool(sim: &Sim) -> Arc<durahash_media::Pool<Sim>> {
        pool_on(sim.clone(), tiny())
    }
    let make: [Make; 4] = [
        |sim| Box::new(Reh::create(pool(sim)).unwrap()),
        |sim| Box::new(Pea::create(pool(sim), Policy::default()).unwrap()),
        |sim| Box::new(Esh::create(pool(sim)).unwrap()),
        |sim| Box::new(Rewo::create(pool(sim), Cache::default()).unwrap()),
    ];
    for make in make {
        let sim = Sim::new(8 << 20);
        let meanwhile = Meanwhile(Arc::default(), thread::current().id());
        sim.set_hook(Box::new(meanwhile.clone()));
        let index = make(&sim);
        let mut seen_after = 0;
        // New, then with another payload, then removed; in a table that fills.
        let changes = [Change::Set(1), Change::Set(2), Change::Remove];
        for i in 0..budget(3000, 20_000) {
            let h = spread(i);
            for change in changes {
                let (locked, is_locked) = mpsc::channel();
                let (go, goes) = mpsc::channel::<()>();
                let (end, has_ended) = mpsc::channel();
                let seen = thread::scope(|scope| {
                    let (index, at) = (&index, &*meanwhile.0);
                    *at.stopped.lock().unwrap() = Some(end.clone());
                    scope.spawn(move || {
                        let mut under_lock = |_| {
                            at.goes_on.store(false, Ordering::Relaxed);
                            at.releases.store(1 + (spread(i) as usize >> 4 & 3), Ordering::Relaxed);
                            locked.send(()).unwrap();
                            // Until the other end is dropped.
                            let _ = goes.recv();
                            Ok(change)
                        };
                        index.update(h, Room::ForNew, &mut under_lock).unwrap();
                        let _ = end.send(());
                    });
                    is_locked.recv().unwrap();
                    *at.what.lock().unwrap() = Some(Box::new(move || {
                        drop(go);
                        let _ = has_ended.recv();
                    }));
                    at.calls.store(spread(i) as usize % 16, Ordering::Relaxed);
                    let seen = look_in_batch(&**index, h, Room::ForNewOfBatch);
                    meanwhile.happen();
                    at.goes_on.store(true, Ordering::Relaxed);
                    seen
                });
                let after = index.get(h).unwrap();
                assert!(seen.is_none_or(|seen| seen == after), "{i}: {seen:?} for {after:?}");
                seen_after += u32::from(seen.is_some());
            }
            index.update(h, Room::ForNew, &mut |_| Ok(Change::Set(i))).unwrap();
        }
        assert!(seen_after > 400, "only {seen_after}");
    }
}

#[test]
fn maps_of_one_pool_are_changed_by_one_batch() {
    let (_dir, path) = durahash_testkit::new_path();
    let pool: Pool = Options::new().create(&path).unwrap();
    let texts: Map<str, [u8]> = pool.create("texts", &Options::new()).unwrap();
    let words: Map<u64, u32> = pool.create("words", &Options::new().design(Design::Esh)).unwrap();
    words.put(&3, &3).unwrap();
    let mut batch = Batch::new();
    for key in 0..100 {
        batch.put(&texts, &key.to_string(), &[key as u8; 40]).unwrap();
        batch.put(&words, &key, &7).unwrap();
    }
    batch.remove(&words, &3).unwrap();
    batch.apply().unwrap();
    batch.clear();
    assert_eq!((texts.len().unwrap(), words.len().unwrap()), (100, 99));
    assert_eq!(words.get(&3).unwrap(), None);
    drop((texts, words, pool));
    let pool: Pool = Options::new().open(&path).unwrap();
    let texts: Map<str, [u8]> = pool.open("texts").unwrap();
    assert_eq!(texts.get("99").unwrap(), Some(vec![99; 40]));
    // By texts, where the types are found at run time.
    let [any_texts, any_words] = ["texts", "words"].map(|name| pool.open::<AnyMap>(name).unwrap());
    batch.put_any(&any_words, b"3", b"8").unwrap();
    batch.put_any(&any_texts, b"99", b"any").unwrap();
    batch.put(&texts, "98", b"typed").unwrap();
    batch.remove_any(&any_texts, b"97").unwrap();
    let refused = batch.put_any(&any_words, b"three", b"8").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Text { .. }), "{refused}");
    batch.apply().unwrap();
    assert_eq!(any_words.get(b"3").unwrap().as_deref(), Some(&b"8"[..]));
    let found = ["97", "98", "99"].map(|key| texts.get(key).unwrap());
    assert_eq!(found, [None, Some(b"typed".to_vec()), Some(b"any".to_vec())]);
    pool.check(&mut |name, finding| panic!("{name}: {finding:?}")).unwrap();
}

#[test]
fn maps_of_two_pools_are_refused() {
    let maps = [(); 2].map(|()| Options::new().in_memory::<Map<u64, u64>>().unwrap());
    let mut batch = Batch::new();
    batch.put(&maps[0], &1, &1).unwrap();
    batch.put(&maps[0].clone(), &2, &2).unwrap();
    let refused = batch.put(&maps[1], &3, &3).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Options { .. }), "{refused}");
    assert_eq!(format!("{batch:?}"), "Batch of 2 operations on 1 maps");
    batch.apply().unwrap();
    assert_eq!(maps[0].iter().map(Result::unwrap).collect::<HashMap<_, _>>().len(), 2);
    assert!(maps[1].is_empty().unwrap());
}

#[test]
fn the_word_that_commits_stands_where_the_format_says() {
    let field = Superblock::FIELDS.iter().find(|field| field.name == "batch").unwrap();
    assert_eq!(field.offset, 328);
}
