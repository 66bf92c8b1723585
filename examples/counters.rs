//! Counts the words of a text by several threads. The counts survive the program.
//!
//!     cargo run -p durahash-examples --bin counters

#![forbid(unsafe_code)]

use std::thread;

use durahash::{Map, Options, Result};

const TEXT: &str = include_str!("../ARCHITECTURE.md");

/// Adds the words of `lines` to the counts.
fn count<'a>(counts: &Map<str, u64>, lines: impl Iterator<Item = &'a str>) -> Result<()> {
    for line in lines {
        let words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        for word in words {
            counts.fetch_add(&word.to_lowercase(), 1)?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("counts.pool");

    let counts: Map<str, u64> = Options::new().create(&path)?;
    thread::scope(|scope| {
        let counts = &counts;
        let threads: Vec<_> = (0..4)
            .map(|first| scope.spawn(move || count(counts, TEXT.lines().skip(first).step_by(4))))
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    counts.close()?;

    let counts: Map<str, u64> = Options::new().open(&path)?;
    let mut all = counts.iter().collect::<Result<Vec<_>>>()?;
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    println!("{} different words; the most frequent:", all.len());
    for (word, count) in all.iter().take(5) {
        println!("{count:8}  {word}");
    }
    let words = TEXT.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    assert_eq!(all.iter().map(|(_, count)| count).sum::<u64>(), words.count() as u64);
    Ok(())
}
