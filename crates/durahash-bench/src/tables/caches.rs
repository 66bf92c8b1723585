//! The table of the suite of cached tables.

use super::{Table, texts};
use crate::report::Report;
use crate::suites::caches::{PARTS, case_of, part_name};
use crate::workload::skew::Drawn;

/// The design that has such a table.
const CACHING: &str = "rewo";

pub(super) fn table(report: &Report) -> Table {
    let threads = &report.setup.threads;
    let mut header = texts(["design", "copies", "MiB"]);
    for drawn in Drawn::ALL {
        header.extend(threads.iter().map(|n| format!("{} ×{n}", drawn.name())));
        header.push("hits".into());
    }
    let find = |design: &str, case: &str, n: u64, metric: &str| {
        report.find("cache", design, case, n, metric).map(|row| row.value)
    };
    let line = |design: &str, part: Option<u64>| {
        let case = |drawn: Drawn| match part {
            Some(part) => case_of(drawn.name(), part),
            None => drawn.name().to_owned(),
        };
        let mut row = texts([design]);
        row.push(part.map_or_else(String::new, part_name));
        let bytes = find(design, &case(Drawn::Uniform), 1, "bytes");
        row.push(bytes.map_or_else(String::new, |b| format!("{:.2}", b / f64::from(1 << 20))));
        for drawn in Drawn::ALL {
            for n in threads {
                let rate = find(design, &case(drawn), *n, "ops_per_s");
                row.push(rate.map_or_else(String::new, |rate| format!("{:.2}", rate / 1e6)));
            }
            let hits = find(design, &case(drawn), 1, "hits");
            row.push(hits.map_or_else(String::new, |hits| format!("{:.1} %", hits * 100.0)));
        }
        row
    };
    let mut rows = Vec::new();
    if report.table("cache").next().is_some() {
        rows.extend(PARTS.map(|part| line(CACHING, Some(part))));
        let others = report.setup.designs.iter().filter(|design| *design != CACHING);
        rows.extend(others.map(|design| line(design, None)));
    }
    Table {
        title: format!(
            "Lookups by the size of the table of copies, million per second (×threads{})",
            report.emulated()
        ),
        note: format!(
            "The most that the copies take, as a part of the tables, and in MiB; keys are drawn uniformly, \
             or by Zipf's law over all keys. Medians of {}, after one round that makes copies. Hits: lookups \
             that read nothing of the medium, counted in memory with one thread.",
            report.setup.repeats
        ),
        header,
        names: 2,
        rows,
    }
}
