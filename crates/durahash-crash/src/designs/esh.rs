//! ESH with three slots a bucket, four buckets a segment and two segments an extent.

use durahash::Result;
use durahash::esh::Esh;
use durahash_media::Geometry;
use durahash_media::sim::Sim;

use super::pool::{self, kinds, puts};
use crate::script::{Op, spread};
use crate::subject::{Prefill, Subject, Table};

/// ESH under test, its segments repaired when somebody comes to them.
pub type EshSubject = EshWithin<{ 64 << 10 }, false>;

/// ESH under test, all its segments repaired at once: crashes inside repairs are tried, too.
pub type EshRepairedSubject = EshWithin<{ 64 << 10 }, true>;

/// ESH under test on a medium that fills up.
pub type EshFullSubject = EshWithin<{ 8 << 10 }, false>;

/// ESH under test on a medium of so many bytes; `REPAIRED` as it is opened or later.
#[derive(Default)]
pub struct EshWithin<const MAX_BYTES: u64, const REPAIRED: bool>;

const GEOMETRY: Geometry = Geometry { extent_shift: 11, slots: 3, hash_bits: 0, buckets: 4 };

/// The lowest bit that says which of the four buckets is a hash's home.
const HOME: u32 = 8;

/// Keys 0 to 13 begin with 00, 14 to 21 with 01, 22 to 37 with 1; then the smallest and the largest.
/// Of each group, five in eight have bucket 0 as their home, so that they overflow.
const GROUPS: [(u64, u32, u64); 3] = [(0b00, 2, 14), (0b01, 2, 8), (0b1, 1, 16)];
const KEYS: u16 = 38;
const HOMES: [u64; 8] = [0, 0, 1, 0, 2, 0, 3, 0];

impl<const MAX_BYTES: u64, const REPAIRED: bool> Subject for EshWithin<MAX_BYTES, REPAIRED> {
    const NAME: &'static str = match (Self::MAY_FILL, REPAIRED) {
        (true, _) => "esh-full",
        (false, true) => "esh-repaired",
        (false, false) => "esh",
    };
    const MAX_BYTES: u64 = MAX_BYTES;
    const MAY_FILL: bool = MAX_BYTES < 16 << 10;

    fn create(&self, sim: Sim) -> Result<Box<dyn Table>> {
        let pool = pool::create_with(sim, 3, GEOMETRY, MAX_BYTES)?;
        let index = Esh::create(pool.clone())?;
        pool.publish()?;
        Ok(pool::table(pool, index))
    }

    fn open(&self, sim: Sim) -> Result<Box<dyn Table>> {
        let pool = pool::open(sim)?;
        let table = pool::table(pool.clone(), Esh::open(pool)?);
        if REPAIRED {
            table.len()?;
        }
        Ok(table)
    }

    fn open_as_left(&self, sim: Sim) -> Result<Option<Box<dyn Table>>> {
        let pool = pool::open(sim)?;
        let index = Esh::open(pool.clone())?;
        // Nobody may write to it from here on, so nothing is repaired.
        pool.poison();
        Ok(Some(pool::table(pool, index)))
    }

    fn keys(&self) -> Vec<u64> {
        let spread = |(prefix, bits, count)| {
            let hashes = spread(prefix, bits, count).enumerate();
            hashes.map(|(i, h)| h | HOMES[i % HOMES.len()] << HOME)
        };
        GROUPS.into_iter().flat_map(spread).chain([0, u64::MAX]).collect()
    }

    fn prefills(&self) -> Vec<Prefill> {
        let upper = |count: u16| puts(22..22 + count);
        // Of these, keys 22, 23, 25, 27, 29 and 30 have bucket 0 as their home.
        let mut shrunk = puts(0..KEYS);
        shrunk.extend((0..KEYS).filter(|key| key % 4 != 0).map(Op::Remove));
        // What comes home first has a value of its own.
        let mut full_and_more = puts([22, 23, 25, 27]);
        full_and_more.push(Op::Put(29, 2));
        // One that is not in the line of the head.
        let mut overflowed = kinds(30, 22, 29);
        overflowed.insert(0, Op::Remove(23));
        // Ten in two segments of twelve: with nine they are merged.
        let mut before_merge = upper(13);
        before_merge.extend([33, 31, 34].map(Op::Remove));
        let prefill = |name, ops, kinds| Prefill { name, ops, kinds };
        if REPAIRED {
            // Each state of these has all states of its repairs, and of theirs.
            return vec![
                prefill("overflowed", puts([22, 23, 25, 27, 29]), kinds(30, 22, 29)),
                prefill("just-split", upper(13), kinds(35, 22, 31)),
            ];
        }
        vec![
            prefill("empty", Vec::new(), kinds(0, 1, KEYS)),
            prefill("home-full", puts([22, 23, 25]), kinds(27, 22, 29)),
            prefill("overflowed", full_and_more, overflowed),
            prefill("segment-full", upper(12), kinds(34, 22, 27)),
            prefill("just-split", upper(13), kinds(35, 22, 31)),
            prefill("before-merge", before_merge, kinds(35, 26, 28)),
            prefill("deep", puts(0..KEYS), kinds(KEYS, 0, 4)),
            prefill("shrunk", shrunk, kinds(9, 0, 20)),
        ]
    }
}
