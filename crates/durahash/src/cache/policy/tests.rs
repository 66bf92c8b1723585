use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use durahash_media::hash::WordMix;

use super::{Evict, Policy};

const MIX: WordMix = WordMix::new(7);

/// All that evict, each for so many entries.
fn all(entries: u64) -> impl Iterator<Item = (Policy, Box<dyn Evict>)> {
    Policy::ALL.iter().filter_map(move |policy| Some((*policy, policy.state(entries, u64::MAX)?)))
}

/// Everything that a policy knows, which it then does not any more.
fn drain(evict: &dyn Evict) -> Vec<u64> {
    std::iter::from_fn(|| evict.victim()).collect()
}

#[test]
fn every_entry_goes_once_whatever_was_hit() {
    // One shard, and several.
    for entries in [1, 10, 1000, 50_000] {
        for (policy, evict) in all(entries) {
            (0..entries).for_each(|i| evict.inserted(MIX.mix(i)));
            (0..entries).filter(|i| i % 3 > 0).for_each(|i| {
                (0..i % 5).for_each(|_| evict.hit(MIX.mix(i)));
            });
            let mut gone: Vec<u64> = drain(&*evict).into_iter().map(|h| MIX.unmix(h)).collect();
            gone.sort_unstable();
            assert!(gone.into_iter().eq(0..entries), "{policy} of {entries}");
            evict.inserted(5);
            assert_eq!(drain(&*evict), [5], "{policy}");
        }
    }
}

/// Entries that are inserted, hit, removed, inserted again and evicted at random are those of a set.
#[test]
fn removed_entries_are_no_victims_and_may_come_again() {
    for (policy, evict) in all(20_000) {
        let mut there = HashSet::new();
        for i in 0..400_000_u64 {
            let draw = MIX.mix(i);
            let hash = MIX.mix(draw % 30_000);
            match (draw >> 32) % 8 {
                0..4 if there.insert(hash) => evict.inserted(hash),
                4 | 5 if there.remove(&hash) => evict.removed(hash),
                6 if !there.is_empty() => {
                    let victim = evict.victim().expect("it has entries");
                    assert!(there.remove(&victim), "{policy}: {victim:#x} is not there");
                }
                _ if there.contains(&hash) => evict.hit(hash),
                _ => {}
            }
        }
        let rest = drain(&*evict);
        assert_eq!(rest.len(), there.len(), "{policy}");
        assert!(rest.iter().all(|hash| there.remove(hash)), "{policy}");
    }
}

#[test]
fn calls_of_threads_may_come_in_another_order() {
    for (policy, evict) in all(100) {
        // Inserted and removed, told the other way round.
        evict.removed(1);
        evict.inserted(1);
        assert_eq!(evict.victim(), None, "{policy}");
        // A victim that another thread removes first.
        for early in [true, false] {
            evict.inserted(2);
            assert_eq!(evict.victim(), Some(2), "{policy}");
            if early {
                evict.removed(2);
                evict.inserted(2);
            } else {
                evict.inserted(2);
                evict.removed(2);
            }
            assert_eq!(evict.victim(), None, "{policy}");
            evict.inserted(2);
            assert_eq!(drain(&*evict), [2], "{policy}");
        }
    }
}

/// Of the others nothing is saved: they draw.
fn has_order(policy: Policy) -> bool {
    ![Policy::Random, Policy::Soonest].contains(&policy)
}

/// What was saved and is not there any more is left out, what is there and was not saved comes behind it, and the others
/// go in the order in which they would have gone.
#[test]
fn an_order_is_restored_for_what_is_there() {
    for entries in [10, 50_000] {
        for (policy, evict) in all(entries) {
            (0..entries).for_each(|i| evict.inserted(MIX.mix(i)));
            (0..entries).filter(|i| i % 3 > 0).for_each(|i| evict.hit(MIX.mix(i)));
            (0..entries / 5).for_each(|i| evict.removed(MIX.mix(i)));
            let saved: Vec<u64> = (0..).map_while(|part| evict.save(part)).flatten().collect();
            assert_eq!(
                saved.len() as u64,
                if has_order(policy) { entries - entries / 5 } else { 0 }
            );
            let there = entries / 10..entries * 11 / 10;
            let again = policy.state(entries, u64::MAX).unwrap();
            again.restore(there.clone().map(|i| MIX.mix(i)).collect(), &saved);
            let mut gone: Vec<u64> = drain(&*again).into_iter().map(|h| MIX.unmix(h)).collect();
            gone.sort_unstable();
            assert!(gone.into_iter().eq(there), "{policy} of {entries}");
        }
    }
    // Of one shard, whose table tells all apart.
    for (policy, evict) in all(100).filter(|(policy, _)| has_order(*policy)) {
        let used = |evict: &dyn Evict| {
            (0..100).for_each(|i| evict.inserted(MIX.mix(i)));
            (0..100).filter(|i| i % 3 > 0).for_each(|i| evict.hit(MIX.mix(i)));
        };
        used(&*evict);
        let again = policy.state(100, u64::MAX).unwrap();
        again.restore((0..100).map(|i| MIX.mix(i)).collect(), &evict.save(0).unwrap());
        let [gone, also] = [evict, again].map(|evict| drain(&*evict));
        let same = gone.iter().zip(&also).filter(|(a, b)| a == b).count();
        assert!(same > 90, "{policy}: {same}");
    }
}

/// Also where entries come and go by themselves and none is evicted.
#[test]
fn an_entry_takes_few_bytes() {
    for entries in [20_000, 100_000, 300_000] {
        for (policy, evict) in all(entries) {
            let most = |what| {
                let each = evict.bytes() as f64 / entries as f64;
                println!("{policy} of {entries}, {what}: {each:.2} bytes an entry");
                assert!(each <= if policy == Policy::TinyLfu { 19.0 } else { 16.0 });
            };
            (0..entries).for_each(|i| evict.inserted(MIX.mix(i)));
            most("full");
            for i in entries..3 * entries {
                evict.victim();
                evict.inserted(MIX.mix(i));
            }
            most("after evictions");
            let rest = drain(&*evict);
            rest.iter().for_each(|hash| evict.inserted(*hash));
            for (i, hash) in (0..).zip(rest) {
                evict.removed(hash);
                evict.inserted(MIX.mix(1 << 40 | i));
            }
            most("after removals");
        }
    }
}

/// One thread hits, others insert and evict: each entry goes once.
#[test]
fn threads_share_a_policy() {
    const ENTRIES: u64 = 10_000;
    const EACH: u64 = 40_000;
    for (policy, evict) in all(ENTRIES) {
        let (gone, done) = (Mutex::new(Vec::new()), AtomicU64::new(0));
        thread::scope(|scope| {
            for thread in 0..2 {
                let (evict, gone, done) = (&evict, &gone, &done);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for i in thread * EACH..(thread + 1) * EACH {
                        evict.inserted(MIX.mix(i));
                        if i % 8 < 5 {
                            mine.extend(evict.victim());
                        }
                    }
                    gone.lock().unwrap().extend(mine);
                    done.fetch_add(1, Ordering::Release);
                });
            }
            let mut i = 0;
            while done.load(Ordering::Acquire) < 2 {
                evict.hit(MIX.mix(i % (2 * EACH)));
                i += 7;
            }
        });
        let mut gone = gone.into_inner().unwrap();
        gone.extend(drain(&*evict));
        gone.sort_unstable();
        let mut all: Vec<u64> = (0..2 * EACH).map(|i| MIX.mix(i)).collect();
        all.sort_unstable();
        assert_eq!(gone, all, "{policy}");
    }
}

/// What is looked up over and over stays while others pass that are used once; a queue without a second look loses it.
#[test]
fn a_scan_evicts_none_of_what_is_hot() {
    const ENTRIES: u64 = 1000;
    for (policy, evict) in all(ENTRIES) {
        let mut there = HashSet::new();
        let mut look_up = |key: u64| {
            let hash = MIX.mix(key);
            if there.contains(&hash) {
                evict.hit(hash);
                return true;
            }
            if there.len() == ENTRIES as usize {
                there.remove(&evict.victim().expect("it is full"));
            }
            evict.inserted(hash);
            there.insert(hash);
            false
        };
        let hot = || (0..5).flat_map(|_| 0..ENTRIES / 2);
        hot().for_each(|key| {
            look_up(key);
        });
        (0..2 * ENTRIES).for_each(|i| {
            look_up(1 << 32 | i);
        });
        let found = (0..ENTRIES / 2).filter(|key| look_up(*key)).count() as u64;
        match policy {
            Policy::S3Fifo | Policy::TinyLfu => assert!(found > 450, "{policy}: {found}"),
            Policy::Lru | Policy::Random | Policy::Soonest => {
                assert!(found < 250, "{policy}: {found}")
            }
            _ => {}
        }
    }
}
