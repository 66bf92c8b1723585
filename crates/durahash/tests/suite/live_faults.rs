//! Pools with a live image where the system fails: any call, or for want of space.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use durahash::{Design, ErrorKind, Map, Options, Result, SyncMode};
use durahash_media::Geometry;
use durahash_media::sim::faults;
use durahash_testkit::{assert_sound, budget, new_path};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// So long that this thread alone takes snapshots.
const HOUR: SyncMode = SyncMode::Interval(Duration::from_secs(3600));

type Words = Map<u64, u64>;

fn options(mode: SyncMode) -> Options {
    // Small extents, so that few writes need the system often.
    let geometry = Geometry { extent_shift: 12, ..Geometry::default() };
    Options::new().sync_mode(mode).live_image(true).log_bytes(512 << 10).geometry(geometry)
}

/// Changes that were told, and the one that was under way.
#[derive(Default)]
struct Told {
    model: HashMap<u64, u64>,
    under_way: Option<(u64, Option<u64>)>,
}

impl Told {
    fn change(&mut self, map: &Words, key: u64, value: Option<u64>) -> Result<()> {
        self.under_way = Some((key, value));
        match value {
            Some(value) => map.put(&key, &value)?,
            None => drop(map.remove(&key)?),
        }
        self.settle();
        Ok(())
    }

    fn settle(&mut self) {
        match self.under_way.take() {
            Some((key, Some(value))) => drop(self.model.insert(key, value)),
            Some((key, None)) => drop(self.model.remove(&key)),
            None => {}
        }
    }

    fn work(&mut self, map: &Words, from: u64, mode: SyncMode) -> Result<()> {
        for key in from..from + if mode == SyncMode::Strict { 60 } else { 400 } {
            self.change(map, key, Some(key + from))?;
            if key % 3 == 0 {
                self.change(map, key - key % 2, None)?;
            }
            if key % 100 == 99 {
                map.sync()?;
            }
        }
        Ok(())
    }

    /// The map has all that was told, and of what was under way all or nothing.
    fn is_in(&mut self, map: &Words) {
        assert_sound(map);
        let found: HashMap<u64, u64> = map.iter().map(std::result::Result::unwrap).collect();
        if found != self.model {
            self.settle();
        }
        assert!(found == self.model, "{} found, {} told", found.len(), self.model.len());
        self.under_way = None;
    }
}

fn is_bad(e: &durahash::Error) -> bool {
    matches!(e.kind(), ErrorKind::NoLiveImage { why } if why.contains("could not be written"))
}

/// What a failed call leaves is what the next process finds; a live file that could not be written back is told.
#[test]
fn nothing_is_lost_when_any_call_fails() {
    let mut calls = 0;
    for mode in [HOUR, SyncMode::Strict] {
        for errno in [EIO, ENOSPC] {
            for nth in (1..).step_by(budget(7, 1)) {
                let (dir, path) = new_path();
                let options = options(mode);
                let mut told = Told::default();
                faults::arm(nth as u64, errno);
                let run = (|| {
                    let map: Words = options.create(&path)?;
                    told.work(&map, 0, mode)?;
                    map.close()?;
                    let map = options.open(&path)?;
                    told.work(&map, 1000, mode)?;
                    map.close()
                })();
                if !faults::disarm() {
                    run.unwrap();
                    break;
                }
                calls += 1;
                if !path.exists() {
                    assert!(run.is_err() && told.model.is_empty());
                    continue;
                }
                let what = format!("{mode}, call {nth} with {errno}: {:?}", run.err());
                match options.open::<Words>(&path) {
                    Ok(map) => {
                        told.is_in(&map);
                        map.put(&5000, &1).unwrap();
                        map.close().unwrap();
                    }
                    Err(e) if is_bad(&e) => {
                        let map: Words = options.clone().accept_suspect(true).open(&path).unwrap();
                        assert_sound(&map);
                        map.close().unwrap();
                    }
                    Err(e) => panic!("{what}: {e}"),
                }
                let files = fs::read_dir(dir.path()).unwrap().count();
                assert!(files <= 2, "{what}: {files} files");
            }
        }
    }
    println!("{calls} calls");
    assert!(calls > 100);
}

/// A file system of so many bytes; gone when it is dropped.
struct Small(PathBuf, #[allow(dead_code, reason = "removed behind it")] tempfile::TempDir);

impl Small {
    /// `None` where this process may not mount one.
    fn new(kind: &str, bytes: u64) -> Option<Small> {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("mounted");
        fs::create_dir(&at).unwrap();
        let run = |command: &mut Command| command.output().is_ok_and(|out| out.status.success());
        let mounted = if kind == "tmpfs" {
            let size = format!("size={bytes}");
            run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at))
        } else {
            let image = dir.path().join("image");
            fs::File::create(&image).unwrap().set_len(bytes).unwrap();
            run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image))
                && run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at))
        };
        mounted.then_some(Small(at, dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: services that probe a new device keep it busy for a moment.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Fills a pool until there is no space for more; what was put is there, and space that is given back serves again.
fn fill(options: &Options, path: &Path) {
    let map: Words = match options.create(path) {
        Ok(map) => map,
        Err(e) => {
            assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}");
            assert!(!path.exists());
            return;
        }
    };
    let mut told = Told::default();
    let full = (0..10_000_000).find_map(|key| told.change(&map, key, Some(!key)).err()).unwrap();
    assert!(matches!(full.kind(), ErrorKind::Full { .. }), "{full}");
    told.under_way = None;
    assert_eq!(map.len().unwrap(), told.model.len() as u64);
    map.sync().unwrap();
    let keys: Vec<u64> = told.model.keys().copied().collect();
    for key in keys.iter().take(keys.len() / 2) {
        told.change(&map, *key, None).unwrap();
    }
    for key in keys.iter().take(keys.len() / 4) {
        told.change(&map, *key, Some(1)).unwrap();
    }
    told.is_in(&map);
    map.close().unwrap();
    let map: Words = options.open(path).unwrap();
    told.is_in(&map);
}

#[test]
fn a_disk_without_space_is_told_and_harms_nothing() {
    for kind in ["ext4", "tmpfs"] {
        for kib in (5000..12_000).step_by(budget(7000, 700)) {
            let Some(small) = Small::new(kind, kib << 10) else {
                println!("not tried: no {kind} can be mounted here");
                break;
            };
            let elsewhere = tempfile::tempdir().unwrap();
            let every = SyncMode::Interval(Duration::from_millis(5));
            let both = options(every).geometry(Geometry::default());
            fill(&both, &small.0.join("beside"));
            for name in fs::read_dir(&small.0).unwrap().flatten() {
                let _ = fs::remove_file(name.path());
            }
            // The pool alone, and the live image alone.
            let pool = both.clone().live_dir(elsewhere.path().to_path_buf()).max_bytes(64 << 20);
            fill(&pool, &small.0.join("pool"));
            for name in fs::read_dir(&small.0).unwrap().flatten() {
                let _ = fs::remove_file(name.path());
            }
            let live = both.clone().live_dir(small.0.clone()).max_bytes(64 << 20);
            fill(&live, &elsewhere.path().join("pool"));
        }
    }
}

/// A pool without a log gets one of lines where there is no space for its length again.
#[test]
fn without_space_for_a_live_image_there_are_lines() {
    let Some(small) = Small::new("tmpfs", 14 << 20) else {
        println!("not tried: no tmpfs can be mounted here");
        return;
    };
    let path = small.0.join("pool");
    let map: Words = Options::new().sync_mode(SyncMode::Process).create(&path).unwrap();
    (0..300_000).for_each(|key| map.put(&key, &!key).unwrap());
    map.close().unwrap();
    for _ in 0..2 {
        let map: Words = Options::new().sync_mode(HOUR).log_bytes(512 << 10).open(&path).unwrap();
        assert_eq!(map.get(&299_999).unwrap(), Some(!299_999));
        map.put(&0, &1).unwrap();
        assert_eq!(fs::read_dir(&small.0).unwrap().count(), 1, "no live file");
        map.close().unwrap();
    }
}

/// A limit on the length of files is met by the live image first, which is longer than the pool.
#[test]
fn a_limit_on_the_length_of_files_is_told() {
    let (_dir, path) = new_path();
    if std::env::var_os("DURAHASH_LIVE_LIMITED").is_none() {
        let exe = std::env::current_exe().unwrap();
        let test = "live_faults::a_limit_on_the_length_of_files_is_told";
        let limited = format!("ulimit -f 8192; exec '{}' --exact {test}", exe.display());
        let child =
            Command::new("bash").args(["-c", &limited]).env("DURAHASH_LIVE_LIMITED", "1").output();
        let child = child.unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        return;
    }
    for design in [Design::Reh, Design::Pea] {
        fill(&options(SyncMode::INTERVAL).geometry(Geometry::default()).design(design), &path);
        fs::remove_file(&path).unwrap();
    }
}
