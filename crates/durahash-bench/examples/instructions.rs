//! `instructions OPERATION COUNT`: loads a map in memory and does one kind of operation so many times
//! and no more, for a tool that counts instructions (`.ci/instructions`).

use std::process::ExitCode;

use durahash::{Map, Options, Result};

/// Enough for splits to be in a steady state, few enough for a tool that is slow.
const KEYS: u64 = 30_000;

/// A key, spread over all words.
fn key(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn run(operation: &str, count: u64) -> Result<bool> {
    // Little address space: a counting tool has not much of it.
    let map: Map<u64, u64> = Options::new().seed(1).max_bytes(64 << 20).in_memory()?;
    for i in 0..KEYS {
        map.put(&key(i), &i)?;
    }
    let keys: Vec<u64> = (0..count).map(|i| key(i % KEYS)).collect();
    let mut out = vec![None; keys.len()];
    match operation {
        "hit" => {
            for (key, out) in keys.iter().zip(&mut out) {
                *out = map.get(key)?;
            }
        }
        "miss" => {
            for (key, out) in keys.iter().zip(&mut out) {
                *out = map.get(&!key)?;
            }
        }
        "get_many" => map.get_many(&keys, &mut out)?,
        "update" => {
            for key in &keys {
                map.put(key, &1)?;
            }
        }
        "insert" => {
            for key in &keys {
                map.put(&!key, &1)?;
            }
        }
        _ => return Ok(false),
    }
    // Nothing of it may be left out as unused.
    std::hint::black_box(&out);
    Ok(true)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [operation, count] = args.as_slice() else {
        eprintln!("usage: instructions hit|miss|get_many|update|insert COUNT");
        return ExitCode::from(2);
    };
    match count.parse().map(|count| run(operation, count)) {
        Ok(Ok(true)) => ExitCode::SUCCESS,
        Ok(Ok(false)) | Err(_) => {
            eprintln!("instructions: no such operation or count: {operation} {count}");
            ExitCode::from(2)
        }
        Ok(Err(e)) => {
            eprintln!("instructions: {e}");
            ExitCode::FAILURE
        }
    }
}
