//! Many clients of an index of many keys, simulated: `cargo bench -p durahash-remote --bench crowd -- keys=100000000
//! clients=1000 ops=1000`.
//!
//! Two nodes, the default NICs, no time for computing. One client puts all keys, of 8 bytes with values of 8; then as many as
//! are asked for look some up, and put some anew, each with one operation under way. Rates are of virtual time, memory is that of
//! this process, which has nodes and clients in it.

use std::rc::Rc;
use std::time::Instant;
use std::{env, fs};

use durahash_media::hash::WordMix;
use durahash_remote::fabric::{Sim, SimClient, SimOptions};
use durahash_remote::{Options, Pair, RemoteMap, Result};

/// Puts of a batch of the client that loads, and operations between two ticks of the others.
const BATCH: u64 = 256;
/// Bytes of the nodes for each key and for each client, of which those that are used take memory; and for the directory.
const KEY_BYTES: u64 = 160;
const CLIENT_BYTES: u64 = 2 << 20;
const FIRST_BYTES: u64 = 64 << 20;

/// The value of `name=value` among the arguments.
fn number(name: &str, default: u64) -> u64 {
    let found = env::args().find_map(|arg| Some(arg.strip_prefix(name)?.strip_prefix('=')?.into()));
    found.map_or(default, |text: String| text.parse().expect("a number"))
}

fn key(i: u64) -> Vec<u8> {
    WordMix::new(1).mix(i).to_le_bytes().into()
}

fn main() -> Result<()> {
    let [keys, clients, ops] =
        [("keys", 1_000_000), ("clients", 1000), ("ops", 1000)].map(|(name, n)| number(name, n));
    let mut options = SimOptions::default();
    options.max_clients = clients as u32 + 1;
    options.node_bytes = vec![(keys * KEY_BYTES + clients * CLIENT_BYTES) / 2 + FIRST_BYTES; 2];
    let sim = Sim::new(options);
    let mut options = Options::default();
    options.max_clients = clients as u32 + 1;
    println!("{keys} keys, {clients} clients, {ops} operations of each");
    println!("| phase | million a second | µs of one | round trips | s here | GB |");
    println!("|{}", "---|".repeat(6));

    let fabric = sim.client()?;
    let load = move |fabric| async move {
        let map = RemoteMap::create(fabric, options).await?;
        for from in (0..keys).step_by(BATCH as usize) {
            let of = from..keys.min(from + BATCH);
            let pairs: Vec<Pair> = of.map(|i| (key(i), i.to_le_bytes().into())).collect();
            map.put_many(&pairs).await?;
            map.tick().await?;
        }
        map.close().await
    };
    phase(&sim, "load", keys, [(fabric.clone(), load(fabric))])?;

    let fabrics = (0..clients).map(|_| sim.client()).collect::<Result<Vec<_>>>()?;
    let open = move |fabric| async move { RemoteMap::open(fabric, options).await.map(Rc::new) };
    let opens = fabrics.iter().map(|fabric| (fabric.clone(), open(fabric.clone())));
    let maps = phase(&sim, "open", clients, opens)?;

    for (seed, name) in ["first lookups", "lookups", "puts"].into_iter().enumerate() {
        let run = move |client: SimClient, map: Rc<RemoteMap<SimClient>>| async move {
            let client = u64::from(client.number());
            for i in 0..ops {
                let at = WordMix::new(seed as u64).mix(client << 32 | i) % keys;
                if name == "puts" {
                    map.put(&key(at), &i.to_le_bytes()).await?;
                } else {
                    assert!(map.get(&key(at)).await?.is_some(), "a key that was put");
                }
                if i % BATCH == BATCH - 1 {
                    map.tick().await?;
                }
            }
            Ok(())
        };
        let of = fabrics.iter().zip(&maps);
        let of = of.map(|(fabric, map)| (fabric.clone(), run(fabric.clone(), Rc::clone(map))));
        phase(&sim, name, clients * ops, of)?;
    }
    Ok(())
}

/// Runs a task of each client, and prints what so many operations took in all.
fn phase<T: 'static>(
    sim: &Sim,
    name: &str,
    ops: u64,
    tasks: impl IntoIterator<Item = (SimClient, impl Future<Output = Result<T>> + 'static)>,
) -> Result<Vec<T>> {
    let (at, from, before) = (Instant::now(), sim.now_ns(), sim.counts().round_trips);
    let tasks: Vec<_> = tasks.into_iter().map(|(client, task)| sim.spawn(&client, task)).collect();
    sim.run();
    let (ns, trips) = (sim.now_ns() - from, sim.counts().round_trips - before);
    let done = tasks.iter().map(|task| task.take().expect("a task ends")).collect();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next());
    let kib: f64 = resident.and_then(|kib| kib.parse().ok()).unwrap_or(f64::NAN);
    println!(
        "| {name} | {:.2} | {:.1} | {:.2} | {:.0} | {:.2} |",
        ops as f64 * 1e3 / ns as f64,
        ns as f64 * tasks.len() as f64 / ops as f64 / 1e3,
        trips as f64 / ops as f64,
        at.elapsed().as_secs_f64(),
        kib * 1024.0 / 1e9
    );
    done
}
