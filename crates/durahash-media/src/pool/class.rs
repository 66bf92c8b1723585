//! Size classes of record blocks.

/// Blocks are multiples of this.
const STEP_BYTES: u64 = 16;
/// The smallest class.
const SMALLEST_BYTES: u64 = 32;

/// Bytes of a block of size class `class`: four classes for each doubling from 64 bytes on, so that
/// at most a fifth of a block is unused.
pub(crate) fn class_bytes(class: u8) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

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
