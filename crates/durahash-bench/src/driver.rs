//! Runs drawn operations against a table, by threads that start together, and takes the time.

use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use durahash_media::process::spawn_scoped;
use hdrhistogram::Histogram;

use crate::error::{Error, Result};
use crate::workload::{Kind, Op, Workload};

/// Keys of a batch.
pub const BATCH: usize = 64;

/// The longest latency that is told apart.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// A map of words that can be measured, ours or another one. When an operation returns, it is as durable as
/// the table promises.
pub trait Table: Sync {
    /// The value of `key`.
    fn get(&self, key: u64) -> Result<Option<u64>>;

    /// Inserts `key` or replaces its value.
    fn put(&self, key: u64, value: u64) -> Result<()>;

    /// Removes `key`; true if it was there.
    fn remove(&self, key: u64) -> Result<bool>;

    /// The values of many keys, into `out`, which is as long.
    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) -> Result<()> {
        for (key, out) in keys.iter().zip(out) {
            *out = self.get(*key)?;
        }
        Ok(())
    }

    /// Inserts or replaces many pairs.
    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        pairs.iter().try_for_each(|(key, value)| self.put(*key, *value))
    }

    /// How many pairs [`put_many`](Table::put_many) likes best.
    fn put_batch(&self) -> usize {
        BATCH
    }
}

impl Table for durahash::Map<u64, u64> {
    #[inline]
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(durahash::Map::get(self, &key)?)
    }

    #[inline]
    fn put(&self, key: u64, value: u64) -> Result<()> {
        Ok(durahash::Map::put(self, &key, &value)?)
    }

    #[inline]
    fn remove(&self, key: u64) -> Result<bool> {
        Ok(durahash::Map::remove(self, &key)?.is_some())
    }

    #[inline]
    fn get_many(&self, keys: &[u64], out: &mut [Option<u64>]) -> Result<()> {
        Ok(durahash::Map::get_many(self, keys, out)?)
    }

    #[inline]
    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        Ok(durahash::Map::put_many(self, pairs)?)
    }
}

/// The unit that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// The whole run: no clock is read in between.
    Whole,
    /// Every operation, or every batch. The clock costs some of the throughput, so a run tells
    /// either of them.
    Each,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Operations, those of batches each for itself.
    pub ops: u64,
    /// From the first thread's start to the last one's end.
    pub elapsed: Duration,
    /// Nanoseconds of each operation, or each batch; empty unless each was timed.
    pub latency: Histogram<u64>,
}

impl Run {
    /// Operations per second.
    #[must_use]
    pub fn ops_per_s(&self) -> f64 {
        self.ops as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// A histogram of nanoseconds, to three digits.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are in order")
}

/// Runs `workload` as drawn: a thread for each stream. Every lookup and removal must find what the
/// workload says is there, or the run fails.
///
/// # Errors
/// Those of the table; [`Error::Wrong`] where a key is missing, or is there and must not be.
pub fn run(
    table: &(impl Table + ?Sized),
    workload: Workload,
    streams: &[Vec<Op>],
    timed: Timed,
) -> Result<Run> {
    let (elapsed, parts) = together(streams, |ops| {
        let mut latency = histogram();
        let found = match timed {
            Timed::Whole => execute(table, workload, ops, &mut Untimed),
            Timed::Each => execute(table, workload, ops, &mut latency),
        }?;
        Ok((found, latency))
    })?;
    let found: u64 = parts.iter().map(|(found, _)| found).sum();
    let expected = match workload {
        Workload::Miss => 0,
        _ => streams.iter().flatten().filter(|op| op.kind != Kind::Put).count() as u64,
    };
    if found != expected {
        let what = format!("{}: {found} keys found, {expected} expected", workload.name());
        return Err(Error::Wrong { what });
    }
    let mut latency = histogram();
    for (_, part) in &parts {
        latency += part;
    }
    Ok(Run { ops: streams.iter().map(|ops| ops.len() as u64).sum(), elapsed, latency })
}

/// Does `work` for each of `items` on a thread of its own; all begin at the same time. How long it
/// took from the first one's start to the last one's end.
pub fn together<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<(Duration, Vec<R>)> {
    let start = Barrier::new(items.len());
    let parts = on_threads(items, |item| {
        start.wait();
        let from = Instant::now();
        let done = work(item)?;
        Ok((from, Instant::now(), done))
    })?;
    let from = parts.iter().map(|part| part.0).min();
    let to = parts.iter().map(|part| part.1).max();
    let elapsed = from.zip(to).map_or(Duration::ZERO, |(from, to)| to - from);
    Ok((elapsed, parts.into_iter().map(|part| part.2).collect()))
}

/// Does `work` for each of `items`, on a thread of its own. Where the system refuses one of the
/// threads nothing is done: the others might wait for it.
pub(crate) fn on_threads<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let complete = OnceLock::<bool>::new();
    let (complete, work) = (&complete, &work);
    std::thread::scope(|scope| {
        let threads = items.into_iter().map(|item| {
            spawn_scoped(scope, "durahash-bench", move || complete.wait().then(|| work(item)))
        });
        let threads: std::io::Result<Vec<_>> = threads.collect();
        complete.get_or_init(|| threads.is_ok());
        let threads = threads.map_err(|e| Error::io("starting a thread", None, e))?;
        let done = threads.into_iter().filter_map(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        done.collect()
    })
}

/// Where the time of an operation goes.
trait Clock {
    fn time<R>(&mut self, f: impl FnOnce() -> R) -> R;
}

struct Untimed;

impl Clock for Untimed {
    #[inline(always)]
    fn time<R>(&mut self, f: impl FnOnce() -> R) -> R {
        f()
    }
}

impl Clock for Histogram<u64> {
    #[inline(always)]
    fn time<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let from = Instant::now();
        let done = f();
        self.saturating_record(from.elapsed().as_nanos() as u64);
        done
    }
}

/// How many lookups and removals found their key.
fn execute(
    table: &(impl Table + ?Sized),
    workload: Workload,
    ops: &[Op],
    clock: &mut impl Clock,
) -> Result<u64> {
    match workload {
        Workload::GetMany => execute_get_many(table, ops, clock),
        Workload::PutMany => execute_put_many(table, ops, clock).map(|()| 0),
        _ => execute_single(table, ops, clock),
    }
}

fn execute_single(
    table: &(impl Table + ?Sized),
    ops: &[Op],
    clock: &mut impl Clock,
) -> Result<u64> {
    let mut found = 0;
    for (i, op) in ops.iter().enumerate() {
        // Values differ from round to round, so that an update has something to change.
        let value = op.key ^ i as u64;
        found += u64::from(clock.time(|| match op.kind {
            Kind::Get => table.get(op.key).map(|value| value.is_some()),
            Kind::Put => table.put(op.key, value).map(|()| false),
            Kind::ReadModifyWrite => {
                let old = table.get(op.key)?;
                let new = old.map_or(value, |old| old.wrapping_add(1));
                table.put(op.key, new).map(|()| old.is_some())
            }
            Kind::Remove => table.remove(op.key),
        })?);
    }
    Ok(found)
}

fn execute_get_many(
    table: &(impl Table + ?Sized),
    ops: &[Op],
    clock: &mut impl Clock,
) -> Result<u64> {
    let mut found = 0;
    let (mut keys, mut out) = ([0; BATCH], [None; BATCH]);
    for batch in ops.chunks(BATCH) {
        let (keys, out) = (&mut keys[..batch.len()], &mut out[..batch.len()]);
        for (key, op) in keys.iter_mut().zip(batch) {
            *key = op.key;
        }
        clock.time(|| table.get_many(keys, out))?;
        found += out.iter().flatten().count() as u64;
    }
    Ok(found)
}

fn execute_put_many(
    table: &(impl Table + ?Sized),
    ops: &[Op],
    clock: &mut impl Clock,
) -> Result<()> {
    let mut pairs = vec![(0, 0); table.put_batch()];
    for batch in ops.chunks(pairs.len()) {
        let pairs = &mut pairs[..batch.len()];
        for (pair, op) in pairs.iter_mut().zip(batch) {
            *pair = (op.key, op.key);
        }
        clock.time(|| table.put_many(pairs))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::RwLock;

    use super::*;
    use crate::workload::Workloads;

    impl Table for RwLock<HashMap<u64, u64>> {
        fn get(&self, key: u64) -> Result<Option<u64>> {
            Ok(self.read().unwrap().get(&key).copied())
        }
        fn put(&self, key: u64, value: u64) -> Result<()> {
            self.write().unwrap().insert(key, value);
            Ok(())
        }
        fn remove(&self, key: u64) -> Result<bool> {
            Ok(self.write().unwrap().remove(&key).is_some())
        }
    }

    #[test]
    fn counts_operations_and_times_each_if_told_to() {
        let workloads = Workloads::new(1000, 3);
        for threads in [1, 3] {
            let (common, own) = <(RwLock<HashMap<u64, u64>>, RwLock<_>)>::default();
            for workload in Workload::ALL {
                let table = if workload == Workload::PutMany { &own } else { &common };
                let streams = workloads.draw(workload, threads, 0);
                let timed = if threads == 1 { Timed::Each } else { Timed::Whole };
                let run = run(table, workload, &streams, timed).unwrap();
                assert_eq!(run.ops, 1000);
                let samples = match (timed, workload) {
                    (Timed::Whole, _) => 0,
                    (_, Workload::GetMany | Workload::PutMany) => 1000_u64.div_ceil(BATCH as u64),
                    _ => 1000,
                };
                assert_eq!(run.latency.len(), samples, "{workload:?}");
            }
        }
    }

    #[test]
    fn a_lost_key_is_no_result() {
        let table = RwLock::<HashMap<u64, u64>>::default();
        let workloads = Workloads::new(100, 3);
        let load = workloads.draw(Workload::Load, 1, 0);
        run(&table, Workload::Load, &load, Timed::Whole).unwrap();
        table.remove(load[0][17].key).unwrap();
        let delete = workloads.draw(Workload::Delete, 1, 0);
        let wrong = run(&table, Workload::Delete, &delete, Timed::Whole);
        assert!(matches!(wrong, Err(Error::Wrong { .. })));
        // And one that is found where it must not be.
        table.put(workloads.draw(Workload::Miss, 1, 0)[0][0].key, 1).unwrap();
        let miss = workloads.draw(Workload::Miss, 1, 0);
        assert!(run(&table, Workload::Miss, &miss, Timed::Whole).is_err());
    }
}
