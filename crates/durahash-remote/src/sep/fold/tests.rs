use std::collections::BTreeMap;

use super::super::layout::{self, Len, UNIT};
use super::*;
use crate::fabric::Addr;

/// Hashes of few keys, that collide in fp, in fp and fp2, or in neither.
fn hash(key: u64) -> u64 {
    (key & 1) << 56 | (key >> 1 & 1) << 48 | key
}

fn entry(at: u64, key: u64, tombstone: bool, generation: u16, depth: u32) -> Entry {
    let kv = Ref::new(Addr::new(0, at * UNIT));
    let len = if tombstone { Len::TOMBSTONE } else { Len(1) };
    Entry::new(kv, layout::fp(hash(key)), len, generation, dep(hash(key), depth))
}

fn learn(keys: &mut Keys, entry: Entry, key: u64) {
    keys.insert(entry, hash(key), &key.to_le_bytes(), 24);
}

struct Case {
    frozen: Frozen,
    keys: Keys,
    /// By key, the address of what must be kept.
    want: BTreeMap<u64, Ref>,
}

/// `main` keys are in the MainSegment, `cur` are appended; hints are known by the bits of `hints`.
fn case(main: u64, cur: &[(u64, bool)], hints: u64, depth: u32) -> Case {
    let mut case = Case {
        frozen: Frozen { cur: Vec::new(), main: Rc::default() },
        keys: Keys::default(),
        want: BTreeMap::new(),
    };
    let (mut at, mut items) = (0, Vec::new());
    for key in (0..8).filter(|key| main >> key & 1 == 1) {
        at += 1;
        let entry = entry(at, key, false, 0, depth);
        items.push(Item { entry, fp2: fp2(hash(key)) });
        learn(&mut case.keys, entry, key);
        case.want.insert(key, entry.kv());
    }
    items.sort_by_key(place);
    case.frozen.main = Rc::new(items);
    for (i, &(key, tombstone)) in cur.iter().enumerate() {
        at += 1;
        let entry = entry(at, key, tombstone, 5, depth);
        let hint = (hints >> i & 1 == 1).then(|| fp2(hash(key)));
        case.frozen.cur.push((entry, hint));
        learn(&mut case.keys, entry, key);
        if tombstone {
            case.want.remove(&key)
        } else {
            case.want.insert(key, entry.kv())
        };
    }
    case
}

impl Case {
    /// Folds with the wanted keys only.
    fn fold(&self, all: bool) -> Folded {
        let compared = self.frozen.compared();
        let mut keys = Keys::default();
        for entry in self.frozen.wanted(&compared, all) {
            let known = self.keys.of(entry);
            keys.insert(entry, known.hash, self.keys.name(known).0, known.bytes);
        }
        self.frozen.fold(&compared, &keys)
    }

    fn wanted(&self, all: bool) -> Vec<Entry> {
        self.frozen.wanted(&self.frozen.compared(), all)
    }
}

/// All sequences of three appends of eight keys and tombstones, over all MainSegments with some of
/// the keys, with every subset of the hints.
#[test]
fn the_newest_of_each_key_is_kept_whatever_the_hints() {
    for main in [0, 0xff, 0x0f, 0xa5, 0x11] {
        for ops in 0..16u64.pow(3) {
            let cur: Vec<(u64, bool)> =
                (0..3).map(|i| ops >> (4 * i) & 15).map(|op| (op & 7, op >> 3 == 1)).collect();
            let reference = case(main, &cur, 7, 0).fold(true);
            for hints in 0..8 {
                let case = case(main, &cur, hints, 0);
                let folded = case.fold(false);
                let kept: BTreeMap<u64, Ref> = (folded.kept.iter())
                    .map(|item| {
                        let kv = item.entry.kv();
                        let key = case.keys.of(item.entry);
                        assert_eq!(item.fp2, fp2(key.hash));
                        assert_eq!(item.entry.fp(), layout::fp(key.hash));
                        (u64::from_le_bytes(case.keys.name(key).0.try_into().unwrap()), kv)
                    })
                    .collect();
                assert_eq!(kept, case.want, "{main:#x} {cur:?} {hints}");
                assert_eq!(folded, reference, "{main:#x} {cur:?} {hints}");
                let entries = case.frozen.cur.len() + case.frozen.main.len();
                assert_eq!(folded.kept.len() + folded.dropped.len(), entries);
                assert!(folded.kept.is_sorted_by_key(place));
            }
        }
    }
}

#[test]
fn hints_save_reads() {
    // Keys 0 and 1 differ in fp, 0 and 2 in fp2, 0 and 4 in neither.
    let one = case(0b110, &[(0, false)], 1, 0);
    assert!(one.wanted(false).is_empty());
    assert_eq!(one.wanted(true).len(), 3);
    assert_eq!(case(0b110, &[(0, false)], 0, 0).wanted(false).len(), 2);
    assert_eq!(case(0b10110, &[(0, false)], 1, 0).wanted(false).len(), 2);
    assert_eq!(case(0, &[(0, true)], 1, 0).wanted(false).len(), 1);
    // Equal ones of the MainSegment alone are of different keys.
    assert!(case(0b10001, &[(1, false)], 1, 0).wanted(false).is_empty());
}

#[test]
fn halves_are_by_the_bit_of_the_depth() {
    for depth in 0..4 {
        let case = case(0xff, &[(3, false)], 0, depth);
        let folded = case.fold(true);
        let halves = divide(&folded.kept, depth, &case.keys);
        assert_eq!(halves[0].len() + halves[1].len(), 8);
        for (upper, half) in halves.iter().enumerate() {
            for item in half {
                let hash = case.keys.of(item.entry).hash;
                assert_eq!(hash >> depth & 1, upper as u64);
                assert_eq!(item.entry.dep(), dep(hash, depth + 1));
            }
        }
    }
}
