//! Merge, split, and the directory.

use super::client::{CachedEntry, Coroutine};
use super::layout::{
    A, Addr, CELLS, CUR_HEAD, Class, DIRECTORY, Entry, MAIN_ENTRIES, MAIN_HEAD, ROOT, State, buddy,
};
use super::rules::{DEPTH_BITS, MAX_DEPTH};
use super::world::{Batch, Closed};

/// An entry of the frozen inputs of a merge, the newest first.
struct Item {
    seen: CachedEntry,
    /// Its key, where it was read.
    key: Option<usize>,
}

impl Coroutine {
    /// Merges or splits the full segment at `cur`, if word A is still `a`.
    pub(crate) async fn merge(&self, cur: Addr, a: A) -> Result<(), Closed> {
        let (n, rules, depth) = (self.setup.entries, self.setup.rules, a.depth());
        let mut batch = Batch::new();
        let head = batch.read(cur, CUR_HEAD);
        let entries = batch.read(cur + CUR_HEAD, n);
        let hints = batch.read(cur + CUR_HEAD + n, n);
        let main = batch.read(a.main(), MAIN_HEAD + MAIN_ENTRIES);
        let found = self.post(batch).await?;
        let frozen = |&word: &u64| Entry(word).state(a, self.setup.wrap) == State::Live;
        if found[head] != a.0 || !found[entries..entries + n].iter().all(frozen) {
            self.forget(cur);
            return Ok(());
        }
        let Some(window) = self.scan(a, 0, &found[entries..entries + n], &found[hints..hints + n])
        else {
            return Ok(());
        };
        let Some((mark, main)) = self.main(&found[main..]) else { return Ok(()) };

        let generation = (a.generation() + 1) % self.setup.wrap_a;
        let waits = generation.is_multiple_of(self.setup.mark());
        // The epoch that this operation holds may be one behind that of the commit, hence 3, not 2.
        if waits && rules.generation_waits_for_epoch && self.known_epoch() < mark + 3 {
            return self.wait().await;
        }
        let mark = if waits { self.held() } else { mark };

        let mut items: Vec<Item> =
            window.live.iter().rev().map(|&seen| Item { seen, key: None }).collect();
        items.extend(main.iter().map(|&entry| Item {
            seen: CachedEntry { entry, fp2: Some(entry.fp2()), tombstone: false },
            key: None,
        }));
        let last_bit = (depth + 1).is_multiple_of(DEPTH_BITS);
        self.read_keys(&mut items, last_bit && depth < MAX_DEPTH).await?;
        if self.world.borrow().fault.is_some() {
            return Ok(());
        }
        let by_hints = kept(&items, |old, new| {
            old.seen.fp2.is_some() && new.seen.fp2.is_some() && old.key == new.key
        });
        let splits = if rules.split_by_a_alone {
            main.len() as u64 > self.setup.spare
        } else {
            by_hints.len() as u64 > self.setup.spare + 1
        } && depth < MAX_DEPTH;
        let keep = kept(&items, |old, new| {
            let known = old.seen.fp2.is_some() && new.seen.fp2.is_some();
            (known || rules.merge_compares_keys) && old.key == new.key
        });
        let gone: Vec<Addr> = (0..items.len())
            .filter(|i| !keep.contains(i))
            .map(|i| items[i].seen.entry.block())
            .collect();
        let refresh = splits && last_bit && rules.depth_bits_read_again;
        let mut merged: Vec<Entry> = keep
            .iter()
            .map(|&i| {
                let key = items[i].key.map(|key| self.setup.keys[key]);
                let fp2 = key.map_or(items[i].seen.entry.fp2(), |key| key.fp2);
                let fp2 = items[i].seen.fp2.unwrap_or(fp2);
                let entry = items[i].seen.entry.with_fp2(fp2);
                key.filter(|_| refresh).map_or(entry, |k| entry.with_depth_bits(k, depth + 1))
            })
            .collect();
        merged.sort_by_key(|entry| entry.fp());

        let won = if splits {
            let divided = keep.iter().map(|&i| items[i].seen.entry);
            let upper: Vec<Addr> =
                divided.filter(|e| e.depth_bit(depth)).map(Entry::block).collect();
            let (high, low) = merged.into_iter().partition(|e| upper.contains(&e.block()));
            self.split(cur, a, found[head + 1], generation, mark, low, high).await?
        } else {
            let new = self.allocate(Class::Main).await?;
            let mut batch = Batch::new();
            self.write_main(&mut batch, new, mark, &merged);
            self.commit(batch, cur, a, A::new(new, generation, depth)).await?
        };
        self.forget(cur);
        if won {
            self.retire(a.main(), Class::Main);
            for block in gone {
                self.retire(block, Class::Block);
            }
            let mut run = self.run.borrow_mut();
            *(if splits { &mut run.splits } else { &mut run.merges }) += 1;
        }
        Ok(())
    }

    /// Reads the keys of entries that may have one in common, or whose hint is unknown; or of all.
    async fn read_keys(&self, items: &mut [Item], all: bool) -> Result<(), Closed> {
        let needs: Vec<usize> = (0..items.len())
            .filter(|&i| {
                let may_be = |j: usize| i != j && may_share_key(&items[i].seen, &items[j].seen);
                all || items[i].seen.fp2.is_none() || (0..items.len()).any(may_be)
            })
            .collect();
        if needs.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::new();
        for &i in &needs {
            batch.read(items[i].seen.entry.block(), 1);
        }
        let found = self.post(batch).await?;
        for (&i, &word) in needs.iter().zip(&found) {
            if word == 0 || word > self.setup.keys.len() as u64 {
                self.fault("a KV block that is none");
                return Ok(());
            }
            items[i].key = Some(word as usize - 1);
        }
        Ok(())
    }

    fn write_main(&self, batch: &mut Batch, to: Addr, mark: u64, entries: &[Entry]) {
        if entries.len() > MAIN_ENTRIES {
            self.fault("a MainSegment that is too long");
            return;
        }
        let mut words = vec![entries.len() as u64, mark];
        words.extend(entries.iter().map(|entry| entry.0));
        batch.write(to, &words);
    }

    /// Posts `before`, the new MainSegment and all, waits, and swaps word A. The loser frees it.
    async fn commit(&self, mut before: Batch, cur: Addr, a: A, new: A) -> Result<bool, Closed> {
        if self.setup.rules.main_before_commit {
            self.post(before).await?;
            before = Batch::new();
        }
        let swap = before.swap(cur, a.0, new.0, &[new.main()]);
        let won = self.post(before).await?[swap] == a.0;
        if !won {
            self.free(new.main(), Class::Main);
        }
        Ok(won)
    }

    #[expect(clippy::too_many_arguments, reason = "all that a split is decided by")]
    async fn split(
        &self,
        cur: Addr,
        a: A,
        suffix: u64,
        generation: u64,
        mark: u64,
        low: Vec<Entry>,
        high: Vec<Entry>,
    ) -> Result<bool, Closed> {
        let depth = a.depth();
        let (main_low, main_high) =
            (self.allocate(Class::Main).await?, self.allocate(Class::Main).await?);
        let new = self.allocate(Class::Cur).await?;
        let suffix = suffix | 1 << depth;
        let mut words = vec![0; Class::Cur.words(self.setup.entries)];
        words[0] = A::new(main_high, 1, depth + 1).0;
        words[1] = suffix;
        let mut batch = Batch::new();
        self.write_main(&mut batch, main_low, mark, &low);
        self.write_main(&mut batch, main_high, self.held(), &high);
        batch.write(new, &words);
        self.post(batch).await?;

        let mut batch = Batch::new();
        let swap = batch.swap(buddy(cur, depth), 0, new as u64, &[new, main_high]);
        let found = self.post(batch).await?[swap];
        let published = found == 0;
        if published && self.setup.sweeps && self.random(|r| r.one_in(4)) {
            // Dropped here, as a death would end it: what is published stays.
            self.free(main_low, Class::Main);
            return Ok(false);
        }
        let won =
            self.commit(Batch::new(), cur, a, A::new(main_low, generation, depth + 1)).await?;
        if !published || !won && !self.setup.rules.losers_keep_published {
            self.free(new, Class::Cur);
            self.free(main_high, Class::Main);
        }
        if won && self.random(|r| !r.one_in(4)) {
            let adopted = if published { new } else { found as Addr };
            self.mend(adopted, suffix, depth + 1).await?;
        }
        Ok(won)
    }

    /// Mends the directory: `cur` has all keys whose lowest `depth` bits are those of `hash`.
    pub(crate) async fn mend(&self, cur: Addr, hash: u64, depth: u64) -> Result<(), Closed> {
        loop {
            let mut batch = Batch::new();
            let root = batch.read(ROOT, 1);
            let cells = batch.read(DIRECTORY, CELLS);
            let found = self.post(batch).await?;
            let (global, cells) = (found[root], &found[cells..]);
            let half = 1 << global;
            let mut batch = Batch::new();
            if global >= depth {
                let mask = (1 << depth) - 1;
                for cell in (0..half).filter(|&cell| (cell as u64 ^ hash) & mask == 0) {
                    batch.write(DIRECTORY + cell, &[cur as u64]);
                }
                self.post(batch).await?;
                return Ok(());
            }
            batch.write(DIRECTORY + half, &cells[..half]);
            self.post(batch).await?;
            self.post(Batch::of(|b| b.swap(ROOT, global, global + 1, &[]))).await?;
        }
    }
}

fn may_share_key(one: &CachedEntry, other: &CachedEntry) -> bool {
    let fp2_differs = one.fp2.zip(other.fp2).is_some_and(|(one, other)| one != other);
    one.entry.fp() == other.entry.fp() && !fp2_differs
}

/// The newest item of each key, unless it is a tombstone.
fn kept(items: &[Item], same: impl Fn(&Item, &Item) -> bool) -> Vec<usize> {
    (0..items.len())
        .filter(|&i| {
            let newer = &items[..i];
            !items[i].seen.tombstone
                && !newer
                    .iter()
                    .any(|new| may_share_key(&items[i].seen, &new.seen) && same(&items[i], new))
        })
        .collect()
}
