//! Latency while a table fills (Rewo-Hash, Figs. 10 to 12, Tables 5 and 6).
//!
//! The paper's tables have a capacity, and a load is a part of that. Ours grow, so here the capacity is the
//! number of keys of the run; how full the slots are that there are then is told beside.

use durahash::Map;

use super::{About, Recorder, load_factor, settle};
use crate::config::Config;
use crate::driver::{self, Timed};
use crate::error::Result;
use crate::workload::{Kind, Op, Workload, Workloads};

/// The loads, in hundredths.
pub(crate) const LOADS: [u64; 4] = [20, 40, 60, 80];
/// Operations of each kind at each load: one for so many keys of the run, and no more than these.
const KEYS_PER_SAMPLE: u64 = 50;
const SAMPLES: u64 = 100_000;
/// Where the numbers of keys begin that are inserted and removed again.
const PASSING: u64 = 3 << 56;
/// Work for each design, in runs of all keys.
const WORK: u64 = 3;

/// The work of the suite, in runs of all keys.
pub(super) fn work(config: &Config) -> u64 {
    config.designs.len() as u64 * WORK * LOADS.len() as u64
}

impl Recorder<'_> {
    /// Every design fills to a load before one fills to the next.
    pub(super) fn loads(&mut self) -> Result<()> {
        let config = self.config;
        let workloads = Workloads::new(config.keys, config.seed);
        let stream = workloads.draw(Workload::Load, 1, 0).swap_remove(0);
        let mut maps = Vec::new();
        for design in &config.designs {
            maps.push((design.to_string(), self.bench.create(*design)?));
        }
        let mut from = 0;
        for load in LOADS {
            let to = (config.keys * load / 100) as usize;
            for (name, map) in &maps {
                self.next(WORK, &format!("{name}: load {}", load as f64 / 100.0));
                stream[from..to].iter().try_for_each(|op| map.put(&op.key, &op.key))?;
                settle(map)?;
                self.at_load(name, map, to as u64)?;
            }
            from = to;
        }
        Ok(())
    }

    /// The latency of operations on a map of so many keys, which it has again afterwards.
    fn at_load(&mut self, design: &str, map: &Map<u64, u64>, keys: u64) -> Result<()> {
        let samples = (self.config.keys / KEYS_PER_SAMPLE).clamp(1, SAMPLES);
        let of_load = Workloads::new(keys, self.config.seed);
        let passing = |kind| {
            let key = |i| of_load.key(PASSING + (keys << 17) + i);
            (0..samples).map(|i| Op { key: key(i), kind }).collect()
        };
        let drawn = |workload| {
            let mut ops = of_load.draw(workload, 1, 0).swap_remove(0);
            ops.truncate(samples as usize);
            ops
        };
        let about = |case| About { table: "load", design, case, threads: 1, keys };
        self.add(&about("slots"), "load_factor", load_factor(&map.index_stats()));
        for (case, workload, ops) in [
            ("hit", Workload::Hit, drawn(Workload::Hit)),
            ("miss", Workload::Miss, drawn(Workload::Miss)),
            ("insert", Workload::Load, passing(Kind::Put)),
            ("update", Workload::Update, drawn(Workload::Update)),
            ("remove", Workload::Delete, passing(Kind::Remove)),
        ] {
            let latency = driver::run(map, workload, &[ops], Timed::Each)?.latency;
            let about = about(case);
            self.add(&about, "count", latency.len() as f64);
            self.add(&about, "mean_ns", latency.mean());
            let percentiles = [("p50_ns", 2), ("p99_ns", 100), ("p99.99_ns", 10_000)];
            self.add_percentiles(&about, &latency, &percentiles);
        }
        Ok(())
    }
}
