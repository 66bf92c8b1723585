//! Maps whose types are found at run time, and their compaction.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{RefUnwindSafe, UnwindSafe};

use durahash::{
    AnyIter, AnyMap, AnyMultiIter, AnyMultiMap, Cursor, Data, Durability, ErrorKind, Iter, Map,
    MultiIter, MultiMap, Options, Outcome, Plain, Serde, Type,
};
use durahash_media::Geometry;
use durahash_testkit::new_path;

fn options() -> Options {
    let geometry = Geometry { extent_shift: 12, slots: 4, hash_bits: 0, buckets: 0 };
    Options::new().geometry(geometry).max_bytes(16 << 20)
}

/// A pool that a typed program made opens without its types, and the other way round.
fn both_ways<K: Data + ?Sized, V: Data<Ref: PartialEq> + ?Sized>(
    pairs: &[(&K::Ref, &V::Ref)],
    texts: &[(&str, &str)],
) {
    let (_dir, path) = new_path();
    let map: Map<K, V> = options().create(&path).unwrap();
    for (key, value) in pairs {
        map.put(key, value).unwrap();
    }
    map.close().unwrap();

    let any = options().open::<AnyMap>(&path).unwrap();
    assert_eq!((any.key_type(), any.value_type()), (K::TYPE, V::TYPE));
    assert_eq!(any.durability(), Durability::Process);
    let want: BTreeMap<_, _> =
        texts.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec())).collect();
    assert_eq!(any.iter().collect::<durahash::Result<BTreeMap<_, _>>>().unwrap(), want);
    as_kept::<K, V>(&any, pairs);
    for (key, value) in texts {
        assert_eq!(any.get(key.as_bytes()).unwrap().as_deref(), Some(value.as_bytes()));
        assert!(any.remove(key.as_bytes()).unwrap());
        assert!(!any.remove(key.as_bytes()).unwrap());
        any.put(key.as_bytes(), value.as_bytes()).unwrap();
    }
    assert_eq!(any.len().unwrap(), texts.len() as u64);
    any.check(&mut |finding| panic!("{finding:?}")).unwrap();
    any.close().unwrap();

    let map: Map<K, V> = options().open(&path).unwrap();
    for (key, value) in pairs {
        assert_eq!(map.get_with(key, |found| found == *value).unwrap(), Some(true));
    }
}

/// The same pool, by the bytes that it keeps, in ones and in many.
fn as_kept<K: Data + ?Sized, V: Data<Ref: PartialEq> + ?Sized>(
    any: &AnyMap,
    pairs: &[(&K::Ref, &V::Ref)],
) {
    let bytes = |(k, v): &(&K::Ref, &V::Ref)| {
        let key = K::bytes(k, &mut Default::default()).to_vec();
        (key, V::bytes(v, &mut Default::default()).to_vec())
    };
    let pairs: BTreeMap<Vec<u8>, Vec<u8>> = pairs.iter().map(bytes).collect();
    let list: Vec<_> = pairs.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    let (found, next) = any.scan_raw(Cursor::START, usize::MAX).unwrap();
    assert_eq!((found.into_iter().collect::<BTreeMap<_, _>>(), next), (pairs.clone(), None));
    let values = || {
        let mut values = Vec::new();
        let found = |i, value: Option<&[u8]>| values.push((i, value.map(<[u8]>::to_vec)));
        any.get_many_raw(list.len(), |i| list[i].0, found).unwrap();
        values
    };
    let flags = |what| {
        let (mut flags, n) = (Vec::new(), list.len());
        let flag = |_, is| flags.push(is);
        match what {
            "contains" => any.contains_many_raw(n, |i| list[i].0, flag),
            "insert" => any.insert_many_raw(n, |i| list[i], flag),
            _ => any.remove_many_raw(n, |i| list[i].0, flag),
        }
        .unwrap();
        flags
    };
    let all = |flag| vec![flag; list.len()];
    let there: Vec<_> = list.iter().map(|pair| Some(pair.1.to_vec())).enumerate().collect();
    assert_eq!(values(), there);
    assert_eq!(flags("contains"), all(true));
    assert_eq!(flags("insert"), all(false));
    assert_eq!(flags("remove"), all(true));
    assert_eq!(flags("remove"), all(false));
    assert!(values().iter().all(|(_, value)| value.is_none()));
    assert_eq!(flags("contains"), all(false));
    assert_eq!(flags("insert"), all(true));
    any.put_many_raw(list.len(), |i| list[i]).unwrap();
    assert_eq!(values(), there);
    for (key, value) in list {
        assert_eq!(any.remove_raw(key).unwrap().as_deref(), Some(value));
        assert_eq!(any.remove_raw(key).unwrap(), None);
        assert!(!any.contains_raw(key).unwrap());
        let exchange = |old, new| any.compare_exchange_raw(key, old, new).unwrap();
        assert_eq!(exchange(None, None), Outcome::Done);
        assert_eq!(exchange(Some(value), None), Outcome::Absent);
        assert_eq!(exchange(None, Some(value)), Outcome::Done);
        assert_eq!(exchange(None, Some(value)), Outcome::Present(value.to_vec()));
        assert_eq!(exchange(None, None), Outcome::Present(value.to_vec()));
        assert_eq!(exchange(Some(value), Some(value)), Outcome::Done);
        assert_eq!(exchange(Some(value), None), Outcome::Done);
        any.put_raw(key, value).unwrap();
        assert_eq!(any.get_raw(key, <[u8]>::to_vec).unwrap().as_deref(), Some(value));
    }
}

#[test]
fn bytes_that_are_no_values_are_refused() {
    let types = [(Type::U16, Type::Bool), (Type::Str, Type::Array(4)), (Type::Char, Type::Str)];
    for (key, value) in types {
        let map: AnyMap = options().types(key, value).in_memory().unwrap();
        let (good, bad) = match key {
            Type::U16 => ((&[1, 2][..], &[1][..]), (&[1][..], &[2][..])),
            Type::Str => ((&b"key"[..], &b"four"[..]), (&[0xff][..], &b"five5"[..])),
            _ => ((&[97, 0, 0, 0][..], &b"text"[..]), (&[0xff; 4][..], &[0xff][..])),
        };
        map.put_raw(good.0, good.1).unwrap();
        let refused = |done: durahash::Result<()>| {
            assert!(matches!(done.unwrap_err().kind(), ErrorKind::Text { .. }), "{key} {value}");
        };
        refused(map.put_raw(bad.0, good.1));
        refused(map.put_raw(good.0, bad.1));
        refused(map.get_raw(bad.0, |_| ()).map(drop));
        refused(map.remove_raw(bad.0).map(drop));
        refused(map.get_many_raw(1, |_| bad.0, |_, _| ()));
        refused(map.put_many_raw(1, |_| (good.0, bad.1)));
        refused(map.compare_exchange_raw(good.0, Some(bad.1), None).map(drop));
        assert_eq!(map.get_raw(good.0, |found| found == good.1).unwrap(), Some(true));
    }
}

#[test]
fn pools_of_typed_programs_are_read_and_written_as_text() {
    both_ways::<u64, u64>(
        &[(&0, &1), (&u64::MAX, &2)],
        &[("0", "1"), ("18446744073709551615", "2")],
    );
    both_ways::<i16, bool>(&[(&-7, &true), (&7, &false)], &[("-7", "true"), ("7", "false")]);
    both_ways::<char, i64>(&[(&'é', &-1)], &[("é", "-1")]);
    both_ways::<str, u64>(&[("", &1), ("key", &2)], &[("", "1"), ("key", "2")]);
    both_ways::<String, Vec<u8>>(&[("", b"1"), ("key", b"2")], &[("", "1"), ("key", "2")]);
    both_ways::<usize, f64>(&[(&7, &-0.5), (&0, &f64::INFINITY)], &[("7", "-0.5"), ("0", "inf")]);
    both_ways::<(u32, i16), f32>(&[(&(3, -4), &1.0)], &[("3,-4", "1")]);
    both_ways::<(u64, char, [u8; 2]), (bool, u64)>(
        &[(&(1, ',', *b",,"), &(true, 9))],
        &[("1,,,,,", "true,9")],
    );
    both_ways::<Plain<[u32; 4]>, [u8; 4]>(
        &[(&Plain([0x3131_3131; 4]), b"four")],
        &[("1111111111111111", "four")],
    );
    both_ways::<Plain<u32>, Serde<String>>(
        &[(&Plain(0x3131_3131), &Serde("text".to_owned()))],
        &[("1111", "\u{4}text")],
    );
    both_ways::<[u8; 3], u128>(&[(b"abc", &u128::MAX)], &[("abc", &u128::MAX.to_string())]);
    both_ways::<[u8; 12], [u8; 2]>(&[(b"twelve bytes", b"xy")], &[("twelve bytes", "xy")]);
    both_ways::<[u8], [u8]>(&[(b"", b""), (b"a\0b", b"\n")], &[("", ""), ("a\0b", "\n")]);
}

#[test]
fn texts_that_are_no_values_are_refused() {
    let (_dir, path) = new_path();
    let map = options().types(Type::U64, Type::Str).create::<AnyMap>(&path).unwrap();
    for (key, value) in [(&b"x"[..], &b"v"[..]), (b"-1", b"v"), (b"1", b"\xff")] {
        let e = map.put(key, value).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Text { .. }), "{e}");
    }
    assert!(map.get(b"").is_err() && map.remove(b"1.0").is_err());
    assert!(map.is_empty().unwrap());
}

#[test]
fn compaction_keeps_everything_and_gives_space_back() {
    for (key, value) in [(Type::U64, Type::U64), (Type::Str, Type::Bytes)] {
        let (dir, path) = new_path();
        let map = options().types(key, value).create::<AnyMap>(&path).unwrap();
        for i in 0..3000 {
            map.put(format!("{i}").as_bytes(), format!("{}", i * i).as_bytes()).unwrap();
        }
        for i in (0..3000).filter(|i| i % 10 != 0) {
            map.remove(format!("{i}").as_bytes()).unwrap();
        }
        map.close().unwrap();
        let before = fs::metadata(&path).unwrap().len();
        // The leftover of a killed compaction does no harm.
        fs::write(dir.path().join(".map.pool.compact~"), b"left over").unwrap();
        options().compact::<AnyMap>(&path).unwrap();
        let after = fs::metadata(&path).unwrap().len();
        assert!(after < before / 2, "{before} bytes, then {after}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

        let map = options().open::<AnyMap>(&path).unwrap();
        assert_eq!((map.key_type(), map.value_type()), (key, value));
        assert_eq!(map.len().unwrap(), 300);
        for i in (0..3000).step_by(10) {
            let value = format!("{}", i * i).into_bytes();
            assert_eq!(map.get(format!("{i}").as_bytes()).unwrap(), Some(value));
        }
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();

        // To another file, while it is read; an existing file is not written over.
        let to = dir.path().join("backup.pool");
        let compact_to = || options().compact_to::<AnyMap>(&path, &to, &mut |_, _| ());
        assert!(matches!(compact_to().unwrap_err().kind(), ErrorKind::Locked));
        map.close().unwrap();
        let reader = options().read_only(true).open::<AnyMap>(&path).unwrap();
        compact_to().unwrap();
        assert!(matches!(compact_to().unwrap_err().kind(), ErrorKind::Exists));
        let backup = options().open::<AnyMap>(&to).unwrap();
        assert!(reader.iter().all(|entry| {
            let (key, value) = entry.unwrap();
            backup.get(&key).unwrap() == Some(value)
        }));
        assert_eq!(backup.len().unwrap(), 300);
        backup.close().unwrap();
        drop(reader);
        fs::remove_file(&to).unwrap();
        let map = options().open::<AnyMap>(&path).unwrap();

        // In use, it is left alone.
        let e = options().compact::<AnyMap>(&path).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Locked), "{e}");
        map.put(b"1", b"2").unwrap();
    }
    assert!(options().compact::<AnyMap>("/no/such.pool").is_err());
}

#[test]
fn a_name_that_is_a_link_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("map.pool"), dir.path().join("link.pool"));
    options().types(Type::U64, Type::U64).create::<AnyMap>(&path).unwrap().put(b"1", b"2").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    options().compact::<AnyMap>(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(options().open::<AnyMap>(&path).unwrap().get(b"1").unwrap(), Some(b"2".to_vec()));
}

#[test]
fn a_pool_is_open_as_long_as_it_has_a_handle() {
    let (_dir, path) = new_path();
    let map: Map<u64, u64> = options().create(&path).unwrap();
    map.put(&1, &10).unwrap();
    let (other, pairs) = (map.clone(), map.iter());
    map.close().unwrap();
    other.put(&2, &20).unwrap();
    drop(other);
    let locked = options().open::<Map<u64, u64>>(&path).unwrap_err();
    assert!(matches!(locked.kind(), ErrorKind::Locked), "{locked}");
    let pairs: BTreeMap<u64, u64> = pairs.collect::<durahash::Result<_>>().unwrap();
    assert_eq!(pairs, BTreeMap::from([(1, 10), (2, 20)]));
    let map: Map<u64, u64> = options().open(&path).unwrap();
    assert_eq!(map.stats().unwrap().epoch, 2);
    assert_eq!(map.len().unwrap(), 2);
}

#[test]
fn array_types_that_the_format_cannot_name_are_refused() {
    let (_dir, path) = new_path();
    let made = Options::new().types(Type::U64, Type::Array(1 << 24)).create::<AnyMap>(&path);
    assert!(matches!(made.unwrap_err().kind(), ErrorKind::Options { .. }));
    assert!(!path.exists());
}

#[test]
fn handles_go_to_other_threads_and_through_panics() {
    fn is_safe<T: Clone + Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    is_safe::<Map<u64, [u8]>>();
    is_safe::<MultiMap<str, u64>>();
    is_safe::<AnyMap>();
    is_safe::<AnyMultiMap>();
    fn survives_panics<T: UnwindSafe + RefUnwindSafe>() {}
    survives_panics::<Iter<u64, [u8]>>();
    survives_panics::<MultiIter<str, u64>>();
    survives_panics::<AnyIter>();
    survives_panics::<AnyMultiIter>();

    let map: Map<u64, u64> = Options::new().in_memory().unwrap();
    map.put(&1, &10).unwrap();
    let panicked = std::panic::catch_unwind(|| map.get_with(&1, |_| panic!("in the caller")));
    assert!(panicked.is_err());
    map.put(&1, &11).unwrap();
    assert_eq!(map.get(&1).unwrap(), Some(11));
}
