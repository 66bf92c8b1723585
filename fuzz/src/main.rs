//! Runs a fuzz target for a time, or one input again. Without `--release` overflows and debug
//! assertions are found too, at about two thirds of the speed.

#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use durahash_fuzz::{Failure, Features, Fuzzer, NodeRequests, OpenImage, OpsVsModel, Target, run};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Address space of the process: an input that takes more is refused memory and breaks off.
const ADDRESS_BYTES: u64 = 4 << 30;
/// An execution that takes longer hangs.
const EXECUTION_MAX: Duration = Duration::from_secs(20);

/// Fuzzes durahash on the stable toolchain.
#[derive(Parser)]
struct Args {
    /// The fuzz target
    target: Name,
    /// Seconds to run
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Where the inputs begin; the same seed gives the same ones
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one line of JSON at the end
    #[arg(long)]
    json: bool,
    /// Run the input in this file, and nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seconds", "seed"])]
    repeat: Option<PathBuf>,
    /// Where inputs that break something are saved
    #[arg(long, value_name = "DIR", default_value = "target/fuzz")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Name {
    /// Mutated pools: opened, read, checked, written to
    OpenImage,
    /// Operations and deaths, compared with a model
    OpsVsModel,
    /// Requests to a node over TCP, compared with a model
    NodeRequests,
}

impl Name {
    fn target(self) -> Box<dyn Target> {
        match self {
            Name::OpenImage => Box::new(OpenImage::default()),
            Name::OpsVsModel => Box::new(OpsVsModel::default()),
            Name::NodeRequests => Box::new(NodeRequests::default()),
        }
    }

    fn text(self) -> String {
        self.to_possible_value().expect("none is skipped").get_name().to_owned()
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.repeat {
        Some(file) => repeat(&args, file),
        None => fuzz(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn repeat(args: &Args, file: &Path) -> Result<(), String> {
    let input = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    run(&*args.target.target(), &input, &mut Features::default()).map_err(|failure| failure.message)
}

/// The command that repeats what `file` broke.
fn command(args: &Args, file: &Path) -> String {
    let release = if cfg!(debug_assertions) { "" } else { "--release " };
    format!(
        "cargo run {release}-p durahash-fuzz -- {} --repeat {}",
        args.target.text(),
        file.display()
    )
}

fn fuzz(args: &Args) -> Result<(), String> {
    let limit = Rlimit { current: Some(ADDRESS_BYTES), ..getrlimit(Resource::As) };
    setrlimit(Resource::As, limit).map_err(|e| format!("limiting the address space: {e}"))?;
    let name = args.target.text();
    let current = args.out.join(format!("{name}-{}-current", args.seed));
    let opened = fs::create_dir_all(&args.out).and_then(|()| File::create(&current));
    let opened = opened.map_err(|e| format!("{}: {e}", current.display()))?;

    let target = args.target.target();
    let mut fuzzer = Fuzzer::new(&*target, args.seed);
    fuzzer.write_inputs_to(opened);
    // An abort of the process prints no more than this.
    eprintln!("should this break off: {}", command(args, &current));
    watch(fuzzer.executions(), command(args, &current));
    let (start, time) = (Instant::now(), Duration::from_secs(args.seconds));
    let mut told = start;
    while start.elapsed() < time {
        if let Err(Failure { input, message }) = fuzzer.step() {
            let at = fuzzer.executions().load(Ordering::Relaxed);
            let file = args.out.join(format!("{name}-{}-{at}", args.seed));
            fs::write(&file, input).map_err(|e| format!("{}: {e}", file.display()))?;
            return Err(format!("{message}\nrepeat: {}", command(args, &file)));
        }
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            eprintln!("{}", line(&fuzzer, start));
        }
    }
    fs::remove_file(&current).map_err(|e| format!("{}: {e}", current.display()))?;
    if args.json {
        let (kept, features) = fuzzer.reached();
        let report = serde_json::json!({
            "target": name,
            "seed": args.seed,
            "seconds": start.elapsed().as_secs_f64(),
            "executions": fuzzer.executions().load(Ordering::Relaxed),
            "inputs_kept": kept,
            "features": features,
        });
        println!("{report}");
    } else {
        println!("{name}: {}; nothing found", line(&fuzzer, start));
    }
    Ok(())
}

fn line(fuzzer: &Fuzzer<'_>, start: Instant) -> String {
    let executions = fuzzer.executions().load(Ordering::Relaxed);
    let seconds = start.elapsed().as_secs_f64();
    let (kept, features) = fuzzer.reached();
    format!(
        "{executions} executions in {seconds:.0} s ({:.0}/s), {kept} inputs kept, {features} features",
        executions as f64 / seconds
    )
}

/// Ends the process when one execution takes too long.
fn watch(executions: Arc<AtomicU64>, repeat: String) {
    std::thread::spawn(move || {
        let mut before = u64::MAX;
        loop {
            std::thread::sleep(EXECUTION_MAX);
            let now = executions.load(Ordering::Relaxed);
            if now == before {
                eprintln!("an execution hangs\nrepeat: {repeat}");
                std::process::abort();
            }
            before = now;
        }
    });
}
