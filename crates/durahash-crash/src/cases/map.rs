//! A map of byte strings over any design: records, their chains and the sweep, mostly with hashes of four
//! bits so that most keys share theirs with others; and cells, whose keys are made to share whole hashes.

use std::borrow::Borrow;
use std::sync::Arc;

use durahash::{Change, Data, Design, Finding, Map, Options, Outcome, Result};
use durahash_media::Geometry;
use durahash_media::hash::{ByteHash, WordMix};

use super::{text, word};
use crate::case::{Case, Prefill, Table};
use crate::script::Op;

/// Maps over every design; then over Rewo-Hash with whole hashes and the smallest tables, so that these are
/// resized, and what is copied of them in DRAM with them.
pub(super) fn all() -> [Case; 8] {
    let ranges = Geometry { buckets: 1, ..of(12, 4) };
    [
        over("reh-map", Design::Reh, of(12, 4), texts),
        // REH opens by ranges here.
        Case { is_lazy: true, ..over("reh-ranges-map", Design::Reh, ranges, texts) },
        over("pea-map", Design::Pea, of(12, 4), texts),
        over("esh-map", Design::Esh, of(12, 4), texts),
        over("rewo-map", Design::Rewo, of(12, 4), texts),
        over("rewo-small-map", Design::Rewo, of(10, 0), texts),
        over("reh-cells", Design::Reh, of(10, 0), digests),
        over("pea-cells", Design::Pea, of(10, 0), digests),
    ]
}

/// Three slots a bucket, extents of so many bytes, so many bits of hashes.
fn of(extent_shift: u8, hash_bits: u8) -> Geometry {
    Geometry { extent_shift, slots: 3, hash_bits, buckets: 0 }
}

fn over<K: Data + ?Sized, V: Data + ?Sized>(
    name: &'static str,
    design: Design,
    geometry: Geometry,
    table: fn(Map<K, V>) -> Box<dyn Table>,
) -> Case {
    const KEYS: u16 = 16;
    let create = Options::new().design(design).seed(SEED).geometry(geometry);
    let open = create.clone();
    let kinds = vec![
        Op::Put(0, 0),
        Op::Insert(1, 0),
        Op::Update(2, 0),
        Op::Remove(0),
        Op::Remove(3),
        Op::Step,
    ];
    let full = (0..KEYS).map(|key| Op::Put(key, 1)).collect();
    Case {
        keys: (0..u64::from(KEYS)).collect(),
        prefills: vec![
            Prefill { name: "empty", ops: Vec::new(), kinds: kinds.clone() },
            Prefill { name: "full", ops: full, kinds },
        ],
        ..Case::new(
            name,
            512 << 10,
            Arc::new(move |sim| create.create_on(sim).map(table)),
            Arc::new(move |sim| open.open_on(sim).map(table)),
        )
    }
}

const SEED: u64 = 1;

/// Keys and values are words in decimal.
fn texts(map: Map<str, str>) -> Box<dyn Table> {
    let word = |text: String| word(&text);
    let key = |key: u64| key.to_string();
    Box::new(Pairs { map, key, value: text, key_word: word, value_word: word })
}

/// Four keys share each hash; a word stands at the end of a key and of a value.
fn digests(map: Map<[u8; 20], u128>) -> Box<dyn Table> {
    fn key(word: u64) -> [u8; 20] {
        let mut key = [7; 20];
        key[12..].copy_from_slice(&word.to_le_bytes());
        let rest = ByteHash::new(SEED).hash(&key[8..]);
        let first = WordMix::new(SEED).unmix((word / 4) << 60) ^ rest;
        key[..8].copy_from_slice(&first.to_le_bytes());
        key
    }
    let value = |v: u64| u128::from(v) << 64 | u128::from(!v);
    let key_word = |found: [u8; 20]| {
        let word = u64::from_le_bytes(*found.last_chunk().expect("eight of twenty bytes"));
        if key(word) == found { word } else { u64::MAX }
    };
    let value_word =
        |v: u128| if v as u64 == !((v >> 64) as u64) { (v >> 64) as u64 } else { u64::MAX };
    Box::new(Pairs { map, key, value, key_word, value_word })
}

/// A map, and how the words of scripts become its keys and values and come back.
struct Pairs<K: Data + ?Sized, V: Data + ?Sized> {
    map: Map<K, V>,
    key: fn(u64) -> K::Owned,
    value: fn(u64) -> V::Owned,
    key_word: fn(K::Owned) -> u64,
    value_word: fn(V::Owned) -> u64,
}

impl<K: Data + ?Sized, V: Data + ?Sized> Table for Pairs<K, V> {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        let map = &self.map;
        let key = (self.key)(key);
        let (key, value) = (key.borrow(), self.value);
        let found = match op {
            Op::Put(_, v) => map.insert(key, value(v).borrow())?,
            Op::Insert(_, v) => match map.try_insert(key, value(v).borrow())? {
                Outcome::Present(found) => Some(found),
                Outcome::Done | Outcome::Absent => None,
            },
            Op::Update(_, v) => {
                let mut found = None;
                map.update(key, |old| {
                    found = old;
                    if found.is_some() { Change::Set(value(v)) } else { Change::Keep }
                })?;
                found
            }
            Op::Remove(_) => map.remove(key)?,
            Op::Get(_) => map.get(key)?,
            Op::Step => {
                map.step()?;
                None
            }
            Op::Apply(..) | Op::Add(..) | Op::RemoveOne(..) | Op::RemoveAll(_) => {
                unreachable!("{op} is for others")
            }
            Op::Reopen | Op::Close | Op::Crash(_) => None,
        };
        Ok(found.map(self.value_word))
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        for pair in &self.map {
            let (key, value) = pair?;
            out.push(((self.key_word)(key), (self.value_word)(value)));
        }
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        self.map.len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.map.check(found)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.map.close()
    }
}
