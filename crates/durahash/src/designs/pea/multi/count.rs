//! The number of entries, of which slots alone do not tell.

use durahash_media::{Medium, Result, wait_lock};

use crate::designs::pea::MultiPea;
use crate::designs::pea::buffer::Lists;
use crate::extendible::extend;

impl<M: Medium> MultiPea<M> {
    /// Counts the lists that were not counted yet; all of them where the number is lost.
    pub(super) fn count_extra(&self) -> Result<u64> {
        let extra = &self.writers.extra_count;
        let _counting = wait_lock(&extra.counting, self.medium());
        while let Some(at) = extra.next() {
            self.count_lists(at, |more, next| extra.advance(more, next))?;
        }
        if let Some(known) = extra.get() {
            return Ok(known);
        }
        let (mut sum, mut at) = (0, Some(0));
        while let Some(from) = at {
            self.count_lists(from, |more, next| (sum, at) = (sum + more, next))?;
        }
        Ok(sum)
    }

    /// Counts the lists from hash `at` to the end of its segment, and tells how many values they have
    /// beyond one a slot, and the hash to go on from, while all locks of the segment are held.
    fn count_lists(&self, at: u64, tell: impl FnOnce(u64, Option<u64>)) -> Result<()> {
        let whole = self.hold_whole(at);
        let prefix = extend::prefix(at, whole.place.depth());
        let mut more = 0;
        let mut counted = Ok(());
        let seen = self.each_hash(whole.place, prefix, &mut |_, h, entries| {
            if counted.is_err() || h < at {
                return;
            }
            for entry in entries.iter().filter(|entry| entry.is_list) {
                let mut count = 0;
                counted = self.walk(h, entry.payload, &|| true, &mut |buffer| {
                    count += buffer.state.live() as u64;
                    Ok(true)
                });
                more += count.max(1) - 1;
            }
        });
        let seen = seen.and(counted);
        if seen.is_ok() {
            tell(more, extend::next(prefix, whole.place.depth()));
        }
        whole.release_unchanged();
        seen
    }
}
