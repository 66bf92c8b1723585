//! The process: opening after a kill, the scan, damage to the live image, the close.

use super::disk::{Head, Kept};
use super::thread::Thread;
use super::{Fault, LINES, Line, Live, Memory, State, World, mark, parity};

/// The next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Step {
    #[default]
    O1,
    O1Sync,
    O2,
    O2Sync,
    O3,
    /// The program runs; O4 and O6 are beside it.
    Running,
    /// A closed head is written, and to be synced.
    Closing,
}

/// How far O1 is of a head with batches behind it: whoever writes first does it before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Settling {
    Written,
    Begun,
    #[default]
    Done,
}

/// The process.
#[derive(Clone, Default, Hash)]
pub(super) struct Process {
    step: Step,
    settling: Settling,
    /// How many lines the scan is behind, the mark that it has loaded of the next one, and its dirty lists.
    scanned: usize,
    loaded: Option<u8>,
    dirty: [Vec<usize>; 2],
    has_reapplied: bool,
}

impl Process {
    /// A process that has opened the pool long ago.
    pub(super) fn running() -> Process {
        let step = Step::Running;
        Process { step, scanned: LINES, has_reapplied: true, ..Process::default() }
    }

    pub(super) fn is_running(&self) -> bool {
        self.step == Step::Running
    }

    /// Something may be written.
    pub(super) fn has_settled(&self, world: &World) -> bool {
        self.settling == Settling::Done || world.planted(Fault::WrittenUnsettled)
    }

    pub(super) fn has_scanned(&self) -> bool {
        self.scanned == LINES
    }

    pub(super) fn has_reapplied(&self) -> bool {
        self.has_reapplied
    }

    /// The scan's dirty lists.
    pub(super) fn scanned(&self) -> &[Vec<usize>; 2] {
        &self.dirty
    }

    pub(super) fn forget_scanned(&mut self, parity: usize) {
        self.dirty[parity].clear();
    }

    /// The scan has come to a line whose mark seems to be of this epoch already.
    pub(super) fn has_met(&self, epoch: u8) -> bool {
        self.loaded == Some(mark(epoch))
    }
}

/// True if a process would open this live image.
pub(super) fn is_trusted(world: &World, live: &Live, head: Head) -> bool {
    world.planted(Fault::DamagedIsTrusted) || !(live.bad || live.has_error || head.live_bad)
}

/// All steps that may come next.
pub(super) fn steps(world: &World, state: &State) -> Vec<State> {
    let process = &state.memory.process;
    let mut next = Vec::new();
    let mut add = |step: &dyn Fn(&mut State)| next.push(state.with(step));
    match process.step {
        Step::Running => {
            if process.settling != Settling::Done {
                add(&|next| settle(world, next));
            }
            if !process.has_scanned() {
                add(&|next| scan(world, next));
            }
            if !process.has_reapplied {
                add(&|next| reapply(world, next));
            }
            if may_close(world, state) {
                add(&close);
            }
            let may_damage = state.record.counts.damages < world.at_most.damages;
            let has_contents = |line: &usize| state.live.image[*line] != Line::default();
            for line in (0..LINES).filter(|line| may_damage && has_contents(line)) {
                add(&|next| damage(next, line));
            }
        }
        Step::Closing => {
            let mut closed = state.clone();
            closed.memory.head = closed.disk.sync_heads();
            let kept = Kept { heads: false, parts: false, base: true };
            next.extend(reopened(world, &closed, kept));
        }
        _ => add(&|next| open(world, next)),
    }
    next
}

/// A step that comes by itself; false where there is none.
pub(super) fn step(world: &World, state: &mut State) -> bool {
    let process = &state.memory.process;
    match process.step {
        Step::Running if process.settling != Settling::Done => settle(world, state),
        Step::Running if !process.has_scanned() => scan(world, state),
        Step::Running if !process.has_reapplied => reapply(world, state),
        Step::Running => return false,
        Step::Closing => {
            let Some(next) = steps(world, state).pop() else { return false };
            *state = next;
        }
        _ => open(world, state),
    }
    true
}

/// The state after a kill and before O1; nothing where there is nothing that could be kept or lost so, or the next
/// process would not trust the live image: then base and batches count, as after a loss of power.
pub(super) fn kill(world: &World, state: &State, kept: Kept) -> Option<State> {
    let mut next = reopened(world, state, kept)?;
    next.record.counts.kills += 1;
    Some(next)
}

fn reopened(world: &World, state: &State, kept: Kept) -> Option<State> {
    let disk = state.disk.killed(kept)?;
    let live = state.live.with_buffers(&state.memory);
    let head = disk.read_head();
    if !is_trusted(world, &live, head) {
        return None;
    }
    let [one, other] = &state.memory.threads;
    let [ops, others] = &world.program;
    let threads = [one.after_kill(ops, other), other.after_kill(others, one)];
    let told = std::array::from_fn(|t| threads[t].stores());
    let (epoch, applied) = (live.epoch, head.at);
    let memory = Memory { threads, told, epoch, head, applied, ..Memory::default() };
    Some(State { live, disk, memory, record: state.record.clone() })
}

/// O1 to O3.
fn open(world: &World, state: &mut State) {
    let State { live, disk, memory, .. } = state;
    let head = memory.head;
    memory.process.step = match memory.process.step {
        Step::O1 if world.planted(Fault::HeadNotRewritten) => Step::O2,
        Step::O1 if !head.closed && live.noted.batch > head.at.batch => {
            memory.process.settling = Settling::Begun;
            Step::O3
        }
        Step::O1 => {
            rewrite(world, state);
            state.memory.process.step = Step::O1Sync;
            return;
        }
        Step::O1Sync => {
            memory.head = disk.sync_heads();
            Step::O2
        }
        Step::O2 if head.closed && !world.planted(Fault::ClosedHeadKept) => {
            disk.write_head(head.next(head.at, false, live.bad));
            Step::O2Sync
        }
        Step::O2 => Step::O3,
        Step::O2Sync => {
            memory.head = disk.sync_heads();
            Step::O3
        }
        Step::O3 => {
            memory.epoch += 1;
            live.epoch = memory.epoch;
            Step::Running
        }
        Step::Running | Step::Closing => unreachable!("the pool is open"),
    };
}

/// O1 of a head with batches behind it.
fn settle(world: &World, state: &mut State) {
    if state.memory.process.settling == Settling::Begun {
        rewrite(world, state);
        state.memory.process.settling = Settling::Written;
        return;
    }
    state.memory.head = state.disk.sync_heads();
    state.memory.process.settling = Settling::Done;
}

/// Writes the head again, in its place.
fn rewrite(world: &World, state: &mut State) {
    let (head, is_bad) = (state.memory.head, state.live.bad);
    let is_elsewhere = world.planted(Fault::HeadElsewhere);
    state.disk.write_head(if is_elsewhere {
        head.next(head.at, head.closed, is_bad)
    } else {
        head
    });
}

/// O4: loads a mark, then raises it.
fn scan(world: &World, state: &mut State) {
    let State { live, memory, .. } = state;
    let (process, epoch) = (&mut memory.process, memory.epoch);
    let line = process.scanned;
    let Some(found) = process.loaded.take() else {
        process.loaded = Some(live.marks[line]);
        return;
    };
    let is_passed = world.planted(Fault::ScanSkipsEqual) && found == mark(epoch);
    if found != 0 && !is_passed {
        live.marks[line] = mark(epoch);
        process.dirty[parity(epoch)].push(line);
    }
    process.scanned += 1;
}

/// O6.
fn reapply(world: &World, state: &mut State) {
    let State { live, disk, memory, .. } = state;
    let (lines, at) = disk.batches(world, memory.head.at, live.noted.batch);
    if !world.planted(Fault::NotReapplied) {
        lines.iter().for_each(|(line, _)| memory.bitmap[*line] = true);
    }
    if at.batch > memory.applied.batch {
        memory.applied = at;
    }
    memory.process.has_reapplied = true;
}

/// A page could not be written back, was dropped and read again.
fn damage(state: &mut State, line: usize) {
    state.live.image[line] = Line::default();
    state.live.has_error = true;
    state.record.counts.damages += 1;
}

/// All is in the base, and nobody does anything.
fn may_close(world: &World, state: &State) -> bool {
    let State { live, memory, record, .. } = state;
    let is_wanted = record.counts.closes < world.at_most.closes;
    let process = &memory.process;
    let has_opened = process.has_settled(world) && process.has_scanned() && process.has_reapplied;
    let is_quiet = memory.snapshotter.is_at_rest()
        && memory.checkpointer.is_at_rest()
        && memory.threads.iter().all(Thread::is_at_rest);
    let is_in_base = live.marks == [0; LINES] && live.noted.batch == memory.head.at.batch;
    is_wanted && has_opened && is_quiet && is_in_base && !live.has_error && !memory.head.closed
}

/// The close, behind its last snapshot and checkpoint.
fn close(state: &mut State) {
    let State { live, disk, memory, record } = state;
    disk.write_head(memory.head.next(memory.head.at, true, live.bad));
    memory.process.step = Step::Closing;
    record.counts.closes += 1;
}
