//! A pool that is open: of a map, or of a multimap.

use std::path::Path;

use durahash::{
    AnyCache, AnyMap, AnyMultiMap, Design, ErrorKind, Finding, Options, Pool, Result, Stats, Type,
};

use crate::args::Kind;

/// The name of the map of a pool that was made with one.
pub(crate) const MAIN: &str = "main";

/// The end of the name of the map that lies beside a cache, and is a part of it.
pub(crate) const BESIDE: &str = ".cache";

/// The names of the maps of a pool, without what lies beside a cache.
pub(crate) fn own_names(pool: &Pool) -> Vec<String> {
    let all = pool.names();
    let is_cache = |name: &str| {
        let is_there = all.iter().any(|other| other == name);
        is_there && matches!(Opened::of(pool, name), Ok(Opened::Cache(_)))
    };
    let of_another = |name: &String| name.strip_suffix(BESIDE).is_some_and(is_cache);
    all.iter().filter(|name| !of_another(name)).cloned().collect()
}

/// An open pool, whatever its kind.
pub(crate) enum Opened {
    Map(AnyMap),
    Multimap(AnyMultiMap),
    Cache(AnyCache),
}

/// Evaluates the first expression with an open map or cache; with a multimap the second, if there is one.
macro_rules! either {
    ($opened:expr, $map:ident => $single:expr $(, $multi:expr)?) => {
        match $opened {
            $crate::opened::Opened::Map($map) => $single,
            $crate::opened::Opened::Cache($map) => $single,
            $crate::opened::Opened::Multimap($map) => either!(@ $single $(, $multi)?),
        }
    };
    (@ $single:expr) => { $single };
    (@ $single:expr, $multi:expr) => { $multi };
}
pub(crate) use either;

impl Opened {
    /// Creates a pool, or the named map in a pool, which is made if it is not there.
    pub(crate) fn create(
        path: &Path,
        name: Option<&str>,
        kind: Kind,
        ty: Type,
        options: &Options,
    ) -> Result<Self> {
        let options = options.clone().types(ty, ty);
        let Some(name) = name else {
            return Ok(match kind {
                Kind::Map => Opened::Map(options.create(path)?),
                Kind::Multimap => Opened::Multimap(options.create(path)?),
                Kind::Cache => Opened::Cache(options.create(path)?),
            });
        };
        let pool: Pool = options.open_or_create(path)?;
        Ok(match kind {
            Kind::Map => Opened::Map(pool.create(name, &options)?),
            Kind::Multimap => Opened::Multimap(pool.create(name, &options)?),
            Kind::Cache => Opened::Cache(pool.create(name, &options)?),
        })
    }

    /// Opens the named map of the pool at `path`, or its own.
    pub(crate) fn open(path: &Path, name: Option<&str>, options: &Options) -> Result<Self> {
        Self::of(&options.open(path)?, name.unwrap_or(MAIN))
    }

    /// Opens a map of a pool.
    pub(crate) fn of(pool: &Pool, name: &str) -> Result<Self> {
        match pool.open(name) {
            // Of another kind.
            Err(e) if matches!(e.kind(), ErrorKind::Design { .. }) => {
                pool.open(name).map(Opened::Multimap)
            }
            // Its values do not expire.
            Err(e) if matches!(e.kind(), ErrorKind::Types { .. }) => {
                pool.open(name).map(Opened::Map)
            }
            opened => opened.map(Opened::Cache),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Opened::Map(_) => Kind::Map,
            Opened::Multimap(_) => Kind::Multimap,
            Opened::Cache(_) => Kind::Cache,
        }
    }

    pub(crate) fn design(&self) -> Design {
        either!(self, map => map.design())
    }

    /// The types of keys and values; without the expiry of those of a cache.
    pub(crate) fn types(&self) -> [Type; 2] {
        either!(self, map => [map.key_type(), map.value_type()])
    }

    pub(crate) fn step(&self) -> Result<bool> {
        either!(self, map => map.step())
    }

    pub(crate) fn stats(&self) -> Result<Stats> {
        either!(self, map => map.stats())
    }

    pub(crate) fn huge_bytes(&self) -> Option<u64> {
        either!(self, map => map.huge_bytes())
    }

    pub(crate) fn check_watched(
        &self,
        found: &mut dyn FnMut(Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        either!(self, map => map.check_watched(found, watch))
    }
}
