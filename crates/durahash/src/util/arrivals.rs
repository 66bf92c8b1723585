//! Counts threads on the way to a unit that they looked up. It may get another use as soon as none are left.

use std::sync::atomic::{AtomicI64, Ordering, fence};

use crate::util::counter::{STRIPES, Stripe, stripe};

/// How many threads are on the way, by stripes: a thread counts itself in one.
#[derive(Default)]
pub(crate) struct Arrivals([Stripe; 2 * STRIPES]);

/// A thread is on the way until this is dropped.
pub(crate) struct Arrival<'a>(&'a AtomicI64);

/// The stripes in which no thread was on the way at some moment since this was made.
#[derive(Default)]
pub(crate) struct Passed(u32);

impl Arrivals {
    /// The caller looks something up, and is on the way to it.
    #[inline]
    pub(crate) fn enter(&self) -> Arrival<'_> {
        let count = &self.0[stripe()].0;
        count.fetch_add(1, Ordering::SeqCst);
        if cfg!(not(target_arch = "x86_64")) {
            // A locked instruction of x86 is a fence.
            fence(Ordering::SeqCst);
        }
        Arrival(count)
    }

    /// True if every thread that was on the way when `passed` was made has arrived. A thread that looks something up
    /// after that finds what was stored before.
    pub(crate) fn have_passed(&self, passed: &mut Passed) -> bool {
        fence(Ordering::SeqCst);
        for (i, stripe) in self.0.iter().enumerate() {
            passed.0 |= u32::from(stripe.0.load(Ordering::SeqCst) == 0) << i;
        }
        passed.0 == u32::MAX
    }
}

impl Drop for Arrival<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_on_the_way_are_waited_for_and_later_ones_are_not() {
        const { assert!(2 * STRIPES == u32::BITS as usize) }
        let arrivals = Arrivals::default();
        assert!(arrivals.have_passed(&mut Passed::default()));
        let (first, again) = (arrivals.enter(), arrivals.enter());
        let mut passed = Passed::default();
        assert!(!arrivals.have_passed(&mut passed));
        drop(first);
        assert!(!arrivals.have_passed(&mut passed));
        // In another stripe.
        std::thread::scope(|scope| {
            let other = scope.spawn(|| std::mem::forget(arrivals.enter()));
            other.join().unwrap();
        });
        drop(again);
        assert!(arrivals.have_passed(&mut passed), "that stripe was empty before");
        assert!(!arrivals.have_passed(&mut Passed::default()));
    }
}
