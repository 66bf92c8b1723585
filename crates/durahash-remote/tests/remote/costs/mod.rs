//! Counted costs of operations over the fabric: bounds for each operation, and a table that
//! `docs/benchmarks-remote.md` shows.

mod bounds;
mod conditional;
mod memory;
mod ordered;
mod table;

use durahash_remote::fabric::{Counts, Sim, SimClient, SimOptions};
use durahash_remote::{Options, RemoteMap, Result, Stats};

fn key(i: u64) -> Vec<u8> {
    let mut key = vec![0; 16];
    key[..8].copy_from_slice(&i.to_le_bytes());
    key
}

/// Counts and stats of `operation`.
async fn cost<T>(
    map: &RemoteMap<SimClient>,
    operation: impl Future<Output = Result<T>>,
) -> Result<(Counts, Stats, T)> {
    let (counts, before) = (map.counts(), map.stats());
    let value = operation.await?;
    let mut stats = map.stats();
    stats.merges -= before.merges;
    stats.splits -= before.splits;
    stats.doublings -= before.doublings;
    stats.hops -= before.hops;
    stats.turns -= before.turns;
    stats.chunks -= before.chunks;
    stats.keys_read -= before.keys_read;
    stats.known_segments -= before.known_segments;
    Ok((map.counts() - counts, stats, value))
}

/// Segments so small that there are merges and splits all the time.
fn small() -> Options {
    let mut options = Options::default();
    options.cur_entries = 16;
    options.main_entries = 64;
    options.chunk_bytes = 1 << 20;
    options.kept_entries = 0;
    // Ticks are costs of their own.
    options.tick_ns = u64::MAX / 8;
    options
}

/// Runs what some clients do, one operation after the other.
fn run<const N: usize, O: Future<Output = Result<()>> + 'static>(
    f: impl FnOnce([SimClient; N]) -> O,
) {
    let mut options = SimOptions::default();
    options.max_clients = 8;
    let sim = Sim::new(options);
    let clients = std::array::from_fn(|_| sim.client().unwrap());
    let task = sim.spawn(&clients[0].clone(), f(clients));
    sim.run();
    task.take().expect("the task ends").unwrap();
}
