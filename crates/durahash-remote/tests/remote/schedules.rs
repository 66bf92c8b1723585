//! Many clients over disordered verbs, with deaths at any of them: what was acknowledged is there, each key is
//! linearizable, survivors finish, leaks are within their bound.
//!
//! `DURAHASH_SEP_SCHEDULES` sets how many schedules are run, `DURAHASH_SEP_SEED` the first seed.

use durahash_media::sim::seed;

use crate::budget;
use crate::common::schedule::{Plan, Totals, first_wrong};

#[test]
fn schedules_are_linearizable_and_lose_nothing() {
    let count = budget("DURAHASH_SEP_SCHEDULES", 1000, 3000);
    let first = budget("DURAHASH_SEP_SEED", seed(1), seed(1));
    let mut totals = Totals::default();
    // Every other one over a fabric that orders swaps.
    for orders in [false, true] {
        let seeds = (first..first + count).filter(|seed| count == 1 || (seed % 2 == 1) == orders);
        let shape = |plan: &mut Plan| {
            plan.chaos.orders_swaps = orders && plan.lease_ns.is_none();
            if [1, 3].contains(&(plan.options.seed % 8)) {
                plan.many_one_in = 3;
            }
            if plan.options.seed % 64 == 3 {
                (plan.keys, plan.many_max, plan.ops) = (150, 200, 10);
            }
            if plan.options.seed % 8 < 2 {
                plan.rest_one_in = 6;
            }
        };
        if let Some((seed, wrong)) = first_wrong(seeds, shape, &mut totals) {
            panic!(
                "seed {seed}, orders swaps: {orders}: {wrong}\nagain: DURAHASH_SEP_SEED={seed} DURAHASH_SEP_SCHEDULES=1"
            );
        }
    }
    println!("{count} schedules from {first}: {totals:#?}");
    if count >= 1000 {
        let Totals { merges, splits, lost, doublings, hops, deaths, .. } = totals;
        let Totals { batches, batches_parted, batches_full, grouped, looks_together, .. } = totals;
        let together = [batches, batches_parted, batches_full, grouped, looks_together];
        let counts = [merges, splits, lost, doublings, hops, deaths].into_iter();
        assert!(counts.chain(together).all(|n| n > 0), "{totals:?}");
    }
}
