//! Caches with a bound: it is kept, and what goes for it is told once; and the map beside a cache.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use durahash::cache::{Clock, Policy};
use durahash::{
    AnyCache, Cache, Change, Data, Design, ErrorKind, Map, Options, Outcome, Pool, SyncMode,
};
use durahash_media::Event;
use durahash_media::sim::{Call, Hook, Sim, Site};

use super::cache::{CHAINS, MILLI, START, TINY, assert_sound, each_design, options, random};

const POLICIES: [Policy; 6] =
    [Policy::TinyLfu, Policy::Lru, Policy::S3Fifo, Policy::Sieve, Policy::Random, Policy::Soonest];

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

/// What was used last is known behind a close, under any policy, and behind a kill nothing of it.
#[test]
fn a_close_saves_the_order_in_which_entries_go() {
    const MAX: u64 = 40;
    const BYTES: u64 = 1 << 20;
    fn use_half(cache: &Cache<u64, u64>) {
        let keys = (0..3).flat_map(|_| 0..MAX / 2);
        keys.for_each(|key| assert!(cache.get(&key).unwrap().is_some()));
    }
    /// The keys that go for new ones, in their order.
    fn goes(cache: &Cache<u64, u64>) -> Vec<u64> {
        (1000..1000 + MAX / 2).for_each(|key| cache.put(&key, &key).unwrap());
        let gone = cache.evicted().map(Result::unwrap).map(|gone| (gone.id, gone.key));
        gone.collect::<BTreeMap<_, _>>().into_values().collect()
    }
    for (&design, policy) in Design::ALL.iter().cycle().zip(POLICIES) {
        let options = options(design, &Clock::manual(START)).keep_evicted(true);
        let options = options.max_entries(MAX).eviction(policy);
        let filled = || {
            let sim = Sim::new(BYTES);
            let cache: Cache<u64, u64> = options.create_on(sim.clone()).unwrap();
            (0..MAX).for_each(|key| cache.put(&key, &key).unwrap());
            (cache, sim)
        };
        let open = |image: &[u64]| -> (Cache<u64, u64>, Sim) {
            let sim = Sim::from_image(image, BYTES);
            (options.open_on(sim.clone()).unwrap(), sim)
        };
        let (goes_on, sim) = filled();
        let unused = sim.image();
        use_half(&goes_on);
        let killed = sim.image();
        let (closed, sim) = filled();
        use_half(&closed);
        closed.close().unwrap();
        let (again, sim) = open(&sim.image());
        let opened = sim.image();
        let gone = goes(&again);
        // Of frequencies it saves those of entries alone, as far as a row has room; of entries that are drawn nothing.
        let are_drawn = matches!(policy, Policy::Random | Policy::Soonest);
        let is_exact = policy != Policy::TinyLfu && !are_drawn;
        assert!(!is_exact || gone == goes(&goes_on), "{design}, {policy}: {gone:?}");
        let is_used = |key: &u64| *key < MAX / 2;
        assert!(are_drawn || !gone.iter().any(is_used), "{design}, {policy}");
        let [unused, killed, opened] = [unused, killed, opened].map(|image| goes(&open(&image).0));
        assert_eq!(killed, unused, "{design}, {policy}");
        assert_eq!(opened, unused, "{design}, {policy}: an open takes out what is saved");
    }
}

/// Where nothing is evicted a full cache takes an entry for each that has expired, and no more. A victim that has expired
/// counts as expired.
#[test]
fn what_has_expired_makes_room() {
    const MAX: u64 = 40;
    const BYTES: u64 = 1 << 20;
    fn full(options: &Options, clock: &Clock) {
        let none = options.clone().max_entries(MAX).eviction(Policy::None);
        let cache: Cache<u64, u64> = none.create_on(Sim::new(BYTES)).unwrap();
        let is_full = |key| {
            let put = cache.put(&key, &key);
            put.is_err_and(|e| matches!(e.kind(), ErrorKind::Full { .. }))
        };
        (0..MAX).for_each(|key| match key % 4 {
            0 => cache.put_for(&key, &key, MILLI).unwrap(),
            1 => cache.put_for(&key, &key, 2 * MILLI).unwrap(),
            _ => cache.put(&key, &key).unwrap(),
        });
        assert!(is_full(1000));
        // One of the second half gets more time, and another one less.
        assert!(cache.touch(&1, 9 * MILLI).unwrap() && cache.expire(&2, MILLI).unwrap());
        assert!(is_full(1000));
        clock.advance(MILLI);
        (0..=MAX / 4).for_each(|key| cache.put(&(2000 + key), &key).unwrap());
        assert!(is_full(1000) && cache.stats().unwrap().cache.unwrap().expired == MAX / 4 + 1);
        clock.advance(MILLI);
        (1..MAX / 4).for_each(|key| cache.put(&(3000 + key), &key).unwrap());
        assert!(is_full(1000));
        assert_sound(&cache);
    }
    each_design(|design, clock, options| {
        full(&options, clock);
        for policy in POLICIES {
            let clock = Clock::manual(START);
            let options = options.clone().clock(clock.clone()).max_entries(4).eviction(policy);
            for keeps in [false, true] {
                let cache: Cache<u64, u64> =
                    options.clone().keep_evicted(keeps).create_on(Sim::new(BYTES)).unwrap();
                (0..4).for_each(|key| cache.put_for(&key, &key, MILLI).unwrap());
                clock.advance(MILLI);
                (4..8).for_each(|key| cache.put_for(&key, &key, Duration::ZERO).unwrap());
                let stats = cache.stats().unwrap().cache.unwrap();
                assert_eq!((stats.expired, stats.evicted), (4, 0), "{design}, {policy}");
            }
        }
    });
}

/// The same for values that closures make longer, new ones among them, and for a word that gets an expiry.
#[test]
fn what_has_expired_makes_room_for_closures() {
    const MAX: u64 = 4000;
    /// Fills a cache with entries that expire beside one, and lets that one grow.
    fn assert_grows<T: Data + ?Sized>(
        (options, clock): (&Options, &Clock),
        value: &T::Ref,
        grows: fn(&Cache<u64, T>) -> durahash::Result<bool>,
    ) {
        let options = options.clone().max_bytes_used(MAX).eviction(Policy::None);
        for keeps in [false, true] {
            let options = options.clone().keep_evicted(keeps);
            let cache: Cache<u64, T> = options.in_memory().unwrap();
            cache.put(&0, value).unwrap();
            while cache.put_for(&cache.len().unwrap(), value, MILLI).is_ok() {}
            while cache.put(&cache.len().unwrap(), value).is_ok() {}
            let entries = cache.len().unwrap();
            assert!(matches!(grows(&cache).unwrap_err().kind(), ErrorKind::Full { .. }));
            assert_eq!(cache.len().unwrap(), entries);
            clock.advance(MILLI);
            assert!(grows(&cache).unwrap());
            let stats = cache.stats().unwrap().cache.unwrap();
            assert!(stats.expired > 0 && stats.bytes_used.unwrap() <= MAX, "{stats:?}");
            assert_sound(&cache);
        }
    }
    type Way = fn(&Cache<u64, [u8]>) -> durahash::Result<bool>;
    let ways: [Way; 3] = [
        |cache| {
            let grown =
                cache.update(&0, |old| Change::Set([old.unwrap(), vec![1; 900]].concat()))?;
            Ok(cache.get(&0)? == grown)
        },
        |cache| {
            let done = cache.compare_exchange(&0, &[0; 100], &[1; 1000])?;
            Ok(done == Outcome::Done && cache.get(&0)? == Some(vec![1; 1000]))
        },
        |cache| {
            let made = cache.get_or_insert_with(&1000, None, || vec![1; 1000])?;
            Ok(cache.get(&1000)? == Some(made))
        },
    ];
    each_design(|_, clock, options| {
        let with = (&options, clock);
        ways.iter().for_each(|way| assert_grows(with, &[0; 100][..], *way));
        assert_grows::<u64>(with, &1, |cache| cache.expire(&0, 1000 * MILLI));
    });
}

/// An entry does not go for what a closure makes of it, under any policy, also where it is the first to go.
#[test]
fn no_entry_goes_for_its_own_longer_value() {
    for (&design, policy) in Design::ALL.iter().cycle().zip(POLICIES) {
        let options = options(design, &Clock::manual(START)).max_bytes_used(2000).eviction(policy);
        for keeps in [false, true] {
            let options = options.clone().keep_evicted(keeps);
            let cache: Cache<u64, [u8]> = options.in_memory().unwrap();
            let mut rng = 3 << 32;
            for _ in 0..100 {
                let key = random(&mut rng) % 12;
                cache.put_for(&key, &[1; 100], MILLI).unwrap();
                (0..12).filter(|other| *other != key).for_each(|key| {
                    cache.put(&key, &[0; 100]).unwrap();
                });
                cache.put_for(&key, &[1; 100], MILLI).unwrap();
                let longer = |old: Option<Vec<u8>>| [old.unwrap(), vec![2; 1000]].concat();
                let made = cache.update(&key, |old| Change::Set(longer(old))).unwrap();
                assert_eq!(made.as_ref().map(Vec::len), Some(1100));
                assert_eq!(cache.get(&key).unwrap(), made, "{design}, {policy}");
            }
            assert_sound(&cache);
        }
    }
}

/// Nor for what is more than the bound says for a moment.
#[test]
fn no_entry_goes_for_the_bytes_that_it_was_lent() {
    for (&design, policy) in Design::ALL.iter().cycle().zip(POLICIES) {
        let options = options(design, &Clock::manual(START));
        let options = options.max_bytes_used(100_000).eviction(policy);
        for _ in 0..20 {
            let cache: Cache<u64, [u8]> = options.in_memory().unwrap();
            (0..8).for_each(|key| cache.put(&key, &[0; 12_400]).unwrap());
            let used = (0..3).flat_map(|_| 0..8);
            used.for_each(|key| drop(cache.get(&key).unwrap()));
            for len in [1500, 3000, 4500] {
                let made = cache.update(&8, |_| Change::Set(vec![1; len])).unwrap();
                cache.expire(&8, MILLI).unwrap();
                assert_eq!(cache.get(&8).unwrap(), made, "{design}, {policy}");
            }
            assert!(cache.stats().unwrap().cache.unwrap().bytes_used.unwrap() <= 100_000);
        }
    }
}

/// What expires first goes first, about, and what never does last.
#[test]
fn the_soonest_goes() {
    each_design(|design, clock, options| {
        let options = options.max_entries(100).eviction(Policy::Soonest);
        let cache: Cache<u64, u64> = options.in_memory().unwrap();
        (0..50).for_each(|key| cache.put(&key, &key).unwrap());
        (50..100).for_each(|key| cache.put_for(&key, &key, key as u32 * MILLI).unwrap());
        (100..130).for_each(|key| cache.put_for(&key, &key, 1000 * MILLI).unwrap());
        let left = |keys: std::ops::Range<u64>| {
            keys.filter(|key| cache.contains_key(key).unwrap()).count()
        };
        let [never, soon, late] = [left(0..50), left(50..75), left(100..130)];
        assert!(never >= 48 && soon <= 10 && late >= 25, "{design}: {never}, {soon}, {late}");
        clock.advance(100 * MILLI);
        (130..140).for_each(|key| cache.put(&key, &key).unwrap());
        let stats = cache.stats().unwrap().cache.unwrap();
        assert!(stats.expired >= 5, "{design}: {stats:?}");
    });
}

/// What is put, replaced, changed, removed, expired and evicted counts with the bytes that it has, in records, in cells
/// and in slots. After a crash the same is counted anew.
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
        filled::<u64, u64>(&options, Sim::new(1 << 20), |cache, key, dice| match dice % 8 {
            0 => cache.remove(&key).map(drop).unwrap(),
            1 | 2 => cache.put(&key, &dice).unwrap(),
            _ => cache.put_for(&key, &dice, MILLI).unwrap(),
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

/// What has expired is told once, whether it is put over, swept, evicted or cleared; what is there is not, if it is cleared.
#[test]
fn a_clear_tells_what_has_expired() {
    const VALUES: u64 = 300;
    for (&design, max) in Design::ALL.iter().flat_map(|d| [(d, 20), (d, u64::MAX)]) {
        let options = Options::new().design(design).seed(7).sweep(false).keep_evicted(true);
        let options = if max == u64::MAX { options } else { options.max_entries(max) };
        let cache: Cache<u64, u64> = options.in_memory().unwrap();
        std::thread::scope(|scope| {
            let puts = scope.spawn(|| {
                for v in 0..VALUES {
                    cache.put_for(&(v % 30), &v, Duration::ZERO).unwrap();
                    cache.step().unwrap();
                }
            });
            while !puts.is_finished() {
                cache.clear().unwrap();
            }
        });
        cache.put_for(&0, &VALUES, Duration::ZERO).unwrap();
        cache.put(&1, &u64::MAX).unwrap();
        cache.clear().unwrap();
        assert_eq!(cache.len().unwrap(), 0);
        let mut told: Vec<u64> = cache.evicted().map(|gone| gone.unwrap().value).collect();
        told.sort_unstable();
        assert_eq!(told, (0..=VALUES).collect::<Vec<_>>(), "{design}, {max}");
        assert_sound(&cache);
    }
}

/// A damaged entry goes for another, or when its key is put, and with a `clear`: count and policy forget it then. It is
/// not told, as what it was cannot be read.
#[test]
fn a_damaged_entry_goes_as_others_do() {
    const BYTES: u64 = 1 << 20;
    const KEY: u64 = u64::MAX / 0xff * 0x5a;
    const WORD: u64 = u64::MAX / 0xff * 0xa5;
    let options = options(Design::Reh, &Clock::manual(START)).max_bytes_used(200);
    for (damaged, keeps) in [(KEY, false), (KEY, true), (WORD, false), (WORD, true)] {
        let sim = Sim::new(BYTES);
        let options = options.clone().keep_evicted(keeps);
        let cache: Cache<u64, [u8]> = options.create_on(sim.clone()).unwrap();
        cache.put(&KEY, &[0xa5; 100]).unwrap();
        let mut image = sim.image();
        drop(cache);
        let at = image.iter().position(|word| *word == damaged).unwrap();
        image[at] ^= 1;
        for key in [Some(KEY), Some(2), None] {
            let cache: Cache<u64, [u8]> = options.open_on(Sim::from_image(&image, BYTES)).unwrap();
            assert!(matches!(cache.get(&KEY).unwrap_err().kind(), ErrorKind::Corrupt { .. }));
            match key {
                Some(key) => cache.put(&key, &[0; 100]).unwrap(),
                None => cache.clear().unwrap(),
            }
            let stats = cache.stats().unwrap();
            assert_eq!(stats.keys, key.map_or(0, |_| 1));
            let used = stats.cache.unwrap().bytes_used.unwrap();
            assert_eq!(used > 100, key.is_some(), "{used}");
            assert_eq!(cache.evicted().count(), 0);
            (5..8).for_each(|key| cache.put(&key, &[0; 100]).unwrap());
            assert_eq!(cache.len().unwrap(), 1);
            // The block of a damaged key may be another's, and is found by the next open.
            if damaged == WORD {
                assert_sound(&cache);
            }
        }
    }
}

/// The same of a value in its slot, which is none of its type: it counts for nothing, whoever comes to it first.
#[test]
fn a_damaged_value_in_a_slot_goes_as_others_do() {
    const BYTES: u64 = 1 << 20;
    const VALUE: u32 = 0x5a5a_5a5a;
    let options = options(Design::Reh, &Clock::manual(START)).max_bytes_used(32);
    for keeps in [false, true] {
        let (sim, options) = (Sim::new(BYTES), options.clone().keep_evicted(keeps));
        let cache: Cache<u32, u32> = options.create_on(sim.clone()).unwrap();
        cache.put(&1, &VALUE).unwrap();
        let mut image = sim.image();
        drop(cache);
        *image.iter_mut().find(|word| **word == VALUE.into()).unwrap() ^= 1 << 40;
        for key in [Some(1), Some(2), None] {
            let cache: Cache<u32, u32> = options.open_on(Sim::from_image(&image, BYTES)).unwrap();
            assert!(matches!(cache.get(&1).unwrap_err().kind(), ErrorKind::Corrupt { .. }));
            match key {
                Some(key) => cache.put(&key, &2).unwrap(),
                None => cache.clear().unwrap(),
            }
            let used = || cache.stats().unwrap().cache.unwrap().bytes_used.unwrap();
            assert_eq!(used(), key.map_or(0, |_| 16));
            (5..20).for_each(|key| cache.put(&key, &3).unwrap());
            assert_eq!(used(), 32);
            // Beside others it stays until its turn has come.
            if key != Some(2) {
                assert_eq!(cache.len().unwrap(), 2);
                assert_sound(&cache);
            }
        }
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

/// What a check calls waits for no sweep, which rests for the check: it is refused what needs one.
#[test]
fn a_put_inside_of_a_check_does_not_wait_for_itself() {
    /// Ends what waits for ever.
    struct Ends(AtomicU64);

    impl Hook for Ends {
        fn before(&self, call: Call, _: Site) {
            let waits = matches!(call, Call::Event(Event::Wait));
            assert!(!waits || self.0.fetch_add(1, Ordering::Relaxed) < 100_000, "for ever");
        }
    }

    each_design(|design, clock, options| {
        let sim = Sim::new(1 << 20);
        sim.set_hook(Box::new(Ends(AtomicU64::new(0))));
        let options = options.max_entries(4).eviction(Policy::None);
        let cache: Cache<u64, u64> = options.create_on(sim).unwrap();
        (0..4).for_each(|key| cache.put_for(&key, &key, MILLI).unwrap());
        clock.advance(MILLI);
        let any: AnyCache = Pool::of(&cache).open("main").unwrap();
        let mut looked = 0;
        let mut watch = |_, _| {
            looked += 1;
            let refused = cache.put(&9, &9).unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::Full { .. }));
            cache.step().unwrap();
            cache.check(&mut |finding| panic!("{design}: {finding:?}")).unwrap();
            assert!(cache.put(&9, &9).is_err());
        };
        any.check_watched(&mut |finding| panic!("{design}: {finding:?}"), &mut watch).unwrap();
        assert_eq!((looked, cache.len().unwrap()), (4, 4));
        cache.put(&9, &9).unwrap();
    });
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

/// Also where a kill leaves the number to a pool that begins its opens anew, as a compaction makes it.
#[test]
fn numbers_go_on_behind_a_kill_and_a_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().sync_mode(SyncMode::Process).sweep(false).keep_evicted(true);
    let options = options.max_entries(1);
    let (path, mut last) = (dir.path().join("pool"), 0);
    for i in 0..4_u64 {
        let cache: Cache<u64, u64> = options.open_or_create(&path).unwrap();
        (0..3).for_each(|key| cache.put(&(3 * i + key), &key).unwrap());
        let ids: Vec<u64> = cache.evicted().map(|gone| gone.unwrap().id).collect();
        assert!(ids.iter().all(|id| *id > last), "{ids:x?} behind {last:x}");
        last = *ids.iter().max().unwrap();
        ids.iter().for_each(|id| assert!(cache.done(*id).unwrap()));
        // What a kill leaves.
        let killed = std::fs::read(&path).unwrap();
        drop(cache);
        std::fs::write(&path, killed).unwrap();
        options.compact::<Cache<u64, u64>>(&path).unwrap();
    }
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
