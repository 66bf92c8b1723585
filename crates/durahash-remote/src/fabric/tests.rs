//! What holds for every fabric.

use durahash_media::ErrorKind;

use super::*;
use crate::executor::Executor;

const NODE_BYTES: [u64; 2] = [8192, 4096];

/// Runs `test` with two clients of each fabric; `sims` simulated ones with chaos, by seed.
fn each<T: Future<Output = ()> + 'static, U: Future<Output = ()> + 'static>(
    sims: u64,
    of_sim: impl Fn(SimClient, SimClient) -> T,
    of_local: impl Fn(LocalClient, LocalClient) -> U,
) {
    for seed in 0..=sims {
        let chaos = if seed == 0 { None } else { Some(Chaos::default()) };
        let node_bytes = NODE_BYTES.to_vec();
        let sim = Sim::new(SimOptions { seed, chaos, node_bytes, ..SimOptions::default() });
        let clients = [sim.client().unwrap(), sim.client().unwrap()];
        let task = sim.spawn(&clients[0], of_sim(clients[0].clone(), clients[1].clone()));
        sim.run();
        assert_eq!(task.take(), Some(()), "seed {seed}");
        assert_eq!(sim.live_tasks(), 0, "seed {seed}");
    }
    let dir = tempfile::tempdir().unwrap();
    let options = LocalOptions { node_bytes: NODE_BYTES.to_vec(), ..LocalOptions::default() };
    let locals = [
        Local::anonymous(&options).unwrap(),
        Local::create(&dir.path().join("fabric"), &options).unwrap(),
    ];
    for local in locals {
        let clients = (local.client().unwrap(), local.client().unwrap());
        Executor::new().block_on(of_local(clients.0, clients.1));
    }
}

macro_rules! each {
    ($sims:literal, $test:ident) => {
        each($sims, $test::<SimClient>, $test::<LocalClient>)
    };
}

fn batch<const N: usize>(fill: [&dyn Fn(&mut Batch) -> usize; N]) -> Batch {
    let mut batch = Batch::new();
    for (i, fill) in fill.into_iter().enumerate() {
        assert_eq!(fill(&mut batch), i);
    }
    batch
}

async fn what_verbs_do<F: Fabric>(one: F, two: F) {
    let at = |off| Addr::new(1, off);
    let bytes: Vec<u8> = (0..61).collect();
    one.post(batch([&|b| b.write(at(67), &bytes), &|b| b.write_word(at(8), 5)])).await.unwrap();
    let done = two
        .post(batch([
            &|b| b.read(at(64), 72),
            &|b| b.compare_swap(at(8), 4, 9),
            &|b| b.fetch_add(at(16), u64::MAX),
            &|b| b.write(at(200), &[]),
            &|b| b.read(at(4096), 0),
            &|b| b.read(at(4095), 1),
        ]))
        .await
        .unwrap();
    assert_eq!(done.bytes(0)[..3], [0; 3]);
    assert_eq!(done.bytes(0)[3..64], bytes);
    assert_eq!(done.bytes(0)[64..], [0; 8]);
    assert_eq!((done.word(1), done.word(2)), (5, 0));
    assert!(done.bytes(3).is_empty() && done.bytes(4).is_empty());
    assert_eq!(done.bytes(5), [0]);
    let done = one
        .post(batch([&|b| b.compare_swap(at(8), 5, 9), &|b| b.fetch_add(at(16), 3)]))
        .await
        .unwrap();
    assert_eq!((done.word(0), done.word(1)), (5, u64::MAX));
    let done = one.post(batch([&|b| b.read(at(8), 16)])).await.unwrap();
    assert_eq!(done.word(0), 9);
    assert_eq!(done.bytes(0)[8..], 2_u64.to_le_bytes());
}

#[test]
fn verbs_do_what_they_say() {
    each!(50, what_verbs_do);
}

async fn counted<F: Fabric>(one: F, two: F) {
    let at = |off| Addr::new(0, off);
    assert!(one.post(Batch::new()).await.is_ok());
    one.flush(0).await.unwrap();
    assert_eq!(one.counts(), Counts::default());
    one.post(batch([
        &|b| b.read(at(0), 100),
        &|b| b.read(at(1), 7),
        &|b| b.write(at(2), &[1; 11]),
        &|b| b.compare_swap(at(64), 0, 1),
        &|b| b.fetch_add(at(64), 1),
    ]))
    .await
    .unwrap();
    let mut expected = Counts {
        round_trips: 1,
        reads: 2,
        writes: 1,
        unsignaled: 0,
        swaps: 1,
        adds: 1,
        bytes_out: 11 + 16 + 8,
        bytes_in: 107 + 8 + 8,
    };
    assert_eq!(one.counts(), expected);
    one.write_unsignaled(at(9), &[1, 2, 3]).unwrap();
    one.clone().write_unsignaled(at(9), &[1, 2]).unwrap();
    expected.unsignaled += 2;
    expected.bytes_out += 5;
    assert_eq!(one.counts(), expected);
    one.flush(1).await.unwrap();
    assert_eq!(one.counts(), expected, "there was nothing to flush on that node");
    one.flush(0).await.unwrap();
    one.flush(0).await.unwrap();
    expected.round_trips += 1;
    assert_eq!(one.counts(), expected);
    assert_eq!(one.counts().verbs(), 7);
    assert!(!one.evict(two.row()).await.unwrap());
    expected.round_trips += 1;
    assert_eq!(one.counts(), expected);
    assert_eq!(two.counts(), Counts::default());
    assert_eq!((expected + expected) - expected, expected);
}

#[test]
fn costs_are_counted_exactly() {
    each!(5, counted);
}

async fn wrong<F: Fabric>(one: F, _two: F) {
    let refused: [(Batch, bool); 8] = [
        (batch([&|b| b.read(Addr::new(0, 8192), 1)]), true),
        (batch([&|b| b.read(Addr::new(1, 4090), 7)]), true),
        (batch([&|b| b.write(Addr::new(2, 0), &[1])]), true),
        (batch([&|b| b.write(Addr::new(0, (1 << 56) - 1), &[1, 2])]), true),
        (batch([&|b| b.compare_swap(Addr::new(1, 4096), 0, 1)]), true),
        (batch([&|b| b.compare_swap(Addr::new(1, 4), 0, 1)]), false),
        (batch([&|b| b.fetch_add(Addr::new(1, 1), 1)]), false),
        (batch([&|b| b.write(Addr::new(0, 64), &[1]), &|b| b.read(Addr::new(9, 0), 1)]), true),
    ];
    for (batch, out) in refused {
        let error = one.post(batch).await.err().unwrap();
        let is_out = matches!(error.kind(), ErrorKind::OutOfRegion { .. });
        assert!(is_out || matches!(error.kind(), ErrorKind::Unaligned { .. }));
        assert_eq!(is_out, out, "{error}");
    }
    let error = one.write_unsignaled(Addr::new(1, 4090), &[0; 7]).err().unwrap();
    let told = ErrorKind::OutOfRegion { node: 1, off: 4090, bytes: 7, region_bytes: 4096 };
    assert_eq!(format!("{:?}", error.kind()), format!("{told:?}"));
    let error = one.flush(2).await.err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::OutOfRegion { node: 2, .. }));
    assert_eq!(one.counts(), Counts::default(), "nothing was posted");
    let done = one.post(batch([&|b| b.read(Addr::new(0, 64), 8)])).await.unwrap();
    assert_eq!(done.word(0), 0);
    assert_eq!((one.nodes(), one.node_bytes(0), one.node_bytes(1)), (2, 8192, 4096));
}

#[test]
fn wrong_verbs_are_refused_before_anything_is_posted() {
    each!(1, wrong);
}

async fn awaited<F: Fabric>(one: F, two: F) {
    let (x, y) = (Addr::new(0, 64), Addr::new(1, 64));
    for round in 1..=20 {
        one.post(batch([&|b| b.write_word(x, round)])).await.unwrap();
        one.write_unsignaled(y, &round.to_le_bytes()).unwrap();
        one.flush(1).await.unwrap();
        let done = two.post(batch([&|b| b.read(x, 8), &|b| b.read(y, 8)])).await.unwrap();
        assert_eq!((done.word(0), done.word(1)), (round, round));
    }
}

#[test]
fn what_was_awaited_or_flushed_is_seen() {
    each!(100, awaited);
}

async fn dropped<F: Fabric>(one: F, two: F) {
    let at = Addr::new(0, 64);
    // Never polled: never posted.
    drop(one.post(batch([&|b| b.write_word(at, 1)])));
    let counts = one.counts();
    assert_eq!(counts, Counts::default());
    // Polled once: it takes effect at some time.
    let mut post = Box::pin(one.post(batch([&|b| b.fetch_add(at, 2)])));
    std::future::poll_fn(|cx| {
        let _ = post.as_mut().poll(cx);
        std::task::Poll::Ready(())
    })
    .await;
    drop(post);
    two.sleep_ns(1_000_000).await;
    let done = two.post(batch([&|b| b.read(at, 8)])).await.unwrap();
    assert_eq!(done.word(0), 2);
}

#[test]
fn a_future_that_is_dropped_harms_nothing() {
    each!(20, dropped);
}

async fn slept<F: Fabric>(one: F, _two: F) {
    let before = one.now_ns();
    one.sleep_ns(70_000).await;
    assert!(one.now_ns() >= before + 70_000);
}

#[test]
fn sleep_takes_its_time() {
    each!(5, slept);
}
