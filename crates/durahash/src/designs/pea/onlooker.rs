//! Readers of a table that another process writes: what they see of Pea Hash (`designs/onlooker.rs` has the rest).
//!
//! They see the array of the directory and the segments; neither the directory in DRAM, nor locks, versions and counts. A
//! lookup finds the segment by the words of the array alone (`extendible/array.rs`), and its buckets as those of the writer's
//! process do. Those of multimaps have further rules (`multi/onlooker.rs`).
//!
//! # What the writer counts
//! - **ON-1** An insert, an update, a remove: its hash. Each entry that an insert moves in its bucket: that one's. After the last
//!   store, before a lock is released.
//! - **ON-2** A split, a merge, another strategy, segments that become large, a segment that is mended: all hashes of the
//!   segment, or of both, and once more in the count of segments. After the last store, before the directory in DRAM says so, and
//!   so before the next operation there.
//! - **ON-3** A new array: all hashes, before the old one is given back.
//!
//! # Why a lookup is right
//! It reads the counter of its hash `h`, finds the segment, and reads the head of each bucket in the order of the strategy, until a slot
//! has `h` or an end bit is set; then, if a slot has it, that head's first word again, by which the slot must be live; then the counter
//! again. If that is the same, at most one operation on `h` has stored meanwhile, a move or a change of the segment among
//! them: they hold the lock of the first bucket of `h`, but those of the segment all of its locks. What was found is what that one had
//! left:
//!
//! | the writer stores | a reader that comes then | why that is right |
//! |---|---|---|
//! | head of a bucket without its end bit (before an insert behind it) | looks further, and finds nothing there | nothing is there yet |
//! | payload, then `h`, of a slot that is not live | passes by; or has found the slot live before, when it was another entry's, and finds `h`: then the slot is not live when it asks again, and it looks again | the slot changes next by the commit; where it is live again, `h` is in it, or was, and ON-1 tells |
//! | copies of entries of line 0 in slots that are not live; head word 1 | finds the entries where they were, or the same as above | only fingerprints of slots that are not live change |
//! | head word 0: inserted, and others moved | has loaded that word before, and finds the entries where they were: their slots stay as they are while the lock is held, then ON-1 tells each of them; or has the new word, then word 1, which is newer | one word |
//! | payload (update) | one or the other | one word |
//! | head word 0 without the bit, then word 1 (remove) | has loaded word 0 before, and finds the entry, or misses it by its fingerprint | removed and not, at once: it is not counted yet |
//! | a new segment, past the cache; then its words in the array | one segment or the other | the old one stays as it is until ON-2 tells, and all locks of it are held; the new one is fenced before its words, and has the same entries, none for which an end bit is set before its bucket |
//! | the segment's word with the next strategy | looks into the buckets of one or the other | no entry is placed by the new one until ON-2 tells |
//! | anything, into a segment that was given up | is late, and ON-2 told | |
//!
//! An entry that is there throughout lies in one bucket, and its bit, its fingerprint and its slot stay as they are but for
//! moves, so it is found; what other entries of its bucket do is of no account. Heads are loaded from their first word on, and
//! stored by an insert from the second on.
//!
//! # Why a walk is right
//! Hashes of a segment lie in all its buckets. A walk reads the count of segments, finds the segment, and reads bucket after bucket: each
//! as often as needed for a look during which no hash of the segment was counted. So what it has of a bucket is what each hash
//! had there, with at most one operation half done, as above. At last it reads the count of segments again; if that is another one, it
//! begins again. So the segment stayed what it was: an entry that is there throughout stayed in its bucket, and is found. One that was removed and
//! inserted again may be met twice; then a lookup tells.
//!
//! # Limits
//! While segments are replaced faster than one is walked over, a walk begins again and again. The count is one for all maps of Pea
//! Hash in the pool.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Place, Result};

use super::layout::{BUCKET_BYTES, Bucket, Entry, Head};
use super::planted::{Fault, planted};
use super::strategy::{Policy, Shape, Strategy, is_small};
use crate::designs::one_of_each;
use crate::designs::onlooker::{Sight, Watch};
use crate::extendible::array::Array;
use crate::extendible::extend;
use crate::extendible::unit::Unit;
use crate::index::{Finding, IndexStats, PeaStats};

/// What readers in other processes see of a table: of a map, or of a multimap.
pub struct Segments<M: Medium, const MULTI: bool> {
    pub(super) watch: Watch<M>,
    array: Array,
    pub(super) large: Shape,
}

/// An entry that was seen: its hash, its bucket, and what its slot has.
pub(super) type Seen = (u64, u32, Entry);

impl<M: Medium, const MULTI: bool> Segments<M, MULTI> {
    pub(super) fn of(map: Place<M>) -> Result<Self> {
        let large = Shape::large(&map, MULTI, Policy::default())?;
        let array = Array::new(map.format().seed);
        Ok(Segments { watch: Watch::new(map, "the directory is broken"), array, large })
    }

    pub(super) fn shape(&self, place: Unit) -> Shape {
        if is_small(place) {
            self.large.small(self.watch.pool().extent_bytes())
        } else {
            self.large
        }
    }

    /// The segment of `h`, and the first of its hashes; `None` where a look was in vain.
    pub(super) fn seek(&self, h: u64) -> Result<Option<(u64, Unit)>> {
        let pool = self.watch.pool();
        let extents = pool.max_bytes() / pool.extent_bytes();
        let is_one = |(_, place): &(u64, Unit)| place.number() < extents;
        Ok(self.array.seek(&self.watch.map, h)?.filter(is_one))
    }

    fn offset(&self, place: Unit, number: u32) -> u64 {
        (place.number() << self.watch.map.format().geometry.extent_shift)
            + u64::from(number) * BUCKET_BYTES
    }

    pub(super) fn bucket(&self, place: Unit, number: u32) -> Result<&Bucket> {
        self.watch.pool().at(self.offset(place, number))
    }

    pub(super) fn head(&self, bucket: &Bucket) -> Head<MULTI> {
        let medium = self.watch.medium();
        let word = medium.load(&bucket.head[0]);
        Head([word, medium.load(&bucket.head[1])])
    }

    /// The entries of the segment that covers `at`, from there on, to `out`, which is empty; its first hash and itself.
    pub(super) fn segment(
        &self,
        at: u64,
        out: &mut Vec<Seen>,
        found: &mut Vec<Finding>,
    ) -> Result<(u64, Unit)> {
        let changes = self.watch.changes()?;
        let known = found.len();
        loop {
            out.clear();
            found.truncate(known);
            let before = changes.segments();
            let done = self.buckets(at, out, found);
            if changes.segments() == before || planted(Fault::SegmentOnce) {
                return done;
            }
            self.watch.pool().check_writer()?;
        }
    }

    /// The same, each bucket at a moment of its own, whatever becomes of the segment.
    fn buckets(
        &self,
        at: u64,
        out: &mut Vec<Seen>,
        found: &mut Vec<Finding>,
    ) -> Result<(u64, Unit)> {
        let (prefix, place) = self.watch.look(at, u64::BITS, |_| self.seek(at))?;
        for number in 0..self.shape(place).buckets() {
            let (from, known) = (out.len(), found.len());
            self.watch.look(prefix, place.depth(), |_| {
                out.truncate(from);
                found.truncate(known);
                self.each_in((prefix, place), number, out, found)
            })?;
        }
        out.retain(|(h, ..)| *h >= at);
        Ok((prefix, place))
    }

    /// The entries of one bucket; `None` where its head was changed meanwhile.
    fn each_in(
        &self,
        (prefix, place): (u64, Unit),
        number: u32,
        out: &mut Vec<Seen>,
        found: &mut Vec<Finding>,
    ) -> Result<Option<()>> {
        let (medium, shape) = (self.watch.medium(), self.shape(place));
        let bucket = self.bucket(place, number)?;
        let head = self.head(bucket);
        let off = self.offset(place, number);
        if head.is_gone() {
            let what = "the head of a bucket is gone, with its slots".to_owned();
            found.push(Finding::new("PEA-9", off, what));
        }
        for i in BitMask(head.live()) {
            let slot = &bucket.slots[i as usize];
            let h = medium.load(&slot.h);
            if shape.finds((prefix, place), number, head, (i, h)) {
                let is_list = head.lists() & 1 << i != 0;
                out.push((h, number, Entry { payload: medium.load(&slot.payload), is_list }));
            } else {
                let what = format!("no lookup finds {h:#018x} in slot {i}");
                found.push(Finding::new("PEA-2", off, what));
            }
        }
        // A remove makes a fingerprint wrong after it has cleared the bit.
        Ok((medium.load(&bucket.head[0]) == head.0[0]).then_some(()))
    }

    /// As [`Sight::figures`].
    pub(super) fn figures_of(&self, units: &[Unit], depth: u32) -> IndexStats {
        let mut strategies = [0; 3];
        let (mut slots, mut extents) = (0, Array::extents(&self.watch.map, depth));
        for place in units {
            let shape = self.shape(*place);
            slots += u64::from(shape.buckets() * shape.used.count_ones());
            extents += shape.extents;
            strategies[usize::from(Strategy::of(*place).tag())] += 1;
        }
        IndexStats {
            slots,
            medium_bytes: extents * self.watch.pool().extent_bytes(),
            pea: Some(PeaStats { strategies, ..PeaStats::default() }),
            ..IndexStats::default()
        }
    }
}

impl<M: Medium> Sight for Segments<M, false> {
    type Medium = M;

    const INVARIANT: &'static str = "PEA-1";

    fn new(map: Place<M>) -> Result<Self> {
        Self::of(map)
    }

    fn watch(&self) -> &Watch<M> {
        &self.watch
    }

    fn payload(&self, h: u64) -> Result<Option<Option<u64>>> {
        let Some((_, place)) = self.seek(h)? else { return Ok(None) };
        let medium = self.watch.medium();
        for number in self.shape(place).homes(h).buckets(Strategy::of(place)) {
            let bucket = self.bucket(place, number)?;
            let head = self.head(bucket);
            for i in head.candidates(h) {
                let slot = &bucket.slots[i as usize];
                if medium.load(&slot.h) == h {
                    let payload = medium.load(&slot.payload);
                    let now = Head::<false>([medium.load(&bucket.head[0]), 0]);
                    let is_live = now.live() & 1 << i != 0;
                    return Ok(is_live.then_some(Some(payload)));
                }
            }
            if head.0[0] & Head::<false>::END != 0 {
                break;
            }
        }
        Ok(Some(None))
    }

    /// Verifies PEA-2 and PEA-9.
    fn unit(
        &self,
        at: u64,
        out: &mut Vec<(u64, u64)>,
        found: &mut Vec<Finding>,
    ) -> Result<(Unit, Option<u64>)> {
        let mut seen = Vec::new();
        let (prefix, place) = self.segment(at, &mut seen, found)?;
        let mut unit: Vec<_> = seen.into_iter().map(|(h, _, entry)| (h, entry.payload)).collect();
        unit.sort_unstable();
        one_of_each(&mut unit, |h| self.watch.look(h, u64::BITS, |_| self.payload(h)))?;
        out.append(&mut unit);
        Ok((place, extend::next(prefix, place.depth())))
    }

    fn figures(&self, units: &[Unit], depth: u32) -> IndexStats {
        self.figures_of(units, depth)
    }
}
