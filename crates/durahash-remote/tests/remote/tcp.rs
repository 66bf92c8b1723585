//! Nodes over TCP: lengths, many clients, an index, rows and evictions.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use durahash_media::ErrorKind;
use durahash_media::hash::WordMix;
use durahash_remote::executor::{Executor, block_on};
use durahash_remote::fabric::{Addr, Batch, Done, Fabric};
use durahash_remote::node::{Limits, Listening, Offers, Token};
use durahash_remote::tcp::{Tcp, TcpMemory};
use durahash_remote::{BlockingMap, Options, RemoteMap, Result, TaskMap};

use crate::common::tiny;

/// Long enough for every answer to come sooner.
fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.handshake, limits.silence) = (Duration::from_secs(60), Duration::from_secs(60));
    limits
}

/// Nodes of this process, on ports that the system chooses.
pub(crate) struct Nodes {
    memories: Vec<TcpMemory>,
    listening: Vec<Listening>,
    token: Token,
}

impl Nodes {
    pub(crate) fn start(bytes: &[u64], rows: u32) -> Self {
        Self::with(bytes, rows, limits())
    }

    fn with(bytes: &[u64], rows: u32, limits: Limits) -> Self {
        let token = Token::new(b"0123456789abcdef").unwrap();
        let memory = |bytes: &u64| TcpMemory::anonymous(*bytes, rows).unwrap();
        let memories: Vec<_> = bytes.iter().map(memory).collect();
        let listen = |memory: &TcpMemory| {
            Listening::bind("127.0.0.1:0", memory, Some(token.clone()), limits.clone()).unwrap()
        };
        let listening = memories.iter().map(listen).collect();
        Nodes { memories, listening, token }
    }

    /// Ends a node, and starts it again on the same memory.
    fn restart(&mut self, node: usize) {
        let address = self.listening[node].address().to_string();
        let (memory, token) = (&self.memories[node], Some(self.token.clone()));
        drop(self.listening.remove(node));
        self.listening.insert(node, Listening::bind(&address, memory, token, limits()).unwrap());
    }

    fn try_client(&self, limits: &Limits) -> Result<Tcp> {
        let addresses: Vec<_> =
            self.listening.iter().map(|node| node.address().to_string()).collect();
        Tcp::attach(Offers::gather(&addresses, Some(&self.token), limits)?)
    }

    pub(crate) fn client(&self) -> Tcp {
        self.try_client(&limits()).unwrap()
    }
}

fn post<T>(client: &Tcp, fill: impl FnOnce(&mut Batch) -> T) -> Done {
    block_on(client.post(Batch::of(fill))).unwrap()
}

/// Reads and writes at any offset, shorter and longer than a record, against a copy.
#[test]
fn bytes_go_to_any_offset() {
    const REGION: u64 = 1 << 20;
    let nodes = Nodes::start(&[REGION], 4);
    let client = nodes.client();
    let mix = WordMix::new(3);
    let mut model = vec![0; REGION as usize];
    let lens = (0..40).chain([4096, 20_000, 65_490, 65_519, 65_535, 65_536, 70_001, 300_000]);
    for (len, draw) in lens.zip(0..) {
        let off = mix.mix(draw) % (REGION - len as u64);
        let bytes: Vec<u8> = (0..len as u64).map(|i| mix.mix(draw << 32 | i) as u8).collect();
        model[off as usize..][..len].copy_from_slice(&bytes);
        let done = post(&client, |batch| {
            batch.write(Addr::new(0, off), &bytes);
            batch.fetch_add(Addr::new(0, 0), 0)
        });
        assert_eq!(done.word(1).to_le_bytes(), model[..8]);
        let done = post(&client, |batch| {
            batch.read(Addr::new(0, off), len);
            batch.read(Addr::new(0, off / 2), len);
        });
        assert!(done.bytes(0) == bytes, "{len} bytes at {off}");
        assert!(done.bytes(1) == &model[off as usize / 2..][..len], "{len} bytes at {off}");
    }
    let done = post(&client, |batch| batch.read(Addr::new(0, 0), REGION as usize));
    assert!(done.bytes(0) == model);
}

#[test]
fn maps_go_on_when_each_node_was_started_again() {
    let mut nodes = Nodes::start(&[32 << 20; 2], 4);
    let first = BlockingMap::create(nodes.client(), tiny()).unwrap();
    let maps = [first, BlockingMap::open(nodes.client(), tiny()).unwrap()];
    let mut count = 0_u64;
    for node in [0, 1, 0] {
        for map in &maps {
            map.put(&count.to_le_bytes(), b"value").unwrap();
            count += 1;
        }
        nodes.restart(node);
        for map in &maps {
            while let Err(error) = map.put(b"key", b"value") {
                assert!(matches!(error.kind(), ErrorKind::NodeLost { .. }), "{error}");
            }
            let keys: Vec<_> = (0..count).map(|key| key.to_le_bytes().to_vec()).collect();
            assert!(map.get_many(&keys).unwrap().iter().all(Option::is_some));
        }
    }
    // Who was in the rows of the lost clients keeps nobody back.
    for key in 0..2000_u64 {
        maps[0].put(&key.to_le_bytes(), b"another").unwrap();
    }
}

/// What they wait for ends without them, and goes on behind a restart, as for threads.
#[test]
fn tasks_may_be_dropped_and_go_on_when_a_node_was_started_again() {
    const TASKS: u64 = 8;
    const ADDS: u64 = 50;
    let mut nodes = Nodes::start(&[8 << 20], 2);
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        let map = TaskMap::create(nodes.client(), tiny()).await.unwrap();
        let tasks = (0..TASKS).map(|task| {
            let map = map.clone();
            tokio::spawn(async move {
                for i in 0..ADDS {
                    // The operation was sent when its future was first polled; without its caller it takes effect.
                    let mut add = pin!(map.fetch_add(b"count", 1));
                    let first = poll_fn(|cx| Poll::Ready(add.as_mut().poll(cx))).await;
                    match first {
                        Poll::Ready(done) => _ = done.unwrap(),
                        Poll::Pending if (i + task) % 2 == 0 => _ = add.await.unwrap(),
                        Poll::Pending => {}
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let all = |value: Option<Vec<u8>>| value == Some((TASKS * ADDS).to_le_bytes().to_vec());
        while !all(map.get(b"count").await.unwrap()) {
            tokio::task::yield_now().await;
        }
        nodes.restart(0);
        while let Err(error) = map.put(b"key", b"value").await {
            assert!(matches!(error.kind(), ErrorKind::NodeLost { .. }), "{error}");
        }
        assert!(all(map.get(b"count").await.unwrap()));
        let mut pages = map.pages();
        let mut found = Vec::new();
        while let Some(page) = pages.next().await.unwrap() {
            found.extend(page.into_iter().map(|pair| pair.0));
        }
        found.sort();
        assert_eq!(found, [b"count".to_vec(), b"key".to_vec()]);
        map.close().await.unwrap();
    });
}

/// Each sees a free entry at its first look, which the puts before it do not take; after a merge by this client they need
/// no look, and go together.
#[test]
fn batches_of_one_segment_take_two_round_trips_for_each_put_and_then_few_in_all() {
    let nodes = Nodes::start(&[4 << 20], 1);
    let mut options = Options::default();
    (options.max_depth, options.tick_ns) = (4, u64::MAX / 8);
    let done = block_on(async {
        let map = RemoteMap::create(nodes.client(), options).await?;
        map.put(b"first", b"").await?;
        let before = map.counts().round_trips;
        // All but one of the free entries: the last one would merge.
        let pairs: Vec<_> = (0..126_u64).map(|key| (key.to_le_bytes().into(), vec![])).collect();
        map.put_many(&pairs).await?;
        assert_eq!(map.counts().round_trips - before, 2 * 126);
        map.put(b"last", b"").await?;
        let before = map.counts().round_trips;
        let again: Vec<_> = pairs.iter().map(|(key, _)| (key.clone(), key.clone())).collect();
        map.put_many(&again).await?;
        // 64 puts at once.
        assert_eq!((map.counts().round_trips - before, map.stats().batches), (2, 2));
        map.put(b"two", b"").await?;
        // Its merge compares the keys, and commits what it has written.
        let before = map.counts().round_trips;
        map.put(b"last", b"").await?;
        assert_eq!((map.counts().round_trips - before, map.stats().merges), (3, 2));
        let keys: Vec<_> = pairs.into_iter().map(|(key, _)| key).collect();
        let before = map.counts().round_trips;
        let found = map.get_many(&keys).await?;
        assert!(found.iter().flatten().eq(&keys));
        // 32 lookups at once.
        assert_eq!(map.counts().round_trips - before, 126_u64.div_ceil(32));
        assert_eq!(map.check().await?.keys, 126 + 3);
        // Two values of a key are not put at once, but go together with those of others.
        let before = map.counts().round_trips;
        map.put_many(&[&again[..2]; 20].concat()).await?;
        assert_eq!(map.counts().round_trips - before, 20);
        map.close().await
    });
    done.unwrap();
}

/// Coroutines of two threads add to the same words.
/// Wrong tokens of an address are paid for by all its clients.
#[test]
fn a_token_that_was_replaced_is_not_shown_again_and_again() {
    let mut nodes = Nodes::start(&[1 << 20], 4);
    let map = BlockingMap::create(nodes.client(), tiny()).unwrap();
    let address = nodes.listening.remove(0).address().to_string();
    let token = Token::new(b"fedcba9876543210").unwrap();
    let node = Listening::bind(&address, &nodes.memories[0], Some(token), limits()).unwrap();
    let refused = || {
        let figures = node.gauges().read();
        let refused = figures.iter().find(|figure| figure.name == "refused").unwrap();
        refused.values.iter().map(|(_, count)| count).sum::<u64>()
    };
    let fails = || map.get(b"key").unwrap_err();
    while refused() == 0 {
        fails();
    }
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(110));
        fails();
    }
    assert_eq!(refused(), 1);
}

#[test]
fn atomics_of_several_clients_are_exact() {
    let nodes = Nodes::start(&[8192; 2], 4);
    let words = [Addr::new(0, 64), Addr::new(1, 4088)];
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (executor, client) = (Executor::new(), nodes.client());
                for _ in 0..4 {
                    let client = client.clone();
                    executor.spawn(0, async move {
                        let mut was = 0;
                        for _ in 0..20 {
                            let add = Batch::of(|batch| batch.fetch_add(words[0], 3));
                            client.post(add).await.unwrap();
                            loop {
                                let swap = |b: &mut Batch| b.compare_swap(words[1], was, was + 5);
                                let now = client.post(Batch::of(swap)).await.unwrap().word(0);
                                if now == was {
                                    break;
                                }
                                was = now;
                            }
                        }
                    });
                }
                executor.run();
            });
        }
    });
    let client = nodes.client();
    let found = words.map(|word| post(&client, |batch| batch.read(word, 8)).word(0));
    assert_eq!(found, [8 * 20 * 3, 8 * 20 * 5]);
}

#[test]
fn threads_of_two_clients_share_an_index_over_two_nodes() {
    let nodes = Nodes::start(&[32 << 20; 2], 8);
    let maps = [
        BlockingMap::create(nodes.client(), tiny()).unwrap(),
        BlockingMap::open(nodes.client(), tiny()).unwrap(),
    ];
    let key = |thread: u64, i: u64| (thread << 32 | i).to_le_bytes();
    let long = vec![7; 200_000];
    std::thread::scope(|scope| {
        for (thread, map) in (0..4).zip(maps.iter().cycle()) {
            let long = &long;
            scope.spawn(move || {
                for i in 0..200_u64 {
                    let value = if i % 50 == 0 { &long[..] } else { &i.to_le_bytes() };
                    map.put(&key(thread, i), value).unwrap();
                    assert_eq!(map.get(&key(thread, i)).unwrap().as_deref(), Some(value));
                }
                for i in (0..200).step_by(3) {
                    map.delete(&key(thread, i)).unwrap();
                }
            });
        }
    });
    for map in &maps {
        for (thread, i) in (0..4).flat_map(|thread| (0..200_u64).map(move |i| (thread, i))) {
            let found = map.get(&key(thread, i)).unwrap();
            let value = if i % 50 == 0 { &long[..] } else { &i.to_le_bytes() };
            assert_eq!(found.as_deref(), (i % 3 != 0).then_some(value));
        }
    }
    assert!(maps[0].check().unwrap().deepest > 2);
    for map in maps {
        map.close().unwrap();
    }
}

#[test]
fn a_row_is_free_when_its_client_has_left() {
    let nodes = Nodes::start(&[8192; 2], 2);
    let (one, two) = (nodes.client(), nodes.client());
    assert_eq!((one.row(), two.row(), one.clients().unwrap()), (0, 1, 2));
    let full = nodes.try_client(&limits()).err().unwrap();
    assert!(full.to_string().contains("all 2 clients are alive"), "{full}");
    assert!(!block_on(one.evict(1)).unwrap(), "it is alive");
    drop(two);
    assert_eq!(nodes.memories[0].clients(), 1);
    assert!(block_on(one.evict(1)).unwrap() && block_on(one.evict(7)).unwrap());
    let three = nodes.client();
    assert_eq!(three.row(), 1);
    post(&three, |batch| batch.write_word(Addr::new(1, 64), 5));
    assert_eq!(post(&one, |batch| batch.read(Addr::new(1, 64), 8)).word(0), 5);
}

#[test]
fn clients_of_a_node_that_ends_are_told() {
    let mut nodes = Nodes::start(&[8192; 2], 2);
    let client = nodes.client();
    client.write_unsignaled(Addr::new(1, 64), &[1]).unwrap();
    drop(nodes.listening.pop());
    let read = |node| block_on(client.post(Batch::of(|batch| batch.read(Addr::new(node, 64), 8))));
    let error = read(1).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::NodeLost { node: 1 }), "{error}");
    let error = block_on(client.flush(1)).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::NodeLost { node: 1 }), "{error}");
    // It has given up the other node, which then has its row for others.
    for error in [read(0).err(), client.nodes_stand().err()] {
        assert!(matches!(error.unwrap().kind(), ErrorKind::NodeLost { node: 1 }));
    }
    while nodes.memories[0].clients() > 0 {
        std::thread::yield_now();
    }
}
