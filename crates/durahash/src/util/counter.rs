//! A counter that many threads change and few read.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

pub(super) const STRIPES: usize = 16;

/// One stripe to a pair of cache lines, since lines are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Stripe(pub(super) AtomicI64);

/// A sum over stripes: a thread adds to its own one.
#[derive(Default)]
pub(crate) struct Counter([Stripe; STRIPES]);

thread_local! {
    pub(super) static STRIPE: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES)
    };
}

impl Counter {
    /// Adds durable changes only: a crash does not take back a number that was seen before it.
    pub(crate) fn add(&self, n: i64) {
        // A reader of the sum sees earlier steps of this thread, such as a drain that was deferred.
        self.0[STRIPE.get()].0.fetch_add(n, Ordering::Release);
    }

    /// The sum: exact while no thread adds.
    pub(crate) fn get(&self) -> u64 {
        self.change().max(0) as u64
    }

    /// The same of a change that may be negative.
    pub(crate) fn change(&self) -> i64 {
        self.0.iter().map(|stripe| stripe.0.load(Ordering::Acquire)).sum()
    }
}
