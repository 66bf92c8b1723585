//! Operations on maps of every design, of several types and geometries, compared with a `HashMap`;
//! closed, killed between two operations and in the middle of one, and opened again. Some inputs are
//! operations on a file whose types are known at run time only.

use std::borrow::Borrow;

use durahash::{AnyMap, AnyMultiMap, Design, ErrorKind, Map, Options};
use durahash_media::Geometry;
use durahash_media::sim::Sim;
use durahash_testkit::ops::{Op, apply};
use durahash_testkit::{Model, Sample, assert_equal};

use crate::bytes::{Bytes, MAX_BYTES};
use crate::files::{self, ops_on_a_file};
use crate::kept::{OnSim, Ops, note};
use crate::multi_ops::MultiRun;
use crate::{Features, Rng, Target};

/// Of so many kinds of inputs the map is no multimap.
const MAP_TYPES: usize = 6;

/// Byte strings as sequences of operations.
#[derive(Default)]
pub struct OpsVsModel {
    /// A fault of the map, which must be found.
    pub planted: Option<Planted>,
}

/// A fault that tests plant: the map forgets something, and only sometimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The put of one key is lost, where it brings one value.
    PutLost,
    /// A removal is undone, where more than thirty keys are there.
    RemoveUndone,
    /// The last of a long batch is left out.
    BatchCut,
    /// A doubling of the directory loses a key.
    DoublingLoses,
    /// A merge loses a key.
    MergeLoses,
    /// A put that fails for want of space takes the old value with it.
    FullLoses,
    /// A death takes the last operation that had returned with it.
    DeathForgets,
    /// Of the stores before a death the first is not there.
    DeathTears,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 8] = [
        Planted::PutLost,
        Planted::RemoveUndone,
        Planted::BatchCut,
        Planted::DoublingLoses,
        Planted::MergeLoses,
        Planted::FullLoses,
        Planted::DeathForgets,
        Planted::DeathTears,
    ];
}

impl Target for OpsVsModel {
    fn seeds(&self, rng: &mut Rng) -> Vec<Vec<u8>> {
        let random = |i: usize| {
            let bytes = (0..40 << (i % 6)).map(|_| rng.number() as u8);
            bytes.collect()
        };
        (0..64).map(random).collect()
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
        let at = rng.below(input.len() + 1);
        let end = (at + 1 + rng.below(60)).min(input.len());
        match rng.below(6) {
            0 => drop(input.drain(at..end)),
            1 => input.extend_from_within(at..end),
            2 => {
                let from = rng.below(other.len() + 1);
                let to = (from + 1 + rng.below(200)).min(other.len());
                input.splice(at..end, other[from..to].iter().copied());
            }
            3 => {
                let fresh = (0..rng.below(60)).map(|_| rng.number() as u8);
                let fresh: Vec<u8> = fresh.collect();
                input.splice(at..at, fresh);
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = rng.number() as u8;
                }
            }
        }
    }

    fn run(&self, input: &[u8], features: &mut Features) {
        let mut bytes = Bytes::new(input);
        let types = bytes.below(10);
        let geometry = Geometry {
            extent_shift: [10, 12][bytes.below(2)],
            slots: [2, 3, 4, 0][bytes.below(4)],
            hash_bits: [0, 0, 1, 3][bytes.below(4)],
            // Of segments of ESH; REH opens by ranges.
            buckets: [0, 2][bytes.below(2)],
        };
        let sim = Sim::new(MAX_BYTES).with_line_order(bytes.below(2) == 0);
        if let Some(types) = types.checked_sub(MAP_TYPES) {
            // Of their own design.
            let options = Options::new().geometry(geometry).seed(7).max_bytes(MAX_BYTES);
            features.add(("multi", types, geometry.slots, geometry.hash_bits));
            let skew = geometry.hash_bits > 0;
            return match types {
                0 => MultiRun::<u64, u64>::new(&options, sim, false).all(bytes, features),
                1 => MultiRun::<str, [u8]>::new(&options, sim, skew).all(bytes, features),
                2 => MultiRun::<i32, str>::new(&options, sim, skew).all(bytes, features),
                _ => {
                    let options = files::options().geometry(geometry);
                    ops_on_a_file::<AnyMultiMap>(bytes, &options, features)
                }
            };
        }
        let design = draw(&mut bytes);
        features.add((design, types, geometry.slots, geometry.hash_bits));
        let options = options(design, geometry);
        let planted = self.planted;
        match types {
            0 => Run::<u64, u64>::new(&options, sim, planted).all(bytes, features),
            1 => Run::<[u8; 5], i32>::new(&options, sim, planted).all(bytes, features),
            2 => Run::<str, u64>::new(&options, sim, planted).all(bytes, features),
            3 => Run::<i32, [u8]>::new(&options, sim, planted).all(bytes, features),
            4 => Run::<[u8], [u8]>::new(&options, sim, planted).all(bytes, features),
            _ => {
                let options = files::options().design(design).geometry(geometry);
                ops_on_a_file::<AnyMap>(bytes, &options, features)
            }
        }
    }
}

/// Half of the inputs have the default design: its buckets split and merge in few operations.
fn draw(bytes: &mut Bytes<'_>) -> Design {
    match bytes.below(2) {
        0 => Design::default(),
        _ => Design::ALL[bytes.below(Design::ALL.len())],
    }
}

fn options(design: Design, geometry: Geometry) -> Options {
    Options::new().design(design).geometry(geometry).seed(7).max_bytes(MAX_BYTES)
}

/// A map over its medium, and what it shall hold.
struct Run<K: Sample + ?Sized, V: Sample + ?Sized> {
    on: OnSim<Map<K, V>>,
    model: Model,
    planted: Option<Planted>,
    /// The image before the last operation, if a planted fault needs it.
    before: Vec<u64>,
}

impl<K: Sample + ?Sized, V: Sample + ?Sized> Ops for Run<K, V> {
    type Map = Map<K, V>;
    const KEYS: [usize; 3] = [4, 40, 256];

    fn on(&mut self) -> &mut OnSim<Map<K, V>> {
        &mut self.on
    }

    fn one(&mut self, keys: usize, bytes: &mut Bytes<'_>, features: &mut Features) {
        let (k, v) = (bytes.number(keys), bytes.number(64));
        let many = |bytes: &mut Bytes<'_>| (0..=v).map(|_| bytes.number(keys)).collect();
        let op = match bytes.below(64) {
            0..=19 => Op::Put(k, v),
            20..=27 => Op::Insert(k, v),
            28..=31 => Op::TryInsert(k, v),
            32..=34 => Op::CompareExchange(k, v, v ^ 1),
            35..=44 => Op::Remove(k),
            45..=46 => Op::Get(k),
            47 => Op::RemoveAll(many(bytes)),
            48 => Op::PutMany((0..=v).map(|i| (bytes.number(keys), i)).collect()),
            49 => Op::GetMany(many(bytes)),
            50 => Op::Compare,
            51 => Op::Check,
            52 | 53 => Op::Step,
            54 if v < 16 => Op::Clear,
            55 | 56 => {
                self.note(features);
                return match self.planted {
                    Some(Planted::DeathForgets) => self.on.open(&self.before),
                    _ => self.on.reopen(),
                };
            }
            57 => return self.on.close(),
            58 => return self.fill(k, bytes),
            cut => return self.cut(k, v, cut > 60, bytes),
        };
        match self.planted {
            None => apply(self.on.map(), &mut self.model, &op),
            Some(planted) => self.apply_with(planted, &op),
        }
    }

    fn compare(&self) {
        assert_equal(self.on.map(), &self.model);
    }

    fn note(&self, features: &mut Features) {
        note(self.on.map(), (), features);
    }
}

impl<K: Sample + ?Sized, V: Sample + ?Sized> Run<K, V> {
    fn new(options: &Options, sim: Sim, planted: Option<Planted>) -> Self {
        let on = OnSim::new(options, sim);
        Run { before: on.sim.image(), on, model: Model::new(), planted }
    }

    /// Does `op`, and then what the fault does.
    fn apply_with(&mut self, planted: Planted, op: &Op) {
        let index = |run: &Self| run.on.map().stats().expect("figures").index;
        let (before, had) = (index(self), self.model.clone());
        if planted == Planted::DeathForgets {
            self.before = self.on.sim.image();
        }
        apply(self.on.map(), &mut self.model, op);
        let after = index(self);
        let any = || had.keys().min().copied();
        let lost = match (planted, op) {
            (Planted::PutLost, Op::Put(3, 21)) => Some(3),
            (Planted::BatchCut, Op::PutMany(pairs)) if pairs.len() > 60 => {
                pairs.last().map(|(k, _)| *k)
            }
            (Planted::DoublingLoses, _) if after.doublings > before.doublings => any(),
            (Planted::MergeLoses, _) if after.merges > before.merges => any(),
            (Planted::RemoveUndone, Op::Remove(k)) if had.len() > 30 => {
                if let Some(v) = had.get(k) {
                    let put = self.on.map().put(K::sample(*k).borrow(), V::sample(*v).borrow());
                    put.expect("a put");
                }
                None
            }
            _ => None,
        };
        if let Some(k) = lost {
            let _ = self.on.map().remove(K::sample(k).borrow()).expect("a removal");
        }
    }

    /// Writes while the medium is full.
    fn fill(&mut self, from: u64, bytes: &mut Bytes<'_>) {
        self.on.sim.set_limit(self.on.sim.image().len() as u64 * 8);
        for k in from..from + 30 {
            let v = bytes.number(64);
            let done = if v < 20 {
                let done = self.on.map().remove(K::sample(k).borrow());
                done.map(|_| self.model.remove(&k))
            } else {
                let done = self.on.map().put(K::sample(k).borrow(), V::sample(v).borrow());
                done.map(|()| self.model.insert(k, v))
            };
            if let Err(e) = done {
                assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}");
                if self.planted == Some(Planted::FullLoses) {
                    // A pool full of chains can refuse even this.
                    let _ = self.on.map().remove(K::sample(k).borrow());
                }
            }
        }
        self.on.sim.set_limit(MAX_BYTES);
    }

    /// The process dies within a put or a remove: some of its stores were done.
    fn cut(&mut self, k: u64, v: u64, remove: bool, bytes: &mut Bytes<'_>) {
        let key = K::sample(k);
        let torn = usize::from(self.planted == Some(Planted::DeathTears));
        let operation = |map: &Map<K, V>| match remove {
            true => map.remove(key.borrow()).map(drop),
            false => map.put(key.borrow(), V::sample(v).borrow()),
        };
        self.on.die_within(operation, torn, bytes.below(256)).expect("a change");
        let found = self.on.map().get(key.borrow()).expect("readable");
        let old = self.model.get(&k).copied();
        let new = (!remove).then_some(v);
        let is = |number: Option<u64>| found == number.map(V::sample);
        assert!(is(old) || is(new), "{k}: neither old nor new");
        match if is(new) { new } else { old } {
            Some(v) => drop(self.model.insert(k, v)),
            None => drop(self.model.remove(&k)),
        }
        assert_equal(self.on.map(), &self.model);
    }
}
