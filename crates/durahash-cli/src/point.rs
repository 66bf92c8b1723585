//! `put`, `get` and `del`: one key.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::args::{Read, Write};
use crate::exit::{Exit, Failure};
use crate::opened::Opened;
use crate::output::print;
use crate::pool::{open_to_read, open_to_write};
use crate::store::Store;

/// `durahash put`.
pub(crate) fn put(pool: &Path, key: &OsStr, value: &OsStr, write: Write) -> Result<Exit, Failure> {
    put_into(open_to_write(pool, write)?, key.as_bytes(), value.as_bytes())
}

pub(crate) fn put_into(store: impl Store, key: &[u8], value: &[u8]) -> Result<Exit, Failure> {
    store.put(key, value).map_err(|e| store.failed(&e))?;
    store.close()?;
    Ok(Exit::Ok)
}

/// `durahash get`.
pub(crate) fn get(read: &Read, key: &OsStr) -> Result<Exit, Failure> {
    get_from(&open_to_read(read)?, key.as_bytes())
}

pub(crate) fn get_from(store: &impl Store, key: &[u8]) -> Result<Exit, Failure> {
    let values = store.get_all(key).map_err(|e| store.failed(&e))?;
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
    let pool = open_to_write(pool, write)?;
    let key = key.as_bytes();
    let removed = match (&pool.map, value) {
        (_, None) => return del_from(pool, key),
        (Opened::Multimap(map), Some(value)) => map.remove_one(key, value.as_bytes()),
        (Opened::Map(_), Some(_)) => {
            let message =
                format!("{}: a map has one value for each key: leave VALUE out", pool.name());
            return Err(Failure::new(Exit::Usage, message));
        }
    };
    end_del(pool, removed)
}

pub(crate) fn del_from(store: impl Store, key: &[u8]) -> Result<Exit, Failure> {
    let removed = store.remove(key);
    end_del(store, removed)
}

fn end_del(store: impl Store, removed: durahash::Result<bool>) -> Result<Exit, Failure> {
    let removed = removed.map_err(|e| store.failed(&e))?;
    store.close()?;
    Ok(if removed { Exit::Ok } else { Exit::NotFound })
}
