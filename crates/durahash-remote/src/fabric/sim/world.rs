//! The simulated nodes, clients, and what is under way between them.
//!
//! A post is cut into parts, each of which takes effect at a time of its own; then it completes. Both
//! are events on a heap, by time and then by the order in which they were made.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use durahash_media::{Error, ErrorKind, Result};

use super::options::{Chaos, SimOptions};
use super::rng::Rng;
use super::wire::{PS_PER_NS, Queue, Times};
use super::{Choice, Hook, Moment, VerbKind, What};
use crate::fabric::batch::{Batch, Done, Kind, Verb};
use crate::fabric::{Addr, Counts};

pub(super) struct World {
    pub(super) options: SimOptions,
    now: u64,
    seq: u64,
    rng: Rng,
    heap: BinaryHeap<Reverse<Event>>,
    posts: Vec<Post>,
    free: Vec<u32>,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    client_nics: Vec<Queue>,
    /// The last client of each row.
    rows: Vec<Option<u32>>,
    /// Clients that died and whose tasks are to be dropped.
    pub(super) died: Vec<u32>,
    trace: u64,
    pub(super) events: u64,
    pub(super) hook: Option<Hook>,
}

struct Node {
    bytes: Vec<u8>,
    nic: Queue,
    lost: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Lives,
    /// All its handles were dropped.
    Left,
    Dead,
}

struct Client {
    row: u32,
    nic: u32,
    life: Life,
    evicted: bool,
    counts: Counts,
    /// It learns of nothing until then.
    stalled_until: u64,
    kill_at_verb: Option<u64>,
    unsignaled: Vec<Unsignaled>,
}

/// Writes of a client to a node that it does not await.
#[derive(Clone, Default)]
struct Unsignaled {
    posted: u64,
    /// So many of those posted have been flushed.
    flushed: u64,
    /// Those that may be under way: slot and number of the post.
    under_way: Vec<(u32, u64)>,
    /// When the latest has taken effect and its answer is here.
    complete: u64,
    /// One of them since the last flush was to a lost node.
    lost: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: u64,
    seq: u64,
    slot: u32,
    part: u32,
}

/// In place of a part: the post completes.
const COMPLETE: u32 = u32::MAX;

/// Bytes of a verb that take effect together.
#[derive(Clone, Copy)]
struct Part {
    verb: u32,
    from: u32,
    len: u32,
    done: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Batch,
    Unsignaled,
    Flush { node: u8, upto: u64 },
    Sleep,
    Evict { row: u32 },
}

/// What becomes of the parts of a client that died.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    All,
    None,
    Each,
}

struct Post {
    /// Tells it from earlier posts in this slot; events made before are not for it.
    id: u64,
    client: u32,
    purpose: Purpose,
    verbs: Vec<Verb>,
    out: Vec<u8>,
    back: Vec<u8>,
    parts: Vec<Part>,
    left: u32,
    fate: Fate,
    /// The event that completes it; 0 when it has completed.
    completion: u64,
    error: Option<ErrorKind>,
    evicted: bool,
    waker: Option<Waker>,
    /// A future waits for it.
    awaited: bool,
    in_use: bool,
}

impl World {
    pub(super) fn new(options: SimOptions) -> Self {
        let nodes = options.node_bytes.iter().map(|&bytes| Node {
            bytes: vec![0; usize::try_from(bytes).expect("a simulated region fits into memory")],
            nic: Queue::default(),
            lost: false,
        });
        World {
            now: 0,
            seq: 0,
            rng: Rng::new(options.seed),
            heap: BinaryHeap::new(),
            posts: Vec::new(),
            free: Vec::new(),
            nodes: nodes.collect(),
            clients: Vec::new(),
            client_nics: vec![Queue::default(); options.client_nics as usize],
            rows: vec![None; options.rows as usize],
            died: Vec::new(),
            trace: 0,
            events: 0,
            hook: None,
            options,
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now / PS_PER_NS
    }

    pub(super) fn trace(&self) -> u64 {
        self.trace
    }

    pub(super) fn counts(&self, client: u32) -> Counts {
        self.clients[client as usize].counts
    }

    pub(super) fn all_counts(&self) -> Counts {
        self.clients.iter().fold(Counts::default(), |sum, client| sum + client.counts)
    }

    pub(super) fn row(&self, client: u32) -> u32 {
        self.clients[client as usize].row
    }

    pub(super) fn lives(&self, client: u32) -> bool {
        self.clients[client as usize].life == Life::Lives
    }

    pub(super) fn bytes(&self, addr: Addr, len: usize) -> Result<&[u8]> {
        let mut batch = Batch::new();
        batch.read(addr, len);
        self.check(&batch)?;
        Ok(&self.nodes[addr.node() as usize].bytes[addr.off() as usize..][..len])
    }

    pub(super) fn bytes_mut(&mut self, addr: Addr, len: usize) -> Result<&mut [u8]> {
        self.bytes(addr, len)?;
        Ok(&mut self.nodes[addr.node() as usize].bytes[addr.off() as usize..][..len])
    }

    // Clients.

    pub(super) fn add_client(&mut self) -> Result<u32> {
        let leased = self.options.lease_ns.is_some();
        let clients = &self.clients;
        let free = self.rows.iter().position(|of_row| {
            of_row.is_none_or(|client| {
                let client = &clients[client as usize];
                match client.life {
                    Life::Lives => false,
                    Life::Left => true,
                    Life::Dead => !leased || client.evicted,
                }
            })
        });
        let Some(row) = free else {
            let what = "every row of the fabric has a client that lives, or is not evicted yet";
            return Err(ErrorKind::Options { what }.into());
        };
        if let Some(before) = self.rows[row] {
            self.fence(before);
        }
        let client = self.clients.len() as u32;
        self.rows[row] = Some(client);
        let nic = if self.options.client_nics == 0 {
            self.client_nics.push(Queue::default());
            client
        } else {
            client % self.options.client_nics
        };
        self.clients.push(Client {
            row: row as u32,
            nic,
            life: Life::Lives,
            evicted: false,
            counts: Counts::default(),
            stalled_until: 0,
            kill_at_verb: None,
            unsignaled: vec![Unsignaled::default(); self.nodes.len()],
        });
        Ok(client)
    }

    pub(super) fn leave(&mut self, client: u32) {
        let client = &mut self.clients[client as usize];
        if client.life == Life::Lives {
            client.life = Life::Left;
        }
    }

    pub(super) fn kill(&mut self, client: u32) {
        if self.clients[client as usize].life != Life::Lives {
            return;
        }
        self.clients[client as usize].life = Life::Dead;
        self.died.push(client);
        self.note(3, client.into(), 0);
        for slot in 0..self.posts.len() {
            if self.posts[slot].in_use && self.posts[slot].client == client {
                self.posts[slot].fate = match self.rng.below(4) {
                    0 => Fate::All,
                    1 => Fate::None,
                    _ => Fate::Each,
                };
            }
        }
    }

    pub(super) fn kill_at_verb(&mut self, client: u32, verb: u64) {
        self.clients[client as usize].kill_at_verb = Some(verb);
    }

    pub(super) fn stall(&mut self, client: u32, ns: u64) {
        let until = self.now + ns * PS_PER_NS;
        let stalled = &mut self.clients[client as usize].stalled_until;
        *stalled = until.max(*stalled);
    }

    pub(super) fn lose_node(&mut self, node: u8) {
        self.nodes[node as usize].lost = true;
        self.note(4, node.into(), 0);
        for slot in 0..self.posts.len() as u32 {
            let post = &self.posts[slot as usize];
            if !post.in_use || !post.verbs.iter().any(|verb| verb.addr.node() == node) {
                continue;
            }
            for part in 0..self.posts[slot as usize].parts.len() as u32 {
                let post = &self.posts[slot as usize];
                let Part { verb, done, .. } = post.parts[part as usize];
                if !done && post.verbs[verb as usize].addr.node() == node {
                    let applies = self.rng.below(2) == 0;
                    self.end_part(slot, part, applies);
                }
            }
            let post = &mut self.posts[slot as usize];
            if post.completion != 0 {
                post.error = Some(ErrorKind::NodeLost { node });
                let at = self.now + self.options.deadline_ns * PS_PER_NS;
                self.complete_at(slot, at);
            } else if post.purpose == Purpose::Unsignaled {
                let client = post.client as usize;
                self.clients[client].unsignaled[node as usize].lost = true;
                self.release(slot);
            }
        }
    }

    // Posting.

    fn check(&self, batch: &Batch) -> Result<()> {
        batch.check(|node| self.nodes.get(node as usize).map(|node| node.bytes.len() as u64))
    }

    /// Posts a batch; where it waits. `None` when there is nothing to do.
    pub(super) fn post(&mut self, client: u32, batch: Batch) -> Result<Option<u32>> {
        self.check(&batch)?;
        if batch.is_empty() {
            return Ok(None);
        }
        let dies = self.before_post(client, &batch.verbs);
        batch.count(&mut self.clients[client as usize].counts);
        let back = vec![0; batch.back as usize];
        let slot = self.add_post(client, Purpose::Batch, batch.verbs, batch.out, back);
        let complete = self.schedule(slot);
        let complete = self.delayed(complete);
        self.cut(slot, complete);
        self.complete_at(slot, complete);
        if dies {
            self.kill(client);
        }
        Ok(Some(slot))
    }

    pub(super) fn write_unsignaled(&mut self, client: u32, addr: Addr, bytes: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.write(addr, bytes);
        self.check(&batch)?;
        let dies = self.before_post(client, &batch.verbs);
        let counts = &mut self.clients[client as usize].counts;
        counts.unsignaled += 1;
        counts.bytes_out += bytes.len() as u64;
        let slot = self.add_post(client, Purpose::Unsignaled, batch.verbs, batch.out, Vec::new());
        let complete = self.schedule(slot);
        let latest = match self.options.chaos {
            Some(chaos) => {
                complete + self.rng.magnitude(chaos.unsignaled_ns_max.saturating_mul(PS_PER_NS))
            }
            None => complete,
        };
        self.cut(slot, latest);
        let id = self.posts[slot as usize].id;
        let node = addr.node() as usize;
        let lost = self.nodes[node].lost;
        let posts = &self.posts;
        let of_node = &mut self.clients[client as usize].unsignaled[node];
        of_node.posted += 1;
        of_node.complete = of_node.complete.max(complete);
        of_node.lost |= lost;
        if of_node.under_way.len() == of_node.under_way.capacity() {
            let lands = |&(slot, id): &(u32, u64)| {
                posts[slot as usize].id == id && posts[slot as usize].in_use
            };
            of_node.under_way.retain(lands);
        }
        of_node.under_way.push((slot, id));
        if self.posts[slot as usize].left == 0 {
            self.release(slot);
        }
        if dies {
            self.kill(client);
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, client: u32, node: u8) -> Result<Option<u32>> {
        if self.nodes.len() <= node as usize {
            let (off, bytes, region_bytes) = (0, 0, 0);
            return Err(ErrorKind::OutOfRegion { node, off, bytes, region_bytes }.into());
        }
        let of_node = &mut self.clients[client as usize].unsignaled[node as usize];
        if of_node.flushed == of_node.posted {
            return Ok(None);
        }
        let upto = of_node.posted;
        let latest = of_node.complete;
        let under_way = std::mem::take(&mut of_node.under_way);
        let lost = std::mem::take(&mut of_node.lost);
        self.clients[client as usize].counts.round_trips += 1;
        self.note(5, client.into(), node.into());
        let slot = self.add_post(
            client,
            Purpose::Flush { node, upto },
            Vec::new(),
            Vec::new(),
            Vec::new(),
        );
        if lost || self.nodes[node as usize].lost {
            self.posts[slot as usize].error = Some(ErrorKind::NodeLost { node });
            self.complete_at(slot, self.now + self.options.deadline_ns * PS_PER_NS);
            return Ok(Some(slot));
        }
        let complete = latest.max(self.now + self.options.nic.round_trip_ps());
        let complete = self.delayed(complete);
        if self.options.chaos.is_some() {
            for &(written, id) in &under_way {
                let post = &mut self.posts[written as usize];
                if !post.in_use || post.id != id {
                    continue;
                }
                for part in 0..post.parts.len() {
                    if !self.posts[written as usize].parts[part].done {
                        let at = self.between(complete);
                        self.push(at, written, part as u32);
                    }
                }
            }
        }
        // A second flush before this one is complete has to see them, too.
        self.clients[client as usize].unsignaled[node as usize].under_way = under_way;
        self.complete_at(slot, complete);
        Ok(Some(slot))
    }

    pub(super) fn sleep(&mut self, client: u32, ns: u64) -> u32 {
        let slot = self.add_post(client, Purpose::Sleep, Vec::new(), Vec::new(), Vec::new());
        self.complete_at(slot, self.now.saturating_add(ns.max(1).saturating_mul(PS_PER_NS)));
        slot
    }

    pub(super) fn evict(&mut self, client: u32, row: u32) -> u32 {
        self.clients[client as usize].counts.round_trips += 1;
        self.note(6, client.into(), row.into());
        let slot =
            self.add_post(client, Purpose::Evict { row }, Vec::new(), Vec::new(), Vec::new());
        let complete = self.delayed(self.now + self.options.nic.round_trip_ps());
        self.complete_at(slot, complete);
        slot
    }

    /// Tells the hook of the verbs; whether the client dies of this post.
    fn before_post(&mut self, client: u32, verbs: &[Verb]) -> bool {
        let before = self.clients[client as usize].counts.verbs();
        let kill_at = self.clients[client as usize].kill_at_verb;
        let mut dies = kill_at.is_some_and(|at| at < before + verbs.len() as u64);
        if let Some(chaos) = self.options.chaos {
            dies |= chaos.death_one_in != 0
                && verbs.iter().any(|_| self.rng.one_in(chaos.death_one_in));
            if self.rng.one_in(chaos.stall_one_in) {
                let ns = self.rng.magnitude(chaos.stall_ns_max);
                self.stall(client, ns);
            }
        }
        for (number, verb) in (before..).zip(verbs) {
            self.note(1, client.into(), verb.addr.off());
            match self.tell(client, number, verb, What::Posted) {
                Choice::Go => {}
                Choice::Kill => dies = true,
                Choice::Stall { ns } => self.stall(client, ns),
            }
        }
        dies
    }

    fn tell(&mut self, client: u32, number: u64, verb: &Verb, what: What) -> Choice {
        let now_ns = self.now_ns();
        let Some(hook) = &mut self.hook else { return Choice::Go };
        let kind = match verb.kind {
            Kind::Read => VerbKind::Read,
            Kind::Write => VerbKind::Write,
            Kind::CompareSwap { .. } => VerbKind::CompareSwap,
            Kind::FetchAdd { .. } => VerbKind::FetchAdd,
        };
        hook(&Moment { now_ns, client, number, what, kind, addr: verb.addr, len: verb.len })
    }

    fn add_post(
        &mut self,
        client: u32,
        purpose: Purpose,
        verbs: Vec<Verb>,
        out: Vec<u8>,
        back: Vec<u8>,
    ) -> u32 {
        self.seq += 1;
        let slot = self.free.pop().unwrap_or(self.posts.len() as u32);
        let parts = match self.posts.get_mut(slot as usize) {
            Some(post) => std::mem::take(&mut post.parts),
            None => Vec::new(),
        };
        let post = Post {
            id: self.seq,
            client,
            purpose,
            verbs,
            out,
            back,
            parts,
            left: 0,
            fate: Fate::All,
            completion: 0,
            error: None,
            evicted: false,
            waker: None,
            awaited: purpose != Purpose::Unsignaled,
            in_use: true,
        };
        match self.posts.get_mut(slot as usize) {
            Some(free) => *free = post,
            None => self.posts.push(post),
        }
        slot
    }

    /// Passes the verbs through the queues, and lets them take effect there where there is no chaos;
    /// when the last answer is here.
    fn schedule(&mut self, slot: u32) -> u64 {
        let client = self.posts[slot as usize].client;
        let nic = self.clients[client as usize].nic as usize;
        let mut latest = self.now;
        if self.clients[client as usize].evicted {
            let post = &mut self.posts[slot as usize];
            post.evicted = true;
            return self.now + self.options.nic.round_trip_ps();
        }
        for i in 0..self.posts[slot as usize].verbs.len() {
            let verb = self.posts[slot as usize].verbs[i];
            let node = verb.addr.node();
            if self.nodes[node as usize].lost {
                self.posts[slot as usize].error = Some(ErrorKind::NodeLost { node });
                latest = latest.max(self.now + self.options.deadline_ns * PS_PER_NS);
                continue;
            }
            let to = &mut self.nodes[node as usize].nic;
            let Times { effect, complete } =
                self.options.nic.pass(self.now, &mut self.client_nics[nic], to, &verb);
            latest = latest.max(complete);
            if self.options.chaos.is_none() && verb.len != 0 {
                let part = Part { verb: i as u32, from: 0, len: verb.len, done: false };
                let number = self.add_part(slot, part);
                self.push(effect, slot, number);
            }
        }
        latest
    }

    /// Under chaos: cuts the verbs into parts, which take effect at any time up to `latest`.
    fn cut(&mut self, slot: u32, latest: u64) {
        let Some(Chaos { tear_parts_max, .. }) = self.options.chaos else { return };
        if self.posts[slot as usize].evicted {
            return;
        }
        for i in 0..self.posts[slot as usize].verbs.len() {
            let verb = self.posts[slot as usize].verbs[i];
            if self.nodes[verb.addr.node() as usize].lost || verb.len == 0 {
                continue;
            }
            let lead = (verb.addr.off() % 8) as u32;
            let gaps = u64::from((lead + verb.len).div_ceil(8) - 1);
            let cuts = self.rng.below(tear_parts_max.into()).min(gaps);
            let mut from = 0;
            if cuts != 0 {
                let mut at = 8 - lead;
                while at < verb.len {
                    if self.rng.below(gaps) < cuts {
                        self.part(slot, i, from, at - from, latest);
                        from = at;
                    }
                    at += 8;
                }
            }
            self.part(slot, i, from, verb.len - from, latest);
        }
    }

    fn part(&mut self, slot: u32, verb: usize, from: u32, len: u32, latest: u64) {
        let number = self.add_part(slot, Part { verb: verb as u32, from, len, done: false });
        let at = self.between(latest);
        self.push(at, slot, number);
    }

    fn add_part(&mut self, slot: u32, part: Part) -> u32 {
        let post = &mut self.posts[slot as usize];
        post.parts.push(part);
        post.left += 1;
        post.parts.len() as u32 - 1
    }

    /// A time after now, up to `latest`.
    fn between(&mut self, latest: u64) -> u64 {
        self.now + 1 + self.rng.below(latest.saturating_sub(self.now + 1))
    }

    fn delayed(&mut self, complete: u64) -> u64 {
        match self.options.chaos {
            Some(chaos) => complete + self.rng.magnitude(chaos.delay_ns_max * PS_PER_NS),
            None => complete,
        }
    }

    fn push(&mut self, at: u64, slot: u32, part: u32) -> u64 {
        self.seq += 1;
        self.heap.push(Reverse(Event { at, seq: self.seq, slot, part }));
        self.seq
    }

    fn complete_at(&mut self, slot: u32, at: u64) {
        self.posts[slot as usize].completion = self.push(at, slot, COMPLETE);
    }

    // Events.

    /// The next event: whom it wakes, or `None` when there is none.
    pub(super) fn step(&mut self) -> Option<Option<Waker>> {
        let Reverse(event) = self.heap.pop()?;
        let Event { at, seq, slot, part } = event;
        let post = &self.posts[slot as usize];
        if !post.in_use || seq < post.id {
            return Some(None);
        }
        if part != COMPLETE {
            if !post.parts[part as usize].done {
                self.now = self.now.max(at);
                self.events += 1;
                let dead = self.clients[post.client as usize].life == Life::Dead;
                let applies = match post.fate {
                    _ if !dead => true,
                    Fate::All => true,
                    Fate::None => false,
                    Fate::Each => self.rng.below(2) == 0,
                };
                self.end_part(slot, part, applies);
                let post = &self.posts[slot as usize];
                if post.left == 0 && post.purpose == Purpose::Unsignaled {
                    self.release(slot);
                }
            }
            return Some(None);
        }
        if seq != post.completion {
            return Some(None);
        }
        self.now = self.now.max(at);
        self.events += 1;
        let stalled_until = self.clients[post.client as usize].stalled_until;
        if stalled_until > self.now {
            self.complete_at(slot, stalled_until);
            return Some(None);
        }
        Some(self.complete(slot))
    }

    fn complete(&mut self, slot: u32) -> Option<Waker> {
        let Post { client, purpose, id, .. } = self.posts[slot as usize];
        self.note(2, client.into(), id);
        self.posts[slot as usize].completion = 0;
        match purpose {
            Purpose::Flush { node, upto } => {
                let of_node = &mut self.clients[client as usize].unsignaled[node as usize];
                of_node.flushed = of_node.flushed.max(upto);
            }
            Purpose::Evict { row } => {
                let done = self.evict_now(row);
                self.posts[slot as usize].back = vec![u8::from(done)];
            }
            Purpose::Batch | Purpose::Sleep | Purpose::Unsignaled => {}
        }
        let post = &mut self.posts[slot as usize];
        let waker = post.waker.take();
        if !post.awaited {
            self.release(slot);
        }
        waker
    }

    fn evict_now(&mut self, row: u32) -> bool {
        let Some(client) = self.rows.get(row as usize).copied().flatten() else { return true };
        if self.clients[client as usize].life == Life::Lives && self.options.lease_ns.is_none() {
            return false;
        }
        self.fence(client);
        true
    }

    /// Lets nothing of a client take effect any more: what is under way does now, or never.
    fn fence(&mut self, client: u32) {
        self.clients[client as usize].evicted = true;
        for slot in 0..self.posts.len() as u32 {
            let post = &self.posts[slot as usize];
            if !post.in_use || post.client != client {
                continue;
            }
            let under_way = post.left != 0;
            let fate = post.fate;
            let life = self.clients[client as usize].life;
            for part in 0..self.posts[slot as usize].parts.len() as u32 {
                if !self.posts[slot as usize].parts[part as usize].done {
                    let applies = match fate {
                        Fate::None if life == Life::Dead => false,
                        Fate::All if life == Life::Dead => true,
                        _ => self.rng.below(2) == 0,
                    };
                    self.end_part(slot, part, applies);
                }
            }
            let post = &mut self.posts[slot as usize];
            post.evicted |= under_way;
            if post.purpose == Purpose::Unsignaled {
                self.release(slot);
            }
        }
    }

    /// Lets a part take effect, or not.
    fn end_part(&mut self, slot: u32, part: u32, applies: bool) {
        let post = &mut self.posts[slot as usize];
        let of_post = &mut post.parts[part as usize];
        of_post.done = true;
        let Part { verb, from, len, .. } = *of_post;
        post.left -= 1;
        let verb = post.verbs[verb as usize];
        let (id, client) = (post.id, post.client);
        if applies {
            let memory = &mut self.nodes[verb.addr.node() as usize].bytes;
            let memory = &mut memory[verb.addr.off() as usize + from as usize..][..len as usize];
            let at = verb.start as usize + from as usize;
            match verb.kind {
                Kind::Read => post.back[at..][..len as usize].copy_from_slice(memory),
                Kind::Write => memory.copy_from_slice(&post.out[at..][..len as usize]),
                Kind::CompareSwap { old, new } => {
                    post.back[at..][..8].copy_from_slice(memory);
                    if *memory == old.to_le_bytes() {
                        memory.copy_from_slice(&new.to_le_bytes());
                    }
                }
                Kind::FetchAdd { n } => {
                    post.back[at..][..8].copy_from_slice(memory);
                    let mut word = [0; 8];
                    word.copy_from_slice(memory);
                    let sum = u64::from_le_bytes(word).wrapping_add(n);
                    memory.copy_from_slice(&sum.to_le_bytes());
                }
            }
        }
        self.note(if applies { 7 } else { 8 }, id, verb.addr.off() + u64::from(from));
        if self.hook.is_some() {
            let verb = Verb { addr: verb.addr.add(from.into()), len, ..verb };
            match self.tell(client, id, &verb, What::Effect { applies }) {
                Choice::Go => {}
                Choice::Kill => self.kill(client),
                Choice::Stall { ns } => self.stall(client, ns),
            }
        }
    }

    /// What came of a post, or `None` while it is under way.
    pub(super) fn poll(&mut self, slot: u32, waker: &Waker) -> Option<Result<Done>> {
        let post = &mut self.posts[slot as usize];
        if post.completion != 0 || self.clients[post.client as usize].life == Life::Dead {
            match &post.waker {
                Some(old) if old.will_wake(waker) => {}
                _ => post.waker = Some(waker.clone()),
            }
            return None;
        }
        let done = match post.error.take() {
            _ if post.evicted => Err(ErrorKind::Evicted.into()),
            Some(error) => Err(Error::from(error)),
            None => Ok(Done::new(std::mem::take(&mut post.verbs), std::mem::take(&mut post.back))),
        };
        self.release(slot);
        Some(done)
    }

    /// Nobody waits for the post any more.
    pub(super) fn abandon(&mut self, slot: u32) {
        let post = &mut self.posts[slot as usize];
        post.awaited = false;
        post.waker = None;
        if post.completion == 0 {
            self.release(slot);
        }
    }

    fn release(&mut self, slot: u32) {
        let post = &mut self.posts[slot as usize];
        debug_assert!(post.in_use && post.left == 0);
        post.in_use = false;
        post.parts.clear();
        self.free.push(slot);
    }

    fn note(&mut self, what: u64, a: u64, b: u64) {
        for word in [self.now ^ what << 60, a, b] {
            self.trace = (self.trace ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.trace ^= self.trace >> 29;
        }
    }
}
