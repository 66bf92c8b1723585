//! The space of small pools, and of many of them at once.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use durahash::{Design, Map, MultiMap, Options, Pool, SyncMode};
use durahash_media::sim::copies_pass;
use durahash_testkit::new_path;

const SHORT_LOG: u64 = 512 << 10;

fn on_disk(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn a_new_pool_is_small() {
    for mode in [SyncMode::Process, SyncMode::INTERVAL, SyncMode::Strict] {
        let is_small = |path: &Path, of: &str| {
            assert!(on_disk(path) <= 1 << 20, "{of}, {mode}: {}", on_disk(path));
        };
        let new = || Options::new().sync_mode(mode);
        for design in Design::ALL.iter().copied() {
            let (_dir, path) = new_path();
            let options = new().design(design);
            let map: Map<u64, u64> = options.create(&path).unwrap();
            map.put(&1, &1).unwrap();
            is_small(&path, &design.to_string());
            map.close().unwrap();
            is_small(&path, &design.to_string());
            let map: Map<u64, u64> = options.open(&path).unwrap();
            assert_eq!(map.stats().unwrap().space.max_bytes, None);
            assert_eq!(map.get(&1).unwrap(), Some(1));
        }
        let (_dir, path) = new_path();
        let limited: Map<u64, u64> = new().max_bytes(1 << 30).create(&path).unwrap();
        assert_eq!(limited.stats().unwrap().space.max_bytes, Some(1 << 30));
        let (_dir, path) = new_path();
        let map: MultiMap<u64, u64> = new().create(&path).unwrap();
        map.add(&1, &1).unwrap();
        is_small(&path, "multimap");
        map.close().unwrap();
        is_small(&path, "multimap");
        let (_dir, path) = new_path();
        let pool: Pool = new().create(&path).unwrap();
        is_small(&path, "no map");
        pool.close().unwrap();
        is_small(&path, "no map");
    }
}

/// The unused part of a log stays a hole, in every mode, with a close and without one.
#[test]
fn the_unused_part_of_a_log_takes_no_space() {
    let (_dir, path) = new_path();
    let options = |mode| Options::new().live_image(false).sync_mode(mode);
    let first: Map<u64, u64> = options(SyncMode::INTERVAL).create(&path).unwrap();
    let mut open = vec![(path.clone(), first)];
    // A copy of what is open is what a death leaves.
    copies_pass(true);
    let modes = [SyncMode::Process, SyncMode::Process, SyncMode::Strict, SyncMode::Process];
    for (i, mode) in (0..).zip(modes) {
        let (from, map) = open.last().unwrap();
        map.put(&i, &i).unwrap();
        let copy = path.with_extension(i.to_string());
        let copied = Command::new("cp").arg("--sparse=auto").args([from, &copy]).status();
        assert!(copied.unwrap().success());
        let map: Map<u64, u64> = options(mode).open(&copy).unwrap();
        assert!((0..=i).all(|i| map.get(&i).unwrap() == Some(i)), "{mode}");
        open.push((copy, map));
    }
    for (path, map) in open {
        map.close().unwrap();
        assert!(on_disk(&path) <= 1 << 20, "{path:?}: {}", on_disk(&path));
    }
}

/// A store beside the hole takes no space: where there is none, it would end the process. What is read from the disk may come in large
/// pages, so the system is to forget what it has of the file before each open.
#[test]
fn a_store_beside_the_unused_part_of_a_log_takes_no_space() {
    let (_dir, path) = new_path();
    for live in [false, true] {
        let options = |mode| Options::new().live_image(live).sync_mode(mode);
        let map: Map<u64, u64> = options(SyncMode::INTERVAL).create(&path).unwrap();
        (0..100).for_each(|i| map.put(&i, &i).unwrap());
        map.close().unwrap();
        for mode in [SyncMode::Process, SyncMode::INTERVAL, SyncMode::Process] {
            let file = format!("if={}", path.display());
            let forgotten = Command::new("dd").args([&file, "iflag=nocache", "count=0"]).output();
            assert!(forgotten.unwrap().status.success());
            let map: Map<u64, u64> = options(mode).open(&path).unwrap();
            (0..100).for_each(|i| map.put(&i, &(i + 1)).unwrap());
            assert!(on_disk(&path) <= 1 << 20, "{mode}: {}", on_disk(&path));
            map.close().unwrap();
            assert!(on_disk(&path) <= 1 << 20, "{mode}, closed: {}", on_disk(&path));
        }
        fs::remove_file(&path).unwrap();
    }
}

/// A short log is replaced when a closed pool of some size is opened, and only then.
#[test]
fn a_log_grows_with_its_pool() {
    let (_dir, path) = new_path();
    let set = Options::new().sync_mode(SyncMode::INTERVAL).log_bytes(SHORT_LOG);
    let map: Map<u64, [u8]> = set.create(&path).unwrap();
    let log = |map: &Map<u64, [u8]>| map.stats().unwrap().log.unwrap().area_bytes;
    for i in 0..1000 {
        map.put(&i, &[7; 30_000]).unwrap();
    }
    map.close().unwrap();
    let map: Map<u64, [u8]> = set.open(&path).unwrap();
    assert_eq!(log(&map), SHORT_LOG);
    map.close().unwrap();
    let map: Map<u64, [u8]> = Options::new().open(&path).unwrap();
    // It comes to use what it has, in the background.
    while log(&map) < 4 << 20 {
        map.put(&1000, &[8; 30_000]).unwrap();
    }
    map.close().unwrap();
    for options in [Options::new(), set] {
        let map: Map<u64, [u8]> = options.open(&path).unwrap();
        assert!((4 << 20..=16 << 20).contains(&log(&map)), "{}", log(&map));
        assert_eq!(map.len().unwrap(), 1001);
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
        map.close().unwrap();
    }
}

/// Many pools are open at once, and each can grow. `examples/many_pools.rs` opens ten thousand.
#[test]
fn many_pools_are_open_at_once() {
    let (dir, _) = new_path();
    let options = Options::new().sync_mode(SyncMode::Process);
    let maps: Vec<Map<u64, u64>> =
        (0..200).map(|i| options.create(dir.path().join(i.to_string())).unwrap()).collect();
    (0..).zip(&maps).for_each(|(i, map)| map.put(&1, &i).unwrap());
    let in_memory: Vec<Map<u64, u64>> =
        (0..1000).map(|_| Options::new().in_memory().unwrap()).collect();
    for map in maps.iter().chain(&in_memory).step_by(190) {
        (2..100_000).for_each(|i| map.put(&i, &i).unwrap());
    }
    assert!((0..).zip(&maps).all(|(i, map)| map.get(&1).unwrap() == Some(i)));
}
