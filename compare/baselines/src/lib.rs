//! Baselines that no other crate offers, measured beside durahash's designs by the same driver:
//!
//! - `remote`: SepHash beside RACE hashing, on simulated nodes in virtual time. `race/` is RACE; `index.rs`
//!   either of them; `assumed.rs` what is assumed of NICs and processors; `bed.rs` clients in virtual time; `stepwise.rs`
//!   what a client takes beyond its verbs; `remote.rs` the measurements; `real.rs` both indexes by the clock.
//! - `lists`: multimaps beside a map to lists of values, `lists.rs`.
//! - `tables`: the designs beside CCEH, Dash and Level hashing, which are in `tables/`, by counts; `counts.rs`.
//! - `paper`: the figures and tables of the papers' evaluations, `paper/`; `contender.rs` is who takes part.
//!
//! A member of the workspace, unlike `durahash-compare`: it needs no other store, and its tests run with all
//! others.

#![forbid(unsafe_code)]

mod assumed;
mod race;
mod tables;

mod stepwise;

mod index;

mod bed;
mod contender;
mod lists;

mod counts;
mod remote;

mod real;

pub mod paper;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use durahash::Design;
use durahash_bench::{Config, Error, Medium, Profile, Progress, Report, Result, duplicates};

use assumed::Assumed;

/// Measures durahash's designs beside baselines.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    saved: Saved,
}

#[derive(Subcommand)]
enum Command {
    /// SepHash beside RACE hashing, on simulated nodes in virtual time
    Remote {
        /// An index has an eighth of so many keys before it is measured
        #[arg(long, default_value_t = 1_000_000)]
        keys: u64,
        /// Adds the rows of a report of `durahash bench --suite nodes --json FILE`
        #[arg(long, value_name = "FILE")]
        beside: Option<PathBuf>,
        #[command(flatten)]
        assumed: Assumed,
    },
    /// The designs beside CCEH, Dash and Level hashing: blocks, lines, flushes, fences, load factors, counted
    Tables {
        /// Keys that are inserted; operations are counted over the last two doublings
        #[arg(long, default_value_t = 1_000_000)]
        keys: u64,
    },
    /// The figures and tables of a paper's evaluation, with the paper's numbers beside ours
    Paper(paper::Args),
    /// Many values for each key, in multimaps and in lists behind a map
    Lists {
        /// Entries, and keys that they are drawn from
        #[arg(long, default_value_t = 1_000_000)]
        keys: u64,
        /// Numbers of threads, separated by commas
        #[arg(long, value_delimiter = ',', default_value = "1,2")]
        threads: Vec<usize>,
        /// Designs, separated by commas, of which those without multimaps are left out
        #[arg(long, value_delimiter = ',', value_parser = str::parse::<Design>)]
        design: Vec<Design>,
        /// Directory for pool files [default: pools are in memory]
        #[arg(long, value_name = "DIR")]
        pool: Option<PathBuf>,
        /// A graph: lines of a source, a tab and a target, as text or gzip [default: a made-up graph]
        #[arg(long, value_name = "FILE")]
        graph: Option<PathBuf>,
        /// Emulates a medium: optane-100, optane-200, cxl, dram, optane-flat or cxl-flat
        #[arg(long, value_parser = profile)]
        emulate: Option<Profile>,
    },
}

#[derive(Args)]
struct Saved {
    /// Write all results to FILE as JSON
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with figures to DIR
    #[arg(long, global = true, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// The emulated medium of a name.
fn profile(name: &str) -> Result<Profile, String> {
    let found = Profile::ALL.into_iter().find(|profile| profile.name == name);
    found
        .ok_or_else(|| format!("the media are {}", Profile::ALL.map(|known| known.name).join(", ")))
}

/// Prints the part of the run that begins, where a person watches.
struct Told;

impl Progress for Told {
    fn at(&mut self, done: u64, total: u64, what: &str) {
        if std::io::stderr().is_terminal() {
            eprintln!("{:>3} %  {what}", done * 100 / total.max(1));
        }
    }
}

fn io(doing: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = Some(path.to_owned());
    move |source| Error::Io { doing, path, source }
}

/// Measures what a command says; `paper` has reports of its own.
fn measure(command: Command, progress: &mut dyn Progress) -> Result<Option<Report>> {
    let report = match command {
        Command::Paper(args) => return paper::run(&args, &[]).map(|()| None),
        Command::Remote { keys, beside, assumed } => {
            let config =
                Config { keys, medium: Medium::Dram, threads: vec![1], ..Config::default() };
            config.check()?;
            let beside = beside.map(|path| {
                let text = std::fs::read_to_string(&path).map_err(io("reading", &path))?;
                Report::from_json(&text)
            });
            let beside = beside.transpose()?;
            let mut report =
                durahash_bench::measure(&config, remote::work(), progress, &|recorder| {
                    remote::measure(recorder, assumed)
                })?;
            report.rows.extend(beside.into_iter().flat_map(|report| report.rows));
            Ok(report)
        }
        Command::Tables { keys } => {
            let config =
                Config { keys, medium: Medium::Dram, threads: vec![1], ..Config::default() };
            config.check()?;
            durahash_bench::measure(&config, counts::work(&config), progress, &counts::measure)
        }
        Command::Lists { keys, threads, design, pool, graph, emulate } => {
            let defaults = Config::default();
            let config = Config {
                suites: vec![durahash_bench::Suite::Duplicates],
                keys,
                threads,
                designs: if design.is_empty() { defaults.designs } else { design },
                medium: if pool.is_some() { Medium::File } else { Medium::Dram },
                pool,
                graph,
                emulate,
                ..Config::default()
            };
            config.check()?;
            let contenders = duplicates::contenders(&config);
            // Lists are as many again.
            let work = duplicates::work(&config, 2 * contenders.len());
            durahash_bench::measure(&config, work, progress, &|recorder| {
                lists::beside_multimaps(recorder, duplicates::contenders(&config))
            })
        }
    };
    report.map(Some)
}

fn printing(source: std::io::Error) -> Error {
    Error::Io { doing: "printing", path: None, source }
}

fn run(cli: Cli) -> Result<()> {
    let Some(report) = measure(cli.command, &mut Told)? else { return Ok(()) };
    let mut text = Vec::new();
    report.write_text(&mut text).map_err(printing)?;
    if let Some(path) = &cli.saved.json {
        std::fs::write(path, report.to_json()).map_err(io("writing", path))?;
    }
    if let Some(dir) = &cli.saved.report {
        report.write_page(dir)?;
    }
    std::io::stdout().lock().write_all(&text).map_err(printing)
}

/// The program `durahash-baselines`.
#[must_use]
pub fn main() -> ExitCode {
    // A child that is to be killed does nothing else.
    if let Some(code) = durahash_bench::child_main() {
        return code;
    }
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("durahash-baselines: {e}");
            ExitCode::FAILURE
        }
    }
}
