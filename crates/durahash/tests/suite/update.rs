//! Updates by closures: a panic, a value that is refused, and what several threads make at once.

use std::borrow::Borrow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use durahash::{Change, Cursor, Design, ErrorKind, Limit, MAX_VALUE_BYTES, Map, Options, SyncMode};
use durahash_media::sim::faults;
use durahash_media::{Dram, Geometry};
use durahash_testkit::{Sample, assert_sound, new_path};

/// Small buckets and segments.
const TINY: Geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };
const DESIGNS: [Design; 4] = [Design::Reh, Design::Pea, Design::Esh, Design::Rewo];

fn a_panic_changes_nothing_and_holds_no_lock<K: Sample + ?Sized, V: Sample + ?Sized>() {
    for design in DESIGNS {
        let map: Map<K, V> = Options::new().design(design).in_memory().unwrap();
        map.put(K::sample(1).borrow(), V::sample(1).borrow()).unwrap();
        for key in [1, 2] {
            let key = K::sample(key);
            let before = map.get(key.borrow()).unwrap();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                map.update(key.borrow(), |found| {
                    assert_eq!(found, before);
                    panic!("on purpose")
                })
            }));
            assert!(panicked.is_err());
            assert_eq!(map.get(key.borrow()).unwrap(), before);
            map.update(key.borrow(), |_| Change::Set(V::sample(3))).unwrap();
            assert_eq!(map.get(key.borrow()).unwrap(), Some(V::sample(3)));
        }
        assert_sound(&map);
    }
}

/// By a caller that panics outside of any operation.
#[test]
fn a_pool_that_is_dropped_by_a_panic_is_closed() {
    const STATE_OFF: usize = 128;
    for design in DESIGNS {
        let (_dir, path) = new_path();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let map: Map<u64, u64> = Options::new().design(design).create(&path).unwrap();
            map.put(&1, &1).unwrap();
            assert!(map.is_empty().unwrap(), "on purpose");
        }));
        assert!(panicked.is_err());
        let state = std::fs::read(&path).unwrap()[STATE_OFF..][..8].try_into().unwrap();
        assert_eq!(u64::from_le_bytes(state) >> 32 & 1, 1, "{design}: the bit of a closed pool");
    }
}

#[test]
fn a_panic_in_an_update_of_words() {
    a_panic_changes_nothing_and_holds_no_lock::<u64, u64>();
}

#[test]
fn a_panic_in_an_update_of_records() {
    a_panic_changes_nothing_and_holds_no_lock::<str, [u8]>();
}

/// The conditional and the many, which are made of the others.
#[test]
fn all_designs_remove_by_condition_and_many_at_once() {
    for design in DESIGNS {
        let options = Options::new().design(design);
        let map: Map<str, u64> = options.in_memory().unwrap();
        let keys: Vec<String> = (0..1000).map(str::sample).collect();
        let pairs: Vec<(&str, u64)> = keys.iter().map(String::as_str).zip(0..).collect();
        map.put_many(&pairs).unwrap();
        for (key, i) in keys.iter().zip(0..) {
            let removed = map.remove_if(key, |value| value % 3 == 0).unwrap();
            assert_eq!(removed, (i % 3 == 0).then_some(i), "{design}");
        }
        assert_eq!(map.remove_many(&keys[..500]).unwrap(), 333, "{design}");
        assert_eq!(map.len().unwrap(), 333);
        assert_sound(&map);
    }
}

#[test]
fn a_value_that_is_too_large_is_refused() {
    let map: Map<u64, [u8]> = Options::new().in_memory().unwrap();
    map.put(&1, b"one").unwrap();
    let error = map.update(&1, |_| Change::Set(vec![0; MAX_VALUE_BYTES + 1])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
    assert_eq!(map.get(&1).unwrap().as_deref(), Some(&b"one"[..]));
    assert_sound(&map);
}

/// A pool without room for a new record still changes and removes in place of what is there.
#[test]
fn a_full_pool_refuses_growth_and_goes_on_removing() {
    let map: Map<u64, [u8]> = Options::new().max_bytes(4 << 20).in_memory().unwrap();
    let full = (0..).find(|i| map.update(i, |_| Change::Set(vec![1; 10_000])).is_err()).unwrap();
    let error = map.update(&full, |_| Change::Set(vec![1; 10_000])).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Full { .. }), "{error}");
    assert_eq!(map.retain(|key, _| key % 2 == 0).unwrap(), full / 2);
    map.update(&full, |old| Change::Set(old.unwrap_or_else(|| vec![1; 10_000]))).unwrap();
    assert_sound(&map);
}

#[test]
fn of_several_threads_one_makes_the_value() {
    for design in DESIGNS {
        let map: Map<str, u64> = Options::new().design(design).in_memory().unwrap();
        let made = AtomicU64::new(0);
        let make = || made.fetch_add(1, Ordering::Relaxed);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for i in 0..200 {
                        map.get_or_insert_with(&format!("key {i}"), make).unwrap();
                    }
                });
            }
        });
        assert_eq!((made.into_inner(), map.len().unwrap()), (200, 200));
    }
}

/// A map for which room was reserved splits next to nothing while it is filled, and is sound before and after.
#[test]
fn reserved_room_keeps_from_splitting() {
    for design in DESIGNS {
        let map: Map<u64, u64> = Options::new().design(design).seed(7).in_memory().unwrap();
        map.put(&0, &0).unwrap();
        map.reserve(100_000).unwrap();
        assert_sound(&map);
        let before = map.stats().unwrap().index;
        map.extend((0..100_000).map(|i| (i, i))).unwrap();
        let after = map.stats().unwrap().index;
        let units: u64 = after.depths.iter().sum();
        assert!(design == Design::Rewo || after.splits - before.splits <= units / 50, "{design}");
        assert_sound(&map);
        let most = map.reserve(u64::MAX).unwrap_err();
        // No limit was set, so none is blamed.
        assert!(matches!(most.kind(), ErrorKind::Full { limit: Limit::Memory, .. }), "{most}");
    }
    let limited = Options::new().max_bytes(8 << 20).sync_mode(SyncMode::Process);
    let map: Map<u64, u64> = limited.in_memory().unwrap();
    let full = map.reserve(500_000).unwrap_err();
    assert!(matches!(full.kind(), ErrorKind::Full { limit: Limit::Pool { .. }, .. }), "{full}");
    map.put(&1, &1).unwrap();
    assert_sound(&map);
}

/// Room for more than there is memory is refused, whatever the pool's limit, and takes none; what is there is not asked
/// for again.
#[test]
fn room_that_memory_does_not_have_is_refused() {
    for design in DESIGNS {
        for options in [Options::new(), Options::new().max_bytes(1 << 40)] {
            let map: Map<u64, u64> = options.design(design).in_memory().unwrap();
            map.put(&1, &1).unwrap();
            faults::MEMORY_LEFT.set(Some(8 << 20));
            map.reserve(100_000).unwrap();
            let before = map.stats().unwrap().space.bytes;
            let full = map.reserve(1_000_000).unwrap_err();
            let no_memory = matches!(full.kind(), ErrorKind::Full { limit: Limit::Memory, .. });
            assert!(no_memory && full.to_string().contains("memory"), "{full}");
            assert_eq!(map.stats().unwrap().space.bytes, before, "{design}");
            if design != Design::Rewo {
                faults::MEMORY_LEFT.set(Some(5 << 20));
                map.reserve(90_000).unwrap();
            }
            map.extend((0..100_000).map(|i| (i, i))).unwrap();
            faults::MEMORY_LEFT.set(None);
        }
    }
    let left = Dram::memory_left();
    assert!((1 << 20..1 << 50).contains(&left), "{left}");
}

/// Steps of a walk, between which all kinds of things happen: what stays is given once, wherever the walk is.
#[test]
fn a_walk_in_steps_survives_splits_merges_and_a_reopen() {
    const STABLE: u64 = 500;
    let dir = tempfile::tempdir().unwrap();
    for design in DESIGNS {
        let path = dir.path().join(design.to_string());
        let options = Options::new().design(design).geometry(TINY).max_bytes(1 << 24);
        let options = options.sync_mode(SyncMode::Process);
        let mut map: Map<u64, u64> = options.create(&path).unwrap();
        map.extend((0..STABLE).map(|i| (i, !i))).unwrap();
        let (mut at, mut seen, mut steps) = (Some(Cursor::START), Vec::new(), 0);
        while let Some(from) = at {
            let (entries, next) = map.scan(Cursor::from_word(from.to_word()), 10).unwrap();
            assert!(entries.len() >= 10 || next.is_none());
            seen.extend(entries.into_iter().filter(|(key, _)| *key < STABLE));
            at = next;
            steps += 1;
            match steps % 3 {
                0 => map.extend((STABLE..2 * STABLE).map(|i| (i, i))).unwrap(),
                1 => drop(map.retain(|key, _| *key < STABLE).unwrap()),
                _ => {
                    map.close().unwrap();
                    map = options.open(&path).unwrap();
                }
            }
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..STABLE).map(|i| (i, !i))), "{design}");
        // A region of Rewo-Hash has more buckets than these keys fill.
        assert!(steps > 5 || design == Design::Rewo, "{design}: {steps}");
    }
}
