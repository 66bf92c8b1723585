//! `put`, `get` and `del`: a few keys.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use durahash::MAX_VALUE_BYTES;

use crate::args::{Kind, Read, Write};
use crate::escape::write_line;
use crate::exit::{Exit, Failure};
use crate::lifetime::Expiry;
use crate::opened::Opened;
use crate::output::print;
use crate::pool::{open_to_read, open_to_write};
use crate::store::Store;

/// `durahash put`.
pub(crate) fn put(
    pool: &Path,
    key: &OsStr,
    value: Option<&OsStr>,
    expiry: Option<Expiry>,
    write: &Write,
) -> Result<Exit, Failure> {
    let open = || {
        let pool = open_to_write(pool, write)?;
        if expiry.is_some() && pool.kind() != Kind::Cache {
            let (name, kind) = (pool.name(), pool.kind().names().0);
            let message = format!(
                "{name}: a {kind} forgets nothing: leave --ttl and --until out, or create one with --expiry"
            );
            return Err(Failure::new(Exit::Usage, message));
        }
        Ok(pool)
    };
    put_into(open, key, value, expiry)
}

/// Puts a value, which is the standard input where there is none; that is read before the store is opened.
pub(crate) fn put_into<S: Store>(
    open: impl FnOnce() -> Result<S, Failure>,
    key: &OsStr,
    value: Option<&OsStr>,
    expiry: Option<Expiry>,
) -> Result<Exit, Failure> {
    let mut input = Vec::new();
    let value = match value {
        Some(value) => value.as_bytes(),
        None => {
            // One byte more than any value: what is too large is found out without reading it all.
            let read = io::stdin().take(MAX_VALUE_BYTES as u64 + 1).read_to_end(&mut input);
            read.map_err(|e| Failure::new(Exit::Io, format!("reading standard input: {e}")))?;
            &input
        }
    };
    let store = open()?;
    store.put(key.as_bytes(), value, expiry).map_err(|e| store.failed(&e))?;
    store.close()?;
    Ok(Exit::Ok)
}

/// `durahash get`.
pub(crate) fn get(read: &Read, keys: &[OsString]) -> Result<Exit, Failure> {
    get_from(&open_to_read(read)?, keys)
}

/// The values of one key as they are, those of several beside their keys, as a dump has them.
pub(crate) fn get_from(store: &impl Store, keys: &[OsString]) -> Result<Exit, Failure> {
    let (mut lines, mut exit) = (Vec::new(), Exit::Ok);
    for key in keys {
        let key = key.as_bytes();
        let values = store.get_all(key).map_err(|e| store.failed(&e))?;
        if values.is_empty() {
            exit = Exit::NotFound;
        }
        for value in values {
            if keys.len() > 1 {
                write_line(key, &value, &mut lines);
            } else {
                lines.extend(value);
                lines.push(b'\n');
            }
        }
    }
    print(&lines)?;
    Ok(exit)
}

/// `durahash del`.
pub(crate) fn del(
    pool: &Path,
    key: &OsStr,
    value: Option<&OsStr>,
    write: &Write,
) -> Result<Exit, Failure> {
    let pool = open_to_write(pool, write)?;
    let key = key.as_bytes();
    let removed = match (&pool.map, value) {
        (_, None) => return del_from(pool, key),
        (Opened::Multimap(map), Some(value)) => map.remove_one(key, value.as_bytes()),
        (Opened::Map(_) | Opened::Cache(_), Some(_)) => {
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
