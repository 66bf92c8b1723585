//! The properties of a map: as a caller sets them, and as a pool describes them.

use durahash_media::{Error, ErrorKind, Format, Geometry, Result};

use super::cell::Cell;
use super::data::{Expiring, Type};
use super::design::Design;
use super::settings::{DesignOptions, Settings};

/// The names of the kinds, by their numbers in the superblock.
const KINDS: [&str; 2] = ["map", "multimap"];

/// The kind, design and types that a pool's own map must have.
#[derive(Clone, Copy, Debug)]
pub struct Required {
    /// The number of its kind, and the design of a new one, unless another is asked for. `None`: it may be
    /// anything, and a new pool has none.
    pub(crate) kind: Option<(u8, Design)>,
    /// The types of keys and values, where they are known.
    pub(crate) types: Option<(Type, Type)>,
    /// The values of a new map, of types that the settings say, expire.
    pub(crate) expires: bool,
    /// False where its entries are only read, or copied as they are.
    pub(crate) changes: bool,
}

impl Required {
    /// Any map, or none.
    pub(crate) const ANY: Required =
        Required { kind: None, types: None, expires: false, changes: true };
}

/// The properties of a new map.
#[derive(Clone, Debug)]
pub(crate) struct MapSpec {
    pub(crate) kind: u8,
    pub(crate) design: Design,
    pub(crate) key: Type,
    pub(crate) value: Type,
    pub(crate) geometry: Geometry,
    pub(crate) seed: u64,
    pub(crate) design_options: DesignOptions,
}

pub(crate) fn refused<T>(what: &'static str) -> Result<T> {
    Err(ErrorKind::Options { what }.into())
}

/// The seed that the settings say, or a random one.
pub(crate) fn seed(settings: &Settings) -> Result<u64> {
    settings.seed.map_or_else(
        || {
            getrandom::u64()
                .map_err(|e| Error::io("asking for random bytes", None, std::io::Error::other(e)))
        },
        Ok,
    )
}

impl MapSpec {
    /// The map that is wanted, if one is.
    pub(crate) fn new(settings: &Settings, required: Required) -> Result<Option<Self>> {
        let Some((kind, design)) = required.kind else { return Ok(None) };
        let is_cache = |(_, value)| matches!(value, Type::Expiring(_));
        if required.types.is_none() && settings.types.is_some_and(is_cache) {
            return refused(
                "values expire in a cache only, which is given their type without the expiry",
            );
        }
        let Some((key, value)) = required.types.or(settings.types) else {
            return refused("the types of keys and values of a new map are not set");
        };
        let value = if required.expires { Type::Expiring(Expiring::of(value)) } else { value };
        if [key, value].iter().any(|ty| matches!(ty, Type::Array(bytes) if *bytes >= 1 << 24)) {
            return refused("an array type has less than 16 MiB; longer values are bytes");
        }
        let design = settings.design.unwrap_or(design);
        Ok(Some(MapSpec {
            kind,
            design,
            key,
            value,
            geometry: settings.geometry.unwrap_or_else(|| design.geometry()),
            seed: seed(settings)?,
            design_options: settings.design_options,
        }))
    }

    /// The format of the map, in a pool of any size.
    pub(crate) fn format(&self) -> Format {
        let cell = Cell::of(self.key, self.value, 0).filter(|_| self.kind == 0);
        Format {
            design: self.design.number(),
            kind: self.kind,
            cells: cell.is_some(),
            in_slots: cell.is_some_and(Cell::is_in_slots),
            key_type: self.key.tag(),
            value_type: self.value.tag(),
            geometry: self.geometry,
            seed: self.seed,
            max_bytes: u64::MAX,
        }
    }
}

/// Design, key and value of a format, if this library knows them.
pub(crate) fn known(format: &Format) -> Result<(Design, Type, Type)> {
    let design = Design::ALL.iter().find(|design| design.number() == format.design);
    let Some(design) = design.filter(|_| usize::from(format.kind) < KINDS.len()) else {
        let found = format!("design {} of kind {}", format.design, format.kind);
        let wanted = "one that this build knows".into();
        return Err(ErrorKind::Design { found, wanted }.into());
    };
    let (Some(key), Some(value)) =
        (Type::from_tag(format.key_type), Type::from_tag(format.value_type))
    else {
        return Err(ErrorKind::Types {
            found: format!("types {:#x} and {:#x}", format.key_type, format.value_type),
            wanted: "types that this build knows".into(),
        }
        .into());
    };
    let cell = Cell::of(key, value, 0).filter(|_| format.cells);
    if format.cells != cell.is_some() || format.in_slots && !cell.is_some_and(Cell::is_in_slots) {
        return Err(Error::corrupt("cells of types that have none", 24));
    }
    Ok((*design, key, value))
}

/// Refuses a cache: it is a map of any types if it is only read, since others do not tell it what they change.
pub(crate) fn refuse_cache(key: Type, value: Type) -> Result<()> {
    if !matches!(value, Type::Expiring(_)) {
        return Ok(());
    }
    let found = format!("a cache with keys of {key} and values of {value}");
    let wanted = "a map, or a pool that is opened for reading only".into();
    Err(ErrorKind::Types { found, wanted }.into())
}

/// Refuses a format that is not of this kind, or has not these types; a cache of any types, if others change it.
pub(crate) fn check_wanted(
    format: &Format,
    kind: u8,
    types: Option<(Type, Type)>,
    changes: bool,
) -> Result<()> {
    let name = |kind: u8| KINDS[usize::from(kind)];
    if format.kind == Format::NO_MAP {
        let (found, wanted) = ("named maps only".into(), format!("a {} of its own", name(kind)));
        return Err(ErrorKind::Design { found, wanted }.into());
    }
    let (design, key, value) = known(format)?;
    if format.kind != kind {
        let found = format!("a {} of {design}", name(format.kind));
        return Err(ErrorKind::Design { found, wanted: format!("a {}", name(kind)) }.into());
    }
    match types {
        Some(types) if types != (key, value) => {
            let name = |(key, value)| format!("keys of {key} and values of {value}");
            Err(ErrorKind::Types { found: name((key, value)), wanted: name(types) }.into())
        }
        None if changes => refuse_cache(key, value),
        _ => Ok(()),
    }
}
