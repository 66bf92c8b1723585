//! Operations on maps of every design, of several types and geometries, compared with a `HashMap`;
//! closed, killed between two operations and in the middle of one, and opened again. Some inputs are
//! operations on a file whose types are known at run time only.

use std::borrow::Borrow;

use durahash::{AnyMap, AnyMultiMap, Design, ErrorKind, Map, Options};
use durahash_media::sim::{Sim, Step};
use durahash_media::{Geometry, Memory};
use durahash_testkit::ops::{Op, apply};
use durahash_testkit::{Model, Sample, assert_equal, assert_sound};

use crate::bytes::{Bytes, MAX_BYTES, OPS_MAX};
use crate::files::{self, ops_on_a_file};
use crate::multi_ops::MultiRun;
use crate::{Features, Rng, Target};

/// Of so many kinds of inputs the map is no multimap.
const MAP_TYPES: usize = 6;

/// Byte strings as sequences of operations.
#[derive(Default)]
pub struct OpsVsModel {
    /// What is wrong with the map, to see that it would be found.
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
            buckets: 0,
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

/// A map, what it shall hold, and its medium.
struct Run<K: Sample + ?Sized, V: Sample + ?Sized> {
    sim: Sim,
    /// None only while it is closed.
    map: Option<Map<K, V>>,
    model: Model,
    planted: Option<Planted>,
    /// The image before the last operation, if a planted fault needs it.
    before: Vec<u64>,
}

impl<K: Sample + ?Sized, V: Sample + ?Sized> Run<K, V> {
    fn new(options: &Options, sim: Sim, planted: Option<Planted>) -> Self {
        let map = options.create_on(sim.clone()).expect("a new map");
        let before = sim.image();
        Run { sim, map: Some(map), model: Model::new(), planted, before }
    }

    fn map(&self) -> &Map<K, V> {
        self.map.as_ref().expect("open")
    }

    fn all(mut self, mut bytes: Bytes<'_>, features: &mut Features) {
        let keys = [4, 40, 256][bytes.below(3)];
        for _ in 0..OPS_MAX {
            if bytes.is_empty() {
                break;
            }
            self.one(keys, &mut bytes, features);
        }
        assert_equal(self.map(), &self.model);
        assert_sound(self.map());
        self.note(features);
        self.open(&self.sim.image());
        let mut steps = 0;
        while self.map().step().expect("a step") {
            steps += 1;
            assert!(steps < 1 << 20, "a sweep without an end");
        }
        assert_equal(self.map(), &self.model);
        assert_sound(self.map());
        self.close();
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
                    Some(Planted::DeathForgets) => self.open(&self.before.clone()),
                    _ => self.open(&self.sim.image()),
                };
            }
            57 => return self.close(),
            58 => return self.fill(k, bytes),
            cut => return self.cut(k, v, cut > 60, bytes),
        };
        match self.planted {
            None => apply(self.map.as_ref().expect("open"), &mut self.model, &op),
            Some(planted) => self.apply_with(planted, &op),
        }
    }

    /// Does `op`, and then what the fault does.
    fn apply_with(&mut self, planted: Planted, op: &Op) {
        let index = |run: &Self| run.map().stats().expect("figures").index;
        let (before, had) = (index(self), self.model.clone());
        if planted == Planted::DeathForgets {
            self.before = self.sim.image();
        }
        apply(self.map.as_ref().expect("open"), &mut self.model, op);
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
                    let put = self.map().put(K::sample(*k).borrow(), V::sample(*v).borrow());
                    put.expect("a put");
                }
                None
            }
            _ => None,
        };
        if let Some(k) = lost {
            let _ = self.map().remove(K::sample(k).borrow()).expect("a removal");
        }
    }

    fn open(&mut self, image: &[u64]) {
        let order = self.sim.same_line_order();
        self.sim = Sim::from_image(image, MAX_BYTES).with_line_order(order);
        let opened = Options::new().open_on(self.sim.clone());
        self.map = Some(opened.expect("opens again"));
    }

    fn close(&mut self) {
        let map = self.map.take().expect("always put back");
        map.close().expect("closes");
        self.open(&self.sim.image());
    }

    /// Writes while the medium is full.
    fn fill(&mut self, from: u64, bytes: &mut Bytes<'_>) {
        self.sim.set_limit(self.sim.image().len() as u64 * 8);
        for k in from..from + 30 {
            let v = bytes.number(64);
            let done = if v < 20 {
                let done = self.map().remove(K::sample(k).borrow());
                done.map(|_| self.model.remove(&k))
            } else {
                let done = self.map().put(K::sample(k).borrow(), V::sample(v).borrow());
                done.map(|()| self.model.insert(k, v))
            };
            if let Err(e) = done {
                assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}");
                if self.planted == Some(Planted::FullLoses) {
                    // What is full of chains can refuse even this.
                    let _ = self.map().remove(K::sample(k).borrow());
                }
            }
        }
        self.sim.set_limit(MAX_BYTES);
    }

    /// The process dies within a put or a remove: some of its stores were done.
    fn cut(&mut self, k: u64, v: u64, remove: bool, bytes: &mut Bytes<'_>) {
        let mut image = self.sim.image();
        self.sim.record(Vec::new());
        let key = K::sample(k);
        if remove {
            self.map().remove(key.borrow()).expect("a removal");
        } else {
            let put = self.map().put(key.borrow(), V::sample(v).borrow());
            put.expect("a put");
        }
        let steps = self.sim.recorded();
        let cut = bytes.below(256) * (steps.len() + 1) / 256;
        let torn = usize::from(self.planted == Some(Planted::DeathTears)).min(cut);
        Step::replay(&steps[torn..cut], &mut image);
        self.open(&image);
        let found = self.map().get(key.borrow()).expect("readable");
        let old = self.model.get(&k).copied();
        let new = (!remove).then_some(v);
        let is = |number: Option<u64>| found == number.map(V::sample);
        assert!(is(old) || is(new), "{k}: neither old nor new");
        match if is(new) { new } else { old } {
            Some(v) => drop(self.model.insert(k, v)),
            None => drop(self.model.remove(&k)),
        }
        assert_equal(self.map(), &self.model);
    }

    fn note(&self, features: &mut Features) {
        let stats = self.map().stats().expect("figures");
        let index = &stats.index;
        let sizes = [
            index.splits,
            index.merges,
            index.doublings,
            index.halvings,
            stats.keys,
            stats.space.record_bytes,
            stats.space.free_bytes,
        ];
        let design = self.map().design();
        for (i, size) in sizes.into_iter().enumerate() {
            features.add((design, i, size.checked_ilog2()));
        }
        for (i, count) in index.pea.map_or([0; 3], |pea| pea.strategies).into_iter().enumerate() {
            features.add((design, "strategy", i, count.checked_ilog2()));
        }
        features.add((design, index.global_depth, stats.space.sweep_pending));
    }
}
