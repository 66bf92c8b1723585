//! The names of a fabric's files in its directory, and their removal.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use durahash_media::{Error, Result};

/// Attempts to empty a directory before its removal fails.
const REMOVALS_MAX: usize = 100;

/// The name of a region's file, before its number.
const NODE_PREFIX: &str = "node-";
/// The name of a row's file, before its number.
const ROW_PREFIX: &str = "client-";

pub(super) fn node_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{NODE_PREFIX}{number}"))
}

pub(super) fn row_path(dir: &Path, row: u32) -> PathBuf {
    dir.join(format!("{ROW_PREFIX}{row}"))
}

/// Returns whether a file of this name is one of a fabric.
fn is_ours(name: &str) -> bool {
    name.starts_with(NODE_PREFIX) || name.starts_with(ROW_PREFIX)
}

/// Removes the files of a fabric, and the directory if nothing else is in it.
pub(super) fn remove_files(dir: &Path) -> Result<()> {
    let failed = |e| Error::io("removing the fabric", Some(dir.into()), e);
    // A process that has attached it may add a client meanwhile.
    for _ in 0..REMOVALS_MAX {
        for entry in fs::read_dir(dir).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if is_ours(name) {
                fs::remove_file(&path).map_err(failed)?;
            }
        }
        match fs::remove_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            done => return done.map_err(failed),
        }
    }
    Err(failed(io::ErrorKind::DirectoryNotEmpty.into()))
}
