//! Pools as the commands open them.

use std::io;
use std::path::Path;

use durahash::rewo::Cache;
use durahash::{Design, Error, ErrorKind, Options};

use crate::args::{Create, File, Kind, New, Read, Write};
use crate::exit::{Exit, Failure, make_room};
use crate::lifetime::Expiry;
use crate::opened::{MAIN, Opened, either};
use crate::store::{Pair, Store};

/// A map of a pool that is open, its name if it was asked for, and the pool's file.
pub(crate) struct Pool<'a> {
    pub(crate) path: &'a Path,
    name: Option<&'a str>,
    pub(crate) map: Opened,
}

impl Store for Pool<'_> {
    fn name(&self) -> String {
        let path = self.path.display();
        self.name.map_or_else(|| path.to_string(), |name| format!("{path} (map {name})"))
    }

    fn kind(&self) -> Kind {
        self.map.kind()
    }

    fn put(&self, key: &[u8], value: &[u8], expiry: Option<Expiry>) -> Result<(), Error> {
        match (&self.map, expiry) {
            (Opened::Cache(cache), Some(Expiry::After(time))) => cache.put_for(key, value, time),
            (Opened::Cache(cache), Some(Expiry::At(time))) => cache.put_until(key, value, time),
            (map, _) => either!(map, map => map.put(key, value), map.add(key, value)),
        }
    }

    fn put_many(&self, pairs: &[Pair]) -> Result<(), Error> {
        match &self.map {
            Opened::Map(map) => map.put_many(pairs),
            Opened::Multimap(map) => map.add_many(pairs),
            Opened::Cache(cache) => pairs.iter().try_for_each(|(key, value)| cache.put(key, value)),
        }
    }

    fn accepts(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        // A put into a map may be tried again.
        either!(&self.map, map => { let _ = map; Ok(()) }, map.accepts(key, value))
    }

    fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        either!(&self.map, map => Ok(map.get(key)?.into_iter().collect()), map.get_all(key))
    }

    fn remove(&self, key: &[u8]) -> Result<bool, Error> {
        either!(&self.map, map => map.remove(key), Ok(map.remove_all(key)? > 0))
    }

    fn entries(&self) -> Box<dyn Iterator<Item = Result<Pair, Error>> + '_> {
        either!(&self.map, map => Box::new(map.iter()))
    }

    fn len(&self) -> Option<u64> {
        // Without their number there is still a dump to be had.
        Some(either!(&self.map, map => map.len()).unwrap_or(0))
    }

    fn check_command(&self) -> String {
        format!("durahash check {}", self.path.display())
    }

    fn failed(&self, e: &Error) -> Failure {
        Failure::pool(self.path, e)
    }

    fn load_failed(&self, e: &Error) -> Failure {
        Failure::pool_or_full(self.path, e, make_room)
    }

    /// That is when its file is cut and marked as whole.
    fn close(self) -> Result<(), Failure> {
        either!(self.map, map => map.close()).map_err(|e| Failure::pool(self.path, &e))
    }
}

/// `durahash create`.
pub(crate) fn create(args: &Create) -> Result<Exit, Failure> {
    let map = make(&args.pool, &args.new)?;
    Pool { path: &args.pool, name: None, map }.close()?;
    Ok(Exit::Ok)
}

/// Creates a pool as `new` says, or a map in it.
fn make(pool: &Path, new: &New) -> Result<Opened, Failure> {
    let kind = if new.expiry { Kind::Cache } else { new.kind.unwrap_or(Kind::Map) };
    if kind == Kind::Multimap && new.design == Some(Design::Reh) {
        let message = "design reh keeps one value for each key, so no --kind multimap".to_owned();
        return Err(Failure::new(Exit::Usage, message));
    }
    let ty = new.codec.unwrap_or_default().data();
    let name = new.write.map.as_deref();
    Opened::create(pool, name, kind, ty, &options(new)).map_err(|e| creation_failed(pool, &e))
}

/// How a pool is opened to be read, by as many commands at a time as like to.
pub(crate) fn read_options(args: &File) -> Options {
    let options = Options::new().read_only(true).verify(args.verify);
    in_dir(options.accept_suspect(args.accept_suspect), args.live_dir.as_ref())
}

/// Opens a map of a pool for a command that only reads.
pub(crate) fn open_to_read(args: &Read) -> Result<Pool<'_>, Failure> {
    open_of_several(args).map(|(pool, _)| pool)
}

/// The same, and the names of the pool's other maps.
pub(crate) fn open_of_several(args: &Read) -> Result<(Pool<'_>, Vec<String>), Failure> {
    let (path, name) = (&args.file.pool, args.map.as_deref());
    let pool: durahash::Pool =
        read_options(&args.file).open(path).map_err(|e| open_failed(path, &e))?;
    let map = Opened::of(&pool, name.unwrap_or(MAIN)).map_err(|e| open_failed(path, &e))?;
    let beside = match &map {
        // What lies beside a cache is a part of it.
        Opened::Cache(_) => format!("{}.cache", name.unwrap_or(MAIN)),
        _ => String::new(),
    };
    let is_other = |other: &String| other != name.unwrap_or(MAIN) && *other != beside;
    let others = pool.names().into_iter().filter(is_other).collect();
    Ok((Pool { path, name, map }, others))
}

/// Opens a map of a pool that exists, for a command that writes.
pub(crate) fn open_to_write<'a>(path: &'a Path, write: &'a Write) -> Result<Pool<'a>, Failure> {
    let name = write.map.as_deref();
    let map = Opened::open(path, name, &in_mode(Options::new(), write));
    Ok(Pool { path, name, map: map.map_err(|e| open_to_write_failed(path, &e))? })
}

/// Opens a map for writing, or creates it as `new` says. An existing one is as it is, but must not
/// be another than was asked for.
pub(crate) fn open_or_create<'a>(pool: &'a Path, new: &'a New) -> Result<Pool<'a>, Failure> {
    let name = new.write.map.as_deref();
    let open = || Opened::open(pool, name, &in_mode(Options::new(), &new.write));
    let is_absent =
        |e: &Error| is_missing(e) || name.is_some() && matches!(e.kind(), ErrorKind::NoMap { .. });
    let map = match open() {
        Err(e) if is_absent(&e) => match make(pool, new) {
            // Another process was quicker.
            Err(_) if pool.exists() && name.is_none() => {
                open().map_err(|e| open_to_write_failed(pool, &e))
            }
            made => made,
        },
        opened => opened.map_err(|e| open_to_write_failed(pool, &e)),
    }?;
    let (design, types, kind) = (map.design(), map.types(), map.kind());
    let wanted_types = new.codec.map_or(types, |codec| [codec.data(); 2]);
    if wanted_types != types
        || new.design.is_some_and(|wanted| wanted != design)
        || new.kind.is_some_and(|wanted| wanted != kind)
        || new.expiry && kind != Kind::Cache
    {
        let [key, value] = types;
        let message = format!(
            "{}: the {} exists, as --design {design} {} with keys of {key} and values of {value}; leave \
             --design, --kind, --expiry and --codec out to load into it",
            pool.display(),
            if name.is_some() { "map" } else { "pool" },
            kind.option(),
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(Pool { path: pool, name, map })
}

fn options(new: &New) -> Options {
    let options = match new.design {
        Some(design) => Options::new().design(design),
        None => Options::new(),
    };
    let options = in_mode(options, &new.write);
    let options = match new.max_size {
        Some(bytes) => options.max_bytes(bytes),
        None => options,
    };
    let options = match new.max_entries {
        Some(entries) => options.max_entries(entries),
        None => options,
    };
    let options = match new.max_bytes_used {
        Some(bytes) => options.max_bytes_used(bytes),
        None => options,
    };
    match new.eviction {
        Some(policy) => options.eviction(policy),
        None => options,
    }
}

pub(crate) fn in_dir(options: Options, live_dir: Option<&std::path::PathBuf>) -> Options {
    match live_dir {
        Some(dir) => options.live_dir(dir.clone()),
        None => options,
    }
}

fn in_mode(options: Options, write: &Write) -> Options {
    let options = options.verify(write.verify);
    let options = match write.cache {
        Some(bytes) => options.cache(Cache::of_bytes(bytes)),
        None => options,
    };
    let options = match write.live_image {
        Some(live_image) => options.live_image(live_image),
        None => options,
    };
    let options = in_dir(options, write.live_dir.as_ref());
    match write.durability {
        Some(mode) => options.sync_mode(mode),
        None => options,
    }
}

/// Damage that keeps a pool from being opened keeps its entries from being saved, too.
pub(crate) fn open_failed(pool: &Path, e: &Error) -> Failure {
    if matches!(e.kind(), ErrorKind::Corrupt { .. }) {
        let message = format!("{}: {e}; it cannot be opened: restore a backup", pool.display());
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
        return Failure::new(Exit::Io, format!("{e}; check that its directory exists"));
    }
    Failure::pool_or_full(pool, e, |_| "no pool was made")
}

/// True if there was no file.
fn is_missing(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use durahash::Limit;

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
        let full = message(creation_failed(pool, &Error::full(7, Limit::Disk)));
        let wanted = "a.pool: no space for 7 more bytes: the disk is full, or a quota is reached; \
                      no pool was made";
        assert_eq!(full, wanted);
    }
}
