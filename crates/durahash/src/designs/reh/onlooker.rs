//! Readers of a table that another process writes: what they see of REH (`designs/onlooker.rs` has the rest).
//!
//! They see the buckets, the array of words and the roots; neither directory, nor fingerprints, nor locks, which are in
//! the writer's DRAM. A lookup begins with the array's word at or before its hash, or with the first bucket, and walks
//! along the siblings, as recovery does.
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
//! An insert is seen here when its `h` is stored, a moment before it is seen in its own process.

use durahash_media::{Medium, Place, Result, bits};

use super::layout::{BUCKET_BYTES, Bucket, Link, ROOT, SLOTS};
use super::words::Words;
use crate::designs::onlooker::{Sight, Watch};
use crate::extendible::extend;
use crate::extendible::unit::Unit;
use crate::index::{Finding, IndexStats};

/// What readers in other processes see of a table.
pub struct Chain<M: Medium> {
    watch: Watch<M>,
    words: Words,
}

/// A bucket that covers a hash, as a walk has found it.
struct Found<'a> {
    bucket: &'a Bucket,
    prefix: u64,
    depth: u32,
}

impl<M: Medium> Chain<M> {
    /// Where a walk to `h` begins, and its first bucket.
    fn start(&self, h: u64) -> Result<(u64, u64)> {
        let array = self.words.named(&self.watch.map)?;
        let depth = bits(array, 0, 6) as u32;
        let mut from = if depth == 0 { 0 } else { extend::prefix(h, depth) };
        while from != 0 {
            if let Some(number) = self.words.get_of(&self.watch.map, array, from)? {
                return Ok((from, number));
            }
            from -= extend::span(depth);
        }
        Ok((0, self.watch.map.root(ROOT)?))
    }

    /// The bucket that covers `h`, as it is linked from those before it; `None` where one of these leads nowhere.
    fn unit_of(&self, h: u64) -> Result<Option<Found<'_>>> {
        let medium = self.watch.medium();
        let (mut at, mut number) = self.start(h)?;
        loop {
            let bucket: &Bucket = self.watch.pool().at(number * BUCKET_BYTES)?;
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
                _ => return Ok(Some(Found { bucket, prefix, depth })),
            }
        }
    }

    fn payload_in(&self, h: u64, unit: &Found<'_>) -> Option<u64> {
        let medium = self.watch.medium();
        let slot = unit.bucket.slots.iter().find(|slot| medium.load(&slot.h) == h)?;
        Some(medium.load(&slot.payload))
    }
}

impl<M: Medium> Sight for Chain<M> {
    type Medium = M;

    const INVARIANT: &'static str = "REH-1";

    fn new(map: Place<M>) -> Result<Self> {
        let words = Words::new(&map);
        Ok(Chain { watch: Watch::new(map, "the chain of buckets is broken"), words })
    }

    fn watch(&self) -> &Watch<M> {
        &self.watch
    }

    fn payload(&self, h: u64) -> Result<Option<Option<u64>>> {
        Ok(self.unit_of(h)?.map(|unit| self.payload_in(h, &unit)))
    }

    /// Verifies REH-3.
    fn unit(
        &self,
        at: u64,
        out: &mut Vec<(u64, u64)>,
        found: &mut Vec<Finding>,
    ) -> Result<(Unit, Option<u64>)> {
        let (medium, from) = (self.watch.medium(), out.len());
        let (depth, next) = self.watch.look_at_unit(at, |depth| {
            out.truncate(from);
            let Some(unit) = self.unit_of(at)? else { return Ok(None) };
            if unit.depth < depth {
                return Ok(Some(Err(unit.depth)));
            }
            let slots = unit.bucket.slots.iter();
            let slots = slots.map(|slot| (medium.load(&slot.h), medium.load(&slot.payload)));
            let is_live = |h| h >= at && extend::covers(unit.prefix, unit.depth, h);
            out.extend(slots.filter(|(h, _)| is_live(*h)));
            Ok(Some(Ok((unit.depth, extend::next(unit.prefix, unit.depth)))))
        })?;
        out[from..].sort_unstable();
        for pair in out[from..].windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let what = format!("two slots of hash {:#018x}", pair[0].0);
            found.push(Finding::new("REH-3", 0, what));
        }
        Ok((Unit::new(0, depth), next))
    }

    fn figures(&self, units: &[Unit], _depth: u32) -> IndexStats {
        let buckets = units.len() as u64;
        let (slots, medium_bytes) = (buckets * SLOTS as u64, buckets * BUCKET_BYTES);
        IndexStats { slots, medium_bytes, ..IndexStats::default() }
    }
}
