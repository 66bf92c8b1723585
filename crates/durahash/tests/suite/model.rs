//! Sequences of operations, compared with what a `HashMap` does: any design, on any medium, with
//! keys and values of several kinds, opened again in between.

use durahash::{Map, Plain};
use durahash_testkit::ops::{Op, apply};
use durahash_testkit::{
    Exit, Model, Sample, Setup, assert_equal, assert_sound, budget, colliding, tiny,
};
use proptest::prelude::*;

/// An event in the life of a map.
#[derive(Clone, Debug)]
enum Event {
    Op(Op),
    Reopen(Exit),
}

fn events(keys: u64) -> impl Strategy<Value = Vec<Event>> {
    let (key, value) = (move || 0..keys, || 0..64_u64);
    let op = prop_oneof![
        10 => key().prop_map(Op::Get),
        20 => (key(), value()).prop_map(|(k, v)| Op::Insert(k, v)),
        10 => (key(), value()).prop_map(|(k, v)| Op::Put(k, v)),
        5 => (key(), value()).prop_map(|(k, v)| Op::TryInsert(k, v)),
        5 => (key(), value()).prop_map(|(k, v)| Op::Update(k, v)),
        3 => (key(), value()).prop_map(|(k, v)| Op::RemoveIf(k, v)),
        3 => (key(), value()).prop_map(|(k, v)| Op::GetOrInsert(k, v)),
        5 => (key(), value(), value()).prop_map(|(k, a, b)| Op::CompareExchange(k, a, b)),
        15 => key().prop_map(Op::Remove),
        2 => prop::collection::vec(key(), 30).prop_map(Op::RemoveAll),
        2 => prop::collection::vec(key(), 0..100).prop_map(Op::GetMany),
        3 => prop::collection::vec((key(), value()), 0..40).prop_map(Op::PutMany),
        2 => Just(Op::Compare),
        1 => Just(Op::Check),
        2 => Just(Op::Step),
        1 => Just(Op::Clear),
    ];
    let event = prop_oneof![
        76 => op.prop_map(Event::Op),
        3 => prop_oneof![Just(Exit::Closed), Just(Exit::Dead)].prop_map(Event::Reopen),
    ];
    prop::collection::vec(event, 1..160)
}

fn run<K: Sample + ?Sized, V: Sample + ?Sized>(place: &Setup, events: &[Event]) {
    let mut map: Map<K, V> = place.create();
    let mut model = Model::new();
    for event in events {
        match event {
            Event::Op(op) => apply(&map, &mut model, op),
            Event::Reopen(exit) => map = place.reopen(map, *exit),
        }
    }
    assert_equal(&map, &model);
    assert_sound(&map);
    let map = place.reopen(map, Exit::Dead);
    while map.step().unwrap() {}
    assert_equal(&map, &model);
    assert_sound(&map);
}

macro_rules! models {
    ($($name:ident: $key:ty => $value:ty, $keys:literal keys, $geometry:expr;)*) => {$(
        #[test]
        fn $name() {
            for place in Setup::all($geometry) {
                println!("{} cases", budget(3, 12));
                proptest!(ProptestConfig::with_cases(budget(3, 12)), |(events in events($keys))| {
                    run::<$key, $value>(&place, &events);
                });
            }
        }
    )*};
}

models! {
    words: u64 => u64, 100 keys, tiny();
    small_words: [u8; 5] => i32, 100 keys, tiny();
    digests: [u8; 32] => u64, 60 keys, tiny();
    digests_to_addresses: [u8; 20] => [u8; 16], 60 keys, tiny();
    tuples_to_structs: (u32, i64) => Plain<[u32; 5]>, 60 keys, tiny();
    words_to_digests: u64 => [u8; 32], 60 keys, tiny();
    colliding_digests: [u8; 32] => u128, 40 keys, colliding();
    texts_to_words: str => u64, 60 keys, tiny();
    words_to_bytes: i32 => [u8], 60 keys, tiny();
    bytes: [u8] => [u8], 60 keys, tiny();
    colliding_texts: str => u64, 40 keys, colliding();
    colliding_bytes: [u8] => [u8], 40 keys, colliding();
}
