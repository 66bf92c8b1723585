//! Faults of caches that tests plant.

use crate::util::planted::faults;

faults! {
    /// An open does not know the latest time that the cache has seen.
    TimeForgotten,
    /// What goes is kept by a write of its own, before it is removed.
    KeptFirst,
    /// A place is found to be free, and counted later.
    CountedLate,
    /// What had expired is removed by its key, whatever its value is by then.
    RemovedByKey,
    /// What is kept is told of before it has left the cache.
    ToldEarly,
}
