//! Faults of SepHash, each planted in a copy of its sources (`build/sep.rs`, `build.rs`) and found by the same
//! schedules that the design itself passes. The copy without a fault passes all of them, too.

#[allow(clippy::field_reassign_with_default, reason = "outside of it nothing else is possible")]
#[path = "../../durahash-remote/tests/remote/common/mod.rs"]
mod common;

/// Of the copy.
mod map {
    pub(crate) use crate::copy::map::{Compared, RemoteMap};
    pub(crate) use crate::copy::sep::Options;
}

#[allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    unused_imports,
    clippy::all,
    reason = "a copy, whose original is linted"
)]
mod copy {
    include!(concat!(env!("OUT_DIR"), "/planted-sep/mod.rs"));
}

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use common::schedule::{Plan, Totals, first_wrong};

/// Declares the faults, and a list of all.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What is wrong with a SepHash.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            const ALL: &[Fault] = &[$(Fault::$name,)*];
        }
    };
}

faults! {
    /// None yet: generations come round after 4 in place of 128 in entries, and of 256 in hints, and
    /// every commit waits for epochs in place of every 32nd.
    Narrow,
    /// None yet: a fabric that cannot shut an evicted client out.
    Unfenced,
    /// An append offset stays when word A is another.
    OffsetKept,
    /// What was seen of a segment is kept while the address of its MainSegment is the same.
    KnownByAddress,
    /// Word A is compared with what another coroutine has seen meanwhile.
    ComparedLate,
    /// A buddy that was read before word A was is taken for a split that did not happen.
    ZeroBuddy,
    /// Entries of any generation but this one are taken for free.
    OtherIsFree,
    /// Entries behind the first free one are used and kept.
    BehindFree,
    /// A CurSegment is taken to end where the window does.
    WindowIsAll,
    /// The oldest of a key's entries counts.
    OldestFirst,
    /// A lookup passes over tombstones.
    TombstonePassed,
    /// The record points' range is taken without what they may err by.
    RangeBare,
    /// A range of a MainSegment is not made longer where its ends do not show that it is whole.
    RangeUnchecked,
    /// The KV block is written after its entry.
    EntryFirst,
    /// A put is acknowledged whatever its swap came to.
    SwapUnseen,
    /// A conditional operation whose swap failed appends what it had decided.
    DecidedOnce,
    /// Nobody merges but who filled the segment.
    OthersMerge,
    /// A tombstone hides nothing from a merge.
    TombstoneMerged,
    /// A merge takes keys for different where a hint is missing.
    KeysUncompared,
    /// A hint of any generation is believed.
    HintOfAny,
    /// The commit of a merge is posted with the new MainSegment.
    CommitWithMain,
    /// Whether to split follows from how many hints have arrived.
    SplitByHints,
    /// The depth information of entries is not renewed after the fourth split.
    DepthBitsKept,
    /// The buddy is published with what it names, in one batch.
    BuddyWithHalves,
    /// A split is committed before its buddy is published.
    BuddyLast,
    /// Who finds a buddy there already goes on with its own.
    NotAdopted,
    /// Who loses a split frees what it published.
    LoserFrees,
    /// The directory's depth is greater before its second half is written.
    DoubledFirst,
    /// A sweep overlooks the upper half of a split that was not committed.
    PendingOverlooked,
    /// What is unlinked is used again at once.
    ReusedAtOnce,
    /// Or two epochs later.
    TwoEpochs,
    /// A row shows the epoch read last, whatever is under way.
    RowIsLatest,
    /// The epoch moves without regard to the others' rows.
    RowsUnasked,
    /// A client that registers does not read the epoch again.
    EpochOnce,
    /// An operation has the epoch that its client's row shows, not the one read last.
    TagOfRow,
    /// Who waits for a merge or an epoch holds its own.
    WaitsHolding,
    /// An epoch is shown before what was written unsignaled has landed.
    Unflushed,
    /// Generations turn without waiting for epochs.
    TurnsUnwaited,
    /// The lease is not looked at before a batch is posted.
    LeaseBefore,
    /// Nor after it is done.
    LeaseAfter,
    /// The lease counts from when a heartbeat was seen to arrive.
    BeatWhenSeen,
}

use Fault::*;

thread_local! {
    /// A bit for each fault of the maps of this thread.
    static PLANTED: Cell<u64> = const { Cell::new(0) };
}

/// Whether the maps of this thread have this fault.
fn planted(fault: Fault) -> bool {
    PLANTED.get() >> fault as u8 & 1 == 1
}

/// The bits of a generation that an entry has.
fn generation_bits() -> u16 {
    if planted(Narrow) { 3 } else { 127 }
}

/// Those that a hint has.
fn narrowed(generation: u8) -> u8 {
    if planted(Narrow) { generation & 3 } else { generation }
}

/// Faults that are there together, the schedules in which they are looked for, and the number of
/// seeds, from 1 on, within which they are found.
type Case = (&'static [Fault], fn(&mut Plan), u64);

const LOOKS: &[Case] = &[
    (&[OffsetKept], any, 100),
    (&[KnownByAddress], returning, 100),
    (&[ComparedLate], any, 100),
    (&[ZeroBuddy], splitting, 500),
    (&[OtherIsFree], any, 300),
    (&[BehindFree], wide, 300),
    (&[WindowIsAll], wide, 100),
    (&[OldestFirst], any, 100),
    (&[TombstonePassed], any, 100),
    (&[RangeBare, RangeUnchecked], large, 5),
];

const WRITES: &[Case] = &[
    (&[EntryFirst], any, 100),
    (&[SwapUnseen], any, 100),
    (&[DecidedOnce], any, 100),
    (&[OthersMerge], any, 200),
    (&[TombstoneMerged], any, 100),
    (&[KeysUncompared], any, 100),
    (&[HintOfAny], any, 100),
    (&[CommitWithMain], any, 100),
];

const SPLITS: &[Case] = &[
    (&[SplitByHints], any, 500),
    (&[DepthBitsKept], any, 100),
    (&[BuddyWithHalves], splitting, 200),
    (&[BuddyLast], any, 500),
    (&[NotAdopted], any, 100),
    (&[LoserFrees], splitting, 200),
    (&[DoubledFirst], splitting, 200),
    (&[PendingOverlooked], splitting, 500),
];

const EPOCHS: &[Case] = &[
    (&[ReusedAtOnce], any, 200),
    (&[TwoEpochs], churning, 300),
    (&[RowIsLatest], returning, 500),
    (&[RowsUnasked], any, 500),
    (&[EpochOnce], joining, 1500),
    (&[Narrow, TagOfRow], turning, 5),
    (&[Narrow, WaitsHolding], turning, 5),
    (&[Narrow, Unflushed], turning, 200),
    (&[Narrow, TurnsUnwaited], turning, 200),
];

const LEASES: &[Case] = &[
    (&[Unfenced], any, 100),
    (&[Unfenced, LeaseBefore, LeaseAfter], leased, 300),
    (&[Unfenced, BeatWhenSeen], leased, 300),
];

/// As they are drawn.
fn any(_: &mut Plan) {}

/// Windows that are less than a CurSegment.
fn wide(plan: &mut Plan) {
    plan.options.cur_entries = 24;
    plan.options.main_entries = 48;
    plan.clients = plan.clients.max(3);
}

/// MainSegments whose record points are not exact: those of more than 512 entries.
fn large(plan: &mut Plan) {
    plan.options.cur_entries = 64;
    plan.options.main_entries = 4096;
    plan.options.first_depth = 0;
    plan.clients = 2;
    plan.tasks = 3;
    plan.ops = 500;
    plan.keys = 1500;
    plan.death_one_in = 0;
}

/// Splits, and deaths in the middle of them.
fn splitting(plan: &mut Plan) {
    plan.options.cur_entries = 4;
    plan.options.main_entries = 4;
    plan.options.max_depth = 6;
    plan.options.first_depth = 0;
    plan.clients = 5;
    plan.tasks = 1;
    plan.keys = 60;
    plan.ops = 60;
    plan.death_one_in = 200;
}

/// Segments that turn often, and memory that is used again soon.
fn churning(plan: &mut Plan) {
    plan.options.cur_entries = 2;
    plan.options.main_entries = 40;
    plan.options.max_depth = 1;
    plan.options.first_depth = 0;
    plan.options.tick_ns = 2_000;
    plan.options.wait_ns = 2_000;
    plan.clients = 3;
    plan.tasks = 2;
    plan.readers = 1;
    plan.keys = 3;
    plan.ops = 20;
    plan.lease_ns = None;
    plan.death_one_in = 0;
    plan.chaos.stall_one_in = 100;
    plan.chaos.stall_ns_max = 100_000;
}

/// The same with two keys, and an end by which everybody has ended.
fn turning(plan: &mut Plan) {
    churning(plan);
    plan.keys = 2;
    plan.chaos.stall_one_in = 50;
    plan.until_ns = 200_000_000;
}

/// The same, with clients that are away for a while.
fn returning(plan: &mut Plan) {
    churning(plan);
    plan.clients = 4;
    plan.readers = 0;
    plan.ops = 30;
    plan.pause_ns_max = 500_000;
    plan.chaos.stall_one_in = 0;
}

/// The same, with clients that stand still while they join, and others that do while they read.
fn joining(plan: &mut Plan) {
    churning(plan);
    plan.options.tick_ns = 10_000;
    plan.options.chunk_bytes = 64;
    plan.clients = 6;
    plan.readers = 2;
    plan.keys = 2;
    plan.ops = 30;
    plan.joining_ns_max = 2_000_000;
    plan.chaos.stall_one_in = 60;
    plan.chaos.stall_ns_max = 500_000;
    plan.chaos.delay_ns_max = 10_000;
}

/// Clients that stand still for much longer than a lease.
fn leased(plan: &mut Plan) {
    plan.lease_ns = Some(200_000);
    plan.options.tick_ns = 20_000;
    // Nothing is free but what was in use.
    plan.options.chunk_bytes = 64;
    plan.options.cur_entries = 2;
    plan.clients = 4;
    plan.tasks = 3;
    plan.ops = 60;
    plan.keys = 4;
    plan.death_one_in = 0;
    plan.chaos.stall_one_in = 50;
    plan.chaos.stall_ns_max = 5_000_000;
}

/// The first of these schedules in which something goes wrong.
fn first(faults: &[Fault], shape: fn(&mut Plan), seeds: u64) -> Option<(u64, String)> {
    PLANTED.set(faults.iter().fold(0, |bits, &fault| bits | 1 << fault as u8));
    let found = first_wrong(1..seeds + 1, shape, &Rc::new(RefCell::new(Totals::default())));
    PLANTED.set(0);
    found
}

fn all_are_found(cases: &[Case]) {
    for &(faults, shape, seeds) in cases {
        let Some((seed, wrong)) = first(faults, shape, seeds) else {
            panic!("{faults:?}: nothing was found in {seeds} schedules")
        };
        println!("{faults:?}: seed {seed}, {}", wrong.lines().next().unwrap_or_default());
    }
}

#[test]
fn what_the_faults_change_is_in_the_sources() {
    assert!(
        copy::LOST.is_empty(),
        "build/sep.rs, of text that is gone:\n{}",
        copy::LOST.join("\n")
    );
    let cases = [LOOKS, WRITES, SPLITS, EPOCHS, LEASES].concat();
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
fn leases_that_are_not_kept_are_found() {
    all_are_found(LEASES);
}

#[test]
fn nothing_is_found_without_a_fault() {
    let shapes: &[Case] = &[
        (&[], any, 100),
        (&[], wide, 100),
        (&[], large, 3),
        (&[], splitting, 100),
        (&[], churning, 50),
        (&[], turning, 30),
        (&[], returning, 50),
        (&[], joining, 20),
        (&[], leased, 100),
        (&[Narrow], turning, 30),
        (&[Unfenced], leased, 100),
    ];
    for &(faults, shape, seeds) in shapes {
        assert_eq!(first(faults, shape, seeds), None, "{faults:?}");
    }
}
