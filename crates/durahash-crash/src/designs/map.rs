//! A map of byte strings over any design: records, their chains and the sweep, mostly with hashes of four
//! bits so that most keys share theirs with others.

use std::marker::PhantomData;

use durahash::{Design, Finding, Map, Options, Outcome, Result};
use durahash_media::Geometry;
use durahash_media::sim::Sim;

use super::{text, word};
use crate::script::Op;
use crate::subject::{Prefill, Subject, Table};

/// The design below a map under test.
pub trait Below: Sync + Default {
    /// The name of the map in commands.
    const NAME: &'static str;
    /// The design.
    const DESIGN: Design;
    /// Sizes; unless others are said, with hashes of four bits.
    const GEOMETRY: Geometry = Geometry { extent_shift: 12, slots: 3, hash_bits: 4, buckets: 0 };
}

/// Maps over REH.
#[derive(Default)]
pub struct OverReh;

impl Below for OverReh {
    const NAME: &'static str = "reh-map";
    const DESIGN: Design = Design::Reh;
}

/// Maps over Pea Hash.
#[derive(Default)]
pub struct OverPea;

impl Below for OverPea {
    const NAME: &'static str = "pea-map";
    const DESIGN: Design = Design::Pea;
}

/// Maps over ESH.
#[derive(Default)]
pub struct OverEsh;

impl Below for OverEsh {
    const NAME: &'static str = "esh-map";
    const DESIGN: Design = Design::Esh;
}

/// Maps over Rewo-Hash.
#[derive(Default)]
pub struct OverRewo;

impl Below for OverRewo {
    const NAME: &'static str = "rewo-map";
    const DESIGN: Design = Design::Rewo;
}

/// Maps over Rewo-Hash with whole hashes and the smallest tables, so that these are resized, and what is
/// copied of them in DRAM with them.
#[derive(Default)]
pub struct OverSmallRewo;

impl Below for OverSmallRewo {
    const NAME: &'static str = "rewo-small-map";
    const DESIGN: Design = Design::Rewo;
    const GEOMETRY: Geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };
}

/// A map over REH under test.
pub type RehMapSubject = MapSubject<OverReh>;

/// A map over Pea Hash under test.
pub type PeaMapSubject = MapSubject<OverPea>;

/// A map over ESH under test.
pub type EshMapSubject = MapSubject<OverEsh>;

/// A map over Rewo-Hash under test.
pub type RewoMapSubject = MapSubject<OverRewo>;

/// A map over small tables of Rewo-Hash under test.
pub type RewoSmallMapSubject = MapSubject<OverSmallRewo>;

/// A map under test.
#[derive(Default)]
pub struct MapSubject<D>(PhantomData<D>);

impl<D> MapSubject<D> {
    /// A map over `D`.
    #[must_use]
    pub const fn new() -> Self {
        MapSubject(PhantomData)
    }
}

const KEYS: u64 = 16;

impl<D: Below> MapSubject<D> {
    fn options() -> Options {
        Options::new().design(D::DESIGN).seed(1).geometry(D::GEOMETRY)
    }
}

impl<D: Below> Subject for MapSubject<D> {
    const NAME: &'static str = D::NAME;
    const MAX_BYTES: u64 = 512 << 10;

    fn create(&self, sim: Sim) -> Result<Box<dyn Table>> {
        Ok(Box::new(Strings(Self::options().create_on(sim)?)))
    }

    fn open(&self, sim: Sim) -> Result<Box<dyn Table>> {
        Ok(Box::new(Strings(Self::options().open_on(sim)?)))
    }

    fn keys(&self) -> Vec<u64> {
        (0..KEYS).collect()
    }

    fn prefills(&self) -> Vec<Prefill> {
        let kinds = vec![
            Op::Put(0, 0),
            Op::Insert(1, 0),
            Op::Update(2, 0),
            Op::Remove(0),
            Op::Remove(3),
            Op::Step,
        ];
        let put = |count| (0..count).map(|key| Op::Put(key, 1)).collect();
        vec![
            Prefill { name: "empty", ops: Vec::new(), kinds: kinds.clone() },
            Prefill { name: "full", ops: put(KEYS as u16), kinds },
        ]
    }
}

/// Keys and values are words in decimal.
struct Strings(Map<str, str>);

impl Table for Strings {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        let map = &self.0;
        let name = key.to_string();
        // Where the answer comes from another call than the change, a change by somebody else in
        // between is seen, and all is done again.
        let found = match op {
            Op::Put(_, v) => map.insert(&name, &text(v))?,
            Op::Insert(_, v) => loop {
                if map.try_insert(&name, &text(v))? == Outcome::Done {
                    break None;
                }
                if let Some(found) = map.get(&name)? {
                    break Some(found);
                }
            },
            Op::Update(_, v) => loop {
                let Some(found) = map.get(&name)? else {
                    break None;
                };
                if map.compare_exchange(&name, &found, &text(v))? == Outcome::Done {
                    break Some(found);
                }
            },
            Op::Remove(_) => map.remove(&name)?,
            Op::Get(_) => map.get(&name)?,
            Op::Step => {
                map.step()?;
                None
            }
            Op::Add(..) | Op::RemoveOne(..) | Op::RemoveAll(_) => {
                unreachable!("{op} is for multimaps")
            }
            Op::Reopen | Op::Close | Op::Crash(_) => None,
        };
        Ok(found.as_deref().map(word))
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        for pair in &self.0 {
            let (key, value) = pair?;
            out.push((word(&key), word(&value)));
        }
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.0.check(found)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}
