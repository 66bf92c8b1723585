//! Values of many sizes, read into one buffer. The file is compacted when most of them are gone.
//!
//!     cargo run -p durahash-examples --bin blobs

#![forbid(unsafe_code)]

use std::error::Error;

use durahash::{Map, Options};

/// The content of a blob, so that it can be checked.
fn content(n: usize) -> Vec<u8> {
    let bytes = [100, 10_000, 1_000_000][n % 3];
    (0..bytes).map(|i| (i * n) as u8).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("blobs.pool");
    let blobs: Map<str, [u8]> = Options::new().create(&path)?;
    for n in 0..60 {
        blobs.put(&format!("blob {n}"), &content(n))?;
    }

    // `get_into` copies into a buffer of ours, `get_with` into one of the thread.
    let mut buffer = Vec::new();
    for n in 0..60 {
        assert!(blobs.get_into(&format!("blob {n}"), &mut buffer)?);
        assert_eq!(buffer, content(n));
    }
    assert_eq!(blobs.get_with("blob 3", <[u8]>::len)?, Some(100));

    // The keys alone can be listed; `retain` sees the values, too.
    let names = blobs.keys().collect::<durahash::Result<Vec<_>>>()?;
    assert_eq!(names.len(), 60);
    let removed = blobs.retain(|_, bytes| bytes.len() < 1_000_000)?;
    println!("{removed} large blobs removed");
    assert_eq!(removed, 20);
    blobs.close()?;

    let before = std::fs::metadata(&path)?.len();
    Options::new().compact::<Map<str, [u8]>>(&path)?;
    let after = std::fs::metadata(&path)?.len();
    println!("{before} bytes before the compaction, {after} after it");
    assert!(after < before);
    let blobs: Map<str, [u8]> = Options::new().open(&path)?;
    assert_eq!(blobs.get("blob 1")?, Some(content(1)));
    Ok(())
}
