//! Real threads on real media: what they were answered is linearizable.
//!
//! Between two barriers a few threads do a few operations on a few keys, and write down when each
//! began and ended by a clock that all share. Afterwards the history of each key is explained, or
//! not. Units are tiny, so nearly every round splits or merges something.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash::{Design, Map, Options};
use durahash_crash::linear::{Operation, outcomes};
use durahash_crash::script::{Op, Rng};
use durahash_media::sim::{budget, seed};
use durahash_media::{Dram, Geometry};

const THREADS: u64 = 3;
const OPS: u64 = 8;
const KEYS: usize = 20;

/// Every design, in sizes with which nearly every round changes units.
fn options() -> impl Iterator<Item = Options> {
    Design::ALL.iter().map(|design| {
        let extent_shift = if *design == Design::Reh { 12 } else { 10 };
        let geometry = Geometry { extent_shift, slots: 2, hash_bits: 0, buckets: 0 };
        Options::new().design(*design).seed(3).max_bytes(1 << 20).geometry(geometry)
    })
}

/// Of several size classes, so that blocks are freed and taken again.
fn text(v: u64) -> String {
    format!("{v}{}", "-".repeat(v as usize % 9 * 20))
}

/// Does operations on a map of words, which answers with what it found.
fn words(map: &Map<u64, u64>) -> impl Fn(Op, u64) -> Option<u64> + Sync {
    |op, key| {
        let found = match op {
            Op::Put(_, v) => map.insert(&key, &v),
            Op::Remove(_) => map.remove(&key),
            _ => map.get(&key),
        };
        found.unwrap()
    }
}

fn records(map: &Map<str, [u8]>) -> impl Fn(Op, u64) -> Option<u64> + Sync {
    |op, key| {
        let name = format!("key {key}");
        let found = match op {
            Op::Put(_, v) => map.insert(&name, text(v).as_bytes()),
            Op::Remove(_) => map.remove(&name),
            _ => map.get(&name),
        };
        found.unwrap().map(|bytes| {
            let found = String::from_utf8(bytes).unwrap();
            let v = found.trim_end_matches('-').parse().unwrap();
            assert_eq!(found, text(v));
            v
        })
    }
}

fn rounds(apply: impl Fn(Op, u64) -> Option<u64> + Sync, rounds: u64) {
    let (clock, barrier) = (AtomicU64::new(0), Barrier::new(THREADS as usize));
    let mut state = vec![None; KEYS];
    let from = seed(0) << 32;
    // Barriers are dear, so that a thread does a round after the other without being joined.
    let work = |thread: u64| {
        let mut histories = Vec::new();
        for round in 0..rounds {
            let mut rng = Rng::new(from + round * THREADS + thread);
            let mut history = Vec::new();
            barrier.wait();
            for i in 0..OPS {
                let key = rng.below(KEYS) as u16;
                // Rounds of filling and of emptying take turns, so that units split and merge.
                let most = if round / 4 % 2 == 0 { 3 } else { 1 };
                let op = match rng.below(7) {
                    n if n < most => Op::Put(key, (round * THREADS + thread) * OPS + i + 1),
                    0..4 => Op::Remove(key),
                    _ => Op::Get(key),
                };
                let begin = clock.fetch_add(1, Ordering::SeqCst);
                let answer = apply(op, u64::from(key));
                let end = clock.fetch_add(1, Ordering::SeqCst);
                history.push(Operation { op, begin, end: Some((end, answer)) });
            }
            histories.push(history);
        }
        histories
    };
    let histories: Vec<Vec<Vec<Operation>>> = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || work(t))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for round in 0..rounds as usize {
        for (key, values) in state.iter_mut().enumerate() {
            let all = histories.iter().flat_map(|thread| &thread[round]);
            let of_key: Vec<Operation> =
                all.filter(|o| o.op.key() == Some(key as u16)).copied().collect();
            // Rounds do not overlap, so that each goes on from what the one before may have left.
            let before: Vec<Option<u64>> = match values {
                None => vec![None],
                Some(values) => std::mem::take(values),
            };
            let mut after: Vec<Option<u64>> = Vec::new();
            for value in before {
                after.extend(outcomes(value, &of_key));
            }
            after.sort_unstable();
            after.dedup();
            assert!(!after.is_empty(), "round {round}, key {key}: {of_key:?}");
            *values = Some(after);
        }
    }
    println!("{} histories", rounds as usize * KEYS);
    for (key, values) in state.iter().enumerate() {
        let found = apply(Op::Get(key as u16), key as u64);
        assert!(values.as_ref().is_some_and(|values| values.contains(&found)));
    }
}

#[test]
fn words_in_memory() {
    for options in options() {
        let map: Map<u64, u64> = options.create_on(Dram::new(1 << 20).unwrap()).unwrap();
        rounds(words(&map), budget(2_000, 30_000));
        assert!(map.stats().unwrap().index.merges > budget(20, 100));
    }
}

#[test]
fn words_on_a_file() {
    let dir = tempfile::tempdir().unwrap();
    for (i, options) in options().enumerate() {
        let map: Map<u64, u64> = options.create(dir.path().join(i.to_string())).unwrap();
        rounds(words(&map), budget(2_000, 30_000));
    }
}

#[test]
fn records_in_memory() {
    for options in options() {
        let map: Map<str, [u8]> = options.create_on(Dram::new(1 << 20).unwrap()).unwrap();
        rounds(records(&map), budget(2_000, 30_000) / 2);
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
    }
}
