//! The arithmetic of extendible hashing: which hashes a directory entry, or a unit with a local
//! depth, covers. Pure functions; a *prefix* is left-aligned, with zeros below its depth. Depths
//! are from 1 to 63.

/// The largest depth of a unit or a directory.
pub(crate) const MAX_DEPTH: u32 = 44;

/// The directory index of `h` at global depth `depth`.
#[inline(always)]
#[must_use]
pub(crate) const fn index(h: u64, depth: u32) -> u64 {
    h >> (64 - depth)
}

/// The highest `depth` bits of `h`, left-aligned.
#[inline(always)]
#[must_use]
pub(crate) const fn prefix(h: u64, depth: u32) -> u64 {
    h & !(u64::MAX >> depth)
}

/// How many hashes a unit of this depth covers.
#[inline(always)]
#[must_use]
pub(crate) const fn span(depth: u32) -> u64 {
    1 << (64 - depth)
}

/// True if a unit covers `h`.
#[inline(always)]
#[must_use]
pub(crate) const fn covers(unit: u64, depth: u32, h: u64) -> bool {
    prefix(h, depth) == unit
}

/// The prefix of the unit that differs in the last bit only.
#[inline(always)]
#[must_use]
pub(crate) const fn buddy(unit: u64, depth: u32) -> u64 {
    unit ^ span(depth)
}

/// The first hash after the unit's; `None` after the last.
#[inline(always)]
#[must_use]
pub(crate) const fn next(unit: u64, depth: u32) -> Option<u64> {
    unit.checked_add(span(depth))
}

/// The directory indices, at global depth `global`, of a unit of depth `local`.
#[inline(always)]
#[must_use]
pub(crate) const fn entries(unit: u64, local: u32, global: u32) -> std::ops::Range<u64> {
    assert!(local <= global, "a unit deeper than its directory");
    let first = index(unit, global);
    first..first + (1 << (global - local))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every unit and every directory up to depth 8, against the definition by bit strings.
    #[test]
    fn agrees_with_bit_strings() {
        let text = |h: u64, depth: u32| format!("{h:064b}")[..depth as usize].to_owned();
        for local in 1..=8 {
            for number in 0..1_u64 << local {
                let unit = number << (64 - local);
                assert_eq!(text(unit, local), format!("{number:0w$b}", w = local as usize));
                let twin = buddy(unit, local);
                assert_eq!(text(twin, local - 1), text(unit, local - 1));
                assert_ne!(text(twin, local), text(unit, local));
                assert_eq!(
                    next(unit, local),
                    (u128::from(number + 1) << (64 - local)).try_into().ok()
                );
                for global in local..=8 {
                    for i in 0..1_u64 << global {
                        let h = i << (64 - global) | 1;
                        assert_eq!(index(h, global), i);
                        let covered = text(h, local) == text(unit, local);
                        assert_eq!(covers(unit, local, h), covered);
                        assert_eq!(entries(unit, local, global).contains(&i), covered);
                    }
                }
            }
        }
    }
}
