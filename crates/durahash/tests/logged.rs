//! Maps behind a log: modes, what they promise, and what is left when calls fail. Cuts of the power are
//! in `durahash-crash`, kills in `kill.rs`.

use std::path::Path;
use std::time::Duration;

use durahash::{AnyMap, Durability, Map, Options, SyncMode};

const LOG_BYTES: u64 = 256 << 10;
const HOUR: SyncMode = SyncMode::Interval(Duration::from_secs(3600));

fn options(mode: SyncMode) -> Options {
    Options::new().log_bytes(LOG_BYTES).sync_mode(mode)
}

fn create(path: &Path, mode: SyncMode) -> Map<u64, u64> {
    options(mode).create(path).unwrap()
}

#[test]
fn a_pool_keeps_its_mode_and_an_open_may_have_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let modes = [
        (SyncMode::Process, Durability::Process),
        (SyncMode::INTERVAL, Durability::Interval),
        (SyncMode::Strict, Durability::Power),
    ];
    for (made, durability) in modes {
        let map = create(&path, made);
        assert_eq!(map.durability(), durability);
        map.put(&0, &0).unwrap();
        map.close().unwrap();
        for (i, (mode, durability)) in (1..).zip(modes) {
            let map: Map<u64, u64> = options(mode).open(&path).unwrap();
            assert_eq!(map.durability(), durability);
            map.put(&i, &i).unwrap();
            assert_eq!(map.len().unwrap(), i + 1);
            map.check(&mut |finding| panic!("{finding:?}")).unwrap();
            map.close().unwrap();
        }
        let map: Map<u64, u64> = Options::new().open(&path).unwrap();
        assert_eq!(map.durability(), durability, "its own");
        map.close().unwrap();
        AnyMap::compact(&path, &Options::new()).unwrap();
        let map: Map<u64, u64> = Options::new().log_bytes(LOG_BYTES).open(&path).unwrap();
        assert_eq!((map.durability(), map.len().unwrap()), (durability, 4), "compacted");
        drop(map);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn the_log_has_as_many_bytes_as_asked_for_in_whole_extents() {
    let dir = tempfile::tempdir().unwrap();
    for (asked, extents) in [(0, 1), (512 << 10, 1), (1 << 20, 2)] {
        let path = dir.path().join("pool");
        let options = options(SyncMode::Strict).log_bytes(asked);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        assert_eq!(map.stats().unwrap().log.unwrap().area_bytes, extents << 19);
        drop(map);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn strict_operations_are_written_one_by_one_and_batches_together() {
    let dir = tempfile::tempdir().unwrap();
    let map = create(&dir.path().join("pool"), SyncMode::Strict);
    let writes = || map.stats().unwrap().log.unwrap().writes;
    let before = writes();
    for i in 0..10 {
        map.put(&i, &i).unwrap();
    }
    assert_eq!(writes() - before, 10);
    let pairs: Vec<(u64, u64)> = (0..200).map(|i| (i, i + 1)).collect();
    let before = writes();
    map.put_many(&pairs).unwrap();
    assert_eq!(writes() - before, 1);
    assert_eq!(map.get(&199).unwrap(), Some(200));
    let before = writes();
    map.clear().unwrap();
    assert_eq!(writes() - before, 1);
}

#[test]
fn a_read_waits_for_what_a_batch_has_not_written_yet() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let map = create(&path, SyncMode::Strict);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            loop {
                let found = map.get(&0).unwrap();
                let last = map.get(&49_999).unwrap();
                let lines = map.stats().unwrap().log.unwrap();
                // What it saw is in a log as long as that.
                if last.is_some() {
                    return (found, lines.bytes);
                }
            }
        });
        let pairs: Vec<(u64, u64)> = (0..50_000).map(|i| (i, i)).collect();
        map.put_many(&pairs).unwrap();
        let (found, bytes) = reader.join().unwrap();
        assert_eq!(found, Some(0));
        assert!(bytes >= 50_000 * 64);
    });
}

/// The image is copied as a kill would leave the file: without what only the process knows.
#[test]
fn sync_writes_what_the_interval_has_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let map = create(&path, HOUR);
    let writes = || map.stats().unwrap().log.unwrap().writes;
    map.sync().unwrap();
    let before = writes();
    map.put(&1, &10).unwrap();
    assert_eq!(writes(), before);
    map.sync().unwrap();
    assert_eq!(writes(), before + 1);
    for other in [SyncMode::Process, SyncMode::Strict] {
        let map = create(&dir.path().join("other"), other);
        map.put(&1, &10).unwrap();
        map.sync().unwrap();
        drop(map);
        std::fs::remove_file(dir.path().join("other")).unwrap();
    }
}

#[test]
fn a_pool_with_lines_in_its_log_is_read_by_many_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("pool"), dir.path().join("copy"));
    for mode in [HOUR, SyncMode::Strict] {
        let map = create(&path, mode);
        for i in 0..500 {
            map.put(&i, &!i).unwrap();
        }
        std::fs::copy(&path, &copy).unwrap();
        drop(map);
        let bytes = std::fs::read(&copy).unwrap();
        let readers: Vec<Map<u64, u64>> =
            (0..2).map(|_| Options::new().read_only(true).open(&copy).unwrap()).collect();
        for map in &readers {
            assert_eq!(map.len().unwrap(), 500);
            assert!((0..500).all(|i| map.get(&i).unwrap() == Some(!i)));
            map.check(&mut |finding| panic!("{finding:?}")).unwrap();
        }
        drop(readers);
        assert!(std::fs::read(&copy).unwrap() == bytes, "the file was written");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn many_splits_and_records_go_through_a_short_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let map: Map<str, [u8]> = options(HOUR).create(&path).unwrap();
    let value = |i: usize| vec![i as u8; i % 3000];
    for i in 0..20_000 {
        map.put(&format!("key {}", i % 5000), &value(i)).unwrap();
    }
    // Longer than the whole log.
    map.put("long", &vec![7; 3 << 20]).unwrap();
    let log = map.stats().unwrap().log.unwrap();
    assert!(log.checkpoints > 10, "{log:?}");
    assert_eq!(map.len().unwrap(), 5001);
    map.close().unwrap();
    let map: Map<str, [u8]> = Options::new().open(&path).unwrap();
    map.check(&mut |finding| panic!("{finding:?}")).unwrap();
    assert_eq!(map.get("long").unwrap(), Some(vec![7; 3 << 20]));
    for i in 15_000..20_000 {
        assert_eq!(map.get(&format!("key {}", i % 5000)).unwrap(), Some(value(i)));
    }
}
