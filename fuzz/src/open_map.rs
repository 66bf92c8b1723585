//! Hostile pools of maps.

use std::borrow::Borrow;

use durahash::{Data, Map, Options, Result};
use durahash_media::hash::WordMix;
use durahash_media::sim::Sim;
use durahash_testkit::Sample;

use crate::image::{Image, Keyed, MAX_BYTES, SEED, some_key};
use crate::{Features, Rng, kept};

type Found<K, V> = Keyed<K, <V as Data>::Owned>;

/// Pools as they come into being: open, closed, and killed within splits and merges.
pub(crate) fn images<K: Sample + ?Sized, V: Sample + ?Sized>(
    options: &Options,
    types: u8,
    rng: &mut Rng,
    out: &mut Vec<Vec<u8>>,
) {
    let wanted = |i| [i % 20 == 0, i % 35 == 0];
    kept::images((options, types), rng, out, (70, wanted), |map: &Map<K, V>, i| {
        let key = K::sample(i % 40);
        let done = if i < 40 {
            map.put(key.borrow(), V::sample(i % 16).borrow())
        } else {
            map.remove(key.borrow()).map(drop)
        };
        done.expect("there is room");
    });
}

/// A pool of keys that share a long prefix: a deep directory.
pub(crate) fn deep(options: &Options) -> Vec<u64> {
    let sim = Sim::new(MAX_BYTES);
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

    fn read(&self, sound: bool, features: &mut Features) -> Self::Found {
        let mut found = Found::<K, V>::default();
        for pair in self {
            match pair {
                Ok((key, value)) => {
                    let twice = found.insert(key, value).is_some();
                    assert!(!twice || !sound, "a key twice");
                }
                Err(e) => features.damaged(sound, "iter", &e),
            }
        }
        for (key, value) in &found {
            match self.get(key.borrow()) {
                Ok(got) => assert!(!sound || got.as_ref() == Some(value), "lookup and iteration"),
                Err(e) => features.damaged(sound, "get", &e),
            }
        }
        found
    }

    fn count(found: &Self::Found) -> u64 {
        found.len() as u64
    }

    fn change(&self, model: &mut Self::Found, sound: bool, rng: &mut Rng) -> Result<()> {
        let key = some_key::<K, _>(model, rng);
        let value = V::sample(rng.below(32) as u64);
        match rng.below(8) {
            0..=3 => {
                self.put(key.borrow(), value.borrow()).map(|()| drop(model.insert(key, value)))
            }
            4 => self.insert(key.borrow(), value.borrow()).map(|old| {
                let want = model.insert(key, value);
                assert!(!sound || old == want, "insert");
            }),
            5 | 6 => self.remove(key.borrow()).map(|old| {
                let want = model.remove::<K::Owned>(&key);
                assert!(!sound || old == want, "remove");
            }),
            _ => self.get(key.borrow()).map(|got| {
                assert!(!sound || got.as_ref() == model.get::<K::Owned>(&key), "get");
            }),
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
}
