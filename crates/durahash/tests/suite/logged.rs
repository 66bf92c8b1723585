//! Maps behind a log: modes, what they promise, and what is left when calls fail. Cuts of the power are
//! in `durahash-crash`, kills in `kill.rs`.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use durahash::pea::Policy;
use durahash::{AnyMap, Design, Durability, ErrorKind, Map, Options, SyncMode};
use durahash_media::Geometry;
use durahash_media::sim::{SimDisk, copies_pass, faults};
use durahash_testkit::{budget, new_path};

const LOG_BYTES: u64 = 512 << 10;
const HOUR: SyncMode = SyncMode::Interval(Duration::from_secs(3600));

fn options(mode: SyncMode) -> Options {
    Options::new().live_image(false).log_bytes(LOG_BYTES).sync_mode(mode)
}

fn create(path: &Path, mode: SyncMode) -> Map<u64, u64> {
    options(mode).create(path).unwrap()
}

#[test]
fn a_pool_keeps_its_mode_and_an_open_may_have_another() {
    let (_dir, path) = new_path();
    let modes = [
        (SyncMode::Process, Durability::Process),
        (SyncMode::INTERVAL, Durability::Interval),
        (SyncMode::Strict, Durability::Strict),
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
        Options::new().compact::<AnyMap>(&path).unwrap();
        let map: Map<u64, u64> = Options::new().log_bytes(LOG_BYTES).open(&path).unwrap();
        assert_eq!((map.durability(), map.len().unwrap()), (durability, 4), "compacted");
        drop(map);
        std::fs::remove_file(&path).unwrap();
    }
}

/// An open that is refused for its options leaves a pool as it is, also one that was to get its first log.
#[test]
fn options_that_cannot_be_are_refused_before_a_log_is_made() {
    let (_dir, path) = new_path();
    let made = options(SyncMode::Process).design(Design::Pea).create::<Map<u64, u64>>(&path);
    made.unwrap().close().unwrap();
    let before = fs::read(&path).unwrap();
    let mut in_eight = Policy::default();
    in_eight.split_bits = 3;
    let refused = options(SyncMode::Strict).policy(in_eight).open::<Map<u64, u64>>(&path);
    assert!(matches!(refused.unwrap_err().kind(), ErrorKind::Options { .. }));
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn a_new_pool_has_a_log_where_that_is_of_use() {
    let dir = tempfile::tempdir().unwrap();
    let mode = |dir: &Path, options: Options| {
        let path = dir.join("pool");
        let map: Map<u64, u64> = options.create(&path).unwrap();
        let mode = map.stats().unwrap().sync_mode;
        drop(map);
        fs::remove_file(path).unwrap();
        mode
    };
    let small = || Options::new().log_bytes(LOG_BYTES);
    assert_eq!(mode(dir.path(), small()), SyncMode::INTERVAL);
    assert_eq!(mode(dir.path(), small().max_bytes(8 * LOG_BYTES)), SyncMode::INTERVAL);
    assert_eq!(mode(dir.path(), small().max_bytes(8 * LOG_BYTES - 1)), SyncMode::Process);
    assert_eq!(mode(dir.path(), small().force_flushes(true)), SyncMode::Process);
    assert_eq!(mode(dir.path(), small().sync_mode(SyncMode::Process)), SyncMode::Process);
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let dir = tempfile::tempdir_in(memory).unwrap();
        assert_eq!(mode(dir.path(), small()), SyncMode::Process);
    }
}

/// Long enough that it is read ahead, by a second thread, past the page cache; and the pool grows far into what
/// is memory of the process from the start.
#[test]
fn a_long_log_is_recovered_after_a_death() {
    // A checkpoint is made when half of the log is in use, of which an eighth may be written at once.
    let log_bytes = budget(16 << 20, 64 << 20);
    let long = log_bytes / 4;
    let dir = tempfile::tempdir().unwrap();
    for (design, mode) in
        Design::ALL.iter().flat_map(|d| [SyncMode::Strict, HOUR].map(|mode| (*d, mode)))
    {
        let path = dir.path().join("pool");
        let options = Options::new()
            .design(design)
            .sync_mode(mode)
            .live_image(false)
            .log_bytes(log_bytes)
            .private_bytes(64 << 20);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        let log = || map.stats().unwrap().log.unwrap();
        let (mut count, mut checkpoint) = (0, log());
        while log().area_bytes < log_bytes || log().bytes - checkpoint.bytes < long {
            let pairs: Vec<(u64, u64)> = (count..count + 5000).map(|i| (i, !i)).collect();
            map.put_many(&pairs).unwrap();
            count += 5000;
            if log().checkpoints != checkpoint.checkpoints {
                checkpoint = log();
            }
        }
        // As a death leaves it.
        copies_pass(true);
        let copy = dir.path().join("copy");
        fs::copy(&path, &copy).unwrap();
        let read_only: Map<u64, u64> = options.clone().read_only(true).open(&copy).unwrap();
        assert_eq!(read_only.len().unwrap(), count);
        drop(read_only);
        let map: Map<u64, u64> = options.open(&copy).unwrap();
        assert!((0..count).all(|i| map.get(&i).unwrap() == Some(!i)), "{design}, {mode}");
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
        map.close().unwrap();
        for path in [path, copy] {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn the_log_has_as_many_bytes_as_asked_for_in_whole_extents_but_half_a_mebibyte_at_first() {
    let dir = tempfile::tempdir().unwrap();
    for (asked, extents) in [(0, 1), (200 << 10, 4), (512 << 10, 8), (1 << 20, 8)] {
        let path = dir.path().join("pool");
        let options = options(SyncMode::Strict).log_bytes(asked);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        assert_eq!(map.stats().unwrap().log.unwrap().area_bytes, extents << 16);
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
fn a_read_waits_for_an_unwritten_batch() {
    let (_dir, path) = new_path();
    let map = create(&path, SyncMode::Strict);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            loop {
                let found = map.get(&0).unwrap();
                let last = map.get(&49_999).unwrap();
                let lines = map.stats().unwrap().log.unwrap();
                // The entry that it saw is in a log as long as that.
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

/// A log that no pool has room for is refused, and nothing is left of the pool.
#[test]
fn a_log_of_any_size_is_made_or_refused() {
    for bytes in [u64::MAX, u64::MAX - (64 << 20), 1 << 63, (1 << 40) + 1] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new().sync_mode(SyncMode::Strict).log_bytes(bytes);
        let e = options.create::<Map<u64, u64>>(dir.path().join("pool")).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{bytes}: {e}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

/// The map's thread-locals are gone by then: it is registered before them.
#[test]
fn a_destructor_of_a_thread_local_may_use_the_map() {
    struct Reads(Map<str, u64>);
    impl Drop for Reads {
        fn drop(&mut self) {
            assert_eq!(self.0.get("a").unwrap(), Some(1));
        }
    }
    thread_local! {
        static MAP: RefCell<Option<Reads>> = const { RefCell::new(None) };
    }
    let map: Map<str, u64> = Options::new().in_memory().unwrap();
    std::thread::spawn(move || {
        MAP.with(|slot| *slot.borrow_mut() = Some(Reads(map.clone())));
        map.put("a", &1).unwrap();
        assert_eq!(map.get("a").unwrap(), Some(1));
    })
    .join()
    .unwrap();
}

/// Its destructor runs after that of what the thread knows of the log, which it registered later.
#[test]
fn a_map_of_a_thread_is_closed_when_the_thread_ends() {
    thread_local! {
        static MAP: RefCell<Option<Map<str, str>>> = const { RefCell::new(None) };
    }
    let dir = tempfile::tempdir().unwrap();
    for mode in [SyncMode::Strict, HOUR] {
        let path = dir.path().join("pool");
        let of_thread = path.clone();
        let run = move || {
            MAP.with_borrow_mut(|map| {
                let map = map.insert(options(mode).create(&of_thread).unwrap());
                map.put("key", &"value".repeat(1000)).unwrap();
            });
        };
        std::thread::spawn(run).join().unwrap();
        let map: Map<str, str> = Options::new().open(&path).unwrap();
        assert!(map.stats().unwrap().log.is_some());
        assert_eq!(map.get("key").unwrap().unwrap().len(), 5000);
        map.close().unwrap();
        fs::remove_file(&path).unwrap();
    }
}

/// The image is copied as a kill would leave the file: without what only the process knows.
#[test]
fn sync_writes_before_the_interval_ends() {
    let (dir, path) = new_path();
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
    copies_pass(true);
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
    let (_dir, path) = new_path();
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

/// The file of a pool with 500 numbers in it as a kill leaves it, the last of them in the log only.
fn left_open(dir: &Path, mode: SyncMode) -> PathBuf {
    let (path, copy) = (dir.join("open"), dir.join("pool"));
    let map = create(&path, mode);
    for i in 0..500 {
        map.put(&i, &!i).unwrap();
    }
    map.close().unwrap();
    let map: Map<u64, u64> = options(mode).open(&path).unwrap();
    map.put(&500, &!500).unwrap();
    copies_pass(true);
    fs::copy(&path, &copy).unwrap();
    drop(map);
    fs::remove_file(&path).unwrap();
    copy
}

/// No way to open `path` succeeds, and none changes it.
fn refused<V: durahash::Data + ?Sized>(path: &Path, expected: impl Fn(&ErrorKind) -> bool) {
    let before = fs::read(path).unwrap();
    let all = [SyncMode::Process, SyncMode::Strict, HOUR].map(options);
    for options in all.into_iter().chain([Options::new(), Options::new().read_only(true)]) {
        let e = options.open::<Map<u64, V>>(path).unwrap_err();
        assert!(expected(e.kind()), "{e}");
        assert!(fs::read(path).unwrap() == before, "the file was touched: {e}, {options:?}");
    }
}

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320))
    })
}

#[test]
fn refused_pools_are_left_alone_whatever_their_log_holds() {
    const EXTENT_BYTES: usize = 64 << 10;
    const TABLE_OFF: usize = EXTENT_BYTES / 2;
    const UNITS: u8 = 2;
    let dir = tempfile::tempdir().unwrap();
    let corrupt = |kind: &ErrorKind| matches!(kind, ErrorKind::Corrupt { .. });
    for mode in [HOUR, SyncMode::Strict] {
        let path = left_open(dir.path(), mode);
        let sound = fs::read(&path).unwrap();
        refused::<str>(&path, |kind| matches!(kind, ErrorKind::Types { .. }));
        fs::write(&path, &sound[..sound.len() / 2]).unwrap();
        refused::<u64>(&path, |kind| corrupt(kind) || matches!(kind, ErrorKind::Truncated { .. }));
        let first = (1..).find(|i| sound[TABLE_OFF + i] == UNITS).unwrap() * EXTENT_BYTES;
        let mut other = sound.clone();
        other[16] = 9;
        let crc = crc32(&other[..88]);
        other[88..96].copy_from_slice(&u64::from(crc).to_le_bytes());
        fs::write(&path, &other).unwrap();
        refused::<u64>(&path, |kind| matches!(kind, ErrorKind::Version { found: 9, .. }));
        for (at, v) in [(16, 9), (TABLE_OFF, 0), (TABLE_OFF + first / EXTENT_BYTES, 99)] {
            let mut damaged = sound.clone();
            damaged[at] = v;
            fs::write(&path, damaged).unwrap();
            refused::<u64>(&path, corrupt);
        }
        // A bucket that does not follow the one before it; not the one that the log has.
        let mut links = (first..).step_by(256).filter(|at| sound[at + 240] != 0);
        let refusals = links.by_ref().take(4).filter(|at| {
            let mut damaged = sound.clone();
            damaged[at + 240] = 63;
            fs::write(&path, &damaged).unwrap();
            let reader = Options::new().read_only(true).open::<Map<u64, u64>>(&path);
            reader.is_err() && {
                refused::<u64>(&path, corrupt);
                true
            }
        });
        assert!(refusals.count() >= 3);
        // A reader: the lines are shown, and stay where they are.
        fs::write(&path, &sound).unwrap();
        for options in [options(SyncMode::Process), Options::new()] {
            let map: Map<u64, u64> = options.open(&path).unwrap();
            assert_eq!(map.get(&500).unwrap(), Some(!500));
            assert_eq!(map.len().unwrap(), 501);
            map.check(&mut |finding| panic!("{finding:?}")).unwrap();
            map.close().unwrap();
        }
        assert!(fs::read(&path).unwrap() != sound);
        fs::remove_file(&path).unwrap();
    }
}

/// Nor does it get a log.
#[test]
fn a_pool_without_a_log_that_is_refused_is_left_alone() {
    let (_dir, path) = new_path();
    let map = create(&path, SyncMode::Process);
    map.put(&1, &1).unwrap();
    map.close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let first = (1..).map(|i| i * (64 << 10)).find(|at| bytes[at + 240] != 0).unwrap();
    bytes[first + 240] = 63;
    fs::write(&path, &bytes).unwrap();
    for mode in [SyncMode::Strict, HOUR] {
        let e = options(mode).open::<Map<u64, u64>>(&path).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
        assert!(fs::read(&path).unwrap() == bytes, "the file was touched");
    }
}

#[test]
fn a_damaged_log_is_told_and_the_file_left_alone() {
    copies_pass(true);
    let (dir, path) = new_path();
    let open = dir.path().join("open");
    let map = create(&open, SyncMode::Strict);
    (0..20).for_each(|i| map.put(&i, &i).unwrap());
    fs::copy(&open, &path).unwrap();
    drop(map);
    let mut bytes = fs::read(&path).unwrap();
    let blocks: Vec<usize> =
        (0..bytes.len()).step_by(4096).filter(|at| bytes[*at..].starts_with(b"DURALOGB")).collect();
    bytes[blocks[blocks.len() / 2] + 100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    refused::<u64>(&path, |kind| matches!(kind, ErrorKind::Corrupt { .. }));
    let e = Options::new().open::<Map<u64, u64>>(&path).unwrap_err().to_string();
    assert!(e.contains("what was acknowledged is missing"), "{e}");
}

#[test]
fn a_creation_that_fails_leaves_nothing() {
    const EIO: i32 = 5;
    let (dir, path) = new_path();
    let mut failures = 0;
    for nth in 1.. {
        faults::arm(nth, EIO);
        let created = options(SyncMode::Strict).create::<Map<u64, u64>>(&path);
        let failed = faults::disarm();
        if let Ok(map) = created {
            map.put(&1, &1).unwrap();
            drop(map);
            fs::remove_file(&path).unwrap();
        } else {
            failures += 1;
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "call {nth}");
        }
        if !failed {
            break;
        }
    }
    assert!(failures > 30, "{failures}");
}

/// A map behind a log on a simulated disk of about a megabyte.
fn simulated(design: Design, mode: SyncMode) -> (Map<u64, u64>, SimDisk) {
    let disk = SimDisk::new(1 << 20, 64 << 10, mode != SyncMode::Strict);
    let medium = disk.clone().create(mode).unwrap();
    let geometry = Geometry { extent_shift: 12, ..Geometry::default() };
    let map = Options::new().design(design).geometry(geometry).create_on(medium).unwrap();
    (map, disk)
}

#[test]
fn nothing_is_read_any_more_when_the_log_has_failed() {
    for mode in [HOUR, SyncMode::Strict] {
        for design in Design::ALL {
            let (map, disk) = simulated(*design, mode);
            map.put(&0, &0).unwrap();
            map.sync().unwrap();
            disk.fail_at(1);
            let refused = (1..10_000).find(|i| map.put(i, i).is_err()).unwrap();
            // Its stores are in the image.
            assert!(map.get(&refused).is_err() && map.get(&0).is_err());
            assert!(map.contains_key(&0).is_err() && map.len().is_err());
            assert!(map.get_many(&[0, 1], &mut [None; 2]).is_err());
            assert!(map.iter().next().unwrap().is_err());
            assert!(map.remove(&0).is_err() && map.try_insert(&1, &1).is_err());
            assert!(map.sync().is_err() && map.close().is_err());
        }
    }
}

#[test]
fn len_counts_durable_entries_only() {
    for design in Design::ALL {
        let (map, disk) = simulated(*design, SyncMode::Strict);
        map.put(&0, &0).unwrap();
        assert_eq!(map.len().unwrap(), 1);
        let while_held = |f: &(dyn Fn() + Sync)| {
            disk.hold(true);
            let len = std::thread::scope(|scope| {
                scope.spawn(f);
                while disk.held() == 0 {
                    std::thread::yield_now();
                }
                let len = map.len();
                disk.hold(false);
                len
            });
            len.unwrap()
        };
        assert_eq!(while_held(&|| map.put(&1, &1).unwrap()), 1, "{design}");
        assert_eq!(map.len().unwrap(), 2);
        assert_eq!(while_held(&|| assert_eq!(map.remove(&1).unwrap(), Some(1))), 2, "{design}");
        assert_eq!(map.len().unwrap(), 1);
    }
}

/// A close that stops at any call, after the pool was cut in its log: extents behind its end have lines there, too.
#[test]
fn a_close_that_fails_behind_a_cut_pool_loses_nothing() {
    const EIO: i32 = 5;
    let dir = tempfile::tempdir().unwrap();
    for mode in [HOUR, SyncMode::Strict] {
        let mut failed = 0;
        for nth in 1.. {
            let path = dir.path().join(format!("{nth}"));
            let options = Options::new().live_image(false).sync_mode(mode).log_bytes(16 << 20);
            let map: Map<u64, [u8]> = options.create(&path).unwrap();
            // The second is behind the first, the third in the first one's place.
            (1..4).for_each(|i| map.put(&1, &vec![i; 1 << 20]).unwrap());
            faults::arm(nth, EIO);
            let closed = map.close();
            let was_hit = faults::disarm();
            assert!(was_hit || closed.is_ok());
            failed += u32::from(closed.is_err());
            for _ in 0..2 {
                let map: Map<u64, [u8]> = options.open(&path).unwrap();
                assert_eq!(map.get(&1).unwrap(), Some(vec![3; 1 << 20]), "{mode}, call {nth}");
                map.check(&mut |finding| panic!("{finding:?}")).unwrap();
                map.put(&2, b"more").unwrap();
                map.close().unwrap();
            }
            fs::remove_file(&path).unwrap();
            if !was_hit {
                break;
            }
        }
        assert!(failed > 2, "{mode}: {failed}");
    }
}
