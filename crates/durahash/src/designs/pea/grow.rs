//! Changes of a segment as a whole: transition, split, merge; of both that a new pool has, which become large; and a
//! new array for the directory.
//! The commit steps are in the [module docs](super).

use std::ops::Range;
use std::sync::atomic::Ordering;

use durahash_media::{ErrorKind, Medium, Result, VersionLock, bits, hash, wait_lock};

use super::image::Image;
use super::layout::Head;
use super::planted::{Fault, planted};
use super::strategy::{Shape, Strategy, is_small};
use super::{COUNT, COUNT_BITS, Entry, STASH_LOCK, Segment, Table, Writers};
use crate::extendible::extend;
use crate::extendible::growth::{Merge, merge_all, split_ahead};
use crate::extendible::unit::Unit;

/// W of all locks of a segment, and the place that was found right under it. Dropped as `Locks` is.
pub(super) struct Whole<'a, M: Medium, const MULTI: bool> {
    pea: &'a Table<M, MULTI>,
    pub(super) place: Unit,
    /// How many of the locks are held: all, but while they are taken.
    count: u32,
    released: bool,
}

/// The locks of a segment: those of the main buckets and the stash's.
const LOCKS: u32 = STASH_LOCK + 1;

impl<'a, M: Medium, const MULTI: bool> Whole<'a, M, MULTI> {
    /// Takes all locks of the segment at `place`, which the caller checks afterwards.
    fn lock(pea: &'a Table<M, MULTI>, place: Unit) -> Self {
        let mut whole = Whole { pea, place, count: 0, released: false };
        while whole.count < LOCKS {
            pea.lock(place.number(), whole.count).lock(pea.medium());
            whole.count += 1;
        }
        whole
    }

    /// As [`Whole::lock`], unless another writer holds one of them.
    fn try_lock(pea: &'a Table<M, MULTI>, place: Unit) -> Option<Self> {
        let mut whole = Whole { pea, place, count: 0, released: false };
        while whole.count < LOCKS {
            if !pea.lock(place.number(), whole.count).try_lock(pea.medium()) {
                whole.release_unchanged();
                return None;
            }
            whole.count += 1;
        }
        Some(whole)
    }

    fn each(&self, f: impl Fn(VersionLock<'_>)) {
        (0..self.count).for_each(|i| f(self.pea.lock(self.place.number(), i)));
    }

    /// Stops readers: the directory is about to name something else.
    fn exclude_readers(&self) {
        self.each(|lock| lock.exclude_readers());
    }

    #[track_caller]
    fn release_changed(mut self) {
        self.released = true;
        let medium = self.pea.medium();
        for i in 0..self.count {
            self.pea.lock(self.place.number(), i).unlock_changed(medium);
        }
    }

    #[track_caller]
    pub(super) fn release_unchanged(mut self) {
        self.released = true;
        let medium = self.pea.medium();
        for i in 0..self.count {
            self.pea.lock(self.place.number(), i).unlock_unchanged(medium);
        }
    }
}

impl<M: Medium, const MULTI: bool> Drop for Whole<'_, M, MULTI> {
    fn drop(&mut self) {
        if !self.released {
            // Nothing of the segment was changed, and the directory in DRAM names whole segments.
            self.pea.pool.poison();
            self.each(|lock| lock.unlock_changed(self.pea.medium()));
        }
    }
}

/// A new segment that nothing names yet, and the first of its hashes.
pub(super) struct Fresh {
    place: Unit,
    prefix: u64,
    live: u64,
}

impl<M: Medium, const MULTI: bool> Table<M, MULTI> {
    /// Takes all locks of the segment of `h`.
    pub(super) fn hold_whole(&self, h: u64) -> Whole<'_, M, MULTI> {
        loop {
            let whole = Whole::lock(self, self.find(h));
            if self.find(h) == whole.place {
                return whole;
            }
            whole.release_unchanged();
        }
    }

    /// A writer found no room for `h` in the segment at `place`: changes its strategy or splits it,
    /// unless another writer has done so meanwhile.
    pub(super) fn make_room(&self, h: u64, place: Unit) -> Result<()> {
        let whole = self.hold_whole(h);
        let writable = self.pool.writable();
        if whole.place != place || writable.is_err() {
            whole.release_unchanged();
            return writable;
        }
        if is_small(place) {
            whole.release_unchanged();
            return self.enlarge();
        }
        let next = Strategy::of(place).next().filter(|next| *next <= self.shape().policy.last);
        let done = match next {
            Some(next) => self.change_strategy(&whole, h, next),
            None => self.split(&whole, h),
        };
        or_release!(whole, done);
        whole.release_changed();
        if next.is_none() {
            self.give_up(place)?;
        }
        Ok(())
    }

    /// The body of [`IndexBase::reserve`](crate::index::IndexBase::reserve). A segment of a later strategy is up to
    /// 0.9 full.
    pub(super) fn split_for(&self, entries: u64) -> Result<()> {
        let shape = self.shape();
        if shape.is_small && entries.div_ceil(2) > shape.three_quarters() {
            self.enlarge()?;
        }
        let per_segment = self.merge_limit();
        split_ahead(entries, per_segment, |h, to| {
            let whole = self.hold_whole(h);
            or_release!(whole, self.pool.writable());
            let old = whole.place;
            if old.depth() >= to {
                whole.release_unchanged();
                return Ok(false);
            }
            or_release!(whole, self.split(&whole, h));
            whole.release_changed();
            self.give_up(old)?;
            Ok(true)
        })
    }

    /// Lets go of a segment that nothing durable names any more.
    pub(super) fn give_up(&self, place: Unit) -> Result<()> {
        let mut reserve = wait_lock(&self.writers.reserve, self.medium());
        // A small one may come here after the table has become large.
        if reserve.is_none() && !self.shape().is_small && !is_small(place) {
            *reserve = Some(place.number());
            return Ok(());
        }
        drop(reserve);
        self.release(self.extents(place))
    }

    /// Gives extents back to the pool.
    fn release(&self, mut extents: Range<u64>) -> Result<()> {
        extents.try_for_each(|extent| self.pool.release_extent(extent))
    }

    /// Space for a segment of so many extents in the place of one or two, also if the pool is full.
    fn take_for_merge(&self, extents: u64) -> Result<Segment> {
        let is_large = |_: &mut Segment| extents == self.large.extents;
        let reserve = wait_lock(&self.writers.reserve, self.medium()).take_if(is_large);
        let Some(segment) = reserve else {
            return self.map.take_unit_extents(extents);
        };
        // It may be older than this open.
        (segment..segment + extents).for_each(|extent| self.pool.renew_extent(extent));
        Ok(segment)
    }

    /// One word: no entry is moved.
    fn change_strategy(&self, whole: &Whole<'_, M, MULTI>, h: u64, next: Strategy) -> Result<()> {
        let prefix = extend::prefix(h, whole.place.depth());
        let place = whole.place.with_tag(next.tag());
        self.directory.lock.shared(self.medium(), || {
            self.commit_word(place, (prefix, place.depth()))?;
            self.directory.set(prefix, place.depth(), place.to_word());
            self.count_strategy(whole.place, -1);
            self.count_strategy(place, 1);
            Ok(())
        })
    }

    /// Writes both segments of a small table anew as large ones, unless another writer has done so meanwhile.
    fn enlarge(&self) -> Result<()> {
        let lower = self.hold_whole(0);
        if !is_small(lower.place) {
            lower.release_unchanged();
            return Ok(());
        }
        // A holder of a lock of this one waits for none of the lower.
        let upper = self.hold_whole(1 << 63);
        let small = [&lower, &upper];
        let done = self.pool.writable().and_then(|()| self.write_large(small));
        let old = match done {
            Ok(array) => [self.extents(lower.place), self.extents(upper.place), array],
            Err(e) => {
                upper.release_unchanged();
                lower.release_unchanged();
                return Err(e);
            }
        };
        upper.release_changed();
        lower.release_changed();
        old.into_iter().try_for_each(|extents| self.release(extents))
    }

    /// Switches from these segments to large ones; the extents of the array that is no longer in use.
    fn write_large(&self, small: [&Whole<'_, M, MULTI>; 2]) -> Result<Range<u64>> {
        // Step 1: the new segments aside.
        let mut images = Vec::new();
        for (prefix, whole) in [0, 1 << 63].into_iter().zip(small) {
            let mut image = self.new_image(self.large);
            let mut fits = false;
            for strategy in [self.large.policy.first, Strategy::Stash] {
                if !fits {
                    image.restart(strategy);
                    fits = true;
                    self.each_hash(whole.place, prefix, &mut |_, h, entries| {
                        fits = fits && image.add(h, entries);
                    })?;
                }
            }
            if !fits {
                // Hashes that nobody meets who did not look for them.
                return Err(ErrorKind::Skewed { depth: 1 }.into());
            }
            images.push(image);
        }
        let take = |extents| self.map.take_unit_extents(extents);
        let made = self.write_images(0, 1, images, take)?;

        // Steps 2 and 3: an array that names both, then the root.
        let Writers { array, .. } = &self.writers;
        let switched = self.directory.lock.exclusive(self.medium(), || {
            let depth = self.directory.depth();
            let old = array.write(&self.map, (depth, depth), &|i| {
                made[usize::from(i >> (depth - 1) != 0)].place.to_word()
            })?;
            self.replaced();
            for whole in small {
                whole.exclude_readers();
                self.retire(whole);
            }
            self.sizes.store(self.large.to_word(), Ordering::Release);
            made.iter().for_each(|fresh| self.publish(fresh));
            Ok(old)
        });
        if switched.is_err() {
            made.iter().try_for_each(|fresh| self.release(self.extents(fresh.place)))?;
        }
        switched
    }

    fn split(&self, whole: &Whole<'_, M, MULTI>, h: u64) -> Result<()> {
        let old = whole.place;
        let (depth, bits) = (old.depth(), self.shape().policy.split_bits);
        let prefix = extend::prefix(h, depth);
        let Writers { array, growth, .. } = &self.writers;
        array.deepen(&self.map, &self.directory, growth, depth + bits)?;

        // Step 1: the new segments aside.
        let mut images = Vec::new();
        for _ in 0..1 << bits {
            images.push(self.new_image(self.shape()));
        }
        self.distribute(old, prefix, bits, &mut images)?;
        let take = |extents| self.map.take_unit_extents(extents);
        let made = self.write_images(prefix, depth + bits, images, take)?;

        // Steps 2 and 3: their words, the lowest last. The directory was not halved meanwhile: this
        // segment is of a depth that keeps it from being.
        let done = self.directory.lock.shared(self.medium(), || self.commit_split(whole, &made));
        if done.is_ok() {
            self.writers.growth.splits.add(1);
        }
        done
    }

    /// Spreads the entries of a segment over those that take its place.
    fn distribute(&self, old: Unit, prefix: u64, bits: u32, to: &mut [Image<MULTI>]) -> Result<()> {
        let child = |h: u64| hash::prefix(h << old.depth(), bits) as usize;
        let mut fits = vec![true; to.len()];
        self.each_hash(old, prefix, &mut |_, h, entries| {
            let child = child(h);
            fits[child] &= to[child].add(h, entries);
        })?;
        for (i, _) in fits.iter().enumerate().filter(|(_, fits)| !**fits) {
            to[i].restart(Strategy::of(old));
            self.each_hash(old, prefix, &mut |bucket, h, entries| {
                if child(h) == i {
                    let added = to[i].add_to(bucket, h, entries);
                    assert!(added, "a part of what was in a bucket fits one");
                }
            })?;
        }
        Ok(())
    }

    /// Calls `f` with every hash of a segment that is held, its bucket, and its entries: one in a map.
    pub(super) fn each_hash(
        &self,
        place: Unit,
        prefix: u64,
        f: &mut dyn FnMut(u32, u64, &[Entry]),
    ) -> Result<()> {
        let mut all: Vec<(u64, Entry)> = Vec::new();
        for bucket in 0..self.shape().buckets() {
            if !MULTI {
                self.each_in(place, prefix, bucket, &mut |h, entry| f(bucket, h, &[entry]))?;
                continue;
            }
            all.clear();
            self.each_in(place, prefix, bucket, &mut |h, entry| all.push((h, entry)))?;
            all.sort_by_key(|(h, _)| *h);
            for of_one in all.chunk_by(|a, b| a.0 == b.0) {
                let entries: Vec<Entry> = of_one.iter().map(|(_, entry)| *entry).collect();
                f(bucket, of_one[0].0, &entries);
            }
        }
        Ok(())
    }

    pub(super) fn new_image(&self, shape: Shape) -> Image<MULTI> {
        let words = wait_lock(&self.writers.scratch, self.medium()).pop();
        Image::new(shape, words.unwrap_or_default())
    }

    /// Writes new segments, which share the range of hashes from `prefix` on and for which `take` brings the extents,
    /// and fences. Nothing is taken where that fails.
    pub(super) fn write_images(
        &self,
        prefix: u64,
        depth: u32,
        images: Vec<Image<MULTI>>,
        take: impl Fn(u64) -> Result<Segment>,
    ) -> Result<Vec<Fresh>> {
        let mut made = Vec::with_capacity(images.len());
        let mut at = prefix;
        let mut done = Ok(());
        for image in images {
            if done.is_ok() {
                done = take(image.extents()).and_then(|segment| {
                    let place = Unit::new(segment, depth).with_tag(image.tag());
                    made.push(Fresh { place, prefix: at, live: image.live });
                    self.rows.cover((segment + 1) * 2)?;
                    self.write(segment, &image)
                });
            }
            at = at.wrapping_add(extend::span(depth));
            wait_lock(&self.writers.scratch, self.medium()).push(image.into_words());
        }
        if let Err(e) = done {
            for fresh in made {
                self.give_up(fresh.place)?;
            }
            return Err(e);
        }
        self.medium().fence();
        Ok(made)
    }

    fn commit_split(&self, whole: &Whole<'_, M, MULTI>, made: &[Fresh]) -> Result<()> {
        let medium = self.medium();
        let Some((lowest, others)) = made.split_first() else {
            return Ok(());
        };
        for fresh in others {
            self.store_word(fresh.place, fresh.prefix)?;
        }
        medium.fence();
        self.commit_word(lowest.place, (lowest.prefix, whole.place.depth()))?;
        whole.exclude_readers();
        self.retire(whole);
        for fresh in made {
            self.publish(fresh);
        }
        Ok(())
    }

    /// The directory in DRAM names a new segment from here on.
    pub(super) fn publish(&self, fresh: &Fresh) {
        self.set_count(fresh.place.number(), fresh.live);
        self.directory.set(fresh.prefix, fresh.place.depth(), fresh.place.to_word());
        self.writers.growth.count(fresh.place.depth(), 1);
        self.count_strategy(fresh.place, 1);
        self.writers.started[usize::from(Strategy::of(fresh.place).tag())].add(1);
    }

    /// The directory in DRAM is about to name something else instead of this segment.
    fn retire(&self, whole: &Whole<'_, M, MULTI>) {
        self.writers.growth.count(whole.place.depth(), -1);
        self.count_strategy(whole.place, -1);
        self.word(whole.place.number(), COUNT).store(0, Ordering::Release);
    }

    pub(super) fn count_strategy(&self, place: Unit, by: i64) {
        let of_strategy = &self.writers.in_force[usize::from(Strategy::of(place).tag())];
        of_strategy.fetch_add(by as u64, Ordering::Relaxed);
    }

    /// Stores and flushes a segment's word in the array. The caller holds the directory's lock.
    fn store_word(&self, place: Unit, prefix: u64) -> Result<()> {
        self.writers.array.store(&self.map, self.directory.depth(), place, prefix)
    }

    /// The same, and fences; the hashes that begin like the first of them in so many bits are placed anew.
    fn commit_word(&self, place: Unit, changed: (u64, u32)) -> Result<()> {
        if planted(Fault::SegmentUncounted) {
            return self.store_word(place, changed.0);
        }
        self.writers.array.commit(&self.map, self.directory.depth(), place, changed)?;
        self.replaced();
        Ok(())
    }

    /// Counts another segment, or another strategy of one, for walks of readers in other processes (`onlooker.rs`).
    fn replaced(&self) {
        if let Some(changes) = self.medium().changes() {
            changes.replace_segment();
        }
    }

    /// The most entries of two buddies that are merged: three quarters of the main buckets of one.
    /// Well below where it would split again, and well above half of that.
    fn merge_limit(&self) -> u64 {
        self.large.three_quarters()
    }

    /// How many entries more or fewer make another try of a merge worth it that found no room for the
    /// entries of one hash in one bucket: so few tries that removals do not feel them.
    fn merge_step(&self) -> u64 {
        (self.merge_limit() / 64).max(1)
    }

    /// True if two buddies, the first of which this is, could not be merged when they had about as
    /// many entries.
    fn had_no_room(&self, first: Segment, live: u64) -> bool {
        let then = self.word(first, COUNT).load(Ordering::Relaxed) >> COUNT_BITS;
        then != 0 && live.abs_diff(then) < self.merge_step()
    }

    /// Remembers that they could not be merged. All their locks are held.
    fn set_no_room(&self, first: Segment, live: u64) {
        let word = self.word(first, COUNT);
        let count = bits(word.load(Ordering::Relaxed), 0, COUNT_BITS);
        word.store(live << COUNT_BITS | count, Ordering::Release);
    }

    /// Merges the segment of `h` with its buddy, as often as both are sparse.
    pub(super) fn merge_around(&self, h: u64) {
        // The removal is done; other operations report damage, and a full medium.
        merge_all(self.medium(), || self.merge_once(h).unwrap_or(Merge::NotDue));
    }

    fn merge_once(&self, h: u64) -> Result<Merge> {
        let (place, live) = self.live_around(h)?;
        if place.depth() < 2 || live > self.merge_limit() {
            return Ok(Merge::NotDue);
        }
        let h_buddy = h ^ extend::span(place.depth());
        let (buddy, more) = self.live_around(h_buddy)?;
        if buddy.depth() != place.depth() || live + more > self.merge_limit() {
            return Ok(Merge::NotDue);
        }
        let (first, second) =
            if place.number() < buddy.number() { (place, buddy) } else { (buddy, place) };
        if self.had_no_room(first.number(), live + more) {
            return Ok(Merge::NotDue);
        }
        let first = Whole::lock(self, first);
        let Some(second) = Whole::try_lock(self, second) else {
            first.release_unchanged();
            return Ok(Merge::Busy);
        };
        let current = self.find(h) == place && self.find(h_buddy) == buddy;
        let done = if !current {
            Ok(Merge::Busy)
        } else if self.pool.writable().is_err() {
            Ok(Merge::NotDue)
        } else {
            self.merge(&first, &second, h, live + more)
        };
        if matches!(done, Ok(Merge::Done)) {
            let dead = [first.place, second.place];
            second.release_changed();
            first.release_changed();
            for place in dead {
                self.give_up(place)?;
            }
            // A split in four that is under way needs two depths.
            let (Writers { array, growth, .. }, spare) =
                (&self.writers, self.shape().policy.split_bits);
            array.halve_if_sparse(&self.map, &self.directory, growth, spare)?;
        } else {
            second.release_unchanged();
            first.release_unchanged();
        }
        done
    }

    /// Makes one segment of two buddies, one of which is that of `h`, and which had `live` entries a
    /// moment ago.
    fn merge(
        &self,
        one: &Whole<'_, M, MULTI>,
        other: &Whole<'_, M, MULTI>,
        h: u64,
        live: u64,
    ) -> Result<Merge> {
        let depth = one.place.depth();
        let prefix = extend::prefix(h, depth - 1);
        let in_lower = self.find(prefix) == one.place;
        let (lower, upper) = if in_lower { (one, other) } else { (other, one) };

        // Step 1: the new segment aside.
        let mut image = self.new_image(self.shape());
        let mut fits = true;
        for (whole, prefix) in [(lower, prefix), (upper, extend::buddy(prefix, depth))] {
            self.each_hash(whole.place, prefix, &mut |_, h, entries| {
                fits = fits && image.add(h, entries);
            })?;
        }
        if !fits || image.live > self.merge_limit() {
            wait_lock(&self.writers.scratch, self.medium()).push(image.into_words());
            self.set_no_room(one.place.number(), live);
            return Ok(Merge::NotDue);
        }
        self.replace(&[lower, upper], (prefix, depth - 1), image)?;
        self.writers.growth.merges.add(1);
        Ok(Merge::Done)
    }

    /// Puts one new segment of depth `depth`, whose hashes begin at `prefix`, in the place of all that
    /// there are: it is written aside, then its word is the commit.
    fn replace(
        &self,
        old: &[&Whole<'_, M, MULTI>],
        (prefix, depth): (u64, u32),
        image: Image<MULTI>,
    ) -> Result<()> {
        let take = |extents| self.take_for_merge(extents);
        let made = self.write_images(prefix, depth, vec![image], take)?;
        self.directory.lock.shared(self.medium(), || {
            for fresh in &made {
                self.commit_word(fresh.place, (fresh.prefix, depth))?;
                for whole in old {
                    whole.exclude_readers();
                    self.retire(whole);
                }
                self.publish(fresh);
            }
            Ok(())
        })
    }

    /// True if an end bit keeps lookups of `h` from this bucket (PEA-10).
    pub(super) fn is_cut_off(&self, segment: Segment, bucket: u32, h: u64) -> Result<bool> {
        for before in self.shape().homes(h).before(bucket) {
            if self.head(self.bucket(segment, before)?).0[0] & Head::<MULTI>::END != 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes every segment anew that has live slots which no lookup finds, or heads that are gone.
    pub(super) fn mend_all(&self) -> Result<()> {
        let mut at = Some(0);
        while let Some(from) = at {
            let whole = self.hold_whole(from);
            let depth = whole.place.depth();
            let prefix = extend::prefix(from, depth);
            let mended = self.mend_segment(&whole, prefix);
            if or_release!(whole, mended) {
                let dead = whole.place;
                whole.release_changed();
                self.give_up(dead)?;
            } else {
                whole.release_unchanged();
            }
            at = extend::next(prefix, depth);
        }
        Ok(())
    }

    /// True if there was something to mend.
    fn mend_segment(&self, whole: &Whole<'_, M, MULTI>, prefix: u64) -> Result<bool> {
        let segment = whole.place.number();
        let (mut found, mut cut_off) = (0, Ok(false));
        self.each_hash(whole.place, prefix, &mut |number, h, entries| {
            found += entries.len() as u64;
            if let Ok(false) = cut_off {
                cut_off = self.is_cut_off(segment, number, h);
            }
        })?;
        let is_gone = |number| Ok(self.head(self.bucket(segment, number)?).is_gone());
        let gone: Result<Vec<bool>> = (0..self.shape().buckets()).map(is_gone).collect();
        if found == self.count(segment)? && !cut_off? && !gone?.contains(&true) {
            return Ok(false);
        }
        self.pool.writable()?;
        let mut images = vec![self.new_image(self.shape())];
        self.distribute(whole.place, prefix, 0, &mut images)?;
        for image in images {
            self.replace(&[whole], (prefix, whole.place.depth()), image)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use durahash_media::hash::WordMix;
    use durahash_media::{Dram, Format, Geometry, Pool};

    use super::super::Pea;
    use super::super::strategy::{Policy, SMALL};
    use super::*;
    use crate::index::{Change, Index, Room};

    #[test]
    fn a_small_segment_is_not_kept_for_a_merge() {
        let geometry = Geometry { extent_shift: 12, buckets: 8, ..Geometry::default() };
        let format = Format::of_index(2, geometry, 1 << 20);
        let pool = Pool::create(Dram::new(format.max_bytes).unwrap(), &format).unwrap();
        let pea = Pea::create(Arc::new(pool), Policy::default()).unwrap();
        assert!(pea.shape().is_small);
        let mix = WordMix::new(1);
        let mut keys = (0..).map(|i| mix.mix(i));
        while pea.shape().is_small {
            let h = keys.next().unwrap();
            pea.update(h, Room::ForNew, &mut |_| Ok(Change::Set(1))).unwrap();
        }
        *pea.writers.reserve.lock().unwrap() = None;
        let small = pea.map.take_unit_extent().unwrap();
        pea.give_up(Unit::new(small, 1).with_tag(SMALL)).unwrap();
        assert_eq!(*pea.writers.reserve.lock().unwrap(), None);
        assert!(!pea.map.unit_extents().contains(&small));
    }
}
