//! Tables of a report, for people: as text, and for the page.

mod advice;
mod caches;
mod duplicates;
mod durability;
mod loads;
pub(crate) mod remote;
mod resizing;
mod sizes;
mod ycsb;

use std::io::{self, Write};

use crate::report::{Report, Row, threads_text};
use crate::svg::{duration, number};
use crate::workload::Workload;

/// A table of texts.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) header: Vec<String>,
    /// How many columns, from the left, hold names; the others hold numbers.
    pub(crate) names: usize,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Report {
    /// Writes the report as readable text: the machine, then the tables.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        for (name, fact) in facts(self) {
            writeln!(out, "{name:<11}{fact}")?;
        }
        for table in tables(self) {
            writeln!(out)?;
            table.write_text(out)?;
        }
        Ok(())
    }
}

impl Table {
    /// Whether a column holds words, not numbers: names, and descriptions, which have no header.
    pub(crate) fn is_words(&self, column: usize) -> bool {
        column < self.names || self.header[column].is_empty()
    }

    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.title)?;
        let lines = || std::iter::once(&self.header).chain(&self.rows);
        let width = |column: usize| {
            let cells = lines().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        for (i, line) in lines().enumerate() {
            let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if self.is_words(column) {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
            let text = cells.collect::<Vec<_>>().join("  ");
            writeln!(out, "  {}", text.trim_end())?;
            if i == 0 {
                let rule = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
                writeln!(out, "  {}", "-".repeat(rule))?;
            }
        }
        if !self.note.is_empty() {
            writeln!(out, "  {}", self.note)?;
        }
        Ok(())
    }
}

/// What was run where, line by line.
pub(crate) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let Report { machine, setup, .. } = report;
    let gib = machine.memory_bytes as f64 / f64::from(1 << 30);
    let commit = setup.commit.as_ref().map_or_else(String::new, |commit| format!(" ({commit})"));
    let threads: Vec<String> = setup.threads.iter().map(u64::to_string).collect();
    let emulated = setup.emulates.as_ref().map_or_else(String::new, |name| {
        format!("; latency of {name} is emulated: no time here is one of the real thing")
    });
    let mut facts = vec![
        ("durahash", format!("{}{commit}, {}", setup.version, date(setup.unix_seconds))),
        ("machine", format!("{}, {} cores, {gib:.1} GiB", machine.cpu, machine.cores)),
        (
            "system",
            format!(
                "{}, {}, huge pages: {}",
                machine.system, machine.architecture, machine.huge_pages
            ),
        ),
        ("medium", format!("{}{emulated}", report.place())),
        ("durability", setup.durability.clone()),
        (
            "workload",
            format!(
                "{} keys and values of 8 bytes; threads: {}; seed {}",
                grouped(setup.keys),
                threads.join(", "),
                setup.seed
            ),
        ),
        (
            "method",
            format!(
                "medians of {} repeats; latencies in runs of their own, each with {} ns of clock",
                setup.repeats,
                number(setup.clock_ns)
            ),
        ),
    ];
    if setup.written_bytes > 0 {
        let gb = setup.written_bytes as f64 / 1e9;
        facts.push(("written", format!("{gb:.2} GB to files, which are removed")));
    }
    facts.extend(remote::simulated(report).map(|what| ("simulated", what)));
    facts
}

/// A day of the Gregorian calendar (Hinnant's `civil_from_days`).
fn date(unix_seconds: u64) -> String {
    let days = unix_seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{}-{month:02}-{day:02}", era * 400 + year_of_era + next_year)
}

/// `1,000,000`
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// All tables that the rows suffice for.
pub(crate) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = vec![summary(report), advice::table(report), throughput(report)];
    tables.extend(report.setup.threads.iter().map(|threads| latency(report, *threads)));
    tables.extend([space(report), resizes(report), costs(report), recovery(report)]);
    tables.extend(duplicates::all(report));
    tables.extend(sizes::all(report));
    tables.extend([loads::table(report), ycsb::table(report)]);
    tables.extend([caches::table(report), resizing::table(report)]);
    tables.push(durability::table(report));
    tables.extend(remote::all(report));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

/// What a workload does, for those that have a name of ours.
pub(crate) fn described(case: &str) -> &'static str {
    let workload = Workload::ALL.into_iter().find(|workload| workload.name() == case);
    workload.map_or("", Workload::description)
}

/// The figures that a user asks for first.
fn summary(report: &Report) -> Table {
    let mut header = texts(["design"]);
    for what in ["inserts", "lookups"] {
        header.extend(report.setup.threads.iter().map(|threads| format!("{what}/s ×{threads}")));
    }
    header.extend(texts(["bytes/entry", "in DRAM", "open after kill -9"]));
    let mut rows = Vec::new();
    for design in &report.setup.designs {
        let rates = [["insert", "load"], ["hit", "hit"]].into_iter().flat_map(|cases| {
            report.setup.threads.iter().map(move |threads| {
                let find = |case| report.find("throughput", design, case, *threads, "ops_per_s");
                cases.into_iter().find_map(find).map(|row| row.value)
            })
        });
        let space = ["medium_bytes_per_key", "dram_bytes_per_key"]
            .map(|metric| report.find("space", design, "load", 1, metric).map(|row| row.value));
        let open = report.table("recovery").filter(|row| row.design == *design);
        let open = open.filter(|row| row.metric == "open_ms").max_by_key(|row| row.keys);
        let rates: Vec<_> = rates.collect();
        if rates.iter().all(Option::is_none) {
            continue;
        }
        let cell =
            |value: Option<f64>, show: fn(f64) -> String| value.map_or_else(String::new, show);
        let mut row = texts([design]);
        row.extend(
            rates.into_iter().map(|rate| cell(rate, |rate| grouped(rate as u64 / 1000 * 1000))),
        );
        row.extend(space.map(|bytes| cell(bytes, |bytes| format!("{bytes:.1}"))));
        row.push(cell(open.map(|row| row.value), |ms| format!("{ms:.2} ms")));
        rows.push(row);
    }
    Table {
        title: format!("In short: operations a second, by threads{}", report.emulated()),
        note: format!(
            "Durability of an insert that has returned: {}. Keys and values have 8 bytes each. The process \
             that was killed was inserting; every insert that had returned was found again.",
            report.setup.durability
        ),
        header,
        names: 1,
        rows,
    }
}

fn throughput(report: &Report) -> Table {
    let mut header = texts(["workload"]);
    for threads in &report.setup.threads {
        for design in &report.setup.designs {
            header.push(format!("{design} ×{threads}"));
        }
    }
    header.push(String::new());
    let mut spread: f64 = 0.0;
    let mut rows = Vec::new();
    for case in report.cases("throughput") {
        let mut row = texts([case]);
        for threads in &report.setup.threads {
            for design in &report.setup.designs {
                let found = report.find("throughput", design, case, *threads, "ops_per_s");
                row.push(found.map_or_else(String::new, |row| format!("{:.2}", row.value / 1e6)));
                if let Some(Row { value, min, max, .. }) = found {
                    spread = spread.max((max - min) / value);
                }
            }
        }
        row.push(described(case).to_owned());
        rows.push(row);
    }
    Table {
        title: format!("Throughput, million operations per second (×threads{})", report.emulated()),
        note: format!(
            "Medians of {}. Widest spread, from the slowest to the fastest: {:.0} % of the median.",
            report.setup.repeats,
            spread * 100.0
        ),
        header,
        names: 1,
        rows,
    }
}

/// A duration, if there were enough samples to tell it.
fn duration_or_dash(ns: Option<f64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

fn latency(report: &Report, of_threads: u64) -> Table {
    let metrics = ["p50_ns", "p99_ns", "p99.99_ns", "max_ns"];
    let mut rows = Vec::new();
    for case in report.cases("latency") {
        for design in &report.setup.designs {
            let find =
                |metric| Some(report.find("latency", design, case, of_threads, metric)?.value);
            if find("max_ns").is_none() {
                continue;
            }
            let mut row = texts([case, design]);
            row.extend(metrics.map(|metric| duration_or_dash(find(metric))));
            rows.push(row);
        }
    }
    Table {
        title: format!("Latency, {}{}", threads_text(of_threads), report.emulated()),
        note: "Each operation timed; get_many and put_many by batches of 64, which are fewer. \
               -: too few for this percentile."
            .into(),
        header: texts(["workload", "design", "p50", "p99", "p99.99", "max"]),
        names: 2,
        rows,
    }
}

/// A table with a row for each design that has rows, of cells that `cells` makes of a lookup.
fn by_design<const N: usize>(
    report: &Report,
    table: &'static str,
    case: &'static str,
    cells: impl Fn(&dyn Fn(&str) -> Option<f64>) -> Option<[String; N]>,
) -> Vec<Vec<String>> {
    let rows = report.setup.designs.iter().filter_map(|design| {
        let find = |metric: &str| Some(report.find(table, design, case, 1, metric)?.value);
        let mut row = texts([design]);
        row.extend(cells(&find)?);
        Some(row)
    });
    rows.collect()
}

fn space(report: &Report) -> Table {
    let rows = by_design(report, "space", "load", |find| {
        let part = |metric| Some(format!("{:.3}", find(metric)?));
        let bytes = |metric| Some(format!("{:.1}", find(metric)?));
        Some([
            part("load_factor_mean")?,
            part("load_factor_min")?,
            part("load_factor_max")?,
            part("utility_medium")?,
            part("utility")?,
            bytes("medium_bytes_per_key")?,
            bytes("dram_bytes_per_key")?,
            format!("{:.1} MiB", find("file_bytes")? / f64::from(1 << 20)),
        ])
    });
    Table {
        title: "Space".into(),
        note: "Load factor: mean, least and most while the last half was inserted. Utility: bytes \
               of entries over bytes in use on the medium, over all inserts (with DRAM: over both). \
               The pool grows ahead of use."
            .into(),
        header: texts([
            "design",
            "load factor",
            "least",
            "most",
            "utility",
            "with DRAM",
            "bytes/entry",
            "in DRAM",
            "pool",
        ]),
        names: 1,
        rows,
    }
}

fn resizes(report: &Report) -> Table {
    let mut rows = Vec::new();
    for design in &report.setup.designs {
        for case in ["insert", "insert that splits"] {
            let find = |metric| Some(report.find("resize", design, case, 1, metric)?.value);
            let cells = || {
                let mut row = texts([design, case]);
                row.push(grouped(find("count")? as u64));
                for metric in ["p50_ns", "p99_ns", "p99.99_ns", "max_ns"] {
                    row.push(duration_or_dash(find(metric)));
                }
                Some(row)
            };
            rows.extend(cells());
        }
    }
    let designs = report.setup.designs.iter().filter_map(|design| {
        let find = |metric| Some(report.find("resize", design, "all", 1, metric)?.value);
        let (splits, doublings) = (find("splits")? as u64, find("doublings")?);
        let longest = find("doubling_max_ns");
        let longest = longest.map_or_else(String::new, |ns| format!(" (≤ {})", duration(ns)));
        Some(format!("{design}: {} splits, {doublings} doublings{longest}", grouped(splits)))
    });
    Table {
        title: format!("Growth, 1 thread{}", report.emulated()),
        note: format!("{}.", designs.collect::<Vec<_>>().join("; ")),
        header: texts(["design", "operation", "count", "p50", "p99", "p99.99", "max"]),
        names: 2,
        rows,
    }
}

fn costs(report: &Report) -> Table {
    let metrics =
        ["blocks_read", "blocks_written", "lines_read", "lines_written", "flushes", "waits"];
    let mut rows = Vec::new();
    for design in &report.setup.designs {
        for case in report.cases("cost") {
            let find = |metric| report.find("cost", design, case, 1, metric);
            let values: Option<Vec<String>> =
                metrics.iter().map(|metric| Some(format!("{:.3}", find(metric)?.value))).collect();
            let Some(values) = values else { continue };
            let mut row = texts([design, case]);
            row.extend(values);
            rows.push(row);
        }
    }
    Table {
        title: "Cost of one operation, counted on the medium".into(),
        note: "Blocks of 256 bytes and lines of 64, distinct ones; flushes of lines; fences and \
               drains."
            .into(),
        header: texts([
            "design",
            "operation",
            "blocks read",
            "written",
            "lines read",
            "written",
            "flushes",
            "fences",
        ]),
        names: 2,
        rows,
    }
}

fn recovery(report: &Report) -> Table {
    let opened = report.table("recovery").filter(|row| row.metric == "open_ms");
    let rows = opened.map(|open| {
        let find = |metric: &str| {
            let mut rows = report.table("recovery");
            let found = rows.find(|row| {
                row.metric == metric && row.design == open.design && row.keys == open.keys
            });
            found.map_or(0.0, |row| row.value)
        };
        vec![
            open.design.clone(),
            grouped(open.keys),
            open.threads.to_string(),
            grouped(find("acknowledged") as u64),
            grouped(find("lost") as u64),
            format!("{:.2} ms", open.value),
            format!("{:.2} ms", find("first_get_ms")),
            format!("{:.2} ms", find("open_closed_ms")),
            grouped(find("repaired_by_first_get") as u64),
            grouped(find("repaired") as u64),
        ]
    });
    Table {
        title: format!("Recovery after kill -9 of a process that inserts{}", report.not_emulated()),
        note: format!(
            "Times are medians of {} opens of the same state; the first get is answered so long after \
             the open began. Repaired are units that the kill may have left half changed, by the first \
             get and in all. Every acknowledged key was looked up, and every invariant checked.",
            report.setup.repeats
        ),
        header: texts([
            "design",
            "keys",
            "threads",
            "acknowledged",
            "lost",
            "open",
            "first get",
            "open if closed",
            "repaired first",
            "repaired",
        ]),
        names: 1,
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn text_has_everything_aligned() {
        let mut text = Vec::new();
        sample(&["reh", "esh"], &[1, 2]).write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in [
            "Some <CPU> & co, 2 cores, 8.0 GiB",
            "file on ext4; latency of optane is emulated",
            "0.1.0 (abcdef0), 2023-11-14",
            "1,000 keys",
            "Throughput, million operations per second (×threads, emulated optane)",
            "Latency, 2 threads, emulated optane",
            "insert that splits",
            "Recovery after kill -9",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        let hit = text.lines().find(|line| line.trim_start().starts_with("hit"));
        assert!(hit.unwrap().contains("4.00"), "{text}");
    }

    #[test]
    fn percentiles_of_too_few_are_not_told() {
        let mut report = sample(&["reh"], &[1]);
        report.rows.retain(|row| row.metric != "p99.99_ns");
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let dashes = text.lines().filter(|line| line.contains(" -  "));
        assert_eq!(dashes.count(), 4 + 2, "{text}");
    }

    #[test]
    fn empty_reports_have_no_tables() {
        assert!(tables(&Report::default()).is_empty());
    }

    #[test]
    fn days_have_dates() {
        for (seconds, text) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_251_199, "2024-02-29"),
            (1_709_251_200, "2024-03-01"),
            (4_102_444_800, "2100-01-01"),
        ] {
            assert_eq!(date(seconds), text);
        }
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
    }
}
