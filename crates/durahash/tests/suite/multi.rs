//! Multimaps: sequences of operations, compared with what a map of multisets does; what went wrong
//! in public code of Pea Hash; costs; real data.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use durahash::{Design, MultiMap, Options};
use durahash_media::metered::Metered;
use durahash_media::sim::Sim;
use durahash_media::{Dram, Geometry};
use durahash_testkit::{Backing, Exit, Sample, Setup, assert_sound, budget, colliding, tiny};
use proptest::prelude::*;

/// Bytes that a tiny pool may grow to.
const TINY_BYTES: u64 = 16 << 20;

/// An event in the life of a multimap; keys and values are numbers of samples.
#[derive(Clone, Debug)]
enum Event {
    Add(u64, u64),
    /// So many values to one key.
    AddMany(u64, u64),
    RemoveOne(u64, u64),
    /// So many of the values of a key, one by one.
    RemoveMany(u64, u64),
    RemoveAll(u64),
    Compare(u64),
    Check,
    Step,
    Clear,
    Reopen(Exit),
}

fn events(keys: u64) -> impl Strategy<Value = Vec<Event>> {
    let (key, value) = (move || 0..keys, || 0..12_u64);
    let event = prop_oneof![
        40 => (key(), value()).prop_map(|(k, v)| Event::Add(k, v)),
        6 => (key(), 1..60_u64).prop_map(|(k, n)| Event::AddMany(k, n)),
        15 => (key(), value()).prop_map(|(k, v)| Event::RemoveOne(k, v)),
        6 => (key(), 1..60_u64).prop_map(|(k, n)| Event::RemoveMany(k, n)),
        8 => key().prop_map(Event::RemoveAll),
        10 => key().prop_map(Event::Compare),
        1 => Just(Event::Check),
        1 => Just(Event::Step),
        1 => Just(Event::Clear),
        3 => prop_oneof![Just(Exit::Closed), Just(Exit::Dead)].prop_map(Event::Reopen),
    ];
    prop::collection::vec(event, 1..160)
}

/// How often each value of each key is there.
type Model = BTreeMap<u64, BTreeMap<u64, u64>>;

fn count_of(model: &Model, key: u64) -> u64 {
    model.get(&key).map_or(0, |values| values.values().sum())
}

fn take(model: &mut Model, key: u64, value: u64) -> bool {
    let Some(values) = model.get_mut(&key) else {
        return false;
    };
    let Some(count) = values.get_mut(&value) else {
        return false;
    };
    *count -= 1;
    if *count == 0 {
        values.remove(&value);
    }
    true
}

/// Each value with how often it is there.
fn bag<V: Eq + std::hash::Hash>(values: impl IntoIterator<Item = V>) -> HashMap<V, u64> {
    let mut bag = HashMap::new();
    for v in values {
        *bag.entry(v).or_default() += 1;
    }
    bag
}

fn assert_key<K: Sample + ?Sized, V: Sample + ?Sized>(
    map: &MultiMap<K, V>,
    model: &Model,
    key: u64,
) {
    let k = K::sample(key);
    let k = std::borrow::Borrow::borrow(&k);
    let want: HashMap<V::Owned, u64> = model
        .get(&key)
        .into_iter()
        .flatten()
        .filter(|(_, n)| **n > 0)
        .map(|(v, n)| (V::sample(*v), *n))
        .collect();
    assert_eq!(bag(map.get_all(k).unwrap()), want);
    let mut seen = 0;
    assert_eq!(map.each(k, |_| seen += 1).unwrap(), count_of(model, key));
    assert_eq!(seen, count_of(model, key));
    assert_eq!(map.count(k).unwrap(), count_of(model, key));
    assert_eq!(map.contains_key(k).unwrap(), seen > 0);
}

fn assert_equal<K: Sample + ?Sized, V: Sample + ?Sized>(map: &MultiMap<K, V>, model: &Model) {
    let mut want: HashMap<(K::Owned, V::Owned), u64> = HashMap::new();
    for (k, values) in model {
        for (v, n) in values {
            want.insert((K::sample(*k), V::sample(*v)), *n);
        }
    }
    assert_eq!(map.len().unwrap(), want.values().sum::<u64>());
    assert_eq!(map.is_empty().unwrap(), want.is_empty());
    assert_eq!(bag(map.iter().map(Result::unwrap)), want);
    for key in model.keys() {
        assert_key(map, model, *key);
    }
}

fn options(geometry: Geometry) -> Options {
    Options::new().geometry(geometry).seed(7).max_bytes(TINY_BYTES)
}

fn run<K: Sample + ?Sized, V: Sample + ?Sized>(place: &Setup, events: &[Event]) {
    let mut map: MultiMap<K, V> = place.create();
    let mut model = Model::new();
    let add = |map: &MultiMap<K, V>, model: &mut Model, key: u64, value: u64| {
        map.add(K::sample(key).borrow(), V::sample(value).borrow()).unwrap();
        *model.entry(key).or_default().entry(value).or_default() += 1;
    };
    let remove = |map: &MultiMap<K, V>, model: &mut Model, key: u64, value: u64| {
        let (k, v) = (K::sample(key), V::sample(value));
        let removed = map.remove_one(k.borrow(), v.borrow()).unwrap();
        assert_eq!(removed, take(model, key, value), "{k:?} {v:?}");
    };
    use std::borrow::Borrow;
    for event in events {
        match *event {
            Event::Add(key, value) => add(&map, &mut model, key, value),
            Event::AddMany(key, n) => (0..n).for_each(|v| add(&map, &mut model, key, v)),
            Event::RemoveOne(key, value) => remove(&map, &mut model, key, value),
            Event::RemoveMany(key, n) => {
                let values: Vec<u64> =
                    model.get(&key).into_iter().flatten().map(|(v, _)| *v).collect();
                // From both ends and the middle.
                for i in 0..n as usize {
                    if !values.is_empty() {
                        let v = values[(i * 7 + key as usize) % values.len()];
                        remove(&map, &mut model, key, v);
                    }
                }
            }
            Event::RemoveAll(key) => {
                let removed = map.remove_all(K::sample(key).borrow()).unwrap();
                assert_eq!(removed, count_of(&model, key));
                model.remove(&key);
            }
            Event::Compare(key) => assert_key(&map, &model, key),
            Event::Check => assert_sound(&map),
            Event::Step => drop(map.step().unwrap()),
            Event::Clear => {
                map.clear().unwrap();
                model.clear();
            }
            Event::Reopen(exit) => map = place.reopen(map, exit),
        }
    }
    assert_equal(&map, &model);
    assert_sound(&map);
    let map = place.reopen(map, Exit::Dead);
    while map.step().unwrap() {}
    assert_equal(&map, &model);
    assert_sound(&map);
}

macro_rules! models {
    ($($name:ident: $key:ty => $value:ty, $keys:literal keys, $geometry:expr;)*) => {$(
        #[test]
        fn $name() {
            for medium in [Backing::Sim, Backing::SimWord, Backing::File] {
                let place = Setup::new(Design::Pea, medium, $geometry);
                println!("{} cases", budget(6, 24));
                proptest!(ProptestConfig::with_cases(budget(6, 24)), |(events in events($keys))| {
                    run::<$key, $value>(&place, &events);
                });
            }
        }
    )*};
}

models! {
    words: u64 => u64, 60 keys, tiny();
    few_words: u64 => u64, 6 keys, tiny();
    small_words: [u8; 5] => i32, 60 keys, tiny();
    texts_to_words: str => u64, 40 keys, tiny();
    words_to_bytes: i32 => [u8], 40 keys, tiny();
    bytes: [u8] => [u8], 40 keys, tiny();
    colliding_texts: str => u64, 12 keys, Geometry { slots: 12, ..colliding() };
    colliding_bytes: [u8] => [u8], 12 keys, Geometry { slots: 12, ..colliding() };
}

/// Extents of 1 KiB: buffers for 4, 12, 28, 60 and 124 values, and then chains of them.
fn chaining() -> Options {
    options(Geometry { extent_shift: 10, slots: 4, hash_bits: 0, buckets: 0 })
}

#[test]
fn lists_grow_to_chains_and_shrink_to_nothing() {
    let map: MultiMap<u64, u64> = chaining().in_memory().unwrap();
    let empty = map.stats().unwrap().space.record_bytes;
    for v in 0..1000 {
        map.add(&1, &v).unwrap();
        map.add(&2, &(v / 3)).unwrap();
    }
    assert_sound(&map);
    let mut all = map.get_all(&1).unwrap();
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
    // Every third from the middle outwards, then the others from the front.
    let outwards = (0..500).rev().chain(500..1000).filter(|v| v % 3 == 0);
    for v in outwards.chain((0..1000).filter(|v| v % 3 != 0)) {
        assert!(map.remove_one(&1, &v).unwrap());
        assert!(!map.remove_one(&1, &v).unwrap());
        if v % 50 == 0 {
            assert_sound(&map);
        }
    }
    assert_eq!(map.count(&1).unwrap(), 0);
    assert_eq!((map.count(&2).unwrap(), map.len().unwrap()), (1000, 1000));
    assert_eq!(map.remove_all(&2).unwrap(), 1000);
    assert_sound(&map);
    assert_eq!(map.stats().unwrap().space.record_bytes, empty);
}

/// However many values there are in a list, its space is in proportion to them.
#[test]
fn lists_give_space_back() {
    const VALUES: u64 = 10_000;
    let options = options(Geometry { extent_shift: 14, slots: 4, hash_bits: 0, buckets: 0 });
    let map: MultiMap<u64, u64> = options.in_memory().unwrap();
    for v in 0..VALUES {
        map.add(&1, &v).unwrap();
    }
    for v in 0..VALUES {
        if v % 100 == 0 {
            let bytes = map.stats().unwrap().space.record_bytes;
            // A quarter full at the least, but for the newest buffer.
            assert!(bytes <= 4 * 8 * (VALUES - v) + (32 << 10), "{bytes} for {}", VALUES - v);
        }
        assert!(map.remove_one(&1, &v).unwrap());
    }
    assert_eq!(map.stats().unwrap().space.record_bytes, 0);
}

/// Very many values of one key: each costs as little as the first ones, however many there are.
#[test]
fn many_values_of_one_key_take_linear_time() {
    let values = budget(200_000, 1_000_000);
    const PART: u64 = 50_000;
    let medium = Metered::new(Dram::new(4 << 30).unwrap());
    let meter = Arc::clone(medium.meter());
    let map: MultiMap<u64, u64> = Options::new().seed(1).create_on(medium).unwrap();
    let counts = || meter.counts();
    let begin = counts();
    for part in 0..values / PART {
        let before = counts();
        for v in part * PART..(part + 1) * PART {
            map.add(&7, &v).unwrap();
        }
        let cost = counts() - before;
        let each = |count: u64| count as f64 / PART as f64;
        // The value's line and the state's; a buffer that is full is copied once for all its values.
        assert!(each(cost.flushes) <= 2.4, "{} flushes", each(cost.flushes));
        assert!(each(cost.fences + cost.drains) <= 2.1, "{}", each(cost.fences + cost.drains));
        assert!(each(cost.lines_written) <= 2.4, "{} lines", each(cost.lines_written));
        assert!(each(cost.blocks_read) <= 4.0, "{} blocks read", each(cost.blocks_read));
    }
    let cost = counts() - begin;
    assert!(cost.lines_written < values * 9 / 4, "{} lines in all", cost.lines_written);
    assert_eq!(map.count(&7).unwrap(), values);
    let mut sum = 0;
    assert_eq!(map.each(&7, |v| sum += v).unwrap(), values);
    assert_eq!(sum, values * (values - 1) / 2);
    assert_sound(&map);

    // As many go at once, by one word.
    let before = counts();
    assert_eq!(map.remove_all(&7).unwrap(), values);
    let cost = counts() - before;
    assert!(map.is_empty().unwrap());
    // Of the head, and of the extents given back: an extent of 64 KiB holds 8,192 values.
    assert!(cost.flushes < values / 8192 + 16, "{} flushes", cost.flushes);
}

/// Keys with one value each cost what they cost a map.
#[test]
fn keys_with_few_values_stay_in_their_buckets() {
    let keys = budget(50_000, 200_000);
    let map: MultiMap<u64, u64> = Options::new().seed(1).in_memory().unwrap();
    for key in 0..keys {
        map.add(&key, &key).unwrap();
    }
    for key in 0..keys / 4 {
        map.add(&key, &!key).unwrap();
    }
    let stats = map.stats().unwrap();
    assert_eq!(stats.keys, keys / 4 * 5);
    // Most of them stand in slots of their own, however full the buckets are.
    let beyond = stats.keys - stats.index.slots_used;
    assert!(beyond * 8 < stats.keys, "{beyond} of {} in buffers", stats.keys);
    assert_sound(&map);
}

#[test]
fn a_full_pool_still_answers_and_removes() {
    for geometry in [tiny(), Geometry { extent_shift: 10, slots: 4, hash_bits: 0, buckets: 0 }] {
        let options = options(geometry).max_bytes(96 << 10);
        let map: MultiMap<u64, u64> = options.in_memory().unwrap();
        let mut model = Model::new();
        let (mut refused, mut x) = (0, 1_u64);
        while refused < 50 {
            x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let (key, value) = ((x >> 33) % (1 + (x >> 50) % 400), x >> 60);
            match map.add(&u64::sample(key), &u64::sample(value)) {
                Ok(()) => *model.entry(key).or_default().entry(value).or_default() += 1,
                Err(e) => {
                    assert!(matches!(e.kind(), durahash::ErrorKind::Full { .. }), "{e}");
                    refused += 1;
                }
            }
        }
        assert_equal(&map, &model);
        assert_sound(&map);
        for key in model.keys().copied().collect::<Vec<_>>() {
            if key % 2 == 0 {
                let removed = map.remove_all(&u64::sample(key)).unwrap();
                assert_eq!(removed, count_of(&model, key));
                model.remove(&key);
                continue;
            }
            for value in 0..16 {
                while take(&mut model, key, value) {
                    assert!(map.remove_one(&u64::sample(key), &u64::sample(value)).unwrap());
                }
            }
            assert!(!map.contains_key(&u64::sample(key)).unwrap());
        }
        assert!(map.is_empty().unwrap());
        assert_sound(&map);
    }
}

#[test]
fn too_many_keys_of_one_hash_are_refused_and_nothing_is_lost() {
    let options = options(Geometry { hash_bits: 1, ..tiny() });
    let map: MultiMap<str, u64> = options.in_memory().unwrap();
    let mut kept = Vec::new();
    for i in 0..20 {
        match map.add(&i.to_string(), &i) {
            Ok(()) => kept.push(i),
            Err(e) => assert!(matches!(e.kind(), durahash::ErrorKind::Skewed { .. }), "{e}"),
        }
    }
    assert!(kept.len() >= 4 && kept.len() < 20);
    for i in &kept {
        // Keys that are there take what they are given.
        (0..20).for_each(|_| map.add(&i.to_string(), i).unwrap());
        assert_eq!(map.get_all(&i.to_string()).unwrap(), vec![*i; 21]);
    }
    assert_sound(&map);
}

/// A reader gets the values that a key had at one instant: of each writer's values, the first so
/// many, whatever grows, splits and goes meanwhile.
#[test]
fn readers_see_all_values_of_an_instant() {
    const WRITERS: u64 = 2;
    const VALUES: u64 = 3000;
    for options in [chaining(), options(tiny())] {
        let map: MultiMap<u64, u64> = options.in_memory().unwrap();
        let done = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (map, done) = (&map, &done);
                scope.spawn(move || {
                    for i in 0..VALUES {
                        map.add(&1, &(writer << 32 | i)).unwrap();
                        // Others that come and go, so that segments split and merge.
                        let other = 100 + i % 150 + writer * 1000;
                        if i / 150 % 2 == 0 {
                            map.add(&other, &i).unwrap();
                            map.add(&other, &i).unwrap();
                        } else {
                            assert_eq!(map.remove_all(&other).unwrap(), 2);
                        }
                    }
                    done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                });
            }
            let mut last = [0; WRITERS as usize];
            while done.load(std::sync::atomic::Ordering::SeqCst) < WRITERS {
                let mut of_writer = vec![Vec::new(); WRITERS as usize];
                for v in map.get_all(&1).unwrap() {
                    of_writer[(v >> 32) as usize].push(v & 0xffff_ffff);
                }
                for (values, last) in of_writer.iter_mut().zip(&mut last) {
                    values.sort_unstable();
                    assert_eq!(*values, (0..values.len() as u64).collect::<Vec<_>>());
                    assert!(values.len() >= *last, "what was seen stays");
                    *last = values.len();
                }
            }
        });
        assert_eq!(map.count(&1).unwrap(), WRITERS * VALUES);
        assert_sound(&map);
    }
}

/// The number of entries is counted after a kill, exactly, although others write meanwhile.
#[test]
fn entries_are_counted_while_others_write() {
    let sim = Sim::new(TINY_BYTES);
    let map: MultiMap<u64, u64> = options(tiny()).create_on(sim.clone()).unwrap();
    for i in 0..4000 {
        map.add(&(i % 200), &i).unwrap();
    }
    let sim = Sim::from_image(&sim.image(), TINY_BYTES);
    drop(map);
    let map: MultiMap<u64, u64> = options(tiny()).open_on(sim).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for i in 0..1000 {
                map.add(&(i % 300), &i).unwrap();
                assert!(map.remove_one(&(i % 200), &(i % 200)).unwrap() || i >= 200);
            }
        });
        while !writer.is_finished() {
            map.len().unwrap();
        }
    });
    assert_eq!(map.len().unwrap(), map.iter().count() as u64);
    assert_sound(&map);
}

/// Every bit of a small pool that was closed, flipped once: what is read, checked, changed and cleared after that
/// is right, or an error, or `check` finds the bit.
#[test]
fn any_flipped_bit_is_found() {
    let geometry = Geometry { extent_shift: 10, slots: 4, hash_bits: 0, buckets: 0 };
    let options = options(geometry).max_bytes(32 << 10);
    let sim = Sim::new(32 << 10);
    let map: MultiMap<u64, u64> = options.create_on(sim.clone()).unwrap();
    for i in 0..60 {
        map.add(&(i % 10), &i).unwrap();
    }
    (0..30).for_each(|i| map.add(&3, &(100 + i)).unwrap());
    map.close().unwrap();
    let image = sim.image();
    let values = |map: &MultiMap<u64, u64>| -> Vec<Option<HashMap<u64, u64>>> {
        (0..10).map(|key| map.get_all(&key).ok().map(bag)).collect()
    };
    let whole = {
        let map = options.open_on(Sim::from_image(&image, 32 << 10)).unwrap();
        values(&map)
    };
    let (mut refused, mut silent) = (0, 0);
    let every = budget(7, 1);
    println!("{} images", image.len() * 64 / every);
    for word in 0..image.len() {
        for bit in (word % every..64).step_by(every) {
            let mut damaged = image.clone();
            damaged[word] ^= 1 << bit;
            let sim = Sim::from_image(&damaged, 32 << 10);
            sim.set_budget(Some(100_000));
            let Ok(map) = options.open_on::<MultiMap<u64, u64>, _>(sim) else {
                refused += 1;
                continue;
            };
            let found = values(&map);
            let _ = map.len();
            let _ = map.iter().take(1000).filter(Result::is_ok).count();
            let mut findings = 0;
            let _ = map.check(&mut |_| findings += 1);
            let lost = found.iter().zip(&whole).filter(|(found, whole)| found != whole).count();
            let errors = found.iter().filter(|found| found.is_none()).count();
            if findings == 0 && errors == 0 {
                silent += lost;
            }
            for key in 0..10 {
                let _ = map.add(&key, &7);
                let _ = map.remove_one(&key, &(key + 10));
                let _ = map.remove_all(&(key / 2));
            }
            while map.step().unwrap_or(false) {}
            if map.clear().is_ok() {
                assert!(map.iter().all(|pair| pair.is_err()), "word {word}, bit {bit}");
            }
        }
    }
    assert!(refused * every > 1000, "{refused} refused");
    assert_eq!(silent, 0, "the close has left check words");
}
