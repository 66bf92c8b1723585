//! Many clients over disordered verbs, with deaths at any of them: what was acknowledged is there, each key is
//! linearizable, survivors finish, leaks are within their bound.
//!
//! `DURAHASH_SEP_SCHEDULES` sets how many schedules are run, `DURAHASH_SEP_SEED` the first seed.

use durahash_media::sim::seed;

use crate::budget;
use crate::common::schedule::{Totals, first_wrong};

#[test]
fn schedules_are_linearizable_and_lose_nothing() {
    let count = budget("DURAHASH_SEP_SCHEDULES", 1000, 3000);
    let first = budget("DURAHASH_SEP_SEED", seed(1), seed(1));
    let mut totals = Totals::default();
    if let Some((seed, wrong)) = first_wrong(first..first + count, |_| (), &mut totals) {
        panic!("seed {seed}: {wrong}\nagain: DURAHASH_SEP_SEED={seed} DURAHASH_SEP_SCHEDULES=1");
    }
    println!("{count} schedules from {first}: {totals:#?}");
    if count >= 1000 {
        let Totals { merges, splits, lost, doublings, hops, deaths, .. } = totals;
        assert!(
            [merges, splits, lost, doublings, hops, deaths].iter().all(|&n| n > 0),
            "{totals:?}"
        );
    }
}
