//! Figures of the suite of cached tables.

use super::Figure;
use crate::charts::{Line, Lines, Style, highest};
use crate::report::Report;
use crate::suites::caches::{PARTS, case_of};
use crate::svg::{Axis, number};
use crate::workload::skew::Drawn;

/// The design that has such a table.
const CACHING: &str = "rewo";
/// Where the figure has the size of none, which has no logarithm.
const NONE: f64 = 1.0 / 128.0;

pub(super) fn all(report: &Report) -> Vec<Figure> {
    if report.table("cache").next().is_none() {
        return Vec::new();
    }
    let threads = report.setup.threads.first().copied().unwrap_or(1);
    let mut figures: Vec<Figure> =
        Drawn::ALL.into_iter().map(|drawn| lookups(report, drawn, threads)).collect();
    figures.push(hits(report));
    figures
}

/// Where a part lies.
fn at(part: u64) -> f64 {
    if part == 0 { NONE } else { 1.0 / part as f64 }
}

fn axis() -> (&'static str, Axis) {
    let show = |v: f64| match v {
        v if v <= NONE => "0".into(),
        v if v >= 1.0 => "1".into(),
        v => format!("1/{}", (1.0 / v).round()),
    };
    let ticks = PARTS.map(at).into();
    ("copies in DRAM, as a part of the tables, logarithmic", Axis::log_at(ticks, show))
}

fn points(report: &Report, drawn: Drawn, threads: u64, metric: &str) -> Vec<(f64, f64)> {
    let point = |part| {
        let case = case_of(drawn.name(), part);
        let row = report.find("cache", CACHING, &case, threads, metric)?;
        Some((at(part), row.value))
    };
    PARTS.into_iter().filter_map(point).collect()
}

fn lookups(report: &Report, drawn: Drawn, threads: u64) -> Figure {
    let lines = report.setup.designs.iter().enumerate().filter_map(|(colour, design)| {
        let style = Style { colour, dash: usize::from(design != CACHING) };
        let points = if design == CACHING {
            points(report, drawn, threads, "ops_per_s")
        } else {
            let row = report.find("cache", design, drawn.name(), threads, "ops_per_s")?;
            vec![(NONE, row.value), (1.0, row.value)]
        };
        let points = points.into_iter().map(|(part, rate)| (part, rate / 1e6)).collect();
        Some(Line { name: design.clone(), style, points })
    });
    let series: Vec<Line> = lines.collect();
    let of_threads = crate::report::threads_text(threads);
    let chart = Lines {
        title: &format!("Lookups by the size of the table of copies: {}", drawn.name()),
        subtitle: &format!("{of_threads}, {}{}", report.place(), report.emulated()),
        x: axis(),
        y: ("million lookups per second", Axis::linear(0.0, highest(&series), number)),
        series,
        marks: 1,
    };
    Figure {
        name: format!("cache-{}", drawn.name().replace([' ', '.'], "-")),
        caption: "More is better. The other designs have no such table: dashed, for comparison.",
        svg: chart.svg(),
    }
}

fn hits(report: &Report) -> Figure {
    let series = Drawn::ALL.into_iter().enumerate().map(|(colour, drawn)| Line {
        name: drawn.name().to_owned(),
        style: Style { colour, dash: 0 },
        points: points(report, drawn, 1, "hits"),
    });
    let chart = Lines {
        title: "Lookups that copies answer",
        subtitle: "counted, not timed: lookups that read nothing of the medium",
        x: axis(),
        y: ("part of all lookups", Axis::linear(0.0, 1.0, number)),
        series: series.filter(|line| !line.points.is_empty()).collect(),
        marks: 1,
    };
    Figure {
        name: "cache-hits".into(),
        caption: "More is better: these lookups cost what DRAM costs, however slow the medium is.",
        svg: chart.svg(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::draw;
    use crate::figures::tests::well_formed;
    use crate::report::tests::samples;

    #[test]
    fn sizes_are_points_and_others_are_lines_beside() {
        let mut report = Report::default();
        report.setup.designs = vec!["reh".into(), "rewo".into()];
        report.setup.threads = vec![1];
        for drawn in Drawn::ALL {
            for part in PARTS {
                let metrics = [("ops_per_s", 2e6), ("hits", 0.25), ("bytes", 1048576.0)];
                let case = case_of(drawn.name(), part);
                report.rows.extend(samples("cache", "rewo", &case, 1, 1000, &metrics));
            }
            let metrics = [("ops_per_s", 4e6)];
            report.rows.extend(samples("cache", "reh", drawn.name(), 1, 1000, &metrics));
        }
        let figures = draw(&report);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["cache-uniform", "cache-zipf-0-99", "cache-hits"]);
        figures.iter().for_each(|figure| well_formed(&figure.file()));
        assert!(figures[0].svg.contains(">1/64<") && figures[0].svg.contains(">reh<"));
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in ["rewo    1/64    1.00", "2.00  25.0 %", "reh                         4.00"] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }
}
