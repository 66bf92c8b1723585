//! Readers of a table that another process writes: what the designs have in common.
//!
//! An onlooker sees the words of the medium and the [counters of changes](durahash_media::Changes), and nothing of the writer's DRAM. A
//! design says by a [`Sight`] how it finds a hash, and all entries, by these words alone, and says there why that is right. A
//! look counts if the counters of the hashes that it is about are the same before and after. It stores nothing, and
//! keeps nothing from one look to the next.
//!
//! Records are named by payloads, and given back after the operation that took the name away: what was copied between
//! the two looks at the counter is whole. An onlooker verifies the checksum of each.
//!
//! A writer that is killed leaves counters that no longer change, and at most one operation half done for each of its
//! threads: every look is right that would be right while these operations are held up. The next writer stores
//! another state word first, which each look looks at last.
//!
//! # Limits
//! A hash that is changed without pause may keep its readers looking. The changes of a batch are seen one by one.

use durahash_media::{Changes, Error, ErrorKind, Event, Medium, Place, Pool, Result, Storage};

use crate::extendible::extend::MAX_DEPTH;
use crate::extendible::unit::Unit;
use crate::index::{
    Finding, Index, IndexBase, IndexStats, Reader, Room, Updater, last_read, operation,
};

/// Looks in vain, one after the other, with nothing changed meanwhile, before the table is called damaged: one may come
/// to what is taken for another use elsewhere.
const WALKS: u32 = 1000;

/// Looks before the thread lets others go on.
const LOOKS: u32 = 16;

/// A map whose writer is in another process.
pub struct Watch<M: Medium> {
    pub(super) map: Place<M>,
    /// What a table is called where looks in vain do not end.
    damage: &'static str,
}

impl<M: Medium> Watch<M> {
    pub(super) fn new(map: Place<M>, damage: &'static str) -> Self {
        Watch { map, damage }
    }

    pub(super) fn pool(&self) -> &Pool<M> {
        self.map.pool()
    }

    pub(super) fn medium(&self) -> &M {
        self.pool().medium()
    }

    pub(super) fn changes(&self) -> Result<&Changes> {
        self.medium().changes().ok_or_else(|| ErrorKind::Locked.into())
    }

    /// Looks until no change of the hashes that begin like `h` in `depth` bits came between; `None` of a look is one
    /// in vain. It is told how to ask whether that is so until now.
    pub(super) fn look<T>(
        &self,
        h: u64,
        depth: u32,
        look: impl FnMut(&dyn Fn() -> bool) -> Result<Option<T>>,
    ) -> Result<T> {
        let changes = self.changes()?;
        let begin = || {
            let before = changes.of(h, depth);
            move || changes.of(h, depth) == before
        };
        self.look_while(begin, look)
    }

    /// Looks until what `begin` gave before a look says behind it that this counts.
    pub(super) fn look_while<T, S: Fn() -> bool>(
        &self,
        begin: impl Fn() -> S,
        mut look: impl FnMut(&dyn Fn() -> bool) -> Result<Option<T>>,
    ) -> Result<T> {
        let medium = self.medium();
        let (mut looks, mut walks) = (0_u32, 0);
        loop {
            let still = begin();
            // Another thread may come to follow the writer during this look, which then finds nothing left to follow.
            let len = medium.region().len();
            medium.event(Event::Look);
            let done = look(&still);
            medium.event(Event::Look);
            let is_still = still();
            self.pool().check_writer()?;
            if is_still {
                match done {
                    Ok(Some(found)) => return Ok(found),
                    Ok(None) if walks < WALKS => walks += 1,
                    Ok(None) => return Err(Error::corrupt(self.damage, 0)),
                    Err(e) if !self.pool().follow()? && medium.region().len() == len => {
                        return Err(e);
                    }
                    Err(_) => {}
                }
            } else {
                walks = 0;
            }
            looks = looks.saturating_add(1);
            if looks > LOOKS { medium.wait() } else { medium.event(Event::Wait) }
        }
    }

    /// The same for the unit that covers `at`, whose depth a look has to find: where it is less than that for which it
    /// counts, the unit has more hashes, and the look answers its depth.
    pub(super) fn look_at_unit<T>(
        &self,
        at: u64,
        mut look: impl FnMut(u32) -> Result<Option<std::result::Result<T, u32>>>,
    ) -> Result<T> {
        let mut depth = MAX_DEPTH;
        loop {
            match self.look(at, depth, |_| look(depth))? {
                Ok(found) => return Ok(found),
                Err(wider) => depth = wider,
            }
        }
    }
}

/// What an onlooker sees of a design.
pub trait Sight: Send + Sync {
    /// What the pool is on.
    type Medium: Medium;

    /// The invariant that a table contradicts where looks in vain do not end.
    const INVARIANT: &'static str;

    /// True if its units have depths.
    const HAS_DEPTHS: bool = true;

    /// That of the table in a map.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) for a geometry that cannot be.
    fn new(map: Place<Self::Medium>) -> Result<Self>
    where
        Self: Sized;

    /// The map.
    fn watch(&self) -> &Watch<Self::Medium>;

    /// As [`IndexBase::position`]: what the changes of a hash are counted by.
    fn position(&self, h: u64) -> u64 {
        h
    }

    /// The payload of `h`, which the caller validates by the counter of its [position](Self::position); `None` if the look was in vain.
    ///
    /// # Errors
    /// Errors of what was changed meanwhile, too.
    fn payload(&self, h: u64) -> Result<Option<Option<u64>>>;

    /// As [`IndexBase::scan`]; also the unit, and what is wrong in it. Its number counts for [`figures`](Self::figures).
    ///
    /// # Errors
    /// As [`IndexBase::scan`].
    fn unit(
        &self,
        at: u64,
        out: &mut Vec<(u64, u64)>,
        found: &mut Vec<Finding>,
    ) -> Result<(Unit, Option<u64>)>;

    /// Figures of these units, but for those of entries and depths; the deepest has this depth.
    fn figures(&self, units: &[Unit], depth: u32) -> IndexStats;
}

/// A reader beside the writer of a table. See the module docs in the source.
pub struct Onlooker<S>(S);

impl<S: Sight> Onlooker<S> {
    /// One of the table in `map`.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) for a geometry that cannot be.
    pub fn new(map: impl Into<Place<S::Medium>>) -> Result<Self> {
        Ok(Onlooker(S::new(map.into())?))
    }

    /// Calls `f` with each unit, how many entries it has, and what is wrong in it.
    fn each_unit(&self, mut f: impl FnMut(Unit, u64, Vec<Finding>)) -> Result<()> {
        let (mut at, mut slots) = (Some(0), Vec::new());
        while let Some(from) = at {
            slots.clear();
            let mut found = Vec::new();
            let (unit, next) = self.0.unit(from, &mut slots, &mut found)?;
            f(unit, slots.len() as u64, found);
            at = next;
        }
        Ok(())
    }
}

impl<S: Sight> IndexBase for Onlooker<S> {
    type Slot = u64;

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        self.0.unit(at, out, &mut Vec::new()).map(|(_, next)| next)
    }

    fn position(&self, h: u64) -> u64 {
        self.0.position(h)
    }

    fn len(&self) -> Result<u64> {
        let mut len = 0;
        self.each_unit(|_, slots, _| len += slots)?;
        Ok(len)
    }

    fn stats(&self) -> IndexStats {
        let (mut units, mut slots_used) = (Vec::new(), 0);
        let mut depths = vec![0; MAX_DEPTH as usize + 1];
        // Of all that can be read.
        let _ = self.each_unit(|unit, slots, _| {
            units.push(unit);
            slots_used += slots;
            depths[unit.depth() as usize] += 1;
        });
        let global_depth = units.iter().map(|unit| unit.depth()).max().unwrap_or(0);
        depths.truncate(if S::HAS_DEPTHS { global_depth as usize + 1 } else { 0 });
        let figures = self.0.figures(&units, global_depth);
        IndexStats { slots_used, global_depth, depths, ..figures }
    }

    /// Of each unit at a moment of its own, as far as that can be told there.
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let checked = self.each_unit(|_, _, all| all.into_iter().for_each(&mut *found));
        match checked {
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt { .. }) => {
                found(Finding::new(S::INVARIANT, 0, e.to_string()));
                Ok(())
            }
            checked => checked,
        }
    }
}

impl<S: Sight> Index for Onlooker<S> {
    fn get(&self, h: u64) -> Result<Option<u64>> {
        last_read(|f| self.read(h, f))
    }

    fn read(&self, h: u64, f: Reader<'_>) -> Result<()> {
        let watch = self.0.watch();
        operation(watch.medium(), || {
            watch.look(self.0.position(h), u64::BITS, |still| {
                let Some(payload) = self.0.payload(h)? else { return Ok(None) };
                // It may name a record in an extent that is new.
                watch.pool().follow()?;
                f(payload, still).map(Some)
            })
        })
    }

    fn update(&self, _h: u64, _room: Room, _f: Updater<'_>) -> Result<Option<u64>> {
        Err(Error::from(ErrorKind::ReadOnly).at_path(self.0.watch().medium().path()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use durahash_media::{Format, Geometry, Mapped, MappedOptions, Memory};

    use super::*;

    #[test]
    fn a_look_is_repeated_where_another_thread_follows_and_walks_count_anew_after_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let mut options = MappedOptions::default();
        options.readers = true;
        let geometry = Geometry { extent_shift: 12, ..Geometry::default() };
        let max_bytes = 1 << 24;
        let format = Format { seed: 7, ..Format::of_index(1, geometry, max_bytes) };
        let pool = Pool::create(Mapped::create(&path, &options).unwrap(), &format).unwrap();
        pool.publish().unwrap();
        pool.count_changes();
        let writer: Place<Mapped> = Arc::new(pool).into();
        let seen = Mapped::look_on(&path, None, &options).unwrap().unwrap();
        let watch = Watch::new(Arc::new(Pool::open(seen, false).unwrap()).into(), "damaged");

        let looks = Cell::new(0);
        let found = watch.look(7, u64::BITS, |_| {
            looks.set(looks.get() + 1);
            if looks.get() > 1 {
                return Ok(Some(looks.get()));
            }
            let len = watch.medium().region().len();
            while writer.pool().medium().region().len() == len {
                writer.take_unit_extent()?;
            }
            // As another thread would.
            assert!(watch.pool().follow()?);
            Err(Error::corrupt("beyond the end", len))
        });
        assert_eq!(found.unwrap(), 2);
        let damaged = watch.look::<()>(7, u64::BITS, |_| Err(Error::corrupt("damaged", 0)));
        assert!(matches!(damaged.unwrap_err().kind(), ErrorKind::Corrupt { .. }));

        let walks = Cell::new(0);
        let walk = |change_at: u32, found_at: u32| {
            walks.set(0);
            watch.look(7, u64::BITS, |_| {
                walks.set(walks.get() + 1);
                if walks.get() == change_at {
                    writer.pool().medium().changed(7, u64::BITS);
                }
                Ok((walks.get() == found_at).then_some(()))
            })
        };
        walk(WALKS, 2 * WALKS + 1).unwrap();
        assert!(walk(WALKS, 2 * WALKS + 2).is_err());
        assert!(walk(0, WALKS + 2).is_err());
    }
}
