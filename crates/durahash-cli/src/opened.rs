//! A pool that is open: of a map, or of a multimap.

use std::path::Path;

use durahash::{AnyMap, AnyMultiMap, Design, ErrorKind, Finding, Options, Result, Stats, Type};

use crate::args::Kind;

/// An open pool, whatever its kind.
pub(crate) enum Opened {
    Map(AnyMap),
    Multimap(AnyMultiMap),
}

/// What to do with an open map; the second, if that is something else, with a multimap.
macro_rules! either {
    ($opened:expr, $map:ident => $single:expr $(, $multi:expr)?) => {
        match $opened {
            $crate::opened::Opened::Map($map) => $single,
            $crate::opened::Opened::Multimap($map) => either!(@ $single $(, $multi)?),
        }
    };
    (@ $single:expr) => { $single };
    (@ $single:expr, $multi:expr) => { $multi };
}
pub(crate) use either;

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
        either!(self, _map => Kind::Map, Kind::Multimap)
    }

    pub(crate) fn design(&self) -> Design {
        either!(self, map => map.design())
    }

    /// The types of keys and values.
    pub(crate) fn types(&self) -> [Type; 2] {
        either!(self, map => [map.key_type(), map.value_type()])
    }

    pub(crate) fn step(&self) -> Result<bool> {
        either!(self, map => map.step())
    }

    pub(crate) fn stats(&self) -> Result<Stats> {
        either!(self, map => map.stats())
    }

    pub(crate) fn check_watched(
        &self,
        found: &mut dyn FnMut(Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        either!(self, map => map.check_watched(found, watch))
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
