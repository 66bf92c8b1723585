//! The simulated nodes, clients, and what is under way between them.
//!
//! A post is cut into parts, each of which takes effect at a time of its own; then it completes. Both
//! are events on a heap, by time and then by the order in which they were made.

mod events;
mod posting;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

use durahash_media::{ErrorKind, Result};

use super::hook::Hook;
use super::options::SimOptions;
use super::rng::Rng;
use super::wire::{PS_PER_NS, Queue};
use crate::fabric::batch::{Batch, Kind, Verb};
use crate::fabric::{Addr, Counts, no_row};

pub(super) struct World {
    pub(super) options: SimOptions,
    now: u64,
    seq: u64,
    rng: Rng,
    heap: BinaryHeap<Reverse<Event>>,
    posts: Vec<Post>,
    free: Vec<u32>,
    nodes: Vec<Node>,
    pub(super) clients: Vec<Client>,
    client_nics: Vec<Queue>,
    /// The last client of each row.
    rows: Vec<Option<u32>>,
    /// Clients that died and whose tasks are to be dropped.
    pub(super) died: Vec<u32>,
    pub(super) trace: u64,
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

pub(super) struct Client {
    pub(super) row: u32,
    nic: u32,
    life: Life,
    pub(super) evicted: bool,
    pub(super) counts: Counts,
    /// By how much its clock is ahead of virtual time.
    ahead_ns: u64,
    /// It learns of nothing until then.
    stalled_until: u64,
    unsignaled: Vec<Unsignaled>,
    /// For each node.
    swaps: Vec<Swaps>,
}

/// Of a client and a node: what a compare-and-swap takes effect after.
#[derive(Clone, Default)]
struct Swaps {
    /// When the last of it does.
    last: u64,
    /// One did not, so no later compare-and-swap does.
    broken: bool,
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
/// In place of a part: the nodes evict a client.
const EVICT: u32 = u32::MAX - 1;

/// Bytes of a verb that take effect together.
#[derive(Clone, Copy)]
struct Part {
    verb: u32,
    from: u32,
    len: u32,
    done: bool,
}

impl Post {
    /// Whether a later compare-and-swap waits for this verb, where the fabric orders them.
    fn is_ordered(&self, kind: Kind) -> bool {
        match kind {
            Kind::Write => self.purpose == Purpose::Batch,
            kind => matches!(kind, Kind::CompareSwap { .. }),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Batch,
    Unsignaled,
    Flush { node: u8, upto: u64 },
    Sleep,
    Evict { row: u32 },
}

/// The fate of the parts of a client that died.
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
    /// The number of its first verb among those of its client.
    first: u64,
    verbs: Vec<Verb>,
    out: Vec<u8>,
    back: Vec<u8>,
    parts: Vec<Part>,
    left: u32,
    fate: Fate,
    /// The event that completes it; 0 when it has completed.
    completion: u64,
    /// When that is.
    completes: u64,
    error: Option<ErrorKind>,
    /// It fails because its client is evicted.
    evicted: bool,
    waker: Option<Waker>,
    /// A future waits for it.
    awaited: bool,
    in_use: bool,
}

impl World {
    pub(super) fn new(options: SimOptions) -> Self {
        assert!((1..=255).contains(&options.node_bytes.len()), "a fabric has 1 to 255 nodes");
        let rates = options.nic.gigabits.min(options.nic.packet_bytes);
        let rates = rates.min(options.nic.packets_per_s).min(options.nic.atomics_per_s);
        assert!(rates != 0, "a NIC has no rate that is zero");
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
            rows: vec![None; options.max_clients as usize],
            died: Vec::new(),
            trace: 0,
            hook: None,
            options,
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now / PS_PER_NS
    }

    /// When the next event is.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(event)| event.at / PS_PER_NS)
    }

    /// Moves time to `ns`, which is before the next event.
    pub(super) fn wait_until(&mut self, ns: u64) {
        self.now = self.now.max(ns * PS_PER_NS);
    }

    /// A client's clock.
    pub(super) fn clock_ns(&self, client: u32) -> u64 {
        self.now_ns() + self.clients[client as usize].ahead_ns
    }

    #[cfg(test)]
    pub(super) fn posts_in_use(&self) -> usize {
        self.posts.iter().filter(|post| post.in_use).count()
    }

    pub(super) fn lives(&self, client: u32) -> bool {
        self.clients[client as usize].life == Life::Lives
    }

    pub(super) fn bytes(&self, addr: Addr, len: usize) -> Result<&[u8]> {
        self.check(&Batch::of(|batch| batch.read(addr, len)))?;
        Ok(&self.nodes[addr.node() as usize].bytes[addr.off() as usize..][..len])
    }

    pub(super) fn bytes_mut(&mut self, addr: Addr, len: usize) -> Result<&mut [u8]> {
        self.bytes(addr, len)?;
        Ok(&mut self.nodes[addr.node() as usize].bytes[addr.off() as usize..][..len])
    }

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
            return Err(no_row(self.rows.len() as u32));
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
        let ahead_ns = if self.options.chaos.is_some() { self.rng.below(1 << 40) } else { 0 };
        self.clients.push(Client {
            row: row as u32,
            ahead_ns,
            nic,
            life: Life::Lives,
            evicted: false,
            counts: Counts::default(),
            stalled_until: 0,
            unsignaled: vec![Unsignaled::default(); self.nodes.len()],
            swaps: vec![Swaps::default(); self.nodes.len()],
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

    pub(super) fn stall(&mut self, client: u32, ns: u64) {
        let until = self.now + ns * PS_PER_NS;
        let stalled = &mut self.clients[client as usize].stalled_until;
        *stalled = until.max(*stalled);
    }

    pub(super) fn lose_node(&mut self, node: u8) {
        self.nodes[node as usize].lost = true;
        self.note(4, node.into(), 0);
        for slot in self.slots() {
            let post = &self.posts[slot as usize];
            let flushes = matches!(post.purpose, Purpose::Flush { node: of, .. } if of == node);
            let touches = post.verbs.iter().any(|verb| verb.addr.node() == node);
            if !post.in_use || !(flushes || touches) {
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
                // Verbs to other nodes take effect before that.
                let deadline = self.now + self.options.deadline_ns * PS_PER_NS;
                let at = post.completes.max(deadline);
                self.complete_at(slot, at);
            } else if post.purpose == Purpose::Unsignaled {
                let client = post.client as usize;
                self.clients[client].unsignaled[node as usize].lost = true;
                self.release(slot);
            }
        }
    }

    pub(super) fn orders_swaps(&self) -> bool {
        self.options.chaos.is_some_and(|chaos| chaos.orders_swaps)
    }

    /// All posts, in the order in which they were posted where that matters.
    fn slots(&self) -> Vec<u32> {
        let mut slots: Vec<_> = (0..self.posts.len() as u32).collect();
        if self.orders_swaps() {
            slots.sort_by_key(|slot| self.posts[*slot as usize].id);
        }
        slots
    }

    fn note(&mut self, what: u64, a: u64, b: u64) {
        for word in [self.now ^ what << 60, a, b] {
            self.trace = (self.trace ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.trace ^= self.trace >> 29;
        }
    }
}
