//! A thread of the program: the steps of a store, and its store buffer.

use super::{Fault, Line, Live, Memory, Op, Phase, State, WORDS, World, each, mark, parity};

/// The next step of a store; the numbers are those of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Step {
    /// 1.
    #[default]
    Enter,
    /// 2.
    LoadState,
    /// 2, which found the gate closing.
    Fence,
    /// 2, behind the fence.
    LoadStateAgain,
    /// 2, which found the gate closed.
    Wait,
    /// 3.
    LoadMark { epoch: u8 },
    /// 4 or 5, as `COPYING` says.
    Raise { epoch: u8, found: u8 },
    /// 4: a word of the line.
    Copy { epoch: u8, found: u8, copy: Line, word: usize },
    /// 4: the CAS.
    Save { epoch: u8, found: u8, copy: Line },
    /// 5.
    Mark { epoch: u8 },
    /// 6.
    List { epoch: u8 },
    /// 7; with [`Fault::DirtyAfterGate`] the line may not be in its epoch's list yet.
    Store { unlisted: Option<u8> },
    /// 8.
    Leave { unlisted: Option<u8> },
    /// 6 after 8.
    ListLate { epoch: u8 },
}

/// A store that others do not see yet.
#[derive(Clone, Hash)]
enum Buffered {
    Inside(bool),
    Word(usize, u8),
    Mark(usize, u8),
    Dirty(usize, usize),
    Saved(usize, usize, Line),
    Told(u8),
}

/// A thread.
#[derive(Clone, Default, Hash)]
pub(super) struct Thread {
    /// Which operation it is at.
    op: usize,
    step: Step,
    /// How many stores it has made.
    stores: u8,
    /// How many of the other one's it has seen.
    seen: u8,
    buffer: Vec<Buffered>,
}

impl Thread {
    /// The thread in the next process after a kill: behind the stores that the live image has, all of which it has seen.
    pub(super) fn after_kill(&self, ops: &[Op], other: &Thread) -> Thread {
        let is_store = |op: &&Op| matches!(op, Op::Store(_));
        let before = ops[..self.op].iter().filter(is_store).count();
        let is_stored = usize::from(self.stores) > before;
        let op = self.op + usize::from(is_stored);
        Thread { op, stores: self.stores, seen: other.stores, ..Thread::default() }
    }

    pub(super) fn stores(&self) -> u8 {
        self.stores
    }

    /// There is something in its store buffer.
    pub(super) fn has_buffered(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// It is between operations, and everybody sees what it did.
    pub(super) fn is_at_rest(&self) -> bool {
        self.step == Step::Enter && self.buffer.is_empty()
    }

    pub(super) fn has_ended(&self, world: &World, t: usize) -> bool {
        self.op == world.program[t].len()
    }
}

impl Memory {
    /// Thread `t` waits at a gate that is closed.
    pub(super) fn waits(&self, t: usize) -> bool {
        self.threads[t].step == Step::Wait && self.phase == Phase::Closed
    }
}

impl Live {
    /// With what is in the store buffer of thread `t`.
    fn with_buffer_of(mut self, t: usize, thread: &Thread) -> Live {
        for store in &thread.buffer {
            self.take(t, store);
        }
        self
    }

    /// With what is in all of them, which reaches the live file although the process was killed.
    pub(super) fn with_buffers(self, memory: &Memory) -> Live {
        let threads = memory.threads.iter().enumerate();
        threads.fold(self, |live, (t, thread)| live.with_buffer_of(t, thread))
    }

    fn take(&mut self, t: usize, store: &Buffered) {
        match *store {
            Buffered::Word(line, v) => self.image[line][t] = v,
            Buffered::Mark(line, v) => self.marks[line] = v,
            _ => {}
        }
    }
}

/// The oldest store leaves the buffer.
pub(super) fn drain_one(live: &mut Live, memory: &mut Memory, t: usize) {
    let store = memory.threads[t].buffer.remove(0);
    live.take(t, &store);
    match store {
        Buffered::Inside(v) => memory.inside[t] = v,
        Buffered::Dirty(parity, line) => memory.dirty[t][parity].push(line),
        Buffered::Saved(parity, line, copy) => memory.saved[t][parity].push((line, copy)),
        Buffered::Told(stores) => memory.told[t] = stores,
        Buffered::Word(..) | Buffered::Mark(..) => {}
    }
}

/// All stores leave the buffer.
pub(super) fn drain(live: &mut Live, memory: &mut Memory, t: usize) {
    while memory.threads[t].has_buffered() {
        drain_one(live, memory, t);
    }
}

/// The next step of thread `t`; false where it has to wait.
pub(super) fn step(world: &World, state: &mut State, t: usize) -> bool {
    let memory = &mut state.memory;
    let told = memory.told[1 - t];
    let thread = &mut memory.threads[t];
    let Some(op) = world.program[t].get(thread.op) else { return false };
    if !memory.process.is_running() {
        return false;
    }
    match *op {
        Op::Store(line) => return step_of_store(world, state, t, line),
        Op::Tell => thread.buffer.push(Buffered::Told(thread.stores)),
        Op::Learn => thread.seen = thread.seen.max(told),
        Op::Peek(line) => thread.seen = thread.seen.max(state.live.image[line][1 - t]),
    }
    thread.op += 1;
    true
}

fn step_of_store(world: &World, state: &mut State, t: usize, line: usize) -> bool {
    let State { live, memory, record, .. } = state;
    let thread = &mut memory.threads[t];
    let mut store = |thread: &mut Thread| {
        thread.stores += 1;
        thread.buffer.push(Buffered::Word(line, thread.stores));
        record.seen[t].push(thread.seen);
    };
    // Locked instructions and fences wait for the store buffer.
    let is_drained = thread.buffer.is_empty();
    thread.step = match thread.step {
        Step::Enter => {
            thread.buffer.push(Buffered::Inside(true));
            Step::LoadState
        }
        Step::LoadState | Step::LoadStateAgain if memory.phase == Phase::Closed => {
            thread.buffer.push(Buffered::Inside(false));
            Step::Wait
        }
        Step::LoadState
            if memory.phase == Phase::Closing && !world.planted(Fault::NoEntrantFence) =>
        {
            Step::Fence
        }
        Step::LoadState | Step::LoadStateAgain => {
            if world.planted(Fault::MarkAfterStore) {
                store(thread);
            }
            Step::LoadMark { epoch: memory.epoch }
        }
        Step::Fence if is_drained => Step::LoadStateAgain,
        Step::Wait if memory.phase != Phase::Closed => Step::Enter,
        Step::Wait if is_drained => {
            // Has slept for too long: opens the gate itself.
            memory.phase = Phase::Open;
            Step::Wait
        }
        Step::LoadMark { epoch } => {
            let found = live.with_buffer_of(t, thread).marks[line];
            if found == mark(epoch) {
                Step::Store { unlisted: None }
            } else {
                Step::Raise { epoch, found }
            }
        }
        Step::Raise { epoch, found } => {
            let is_to_be_saved = found == mark(epoch - 1) && memory.copying;
            if is_to_be_saved && !world.planted(Fault::NoSave) {
                Step::Copy { epoch, found, copy: Line::default(), word: 0 }
            } else {
                Step::Mark { epoch }
            }
        }
        Step::Copy { epoch, found, mut copy, word } => {
            copy[word] = live.with_buffer_of(t, thread).image[line][word];
            let next = |word| Step::Copy { epoch, found, copy, word };
            each(word, WORDS, next, Step::Save { epoch, found, copy })
        }
        Step::Save { epoch, copy, .. } if world.planted(Fault::SaveWithoutCas) => {
            thread.buffer.push(Buffered::Mark(line, mark(epoch)));
            thread.buffer.push(Buffered::Saved(parity(epoch), line, copy));
            Step::List { epoch }
        }
        Step::Save { epoch, found, .. } if is_drained && live.marks[line] != found => {
            Step::LoadMark { epoch }
        }
        Step::Save { epoch, copy, .. } if is_drained => {
            live.marks[line] = mark(epoch);
            thread.buffer.push(Buffered::Saved(parity(epoch), line, copy));
            Step::List { epoch }
        }
        Step::Fence | Step::Wait | Step::Save { .. } => return false,
        Step::Mark { epoch } => {
            thread.buffer.push(Buffered::Mark(line, mark(epoch)));
            Step::List { epoch }
        }
        Step::List { epoch } if world.planted(Fault::DirtyAfterGate) => {
            Step::Store { unlisted: Some(epoch) }
        }
        Step::List { epoch } => {
            thread.buffer.push(Buffered::Dirty(parity(epoch), line));
            Step::Store { unlisted: None }
        }
        Step::Store { unlisted } => {
            if !world.planted(Fault::MarkAfterStore) {
                store(thread);
            }
            Step::Leave { unlisted }
        }
        Step::Leave { unlisted } => {
            if !world.planted(Fault::NeverOutside) {
                thread.buffer.push(Buffered::Inside(false));
            }
            if let Some(epoch) = unlisted {
                Step::ListLate { epoch }
            } else {
                thread.op += 1;
                Step::Enter
            }
        }
        Step::ListLate { epoch } => {
            thread.buffer.push(Buffered::Dirty(parity(epoch), line));
            thread.op += 1;
            Step::Enter
        }
    };
    true
}
