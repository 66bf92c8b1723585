//! The crash tester's command: repeats a failure, runs for as long as it is told, tries mutants.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use durahash::Design;
use durahash_crash::designs::{
    EshFullSubject, EshMapSubject, EshRepairedSubject, EshSubject, PeaFullSubject, PeaMapSubject,
    PeaMultiFullSubject, PeaMultiMapSubject, PeaMultiSubject, PeaSubject, RehFullSubject,
    RehMapSubject, RehSubject, RewoBetweenSubject, RewoCachedSubject, RewoFullSubject,
    RewoMapSubject, RewoSmallMapSubject, RewoSubject,
};
use durahash_crash::mutate::{Mutant, Verdict};
use durahash_crash::oracle::Counts;
use durahash_crash::power::{CHILD, Plan};
use durahash_crash::run::{Failure, Look, NOTHING, Tester};
use durahash_crash::script::{Op, parse};
use durahash_crash::shrink::smallest;
use durahash_crash::states::Model;
use durahash_crash::subject::{Prefill, Subject};

const USAGE: &str = "\
usage: durahash-crash repeat  --design D --model M --prefill P --script 'put 0 1, remove 0'
       durahash-crash repeat  --design D --model M --seed N --ops N
       durahash-crash soak    --design D [--model M] [--seconds N | --states N] [--threads N]
                              [--seed N] [--ops N] [--json]
       durahash-crash exhaustive --design D [--model M] [--length N]
       durahash-crash mutants --design D --model M [--seeds N] [--length N] [--settled]
       durahash-crash power   --design D [--cuts N] [--seed N] [--ops N]
                              [--multi] [--short] [--lying]
                              (as root: ext4 on a loop device; reh, pea, esh and rewo only)
designs: reh, reh-full, reh-map, pea, pea-full, pea-map, pea-multi, pea-multi-full, pea-multi-map,
         esh, esh-repaired, esh-full, esh-map, rewo, rewo-cached, rewo-full, rewo-map,
         rewo-between, rewo-small-map
models:  x86, word, program";

/// What was asked for.
struct Args {
    command: String,
    design: String,
    models: Vec<Model>,
    prefill: String,
    script: Option<Vec<Op>>,
    seed: u64,
    seeds: u64,
    length: u32,
    ops: usize,
    seconds: Option<u64>,
    states: u64,
    threads: usize,
    json: bool,
    settled: bool,
    cuts: usize,
    multi: bool,
    short: bool,
    lying: bool,
    dir: PathBuf,
}

impl Args {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
        let mut parsed = Args {
            command: args.next().ok_or("no command")?,
            design: "reh".into(),
            models: Model::ALL.to_vec(),
            prefill: NOTHING.into(),
            script: None,
            seed: 0,
            seeds: 10,
            length: 4,
            ops: 300,
            seconds: None,
            states: 1_000_000,
            threads: 1,
            json: false,
            settled: false,
            cuts: 200,
            multi: false,
            short: false,
            lying: false,
            dir: PathBuf::new(),
        };
        while let Some(name) = args.next() {
            let switch = match &*name {
                "--json" => Some(&mut parsed.json),
                "--settled" => Some(&mut parsed.settled),
                "--multi" => Some(&mut parsed.multi),
                "--short" => Some(&mut parsed.short),
                "--lying" => Some(&mut parsed.lying),
                _ => None,
            };
            if let Some(switch) = switch {
                *switch = true;
                continue;
            }
            let value = args.next().ok_or_else(|| format!("{name} has no value"))?;
            let number = || {
                let number = value.parse::<u64>();
                number.map_err(|_| format!("{name}: {value} is no number"))
            };
            match name.as_str() {
                "--design" => parsed.design = value,
                "--model" => {
                    let known = Model::ALL.into_iter().find(|model| model.name() == value);
                    parsed.models = vec![known.ok_or_else(|| format!("no model {value}"))?];
                }
                "--prefill" => parsed.prefill = value,
                "--script" => parsed.script = Some(parse(&value)?),
                "--seed" => parsed.seed = number()?,
                "--seeds" => parsed.seeds = number()?,
                "--length" => parsed.length = number()? as u32,
                "--ops" => parsed.ops = number()? as usize,
                "--seconds" => parsed.seconds = Some(number()?),
                "--states" => parsed.states = number()?,
                "--cuts" => parsed.cuts = number()? as usize,
                "--dir" => parsed.dir = value.into(),
                "--threads" => parsed.threads = number()?.max(1) as usize,
                _ => return Err(format!("unknown option {name}")),
            }
        }
        Ok(parsed)
    }
}

fn main() -> ExitCode {
    let done = Args::parse(std::env::args().skip(1)).and_then(|args| {
        let design = args.design.as_str();
        if ["power", CHILD].contains(&args.command.as_str()) {
            return power(&args);
        }
        match design {
            "reh" => run(&RehSubject::default(), &args),
            "reh-full" => run(&RehFullSubject::default(), &args),
            "reh-map" => run(&RehMapSubject::new(), &args),
            "pea" => run(&PeaSubject::default(), &args),
            "pea-full" => run(&PeaFullSubject::default(), &args),
            "pea-map" => run(&PeaMapSubject::new(), &args),
            "pea-multi" => run(&PeaMultiSubject::default(), &args),
            "pea-multi-full" => run(&PeaMultiFullSubject::default(), &args),
            "pea-multi-map" => run(&PeaMultiMapSubject, &args),
            "esh" => run(&EshSubject::default(), &args),
            "esh-repaired" => run(&EshRepairedSubject::default(), &args),
            "esh-full" => run(&EshFullSubject::default(), &args),
            "esh-map" => run(&EshMapSubject::new(), &args),
            "rewo" => run(&RewoSubject::default(), &args),
            "rewo-cached" => run(&RewoCachedSubject::default(), &args),
            "rewo-between" => run(&RewoBetweenSubject::default(), &args),
            "rewo-full" => run(&RewoFullSubject::default(), &args),
            "rewo-map" => run(&RewoMapSubject::new(), &args),
            "rewo-small-map" => run(&RewoSmallMapSubject::new(), &args),
            _ => Err(format!("no design {design}")),
        }
    });
    done.unwrap_or_else(|wrong| {
        eprintln!("{wrong}\n{USAGE}");
        ExitCode::from(2)
    })
}

fn run<S: Subject>(subject: &S, args: &Args) -> Result<ExitCode, String> {
    match args.command.as_str() {
        "repeat" => repeat(subject, args),
        "soak" => Ok(soak(subject, args)),
        "exhaustive" => Ok(every_script(subject, args)),
        "mutants" => Ok(mutants(subject, args)),
        command => Err(format!("no command {command}")),
    }
}

/// Cuts the power under a real file system, or is the child that uses it.
fn power(args: &Args) -> Result<ExitCode, String> {
    let design: Design = args.design.parse().map_err(|e: durahash::Error| e.to_string())?;
    let Args { cuts, seed, multi, short, lying, .. } = *args;
    let plan = Plan { design, multi, ops: args.ops as u64, cuts, seed, short, lying };
    if args.command == CHILD {
        durahash_crash::power::child(&args.dir, plan).map_err(|e| e.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    match durahash_crash::power::cut(plan) {
        Ok(looked) => {
            println!("{plan:?}: {looked:?}, nothing wrong");
            Ok(ExitCode::SUCCESS)
        }
        Err(wrong) => {
            println!("{wrong}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn report<S: Subject>(subject: &S, failure: Box<Failure>) -> ExitCode {
    println!("{failure}\nmaking it smaller ...");
    println!("{}", smallest(subject, failure));
    ExitCode::FAILURE
}

fn repeat<S: Subject>(subject: &S, args: &Args) -> Result<ExitCode, String> {
    for model in &args.models {
        match repeat_on(subject, *model, args)? {
            Ok(counts) => println!("{}: {} states, nothing wrong", model.name(), counts.unique),
            Err(failure) => return Ok(report(subject, failure)),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn repeat_on<S: Subject>(
    subject: &S,
    model: Model,
    args: &Args,
) -> Result<Result<Counts, Box<Failure>>, String> {
    let Some(ops) = &args.script else {
        return Ok(random(subject, model, args.seed, args.ops));
    };
    let mut tester = Tester::new(subject, model);
    let done = match tester.base(&args.prefill) {
        Ok(Some(base)) => tester.script(&base, ops, Look::All),
        Ok(None) => return Err(format!("no prefill {}", args.prefill)),
        Err(failure) => Err(failure),
    };
    Ok(done.map(|()| tester.counts()))
}

/// One random script.
fn random<S: Subject>(
    subject: &S,
    model: Model,
    seed: u64,
    ops: usize,
) -> Result<Counts, Box<Failure>> {
    let mut tester = Tester::new(subject, model);
    tester.random(seed, ops)?;
    Ok(tester.counts())
}

/// Every script of up to so many operations from every prefill.
fn every_script<S: Subject>(subject: &S, args: &Args) -> ExitCode {
    for model in &args.models {
        let start = Instant::now();
        let mut tester = Tester::new(subject, *model);
        match tester.exhaustive(args.length).map(|()| tester.counts()) {
            Ok(counts) => println!(
                "{} under {}: all scripts of up to {} operations, {} unique states in {:.1} s",
                S::NAME,
                model.name(),
                args.length,
                counts.unique,
                start.elapsed().as_secs_f64(),
            ),
            Err(failure) => return report(subject, failure),
        }
    }
    ExitCode::SUCCESS
}

/// Random scripts, one seed after the other, each under every model.
fn soak<S: Subject>(subject: &S, args: &Args) -> ExitCode {
    let start = Instant::now();
    let seeds = AtomicU64::new(args.seed);
    let total = Mutex::new(Counts::default());
    let failure = Mutex::new(None);
    let is_over = || {
        let enough = match args.seconds {
            Some(seconds) => start.elapsed() >= Duration::from_secs(seconds),
            None => lock(&total).unique >= args.states,
        };
        enough || lock(&failure).is_some()
    };
    std::thread::scope(|scope| {
        for _ in 0..args.threads {
            scope.spawn(|| {
                while !is_over() {
                    let seed = seeds.fetch_add(1, Ordering::Relaxed);
                    for model in &args.models {
                        match random(subject, *model, seed, args.ops) {
                            Ok(counts) => *lock(&total) += counts,
                            Err(found) => *lock(&failure) = Some(found),
                        }
                    }
                }
            });
        }
    });
    let counts = *lock(&total);
    let seconds = start.elapsed().as_secs_f64();
    let rate = counts.unique as f64 / seconds / args.threads as f64;
    let found = lock(&failure).take();
    let models: Vec<&str> = args.models.iter().map(|model| model.name()).collect();
    let scripts = seeds.into_inner() - args.seed;
    if args.json {
        println!(
            "{{\"design\":\"{}\",\"models\":\"{}\",\"first_seed\":{},\"scripts\":{scripts},\
             \"ops\":{},\"threads\":{},\"seconds\":{seconds:.1},\"unique_states\":{},\
             \"visited\":{},\"crashes_in_recovery\":{},\"continued\":{},\
             \"unique_per_second_and_thread\":{rate:.0},\"violations\":{}}}",
            S::NAME,
            models.join(" "),
            args.seed,
            args.ops,
            args.threads,
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
            S::NAME,
            models.join(", "),
            counts.unique,
            counts.nested,
        );
    }
    found.map_or(ExitCode::SUCCESS, |failure| report(subject, failure))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with it")
}

/// Every mutant of every site, and how it fared.
fn mutants<S: Subject>(subject: &S, args: &Args) -> ExitCode {
    for model in &args.models {
        println!("{} under {}", S::NAME, model.name());
        let prefills = subject.prefills();
        match mutants_on(Tester::new(subject, *model), prefills, args) {
            Ok(verdicts) => {
                for (mutant, verdict) in verdicts {
                    println!("{mutant}: {verdict:?}");
                }
            }
            Err(failure) => return report(subject, failure),
        }
    }
    ExitCode::SUCCESS
}

fn mutants_on<S: Subject>(
    mut tester: Tester<'_, S>,
    prefills: Vec<Prefill>,
    args: &Args,
) -> Result<Vec<(Mutant, Verdict)>, Box<Failure>> {
    tester.keep_corpus();
    if args.settled {
        tester.exhaustive_settled(args.length.min(2), true)?;
        tester.exhaustive_settled(args.length.min(2), false)?;
        for prefill in prefills {
            tester.crash_and_go_on(&prefill, 30)?;
        }
    } else {
        tester.exhaustive(args.length.min(2))?;
    }
    for seed in args.seed..args.seed + args.seeds {
        tester.random(seed, args.ops)?;
    }
    Ok(tester.mutants())
}
