//! Tables of the suites of sizes and of lookups beside inserts.

use super::{Table, duration_or_dash, grouped, texts};
use crate::report::Report;
use crate::svg::number;

pub(super) fn all(report: &Report) -> Vec<Table> {
    vec![latency(report), resizing(report), stall(report)]
}

/// The sizes that were measured, in their order.
fn sizes(report: &Report) -> Vec<u64> {
    let mut sizes: Vec<u64> = report.table("size").map(|row| row.keys).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn latency(report: &Report) -> Table {
    let sizes = sizes(report);
    let mut rows = Vec::new();
    for case in report.cases("size") {
        for design in &report.setup.designs {
            for (name, metric) in [("p50", "p50_ns"), ("p99", "p99_ns")] {
                let at = |keys: u64| {
                    let mut rows = report.table("size");
                    let found = rows.find(|row| {
                        row.design == *design
                            && row.case == case
                            && row.metric == metric
                            && row.keys == keys
                    });
                    found.map(|row| row.value)
                };
                if sizes.iter().all(|keys| at(*keys).is_none()) {
                    continue;
                }
                let mut row = texts([case, design, name]);
                row.extend(sizes.iter().map(|keys| duration_or_dash(at(*keys))));
                rows.push(row);
            }
        }
    }
    let mut header = texts(["operation", "design", ""]);
    header.extend(sizes.iter().map(|keys| number(*keys as f64)));
    Table {
        title: format!("Latency by keys in the table, 1 thread{}", report.emulated()),
        note: format!(
            "At most 100,000 operations of each kind at each size, each timed; {} ns of every time \
             are the clock's.",
            number(report.setup.clock_ns)
        ),
        header,
        names: 3,
        rows,
    }
}

fn resizing(report: &Report) -> Table {
    let metrics = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p99.99_ns", "max_ns"];
    let mut rows = Vec::new();
    for design in &report.setup.designs {
        for case in report.cases("resizing") {
            let find = |metric| Some(report.find("resizing", design, case, 1, metric)?.value);
            let Some(count) = find("count") else { continue };
            let mut row = texts([design, case]);
            row.push(grouped(count as u64));
            row.extend(metrics.map(|metric| duration_or_dash(find(metric))));
            row.push(duration_or_dash(find("total_ms").map(|ms| ms * 1e6)));
            rows.push(row);
        }
    }
    Table {
        title: format!("Inserts on the way there, 1 thread{}", report.emulated()),
        note: "Those that the table grew by. An insert that doubles the directory splits as well, and \
               counts for both. -: too few for this percentile."
            .into(),
        header: texts([
            "design",
            "operation",
            "count",
            "min",
            "p50",
            "p90",
            "p99",
            "p99.99",
            "max",
            "in all",
        ]),
        names: 2,
        rows,
    }
}

fn stall(report: &Report) -> Table {
    let metrics = ["p50_ns", "p99_ns", "p99.9_ns", "p99.99_ns", "max_ns"];
    let mut rows = Vec::new();
    for design in &report.setup.designs {
        for (case, threads) in [("beside inserts", 2), ("alone", 1)] {
            let find = |metric| Some(report.find("stall", design, case, threads, metric)?.value);
            let Some(count) = find("count") else { continue };
            let mut row = texts([design, case]);
            row.push(grouped(count as u64));
            row.extend(metrics.map(|metric| duration_or_dash(find(metric))));
            rows.push(row);
        }
    }
    Table {
        title: format!("Lookups while another thread inserts, and alone{}", report.emulated()),
        note: format!(
            "One thread looks up keys that are there, each lookup timed, until another has inserted \
             all keys; then as often without it. {} ns of every time are the clock's; the longest \
             are those of the system where it runs something else.",
            number(report.setup.clock_ns)
        ),
        header: texts(["design", "lookups", "count", "p50", "p99", "p99.9", "p99.99", "longest"]),
        names: 2,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use crate::report::Report;
    use crate::report::tests::samples;

    #[test]
    fn sizes_are_columns_and_designs_lines() {
        let mut report = Report::default();
        report.setup.designs = vec!["reh".into(), "pea".into()];
        for (keys, ns) in [(1000, 100.0), (10_000, 120.0)] {
            for design in ["reh", "pea"] {
                let rows = [("p50_ns", ns), ("p99_ns", ns * 3.0)];
                report.rows.extend(samples("size", design, "hit", 1, keys, &rows));
            }
        }
        let rows = [("count", 3.0), ("min_ns", 10.0), ("max_ns", 5e6), ("total_ms", 9.0)];
        report.rows.extend(samples("resizing", "pea", "insert that splits", 1, 10_000, &rows));
        for (case, threads) in [("beside inserts", 2), ("alone", 1)] {
            let rows = [("count", 70.0), ("p50_ns", 90.0), ("max_ns", 4e6)];
            report.rows.extend(samples("stall", "pea", case, threads, 10_000, &rows));
        }
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in [
            "hit        reh     p50  100 ns  120 ns",
            "hit        pea     p99  300 ns  360 ns",
            "5 ms    9 ms",
            "beside inserts     70",
            "alone              70",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        assert!(!text.contains("reh     insert that"), "{text}");
    }
}
