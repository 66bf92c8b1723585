//! Figures of the suite of resizes in slices of time.

use super::Figure;
use crate::charts::{Line, Lines, Style, highest};
use crate::report::Report;
use crate::suites::resizing::{CASES, PARTS, SIDES, SLICE_MS};
use crate::svg::{Axis, number};

pub(super) fn all(report: &Report) -> Vec<Figure> {
    CASES.into_iter().filter_map(|case| slices(report, case)).collect()
}

fn slices(report: &Report, case: &str) -> Option<Figure> {
    let mut series = Vec::new();
    for (colour, side) in SIDES.into_iter().enumerate() {
        let rates = |part: &str| -> Vec<f64> {
            let metric = format!("{part} ops_per_s");
            let rows = report.table("slice");
            let rows =
                rows.filter(|row| row.design == side && row.case == case && row.metric == metric);
            rows.map(|row| row.value / 1e6).collect()
        };
        let [before, during, after] = PARTS.map(rates);
        // The resize begins with the first slice at 0.
        let mut from = -(before.len() as f64);
        let mut line = |name: String, dash, rates: &[f64]| {
            let ms = |i: usize| (from + i as f64) * SLICE_MS as f64;
            let points = rates.iter().enumerate().map(|(i, rate)| (ms(i), *rate)).collect();
            let style = Style { colour, dash };
            if !rates.is_empty() {
                series.push(Line { name, style, points });
            }
            from += rates.len() as f64;
        };
        line(format!("{side}, before"), 1, &before);
        line(format!("{side}, during"), 0, &during);
        line(format!("{side}, after"), 1, &after);
    }
    let times = || series.iter().flat_map(|line| &line.points).map(|(ms, _)| *ms);
    let (first, last) = (times().fold(0.0, f64::min), times().fold(1.0, f64::max));
    if series.is_empty() {
        return None;
    }
    let chart = Lines {
        title: &format!("Beside a resize: {case}"),
        subtitle: &format!("1 thread, {}{}", report.place(), report.emulated()),
        x: ("milliseconds from its begin", Axis::linear(first, last, number)),
        y: ("million operations per second", Axis::linear(0.0, highest(&series), number)),
        series,
        marks: 10,
    };
    Some(Figure {
        name: format!("resize-{}", case.replace(' ', "-")),
        caption: "More is better, and as much during the resize as before and after it is best. Inserts do \
                  the resize themselves; beside lookups another thread does it.",
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
    fn a_resize_is_a_line_between_two() {
        let mut report = Report::default();
        for side in ["rewo", "rewo, no cache"] {
            for (metric, count) in
                [("before ops_per_s", 3), ("during ops_per_s", 2), ("after ops_per_s", 3)]
            {
                for _ in 0..count {
                    let rows = samples("slice", side, "lookups", 1, 1000, &[(metric, 2e6)]);
                    report.rows.extend(rows);
                }
            }
            let metrics = [
                ("usual_per_s", 2e6),
                ("during_per_s", 1.9e6),
                ("ratio", 0.95),
                ("before_ms", 30.0),
                ("during_ms", 20.0),
                ("after_ms", 30.0),
            ];
            report.rows.extend(samples("slices", side, "lookups", 1, 1000, &metrics));
        }
        let figures = draw(&report);
        assert_eq!(figures.len(), 1);
        assert_eq!(figures[0].name, "resize-lookups");
        well_formed(&figures[0].file());
        assert!(figures[0].svg.contains(">rewo, no cache, during<"));
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let line =
            "rewo            lookups    2.00    1.90      1.71   0.95   30 ms   20 ms  30 ms";
        assert!(text.contains(line), "{text}");
    }
}
