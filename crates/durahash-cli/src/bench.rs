//! `bench`: the benchmarks of `durahash-bench`, as its options say, and SepHash on real nodes.

mod real;

use std::fs;
use std::io;
use std::path::Path;

use durahash::{Design, ErrorKind};
use durahash_bench::{Config, Error, Report};

use crate::args::{BenchArgs, Saved, Suite};
use crate::exit::{Exit, Failure};
use crate::output::print;
use crate::progress::Progress;

/// Keys of the suite summary: it takes at most 45 s and writes at most 2 GB, and its lookups are more than the cache of a processor holds.
const SUMMARY_KEYS: u64 = 400_000;
/// And of the suite cache.
const CACHE_KEYS: u64 = 100_000;

/// `durahash bench`.
pub(crate) fn bench(args: &BenchArgs) -> Result<Exit, Failure> {
    let (designs, keys) = match args.suite[..] {
        [Suite::Measured(durahash_bench::Suite::Summary)] => {
            (vec![Design::default()], SUMMARY_KEYS)
        }
        [Suite::Measured(durahash_bench::Suite::Cache)] => (Design::ALL.to_vec(), CACHE_KEYS),
        _ => (Design::ALL.to_vec(), Config::default().keys),
    };
    let measured = args.suite.iter().filter_map(|suite| match suite {
        Suite::Measured(suite) => Some(*suite),
        Suite::Nodes => None,
    });
    let config = Config {
        suites: measured.collect(),
        designs: args.design.clone().unwrap_or(designs),
        keys: args.keys.unwrap_or(keys),
        threads: args.threads.clone(),
        medium: args.medium,
        pool: args.pool.clone(),
        sync_mode: args.durability,
        emulate: args.emulate.map(|profile| match args.sharers {
            Some(threads) => profile.shared_by(threads),
            None => profile,
        }),
        cache_bytes: args.cache,
        sync_threads: args.sync_threads,
        graph: args.graph.clone(),
        traces: args.trace.clone(),
        zipf: args.zipf.clone(),
        ..Config::default()
    };
    // Before the minutes of measuring, but without leaving anything should they not succeed.
    config.check().map_err(failed)?;
    try_saved(&args.saved)?;
    let mut progress = Parts::default();
    let nodes = args.suite.contains(&Suite::Nodes);
    let mut report = if nodes && config.suites.is_empty() {
        durahash_bench::measure(&config, 0, &mut progress, &|_| Ok(()))
    } else {
        durahash_bench::run(&config, &mut progress)
    }
    .map_err(failed)?;
    drop(progress);
    if nodes {
        report.rows.extend(real::rows(&config)?);
    }
    tell(&report, &args.saved)
}

/// Fails if a report cannot be saved there.
pub(crate) fn try_saved(saved: &Saved) -> Result<(), Failure> {
    if let Some(path) = &saved.json {
        try_file(path).map_err(|e| unwritable(path, &e))?;
    }
    if let Some(dir) = &saved.report {
        try_dir(dir).map_err(|e| unwritable(dir, &e))?;
    }
    Ok(())
}

/// Prints a report, and saves it.
pub(crate) fn tell(report: &Report, to: &Saved) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    report.write_text(&mut text).map_err(|e| Failure::output(&e))?;
    // A report that cannot be saved is printed at least, and one that cannot be printed is saved.
    let saved = save(report, to);
    print(&text)?;
    saved?;
    Ok(Exit::Ok)
}

fn save(report: &Report, to: &Saved) -> Result<(), Failure> {
    if let Some(path) = &to.json {
        fs::write(path, report.to_json()).map_err(|e| unwritable(path, &e))?;
    }
    if let Some(dir) = &to.report {
        report.write_page(dir).map_err(failed)?;
    }
    Ok(())
}

/// Fails if a file cannot be written; leaves it as it was, there or not.
fn try_file(path: &Path) -> io::Result<()> {
    match fs::OpenOptions::new().append(true).open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            fs::File::create_new(path)?;
            fs::remove_file(path)
        }
        opened => opened.map(drop),
    }
}

/// Fails if a directory is not there and cannot be made.
fn try_dir(dir: &Path) -> io::Result<()> {
    match fs::metadata(dir) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                try_dir(parent)?;
                if !parent.exists() {
                    return Ok(());
                }
            }
            fs::create_dir(dir)?;
            fs::remove_dir(dir)
        }
        Err(e) => Err(e),
    }
}

/// The bar of a run, once the number of its parts is known.
#[derive(Default)]
pub(crate) struct Parts(Option<Progress>);

impl durahash_bench::Progress for Parts {
    fn at(&mut self, done: u64, total: u64, what: &str) {
        let bar = self.0.get_or_insert_with(|| Progress::of_parts("measuring", total));
        bar.set(done);
        bar.say(|| format!("{what}, "));
    }
}

pub(crate) fn failed(e: Error) -> Failure {
    let exit = match &e {
        Error::Config { .. } => Exit::Usage,
        Error::Wrong { .. } => Exit::Corrupt,
        Error::Table(e) if matches!(e.kind(), ErrorKind::Corrupt { .. }) => Exit::Corrupt,
        _ => Exit::Io,
    };
    Failure::new(exit, e.to_string())
}

fn unwritable(path: &Path, e: &io::Error) -> Failure {
    Failure::new(Exit::Io, format!("writing {}: {e}", path.display()))
}
