//! Units that exist and that nothing names, by the extents that they lie in.
//!
//! An extent of which all units are free goes back to the pool, where other uses find it. One such extent is
//! kept, so that splits and merges in turn do not take and release an extent each time. The lowest extents are
//! taken from first: then those behind empty, and a close cuts them off.

use std::collections::BTreeMap;

/// Free units of one design.
pub(crate) struct FreeUnits {
    per_extent: u64,
    /// The units of each extent that has any.
    by_extent: BTreeMap<u64, Vec<u64>>,
    /// An extent that is free as a whole, and kept.
    spare: Option<u64>,
}

impl FreeUnits {
    /// None, of extents with so many units each.
    pub(crate) fn new(per_extent: u64) -> Self {
        FreeUnits { per_extent, by_extent: BTreeMap::new(), spare: None }
    }

    /// Takes one.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let mut lowest = self.by_extent.first_entry()?;
        if self.spare == Some(*lowest.key()) {
            self.spare = None;
        }
        let unit = lowest.get_mut().pop();
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
        if (units.len() as u64) < self.per_extent {
            return None;
        }
        if self.spare.is_none() {
            self.spare = Some(extent);
            return None;
        }
        self.by_extent.remove(&extent);
        Some(extent)
    }

    /// Adds units of one extent, but not all, the first of them last.
    pub(crate) fn add(&mut self, extent: u64, units: impl Iterator<Item = u64>) {
        let of_extent = self.by_extent.entry(extent).or_default();
        of_extent.extend(units);
        if of_extent.is_empty() {
            self.by_extent.remove(&extent);
        }
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
        assert_eq!(free.iter().count(), 3);
        // It is in use again: the next one is kept.
        assert_eq!(free.take(), Some(13));
        assert_eq!([1, 2, 0].map(|unit| free.give(unit)), [None; 3]);
        assert_eq!(free.give(13), Some(4));
        assert_eq!(free.iter().collect::<Vec<_>>(), [1, 2, 0]);
    }
}
