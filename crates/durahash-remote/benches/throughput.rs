//! Operations per second on memory of this host, by threads and by processes:
//! `cargo bench -p durahash-remote --bench throughput`.
//!
//! Each thread or process is a client with 32 operations under way. Threads share memory of this process,
//! processes a directory of files in `/dev/shm`, or in the system's place for temporary files. Medians
//! of three.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use durahash_remote::executor::Executor;
use durahash_remote::fabric::{Local, LocalClient, LocalOptions};
use durahash_remote::{Error, Options, RemoteMap, Result};

/// Operations under way at once, of each client.
const AT_ONCE: u64 = 32;
const KEYS: u64 = 500_000;
const REPEATS: usize = 3;
/// All clients put new keys, look them up, and put them again, each its part.
const PHASES: [&str; 3] = ["put", "get", "update"];
/// Of each phase the seconds, the round trips, and the seconds of the processor, which each client is charged for its thread.
type Took = [[f64; 3]; PHASES.len()];

fn failed(doing: &'static str, cause: impl Into<io::Error>) -> Error {
    Error::io(doing, None, cause.into())
}

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [dir, number, of] = &args[..] {
        let parse = |text: &str| text.parse().expect("a number");
        let took = client(&Local::attach(Path::new(dir), None)?, parse(number), parse(of))?;
        took.iter().for_each(|[seconds, trips, own]| println!("{seconds} {trips} {own}"));
        return Ok(());
    }
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let machine = format!("{}, {cores} cores", model.unwrap_or("unknown processor"));
    println!("million operations a second, {KEYS} keys, values of 8 bytes, medians of {REPEATS}");
    println!(
        "{machine}\n| clients | put | get | update | round trips of a put | of a get | of an update | µs of processor of a put \
         | of a get | of an update |"
    );
    println!("|{}", "---|".repeat(10));
    for (name, clients, processes) in [
        ("1 thread", 1, false),
        ("2 threads", 2, false),
        ("1 process", 1, true),
        ("2 processes", 2, true),
    ] {
        let runs = (0..REPEATS).map(|_| run(clients, processes)).collect::<Result<Vec<_>>>()?;
        let medians = std::array::from_fn::<f64, 9, _>(|i| {
            let mut all: Vec<f64> = runs.iter().map(|run| run[i]).collect();
            all.sort_unstable_by(f64::total_cmp);
            all[REPEATS / 2]
        });
        let rates = medians[..3].iter().map(|rate| format!(" {rate:.3} |"));
        let trips = medians[3..].iter().map(|each| format!(" {each:.2} |"));
        println!("| {name} |{}", rates.chain(trips).collect::<String>());
    }
    Ok(())
}

/// Million operations a second of each phase, and of each round trips and µs of a processor.
fn run(clients: u64, processes: bool) -> Result<[f64; 9]> {
    let shared = Path::new("/dev/shm");
    let place = if shared.is_dir() { shared.into() } else { env::temp_dir() };
    let dir = tempfile::tempdir_in(place).map_err(|e| failed("making a directory", e))?;
    let files = dir.path().join("fabric");
    let mut options = LocalOptions::default();
    options.node_bytes = vec![256 << 20];
    let local =
        if processes { Local::create(&files, &options)? } else { Local::anonymous(&options)? };
    // The maker leaves: a client that is idle without showing life would hold others up.
    Executor::new().block_on(async {
        RemoteMap::create(local.client()?, Options::default()).await?.close().await
    })?;
    let one = |number| match processes {
        true => process(&files, number, clients),
        false => client(&local, number, clients),
    };
    let all = thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|i| scope.spawn(move || one(i))).collect();
        threads.into_iter().map(|t| t.join().expect("it ends")).collect::<Result<Vec<Took>>>()
    })?;
    Ok(std::array::from_fn(|i| {
        let what = i / PHASES.len();
        let of_phase = all.iter().map(|took| took[i % PHASES.len()][what]);
        match what {
            0 => KEYS as f64 / of_phase.fold(0.0, f64::max) / 1e6,
            1 => of_phase.sum::<f64>() / KEYS as f64,
            _ => of_phase.sum::<f64>() / KEYS as f64 * 1e6,
        }
    }))
}

/// A client in a process of its own, which prints a line for each phase.
fn process(dir: &Path, number: u64, of: u64) -> Result<Took> {
    let this = env::current_exe().map_err(|e| failed("finding this program", e))?;
    let mut command = Command::new(this);
    command.arg(dir).args([number.to_string(), of.to_string()]).stderr(Stdio::inherit());
    let output = command.output().map_err(|e| failed("running a process", e))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let (phases, _) = numbers.as_chunks();
    phases.try_into().map_err(|_| failed("a process", io::ErrorKind::BrokenPipe))
}

/// Seconds of a processor that this thread has had.
fn processor() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Does one phase after the other, each when all clients are ready for it.
fn client(local: &Local, number: u64, of: u64) -> Result<Took> {
    let executor = Executor::new();
    executor.block_on(async {
        let map = RemoteMap::open(local.client()?, Options::default()).await?;
        let mut took = Took::default();
        for (phase, took) in PHASES.into_iter().zip(&mut took) {
            let begin = Instant::now();
            map.put(format!("{phase} {number}").as_bytes(), b"ready").await?;
            for other in 0..of {
                while map.get(format!("{phase} {other}").as_bytes()).await?.is_none() {
                    if begin.elapsed() > Duration::from_secs(60) {
                        return Err(failed("waiting for other clients", io::ErrorKind::TimedOut));
                    }
                }
            }
            let (start, before) = (Instant::now(), map.counts().round_trips);
            let own_before = processor();
            let spawn = |task| {
                let keys = (number + task * of..KEYS).step_by((of * AT_ONCE) as usize);
                executor.spawn(0, operations(map.clone(), phase, keys))
            };
            for task in (0..AT_ONCE).map(spawn).collect::<Vec<_>>() {
                task.await.expect("nobody drops the task")?;
            }
            let trips = map.counts().round_trips - before;
            *took = [start.elapsed().as_secs_f64(), trips as f64, processor() - own_before];
        }
        map.close().await?;
        Ok(took)
    })
}

async fn operations(
    map: RemoteMap<LocalClient>,
    phase: &str,
    keys: impl Iterator<Item = u64>,
) -> Result<()> {
    for key in keys {
        let bytes = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        if phase == "get" {
            assert_eq!(map.get(&bytes).await?.as_deref(), Some(&bytes[..]));
        } else {
            map.put(&bytes, &bytes).await?;
        }
    }
    Ok(())
}
