//! Size classes of record blocks.
//!
//! | codes | blocks |
//! |---|---|
//! | up to that of half an extent | four classes for each doubling |
//! | from there on | large classes: eight for each doubling, from a sixteenth of an extent on, and a little more than round |
//! | 95 to 110 | cells |
//!
//! Values of a round size are common, and a record has a header and a key besides: a large class is by as much
//! larger than what is round. It is taken for all that is more than a sixteenth of an extent, but for just the bytes of
//! a smaller class or of whole extents.

/// Blocks are multiples of this.
const STEP_BYTES: u64 = 16;
/// The smallest class.
const SMALLEST_BYTES: u64 = 32;

/// The first class of cells, which have eight bytes more from class to class.
const FIRST_CELL: u8 = 95;
const CELL_STEP_BYTES: u64 = 8;
const SMALLEST_CELL_BYTES: u64 = 16;
const LARGEST_CELL_BYTES: u64 = 136;
/// The last class of all.
pub(crate) const LAST: u8 =
    FIRST_CELL + ((LARGEST_CELL_BYTES - SMALLEST_CELL_BYTES) / CELL_STEP_BYTES) as u8;

/// Large classes of a doubling.
const LARGE_STEPS: u64 = 8;
/// As many as reach from a sixteenth of an extent to almost eight extents.
const LARGE_CLASSES: u8 = 7 * LARGE_STEPS as u8;

/// The most extents of a chunk, which is a row of extents of one large class.
pub(crate) const CHUNK_MAX: u64 = 32;
/// A chunk is no longer than it must be for no more than one in so many of its bytes to belong to no block.
const CHUNK_WASTE: u64 = 32;

/// Of a class that there is not.
const NONE: u32 = u32::MAX;

/// The classes of a pool.
#[derive(Clone)]
pub(crate) struct Classes {
    extent_bytes: u64,
    bytes: [u32; LAST as usize + 1],
    /// The first large class, and the one behind the last.
    first_large: u8,
    end_large: u8,
}

impl Classes {
    /// Those of a pool with such extents.
    pub(crate) fn new(extent_bytes: u64) -> Self {
        let first_large = 2 + 4 * (extent_bytes.ilog2() as u8 - 7) + 1;
        let end_large = FIRST_CELL.min(first_large + LARGE_CLASSES);
        let mut bytes = [NONE; LAST as usize + 1];
        for class in (0..end_large).chain(FIRST_CELL..=LAST) {
            bytes[usize::from(class)] = match class {
                FIRST_CELL.. => {
                    SMALLEST_CELL_BYTES + u64::from(class - FIRST_CELL) * CELL_STEP_BYTES
                }
                _ if class < first_large => small_bytes(class.into()),
                _ => large_bytes(u64::from(class - first_large), extent_bytes),
            } as u32;
        }
        Classes { extent_bytes, bytes, first_large, end_large }
    }

    /// Bytes of a block of `class`; of a class that there is not, more than any block has.
    #[inline(always)]
    pub(crate) fn bytes(&self, class: u8) -> u64 {
        u64::from(self.bytes[usize::from(class)])
    }

    /// True if there is such a class.
    pub(crate) fn has(&self, class: u8) -> bool {
        self.bytes[usize::from(class)] != NONE
    }

    /// True if the blocks of this class may lie in several extents.
    pub(crate) fn is_large(&self, class: u8) -> bool {
        (self.first_large..self.end_large).contains(&class)
    }

    /// The class for an object of `bytes`; `None` if it takes whole extents.
    pub(crate) fn of(&self, bytes: u64) -> Option<u8> {
        let small = small_class(bytes).filter(|class| *class < self.first_large);
        let fits = small.is_some_and(|class| self.bytes(class) == bytes);
        if bytes <= self.extent_bytes / 16 || fits {
            return small;
        }
        let large = &self.bytes[usize::from(self.first_large)..usize::from(self.end_large)];
        let i = large.partition_point(|have| u64::from(*have) < bytes);
        let in_extents = bytes.next_multiple_of(self.extent_bytes);
        let large = large.get(i).filter(|have| u64::from(**have) < in_extents);
        large.map(|_| self.first_large + i as u8).or(small)
    }

    /// Blocks of `class` in so many extents in a row.
    pub(crate) fn blocks_in(&self, class: u8, extents: u64) -> u64 {
        extents * self.extent_bytes / self.bytes(class)
    }

    /// The fewest extents that blocks of `class` are taken from at once, and the best number for a pool that has
    /// `have` extents of that class.
    pub(crate) fn extents_of(&self, class: u8, have: u64) -> [u64; 2] {
        let bytes = self.bytes(class);
        let need = bytes.div_ceil(self.extent_bytes);
        if !self.is_large(class) {
            return [need; 2];
        }
        let waste = |count: &u64| {
            let all = count * self.extent_bytes;
            (all % bytes * 1024 / all).max(1024 / CHUNK_WASTE)
        };
        let most = (have / 2).clamp(need, CHUNK_MAX);
        [need, (need..=most).min_by_key(waste).unwrap_or(need)]
    }
}

fn small_bytes(class: u64) -> u64 {
    if class < 2 {
        return SMALLEST_BYTES + class * STEP_BYTES;
    }
    let (doubling, quarter) = ((class - 2) / 4, (class - 2) % 4);
    (64 + quarter * 16) << doubling
}

fn large_bytes(i: u64, extent_bytes: u64) -> u64 {
    let step = (extent_bytes / 16 / LARGE_STEPS) << (i / LARGE_STEPS);
    (LARGE_STEPS + i % LARGE_STEPS) * step + (extent_bytes / 256).max(STEP_BYTES)
}

/// The smallest of the classes that are not large, if extents have room for it: at most a fifth of a block is unused.
fn small_class(bytes: u64) -> Option<u8> {
    if bytes <= 48 {
        return Some(u8::from(bytes > 32));
    }
    let bytes = bytes.max(64);
    // The doubling whose four classes reach from 64 << d to 112 << d.
    let mut doubling = bytes.ilog2() - 6;
    let mut quarter = (bytes - (64 << doubling)).div_ceil(16 << doubling);
    if quarter == 4 {
        (doubling, quarter) = (doubling + 1, 0);
    }
    u8::try_from(2 + doubling * 4 + quarter as u32).ok()
}

/// True if blocks of this class are cells, which have no sums of their own.
pub(crate) fn is_cell(class: u8) -> bool {
    class >= FIRST_CELL
}

/// The class of cells of so many bytes, a multiple of eight.
pub(crate) fn class_of_cell(bytes: u64) -> Option<u8> {
    let is_cell = (SMALLEST_CELL_BYTES..=LARGEST_CELL_BYTES).contains(&bytes);
    let step = bytes.checked_sub(SMALLEST_CELL_BYTES)? / CELL_STEP_BYTES;
    (is_cell && bytes.is_multiple_of(CELL_STEP_BYTES)).then_some(FIRST_CELL + step as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_bytes_that_were_asked_for() {
        let classes = Classes::new(64 << 10);
        for bytes in 0..=200 {
            let class = class_of_cell(bytes);
            let is_cell = bytes % 8 == 0 && (16..=136).contains(&bytes);
            assert_eq!(class.map(|class| classes.bytes(class)), is_cell.then_some(bytes));
            assert!(class.is_none_or(|class| class > 94 && class <= LAST));
        }
        assert_eq!(class_of_cell(LARGEST_CELL_BYTES), Some(LAST));
    }

    #[test]
    fn classes_hold_what_they_say_and_waste_little() {
        let extent_bytes = 512 << 10;
        let classes = Classes::new(extent_bytes);
        let mut last = 0;
        for bytes in 1..=extent_bytes / 16 {
            let class = classes.of(bytes).unwrap();
            let got = classes.bytes(class);
            assert!(got >= bytes, "{bytes} in {got}");
            assert!(class >= last && !classes.is_large(class));
            last = class;
            if class > 0 {
                assert!(classes.bytes(class - 1) < bytes, "{bytes} would fit a smaller class");
            }
            if bytes > 64 {
                assert!((got - bytes) * 5 <= got, "{bytes} wastes too much of {got}");
            }
        }
        assert_eq!(classes.bytes(classes.of(extent_bytes / 2).unwrap()), 256 << 10);
        let class = Classes::new(1 << 30).of(1 << 29);
        assert_eq!(class, Some(94), "the last class that has a code");
    }

    /// Blocks and chunks of pools of every size of extents.
    #[test]
    fn large_classes_waste_little_of_their_chunks() {
        for shift in 10..=30 {
            let extent_bytes = 1 << shift;
            let classes = Classes::new(extent_bytes);
            let large: Vec<u8> = (0..=LAST).filter(|class| classes.is_large(*class)).collect();
            assert_eq!(large.len(), 56.min(120 - 4 * shift as usize));
            for pair in large.windows(2) {
                let [lower, bytes] = [0, 1].map(|i| classes.bytes(pair[i]));
                assert!(bytes % 8 == 0 && (bytes - lower) * 9 <= bytes);
                // A header and a key of 80 bytes beside a round value.
                assert!(bytes % (extent_bytes / 128) >= 104 || shift < 15);
                let in_extents = (lower + 1).next_multiple_of(extent_bytes);
                let wanted = (in_extents > bytes).then_some(pair[1]);
                assert_eq!(classes.of(lower + 1), wanted, "{lower} + 1 of {extent_bytes}");
                let [need, best] = classes.extents_of(pair[1], 1000);
                let waste = best * extent_bytes % bytes;
                assert!(waste * 16 <= best * extent_bytes, "{waste} of {best} for {bytes}");
                assert_eq!(classes.extents_of(pair[1], 3), [need; 2]);
                assert!(classes.blocks_in(pair[1], need) >= 1 && best <= CHUNK_MAX);
            }
        }
    }
}
