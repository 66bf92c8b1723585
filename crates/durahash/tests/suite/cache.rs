//! Caches: entries expire, for everything and for good, and the sweep removes what has expired and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use durahash::cache::{Clock, Policy};
use durahash::{
    AnyCache, AnyMap, Cache, Change, Cursor, Data, Design, ErrorKind, Map, Openable, Options,
    Outcome, Pool, Type,
};
use durahash_media::hash::WordMix;
use durahash_media::sim::{Call, Hook, Sim, Site};
use durahash_media::{Event, Geometry};

/// Extents of so many bytes make units and runs in a few hundred entries.
const TINY: Geometry = Geometry { extent_shift: 12, slots: 0, hash_bits: 0, buckets: 2 };
/// The same, with hashes of so few bits that several keys have one.
const CHAINS: Geometry = Geometry { hash_bits: 5, ..TINY };
const START: u64 = 1_000_000;
const MILLI: Duration = Duration::from_millis(1);

fn options(design: Design, clock: &Clock) -> Options {
    Options::new().design(design).geometry(TINY).seed(7).clock(clock.clone()).sweep(false)
}

fn each_design(f: impl Fn(Design, &Clock, Options)) {
    for &design in Design::ALL {
        let clock = Clock::manual(START);
        f(design, &clock, options(design, &clock));
    }
}

fn assert_sound<K: Data + ?Sized, V: Data + ?Sized>(cache: &Cache<K, V>) {
    Pool::of(cache).check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
}

/// From the instant on, and not before; also for what is put to expire in the past.
#[test]
fn nothing_gives_what_has_expired() {
    each_design(|design, clock, options| {
        let cache: Cache<str, u64> = options.in_memory().unwrap();
        cache.put("stays", &1).unwrap();
        cache.put_for("goes", &2, 10 * MILLI).unwrap();
        cache.put_until("past", &3, UNIX_EPOCH).unwrap();
        let at = UNIX_EPOCH + Duration::from_millis(START + 10);
        assert_eq!(cache.expires_at("goes").unwrap(), Some(Some(at)), "{design}");
        clock.advance(9 * MILLI);
        assert_eq!(cache.get("goes").unwrap(), Some(2), "{design}");
        assert_eq!(cache.count().unwrap(), 2, "{design}");
        clock.advance(MILLI);
        for key in ["goes", "past"] {
            assert_eq!(cache.get(key).unwrap(), None);
            assert_eq!(cache.get_with(key, |v| *v).unwrap(), None);
            assert!(!cache.contains_key(key).unwrap());
            assert_eq!(cache.expires_at(key).unwrap(), None);
            assert_eq!(cache.get_with_expiry(key, |v, _| *v).unwrap(), None);
            assert_eq!(cache.remove_if(key, |_, _| true).unwrap(), None);
            assert_eq!(cache.compare_exchange(key, &2, &3).unwrap(), Outcome::Absent);
            assert!(!cache.expire(key, MILLI).unwrap());
            assert!(!cache.touch(key, MILLI).unwrap());
            assert!(!cache.persist(key).unwrap());
            let mut seen = Some(0);
            cache
                .update(key, |old| {
                    seen = old;
                    Change::Keep
                })
                .unwrap();
            assert_eq!(seen, None);
        }
        let mut out = [Some(0); 3];
        cache.get_many(&["stays", "goes", "past"], &mut out).unwrap();
        assert_eq!(out, [Some(1), None, None]);
        assert_eq!((cache.count().unwrap(), cache.len().unwrap()), (1, 3), "{design}");
        let pairs: Vec<_> = cache.iter().map(Result::unwrap).collect();
        assert_eq!(pairs, [("stays".to_owned(), 1)]);
        assert_eq!(cache.scan(Cursor::START, 100).unwrap(), (pairs, None));
        assert_eq!(cache.remove("goes").unwrap(), None);
        let made = cache.get_or_insert_with("past", Some(MILLI), || 4).unwrap();
        assert_eq!((made, cache.get("past").unwrap()), (4, Some(4)));
        clock.advance(MILLI);
        assert_eq!(cache.get("past").unwrap(), None);
        assert_sound(&cache);
    });
}

#[test]
fn changes_keep_the_expiry_and_others_set_it() {
    each_design(|_, clock, options| {
        let cache: Cache<u64, [u8]> = options.in_memory().unwrap();
        let at = |millis| Some(Some(UNIX_EPOCH + Duration::from_millis(START + millis)));
        cache.put_for(&1, b"one", 10 * MILLI).unwrap();
        cache.update(&1, |old| Change::Set([&old.unwrap()[..], b"!"].concat())).unwrap();
        assert_eq!(cache.compare_exchange(&1, b"one!", b"two").unwrap(), Outcome::Done);
        assert_eq!(cache.expires_at(&1).unwrap(), at(10));
        assert!(cache.touch(&1, 5 * MILLI).unwrap());
        assert_eq!(cache.expires_at(&1).unwrap(), at(10), "a touch takes no time away");
        assert!(cache.touch(&1, 15 * MILLI).unwrap());
        assert_eq!(cache.expires_at(&1).unwrap(), at(15));
        assert!(cache.expire(&1, 5 * MILLI).unwrap());
        assert_eq!(cache.expires_at(&1).unwrap(), at(5));
        assert!(cache.persist(&1).unwrap() && cache.touch(&1, MILLI).unwrap());
        assert_eq!(cache.expires_at(&1).unwrap(), Some(None));
        assert!(cache.expire(&1, MILLI).unwrap());
        cache.put(&1, b"anew").unwrap();
        clock.advance(MILLI);
        assert_eq!(cache.get(&1).unwrap().as_deref(), Some(&b"anew"[..]));
    });
}

/// What was put, and when it expires.
#[derive(Default)]
struct Model {
    entries: BTreeMap<u64, (Vec<u8>, Option<u64>)>,
    now: u64,
}

impl Model {
    fn live(&self, key: u64) -> Option<&Vec<u8>> {
        let (value, expiry) = self.entries.get(&key)?;
        expiry.is_none_or(|at| at > self.now).then_some(value)
    }

    fn assert_is(&self, cache: &Cache<u64, [u8]>) {
        let live: BTreeMap<u64, Vec<u8>> =
            self.entries.keys().filter_map(|key| Some((*key, self.live(*key)?.clone()))).collect();
        let found: BTreeMap<_, _> = cache.iter().map(Result::unwrap).collect();
        assert_eq!(found, live);
        assert_eq!(cache.count().unwrap(), live.len() as u64);
    }
}

fn random(state: &mut u64) -> u64 {
    *state += 1;
    WordMix::new(0xcace).mix(*state)
}

/// Any operations, steps of the clock, of the sweep, closes and crashes: a cache is a map that forgets at the given
/// times, and the sweep leaves nothing that has expired.
fn against_a_model(design: Design, geometry: Geometry, seed: u64) {
    const KEYS: u64 = 200;
    let mut rng = seed << 32;
    let clock = Clock::manual(START);
    let options = options(design, &clock).geometry(geometry);
    let sim = Sim::new(4 << 20);
    let mut cache: Cache<u64, [u8]> = options.create_on(sim.clone()).unwrap();
    let mut sim = sim;
    let mut model = Model { now: START, ..Model::default() };
    for i in 0..4000_u64 {
        let (key, dice) = (random(&mut rng) % KEYS, random(&mut rng));
        let lifetime = random(&mut rng) % 100;
        let value = i.to_le_bytes().repeat(1 + dice as usize % 5);
        let live = model.live(key).cloned();
        let until = Some(model.now + lifetime);
        match dice >> 32 & 15 {
            0..=2 => {
                cache.put_for(&key, &value, lifetime as u32 * MILLI).unwrap();
                model.entries.insert(key, (value, until));
            }
            3 => {
                cache.put(&key, &value).unwrap();
                model.entries.insert(key, (value, None));
            }
            4 => {
                assert_eq!(cache.remove(&key).unwrap(), live);
                model.entries.remove(&key);
            }
            5 => {
                let found = cache.update(&key, |_| Change::Set(value.clone())).unwrap();
                assert_eq!(found.as_ref(), Some(&value));
                let expiry = live.and_then(|_| model.entries[&key].1);
                model.entries.insert(key, (value, expiry));
            }
            6 => {
                let found =
                    cache.get_or_insert_with(&key, Some(lifetime as u32 * MILLI), || value.clone());
                let wanted = live.clone().unwrap_or_else(|| value.clone());
                assert_eq!(found.unwrap(), wanted);
                if live.is_none() {
                    model.entries.insert(key, (value, until));
                }
            }
            7 => {
                assert_eq!(cache.touch(&key, lifetime as u32 * MILLI).unwrap(), live.is_some());
                if let Some((_, Some(expiry))) =
                    model.entries.get_mut(&key).filter(|_| live.is_some())
                {
                    *expiry = (*expiry).max(model.now + lifetime);
                }
            }
            8 => {
                assert_eq!(cache.expire(&key, lifetime as u32 * MILLI).unwrap(), live.is_some());
                if let Some((_, expiry)) = model.entries.get_mut(&key).filter(|_| live.is_some()) {
                    *expiry = until;
                }
            }
            9 => {
                let old = live.clone().unwrap_or_default();
                let outcome = cache.compare_exchange(&key, &old, &value).unwrap();
                assert_eq!(outcome.is_done(), live.is_some());
                if let Some((held, _)) = model.entries.get_mut(&key).filter(|_| live.is_some()) {
                    *held = value;
                }
            }
            10 => {
                cache.step().unwrap();
            }
            11 if i % 16 == 0 => {
                // To the end of the round that is under way, and one more.
                while cache.step().unwrap() {}
                while cache.step().unwrap() {}
                assert_eq!(cache.len().unwrap(), cache.count().unwrap());
            }
            12 if i % 16 == 0 => {
                let image = if dice & 1 == 0 {
                    cache.close().unwrap();
                    sim.image()
                } else {
                    let image = sim.image();
                    drop(cache);
                    image
                };
                sim = Sim::from_image(&image, 4 << 20);
                cache = options.open_on(sim.clone()).unwrap();
                model.assert_is(&cache);
            }
            13 => {
                let by = random(&mut rng) % 20;
                clock.advance(by as u32 * MILLI);
                model.now += by;
            }
            _ => assert_eq!(cache.get(&key).unwrap(), live),
        }
    }
    model.assert_is(&cache);
    assert_sound(&cache);
}

#[test]
fn a_cache_is_a_map_that_forgets() {
    for &design in Design::ALL {
        against_a_model(design, TINY, 1);
        against_a_model(design, CHAINS, 2);
    }
}

/// A crash does not revive, though the clock is set back, and it kills nothing.
#[test]
fn a_clock_that_is_set_back_revives_nothing() {
    each_design(|design, clock, options| {
        let sim = Sim::new(1 << 20);
        let cache: Cache<u64, u64> = options.create_on(sim.clone()).unwrap();
        cache.put_for(&1, &10, 5000 * MILLI).unwrap();
        cache.put_for(&2, &20, 9000 * MILLI).unwrap();
        clock.advance(6000 * MILLI);
        // The sweep stores the time; without one an entry could not be told from one that is live.
        cache.step().unwrap();
        let killed = sim.image();
        cache.close().unwrap();
        for image in [killed, sim.image()] {
            let back = options.clone().clock(Clock::manual(START));
            let cache: Cache<u64, u64> = back.open_on(Sim::from_image(&image, 1 << 20)).unwrap();
            assert_eq!(cache.get(&1).unwrap(), None, "{design}");
            assert_eq!(cache.get(&2).unwrap(), Some(20), "{design}");
        }
    });
}

#[test]
fn caches_and_maps_do_not_open_one_another() {
    fn refused<T: Openable + std::fmt::Debug>(options: &Options, sim: &Sim) -> String {
        let e = options.open_on::<T, _>(Sim::from_image(&sim.image(), 1 << 20)).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Types { .. }));
        e.to_string()
    }
    let options = Options::new().geometry(TINY).sweep(false);
    let sim = Sim::new(1 << 20);
    options.create_on::<Cache<u64, u64>, _>(sim.clone()).unwrap().close().unwrap();
    let told = refused::<Map<u64, u64>>(&options, &sim);
    assert!(told.contains("values of expiring u64"), "{told}");
    refused::<Map<u64, [u8; 16]>>(&options, &sim);
    refused::<Cache<u64, i64>>(&options, &sim);
    let sim = Sim::new(1 << 20);
    options.create_on::<Map<u64, u64>, _>(sim.clone()).unwrap().close().unwrap();
    refused::<Cache<u64, u64>>(&options, &sim);
}

/// The second map of a cache goes with it, and a new one of its name begins with nothing.
#[test]
fn a_pool_has_several_caches_and_forgets_them() {
    let clock = Clock::manual(START);
    let options = options(Design::Reh, &clock);
    let pool: Pool = options.in_memory().unwrap();
    let one: Cache<str, str> = pool.create("one", &options).unwrap();
    let two: Cache<u64, u64> = pool.open_or_create("two", &options).unwrap();
    one.put_for("key", "value", MILLI).unwrap();
    two.put(&1, &10).unwrap();
    let again: Cache<String, String> = pool.open("one").unwrap();
    clock.advance(MILLI);
    assert_eq!(again.get("key").unwrap(), None, "handles have one clock");
    assert!(pool.remove("one").is_err(), "it is open");
    drop((one, again));
    pool.remove("one").unwrap();
    assert_eq!(pool.names(), ["two", "two.cache"]);
    let refused = pool.rename("two", "three").unwrap_err();
    assert_eq!(pool.rename("two.cache", "three").unwrap_err().to_string(), refused.to_string());
    assert!(matches!(refused.kind(), ErrorKind::Options { .. }));
    let one: Cache<str, str> = pool.create("one", &options).unwrap();
    assert_eq!((one.len().unwrap(), two.get(&1).unwrap()), (0, Some(10)));
}

/// Reading only, without a thread, the map beside it, or a place to write the time.
#[test]
fn a_cache_is_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache.pool");
    let clock = Clock::manual(START);
    let options = options(Design::Reh, &clock);
    let cache: Cache<str, str> = options.create(&path).unwrap();
    cache.put_for("key", "value", 10 * MILLI).unwrap();
    cache.close().unwrap();
    let reader: Cache<str, str> = options.clone().read_only(true).sweep(true).open(&path).unwrap();
    assert_eq!(reader.get("key").unwrap().as_deref(), Some("value"));
    clock.advance(10 * MILLI);
    assert_eq!(reader.get("key").unwrap(), None);
    assert!(matches!(reader.touch("key", MILLI).unwrap_err().kind(), ErrorKind::ReadOnly));
    reader.close().unwrap();
}

/// Compaction and the maps without types take the entries with their expiry.
#[test]
fn a_compacted_cache_forgets_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache.pool");
    let clock = Clock::manual(START);
    let options = options(Design::Reh, &clock);
    let cache: Cache<u64, str> = options.create(&path).unwrap();
    cache.put_for(&1, "one", 10 * MILLI).unwrap();
    cache.put(&2, "two").unwrap();
    cache.close().unwrap();
    let refused = Options::new().open::<AnyMap>(&path).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Types { .. }), "it is not told of changes");
    let any: AnyMap = Options::new().read_only(true).open(&path).unwrap();
    assert_eq!(any.get(b"1").unwrap().unwrap(), format!("{},one", START + 10).into_bytes());
    assert_eq!(any.get(b"2").unwrap().unwrap(), b"0,two");
    assert!(matches!(any.put(b"1", b"0,x").unwrap_err().kind(), ErrorKind::Text { .. }));
    assert!(matches!(any.stats().unwrap().value_type, Type::Expiring(_)));
    any.close().unwrap();
    Options::new().compact::<AnyMap>(&path).unwrap();
    let cache: Cache<u64, str> = options.open(&path).unwrap();
    let all: BTreeSet<_> = cache.iter().map(Result::unwrap).collect();
    assert_eq!(all, [(1, "one".into()), (2, "two".into())].into());
    clock.advance(10 * MILLI);
    assert_eq!(cache.count().unwrap(), 1);
}

/// The same cache by texts of its types. One that is only read tells of the bound, and of what went before.
#[test]
fn a_cache_without_types_is_the_same_cache() {
    each_design(|design, clock, options| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache.pool");
        let types = options.clone().types(Type::U32, Type::Str);
        let any: AnyCache = types.clone().max_entries(3).create(&path).unwrap();
        assert_eq!((any.key_type(), any.value_type()), (Type::U32, Type::Str));
        any.put_for(b"1", b"one", 10 * MILLI).unwrap();
        any.put(b"2", b"two").unwrap();
        assert!(matches!(any.put(b"x", b"two").unwrap_err().kind(), ErrorKind::Text { .. }));
        assert_eq!(any.get(b"1").unwrap().as_deref(), Some(&b"one"[..]));
        let at = UNIX_EPOCH + (START as u32 + 10) * MILLI;
        assert_eq!(any.expires_at(b"1").unwrap(), Some(Some(at)), "{design}");
        clock.advance(10 * MILLI);
        assert_eq!((any.get(b"1").unwrap(), any.remove(b"1").unwrap()), (None, false));
        any.put_for(b"3", b"three", MILLI).unwrap();
        clock.advance(MILLI);
        let all: Vec<_> = any.iter().map(Result::unwrap).collect();
        assert_eq!(all, [(b"2".to_vec(), b"two".to_vec())]);
        while any.step().unwrap() {}
        assert_eq!(
            any.stats().unwrap().cache.unwrap().expired,
            1,
            "{design}: the other was removed"
        );
        for key in ["4", "5", "6", "7"] {
            any.put(key.as_bytes(), b"more").unwrap();
        }
        any.close().unwrap();

        let any: AnyCache = options.clone().read_only(true).open(&path).unwrap();
        let stats = any.stats().unwrap().cache.unwrap();
        assert_eq!((stats.max_entries, stats.eviction), (Some(3), Some(Policy::TinyLfu)));
        assert_eq!((stats.evicted, stats.expired, any.count().unwrap()), (2, 1, 3), "{design}");
        any.close().unwrap();
        let cache: Cache<u32, str> = options.open(&path).unwrap();
        cache.put(&8, "eight").unwrap();
        assert_eq!(cache.stats().unwrap().cache.unwrap().evicted, 3);
        assert_sound(&cache);
        cache.close().unwrap();

        let map: Map<u32, str> = options.create(dir.path().join("map.pool")).unwrap();
        map.close().unwrap();
        let refused = options.open::<AnyCache>(dir.path().join("map.pool")).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Types { .. }), "it forgets nothing");
    });
}

const POLICIES: [Policy; 5] =
    [Policy::TinyLfu, Policy::Lru, Policy::S3Fifo, Policy::Sieve, Policy::Random];

/// Under any policy, with entries that expire and chains of equal hashes: never more than the bound, what is given is
/// what was put last, and the counts are those of what is stored. An open finds the bound, and keeps to it.
#[test]
fn a_bound_of_entries_is_kept() {
    const MAX: u64 = 40;
    for (&design, policy) in Design::ALL.iter().cycle().zip(POLICIES) {
        let clock = Clock::manual(START);
        let options = options(design, &clock).geometry(CHAINS);
        let bounded = options.clone().max_entries(MAX).eviction(policy);
        let sim = Sim::new(1 << 20);
        let cache: Cache<u64, [u8]> = bounded.create_on(sim.clone()).unwrap();
        let (mut rng, mut last) = (9 << 32, BTreeMap::new());
        for i in 0..2000_u64 {
            let (key, dice) = (random(&mut rng) % 100, random(&mut rng));
            let value = i.to_le_bytes().to_vec();
            match dice % 8 {
                0..4 => cache.put_for(&key, &value, dice as u32 % 50 * MILLI).unwrap(),
                4 => cache.update(&key, |_| Change::Set(value.clone())).map(drop).unwrap(),
                5 => {
                    cache.remove(&key).unwrap();
                }
                6 => {
                    cache.step().unwrap();
                    clock.advance(MILLI);
                }
                _ => {
                    if let Some(found) = cache.get(&key).unwrap() {
                        assert_eq!(Some(&found), last.get(&key), "{design}, {policy}");
                    }
                }
            }
            match dice % 8 {
                0..=4 => drop(last.insert(key, value)),
                5 => drop(last.remove(&key)),
                _ => {}
            }
            let entries = cache.stats().unwrap().cache.unwrap().entries.unwrap();
            assert!(cache.len().unwrap() == entries && entries <= MAX, "{design}, {policy}: {i}");
        }
        assert!(cache.stats().unwrap().cache.unwrap().evicted > 100);
        assert_sound(&cache);
        drop(cache);
        let cache: Cache<u64, [u8]> =
            options.open_on(Sim::from_image(&sim.image(), 1 << 20)).unwrap();
        let stats = cache.stats().unwrap().cache.unwrap();
        assert_eq!((stats.max_entries, stats.eviction), (Some(MAX), Some(policy)));
        assert_eq!(stats.entries, Some(cache.len().unwrap()));
        (0..100).for_each(|key| cache.put(&key, b"value").unwrap());
        assert_eq!(cache.len().unwrap(), MAX);
        cache.close().unwrap();
    }
}

/// What is put, replaced, changed, removed, expired and evicted counts with the bytes that it has, in records and in
/// cells. After a crash the same is counted anew.
#[test]
fn a_bound_of_bytes_is_kept() {
    const MAX: u64 = 8 << 10;
    fn filled<K: Data<Ref = u64>, V: Data + ?Sized>(
        options: &Options,
        sim: Sim,
        put: impl Fn(&Cache<K, V>, u64, u64),
    ) {
        let image = sim.clone();
        let cache: Cache<K, V> = options.create_on(sim).unwrap();
        let mut rng = 5 << 32;
        for _ in 0..2000 {
            put(&cache, random(&mut rng) % 300, random(&mut rng));
            let stats = cache.stats().unwrap().cache.unwrap();
            assert!(stats.bytes_used.unwrap() <= MAX);
        }
        let stats = cache.stats().unwrap().cache.unwrap();
        assert!(stats.evicted > 100 && stats.bytes_used.unwrap() > MAX / 2);
        assert_sound(&cache);
        let again: Cache<K, V> = options.open_on(Sim::from_image(&image.image(), 1 << 20)).unwrap();
        assert_eq!(again.stats().unwrap().cache.unwrap().bytes_used, stats.bytes_used);
    }
    for (&design, policy) in Design::ALL.iter().cycle().zip(POLICIES) {
        let clock = Clock::manual(START);
        let options = options(design, &clock).max_bytes_used(MAX).eviction(policy);
        filled::<u64, [u8]>(&options, Sim::new(1 << 20), |cache, key, dice| {
            let value = vec![1; dice as usize / 7 % 300];
            match dice % 7 {
                0..3 => cache.put_for(&key, &value, dice as u32 % 50 * MILLI).unwrap(),
                3 => cache.update(&key, |_| Change::Set(value)).map(drop).unwrap(),
                4 => cache.remove(&key).map(drop).unwrap(),
                5 => cache.step().map(drop).unwrap(),
                _ => clock.advance(MILLI),
            }
            let refused = cache.put(&key, &[0; MAX as usize]).unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::Full { .. }));
        });
        filled::<u64, u64>(&options, Sim::new(1 << 20), |cache, key, dice| match dice % 4 {
            0 => cache.remove(&key).map(drop).unwrap(),
            _ => cache.put(&key, &dice).unwrap(),
        });
    }
}

/// Whatever threads do at once, no more is stored, or about to be, than the bound says; in the end all counts are right.
#[test]
fn threads_keep_a_bound() {
    const MAX: u64 = 100;
    for (&design, policy) in Design::ALL.iter().cycle().zip(POLICIES) {
        let options = Options::new().design(design).seed(7).sweep(false);
        let bounded = options.max_entries(MAX).eviction(policy);
        let cache: Cache<u64, u64> = bounded.in_memory().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let cache = &cache;
                scope.spawn(move || {
                    let mut rng = (thread + 1) << 40;
                    for _ in 0..1500 {
                        let (key, dice) = (random(&mut rng) % 1000, random(&mut rng));
                        match dice % 8 {
                            0..4 => cache.put(&key, &dice).unwrap(),
                            4 => cache.remove(&key).map(drop).unwrap(),
                            5 => {
                                cache.get_or_insert_with(&key, None, || dice).unwrap();
                            }
                            6 => cache.put_for(&key, &dice, Duration::ZERO).unwrap(),
                            _ => cache.step().map(drop).unwrap(),
                        }
                        let stored = cache.stats().unwrap().cache.unwrap().entries.unwrap();
                        assert!(stored <= MAX, "{design}, {policy}: {stored}");
                    }
                });
            }
        });
        let stats = cache.stats().unwrap().cache.unwrap();
        assert_eq!(stats.entries, Some(cache.len().unwrap()), "{design}, {policy}");
        assert!(cache.len().unwrap() <= MAX);
        (0..1000).for_each(|key| cache.put(&key, &key).unwrap());
        assert_eq!(cache.len().unwrap(), MAX, "all of them can be evicted");
        cache.clear().unwrap();
        assert_eq!(cache.stats().unwrap().cache.unwrap().entries, Some(0));
        assert_sound(&cache);
    }
}

/// Is told of calls into the medium, and keeps what a kill before each of them leaves, while it is asked to.
#[derive(Clone, Default)]
struct Kills(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    is_asked: bool,
    sim: Option<Sim>,
    images: Vec<Vec<u64>>,
}

impl Kills {
    fn watch(&self, sim: &Sim) {
        sim.set_hook(Box::new(self.clone()));
        self.0.lock().unwrap().sim = Some(sim.clone());
    }

    /// The images of kills inside of `f`.
    fn during(&self, f: impl FnOnce()) -> Vec<Vec<u64>> {
        self.0.lock().unwrap().is_asked = true;
        f();
        let mut held = self.0.lock().unwrap();
        held.is_asked = false;
        let mut images = std::mem::take(&mut held.images);
        images.dedup();
        images
    }
}

impl Hook for Kills {
    fn before(&self, _: Call, _: Site) {
        let mut held = self.0.lock().unwrap();
        if let (true, Some(sim)) = (held.is_asked, held.sim.clone()) {
            held.images.push(sim.image());
        }
    }
}

/// What is evicted or has expired is told, once, until the caller is done with it: whatever is killed, each value is in
/// the cache or among those that went, and not in both.
#[test]
fn what_goes_is_told_once() {
    const MAX: u64 = 4;
    const BYTES: u64 = 1 << 20;
    fn assert_once(cache: &Cache<str, u64>, values: &[u64]) {
        let gone = cache.evicted().map(|gone| gone.unwrap().value);
        let mut all: Vec<u64> = cache.iter().map(|pair| pair.unwrap().1).chain(gone).collect();
        all.sort_unstable();
        assert_eq!(all, values);
    }
    for &design in Design::ALL {
        let clock = Clock::manual(START);
        let options = options(design, &clock);
        let keeps = options.clone().max_entries(MAX).keep_evicted(true);
        let (sim, kills) = (Sim::new(BYTES), Kills::default());
        kills.watch(&sim);
        let cache: Cache<str, u64> = keeps.create_on(sim.clone()).unwrap();
        (0..MAX).for_each(|v| cache.put(&v.to_string(), &v).unwrap());
        cache.expire("0", MILLI).unwrap();
        clock.advance(MILLI);
        // By a put over it, an eviction, and the sweep.
        type Goes = fn(&Cache<str, u64>);
        let ways: [(Goes, &[u64]); 3] = [
            (|cache| cache.put("0", &10).unwrap(), &[0, 1, 2, 3, 10]),
            (|cache| cache.put("4", &4).unwrap(), &[0, 1, 2, 3, 4, 10]),
            (|cache| while cache.step().unwrap() {}, &[0, 1, 2, 3, 4, 10]),
        ];
        for (i, (goes, values)) in ways.into_iter().enumerate() {
            if i == 2 {
                let key = cache.iter().next().unwrap().unwrap().0;
                cache.expire(&key, MILLI).unwrap();
                clock.advance(MILLI);
            }
            let before = if i == 2 { values.len() } else { values.len() - 1 };
            let images = kills.during(|| goes(&cache));
            assert!(images.len() > 10);
            for image in images {
                let again: Cache<str, u64> =
                    options.open_on(Sim::from_image(&image, BYTES)).unwrap();
                while again.step().unwrap() {}
                let mut values = values.to_vec();
                if again.iter().count() + again.evicted().count() == before {
                    // The put was cut off before it was made.
                    let new = if i == 0 { 10 } else { 4 };
                    values.retain(|v| *v != new || i == 2);
                }
                assert_once(&again, &values);
                assert_sound(&again);
            }
            assert_once(&cache, values);
        }
        let ids: Vec<u64> = cache.evicted().map(|gone| gone.unwrap().id).collect();
        assert_eq!(ids.len(), 3);
        let images = kills.during(|| assert!(cache.done(ids[0]).unwrap()));
        assert!(!cache.done(ids[0]).unwrap());
        for image in images {
            let again: Cache<str, u64> = options.open_on(Sim::from_image(&image, BYTES)).unwrap();
            assert!((2..=3).contains(&again.evicted().count()));
        }
        let again: Cache<str, u64> = options.open_on(Sim::from_image(&sim.image(), BYTES)).unwrap();
        assert_eq!(again.evicted().count(), 2, "{design}: what is done stays so");
        (20..30).for_each(|v| again.put(&v.to_string(), &v).unwrap());
        assert_eq!(again.len().unwrap(), MAX);
        assert_eq!(again.evicted().count(), 2 + 3 + 10 - MAX as usize);
    }
}

/// Of threads, too: each value that was put is there, was removed, was written over while it was there, or is told.
#[test]
fn threads_lose_nothing_of_what_goes() {
    const THREADS: u64 = 4;
    for &design in Design::ALL {
        let options = Options::new().design(design).seed(7).sweep(false);
        let keeps = options.max_entries(20).keep_evicted(true);
        let cache: Cache<u64, u64> = keeps.in_memory().unwrap();
        let accounted = Mutex::new(BTreeSet::new());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (cache, accounted) = (&cache, &accounted);
                scope.spawn(move || {
                    let mut rng = (thread + 1) << 40;
                    for i in 0..500 {
                        let (key, value) = (random(&mut rng) % 50, thread << 32 | i);
                        let went = |old: Option<u64>| {
                            if let Some(old) = old {
                                assert!(accounted.lock().unwrap().insert(old), "{old:#x}");
                            }
                        };
                        match random(&mut rng) % 4 {
                            0 => went(cache.remove(&key).unwrap()),
                            1 => drop(cache.expire(&key, Duration::ZERO).unwrap()),
                            2 => drop(cache.step().unwrap()),
                            _ => {}
                        }
                        let mut old = None;
                        let new = cache.update(&key, |found| {
                            old = found;
                            Change::Set(value)
                        });
                        assert_eq!(new.unwrap(), Some(value));
                        went(old);
                        if i % 16 == 0 && thread == 0 {
                            for gone in cache.evicted() {
                                let gone = gone.unwrap();
                                if cache.done(gone.id).unwrap() {
                                    went(Some(gone.value));
                                }
                            }
                        }
                    }
                });
            }
        });
        let mut all = accounted.into_inner().unwrap();
        while cache.step().unwrap() {}
        let gone = cache.evicted().map(|gone| gone.unwrap().value);
        for value in cache.iter().map(|pair| pair.unwrap().1).chain(gone) {
            assert!(all.insert(value), "{design}: {value:#x} twice");
        }
        assert!(all.into_iter().eq((0..THREADS).flat_map(|t| (0..500).map(move |i| t << 32 | i))));
        let stats = cache.stats().unwrap().cache.unwrap();
        assert_eq!(stats.entries, Some(cache.len().unwrap()));
        assert_sound(&cache);
    }
}

/// The last handle ends what goes on beside the operations before another first one begins: what went has one number
/// throughout, and counts are right.
#[test]
fn handles_come_and_go() {
    const THREADS: u64 = 4;
    const OPENS: u64 = 25;
    const PUTS: u64 = 4;
    let pool: Pool = Options::new().in_memory().unwrap();
    let keeps = Options::new().max_entries(10).keep_evicted(true);
    drop(pool.create::<Cache<u64, u64>>("cache", &keeps).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let pool = &pool;
            scope.spawn(move || {
                for open in 0..OPENS {
                    let cache: Cache<u64, u64> = pool.open("cache").unwrap();
                    for put in 0..PUTS {
                        let key = (thread * OPENS + open) * PUTS + put;
                        cache.put(&key, &key).unwrap();
                    }
                }
            });
        }
    });
    let cache: Cache<u64, u64> = pool.open("cache").unwrap();
    let gone = cache.evicted().map(|gone| gone.unwrap().value);
    let all: BTreeSet<_> = cache.iter().map(|pair| pair.unwrap().1).chain(gone).collect();
    assert!(all.into_iter().eq(0..THREADS * OPENS * PUTS));
    assert_eq!(cache.len().unwrap(), 10);
    assert_sound(&cache);
}

/// Threads that touch entries, beside a sweep that never rests and a reader: what is kept alive is there all the time, and
/// what is not goes.
#[test]
fn a_sweep_takes_nothing_that_was_touched() {
    const KEYS: u64 = 64;
    for &design in Design::ALL {
        let clock = Clock::manual(START);
        let cache: Cache<u64, u64> = options(design, &clock).in_memory().unwrap();
        for key in 0..2 * KEYS {
            cache.put_for(&key, &key, 10 * MILLI).unwrap();
        }
        std::thread::scope(|scope| {
            let sweeper = scope.spawn(|| {
                while cache.len().unwrap() > KEYS {
                    cache.step().unwrap();
                }
            });
            let reader = scope.spawn(|| {
                while cache.len().unwrap() > KEYS {
                    for key in 0..KEYS {
                        assert!(cache.contains_key(&key).unwrap(), "{design}: {key}");
                    }
                }
            });
            for _ in 0..20 {
                for key in 0..KEYS {
                    assert!(cache.touch(&key, 10 * MILLI).unwrap(), "{design}: {key}");
                }
                clock.advance(9 * MILLI);
            }
            sweeper.join().unwrap();
            reader.join().unwrap();
        });
        for key in 0..2 * KEYS {
            assert_eq!(cache.get(&key).unwrap(), (key < KEYS).then_some(key), "{design}");
        }
        assert_sound(&cache);
    }
}

/// What a closure makes is refused, and nothing is evicted for it, where it is larger than the bound, and where nothing
/// makes room; a value that is replaced needs no second room.
#[test]
fn closures_and_replacements_keep_a_bound_of_bytes() {
    const MAX: u64 = 1000;
    fn used(cache: &Cache<u64, [u8]>) -> u64 {
        cache.stats().unwrap().cache.unwrap().bytes_used.unwrap()
    }
    fn assert_full<T: std::fmt::Debug>(done: durahash::Result<T>) {
        assert!(matches!(done.unwrap_err().kind(), ErrorKind::Full { .. }));
    }
    for (&design, policy) in Design::ALL.iter().flat_map(|d| [(d, Policy::None), (d, Policy::Lru)])
    {
        let clock = Clock::manual(START);
        let options = options(design, &clock).max_bytes_used(MAX).eviction(policy);
        let cache: Cache<u64, [u8]> = options.in_memory().unwrap();
        cache.put(&0, &[0; 100]).unwrap();
        let entry = used(&cache);
        let entries = MAX / entry;
        (1..entries).for_each(|key| cache.put(&key, &[0; 100]).unwrap());
        for key in 0..entries {
            cache.put(&key, &[1; 100]).unwrap();
            cache.put(&key, &[2; 90]).unwrap();
            cache.update(&key, |_| Change::Set(vec![3; 100])).unwrap();
        }
        assert_eq!((cache.len().unwrap(), used(&cache)), (entries, entries * entry), "{design}");
        let large = vec![0; MAX as usize];
        assert_full(cache.update(&0, |_| Change::Set(large.clone())));
        assert_full(cache.compare_exchange(&0, &[3; 100], &large));
        assert_eq!((cache.len().unwrap(), used(&cache)), (entries, entries * entry), "{policy}");
        cache.remove(&0).unwrap();
        assert_full(cache.get_or_insert_with(&0, None, || large.clone()));
        assert_eq!(cache.len().unwrap(), entries - 1, "{policy}");
        cache.put(&0, &[3; 100]).unwrap();
        if policy == Policy::None {
            assert_full(cache.update(&0, |_| Change::Set(vec![4; 200])));
            assert_full(cache.put(&0, &[4; 200]));
            assert_full(cache.compare_exchange(&0, &[3; 100], &[4; 200]));
            assert_eq!(cache.get(&0).unwrap(), Some(vec![3; 100]));
            cache.remove(&0).unwrap();
            assert_full(cache.get_or_insert_with(&0, None, || vec![4; 200]));
            assert_full(cache.update(&0, |_| Change::Set(vec![4; 200])));
            assert_eq!(cache.stats().unwrap().cache.unwrap().evicted, 0);
        } else {
            assert_eq!(cache.stats().unwrap().cache.unwrap().evicted, 0, "nothing had to go");
            cache.put(&0, &[4; 200]).unwrap();
            assert_eq!(cache.get(&0).unwrap(), Some(vec![4; 200]));
        }
        assert!(used(&cache) <= MAX);
    }
}

/// Counts how often threads wait.
struct Waits(Arc<AtomicU64>);

impl Hook for Waits {
    fn before(&self, call: Call, _: Site) {
        if matches!(call, Call::Event(Event::Wait)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A put waits while the only place is in another thread's hands, however long that takes.
#[test]
fn a_put_waits_for_a_place_in_other_hands() {
    let (sim, waits) = (Sim::new(1 << 20), Arc::new(AtomicU64::new(0)));
    sim.set_hook(Box::new(Waits(Arc::clone(&waits))));
    let bounded = Options::new().geometry(TINY).seed(7).sweep(false).max_entries(1);
    let cache: Cache<u64, u64> = bounded.create_on(sim).unwrap();
    std::thread::scope(|scope| {
        let mut put = None;
        cache
            .update(&1, |_| {
                let thread = scope.spawn(|| cache.put(&2, &20));
                let before = waits.load(Ordering::Relaxed);
                while !thread.is_finished() && waits.load(Ordering::Relaxed) < before + 20_000 {
                    std::thread::yield_now();
                }
                put = Some(thread);
                Change::Set(10)
            })
            .unwrap();
        put.unwrap().join().unwrap().unwrap();
    });
    assert_eq!((cache.len().unwrap(), cache.get(&2).unwrap()), (1, Some(20)));
    // Its own place a thread does not wait for.
    cache.clear().unwrap();
    let mut nested = None;
    let put = |_| {
        nested = Some(cache.put(&2, &20));
        Change::Keep
    };
    cache.update(&1, put).unwrap();
    assert!(matches!(nested.unwrap().unwrap_err().kind(), ErrorKind::Full { .. }));
}

/// A removal that is killed leaves a cache with its bounds and with what went, or none; what it leaves of one is in nobody's way.
#[test]
fn a_cache_is_removed_with_the_map_beside_it() {
    const BYTES: u64 = 1 << 20;
    let clock = Clock::manual(START);
    let options = options(Design::Reh, &clock);
    let keeps = options.clone().max_entries(1).keep_evicted(true);
    let (sim, kills) = (Sim::new(BYTES), Kills::default());
    kills.watch(&sim);
    let pool: Pool = options.create_on(sim).unwrap();
    let cache: Cache<u64, u64> = pool.create("one", &keeps).unwrap();
    (0..3).for_each(|key| cache.put(&key, &key).unwrap());
    drop(cache);
    let mut orphans = 0;
    for image in kills.during(|| pool.remove("one").unwrap()) {
        let open = || options.open_on::<Pool, _>(Sim::from_image(&image, BYTES)).unwrap();
        let pool = open();
        let names = pool.names();
        if names.iter().any(|name| name == "one") {
            let cache: Cache<u64, u64> = pool.open("one").unwrap();
            assert_eq!(cache.stats().unwrap().cache.unwrap().max_entries, Some(1));
            assert_eq!(cache.evicted().count(), 2);
            continue;
        }
        orphans += names.len();
        assert!(matches!(
            pool.open::<Cache<u64, u64>>("one").unwrap_err().kind(),
            ErrorKind::NoMap { .. }
        ));
        let cache: Cache<u64, u64> = pool.open_or_create("one", &options).unwrap();
        assert_eq!(cache.stats().unwrap().cache.unwrap().max_entries, None);
        assert_eq!(cache.evicted().count(), 0);
        let pool = open();
        assert_eq!(pool.remove("one").is_ok(), !names.is_empty());
        assert!(pool.names().is_empty());
    }
    assert!(orphans > 0);
}

/// A map of a caller that has the name is in the way, and is left alone; a cache whose second map is not made is not either.
#[test]
fn a_cache_is_made_with_the_map_beside_it_or_not() {
    let options = Options::new().geometry(TINY).seed(7).sweep(false);
    let pool: Pool = options.in_memory().unwrap();
    let own: Map<u64, [u8]> = pool.create("one.cache", &options).unwrap();
    own.put(&(1 << 40), b"mine").unwrap();
    drop(own);
    let refused = pool.create::<Cache<u64, u64>>("one", &options).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::MapExists { .. }));
    assert!(pool.remove("one").is_err());
    assert_eq!(pool.names(), ["one.cache"]);
    for i in 1..62 {
        pool.create::<Map<u64, u64>>(&format!("map {i}"), &options).unwrap();
    }
    let refused = pool.create::<Cache<u64, u64>>("two", &options).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Full { .. }), "{refused}");
    assert_eq!(pool.names().len(), 62);
    pool.remove("map 1").unwrap();
    pool.create::<Cache<u64, u64>>("two", &options).unwrap().put(&1, &10).unwrap();
}

/// A round of the sweep that goes by while a value is being stored does not make it forgotten.
#[test]
fn a_value_that_is_stored_beside_a_round_goes() {
    /// Ends a round, once it is asked to, before the next flush.
    struct Rounds(Arc<AtomicBool>, Arc<OnceLock<Cache<u64, u64>>>);

    impl Hook for Rounds {
        fn before(&self, call: Call, _: Site) {
            if matches!(call, Call::Flush) && self.0.swap(false, Ordering::Relaxed) {
                while self.1.get().unwrap().step().unwrap() {}
            }
        }
    }

    each_design(|design, clock, options| {
        let (asked, there) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
        let sim = Sim::new(1 << 20);
        sim.set_hook(Box::new(Rounds(Arc::clone(&asked), Arc::clone(&there))));
        let cache: Cache<u64, u64> = options.create_on(sim).unwrap();
        there.set(cache.clone()).unwrap();
        while cache.step().unwrap() {}
        asked.store(true, Ordering::Relaxed);
        cache.put_for(&1, &10, MILLI).unwrap();
        assert!(!asked.load(Ordering::Relaxed));
        clock.advance(MILLI);
        while cache.step().unwrap() {}
        assert_eq!(cache.len().unwrap(), 0, "{design}");
    });
}

/// A number is given once in an open of the pool, too, if the cache is closed meanwhile.
#[test]
fn what_went_has_a_number_of_its_own() {
    let pool: Pool = Options::new().in_memory().unwrap();
    let keeps = Options::new().sweep(false).max_entries(1).keep_evicted(true);
    let mut last = 0;
    for i in 0..3 {
        let cache: Cache<u64, u64> = pool.open_or_create("cache", &keeps).unwrap();
        (0..3).for_each(|key| cache.put(&(3 * i + key), &key).unwrap());
        let mut ids: Vec<u64> = cache.evicted().map(|gone| gone.unwrap().id).collect();
        ids.sort_unstable();
        assert!(ids[0] > last);
        last = *ids.last().unwrap();
        ids.iter().for_each(|id| assert!(cache.done(*id).unwrap()));
    }
}

/// By a step half a second after the last time.
#[test]
fn the_time_is_stored_at_least_once_a_second() {
    let clock = Clock::manual(START);
    let (sim, options) = (Sim::new(1 << 20), options(Design::Reh, &clock));
    let cache: Cache<u64, u64> = options.create_on(sim.clone()).unwrap();
    cache.step().unwrap();
    clock.advance(500 * MILLI);
    cache.step().unwrap();
    let back = options.clock(Clock::manual(START));
    let cache: Cache<u64, u64> = back.open_on(Sim::from_image(&sim.image(), 1 << 20)).unwrap();
    cache.put_until(&1, &10, UNIX_EPOCH + Duration::from_millis(START + 500)).unwrap();
    assert_eq!(cache.get(&1).unwrap(), None);
}

#[test]
fn a_clock_does_not_run_over() {
    let clock = Clock::manual(START);
    let cache: Cache<u64, u64> =
        Options::new().clock(clock.clone()).sweep(false).in_memory().unwrap();
    cache.put_for(&1, &10, MILLI).unwrap();
    clock.advance(Duration::MAX);
    assert_eq!(cache.get(&1).unwrap(), None);
}
