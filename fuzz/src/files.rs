//! Pool files through `AnyMap` and `AnyMultiMap`: opened read-only and for writing, as whatever types
//! they say, copied while in use, compacted.

use std::fs;
use std::path::{Path, PathBuf};

use durahash::{Error, ErrorKind, Options, Type};
use tempfile::TempDir;

use crate::bytes::Bytes;
use crate::kept::{Do, Kept, Model, is_sound, note, read};
use crate::{Features, Rng};

const MAX_BYTES: u64 = 16 << 20;
/// For images that ask for one.
const LOG_BYTES: u64 = 64 << 10;
/// Operations of an input that are done on a file.
const OPS_MAX: usize = 300;
/// Texts are made no longer than this for an array.
const ARRAY_BYTES_MAX: u32 = 4096;

/// Everything in a map, read in every way; `None` where something was damaged that `check` is not blind
/// to.
fn contents<H: Kept>(
    map: &H,
    blind_to: Option<&'static str>,
    features: &mut Features,
) -> Option<Model<H>> {
    let sound = is_sound(map, blind_to, features);
    let found = read(map, sound, features);
    sound.then_some(found)
}

/// A change of the key of number `k`, which `v` chooses, here and in the model.
fn change<H: Kept>(
    map: &H,
    model: &mut Model<H>,
    [k, v]: [u64; 2],
    sound: bool,
    features: &mut Features,
) {
    let op = match v {
        0..100 => Do::Put(1),
        100..150 => Do::Remove(1),
        _ => Do::RemoveAll,
    };
    if let Err(e) = map.change(model, map.key(k), v % H::VALUES, op, sound) {
        assert!(!sound || is_limit(&e), "{e}");
        features.complain("change of a file", &e);
    }
}

/// A directory in memory where the system has one: what is synced costs no time there.
fn directory() -> TempDir {
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

/// True if a sound pool may refuse a change with this error.
fn is_limit(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::Full { .. }
            | ErrorKind::Skewed { .. }
            | ErrorKind::TooLarge { .. }
            | ErrorKind::Text { .. }
    )
}

/// An image as a file of the types that it names. Opened read-only it is not written to; refused, it
/// is left as it was; and every way to open it finds the same contents.
pub(crate) fn use_file<H: Kept>(
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

    let read_only = match options.clone().read_only(true).open::<H>(&path) {
        Ok(map) => {
            let found = contents(&map, blind_to, features);
            let put = map.change(&mut Model::<H>::default(), map.key(1), 1, Do::Put(1), false);
            assert!(put.is_err(), "a read-only {} was written to", H::NAME);
            found
        }
        Err(e) => {
            features.complain("read-only open", &e);
            None
        }
    };
    assert!(unchanged(), "a read-only open wrote to the file");
    let map = match options.open::<H>(&path) {
        Ok(map) => map,
        Err(e) => {
            features.complain("open of a file", &e);
            assert!(unchanged(), "refused, but written to: {e}");
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
        let numbers = [rng.below(120), rng.below(160)].map(|n| n as u64);
        change(&map, &mut model, numbers, sound, features);
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
    match options.compact::<H>(&path) {
        Ok(()) => {}
        Err(e) => {
            let suspect = matches!(e.kind(), ErrorKind::Options { .. });
            assert!(!sound || suspect || is_limit(&e), "not compacted: {e}");
            features.complain("compaction", &e);
        }
    }
    if sound {
        let map = options.open::<H>(&path).expect("opens again");
        assert!(
            contents(&map, blind_to, features) == Some(model),
            "compaction or closing changed something"
        );
    }
}

/// Types of keys and of values.
const TYPES: [(Type, Type); 9] = [
    (Type::Bytes, Type::Bytes),
    (Type::Str, Type::U64),
    (Type::U64, Type::Str),
    (Type::I16, Type::I64),
    (Type::Char, Type::Bool),
    (Type::Array(3), Type::Array(12)),
    (Type::U128, Type::Array(0)),
    (Type::I128, Type::I8),
    (Type::Array(32), Type::U64),
];

/// Operations on a file, compared with a model; copied while it is open, as a death of the process
/// leaves it, closed, opened read-only, compacted.
pub(crate) fn ops_on_a_file<H: Kept>(
    mut bytes: Bytes<'_>,
    options: &Options,
    features: &mut Features,
) {
    let (key, value) = TYPES[bytes.below(TYPES.len())];
    let dir = directory();
    let mut number = 0;
    let path = |number: u32| -> PathBuf { dir.path().join(format!("{number}.pool")) };
    let made = options.clone().types(key, value).create::<H>(path(number));
    let (mut map, mut model) = (made.expect("a new pool"), Model::<H>::default());
    let keys = H::KEYS[bytes.below(3)];
    for _ in 0..OPS_MAX {
        if bytes.is_empty() {
            break;
        }
        let (op, k, v) = (bytes.below(64), bytes.number(keys), bytes.number(160));
        match op {
            0..=51 => change(&map, &mut model, [k, v], true, features),
            52 | 53 => {
                map.change(&mut model, map.key(k), 0, Do::Look, true).expect("a lookup");
            }
            54 | 55 => drop(map.step().expect("a step")),
            56 if v < 16 => {
                map.clear().expect("clears");
                model.clear();
            }
            57 | 58 => {
                number += 1;
                durahash_media::sim::copies_pass(true);
                fs::copy(path(number - 1), path(number)).expect("a copy");
                drop(map);
                fs::remove_file(path(number - 1)).expect("there");
                if op == 57 {
                    let read_only = options.clone().read_only(true);
                    let map = read_only.open::<H>(path(number)).expect("opens read-only");
                    assert!(contents(&map, None, features).as_ref() == Some(&model), "read-only");
                }
                map = options.open(path(number)).expect("opens after a death");
            }
            59 | 60 => {
                map.close().expect("closes");
                if op == 60 {
                    options.compact::<H>(path(number)).expect("compacts");
                }
                map = options.open(path(number)).expect("opens again");
            }
            _ => assert!(contents(&map, None, features).as_ref() == Some(&model), "contents"),
        }
    }
    assert!(contents(&map, None, features) == Some(model), "contents at the end");
    note(&map, (key, value), features);
}
