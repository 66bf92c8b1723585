//! The table of the suite of modes of durability.

use super::{Table, texts};
use crate::report::Report;
use crate::suites::durability::{BATCH, HIT, INSERT, KILLED, MODES, PUT_MANY, case_of};
use crate::svg::number;

/// What a mode survives, by the number that rows have for it.
const SURVIVES: [&str; 4] = [
    "",
    "survives kill -9, no system crash and no power cut",
    "survives kill -9; system crash and power cut but for the last moments",
    "survives kill -9, system crash and power cut",
];

pub(super) fn table(report: &Report) -> Table {
    let threads = &report.setup.threads;
    let most = threads.iter().copied().max().unwrap_or(1);
    // What is measured, threads, the metric, and what the column is called.
    let mut columns = Vec::new();
    columns.extend(threads.iter().map(|n| (INSERT, *n, "ops_per_s", format!("insert ×{n}"))));
    columns.push((PUT_MANY, 1, "ops_per_s", format!("put_many of {BATCH}")));
    columns.extend(threads.iter().map(|n| (HIT, *n, "ops_per_s", format!("hit ×{n}"))));
    columns.extend(threads.iter().map(|n| (INSERT, *n, "log_bytes", format!("log/insert ×{n}"))));
    columns.push((PUT_MANY, 1, "log_bytes", "log/put_many".into()));
    columns.push((KILLED, most, "open_ms", "open".into()));
    let mut rows = Vec::new();
    for design in &report.setup.designs {
        for (mode, _) in MODES {
            let find = |what, threads, metric| {
                report.find("durability", design, &case_of(what, mode), threads, metric)
            };
            let Some(survives) = find(PUT_MANY, 1, "survives") else { continue };
            let mut row = texts([design, mode]);
            row.extend(columns.iter().map(|(what, threads, metric, _)| {
                find(what, *threads, metric).map_or_else(String::new, |row| match *metric {
                    "ops_per_s" => number(row.value),
                    "log_bytes" => format!("{:.0} B", row.value),
                    _ => format!("{:.2} ms", row.value),
                })
            }));
            row.push(SURVIVES.get(survives.value as usize).copied().unwrap_or_default().into());
            rows.push(row);
        }
    }
    let mut header = texts(["design", "mode"]);
    header.extend(columns.into_iter().map(|(.., name)| name));
    header.push(String::new());
    let killed = report.table("durability").find(|row| row.metric == "lost");
    let killed = killed.map_or(0, |row| row.keys);
    Table {
        title: "Modes of durability, operations per second (×threads)".into(),
        note: format!(
            "interval: every 100 ms. put_many: all keys into an empty pool, {BATCH} at a time, by one \
             thread; then hits; then inserts one by one, as many as there are keys, or for half a second. \
             log: bytes that were written to it for each of them, in whole blocks. open: after kill -9 of a \
             process that had inserted some {} keys, all of which were found. Medians of {}.",
            super::grouped(killed),
            report.setup.repeats
        ),
        header,
        names: 2,
        rows,
    }
}

#[cfg(test)]
mod tests {
    use crate::report::Report;
    use crate::report::tests::samples;

    #[test]
    fn modes_are_rows_beside_one_another() {
        let mut report = Report::default();
        report.setup.designs = vec!["reh".into(), "pea".into()];
        report.setup.threads = vec![1, 2];
        for design in ["reh", "pea"] {
            for (mode, survives, log) in
                [("process", 1.0, 0.0), ("interval", 2.0, 106.4), ("strict", 3.0, 4096.0)]
            {
                let mut add = |what: &str, threads, metrics: &[(&str, f64)]| {
                    let case = format!("{what}, {mode}");
                    let rows = samples("durability", design, &case, threads, 1000, metrics);
                    report.rows.extend(rows);
                };
                let rates = [("ops_per_s", 7768.0), ("log_bytes", log)];
                add(
                    "put_many",
                    1,
                    &[("ops_per_s", 1.84e6), ("log_bytes", 90.0), ("survives", survives)],
                );
                for threads in [1, 2] {
                    add("hit", threads, &[("ops_per_s", 12.1e6)]);
                    add("insert", threads, &rates);
                }
                add("kill -9", 2, &[("lost", 0.0), ("open_ms", 1.5)]);
            }
        }
        let mut text = Vec::new();
        report.write_text(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in [
            "design  mode      insert ×1  insert ×2  put_many of 1000  hit ×1  hit ×2",
            "reh     strict         7768       7768             1.84M   12.1M   12.1M         4096 B",
            "1.50 ms  survives kill -9; system crash and power cut but for the last moments\n",
            "some 1,000 keys",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
    }
}
