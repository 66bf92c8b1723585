//! Lookups by the size of Rewo-Hash's cached table (Fig. 14, Table 2), beside the other designs.

use durahash::rewo::Cache;
use durahash::{Design, Map, Options};
use durahash_media::Dram;
use durahash_media::metered::Metered;

use super::{About, COUNTED_BYTES, Recorder, settle};
use crate::config::Config;
use crate::driver::{self, Timed};
use crate::error::{Error, Result};
use crate::report::Samples;
use crate::workload::skew::{Drawn, Skew};
use crate::workload::{Op, Workload, Workloads};

/// The sizes, as parts of the tables: one in so many; 0 is none.
pub(crate) const PARTS: [u64; 8] = [0, 64, 32, 16, 8, 4, 2, 1];

/// The name of a part in tables and rows.
pub(crate) fn part_name(part: u64) -> String {
    if part == 0 { "0".into() } else { format!("1/{part}") }
}

/// The case of a row: how keys are drawn, and the size.
pub(crate) fn case_of(drawn: &str, part: u64) -> String {
    format!("{drawn}, {}", part_name(part))
}

/// A measured map: Rewo-Hash with a size, or another design.
struct Side {
    name: String,
    part: Option<u64>,
    map: Map<u64, u64>,
}

/// The work of the suite, in runs of all keys: the timed ones, one to warm up, the load, and what is
/// counted.
pub(super) fn work(config: &Config) -> u64 {
    let sides = (PARTS.len() + config.designs.len() - 1) as u64;
    let runs = (u64::from(config.repeats) + 1) * (Drawn::ALL.len() * config.threads.len()) as u64;
    1 + sides * (runs + 1) + PARTS.len() as u64 * (1 + 2 * Drawn::ALL.len() as u64)
}

/// Inserts all keys.
fn fill(map: &Map<u64, u64>, stream: &[Op]) -> Result<()> {
    stream.iter().try_for_each(|op| map.put(&op.key, &op.key))?;
    settle(map)
}

impl Recorder<'_> {
    /// The first round fills the cached table and counts for nothing.
    pub(super) fn caches(&mut self) -> Result<()> {
        let config = self.config;
        let workloads = Workloads::new(config.keys, config.seed);
        let skew = Skew::new(&workloads);
        let stream = workloads.draw(Workload::Load, 1, 0).swap_remove(0);
        let load = |map: &Map<u64, u64>| fill(map, &stream);
        self.next(1, "rewo: size of its tables");
        let tables = {
            let map = self.bench.with_cache(0).create(Design::Rewo)?;
            load(&map)?;
            map.index_stats().medium_bytes
        };
        let bytes_of = |part: u64| tables.checked_div(part).unwrap_or(0);
        let mut sides = Vec::new();
        for part in PARTS {
            self.next(1, &format!("rewo, {}: load", part_name(part)));
            let map = self.bench.with_cache(bytes_of(part)).create(Design::Rewo)?;
            load(&map)?;
            sides.push(Side { name: Design::Rewo.to_string(), part: Some(part), map });
        }
        for &design in config.designs.iter().filter(|design| **design != Design::Rewo) {
            self.next(1, &format!("{design}: load"));
            let map = self.bench.create(design)?;
            load(&map)?;
            sides.push(Side { name: design.to_string(), part: None, map });
        }
        self.lookups_of(&sides, &skew)?;
        drop(sides);
        for part in PARTS {
            self.hits_of(part, bytes_of(part), &stream, &skew)?;
        }
        Ok(())
    }

    /// Throughput of lookups of keys that are there.
    fn lookups_of(&mut self, sides: &[Side], skew: &Skew<'_>) -> Result<()> {
        let config = self.config;
        let mut samples = Samples::default();
        for &threads in &config.threads {
            for drawn in Drawn::ALL {
                for round in 0..=u64::from(config.repeats) {
                    let streams = skew.draw(drawn, 1.0, threads, round);
                    for side in sides {
                        let (design, keys) = (side.name.as_str(), config.keys);
                        let case = match side.part {
                            Some(part) => case_of(drawn.name(), part),
                            None => drawn.name().to_owned(),
                        };
                        self.next(1, &format!("{design}: {case}, threads: {threads}"));
                        let run = driver::run(&side.map, Workload::YcsbC, &streams, Timed::Whole)?;
                        if round > 0 {
                            let about =
                                About { table: "cache", design, case: &case, threads, keys };
                            samples.add(&about, "ops_per_s", run.ops_per_s());
                        }
                    }
                }
            }
        }
        self.rows.extend(samples.rows());
        Ok(())
    }

    /// Which part of the lookups reads nothing of the medium: counted on one in memory, by one thread, after
    /// as many lookups as are counted.
    fn hits_of(&mut self, part: u64, bytes: u64, stream: &[Op], skew: &Skew<'_>) -> Result<()> {
        let config = self.config;
        self.next(1, &format!("rewo, {}: counting", part_name(part)));
        let medium = Metered::new(Dram::new(COUNTED_BYTES)?);
        let meter = std::sync::Arc::clone(medium.meter());
        let cache = Cache { bytes: Some(bytes), ..Cache::default() };
        let options = Options::new().design(Design::Rewo).seed(config.seed).cache(cache);
        let map: Map<u64, u64> = options.create_on(medium)?;
        fill(&map, stream)?;
        for drawn in Drawn::ALL {
            let mut hits = 0;
            for round in 0..=1 {
                self.next(1, &format!("rewo, {}: counting", part_name(part)));
                let mut before = meter.counts().blocks_read;
                for op in skew.draw(drawn, 1.0, 1, round).into_iter().flatten() {
                    if map.get(&op.key)?.is_none() {
                        let what = format!("key {:#x} is there and was not found", op.key);
                        return Err(Error::Wrong { what });
                    }
                    let now = meter.counts().blocks_read;
                    hits += u64::from(round == 1 && now == before);
                    before = now;
                }
            }
            let (case, keys) = (case_of(drawn.name(), part), config.keys);
            let design = Design::Rewo.to_string();
            let about = About { table: "cache", design: &design, case: &case, threads: 1, keys };
            self.add(&about, "bytes", bytes as f64);
            self.add(&about, "hits", hits as f64 / keys as f64);
        }
        Ok(())
    }
}
