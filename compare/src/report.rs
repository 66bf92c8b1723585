//! Rows of a report: the kills, and the targets. `durahash-bench` has their tables.

use durahash_bench::{About, Row};

use crate::catalog::{DISK, DRAM, PEA_DISK, PEA_SHARED, SHARED};
use crate::survive::Tried;

/// The kills of each store and mode.
pub(crate) fn survival(tried: &[Tried]) -> Vec<Row> {
    let of_one = |this: &Tried| {
        let left = this.left.as_deref().unwrap_or_default();
        let (design, case) = (this.store.name, this.mode.name);
        let keys = left.iter().map(|left| left.acknowledged).sum();
        let about = About { table: "survives", design, case, threads: 1, keys };
        let lost: Vec<f64> = left.iter().map(|left| left.lost as f64).collect();
        let open: Vec<f64> = left.iter().map(|left| left.open.as_secs_f64() * 1e3).collect();
        [
            about.row("survives", &[f64::from(u8::from(this.survives()))]),
            about.row("lost", &lost),
            about.row("open_ms", &open),
        ]
    };
    tried.iter().flat_map(of_one).collect()
}

/// A row of a table.
fn find<'a>(rows: &'a [Row], of: &About<'_>) -> Option<&'a Row> {
    rows.iter().find(|row| {
        let is = (&*row.table, &*row.design, &*row.case, row.threads);
        is == (of.table, of.design, of.case, of.threads as u64)
    })
}

/// A target, what came of it, and 1 if it is reached, else 0. Ratios reach what is wanted from below, seconds from above.
pub(crate) fn target(about: &About<'_>, metric: &str, is: f64, wanted: f64) -> [Row; 3] {
    let is_reached = if metric == "seconds" { is < wanted } else { is >= wanted };
    [(metric, is), ("wanted", wanted), ("reached", f64::from(u8::from(is_reached)))]
        .map(|(metric, value)| about.row(metric, &[value]))
}

/// Ratios to the best of the maps in memory, by data and operation.
const RATIOS: [(&str, &str, f64); 11] = [
    ("words", "hit", 1.0),
    ("words", "miss", 0.9),
    ("words", "insert", 0.7),
    ("strings", "hit", 0.8),
    ("strings", "miss", 1.0),
    ("strings", "get_many", 1.0),
    ("strings", "insert", 0.9),
    ("digests-16", "hit", 0.7),
    ("digests-16", "insert", 0.6),
    ("digests-32", "hit", 0.7),
    ("digests-32", "insert", 0.6),
];

/// The targets: ratios of medians of this run.
pub(crate) fn targets(rows: &[Row], threads: &[usize]) -> Vec<Row> {
    const MAPS: [&str; 4] = ["hashbrown, sharded", "dashmap", "papaya", "scc"];
    const STORES: [&str; 4] = ["LMDB", "redb", "fjall", "candystore"];
    let mut all = Vec::new();
    for &threads in threads {
        let mut ratio = |table: &str, design: &str, case: &str, peers: &[&str], wanted: f64| {
            let of = |design| About { table, design, case, threads, keys: 0 };
            let best = peers.iter().filter_map(|peer| find(rows, &of(peer)));
            let best = best.max_by(|a, b| a.value.total_cmp(&b.value));
            let Some((row, best)) = find(rows, &of(design)).zip(best) else { return };
            let case = &format!("{table}: {case} / {}", best.design);
            let about = About { table: "targets", design, case, threads, keys: row.keys };
            all.extend(target(&about, "ratio", row.value / best.value, wanted));
        };
        for (table, case, wanted) in RATIOS {
            ratio(table, DRAM, case, &MAPS, wanted);
        }
        for own in [SHARED, DISK] {
            for case in ["hit", "bulk insert"] {
                ratio("words", own, case, &STORES, 5.0);
            }
        }
    }
    for (design, wanted) in [(SHARED, 0.01), (DISK, 0.01), (PEA_SHARED, 0.01), (PEA_DISK, 0.01)] {
        let case = "open after kill -9";
        let about = About { table: "opening", design, case, threads: 1, keys: 0 };
        if let Some(row) = find(rows, &about) {
            let case = &format!("{} keys recovered after kill -9", row.keys);
            let about = About { table: "targets", design, case, threads: 1, keys: row.keys };
            all.extend(target(&about, "seconds", row.value / 1e3, wanted));
        }
    }
    all
}
