//! Split, merge, doubling and halving. The commit steps are in the [module docs](super).

use std::sync::atomic::Ordering;

use durahash_media::{Medium, Result, wait_lock};

use super::directory::Place;
use super::layout::{BUCKET_BYTES, Link, SLOTS, marker};
use super::write::Held;
use super::{MAX_DEPTH, Reh};
use crate::extend;

impl<M: Medium> Reh<M> {
    /// Splits the bucket that is held, and lets go of it. Nothing is changed where that fails.
    pub(super) fn split(&self, held: Held<'_, M>) -> Result<()> {
        let depth = held.place.depth();
        let new = match self.room_for_split(depth) {
            Ok(new) => new,
            Err(e) => {
                held.release_unchanged();
                return Err(e);
            }
        };
        let medium = self.medium();
        // Nothing leads to the new bucket; a late writer may hold its lock for a moment.
        let upper = Held::lock(self, Place::new(new, depth + 1));
        let place = held.place;
        let (old_bucket, new_bucket) = (self.bucket(place.bucket())?, self.bucket(new)?);
        let prefix = medium.load(&old_bucket.prefix);
        let upper_prefix = extend::buddy(prefix, depth + 1);

        // Step 1: the upper half aside.
        let live = held.meta.live();
        let (mut stays, mut filled) = (live, 0);
        upper.meta.set_live(0);
        for i in durahash_media::probe::BitMask(live) {
            let slot = &old_bucket.slots[i as usize];
            let h = medium.load(&slot.h);
            if extend::covers(upper_prefix, depth + 1, h) {
                let to = &new_bucket.slots[filled as usize];
                medium.store(&to.payload, medium.load(&slot.payload));
                medium.store(&to.h, h);
                upper.meta.add(filled, h);
                filled += 1;
                stays &= !(1 << i);
            }
        }
        for slot in &new_bucket.slots[filled as usize..] {
            medium.store(&slot.h, marker(prefix));
        }
        medium.store(&new_bucket.prefix, upper_prefix);
        medium.store(&new_bucket.link, medium.load(&old_bucket.link) + 1);
        medium.flush_fresh(new_bucket);
        medium.fence();

        // Step 2: the commit.
        medium.store(
            &old_bucket.link,
            Link {
                depth: depth + 1,
                sibling: new,
            }
            .to_word(),
        );
        medium.flush(&old_bucket.link);
        medium.drain();

        self.depths[depth as usize].fetch_sub(1, Ordering::Relaxed);
        self.depths[depth as usize + 1].fetch_add(2, Ordering::Relaxed);
        held.exclude_readers();
        held.meta.set_live(stays);
        self.directory.lock.shared(medium, || {
            self.directory.set(upper_prefix, upper.place);
            self.directory
                .set(prefix, Place::new(place.bucket(), depth + 1));
        });
        self.events.splits.fetch_add(1, Ordering::Relaxed);
        upper.release_changed();
        held.release_changed();
        Ok(())
    }

    /// A bucket for the upper half of one of local depth `depth`, and a directory that can name it.
    fn room_for_split(&self, depth: u32) -> Result<u64> {
        let new = self.take_bucket()?;
        let buckets = self
            .depths
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum();
        match self.directory.double(self.medium(), depth, buckets) {
            Ok(doubled) => {
                self.events
                    .doublings
                    .fetch_add(u64::from(doubled), Ordering::Relaxed);
                Ok(new)
            }
            Err(e) => {
                self.give_bucket(new);
                Err(e)
            }
        }
    }

    pub(super) fn take_bucket(&self) -> Result<u64> {
        let mut free = wait_lock(&self.free, self.medium());
        if let Some(bucket) = free.pop() {
            return Ok(bucket);
        }
        let extent = self.pool.take_unit_extent()?;
        let per_extent = self.pool.extent_bytes() / BUCKET_BYTES;
        let first = extent * per_extent;
        free.extend((first + 1..first + per_extent).rev());
        Ok(first)
    }

    fn give_bucket(&self, bucket: u64) {
        wait_lock(&self.free, self.medium()).push(bucket);
    }

    /// The most live slots of two buddies that are merged: 11 of 15. A lower bound would leave more
    /// space in use after deletions, a higher one would split again soon.
    fn merge_limit(&self) -> u32 {
        self.slots * 11 / SLOTS
    }

    /// Merges the bucket of `h` with its buddy, as often as both are sparse.
    pub(super) fn merge_around(&self, h: u64) -> Result<()> {
        while self.merge_once(h)? {}
        Ok(())
    }

    fn merge_once(&self, h: u64) -> Result<bool> {
        let place = self.directory.find(h);
        let depth = place.depth();
        if depth < 2 {
            return Ok(false);
        }
        let buddy = self
            .directory
            .find(extend::buddy(extend::prefix(h, depth), depth));
        let live = |place: Place| self.meta(place).live().count_ones();
        let mergeable =
            || buddy.depth() == depth && live(place) + live(buddy) <= self.merge_limit();
        if !mergeable() {
            return Ok(false);
        }
        let in_upper = h & extend::span(depth) != 0;
        let (lower, upper) = if in_upper {
            (buddy, place)
        } else {
            (place, buddy)
        };
        let (first, second) = if lower.bucket() < upper.bucket() {
            (lower, upper)
        } else {
            (upper, lower)
        };
        let first = Held::lock(self, first);
        let Some(second) = Held::try_lock(self, second) else {
            first.release_unchanged();
            return Ok(false);
        };
        let h_buddy = h ^ extend::span(depth);
        if !self.still(h, place) || !self.still(h_buddy, buddy) || !mergeable() {
            second.release_unchanged();
            first.release_unchanged();
            return Ok(false);
        }
        let (lower, upper) = if first.place == lower {
            (first, second)
        } else {
            (second, first)
        };
        self.merge(lower, upper)?;
        Ok(true)
    }

    /// Moves everything into the lower of two buddies, and lets go of both.
    fn merge(&self, lower: Held<'_, M>, upper: Held<'_, M>) -> Result<()> {
        let medium = self.medium();
        let depth = lower.place.depth();
        let (to, from) = (
            self.bucket(lower.place.bucket())?,
            self.bucket(upper.place.bucket())?,
        );
        let prefix = medium.load(&to.prefix);
        let upper_prefix = extend::buddy(prefix, depth);

        // Step 1: every free slot of the lower bucket gets a live one of the upper, or is made
        // unable to come back to life when the shorter prefix matches it.
        let lower_live = lower.meta.live();
        let mut rest = durahash_media::probe::BitMask(upper.meta.live());
        let mut moved = [None; SLOTS as usize];
        for (i, slot) in to.slots.iter().enumerate() {
            if lower_live & 1 << i != 0 {
                continue;
            }
            let next = if (i as u32) < self.slots {
                rest.next()
            } else {
                None
            };
            if let Some(j) = next {
                let source = &from.slots[j as usize];
                let h = medium.load(&source.h);
                medium.store(&slot.payload, medium.load(&source.payload));
                medium.store(&slot.h, h);
                medium.flush(slot);
                moved[i] = Some(h);
            } else if extend::covers(upper_prefix, depth, medium.load(&slot.h)) {
                medium.store(&slot.h, marker(prefix));
                medium.flush(slot);
            }
        }
        medium.fence();

        // Step 2: the commit.
        let link = medium.load(&from.link);
        medium.store(&to.link, link - 1);
        medium.flush(&to.link);
        medium.drain();

        self.depths[depth as usize].fetch_sub(2, Ordering::Relaxed);
        self.depths[depth as usize - 1].fetch_add(1, Ordering::Relaxed);
        lower.exclude_readers();
        for (i, h) in moved.iter().enumerate() {
            if let Some(h) = h {
                lower.meta.add(i as u32, *h);
            }
        }
        self.directory.lock.shared(medium, || {
            self.directory
                .set(prefix, Place::new(lower.place.bucket(), depth - 1));
        });
        self.events.merges.fetch_add(1, Ordering::Relaxed);
        let dead = upper.place.bucket();
        upper.release_changed();
        lower.release_changed();
        self.give_bucket(dead);
        self.halve_if_sparse();
        Ok(())
    }

    fn halve_if_sparse(&self) {
        let unused = |depth: u32| self.depths[depth as usize].load(Ordering::Relaxed) == 0;
        let depth = self.directory.depth();
        if depth <= MAX_DEPTH && depth > 2 && unused(depth) && unused(depth - 1) {
            let halved = self.directory.halve(self.medium(), unused);
            self.events
                .halvings
                .fetch_add(u64::from(halved), Ordering::Relaxed);
        }
    }
}
