//! Multimaps over Pea Hash: lists, their buffers, records, the sweep. Buckets of four slots, of which
//! three are for entries, two main buckets and two of stash a segment; buffers for 4, 12, 28, 60 and
//! 124 values.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use durahash::{Data, MultiMap, Options, Result};
use durahash_media::hash::WordMix;
use durahash_media::{Error, Geometry};

use super::words::{PEA_KEYS, pea_hashes, pea_upper, prefill};
use super::{text, word};
use crate::case::{Case, Table};
use crate::script::{Bag, Op};

const SEED: u64 = 1;

/// The value that is there before a script.
const OLD: u64 = 5;

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

/// Removals of the first of these.
fn fewer(key: u16, count: u64) -> impl Iterator<Item = Op> {
    (0..count).map(move |i| Op::RemoveOne(key, i % 7))
}

/// Multimaps of words; on a medium that fills up; with small segments at first; of byte strings, with hashes of five
/// bits so that some keys share theirs.
pub(super) fn all() -> [Case; 4] {
    let mut small = words_within("pea-multi-small", 96 << 10, 2);
    small
        .prefills
        .retain(|prefill| ["empty", "stash-full", "deep", "shrunk"].contains(&prefill.name));
    [
        words_within("pea-multi", 96 << 10, 0),
        words_within("pea-multi-full", 10 << 10, 0),
        small,
        texts_case(),
    ]
}

fn case<K: Data + ?Sized, V: Data + ?Sized>(
    name: &'static str,
    max_bytes: u64,
    geometry: Geometry,
    table: fn(MultiMap<K, V>) -> Box<dyn Table>,
) -> Case {
    let create = Options::new().seed(SEED).geometry(geometry);
    let open = create.clone();
    let may_fill = max_bytes < 16 << 10;
    let create = Arc::new(move |sim| create.create_on(sim).map(table));
    let open = Arc::new(move |sim| open.open_on(sim).map(table));
    Case { may_fill, ..Case::new(name, max_bytes, create, open) }
}

fn words_within(name: &'static str, max_bytes: u64, buckets: u8) -> Case {
    let geometry = Geometry { extent_shift: 10, slots: 4, hash_bits: 0, buckets };
    let mix = WordMix::new(SEED);
    let mut shrunk = [adds(0..PEA_KEYS), many(3, 6).collect(), adds(0..PEA_KEYS)].concat();
    shrunk.extend((0..PEA_KEYS).filter(|key| key % 5 != 3).map(Op::RemoveAll));
    let new_head = || vec![Op::Add(20, 7), Op::Add(20, 7)];
    Case {
        keys: pea_hashes().into_iter().map(|h| mix.unmix(h)).collect(),
        prefills: vec![
            prefill("empty", Vec::new(), kinds(0, 1)),
            prefill("one-free", adds([20, 20, 22]), kinds(20, 24)),
            prefill("all-differ", adds([20, 22, 24]), kinds(20, 26)),
            prefill("list-of-two", adds([20, 22, 24, 20]), kinds(20, 22)),
            // The list of a key is made to let another one in; then it is added to.
            prefill("made-room", adds([20, 20, 22, 24, 20]), kinds(20, 22)),
            prefill("buffer-full", adds([20, 20, 22, 20, 20]), kinds(20, 24)),
            prefill(
                "buffer-sparse",
                [many(20, 13).collect(), adds([20]), fewer(20, 6).collect()].concat(),
                kinds(20, 22),
            ),
            prefill(
                "chain",
                [many(20, 124).collect(), new_head()].concat(),
                [vec![Op::RemoveOne(20, 7)], kinds(20, 22)].concat(),
            ),
            prefill(
                "chain-sparse",
                [many(20, 123).collect(), adds([20]), new_head(), fewer(20, 92).collect()].concat(),
                kinds(20, 22),
            ),
            prefill(
                "chain-end",
                [many(20, 123).collect(), adds([20]), new_head(), fewer(20, 123).collect()]
                    .concat(),
                kinds(20, 22),
            ),
            prefill("two-full", [adds(pea_upper(6)), adds([20, 20])].concat(), kinds(20, 32)),
            prefill("stash-full", [adds(pea_upper(12)), adds([20, 20])].concat(), kinds(33, 31)),
            prefill("deep", [adds(0..PEA_KEYS), adds(0..PEA_KEYS)].concat(), kinds(0, 4)),
            prefill("shrunk", shrunk, kinds(3, 8)),
        ],
        // Three of one bucket, one of another.
        hot: Some(&[20, 22, 24, 3]),
        ..case(name, max_bytes, geometry, words)
    }
}

fn texts_case() -> Case {
    const KEYS: u16 = 12;
    let geometry = Geometry { extent_shift: 12, slots: 6, hash_bits: 5, buckets: 0 };
    let lists = [adds(0..KEYS), adds(0..KEYS), adds([0; 5])].concat();
    Case {
        keys: (0..u64::from(KEYS)).collect(),
        prefills: vec![
            prefill("empty", Vec::new(), kinds(0, 1)),
            prefill("full", adds(0..KEYS), kinds(0, 1)),
            prefill("lists", lists, kinds(0, 1)),
        ],
        hot: Some(&[0, 1, 2]),
        ..case("pea-multi-map", 512 << 10, geometry, texts)
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
            Op::Put(..) | Op::Insert(..) | Op::Update(..) | Op::Apply(..) | Op::Remove(_) => {
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

    fn count(&self) -> Result<u64> {
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
