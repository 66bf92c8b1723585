//! `backup`: a copy of a pool.

use std::fs;
use std::path::{Path, PathBuf};

use durahash::{Error, ErrorKind, Options, Pool};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::output::print_as;
use crate::pool::in_dir;
use crate::progress::Progress;
use crate::size::human;

/// `durahash backup`.
pub(crate) fn backup(
    path: &Path,
    to: &Path,
    live_dir: Option<&PathBuf>,
    json: bool,
) -> Result<Exit, Failure> {
    let options = in_dir(Options::new().read_only(true), live_dir);
    let pool: Pool = options.open(path).map_err(|e| opening(path, &e))?;
    let mut progress = None;
    let watch = &mut |done, of| {
        progress.get_or_insert_with(|| Progress::of_parts("backing up", of)).set(done);
    };
    let done = pool.backup_watched(to, watch);
    drop(progress);
    done.map_err(|e| match e.kind() {
        // These are about the pool, and not about the copy, of which nothing is left.
        ErrorKind::Corrupt { .. } | ErrorKind::WriterGone => Failure::pool(path, &e),
        _ => Failure::pool_or_full(to, &e, |_| "nothing of the backup is left"),
    })?;
    let metadata = fs::metadata(to);
    let bytes = metadata
        .map_err(|e| Failure::pool(to, &Error::io("looking at", Some(to.into()), e)))?
        .len();
    let (pool, backup) = (path.display().to_string(), to.display().to_string());
    let answer = || json!({ "pool": pool, "backup": backup, "bytes": bytes });
    let text = || format!("{backup}: {bytes} bytes ({}), a backup of {pool}\n", human(bytes));
    print_as(json, answer, text)?;
    Ok(Exit::Ok)
}

fn opening(path: &Path, e: &Error) -> Failure {
    let mut failure = Failure::pool(path, e);
    if matches!(e.kind(), ErrorKind::Locked) {
        failure.add("that process can back it up while it works (Map::backup), or let others do so (Options::readers)");
    }
    failure
}
