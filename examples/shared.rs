//! An index in memory that processes share: `cargo run -p durahash-examples --bin shared -- DIR`.
//!
//! The first run makes a fabric of two nodes in DIR and an index on it; each further run attaches and
//! adds to it. Remove DIR to begin anew.

use std::path::Path;

use durahash_remote::executor::Executor;
use durahash_remote::fabric::{Local, LocalClient, LocalOptions};
use durahash_remote::{ErrorKind, Options, RemoteMap, Result};

/// Operations under way at once.
const AT_ONCE: u64 = 32;
const KEYS: u64 = 10_000;

fn main() -> Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm/durahash-example".into());
    let mut options = LocalOptions::default();
    options.node_bytes = vec![64 << 20; 2];
    let (local, new) = match Local::create(Path::new(&dir), &options) {
        Err(e) if matches!(e.kind(), ErrorKind::Exists) => {
            (Local::attach(Path::new(&dir), None)?, false)
        }
        local => (local?, true),
    };
    let executor = Executor::new();
    executor.block_on(run(&executor, local.client()?, new))
}

async fn run(executor: &Executor, client: LocalClient, new: bool) -> Result<()> {
    let options = Options::default();
    let map = if new {
        RemoteMap::create(client, options).await?
    } else {
        RemoteMap::open(client, options).await?
    };
    let service = executor.spawn(0, map.clone().service());
    let tasks: Vec<_> = (0..AT_ONCE)
        .map(|task| {
            let map = map.clone();
            executor.spawn(0, async move {
                for key in (task..KEYS).step_by(AT_ONCE as usize) {
                    let found = map.get(&key.to_le_bytes()).await?;
                    let runs = found.map_or(0, |runs| u64::from(runs[0]));
                    map.put(&key.to_le_bytes(), &[(runs as u8).wrapping_add(1)]).await?;
                }
                Ok::<(), durahash_remote::Error>(())
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("nobody drops the task")?;
    }
    let (counts, stats) = (map.counts(), map.stats());
    println!(
        "{KEYS} lookups and puts in {} round trips; {} merges, {} splits",
        counts.round_trips, stats.merges, stats.splits
    );
    map.close().await?;
    service.await.expect("nobody drops the task")
}
