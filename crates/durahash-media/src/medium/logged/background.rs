//! The work of threads in the background behind a log, which pools on one disk share (`crew.rs`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::disk::Disk;
use super::log::{Log, Wake};
use super::mode::SyncMode;
use crate::medium::crew::{Seat, Work};
use crate::medium::process::Process;

/// The seats of a log: in one crew for its checkpoints, and in `Interval` in one for its writes.
pub(super) struct Background {
    seats: Vec<Seat>,
    /// The process that has the threads: a fork's child has none.
    process: Process,
}

impl Background {
    pub(super) fn start<D: Disk + 'static>(log: &Arc<Log<D>>, mode: SyncMode) -> Self {
        let device = log.disk.device();
        let checkpointer = Seat::take(
            device,
            "durahash-check",
            work(log, |log| {
                while (log.is_half_full() || log.is_short()) && !log.has_failed() {
                    log.checkpoint();
                }
                if log.private.is_too_much() && !log.has_failed() {
                    log.give_back();
                }
            }),
        );
        let writer = match mode {
            SyncMode::Interval(every) => {
                // A shorter interval would make a thread that never rests.
                let every = every.max(Duration::from_millis(1));
                Some((Seat::take(device, "durahash-log", work(log, Log::write_due)), every))
            }
            SyncMode::Process | SyncMode::Strict => None,
        };
        let mut seats = vec![checkpointer.clone()];
        seats.extend(writer.as_ref().map(|(seat, _)| seat.clone()));
        let _ = log.wake.set(Wake { writer, checkpointer });
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

/// A step on a log. One that panics, which only a bug makes it do, ends the log and nothing else.
fn work<D: Disk + 'static>(
    log: &Arc<Log<D>>,
    step: impl Fn(&Log<D>) + Send + Sync + 'static,
) -> Work {
    let log = Arc::clone(log);
    Arc::new(move || {
        if catch_unwind(AssertUnwindSafe(|| step(&log))).is_err() {
            log.fail(&io::Error::other("a thread in the background has panicked"));
        }
    })
}
