//! Misuse and failing systems: a typed error or the right answer, and nothing is lost.

use std::borrow::Borrow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{fs, io};

use durahash::rewo::Cache;
use durahash::{Batch, Change, Cursor, Dax, Design, ErrorKind, Map, Options, Result, SyncMode};
use durahash_media::Geometry;
use durahash_media::sim::{copies_pass, faults, in_forked_child};
use durahash_testkit::{Model, Sample, assert_equal, assert_sound, budget, new_path};

/// A closed pool with the numbers below `count` as keys, twice them as values.
fn pool(dir: &Path, count: u64) -> PathBuf {
    let path = dir.join("pool");
    let map: Map<u64, u64> = Options::new().max_bytes(64 << 20).seed(7).create(&path).unwrap();
    for key in 0..count {
        map.put(&key, &(key * 2)).unwrap();
    }
    map.close().unwrap();
    path
}

fn open(path: &Path) -> Result<Map<u64, u64>> {
    Options::new().max_bytes(64 << 20).open(path)
}

/// Opening `path` fails as `expected` says, for a writer and for a reader, and leaves the file as
/// it was.
fn refused(path: &Path, expected: impl Fn(&ErrorKind) -> bool) {
    let before = fs::read(path).unwrap();
    for read_only in [false, true] {
        let error = Options::new().read_only(read_only).open::<Map<u64, u64>>(path).unwrap_err();
        assert!(expected(error.kind()), "{error}");
        assert_eq!(error.path(), Some(path), "the error names the file");
    }
    assert!(fs::read(path).unwrap() == before, "the file was touched");
}

fn damage(path: &Path, at: usize, bytes: &[u8]) {
    let mut file = fs::read(path).unwrap();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    fs::write(path, file).unwrap();
}

#[test]
fn files_that_are_no_sound_pool_are_named_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = pool(dir.path(), 100);
    let sound = fs::read(&path).unwrap();
    let with = |change: &dyn Fn()| {
        fs::write(&path, &sound).unwrap();
        change();
    };

    with(&|| fs::write(&path, b"key\tvalue\n".repeat(100)).unwrap());
    refused(&path, |kind| matches!(kind, ErrorKind::NotAPool { .. }));
    with(&|| fs::write(&path, b"").unwrap());
    refused(&path, |kind| matches!(kind, ErrorKind::NotAPool { .. }));
    with(&|| fs::write(&path, &sound[..sound.len() / 2]).unwrap());
    refused(&path, |kind| matches!(kind, ErrorKind::Truncated { .. }));
    with(&|| damage(&path, 16, &[9]));
    refused(&path, |kind| matches!(kind, ErrorKind::Corrupt { .. }));
    // A bucket that does not follow the one before it: the first bucket's link.
    let first_bucket = 64 << 10;
    with(&|| {
        let at = (first_bucket..sound.len()).step_by(256).find(|at| sound[at + 240] != 0).unwrap();
        damage(&path, at + 240, &[63]);
    });
    refused(&path, |kind| matches!(kind, ErrorKind::Corrupt { .. }));

    fs::write(&path, &sound).unwrap();
    assert_eq!(open(&path).unwrap().len().unwrap(), 100);
}

#[test]
fn other_types_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = pool(dir.path(), 1);
    let error = Options::new().open::<Map<str, [u8]>>(&path).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Types { .. }));
    assert!(error.to_string().contains("u64"), "{error}");
    assert_eq!(error.path(), Some(&*path), "the error names the file");
    assert!(Options::new().open::<Map<u64, i64>>(&path).is_err(), "also of the same size");
}

#[test]
fn errors_of_operations_name_the_file() {
    const VALUE: [u8; 4096] = [0xab; 4096];
    let dir = tempfile::tempdir().unwrap();
    for design in Design::ALL {
        let path = dir.path().join(design.to_string());
        let options = Options::new().design(*design).max_bytes(4 << 20).verify(true);
        let map: Map<str, [u8]> = options.create(&path).unwrap();
        let is_named = |done: Result<()>, of: &str| {
            let error = done.expect_err(of);
            assert!(matches!(error.kind(), ErrorKind::Full { .. }) == (of == "full"), "{error}");
            assert_eq!(error.path(), Some(&*path), "{design}, {of}: {error}");
        };
        let full = (0..).find_map(|i| map.put(&i.to_string(), &VALUE).err());
        is_named(Err(full.unwrap()), "full");
        is_named(map.put_many(&[("new", VALUE); 9]), "full");
        is_named(map.update("new", |_| Change::Set(VALUE.to_vec())).map(drop), "full");
        let mut batch = Batch::new();
        (0..9).for_each(|i| batch.put(&map, &format!("n{i}"), &VALUE).unwrap());
        is_named(batch.apply(), "full");
        drop(batch);
        map.close().unwrap();

        let mut file = fs::read(&path).unwrap();
        file.chunks_mut(64).filter(|line| line == &[0xab; 64]).for_each(|line| line[0] = 0);
        fs::write(&path, file).unwrap();
        let map: Map<str, [u8]> = options.open(&path).unwrap();
        is_named(map.get("0").map(drop), "damaged");
        is_named(map.get_with("0", |_| ()).map(drop), "damaged");
        is_named(map.get_many(&["0"], &mut [None]), "damaged");
        is_named(map.remove("0").map(drop), "damaged");
        is_named(map.update("0", |_| Change::Keep).map(drop), "damaged");
        is_named(map.iter().find_map(Result::err).map_or(Ok(()), Err), "damaged");
        is_named(map.scan(Cursor::START, 1).map(drop), "damaged");
    }
}

#[test]
fn one_writer_or_many_readers() {
    let dir = tempfile::tempdir().unwrap();
    let path = pool(dir.path(), 10);
    let locked = |read_only: bool| {
        let second = Options::new().read_only(read_only).open::<Map<u64, u64>>(&path);
        matches!(second.err().map(|e| matches!(e.kind(), ErrorKind::Locked)), Some(true))
    };
    let writer = open(&path).unwrap();
    assert!(locked(false) && locked(true));
    drop(writer);
    let reader: Map<u64, u64> = Options::new().read_only(true).open(&path).unwrap();
    assert!(locked(false));
    let other: Map<u64, u64> = Options::new().read_only(true).open(&path).unwrap();
    assert_eq!((reader.get(&3).unwrap(), other.get(&3).unwrap()), (Some(6), Some(6)));
    assert!(matches!(reader.put(&1, &1).unwrap_err().kind(), ErrorKind::ReadOnly));
    assert!(matches!(reader.remove(&1).unwrap_err().kind(), ErrorKind::ReadOnly));
}

#[test]
fn existing_files_are_not_created_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = pool(dir.path(), 10);
    let error = Options::new().create::<Map<u64, u64>>(&path).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Exists));
    assert_eq!(open(&path).unwrap().len().unwrap(), 10);
}

/// Where a new file has a temporary name, what a killed creation left goes with the next creation, and with the next
/// open for writing; what another process uses stays, and so does what only looks like it.
#[test]
fn the_leftover_of_a_killed_creation_is_removed() {
    faults::NAMED_ONLY.set(true);
    let dir = tempfile::tempdir().unwrap();
    let [left, locked, other] = [
        ".durahash-1-2-00000000deadbeef.tmp",
        ".durahash-1-3-00000000deadbeef.tmp",
        ".durahash-1-2-3.tmp",
    ]
    .map(|name| dir.path().join(name));
    let leave = |path| fs::write(path, [0; 4096]).unwrap();
    [&left, &locked, &other].into_iter().for_each(leave);
    let in_use = fs::File::open(&locked).unwrap();
    in_use.lock().unwrap();
    let path = pool(dir.path(), 10);
    assert!(!left.exists() && locked.exists() && other.exists());
    leave(&left);
    let read_only = Options::new().read_only(true).open::<Map<u64, u64>>(&path).unwrap();
    assert!(left.exists(), "a reader changes nothing");
    drop(read_only);
    open(&path).unwrap();
    assert!(!left.exists() && locked.exists() && other.exists());
    in_use.unlock().unwrap();
    open(&path).unwrap();
    assert!(!locked.exists() && other.exists());
    faults::NAMED_ONLY.set(false);
}

#[test]
fn a_huge_value_comes_back() {
    let map: Map<str, [u8]> = Options::new().max_bytes(4 << 30).in_memory().unwrap();
    let mut value = vec![7; budget(1 << 26, 1 << 30)];
    *value.last_mut().unwrap() = 9;
    map.put("large", &value).unwrap();
    assert!(map.get("large").unwrap().unwrap() == value);
    map.put("large", b"small").unwrap();
    assert_eq!(map.get("large").unwrap().as_deref(), Some(&b"small"[..]));
    assert_eq!(map.stats().unwrap().space.record_bytes, 48);
}

/// Keys that meet in a pool cannot be chosen without its seed.
#[test]
fn every_pool_has_a_seed_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let seeds = ["one", "two"].map(|name| {
        let path = dir.path().join(name);
        Options::new().create::<Map<u64, u64>>(&path).unwrap().close().unwrap();
        fs::read(path).unwrap()[56..64].to_vec()
    });
    assert_ne!(seeds[0], seeds[1]);
    assert!(!seeds.contains(&vec![0; 8]));
}

#[test]
fn absurd_limits_are_refused_or_met() {
    let dir = tempfile::tempdir().unwrap();
    for max_bytes in [0, 1, 4096, 64 << 10] {
        let made =
            Options::new().max_bytes(max_bytes).create::<Map<u64, u64>>(dir.path().join("small"));
        let error = made.unwrap_err();
        let small = matches!(error.kind(), ErrorKind::Options { .. } | ErrorKind::Full { .. });
        assert!(small, "{max_bytes}: {error}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    for max_bytes in [1 << 50, u64::MAX] {
        let path = dir.path().join("large");
        let made = Options::new().max_bytes(max_bytes).create::<Map<u64, u64>>(&path);
        match made {
            Ok(map) => map.put(&1, &1).unwrap(),
            Err(e) => assert!(matches!(e.kind(), ErrorKind::Options { .. }), "{e}"),
        }
        let _ = fs::remove_file(path);
    }
}

/// With the smallest and the largest of each setting a map, in a file and in memory, keeps an entry, or a typed error says
/// what is wrong.
#[test]
fn every_setting_is_met_or_refused_at_its_extremes() {
    let to = Options::new;
    let mut settings = Vec::new();
    for n in [0, 1, u64::MAX] {
        settings.extend([to().max_bytes(n), to().private_bytes(n), to().log_bytes(n)]);
        settings.push(to().design(Design::Rewo).cache(Cache::of_bytes(n)));
        let every = Duration::from_millis(n);
        settings.push(to().sync_mode(SyncMode::Interval(every)));
        settings.push(to().sync_mode(SyncMode::Interval(every)).live_image(false));
    }
    let keeps = |made: Result<Map<u64, u64>>| {
        let done = made.and_then(|map| {
            map.put(&1, &2)?;
            assert_eq!(map.get(&1)?, Some(2));
            map.close()
        });
        let e = done.err()?;
        let told = matches!(e.kind(), ErrorKind::Options { .. } | ErrorKind::Full { .. });
        assert!(told, "{e}");
        Some(e)
    };
    for options in settings {
        let (dir, path) = new_path();
        if keeps(options.create(&path)).is_some() {
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{options:?}");
        }
        keeps(options.in_memory());
    }
    for n in [0, 1, u64::MAX] {
        for options in [to().max_entries(n), to().max_bytes_used(n)] {
            let cache: durahash::Cache<u64, u64> = options.in_memory().unwrap();
            match cache.put(&1, &2) {
                Ok(()) => assert_eq!(cache.get(&1).unwrap(), Some(2)),
                Err(e) => assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}"),
            }
        }
    }
}

/// A copy of an open pool may have pages of different times, and pools of all modes tell; renamed or closed it is
/// the pool itself.
#[test]
fn a_copy_of_an_open_pool_is_refused() {
    copies_pass(false);
    let dir = tempfile::tempdir().unwrap();
    let [path, other, copy] = ["pool", "other", "copy"].map(|name| dir.path().join(name));
    let modes = [SyncMode::Process, SyncMode::INTERVAL, SyncMode::Strict];
    for (mode, live) in
        modes.map(|mode| (mode, false)).into_iter().chain([(SyncMode::INTERVAL, true)])
    {
        let options = Options::new().sync_mode(mode).log_bytes(512 << 10).live_image(live);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        (0..100).for_each(|i| map.put(&i, &i).unwrap());
        fs::copy(&path, &copy).unwrap();
        fs::rename(&path, &other).unwrap();
        refused(&copy, |kind| matches!(kind, ErrorKind::Copied));
        let accepted: Map<u64, u64> = options.clone().accept_suspect(true).open(&copy).unwrap();
        assert!(accepted.stats().unwrap().suspect);
        drop(accepted);

        map.close().unwrap();
        fs::copy(&other, &copy).unwrap();
        for path in [&copy, &other] {
            let map: Map<u64, u64> = options.open(path).unwrap();
            assert_eq!(map.len().unwrap(), 100, "{mode}");
            assert!(!map.stats().unwrap().suspect);
            map.put(&100, &100).unwrap();
        }
        for path in [&copy, &other] {
            fs::remove_file(path).unwrap();
        }
    }
}

/// A forked child that drops or closes what its parent has open does no harm, to itself or to the parent.
#[test]
fn a_forked_child_has_no_part_in_the_pool() {
    let (_dir, path) = new_path();
    let mut cache = Cache::default();
    cache.sync_threads = 1;
    for (design, mode, live) in [
        (Design::Reh, SyncMode::Process, false),
        (Design::Pea, SyncMode::Strict, false),
        (Design::Esh, SyncMode::INTERVAL, false),
        (Design::Rewo, SyncMode::INTERVAL, false),
        (Design::Reh, SyncMode::INTERVAL, true),
        (Design::Pea, SyncMode::Strict, true),
    ] {
        let options = Options::new().design(design).sync_mode(mode).cache(cache);
        let options = options.log_bytes(512 << 10).live_image(live);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        map.put(&1, &10).unwrap();
        let map = Arc::new(Mutex::new(Some(map)));
        for closes in [false, true] {
            let of_child = Arc::clone(&map);
            let ended = in_forked_child(move || {
                let map = of_child.lock().unwrap().take().unwrap();
                if map.backup("/nowhere").is_ok() {
                    return Err(io::Error::other("it was backed up"));
                }
                match closes.then(|| map.close()) {
                    None | Some(Err(_)) => Ok(()),
                    Some(Ok(())) => Err(io::Error::other("it was closed")),
                }
            });
            assert!(ended.unwrap().success(), "{design}");
        }
        let map = map.lock().unwrap().take().unwrap();
        let again = options.open::<Map<u64, u64>>(&path).unwrap_err();
        assert!(matches!(again.kind(), ErrorKind::Locked), "{again}");
        assert_eq!(again.path(), Some(&*path));
        map.put(&2, &20).unwrap();
        map.close().unwrap();
        let map: Map<u64, u64> = options.open(&path).unwrap();
        assert_eq!(map.len().unwrap(), 2, "{design}");
        drop(map);
        fs::remove_file(&path).unwrap();
    }
}

/// A file that something made longer keeps its pool, whose space ends where it did, and is cut at its close.
#[test]
fn bytes_of_a_file_behind_its_pool_cost_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    for mode in [SyncMode::Process, SyncMode::INTERVAL] {
        let options = Options::new().sync_mode(mode).log_bytes(512 << 10);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        map.put(&1, &1).unwrap();
        map.close().unwrap();
        let used = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
        let before = used(&path);
        for _ in 0..2 {
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(1 << 40).unwrap();
            let map: Map<u64, u64> = options.open(&path).unwrap();
            (0..100_000).for_each(|i| map.put(&i, &i).unwrap());
            assert!(used(&path) < before + (64 << 20), "{mode}");
            map.close().unwrap();
            let map: Map<u64, u64> = options.open(&path).unwrap();
            assert_eq!(map.len().unwrap(), 100_000);
            assert_sound(&map);
            map.close().unwrap();
            assert!(fs::metadata(&path).unwrap().len() < 64 << 20, "{mode}");
        }
        // The same of one that was not closed, without what lay beside it.
        let map: Map<u64, u64> = options.open(&path).unwrap();
        map.put(&0, &1).unwrap();
        map.sync().unwrap();
        let left = dir.path().join("left");
        fs::copy(&path, &left).unwrap();
        drop(map);
        fs::OpenOptions::new().write(true).open(&left).unwrap().set_len(1 << 40).unwrap();
        let map: Map<u64, u64> = options.accept_suspect(true).open(&left).unwrap();
        assert_eq!((map.len().unwrap(), map.get(&0).unwrap()), (100_000, Some(1)), "{mode}");
        assert!(used(&left) < before + (64 << 20), "{mode}");
        drop(map);
        fs::remove_file(&left).unwrap();
        fs::remove_file(&path).unwrap();
    }
}

/// Pages of zeros, and pages that stand where another should, in a closed pool of each design: it is refused, or
/// `check` tells.
#[test]
fn pages_of_an_index_that_are_gone_or_elsewhere_are_found() {
    const PAGE: usize = 4096;
    const UNITS: u8 = 2;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    for design in [Design::Reh, Design::Pea, Design::Esh, Design::Rewo] {
        let options = Options::new().design(design).sync_mode(SyncMode::Process).max_bytes(1 << 30);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        (0..20_000).for_each(|i| map.put(&i, &i).unwrap());
        map.close().unwrap();
        let sound = fs::read(&path).unwrap();
        let extent_bytes = 1 << sound[40];
        let is_unit = |page: usize| sound[extent_bytes / 2 + page * PAGE / extent_bytes] == UNITS;
        let used = |page: &usize| sound[page * PAGE..][..PAGE].iter().any(|byte| *byte != 0);
        let pages = (0..sound.len() / PAGE).filter(|page| is_unit(*page)).filter(used);
        let pages: Vec<usize> = pages.collect();
        let mut tried = 0;
        for two in pages.windows(2).step_by(budget(pages.len() / 8, 1).max(1)) {
            let [one, other] = [two[0] * PAGE, two[1] * PAGE];
            let (zeros, page) = ([0; PAGE], &sound[other..][..PAGE]);
            for bytes in [&zeros[..], page] {
                let mut damaged = sound.clone();
                if damaged[one..][..PAGE] == *bytes {
                    // Pages of stash buckets without entries, of Pea Hash: the file stays as it is.
                    continue;
                }
                damaged[one..][..PAGE].copy_from_slice(bytes);
                fs::write(&path, &damaged).unwrap();
                tried += 1;
                let Ok(map) = Options::new().read_only(true).open::<Map<u64, u64>>(&path) else {
                    continue;
                };
                let mut findings = 0;
                map.check(&mut |_| findings += 1).unwrap();
                assert!(findings > 0, "{design}: page at {one:#x}");
            }
        }
        assert!(tried >= 16, "{design}: {tried}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn dax_is_never_silently_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = pool(dir.path(), 1);
    match Options::new().dax(Dax::Require).open::<Map<u64, u64>>(&path) {
        Ok(map) => assert_eq!(map.durability(), durahash::Durability::Strict),
        Err(e) => assert!(matches!(e.kind(), ErrorKind::NoDax), "{e}"),
    }
    assert_eq!(open(&path).unwrap().len().unwrap(), 1);
}

/// Any system call fails: the operation says so, and the pool that is opened afterwards holds
/// all acknowledged changes and nothing else.
fn fail_each_call<K: Sample + ?Sized, V: Sample + ?Sized>(every: usize) {
    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;
    // Small extents, so that few writes need the system often.
    let options = Options::new()
        .max_bytes(4 << 20)
        .geometry(Geometry { extent_shift: 12, ..Geometry::default() });
    for errno in [EIO, ENOSPC] {
        let mut failed_in_a_row = 0;
        for nth in (1..).step_by(every) {
            let (dir, path) = new_path();
            let mut model = Model::new();
            let mut told = |map: &Map<K, V>, from: u64| -> Result<()> {
                for k in from..from + 400 {
                    let v = (k + nth) % 64;
                    map.put(K::sample(k).borrow(), V::sample(v).borrow())?;
                    model.insert(k, v);
                    if k % 3 == 0 {
                        map.remove(K::sample(k - k % 2).borrow())?;
                        model.remove(&(k - k % 2));
                    }
                }
                Ok(())
            };
            faults::arm(nth, errno);
            let run = (|| {
                let map = options.create(&path)?;
                told(&map, 0)?;
                map.close()?;
                let map = options.open(&path)?;
                told(&map, 1000)?;
                map.close()?;
                let map: Map<K, V> = options.clone().read_only(true).open(&path)?;
                map.len().map(drop)
            })();
            if !faults::disarm() {
                run.unwrap();
                break;
            }
            failed_in_a_row += 1;
            if path.exists() {
                let map: Map<K, V> = options.open(&path).unwrap();
                assert_sound(&map);
                assert_equal(&map, &model);
                map.put(K::sample(5000).borrow(), V::sample(1).borrow()).unwrap();
                map.close().unwrap();
            } else {
                assert!(run.is_err() && model.is_empty());
            }
            let rest = fs::read_dir(dir.path()).unwrap().count();
            assert!(rest <= 1, "call {nth}: something was left behind");
        }
        println!("{failed_in_a_row} calls");
        assert!(failed_in_a_row * every > 20, "only {failed_in_a_row} calls were made to fail");
    }
}

#[test]
fn words_are_intact_after_any_failed_call() {
    fail_each_call::<u64, u64>(1);
}

#[test]
fn records_are_intact_after_any_failed_call() {
    // The calls are those of words, but for more growth.
    fail_each_call::<str, [u8]>(budget(5, 1));
}
