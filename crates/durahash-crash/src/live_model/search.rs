//! All states of a small world; one way through a larger one.

use std::collections::HashSet;
use std::ops::AddAssign;

use super::check::Checked;
use super::disk::Kept;
use super::{Counts, Fault, LINES, Op, State, THREADS, World};
use super::{checkpointer, process, progress, snapshotter, sum, thread};
use crate::script::Rng;

/// What [`every_state`] has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    /// Different states.
    pub states: usize,
    /// There are no others.
    pub is_all: bool,
}

/// Checks every state of a world, or so many.
///
/// # Errors
/// What is wrong in the first state in which something is.
pub fn every_state(world: &World, at_most: usize) -> Result<Looked, String> {
    let (mut seen, mut checked) = (HashSet::new(), Checked::default());
    let mut open = vec![State::first()];
    seen.insert(sum(&open[0]));
    while let Some(state) = open.pop() {
        checked.check(world, &state)?;
        progress::check(world, &state)?;
        let steps = (0..ACTORS).flat_map(|actor| steps(world, &state, actor));
        let drains = (0..THREADS).filter_map(|t| drain(&state, t));
        let kills = (0..KILLS).filter_map(|kill| killed(world, &state, kill));
        open.extend(steps.chain(drains).chain(kills).filter(|next| seen.insert(sum(next))));
        if seen.len() >= at_most {
            break;
        }
    }
    Ok(Looked { states: seen.len(), is_all: open.is_empty() })
}

/// Who does steps: the threads, and these.
const SNAPSHOTTER: usize = THREADS;
const CHECKPOINTER: usize = THREADS + 1;
const PROCESS: usize = THREADS + 2;
const ACTORS: usize = THREADS + 3;

/// What may come next, if this actor does a step; nothing where it has to wait.
fn steps(world: &World, state: &State, actor: usize) -> Vec<State> {
    match actor {
        SNAPSHOTTER => {
            let step = state.after(|next| snapshotter::step(world, next));
            let drain = |next: &mut State| snapshotter::drain_own(&mut next.memory);
            let drained = state.memory.closes_late.then(|| state.with(drain));
            drained.into_iter().chain(step).collect()
        }
        CHECKPOINTER => state.after(|next| checkpointer::step(world, next)).into_iter().collect(),
        PROCESS => process::steps(world, state),
        t => state.after(|next| thread::step(world, next, t)).into_iter().collect(),
    }
}

fn drain(state: &State, t: usize) -> Option<State> {
    let drain = |next: &mut State| thread::drain_one(&mut next.live, &mut next.memory, t);
    state.memory.threads[t].has_buffered().then(|| state.with(drain))
}

/// The ways in which caches come out of a kill.
const KILLS: usize = 8;

fn killed(world: &World, state: &State, number: usize) -> Option<State> {
    let kept = Kept { heads: number & 1 != 0, parts: number & 2 != 0, base: number & 4 == 0 };
    let may_be = state.record.counts.kills < world.at_most.kills;
    may_be.then(|| process::kill(world, state, kept)).flatten()
}

/// What happened in schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// States that were checked, those that were met again among them.
    pub states: u64,
    /// Kills.
    pub kills: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Checkpoints, ways out among them.
    pub checkpoints: u64,
    /// Ways out of a full ring.
    pub ways_out: u64,
    /// Batches that went to a spill file.
    pub spills: u64,
    /// Closes.
    pub closes: u64,
    /// Live images that were found to be damaged.
    pub damaged: u64,
    /// Marks that the scan met and that are those of the epoch, or seem so as they have come round.
    pub wraps: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.states += other.states;
        self.kills += other.kills;
        self.snapshots += other.snapshots;
        self.checkpoints += other.checkpoints;
        self.ways_out += other.ways_out;
        self.spills += other.spills;
        self.closes += other.closes;
        self.damaged += other.damaged;
        self.wraps += other.wraps;
    }
}

/// Checks the states along a random way through a random world.
///
/// # Errors
/// What is wrong in the first state in which something is, with the world.
pub fn schedule(fault: Option<Fault>, seed: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let world = random_world(fault, &mut rng);
    let mut run = Run::new(&world, rng);
    match run.go() {
        Ok(()) => Ok(run.tally),
        Err(e) => Err(format!("{e}\nseed {seed}, {world:?}")),
    }
}

fn random_world(fault: Option<Fault>, rng: &mut Rng) -> World {
    let program = std::array::from_fn(|_| {
        let op = |rng: &mut Rng| match rng.below(8) {
            0..5 => Op::Store(rng.below(LINES)),
            5 => Op::Tell,
            6 => Op::Learn,
            _ => Op::Peek(rng.below(LINES)),
        };
        (0..4 + rng.below(8)).map(|_| op(rng)).collect()
    });
    let at_most = Counts {
        snapshots: 6,
        checkpoints: 4,
        kills: [0, 2, 6, 12][rng.below(4)],
        closes: u8::from(rng.below(2) == 0),
        damages: u8::from(rng.below(4) == 0),
    };
    let ring = 2 + rng.below(2);
    let spill_above = [1, usize::MAX, usize::MAX][rng.below(3)];
    World { program, at_most, ring, spill_above, wide_pages: rng.below(2) == 0, fault }
}

/// A schedule under way.
///
/// What some faults need is rare where all actors are as likely to go on. So each has a weight of its own, and some
/// sleep for long. In half of the schedules the snapshotter sleeps between S7 and S8, where a batch is durable and not
/// noted, and the process is likely to be killed behind a head that the checkpointer writes meanwhile.
struct Run<'a> {
    world: &'a World,
    rng: Rng,
    weights: [usize; ACTORS],
    /// One in how many states is followed by a kill.
    kill_one_in: usize,
    sleeps_before_noting: bool,
    state: State,
    tally: Tally,
}

impl<'a> Run<'a> {
    fn new(world: &'a World, mut rng: Rng) -> Self {
        let weights = std::array::from_fn(|_| 1 + rng.below(12));
        let kill_one_in = [20, 60, 200][rng.below(3)];
        let sleeps_before_noting = rng.below(2) == 0;
        let (state, tally) = (State::first(), Tally::default());
        Run { world, rng, weights, kill_one_in, sleeps_before_noting, state, tally }
    }

    fn go(&mut self) -> Result<(), String> {
        const STATES_MAX: u64 = 4000;
        const PROGRESS_ONE_IN: u64 = 16;
        let mut checked = Checked::default();
        while self.tally.states < STATES_MAX {
            self.tally.states += 1;
            checked.check(self.world, &self.state)?;
            if self.tally.states.is_multiple_of(PROGRESS_ONE_IN) {
                progress::check(self.world, &self.state)?;
            }
            let sleeps = self.sleeps_before_noting && self.state.memory.snapshotter.has_durable();
            if let Some(next) = self.killed(sleeps) {
                self.state = next;
            } else if let Some(next) = self.step(sleeps) {
                self.count_beside(&next);
                self.state = next;
            } else if !sleeps {
                break;
            }
        }
        let Counts { snapshots, checkpoints, kills, closes, .. } = self.state.record.counts;
        self.tally.snapshots = snapshots.into();
        self.tally.checkpoints = checkpoints.into();
        self.tally.kills = kills.into();
        self.tally.closes = closes.into();
        Ok(())
    }

    fn killed(&mut self, sleeps: bool) -> Option<State> {
        let is_asked_for = sleeps && self.state.memory.checkpointer.has_durable();
        let is_killed =
            self.rng.below(self.kill_one_in) == 0 || is_asked_for && self.rng.below(2) == 0;
        is_killed.then(|| killed(self.world, &self.state, self.rng.below(KILLS))).flatten()
    }

    /// A step of one of the actors; nothing where all of them wait.
    fn step(&mut self, sleeps: bool) -> Option<State> {
        let mut weights = self.weights;
        if sleeps && self.rng.below(12) != 0 {
            weights[SNAPSHOTTER] = 0;
        }
        loop {
            let total: usize = weights.iter().sum();
            if total == 0 {
                return None;
            }
            let mut at = self.rng.below(total);
            let actor = weights.iter().position(|weight| {
                let is_it = at < *weight;
                at = at.saturating_sub(*weight);
                is_it
            })?;
            let mut steps = self.steps_of(actor);
            if !steps.is_empty() {
                return Some(steps.swap_remove(self.rng.below(steps.len())));
            }
            weights[actor] = 0;
        }
    }

    fn steps_of(&mut self, actor: usize) -> Vec<State> {
        let (world, state) = (self.world, &self.state);
        let mut next = Vec::new();
        if actor < THREADS {
            let has_ended = state.memory.threads[actor].has_ended(world, actor);
            if has_ended || self.rng.below(3) == 0 {
                next.extend(drain(state, actor));
            }
        }
        if next.is_empty() {
            next = steps(world, state, actor);
        }
        if actor < THREADS && next.is_empty() {
            next.extend(drain(state, actor));
        }
        if self.rng.below(30) != 0 {
            // Damage is rare.
            let damages = state.record.counts.damages;
            next.retain(|next| next.record.counts.damages == damages);
        }
        next
    }

    /// Counts what the last state does not tell.
    fn count_beside(&mut self, next: &State) {
        let before = &self.state;
        let is_new = |is: fn(&State) -> bool| u64::from(is(next) && !is(before));
        self.tally.ways_out += is_new(|state| state.memory.checkpointer.is_on_way_out());
        self.tally.spills += is_new(|state| state.disk.is_writing_spill());
        self.tally.damaged += is_new(|state| state.live.bad);
        self.tally.wraps += is_new(|state| state.memory.process.has_met(state.memory.epoch));
    }
}
