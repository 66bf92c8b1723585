//! The words of sweeps, and what a client knows of them.

use std::ops::Range;

use super::layout::{Ref, Row, UNIT, field};
use super::walk::{Marks, Position};

/// Bits of an offset in the words of a window, and of the turn behind it.
const OFF_BITS: u32 = 35;
const TURN_BITS: u32 = 29;
/// Epochs between a claim that was seen and the next sweep, at least.
pub(super) const CALM: u64 = 8;
/// Clients have the memory of the windows for so many times as long as a sweep takes.
const PAUSES: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Idle,
    /// The windows are being written.
    Preparing,
    Claimed,
}

/// The word of sweeps: phase 2, row 12, incarnation 10, turn 40.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct SweepWord(pub(super) u64);

impl SweepWord {
    pub(super) fn phase(self) -> Phase {
        match field(self.0, 0, 2) {
            0 => Phase::Idle,
            1 => Phase::Preparing,
            _ => Phase::Claimed,
        }
    }

    pub(super) fn is_of(self, idx: u32, row: Row) -> bool {
        field(self.0, 2, 12) == u64::from(idx) && self.incarnation() == row.incarnation()
    }

    pub(super) fn row(self) -> usize {
        field(self.0, 2, 12) as usize
    }

    pub(super) fn incarnation(self) -> u16 {
        field(self.0, 14, 10) as u16
    }

    pub(super) fn turn(self) -> u64 {
        field(self.0, 24, 40)
    }

    /// The next word, by the client of a row.
    pub(super) fn next(self, phase: Phase, idx: u32, row: Row) -> Self {
        let turn = self.turn() + 1;
        SweepWord(
            phase as u64 | u64::from(idx) << 2 | u64::from(row.incarnation()) << 14 | turn << 24,
        )
    }
}

/// The words of sweeps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words {
    pub(super) sweep: SweepWord,
    pub(super) shelf: Ref,
    pub(super) leaked: u64,
    /// `leaked` when the last sweep began.
    pub(super) swept: u64,
    /// Bytes in use then.
    pub(super) used: u64,
}

impl Words {
    pub(super) fn new(words: &[u64]) -> Self {
        Words {
            sweep: SweepWord(words[0]),
            shelf: Ref::from_word(words[1]),
            leaked: words[2],
            swept: words[3],
            used: words[4],
        }
    }

    /// Bytes that were leaked since.
    pub(super) fn lost(&self) -> u64 {
        self.leaked.saturating_sub(self.swept)
    }
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Step 4, until this epoch.
    Claimed(u64),
    /// Step 6.
    Walking(Position),
    /// Step 9 of the lower half, until this epoch.
    Freed(u64),
    /// Step 7, until this epoch.
    Walked(u64),
}

/// The sweep of this client.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) word: SweepWord,
    pub(super) stage: Stage,
    pub(super) marks: Marks,
    /// The upper end of each node's window, for the lower half.
    pub(super) middle: Option<Vec<u64>>,
    pub(super) total: Total,
    /// The epoch, and since when.
    pub(super) seen: (u64, u64),
}

/// What both halves add up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    /// Bytes leaked when it began.
    pub(super) leaked: u64,
    pub(super) used: u64,
    pub(super) found: u64,
    /// Calls that it answers.
    pub(super) asked: u64,
}

/// The end of the last sweep of this client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Outcome {
    #[default]
    None,
    Found(u64),
    Damage(&'static str, u64),
    /// The epoch stood still.
    HeldBack,
}

/// A client's part in sweeps.
#[derive(Debug, Default)]
pub(super) struct Reclaim {
    pub(super) words: Words,
    /// The turn of the claim that is known; 0 if none is.
    pub(super) claim: u64,
    pub(super) sweep: Option<Sweep>,
    /// Times that it began anew.
    pub(super) restarts: u32,
    /// Calls that asked for a sweep, and those that were answered.
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) outcome: Outcome,
    /// It met damage: only when it is asked does it sweep again.
    pub(super) is_damaged: bool,
    /// The epoch in which it opened the index.
    pub(super) opened: u64,
    /// The first and the last epoch in which the last sweep was under way.
    pub(super) busy: (u64, u64),
    /// It is under way.
    pub(super) is_busy: bool,
    /// The words that are written when what a sweep found is shared: what was leaked when it began, and the bytes in use.
    pub(super) settles: Option<[u64; 2]>,
    /// Memory was found that is to be shared from this epoch on.
    pub(super) found: Option<u64>,
    /// The word of sweeps, when this client last looked at it in its rest, and for how many looks it was the same.
    pub(super) seen: (SweepWord, u32),
}

impl Reclaim {
    /// The part of a client that has opened the index in this epoch.
    pub(super) fn from(epoch: u64) -> Self {
        Reclaim { opened: epoch, busy: (epoch, epoch), ..Reclaim::default() }
    }

    /// Returns whether this client has no part in a sweep, and knows of none.
    pub(super) fn is_quiet(&self) -> bool {
        self.claim == 0
            && self.sweep.is_none()
            && self.found.is_none()
            && self.settles.is_none()
            && self.asked == self.answered
    }

    /// Notes in this epoch whether a sweep is under way.
    pub(super) fn note(&mut self, epoch: u64) {
        let was_busy = self.is_busy;
        self.is_busy = self.words.sweep.phase() != Phase::Idle;
        if self.is_busy {
            self.busy = (if was_busy { self.busy.0 } else { epoch }, epoch);
        }
    }

    /// The epoch from which on another sweep may begin.
    pub(super) fn calm(&self) -> u64 {
        self.busy.1 + CALM.max(PAUSES * (self.busy.1 - self.busy.0))
    }
}

/// What is told by the words: themselves, and the windows of a claim that was not known.
pub(super) type Told = (Words, Option<Vec<Range<u64>>>);

/// A wait for memory.
#[derive(Debug, Default)]
pub(super) struct Hope {
    /// Since when, what was leaked then, and the epoch.
    pub(super) since: Option<(u64, u64, u64)>,
    /// The epoch, and since when.
    pub(super) seen: (u64, u64),
    /// The epoch until which what was found comes to the shelf.
    pub(super) until: u64,
}

/// A word of a window: an offset in units, and the turn of the claim.
pub(super) fn window_word(off: u64, turn: u64) -> u64 {
    (off / UNIT) | (field(turn, 0, TURN_BITS) << OFF_BITS)
}

/// The offset, if the word is of that turn.
pub(super) fn window_end(word: u64, turn: u64) -> Option<u64> {
    (word >> OFF_BITS == field(turn, 0, TURN_BITS)).then(|| field(word, 0, OFF_BITS) * UNIT)
}
