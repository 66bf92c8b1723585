//! Maps, hostile ones too, compared with a `HashMap`.

use std::borrow::Borrow;

use durahash::{AnyMap, Finding, Map, Options, Result, Stats};
use durahash_media::hash::WordMix;
use durahash_media::sim::Sim;
use durahash_testkit::Sample;

use crate::files::text;
use crate::image::{MAX_BYTES, SEED};
use crate::kept::{self, Do, Kept, Model, own_methods};
use crate::{Features, Rng};

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

macro_rules! maps {
    ($([$($of:tt)*] $map:ty, $key:ty, $value:ty;
        |$this:ident, $n:ident| $k:expr, $v:expr; $insert:expr; $remove:expr;)*) => {$(
        impl $($of)* Kept for $map {
            type Key = $key;
            type Entry = $value;
            const NAME: &'static str = "map";
            const KEYS: [usize; 3] = [120; 3];
            const VALUES: u64 = 120;
            own_methods!($map);

            fn key(&self, $n: u64) -> $key {
                let $this = self;
                $k
            }

            fn read(&self, sound: bool, features: &mut Features) -> Model<Self> {
                let mut found = Model::<Self>::default();
                for pair in self {
                    match pair {
                        Ok((key, value)) => {
                            let twice = found.insert(key, value).is_some();
                            assert!(!twice || !sound, "a key twice");
                        }
                        Err(e) => features.damaged(sound, "iteration", &e),
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

            fn values(_value: &$value) -> u64 {
                1
            }

            fn change(&self, model: &mut Model<Self>, key: $key, v: u64, op: Do, sound: bool) -> Result<()> {
                let ($this, $n) = (self, v);
                let value = $v;
                match op {
                    Do::Put(_) => {
                        self.put(key.borrow(), value.borrow()).map(|()| drop(model.insert(key, value)))
                    }
                    Do::Insert => $insert(self, key.borrow(), value.borrow()).map(|old| {
                        let want = model.insert(key, value);
                        assert!(!sound || old == want, "insert");
                    }),
                    Do::Look => self.get(key.borrow()).map(|got| {
                        assert!(!sound || got.as_ref() == model.get::<$key>(&key), "get");
                    }),
                    Do::Remove(_) | Do::RemoveSome(_) | Do::RemoveAll => {
                        $remove(self, key.borrow()).map(|old| {
                            let want = model.remove::<$key>(&key);
                            assert!(!sound || old == want, "remove");
                        })
                    }
                }
            }
        }
    )*};
}

maps! {
    [<K: Sample + ?Sized, V: Sample + ?Sized>] Map<K, V>, K::Owned, V::Owned;
    |_map, n| K::sample(n), V::sample(n);
    Map::<K, V>::insert;
    Map::<K, V>::remove;

    [] AnyMap, Vec<u8>, Vec<u8>;
    |map, n| text(map.key_type(), n), text(map.value_type(), n);
    |map: &AnyMap, key, value| map.get(key).and_then(|old| map.put(key, value).map(|()| old));
    |map: &AnyMap, key| {
        let old = map.get(key).ok().flatten();
        // An entry that cannot be read is none of the model.
        Ok(map.remove(key)?.then(|| old.unwrap_or_default()))
    };
}
