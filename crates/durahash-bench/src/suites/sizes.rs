//! Latency against the number of keys (Pea Hash, Fig. 4b to 4e), and what the inserts took that
//! split something on the way (Table 3). And latency while a table fills (Rewo-Hash, Figs. 10 to 12, Tables 5 and 6).
//!
//! The tables of that paper have a capacity, and a load is a part of that. Ours grow, so here the capacity is the
//! number of keys of the run; how full the slots are that there are then is told beside.

use super::inserts::{DOUBLING, Inserts, PERCENTILES, SPLITTING};
use super::{About, Recorder, end_resize, load_factor};
use crate::config::Config;
use crate::error::Result;
use crate::workload::{Workload, Workloads};

/// A suite whose tables grow to some sizes, at which operations are timed.
pub(super) struct Growing {
    table: &'static str,
    sizes: fn(keys: u64) -> Vec<u64>,
    /// Operations of each kind at a size, of so many keys in all: no more than [`SAMPLES`].
    samples: fn(size: u64, keys: u64) -> u64,
    /// Cases and workloads.
    operations: &'static [(&'static str, Workload)],
    percentiles: &'static [(&'static str, u64)],
    /// True if the sizes are load factors, not sizes of a growing table.
    is_load: bool,
}

pub(super) const SIZES: Growing = Growing {
    table: "size",
    sizes,
    samples: |size, _| size / 10,
    operations: &[
        ("insert", Workload::Load),
        ("hit", Workload::Hit),
        ("miss", Workload::Miss),
        ("delete", Workload::Delete),
    ],
    percentiles: super::PERCENTILES.split_at(2).0,
    is_load: false,
};

pub(super) const LOADS: Growing = Growing {
    table: "load",
    sizes: |keys| [20, 40, 60, 80].map(|hundredths| keys * hundredths / 100).into(),
    samples: |_, keys| keys / 50,
    operations: &[
        ("hit", Workload::Hit),
        ("miss", Workload::Miss),
        ("insert", Workload::Load),
        ("update", Workload::Update),
        ("remove", Workload::Delete),
    ],
    percentiles: &super::PERCENTILES,
    is_load: true,
};

const SAMPLES: u64 = 100_000;
/// Work for each design and size, in runs of all keys.
const WORK: u64 = 3;

/// The sizes: about three to a factor of ten, the last is all keys.
fn sizes(keys: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = [100, 33, 10, 3].map(|part| round(keys / part)).into();
    sizes.push(keys);
    sizes.dedup();
    sizes
}

/// The number with its first digit only.
fn round(n: u64) -> u64 {
    let power = 10_u64.pow(n.max(1).ilog10());
    n / power * power
}

impl Growing {
    /// The work of the suite, in runs of all keys.
    pub(super) fn work(&self, config: &Config) -> u64 {
        config.designs.len() as u64 * WORK * (self.sizes)(config.keys).len() as u64
    }
}

impl Recorder<'_> {
    /// Every design grows to a size before one grows to the next.
    pub(super) fn growing(&mut self, suite: &Growing) -> Result<()> {
        let config = self.config;
        let workloads = Workloads::new(config.keys, config.seed);
        let stream = workloads.draw(Workload::Load, 1, 0).swap_remove(0);
        let mut maps = Vec::new();
        for design in &config.designs {
            maps.push((design.to_string(), self.bench.create(*design)?));
        }
        let mut inserts: Vec<Inserts<'_>> = maps.iter().map(|(_, map)| Inserts::new(map)).collect();
        let mut from = 0;
        for size in (suite.sizes)(config.keys) {
            for ((name, map), inserts) in maps.iter().zip(&mut inserts) {
                self.next(WORK, &format!("{name}: {size} keys"));
                inserts.resume();
                for op in &stream[from..size as usize] {
                    inserts.put(op.key)?;
                }
                let (design, table) = (name.as_str(), suite.table);
                let about = About { table, design, case: "slots", threads: 1, keys: size };
                if suite.is_load {
                    end_resize(map)?;
                    self.add(&about, "load_factor", load_factor(&map.index_stats()));
                }
                let samples = (suite.samples)(size, config.keys).clamp(1, SAMPLES);
                self.timed(&about, map, samples, suite.operations, suite.percentiles)?;
            }
            from = size as usize;
        }
        if suite.is_load {
            return Ok(());
        }
        for ((name, _), inserts) in maps.iter().zip(&inserts) {
            self.resizing(name, inserts, config.keys);
        }
        Ok(())
    }

    /// The cost of growth for the inserts on the way to the last size.
    fn resizing(&mut self, design: &str, inserts: &Inserts<'_>, keys: u64) {
        for (case, latency) in [
            ("insert", &inserts.others),
            (SPLITTING, &inserts.splitting),
            (DOUBLING, &inserts.doubling),
        ] {
            if latency.is_empty() {
                continue;
            }
            let about = About { table: "resizing", design, case, threads: 1, keys };
            self.add(&about, "count", latency.len() as f64);
            self.add(&about, "min_ns", latency.min() as f64);
            self.add_percentiles(&about, latency, &PERCENTILES);
            self.add(&about, "total_ms", latency.mean() * latency.len() as f64 / 1e6);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_end_with_all_keys() {
        let million = 1_000_000;
        let of_ten = [100_000, 300_000, million, 3 * million, 10 * million];
        assert_eq!(sizes(10 * million), of_ten);
        assert_eq!(sizes(1234), [10, 30, 100, 400, 1234]);
        for keys in Config::KEYS_MIN..3000 {
            let sizes = sizes(keys);
            assert!(sizes.is_sorted() && sizes.last() == Some(&keys), "{sizes:?}");
        }
    }
}
