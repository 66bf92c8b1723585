//! Hostile pools of multimaps: as those of maps, compared with a multiset for each key.

use std::borrow::Borrow;

use durahash::{ErrorKind, MultiMap, Options, Result};
use durahash_testkit::Sample;

use crate::image::{Image, Keyed, some_key};
use crate::{Features, Rng, kept};

/// How often each value is there.
type Bag<V> = Keyed<V, u64>;
/// The values of each key that has any.
type Found<K, V> = Keyed<K, Bag<V>>;

/// Values that one key gets, at most: more than the largest buffer of small extents holds.
const VALUES_MAX: u64 = 140;

/// Pools as they come into being: values in slots, lists of every size and of several buffers, and
/// less again; open, closed, and killed within the operations that store most.
pub(crate) fn images<K: Sample + ?Sized, V: Sample + ?Sized>(
    options: &Options,
    types: u8,
    rng: &mut Rng,
    out: &mut Vec<Vec<u8>>,
) {
    let few = 60;
    let wanted = |i| [[20, 59, 65, 100, 190, 199, 260, 320].contains(&i); 2];
    let change = |map: &MultiMap<K, V>, i| {
        let add = |k, v: u64| map.add(K::sample(k).borrow(), V::sample(v % 14).borrow());
        let remove = |k, v: u64| map.remove_one(K::sample(k).borrow(), V::sample(v % 14).borrow());
        let done = match i {
            _ if i < few => add(i * i % 17, i),
            _ if i < few + VALUES_MAX => add(3, i),
            _ if i % 10 == 0 => map.remove_all(K::sample(i / 10 % 17).borrow()).map(drop),
            _ => remove(if i % 10 == 1 { i % 17 } else { 3 }, i).map(drop),
        };
        if let Err(e) = done {
            // More keys of one hash than a bucket has slots for.
            assert!(matches!(e.kind(), ErrorKind::Skewed { .. }), "{e}");
        }
    };
    kept::images((options, types), rng, out, (few + 2 * VALUES_MAX, wanted), change);
}

impl<K: Sample + ?Sized, V: Sample + ?Sized> Image for MultiMap<K, V> {
    type Found = Found<K, V>;

    fn read(&self, sound: bool, features: &mut Features) -> Self::Found {
        let mut found = Found::<K, V>::default();
        for pair in self {
            match pair {
                Ok((key, value)) => {
                    *found.entry(key).or_default().entry(value).or_default() += 1;
                }
                Err(e) => features.damaged(sound, "iteration of a multimap", &e),
            }
        }
        for (key, values) in &found {
            let (key, count) = (key.borrow(), values.values().sum::<u64>());
            let mut seen = 0;
            let asked = self.get_all(key).and_then(|all| {
                let mut bag = Bag::<V>::default();
                all.into_iter().for_each(|v| *bag.entry(v).or_default() += 1);
                Ok((bag == *values, self.each(key, |_| seen += 1)?, self.count(key)?))
            });
            match asked {
                Ok((same, each, counted)) => {
                    assert!(each == seen, "{each} told, {seen} seen");
                    let all = same && each == count && counted == count;
                    assert!(
                        !sound || all,
                        "{count} values iterated, {each} read, {counted} counted"
                    );
                }
                Err(e) => features.damaged(sound, "values of a key", &e),
            }
        }
        found
    }

    fn count(found: &Self::Found) -> u64 {
        found.values().flat_map(|bag| bag.values()).sum()
    }

    fn change(&self, model: &mut Self::Found, sound: bool, rng: &mut Rng) -> Result<()> {
        let key = some_key::<K, _>(model, rng);
        let k = key.borrow();
        match rng.below(16) {
            0..=6 => {
                let v = V::sample(rng.below(20) as u64);
                self.add(k, v.borrow()).map(|()| {
                    *model.entry(key).or_default().entry(v).or_default() += 1;
                })
            }
            7 => (0..rng.below(40)).try_for_each(|n| {
                let v = V::sample(n as u64 % 13);
                self.add(k, v.borrow()).map(|()| {
                    *model.entry(key.clone()).or_default().entry(v).or_default() += 1;
                })
            }),
            8..=12 => {
                let there = model.get::<K::Owned>(&key).and_then(|bag| bag.keys().next()).cloned();
                let v = there.unwrap_or_else(|| V::sample(rng.below(20) as u64));
                self.remove_one(k, v.borrow()).map(|was| {
                    let want = take::<K, V>(model, &key, &v);
                    assert!(!sound || was == want, "remove_one");
                })
            }
            13 => self.remove_all(k).map(|count| {
                let want = model.remove::<K::Owned>(&key).map_or(0, |bag| bag.values().sum());
                assert!(!sound || count == want, "remove_all: {count}, not {want}");
            }),
            _ => self.count(k).map(|count| {
                let want = model.get::<K::Owned>(&key).map_or(0, |bag| bag.values().sum());
                assert!(!sound || count == want, "count: {count}, not {want}");
            }),
        }
    }

    fn note(&self, features: &mut Features) {
        match self.stats() {
            Ok(stats) => {
                features.add(("multi", stats.index.global_depth, stats.index.splits.min(4)));
            }
            Err(e) => features.complain("stats of a multimap", &e),
        }
    }
}

/// Takes one value of a key away; whether it was there.
fn take<K: Sample + ?Sized, V: Sample + ?Sized>(
    model: &mut Found<K, V>,
    key: &K::Owned,
    v: &V::Owned,
) -> bool {
    let Some(bag) = model.get_mut::<K::Owned>(key) else {
        return false;
    };
    let Some(count) = bag.get_mut::<V::Owned>(v) else {
        return false;
    };
    *count -= 1;
    if *count == 0 {
        bag.remove::<V::Owned>(v);
    }
    if bag.is_empty() {
        model.remove::<K::Owned>(key);
    }
    true
}
