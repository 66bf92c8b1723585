//! Memory that returns while others work: claims, forgetting, the shelf of bags, the sweep.
//!
//! A sweep claims half of the memory after the other, and one that begins again the half that was claimed; the index has
//! eight parts in their place. All clients forget what they own in the claimed window, and when
//! all have done so, and no operation of before is left, the index itself says what is in use there: a walk
//! marks it, and the sweeper owns the rest. Bags on the shelf pass free memory from client to client.

use std::collections::HashMap;
use std::collections::hash_map;

use super::client::Coroutine;
use super::layout::{
    A, Addr, BUMP, CLAIMED, CUR_HEAD, Claim, Class, EPOCH, Entry, HEAP, HIGH, IDLE, LOW, PREPARING,
    SHELF, SWEEP, State, row_is_live,
};
use super::random::Random;
use super::rules::{Key, MAX_DEPTH};
use super::world::{Batch, Closed, Life};

/// Words of a bag: next, the epoch from which its extent is free, address and length of that.
const BAG: usize = 4;
/// The most words of an extent in a bag.
const BAGGED: usize = 40;
/// A client with more free words than this pushes bags until it has half.
const KEPT: usize = 48;
/// Words of a chunk.
const CHUNK: usize = 24;
/// Looks at memory that is used up, before an operation takes some beyond the limit.
const LOOKS: u64 = 6;

/// From the first address to the one after the last.
pub(crate) type Window = (Addr, Addr);

/// A client's memory.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Address and length, in order; none touches the next.
    free: Vec<(Addr, usize)>,
    /// Address, length, and the epoch from which it is free.
    waiting: Vec<(Addr, usize, u64)>,
    /// What is inside is forgotten.
    window: Option<Window>,
    /// The end of the chunk that was taken last.
    bump: Addr,
}

impl Space {
    /// What of an extent lies outside the window.
    fn outside(&self, at: Addr, len: usize) -> [(Addr, usize); 2] {
        let end = at + len;
        let (low, high) = self.window.filter(|(low, high)| low < high).unwrap_or((end, end));
        let (below, above) = (low.clamp(at, end), high.clamp(at, end));
        [(at, below - at), (above, end - above)]
    }

    /// Adds free memory, and waiting memory if there is an epoch.
    fn put(&mut self, at: Addr, len: usize, epoch: u64, filtered: bool) {
        let parts = if filtered { self.outside(at, len) } else { [(at, len), (at, 0)] };
        for (at, len) in parts.into_iter().filter(|&(_, len)| len > 0) {
            if epoch > 0 {
                self.waiting.push((at, len, epoch));
                continue;
            }
            let i = self.free.partition_point(|&(other, _)| other < at);
            self.free.insert(i, (at, len));
            for i in [i + 1, i] {
                if i > 0
                    && i < self.free.len()
                    && self.free[i - 1].0 + self.free[i - 1].1 == self.free[i].0
                {
                    self.free[i - 1].1 += self.free.remove(i).1;
                }
            }
        }
    }

    /// Makes free what has waited for this epoch.
    fn collect(&mut self, epoch: u64) {
        let ready = self.waiting.extract_if(.., |waiting| waiting.2 <= epoch).collect::<Vec<_>>();
        for (at, len, _) in ready {
            self.put(at, len, 0, false);
        }
    }

    /// Forgets what is inside the window.
    fn forget(&mut self) {
        let (free, waiting) = (std::mem::take(&mut self.free), std::mem::take(&mut self.waiting));
        for (at, len) in free {
            self.put(at, len, 0, true);
        }
        for (at, len, epoch) in waiting {
            self.put(at, len, epoch, true);
        }
    }

    fn take(&mut self, len: usize, random: &mut Random) -> Option<Addr> {
        let fit: Vec<usize> = (0..self.free.len()).filter(|&i| self.free[i].1 >= len).collect();
        if fit.is_empty() {
            return None;
        }
        let (at, all) = &mut self.free[fit[random.below(fit.len() as u64) as usize]];
        let taken = *at;
        (*at, *all) = (*at + len, *all - len);
        self.free.retain(|&(_, len)| len > 0);
        Some(taken)
    }

    fn owns(&self, at: Addr) -> bool {
        let free = self.free.iter().copied();
        let mut all = free.chain(self.waiting.iter().map(|&(from, len, _)| (from, len)));
        all.any(|(from, len)| (from..from + len).contains(&at))
    }

    fn free_words(&self) -> usize {
        self.free.iter().map(|(_, len)| len).sum()
    }

    /// An extent for a bag, and its epoch.
    fn extract(&mut self, waiting: bool) -> Option<(Addr, usize, u64)> {
        if waiting && let Some(some) = self.waiting.pop() {
            return Some(some);
        }
        let (at, len) = self.free.pop()?;
        let some = len.min(BAGGED);
        self.put(at, len - some, 0, false);
        Some((at + len - some, some, 0))
    }
}

/// A sweep of this client, which its ticks advance.
#[derive(Debug)]
pub(crate) struct Sweep {
    claim: Claim,
    window: Window,
    step: Step,
    /// Which words of the window are in use.
    used: Vec<bool>,
}

#[derive(Debug)]
enum Step {
    /// Until all clients have forgotten, since this epoch.
    Waits(u64),
    /// The position that is visited next.
    Walks(u64),
    /// Until no operation is left from before the end of the walk, in this epoch.
    Settles(u64),
}

impl Coroutine {
    pub(crate) async fn word(&self, addr: Addr) -> Result<u64, Closed> {
        Ok(self.post(Batch::of(|b| b.read(addr, 1))).await?[0])
    }

    /// Returns whether the word was `old`, and is `new` now.
    async fn swap(&self, addr: Addr, old: u64, new: u64) -> Result<bool, Closed> {
        Ok(self.post(Batch::of(|b| b.swap(addr, old, new, &[]))).await?[0] == old)
    }

    // ---- a client's memory ----

    /// Frees memory, at once or from an epoch on.
    pub(crate) fn give(&self, at: Addr, len: usize, epoch: u64) {
        let rules = self.setup.rules;
        let filtered = if epoch > 0 { rules.retired_is_filtered } else { rules.freed_is_filtered };
        self.client.borrow_mut().space.put(at, len, epoch, filtered);
    }

    fn own(&self, len: usize) -> Option<Addr> {
        let mut client = self.client.borrow_mut();
        let known = client.known;
        client.space.collect(known);
        self.random(|random| client.space.take(len, random))
    }

    /// Memory from this client's own, from the shelf, or from a new chunk; nothing, if that would be beyond the
    /// limit and `limited` says so.
    pub(crate) async fn take(&self, len: usize, limited: bool) -> Result<Option<Addr>, Closed> {
        loop {
            if let Some(at) = self.own(len) {
                return Ok(Some(at));
            }
            if self.pop().await? {
                continue;
            }
            if limited && self.client.borrow().space.bump >= self.setup.memory {
                return Ok(None);
            }
            let some = CHUNK.max(len);
            let at = self.post(Batch::of(|b| b.add(BUMP, some as u64))).await?[0] as Addr;
            let space = &mut self.client.borrow_mut().space;
            space.bump = space.bump.max(at + some);
            space.put(at, some, 0, self.setup.rules.chunk_is_filtered);
        }
    }

    /// Memory for a KV block. Nothing, if what the caller has read is void because this has waited.
    pub(crate) async fn take_block(&self, waits: &mut u64) -> Result<Option<Addr>, Closed> {
        let limited = *waits < LOOKS;
        let block = self.take(Class::Block.words(0), limited).await?;
        if block.is_none() {
            *waits += 1;
            self.wait().await?;
        }
        Ok(block)
    }

    // ---- the shelf ----

    /// Takes a bag; returns whether there was one. The caller's operation holds an epoch.
    async fn pop(&self) -> Result<bool, Closed> {
        loop {
            let bag = self.word(SHELF).await? as Addr;
            if bag == 0 {
                return Ok(false);
            }
            let found = self.post(Batch::of(|b| b.read(bag, BAG))).await?;
            if !self.swap(SHELF, bag as u64, found[0]).await? {
                continue;
            }
            let (epoch, at, len) = (found[1], found[2] as Addr, found[3] as usize);
            if at < HEAP || len > BAGGED || at + len > *self.world.borrow_mut().word(BUMP) as Addr {
                self.fault("a bag that is none");
                return Ok(false);
            }
            let rules = self.setup.rules;
            self.client.borrow_mut().space.put(at, len, epoch, rules.bag_is_filtered);
            let epoch = if rules.popped_bag_waits { self.held() + 3 } else { 0 };
            self.give(bag, BAG, epoch);
            self.run.borrow_mut().popped += 1;
            return Ok(true);
        }
    }

    /// Pushes bags until this client has no more free words than `most`, or nothing at all if that is 0.
    pub(crate) async fn push(&self, most: usize) -> Result<(), Closed> {
        while self.client.borrow().space.free_words() > most
            || most == 0 && !self.client.borrow().space.waiting.is_empty()
        {
            // Without memory for a bag the rest is lost to the next sweep.
            let Some(bag) = self.own(BAG) else { break };
            let Some(extent) = self.client.borrow_mut().space.extract(most == 0) else { break };
            let (at, len, epoch) = extent;
            let epoch = if self.setup.rules.bag_has_epoch { epoch } else { 0 };
            loop {
                let next = self.word(SHELF).await?;
                let words = [next, epoch, at as u64, len as u64];
                self.post(Batch::of(|b| b.write(bag, &words))).await?;
                if self.swap(SHELF, next, bag as u64).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Passes memory on, if this client has much.
    pub(crate) async fn pass_on(&self) -> Result<(), Closed> {
        if self.client.borrow().space.free_words() <= KEPT {
            return Ok(());
        }
        if self.setup.rules.moves_hold_epoch {
            self.hold();
        }
        self.push(KEPT / 2).await?;
        self.release();
        Ok(())
    }

    /// Returns whether a live client or a bag on the shelf owns these words, as the judge sees it.
    fn is_owned(&self, at: Addr) -> bool {
        let mut world = self.world.borrow_mut();
        let run = self.run.borrow();
        let live = run.clients.iter().filter(|(client, _)| world.life(*client) == Life::Live);
        if live.clone().any(|(_, client)| client.borrow().space.owns(at)) {
            return true;
        }
        let mut bag = *world.word(SHELF) as Addr;
        for _ in 0..world.end() {
            if bag < HEAP || bag + BAG > world.end() {
                return bag != 0;
            }
            let [next, _, from, len] = std::array::from_fn(|i| *world.word(bag + i) as usize);
            if (from..from.saturating_add(len)).contains(&at) || (bag..bag + BAG).contains(&at) {
                return true;
            }
            bag = next;
        }
        true
    }

    /// Gives everything back, and then the row.
    pub(crate) async fn leave(
        &self,
        sweep: Option<Sweep>,
        row: Addr,
        shown: u64,
    ) -> Result<(), Closed> {
        if let Some(sweep) = sweep {
            self.give_up(&sweep).await?;
        }
        self.flush().await?;
        if !self.setup.rules.row_freed_last {
            self.swap(row, shown, 0).await?;
        }
        self.push(0).await?;
        self.client.borrow_mut().space = Space::default();
        self.swap(row, shown, 0).await?;
        Ok(())
    }

    // ---- claims ----

    /// Learns from the word of the sweep whether there is a claim, after the epoch was read; both are known at the
    /// same moment.
    pub(crate) async fn learn_claim(&self, epoch: u64, early: Option<u64>) -> Result<(), Closed> {
        let rules = self.setup.rules;
        if !rules.claim_known_with_epoch {
            self.knows(epoch);
        }
        let mut word = match early {
            Some(word) => word,
            None => self.word(SWEEP).await?,
        };
        let known = self.client.borrow().claim;
        let mut window = None;
        while word != known && Claim::of(word).phase == CLAIMED {
            let mut batch = Batch::new();
            if !rules.window_read_after_claim {
                batch.read(SWEEP, 1);
            }
            batch.read(LOW, 2);
            let mut found = self.post(batch).await?;
            if found.len() == 3 {
                word = found.remove(0);
            }
            window = Some((found[0] as Addr, found[1] as Addr));
            if !rules.claim_read_again {
                break;
            }
            let again = self.word(SWEEP).await?;
            if again == word {
                break;
            }
            word = again;
        }
        self.knows(epoch);
        if word != known {
            match Claim::of(word).phase {
                // Clients keep the window that they have.
                PREPARING => {}
                CLAIMED => self.forget_window(word, window),
                _ => self.forget_window(word, None),
            }
        }
        Ok(())
    }

    fn knows(&self, epoch: u64) {
        let mut client = self.client.borrow_mut();
        client.known = client.known.max(epoch);
    }

    fn forget_window(&self, claim: u64, window: Option<Window>) {
        let mut client = self.client.borrow_mut();
        client.claim = claim;
        client.space.window = window;
        if self.setup.rules.learner_forgets {
            client.space.forget();
        }
    }

    // ---- the sweep ----

    /// A step of a sweep, or the start of one.
    pub(crate) async fn sweep(&self, sweep: Option<Sweep>) -> Result<Option<Sweep>, Closed> {
        let Some(mut sweep) = sweep else { return self.claim().await };
        if self.random(|r| r.one_in(60)) {
            self.give_up(&sweep).await?;
            return Ok(None);
        }
        let rules = self.setup.rules;
        let known = self.client.borrow().known;
        match sweep.step {
            Step::Waits(epoch) => {
                if known < epoch + 3 && rules.claim_waits {
                    return Ok(Some(sweep));
                }
                if rules.sweep_empties_shelf {
                    self.empty_shelf().await?;
                }
                sweep.step = Step::Walks(0);
            }
            Step::Walks(mut at) => {
                for _ in 0..=self.random(|r| r.below(3)) {
                    self.hold();
                    let seen = self.visit(at, &mut sweep).await;
                    self.release();
                    let Some(next) = seen? else { return Ok(None) };
                    at = next;
                    if at == 1 << MAX_DEPTH {
                        sweep.step = Step::Settles(self.word(EPOCH).await?);
                        return Ok(Some(sweep));
                    }
                }
                sweep.step = Step::Walks(at);
            }
            Step::Settles(epoch) => {
                if known < epoch + 3 && rules.walk_waits {
                    return Ok(Some(sweep));
                }
                return self.end(sweep).await.map(|()| None);
            }
        }
        Ok(Some(sweep))
    }

    /// Claims a half, if no live client has one.
    async fn claim(&self) -> Result<Option<Sweep>, Closed> {
        let word = self.word(SWEEP).await?;
        let found = Claim::of(word);
        if found.phase == IDLE {
            if !self.random(|r| r.one_in(3)) {
                return Ok(None);
            }
        } else {
            // After the claim: a client that has one has been live since before.
            let live = row_is_live(self.word(super::layout::row(found.client)).await?);
            let any = !self.setup.rules.takes_over_from_dead && self.random(|r| r.one_in(8));
            if live && !any {
                return Ok(None);
            }
            self.run.borrow_mut().takeovers += 1;
        }
        let (client, turn) = (self.number(), found.turn + 1);
        let preparing = Claim { phase: PREPARING, half: found.half, client, turn };
        if !self.swap(SWEEP, word, preparing.word()).await? {
            return Ok(None);
        }
        let mut batch = Batch::new();
        batch.read(BUMP, 1);
        batch.read(LOW, 2);
        let seen = self.post(batch).await?;
        let (bump, old) = (seen[0] as Addr, (seen[1] as Addr, seen[2] as Addr));
        let window = if found.half == 0 {
            let window = (HEAP, HEAP + (bump - HEAP) / 4 * 2);
            self.post(Batch::of(|b| b.write(LOW, &[window.0 as u64, window.1 as u64]))).await?;
            window
        } else {
            // The middle is HIGH as long as LOW is that of the lower half.
            let middle = if old.0 == HEAP { old.1 } else { old.0 };
            self.post(Batch::of(|b| b.write(LOW, &[middle as u64]))).await?;
            self.post(Batch::of(|b| b.write(HIGH, &[bump as u64]))).await?;
            (middle, bump)
        };
        let claim = Claim { phase: CLAIMED, turn: turn + 1, ..preparing };
        if !self.swap(SWEEP, preparing.word(), claim.word()).await? {
            return Ok(None);
        }
        self.forget_window(claim.word(), Some(window));
        let epoch = self.word(EPOCH).await?;
        let used = vec![false; window.1 - window.0];
        Ok(Some(Sweep { claim, window, step: Step::Waits(epoch), used }))
    }

    /// Takes what lies in the window off the shelf, and pushes what this client does not keep.
    async fn empty_shelf(&self) -> Result<(), Closed> {
        if self.setup.rules.moves_hold_epoch {
            self.hold();
        }
        // While this epoch is held none of them changes, or is another one.
        let mut known = HashMap::new();
        while !self.replace_bags(&mut known).await? {}
        self.push(KEPT / 2).await?;
        self.release();
        Ok(())
    }

    /// Replaces the bags down to the last one that the window cuts by others with their rest, in one swap of the shelf's word.
    /// Returns whether that is done.
    async fn replace_bags(&self, known: &mut HashMap<Addr, Vec<u64>>) -> Result<bool, Closed> {
        let head = self.word(SHELF).await?;
        let (mut chain, mut at) = (Vec::new(), head as Addr);
        while at != 0 {
            let end = *self.world.borrow_mut().word(BUMP) as Addr;
            if at < HEAP || at + BAG > end || chain.len() > end {
                self.fault("a bag that is none");
                return Ok(true);
            }
            if let hash_map::Entry::Vacant(place) = known.entry(at) {
                place.insert(self.post(Batch::of(|b| b.read(at, BAG))).await?);
            }
            let found = &known[&at];
            chain.push([at, found[1] as usize, found[2] as Addr, found[3] as usize]);
            at = found[0] as Addr;
        }
        let outside = |at, len| self.client.borrow().space.outside(at, len);
        let is_cut = |at, len| outside(at, len).iter().map(|part| part.1).sum::<usize>() < len;
        let is_of = |&[bag, _, at, len]: &[usize; 4]| is_cut(bag, BAG) || is_cut(at, len);
        let Some(last) = chain.iter().rposition(is_of) else { return Ok(true) };
        let mut first = chain.get(last + 1).map_or(0, |bag| bag[0]);
        chain.truncate(last + 1);
        let (mut batch, mut bags, mut rest) = (Batch::new(), Vec::new(), Vec::new());
        for &[_, epoch, at, len] in chain.iter().rev() {
            for (at, len) in outside(at, len).into_iter().filter(|part| part.1 > 0) {
                match self.own(BAG) {
                    Some(bag) => {
                        batch.write(bag, &[first, epoch, at, len].map(|word| word as u64));
                        bags.push(bag);
                        first = bag;
                    }
                    None => rest.push((at, len, epoch)),
                }
            }
        }
        self.post(batch).await?;
        if !self.swap(SHELF, head, first as u64).await? {
            bags.into_iter().for_each(|bag| self.give(bag, BAG, 0));
            return Ok(false);
        }
        for (at, len, epoch) in rest {
            self.client.borrow_mut().space.put(at, len, epoch as u64, true);
        }
        let rules = self.setup.rules;
        let epoch = if rules.popped_bag_waits { self.held() + 3 } else { 0 };
        chain.iter().for_each(|bag| self.give(bag[0], BAG, epoch));
        self.run.borrow_mut().replaced += 1;
        Ok(true)
    }

    /// Marks what the segment at a position uses, and returns the next position; nothing after a fault.
    async fn visit(&self, at: u64, sweep: &mut Sweep) -> Result<Option<u64>, Closed> {
        let n = self.setup.entries;
        let hash = at.reverse_bits() >> (64 - MAX_DEPTH);
        let key = Key { hash, fp: 0, fp2: 0 };
        loop {
            if self.world.borrow().fault.is_some() {
                return Ok(None);
            }
            let cur = self.find(key).await?;
            let found = self.post(Batch::of(|b| b.read(cur, CUR_HEAD))).await?;
            let look = self.look(&found);
            if !self.follow(key, &look).await? {
                continue;
            }
            let a = look.a;
            let mut batch = Batch::new();
            batch.read(cur, CUR_HEAD + n);
            let main = batch.read(a.main(), Class::Main.words(n));
            let found = self.post(batch).await?;
            if found[0] != a.0 {
                continue;
            }
            let Some((_, settled)) = self.main(&found[main..]) else { return Ok(None) };
            let mut links: Vec<(Addr, Class)> = vec![(cur, Class::Cur), (a.main(), Class::Main)];
            links.extend(settled.iter().map(|entry| (entry.block(), Class::Block)));
            let entries = found[CUR_HEAD..CUR_HEAD + n].iter().map(|&word| Entry(word));
            let states: Vec<_> = entries.map(|e| (e, e.state(a, self.setup.wrap))).collect();
            let live = states.iter().take_while(|(_, state)| *state == State::Live);
            links.extend(live.clone().map(|(entry, _)| (entry.block(), Class::Block)));
            if states.get(live.count()).is_some_and(|(_, state)| *state == State::Other) {
                continue;
            }
            let pending =
                if a.depth() < MAX_DEPTH { found[2 + a.depth() as usize] as Addr } else { 0 };
            if pending != 0 && self.setup.rules.walk_marks_pending {
                // Its entries are those of this segment.
                links.push((pending, Class::Cur));
                links.push((A(self.word(pending).await?).main(), Class::Main));
            }
            let (low, high) = sweep.window;
            for (at, class) in links {
                for word in (at..at + class.words(n)).filter(|word| (low..high).contains(word)) {
                    sweep.used[word - low] = true;
                }
            }
            let place = found[1] & ((1 << a.depth()) - 1);
            let from = place.reverse_bits() >> (64 - MAX_DEPTH);
            return Ok(Some(from + (1 << (MAX_DEPTH - a.depth()))));
        }
    }

    /// The claim is over without a result; its half is due.
    async fn give_up(&self, sweep: &Sweep) -> Result<(), Closed> {
        self.idle(sweep, sweep.claim.half).await.map(|_| ())
    }

    /// Ends the claim, and returns whether it was there.
    async fn idle(&self, sweep: &Sweep, half: u64) -> Result<bool, Closed> {
        let idle = Claim { phase: IDLE, half, turn: sweep.claim.turn + 1, ..sweep.claim };
        let ended = self.swap(SWEEP, sweep.claim.word(), idle.word()).await?;
        if ended {
            self.forget_window(idle.word(), None);
        }
        Ok(ended)
    }

    /// Ends the claim, and owns what nobody uses.
    async fn end(&self, sweep: Sweep) -> Result<(), Closed> {
        if !self.idle(&sweep, 1 - sweep.claim.half).await? {
            return Ok(());
        }
        // A rest of one word, where a segment has an odd length, is not used.
        let free =
            |at: Addr| !sweep.used[at - sweep.window.0] && !sweep.used[at + 1 - sweep.window.0];
        for at in (sweep.window.0..sweep.window.1).step_by(2).filter(|&at| free(at)) {
            if self.is_owned(at) {
                self.fault("memory with two owners");
            }
            self.client.borrow_mut().space.put(at, 2, 0, false);
            self.run.borrow_mut().reclaimed += 2;
        }
        self.run.borrow_mut().sweeps += 1;
        self.push(KEPT / 2).await
    }
}
