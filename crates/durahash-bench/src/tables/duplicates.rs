//! Tables of the suite of many values for each key.

use super::{Table, grouped, texts};
use crate::report::{Report, Row};
use crate::suites::duplicates::Operation;

const TABLE: &str = "duplicates";

/// The rows of a metric, one for each line of a table.
fn rows<'a>(report: &'a Report, metric: &'a str) -> impl Iterator<Item = &'a Row> {
    report.table(TABLE).filter(move |row| row.metric == metric)
}

pub(super) fn all(report: &Report) -> Vec<Table> {
    if report.table(TABLE).next().is_none() {
        return Vec::new();
    }
    vec![throughput(report), values(report), space(report)]
}

/// A line for each case, table and number of threads, with a cell for each metric.
fn lines(report: &Report, metrics: &[String]) -> Vec<Vec<String>> {
    let Some(first) = metrics.first() else {
        return Vec::new();
    };
    let lines = rows(report, first).map(|row| {
        let mut line = texts([&row.case, &row.design]);
        line.push(row.threads.to_string());
        line.extend(metrics.iter().map(|metric| {
            let found = report.find(TABLE, &row.design, &row.case, row.threads, metric);
            found.map_or_else(String::new, |row| format!("{:.2}", row.value / 1e6))
        }));
        line
    });
    lines.collect()
}

fn throughput(report: &Report) -> Table {
    let metrics: Vec<String> = Operation::ALL.iter().map(|operation| operation.per_s()).collect();
    let mut header = texts(["entries", "table", "threads"]);
    header.extend(Operation::ALL.map(|operation| operation.name().to_owned()));
    Table {
        title: format!(
            "Many values for each key, million operations per second{}",
            report.emulated()
        ),
        note: format!(
            "Medians of {}. Zipf: keys drawn from as many as there are entries; graph: sources are \
             keys. Get copies all values of the key of a random entry, or of each key once; count, \
             and remove all, of each key. Update: one value goes, another comes. Lists: a map from \
             the key to a list of its values.",
            report.setup.repeats
        ),
        header,
        names: 2,
        rows: lines(report, &metrics),
    }
}

fn values(report: &Report) -> Table {
    let of_all = || Operation::ALL.into_iter().filter(|operation| operation.of_all());
    let metrics: Vec<String> = of_all().map(Operation::values_per_s).collect();
    let mut header = texts(["entries", "table", "threads"]);
    header.extend(of_all().map(|operation| operation.name().to_owned()));
    Table {
        title: format!("The same, million values per second{}", report.emulated()),
        note: "What these operations read or remove, which is many values at once.".into(),
        header,
        names: 2,
        rows: lines(report, &metrics),
    }
}

fn space(report: &Report) -> Table {
    let lines = rows(report, "medium_bytes_per_entry").map(|row| {
        let find = |metric| {
            let found = report.find(TABLE, &row.design, &row.case, 1, metric);
            found.map_or(0.0, |row| row.value)
        };
        let mut line = texts([&row.case, &row.design]);
        for count in [row.keys as f64, find("keys"), find("longest"), find("lists")] {
            line.push(grouped(count as u64));
        }
        line.push(format!("{:.1}", row.value));
        line.push(format!("{:.3}", find("utility_medium")));
        line
    });
    Table {
        title: "Many values for each key, space".into(),
        note:
            "Longest: values of the key that has the most. In lists: keys whose values lie outside \
               of their buckets. Utility: 16 bytes for each entry over bytes in use on the medium, \
               over all adds."
                .into(),
        header: texts([
            "entries",
            "table",
            "count",
            "keys",
            "longest",
            "in lists",
            "bytes/entry",
            "utility",
        ]),
        names: 2,
        rows: lines.collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::report::Report;
    use crate::report::tests::samples;
    use crate::suites::duplicates::Operation;

    #[test]
    fn every_case_and_table_has_a_line() {
        let mut report = Report::default();
        for (scale, name) in [(1.0, "pea"), (2.0, "pea, lists")] {
            let mut rows = vec![("longest", 31.0), ("medium_bytes_per_entry", 28.0)];
            let metrics =
                Operation::ALL.map(|operation| (operation.per_s(), operation.values_per_s()));
            for (per_s, values_per_s) in &metrics {
                rows.extend([(per_s.as_str(), 3e6 * scale), (values_per_s.as_str(), 5e6 * scale)]);
            }
            report.rows.extend(samples("duplicates", name, "zipf 0.4", 1, 1000, &rows));
        }
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!((lines("zipf 0.4  pea "), lines("zipf 0.4  pea, lists")), (3, 3), "{text}");
        assert!(text.contains("10.00") && text.contains("28.0"), "{text}");
    }
}
