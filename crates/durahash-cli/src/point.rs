//! `put`, `get` and `del`: one key.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::args::{Read, Write};
use crate::exit::{Exit, Failure};
use crate::opened::Opened;
use crate::output::print;
use crate::pool::{close, open_to_read, open_to_write};

/// `durahash put`.
pub(crate) fn put(pool: &Path, key: &OsStr, value: &OsStr, write: Write) -> Result<Exit, Failure> {
    let map = open_to_write(pool, write)?;
    let put = map.put(key.as_bytes(), value.as_bytes());
    put.map_err(|e| Failure::pool(pool, &e))?;
    close(pool, map)?;
    Ok(Exit::Ok)
}

/// `durahash get`.
pub(crate) fn get(read: &Read, key: &OsStr) -> Result<Exit, Failure> {
    let map = open_to_read(read)?;
    let values = map.get_all(key.as_bytes()).map_err(|e| Failure::pool(&read.pool, &e))?;
    if values.is_empty() {
        return Ok(Exit::NotFound);
    }
    let mut lines = Vec::new();
    for value in values {
        lines.extend(value);
        lines.push(b'\n');
    }
    print(&lines)?;
    Ok(Exit::Ok)
}

/// `durahash del`.
pub(crate) fn del(
    pool: &Path,
    key: &OsStr,
    value: Option<&OsStr>,
    write: Write,
) -> Result<Exit, Failure> {
    let map = open_to_write(pool, write)?;
    let key = key.as_bytes();
    let removed = match (&map, value) {
        (_, None) => map.remove(key),
        (Opened::Multimap(map), Some(value)) => map.remove_one(key, value.as_bytes()),
        (Opened::Map(_), Some(_)) => {
            let message =
                format!("{}: a map has one value for each key: leave VALUE out", pool.display());
            return Err(Failure::new(Exit::Usage, message));
        }
    };
    let removed = removed.map_err(|e| Failure::pool(pool, &e))?;
    close(pool, map)?;
    Ok(if removed { Exit::Ok } else { Exit::NotFound })
}
