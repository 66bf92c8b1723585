//! How long a lookup can take while another thread inserts, and an update while another makes a backup, and how long
//! they take without.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use durahash::Map;
use hdrhistogram::Histogram;

use super::{About, Recorder};
use crate::config::Config;
use crate::driver::{histogram, together};
use crate::error::{Error, Result};
use crate::workload::{Op, Random, Workload, Workloads};

/// Of all keys, one in so many is there before, and is looked up.
const LOADED: u64 = 10;
/// Where the numbers of these keys begin.
const BEFORE: u64 = 3 << 56;
/// Lookups at least, however soon the inserts are done.
const LOOKUPS_MIN: u64 = 10_000;
/// Work for each design, in runs of all keys.
const WORK: u64 = 5;
const PERCENTILES: [(&str, u64); 4] =
    [("p50_ns", 2), ("p99_ns", 100), ("p99.9_ns", 1000), ("p99.99_ns", 10_000)];

/// The two sides of a run.
enum Side {
    Timed,
    Beside,
}

/// The work of the suite, in runs of all keys.
pub(super) fn work(config: &Config) -> u64 {
    config.designs.len() as u64 * WORK
}

impl Recorder<'_> {
    /// Lookups beside inserts first, then as many alone, on the map as it is after them.
    pub(super) fn stall(&mut self) -> Result<()> {
        let config = self.config;
        let workloads = Workloads::new(config.keys, config.seed);
        let stream = workloads.draw(Workload::Load, 1, 0).swap_remove(0);
        let keys: Vec<u64> = (0..config.keys / LOADED).map(|i| workloads.key(BEFORE + i)).collect();
        for &design in &config.designs {
            let name = design.to_string();
            self.next(WORK, &format!("{name}: lookups beside inserts"));
            let map = self.bench.create(design)?;
            keys.iter().try_for_each(|key| map.put(key, key))?;
            let done = AtomicBool::new(false);
            let (_, mut beside) = together(&[Side::Timed, Side::Beside], |side| match side {
                Side::Timed => lookups(&map, &keys, config.seed, |n| {
                    n < LOOKUPS_MIN || !done.load(Ordering::Relaxed)
                }),
                Side::Beside => {
                    let inserted = stream.iter().try_for_each(|op| map.put(&op.key, &op.key));
                    // Also after an error: no thread must wait for more.
                    done.store(true, Ordering::Relaxed);
                    inserted?;
                    Ok(histogram())
                }
            })?;
            let beside = beside.swap_remove(0);
            let alone = lookups(&map, &keys, config.seed, |n| n < beside.len())?;
            for (case, threads, latency) in [("beside inserts", 2, beside), ("alone", 1, alone)] {
                let keys = config.keys;
                let about = About { table: "stall", design: &name, case, threads, keys };
                self.add(&about, "count", latency.len() as f64);
                self.add_percentiles(&about, &latency, &PERCENTILES);
            }
            if map.stats()?.log.is_some() {
                self.backup(&name, &map, &stream)?;
            }
        }
        Ok(())
    }

    /// Updates of the keys of `stream` beside a backup, and then as many alone.
    fn backup(&mut self, design: &str, map: &Map<u64, u64>, stream: &[Op]) -> Result<()> {
        let Some(dir) = self.bench.dir()? else { return Ok(()) };
        let (done, keys) = (AtomicBool::new(false), self.config.keys);
        let (_, mut beside) = together(&[Side::Timed, Side::Beside], |side| match side {
            Side::Timed => updates(map, stream, |_| !done.load(Ordering::Relaxed)),
            Side::Beside => {
                let made = map.backup(dir.path().join("backup"));
                done.store(true, Ordering::Relaxed);
                made?;
                Ok(histogram())
            }
        })?;
        let beside = beside.swap_remove(0);
        let alone = updates(map, stream, |n| n < beside.len())?;
        for (case, threads, latency) in [("beside a backup", 2, beside), ("alone", 1, alone)] {
            let about = About { table: "backup", design, case, threads, keys };
            self.add(&about, "count", latency.len() as f64);
            self.add_percentiles(&about, &latency, &PERCENTILES);
        }
        Ok(())
    }
}

/// Replaces the values of the keys of `stream`, again and again while `more` says so; the nanoseconds of each.
fn updates(
    map: &Map<u64, u64>,
    stream: &[Op],
    more: impl Fn(u64) -> bool,
) -> Result<Histogram<u64>> {
    let mut latency = histogram();
    for op in stream.iter().cycle() {
        if !more(latency.len()) {
            break;
        }
        let from = Instant::now();
        map.put(&op.key, &op.key)?;
        latency.saturating_record(from.elapsed().as_nanos() as u64);
    }
    Ok(latency)
}

/// Looks up random ones of `keys`, which are there, while `more` says so of how many there were; the
/// nanoseconds of each.
fn lookups(
    map: &Map<u64, u64>,
    keys: &[u64],
    seed: u64,
    more: impl Fn(u64) -> bool,
) -> Result<Histogram<u64>> {
    let mut latency = histogram();
    let mut random = Random::new(seed);
    while more(latency.len()) {
        let key = keys[random.below(keys.len() as u64) as usize];
        let from = Instant::now();
        let value = map.get(&key)?;
        latency.saturating_record(from.elapsed().as_nanos() as u64);
        if value != Some(key) {
            let what = format!("key {key:#x} is there and was not found beside inserts");
            return Err(Error::Wrong { what });
        }
    }
    Ok(latency)
}
