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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with rows for every table and figure, of made-up numbers.
    pub(crate) fn sample(designs: &[&str], threads: &[u64]) -> Report {
        let mut report = Report {
            machine: Machine {
                cpu: "Some <CPU> & co".into(),
                cores: 2,
                memory_bytes: 8 << 30,
                system: "Linux 6.1".into(),
                architecture: "x86_64".into(),
                huge_pages: "madvise".into(),
            },
            setup: Setup {
                version: "0.1.0".into(),
                commit: Some("abcdef0".into()),
                unix_seconds: 1_700_000_000,
                designs: designs.iter().map(|design| (*design).to_owned()).collect(),
                keys: 1000,
                threads: threads.to_vec(),
                medium: "file".into(),
                file_system: "ext4".into(),
                durability: "process".into(),
                emulates: Some("optane".into()),
                repeats: 3,
                seed: 42,
                clock_ns: 21.5,
                written_bytes: 1 << 30,
            },
            rows: Vec::new(),
        };
        let rows = &mut report.rows;
        for (d, design) in designs.iter().enumerate() {
            let mut add = |table: &str, case: &str, threads, keys, metric: &str, value: f64| {
                let row = Row {
                    table: table.into(),
                    design: (*design).into(),
                    case: case.into(),
                    threads,
                    keys,
                    metric: metric.into(),
                    value: value * (1.0 + d as f64 / 5.0),
                    min: value * 0.9,
                    max: value * 1.4,
                };
                rows.push(row.rounded());
            };
            for &t in threads {
                for (i, case) in ["load", "hit", "miss", "YCSB A"].iter().enumerate() {
                    add("throughput", case, t, 1000, "ops_per_s", (i as u64 * 3 + t) as f64 * 1e6);
                    for (metric, ns) in
                        [("p50_ns", 90.0), ("p99_ns", 800.0), ("p99.99_ns", 31e3), ("max_ns", 2e6)]
                    {
                        add("latency", case, t, 1000, metric, ns * (i + 1) as f64);
                    }
                }
            }
            for keys in (1..=10).map(|i| i * 100) {
                add("growth", "load", 1, keys, "load_factor", 0.6 + (keys % 300) as f64 / 1e4);
                add("growth", "load", 1, keys, "medium_bytes_per_key", 25.0);
                add("growth", "load", 1, keys, "dram_bytes_per_key", 4.0);
            }
            for (metric, value) in [
                ("load_factor", 0.69),
                ("load_factor_mean", 0.69),
                ("load_factor_min", 0.68),
                ("load_factor_max", 0.7),
                ("utility_medium", 0.66),
                ("utility", 0.57),
                ("medium_bytes_per_key", 24.5),
                ("dram_bytes_per_key", 4.5),
                ("file_bytes", 4e7),
            ] {
                add("space", "load", 1, 1000, metric, value);
            }
            for (case, scale) in [("insert", 1.0), ("insert that splits", 4.0)] {
                for (metric, value) in [
                    ("count", 900.0),
                    ("p50_ns", 200.0),
                    ("p90_ns", 300.0),
                    ("p99_ns", 900.0),
                    ("p99.9_ns", 2e3),
                    ("p99.99_ns", 4e4),
                    ("max_ns", 1e6),
                ] {
                    add("resize", case, 1, 1000, metric, value * scale);
                }
            }
            add("resize", "all", 1, 1000, "splits", 93.0);
            add("resize", "all", 1, 1000, "doublings", 9.0);
            for case in ["hit", "miss", "insert", "insert that splits", "update", "remove"] {
                for metric in
                    ["blocks_read", "blocks_written", "lines_read", "lines_written", "flushes"]
                {
                    add("cost", case, 1, 1000, metric, 1.02);
                }
                add("cost", case, 1, 1000, "waits", 1.0);
            }
            for keys in [250, 500, 1000] {
                for (metric, value) in [
                    ("open_ms", 0.4 + keys as f64 / 1e3),
                    ("acknowledged", keys as f64),
                    ("lost", 0.0),
                    ("unacknowledged", 1.0),
                ] {
                    add("recovery", "kill -9", 2, keys, metric, value);
                }
            }
        }
        report
    }

    /// Rows of one case, with these metrics and values.
    pub(crate) fn samples(
        table: &str,
        design: &str,
        case: &str,
        threads: u64,
        keys: u64,
        metrics: &[(&str, f64)],
    ) -> Vec<Row> {
        let row = |(metric, value): &(&str, f64)| Row {
            table: table.into(),
            design: design.into(),
            case: case.into(),
            threads,
            keys,
            metric: (*metric).into(),
            value: *value,
            min: value * 0.9,
            max: value * 1.4,
        };
        metrics.iter().map(row).collect()
    }

    #[test]
    fn json_comes_back() {
        for emulates in [None, Some("cxl".to_owned())] {
            let mut report = sample(&["reh", "esh"], &[1, 2]);
            report.setup.emulates = emulates;
            // Not `assert_eq`, which would print all of it.
            assert!(Report::from_json(&report.to_json()).unwrap() == report);
        }
        assert_eq!(Report::from_json(&Report::default().to_json()).unwrap(), Report::default());
    }

    /// Other programs rely on these fields and types.
    #[test]
    fn json_has_its_fields() {
        let json: serde_json::Value =
            serde_json::from_str(&sample(&["reh"], &[1]).to_json()).unwrap();
        assert_eq!(json["format"], 1);
        assert_eq!(json["machine"]["cores"], 2);
        assert_eq!(json["setup"]["commit"], "abcdef0");
        assert_eq!(json["setup"]["threads"], serde_json::json!([1]));
        let row = json["rows"][0].as_object().unwrap();
        let fields: Vec<&str> = row.keys().map(String::as_str).collect();
        let expected =
            ["table", "design", "case", "threads", "keys", "metric", "value", "min", "max"];
        assert_eq!(fields, expected);
    }

    #[test]
    fn other_json_is_refused_with_a_reason() {
        let good = sample(&["reh"], &[1]).to_json();
        for (from, to, reason) in [
            ("\"format\": 1", "\"format\": 2", "format is 2"),
            ("\"rows\"", "\"lines\"", "missing field `rows`"),
            ("\"cores\": 2", "\"cores\": \"two\"", "expected u64"),
            ("\"seed\": 42", "\"seed\": -1", "expected u64"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good);
            let e = Report::from_json(&bad).unwrap_err().to_string();
            assert!(e.contains(reason), "{e}");
        }
        assert!(Report::from_json("[]").is_err());
        assert!(Report::from_json("").is_err());
    }
}
