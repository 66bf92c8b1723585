//! Faults of recovery by ranges, and of what readers in other processes rely on, that tests plant.

use crate::util::planted::faults;

faults! {
    /// A merge leaves the word of the upper bucket.
    WordKept,
    /// It clears the word after its commit.
    ClearedLate,
    /// It commits before the cleared word is durable.
    ClearedUnfenced,
    /// It leaves copies of what a split had moved on, which its depth covers again.
    CopiesKept,
    /// It takes the directory's lock after its commit.
    LockedLate,
    /// A split stores the word before the link of the new bucket.
    WordFirst,
    /// It stores the word when that link is not durable yet.
    WordUnfenced,
    /// A thread that has walked a range does not ask again if others have made it.
    NoSecondLook,
    /// The sweep takes every bucket for free that the directory does not name.
    FreeByName,
    /// Extents that are taken before the sweep is through are not counted.
    Uncounted,
    /// An open does not make the front as deep as it was.
    FrontShallow,
    /// A directory is out of proportion to the buckets that were met.
    SkewedEarly,
    /// The directory is halved before all buckets were met.
    HalvedEarly,
    /// Changes of one entry are not counted for readers in other processes.
    EntryUncounted,
    /// Splits are not.
    SplitUncounted,
    /// Merges are not.
    MergeUncounted,
}
