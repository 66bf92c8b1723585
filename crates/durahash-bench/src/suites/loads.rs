//! Latency while a table fills (Rewo-Hash, Figs. 10 to 12, Tables 5 and 6).
//!
//! The paper's tables have a capacity, and a load is a part of that. Ours grow, so here the capacity is the
//! number of keys of the run; how full the slots are that there are then is told beside.

use super::{About, PERCENTILES, Recorder, load_factor, settle};
use crate::config::Config;
use crate::error::Result;
use crate::workload::{Workload, Workloads};

/// The loads, in hundredths.
pub(crate) const LOADS: [u64; 4] = [20, 40, 60, 80];
/// Operations of each kind at each load: one for so many keys of the run, and no more than these.
const KEYS_PER_SAMPLE: u64 = 50;
const SAMPLES: u64 = 100_000;
/// The operations: cases and workloads.
const OPERATIONS: [(&str, Workload); 5] = [
    ("hit", Workload::Hit),
    ("miss", Workload::Miss),
    ("insert", Workload::Load),
    ("update", Workload::Update),
    ("remove", Workload::Delete),
];
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
                let (design, keys) = (name.as_str(), to as u64);
                let slots = About { table: "load", design, case: "slots", threads: 1, keys };
                self.add(&slots, "load_factor", load_factor(&map.index_stats()));
                let samples = (config.keys / KEYS_PER_SAMPLE).clamp(1, SAMPLES);
                self.timed(&slots, map, samples, &OPERATIONS, &PERCENTILES)?;
            }
            from = to;
        }
        Ok(())
    }
}
