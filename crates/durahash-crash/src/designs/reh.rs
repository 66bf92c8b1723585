//! REH with three slots a bucket and four buckets an extent.

use durahash::Result;
use durahash::reh::Reh;
use durahash_media::sim::Sim;

use super::pool::{self, kinds, puts};
use crate::script::{Op, spread};
use crate::subject::{Prefill, Subject, Table};

/// REH under test.
pub type RehSubject = RehWithin<{ 64 << 10 }>;

/// REH under test on a medium that fills up.
pub type RehFullSubject = RehWithin<{ 3 << 10 }>;

/// REH under test on a medium of so many bytes.
#[derive(Default)]
pub struct RehWithin<const MAX_BYTES: u64>;

/// Keys 0 to 7 begin with 00, 8 to 15 with 01, 16 to 23 with 1; then the smallest and the largest.
const GROUP: u16 = 8;

impl<const MAX_BYTES: u64> Subject for RehWithin<MAX_BYTES> {
    const NAME: &'static str = if Self::MAY_FILL { "reh-full" } else { "reh" };
    const MAX_BYTES: u64 = MAX_BYTES;
    const MAY_FILL: bool = MAX_BYTES < 16 << 10;

    fn create(&self, sim: Sim) -> Result<Box<dyn Table>> {
        let pool = pool::create(sim, 1, 3, MAX_BYTES)?;
        let index = Reh::create(pool.clone())?;
        pool.publish()?;
        Ok(pool::table(pool, index))
    }

    fn open(&self, sim: Sim) -> Result<Box<dyn Table>> {
        let pool = pool::open(sim)?;
        let index = Reh::open(pool.clone())?;
        Ok(pool::table(pool, index))
    }

    fn keys(&self) -> Vec<u64> {
        let groups = [(0b00, 2), (0b01, 2), (0b1, 1)];
        let spread = |(prefix, bits)| spread(prefix, bits, u64::from(GROUP));
        let keys = groups.into_iter().flat_map(spread);
        keys.chain([0, u64::MAX]).collect()
    }

    fn prefills(&self) -> Vec<Prefill> {
        let all = 0..3 * GROUP;
        let mut shrunk = puts(all.clone());
        shrunk.extend((2..3 * GROUP).filter(|key| key % 4 != 0).map(Op::Remove));
        let prefill = |name, ops, kinds| Prefill { name, ops, kinds };
        vec![
            prefill("empty", Vec::new(), kinds(0, 1, 24)),
            prefill("below-full", puts([0, 1]), kinds(2, 0, 8)),
            prefill("full", puts([0, 1, 2, 16, 17, 18]), kinds(3, 0, 25)),
            prefill("just-split", puts([0, 1, 2, 8, 9]), kinds(10, 8, 3)),
            prefill("deep", puts(all), kinds(24, 0, 4)),
            prefill("shrunk", shrunk, kinds(9, 0, 1)),
        ]
    }
}
