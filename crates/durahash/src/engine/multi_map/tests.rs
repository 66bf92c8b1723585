//! Lists that no writer makes, each record of which is sound: `check` tells of them.

use std::time::Instant;

use durahash_media::{Dram, Geometry, SyncMode};

use super::super::data::Type;
use super::super::maps::Handle;
use super::super::open::{self, CreateSpec};
use super::super::settings::DesignOptions;
use super::super::spec::MapSpec;
use super::*;
use crate::index::{Gone, IndexBase, IndexStats, MultiReader};

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
fn with_list() -> Handle<Multi> {
    let map = MapSpec {
        kind: Multi::NUMBER,
        design: Design::Pea,
        key: Type::Bytes,
        value: Type::Bytes,
        geometry: Geometry { extent_shift: 12, slots: 4, hash_bits: 1, ..Default::default() },
        seed: 7,
        design_options: DesignOptions::default(),
    };
    let spec = CreateSpec {
        geometry: map.geometry,
        seed: map.seed,
        map: Some(map),
        max_bytes: 1 << 20,
        sync_mode: SyncMode::Process,
        publish: true,
        is_for_log: false,
        verify: false,
    };
    let pool = open::create_on(Dram::new(1 << 20).unwrap(), &spec).unwrap();
    let handle = pool.handle::<Multi>(0, None).unwrap();
    let map = &*handle.engine;
    (0..LISTED).for_each(|i| map.add(KEY, &[i]).unwrap());
    assert_eq!((map.lists().unwrap(), map.count(KEY).unwrap()), (1, u64::from(LISTED)));
    assert!(findings(map).is_empty());
    handle
}

/// Adds a value of `key` as one of the key that `keys` mean; its name.
fn add_as(map: &Engine<Multi>, key: &[u8], keys: &dyn Keys) -> u64 {
    let key_hash = map.records.hashes.key(key);
    let draft = Draft { key_hash, key, value: b"value", next: 0 };
    let off = map.store.alloc(draft.bytes()).unwrap().unwrap();
    let name = map.store.write(off, &map.records.hashes, &draft).unwrap();
    map.index.add(map.records.hashes.h(key_hash), name, keys).unwrap();
    name
}

fn findings(map: &Engine<Multi>) -> Vec<(&'static str, u64)> {
    let mut findings = Vec::new();
    map.check(&mut |finding| findings.push((finding.invariant, finding.off)), &mut |_, _| {})
        .unwrap();
    findings
}

#[test]
fn a_list_of_two_keys_is_found() {
    let handle = with_list();
    let map = &*handle.engine;
    let h = |key: &[u8]| map.records.hash(key);
    let other = (0..u8::MAX).map(|i| [i]).find(|key| h(key) == h(KEY)).unwrap();
    let name = add_as(map, &other, &OneKey);
    assert!(is_damage(&map.each_value(KEY, &mut |_| Ok(())).unwrap_err()));
    assert_eq!(findings(map), [("MAP-3", offset(name))]);
}

#[test]
fn a_list_beside_slots_of_its_key_is_found() {
    let handle = with_list();
    let map = &*handle.engine;
    add_as(map, KEY, &Among(&[]));
    let found = findings(map);
    assert!(matches!(found[..], [("MAP-2", _)]), "{found:?}");
}

#[test]
fn two_lists_of_a_key_are_found() {
    let handle = with_list();
    let map = &*handle.engine;
    let mut names = Vec::new();
    for _ in 0..LISTED {
        names.push(add_as(map, KEY, &Among(&names)));
    }
    assert_ne!(map.count(KEY).unwrap(), map.each_value(KEY, &mut |_| Ok(())).unwrap());
    let found = findings(map);
    assert!(matches!(found[..], [("MAP-2", _)]), "{found:?}");
}

/// An index whose writer goes while a list is read.
struct Leaves(Handle<Multi>);

impl IndexBase for Leaves {
    type Slot = Scanned;

    fn scan(&self, at: u64, out: &mut Vec<(u64, Scanned)>) -> Result<Option<u64>> {
        self.0.engine.index.scan(at, out)
    }

    fn len(&self) -> Result<u64> {
        self.0.engine.index.len()
    }

    fn stats(&self) -> IndexStats {
        self.0.engine.index.stats()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.0.engine.index.check(found)
    }
}

impl MultiIndex for Leaves {
    fn add(&self, _: u64, _: u64, _: &dyn Keys) -> Result<()> {
        Err(ErrorKind::ReadOnly.into())
    }

    fn read(&self, h: u64, keys: &dyn Keys, found: &mut Values, f: MultiReader<'_>) -> Result<()> {
        self.0.engine.index.read(h, keys, found, f)?;
        Err(ErrorKind::WriterGone.into())
    }

    fn count(&self, h: u64, keys: &dyn Keys) -> Result<u64> {
        self.0.engine.index.count(h, keys)
    }

    fn remove_one(
        &self,
        _: u64,
        _: &dyn Keys,
        _: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        Err(ErrorKind::ReadOnly.into())
    }

    fn remove_all(&self, _: u64, _: &dyn Keys, _: Option<Gone<'_>>) -> Result<u64> {
        Err(ErrorKind::ReadOnly.into())
    }

    fn wipe(&self, _: u64, _: Gone<'_>) -> Result<()> {
        Err(ErrorKind::ReadOnly.into())
    }

    fn extra_count(&self) -> Option<u64> {
        None
    }
}

#[test]
fn a_walk_gives_nothing_that_was_read_while_the_writer_went() {
    for of_what in [Type::Bytes, Type::U64] {
        let handle = with_list();
        let inner = Arc::clone(&handle.engine);
        let map = Engine::<Multi>::new(
            Box::new(Leaves(handle)),
            (Arc::clone(&inner.store), inner.peers.clone()),
            (0, &inner.format),
            (Design::Pea, of_what, of_what),
            (true, false),
            Instant::now(),
        )
        .unwrap();
        let mut unit = Vec::new();
        map.each_hash(&mut |_, slots| {
            unit.extend_from_slice(slots);
            Ok(())
        })
        .unwrap();
        let (mut words, mut pairs) = (Vec::new(), Vec::new());
        let taken = Multi::take(&map, &mut unit, &mut words, &mut pairs);
        assert!(matches!(taken.unwrap_err().kind(), ErrorKind::WriterGone));
        assert!(words.is_empty() && pairs.is_empty());
    }
}
