//! Latency against the number of keys (Pea Hash, Fig. 4b to 4e), and what the inserts took that
//! split something on the way (Table 3).

use super::inserts::{DOUBLING, Inserts, PERCENTILES, SPLITTING};
use super::{About, Recorder};
use crate::config::Config;
use crate::error::Result;
use crate::workload::{Workload, Workloads};

/// Operations of each kind at each size: at most these, and no more than a tenth of the keys.
const SAMPLES: u64 = 100_000;
/// The operations: cases and workloads.
const OPERATIONS: [(&str, Workload); 4] = [
    ("insert", Workload::Load),
    ("hit", Workload::Hit),
    ("miss", Workload::Miss),
    ("delete", Workload::Delete),
];
/// Work for each design, in runs of all keys.
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

/// The work of the suite, in runs of all keys.
pub(super) fn work(config: &Config) -> u64 {
    config.designs.len() as u64 * WORK * sizes(config.keys).len() as u64
}

impl Recorder<'_> {
    /// Every design grows to a size before one grows to the next.
    pub(super) fn sizes(&mut self) -> Result<()> {
        let config = self.config;
        let workloads = Workloads::new(config.keys, config.seed);
        let stream = workloads.draw(Workload::Load, 1, 0).swap_remove(0);
        let mut maps = Vec::new();
        for design in &config.designs {
            maps.push((design.to_string(), self.bench.create(*design)?));
        }
        let mut inserts: Vec<Inserts<'_>> = maps.iter().map(|(_, map)| Inserts::new(map)).collect();
        let mut from = 0;
        for size in sizes(config.keys) {
            for ((name, map), inserts) in maps.iter().zip(&mut inserts) {
                self.next(WORK, &format!("{name}: {size} keys"));
                inserts.resume();
                for op in &stream[from..size as usize] {
                    inserts.put(op.key)?;
                }
                let (design, keys) = (name.as_str(), size);
                let about = About { table: "size", design, case: "", threads: 1, keys };
                let samples = (keys / 10).clamp(1, SAMPLES);
                self.timed(&about, map, samples, &OPERATIONS, &super::PERCENTILES[..2])?;
            }
            from = size as usize;
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
