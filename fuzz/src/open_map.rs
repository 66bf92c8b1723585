//! Hostile pools of maps.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use durahash::{Data, ErrorKind, Finding, Map, Options, Result};
use durahash_media::hash::WordMix;
use durahash_media::{Sim, Step};

use crate::common::Sample;
use crate::open_image::{Image, MAX_BYTES, SEED, finish_sweep, input};
use crate::{Features, Rng};

/// Its order is the same in every run, so that a failure can be repeated.
type Found<K, V> =
    HashMap<<K as Data>::Owned, <V as Data>::Owned, BuildHasherDefault<DefaultHasher>>;

/// Pools as they come into being: open, closed, and killed within splits and merges.
pub(crate) fn images<K: Sample + ?Sized, V: Sample + ?Sized>(
    options: &Options,
    types: u8,
    rng: &mut Rng,
    out: &mut Vec<Vec<u8>>,
) {
    let sim = Sim::<true>::new(MAX_BYTES);
    let map: Map<K, V> = options.create_on(sim.clone()).expect("a new map");
    let (mut longest, mut cut) = (0, Vec::new());
    for i in 0..70 {
        let mut before = sim.image();
        sim.record(Vec::new());
        let key = K::sample(i % 40);
        let done = if i < 40 {
            map.put(key.borrow(), V::sample(i % 16).borrow())
        } else {
            map.remove(key.borrow()).map(drop)
        };
        done.expect("there is room");
        // The operation with the most stores is one that splits or merges.
        let steps = sim.recorded();
        if steps.len() >= longest {
            longest = steps.len();
            Step::replay(&steps[..steps.len() * 2 / 3], &mut before);
            cut = before;
        }
        if i % 20 == 0 {
            out.push(input(types, rng, &sim.image()));
        }
        if i % 35 == 0 {
            out.push(input(types, rng, &cut));
            longest = 0;
        }
    }
    map.close().expect("closes");
    out.push(input(types, rng, &sim.image()));
}

/// A pool of keys that share a long prefix: a deep directory.
pub(crate) fn deep(options: &Options) -> Vec<u64> {
    let sim = Sim::<true>::new(MAX_BYTES);
    let map: Map<u64, u64> = options.create_on(sim.clone()).expect("a new map");
    let mix = WordMix::new(SEED);
    for bits in 0..40 {
        let h = (u64::MAX >> (bits % 14)) ^ (bits << 52);
        map.put(&mix.unmix(h), &bits).expect("there is room");
    }
    sim.image()
}

impl<K: Sample + ?Sized, V: Sample + ?Sized> Image for Map<K, V> {
    type Found = Found<K, V>;

    fn open(options: &Options, sim: Sim<true>) -> Result<Self> {
        options.open_on(sim)
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        Map::check(self, found)
    }

    fn read(&self, sound: bool, features: &mut Features) -> Self::Found {
        let mut found = Found::<K, V>::default();
        for pair in self {
            match pair {
                Ok((key, value)) => {
                    let twice = found.insert(key, value).is_some();
                    assert!(!twice || !sound, "a key twice");
                }
                Err(e) => {
                    assert!(!sound, "{e}");
                    features.complain("iter", &e);
                }
            }
        }
        for (key, value) in &found {
            match self.get(key.borrow()) {
                Ok(got) => assert!(!sound || got.as_ref() == Some(value), "lookup and iteration"),
                Err(e) => {
                    assert!(!sound, "{e}");
                    features.complain("get", &e);
                }
            }
        }
        match self.len() {
            Ok(len) => assert!(!sound || len == found.len() as u64, "{len} keys"),
            Err(e) => {
                assert!(!sound, "{e}");
                features.complain("len", &e);
            }
        }
        found
    }

    fn write(&self, model: &mut Self::Found, sound: bool, rng: &mut Rng, features: &mut Features) {
        let known: Vec<K::Owned> = model.keys().cloned().collect();
        for i in 0..80 {
            let key = if known.is_empty() || rng.below(2) == 0 {
                K::sample(rng.below(120) as u64)
            } else {
                known[rng.below(known.len())].clone()
            };
            let done: Result<()> = match rng.below(8) {
                0..=3 => {
                    let value = V::sample(rng.below(32) as u64);
                    self.put(key.borrow(), value.borrow()).map(|()| drop(model.insert(key, value)))
                }
                4 => {
                    let value = V::sample(rng.below(32) as u64);
                    self.insert(key.borrow(), value.borrow()).map(|old| {
                        let want = model.insert(key, value);
                        assert!(!sound || old == want, "insert");
                    })
                }
                5 | 6 => self.remove(key.borrow()).map(|old| {
                    let want = model.remove::<K::Owned>(&key);
                    assert!(!sound || old == want, "remove");
                }),
                _ => self.get(key.borrow()).map(|got| {
                    assert!(!sound || got.as_ref() == model.get::<K::Owned>(&key), "get");
                }),
            };
            if let Err(e) = done {
                let expected =
                    matches!(e.kind(), ErrorKind::Full { .. } | ErrorKind::Skewed { .. });
                assert!(!sound || expected, "{e}");
                features.complain("write", &e);
            }
            if i == 40 {
                finish_sweep(|| self.step(), sound, features);
            }
        }
    }

    fn note(&self, features: &mut Features) {
        match self.stats() {
            Ok(stats) => {
                let (index, space) = (&stats.index, &stats.space);
                let sizes = [
                    index.splits,
                    index.merges,
                    index.doublings,
                    index.halvings,
                    u64::from(index.global_depth),
                    space.record_bytes,
                ];
                for (i, size) in sizes.into_iter().enumerate() {
                    features.add((self.design(), i, size.checked_ilog2()));
                }
            }
            Err(e) => features.complain("stats", &e),
        }
    }

    fn clear(&self) -> Result<()> {
        Map::clear(self)
    }

    fn close(self) -> Result<()> {
        Map::close(self)
    }
}
