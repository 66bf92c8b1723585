//! `compact`: a pool written anew.

use std::fs;
use std::path::{Path, PathBuf};

use durahash::{Error, Options, Pool};

use crate::exit::{Exit, Failure};
use crate::output::print;
use crate::pool::in_dir;
use crate::progress::Progress;
use crate::size::human;

/// `durahash compact`.
pub(crate) fn compact(
    pool: &Path,
    to: Option<&Path>,
    live_dir: Option<&PathBuf>,
) -> Result<Exit, Failure> {
    let before = file_bytes(pool)?;
    let mut progress = Progress::without_end("compacting");
    let watch = &mut |done, of| progress.watch(done, of);
    let options = in_dir(Options::new(), live_dir);
    let compacted = match to {
        Some(to) => options.compact_to::<Pool>(pool, to, watch),
        None => options.compact_watched::<Pool>(pool, watch),
    };
    compacted.map_err(|e| {
        Failure::pool_or_full(
            pool,
            &e,
            |_| "the new file did not fit beside the old one, which stays",
        )
    })?;
    drop(progress);
    let written = to.unwrap_or(pool);
    let after = file_bytes(written)?;
    let text = format!(
        "{}: {before} bytes before, {after} bytes after ({} -> {})\n",
        written.display(),
        human(before),
        human(after)
    );
    print(text.as_bytes())?;
    Ok(Exit::Ok)
}

fn file_bytes(pool: &Path) -> Result<u64, Failure> {
    let metadata = fs::metadata(pool);
    metadata
        .map(|metadata| metadata.len())
        .map_err(|e| Failure::pool(pool, &Error::io("looking at", Some(pool.into()), e)))
}
