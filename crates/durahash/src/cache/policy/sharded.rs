//! Queues behind locks, by parts of the hashes, and what all policies share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::evict::{Evict, Victim};
use super::gone::Gone;
use super::table::Table;

/// The fewest entries of a shard: a policy over a few has other hit rates.
const SHARD_MIN: u64 = 4096;
const SHARDS_MAX: u64 = 64;
/// The fewest bytes of a shard, of a bound of bytes: entries may be large, and few.
const SHARD_BYTES_MIN: u64 = 64 << 20;
/// Of the nodes, one in so many may be of an entry that is gone.
const GONE_PART: usize = 32;
/// And so many in any case.
const GONE_MIN: usize = 16;
/// Victims that a shard of several has chosen already, so that their lines are there when they go: where it has many times as
/// many entries, as it looks at hits of these no more.
const AHEAD: usize = 2;
const AHEAD_PART: usize = 64;
/// The bits of a hash that what is known of its entry takes the place of, where it is saved.
const KNOWN: u64 = 7;

/// The queues of a policy: what is in them, and in which order it goes. Each entry has one node.
pub(super) trait Queues: Default + Send {
    /// What hits leave behind.
    type Table: Table;
    /// There is an order that is worth to be saved.
    const HAS_ORDER: bool = true;

    /// A new entry.
    fn insert(&mut self, hash: u64, table: &Self::Table);

    /// Takes the next to go.
    fn pop(&mut self, table: &Self::Table) -> Option<u64>;

    /// Calls `f` with all entries, about in the order in which they go, and with what [`restore`](Self::restore) needs beside that
    /// order: three bits.
    fn each(&self, table: &Self::Table, f: &mut dyn FnMut(u64, u8));

    /// An entry as it was, behind those that were restored before.
    fn restore(&mut self, hash: u64, known: u8, table: &Self::Table);

    fn len(&self) -> usize;

    fn retain(&mut self, keep: &mut dyn FnMut(u64) -> bool);

    fn bytes(&self) -> usize;
}

/// One to a pair of cache lines, since lines are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Shard<Q> {
    /// Entries, for who looks for the fullest shard; changed while it is locked.
    entries: AtomicUsize,
    inner: Mutex<Inner<Q>>,
}

#[derive(Default)]
struct Inner<Q> {
    queues: Q,
    /// Chosen already, in this order.
    ahead: VecDeque<u64>,
    gone: Gone,
}

pub(super) struct Sharded<Q: Queues> {
    table: Q::Table,
    /// A power of two of them.
    shards: Box<[Shard<Q>]>,
    turn: Turn,
}

/// Each eviction changes it: not in the lines of the table that hits read.
#[repr(align(128))]
#[derive(Default)]
struct Turn(AtomicUsize);

impl<Q: Queues> Sharded<Q> {
    pub(super) fn new(entries: u64, bytes: u64) -> Self {
        let shards = (entries / SHARD_MIN).min(bytes / SHARD_BYTES_MIN);
        let shards = 1 << shards.clamp(1, SHARDS_MAX).ilog2();
        Sharded {
            table: Q::Table::new(entries as usize),
            shards: (0..shards).map(|_| Shard::default()).collect(),
            turn: Turn::default(),
        }
    }

    fn restore_one(&self, hash: u64, known: u64) {
        let shard = self.shard(hash);
        shard.lock().queues.restore(hash, known as u8, &self.table);
        shard.add(1);
    }

    /// By the highest bits, which the tables do not go by.
    fn shard(&self, hash: u64) -> &Shard<Q> {
        &self.shards[((u128::from(hash) * self.shards.len() as u128) >> 64) as usize]
    }

    /// The one of two shards, in turn, that has more: so all stay about as full.
    fn fuller(&self, turn: usize) -> usize {
        let mask = self.shards.len() - 1;
        let other = (turn >> self.shards.len().trailing_zeros()) + 1;
        let [one, two] = [turn & mask, turn.wrapping_add(other) & mask];
        let entries = |at: usize| self.shards[at].entries.load(Ordering::Relaxed);
        if entries(one) >= entries(two) { one } else { two }
    }
}

impl<Q> Shard<Q> {
    fn add(&self, entries: usize) {
        let now = self.entries.load(Ordering::Relaxed);
        self.entries.store(now.wrapping_add(entries), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Inner<Q>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q: Queues> Inner<Q> {
    /// Takes the next to go, when so many behind it are chosen.
    fn pop(&mut self, table: &Q::Table, ahead: usize) -> Option<u64> {
        loop {
            while self.ahead.len() <= ahead {
                let Some(hash) = self.queues.pop(table) else { break };
                self.ahead.push_back(hash);
            }
            let hash = self.ahead.pop_front()?;
            if !self.gone.take(hash) {
                return Some(hash);
            }
        }
    }

    /// Drops the nodes of all that is gone.
    fn sweep(&mut self) {
        let Inner { queues, ahead, gone } = self;
        ahead.retain(|hash| !gone.take(*hash));
        queues.retain(&mut |hash| !gone.take(hash));
    }
}

impl<Q: Queues> Evict for Sharded<Q> {
    fn hit(&self, hash: u64) {
        self.table.hit(hash);
    }

    fn inserted(&self, hash: u64) {
        let shard = self.shard(hash);
        let mut inner = shard.lock();
        let is_there = inner.gone.take(hash);
        let chosen = inner.ahead.iter().position(|chosen| *chosen == hash).filter(|_| is_there);
        if is_there && chosen.is_none() {
            // Its node is still there. It is as new as one that was hit.
            self.table.hit(hash);
        } else {
            chosen.and_then(|at| inner.ahead.remove(at));
            inner.queues.insert(hash, &self.table);
            self.table.grow(inner.queues.len() * self.shards.len());
        }
        shard.add(1);
    }

    fn removed(&self, hash: u64) {
        let shard = self.shard(hash);
        let mut inner = shard.lock();
        inner.gone.add(hash);
        if inner.gone.len() > inner.queues.len() / GONE_PART + GONE_MIN {
            inner.sweep();
        }
        shard.add(1_usize.wrapping_neg());
    }

    fn fetch(&self, hash: u64) {
        self.table.fetch(hash);
    }

    fn next_victim(&self) -> Option<Victim> {
        // Two that take the same turn would wait for one shard, and again for the next.
        let turn = self.turn.0.fetch_add(1, Ordering::Relaxed);
        let first = self.fuller(turn);
        (0..self.shards.len()).find_map(|i| {
            let shard = &self.shards[(first + i) & (self.shards.len() - 1)];
            let mut inner = shard.lock();
            // Of one shard the next victim comes at once.
            let has_many = self.shards.len() > 1 && inner.queues.len() > AHEAD_PART * AHEAD;
            // Before the choice; not where there is none, as others may ask over and over then.
            if inner.queues.len() + inner.ahead.len() > 0 {
                self.table.evicting(turn);
            }
            let hash = inner.pop(&self.table, if has_many { AHEAD } else { 0 })?;
            shard.add(1_usize.wrapping_neg());
            Some(Victim {
                hash,
                next: [inner.ahead.front(), inner.ahead.back()].map(|hash| hash.copied()),
            })
        })
    }

    fn save(&self, part: usize) -> Option<Vec<u64>> {
        let shard = self.shards.get(part).filter(|_| Q::HAS_ORDER)?;
        let mut inner = shard.lock();
        inner.sweep();
        let mut saved: Vec<u64> = inner.ahead.iter().map(|hash| hash & !KNOWN).collect();
        inner.queues.each(&self.table, &mut |hash, known| {
            saved.push(hash & !KNOWN | u64::from(known) & KNOWN);
        });
        Some(saved)
    }

    fn restore(&self, mut entries: Vec<u64>, saved: &[u64]) {
        // Before the table has anything: what it has is copied as it grows.
        self.table.grow(entries.len());
        entries.sort_unstable();
        // What is restored is marked, by the number of its entry.
        let mut done = vec![false; entries.len()];
        for word in saved {
            let first = entries.partition_point(|hash| hash & !KNOWN < word & !KNOWN);
            let same = (first..entries.len()).take_while(|i| entries[*i] | KNOWN == word | KNOWN);
            if let Some(i) = { same }.find(|i| !done[*i]) {
                done[i] = true;
                self.restore_one(entries[i], word & KNOWN);
            }
        }
        for (hash, _) in entries.into_iter().zip(done).filter(|(_, done)| !done) {
            self.inserted(hash);
        }
    }

    fn bytes(&self) -> u64 {
        let of_shard = |shard: &Shard<Q>| {
            let inner = shard.lock();
            size_of::<Shard<Q>>() + inner.queues.bytes() + inner.gone.bytes()
        };
        (self.table.bytes() + self.shards.iter().map(of_shard).sum::<usize>()) as u64
    }
}
