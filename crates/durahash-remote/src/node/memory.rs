//! Memory that a node lends to processes of its host.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use durahash_media::{Error, ErrorKind, Result};

use super::message::Offer;
use crate::fabric::{Local, LocalOptions};

/// The name of the fabric that such memory is on.
pub(super) const LOCAL: &str = "local";
/// Clients that can have a row of it at once.
const ROWS: u32 = 64;
/// Where processes share memory, on most systems.
const SHARED: &str = "/dev/shm";

/// Memory in files that a node has made: a directory with a file for the region, and one for each client's
/// row. Dropping it removes them; whoever has it attached keeps what it has.
pub struct LentMemory {
    dir: PathBuf,
    local: Local,
    bytes: u64,
}

impl LentMemory {
    /// Memory of `bytes`, a multiple of 4096, all zero, in a new directory at `dir`; without one, in a
    /// directory of a name that nobody has in `/dev/shm`, or where there is no such in that for temporary
    /// files. All space is taken at once.
    ///
    /// # Errors
    /// As [`Local::create`].
    pub fn create(dir: Option<&Path>, bytes: u64) -> Result<Self> {
        let dir = dir.map_or_else(some_dir, |dir| Ok(dir.to_owned()))?;
        let options = LocalOptions { node_bytes: vec![bytes], rows: ROWS, ..Default::default() };
        let local = Local::create(&dir, &options)?;
        let failed = |e| Error::io("looking for", Some(dir.clone()), e);
        // Clients may have another current directory.
        let dir = fs::canonicalize(&dir).map_err(failed)?;
        Ok(LentMemory { dir, local, bytes })
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What clients need to reach it.
    #[must_use]
    pub fn offer(&self) -> Offer {
        Offer {
            id: self.local.id(),
            bytes: self.bytes,
            rows: ROWS,
            fabric: LOCAL.into(),
            place: self.dir.as_os_str().as_bytes().to_vec(),
        }
    }
}

impl Drop for LentMemory {
    fn drop(&mut self) {
        // Somebody else may have removed it, and nobody is left to be told of more than that.
        drop(Local::remove(&self.dir, self.local.id()));
    }
}

/// A path that nobody has.
fn some_dir() -> Result<PathBuf> {
    let number = getrandom::u64()
        .map_err(|e| Error::io("drawing the name of a node's memory", None, io::Error::other(e)))?;
    let shared = Path::new(SHARED);
    let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    Ok(parent.join(format!("durahash-node-{number:016x}")))
}

/// Why memory cannot be reached by this build, whose fabric has this name.
pub(super) fn unknown(fabric: &str) -> Error {
    let what = match fabric {
        "ucx" => "the node lends its memory over UCX, which this build does not have",
        _ => "the node lends its memory over a fabric that this build does not know",
    };
    ErrorKind::Options { what }.into()
}
