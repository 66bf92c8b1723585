//! Caches: entries expire, for everything and for good, and the sweep removes what has expired and nothing else.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};

use durahash::cache::{Clock, Policy};
use durahash::{
    AnyCache, AnyMap, Cache, Change, Cursor, Data, Design, ErrorKind, Map, Openable, Options,
    Outcome, Pool, Type,
};
use durahash_media::Geometry;
use durahash_media::hash::WordMix;
use durahash_media::sim::Sim;

/// Extents of so many bytes make units and runs in a few hundred entries.
pub(super) const TINY: Geometry = Geometry { extent_shift: 12, slots: 0, hash_bits: 0, buckets: 2 };
/// The same, with hashes of so few bits that several keys have one.
pub(super) const CHAINS: Geometry = Geometry { hash_bits: 5, ..TINY };
pub(super) const START: u64 = 1_000_000;
pub(super) const MILLI: Duration = Duration::from_millis(1);

pub(super) fn options(design: Design, clock: &Clock) -> Options {
    Options::new().design(design).geometry(TINY).seed(7).clock(clock.clone()).sweep(false)
}

pub(super) fn each_design(f: impl Fn(Design, &Clock, Options)) {
    for &design in Design::ALL {
        let clock = Clock::manual(START);
        f(design, &clock, options(design, &clock));
    }
}

pub(super) fn assert_sound<K: Data + ?Sized, V: Data + ?Sized>(cache: &Cache<K, V>) {
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
        assert_eq!(cache.try_insert("past", &5, None).unwrap(), Outcome::Present(4));
        clock.advance(MILLI);
        assert_eq!(cache.get("past").unwrap(), None);
        assert_eq!(cache.try_insert("past", &5, Some(MILLI)).unwrap(), Outcome::Done);
        assert_eq!(cache.get("past").unwrap(), Some(5));
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
struct Model<T> {
    entries: BTreeMap<u64, (T, Option<u64>)>,
    now: u64,
}

impl<T: Clone + PartialEq + std::fmt::Debug> Model<T> {
    fn live(&self, key: u64) -> Option<&T> {
        let (value, expiry) = self.entries.get(&key)?;
        expiry.is_none_or(|at| at > self.now).then_some(value)
    }

    fn assert_is<V: Data<Owned = T> + ?Sized>(&self, cache: &Cache<u64, V>) {
        let live: BTreeMap<u64, T> =
            self.entries.keys().filter_map(|key| Some((*key, self.live(*key)?.clone()))).collect();
        let found: BTreeMap<_, _> = cache.iter().map(Result::unwrap).collect();
        assert_eq!(found, live);
        assert_eq!(cache.count().unwrap(), live.len() as u64);
    }
}

pub(super) fn random(state: &mut u64) -> u64 {
    *state += 1;
    WordMix::new(0xcace).mix(*state)
}

/// Any operations, steps of the clock, of the sweep, closes and crashes: a cache is a map that forgets at the given
/// times, and the sweep leaves nothing that has expired.
fn against_a_model<V: Data + ?Sized>(
    design: Design,
    geometry: Geometry,
    seed: u64,
    value: fn(u64) -> V::Owned,
) where
    V::Owned: PartialEq + Default,
{
    const KEYS: u64 = 200;
    let mut rng = seed << 32;
    let clock = Clock::manual(START);
    let options = options(design, &clock).geometry(geometry);
    let sim = Sim::new(4 << 20);
    let mut cache: Cache<u64, V> = options.create_on(sim.clone()).unwrap();
    let mut sim = sim;
    let mut model = Model { now: START, ..Model::default() };
    for i in 0..4000_u64 {
        let (key, dice) = (random(&mut rng) % KEYS, random(&mut rng));
        let lifetime = random(&mut rng) % 100;
        let value = value(i);
        let live = model.live(key).cloned();
        let until = Some(model.now + lifetime);
        match dice >> 32 & 15 {
            0..=2 => {
                cache.put_for(&key, value.borrow(), lifetime as u32 * MILLI).unwrap();
                model.entries.insert(key, (value, until));
            }
            3 => {
                cache.put(&key, value.borrow()).unwrap();
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
                let outcome = cache.compare_exchange(&key, old.borrow(), value.borrow()).unwrap();
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
        // Values in slots, and of those that look like names.
        against_a_model::<u64>(design, TINY, 1, |i| if i % 4 == 0 { 0x7ffb << 48 | i } else { i });
        let bytes = |i: u64| i.to_le_bytes().repeat(1 + i as usize % 5);
        against_a_model::<[u8]>(design, CHAINS, 2, bytes);
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

/// The time of an open while the clock was far ahead is kept, until it is removed.
#[test]
fn a_clock_that_was_far_ahead_is_forgotten_on_request() {
    each_design(|design, _, options| {
        let pool: Pool = options.in_memory().unwrap();
        let cache: Cache<u64, u64> = pool.create("one", &options).unwrap();
        cache.put_for(&1, &10, 5000 * MILLI).unwrap();
        drop(cache);
        let ahead = options.clone().clock(Clock::manual(START + 9000));
        drop(pool.open_or_create::<Cache<u64, u64>>("one", &ahead).unwrap());
        let found = || pool.open_or_create::<Cache<u64, u64>>("one", &options)?.get(&1);
        assert_eq!(found().unwrap(), None, "{design}");
        let beside: Map<u64, [u8]> = pool.open("one.cache").unwrap();
        assert!(beside.remove(&0).unwrap().is_some());
        assert_eq!(found().unwrap(), Some(10), "{design}");
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

/// Its records use up the blocks of the size in which the time is stored, too.
#[test]
fn a_full_pool_forgets_all_the_same() {
    for design in Design::ALL.iter().copied() {
        let clock = Clock::manual(START);
        let sim = Sim::new(1 << 20);
        let cache: Cache<u64, [u8]> = options(design, &clock).create_on(sim).unwrap();
        for round in [0, 1] {
            let full =
                (0..).find_map(|key| cache.put_for(&key, &[0; 4], 1000 * MILLI).err()).unwrap();
            assert!(matches!(full.kind(), ErrorKind::Full { .. }), "{design}: {full}");
            assert!(cache.len().unwrap() > 1000);
            clock.advance(10_000 * MILLI);
            while round == 0 && cache.step().unwrap() {}
            assert!(round == 1 || cache.len().unwrap() == 0, "{design}");
        }
        cache.close().unwrap();
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
