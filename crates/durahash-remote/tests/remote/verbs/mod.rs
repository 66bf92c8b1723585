//! The guarantees of every fabric: bodies of tests for two clients of one whose nodes have
//! [`NODE_BYTES`]. Other crates with a fabric include this file.

use std::task::Poll;

use durahash_media::ErrorKind;
use durahash_remote::fabric::{Addr, Batch, Counts, Fabric};

pub(crate) const NODE_BYTES: [u64; 2] = [8192, 4096];

fn batch<const N: usize>(fill: [&dyn Fn(&mut Batch) -> usize; N]) -> Batch {
    let mut batch = Batch::new();
    for (i, fill) in fill.into_iter().enumerate() {
        assert_eq!(fill(&mut batch), i);
    }
    batch
}

pub(crate) async fn what_verbs_do<F: Fabric>(one: F, two: F) {
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

pub(crate) async fn counted<F: Fabric>(one: F, two: F) {
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
    let mut expected = Counts::default();
    (expected.round_trips, expected.reads, expected.writes) = (1, 2, 1);
    (expected.swaps, expected.adds) = (1, 1);
    (expected.bytes_out, expected.bytes_in) = (11 + 16 + 8, 107 + 8 + 8);
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
    // With leases, a live client is evicted, too.
    let leased = one.lease_ns().is_some();
    assert_eq!(one.evict(two.row()).await.unwrap(), leased);
    expected.round_trips += 1;
    assert_eq!(one.counts(), expected);
    assert_eq!(two.counts(), Counts::default());
    assert_eq!((expected + expected) - expected, expected);
}

pub(crate) async fn wrong<F: Fabric>(one: F, _two: F) {
    let refused: [(Batch, bool); 9] = [
        (batch([&|b| b.read(Addr::new(2, 0), 0)]), true),
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

pub(crate) async fn awaited<F: Fabric>(one: F, two: F) {
    let (x, y) = (Addr::new(0, 64), Addr::new(1, 64));
    for round in 1..=20 {
        one.post(batch([&|b| b.write_word(x, round)])).await.unwrap();
        one.write_unsignaled(y, &round.to_le_bytes()).unwrap();
        one.flush(1).await.unwrap();
        let done = two.post(batch([&|b| b.read(x, 8), &|b| b.read(y, 8)])).await.unwrap();
        assert_eq!((done.word(0), done.word(1)), (round, round));
    }
}

pub(crate) async fn dropped<F: Fabric>(one: F, two: F) {
    let at = Addr::new(0, 64);
    // Never polled: never posted.
    drop(one.post(batch([&|b| b.write_word(at, 1)])));
    let counts = one.counts();
    assert_eq!(counts, Counts::default());
    // Polled once: it takes effect at some time.
    let mut post = Box::pin(one.post(batch([&|b| b.fetch_add(at, 2)])));
    std::future::poll_fn(|cx| {
        let _ = post.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
    drop(post);
    for _ in 0..1000 {
        two.sleep_ns(1_000_000).await;
        // A client may have to be polled for its verbs to go on.
        one.post(batch([&|b| b.read(Addr::new(1, 64), 8)])).await.unwrap();
        let done = two.post(batch([&|b| b.read(at, 8)])).await.unwrap();
        if done.word(0) == 2 {
            return;
        }
        assert_eq!(done.word(0), 0);
    }
    panic!("it takes effect at some time");
}

pub(crate) async fn slept<F: Fabric>(one: F, _two: F) {
    let before = one.now_ns();
    one.sleep_ns(70_000).await;
    assert!(one.now_ns() >= before + 70_000);
}
