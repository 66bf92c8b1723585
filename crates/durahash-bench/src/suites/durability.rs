//! The modes of durability side by side: inserts one by one and in batches, lookups, updates, bytes of log, and the
//! open after kill -9.

use std::time::{Duration, Instant};

use durahash::{Durability, Map, SyncMode};

use super::{About, Recorder, end_resize};
use crate::config::Config;
use crate::driver::{self, Timed, together};
use crate::error::{Error, Result};
use crate::machine;
use crate::report::Samples;
use crate::workload::{Kind, Workload, Workloads};

/// The modes and their names; true for a live image in place of a log of lines.
const MODES: [(&str, SyncMode, bool); 5] = [
    ("process", SyncMode::Process, false),
    ("interval", SyncMode::INTERVAL, false),
    ("interval-live", SyncMode::INTERVAL, true),
    ("strict", SyncMode::Strict, false),
    ("strict-live", SyncMode::Strict, true),
];
/// The measurements: inserts one by one and in batches, lookups, updates of keys by Zipf's law, and the open after a kill.
const INSERT: &str = "insert";
const UPDATE: &str = "update";
const PUT_MANY: &str = "put_many";
const HIT: &str = "hit";
const KILLED: &str = "kill -9";

/// Inserts of a batch.
const BATCH: usize = 1000;
/// No thread inserts one by one for longer: in `strict`, where each insert waits for the disk, these are a few
/// thousand.
const INSERTS: Duration = Duration::from_millis(500);
/// Inserts between two looks at the clock.
const LOOK: usize = 64;
/// Rounds of lookups go on for so long: what is still written back behind the inserts ends meanwhile, and
/// the median does not have it.
const LOOKUPS: Duration = Duration::from_millis(300);
/// Where the numbers of keys begin that are inserted one by one, or in batches of several threads.
const SINGLE: u64 = 3 << 56;
/// The most keys of a process that is killed: it inserts thousands of them one by one.
const KILLED_KEYS: u64 = 100_000;

type Pair = (u64, u64);

/// The case of a row.
fn case_of(what: &str, mode: &str) -> String {
    format!("{what}, {mode}")
}

/// The work of the suite: loads, updates, lookups and inserts by each number of threads; and the kills.
pub(super) fn work(config: &Config) -> u64 {
    let of_repeat = 1 + 3 * config.threads.len() as u64;
    let modes = (config.designs.len() * MODES.len()) as u64;
    modes * (u64::from(config.repeats) * of_repeat + 1)
}

impl Recorder<'_> {
    /// Every mode of every design has its turn, and then all again. One pool exists at a time, since what is
    /// written back of one would hold up others.
    pub(super) fn durability(&mut self) -> Result<()> {
        let config = self.config;
        let workloads = Workloads::new(config.keys, config.seed);
        let loaded = [pairs(&workloads, 0, config.keys)];
        let mut samples: Vec<_> = config.designs.iter().map(|_| Samples::default()).collect();
        for round in 0..u64::from(config.repeats) {
            for (&design, samples) in config.designs.iter().zip(&mut samples) {
                for (mode, sync_mode, live_image) in MODES {
                    self.next(1, &format!("{design}, {mode}: {PUT_MANY}"));
                    let bench = self.bench.with_mode(sync_mode, Some(live_image));
                    let map = bench.create(design)?;
                    warm_memory(config.keys);
                    let run =
                        inserts(&map, &loaded, BATCH, Duration::MAX, |part| map.put_many(part))?;
                    end_resize(&map)?;
                    let (case, name) = (case_of(PUT_MANY, mode), design.to_string());
                    let keys = config.keys;
                    let about =
                        About { table: "durability", design: &name, case: &case, threads: 1, keys };
                    run.add_to(samples, &about);
                    samples.add(&about, "survives", survives(&map, &bench.file_system()));
                    self.operations(&map, &workloads, round, (&name, mode), samples)?;
                }
            }
        }
        samples.iter_mut().for_each(|samples| self.rows.extend(samples.rows()));
        for (&design, (mode, sync_mode, live_image)) in
            config.designs.iter().flat_map(|design| MODES.map(|mode| (design, mode)))
        {
            self.next(1, &format!("{design}, {mode}: {KILLED} and recovery"));
            let (sync_mode, live_image) = (Some(sync_mode), Some(live_image));
            let config = Config { sync_mode, live_image, ..config.clone() };
            let keys = config.keys.min(KILLED_KEYS);
            self.killed(&config, "durability", &case_of(KILLED, mode), design, keys)?;
        }
        Ok(())
    }

    /// Lookups in a map that has all keys, updates, and then inserts of others, by each number of threads.
    fn operations(
        &mut self,
        map: &Map<u64, u64>,
        workloads: &Workloads,
        round: u64,
        (design, mode): (&str, &str),
        samples: &mut Samples,
    ) -> Result<()> {
        let config = self.config;
        fn about<'a>(design: &'a str, case: &'a str, threads: usize, keys: u64) -> About<'a> {
            About { table: "durability", design, case, threads, keys }
        }
        for &threads in &config.threads {
            self.next(1, &format!("{design}, {mode}: {HIT}, threads: {threads}"));
            let streams = workloads.draw(Workload::Hit, threads, round);
            let (from, mut rates) = (Instant::now(), Vec::new());
            while rates.is_empty() || from.elapsed() < LOOKUPS {
                let run = driver::run(map, Workload::Hit, &streams, Timed::Whole)?;
                rates.push(run.ops_per_s());
            }
            rates.sort_by(f64::total_cmp);
            let median = rates[rates.len() / 2];
            samples.add(
                &about(design, &case_of(HIT, mode), threads, config.keys),
                "ops_per_s",
                median,
            );
        }
        self.next(1, &format!("{design}, {mode}: {UPDATE}"));
        let one_by_one = |part: &[Pair]| part.iter().try_for_each(|(k, v)| map.put(k, v));
        let updates = workloads.draw(Workload::YcsbA, 1, round).swap_remove(0);
        let updates = updates.iter().filter(|op| op.kind == Kind::Put).map(|op| (op.key, round));
        let run = inserts(map, &[updates.collect()], LOOK, INSERTS, one_by_one)?;
        run.add_to(samples, &about(design, &case_of(UPDATE, mode), 1, config.keys));
        let (mut keys, mut first) = (config.keys, SINGLE);
        let each = |what| config.threads.iter().map(move |threads| (what, *threads));
        // The batches of one thread were the load.
        for (what, threads) in each(INSERT).chain(each(PUT_MANY).filter(|(_, n)| *n > 1)) {
            self.next(1, &format!("{design}, {mode}: {what}, threads: {threads}"));
            let each = config.keys / threads as u64;
            let streams = (0..threads as u64).map(|thread| first + thread * each);
            let streams: Vec<_> = streams.map(|from| pairs(workloads, from, each)).collect();
            warm_memory(config.keys);
            let run = if what == INSERT {
                inserts(map, &streams, LOOK, INSERTS, one_by_one)?
            } else {
                inserts(map, &streams, BATCH, Duration::MAX, |part| map.put_many(part))?
            };
            run.add_to(samples, &about(design, &case_of(what, mode), threads, config.keys));
            keys += run.done;
            first += config.keys;
        }
        let found = map.len()?;
        if found != keys {
            let what = format!("{design}, {mode}: {found} keys, but {keys} were inserted");
            return Err(Error::Wrong { what });
        }
        Ok(())
    }
}

/// The pairs whose keys have these numbers.
fn pairs(workloads: &Workloads, first: u64, count: u64) -> Vec<Pair> {
    (first..first + count).map(|i| (workloads.key(i), i)).collect()
}

/// The failures that a map survives, as a number: 1 is the death of its process; 2 is a crash of the system and the loss of
/// power, too, but for the last moments; 3 is all of these. A map in memory is gone with the system.
fn survives(map: &Map<u64, u64>, file_system: &str) -> f64 {
    match map.durability() {
        Durability::Interval if file_system != "tmpfs" => 2.0,
        Durability::Strict if file_system != "tmpfs" => 3.0,
        _ => 1.0,
    }
}

/// Warms as much memory as inserts of so many keys may take, for pages, marks, batches and directories.
fn warm_memory(keys: u64) {
    machine::warm_memory((256 << 20) + keys * 256);
}

/// Inserts that were timed.
struct Inserted {
    done: u64,
    elapsed: Duration,
    log_bytes: u64,
}

impl Inserted {
    fn add_to(&self, samples: &mut Samples, about: &About<'_>) {
        let done = self.done as f64;
        samples.add(about, "count", done);
        samples.add(about, "ops_per_s", done / self.elapsed.as_secs_f64().max(1e-9));
        samples.add(about, "log_bytes", self.log_bytes as f64 / done);
    }
}

/// Inserts pairs, a thread for each stream, by `insert` of so many at a time. No thread begins more of them
/// after `limit`.
fn inserts(
    map: &Map<u64, u64>,
    streams: &[Vec<Pair>],
    at_once: usize,
    limit: Duration,
    insert: impl Fn(&[Pair]) -> durahash::Result<()> + Sync,
) -> Result<Inserted> {
    let before = log_bytes(map)?;
    let (elapsed, done) = together(streams, |pairs| {
        let (from, mut done) = (Instant::now(), 0);
        for part in pairs.chunks(at_once) {
            if from.elapsed() >= limit {
                break;
            }
            insert(part)?;
            done += part.len() as u64;
        }
        Ok(done)
    })?;
    let log_bytes = log_bytes(map)? - before;
    Ok(Inserted { done: done.iter().sum(), elapsed, log_bytes })
}

/// The bytes that went to the log, once nothing is left to be written; 0 where there is none.
fn log_bytes(map: &Map<u64, u64>) -> Result<u64> {
    if map.stats()?.log.is_some() {
        map.sync()?;
    }
    Ok(map.stats()?.log.map_or(0, |log| log.bytes))
}
