//! Pools made and opened as maps, whatever their design.

use std::sync::Arc;
use std::time::Instant;

use durahash_media::{ErrorKind, Format, Geometry, Medium, Pool, Result};

use crate::data::Type;
use crate::design::Design;
use crate::index::Index;
use crate::raw::Raw;
use crate::reh::Reh;

/// The kind of a map with one value for each key.
const MAP: u8 = 0;

/// What a new pool is made for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) design: Design,
    pub(crate) key: Type,
    pub(crate) value: Type,
    pub(crate) geometry: Geometry,
    pub(crate) seed: u64,
    pub(crate) max_bytes: u64,
}

/// Makes a pool on `medium`, which is empty.
pub(crate) fn create<M: Medium>(medium: M, wanted: &Wanted) -> Result<Raw> {
    let start = Instant::now();
    let format = Format {
        design: wanted.design.number(),
        kind: MAP,
        key_type: wanted.key.tag(),
        value_type: wanted.value.tag(),
        geometry: wanted.geometry,
        seed: wanted.seed,
        max_bytes: wanted.max_bytes,
    };
    let pool = Arc::new(Pool::create(medium, &format)?);
    let index: Box<dyn Index> = match wanted.design {
        Design::Reh => Box::new(Reh::create(Arc::clone(&pool))?),
    };
    pool.publish()?;
    let Wanted { design, key, value, .. } = *wanted;
    Ok(Raw::new(index, pool, design, key, value, true, start))
}

/// Opens the pool on `medium`, after `accept` has agreed to its design and types.
pub(crate) fn open<M: Medium>(
    medium: M,
    accept_suspect: bool,
    accept: &dyn Fn(Design, Type, Type) -> Result<()>,
) -> Result<Raw> {
    let start = Instant::now();
    let (design, key, value) = read(&Pool::peek(&medium)?)?;
    accept(design, key, value)?;
    let pool = Arc::new(Pool::open(medium, accept_suspect)?);
    let index: Box<dyn Index> = match design {
        Design::Reh => Box::new(Reh::open(Arc::clone(&pool))?),
    };
    Ok(Raw::new(index, pool, design, key, value, false, start))
}

/// Design, key and value of a format, if this library knows them.
fn read(format: &Format) -> Result<(Design, Type, Type)> {
    let design = Design::ALL.iter().find(|design| design.number() == format.design);
    let Some(design) = design.filter(|_| format.kind == MAP) else {
        return Err(ErrorKind::Design {
            found: format!("design {} of kind {}", format.design, format.kind),
            wanted: "one that this build knows".into(),
        }
        .into());
    };
    match (Type::from_tag(format.key_type), Type::from_tag(format.value_type)) {
        (Some(key), Some(value)) => Ok((*design, key, value)),
        _ => Err(ErrorKind::Types {
            found: format!("types {:#x} and {:#x}", format.key_type, format.value_type),
            wanted: "some that this build knows".into(),
        }
        .into()),
    }
}
