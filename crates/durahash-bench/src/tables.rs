//! Tables of a report, for people: as text, and for the page. `tables/specs.txt` says which and with which columns,
//! `advice.rs` has one of words.

mod advice;

use std::cmp::Reverse;
use std::io::{self, Write};

use crate::report::{Report, Row, paragraphs, threads_text};
use crate::svg::{duration, number};
use crate::workload::Workload;

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

/// With three digits that are not zero.
fn rounded(value: f64) -> u64 {
    let digits = value.max(1.0).log10() as u32 + 1;
    let unit = 10_u64.pow(digits.saturating_sub(3));
    (value / unit as f64).round() as u64 * unit
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

/// The specification of a table, or of one for each number of threads: a paragraph of `specs.txt`, which tells the
/// format.
struct Spec {
    table: &'static str,
    leads: Vec<&'static str>,
    names: Vec<(&'static str, &'static str)>,
    order: Vec<&'static str>,
    columns: Vec<(&'static str, &'static str)>,
    title: &'static str,
    note: &'static str,
}

/// A column of numbers, and the line's fields that it has in place of the line's own.
#[derive(Clone)]
struct Column {
    header: String,
    source: &'static str,
    design: Option<String>,
    threads: Option<u64>,
    keys: Option<u64>,
}

/// `header=rest` of each; the rest begins with the header where there is no other.
fn pairs(text: &'static str) -> Vec<(&'static str, &'static str)> {
    let pair = |one: &'static str| {
        let header = || one.split([':', '@']).next().unwrap_or(one);
        one.split_once('=').unwrap_or_else(|| (header(), one))
    };
    text.split("; ").map(pair).collect()
}

/// Columns for each of `values`, in place of those whose header has `mark`.
fn each<T>(
    columns: Vec<Column>,
    mark: &str,
    values: &[T],
    set: impl Fn(&mut Column, &T) -> String,
) -> Vec<Column> {
    let expand = |column: Column| {
        if !column.header.contains(mark) {
            return vec![column];
        }
        let of_value = |value| {
            let mut column = column.clone();
            let text = set(&mut column, value);
            column.header = column.header.replace(mark, &text);
            column
        };
        values.iter().map(of_value).collect()
    };
    columns.into_iter().flat_map(expand).collect()
}

/// The end of a case from its comma on.
fn tail(row: &Row) -> &str {
    row.case.find(", ").map_or("", |at| &row.case[at..])
}

/// A field of a line, as a name.
fn name(field: &str, line: &Row) -> String {
    match field {
        "design" => line.design.clone(),
        "case" => line.case.clone(),
        "tail" => tail(line).trim_start_matches(", ").to_owned(),
        "metric" => line.metric.trim_end_matches("_ns").replace('_', " "),
        "threads" => line.threads.to_string(),
        _ => grouped(line.keys),
    }
}

/// A number as a cell. A time of too few samples, which has no row, is a dash.
fn cell(how: &str, report: &Report, line: &Row, found: Option<&Row>) -> String {
    let found = if how == "simulated" { simulated_operation(report, line) } else { found };
    let Some(row) = found else {
        let is_time = matches!(how, "ns" | "time" | "simulated");
        return if is_time { "-".into() } else { String::new() };
    };
    let value = row.value;
    let mib = value / f64::from(1 << 20);
    match how {
        // Rates, in millions or thousands; and the least of the repeats.
        "s" => format!("{:.2}", value / 1e6),
        "M3" => format!("{:.3}", value / 1e6),
        "k" => format!("{:.2}", value / 1e3),
        "thousands" => grouped(rounded(value)),
        "short" => number(value),
        "least" => format!("{:.2}", row.min / 1e6),
        "ns" | "simulated" => duration(value),
        "time" => duration(value * 1e6),
        "ms" => format!("{value:.2} ms"),
        "0 ms" => format!("{value} ms"),
        "MiB" => format!("{mib:.1} MiB"),
        "2 MiB" => format!("{mib:.2}"),
        "B" => format!("{value:.0} B"),
        "%" => format!("{:.1} %", value * 100.0),
        "factor" => format!("{value:.3}"),
        "smallest" => format!("{:.2}", row.min),
        "largest" => format!("{:.2}", row.max),
        "yes" => if value > 0.0 { "yes" } else { "NO" }.into(),
        "reached" => if value > 0.0 { "reached" } else { "NOT REACHED" }.into(),
        "survives" => SURVIVES.get(value as usize).copied().unwrap_or_default().into(),
        "description" => {
            let workload = Workload::ALL.into_iter().find(|workload| workload.name() == line.case);
            workload.map_or("", Workload::description).into()
        }
        // Digits after the point, of the number or of its part for each key.
        _ => match (how.strip_prefix('/').map(str::parse::<usize>), how.parse::<usize>()) {
            (Some(Ok(digits)), _) => format!("{:.digits$}", value / row.keys as f64),
            (_, Ok(digits)) => format!("{value:.digits$}"),
            _ => grouped(value as u64),
        },
    }
}

/// The failures that a mode survives, by the number that rows have for it.
const SURVIVES: [&str; 4] = [
    "",
    "survives kill -9, no system crash and no power cut",
    "survives kill -9; system crash and power cut but for the last moments",
    "survives kill -9, system crash and power cut",
];

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
    fn parse([head, columns, title, note]: [&'static str; 4]) -> Self {
        let mut fields = head.split(" | ");
        let mut field = || fields.next().unwrap_or_default();
        Spec {
            table: field(),
            leads: field().split(", ").collect(),
            names: pairs(field()),
            order: field().split(", ").collect(),
            columns: pairs(columns),
            title,
            note,
        }
    }

    /// One table, or one for each number of threads where the title has it.
    fn tables(&self, report: &Report) -> Vec<Table> {
        if !self.title.contains("{threads}") {
            return vec![self.table(report, None)];
        }
        let threads = report.setup.threads.iter();
        threads.map(|threads| self.table(report, Some(*threads))).collect()
    }

    fn table(&self, report: &Report, threads: Option<u64>) -> Table {
        let names = |line: &Row| -> Vec<String> {
            self.names.iter().map(|(_, field)| name(field, line)).collect()
        };
        let mut lines: Vec<(Vec<String>, &Row)> = Vec::new();
        let leads = report.table(self.table).filter(|row| self.leads.contains(&&*row.metric));
        for row in leads.filter(|row| threads.is_none_or(|threads| row.threads == threads)) {
            let names = names(row);
            if lines.iter().all(|(known, _)| *known != names) {
                lines.push((names, row));
            }
        }
        let cases = report.cases(self.table);
        lines.sort_by_cached_key(|(_, row)| {
            let rank = |field: &&str| match *field {
                "case" => cases.iter().position(|case| *case == row.case),
                "design" => report.setup.designs.iter().position(|design| *design == row.design),
                "metric" => self.leads.iter().position(|metric| *metric == row.metric),
                "threads" => Some(row.threads as usize),
                _ => None,
            };
            self.order.iter().map(rank).collect::<Vec<_>>()
        });
        let columns = self.columns(report);
        let cells = |(names, line): &(Vec<String>, &Row)| {
            let cells = columns.iter().map(|column| self.cell(report, line, column));
            names.iter().cloned().chain(cells).collect()
        };
        let headers = self.names.iter().map(|(header, _)| (*header).to_owned());
        let is_word = |(_, field): &&(&str, &str)| !["threads", "keys"].contains(field);
        let first_keys = lines.first().map_or(0, |(_, row)| row.keys);
        Table {
            title: self.text(self.title, report, threads, first_keys),
            note: self.text(self.note, report, threads, first_keys),
            header: headers.chain(columns.iter().map(|column| column.header.clone())).collect(),
            names: self.names.iter().filter(is_word).count(),
            rows: lines.iter().map(cells).collect(),
        }
    }

    fn columns(&self, report: &Report) -> Vec<Column> {
        let column = |(header, source): &(&str, &'static str)| {
            let header = (*header).to_owned();
            Column { header, source, design: None, threads: None, keys: None }
        };
        let columns = self.columns.iter().map(column).collect();
        let mut keys: Vec<u64> = report.table(self.table).map(|row| row.keys).collect();
        keys.sort_unstable();
        keys.dedup();
        let columns = each(columns, "{n}", &report.setup.threads, |column, n| {
            column.threads = Some(*n);
            n.to_string()
        });
        let columns = each(columns, "{design}", &report.setup.designs, |column, design| {
            column.design = Some(design.clone());
            design.clone()
        });
        let columns = each(columns, "{keys}", &keys, |column, keys| {
            column.keys = Some(*keys);
            number(*keys as f64)
        });
        each(columns, "{load}", &keys, |column, keys| {
            column.keys = Some(*keys);
            (*keys as f64 / report.setup.keys as f64).to_string()
        })
    }

    /// The cell of a line and a column: of rows with other numbers of keys, as where the number is not known before,
    /// that of the most.
    fn cell(&self, report: &Report, line: &Row, column: &Column) -> String {
        let (source, threads) = column.source.split_once('#').unwrap_or((column.source, ""));
        let (source, place) = source.split_once('@').unwrap_or((source, ""));
        let (metric, how) = source.split_once(':').unwrap_or((source, ""));
        let metric = if metric == "*" { &line.metric } else { metric };
        let unit = metric.rsplit('_').next().unwrap_or_default();
        let how = if how.is_empty() { unit } else { how };
        let (table, cases) = place.split_once('/').unwrap_or((self.table, place));
        let cases = cases.replace("{tail}", tail(line));
        let design = column.design.as_ref().unwrap_or(&line.design);
        let threads = match threads {
            "" => Some(column.threads.unwrap_or(line.threads)),
            n => n.parse().ok(),
        };
        let found = report.table(table).filter(|row| {
            row.metric == metric
                && row.design == *design
                && match &*cases {
                    "" => row.case == line.case,
                    cases => cases.split('|').any(|case| case == row.case),
                }
                && threads.is_none_or(|threads| row.threads == threads)
                && column.keys.is_none_or(|keys| row.keys == keys)
        });
        let found = found.min_by_key(|row| (row.keys != line.keys, Reverse(row.keys)));
        cell(how, report, line, found)
    }

    /// A title or a note, with the facts of the report.
    fn text(&self, text: &str, report: &Report, threads: Option<u64>, first_keys: u64) -> String {
        const BEFORE: &str =
            "Virtual time, no measurement. {first keys} keys lie in the index before. ";
        const AFTER: &str =
            "Trips, verbs and bytes are of one operation, with those that splits and merges add.";
        let rates = report.table(self.table).filter(|row| row.metric == "ops_per_s");
        let spread = rates.map(|row| (row.max - row.min) / row.value).fold(0.0, f64::max);
        let killed = report.table(self.table).find(|row| row.metric == "lost");
        text.replace("{trips before}", BEFORE)
            .replace("{trips after}", AFTER)
            .replace("{threads}", &threads.map_or_else(String::new, threads_text))
            .replace("{emulated}", &report.emulated())
            .replace("{not emulated}", report.not_emulated())
            .replace("{durability}", &report.setup.durability)
            .replace("{repeats}", &report.setup.repeats.to_string())
            .replace("{clock}", &number(report.setup.clock_ns))
            .replace("{first keys}", &number(first_keys as f64))
            .replace("{spread}", &format!("{:.0}", spread * 100.0))
            .replace("{killed}", &grouped(killed.map_or(0, |row| row.keys)))
            .replace("{growth}", &growth(report))
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
         {} million packets and {} million atomics a second; clients charged {} % of the processor's time that was \
         measured of each; keys of 16 bytes, values of 32",
        find("round_trip_ns")?,
        find("gigabits")?,
        find("packets_per_s")? / 1e6,
        find("atomics_per_s")? / 1e6,
        find("computing_percent").unwrap_or(0.0)
    ))
}

/// All tables that the rows suffice for.
pub(crate) fn tables(report: &Report) -> Vec<Table> {
    let specs = paragraphs(include_str!("tables/specs.txt")).map(Spec::parse);
    let mut tables: Vec<Table> = specs.flat_map(|spec| spec.tables(report)).collect();
    // Behind the figures that a user asks for first.
    tables.insert(1, advice::table(report));
    tables.retain(|table| !table.rows.is_empty());
    tables
}

/// The table of one specification, a paragraph in the format of `tables/specs.txt`, if it has a row.
#[must_use]
pub fn table_of(report: &Report, spec: [&'static str; 4]) -> Option<Table> {
    let table = Spec::parse(spec).table(report, None);
    (!table.rows.is_empty()).then_some(table)
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
