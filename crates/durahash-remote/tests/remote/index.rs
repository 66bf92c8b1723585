//! One client against a model, sizes, failures, memory that is used again, threads on shared memory.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use durahash_media::hash::WordMix;
use durahash_remote::executor::block_on;
use durahash_remote::fabric::{
    Addr, Batch, Chaos, Fabric, Local, LocalClient, LocalOptions, Sim, SimClient, SimOptions,
};
use durahash_remote::{BlockingMap, Change, Compared, ErrorKind, Options, RemoteMap, Result};

fn tiny() -> Options {
    let mut options = Options::default();
    options.cur_entries = 4;
    options.main_entries = 12;
    options.max_depth = 8;
    options.max_clients = 8;
    options.chunk_bytes = 4096;
    options
}

fn sim(nodes: usize, bytes: u64, chaos: Option<Chaos>) -> Sim {
    let mut options = SimOptions::default();
    options.node_bytes = vec![bytes; nodes];
    (options.max_clients, options.chaos) = (8, chaos);
    Sim::new(options)
}

/// Runs a client to its end.
fn run<T: 'static, O: Future<Output = T> + 'static>(
    sim: &Sim,
    f: impl FnOnce(SimClient) -> O,
) -> T {
    let client = sim.client().unwrap();
    let task = sim.spawn(&client, f(client.clone()));
    drop(client);
    sim.run();
    task.take().expect("the task ends")
}

/// A fabric of threads, and an index on it.
fn shared() -> (Local, BlockingMap<LocalClient>) {
    let local = Local::anonymous(&LocalOptions::default()).unwrap();
    let map = BlockingMap::create(local.client().unwrap(), tiny()).unwrap();
    (local, map)
}

/// Counts of 4 bytes, where a MainSegment has more entries than 2 can count, and of 2 again in its halves.
#[test]
fn a_main_segment_may_have_more_entries_than_narrow_counts_hold() {
    let key = |i: u32| i.to_le_bytes();
    let sim = sim(1, 64 << 20, None);
    let second = sim.client().unwrap();
    let counted = run(&sim, |first| async move {
        let mut options = tiny();
        (options.cur_entries, options.main_entries) = (4096, 68_000);
        options.chunk_bytes = 1 << 20;
        let map = RemoteMap::create(first, options).await?;
        let other = RemoteMap::open(second, options).await?;
        for (keys, segments) in [(16 * 4096 - 1, 1), (16 * 4096, 1), (17 * 4096, 2)] {
            let from = map.check().await?.keys as u32;
            for i in from..keys {
                map.put(&key(i), &key(i)).await?;
            }
            let report = map.check().await?;
            assert_eq!((report.keys, report.segments), (keys.into(), segments));
            for map in [&other, &map] {
                for i in (0..keys).step_by(97) {
                    assert_eq!(map.get(&key(i)).await?.as_deref(), Some(&key(i)[..]));
                }
                assert_eq!(map.get(&key(keys)).await?, None);
            }
        }
        Ok::<_, durahash_remote::Error>(())
    });
    counted.unwrap();
}

/// Few of many clients look at the rows of all in a tick. The epoch moves as before, and who died is evicted.
#[test]
fn among_many_clients_few_look_at_all_rows() {
    const CLIENTS: usize = 64;
    const ROWS: u32 = 1024;
    let local = Local::anonymous(&LocalOptions::default()).unwrap();
    let mut options = tiny();
    options.max_clients = ROWS;
    let open = |number| {
        let client = local.client().unwrap();
        let opened = async move {
            match number {
                0 => RemoteMap::create(client, options).await,
                _ => RemoteMap::open(client, options).await,
            }
        };
        block_on(opened).unwrap()
    };
    let mut maps: Vec<_> = (0..CLIENTS).map(open).collect();
    let rounds = |maps: &[RemoteMap<LocalClient>], count| {
        for map in (0..count).flat_map(|_| maps) {
            block_on(map.tick()).unwrap();
        }
    };
    let watch = local.client().unwrap();
    let epoch = || {
        let read = watch.post(Batch::of(|batch| batch.read(Addr::new(0, 192), 8)));
        block_on(read).unwrap().word(0)
    };
    rounds(&maps, 20);
    let read =
        |maps: &[RemoteMap<LocalClient>]| maps.iter().map(|map| map.counts().bytes_in).sum::<u64>();
    let (read_before, epoch_before) = (read(&maps), epoch());
    rounds(&maps, 100);
    // An eighth of the ticks, and the other words of all.
    let looks = (read(&maps) - read_before) / (8 * u64::from(ROWS));
    assert!((700..1000).contains(&looks), "{looks} looks");
    let moved = epoch() - epoch_before;
    assert!((70..=100).contains(&moved), "{moved} epochs");
    drop(maps.pop());
    rounds(&maps, 20);
    assert_eq!(maps.iter().map(|map| map.stats().evictions).sum::<u64>(), 1);
}

/// In a look the fabric is asked about some of the idle clients, and in the next ones about others, until it tells who died.
#[test]
fn few_idle_clients_are_asked_about_at_once() {
    let local = Local::anonymous(&LocalOptions::default()).unwrap();
    let mut options = tiny();
    options.max_clients = 64;
    let busy = block_on(RemoteMap::create(local.client().unwrap(), options)).unwrap();
    let idle = |_| block_on(RemoteMap::open(local.client().unwrap(), options)).unwrap();
    let mut idle: Vec<_> = (0..40).map(idle).collect();
    let ticks = |count| {
        let before = busy.counts().round_trips;
        (0..count).for_each(|_| block_on(busy.tick()).unwrap());
        busy.counts().round_trips - before
    };
    ticks(20);
    let took = ticks(15);
    assert!(took <= 15 * 10, "{took} round trips");
    drop(idle.pop());
    ticks(60);
    assert_eq!(busy.stats().evictions, 1);
}

/// A client that waits for the epoch does not wait for its turn among those that have died.
#[test]
fn a_survivor_of_many_looks_soon() {
    const CLIENTS: usize = 800;
    let mut options = SimOptions::default();
    (options.max_clients, options.node_bytes) = (1024, vec![64 << 20]);
    let sim = Sim::new(options);
    let mut options = tiny();
    options.max_clients = 1024;
    let clients: Vec<_> = (0..CLIENTS).map(|_| sim.client().unwrap()).collect();
    let made = sim.spawn(&clients[0], RemoteMap::create(clients[0].clone(), options));
    sim.run();
    let map = made.take().unwrap().unwrap();
    let others: Vec<_> = clients[1..]
        .iter()
        .map(|client| sim.spawn(client, RemoteMap::open(client.clone(), options)))
        .collect();
    sim.run();
    let swept = sim.spawn(&clients[0], {
        let map = map.clone();
        async move {
            for _ in 0..5 {
                map.tick().await?;
            }
            Ok::<_, durahash_remote::Error>(map.counts().swaps)
        }
    });
    sim.run();
    let before = swept.take().unwrap().unwrap();
    clients[1..].iter().for_each(|client| sim.kill(client));
    drop(others);
    let swept = sim.spawn(&clients[0], {
        let map = map.clone();
        async move { map.sweep().await }
    });
    sim.run();
    swept.take().unwrap().unwrap();
    assert_eq!(map.stats().evictions, CLIENTS as u64 - 1);
    // Each tick moves the row.
    let swaps = map.counts().swaps - before - map.stats().evictions;
    assert!(swaps < 300, "{swaps} swaps");
}

/// What a client has unlinked comes back when idle clients have ticked: until then an operation waits.
#[test]
fn no_node_is_full_while_memory_comes_back() {
    let sim = sim(1, 192 << 10, None);
    let idle = sim.client().unwrap();
    let put = run(&sim, |client| async move {
        let map = RemoteMap::create(client, tiny()).await?;
        let other = RemoteMap::open(idle.clone(), tiny()).await?;
        let over = Rc::new(Cell::new(false));
        let ticks = async {
            while !over.get() {
                idle.sleep_ns(1_000_000_000).await;
                other.tick().await.unwrap();
            }
        };
        let puts = async {
            for i in 0..400_u32 {
                map.put(&(i % 40).to_le_bytes(), &[i as u8; 1500]).await?;
            }
            over.set(true);
            Ok::<_, durahash_remote::Error>(map.stats().waits)
        };
        let (mut ticks, mut puts) = (pin!(ticks), pin!(puts));
        poll_fn(|cx| {
            let _ = ticks.as_mut().poll(cx);
            puts.as_mut().poll(cx)
        })
        .await
    });
    assert!(put.unwrap() > 10);
}

#[test]
fn one_client_agrees_with_a_model() {
    for seed in 0..20 {
        let nodes = 1 + seed as usize % 3;
        let sim = sim(nodes, 64 << 20, Some(Chaos::default()));
        run(&sim, |client| async move {
            let map = RemoteMap::create(client, tiny()).await?;
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            let mix = WordMix::new(seed);
            for i in 0..600 {
                let draw = |what: u64, n: u64| mix.mix(i * 16 + what) % n;
                let mut key = format!("{}", draw(0, 80)).into_bytes();
                if draw(1, 80).is_multiple_of(9) {
                    key.resize(3000, b'k');
                }
                let len = [0, 10, 100, 431, 500, 5000, 100_000][draw(2, 7) as usize];
                let value = vec![i as u8; len];
                match draw(3, 8) {
                    0..3 => {
                        map.put(&key, &value).await?;
                        model.insert(key, value);
                    }
                    3 => {
                        map.delete(&key).await?;
                        model.remove(&key);
                    }
                    4 => {
                        let new = !model.contains_key(&key);
                        assert_eq!(map.insert_new(&key, &value).await?, new);
                        model.entry(key).or_insert(value);
                    }
                    5 => {
                        assert_eq!(map.replace(&key, &value).await?, model.insert(key, value));
                    }
                    6 => assert_eq!(map.take(&key).await?, model.remove(&key)),
                    _ => {
                        let old = model.get(&key).cloned();
                        let wrong = Some(&b"wrong"[..]);
                        let differs = map.compare_set(&key, wrong, Some(&value)).await?;
                        assert_eq!(differs, Compared::Differs(old.clone()));
                        let set = map.compare_set(&key, old.as_deref(), Some(&value)).await?;
                        assert_eq!(set, Compared::Set);
                        model.insert(key, value);
                    }
                }
                let probe = format!("{}", draw(4, 80)).into_bytes();
                assert_eq!(map.get(&probe).await?.as_ref(), model.get(&probe));
            }
            let mut found = BTreeMap::new();
            let mut pages = map.pages();
            while let Some(page) = pages.next().await? {
                for (key, value) in page {
                    assert_eq!(found.insert(key, value), None);
                }
            }
            assert_eq!(found, model);
            let report = map.check().await?;
            assert_eq!((report.keys, report.unaccounted_bytes), (model.len() as u64, 0));
            assert!(report.segments > 4 && report.depth > 2);
            map.close().await
        })
        .unwrap();
    }
}

#[test]
fn keys_and_values_of_every_size() {
    let sim = sim(2, 64 << 20, None);
    run(&sim, |client| async move {
        let map = RemoteMap::create(client, tiny()).await?;
        let mib = 1 << 20;
        let sizes = [0, 1, 47, 48, 49, 431, 432, 433, 1000, mib];
        for key in sizes {
            for value in sizes {
                let (key, value) = (vec![7; key], vec![9; value]);
                map.put(&key, &value).await?;
                assert_eq!(map.get(&key).await?, Some(value));
            }
        }
        assert_eq!(map.check().await?.keys, sizes.len() as u64);
        let large = vec![0; mib + 1];
        for error in [
            map.put(&large, b"").await.unwrap_err(),
            map.put(b"", &large).await.unwrap_err(),
            map.get(&large).await.unwrap_err(),
            map.replace(b"", &large).await.unwrap_err(),
        ] {
            assert!(matches!(error.kind(), ErrorKind::TooLarge { limit_bytes: 0x10_0000, .. }));
        }
        map.close().await
    })
    .unwrap();
}

/// 16 bits of generation, and 7 in entries, come round, and memory is used again all the time.
#[test]
fn generations_come_round() {
    let sim = sim(1, 256 << 10, None);
    run(&sim, |client| async move {
        let mut options = tiny();
        (options.cur_entries, options.main_entries, options.max_depth) = (2, 2, 1);
        options.tick_ns = 10_000;
        let map = RemoteMap::create(client, options).await?;
        for i in 0..140_000u32 {
            map.put(b"key", &i.to_le_bytes()).await?;
            if i % 7 == 0 {
                assert_eq!(map.get(b"key").await?, Some(i.to_le_bytes().to_vec()));
            }
        }
        assert!(map.stats().merges > 65_536 + 128);
        assert_eq!(map.check().await?.keys, 1);
        map.close().await
    })
    .unwrap();
}

/// A client that died keeps memory back until the fabric says that it is dead.
#[test]
fn the_dead_do_not_keep_memory_back() {
    let sim = sim(1, 256 << 10, None);
    run(&sim, |client| async move { RemoteMap::create(client, tiny()).await?.close().await })
        .unwrap();
    let (client, dead) = (sim.client().unwrap(), sim.client().unwrap());
    let task = sim.spawn(&dead, {
        let dead = dead.clone();
        async move { RemoteMap::open(dead, tiny()).await.map(drop) }
    });
    sim.run();
    task.take().unwrap().unwrap();
    sim.kill(&dead);
    let task = sim.spawn(&client.clone(), async move {
        let mut options = tiny();
        options.tick_ns = 10_000;
        let map = RemoteMap::open(client, options).await?;
        for i in 0..20_000u32 {
            map.put(&(i % 10).to_le_bytes(), &i.to_le_bytes()).await?;
        }
        assert_eq!(map.stats().evictions, 1);
        map.close().await
    });
    sim.run();
    task.take().expect("the task ends").unwrap();
}

#[test]
fn a_full_region_is_said_and_nothing_is_lost() {
    let sim = sim(1, 256 << 10, None);
    run(&sim, |client| async move {
        let map = RemoteMap::create(client, tiny()).await?;
        let mut put = 0u32;
        let error = loop {
            match map.put(&put.to_le_bytes(), &[1; 200]).await {
                Ok(()) => put += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error.kind(), ErrorKind::Full { .. }) && put > 300, "{error} at {put}");
        for i in 0..put {
            assert_eq!(map.get(&i.to_le_bytes()).await?, Some(vec![1; 200]), "{i} of {put}");
        }
        assert_eq!(map.check().await?.keys, put.into());
        map.close().await
    })
    .unwrap();
}

fn kind(result: Result<RemoteMap<SimClient>>) -> String {
    match result {
        Ok(_) => panic!("it was taken for an index"),
        Err(error) => format!("{:?}", error.kind()),
    }
}

#[test]
fn other_memory_is_refused() {
    let empty = sim(1, 1 << 20, None);
    assert!(run(&empty, |c| async { kind(RemoteMap::open(c, tiny()).await) }).contains("NotAPool"));
    let small = sim(1, 1 << 10, None);
    assert!(run(&small, |c| async { kind(RemoteMap::create(c, tiny()).await) }).contains("Full"));
    let twice = sim(1, 1 << 20, None);
    let made = run(&twice, |c| async { RemoteMap::create(c, tiny()).await?.close().await });
    made.unwrap();
    assert!(run(&twice, |c| async { kind(RemoteMap::create(c, tiny()).await) }).contains("Exists"));
    for wrong in [(1, 12, 8), (4, 3, 8), (4, 12, 41)] {
        let mut options = tiny();
        (options.cur_entries, options.main_entries, options.max_depth) = wrong;
        let sim = sim(1, 1 << 20, None);
        let kind = run(&sim, |c| async move { kind(RemoteMap::create(c, options).await) });
        assert!(kind.contains("Options"), "{kind}");
    }
}

#[test]
fn a_lost_node_is_an_error_within_the_deadline() {
    for node in 0..2 {
        let sim = sim(2, 1 << 20, None);
        let failing = sim.clone();
        let ended = run(&sim, |client| async move {
            let sim = failing;
            let map = RemoteMap::create(client.clone(), tiny()).await?;
            for i in 0..100u32 {
                map.put(&i.to_le_bytes(), b"value").await?;
            }
            sim.lose_node(node);
            let from = client.now_ns();
            let mut failed = 0;
            for i in 0..100u32 {
                match map.put(&i.to_le_bytes(), b"other").await {
                    Err(e) if matches!(e.kind(), ErrorKind::NodeLost { .. }) => failed += 1,
                    other => other?,
                }
            }
            assert!(failed > 20 && client.now_ns() - from < 1_000_000_000, "{failed}");
            // So it is for operations that come when the client has been closed for that.
            drop(map.clone().close().await);
            let told = map.put(b"key", b"value").await.unwrap_err();
            let is_lost = matches!(told.kind(), ErrorKind::NodeLost { .. });
            assert!(is_lost || node == 1 && matches!(told.kind(), ErrorKind::Closed), "{told}");
            Ok::<(), durahash_remote::Error>(())
        });
        ended.unwrap();
    }
}

#[test]
fn threads_share_a_local_fabric() {
    let (local, map) = shared();
    let other = BlockingMap::open(local.client().unwrap(), tiny()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let map = if thread % 2 == 0 { map.clone() } else { other.clone() };
            scope.spawn(move || {
                for i in 0..500u32 {
                    map.put(&[thread, i].map(u32::to_le_bytes).concat(), b"own").unwrap();
                    map.fetch_add(b"count", 1).unwrap();
                }
            });
        }
    });
    assert_eq!(other.get(b"count").unwrap(), Some(2000u64.to_le_bytes().to_vec()));
    assert_eq!(map.check().unwrap().keys, 2001);
    drop(other);
    // The other client gave its memory back when it left.
    assert_eq!(map.check().unwrap().unaccounted_bytes, 0);
}

#[test]
fn a_blocking_map_is_closed_for_all_its_clones() {
    let (local, map) = shared();
    let clone = map.clone();
    for i in 0..200_u32 {
        map.put(&i.to_le_bytes(), b"value").unwrap();
    }
    map.close().unwrap();
    let refused = clone.put(b"key", b"value").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Closed), "{refused}");
    assert!(matches!(clone.get(b"key").unwrap_err().kind(), ErrorKind::Closed));
    // It has left, and its memory is the next client's.
    let next = BlockingMap::open(local.client().unwrap(), tiny()).unwrap();
    drop(clone);
    let report = next.check().unwrap();
    assert_eq!((report.keys, report.unaccounted_bytes), (200, 0));
    next.close().unwrap();
}

#[test]
fn many_at_once_keep_the_order_of_each_key() {
    for seed in 0..8 {
        let mut chaos = Chaos::default();
        chaos.orders_swaps = seed % 2 == 1;
        let keys = if seed < 4 { 50 } else { 200 };
        let sim = sim(2, 64 << 20, Some(chaos));
        run(&sim, |client| async move {
            let map = RemoteMap::create(client, tiny()).await?;
            let mix = WordMix::new(seed);
            let mut pairs: Vec<_> = (0..12 * keys)
                .map(|i| ((mix.mix(i) % keys).to_string().into_bytes(), i.to_string().into_bytes()))
                .collect();
            let model: BTreeMap<_, _> = pairs.iter().cloned().collect();
            map.put_many(&pairs).await?;
            let mut keys: Vec<_> = model.keys().cloned().collect();
            let mut found: Vec<_> = model.values().cloned().map(Some).collect();
            keys.push(b"none".to_vec());
            found.push(None);
            assert_eq!(map.get_many(&keys).await?, found);
            map.put_many(&[]).await?;
            // The first of those of one key, where there is none.
            let new = [(b"one", b"1"), (b"one", b"2"), (b"two", b"2")]
                .map(|(k, v)| (k.to_vec(), v.to_vec()));
            let all: Vec<_> = pairs.iter().take(100).cloned().chain(new).collect();
            let was_new = map.insert_many(&all).await?;
            assert!(was_new[..100].iter().all(|new| !new) && was_new[100..] == [true, false, true]);
            assert_eq!(map.get(b"one").await?.as_deref(), Some(&b"1"[..]));
            let append = |old: Option<&[u8]>| Change::Set([old.unwrap_or(b""), b"+"].concat());
            assert_eq!(map.update(b"one", append).await?.as_deref(), Some(&b"1+"[..]));
            assert_eq!(map.update(b"two", |_| Change::Keep).await?.as_deref(), Some(&b"2"[..]));
            for key in [b"one", b"two"] {
                assert_eq!(map.update(key, |_| Change::Remove).await?, None);
                assert_eq!(map.update(key, |_| Change::Remove).await?, None);
            }
            let (key, value) = model.first_key_value().unwrap();
            assert!(matches!(
                map.fetch_add(key, 1).await.unwrap_err().kind(),
                ErrorKind::Types { .. }
            ));
            assert_eq!(map.get(key).await?.as_ref(), Some(value));
            pairs.push((b"large".to_vec(), vec![0; (1 << 20) + 1]));
            let refused = map.put_many(&pairs).await.unwrap_err();
            assert!(matches!(refused.kind(), ErrorKind::TooLarge { .. }), "{refused}");
            assert_eq!(map.get(b"large").await?, None);
            assert_eq!(map.check().await?.keys, model.len() as u64);
            map.close().await
        })
        .unwrap();
    }
}

#[test]
fn pages_of_a_blocking_map_are_those_of_each() {
    let (_, map) = shared();
    for i in 0..300_u32 {
        map.put(&i.to_le_bytes(), i.to_string().as_bytes()).unwrap();
    }
    let (mut pages, mut by_pages, mut count) = (map.pages(), Vec::new(), 0);
    while let Some(mut page) = pages.next().unwrap() {
        by_pages.append(&mut page);
        count += 1;
    }
    assert!(pages.next().unwrap().is_none());
    assert!(count > 10, "{count}");
    let all = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = std::sync::Arc::clone(&all);
    map.each(move |key, value| told.lock().unwrap().push((key, value))).unwrap();
    assert_eq!(by_pages.len(), 300);
    assert_eq!(by_pages, *all.lock().unwrap());
}

/// Iteration tells of a damaged value, and gives all others.
#[test]
fn pages_go_on_behind_damage() {
    const BYTES: u64 = 1 << 20;
    let sim = sim(1, BYTES, None);
    run(&sim, |client| async move {
        let map = RemoteMap::create(client.clone(), tiny()).await.unwrap();
        let value = |i: u32| format!("value {i:08}").into_bytes();
        for i in 0..200_u32 {
            map.put(&i.to_le_bytes(), &value(i)).await.unwrap();
        }
        let all = Batch::of(|batch| batch.read(Addr::new(0, 0), BYTES as usize));
        let all = client.post(all).await.unwrap().into_bytes();
        let damaged = [3, 77, 150];
        for i in damaged {
            let off = all.windows(14).position(|bytes| bytes == value(i)).unwrap() as u64;
            let wrong = Batch::of(|batch| batch.write_word(Addr::new(0, off & !7), 7));
            client.post(wrong).await.unwrap();
        }
        let (mut pages, mut keys, mut errors) = (map.pages(), BTreeMap::new(), 0);
        loop {
            match pages.next().await {
                Ok(Some(page)) => {
                    for (key, value) in page {
                        let key = u32::from_le_bytes(key.try_into().unwrap());
                        assert_eq!(keys.insert(key, value), None);
                    }
                }
                Ok(None) => break,
                Err(e) => {
                    assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
                    errors += 1;
                }
            }
        }
        assert_eq!(errors, damaged.len());
        let whole = (0..200).filter(|i| !damaged.contains(i)).map(|i| (i, value(i)));
        assert_eq!(keys, whole.collect());
    });
}

/// A damaged depth does not make a client's directory as large as that of an index of this depth.
#[test]
fn damaged_depths_are_told() {
    let sim = sim(1, 1 << 20, None);
    let other = sim.client().unwrap();
    run(&sim, |client| async move {
        let map = RemoteMap::create(client.clone(), tiny()).await.unwrap();
        let words = client.post(Batch::of(|batch| batch.read(Addr::new(0, 0), 64 << 10))).await;
        let words = words.unwrap().into_bytes();
        let words = words.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        // Word A of the only segment, by its depth and generation.
        let is_a = |word: &u64| word >> 42 == 1 && word << 22 != 0;
        let at = words.clone().position(|word| is_a(&word)).unwrap();
        let a = words.clone().nth(at).unwrap();
        let write = async |off, word| {
            let write = Batch::of(|batch| batch.write_word(Addr::new(0, off), word));
            client.post(write).await.unwrap();
        };
        write(8 * at as u64, a | 8 << 58).await;
        let told = map.summary().await.unwrap_err();
        assert!(told.to_string().contains("word A"), "{told}");
        assert_eq!(map.stats().directory_bytes, 8);
        write(8 * at as u64, a).await;
        // The depth of the directory.
        write(128, 9).await;
        let told = map.summary().await.unwrap_err();
        assert!(told.to_string().contains("the depth of the directory"), "{told}");
        write(128, 8).await;
        let told = RemoteMap::open(other, tiny()).await.err().unwrap();
        assert!(told.to_string().contains("the depth of the directory"), "{told}");
    });
}

/// Sweeps of two clients, while each of them and others that come and go write.
#[test]
fn sweeps_beside_operations_lose_nothing() {
    let (local, map) = shared();
    let beside = BlockingMap::open(local.client().unwrap(), tiny()).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for i in 0..2000_u32 {
                map.put(&(i % 50).to_le_bytes(), &[i as u8; 70]).unwrap();
            }
        });
        let guests = scope.spawn(|| {
            for i in 0..50_u32 {
                let guest = BlockingMap::open(local.client().unwrap(), tiny()).unwrap();
                (0..5)
                    .for_each(|k| guest.put(&(1000 + i * 5 + k).to_le_bytes(), &[2; 90]).unwrap());
            }
        });
        let mut sweeps = 0;
        while sweeps == 0 || !writer.is_finished() || !guests.is_finished() {
            map.sweep().unwrap();
            beside.sweep().unwrap();
            sweeps += 2;
        }
        println!("{sweeps} sweeps");
    });
    for i in 0..50_u32 {
        assert_eq!(map.get(&i.to_le_bytes()).unwrap(), Some(vec![(i + 1950) as u8; 70]));
    }
    for i in 1000..1250_u32 {
        assert_eq!(map.get(&i.to_le_bytes()).unwrap(), Some(vec![2; 90]));
    }
    drop(beside);
    map.sweep().unwrap();
    assert_eq!(map.check().unwrap().unaccounted_bytes, 0);
}

/// A client that is silent holds others up, until they say so.
#[test]
fn a_silent_client_is_named_by_those_that_wait_for_it() {
    let sim = sim(1, 64 << 20, None);
    let silent = sim.client().unwrap();
    let row = silent.row();
    let map = sim.spawn(&silent, RemoteMap::create(silent.clone(), tiny()));
    sim.run();
    let _lives = map.take().unwrap().unwrap();
    let ended = run(&sim, |client| async move {
        let map = RemoteMap::open(client, tiny()).await?;
        for i in 0..100_000_u32 {
            map.put(&(i % 4).to_le_bytes(), b"value").await?;
        }
        Ok::<(), durahash_remote::Error>(())
    });
    let told = ended.unwrap_err().to_string();
    assert!(told.contains(&format!("row {row}")), "{told}");
}

/// The others go on without a client that rests, and it has nothing of theirs. An operation makes it one again.
#[test]
fn a_client_that_rests_is_not_waited_for() {
    let sim = sim(1, 64 << 20, None);
    let resting = sim.client().unwrap();
    let done = run(&sim, |client| async move {
        let map = RemoteMap::create(client, tiny()).await?;
        let other = RemoteMap::open(resting, tiny()).await?;
        for i in 0..3_u8 {
            other.put(b"key", &[i; 100]).await?;
            assert!(other.stats().held_bytes.iter().sum::<u64>() > 0);
            other.rest().await?;
            assert_eq!(other.stats().held_bytes, [0; 3]);
            for i in 0..3000_u32 {
                map.put(&(i % 4).to_le_bytes(), b"value").await?;
            }
            map.sweep().await?;
            assert_eq!(map.check().await?.unaccounted_bytes, 0);
            assert_eq!(other.get(b"key").await?, Some(vec![i; 100]));
        }
        other.rest().await?;
        other.clone().close().await?;
        let told = other.get(b"key").await.unwrap_err();
        assert!(matches!(told.kind(), ErrorKind::Closed), "{told}");
        map.sweep().await?;
        Ok::<_, durahash_remote::Error>(())
    });
    done.unwrap();
}

/// Wherever the future is dropped, and whenever what it has sent takes effect, no operation goes on without a row.
#[test]
fn a_rest_that_is_dropped_leaves_no_client_without_a_row() {
    for polls in 1..40 {
        let sim = sim(1, 1 << 20, None);
        let [resting, watch] = [(); 2].map(|()| sim.client().unwrap());
        let done = run(&sim, |client| async move {
            let _map = RemoteMap::create(client, tiny()).await?;
            let row = Addr::new(0, 512 + 8 * u64::from(resting.row()));
            let other = RemoteMap::open(resting, tiny()).await?;
            other.put(b"key", b"value").await?;
            let (mut rest, mut left) = (Box::pin(other.rest()), polls);
            poll_fn(|cx| {
                left -= 1;
                let is_over = rest.as_mut().poll(cx).is_ready() || left == 0;
                if is_over { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            drop(rest);
            assert_eq!(other.get(b"key").await?.as_deref(), Some(&b"value"[..]));
            let read = watch.post(Batch::of(|batch| batch.read(row, 8))).await?;
            assert_eq!(read.word(0) & 3, 1, "a row that is not live, after {polls} polls");
            Ok::<_, durahash_remote::Error>(())
        });
        done.unwrap();
    }
}

/// A map with a thread of its own rests by itself, again and again.
#[test]
fn a_map_that_is_idle_rests() {
    let (local, map) = shared();
    let watch = local.client().unwrap();
    let is_live = || {
        let read = watch.post(Batch::of(|batch| batch.read(Addr::new(0, 512), 8)));
        block_on(read).unwrap().word(0) & 3 == 1
    };
    for _ in 0..2 {
        map.put(b"key", b"value").unwrap();
        assert!(is_live());
        while is_live() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    assert_eq!(map.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// No call waits for a thread that has panicked.
#[test]
fn after_a_panic_of_its_thread_a_client_answers_no_call() {
    let (_, map) = shared();
    map.put(b"key", b"value").unwrap();
    for _ in 0..3 {
        let map = map.clone();
        let call = std::thread::spawn(move || map.each(|_, _| panic!("of the caller's")));
        assert!(call.join().is_err());
    }
}
