//! Pools as the commands open them.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use durahash::rewo::Cache;
use durahash::{Design, Error, ErrorKind, Options};

use crate::args::{Create, File, Kind, New, Read, Write};
use crate::exit::{Exit, Failure, is_missing, make_room, make_room_in_cache, quoted};
use crate::lifetime::Expiry;
use crate::opened::{MAIN, Opened, either, own_names};
use crate::store::{Pair, Store};

/// Bytes of the parts in which a pool grows: its largest size is a multiple of them.
const EXTENT_BYTES: u64 = 64 << 10;

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
        format!("durahash check {}", quoted(self.path))
    }

    fn failed(&self, e: &Error) -> Failure {
        match self.kind() {
            Kind::Cache => self.load_failed(e),
            _ => Failure::pool(self.path, e),
        }
    }

    fn load_failed(&self, e: &Error) -> Failure {
        let is_cache = self.kind() == Kind::Cache;
        Failure::pool_or_full(self.path, e, if is_cache { make_room_in_cache } else { make_room })
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
    if name.is_some() && new.max_size.is_some() && pool.exists() {
        let there: durahash::Pool = in_mode(Options::new(), &new.write)
            .open(pool)
            .map_err(|e| open_to_write_failed(pool, &e))?;
        check_max_size(pool, new.max_size, there.stats().max_bytes)?;
        there.close().map_err(|e| Failure::pool(pool, &e))?;
    }
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
    let mut others = own_names(&pool);
    others.retain(|other| other != name.unwrap_or(MAIN));
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
    let is_absent = |e: &Error| {
        is_missing(e, pool) || name.is_some() && matches!(e.kind(), ErrorKind::NoMap { .. })
    };
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
    check_bounds(pool, &map, new)?;
    Ok(Pool { path: pool, name, map })
}

/// The command does not change the bounds of a pool or a cache: others are refused.
fn check_bounds(pool: &Path, map: &Opened, new: &New) -> Result<(), Failure> {
    let New { max_size, max_entries, max_bytes_used, eviction, .. } = new;
    if max_size.is_none() && max_entries.or(*max_bytes_used).is_none() && eviction.is_none() {
        return Ok(());
    }
    let stats = map.stats().map_err(|e| Failure::pool(pool, &e))?;
    check_max_size(pool, *max_size, stats.space.max_bytes)?;
    let Some(cache) = stats.cache else { return Ok(()) };
    let bounds = [
        ("--max-entries", *max_entries, cache.max_entries),
        ("--max-bytes-used", *max_bytes_used, cache.max_bytes_used),
    ];
    for (option, wanted, found) in bounds {
        agree(pool, option, wanted, found)?;
    }
    // Without a bound there is nothing to evict, and the policy is not known.
    if cache.eviction.is_some() {
        agree(pool, "--eviction", *eviction, cache.eviction)
    } else {
        Ok(())
    }
}

/// The same of the size of a pool, which is one of whole extents.
fn check_max_size(pool: &Path, wanted: Option<u64>, found: Option<u64>) -> Result<(), Failure> {
    let extents = |bytes: u64| bytes / EXTENT_BYTES;
    if wanted.map(extents) == found.map(extents) {
        return Ok(());
    }
    agree(pool, "--max-size", wanted, found)
}

/// Refuses an option that says another value than was found, if it says one.
fn agree<T: Display + PartialEq>(
    pool: &Path,
    option: &str,
    wanted: Option<T>,
    found: Option<T>,
) -> Result<(), Failure> {
    if wanted.is_none() || wanted == found {
        return Ok(());
    }
    let found = match found {
        Some(found) => format!("with {option} {found}"),
        None => format!("without {option}"),
    };
    let message = format!(
        "{}: the pool exists, {found}; leave {option} out, or load a dump of it into a new one",
        pool.display()
    );
    Err(Failure::new(Exit::Usage, message))
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

/// The same, where the live image is in this directory.
pub(crate) fn in_dir(options: Options, live_dir: Option<&PathBuf>) -> Options {
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

fn creation_failed(pool: &Path, e: &Error) -> Failure {
    Failure::pool_or_full(pool, e, |_| "no pool was made")
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
