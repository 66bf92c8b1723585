//! A counter that many threads change and few read.

use std::sync::atomic::{AtomicI64, AtomicU16, AtomicUsize, Ordering};

/// Threads that have a stripe of their own at a time.
pub(super) const STRIPES: usize = 16;

/// One stripe to a pair of cache lines, since lines are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Stripe(pub(super) AtomicI64);

/// A sum over stripes. A thread that has one of its own adds to it without a locked instruction; those for which there
/// was none share the upper half.
#[derive(Default)]
pub(crate) struct Counter([Stripe; 2 * STRIPES]);

/// The stripe of a thread, which another one gets when it ends.
struct Claim(usize);

thread_local! {
    static CLAIM: Claim = Claim::new();
}

/// The stripes that threads have, a bit for each.
static TAKEN: AtomicU16 = AtomicU16::new(0);

impl Claim {
    fn new() -> Self {
        static SHARING: AtomicUsize = AtomicUsize::new(0);
        loop {
            let stripe = TAKEN.load(Ordering::Relaxed).trailing_ones() as usize;
            if stripe == STRIPES {
                return Claim(STRIPES + SHARING.fetch_add(1, Ordering::Relaxed) % STRIPES);
            }
            // What the thread has stored there that had it before is seen from here on.
            if TAKEN.fetch_or(1 << stripe, Ordering::Acquire) >> stripe & 1 == 0 {
                return Claim(stripe);
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.0 < STRIPES {
            TAKEN.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

/// The stripe of this thread: its own below [`STRIPES`].
#[inline]
pub(super) fn stripe() -> usize {
    // A thread that ends may have given its own back.
    CLAIM.try_with(|claim| claim.0).unwrap_or(STRIPES)
}

impl Counter {
    /// Adds durable changes only: a crash does not take back a number that was seen before it.
    #[inline]
    pub(crate) fn add(&self, n: i64) {
        let stripe = stripe();
        let count = &self.0[stripe].0;
        // A reader of the sum sees earlier steps of this thread, such as a drain that was deferred.
        if stripe < STRIPES {
            count.store(count.load(Ordering::Relaxed).wrapping_add(n), Ordering::Release);
        } else {
            count.fetch_add(n, Ordering::Release);
        }
    }

    /// The sum: exact while no thread adds.
    pub(crate) fn get(&self) -> u64 {
        self.change().max(0) as u64
    }

    /// The same of a change that may be negative.
    pub(crate) fn change(&self) -> i64 {
        self.0.iter().fold(0, |sum, stripe| sum.wrapping_add(stripe.0.load(Ordering::Acquire)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// More threads at once than stripes, one generation after another.
    #[test]
    fn every_addition_counts() {
        let counter = Counter::default();
        let all = Barrier::new(3 * STRIPES);
        for _ in 0..3 {
            thread::scope(|scope| {
                for _ in 0..3 * STRIPES {
                    scope.spawn(|| {
                        counter.add(0);
                        all.wait();
                        (0..1000).for_each(|i| counter.add(1 + i % 2));
                    });
                }
            });
        }
        assert_eq!(counter.get(), 3 * 3 * STRIPES as u64 * 1500);
    }
}
