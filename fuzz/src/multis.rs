//! Multimaps, hostile ones too, compared with a multiset for each key.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use durahash::{AnyMultiMap, ErrorKind, Finding, MultiMap, Options, Result, Stats};
use durahash_testkit::Sample;

use crate::files::text;
use crate::kept::{self, Do, Kept, Model, own_methods};
use crate::{Features, Rng};

/// How often each value is there.
type Bag<V> = HashMap<V, u64, BuildHasherDefault<DefaultHasher>>;

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

macro_rules! multis {
    ($([$($of:tt)*] $map:ty, $key:ty, $value:ty;
        |$this:ident, $n:ident| $k:expr, $v:expr; |$asked:ident, $count:ident| $more:expr;)*) => {$(
        impl $($of)* Kept for $map {
            type Key = $key;
            type Entry = Bag<$value>;
            const NAME: &'static str = "multimap";
            const KEYS: [usize; 3] = [2, 12, 120];
            const VALUES: u64 = 12;
            own_methods!($map);

            #[allow(unused_variables, reason = "types that are known need no map")]
            fn key(&self, $n: u64) -> $key {
                let $this = self;
                $k
            }

            fn read(&self, sound: bool, features: &mut Features) -> Model<Self> {
                let mut found = Model::<Self>::default();
                for pair in self {
                    match pair {
                        Ok((key, value)) => *found.entry(key).or_default().entry(value).or_default() += 1,
                        Err(e) => features.damaged(sound, "iteration of a multimap", &e),
                    }
                }
                let mut model = found.clone();
                for key in found.keys() {
                    if let Err(e) = self.change(&mut model, key.clone(), 0, Do::Look, sound) {
                        features.damaged(sound, "values of a key", &e);
                    }
                }
                found
            }

            fn values(bag: &Bag<$value>) -> u64 {
                bag.values().sum()
            }

            fn change(&self, model: &mut Model<Self>, key: $key, v: u64, op: Do, sound: bool) -> Result<()> {
                let $this = self;
                let value = |$n: u64| $v;
                let bag = model.entry(key.clone()).or_default();
                let k = key.borrow();
                let mut changed = || match op {
                    Do::Insert | Do::Put(1) => {
                        let value = value(v);
                        self.add(k, value.borrow()).map(|()| *bag.entry(value).or_default() += 1)
                    }
                    Do::Put(times) => (0..times).try_for_each(|i| {
                        let value = value((v + i) % MANY);
                        self.add(k, value.borrow()).map(|()| *bag.entry(value).or_default() += 1)
                    }),
                    Do::Remove(times) | Do::RemoveSome(times) => (0..times).try_for_each(|_| {
                        let at = if op == Do::Remove(times) { bag.len() } else { v as usize % bag.len().max(1) };
                        let value = bag.keys().nth(at).cloned().unwrap_or_else(|| value(v));
                        self.remove_one(k, value.borrow()).map(|was| {
                            let count = bag.get_mut::<$value>(&value);
                            assert!(!sound || was == count.is_some(), "remove_one");
                            if let Some(count) = count {
                                *count -= 1;
                            }
                            bag.retain(|_, count| *count > 0);
                        })
                    }),
                    Do::RemoveAll => self.remove_all(k).map(|count| {
                        let want = Self::values(&std::mem::take(bag));
                        assert!(!sound || count == want, "remove_all: {count}, not {want}");
                    }),
                    Do::Look => {
                        let mut got = Bag::<$value>::default();
                        self.get_all(k)?.into_iter().for_each(|v| *got.entry(v).or_default() += 1);
                        let ($asked, $count) = (k, self.count(k)?);
                        let want = Self::values(bag);
                        assert!(!sound || got == *bag && $count == want, "{} counted, not {want}", $count);
                        let same = $more;
                        assert!(!sound || same, "{want} values, read in other ways");
                        Ok(())
                    }
                };
                let done = changed();
                if bag.is_empty() {
                    model.remove::<$key>(&key);
                }
                done
            }
        }
    )*};
}

/// Values of many that are put at once.
const MANY: u64 = 13;

multis! {
    [<K: Sample + ?Sized, V: Sample + ?Sized>] MultiMap<K, V>, K::Owned, V::Owned;
    |map, n| K::sample(n), V::sample(n);
    |key, count| {
        let mut seen = 0;
        let each = map.each(key, |_| seen += 1)?;
        assert!(each == seen, "{each} told, {seen} seen");
        each == count && map.contains_key(key)? == (count > 0)
    };

    [] AnyMultiMap, Vec<u8>, Vec<u8>;
    |map, n| text(map.key_type(), n), text(map.value_type(), n);
    |_key, _count| true;
}
