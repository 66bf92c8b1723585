//! Over a fabric that orders swaps: what the operations of a client that run at once know of each other.

use std::cell::Cell;

use durahash_remote::fabric::{Chaos, Choice, Fabric, Kind, Sim, SimClient, SimOptions, Stage};
use durahash_remote::{RemoteMap, Result};

use super::{key, small};

fn ordered() -> Sim {
    let mut options = SimOptions::default();
    let mut chaos = Chaos::default();
    (chaos.orders_swaps, chaos.stall_one_in) = (true, 0);
    options.chaos = Some(chaos);
    Sim::new(options)
}

fn done<T: 'static>(
    sim: &Sim,
    client: &SimClient,
    f: impl Future<Output = Result<T>> + 'static,
) -> T {
    let task = sim.spawn(client, f);
    sim.run();
    task.take().expect("the task ends").unwrap()
}

/// What one operation has merged is not another client's merge to the others, but where its answer is overtaken.
#[test]
fn merges_of_a_client_are_known_to_its_other_operations() {
    let sim = ordered();
    let a = sim.client().unwrap();
    let stats = done(&sim, &a.clone(), async move {
        let mut options = small();
        (options.first_depth, options.main_entries) = (2, 1024);
        let map = RemoteMap::create(a, options).await?;
        let pairs: Vec<_> = (0..512).map(|i| (key(i), vec![0; 32])).collect();
        for pairs in [&pairs[..]; 4].concat().chunks(64) {
            map.put_many(pairs).await?;
            map.tick().await?;
        }
        Ok(map.stats())
    });
    assert!(stats.merges > 100 && stats.turns * 10 < stats.merges, "{stats:?}");
}

/// A put that begins while a conditional operation writes takes the next entry.
#[test]
fn a_conditional_operation_has_its_entry_alone() {
    let sim = ordered();
    let a = sim.client().unwrap();
    let client = a.clone();
    let map = done(&sim, &a, async move {
        let map = RemoteMap::create(client, small()).await?;
        // The last one fills the segment, and merges it.
        for i in 0..16 {
            map.put(&key(i), b"").await?;
        }
        Ok(map)
    });
    let (adding, swaps, client) = (map.clone(), map.counts().swaps, a.clone());
    let added = sim.spawn(&a, async move { adding.fetch_add(b"n", 1).await });
    let trips = done(&sim, &a, async move {
        while map.counts().swaps == swaps {
            client.sleep_ns(100).await;
        }
        map.put(&key(16), b"").await?;
        assert_eq!(map.stats().conflicts, 0);
        let before = map.counts().round_trips;
        map.put(&key(17), b"").await?;
        Ok(map.counts().round_trips - before)
    });
    assert_eq!((added.take().unwrap().unwrap(), trips), (0, 1));
}

/// The client that filled a segment has died, and another one that waits for it to merge stands still meanwhile.
#[test]
fn who_stood_still_does_not_wait_for_many_times_as_long() {
    const STALL_NS: u64 = 9_000_000_000;
    let sim = ordered();
    let [a, b] = [sim.client().unwrap(), sim.client().unwrap()];
    let client = a.clone();
    let first = done(&sim, &a, async move {
        let map = RemoteMap::create(client, small()).await?;
        for i in 0..15 {
            map.put(&key(i), b"").await?;
        }
        Ok(map)
    });
    let client = b.clone();
    let second = done(&sim, &b, async move { RemoteMap::open(client, small()).await });
    let stalls = Cell::new(true);
    sim.set_hook(Box::new(move |event| match (event.client, event.kind, event.stage) {
        (0, Kind::CompareSwap { .. }, Stage::Effect { .. }) => Choice::Kill,
        // It looks at word A.
        (1, Kind::Read, Stage::Posted) if event.len == 8 && stalls.take() => {
            Choice::Stall { ns: STALL_NS }
        }
        _ => Choice::Go,
    }));
    let filled = sim.spawn(&a, async move { first.put(&key(15), b"").await });
    sim.run();
    assert!(filled.take().is_none());
    done(&sim, &b, async move {
        second.put(&key(16), b"").await?;
        assert_eq!(second.stats().merges, 1);
        Ok(())
    });
    assert!((STALL_NS..2 * STALL_NS).contains(&sim.now_ns()));
}
