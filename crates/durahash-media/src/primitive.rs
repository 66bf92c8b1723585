//! Atomics and waiting, in one place so that loom can swap them (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. No thread panics while it holds one, or it leaves whole steps only.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(any(test, feature = "sim"))]
thread_local! {
    static TAKES_TURNS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Says that what this thread waits for runs in this thread, too, at the calls of a [`Hook`](crate::sim::Hook): it
/// gives the processor to no other.
#[cfg(any(test, feature = "sim"))]
pub fn take_turns() {
    TAKES_TURNS.set(true);
}

/// Gives the processor to another thread.
pub(crate) fn give_way() {
    #[cfg(any(test, feature = "sim"))]
    if TAKES_TURNS.get() {
        return;
    }
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::yield_now();
}

/// One round of waiting for another thread: a few spins, then the processor is given away.
pub(crate) struct Backoff(u32);

impl Backoff {
    pub(crate) fn new() -> Self {
        Backoff(0)
    }

    pub(crate) fn wait(&mut self) {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        if self.0 < 6 {
            for _ in 0..1 << self.0 {
                std::hint::spin_loop();
            }
        } else {
            give_way();
        }
        self.0 = self.0.saturating_add(1);
    }
}

/// A time that passes; under loom, where there is none, after a few questions.
pub(crate) struct Watch {
    #[cfg(loom)]
    asked: std::cell::Cell<u32>,
    #[cfg(not(loom))]
    began: std::time::Instant,
}

impl Watch {
    pub(crate) fn start() -> Self {
        Watch {
            #[cfg(loom)]
            asked: std::cell::Cell::new(0),
            #[cfg(not(loom))]
            began: std::time::Instant::now(),
        }
    }

    /// True once so much time has passed.
    pub(crate) fn has_passed(&self, time: std::time::Duration) -> bool {
        #[cfg(loom)]
        return self.asked.replace(self.asked.get() + 1) >= 1 && !time.is_zero();
        #[cfg(not(loom))]
        return self.began.elapsed() > time;
    }

    /// Sleeps for as long as it has run.
    pub(crate) fn rest_as_long(&self) {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(not(loom))]
        std::thread::sleep(self.began.elapsed());
    }
}

/// Sleeps for so long.
pub(crate) fn rest(time: std::time::Duration) {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::thread::sleep(time);
    let _ = time;
}

/// Lets the processor know that this thread waits.
pub(crate) fn spin() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}
