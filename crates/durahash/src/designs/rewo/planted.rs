//! Faults of Rewo-Hash that tests plant.

use crate::util::planted::faults;

faults! {
    /// The commit word may be durable before the slot.
    CommitFirst,
    /// Readers see a new payload before it is durable.
    SeenFirst,
    /// A move clears its slot before the copy is live.
    ClearedFirst,
    /// A move does not mark its slot.
    Unmarked,
    /// Recovery drops a slot that is leaving and has no double.
    MarkedDropped,
    /// Recovery keeps both slots of a move.
    BothKept,
    /// Recovery leaves the marks of moves.
    MarksStay,
    /// The cursor is behind a bucket before that is empty.
    CursorFirst,
    /// Operations leave out buckets that the walk over the sources has yet to come to.
    PassedFirst,
    /// They leave out those that a walk before had passed.
    PassedKept,
    /// The root names a block of tables that is not durable.
    RootFirst,
    /// The space of a table is given back while the block of tables names it.
    GivenUpFirst,
    /// A copy in DRAM is changed before its slot is durable.
    CopyFirst,
    /// A copy in DRAM is not changed with its slot.
    CopyKept,
    /// A copy in DRAM stays when its slot is removed.
    CopyOutlives,
    /// A copy in DRAM is made without a look at the version of the bucket that it was read from.
    FilledUnseen,
    /// A bucket of the cached table is believed to have everything when a copy of it has given way, or was not made.
    OverflowKept,
    /// A copy stays where the cached table had it when it had another size.
    Unswept,
    /// Readers see what a thread has copied before the writer has made it durable.
    SyncedEarly,
    /// A thread copies what its writer has taken back since, and others have changed again.
    SyncedLate,
    /// Readers do not look at the tables again.
    TablesOnce,
    /// Writers do not.
    TablesOnceToWrite,
    /// The tables are switched without passing through all locks.
    NotPassed,
    /// Changes of one entry are not counted for readers in other processes.
    EntryUncounted,
    /// Moves are not.
    MoveUncounted,
    /// A walk in another process does not ask what was moved meanwhile.
    MovedUnseen,
}
