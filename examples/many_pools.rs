//! Opens many pools at once, in the default mode, with live images, and in `Process`: ten thousand, or as many as the first argument says, in a
//! new directory.
//!
//! ```sh
//! sh -c 'ulimit -n 30000; cargo run -p durahash-examples --bin many_pools -- 10000'
//! ```
//!
//! A pool has one open file, two with a live image, and five mappings but in `Process`, of which a process may have 65,530
//! unless `vm.max_map_count` says otherwise. Threads are shared.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use durahash::{Map, Options, Result, SyncMode};

fn main() -> ExitCode {
    // The text of an error names the limit where the system gives no more.
    match open_and_close() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn open_and_close() -> Result<()> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let dir = std::env::temp_dir().join(format!("many_pools-{}", std::process::id()));
    fs::create_dir(&dir).expect("the directory is new");
    let kinds = [
        ("log of lines", SyncMode::INTERVAL, false),
        ("live image", SyncMode::INTERVAL, true),
        ("process", SyncMode::Process, false),
    ];
    let done = kinds.into_iter().try_for_each(|(kind, mode, live)| {
        let (start, before) = (Instant::now(), InUse::now());
        let options = Options::new().sync_mode(mode).live_image(live);
        let maps = open_all(|i| dir.join(format!("{kind} {i}")), &options, count)?;
        let opened = start.elapsed();
        let each = |now: usize, before: usize| (now.saturating_sub(before)) as f64 / count as f64;
        let now = InUse::now();
        let (files, mappings) =
            (each(now.files, before.files), each(now.mappings, before.mappings));
        println!("{kind}: {count} pools opened and written to in {opened:.1?}");
        println!("  {files:.2} files and {mappings:.2} mappings each; {} threads", now.threads);
        // Beside those of pools, there are some of threads, and of memory.
        let (most, others) = (if live { 2.0 } else { 1.0 }, 400.0 / count as f64);
        assert!(files <= most + others && mappings <= 5.0 + others);
        assert!(now.threads <= 1 + 2 * 16);
        let start = Instant::now();
        maps.into_iter().try_for_each(Map::close)?;
        println!("  closed in {:.1?}", start.elapsed());
        Ok(())
    });
    let _ = fs::remove_dir_all(&dir);
    done
}

fn open_all(
    path: impl Fn(u64) -> PathBuf,
    options: &Options,
    count: u64,
) -> Result<Vec<Map<u64, u64>>> {
    let maps: Vec<_> = (0..count).map(|i| options.create(path(i))).collect::<Result<_>>()?;
    for (i, map) in (0..).zip(&maps) {
        Map::put(map, &i, &!i)?;
    }
    for (i, map) in (0..).zip(&maps) {
        assert_eq!(map.get(&i)?, Some(!i));
    }
    Ok(maps)
}

/// Resources of this process that the system limits.
struct InUse {
    files: usize,
    mappings: usize,
    threads: usize,
}

impl InUse {
    fn now() -> Self {
        let entries = |path| fs::read_dir(path).map_or(0, Iterator::count);
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        InUse {
            files: entries("/proc/self/fd"),
            mappings: maps.lines().count(),
            threads: entries("/proc/self/task"),
        }
    }
}
