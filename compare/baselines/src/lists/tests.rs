use std::collections::HashMap;

use durahash::{Design, Map, MultiMap, Options};
use durahash_bench::driver::together;
use durahash_bench::workload::Random;
use durahash_media::Dram;
use durahash_media::metered::Metered;

use super::*;

fn lists() -> Lists<Dram> {
    let heads: Map<u64, u64> = Options::new().design(Design::Pea).in_memory().unwrap();
    Lists::new(Box::new(heads), Dram::new(1 << 30).unwrap()).unwrap()
}

fn sorted(mut values: Vec<u64>) -> Vec<u64> {
    values.sort_unstable();
    values
}

/// Random operations on few keys, so that lists grow, have gaps, and go.
fn follows_a_model(table: &dyn MultiTable) {
    let mut model: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut random = Random::new(5);
    for i in 0..60_000 {
        let key = random.below(20);
        let values = model.entry(key).or_default();
        match random.below(100) {
            0 => {
                assert_eq!(table.remove_all(key).unwrap(), values.len() as u64);
                values.clear();
            }
            1..=40 if !values.is_empty() => {
                let at = random.below(values.len() as u64) as usize;
                assert!(table.remove_one(key, values.swap_remove(at)).unwrap());
            }
            41..=44 => assert!(!table.remove_one(key, u64::MAX).unwrap()),
            45..=50 => {
                assert_eq!(table.count(key).unwrap(), values.len() as u64);
                assert_eq!(sorted(table.get_all(key).unwrap()), sorted(values.clone()));
            }
            _ => {
                table.add(key, i % 1000).unwrap();
                values.push(i % 1000);
            }
        }
    }
    for (key, values) in model {
        assert_eq!(sorted(table.get_all(key).unwrap()), sorted(values));
    }
}

#[test]
fn lists_and_multimaps_are_the_same_to_their_users() {
    follows_a_model(&lists());
    follows_a_model(&Options::new().design(Design::Pea).in_memory::<MultiMap<u64, u64>>().unwrap());
}

#[test]
fn threads_add_to_the_same_lists_while_others_read() {
    const VALUES: u64 = 3000;
    let lists = lists();
    together(&[0, 1, 2], |thread| {
        for i in 0..VALUES {
            let key = i % 3;
            if *thread == 2 {
                let values = sorted(lists.get_all(key)?);
                assert!(values.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(values.iter().all(|value| value / 2 % 3 == key));
            } else if i.is_multiple_of(300) {
                // All of the key but one that comes and goes.
                lists.add(key, u64::MAX - *thread)?;
                assert!(lists.remove_one(key, u64::MAX - *thread)?);
            } else {
                lists.add(key, i * 2 + *thread)?;
            }
        }
        Ok(())
    })
    .unwrap();
    let all: u64 = (0..3).map(|key| lists.count(key).unwrap()).sum();
    assert_eq!(all, 2 * (VALUES - VALUES.div_ceil(300)));
}

/// An add to a list with room waits once where the value shares the state's line, else twice.
#[test]
fn an_add_waits_once_or_twice() {
    let medium = Metered::new(Dram::new(1 << 30).unwrap());
    let meter = std::sync::Arc::clone(medium.meter());
    let heads: Map<u64, u64> = Options::new().design(Design::Pea).in_memory().unwrap();
    let lists = Lists::new(Box::new(heads), medium).unwrap();
    let waits = |value| {
        let before = meter.counts();
        lists.add(7, value).unwrap();
        let counts = meter.counts() - before;
        counts.fences + counts.drains
    };
    waits(0);
    let found: Vec<u64> = (1..5).map(waits).collect();
    assert!(found.iter().all(|n| (1..=2).contains(n)), "{found:?}");
    assert_eq!(lists.medium_bytes().unwrap()[1], LIST_BYTES);
    waits(5);
    assert_eq!(lists.medium_bytes().unwrap()[1], 2 * LIST_BYTES);
}
