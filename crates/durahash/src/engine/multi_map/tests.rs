//! Lists that no writer makes, each record of which is sound: `check` tells of them.

use durahash_media::{Dram, Geometry, SyncMode};

use super::*;
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::open::{self, Wanted};

const KEY: &[u8] = b"key";
/// So many values of a key have a list: a bucket has four slots, of which one stays free.
const LISTED: u8 = 4;

/// Names that are taken for a key's, whatever their records say.
struct Among<'a>(&'a [u64]);

impl Keys for Among<'_> {
    fn is_meant(&self, name: u64) -> Result<bool> {
        Ok(self.0.contains(&name))
    }

    fn are_same(&self, one: u64, other: u64) -> Result<bool> {
        Ok(self.0.contains(&one) == self.0.contains(&other))
    }
}

/// A multimap in which `KEY` has a list.
fn with_list() -> MultiRaw {
    let wanted = Wanted {
        design: Design::Pea,
        key: Type::Bytes,
        value: Type::Bytes,
        geometry: Geometry { extent_shift: 12, slots: 4, hash_bits: 1, ..Default::default() },
        seed: 7,
        max_bytes: 1 << 20,
        sync_mode: SyncMode::Process,
        tuning: crate::engine::open::Tuning::default(),
        publish: true,
    };
    let raw: MultiRaw = open::create(Dram::new(1 << 20).unwrap(), &wanted).unwrap();
    (0..LISTED).for_each(|i| raw.add(KEY, &[i]).unwrap());
    assert_eq!((raw.lists().unwrap(), raw.count(KEY).unwrap()), (1, u64::from(LISTED)));
    assert!(findings(&raw).is_empty());
    raw
}

/// Adds a value of `key` as one of the key that `keys` mean; its name.
fn add_as(raw: &MultiRaw, key: &[u8], keys: &dyn Keys) -> u64 {
    let key_hash = raw.hashes.key(key);
    let draft = Draft { key_hash, key, value: b"value", next: 0 };
    let off = raw.store.alloc(draft.bytes()).unwrap().unwrap();
    let name = raw.store.write(off, &raw.hashes, &draft).unwrap();
    raw.index.add(raw.hashes.h(key_hash), name, keys).unwrap();
    name
}

fn findings(raw: &MultiRaw) -> Vec<(&'static str, u64)> {
    let mut findings = Vec::new();
    raw.check(&mut |finding| findings.push((finding.invariant, finding.off)), &mut |_, _| {})
        .unwrap();
    findings
}

#[test]
fn a_list_of_two_keys_is_found() {
    let raw = with_list();
    let h = |key: &[u8]| raw.hashes.h(raw.hashes.key(key));
    let other = (0..u8::MAX).map(|i| [i]).find(|key| h(key) == h(KEY)).unwrap();
    let name = add_as(&raw, &other, &OneKey);
    assert!(is_damage(&raw.each_value(KEY, &mut |_| Ok(())).unwrap_err()));
    assert_eq!(findings(&raw), [("MAP-3", offset(name))]);
}

#[test]
fn a_list_beside_slots_of_its_key_is_found() {
    let raw = with_list();
    add_as(&raw, KEY, &Among(&[]));
    let found = findings(&raw);
    assert!(matches!(found[..], [("MAP-2", _)]), "{found:?}");
}

#[test]
fn two_lists_of_a_key_are_found() {
    let raw = with_list();
    let mut names = Vec::new();
    for _ in 0..LISTED {
        names.push(add_as(&raw, KEY, &Among(&names)));
    }
    assert_ne!(raw.count(KEY).unwrap(), raw.each_value(KEY, &mut |_| Ok(())).unwrap());
    let found = findings(&raw);
    assert!(matches!(found[..], [("MAP-2", _)]), "{found:?}");
}
