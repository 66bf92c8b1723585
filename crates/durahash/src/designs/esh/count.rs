//! How many slots are live, counted once after an unclean open, while operations go on.

use durahash_media::{Medium, Result, wait_lock};

use super::{Esh, Unit};
use crate::extendible::extend;

impl<M: Medium> Esh<M> {
    /// How many slots are live.
    pub(super) fn live_slots(&self) -> Result<u64> {
        let count = &self.live_count;
        if count.get().is_none() && self.pool.writable().is_err() {
            return self.live_now();
        }
        let _counting = wait_lock(&count.counting, self.medium());
        while let Some(from) = count.next() {
            let whole = self.hold_whole(from)?;
            let depth = whole.place.depth();
            let prefix = extend::prefix(from, depth);
            let counted = self.count_from(whole.place, prefix, from);
            if let Ok(live) = counted {
                count.advance(live, extend::next(prefix, depth));
            }
            whole.release_unchanged();
            counted?;
        }
        Ok(count.get().unwrap_or(0))
    }

    /// Counts the live slots of a segment whose hashes are not below `from`.
    fn count_from(&self, place: Unit, prefix: u64, from: u64) -> Result<u64> {
        if prefix == from {
            return self.live_of(place);
        }
        // It was merged with a segment that was counted before.
        let records = self.records(place, prefix, true, &mut Vec::new())?;
        Ok(records.iter().filter(|record| record.h >= from).count() as u64)
    }

    /// The same without writers, and without repairs.
    fn live_now(&self) -> Result<u64> {
        let (mut unit, mut at, mut sum) = (Vec::new(), Some(0), 0);
        while let Some(from) = at {
            at = self.scan_unit(from, &mut unit)?;
            sum += unit.drain(..).count() as u64;
        }
        Ok(sum)
    }
}
