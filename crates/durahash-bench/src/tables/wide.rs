//! Tables with a column for each design, number of keys or number of threads.

use super::{Table, duration, grouped, number, texts};
use crate::report::{Report, Row};
use crate::suites::caches::{PARTS, case_of, part_name};
use crate::suites::durability::{BATCH, HIT, INSERT, KILLED, MODES, PUT_MANY};
use crate::workload::Workload;
use crate::workload::skew::Drawn;

/// The design that has a table of copies.
const CACHING: &str = "rewo";

/// The failures that a mode survives, by the number that rows have for it.
const SURVIVES: [&str; 4] = [
    "",
    "survives kill -9, no system crash and no power cut",
    "survives kill -9; system crash and power cut but for the last moments",
    "survives kill -9, system crash and power cut",
];

pub(super) fn all(report: &Report) -> Vec<Table> {
    let clock = number(report.setup.clock_ns);
    let sizes = by_keys(report, "size", "Latency by keys in the table, 1 thread", |_, keys| {
        number(keys as f64)
    });
    let loads =
        by_keys(report, "load", "Latency while the table fills, 1 thread", |report, keys| {
            format!("at {}", keys as f64 / report.setup.keys as f64)
        });
    let ycsb = rates(
        report,
        "ycsb",
        "YCSB over the keys that there are, million operations per second",
        "A: 50 % read, 50 % replace values; B: 95 % and 5 %; C: read only. After one round to warm up. ",
    );
    vec![
        Table {
            note: format!(
                "At most 100,000 operations of each kind at each size, each timed; {clock} ns of every time are \
                 the clock's."
            ),
            ..sizes
        },
        Table {
            note: format!(
                "A load is a part of the run's keys, as the paper's is one of its capacity; slots: the part that \
                 is used of those that there are then. Each operation timed; {clock} ns of every time are the \
                 clock's. -: too few for this percentile."
            ),
            ..loads
        },
        ycsb,
        caches(report),
        durability(report),
    ]
}

pub(super) fn throughput(report: &Report) -> Table {
    let title = "Throughput, million operations per second";
    let mut table = rates(report, "throughput", title, "");
    table.header.push(String::new());
    for row in &mut table.rows {
        let workload = Workload::ALL.into_iter().find(|workload| workload.name() == row[0]);
        row.push(workload.map_or("", Workload::description).to_owned());
    }
    table
}

/// A line for each case, and a column for each design and number of threads.
fn rates(report: &Report, table: &str, title: &str, note: &str) -> Table {
    let mut header = texts([if table == "ycsb" { "mix" } else { "workload" }]);
    let designs = &report.setup.designs;
    let columns = report.setup.threads.iter();
    let columns: Vec<_> =
        columns.flat_map(|threads| designs.iter().map(|design| (design, *threads))).collect();
    header.extend(columns.iter().map(|(design, threads)| format!("{design} ×{threads}")));
    let mut spread: f64 = 0.0;
    let lines = report.cases(table).into_iter().map(|case| {
        let cells = columns.iter().map(|(design, threads)| {
            let found = report.find(table, design, case, *threads, "ops_per_s");
            spread = spread.max(found.map_or(0.0, |row| (row.max - row.min) / row.value));
            found.map_or_else(String::new, |row| format!("{:.2}", row.value / 1e6))
        });
        std::iter::once(case.to_owned()).chain(cells).collect()
    });
    let rows = lines.collect();
    Table {
        title: format!("{title} (×threads{})", report.emulated()),
        note: format!(
            "{note}Medians of {}. Widest spread, from the slowest to the fastest: {:.0} % of the median.",
            report.setup.repeats,
            spread * 100.0
        ),
        header,
        names: 1,
        rows,
    }
}

/// A line for each case, design and metric, and a column for each number of keys.
fn by_keys(
    report: &Report,
    table: &str,
    title: &str,
    header_of: fn(&Report, u64) -> String,
) -> Table {
    const METRICS: [(&str, &str); 5] = [
        ("mean", "mean_ns"),
        ("p50", "p50_ns"),
        ("p99", "p99_ns"),
        ("p99.99", "p99.99_ns"),
        ("", "load_factor"),
    ];
    // Latency over size has two of them.
    let metrics =
        METRICS.iter().filter(|(name, _)| table == "load" || ["p50", "p99"].contains(name));
    let mut sizes: Vec<u64> = report.table(table).map(|row| row.keys).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut rows = Vec::new();
    for case in report.cases(table) {
        for design in &report.setup.designs {
            for (name, metric) in metrics.clone() {
                let of_line = |row: &&Row| {
                    (&row.design, row.case.as_str(), row.metric.as_str()) == (design, case, metric)
                };
                let found: Vec<&Row> = report.table(table).filter(of_line).collect();
                if found.is_empty() {
                    continue;
                }
                let mut line = texts([case, design, name]);
                line.extend(sizes.iter().map(|keys| {
                    let row = found.iter().find(|row| row.keys == *keys);
                    match (row, *metric) {
                        (None, "load_factor") => String::new(),
                        (None, _) => "-".into(),
                        (Some(row), "load_factor") => format!("{:.3}", row.value),
                        (Some(row), _) => duration(row.value),
                    }
                }));
                rows.push(line);
            }
        }
    }
    let mut header = texts(["operation", "design", ""]);
    header.extend(sizes.iter().map(|keys| header_of(report, *keys)));
    let title = format!("{title}{}", report.emulated());
    Table { title, note: String::new(), header, names: 3, rows }
}

/// Lookups by the size of the table of copies.
fn caches(report: &Report) -> Table {
    let threads = &report.setup.threads;
    let mut header = texts(["design", "copies", "MiB"]);
    for drawn in Drawn::ALL {
        header.extend(threads.iter().map(|n| format!("{} ×{n}", drawn.name())));
        header.push("hits".into());
    }
    let find = |design: &str, case: &str, n: u64, metric: &str| {
        report.find("cache", design, case, n, metric).map(|row| row.value)
    };
    let line = |design: &str, part: Option<u64>| {
        let case = |drawn: Drawn| match part {
            Some(part) => case_of(drawn.name(), part),
            None => drawn.name().to_owned(),
        };
        let mut row = texts([design]);
        row.push(part.map_or_else(String::new, part_name));
        let bytes = find(design, &case(Drawn::Uniform), 1, "bytes");
        row.push(bytes.map_or_else(String::new, |b| format!("{:.2}", b / f64::from(1 << 20))));
        for drawn in Drawn::ALL {
            for n in threads {
                let rate = find(design, &case(drawn), *n, "ops_per_s");
                row.push(rate.map_or_else(String::new, |rate| format!("{:.2}", rate / 1e6)));
            }
            let hits = find(design, &case(drawn), 1, "hits");
            row.push(hits.map_or_else(String::new, |hits| format!("{:.1} %", hits * 100.0)));
        }
        row
    };
    let mut rows = Vec::new();
    if report.table("cache").next().is_some() {
        rows.extend(PARTS.map(|part| line(CACHING, Some(part))));
        let others = report.setup.designs.iter().filter(|design| *design != CACHING);
        rows.extend(others.map(|design| line(design, None)));
    }
    Table {
        title: format!(
            "Lookups by the size of the table of copies, million per second (×threads{})",
            report.emulated()
        ),
        note: format!(
            "The most that the copies take, as a part of the tables, and in MiB; keys are drawn uniformly, \
             or by Zipf's law over all keys. Medians of {}, after one round that makes copies. Hits: lookups \
             that read nothing of the medium, counted in memory with one thread.",
            report.setup.repeats
        ),
        header,
        names: 2,
        rows,
    }
}

/// The modes of durability side by side.
fn durability(report: &Report) -> Table {
    let threads = &report.setup.threads;
    let most = threads.iter().copied().max().unwrap_or(1);
    // What is measured, threads, the metric, and what the column is called.
    let mut columns = Vec::new();
    columns.extend(threads.iter().map(|n| (INSERT, *n, "ops_per_s", format!("insert ×{n}"))));
    columns.push((PUT_MANY, 1, "ops_per_s", format!("put_many of {BATCH}")));
    columns.extend(threads.iter().map(|n| (HIT, *n, "ops_per_s", format!("hit ×{n}"))));
    columns.extend(threads.iter().map(|n| (INSERT, *n, "log_bytes", format!("log/insert ×{n}"))));
    columns.push((PUT_MANY, 1, "log_bytes", "log/put_many".into()));
    columns.push((KILLED, most, "open_ms", "open".into()));
    let mut rows = Vec::new();
    for design in &report.setup.designs {
        for (mode, _) in MODES {
            let find = |what, threads, metric| {
                report.find("durability", design, &format!("{what}, {mode}"), threads, metric)
            };
            let Some(survives) = find(PUT_MANY, 1, "survives") else { continue };
            let mut row = texts([design, mode]);
            row.extend(columns.iter().map(|(what, threads, metric, _)| {
                find(what, *threads, metric).map_or_else(String::new, |row| match *metric {
                    "ops_per_s" => number(row.value),
                    "log_bytes" => format!("{:.0} B", row.value),
                    _ => format!("{:.2} ms", row.value),
                })
            }));
            row.push(SURVIVES.get(survives.value as usize).copied().unwrap_or_default().into());
            rows.push(row);
        }
    }
    let mut header = texts(["design", "mode"]);
    header.extend(columns.into_iter().map(|(.., name)| name));
    header.push(String::new());
    let killed = report.table("durability").find(|row| row.metric == "lost");
    let killed = killed.map_or(0, |row| row.keys);
    Table {
        title: "Modes of durability, operations per second (×threads)".into(),
        note: format!(
            "interval: every 100 ms. put_many: all keys into an empty pool, {BATCH} at a time, by one \
             thread; then hits; then inserts one by one, as many as there are keys, or for half a second. \
             log: bytes that were written to it for each of them, in whole blocks. open: after kill -9 of a \
             process that had inserted some {} keys, all of which were found. Medians of {}.",
            grouped(killed),
            report.setup.repeats
        ),
        header,
        names: 2,
        rows,
    }
}
