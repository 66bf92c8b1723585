//! Pools made and opened as maps, whatever their design.

use std::sync::Arc;
use std::time::Instant;

use durahash_media::{
    ErrorKind, FileDisk, Format, Geometry, Logged, Mapped, Medium, Pool, Result, SyncMode,
};

use crate::data::Type;
use crate::design::Design;
use crate::index::Index;
use crate::pea::{Pea, Policy};
use crate::raw::Raw;
use crate::reh::Reh;
use crate::settled::Settled;

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
    pub(crate) sync_mode: SyncMode,
    pub(crate) policy: Policy,
    /// Whether the file gets its name at once.
    pub(crate) publish: bool,
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
    let index = match wanted.design {
        Design::Reh => settled(Reh::create(Arc::clone(&pool))?, &pool),
        Design::Pea => settled(Pea::create(Arc::clone(&pool), wanted.policy)?, &pool),
    };
    if wanted.sync_mode != SyncMode::Process {
        pool.set_sync_mode(wanted.sync_mode)?;
    }
    if wanted.publish {
        pool.publish()?;
    }
    let Wanted { design, key, value, .. } = *wanted;
    Ok(Raw::new(index, pool, design, key, value, true, start))
}

/// Opens the pool on `medium`, after `accept` has agreed to its design and types.
pub(crate) fn open<M: Medium>(
    medium: M,
    accept_suspect: bool,
    policy: Policy,
    accept: &dyn Fn(Design, Type, Type) -> Result<()>,
) -> Result<Raw> {
    let start = Instant::now();
    let (design, key, value) = read(&Pool::peek(&medium)?)?;
    accept(design, key, value)?;
    let pool = Arc::new(Pool::open(medium, accept_suspect)?);
    let index = match design {
        Design::Reh => settled(Reh::open(Arc::clone(&pool))?, &pool),
        Design::Pea => settled(Pea::open(Arc::clone(&pool), policy)?, &pool),
    };
    Ok(Raw::new(index, pool, design, key, value, false, start))
}

/// Behind a log, an index that settles what it did.
fn settled<I: Index + 'static, M: Medium>(index: I, pool: &Arc<Pool<M>>) -> Box<dyn Index> {
    match pool.medium().log_stats() {
        Some(_) => Box::new(Settled::new(index, Arc::clone(pool))),
        None => Box::new(index),
    }
}

/// Whether a pool can be opened, after `accept` has agreed to its design and types; the mode that it
/// is to be opened in if no other is asked for.
pub(crate) fn sync_mode<M: Medium>(
    medium: &M,
    accept: &dyn Fn(Design, Type, Type) -> Result<()>,
) -> Result<SyncMode> {
    let (design, key, value) = read(&Pool::peek(medium)?)?;
    accept(design, key, value)?;
    Pool::sync_mode(medium)
}

/// Puts a log of about `log_bytes` bytes before the pool in `file`; one that it has is taken as it is.
/// Before a log is made, `accept` has agreed to the pool, and its design has found it sound.
pub(crate) fn behind_log(
    file: Mapped,
    accept_suspect: bool,
    mode: SyncMode,
    log_bytes: u64,
    private_bytes: Option<u64>,
    accept: &dyn Fn(Design, Type, Type) -> Result<()>,
) -> Result<Logged<FileDisk>> {
    let pool = Pool::open(file, accept_suspect)?;
    if !pool.has_log()? {
        let reader = pool.medium().reader()?;
        let _ = open(reader, accept_suspect, Policy::default(), accept)?;
        pool.add_log(log_bytes)?;
    }
    Logged::over_file(pool.into_medium(), mode, private_bytes)
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
