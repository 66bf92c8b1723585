//! The measurements: the standard suite, one function each, and the others in files of their own.
//! All of them run every design in turn before they go on to the next step, so that a machine that
//! drifts hurts all alike.

mod caches;
pub mod duplicates;
mod durability;
mod hit_rates;
mod inserts;
mod media;
pub(crate) mod resizing;
mod sizes;
mod stall;
mod summary;
mod ycsb;

use std::collections::HashMap;

use durahash::{Design, Durability, IndexStats, Map, Options};
use durahash_media::Dram;
use durahash_media::metered::{Counts, Meter, Metered};
use hdrhistogram::Histogram;

use crate::config::{Config, Progress, Suite};
use crate::driver::{self, Table, Timed};
use crate::error::Result;
use crate::recover;
use crate::report::{About, Row, Samples};
use crate::subject::Bench;
use crate::workload::{Kind, Op, Workload, Workloads};
use inserts::{Inserts, SPLITTING, moved};

/// The percentiles of most operations; see [`Recorder::add_percentiles`].
const PERCENTILES: [(&str, u64); 3] = [("p50_ns", 2), ("p99_ns", 100), ("p99.99_ns", 10_000)];
/// Where the numbers of keys begin that are inserted and removed again.
const PASSING: u64 = 3 << 56;
/// Bytes of a key and its value.
const ENTRY_BYTES: u64 = 16;
/// Points of the curves of growth.
const GROWTH_POINTS: u64 = 128;
/// Keys of the counted runs at most. Counts are those of this size: tables that fill and split in waves have others at others.
const COUNTED_KEYS: u64 = 200_000;
/// Address space for these.
const COUNTED_BYTES: u64 = 4 << 30;

/// A run under way: it records rows, and reports progress.
pub struct Recorder<'a> {
    pub(crate) config: &'a Config,
    pub(crate) bench: Bench,
    pub(crate) rows: Vec<Row>,
    progress: &'a mut dyn Progress,
    /// The durability of the pools, where a measurement has one at hand.
    pub(crate) durability: Option<Durability>,
    /// Bytes that child processes have written.
    pub(crate) written: u64,
    /// Work done, and all work, in runs of all keys.
    done: u64,
    total: u64,
}

/// Work of the parts beside the timed runs, in runs of all keys for each design.
const GROWTH_WORK: u64 = 2;
const COSTS_WORK: u64 = 1;
const RECOVERY_WORK: u64 = 6;

impl<'a> Recorder<'a> {
    /// `total` is the work of the run, in runs of all keys.
    pub(crate) fn new(
        config: &'a Config,
        bench: Bench,
        total: u64,
        progress: &'a mut dyn Progress,
    ) -> Self {
        Recorder {
            config,
            bench,
            rows: Vec::new(),
            progress,
            durability: None,
            written: 0,
            done: 0,
            total,
        }
    }

    /// The work of the configured suites, in runs of all keys.
    pub(crate) fn work(config: &Config) -> u64 {
        let works = config.suites.iter().map(|suite| match suite {
            Suite::Summary => summary::work(config),
            Suite::Standard => Self::standard_work(config),
            Suite::Duplicates => duplicates::work(config, duplicates::contenders(config).len()),
            Suite::Sizes => sizes::SIZES.work(config),
            Suite::Stall => stall::work(config),
            Suite::Loads => sizes::LOADS.work(config),
            Suite::Ycsb => ycsb::work(config),
            Suite::Caches => caches::work(config),
            Suite::Resizing => resizing::work(),
            Suite::Recovery => config.designs.len() as u64 * RECOVERY_WORK,
            Suite::Cache => hit_rates::work(config),
            Suite::Durability => durability::work(config),
            Suite::Media => media::work(config),
        });
        works.sum()
    }

    /// Runs the configured suites.
    pub(crate) fn run(&mut self) -> Result<()> {
        if self.config.has(Suite::Duplicates) {
            duplicates::check(self.config)?;
        }
        self.config.suites.iter().try_for_each(|suite| self.suite(*suite))
    }

    /// Runs one suite.
    ///
    /// # Errors
    /// Those of [`run`](crate::run).
    pub fn suite(&mut self, suite: Suite) -> Result<()> {
        match suite {
            Suite::Summary => self.summary(),
            Suite::Standard => self.standard(),
            Suite::Duplicates => self.duplicates(&duplicates::contenders(self.config)),
            Suite::Sizes => self.growing(&sizes::SIZES),
            Suite::Stall => self.stall(),
            Suite::Loads => self.growing(&sizes::LOADS),
            Suite::Ycsb => self.ycsb(),
            Suite::Caches => self.caches(),
            Suite::Resizing => self.slices(),
            Suite::Recovery => self.recovery(&recovery_sizes(self.config.keys)),
            Suite::Cache => self.hit_rates(),
            Suite::Durability => self.durability(),
            Suite::Media => self.media(),
        }
    }

    fn standard(&mut self) -> Result<()> {
        self.times()?;
        self.growth()?;
        self.costs()?;
        if self.config.has(Suite::Recovery) {
            return Ok(());
        }
        self.recovery(&[self.config.keys / 4, self.config.keys / 2, self.config.keys])
    }

    /// The work of the standard suite, in runs of all keys.
    fn standard_work(config: &Config) -> u64 {
        let rounds = u64::from(config.repeats) + 1;
        let timed = rounds * config.threads.len() as u64 * Workload::ALL.len() as u64;
        config.designs.len() as u64 * (timed + GROWTH_WORK + COSTS_WORK + RECOVERY_WORK)
    }

    /// The configuration of the run.
    #[must_use]
    pub fn config(&self) -> &'a Config {
        self.config
    }

    /// Where the run makes its tables.
    #[must_use]
    pub fn bench(&self) -> &Bench {
        &self.bench
    }

    /// Adds the medians of samples, as rows.
    pub fn add_medians(&mut self, mut samples: Samples) {
        self.rows.extend(samples.rows());
    }

    /// Reports that `work` more is done, and that `what` begins.
    pub fn next(&mut self, work: u64, what: &str) {
        self.done += work;
        self.progress.at(self.done, self.total, what);
    }

    /// Adds a row of one value.
    pub fn add(&mut self, about: &About<'_>, metric: &str, value: f64) {
        self.add_samples(about, metric, &[value]);
    }

    /// Adds a row of the median of `samples`, with the least and the greatest.
    pub fn add_samples(&mut self, about: &About<'_>, metric: &str, samples: &[f64]) {
        self.rows.push(about.row(metric, samples));
    }

    /// Adds a row for each percentile and one for the maximum. `(metric, n)` is the percentile that one
    /// sample of `n` exceeds; it is left out where there are fewer than `n` samples.
    pub fn add_percentiles(
        &mut self,
        about: &About<'_>,
        latency: &Histogram<u64>,
        percentiles: &[(&str, u64)],
    ) {
        for (metric, one_in) in percentiles.iter().filter(|(_, n)| latency.len() >= *n) {
            let quantile = 1.0 - 1.0 / *one_in as f64;
            self.add(about, metric, latency.value_at_quantile(quantile) as f64);
        }
        self.add(about, "max_ns", latency.max() as f64);
    }

    /// Throughput and latency of every workload. The first round is a small one and counts for
    /// nothing: it warms up the processor, the allocator and the file system. The last one takes
    /// the time of every operation, which costs throughput, so the others do not.
    fn times(&mut self) -> Result<()> {
        let config = self.config;
        let small = Workloads::new((config.keys / 10).max(1), config.seed);
        let full = Workloads::new(config.keys, config.seed);
        let mut samples = Samples::default();
        let last = u64::from(config.repeats) + 1;
        for round in 0..=last {
            let workloads = if round == 0 { &small } else { &full };
            let timed = if round == last { Timed::Each } else { Timed::Whole };
            if round == last {
                self.rows.extend(samples.rows());
            }
            for &threads in &config.threads {
                let mut loaded: HashMap<Design, Map<u64, u64>> = HashMap::new();
                for workload in Workload::ALL {
                    let streams = workloads.draw(workload, threads, round);
                    for &design in &config.designs {
                        let what = match round {
                            0 => "warming up".to_owned(),
                            _ => format!("{design}: {}, threads: {threads}", workload.name()),
                        };
                        self.next(u64::from(round > 0), &what);
                        let run = if workload == Workload::PutMany {
                            let own = self.bench.create(design)?;
                            driver::run(&own, workload, &streams, timed)?
                        } else {
                            if workload == Workload::Load {
                                loaded.insert(design, self.bench.create(design)?);
                            }
                            driver::run(&loaded[&design], workload, &streams, timed)?
                        };
                        if workload == Workload::Load {
                            end_resize(&loaded[&design])?;
                        }
                        let (design, case, keys) =
                            (&design.to_string(), workload.name(), config.keys);
                        let about = About { table: "throughput", design, case, threads, keys };
                        match timed {
                            Timed::Each => {
                                let about = About { table: "latency", ..about };
                                self.add_percentiles(&about, &run.latency, &PERCENTILES);
                            }
                            Timed::Whole if round > 0 => {
                                samples.add(&about, "ops_per_s", run.ops_per_s());
                            }
                            Timed::Whole => {}
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// One thread inserts all keys and looks around after each: load factor, space, and what the
    /// inserts take that split something.
    fn growth(&mut self) -> Result<()> {
        let config = self.config;
        let workloads = Workloads::new(config.keys, config.seed);
        let stream = &workloads.draw(Workload::Load, 1, 0)[0];
        for &design in &config.designs {
            self.next(GROWTH_WORK, &format!("{design}: growth"));
            let map = self.bench.create(design)?;
            self.grow(design, &map, stream)?;
        }
        Ok(())
    }

    fn grow(&mut self, design: Design, map: &Map<u64, u64>, stream: &[Op]) -> Result<()> {
        let keys = stream.len() as u64;
        let name = design.to_string();
        let mut about = About { table: "growth", design: &name, case: "load", threads: 1, keys: 0 };
        let mut inserts = Inserts::new(map);
        let mut utility = Utility::default();
        for (op, count) in stream.iter().zip(1..) {
            let stats = inserts.put(op.key)?;
            utility.add(count, keys, stats);
            if is_point(count, keys) {
                about.keys = count;
                self.add(&about, "load_factor", load_factor(stats));
                let per_key = |bytes: u64| bytes as f64 / count as f64;
                self.add(&about, "medium_bytes_per_key", per_key(stats.medium_bytes));
                self.add(&about, "dram_bytes_per_key", per_key(stats.dram_bytes));
            }
        }
        about.table = "space";
        for (metric, value) in utility.figures() {
            self.add(&about, metric, value);
        }
        self.space(&about, map)?;
        let stats = map.stats()?;
        about.table = "resize";
        about.case = "all";
        self.add(&about, "splits", stats.index.splits as f64);
        self.add(&about, "doublings", stats.index.doublings as f64);
        if stats.index.doublings > 0 {
            self.add(&about, "doubling_max_ns", inserts.doubling.max() as f64);
        }
        for (case, latency) in [("insert", &inserts.others), (SPLITTING, &inserts.splitting)] {
            if latency.is_empty() {
                continue;
            }
            about.case = case;
            self.add(&about, "count", latency.len() as f64);
            self.add_percentiles(&about, latency, &inserts::PERCENTILES);
        }
        Ok(())
    }

    /// The latency of operations on a map of so many keys as `about` says, which it has again afterwards: what is
    /// inserted is removed.
    fn timed(
        &mut self,
        about: &About<'_>,
        map: &Map<u64, u64>,
        samples: u64,
        operations: &[(&str, Workload)],
        percentiles: &[(&str, u64)],
    ) -> Result<()> {
        let workloads = Workloads::new(about.keys, self.config.seed);
        let passing = |kind| {
            let key = |i| workloads.key(PASSING + (about.keys << 17) + i);
            (0..samples).map(|i| Op { key: key(i), kind }).collect()
        };
        for (case, workload) in operations {
            let ops = match workload {
                Workload::Load => passing(Kind::Put),
                Workload::Delete => passing(Kind::Remove),
                _ => {
                    let mut ops = workloads.draw(*workload, 1, 0).swap_remove(0);
                    ops.truncate(samples as usize);
                    ops
                }
            };
            let latency = driver::run(map, *workload, &[ops], Timed::Each)?.latency;
            let about = About { case, ..*about };
            self.add(&about, "count", latency.len() as f64);
            self.add(&about, "mean_ns", latency.mean());
            self.add_percentiles(&about, &latency, percentiles);
        }
        Ok(())
    }

    /// The space that a map takes.
    fn space(&mut self, about: &About<'_>, map: &Map<u64, u64>) -> Result<()> {
        let stats = map.stats()?;
        self.add(about, "load_factor", stats.load_factor());
        self.add(about, "medium_bytes_per_key", stats.medium_bytes_per_key());
        self.add(about, "dram_bytes_per_key", stats.dram_bytes_per_key());
        self.add(about, "file_bytes", stats.space.bytes as f64);
        Ok(())
    }

    /// The reads and writes of operations, counted on a medium in memory: the same on every machine.
    fn costs(&mut self) -> Result<()> {
        let config = self.config;
        for &design in &config.designs {
            self.next(COSTS_WORK, &format!("{design}: counting"));
            let medium = Metered::new(Dram::new(COUNTED_BYTES)?);
            let meter = std::sync::Arc::clone(medium.meter());
            let options = Options::new().design(design).seed(config.seed);
            let map: Map<u64, u64> = options.create_on(medium)?;
            self.count(&design.to_string(), &map, &|| map.index_stats(), &meter)?;
        }
        Ok(())
    }

    /// Fills a table, which is empty, with all keys, and adds how full it is on the way, and over the last doubling.
    ///
    /// # Errors
    /// Those of the table.
    pub fn load_factors(
        &mut self,
        name: &str,
        table: &dyn Table,
        stats: &dyn Fn() -> IndexStats,
    ) -> Result<()> {
        let workloads = Workloads::new(self.config.keys, self.config.seed);
        let (keys, mut utility) = (workloads.keys(), Utility::default());
        for (op, count) in workloads.draw(Workload::Load, 1, 0)[0].iter().zip(1..) {
            table.put(op.key, op.key)?;
            let stats = stats();
            utility.add(count, keys, &stats);
            if is_point(count, keys) {
                let about =
                    About { table: "growth", design: name, case: "load", threads: 1, keys: count };
                self.add(&about, "load_factor", load_factor(&stats));
            }
        }
        let about = About { table: "space", design: name, case: "load", threads: 1, keys };
        for (metric, value) in utility.figures() {
            self.add(&about, metric, value);
        }
        let stats = stats();
        self.add(&about, "medium_bytes_per_key", stats.medium_bytes as f64 / keys as f64);
        self.add(&about, "splits", stats.splits as f64);
        Ok(())
    }

    /// Counts what operations of one thread on a table, which is empty, do to its medium.
    fn count(
        &mut self,
        name: &str,
        table: &dyn Table,
        stats_of: &dyn Fn() -> IndexStats,
        meter: &Meter,
    ) -> Result<()> {
        let workloads = Workloads::new(self.config.keys.min(COUNTED_KEYS), self.config.seed);
        let load = &workloads.draw(Workload::Load, 1, 0)[0];
        // Inserts from one size to twice that size show everything that growth by halves does; all else is counted at the
        // second size.
        let (first, second) = load.split_at(load.len() / 2);
        for op in first {
            table.put(op.key, op.key)?;
        }
        let draw = |workload| workloads.draw(workload, 1, 0).swap_remove(0);
        let put = |op: &Op| table.put(op.key, op.key);
        let get = |op: &Op| table.get(op.key).map(drop);
        let remove = |op: &Op| table.remove(op.key).map(drop);
        let run = |ops: &[Op], f: &dyn Fn(&Op) -> Result<()>| -> Result<[Counted; 2]> {
            let mut counted = [Counted::default(); 2];
            let (mut stats, mut counts) = (stats_of(), meter.counts());
            for op in ops {
                f(op)?;
                let (stats_now, counts_now) = (stats_of(), meter.counts());
                let counted = &mut counted[usize::from(moved(&stats_now, &stats))];
                counted.operations += 1;
                counted.counts = counted.counts + (counts_now - counts);
                (stats, counts) = (stats_now, counts_now);
            }
            Ok(counted)
        };
        let inserts = run(second, &put)?;
        let parts = [
            (["hit", ""], run(&draw(Workload::Hit), &get)?),
            (["miss", ""], run(&draw(Workload::Miss), &get)?),
            (["insert", SPLITTING], inserts),
            (["update", ""], run(&draw(Workload::Update), &put)?),
            (["remove", "remove that merges"], run(&draw(Workload::Delete), &remove)?),
        ];
        for (cases, counted) in parts {
            for (case, counted) in cases.into_iter().zip(counted) {
                let Counted { operations, counts } = counted;
                if operations == 0 {
                    continue;
                }
                let keys = workloads.keys();
                let about = About { table: "cost", design: name, case, threads: 1, keys };
                self.add(&about, "count", operations as f64);
                let each = |n: u64| n as f64 / operations as f64;
                let named = counts.named().filter(|(name, _)| *name != "operations");
                for (name, n) in named {
                    self.add(&about, name, each(n));
                }
                self.add(&about, "waits", each(counts.fences + counts.drains));
            }
        }
        Ok(())
    }

    /// Kills a child in the middle of its inserts, opens what it left, and looks up every key that
    /// it had acknowledged. In memory there is nothing to be opened.
    fn recovery(&mut self, sizes: &[u64]) -> Result<()> {
        let config = self.config;
        for &keys in sizes {
            for &design in &config.designs {
                self.next(RECOVERY_WORK / 3, &format!("{design}: kill -9 and recovery"));
                self.killed(config, "recovery", "kill -9", design, keys)?;
            }
        }
        Ok(())
    }

    /// Kills a child, and records its pool's recovery as rows of a table.
    fn killed(
        &mut self,
        config: &Config,
        table: &str,
        case: &str,
        design: Design,
        keys: u64,
    ) -> Result<()> {
        let Some(dir) = self.bench.dir()? else { return Ok(()) };
        let found =
            recover::kill_and_recover(config, design, &dir.path().join("killed.pool"), keys)?;
        drop(dir);
        self.written += found.written;
        let (design, threads, keys) = (&design.to_string(), found.threads, found.keys);
        let about = About { table, design, case, threads, keys };
        for (metric, n) in [
            ("acknowledged", found.acknowledged),
            ("lost", found.lost),
            ("unacknowledged", found.unacknowledged),
            ("repaired_by_first_get", found.repaired_by_first_get),
            ("repaired", found.repaired),
        ] {
            self.add(&about, metric, n as f64);
        }
        for (metric, times) in [
            ("open_ms", found.open),
            ("first_get_ms", found.first_get),
            ("open_closed_ms", found.open_closed),
        ] {
            let ms: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
            self.add_samples(&about, metric, &ms);
        }
        Ok(())
    }
}

/// Ends the resize that inserts may have begun, as a thread in the background would: lookups do not, and
/// would read more blocks for as long as it takes. The suite of resizes measures that.
fn end_resize(map: &Map<u64, u64>) -> Result<()> {
    while map.step()? {}
    Ok(())
}

/// Sizes that are as far apart as 1, 10 and 40 million.
fn recovery_sizes(keys: u64) -> [u64; 3] {
    [(keys / 40).max(Config::KEYS_MIN.min(keys)), keys / 4, keys]
}

/// Operations and what they did to the medium.
#[derive(Clone, Copy, Default)]
struct Counted {
    operations: u64,
    counts: Counts,
}

/// True of the last insert that belongs to a point of a curve of growth to so many keys.
fn is_point(count: u64, keys: u64) -> bool {
    count * GROWTH_POINTS / keys != (count - 1) * GROWTH_POINTS / keys
}

/// How full the slots are.
#[must_use]
pub fn load_factor(stats: &IndexStats) -> f64 {
    stats.slots_used as f64 / stats.slots.max(1) as f64
}

/// Average utility (Pea Hash, §2.2.2): the space that entries take after each insert, summed up,
/// over the space that the table takes, summed up likewise. And the load factor over the last
/// doubling, in which a table that splits in two meets every state of growth once.
#[derive(Default)]
struct Utility {
    entries: f64,
    medium: f64,
    dram: f64,
    sum: f64,
    samples: f64,
    min: f64,
    max: f64,
}

impl Utility {
    fn add(&mut self, count: u64, keys: u64, stats: &IndexStats) {
        self.entries += (count * ENTRY_BYTES) as f64;
        self.medium += stats.medium_bytes as f64;
        self.dram += stats.dram_bytes as f64;
        if count <= keys / 2 {
            return;
        }
        let load_factor = load_factor(stats);
        self.min = if self.samples == 0.0 { load_factor } else { self.min.min(load_factor) };
        self.max = self.max.max(load_factor);
        self.sum += load_factor;
        self.samples += 1.0;
    }

    fn figures(&self) -> [(&'static str, f64); 5] {
        [
            ("load_factor_mean", self.sum / self.samples),
            ("load_factor_min", self.min),
            ("load_factor_max", self.max),
            ("utility_medium", self.entries / self.medium),
            ("utility", self.entries / (self.medium + self.dram)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's own example: one-entry buckets, `n = 2 αM` with one doubling at `αM`.
    #[test]
    fn utility_is_that_of_the_paper() {
        let (buckets, alpha_m) = (1000, 800);
        let mut utility = Utility::default();
        for count in 1..=2 * alpha_m {
            let slots = if count <= alpha_m { buckets } else { 2 * buckets };
            let mut stats = IndexStats::default();
            stats.slots_used = count;
            stats.slots = slots;
            stats.medium_bytes = slots * ENTRY_BYTES;
            stats.dram_bytes = slots * ENTRY_BYTES;
            utility.add(count, 2 * alpha_m, &stats);
        }
        let figures: HashMap<_, _> = utility.figures().into();
        let expected = (2 * alpha_m + 1) as f64 / (3 * buckets) as f64;
        assert!((figures["utility_medium"] - expected).abs() < 1e-9);
        assert!((figures["utility"] - expected / 2.0).abs() < 1e-9);
        assert!((figures["load_factor_max"] - 0.8).abs() < 1e-9);
        assert!((figures["load_factor_min"] - 801.0 / 2000.0).abs() < 1e-9);
        assert!((figures["load_factor_mean"] - 0.6).abs() < 1e-3);
    }
}
