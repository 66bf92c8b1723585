//! `remote bench`: how fast an index in the memory of nodes is, for threads that wait for each operation.

use durahash_bench::driver::{self, Table, Timed};
use durahash_bench::workload::{Workload, Workloads};
use durahash_bench::{About, Config, Error, Medium, Recorder};

use super::index::Index;
use super::memory::Memory;
use crate::args::remote::RemoteBench;
use crate::bench::{Parts, failed, tell, try_saved};
use crate::exit::{Exit, Failure};
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
const DESIGN: &str = "sephash";

/// `durahash remote bench`.
pub(super) fn bench<M: Memory>(
    memory: M,
    addresses: &[String],
    args: &RemoteBench,
) -> Result<Exit, Failure> {
    let (keys, threads) = (args.keys, args.threads.clone());
    let config = Config { keys, threads, medium: Medium::Dram, ..Config::default() };
    config.check().map_err(failed)?;
    try_saved(&args.saved)?;
    let index = Index::open_or_create(memory, addresses)?;
    if let Some(first) = index.entries().next() {
        first.map_err(|e| index.failed(&e))?;
        let message = format!("{}: the index has entries; measure in an empty one", index.name());
        return Err(Failure::new(Exit::Usage, message));
    }
    // Finds memory that clients left when they died.
    index.map().sweep().map_err(|e| index.failed(&e))?;
    let workloads = Workloads::new(config.keys, config.seed);
    let rounds = args.threads.len() as u64 * (u64::from(config.repeats) + 1);
    let mut progress = Parts::default();
    let work = rounds * WORKLOADS.len() as u64;
    let measured = durahash_bench::measure(&config, work, &mut progress, &|recorder| {
        measure(&index, &workloads, recorder)
    });
    drop(progress);
    let mut report = measured.map_err(|e| {
        let mut failure = match e {
            Error::Table(e) => index.failed(&e),
            e => failed(e),
        };
        if remove_all(&index, &workloads).is_err() {
            failure.add("keys that were put may still be in the index");
        }
        failure
    })?;
    let setup = &mut report.setup;
    setup.designs = vec![DESIGN.into()];
    setup.medium = format!("memory of {} over {}", index.name(), M::OVER);
    setup.durability = "an operation that has returned stays as long as the nodes do".into();
    setup.written_bytes = 0;
    index.close()?;
    tell(&report, &args.saved)
}

/// Throughput, and in a round of its own the latency of each operation.
fn measure<M: Memory>(
    index: &Index<M>,
    workloads: &Workloads,
    recorder: &mut Recorder<'_>,
) -> Result<(), Error> {
    let config = recorder.config();
    let last = u64::from(config.repeats);
    for &threads in &config.threads {
        let mut samples = vec![Vec::new(); WORKLOADS.len()];
        for round in 0..=last {
            for (workload, samples) in WORKLOADS.into_iter().zip(&mut samples) {
                let case = workload.name();
                recorder.next(1, &format!("{case}, threads: {threads}"));
                let streams = workloads.draw(workload, threads, round);
                let timed = if round == last { Timed::Each } else { Timed::Whole };
                let run = driver::run(index, workload, &streams, timed)?;
                if round < last {
                    samples.push(run.ops_per_s());
                    continue;
                }
                let (table, design, keys) = ("throughput", DESIGN, config.keys);
                let about = About { table, design, case, threads, keys };
                recorder.add_samples(&about, "ops_per_s", samples);
                let about = About { table: "latency", ..about };
                let percentiles = [("p50_ns", 2), ("p99_ns", 100)];
                recorder.add_percentiles(&about, &run.latency, &percentiles);
            }
            // Of what was put in batches.
            let streams = workloads.draw(Workload::Delete, threads, round);
            driver::run(index, Workload::Delete, &streams, Timed::Whole)?;
        }
    }
    Ok(())
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

    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) -> Result<(), Error> {
        let keys: Vec<_> = keys.iter().map(|key| key.to_le_bytes().to_vec()).collect();
        for (value, out) in self.map().get_many(&keys)?.into_iter().zip(out) {
            *out = value.map(|value| word(&value)).transpose()?;
        }
        Ok(())
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
