//! The table of the suite of loads.

use super::{Table, duration_or_dash, texts};
use crate::report::Report;
use crate::suites::loads::LOADS;
use crate::svg::number;

/// What is told of every operation: names and metrics.
const METRICS: [(&str, &str); 4] =
    [("mean", "mean_ns"), ("p50", "p50_ns"), ("p99", "p99_ns"), ("p99.99", "p99.99_ns")];

/// The number of keys at a load.
fn keys_at(report: &Report, load: u64) -> u64 {
    report.setup.keys * load / 100
}

pub(super) fn table(report: &Report) -> Table {
    let find = |design: &str, case: &str, metric: &str, load: u64| {
        let keys = keys_at(report, load);
        let mut rows = report.table("load");
        let found = rows.find(|row| {
            row.design == design && row.case == case && row.metric == metric && row.keys == keys
        });
        found.map(|row| row.value)
    };
    let mut rows = Vec::new();
    for case in report.cases("load") {
        for design in &report.setup.designs {
            for (name, metric) in METRICS.into_iter().chain([("", "load_factor")]) {
                let values = LOADS.map(|load| find(design, case, metric, load));
                if values.iter().all(Option::is_none) {
                    continue;
                }
                let mut row = texts([case, design, name]);
                row.extend(values.map(|value| match metric {
                    "load_factor" => value.map_or_else(String::new, |v| format!("{v:.3}")),
                    _ => duration_or_dash(value),
                }));
                rows.push(row);
            }
        }
    }
    let mut header = texts(["operation", "design", ""]);
    header.extend(LOADS.map(|load| format!("at {}", load as f64 / 100.0)));
    Table {
        title: format!("Latency while the table fills, 1 thread{}", report.emulated()),
        note: format!(
            "A load is a part of the run's keys, as the paper's is one of its capacity; slots: the part \
             that is used of those that there are then. Each operation timed; {} ns of every time are \
             the clock's. -: too few for this percentile.",
            number(report.setup.clock_ns)
        ),
        header,
        names: 3,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use crate::report::Report;
    use crate::report::tests::samples;

    #[test]
    fn loads_are_columns() {
        let mut report = Report::default();
        report.setup.designs = vec!["reh".into(), "rewo".into()];
        report.setup.keys = 1000;
        for (keys, ns) in [(200, 100.0), (400, 120.0), (600, 130.0), (800, 150.0)] {
            for design in ["reh", "rewo"] {
                let rows = [("load_factor", 0.5)];
                report.rows.extend(samples("load", design, "slots", 1, keys, &rows));
                let rows = [("mean_ns", ns), ("p50_ns", ns), ("p99_ns", ns * 3.0)];
                report.rows.extend(samples("load", design, "hit", 1, keys, &rows));
            }
        }
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in [
            "operation  design        at 0.2  at 0.4  at 0.6  at 0.8",
            "slots      reh            0.500   0.500   0.500   0.500",
            "hit        rewo    p99   300 ns  360 ns  390 ns  450 ns",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }
}
