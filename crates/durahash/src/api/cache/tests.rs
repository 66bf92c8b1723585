//! What is seen inside of a cache alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use durahash_media::Geometry;
use durahash_media::sim::{Call, Hook, Sim, Site};
use durahash_testkit::Waits;

use super::inner::Inner;
use super::saved;
use crate::cache::{Clock, Policy};
use crate::{Cache, Change, Design, ErrorKind, Options, Outcome, Pool};

const MILLI: Duration = Duration::from_millis(1);

/// The most bytes that a cache has used before any call into its medium.
#[derive(Default)]
struct Most {
    inner: OnceLock<Weak<Inner>>,
    bytes: AtomicU64,
}

struct Watches(Arc<Most>);

impl Hook for Watches {
    fn before(&self, _: Call, _: Site) {
        let inner = self.0.inner.get().and_then(Weak::upgrade);
        if let Some(bounds) = inner.as_ref().and_then(|inner| inner.bounds.as_ref()) {
            self.0.bytes.fetch_max(bounds.used().1, Ordering::Relaxed);
        }
    }
}

/// Under any policy, at any moment and whatever threads do, values that closures make longer are over the bound by a fiftieth of it
/// at the most, and in the end by nothing.
#[test]
fn closures_overrun_a_bound_of_bytes_by_a_fiftieth() {
    const MAX: u64 = 20_000;
    let policies = Policy::ALL.iter().filter(|policy| **policy != Policy::None);
    for (&design, &policy) in Design::ALL.iter().cycle().zip(policies) {
        let (most, sim) = (Arc::new(Most::default()), Sim::new(2 << 20));
        sim.set_hook(Box::new(Watches(Arc::clone(&most))));
        let geometry = Geometry { extent_shift: 12, ..Geometry::default() };
        let options = Options::new().design(design).geometry(geometry).seed(7).sweep(false);
        let options = options.max_bytes_used(MAX).eviction(policy);
        let cache: Cache<u64, [u8]> = options.create_on(sim).unwrap();
        most.inner.set(Arc::downgrade(&cache.inner)).unwrap();
        let grow = |key: u64, by: usize| {
            let longer = |old: Option<Vec<u8>>| vec![1; old.map_or(0, |old| old.len()) + by];
            cache.put(&key, &[0; 100])?;
            cache.update(&key, |old| Change::Set(longer(old))).map(drop)
        };
        (0..200).for_each(|key| cache.put(&key, &[0; 100]).unwrap());
        for (key, by) in (0..20).flat_map(|key| [(key, 100), (50 + key, 3000)]) {
            grow(key, by).unwrap();
            assert!(cache.inner.bounds.as_ref().unwrap().used().1 <= MAX, "{design}, {policy}");
        }
        let over = || most.bytes.load(Ordering::Relaxed).saturating_sub(MAX);
        assert!((1..=MAX / 50).contains(&over()), "{design}, {policy}: {}", over());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let grow = &grow;
                scope.spawn(move || {
                    for key in (0..20).map(|key| key * 7 % 16 + thread) {
                        let grown = grow(key, 100 << (key % 6));
                        // Another one has changed the entry while room was made.
                        let is_full = |e: crate::Error| matches!(e.kind(), ErrorKind::Full { .. });
                        assert!(grown.is_ok() || grown.is_err_and(is_full));
                    }
                });
            }
        });
        assert!(over() <= MAX / 50, "{design}, {policy}: {}", over());
        let stats = cache.stats().unwrap().cache.unwrap();
        assert!(stats.bytes_used.unwrap() <= MAX && stats.entries == Some(cache.len().unwrap()));
        cache.check(&mut |finding| panic!("{finding:?}")).unwrap();
    }
}

/// While a change by a closure waits for room, its entry gets another value. So the change is refused, or made of that one.
#[test]
fn a_change_that_waits_for_room_is_not_made_of_an_old_value() {
    type Way = fn(&Cache<u64, [u8]>, u64, u64);
    let ways: [Way; 4] = [
        |cache, key, _| {
            let refused = cache.update(&key, |_| Change::Set(vec![2; 600])).unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::Full { .. }));
        },
        |cache, key, _| {
            let refused = cache.compare_exchange(&key, &[0; 100], &[2; 600]).unwrap();
            assert_eq!(refused, Outcome::Present(vec![1; 90]));
        },
        |cache, _, absent| {
            let refused = cache.try_insert(&absent, &[2; 600], None).unwrap();
            assert_eq!(refused, Outcome::Present(vec![1; 20]));
        },
        |cache, _, absent| {
            let found = cache.get_or_insert_with(&absent, None, || vec![2; 600]).unwrap();
            assert_eq!(found, vec![1; 20]);
        },
    ];
    for way in ways {
        let (sim, waits) = (Sim::new(1 << 20), Arc::new(AtomicU64::new(0)));
        sim.set_hook(Box::new(Waits(Arc::clone(&waits))));
        let geometry = Geometry { extent_shift: 12, hash_bits: 5, ..Geometry::default() };
        let options = Options::new().geometry(geometry).seed(7).sweep(false).max_bytes_used(1000);
        let cache: Cache<u64, [u8]> = options.create_on(sim).unwrap();
        // What has the hash of an entry is not evicted for it.
        let hash = |key: u64| cache.inner.handle.engine.records.hash(&key.to_le_bytes());
        let mut keys = (0..).filter(|key| hash(*key) == hash(0));
        let [key, absent, other] = [(); 3].map(|()| keys.next().unwrap());
        cache.put(&key, &[0; 100]).unwrap();
        cache.put(&other, &[0; 600]).unwrap();
        // While another thread is about to change something, it waits.
        let hand = cache.inner.bounds.as_ref().unwrap().hand();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| way(&cache, key, absent));
            while !thread.is_finished() && waits.load(Ordering::Relaxed) < 1000 {
                std::thread::yield_now();
            }
            cache.put(&key, &[1; 90]).unwrap();
            cache.put(&absent, &[1; 20]).unwrap();
            cache.remove(&other).unwrap();
            drop(hand);
        });
        let found = [key, absent].map(|key| cache.get(&key).unwrap().unwrap());
        assert_eq!(found, [vec![1; 90], vec![1; 20]]);
        cache.check(&mut |finding| panic!("{finding:?}")).unwrap();
    }
}

/// A close saves the order for who can open the cache again.
#[test]
fn nothing_is_saved_for_nobody() {
    fn saved(cache: Cache<u64, u64>, drops: bool) -> usize {
        (0..4).for_each(|key| cache.put(&key, &key).unwrap());
        let Cache { map, inner, guard } = cache;
        let map = Some(map).filter(|_| !drops);
        guard.end(map.iter().len()).unwrap();
        saved::take(inner.beside.as_ref().unwrap()).unwrap().len()
    }
    let bounded = Options::new().sweep(false).max_entries(4).eviction(Policy::Lru);
    for (options, drops) in [(false, false), (false, true), (true, false), (true, true)]
        .map(|(keeps, drops)| (bounded.clone().keep_evicted(keeps), drops))
    {
        assert_eq!(saved(options.in_memory().unwrap(), drops), 0);
        let cache: Cache<u64, u64> = options.in_memory().unwrap();
        let pool = Pool::of(&cache);
        assert_eq!(saved(cache, drops), 4);
        drop(pool);
        assert_eq!(saved(options.create_on(Sim::new(1 << 20)).unwrap(), drops), 4);
        // Nor is it where others may need the room.
        let cache: Cache<u64, u64> = options.create_on(Sim::new(1 << 20)).unwrap();
        let other = Options::new();
        let other: crate::Map<u64, u64> = Pool::of(&cache).open_or_create("other", &other).unwrap();
        while (0..4).all(|_| other.put(&other.len().unwrap(), &0).is_ok()) {}
        drop(other);
        assert_eq!(saved(cache, drops), 0);
    }
}

/// A round that another thread has ended is not walked again.
#[test]
fn threads_that_find_no_room_walk_together() {
    let clock = Clock::manual(1000);
    let options = Options::new().clock(clock.clone()).sweep(false);
    let cache: Cache<u64, u64> = options.in_memory().unwrap();
    (1..2000).for_each(|key| cache.put_for(&key, &key, key as u32 * MILLI).unwrap());
    while cache.step().unwrap() {}
    let (inner, mut asked) = (&cache.inner, 0);
    let mut done = || {
        asked += 1;
        clock.advance(MILLI);
        // The other one comes when this one has begun.
        while asked == 2 && inner.sweep().unwrap().round.is_none() {}
        clock.advance(MILLI);
        false
    };
    inner.sweep_until(&mut done).unwrap();
    assert_eq!(asked, 3, "before, behind the first step, and when the round has ended");
}
