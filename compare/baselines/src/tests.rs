use std::cell::RefCell;

use super::*;

/// Remembers the progress that was reported.
#[derive(Default)]
struct Remembered(RefCell<Vec<(u64, u64)>>);

impl Progress for &Remembered {
    fn at(&mut self, done: u64, total: u64, what: &str) {
        assert!(!what.is_empty());
        self.0.borrow_mut().push((done, total));
    }
}

fn measured(line: &str) -> Report {
    let line = ["durahash-baselines"].into_iter().chain(line.split(' '));
    let remembered = Remembered::default();
    let report = measure(Cli::parse_from(line).command, &mut &remembered).unwrap().unwrap();
    let told = remembered.0.into_inner();
    assert!(told.is_sorted() && told.iter().all(|(done, total)| done <= total));
    assert!(!durahash_bench::figures::draw(&report).is_empty());
    report
}

/// Few keys, so that 128 clients meet in one segment; the assertions do not depend on that.
#[test]
fn simulated_nodes_say_so() {
    let report = measured("remote --keys 4000");
    assert!(report.rows.iter().all(|row| row.table.starts_with("simulated")));
    let find = |index: &str, case: &str, clients, metric: &str| {
        let row = report.find("simulated", index, case, clients, metric);
        row.unwrap_or_else(|| panic!("{metric} of {index}, {case}")).value
    };
    for index in ["sephash", "race"] {
        for clients in [1, 2, 4, 8, 16, 32, 64, 128] {
            for case in ["insert", "search"] {
                assert!(find(index, case, clients, "ops_per_s") > 0.0);
                assert!(find(index, case, clients, "p50_ns") > 3600.0);
            }
        }
        assert!((2.0..2.2).contains(&find(index, "search", 1, "round_trips")));
    }
    assert!((2.0..2.3).contains(&find("sephash", "insert", 1, "round_trips")));
    assert!((3.0..3.2).contains(&find("race", "update", 1, "round_trips")));
    assert!(report.to_html().contains("no measurement"));
}

#[test]
fn lists_have_one_for_each_key() {
    let report = measured("lists --keys 4000 --threads 1,2");
    for case in report.cases("duplicates") {
        let find = |design: &str, threads, metric: &str| {
            let row = report.find("duplicates", design, case, threads, metric);
            row.unwrap_or_else(|| panic!("{metric} of {design}, {case}")).value
        };
        for threads in [1, 2] {
            for metric in ["add per_s", "get by entry values_per_s", "remove all per_s"] {
                assert!(find("pea, lists", threads, metric) > 0.0);
            }
        }
        // A multimap has lists for the values that their bucket has no room for.
        assert_eq!(find("pea, lists", 1, "lists"), find("pea, lists", 1, "keys"));
        assert!(find("pea", 1, "lists") <= find("pea", 1, "keys"));
    }
}

/// What the papers state of lookups and of inserts that split nothing.
#[test]
fn tables_cost_what_their_papers_say() {
    let report = measured("tables --keys 20000");
    let find = |design: &str, case: &str, metric: &str| {
        let row = report.find("cost", design, case, 1, metric);
        row.unwrap_or_else(|| panic!("{metric} of {design}, {case}")).value
    };
    let within = |design, case, metric, range: std::ops::RangeInclusive<f64>| {
        let found = find(design, case, metric);
        assert!(range.contains(&found), "{metric} of {design}, {case}: {found}");
    };
    // A line is written, flushed and waited for; four that are probed are read.
    for metric in ["lines_written", "flushes", "waits"] {
        within("cceh", "insert", metric, 1.0..=1.0);
        within("cceh of two", "insert", metric, 1.0..=1.0);
    }
    within("cceh", "miss", "lines_read", 4.0..=4.0);
    within("cceh", "hit", "blocks_read", 1.0..=1.1);
    within("cceh of two", "miss", "lines_read", 7.0..=8.0);
    // Slot, then metadata, and some displacements; two buckets, and rarely the stash.
    within("dash", "insert", "flushes", 2.0..=2.2);
    within("dash", "insert", "waits", 2.0..=2.2);
    within("dash", "miss", "blocks_read", 2.0..=2.1);
    within("dash", "hit", "blocks_read", 1.0..=1.7);
    // Slot, then token, and some movements; four buckets at most. An update takes two waits where a slot is free.
    within("level", "insert", "flushes", 2.0..=2.5);
    within("level", "miss", "blocks_read", 3.9..=4.0);
    within("level", "hit", "blocks_read", 1.0..=2.5);
    within("level", "update", "waits", 1.0..=2.0);
    for design in ["cceh", "dash", "level"] {
        within(design, "remove", "waits", 1.0..=1.0);
    }
}
