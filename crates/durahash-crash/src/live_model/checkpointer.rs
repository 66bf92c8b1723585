//! The checkpointer: checkpoints, and the way out of a full ring.

use super::disk::{Disk, Position, apply};
use super::{Fault, Image, LINES, Line, Lines, State, WORDS, World, each};

/// The next step. A number is that of the word which it is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Step {
    #[default]
    C1,
    C2(usize),
    C3,
    C4,
    C4Sync,
    C5,
    C5Sync,
    C6,
    WayOut,
    WayOutSync,
}

/// The checkpointer.
#[derive(Clone, Default, Hash)]
pub(super) struct Checkpointer {
    step: Step,
    /// What the head will name.
    at: Position,
    /// Lines that C2 has yet to copy.
    todo: Vec<usize>,
    copies: Lines,
    /// Those that were written, of which the check words are not.
    written: Lines,
    /// The epoch that must be noted before C4: the open one when the copies were made.
    until: u8,
    /// What a fault takes up again after the way out.
    kept: Option<Position>,
}

impl Checkpointer {
    pub(super) fn is_at_rest(&self) -> bool {
        self.step == Step::C1
    }

    pub(super) fn is_on_way_out(&self) -> bool {
        self.step == Step::WayOut
    }

    /// Its head is durable.
    pub(super) fn has_durable(&self) -> bool {
        self.step == Step::C6
    }
}

/// The next step; false where it has to wait.
pub(super) fn step(world: &World, state: &mut State) -> bool {
    let State { live, disk, memory, record } = state;
    let checkpoint = &mut memory.checkpointer;
    let takes_way_out = memory.needs_room && live.noted.batch > memory.head.at.batch;
    let is_head_early = world.planted(Fault::HeadBeforeSync);
    checkpoint.step = match checkpoint.step {
        Step::C1 | Step::C3 if live.bad && !memory.head.live_bad => {
            *checkpoint = Checkpointer { at: memory.head.at, ..Checkpointer::default() };
            Step::C5
        }
        Step::C1 if !memory.process.is_running() || !memory.process.has_reapplied() => {
            return false;
        }
        Step::C1 if takes_way_out => Step::WayOut,
        Step::C1 => {
            let has_ended = record.counts.checkpoints == world.at_most.checkpoints;
            if has_ended || memory.applied.batch <= memory.head.at.batch {
                return false;
            }
            checkpoint.at = memory.applied;
            let taken = std::mem::take(&mut memory.bitmap);
            let is_taken = |line: &usize| taken[*line] || world.wide_pages && taken.contains(&true);
            checkpoint.todo = (0..LINES).filter(is_taken).collect();
            if is_head_early { Step::C5 } else { Step::C2(0) }
        }
        Step::C2(word) => {
            if let Some(line) = checkpoint.todo.first().copied() {
                if word == 0 {
                    checkpoint.copies.push((line, Line::default()));
                }
                let (_, copy) = checkpoint.copies.last_mut().expect("it was begun");
                copy[word] = live.image[line][word];
                if word + 1 == WORDS {
                    checkpoint.todo.remove(0);
                }
                each(word, WORDS, Step::C2, Step::C2(0))
            } else {
                checkpoint.until = memory.epoch;
                Step::C3
            }
        }
        Step::C3
            if memory.noted_epoch >= checkpoint.until
                || world.planted(Fault::PagesNotWaitedFor) =>
        {
            checkpoint.until = 0;
            Step::C4
        }
        Step::C3 if takes_way_out && !world.planted(Fault::NoWayOut) => {
            if world.planted(Fault::CopiesKept) || world.planted(Fault::HeadBack) {
                checkpoint.kept = Some(checkpoint.at);
            }
            if !world.planted(Fault::CopiesKept) {
                checkpoint.copies.clear();
                checkpoint.until = 0;
            }
            Step::WayOut
        }
        Step::C3 => return false,
        Step::C4 | Step::C5 if !memory.process.has_settled(world) => return false,
        Step::C4 if checkpoint.copies.is_empty() => {
            if !world.planted(Fault::SumsNotSynced) {
                write_sums(world, disk, &mut checkpoint.written, &live.image);
            }
            Step::C4Sync
        }
        Step::C4 => {
            let copy = checkpoint.copies.remove(0);
            disk.write_base([copy]);
            checkpoint.written.push(copy);
            Step::C4
        }
        Step::C4Sync => {
            disk.sync_base();
            write_sums(world, disk, &mut checkpoint.written, &live.image);
            if is_head_early { Step::C6 } else { Step::C5 }
        }
        // No head goes back.
        Step::C5
            if checkpoint.at.batch < memory.head.at.batch && !world.planted(Fault::HeadBack) =>
        {
            Step::C6
        }
        Step::C5 => {
            disk.write_head(memory.head.next(checkpoint.at, false, live.bad));
            Step::C5Sync
        }
        Step::C5Sync => {
            memory.head = disk.sync_heads();
            match checkpoint.kept.take() {
                None if is_head_early => Step::C2(0),
                None => Step::C6,
                Some(at) if world.planted(Fault::HeadBack) => {
                    checkpoint.at = at;
                    Step::C5
                }
                Some(_) => {
                    checkpoint.at = memory.head.at;
                    Step::C3
                }
            }
        }
        Step::C6 => {
            record.counts.checkpoints += 1;
            checkpoint.at = Position::default();
            Step::C1
        }
        Step::WayOut => {
            let (lines, at) = disk.batches(world, memory.head.at, live.noted.batch);
            if at.batch < live.noted.batch {
                return false;
            }
            disk.write_lines(world, &lines);
            checkpoint.at = at;
            Step::WayOutSync
        }
        Step::WayOutSync => {
            disk.sync_base();
            Step::C5
        }
    };
    true
}

/// The end of C4: check words of the pages that were written.
fn write_sums(world: &World, disk: &mut Disk, written: &mut Lines, live: &Image) {
    let mut image = if world.planted(Fault::SumsOfImage) { *live } else { Image::default() };
    if !world.planted(Fault::SumsOfImage) {
        apply(&mut image, written);
    }
    for page in world.pages() {
        if written.iter().any(|(line, _)| world.page(*line) == page) {
            disk.write_sum(page, Some(world.sum_of(page, &image)));
        }
    }
    written.clear();
}
