//! Pools with a live image: what survives, what is refused, and the ways between the kinds of logs.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use durahash::{Design, Durability, ErrorKind, Map, Options, SyncMode};
use durahash_media::hash::WordMix;
use durahash_media::sim::{faults, in_forked_child, interrupt_threads, set_boot};
use durahash_testkit::new_path;

/// So long that no snapshot is taken by itself.
const HOUR: SyncMode = SyncMode::Interval(Duration::from_secs(3600));

/// So short that many are taken.
const EVERY: SyncMode = SyncMode::Interval(Duration::from_millis(1));

fn options(mode: SyncMode) -> Options {
    Options::new().sync_mode(mode).live_image(true).log_bytes(1 << 20)
}

/// Fills the pool at `path` with `keys` in a process that dies then. Where there is none it is made, in `mode` and with
/// `design`.
fn killed(path: &Path, design: Design, mode: SyncMode, keys: std::ops::Range<u64>) {
    killed_after(path, design, mode, keys, 0);
}

/// The same, where it puts the first key so many times again.
fn killed_after(
    path: &Path,
    design: Design,
    mode: SyncMode,
    keys: std::ops::Range<u64>,
    again: u64,
) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "live::child", "--nocapture"])
        .env("DURAHASH_LIVE_POOL", path)
        .env("DURAHASH_LIVE_DESIGN", design.to_string())
        .env("DURAHASH_LIVE_MODE", mode.to_string())
        .env("DURAHASH_LIVE_KEYS", format!("{} {}", keys.start, keys.end))
        .env("DURAHASH_LIVE_AGAIN", again.to_string())
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
    (0..var("DURAHASH_LIVE_AGAIN").parse().unwrap()).for_each(|_| fill(&map, 0..1));
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

/// A pool without a log, as a compaction leaves it, gets a live image by its next open, even if the first one fails at any call; and a use
/// without one does not take it from it.
#[test]
fn a_pool_without_a_log_gets_a_live_image() {
    let plain = || Options::new().sync_mode(HOUR).log_bytes(1 << 20);
    let process = Options::new().sync_mode(SyncMode::Process);
    let (dir, path) = new_path();
    let carries = plain().create::<Map<u64, u64>>(&path).is_ok() && files(dir.path()).len() == 2;
    if !carries {
        return;
    }
    for nth in 1.. {
        let (dir, path) = new_path();
        let map: Map<u64, u64> = process.create(&path).unwrap();
        fill(&map, 0..100);
        map.close().unwrap();
        faults::arm(nth, 28);
        let opened = plain().open::<Map<u64, u64>>(&path).map(drop);
        if !faults::disarm() {
            opened.unwrap();
            break;
        }
        for uses in 0..2 {
            let map: Map<u64, u64> = plain().open(&path).unwrap();
            assert!(live_file(dir.path()).exists(), "call {nth}, use {uses}");
            holds(&map, 0..100);
            map.close().unwrap();
            holds(&process.open(&path).unwrap(), 0..100);
        }
    }
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

/// What a map of `keys` was closed with, in a copy, and the same keys and as many more in a process that died.
#[test]
fn copies_and_older_pools_are_found_out() {
    let (dir, path) = new_path();
    let old = dir.path().join("old");
    let map: Map<u64, u64> = options(HOUR).create(&path).unwrap();
    fill(&map, 0..100);
    map.close().unwrap();
    fs::copy(&path, &old).unwrap();
    killed(&path, Design::Reh, HOUR, 100..200);

    // A copy of both, under names that it knows.
    let other = tempfile::tempdir().unwrap();
    for file in [&path, &live_file(dir.path())] {
        fs::copy(file, other.path().join(file.file_name().unwrap())).unwrap();
    }
    let copy = other.path().join(path.file_name().unwrap());
    let refused = Options::new().open::<Map<u64, u64>>(&copy).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Copied), "{refused}");

    // The pool of before, in the place of this one's bytes: the same file, and closed. It is what its caller put there.
    fs::copy(&old, &path).unwrap();
    let map: Map<u64, u64> = Options::new().open(&path).unwrap();
    holds(&map, 0..100);
    map.close().unwrap();

    // One that was not closed, in the same way: its log does not lead to the live image.
    killed(&path, Design::Reh, HOUR, 100..150);
    fs::copy(&path, &old).unwrap();
    killed(&path, Design::Reh, SyncMode::Strict, 150..200);
    fs::copy(&old, &path).unwrap();
    let refused = Options::new().open::<Map<u64, u64>>(&path).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::NoLiveImage { .. }), "{refused}");
}

/// A live file that stayed with a close is not that of an earlier state, which comes back into the same file after a kill.
#[test]
fn a_pool_of_before_is_not_undone_by_a_long_live_file() {
    let (dir, path) = new_path();
    let old = dir.path().join("old");
    let keys = 1_200_000;
    // All at once at the close.
    let map: Map<u64, u64> = options(HOUR).log_bytes(256 << 20).create(&path).unwrap();
    fill(&map, 0..keys);
    map.close().unwrap();
    assert!(live_file(dir.path()).exists());
    fs::copy(&path, &old).unwrap();
    killed(&path, Design::Reh, HOUR, keys..keys + 50);
    fs::copy(&old, &path).unwrap();
    let map: Map<u64, u64> = Options::new().open(&path).unwrap();
    holds(&map, 0..keys);
    map.close().unwrap();
    // Of no use any more once the pool has been used without it.
    Options::new()
        .sync_mode(SyncMode::Process)
        .open::<Map<u64, u64>>(&path)
        .unwrap()
        .close()
        .unwrap();
    assert_eq!(files(dir.path()).len(), 2);
}

/// Whatever lies in the place of the live file, a closed pool does without it, and one that was killed is refused.
#[test]
fn another_file_in_the_place_of_the_live_file_is_not_trusted() {
    let (dir, path) = new_path();
    killed(&path, Design::Reh, HOUR, 0..100);
    let live = live_file(dir.path());
    let sound = fs::read(&live).unwrap();
    let kept = dir.path().join("kept");
    fs::rename(&live, &kept).unwrap();
    let damaged = |at: usize| {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        bytes
    };
    // Short, empty, zeros, the same bytes in another file, and each word of the header damaged.
    let mut all = vec![vec![], vec![1; 100], vec![0; sound.len()], sound.clone()];
    all.extend((0..21).map(|word| damaged(word * 8)));
    for bytes in all {
        fs::write(&live, &bytes).unwrap();
        let refused = Options::new().open::<Map<u64, u64>>(&path).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::NoLiveImage { .. }), "{refused}");
        fs::remove_file(&live).unwrap();
    }
    std::os::unix::fs::symlink(&kept, &live).unwrap();
    let refused = Options::new().open::<Map<u64, u64>>(&path).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::NoLiveImage { .. }), "{refused}");
    fs::remove_file(&live).unwrap();
    fs::create_dir(&live).unwrap();
    assert!(Options::new().open::<Map<u64, u64>>(&path).is_err());
    fs::remove_dir(&live).unwrap();
    // The file itself, and words of its header damaged: what it names, its boot and its salt.
    for word in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 18] {
        fs::write(&kept, damaged(word * 8)).unwrap();
        fs::rename(&kept, &live).unwrap();
        let refused = Options::new().open::<Map<u64, u64>>(&path).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::NoLiveImage { .. }), "{word}: {refused}");
        fs::rename(&live, &kept).unwrap();
    }
    fs::write(&kept, &sound).unwrap();
    fs::rename(&kept, &live).unwrap();
    let map: Map<u64, u64> = Options::new().open(&path).unwrap();
    holds(&map, 0..100);
}

/// In another boot a pool is what its file has: here all that the dead process had synced, and no live image.
#[test]
fn another_boot_recovers_and_does_not_trust_the_live_image() {
    for design in Design::ALL.iter().copied() {
        let (_dir, path) = new_path();
        killed(&path, design, SyncMode::Strict, 0..300);
        set_boot(1);
        let map: Map<u64, u64> = Options::new().open(&path).unwrap();
        holds(&map, 0..300);
        fill(&map, 300..400);
        drop(map);
        set_boot(0);
        let map: Map<u64, u64> = Options::new().open(&path).unwrap();
        holds(&map, 0..400);
    }
}

/// Flips a bit of the file.
fn flip(path: &Path, off: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, off).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << (off % 8)], off).unwrap();
}

/// Checkpoints write check words: damage to what a dead process had brought to the pool's file, which it never closed, is found,
/// by the next process in its boot and in another one.
#[test]
fn damage_to_what_checkpoints_wrote_is_found() {
    const FIRST: u64 = 256 << 10;
    for design in Design::ALL.iter().copied() {
        let (_dir, path) = new_path();
        let short = options(HOUR).design(design).log_bytes(64 << 10);
        short.create::<Map<u64, u64>>(&path).unwrap().close().unwrap();
        killed(&path, design, HOUR, 0..20_000);
        // The ring is gone round, and left with lines of few blocks.
        killed_after(&path, design, SyncMode::Strict, 0..0, 1000);
        let bytes = fs::read(&path).unwrap();
        let log = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let log = log(160)..log(160) + log(168);
        let mix = WordMix::new(7);
        let places = (0..).map(|i| FIRST + mix.mix(i) % (bytes.len() as u64 - FIRST));
        let places: Vec<u64> = places.filter(|off| !log.contains(off)).take(40).collect();
        set_boot(1);
        let is_found = || match Options::new().read_only(true).open::<Map<u64, u64>>(&path) {
            Ok(map) => {
                let mut found = 0;
                map.check(&mut |_| found += 1).is_err() || found > 0
            }
            Err(_) => true,
        };
        assert!(!is_found(), "{design}");
        let told = places.iter().filter(|off| {
            flip(&path, **off);
            let told = is_found();
            flip(&path, **off);
            told
        });
        let told = told.count();
        println!("{design}: {told} of {} after a loss of power", places.len());
        assert!(told > places.len() / 4, "{design}: {told}");
        set_boot(0);
        places.iter().for_each(|off| flip(&path, *off));
        let verified = Options::new().verify(true).open::<Map<u64, u64>>(&path);
        let verified = verified.err().unwrap();
        assert!(matches!(verified.kind(), ErrorKind::Corrupt { .. }), "{design}: {verified}");
        places.iter().for_each(|off| flip(&path, *off));
        let map: Map<u64, u64> = Options::new().verify(true).open(&path).unwrap();
        holds(&map, 0..20_000);
    }
}

/// A container that is started again reaches the same file through another mount.
#[test]
fn another_mount_is_no_reason_to_refuse() {
    let (dir, path) = new_path();
    killed(&path, Design::Reh, HOUR, 0..100);
    let at = tempfile::tempdir().unwrap();
    let mount = Command::new("mount").arg("--bind").arg(dir.path()).arg(at.path()).output();
    if !mount.is_ok_and(|out| out.status.success()) {
        println!("not tried: no directory can be mounted here");
        return;
    }
    let opened = Options::new().open::<Map<u64, u64>>(at.path().join(path.file_name().unwrap()));
    let holds_all = opened.map(|map| holds(&map, 0..100));
    let unmounted = Command::new("umount").arg("-l").arg(at.path()).status().unwrap();
    holds_all.unwrap();
    assert!(unmounted.success());
}

/// The live file is mapped piece by piece as it grows, and all at once by the next process.
#[test]
fn what_a_pool_grew_by_is_found_by_the_next_process() {
    for options in [options(HOUR), Options::new().sync_mode(HOUR).live_image(true)] {
        let (dir, path) = new_path();
        let value = |i: u64| vec![i as u8; 40_000];
        let map: Map<u64, [u8]> = options.create(&path).unwrap();
        (0..200).for_each(|i| map.put(&i, &value(i)).unwrap());
        let live = fs::metadata(live_file(dir.path())).unwrap();
        assert!(live.len() > 8 << 20 && live.blocks() * 512 >= live.len(), "it has no holes");
        drop(map);
        let map: Map<u64, [u8]> = options.open(&path).unwrap();
        (0..200).for_each(|i| assert!(map.get(&i).unwrap() == Some(value(i))));
        (200..400).for_each(|i| map.put(&i, &value(i)).unwrap());
        map.close().unwrap();
        let map: Map<u64, [u8]> = options.open(&path).unwrap();
        (0..400).for_each(|i| assert!(map.get(&i).unwrap() == Some(value(i))));
    }
}

/// Ten thousand small pools are to be open in a process at once, and to be made quickly.
#[test]
fn a_small_pool_takes_few_mappings_files_bytes_and_syncs() {
    let (dir, path) = new_path();
    let inode = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    let open_files = |of: &Path| {
        let all = fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|entry| inode(&entry.path()) == inode(of)).count()
    };
    let mappings = |of: &Path| {
        let (_, ino) = inode(of).unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.split_whitespace().nth(4) == Some(&ino.to_string())).count()
    };
    let on_disk = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    let before = faults::SYNCS.get();
    let map: Map<u64, u64> = options(HOUR).create(&path).unwrap();
    // Two openings look how the file can be written; what it has is written back, and synced, and so is the name.
    assert_eq!(faults::SYNCS.get() - before, 2 + 1 + 3);
    let live = live_file(dir.path());
    assert!(on_disk(&live) < 256 << 10, "{}", on_disk(&live));
    assert!(on_disk(&path) + on_disk(&live) <= 1 << 20);
    fill(&map, 0..100);
    assert_eq!((open_files(&live), open_files(&path)), (1, 1));
    fill(&map, 100..20_000);
    assert!(on_disk(&live) < 4 << 20, "it is a small pool yet: {}", on_disk(&live));
    // Header and marks; what lies before the log's area, and behind it.
    assert_eq!((mappings(&live), mappings(&path)), (3, 0));
    let before = faults::SYNCS.get();
    map.close().unwrap();
    assert!(faults::SYNCS.get() - before <= 8, "{}", faults::SYNCS.get() - before);
    assert!(!live.exists());
}

/// Many more threads than processors: all end, snapshots are taken meanwhile, and a pool that dies with them is whole.
#[test]
fn more_threads_than_processors_all_end() {
    let (_dir, path) = new_path();
    let every = SyncMode::Interval(Duration::from_millis(5));
    let map: Map<u64, u64> = options(every).log_bytes(512 << 10).create(&path).unwrap();
    let (threads, keys) = (128, 300);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let map = &map;
            scope.spawn(move || fill(map, thread * keys..(thread + 1) * keys));
        }
    });
    let log = map.stats().unwrap().log.unwrap();
    assert!(log.writes > 2, "{log:?}");
    holds(&map, 0..threads * keys);
    drop(map);
    let map: Map<u64, u64> = Options::new().open(&path).unwrap();
    holds(&map, 0..threads * keys);
}

/// Children that are forked while threads store do no harm.
#[test]
fn forks_while_operations_go_on() {
    let (_dir, path) = new_path();
    let map: Map<u64, u64> = options(EVERY).create(&path).unwrap();
    let stop = AtomicBool::new(false);
    let keys: u64 = std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| {
            let (map, stop) = (&map, &stop);
            scope.spawn(move || {
                let keys = (0_u64..).map(|i| i * 2 + thread);
                let until = |_: &u64| !stop.load(Ordering::Relaxed);
                keys.take_while(until).map(|key| map.put(&key, &!key).unwrap()).count() as u64
            })
        });
        (0..20).for_each(|_| assert!(in_forked_child(|| Ok(())).unwrap().success()));
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(map.len().unwrap(), keys);
    drop(map);
    let map: Map<u64, u64> = Options::new().open(&path).unwrap();
    assert_eq!(map.len().unwrap(), keys);
    map.check(&mut |finding| panic!("{finding:?}")).unwrap();
}

/// Every thread is interrupted all the time, those in the background too: no call fails by that, and nothing is lost.
#[test]
fn signals_make_nothing_fail() {
    const THREADS: u64 = 3;
    let var = |name: &str| std::env::var(name).unwrap();
    if let Ok(path) = std::env::var("DURAHASH_LIVE_SIGNALS") {
        let handled = interrupt_threads().unwrap();
        let mode: SyncMode = var("DURAHASH_LIVE_MODE").parse().unwrap();
        let keys: u64 = var("DURAHASH_LIVE_KEYS").parse().unwrap();
        let map: Map<u64, u64> = options(mode).create(Path::new(&path)).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let map = &map;
                scope.spawn(move || {
                    for key in (thread..keys).step_by(THREADS as usize) {
                        map.put(&key, &!key).unwrap();
                        if key % 1024 == thread {
                            map.sync().unwrap();
                        }
                    }
                });
            }
        });
        let log = map.stats().unwrap().log.unwrap();
        let handled = handled.load(Ordering::Relaxed);
        assert!(log.writes > 2 && log.checkpoints > 0 && handled > 500, "{log:?} {handled}");
        holds(&map, 0..keys);
        println!("filled");
        std::process::abort();
    }
    for (mode, keys) in [(EVERY, 60_000), (SyncMode::Strict, 900)] {
        let (_dir, path) = new_path();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "live::signals_make_nothing_fail", "--nocapture"])
            .env("DURAHASH_LIVE_SIGNALS", &path)
            .env("DURAHASH_LIVE_MODE", mode.to_string())
            .env("DURAHASH_LIVE_KEYS", keys.to_string())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&child.stdout);
        assert!(told.contains("filled"), "{told}{}", String::from_utf8_lossy(&child.stderr));
        let map: Map<u64, u64> = Options::new().open(&path).unwrap();
        holds(&map, 0..keys);
    }
}
