//! Many values for each key: multimaps, on keys of more and more skew and on the edges of a graph (Pea
//! Hash, Figs. 8 to 10). `compare/baselines` measures lists behind a map beside them.

use std::hint::black_box;

use durahash::{Design, MultiMap, Options};
use durahash_media::Medium;

use super::{About, ENTRY_BYTES, Recorder};
use crate::config::{Config, Suite};
use crate::driver;
use crate::entries::{Entries, dealt};
use crate::error::{Error, Result};
use crate::multi_table::MultiTable;
use crate::named::named;
use crate::report::Samples;
use crate::subject::{Bench, Make};
use crate::workload::Random;

/// Exponents of the zipfian distributions.
const SKEWS: [f64; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];
/// Cases: those, and a graph.
const CASES: u64 = SKEWS.len() as u64 + 1;
/// Work of a round of one table, in runs of all keys.
const ROUND_WORK: u64 = 4;
/// Looks at the space while entries are added.
const SPACE_POINTS: u64 = 128;
/// Makes another value of one.
const OTHER: u64 = 1 << 63;

named! {
    /// An operation of the suite; they run in this order.
    pub(crate) enum Operation {
        /// Adds all entries to an empty table.
        Add = "add",
        /// Copies all values of the keys of random entries.
        GetByEntry = "get by entry",
        /// Copies all values of each key.
        GetByKey = "get by key",
        /// Counts the values of each key.
        Count = "count",
        /// Removes a tenth of the entries, and adds another value in place of each.
        Update = "update",
        /// Removes another tenth.
        RemoveOne = "remove one",
        /// Removes all values of each key.
        RemoveAll = "remove all",
    }
}

impl Operation {
    /// True if it moves all values of a key: then the report has values a second as well.
    pub(crate) fn of_all(self) -> bool {
        matches!(self, Operation::GetByEntry | Operation::GetByKey | Operation::RemoveAll)
    }
}

type Making = Box<dyn Fn(&Bench) -> Result<Box<dyn MultiTable>>>;

/// A table that the suite measures.
pub struct Contender {
    /// The name that its rows have in place of a design's.
    pub name: String,
    /// Makes an empty one.
    pub make: Making,
}

/// A multimap, to be made on a medium without a log.
struct Multi {
    options: Options,
}

impl Make for Multi {
    type Made = Box<dyn MultiTable>;

    fn on<M: Medium>(self, medium: M) -> Result<Box<dyn MultiTable>> {
        let made: MultiMap<u64, u64> = self.options.create_on(medium)?;
        Ok(Box::new(made))
    }
}

/// The multimaps of the designs that have them.
#[must_use]
pub fn contenders(config: &Config) -> Vec<Contender> {
    let has_multimaps =
        |design: &Design| Options::new().design(*design).in_memory::<MultiMap<u64, u64>>().is_ok();
    let seed = config.seed;
    let designs = config.designs.iter().copied().filter(has_multimaps);
    let multimap = |design: Design| Contender {
        name: design.to_string(),
        make: Box::new(move |bench| {
            bench.make(Multi { options: Options::new().design(design).seed(seed) })
        }),
    };
    designs.map(multimap).collect()
}

/// Refuses a configuration without such a design.
pub(super) fn check(config: &Config) -> Result<()> {
    if !contenders(config).is_empty() {
        return Ok(());
    }
    let what = format!("none of the designs has multimaps, for the suite {}", Suite::Duplicates);
    Err(Error::Config { what })
}

/// The work of the suite, in runs of all keys.
#[must_use]
pub fn work(config: &Config, contenders: usize) -> u64 {
    let rounds = 1 + u64::from(config.repeats) * config.threads.len() as u64;
    CASES * contenders as u64 * rounds * ROUND_WORK
}

impl Recorder<'_> {
    /// Measures many values for each key: every contender in turn, on each distribution of keys.
    ///
    /// # Errors
    /// Those of the tables and the system; [`Error::Wrong`] where a table gives a wrong answer.
    pub fn duplicates(&mut self, contenders: &[Contender]) -> Result<()> {
        let config = self.config;
        // First, as it may fail.
        let graph = Entries::graph_of(config.graph.as_deref(), config.keys, config.seed)?;
        for theta in SKEWS {
            let entries = Entries::zipfian(config.keys, theta, config.seed);
            self.of_entries(&entries, contenders)?;
        }
        self.of_entries(&graph, contenders)
    }

    fn of_entries(&mut self, entries: &Entries, contenders: &[Contender]) -> Result<()> {
        let config = self.config;
        for contender in contenders {
            let name = &contender.name;
            self.next(ROUND_WORK, &format!("{name}: {}, space", entries.name));
            self.fill(entries, contender)?;
        }
        let mut samples = Samples::default();
        for repeat in 0..config.repeats {
            for &threads in &config.threads {
                let runs = Runs::draw(entries, threads, config.seed ^ u64::from(repeat));
                for contender in contenders {
                    let name = &contender.name;
                    self.next(ROUND_WORK, &format!("{name}: {}, threads: {threads}", entries.name));
                    let table = (contender.make)(&self.bench)?;
                    let about = About::duplicates(name, entries, threads);
                    runs.run(&*table, &mut |metric, value| samples.add(&about, &metric, value))?;
                }
            }
        }
        self.rows.extend(samples.rows());
        Ok(())
    }

    /// Adds all entries and looks at the space now and then. It warms up for the others, too.
    fn fill(&mut self, entries: &Entries, contender: &Contender) -> Result<()> {
        let table = (contender.make)(&self.bench)?;
        let count = entries.count();
        let (mut of_entries, mut of_medium) = (0.0, 0.0);
        for ((key, value), added) in entries.pairs.iter().zip(1..) {
            table.add(*key, *value)?;
            if added * SPACE_POINTS / count != (added - 1) * SPACE_POINTS / count {
                of_entries += (added * ENTRY_BYTES) as f64;
                of_medium += table.medium_bytes()?.iter().sum::<u64>() as f64;
            }
        }
        let name = &contender.name;
        let about = About::duplicates(name, entries, 1);
        let [in_buckets, elsewhere] = table.medium_bytes()?.map(|n| n as f64 / count as f64);
        self.add(&about, "keys", entries.keys.len() as f64);
        self.add(&about, "longest", entries.longest() as f64);
        self.add(&about, "lists", table.lists()? as f64);
        self.add(&about, "medium_bytes_per_entry", in_buckets + elsewhere);
        self.add(&about, "bucket_bytes_per_entry", in_buckets);
        self.add(&about, "list_bytes_per_entry", elsewhere);
        self.add(&about, "utility_medium", of_entries / of_medium);
        Ok(())
    }
}

impl<'a> About<'a> {
    fn duplicates(name: &'a str, entries: &'a Entries, threads: usize) -> Self {
        About {
            table: "duplicates",
            design: name,
            case: &entries.name,
            threads,
            keys: entries.count(),
        }
    }
}

/// The operations of each thread, in the order in which they run on one table.
struct Runs {
    entries: u64,
    added: Vec<Vec<(u64, u64)>>,
    /// Keys with their counts: those of random entries, and each once.
    by_entry: Vec<Vec<(u64, u64)>>,
    by_key: Vec<Vec<(u64, u64)>>,
    updated: Vec<Vec<(u64, u64)>>,
    removed: Vec<Vec<(u64, u64)>>,
}

impl Runs {
    fn draw(entries: &Entries, threads: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let [updated, removed] = entries.two_tenths(&mut random);
        Runs {
            entries: entries.count(),
            added: dealt(&entries.pairs, threads),
            by_entry: dealt(&entries.lookups(&mut random), threads),
            by_key: dealt(&entries.keys, threads),
            updated: dealt(&updated, threads),
            removed: dealt(&removed, threads),
        }
    }

    /// Runs all of them, and tells the figures. Reads and removals must find the added values.
    fn run(&self, table: &dyn MultiTable, tell: &mut dyn FnMut(String, f64)) -> Result<()> {
        let removed = self.removed.iter().flatten().count() as u64;
        for operation in Operation::ALL {
            let (streams, expected) = match operation {
                Operation::Add => (&self.added, 0),
                Operation::GetByEntry => (&self.by_entry, sum_of_counts(&self.by_entry)),
                Operation::GetByKey | Operation::Count => (&self.by_key, self.entries),
                Operation::Update => (&self.updated, self.updated.iter().flatten().count() as u64),
                Operation::RemoveOne => (&self.removed, removed),
                Operation::RemoveAll => (&self.by_key, self.entries - removed),
            };
            let work = |stream: &Vec<(u64, u64)>| execute(table, operation, stream);
            let (elapsed, found) = driver::together(streams, work)?;
            let found: u64 = found.iter().sum();
            if found != expected {
                let what =
                    format!("{}: {found} values found, {expected} expected", operation.name());
                return Err(Error::Wrong { what });
            }
            let per_s = |n: u64| n as f64 / elapsed.as_secs_f64().max(1e-9);
            tell(
                format!("{} per_s", operation.name()),
                per_s(streams.iter().flatten().count() as u64),
            );
            if operation.of_all() {
                tell(format!("{} values_per_s", operation.name()), per_s(found));
            }
        }
        Ok(())
    }
}

fn sum_of_counts(streams: &[Vec<(u64, u64)>]) -> u64 {
    streams.iter().flatten().map(|(_, count)| *count).sum()
}

/// Runs one thread's part of an operation; how many values it found. A pair is a key and a value,
/// of operations on all values only the key counts.
fn execute(table: &dyn MultiTable, operation: Operation, stream: &[(u64, u64)]) -> Result<u64> {
    let mut found = 0;
    match operation {
        Operation::Add => stream.iter().try_for_each(|(key, value)| table.add(*key, *value))?,
        Operation::GetByEntry | Operation::GetByKey => {
            for (key, _) in stream {
                found += black_box(table.get_all(*key)?).len() as u64;
            }
        }
        Operation::Count => {
            for (key, _) in stream {
                found += table.count(*key)?;
            }
        }
        Operation::Update => {
            for (key, value) in stream {
                found += u64::from(table.remove_one(*key, *value)?);
                table.add(*key, value ^ OTHER)?;
            }
        }
        Operation::RemoveOne => {
            for (key, value) in stream {
                found += u64::from(table.remove_one(*key, *value)?);
            }
        }
        Operation::RemoveAll => {
            for (key, _) in stream {
                found += table.remove_all(*key)?;
            }
        }
    }
    Ok(found)
}
