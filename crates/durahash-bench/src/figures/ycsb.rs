//! Figures of the suite of YCSB's mixes.

use super::{Figure, View};
use crate::charts::{Bar, Bars};
use crate::report::Report;
use crate::svg::three_digits;

pub(super) fn all(report: &Report) -> Vec<Figure> {
    View::all(report).iter().filter_map(|view| throughput(report, view)).collect()
}

fn throughput(report: &Report, view: &View) -> Option<Figure> {
    report.table("ycsb").next()?;
    let chart = Bars {
        title: "YCSB over the keys that there are",
        subtitle: &view.subtitle,
        axis: "million operations per second",
        show: three_digits,
        series: view.names(),
        groups: view.groups(report, "ycsb", |design, case, threads| {
            let row = report.find("ycsb", design, case, threads, "ops_per_s")?;
            Some(Bar { value: row.value / 1e6, min: row.min / 1e6, max: row.max / 1e6 })
        }),
    };
    Some(Figure {
        name: format!("ycsb{}", view.suffix),
        caption: "More is better. A: half reads, half updates; B: 95 % reads; C: reads. Bars are medians of \
                  the repeats, whiskers reach from the slowest to the fastest of them.",
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
    fn mixes_are_groups_of_bars() {
        let mut report = Report::default();
        report.setup.designs = vec!["reh".into(), "rewo".into()];
        report.setup.threads = vec![1, 2];
        for design in ["reh", "rewo"] {
            for (case, threads) in [("A, uniform", 1), ("A, zipf 0.99", 1), ("A, uniform", 2)] {
                let metrics = [("ops_per_s", 2e6)];
                report.rows.extend(samples("ycsb", design, case, threads, 1000, &metrics));
            }
        }
        let figures = draw(&report);
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names, ["ycsb-1", "ycsb-2"]);
        figures.iter().for_each(|figure| well_formed(&figure.file()));
        assert!(figures[0].svg.contains(">A, zipf 0.99<"));
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("A, uniform      2.00     2.00    2.00     2.00"), "{text}");
    }
}
