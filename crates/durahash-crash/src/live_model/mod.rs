//! The protocol of live images and snapshots, in miniature.
//!
//! The program stores to a *live image*, a file mapped shared, so whatever it stored survives `kill -9`. Now and then a
//! *snapshot* appends the lines that changed to a ring of parts in the pool's file, as one *batch*: a loss of power
//! leaves the last whole batch, and that must be a consistent cut. A *checkpoint* brings lines to the *base*, the rest
//! of the pool's file, so that the ring may be used again. This module is the order of these steps and nothing else: it
//! shares no code with the pools, and each `match` over steps is to be read beside the table below.
//!
//! Each line has a *mark*, a byte in the live file: zero, or the epoch in which the line was first stored to and is not
//! durable yet. *Durable* means that the sync has returned, *noted* that the live file's header says so, too: the next
//! process goes on behind the batch that was noted last.
//!
//! | who | step | |
//! |---|---|---|
//! | a thread, at each store | 1 | `inside = 1` |
//! | | 2 | loads `STATE`, {epoch, phase}. Open: goes on. Closing: a full fence, and loads again. Closed: out, and again from 1 |
//! | | 3 | loads the line's mark; if it is of this epoch, goes to 7 |
//! | | 4 | mark of the epoch before, and `COPYING`: copies the line, raises the mark by a CAS, appends the copy to a *save list* |
//! | | 5 | otherwise raises the mark |
//! | | 6 | appends the line to the epoch's *dirty list* |
//! | | 7, 8 | stores; `inside = 0` |
//! | the snapshotter | S1 | `COPYING` |
//! | | S2 | the live header has the next epoch |
//! | | G1, G2 | closes: entrants fence; a barrier on every processor |
//! | | G3 | closed; a full fence; looks at every `inside` |
//! | | G4 | opens with the next epoch by a CAS: the cut |
//! | | G5 | one is inside: opens, and again |
//! | | S3 | copies the dirty lines whose marks stay those of the epoch meanwhile |
//! | | S4 | one did not: sees each `inside` zero once, then takes the save lists by their lengths |
//! | | S5 | `COPYING` ends; no batch if the live file had a write-back error |
//! | | S6, S7 | writes the parts, or a spill file and one part, where there is room; syncs |
//! | | S8 | notes the batch |
//! | | S9 | its pages go into the bitmap, then `applied` is this batch |
//! | | S10, S11 | clears marks by a CAS; empties the lists |
//! | the checkpointer | C1 | `applied`, and the bitmap |
//! | | C2 | copies those pages from the live image |
//! | | C3 | waits until a snapshot is noted that was cut since |
//! | | C4 | writes the copies and their check words, syncs |
//! | | C5, C6 | writes a *head*, which names what C1 found, over the older of two; what is before it is free |
//! | | way out | no room, and it is at C1 or C3: writes the noted batches to the base instead, and a head behind them. A page that it completes from the base gets a check word only if it was right before |
//! | the process, opening after a kill | O1 | the newest head once more, in its place |
//! | | O2 | it is a closed one: one that is not, over the other |
//! | | O3 | the epoch after the header's; the program begins |
//! | | O4 | beside it, the scan: every nonzero mark becomes this epoch's, and its line dirty |
//! | | O5 | the first snapshot, after the scan |
//! | | O6 | the pages of the noted batches go into the bitmap, before the first checkpoint |
//!
//! # What is checked
//!
//! In every state, as `check.rs` says in full: a loss of power leaves a cut with all that was noted; a kill leaves a
//! live image with every store, of which base, noted batches and marked lines are a copy, and a log that is walked to
//! the noted batch and at most one further; a closed pool is whole without its live image; a page of the base that has a check
//! word, and no line in what is replayed, or behind the head, has the right one. And as `progress.rs` says: from there,
//! without more stores and kills, the pool is opened, a snapshot ends, a `sync` returns, and the ring becomes free. [`every_state`] looks at
//! all states that a small [`World`] can come to, [`schedule`] at those along one way through a larger one. That
//! they would find something is shown by each [`Fault`] in turn.
//!
//! # What is modelled
//!
//! Two threads with store buffers, as on x86, and two lines of two words; a barrier that reaches one processor after
//! the other; copies word by word; marks that come round after four epochs; rings of two or three parts, of one line
//! each; batches that go to a spill file; heads that tear; parts of which header or body reaches the disk without the
//! other; a line that is damaged in the live image; kills between any two steps, where the caches keep what was
//! written and not synced, or lose it in silence; and the close.
//!
//! # What is not
//!
//! - Time: a step that waits cannot be done yet, and a hard close is a look that is repeated. That something comes about
//!   while threads go on to store, however they take turns, is not checked. Neither is the hint before step 1, which only spares waiting inside.
//! - Weaker orders of memory than that of x86; `Strict`, in which step 1 fences and G1 and G2 are left out; handlers
//!   of signals.
//! - The test whether a live image may be trusted, but for errors of write-back: the right files are found. Recovery
//!   after a loss of power is what the check does, and has no steps of its own.
//! - Failed writes to the pool, growth, several processes at once.
//! - Damage to the base, which check words are there for, and the place where they lie, which may change.
//! - C1 is one step; so is reading the batches back on the way out, and O6.
//!
//! | file | |
//! |---|---|
//! | `mod.rs` | a world, and a state of it |
//! | `fault.rs` | what may be wrong |
//! | `disk.rs` | base, log, heads and spill files, the caches before them, and what a loss of power leaves |
//! | `thread.rs`, `snapshotter.rs`, `checkpointer.rs`, `process.rs` | who does steps |
//! | `check.rs` | what must hold |
//! | `progress.rs` | what must come about |
//! | `search.rs` | which states are looked at |

mod check;
mod checkpointer;
mod disk;
mod fault;
mod process;
mod progress;
mod search;
mod snapshotter;
mod thread;

use std::hash::{DefaultHasher, Hash, Hasher};

use checkpointer::Checkpointer;
use disk::{Disk, Head, Position};
pub use fault::Fault;
use process::Process;
pub use search::{Looked, Tally, every_state, schedule};
use snapshotter::Snapshotter;
use thread::Thread;

/// Threads of the program.
pub const THREADS: usize = 2;

/// Lines of the pool.
pub const LINES: usize = 2;

/// Each thread has a word of its own in a line: the number of its last store there.
const WORDS: usize = THREADS;

/// The contents of a line.
type Line = [u8; WORDS];

/// Contents of all lines.
type Image = [Line; LINES];

/// Lines by number, with contents.
type Lines = Vec<(usize, Line)>;

/// What a thread of the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Stores to its word of this line.
    Store(usize),
    /// Tells the other thread, in memory, which stores it has made.
    Tell,
    /// Learns what the other one has told.
    Learn,
    /// Reads the other one's word of this line.
    Peek(usize),
}

/// How often something has happened, or may happen at the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Snapshots that came to their end.
    pub snapshots: u8,
    /// Checkpoints that came to their end; the way out of a full ring is taken beyond the limit, too.
    pub checkpoints: u8,
    /// Kills, each followed by another process.
    pub kills: u8,
    /// Closes.
    pub closes: u8,
    /// Lines of the live image that were lost by an error of write-back.
    pub damages: u8,
}

/// A program, and what may happen to it.
#[derive(Clone, Debug)]
pub struct World {
    /// What each thread does.
    pub program: [Vec<Op>; THREADS],
    /// How often things happen at the most.
    pub at_most: Counts,
    /// How many parts the ring has room for: two or three.
    pub ring: usize,
    /// A batch of more lines than this goes to a spill file; so does one that the ring has no room for.
    pub spill_above: usize,
    /// A page, which checkpoints copy as a whole, has both lines.
    pub wide_pages: bool,
    /// What is wrong with the protocol.
    pub fault: Option<Fault>,
}

impl World {
    /// A world in which the threads do this and nothing else happens.
    #[must_use]
    pub fn new(program: [&[Op]; THREADS]) -> Self {
        let program = program.map(<[Op]>::to_vec);
        let at_most = Counts::default();
        World { program, at_most, ring: 2, spill_above: usize::MAX, wide_pages: false, fault: None }
    }

    fn planted(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn page(&self, line: usize) -> usize {
        if self.wide_pages { 0 } else { line }
    }

    fn pages(&self) -> std::ops::Range<usize> {
        0..self.page(LINES - 1) + 1
    }

    fn lines(&self, page: usize) -> impl Iterator<Item = usize> {
        (0..LINES).filter(move |line| self.page(*line) == page)
    }

    /// The check word of a page of an image.
    fn sum_of(&self, page: usize, image: &Image) -> u64 {
        sum(&self.lines(page).map(|line| image[line]).collect::<Vec<_>>())
    }

    /// What the first stores of each thread, so many, leave.
    fn image_after(&self, stores: [u8; THREADS]) -> Image {
        let mut image = Image::default();
        for (thread, ops) in self.program.iter().enumerate() {
            let lines = ops.iter().filter_map(|op| match op {
                Op::Store(line) => Some(*line),
                _ => None,
            });
            for (number, line) in (1..=stores[thread]).zip(lines) {
                image[line][thread] = number;
            }
        }
        image
    }
}

/// All that there is at one instant.
#[derive(Clone, Hash)]
struct State {
    live: Live,
    disk: Disk,
    memory: Memory,
    record: Record,
}

/// The live file: header, marks, image. It outlives the process.
#[derive(Clone, Copy, Default, Hash)]
struct Live {
    epoch: u8,
    noted: Position,
    /// The header says that the image is damaged.
    bad: bool,
    /// The system would say that a page could not be written back.
    has_error: bool,
    marks: [u8; LINES],
    image: Image,
}

/// What dies with the process.
#[derive(Clone, Default, Hash)]
struct Memory {
    threads: [Thread; THREADS],
    /// `STATE`.
    epoch: u8,
    phase: Phase,
    /// The store of G3 is in the snapshotter's store buffer: with [`Fault::NoSnapshotterFence`] only.
    closes_late: bool,
    copying: bool,
    inside: [bool; THREADS],
    /// Dirty lists and save lists, by parity of epochs.
    dirty: [[Vec<usize>; 2]; THREADS],
    saved: [[Lines; 2]; THREADS],
    /// How many stores each thread has told of.
    told: [u8; THREADS],
    process: Process,
    snapshotter: Snapshotter,
    checkpointer: Checkpointer,
    /// The snapshotter waits for room in the ring.
    needs_room: bool,
    /// The epoch that was noted last.
    noted_epoch: u8,
    applied: Position,
    bitmap: [bool; LINES],
    /// The newest head, read or durable.
    head: Head,
}

/// The phases of the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Open,
    Closing,
    Closed,
}

/// What only the model knows.
#[derive(Clone, Default, Hash)]
struct Record {
    /// How many stores of the other thread a thread had seen, at each of its own.
    seen: [Vec<u8>; THREADS],
    /// How many stores of each thread a loss of power must leave.
    promised: [u8; THREADS],
    counts: Counts,
}

impl State {
    /// An empty pool in use.
    fn first() -> State {
        /// Any that has others before it.
        const EPOCH: u8 = 5;
        let head = Head::default().next(Position::default(), false, false);
        let process = Process::running();
        State {
            live: Live { epoch: EPOCH, ..Live::default() },
            disk: Disk::new(head),
            memory: Memory { epoch: EPOCH, head, process, ..Memory::default() },
            record: Record::default(),
        }
    }

    /// The state after a step.
    fn with(&self, step: impl FnOnce(&mut State)) -> State {
        let mut next = self.clone();
        step(&mut next);
        next
    }

    /// The same; nothing where the step says that it has to wait.
    fn after(&self, step: impl FnOnce(&mut State) -> bool) -> Option<State> {
        let mut next = self.clone();
        step(&mut next).then_some(next)
    }
}

/// The mark of an epoch: a byte that comes round after four of them.
fn mark(epoch: u8) -> u8 {
    (epoch - 1) % 4 + 1
}

/// Which lists an epoch has.
fn parity(epoch: u8) -> usize {
    usize::from(epoch % 2)
}

/// The sum of anything.
fn sum(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// `again` for the next of `count`, or `then` after the last.
fn each<S>(at: usize, count: usize, again: impl Fn(usize) -> S, then: S) -> S {
    if at + 1 < count { again(at + 1) } else { then }
}
