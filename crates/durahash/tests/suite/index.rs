//! Every design alone, on DRAM, at the level of hashes and payloads.

use std::collections::HashMap;

use durahash::Design;
use durahash::index::{Change, Index, Room};
use durahash_media::{Dram, Geometry};
use durahash_testkit::index_of;

use super::{assert_holds, put, remove};

/// As far as they may grow.
const TINY_BYTES: u64 = 4 << 20;

/// A design, with so many slots a bucket (0 is all) and 1 KiB extents.
fn tiny_of(design: Design, slots: u8) -> Box<dyn Index> {
    let geometry = Geometry { extent_shift: 10, slots, hash_bits: 0, buckets: 0 };
    index_of(design, Dram::new(TINY_BYTES).unwrap(), geometry)
}

/// Every design.
fn tiny(slots: u8) -> impl Iterator<Item = Box<dyn Index>> {
    Design::ALL.iter().map(move |design| tiny_of(*design, slots))
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 1
}

#[test]
fn grows_and_shrinks_as_the_model_does() {
    for slots in [2, 3, 5, 0] {
        for index in tiny(slots) {
            let mut model = HashMap::new();
            let mut random = if slots == 0 { 15 } else { u64::from(slots) };
            let keys: Vec<u64> =
                (0..300).map(|_| next(&mut random) << 1 | 1).chain([0, u64::MAX]).collect();
            for round in 0..6 {
                for step in 0..600 {
                    let h = keys[(next(&mut random) % keys.len() as u64) as usize];
                    let fill = if round % 2 == 0 { 8 } else { 2 };
                    if next(&mut random) % 10 < fill {
                        assert_eq!(put(&*index, h, step), model.insert(h, step));
                    } else {
                        assert_eq!(remove(&*index, h), model.remove(&h));
                    }
                    let probe = keys[(next(&mut random) % keys.len() as u64) as usize];
                    assert_eq!(index.get(probe).unwrap(), model.get(&probe).copied());
                }
                assert_holds(&*index, &model);
            }
            for h in &keys {
                remove(&*index, *h);
            }
            assert_holds(&*index, &HashMap::new());
            while index.step().unwrap() {}
            let stats = index.stats();
            // Those of Rewo-Hash double or halve everything; some of them are rebuilds.
            let least = if stats.depths.is_empty() { 3 } else { 4 };
            let grown = stats.splits + stats.rewo.map_or(0, |rewo| rewo.rebuilds);
            assert!(grown >= least && stats.merges >= least, "{stats:?}");
            if stats.depths.is_empty() {
                assert_eq!(stats.rewo.unwrap().tables, 1, "the others were given back");
            } else {
                assert_eq!(stats.depths, [0, 2], "everything has merged");
                assert!(stats.doublings > 0 && stats.halvings > 0, "{stats:?}");
            }
        }
    }
}

#[test]
fn an_error_of_the_closure_changes_nothing() {
    for index in tiny(3) {
        let fail = |_| Err(durahash_media::ErrorKind::Poisoned.into());
        assert!(index.update(7, Room::ForNew, &mut { fail }).is_err());
        put(&*index, 7, 1);
        assert!(index.update(7, Room::ForNew, &mut { fail }).is_err());
        assert_holds(&*index, &HashMap::from([(7, 1)]));
    }
}

#[test]
fn a_panic_inside_an_operation_stops_writers_and_leaves_no_lock() {
    for index in tiny(3) {
        put(&*index, 7, 1);
        let broke = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = index.update(7, Room::None, &mut |_| panic!("on purpose"));
        }));
        assert!(broke.is_err());
        assert_eq!(index.get(7).unwrap(), Some(1));
        let refused = index.update(7, Room::None, &mut |_| Ok(Change::Remove)).unwrap_err();
        assert!(matches!(refused.kind(), durahash_media::ErrorKind::Poisoned));
        assert_holds(&*index, &HashMap::from([(7, 1)]));
    }
}

#[test]
fn a_shared_prefix_is_bounded_and_nothing_is_lost() {
    // Rewo-Hash mixes hashes again before it chooses buckets.
    for index in Design::ALL.iter().filter(|d| **d != Design::Rewo).map(|d| tiny_of(*d, 2)) {
        let mut model = HashMap::new();
        let mut refused = 0;
        for i in 0..40 {
            match index.update(i, Room::ForNew, &mut |_| Ok(Change::Set(i))) {
                Ok(_) => drop(model.insert(i, i)),
                Err(e) => {
                    assert!(matches!(e.kind(), durahash_media::ErrorKind::Skewed { .. }), "{e}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
        assert_holds(&*index, &model);
    }
}

#[test]
fn a_full_pool_still_answers_and_removes() {
    for index in tiny(0) {
        let mut model = HashMap::new();
        let mut random = 9;
        loop {
            let h = next(&mut random) << 1;
            match index.update(h, Room::ForNew, &mut |_| Ok(Change::Set(1))) {
                Ok(_) => drop(model.insert(h, 1)),
                Err(e) => {
                    assert!(matches!(e.kind(), durahash_media::ErrorKind::Full { .. }), "{e}");
                    break;
                }
            }
        }
        assert_holds(&*index, &model);
        for (h, v) in model.drain() {
            assert_eq!(remove(&*index, h), Some(v));
        }
        assert_holds(&*index, &model);
        let stats = index.stats();
        assert!(
            stats.depths.is_empty() || stats.depths == [0, 2],
            "everything has merged: {stats:?}"
        );
    }
}
