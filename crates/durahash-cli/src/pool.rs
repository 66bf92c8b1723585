//! Pools as the commands open them.

use std::io;
use std::path::Path;

use durahash::rewo::Cache;
use durahash::{Design, Error, ErrorKind, Options};

use crate::args::{Create, Kind, New, Read, Write};
use crate::exit::{Exit, Failure};
use crate::opened::Opened;

/// `durahash create`.
pub(crate) fn create(args: &Create) -> Result<Exit, Failure> {
    let made = make(&args.pool, &args.new)?;
    close(&args.pool, made)?;
    Ok(Exit::Ok)
}

/// Creates a pool as `new` says.
fn make(pool: &Path, new: &New) -> Result<Opened, Failure> {
    let kind = new.kind.unwrap_or(Kind::Map);
    if kind == Kind::Multimap && new.design == Some(Design::Reh) {
        let message = "design reh keeps one value for each key, so no --kind multimap".to_owned();
        return Err(Failure::new(Exit::Usage, message));
    }
    let ty = new.codec.unwrap_or_default().data();
    Opened::create(pool, kind, ty, &options(new)).map_err(|e| creation_failed(pool, &e))
}

/// Opens a pool for a command that only reads, as many at a time as like to.
pub(crate) fn open_to_read(args: &Read) -> Result<Opened, Failure> {
    let options = Options::new().read_only(true).accept_suspect(args.accept_suspect);
    Opened::open(&args.pool, &options).map_err(|e| open_failed(&args.pool, &e))
}

/// Opens a pool that exists, for a command that writes.
pub(crate) fn open_to_write(pool: &Path, write: Write) -> Result<Opened, Failure> {
    Opened::open(pool, &in_mode(Options::new(), write)).map_err(|e| open_to_write_failed(pool, &e))
}

/// Opens a pool for writing, or creates it as `new` says. An existing one is as it is, but must not
/// be another than was asked for.
pub(crate) fn open_or_create(pool: &Path, new: &New) -> Result<Opened, Failure> {
    let open = || Opened::open(pool, &in_mode(Options::new(), new.write));
    let map = match open() {
        Err(e) if is_missing(&e) => match make(pool, new) {
            // Somebody else was quicker.
            Err(_) if pool.exists() => open().map_err(|e| open_to_write_failed(pool, &e)),
            made => made,
        },
        opened => opened.map_err(|e| open_to_write_failed(pool, &e)),
    }?;
    let (design, types, kind) = (map.design(), map.types(), map.kind());
    let wanted_types = new.codec.map_or(types, |codec| [codec.data(); 2]);
    if wanted_types != types
        || new.design.is_some_and(|wanted| wanted != design)
        || new.kind.is_some_and(|wanted| wanted != kind)
    {
        let [key, value] = types;
        let message = format!(
            "{}: the pool exists, as --design {design} --kind {} with keys of {key} and values of \
             {value}; leave --design, --kind and --codec out to load into it",
            pool.display(),
            kind.names().0,
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(map)
}

/// Closes a pool, which is when its file is cut and marked as whole.
pub(crate) fn close(pool: &Path, map: Opened) -> Result<(), Failure> {
    map.close().map_err(|e| Failure::pool(pool, &e))
}

fn options(new: &New) -> Options {
    let options = match new.design {
        Some(design) => Options::new().design(design),
        None => Options::new(),
    };
    let options = in_mode(options, new.write);
    match new.max_size {
        Some(bytes) => options.max_bytes(bytes),
        None => options,
    }
}

fn in_mode(options: Options, write: Write) -> Options {
    let options = match write.cache {
        Some(bytes) => options.cache(Cache { bytes: Some(bytes), ..Cache::default() }),
        None => options,
    };
    match write.durability {
        Some(mode) => options.sync_mode(mode),
        None => options,
    }
}

/// Damage that keeps a pool from being opened keeps its entries from being saved, too.
fn open_failed(pool: &Path, e: &Error) -> Failure {
    if matches!(e.kind(), ErrorKind::Corrupt { .. }) {
        let message = format!("{}: {e}; it cannot be opened: take a backup", pool.display());
        return Failure::new(Exit::Corrupt, message);
    }
    Failure::pool(pool, e)
}

/// A pool that cannot be written may still be there to be read.
fn open_to_write_failed(pool: &Path, e: &Error) -> Failure {
    let mut failure = open_failed(pool, e);
    let forbidden = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    if matches!(e.kind(), ErrorKind::Io { source, .. } if forbidden.contains(&source.kind())) {
        failure.add("get, dump, stats and check need permission to read only");
    }
    failure
}

/// Where a pool was to be made, a missing file is its directory.
fn creation_failed(pool: &Path, e: &Error) -> Failure {
    if is_missing(e) {
        return Failure::new(Exit::Io, format!("{e}; does its directory exist?"));
    }
    Failure::pool_or_full(pool, e, "no pool was made")
}

/// Whether there was no file.
fn is_missing(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_given_where_it_helps() {
        let pool = Path::new("a.pool");
        let forbidden = || {
            let source = io::ErrorKind::PermissionDenied.into();
            Error::io("opening the pool", Some(pool.into()), source)
        };
        let message = |failure: Failure| failure.message.unwrap();
        let advice = "need permission to read only";
        assert!(message(open_to_write_failed(pool, &forbidden())).ends_with(advice));
        for failure in [open_failed(pool, &forbidden()), creation_failed(pool, &forbidden())] {
            assert!(!message(failure).contains(advice));
        }
        let full = message(creation_failed(pool, &ErrorKind::Full { wanted_bytes: 7 }.into()));
        let wanted = "a.pool: no space for 7 more bytes: the file system or the pool's --max-size \
                      is exhausted; no pool was made";
        assert_eq!(full, wanted);
    }
}
