//! Faults of SepHash that tests plant, to prove that they would be found.
//!
//! The design calls `planted` where a fault may be. Without the cargo feature `planted` the answer is constant, and
//! nothing of the call remains. With it, as the tests of this crate are built, `plant` sets the faults of the maps of
//! a thread. A simulated world runs on one thread.

use std::cell::Cell;

durahash_media::listed! {
    /// A fault of the maps of a thread.
    pub enum Fault {
        /// None yet: generations come round after 4 in place of 128 in entries, and of 256 in hints, and
        /// every commit waits for epochs in place of every 32nd.
        Narrow,
        /// None yet: a fabric that cannot shut an evicted client out.
        Unfenced,
        /// An append offset stays when word A is another.
        OffsetKept,
        /// A cached segment counts while the address of its MainSegment is the same.
        KnownByAddress,
        /// Word A is compared with what another coroutine has seen meanwhile.
        ComparedLate,
        /// A buddy that was read before word A was is taken for a split that did not happen.
        ZeroBuddy,
        /// A lookup that goes with others believes what was cached, whatever word A says.
        TogetherUnseen,
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
        /// A put is acknowledged although its swap failed.
        SwapUnseen,
        /// Or one of several that went together.
        SwapsUnseen,
        /// Of several puts of one key at once, the second is not kept back until the first has ended.
        RestFirst,
        /// Several appends of a client are under way in a segment although the fabric does not order their swaps.
        OrderAssumed,
        /// What a swap publishes is posted with it, wherever it lies.
        TogetherAnywhere,
        /// An append without a look relies on what was seen long before.
        GuessStale,
        /// A conditional operation whose swap failed appends what it had decided.
        DecidedOnce,
        /// Only the client that filled a segment merges it.
        OthersMerge,
        /// A tombstone hides nothing from a merge.
        TombstoneMerged,
        /// A merge takes keys for different where a hint is missing.
        KeysUncompared,
        /// A hint of any generation is believed.
        HintOfAny,
        /// The commit of a merge is posted with the new MainSegment.
        CommitWithMain,
        /// The hints that have arrived decide whether to split.
        SplitByHints,
        /// The depth information of entries is not renewed after the fourth split.
        DepthBitsKept,
        /// The buddy is published with what it names, in one batch.
        BuddyWithHalves,
        /// A split is committed before its buddy is published.
        BuddyLast,
        /// A client that finds a buddy published goes on with its own.
        NotAdopted,
        /// The loser of a split frees the buddy that it published.
        LoserFrees,
        /// The directory's depth is greater before its second half is written.
        DoubledFirst,
        /// A sweep overlooks the upper half of a split that was not committed.
        PendingOverlooked,
        /// Unlinked memory is used again at once.
        ReusedAtOnce,
        /// Or two epochs later.
        TwoEpochs,
        /// A row shows the epoch read last, in spite of older operations under way.
        RowIsLatest,
        /// The epoch moves without regard to the others' rows.
        RowsUnasked,
        /// A client that registers does not read the epoch again.
        EpochOnce,
        /// An operation has the epoch that its client's row shows, not the one read last.
        TagOfRow,
        /// An operation holds its epoch while it waits for a merge or an epoch.
        WaitsHolding,
        /// An epoch is shown before what was written unsignaled has landed.
        Unflushed,
        /// Generations turn without waiting for epochs.
        TurnsUnwaited,
        /// A client that knows a claim keeps what it retires in the windows.
        RetiredUnfiltered,
        /// Or what it finds there in a bag.
        BagUnfiltered,
        /// The walk begins with the claim.
        ClaimUnwaited,
        /// A client that rests keeps its memory.
        RestsHolding,
        /// A client that wakes does not take its row again.
        WokenUnregistered,
        /// The lease is not looked at before a batch is posted.
        LeaseBefore,
        /// Nor after it is done.
        LeaseAfter,
        /// The lease counts from when a heartbeat was seen to arrive.
        BeatWhenSeen,
    }
}

thread_local! {
    /// A bit for each fault.
    static PLANTED: Cell<u64> = const { Cell::new(0) };
}

/// From now on the maps of this thread have these faults, and no others.
#[cfg(feature = "planted")]
pub fn plant(faults: &[Fault]) {
    PLANTED.set(faults.iter().fold(0, |bits, &fault| bits | 1 << fault as u8));
}

/// Returns whether the maps of this thread have this fault.
pub(crate) fn planted(fault: Fault) -> bool {
    cfg!(feature = "planted") && PLANTED.get() >> fault as u8 & 1 == 1
}

/// The bits of a generation that an entry has.
pub(crate) fn generation_bits() -> u16 {
    if planted(Fault::Narrow) { 3 } else { 127 }
}

/// The part of a generation that a hint has.
pub(crate) fn hint_generation(generation: u16) -> u8 {
    generation as u8 & if planted(Fault::Narrow) { 3 } else { 255 }
}
