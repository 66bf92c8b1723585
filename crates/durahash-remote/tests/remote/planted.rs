//! Faults of SepHash, each planted and found by the same schedules that the design itself passes.

use durahash_media::sim::seed;
use durahash_remote::planted::Fault::{self, *};
use durahash_remote::planted::plant;

use crate::common::schedule::{Plan, Totals, first_wrong};
use crate::deep;

/// Faults that are there together, the schedules in which they are looked for, a seed that shows them, and the
/// number of seeds, from 1 on, within which the deep run finds them.
type Case = (&'static [Fault], Shape, u64, u64);

/// Changes a plan that was drawn.
type Shape = fn(&mut Plan);

const LOOKS: &[Case] = &[
    (&[OffsetKept], any, 2, 100),
    (&[KnownByAddress], returning, 1, 100),
    (&[ComparedLate], any, 17, 100),
    (&[TogetherUnseen], together, 1, 300),
    (&[ZeroBuddy], splitting, 121, 500),
    (&[OtherIsFree], staying, 145, 300),
    (&[BehindFree], wide, 15, 300),
    (&[WindowIsAll], wide, 57, 100),
    (&[OldestFirst], any, 2, 100),
    (&[TombstonePassed], any, 2, 100),
    (&[RangeBare, RangeUnchecked], large, 1, 5),
];

const WRITES: &[Case] = &[
    (&[EntryFirst], any, 5, 100),
    (&[SwapUnseen], any, 2, 100),
    (&[SwapsUnseen], together, 3, 300),
    (&[RestFirst], grouped, 3, 100),
    (&[OrderAssumed], crowded, 13, 100),
    (&[TogetherAnywhere], ordered, 11, 300),
    (&[DecidedOnce], any, 2, 100),
    (&[OthersMerge], any, 7, 200),
    (&[TombstoneMerged], any, 1, 100),
    (&[KeysUncompared], any, 1, 100),
    (&[HintOfAny], any, 1, 100),
    (&[CommitWithMain], any, 2, 100),
];

const SPLITS: &[Case] = &[
    (&[SplitByHints], any, 72, 500),
    (&[DepthBitsKept], any, 1, 100),
    (&[BuddyWithHalves], splitting, 15, 200),
    (&[BuddyLast], any, 33, 1000),
    (&[NotAdopted], any, 19, 100),
    (&[LoserFrees], splitting, 65, 200),
    (&[DoubledFirst], splitting, 23, 200),
    (&[PendingOverlooked], splitting, 128, 500),
];

const EPOCHS: &[Case] = &[
    (&[ReusedAtOnce], any, 26, 200),
    (&[TwoEpochs], churning, 369, 1000),
    (&[RowIsLatest], returning, 1514, 3000),
    (&[RowsUnasked], any, 15, 500),
    (&[EpochOnce], joining, 1038, 2000),
    (&[Narrow, GuessStale], guessing, 251, 1000),
    (&[Narrow, TagOfRow], turning, 1, 5),
    (&[Narrow, WaitsHolding], turning, 1, 5),
    (&[Narrow, Unflushed], turning, 2, 1000),
    (&[Narrow, TurnsUnwaited], turning, 183, 200),
];

const SWEEPS: &[Case] = &[
    (&[RetiredUnfiltered], sweeping, 36, 100),
    (&[BagUnfiltered], sweeping, 1, 100),
    (&[ClaimUnwaited], sweeping, 375, 1000),
];

const RESTS: &[Case] =
    &[(&[RestsHolding], resting, 1, 100), (&[WokenUnregistered], resting, 1, 500)];

const LEASES: &[Case] = &[
    (&[Unfenced], any, 2, 100),
    (&[Unfenced, LeaseBefore, LeaseAfter], leased, 3, 300),
    (&[Unfenced, BeatWhenSeen], leased, 28, 300),
];

/// As they are drawn.
fn any(_: &mut Plan) {}

/// Clients that are all there from the beginning, and do not sweep.
fn staying(plan: &mut Plan) {
    (plan.sweepers, plan.coming_ns_max) = (0, 0);
}

/// Sets the entries of a CurSegment and of a MainSegment, the largest depth of the directory and the first.
fn sizes(plan: &mut Plan, cur: u32, main: u32, max_depth: u32, first_depth: u32) {
    let options = &mut plan.options;
    (options.cur_entries, options.main_entries) = (cur, main);
    (options.max_depth, options.first_depth) = (max_depth, first_depth);
}

/// Windows that are less than a CurSegment.
fn wide(plan: &mut Plan) {
    (plan.options.cur_entries, plan.options.main_entries) = (24, 48);
    plan.clients = plan.clients.max(3);
}

/// MainSegments whose record points are not exact: those of more than 512 entries.
fn large(plan: &mut Plan) {
    sizes(plan, 64, 4096, plan.options.max_depth, 0);
    *plan = Plan { clients: 2, tasks: 3, ops: 500, keys: 1500, death_one_in: 0, ..plan.clone() };
}

/// Tasks of a client that append to the same segments.
fn crowded(plan: &mut Plan) {
    wide(plan);
    *plan = Plan { clients: 3, tasks: 4, lease_ns: None, ..plan.clone() };
}

/// The same over a fabric that orders their swaps.
fn ordered(plan: &mut Plan) {
    crowded(plan);
    plan.chaos.orders_swaps = true;
}

/// The same, with puts of several keys at once.
fn together(plan: &mut Plan) {
    ordered(plan);
    plan.many_one_in = 2;
}

/// The same, with more than go together.
fn grouped(plan: &mut Plan) {
    together(plan);
    (plan.many_max, plan.keys, plan.ops) = (200, 90, 8);
}

/// Splits, and deaths in the middle of them.
fn splitting(plan: &mut Plan) {
    sizes(plan, 4, 4, 6, 0);
    *plan = Plan { clients: 5, tasks: 1, keys: 60, ops: 60, death_one_in: 200, ..plan.clone() };
}

/// Segments that turn often, and memory that is used again soon.
fn churning(plan: &mut Plan) {
    staying(plan);
    sizes(plan, 2, 40, 1, 0);
    (plan.options.tick_ns, plan.options.wait_ns) = (2_000, 2_000);
    *plan = Plan { clients: 3, tasks: 2, readers: 1, keys: 3, ops: 20, ..plan.clone() };
    (plan.lease_ns, plan.death_one_in) = (None, 0);
    (plan.chaos.stall_one_in, plan.chaos.stall_ns_max) = (100, 100_000);
}

/// The same, with puts and lookups of several keys at once.
fn churning_together(plan: &mut Plan) {
    churning(plan);
    plan.many_one_in = 2;
}

/// The same with two keys, and a time by which all tasks have ended.
fn turning(plan: &mut Plan) {
    churning(plan);
    (plan.keys, plan.chaos.stall_one_in, plan.until_ns) = (2, 50, 200_000_000);
}

/// The same, with clients that are away for a while.
fn returning(plan: &mut Plan) {
    churning(plan);
    *plan = Plan { clients: 4, readers: 0, ops: 30, pause_ns_max: 500_000, ..plan.clone() };
    plan.chaos.stall_one_in = 0;
}

/// The same with two keys, over a fabric that orders swaps.
fn guessing(plan: &mut Plan) {
    returning(plan);
    (plan.chaos.orders_swaps, plan.keys) = (true, 2);
}

/// Segments that turn often, with clients that stand still while they join, and others that do while they read.
fn joining(plan: &mut Plan) {
    churning(plan);
    (plan.options.tick_ns, plan.options.chunk_bytes) = (10_000, 64);
    *plan = Plan { clients: 6, readers: 2, keys: 2, ops: 30, ..plan.clone() };
    plan.joining_ns_max = 2_000_000;
    (plan.chaos.stall_one_in, plan.chaos.stall_ns_max) = (60, 500_000);
    plan.chaos.delay_ns_max = 10_000;
}

/// Segments that turn often, sweeps all the time, and clients that come, leave and die.
fn sweeping(plan: &mut Plan) {
    churning(plan);
    *plan = Plan { clients: 6, readers: 0, sweepers: 2, keys: 6, ops: 60, ..plan.clone() };
    (plan.coming_ns_max, plan.death_one_in) = (1_000_000, 2000);
    plan.options.chunk_bytes = 4096;
}

/// The same, with clients that rest.
fn resting(plan: &mut Plan) {
    sweeping(plan);
    *plan = Plan { tasks: 1, rest_one_in: 4, pause_ns_max: 300_000, ..plan.clone() };
}

/// Clients that stand still for much longer than a lease.
fn leased(plan: &mut Plan) {
    plan.lease_ns = Some(200_000);
    // Nothing is free but what was in use.
    (plan.options.tick_ns, plan.options.chunk_bytes, plan.options.cur_entries) = (20_000, 64, 2);
    *plan = Plan { clients: 4, tasks: 3, ops: 60, keys: 4, death_one_in: 0, ..plan.clone() };
    (plan.chaos.stall_one_in, plan.chaos.stall_ns_max) = (50, 5_000_000);
}

/// The first of these schedules in which something goes wrong.
fn first(
    faults: &[Fault],
    shape: Shape,
    seeds: impl IntoIterator<Item = u64>,
) -> Option<(u64, String)> {
    plant(faults);
    let found = first_wrong(seeds, shape, &mut Totals::default());
    plant(&[]);
    found
}

fn all_are_found(cases: &[Case]) {
    println!("{} faults", cases.len());
    let mut missed = Vec::new();
    for &(faults, shape, known, seeds) in cases {
        let known = if deep() { None } else { Some(known) };
        let Some((seed, wrong)) =
            first(faults, shape, known.into_iter().chain(seed(1)..=seed(seeds)).chain(1..=seeds))
        else {
            missed.push((faults, seeds));
            continue;
        };
        println!("{faults:?}: seed {seed}, {}", wrong.lines().next().unwrap_or_default());
    }
    assert!(missed.is_empty(), "in so many schedules nothing was found: {missed:?}");
}

#[test]
fn every_fault_is_planted() {
    let cases = [LOOKS, WRITES, SPLITS, EPOCHS, SWEEPS, RESTS, LEASES].concat();
    for fault in Fault::ALL {
        assert!(cases.iter().any(|case| case.0.contains(fault)), "{fault:?} is not planted");
    }
}

#[test]
fn segments_seen_wrongly_are_found() {
    all_are_found(LOOKS);
}

#[test]
fn entries_and_merges_written_wrongly_are_found() {
    all_are_found(WRITES);
}

#[test]
fn splits_and_sweeps_that_are_wrong_are_found() {
    all_are_found(SPLITS);
}

#[test]
fn memory_and_generations_that_come_back_too_soon_are_found() {
    all_are_found(EPOCHS);
}

#[test]
fn sweeps_that_take_what_is_in_use_are_found() {
    all_are_found(SWEEPS);
}

#[test]
fn rests_that_are_wrong_are_found() {
    all_are_found(RESTS);
}

#[test]
fn leases_that_are_not_kept_are_found() {
    all_are_found(LEASES);
}

#[test]
fn nothing_is_found_without_a_fault() {
    let shapes: &[(&[Fault], Shape, u64)] = &[
        (&[], any, 100),
        (&[], wide, 100),
        (&[], ordered, 300),
        (&[], together, 300),
        (&[], grouped, 100),
        (&[], large, 3),
        (&[], splitting, 100),
        (&[], churning, 50),
        (&[], churning_together, 50),
        (&[], turning, 30),
        (&[], returning, 50),
        (&[], joining, 20),
        (&[], sweeping, 200),
        (&[], resting, 200),
        (&[], leased, 100),
        (&[Narrow], turning, 30),
        (&[Narrow], guessing, 100),
        (&[Unfenced], leased, 100),
    ];
    for &(faults, shape, seeds) in shapes {
        let seeds = if deep() { seeds } else { seeds.div_ceil(10) };
        assert_eq!(first(faults, shape, seed(1)..=seed(seeds)), None, "{faults:?}");
    }
}
