//! Replacements of a segment as a whole: split, merge, mending. The commit steps are in the
//! [module docs](super).

use std::sync::atomic::Ordering;

use durahash_media::{Medium, Result, Taken, wait_lock};

use super::check::LOCKS;
use super::image::Image;
use super::records::Record;
use super::{Esh, Unit};
use crate::extendible::extend;
use crate::extendible::growth::{Merge, merge_all};

/// W of all locks of a segment, and the place that was found right under it. Dropped as `Locks` is.
pub(super) struct Whole<'a, M: Medium> {
    esh: &'a Esh<M>,
    pub(super) place: Unit,
    /// How many of the locks are held: all, but while they are taken.
    count: u32,
    released: bool,
}

/// How an attempt to take all locks ended.
enum All<'a, M: Medium> {
    Taken(Whole<'a, M>),
    Busy,
    Stale,
}

impl<'a, M: Medium> Whole<'a, M> {
    /// Takes all locks of the segment at `place`, which the caller checks afterwards; waits for them,
    /// unless it is to `try` only.
    fn lock(esh: &'a Esh<M>, place: Unit, only_try: bool) -> Result<All<'a, M>> {
        let mut whole = Whole { esh, place, count: 0, released: false };
        while whole.count < esh.shape.buckets {
            let taken = esh.bucket(place, whole.count).and_then(|bucket| {
                esh.touch(bucket);
                let lock = esh.lock_of(bucket);
                if only_try {
                    return lock.try_lock(esh.medium());
                }
                lock.lock(esh.medium())
            });
            match taken {
                Ok(Taken::Yes) => whole.count += 1,
                other => {
                    whole.release_unchanged();
                    return other.map(
                        |taken| {
                            if taken == Taken::Stale { All::Stale } else { All::Busy }
                        },
                    );
                }
            }
        }
        Ok(All::Taken(whole))
    }

    fn each(&self, f: impl Fn(durahash_media::EpochLock<'_>)) {
        for number in 0..self.count {
            // Its lock was taken.
            if let Ok(bucket) = self.esh.bucket(self.place, number) {
                f(self.esh.lock_of(bucket));
            }
        }
    }

    /// Stops readers: the directory is about to name something else.
    fn exclude_readers(&self) {
        self.each(|lock| lock.exclude_readers(self.esh.medium()));
    }

    #[track_caller]
    fn release_changed(mut self) {
        while self.count > 0 {
            if let Ok(bucket) = self.esh.bucket(self.place, self.count - 1) {
                self.esh.lock_of(bucket).unlock_changed(self.esh.medium());
            }
            // Not before: a release that breaks off is done again.
            self.count -= 1;
        }
        self.released = true;
    }

    #[track_caller]
    pub(super) fn release_unchanged(mut self) {
        while self.count > 0 {
            if let Ok(bucket) = self.esh.bucket(self.place, self.count - 1) {
                self.esh.lock_of(bucket).unlock_unchanged(self.esh.medium());
            }
            self.count -= 1;
        }
        self.released = true;
    }
}

impl<M: Medium> Drop for Whole<'_, M> {
    fn drop(&mut self) {
        if !self.released {
            // Nothing of the segment was changed, and the directory in DRAM names whole segments.
            self.esh.pool.poison();
            self.each(|lock| lock.unlock_changed(self.esh.medium()));
        }
    }
}

/// A new segment that nothing names yet, and the first of its hashes.
pub(super) struct Fresh {
    pub(super) place: Unit,
    pub(super) prefix: u64,
}

impl<M: Medium> Esh<M> {
    /// Takes all locks of the segment of `h`.
    pub(super) fn hold_whole(&self, h: u64) -> Result<Whole<'_, M>> {
        loop {
            let _on_the_way = self.writers.arrivals.enter();
            let place = self.find(h);
            match Whole::lock(self, place, false)? {
                All::Taken(whole) if self.find(h) == place => return Ok(whole),
                All::Taken(whole) => whole.release_unchanged(),
                All::Busy => {}
                All::Stale => {
                    self.pool.writable()?;
                    self.repair(h, place)?;
                }
            }
        }
    }

    /// How many slots of a segment are live, by the commit words.
    pub(super) fn live_of(&self, place: Unit) -> Result<u64> {
        (0..self.shape.buckets).try_fold(0, |sum, number| {
            Ok(sum + u64::from(self.commit(self.bucket(place, number)?).count()))
        })
    }

    /// The same by the counts in DRAM; the head of a bucket is read where its count is not known.
    fn counted_live(&self, place: Unit) -> Result<u64> {
        (0..self.shape.buckets).try_fold(0, |sum, number| {
            let bucket = self.bucket(place, number)?;
            let count = self.count_of(bucket);
            let live = match count.load(Ordering::Acquire) {
                0 => {
                    let live = self.commit(bucket).count();
                    // A writer knows better.
                    let _ = count.compare_exchange(
                        0,
                        live as u8 + 1,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                    u64::from(live)
                }
                known => u64::from(known) - 1,
            };
            Ok(sum + live)
        })
    }

    /// A writer found no slot free in the segment of `h`, which was at `place`: splits it, unless
    /// there is one by now.
    pub(super) fn make_room(&self, h: u64, place: Unit) -> Result<()> {
        let whole = self.hold_whole(h)?;
        let due = self.pool.writable().and_then(|()| {
            Ok(whole.place == place && self.live_of(place)? >= self.shape.capacity())
        });
        if !or_release!(whole, due) {
            whole.release_unchanged();
            return Ok(());
        }
        or_release!(whole, self.split(&whole, h));
        self.give_up(whole);
        Ok(())
    }

    /// Splits the segment of `h`, unless it has depth `to` already; true if it did.
    pub(super) fn split_once(&self, h: u64, to: u32) -> Result<bool> {
        let whole = self.hold_whole(h)?;
        or_release!(whole, self.pool.writable());
        if whole.place.depth() >= to {
            whole.release_unchanged();
            return Ok(false);
        }
        or_release!(whole, self.split(&whole, h));
        self.give_up(whole);
        Ok(true)
    }

    fn split(&self, whole: &Whole<'_, M>, h: u64) -> Result<()> {
        let medium = self.medium();
        let super::Writers { array, growth, .. } = &self.writers;
        let depth = whole.place.depth() + 1;
        let prefix = extend::prefix(h, depth - 1);
        array.deepen(&self.map, &self.directory, growth, depth)?;

        // The new segments aside. The records are in the order of their hashes.
        let records = self.records(whole.place, prefix, true, &mut Vec::new())?;
        let lost = self.lost(&[whole], &records)?;
        let upper = extend::buddy(prefix, depth);
        let middle = records.partition_point(|record| record.h < upper);
        let (below, above) = records.split_at(middle);
        let lower = self.write_fresh(self.take_segment()?, prefix, depth, below)?;
        let taken = self.take_segment();
        let upper = match taken.and_then(|taken| self.write_fresh(taken, upper, depth, above)) {
            Ok(upper) => upper,
            Err(e) => {
                self.give_segment(lower.place.number())?;
                return Err(e);
            }
        };

        // Their words, the lower last: one fence does for all that comes before it. The directory was
        // not halved meanwhile: this segment is of a depth that keeps it from being.
        self.directory.lock.shared(medium, || -> Result<()> {
            array.store(&self.map, self.directory.depth(), upper.place, upper.prefix)?;
            medium.fence();
            array.commit(&self.map, self.directory.depth(), lower.place, (prefix, depth - 1))?;
            whole.exclude_readers();
            growth.count(depth - 1, -1);
            self.publish(&lower);
            self.publish(&upper);
            Ok(())
        })?;
        growth.splits.add(1);
        self.live_count.add(prefix, -lost);
        Ok(())
    }

    /// Writes a segment that was taken, of these records, and flushes it; the caller fences. Where that
    /// fails, it is given back.
    pub(super) fn write_fresh(
        &self,
        number: u64,
        prefix: u64,
        depth: u32,
        records: &[Record],
    ) -> Result<Fresh> {
        let place = Unit::new(number, depth);
        let words = wait_lock(&self.writers.scratch, self.medium()).pop();
        let image = Image::new(self.shape, records.iter(), words.unwrap_or_default());
        let done = self.write(place, &image);
        wait_lock(&self.writers.scratch, self.medium()).push(image.into_words());
        if let Err(e) = done {
            self.give_segment(number)?;
            return Err(e);
        }
        Ok(Fresh { place, prefix })
    }

    /// The directory in DRAM names a new segment from here on.
    pub(super) fn publish(&self, fresh: &Fresh) {
        self.directory.set(fresh.prefix, fresh.place.depth(), fresh.place.to_word());
        self.writers.growth.count(fresh.place.depth(), 1);
    }

    /// Lets go of a segment that nothing names any more.
    fn give_up(&self, whole: Whole<'_, M>) {
        let number = whole.place.number();
        for bucket in (0..whole.count).filter_map(|b| self.bucket(whole.place, b).ok()) {
            // It fails where there are no addresses, and then the lock was noted when it was taken, or is damaged.
            let _ = self.lock_of(bucket).note_present(self.medium());
        }
        whole.release_changed();
        // It fails for no extent of this pool.
        let _ = self.give_segment(number);
    }

    /// How many slots are live in segments that are to be replaced, and yet found by no lookup: only
    /// damage leaves any. They go with the segment, and were counted.
    fn lost(&self, old: &[&Whole<'_, M>], records: &[Record]) -> Result<i64> {
        let mut live = 0;
        for old in old {
            live += self.live_of(old.place)?;
        }
        Ok(live as i64 - records.len() as i64)
    }

    /// The most slots of two buddies that are merged: three quarters of one. Well below where it would
    /// split again, and well above half of that.
    fn merge_limit(&self) -> u64 {
        self.shape.capacity() * 3 / 4
    }

    /// Merges the segment of `h` with its buddy, as often as both are sparse.
    pub(super) fn merge_around(&self, h: u64) {
        // The removal is done; other operations report damage, and a full medium.
        merge_all(self.medium(), || self.merge_once(h).unwrap_or(Merge::NotDue));
    }

    fn merge_once(&self, h: u64) -> Result<Merge> {
        let on_the_way = self.writers.arrivals.enter();
        let place = self.find(h);
        if place.depth() < 2 {
            return Ok(Merge::NotDue);
        }
        let h_buddy = h ^ extend::span(place.depth());
        let buddy = self.find(h_buddy);
        let limit = self.merge_limit();
        let live = self.counted_live(place)?;
        if buddy.depth() != place.depth()
            || live > limit
            || live + self.counted_live(buddy)? > limit
        {
            return Ok(Merge::NotDue);
        }
        if buddy == place {
            // Another writer has merged them; the depth above was that before.
            return Ok(Merge::Busy);
        }
        let ((first, h_first), (second, h_second)) = if place.number() < buddy.number() {
            ((place, h), (buddy, h_buddy))
        } else {
            ((buddy, h_buddy), (place, h))
        };
        let first = match Whole::lock(self, first, false)? {
            All::Taken(first) => first,
            All::Busy => return Ok(Merge::Busy),
            All::Stale => return self.before_merge(h_first, first),
        };
        let second = match Whole::lock(self, second, true) {
            Ok(All::Taken(second)) => second,
            other => {
                first.release_unchanged();
                return match other? {
                    All::Stale => self.before_merge(h_second, second),
                    _ => Ok(Merge::Busy),
                };
            }
        };
        let current = self.find(h) == place && self.find(h_buddy) == buddy;
        // There, and no other thread can give them up; or else, not before the locks are released.
        let _on_the_way = (!current).then_some(on_the_way);
        let live = self.live_of(place).and_then(|live| Ok(live + self.live_of(buddy)?));
        let done = match live {
            _ if !current => Ok(Merge::Busy),
            Ok(live) if live <= limit && self.pool.writable().is_ok() => {
                self.merge(&first, &second, h)
            }
            Ok(_) => Ok(Merge::NotDue),
            Err(e) => Err(e),
        };
        if matches!(done, Ok(Merge::Done)) {
            self.give_up(second);
            self.give_up(first);
            let super::Writers { array, growth, .. } = &self.writers;
            array.halve_if_sparse(&self.map, &self.directory, growth, 1)?;
        } else {
            second.release_unchanged();
            first.release_unchanged();
        }
        done
    }

    /// Repairs a segment that is to be merged.
    fn before_merge(&self, h: u64, place: Unit) -> Result<Merge> {
        Ok(if self.repair(h, place)? { Merge::Busy } else { Merge::NotDue })
    }

    /// Makes one segment of two buddies, one of which is that of `h`.
    fn merge(&self, one: &Whole<'_, M>, other: &Whole<'_, M>, h: u64) -> Result<Merge> {
        let depth = one.place.depth() - 1;
        let prefix = extend::prefix(h, depth);
        let in_lower = self.find(prefix) == one.place;
        let (lower, upper) = if in_lower { (one, other) } else { (other, one) };
        let mut records = self.records(lower.place, prefix, true, &mut Vec::new())?;
        let upper_prefix = extend::buddy(prefix, depth + 1);
        records.extend(self.records(upper.place, upper_prefix, true, &mut Vec::new())?);
        self.replace(&[lower, upper], (prefix, depth), &records)?;
        self.writers.growth.merges.add(1);
        Ok(Merge::Done)
    }

    /// Puts one new segment of depth `depth`, whose hashes begin at `prefix`, in the place of all that
    /// there are: it is written aside, then its word is the commit.
    fn replace(
        &self,
        old: &[&Whole<'_, M>],
        (prefix, depth): (u64, u32),
        records: &[Record],
    ) -> Result<()> {
        let medium = self.medium();
        let super::Writers { array, growth, .. } = &self.writers;
        let lost = self.lost(old, records)?;
        let fresh = self.write_fresh(self.take_for_merge()?, prefix, depth, records)?;
        medium.fence();
        self.directory.lock.shared(medium, || -> Result<()> {
            array.commit(&self.map, self.directory.depth(), fresh.place, (prefix, depth))?;
            for whole in old {
                whole.exclude_readers();
                growth.count(whole.place.depth(), -1);
            }
            self.publish(&fresh);
            Ok(())
        })?;
        self.live_count.add(prefix, -lost);
        Ok(())
    }

    /// Writes every segment anew whose heads contradict each other, or that has live slots which no
    /// lookup finds.
    pub(super) fn mend_all(&self) -> Result<()> {
        let mut at = Some(0);
        while let Some(from) = at {
            let whole = self.hold_whole(from)?;
            let depth = whole.place.depth();
            let prefix = extend::prefix(from, depth);
            let mended = self.pool.writable().and_then(|()| self.mend_segment(&whole, prefix));
            if or_release!(whole, mended) {
                self.give_up(whole);
            } else {
                whole.release_unchanged();
            }
            at = extend::next(prefix, depth);
        }
        Ok(())
    }

    /// True if there was something to mend.
    fn mend_segment(&self, whole: &Whole<'_, M>, prefix: u64) -> Result<bool> {
        let mut is_sound = true;
        // Its locks are held, and by whom is known.
        let mut report = |invariant, _, _| is_sound &= invariant == LOCKS;
        self.check_segment(prefix, whole.place, &mut report)?;
        if is_sound {
            return Ok(false);
        }
        let records = self.records(whole.place, prefix, true, &mut Vec::new())?;
        self.replace(&[whole], (prefix, whole.place.depth()), &records)?;
        Ok(true)
    }
}
