//! Inserts that survive the loss of power: each store with its own way to force them to the disk.
//!
//! Stores are prefilled in batches. Then lookups, while what was written ends. Then single inserts, each on the disk
//! when it returns, by one thread and by two; and inserts of a thousand to a sync. Beside them, ours in the mode `interval`,
//! and theirs where nothing is forced to the disk: what they then survive is the death of the process. And a map
//! in memory, of which nothing survives.

use std::path::Path;
use std::time::{Duration, Instant};

use durahash::{Map, Options, SyncMode};
use durahash_bench::workload::Random;
use durahash_bench::{About, Error, Result, Row, Samples};
use heed::EnvFlags;

use crate::directory;
use crate::memory::Sharded;
use crate::peers::{Fjall, Lmdb, Redb, Sync};
use crate::store::{Subject, Words, wrong};

const CACHE_BYTES: usize = 4 << 30;
/// How long keys are looked up, at least once each: long enough that what is written behind the prefill
/// ends meanwhile.
const LOOKUPS: Duration = Duration::from_secs(2);
/// No inserts go on for longer. They end sooner where as many were made as there were keys before.
const INSERTS: Duration = Duration::from_secs(1);
/// Inserts to a sync, and between two looks at the clock.
const BATCH: u64 = 1000;

/// Inserts pairs.
type Insert<'a> = &'a dyn Fn(&[(u64, u64)]) -> Result<()>;

struct Way {
    name: &'static str,
    /// True if each insert is on the disk when it returns.
    synced: bool,
    /// False where nothing survives the process.
    durable: bool,
    open: fn(&Path) -> Result<Box<dyn Subject>>,
}

fn own(dir: &Path, mode: SyncMode) -> Result<Box<dyn Subject>> {
    let map: Map<u64, u64> = Options::new().sync_mode(mode).open_or_create(dir.join("map.pool"))?;
    Ok(Box::new(map))
}

/// The measurements: of inserts one by one, of batches, and of lookups.
const ONE_BY_ONE: &str = "inserts one by one";
const BATCHES_OF: &str = "inserts of 1000 at a time";
const HITS: &str = "lookups";
/// Those of inserts that survive the process and no more: `front.svg` shows these.
const SURVIVE: &str = "durable inserts";

const fn way(name: &'static str, synced: bool, open: fn(&Path) -> Result<Box<dyn Subject>>) -> Way {
    Way { name, synced, durable: true, open }
}

const WAYS: [Way; 10] = [
    way("durahash, strict", true, |dir| own(dir, SyncMode::Strict)),
    way("LMDB, synced", true, |dir| Ok(Box::new(Words(Lmdb::open(dir, EnvFlags::empty())?)))),
    way("redb, immediate", true, |dir| {
        Ok(Box::new(Words(Redb::open(dir, CACHE_BYTES, Sync::Disk)?)))
    }),
    way("fjall, SyncData", true, |dir| Ok(Box::new(Words(Fjall::open_synced(dir, CACHE_BYTES)?)))),
    way("durahash, interval", false, |dir| own(dir, SyncMode::INTERVAL)),
    way("durahash, process", false, |dir| own(dir, SyncMode::Process)),
    way("LMDB, NOSYNC, WRITEMAP", false, |dir| {
        Ok(Box::new(Words(Lmdb::open(dir, EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP)?)))
    }),
    way("redb, no sync", false, |dir| {
        Ok(Box::new(Words(Redb::open(dir, CACHE_BYTES, Sync::File)?)))
    }),
    way("fjall, journal not synced", false, |dir| {
        Ok(Box::new(Words(Fjall::open(dir, CACHE_BYTES, false)?)))
    }),
    Way {
        name: "hashbrown, in memory: nothing survives",
        synced: false,
        durable: false,
        open: |_| Ok(Box::<Sharded<u64, u64>>::default()),
    },
];

/// Measures all of them in `dir`: rows of the table `synced`, and of the table `stores` for the ways in which inserts
/// survive the process and no more, beside the map in memory.
pub(crate) fn measure(dir: &Path, keys: u64, repeats: u64) -> Result<Vec<Row>> {
    let mut samples = Samples::default();
    for repeat in 0..repeats {
        for way in &WAYS {
            let rates = one(way, dir, keys, repeat)?;
            eprintln!("{} of {repeats}: {}, {rates:.0?} a second", repeat + 1, way.name);
            let cases = [(ONE_BY_ONE, 1), (ONE_BY_ONE, 2), (BATCHES_OF, 1), (HITS, 1)];
            for ((case, threads), rate) in cases.into_iter().zip(rates) {
                let about = About { table: "synced", design: way.name, case, threads, keys };
                samples.add(&about, "ops_per_s", rate);
                let case = if case == ONE_BY_ONE { SURVIVE } else { case };
                if !way.synced && way.name != "durahash, interval" && (way.durable || case == HITS)
                {
                    samples.add(&About { table: "stores", case, ..about }, "ops_per_s", rate);
                }
            }
        }
    }
    Ok(samples.rows().collect())
}

/// The rows as a table.
pub(crate) fn table(rows: &[Row], keys: u64) -> String {
    let mut text = format!(
        "| {keys} keys before, inserts/s | one by one, 1 thread | 2 threads | {BATCH} to a batch | \
         hits/s |\n|---|---|---|---|---|\n"
    );
    for way in &WAYS {
        let rows = rows.iter().filter(|row| row.table == "synced" && row.design == way.name);
        let medians: Vec<String> = rows.map(|row| format!("{:.0}", row.value)).collect();
        text += &format!("| {} | {} |\n", way.name, medians.join(" | "));
    }
    text
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

    // Each part inserts other keys.
    let rate = |part: u64, insert: Insert<'_>| -> Result<f64> {
        let (from, mut took, mut done) = (keys * part, Duration::ZERO, 0);
        while done < keys && took < INSERTS {
            let pairs: Vec<(u64, u64)> =
                (from + done..from + done + BATCH).map(|i| (key(i), !i)).collect();
            let start = Instant::now();
            insert(&pairs)?;
            took += start.elapsed();
            done += BATCH;
        }
        Ok(done as f64 / took.as_secs_f64())
    };
    let singles =
        |pairs: &[(u64, u64)]| pairs.iter().try_for_each(|(key, value)| table.put(*key, *value));
    let one = rate(1, &singles)?;
    let two = std::thread::scope(|scope| {
        let other = scope.spawn(|| rate(2, &singles));
        let rate = rate(3, &singles)?;
        Ok::<f64, Error>(rate + other.join().map_err(|_| wrong("a thread panicked".into()))??)
    })?;
    let batches = rate(4, &|pairs| table.put_many(pairs))?;
    Ok([one, two, batches, lookups[lookups.len() / 2]])
}
