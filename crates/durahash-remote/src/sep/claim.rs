//! The words of sweeps, and what a client knows of them.

use std::collections::VecDeque;
use std::ops::Range;

use super::layout::{Ref, Row, UNIT, field};
use super::walk::{Marks, Position};

/// Bits of an offset in the words of a window, and of the turn behind it.
const OFF_BITS: u32 = 35;
const TURN_BITS: u32 = 29;
/// Epochs between a claim that was seen and the next sweep, at least.
pub(super) const CALM: u64 = 8;
/// No sweep begins for so many times as long as the last one took: so each part is claimed for a tenth of the time at most,
/// unless sweeps are asked for, or clients die in them.
const PAUSES: u64 = 1;
/// Of what waited lately a tick forgets one of so many parts.
const FADES: u64 = 64;
/// Parts of a node's memory, each of which a sweep claims by itself. With more, a death in a sweep costs less; but each takes a walk. That
/// reads some 10 bytes for each entry, whose block has 64 or more: so as many walks as these read about as much as is in use.
pub(super) const PARTS: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Idle,
    /// The windows are being written.
    Preparing,
    Claimed,
}

/// The word of sweeps: phase 2, row 12, incarnation 10, turn 37, part 3.
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
        field(self.0, 24, 37)
    }

    /// The part that is claimed, or was last.
    pub(super) fn part(self) -> u64 {
        field(self.0, 61, 3)
    }

    /// The next word, of the same part, by the client of a row.
    pub(super) fn next(self, phase: Phase, idx: u32, row: Row) -> Self {
        let turn = field(self.turn() + 1, 0, 37);
        let of_row = u64::from(idx) << 2 | u64::from(row.incarnation()) << 14;
        SweepWord(phase as u64 | of_row | turn << 24).of_part(self.part())
    }

    pub(super) fn of_part(self, part: u64) -> Self {
        SweepWord(field(self.0, 0, 61) | part << 61)
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
    /// Step 7, until this epoch.
    Walked(u64),
    /// Step 9, if other parts follow, until this epoch.
    Freed(u64),
}

/// A part, and the window of each node.
pub(super) type Part = (u64, Vec<Range<u64>>);

/// The sweep of this client.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) word: SweepWord,
    pub(super) stage: Stage,
    pub(super) marks: Marks,
    /// The parts that follow.
    pub(super) parts: VecDeque<Part>,
    pub(super) total: Total,
    /// The epoch, and since when.
    pub(super) seen: (u64, u64),
    /// Since when it could not take from the shelf what the windows have.
    pub(super) late_ns: Option<u64>,
}

/// What all parts add up.
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
    /// Times that it began anew since a part ended.
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
    /// The row and the incarnation of its client, if it is under way.
    pub(super) sweeper: Option<(usize, u16)>,
    /// The words that are written when what a sweep found is shared: what was leaked when it began, and the bytes in use.
    pub(super) settles: Option<[u64; 2]>,
    /// Memory was found that is to be shared from this epoch on.
    pub(super) found: Option<u64>,
    /// The most bytes that waited for their epoch lately.
    pub(super) waited: u64,
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

    /// Notes in this epoch whether a sweep is under way, and how much waits.
    pub(super) fn note(&mut self, epoch: u64, waiting: u64) {
        self.waited = waiting.max(self.waited - self.waited / FADES);
        let word = self.words.sweep;
        let of = (word.phase() != Phase::Idle).then(|| (word.row(), word.incarnation()));
        if of.is_some() {
            // What went before is no part of a sweep that another client begins anew, or that this one has not seen without a gap.
            let goes_on = of == self.sweeper && epoch <= self.busy.1 + 1;
            self.busy = (if goes_on { self.busy.0 } else { epoch }, epoch);
        }
        self.sweeper = of;
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

/// What is taken of a part of a node's memory, which begins at `first` and is taken up to `bump`. The parts are those of all
/// of it, or of the least half, quarter and so on in which all lies that is taken: so their borders seldom change.
pub(super) fn window(part: u64, first: u64, bump: u64, usable: u64) -> Range<u64> {
    let mut bytes = usable - first;
    while bytes / 2 >= (bump - first).max(UNIT) {
        bytes /= 2;
    }
    let [start, end] =
        [part, part + 1].map(|part| (first + bytes / UNIT * part / PARTS * UNIT).min(bump));
    start..end
}

/// A word of a window: an offset in units, and the turn of the claim.
pub(super) fn window_word(off: u64, turn: u64) -> u64 {
    (off / UNIT) | (field(turn, 0, TURN_BITS) << OFF_BITS)
}

/// The offset, if the word is of that turn.
pub(super) fn window_end(word: u64, turn: u64) -> Option<u64> {
    (word >> OFF_BITS == field(turn, 0, TURN_BITS)).then(|| field(word, 0, OFF_BITS) * UNIT)
}

#[cfg(test)]
mod tests {
    use super::super::layout::RowState;
    use super::*;

    #[test]
    fn the_word_of_sweeps_keeps_its_fields_apart() {
        let row = Row::new(RowState::Live, 0, 0, u16::MAX);
        let word = SweepWord(u64::MAX).of_part(5).next(Phase::Claimed, 4095, row);
        assert_eq!((word.phase(), word.turn(), word.part()), (Phase::Claimed, 0, 5));
        assert!(word.is_of(4095, row) && !word.is_of(4094, row));
        let next = word.next(Phase::Idle, 0, row).of_part(7);
        assert_eq!((next.phase(), next.row(), next.turn(), next.part()), (Phase::Idle, 0, 1, 7));
    }

    #[test]
    fn the_windows_of_all_parts_are_what_is_taken() {
        for units in [0, 1, 7, 8, 63, 1000] {
            let (first, usable) = (512, 512 + units * UNIT);
            for taken in 0..=units {
                let bump = first + taken * UNIT;
                let mut at = first;
                for part in 0..PARTS {
                    let window = window(part, first, bump, usable);
                    assert_eq!(window.start, at);
                    assert!(window.end - at <= (2 * taken).min(units).div_ceil(PARTS) * UNIT);
                    at = window.end;
                }
                assert_eq!(at, bump);
            }
        }
    }
}
