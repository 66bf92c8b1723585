//! Size classes of record blocks.

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

/// Bytes of a block of size class `class`: four classes for each doubling from 64 bytes on, so that
/// at most a fifth of a block is unused.
pub(crate) fn class_bytes(class: u8) -> u64 {
    if class >= FIRST_CELL {
        return SMALLEST_CELL_BYTES + u64::from(class - FIRST_CELL) * CELL_STEP_BYTES;
    }
    let class = u64::from(class);
    if class < 2 {
        return SMALLEST_BYTES + class * STEP_BYTES;
    }
    let (doubling, quarter) = ((class - 2) / 4, (class - 2) % 4);
    (64 + quarter * 16) << doubling
}

/// The smallest class that holds `bytes`; `None` where only a run of extents does. A class has at
/// least two blocks an extent.
pub(crate) fn class_of(bytes: u64, extent_bytes: u64) -> Option<u8> {
    if bytes > extent_bytes / 2 {
        return None;
    }
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
    let class = 2 + doubling * 4 + quarter as u32;
    (class_bytes(class as u8) <= extent_bytes / 2).then_some(class as u8)
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
        for bytes in 0..=200 {
            let class = class_of_cell(bytes);
            let is_cell = bytes % 8 == 0 && (16..=136).contains(&bytes);
            assert_eq!(class.map(class_bytes), is_cell.then_some(bytes));
            assert!(class.is_none_or(|class| class > 94 && class <= LAST));
        }
        assert_eq!(class_of_cell(LARGEST_CELL_BYTES), Some(LAST));
    }

    #[test]
    fn classes_hold_what_they_say_and_waste_little() {
        let extent_bytes = 512 << 10;
        let mut last = 0;
        for bytes in 1..=extent_bytes / 2 {
            let class = class_of(bytes, extent_bytes).unwrap();
            let got = class_bytes(class);
            assert!(got >= bytes, "{bytes} in {got}");
            assert!(class >= last);
            last = class;
            if class > 0 {
                assert!(class_bytes(class - 1) < bytes, "{bytes} would fit a smaller class");
            }
            if bytes > 64 {
                assert!((got - bytes) * 5 <= got, "{bytes} wastes too much of {got}");
            }
        }
        assert_eq!(class_of(extent_bytes / 2 + 1, extent_bytes), None);
        assert_eq!(class_bytes(class_of(extent_bytes / 2, extent_bytes).unwrap()), 256 << 10);
        assert_eq!(class_of(1 << 29, 1 << 30), Some(94), "the last class that has a code");
    }
}
