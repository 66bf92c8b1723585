//! Figures of the suites of sizes and of lookups beside inserts.

use super::{Figure, lines, named};
use crate::charts::{Lines, Ranges, highest};
use crate::report::Report;
use crate::svg::{Axis, duration, number};

/// What is drawn of each size: name, metric, dashes.
const PERCENTILES: [(&str, &str, usize); 2] = [("p50", "p50_ns", 0), ("p99", "p99_ns", 1)];

/// What is drawn of lookups: names and metrics.
const OF_LOOKUPS: [(&str, &str); 4] =
    [("p50", "p50_ns"), ("p99.9", "p99.9_ns"), ("p99.99", "p99.99_ns"), ("longest", "max_ns")];

pub(super) fn all(report: &Report) -> Vec<Figure> {
    let cases = report.cases("size").into_iter();
    let mut figures: Vec<Figure> = cases.filter_map(|case| latency(report, case)).collect();
    figures.extend(stall(report));
    figures
}

fn latency(report: &Report, case: &str) -> Option<Figure> {
    let mut series = Vec::new();
    for (name, metric, dash) in PERCENTILES {
        let of_metric = lines(report, dash, |design| {
            let rows = report
                .table("size")
                .filter(|row| row.design == *design && row.case == case && row.metric == metric);
            rows.map(|row| (row.keys as f64, row.value)).collect()
        });
        series.extend(named(of_metric, name));
    }
    let sizes = || series.iter().flat_map(|line| &line.points).map(|(keys, _)| *keys);
    let (least, most) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
    if series.is_empty() {
        return None;
    }
    let chart = Lines {
        title: &format!("Latency over size: {case}"),
        subtitle: &format!("1 thread, {}{}", report.place(), report.emulated()),
        x: ("keys in the table, logarithmic", Axis::log(least, most, number)),
        y: ("time of one operation", Axis::linear(0.0, highest(&series), duration)),
        series,
        marks: 1,
    };
    Some(Figure {
        name: format!("size-{case}"),
        caption: "Less is better. Every operation was timed by itself; the clock's own time is \
                  included.",
        svg: chart.svg(),
    })
}

fn stall(report: &Report) -> Option<Figure> {
    report.table("stall").next()?;
    let designs = &report.setup.designs;
    let groups = [("beside inserts", 2), ("alone", 1)].map(|(case, threads)| {
        let series = designs.iter().map(|design| {
            let find = |metric| Some(report.find("stall", design, case, threads, metric)?.value);
            let values: Option<Vec<f64>> =
                OF_LOOKUPS.iter().map(|(_, metric)| find(metric)).collect();
            values
        });
        (case.to_owned(), series.collect())
    });
    let chart = Ranges {
        title: "Lookups beside inserts, and alone",
        subtitle: &format!("{}{}", report.place(), report.emulated()),
        axis: "time of one lookup, logarithmic",
        percentiles: &OF_LOOKUPS.map(|(name, _)| name),
        series: designs.clone(),
        groups: groups.into(),
    };
    Some(Figure {
        name: "stall".into(),
        caption: "Less is better: how long a reader can be kept while another thread inserts, and by \
                  the system. Every lookup was timed by itself; the clock's own time is included.",
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
    fn every_operation_has_a_chart_and_every_design_its_lines() {
        let mut report = Report::default();
        report.setup.designs = vec!["reh".into(), "pea".into()];
        for design in ["reh", "pea"] {
            for case in ["insert", "hit"] {
                for keys in [10_000, 1_000_000] {
                    let metrics = [("p50_ns", 100.0), ("p99_ns", 400.0)];
                    report.rows.extend(samples("size", design, case, 1, keys, &metrics));
                }
            }
            for (case, threads) in [("beside inserts", 2), ("alone", 1)] {
                let metrics =
                    [("p50_ns", 90.0), ("p99.9_ns", 1e3), ("p99.99_ns", 2e4), ("max_ns", 4e6)];
                report.rows.extend(samples("stall", design, case, threads, 1_000_000, &metrics));
            }
        }
        let figures = draw(&report);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["size-insert", "size-hit", "stall"]);
        for figure in &figures {
            well_formed(&figure.file());
            assert!(figure.svg.contains(">pea"));
        }
        assert!(figures[0].svg.contains(">reh, p99<") && figures[0].svg.contains(">1M<"));
        assert!(figures[2].svg.contains("beside inserts") && figures[2].svg.contains("longest"));
    }
}
