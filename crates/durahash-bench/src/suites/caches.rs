//! Lookups by the size of Rewo-Hash's cached table (Fig. 14, Table 2), beside the other designs.

use durahash::rewo::Cache;
use durahash::{Design, Map, Options};
use durahash_media::Dram;
use durahash_media::metered::Metered;

use super::ycsb::{Side, fill, skewed_work};
use super::{About, COUNTED_BYTES, Recorder};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::workload::skew::{Drawn, Skew};
use crate::workload::{Op, Workload, Workloads};

/// The sizes, as parts of the tables: one in so many; 0 is none.
const PARTS: [u64; 8] = [0, 64, 32, 16, 8, 4, 2, 1];

/// The end of a case: the size.
fn tail(part: u64) -> String {
    if part == 0 { ", 0".into() } else { format!(", 1/{part}") }
}

/// The work of the suite, in runs of all keys: the timed ones, one to warm up, the load, and what is
/// counted.
pub(super) fn work(config: &Config) -> u64 {
    let sides = (PARTS.len() + config.designs.len() - 1) as u64;
    let counted = PARTS.len() as u64 * (1 + 2 * Drawn::ALL.len() as u64);
    1 + sides * (skewed_work(config, 1) + 1) + counted
}

impl Recorder<'_> {
    /// The first round fills the cached table and counts for nothing.
    pub(super) fn caches(&mut self) -> Result<()> {
        let config = self.config;
        let workloads = Workloads::new(config.keys, config.seed);
        let skew = Skew::new(&workloads);
        let stream = workloads.draw(Workload::Load, 1, 0).swap_remove(0);
        self.next(1, "rewo: size of its tables");
        let tables = {
            let map = self.bench.with_cache(0).create(Design::Rewo)?;
            fill(&map, &stream)?;
            map.index_stats().medium_bytes
        };
        let bytes_of = |part: u64| tables.checked_div(part).unwrap_or(0);
        let others = config.designs.iter().filter(|design| **design != Design::Rewo);
        let all = PARTS.map(|part| (Design::Rewo, tail(part), bytes_of(part)));
        let mut sides = Vec::new();
        for (design, tail, bytes) in
            all.into_iter().chain(others.map(|design| (*design, String::new(), 0)))
        {
            self.next(1, &format!("{design}{tail}: load"));
            let map = self.bench.with_cache(bytes).create(design)?;
            fill(&map, &stream)?;
            sides.push(Side { design: design.to_string(), tail, map });
        }
        self.skewed("cache", &[("", 1.0)], &sides, &skew)?;
        drop(sides);
        for part in PARTS {
            self.hits_of(part, bytes_of(part), &stream, &skew)?;
        }
        Ok(())
    }

    /// Which part of the lookups reads nothing of the medium, and how many lines of each come from an emulated one: counted
    /// on one in memory, by one thread, after as many lookups as are counted.
    fn hits_of(&mut self, part: u64, bytes: u64, stream: &[Op], skew: &Skew<'_>) -> Result<()> {
        let config = self.config;
        self.next(1, &format!("rewo{}: counting", tail(part)));
        let medium = Dram::new(COUNTED_BYTES)?;
        let medium = match config.emulate {
            Some(profile) => Metered::with_profile(medium, profile),
            None => Metered::new(medium),
        };
        let meter = std::sync::Arc::clone(medium.meter());
        let options =
            Options::new().design(Design::Rewo).seed(config.seed).cache(Cache::of_bytes(bytes));
        let map: Map<u64, u64> = options.create_on(medium)?;
        fill(&map, stream)?;
        for drawn in Drawn::ALL {
            let (mut hits, mut misses) = (0, 0);
            for round in 0..=1 {
                self.next(1, &format!("rewo{}: counting", tail(part)));
                let mut before = meter.counts().blocks_read;
                let misses_before = meter.traffic().misses;
                for op in skew.draw(drawn, 1.0, 1, round).into_iter().flatten() {
                    if map.get(&op.key)?.is_none() {
                        let what = format!("key {:#x} is there and was not found", op.key);
                        return Err(Error::Wrong { what });
                    }
                    let now = meter.counts().blocks_read;
                    hits += u64::from(round == 1 && now == before);
                    before = now;
                }
                misses = meter.traffic().misses - misses_before;
            }
            let (case, keys) = (format!("{}{}", drawn.name(), tail(part)), config.keys);
            let design = Design::Rewo.to_string();
            let about = About { table: "cache", design: &design, case: &case, threads: 1, keys };
            self.add(&about, "bytes", bytes as f64);
            self.add(&about, "hits", hits as f64 / keys as f64);
            if meter.traffic().misses > 0 {
                self.add(&about, "lines from the medium", misses as f64 / keys as f64);
            }
        }
        Ok(())
    }
}
