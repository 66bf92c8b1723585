//! The measurements that figures name in the catalogue.
//!
//! | Run | Measures |
//! |---|---|
//! | `growth WHO` | load factors while all keys are inserted, and over the last doubling |
//! | `costs WHO` | blocks, lines, flushes and fences of each operation, and of inserts that split |
//! | `along WHO` | the same of a few operations at points of the growth |
//! | `loads WHO` | the same at load factors that filling comes by, and what operations take there |
//! | `hits WHO` | which part of lookups reads nothing of the medium |
//! | `times WHO \| WORKLOADS` | operations a second (`times.rs`) |
//! | `suite NAME` | a suite of `durahash bench` |
//! | `lists` | multimaps, and lists behind a map |
//! | `remote PART` | a part of what is simulated on nodes |
//!
//! WHO are contenders, separated by `; `.

use durahash_bench::driver::{self, Timed};
use durahash_bench::workload::skew::{Drawn, Skew};
use durahash_bench::workload::{Kind, Op, Workload, Workloads};
use durahash_bench::{About, Error, Recorder, Result, Suite, duplicates, load_factor};
use durahash_media::metered::{Counts, Meter};

use super::times;
use crate::contender::Contender;
use crate::tables::Subject;
use crate::{counts, lists, remote};

/// Points of the curves along growth, over the last two doublings: a split in four has come round once.
const POINTS: u64 = 24;
/// Operations of each kind that are counted at a point.
const COUNTED: u64 = 500;
/// Operations of each kind that are timed at a load factor: one in so many keys of the run, as inserts add to the load.
const TIMED: u64 = 50;
/// The load factors, and how near to them is near enough.
const LOADS: [f64; 4] = [0.2, 0.4, 0.6, 0.8];
const NEAR: f64 = 0.005;
/// Where the numbers of keys begin that are inserted and removed again.
const PASSING: u64 = 5 << 56;

/// Does a run.
pub(super) fn run(recorder: &mut Recorder<'_>, line: &str) -> Result<()> {
    let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (who, workloads) = rest.split_once(" | ").unwrap_or((rest, ""));
    let all = || contenders(recorder.config().keys, recorder.config().seed, who);
    match what {
        "growth" => all()?.iter().try_for_each(|one| counts::fill(recorder, one)),
        "costs" => all()?.iter().try_for_each(|one| counts::count(recorder, one)),
        "along" => all()?.iter().try_for_each(|one| along(recorder, one)),
        "loads" => all()?.iter().try_for_each(|one| loads(recorder, one)),
        "hits" => hits(recorder, &all()?),
        "times" => times::measure(recorder, &all()?, workloads),
        "suite" => {
            let suite = Suite::ALL.into_iter().find(|suite| suite.name() == rest);
            recorder.suite(suite.ok_or_else(|| unknown(line))?)
        }
        "lists" => lists::beside_multimaps(recorder, duplicates::contenders(recorder.config())),
        "remote" => remote::part(recorder, rest),
        _ => Err(unknown(line)),
    }
}

fn unknown(line: &str) -> Error {
    Error::Config { what: format!("the catalogue has a run that is not known: {line}") }
}

fn contenders(keys: u64, seed: u64, names: &str) -> Result<Vec<Contender>> {
    names.split("; ").map(|name| Contender::named(name, seed, keys)).collect()
}

/// Which part of lookups reads nothing of the medium, after as many that make copies.
fn hits(recorder: &mut Recorder<'_>, contenders: &[Contender]) -> Result<()> {
    let workloads = Workloads::new(recorder.config().keys, recorder.config().seed);
    let skew = Skew::new(&workloads);
    for contender in contenders {
        let name = &contender.name;
        recorder.next(1, &format!("{name}: counting hits"));
        let (table, meter) = counts::metered(contender)?;
        let load = workloads.draw(Workload::Load, 1, 0);
        driver::run(&*table, Workload::Load, &load, Timed::Whole)?;
        while table.step()? {}
        for drawn in Drawn::ALL {
            let mut hits = 0;
            for round in 0..=1 {
                for op in &skew.draw(drawn, 1.0, 1, round)[0] {
                    let before = meter.counts().blocks_read;
                    table.get(op.key)?;
                    hits += u64::from(round == 1 && meter.counts().blocks_read == before);
                }
            }
            let (case, keys) = (drawn.name(), workloads.keys());
            let about = About { table: "hits", design: name, case, threads: 1, keys };
            recorder.add(&about, "hits", hits as f64 / keys as f64);
        }
    }
    Ok(())
}

/// Where operations are counted or timed.
enum Look<'a> {
    Counted(&'a Meter),
    Timed,
}

/// What operations do at points of the growth.
fn along(recorder: &mut Recorder<'_>, contender: &Contender) -> Result<()> {
    recorder.next(1, &format!("{}: counting along its growth", contender.name));
    let (table, meter) = counts::metered(contender)?;
    let workloads = Workloads::new(recorder.config().keys, recorder.config().seed);
    let (keys, name) = (workloads.keys(), &contender.name);
    let first = keys / 4;
    for (op, count) in workloads.draw(Workload::Load, 1, 0)[0].iter().zip(1..) {
        table.put(op.key, op.key)?;
        let point = |count: u64| count.saturating_sub(first) * POINTS / (keys - first);
        if count > first && point(count) != point(count - 1) {
            let about =
                About { table: "along", design: name, case: "slots", threads: 1, keys: count };
            recorder.add(&about, "load_factor", load_factor(&table.figures()));
            look_at(recorder, &about, &*table, &Look::Counted(&meter), count)?;
        }
    }
    Ok(())
}

/// What operations do, and what they take, at load factors that filling comes by. A table that can is made large first,
/// the others have half of the keys.
fn loads(recorder: &mut Recorder<'_>, contender: &Contender) -> Result<()> {
    recorder.next(1, &format!("{}: counting at load factors", contender.name));
    let (table, meter) = counts::metered(contender)?;
    at_loads(recorder, contender, &*table, &Look::Counted(&meter))?;
    recorder.next(1, &format!("{}: latency at load factors", contender.name));
    let table = recorder.bench().make(contender.clone())?;
    at_loads(recorder, contender, &*table, &Look::Timed)
}

fn at_loads(
    recorder: &mut Recorder<'_>,
    contender: &Contender,
    table: &dyn Subject,
    at: &Look<'_>,
) -> Result<()> {
    let (keys, name) = (recorder.config().keys, &contender.name);
    let workloads = Workloads::new(2 * keys, recorder.config().seed);
    table.reserve(keys)?;
    let is_large = table.figures().slots >= keys / 2;
    let mut left = LOADS.to_vec();
    for number in 0..2 * keys {
        let key = workloads.key(number);
        table.put(key, key)?;
        if left.is_empty() || !is_large && number < keys / 2 {
            continue;
        }
        let load = load_factor(&table.figures());
        let Some(found) = left.iter().position(|wanted| (load - wanted).abs() < NEAR) else {
            continue;
        };
        while table.step()? {}
        let of_look = match at {
            Look::Counted(_) => "load counts",
            Look::Timed => "load times",
        };
        // The axis is the load, in hundredths.
        let hundredths = (left.swap_remove(found) * 100.0).round() as u64;
        let about =
            About { table: of_look, design: name, case: "slots", threads: 1, keys: hundredths };
        recorder.add(&about, "load_factor", load);
        recorder.add(&about, "entries", (number + 1) as f64);
        look_at(recorder, &about, table, at, number + 1)?;
    }
    Ok(())
}

/// Counts or times a few operations on a table of so many keys, which has them again afterwards.
fn look_at(
    recorder: &mut Recorder<'_>,
    about: &About<'_>,
    table: &dyn Subject,
    at: &Look<'_>,
    entries: u64,
) -> Result<()> {
    let workloads = Workloads::new(entries, recorder.config().seed);
    let samples = match at {
        Look::Counted(_) => COUNTED,
        Look::Timed => recorder.config().keys / TIMED,
    };
    let drawn = |workload| {
        let mut ops = workloads.draw(workload, 1, 0).swap_remove(0);
        ops.truncate(samples as usize);
        ops
    };
    let passing = |kind| {
        let key = |i| workloads.key(PASSING + entries + i);
        (0..samples).map(|i| Op { key: key(i), kind }).collect::<Vec<_>>()
    };
    for (case, workload, ops) in [
        ("hit", Workload::Hit, drawn(Workload::Hit)),
        ("miss", Workload::Miss, drawn(Workload::Miss)),
        ("update", Workload::Update, drawn(Workload::Update)),
        ("insert", Workload::Load, passing(Kind::Put)),
        ("remove", Workload::Delete, passing(Kind::Remove)),
    ] {
        let about = About { case, ..*about };
        match at {
            Look::Counted(meter) => {
                let (counts, n) = counted(table, meter, &ops)?;
                let each = |count: u64| count as f64 / n.max(1) as f64;
                for (metric, count) in [
                    ("blocks_read", counts.blocks_read),
                    ("lines_read", counts.lines_read),
                    ("blocks_written", counts.blocks_written),
                    ("lines_written", counts.lines_written),
                    ("flushes", counts.flushes),
                    ("waits", counts.fences + counts.drains),
                ] {
                    recorder.add(&about, metric, each(count));
                }
            }
            Look::Timed => {
                let latency = driver::run(table, workload, &[ops], Timed::Each)?.latency;
                recorder.add(&about, "mean_ns", latency.mean());
                recorder.add_percentiles(&about, &latency, &[("p50_ns", 2), ("p99.99_ns", 10_000)]);
            }
        }
    }
    Ok(())
}

/// The counts of operations that neither split nor merge, and how many these are.
fn counted(table: &dyn Subject, meter: &Meter, ops: &[Op]) -> Result<(Counts, u64)> {
    let (mut sum, mut n) = (Counts::default(), 0);
    let events = || {
        let stats = table.figures();
        (stats.splits, stats.merges, stats.doublings, stats.halvings)
    };
    for op in ops {
        let before = (events(), meter.counts());
        match op.kind {
            Kind::Get => drop(table.get(op.key)?),
            Kind::Remove => drop(table.remove(op.key)?),
            Kind::Put | Kind::ReadModifyWrite => table.put(op.key, !op.key)?,
        }
        if events() == before.0 {
            (sum, n) = (sum + (meter.counts() - before.1), n + 1);
        }
    }
    Ok((sum, n))
}
