//! The costs of a log beside throughput: how long single inserts take while checkpoints run, how many
//! bytes of log they write, and how long a log is replayed.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use durahash::{Design, Map, Options, SyncMode};
use durahash_bench::workload::Random;
use durahash_bench::{Error, Result, told_by};

use crate::directory;
use crate::store::wrong;

/// Inserts that are timed, where each is waited for. Enough to fill the log more than once.
const SYNCED: u64 = 40_000;

/// The log that is replayed, which is not written back before a quarter of it is used; and the updates that
/// fill somewhat less. A live image uses no more of it than its pool is long, so fewer fill that.
const LONG_BYTES: u64 = 4 << 30;
const LONG_INSERTS: u64 = 5_000_000;
const LIVE_UPDATES: usize = 400_000;
const LONG_MODE: SyncMode = SyncMode::Interval(std::time::Duration::from_millis(5));

/// Measures our modes in `dir`, with `keys` keys before, and returns a table.
pub(crate) fn measure(dir: &Path, keys: u64) -> Result<String> {
    let mut text =
        "| single inserts, 1 thread | inserts | p50, µs | p99, µs | p99.9, µs | longest, ms | \
         checkpoints meanwhile | bytes of log each |\n|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for design in [Design::Reh, Design::Pea] {
        for (name, mode, count) in [
            ("process", SyncMode::Process, keys),
            ("interval", SyncMode::INTERVAL, keys),
            ("strict", SyncMode::Strict, SYNCED),
        ] {
            let row = one(dir, design, mode, keys, count)?;
            eprintln!("{design}, {name}: {row}");
            text += &format!("| {design}, {name} | {count} | {row} |\n");
        }
    }
    Ok(text)
}

fn error(doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Io { doing, path: None, source }
}

fn key(i: u64) -> u64 {
    Random::new(i.rotate_left(32)).word()
}

/// How long it takes to open a pool with a long log, behind kill -9, and with a live image behind a loss of power; a table.
pub(crate) fn recovery(parent: &Path) -> Result<String> {
    let mut text = "| opened | keys | MiB of log | ms | s for each GiB of log |\n\
                    |---|---|---|---|---|\n"
        .to_owned();
    for (design, live) in
        [Design::Reh, Design::Pea].into_iter().flat_map(|design| [(design, false), (design, true)])
    {
        let dir = directory(parent)?;
        let path = dir.path().join("map.pool");
        let program = std::env::current_exe().map_err(error("looking for this program"))?;
        let mut command = Command::new(program);
        command.args(["log-child", &design.to_string(), &live.to_string()]).arg(&path);
        let bytes = told_by(command, 1)?.words[0] as f64;
        if live {
            // In another boot it would count for nothing. Then base and log are what there is, as behind a loss of power.
            for file in dir.path().read_dir().map_err(error("reading a directory"))?.flatten() {
                if file.path().extension().is_some_and(|ext| ext == "live") {
                    std::fs::remove_file(file.path()).map_err(error("removing the live image"))?;
                }
            }
        }
        let start = Instant::now();
        let options = Options::new().sync_mode(LONG_MODE).accept_suspect(live);
        let map: Map<u64, u64> = options.open(&path)?;
        let seconds = start.elapsed().as_secs_f64();
        if map.len()? != LONG_INSERTS || map.get(&key(0))? != Some(1) {
            return Err(wrong(format!("{design}: {} keys after a kill", map.len()?)));
        }
        let (mib, gib) = (bytes / 1048576.0, bytes / 1073741824.0);
        let how = if live { "a live image, power lost" } else { "a log of lines, kill -9" };
        let row = format!(
            "| {design}, {how} | {LONG_INSERTS} | {mib:.0} | {:.0} | {:.2} |\n",
            seconds * 1e3,
            seconds / gib
        );
        eprint!("{row}");
        text += &row;
    }
    Ok(text)
}

/// The child that is killed: it fills a pool, then a log with other values, prints how many bytes that has, and waits.
pub(crate) fn child(design: &str, live: bool, path: &Path) -> Result<()> {
    let options = Options::new().design(design.parse()?).sync_mode(LONG_MODE).live_image(live);
    let options = options.log_bytes(LONG_BYTES);
    let map: Map<u64, u64> = options.create(path)?;
    let pairs: Vec<(u64, u64)> = (0..LONG_INSERTS).map(|i| (key(i), i)).collect();
    map.put_many(&pairs)?;
    map.close()?;
    let map: Map<u64, u64> = options.open(path)?;
    for (key, i) in pairs.iter().take(if live { LIVE_UPDATES } else { pairs.len() }) {
        map.put(key, &(i + 1))?;
    }
    map.sync()?;
    let log = map.stats()?.log.ok_or_else(|| wrong("no log".into()))?;
    if log.checkpoints > 0 {
        return Err(wrong("the log was written back: it is too short".into()));
    }
    let told = std::io::stdout().write_all(&log.bytes.to_le_bytes());
    told.and_then(|()| std::io::stdout().flush()).map_err(error("writing to the pipe"))?;
    loop {
        std::thread::park();
    }
}

fn one(parent: &Path, design: Design, mode: SyncMode, keys: u64, count: u64) -> Result<String> {
    let dir = directory(parent)?;
    let options = Options::new().design(design).sync_mode(mode);
    let map: Map<u64, u64> = options.create(dir.path().join("map.pool"))?;
    let pairs: Vec<(u64, u64)> = (0..keys).map(|i| (key(i), i)).collect();
    map.put_many(&pairs)?;
    map.sync()?;
    let log = |map: &Map<u64, u64>| -> Result<(u64, u64)> {
        Ok(map.stats()?.log.map_or((0, 0), |log| (log.checkpoints, log.bytes)))
    };
    let before = log(&map)?;
    let mut times = Vec::with_capacity(count as usize);
    for i in keys..keys + count {
        let start = Instant::now();
        map.put(&key(i), &i)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    map.sync()?;
    let after = log(&map)?;
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    Ok(format!(
        "{:.2} | {:.2} | {:.1} | {:.2} | {} | {:.0}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0) / 1e3,
        after.0 - before.0,
        (after.1 - before.1) as f64 / count as f64
    ))
}
