//! Operations per second on memory of this process, `cargo run --release -p durahash-remote --example throughput`:
//! a client for each thread, with 32 operations under way; medians of three.

use std::time::Instant;

use durahash_remote::executor::Executor;
use durahash_remote::fabric::{Local, LocalOptions};
use durahash_remote::{Options, RemoteMap, Result};

/// Operations under way at once, of each thread.
const AT_ONCE: u64 = 32;
const KEYS: u64 = 500_000;
const REPEATS: usize = 3;

fn main() -> Result<()> {
    println!("million operations a second, {KEYS} keys and values of 8 bytes");
    println!("threads     put    get  round trips of a put and a get");
    for threads in [1, 2] {
        let mut runs = Vec::new();
        for _ in 0..REPEATS {
            runs.push(run(threads)?);
        }
        let median = |of: fn(&[f64; 4]) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_unstable_by(f64::total_cmp);
            all[REPEATS / 2]
        };
        let [put, get] = [median(|run| run[0]), median(|run| run[1])];
        let [puts, gets] = [median(|run| run[2]), median(|run| run[3])];
        println!("{threads:>7}  {put:>6.3} {get:>6.3}  {puts:.2} and {gets:.2}");
    }
    Ok(())
}

/// Puts all keys and gets them, by threads: million a second of both, and their round trips.
fn run(threads: u64) -> Result<[f64; 4]> {
    let options = LocalOptions { node_bytes: vec![256 << 20], ..LocalOptions::default() };
    let local = Local::anonymous(&options)?;
    let maker = Executor::new();
    // A client that is idle without showing life would hold the others up.
    maker.block_on(async {
        RemoteMap::create(local.client()?, Options::default()).await?.close().await
    })?;
    let mut figures = [0.0; 4];
    for (what, puts) in [true, false].into_iter().enumerate() {
        let start = Instant::now();
        let trips = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|thread| {
                    let local = &local;
                    scope.spawn(move || client(local, puts, thread, threads))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no thread panics"))
                .sum::<Result<u64>>()
        })?;
        figures[what] = KEYS as f64 / start.elapsed().as_secs_f64() / 1e6;
        figures[2 + what] = trips as f64 / KEYS as f64;
    }
    Ok(figures)
}

/// One thread's keys; how many round trips they took.
fn client(local: &Local, puts: bool, thread: u64, threads: u64) -> Result<u64> {
    let client = local.client()?;
    let executor = Executor::new();
    executor.block_on(async {
        let map = RemoteMap::open(client, Options::default()).await?;
        let before = map.counts().round_trips;
        let tasks: Vec<_> = (0..AT_ONCE)
            .map(|task| {
                let map = map.clone();
                executor.spawn(0, async move {
                    let mine =
                        (thread + task * threads..KEYS).step_by((threads * AT_ONCE) as usize);
                    for key in mine {
                        let bytes = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
                        if puts {
                            map.put(&bytes, &bytes).await?;
                        } else {
                            assert_eq!(map.get(&bytes).await?.as_deref(), Some(&bytes[..]));
                        }
                    }
                    Ok::<(), durahash_remote::Error>(())
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("nobody drops the task")?;
        }
        let trips = map.counts().round_trips - before;
        map.close().await?;
        Ok(trips)
    })
}
