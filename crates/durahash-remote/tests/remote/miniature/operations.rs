//! Put, delete, get and the conditional operations.

use super::client::{CachedEntry, Coroutine, Route, Table};
use super::layout::{A, Addr, CUR_HEAD, Class, Entry, Hint, MAIN_ENTRIES, MAIN_HEAD, State};
use super::rules::Key;
use super::world::{Batch, Closed};

/// Values are different from one another and from 0, which is "nothing".
pub(crate) type Value = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Put(Value),
    Delete,
    InsertIfAbsent(Value),
    CompareAndSet(Value, Value),
    GetAndPut(Value),
}

/// The result of a read.
struct Lookup {
    cur: Addr,
    a: A,
    /// The first free entry and what it holds; nothing when the segment is full.
    free: Option<(usize, u64)>,
    value: Value,
}

impl Coroutine {
    /// Does one operation on a key and returns its answer.
    pub(crate) async fn operate(&self, key: usize, kind: Kind) -> Result<Value, Closed> {
        self.hold();
        let answer = match kind {
            Kind::Get => self.find_value(key).await?.value,
            Kind::Put(value) => self.append(key, Some(value)).await.map(|()| 0)?,
            Kind::Delete => self.append(key, None).await.map(|()| 0)?,
            _ => self.conditional(key, kind).await?,
        };
        self.release();
        Ok(answer)
    }

    /// Appends an entry for this value, or a tombstone.
    async fn append(&self, key: usize, value: Option<Value>) -> Result<(), Closed> {
        let bits = self.setup.keys[key];
        let n = self.setup.entries;
        let mut block = 0;
        let mut waits = 0;
        // A deleted key's block has a value that no operation may return.
        let contents = [key as u64 + 1, value.unwrap_or(u64::MAX)];
        let mut written = false;
        let mut patience = self.patience();
        loop {
            if block == 0 {
                block = if self.setup.sweeps {
                    let Some(block) = self.take_block(&mut waits).await? else { continue };
                    block
                } else {
                    self.allocate(Class::Block).await?
                };
            }
            let cur = self.find(bits).await?;
            let (snapshot, offset) = match self.cached(cur) {
                Some(segment) => (Some(segment.a), segment.offset),
                None => (None, 0),
            };
            let width = (1 + self.random(|r| r.below(n as u64)) as usize).min(n - offset);
            let mut batch = Batch::new();
            let head = batch.read(cur, CUR_HEAD);
            let entries = batch.read(cur + CUR_HEAD + offset, width);
            if !written && self.setup.rules.block_before_swap {
                batch.write(block, &contents);
                written = true;
            }
            let found = self.post(batch).await?;
            let look = self.look(&found[head..]);
            let a = look.a;
            if !self.still(cur, snapshot, a) {
                self.remember(cur, a);
                if offset != 0 && self.setup.rules.offset_belongs_to_a {
                    continue;
                }
            }
            if !self.follow(bits, &look).await? {
                continue;
            }
            let words = &found[entries..entries + width];
            let Some(window) = self.scan(a, offset, words, words) else {
                self.forget(cur);
                continue;
            };
            let Some((mut at, mut old)) = window.free else {
                self.learn(cur, a, |segment| segment.offset = segment.offset.max(offset + width));
                if offset + width == n {
                    if self.setup.sweeps && self.setup.rules.waiting_owns_no_block {
                        self.free(block, Class::Block);
                        (block, written) = (0, false);
                    }
                    self.full(cur, a, &mut patience).await?;
                }
                continue;
            };
            self.learn(cur, a, |segment| segment.offset = segment.offset.max(at));
            // The loser of an entry tries the next of its window at once: that such a swap succeeds
            // proves that all before are live and word A is as it was.
            let mut batch = Batch::new();
            loop {
                let tombstone = value.is_none();
                let swap = self.swap_entry(&mut batch, cur, a, at, old, bits, block, tombstone);
                if !self.setup.rules.block_before_swap {
                    batch.write(block, &contents);
                }
                let done = self.post(batch).await?;
                if done[swap] == old {
                    return self.appended(cur, a, at, bits, tombstone).await;
                }
                if Entry(done[swap]).state(a, self.setup.wrap) != State::Live {
                    self.forget(cur);
                    break;
                }
                at += 1;
                self.learn(cur, a, |segment| segment.offset = segment.offset.max(at));
                match words.get(at - offset) {
                    Some(&next) if Entry(next).state(a, self.setup.wrap) == State::Free => {
                        old = next
                    }
                    _ => break,
                }
                batch = Batch::new();
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all that an entry is made of")]
    fn swap_entry(
        &self,
        batch: &mut Batch,
        cur: Addr,
        a: A,
        at: usize,
        old: u64,
        key: Key,
        block: Addr,
        tombstone: bool,
    ) -> usize {
        let tombstone = tombstone && self.setup.rules.tombstone_in_entry;
        let generation = a.generation() % self.setup.wrap;
        let entry = Entry::new(block, key, tombstone, a.depth(), generation);
        batch.swap(cur + CUR_HEAD + at, old, entry.0, &[block])
    }

    /// After the swap of the entry at `at`: the hint, and the merge if that was the last one.
    async fn appended(
        &self,
        cur: Addr,
        a: A,
        at: usize,
        key: Key,
        tombstone: bool,
    ) -> Result<(), Closed> {
        let n = self.setup.entries;
        let mut batch = Batch::new();
        let flag = tombstone && !self.setup.rules.tombstone_in_entry;
        let hint = Hint::new(key.fp2, flag, a.generation() % self.setup.wrap);
        batch.write(cur + CUR_HEAD + n + at, &[hint.0]);
        self.post_unsignaled(batch)?;
        self.learn(cur, a, |segment| segment.offset = segment.offset.max(at + 1));
        if at + 1 == n {
            self.merge(cur, a).await?;
        }
        Ok(())
    }

    /// The number of looks at a full segment before an operation merges it itself.
    fn patience(&self) -> u64 {
        if self.setup.rules.anyone_merges { self.random(|r| r.below(3)) } else { u64::MAX }
    }

    async fn full(&self, cur: Addr, a: A, patience: &mut u64) -> Result<(), Closed> {
        if *patience == 0 {
            return self.merge(cur, a).await;
        }
        *patience -= 1;
        self.wait().await
    }

    /// Returns whether the key belongs here; otherwise mends the cached directory.
    pub(crate) async fn follow(
        &self,
        key: Key,
        look: &super::client::CurHead,
    ) -> Result<bool, Closed> {
        match self.way(key, look) {
            Route::Here => Ok(true),
            Route::Again => {
                // A pause, or a client that spins would be all that happens.
                self.sleep(1 + self.random(|r| r.below(3))).await?;
                Ok(false)
            }
            Route::Buddy(buddy, depth) => {
                if self.random(|r| r.one_in(3)) {
                    self.client.borrow_mut().directory = None;
                } else {
                    self.redirect(key, buddy, depth + 1);
                }
                if self.random(|r| r.one_in(4)) {
                    self.mend(buddy, key.hash, depth + 1).await?;
                }
                Ok(false)
            }
        }
    }

    async fn conditional(&self, key: usize, kind: Kind) -> Result<Value, Closed> {
        let mut patience = self.patience();
        let mut waits = 0;
        let bits = self.setup.keys[key];
        loop {
            let found = self.find_value(key).await?;
            let (new, answer) = match kind {
                Kind::InsertIfAbsent(new) if found.value == 0 => (new, 1),
                Kind::CompareAndSet(old, new) if found.value == old => (new, 1),
                Kind::GetAndPut(new) => (new, found.value),
                _ => return Ok(0),
            };
            let Some((at, old)) = found.free else {
                self.full(found.cur, found.a, &mut patience).await?;
                continue;
            };
            let block = if self.setup.sweeps {
                let Some(block) = self.take_block(&mut waits).await? else { continue };
                block
            } else {
                self.allocate(Class::Block).await?
            };
            self.post(Batch::of(|b| b.write(block, &[key as u64 + 1, new]))).await?;
            let mut batch = Batch::new();
            let swap = self.swap_entry(&mut batch, found.cur, found.a, at, old, bits, block, false);
            if self.post(batch).await?[swap] == old {
                self.appended(found.cur, found.a, at, bits, false).await?;
                return Ok(answer);
            }
            self.free(block, Class::Block);
            if !self.setup.rules.conditional_starts_over {
                self.append(key, Some(new)).await?;
                return Ok(answer);
            }
        }
    }

    /// Reads the newest value of a key, and everything up to the first free entry.
    async fn find_value(&self, key: usize) -> Result<Lookup, Closed> {
        let bits = self.setup.keys[key];
        loop {
            let cur = self.find(bits).await?;
            let cached = self.cached(cur).and_then(|segment| {
                let table = segment.table.clone()?;
                Some((segment, table))
            });
            let read = match cached {
                Some((segment, table)) => {
                    self.read_warm(cur, bits, segment.a, segment.prefix, &table).await?
                }
                None => self.read_cold(cur, bits).await?,
            };
            let Some((a, free, entries, main)) = read else { continue };
            let value = self.newest(key, &entries, &main).await?;
            return Ok(Lookup { cur, a, free, value });
        }
    }

    /// Everything of a segment, of which nothing is cached.
    async fn read_cold(&self, cur: Addr, key: Key) -> Result<Option<Read>, Closed> {
        let n = self.setup.entries;
        let mut batch = Batch::new();
        let head = batch.read(cur, CUR_HEAD + 2 * n);
        let found = self.post(batch).await?;
        let look = self.look(&found[head..]);
        if !self.follow(key, &look).await? {
            return Ok(None);
        }
        let (entries, hints) = found[head + CUR_HEAD..].split_at(n);
        let Some(window) = self.scan(look.a, 0, entries, hints) else { return Ok(None) };
        let Some((_, main)) = self.read_main(look.a).await? else { return Ok(None) };
        let mut starts = [main.len(); 3];
        for (i, entry) in main.iter().enumerate().rev() {
            for start in &mut starts[..=entry.fp().min(2) as usize] {
                *start = i;
            }
        }
        let table = Table { length: main.len(), starts };
        self.remember(cur, look.a);
        self.learn(cur, look.a, |segment| {
            segment.offset = window.live.len();
            segment.prefix.clone_from(&window.live);
            segment.table = Some(table);
        });
        let main = main.into_iter().filter(|entry| entry.fp() == key.fp).collect();
        Ok(Some((look.a, window.free, window.live, main)))
    }

    /// The whole MainSegment that `a` names: its mark and its entries.
    pub(crate) async fn read_main(&self, a: A) -> Result<Option<(u64, Vec<Entry>)>, Closed> {
        let found = self.post(Batch::of(|b| b.read(a.main(), MAIN_HEAD + MAIN_ENTRIES))).await?;
        Ok(self.main(&found))
    }

    pub(crate) fn main(&self, words: &[u64]) -> Option<(u64, Vec<Entry>)> {
        let length = words[0] as usize;
        if length > MAIN_ENTRIES {
            self.fault("a MainSegment that is none");
            return None;
        }
        let entries = words[MAIN_HEAD..MAIN_HEAD + length].iter().map(|&word| Entry(word));
        Some((words[1], entries.collect()))
    }

    /// Word A, what is new, and the range of the MainSegment for this fp.
    async fn read_warm(
        &self,
        cur: Addr,
        key: Key,
        snapshot: A,
        mut live: Vec<CachedEntry>,
        table: &Table,
    ) -> Result<Option<Read>, Closed> {
        let n = self.setup.entries;
        let rules = self.setup.rules;
        let fp = key.fp as usize;
        // A prediction of the range, off by one where a table of record points would be.
        let (below, above) = self.random(|r| (r.below(3) as usize, r.below(3) as usize));
        let near = |at: usize, off: usize| (at + off).saturating_sub(1).min(table.length);
        let mut from = near(table.starts[fp], below);
        let mut to = near(table.starts[fp + 1], above).max(from);
        let mut width = (self.random(|r| r.below(n as u64 + 1)) as usize).min(n - live.len());

        let mut batch = Batch::new();
        let head = batch.read(cur, CUR_HEAD);
        let entries = batch.read(cur + CUR_HEAD + live.len(), width);
        let hints = batch.read(cur + CUR_HEAD + n + live.len(), width);
        let range = batch.read(snapshot.main() + MAIN_HEAD + from, to - from);
        let found = self.post(batch).await?;
        let look = self.look(&found[head..]);
        let a = look.a;
        if !self.still(cur, Some(snapshot), a) {
            self.forget(cur);
            return Ok(None);
        }
        if !self.follow(key, &look).await? {
            return Ok(None);
        }
        let mut main: Vec<_> = found[range..range + to - from].iter().map(|&w| Entry(w)).collect();

        let (mut entries, mut hints) =
            (found[entries..entries + width].to_vec(), found[hints..hints + width].to_vec());
        let free = loop {
            let Some(window) = self.scan(a, live.len(), &entries, &hints) else {
                self.forget(cur);
                return Ok(None);
            };
            live.extend(&window.live);
            let seen = window.free.is_some() || live.len() >= n;
            if seen || !rules.read_ends_at_free_or_last {
                break window.free;
            }
            width = (1 + self.random(|r| r.below(n as u64)) as usize).min(n - live.len());
            let mut batch = Batch::new();
            batch.read(cur + CUR_HEAD + live.len(), width);
            batch.read(cur + CUR_HEAD + n + live.len(), width);
            entries = self.post(batch).await?;
            hints = entries.split_off(width);
        };
        self.learn(cur, a, |segment| {
            if segment.prefix.len() < live.len() {
                segment.prefix.clone_from(&live);
            }
            segment.offset = segment.offset.max(live.len());
        });

        // The range is whole if on either side another fp, or nothing, follows.
        loop {
            let begins = from == 0 || main.first().is_some_and(|entry| entry.fp() < key.fp);
            let ends = to >= table.length || main.last().is_some_and(|entry| entry.fp() > key.fp);
            if begins && ends || !rules.range_checked_at_both_ends {
                break;
            }
            let mut batch = Batch::new();
            let (low, high) = (usize::from(!begins), usize::from(!ends));
            batch.read(snapshot.main() + MAIN_HEAD + from - low, low);
            batch.read(snapshot.main() + MAIN_HEAD + to, high);
            let more = self.post(batch).await?;
            main.splice(0..0, more[..low].iter().map(|&word| Entry(word)));
            main.extend(more[low..].iter().map(|&word| Entry(word)));
            (from, to) = (from - low, to + high);
        }
        main.retain(|entry| entry.fp() == key.fp);
        Ok(Some((a, free, live, main)))
    }

    /// Reads the blocks of all entries that match, and takes the newest that has the key.
    async fn newest(
        &self,
        key: usize,
        live: &[CachedEntry],
        main: &[Entry],
    ) -> Result<Value, Closed> {
        let bits = self.setup.keys[key];
        let mut matching: Vec<(Entry, bool)> = live
            .iter()
            .rev()
            .filter(|seen| seen.entry.fp() == bits.fp)
            .filter(|seen| seen.fp2.is_none_or(|fp2| fp2 == bits.fp2))
            .map(|seen| (seen.entry, seen.tombstone))
            .collect();
        matching.extend(main.iter().filter(|e| e.fp2() == bits.fp2).map(|&e| (e, false)));
        if matching.is_empty() {
            return Ok(0);
        }
        let mut batch = Batch::new();
        for (entry, _) in &matching {
            batch.read(entry.block(), 2);
        }
        let found = self.post(batch).await?;
        let blocks = found.chunks(2).zip(matching);
        let newest = blocks
            .filter(|(block, _)| block[0] == key as u64 + 1)
            .map(|(block, (_, t))| if t { 0 } else { block[1] });
        Ok(newest.into_iter().next().unwrap_or(0))
    }
}

/// Word A, the first free entry, the live entries, and those of the MainSegment with this fp.
type Read = (A, Option<(usize, u64)>, Vec<CachedEntry>, Vec<Entry>);
