//! Caches with a bound: it is kept, whatever policies, closures and threads do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use durahash::cache::{Clock, Policy};
use durahash::{AnyCache, Cache, Change, Data, Design, ErrorKind, Options, Outcome, Pool};
use durahash_media::Event;
use durahash_media::sim::{Call, Hook, Sim, Site};
use durahash_testkit::Waits;

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
