//! Iteration, region by region.
//!
//! A position is a remixed hash. The unit at a position is what has the same first bits: as many bits as
//! tell the regions of the largest table apart. In each table it is in one region, which is read as a
//! whole, at one instant. So a key that moves, to its other bucket or to another table, is in the same
//! unit still, and the end of a unit is a position whatever becomes of the tables.

use durahash_media::hash::prefix;
use durahash_media::probe::BitMask;
use durahash_media::{Event, Medium, Result};

use super::layout::Fingerprints;
use super::tables::{TableSet, View, next_unit};
use super::{READ_TRIES, Rewo};
use crate::designs::one_of_each;

/// The unit at a position, in the tables of one view.
struct Unit {
    view: View,
    wanted: TableSet,
    at: u64,
    bits: u32,
}

impl Unit {
    /// The buckets of its regions.
    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.wanted.all().flat_map(|(_, table)| table.region_numbers(self.at))
    }
}

impl<M: Medium> Rewo<M> {
    /// The slots of the unit at a position, from that on.
    pub(super) fn scan_unit(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        let from = out.len();
        let mut tries = 0;
        let next = loop {
            let view = self.live_tables.load();
            let wanted = self.live_tables.wanted(view);
            if !self.live_tables.is_current(view) {
                continue;
            }
            let bits = wanted.region_bits();
            let unit = Unit { view, wanted, at, bits };
            let done = if tries < READ_TRIES {
                self.collect(&unit, out)
            } else {
                self.collect_locked(&unit, out)
            };
            if matches!(done, Some(Ok(()))) {
                break next_unit(at, bits);
            }
            out.truncate(from);
            done.transpose()?;
            tries += 1;
            self.medium().event(Event::Wait);
        };
        // In the order of positions; a slot that was on its way is there twice.
        let mut unit = out.split_off(from);
        unit.sort_unstable_by_key(|(h, _)| self.remix.mix(*h));
        one_of_each(&mut unit, |h| {
            let mut found = None;
            self.read_with(h, &mut |payload, _| {
                found = payload;
                Ok(())
            })?;
            Ok(found)
        })?;
        out.append(&mut unit);
        Ok(next)
    }

    /// Reads a unit; `None` where a writer came meanwhile.
    fn collect(&self, unit: &Unit, out: &mut Vec<(u64, u64)>) -> Option<Result<()>> {
        let medium = self.medium();
        let versions: Vec<_> = unit.numbers().map(|n| self.lock_of(n).read(medium)).collect();
        if !self.live_tables.is_current(unit.view) {
            return None;
        }
        let done = self.gather(unit, out);
        let is_valid = unit.numbers().zip(&versions).all(|(n, v)| self.lock_of(n).validate(*v));
        is_valid.then_some(done)
    }

    /// The same, with writers kept out; `None` where the tables have changed.
    fn collect_locked(&self, unit: &Unit, out: &mut Vec<(u64, u64)>) -> Option<Result<()>> {
        let medium = self.medium();
        let mut stripes: Vec<u64> = unit.numbers().map(|number| self.stripe(number)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.iter().for_each(|stripe| self.lock_at(*stripe).lock(medium));
        let done = self.live_tables.is_current(unit.view).then(|| self.gather(unit, out));
        stripes.iter().for_each(|stripe| self.lock_at(*stripe).unlock_unchanged(medium));
        done
    }

    /// The slots of a unit that lookups find.
    fn gather(&self, unit: &Unit, out: &mut Vec<(u64, u64)>) -> Result<()> {
        let Unit { at, bits, .. } = *unit;
        unit.numbers().try_for_each(|number| {
            self.each_slot(unit.view, number, &mut |slot| {
                let remixed = self.remix.mix(slot.h);
                let is_here = prefix(remixed, bits) == prefix(at, bits);
                if slot.is_found && is_here && remixed >= at {
                    out.push((slot.h, slot.payload));
                }
            })
        })
    }

    /// Calls `f` with every live slot of a bucket.
    pub(super) fn each_slot(
        &self,
        view: View,
        number: u64,
        f: &mut dyn FnMut(Listed),
    ) -> Result<()> {
        let (medium, bucket) = (self.medium(), self.bucket(number)?);
        let commit = self.commit(bucket);
        if commit.live() == 0 {
            return Ok(());
        }
        let fingerprints = Fingerprints(medium.load(&bucket.fingerprints));
        for slot in BitMask(commit.live()) {
            let words = &bucket.slots[slot as usize];
            let (h, payload) = (medium.load(&words.h), medium.load(&words.payload));
            let places = self.live_tables.places(view, h, self.remix.mix(h));
            let is_found = places.all().contains(&number) && fingerprints.names(commit, slot, h);
            let leaves = commit.leaving() & 1 << slot != 0;
            f(Listed { slot, h, payload, is_found, leaves });
        }
        Ok(())
    }
}

/// A live slot.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub(super) slot: u32,
    pub(super) h: u64,
    pub(super) payload: u64,
    /// True if lookups find it.
    pub(super) is_found: bool,
    pub(super) leaves: bool,
}
