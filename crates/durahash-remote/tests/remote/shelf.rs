//! Sweeps and the shelf: damaged bags, and operations that are dropped while their client sweeps.

use std::future::{Future as _, poll_fn};
use std::task::Poll;

use durahash_media::ErrorKind;
use durahash_remote::fabric::{Addr, Batch, Fabric, Sim, SimClient, SimOptions};
use durahash_remote::{Options, RemoteMap, Result};

const UNIT: u64 = 64;
const SHELF: Addr = Addr::new(0, 264);

fn key(i: u64) -> [u8; 8] {
    i.to_le_bytes()
}

fn options() -> Options {
    let mut options = Options::default();
    (options.cur_entries, options.main_entries, options.max_depth) = (16, 64, 8);
    (options.chunk_bytes, options.tick_ns) = (4 << 10, 1000);
    options
}

fn sim() -> Sim {
    let mut sim = SimOptions::default();
    (sim.max_clients, sim.node_bytes) = (8, vec![8 << 20]);
    Sim::new(sim)
}

/// Runs this on a new index, on whose shelf many bags are.
fn beside_bags<O: Future<Output = Result<()>> + 'static>(
    f: impl FnOnce(RemoteMap<SimClient>, SimClient) -> O + 'static,
) {
    let sim = sim();
    let [first, second, third] = [(); 3].map(|()| sim.client().unwrap());
    let task = sim.spawn(&first.clone(), async move {
        let map = RemoteMap::create(first, options()).await?;
        for bytes in [2000, 32] {
            for i in 0..1000 {
                map.put(&key(i), &vec![7; bytes]).await?;
                map.tick().await?;
            }
        }
        map.close().await?;
        f(RemoteMap::open(second, options()).await?, third).await
    });
    sim.run();
    task.take().expect("the task ends").unwrap();
}

/// The bags above a damaged one are kept; what is behind it is found by the next sweep.
#[test]
fn a_damaged_bag_costs_a_sweep_and_no_memory() {
    for (damaged, is_circle) in [(0, false), (1, false), (5, false), (0, true), (3, true)] {
        beside_bags(async move |map, fabric| {
            let word = async |at: Addr| {
                fabric.post(Batch::of(|batch| batch.read(at, 8))).await.map(|done| done.word(0))
            };
            let bag = async |count| {
                let mut at = SHELF;
                for _ in 0..=count {
                    at = Addr::new(0, word(at).await? * UNIT);
                }
                Ok::<_, durahash_remote::Error>(at)
            };
            let at = bag(damaged).await?;
            // Its next bag, or the number of its extents.
            let (to, value) = if is_circle { (at, word(SHELF).await?) } else { (at.add(16), 9999) };
            let write = |batch: &mut Batch| batch.write(to, &value.to_le_bytes());
            fabric.post(Batch::of(write)).await?;
            let error = map.sweep().await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Corrupt { what: "a bag of the shelf", .. }));
            map.close().await?;
            let map = RemoteMap::open(fabric, options()).await?;
            assert!(map.sweep().await? > 1 << 20);
            assert_eq!(map.check().await?.unaccounted_bytes, 0);
            Ok(())
        });
    }
}

/// Whatever operation of a client that sweeps is dropped, and wherever, the epoch moves on.
#[test]
fn a_dropped_lookup_holds_no_sweep_up() {
    beside_bags(async move |map, other| {
        let (mut sweep, mut get, mut count) = (Box::pin(map.sweep()), None, 0);
        let found = poll_fn(|cx| {
            // One after the other, each for some steps more than the one before. While some are under way the sweep stands still, and they tick.
            loop {
                let (lookup, left) = get.get_or_insert_with(|| {
                    count += 1;
                    let (map, key) = (map.clone(), key(count % 1000));
                    (Box::pin(async move { map.get(&key).await }), 1 + count % 60)
                });
                *left -= 1;
                if lookup.as_mut().poll(cx).is_pending() && *left > 0 {
                    break;
                }
                get = None;
            }
            if count % 4 == 0 { Poll::Pending } else { sweep.as_mut().poll(cx) }
        })
        .await?;
        assert!(found > 1 << 20, "{found}");
        drop((sweep, get));
        map.close().await?;
        RemoteMap::open(other, options()).await?.sweep().await.map(drop)
    });
}
