//! Split and merge. The commit steps are in the [module docs](super).

use durahash_media::probe::BitMask;
use durahash_media::{Error, Medium, PmU64, Pool, Result};

use super::Reh;
use super::layout::{ALL_SLOTS, BUCKET_BYTES, Bucket, Link, SLOTS, marker, slot_for};
use super::planted::{Fault, planted};
use super::write::Guard;
use crate::extendible::extend::{self, MAX_DEPTH};
use crate::extendible::growth::{Merge, merge_all};

/// Closes the pool to writes when it is dropped: the directory in DRAM may name a bucket that is merged away by then,
/// and no array may be written from it.
struct Broken<'a, M: Medium>(&'a Pool<M>);

impl<M: Medium> Drop for Broken<'_, M> {
    fn drop(&mut self) {
        self.0.poison();
    }
}

impl<M: Medium> Reh<M> {
    /// The bucket of `h`, which is held, with its prefix and link. The medium must agree
    /// with the directory: a split or merge on top of damage would spread it to other buckets.
    ///
    /// The next bucket is the same for as long as this one is held: it stays the lower one in all
    /// that happens to it, unless it merges with this one. Where damage hides the next one, nothing splits or merges.
    fn sound(&self, held: &Guard<'_, M>, h: u64) -> Result<(&Bucket, u64, Link)> {
        let medium = self.medium();
        let bucket = self.bucket(held.bucket)?;
        let depth = held.meta.depth();
        let prefix = extend::prefix(h, depth);
        let sibling = match extend::next(prefix, depth) {
            Some(next) => self.find(next)?,
            None => 0,
        };
        let link = Link { depth, sibling };
        if medium.load(&bucket.prefix) == prefix && medium.load(&bucket.link) == link.to_word() {
            Ok((bucket, prefix, link))
        } else {
            let off = held.bucket * BUCKET_BYTES;
            Err(Error::corrupt("a bucket's prefix or link is invalid", off))
        }
    }

    /// Splits the bucket of `h` that is held, and lets go of it. Nothing is changed where that
    /// fails.
    pub(super) fn split(&self, held: Guard<'_, M>, h: u64) -> Result<()> {
        let depth = held.meta.depth();
        // All four lines of it will be read.
        if let Ok(bucket) = self.bucket(held.bucket) {
            self.medium().prefetch(bucket);
        }
        let room = self.sound(&held, h).and_then(|old| {
            let new = self.room_for_split(depth)?;
            Ok((old, new, self.bucket(new)?))
        });
        let ((old_bucket, prefix, link), new, new_bucket) = or_release!(held, room);
        let medium = self.medium();
        // Nothing leads to the new bucket; a late writer may hold its lock for a moment.
        let upper = Guard::lock(self, new);
        let upper_prefix = extend::buddy(prefix, depth + 1);
        for bucket in [new, held.bucket] {
            self.pool.touch(bucket * BUCKET_BYTES);
        }

        // Step 1: the upper half aside. Late readers in other processes do not take its link for that of its prefix.
        medium.store(&new_bucket.link, 0);
        let live = held.meta.live();
        let mut stays = live;
        upper.meta.set_live(0);
        upper.meta.set_depth(depth + 1);
        for i in BitMask(live) {
            let slot = &old_bucket.slots[i as usize];
            let h = medium.load(&slot.h);
            if extend::covers(upper_prefix, depth + 1, h) {
                let to = slot_for(h, self.full & !upper.meta.live());
                medium.store(&new_bucket.slots[to as usize].payload, medium.load(&slot.payload));
                medium.store(&new_bucket.slots[to as usize].h, h);
                upper.meta.add(to, h);
                stays &= !(1 << i);
            }
        }
        for i in BitMask(!upper.meta.live() & ALL_SLOTS) {
            medium.store(&new_bucket.slots[i as usize].h, marker(prefix));
        }
        medium.store(&new_bucket.prefix, upper_prefix);
        let new_link = Link { depth: depth + 1, ..link };
        medium.store(&new_bucket.link, new_link.to_word());
        medium.flush_fresh(new_bucket);
        medium.fence();

        if planted(Fault::WordFirst) {
            self.switch_directory(|| self.words.set(&self.map, upper_prefix, new));
        }
        // Step 2: the commit.
        medium.store(&old_bucket.link, Link { depth: depth + 1, sibling: new }.to_word());
        medium.flush(&old_bucket.link);
        // Readers that see the switch need not wait for it: no key comes or goes by it.
        if !planted(Fault::WordUnfenced) {
            medium.fence();
        }

        self.switch_directory(|| {
            // Not before: a thread that makes another directory may hold its lock for long.
            held.exclude_readers();
            self.count_depths(depth, -1, 2);
            // The new bucket is linked, durably.
            self.words.set(&self.map, upper_prefix, new);
            self.directory.set(upper_prefix, depth + 1, new);
            self.directory.set(prefix, depth + 1, held.bucket);
        });
        held.meta.set_depth(depth + 1);
        held.meta.set_live(stays);
        self.writers.growth.splits.add(1);
        if !planted(Fault::SplitUncounted) {
            self.medium().changed(prefix, depth);
        }
        upper.release_changed();
        held.release_changed();
        self.words.note(&self.map, self.directory.depths());
        self.renew_words();
        Ok(())
    }

    /// Writes the array anew where it is out of proportion to the buckets, all of which are known.
    pub(super) fn renew_words(&self) {
        let due = || self.words.due(self.writers.growth.units());
        let may_be = || self.is_complete() && self.pool.writable().is_ok();
        if !may_be() || due().is_none() {
            return;
        }
        // No bucket comes or goes meanwhile, and no word is stored.
        let old = self.directory.lock.exclusive(self.medium(), || match due() {
            Some(depth) if may_be() => {
                let old = self.words.write(&self.map, depth, |prefix| self.begins_now(prefix));
                self.medium().changed(0, 0);
                old
            }
            _ => Ok(0..0),
        });
        // Without space it is tried again when another depth is due.
        if let Ok(mut old) = old {
            // It fails for no extent of this pool.
            let _ = old.try_for_each(|extent| self.pool.release_extent(extent));
            self.words.note(&self.map, self.directory.depths());
        }
    }

    /// The bucket that begins at a hash, as the directory says; 0 if none does. The caller has its lock exclusively.
    fn begins_now(&self, prefix: u64) -> u64 {
        let [before, here] = [prefix - 1, prefix].map(|h| self.directory.find(h));
        if before == here { 0 } else { here }
    }

    /// Makes words right that damage has made wrong.
    pub(super) fn mend_words(&self) -> Result<()> {
        self.make_all()?;
        let array = self.words.depth();
        self.directory.lock.exclusive(self.medium(), || {
            for prefix in (1..1_u64 << array).map(|i| i << (64 - array)) {
                let bucket = self.begins_now(prefix);
                if self.words.is_wrong(&self.map, prefix, bucket) {
                    self.words.set(&self.map, prefix, bucket);
                }
            }
            self.medium().fence();
        });
        Ok(())
    }

    /// A bucket for the upper half of one of local depth `depth`, and a directory that can name it.
    fn room_for_split(&self, depth: u32) -> Result<u64> {
        let new = self.take_bucket()?;
        let growth = &self.writers.growth;
        let fits = self.directory.fit(self.medium(), depth + 1, growth, |_, _| Ok(()));
        if let Err(e) = fits {
            self.give_bucket(new)?;
            return Err(e);
        }
        Ok(new)
    }

    /// The most live slots of two buddies that are merged: 11 of 15. A lower bound would leave more
    /// space in use after deletions, a higher one would split again soon.
    fn merge_limit(&self) -> u32 {
        self.slots() * 11 / SLOTS
    }

    /// Merges the bucket of `h` with its buddy, as often as both are sparse.
    pub(super) fn merge_around(&self, h: u64) {
        merge_all(self.medium(), || self.merge_once(h));
    }

    fn merge_once(&self, h: u64) -> Merge {
        // A damaged bucket is not merged.
        let Ok(bucket) = self.find(h) else {
            return Merge::NotDue;
        };
        let depth = self.meta(bucket).depth();
        let live = |bucket: u64| self.meta(bucket).live().count_ones();
        // The buddy's line is looked at only if it matters. A bucket that is about to leave the
        // chain may say anything; it is looked at again under its lock.
        if !(2..=MAX_DEPTH).contains(&depth) || live(bucket) > self.merge_limit() {
            return Merge::NotDue;
        }
        let h_buddy = h ^ extend::span(depth);
        let Ok(buddy) = self.find(h_buddy) else {
            return Merge::NotDue;
        };
        if bucket == buddy {
            // Another writer has merged them; the depth above was that before.
            return Merge::Busy;
        }
        let due = || {
            let depths = [bucket, buddy].map(|bucket| self.meta(bucket).depth());
            depths == [depth; 2] && live(bucket) + live(buddy) <= self.merge_limit()
        };
        if !due() {
            return Merge::NotDue;
        }
        let (first, second) = if bucket < buddy { (bucket, buddy) } else { (buddy, bucket) };
        let first = Guard::lock(self, first);
        let Some(second) = Guard::try_lock(self, second) else {
            first.release_unchanged();
            return Merge::Busy;
        };
        let current = self.still(h, bucket) && self.still(h_buddy, buddy);
        if !current || !due() || self.pool.writable().is_err() {
            second.release_unchanged();
            first.release_unchanged();
            return if current { Merge::NotDue } else { Merge::Busy };
        }
        let in_upper = h & extend::span(depth) != 0;
        let lower = if in_upper { buddy } else { bucket };
        let (lower, upper) = if first.bucket == lower { (first, second) } else { (second, first) };
        self.merge(lower, upper, h)
    }

    /// Moves everything into the lower of two buddies, one of which is that of `h`, and lets go of
    /// both.
    fn merge(&self, lower: Guard<'_, M>, upper: Guard<'_, M>, h: u64) -> Merge {
        let medium = self.medium();
        let depth = lower.meta.depth();
        let bit = extend::span(depth);
        let buckets = (self.sound(&lower, h & !bit), self.sound(&upper, h | bit));
        let (Ok((to, prefix, _)), Ok((from, upper_prefix, link))) = buckets else {
            // The removal is done; `check` and the next open report the damage.
            upper.release_unchanged();
            lower.release_unchanged();
            return Merge::NotDue;
        };

        self.pool.touch(lower.bucket * BUCKET_BYTES);
        // Step 1: the upper bucket's live slots into free ones of the lower; the free ones that are
        // left are made unable to come back to life when the shorter prefix matches them.
        let mut free = ALL_SLOTS & !lower.meta.live();
        let mut moved = [None; SLOTS as usize];
        for i in BitMask(upper.meta.live()) {
            let source = &from.slots[i as usize];
            let h = medium.load(&source.h);
            let i = slot_for(h, free & self.full);
            let slot = &to.slots[i as usize];
            medium.store(&slot.payload, medium.load(&source.payload));
            medium.store(&slot.h, h);
            medium.flush(slot);
            moved[i as usize] = Some(h);
            free &= !(1 << i);
        }
        for i in BitMask(free) {
            let slot = &to.slots[i as usize];
            let is_covered = extend::covers(upper_prefix, depth, medium.load(&slot.h));
            if is_covered && !planted(Fault::CopiesKept) {
                medium.store(&slot.h, marker(prefix));
                medium.flush(slot);
            }
        }
        let link = Link { depth: depth - 1, ..link };
        if planted(Fault::LockedLate) {
            self.commit_merge(&to.link, link, upper_prefix);
        }
        // No array that is written from the directory in DRAM names the upper bucket while its word is cleared.
        self.switch_directory(|| {
            let broken = Broken(&self.pool);
            if !planted(Fault::LockedLate) {
                self.commit_merge(&to.link, link, upper_prefix);
            }
            // All of them before the depth changes: a scan takes the depth first, and then whatever
            // is live and within it.
            for (i, h) in moved.iter().enumerate() {
                if let Some(h) = h {
                    lower.meta.add(i as u32, *h);
                }
            }
            self.count_depths(depth - 1, 1, -2);
            self.directory.set(prefix, depth - 1, lower.bucket);
            std::mem::forget(broken);
        });
        lower.meta.set_depth(depth - 1);
        self.writers.growth.merges.add(1);
        let dead = upper.bucket;
        if !planted(Fault::MergeUncounted) {
            self.medium().changed(prefix, depth - 1);
        }
        upper.release_changed();
        lower.release_changed();
        // It fails for no extent of this pool.
        let _ = self.give_bucket(dead);
        let growth = &self.writers.growth;
        let shrink = || self.directory.shrink(self.medium(), growth, 1, |_, _| Ok(()));
        if planted(Fault::HalvedEarly) {
            let most = if growth.is_complete() { 0 } else { growth.bound() };
            growth.expect(0);
            shrink();
            growth.expect(most);
        }
        shrink();
        self.words.note(&self.map, self.directory.depths());
        self.renew_words();
        Merge::Done
    }

    /// Clears the word of the upper bucket, makes this durable with all that was stored before, and links past that
    /// bucket.
    fn commit_merge(&self, to: &PmU64, link: Link, upper_prefix: u64) {
        let medium = self.medium();
        let clear = || self.words.set(&self.map, upper_prefix, 0);
        let faults = [Fault::WordKept, Fault::ClearedUnfenced, Fault::ClearedLate];
        let fault = faults.into_iter().find(|fault| planted(*fault));
        if fault.is_none() {
            clear();
        }
        medium.fence();
        if fault == Some(Fault::ClearedUnfenced) {
            clear();
        }

        // Step 2: the commit.
        medium.store(to, link.to_word());
        medium.flush(to);
        medium.fence();
        if fault == Some(Fault::ClearedLate) {
            clear();
            self.medium().fence();
        }
    }

    /// Runs `f`, which stores directory entries and counts the depths that it makes.
    fn switch_directory(&self, f: impl FnOnce()) {
        self.directory.lock.shared(self.medium(), f);
    }

    /// Adds to the numbers of buckets of depth `depth` and of the next one.
    fn count_depths(&self, depth: u32, here: i64, next: i64) {
        self.writers.growth.count(depth, here);
        self.writers.growth.count(depth + 1, next);
    }
}
