//! Sequences of operations, compared with what a `HashMap` does: any design, on any medium, with
//! keys and values of several kinds, opened again in between.

mod common;

use std::borrow::Borrow;

use common::{Exit, Model, Place, Sample, assert_equal, assert_sound, colliding, tiny};
use durahash::{Map, Outcome};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Get(u64),
    Insert(u64, u64),
    Put(u64, u64),
    TryInsert(u64, u64),
    /// The second number is the expected value, or the present one if even.
    CompareExchange(u64, u64, u64),
    Remove(u64),
    RemoveAll(Vec<u64>),
    GetMany(Vec<u64>),
    PutMany(Vec<(u64, u64)>),
    Compare,
    Check,
    Step,
    Clear,
    Reopen(Exit),
}

fn ops(keys: u64) -> impl Strategy<Value = Vec<Op>> {
    let (key, value) = (move || 0..keys, || 0..64_u64);
    let op = prop_oneof![
        10 => key().prop_map(Op::Get),
        20 => (key(), value()).prop_map(|(k, v)| Op::Insert(k, v)),
        10 => (key(), value()).prop_map(|(k, v)| Op::Put(k, v)),
        5 => (key(), value()).prop_map(|(k, v)| Op::TryInsert(k, v)),
        5 => (key(), value(), value()).prop_map(|(k, a, b)| Op::CompareExchange(k, a, b)),
        15 => key().prop_map(Op::Remove),
        2 => prop::collection::vec(key(), 30).prop_map(Op::RemoveAll),
        2 => prop::collection::vec(key(), 0..100).prop_map(Op::GetMany),
        3 => prop::collection::vec((key(), value()), 0..40).prop_map(Op::PutMany),
        2 => Just(Op::Compare),
        1 => Just(Op::Check),
        2 => Just(Op::Step),
        1 => Just(Op::Clear),
        3 => prop_oneof![Just(Op::Reopen(Exit::Closed)), Just(Op::Reopen(Exit::Dead))],
    ];
    prop::collection::vec(op, 1..160)
}

fn run<K: Sample + ?Sized, V: Sample + ?Sized>(place: &Place, ops: &[Op]) {
    let mut map: Map<K, V> = place.create();
    let mut model = Model::new();
    for op in ops {
        map = apply(place, map, &mut model, op);
    }
    assert_equal(&map, &model);
    assert_sound(&map);
    let map = place.reopen(map, Exit::Dead);
    while map.step().unwrap() {}
    assert_equal(&map, &model);
    assert_sound(&map);
}

fn apply<K: Sample + ?Sized, V: Sample + ?Sized>(
    place: &Place,
    map: Map<K, V>,
    model: &mut Model,
    op: &Op,
) -> Map<K, V> {
    let value = |v: Option<&u64>| v.map(|v| V::sample(*v));
    match op {
        Op::Get(k) => {
            let (key, want) = (K::sample(*k), value(model.get(k)));
            assert_eq!(map.get(key.borrow()).unwrap(), want);
            assert_eq!(map.contains_key(key.borrow()).unwrap(), want.is_some());
            let lent = map.get_with(key.borrow(), |v| {
                want.as_ref().map(Borrow::borrow) == Some(v)
            });
            assert_eq!(lent.unwrap(), want.is_some().then_some(true));
        }
        Op::Insert(k, v) => {
            let old = map
                .insert(K::sample(*k).borrow(), V::sample(*v).borrow())
                .unwrap();
            assert_eq!(old, value(model.insert(*k, *v).as_ref()));
        }
        Op::Put(k, v) => {
            map.put(K::sample(*k).borrow(), V::sample(*v).borrow())
                .unwrap();
            model.insert(*k, *v);
        }
        Op::TryInsert(k, v) => {
            let outcome = map
                .try_insert(K::sample(*k).borrow(), V::sample(*v).borrow())
                .unwrap();
            let there = model.contains_key(k);
            assert_eq!(
                outcome,
                if there {
                    Outcome::Present
                } else {
                    Outcome::Done
                }
            );
            model.entry(*k).or_insert(*v);
        }
        Op::CompareExchange(k, old, new) => {
            let old = model
                .get(k)
                .copied()
                .filter(|_| old % 2 == 0)
                .unwrap_or(*old);
            let (expected, desired) = (V::sample(old), V::sample(*new));
            let outcome =
                map.compare_exchange(K::sample(*k).borrow(), expected.borrow(), desired.borrow());
            let want = match model.get_mut(k) {
                None => Outcome::Absent,
                Some(v) if *v != old => Outcome::Present,
                Some(v) => {
                    *v = *new;
                    Outcome::Done
                }
            };
            assert_eq!(outcome.unwrap(), want);
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
        }
        Op::PutMany(numbers) => {
            let pairs: Vec<_> = numbers
                .iter()
                .map(|(k, v)| (K::sample(*k), V::sample(*v)))
                .collect();
            map.put_many(&pairs).unwrap();
            model.extend(numbers.iter().copied());
        }
        Op::Compare => assert_equal(&map, model),
        Op::Check => assert_sound(&map),
        Op::Step => drop(map.step().unwrap()),
        Op::Clear => {
            map.clear().unwrap();
            model.clear();
        }
        Op::Reopen(exit) => return place.reopen(map, *exit),
    }
    map
}

macro_rules! models {
    ($($name:ident: $key:ty => $value:ty, $keys:literal keys, $geometry:expr;)*) => {$(
        #[test]
        fn $name() {
            for place in Place::all($geometry) {
                proptest!(ProptestConfig::with_cases(12), |(ops in ops($keys))| {
                    run::<$key, $value>(&place, &ops);
                });
            }
        }
    )*};
}

models! {
    words: u64 => u64, 100 keys, tiny();
    small_words: [u8; 5] => i32, 100 keys, tiny();
    texts_to_words: str => u64, 60 keys, tiny();
    words_to_bytes: i32 => [u8], 60 keys, tiny();
    bytes: [u8] => [u8], 60 keys, tiny();
    colliding_texts: str => u64, 40 keys, colliding();
    colliding_bytes: [u8] => [u8], 40 keys, colliding();
}
