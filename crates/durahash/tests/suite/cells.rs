//! Cells of keys and values of fixed size: lines, bytes, chains of equal hashes, and pools from before there were any.

use std::borrow::Borrow;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use durahash::{AnyMap, Design, ErrorKind, Map, Options, Type};
use durahash_media::hash::{ByteHash, WordMix};
use durahash_media::metered::Metered;
use durahash_media::{Dram, Geometry};
use durahash_testkit::{Sample, assert_sound, new_path};

const SEED: u64 = 7;
const KEYS: u64 = 2000;

/// Lines that a `get` of each key reads, in all, and bytes that an entry takes beside its slot.
fn costs<K: Sample + ?Sized, V: Sample + ?Sized>(design: Design) -> (u64, f64) {
    let options = Options::new().design(design).seed(SEED).max_bytes(64 << 20);
    let medium = Metered::new(Dram::new(64 << 20).unwrap());
    let meter = Arc::clone(medium.meter());
    let map: Map<K, V> = options.create_on(medium).unwrap();
    for i in 0..KEYS {
        map.put(K::sample(i).borrow(), V::sample(i).borrow()).unwrap();
    }
    let before = meter.counts();
    for i in 0..KEYS {
        assert_eq!(map.get(K::sample(i).borrow()).unwrap(), Some(V::sample(i)));
    }
    let lines = (meter.counts() - before).lines_read;
    let bytes = map.stats().unwrap().space.record_bytes as f64 / KEYS as f64;
    assert_sound(&map);
    (lines, bytes)
}

/// Of REH, where the lookup of a word reads one line.
#[test]
fn a_cell_costs_a_line_and_few_bytes() {
    // A fingerprint of a byte leads to a wrong slot now and then.
    let slots = |lines: u64| (KEYS..KEYS * 11 / 10).contains(&lines);
    assert!(slots(costs::<u64, u64>(Design::Reh).0));
    let one_more = |(lines, bytes): (u64, f64), of: usize| {
        assert!(slots(lines - KEYS), "{lines} lines of {of} bytes");
        assert!(bytes <= of as f64 + 12.0, "{bytes} of {of}");
    };
    one_more(costs::<[u8; 32], u64>(Design::Reh), 40);
    one_more(costs::<[u8; 32], [u8; 32]>(Design::Reh), 64);
    one_more(costs::<[u8; 20], [u8; 16]>(Design::Reh), 36);
    one_more(costs::<[u8; 20], u64>(Design::Reh), 28);
    one_more(costs::<[u8; 16], u64>(Design::Reh), 24);
    one_more(costs::<[u8; 16], [u8; 16]>(Design::Reh), 32);
    one_more(costs::<u64, u128>(Design::Reh), 24);
    // 44 and 48 bytes fit no part of a line within twelve bytes more: half of them take two.
    let (lines, bytes) = costs::<[u8; 32], u128>(Design::Reh);
    assert!((KEYS * 5 / 2..KEYS * 27 / 10).contains(&lines), "{lines}");
    assert!(bytes <= 60.0, "{bytes}");
    // The longest key fills a line, and the longest value another.
    one_more(costs::<[u8; 64], u64>(Design::Reh), 64);
    let (lines, bytes) = costs::<[u8; 64], [u8; 64]>(Design::Reh);
    assert!(slots(lines - 2 * KEYS), "{lines}");
    assert_eq!(bytes, 128.0);
}

#[test]
fn every_design_keeps_cells() {
    for design in Design::ALL {
        let (words, _) = costs::<u64, u64>(*design);
        let (lines, bytes) = costs::<[u8; 32], u64>(*design);
        assert!(lines <= words + KEYS * 11 / 10, "{design}: {lines} after {words}");
        assert!(bytes <= 52.0, "{bytes}");
    }
}

/// A key with a hash of one's choice, which takes the seed to make.
fn key_of_hash(hash: u64, i: u8) -> [u8; 20] {
    let mut key = [i; 20];
    let first = WordMix::new(SEED).unmix(hash) ^ ByteHash::new(SEED).hash(&key[8..]);
    key[..8].copy_from_slice(&first.to_le_bytes());
    key
}

#[test]
fn keys_of_one_whole_hash_are_told_apart() {
    for design in Design::ALL {
        let geometry = Geometry { extent_shift: 12, slots: 4, ..Geometry::default() };
        let options = Options::new().design(*design).seed(SEED).max_bytes(1 << 20);
        let (_dir, path) = new_path();
        let map: Map<[u8; 20], u64> = options.geometry(geometry).create(&path).unwrap();
        let key = |i: u8| key_of_hash(u64::from(i / 8) << 61, i);
        for i in 0..32 {
            assert_eq!(map.insert(&key(i), &0).unwrap(), None);
            assert_eq!(map.insert(&key(i), &i.into()).unwrap(), Some(0));
        }
        assert_eq!(map.len().unwrap(), 32);
        assert_sound(&map);
        for i in (0..32).step_by(3) {
            assert_eq!(map.remove(&key(i)).unwrap(), Some(i.into()));
            assert_eq!(map.remove(&key(i)).unwrap(), None);
        }
        for i in (0..32).filter(|i| i % 3 != 0) {
            map.fetch_add(&key(i), 1).unwrap();
        }
        map.close().unwrap();
        let map: Map<[u8; 20], u64> = Options::new().open(&path).unwrap();
        for i in 0..32 {
            let want = (i % 3 != 0).then_some(u64::from(i) + 1);
            assert_eq!(map.get(&key(i)).unwrap(), want, "{design}: {i}");
        }
        assert_sound(&map);
        map.clear().unwrap();
        while map.step().unwrap() {}
        assert_eq!(map.stats().unwrap().space.record_bytes, 0);
    }
}

#[test]
fn keys_that_share_a_prefix_share_no_hash() {
    let map: Map<[u8; 16], u64> = Options::new().in_memory().unwrap();
    for i in 0..2000_u64 {
        let mut address = [0x20; 16];
        address[8..].copy_from_slice(&i.to_le_bytes());
        map.put(&address, &i).unwrap();
    }
    assert_eq!(map.len().unwrap(), 2000);
}

/// Puts other types into the superblock of a pool.
fn set_types(path: &Path, key: Type, value: Type) {
    let (_dir, other) = new_path();
    Options::new().types(key, value).create::<AnyMap>(&other).unwrap().close().unwrap();
    let (mut bytes, types) = (fs::read(path).unwrap(), fs::read(other).unwrap());
    bytes[32..40].copy_from_slice(&types[32..40]);
    let crc = crate::logged::crc32(&bytes[..88]);
    bytes[88..92].copy_from_slice(&crc.to_le_bytes());
    fs::write(path, bytes).unwrap();
}

/// A pool from before there were cells: the same as one of bytes, but for the types.
#[test]
fn a_pool_of_records_stays_one() {
    let (_dir, path) = new_path();
    let texts: Map<[u8], [u8]> = Options::new().seed(SEED).create(&path).unwrap();
    for i in 0..100 {
        texts.put(&<[u8; 32]>::sample(i), &i.to_le_bytes()).unwrap();
    }
    texts.close().unwrap();
    set_types(&path, Type::Array(32), Type::U64);
    let map: Map<[u8; 32], u64> = Options::new().open(&path).unwrap();
    for i in 0..100 {
        assert_eq!(map.get(&<[u8; 32]>::sample(i)).unwrap(), Some(i));
    }
    for i in 0..100 {
        map.put(&<[u8; 32]>::sample(i + 50), &i).unwrap();
    }
    while map.step().unwrap() {}
    assert_sound(&map);
    let record_bytes = map.stats().unwrap().space.record_bytes;
    assert_eq!(record_bytes, 150 * 64);
    map.close().unwrap();
    // A compaction writes cells.
    Options::new().compact::<AnyMap>(&path).unwrap();
    let map: Map<[u8; 32], u64> = Options::new().open(&path).unwrap();
    while map.step().unwrap() {}
    assert_eq!(map.len().unwrap(), 150);
    assert_eq!(map.stats().unwrap().space.record_bytes, 150 * 32);
    assert_sound(&map);
}

/// The flag of cells over types that have none, and flags that are not known.
#[test]
fn contents_that_cannot_be_are_refused() {
    for contents in [1_u64 | 1 << 16, 1 | 1 << 17] {
        let (_dir, path) = new_path();
        let map: Map<str, u64> = Options::new().create(&path).unwrap();
        map.close().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[24..32].copy_from_slice(&contents.to_le_bytes());
        let crc = crate::logged::crc32(&bytes[..88]);
        bytes[88..92].copy_from_slice(&crc.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        let e = Options::new().open::<Map<str, u64>>(&path).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
    }
}
