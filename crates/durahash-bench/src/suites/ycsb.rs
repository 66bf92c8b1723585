//! YCSB's A, B and C, uniformly and by Zipf's law over the keys that there are (Rewo-Hash, Fig. 13).

use durahash::{Design, Map};

use super::{About, Recorder, settle};
use crate::config::Config;
use crate::driver::{self, Timed};
use crate::error::Result;
use crate::report::Samples;
use crate::workload::skew::{Drawn, Skew};
use crate::workload::{Workload, Workloads};

/// The mixes: names, and how large a part of them reads. The others replace values.
const MIXES: [(&str, f64); 3] = [("A", 0.5), ("B", 0.95), ("C", 1.0)];

/// The work of the suite, in runs of all keys: those that are timed, one to warm up, and the load.
pub(super) fn work(config: &Config) -> u64 {
    let rounds = u64::from(config.repeats) + 1;
    let runs = rounds * (MIXES.len() * Drawn::ALL.len() * config.threads.len()) as u64;
    config.designs.len() as u64 * (runs + 1)
}

impl Recorder<'_> {
    /// The first round warms up and counts for nothing.
    pub(super) fn ycsb(&mut self) -> Result<()> {
        let config = self.config;
        let workloads = Workloads::new(config.keys, config.seed);
        let skew = Skew::new(&workloads);
        let stream = workloads.draw(Workload::Load, 1, 0).swap_remove(0);
        let mut maps: Vec<(Design, Map<u64, u64>)> = Vec::new();
        for &design in &config.designs {
            self.next(1, &format!("{design}: load"));
            let map = self.bench.create(design)?;
            stream.iter().try_for_each(|op| map.put(&op.key, &op.key))?;
            settle(&map)?;
            maps.push((design, map));
        }
        drop(stream);
        let mut samples = Samples::default();
        for round in 0..=u64::from(config.repeats) {
            for &threads in &config.threads {
                for (name, reads) in MIXES {
                    for drawn in Drawn::ALL {
                        let streams = skew.draw(drawn, reads, threads, round);
                        for (design, map) in &maps {
                            let case = format!("{name}, {}", drawn.name());
                            self.next(1, &format!("{design}: {case}, threads: {threads}"));
                            let run = driver::run(map, Workload::YcsbA, &streams, Timed::Whole)?;
                            if round > 0 {
                                let (design, case) = (&design.to_string(), case.as_str());
                                let keys = config.keys;
                                let about = About { table: "ycsb", design, case, threads, keys };
                                samples.add(&about, "ops_per_s", run.ops_per_s());
                            }
                        }
                    }
                }
            }
        }
        self.rows.extend(samples.rows());
        Ok(())
    }
}
