//! What must come about from every state, if no thread begins a store any more and nobody dies: the process opens the pool, a
//! snapshot ends, so that a `sync` returns, and the ring becomes free.
//!
//! It is enough that all of them go on in turn: each does a step, if it can, and a thread that waits at the gate opens it only where
//! nobody else can. Each wait of the protocol is for what somebody does.

use super::{Counts, State, THREADS, World};
use super::{checkpointer, process, snapshotter, thread};

/// More than any state needs.
const ROUNDS: usize = 300;

/// Goes on from `state` until all of it has come about.
///
/// # Errors
/// What has not after so many rounds.
pub(super) fn check(world: &World, state: &State) -> Result<(), String> {
    let at_most = Counts { snapshots: u8::MAX, checkpoints: u8::MAX, ..Counts::default() };
    let calm = World { at_most, ..world.clone() };
    let mut now = state.clone();
    let mut wanted = None;
    for _ in 0..ROUNDS {
        let State { live, memory, record, .. } = &now;
        let has_opened = memory.process.has_scanned() && memory.process.has_reapplied();
        if wanted.is_none() && memory.process.is_running() && has_opened {
            wanted = Some((record.counts.snapshots + 1, memory.epoch, live.noted.batch));
        }
        if let Some((snapshots, epoch, batch)) = wanted {
            let is_told = live.bad && memory.head.live_bad;
            let is_done = record.counts.snapshots >= snapshots && memory.noted_epoch >= epoch;
            let is_free = !memory.needs_room && memory.head.at.batch >= batch;
            if is_told || is_done && is_free {
                return Ok(());
            }
        }
        round(&calm, &mut now);
    }
    let State { live, memory, record, .. } = &now;
    let Some((snapshots, epoch, batch)) = wanted else { return Err("it is never opened".into()) };
    Err(if live.bad {
        "no head says that the live image is damaged".into()
    } else if record.counts.snapshots < snapshots {
        "the snapshot never ends".into()
    } else if memory.noted_epoch < epoch {
        "a sync never returns".into()
    } else {
        format!("the ring never becomes free up to batch {batch}")
    })
}

/// Everybody does a step.
fn round(world: &World, state: &mut State) {
    let has_opened = process::step(world, state);
    let has_copied = if state.memory.closes_late {
        snapshotter::drain_own(&mut state.memory);
        true
    } else {
        snapshotter::step(world, state)
    };
    let has_written = checkpointer::step(world, state);
    let mut goes_on = has_opened || has_copied || has_written;
    for t in 0..THREADS {
        let State { live, memory, .. } = &mut *state;
        if memory.threads[t].has_buffered() {
            thread::drain_one(live, memory, t);
            goes_on = true;
        } else if !memory.threads[t].is_at_rest() && !memory.waits(t) {
            goes_on |= thread::step(world, state, t);
        }
    }
    for t in 0..THREADS {
        if !goes_on && state.memory.waits(t) {
            thread::step(world, state, t);
        }
    }
}
