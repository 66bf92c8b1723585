//! Rows of a report: the kills, and the targets. `durahash-bench` has their tables.

use durahash_bench::{About, Row};

use crate::catalog::{DISK, DRAM, PEA_DISK, PEA_DRAM, PEA_SHARED, SHARED};
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

fn find<'a>(rows: &'a [Row], name: &str, case: &str, threads: u64) -> Option<&'a Row> {
    let mut rows = rows.iter();
    rows.find(|row| row.design == name && row.case == case && row.threads == threads)
}

/// The best of some tables in a workload.
fn best<'a>(rows: &'a [Row], names: &[&str], case: &str, threads: u64) -> Option<&'a Row> {
    let found = names.iter().filter_map(|name| find(rows, name, case, threads));
    found.max_by(|a, b| a.value.total_cmp(&b.value))
}

/// A target, what came of it, and 1 if it is reached, else 0. Ratios reach what is wanted from below, seconds from above.
fn target(about: &About<'_>, metric: &str, is: f64, wanted: f64) -> [Row; 3] {
    let is_reached = if metric == "seconds" { is < wanted } else { is >= wanted };
    [(metric, is), ("wanted", wanted), ("reached", f64::from(u8::from(is_reached)))]
        .map(|(metric, value)| about.row(metric, &[value]))
}

/// The targets: ratios of medians of this run.
pub(crate) fn targets(words: &[Row], opening: &[Row], threads: &[usize]) -> Vec<Row> {
    const MAPS: [&str; 4] = ["hashbrown, sharded", "dashmap", "papaya", "scc"];
    const STORES: [&str; 4] = ["LMDB", "redb", "fjall", "candystore"];
    let mut all = Vec::new();
    for &threads in threads {
        let best = |names: &[&str], case| best(words, names, case, threads as u64);
        let mut ratio = |own: &'static str, case: &str, other: Option<&Row>, wanted: f64| {
            let Some((row, other)) = find(words, own, case, threads as u64).zip(other) else {
                return;
            };
            let against = if other.design == own { &other.case } else { &other.design };
            let case = &format!("{case} / {against}");
            let about = About { table: "targets", design: own, case, threads, keys: row.keys };
            all.extend(target(&about, "ratio", row.value / other.value, wanted));
        };
        ratio(DRAM, "hit", best(&MAPS, "hit"), 1.0);
        ratio(DRAM, "miss", best(&MAPS, "miss"), 0.9);
        ratio(PEA_DRAM, "hit", best(&MAPS, "hit"), 1.3);
        for case in ["miss", "insert"] {
            ratio(PEA_DRAM, case, best(&MAPS, case), 1.0);
        }
        for own in [DRAM, SHARED, DISK, PEA_DRAM] {
            ratio(own, "get_many", find(words, own, "hit", threads as u64), 2.5);
        }
        for own in [SHARED, DISK] {
            ratio(own, "hit", best(&STORES, "hit"), 5.0);
            ratio(own, "bulk insert", best(&STORES, "bulk insert"), 5.0);
        }
    }
    for (design, wanted) in [(SHARED, 0.3), (DISK, 0.3), (PEA_SHARED, 0.01), (PEA_DISK, 0.01)] {
        if let Some(row) = find(opening, design, "open after kill -9", 1) {
            let case = &format!("{} keys recovered after kill -9", row.keys);
            let about = About { table: "targets", design, case, threads: 1, keys: row.keys };
            all.extend(target(&about, "seconds", row.value / 1e3, wanted));
        }
    }
    all
}
