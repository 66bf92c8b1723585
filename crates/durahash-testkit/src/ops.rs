//! Operations on a map, and what a `HashMap` does.

use std::borrow::Borrow;

use durahash::{Change, Map, Outcome};

use super::{Model, Sample, assert_equal, assert_sound};

/// An operation; keys and values by the numbers of their samples.
#[derive(Clone, Debug)]
pub enum Op {
    /// `get`, `contains_key` and `get_with` of a key.
    Get(u64),
    /// `insert` of a key and a value.
    Insert(u64, u64),
    /// `put` of a key and a value.
    Put(u64, u64),
    /// `try_insert` of a key and a value.
    TryInsert(u64, u64),
    /// The second number is the expected value, or the present one if even.
    CompareExchange(u64, u64, u64),
    /// `update` of a key: an odd number is set, one that four divides keeps all, others remove the key.
    Update(u64, u64),
    /// `remove_if` of a key: removed if its value has this number.
    RemoveIf(u64, u64),
    /// `get_or_insert_with` of a key and a value.
    GetOrInsert(u64, u64),
    /// `remove` of a key.
    Remove(u64),
    /// `remove` of each.
    RemoveAll(Vec<u64>),
    /// `get_many` of keys.
    GetMany(Vec<u64>),
    /// `put_many` of keys and values.
    PutMany(Vec<(u64, u64)>),
    /// Compares all entries with the model.
    Compare,
    /// `check`, which must find nothing.
    Check,
    /// `step`.
    Step,
    /// `clear`.
    Clear,
}

/// Does `op` to both.
///
/// # Panics
/// When they answer differently, or an operation fails.
pub fn apply<K: Sample + ?Sized, V: Sample + ?Sized>(map: &Map<K, V>, model: &mut Model, op: &Op) {
    let value = |v: Option<&u64>| v.map(|v| V::sample(*v));
    match op {
        Op::Get(k) => {
            let (key, want) = (K::sample(*k), value(model.get(k)));
            assert_eq!(map.get(key.borrow()).unwrap(), want);
            assert_eq!(map.contains_key(key.borrow()).unwrap(), want.is_some());
            let lent = map.get_with(key.borrow(), |v| want.as_ref().map(Borrow::borrow) == Some(v));
            assert_eq!(lent.unwrap(), want.is_some().then_some(true));
        }
        Op::Insert(k, v) => {
            let old = map.insert(K::sample(*k).borrow(), V::sample(*v).borrow()).unwrap();
            assert_eq!(old, value(model.insert(*k, *v).as_ref()));
        }
        Op::Put(k, v) => {
            map.put(K::sample(*k).borrow(), V::sample(*v).borrow()).unwrap();
            model.insert(*k, *v);
        }
        Op::TryInsert(k, v) => {
            let outcome = map.try_insert(K::sample(*k).borrow(), V::sample(*v).borrow()).unwrap();
            assert_eq!(outcome, value(model.get(k)).map_or(Outcome::Done, Outcome::Present));
            model.entry(*k).or_insert(*v);
        }
        Op::CompareExchange(k, old, new) => {
            let old = model.get(k).copied().filter(|_| old % 2 == 0).unwrap_or(*old);
            let (expected, desired) = (V::sample(old), V::sample(*new));
            let outcome =
                map.compare_exchange(K::sample(*k).borrow(), expected.borrow(), desired.borrow());
            let want = match model.get_mut(k) {
                None => Outcome::Absent,
                Some(v) if *v != old => Outcome::Present(V::sample(*v)),
                Some(v) => {
                    *v = *new;
                    Outcome::Done
                }
            };
            assert_eq!(outcome.unwrap(), want);
        }
        Op::Update(k, v) => {
            let old = model.get(k).copied();
            let after = map.update(K::sample(*k).borrow(), |found| {
                assert_eq!(found, old.map(V::sample));
                match v % 4 {
                    0 => Change::Keep,
                    2 => Change::Remove,
                    _ => Change::Set(V::sample(*v)),
                }
            });
            match v % 4 {
                0 => None,
                2 => model.remove(k),
                _ => model.insert(*k, *v),
            };
            assert_eq!(after.unwrap(), value(model.get(k)));
        }
        Op::RemoveIf(k, v) => {
            let unwanted = V::sample(*v);
            let removed = map.remove_if(K::sample(*k).borrow(), |v| v == unwanted.borrow());
            let is_unwanted = model.get(k) == Some(v);
            assert_eq!(removed.unwrap(), is_unwanted.then_some(V::sample(*v)));
            model.retain(|key, _| key != k || !is_unwanted);
        }
        Op::GetOrInsert(k, v) => {
            let got = map.get_or_insert_with(K::sample(*k).borrow(), || V::sample(*v));
            assert_eq!(got.unwrap(), V::sample(*model.entry(*k).or_insert(*v)));
        }
        Op::Remove(k) => {
            let old = map.remove(K::sample(*k).borrow()).unwrap();
            assert_eq!(old, value(model.remove(k).as_ref()));
        }
        Op::RemoveAll(keys) => {
            for k in keys {
                let old = map.remove(K::sample(*k).borrow()).unwrap();
                assert_eq!(old, value(model.remove(k).as_ref()));
            }
        }
        Op::GetMany(numbers) => {
            let keys: Vec<K::Owned> = numbers.iter().map(|k| K::sample(*k)).collect();
            let mut values = vec![None; keys.len()];
            map.get_many(&keys, &mut values).unwrap();
            let want: Vec<_> = numbers.iter().map(|k| value(model.get(k))).collect();
            assert_eq!(values, want);
            let mut there = vec![false; keys.len()];
            map.contains_many(&keys, &mut there).unwrap();
            assert!(there.into_iter().eq(want.iter().map(Option::is_some)));
        }
        Op::PutMany(numbers) => {
            let pairs: Vec<_> =
                numbers.iter().map(|(k, v)| (K::sample(*k), V::sample(*v))).collect();
            map.put_many(&pairs).unwrap();
            model.extend(numbers.iter().copied());
        }
        Op::Compare => assert_equal(map, model),
        Op::Check => assert_sound(map),
        Op::Step => drop(map.step().unwrap()),
        Op::Clear => {
            map.clear().unwrap();
            model.clear();
        }
    }
}
