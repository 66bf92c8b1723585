//! How long calls take in each mode: percentiles, as rows of a table. For async programs, which must know what
//! blocks their threads.
//!
//!     cargo run --release -p durahash-examples --bin latency

#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use durahash::{Map, Options, Result, SyncMode};

/// So that keys are looked up in no order.
const STEP: u64 = 7_368_787;

/// Runs `f` a number of times, and prints how long it took.
fn measure(mode: &str, call: &str, times: u64, mut f: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let mut took = Vec::new();
    for i in 0..times {
        let start = Instant::now();
        f(i)?;
        took.push(start.elapsed());
    }
    took.sort();
    let of = |part: f64| micros(took[((times - 1) as f64 * part) as usize]);
    let [half, most, nearly, all] = [0.5, 0.99, 0.999, 1.0].map(of);
    println!("| {mode} | {call} | {times} | {half} | {most} | {nearly} | {all} |");
    Ok(())
}

fn micros(time: Duration) -> String {
    let micros = time.as_nanos() as f64 / 1e3;
    if micros < 10.0 { format!("{micros:.1}") } else { format!("{micros:.0}") }
}

fn main() -> Result<()> {
    let times: u64 = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().expect("a number"));
    // Not in the system's directory for such files, which may lie in memory.
    let dir = tempfile::tempdir_in(".").expect("a temporary directory");
    println!("| mode | call | calls | half | 99 % | 99.9 % | longest, µs |");
    println!("|---|---|---|---|---|---|---|");
    let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");
    measure("", "`spawn_blocking` of nothing", times, |_| {
        runtime.block_on(runtime.spawn_blocking(|| ())).expect("no panic");
        Ok(())
    })?;
    for mode in [SyncMode::Process, SyncMode::INTERVAL, SyncMode::Strict] {
        let name = mode.to_string();
        let path = dir.path().join("map.pool");
        let map: Map<u64, u64> = Options::new().sync_mode(mode).create(&path)?;
        let strict = mode == SyncMode::Strict;
        let puts = if strict { times.div_ceil(100) } else { times };
        measure(&name, "`put`", puts, |i| map.put(&i, &i))?;
        map.put_many(&(puts..times).map(|i| (i, i)).collect::<Vec<_>>())?;
        measure(&name, "`get`", times, |i| map.get(&(i * STEP % times)).map(drop))?;
        let thousand = |i: u64| (times + 1000 * i..).take(1000).map(|i| (i, i)).collect::<Vec<_>>();
        measure(&name, "`put_many` of 1,000", 100, |i| map.put_many(&thousand(i)))?;
        if !strict {
            measure(&name, "the same, and `sync`", 100, |i| {
                map.put_many(&thousand(100 + i))?;
                map.sync()
            })?;
        }
        map.close()?;
        measure(&name, "`open` and `close`", 20, |_| {
            Options::new().open::<Map<u64, u64>>(&path)?.close()
        })?;
        std::fs::remove_file(&path).expect("the file is removed");
    }
    Ok(())
}
