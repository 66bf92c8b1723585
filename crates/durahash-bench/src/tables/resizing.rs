//! The table of the suite of resizes in slices of time.

use super::{Table, texts};
use crate::report::{Report, Row};
use crate::suites::resizing::{CASES, SIDES, SLICE_MS};

pub(super) fn table(report: &Report) -> Table {
    let mut rows = Vec::new();
    for case in CASES {
        for side in SIDES {
            let find = |metric| report.find("slices", side, case, 1, metric);
            let Some(ratio) = find("ratio") else { continue };
            let rate = |row: Option<&Row>, value: fn(&Row) -> f64| {
                row.map_or_else(String::new, |row| format!("{:.2}", value(row) / 1e6))
            };
            let mut row = texts([side, case]);
            row.push(rate(find("usual_per_s"), |row| row.value));
            row.push(rate(find("during_per_s"), |row| row.value));
            row.push(rate(find("during_per_s"), |row| row.min));
            row.push(format!("{:.2}", ratio.value));
            row.extend(["before_ms", "during_ms", "after_ms"].map(|metric| {
                find(metric).map_or_else(String::new, |row| format!("{} ms", row.value))
            }));
            rows.push(row);
        }
    }
    Table {
        title: format!(
            "One thread beside a resize, million operations per second{}",
            report.emulated()
        ),
        note: format!(
            "Medians of slices of {SLICE_MS} ms: usual are those before the resize and after it; the \
             smallest is that of a slice of the resize. Inserts do the resize themselves; beside lookups \
             and updates another thread does it, by steps."
        ),
        header: texts([
            "design", "one does", "usual", "during", "smallest", "ratio", "before", "resize",
            "after",
        ]),
        names: 2,
        rows,
    }
}
