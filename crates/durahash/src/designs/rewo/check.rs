//! Verifying all invariants, and mending. The invariants are listed in the [module docs](super).

use std::collections::{HashMap, HashSet};

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Result};

use super::Rewo;
use super::layout::{BUCKET_BYTES, Commit};
use super::recover::read_block;
use super::scan::Listed;
use super::tables::{Table, TableSet, View};
use crate::index::Finding;

/// Takes a violation: the invariant, the number of the bucket, and words.
type Report<'a> = &'a mut dyn FnMut(&'static str, u64, String);

/// All buckets with the numbers of their tables, and true if a resize has migrated slots that belong elsewhere.
fn with_progress(wanted: &TableSet, cursor: u64) -> impl Iterator<Item = ((usize, u64), bool)> {
    let mut at = 0;
    let buckets = wanted.all().flat_map(|(i, table)| table.numbers().map(move |n| (i, n)));
    buckets.map(move |(i, number)| {
        let is_source = wanted.sources().any(|(source, _)| source == i);
        let is_done = is_source && at < cursor;
        at += u64::from(is_source);
        ((i, number), is_done)
    })
}

impl<M: Medium> Rewo<M> {
    /// Verifies REWO-1 to REWO-7.
    pub(super) fn check_all(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let mut report = |invariant, number: u64, what: String| {
            found(Finding { invariant, off: number * BUCKET_BYTES, what });
        };
        let block = match read_block(&self.map) {
            Ok(block) => block,
            Err(e) => {
                report("REWO-1", 1, e.to_string());
                return Ok(());
            }
        };
        let view = self.live_tables.load();
        let wanted = self.live_tables.wanted(view);
        let cursor = self.resizing().cursor;
        if block.wanted != wanted {
            report("REWO-1", block.number, "the tables in use are others".to_owned());
            return Ok(());
        }
        self.check_extents(&wanted, block.number, &mut report);
        let mut hashes = HashMap::new();
        for ((table, number), is_done) in with_progress(&wanted, cursor) {
            self.check_bucket(view, (table, number), is_done, &mut hashes, &mut report)?;
        }
        if hashes.len() as u64 != self.live.get() {
            let (live, counter) = (hashes.len(), self.live.get());
            report("REWO-6", 0, format!("{live} live slots, the counter says {counter}"));
        }
        for stripe in (0..=self.stripe_mask).filter(|stripe| self.lock_at(*stripe).is_locked()) {
            report("REWO-6", 0, format!("lock {stripe} is held"));
        }
        self.check_cached(&hashes, &mut report);
        Ok(())
    }

    /// REWO-5.
    fn check_extents(&self, wanted: &TableSet, block: u64, report: Report<'_>) {
        let per_extent = self.pool.extent_bytes() / BUCKET_BYTES;
        let prepared = self.resizing().prepared.map(|prepared| prepared.table);
        let tables: Vec<Table> = wanted.all().map(|(_, table)| table).chain(prepared).collect();
        for extent in self.unnamed(&tables, block) {
            report("REWO-5", extent * per_extent, "an extent that nothing names".to_owned());
        }
    }

    /// REWO-2 to REWO-4 of one bucket, out of which a resize has migrated everything if it `is_done`.
    fn check_bucket(
        &self,
        view: View,
        (table, number): (usize, u64),
        is_done: bool,
        hashes: &mut HashMap<u64, u64>,
        report: Report<'_>,
    ) -> Result<()> {
        let commit = self.commit(self.bucket(number)?);
        if !commit.is_sound() {
            report("REWO-4", number, "the commit word contradicts itself".to_owned());
        } else if commit.leaving() != 0 {
            report("REWO-4", number, "a slot is marked as moving, but no move runs".to_owned());
        }
        self.each_slot(view, number, &mut |slot| {
            if self.is_lost(&slot, view, (table, is_done)) {
                let what = format!("no lookup finds {:#018x} in slot {}", slot.h, slot.slot);
                report("REWO-2", number, what);
            }
            if hashes.insert(slot.h, slot.payload).is_some() {
                report("REWO-3", number, format!("hash {:#018x} is there twice", slot.h));
            }
        })
    }

    /// True if no lookup finds a slot of a table, out of whose bucket a resize has migrated everything if it
    /// `is_done`.
    fn is_lost(&self, slot: &Listed, view: View, (table, is_done): (usize, bool)) -> bool {
        let is_left_behind = is_done && view.target(slot.h) != table;
        !slot.is_found || is_left_behind || self.used & 1 << slot.slot == 0
    }

    /// REWO-7.
    fn check_cached(&self, hashes: &HashMap<u64, u64>, report: Report<'_>) {
        let mut copied = HashSet::new();
        let unswept = self.resizing().unswept;
        self.cached.each(unswept, |h| self.remix.mix(h), &mut |h, payload, is_right| {
            if !is_right || hashes.get(&h) != Some(&payload) || !copied.insert(h) {
                report("REWO-7", 0, format!("the copy of {h:#018x} is another"));
            }
        });
        for h in hashes.keys().filter(|h| !copied.contains(*h)) {
            if self.cached.has_all_like(self.remix.mix(*h)) {
                report("REWO-7", 0, format!("no copy of {h:#018x} where none is left out"));
            }
        }
    }

    /// Drops what no lookup finds, and marks that damage left.
    pub(super) fn mend_all(&self) -> Result<()> {
        let resizing = self.resizing();
        let view = self.live_tables.load();
        let wanted = self.live_tables.wanted(view);
        for ((table, number), is_done) in with_progress(&wanted, resizing.cursor) {
            let mut held = self.hold_bucket(view, number);
            let done = self.pool.writable().and_then(|()| {
                let bucket = self.bucket(number)?;
                let before = self.commit(bucket);
                let mut lost = Vec::new();
                self.each_slot(view, number, &mut |slot| {
                    if self.is_lost(&slot, view, (table, is_done)) {
                        lost.push(slot);
                    }
                })?;
                for slot in &lost {
                    self.drop_slots(&mut held, number, 1 << slot.slot)?;
                    self.live.add(-1);
                    self.cached.forget(self.medium(), slot.h, self.remix.mix(slot.h));
                }
                // Of what lookups find, so that nothing comes back.
                if !before.is_sound() {
                    let h = |slot| self.medium().load(&bucket.slots[slot as usize].h);
                    let anew = |all: Commit, slot| all.with(slot, h(slot));
                    held.exclude_readers(number);
                    let live = BitMask(self.commit(bucket).live());
                    self.clear(bucket, live.fold(Commit(0), anew));
                    self.medium().drain();
                }
                if !lost.is_empty() || !before.is_sound() {
                    self.count_all();
                }
                Ok(())
            });
            held.release();
            done?;
        }
        drop(resizing);
        Ok(())
    }
}
