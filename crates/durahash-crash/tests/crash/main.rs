//! The designs under the crash tester, and the tester itself on planted faults: one program, so that all of it
//! is compiled and linked once. How much is done: `durahash_media::sim::budget`.

mod blocks;
mod breaks;
mod cache_schedules;
mod checks;
mod designs;
mod live_model;
mod locks;
mod logged;
mod onlookers;
mod planted;
mod planted_batch;
mod planted_cache;
mod planted_esh;
mod planted_extents;
mod planted_pea;
mod planted_reh;
mod planted_rewo;
mod preempt;
mod schedules;
mod stage;
mod threads;
mod toy;
mod toy_table;

use durahash_media::sim::seed;

/// Seeds of scripts that come to all that is to be shown; of another run, as many of its own besides.
fn known(count: u64) -> impl Iterator<Item = u64> {
    (0..count).chain((seed(0)..seed(count)).filter(move |seed| *seed >= count))
}
