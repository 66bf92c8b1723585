//! The first figures of a design, within a minute: durable inserts, lookups, bytes for each entry, the open after
//! kill -9. A pool in files writes its log when it is made, so one pool serves all numbers of threads.

use std::collections::BTreeMap;

use durahash::{Design, Map};

use super::{About, Recorder, settle};
use crate::config::Config;
use crate::driver::{self, Timed};
use crate::error::Result;
use crate::workload::{Workload, Workloads};

/// The operations: names in rows, and workloads. Those that insert have keys of their own.
const OPERATIONS: [(&str, Workload); 7] = [
    ("insert", Workload::Load),
    ("put_many", Workload::PutMany),
    ("hit", Workload::Hit),
    ("miss", Workload::Miss),
    ("get_many", Workload::GetMany),
    ("update", Workload::Update),
    ("YCSB C", Workload::YcsbC),
];
const KILL_WORK: u64 = 6;

/// Takes what a run found: for which number of threads, and which operation.
type Found<'a, R> = &'a mut dyn FnMut(&mut R, (usize, usize), driver::Run) -> Result<()>;

/// The work of the suite: all operations of each repeat, and once more with the time of each; and the kill.
pub(super) fn work(config: &Config) -> u64 {
    let rounds = (u64::from(config.repeats) + 1) * config.threads.len() as u64;
    config.designs.len() as u64 * (rounds * OPERATIONS.len() as u64 + KILL_WORK)
}

impl Recorder<'_> {
    pub(super) fn summary(&mut self) -> Result<()> {
        let config = self.config;
        for &design in &config.designs {
            let mut rates: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
            for round in 0..config.repeats {
                let map = self.bench.create(design)?;
                self.durability.get_or_insert(map.durability());
                self.of_pool(design, &map, round, Timed::Whole, &mut |_, index, run| {
                    rates.entry(index).or_default().push(run.ops_per_s());
                    Ok(())
                })?;
                if round + 1 == config.repeats {
                    self.of_pool(design, &map, round + 1, Timed::Each, &mut |this, index, run| {
                        let name = design.to_string();
                        let about = about("latency", &name, config, index);
                        let percentiles = [("p50_ns", 2), ("p99_ns", 100), ("p99.99_ns", 10_000)];
                        this.add_percentiles(&about, &run.latency, &percentiles);
                        Ok(())
                    })?;
                }
            }
            let name = design.to_string();
            for (index, rates) in rates {
                self.add_samples(&about("throughput", &name, config, index), "ops_per_s", &rates);
            }
            self.recovery(&[config.keys])?;
        }
        Ok(())
    }

    /// All operations on a pool, by each number of threads.
    fn of_pool(
        &mut self,
        design: Design,
        map: &Map<u64, u64>,
        round: u32,
        timed: Timed,
        found: Found<'_, Self>,
    ) -> Result<()> {
        let config = self.config;
        for (t, &threads) in config.threads.iter().enumerate() {
            let own = u64::from(round) << 40 | (threads as u64) << 48;
            let workloads = Workloads::new(config.keys, config.seed ^ own);
            let batched = Workloads::new(config.keys, config.seed ^ own ^ 1 << 63);
            for (o, (name, workload)) in OPERATIONS.into_iter().enumerate() {
                if timed == Timed::Each && workload == Workload::PutMany {
                    continue;
                }
                self.next(1, &format!("{design}: {name}, threads: {threads}"));
                let workloads = if workload == Workload::PutMany { &batched } else { &workloads };
                let streams = workloads.draw(workload, threads, u64::from(round));
                let run = driver::run(map, workload, &streams, timed)?;
                found(self, (t, o), run)?;
                if workload == Workload::Load {
                    settle(map)?;
                }
                if (round, t, workload, timed) == (0, 0, Workload::Load, Timed::Whole) {
                    let stats = map.stats()?;
                    let name = design.to_string();
                    let about = About { case: "load", ..about("space", &name, config, (t, o)) };
                    self.add(&about, "load_factor", stats.load_factor());
                    self.add(&about, "medium_bytes_per_key", stats.medium_bytes_per_key());
                    self.add(&about, "dram_bytes_per_key", stats.dram_bytes_per_key());
                    self.add(&about, "file_bytes", stats.space.bytes as f64);
                }
            }
        }
        Ok(())
    }
}

fn about<'a>(
    table: &'a str,
    design: &'a str,
    config: &Config,
    (t, o): (usize, usize),
) -> About<'a> {
    About { table, design, case: OPERATIONS[o].0, threads: config.threads[t], keys: config.keys }
}
