//! Two copies of a segment's entries, in miniature: the protocol of `docs/replication.md`.
//!
//! Clients append values to a log of words and read it, on a primary and a backup. Each verb takes effect at an instant of
//! its own, in any order; clients die between any two instants with their verbs under way done or not; once, a
//! node is excluded by a new view, whether it is dead or only cut off from those who decide that.
//!
//! Every rule is a switch: with all of them no schedule violates the log, without any one of them some does.

mod run;

use run::{Rule, run};

/// What schedules found, of this many from seed 0 on.
fn first_violation(without: Option<Rule>, runs: u64) -> Option<(u64, String)> {
    (0..runs).find_map(|seed| run(seed, without).err().map(|what| (seed, what)))
}

#[test]
fn nothing_is_found() {
    let runs = super::budget("DURAHASH_COPIES_RUNS", 5_000, 1_000_000);
    assert_eq!(first_violation(None, runs), None);
}

#[test]
fn each_rule_is_needed() {
    for rule in Rule::ALL {
        let found = first_violation(Some(rule), 20_000);
        let (seed, what) = found.unwrap_or_else(|| panic!("nothing is found without {rule:?}"));
        println!("{rule:?}: seed {seed}: {what}");
    }
}
