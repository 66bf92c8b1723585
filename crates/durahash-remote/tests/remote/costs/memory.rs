//! Memory that clients take from the nodes, against the needs of the index and its KV blocks, while it grows and
//! while it only changes: blocks that were left must serve again.

use std::rc::Rc;

use durahash_media::hash::WordMix;
use durahash_remote::fabric::{Fabric, Sim, SimOptions};
use durahash_remote::{Options, RemoteMap, Report};

use super::key;

/// The operations of a client after the keys were put.
#[derive(Clone, Copy, Debug)]
struct Churn {
    nodes: usize,
    clients: u64,
    keys: u64,
    main_entries: u32,
    rounds: u64,
    chunk_bytes: u64,
    /// Bytes of values: drawn between.
    values: (u64, u64),
    /// Of the operations, one in so many deletes; a put brings the key back.
    deletes_one_in: u64,
}

const ONE: Churn = Churn {
    nodes: 1,
    clients: 1,
    keys: 8_000,
    main_entries: 16 * 128,
    rounds: 3,
    chunk_bytes: 256 << 10,
    values: (32, 32),
    deletes_one_in: u64::MAX,
};

/// The index after the keys were put, and after each of the rounds, in which each client does as many
/// operations as there are keys.
fn reports(churn: Churn) -> Vec<Report> {
    let mut options = SimOptions::default();
    options.max_clients = 8;
    options.node_bytes = vec![(96 << 20) / churn.nodes as u64; churn.nodes];
    let sim = Sim::new(options);
    let clients: Vec<_> = (0..churn.clients).map(|_| sim.client().unwrap()).collect();
    let task = sim.spawn(&clients[0].clone(), {
        let clients = clients.clone();
        async move {
            let mut options = Options::default();
            options.tick_ns = 100_000;
            options.main_entries = churn.main_entries;
            options.chunk_bytes = churn.chunk_bytes;
            let mut maps = Vec::new();
            for (i, client) in clients.into_iter().enumerate() {
                maps.push(match i {
                    0 => RemoteMap::create(client, options).await?,
                    _ => RemoteMap::open(client, options).await?,
                });
            }
            let mix = WordMix::new(9);
            let mut drawn = 0;
            let mut draw = |below: u64| {
                drawn += 1;
                mix.mix(drawn) % below
            };
            let (least, most) = churn.values;
            let mut reports = Vec::new();
            for round in 0..=churn.rounds {
                for i in 0..churn.keys * if round == 0 { 1 } else { churn.clients } {
                    let map = &maps[(i % churn.clients) as usize];
                    let value = vec![7; (least + draw(most - least + 1)) as usize];
                    let name = key(if round == 0 { i } else { draw(churn.keys) });
                    if round > 0 && draw(churn.deletes_one_in) == 0 {
                        map.delete(&name).await?;
                    } else {
                        map.put(&name, &value).await?;
                    }
                    if i % 32 == 0 {
                        for map in &maps {
                            map.tick().await?;
                        }
                    }
                }
                reports.push(maps[0].check().await?);
            }
            Ok::<_, durahash_remote::Error>(reports)
        }
    });
    sim.run();
    task.take().expect("the task ends").unwrap()
}

#[test]
fn memory_that_was_left_serves_again() {
    for churn in [
        ONE,
        Churn { deletes_one_in: 3, ..ONE },
        Churn { values: (0, 400), deletes_one_in: 5, ..ONE },
        Churn { values: (0, 3000), keys: 3_000, deletes_one_in: 5, ..ONE },
        Churn { clients: 4, nodes: 3, keys: 5_000, rounds: 2, deletes_one_in: 4, ..ONE },
    ] {
        let all = reports(churn);
        let taken: Vec<u64> = all.iter().map(|report| report.taken_bytes).collect();
        let needed: Vec<u64> =
            all.iter().map(|report| report.index_bytes + report.kv_bytes).collect();
        println!("{churn:?}: {taken:?} bytes taken, {needed:?} needed");
        // Of each client and node one chunk for small blocks and one for large ones is under way.
        let under_way = 2 * churn.clients * churn.nodes as u64 * churn.chunk_bytes;
        assert!(taken[0] <= needed[0] * 9 / 8 + under_way, "{churn:?}");
        // Blocks that wait for their epoch, and those of lengths that come later.
        assert!(taken[1] <= taken[0] * 9 / 8 + under_way, "{churn:?}");
        assert_eq!(taken.last(), Some(&taken[1]), "{churn:?}");
    }
}

/// Puts that are under way together share the chunk that one of them takes.
#[test]
fn a_batch_takes_a_chunk_of_each_node() {
    let (sim, options) = (Sim::new(SimOptions::default()), Options::default());
    let client = sim.client().unwrap();
    let task = sim.spawn(&client.clone(), async move {
        let map = RemoteMap::create(client, options).await?;
        let before = map.check().await?.taken_bytes;
        let pairs: Vec<_> = (0..64).map(|i| (key(i).to_vec(), vec![7; 32])).collect();
        map.put_many(&pairs).await?;
        Ok::<_, durahash_remote::Error>(map.check().await?.taken_bytes - before)
    });
    sim.run();
    let taken = task.take().unwrap().unwrap();
    let most = options.chunk_bytes * SimOptions::default().node_bytes.len() as u64;
    assert!(taken <= most, "{taken} {most}");
}

/// The client that merges owns the old MainSegment's memory, and other clients mostly own its neighbours.
#[test]
fn clients_that_fill_an_index_together_reuse_their_memory() {
    let churn = Churn { clients: 4, keys: 250_000, main_entries: 64 * 128, rounds: 0, ..ONE };
    let report = &reports(churn)[0];
    let (taken, needed) = (report.taken_bytes, report.index_bytes + report.kv_bytes);
    println!("{taken} bytes taken, {needed} needed");
    assert!(taken <= needed * 3 / 2, "{taken} {needed}");
}

/// Clients that die one after another, beside two that live: of what they leaked only a little is lost at any time.
#[test]
fn the_dead_leave_no_more_than_a_part_behind() {
    const KEYS: u64 = 20_000;
    const DEATHS: u64 = 1000;
    let mut options = SimOptions::default();
    (options.max_clients, options.node_bytes) = (8, vec![32 << 20; 2]);
    let sim = Sim::new(options);
    let mut small = Options::default();
    (small.main_entries, small.chunk_bytes, small.tick_ns) = (16 * 128, 8 << 10, 100_000);
    let lives: [_; 2] = std::array::from_fn(|_| sim.client().unwrap());
    let load = sim.spawn(&lives[0], {
        let lives = lives.clone();
        async move {
            let [first, second] = lives;
            let map = RemoteMap::create(first, small).await?;
            for i in 0..KEYS {
                map.put(&key(i), &[7; 32]).await?;
            }
            Ok::<_, durahash_remote::Error>([map, RemoteMap::open(second, small).await?])
        }
    });
    sim.run();
    let maps = Rc::new(load.take().unwrap().unwrap());
    for (map, client) in maps.iter().zip(&lives) {
        sim.spawn(client, map.clone().service());
    }
    let taken = |maps: Rc<[RemoteMap<_>; 2]>, draw: u64| {
        let client = lives[0].clone();
        let task = sim.spawn(&lives[0], async move {
            // A sweep that is under way ends.
            client.sleep_ns(100_000_000).await;
            for (i, map) in (draw..draw + 20).zip(maps.iter().cycle()) {
                map.put(&key(WordMix::new(5).mix(i) % KEYS), &[9; 32]).await?;
            }
            let report = maps[0].check().await?;
            let used = report.taken_bytes
                - report.shelf_bytes
                - maps.iter().map(|map| map.stats().held_bytes.iter().sum::<u64>()).sum::<u64>();
            Ok::<_, durahash_remote::Error>((report.taken_bytes, used))
        });
        sim.run_until(sim.now_ns() + 120_000_000);
        task.take().expect("it ends in time").unwrap()
    };
    let (fresh_taken, fresh) = taken(Rc::clone(&maps), 0);
    let (mut taken_by, mut most) = (Vec::new(), 0);
    for death in 1..=DEATHS {
        let loader = sim.client().unwrap();
        sim.spawn(&loader, {
            let loader = loader.clone();
            async move {
                let map = RemoteMap::open(loader, small).await?;
                for i in 0.. {
                    map.put(&key(WordMix::new(death).mix(i) % KEYS), &[8; 32]).await?;
                }
                map.close().await
            }
        });
        sim.run_until(sim.now_ns() + 200_000 + WordMix::new(7).mix(death) % 2_000_000);
        sim.kill(&loader);
        if death % 50 == 0 {
            let (taken, used) = taken(Rc::clone(&maps), 20 * death);
            taken_by.push(taken);
            most = most.max(used);
        }
    }
    println!(
        "fresh: {fresh_taken} bytes taken, {fresh} in use; {taken_by:?} taken, {most} in use; {} sweeps",
        maps.iter().map(|map| map.stats().sweeps).sum::<u64>()
    );
    assert!(most * 5 <= fresh * 6, "{most} {fresh}");
    // What is found serves again.
    assert!(taken_by[19] * 5 <= taken_by[14] * 6, "{taken_by:?}");
}

/// Clients that die one after another while they sweep nodes most of whose memory is free.
#[test]
fn deaths_in_sweeps_cost_a_part_of_the_memory() {
    const NODE_BYTES: u64 = 8 << 20;
    const KEYS: u64 = 3000;
    const DEATHS: u64 = 200;
    let mut options = SimOptions::default();
    (options.max_clients, options.node_bytes) = (8, vec![NODE_BYTES; 2]);
    let sim = Sim::new(options);
    let mut small = Options::default();
    (small.cur_entries, small.main_entries, small.max_depth) = (16, 64, 8);
    (small.chunk_bytes, small.tick_ns) = (4 << 10, 100_000);
    let open = move |client| RemoteMap::open(client, small);
    let client = sim.client().unwrap();
    let load = sim.spawn(&client.clone(), async move {
        let map = RemoteMap::create(client, small).await?;
        for (round, bytes) in [(0, 4000), (1, 32), (2, 32)] {
            for i in 0..KEYS {
                map.put(&key(i), &vec![round; bytes]).await?;
                map.tick().await?;
            }
        }
        map.close().await
    });
    sim.run();
    load.take().unwrap().unwrap();
    let look = |sweeps: bool| {
        let client = sim.client().unwrap();
        let task = sim.spawn(&client.clone(), async move {
            let map = open(client).await?;
            if sweeps {
                map.sweep().await?;
            }
            let report = map.check().await?;
            map.close().await.map(|()| report)
        });
        sim.run();
        task.take().unwrap().unwrap()
    };
    let before = look(false);
    assert!(before.shelf_bytes > NODE_BYTES * 5 / 4, "{before:?}");
    let mut lost = Vec::new();
    for death in 0..DEATHS {
        let client = sim.client().unwrap();
        sim.spawn(&client.clone(), {
            let client = client.clone();
            async move {
                let map = open(client).await?;
                map.sweep().await?;
                map.close().await
            }
        });
        // Half of them when their sweep begins, and they have no memory.
        let most = if death % 2 == 0 { 4_000_000 } else { 400_000 };
        sim.run_until(sim.now_ns() + WordMix::new(death).mix(1) % most);
        sim.kill(&client);
        lost.push(look(false).unaccounted_bytes);
    }
    println!("{lost:?}");
    let part = 2 * NODE_BYTES / 8;
    // And what those had that died since the last sweep.
    assert!(lost.iter().all(|&lost| lost <= part * 3 / 2), "{lost:?}");
    assert!(lost.iter().filter(|&&lost| lost > part / 2).count() > 20, "{lost:?}");
    let after = look(true);
    assert_eq!(after.unaccounted_bytes, 0);
    assert_eq!(after.shelf_bytes + after.held_bytes, before.shelf_bytes);
}
