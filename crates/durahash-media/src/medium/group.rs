//! Group commit: one thread at a time writes, for all that wait.
//!
//! | Step | Thread | |
//! |---|---|---|
//! | its lines are staged | each | else no thread would write them |
//! | it *comes*: it is counted, and looks whether it is served or another thread writes | each | |
//! | it takes the turn if no thread writes, else it sleeps | each | |
//! | it *gathers*: waits a moment until as many have come as were there the last time | the holder of the turn | |
//! | it writes all that is staged | the same | |
//! | it gives the turn up and wakes the sleeping ones | the same | served or not, each looks again |
//!
//! Without the moment's wait the first of two threads whose operations were served by one write would
//! start the next write alone, before the other has woken up (some 20 µs, where a write takes 100), and
//! that one would wait for every second write: two threads would get no further than one.
//!
//! A thread that is served finds out without the turn, and without a lock that writing holds; and no thread
//! sleeps through the end of a write, as that is told under the lock under which they look.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::primitive::lock;

/// The part of a write's time that is waited for others to join the next one, at the most: a half.
const GATHERED: u32 = 2;
/// And no longer than this, whatever the last write took.
const GATHERED_MAX: Duration = Duration::from_millis(1);

/// Whose turn it is to write. See the module docs in the source.
pub(super) struct Group {
    /// True if a write is worth waiting a moment for others.
    gathers: bool,
    state: Mutex<State>,
    ended: Condvar,
    /// Threads that have come since the last write began.
    came: AtomicU64,
}

#[derive(Default)]
struct State {
    writing: bool,
    sleeping: u64,
    /// Threads that the last write served, and those that came meanwhile; and how long it took.
    crowd: u64,
    took: Duration,
}

/// The turn to write, given up when it is dropped.
pub(super) struct Turn<'a> {
    group: &'a Group,
    began: Instant,
    served: u64,
}

impl Group {
    pub(super) fn new(gathers: bool) -> Self {
        Group { gathers, state: Mutex::default(), ended: Condvar::new(), came: AtomicU64::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits for the turn to write, or until another's write has made `is_done` true: then there is none.
    pub(super) fn turn_unless(&self, is_done: &dyn Fn() -> bool) -> Option<Turn<'_>> {
        if is_done() {
            return None;
        }
        self.came.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        while state.writing {
            state.sleeping += 1;
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
            if is_done() {
                return None;
            }
        }
        // Its write may have ended before we looked.
        if is_done() {
            return None;
        }
        state.writing = true;
        let (crowd, moment) = (state.crowd, (state.took / GATHERED).min(GATHERED_MAX));
        drop(state);
        let start = Instant::now();
        while self.gathers && self.came.load(Ordering::Relaxed) < crowd && start.elapsed() < moment
        {
            std::thread::yield_now();
        }
        let served = self.came.swap(0, Ordering::Relaxed);
        Some(Turn { group: self, began: Instant::now(), served })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.group.state();
        state.writing = false;
        state.crowd = self.served + self.group.came.load(Ordering::Relaxed);
        state.took = self.began.elapsed();
        let sleeping = state.sleeping;
        drop(state);
        if sleeping > 0 {
            self.group.ended.notify_all();
        }
    }
}
