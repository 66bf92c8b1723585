//! Figures of the suite of YCSB's mixes.

use super::{Figure, View, rates};
use crate::report::Report;

pub(super) fn all(report: &Report) -> Vec<Figure> {
    View::all(report).iter().filter_map(|view| throughput(report, view)).collect()
}

fn throughput(report: &Report, view: &View) -> Option<Figure> {
    let caption = "More is better. A: half reads, half updates; B: 95 % reads; C: reads. Bars are medians of \
                   the repeats, whiskers reach from the slowest to the fastest of them.";
    rates(report, view, "ycsb", "YCSB over the keys that there are", caption)
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
