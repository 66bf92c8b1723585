//! Splits.

use durahash_media::{Medium, Result};

use super::super::directory::Entry;
use super::layout::{HeadWord, State, fingerprint};
use super::{At, Dash};

impl<M: Medium> Dash<M> {
    /// Splits the segment of `h`.
    pub(super) fn split(&mut self, h: u64, segment: Entry) -> Result<()> {
        let depth = segment.depth();
        self.directory.deepen(depth + 1)?;
        let number = self.directory.place().take_unit_extent()?;
        let new = HeadWord { state: State::New, depth: depth + 1, link: None };
        self.clear(number, new)?;
        let splitting = HeadWord { state: State::Splitting, depth, link: Some(number) };
        self.set_head(segment.number(), splitting)?;
        self.move_keys(h, segment.number(), number)?;
        self.segments += 1;
        self.splits += 1;
        Ok(())
    }

    /// Moves the upper half of the hashes of segment `old` to `new`, which is linked from there and is empty, or not
    /// new any more.
    pub(super) fn move_keys(&mut self, h: u64, old: u64, new: u64) -> Result<()> {
        let (from, to) = (self.head(old)?, self.head(new)?);
        let mut leaving = Vec::new();
        self.each_of(old, |at, key, pair| {
            if key >> (63 - from.depth) & 1 == 1 {
                leaving.push((at, key, pair));
            }
        })?;
        if to.state == State::New {
            self.fill(new, to, &leaving)?;
            for number in self.all_buckets() {
                self.medium().flush_fresh(self.bucket(new, number)?);
            }
            self.medium().fence();
            self.set_head(new, HeadWord { state: State::Normal, ..to })?;
        }
        self.directory.split(h, old, from.depth, new)?;
        for (at, ..) in &leaving {
            let bucket = self.bucket(old, at.bucket)?;
            self.medium().store(&bucket.commit, self.commit(bucket).without(at.slot).0);
        }
        for number in self.all_buckets() {
            self.medium().flush(&self.bucket(old, number)?.commit);
        }
        self.medium().fence();
        self.note_stash(old)?;
        self.set_head(old, HeadWord { state: State::Normal, depth: from.depth + 1, ..from })
    }

    /// Puts the keys that leave into the new segment, which is empty.
    fn fill(&self, new: u64, head: HeadWord, leaving: &[(At, u64, (u64, u64))]) -> Result<()> {
        for (_, key, pair) in leaving {
            if !self.insert_into(new, *key, *pair, false)? {
                return self.fill_alike(new, head, leaving);
            }
        }
        Ok(())
    }

    /// The same, each where it stands in the old one.
    fn fill_alike(
        &self,
        new: u64,
        head: HeadWord,
        leaving: &[(At, u64, (u64, u64))],
    ) -> Result<()> {
        self.clear(new, head)?;
        for (at, key, pair) in leaving {
            let is_of_before = at.bucket < self.buckets && at.bucket != self.home(*key);
            let bucket = self.bucket(new, at.bucket)?;
            self.put_at(bucket, at.slot, (fingerprint(*key), *pair), is_of_before, false);
        }
        self.note_stash(new)
    }

    /// Makes the overflow words of a segment from its stash.
    pub(super) fn note_stash(&self, segment: u64) -> Result<()> {
        for number in self.all_buckets() {
            self.medium().store(&self.bucket(segment, number)?.overflow, 0);
        }
        let mut stashed = Vec::new();
        self.each_of(segment, |at, key, _| {
            if at.bucket >= self.buckets {
                stashed.push((key, at.bucket - self.buckets));
            }
        })?;
        stashed.into_iter().try_for_each(|(key, stash)| self.note_overflow(segment, key, stash))
    }
}
