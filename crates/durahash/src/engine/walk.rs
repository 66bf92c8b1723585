//! The order of a walk over an index, step by step.
//!
//! An index gives the slots of one unit after the other, in the order of their positions, which are hashes but in
//! Rewo-Hash. A walk in that order that fills another index of the same seed fills one end of it while the other is
//! empty: the directory is as deep as in the end when there are few units yet, or one region of a table is full. So
//! there are other [orders](WalkOrder) for Rewo-Hash, and for large indexes of the other designs:
//!
//! | order | places, from 0 on | positions |
//! |---|---|---|
//! | ascending | position | all |
//! | reversed, `b` bits | the first `b` bits of the position from the last to the first, the others | all |
//! | sample first, `b` bits | 0, the same without the [`SAMPLE_BITS`] after the first `b`, of which one stays | those of which these bits are 0 |
//! | | 1, position without its lowest bit | the others |
//!
//! Each place in the order of reversed bits halves the widest gap between those before it. The sample makes the other
//! index an eighth as large as it will be, and even: 32 directory entries for a unit are then the most that ascending
//! order can make of four, where a unit has ten slots and more. An eighth of a small unit's slots is one or two, which
//! split nothing of their own. Each unit is read two or three times for that.
//!
//! A place is one word. An order never changes during a walk, and gives each hash one place, whatever units there are: a
//! unit that spans several pieces of the order is cut at the end of the piece. Hashes that were given are at lower places,
//! the others at higher ones. So a key that is there throughout is given exactly once, though units split and merge
//! between two steps.

use durahash_media::{Result, bits};

use crate::index::{IndexBase, WalkOrder};

/// Positions are left out of a place below these bits: no unit is smaller.
const ORDER_BITS: u32 = 7;
const ORDER: u64 = (1 << ORDER_BITS) - 1;
/// Of the order: its bits, and if a sample is first.
const COUNT_BITS: u32 = 6;
const SAMPLE: u64 = 1 << COUNT_BITS;
/// No index has so many units that it needs more.
const MOST_BITS: u32 = 44;

const SAMPLE_BITS: u32 = 3;
/// The place where the sample ends.
const SECOND: u64 = 1 << 63;

/// Where a walk goes on: a place above, and its order in the lowest bits. Zero is where one in ascending order begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

/// The positions of a piece of an order, from a place on.
struct Piece {
    from: u64,
    last: u64,
    /// Positions without any of these bits are left out, unless there are none of these.
    marks: u64,
    /// The place of a position: these bits of it, shifted, beside the piece's own.
    within: u64,
    shift: u32,
    base: u64,
    /// The place of the next piece.
    next: Option<u64>,
}

impl Piece {
    fn has(&self, position: u64) -> bool {
        position <= self.last && (self.marks == 0 || position & self.marks != 0)
    }

    /// The place from which on nothing was given, when a unit was and the next one begins at this position.
    fn after(&self, next: Option<u64>) -> Option<u64> {
        let here = next.filter(|next| *next <= self.last);
        here.map(|next| self.base | (next & self.within) >> self.shift).or(self.next)
    }
}

/// The first `count` bits in reverse.
const fn reversed(at: u64, count: u32) -> u64 {
    (at >> (u64::BITS - count)).reverse_bits()
}

impl Place {
    /// Where a walk begins by which another index of the same hashes may be filled.
    pub(crate) fn first<I: IndexBase + ?Sized>(index: &I) -> Self {
        Place(match index.walk_order() {
            WalkOrder::Ascending | WalkOrder::SampleFirst(0) => 0,
            WalkOrder::Reversed(count) => count.min(MOST_BITS).into(),
            WalkOrder::SampleFirst(count) => SAMPLE | u64::from(count.min(MOST_BITS)),
        })
    }

    /// The place of a word that [`to_word`](Self::to_word) gave of a walk from [`first`](Self::first), or of any other
    /// word.
    pub(crate) fn from_word<I: IndexBase + ?Sized>(index: &I, word: u64) -> Self {
        Place(match index.walk_order() {
            WalkOrder::Reversed(_) => word & !SAMPLE,
            _ => word,
        })
    }

    pub(crate) const fn to_word(self) -> u64 {
        self.0
    }

    fn piece(self) -> Piece {
        let at = self.0 & !ORDER;
        let count = (bits(self.0, 0, COUNT_BITS) as u32).min(MOST_BITS);
        let (all, none) = (u64::MAX, 0);
        let whole =
            Piece { from: at, last: all, marks: none, within: all, shift: 0, base: 0, next: None };
        if count == 0 {
            return whole;
        }
        if self.0 & SAMPLE == 0 {
            let within = all >> count;
            let from = reversed(at, count) | at & within;
            let next = (at | within).checked_add(1);
            return Piece { from, last: from | within, within, base: at & !within, next, ..whole };
        }
        if at & SECOND != 0 {
            let marks = !(all >> SAMPLE_BITS) >> count;
            return Piece { from: at << 1, marks, shift: 1, base: SECOND, ..whole };
        }
        let within = all >> (count + SAMPLE_BITS);
        let from = reversed(at << 1, count) | at & within;
        let next = Some((at | all >> (count + 1)) + 1);
        Piece { from, last: from | within, within, base: at & !within, next, ..whole }
    }

    fn at(self, at: u64) -> Self {
        Place(at & !ORDER | self.0 & ORDER)
    }

    /// Gives the slots of a unit, or of that part of it that is in one piece of the order, from this place on; and the
    /// place for those after them. `out` is empty.
    ///
    /// # Errors
    /// As [`IndexBase::scan`].
    pub(crate) fn step<I: IndexBase + ?Sized>(
        self,
        index: &I,
        out: &mut Vec<(u64, I::Slot)>,
    ) -> Result<Option<Self>> {
        let piece = self.piece();
        let next = index.scan(piece.from, out)?;
        if self.0 & ORDER != 0 {
            out.retain(|(h, _)| piece.has(index.position(*h)));
        }
        Ok(piece.after(next).map(|at| self.at(at)))
    }

    /// Where a walk goes on behind a unit that could not be read; `None` where that is not known.
    pub(crate) fn behind<I: IndexBase + ?Sized>(self, index: &I) -> Option<Option<Self>> {
        let piece = self.piece();
        let end = index.behind(piece.from)?;
        Some(piece.after(end).map(|at| self.at(at)))
    }

    /// True where a sample is given: the walk comes again to the units that it reads here.
    pub(crate) fn is_sample(self) -> bool {
        self.0 & (SAMPLE | SECOND) == SAMPLE
    }

    /// The most units in a row without entries that a step reads. In reversed order a made-up place may be one of very
    /// many in a unit, each of which reads it all.
    pub(crate) fn most_empty_units(self) -> u64 {
        if self.0 & ORDER == 0 { u64::MAX } else { 64 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use durahash_media::hash::ByteHash;

    use super::*;
    use crate::index::{Finding, IndexStats};

    /// Positions have so many bits; each is there once.
    const BITS: u32 = 10;

    /// An index whose units have another depth at each step.
    struct Units {
        order: WalkOrder,
        seed: u64,
        steps: AtomicU64,
    }

    impl IndexBase for Units {
        type Slot = ();

        fn walk_order(&self) -> WalkOrder {
            self.order
        }

        fn scan(&self, at: u64, out: &mut Vec<(u64, ())>) -> Result<Option<u64>> {
            let step = self.steps.fetch_add(1, Ordering::Relaxed);
            let depth =
                1 + (ByteHash::new(self.seed).hash(&step.to_le_bytes()) % u64::from(BITS)) as u32;
            let last = at | u64::MAX >> depth;
            let all = (0..1 << BITS).map(|i| i << (u64::BITS - BITS));
            out.extend(all.filter(|h| (at..=last).contains(h)).map(|h| (h, ())));
            Ok(last.checked_add(1))
        }

        fn behind(&self, at: u64) -> Option<Option<u64>> {
            Some((at | u64::MAX >> 3).checked_add(1))
        }

        fn len(&self) -> Result<u64> {
            Ok(1 << BITS)
        }

        fn stats(&self) -> IndexStats {
            IndexStats::default()
        }

        fn check(&self, _: &mut dyn FnMut(Finding)) -> Result<()> {
            Ok(())
        }
    }

    fn orders() -> impl Iterator<Item = WalkOrder> {
        let counted = (0..=BITS).flat_map(|n| [WalkOrder::Reversed(n), WalkOrder::SampleFirst(n)]);
        counted.chain([WalkOrder::Ascending])
    }

    #[test]
    fn each_position_is_given_once_whatever_the_units() {
        for (order, seed) in orders().flat_map(|order| (0..20).map(move |seed| (order, seed))) {
            let index = Units { order, seed, steps: AtomicU64::new(0) };
            let (mut given, mut unit) = (Vec::new(), Vec::new());
            let mut at = Some(Place::first(&index));
            while let Some(place) = at {
                at = place.step(&index, &mut unit).unwrap();
                assert!(at.is_none_or(|next| next.0 > place.0), "{order:?}");
                given.extend(unit.drain(..).map(|(h, ())| h));
            }
            if order == WalkOrder::Ascending {
                assert!(given.is_sorted());
            }
            given.sort_unstable();
            let all = (0..1 << BITS).map(|i| i << (u64::BITS - BITS));
            assert!(given.into_iter().eq(all), "{order:?}, seed {seed}");
        }
    }

    /// Also from made-up words.
    #[test]
    fn a_walk_goes_forward_from_any_word() {
        let index = Units { order: WalkOrder::Ascending, seed: 1, steps: AtomicU64::new(0) };
        for i in 0..100_000_u64 {
            let place = Place(ByteHash::new(7).hash(&i.to_le_bytes()));
            let next = place.step(&index, &mut Vec::new()).unwrap();
            let behind = place.behind(&index).unwrap();
            for next in [next, behind].into_iter().flatten() {
                assert!(next.0 > place.0 & !ORDER && next.0 & ORDER == place.0 & ORDER);
            }
        }
    }
}
