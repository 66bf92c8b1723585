//! The result of a run: rows, the machine and the setup.
//!
//! A report is saved as JSON and read back from it; tables and figures are drawn from either.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::machine::Machine;

/// The version of the JSON; it changes when a reader would have to.
const FORMAT: u64 = 1;

/// The table of what was measured on real nodes, beside simulated ones.
pub const REAL: &str = "real";

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its table: `throughput`, `latency`, `growth`, `space`, `resize`, `cost`,
    /// `recovery`, `duplicates`, `size`, `resizing`, `stall`, `load`, `ycsb`, `cache`, `slice`, `slices`
    /// or `durability`;
    /// of what is simulated, `simulated` or a name that begins with it; of real nodes beside that,
    /// [`REAL`].
    pub table: String,
    /// The design that was measured; in `duplicates`, `DESIGN, lists` is what its multimap is
    /// compared with; in `slices`, `DESIGN, no cache` is one without copies in DRAM; of real nodes, the fabric.
    pub design: String,
    /// The workload or kind of operation; in `duplicates` the distribution of keys, in `cache` that and
    /// the part of the tables that the copies may take; in `durability` with the mode.
    pub case: String,
    /// Threads at work; clients, of what is simulated.
    pub threads: u64,
    /// Keys in the table, at the end or at this point of its growth.
    pub keys: u64,
    /// The name of the number.
    pub metric: String,
    /// The median of the repeats.
    pub value: f64,
    /// The smallest of them.
    pub min: f64,
    /// The largest of them.
    pub max: f64,
}

/// The setup of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Version of durahash.
    pub version: String,
    /// The commit it was built from, if that is known.
    pub commit: Option<String>,
    /// When it was run, in seconds since 1970.
    pub unix_seconds: u64,
    /// The designs.
    pub designs: Vec<String>,
    /// Keys that are loaded.
    pub keys: u64,
    /// The numbers of threads.
    pub threads: Vec<u64>,
    /// `file` or `dram`.
    pub medium: String,
    /// File system that the pools lie on; empty in DRAM.
    pub file_system: String,
    /// The failures that an acknowledged operation survives there.
    pub durability: String,
    /// The medium whose latency is emulated, if one is.
    pub emulates: Option<String>,
    /// Repeats of each timed run; the median counts.
    pub repeats: u64,
    /// Seed of keys, draws and pools.
    pub seed: u64,
    /// Nanoseconds that reading the clock adds to a latency.
    pub clock_ns: f64,
    /// Bytes that the run, with its child processes, handed to the system to be written to files; 0 where
    /// the system does not count them.
    #[serde(default)]
    pub written_bytes: u64,
}

/// The result of a run: rows, the machine and the setup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The setup of a run.
    pub setup: Setup,
    /// The numbers.
    pub rows: Vec<Row>,
}

impl Report {
    /// The rows of a table, in the order in which they were measured.
    pub fn table<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.table == table)
    }

    /// The row of a table, design, case and number of threads with a metric.
    #[must_use]
    pub fn find(
        &self,
        table: &str,
        design: &str,
        case: &str,
        threads: u64,
        metric: &str,
    ) -> Option<&Row> {
        self.rows.iter().find(|row| {
            row.table == table
                && row.design == design
                && row.case == case
                && row.threads == threads
                && row.metric == metric
        })
    }

    /// The cases of a table, in the order in which they were measured.
    #[must_use]
    pub fn cases(&self, table: &str) -> Vec<&str> {
        let mut cases = Vec::new();
        for row in self.rows.iter().filter(|row| row.table == table) {
            if !cases.contains(&row.case.as_str()) {
                cases.push(row.case.as_str());
            }
        }
        cases
    }

    /// The words of every figure about an emulated medium: `, emulated optane`, or none.
    #[must_use]
    pub fn emulated(&self) -> String {
        let name = self.setup.emulates.as_deref();
        name.map_or_else(String::new, |name| format!(", emulated {name}"))
    }

    /// Where the pools lie.
    pub(crate) fn place(&self) -> String {
        let Setup { medium, file_system, .. } = &self.setup;
        match file_system.as_str() {
            "" => medium.clone(),
            _ => format!("{medium} on {file_system}"),
        }
    }

    /// The words of a figure that shows the medium as it is, where others emulate.
    pub(crate) fn not_emulated(&self) -> &'static str {
        match self.setup.emulates {
            Some(_) => ", nothing emulated",
            None => "",
        }
    }

    /// The report as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let saved = Saved { format: FORMAT, report: self };
        let text = serde_json::to_string_pretty(&saved).expect("all keys are strings");
        format!("{text}\n")
    }

    /// Reads a report that was saved as JSON.
    ///
    /// # Errors
    /// [`Error::Report`] where it is not one, or of another format.
    pub fn from_json(text: &str) -> Result<Self> {
        let wrong = |e: serde_json::Error| Error::Report { what: e.to_string() };
        let Saved { format, report: () } = serde_json::from_str(text).map_err(wrong)?;
        if format != FORMAT {
            let what = format!("its format is {format}, this build knows {FORMAT}");
            return Err(Error::Report { what });
        }
        serde_json::from_str(text).map_err(wrong)
    }
}

/// The JSON of a report, beside the version.
#[derive(Serialize, Deserialize)]
struct Saved<R> {
    format: u64,
    #[serde(flatten)]
    report: R,
}

/// The subject of a row: its first fields.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// [`Row::table`].
    pub table: &'a str,
    /// [`Row::design`].
    pub design: &'a str,
    /// [`Row::case`].
    pub case: &'a str,
    /// [`Row::threads`].
    pub threads: usize,
    /// [`Row::keys`].
    pub keys: u64,
}

impl About<'_> {
    /// The row of the median of `samples`, with the least and the greatest; zeros where there is none.
    #[must_use]
    pub fn row(&self, metric: &str, samples: &[f64]) -> Row {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |i: usize| sorted.get(i).copied().unwrap_or(0.0);
        let row = Row {
            table: self.table.to_owned(),
            design: self.design.to_owned(),
            case: self.case.to_owned(),
            threads: self.threads as u64,
            keys: self.keys,
            metric: metric.to_owned(),
            value: f64::midpoint(at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2)),
            min: at(0),
            max: at(sorted.len().saturating_sub(1)),
        };
        row.rounded()
    }
}

/// Samples of rows, in the order in which these were first met.
#[derive(Default)]
pub struct Samples(Vec<(Row, Vec<f64>)>);

impl Samples {
    /// Adds a sample of a row.
    pub fn add(&mut self, about: &About<'_>, metric: &str, sample: f64) {
        let row = about.row(metric, &[]);
        match self.0.iter_mut().find(|(known, _)| *known == row) {
            Some((_, samples)) => samples.push(sample),
            None => self.0.push((row, vec![sample])),
        }
    }

    /// The rows of all samples, which are gone then.
    pub fn rows(&mut self) -> impl Iterator<Item = Row> {
        self.0.drain(..).map(|(row, samples)| {
            let Row { table, design, case, threads, keys, metric, .. } = &row;
            About { table, design, case, threads: *threads as usize, keys: *keys }
                .row(metric, &samples)
        })
    }
}

impl Row {
    /// Rounds the numbers to nine digits, more than any measurement has; these come back from JSON
    /// as they went.
    pub(crate) fn rounded(mut self) -> Self {
        for number in [&mut self.value, &mut self.min, &mut self.max] {
            *number = format!("{number:.8e}").parse().unwrap_or(*number);
        }
        self
    }
}

/// `1 thread`, `2 threads`
pub(crate) fn threads_text(n: u64) -> String {
    if n == 1 { "1 thread".into() } else { format!("{n} threads") }
}

/// The paragraphs of a file of specifications: four lines each, and comments, which begin with `#`.
pub(crate) fn paragraphs(text: &'static str) -> impl Iterator<Item = [&'static str; 4]> {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let mut lines = paragraph.lines().filter(|line| !line.starts_with('#'));
        [(); 4].map(|()| lines.next().unwrap_or_default())
    });
    paragraphs.filter(|lines| !lines[0].is_empty())
}
