//! Byte-string records: sizes, space, damage.

use std::sync::Arc;

use durahash::{Change, Design, ErrorKind, MAX_KEY_BYTES, MAX_VALUE_BYTES, Map, Options};
use durahash_media::metered::Metered;
use durahash_media::sim::Sim;
use durahash_media::{Dram, Geometry, Memory};
use durahash_testkit::{
    Backing, Exit, Model, Sample, Setup, assert_equal, assert_sound, budget, colliding, new_path,
    tiny,
};

const BYTES: u64 = 16 << 20;

fn options(design: Design, geometry: Geometry) -> Options {
    Options::new().design(design).geometry(geometry).seed(7).max_bytes(BYTES)
}

#[test]
fn sizes_from_nothing_to_runs_of_extents() {
    for place in Setup::all(tiny()) {
        let map: Map<[u8], [u8]> = place.create();
        let sizes = [0, 1, 7, 8, 9, 23, 24, 40, 63, 64, 2000, 2048, 4072, 4096, 100_000];
        for key_bytes in sizes {
            for value_bytes in sizes {
                let key = vec![(key_bytes % 251) as u8; key_bytes];
                let value = vec![(value_bytes % 251) as u8; value_bytes];
                let had = map.insert(&key, &value).unwrap();
                assert_eq!(map.get(&key).unwrap(), Some(value), "{key_bytes} {value_bytes}");
                assert_eq!(had.is_some(), value_bytes > 0);
            }
        }
        assert_sound(&map);
        let map = place.reopen(map, Exit::Dead);
        assert_eq!(map.len().unwrap(), sizes.len() as u64);
        assert_eq!(map.get(&[]).unwrap().unwrap().len(), 100_000);
        map.clear().unwrap();
        while map.step().unwrap() {}
        assert_eq!(map.stats().unwrap().space.record_bytes, 0);
        assert_sound(&map);
    }
}

#[test]
fn entries_that_are_too_large_are_refused() {
    let map = Options::new().max_bytes(BYTES).in_memory::<Map<[u8], [u8]>>().unwrap();
    let refused = |key: &[u8], value: &[u8], limit: usize| {
        let e = map.put(key, value).unwrap_err();
        let large = (key.len() + value.len()) as u64;
        assert!(matches!(*e.kind(), ErrorKind::TooLarge { bytes, limit_bytes, .. }
            if bytes == large && limit_bytes == limit as u64));
    };
    refused(&vec![0; MAX_KEY_BYTES + 1], b"", MAX_KEY_BYTES);
    refused(b"", &vec![0; MAX_VALUE_BYTES + 1], MAX_VALUE_BYTES);
    map.put(&vec![1; MAX_KEY_BYTES], b"").unwrap();
    assert_eq!(map.get(&vec![1; MAX_KEY_BYTES]).unwrap(), Some(vec![]));
    // No larger than allowed, but than the pool.
    let e = map.put(b"", &vec![0; 20 << 20]).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Full { .. }));
    assert_eq!(map.len().unwrap(), 1);
}

/// A full medium: what fails has changed nothing and taken nothing, the rest goes on working.
#[test]
fn a_full_pool_loses_and_leaks_nothing() {
    for design in Design::ALL {
        for geometry in [tiny(), colliding()] {
            let sim = Sim::new(BYTES);
            let map: Map<str, [u8]> = options(*design, geometry).create_on(sim.clone()).unwrap();
            let mut model = Model::new();
            sim.set_limit(200 << 10);
            let mut failed = 0;
            for k in 0..2000 {
                match map.put(&str::sample(k), &<[u8]>::sample(k % 64)) {
                    Ok(()) => drop(model.insert(k, k % 64)),
                    Err(e) => {
                        assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}");
                        failed += 1;
                    }
                }
            }
            assert!(failed > 100 && model.len() > 100);
            assert_equal(&map, &model);
            assert_sound(&map);
            let mut removed = Vec::new();
            for k in (0..2000).step_by(2) {
                match map.remove(&str::sample(k)) {
                    Ok(old) => assert_eq!(old, model.get(&k).map(|v| <[u8]>::sample(*v))),
                    // A removal from a chain makes copies of the records before it.
                    Err(e) => {
                        assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}");
                        assert_eq!(geometry, colliding());
                        continue;
                    }
                }
                removed.extend(model.remove_entry(&k));
            }
            // The freed space is there again, but for records that need several extents side by side.
            let count = removed.len();
            removed.retain(|(k, v)| map.put(&str::sample(*k), &<[u8]>::sample(*v)).is_ok());
            assert!(removed.len() * 10 >= count * 9, "{} of {count}", removed.len());
            model.extend(removed);
            assert_equal(&map, &model);
            assert_sound(&map);
            // And for those, too, once nothing is left.
            if geometry == tiny() {
                map.retain(|_, _| false).unwrap();
                map.put("", &[1; 80 << 10]).unwrap();
                assert_sound(&map);
            }
        }
    }
}

/// However often a pool is left without being closed, it does not grow: a writer that would have
/// to grow it looks for free space first.
#[test]
fn deaths_do_not_grow_a_pool() {
    for medium in [Backing::Sim, Backing::File] {
        for design in Design::ALL {
            let place = Setup::new(*design, medium, tiny());
            let mut map: Map<str, [u8]> = place.create();
            let mut bytes = Vec::new();
            for round in 0..budget(8, 30) {
                for k in 0..300 {
                    map.put(&str::sample(k), &<[u8]>::sample((k + round) % 13)).unwrap();
                }
                bytes.push(map.stats().unwrap().space.bytes);
                map = place.reopen(map, Exit::Dead);
            }
            assert!(*bytes.last().unwrap() <= bytes[3], "{bytes:?}");
            while map.step().unwrap() {}
            assert_sound(&map);
        }
    }
}

/// The costs of a new entry: the lines of its record and one of its slot, a fence before it is linked
/// and a drain after.
#[test]
fn a_put_costs_its_record_and_its_slot() {
    for design in Design::ALL {
        let options = Options::new().design(*design).seed(7).max_bytes(64 << 20);
        let medium = Metered::new(Dram::new(64 << 20).unwrap());
        let meter = Arc::clone(medium.meter());
        let map: Map<[u8], [u8]> = options.create_on(medium).unwrap();
        let counts = || meter.counts();
        map.put(b"first", b"takes an extent").unwrap();
        for value_bytes in [8, 100, 1000] {
            // The class of the block is there before it is measured.
            map.put(b"warm", &vec![0; value_bytes]).unwrap();
            let before = counts();
            map.put(b"key", &vec![1; value_bytes]).unwrap();
            let cost = counts() - before;
            let lines = (24 + 3 + value_bytes as u64).div_ceil(64);
            assert!((lines + 1..=lines + 2).contains(&cost.flushes), "{cost:?}");
            assert!(cost.fences + cost.drains <= 3, "{cost:?}");
        }
    }
}

/// A record is verified when it is first read after an open, clean or not; each time if the options say so.
#[test]
fn a_record_is_verified_once_an_open_or_always() {
    const VALUE: [u8; 16] = [0xa5; 16];
    for (design, exit) in
        Design::ALL.iter().flat_map(|d| [Exit::Closed, Exit::Dead].map(|e| (*d, e)))
    {
        for long in [0, 1000] {
            let value = [&VALUE[..], &vec![7; long]].concat();
            let sim = Sim::new(BYTES);
            let map: Map<str, [u8]> = options(design, tiny()).create_on(sim.clone()).unwrap();
            // A whole number of words, so that the value begins with one.
            map.put("the key, long as three words", &value).unwrap();
            map.put("the key of three words..", &value).unwrap();
            map.remove("the key, long as three words").unwrap();
            if exit == Exit::Closed {
                map.close().unwrap();
            }
            let image = sim.image();
            let open = |verify| {
                let sim = Sim::from_image(&image, BYTES);
                let map: Map<str, [u8]> =
                    Options::new().verify(verify).open_on(sim.clone()).unwrap();
                // All copies of the value: the one that counts is among them.
                let flip = move || {
                    for word in sim.region().words(0, image_words(&sim)).unwrap() {
                        let v = sim.load(word);
                        if (v | 1).to_le_bytes() == VALUE[..8] {
                            sim.store(word, v ^ 1);
                        }
                    }
                };
                (map, flip)
            };
            let get = |map: &Map<str, [u8]>| {
                let got = map.get_with("the key of three words..", |found| *found == *value);
                assert!(got.as_ref().is_ok_and(Option::is_some) || is_corrupt(&got));
                assert_eq!(is_corrupt(&got), is_corrupt(&map.get("the key of three words..")));
                got.is_ok()
            };
            let finds = |map: &Map<str, [u8]>| {
                let mut found = 0;
                map.check(&mut |_| found += 1).unwrap();
                found > 0
            };
            // Damaged at the open: each read says so, as it does not become known.
            let (map, flip) = open(false);
            flip();
            assert!(map.contains_key("the key of three words..").unwrap(), "{design}");
            assert!(!get(&map) && !get(&map) && finds(&map), "{design}");
            flip();
            assert!(get(&map) && get(&map) && !finds(&map), "{design}");
            // From here on it is known, and only a check finds what damages it.
            flip();
            assert!(get(&map) && finds(&map), "{design}");
            // A record that this open has written is known, too.
            let (map, flip) = open(false);
            map.put("the key of three words..", &value).unwrap();
            flip();
            assert!(get(&map) && finds(&map), "{design}");
            let (map, flip) = open(true);
            assert!(get(&map), "{design}");
            flip();
            assert!(!get(&map) && finds(&map), "{design}");
            map.put("the key of three words..", &value).unwrap();
            assert!(get(&map), "{design}");
            flip();
            assert!(!get(&map), "{design}");
        }
    }
}

fn image_words(sim: &Sim) -> u64 {
    sim.region().len() / 8
}

fn is_corrupt<T>(done: &durahash::Result<T>) -> bool {
    done.as_ref().is_err_and(|e| matches!(e.kind(), ErrorKind::Corrupt { .. }))
}

/// Space that only the sweep can find is found before anybody hears that the pool is full.
#[test]
fn a_pool_is_not_full_before_it_was_swept() {
    let (_dir, path) = new_path();
    let options = Options::new()
        .max_bytes(1 << 20)
        .geometry(Geometry { extent_shift: 12, ..Geometry::default() });
    let map: Map<u64, [u8]> = options.create(&path).unwrap();
    let mut large = 0;
    while map.put(&large, &[1; 3000]).is_ok() {
        large += 1;
    }
    map.close().unwrap();
    let map: Map<u64, [u8]> = options.open(&path).unwrap();
    for key in 0..large {
        map.remove(&key).unwrap();
    }
    for key in 0..3000 {
        map.put(&key, &[2; 40]).unwrap();
    }
    assert_eq!(map.len().unwrap(), 3000);
}

/// Keys that were chosen to share one hash cannot make the others wait without bound.
#[test]
fn the_keys_of_one_hash_have_a_limit() {
    let geometry = Geometry { hash_bits: 1, ..Geometry::default() };
    let map: Map<str, str> = Options::new().geometry(geometry).seed(1).in_memory().unwrap();
    let put = |i: u64| map.put(&i.to_string(), "value");
    let stored = (0..).find(|i| put(*i).is_err()).unwrap();
    assert!((256..=512).contains(&stored), "{stored}");
    let error = put(stored).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Skewed { .. }), "{error}");
    let refused = map.update(&stored.to_string(), |_| Change::Set("new".to_owned())).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Skewed { .. }), "{refused}");
    // Existing entries can be changed, and make room when they are removed.
    map.put("7", "seven").unwrap();
    assert_eq!(map.get("7").unwrap().as_deref(), Some("seven"));
    let removed = (0..stored).filter(|i| map.remove(&i.to_string()).unwrap().is_some()).count();
    assert_eq!(removed as u64, stored);
    put(stored).unwrap();
    assert_sound(&map);
}
