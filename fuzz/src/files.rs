//! Pool files through `AnyMap`: opened read-only and for writing, as whatever types they say,
//! copied while in use, compacted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use durahash::{AnyMap, Design, Error, ErrorKind, Options, Result, Type};
use durahash_media::Geometry;
use tempfile::TempDir;

use crate::bytes::Bytes;
use crate::{Features, Rng};

const MAX_BYTES: u64 = 16 << 20;
/// For images that ask for one.
const LOG_BYTES: u64 = 64 << 10;
/// Operations of an input that are done on a file.
pub(crate) const OPS_MAX: usize = 300;
/// Texts are made no longer than this for an array.
const ARRAY_BYTES_MAX: u32 = 4096;

/// What a map holds, as texts.
type Texts = BTreeMap<Vec<u8>, Vec<u8>>;

/// A directory in memory where the system has one: what is synced costs no time there.
pub(crate) fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a directory for pool files")
}

pub(crate) fn options() -> Options {
    Options::new().max_bytes(MAX_BYTES).seed(7).log_bytes(LOG_BYTES)
}

/// A text that names a value of `ty`; different numbers below 120 give different ones, but for
/// types that have fewer.
pub(crate) fn text(ty: Type, n: u64) -> Vec<u8> {
    match ty {
        Type::Bool => n.is_multiple_of(2).to_string().into_bytes(),
        Type::Char => char::from(b' ' + (n % 90) as u8).to_string().into_bytes(),
        Type::I8 | Type::I16 | Type::I32 | Type::I64 | Type::I128 => {
            ((n % 120) as i64 - 60).to_string().into_bytes()
        }
        Type::Str | Type::Bytes => {
            [n.to_string().as_bytes(), &[b'.'; 50][..n as usize % 50]].concat()
        }
        Type::Array(bytes) => {
            let mut text = (n % 120).to_le_bytes()[..].to_vec();
            text.resize(bytes.min(ARRAY_BYTES_MAX) as usize, 7);
            text
        }
        _ => (n % 120).to_string().into_bytes(),
    }
}

/// Everything, read in every way; `None` where something was damaged that `check` is not blind to.
fn contents(
    map: &AnyMap,
    blind_to: Option<&'static str>,
    features: &mut Features,
) -> Option<Texts> {
    let (mut found, mut sound) = (Texts::new(), true);
    let checked = map.check(&mut |finding| {
        sound &= blind_to == Some(finding.invariant);
        features.add(("file", finding.invariant));
    });
    sound &= checked.is_ok();
    for pair in map {
        match pair {
            Ok((key, value)) => {
                match map.get(&key) {
                    Ok(got) => assert!(!sound || got.as_ref() == Some(&value), "lookup"),
                    Err(e) => assert!(!sound, "{e}"),
                }
                let twice = found.insert(key, value).is_some();
                assert!(!twice || !sound, "a key twice");
            }
            Err(e) => {
                assert!(!sound, "{e}");
                features.complain("iteration of a file", &e);
            }
        }
    }
    match map.len() {
        Ok(len) => assert!(!sound || len == found.len() as u64, "{len} keys"),
        Err(e) => assert!(!sound, "{e}"),
    }
    sound.then_some(found)
}

/// Whether a sound pool may refuse a change with this error.
pub(crate) fn is_limit(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::Full { .. }
            | ErrorKind::Skewed { .. }
            | ErrorKind::TooLarge { .. }
            | ErrorKind::Text { .. }
    )
}

/// An image as a file of whatever types it says. Opened read-only it is not written to; refused, it
/// is left as it was; and it holds the same whichever way it is opened.
pub(crate) fn use_file(
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

    let read_only = match AnyMap::open(&path, &options.clone().read_only(true)) {
        Ok(map) => {
            let found = contents(&map, blind_to, features);
            let put = map.put(&text(map.key_type(), 1), &text(map.value_type(), 1));
            assert!(put.is_err(), "a read-only map was written to");
            found
        }
        Err(e) => {
            features.complain("read-only open", &e);
            None
        }
    };
    assert!(unchanged(), "a read-only open wrote to the file");
    let map = match AnyMap::open(&path, &options) {
        Ok(map) => map,
        Err(e) => {
            features.complain("open of a file", &e);
            assert!(unchanged(), "refused, but written to");
            // A log may be asked for that the pool has no room for.
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
    match AnyMap::compact(&path, &options) {
        Ok(()) => {}
        Err(e) => {
            let suspect = matches!(e.kind(), ErrorKind::Options { .. });
            assert!(!sound || suspect || is_limit(&e), "not compacted: {e}");
            features.complain("compaction", &e);
        }
    }
    if sound {
        let map = AnyMap::open(&path, &options).expect("opens again");
        assert!(
            contents(&map, blind_to, features) == Some(model),
            "compaction or closing changed something"
        );
    }
}

/// Puts the value of number `v`, or removes the key where that is too large for one.
fn change(map: &AnyMap, model: &mut Texts, k: u64, v: u64, sound: bool, features: &mut Features) {
    let (key, value) = (text(map.key_type(), k), text(map.value_type(), v));
    let done: Result<()> = if v < 120 {
        map.put(&key, &value).map(|()| drop(model.insert(key, value)))
    } else {
        map.remove(&key).map(|had| {
            let want = model.remove(&key).is_some();
            assert!(!sound || had == want, "remove");
        })
    };
    if let Err(e) = done {
        assert!(!sound || is_limit(&e), "{e}");
        features.complain("change of a file", &e);
    }
}

/// Types of keys and of values.
pub(crate) const TYPES: [(Type, Type); 8] = [
    (Type::Bytes, Type::Bytes),
    (Type::Str, Type::U64),
    (Type::U64, Type::Str),
    (Type::I16, Type::I64),
    (Type::Char, Type::Bool),
    (Type::Array(3), Type::Array(12)),
    (Type::U128, Type::Array(0)),
    (Type::I128, Type::I8),
];

/// Operations on a file, compared with a model; copied while it is open, as a death of the process
/// leaves it, closed, opened read-only, compacted.
pub(crate) fn ops_on_a_file(
    mut bytes: Bytes<'_>,
    design: Design,
    geometry: Geometry,
    features: &mut Features,
) {
    let (key, value) = TYPES[bytes.below(TYPES.len())];
    let dir = directory();
    let mut number = 0;
    let path = |number: u32| -> PathBuf { dir.path().join(format!("{number}.pool")) };
    let options = options().design(design).geometry(geometry);
    let made = AnyMap::create(path(number), key, value, &options);
    let (mut map, mut model) = (made.expect("a new pool"), Texts::new());
    for _ in 0..OPS_MAX {
        if bytes.is_empty() {
            break;
        }
        let (op, k, v) = (bytes.below(64), bytes.number(120), bytes.number(160));
        match op {
            0..=51 => change(&map, &mut model, k, v, true, features),
            52 | 53 => {
                let got = map.get(&text(key, k)).expect("a lookup");
                assert!(got.as_ref() == model.get(&text(key, k)), "get");
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
                    let map = AnyMap::open(path(number), &read_only).expect("opens read-only");
                    assert!(contents(&map, None, features).as_ref() == Some(&model), "read-only");
                }
                map = AnyMap::open(path(number), &options).expect("opens after a death");
            }
            59 | 60 => {
                map.close().expect("closes");
                if op == 60 {
                    AnyMap::compact(path(number), &options).expect("compacts");
                }
                map = AnyMap::open(path(number), &options).expect("opens again");
            }
            _ => assert!(contents(&map, None, features).as_ref() == Some(&model), "contents"),
        }
    }
    assert!(contents(&map, None, features) == Some(model), "contents at the end");
    assert_eq!(map.design(), design);
    let stats = map.stats().expect("figures");
    features.add((design, key, value, stats.index.global_depth, stats.keys.checked_ilog2()));
}
