//! Pea Hash with three slots a bucket, two main buckets and two of stash a segment.

use durahash::Result;
use durahash::pea::{Pea, Policy};
use durahash_media::sim::Sim;

use super::pool::{self, kinds, puts};
use crate::script::{Op, spread};
use crate::subject::{Prefill, Subject, Table};

/// Pea Hash under test.
pub type PeaSubject = PeaWithin<{ 64 << 10 }>;

/// Pea Hash under test on a medium that fills up.
pub type PeaFullSubject = PeaWithin<{ 8 << 10 }>;

/// Pea Hash under test on a medium of so many bytes.
#[derive(Default)]
pub struct PeaWithin<const MAX_BYTES: u64>;

/// The bit that says which of two main buckets is a hash's first.
const FIRST: u32 = 39;

/// Keys 0 to 9 begin with 000, 10 to 15 with 001, 16 to 19 with 01, 20 to 33 with 1; then the
/// smallest and the largest.
const GROUPS: [(u64, u32, u64); 4] = [(0b000, 3, 10), (0b001, 3, 6), (0b01, 2, 4), (0b1, 1, 14)];
const KEYS: u16 = 34;

impl<const MAX_BYTES: u64> Subject for PeaWithin<MAX_BYTES> {
    const NAME: &'static str = if Self::MAY_FILL { "pea-full" } else { "pea" };
    const MAX_BYTES: u64 = MAX_BYTES;
    const MAY_FILL: bool = MAX_BYTES < 16 << 10;

    fn create(&self, sim: Sim) -> Result<Box<dyn Table>> {
        let pool = pool::create(sim, 2, 3, MAX_BYTES)?;
        let index = Pea::create(pool.clone(), Policy::default())?;
        pool.publish()?;
        Ok(pool::table(pool, index))
    }

    fn open(&self, sim: Sim) -> Result<Box<dyn Table>> {
        let pool = pool::open(sim)?;
        let index = Pea::open(pool.clone(), Policy::default())?;
        Ok(pool::table(pool, index))
    }

    fn keys(&self) -> Vec<u64> {
        let spread = |(prefix, bits, count)| {
            let hashes = spread(prefix, bits, count).enumerate();
            hashes.map(|(i, h)| h | (i as u64 & 1) << FIRST)
        };
        GROUPS.into_iter().flat_map(spread).chain([0, u64::MAX]).collect()
    }

    fn prefills(&self) -> Vec<Prefill> {
        // Even keys of a group have bucket 0 as their first.
        let upper = |count: u16| {
            (20..KEYS).step_by(2).chain((20..KEYS).skip(1).step_by(2)).take(count.into())
        };
        let mut shrunk = puts(0..KEYS);
        shrunk.extend((0..KEYS).filter(|key| key % 5 != 0).map(Op::Remove));
        let prefill = |name, ops, kinds| Prefill { name, ops, kinds };
        vec![
            prefill("empty", Vec::new(), kinds(0, 1, KEYS)),
            prefill("near-full", puts([20]), kinds(22, 20, 24)),
            prefill("single-full", puts(upper(3)), kinds(26, 20, 21)),
            prefill("two-full", puts(upper(6)), kinds(32, 20, 21)),
            prefill("stash-full", puts(upper(12)), kinds(31, 20, 33)),
            prefill("deep", puts(0..KEYS), kinds(KEYS, 0, 4)),
            prefill("shrunk", shrunk, kinds(9, 0, 20)),
        ]
    }
}
