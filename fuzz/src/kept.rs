//! What maps and multimaps share, whether their types are known when this is compiled or not.

use std::hash::Hash;

use durahash::{AnyMap, AnyMultiMap, Data, Finding, Map, MultiMap};
use durahash::{Openable, Options, Result, Stats};
use durahash_media::Memory;
use durahash_media::sim::{Sim, Step};

use crate::bytes::{Bytes, MAX_BYTES, OPS_MAX};
use crate::image::input;
use crate::{Features, Rng};

/// A map or a multimap.
pub(crate) trait Kept: Openable {
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()>;
    fn len(&self) -> Result<u64>;
    fn step(&self) -> Result<bool>;
    fn clear(&self) -> Result<()>;
    fn stats(&self) -> Result<Stats>;
    fn close(self) -> Result<()>;
}

macro_rules! kept {
    ($($name:ident $(<$k:ident, $v:ident>)?;)*) => {$(
        impl $(<$k: Data + ?Sized, $v: Data + ?Sized>)? Kept for $name $(<$k, $v>)? {
            fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> { $name::check(self, found) }
            fn len(&self) -> Result<u64> { $name::len(self) }
            fn step(&self) -> Result<bool> { $name::step(self) }
            fn clear(&self) -> Result<()> { $name::clear(self) }
            fn stats(&self) -> Result<Stats> { $name::stats(self) }
            fn close(self) -> Result<()> { $name::close(self) }
        }
    )*};
}

kept! {
    Map<K, V>;
    MultiMap<K, V>;
    AnyMap;
    AnyMultiMap;
}

/// Inputs with pools as they come into being by `changes`: open, closed, and killed within splits and merges.
/// `wanted` says after which changes an input is made of the pool, and of the longest change before, cut.
pub(crate) fn images<M: Kept>(
    (options, types): (&Options, u8),
    rng: &mut Rng,
    out: &mut Vec<Vec<u8>>,
    (changes, wanted): (u64, impl Fn(u64) -> [bool; 2]),
    change: impl Fn(&M, u64),
) {
    let sim = Sim::new(crate::image::MAX_BYTES);
    let map: M = options.create_on(sim.clone()).expect("a new pool");
    let (mut longest, mut cut) = (0, Vec::new());
    for i in 0..changes {
        let mut before = sim.image();
        sim.record(Vec::new());
        change(&map, i);
        // The operation with the most stores is one that splits or merges.
        let steps = sim.recorded();
        if steps.len() >= longest {
            longest = steps.len();
            Step::replay(&steps[..steps.len() * 2 / 3], &mut before);
            cut = before;
        }
        let [whole, killed] = wanted(i);
        if whole {
            out.push(input(types, rng, &sim.image()));
        }
        if killed {
            out.push(input(types, rng, &cut));
            longest = 0;
        }
    }
    map.close().expect("closes");
    out.push(input(types, rng, &sim.image()));
}

/// One of them over a simulated medium.
pub(crate) struct OnSim<M> {
    pub(crate) sim: Sim,
    /// None only while it is closed.
    map: Option<M>,
}

impl<M: Kept> OnSim<M> {
    pub(crate) fn new(options: &Options, sim: Sim) -> Self {
        let map = options.create_on(sim.clone()).expect("a new pool");
        OnSim { sim, map: Some(map) }
    }

    pub(crate) fn map(&self) -> &M {
        self.map.as_ref().expect("open")
    }

    pub(crate) fn check(&self) {
        let checked = self.map().check(&mut |finding| panic!("{finding:?}"));
        checked.expect("the check runs");
    }

    /// Opens an image as a process finds it after the death of another.
    pub(crate) fn open(&mut self, image: &[u64]) {
        let order = self.sim.same_line_order();
        self.sim = Sim::from_image(image, MAX_BYTES).with_line_order(order);
        let opened = Options::new().open_on(self.sim.clone());
        self.map = Some(opened.expect("opens again"));
    }

    pub(crate) fn reopen(&mut self) {
        let image = self.sim.image();
        self.open(&image);
    }

    pub(crate) fn close(&mut self) {
        let map = self.map.take().expect("always put back");
        map.close().expect("closes");
        self.reopen();
    }

    /// The process dies within `operation`: of its stores, those from `torn` on were done, up to `cut` of 256 parts.
    pub(crate) fn die_within<T>(
        &mut self,
        operation: impl FnOnce(&M) -> T,
        torn: usize,
        cut: usize,
    ) -> T {
        let mut image = self.sim.image();
        self.sim.record(Vec::new());
        let done = operation(self.map());
        let steps = self.sim.recorded();
        let cut = cut * (steps.len() + 1) / 256;
        Step::replay(&steps[torn.min(cut)..cut], &mut image);
        self.open(&image);
        done
    }

    /// Notes figures, under a name, and one more.
    pub(crate) fn note(&self, name: impl Hash + Copy, more: u64, features: &mut Features) {
        let stats = self.map().stats().expect("figures");
        let (index, space) = (&stats.index, &stats.space);
        let sizes = [
            index.splits,
            index.merges,
            index.doublings,
            index.halvings,
            stats.keys,
            space.record_bytes,
            more,
        ];
        for (i, size) in sizes.into_iter().enumerate() {
            features.add((name, i, size.checked_ilog2()));
        }
        for (i, count) in index.pea.map_or([0; 3], |pea| pea.strategies).into_iter().enumerate() {
            features.add((name, "strategy", i, count.checked_ilog2()));
        }
        features.add((name, index.global_depth, space.sweep_pending));
    }
}

/// A map and its model, to which operations are done.
pub(crate) trait Ops: Sized {
    type Map: Kept;
    /// How many keys there are, for three kinds of input.
    const KEYS: [usize; 3];

    fn on(&mut self) -> &mut OnSim<Self::Map>;

    /// Does one operation to both.
    fn one(&mut self, keys: usize, bytes: &mut Bytes<'_>, features: &mut Features);
    fn compare(&self);
    fn note(&self, features: &mut Features);

    /// Does those of an input.
    fn all(mut self, mut bytes: Bytes<'_>, features: &mut Features) {
        let keys = Self::KEYS[bytes.below(3)];
        for _ in 0..OPS_MAX {
            if bytes.is_empty() {
                break;
            }
            self.one(keys, &mut bytes, features);
        }
        self.compare();
        self.on().check();
        self.note(features);
        self.on().reopen();
        let mut steps = 0;
        while self.on().map().step().expect("a step") {
            steps += 1;
            assert!(steps < 1 << 20, "a sweep without an end");
        }
        self.compare();
        self.on().check();
        self.on().close();
    }
}
