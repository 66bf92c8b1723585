//! The array of a directory on the medium, for designs that keep it there.
//!
//! The word of a unit stands where its hashes begin, and says how far they reach; the next word
//! stands there. The words between them may be anything: lookups use the directory in DRAM
//! (`directory.rs`), so it is never read. Therefore a unit is split by storing the words of all new
//! ones but the lowest, which are not looked at yet, a fence, and then the lowest, which commits; and
//! units are merged by one word, where the lowest of them began.
//!
//! ```text
//! bits 0-5 local depth   6-7 tag   8-45 number of the unit   46-63 check sum
//! ```
//!
//! The root word is the same with the array's first extent and the global depth. It switches between
//! arrays that are written aside.
//!
//! # Readers in other processes
//! They have no directory, and find the unit of a hash `h` by the words alone (`seek`). One unit begins where the hashes
//! with the first bit of `h` do. Where the unit at a place `p` is too deep to cover `h`, another one begins where `h`
//! and `p` part, in the order of all hashes: the next place. So a word is looked at only where a unit begins.
//!
//! | The writer stores | a reader that comes then, before it is counted | counted, before the directory in DRAM says so, and so before the next operation there |
//! |---|---|---|
//! | the words of all new units of a split but the lowest | looks at none of them: they stand inside the old unit | |
//! | the lowest one's word, by which all hashes of the old unit have other units | has read the word before, and the old unit, which is as it was; or the new words, and new units, which say the same | all hashes of the old unit |
//! | the word of a unit that replaces two, or has another tag | the same | all its hashes |
//! | a new array | does not look at it | |
//! | the root word | reads the array before, which is as it was, or the new one | all hashes |
//! | anything, into what was given up: the old units, the old array | is late, and was told | |
//!
//! Why `seek` is right, if the counter of `h` is the same before and behind it: a place that it comes to is where a unit begins
//! at the moment at which the word that led there was read, and until a merge at this place, at the depth at which `h` and the place
//! before part. That unit covers `h`, so its merges count for `h`. So at most one change of a unit that covers `h` has stored
//! meanwhile, and by the table the unit that is found has what both have. Splits and merges that do not
//! cover `h`, at places on the way, leave such a place what it is.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::hash::WordMix;
use durahash_media::{Error, ErrorKind, Medium, Place, Result, bits};

use crate::extendible::directory::{Directory, is_proportionate};
use crate::extendible::extend::{self, MAX_DEPTH};
use crate::extendible::growth::Growth;
use crate::extendible::unit::Unit;

/// Stands for the first hash in the root word's check sum. No unit begins there.
const ROOT_PREFIX: u64 = u64::MAX;

const SUM_SHIFT: u32 = 46;

/// The root word that names the array.
const ROOT: usize = 0;

/// The array in use. Stores to it are made under the directory's lock: shared for a word, exclusively
/// for another array.
pub(crate) struct Array {
    mix: WordMix,
    first: AtomicU64,
}

/// An array that was read and found sound.
pub(crate) struct Sound {
    /// Its first extent.
    pub(crate) first: u64,
    pub(crate) depth: u32,
    /// Every unit, with the first of its hashes.
    pub(crate) units: Vec<(u64, Unit)>,
}

impl Array {
    /// None yet, of a pool with this seed.
    pub(crate) fn new(seed: u64) -> Self {
        Array { mix: WordMix::new(seed), first: AtomicU64::new(0) }
    }

    /// From here on, the array is this one, which was read: counts its units, and makes the directory in
    /// DRAM that names them.
    pub(crate) fn adopt(&self, sound: &Sound, growth: &Growth) -> Result<Directory<u64>> {
        self.first.store(sound.first, Ordering::Release);
        sound.units.iter().for_each(|(_, place)| growth.count(place.depth(), 1));
        let directory = Directory::new(sound.depth, growth)?;
        for (prefix, place) in &sound.units {
            directory.set(*prefix, place.depth(), place.to_word());
        }
        Ok(directory)
    }

    /// Gives back extents of directories that are no part of the array, which has this depth.
    pub(crate) fn release_others<M: Medium>(&self, map: &Place<M>, depth: u32) -> Result<()> {
        let used = self.first()..self.first() + Self::extents(map, depth);
        let mut others = map.directory_extents().into_iter().filter(|i| !used.contains(i));
        others.try_for_each(|extent| map.pool().release_extent(extent))
    }

    /// Its first extent.
    pub(crate) fn first(&self) -> u64 {
        self.first.load(Ordering::Acquire)
    }

    /// How many extents an array of this depth takes.
    pub(crate) fn extents<M: Medium>(map: &Place<M>, depth: u32) -> u64 {
        (8_u64 << depth).div_ceil(map.pool().extent_bytes())
    }

    fn sum(&self, word: u64, prefix: u64) -> u64 {
        self.mix.mix(self.mix.mix(prefix) ^ bits(word, 0, SUM_SHIFT)) >> SUM_SHIFT
    }

    /// The word of the unit at `place` whose hashes begin at `prefix`.
    fn word(&self, place: Unit, prefix: u64) -> u64 {
        let word = place.number() << 8 | u64::from(place.tag()) << 6 | u64::from(place.depth());
        word | self.sum(word, prefix) << SUM_SHIFT
    }

    /// The unit of a word; `None` where it is none.
    fn place(&self, word: u64, prefix: u64) -> Option<Unit> {
        let depth = bits(word, 0, 6) as u32;
        let sound = (1..=MAX_DEPTH).contains(&depth)
            && bits(word, SUM_SHIFT, 64 - SUM_SHIFT) == self.sum(word, prefix);
        sound.then(|| Unit::new(bits(word, 8, 38), depth).with_tag(bits(word, 6, 2) as u8))
    }

    fn offset<M: Medium>(map: &Place<M>, extent: u64) -> u64 {
        extent << map.format().geometry.extent_shift
    }

    /// Strides the array that the root names from unit to unit, in a pool that has room for `segments`
    /// of them, free ones too. `may_be` returns true if there can be a unit at a place, and no other one
    /// that was asked for.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) where the words do not follow each other;
    /// [`Skewed`](ErrorKind::Skewed) where the array is out of all proportion to the segments.
    pub(crate) fn read<M: Medium>(
        &self,
        map: &Place<M>,
        segments: u64,
        mut may_be: impl FnMut(Unit) -> bool,
    ) -> Result<Sound> {
        let array = self.place(map.root(ROOT)?, ROOT_PREFIX);
        let array = array.ok_or_else(|| Error::corrupt("the root of the directory", 256))?;
        let (first, depth) = (array.number(), array.depth());
        if !is_proportionate(depth, segments) {
            return Err(ErrorKind::Skewed { depth }.into());
        }
        let directories: HashSet<u64> = map.directory_extents().into_iter().collect();
        let mut extents = first..first + Self::extents(map, depth);
        if !extents.all(|extent| directories.contains(&extent)) {
            let off = Self::offset(map, first);
            return Err(Error::corrupt("the root names a block that is not a directory", off));
        }
        let words = map.pool().words(Self::offset(map, first), 1 << depth)?;
        let mut units = Vec::new();
        let mut i = 0;
        while i < 1 << depth {
            let prefix = i << (64 - depth);
            let place = self.place(map.pool().medium().load(&words[i as usize]), prefix);
            let sound = place.filter(|place| {
                place.depth() <= depth
                    && extend::prefix(prefix, place.depth()) == prefix
                    && may_be(*place)
            });
            let Some(place) = sound else {
                let off = Self::offset(map, first) + i * 8;
                return Err(Error::corrupt("a directory entry is invalid", off));
            };
            units.push((prefix, place));
            i += 1 << (depth - place.depth());
        }
        Ok(Sound { first, depth, units })
    }

    /// The first hash of the unit that covers `h`, and that, by the words alone, for readers in other processes; `None` where
    /// they lead nowhere. See the module docs.
    pub(crate) fn seek<M: Medium>(&self, map: &Place<M>, h: u64) -> Result<Option<(u64, Unit)>> {
        let pool = map.pool();
        let Some(array) = self.place(map.root(ROOT)?, ROOT_PREFIX) else { return Ok(None) };
        let mut at = extend::prefix(h, 1);
        loop {
            let off = Self::offset(map, array.number()) + extend::index(at, array.depth()) * 8;
            let unit = self.place(pool.medium().load(pool.at(off)?), at);
            let is_one =
                |unit: &Unit| unit.depth() <= array.depth() && extend::covers(at, unit.depth(), at);
            let Some(unit) = unit.filter(is_one) else { return Ok(None) };
            if extend::covers(at, unit.depth(), h) {
                return Ok(Some((at, unit)));
            }
            at = extend::prefix(h, (at ^ h).leading_zeros() + 1);
        }
    }

    /// Stores and flushes the word of a unit; the global depth is `depth`.
    pub(crate) fn store<M: Medium>(
        &self,
        map: &Place<M>,
        depth: u32,
        place: Unit,
        prefix: u64,
    ) -> Result<()> {
        let medium = map.pool().medium();
        let off = Self::offset(map, self.first()) + extend::index(prefix, depth) * 8;
        let word = map.pool().at(off)?;
        map.pool().touch(off);
        medium.store(word, self.word(place, prefix));
        medium.flush(word);
        Ok(())
    }

    /// The same, and fences: readers that see the change need not wait for it, as no key comes or goes by it. From here
    /// on the hashes that begin like `prefix` in `changed` bits have other units, or other places there.
    pub(crate) fn commit<M: Medium>(
        &self,
        map: &Place<M>,
        depth: u32,
        place: Unit,
        (prefix, changed): (u64, u32),
    ) -> Result<()> {
        self.store(map, depth, place, prefix)?;
        map.pool().medium().fence();
        map.pool().medium().changed(prefix, changed);
        Ok(())
    }

    /// Writes the array of a directory of depth `depth` aside and switches the root to it. Returns the
    /// extents of the one before, whose depth was `before`.
    pub(crate) fn write<M: Medium>(
        &self,
        map: &Place<M>,
        (before, depth): (u32, u32),
        entry: &dyn Fn(u64) -> u64,
    ) -> Result<Range<u64>> {
        let medium = map.pool().medium();
        let first = map.take_directory_extents(Self::extents(map, depth))?;
        let words = map.pool().words(Self::offset(map, first), 1 << depth)?;
        let mut i = 0;
        while i < 1 << depth {
            let place = Unit::from_word(entry(i));
            let prefix = i << (64 - depth);
            medium.store(&words[i as usize], self.word(place, prefix));
            i += 1 << (depth - place.depth());
        }
        medium.flush_fresh(words);
        medium.fence();
        map.set_root(ROOT, self.word(Unit::new(first, depth), ROOT_PREFIX))?;
        medium.changed(0, 0);
        let old = self.first.swap(first, Ordering::AcqRel);
        Ok(old..old + Self::extents(map, before))
    }

    /// Makes the directory, and the array with it, at least `depth` deep.
    ///
    /// # Errors
    /// As [`Directory::fit`]; [`Full`](crate::ErrorKind::Full).
    pub(crate) fn deepen<M: Medium>(
        &self,
        map: &Place<M>,
        directory: &Directory<u64>,
        growth: &Growth,
        depth: u32,
    ) -> Result<()> {
        let mut old = 0..0;
        directory.fit(map.pool().medium(), depth, growth, |depth, entry| {
            old = self.write(map, (directory.depth(), depth), entry)?;
            Ok(())
        })?;
        old.try_for_each(|extent| map.pool().release_extent(extent))
    }

    /// Halves both, as [`Directory::shrink`] does.
    ///
    /// # Errors
    /// Never for extents of this pool.
    pub(crate) fn halve_if_sparse<M: Medium>(
        &self,
        map: &Place<M>,
        directory: &Directory<u64>,
        growth: &Growth,
        spare: u32,
    ) -> Result<()> {
        let mut old = 0..0;
        directory.shrink(map.pool().medium(), growth, spare, |depth, entry| {
            old = self.write(map, (directory.depth(), depth), entry)?;
            Ok(())
        });
        old.try_for_each(|extent| map.pool().release_extent(extent))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use durahash_media::{Dram, Format, Geometry, Memory, Pool};

    use super::*;

    #[test]
    fn a_unit_is_found_by_words_where_units_begin() {
        let geometry = Geometry { extent_shift: 12, ..Geometry::default() };
        let format = Format::of_index(2, geometry, 1 << 20);
        let pool = Pool::create(Dram::new(format.max_bytes).unwrap(), &format).unwrap();
        let map: Place<Dram> = Arc::new(pool).into();
        let array = Array::new(format.seed);
        // Depths of units, in the order of their hashes.
        let depths = [3, 4, 4, 2, 2, 5, 5, 4, 3];
        let mut units = Vec::new();
        for (number, depth) in (1..).zip(depths) {
            units.extend(vec![Unit::new(number, depth).to_word(); 1 << (5 - depth)]);
        }
        assert_eq!(units.len(), 32);
        let _ = array.write(&map, (5, 5), &|i| units[i as usize]).unwrap();
        // Words inside of units are anything, and sound ones of others, too.
        for i in (1..32).filter(|i| units[*i] == units[*i - 1]) {
            let word = array.word(Unit::new(77, 5), (i as u64) << 59);
            let off = Array::offset(&map, array.first()) + i as u64 * 8;
            map.pool().medium().store(map.pool().at(off).unwrap(), word);
        }
        for (i, unit) in (0..32).zip(&units) {
            for h in [i << 59, (i << 59) + 7, (i << 59) + (u64::MAX >> 5)] {
                let (prefix, found) = array.seek(&map, h).unwrap().unwrap();
                assert_eq!(found.to_word(), *unit);
                assert!(extend::covers(prefix, found.depth(), h));
            }
        }
    }

    #[test]
    fn words_come_back_and_damage_does_not() {
        let array = Array::new(7);
        for tag in 0..4 {
            let place = Unit::new((1 << 38) - 2, 44).with_tag(tag);
            let word = array.word(place, 1 << 63);
            assert_eq!(array.place(word, 1 << 63), Some(place));
            assert_eq!(array.place(word, 0), None);
            assert!((0..64).all(|bit| array.place(word ^ 1 << bit, 1 << 63).is_none()));
        }
    }
}
