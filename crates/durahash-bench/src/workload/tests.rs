use std::collections::HashSet;

use super::*;

/// The probability of each rank by the definition of the zipfian distribution.
fn exact(ranks: u64, theta: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=ranks).map(|i| (i as f64).powf(-theta)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// Gray's method is exact for the first two ranks and approximates the others; YCSB uses it as is.
#[test]
fn ranks_follow_the_zipfian_distribution() {
    follows(Zipfian::new(1000), THETA);
    for theta in [0.0, 0.4, 0.8] {
        follows(Zipfian::with_exponent(1000, theta), theta);
    }
}

fn follows(zipfian: Zipfian, theta: f64) {
    const RANKS: u64 = 1000;
    const DRAWS: u64 = 2_000_000;
    let mut random = Random::new(7);
    let mut counts = vec![0_u64; RANKS as usize];
    for _ in 0..DRAWS {
        counts[zipfian.draw(&mut random) as usize] += 1;
    }
    let share =
        |ranks: std::ops::Range<usize>| counts[ranks].iter().sum::<u64>() as f64 / DRAWS as f64;
    let exact = exact(RANKS, theta);
    for (rank, p) in exact[..2].iter().enumerate() {
        assert!((share(rank..rank + 1) - p).abs() < 0.002, "rank {rank}");
    }
    for upto in [5, 10, 50, 100, 500, 1000] {
        let p: f64 = exact[..upto].iter().sum();
        let found = share(0..upto);
        assert!((found - p).abs() < 0.02, "first {upto}: {found} for {p}");
    }
    assert!(theta == 0.0 || counts.windows(2).take(2).all(|pair| pair[0] > pair[1]));
}

#[test]
fn zeta_grows_as_if_made_so() {
    let mut grown = Zipfian::new(1000);
    grown.grow(1001);
    grown.grow(5000);
    let made = Zipfian::new(5000);
    assert_eq!(grown.ranks, made.ranks);
    assert!((grown.zeta - made.zeta).abs() < 1e-9);
    assert!((grown.eta - made.eta).abs() < 1e-9);
}

/// The sum that YCSB states, by the formula of Euler and Maclaurin from its millionth term on.
#[test]
fn zeta_of_ycsb_is_the_sum() {
    let (from, to) = (1_000_000_f64, SCRAMBLED_RANKS as f64);
    let head = Zipfian::new(1_000_000).zeta;
    let s = 1.0 - THETA;
    let tail = (to.powf(s) - from.powf(s)) / s + (to.powf(-THETA) - from.powf(-THETA)) / 2.0;
    // YCSB summed 10^10 terms, one fewer than it draws from.
    assert!((head + tail - SCRAMBLED_ZETA).abs() < 1e-6, "{}", head + tail);
}

/// Values of YCSB's `Utils.fnvhash64`, from its definition: FNV-1a of the eight bytes.
#[test]
fn hash_is_fnv_1a() {
    let of_bytes = |v: u64| {
        let hash = v.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        (hash as i64).unsigned_abs()
    };
    for v in [0, 1, 2, 255, 256, 10_000_000_000] {
        assert_eq!(fnv(v), of_bytes(v));
    }
    // Published test vector of FNV-1a 64 for eight zero bytes, made positive.
    assert_eq!(fnv(0), 0xa8c7_f832_281a_39c5_u64.cast_signed().unsigned_abs());
}

#[test]
fn scrambled_scatters_the_popular() {
    const N: u64 = 10_000;
    const DRAWS: u64 = 1_000_000;
    let scrambled = Scrambled::new(N);
    let mut random = Random::new(3);
    let mut counts = vec![0_u64; N as usize];
    for _ in 0..DRAWS {
        counts[scrambled.draw(&mut random) as usize] += 1;
    }
    // The hottest key is that of rank 0, with its share of all ranks and a little by collisions.
    let hottest = (0..N).max_by_key(|i| counts[*i as usize]);
    assert_eq!(hottest, Some(fnv(0) % N));
    let share = counts[(fnv(0) % N) as usize] as f64 / DRAWS as f64;
    assert!((share - 1.0 / SCRAMBLED_ZETA).abs() < 0.002, "{share}");
    let second = counts[(fnv(1) % N) as usize] as f64 / DRAWS as f64;
    assert!((second - 0.5_f64.powf(THETA) / SCRAMBLED_ZETA).abs() < 0.002, "{second}");
}

fn keys_of(streams: &[Vec<Op>], kinds: &[Kind]) -> Vec<u64> {
    let ops = streams.iter().flatten();
    ops.filter(|op| kinds.contains(&op.kind)).map(|op| op.key).collect()
}

/// Executes every workload on a set, threads one after another, in the order of `ALL`.
#[test]
fn every_lookup_is_what_it_says() {
    let workloads = Workloads::new(5000, 42);
    for threads in 1..=3 {
        let mut there: HashSet<u64> = HashSet::new();
        for workload in Workload::ALL {
            let streams = workloads.draw(workload, threads, 1);
            assert_eq!(streams.len(), threads);
            assert_eq!(streams.iter().map(Vec::len).sum::<usize>(), 5000);
            let mut own = HashSet::new();
            let there = match workload {
                Workload::PutMany => &mut own,
                _ => &mut there,
            };
            for op in streams.iter().flatten() {
                match op.kind {
                    Kind::Put => {
                        let new = there.insert(op.key);
                        let inserts = matches!(workload, Workload::Load | Workload::PutMany);
                        assert!(new || !inserts);
                    }
                    Kind::Remove => assert!(there.remove(&op.key), "{workload:?}"),
                    Kind::Get | Kind::ReadModifyWrite => {
                        assert_eq!(there.contains(&op.key), workload != Workload::Miss);
                    }
                }
            }
        }
        let inserted = keys_of(&workloads.draw(Workload::YcsbD, threads, 1), &[Kind::Put]);
        assert!(inserted.iter().all(|key| there.contains(key)));
    }
}

#[test]
fn draws_repeat_and_differ() {
    let workloads = Workloads::new(3000, 1);
    for workload in Workload::ALL {
        let drawn = workloads.draw(workload, 2, 0);
        assert_eq!(drawn, Workloads::new(3000, 1).draw(workload, 2, 0));
        let loads = matches!(workload, Workload::Load | Workload::PutMany);
        assert_eq!(drawn == workloads.draw(workload, 2, 1), loads, "{workload:?}");
        assert_ne!(drawn, Workloads::new(3000, 2).draw(workload, 2, 0));
        assert_ne!(drawn[0], drawn[1]);
    }
    // No workload reads keys in the order of another one, nor in the order of the load.
    let gets = [Workload::Hit, Workload::GetMany, Workload::Update, Workload::Delete];
    let orders: HashSet<Vec<u64>> = gets
        .map(|workload| workloads.draw(workload, 1, 0)[0].iter().map(|op| op.key).collect())
        .into();
    assert_eq!(orders.len(), gets.len());
}

#[test]
fn keys_of_different_kinds_are_disjoint() {
    let workloads = Workloads::new(4000, 9);
    let loaded: HashSet<u64> =
        keys_of(&workloads.draw(Workload::Load, 2, 0), &[Kind::Put]).into_iter().collect();
    assert_eq!(loaded.len(), 4000);
    let absent = keys_of(&workloads.draw(Workload::Miss, 2, 0), &[Kind::Get]);
    let mut fresh = keys_of(&workloads.draw(Workload::YcsbD, 2, 0), &[Kind::Put]);
    fresh.extend(keys_of(&workloads.draw(Workload::Mixed, 2, 0), &[Kind::Put]));
    assert!(absent.iter().chain(&fresh).all(|key| !loaded.contains(key)));
    let distinct: HashSet<&u64> = fresh.iter().collect();
    assert_eq!(distinct.len(), fresh.len());
    assert!(absent.iter().all(|key| !distinct.contains(key)));
}

#[test]
fn mixes_have_their_shares() {
    let workloads = Workloads::new(100_000, 5);
    let share = |workload, kind| {
        let streams = workloads.draw(workload, 2, 0);
        keys_of(&streams, &[kind]).len() as f64 / 100_000.0
    };
    for (workload, kind, expected) in [
        (Workload::YcsbA, Kind::Get, 0.5),
        (Workload::YcsbA, Kind::Put, 0.5),
        (Workload::YcsbB, Kind::Put, 0.05),
        (Workload::YcsbC, Kind::Get, 1.0),
        (Workload::YcsbD, Kind::Put, 0.05),
        (Workload::YcsbF, Kind::ReadModifyWrite, 0.5),
        (Workload::Mixed, Kind::Get, 0.5),
        (Workload::Mixed, Kind::Remove, 0.25),
    ] {
        let found = share(workload, kind);
        assert!((found - expected).abs() < 0.01, "{workload:?} {kind:?}: {found}");
    }
}

/// YCSB D reads by age: the newest key most, with the share of rank 0.
#[test]
fn latest_are_read_most() {
    let workloads = Workloads::new(50_000, 5);
    let stream = &workloads.draw(Workload::YcsbD, 1, 0)[0];
    let mut newest = workloads.key(49_999);
    let (mut reads, mut of_newest) = (0_u64, 0_u64);
    for op in stream {
        match op.kind {
            Kind::Put => newest = op.key,
            _ => {
                reads += 1;
                of_newest += u64::from(op.key == newest);
            }
        }
    }
    let share = of_newest as f64 / reads as f64;
    assert!((share - 1.0 / Zipfian::new(51_000).zeta).abs() < 0.01, "{share}");
}

#[test]
fn one_key_is_enough() {
    for workload in Workload::ALL {
        let streams = Workloads::new(1, 0).draw(workload, 2, 0);
        assert_eq!(streams.iter().map(Vec::len).sum::<usize>(), 1, "{workload:?}");
    }
}
