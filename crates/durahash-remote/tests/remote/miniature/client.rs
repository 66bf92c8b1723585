//! A client's state: its cache, which its coroutines share, its memory, and its place in the
//! epochs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::rc::Rc;

use crate::common::History;

use super::layout::{
    A, Addr, CELLS, CUR_HEAD, Class, DIRECTORY, EPOCH, Entry, Hint, ROOT, ROW_DEAD, ROW_LIVE,
    SWEEP, State, row,
};
use super::random::Random;
use super::reclaim::Space;
use super::rules::{Key, Setup};
use super::world::{Batch, Closed, Endpoint};

/// An entry as a client has seen it. Without `fp2` its hint was not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedEntry {
    pub(crate) entry: Entry,
    pub(crate) fp2: Option<u64>,
    pub(crate) tombstone: bool,
}

/// The index in a MainSegment at which each fp begins.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) length: usize,
    pub(crate) starts: [usize; 3],
}

/// A cached segment, under one word A.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) a: A,
    /// Entries before this one are live.
    pub(crate) offset: usize,
    /// The first entries, which are live and do not change while A is as it was.
    pub(crate) prefix: Vec<CachedEntry>,
    pub(crate) table: Option<Table>,
    /// The epoch in which A was last compared.
    pub(crate) compared: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Client {
    registered: bool,
    /// The epoch, as last read; the row shows this or less.
    pub(crate) known: u64,
    /// The epoch that the row shows, or will when a swap under way is complete.
    shown: u64,
    /// Of each coroutine, the epoch of its operation.
    held: Vec<Option<u64>>,
    pub(crate) directory: Option<[Addr; CELLS]>,
    pub(crate) segments: HashMap<Addr, Segment>,
    free: Vec<(Addr, Class)>,
    retired: Vec<(Addr, Class, u64)>,
    /// Its memory, where there are sweeps.
    pub(crate) space: Space,
    /// The word of the sweep, as this client has learnt it.
    pub(crate) claim: u64,
    /// Coroutines that have operations to do.
    pub(crate) working: usize,
    /// Those that are at one.
    pub(crate) busy: usize,
}

/// State that all tasks of a run share beside the world.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) history: History,
    pub(crate) unfinished: usize,
    pub(crate) next_value: u64,
    pub(crate) merges: u64,
    pub(crate) splits: u64,
    pub(crate) sweeps: u64,
    pub(crate) takeovers: u64,
    pub(crate) rests: u64,
    pub(crate) popped: u64,
    pub(crate) replaced: u64,
    pub(crate) reclaimed: u64,
    /// The clients, by number, for the judge of sweeps.
    pub(crate) clients: Vec<(usize, Rc<RefCell<Client>>)>,
}

/// A coroutine of a client.
#[derive(Clone)]
pub(crate) struct Coroutine {
    endpoint: Endpoint,
    pub(crate) setup: Rc<Setup>,
    pub(crate) client: Rc<RefCell<Client>>,
    pub(crate) run: Rc<RefCell<Run>>,
    /// Among those of its client.
    slot: usize,
    /// The client leaves when it has nothing to do.
    pub(crate) leaves: bool,
}

impl Deref for Coroutine {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

/// A read CurSegment.
pub(crate) struct CurHead {
    pub(crate) a: A,
    suffix: u64,
    buddies: Vec<u64>,
}

/// The way from a segment that was read to a key's own.
pub(crate) enum Route {
    Here,
    /// To the segment that split off at this depth.
    Buddy(Addr, u64),
    Again,
}

/// The state of a window of entries.
pub(crate) struct Window {
    /// Live entries, up to the first free one.
    pub(crate) live: Vec<CachedEntry>,
    /// The first free entry and what it holds.
    pub(crate) free: Option<(usize, u64)>,
}

impl Coroutine {
    pub(crate) fn new(
        endpoint: Endpoint,
        setup: Rc<Setup>,
        client: Rc<RefCell<Client>>,
        run: Rc<RefCell<Run>>,
        slot: usize,
    ) -> Self {
        let held = &mut client.borrow_mut().held;
        held.resize(held.len().max(slot + 1), None);
        Self { endpoint, setup, client: client.clone(), run, slot, leaves: false }
    }

    pub(crate) fn random<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.world.borrow_mut().random)
    }

    pub(crate) fn fault(&self, what: &'static str) {
        self.world.borrow_mut().fault = Some(what);
    }

    // ---- epochs ----

    /// Takes a row, before anything else.
    pub(crate) async fn register(&self) -> Result<(), Closed> {
        let epoch = self.read_epoch().await?;
        let row = row(self.number());
        let pause = self.random(|r| if r.one_in(2) { r.below(self.setup.joining_max) } else { 0 });
        self.sleep(pause).await?;
        self.post(Batch::of(|b| b.swap(row, 0, ROW_LIVE + epoch, &[]))).await?;
        self.read(epoch);
        if self.setup.rules.registration_reads_epoch_again {
            let again = self.read_epoch().await?;
            self.post(Batch::of(|b| b.swap(row, ROW_LIVE + epoch, ROW_LIVE + again, &[]))).await?;
            self.read(again);
        }
        if self.setup.sweeps && self.setup.rules.joins_with_claim {
            let known = self.known_epoch();
            self.learn_claim(known, None).await?;
        }
        self.client.borrow_mut().registered = true;
        Ok(())
    }

    /// Waits until the client has a row.
    pub(crate) async fn registered(&self) -> Result<(), Closed> {
        while !self.client.borrow().registered {
            self.sleep(3).await?;
        }
        Ok(())
    }

    /// Leaves, and comes again after a while.
    async fn rest(&self, row: Addr, shown: u64) -> Result<(), Closed> {
        self.client.borrow_mut().registered = false;
        self.flush().await?;
        if self.setup.rules.rest_gives_memory {
            self.push(0).await?;
            let mut client = self.client.borrow_mut();
            (client.space, client.claim) = (Space::default(), 0);
        }
        self.post(Batch::of(|b| b.swap(row, shown, 0, &[]))).await?;
        self.sleep(self.random(|r| r.below(self.setup.pause_max))).await?;
        self.run.borrow_mut().rests += 1;
        if self.setup.rules.wakes_registered {
            return self.register().await;
        }
        self.client.borrow_mut().registered = true;
        Ok(())
    }

    fn read(&self, epoch: u64) {
        let mut client = self.client.borrow_mut();
        (client.known, client.shown) = (epoch, epoch);
    }

    async fn read_epoch(&self) -> Result<u64, Closed> {
        Ok(self.post(Batch::of(|b| b.read(EPOCH, 1))).await?[0])
    }

    /// Announces epochs, and moves the epoch on when all have announced it, for as long as there
    /// are operations.
    pub(crate) async fn beat(&self) -> Result<(), Closed> {
        let rules = self.setup.rules;
        let mut idle = 1 + self.random(|r| r.below(8));
        let mut sweep = None;
        while self.run.borrow().unfinished > 0 {
            self.sleep(self.setup.beat * idle / 2 + self.random(|r| r.below(10))).await?;
            let mut batch = Batch::new();
            batch.read(EPOCH, 1);
            batch.read(row(0), self.setup.clients + 2);
            let sweeps = self.setup.sweeps;
            let early = if sweeps && !rules.claim_read_after_epoch {
                Some(self.word(SWEEP).await?)
            } else {
                None
            };
            let found = self.post(batch).await?;
            let (epoch, rows) = (found[0], &found[1..]);
            let shown = rows[self.number()];
            if shown == ROW_DEAD {
                return Err(Closed);
            }
            if sweeps {
                self.learn_claim(epoch, early).await?;
                if self.setup.rests
                    && sweep.is_none()
                    && self.client.borrow().busy == 0
                    && self.random(|r| r.one_in(3))
                {
                    self.rest(row(self.number()), shown).await?;
                    continue;
                }
                if self.leaves && self.client.borrow().working == 0 {
                    return self.leave(sweep, row(self.number()), shown).await;
                }
            }
            let next = {
                let mut client = self.client.borrow_mut();
                client.known = client.known.max(epoch);
                let held = client.held.iter().flatten().min().copied();
                // Operations that begin from here on hold `epoch`, which is no less.
                client.shown = held.filter(|_| rules.row_is_minimum).unwrap_or(epoch);
                client.shown
            };
            idle = if epoch == next { (idle * 2).min(if sweeps { 2 } else { 8 }) } else { 1 };
            let mut batch = Batch::new();
            let mut advances = false;
            if shown != ROW_LIVE + next {
                if rules.epoch_after_flush {
                    self.flush().await?;
                }
                batch.swap(row(self.number()), shown, ROW_LIVE + next, &[]);
                idle = 1;
            } else if rows.iter().all(|&row| row == 0 || row == ROW_DEAD || row == ROW_LIVE + epoch)
            {
                batch.swap(EPOCH, epoch, epoch + 1, &[]);
                idle = 1;
                advances = true;
            }
            if !batch.is_empty() {
                let found = self.post(batch).await?;
                if sweeps && advances && found[0] == epoch {
                    self.client.borrow_mut().known = epoch + 1;
                }
            }
            if sweeps {
                sweep = self.sweep(sweep).await?;
            }
        }
        Ok(())
    }

    /// An operation begins. It holds the epoch as last read, not what the row shows: operations that
    /// overlap for ever would keep the row where it is.
    pub(crate) fn hold(&self) {
        let mut client = self.client.borrow_mut();
        let last_read = self.setup.rules.epoch_held_is_last_read;
        let epoch = if last_read { client.known } else { client.shown };
        client.held[self.slot] = Some(epoch);
    }

    pub(crate) fn release(&self) {
        self.client.borrow_mut().held[self.slot] = None;
    }

    /// The epoch that this operation holds: the global one is this or the next.
    pub(crate) fn held(&self) -> u64 {
        let client = self.client.borrow();
        client.held[self.slot].unwrap_or(client.known)
    }

    pub(crate) fn known_epoch(&self) -> u64 {
        self.client.borrow().known
    }

    /// Waits, holding nothing: all that this operation has read is void afterwards.
    pub(crate) async fn wait(&self) -> Result<(), Closed> {
        if self.setup.rules.waiting_holds_nothing {
            self.release();
        }
        self.sleep(20 + self.random(|r| r.below(60))).await?;
        if self.setup.rules.waiting_holds_nothing {
            self.hold();
        }
        Ok(())
    }

    // ---- memory ----

    pub(crate) async fn allocate(&self, class: Class) -> Result<Addr, Closed> {
        if self.setup.sweeps {
            let taken = self.take(class.words(self.setup.entries).next_multiple_of(2), false);
            return Ok(taken.await?.expect("memory without a limit"));
        }
        let mut client = self.client.borrow_mut();
        let wait = if self.setup.rules.reuse_from_e_plus_3 { 3 } else { 2 };
        let known = client.known;
        let ready =
            |&(_, other, epoch): &(Addr, Class, u64)| other == class && epoch + wait <= known;
        let free = if let Some(at) = client.free.iter().rposition(|&(_, other)| other == class) {
            Some(client.free.swap_remove(at).0)
        } else if let Some(at) = client.retired.iter().rposition(ready) {
            Some(client.retired.swap_remove(at).0)
        } else {
            None
        };
        Ok(self.world.borrow_mut().allocate(self.number(), class, free))
    }

    /// The number of this client.
    pub(crate) fn number(&self) -> usize {
        self.endpoint.client
    }

    /// Frees a block that was never published.
    pub(crate) fn free(&self, addr: Addr, class: Class) {
        if self.setup.sweeps {
            return self.give(addr, class.words(self.setup.entries).next_multiple_of(2), 0);
        }
        self.client.borrow_mut().free.push((addr, class));
    }

    /// Gives back what was part of the index.
    pub(crate) fn retire(&self, addr: Addr, class: Class) {
        let epoch = self.held();
        if self.setup.sweeps {
            let wait = if self.setup.rules.reuse_from_e_plus_3 { 3 } else { 2 };
            let words = class.words(self.setup.entries).next_multiple_of(2);
            return self.give(addr, words, epoch + wait);
        }
        self.client.borrow_mut().retired.push((addr, class, epoch));
    }

    // ---- cache ----

    /// The cached segment, unless it is too old.
    pub(crate) fn cached(&self, cur: Addr) -> Option<Segment> {
        let held = self.held();
        let mut client = self.client.borrow_mut();
        let segment = client.segments.get(&cur)?;
        let age = held.saturating_sub(segment.compared);
        if self.setup.rules.cache_dropped_when_old && age >= self.setup.kept_epochs() {
            client.segments.remove(&cur);
            return None;
        }
        client.segments.get(&cur).cloned()
    }

    pub(crate) fn forget(&self, cur: Addr) {
        self.client.borrow_mut().segments.remove(&cur);
    }

    /// Begins anew with word A.
    pub(crate) fn remember(&self, cur: Addr, a: A) {
        let compared = self.held();
        let new = Segment { a, offset: 0, prefix: vec![], table: None, compared };
        self.client.borrow_mut().segments.insert(cur, new);
    }

    /// Adds to what is cached under `a`, if that is what the cache has by now.
    pub(crate) fn learn(&self, cur: Addr, a: A, add: impl FnOnce(&mut Segment)) {
        let held = self.held();
        if let Some(segment) = self.client.borrow_mut().segments.get_mut(&cur)
            && segment.a == a
        {
            segment.compared = segment.compared.max(held);
            add(segment);
        }
    }

    /// Returns whether the cache as of the post is valid for the word A that the batch read.
    pub(crate) fn still(&self, cur: Addr, snapshot: Option<A>, read: A) -> bool {
        let rules = self.setup.rules;
        let cached = if rules.snapshot_when_posted {
            snapshot
        } else {
            self.client.borrow().segments.get(&cur).map(|segment| segment.a)
        };
        cached.is_some_and(|cached| {
            cached == read || !rules.cache_key_is_whole_a && cached.main() == read.main()
        })
    }

    // ---- directory ----

    /// The segment that the cached directory names for a key.
    pub(crate) async fn find(&self, key: Key) -> Result<Addr, Closed> {
        if let Some(cells) = self.client.borrow().directory {
            return Ok(cells[key.hash as usize]);
        }
        let mut batch = Batch::new();
        let root = batch.read(ROOT, 1);
        let cells = batch.read(DIRECTORY, CELLS);
        let found = self.post(batch).await?;
        let fall_back = self.setup.rules.zero_cell_without_top_bit;
        let cell = |hash: usize| {
            let mut bits = found[root];
            loop {
                let cell = found[cells + (hash & ((1 << bits) - 1))] as Addr;
                if cell != 0 || bits == 0 || !fall_back {
                    return cell;
                }
                bits -= 1;
            }
        };
        let cells = std::array::from_fn(cell);
        self.client.borrow_mut().directory = Some(cells);
        Ok(cells[key.hash as usize])
    }

    /// Mends the cached directory: this is the segment of all that share the lowest `depth` bits.
    pub(crate) fn redirect(&self, key: Key, to: Addr, depth: u64) {
        if let Some(cells) = &mut self.client.borrow_mut().directory {
            let mask = (1 << depth) - 1;
            for hash in (0..CELLS).filter(|&hash| (hash as u64 ^ key.hash) & mask == 0) {
                cells[hash] = to;
            }
        }
    }

    // ---- reading a CurSegment ----

    pub(crate) fn look(&self, head: &[u64]) -> CurHead {
        CurHead { a: A(head[0]), suffix: head[1], buddies: head[2..CUR_HEAD].to_vec() }
    }

    pub(crate) fn way(&self, key: Key, look: &CurHead) -> Route {
        let differing = (key.hash ^ look.suffix) & ((1 << look.a.depth()) - 1);
        if differing == 0 {
            return Route::Here;
        }
        let depth = u64::from(differing.trailing_zeros());
        match look.buddies.get(depth as usize) {
            None => {
                self.fault("a depth that is none");
                Route::Again
            }
            Some(0) if self.setup.rules.zero_buddy_read_again => Route::Again,
            Some(0) => Route::Here,
            Some(&buddy) => Route::Buddy(buddy as Addr, depth),
        }
    }

    /// Goes through entries and their hints, from the entry at `offset` on. Nothing, if word A turns
    /// out to have been stale.
    pub(crate) fn scan(
        &self,
        a: A,
        offset: usize,
        entries: &[u64],
        hints: &[u64],
    ) -> Option<Window> {
        let rules = self.setup.rules;
        let mut window = Window { live: vec![], free: None };
        for (i, (&entry, &hint)) in entries.iter().zip(hints).enumerate() {
            match Entry(entry).state(a, self.setup.wrap) {
                State::Live if window.free.is_none() || !rules.nothing_behind_first_free => {
                    window.live.push(self.seen(a, entry, hint));
                }
                State::Live => {}
                State::Other if rules.other_generation_read_again => return None,
                State::Free | State::Other => {
                    window.free = window.free.or(Some((offset + i, entry)));
                }
            }
        }
        Some(window)
    }

    fn seen(&self, a: A, entry: u64, hint: u64) -> CachedEntry {
        let (entry, hint) = (Entry(entry), Hint(hint));
        let known = hint.is_of(a.generation() % self.setup.wrap)
            || !self.setup.rules.hint_carries_generation;
        let tombstone = if self.setup.rules.tombstone_in_entry {
            entry.tombstone()
        } else {
            known && hint.tombstone()
        };
        CachedEntry { entry, fp2: known.then(|| hint.fp2()), tombstone }
    }
}
