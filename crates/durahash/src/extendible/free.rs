//! Units that exist and that nothing names, by the extents that they lie in.
//!
//! An extent of which all units are free goes back to the pool, where other uses find it. One such extent is
//! kept, so that splits and merges in turn do not take and release an extent each time. The lowest extents are
//! taken from first: then those behind empty, and a close cuts them off.

use std::collections::BTreeMap;

/// Free units of one design.
pub(crate) struct FreeUnits {
    per_extent: u64,
    count: u64,
    /// The units of each extent that has any.
    by_extent: BTreeMap<u64, Vec<u64>>,
    /// How many extents are free as a whole.
    whole: u64,
}

impl FreeUnits {
    /// None, of extents with so many units each.
    pub(crate) fn new(per_extent: u64) -> Self {
        FreeUnits { per_extent, count: 0, by_extent: BTreeMap::new(), whole: 0 }
    }

    /// Takes one.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let mut lowest = self.by_extent.first_entry()?;
        self.whole -= u64::from(lowest.get().len() as u64 == self.per_extent);
        let unit = lowest.get_mut().pop();
        self.count -= 1;
        if lowest.get().is_empty() {
            lowest.remove();
        }
        unit
    }

    /// The one that is taken next.
    pub(crate) fn peek(&self) -> Option<u64> {
        self.by_extent.first_key_value().and_then(|(_, units)| units.last().copied())
    }

    /// Adds one that nothing durable names any more. The extent that is to go back to the pool, if there is one
    /// now: its units are no longer here.
    pub(crate) fn give(&mut self, unit: u64) -> Option<u64> {
        let extent = unit / self.per_extent;
        let units = self.by_extent.entry(extent).or_default();
        units.push(unit);
        self.count += 1;
        if (units.len() as u64) < self.per_extent {
            return None;
        }
        if self.whole == 0 {
            self.whole = 1;
            return None;
        }
        self.by_extent.remove(&extent);
        self.count -= self.per_extent;
        Some(extent)
    }

    /// Adds units of one extent, of which none is here, the first of them last.
    pub(crate) fn add(&mut self, extent: u64, units: impl Iterator<Item = u64>) {
        let of_extent = self.by_extent.entry(extent).or_default();
        of_extent.extend(units);
        self.count += of_extent.len() as u64;
        self.whole += u64::from(of_extent.len() as u64 == self.per_extent);
        if of_extent.is_empty() {
            self.by_extent.remove(&extent);
        }
    }

    /// The same where some may be here. The extent, if all of its units are free now: they are no longer here.
    pub(crate) fn add_found(&mut self, extent: u64, units: Vec<u64>) -> Option<u64> {
        if units.is_empty() {
            return None;
        }
        let of_extent = self.by_extent.entry(extent).or_default();
        if (of_extent.len() + units.len()) as u64 == self.per_extent {
            self.count -= of_extent.len() as u64;
            self.by_extent.remove(&extent);
            return Some(extent);
        }
        self.count += units.len() as u64;
        of_extent.extend(units);
        None
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.by_extent.values().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_that_is_free_as_a_whole_is_released_but_for_one() {
        let mut free = FreeUnits::new(3);
        assert_eq!((free.take(), free.peek()), (None, None));
        free.add(4, [14, 13].into_iter());
        free.add(2, [8].into_iter());
        free.add(5, [].into_iter());
        assert_eq!((free.peek(), free.take(), free.take()), (Some(8), Some(8), Some(13)));
        // All of extent 4: the first is kept.
        assert_eq!((free.give(12), free.give(13)), (None, None));
        assert_eq!([7, 6, 8].map(|unit| free.give(unit)), [None, None, Some(2)]);
        assert_eq!((free.iter().count(), free.count()), (3, 3));
        // It is in use again: the next one is kept.
        assert_eq!(free.take(), Some(13));
        assert_eq!([1, 2, 0].map(|unit| free.give(unit)), [None; 3]);
        assert_eq!(free.give(13), Some(4));
        assert_eq!(free.iter().collect::<Vec<_>>(), [1, 2, 0]);
        // A whole one that is added is kept, too, and then no other.
        free.add(9, (27..30).rev());
        assert_eq!([(); 4].map(|()| free.take()), [0, 2, 1, 27].map(Some));
        assert_eq!([1, 2, 0, 27].map(|unit| free.give(unit)), [None, None, None, Some(9)]);
        assert_eq!(free.count(), 3);
    }

    #[test]
    fn swept_units_join_those_that_were_given() {
        let mut free = FreeUnits::new(3);
        assert_eq!(
            (free.give(7), free.add_found(2, vec![]), free.add_found(3, vec![9])),
            (None, None, None)
        );
        // The whole of an extent goes back at once.
        assert_eq!(free.add_found(2, vec![8, 6]), Some(2));
        assert_eq!(free.add_found(4, vec![12, 13, 14]), Some(4));
        assert_eq!((free.count(), free.iter().collect::<Vec<_>>()), (1, vec![9]));
        assert_eq!((free.give(10), free.add_found(3, vec![])), (None, None));
        assert_eq!((free.take(), free.take(), free.take()), (Some(10), Some(9), None));
    }
}
