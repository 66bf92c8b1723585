//! The index of a cache that survives restarts: which file holds the answer to a request, and until
//! when. Kill it at any time and run it again: what was cached before is still known.
//!
//!     cargo run -p durahash --example cache_index -- /tmp/cache https://example.org/a

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use durahash::{Map, Options, Outcome};

/// Seconds for which an answer is good.
const GOOD_FOR: u64 = 60;

/// When an answer ends to be good (8 bytes), then the name of its file.
fn entry(until: u64, file: &str) -> Vec<u8> {
    [&until.to_le_bytes(), file.as_bytes()].concat()
}

fn parts(entry: &[u8]) -> Option<(u64, &str)> {
    let (until, file) = entry.split_first_chunk()?;
    Some((u64::from_le_bytes(*until), str::from_utf8(file).ok()?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(dir), Some(request)) = (args.next(), args.next()) else {
        return Err("usage: cache_index DIRECTORY REQUEST".into());
    };
    let dir = Path::new(&dir);
    std::fs::create_dir_all(dir)?;
    let index: Map<str, [u8]> = Options::new().open_or_create(dir.join("index.pool"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();

    let known = index.get(&request)?;
    match known.as_deref().and_then(parts) {
        Some((until, file)) if until > now => {
            println!("hit: {} ({} s left)", dir.join(file).display(), until - now);
        }
        _ => {
            let answer = format!("the answer to {request}, worked out at {now}\n");
            let file = format!("{now}-{}.answer", std::process::id());
            // The file first, then the entry: whatever happens between, no entry lacks its file.
            std::fs::write(dir.join(&file), answer)?;
            let new = entry(now + GOOD_FOR, &file);
            let outcome = match &known {
                Some(old) => index.compare_exchange(&request, old, &new)?,
                None => index.try_insert(&request, &new)?,
            };
            match outcome {
                Outcome::Done => println!("miss: now in {}", dir.join(file).display()),
                Outcome::Present(_) | Outcome::Absent => println!("cached meanwhile"),
            }
        }
    }

    // Forget what is long out of date.
    let is_old = |entry: &[u8]| parts(entry).is_some_and(|(until, _)| until + 10 * GOOD_FOR < now);
    for request in index.keys() {
        if let Some(entry) = index.remove_if(&request?, is_old)?
            && let Some((_, file)) = parts(&entry)
        {
            std::fs::remove_file(dir.join(file))?;
        }
    }
    index.close()?;
    Ok(())
}
