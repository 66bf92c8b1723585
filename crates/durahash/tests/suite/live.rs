//! Pools with a live image: what survives, what is refused, and the ways between the kinds of logs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use durahash::{Design, Durability, ErrorKind, Map, Options, SyncMode};
use durahash_testkit::new_path;

/// So long that no snapshot is taken by itself.
const HOUR: SyncMode = SyncMode::Interval(Duration::from_secs(3600));

fn options(mode: SyncMode) -> Options {
    Options::new().sync_mode(mode).live_image(true).log_bytes(1 << 20)
}

/// Fills the pool at `path` with `keys` in a process that dies then. Where there is none it is made, in `mode` and with
/// `design`.
fn killed(path: &Path, design: Design, mode: SyncMode, keys: std::ops::Range<u64>) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "live::child", "--nocapture"])
        .env("DURAHASH_LIVE_POOL", path)
        .env("DURAHASH_LIVE_DESIGN", design.to_string())
        .env("DURAHASH_LIVE_MODE", mode.to_string())
        .env("DURAHASH_LIVE_KEYS", format!("{} {}", keys.start, keys.end))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&child.stdout);
    assert!(told.contains("filled"), "{told}{}", String::from_utf8_lossy(&child.stderr));
    assert!(!child.status.success());
}

#[test]
fn child() {
    let Ok(path) = std::env::var("DURAHASH_LIVE_POOL") else {
        return;
    };
    let var = |name: &str| std::env::var(name).unwrap();
    let design: Design = var("DURAHASH_LIVE_DESIGN").parse().unwrap();
    let mode: SyncMode = var("DURAHASH_LIVE_MODE").parse().unwrap();
    let keys = var("DURAHASH_LIVE_KEYS");
    let (from, to) = keys.split_once(' ').unwrap();
    let options = options(mode).design(design);
    let map: Map<u64, u64> = options.open_or_create(&path).unwrap();
    fill(&map, from.parse().unwrap()..to.parse().unwrap());
    println!("filled");
    std::process::abort();
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

fn live_file(dir: &Path) -> PathBuf {
    let is_live = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "live");
    let mut live = files(dir).into_iter().filter(is_live);
    let found = live.next().expect("a live file");
    assert_eq!(live.next(), None);
    found
}

fn fill(map: &Map<u64, u64>, keys: std::ops::Range<u64>) {
    keys.for_each(|key| map.put(&key, &!key).unwrap());
}

fn holds(map: &Map<u64, u64>, keys: std::ops::Range<u64>) {
    assert!(keys.clone().all(|key| map.get(&key).unwrap() == Some(!key)));
    assert_eq!(map.len().unwrap(), keys.end);
    map.check(&mut |finding| panic!("{finding:?}")).unwrap();
}

#[test]
fn every_design_lives_grows_dies_and_is_closed() {
    for design in Design::ALL.iter().copied() {
        for mode in [HOUR, SyncMode::INTERVAL, SyncMode::Strict] {
            let (_dir, path) = new_path();
            let keys = if mode == SyncMode::Strict { 300 } else { 30_000 };
            killed(&path, design, mode, 0..keys);
            let map: Map<u64, u64> = Options::new().open(&path).unwrap();
            assert_eq!(map.durability(), mode.durability(), "it keeps its kind");
            holds(&map, 0..keys);
            fill(&map, keys..keys + 100);
            map.close().unwrap();
            let map: Map<u64, u64> = Options::new().open(&path).unwrap();
            holds(&map, 0..keys + 100);
        }
    }
}

#[test]
fn a_pool_goes_from_each_kind_of_log_to_each_other() {
    let (dir, path) = new_path();
    let lines = Options::new().sync_mode(HOUR).live_image(false).log_bytes(1 << 20);
    let process = Options::new().sync_mode(SyncMode::Process);
    let all = [process, lines, options(HOUR), options(SyncMode::Strict)];
    all[0].create::<Map<u64, u64>>(&path).unwrap().close().unwrap();
    let mut keys = 0;
    for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
        for options in [&all[from], &all[to]] {
            let map: Map<u64, u64> = options.open(&path).unwrap();
            holds(&map, 0..keys);
            fill(&map, keys..keys + 50);
            keys += 50;
        }
    }
    // What a kill left in a live image, for each other use.
    for options in &all {
        killed(&path, Design::Reh, HOUR, keys..keys + 50);
        keys += 50;
        let map: Map<u64, u64> = options.open(&path).unwrap();
        holds(&map, 0..keys);
    }
    assert_eq!(files(dir.path()).len(), 1, "a short pool that is closed has no live file");
    assert!(fs::metadata(&path).unwrap().blocks() * 512 <= 2 << 20);
}

#[test]
fn without_its_live_image_a_killed_pool_is_refused() {
    let (dir, path) = new_path();
    killed(&path, Design::Reh, HOUR, 0..1000);
    let map: Map<u64, u64> = Options::new().open(&path).unwrap();
    holds(&map, 0..1000);
    drop(map);
    killed(&path, Design::Reh, HOUR, 1000..1200);
    let refused = |options: Options| match options.open::<Map<u64, u64>>(&path) {
        Err(e) => assert!(matches!(e.kind(), ErrorKind::NoLiveImage { .. }), "{e}"),
        Ok(_) => panic!("it was opened"),
    };
    let reader = || Options::new().read_only(true);
    for _ in 0..2 {
        let map: Map<u64, u64> = reader().open(&path).unwrap();
        holds(&map, 0..1200);
    }
    let live = live_file(dir.path());
    let kept = dir.path().join("kept");
    fs::rename(&live, &kept).unwrap();
    refused(Options::new());
    refused(reader());
    refused(Options::new().live_image(false).sync_mode(SyncMode::Process));
    // A copy of it is another file.
    fs::copy(&kept, &live).unwrap();
    refused(Options::new());
    fs::rename(&kept, &live).unwrap();
    let map: Map<u64, u64> = Options::new().open(&path).unwrap();
    holds(&map, 0..1200);
    drop(map);
    killed(&path, Design::Reh, HOUR, 1200..1300);
    fs::remove_file(&live).unwrap();
    // What is on the disk: what was closed.
    let map: Map<u64, u64> = Options::new().accept_suspect(true).open(&path).unwrap();
    let len = map.len().unwrap();
    assert!((1200..=1300).contains(&len), "{len}");
    holds(&map, 0..len);
    map.close().unwrap();
    // Closed, it needs none.
    assert_eq!(files(dir.path()).len(), 1);
    let map: Map<u64, u64> = Options::new().read_only(true).open(&path).unwrap();
    holds(&map, 0..len);
}

#[test]
fn a_live_image_may_lie_elsewhere() {
    let (dir, path) = new_path();
    let elsewhere = tempfile::tempdir().unwrap();
    let options = options(HOUR).live_dir(elsewhere.path().to_path_buf());
    let map: Map<u64, u64> = options.create(&path).unwrap();
    fill(&map, 0..100);
    assert_eq!((files(dir.path()).len(), files(elsewhere.path()).len()), (1, 1));
    drop(map);
    let map: Map<u64, u64> = options.open(&path).unwrap();
    holds(&map, 0..100);
    assert_eq!(map.durability(), Durability::Interval);
}

/// Threads, a ring that is gone round many times, and checkpoints in the background.
#[test]
fn many_threads_fill_a_short_ring() {
    let (_dir, path) = new_path();
    let every = SyncMode::Interval(Duration::from_millis(5));
    let map: Map<u64, u64> = options(every).log_bytes(512 << 10).create(&path).unwrap();
    let keys = 60_000;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let map = &map;
            scope.spawn(move || {
                (0..keys).filter(|key| key % 4 == thread).for_each(|key| {
                    map.put(&key, &!key).unwrap();
                });
            });
        }
    });
    let log = map.stats().unwrap().log.unwrap();
    assert!(log.checkpoints > 2 && log.bytes > 2 << 20, "{log:?}");
    drop(map);
    let map: Map<u64, u64> = Options::new().open(&path).unwrap();
    holds(&map, 0..keys);
}
