//! Rewo-Hash with three slots a bucket and four buckets an extent.

use durahash::Result;
use durahash::rewo::{Cache, Rewo};
use durahash_media::sim::Sim;

use super::pool::{self, kinds, puts};
use crate::script::{Op, spread};
use crate::subject::{Prefill, Subject, Table};

/// Rewo-Hash under test, without a cached table: that has no part in what survives.
pub type RewoSubject = RewoWithin<{ 64 << 10 }, 0>;

/// Rewo-Hash under test, with a cached table of two buckets.
pub type RewoCachedSubject = RewoWithin<{ 64 << 10 }, 256>;

/// Rewo-Hash under test on a medium that fills up.
pub type RewoFullSubject = RewoWithin<{ 5 << 10 }, 0>;

/// Rewo-Hash under test on a medium of so many bytes, and with so many for the cached table.
#[derive(Default)]
pub struct RewoWithin<const MAX_BYTES: u64, const CACHE_BYTES: u64>;

/// Keys 0 to 7 begin with 00, 8 to 15 with 01, 16 to 31 with 1; then the smallest and the largest.
const GROUPS: [(u64, u32, u64); 3] = [(0b00, 2, 8), (0b01, 2, 8), (0b1, 1, 16)];
const KEYS: u16 = 32;

impl<const MAX_BYTES: u64, const CACHE_BYTES: u64> RewoWithin<MAX_BYTES, CACHE_BYTES> {
    const CACHE: Cache = Cache { bytes: Some(CACHE_BYTES), fill: false, sync_threads: 0 };
}

impl<const MAX_BYTES: u64, const CACHE_BYTES: u64> Subject for RewoWithin<MAX_BYTES, CACHE_BYTES> {
    const NAME: &'static str = match (Self::MAY_FILL, CACHE_BYTES) {
        (true, _) => "rewo-full",
        (false, 0) => "rewo",
        (false, _) => "rewo-cached",
    };
    const MAX_BYTES: u64 = MAX_BYTES;
    const MAY_FILL: bool = MAX_BYTES < 16 << 10;

    fn create(&self, sim: Sim) -> Result<Box<dyn Table>> {
        let pool = pool::create(sim, 4, 3, MAX_BYTES)?;
        let index = Rewo::create(pool.clone(), Self::CACHE)?;
        pool.publish()?;
        Ok(pool::table(pool, index))
    }

    fn open(&self, sim: Sim) -> Result<Box<dyn Table>> {
        let pool = pool::open(sim)?;
        let index = Rewo::open(pool.clone(), Self::CACHE)?;
        Ok(pool::table(pool, index))
    }

    fn keys(&self) -> Vec<u64> {
        let spread = |(prefix, bits, count)| spread(prefix, bits, count);
        GROUPS.into_iter().flat_map(spread).chain([0, u64::MAX]).collect()
    }

    fn prefills(&self) -> Vec<Prefill> {
        // Every other key of each group, so that both halves fill alike.
        let some = |count: u16| (0..count).map(|i| (i * 9) % KEYS);
        let mut shrunk = puts(0..KEYS);
        shrunk.extend((0..KEYS).filter(|key| key % 4 != 0).map(Op::Remove));
        let mut rebuilt = puts(0..KEYS);
        rebuilt.extend((0..KEYS).filter(|key| key % 16 != 0).map(Op::Remove));
        let prefill = |name, ops, kinds| Prefill { name, ops, kinds };
        vec![
            prefill("empty", Vec::new(), kinds(0, 1, KEYS)),
            prefill("below-full", puts(some(9)), kinds(31, 0, 9)),
            prefill("full", puts(some(11)), kinds(31, 0, 9)),
            prefill("resizing", puts(some(13)), kinds(31, 0, 27)),
            prefill("deep", puts(0..KEYS), kinds(KEYS, 0, 4)),
            prefill("shrunk", shrunk, kinds(9, 0, 20)),
            prefill("rebuilt", rebuilt, kinds(9, 0, 16)),
        ]
    }
}
