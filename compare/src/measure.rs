//! Runs everything, one table at a time, and takes the medians of interleaved repeats.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use durahash::Design;
use durahash_bench::workload::{Kind, Op, Random, Workload, Workloads};
use durahash_bench::{About, Result, Row, Samples};
use tempfile::TempDir;

use crate::catalog::{
    DISK, Data, IN_MEMORY, Mode, PEA, PEA_DISK, PEA_FLUSHED, PEA_SHARED, PEERS, REH, REH_FLUSHED,
    SHARED,
};
use crate::directory;
use crate::store::Subject;
use crate::strings::Strings;
use crate::survive::{self, Tried};

/// How many keys a store gets of whose inserts each is a transaction. Its table is smaller then,
/// and faster for it.
const SLOW_SHARE: u64 = 100;

/// The configuration of a run.
pub(crate) struct Plan {
    pub(crate) keys: u64,
    /// Lookups of a run, from all over the keys.
    pub(crate) lookups: u64,
    pub(crate) threads: Vec<usize>,
    pub(crate) repeats: u64,
    pub(crate) seed: u64,
    /// A directory in shared memory, and one on a disk.
    pub(crate) shared_memory: PathBuf,
    pub(crate) disk: PathBuf,
    /// Where the other stores lie.
    pub(crate) peers: PathBuf,
    /// Only tables whose name has one of these in it; all where there are none.
    pub(crate) only: Vec<String>,
}

/// A table of a run.
struct Entrant<'a> {
    name: &'static str,
    mode: &'static Mode,
    parent: &'a Path,
    slow_inserts: bool,
}

impl Entrant<'_> {
    /// An empty table, and the directory that goes with it.
    fn make(&self, data: &Data) -> Result<(Box<dyn Subject>, TempDir)> {
        let dir = directory(self.parent)?;
        Ok(((self.mode.open)(data, dir.path())?, dir))
    }
}

fn entrants<'a>(plan: &'a Plan, tried: &[Tried]) -> Vec<Entrant<'a>> {
    let shared = plan.shared_memory.as_path();
    let own = [
        (SHARED, &REH, shared),
        (PEA_SHARED, &PEA, shared),
        ("REH, shared memory, flushes forced", &REH_FLUSHED, shared),
        ("Pea Hash, shared memory, flushes forced", &PEA_FLUSHED, shared),
        (DISK, &REH, &plan.disk),
    ];
    let peers = PEERS.iter().map(|store| (store.name, store, plan.peers.as_path()));
    let on_files = own.into_iter().chain(peers).filter_map(|(name, store, parent)| {
        let mode = survive::fastest(tried, store)?;
        Some(Entrant { name, mode, parent, slow_inserts: store.slow_inserts })
    });
    let in_memory = IN_MEMORY.iter().map(|mode| {
        // These leave their directory empty.
        Entrant { name: mode.name, mode, parent: shared, slow_inserts: false }
    });
    let mut all: Vec<_> = in_memory.chain(on_files).collect();
    let only = &plan.only;
    all.retain(|entrant| only.is_empty() || only.iter().any(|only| entrant.name.contains(only)));
    all
}

/// The names of the entrants.
pub(crate) fn names(plan: &Plan, tried: &[Tried]) -> Vec<String> {
    entrants(plan, tried).iter().map(|entrant| entrant.name.to_owned()).collect()
}

/// Draws the operations of a workload, a thread, and a round.
type Draw<'a> = &'a dyn Fn(Workload, usize, u64) -> Vec<Vec<Op>>;

/// Uniform words, as they are or as the digests made of them.
pub(crate) fn numbers(plan: &Plan, tried: &[Tried], data: &Data, table: &str) -> Result<Vec<Row>> {
    let workloads = Workloads::new(plan.keys, plan.seed);
    let draw = |workload, threads, round| workloads.draw(workload, threads, round);
    run(plan, tried, data, plan.keys, table, &draw)
}

/// Byte strings.
pub(crate) fn strings(plan: &Plan, tried: &[Tried], strings: Strings) -> Result<Vec<Row>> {
    let keys = strings.len();
    let draw = |workload: Workload, threads: usize, round: u64| {
        let stream = |thread: u64| {
            let mut random = Random::new(plan.seed ^ round << 32 ^ (workload as u64) << 8 ^ thread);
            let mine = (thread..keys).step_by(threads);
            let op = |number| match workload {
                Workload::Hit | Workload::GetMany => (random.below(keys), Kind::Get),
                Workload::Miss => (keys + random.below(keys), Kind::Get),
                _ => (number, Kind::Put),
            };
            let op = mine.map(op).map(|(key, kind)| Op { key, kind });
            op.collect()
        };
        (0..threads as u64).map(stream).collect()
    };
    let data = Data::Strings(Arc::new(strings));
    run(plan, tried, &data, keys, "strings", &draw)
}

/// The first operations of each thread, `ops` of all.
fn cut(mut streams: Vec<Vec<Op>>, ops: u64) -> Vec<Vec<Op>> {
    let each = (ops as usize).div_ceil(streams.len());
    for stream in &mut streams {
        stream.truncate(each);
        stream.shrink_to_fit();
    }
    streams
}

fn run(
    plan: &Plan,
    tried: &[Tried],
    data: &Data,
    keys: u64,
    table: &str,
    draw: Draw<'_>,
) -> Result<Vec<Row>> {
    let mut samples = Samples::default();
    let entrants = entrants(plan, tried);
    for round in 0..plan.repeats {
        let loads: Vec<_> =
            plan.threads.iter().map(|threads| draw(Workload::Load, *threads, round)).collect();
        let lookups: Vec<_> = plan
            .threads
            .iter()
            .flat_map(|threads| {
                [Workload::Hit, Workload::Miss, Workload::GetMany].map(|workload| {
                    let streams = cut(draw(workload, *threads, round), plan.lookups);
                    (workload, *threads, streams)
                })
            })
            .collect();
        for entrant in &entrants {
            eprintln!("{table}, repeat {}: {}", round + 1, entrant.name);
            for (i, (threads, load)) in plan.threads.iter().zip(&loads).enumerate() {
                let design = entrant.name;
                let mut add = |case, threads, keys, run: durahash_bench::driver::Run| {
                    let about = About { table, design, case, threads, keys };
                    samples.add(&about, "ops_per_s", run.ops_per_s());
                };
                let (made, dir) = entrant.make(data)?;
                let done = made.measure(Workload::PutMany, load)?;
                add("bulk insert", *threads, keys, done);
                if i == 0 {
                    for (workload, threads, streams) in &lookups {
                        let done = made.measure(*workload, streams)?;
                        add(workload.name(), *threads, keys, done);
                    }
                }
                drop((made, dir));
                let (made, _dir) = entrant.make(data)?;
                if entrant.slow_inserts {
                    let few = keys.div_ceil(SLOW_SHARE);
                    let done = made.measure(Workload::Load, &cut(load.clone(), few))?;
                    add("insert", *threads, few, done);
                } else {
                    let done = made.measure(Workload::Load, load)?;
                    add("insert", *threads, keys, done);
                }
            }
        }
    }
    Ok(samples.rows().collect())
}

/// The cost of opening: an empty pool, one that was closed, one whose process was killed; and what
/// touching its memory for the first time adds to a load.
pub(crate) fn opening(plan: &Plan) -> Result<Vec<Row>> {
    let mut samples = Samples::default();
    let places = [
        (SHARED, &REH, Design::Reh, &plan.shared_memory),
        (PEA_SHARED, &PEA, Design::Pea, &plan.shared_memory),
        (DISK, &REH, Design::Reh, &plan.disk),
        (PEA_DISK, &PEA, Design::Pea, &plan.disk),
    ];
    let workloads = Workloads::new(plan.keys, plan.seed);
    let load = workloads.draw(Workload::PutMany, 1, 0);
    for round in 0..plan.repeats {
        for (name, store, design, parent) in places {
            let mode = &store.modes[0];
            eprintln!("opening, repeat {}: {name}", round + 1);
            let mut add = |case, keys, ms| {
                let about = About { table: "opening", design: name, case, threads: 1, keys };
                samples.add(&about, "ms", ms);
            };
            let ms = |from: Instant| from.elapsed().as_secs_f64() * 1e3;
            let dir = directory(parent)?;
            let left = survive::kill(store, mode, dir.path(), plan.seed ^ round, plan.keys)?;
            if left.lost > 0 {
                let what = format!("{} acknowledged keys are lost", left.lost);
                return Err(crate::store::wrong(what));
            }
            add("open after kill -9", plan.keys, left.open.as_secs_f64() * 1e3);
            let from = Instant::now();
            let table = (mode.open)(&Data::Words, dir.path())?;
            add("open after close", plan.keys, ms(from));
            drop((table, dir));

            let dir = directory(parent)?;
            let from = Instant::now();
            let map: durahash::Map<u64, u64> = crate::peers::own(dir.path(), design, false)?;
            add("create", 0, ms(from));
            let first = map.measure(Workload::PutMany, &load)?;
            add("bulk insert, new memory", plan.keys, first.elapsed.as_secs_f64() * 1e3);
            map.clear()?;
            let again = map.measure(Workload::PutMany, &load)?;
            add("bulk insert, touched memory", plan.keys, again.elapsed.as_secs_f64() * 1e3);
        }
    }
    Ok(samples.rows().collect())
}
