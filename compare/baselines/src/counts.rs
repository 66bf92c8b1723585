//! The designs and the tables of other papers side by side: counts, which are the same on every machine.

use std::sync::Arc;

use durahash::IndexStats;
use durahash_bench::workload::{Kind, Op, Workload, Workloads};
use durahash_bench::{About, Config, Make, Recorder, Result, load_factor};
use durahash_media::Dram;
use durahash_media::metered::{Counts, Meter, Metered};

use crate::contender::Contender;
use crate::tables::{Baseline, Subject};

/// Address space for a table.
const BYTES: u64 = 16 << 30;

/// The work of one table, in runs of all keys.
const WORK: u64 = 3;

/// Points of the growth at which operations are counted, over the last two doublings: a split in four has come round once.
const POINTS: u64 = 24;
/// Operations of each kind that are counted at a point.
const COUNTED: u64 = 500;
/// Where the numbers of keys begin that are inserted and removed again.
const PASSING: u64 = 5 << 56;

fn contenders(config: &Config) -> Vec<Contender> {
    let designs = config.designs.iter().map(|design| Contender::of_design(*design, config.seed));
    designs.chain(Baseline::ALL.map(Contender::of_baseline)).collect()
}

/// The work, in runs of all keys.
pub(crate) fn work(config: &Config) -> u64 {
    WORK * contenders(config).len() as u64
}

/// Counts and fills a table of each kind.
pub(crate) fn measure(recorder: &mut Recorder<'_>) -> Result<()> {
    for contender in contenders(recorder.config()) {
        count(recorder, &contender)?;
        fill(recorder, &contender)?;
    }
    Ok(())
}

/// An empty table on a medium that counts.
pub(crate) fn metered(contender: &Contender) -> Result<(Box<dyn Subject>, Arc<Meter>)> {
    let medium = Metered::new(Dram::new(BYTES)?);
    let meter = Arc::clone(medium.meter());
    Ok((contender.clone().on(medium)?, meter))
}

/// Operations, and what they did to the medium.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum {
    counts: Counts,
    operations: u64,
}

impl Sum {
    fn add(&mut self, counts: Counts, operations: u64) {
        (self.counts, self.operations) = (self.counts + counts, self.operations + operations);
    }

    /// Rows of the means.
    fn tell(&self, recorder: &mut Recorder<'_>, about: &About<'_>) {
        let each = |n: u64| n as f64 / self.operations.max(1) as f64;
        for (name, n) in self.counts.named().filter(|(name, _)| *name != "operations") {
            recorder.add(about, name, each(n));
        }
        recorder.add(about, "waits", each(self.counts.fences + self.counts.drains));
    }
}

/// Counts what operations do to the medium over the last two doublings of a table: lookups, updates and removals at points
/// of the growth, every insert between, and how full the table is after each.
pub(crate) fn count(recorder: &mut Recorder<'_>, contender: &Contender) -> Result<()> {
    let name = &contender.name;
    let workloads = Workloads::new(recorder.config().keys, recorder.config().seed);
    let (keys, load) = (workloads.keys(), &workloads.draw(Workload::Load, 1, 0)[0]);
    let (first, later) = load.split_at(load.len() / 4);
    let mut sums: Vec<(&str, Sum)> = Vec::new();
    let mut add = |case, counts, operations| {
        let at = sums.iter().position(|(known, _)| *known == case).unwrap_or_else(|| {
            sums.push((case, Sum::default()));
            sums.len() - 1
        });
        sums[at].1.add(counts, operations);
    };

    recorder.next(1, &format!("{name}: counting along its growth"));
    let (table, meter) = metered(contender)?;
    first.iter().try_for_each(|op| table.put(op.key, op.key))?;
    for (op, count) in later.iter().zip(1..) {
        table.put(op.key, op.key)?;
        let point = |count: u64| count * POINTS / later.len() as u64;
        if point(count) != point(count - 1) {
            let keys = first.len() as u64 + count;
            let about = About { table: "along", design: name, case: "slots", threads: 1, keys };
            recorder.add(&about, "load_factor", load_factor(&table.figures()));
            for (case, sum) in count_at(recorder, &about, &*table, &meter, keys)? {
                // Inserts are counted all.
                if case != "insert" {
                    add(case, sum.counts, sum.operations);
                }
            }
        }
    }

    recorder.next(1, &format!("{name}: counting inserts"));
    let (table, meter) = metered(contender)?;
    first.iter().try_for_each(|op| table.put(op.key, op.key))?;
    let (mut loads, mut before) =
        ((f64::MAX, 0.0, 0.0f64), (events(&table.figures()), meter.counts()));
    for op in later {
        table.put(op.key, op.key)?;
        let (stats, counts) = (table.figures(), meter.counts());
        let case = if events(&stats) == before.0 { "insert" } else { "insert that splits" };
        add(case, counts - before.1, 1);
        add("insert, splits included", counts - before.1, 1);
        let load = load_factor(&stats);
        loads = (loads.0.min(load), loads.1 + load, loads.2.max(load));
        before = (events(&stats), counts);
    }

    for (case, sum) in sums {
        let about = About { table: "cost", design: name, case, threads: 1, keys };
        recorder.add(&about, "count", sum.operations as f64);
        sum.tell(recorder, &about);
    }
    let about = About { table: "cycle", design: name, case: "load", threads: 1, keys };
    recorder.add(&about, "load_factor_min", loads.0);
    recorder.add(&about, "load_factor_mean", loads.1 / later.len() as f64);
    recorder.add(&about, "load_factor_max", loads.2);
    Ok(())
}

/// What operations are looked at on a table of so many keys, which has them again afterwards.
pub(crate) fn operations(
    seed: u64,
    entries: u64,
    samples: u64,
) -> [(&'static str, Workload, Vec<Op>); 5] {
    let workloads = Workloads::new(entries, seed);
    let drawn = |workload| {
        let mut ops = workloads.draw(workload, 1, 0).swap_remove(0);
        ops.truncate(samples as usize);
        ops
    };
    let passing = |kind| {
        let key = |i| workloads.key(PASSING + entries + i);
        (0..samples).map(|i| Op { key: key(i), kind }).collect::<Vec<_>>()
    };
    [
        ("hit", Workload::Hit, drawn(Workload::Hit)),
        ("miss", Workload::Miss, drawn(Workload::Miss)),
        ("update", Workload::Update, drawn(Workload::Update)),
        ("insert", Workload::Load, passing(Kind::Put)),
        ("remove", Workload::Delete, passing(Kind::Remove)),
    ]
}

/// Counts a few operations on a table of so many keys: those that neither split nor merge.
pub(crate) fn count_at(
    recorder: &mut Recorder<'_>,
    about: &About<'_>,
    table: &dyn Subject,
    meter: &Meter,
    entries: u64,
) -> Result<[(&'static str, Sum); 5]> {
    let mut all = [("", Sum::default()); 5];
    let looked_at = operations(recorder.config().seed, entries, COUNTED);
    for ((case, _, ops), of_case) in looked_at.into_iter().zip(&mut all) {
        let mut sum = Sum::default();
        for op in ops {
            let before = (events(&table.figures()), meter.counts());
            match op.kind {
                Kind::Get => drop(table.get(op.key)?),
                Kind::Remove => drop(table.remove(op.key)?),
                Kind::Put | Kind::ReadModifyWrite => table.put(op.key, !op.key)?,
            }
            if events(&table.figures()) == before.0 {
                sum.add(meter.counts() - before.1, 1);
            }
        }
        sum.tell(recorder, &About { case, ..*about });
        *of_case = (case, sum);
    }
    Ok(all)
}

/// What splits, merges and resizes change.
fn events(stats: &IndexStats) -> [u64; 4] {
    [stats.splits, stats.merges, stats.doublings, stats.halvings]
}

/// Fills a table, and looks at how full it is.
pub(crate) fn fill(recorder: &mut Recorder<'_>, contender: &Contender) -> Result<()> {
    recorder.next(1, &format!("{}: load factor", contender.name));
    let table = contender.clone().on(Dram::new(BYTES)?)?;
    recorder.load_factors(&contender.name, &*table, &|| table.figures())
}
