//! Tables of a report, for people: as text, and for the page. [`SPECS`](specs::SPECS) says which columns most have;
//! `wide.rs` has those with a column for each design or size, and `advice.rs` words.

mod advice;
mod specs;
mod wide;

use std::io::{self, Write};

use crate::report::{REAL, Report, Row, threads_text};
use crate::svg::{duration, number};

/// A table of texts.
pub struct Table {
    /// The line above it.
    pub title: String,
    /// The line below it, if it is not empty.
    pub note: String,
    /// The names of the columns.
    pub header: Vec<String>,
    /// How many columns, from the left, hold names; the others hold numbers.
    pub names: usize,
    /// The lines.
    pub rows: Vec<Vec<String>>,
}

impl Report {
    /// Writes the report as readable text: the figures that a user asks for first, the machine, the tables.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut tables = tables(self).into_iter().peekable();
        if let Some(summary) = tables.next_if(|table| table.title.starts_with("In short")) {
            summary.write_text(out)?;
            writeln!(out)?;
        }
        for (name, fact) in facts(self) {
            writeln!(out, "{name:<11}{fact}")?;
        }
        for table in tables {
            writeln!(out)?;
            table.write_text(out)?;
        }
        Ok(())
    }
}

impl Table {
    /// True if a column holds words, not numbers: names, and descriptions, which have no header.
    pub(crate) fn is_words(&self, column: usize) -> bool {
        column < self.names || self.header[column].is_empty()
    }

    /// Writes the table with columns as wide as they must be.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
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

/// The machine and the setup, line by line.
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
    facts.extend(simulated(report).map(|what| ("simulated", what)));
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

/// The specification of tables that look alike. `{threads}` in a text is the number of threads of one of several
/// tables; `{first keys}` the keys of the first line; the others are about the whole report.
struct Spec {
    table: &'static str,
    /// The metric of which each row makes a line.
    lead: &'static str,
    /// True if lines are sorted by case, then threads; else they are in the order of measurement.
    sorted: bool,
    /// `header=field` of those that tell lines apart: design, case, threads, keys.
    names: &'static str,
    /// `header=metric:how` of each number; see [`cell`] for how it is shown if that is left out.
    columns: &'static str,
    title: &'static str,
    note: &'static [&'static str],
}

/// The columns of a specification: header and the rest, which is the header where there is no other.
fn columns(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
    text.split("; ").filter(|column| !column.is_empty()).map(|column| {
        match column.split_once('=') {
            Some(column) => column,
            None => (column.split(':').next().unwrap_or(column), column),
        }
    })
}

/// The metric of a column, and how it is shown: by its unit, the end of its name, if not otherwise.
fn metric(column: &str) -> (&str, &str) {
    let unit = |metric: &'_ str| metric.rfind('_').map_or(metric.len(), |at| at + 1);
    column.split_once(':').unwrap_or_else(|| (column, &column[unit(column)..]))
}

/// A number as a cell. A time of too few samples, which has no row, is a dash.
fn cell(how: &str, report: &Report, line: &Row, found: Option<&Row>) -> String {
    let found = if how == "simulated" { simulated_operation(report, line) } else { found };
    let Some(row) = found else {
        let is_time = matches!(how, "ns" | "time" | "simulated");
        return if is_time { "-".into() } else { String::new() };
    };
    let value = row.value;
    match how {
        // Rates, in millions or thousands; and the least of the repeats.
        "s" => format!("{:.2}", value / 1e6),
        "M3" => format!("{:.3}", value / 1e6),
        "k" => format!("{:.2}", value / 1e3),
        "least" => format!("{:.2}", row.min / 1e6),
        "ns" | "simulated" => duration(value),
        "time" => duration(value * 1e6),
        "ms" => format!("{value:.2} ms"),
        "0 ms" => format!("{value} ms"),
        "MiB" => format!("{:.1} MiB", value / f64::from(1 << 20)),
        // Digits after the point, of the number or of its part for each key.
        _ => match (how.strip_prefix('/').map(str::parse::<usize>), how.parse::<usize>()) {
            (Some(Ok(digits)), _) => format!("{:.digits$}", value / row.keys as f64),
            (_, Ok(digits)) => format!("{value:.digits$}"),
            _ => grouped(value as u64),
        },
    }
}

/// The median of the simulated operation that is that of a workload on real nodes.
fn simulated_operation<'a>(report: &'a Report, line: &Row) -> Option<&'a Row> {
    let case = match line.case.as_str() {
        "load" => "insert",
        "hit" => "search",
        same => same,
    };
    report.find("simulated", "sephash", case, line.threads, "p50_ns")
}

impl Spec {
    /// One table, or one for each number of threads where the title has it.
    fn tables(&self, report: &Report) -> Vec<Table> {
        if !self.title.contains("{threads}") {
            return vec![self.table(report, None)];
        }
        let threads = report.setup.threads.iter();
        threads.map(|threads| self.table(report, Some(*threads))).collect()
    }

    fn table(&self, report: &Report, threads: Option<u64>) -> Table {
        let leads = report.table(self.table).filter(|row| row.metric == self.lead);
        let leads = leads.filter(|row| threads.is_none_or(|threads| row.threads == threads));
        let mut leads: Vec<&Row> = leads.collect();
        if self.sorted {
            let cases = report.cases(self.table);
            let case = |row: &Row| cases.iter().position(|case| *case == row.case);
            leads.sort_by_key(|row| (case(row), row.threads));
        }
        let (names, numbers) = (columns(self.names), columns(self.columns));
        let lines = leads.iter().map(|line| {
            let names = names.clone().map(|(_, field)| match field {
                "design" => line.design.clone(),
                "case" => line.case.clone(),
                "threads" => line.threads.to_string(),
                _ => grouped(line.keys),
            });
            let cells = numbers.clone().map(|(_, column)| {
                let (metric, how) = metric(column);
                let mut rows = report.table(self.table);
                let found = rows.find(|row| {
                    row.metric == metric
                        && (&row.design, &row.case) == (&line.design, &line.case)
                        && (row.threads, row.keys) == (line.threads, line.keys)
                });
                cell(how, report, line, found)
            });
            names.chain(cells).collect()
        });
        let text = |text: &str| {
            let keys = leads.first().map_or(0, |row| row.keys);
            text.replace("{threads}", &threads.map_or_else(String::new, threads_text))
                .replace("{emulated}", &report.emulated())
                .replace("{not emulated}", report.not_emulated())
                .replace("{repeats}", &report.setup.repeats.to_string())
                .replace("{clock}", &number(report.setup.clock_ns))
                .replace("{first keys}", &number(keys as f64))
                .replace("{growth}", &growth(report))
        };
        Table {
            title: text(self.title),
            note: text(&self.note.concat()),
            header: names.clone().chain(numbers.clone()).map(|(header, _)| header.into()).collect(),
            names: names.clone().filter(|(_, field)| ["design", "case"].contains(field)).count(),
            rows: lines.collect(),
        }
    }
}

/// The splits and doublings of each design.
fn growth(report: &Report) -> String {
    let designs = report.setup.designs.iter().filter_map(|design| {
        let find = |metric| Some(report.find("resize", design, "all", 1, metric)?.value);
        let (splits, doublings) = (find("splits")? as u64, find("doublings")?);
        let longest = find("doubling_max_ns");
        let longest = longest.map_or_else(String::new, |ns| format!(" (≤ {})", duration(ns)));
        Some(format!("{design}: {} splits, {doublings} doublings{longest}", grouped(splits)))
    });
    designs.collect::<Vec<_>>().join("; ")
}

/// The assumptions about simulated nodes, where there are such.
pub(crate) fn simulated(report: &Report) -> Option<String> {
    let find = |metric| Some(report.find("simulated nic", "all", "assumed", 1, metric)?.value);
    Some(format!(
        "SepHash and RACE on simulated nodes in virtual time, not measured; NICs assumed: round trip {} ns, {} Gb/s, \
         {} million packets and {} million atomics a second; keys of 16 bytes, values of 32",
        find("round_trip_ns")?,
        find("gigabits")?,
        find("packets_per_s")? / 1e6,
        find("atomics_per_s")? / 1e6
    ))
}

/// All tables that the rows suffice for.
pub(crate) fn tables(report: &Report) -> Vec<Table> {
    let (simulated, local): (Vec<&Spec>, Vec<&Spec>) = specs::SPECS
        .iter()
        .partition(|spec| spec.table.starts_with("simulated") || spec.table == REAL);
    let lists = |specs: Vec<&'static Spec>| specs.into_iter().flat_map(|spec| spec.tables(report));
    let mut tables = vec![summary(report), advice::table(report), wide::throughput(report)];
    tables.extend(lists(local));
    tables.extend(wide::all(report));
    tables.extend(lists(simulated));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((grouped(1_234_567).as_str(), grouped(999).as_str()), ("1,234,567", "999"));
    }
}
