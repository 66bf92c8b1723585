//! `instructions OPERATION COUNT`: loads a map in memory and does one kind of operation so many times
//! and no more, for a tool that counts instructions (`.ci/instructions`).

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use durahash::{Cache, Map, Options, Result, SyncMode};

/// Enough for splits to be in a steady state, few enough for a tool that is slow.
const KEYS: u64 = 30_000;

/// A key, spread over all words.
fn key(i: u64) -> u64 {
    i.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The same as a text.
fn text(i: u64) -> String {
    format!("a name, {:016x}", key(i))
}

/// Lookups of texts with values of a usual length.
fn run_texts(is_hit: bool, count: u64) -> Result<()> {
    let map: Map<str, str> = Options::new().seed(1).max_bytes(64 << 20).in_memory()?;
    for i in 0..KEYS {
        map.put(&text(i), &"text".repeat(25))?;
    }
    // As many whatever the count is: texts take more than lookups.
    let keys: Vec<String> = (0..KEYS).map(|i| text(if is_hit { i } else { !i })).collect();
    for key in keys.iter().cycle().take(count as usize) {
        let found = map.get_with(key, str::len)?;
        assert_eq!(std::hint::black_box(found).is_some(), is_hit);
    }
    Ok(())
}

/// The same as a digest.
fn digest(i: u64) -> [u8; 32] {
    let words = [0, 1, 2, 3].map(|part| key(i ^ part << 32).to_le_bytes());
    words.as_flattened().try_into().expect("four words")
}

/// Operations on digests, which are kept in cells.
fn run_digests(kind: &str, count: u64) -> Result<bool> {
    let map: Map<[u8; 32], u64> = Options::new().seed(1).max_bytes(64 << 20).in_memory()?;
    for i in 0..KEYS {
        map.put(&digest(i), &i)?;
    }
    let keys: Vec<[u8; 32]> =
        (0..KEYS).map(|i| digest(i ^ (u64::from(kind != "hit") << 20))).collect();
    let keys = keys.iter().cycle().take(count as usize);
    match kind {
        "hit" | "miss" => {
            for key in keys {
                let found = map.get(key)?;
                assert_eq!(std::hint::black_box(found).is_some(), kind == "hit");
            }
        }
        "insert" => {
            for key in keys {
                map.put(key, &1)?;
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Operations on a cache that is full: each insert evicts.
fn run_cache(kind: &str, count: u64) -> Result<bool> {
    let options = Options::new().seed(1).max_bytes(64 << 20).max_entries(KEYS).sweep(false);
    let cache: Cache<u64, u64> = options.in_memory()?;
    for i in 0..2 * KEYS {
        cache.put(&key(i), &i)?;
    }
    let there: Vec<u64> =
        cache.iter().map(|pair| pair.map(|(key, _)| key)).collect::<Result<_>>()?;
    for i in 0..count {
        match kind {
            "hit" => {
                let found = cache.get(&there[(i % KEYS) as usize])?;
                assert!(std::hint::black_box(found).is_some());
            }
            "evict" => cache.put(&key(2 * KEYS + i), &i)?,
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Inserts into a pool in a file: without a log, or with a live image of which no snapshot is taken meanwhile.
fn run_file(kind: &str, count: u64) -> std::result::Result<bool, Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let options = Options::new().seed(1).max_bytes(1 << 30);
    let options = match kind {
        "insert" => options.sync_mode(SyncMode::Process),
        "live_insert" => {
            let mode = SyncMode::Interval(Duration::from_secs(3600));
            options.sync_mode(mode).live_image(true).log_bytes(64 << 20)
        }
        _ => return Ok(false),
    };
    let map: Map<u64, u64> = options.create(dir.path().join("map.pool"))?;
    for i in 0..KEYS {
        map.put(&key(i), &i)?;
    }
    map.sync()?;
    for i in 0..count {
        map.put(&!key(i % KEYS), &1)?;
    }
    // A close would bring all of it to the file.
    dir.close()?;
    std::process::exit(0)
}

fn run(operation: &str, count: u64) -> std::result::Result<bool, Box<dyn Error>> {
    if let Some(kind) = operation.strip_prefix("cache_") {
        return Ok(run_cache(kind, count)?);
    }
    if let Some(kind) = operation.strip_prefix("file_") {
        return run_file(kind, count);
    }
    if let Some(kind) = operation.strip_prefix("digest_") {
        return Ok(run_digests(kind, count)?);
    }
    if let Some(kind) = operation.strip_prefix("text_") {
        run_texts(kind == "hit", count)?;
        return Ok(true);
    }
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
        eprintln!(
            "usage: instructions hit|miss|get_many|update|insert|text_hit|text_miss|\
             digest_hit|digest_miss|digest_insert|cache_hit|cache_evict|file_insert|file_live_insert COUNT"
        );
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
