//! Walks in orders of their own, and over maps that change meanwhile.

use durahash::{Cursor, Design, Map, MultiMap, Options, SyncMode};
use durahash_media::Geometry;
use durahash_testkit::assert_sound;

const KEYS: u64 = 160_000;

/// So small buckets and segments that a copy in the order of hashes fails with these keys.
fn options() -> impl Iterator<Item = (Design, Options)> {
    let of = |design, extent_shift, slots, buckets| {
        let geometry = Geometry { extent_shift, slots, hash_bits: 0, buckets };
        (design, Options::new().design(design).geometry(geometry).seed(7))
    };
    [
        of(Design::Reh, 12, 7, 0),
        of(Design::Pea, 10, 2, 0),
        of(Design::Esh, 12, 3, 2),
        of(Design::Rewo, 19, 0, 0),
    ]
    .into_iter()
}

/// The same for a multimap.
fn multi_options() -> Options {
    let geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };
    Options::new().geometry(geometry).seed(7)
}

#[test]
fn a_map_is_filled_in_the_order_of_a_walk_over_another_one_of_the_same_seed() {
    for (design, options) in options() {
        let map: Map<u64, u64> = options.in_memory().unwrap();
        map.extend((0..KEYS).map(|i| (i, !i))).unwrap();
        let before = map.stats().unwrap().index;
        let by_iter: Map<u64, u64> = options.in_memory().unwrap();
        for entry in &map {
            let (key, value) = entry.unwrap();
            assert_eq!(by_iter.insert(&key, &value).unwrap(), None);
        }
        let by_scan: Map<u64, u64> = options.in_memory().unwrap();
        let mut at = Some(Cursor::START);
        while let Some(from) = at {
            let (entries, next) = map.scan(from, 1000).unwrap();
            by_scan.extend(entries).unwrap();
            at = next;
        }
        // A made-up cursor, of more pieces than there are slots, does not make a step last.
        let (entries, next) = map.scan(Cursor::from_word(44), 1).unwrap();
        assert!(entries.len() <= 1 && next.is_some());
        // It keeps its seed when it is emptied.
        let entries = map.iter().collect::<Result<Vec<_>, _>>().unwrap();
        map.clear().unwrap();
        map.extend(entries).unwrap();
        for copy in [map, by_iter, by_scan] {
            assert_sound(&copy);
            assert_eq!(copy.len().unwrap(), KEYS, "{design}");
            assert!((0..KEYS).all(|i| copy.get(&i).unwrap() == Some(!i)), "{design}");
            let after = copy.stats().unwrap().index;
            assert!(after.medium_bytes <= before.medium_bytes / 4 * 5, "{design}");
        }
    }
    let options = multi_options();
    let [map, copy] = [(); 2].map(|()| options.in_memory::<MultiMap<u64, u64>>().unwrap());
    (0..KEYS).try_for_each(|i| map.add(&i, &!i)).unwrap();
    for entry in &map {
        let (key, value) = entry.unwrap();
        copy.add(&key, &value).unwrap();
    }
    assert_sound(&copy);
    assert!((0..KEYS).all(|i| copy.count(&i).unwrap() == 1));
}

/// A compaction keeps the seed, so it needs an order of its own.
#[test]
fn a_compaction_copies_maps_whose_directory_has_grown() {
    let dir = tempfile::tempdir().unwrap();
    for (design, options) in options() {
        let (path, copy) = (dir.path().join(design.to_string()), dir.path().join("copy"));
        let options = options.sync_mode(SyncMode::Process);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        map.extend((0..KEYS).map(|i| (i, !i))).unwrap();
        let before = map.stats().unwrap().index;
        map.close().unwrap();
        options.compact_to::<Map<u64, u64>>(&path, &copy, &mut |_, _| ()).unwrap();
        let map: Map<u64, u64> = options.open(&copy).unwrap();
        assert_sound(&map);
        assert!((0..KEYS).all(|i| map.get(&i).unwrap() == Some(!i)), "{design}");
        assert!(map.stats().unwrap().index.medium_bytes <= before.medium_bytes / 4 * 5, "{design}");
        std::fs::remove_file(&copy).unwrap();
    }
    let options = multi_options().sync_mode(SyncMode::Process);
    let (path, copy) = (dir.path().join("multimap"), dir.path().join("copy"));
    let map: MultiMap<u64, u64> = options.create(&path).unwrap();
    (0..KEYS).try_for_each(|i| map.add(&i, &!i)).unwrap();
    map.close().unwrap();
    options.compact_to::<MultiMap<u64, u64>>(&path, &copy, &mut |_, _| ()).unwrap();
    let map: MultiMap<u64, u64> = options.open(&copy).unwrap();
    assert_sound(&map);
    assert!((0..KEYS).all(|i| map.count(&i).unwrap() == 1));
}

/// The map becomes half as large again and small again between steps, by splits and merges.
#[test]
fn what_stays_is_given_once_by_a_walk_over_a_large_map() {
    const STEPS: u64 = 8;
    for (design, options) in options() {
        let map: Map<u64, u64> = options.in_memory().unwrap();
        map.extend((0..KEYS).map(|i| (i, !i))).unwrap();
        // Of these few stay, so that units merge.
        let stays = |key: &u64| key.is_multiple_of(8);
        let (mut at, mut given, mut steps) = (Some(Cursor::START), Vec::new(), 0);
        while let Some(from) = at {
            let n = if steps < STEPS { KEYS / 8 / STEPS } else { KEYS };
            let (entries, next) = map.scan(from, n as usize).unwrap();
            given.extend(entries.into_iter().filter(|(key, _)| stays(key) && *key < KEYS));
            at = next;
            steps += 1;
            if steps % 2 == 0 && steps < STEPS {
                map.extend((KEYS..KEYS * 3 / 2).map(|i| (i, i))).unwrap();
            } else if steps < STEPS {
                map.retain(|key, _| stays(key) && *key < KEYS).unwrap();
            }
        }
        // A unit of Rewo-Hash has a few thousand entries.
        assert!(steps > STEPS || design == Design::Rewo, "{design}");
        given.sort_unstable();
        let all = (0..KEYS).filter(stays).map(|i| (i, !i));
        assert!(given.into_iter().eq(all), "{design}");
        assert_sound(&map);
    }
}
