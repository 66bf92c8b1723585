//! The measurements that figures name in the catalogue.
//!
//! | Run | Measures |
//! |---|---|
//! | `growth WHO` | load factors while all keys are inserted, and over the last doubling |
//! | `costs WHO` | blocks, lines, flushes and fences of each operation: means over the last two doublings, and at points of them; and load factors over these |
//! | `loads WHO` | the same at load factors that filling comes by, and what operations take there |
//! | `hits WHO` | which part of lookups reads nothing of the medium |
//! | `times WHO \| WORKLOADS` | operations a second (`times.rs`) |
//! | `suite NAME` | a suite of `durahash bench` |
//! | `lists` | multimaps, and lists behind a map |
//! | `remote PART` | a part of what is simulated on nodes |
//! | `indexes` | SepHash and RACE by the clock, on memory of this machine |
//!
//! WHO are contenders, separated by `; `; what ends with `?` takes part only where another crate has it (`Peer`).

use durahash_bench::driver::{self, Timed};
use durahash_bench::workload::skew::{Drawn, Skew};
use durahash_bench::workload::{Workload, Workloads};
use durahash_bench::{About, Error, Recorder, Result, Suite, duplicates, load_factor};
use durahash_media::metered::Meter;

use super::times;
use crate::contender::{Contender, Peer};
use crate::tables::Subject;
use crate::{counts, lists, real, remote};

/// Operations of each kind that are timed at a load factor: one in so many keys of the run, as inserts add to the load.
const TIMED: u64 = 50;
/// The load factors, and how near to them is near enough.
const LOADS: [f64; 4] = [0.2, 0.4, 0.6, 0.8];
const NEAR: f64 = 0.005;

/// Does a run.
pub(super) fn run(recorder: &mut Recorder<'_>, peers: &[Peer], line: &str) -> Result<()> {
    let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (who, workloads) = rest.split_once(" | ").unwrap_or((rest, ""));
    let config = recorder.config();
    let all = || Contender::all(peers, who, config.seed, config.keys);
    match what {
        "growth" => all()?.iter().try_for_each(|one| counts::fill(recorder, one)),
        "costs" => all()?.iter().try_for_each(|one| counts::count(recorder, one)),
        "loads" => all()?.iter().try_for_each(|one| loads(recorder, one)),
        "hits" => hits(recorder, &all()?),
        "times" => times::measure(recorder, &all()?, workloads),
        "suite" => {
            let suite = Suite::ALL.into_iter().find(|suite| suite.name() == rest);
            recorder.suite(suite.ok_or_else(|| unknown(line))?)
        }
        "lists" => lists::beside_multimaps(recorder, duplicates::contenders(recorder.config())),
        "remote" => remote::part(recorder, rest),
        "indexes" => real::measure(recorder),
        _ => Err(unknown(line)),
    }
}

fn unknown(line: &str) -> Error {
    Error::Config { what: format!("the catalogue has a run that is not known: {line}") }
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
    if let Look::Counted(meter) = at {
        return counts::count_at(recorder, about, table, meter, entries).map(drop);
    }
    let config = recorder.config();
    for (case, workload, ops) in counts::operations(config.seed, entries, config.keys / TIMED) {
        let about = About { case, ..*about };
        let latency = driver::run(table, workload, &[ops], Timed::Each)?.latency;
        recorder.add(&about, "mean_ns", latency.mean());
        recorder.add_percentiles(&about, &latency, &[("p50_ns", 2), ("p99.99_ns", 10_000)]);
    }
    Ok(())
}
