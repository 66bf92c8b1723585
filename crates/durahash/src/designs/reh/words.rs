//! The array of words on the medium that lets a walk along the siblings begin in the middle.
//!
//! ```text
//! word i of 2^a: the bucket whose hashes begin at i << (64 - a), if one begins there and is known
//! bits 0-31 number of the bucket   32-63 check sum of the place and the number; zero is none
//! root word: bits 0-5 depth a   6-43 first extent   44-63 check sum; zero is no array
//! ```
//!
//! Word 0 is never looked at: another root names the first bucket. The words are right or missing at every moment
//! (REH-7); the order of stores stands in the [module docs](super).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash_media::hash::WordMix;
use durahash_media::{Medium, Place, PmU64, Result, bits};

use super::layout::{BUCKET_BYTES, HINT_ROOT, WORDS_ROOT};
use crate::extendible::extend::{self, MAX_DEPTH};

/// Where the sum of a word begins, and that of the root.
const SUM_SHIFT: u32 = 32;
const ROOT_SUM_SHIFT: u32 = 44;

/// Where the extent stands in the root.
const EXTENT_SHIFT: u32 = 6;

/// Stands for the place of the root in its sum. No bucket begins there.
const ROOT_PLACE: u64 = u64::MAX;

/// Buckets to a word when an array is written, at the least, and its double at the most.
const PER_WORD: u64 = 4;

/// An array takes no more space than this part of the buckets that it is written for.
const SPACE_PART: u64 = 16;

/// The array in use. Its words are stored under the directory's lock, shared; another array exclusively.
pub(super) struct Words {
    mix: WordMix,
    /// Buckets to a word.
    per_word: u64,
    /// Buckets below which there is none.
    least: u64,
    /// Offset of its first word, and its depth in bits 0-5; zero is none.
    place: AtomicU64,
    /// The depth of the one that found no space, to be tried again when another is due.
    refused: AtomicU64,
    /// The hint on the medium.
    hint: AtomicU64,
}

impl Words {
    /// None yet.
    pub(super) fn new<M: Medium>(map: &Place<M>) -> Self {
        let (least, per_word) = match u64::from(map.format().geometry.buckets) {
            0 => {
                let by_space = SPACE_PART * map.pool().extent_bytes() / BUCKET_BYTES;
                (by_space.max(SPACE_PART * PER_WORD), PER_WORD)
            }
            // For tests.
            buckets => (2 * buckets, buckets),
        };
        let [place, refused, hint] = [const { AtomicU64::new(0) }; 3];
        Words { mix: WordMix::new(map.format().seed), per_word, least, place, refused, hint }
    }

    fn sum(&self, place: u64, word: u64, shift: u32) -> u64 {
        self.mix.mix(self.mix.mix(place) ^ bits(word, 0, shift)) >> shift
    }

    /// The array that the root names: offset of its first word, and its depth in bits 0-5; zero is none.
    pub(super) fn named<M: Medium>(&self, map: &Place<M>) -> Result<u64> {
        let root = map.root(WORDS_ROOT)?;
        let (depth, first) = (bits(root, 0, EXTENT_SHIFT), bits(root, EXTENT_SHIFT, 38));
        let is_sound = root >> ROOT_SUM_SHIFT == self.sum(ROOT_PLACE, root, ROOT_SUM_SHIFT)
            && (1..=u64::from(MAX_DEPTH)).contains(&depth);
        Ok(if is_sound { (first * map.pool().extent_bytes()) | depth } else { 0 })
    }

    /// Takes over that array, if it may be relied on; true if there is one.
    pub(super) fn adopt<M: Medium>(&self, map: &Place<M>) -> Result<bool> {
        let array = self.named(map)?;
        if array == 0 || map.pool().may_lack_pages() {
            return Ok(false);
        }
        let depth = bits(array, 0, 6) as u32;
        let first = (array & !0x3f) / map.pool().extent_bytes();
        let extents = map.directory_extents();
        if !(first..first + Self::extents(map, depth)).all(|i| extents.binary_search(&i).is_ok()) {
            return Ok(false);
        }
        self.set_place(map, first, depth);
        self.hint.store(map.root(HINT_ROOT)?, Ordering::Relaxed);
        Ok(true)
    }

    fn set_place<M: Medium>(&self, map: &Place<M>, first: u64, depth: u32) {
        let place = (first * map.pool().extent_bytes()) | u64::from(depth);
        self.place.store(place, Ordering::Release);
    }

    /// How many extents an array of this depth takes.
    fn extents<M: Medium>(map: &Place<M>, depth: u32) -> u64 {
        if depth == 0 { 0 } else { (8_u64 << depth).div_ceil(map.pool().extent_bytes()) }
    }

    /// The extents of the array.
    pub(super) fn own_extents<M: Medium>(&self, map: &Place<M>) -> Range<u64> {
        let place = self.place.load(Ordering::Acquire);
        let first = (place & !0x3f) / map.pool().extent_bytes();
        first..first + Self::extents(map, bits(place, 0, 6) as u32)
    }

    /// The depth of the array; zero is none.
    #[inline]
    pub(super) fn depth(&self) -> u32 {
        bits(self.place.load(Ordering::Acquire), 0, 6) as u32
    }

    /// The word for the hashes from `prefix` on, if the array has one.
    fn word<'a, M: Medium>(&self, map: &'a Place<M>, prefix: u64) -> Option<(u64, &'a PmU64)> {
        let off = word_off(self.place.load(Ordering::Acquire), prefix)?;
        Some((off, map.pool().at(off).ok()?))
    }

    /// The bucket that the word for `prefix` names; `None` where it names none, or has a wrong sum.
    pub(super) fn get<M: Medium>(&self, map: &Place<M>, prefix: u64) -> Option<u64> {
        self.get_of(map, self.place.load(Ordering::Acquire), prefix).ok()?
    }

    /// The same in an array that was [named](Self::named).
    ///
    /// # Errors
    /// [`Corrupt`](durahash_media::ErrorKind::Corrupt) where it is not in the pool.
    pub(super) fn get_of<M: Medium>(
        &self,
        map: &Place<M>,
        array: u64,
        prefix: u64,
    ) -> Result<Option<u64>> {
        let Some(off) = word_off(array, prefix) else { return Ok(None) };
        let word = map.pool().medium().load(map.pool().at(off)?);
        let is_sound = word != 0 && word >> SUM_SHIFT == self.sum(prefix, word, SUM_SHIFT);
        Ok(is_sound.then_some(bits(word, 0, SUM_SHIFT)))
    }

    /// True if the word for `prefix` is neither missing nor that of this bucket.
    pub(super) fn is_wrong<M: Medium>(&self, map: &Place<M>, prefix: u64, bucket: u64) -> bool {
        let word = self.word(map, prefix).map_or(0, |(_, word)| map.pool().medium().load(word));
        word != 0 && word != self.encoded(prefix, bucket)
    }

    fn encoded(&self, prefix: u64, bucket: u64) -> u64 {
        if bucket == 0 { 0 } else { bucket | self.sum(prefix, bucket, SUM_SHIFT) << SUM_SHIFT }
    }

    /// Stores and flushes the word for a bucket that begins at `prefix`, or zero, if the array has one. The caller
    /// holds the directory's lock.
    pub(super) fn set<M: Medium>(&self, map: &Place<M>, prefix: u64, bucket: u64) {
        if let Some((off, word)) = self.word(map, prefix) {
            let medium = map.pool().medium();
            if bucket != 0 || medium.load(word) != 0 {
                map.pool().touch(off);
                medium.store(word, self.encoded(prefix, bucket));
                medium.flush(word);
            }
        }
    }

    /// The depth of the array that is due for so many buckets, if it is another one, and was not tried in vain.
    pub(super) fn due(&self, buckets: u64) -> Option<u32> {
        let have = self.depth();
        let best = if buckets < self.least { 0 } else { (buckets / self.per_word).ilog2() };
        // Longer at once, shorter with reluctance.
        let is_due = best > have || have > best + 1;
        (is_due && self.refused.load(Ordering::Relaxed) != u64::from(best) + 1).then_some(best)
    }

    /// Writes an array of this depth aside and switches the root to it. `begins` says which bucket begins at a
    /// hash, 0 if none does. The caller holds the directory's lock exclusively, and gives the extents of the old array
    /// back afterwards.
    pub(super) fn write<M: Medium>(
        &self,
        map: &Place<M>,
        depth: u32,
        begins: impl Fn(u64) -> u64,
    ) -> Result<Range<u64>> {
        let old = self.own_extents(map);
        if depth == 0 {
            map.set_root(WORDS_ROOT, 0)?;
            self.place.store(0, Ordering::Release);
            return Ok(old);
        }
        let medium = map.pool().medium();
        // Until it is done.
        self.refused.store(u64::from(depth) + 1, Ordering::Relaxed);
        let first = map.take_directory_extents(Self::extents(map, depth))?;
        let words = map.pool().words(first * map.pool().extent_bytes(), 1 << depth)?;
        for (i, word) in (0..).zip(words) {
            let prefix: u64 = i << (64 - depth);
            let bucket = if prefix == 0 { 0 } else { begins(prefix) };
            medium.store(word, self.encoded(prefix, bucket));
        }
        medium.flush_fresh(words);
        medium.fence();
        let root = first << EXTENT_SHIFT | u64::from(depth);
        map.set_root(
            WORDS_ROOT,
            root | self.sum(ROOT_PLACE, root, ROOT_SUM_SHIFT) << ROOT_SUM_SHIFT,
        )?;
        self.set_place(map, first, depth);
        self.refused.store(0, Ordering::Relaxed);
        Ok(old)
    }

    /// The depths of directory and front that were noted for this array.
    pub(super) fn noted(&self) -> (u32, u32) {
        let hint = self.hint.load(Ordering::Relaxed);
        (bits(hint, 8, 8) as u32, bits(hint, 0, 8) as u32)
    }

    /// Notes the depths of directory and front for the next open, if there is an array: it makes the directory as
    /// deep from the start. An older note costs time.
    pub(super) fn note<M: Medium>(&self, map: &Place<M>, (depth, front): (u32, u32)) {
        let hint = u64::from(depth) << 8 | u64::from(front);
        if self.depth() != 0 && self.hint.load(Ordering::Relaxed) != hint {
            self.hint.store(hint, Ordering::Relaxed);
            // It fails for no pool that is open.
            let _ = map.note_root(HINT_ROOT, hint);
        }
    }
}

/// Where the word for `prefix` lies, if an array has one.
fn word_off(array: u64, prefix: u64) -> Option<u64> {
    let depth = bits(array, 0, 6) as u32;
    let has_one = depth != 0 && prefix != 0 && extend::prefix(prefix, depth) == prefix;
    has_one.then(|| (array & !0x3f) + extend::index(prefix, depth) * 8)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use durahash_media::{Dram, Format, Geometry, Memory, Pool};

    use super::*;

    #[test]
    fn words_come_back_and_damage_does_not() {
        let geometry = Geometry { extent_shift: 10, ..Geometry::default() };
        let max_bytes = 1 << 20;
        let format = Format { seed: 7, ..Format::of_index(1, geometry, max_bytes) };
        let pool = Pool::create(Dram::new(max_bytes).unwrap(), &format).unwrap();
        let map: Place<Dram> = Arc::new(pool).into();
        let words = Words::new(&map);
        assert_eq!((words.depth(), words.due(63), words.due(64)), (0, None, Some(4)));
        assert_eq!(words.write(&map, 9, |prefix| prefix >> 55).unwrap(), 0..0);
        assert_eq!(
            (words.due(64), words.due(1 << 11), words.due(1 << 12)),
            (Some(4), None, Some(10))
        );

        // Another open finds it.
        let again = Words::new(&map);
        assert!(again.adopt(&map).unwrap());
        assert_eq!((again.depth(), again.own_extents(&map).count()), (9, 4));
        assert_eq!((again.get(&map, 0), again.get(&map, 1 << 54)), (None, None));
        for i in 1..1 << 9 {
            assert_eq!(again.get(&map, i << 55), Some(i));
            assert!(!again.is_wrong(&map, i << 55, i) && again.is_wrong(&map, i << 55, i + 1));
        }
        let (_, word) = again.word(&map, 5 << 55).unwrap();
        let sound = map.pool().medium().load(word);
        for bit in 0..64 {
            map.pool().medium().store(word, sound ^ 1 << bit);
            assert_eq!(again.get(&map, 5 << 55), None);
            assert!(again.is_wrong(&map, 5 << 55, 0));
        }
        again.set(&map, 5 << 55, 0);
        assert!(again.get(&map, 5 << 55).is_none() && !again.is_wrong(&map, 5 << 55, 7));
        again.set(&map, 5 << 55, 70);
        assert_eq!(again.get(&map, 5 << 55), Some(70));

        // A root that is damaged names none.
        let root = map.root(WORDS_ROOT).unwrap();
        for bit in 0..64 {
            map.set_root(WORDS_ROOT, root ^ 1 << bit).unwrap();
            assert!(!Words::new(&map).adopt(&map).unwrap(), "{bit}");
        }
        assert_eq!(again.write(&map, 0, |_| 0).unwrap().count(), 4);
        assert!(!Words::new(&map).adopt(&map).unwrap() && again.depth() == 0);
    }
}
