//! Faults of the gate that the tests with loom plant, to see that they are caught.

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(all(test, loom)), allow(dead_code, reason = "planted by tests with loom only"))]
pub(super) enum Fault {
    /// Step 1 is no exchange where entrants fence.
    PlainlyInside,
    /// Step 2 has no fence before its second look.
    PlainlyPassed,
    /// Step 2 has no second look.
    LookedOnce,
    /// There is no G2.
    NoBarrier,
    /// G3 has no fence.
    PlainlyClosed,
    /// G4 is no exchange.
    EndedByStore,
    /// Whoever changes a line of the epoch that is copied does not copy it.
    NotSaved,
    /// S3 has no second look at a mark.
    CopiedUnseen,
    /// S4 does not wait until each thread was seen outside.
    SavedUnseen,
}

/// True if this fault is planted.
#[inline(always)]
pub(super) fn planted(fault: Fault) -> bool {
    #[cfg(all(test, loom))]
    return super::loom::is_planted(fault);
    #[cfg(not(all(test, loom)))]
    {
        let _ = fault;
        false
    }
}

/// A place where the barrier of G2 may come to this thread, in the tests with loom. On a processor every place is one.
#[inline(always)]
pub(super) fn interrupted() {
    #[cfg(all(test, loom))]
    super::loom::interrupted();
}
