use std::cell::RefCell;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::Poll;

use durahash_media::{Error, ErrorKind};

use super::*;
use crate::fabric::Kind;

const X: Addr = Addr::new(0, 64);
const Y: Addr = Addr::new(1, 128);

fn chaos(seed: u64) -> SimOptions {
    let node_bytes = vec![4096, 4096];
    SimOptions { seed, node_bytes, chaos: Some(Chaos::default()), ..SimOptions::default() }
}

fn calm() -> SimOptions {
    SimOptions { chaos: None, ..chaos(0) }
}

/// Spawns a task that is given its client.
fn spawn<T: 'static, U: Future<Output = T> + 'static>(
    sim: &Sim,
    client: &SimClient,
    f: impl FnOnce(SimClient) -> U,
) -> Task<T> {
    sim.spawn(client, f(client.clone()))
}

fn post<T>(
    sim: &Sim,
    client: &SimClient,
    fill: impl FnOnce(&mut Batch) -> T,
) -> Task<Result<Done>> {
    let batch = Batch::of(fill);
    spawn(sim, client, |own| async move { own.post(batch).await })
}

/// Kills a client when it posts its verb with this number; the first is 0.
fn kill_at_verb(sim: &Sim, client: &SimClient, number: u64) {
    let at = (client.number(), number, Stage::Posted);
    sim.set_hook(Box::new(move |moment| {
        let is_it = (moment.client, moment.number, moment.stage) == at;
        if is_it { Choice::Kill } else { Choice::Go }
    }));
}

fn word(sim: &Sim, addr: Addr) -> u64 {
    sim.peek_word(addr).unwrap()
}

fn kind(result: Option<Result<Done>>) -> String {
    let error: Error = result.expect("the task has ended").expect_err("it failed");
    format!("{:?}", error.kind())
}

/// The values of `each` over many seeds.
fn over_seeds<T: Ord>(seeds: u64, each: impl Fn(u64) -> T) -> BTreeSet<T> {
    (0..seeds).map(each).collect()
}

#[test]
fn atomics_are_exact() {
    const CLIENTS: u64 = 64;
    for seed in 0..20 {
        let sim = Sim::new(chaos(seed));
        let clients: Vec<_> = (0..CLIENTS).map(|_| sim.client().unwrap()).collect();
        let add = |client| post(&sim, client, |b| b.fetch_add(X, 1));
        let adds: Vec<_> = clients.iter().map(add).collect();
        let swap = |client: &SimClient| {
            let own = u64::from(client.number()) + 1;
            post(&sim, client, |b| b.compare_swap(Y, 0, own))
        };
        let swaps: Vec<_> = clients.iter().map(swap).collect();
        sim.run();
        let result = |task: &Task<Result<Done>>| task.take().unwrap().unwrap().word(0);
        let seen: BTreeSet<_> = adds.iter().map(result).collect();
        assert_eq!(seen, (0..CLIENTS).collect());
        let winner = word(&sim, Y);
        for (client, swap) in (1..).zip(&swaps) {
            assert_eq!(result(swap), if client == winner { 0 } else { winner });
        }
    }
}

/// The values that a reader sees of two writes in one batch, over many seeds.
fn seen_of_two_writes(options: impl Fn(u64) -> SimOptions) -> BTreeSet<(u64, u64)> {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let sim = Sim::new(options(seed));
        let (writer, reader) = (sim.client().unwrap(), sim.client().unwrap());
        let read = spawn(&sim, &reader, |own| async move {
            let mut seen = Vec::new();
            for _ in 0..10 {
                let done = own.post(Batch::of(|b| b.read(X, 72))).await.unwrap();
                let last = *done.bytes(0).last_chunk().unwrap();
                seen.push((done.word(0), u64::from_le_bytes(last)));
            }
            seen
        });
        post(&sim, &writer, |b| {
            b.write_word(X, 1);
            b.write_word(X.add(64), 1);
        });
        sim.run();
        seen.extend(read.take().unwrap());
    }
    seen
}

#[test]
fn writes_that_nobody_awaits_are_seen_in_any_order() {
    assert_eq!(seen_of_two_writes(chaos), [(0, 0), (0, 1), (1, 0), (1, 1)].into());
    // Without chaos they are what the queues make of them: in the order of the batch.
    assert_eq!(seen_of_two_writes(|_| calm()), [(0, 0), (1, 1)].into());
}

/// The words that one read sees of one write of several words.
fn torn(tear_parts_max: u32) -> BTreeSet<Vec<u8>> {
    over_seeds(1000, |seed| {
        let chaos = Chaos { tear_parts_max, ..Chaos::default() };
        let sim = Sim::new(SimOptions { chaos: Some(chaos), ..self::chaos(seed) });
        let (writer, reader) = (sim.client().unwrap(), sim.client().unwrap());
        // Four bytes in a word, a word, and three bytes of a third.
        post(&sim, &writer, |b| b.write(X.add(4), &[1; 15]));
        let read = post(&sim, &reader, |b| b.read(X, 24));
        sim.run();
        let done = read.take().unwrap().unwrap();
        let expected = [[0; 4].as_slice(), &[1; 15], &[0; 5]].concat();
        assert_eq!(sim.peek(X, 24).unwrap(), expected);
        let bytes = done.bytes(0);
        assert_eq!([bytes[..4].to_vec(), bytes[19..].to_vec()].concat(), [0; 9]);
        let words = [&bytes[4..8], &bytes[8..16], &bytes[16..19]];
        let whole = |word: &&[u8]| {
            assert!(word.iter().all(|byte| *byte == word[0]), "a word was torn: {word:?}");
            word[0]
        };
        words.iter().map(whole).collect()
    })
}

#[test]
fn reads_and_writes_are_torn_between_words_only() {
    let all = (0..8).map(|bits| vec![bits >> 2, bits >> 1 & 1, bits & 1]).collect();
    assert_eq!(torn(4), all);
    assert_eq!(torn(1), [vec![0; 3], vec![1; 3]].into());
}

#[test]
fn writes_of_bytes_beside_each_other_are_both_kept() {
    for seed in 0..100 {
        let sim = Sim::new(chaos(seed));
        for byte in 0..16 {
            let client = sim.client().unwrap();
            post(&sim, &client, |b| b.write(X.add(byte), &[byte as u8 + 1]));
        }
        sim.run();
        assert_eq!(sim.peek(X, 16).unwrap(), (1..=16).collect::<Vec<_>>());
    }
}

#[test]
fn unawaited_writes_land_by_the_next_flush_and_not_always_before() {
    let seen = over_seeds(300, |seed| {
        let sim = Sim::new(chaos(seed));
        let (one, two) = (sim.client().unwrap(), sim.client().unwrap());
        let task = spawn(&sim, &one, |own| async move {
            own.write_unsignaled(X, &1_u64.to_le_bytes()).unwrap();
            // Its own reads do not wait for it, either.
            let early = own.post(Batch::of(|b| b.read(X, 8))).await.unwrap().word(0);
            let flushes = (own.clone(), own.clone());
            let second = std::pin::pin!(async move { flushes.1.flush(0).await });
            let mut second = second;
            let mut first = std::pin::pin!(async move { flushes.0.flush(0).await });
            // Two flushes at once: neither is ready before the write is there.
            let _ = poll_once(first.as_mut()).await;
            second.as_mut().await.unwrap();
            let late = two.post(Batch::of(|b| b.read(X, 8))).await.unwrap().word(0);
            first.await.unwrap();
            (early, late)
        });
        sim.run();
        task.take().unwrap()
    });
    assert_eq!(seen, [(0, 1), (1, 1)].into());
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let chaos = Chaos { death_one_in: 300, stall_one_in: 50, ..Chaos::default() };
        let sim = Sim::new(SimOptions { chaos: Some(chaos), ..self::chaos(seed) });
        let log = Rc::new(RefCell::new(Vec::new()));
        let clients: Vec<_> = (0..30).map(|_| sim.client().unwrap()).collect();
        for client in &clients {
            let log = Rc::clone(&log);
            spawn(&sim, client, |own| async move {
                for round in 0..20 {
                    own.write_unsignaled(Y.add(8), &[round; 20]).unwrap();
                    let done = own
                        .post(Batch::of(|b| {
                            b.fetch_add(X, 1);
                            b.read(Y, 40);
                            b.write(Y.add(3), &[round; 33]);
                        }))
                        .await
                        .unwrap();
                    own.flush(1).await.unwrap();
                    log.borrow_mut().push((own.now_ns(), done.word(0), done.bytes(1).to_vec()));
                }
            });
        }
        sim.run();
        assert_eq!(sim.live_tasks(), 0);
        let alive = clients.iter().filter(|client| sim.lives(client)).count();
        (sim.trace(), sim.now_ns(), sim.counts(), alive, log.take())
    };
    let runs: Vec<_> = (0..10).map(run).collect();
    assert_eq!(runs, (0..10).map(run).collect::<Vec<_>>());
    let traces: BTreeSet<_> = runs.iter().map(|run| run.0).collect();
    assert_eq!(traces.len(), 10);
    assert!(runs.iter().any(|run| (1..30).contains(&run.3)));
}

/// A client dies at verb `kill_at` of a first batch of three, an awaited second one of two writes, and
/// a third: what is in memory afterwards.
fn after_death(seed: u64, kill_at: u64) -> [u64; 4] {
    let sim = Sim::new(chaos(seed));
    let client = sim.client().unwrap();
    let other = sim.client().unwrap();
    kill_at_verb(&sim, &client, kill_at);
    let task = spawn(&sim, &client, |own| async move {
        own.post(Batch::of(|b| {
            b.write_word(X, 1);
            b.fetch_add(X.add(8), 1);
            b.compare_swap(X.add(16), 0, 1);
        }))
        .await
        .unwrap();
        own.post(Batch::of(|b| b.write_word(X.add(24), 1))).await.unwrap();
    });
    sim.run();
    assert_eq!(sim.live_tasks(), 0, "the tasks of the dead are dropped");
    assert_eq!(task.take().is_none(), kill_at < 4);
    assert!(task.ended());
    assert_eq!(sim.lives(&client), kill_at >= 4);
    assert!(sim.lives(&other));
    [0, 8, 16, 24].map(|off| word(&sim, X.add(off)))
}

#[test]
fn any_verb_posted_by_the_dead_may_take_effect() {
    for kill_at in 0..3 {
        let seen = over_seeds(300, |seed| after_death(seed, kill_at));
        let any = (0..8).map(|bits| [bits & 1, bits >> 1 & 1, bits >> 2, 0]).collect();
        assert_eq!(seen, any);
    }
    let seen = over_seeds(100, |seed| after_death(seed, 3));
    assert_eq!(seen, [[1, 1, 1, 0], [1, 1, 1, 1]].into());
    assert_eq!(over_seeds(10, |seed| after_death(seed, 4)), [[1; 4]].into());
}

#[test]
fn a_write_of_the_dead_may_stay_torn() {
    let seen = over_seeds(500, |seed| {
        let sim = Sim::new(chaos(seed));
        let client = sim.client().unwrap();
        kill_at_verb(&sim, &client, 0);
        post(&sim, &client, |b| b.write(X, &[1; 16]));
        sim.run();
        (word(&sim, X) != 0, word(&sim, X.add(8)) != 0)
    });
    assert_eq!(seen.len(), 4);
}

#[test]
fn nothing_of_an_evicted_client_takes_effect_any_more() {
    let seen = over_seeds(300, |seed| {
        let sim = Sim::new(chaos(seed));
        let (dead, survivor) = (sim.client().unwrap(), sim.client().unwrap());
        kill_at_verb(&sim, &dead, 20);
        spawn(&sim, &dead, |own| async move {
            for _ in 0..20 {
                own.write_unsignaled(X, &[1; 32]).unwrap();
            }
            own.post(Batch::of(|b| b.write(X, &[1; 32]))).await.unwrap();
        });
        let task = spawn(&sim, &survivor, |own| async move {
            assert_eq!(own.lease_ns(), None);
            assert!(own.evict(700).await.unwrap(), "nobody has that row");
            while !own.evict(0).await.unwrap() {}
            own.post(Batch::of(|b| b.write(X, &[2; 32]))).await.unwrap();
            own.sleep_ns(10_000_000).await;
            own.post(Batch::of(|b| b.read(X, 32))).await.unwrap().bytes(0).to_vec()
        });
        sim.run();
        let seen = task.take().unwrap();
        assert_eq!(seen, [2; 32], "seed {seed}");
        // The row is given out again.
        assert_eq!(sim.client().unwrap().row(), 0);
        sim.now_ns() > 0
    });
    assert_eq!(seen.len(), 1);
}

#[test]
fn with_leases_the_living_are_evicted_too() {
    for seed in 0..100 {
        let lease_ns = Some(1_000_000);
        let sim = Sim::new(SimOptions { lease_ns, max_clients: 2, ..chaos(seed) });
        let (silent, other) = (sim.client().unwrap(), sim.client().unwrap());
        assert_eq!(other.lease_ns(), lease_ns);
        let evicted = spawn(&sim, &silent, |own| async move {
            own.write_unsignaled(X, &[1; 16]).unwrap();
            let first = own.post(Batch::of(|b| b.write(X.add(16), &[1; 16]))).await;
            own.sleep_ns(5_000_000).await;
            let counts = own.counts();
            let second = own.post(Batch::of(|b| b.write(X.add(16), &[1; 16]))).await;
            assert_eq!((own.counts() - counts).round_trips, 1);
            own.write_unsignaled(X, &[1; 16]).unwrap();
            (first, second, own.flush(0).await, own.evict(1).await)
        });
        let task = spawn(&sim, &other, |own| async move {
            assert!(own.evict(0).await.unwrap());
            own.post(Batch::of(|b| b.write(X, &[2; 32]))).await.unwrap();
            own.sleep_ns(10_000_000).await;
            own.post(Batch::of(|b| b.read(X, 32))).await.unwrap().bytes(0).to_vec()
        });
        sim.run();
        let is_evicted = |error: Option<Error>| {
            assert!(matches!(error.unwrap().kind(), ErrorKind::Evicted));
        };
        let (first, second, flushed, evicted) = evicted.take().unwrap();
        if let Err(error) = first {
            is_evicted(Some(error));
        }
        is_evicted(second.err());
        is_evicted(flushed.err());
        is_evicted(evicted.err());
        assert_eq!(task.take().unwrap(), [2; 32], "seed {seed}");
        // It lives, and keeps its row until it leaves.
        assert!(sim.lives(&silent) && sim.client().is_err());
        drop(silent);
        let third = sim.client().unwrap();
        assert_eq!(third.row(), 0);
        // The dead keep theirs until they are evicted.
        sim.kill(&other);
        assert!(sim.client().is_err());
    }
}

#[test]
fn a_lost_node_is_an_error_within_the_deadline() {
    for seed in 0..200 {
        let sim = Sim::new(SimOptions { deadline_ns: 50_000, ..chaos(seed) });
        let clients = [(); 3].map(|()| sim.client().unwrap());
        // Under way when the node is lost, and posted afterwards.
        let both = |b: &mut Batch| {
            b.write_word(X, 7);
            b.fetch_add(Y, 1);
        };
        let unsignaled = spawn(&sim, &clients[2], |own| async move {
            own.write_unsignaled(Y, &[1; 8]).unwrap();
            own.flush(1).await.map(|()| Done::default())
        });
        let under_way = post(&sim, &clients[0], both);
        sim.run_until(seed);
        sim.lose_node(1);
        let posted = sim.now_ns();
        assert_eq!(posted, seed);
        let after = post(&sim, &clients[1], both);
        let task = spawn(&sim, &clients[1], |own| async move {
            own.write_unsignaled(Y, &[1; 8]).unwrap();
            own.flush(1).await.map(|()| Done::default())
        });
        let bystander = post(&sim, &clients[1], |b| b.read(X, 8));
        sim.run();
        let lost = "NodeLost { node: 1 }";
        for task in [unsignaled, under_way, after, task] {
            assert_eq!(kind(task.take()), lost, "seed {seed}");
        }
        assert!(bystander.take().unwrap().is_ok());
        assert_eq!(word(&sim, X), 7, "the other node goes on");
        let stalls = Chaos::default().stall_ns_max;
        assert!(sim.now_ns() <= posted + 50_000 + stalls, "seed {seed}: {}", sim.now_ns());
        // No other time passes, and no task waits for ever.
        assert_eq!(sim.live_tasks(), 0);
    }
}

#[test]
fn the_hook_sees_every_verb_and_chooses() {
    let moments = Rc::new(RefCell::new(Vec::new()));
    let run = |choose: fn(&VerbEvent) -> Choice| {
        let sim = Sim::new(calm());
        let clients = [sim.client().unwrap(), sim.client().unwrap()];
        let own = Rc::clone(&moments);
        own.borrow_mut().clear();
        sim.set_hook(Box::new(move |moment| {
            own.borrow_mut().push(*moment);
            choose(moment)
        }));
        let tasks = clients.each_ref().map(|client| {
            post(&sim, client, |b| {
                b.read(X, 16);
                b.compare_swap(Y, 0, 1);
            })
        });
        sim.run();
        (tasks.map(|task| task.take().is_some()), sim.now_ns(), word(&sim, Y))
    };
    let (ended, calm_ns, _) = run(|_| Choice::Go);
    assert_eq!(ended, [true, true]);
    let kinds = |what| {
        let moments = moments.borrow();
        let of = moments.iter().filter(|moment| moment.stage == what);
        of.map(|moment| (moment.client, moment.number, moment.kind, moment.addr, moment.len))
            .collect::<BTreeSet<_>>()
    };
    let posted = kinds(Stage::Posted);
    let swap = Kind::CompareSwap { old: 0, new: 1 };
    let all = [0, 1].map(|c| [(c, 0, Kind::Read, X, 16), (c, 1, swap, Y, 8)]);
    assert_eq!(posted, all.concat().into_iter().collect());
    assert_eq!(kinds(Stage::Effect { applies: true }), posted);

    let (ended, stalled_ns, _) = run(|moment| match (moment.client, moment.stage) {
        (1, Stage::Posted) => Choice::Stall { ns: 1_000_000 },
        _ => Choice::Go,
    });
    assert_eq!(ended, [true, true]);
    assert!(calm_ns < 10_000 && (1_000_000..1_010_000).contains(&stalled_ns));
    // Killed at the moment when its swap takes effect: no client is told, but it did.
    let (ended, _, swapped) = run(|moment| match moment {
        VerbEvent {
            client: 0,
            kind: Kind::CompareSwap { .. },
            stage: Stage::Effect { .. },
            ..
        } => Choice::Kill,
        _ => Choice::Go,
    });
    assert_eq!((ended, swapped), ([false, true], 1));
}

#[test]
fn a_verb_takes_what_the_queues_say() {
    let nic = Nic::default();
    let time = |clients: u32, posts: u32, fill: fn(&mut Batch) -> usize| {
        let sim = Sim::new(SimOptions { client_nics: 0, ..calm() });
        for _ in 0..clients {
            let client = sim.client().unwrap();
            spawn(&sim, &client, |own| async move {
                for _ in 0..posts {
                    own.post(Batch::of(fill)).await.unwrap();
                }
            });
        }
        sim.run();
        sim.now_ns()
    };
    let one = time(1, 1, |b| b.read(X, 8));
    assert!((nic.round_trip_ns..nic.round_trip_ns + 50).contains(&one), "{one}");
    assert_eq!(time(1, 10, |b| b.read(X, 8)) / one, 10, "one after the other");
    assert!(time(10, 1, |b| b.read(X, 8)) < one * 2, "side by side");
    // 4 KiB and a header at 100 Gb/s take 331 ns, a small packet 13 ns.
    let large = time(1, 1, |b| b.read(Addr::new(0, 0), 4096));
    assert!((316..321).contains(&(large - one)), "{large} and {one}");
    let write = time(1, 1, |b| b.write(Addr::new(0, 0), &[0; 4096]));
    assert!(write.abs_diff(large) < 10, "{write} and {large}");
    // Many clients are held by the rates of the node.
    let atomics = time(200, 50, |b| b.fetch_add(X, 1));
    let wanted = 200 * 50 * 1_000_000_000 / nic.atomics_per_s;
    assert!((wanted..wanted + 2 * one).contains(&atomics), "{atomics} and {wanted}");
    let reads = time(200, 50, |b| b.read(X, 8));
    let wanted = 200 * 50 * 1_000_000_000 / nic.packets_per_s;
    assert!((wanted..wanted + 2 * one).contains(&reads), "{reads} and {wanted}");
}

#[test]
fn clients_of_one_host_share_its_nic() {
    let time = |client_nics| {
        let sim = Sim::new(SimOptions { client_nics, ..calm() });
        for node in [0, 1].repeat(100) {
            let client = sim.client().unwrap();
            post(&sim, &client, |b| b.read(Addr::new(node, 0), 4096));
        }
        sim.run();
        sim.now_ns()
    };
    let (own, shared) = (time(0), time(1));
    assert!(shared > own * 3 / 2, "{shared} and {own}");
}

#[test]
fn a_stalled_client_learns_of_nothing() {
    let sim = Sim::new(calm());
    let client = sim.client().unwrap();
    let task = post(&sim, &client, |b| b.write_word(X, 1));
    sim.stall(&client, 500_000);
    sim.run_until(400_000);
    assert_eq!((word(&sim, X), task.ended(), sim.now_ns()), (1, false, 400_000));
    sim.run();
    assert_eq!((task.ended(), sim.now_ns()), (true, 500_000));
}

#[test]
fn memory_can_be_looked_at_and_set() {
    let sim = Sim::new(calm());
    sim.poke(Y, &[1, 2, 3]).unwrap();
    assert_eq!(sim.peek(Y.add(1), 2).unwrap(), [2, 3]);
    for error in [sim.poke(Addr::new(1, 4094), &[0; 3]).err(), sim.peek_word(Addr::new(2, 0)).err()]
    {
        assert!(matches!(error.unwrap().kind(), ErrorKind::OutOfRegion { .. }));
    }
}
