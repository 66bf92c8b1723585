//! Operations a second, of workloads one after the other.
//!
//! `load`, `hit`, `miss`, `update` and `delete` are those of `durahash bench`, on one table. `N/M` is N percent of inserts
//! and M of hits, on a table of its own. `A`, `B` and `C` are YCSB's mixes of reads and updates, of keys drawn as the
//! rest of the name says, on a table that was read once before. Every contender does one workload before one does the
//! next. The tables of other papers have one lock, so they go by one thread.

use durahash_bench::driver::{self, Timed};
use durahash_bench::workload::skew::{Drawn, Skew};
use durahash_bench::workload::{Kind, Op, Random, Workload, Workloads};
use durahash_bench::{About, Error, Recorder, Result, Samples};

use crate::contender::Contender;
use crate::tables::Subject;

/// Where the numbers of keys begin that mixes insert.
const MIXED: u64 = 4 << 56;

#[derive(Clone, Copy, PartialEq)]
enum Work {
    Known(Workload),
    /// So many percent of inserts, the others look up.
    Inserts(u64),
    /// So large a part reads, the others update.
    Reads(f64, Drawn),
}

impl Work {
    fn parse(name: &str) -> Result<Self> {
        let known = Workload::ALL.into_iter().find(|workload| workload.name() == name);
        let inserts = || name.split_once('/').and_then(|(inserts, _)| inserts.parse().ok());
        let reads = || {
            let (mix, drawn) = name.split_once(", ")?;
            let reads =
                [("A", 0.5), ("B", 0.95), ("C", 1.0)].into_iter().find(|(name, _)| *name == mix)?;
            Some((reads.1, Drawn::ALL.into_iter().find(|known| known.name() == drawn)?))
        };
        known
            .map(Work::Known)
            .or_else(|| inserts().map(Work::Inserts))
            .or_else(|| reads().map(|(reads, drawn)| Work::Reads(reads, drawn)))
            .ok_or_else(|| Error::Config { what: format!("no workload is called {name}") })
    }

    /// True if it goes on on the table of the one before it.
    fn follows(self, before: Work) -> bool {
        match self {
            Work::Known(workload) => workload != Workload::Load,
            Work::Inserts(_) => false,
            Work::Reads(..) => matches!(before, Work::Reads(..)),
        }
    }

    fn draw(
        self,
        workloads: &Workloads,
        skew: &Skew<'_>,
        threads: usize,
        round: u64,
    ) -> Vec<Vec<Op>> {
        let percent = match self {
            Work::Known(workload) => return workloads.draw(workload, threads, round),
            Work::Reads(reads, drawn) => return skew.draw(drawn, reads, threads, round),
            Work::Inserts(percent) => percent,
        };
        let mut random = Random::new(round ^ percent << 32);
        let mut next = |number| {
            let is_insert = random.below(100) < percent;
            let kind = if is_insert { Kind::Put } else { Kind::Get };
            let number = if is_insert { MIXED + number } else { random.below(workloads.keys()) };
            Op { key: workloads.key(number), kind }
        };
        let of_thread = |thread: usize| (thread as u64..workloads.keys()).step_by(threads);
        (0..threads).map(|thread| of_thread(thread).map(&mut next).collect()).collect()
    }

    /// What its lookups and removals have to find.
    fn checked_as(self) -> Workload {
        match self {
            Work::Known(workload) => workload,
            Work::Inserts(_) | Work::Reads(..) => Workload::YcsbA,
        }
    }
}

/// Measures all workloads, whose names `; ` separates, by all numbers of threads of the run.
pub(super) fn measure(
    recorder: &mut Recorder<'_>,
    contenders: &[Contender],
    names: &str,
) -> Result<()> {
    let config = recorder.config();
    let workloads = Workloads::new(config.keys, config.seed);
    let skew = Skew::new(&workloads);
    let works: Vec<(&str, Work)> =
        names.split("; ").map(|name| Ok((name, Work::parse(name)?))).collect::<Result<_>>()?;
    let mut samples = Samples::default();
    for round in 1..=u64::from(config.repeats) {
        for &threads in &config.threads {
            let taking_part: Vec<_> =
                contenders.iter().filter(|one| threads == 1 || one.shares()).collect();
            let mut tables: Vec<Box<dyn Subject>> = Vec::new();
            let mut before = None;
            for (name, work) in &works {
                if !before.is_some_and(|before| work.follows(before)) {
                    tables.clear();
                    for contender in &taking_part {
                        recorder
                            .next(1, &format!("{}: {name}, threads: {threads}", contender.name));
                        let table = recorder.bench().make((*contender).clone())?;
                        if *work != Work::Known(Workload::Load) {
                            let load = workloads.draw(Workload::Load, 1, 0);
                            driver::run(&*table, Workload::Load, &load, Timed::Whole)?;
                            while table.step()? {}
                            if let Work::Reads(..) = work {
                                let warm = work.draw(&workloads, &skew, 1, 0);
                                driver::run(&*table, work.checked_as(), &warm, Timed::Whole)?;
                            }
                        }
                        tables.push(table);
                    }
                }
                before = Some(*work);
                let streams = work.draw(&workloads, &skew, threads, round);
                for (contender, table) in taking_part.iter().zip(&tables) {
                    let run = driver::run(&**table, work.checked_as(), &streams, Timed::Whole)?;
                    while table.step()? {}
                    let (design, keys) = (contender.name.as_str(), config.keys);
                    let about = About { table: "time", design, case: name, threads, keys };
                    samples.add(&about, "ops_per_s", run.ops_per_s());
                }
            }
        }
    }
    recorder.add_medians(samples);
    Ok(())
}
