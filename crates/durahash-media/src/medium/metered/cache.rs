//! A set-associative cache of numbers, of lines or blocks, that evicts what was used longest ago.

/// Bits of marks beside each number.
const MARK_BITS: u32 = 5;
const MARKS: u64 = (1 << MARK_BITS) - 1;

/// In each set the latest used come first. An entry is a number plus one, above its marks; 0 is none.
pub(super) struct Cache {
    ways: usize,
    sets: u64,
    entries: Vec<u64>,
}

impl Cache {
    /// Room for `entries` numbers, rounded down to whole sets of `ways`, one set at least.
    pub(super) fn new(entries: u64, ways: usize) -> Self {
        let sets = (entries / ways as u64).max(1);
        Cache { ways, sets, entries: vec![0; sets as usize * ways] }
    }

    fn set(&mut self, number: u64) -> &mut [u64] {
        // A division takes as long as all the rest.
        let set =
            if self.sets.is_power_of_two() { number & (self.sets - 1) } else { number % self.sets };
        let from = set as usize * self.ways;
        &mut self.entries[from..from + self.ways]
    }

    /// Where in its set the number is.
    fn place(set: &[u64], number: u64) -> Option<usize> {
        set.iter().position(|entry| entry >> MARK_BITS == number + 1)
    }

    /// True if the number is there, which is now the latest used and has `marks` beside those that it had. Those.
    pub(super) fn touch(&mut self, number: u64, marks: u64) -> Option<u64> {
        let set = self.set(number);
        let at = Self::place(set, number)?;
        let entry = set[at];
        set.copy_within(..at, 1);
        set[0] = entry | marks;
        Some(entry & MARKS)
    }

    /// Inserts a number that is not there. The one that had to go, with its marks.
    pub(super) fn insert(&mut self, number: u64, marks: u64) -> Option<(u64, u64)> {
        let set = self.set(number);
        let last = set.len() - 1;
        let gone = set[last];
        set.copy_within(..last, 1);
        set[0] = (number + 1) << MARK_BITS | marks;
        (gone != 0).then(|| ((gone >> MARK_BITS) - 1, gone & MARKS))
    }

    /// The marks of a number, which has others from now on; not used by that.
    pub(super) fn replace_marks(&mut self, number: u64, marks: u64) -> Option<u64> {
        let set = self.set(number);
        let at = Self::place(set, number)?;
        let had = set[at] & MARKS;
        set[at] = set[at] & !MARKS | marks;
        Some(had)
    }

    /// Removes a number. Its marks.
    pub(super) fn remove(&mut self, number: u64) -> Option<u64> {
        let set = self.set(number);
        let at = Self::place(set, number)?;
        let had = set[at] & MARKS;
        set[at] = 0;
        set[at..].rotate_left(1);
        Some(had)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_the_latest_used() {
        // Two sets of two: even numbers share one, odd ones the other.
        let mut cache = Cache::new(5, 2);
        assert_eq!(
            (cache.insert(0, 1), cache.insert(2, 0), cache.insert(1, 0)),
            (None, None, None)
        );
        assert_eq!(cache.touch(0, 2), Some(1));
        assert_eq!(cache.insert(4, 0), Some((2, 0)));
        assert_eq!((cache.touch(2, 0), cache.touch(1, 0)), (None, Some(0)));
        // Marks are replaced where the number is: it is still the next to go.
        assert_eq!((cache.replace_marks(0, 4), cache.replace_marks(2, 4)), (Some(3), None));
        assert_eq!(cache.insert(6, 0), Some((0, 4)));
        assert_eq!((cache.remove(4), cache.remove(4)), (Some(0), None));
        assert_eq!(cache.insert(8, 0), None);
        assert_eq!(cache.insert(10, 0), Some((6, 0)));
    }
}
