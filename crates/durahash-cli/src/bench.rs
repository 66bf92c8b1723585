//! `bench`: the benchmarks of `durahash-bench`, as its options say.

use std::fs;
use std::io;
use std::path::Path;

use durahash::ErrorKind;
use durahash_bench::{Config, Error};

use crate::args::BenchArgs;
use crate::exit::{Exit, Failure};
use crate::output::print;
use crate::progress::Progress;

/// `durahash bench`.
pub(crate) fn bench(args: &BenchArgs) -> Result<Exit, Failure> {
    let defaults = Config::default();
    let config = Config {
        designs: args.design.clone().unwrap_or(defaults.designs),
        keys: args.keys,
        threads: args.threads.clone(),
        medium: args.medium.into(),
        pool: args.pool.clone(),
        emulate: args.emulate.map(Into::into),
        ..Config::default()
    };
    // Before the minutes of measuring: a result that cannot be saved is lost.
    if let Some(path) = &args.json {
        let opened = fs::OpenOptions::new().create(true).append(true).open(path);
        opened.map_err(|e| unwritable(path, &e))?;
    }
    if let Some(dir) = &args.report {
        fs::create_dir_all(dir).map_err(|e| unwritable(dir, &e))?;
    }
    let mut progress = Parts(Progress::none());
    let report = durahash_bench::run(&config, &mut progress).map_err(failed)?;
    drop(progress);
    let mut text = Vec::new();
    report.write_text(&mut text).map_err(|e| Failure::output(&e))?;
    if let Some(path) = &args.json {
        fs::write(path, report.to_json()).map_err(|e| unwritable(path, &e))?;
    }
    if let Some(dir) = &args.report {
        report.write_page(dir).map_err(failed)?;
    }
    print(&text)?;
    Ok(Exit::Ok)
}

/// The bar of a run, once the number of its parts is known.
struct Parts(Progress);

impl durahash_bench::Progress for Parts {
    fn at(&mut self, done: u64, total: u64, what: &str) {
        if done == 0 {
            self.0 = Progress::of_parts("measuring", total);
        }
        self.0.set(done);
        self.0.say(|| format!("{what}, "));
    }
}

fn failed(e: Error) -> Failure {
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
