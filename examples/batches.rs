//! How fast a batch of 1,000 puts is that a crash leaves as a whole or not at all, beside `put_many` of them: both by
//! turns on one map, and their medians, as rows of a table.
//!
//!     cargo run --release -p durahash-examples --bin batches [ENTRIES [DESIGN]]

use std::borrow::Borrow;
use std::path::Path;
use std::time::{Duration, Instant};

use durahash::{Batch, Data, Design, Map, Options, Result, SyncMode};

const PUTS: u64 = 1000;

fn median(mut took: Vec<Duration>) -> f64 {
    took.sort();
    took[took.len() / 2].as_nanos() as f64 / 1e3
}

/// A permutation of numbers, so that keys come in no order.
fn mixed(i: u64) -> u64 {
    let i = (i ^ i >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (i ^ i >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Prints the rows of a map with so many entries.
fn measure<T: Data + ?Sized>(
    path: &Path,
    (kind, new): (&str, fn(u64) -> T::Owned),
    (mode, design): (SyncMode, Design),
    entries: u64,
) -> Result<()> {
    let map: Map<T, T> = Options::new().sync_mode(mode).design(design).seed(1).create(path)?;
    let pairs = |numbers: &mut dyn Iterator<Item = u64>, round: u64| -> Vec<_> {
        numbers.map(|i| (new(mixed(i)), new(i + round))).collect()
    };
    for i in (0..entries).step_by(PUTS as usize) {
        map.put_many(&pairs(&mut (i..i + PUTS), 0))?;
    }
    let rounds = (entries / 50).clamp(1, 200);
    let mut batch = Batch::new();
    for (what, is_new) in [("keys that are there", false), ("new keys", true)] {
        let [mut many, mut whole, mut built] = [(); 3].map(|()| Vec::new());
        for round in 0..2 * rounds {
            let numbers = round * PUTS..(round + 1) * PUTS;
            let pairs = pairs(
                &mut numbers
                    .map(|i| if is_new { 1 << 40 | i } else { mixed(i | 1 << 50) % entries }),
                // A value that is there already would be no change.
                round + 1,
            );
            let start = Instant::now();
            if round % 2 == 0 {
                map.put_many(&pairs)?;
                many.push(start.elapsed());
            } else {
                batch.clear();
                for (key, value) in &pairs {
                    batch.put(&map, key.borrow(), value.borrow())?;
                }
                let applied = Instant::now();
                batch.apply()?;
                whole.push(applied.elapsed());
                built.push(start.elapsed());
            }
        }
        let [many, whole, built] = [many, whole, built].map(median);
        println!(
            "| {design} | {mode} | {kind} | {what} | {many:.0} | {whole:.0} | {built:.0} | {:.2} |",
            many / whole,
        );
    }
    drop(batch);
    map.close()?;
    std::fs::remove_file(path).expect("the file is removed");
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let entries = args.next().map_or(1_000_000, |n| n.parse().expect("a number"));
    let only: Option<Design> = args.next().map(|name| name.parse().expect("a design"));
    // Not in the system's directory for such files, which may lie in memory.
    let dir = tempfile::tempdir_in(".").expect("a temporary directory");
    let path = &dir.path().join("map.pool");
    println!(
        "| design | mode | map | 1,000 puts of | `put_many`, µs | `apply` | built and applied | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for design in Design::ALL.iter().filter(|design| only.is_none_or(|only| **design == only)) {
        for mode in [SyncMode::Process, SyncMode::INTERVAL] {
            let text = |i| format!("{i:032}");
            measure::<u64>(path, ("words", |i| i), (mode, *design), entries)?;
            measure::<str>(path, ("records", text), (mode, *design), entries)?;
        }
    }
    Ok(())
}
