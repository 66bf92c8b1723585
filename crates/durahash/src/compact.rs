//! A pool written anew, without gaps.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durahash_media::{Error, ErrorKind, Mapped, Result};

use crate::chain::Rule;
use crate::index::{Change, Room};
use crate::iter::{Pairs, Slots};
use crate::open::{self, Wanted};
use crate::options::Options;
use crate::raw::Raw;

/// See [`AnyMap::compact`](crate::AnyMap::compact).
pub(crate) fn compact(path: &Path, options: &Options) -> Result<()> {
    // Where the name is a link, the file that it leads to is replaced, not the link.
    let path = &fs::canonicalize(path)
        .map_err(|e| Error::io("looking for", Some(path.to_path_buf()), e))?;
    let old = Arc::new(
        options
            .clone()
            .read_only(false)
            .open_raw(path, &|_, _, _| Ok(()))?,
    );
    if old.store.facts().suspect {
        let what = "a suspect pool is not compacted: dump it into a new one";
        return Err(ErrorKind::Options { what }.into());
    }
    let aside = aside(path);
    // Only the holder of the old pool's lock compacts it: what is there was left by a crash.
    remove(&aside)?;
    let copied = copy(&old, &aside, options).and_then(|()| {
        fs::rename(&aside, path)
            .and_then(|()| fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all())
            .map_err(|e| {
                Error::io(
                    "putting the compacted pool in place of",
                    Some(path.into()),
                    e,
                )
            })
    });
    if copied.is_err() {
        // The first failure is the one to report.
        let _ = remove(&aside);
    }
    copied
}

/// Where the new pool grows.
fn aside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".compact~");
    path.with_file_name(name)
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("removing", Some(path.to_path_buf()), e))
        }
        _ => Ok(()),
    }
}

/// Copies all entries into a new pool at `path`, and closes it.
fn copy(old: &Arc<Raw>, path: &Path, options: &Options) -> Result<()> {
    let format = old.store.format();
    let wanted = Wanted {
        design: old.design,
        key: old.key,
        value: old.value,
        geometry: format.geometry,
        seed: format.seed,
        max_bytes: format.max_bytes,
    };
    let options = options.clone().max_bytes(format.max_bytes);
    let new = open::create(Mapped::create(path, &options.mapped())?, &wanted)?;
    if old.is_words() {
        let mut slots = Slots::new(Arc::clone(old));
        while let Some(slot) = slots.next() {
            let (h, payload) = slot?;
            new.index
                .update(h, Room::ForNew, &mut |_| Ok(Change::Set(payload)))?;
        }
    } else {
        for pair in Pairs::new(Arc::clone(old)) {
            let (key, value) = pair?;
            let _ = new.change(&key, Some(&value), Rule::Always, None)?;
        }
    }
    new.close()
}
