//! The steps of a run, and the contents that may be expected at each.

use std::ops::ControlFlow;
use std::rc::Rc;

use durahash_media::Event;
use durahash_media::sim::{Action, Step};

use crate::oracle::{Expected, Judge, place};
use crate::states::{CrashState, Visit};

/// The mark in the trace where an operation begins.
pub(crate) fn begin_mark(op: usize) -> u64 {
    op as u64 * 2
}

/// The mark where it is acknowledged.
pub(crate) fn ack_mark(op: usize) -> u64 {
    op as u64 * 2 + 1
}

/// The steps of one run of a design, from one image on, and the effects of its operations.
pub(crate) struct Segment {
    pub(crate) image: Rc<[u64]>,
    /// The value of each key at the beginning.
    pub(crate) held: Vec<Option<u64>>,
    pub(crate) steps: Vec<Step>,
    /// By operation.
    pub(crate) effects: Vec<Effect>,
    /// States before this step belong to another segment.
    pub(crate) from: usize,
}

impl Segment {
    /// The step at which the last of `count` operations begins.
    pub(crate) fn begin_of_last(&self, count: usize) -> usize {
        let Some(last) = count.checked_sub(1) else {
            return self.from;
        };
        let mark = Action::Mark(begin_mark(last));
        let found = self.steps.iter().position(|step| step.action == mark);
        found.unwrap_or(self.steps.len())
    }

    /// The first step behind the publishing of the table.
    pub(crate) fn published(&self) -> usize {
        let found = self.steps.iter().position(|step| step.action == Action::Publish);
        found.map_or(0, |at| at + 1)
    }

    /// The value of each key at the end.
    pub(crate) fn after(&self) -> Vec<Option<u64>> {
        let mut held = self.held.clone();
        for effect in &self.effects {
            if let Effect::Set(key, v) = effect {
                held[usize::from(*key)] = *v;
            }
        }
        held
    }
}

/// The effect of an operation on the contents.
#[derive(Clone, Copy)]
pub(crate) enum Effect {
    None,
    /// The key has this value from here on.
    Set(u16, Option<u64>),
    Close,
}

/// A step at which what may be expected changes.
struct Turn {
    step: usize,
    op: u64,
    what: What,
}

enum What {
    Begins(u16, Option<u64>),
    Closes,
    IsSettled,
}

/// Where operations begin and are settled. An operation is settled when it is acknowledged, or
/// earlier: when it released its last lock, others see what it did, and what they see must be
/// durable.
fn turns(steps: &[Step], effects: &[Effect]) -> Vec<Turn> {
    let mut turns = Vec::new();
    // Operations under way: the thread, the number, the last release.
    let mut open: Vec<(u32, u64, Option<usize>)> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let mut turn = |step, op, what| turns.push(Turn { step, op, what });
        match step.action {
            Action::Mark(mark) if mark % 2 == 0 => {
                let op = mark / 2;
                open.push((step.thread, op, None));
                match effects.get(op as usize) {
                    Some(Effect::Set(key, v)) => turn(at, op, What::Begins(*key, *v)),
                    Some(Effect::Close) => turn(at, op, What::Closes),
                    Some(Effect::None) | None => {}
                }
            }
            Action::Mark(mark) => {
                let op = mark / 2;
                if let Some(slot) = open.iter().position(|(_, other, _)| *other == op) {
                    let (_, _, released) = open.swap_remove(slot);
                    turn(released.unwrap_or(at), op, What::IsSettled);
                }
            }
            Action::Event(Event::Unlocked(_)) => {
                for (thread, _, released) in &mut open {
                    if *thread == step.thread {
                        *released = Some(at);
                    }
                }
            }
            _ => {}
        }
    }
    turns.sort_by_key(|turn| turn.step);
    turns
}

/// Looks at the states of a script, knowing what may be expected of each.
pub(crate) struct Watch<'j, 's> {
    turns: Vec<Turn>,
    next: usize,
    expected: Expected,
    hashes: (u64, u64),
    steps: &'j [Step],
    judge: &'j mut Judge<'s>,
    /// Before which step, and what.
    pub(crate) wrong: Option<(usize, String)>,
}

impl<'j, 's> Watch<'j, 's> {
    /// Watches `segment`, of which `steps` may be a mutant's.
    pub(crate) fn new(segment: &Segment, steps: &'j [Step], judge: &'j mut Judge<'s>) -> Self {
        let expected = Expected::new(segment.held.clone());
        Watch {
            turns: turns(steps, &segment.effects),
            next: 0,
            hashes: expected.hashes(),
            expected,
            steps,
            judge,
            wrong: None,
        }
    }
}

impl Visit for Watch<'_, '_> {
    fn passed(&mut self, step: usize) -> bool {
        let mut settled = false;
        while let Some(turn) = self.turns.get(self.next)
            && turn.step == step
        {
            match turn.what {
                What::Begins(key, v) => self.expected.begin(turn.op, key, v),
                What::Closes => self.expected.close(),
                What::IsSettled => settled |= self.expected.settle(turn.op),
            }
            self.hashes = self.expected.hashes();
            self.next += 1;
        }
        settled
    }

    fn state(&mut self, state: &CrashState<'_>) -> ControlFlow<()> {
        self.judge.place = self.steps.get(state.at).map_or(0, |step| place(step.site));
        match self.judge.look_at_level(state, &self.expected, self.hashes, 0) {
            Ok(()) => ControlFlow::Continue(()),
            Err(wrong) => {
                self.wrong = Some((state.at, wrong));
                ControlFlow::Break(())
            }
        }
    }
}
