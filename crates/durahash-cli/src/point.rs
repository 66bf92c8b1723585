//! `put`, `get` and `del`: one key.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::args::{Read, Write};
use crate::exit::{Exit, Failure};
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
    let value = map.get(key.as_bytes()).map_err(|e| Failure::pool(&read.pool, &e))?;
    let Some(mut value) = value else {
        return Ok(Exit::NotFound);
    };
    value.push(b'\n');
    print(&value)?;
    Ok(Exit::Ok)
}

/// `durahash del`.
pub(crate) fn del(pool: &Path, key: &OsStr, write: Write) -> Result<Exit, Failure> {
    let map = open_to_write(pool, write)?;
    let removed = map.remove(key.as_bytes()).map_err(|e| Failure::pool(pool, &e))?;
    close(pool, map)?;
    Ok(if removed { Exit::Ok } else { Exit::NotFound })
}
