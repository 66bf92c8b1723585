//! The designs by name, and maps made of them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

use durahash_media::{Error, ErrorKind, Format, Geometry, Medium, Pool, Result};

use crate::data::Type;
use crate::index::Index;
use crate::raw::Raw;
use crate::reh::Reh;

/// The published designs that a pool can be built as.
///
/// ```
/// use durahash::Design;
/// assert_eq!("reh".parse::<Design>()?, Design::Reh);
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Design {
    /// REH: buckets on the medium; directory, fingerprints and locks in DRAM. Fewest reads and
    /// writes of the medium, steady load factor.
    #[default]
    Reh,
}

impl Design {
    /// All designs.
    pub const ALL: &'static [Design] = &[Design::Reh];

    /// The number in the superblock.
    fn number(self) -> u8 {
        match self {
            Design::Reh => 1,
        }
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Design::Reh => "reh",
        })
    }
}

impl FromStr for Design {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let design = Self::ALL.iter().find(|design| design.to_string() == name);
        design.copied().ok_or_else(|| {
            ErrorKind::Options {
                what: "no such design (reh)",
            }
            .into()
        })
    }
}

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
    let Wanted {
        design, key, value, ..
    } = *wanted;
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
    let design = Design::ALL
        .iter()
        .find(|design| design.number() == format.design);
    let Some(design) = design.filter(|_| format.kind == MAP) else {
        return Err(ErrorKind::Design {
            found: format!("design {} of kind {}", format.design, format.kind),
            wanted: "one that this build knows".into(),
        }
        .into());
    };
    match (
        Type::from_tag(format.key_type),
        Type::from_tag(format.value_type),
    ) {
        (Some(key), Some(value)) => Ok((*design, key, value)),
        _ => Err(ErrorKind::Types {
            found: format!("types {:#x} and {:#x}", format.key_type, format.value_type),
            wanted: "some that this build knows".into(),
        }
        .into()),
    }
}
