//! Faults of the gate that the tests with loom plant, to see that they are caught.

#[cfg(all(test, loom))]
use std::{cell::Cell, io};

#[cfg(all(test, loom))]
use crate::primitive::{AtomicU64, Ordering, fence};

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
    /// A thread that changes a line of the epoch that is copied does not copy it.
    NotSaved,
    /// S3 has no second look at a mark.
    CopiedUnseen,
    /// S4 does not wait until each thread was seen outside.
    SavedUnseen,
    /// A thread tells readers in other processes that its epoch has stores when the line has its mark.
    ToldMarked,
    /// The same when the store is made.
    ToldStored,
    /// They are told that an epoch is on the disk before it is.
    ToldFirst,
    /// They look which epoch has stores before they look at the words.
    LookedFirst,
    /// They do not look behind that whose epochs these are.
    LookedUncounted,
}

/// True if this fault is planted.
#[inline(always)]
pub(super) fn planted(fault: Fault) -> bool {
    #[cfg(all(test, loom))]
    return is_planted(fault);
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
    make_barrier();
}

#[cfg(all(test, loom))]
std::thread_local! {
    /// Loom runs all threads of a model in the one that runs the test.
    pub(super) static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

#[cfg(all(test, loom))]
loom::lazy_static! {
    /// Barriers that were asked for, and the last one that the entrant has made.
    static ref ASKED: AtomicU64 = AtomicU64::new(0);
    static ref MADE: AtomicU64 = AtomicU64::new(0);
}

#[cfg(all(test, loom))]
pub(super) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Returns when the entrant has made a fence since the call, or runs no more.
#[cfg(all(test, loom))]
pub(super) fn barrier_everywhere() -> io::Result<()> {
    fence(Ordering::SeqCst);
    let asked = ASKED.load(Ordering::Relaxed) + 1;
    ASKED.store(asked, Ordering::Relaxed);
    while MADE.load(Ordering::Relaxed) < asked {
        loom::thread::yield_now();
    }
    fence(Ordering::SeqCst);
    Ok(())
}

#[cfg(all(test, loom))]
pub(super) fn make_barrier() {
    let asked = ASKED.load(Ordering::Relaxed);
    if asked > MADE.load(Ordering::Relaxed) {
        fence(Ordering::SeqCst);
        MADE.store(asked, Ordering::Relaxed);
    }
}

/// A thread that runs no more has made a barrier when it was taken off its processor.
#[cfg(all(test, loom))]
pub(super) fn ended() {
    fence(Ordering::SeqCst);
    MADE.store(u64::MAX, Ordering::Relaxed);
}
