//! YCSB's A, B and C, uniformly and by Zipf's law over the keys that there are (Rewo-Hash, Fig. 13).

use durahash::Map;

use super::{About, Recorder, end_resize};
use crate::config::Config;
use crate::driver::{self, Timed};
use crate::error::Result;
use crate::report::Samples;
use crate::workload::skew::{Drawn, Skew};
use crate::workload::{Op, Workload, Workloads};

/// A mix: its name, and how large a part of it reads. The others replace values.
type Mix = (&'static str, f64);
const MIXES: [Mix; 3] = [("A, ", 0.5), ("B, ", 0.95), ("C, ", 1.0)];

/// A measured map: its design, and the end of its cases.
pub(super) struct Side {
    pub(super) design: String,
    pub(super) tail: String,
    pub(super) map: Map<u64, u64>,
}

/// The work of the suite, in runs of all keys: those that are timed, one to warm up, and the load.
pub(super) fn work(config: &Config) -> u64 {
    config.designs.len() as u64 * (skewed_work(config, MIXES.len()) + 1)
}

/// The work of [`Recorder::skewed`] for each side.
pub(super) fn skewed_work(config: &Config, mixes: usize) -> u64 {
    let rounds = u64::from(config.repeats) + 1;
    rounds * (mixes * Drawn::ALL.len() * config.threads.len()) as u64
}

/// Inserts all keys.
pub(super) fn fill(map: &Map<u64, u64>, stream: &[Op]) -> Result<()> {
    stream.iter().try_for_each(|op| map.put(&op.key, &op.key))?;
    end_resize(map)
}

impl Recorder<'_> {
    pub(super) fn ycsb(&mut self) -> Result<()> {
        let config = self.config;
        let workloads = Workloads::new(config.keys, config.seed);
        let stream = workloads.draw(Workload::Load, 1, 0).swap_remove(0);
        let mut sides = Vec::new();
        for &design in &config.designs {
            self.next(1, &format!("{design}: load"));
            let map = self.bench.create(design)?;
            fill(&map, &stream)?;
            sides.push(Side { design: design.to_string(), tail: String::new(), map });
        }
        drop(stream);
        self.skewed("ycsb", &MIXES, &sides, &Skew::new(&workloads))
    }

    /// Throughput of mixes on maps that have all keys, of keys drawn in each way. The first round warms up and counts
    /// for nothing.
    pub(super) fn skewed(
        &mut self,
        table: &str,
        mixes: &[Mix],
        sides: &[Side],
        skew: &Skew<'_>,
    ) -> Result<()> {
        let config = self.config;
        let mut samples = Samples::default();
        for round in 0..=u64::from(config.repeats) {
            for &threads in &config.threads {
                for (name, reads) in mixes {
                    for drawn in Drawn::ALL {
                        let streams = skew.draw(drawn, *reads, threads, round);
                        for Side { design, tail, map } in sides {
                            let case = &format!("{name}{}{tail}", drawn.name());
                            self.next(1, &format!("{design}: {case}, threads: {threads}"));
                            let run = driver::run(map, Workload::YcsbA, &streams, Timed::Whole)?;
                            if round > 0 {
                                let about =
                                    About { table, design, case, threads, keys: config.keys };
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
