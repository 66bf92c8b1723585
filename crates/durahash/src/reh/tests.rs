//! REH alone, on DRAM, at the level of hashes and payloads.

use std::collections::HashMap;
use std::sync::Arc;

use durahash_media::{Dram, Format, Geometry, Pool};

use super::*;

fn tiny(slots: u8) -> Reh<Dram> {
    let format = Format {
        design: 1,
        kind: 0,
        key_type: 0,
        value_type: 0,
        geometry: Geometry { extent_shift: 10, slots, hash_bits: 0 },
        seed: 1,
        max_bytes: 1 << 20,
    };
    let pool = Pool::create(Dram::new(1 << 20).unwrap(), &format).unwrap();
    Reh::create(Arc::new(pool)).unwrap()
}

fn assert_sound(reh: &Reh<Dram>, model: &HashMap<u64, u64>) {
    let mut findings = Vec::new();
    reh.check(&mut |finding| findings.push(finding)).unwrap();
    assert_eq!(findings, []);
    assert_eq!(reh.len().unwrap(), model.len() as u64);
    let (mut at, mut all) = (Some(0), Vec::new());
    while let Some(from) = at {
        at = reh.scan(from, &mut all).unwrap();
    }
    assert!(all.is_sorted_by(|a, b| a.0 < b.0), "in the order of hashes, each once");
    assert_eq!(all.into_iter().collect::<HashMap<_, _>>(), *model);
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 1
}

#[test]
fn grows_and_shrinks_as_the_model_does() {
    for slots in [2, 3, 5, 15] {
        let reh = tiny(slots);
        let mut model = HashMap::new();
        let mut random = u64::from(slots);
        let keys: Vec<u64> =
            (0..300).map(|_| next(&mut random) << 1 | 1).chain([0, u64::MAX]).collect();
        for round in 0..6 {
            for step in 0..600 {
                let h = keys[(next(&mut random) % keys.len() as u64) as usize];
                let fill = if round % 2 == 0 { 8 } else { 2 };
                if next(&mut random) % 10 < fill {
                    let old = reh.update(h, Room::ForNew, &mut |_| Ok(Change::Set(step))).unwrap();
                    assert_eq!(old, model.insert(h, step));
                } else {
                    let old = reh.update(h, Room::None, &mut |_| Ok(Change::Remove)).unwrap();
                    assert_eq!(old, model.remove(&h));
                }
                let probe = keys[(next(&mut random) % keys.len() as u64) as usize];
                assert_eq!(reh.get(probe).unwrap(), model.get(&probe).copied());
            }
            assert_sound(&reh, &model);
        }
        for h in &keys {
            reh.update(*h, Room::None, &mut |_| Ok(Change::Remove)).unwrap();
        }
        assert_sound(&reh, &HashMap::new());
        let stats = reh.stats();
        assert_eq!(stats.depths, [0, 2], "everything has merged");
        assert!(stats.splits > 20 && stats.merges > 20, "{stats:?}");
        assert!(stats.doublings > 0 && stats.halvings > 0, "{stats:?}");
    }
}

#[test]
fn an_error_of_the_closure_changes_nothing() {
    let reh = tiny(3);
    let fail = |_| Err(durahash_media::ErrorKind::Poisoned.into());
    assert!(reh.update(7, Room::ForNew, &mut { fail }).is_err());
    reh.update(7, Room::ForNew, &mut |_| Ok(Change::Set(1))).unwrap();
    assert!(reh.update(7, Room::ForNew, &mut { fail }).is_err());
    assert_sound(&reh, &HashMap::from([(7, 1)]));
}

#[test]
fn a_panic_inside_an_operation_stops_writers_and_leaves_no_lock() {
    let reh = tiny(3);
    reh.update(7, Room::ForNew, &mut |_| Ok(Change::Set(1))).unwrap();
    let broke = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = reh.update(7, Room::None, &mut |_| panic!("on purpose"));
    }));
    assert!(broke.is_err());
    assert_eq!(reh.get(7).unwrap(), Some(1));
    let refused = reh.update(7, Room::None, &mut |_| Ok(Change::Remove)).unwrap_err();
    assert!(matches!(refused.kind(), durahash_media::ErrorKind::Poisoned));
    assert_sound(&reh, &HashMap::from([(7, 1)]));
}

#[test]
fn a_shared_prefix_is_bounded_and_nothing_is_lost() {
    let reh = tiny(2);
    let mut model = HashMap::new();
    let mut refused = 0;
    for i in 0..40 {
        match reh.update(i, Room::ForNew, &mut |_| Ok(Change::Set(i))) {
            Ok(_) => drop(model.insert(i, i)),
            Err(e) => {
                assert!(matches!(e.kind(), durahash_media::ErrorKind::Skewed { .. }), "{e}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    assert_sound(&reh, &model);
}

#[test]
fn a_full_pool_still_answers_and_removes() {
    let reh = tiny(15);
    let mut model = HashMap::new();
    let mut random = 9;
    loop {
        let h = next(&mut random) << 1;
        match reh.update(h, Room::ForNew, &mut |_| Ok(Change::Set(1))) {
            Ok(_) => drop(model.insert(h, 1)),
            Err(e) => {
                assert!(matches!(e.kind(), durahash_media::ErrorKind::Full { .. }), "{e}");
                break;
            }
        }
    }
    assert_sound(&reh, &model);
    let keys: Vec<u64> = model.keys().copied().collect();
    for h in keys {
        assert_eq!(
            reh.update(h, Room::None, &mut |_| Ok(Change::Remove)).unwrap(),
            model.remove(&h)
        );
    }
    assert_sound(&reh, &model);
}
