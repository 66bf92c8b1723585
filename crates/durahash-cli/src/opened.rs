//! A pool that is open: of a map, or of a multimap.

use std::path::Path;

use durahash::{
    AnyMap, AnyMultiMap, Design, Error, ErrorKind, Finding, Options, Result, Stats, Type,
};

use crate::args::Kind;

/// An open pool, whatever its kind.
pub(crate) enum Opened {
    Map(AnyMap),
    Multimap(AnyMultiMap),
}

/// A key and a value.
type Pair = (Vec<u8>, Vec<u8>);

impl Opened {
    pub(crate) fn create(path: &Path, kind: Kind, ty: Type, options: &Options) -> Result<Self> {
        Ok(match kind {
            Kind::Map => Opened::Map(options.clone().types(ty, ty).create(path)?),
            Kind::Multimap => Opened::Multimap(options.clone().types(ty, ty).create(path)?),
        })
    }

    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self> {
        match options.open(path) {
            // Of another kind, or of none that is known.
            Err(e) if matches!(e.kind(), ErrorKind::Design { .. }) => {
                options.open(path).map(Opened::Multimap)
            }
            opened => opened.map(Opened::Map),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Opened::Map(_) => Kind::Map,
            Opened::Multimap(_) => Kind::Multimap,
        }
    }

    pub(crate) fn design(&self) -> Design {
        match self {
            Opened::Map(map) => map.design(),
            Opened::Multimap(map) => map.design(),
        }
    }

    /// The types of keys and values.
    pub(crate) fn types(&self) -> [Type; 2] {
        match self {
            Opened::Map(map) => [map.key_type(), map.value_type()],
            Opened::Multimap(map) => [map.key_type(), map.value_type()],
        }
    }

    /// Puts a value, or adds it.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Opened::Map(map) => map.put(key, value),
            Opened::Multimap(map) => map.add(key, value),
        }
    }

    /// True if the put failed because of the key or the value itself.
    pub(crate) fn accepts(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            // It may be tried again.
            Opened::Map(_) => Ok(()),
            Opened::Multimap(map) => map.accepts(key, value),
        }
    }

    pub(crate) fn put_many(&self, pairs: &[Pair]) -> Result<()> {
        match self {
            Opened::Map(map) => map.put_many(pairs),
            Opened::Multimap(map) => map.add_many(pairs),
        }
    }

    pub(crate) fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        match self {
            Opened::Map(map) => Ok(map.get(key)?.into_iter().collect()),
            Opened::Multimap(map) => map.get_all(key),
        }
    }

    /// Removes a key; whether it was there.
    pub(crate) fn remove(&self, key: &[u8]) -> Result<bool> {
        match self {
            Opened::Map(map) => map.remove(key),
            Opened::Multimap(map) => Ok(map.remove_all(key)? > 0),
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = Result<Pair, Error>>> {
        match self {
            Opened::Map(map) => Box::new(map.iter()),
            Opened::Multimap(map) => Box::new(map.iter()),
        }
    }

    pub(crate) fn len(&self) -> Result<u64> {
        match self {
            Opened::Map(map) => map.len(),
            Opened::Multimap(map) => map.len(),
        }
    }

    pub(crate) fn step(&self) -> Result<bool> {
        match self {
            Opened::Map(map) => map.step(),
            Opened::Multimap(map) => map.step(),
        }
    }

    pub(crate) fn stats(&self) -> Result<Stats> {
        match self {
            Opened::Map(map) => map.stats(),
            Opened::Multimap(map) => map.stats(),
        }
    }

    pub(crate) fn check_watched(
        &self,
        found: &mut dyn FnMut(Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        match self {
            Opened::Map(map) => map.check_watched(found, watch),
            Opened::Multimap(map) => map.check_watched(found, watch),
        }
    }

    pub(crate) fn close(self) -> Result<()> {
        match self {
            Opened::Map(map) => map.close(),
            Opened::Multimap(map) => map.close(),
        }
    }
}

/// Compacts the pool at `path`.
pub(crate) fn compact(path: &Path, watch: &mut dyn FnMut(u64, u64)) -> Result<()> {
    match Options::new().compact_watched::<AnyMap>(path, watch) {
        Err(e) if matches!(e.kind(), ErrorKind::Design { .. }) => {
            Options::new().compact_watched::<AnyMultiMap>(path, watch)
        }
        done => done,
    }
}
