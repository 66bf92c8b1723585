//! Caches with a bound of entries: lookups and inserts at the bound, the memory of an entry, and what is left after a
//! restart. Keys come by Zipf's law out of ten times as many as there is room for; one that is not found is inserted.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use durahash_bench::driver;
use durahash_bench::workload::{Kind, Op, Random, Workload, Zipfian};
use durahash_bench::{About, Error, Result, Row, Samples, told_by};

use crate::directory;
use crate::peers::{CACHES, Cached, OWN_FILE};
use crate::report::target;
use crate::store::wrong;

/// Keys that are looked up, for each entry that there is room for.
const KEYS: u64 = 10;
/// Lookups until the cache has what comes often, for each entry.
const WARM: u64 = 10;
/// Inserts that the child tells before it is killed.
const TOLD: u64 = 10_000;

/// The table of the report, and its cases.
const TABLE: &str = "cache-peers";
const HIT: &str = "hit";
const LOOKUP: &str = "lookup";
const INSERT: &str = "insert that evicts";

/// The configuration of a run.
pub(crate) struct Plan {
    /// The bound.
    pub(crate) entries: u64,
    pub(crate) threads: Vec<usize>,
    pub(crate) repeats: u64,
    pub(crate) seed: u64,
    /// Where ours lies that is in a file.
    pub(crate) dir: PathBuf,
    /// Only caches whose name has one of these in it; all where there are none.
    pub(crate) only: Vec<String>,
}

/// Keys by Zipf's law.
struct Keys {
    zipf: Zipfian,
    random: Random,
}

/// The key with a number.
fn key(number: u64) -> u64 {
    Random::new(number.rotate_left(32)).word()
}

impl Keys {
    fn new(entries: u64, seed: u64) -> Self {
        Keys { zipf: Zipfian::new(KEYS * entries), random: Random::new(seed) }
    }

    fn draw(&mut self) -> u64 {
        key(self.zipf.draw(&mut self.random))
    }

    /// So many lookups of each thread.
    fn streams(&mut self, threads: usize, each: u64) -> Vec<Vec<Op>> {
        let op = |key| Op { key, kind: Kind::Get };
        (0..threads).map(|_| (0..each).map(|_| op(self.draw())).collect()).collect()
    }
}

/// The value of a key, if it is there.
fn look(cache: &dyn Cached, key: u64) -> Result<bool> {
    match cache.get(key)? {
        Some(value) if value != !key => Err(wrong(format!("another value of key {key:#x}"))),
        found => Ok(found.is_some()),
    }
}

/// Looks a key up, and inserts it if it is not there; true if it was.
fn look_or_put(cache: &dyn Cached, key: u64) -> Result<bool> {
    let found = look(cache, key)?;
    if !found {
        cache.put(key, !key)?;
    }
    Ok(found)
}

/// The same of so many keys: how many were there.
fn look_or_put_all(cache: &dyn Cached, lookups: u64, keys: &mut Keys) -> Result<u64> {
    (0..lookups).try_fold(0, |hits, _| Ok(hits + u64::from(look_or_put(cache, keys.draw())?)))
}

/// The part of lookups that find their key, where nothing is inserted.
fn part(cache: &dyn Cached, lookups: u64, keys: &mut Keys) -> Result<f64> {
    let hits = (0..lookups)
        .try_fold(0, |hits, _| Ok::<u64, Error>(hits + u64::from(look(cache, keys.draw())?)));
    Ok(hits? as f64 / lookups as f64)
}

/// Measures all of them.
pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut samples = Samples::default();
    for round in 0..plan.repeats {
        for (name, open) in &CACHES {
            let only = &plan.only;
            if !only.is_empty() && !only.iter().any(|only| name.contains(only)) {
                continue;
            }
            eprintln!("caches, repeat {} of {}: {name}", round + 1, plan.repeats);
            let seed = plan.seed ^ round << 32;
            let mut add = |case: &str, threads: usize, metric: &str, value: f64| {
                let about = About { table: TABLE, design: name, case, threads, keys: plan.entries };
                samples.add(&about, metric, value);
            };
            let dir = directory(&plan.dir)?;
            let cache = open(dir.path(), plan.entries)?;
            let mut keys = Keys::new(plan.entries, seed);
            rates(&*cache, plan, &mut keys, &mut add)?;
            look_or_put_all(&*cache, WARM * plan.entries, &mut keys)?;
            let hits = look_or_put_all(&*cache, plan.entries, &mut keys)?;
            add("before", 1, "part", hits as f64 / plan.entries as f64);
            cache.close()?;
            let opened = |case, add: &mut dyn FnMut(&str, usize, &str, f64), keys: &mut Keys| {
                let from = Instant::now();
                let cache = open(dir.path(), plan.entries)?;
                look(&*cache, 0)?;
                add(case, 1, "open_ms", from.elapsed().as_secs_f64() * 1e3);
                let len = cache.len()?;
                add(case, 1, "part", part(&*cache, plan.entries, keys)?);
                let hits = look_or_put_all(&*cache, plan.entries, keys)?;
                add(case, 1, "next_part", hits as f64 / plan.entries as f64);
                Ok::<_, Error>((cache, len))
            };
            drop(opened("after a close", &mut add, &mut keys)?.0);
            fs::remove_dir_all(dir.path()).and_then(|()| fs::create_dir(dir.path())).map_err(io)?;

            let told = killed(name, dir.path(), plan.entries, seed)?;
            add("memory", 1, "bytes", told.bytes as f64 / told.len as f64);
            let (_cache, len) = opened("after kill -9", &mut add, &mut keys)?;
            // Of what the kill cut short, a victim may have gone, and nothing come for it yet.
            let lost = told.len.saturating_sub(1 + len);
            add("after kill -9", 1, "lost", lost as f64);
            if *name == OWN_FILE && lost > 0 {
                return Err(wrong(format!("{lost} entries of {name} are lost")));
            }
        }
    }
    let rows: Vec<Row> = samples.rows().collect();
    let targets = targets(&rows, &plan.threads);
    Ok(rows.into_iter().chain(targets).collect())
}

/// Lookups of which those that miss insert, hits, and inserts of new keys.
fn rates(
    cache: &dyn Cached,
    plan: &Plan,
    keys: &mut Keys,
    add: &mut dyn FnMut(&str, usize, &str, f64),
) -> Result<()> {
    let mut fresh = KEYS * plan.entries;
    for &threads in &plan.threads {
        let each = plan.entries / threads as u64;
        look_or_put_all(cache, WARM * plan.entries, keys)?;
        let lookups = keys.streams(threads, each);
        let (elapsed, _) = driver::together(&lookups, |ops| {
            ops.iter().try_for_each(|op| look_or_put(cache, op.key).map(drop))
        })?;
        add(LOOKUP, threads, "ops_per_s", (each * threads as u64) as f64 / elapsed.as_secs_f64());

        let len = cache.len()?;
        if len > plan.entries + plan.entries / 50 {
            return Err(wrong(format!("it has {len} entries")));
        }
        let mut hits = keys.streams(threads, each);
        for ops in &mut hits {
            let there: Result<Vec<bool>> = ops.iter().map(|op| look(cache, op.key)).collect();
            let mut there = there?.into_iter();
            ops.retain(|_| there.next() == Some(true));
        }
        add(HIT, threads, "ops_per_s", cache.measure(Workload::Hit, &hits)?.ops_per_s());

        let inserts: Vec<Vec<Op>> = (0..threads as u64)
            .map(|thread| {
                let numbers = fresh + thread * each..fresh + (thread + 1) * each;
                numbers.map(|number| Op { key: key(number), kind: Kind::Put }).collect()
            })
            .collect();
        fresh += each * threads as u64;
        add(INSERT, threads, "ops_per_s", cache.measure(Workload::Load, &inserts)?.ops_per_s());
    }
    Ok(())
}

/// What the child said.
struct Told {
    bytes: u64,
    len: u64,
}

/// Fills a cache in a child process, which is killed while it goes on.
fn killed(name: &str, dir: &Path, entries: u64, seed: u64) -> Result<Told> {
    let mut command = Command::new(std::env::current_exe().map_err(io)?);
    command.args(["cache-child", name]).arg(dir);
    command.args([entries, seed].map(|n| n.to_string()));
    let words = told_by(command, 2 + TOLD)?.words;
    Ok(Told { bytes: words[0], len: words[1] })
}

/// The child's work: it ends when it is killed, or when nobody listens any more.
pub(crate) fn child(name: &str, dir: &Path, entries: u64, seed: u64) -> Result<()> {
    let open = CACHES.iter().find(|(known, _)| *known == name);
    let (_, open) = open.ok_or_else(|| wrong(format!("no cache {name}")))?;
    let tell = |word: u64| io::stdout().write_all(&word.to_le_bytes()).map_err(io);
    let mut keys = Keys::new(entries, seed);
    let before = resident_bytes()?;
    let cache = open(dir, entries)?;
    look_or_put_all(&*cache, WARM * entries, &mut keys)?;
    let len = cache.len()?;
    tell(resident_bytes()?.saturating_sub(before))?;
    tell(len)?;
    loop {
        let key = keys.draw();
        if !look_or_put(&*cache, key)? {
            tell(key)?;
        }
        io::stdout().flush().map_err(io)?;
    }
}

/// What this process has in memory, its own and what it shares with files.
fn resident_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").map_err(io)?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = kib.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| wrong("the system does not say VmRSS".into()))
}

fn io(source: io::Error) -> Error {
    Error::Io { doing: "measuring caches", path: None, source }
}

/// Ours in memory as a part of the fastest of the others.
fn targets(rows: &[Row], threads: &[usize]) -> Vec<Row> {
    let is_own = |row: &Row| row.design.starts_with("durahash");
    let mut all = Vec::new();
    for &threads in threads {
        for (case, wanted) in [(HIT, 0.8), (INSERT, 0.5)] {
            let mut of_case: Vec<&Row> = rows.iter().filter(|row| row.case == case).collect();
            of_case.retain(|row| row.threads == threads as u64);
            let others = of_case.iter().filter(|row| !is_own(row));
            let Some(best) = others.max_by(|a, b| a.value.total_cmp(&b.value)) else { continue };
            for own in of_case.iter().filter(|row| is_own(row)) {
                let case = &format!("caches: {case} / {}", best.design);
                let about =
                    About { table: "targets", design: &own.design, case, threads, keys: own.keys };
                all.extend(target(&about, "ratio", own.value / best.value, wanted));
            }
        }
    }
    all
}
