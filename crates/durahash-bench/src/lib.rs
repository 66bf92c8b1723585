//! The benchmarks behind `durahash bench`: one run shows what each design costs and gains on this
//! machine, as a table, as JSON, and as a page with figures.
//!
//! - [`workload`]: which keys and operations, YCSB's among them.
//! - [`driver`]: threads and clocks. It measures anything that implements [`Table`](driver::Table).
//! - [`run`] and [`measure`]: measurements, recorded by a [`Recorder`] into a [`Report`].
//! - [`figures`], and [`Report::write_page`]: figures and a page from a report, new or saved.
//!
//! Wrong answers are no results: every lookup of every run must find what it has to, and every key
//! that a killed process had acknowledged, or the run fails.

#![forbid(unsafe_code)]

// From low to high, as in the other crates: a module uses what stands in a group above its own.
mod error;
mod named;

mod config;
mod svg;
mod text;
pub mod workload;

mod charts;
pub mod driver;
mod graph;
mod machine;
mod multi_table;
mod simulator;

mod entries;
mod report;
mod subject;

mod recover;

mod suites;

pub mod figures;
mod tables;

mod html;
#[cfg(test)]
mod sample;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use durahash::Design;
pub use durahash_media::metered::Profile;

pub use config::{Config, Medium, Progress, Suite};
pub use error::{Error, Result};
pub use machine::Machine;
pub use multi_table::MultiTable;
pub use recover::{Told, child_main, told_by};
pub use report::{About, REAL, Report, Row, Samples, Setup};
pub use subject::{Bench, Make};
pub use suites::Recorder;
pub use suites::{duplicates, load_factor};
pub use tables::{Table, table_of};

/// Runs the configured suites.
///
/// A child process is started for each design and size, and killed; for that, the program calls
/// [`child_main`] first.
///
/// # Errors
/// [`Error::Config`] for a configuration that cannot be met; [`Error::Table`] and [`Error::Io`] as the
/// pools and the system report; [`Error::Wrong`] where a design gave a wrong answer.
pub fn run(config: &Config, progress: &mut dyn Progress) -> Result<Report> {
    config.check()?;
    if config.suites.is_empty() {
        return Err(Error::Config { what: "no suite is named".into() });
    }
    let config = &config.without_repetitions();
    measure(config, Recorder::work(config), progress, &|recorder| recorder.run())
}

/// Runs the measurements of the caller, of so much work, in runs of all keys.
///
/// # Errors
/// Those of [`run`], and those of `measurements`.
pub fn measure(
    config: &Config,
    work: u64,
    progress: &mut dyn Progress,
    measurements: &dyn Fn(&mut Recorder<'_>) -> Result<()>,
) -> Result<Report> {
    let before = machine::written_bytes("self");
    let mut recorder = Recorder::new(config, Bench::new(config), work, progress);
    measurements(&mut recorder)?;
    let Recorder { bench, rows, durability, written, .. } = recorder;
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
        durability: match (&config.suites[..], durability) {
            ([Suite::Cache], _) => "nothing is stored".into(),
            ([Suite::Durability], _) => "each mode, side by side".into(),
            (_, Some(durability)) => durability.to_string(),
            (_, None) => bench.durability()?.to_string(),
        },
        emulates: config.emulate.map(|profile| profile.label()),
        repeats: u64::from(config.repeats),
        seed: config.seed,
        clock_ns: clock_ns(),
        written_bytes: machine::written_bytes("self") - before + written,
    };
    Ok(Report { machine: Machine::this(), setup, rows })
}

/// Nanoseconds that reading the clock twice takes: the least of many tries, which nothing interrupted.
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
