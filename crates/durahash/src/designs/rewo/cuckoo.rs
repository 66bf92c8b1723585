//! Moves: a slot goes to another bucket of its hash, so that its own is free.
//!
//! An insert that finds both of its buckets full looks for the fewest moves that make room: the slots
//! of both, their other buckets, and the slots of those. It looks without locks, and looks again under
//! them.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Result};

use super::Rewo;
use super::layout::{BUCKET_BYTES, Bucket, Commit, Fingerprints};
use super::locks::{Locks, MOVES};
use super::planted::{Fault, planted};
use super::tables::{Places, RESERVED};

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

/// Slots of one bucket that go to others together.
pub(super) struct Moves {
    from: u64,
    all: [Move; MOVES],
    count: usize,
}

/// A slot whose copy is in a slot that is not live yet.
#[derive(Clone, Copy, Default)]
struct Move {
    h: u64,
    slot: u32,
    to: u64,
    free: u32,
}

impl Moves {
    pub(super) fn new(from: u64) -> Self {
        Moves { from, all: [Move::default(); MOVES], count: 0 }
    }

    fn all(&self) -> &[Move] {
        &self.all[..self.count]
    }

    fn add(&mut self, one: Move) {
        self.all[self.count] = one;
        self.count += 1;
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn is_full(&self) -> bool {
        self.count == MOVES
    }

    /// True if a slot of this hash is among them.
    pub(super) fn has(&self, h: u64) -> bool {
        self.all().iter().any(|one| one.h == h)
    }

    /// The slots that go.
    fn slots(&self) -> u16 {
        self.all().iter().fold(0, |slots, one| slots | 1 << one.slot)
    }

    /// Slots of a bucket that they fill.
    pub(super) fn taken_of(&self, bucket: u64) -> u16 {
        self.all().iter().filter(|one| one.to == bucket).fold(0, |taken, one| taken | 1 << one.free)
    }
}

impl<M: Medium> Rewo<M> {
    /// True if a bucket has a free slot.
    fn has_room(&self, number: u64) -> Result<bool> {
        Ok(self.commit(self.bucket(number)?).count() < self.slots)
    }

    fn hash_at(&self, number: u64, slot: u32) -> Result<u64> {
        Ok(self.medium().load(&self.bucket(number)?.slots[slot as usize].h))
    }

    /// The slots of a bucket that are live, and their hashes. A slot that no lookup finds, or that is not
    /// used, both of which damage left, is none: its removal makes no room.
    fn hashes(&self, number: u64) -> Result<impl Iterator<Item = (u32, u64)>> {
        let (medium, bucket) = (self.medium(), self.bucket(number)?);
        let commit = self.commit(bucket);
        let live = BitMask(commit.live() & self.used);
        let fingerprints = Fingerprints(medium.load(&bucket.fingerprints));
        let all = live.map(|slot| (slot, medium.load(&bucket.slots[slot as usize].h)));
        Ok(all.filter(move |(slot, h)| fingerprints.names(commit, *slot, *h)))
    }

    /// The other bucket of a hash that is in one of a table; `None` where it does not belong there.
    fn other(&self, held: &Locks<'_, M>, table: usize, h: u64, number: u64) -> Option<u64> {
        if held.view.target(h) != table {
            return None;
        }
        match self.live_tables.pair(held.view, table, self.remix.mix(h)) {
            [one, other] if one == number => Some(other),
            [one, other] if other == number => Some(one),
            _ => None,
        }
    }

    /// Makes room in one of two buckets, which are held and full, of the table that `h` goes to.
    pub(super) fn evict(&self, held: &mut Locks<'_, M>, h: u64, pair: [u64; 2]) -> Result<Room> {
        let table = held.view.target(h);
        if held.view.is_resizing() && table != RESERVED {
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
    fn evict_to_owner(
        &self,
        held: &mut Locks<'_, M>,
        table: usize,
        pair: [u64; 2],
    ) -> Result<Room> {
        for number in pair {
            for (slot, h) in self.hashes(number)? {
                let (owner, remixed) = (held.view.target(h), self.remix.mix(h));
                let to = self.live_tables.pair(held.view, owner, remixed);
                // A slot that damage left here, or twice, does not come back to where lookups find it.
                let is_found =
                    || self.live_tables.places(held.view, h, remixed).all().contains(&number);
                if owner == table || !is_found() || self.probe_all(h, &Places::of(to))?.is_some() {
                    continue;
                }
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

    fn evict_one(&self, held: &mut Locks<'_, M>, table: usize, pair: [u64; 2]) -> Result<Room> {
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

    fn evict_two(&self, held: &mut Locks<'_, M>, table: usize, pair: [u64; 2]) -> Result<Room> {
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
        if medium.same_line_order() {
            // Their fingerprints, never durable before the commit. They matter for damage only.
            let wrong = Fingerprints(medium.load(&bucket.fingerprints)).without(gone);
            medium.store(&bucket.fingerprints, wrong.0);
        }
        medium.flush(&bucket.commit);
    }

    /// Drops slots of a bucket that is held: there are others for their hashes, or no lookup finds them.
    pub(super) fn drop_slots(
        &self,
        held: &mut Locks<'_, M>,
        number: u64,
        slots: u16,
    ) -> Result<()> {
        let (medium, bucket) = (self.medium(), self.bucket(number)?);
        held.exclude_readers(number);
        self.clear(bucket, BitMask(slots).fold(self.commit(bucket), Commit::without));
        medium.fence();
        Ok(())
    }

    /// Moves a slot to another bucket, which has room; both are held.
    pub(super) fn move_slot(
        &self,
        held: &mut Locks<'_, M>,
        (number, slot): (u64, u32),
        to: u64,
    ) -> Result<()> {
        let mut moves = Moves::new(number);
        self.copy_slot(&mut moves, slot, to)?;
        self.retire(held, &mut moves)
    }

    /// Begins a move, to a bucket which has room besides what goes there already; both are held.
    pub(super) fn copy_slot(&self, moves: &mut Moves, slot: u32, to: u64) -> Result<()> {
        let words = &self.bucket(moves.from)?.slots[slot as usize];
        let (h, payload) = (self.medium().load(&words.h), self.medium().load(&words.payload));
        let free = self.fill((to, moves.taken_of(to)), h, payload)?;
        moves.add(Move { h, slot, to, free });
        Ok(())
    }

    /// Counts moves for readers in other processes (`onlooker.rs`), when both copies are live.
    #[inline(always)]
    fn count_moves(&self, moves: &Moves) {
        if let Some(changes) = self.medium().changes().filter(|_| !planted(Fault::MoveUncounted)) {
            for one in moves.all() {
                changes.raise_moves(self.remix.mix(one.h), u64::BITS);
            }
        }
    }

    /// Ends the moves that were begun: three fences, however many they are.
    pub(super) fn retire(&self, held: &mut Locks<'_, M>, moves: &mut Moves) -> Result<()> {
        if moves.count == 0 {
            return Ok(());
        }
        let (medium, from) = (self.medium(), self.bucket(moves.from)?);
        let slots = moves.slots();
        self.pool.touch(moves.from * BUCKET_BYTES);
        if !planted(Fault::Unmarked) {
            medium.store(
                &from.commit,
                BitMask(slots).fold(self.commit(from), Commit::with_leaving).0,
            );
        }
        medium.flush(&from.commit);
        medium.fence();
        if planted(Fault::ClearedFirst) {
            self.drop_slots(held, moves.from, slots)?;
        }
        for one in moves.all() {
            let target = self.bucket(one.to)?;
            medium.store(&target.commit, self.commit(target).with(one.free, one.h).0);
            medium.flush(&target.commit);
        }
        medium.fence();
        self.count_moves(moves);
        self.drop_slots(held, moves.from, slots)?;
        moves.count = 0;
        Ok(())
    }
}
