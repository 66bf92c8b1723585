//! What a log costs beside throughput: how long single inserts take while checkpoints run, and how many
//! bytes of log they write.

use std::path::Path;
use std::time::Instant;

use durahash::{Design, Map, Options, SyncMode};
use durahash_bench::Result;
use durahash_bench::workload::Random;

use crate::directory;

/// Inserts that are timed, where each is waited for. Enough to fill the log more than once.
const SYNCED: u64 = 40_000;

/// Measures our modes in `dir`, with `keys` keys before, and returns a table.
pub(crate) fn measure(dir: &Path, keys: u64) -> Result<String> {
    let mut text =
        "| single inserts, 1 thread | inserts | p50, µs | p99, µs | p99.9, µs | longest, ms | \
         checkpoints meanwhile | bytes of log each |\n|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for design in [Design::Reh, Design::Pea] {
        for (name, mode, count) in [
            ("process", SyncMode::Process, keys),
            ("interval", SyncMode::INTERVAL, keys),
            ("strict", SyncMode::Strict, SYNCED),
        ] {
            text += &format!(
                "| {design}, {name} | {count} | {} |\n",
                one(dir, design, mode, keys, count)?
            );
        }
    }
    Ok(text)
}

fn one(parent: &Path, design: Design, mode: SyncMode, keys: u64, count: u64) -> Result<String> {
    let dir = directory(parent)?;
    let options = Options::new().design(design).sync_mode(mode);
    let map: Map<u64, u64> = options.create(dir.path().join("map.pool"))?;
    let key = |i: u64| Random::new(i.rotate_left(32)).word();
    let pairs: Vec<(u64, u64)> = (0..keys).map(|i| (key(i), i)).collect();
    map.put_many(&pairs)?;
    let log = |map: &Map<u64, u64>| -> Result<(u64, u64)> {
        Ok(map.stats()?.log.map_or((0, 0), |log| (log.checkpoints, log.bytes)))
    };
    let before = log(&map)?;
    let mut times = Vec::with_capacity(count as usize);
    for i in keys..keys + count {
        let start = Instant::now();
        map.put(&key(i), &i)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let after = log(&map)?;
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    Ok(format!(
        "{:.2} | {:.2} | {:.1} | {:.2} | {} | {:.0}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0) / 1e3,
        after.0 - before.0,
        (after.1 - before.1) as f64 / count as f64
    ))
}
