//! The crash tester's command: the deep run; repeats a failure, runs for as long as it is told, tries mutants.

#![forbid(unsafe_code)]

mod deep;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::deep::lock;
use clap::{Args, Parser, Subcommand};
use durahash::{Design, SyncMode};
use durahash_crash::case::Case;
use durahash_crash::cases;
use durahash_crash::logged::Kind;
use durahash_crash::mutate::{Mutant, Verdict};
use durahash_crash::oracle::Counts;
use durahash_crash::power::{Live, Plan};
use durahash_crash::run::{Failure, Look, NOTHING, Tester};
use durahash_crash::script::{Op, parse};
use durahash_crash::shrink::smallest;
use durahash_crash::states::Model;

/// Crash tester of the designs.
#[derive(Parser)]
#[command(name = "durahash-crash")]
struct Command {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs all tests with the counts of a deep run; fails where anything is found
    Deep(deep::Deep),
    /// Runs one script again: as text from a prefill, or a random one by its seed
    Repeat {
        #[command(flatten)]
        of: Of,
        /// The state that the script sets out from
        #[arg(long, default_value = NOTHING)]
        prefill: String,
        /// Operations, as in 'put 0 1, remove 0'
        #[arg(long, value_parser = script)]
        script: Option<Script>,
        #[command(flatten)]
        random: Random,
    },
    /// Runs random scripts, one seed after the other, each under every model
    Soak {
        #[command(flatten)]
        of: Of,
        /// Ends after so many seconds, not after so many states
        #[arg(long)]
        seconds: Option<u64>,
        /// Ends after so many states
        #[arg(long, default_value_t = 1_000_000)]
        states: u64,
        #[arg(long, default_value_t = 1)]
        threads: usize,
        #[command(flatten)]
        random: Random,
        /// Prints one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Runs every script of up to so many operations from every prefill
    Exhaustive {
        #[command(flatten)]
        of: Of,
        #[arg(long, default_value_t = 4)]
        length: u32,
    },
    /// Tries every mutant of every site that scripts come to
    Mutants {
        #[command(flatten)]
        of: Of,
        /// How many random scripts there are
        #[arg(long, default_value_t = 10)]
        seeds: u64,
        /// Scripts from prefills have up to so many operations, two at the most
        #[arg(long, default_value_t = 2)]
        length: u32,
        /// Scripts set out from states that are durable as a whole
        #[arg(long)]
        settled: bool,
        #[command(flatten)]
        random: Random,
    },
    /// Cuts the power under ext4 on a loop device, as root: reh, pea, esh and rewo only
    Power(Power),
    /// The process that uses the file system whose power is cut
    #[command(name = durahash_crash::power::CHILD, hide = true)]
    PowerChild {
        #[command(flatten)]
        power: Power,
        #[arg(long)]
        dir: PathBuf,
    },
}

/// The case and the models to run.
#[derive(Args)]
struct Of {
    /// One of the cases
    #[arg(long = "design", default_value = "reh", value_parser = case)]
    case: Case,
    /// Only this model: x86, word or program
    #[arg(long = "model", value_parser = model)]
    model: Option<Model>,
}

impl Of {
    fn models(&self) -> Vec<Model> {
        self.model.map_or(Model::ALL.to_vec(), |model| vec![model])
    }
}

/// A random script.
#[derive(Args)]
struct Random {
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many operations it has
    #[arg(long, default_value_t = 300)]
    ops: usize,
}

#[derive(Args)]
struct Power {
    #[arg(long)]
    design: Design,
    #[arg(long, default_value_t = 200)]
    cuts: usize,
    #[command(flatten)]
    random: Random,
    /// A multimap
    #[arg(long)]
    multi: bool,
    /// A map of byte strings
    #[arg(long, conflicts_with = "multi")]
    strings: bool,
    /// interval, interval:MILLISECONDS or strict
    #[arg(long, default_value = "strict")]
    mode: SyncMode,
    /// A live image on the disk that loses power
    #[arg(long)]
    live: bool,
    /// A live image in another place
    #[arg(long, conflicts_with = "live")]
    live_elsewhere: bool,
    /// The ring is gone round, and the log written through the page cache
    #[arg(long)]
    short: bool,
    /// The disk forgets to flush: it must be found
    #[arg(long)]
    lying: bool,
}

impl Power {
    fn plan(&self) -> Plan {
        let &Power { design, cuts, mode, short, lying, .. } = self;
        let Random { seed, ops } = self.random;
        let kind = match (self.multi, self.strings) {
            (true, _) => Kind::Lists,
            (_, true) => Kind::Strings,
            _ => Kind::Words,
        };
        let live = match (self.live, self.live_elsewhere) {
            (true, _) => Some(Live::Beside),
            (_, true) => Some(Live::Elsewhere),
            _ => None,
        };
        Plan { design, kind, mode, live, ops: ops as u64, cuts, seed, short, lying }
    }
}

#[derive(Clone)]
struct Script(Vec<Op>);

fn script(text: &str) -> Result<Script, String> {
    parse(text).map(Script)
}

fn case(name: &str) -> Result<Case, String> {
    let names = || cases::all().iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
    cases::find(name).ok_or_else(|| format!("the cases are {}", names()))
}

fn model(name: &str) -> Result<Model, String> {
    let known = Model::ALL.into_iter().find(|model| model.name() == name);
    known.ok_or_else(|| "the models are x86, word and program".to_string())
}

fn main() -> ExitCode {
    match Command::parse().task {
        Task::Deep(deep) => deep::run(&deep),
        Task::Repeat { of, prefill, script, random } => repeat(&of, &prefill, script, &random),
        Task::Soak { of, seconds, states, threads, random, json } => {
            soak(&of, seconds, states, threads.max(1), &random, json)
        }
        Task::Exhaustive { of, length } => exhaustive(&of, length),
        Task::Mutants { of, seeds, length, settled, random } => {
            mutants(&of, seeds, length.min(2), settled, &random)
        }
        Task::Power(power) => cut_power(power.plan()),
        Task::PowerChild { power, dir } => {
            let done = durahash_crash::power::child(&dir, power.plan());
            done.map_or_else(|e| wrong(&e.to_string()), |()| ExitCode::SUCCESS)
        }
    }
}

fn wrong(told: &str) -> ExitCode {
    eprintln!("{told}");
    ExitCode::FAILURE
}

fn cut_power(plan: Plan) -> ExitCode {
    match durahash_crash::power::cut(plan) {
        Ok(looked) => {
            println!("{plan:?}: {looked:?}, nothing wrong");
            ExitCode::SUCCESS
        }
        Err(told) => wrong(&told),
    }
}

fn report(case: &Case, failure: Box<Failure>) -> ExitCode {
    println!("{failure}\nmaking it smaller ...");
    println!("{}", smallest(case, failure));
    ExitCode::FAILURE
}

fn repeat(of: &Of, prefill: &str, script: Option<Script>, random: &Random) -> ExitCode {
    for model in of.models() {
        let mut tester = Tester::new(&of.case, model);
        let done = match &script {
            None => tester.random(random.seed, random.ops),
            Some(Script(ops)) => match tester.base(prefill) {
                Ok(Some(base)) => tester.script(&base, ops, Look::All),
                Ok(None) => return wrong(&format!("no prefill {prefill}")),
                Err(failure) => Err(failure),
            },
        };
        if let Err(failure) = done {
            return report(&of.case, failure);
        }
        println!("{}: {} states, nothing wrong", model.name(), tester.counts().unique);
    }
    ExitCode::SUCCESS
}

fn exhaustive(of: &Of, length: u32) -> ExitCode {
    for model in of.models() {
        let start = Instant::now();
        let mut tester = Tester::new(&of.case, model);
        if let Err(failure) = tester.exhaustive(length) {
            return report(&of.case, failure);
        }
        println!(
            "{} under {}: all scripts of up to {length} operations, {} unique states in {:.1} s",
            of.case.name,
            model.name(),
            tester.counts().unique,
            start.elapsed().as_secs_f64(),
        );
    }
    ExitCode::SUCCESS
}

/// Random scripts, one seed after the other, each under every model.
fn soak(
    of: &Of,
    seconds: Option<u64>,
    states: u64,
    threads: usize,
    of_script: &Random,
    json: bool,
) -> ExitCode {
    let (start, models) = (Instant::now(), of.models());
    let seeds = AtomicU64::new(of_script.seed);
    let total = Mutex::new(Counts::default());
    let failure = Mutex::new(None);
    let is_over = || {
        let enough = match seconds {
            Some(seconds) => start.elapsed() >= Duration::from_secs(seconds),
            None => lock(&total).unique >= states,
        };
        enough || lock(&failure).is_some()
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over() {
                    let seed = seeds.fetch_add(1, Ordering::Relaxed);
                    for model in &models {
                        let mut tester = Tester::new(&of.case, *model);
                        match tester.random(seed, of_script.ops) {
                            Ok(()) => *lock(&total) += tester.counts(),
                            Err(found) => *lock(&failure) = Some(found),
                        }
                    }
                }
            });
        }
    });
    let counts = *lock(&total);
    let seconds = start.elapsed().as_secs_f64();
    let rate = counts.unique as f64 / seconds / threads as f64;
    let found = lock(&failure).take();
    let models: Vec<&str> = models.iter().map(|model| model.name()).collect();
    let scripts = seeds.into_inner() - of_script.seed;
    if json {
        println!(
            "{{\"design\":\"{}\",\"models\":\"{}\",\"first_seed\":{},\"scripts\":{scripts},\
             \"ops\":{},\"threads\":{threads},\"seconds\":{seconds:.1},\"unique_states\":{},\
             \"visited\":{},\"crashes_in_recovery\":{},\"continued\":{},\
             \"unique_per_second_and_thread\":{rate:.0},\"violations\":{}}}",
            of.case.name,
            models.join(" "),
            of_script.seed,
            of_script.ops,
            counts.unique,
            counts.visited,
            counts.nested,
            counts.continued,
            u32::from(found.is_some()),
        );
    } else {
        println!(
            "{} under {}: {scripts} scripts, {} unique states in {seconds:.1} s, \
             {rate:.0} a second and thread; crashes inside {} recoveries",
            of.case.name,
            models.join(", "),
            counts.unique,
            counts.nested,
        );
    }
    found.map_or(ExitCode::SUCCESS, |failure| report(&of.case, failure))
}

/// Every mutant of every site, and how it fared.
fn mutants(of: &Of, seeds: u64, length: u32, settled: bool, random: &Random) -> ExitCode {
    let verdicts = |model| -> Result<Vec<(Mutant, Verdict)>, Box<Failure>> {
        let mut tester = Tester::new(&of.case, model);
        tester.keep_corpus();
        if settled {
            tester.exhaustive_settled(length, true)?;
            tester.exhaustive_settled(length, false)?;
            for prefill in &of.case.prefills {
                tester.crash_and_go_on(prefill, 30)?;
            }
        } else {
            tester.exhaustive(length)?;
        }
        for seed in random.seed..random.seed + seeds {
            tester.random(seed, random.ops)?;
        }
        Ok(tester.mutants(|_| true))
    };
    for model in of.models() {
        println!("{} under {}", of.case.name, model.name());
        match verdicts(model) {
            Err(failure) => return report(&of.case, failure),
            Ok(verdicts) => {
                for (mutant, verdict) in verdicts {
                    println!("{mutant}: {verdict:?}");
                }
            }
        }
    }
    ExitCode::SUCCESS
}
