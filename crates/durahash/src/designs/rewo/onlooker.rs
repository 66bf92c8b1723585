//! Readers of a table that another process writes: what they see of Rewo-Hash (`designs/onlooker.rs` has the rest).
//!
//! They see the root, the block of tables and the buckets; neither locks, nor how far a resize has come, nor copies. A lookup reads
//! root and block, and then all buckets of its hash in the tables that these name: two, in a resize four or six.
//!
//! # What the writer counts
//! By positions (`scan.rs`), so that those of a unit have counters in a row.
//! - **ON-1** An insert, an update, a remove: its position. After the last store, before a lock is released.
//! - **ON-2** A move: its position, as a move. When both copies are live, before the one that leaves is cleared.
//! - **ON-3** Another block of tables: all positions, as moves. After the root names it; before an operation goes by it, so before a
//!   slot is where the block before does not say; before that is written over, and before the extents of a table are given back.
//! - **ON-4** What breaks off or meets damage, and what is mended: all positions, as moves, before locks are released. A slot that is dropped as damaged: as ON-1.
//!
//! # Why a lookup is right
//! It reads the counter of the position of its hash `h`, finds the tables, and reads of each bucket the commit word, then the
//! fingerprints, then `h` of each slot that may have it; then, if one has it, the commit word again, by which the slot must be
//! live; then the payload; then the counter again. If that is the same, at most one operation on `h` has stored meanwhile: they
//! hold the locks of all its buckets, of which a move holds two. What was found is what that one had left:
//!
//! | the writer stores | a reader that comes then | why that is right |
//! |---|---|---|
//! | a block written aside | sums what the root names, which is another block; or is late, and ON-3 told before | what is no block fails its sum, and is looked at again |
//! | root word: a resize has begun | goes by the tables before, or by all of them and the new one | nothing is in the new one before ON-3, and each place that was is one still, in each kind of resize |
//! | root word: it has ended, or come further | the same places or fewer | nothing is left in the others, nothing comes back, and they stay as they are until ON-3 |
//! | payload, `h`, fingerprint of a slot that is not live, in any order | passes by; or has found the slot live before, when it was another entry's, and finds `h`: then the slot is not live when it asks, and it looks again | where it is live when it asks, see below |
//! | commit word with the slot | the entry or not | one word; what it says of `h` is there before, by a fence |
//! | payload (update) | one or the other | one word |
//! | commit word without the slot, then its fingerprint | has loaded the commit word before, and finds the entry, or misses it by its fingerprint | removed and not, at once: it is not counted yet |
//! | a move: marks the slot; the copy and its commit word, **ON-2**, then the commit word of its bucket without it | has looked into the new bucket before the copy, and into the old one behind, and finds it in neither: ON-2 came between; or finds one of both, which have one payload | while both are live no other operation has the locks of `h`; an update behind that is counted, and ON-2 told of the copy that went |
//! | anything, into a table that was given up | is late, and ON-3 told | |
//!
//! *Of a slot that has `h` and is live when the reader asks behind that, the payload that is loaded then is one of `h`.* If the slot's life
//! at that moment is one of `h`, its payload was there before the commit word, and stays until the slot is filled for another entry. By then
//! that life has ended, by a remove or a move, which was counted before the lock of the bucket was released, and so before the slot was filled: the
//! counter is another one. If the life is one of another hash, the slot had `h` in a life of `h` before that one, as what fills a slot commits it
//! before it lets go of the lock, or ON-4 tells, and the same holds of the end of that. The order of the three loads is what this rests on: with the
//! payload before the commit word, a processor that lets the two stores past its caches be seen in any order would show the payload of
//! the entry before.
//!
//! A hash that is there throughout is in one slot at each moment, but for moves, and what its bucket says of it stays, whatever other entries do: so it is found.
//!
//! # Why a walk is right
//! A unit is what has the same first bits of its position, as many as tell the regions of the largest table apart; it lies in up
//! to 512 buckets of each table, too many to be read while nothing in them changes. So each slot is looked at by itself, as a lookup that
//! found it does, and counters of moves tell of the rest. There is one for each part of the positions, 1/4096 of all; the walk loads those of the unit,
//! then finds the tables, reads all buckets, and loads the counters again. A part of which one is the same is done: an entry of it that is there throughout
//! was in one bucket while that was read, in tables that were right, or in two with one payload, and was found. One that left a bucket before that was read
//! was in another one, where it was live before ON-2; where that was read before, ON-2 came between. The other parts are read again,
//! and they only: after a pass or two there are none, though slots move all the time while a resize goes on. Tables whose regions are of another
//! size begin the unit anew. One that was removed and inserted again may be met twice; then a lookup tells.
//!
//! # Limits
//! Where the tables are replaced faster than a unit is read, a walk begins again and again. `check` sees a slot of another region than its bucket's
//! where the region's first unit is read.

use durahash_media::hash::{self, WordMix};
use durahash_media::probe::BitMask;
use durahash_media::{Event, Medium, Place, Result};

use super::block::{block_words, remix_of, tables_in};
use super::layout::{self, BUCKET_BYTES, Bucket, Commit, Fingerprints, SLOTS};
use super::planted::{Fault, planted};
use super::tables::{Table, TableSet, next_unit};
use crate::designs::onlooker::{Sight, Watch};
use crate::designs::{one_of_each, slots_of};
use crate::extendible::unit::Unit;
use crate::index::{Finding, IndexStats, RewoStats};

/// What readers in other processes see of a table.
pub struct Buckets<M: Medium> {
    watch: Watch<M>,
    remix: WordMix,
    slots: u32,
}

/// What a slot has, if it is live.
enum Seen {
    Payload(u64),
    /// What no lookup finds.
    Lost,
}

/// What a walk has of a unit so far.
struct Walk {
    at: u64,
    bits: u32,
    /// Parts of the unit that are to be read.
    left: Vec<bool>,
    /// Each with its part.
    slots: Vec<(usize, (u64, u64))>,
    findings: Vec<(usize, Finding)>,
}

impl Walk {
    fn part(&self, position: u64) -> usize {
        hash::prefix(position << self.bits, self.left.len().ilog2()) as usize
    }

    /// The part with which a slot in a bucket of a table is to be given, and `true` if it belongs into that region.
    fn wants(&self, table: Table, number: u64, position: u64) -> Option<(usize, bool)> {
        let prefix = |position| hash::prefix(position, self.bits);
        let is_first = prefix(self.at) % (1 << (self.bits - table.region_bits())) == 0;
        let (part, belongs) = if prefix(position) == prefix(self.at) {
            (self.part(position), position >= self.at)
        } else if is_first && !table.region_numbers(position).contains(&number) {
            (0, false)
        } else {
            return None;
        };
        self.left[part].then_some((part, belongs))
    }
}

impl<M: Medium> Buckets<M> {
    /// Which tables there are; `None` where the look was in vain.
    fn tables(&self) -> Result<Option<TableSet>> {
        let map = &self.watch.map;
        let Some(number) = layout::block_of(self.remix, map.root(layout::ROOT)?) else {
            return Ok(None);
        };
        Ok(block_words(map, number)?.and_then(|words| tables_in(map, &words)))
    }

    fn bucket(&self, number: u64) -> Result<&Bucket> {
        self.watch.pool().at(number.wrapping_mul(BUCKET_BYTES))
    }

    fn commit(&self, bucket: &Bucket) -> Commit {
        Commit(self.watch.medium().load(&bucket.commit))
    }

    fn is_live(&self, bucket: &Bucket, slot: u32) -> bool {
        self.commit(bucket).live() & 1 << slot != 0
    }

    /// The payload of `h` in one bucket, if it is there; `None` where the look was in vain.
    fn payload_in(&self, h: u64, bucket: &Bucket) -> Option<Option<u64>> {
        let medium = self.watch.medium();
        let commit = self.commit(bucket);
        let fingerprints = Fingerprints(medium.load(&bucket.fingerprints));
        for slot in fingerprints.candidates(commit, h) {
            let words = &bucket.slots[slot as usize];
            if medium.load(&words.h) == h {
                let is_live = self.is_live(bucket, slot);
                return is_live.then(|| Some(medium.load(&words.payload)));
            }
        }
        Some(None)
    }

    /// What one slot of a bucket has of `h`; `None` if nothing.
    fn see(&self, tables: &TableSet, (number, slot): (u64, u32), h: u64) -> Result<Option<Seen>> {
        let position = self.remix.mix(h);
        self.watch.look(position, u64::BITS, |_| {
            let (medium, bucket) = (self.watch.medium(), self.bucket(number)?);
            let words = &bucket.slots[slot as usize];
            let is_of_h = medium.load(&words.h) == h;
            let commit = self.commit(bucket);
            if !is_of_h || commit.live() & 1 << slot == 0 {
                return Ok(Some(None));
            }
            let payload = medium.load(&words.payload);
            let fingerprints = Fingerprints(medium.load(&bucket.fingerprints));
            let is_found = fingerprints.names(commit, slot, h)
                && tables.places(h, position).any(|place| place == number);
            if is_found {
                return Ok(Some(Some(Seen::Payload(payload))));
            }
            // A remove makes a fingerprint wrong after it has cleared the slot.
            Ok(Some(self.is_live(bucket, slot).then_some(Seen::Lost)))
        })
    }

    /// Takes what a bucket of a table has of the parts that a walk is to read.
    fn see_bucket(
        &self,
        tables: &TableSet,
        (table, number): (Table, u64),
        walk: &mut Walk,
    ) -> Result<()> {
        let bucket = self.bucket(number)?;
        for slot in BitMask(self.commit(bucket).live()) {
            let h = self.watch.medium().load(&bucket.slots[slot as usize].h);
            let Some((part, belongs)) = walk.wants(table, number, self.remix.mix(h)) else {
                continue;
            };
            match self.see(tables, (number, slot), h)? {
                Some(Seen::Payload(payload)) if belongs => {
                    walk.slots.push((part, (h, payload)));
                }
                Some(Seen::Lost) => {
                    let what = format!("no lookup finds {h:#018x} in slot {slot}");
                    let finding = Finding::new("REWO-2", number * BUCKET_BYTES, what);
                    walk.findings.push((part, finding));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a unit until nothing moved in any part of it.
    fn walk(&self, at: u64) -> Result<Walk> {
        let (medium, changes) = (self.watch.medium(), self.watch.changes()?);
        let moves = |bits| changes.moves(at, bits).collect::<Vec<_>>();
        let anew = |bits| {
            let left = vec![true; moves(bits).len()];
            Walk { at, bits, left, slots: Vec::new(), findings: Vec::new() }
        };
        let mut walk = anew(0);
        while walk.left.contains(&true) {
            let (len, before) = (medium.region().len(), moves(walk.bits));
            let tables = self.watch.look(at, u64::BITS, |_| self.tables())?;
            if tables.region_bits() != walk.bits {
                walk = anew(tables.region_bits());
                continue;
            }
            let done = tables.all().try_for_each(|(_, table)| {
                let mut numbers = table.region_numbers(at);
                numbers.try_for_each(|number| self.see_bucket(&tables, (table, number), &mut walk))
            });
            medium.event(Event::Look);
            let after = moves(walk.bits);
            self.watch.pool().check_writer()?;
            let mut is_done: Vec<_> = before.iter().zip(&after).map(|(a, b)| a == b).collect();
            if planted(Fault::MovedUnseen) {
                is_done.fill(true);
            }
            if let Err(e) = done {
                // Of what was replaced meanwhile, or lies behind what was mapped.
                if before == after && !self.watch.pool().follow()? && medium.region().len() == len {
                    return Err(e);
                }
                is_done.fill(false);
            }
            let Walk { left, slots, findings, .. } = &mut walk;
            left.iter_mut().zip(&is_done).for_each(|(left, is_done)| *left &= !is_done);
            slots.retain(|(part, _)| !left[*part]);
            findings.retain(|(part, _)| !left[*part]);
            medium.event(Event::Wait);
        }
        Ok(walk)
    }
}

impl<M: Medium> Sight for Buckets<M> {
    type Medium = M;

    const INVARIANT: &'static str = "REWO-1";

    const HAS_DEPTHS: bool = false;

    fn new(map: Place<M>) -> Result<Self> {
        let slots = slots_of(map.format(), SLOTS, "Rewo-Hash has 2 to 15 slots a bucket")?;
        let remix = remix_of(map.format().seed);
        Ok(Buckets { watch: Watch::new(map, "the block of tables"), remix, slots })
    }

    fn watch(&self) -> &Watch<M> {
        &self.watch
    }

    fn position(&self, h: u64) -> u64 {
        self.remix.mix(h)
    }

    fn payload(&self, h: u64) -> Result<Option<Option<u64>>> {
        let Some(tables) = self.tables()? else { return Ok(None) };
        for number in tables.places(h, self.remix.mix(h)) {
            match self.payload_in(h, self.bucket(number)?) {
                Some(None) => {}
                found => return Ok(found),
            }
        }
        Ok(Some(None))
    }

    /// Verifies REWO-2.
    fn unit(
        &self,
        at: u64,
        out: &mut Vec<(u64, u64)>,
        found: &mut Vec<Finding>,
    ) -> Result<(Unit, Option<u64>)> {
        let Walk { slots, findings, bits, .. } = self.walk(at)?;
        let mut slots: Vec<_> = slots.into_iter().map(|(_, slot)| slot).collect();
        slots.sort_unstable_by_key(|(h, _)| self.remix.mix(*h));
        one_of_each(&mut slots, |h| {
            self.watch.look(self.remix.mix(h), u64::BITS, |_| self.payload(h))
        })?;
        out.append(&mut slots);
        found.extend(findings.into_iter().map(|(_, finding)| finding));
        Ok((Unit::new(0, 0), next_unit(at, bits)))
    }

    fn figures(&self, _units: &[Unit], _depth: u32) -> IndexStats {
        let tables = self.watch.look(0, u64::BITS, |_| self.tables());
        let Ok(tables) = tables else { return IndexStats::default() };
        let buckets: u64 = tables.all().map(|(_, table)| table.buckets()).sum();
        IndexStats {
            slots: buckets * u64::from(self.slots),
            medium_bytes: buckets * BUCKET_BYTES + self.watch.pool().extent_bytes(),
            rewo: Some(RewoStats { tables: tables.all().count() as u64, ..RewoStats::default() }),
            ..IndexStats::default()
        }
    }
}
