//! Multimaps over Pea Hash: lists, their buffers, records, the sweep. Buckets of four slots, of which
//! three are for entries, two main buckets and two of stash a segment; buffers for 4, 12, 28, 60 and
//! 124 values.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use durahash::{Data, MultiMap, Options, Result};
use durahash_media::hash::WordMix;
use durahash_media::sim::Sim;
use durahash_media::{Error, Geometry};

use super::{text, word};
use crate::script::{self, Bag, Op, mix, spread};
use crate::subject::{Prefill, Subject, Table};

/// A multimap of words.
pub type PeaMultiSubject = PeaMultiWithin<{ 96 << 10 }>;

/// A multimap of words on a medium that fills up.
pub type PeaMultiFullSubject = PeaMultiWithin<{ 10 << 10 }>;

/// A multimap of words on a medium of so many bytes.
#[derive(Default)]
pub struct PeaMultiWithin<const MAX_BYTES: u64>;

const SEED: u64 = 1;

/// The bit that says which of two main buckets is a hash's first.
const FIRST: u32 = 39;

/// Hashes of keys 0 to 9 begin with 000, of 10 to 15 with 001, of 16 to 19 with 01, of 20 to 33 with
/// 1; then the smallest and the largest.
const GROUPS: [(u64, u32, u64); 4] = [(0b000, 3, 10), (0b001, 3, 6), (0b01, 2, 4), (0b1, 1, 14)];
const KEYS: u16 = 34;
/// Keys that random scripts prefer, so that their lists grow: three of one bucket, one of another.
const HOT: [u16; 4] = [20, 22, 24, 3];

/// The value that is there before a script.
const OLD: u64 = 5;

fn of_map(op: Op, salt: u64) -> Op {
    match op {
        Op::Put(key, v) | Op::Insert(key, v) => Op::Add(key, v),
        Op::Update(key, v) => Op::RemoveOne(key, v),
        Op::Remove(key) if salt.is_multiple_of(6) => Op::RemoveAll(key),
        Op::Remove(key) => Op::RemoveOne(key, salt >> 32),
        op => op,
    }
}

fn random(keys: u16, hot: &[u16], count: usize, seed: u64) -> Vec<Op> {
    let ops = script::random(keys, count, seed).into_iter().enumerate();
    ops.map(|(i, op)| {
        let salt = mix(seed.rotate_left(32) ^ i as u64);
        let hot = hot[(salt >> 16) as usize % hot.len()];
        match of_map(op, salt) {
            Op::Add(_, v) if salt & 0x300 != 0 => Op::Add(hot, v),
            Op::RemoveOne(_, v) if salt & 0x300 != 0 => Op::RemoveOne(hot, v),
            op => op,
        }
    })
    .collect()
}

/// The operations that are tried: on a key that has what is said, and on another.
fn kinds(present: u16, other: u16) -> Vec<Op> {
    vec![
        Op::Add(present, 0),
        Op::Add(other, 0),
        Op::RemoveOne(present, OLD),
        Op::RemoveOne(present, 0),
        Op::RemoveOne(other, OLD),
        Op::RemoveAll(present),
    ]
}

/// Values for each of these keys.
fn adds(keys: impl IntoIterator<Item = u16>) -> Vec<Op> {
    keys.into_iter().map(|key| Op::Add(key, OLD)).collect()
}

/// So many values for one key, none of them 7.
fn many(key: u16, count: u64) -> impl Iterator<Item = Op> {
    (0..count).map(move |i| Op::Add(key, i % 7))
}

/// What takes the first of these away again.
fn fewer(key: u16, count: u64) -> impl Iterator<Item = Op> {
    (0..count).map(move |i| Op::RemoveOne(key, i % 7))
}

impl<const MAX_BYTES: u64> PeaMultiWithin<MAX_BYTES> {
    fn options() -> Options {
        let geometry = Geometry { extent_shift: 10, slots: 4, hash_bits: 0, buckets: 0 };
        Options::new().seed(SEED).geometry(geometry)
    }
}

impl<const MAX_BYTES: u64> Subject for PeaMultiWithin<MAX_BYTES> {
    const NAME: &'static str = if Self::MAY_FILL { "pea-multi-full" } else { "pea-multi" };
    const MAX_BYTES: u64 = MAX_BYTES;
    const MAY_FILL: bool = MAX_BYTES < 16 << 10;

    fn create(&self, sim: Sim) -> Result<Box<dyn Table>> {
        Self::options().create_on(sim).map(words)
    }

    fn open(&self, sim: Sim) -> Result<Box<dyn Table>> {
        Self::options().open_on(sim).map(words)
    }

    fn keys(&self) -> Vec<u64> {
        let words = WordMix::new(SEED);
        let spread = |(prefix, bits, count)| {
            let hashes = spread(prefix, bits, count).enumerate();
            hashes.map(|(i, h)| h | (i as u64 & 1) << FIRST)
        };
        let hashes = GROUPS.into_iter().flat_map(spread).chain([0, u64::MAX]);
        hashes.map(|h| words.unmix(h)).collect()
    }

    fn prefills(&self) -> Vec<Prefill> {
        // Even keys of a group have bucket 0 as their first.
        let upper = |count: u16| {
            (20..KEYS).step_by(2).chain((20..KEYS).skip(1).step_by(2)).take(count.into())
        };
        let of = |parts: Vec<Vec<Op>>| parts.concat();
        let mut shrunk = of(vec![adds(0..KEYS), many(3, 6).collect(), adds(0..KEYS)]);
        shrunk.extend((0..KEYS).filter(|key| key % 5 != 3).map(Op::RemoveAll));
        let new_head = || vec![Op::Add(20, 7), Op::Add(20, 7)];
        let prefill = |name, ops, kinds| Prefill { name, ops, kinds };
        vec![
            prefill("empty", Vec::new(), kinds(0, 1)),
            prefill("one-free", adds([20, 20, 22]), kinds(20, 24)),
            prefill("all-differ", adds([20, 22, 24]), kinds(20, 26)),
            prefill("list-of-two", adds([20, 22, 24, 20]), kinds(20, 22)),
            // The list of a key is made to let another one in; then it is added to.
            prefill("made-room", adds([20, 20, 22, 24, 20]), kinds(20, 22)),
            prefill("buffer-full", adds([20, 20, 22, 20, 20]), kinds(20, 24)),
            prefill(
                "buffer-sparse",
                of(vec![many(20, 13).collect(), adds([20]), fewer(20, 6).collect()]),
                kinds(20, 22),
            ),
            prefill(
                "chain",
                of(vec![many(20, 124).collect(), new_head()]),
                [vec![Op::RemoveOne(20, 7)], kinds(20, 22)].concat(),
            ),
            prefill(
                "chain-sparse",
                of(vec![many(20, 123).collect(), adds([20]), new_head(), fewer(20, 92).collect()]),
                kinds(20, 22),
            ),
            prefill(
                "chain-end",
                of(vec![many(20, 123).collect(), adds([20]), new_head(), fewer(20, 123).collect()]),
                kinds(20, 22),
            ),
            prefill("two-full", of(vec![adds(upper(6)), adds([20, 20])]), kinds(20, 32)),
            prefill("stash-full", of(vec![adds(upper(12)), adds([20, 20])]), kinds(33, 31)),
            prefill("deep", of(vec![adds(0..KEYS), adds(0..KEYS)]), kinds(0, 4)),
            prefill("shrunk", shrunk, kinds(3, 8)),
        ]
    }

    fn translate(op: Op, salt: u64) -> Op {
        of_map(op, salt)
    }

    fn random(&self, count: usize, seed: u64) -> Vec<Op> {
        random(KEYS + 2, &HOT, count, seed)
    }

    fn entries(v: u64) -> u64 {
        Bag(v).len()
    }
}

/// Adds what iteration gives of one key.
fn count_in(bags: &mut BTreeMap<u64, Bag>, key: u64, v: u64) -> Result<()> {
    if v >= Bag::VALUES {
        return Err(Error::corrupt("a value that was never added", v));
    }
    let bag = bags.entry(key).or_default();
    *bag = bag.with(v);
    Ok(())
}

/// All of them at once.
fn bag(values: impl IntoIterator<Item = u64>) -> Result<Option<u64>> {
    let mut bags = BTreeMap::new();
    values.into_iter().try_for_each(|v| count_in(&mut bags, 0, v))?;
    Ok(bags.get(&0).and_then(|bag| bag.word()))
}

/// A multimap, and how the words of scripts become its keys and values and come back.
struct Bags<K: Data + ?Sized, V: Data + ?Sized> {
    map: MultiMap<K, V>,
    key: fn(u64) -> K::Owned,
    value: fn(u64) -> V::Owned,
    key_word: fn(K::Owned) -> u64,
    value_word: fn(V::Owned) -> u64,
}

impl<K: Data + ?Sized, V: Data + ?Sized> Table for Bags<K, V> {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        let map = &self.map;
        let key = (self.key)(key);
        let key = key.borrow();
        let value = |v| (self.value)(v % Bag::VALUES);
        Ok(match op {
            Op::Add(_, v) => {
                map.add(key, value(v).borrow())?;
                None
            }
            Op::RemoveOne(_, v) => map.remove_one(key, value(v).borrow())?.then_some(1),
            Op::RemoveAll(_) => Some(map.remove_all(key)?).filter(|count| *count > 0),
            Op::Get(_) => bag(map.get_all(key)?.into_iter().map(self.value_word))?,
            Op::Step => {
                map.step()?;
                None
            }
            Op::Put(..) | Op::Insert(..) | Op::Update(..) | Op::Remove(_) => {
                unreachable!("{op} is for maps")
            }
            Op::Reopen | Op::Close | Op::Crash(_) => None,
        })
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        let mut bags = BTreeMap::new();
        for pair in &self.map {
            let (key, v) = pair?;
            count_in(&mut bags, (self.key_word)(key), (self.value_word)(v))?;
        }
        out.extend(bags.into_iter().map(|(key, bag)| (key, bag.0)));
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.map.len()
    }

    fn check(&self, found: &mut dyn FnMut(durahash::Finding)) -> Result<()> {
        self.map.check(found)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.map.close()
    }
}

fn words(map: MultiMap<u64, u64>) -> Box<dyn Table> {
    let same = |word| word;
    Box::new(Bags { map, key: same, value: same, key_word: same, value_word: same })
}

/// Keys and values are words in decimal.
fn texts(map: MultiMap<str, str>) -> Box<dyn Table> {
    let word = |text: String| word(&text);
    Box::new(Bags {
        map,
        key: |key| key.to_string(),
        value: text,
        key_word: word,
        value_word: word,
    })
}

/// A multimap of byte strings, with hashes of five bits so that some keys share theirs.
pub struct PeaMultiMapSubject;

const TEXT_KEYS: u64 = 12;

impl PeaMultiMapSubject {
    fn options() -> Options {
        let geometry = Geometry { extent_shift: 12, slots: 6, hash_bits: 5, buckets: 0 };
        Options::new().seed(SEED).geometry(geometry)
    }
}

impl Subject for PeaMultiMapSubject {
    const NAME: &'static str = "pea-multi-map";
    const MAX_BYTES: u64 = 512 << 10;

    fn create(&self, sim: Sim) -> Result<Box<dyn Table>> {
        Self::options().create_on(sim).map(texts)
    }

    fn open(&self, sim: Sim) -> Result<Box<dyn Table>> {
        Self::options().open_on(sim).map(texts)
    }

    fn keys(&self) -> Vec<u64> {
        (0..TEXT_KEYS).collect()
    }

    fn prefills(&self) -> Vec<Prefill> {
        let prefill = |name, ops, kinds| Prefill { name, ops, kinds };
        let keys = 0..TEXT_KEYS as u16;
        vec![
            prefill("empty", Vec::new(), kinds(0, 1)),
            prefill("full", adds(keys.clone()), kinds(0, 1)),
            prefill("lists", [adds(keys.clone()), adds(keys), adds([0; 5])].concat(), kinds(0, 1)),
        ]
    }

    fn translate(op: Op, salt: u64) -> Op {
        of_map(op, salt)
    }

    fn random(&self, count: usize, seed: u64) -> Vec<Op> {
        random(TEXT_KEYS as u16, &[0, 1, 2], count, seed)
    }

    fn entries(v: u64) -> u64 {
        Bag(v).len()
    }
}
