//! Cuts posted verbs into parts, and schedules them.

use std::cmp::Reverse;

use durahash_media::{ErrorKind, Result};

use super::{COMPLETE, EVICT, Event, Fate, Part, Post, Purpose, World};
use crate::fabric::Addr;
use crate::fabric::batch::{Batch, Kind, Verb};
use crate::fabric::sim::hook::{Choice, Stage, VerbEvent};
use crate::fabric::sim::options::Chaos;
use crate::fabric::sim::wire::{PS_PER_NS, Times};

impl World {
    pub(super) fn check(&self, batch: &Batch) -> Result<()> {
        batch.check(|node| self.nodes.get(node as usize).map(|node| node.bytes.len() as u64))
    }

    /// Posts a batch; where it waits. `None` when there is nothing to do.
    pub(in crate::fabric::sim) fn post(
        &mut self,
        client: u32,
        batch: Batch,
    ) -> Result<Option<u32>> {
        self.check(&batch)?;
        if batch.is_empty() {
            return Ok(None);
        }
        let dies = self.before_post(client, &batch.verbs);
        let mut counts = self.clients[client as usize].counts;
        batch.count(&mut counts);
        let slot = self.add_post(client, Purpose::Batch, batch);
        self.clients[client as usize].counts = counts;
        let mut complete = self.schedule(slot);
        if self.posts[slot as usize].error.is_none() {
            complete = self.delayed(complete);
        }
        if self.orders_swaps() {
            let swaps = self.clients[client as usize].swaps.iter();
            complete = swaps.fold(complete, |latest, of_node| latest.max(of_node.last + 1));
        }
        self.cut(slot, complete);
        self.complete_at(slot, complete);
        if dies {
            self.kill(client);
        }
        Ok(Some(slot))
    }

    pub(in crate::fabric::sim) fn write_unsignaled(
        &mut self,
        client: u32,
        addr: Addr,
        bytes: &[u8],
    ) -> Result<()> {
        let batch = Batch::of(|batch| batch.write(addr, bytes));
        self.check(&batch)?;
        let dies = self.before_post(client, &batch.verbs);
        let slot = self.add_post(client, Purpose::Unsignaled, batch);
        self.clients[client as usize].counts.write_unsignaled(bytes);
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

    pub(in crate::fabric::sim) fn flush(&mut self, client: u32, node: u8) -> Result<Option<u32>> {
        self.check(&Batch::of(|batch| batch.read(Addr::new(node, 0), 0)))?;
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
        let slot = self.add_post(client, Purpose::Flush { node, upto }, Batch::new());
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

    pub(in crate::fabric::sim) fn sleep(&mut self, client: u32, ns: u64) -> u32 {
        let slot = self.add_post(client, Purpose::Sleep, Batch::new());
        self.complete_at(slot, self.now.saturating_add(ns.max(1).saturating_mul(PS_PER_NS)));
        slot
    }

    pub(in crate::fabric::sim) fn evict(&mut self, client: u32, row: u32) -> u32 {
        self.clients[client as usize].counts.round_trips += 1;
        self.note(6, client.into(), row.into());
        let slot = self.add_post(client, Purpose::Evict { row }, Batch::new());
        let complete = self.delayed(self.now + self.options.nic.round_trip_ps());
        let at = self.between(complete);
        self.push(at, slot, EVICT);
        self.complete_at(slot, complete);
        slot
    }

    /// Reports the verbs to the hook, and returns whether the client dies of this post.
    fn before_post(&mut self, client: u32, verbs: &[Verb]) -> bool {
        let before = self.clients[client as usize].counts.verbs();
        let mut dies = false;
        if let Some(chaos) = self.options.chaos {
            dies = chaos.death_one_in != 0
                && verbs.iter().any(|_| self.rng.one_in(chaos.death_one_in));
            if self.rng.one_in(chaos.stall_one_in) {
                let ns = self.rng.magnitude(chaos.stall_ns_max);
                self.stall(client, ns);
            }
        }
        for (number, verb) in (before..).zip(verbs) {
            self.note(1, client.into(), verb.addr.off());
            dies |= self.tell(client, number, verb, Stage::Posted) == Choice::Kill;
        }
        dies
    }

    /// Reports an event to the hook, and stalls the client if the hook says so.
    pub(super) fn tell(&mut self, client: u32, number: u64, verb: &Verb, stage: Stage) -> Choice {
        let now_ns = self.now_ns();
        let Some(hook) = &mut self.hook else { return Choice::Go };
        let Verb { kind, addr, len, .. } = *verb;
        let choice = hook(&VerbEvent { now_ns, client, number, stage, kind, addr, len });
        if let Choice::Stall { ns } = choice {
            self.stall(client, ns);
        }
        choice
    }

    fn add_post(&mut self, client: u32, purpose: Purpose, batch: Batch) -> u32 {
        self.seq += 1;
        let slot = self.free.pop().unwrap_or(self.posts.len() as u32);
        let old = self.posts.get_mut(slot as usize);
        let parts = old.map(|post| std::mem::take(&mut post.parts)).unwrap_or_default();
        let Batch { verbs, out, back } = batch;
        let of_client = &self.clients[client as usize];
        let post = Post {
            id: self.seq,
            client,
            purpose,
            first: of_client.counts.verbs(),
            verbs,
            out,
            back: vec![0; back as usize],
            parts,
            left: 0,
            fate: Fate::All,
            completion: 0,
            completes: 0,
            error: None,
            evicted: of_client.evicted && purpose != Purpose::Sleep,
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
        if self.posts[slot as usize].evicted {
            return self.now + self.options.nic.round_trip_ps();
        }
        let mut latest = self.now;
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
        let mut at = self.between(latest);
        let Post { client, ref verbs, .. } = self.posts[slot as usize];
        let Verb { kind, addr, .. } = verbs[verb];
        if self.orders_swaps() && self.posts[slot as usize].is_ordered(kind) {
            let last = &mut self.clients[client as usize].swaps[addr.node() as usize].last;
            let latest = at.max(*last);
            if let Kind::CompareSwap { .. } = kind {
                at = latest;
            }
            *last = latest;
        }
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

    pub(super) fn complete_at(&mut self, slot: u32, at: u64) {
        let completion = self.push(at, slot, COMPLETE);
        let post = &mut self.posts[slot as usize];
        (post.completion, post.completes) = (completion, at);
    }
}
