//! The first figures of a design, within a minute: durable inserts, lookups, bytes for each entry, the open after
//! kill -9. A pool in files writes its log when it is made, so two pools serve all numbers of threads.

use durahash::{Design, Map};

use super::{About, PERCENTILES, Recorder, end_resize};
use crate::config::Config;
use crate::driver::{self, Timed};
use crate::error::Result;
use crate::report::Samples;
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

/// The work of the suite: all operations of each repeat, and once more with the time of each; and the kill.
pub(super) fn work(config: &Config) -> u64 {
    let rounds = (u64::from(config.repeats) + 1) * config.threads.len() as u64;
    config.designs.len() as u64 * (rounds * OPERATIONS.len() as u64 + KILL_WORK)
}

impl Recorder<'_> {
    pub(super) fn summary(&mut self) -> Result<()> {
        let config = self.config;
        for &design in &config.designs {
            let mut samples = Samples::default();
            for round in 0..config.repeats {
                let maps = [self.bench.create(design)?, self.bench.create(design)?];
                self.durability.get_or_insert(maps[0].durability());
                self.of_pools(design, &maps, round, Timed::Whole, &mut samples)?;
                if round + 1 == config.repeats {
                    self.of_pools(design, &maps, round + 1, Timed::Each, &mut samples)?;
                }
            }
            self.rows.extend(samples.rows());
            self.recovery(&[config.keys])?;
        }
        Ok(())
    }

    /// All operations, by each number of threads: throughput as samples, or latency as rows. Inserts in batches have
    /// a pool of their own, which is as large as that of the others.
    fn of_pools(
        &mut self,
        design: Design,
        [map, of_batches]: &[Map<u64, u64>; 2],
        round: u32,
        timed: Timed,
        samples: &mut Samples,
    ) -> Result<()> {
        let config = self.config;
        for &threads in &config.threads {
            let own = u64::from(round) << 40 | (threads as u64) << 48;
            let workloads = Workloads::new(config.keys, config.seed ^ own);
            let batched = Workloads::new(config.keys, config.seed ^ own ^ 1 << 63);
            for (case, workload) in OPERATIONS {
                if timed == Timed::Each && workload == Workload::PutMany {
                    continue;
                }
                self.next(1, &format!("{design}: {case}, threads: {threads}"));
                let (map, workloads) = match workload {
                    Workload::PutMany => (of_batches, &batched),
                    _ => (map, &workloads),
                };
                let streams = workloads.draw(workload, threads, u64::from(round));
                let run = driver::run(map, workload, &streams, timed)?;
                let (design, keys) = (&design.to_string(), config.keys);
                let about = About { table: "throughput", design, case, threads, keys };
                match timed {
                    Timed::Whole => samples.add(&about, "ops_per_s", run.ops_per_s()),
                    Timed::Each => {
                        let about = About { table: "latency", ..about };
                        self.add_percentiles(&about, &run.latency, &PERCENTILES);
                    }
                }
                if workload != Workload::Load {
                    continue;
                }
                end_resize(map)?;
                if round == 0 && threads == config.threads[0] && timed == Timed::Whole {
                    self.space(&About { table: "space", case: "load", ..about }, map)?;
                }
            }
        }
        Ok(())
    }
}
