//! The sweep: finds memory that dead clients leaked, while other clients work.
//!
//! No table says what is in use, as the index itself does. A sweep claims a window of each node: every client drops the
//! free memory that it has there, and from then on what is linked there can only be unlinked. The sweeper walks over the
//! index, and what it does not meet in the window is free. It does so for one part of the nodes' memory after the other, so
//! that clients have the others.
//!
//! | Step of a sweep | Then | If the client dies after it |
//! |---|---|---|
//! | 1 swap the sweep's word to "preparing" | no other client sweeps | another one begins anew |
//! | 2 write the windows of a part, of what was taken by the bumps that were read for the first part | awaited | |
//! | 3 swap the word to "claimed", of that part; drop what this client has in the windows; read the epoch g | | the windows are not used until another sweep |
//! | read all bags of the shelf; write new ones, with what is outside of the windows, in place of those down to the last that has any inside; swap the shelf's word from the first to the first new one, else do it anew; without blocks for them take the first bag, and do it anew; after some tries replace all, and keep what there are no blocks for | clients find little there that they have to drop | new bags before the swap, old ones behind it, and bags that it took are leaked, too |
//! | 4 wait for the epoch g + 3 | all clients have dropped what they had | |
//! | 5 the same again | the shelf holds nothing of the windows | the same |
//! | 6 walk over the index, mark what it uses; read the epoch w | | |
//! | 7 wait for the epoch w + 2 | | |
//! | 8 swap the word to "preparing" if another part follows, or to "idle" | clients keep what they get again | |
//! | 9 free what is not marked; three epochs later, when all clients know of the end, give it to the shelf; then step 2 of the next part | | it is leaked, and another sweep due |
//!
//! A client's tick takes these steps, some segments of the walk at a time. A sweep ends early where it meets damage, or
//! where for long the epoch stands still, or it cannot take what the windows have off the shelf: others are always faster, or its client ticks
//! only beside operations. A tick whose future is dropped takes the sweep with it, and a later one
//! begins anew, as another client does after a death; when it happens again in that part, the sweep ends. A client whose sweep ends early takes
//! back what it had in the windows itself.
//!
//! *What a death costs.* The word names a part until step 3 of the next one. The next sweep begins with that part, and goes
//! round. So where one client after the other dies while it sweeps, the free memory of one part is leaked at any time, beside
//! what those clients had, and all parts have their turn. The borders of that part are the same, unless much was taken since.
//!
//! | Step of a tick | Then |
//! |---|---|
//! | read the epoch | awaited |
//! | read the words of sweeps | awaited |
//! | the word is "claimed", and not known: read the windows | awaited; they tell of which claim they are |
//! | drop what is in the windows, and keep nothing there from now on | |
//! | own row | so a row shows an epoch above g only if its client has heeded the claim |
//!
//! A client that opens the index reads the words after its row is there, and before it has memory.
//!
//! # Why the waits are long enough
//! - *Step 4.* A client that does not know the claim shows g at most, so its operations have tags of g + 1
//!   at most: it has moved the epoch itself, or is about to heed the claim. While such an operation lives, the epoch is
//!   g + 2 at most. So in g + 3 no operation is left that holds a block of a window, took a chunk there, or pushes
//!   a bag with a part of one. An operation that waits gives its tag up, so it gives its block back first.
//! - *Step 5.* A bag that another client pops before is filtered when it comes into the [`Space`]. That operation has a tag
//!   of w at most, and is over before step 8.
//! - *Step 6.* No link to a window is made any more. Merges and splits move links only inside of the range of a
//!   segment, and a range is visited as one snapshot, whichever is visited first. So what was linked when its range was
//!   visited is marked, and what was unlinked before has no other link.
//! - *Step 7.* Operations that may read what was unlinked before its range was visited, or have yet to retire it, have tags of w
//!   at most; in w + 2 they are over. Until then their clients know the claim, and [`Space`] drops what they retire.
//! - Blocks that are unlinked after their range was visited are marked. Clients that know the claim drop them, and they are
//!   leaked until the next sweep. Nothing is leaked of those that have heard of the end.
//!
//! *Borders of parts.* All of this holds for each unit of memory by itself. Of a block on the border of two parts each has
//! the units on its side: they are dropped, marked and found with that part, and what is left of a free block is free
//! memory as well. The next part is claimed four epochs after step 8 at the earliest, when all clients have ended the claim
//! before, and what it found is with the others. The windows of all parts together are what was taken when the sweep began,
//! so chunks that are taken later lie in none.
//!
//! Only the client in the word writes windows, and these name the turn of the word that they are of: if a write of a
//! dropped future comes late, clients do not acknowledge the claim, and the sweep gives up.
//!
//! [`Space`]: super::space::Space
//!
//! # When a sweep begins
//! Clients add to a word of node 0 what they leak: a death counts as twice what a client keeps, and what waited lately in the one that tells. A client begins a sweep
//! when that is an eighth of what the last one found in use and what a client keeps, and the last one is over for as long as it took, or where an allocation has failed and anything was leaked;
//! or when it is asked to.
//!
//! Left as they are: a client that leaves gives its sweep up, and another one begins anew; what clients take from the
//! nodes behind the windows meanwhile is for the next sweep; and a death that no client has missed yet makes a `Full` that need not be.

use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use durahash_media::{Error, ErrorKind, Result};

use crate::executor::all;
use crate::fabric::{Addr, Batch, Done, Fabric};
use crate::planted::{Fault, planted};

use super::Core;
use super::claim::{
    CALM, Hope, Outcome, PARTS, Part, Phase, Stage, Sweep, SweepWord, Told, Total, Words, window,
    window_end, window_word,
};
use super::epoch::Op;
use super::layout::{
    BUMP_OFF, EPOCH, KV_HEADER, Kv, LEAKED, LIMIT_BYTES, Len, Ref, Row, RowState, SHELF, SWEEP,
    SWEPT, UNIT, WINDOW_OFF, epoch_of, kv_bytes, main_bytes, usable_bytes, word_at,
};
use super::shelf::{PUSHED, write_bags};
use super::space::{Bag, block_bytes};
use super::verbs::Post;
use super::walk::{Marks, Position, is_of_damage};

/// Bytes of segments that a tick reads, at most.
const VISITED_BYTES: usize = 1280 << 10;
/// Segments that it visits, at most, and those of them at a time: the tick takes some 20 round trips, and so long the
/// epoch stands still.
const VISITS: usize = 64;
const VISITS_AT_ONCE: usize = 16;
/// Headers of KV blocks that are read in one batch.
const AT_ONCE: usize = 256;
/// Reads of the windows until they are those of the claim.
const LOOKS: u32 = 8;
/// Epochs after which a client begins sweeps: those of clients that stay are seldom in vain.
const SETTLED: u64 = 64;
/// Epochs in which an operation waits for blocks that were unlinked: each is free three epochs later, and another may take it.
const RETURNS: u64 = 16;
/// Times that a tick tries to take what a window has from the shelf: so long the epoch stands still.
const TRIES: u32 = 16;
/// Times that a client begins a part of its sweep anew, after futures that were dropped.
const RESTARTS: u32 = 1;

impl<F: Fabric> Core<F> {
    /// Reads the words, after the epoch was read. `None` if the windows do not become those of the claim.
    pub(super) async fn listen(&self) -> Result<Option<Told>> {
        for _ in 0..LOOKS {
            let words = Words::new(&self.fabric.read_words(SWEEP, 5).await?);
            let (phase, turn) = (words.sweep.phase(), words.sweep.turn());
            if phase != Phase::Claimed || turn == self.reclaim.borrow().claim {
                return Ok(Some((words, None)));
            }
            let nodes = 0..self.geometry.nodes;
            let read = |batch: &mut Batch| {
                nodes.clone().for_each(|node| _ = batch.read(Addr::new(node, WINDOW_OFF), 16));
            };
            let done = self.fabric.post(Batch::of(read)).await?;
            let windows = nodes.map(|node| {
                let bytes = done.bytes(node.into());
                let [start, end] = [0, 8].map(|off| window_end(word_at(bytes, off), turn));
                Some(start?..end?.max(start?))
            });
            if let Some(windows) = windows.collect::<Option<Vec<_>>>() {
                return Ok(Some((words, Some(windows))));
            }
        }
        Ok(None)
    }

    /// Heeds what was told.
    pub(super) fn heed(&self, (words, windows): Told) {
        let mut reclaim = self.reclaim.borrow_mut();
        if let Some(windows) = windows {
            self.space.borrow_mut().claim(windows, false);
            reclaim.claim = words.sweep.turn();
        } else if words.sweep.phase() != Phase::Claimed && reclaim.claim != 0 {
            self.space.borrow_mut().lift();
            reclaim.claim = 0;
        }
        self.shelf.set(words.shelf);
        reclaim.words = words;
    }

    /// A part of a tick: tells what was leaked, and if it `gives`, takes a step of a sweep and shares memory.
    pub(super) async fn tend(&self, global: u64, rows: Option<&[Row]>, gives: bool) -> Result<()> {
        let [.., waiting] = self.space.borrow().held();
        self.reclaim.borrow_mut().note(global, waiting);
        self.repay().await?;
        // Without the service, too, a sweep that this client has begun ends.
        let advances = gives || {
            let word = self.reclaim.borrow().words.sweep;
            word.phase() != Phase::Idle && self.is_own(word)
        };
        let step = if advances { self.advance(global, rows, gives).await } else { Ok(()) };
        if let Err(error) = step {
            match error.kind() {
                &ErrorKind::Corrupt { what, off } => {
                    self.give_up(Outcome::Damage(what, off)).await?;
                }
                _ if is_of_damage(&error) => self.give_up(Outcome::Damage("an address", 0)).await?,
                _ => return Err(error),
            }
        }
        let found = self.reclaim.borrow().found;
        // Before, a client that knows the claim would drop what it takes.
        if !gives || found.is_some_and(|epoch| epoch > global) {
            return Ok(());
        }
        self.share_surplus(found.is_some()).await?;
        if found.is_some() {
            self.reclaim.borrow_mut().found = None;
            self.settle().await?;
        }
        Ok(())
    }

    fn is_own(&self, word: SweepWord) -> bool {
        word.is_of(self.fabric.row(), self.epochs.borrow().row)
    }

    /// Tells that a sweep is over, when other clients have what it found: after a death before, another sweep is due.
    pub(super) async fn settle(&self) -> Result<()> {
        let settles = self.reclaim.borrow_mut().settles.take();
        if let Some(words) = settles {
            let words = words.map(u64::to_le_bytes);
            self.leased(Batch::of(|batch| batch.write(SWEPT, words.as_flattened()))).await?;
        }
        Ok(())
    }

    /// Adds what this client leaked to what all did. Not while a claim is known, in which it may leak more.
    pub(super) async fn repay(&self) -> Result<()> {
        let owed = self.space.borrow().owed_bytes;
        if owed > 0 && (self.reclaim.borrow().claim == 0 || self.has_left()) {
            self.leased(Batch::of(|batch| batch.fetch_add(LEAKED, owed))).await?;
            self.space.borrow_mut().owed_bytes -= owed;
        }
        Ok(())
    }

    /// Posts a batch within the lease. Unlike an operation's, it may take effect at any time if the future is dropped.
    async fn leased(&self, batch: Batch) -> Result<Done> {
        self.within_lease(2).await?;
        let done = self.fabric.post(batch).await?;
        self.within_lease(1).await?;
        Ok(done)
    }

    /// Bytes of a chunk, or of a part of the nodes if a client takes larger ones.
    pub(super) fn chunk_bytes(&self) -> u64 {
        let usable = (0..self.geometry.nodes).map(|node| usable_bytes(&self.fabric, node));
        self.options.chunk_bytes.min(usable.max().unwrap_or(0) / 16)
    }

    /// What a client keeps, and what it gives of more.
    fn kept_bytes(&self) -> u64 {
        8 * self.chunk_bytes() * u64::from(self.geometry.nodes)
    }

    /// What a death leaks at most, if the dead has unlinked as much lately as this client.
    pub(super) fn death_bytes(&self) -> u64 {
        2 * self.kept_bytes() + self.reclaim.borrow().waited
    }

    /// Gives what this client has in excess, or all but a little of what a sweep has found.
    async fn share_surplus(&self, found: bool) -> Result<()> {
        let kept = self.kept_bytes();
        let keep = if found { kept / 2 } else { kept };
        let most = if found { keep } else { 2 * kept };
        if self.space.borrow().free_bytes() > most {
            let op = Op::tending(self);
            self.share(&op, keep).await?;
        }
        Ok(())
    }

    /// Steps of the sweep of this client, or its beginning.
    async fn advance(&self, global: u64, rows: Option<&[Row]>, gives: bool) -> Result<()> {
        let sweep = {
            let mut reclaim = self.reclaim.borrow_mut();
            let word = reclaim.words.sweep;
            // Another word: the one of a dropped future, or of another client after an eviction.
            reclaim.sweep.take().filter(|sweep| sweep.word == word)
        };
        let Some(mut sweep) = sweep else { return self.may_begin(global, rows, gives).await };
        let now_ns = self.fabric.now_ns();
        if sweep.seen.0 != global {
            sweep.seen = (global, now_ns);
        } else if now_ns - sweep.seen.1 >= self.patience_ns() {
            return self.give_up_sweep(sweep, Outcome::HeldBack).await;
        }
        if let Stage::Freed(until) = sweep.stage
            && global > until
        {
            return self.prepare(sweep.word, sweep.parts, sweep.total, gives).await;
        }
        if let Stage::Walking(at) = sweep.stage {
            sweep.seen = (global, now_ns);
            sweep.stage = match self.walk(at, &mut sweep.marks).await? {
                Some(at) => Stage::Walking(at),
                None => {
                    let epoch = epoch_of(self.fabric.read_word(EPOCH).await?)?;
                    Stage::Walked(epoch + 2)
                }
            };
        }
        if let Stage::Claimed(until) = sweep.stage
            && global >= until
        {
            // The walk begins in another tick.
            if self.drain(gives).await? {
                sweep.stage = Stage::Walking(Position::START);
            } else if now_ns - *sweep.late_ns.get_or_insert(now_ns) >= 2 * self.patience_ns() {
                return self.give_up_sweep(sweep, Outcome::HeldBack).await;
            }
        }
        if let Stage::Walked(until) = sweep.stage
            && global >= until
        {
            return self.end(sweep, global).await;
        }
        self.reclaim.borrow_mut().sweep = Some(sweep);
        Ok(())
    }

    fn next_word(&self, word: SweepWord, phase: Phase) -> SweepWord {
        word.next(phase, self.fabric.row(), self.epochs.borrow().row)
    }

    /// Swaps the word of sweeps, and returns whether it was `old`. A swap of a dropped future may come late: then the
    /// word is another one for this.
    async fn swap_sweep(&self, old: SweepWord, new: SweepWord) -> Result<bool> {
        let swap = Batch::of(|batch| batch.compare_swap(SWEEP, old.0, new.0));
        Ok(self.leased(swap).await?.word(0) == old.0)
    }

    /// Returns whether so much is leaked that a sweep is due.
    pub(super) fn is_much(&self, words: &Words) -> bool {
        words.lost() >= words.used / 8 + self.kept_bytes()
    }

    /// Begins a sweep if one is due and no other client's is under way: one whose client is dead is not, which a tick
    /// with a look at the rows finds out.
    async fn may_begin(&self, global: u64, rows: Option<&[Row]>, gives: bool) -> Result<()> {
        let (words, asked, begins, restarts) = {
            let mut reclaim = self.reclaim.borrow_mut();
            let words = reclaim.words;
            let is_asked = reclaim.asked > reclaim.answered;
            let begins = if words.sweep.phase() == Phase::Idle {
                // What the last one has found is given to others first.
                let is_given = reclaim.found.is_none();
                let is_much = self.is_much(&words) && global >= reclaim.opened + SETTLED;
                let is_due = is_much || words.lost() > 0 && self.short.get();
                let is_calm = !reclaim.is_damaged && global >= reclaim.calm();
                is_given && (is_asked || is_due && is_calm)
            } else {
                let lives = rows.is_none_or(|rows| {
                    rows.get(words.sweep.row()).is_some_and(|row| {
                        row.state() == RowState::Live
                            && row.incarnation() == words.sweep.incarnation()
                    })
                });
                self.is_own(words.sweep) || !lives
            };
            let is_again = words.sweep.phase() != Phase::Idle && self.is_own(words.sweep);
            reclaim.restarts = if is_again { reclaim.restarts + 1 } else { 0 };
            (words, reclaim.asked, begins, reclaim.restarts)
        };
        if !begins {
            return Ok(());
        }
        if restarts > RESTARTS {
            return self.stop(words.sweep, asked, Outcome::HeldBack).await;
        }
        let word = self.next_word(words.sweep, Phase::Preparing);
        if !self.swap_sweep(words.sweep, word).await? {
            return Ok(());
        }
        let total = Total { leaked: words.leaked, asked, ..Total::default() };
        let parts = self.parts(word).await?;
        self.prepare(word, parts, total, gives).await
    }

    /// The parts of which something is taken, from that in the word on, and their windows.
    async fn parts(&self, word: SweepWord) -> Result<VecDeque<Part>> {
        let nodes = 0..self.geometry.nodes;
        let read = |batch: &mut Batch| {
            nodes.clone().for_each(|node| _ = batch.read(Addr::new(node, BUMP_OFF), 8));
        };
        let bumps = self.fabric.post(Batch::of(read)).await?;
        let mut taken = Vec::new();
        for node in nodes {
            let first = self.geometry.first_chunk(node);
            let bump = bumps.word(node.into());
            if bump < first || !bump.is_multiple_of(UNIT) {
                return Err(Error::corrupt("the bump word of a node", BUMP_OFF));
            }
            let usable = usable_bytes(&self.fabric, node);
            taken.push((first, bump.min(usable), usable));
        }
        let parts = (0..PARTS).map(|i| {
            let part = (word.part() + i) % PARTS;
            let windows =
                taken.iter().map(|&(first, bump, usable)| window(part, first, bump, usable));
            (part, windows.collect())
        });
        let is_taken = |(_, windows): &Part| windows.iter().any(|window| !window.is_empty());
        Ok(parts.filter(is_taken).collect())
    }

    /// Steps 2 and 3 of the first of these parts.
    async fn prepare(
        &self,
        word: SweepWord,
        mut parts: VecDeque<Part>,
        total: Total,
        gives: bool,
    ) -> Result<()> {
        let nodes = 0..self.geometry.nodes;
        let first = parts.pop_front();
        let (part, windows) = first.ok_or_else(|| Error::corrupt("the bump words", BUMP_OFF))?;
        let claimed = self.next_word(word, Phase::Claimed).of_part(part);
        let mut batch = Batch::new();
        for (node, window) in nodes.zip(&windows) {
            let ends = [window.start, window.end].map(|end| window_word(end, claimed.turn()));
            batch.write(Addr::new(node, WINDOW_OFF), ends.map(u64::to_le_bytes).as_flattened());
        }
        self.leased(batch).await?;
        if !self.swap_sweep(word, claimed).await? {
            return Ok(());
        }
        self.space.borrow_mut().claim(windows.clone(), true);
        self.reclaim.borrow_mut().claim = claimed.turn();
        let epoch = epoch_of(self.fabric.read_word(EPOCH).await?)?;
        let waits = if planted(Fault::ClaimUnwaited) { 0 } else { 3 };
        if gives {
            // Others find nothing there that they may not have.
            self.drain(true).await?;
        }
        self.reclaim.borrow_mut().sweep = Some(Sweep {
            word: claimed,
            stage: Stage::Claimed(epoch + waits),
            marks: Marks::new(windows),
            parts,
            total,
            seen: (epoch, self.fabric.now_ns()),
            late_ns: None,
        });
        Ok(())
    }

    /// Takes what lies in the windows off the shelf. A swap of its word replaces the bags down to the last that has any by others
    /// with their rest, so that a death in between costs none of it. Returns whether all is done.
    async fn drain(&self, gives: bool) -> Result<bool> {
        let op = Op::tending(self);
        let mut head = Ref::from_word(op.read_word(SHELF).await?);
        if !gives {
            return Ok(head.is_none());
        }
        let epoch = self.epochs.borrow().latest;
        // None of them changes, or is another one, while the operation lives.
        let mut known = HashMap::new();
        for tries in 0..TRIES {
            let (mut bags, damage) = self.bags(&op, head, &mut known).await?;
            if damage.is_none() {
                let space = self.space.borrow();
                let last = bags.iter().rposition(|bag| space.claims(bag));
                let Some(last) = last else { return Ok(true) };
                bags.truncate(last + 1);
            }
            // A damaged bag, and those behind it, would be in the way of all sweeps.
            let mut behind = match &damage {
                Some(_) => Ref::NONE,
                None => bags.last().map_or(Ref::NONE, |bag| known[&bag.at].1),
            };
            let bytes = bags.iter().flat_map(|bag| &bag.extents).map(|extent| extent.1).sum();
            let must = tries >= TRIES / 2 || damage.is_some();
            let bag_bytes = self.bag_bytes(bytes);
            let rebagged = self.space.borrow_mut().rebag(&bags, epoch, bag_bytes, must);
            let is_whole = rebagged.is_some();
            if !is_whole {
                // The first bag has some blocks.
                bags.truncate(1);
                behind = bags.last().map_or(Ref::NONE, |bag| known[&bag.at].1);
            }
            let [new, rest] = rebagged.unwrap_or_else(|| [Vec::new(), bags]);
            for (i, some) in new.chunks(PUSHED).enumerate() {
                let next = new.get((i + 1) * PUSHED).map_or(behind, |bag| bag.at);
                op.send(Batch::of(|batch| write_bags(batch, some, next))).await?;
            }
            let first = new.first().map_or(behind, |bag| bag.at);
            let found = Ref::from_word(op.swap_word(SHELF, head.word(), first.word()).await?);
            if found != head {
                self.space.borrow_mut().unbag(&new);
                head = found;
                continue;
            }
            self.shelf.set(first);
            rest.iter().for_each(|bag| self.adopt(&op, bag, true));
            if is_whole {
                return damage.map_or(Ok(true), Err);
            }
            head = first;
        }
        Ok(false)
    }

    /// The bags of the shelf from `at` on, up to a damaged one.
    async fn bags(
        &self,
        op: &Op<'_, F>,
        mut at: Ref,
        known: &mut HashMap<Ref, (Bag, Ref)>,
    ) -> Result<(Vec<Bag>, Option<Error>)> {
        let (mut bags, mut seen) = (Vec::new(), HashSet::new());
        while !at.is_none() {
            if !seen.insert(at) {
                let circle = Error::corrupt("a bag of the shelf", at.addr().off());
                return Ok((bags, Some(circle)));
            }
            if let Entry::Vacant(place) = known.entry(at) {
                match self.read_bag(op, at).await {
                    Ok(read) => _ = place.insert(read),
                    Err(error) if is_of_damage(&error) => return Ok((bags, Some(error))),
                    Err(error) => return Err(error),
                }
            }
            let (bag, next) = &known[&at];
            bags.push(bag.clone());
            at = *next;
        }
        Ok((bags, None))
    }

    /// Visits segments from `at` on, and returns where to go on. The directory tells where the next ones may be. What is found beside the
    /// walk, as it tells of what was before a split, is marked though it need not be, which frees less.
    async fn walk(&self, at: Position, marks: &mut Marks) -> Result<Option<Position>> {
        let op = &Op::tending(self);
        let marks = &RefCell::new(marks);
        let bytes = self.geometry.cur_bytes() + main_bytes(self.geometry.limit as usize);
        let mut left = (VISITED_BYTES / bytes).clamp(1, VISITS);
        let mut at = at;
        while left > 0 {
            let positions = self.cache.borrow().directory.positions(at, left.min(VISITS_AT_ONCE));
            left -= positions.len();
            let seen = &RefCell::new(HashMap::new());
            let visit = |position| async move {
                let next = self.mark(op, position, marks).await;
                seen.borrow_mut().insert(position, next);
            };
            all(positions.into_iter().map(visit)).await;
            let (mut seen, begin) = (seen.take(), at);
            while let Some(next) = seen.remove(&at) {
                match next {
                    // A segment may begin there only since the guess was tried: it is visited next.
                    Err(error) if at != begin && is_of_damage(&error) => break,
                    next => match next? {
                        Some(next) => at = next,
                        None => return Ok(None),
                    },
                }
            }
        }
        Ok(Some(at))
    }

    /// Marks what the segment at `at` uses, and returns the position behind it.
    async fn mark(
        &self,
        op: &Op<'_, F>,
        at: Position,
        marks: &RefCell<&mut Marks>,
    ) -> Result<Option<Position>> {
        let (segment, next) = self.visit_at(op, at).await?;
        let pending = self.pending(op, &segment).await?;
        let cur_bytes = block_bytes(self.geometry.cur_bytes());
        let main_size = |len: u32| block_bytes(main_bytes(len as usize));
        let most = block_bytes(kv_bytes(LIMIT_BYTES, LIMIT_BYTES));
        let mut long = Vec::new();
        {
            let mut marks = marks.borrow_mut();
            marks.mark(segment.cur.addr(), cur_bytes);
            marks.mark(segment.a.main().addr(), main_size(segment.header.len));
            if let Some((main, len)) = pending {
                marks.mark(segment.pending.addr(), cur_bytes);
                marks.mark(main.addr(), main_size(len));
            }
            let settled = segment.frozen.main.iter().map(|item| item.entry);
            let entries = segment.frozen.cur.iter().map(|&(entry, _)| entry).chain(settled);
            for entry in entries {
                let kv = entry.kv();
                match entry.len() {
                    // The block tells its length.
                    Len(0 | 7) if marks.touches(kv.addr(), most) => long.push(kv),
                    Len(0 | 7) => {}
                    Len(units) => marks.mark(kv.addr(), u64::from(units) * UNIT),
                }
            }
        }
        for some in long.chunks(AT_ONCE) {
            let done = self.read_blocks(op, some.iter().map(|&kv| (kv, KV_HEADER))).await?;
            for (i, kv) in some.iter().enumerate() {
                let bytes = Kv::parse(done.bytes(i), kv.addr().off())?.block_bytes();
                marks.borrow_mut().mark(kv.addr(), block_bytes(bytes));
            }
        }
        Ok(next)
    }

    /// Steps 8 and 9.
    async fn end(&self, sweep: Sweep, global: u64) -> Result<()> {
        let gaps = sweep.marks.gaps();
        let Total { leaked, used, found, asked } = sweep.total;
        let total = Total {
            leaked,
            used: used + sweep.marks.bytes(),
            found: found + gaps.iter().map(|gap| gap.1).sum::<u64>(),
            asked,
        };
        let is_last = sweep.parts.is_empty();
        let phase = if is_last { Phase::Idle } else { Phase::Preparing };
        let word = self.next_word(sweep.word, phase);
        if !self.swap_sweep(sweep.word, word).await? {
            return Ok(());
        }
        {
            let mut space = self.space.borrow_mut();
            space.lift();
            for (addr, bytes) in gaps {
                space.add(addr, bytes);
            }
            let mut reclaim = self.reclaim.borrow_mut();
            (reclaim.claim, reclaim.restarts) = (0, 0);
            // Then all clients know that the claim has ended.
            reclaim.found = Some(global + 3);
            if is_last {
                reclaim.outcome = Outcome::Found(total.found);
                reclaim.answered = total.asked;
                reclaim.settles = Some([total.leaked, total.used]);
                self.stats.borrow_mut().sweeps += 1;
            }
        }
        if !is_last {
            let (stage, marks) = (Stage::Freed(global + 3), Marks::default());
            self.reclaim.borrow_mut().sweep = Some(Sweep { word, stage, marks, total, ..sweep });
        }
        Ok(())
    }

    /// Ends a sweep that this client has begun, after an error of it.
    async fn give_up(&self, outcome: Outcome) -> Result<()> {
        let asked = {
            let mut reclaim = self.reclaim.borrow_mut();
            reclaim.is_damaged |= matches!(outcome, Outcome::Damage(..));
            reclaim.sweep = None;
            reclaim.asked
        };
        let word = Words::new(&self.fabric.read_words(SWEEP, 5).await?).sweep;
        self.stop(word, asked, outcome).await
    }

    async fn give_up_sweep(&self, sweep: Sweep, outcome: Outcome) -> Result<()> {
        self.stop(sweep.word, sweep.total.asked, outcome).await
    }

    /// Swaps the word to idle if it is this client's.
    async fn stop(&self, word: SweepWord, asked: u64, outcome: Outcome) -> Result<()> {
        let is_own = self.is_own(word);
        if is_own {
            // What other clients have dropped was not found. Before the swap: the future may be dropped.
            let bytes = self.death_bytes();
            self.space.borrow_mut().owed_bytes += bytes;
        }
        let stops = is_own
            && word.phase() != Phase::Idle
            && self.swap_sweep(word, self.next_word(word, Phase::Idle)).await?;
        let mut reclaim = self.reclaim.borrow_mut();
        if is_own {
            let mut space = self.space.borrow_mut();
            if stops {
                space.take_back();
            }
            space.lift();
            reclaim.claim = 0;
        }
        reclaim.outcome = outcome;
        reclaim.answered = asked;
        self.stats.borrow_mut().sweep_failures += 1;
        Ok(())
    }

    /// Before this client leaves: another one may sweep.
    pub(super) async fn stop_sweep(&self) -> Result<()> {
        let sweep = self.reclaim.borrow_mut().sweep.take();
        match sweep {
            Some(sweep) => self.give_up_sweep(sweep, Outcome::None).await,
            None => Ok(()),
        }
    }

    /// Sweeps, beside all other clients, and returns the bytes that were found free.
    pub(crate) async fn sweep(&self) -> Result<u64> {
        self.wake().await?;
        let asked = {
            let mut reclaim = self.reclaim.borrow_mut();
            reclaim.asked += 1;
            reclaim.asked
        };
        let mut seen = (0, self.fabric.now_ns());
        loop {
            self.epochs.borrow_mut().hurry();
            self.tick().await?;
            if self.has_left() {
                return Err(self.left().await);
            }
            if self.reclaim.borrow().answered >= asked {
                let outcome = self.reclaim.borrow().outcome;
                return match outcome {
                    Outcome::Found(bytes) => Ok(bytes),
                    Outcome::Damage(what, off) => Err(Error::corrupt(what, off)),
                    Outcome::HeldBack | Outcome::None => Err(self.held_back()),
                };
            }
            let (latest, now_ns) = (self.epochs.borrow().latest, self.fabric.now_ns());
            if seen.0 != latest {
                seen = (latest, now_ns);
            } else if now_ns - seen.1 >= 2 * self.patience_ns() {
                return Err(self.held_back());
            }
            self.fabric.sleep_ns(self.options.wait_ns.min(self.tick_ns(1))).await;
        }
    }

    /// This client has stayed for as long as one of the same index that has lost a node. It leaves what that one had to a sweep: a node
    /// that comes back from a loss of power may link it again.
    pub(crate) fn succeeds(&self, lost: &Self) {
        let owed_bytes = lost.space.borrow().owed_bytes;
        let (mut reclaim, lost) = (self.reclaim.borrow_mut(), lost.reclaim.borrow());
        (reclaim.opened, reclaim.waited) = (lost.opened, lost.waited);
        // Whoever evicted that one did not know what waited there, and what it owed is not told. Twice is no harm.
        self.space.borrow_mut().owed_bytes += owed_bytes + lost.waited;
    }

    /// Returns whether this client sweeps.
    pub(crate) fn sweeps(&self) -> bool {
        self.reclaim.borrow().sweep.is_some()
    }

    /// After an allocation has failed: waits if a sweep may find memory, or some is to be free, and returns whether to try again. The caller
    /// holds no block.
    pub(super) async fn hope(&self, op: &mut Op<'_, F>, hope: &mut Hope) -> Result<bool> {
        let is_first = hope.since.is_none();
        if is_first {
            // The words of the last tick may be old.
            drop(self.still().await);
            self.tick().await?;
        }
        let Words { sweep, leaked, swept, .. } = self.reclaim.borrow().words;
        let (now_ns, latest) = (self.fabric.now_ns(), self.epochs.borrow().latest);
        let (since_ns, leaked, first) = *hope.since.get_or_insert((now_ns, leaked, latest));
        if hope.seen.0 != latest {
            hope.seen = (latest, now_ns);
        }
        let is_coming = swept < leaked && !self.reclaim.borrow().is_damaged;
        if sweep.phase() != Phase::Idle || is_coming {
            hope.until = latest + CALM;
        }
        // The tick may have freed some, or a bag may lie on the shelf.
        if is_first {
            return Ok(true);
        }
        // Blocks that this client has unlinked come back, however seldom idle clients tick.
        let returns = self.space.borrow().held()[2] > 0 && latest < first + RETURNS;
        let is_over = latest >= hope.until || now_ns - since_ns >= self.patience_ns();
        if is_over && !(returns && now_ns - hope.seen.1 < self.patience_ns()) {
            return Ok(false);
        }
        self.stats.borrow_mut().waits += 1;
        op.wait(self.tick_ns(1)).await;
        self.epochs.borrow_mut().hurry();
        self.tick().await?;
        Ok(true)
    }
}
