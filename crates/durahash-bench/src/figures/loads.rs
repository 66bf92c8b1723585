//! Figures of the suite of loads.

use super::{Figure, lines, named};
use crate::charts::{Lines, highest};
use crate::report::Report;
use crate::svg::{Axis, duration, number};

/// What is drawn: name, metric, dashes.
const DRAWN: [(&str, &str, usize); 2] = [("mean", "mean_ns", 0), ("p99.99", "p99.99_ns", 1)];

pub(super) fn all(report: &Report) -> Vec<Figure> {
    report.cases("load").into_iter().filter_map(|case| latency(report, case)).collect()
}

fn latency(report: &Report, case: &str) -> Option<Figure> {
    let keys = report.setup.keys as f64;
    let mut series = Vec::new();
    for (name, metric, dash) in DRAWN {
        let of_metric = lines(report, dash, |design| {
            let rows = report
                .table("load")
                .filter(|row| row.design == *design && row.case == case && row.metric == metric);
            rows.map(|row| (row.keys as f64 / keys, row.value)).collect()
        });
        series.extend(named(of_metric, name));
    }
    let values = series.iter().flat_map(|line| &line.points).map(|(_, ns)| *ns);
    let least = values.fold(f64::MAX, f64::min);
    if series.is_empty() {
        return None;
    }
    let chart = Lines {
        title: &format!("Latency while the table fills: {case}"),
        subtitle: &format!("1 thread, {}{}", report.place(), report.emulated()),
        x: ("keys in the table, as a part of all", Axis::linear(0.0, 1.0, number)),
        y: (
            "time of one operation, logarithmic",
            Axis::log(least.max(1.0), highest(&series).max(1.0), duration),
        ),
        series,
        marks: 1,
    };
    Some(Figure {
        name: format!("load-{case}"),
        caption: "Less is better. Every operation was timed by itself; the clock's own time is \
                  included.",
        svg: chart.svg(),
    })
}

#[cfg(test)]
mod tests {
    use crate::figures::draw;
    use crate::figures::tests::well_formed;
    use crate::report::Report;
    use crate::report::tests::samples;

    #[test]
    fn every_operation_has_a_chart() {
        let mut report = Report::default();
        report.setup.designs = vec!["reh".into(), "rewo".into()];
        report.setup.keys = 1000;
        for design in ["reh", "rewo"] {
            for case in ["hit", "insert"] {
                for keys in [200, 400, 600, 800] {
                    let metrics = [("mean_ns", 100.0), ("p99.99_ns", 9000.0)];
                    report.rows.extend(samples("load", design, case, 1, keys, &metrics));
                }
            }
            let metrics = [("load_factor", 0.5)];
            report.rows.extend(samples("load", design, "slots", 1, 200, &metrics));
        }
        let figures = draw(&report);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["load-hit", "load-insert"]);
        figures.iter().for_each(|figure| well_formed(&figure.file()));
        assert!(figures[0].svg.contains(">rewo, p99.99<"));
    }
}
