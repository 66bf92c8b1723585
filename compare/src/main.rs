//! durahash and other maps and stores, measured in one run on one machine.
//!
//! Everybody gets the same operations, interleaved repeats and medians. A store runs in its fastest
//! mode that survives that its process is killed, which is tried first.

#![deny(unsafe_code)]

mod caches;
mod catalog;
mod digests;
mod log;
mod measure;
mod memory;
mod peers;
mod report;
mod store;
mod strings;
mod survive;
mod synced;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, Parser, Subcommand, ValueEnum};
use durahash_bench::{Error, Machine, Report, Result, Row, Setup, figures};
use tempfile::TempDir;

use catalog::Data;
use measure::Plan;
use strings::Strings;

/// Measures durahash and other maps and stores in one run.
#[derive(Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand)]
enum Command {
    /// Kills every mode of every store while it inserts, and looks for what was acknowledged.
    Survives {
        /// Keys that are inserted before the kill
        #[arg(long, default_value_t = 20_000)]
        keys: u64,
        /// Kills of each mode
        #[arg(long, default_value_t = 3)]
        kills: u64,
        /// The directory in which the stores are made
        #[arg(long, default_value = "/dev/shm")]
        dir: PathBuf,
    },
    /// Inserts that survive the loss of power, one by one and many to a sync.
    Synced {
        /// Keys that are there before
        #[arg(long, default_value_t = 1_000_000)]
        keys: u64,
        /// Repeats, whose medians count
        #[arg(long, default_value_t = 3)]
        repeats: u64,
        /// The directory in which the stores are made
        #[arg(long, default_value = ".")]
        dir: PathBuf,
        /// Save the rows as JSON, for `front`
        #[arg(long)]
        json: Option<PathBuf>,
        /// Leave the log out: how long single inserts take, and how long a long log is replayed
        #[arg(long)]
        no_log: bool,
    },
    /// Caches with a bound of entries: lookups, inserts that evict, memory, and what a restart leaves.
    Caches {
        /// The bound
        #[arg(long, default_value_t = 1_000_000)]
        entries: u64,
        /// Numbers of threads
        #[arg(long, value_delimiter = ',', default_value = "1,2")]
        threads: Vec<usize>,
        /// Repeats, whose medians count
        #[arg(long, default_value_t = 3)]
        repeats: u64,
        /// The directory of the cache that lies in a file
        #[arg(long, default_value = "/dev/shm")]
        dir: PathBuf,
        /// Only caches whose name has one of these in it
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// Save all rows as JSON
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// The figures and tables of a paper's evaluation, with the paper's numbers beside durahash's.
    Paper(durahash_baselines::paper::Args),
    /// Draws durable inserts and lookups of all stores from the rows that `synced` saved.
    Front {
        /// The saved rows
        #[arg(long)]
        json: PathBuf,
        /// The figure
        #[arg(long, default_value = "../docs/figures/front.svg")]
        svg: PathBuf,
    },
    /// The child that is killed.
    #[command(hide = true)]
    Child { store: String, mode: String, dir: PathBuf, seed: u64, loaded: u64 },
    /// The child that is killed with a cache.
    #[command(hide = true)]
    CacheChild { name: String, dir: PathBuf, entries: u64, seed: u64 },
    /// The child that is killed with a long log.
    #[command(hide = true)]
    LogChild {
        design: String,
        #[arg(action = clap::ArgAction::Set)]
        live: bool,
        path: PathBuf,
    },
}

/// What is stored.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Words,
    Strings,
    Digests,
}

#[derive(Args)]
struct Run {
    /// Keys of 8 bytes
    #[arg(long, default_value_t = 10_000_000)]
    keys: u64,
    /// Lookups of each timed run, at the most
    #[arg(long, default_value_t = 2_000_000)]
    lookups: u64,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Repeats, whose medians count
    #[arg(long, default_value_t = 3)]
    repeats: u64,
    /// Seed of keys and draws
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// A directory in shared memory
    #[arg(long, default_value = "/dev/shm")]
    shared_memory: PathBuf,
    /// A directory on a disk
    #[arg(long, default_value = ".")]
    disk: PathBuf,
    /// Where the other stores lie; in shared memory, where they are fastest, unless set
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Lines of package, tab, text; gzip. Names are made up without it
    #[arg(long)]
    packages: Option<PathBuf>,
    /// What is stored: words of 8 bytes, byte strings, digests of 16 and 32 bytes
    #[arg(long, value_delimiter = ',', default_value = "words,strings,digests")]
    data: Vec<Kind>,
    /// Only tables whose name has one of these in it
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Save all rows as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A directory of our own in `parent`, which goes with its value.
fn directory(parent: &Path) -> Result<TempDir> {
    let dir = tempfile::Builder::new().prefix("durahash-compare-").tempdir_in(parent);
    dir.map_err(io("making a directory in", parent))
}

fn print(text: &str) -> Result<()> {
    let printed = writeln!(std::io::stdout().lock(), "{text}");
    printed.map_err(|source| Error::Io { doing: "printing", path: None, source })
}

fn main() -> ExitCode {
    // A child that the papers' figures kill does nothing else.
    if let Some(code) = durahash_bench::child_main() {
        return code;
    }
    let cli = Cli::parse();
    let done = match cli.command {
        None => run(&cli.run),
        Some(Command::Survives { keys, kills, dir }) => survives(&dir, keys, kills),
        Some(Command::Synced { keys, repeats, dir, json, no_log }) => {
            synced(&dir, keys, repeats.max(1), json.as_deref(), !no_log)
        }
        Some(Command::Caches { entries, threads, repeats, dir, only, json }) => {
            let plan = caches::Plan { entries, threads, repeats, seed: 42, dir, only };
            run_caches(&plan, json.as_deref())
        }
        Some(Command::CacheChild { name, dir, entries, seed }) => {
            caches::child(&name, &dir, entries, seed)
        }
        Some(Command::Paper(args)) => durahash_baselines::paper::run(&args, &[memory::peer()]),
        Some(Command::Front { json, svg }) => front(&json, &svg),
        Some(Command::LogChild { design, live, path }) => log::child(&design, live, &path),
        Some(Command::Child { store, mode, dir, seed, loaded }) => {
            survive::child(&store, &mode, &dir, seed, loaded)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("durahash-compare: {e}");
            ExitCode::FAILURE
        }
    }
}

fn try_all(dir: &Path, seed: u64, keys: u64, kills: u64) -> Result<Vec<survive::Tried>> {
    survive::try_all(dir, seed, keys, kills, &mut |tried| {
        eprintln!("killed {kills} times: {}, {}", tried.store.name, tried.mode.name);
        if let Err(e) = &tried.left {
            eprintln!("it does not survive that: {e}");
        }
    })
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = Some(path.to_owned());
    move |source| Error::Io { doing, path, source }
}

/// The report of these rows.
fn report(setup: Setup, rows: Vec<Row>) -> Report {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let setup = Setup {
        version: env!("CARGO_PKG_VERSION").into(),
        unix_seconds: since.map_or(0, |since| since.as_secs()),
        ..setup
    };
    Report { machine: Machine::this(), setup, rows }
}

fn save(path: &Path, report: &Report) -> Result<()> {
    std::fs::write(path, report.to_json()).map_err(io("writing", path))
}

/// Prints the tables of a report.
fn tell(report: &Report) -> Result<()> {
    let printed = report.write_text(&mut std::io::stdout().lock());
    printed.map_err(|source| Error::Io { doing: "printing", path: None, source })
}

fn synced(dir: &Path, keys: u64, repeats: u64, json: Option<&Path>, log: bool) -> Result<()> {
    let rows = synced::measure(dir, keys, repeats)?;
    print(&synced::table(&rows, keys))?;
    if let Some(path) = json {
        let mut designs: Vec<String> = rows.iter().map(|row| row.design.clone()).collect();
        designs.dedup();
        let (threads, medium) = (vec![1, 2], "file".into());
        let setup = Setup { designs, keys, threads, medium, repeats, ..Setup::default() };
        save(path, &report(setup, rows))?;
    }
    if log {
        print(&log::measure(dir, keys)?)?;
        print(&log::recovery(dir)?)?;
    }
    Ok(())
}

fn run_caches(plan: &caches::Plan, json: Option<&Path>) -> Result<()> {
    if plan.entries < 1000
        || plan.threads.is_empty()
        || plan.threads.contains(&0)
        || plan.repeats == 0
    {
        let what = "at least 1000 entries, one thread and one repeat are needed".into();
        return Err(Error::Config { what });
    }
    let setup = Setup {
        keys: plan.entries,
        threads: plan.threads.iter().map(|n| *n as u64).collect(),
        medium: "memory, and a file".into(),
        durability: "of ours in a file: survives kill -9".into(),
        repeats: plan.repeats,
        seed: plan.seed,
        ..Setup::default()
    };
    let report = report(setup, caches::measure(plan)?);
    tell(&report)?;
    json.map_or(Ok(()), |path| save(path, &report))
}

fn front(json: &Path, svg: &Path) -> Result<()> {
    let report = Report::from_json(&std::fs::read_to_string(json).map_err(io("reading", json))?)?;
    let figure = figures::draw(&report).into_iter().find(|figure| figure.name == "front");
    let none = || Error::Report { what: "it has no rows of `durahash-compare synced`".into() };
    std::fs::write(svg, figure.ok_or_else(none)?.file()).map_err(io("writing", svg))
}

fn survives(dir: &Path, keys: u64, kills: u64) -> Result<()> {
    if keys < 100 || kills == 0 {
        let what = "at least 100 keys and one kill are needed".into();
        return Err(Error::Config { what });
    }
    let rows = report::survival(&try_all(dir, 42, keys, kills)?);
    tell(&report(Setup { keys, medium: "file".into(), ..Setup::default() }, rows))
}

fn run(run: &Run) -> Result<()> {
    if run.keys < 1000 || run.threads.is_empty() || run.threads.contains(&0) || run.repeats == 0 {
        let what = "at least 1000 keys, one thread and one repeat are needed".into();
        return Err(Error::Config { what });
    }
    let plan = Plan {
        keys: run.keys,
        lookups: run.lookups.clamp(1, run.keys),
        threads: run.threads.clone(),
        repeats: run.repeats,
        seed: run.seed,
        shared_memory: run.shared_memory.clone(),
        disk: run.disk.clone(),
        peers: run.peers.as_ref().unwrap_or(&run.shared_memory).clone(),
        only: run.only.clone(),
    };
    let tried = try_all(&plan.peers, plan.seed, 20_000, 3)?;
    let mut rows = report::survival(&tried);
    for kind in &run.data {
        rows.extend(match kind {
            Kind::Words => measure::numbers(&plan, &tried, &Data::Words, "words")?,
            Kind::Strings => {
                let data = Strings::new(run.packages.as_deref(), plan.seed)?;
                measure::strings(&plan, &tried, data)?
            }
            Kind::Digests => [
                measure::numbers(&plan, &tried, &Data::Digests16, "digests-16")?,
                measure::numbers(&plan, &tried, &Data::Digests32, "digests-32")?,
            ]
            .concat(),
        });
    }
    if run.data.contains(&Kind::Words) {
        rows.extend(measure::opening(&plan)?);
    }
    rows.extend(report::targets(&rows, &plan.threads));
    let setup = Setup {
        designs: measure::names(&plan, &tried),
        keys: plan.keys,
        threads: plan.threads.iter().map(|n| *n as u64).collect(),
        medium: "memory, shared memory, disk".into(),
        durability: "of each store the fastest mode that survived kill -9".into(),
        repeats: plan.repeats,
        seed: plan.seed,
        ..Setup::default()
    };
    let report = report(setup, rows);
    tell(&report)?;
    run.json.as_ref().map_or(Ok(()), |path| save(path, &report))
}
