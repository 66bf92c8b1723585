//! Operations per second on memory of this host, by threads and by processes:
//! `cargo run --release -p durahash-remote --example throughput [FILE]`.
//!
//! Each thread or process is a client with 32 operations under way. Threads share memory of this process,
//! processes a directory of files in `/dev/shm`, or in the system's place for temporary files. Medians
//! of three; FILE gets the numbers as JSON.

#[path = "throughput/table.rs"]
mod table;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use durahash_remote::executor::Executor;
use durahash_remote::fabric::{Local, LocalClient, LocalOptions};
use durahash_remote::{Error, Options, RemoteMap, Result};
use table::{Cell, Table};

/// Operations under way at once, of each client.
const AT_ONCE: u64 = 32;
const KEYS: u64 = 500_000;
const REPEATS: usize = 3;
/// How a process is told that it is a client.
const CLIENT: &str = "client";

/// What all clients do at the same time, each with its part of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// New keys are put.
    Put,
    /// They are looked up.
    Get,
    /// They are put again.
    Update,
}

const PHASES: [(Phase, &str); 3] =
    [(Phase::Put, "put"), (Phase::Get, "get"), (Phase::Update, "update")];

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CLIENT, dir, number, of] => be_client(Path::new(dir), parse(number)?, parse(of)?),
        [] => measure(None),
        [file] => measure(Some(file)),
        _ => Err(io_error("arguments: none, or a file", io::ErrorKind::InvalidInput.into())),
    }
}

fn io_error(what: &'static str, error: io::Error) -> Error {
    Error::io(what, None, error)
}

fn parse(number: &str) -> Result<u64> {
    let parsed = number.parse();
    parsed.map_err(|_| io_error("a number", io::ErrorKind::InvalidInput.into()))
}

fn measure(file: Option<&str>) -> Result<()> {
    let kinds = [
        ("1 thread", 1, false),
        ("2 threads", 2, false),
        ("1 process", 1, true),
        ("2 processes", 2, true),
    ];
    let columns = [
        "clients",
        "keys",
        "put",
        "get",
        "update",
        "round trips of a put",
        "of a get",
        "of an update",
    ];
    let mut table = Table { name: "throughput", columns: columns.into(), rows: Vec::new() };
    for (name, clients, processes) in kinds {
        let mut runs = Vec::new();
        for _ in 0..REPEATS {
            runs.push(if processes { with_processes(clients)? } else { with_threads(clients)? });
        }
        let mut row = vec![Cell::Text(name), Cell::Count(KEYS)];
        for i in 0..2 * PHASES.len() {
            let mut all: Vec<f64> = runs.iter().map(|run| run[i]).collect();
            all.sort_unstable_by(f64::total_cmp);
            row.push(Cell::Number(all[REPEATS / 2], if i < PHASES.len() { 3 } else { 2 }));
        }
        table.rows.push(row);
    }
    println!(
        "million operations a second, {KEYS} keys and values of 8 bytes, medians of {REPEATS}"
    );
    println!("{}", machine());
    print!("{}", table.markdown());
    if let Some(file) = file {
        let text = format!("{{\n  \"machine\": {:?},\n{}\n}}\n", machine(), table.json());
        fs::write(file, text).map_err(|e| io_error("writing the numbers", e))?;
    }
    Ok(())
}

/// The processor, as the system names it, and how many there are.
fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores", model.unwrap_or("a processor without a name"))
}

fn local_options() -> LocalOptions {
    LocalOptions { node_bytes: vec![256 << 20], ..LocalOptions::default() }
}

/// Makes an index. Its maker leaves: a client that is idle without showing life would hold others up.
fn make(local: &Local) -> Result<()> {
    Executor::new().block_on(async {
        RemoteMap::create(local.client()?, Options::default()).await?.close().await
    })
}

/// Million operations a second of each phase, and round trips of each.
fn run(clients: &mut [Worker]) -> Result<[f64; 6]> {
    // They have opened the index.
    for client in &mut *clients {
        client.wait()?;
    }
    let mut figures = [0.0; 6];
    for (i, (phase, _)) in PHASES.into_iter().enumerate() {
        let start = Instant::now();
        for client in &mut *clients {
            client.start(phase)?;
        }
        let mut trips = 0;
        for client in &mut *clients {
            trips += client.wait()?;
        }
        figures[i] = KEYS as f64 / start.elapsed().as_secs_f64() / 1e6;
        figures[PHASES.len() + i] = trips as f64 / KEYS as f64;
    }
    Ok(figures)
}

fn with_threads(count: u64) -> Result<[f64; 6]> {
    let local = Local::anonymous(&local_options())?;
    make(&local)?;
    thread::scope(|scope| {
        let mut workers: Vec<Worker> = (0..count)
            .map(|number| {
                let (phases, asked) = channel();
                let (tell, answers) = channel();
                let local = &local;
                scope.spawn(move || {
                    let failed = tell.clone();
                    let client = local.client().and_then(|client| {
                        serve(
                            client,
                            number,
                            count,
                            || asked.recv().ok(),
                            |trips| {
                                // Nobody listens any more when another client has failed.
                                drop(tell.send(Ok(trips)));
                            },
                        )
                    });
                    if let Err(error) = client {
                        drop(failed.send(Err(error)));
                    }
                });
                Worker::Thread { phases, answers }
            })
            .collect();
        run(&mut workers)
    })
}

fn with_processes(count: u64) -> Result<[f64; 6]> {
    let shared = Path::new("/dev/shm");
    let place = if shared.is_dir() { shared.into() } else { std::env::temp_dir() };
    let dir = Dir(place.join(format!("durahash-throughput-{}", std::process::id())));
    let local = Local::create(&dir.0, &local_options())?;
    make(&local)?;
    let mut workers = Vec::new();
    for number in 0..count {
        workers.push(Worker::process(&dir.0, number, count)?);
    }
    let figures = run(&mut workers);
    for worker in workers {
        worker.end()?;
    }
    figures
}

/// A directory that is removed in the end.
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{}: {error}", self.0.display());
        }
    }
}

/// A client, elsewhere.
enum Worker {
    Thread { phases: Sender<Phase>, answers: Receiver<Result<u64>> },
    Process { child: Child, phases: ChildStdin, answers: BufReader<ChildStdout> },
}

impl Worker {
    fn process(dir: &Path, number: u64, of: u64) -> Result<Self> {
        let failed = |e| io_error("starting a process", e);
        let mut child = Command::new(std::env::current_exe().map_err(failed)?)
            .arg(CLIENT)
            .arg(dir)
            .args([number.to_string(), of.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let phases = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Ok(Worker::Process { child, phases, answers })
    }

    fn start(&mut self, phase: Phase) -> Result<()> {
        match self {
            Worker::Thread { phases, .. } => phases
                .send(phase)
                .map_err(|_| io_error("a thread", io::ErrorKind::BrokenPipe.into())),
            Worker::Process { phases, .. } => {
                let (_, name) = PHASES[phase as usize];
                writeln!(phases, "{name}").map_err(|e| io_error("a process", e))
            }
        }
    }

    /// Waits until it is ready, or has ended its phase; the round trips that it took.
    fn wait(&mut self) -> Result<u64> {
        match self {
            Worker::Thread { answers, .. } => answers
                .recv()
                .unwrap_or_else(|_| Err(io_error("a thread", io::ErrorKind::BrokenPipe.into()))),
            Worker::Process { answers, .. } => {
                let mut line = String::new();
                answers.read_line(&mut line).map_err(|e| io_error("a process", e))?;
                parse(line.trim_end())
            }
        }
    }

    /// Waits until the process has ended.
    fn end(self) -> Result<()> {
        if let Worker::Process { mut child, phases, .. } = self {
            drop(phases);
            child.wait().map_err(|e| io_error("a process", e))?;
        }
        Ok(())
    }
}

/// A process that is a client: phases are lines that it reads, round trips lines that it writes.
fn be_client(dir: &Path, number: u64, of: u64) -> Result<()> {
    let client = Local::attach(dir, None)?.client()?;
    let mut lines = io::stdin().lines();
    let next = move || {
        let line = lines.next()?.ok()?;
        PHASES.into_iter().find(|(_, name)| *name == line).map(|(phase, _)| phase)
    };
    // Where nobody reads any more, the next line to read is the end.
    serve(client, number, of, next, |trips| drop(writeln!(io::stdout(), "{trips}")))
}

/// Opens the index, and does one phase after the other; tells when it is open, and the round trips
/// of each phase.
fn serve(
    client: LocalClient,
    number: u64,
    of: u64,
    mut next: impl FnMut() -> Option<Phase>,
    mut tell: impl FnMut(u64),
) -> Result<()> {
    let executor = Executor::new();
    executor.block_on(async {
        let map = RemoteMap::open(client, Options::default()).await?;
        tell(0);
        while let Some(phase) = next() {
            let before = map.counts().round_trips;
            let tasks: Vec<_> = (0..AT_ONCE)
                .map(|task| {
                    let keys = (number + task * of..KEYS).step_by((of * AT_ONCE) as usize);
                    executor.spawn(0, operations(map.clone(), phase, keys))
                })
                .collect();
            for task in tasks {
                task.await.expect("nobody drops the task")?;
            }
            tell(map.counts().round_trips - before);
        }
        map.close().await
    })
}

async fn operations(
    map: RemoteMap<LocalClient>,
    phase: Phase,
    keys: impl Iterator<Item = u64>,
) -> Result<()> {
    for key in keys {
        let bytes = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        if phase == Phase::Get {
            assert_eq!(map.get(&bytes).await?.as_deref(), Some(&bytes[..]));
        } else {
            map.put(&bytes, &bytes).await?;
        }
    }
    Ok(())
}
