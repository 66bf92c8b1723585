//! Verifies the invariants REH-1 to REH-7; see the [module docs](super).

use durahash_media::hash::fingerprint;
use durahash_media::{Medium, Result, wait_lock};

use super::Reh;
use super::layout::{BUCKET_BYTES, Bucket, Link, ROOT, SLOTS};
use crate::extendible::extend::{self, MAX_DEPTH};
use crate::index::Finding;

/// A bucket on the chain.
struct Chained<'a> {
    number: u64,
    bucket: &'a Bucket,
    prefix: u64,
    depth: u32,
}

impl<M: Medium> Reh<M> {
    /// Makes all ranges that are sound, ends the sweep where the pool may be written, and verifies everything.
    pub(super) fn check_all(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        // Damage is found on the chain.
        let _ = self.make_all();
        if self.pool.writable().is_ok() {
            self.sweep_all()?;
        }
        let medium = self.medium();
        let per_extent = self.per_extent();
        let extents = self.map.unit_extents();
        let mut met = vec![false; extents.last().map_or(0, |i| (i + 1) * per_extent) as usize];
        let mut depths = [0; MAX_DEPTH as usize + 1];
        let mut live = 0;
        let mut report = |invariant, number: u64, what: String| {
            found(Finding { invariant, off: number.wrapping_mul(BUCKET_BYTES), what });
        };
        let (mut number, mut expected) = (self.map.root(ROOT)?, Some(0));
        while let Some(position) = expected {
            if extents.binary_search(&(number / per_extent)).is_err() {
                report("REH-1", number, format!("no bucket is here to cover {position:#018x}"));
                break;
            }
            let bucket = self.bucket(number)?;
            let Some(Link { depth, sibling }) = Link::from_word(medium.load(&bucket.link)) else {
                report("REH-1", number, "the link is damaged".to_owned());
                break;
            };
            let prefix = medium.load(&bucket.prefix);
            if prefix != position || extend::prefix(prefix, depth) != prefix {
                let what = format!("prefix {prefix:#018x} where {position:#018x} should begin");
                report("REH-1", number, what);
                break;
            }
            met[number as usize] = true;
            depths[depth as usize] += 1;
            let chained = Chained { number, bucket, prefix, depth };
            live += self.check_bucket(&chained, &mut report);
            self.check_words(&chained, &mut report);
            expected = extend::next(prefix, depth);
            number = sibling;
        }
        if expected.is_none() && number != 0 {
            report("REH-1", number, "the last bucket has a sibling".to_owned());
        }
        let space = wait_lock(&self.writers.space, medium);
        for free in space.free.iter() {
            if std::mem::replace(&mut met[free as usize], true) {
                report("REH-5", free, "a bucket in use is on the free list".to_owned());
            }
        }
        let swept = extents.iter().filter(|extent| !space.unswept.contains(extent));
        for number in swept.flat_map(|i| self.numbers(*i)) {
            if !met[number as usize] {
                report("REH-5", number, "a bucket is neither used nor free".to_owned());
            }
        }
        drop(space);
        if self.is_complete() {
            self.writers.growth.check(&depths, "buckets", |what| report("REH-6", 0, what));
            let saved =
                self.writers.saved_live.map(|n| n.saturating_add_signed(self.live.change()));
            for count in self.known_count().into_iter().chain(saved).filter(|n| *n != live) {
                let what = format!("{live} live slots, the counter says {count}");
                report("REH-6", 0, what);
            }
        }
        Ok(())
    }

    /// REH-7 of the words for the hashes of one bucket.
    fn check_words(
        &self,
        chained: &Chained<'_>,
        report: &mut impl FnMut(&'static str, u64, String),
    ) {
        let Chained { number, prefix, depth, .. } = *chained;
        let array = self.words.depth();
        if array == 0 {
            return;
        }
        let last = prefix | (extend::span(depth) - 1);
        for i in extend::index(prefix, array)..=extend::index(last, array) {
            let place = i << (64 - array);
            let bucket = if place == prefix { number } else { 0 };
            if place >= prefix && self.words.is_wrong(&self.map, place, bucket) {
                report("REH-7", number, format!("the word for {place:#018x} is wrong"));
            }
        }
    }

    /// REH-2 to REH-4, and the lock, of one bucket; returns its live slots.
    fn check_bucket(
        &self,
        chained: &Chained<'_>,
        report: &mut impl FnMut(&'static str, u64, String),
    ) -> u64 {
        let Chained { number, bucket, prefix, depth } = *chained;
        let meta = self.meta(number);
        let (mut live, mut hashes) = (0_u16, [0; SLOTS as usize]);
        for (i, h) in self.valid_slots(bucket, prefix, depth) {
            let before = &hashes[..live.count_ones() as usize];
            if before.contains(&h) {
                report("REH-3", number, format!("hash {h:#018x} is there twice"));
            }
            hashes[live.count_ones() as usize] = h;
            live |= 1 << i;
            if meta.is_made() && meta.fingerprint(i) != fingerprint(h) {
                report("REH-2", number, format!("wrong fingerprint of slot {i}"));
            }
        }
        if !meta.is_made() {
            // Of a range in which there is damage.
            return live.count_ones().into();
        }
        if meta.live() != live {
            let what = format!("bitmap {:#06x}, the slots say {live:#06x}", meta.live());
            report("REH-2", number, what);
        }
        if meta.lock().is_locked() {
            report("REH-6", number, "the lock is held".to_owned());
        }
        if depth > self.directory.depth() {
            report("REH-4", number, format!("local depth {depth} exceeds the global depth"));
        } else if !self.directory.names(prefix, depth, number) {
            report("REH-4", number, "a directory entry names something else".to_owned());
        }
        if meta.depth() != depth {
            let what = format!("local depth {depth}, the metadata say {}", meta.depth());
            report("REH-4", number, what);
        }
        live.count_ones().into()
    }
}
