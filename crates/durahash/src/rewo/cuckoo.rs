//! Moves: a slot goes to another bucket of its hash, so that its own is free.
//!
//! An insert that finds both of its buckets full looks for the fewest moves that make room: the slots
//! of both, their other buckets, and the slots of those. It looks without locks, and looks again under
//! them.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Result};

use super::Rewo;
use super::hold::Held;
use super::layout::{Bucket, Commit, Fingerprints};
use super::plan::RESERVED;

/// Room for a new slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// In this bucket, which is held.
    At(u64),
    /// Another writer was in the way.
    Busy,
    /// There is none.
    None,
}

impl<M: Medium> Rewo<M> {
    /// Whether a bucket has a free slot.
    fn has_room(&self, number: u64) -> Result<bool> {
        Ok(self.commit(self.bucket(number)?).count() < self.slots)
    }

    fn hash_at(&self, number: u64, slot: u32) -> Result<u64> {
        Ok(self.medium().load(&self.bucket(number)?.slots[slot as usize].h))
    }

    /// The slots of a bucket that are live, and their hashes. What no lookup finds, which damage left, is
    /// none.
    fn hashes(&self, number: u64) -> Result<impl Iterator<Item = (u32, u64)>> {
        let (medium, bucket) = (self.medium(), self.bucket(number)?);
        let live = BitMask(self.commit(bucket).live());
        let fingerprints = Fingerprints(medium.load(&bucket.fingerprints));
        let all = live.map(|slot| (slot, medium.load(&bucket.slots[slot as usize].h)));
        Ok(all.filter(move |(slot, h)| fingerprints.names(*slot, *h)))
    }

    /// The other bucket of a hash that is in one of a table; `None` where it does not belong there.
    fn other(&self, held: &Held<'_, M>, table: usize, h: u64, number: u64) -> Option<u64> {
        if held.plan.target(h) != table {
            return None;
        }
        match self.plans.pair(held.plan, table, self.remix.mix(h)) {
            [one, other] if one == number => Some(other),
            [one, other] if other == number => Some(one),
            _ => None,
        }
    }

    /// Makes room in one of two buckets, which are held and full, of the table that `h` goes to.
    pub(super) fn evict(&self, held: &mut Held<'_, M>, h: u64, pair: [u64; 2]) -> Result<Room> {
        let table = held.plan.target(h);
        if held.plan.is_resizing() && table != RESERVED {
            match self.evict_to_owner(held, table, pair)? {
                Room::None => {}
                made => return Ok(made),
            }
        }
        match self.evict_one(held, table, pair)? {
            Room::None => self.evict_two(held, table, pair),
            made => Ok(made),
        }
    }

    /// Migrates a slot that the new table owns.
    fn evict_to_owner(&self, held: &mut Held<'_, M>, table: usize, pair: [u64; 2]) -> Result<Room> {
        for number in pair {
            for (slot, h) in self.hashes(number)? {
                let owner = held.plan.target(h);
                if owner == table {
                    continue;
                }
                let to = self.plans.pair(held.plan, owner, self.remix.mix(h));
                if let Some(to) = self.choose(to)? {
                    if !held.try_take(to) {
                        return Ok(Room::Busy);
                    }
                    if !self.has_room(to)? {
                        return Ok(Room::Busy);
                    }
                    self.move_slot(held, (number, slot), to)?;
                    return Ok(Room::At(number));
                }
            }
        }
        Ok(Room::None)
    }

    fn evict_one(&self, held: &mut Held<'_, M>, table: usize, pair: [u64; 2]) -> Result<Room> {
        for number in pair {
            for (slot, h) in self.hashes(number)? {
                let Some(to) = self.other(held, table, h, number) else {
                    continue;
                };
                if self.has_room(to)? {
                    if !held.try_take(to) || !self.has_room(to)? {
                        return Ok(Room::Busy);
                    }
                    self.move_slot(held, (number, slot), to)?;
                    return Ok(Room::At(number));
                }
            }
        }
        Ok(Room::None)
    }

    fn evict_two(&self, held: &mut Held<'_, M>, table: usize, pair: [u64; 2]) -> Result<Room> {
        for number in pair {
            for (slot, h) in self.hashes(number)? {
                let Some(between) = self.other(held, table, h, number) else {
                    continue;
                };
                if pair.contains(&between) {
                    continue;
                }
                for (second, h) in self.hashes(between)? {
                    let Some(to) = self.other(held, table, h, between) else {
                        continue;
                    };
                    if !self.has_room(to)? {
                        continue;
                    }
                    let taken = held.try_take(between)
                        && held.try_take(to)
                        && self.has_room(to)?
                        && self.commit(self.bucket(between)?).live() & 1 << second != 0
                        && self.hash_at(between, second)? == h;
                    if !taken {
                        return Ok(Room::Busy);
                    }
                    self.move_slot(held, (between, second), to)?;
                    self.move_slot(held, (number, slot), between)?;
                    return Ok(Room::At(number));
                }
            }
        }
        Ok(Room::None)
    }

    /// Takes slots out of the commit word of a bucket, and flushes that.
    pub(super) fn clear(&self, bucket: &Bucket, commit: Commit) {
        let medium = self.medium();
        let gone = self.commit(bucket).live() & !commit.live();
        medium.store(&bucket.commit, commit.0);
        if M::SAME_LINE_ORDER {
            // Their fingerprints, never durable before the commit. They matter for damage only.
            let wrong = Fingerprints(medium.load(&bucket.fingerprints)).without(gone);
            medium.store(&bucket.fingerprints, wrong.0);
        }
        medium.flush(&bucket.commit);
    }

    /// Drops a slot of a bucket that is held: there is another for its hash, or no lookup finds it.
    pub(super) fn drop_slot(&self, held: &mut Held<'_, M>, number: u64, slot: u32) -> Result<()> {
        let (medium, bucket) = (self.medium(), self.bucket(number)?);
        held.exclude_readers(number);
        self.clear(bucket, self.commit(bucket).without(slot));
        medium.fence();
        Ok(())
    }

    /// Moves a slot to another bucket, which has room; both are held.
    pub(super) fn move_slot(
        &self,
        held: &mut Held<'_, M>,
        (number, slot): (u64, u32),
        to: u64,
    ) -> Result<()> {
        let medium = self.medium();
        let (from, target) = (self.bucket(number)?, self.bucket(to)?);
        let words = &from.slots[slot as usize];
        let (h, payload) = (medium.load(&words.h), medium.load(&words.payload));
        medium.store(&from.commit, self.commit(from).with_leaving(slot).0);
        medium.flush(&from.commit);
        let free = self.fill(to, h, payload)?;
        medium.fence();
        medium.store(&target.commit, self.commit(target).with(free).0);
        medium.flush(&target.commit);
        medium.fence();
        self.drop_slot(held, number, slot)
    }
}
