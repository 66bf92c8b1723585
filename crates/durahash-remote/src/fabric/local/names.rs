//! The names of a fabric's files in its directory.

use std::path::{Path, PathBuf};

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
pub(super) fn is_ours(name: &str) -> bool {
    name.starts_with(NODE_PREFIX) || name.starts_with(ROW_PREFIX)
}
