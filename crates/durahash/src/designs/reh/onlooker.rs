//! Readers of a table that another process writes.
//!
//! An onlooker sees the buckets, the array of words and the roots, and the [counters of
//! changes](durahash_media::Changes); neither directory, nor fingerprints, nor locks, which are in the writer's DRAM.
//! A lookup begins with the array's word at or before its hash, or with the first bucket, and walks along the
//! siblings, as recovery does. It keeps nothing from one lookup to the next.
//!
//! # What the writer counts
//! - **ON-1** An insert, an update, a remove: its hash. A split or merge: all hashes of the bucket that is split, or
//!   comes of it. After the last store, before a lock is released.
//! - **ON-2** Another array of words: all hashes, before the directory's lock is released, and before the old array's
//!   extents are given back.
//! - **ON-3** An extent of buckets that is given back: all hashes, before.
//! - **ON-4** A bucket that is taken for a split gets link 0 before its prefix is stored, and its new link last.
//!
//! # Why a lookup is right
//! It reads the counter of its hash `h`, then root, word, and of each bucket {link, prefix, link again}, which must
//! be one link, sound, with the prefix where the bucket before ends; then the slots of the bucket that covers `h`;
//! then the counter again. If that is the same:
//!
//! 1. *Each bucket that it came to was on the chain at some moment since the first look at the counter, and began
//!    where it should.* The first bucket never changes. A word names a bucket of the chain at every moment (REH-7);
//!    in an array that was given up it may not, and ON-2 tells. From a bucket that was on the chain one reads a link
//!    that was right then or later, or that it had when it left the chain, which was later, too. If it left the chain
//!    and was taken again, prefix and link are of one use (ON-4), and a use for the same prefix has the link that its
//!    lower half had, which was on the chain. A use for anything else has another prefix, or is told by ON-3.
//! 2. *The last one covered `h` at such a moment.* A bucket that begins at a prefix is the upper of a split when it
//!    comes to the chain, and of a merge when it leaves it, at the same depth, the least that this prefix can have.
//!    So if it left the chain since that moment, and was taken again to cover `h` by its words, it covered `h` when
//!    it left, and ON-1 tells. If it left the chain and was not taken again, its slots are what they were, and no
//!    operation on `h` was finished since, or ON-1 tells.
//! 3. *At most one operation on `h` has stored since.* Operations on `h` hold the lock of the bucket that covers it,
//!    and ON-1. Within one: an insert stores payload, then `h`; an update one word; a remove one word. A split leaves
//!    `h` in the lower bucket, and has it in the upper before the link; a merge has it in the lower before the link,
//!    and leaves it in the upper. So a key that is there throughout is in the slots that are read, whichever bucket
//!    that was, and a slot of `h` has a payload of `h`.
//!
//! Records are named by slots, and given back after the operation that took the name away: what was copied between
//! the two looks at the counter is whole. An onlooker verifies the checksum of each.
//!
//! A writer that is killed leaves counters that no longer change, and at most one operation half done for each of its
//! threads: by the same reasons every lookup is right. The next writer stores another state word first, which each
//! lookup looks at last.
//!
//! # Limits
//! A hash that is changed without pause may keep its readers looking. An insert is seen here when its `h` is stored, a
//! moment before it is seen in its own process. The changes of a batch are seen one by one.

use std::sync::Arc;

use durahash_media::{Error, ErrorKind, Event, Medium, Place, Pool, Result, bits};

use super::layout::{BUCKET_BYTES, Bucket, Link, ROOT};
use super::words::Words;
use crate::extendible::extend::{self, MAX_DEPTH};
use crate::index::{
    Finding, Index, IndexBase, IndexStats, Reader, Room, Updater, last_read, operation,
};

/// Walks in vain, one after the other, with nothing changed meanwhile, before the chain is called damaged: one may come to a bucket that is
/// taken for a split elsewhere.
const WALKS: u32 = 1000;

/// Looks before the thread lets others go on.
const LOOKS: u32 = 16;

/// A reader beside the writer of a table. See the module docs in the source.
pub struct Onlooker<M: Medium> {
    pool: Arc<Pool<M>>,
    map: Place<M>,
    words: Words,
}

/// A bucket that covers a hash, as a walk has found it.
struct Unit<'a> {
    bucket: &'a Bucket,
    prefix: u64,
    depth: u32,
}

impl<M: Medium> Onlooker<M> {
    /// One of the table in `map`.
    pub fn new(map: impl Into<Place<M>>) -> Self {
        let map = map.into();
        let pool = Arc::clone(map.pool());
        let words = Words::new(&map);
        Onlooker { pool, map, words }
    }

    fn medium(&self) -> &M {
        self.pool.medium()
    }

    /// Looks until no change of the hashes that begin like `h` in `depth` bits came between; `None` of a look is one
    /// in vain. It is told how to ask whether that is so until now.
    fn look<T>(
        &self,
        h: u64,
        depth: u32,
        mut look: impl FnMut(&dyn Fn() -> bool) -> Result<Option<T>>,
    ) -> Result<T> {
        let medium = self.medium();
        let changes = medium.changes().ok_or(ErrorKind::Locked)?;
        let (mut looks, mut walks) = (0_u32, 0);
        loop {
            let before = changes.of(h, depth);
            // Another thread may come to follow the writer during this look, which then finds nothing left to follow.
            let len = medium.region().len();
            medium.event(Event::Look);
            let still = || changes.of(h, depth) == before;
            let done = look(&still);
            medium.event(Event::Look);
            let is_still = still();
            self.pool.check_writer()?;
            if is_still {
                match done {
                    Ok(Some(found)) => return Ok(found),
                    Ok(None) if walks < WALKS => walks += 1,
                    Ok(None) => return Err(Error::corrupt("the chain of buckets is broken", 0)),
                    Err(e) if !self.pool.follow()? && medium.region().len() == len => {
                        return Err(e);
                    }
                    Err(_) => {}
                }
            } else {
                walks = 0;
            }
            medium.event(Event::Wait);
            looks = looks.saturating_add(1);
            if looks > LOOKS {
                std::thread::yield_now();
            }
        }
    }

    /// Where a walk to `h` begins, and its first bucket.
    fn start(&self, h: u64) -> Result<(u64, u64)> {
        let array = self.words.named(&self.map)?;
        let depth = bits(array, 0, 6) as u32;
        let mut from = if depth == 0 { 0 } else { extend::prefix(h, depth) };
        while from != 0 {
            if let Some(number) = self.words.get_of(&self.map, array, from)? {
                return Ok((from, number));
            }
            from -= extend::span(depth);
        }
        Ok((0, self.map.root(ROOT)?))
    }

    /// The bucket that covers `h`, as it is linked from those before it; `None` where one of these leads nowhere.
    fn unit(&self, h: u64) -> Result<Option<Unit<'_>>> {
        let medium = self.medium();
        let (mut at, mut number) = self.start(h)?;
        loop {
            let bucket: &Bucket = self.pool.at(number * BUCKET_BYTES)?;
            let word = medium.load(&bucket.link);
            let prefix = medium.load(&bucket.prefix);
            let is_one = prefix == at && medium.load(&bucket.link) == word;
            let link = Link::from_word(word).filter(|_| is_one);
            let Some(Link { depth, sibling }) =
                link.filter(|link| extend::prefix(at, link.depth) == at)
            else {
                return Ok(None);
            };
            match extend::next(at, depth) {
                Some(next) if next <= h => (at, number) = (next, sibling),
                _ => return Ok(Some(Unit { bucket, prefix, depth })),
            }
        }
    }

    fn payload(&self, h: u64, unit: &Unit<'_>) -> Option<u64> {
        let medium = self.medium();
        let slot = unit.bucket.slots.iter().find(|slot| medium.load(&slot.h) == h)?;
        Some(medium.load(&slot.payload))
    }

    /// Appends the slots of the bucket that covers `at`, from there on; its depth, and where the next one begins.
    fn unit_slots(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<(u32, Option<u64>)> {
        let (medium, from) = (self.medium(), out.len());
        let mut depth = MAX_DEPTH;
        loop {
            let looked = self.look(at, depth, |_| {
                out.truncate(from);
                let Some(unit) = self.unit(at)? else { return Ok(None) };
                if unit.depth < depth {
                    return Ok(Some(Err(unit.depth)));
                }
                let slots = unit.bucket.slots.iter();
                let slots = slots.map(|slot| (medium.load(&slot.h), medium.load(&slot.payload)));
                let is_live = |h| h >= at && extend::covers(unit.prefix, unit.depth, h);
                out.extend(slots.filter(|(h, _)| is_live(*h)));
                Ok(Some(Ok((unit.depth, extend::next(unit.prefix, unit.depth)))))
            });
            match looked? {
                Ok(found) => {
                    out[from..].sort_unstable();
                    return Ok(found);
                }
                // It has more hashes than were asked about.
                Err(wider) => depth = wider,
            }
        }
    }

    /// Calls `f` with the depth and the slots of each bucket.
    fn each_unit(&self, mut f: impl FnMut(u32, &[(u64, u64)])) -> Result<()> {
        let (mut at, mut slots) = (Some(0), Vec::new());
        while let Some(from) = at {
            slots.clear();
            let (depth, next) = self.unit_slots(from, &mut slots)?;
            f(depth, &slots);
            at = next;
        }
        Ok(())
    }
}

impl<M: Medium> IndexBase for Onlooker<M> {
    type Slot = u64;

    fn scan(&self, at: u64, out: &mut Vec<(u64, u64)>) -> Result<Option<u64>> {
        self.unit_slots(at, out).map(|(_, next)| next)
    }

    fn len(&self) -> Result<u64> {
        let mut len = 0;
        self.each_unit(|_, slots| len += slots.len() as u64)?;
        Ok(len)
    }

    fn stats(&self) -> IndexStats {
        let mut stats =
            IndexStats { depths: vec![0; MAX_DEPTH as usize + 1], ..Default::default() };
        // Of all that can be read.
        let _ = self.each_unit(|depth, slots| {
            stats.slots_used += slots.len() as u64;
            stats.slots += super::layout::SLOTS as u64;
            stats.medium_bytes += BUCKET_BYTES;
            stats.global_depth = stats.global_depth.max(depth);
            stats.depths[depth as usize] += 1;
        });
        stats.depths.truncate(stats.global_depth as usize + 1);
        stats
    }

    /// Of each bucket, at one moment of its own: REH-1 and REH-3.
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let checked = self.each_unit(|_, slots| {
            for pair in slots.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
                let what = format!("two slots of hash {:#018x}", pair[0].0);
                found(Finding::new("REH-3", 0, what));
            }
        });
        match checked {
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt { .. }) => {
                found(Finding::new("REH-1", 0, e.to_string()));
                Ok(())
            }
            checked => checked,
        }
    }
}

impl<M: Medium> Index for Onlooker<M> {
    fn get(&self, h: u64) -> Result<Option<u64>> {
        last_read(|f| self.read(h, f))
    }

    fn read(&self, h: u64, f: Reader<'_>) -> Result<()> {
        operation(self.medium(), || {
            self.look(h, u64::BITS, |still| {
                let Some(unit) = self.unit(h)? else { return Ok(None) };
                let payload = self.payload(h, &unit);
                // It may name a record in an extent that is new.
                self.pool.follow()?;
                f(payload, still).map(Some)
            })
        })
    }

    fn update(&self, _h: u64, _room: Room, _f: Updater<'_>) -> Result<Option<u64>> {
        Err(Error::from(ErrorKind::ReadOnly).at_path(self.medium().path()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use durahash_media::{Format, Geometry, Mapped, MappedOptions, Memory};

    use super::*;

    #[test]
    fn a_look_is_repeated_where_another_thread_follows_and_walks_count_anew_after_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        let mut options = MappedOptions::default();
        options.readers = true;
        let geometry = Geometry { extent_shift: 12, ..Geometry::default() };
        let (kind, cells, key_type, value_type) = (0, false, 0, 0);
        let (seed, max_bytes) = (7, 1 << 24);
        let format =
            Format { design: 1, kind, cells, key_type, value_type, geometry, seed, max_bytes };
        let pool = Pool::create(Mapped::create(&path, &options).unwrap(), &format).unwrap();
        pool.publish().unwrap();
        pool.count_changes();
        let writer: Place<Mapped> = Arc::new(pool).into();
        let seen = Mapped::look_on(&path, None, &options).unwrap().unwrap();
        let onlooker = Onlooker::new(Arc::new(Pool::open(seen, false).unwrap()));

        let looks = Cell::new(0);
        let found = onlooker.look(7, u64::BITS, |_| {
            looks.set(looks.get() + 1);
            if looks.get() > 1 {
                return Ok(Some(looks.get()));
            }
            let len = onlooker.medium().region().len();
            while writer.pool().medium().region().len() == len {
                writer.take_unit_extent()?;
            }
            // As another thread would.
            assert!(onlooker.pool.follow()?);
            Err(Error::corrupt("beyond the end", len))
        });
        assert_eq!(found.unwrap(), 2);
        let damaged = onlooker.look::<()>(7, u64::BITS, |_| Err(Error::corrupt("damaged", 0)));
        assert!(matches!(damaged.unwrap_err().kind(), ErrorKind::Corrupt { .. }));

        let walks = Cell::new(0);
        let walk = |change_at: u32, found_at: u32| {
            walks.set(0);
            onlooker.look(7, u64::BITS, |_| {
                walks.set(walks.get() + 1);
                if walks.get() == change_at {
                    writer.pool().medium().changes().unwrap().raise(7, u64::BITS);
                }
                Ok((walks.get() == found_at).then_some(()))
            })
        };
        walk(WALKS, 2 * WALKS + 1).unwrap();
        assert!(walk(WALKS, 2 * WALKS + 2).is_err());
        assert!(walk(0, WALKS + 2).is_err());
    }
}
