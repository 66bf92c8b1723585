//! What an open costs those that come first: the time until the first lookup is answered, and how long the
//! lookups after it take, with and without `Options::warm`.
//!
//!     cargo run --release -p durahash-examples --bin reopen -- 10000000

#![forbid(unsafe_code)]

use std::time::Instant;

use durahash::{Map, Options, Result, SyncMode};

/// Spreads the lookups over all keys.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Looks up these of all keys, and returns how long each took, in nanoseconds.
fn look_up(map: &Map<u64, u64>, keys: u64, turns: std::ops::Range<u64>) -> Result<f64> {
    let count = turns.end - turns.start;
    let start = Instant::now();
    for turn in turns {
        let key = ((u128::from(turn.wrapping_mul(STEP)) * u128::from(keys)) >> 64) as u64;
        assert_eq!(map.get(&key)?, Some(!key));
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

fn main() -> Result<()> {
    let keys: u64 = std::env::args().nth(1).map_or(1_000_000, |n| n.parse().expect("a number"));
    // Not in the system's directory for such files, which may lie in memory.
    let dir = tempfile::tempdir_in(".").expect("a temporary directory");
    let path = dir.path().join("map.pool");
    let map: Map<u64, u64> = Options::new().sync_mode(SyncMode::Process).create(&path)?;
    let all: Vec<u64> = (0..keys).collect();
    for batch in all.chunks(1000) {
        map.put_many(&batch.iter().map(|key| (*key, !key)).collect::<Vec<_>>())?;
    }
    map.close()?;

    println!("| warm | first lookup, ms | up to lookup | ns each | later | of the later speed |");
    println!("|---|---|---|---|---|---|");
    for warm in [false, true] {
        let mut upto = 1;
        while upto < keys {
            upto = (10 * upto).min(keys);
            let start = Instant::now();
            let map: Map<u64, u64> = Options::new().warm(warm).open(&path)?;
            look_up(&map, keys, 0..1)?;
            let first = start.elapsed().as_secs_f64() * 1e3;
            let early = look_up(&map, keys, 1..upto)?;
            // After these nearly every page of the file has been touched.
            look_up(&map, keys, upto..upto + keys)?;
            let later = look_up(&map, keys, upto + keys..upto + 2 * keys)?;
            let share = later / early;
            println!("| {warm} | {first:.2} | {upto} | {early:.0} | {later:.0} | {share:.2} |");
            map.close()?;
        }
    }
    Ok(())
}
