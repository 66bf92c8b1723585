//! Inserts that survive the loss of power: each store with its own way to force them to the disk.
//!
//! Stores are prefilled in batches. Then single inserts, each on the disk when it returns, by one
//! thread and by two; and inserts of a thousand to a sync. Beside them, ours in the mode `interval`,
//! and theirs where nothing is forced to the disk: what they then survive is the death of the process.

use std::path::Path;
use std::time::{Duration, Instant};

use durahash::{Map, Options, SyncMode};
use durahash_bench::workload::Random;
use durahash_bench::{Error, Result};
use heed::EnvFlags;

use crate::directory;
use crate::peers::{Fjall, Lmdb, Redb, Sync};
use crate::store::{Subject, Words, wrong};

const CACHE_BYTES: usize = 4 << 30;
/// Inserts that are synced one by one, of each thread.
const SINGLE: u64 = 10_000;
/// How long keys are looked up, at least once each: long enough that what is written behind the inserts
/// ends meanwhile.
const LOOKUPS: Duration = Duration::from_secs(2);
/// Inserts to a sync, and how many of them.
const BATCH: u64 = 1000;
const BATCHES: u64 = 100;

struct Way {
    name: &'static str,
    synced: bool,
    open: fn(&Path) -> Result<Box<dyn Subject>>,
}

fn own(dir: &Path, mode: SyncMode) -> Result<Box<dyn Subject>> {
    let map: Map<u64, u64> = Options::new().sync_mode(mode).open_or_create(dir.join("map.pool"))?;
    Ok(Box::new(map))
}

const WAYS: [Way; 9] = [
    Way { name: "durahash, strict", synced: true, open: |dir| own(dir, SyncMode::Strict) },
    Way {
        name: "LMDB, synced",
        synced: true,
        open: |dir| Ok(Box::new(Words(Lmdb::open(dir, EnvFlags::empty())?))),
    },
    Way {
        name: "redb, immediate",
        synced: true,
        open: |dir| Ok(Box::new(Words(Redb::open(dir, CACHE_BYTES, Sync::Disk)?))),
    },
    Way {
        name: "fjall, SyncData",
        synced: true,
        open: |dir| Ok(Box::new(Words(Fjall::open_synced(dir, CACHE_BYTES)?))),
    },
    Way { name: "durahash, interval", synced: false, open: |dir| own(dir, SyncMode::INTERVAL) },
    Way { name: "durahash, process", synced: false, open: |dir| own(dir, SyncMode::Process) },
    Way {
        name: "LMDB, NOSYNC",
        synced: false,
        open: |dir| Ok(Box::new(Words(Lmdb::open(dir, EnvFlags::NO_SYNC)?))),
    },
    Way {
        name: "redb, no sync",
        synced: false,
        open: |dir| Ok(Box::new(Words(Redb::open(dir, CACHE_BYTES, Sync::File)?))),
    },
    Way {
        name: "fjall, journal not synced",
        synced: false,
        open: |dir| Ok(Box::new(Words(Fjall::open(dir, CACHE_BYTES, false)?))),
    },
];

/// Measures all of them in `dir`, and returns a table.
pub(crate) fn measure(dir: &Path, keys: u64, repeats: usize) -> Result<String> {
    let mut rates = vec![Vec::new(); WAYS.len()];
    for repeat in 0..repeats {
        for (way, rates) in WAYS.iter().zip(&mut rates) {
            let rate = one(way, dir, keys, repeat as u64)?;
            eprintln!("{} of {repeats}: {}, {rate:.0?} a second", repeat + 1, way.name);
            rates.push(rate);
        }
    }
    let mut text = format!(
        "| {keys} keys before, inserts/s | one by one, 1 thread | 2 threads | {BATCH} to a batch | \
         hits/s |\n|---|---|---|---|---|\n"
    );
    for (way, rates) in WAYS.iter().zip(&mut rates) {
        let medians = (0..4).map(|i| {
            rates.sort_by(|a, b| a[i].total_cmp(&b[i]));
            format!("{:.0}", rates[rates.len() / 2][i])
        });
        text += &format!("| {} | {} |\n", way.name, medians.collect::<Vec<_>>().join(" | "));
    }
    Ok(text)
}

/// Rates of single inserts by one thread and by two, of batches, and of lookups.
fn one(way: &Way, parent: &Path, keys: u64, seed: u64) -> Result<[f64; 4]> {
    let dir = directory(parent)?;
    let table = (way.open)(dir.path())?;
    let table: &dyn Subject = &*table;
    let key = |i: u64| Random::new(seed ^ i.rotate_left(32)).word();
    let numbers: Vec<u64> = (0..keys).collect();
    for part in numbers.chunks(table.put_batch().max(BATCH as usize)) {
        let pairs: Vec<(u64, u64)> = part.iter().map(|i| (key(*i), !i)).collect();
        table.put_many(&pairs)?;
    }
    // Where nothing is waited for, as many that the clock can tell.
    let single = if way.synced { SINGLE } else { (keys / 10).max(SINGLE) };
    let insert = |from: u64| (from..from + single).try_for_each(|i| table.put(key(i), !i));

    let start = Instant::now();
    insert(keys)?;
    let one = single as f64 / start.elapsed().as_secs_f64();

    let start = Instant::now();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| insert(keys + single));
        let done = insert(keys + 2 * single);
        other.join().map_err(|_| wrong("a thread panicked".into()))?.and(done)
    })?;
    let two = (2 * single) as f64 / start.elapsed().as_secs_f64();

    let from = keys + 3 * single;
    let pairs: Vec<(u64, u64)> = (from..from + BATCH * BATCHES).map(|i| (key(i), !i)).collect();
    let start = Instant::now();
    for part in pairs.chunks(BATCH as usize) {
        table.put_many(part)?;
    }
    let batches = pairs.len() as f64 / start.elapsed().as_secs_f64();

    let (start, mut lookups) = (Instant::now(), Vec::new());
    while lookups.is_empty() || start.elapsed() < LOOKUPS {
        let start = Instant::now();
        for i in 0..keys {
            if table.get(key(i))? != Some(!i) {
                return Err(Error::Wrong { what: format!("{}: key {i} is not there", way.name) });
            }
        }
        lookups.push(keys as f64 / start.elapsed().as_secs_f64());
    }
    lookups.sort_by(f64::total_cmp);
    Ok([one, two, batches, lookups[lookups.len() / 2]])
}
