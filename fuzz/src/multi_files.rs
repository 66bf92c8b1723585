//! Pool files through `AnyMultiMap`: as those of maps, compared with multisets.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use durahash::{AnyMultiMap, ErrorKind, Result};
use durahash_media::Geometry;

use crate::bytes::Bytes;
use crate::files::{OPS_MAX, TYPES, directory, is_limit, options, text};
use crate::{Features, Rng};

/// How often each pair is there, as texts.
type Bags = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, u64>>;

/// Everything, read in every way; `None` where something was damaged that `check` is not blind to.
fn contents(
    map: &AnyMultiMap,
    blind_to: Option<&'static str>,
    features: &mut Features,
) -> Option<Bags> {
    let (mut found, mut sound, mut total) = (Bags::new(), true, 0);
    let checked = map.check(&mut |finding| {
        sound &= blind_to == Some(finding.invariant);
        features.add(("file", finding.invariant));
    });
    sound &= checked.is_ok();
    for pair in map {
        match pair {
            Ok((key, value)) => {
                *found.entry(key).or_default().entry(value).or_default() += 1;
                total += 1;
            }
            Err(e) => {
                assert!(!sound, "{e}");
                features.complain("iteration of a multimap's file", &e);
            }
        }
    }
    for (key, bag) in &found {
        match map.get_all(key).and_then(|all| Ok((all, map.count(key)?))) {
            Ok((all, count)) => {
                let mut got: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
                all.into_iter().for_each(|v| *got.entry(v).or_default() += 1);
                let same = got == *bag && count == bag.values().sum::<u64>();
                assert!(!sound || same, "values of a key");
            }
            Err(e) => assert!(!sound, "{e}"),
        }
    }
    match map.len() {
        Ok(len) => assert!(!sound || len == total, "{len} entries"),
        Err(e) => assert!(!sound, "{e}"),
    }
    sound.then_some(found)
}

/// Adds the value of number `v`, or removes it, or all of the key.
fn change(
    map: &AnyMultiMap,
    model: &mut Bags,
    k: u64,
    v: u64,
    sound: bool,
    features: &mut Features,
) {
    let (key, value) = (text(map.key_type(), k), text(map.value_type(), v % 12));
    let done: Result<()> = match v {
        0..100 => map.add(&key, &value).map(|()| {
            *model.entry(key).or_default().entry(value).or_default() += 1;
        }),
        100..150 => map.remove_one(&key, &value).map(|was| {
            let bag = model.get_mut(&key);
            let count = bag.and_then(|bag| bag.get_mut(&value));
            assert!(!sound || was == count.is_some(), "remove_one");
            if let Some(count) = count {
                *count -= 1;
            }
            tidy(model);
        }),
        _ => map.remove_all(&key).map(|count| {
            let want = model.remove(&key).map_or(0, |bag| bag.values().sum());
            assert!(!sound || count == want, "remove_all");
        }),
    };
    if let Err(e) = done {
        assert!(!sound || is_limit(&e), "{e}");
        features.complain("change of a multimap's file", &e);
    }
}

/// Without what is there no more.
fn tidy(model: &mut Bags) {
    for bag in model.values_mut() {
        bag.retain(|_, count| *count > 0);
    }
    model.retain(|_, bag| !bag.is_empty());
}

/// An image as a file of whatever types it says: as [`use_file`](crate::files::use_file).
pub(crate) fn use_multi_file(
    image: &[u64],
    blind_to: Option<&'static str>,
    rng: &mut Rng,
    features: &mut Features,
) {
    let dir = directory();
    let path = dir.path().join("pool");
    let bytes: Vec<u8> = image.iter().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(&path, &bytes).expect("room for the image");
    let unchanged = || fs::read(&path).expect("the image") == bytes;
    let options = options().accept_suspect(true);

    let read_only = match AnyMultiMap::open(&path, &options.clone().read_only(true)) {
        Ok(map) => {
            let found = contents(&map, blind_to, features);
            let add = map.add(&text(map.key_type(), 1), &text(map.value_type(), 1));
            assert!(add.is_err(), "a read-only multimap was written to");
            found
        }
        Err(e) => {
            features.complain("read-only open of a multimap", &e);
            None
        }
    };
    assert!(unchanged(), "a read-only open wrote to the file");
    let map = match AnyMultiMap::open(&path, &options) {
        Ok(map) => map,
        Err(e) => {
            features.complain("open of a multimap's file", &e);
            assert!(unchanged(), "refused, but written to");
            let full = matches!(e.kind(), ErrorKind::Full { .. });
            assert!(read_only.is_none() || full, "sound, but not opened for writing: {e}");
            return;
        }
    };
    let found = contents(&map, blind_to, features);
    if let Some(read_only) = &read_only {
        assert!(found.as_ref() == Some(read_only), "read-only and not, it holds different things");
    }
    let sound = found.is_some();
    let mut model = found.unwrap_or_default();
    for _ in 0..30 {
        change(&map, &mut model, rng.below(120) as u64, rng.below(160) as u64, sound, features);
    }
    if sound {
        assert!(
            contents(&map, blind_to, features).as_ref() == Some(&model),
            "what was written is not there"
        );
    }
    if let Err(e) = map.close() {
        assert!(!sound, "{e}");
    }
    match AnyMultiMap::compact_watched(&path, &options, &mut |_, _| ()) {
        Ok(()) => {}
        Err(e) => {
            let suspect = matches!(e.kind(), ErrorKind::Options { .. });
            assert!(!sound || suspect || is_limit(&e), "not compacted: {e}");
            features.complain("compaction of a multimap", &e);
        }
    }
    if sound {
        let map = AnyMultiMap::open(&path, &options).expect("opens again");
        assert!(
            contents(&map, blind_to, features) == Some(model),
            "compaction or closing changed something"
        );
    }
}

/// As [`ops_on_a_file`](crate::files::ops_on_a_file).
pub(crate) fn ops_on_a_multi_file(
    mut bytes: Bytes<'_>,
    geometry: Geometry,
    features: &mut Features,
) {
    let (key, value) = TYPES[bytes.below(TYPES.len())];
    let dir = directory();
    let mut number = 0;
    let path = |number: u32| -> PathBuf { dir.path().join(format!("{number}.pool")) };
    let options = options().geometry(geometry);
    let made = AnyMultiMap::create(path(number), key, value, &options);
    let (mut map, mut model) = (made.expect("a new pool"), Bags::new());
    let keys = [3, 20, 120][bytes.below(3)];
    for _ in 0..OPS_MAX {
        if bytes.is_empty() {
            break;
        }
        let (op, k, v) = (bytes.below(64), bytes.number(keys), bytes.number(160));
        match op {
            0..=51 => change(&map, &mut model, k, v, true, features),
            52 | 53 => {
                let count = map.count(&text(key, k)).expect("counts");
                let want = model.get(&text(key, k)).map_or(0, |bag| bag.values().sum());
                assert!(count == want, "count");
            }
            54 | 55 => drop(map.step().expect("a step")),
            56 if v < 16 => {
                map.clear().expect("clears");
                model.clear();
            }
            57 | 58 => {
                number += 1;
                fs::copy(path(number - 1), path(number)).expect("a copy");
                drop(map);
                fs::remove_file(path(number - 1)).expect("there");
                if op == 57 {
                    let read_only = options.clone().read_only(true);
                    let map = AnyMultiMap::open(path(number), &read_only);
                    let found = contents(&map.expect("opens read-only"), None, features);
                    assert!(found.as_ref() == Some(&model), "read-only");
                }
                map = AnyMultiMap::open(path(number), &options).expect("opens after a death");
            }
            59 | 60 => {
                map.close().expect("closes");
                if op == 60 {
                    let compacted =
                        AnyMultiMap::compact_watched(path(number), &options, &mut |_, _| ());
                    compacted.expect("compacts");
                }
                map = AnyMultiMap::open(path(number), &options).expect("opens again");
            }
            _ => assert!(contents(&map, None, features).as_ref() == Some(&model), "contents"),
        }
    }
    assert!(contents(&map, None, features) == Some(model), "contents at the end");
    let stats = map.stats().expect("figures");
    features.add(("multi", key, value, stats.index.global_depth, stats.keys.checked_ilog2()));
}
