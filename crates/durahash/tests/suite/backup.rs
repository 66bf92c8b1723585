//! Backups of pools that are in use.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use durahash::{Batch, Design, ErrorKind, Map, MultiMap, Options, Pool, SyncMode};
use durahash_media::sim::{budget, copies_pass, faults};
use durahash_testkit::new_path;

const SHORT: SyncMode = SyncMode::Interval(Duration::from_millis(2));
const THREADS: u64 = 3;
/// Members of a batch.
const MEMBERS: u64 = 4;

fn live(mode: SyncMode) -> Options {
    Options::new().sync_mode(mode).live_image(true).log_bytes(1 << 20)
}

fn read(path: &Path) -> Pool {
    Options::new().read_only(true).open(path).unwrap()
}

/// Each thread puts its next number into all of these, in this order; the last two get members of one batch.
struct Maps {
    words: Map<u64, u64>,
    records: Map<str, [u8]>,
    lists: MultiMap<u64, u64>,
    one: Map<u64, u64>,
    other: Map<u64, [u8]>,
}

impl Maps {
    fn of(pool: &Pool, design: Design) -> Maps {
        let options = Options::new().design(design);
        Maps {
            words: pool.open_or_create("words", &options).unwrap(),
            records: pool.open_or_create("records", &options).unwrap(),
            lists: pool.open_or_create("lists", &Options::new()).unwrap(),
            one: pool.open_or_create("one", &options).unwrap(),
            other: pool.open_or_create("other", &options).unwrap(),
        }
    }

    fn put(&self, thread: u64, n: u64) {
        let key = thread << 32 | n;
        self.words.put(&key, &n).unwrap();
        self.records.put(&format!("{key:x}"), &value(n)).unwrap();
        self.lists.add(&thread, &n).unwrap();
        let mut batch = Batch::new();
        for key in (0..MEMBERS).map(|member| key * MEMBERS + member) {
            batch.put(&self.one, &key, &n).unwrap();
            batch.put(&self.other, &key, &value(n)).unwrap();
        }
        batch.apply().unwrap();
    }

    /// The last number of a thread in each of them; all before it are there.
    fn last(&self, thread: u64) -> [u64; 5] {
        let up_to = |has: &dyn Fn(u64) -> bool| {
            let last = (1..).take_while(|n| has(*n)).last().unwrap_or(0);
            (last + 2..last + 9).for_each(|n| assert!(!has(n), "{n} without {}", last + 1));
            last
        };
        let key = |n: u64| thread << 32 | n;
        let members = |n: u64| (0..MEMBERS).map(move |member| key(n) * MEMBERS + member);
        let mut values: Vec<u64> = self.lists.get_all(&thread).unwrap();
        values.sort_unstable();
        // A process that goes on for one that was killed adds a number once more.
        values.dedup();
        assert!((1..).zip(&values).all(|(n, v)| n == *v), "not all of {}", values.len());
        let whole = |count: usize| {
            assert!(count == 0 || count == MEMBERS as usize, "{count} members of a batch");
            count > 0
        };
        [
            up_to(&|n| self.words.get(&key(n)).unwrap().is_some_and(|v| v == n)),
            up_to(&|n| {
                let got = self.records.get(&format!("{:x}", key(n))).unwrap();
                got.is_some_and(|v| v == value(n))
            }),
            values.len() as u64,
            up_to(&|n| whole(members(n).filter(|k| self.one.get(k).unwrap() == Some(n)).count())),
            up_to(&|n| {
                let has = |k: &u64| self.other.get(k).unwrap().is_some_and(|v| v == value(n));
                whole(members(n).filter(has).count())
            }),
        ]
    }
}

/// Of many lengths.
fn value(n: u64) -> Vec<u8> {
    vec![n as u8; 1 + (n * 37 % 300) as usize]
}

/// The pool in `path` has each map of one moment: between what had been put `before` and `after`.
fn is_a_cut(path: &Path, design: Design, before: &[u64], after: &[u64]) {
    let pool = read(path);
    pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
    let space = pool.stats();
    assert_eq!(space.verifiable_blocks, space.checked_blocks, "every block has its check word");
    drop(pool);
    let pool: Pool = Options::new().sync_mode(SyncMode::Process).open(path).unwrap();
    let maps = Maps::of(&pool, design);
    for (thread, (before, after)) in (0..).zip(before.iter().zip(after)) {
        let last = maps.last(thread);
        assert!(last.is_sorted_by(|a, b| a >= b), "{design}, thread {thread}: {last:?}");
        assert!(
            last[0] - last[4] <= 1 && last[3] == last[4],
            "{design}, thread {thread}: {last:?}"
        );
        assert!(last[4] >= *before && last[0] <= after + 1, "{before} {last:?} {after}");
    }
    assert_eq!(maps.words.len().unwrap(), (0..=THREADS).map(|t| maps.last(t)[0]).sum::<u64>());
}

/// Threads write to five maps of a pool, which grows, while two others back it up: one by the pool, the other one as another process does.
fn backups_under_load(design: Design, mode: SyncMode, rounds: u64) {
    copies_pass(false);
    let (dir, path) = new_path();
    let pool: Pool = live(mode).readers(true).create(&path).unwrap();
    let maps = Maps::of(&pool, design);
    let counts: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let counted = || counts.iter().map(|n| n.load(Ordering::Acquire)).collect::<Vec<_>>();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (thread, count) in (0..).zip(&counts) {
            let (maps, stop) = (&maps, &stop);
            scope.spawn(move || {
                for n in 1.. {
                    maps.put(thread, n);
                    count.store(n, Ordering::Release);
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
        let backups: Vec<_> = (0..2)
            .map(|who| {
                let (pool, path, dir, counted) = (&pool, &path, dir.path(), &counted);
                scope.spawn(move || {
                    copies_pass(false);
                    for round in 0..rounds {
                        let to = dir.join(format!("backup {who} {round}"));
                        let before = counted();
                        match who {
                            0 => pool.backup(&to).unwrap(),
                            // Where its ring is written over before it is read it says so.
                            _ => {
                                while let Err(e) = read(path).backup(&to) {
                                    assert!(
                                        e.to_string().contains("was written over before"),
                                        "{e}"
                                    );
                                }
                            }
                        }
                        is_a_cut(&to, design, &before, &counted());
                        fs::remove_file(&to).unwrap();
                    }
                })
            })
            .collect();
        let ended: Vec<_> = backups.into_iter().map(|backup| backup.join()).collect();
        stop.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    let to = dir.path().join("last");
    read(&path).backup(&to).unwrap();
    is_a_cut(&to, design, &counted(), &counted());
    drop(maps);
    pool.close().unwrap();
    // It is used as the pool was, and the pool is as it was without backups.
    for path in [&to, &path] {
        let pool: Pool = Options::new().open(path).unwrap();
        assert_eq!(pool.durability(), mode.durability());
        Maps::of(&pool, design).put(THREADS, 1);
        drop(pool);
        is_a_cut(path, design, &counted(), &counted());
    }
}

#[test]
fn a_backup_of_every_design_is_a_cut() {
    for design in Design::ALL.iter().copied() {
        backups_under_load(design, SHORT, budget(2, 40));
    }
}

#[test]
fn a_backup_in_strict_is_a_cut() {
    backups_under_load(Design::Reh, SyncMode::Strict, budget(2, 40));
}

/// The file is another's in each of these modes: entries that stay are all there, those that are changed in one state.
#[test]
fn pools_without_snapshots_are_copied_entry_by_entry() {
    let lines = Options::new().sync_mode(SHORT).live_image(false).log_bytes(1 << 20);
    for options in [lines, Options::new().sync_mode(SyncMode::Process)] {
        for design in Design::ALL.iter().copied() {
            let (dir, path) = new_path();
            let map: Map<u64, [u8]> = options.clone().design(design).create(&path).unwrap();
            (0..2000).for_each(|key| map.put(&key, &value(key)).unwrap());
            let stop = AtomicBool::new(false);
            let to = dir.path().join("backup");
            thread::scope(|scope| {
                scope.spawn(|| {
                    for n in 2000.. {
                        map.put(&n, &value(n)).unwrap();
                        map.put(&(n % 1000), &value(n)).unwrap();
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
                map.backup(&to).unwrap();
                stop.store(true, Ordering::Relaxed);
            });
            let copy: Map<u64, [u8]> = Options::new().read_only(true).open(&to).unwrap();
            copy.check(&mut |finding| panic!("{design}: {finding:?}")).unwrap();
            for key in 0..2000 {
                let got = copy.get(&key).unwrap().unwrap();
                let is_whole = got.iter().all(|byte| *byte == got[0]);
                assert!(got == value(key) || key < 1000 && is_whole, "{design}");
            }
        }
    }
    let map: Map<u64, u64> = Options::new().in_memory().unwrap();
    map.put(&1, &10).unwrap();
    let (_dir, to) = new_path();
    map.backup(&to).unwrap();
    let copy: Map<u64, u64> = Options::new().open(&to).unwrap();
    assert_eq!((copy.get(&1).unwrap(), copy.len().unwrap()), (Some(10), 1));
}

#[test]
fn a_closed_pool_is_copied_as_it_is() {
    copies_pass(false);
    let lines = Options::new().sync_mode(SHORT).live_image(false).log_bytes(1 << 20);
    for options in [lines, Options::new().sync_mode(SyncMode::Process), live(SHORT)] {
        let (dir, path) = new_path();
        let map: Map<u64, u64> = options.create(&path).unwrap();
        (0..5000).for_each(|key| map.put(&key, &!key).unwrap());
        map.close().unwrap();
        let (pool, to) = (read(&path), dir.path().join("backup"));
        let mut seen = (0, 0);
        pool.backup_watched(&to, &mut |done, of| seen = (done, of)).unwrap();
        assert!(seen.0 == seen.1 && seen.0 > 0, "{seen:?}");
        let refused = pool.backup(&to).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Exists), "{refused}");
        drop(pool);
        let stats = |path: &Path| {
            let pool: Map<u64, u64> = Options::new().open(path).unwrap();
            pool.check(&mut |finding| panic!("{finding:?}")).unwrap();
            let stats = pool.stats().unwrap();
            (stats.keys, stats.index, stats.sync_mode, stats.log.is_some())
        };
        assert_eq!(stats(&to), stats(&path));
        // Damage is found on the way.
        let mut bytes = fs::read(&path).unwrap();
        let values =
            bytes.as_chunks_mut::<8>().0.iter_mut().filter(|v| **v == (!77_u64).to_le_bytes());
        values.for_each(|value| value[0] ^= 1);
        fs::write(&path, bytes).unwrap();
        let again = dir.path().join("again");
        let refused = Options::new().read_only(true).open::<Pool>(&path).unwrap().backup(&again);
        assert!(matches!(refused.unwrap_err().kind(), ErrorKind::Corrupt { .. }));
        assert!(!again.exists());
    }
}

/// The file alone is an older pool, which was closed.
#[test]
fn a_killed_pool_is_not_taken_for_a_closed_one() {
    let lines = Options::new().sync_mode(SyncMode::Strict).live_image(false).log_bytes(1 << 20);
    for options in [lines, Options::new().sync_mode(SyncMode::Process)] {
        let (dir, path) = new_path();
        let [killed, to] = ["killed", "backup"].map(|name| dir.path().join(name));
        options.create::<Map<u64, u64>>(&path).unwrap().close().unwrap();
        let map: Map<u64, u64> = options.open(&path).unwrap();
        (0..10).for_each(|key| map.put(&key, &!key).unwrap());
        fs::copy(&path, &killed).unwrap();
        copies_pass(true);
        read(&killed).backup(&to).unwrap();
        copies_pass(false);
        let copy: Map<u64, u64> = Options::new().open(&to).unwrap();
        assert!((0..10).all(|key| copy.get(&key).unwrap() == Some(!key)));
    }
}

/// Whatever call fails, the backup is whole or not there, and nothing is left beside the pool. That is whole, unless it was
/// told that its live file could not be written.
#[test]
fn if_any_call_fails_nothing_is_left() {
    const ENOSPC: i32 = 28;
    const KEYS: u64 = 200;
    copies_pass(false);
    let holds = |map: &Map<u64, u64>| {
        assert_eq!(map.len().unwrap(), KEYS);
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
    };
    for named in [false, true] {
        let (mut refused, mut left) = (0, 0);
        for nth in 1.. {
            let (dir, path) = new_path();
            let to = dir.path().join("backup");
            let options = live(SyncMode::Interval(Duration::from_secs(3600)));
            let map: Map<u64, u64> = options.create(&path).unwrap();
            (0..KEYS).for_each(|key| map.put(&key, &!key).unwrap());
            faults::NAMED_ONLY.set(named);
            faults::arm(nth, ENOSPC);
            let backup = map.backup(&to);
            let failed = faults::disarm();
            faults::NAMED_ONLY.set(false);
            assert!(failed || backup.is_ok(), "{backup:?}");
            assert_eq!(to.exists(), backup.is_ok(), "call {nth}: {backup:?}");
            let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
            let is_left = names.len() > 2 + usize::from(to.exists());
            assert!(!is_left || named, "call {nth}: {names:?}");
            left += u32::from(is_left);
            if to.exists() {
                holds(&Options::new().open(&to).unwrap());
            }
            drop(map);
            match Options::new().open::<Map<u64, u64>>(&path) {
                Ok(map) => holds(&map),
                Err(e) => {
                    assert!(matches!(e.kind(), ErrorKind::NoLiveImage { .. }), "call {nth}: {e}");
                    refused += 1;
                }
            }
            if !failed {
                assert!(nth > 30 && refused == 1, "{nth} calls, {refused} of them");
                // A temporary name that could not be removed, as a kill leaves it.
                assert_eq!(left, u32::from(named));
                break;
            }
        }
    }
}

const CHILD: &str = "DURAHASH_BACKUP_OF";

/// Writes, and makes backups one after the other, until it is killed. Says of each step that it comes to it.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else {
        return;
    };
    copies_pass(false);
    let path = PathBuf::from(path);
    let pool: Pool = live(SHORT).open_or_create(&path).unwrap();
    let maps = Maps::of(&pool, Design::Reh);
    let first = maps.last(0)[4] + 1;
    let step = || {
        let mut out = std::io::stdout();
        out.write_all(b"#").unwrap();
        out.flush().unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| (first..u64::MAX).for_each(|n| maps.put(0, n)));
        for round in 0.. {
            step();
            let to = path.with_file_name(format!("backup {round}"));
            if !to.exists() {
                pool.backup_watched(&to, &mut |_, _| step()).unwrap();
                step();
            }
        }
    });
}

/// What has the name of a backup is one, whenever the process that made it was killed.
#[test]
fn a_kill_leaves_whole_backups_only() {
    copies_pass(false);
    let (dir, path) = new_path();
    let mut whole = 0;
    for round in 0..budget(6, 200) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "backup::child", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let steps = BufReader::new(child.stdout.take().unwrap()).bytes().map(Result::unwrap);
        let step = steps.filter(|byte| *byte == b'#').nth(3 + (round * 7 % 23) as usize);
        assert!(step.is_some(), "the child ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        let files: Vec<PathBuf> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        for file in files {
            let name = file.file_name().unwrap().to_str().unwrap();
            if name.starts_with("backup") {
                let pool = read(&file);
                pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
                drop(pool);
                let pool: Pool = Options::new().sync_mode(SyncMode::Process).open(&file).unwrap();
                let last = Maps::of(&pool, Design::Reh).last(0);
                assert!(last[0] - last[4] <= 1, "{last:?}");
                drop(pool);
                fs::remove_file(&file).unwrap();
                whole += 1;
            } else {
                assert!(file == path || name.ends_with(".live"), "{name} was left");
            }
        }
    }
    assert!(whole > 0);
    let pool: Pool = Options::new().open(&path).unwrap();
    pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
}
