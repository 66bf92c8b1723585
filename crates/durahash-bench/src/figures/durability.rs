//! Figures of the suite of modes of durability.

use super::{Figure, View};
use crate::charts::Ranges;
use crate::report::Report;

pub(super) fn all(report: &Report) -> Vec<Figure> {
    View::all(report).iter().filter_map(|view| times(report, view)).collect()
}

/// Times, as the rates are too far apart for bars: a wait for the disk is some hundred inserts long.
fn times(report: &Report, view: &View) -> Option<Figure> {
    let mut groups = view.groups(report, "durability", |design, case, threads| {
        let row = report.find("durability", design, case, threads, "ops_per_s")?;
        Some([row.max, row.value, row.min].map(|rate| 1e9 / rate).into())
    });
    groups.retain(|(_, series)| series.iter().any(Option::is_some));
    if groups.is_empty() {
        return None;
    }
    let chart = Ranges {
        title: "Modes of durability",
        subtitle: &view.subtitle,
        axis: "time of one operation, over all threads, logarithmic",
        percentiles: &["fastest", "median", "slowest"],
        series: view.names(),
        groups,
    };
    Some(Figure {
        name: format!("durability{}", view.suffix),
        caption: "Less is better. process survives kill -9; interval also a system crash and a power cut, but \
                  for the last moments; strict both. put_many is of 1000 at a time, by one thread. Marks are \
                  the fastest of the repeats, their median, and the slowest.",
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
    fn modes_are_groups_of_times() {
        let mut report = Report::default();
        report.setup.designs = vec!["reh".into(), "rewo".into()];
        report.setup.threads = vec![1, 2];
        for design in ["reh", "rewo"] {
            for (mode, rate) in [("process", 4e6), ("strict", 7000.0)] {
                let mut add = |what: &str, threads, metric: &str, value| {
                    let (case, metrics) = (format!("{what}, {mode}"), [(metric, value)]);
                    let rows = samples("durability", design, &case, threads, 1000, &metrics);
                    report.rows.extend(rows);
                };
                add("put_many", 1, "ops_per_s", 6e6);
                add("insert", 1, "ops_per_s", rate);
                add("insert", 2, "ops_per_s", rate);
                add("kill -9", 2, "open_ms", 2.0);
            }
        }
        let figures = draw(&report);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["durability-1", "durability-2"]);
        figures.iter().for_each(|figure| well_formed(&figure.file()));
        let has = |i: usize, label: &str| figures[i].svg.contains(&format!(">{label}<"));
        assert!(has(0, "insert, strict") && has(0, "put_many, process"));
        // Of one thread only, and no rate.
        assert!(!has(1, "put_many, process") && !has(1, "kill -9, strict"));
    }
}
