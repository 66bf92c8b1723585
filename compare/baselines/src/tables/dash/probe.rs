//! Lookups and inserts in a segment.

use durahash_media::probe::match_byte;
use durahash_media::{Medium, Result};

use super::layout::{Bucket, SLOTS, fingerprint, with_fingerprint};
use super::{At, Dash};

impl<M: Medium> Dash<M> {
    /// Where a key is in a segment, and its value.
    pub(super) fn probe(&self, segment: u64, key: u64) -> Result<Option<(At, u64)>> {
        let home = self.home(key);
        let after = self.after(home);
        for bucket in [home, after] {
            if let Some(found) = self.probe_bucket(segment, bucket, key)? {
                return Ok(Some(found));
            }
        }
        // The overflow words are in the lines that were read.
        let own = self.overflow(self.bucket(segment, home)?);
        let next = self.overflow(self.bucket(segment, after)?);
        if own.others() > 0 {
            for bucket in self.stash() {
                if let Some(found) = self.probe_bucket(segment, bucket, key)? {
                    return Ok(Some(found));
                }
            }
            return Ok(None);
        }
        let like = fingerprint(key);
        for (_, stash) in own.places(like, false).chain(next.places(like, true)) {
            if let Some(found) = self.probe_bucket(segment, self.buckets + stash, key)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn probe_bucket(&self, segment: u64, number: u64, key: u64) -> Result<Option<(At, u64)>> {
        let (bucket, medium) = (self.bucket(segment, number)?, self.medium());
        let live = self.commit(bucket).live();
        let words = [0, 1].map(|i| medium.load(&bucket.fingerprints[i]));
        let like = match_byte(words, fingerprint(key)).0 & live;
        for slot in (0..SLOTS).filter(|slot| like & 1 << slot != 0) {
            let words = &bucket.slots[slot as usize];
            if self.keys.is(self.pool(), medium.load(&words.key), key)? {
                return Ok(Some((At { segment, bucket: number, slot }, medium.load(&words.value))));
            }
        }
        Ok(None)
    }

    /// Inserts a key that is not there; false if there is no room. With `persists`, in the steps by which it survives;
    /// else into a segment that is made durable as a whole.
    pub(super) fn insert_into(
        &self,
        segment: u64,
        key: u64,
        pair: (u64, u64),
        persists: bool,
    ) -> Result<bool> {
        let home = self.home(key);
        let after = self.after(home);
        let count =
            |bucket| -> Result<u32> { Ok(self.commit(self.bucket(segment, bucket)?).count()) };
        let mut chosen = (if count(home)? <= count(after)? { home } else { after }, None);
        if count(chosen.0)? >= self.slots {
            match self.displaced(segment, home, persists)? {
                Some(bucket) => chosen.0 = bucket,
                None => {
                    let mut stash = self.stash();
                    let Some(found) = stash.find(|s| count(*s).is_ok_and(|n| n < self.slots))
                    else {
                        return Ok(false);
                    };
                    chosen = (found, Some(found - self.buckets));
                }
            }
        }
        let (bucket, stash) = chosen;
        let is_of_before = stash.is_none() && bucket != home;
        self.put(segment, bucket, (fingerprint(key), pair), is_of_before, persists)?;
        if let Some(stash) = stash {
            self.note_overflow(segment, key, stash)?;
        }
        Ok(true)
    }

    /// Moves a key from the bucket after `home` to the next one, or from `home` to the one before, if that is the other
    /// bucket of the key and has room. The bucket that has room now.
    fn displaced(&self, segment: u64, home: u64, persists: bool) -> Result<Option<u64>> {
        let after = self.after(home);
        for (from, to, is_of_before) in
            [(after, self.after(after), false), (home, self.before(home), true)]
        {
            let commit = self.commit(self.bucket(segment, from)?);
            let of_before = commit.of_before();
            let movable = if is_of_before { of_before } else { commit.live() & !of_before };
            let room = self.commit(self.bucket(segment, to)?).count() < self.slots;
            let slot = movable.trailing_zeros();
            if movable == 0 || !room || [home, after].contains(&to) {
                continue;
            }
            let bucket = self.bucket(segment, from)?;
            let words = &bucket.slots[slot as usize];
            let pair = (self.medium().load(&words.key), self.medium().load(&words.value));
            let of_slot = self.medium().load(&bucket.fingerprints[slot as usize / 8]);
            let like = (of_slot >> (8 * (slot % 8))) as u8;
            self.put(segment, to, (like, pair), !is_of_before, persists)?;
            self.free(At { segment, bucket: from, slot }, persists)?;
            return Ok(Some(from));
        }
        Ok(None)
    }

    /// Puts a pair into a bucket that has room, with its fingerprint.
    pub(super) fn put(
        &self,
        segment: u64,
        bucket: u64,
        marked: (u8, (u64, u64)),
        is_of_before: bool,
        persists: bool,
    ) -> Result<()> {
        let bucket = self.bucket(segment, bucket)?;
        let slot = self.commit(bucket).live().trailing_ones();
        self.put_at(bucket, slot, marked, is_of_before, persists);
        Ok(())
    }

    /// The same, into a slot that is free.
    pub(super) fn put_at(
        &self,
        bucket: &Bucket,
        slot: u32,
        (like, (key, value)): (u8, (u64, u64)),
        is_of_before: bool,
        persists: bool,
    ) {
        let (medium, words) = (self.medium(), &bucket.slots[slot as usize]);
        medium.store(&words.value, value);
        medium.store(&words.key, key);
        if persists {
            medium.flush(words);
            medium.fence();
        }
        let of_slot = &bucket.fingerprints[slot as usize / 8];
        let fingerprints = with_fingerprint(medium.load(of_slot), slot % 8, like);
        medium.store(of_slot, fingerprints);
        medium.store(&bucket.commit, self.commit(bucket).with(slot, is_of_before).0);
        if persists {
            medium.flush(&bucket.commit);
            medium.drain();
        }
    }

    /// Says in the bucket of a key, or in the one after that, that it is in the stash.
    pub(super) fn note_overflow(&self, segment: u64, key: u64, stash: u64) -> Result<()> {
        let home = self.home(key);
        let own = self.bucket(segment, home)?;
        let next = self.bucket(segment, self.after(home))?;
        let (word, like) = (self.overflow(own), fingerprint(key));
        let (bucket, to) = if let Some(to) = word.with(like, false, stash) {
            (own, to)
        } else if let Some(to) = self.overflow(next).with(like, true, stash) {
            (next, to)
        } else {
            (own, word.with_others(word.others() + 1))
        };
        self.medium().store(&bucket.overflow, to.0);
        Ok(())
    }

    /// Takes that back.
    pub(super) fn forget_overflow(&self, segment: u64, key: u64, stash: u64) -> Result<()> {
        let home = self.home(key);
        let own = self.bucket(segment, home)?;
        let next = self.bucket(segment, self.after(home))?;
        for (bucket, is_of_before) in [(own, false), (next, true)] {
            let word = self.overflow(bucket);
            let mut places = word.places(fingerprint(key), is_of_before);
            if let Some((i, _)) = places.find(|(_, of)| *of == stash) {
                self.medium().store(&bucket.overflow, word.without(i).0);
                return Ok(());
            }
        }
        let word = self.overflow(own);
        let others = word.others().saturating_sub(1);
        self.medium().store(&own.overflow, word.with_others(others).0);
        Ok(())
    }
}
