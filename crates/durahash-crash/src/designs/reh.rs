//! REH with three slots a bucket and four buckets an extent.

use std::sync::Arc;

use durahash::Result;
use durahash::reh::Reh;
use durahash_media::{Format, Geometry, Pool, Sim};

use crate::script::{Op, spread};
use crate::subject::{Prefill, Slots, Subject, Table};

/// REH under test.
pub type RehSubject = RehWithin<{ 64 << 10 }>;

/// REH under test on a medium that fills up.
pub type RehFullSubject = RehWithin<{ 3 << 10 }>;

/// REH under test on a medium of so many bytes.
#[derive(Default)]
pub struct RehWithin<const MAX_BYTES: u64>;

/// Keys 0 to 7 begin with 00, 8 to 15 with 01, 16 to 23 with 1; then the smallest and the largest.
const GROUP: u16 = 8;

impl<const MAX_BYTES: u64> RehWithin<MAX_BYTES> {
    fn table<const LINE: bool>(
        pool: Arc<Pool<Sim<LINE>>>,
        index: Reh<Sim<LINE>>,
    ) -> Box<dyn Table> {
        let was_closed = Some(pool.was_clean());
        let close = move |index| {
            drop(index);
            pool.close()
        };
        Box::new(Slots { index, was_closed, close })
    }
}

impl<const MAX_BYTES: u64> Subject for RehWithin<MAX_BYTES> {
    const NAME: &'static str = if Self::MAY_FILL { "reh-full" } else { "reh" };
    const MAX_BYTES: u64 = MAX_BYTES;
    const MAY_FILL: bool = MAX_BYTES < 16 << 10;

    fn create<const LINE: bool>(&self, sim: Sim<LINE>) -> Result<Box<dyn Table>> {
        let format = Format {
            design: 1,
            kind: 0,
            key_type: 0,
            value_type: 0,
            geometry: Geometry { extent_shift: 10, slots: 3, hash_bits: 0 },
            seed: 1,
            max_bytes: MAX_BYTES,
        };
        let pool = Arc::new(Pool::create(sim, &format)?);
        let index = Reh::create(Arc::clone(&pool))?;
        pool.publish()?;
        Ok(Self::table(pool, index))
    }

    fn open<const LINE: bool>(&self, sim: Sim<LINE>) -> Result<Box<dyn Table>> {
        let pool = Arc::new(Pool::open(sim, false)?);
        let index = Reh::open(Arc::clone(&pool))?;
        Ok(Self::table(pool, index))
    }

    fn keys(&self) -> Vec<u64> {
        let groups = [(0b00, 2), (0b01, 2), (0b1, 1)];
        let spread = |(prefix, bits)| spread(prefix, bits, u64::from(GROUP));
        let keys = groups.into_iter().flat_map(spread);
        keys.chain([0, u64::MAX]).collect()
    }

    fn prefills(&self) -> Vec<Prefill> {
        let put = |keys: &[u16]| -> Vec<Op> { keys.iter().map(|key| Op::Put(*key, 1)).collect() };
        let all: Vec<u16> = (0..3 * GROUP).collect();
        let kinds = |new: u16, present: u16, other: u16| {
            vec![
                Op::Put(new, 0),
                Op::Put(present, 0),
                Op::Insert(other, 0),
                Op::Update(present, 0),
                Op::Remove(present),
                Op::Remove(other),
            ]
        };
        let mut shrunk = put(&all);
        shrunk.extend((2..3 * GROUP).filter(|key| key % 4 != 0).map(Op::Remove));
        vec![
            Prefill { name: "empty", ops: Vec::new(), kinds: kinds(0, 1, 24) },
            Prefill { name: "below-full", ops: put(&[0, 1]), kinds: kinds(2, 0, 8) },
            Prefill { name: "full", ops: put(&[0, 1, 2, 16, 17, 18]), kinds: kinds(3, 0, 25) },
            Prefill { name: "just-split", ops: put(&[0, 1, 2, 8, 9]), kinds: kinds(10, 8, 3) },
            Prefill { name: "deep", ops: put(&all), kinds: kinds(24, 0, 4) },
            Prefill { name: "shrunk", ops: shrunk, kinds: kinds(9, 0, 1) },
        ]
    }
}
