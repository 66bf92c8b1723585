//! The work of threads in the background for a pool, which pools on one disk share (`crew.rs`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::crew::{Seat, Work};
use super::process::Process;

/// The seats of a pool: in one crew for its checkpoints, and in `Interval` in one for its writes.
pub(super) struct Background {
    seats: Vec<Seat>,
    /// The process that has the threads: a fork's child has none.
    process: Process,
}

impl Background {
    pub(super) fn new(checkpointer: &Seat, writer: Option<&(Seat, Duration)>) -> Self {
        let mut seats = vec![checkpointer.clone()];
        seats.extend(writer.map(|(seat, _)| seat.clone()));
        Background { seats, process: Process::own() }
    }

    /// True if this process has the threads, and the mappings.
    pub(super) fn is_own(&self) -> bool {
        self.process == Process::own()
    }

    pub(super) fn stop(self) {
        if self.is_own() {
            self.seats.into_iter().for_each(Seat::give_up);
        }
    }
}

/// What may come to its end by a failure, and by nothing else that a thread in the background does.
pub(super) trait Fails: Send + Sync + 'static {
    fn fail(&self, e: &io::Error);
}

/// A step. One that panics, which only a bug makes it do, ends the writes of its pool and nothing else.
pub(super) fn work<T: Fails>(of: &Arc<T>, step: impl Fn(&T) + Send + Sync + 'static) -> Work {
    let of = Arc::clone(of);
    Arc::new(move || {
        if catch_unwind(AssertUnwindSafe(|| step(&of))).is_err() {
            of.fail(&io::Error::other("a thread in the background has panicked"));
        }
    })
}
