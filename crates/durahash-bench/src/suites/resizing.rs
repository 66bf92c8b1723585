//! Throughput of one thread in slices of time, before, during and after a resize of Rewo-Hash (Fig. 16).
//!
//! Inserts do the resize themselves, as every writer does. Lookups and updates leave it to a thread that inserts
//! until it has begun, and then does steps until there are none left.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use durahash::{Design, IndexStats, Map};

use super::{About, Recorder};
use crate::driver::together;
use crate::error::{Error, Result};
use crate::workload::skew::{Drawn, Skew};
use crate::workload::{Kind, Op, Workloads};

/// How long a slice is, in milliseconds.
pub(crate) const SLICE_MS: u64 = 10;
/// The slices before a resize of lookups or updates, and those after any.
const CALM: usize = 50;
/// Operations between two looks at the clock.
const BATCH: usize = 16;
/// Where the numbers of keys begin that are inserted beside lookups and updates.
const BESIDES: u64 = 3 << 56;
/// Work of each run, in runs of all keys.
const WORK: u64 = 4;

/// With the cached table as the run has it, and without.
const SIDES: [&str; 2] = ["rewo", "rewo, no cache"];
/// The work of the one thread.
const CASES: [&str; 4] = ["lookups", "skewed lookups", "updates", "inserts"];
/// The parts of a run.
const PARTS: [&str; 3] = ["before", "during", "after"];

/// The work of the suite, in runs of all keys.
pub(super) fn work() -> u64 {
    WORK * (SIDES.len() * CASES.len()) as u64
}

/// Resizes that have begun, and slots that they moved.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    begun: u64,
    moved: u64,
}

impl Seen {
    fn of(stats: &IndexStats) -> Self {
        let (rebuilds, moved) = stats.rewo.map_or((0, 0), |rewo| (rewo.rebuilds, rewo.migrated));
        Seen { begun: stats.splits + rebuilds, moved }
    }
}

/// Throughput in slices of time, and what was seen at the end of each.
struct Slices<'a> {
    map: &'a Map<u64, u64>,
    first: Seen,
    all: Vec<(f64, Seen)>,
    from: Instant,
    ops: usize,
}

impl<'a> Slices<'a> {
    fn new(map: &'a Map<u64, u64>) -> Self {
        let first = Seen::of(&map.index_stats());
        Slices { map, first, all: Vec::new(), from: Instant::now(), ops: 0 }
    }

    /// Counts operations; true if a slice ended with them.
    fn add(&mut self, ops: usize) -> bool {
        self.ops += ops;
        let elapsed = self.from.elapsed();
        if elapsed < Duration::from_millis(SLICE_MS) {
            return false;
        }
        let seen = Seen::of(&self.map.index_stats());
        self.all.push((self.ops as f64 / elapsed.as_secs_f64(), seen));
        (self.from, self.ops) = (Instant::now(), 0);
        true
    }

    /// True if a resize has begun and nothing moved since so many slices, or another one has begun: that
    /// slice is dropped, unless both began in it.
    fn is_over(&mut self) -> bool {
        let Some((_, last)) = self.all.last().copied() else {
            return false;
        };
        if last.begun > self.first.begun + 1 {
            let before = self.all.iter().rev().nth(1);
            if before.is_some_and(|(_, seen)| seen.begun > self.first.begun) {
                self.all.pop();
            }
            return true;
        }
        let calm = self.all.iter().rev().take_while(|(_, seen)| *seen == last).count();
        last.begun > self.first.begun && calm > CALM
    }

    /// The slices before a resize, during it and after. It goes on from the first at whose end it had begun
    /// to the last in which something moved.
    fn parts(&self) -> Option<[Vec<f64>; 3]> {
        let seen = |i: usize| self.all[i].1;
        let from = (0..self.all.len()).find(|i| seen(*i).begun > self.first.begun)?;
        let last = (from + 1..self.all.len()).rfind(|i| seen(*i).moved != seen(*i - 1).moved);
        let to = last.unwrap_or(from) + 1;
        let rates = |part: &[(f64, Seen)]| part.iter().map(|(rate, _)| *rate).collect();
        Some([rates(&self.all[..from]), rates(&self.all[from..to]), rates(&self.all[to..])])
    }
}

impl Recorder<'_> {
    pub(super) fn slices(&mut self) -> Result<()> {
        let config = self.config;
        for case in CASES {
            for side in SIDES {
                self.next(WORK, &format!("{side}: {case} beside a resize"));
                let map = if side == SIDES[0] {
                    self.bench.create(Design::Rewo)?
                } else {
                    self.bench.with_cache(0).create(Design::Rewo)?
                };
                let workloads = Workloads::new(config.keys, config.seed);
                let (keys, parts) = if case == "inserts" {
                    let keys = fill(&map, &workloads, 60)?;
                    (keys, inserts(&map, &workloads, keys)?)
                } else {
                    let keys = fill(&map, &workloads, 91)?;
                    let drawn = if case == "skewed lookups" { Drawn::Zipf } else { Drawn::Uniform };
                    let reads = if case == "updates" { 0.0 } else { 1.0 };
                    let workloads = Workloads::new(keys, config.seed);
                    let ops = Skew::new(&workloads).draw(drawn, reads, 1, 1).swap_remove(0);
                    (keys, beside(&map, &workloads, &ops)?)
                };
                let parts = parts.ok_or_else(|| Error::Wrong { what: "no resize began".into() })?;
                self.tell(side, case, keys, &parts);
            }
        }
        Ok(())
    }

    /// Every slice in its order, the medians, and throughput during the resize as a part of the usual.
    fn tell(&mut self, design: &str, case: &str, keys: u64, parts: &[Vec<f64>; 3]) {
        let about = About { table: "slice", design, case, threads: 1, keys };
        for (name, rates) in PARTS.iter().zip(parts) {
            rates.iter().for_each(|rate| self.add(&about, &format!("{name} ops_per_s"), *rate));
        }
        let about = About { table: "slices", ..about };
        for (name, rates) in PARTS.iter().zip(parts) {
            self.add(&about, &format!("{name}_ms"), (rates.len() as u64 * SLICE_MS) as f64);
        }
        let [before, during, after] = parts;
        self.add_samples(&about, "during_per_s", during);
        let usual = [&before[..], after].concat();
        // Of few keys there may be no slice but those of the resize.
        if !usual.is_empty() {
            self.add_samples(&about, "usual_per_s", &usual);
            let [usual, during] =
                ["usual_per_s", "during_per_s"].map(|metric| self.value_of(&about, metric));
            self.add(&about, "ratio", during / usual);
        }
    }

    /// Of a row that was just added.
    fn value_of(&self, about: &About<'_>, metric: &str) -> f64 {
        let found = self.rows.iter().rfind(|row| row.table == about.table && row.metric == metric);
        found.map_or(0.0, |row| row.value)
    }
}

/// Loads at least half of the keys, and until so many hundredths of the slots are used; how many keys.
fn fill(map: &Map<u64, u64>, workloads: &Workloads, hundredths: u64) -> Result<u64> {
    let mut keys = 0;
    loop {
        let key = workloads.key(keys);
        map.put(&key, &key)?;
        keys += 1;
        if keys >= workloads.keys() / 2 && keys.is_multiple_of(BATCH as u64) {
            let stats = map.index_stats();
            if stats.slots_used * 100 >= stats.slots * hundredths {
                // The work that its last resize left must not count for the next one.
                while hundredths < 80 && map.step()? {}
                return Ok(keys);
            }
        }
    }
}

/// Inserts, from the key of a number on.
fn inserts(map: &Map<u64, u64>, workloads: &Workloads, from: u64) -> Result<Option<[Vec<f64>; 3]>> {
    let mut slices = Slices::new(map);
    let mut number = from;
    loop {
        for _ in 0..BATCH {
            let key = workloads.key(number);
            map.put(&key, &key)?;
            number += 1;
        }
        if slices.add(BATCH) && slices.is_over() {
            return Ok(slices.parts());
        }
    }
}

/// The two threads.
enum Side {
    Ops,
    Resize,
}

/// Lookups and updates of keys that are there, while another thread resizes.
fn beside(map: &Map<u64, u64>, workloads: &Workloads, ops: &[Op]) -> Result<Option<[Vec<f64>; 3]>> {
    let (count, is_ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (_, parts) = together(&[Side::Ops, Side::Resize], |side| match side {
        Side::Ops => {
            let found = in_slices(map, ops, &count, &is_ended);
            // Also after an error: no thread must wait for more.
            is_ended.store(true, Ordering::Relaxed);
            found
        }
        Side::Resize => {
            while count.load(Ordering::Relaxed) < CALM && !is_ended.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let done = resize(map, workloads, &is_ended);
            if done.is_err() {
                is_ended.store(true, Ordering::Relaxed);
            }
            done?;
            Ok(None)
        }
    })?;
    Ok(parts.into_iter().next().flatten())
}

/// Inserts until a resize begins, and does the rest of it.
fn resize(map: &Map<u64, u64>, workloads: &Workloads, is_ended: &AtomicBool) -> Result<()> {
    let before = Seen::of(&map.index_stats());
    let mut besides = (BESIDES..).map(|number| workloads.key(number));
    let has_begun = || Seen::of(&map.index_stats()).begun != before.begun;
    while !has_begun() && !is_ended.load(Ordering::Relaxed) {
        besides.by_ref().take(BATCH).try_for_each(|key| map.put(&key, &key))?;
    }
    while map.step()? {}
    Ok(())
}

/// Does these over and over until a resize is over, or nobody does one; `count` says how many slices have
/// ended.
fn in_slices(
    map: &Map<u64, u64>,
    ops: &[Op],
    count: &AtomicUsize,
    is_ended: &AtomicBool,
) -> Result<Option<[Vec<f64>; 3]>> {
    let mut slices = Slices::new(map);
    for ops in ops.chunks(BATCH).cycle() {
        for op in ops {
            let found = match op.kind {
                Kind::Get => map.get(&op.key)?,
                Kind::Put | Kind::ReadModifyWrite | Kind::Remove => map.insert(&op.key, &op.key)?,
            };
            if found.is_none() {
                let what = format!("key {:#x} is there and was not found beside a resize", op.key);
                return Err(Error::Wrong { what });
            }
        }
        if slices.add(ops.len()) {
            count.fetch_add(1, Ordering::Relaxed);
            if slices.is_over() || is_ended.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok(slices.parts())
}

#[cfg(test)]
mod tests {
    use durahash::Options;

    use super::*;

    #[test]
    fn slices_are_told_apart_by_what_moves() {
        let map = Options::new().in_memory::<Map<u64, u64>>().unwrap();
        let mut slices = Slices::new(&map);
        assert!(!slices.is_over());
        assert_eq!(slices.parts(), None);
        let add = |slices: &mut Slices<'_>, begun, moved, n: usize| {
            let rate = (begun * 100 + moved) as f64;
            slices.all.extend(std::iter::repeat_n((rate, Seen { begun, moved }), n));
        };
        add(&mut slices, 0, 0, 2);
        add(&mut slices, 1, 5, 1);
        add(&mut slices, 1, 7, 1);
        assert!(!slices.is_over());
        add(&mut slices, 1, 9, CALM);
        assert!(!slices.is_over());
        add(&mut slices, 1, 9, 1);
        assert!(slices.is_over());
        let parts = slices.parts().unwrap();
        assert_eq!(parts.each_ref().map(Vec::len), [2, 3, CALM]);
        assert_eq!(parts[1], [105.0, 107.0, 109.0]);
        // Another one.
        add(&mut slices, 2, 9, 1);
        assert!(slices.is_over());
        assert_eq!(slices.parts().unwrap()[2].len(), CALM);
    }
}
