//! The deep run: all that the suite does, with the counts of a deep run, on every core; then random scripts
//! until the time is over.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use clap::Args;
use durahash_crash::cases;
use durahash_crash::run::Tester;
use durahash_crash::states::Model;
use serde_json::{Value, json};

/// Packages whose tests have counts for a deep run; the longest comes first.
const PACKAGES: [&str; 4] = ["durahash-crash", "durahash", "durahash-remote", "durahash-fuzz"];

/// The units of counts in the output.
const UNITS: [&str; 14] = [
    "states",
    "breaks",
    "plays",
    "cuts",
    "schedules",
    "mutants",
    "faults",
    "histories",
    "kills",
    "operations",
    "runs",
    "cases",
    "images",
    "executions",
];

/// Where tests look for their first seed: ours, and those of operations against a model.
const SEEDS: [&str; 2] = ["DURAHASH_SEED", "PROPTEST_RNG_SEED"];

/// Options of a deep run.
#[derive(Args)]
pub(crate) struct Deep {
    /// Ends after so many minutes: tests that have not begun are left out, and time left goes to random scripts
    #[arg(long)]
    minutes: Option<u64>,
    /// Only tests whose names, as in durahash-crash::designs::reh_survives_on_x86, have this in them
    #[arg(long)]
    only: Option<String>,
    /// Begins scripts and schedules at another seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Tests that run at once: unless set, as many as there are cores
    #[arg(long)]
    threads: Option<usize>,
    /// Prints JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// A test of a program.
struct Job {
    package: String,
    target: String,
    exe: PathBuf,
    dir: PathBuf,
    test: String,
}

impl Job {
    fn name(&self) -> String {
        format!("{}::{}", self.package, self.test)
    }
}

/// How it went.
struct Done {
    name: String,
    counts: BTreeMap<String, u64>,
    seconds: f64,
    /// The end of the output of what failed, and how to repeat it.
    found: Option<String>,
    /// It was ended because the time was over.
    cut: bool,
}

/// Runs all of it.
pub(crate) fn run(deep: &Deep) -> ExitCode {
    let start = Instant::now();
    let jobs = match programs().and_then(|programs| jobs(&programs)) {
        Ok(jobs) => jobs,
        Err(told) => {
            eprintln!("{told}");
            return ExitCode::FAILURE;
        }
    };
    let wanted = |job: &Job| deep.only.as_ref().is_none_or(|only| job.name().contains(only));
    let jobs: Vec<Job> = jobs.into_iter().filter(wanted).collect();
    let end = deep.minutes.map(|minutes| start + Duration::from_secs(60 * minutes));
    let threads = deep.threads.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
    });
    let (next, seeds) = (AtomicUsize::new(0), AtomicU64::new(deep.seed));
    let all = Mutex::new(Vec::new());
    let is_over = || end.is_some_and(|end| Instant::now() >= end);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !is_over() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let done = match jobs.get(at) {
                        Some(job) => run_job(job, at, deep.seed, end),
                        None if end.is_some() && deep.only.is_none() => {
                            soak(seeds.fetch_add(1, Ordering::Relaxed))
                        }
                        None => break,
                    };
                    let mut all = lock(&all);
                    progress(start, all.len() + 1, jobs.len(), &done);
                    all.push(done);
                }
            });
        }
    });
    let all = all.into_inner().expect("no thread panics with it");
    let left_out = jobs.len().saturating_sub(next.into_inner());
    report(deep, &all, left_out, start.elapsed().as_secs_f64());
    let found = all.iter().any(|done| done.found.is_some());
    if found || jobs.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with it")
}

/// Builds the programs; returns cargo's message about each.
fn programs() -> Result<Vec<Value>, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    cargo.args(["test", "--profile", "deep", "--no-run", "--message-format", "json"]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["-p", package]));
    let output = cargo.stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err(format!("the tests were not built: {}", output.status));
    }
    let lines = String::from_utf8_lossy(&output.stdout);
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter(|message| message["executable"].is_string()).collect())
}

/// The tests of these programs.
fn jobs(programs: &[Value]) -> Result<Vec<Job>, String> {
    let mut jobs = Vec::new();
    for program in programs {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        // A program that is built for the tests is no test.
        if program["profile"]["test"] != true {
            continue;
        }
        let exe = PathBuf::from(text(&program["executable"]));
        let manifest = PathBuf::from(text(&program["manifest_path"]));
        let dir = manifest.parent().unwrap_or(Path::new(".")).to_path_buf();
        let kind = text(&program["target"]["kind"][0]);
        let target = match kind.as_str() {
            "test" => format!("--test {}", text(&program["target"]["name"])),
            "bin" => format!("--bin {}", text(&program["target"]["name"])),
            _ => "--lib".to_string(),
        };
        let listed = Command::new(&exe).arg("--list").current_dir(&dir).output();
        let listed = listed.map_err(|e| format!("{}: {e}", exe.display()))?;
        let package = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for line in String::from_utf8_lossy(&listed.stdout).lines() {
            if let Some(test) = line.strip_suffix(": test") {
                let (exe, dir, test) = (exe.clone(), dir.clone(), test.to_string());
                jobs.push(Job { package: package.clone(), target: target.clone(), exe, dir, test });
            }
        }
    }
    jobs.sort_by_key(|job| PACKAGES.iter().position(|package| *package == job.package));
    Ok(jobs)
}

fn run_job(job: &Job, number: usize, seed: u64, end: Option<Instant>) -> Done {
    let start = Instant::now();
    let output =
        std::env::temp_dir().join(format!("durahash-deep-{}-{number}", std::process::id()));
    let ended = File::create(&output)
        .and_then(|file| {
            let both = file.try_clone()?;
            let mut command = Command::new(&job.exe);
            command.args(["--exact", &job.test, "--nocapture", "--test-threads=1"]);
            command.env("DURAHASH_DEEP", "1").envs(SEEDS.map(|name| (name, seed.to_string())));
            command.current_dir(&job.dir).stdout(file).stderr(both).spawn()
        })
        .and_then(|child| wait(child, end));
    let said = std::fs::read(&output).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).into_owned();
    // It is in the directory of temporary files, should that fail.
    let _ = std::fs::remove_file(&output);
    let found = match &ended {
        Ok(None | Some(true)) => None,
        Ok(Some(false)) => Some(said.clone()),
        Err(e) => Some(e.to_string()),
    };
    let found = found.map(|said| {
        let lines: Vec<&str> = said.lines().collect();
        let Job { package, target, test, .. } = job;
        format!(
            "{}\nrepeat: DURAHASH_DEEP=1 {} cargo test --profile deep -p {package} {target} -- --exact {test} \
             --nocapture",
            lines[lines.len().saturating_sub(30)..].join("\n"),
            SEEDS.map(|name| format!("{name}={seed}")).join(" ")
        )
    });
    let cut = matches!(ended, Ok(None));
    Done { name: job.name(), counts: counts(&said), seconds: seconds(start), found, cut }
}

/// True if it succeeded; `None` where the time was over before.
fn wait(mut child: Child, end: Option<Instant>) -> std::io::Result<Option<bool>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn seconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64()
}

/// The counts in the lines of a test: numbers before a unit, with a word between them at the most.
fn counts(said: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in said.lines() {
        let words: Vec<&str> =
            line.split([' ', ',', ':']).filter(|word| !word.is_empty()).collect();
        for (at, unit) in words.iter().enumerate().filter(|(_, word)| UNITS.contains(word)) {
            let before = words[at.saturating_sub(2)..at].iter().rev();
            if let Some(count) = before.filter_map(|word| word.parse::<u64>().ok()).next() {
                *counts.entry((*unit).to_string()).or_default() += count;
            }
        }
    }
    counts
}

/// A random script of every case under every model.
fn soak(seed: u64) -> Done {
    /// Seeds that the tests do not use.
    const BEYOND: u64 = 1 << 20;
    let start = Instant::now();
    let (mut states, mut found) = (0, None);
    for case in cases::all() {
        for model in Model::ALL {
            // Tens of millions of states.
            if case.name == "esh-repaired" && model != Model::Program {
                continue;
            }
            let mut tester = Tester::new(&case, model);
            let done = tester.random(BEYOND + seed, 300);
            states += tester.counts().unique;
            if let Err(failure) = done {
                found.get_or_insert(failure.to_string());
            }
        }
    }
    let counts = BTreeMap::from([("states".to_string(), states)]);
    Done { name: format!("soak {seed}"), counts, seconds: seconds(start), found, cut: false }
}

fn progress(start: Instant, done: usize, jobs: usize, last: &Done) {
    let mut line = format!("[{done}/{jobs}, {:.0} s] ", seconds(start));
    let how = if last.found.is_some() { "FAILED" } else { "ok" };
    let _ = write!(line, "{} {how} after {:.1} s", last.name, last.seconds);
    let mut err = std::io::stderr();
    let _ = match (err.is_terminal(), &last.found) {
        (true, None) => write!(err, "\r\x1b[K{line}").and_then(|()| err.flush()),
        (_, Some(found)) => writeln!(err, "\n{line}\n{found}"),
        // Not one for each of hundreds of small ones.
        (false, None) if last.seconds < 1.0 => Ok(()),
        (false, None) => writeln!(err, "{line}"),
    };
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
    let all: Vec<String> = counts.iter().map(|(unit, count)| format!("{count} {unit}")).collect();
    all.join(", ")
}

/// Prints what was done: a row for each module of a program.
fn report(deep: &Deep, all: &[Done], left_out: usize, seconds: f64) {
    struct Row {
        tests: u64,
        counts: BTreeMap<String, u64>,
        seconds: f64,
        cut: u64,
        findings: u64,
    }
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for done in all {
        let parts: Vec<&str> =
            done.name.split([' ', ':']).filter(|part| !part.is_empty()).collect();
        let name = if parts.len() > 2 { parts[..2].join("::") } else { parts[0].to_string() };
        let none = Row { tests: 0, counts: BTreeMap::new(), seconds: 0.0, cut: 0, findings: 0 };
        let row = rows.entry(name).or_insert(none);
        row.tests += 1;
        row.seconds += done.seconds;
        row.cut += u64::from(done.cut);
        row.findings += u64::from(done.found.is_some());
        for (unit, count) in &done.counts {
            *row.counts.entry(unit.clone()).or_default() += count;
        }
    }
    let findings: Vec<&Done> = all.iter().filter(|done| done.found.is_some()).collect();
    if deep.json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(name, row)| {
                json!({
                    "what": name, "tests": row.tests, "counts": row.counts, "seconds": row.seconds,
                    "cut_short": row.cut, "findings": row.findings,
                })
            })
            .collect();
        let found = |done: &&Done| json!({ "what": done.name, "found": done.found });
        let findings: Vec<Value> = findings.iter().map(found).collect();
        let all = json!({
            "seed": deep.seed, "seconds": seconds, "left_out": left_out, "rows": rows, "findings": findings,
        });
        println!("{all:#}");
        return;
    }
    println!("\n| what | tests | counted | seconds | findings |\n|---|---|---|---|---|");
    for (name, row) in &rows {
        let cut = if row.cut > 0 { format!(", {} cut short", row.cut) } else { String::new() };
        println!(
            "| {name} | {}{cut} | {} | {:.0} | {} |",
            row.tests,
            listed(&row.counts),
            row.seconds,
            row.findings
        );
    }
    println!(
        "\n{} done in {:.1} min from seed {}, {left_out} left out, {} findings",
        all.len(),
        seconds / 60.0,
        deep.seed,
        findings.len()
    );
}
