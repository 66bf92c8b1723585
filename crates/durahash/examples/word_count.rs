//! Counts the words of the files named on the command line, and keeps the counts: run it again with
//! other files and they are added.
//!
//!     cargo run -p durahash --example word_count -- words.pool README.md ARCHITECTURE.md

use std::fs;
use std::process::ExitCode;

use durahash::{Map, Options};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let Some(pool) = args.next() else {
        eprintln!("usage: word_count POOL FILE...");
        return ExitCode::from(2);
    };
    match count(pool.as_ref(), &args.map(Into::into).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("word_count: {e}");
            ExitCode::FAILURE
        }
    }
}

fn count(
    pool: &std::path::Path,
    files: &[std::path::PathBuf],
) -> Result<(), Box<dyn std::error::Error>> {
    let counts: Map<str, u64> = Options::new().open_or_create(pool)?;
    for file in files {
        let bytes = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
        for word in String::from_utf8_lossy(&bytes)
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
        {
            counts.fetch_add(&word.to_lowercase(), 1)?;
        }
    }

    let mut all = counts.iter().collect::<durahash::Result<Vec<_>>>()?;
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    println!("{} different words; the most frequent:", all.len());
    for (word, count) in all.iter().take(10) {
        println!("{count:8}  {word}");
    }
    counts.close()?;
    Ok(())
}
