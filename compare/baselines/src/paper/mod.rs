//! `paper`: the figures and tables of the five papers' evaluations, one by one.
//!
//! - `catalogue.rs`: which there are, what the papers say, and how each is run or why not, as data.
//! - `runs.rs` and `times.rs`: the measurements.
//! - `page.rs`: a page of all figures of a paper.
//!
//! Each figure is a file of rows in the directory of the report, and is not measured again where that is there.

mod catalogue;
mod page;
mod runs;
#[cfg(test)]
mod tests;
mod times;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use durahash::Design;
use durahash_bench::{Config, Error, Medium, Progress, Report, Result};

pub use crate::contender::Peer;
use crate::{io, printing, profile};
use catalogue::{Figure, PAPERS};

/// Keys of the miniature.
const SMALL: u64 = 10_000;

/// Says what begins, of which figure.
struct Told(String);

impl Progress for Told {
    fn at(&mut self, _done: u64, _total: u64, what: &str) {
        eprintln!("{}: {what}", self.0);
    }
}

/// The papers whose figures are drawn, and where to.
#[derive(clap::Args)]
pub struct Args {
    /// reh, esh, rewo, pea, sephash, or all
    paper: String,
    /// Only these figures and tables, separated by commas: `7`, `table 3`
    #[arg(long, value_delimiter = ',')]
    figure: Vec<String>,
    /// The directory for rows, figures and pages. What is there is not measured again
    #[arg(long, value_name = "DIR")]
    report: PathBuf,
    /// Keys of each table
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Repeats of what is timed, whose medians count
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Numbers of threads of the figures that have several, separated by commas [default: 1,2]
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// The medium that stands for the papers' Optane
    #[arg(long, value_name = "PROFILE", default_value = "optane-100")]
    emulate: String,
    /// Few keys and one repeat, to try it: a matter of seconds
    #[arg(long)]
    small: bool,
}

/// Measures, draws and prints; `peers` are maps in memory that take part where a figure names them.
///
/// # Errors
/// Those of the measurements, and of writing.
pub fn run(args: &Args, peers: &[Peer]) -> Result<()> {
    let mut all = Vec::new();
    for (paper, _) in PAPERS.into_iter().filter(|(name, _)| ["all", name].contains(&&*args.paper)) {
        all.push((paper, catalogue::figures(paper)?));
    }
    if all.is_empty() {
        return Err(Error::Config { what: format!("no paper is called {}", args.paper) });
    }
    let is_wanted =
        |figure: &Figure| args.figure.is_empty() || args.figure.iter().any(|id| figure.is(id));
    if !all.iter().flat_map(|(_, figures)| figures).any(is_wanted) {
        let known: Vec<_> =
            all.iter().flat_map(|(_, figures)| figures).map(|figure| figure.id).collect();
        return Err(Error::Config { what: format!("the figures are {}", known.join(", ")) });
    }
    std::fs::create_dir_all(&args.report).map_err(io("making the directory", &args.report))?;
    for (paper, figures) in &all {
        let mut text = page::head(paper);
        for figure in figures {
            let report =
                if is_wanted(figure) { args.measured(figure, peers)? } else { args.saved(figure)? };
            let section = page::of_figure(figure, report.as_ref());
            if is_wanted(figure) {
                std::io::stdout().lock().write_all(section.as_bytes()).map_err(printing)?;
            }
            text += &section;
        }
        write(&args.report.join(format!("{paper}.md")), &text)?;
    }
    Ok(())
}

/// Writes a whole file or none: other runs may read it, and a run may be stopped.
fn write(path: &Path, text: &str) -> Result<()> {
    let part = path.with_extension(format!("{}.part", std::process::id()));
    std::fs::write(&part, text).map_err(io("writing", &part))?;
    std::fs::rename(&part, path).map_err(io("renaming", path))
}

impl Args {
    fn path(&self, figure: &Figure) -> PathBuf {
        self.report.join(format!("{}.json", figure.file_name()))
    }

    /// The rows of a figure that was measured.
    fn saved(&self, figure: &Figure) -> Result<Option<Report>> {
        let path = self.path(figure);
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(io("reading", &path))?;
        let (report, config) = (Report::from_json(&text)?, self.config(figure)?);
        let of = |keys, threads: &[u64], emulates: Option<&str>| {
            let emulates = emulates.map_or_else(String::new, |name| format!(" on emulated {name}"));
            format!("{keys} keys by {threads:?} threads{emulates}")
        };
        let setup = &report.setup;
        let found = of(setup.keys, &setup.threads, setup.emulates.as_deref());
        let emulates = config.emulate.map(|profile| profile.name);
        let threads: Vec<u64> = config.threads.iter().map(|n| *n as u64).collect();
        let wanted = of(config.keys, &threads, emulates);
        if found == wanted {
            return Ok(Some(report));
        }
        let what =
            format!("{} is of {found}, not of {wanted}: name another directory", path.display());
        Err(Error::Config { what })
    }

    /// The rows of a figure, measured if they are not there; none where it is not repeated.
    fn measured(&self, figure: &Figure, peers: &[Peer]) -> Result<Option<Report>> {
        if let Some(report) = self.saved(figure)? {
            return Ok(Some(report));
        }
        if figure.runs.is_empty() {
            return Ok(None);
        }
        let (config, path) = (self.config(figure)?, self.path(figure));
        let mut told = Told(format!("{}, {}", figure.paper, figure.name()));
        let report = durahash_bench::measure(&config, 1, &mut told, &|recorder| {
            figure.runs.iter().try_for_each(|line| runs::run(recorder, peers, line))
        })?;
        for spec in &figure.draws {
            for drawn in durahash_bench::figures::draw_one(&report, *spec) {
                let path = self.report.join(format!("{}-{}.svg", figure.file_name(), drawn.name));
                write(&path, &drawn.file())?;
            }
        }
        // Last, as it says that the figure is whole.
        write(&path, &report.to_json())?;
        Ok(Some(report))
    }

    fn config(&self, figure: &Figure) -> Result<Config> {
        let (medium, pool) = match figure.on {
            "file" => (Medium::File, Some(self.report.clone())),
            _ => (Medium::Dram, None),
        };
        let emulate = (figure.on == "optane").then(|| profile(&self.emulate)).transpose();
        let config = Config {
            keys: if self.small { SMALL } else { self.keys },
            repeats: if self.small { 1 } else { self.repeats },
            threads: match &figure.threads[..] {
                [_, _, ..] if !self.threads.is_empty() => self.threads.clone(),
                of_figure => of_figure.to_vec(),
            },
            designs: Design::ALL.to_vec(),
            medium,
            pool,
            emulate: emulate.map_err(|what| Error::Config { what })?,
            ..Config::default()
        };
        config.check()?;
        Ok(config)
    }
}
