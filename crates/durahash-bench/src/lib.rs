//! The benchmarks behind `durahash bench`: one run shows what each design costs and gains on this
//! machine, as a table, as JSON, and as a page with figures.
//!
//! - [`workload`]: which keys and operations, YCSB's among them.
//! - [`driver`]: threads, clocks; anything that is a [`Table`](driver::Table) can be measured.
//! - [`run`]: all measurements, into a [`Report`].
//! - [`figures`], and [`Report::write_page`]: what is drawn from a report, fresh or saved.
//!
//! Wrong answers are no results: every lookup of every run must find what it has to, and every key
//! that a killed process had acknowledged, or the run fails.

#![forbid(unsafe_code)]

mod error;

pub mod workload;

pub mod driver;

mod machine;
mod report;

mod recover;
mod subject;
mod suites;

mod charts;
pub mod figures;
mod html;
mod svg;
mod tables;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use durahash::Design;
pub use durahash_media::Latency;

pub use error::{Error, Result};
pub use machine::Machine;
pub use recover::child_main;
pub use report::{Report, Row, Setup};

use subject::Bench;
use suites::Suites;

/// Where pools are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Medium {
    /// Files.
    #[default]
    File,
    /// Memory of this process.
    Dram,
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Medium::File => "file",
            Medium::Dram => "dram",
        })
    }
}

impl FromStr for Medium {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "file" => Ok(Medium::File),
            "dram" => Ok(Medium::Dram),
            _ => Err(Error::Config {
                what: format!("no such medium: {name} (file or dram)"),
            }),
        }
    }
}

/// What is run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The designs.
    pub designs: Vec<Design>,
    /// Keys that are loaded.
    pub keys: u64,
    /// Numbers of threads, each measured.
    pub threads: Vec<usize>,
    /// Where pools are made.
    pub medium: Medium,
    /// The directory in which the files are made, in one of their own that is removed afterwards;
    /// the current one unless set.
    pub pool: Option<PathBuf>,
    /// Latency that is added to the medium's.
    pub emulate: Option<Latency>,
    /// Repeats of each timed run.
    pub repeats: u32,
    /// Seed of keys, draws and pools.
    pub seed: u64,
    /// The program that is started to be killed, which calls [`child_main`]; this one unless set.
    pub child: Option<PathBuf>,
}

impl Default for Config {
    /// All designs, a million keys in files, one thread and two, three repeats.
    fn default() -> Self {
        Config {
            designs: Design::ALL.to_vec(),
            keys: 1_000_000,
            threads: vec![1, 2],
            medium: Medium::File,
            pool: None,
            emulate: None,
            repeats: 3,
            seed: 42,
            child: None,
        }
    }
}

impl Config {
    /// The fewest keys: with fewer, nothing grows.
    pub const KEYS_MIN: u64 = 1000;

    fn check(&self) -> Result<()> {
        let what = if self.designs.is_empty() {
            "no design is named".into()
        } else if self.keys < Self::KEYS_MIN {
            format!(
                "{} keys are too few, at least {} are needed",
                self.keys,
                Self::KEYS_MIN
            )
        } else if self.threads.is_empty() || self.threads.contains(&0) {
            "numbers of threads begin with one".into()
        } else if self.repeats == 0 {
            "at least one repeat is needed".into()
        } else if self.pool.is_some() && self.medium == Medium::Dram {
            "pools in memory have no directory".into()
        } else {
            return Ok(());
        };
        Err(Error::Config { what })
    }
}

/// Who wants to know how far a run is.
pub trait Progress {
    /// `done` of `total` parts, of about equal length, are done; `what` begins.
    fn at(&mut self, done: u64, total: u64, what: &str);
}

/// Nobody wants to know.
impl Progress for () {
    fn at(&mut self, _done: u64, _total: u64, _what: &str) {}
}

/// Runs all measurements.
///
/// A child process is started for each design and size, and killed; for that, the program calls
/// [`child_main`] first thing.
///
/// # Errors
/// [`Error::Config`] for a configuration that cannot be; [`Error::Table`] and [`Error::Io`] as the
/// pools and the system say; [`Error::Wrong`] where a design gave a wrong answer.
pub fn run(config: &Config, progress: &mut dyn Progress) -> Result<Report> {
    config.check()?;
    let bench = Bench::new(config)?;
    let setup = Setup {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("DURAHASH_COMMIT").map(str::to_owned),
        unix_seconds: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        designs: config.designs.iter().map(Design::to_string).collect(),
        keys: config.keys,
        threads: config.threads.iter().map(|n| *n as u64).collect(),
        medium: config.medium.to_string(),
        file_system: bench.file_system(),
        durability: bench.durability()?.to_string(),
        emulates: config.emulate.map(|latency| latency.name.to_owned()),
        repeats: u64::from(config.repeats),
        seed: config.seed,
        clock_ns: clock_ns(),
    };
    let mut suites = Suites {
        config,
        bench,
        rows: Vec::new(),
        progress,
        done: 0,
    };
    suites.run()?;
    Ok(Report {
        machine: Machine::this(),
        setup,
        rows: suites.rows,
    })
}

/// What reading the clock twice takes: the shortest of many tries, in which nothing came between.
fn clock_ns() -> f64 {
    const READS: u32 = 1000;
    let try_once = || {
        let from = Instant::now();
        for _ in 0..READS {
            std::hint::black_box(Instant::now());
        }
        from.elapsed().as_nanos() as f64 / f64::from(READS)
    };
    let shortest = (0..10).map(|_| try_once()).fold(f64::MAX, f64::min);
    (shortest * 10.0).round() / 10.0
}
