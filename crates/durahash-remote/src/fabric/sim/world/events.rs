//! Events: parts take effect, posts complete.

use std::cmp::Reverse;
use std::task::Waker;

use durahash_media::{Error, ErrorKind, Result};

use super::{COMPLETE, EVICT, Event, Fate, Life, Part, Post, Purpose, World};
use crate::fabric::batch::{Done, Kind, Verb};
use crate::fabric::sim::{Choice, What};

impl World {
    /// The next event: whom it wakes, or `None` when there is none.
    pub(in crate::fabric::sim) fn step(&mut self) -> Option<Option<Waker>> {
        let Reverse(event) = self.heap.pop()?;
        let Event { at, seq, slot, part } = event;
        let post = &self.posts[slot as usize];
        if !post.in_use || seq < post.id {
            return Some(None);
        }
        if let Purpose::Evict { row } = post.purpose
            && part == EVICT
        {
            self.now = self.now.max(at);
            self.events += 1;
            // Nodes do not do it for a client that they have shut out.
            let done = !post.evicted && self.evict_now(row);
            self.posts[slot as usize].back = vec![u8::from(done)];
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
            Purpose::Batch | Purpose::Sleep | Purpose::Unsignaled | Purpose::Evict { .. } => {}
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
    pub(super) fn fence(&mut self, client: u32) {
        self.clients[client as usize].evicted = true;
        for slot in 0..self.posts.len() as u32 {
            let post = &self.posts[slot as usize];
            if !post.in_use || post.client != client {
                continue;
            }
            let completes = post.completion != 0 && post.purpose != Purpose::Sleep;
            // A batch all of which has taken effect already has only its answer under way.
            let fails = completes && (post.left != 0 || post.purpose != Purpose::Batch);
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
            post.evicted |= fails;
            if post.purpose == Purpose::Unsignaled {
                self.release(slot);
            }
        }
    }

    /// Lets a part take effect, or not.
    pub(super) fn end_part(&mut self, slot: u32, part: u32, applies: bool) {
        let post = &mut self.posts[slot as usize];
        let of_post = &mut post.parts[part as usize];
        of_post.done = true;
        let Part { verb: part_verb, from, len, .. } = *of_post;
        post.left -= 1;
        let verb = post.verbs[part_verb as usize];
        let (id, client, number) = (post.id, post.client, post.first + u64::from(part_verb));
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
            match self.tell(client, number, &verb, What::Effect { applies }) {
                Choice::Go => {}
                Choice::Kill => self.kill(client),
                Choice::Stall { ns } => self.stall(client, ns),
            }
        }
    }

    /// The result of a post, or `None` while it is under way.
    pub(in crate::fabric::sim) fn poll(
        &mut self,
        slot: u32,
        waker: &Waker,
    ) -> Option<Result<Done>> {
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

    /// The post's future was dropped.
    pub(in crate::fabric::sim) fn abandon(&mut self, slot: u32) {
        let post = &mut self.posts[slot as usize];
        post.awaited = false;
        post.waker = None;
        if post.completion == 0 {
            self.release(slot);
        }
    }

    pub(super) fn release(&mut self, slot: u32) {
        let post = &mut self.posts[slot as usize];
        debug_assert!(post.in_use && post.left == 0);
        post.in_use = false;
        post.parts.clear();
        self.free.push(slot);
    }
}
