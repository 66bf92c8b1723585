//! Events: parts take effect, posts complete.

use std::cmp::Reverse;
use std::task::{Poll, Waker};

use durahash_media::{Error, ErrorKind, Result};

use super::{COMPLETE, EVICT, Event, Fate, Life, Part, Post, Purpose, World};
use crate::fabric::batch::{Done, Kind, Verb};
use crate::fabric::sim::hook::{Choice, Stage};

impl World {
    /// The next event, and the task that it wakes; `None` when there is no event.
    pub(in crate::fabric::sim) fn step(&mut self) -> Option<Option<Waker>> {
        let Reverse(Event { at, seq, slot, part }) = self.heap.pop()?;
        let post = &self.posts[slot as usize];
        let is_void = !post.in_use
            || seq < post.id
            || match part {
                EVICT => false,
                COMPLETE => seq != post.completion,
                part => post.parts[part as usize].done,
            };
        if is_void {
            return Some(None);
        }
        self.now = self.now.max(at);
        match (part, post.purpose) {
            (EVICT, Purpose::Evict { row }) => {
                // Nodes do not do it for a client that they have shut out.
                let done = !post.evicted && self.evict_now(row);
                self.posts[slot as usize].back = vec![u8::from(done)];
            }
            (COMPLETE, _) => {
                let stalled_until = self.clients[post.client as usize].stalled_until;
                if stalled_until <= self.now {
                    return Some(self.complete(slot));
                }
                self.complete_at(slot, stalled_until);
            }
            _ => {
                let dead = self.clients[post.client as usize].life == Life::Dead;
                let applies = match post.fate {
                    Fate::None => !dead,
                    Fate::Each if dead => self.rng.below(2) == 0,
                    Fate::All | Fate::Each => true,
                };
                self.end_part(slot, part, applies);
                let post = &self.posts[slot as usize];
                if post.left == 0 && post.purpose == Purpose::Unsignaled {
                    self.release(slot);
                }
            }
        }
        Some(None)
    }

    fn complete(&mut self, slot: u32) -> Option<Waker> {
        let Post { client, purpose, id, .. } = self.posts[slot as usize];
        self.note(2, client.into(), id);
        self.posts[slot as usize].completion = 0;
        if let Purpose::Flush { node, upto } = purpose {
            let of_node = &mut self.clients[client as usize].unsignaled[node as usize];
            of_node.flushed = of_node.flushed.max(upto);
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
        for slot in self.slots() {
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
    pub(super) fn end_part(&mut self, slot: u32, part: u32, mut applies: bool) {
        let ordered = self.orders_swaps();
        let post = &mut self.posts[slot as usize];
        let of_post = &mut post.parts[part as usize];
        of_post.done = true;
        let Part { verb: part_verb, from, len, .. } = *of_post;
        post.left -= 1;
        let verb = post.verbs[part_verb as usize];
        let (id, client, number) = (post.id, post.client, post.first + u64::from(part_verb));
        if ordered && post.is_ordered(verb.kind) {
            let of_node = &mut self.clients[client as usize].swaps[verb.addr.node() as usize];
            applies &= !of_node.broken || verb.kind == Kind::Write;
            of_node.broken |= !applies;
        }
        if applies {
            let memory = &mut self.nodes[verb.addr.node() as usize].bytes;
            let memory = &mut memory[verb.addr.off() as usize + from as usize..][..len as usize];
            let at = verb.start as usize + from as usize;
            match verb.kind {
                Kind::Write => memory.copy_from_slice(&post.out[at..][..len as usize]),
                kind => {
                    post.back[at..][..len as usize].copy_from_slice(memory);
                    let word = || u64::from_le_bytes(*memory.first_chunk().expect("a word"));
                    let new = match kind {
                        Kind::CompareSwap { old, new } if word() == old => Some(new),
                        Kind::FetchAdd { n } => Some(word().wrapping_add(n)),
                        _ => None,
                    };
                    if let Some(new) = new {
                        memory.copy_from_slice(&new.to_le_bytes());
                    }
                }
            }
        }
        self.note(if applies { 7 } else { 8 }, id, verb.addr.off() + u64::from(from));
        if self.hook.is_some() {
            let verb = Verb { addr: verb.addr.add(from.into()), len, ..verb };
            if self.tell(client, number, &verb, Stage::Effect { applies }) == Choice::Kill {
                self.kill(client);
            }
        }
    }

    /// The result of a post, if it has completed.
    pub(in crate::fabric::sim) fn poll(&mut self, slot: u32, waker: &Waker) -> Poll<Result<Done>> {
        let post = &mut self.posts[slot as usize];
        if post.completion != 0 || self.clients[post.client as usize].life == Life::Dead {
            match &post.waker {
                Some(old) if old.will_wake(waker) => {}
                _ => post.waker = Some(waker.clone()),
            }
            return Poll::Pending;
        }
        let done = match post.error.take() {
            _ if post.evicted => Err(ErrorKind::Evicted.into()),
            Some(error) => Err(Error::from(error)),
            None => Ok(Done::new(std::mem::take(&mut post.verbs), std::mem::take(&mut post.back))),
        };
        self.release(slot);
        Poll::Ready(done)
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
