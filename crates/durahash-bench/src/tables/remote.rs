//! Tables of the suite of simulated nodes, and of real ones beside them. Each title says which they are.

use super::{Table, duration_or_dash, texts};
use crate::figures::remote::SEP;
use crate::report::{REAL, Report, Row};
use crate::svg::number;

pub(super) fn all(report: &Report) -> Vec<Table> {
    vec![
        operations(report, "simulated", "Operations", "A client is a thread, 16 share a NIC."),
        operations(
            report,
            "simulated many",
            "Inserts where each client has many segments",
            "CurSegments, MainSegments and subtables have a 16th of their usual entries, so that there are as many as an index \
             of 16 times the keys has; each client has looked up 4,096 keys before.",
        ),
        operations(
            report,
            "simulated techniques",
            "Without one technique each",
            "As operations, each with SepHash as it is and without what the case says.",
        ),
        operations(
            report,
            "simulated mix",
            "Mixes of inserts and searches",
            "Searches are of keys drawn uniformly from those that were there before.",
        ),
        operations(
            report,
            "simulated ycsb",
            "YCSB by Zipf's law, 0.99",
            "A: half reads, half updates; B: 95 % reads; C: reads; D: 95 % reads of the client's latest keys, 5 % inserts.",
        ),
        operations(
            report,
            "simulated sizes",
            "Sizes of segments, memory nodes, sizes of keys and values",
            "Each from an empty index of its own, which has a quarter of the keys when inserts are measured.",
        ),
        space(report),
        real(report),
    ]
}

/// Which simulated operation is that of a workload.
const SIMULATED: [(&str, &str); 4] =
    [("load", "insert"), ("hit", "search"), ("update", "update"), ("delete", "delete")];

/// A row for each workload, fabric and number of threads.
fn real(report: &Report) -> Table {
    let mut rows = Vec::new();
    for case in report.cases(REAL) {
        let simulated = SIMULATED.iter().find(|(workload, _)| *workload == case);
        for row in report.table(REAL).filter(|row| row.case == case && row.metric == "ops_per_s") {
            let find = |metric| {
                let found = report.find(REAL, &row.design, case, row.threads, metric);
                found.map(|row| row.value)
            };
            let simulated = simulated.and_then(|(_, case)| {
                let found = report.find("simulated", SEP, case, row.threads, "p50_ns");
                found.map(|row| row.value)
            });
            rows.push(vec![
                case.to_owned(),
                row.design.clone(),
                row.threads.to_string(),
                format!("{:.2}", row.value / 1e3),
                duration_or_dash(find("p50_ns")),
                duration_or_dash(find("p99_ns")),
                duration_or_dash(simulated),
            ]);
        }
    }
    let keys = report.table(REAL).next().map_or(0, |row| row.keys);
    Table {
        title: "SepHash on nodes of this machine, real".into(),
        note: format!(
            "Measured, by the clock, with {} keys and values of 8 bytes: a node in a process of its own, threads \
             of one client that wait for each operation; nodes and clients share the processors. Medians of 3. \
             The last column is of the simulated operation with as many clients, for comparison.",
            number(keys as f64)
        ),
        header: texts([
            "operation",
            "fabric",
            "threads",
            "thousand/s",
            "p50",
            "p99",
            "p50 simulated",
        ]),
        names: 2,
        rows,
    }
}

/// What is not a measurement, in words.
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

/// A row for each case, number of clients and index.
fn operations(report: &Report, table: &'static str, title: &str, note: &str) -> Table {
    let first: Vec<&Row> = report.table(table).filter(|row| row.metric == "ops_per_s").collect();
    // Sorted into cases, each by clients.
    let mut rows = Vec::new();
    for case in report.cases(table) {
        let mut of_case: Vec<&&Row> = first.iter().filter(|row| row.case == case).collect();
        of_case.sort_by_key(|row| row.threads);
        for row in of_case {
            let find = |metric| {
                let found = report.find(table, &row.design, case, row.threads, metric);
                found.map(|row| row.value)
            };
            let count = |metric| find(metric).map_or_else(String::new, |v| format!("{v:.2}"));
            let whole = |metric| find(metric).map_or_else(String::new, |v| format!("{v:.0}"));
            rows.push(vec![
                case.to_owned(),
                row.design.clone(),
                row.threads.to_string(),
                format!("{:.3}", row.value / 1e6),
                duration_or_dash(find("p50_ns")),
                duration_or_dash(find("p99_ns")),
                count("round_trips"),
                count("verbs"),
                whole("bytes"),
                whole("splits"),
                whole("merges"),
            ]);
        }
    }
    let keys = number(first.first().map_or(0.0, |row| row.keys as f64));
    let before = match table {
        "simulated sizes" => String::new(),
        _ => format!("{keys} keys lie in the index before. "),
    };
    Table {
        title: format!("{title}, simulated"),
        note: format!(
            "Virtual time, no measurement. {before}{note} Trips, verbs and bytes are of one operation, with \
             what splits and merges add."
        ),
        header: texts([
            "operation",
            "index",
            "clients",
            "million/s",
            "p50",
            "p99",
            "trips",
            "verbs",
            "bytes",
            "splits",
            "merges",
        ]),
        names: 2,
        rows,
    }
}

fn space(report: &Report) -> Table {
    let mut rows = Vec::new();
    for row in report.table("simulated space").filter(|row| row.metric == "segments") {
        let find = |metric: &str| {
            let mut rows = report.table("simulated space");
            let found = rows.find(|other| {
                other.metric == metric && other.case == row.case && other.design == row.design
            });
            found.map_or(0.0, |row| row.value)
        };
        rows.push(vec![
            row.case.clone(),
            row.design.clone(),
            number(row.keys as f64),
            format!("{:.0}", row.value),
            format!("{:.0}", find("depth")),
            number(find("entries")),
            format!("{:.3}", find("entry_utilization")),
            format!("{:.3}", find("space_utilization")),
            format!("{:.2}", find("index_bytes") / row.keys as f64),
            format!("{:.3}", find("cache_bytes") / row.keys as f64),
            format!("{:.3}", find("table_bytes") / row.keys as f64),
            format!("{:.3}", find("plain_table_bytes") / row.keys as f64),
        ]);
    }
    Table {
        title: "Space of the index and of a client's cache, simulated".into(),
        note: "Bytes for each key. The cache: directory, and FPTables of SepHash, with and without record \
               points."
            .into(),
        header: texts([
            "size", "index", "keys", "segments", "depth", "entries", "used", "used bytes", "bytes/key",
            "cache/key", "FPTables", "plain",
        ]),
        names: 2,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use crate::report::Report;
    use crate::report::tests::samples;

    #[test]
    fn every_table_says_that_it_is_simulated() {
        let mut report = Report::default();
        for (table, case) in [
            ("simulated", "insert"),
            ("simulated many", "insert"),
            ("simulated techniques", "insert, hints awaited"),
            ("simulated mix", "25 % inserts"),
            ("simulated ycsb", "YCSB A"),
            ("simulated sizes", "2 nodes, insert"),
        ] {
            for clients in [128, 1] {
                let metrics = [("ops_per_s", 2e6), ("p50_ns", 4000.0), ("round_trips", 2.1)];
                report.rows.extend(samples(table, "sephash", case, clients, 1000, &metrics));
            }
        }
        let metrics = [("entry_utilization", 0.9), ("segments", 7.0)];
        report.rows.extend(samples("simulated space", "race", "1 node", 64, 1000, &metrics));
        let nic = [
            ("round_trip_ns", 1800.0),
            ("gigabits", 100.0),
            ("packets_per_s", 75e6),
            ("atomics_per_s", 10e6),
        ];
        report.rows.extend(samples("simulated nic", "all", "assumed", 1, 0, &nic));
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches(", simulated\n").count(), 7, "{text}");
        assert!(text.contains("round trip 1800 ns, 100 Gb/s, 75 million packets"), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("YCSB A")).collect();
        assert!(lines[0].contains("  1      2.000  4 µs"), "{text}");
        assert!(report.to_html().contains("no measurement"));
    }

    #[test]
    fn real_figures_stand_beside_simulated_ones() {
        let mut report = Report::default();
        let metrics = [("p50_ns", 3700.0), ("ops_per_s", 2e5)];
        report.rows.extend(samples("simulated", "sephash", "search", 1, 1000, &metrics));
        let metrics = [("ops_per_s", 25e3), ("p50_ns", 40_000.0), ("p99_ns", 90_000.0)];
        report.rows.extend(samples("real", "ucx, tcp", "hit", 1, 1000, &metrics));
        report.rows.extend(samples("real", "ucx, tcp", "YCSB A", 2, 1000, &metrics));
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("SepHash on nodes of this machine, real\n"), "{text}");
        let line = |case| {
            let line = text.lines().find(|line| line.trim_start().starts_with(case)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("hit"), "hit ucx, tcp 1 25.00 40 µs 90 µs 3.7 µs");
        assert_eq!(line("YCSB A"), "YCSB A ucx, tcp 2 25.00 40 µs 90 µs -");
    }
}
