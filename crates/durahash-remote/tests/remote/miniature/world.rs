//! Shared memory of 8-byte words, and verbs that arrive when they like.
//!
//! A batch is taken apart into pieces of one word. Each piece takes effect at an instant of its own, so
//! reads and writes of several words are torn wherever they can be, and nothing orders two verbs but
//! awaiting the first. A batch completes when its last piece has taken effect. Time is a number: an
//! event is taken when it is the earliest.
//!
//! A client that is killed stops at once; of its verbs under way some may never arrive. A client
//! that is closed is cut off: none of its verbs takes effect any more, and its next await fails.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use super::layout::{self, Addr, Class};
use super::random::Random;
use super::rules::Setup;

/// The client was cut off: what it was doing has an unknown outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed;

#[derive(Clone, Copy, Debug)]
enum Verb {
    Read,
    Write(u64),
    Swap { old: u64, new: u64 },
    Add(u64),
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    addr: Addr,
    verb: Verb,
}

/// Verbs posted together; unordered.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pieces: Vec<Piece>,
    /// Objects that belong to the index as soon as the swap of this batch succeeds.
    publishes: Vec<Addr>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A batch with the verbs that `fill` adds.
    pub(crate) fn of<T>(fill: impl FnOnce(&mut Self) -> T) -> Self {
        let mut batch = Self::new();
        fill(&mut batch);
        batch
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns where in [`Done`] the words will be.
    pub(crate) fn read(&mut self, addr: Addr, words: usize) -> usize {
        let at = self.pieces.len();
        self.pieces.extend((0..words).map(|i| Piece { addr: addr + i, verb: Verb::Read }));
        at
    }

    pub(crate) fn write(&mut self, addr: Addr, words: &[u64]) {
        let pieces = words.iter().enumerate();
        self.pieces.extend(pieces.map(|(i, &w)| Piece { addr: addr + i, verb: Verb::Write(w) }));
    }

    pub(crate) fn add(&mut self, addr: Addr, value: u64) {
        self.pieces.push(Piece { addr, verb: Verb::Add(value) });
    }

    /// Returns where in [`Done`] the word found will be. It was swapped if that is `old`.
    pub(crate) fn swap(&mut self, addr: Addr, old: u64, new: u64, publishes: &[Addr]) -> usize {
        self.pieces.push(Piece { addr, verb: Verb::Swap { old, new } });
        self.publishes.extend(publishes);
        self.pieces.len() - 1
    }
}

/// The results of a batch's pieces.
pub(crate) type Done = Vec<u64>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// Of a batch, these pieces in the order in which they arrive.
    Arrive(u32, u32, u32),
    Resume(u32),
    Stall(u32),
    Kill(u32),
    Evict(u32),
    MarkDead(u32),
}

#[derive(Debug)]
struct Posted {
    client: usize,
    /// The task that waits, unless it is unsignaled.
    task: Option<usize>,
    batch: Batch,
    /// The pieces as they arrive.
    order: Vec<u32>,
    found: Vec<u64>,
    left: usize,
    dropped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Live,
    Killed,
    Closed,
}

#[derive(Debug)]
struct Peer {
    life: Life,
    stalled_until: u64,
    /// Unsignaled batches that have not completed.
    unsignaled: Vec<usize>,
}

pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) random: Random,
    pub(crate) now: u64,
    words: Vec<u64>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    posted: Vec<Posted>,
    peers: Vec<Peer>,
    /// The client that each task belongs to.
    tasks: Vec<usize>,
    /// Objects that only their client knows of.
    private: HashMap<Addr, (usize, Class)>,
    /// Memory that evicted clients have left.
    orphans: Vec<(Addr, Class)>,
    /// Something that no run may do, such as following address 0.
    pub(crate) fault: Option<&'static str>,
}

pub(crate) type Shared = Rc<RefCell<World>>;

impl World {
    pub(crate) fn new(setup: Setup, random: Random) -> Self {
        let words = vec![0; layout::HEAP];
        Self {
            setup,
            random,
            now: 0,
            words,
            events: BinaryHeap::new(),
            scheduled: 0,
            posted: Vec::new(),
            peers: Vec::new(),
            tasks: Vec::new(),
            private: HashMap::new(),
            orphans: Vec::new(),
            fault: None,
        }
    }

    pub(crate) fn add_client(&mut self) -> usize {
        self.peers.push(Peer { life: Life::Live, stalled_until: 0, unsignaled: vec![] });
        self.peers.len() - 1
    }

    pub(crate) fn add_task(&mut self, client: usize, after: u64) -> usize {
        self.tasks.push(client);
        let task = self.tasks.len() - 1;
        self.schedule(after, Event::Resume(task as u32));
        task
    }

    pub(crate) fn life(&self, client: usize) -> Life {
        self.peers[client].life
    }

    pub(crate) fn client_of(&self, task: usize) -> usize {
        self.tasks[task]
    }

    pub(crate) fn schedule(&mut self, after: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.now + after, self.scheduled, event)));
    }

    /// The next event; pieces and other things that are not a task's are done already.
    pub(crate) fn step(&mut self) -> Option<Event> {
        let Reverse((due, _, event)) = self.events.pop()?;
        self.now = due;
        match event {
            Event::Arrive(batch, from, to) => {
                self.arrive(batch as usize, from as usize..to as usize);
            }
            Event::Resume(task) => {
                let until = self.peers[self.tasks[task as usize]].stalled_until;
                if until > self.now {
                    self.schedule(until - self.now, event);
                }
            }
            Event::Stall(client) => {
                let ticks = self.random.below(self.setup.late_max * 2);
                self.peers[client as usize].stalled_until = self.now + ticks;
            }
            Event::Kill(client) => self.kill(client as usize),
            Event::Evict(client) => self.evict(client as usize),
            Event::MarkDead(client) => self.mark_dead(client as usize),
        }
        Some(event)
    }

    pub(crate) fn runs(&self, task: u32) -> bool {
        let peer = &self.peers[self.tasks[task as usize]];
        peer.life != Life::Killed && peer.stalled_until <= self.now
    }

    fn latency(&mut self) -> u64 {
        if self.random.one_in(self.setup.late_one_in) {
            self.random.below(self.setup.late_max)
        } else {
            0
        }
    }

    fn post(&mut self, client: usize, task: Option<usize>, batch: Batch) -> usize {
        let id = self.posted.len();
        let mut base = 1 + self.random.below(6) + self.latency();
        if task.is_none() {
            base += self.random.below(self.setup.unsignaled_max);
        }
        let spread = if self.random.one_in(self.setup.torn_one_in) { 40 } else { 3 };
        let mut dues: Vec<(u64, u32)> = (0..batch.pieces.len() as u32)
            .map(|piece| {
                let late = if self.random.one_in(8) { self.latency() } else { 0 };
                (base + self.random.below(spread) + late, piece)
            })
            .collect();
        dues.sort_unstable();
        let mut from = 0;
        for together in dues.chunk_by(|one, other| one.0 == other.0) {
            let to = from + together.len() as u32;
            self.schedule(together[0].0, Event::Arrive(id as u32, from, to));
            from = to;
        }
        let order = dues.into_iter().map(|(_, piece)| piece).collect();
        let left = batch.pieces.len();
        let found = vec![0; left];
        self.posted.push(Posted { client, task, batch, order, found, left, dropped: false });
        id
    }

    fn arrive(&mut self, id: usize, pieces: Range<usize>) {
        let posted = &mut self.posted[id];
        posted.left -= pieces.len();
        for &piece in posted.order[pieces].iter().filter(|_| !posted.dropped) {
            let piece = piece as usize;
            let Piece { addr, verb } = posted.batch.pieces[piece];
            if addr == 0 || addr >= self.words.len() {
                self.fault = Some("an address that is none");
                return;
            }
            let word = &mut self.words[addr];
            posted.found[piece] = *word;
            match verb {
                Verb::Read => {}
                Verb::Write(new) => *word = new,
                Verb::Swap { old, new } if *word == old => {
                    *word = new;
                    for object in &posted.batch.publishes {
                        self.private.remove(object);
                    }
                }
                Verb::Swap { .. } => {}
                // Only of chunks.
                Verb::Add(value) => {
                    *word += value;
                    let end = *word as usize;
                    self.words.resize(end, 0);
                }
            }
        }
        if posted.left == 0 {
            let (client, task) = (posted.client, posted.task);
            if let Some(task) = task {
                let stall = self.random.one_in(self.setup.stall_one_in);
                let after = self.random.below(3)
                    + if stall { self.random.below(self.setup.late_max) } else { 0 };
                self.schedule(after, Event::Resume(task as u32));
            } else {
                self.peers[client].unsignaled.retain(|&other| other != id);
                self.wake_all(client);
            }
        }
    }

    /// Polling a task that cannot go on is harmless.
    fn wake_all(&mut self, client: usize) {
        for task in (0..self.tasks.len()).filter(|&t| self.tasks[t] == client).collect::<Vec<_>>() {
            self.schedule(1, Event::Resume(task as u32));
        }
    }

    fn kill(&mut self, client: usize) {
        if self.peers[client].life != Life::Live {
            return;
        }
        self.peers[client].life = Life::Killed;
        let kept = self.random.below(3);
        for posted in self.posted.iter_mut().filter(|p| p.client == client && p.left > 0) {
            posted.dropped = kept == 0 || kept == 1 && self.random.one_in(2);
        }
    }

    /// The first step of an eviction: no verb of this client takes effect from here on.
    fn evict(&mut self, client: usize) {
        if self.setup.rules.eviction_fences_before_reuse {
            for posted in self.posted.iter_mut().filter(|p| p.client == client) {
                posted.dropped = true;
            }
            if self.peers[client].life == Life::Live {
                self.peers[client].life = Life::Closed;
                self.peers[client].stalled_until = 0;
                self.wake_all(client);
            }
        }
        let after = self.random.below(30);
        self.schedule(after, Event::MarkDead(client as u32));
    }

    /// The second step and the third: the row says so, and its private memory is anybody's.
    fn mark_dead(&mut self, client: usize) {
        self.words[layout::row(client)] = layout::ROW_DEAD;
        let mut left: Vec<_> = self.private.iter().filter(|(_, (c, _))| *c == client).collect();
        left.sort_unstable_by_key(|(addr, _)| **addr);
        let left: Vec<_> = left.into_iter().map(|(&addr, &(_, class))| (addr, class)).collect();
        for &(addr, _) in &left {
            self.private.remove(&addr);
        }
        self.orphans.extend(left);
    }

    /// Memory of this class: what its client has on a list, what an evicted one has left, or new. It
    /// is the client's own until it is published.
    pub(crate) fn allocate(&mut self, client: usize, class: Class, free: Option<Addr>) -> Addr {
        let mut orphan = || {
            let at = self.orphans.iter().rposition(|&(_, other)| other == class)?;
            Some(self.orphans.swap_remove(at).0)
        };
        let reused = if self.setup.reuse { free.or_else(&mut orphan) } else { None };
        let addr = reused.unwrap_or_else(|| {
            let addr = self.words.len();
            self.words.resize(addr + class.words(self.setup.entries), 0);
            addr
        });
        if !self.setup.sweeps {
            self.private.insert(addr, (client, class));
        }
        addr
    }

    /// The end of what was allocated, even.
    pub(crate) fn end(&self) -> usize {
        self.words.len().next_multiple_of(2)
    }

    /// A word, for the maker of the first segment and for the judge.
    pub(crate) fn word(&mut self, addr: Addr) -> &mut u64 {
        &mut self.words[addr]
    }
}

/// One task's way to the world.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) world: Shared,
    pub(crate) client: usize,
    pub(crate) task: usize,
}

impl Endpoint {
    /// Posts, and waits until every verb has taken effect.
    pub(crate) async fn post(&self, batch: Batch) -> Result<Done, Closed> {
        self.open()?;
        let id = self.world.borrow_mut().post(self.client, Some(self.task), batch);
        self.until(|world| {
            let posted = &mut world.posted[id];
            if posted.left > 0 {
                return None;
            }
            posted.batch.pieces = Vec::new();
            posted.order = Vec::new();
            Some(std::mem::take(&mut posted.found))
        })
        .await
    }

    /// Waits until `done` has a value, or the client is closed.
    async fn until<T>(&self, done: impl Fn(&mut World) -> Option<T>) -> Result<T, Closed> {
        poll_fn(|_| {
            let world = &mut self.world.borrow_mut();
            if world.life(self.client) == Life::Closed {
                return Poll::Ready(Err(Closed));
            }
            done(world).map_or(Poll::Pending, |value| Poll::Ready(Ok(value)))
        })
        .await
    }

    /// Posts, and does not wait.
    pub(crate) fn post_unsignaled(&self, batch: Batch) -> Result<(), Closed> {
        self.open()?;
        let mut world = self.world.borrow_mut();
        let id = world.post(self.client, None, batch);
        world.peers[self.client].unsignaled.push(id);
        Ok(())
    }

    /// Waits until what this client has posted unsignaled so far has taken effect.
    pub(crate) async fn flush(&self) -> Result<(), Closed> {
        let before = self.world.borrow().posted.len();
        self.until(|world| {
            let peer = &world.peers[self.client];
            peer.unsignaled.iter().all(|&id| id >= before).then_some(())
        })
        .await
    }

    pub(crate) async fn sleep(&self, ticks: u64) -> Result<(), Closed> {
        let until = self.world.borrow().now + ticks;
        self.world.borrow_mut().schedule(ticks, Event::Resume(self.task as u32));
        poll_fn(|_| {
            let world = self.world.borrow();
            if world.now >= until { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.open()
    }

    fn open(&self) -> Result<(), Closed> {
        if self.world.borrow().life(self.client) == Life::Closed { Err(Closed) } else { Ok(()) }
    }
}
