use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use durahash_bench::workload::Random;
use durahash_media::ErrorKind;
use durahash_remote::fabric::{Chaos, Counts, Fabric, Sim, SimClient, SimOptions};

use super::{Moves, Options, Race, Result};

/// Subtables of 24 slots: splits come soon.
fn tiny(moves: Moves) -> Options {
    Options {
        groups: 4,
        slots: 2,
        max_depth: 14,
        first_depth: 0,
        moves,
        chunk_bytes: 4096,
        wait_ns: 5_000,
    }
}

fn sim(seed: u64, nodes: usize, chaos: bool) -> Sim {
    let mut options = SimOptions::default();
    (options.seed, options.node_bytes) = (seed, vec![16 << 20; nodes]);
    (options.max_clients, options.chaos) = (16, chaos.then(Chaos::default));
    Sim::new(options)
}

fn run<T: 'static>(
    sim: &Sim,
    client: &SimClient,
    f: impl Future<Output = Result<T>> + 'static,
) -> T {
    let task = sim.spawn(client, f);
    sim.run();
    task.take().expect("the task ends").unwrap()
}

fn key(i: u64) -> Vec<u8> {
    format!("key {i}").into_bytes()
}

/// An index that one client has made and others have opened.
fn opened(sim: &Sim, options: Options, clients: usize) -> Vec<(SimClient, Rc<Race<SimClient>>)> {
    let mut all: Vec<(SimClient, Rc<Race<SimClient>>)> = Vec::new();
    for i in 0..clients {
        let client = sim.client().unwrap();
        let of_client = client.clone();
        let race = run(sim, &client, async move {
            match i {
                0 => Race::create(of_client, options).await,
                _ => Race::open(of_client, options).await,
            }
        });
        all.push((client, Rc::new(race)));
    }
    all
}

#[test]
fn one_client_agrees_with_a_map() {
    for (seed, moves) in [(1, Moves::Each), (2, Moves::Batched), (3, Moves::Each)] {
        let sim = sim(seed, 1 + seed as usize % 2, seed > 1);
        let (client, race) = opened(&sim, tiny(moves), 1).remove(0);
        run(&sim, &client, async move {
            let mut model = BTreeMap::new();
            let mut random = Random::new(seed);
            for round in 0..6_000_u64 {
                let key = key(random.below(700));
                match random.below(5) {
                    0 => {
                        let was = model.remove(&key).is_some();
                        assert_eq!(race.delete(&key).await?, was, "round {round}");
                    }
                    1 => assert_eq!(race.get(&key).await?.as_ref(), model.get(&key)),
                    _ => {
                        let value = vec![round as u8; random.below(300) as usize];
                        race.put(&key, &value).await?;
                        model.insert(key, value);
                    }
                }
            }
            for i in 0..800 {
                assert_eq!(race.get(&key(i)).await?.as_ref(), model.get(&key(i)), "{i}");
            }
            let census = race.census().await?;
            assert_eq!(census.entries, model.len() as u64);
            assert!(race.stats().splits > 10 && race.stats().doublings > 2);
            Ok(())
        });
    }
}

/// The values that the writer of a key has begun, and has ended.
#[derive(Clone, Copy, Default)]
struct Written {
    begun: u64,
    ended: u64,
}

/// Each key has one writer, which counts up or deletes; the others read. A read is of what was there when it began, or of
/// what was begun until it ended.
#[test]
fn readers_see_writes_while_subtables_split() {
    const CLIENTS: usize = 4;
    const COROUTINES: u64 = 3;
    const KEYS: u64 = 60;
    let mut sums = super::Stats::default();
    for seed in 0..60 {
        let moves = if seed % 2 == 0 { Moves::Each } else { Moves::Batched };
        let sim = sim(seed, 2, true);
        let all = opened(&sim, tiny(moves), CLIENTS);
        let states = Rc::new(RefCell::new(BTreeMap::<u64, Written>::new()));
        let mut tasks = Vec::new();
        for (number, (client, race)) in all.iter().enumerate() {
            for coroutine in 0..COROUTINES {
                let (race, states) = (Rc::clone(race), Rc::clone(&states));
                let own = number as u64 * COROUTINES + coroutine;
                tasks.push(sim.spawn(client, async move {
                    let mut random = Random::new(seed << 8 | own);
                    let writers = CLIENTS as u64 * COROUTINES;
                    for _ in 0..150 {
                        let mine = random.below(KEYS) * writers + own;
                        let any = random.below(KEYS * writers);
                        if random.below(3) == 0 {
                            let from = states.borrow().get(&any).copied().unwrap_or_default();
                            let value = race.get(&key(any)).await?;
                            let until = states.borrow().get(&any).copied().unwrap_or_default();
                            let found = value
                                .map(|value| u64::from_le_bytes(value[..8].try_into().unwrap()));
                            // Even numbers are values, odd ones deletes.
                            let fits = match found {
                                Some(found) => (from.ended..=until.begun).contains(&found),
                                None => {
                                    from.ended == 0
                                        || (from.ended..=until.begun).any(|number| number % 2 == 1)
                                }
                            };
                            assert!(
                                fits,
                                "seed {seed}, key {any}: {found:?}, {}..{}",
                                from.ended, until.begun
                            );
                        } else {
                            let mut number =
                                states.borrow().get(&mine).copied().unwrap_or_default().begun + 1;
                            let deletes = number > 1 && random.below(5) == 0;
                            // Up to the next that tells what is done.
                            number += u64::from((number % 2 == 1) != deletes);
                            states.borrow_mut().entry(mine).or_default().begun = number;
                            if deletes {
                                race.delete(&key(mine)).await?;
                            } else {
                                race.put(&key(mine), &number.to_le_bytes()).await?;
                            }
                            states.borrow_mut().get_mut(&mine).unwrap().ended = number;
                        }
                    }
                    Ok::<_, durahash_media::Error>(())
                }));
            }
        }
        sim.run();
        let hangs = || panic!("seed {seed}: a task hangs");
        tasks.into_iter().for_each(|task| task.take().unwrap_or_else(hangs).unwrap());
        let (client, race) = all[1].clone();
        let states = states.take();
        run(&sim, &client, async move {
            let mut values = 0;
            for (i, state) in &states {
                assert_eq!(state.begun, state.ended);
                let value = race.get(&key(*i)).await?;
                let expected = (state.ended % 2 == 0).then(|| state.ended.to_le_bytes().to_vec());
                assert_eq!(value, expected, "seed {seed}, key {i}");
                values += u64::from(expected.is_some());
            }
            assert_eq!(race.census().await?.entries, values, "seed {seed}");
            Ok(())
        });
        for (_, race) in &all {
            let stats = race.stats();
            sums.splits += stats.splits;
            sums.waits += stats.waits;
            sums.taken_back += stats.taken_back;
            sums.conflicts += stats.conflicts;
        }
    }
    assert!(sums.splits > 600 && sums.waits > 100, "{sums:?}");
    assert!(sums.taken_back > 20 && sums.conflicts > 20, "{sums:?}");
}

/// All clients write the same few keys; one entry of each is left.
#[test]
fn of_many_inserts_of_a_key_one_stays() {
    let mut duplicates = 0;
    for seed in 0..60 {
        let sim = sim(seed, 1, true);
        let all = opened(&sim, tiny(Moves::Each), 6);
        let mut tasks = Vec::new();
        for (number, (client, race)) in all.iter().enumerate() {
            let race = Rc::clone(race);
            tasks.push(sim.spawn(client, async move {
                for i in 0..150 {
                    race.put(&key(i), &[number as u8]).await?;
                }
                Ok::<_, durahash_media::Error>(())
            }));
        }
        sim.run();
        let hangs = || panic!("seed {seed}: a task hangs");
        tasks.into_iter().for_each(|task| task.take().unwrap_or_else(hangs).unwrap());
        duplicates += all.iter().map(|(_, race)| race.stats().duplicates).sum::<u64>();
        let (client, race) = all[0].clone();
        run(&sim, &client, async move {
            for i in 0..150 {
                assert!(race.get(&key(i)).await?.is_some_and(|value| value[0] < 6));
            }
            assert_eq!(race.census().await?.entries, 150, "seed {seed}");
            Ok(())
        });
    }
    assert!(duplicates > 5, "{duplicates}");
}

/// The cost of operations when nothing comes in between; those that met an equal fingerprint are left out.
#[test]
fn round_trips_are_as_the_table_says() {
    async fn cost<T>(
        client: &SimClient,
        operation: impl Future<Output = Result<T>>,
    ) -> Result<Counts> {
        let before = client.counts();
        operation.await?;
        Ok(client.counts() - before)
    }
    let sim = sim(7, 1, false);
    let (client, race) = opened(&sim, Options::default(), 1).remove(0);
    let of_task = client.clone();
    run(&sim, &client, async move {
        let client = of_task;
        let mut seen = [0; 5];
        for i in 0..4000 {
            let before = race.stats();
            let counts = cost(&client, race.put(&key(i), &[0; 32])).await?;
            let stats = race.stats();
            if (stats.splits, stats.chunks) == (before.splits, before.chunks) {
                assert!((3..=4).contains(&counts.round_trips), "{counts:?}");
                seen[0] += u64::from(counts.round_trips == 3);
                if counts.round_trips == 3 {
                    assert_eq!((counts.reads, counts.writes, counts.swaps), (4, 1, 1));
                }
            }
        }
        for i in 0..1000 {
            let counts = cost(&client, race.get(&key(i))).await?;
            assert_eq!(counts.round_trips, 2);
            seen[1] += 1;
            let counts = cost(&client, race.get(&key(10_000 + i))).await?;
            assert!((2..=3).contains(&counts.round_trips));
            seen[2] += u64::from(counts.round_trips == 2);
            let counts = cost(&client, race.put(&key(i), &[1; 32])).await?;
            assert!(counts.round_trips == 3 || race.stats().chunks > 0 && counts.round_trips == 4);
            seen[3] += u64::from(counts.round_trips == 3);
        }
        for i in 0..1000 {
            let counts = cost(&client, race.delete(&key(i))).await?;
            assert_eq!(counts.round_trips, 3);
            seen[4] += 1;
        }
        assert!(seen[0] > 3200 && seen[2] > 800 && seen[3] > 990, "{seen:?}");
        Ok(())
    });
}

/// One by one, a split takes two trips for each entry that goes; in batches, two for each bucket.
#[test]
fn splits_move_entry_by_entry() {
    let trips = [Moves::Each, Moves::Batched].map(|moves| {
        let sim = sim(7, 1, false);
        let (client, race) = opened(&sim, Options { moves, ..Options::default() }, 1).remove(0);
        let of_task = client.clone();
        run(&sim, &client, async move {
            let mut i = 0;
            loop {
                let before = of_task.counts();
                race.put(&key(i), &[0; 32]).await?;
                let stats = race.stats();
                if stats.splits == 1 {
                    let trips = (of_task.counts() - before).round_trips;
                    // Room for all is not used up before a pair is full, three quarters at least.
                    assert!(i * 4 > 1536 * 3, "{i}");
                    assert!((i * 4 / 9..i * 5 / 9).contains(&stats.moved), "{stats:?} of {i}");
                    return Ok((trips, stats.moved));
                }
                i += 1;
            }
        })
    });
    let buckets = 3 * 64;
    let [(each, moved), (batched, _)] = trips;
    let around = |n: u64| n..n + 60;
    assert!(around(2 * buckets + 2 * moved).contains(&each), "{each}, {moved}");
    assert!(around(4 * buckets - 20).contains(&batched), "{batched}");
}

#[test]
fn impossible_requests_are_refused() {
    let sim = sim(0, 1, false);
    let options = Options { max_depth: 2, ..tiny(Moves::Each) };
    let (client, race) = opened(&sim, options, 1).remove(0);
    let of_task = client.clone();
    run(&sim, &client, async move {
        let client = of_task;
        let again = Race::create(client.clone(), options).await.map(drop);
        assert!(matches!(again.unwrap_err().kind(), ErrorKind::Exists));
        let none = Race::create(client, Options { groups: 1, ..options }).await.map(drop);
        assert!(matches!(none.unwrap_err().kind(), ErrorKind::Options { .. }));
        let large = race.put(b"key", &[0; 9000]).await;
        assert!(matches!(large.unwrap_err().kind(), ErrorKind::TooLarge { .. }));
        let mut i = 0;
        let full = loop {
            match race.put(&key(i), b"").await {
                Ok(()) => i += 1,
                Err(e) => break e,
            }
        };
        assert!(matches!(full.kind(), ErrorKind::Full { .. }) && i > 48, "{full} {i}");
        assert_eq!(race.census().await?.entries, i);
        Ok(())
    });
}
