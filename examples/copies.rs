//! A pool is backed up while it is in use, and copied when it is closed; the copies are opened elsewhere. A copy of an open
//! file is refused.
//!
//!     cargo run -p durahash-examples --bin copies

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::Path;

use durahash::{ErrorKind, Map, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (path, copy) = (here.path().join("ages.pool"), there.path().join("copy.pool"));
    let open = |path: &Path| Options::new().open::<Map<str, u32>>(path);

    let ages: Map<str, u32> = Options::new().create(&path)?;
    ages.put("Ada", &36)?;

    // While the pool is open, its file is not whole.
    fs::copy(&path, &copy)?;
    let refused = open(&copy).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Copied), "{refused}");
    println!("refused: {refused}");

    // By the program that has it open, while all of its threads go on: a closed pool.
    ages.backup(there.path().join("backup.pool"))?;

    // Closed, it is a file as any other: it may be moved, renamed and copied.
    ages.close()?;
    fs::copy(&path, &copy)?;
    let moved = there.path().join("moved.pool");
    fs::rename(&copy, &moved)?;
    for path in [&path, &moved, &there.path().join("backup.pool")] {
        let ages = open(path)?;
        assert_eq!(ages.get("Ada")?, Some(36));
        println!("{} entries in {}", ages.len()?, path.display());
    }

    // Written anew without gaps, while it is only read: a backup that has its name when it is whole.
    let compacted = there.path().join("compacted.pool");
    Options::new().compact_to::<Map<str, u32>>(&path, &compacted, &mut |_, _| ())?;
    assert_eq!(open(&compacted)?.get("Ada")?, Some(36));

    // The copies are two pools from now on.
    open(&path)?.put("Grace", &85)?;
    assert_eq!(open(&moved)?.get("Grace")?, None);

    // Several may read one at once, while none writes it.
    let readers = [(); 3].map(|()| Options::new().read_only(true).open::<Map<str, u32>>(&path));
    for reader in readers {
        assert_eq!(reader?.get("Grace")?, Some(85));
    }
    Ok(())
}
