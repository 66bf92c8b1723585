//! Counters by which readers in other processes know that what they read was not changed meanwhile.
//!
//! A reader in another process sees the words of a medium, and none of the locks and versions that the writer's
//! process has in DRAM. For it the writer counts changes, by hashes: the hashes that begin with the same bits have
//! one counter. It is raised *after* the last store of an operation that may change where one of these hashes is
//! found, or what is found, and *before* that operation releases the locks under which it stored.
//!
//! So a reader that finds the same number before and after its loads knows: of all operations on its hash, which
//! exclude one another by those locks, none was finished meanwhile whose stores it may have seen together with those
//! of the next. What it has seen is what one operation, at most, had left when it was interrupted: a state that a
//! kill of the process leaves, and that a design reads anyway. A reader stores nothing. One that dies, or that is
//! stopped, is in nobody's way; nor is a writer that dies in the way of readers, as no counter says that something is
//! under way.
//!
//! The upper half of a counter counts moves: of an entry that goes elsewhere and stays what it is. A walk that gives
//! each entry at a moment of its own asks for these alone.
//!
//! ```text
//! words  0  format of this    1 epoch of the open whose changes are counted, 0 is none
//!        2  maps that were removed from the pool
//!        3  live file of that open: device, inode, time at which it was made; then the place and the bytes
//!           of the log's area, which it has not. Zeros: the words are those of the pool's own file
//!        8  segments of Pea Hash that were replaced, in all maps
//!        9  in `Strict`: the last epoch that has stores, then the last one whose snapshot is on the disk. Zeros in other modes
//!       11  counters: hashes in their order, each as many
//!           behind them notes, for the hashes of each counter: how many were taken, and the last ones
//!           {number, from 1 on (bits 32-63), last bits of the hash (0-31)}
//! ```
//!
//! A counter has many hashes, and what takes long to read would be read in vain again and again while others of them are
//! changed. So changes of the values of a key of a multimap are noted, too, with the hash, behind the counter and before the locks are
//! released. A reader that knows how many notes were taken when it began looks through those that came since, and
//! relies on what it has if all of them are there and none is of its hash.

use std::ptr::NonNull;

use crate::word::PmU64;

/// Words before the counters.
const HEAD_WORDS: usize = 11;
/// The format of these words.
const FORMAT: u64 = u64::from_le_bytes(*b"durachg\x05");
/// What a counter has more after a move. One that has come to its upper half by other changes tells of a move that was none.
const MOVE: u64 = 1 << 32;
/// What names the medium whose words the counters are of.
pub(crate) type Named = [u64; 5];
/// Where that stands.
const NAMED: usize = 3;
/// Where the replaced segments are counted.
const SEGMENTS: usize = 8;
/// Where the epochs of `Strict` stand: that of stores, that which is on the disk.
const STORED: usize = 9;
const DURABLE: usize = 10;
/// Where a file has the epoch.
pub(crate) const EPOCH_OFF: u64 = 8;
/// Counters of a file, as a power of two.
pub(crate) const FILE_SHIFT: u32 = 12;
pub(crate) const FILE_BYTES: u64 = words(FILE_SHIFT) as u64 * 8;
/// Notes that are kept for the hashes of a counter.
const NOTES: usize = 15;

/// Words where there are `1 << shift` counters.
const fn words(shift: u32) -> usize {
    HEAD_WORDS + (1 << shift) * (2 + NOTES)
}

/// Counters of changes. See the module docs in the source.
pub struct Changes {
    words: NonNull<PmU64>,
    shift: u32,
    /// As it was when the words were first looked at.
    named: Named,
    /// What the words lie in.
    _memory: Box<dyn Send + Sync>,
}

// SAFETY: the words are accessed as atomics only, and live as long as `self`.
unsafe impl Send for Changes {}
// SAFETY: as above.
unsafe impl Sync for Changes {}

impl Changes {
    /// Those in words that `memory` keeps.
    ///
    /// # Safety
    /// There are `words(shift)` words, as long as `memory` lives, and they are accessed as atomics only; of a reader they may not be writable, and then it only reads.
    pub(crate) unsafe fn over(
        words: NonNull<PmU64>,
        shift: u32,
        memory: Box<dyn Send + Sync>,
    ) -> Self {
        let mut changes = Changes { words, shift, named: [0; 5], _memory: memory };
        changes.named = changes.named_now();
        changes
    }

    /// `1 << shift` counters on the heap.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn on_heap(shift: u32) -> Self {
        let mut words: Box<[PmU64]> = (0..words(shift)).map(|_| PmU64::new(0)).collect();
        let first = NonNull::from(&mut *words).cast();
        // SAFETY: the words of the box, which stay where they are.
        unsafe { Self::over(first, shift, Box::new(words)) }
    }

    fn words(&self) -> &[PmU64] {
        // SAFETY: the promise of `over`.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), words(self.shift)) }
    }

    /// The counters of the hashes that begin like `h` in `bits` bits.
    #[inline]
    fn counters(&self, h: u64, bits: u32) -> &[PmU64] {
        let count = 1 << self.shift.saturating_sub(bits);
        let first = (h >> (64 - self.shift)) as usize & !(count - 1);
        &self.words()[HEAD_WORDS + first..][..count]
    }

    /// Counts a change of one or more of the hashes that begin like `h` in `bits` bits.
    #[inline]
    pub fn raise(&self, h: u64, bits: u32) {
        self.counters(h, bits).iter().for_each(|counter| {
            counter.fetch_add(1);
        });
    }

    /// The same of a move.
    #[inline]
    pub fn raise_moves(&self, h: u64, bits: u32) {
        self.counters(h, bits).iter().for_each(|counter| {
            counter.fetch_add(MOVE);
        });
    }

    /// How many moves were counted of these hashes: of equal parts of them, in their order, each by itself.
    pub fn moves(&self, h: u64, bits: u32) -> impl Iterator<Item = u64> {
        self.counters(h, bits).iter().map(|counter| counter.load() / MOVE)
    }

    /// A number that is another one after each change of one of these hashes.
    #[inline]
    #[must_use]
    pub fn of(&self, h: u64, bits: u32) -> u64 {
        self.counters(h, bits).iter().fold(0, |sum, counter| sum.wrapping_add(counter.load()))
    }

    /// How many notes were taken of the hashes that have one counter with `h`, and the last ones.
    #[inline]
    fn notes(&self, h: u64) -> (&PmU64, &[PmU64]) {
        let first = (h >> (64 - self.shift)) as usize * (1 + NOTES);
        let notes = &self.words()[HEAD_WORDS + (1 << self.shift) + first..][..1 + NOTES];
        (&notes[0], &notes[1..])
    }

    /// The note of `h` that comes after `before` others.
    #[inline]
    fn note_of(h: u64, before: u64) -> u64 {
        (before + 1) << 32 | h & u64::from(u32::MAX)
    }

    /// Notes a change of the values of `h`.
    #[inline]
    pub fn note(&self, h: u64) {
        let (count, notes) = self.notes(h);
        let before = count.fetch_add(1);
        notes[(before % NOTES as u64) as usize].store(Self::note_of(h, before));
    }

    /// How many notes were taken that may be of `h`.
    #[inline]
    #[must_use]
    pub fn noted(&self, h: u64) -> u64 {
        self.notes(h).0.load()
    }

    /// The same, if none of those behind the first `known` is of `h`; `None` also where that cannot be told.
    #[inline]
    #[must_use]
    pub fn noted_others(&self, h: u64, known: u64) -> Option<u64> {
        let (count, notes) = self.notes(h);
        let count = count.load();
        let is_other = |before: u64| {
            let note = notes[(before % NOTES as u64) as usize].load();
            let of_h = Self::note_of(h, before);
            note >> 32 == of_h >> 32 && note != of_h
        };
        (count.wrapping_sub(known) <= NOTES as u64 && (known..count).all(is_other)).then_some(count)
    }

    /// Counts a segment that was replaced, for readers who look at less of it at once.
    pub fn replace_segment(&self) {
        self.words()[SEGMENTS].fetch_add(1);
    }

    /// A number that is another one after each [segment that was replaced](Self::replace_segment).
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.words()[SEGMENTS].load()
    }

    /// Says that words are about to be stored in this epoch, by a thread in it.
    pub(crate) fn stores_in(&self, epoch: u64) {
        let stored = &self.words()[STORED];
        if stored.load() != epoch {
            stored.store(epoch);
        }
    }

    /// Says that the stores of this epoch, and of all before it, are on the disk.
    pub(crate) fn durable_to(&self, epoch: u64) {
        self.words()[DURABLE].store(epoch);
    }

    /// The last epoch that has stores, where the writer's mode is `Strict`: no store that was seen before is of a later one.
    pub(crate) fn stored(&self) -> u64 {
        self.words()[STORED].load()
    }

    /// True if the stores of this epoch, which was [`stored`](Self::stored), are on the disk; also where that was another writer's,
    /// whose epochs do not go on.
    pub(crate) fn is_durable_to(&self, epoch: u64) -> bool {
        self.words()[DURABLE].load() >= epoch || self.stored() < epoch
    }

    /// True if all stores that were seen before are on the disk.
    pub(crate) fn is_all_durable(&self) -> bool {
        self.is_durable_to(self.stored())
    }

    /// How many maps were removed: the number of one of them may be another map's now.
    pub(crate) fn removed_maps(&self) -> u64 {
        self.words()[2].load()
    }

    pub(crate) fn remove_map(&self) {
        self.words()[2].fetch_add(1);
    }

    /// From here on the changes of this open are counted; 0: of none.
    pub(crate) fn count_for(&self, epoch: u32) {
        let [format, of, ..] = self.words() else { return };
        format.store(FORMAT);
        of.store(epoch.into());
    }

    /// Names the medium whose changes will be counted; those of none are now.
    pub(crate) fn name(&self, named: Named) {
        self.words()[NAMED..].iter().zip(named).for_each(|(word, v)| word.store(v));
    }

    fn named_now(&self) -> Named {
        std::array::from_fn(|i| self.words()[NAMED + i].load())
    }

    /// What a reader is to look at.
    pub(crate) fn named(&self) -> Named {
        self.named
    }

    /// True if the changes of this open are counted, and what a reader looks at is what they are made in.
    pub(crate) fn are_counted_for(&self, epoch: u32) -> bool {
        let words = self.words();
        words[0].load() == FORMAT
            && words[1].load() == u64::from(epoch)
            && self.named_now() == self.named
    }

    /// The epoch of the open whose changes are counted; 0 is none.
    pub(crate) fn counted(&self) -> u64 {
        self.words()[1].load()
    }

    /// True if changes are counted, of what a reader is to look at.
    pub(crate) fn are_as_named(&self) -> bool {
        self.counted() != 0 && self.named_now() == self.named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_for_the_hashes_they_are_of() {
        let changes = Changes::on_heap(4);
        let of = |h: u64, bits| changes.of(h << 60, bits);
        changes.raise(0x3 << 60 | 17, 64);
        assert_eq!([2, 3, 4].map(|h| of(h, 64)), [0, 1, 0]);
        // Hashes that begin with 01: 4 to 7.
        changes.raise(0x6 << 60, 2);
        assert_eq!([3, 4, 7, 8].map(|h| of(h, 4)), [1, 1, 1, 0]);
        assert_eq!([of(0, 1), of(0, 2), of(15, 1), of(9, 0)], [5, 1, 0, 5]);
        // All.
        changes.raise(0, 0);
        assert_eq!((of(15, 64), of(0, 0)), (1, 21));
        changes.raise_moves(0x6 << 60, 64);
        assert_eq!(changes.moves(0x4 << 60, 2).collect::<Vec<_>>(), [0, 0, 1, 0]);
        assert_eq!([of(6, 64), of(0, 0)], [2 + MOVE, 21 + MOVE]);
        changes.raise_moves(0, 0);
        assert_eq!(changes.moves(0, 0).sum::<u64>(), 17);
        let all = of(0, 0);
        assert_eq!(changes.segments(), 0);
        changes.replace_segment();
        assert_eq!((of(0, 0), changes.segments()), (all, 1));
        assert!(!changes.are_counted_for(0));
        changes.count_for(7);
        assert!(changes.are_counted_for(7) && !changes.are_counted_for(8));
        assert!(changes.is_all_durable());
        changes.stores_in(9);
        changes.durable_to(8);
        assert!(!changes.is_all_durable());
        changes.durable_to(9);
        assert!(changes.is_all_durable());
        let seen = changes.stored();
        changes.stores_in(10);
        assert!(changes.is_durable_to(seen) && !changes.is_all_durable(), "a busy writer");
        let seen = changes.stored();
        changes.stores_in(0);
        assert!(changes.is_durable_to(seen), "another writer");
        changes.name([0, 1, 0, 0, 0]);
        assert!(!changes.are_counted_for(7));
    }

    #[test]
    fn notes_tell_changes_of_other_hashes_from_those_of_one() {
        let changes = Changes::on_heap(4);
        let (h, other, elsewhere) = (3 << 60 | 7, 3 << 60 | 8, 4 << 60 | 7);
        assert_eq!(changes.noted_others(h, 0), Some(0));
        for round in 0..3 {
            let known = changes.noted(h);
            (0..NOTES).for_each(|_| changes.note(other));
            changes.note(elsewhere);
            assert_eq!(changes.noted_others(h, known), Some(known + NOTES as u64), "{round}");
            assert_eq!(changes.noted_others(other, known), None);
            changes.note(other);
            assert_eq!(changes.noted_others(h, known), None, "the first is not kept");
            let known = changes.noted(h);
            changes.note(h);
            assert_eq!(changes.noted_others(h, known), None);
            assert_eq!(changes.noted_others(other, known), Some(known + 1));
        }
        // Taken, and not written yet.
        let known = changes.noted(h);
        changes.notes(h).0.fetch_add(1);
        assert_eq!(changes.noted_others(h, known), None);
        assert_eq!(changes.of(h, 64), 0);
    }
}
