//! The table of the suite of YCSB's mixes.

use super::{Table, texts};
use crate::report::Report;

pub(super) fn table(report: &Report) -> Table {
    let mut header = texts(["mix"]);
    for threads in &report.setup.threads {
        header.extend(report.setup.designs.iter().map(|design| format!("{design} ×{threads}")));
    }
    let mut spread: f64 = 0.0;
    let mut rows = Vec::new();
    for case in report.cases("ycsb") {
        let mut row = texts([case]);
        for threads in &report.setup.threads {
            for design in &report.setup.designs {
                let found = report.find("ycsb", design, case, *threads, "ops_per_s");
                row.push(found.map_or_else(String::new, |row| format!("{:.2}", row.value / 1e6)));
                spread = spread.max(found.map_or(0.0, |row| (row.max - row.min) / row.value));
            }
        }
        rows.push(row);
    }
    Table {
        title: format!(
            "YCSB over the keys that there are, million operations per second (×threads{})",
            report.emulated()
        ),
        note: format!(
            "A: 50 % read, 50 % replace values; B: 95 % and 5 %; C: read only. Medians of {}, after one \
             round to warm up. Widest spread: {:.0} % of the median.",
            report.setup.repeats,
            spread * 100.0
        ),
        header,
        names: 1,
        rows,
    }
}
