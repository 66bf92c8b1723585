//! The work of threads in the background, which pools on one disk share (`crew.rs`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::core::{Core, Wake};
use super::disk::LiveDisk;
use crate::medium::crew::{Seat, Work};
use crate::medium::logged::SyncMode;
use crate::medium::process::Process;

/// The seats of a live image: in one crew for its checkpoints, and in `Interval` in one for its snapshots.
pub(super) struct Background {
    seats: Vec<Seat>,
    /// The process that has the threads: a fork's child has none.
    process: Process,
}

impl Background {
    pub(super) fn start<D: LiveDisk + 'static>(core: &Arc<Core<D>>, mode: SyncMode) -> Self {
        let device = core.disk.device();
        let check = work(core, |core| {
            // Another thread's is as good.
            while core.needs_checkpoint() && core.checkpoint() {}
            if core.is_short() && !core.has_failed() {
                core.extend();
            }
        });
        let checkpointer = Seat::take(device, "durahash-check", check);
        let taker = match mode {
            SyncMode::Interval(every) => {
                // A shorter interval would make a thread that never rests.
                let every = every.max(Duration::from_millis(1));
                Some((Seat::take(device, "durahash-log", work(core, Core::take_due)), every))
            }
            SyncMode::Process | SyncMode::Strict => None,
        };
        let mut seats = vec![checkpointer.clone()];
        seats.extend(taker.as_ref().map(|(seat, _)| seat.clone()));
        let _ = core.wake.set(Wake { taker, checkpointer });
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

/// A step. One that panics, which only a bug makes it do, ends the pool's writes and nothing else.
fn work<D: LiveDisk + 'static>(
    core: &Arc<Core<D>>,
    step: impl Fn(&Core<D>) + Send + Sync + 'static,
) -> Work {
    let core = Arc::clone(core);
    Arc::new(move || {
        if catch_unwind(AssertUnwindSafe(|| step(&core))).is_err() {
            core.fail(&io::Error::other("a thread in the background has panicked"));
        }
    })
}
