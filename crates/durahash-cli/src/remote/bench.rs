//! `remote bench`: how fast an index in the memory of nodes is, for threads that wait for each operation.

use std::time::{SystemTime, UNIX_EPOCH};

use durahash::ErrorKind;
use durahash_bench::driver::{self, Table, Timed};
use durahash_bench::workload::{Workload, Workloads};
use durahash_bench::{Config, Error, Machine, Progress as _, Report, Row, Setup, clock_ns};

use super::index::Index;
use super::memory::Memory;
use crate::args::remote::RemoteBench;
use crate::bench::{Parts, failed, tell, try_saved};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::store::{Pair, Store};

/// The workloads, in an order in which each finds its keys. `Delete` does not remove the inserts of others, so
/// YCSB D and the mixed workload are not among them: the index is empty afterwards.
const WORKLOADS: [Workload; 11] = [
    Workload::Load,
    Workload::Hit,
    Workload::Miss,
    Workload::GetMany,
    Workload::Update,
    Workload::YcsbA,
    Workload::YcsbB,
    Workload::YcsbC,
    Workload::YcsbF,
    Workload::Delete,
    Workload::PutMany,
];
const REPEATS: u64 = 3;
const DESIGN: &str = "sephash";

/// `durahash remote bench`.
pub(super) fn bench<M: Memory>(
    memory: M,
    addresses: &[String],
    args: &RemoteBench,
) -> Result<Exit, Failure> {
    let defaults = Config::default();
    let seed = defaults.seed;
    let config = Config { keys: args.keys, threads: args.threads.clone(), ..defaults };
    config.check().map_err(failed)?;
    try_saved(&args.saved)?;
    let index = Index::open_or_create(memory, addresses)?;
    if let Some(first) = index.entries().next() {
        first.map_err(|e| index.failed(&e))?;
        let message = format!("{}: the index has entries; measure in an empty one", index.name());
        return Err(Failure::new(Exit::Usage, message));
    }
    // What earlier runs have left in memory. Where there are other clients, it stays theirs.
    match index.map().sweep() {
        Err(e) if !matches!(e.kind(), ErrorKind::Locked) => return Err(index.failed(&e)),
        _ => {}
    }
    let workloads = Workloads::new(args.keys, seed);
    let rows = measure(&index, args, &workloads).map_err(|e| {
        let mut failure = match e {
            Error::Table(e) => index.failed(&e),
            e => failed(e),
        };
        if remove_all(&index, &workloads).is_err() {
            failure.add("keys that were put may still be in the index");
        }
        failure
    })?;
    let setup = Setup {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: None,
        unix_seconds: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        designs: vec![DESIGN.into()],
        keys: args.keys,
        threads: args.threads.iter().map(|n| *n as u64).collect(),
        medium: format!("memory of {} over {}", index.name(), M::OVER),
        durability: "an operation that has returned stays as long as the nodes do".into(),
        repeats: REPEATS,
        seed,
        clock_ns: clock_ns(),
        ..Setup::default()
    };
    index.close()?;
    tell(&Report { machine: Machine::this(), setup, rows }, &args.saved)
}

/// Throughput, and in a round of its own the latency of each operation.
fn measure<M: Memory>(
    index: &Index<M>,
    args: &RemoteBench,
    workloads: &Workloads,
) -> Result<Vec<Row>, Error> {
    let mut progress = Parts(Progress::none());
    let total = args.threads.len() as u64 * (REPEATS + 1) * WORKLOADS.len() as u64;
    let mut done = 0;
    let mut rows = Vec::new();
    for &threads in &args.threads {
        let mut samples = vec![Vec::new(); WORKLOADS.len()];
        for round in 0..=REPEATS {
            for (workload, samples) in WORKLOADS.into_iter().zip(&mut samples) {
                progress.at(done, total, &format!("{}, threads: {threads}", workload.name()));
                done += 1;
                let streams = workloads.draw(workload, threads, round);
                let timed = if round == REPEATS { Timed::Each } else { Timed::Whole };
                let run = driver::run(index, workload, &streams, timed)?;
                let row = |table: &str, metric: &str, value: f64| Row {
                    table: table.into(),
                    design: DESIGN.into(),
                    case: workload.name().into(),
                    threads: threads as u64,
                    keys: args.keys,
                    metric: metric.into(),
                    value,
                    min: value,
                    max: value,
                };
                if round < REPEATS {
                    samples.push(run.ops_per_s());
                    continue;
                }
                samples.sort_by(f64::total_cmp);
                let (min, max) = (samples[0], samples[samples.len() - 1]);
                let value = samples[samples.len() / 2];
                let throughput = row("throughput", "ops_per_s", value);
                rows.push(Row { min, max, ..throughput });
                for (metric, quantile) in [("p50_ns", 0.5), ("p99_ns", 0.99)] {
                    let ns = run.latency.value_at_quantile(quantile) as f64;
                    rows.push(row("latency", metric, ns));
                }
                rows.push(row("latency", "max_ns", run.latency.max() as f64));
            }
            // Of what was put in batches.
            let streams = workloads.draw(Workload::Delete, threads, round);
            driver::run(index, Workload::Delete, &streams, Timed::Whole)?;
        }
    }
    Ok(rows)
}

/// Removes the keys that are there, after a failure.
fn remove_all<M: Memory>(index: &Index<M>, workloads: &Workloads) -> durahash::Result<()> {
    let ops = workloads.draw(Workload::Delete, 1, 0);
    ops.iter().flatten().try_for_each(|op| Store::remove(index, &op.key.to_le_bytes()).map(drop))
}

fn word(bytes: &[u8]) -> Result<u64, Error> {
    let word = bytes.try_into().map(u64::from_le_bytes);
    word.map_err(|_| Error::Wrong { what: format!("a value has {} bytes", bytes.len()) })
}

impl<M: Memory> Table for Index<M> {
    fn get(&self, key: u64) -> Result<Option<u64>, Error> {
        let value = self.map().get(&key.to_le_bytes())?;
        value.map(|value| word(&value)).transpose()
    }

    fn put(&self, key: u64, value: u64) -> Result<(), Error> {
        Ok(self.map().put(&key.to_le_bytes(), &value.to_le_bytes())?)
    }

    fn remove(&self, key: u64) -> Result<bool, Error> {
        Ok(self.map().take(&key.to_le_bytes())?.is_some())
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<(), Error> {
        let pairs: Vec<Pair> = pairs
            .iter()
            .map(|(key, value)| (key.to_le_bytes().to_vec(), value.to_le_bytes().to_vec()))
            .collect();
        Ok(self.map().put_many(&pairs)?)
    }
}
