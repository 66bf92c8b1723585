//! The snapshotter: the gate, and a snapshot.

use std::collections::HashSet;

use super::disk::Part;
use super::thread::drain;
use super::{Fault, Line, Lines, Memory, Phase, State, THREADS, WORDS, World, each, mark, parity};

/// The next step. A number is that of the thread, word, part or half which it is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Step {
    #[default]
    S1,
    /// And G1.
    S2,
    G2(usize),
    /// Stores that the gate is closed.
    G3,
    /// Looks at `inside`; G5 where it is set.
    G3Look(usize),
    G4,
    /// Takes the dirty lists.
    S3,
    S3Mark,
    S3Copy(usize),
    S3MarkAgain,
    S4(usize),
    S4Lengths(usize),
    S4Lists(usize),
    S5,
    /// Makes the parts.
    S6,
    S6SyncSpill,
    S6Write(usize),
    S7,
    S8,
    S9(usize),
    S10,
    S11,
    /// The live image is damaged. The header says so, then the checkpointer writes a head that does.
    GivenUp,
}

/// The snapshotter.
#[derive(Clone, Default, Hash)]
pub(super) struct Snapshotter {
    step: Step,
    /// How many stores of each thread were visible when the snapshot began.
    visible: [u8; THREADS],
    /// Dirty lines that S3 has yet to look at, and all whose marks S10 has yet to clear.
    todo: Vec<usize>,
    dirty: Vec<usize>,
    copy: Line,
    /// S3 could not copy a line.
    is_missing: bool,
    /// Lengths of the save lists, and what was taken of them.
    lengths: Vec<usize>,
    saved: Lines,
    /// What the batch has.
    lines: Lines,
    parts: Vec<Part>,
}

impl Snapshotter {
    pub(super) fn is_at_rest(&self) -> bool {
        self.step == Step::S1
    }

    /// A batch is durable, and not noted.
    pub(super) fn has_durable(&self) -> bool {
        self.step == Step::S8
    }
}

/// The snapshotter's own store buffer.
pub(super) fn drain_own(memory: &mut Memory) {
    memory.closes_late = false;
    memory.phase = Phase::Closed;
}

/// The next step; false where it has to wait.
pub(super) fn step(world: &World, state: &mut State) -> bool {
    let State { live, disk, memory, record } = state;
    let snapshot = &mut memory.snapshotter;
    // The epoch that was cut: of a meaning from S3 on.
    let epoch = memory.epoch - 1;
    let own = parity(epoch);
    let is_reset_early = world.planted(Fault::ResetBeforeDurable);
    let next = match snapshot.step {
        Step::S1 => {
            let may_begin = memory.process.has_scanned() || world.planted(Fault::ScanNotWaitedFor);
            let has_ended = record.counts.snapshots == world.at_most.snapshots;
            if has_ended || !memory.process.is_running() || !may_begin {
                return false;
            }
            let stores = |t: usize| live.image.iter().map(|line| line[t]).max();
            snapshot.visible = std::array::from_fn(|t| stores(t).unwrap_or(0));
            memory.copying = !world.planted(Fault::CopyingLate);
            Step::S2
        }
        Step::S2 => {
            live.epoch = memory.epoch + 1;
            if world.planted(Fault::NeverClosed) {
                memory.epoch += 1;
            } else {
                memory.phase = Phase::Closing;
            }
            Step::G2(0)
        }
        // It reaches one processor after the other.
        Step::G2(t) => {
            if !world.planted(Fault::NoMembarrier) {
                drain(live, memory, t);
            }
            let is_open = world.planted(Fault::NeverClosed);
            each(t, THREADS, Step::G2, if is_open { Step::G3Look(0) } else { Step::G3 })
        }
        Step::G3 => {
            if world.planted(Fault::NoSnapshotterFence) {
                memory.closes_late = true;
            } else {
                memory.phase = Phase::Closed;
            }
            Step::G3Look(0)
        }
        Step::G3Look(t) if memory.inside[t] && !world.planted(Fault::NoWaitForInside) => {
            // To look again is no step. Else it gives up: G5.
            if world.planted(Fault::NeverClosed) || memory.closes_late {
                return false;
            }
            memory.phase = Phase::Open;
            Step::S2
        }
        Step::G3Look(t) => each(t, THREADS, Step::G3Look, Step::G4),
        Step::G4 if memory.closes_late => return false,
        Step::G4 if world.planted(Fault::NeverClosed) => Step::S3,
        Step::G4 if memory.phase == Phase::Closed || world.planted(Fault::FlipWithoutCas) => {
            memory.phase = Phase::Open;
            memory.epoch += 1;
            Step::S3
        }
        // A thread has opened the gate.
        Step::G4 => Step::S2,
        Step::S3 => {
            memory.copying = true;
            let lists = memory.dirty.iter().chain([memory.process.scanned()]);
            snapshot.dirty = lists.flat_map(|lists| &lists[own]).copied().collect();
            snapshot.todo.clone_from(&snapshot.dirty);
            if live.has_error && world.planted(Fault::ErrorAskedForEarly) {
                Step::GivenUp
            } else {
                Step::S3Mark
            }
        }
        Step::S3Mark => match snapshot.todo.first() {
            None if snapshot.is_missing => Step::S4(0),
            None => Step::S5,
            Some(line) if live.marks[*line] == mark(epoch) => Step::S3Copy(0),
            Some(_) => {
                snapshot.todo.remove(0);
                snapshot.is_missing = true;
                Step::S3Mark
            }
        },
        Step::S3Copy(word) => {
            snapshot.copy[word] = live.image[snapshot.todo[0]][word];
            each(word, WORDS, Step::S3Copy, Step::S3MarkAgain)
        }
        Step::S3MarkAgain => {
            let (line, copy) = (snapshot.todo.remove(0), std::mem::take(&mut snapshot.copy));
            if live.marks[line] == mark(epoch) || world.planted(Fault::NoRecheck) {
                snapshot.lines.push((line, copy));
            } else {
                snapshot.is_missing = true;
            }
            Step::S3Mark
        }
        Step::S4(t) if memory.inside[t] && !world.planted(Fault::SavesNotWaitedFor) => {
            return false;
        }
        Step::S4(t) => each(t, THREADS, Step::S4, Step::S4Lengths(0)),
        Step::S4Lengths(t) => {
            snapshot.lengths.push(memory.saved[t][1 - own].len());
            each(t, THREADS, Step::S4Lengths, Step::S4Lists(0))
        }
        Step::S4Lists(t) => {
            let list = &memory.saved[t][1 - own];
            let is_read_twice = world.planted(Fault::SaveLengthTwice);
            let length = if is_read_twice { list.len() } else { snapshot.lengths[t] };
            snapshot.saved.extend(&list[..length]);
            if t + 1 == THREADS {
                // The batch's count is of the first reading.
                snapshot.saved.truncate(snapshot.lengths.drain(..).sum());
                snapshot.lines.append(&mut snapshot.saved);
            }
            each(t, THREADS, Step::S4Lists, Step::S5)
        }
        Step::S5 => {
            memory.copying = false;
            let asks = !world.planted(Fault::ErrorNotAskedFor)
                && !world.planted(Fault::ErrorAskedForEarly);
            if live.has_error && asks {
                Step::GivenUp
            } else if is_reset_early {
                Step::S10
            } else {
                Step::S6
            }
        }
        Step::S6 if !memory.process.has_settled(world) => return false,
        Step::S6 => {
            let mut seen = HashSet::new();
            snapshot.lines.retain(|line| seen.insert(*line));
            if snapshot.lines.is_empty() {
                // Nothing to note.
                record.promised = std::mem::take(&mut snapshot.visible);
                if !world.planted(Fault::NothingNotNoted) {
                    memory.noted_epoch = epoch;
                }
                if is_reset_early { Step::S11 } else { Step::S10 }
            } else {
                let is_spilled = snapshot.lines.len() > world.spill_above.min(world.ring);
                snapshot.parts = Part::of(&snapshot.lines, live.noted, is_spilled);
                if is_spilled {
                    disk.write_spill(live.noted.batch + 1, &snapshot.lines);
                }
                let syncs = is_spilled && !world.planted(Fault::SpillNotSynced);
                if syncs { Step::S6SyncSpill } else { Step::S6Write(0) }
            }
        }
        Step::S6SyncSpill => {
            disk.sync_spill();
            Step::S6Write(0)
        }
        Step::S6Write(part) => {
            let at = live.noted.part + part;
            let has_room = at < memory.head.at.part + world.ring;
            if !has_room && !world.planted(Fault::RingReused) {
                if world.planted(Fault::WayOutBeside) {
                    let (lines, at) = disk.batches(world, memory.head.at, live.noted.batch);
                    disk.write_lines(world, &lines);
                    disk.sync_base();
                    disk.write_head(memory.head.next(at, false, live.bad));
                    memory.head = disk.sync_heads();
                    return true;
                }
                return !std::mem::replace(&mut memory.needs_room, true);
            }
            memory.needs_room = false;
            disk.write_part(world, at, &snapshot.parts[part]);
            each(part, snapshot.parts.len(), Step::S6Write, Step::S7)
        }
        Step::S7 => {
            disk.sync_ring();
            if world.planted(Fault::DurableIsNoted) {
                memory.noted_epoch = epoch;
            }
            Step::S8
        }
        Step::S8 => {
            live.noted = live.noted.behind(&std::mem::take(&mut snapshot.parts));
            record.promised = std::mem::take(&mut snapshot.visible);
            memory.noted_epoch = epoch;
            Step::S9(0)
        }
        Step::S9(half) => {
            if (half == 0) != world.planted(Fault::AppliedBeforeBitmap) {
                snapshot.lines.iter().for_each(|(line, _)| memory.bitmap[*line] = true);
            } else if !world.planted(Fault::NeverApplied) {
                memory.applied = live.noted;
            }
            each(half, 2, Step::S9, if is_reset_early { Step::S11 } else { Step::S10 })
        }
        Step::S10 => match snapshot.dirty.first().copied() {
            None if is_reset_early => Step::S6,
            None => Step::S11,
            Some(line) => {
                snapshot.dirty.remove(0);
                if live.marks[line] == mark(epoch) || world.planted(Fault::ResetPlain) {
                    live.marks[line] = 0;
                }
                Step::S10
            }
        },
        Step::S11 => {
            if !world.planted(Fault::ListsNotCleared) {
                memory.dirty.iter_mut().for_each(|lists| lists[own].clear());
                memory.saved.iter_mut().for_each(|lists| lists[own].clear());
            }
            memory.process.forget_scanned(own);
            snapshot.lines.clear();
            snapshot.is_missing = false;
            record.counts.snapshots += 1;
            Step::S1
        }
        Step::GivenUp if live.bad => return false,
        Step::GivenUp => {
            live.bad = true;
            Step::GivenUp
        }
    };
    memory.snapshotter.step = next;
    true
}
