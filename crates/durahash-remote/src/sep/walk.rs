//! A walk over the index, and what a sweep finds in use.
//!
//! A walk goes by the bits of the suffix, lowest first, as splits do: the segment of position `p` is
//! the one whose suffix is `p` with its bits reversed, and the next position is where that segment's
//! hashes end. So every hash is in exactly one segment of a walk, even if segments split meanwhile.

use std::ops::Range;

use durahash_media::{Error, ErrorKind};

use crate::fabric::Addr;

use super::layout::{Suffix, UNIT, WordA};

/// Returns whether the error reports damage, which does not go away.
pub(crate) fn is_damage(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Corrupt { .. })
}

/// Returns whether damage of a word or a bag is the cause.
pub(super) fn is_of_damage(error: &Error) -> bool {
    let kind = error.kind();
    is_damage(error) || matches!(kind, ErrorKind::OutOfRegion { .. } | ErrorKind::Unaligned { .. })
}

/// A position of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Position(u64);

impl Position {
    pub(crate) const START: Position = Position(0);

    /// The first one of the hashes that end in these bits.
    pub(super) fn of(suffix: u64) -> Self {
        Position(suffix.reverse_bits())
    }

    pub(super) fn hash(self) -> u64 {
        self.0.reverse_bits()
    }

    /// Returns whether a segment with this suffix is the one that begins here.
    pub(super) fn is_of(self, place: Suffix) -> bool {
        place.bits.reverse_bits() == self.0
    }

    /// The position behind a segment.
    pub(super) fn after(self, a: WordA, place: Suffix) -> Option<Position> {
        Position(place.bits.reverse_bits()).behind(a.depth())
    }

    /// The position behind the hashes that end in the same `depth` bits.
    pub(super) fn behind(self, depth: u32) -> Option<Position> {
        let rest = u64::MAX.checked_shr(depth).unwrap_or(0);
        (self.0 | rest).checked_add(1).map(Position)
    }
}

/// Windows of a sweep in all nodes, and a bit for each unit: whether it is in use.
#[derive(Debug, Default)]
pub(super) struct Marks(Vec<(Range<u64>, Vec<u64>)>);

impl Marks {
    pub(super) fn new(windows: Vec<Range<u64>>) -> Self {
        let words =
            |window: &Range<u64>| ((window.end - window.start) / UNIT).div_ceil(64) as usize;
        Marks(windows.into_iter().map(|window| (window.clone(), vec![0; words(&window)])).collect())
    }

    /// Returns whether a block of so many bytes has a part in a window.
    pub(super) fn touches(&self, at: Addr, bytes: u64) -> bool {
        self.0.get(usize::from(at.node())).is_some_and(|(window, _)| {
            at.off() < window.end && at.off().saturating_add(bytes) > window.start
        })
    }

    /// A block is in use, as far as it lies in a window.
    pub(super) fn mark(&mut self, at: Addr, bytes: u64) {
        if !self.touches(at, bytes) {
            return;
        }
        let (window, bits) = &mut self.0[usize::from(at.node())];
        let from = at.off().max(window.start) - window.start;
        let to = (at.off() + bytes).min(window.end) - window.start;
        for unit in from / UNIT..to / UNIT {
            bits[(unit / 64) as usize] |= 1 << (unit % 64);
        }
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> u64 {
        let words = self.0.iter().flat_map(|(_, bits)| bits);
        words.map(|word| u64::from(word.count_ones())).sum::<u64>() * UNIT
    }

    /// What is not in use.
    pub(super) fn gaps(&self) -> Vec<(Addr, u64)> {
        let mut gaps = Vec::new();
        for ((window, bits), node) in self.0.iter().zip(0..) {
            let units = (window.end - window.start) / UNIT;
            let used = |unit: u64| bits[(unit / 64) as usize] >> (unit % 64) & 1 == 1;
            let mut from = 0;
            while from < units {
                let word = bits[(from / 64) as usize];
                if from % 64 == 0 && word == u64::MAX {
                    from += 64;
                } else if used(from) {
                    from += 1;
                } else {
                    let mut to = from + 1;
                    while to < units && !used(to) {
                        to += 1;
                    }
                    let at = Addr::new(node, window.start + from * UNIT);
                    gaps.push((at, (to - from) * UNIT));
                    from = to;
                }
            }
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_no_block_covers() {
        let at = |units: u64| Addr::new(0, units * UNIT);
        let window = 10 * UNIT..300 * UNIT;
        let mut marks = Marks::new(vec![window]);
        for (unit, units) in [(5, 8), (20, 1), (64, 140), (299, 9), (400, 3), (1, 2)] {
            marks.mark(at(unit), units * UNIT);
        }
        marks.mark(Addr::new(1, 64), 64);
        let gaps = [(13, 7), (21, 43), (204, 95)];
        assert_eq!(marks.gaps(), gaps.map(|(unit, units)| (at(unit), units * UNIT)));
        assert_eq!(marks.bytes(), (290 - 7 - 43 - 95) * UNIT);
        assert!(marks.touches(at(9), 2 * UNIT) && !marks.touches(at(9), UNIT));
    }
}
