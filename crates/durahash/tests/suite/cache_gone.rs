//! What goes from a cache by itself: it is told once, whatever is killed or damaged.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use durahash::cache::Clock;
use durahash::{Cache, Change, Design, ErrorKind, Options, Pool, SyncMode};
use durahash_media::sim::{Call, Hook, Sim, Site};

use super::cache::{MILLI, START, assert_sound, options, random};

/// Is told of calls into the medium, and keeps what a kill before each of them leaves, while it is asked to.
#[derive(Clone, Default)]
pub(super) struct Kills(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    is_asked: bool,
    sim: Option<Sim>,
    images: Vec<Vec<u64>>,
}

impl Kills {
    pub(super) fn watch(&self, sim: &Sim) {
        sim.set_hook(Box::new(self.clone()));
        self.0.lock().unwrap().sim = Some(sim.clone());
    }

    /// The images of kills inside of `f`.
    pub(super) fn during(&self, f: impl FnOnce()) -> Vec<Vec<u64>> {
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
