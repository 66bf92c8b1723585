//! The interface of maps and multimaps to the fuzzers, with types known at compile time or not.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

use durahash::{Finding, Openable, Options, Result, Stats};
use durahash_media::Memory;
use durahash_media::sim::{Sim, Step};

use crate::bytes::{Bytes, MAX_BYTES, OPS_MAX};
use crate::image::{self, input};
use crate::{Features, Rng, gist};

/// Entries by key. The order is the same in every run, so that a failure can be repeated.
pub(crate) type Model<H> =
    HashMap<<H as Kept>::Key, <H as Kept>::Entry, BuildHasherDefault<DefaultHasher>>;

/// A change of a key, or a look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Do {
    /// A multimap does it so many times, with values that differ.
    Put(u64),
    /// A put that returns the old value; a put to a multimap.
    Insert,
    /// Removes the value, so many times; a map removes the key.
    Remove(u64),
    /// Removes values that the key has, so many; a map removes the key.
    RemoveSome(u64),
    RemoveAll,
    Look,
}

/// A map or a multimap.
pub(crate) trait Kept: Openable {
    type Key: Clone + Debug + Eq + Hash;
    /// The part of the model for a key: its value, or how often it has each value.
    type Entry: Clone + Debug + PartialEq;
    /// The name in messages.
    const NAME: &'static str;
    /// The numbers of keys of three kinds of input.
    const KEYS: [usize; 3];
    /// The number of values in a file.
    const VALUES: u64;

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()>;
    fn len(&self) -> Result<u64>;
    fn step(&self) -> Result<bool>;
    fn clear(&self) -> Result<()>;
    fn stats(&self) -> Result<Stats>;
    fn close(self) -> Result<()>;

    /// The key of number `n`.
    fn key(&self, n: u64) -> Self::Key;

    /// Reads everything in every way but `len`.
    fn read(&self, sound: bool, features: &mut Features) -> Model<Self>;

    /// Values in an entry.
    fn values(entry: &Self::Entry) -> u64;

    /// Does `op` with `key` and value number `v`, here and in the model; a sound one agrees with its model.
    fn change(
        &self,
        model: &mut Model<Self>,
        key: Self::Key,
        v: u64,
        op: Do,
        sound: bool,
    ) -> Result<()>;
}

/// The methods of [`Kept`] that are those of the type itself.
macro_rules! own_methods {
    ($map:ty) => {
        fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
            <$map>::check(self, found)
        }
        fn len(&self) -> Result<u64> {
            <$map>::len(self)
        }
        fn step(&self) -> Result<bool> {
            <$map>::step(self)
        }
        fn clear(&self) -> Result<()> {
            <$map>::clear(self)
        }
        fn stats(&self) -> Result<Stats> {
            <$map>::stats(self)
        }
        fn close(self) -> Result<()> {
            <$map>::close(self)
        }
    };
}
pub(crate) use own_methods;

/// Reads everything in every way.
pub(crate) fn read<H: Kept>(map: &H, sound: bool, features: &mut Features) -> Model<H> {
    let found = map.read(sound, features);
    let count: u64 = found.values().map(H::values).sum();
    match map.len() {
        Ok(len) => assert!(!sound || len == count, "{len} entries, not {count}"),
        Err(e) => features.damaged(sound, "len", &e),
    }
    found
}

/// True if `check` finds nothing but the invariant that it is blind to.
pub(crate) fn is_sound<H: Kept>(
    map: &H,
    blind_to: Option<&'static str>,
    features: &mut Features,
) -> bool {
    let mut sound = true;
    let checked = map.check(&mut |finding| {
        // A check word finds what the invariant would have found.
        let is_hidden = |blind| [blind, "POOL-4"].contains(&finding.invariant);
        if !blind_to.is_some_and(is_hidden) {
            sound = false;
            features.add((finding.invariant, gist(&finding.what)));
        }
    });
    if let Err(e) = checked {
        features.complain("check", &e);
        sound = false;
    }
    sound
}

/// Notes figures, and more.
pub(crate) fn note<H: Kept>(map: &H, more: impl Hash, features: &mut Features) {
    let stats = match map.stats() {
        Ok(stats) => stats,
        Err(e) => return features.complain("stats", &e),
    };
    let (name, index, space) = ((H::NAME, stats.design), &stats.index, &stats.space);
    let sizes = [
        index.splits,
        index.merges,
        index.doublings,
        index.halvings,
        stats.keys,
        space.record_bytes,
        space.free_bytes,
    ];
    for (i, size) in sizes.into_iter().enumerate() {
        features.add((name, i, size.checked_ilog2()));
    }
    for (i, count) in index.pea.map_or([0; 3], |pea| pea.strategies).into_iter().enumerate() {
        features.add((name, "strategy", i, count.checked_ilog2()));
    }
    features.add((name, index.global_depth, space.sweep_pending, more));
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
    let sim = Sim::new(image::MAX_BYTES);
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
