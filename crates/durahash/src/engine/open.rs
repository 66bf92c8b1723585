//! Pools made and opened as maps, whatever their design.

use std::sync::Arc;
use std::time::Instant;

use durahash_media::{
    ErrorKind, FileDisk, Format, Geometry, Logged, Mapped, Medium, Pool, Result, SyncMode,
};

use crate::designs::esh::Esh;
use crate::designs::pea::{MultiPea, Pea, Policy};
use crate::designs::reh::Reh;
use crate::designs::rewo::{Cache, Rewo};
use crate::engine::core::{Core, Untyped};
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::durable::Settled;
use crate::engine::map::Raw;
use crate::engine::multi_map::MultiRaw;
use crate::engine::record::Store;
use crate::index::{Index, MultiIndex};

/// What designs leave to the user at every open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tuning {
    pub(crate) policy: Policy,
    pub(crate) cache: Cache,
}

/// What a pool can be opened as: a map, or a multimap.
pub(crate) trait Opened: Untyped + Sized {
    /// Its kind in the superblock.
    const KIND: u8;
    /// Its name.
    const NAME: &'static str;
    /// Its design, unless another is asked for.
    const DESIGN: Design;
    type Index: ?Sized;

    /// The index of a pool: a new one in an empty pool, or the one that is there.
    fn index<M: Medium>(
        pool: &Arc<Pool<M>>,
        design: Design,
        tuning: Tuning,
        is_new: bool,
    ) -> Result<Box<Self::Index>>;

    fn assemble(
        index: Box<Self::Index>,
        store: Arc<dyn Store>,
        types: (Design, Type, Type),
        is_new: bool,
        start: Instant,
    ) -> Self;

    /// Makes one in a file that is there, empty. Compiled in this crate, once.
    fn create_in(file: Mapped, wanted: &Wanted) -> Result<Self>;
}

impl Opened for Raw {
    const KIND: u8 = 0;
    const NAME: &'static str = "map";
    const DESIGN: Design = Design::Reh;
    type Index = dyn Index;

    fn index<M: Medium>(
        pool: &Arc<Pool<M>>,
        design: Design,
        tuning: Tuning,
        is_new: bool,
    ) -> Result<Box<dyn Index>> {
        let of = Arc::clone(pool);
        Ok(match (design, is_new) {
            (Design::Reh, true) => settled(Reh::create(of)?, pool),
            (Design::Reh, false) => settled(Reh::open(of)?, pool),
            (Design::Pea, true) => settled(Pea::create(of, tuning.policy)?, pool),
            (Design::Pea, false) => settled(Pea::open(of, tuning.policy)?, pool),
            (Design::Esh, true) => settled(Esh::create(of)?, pool),
            (Design::Esh, false) => settled(Esh::open(of)?, pool),
            (Design::Rewo, true) => settled(Rewo::create(of, tuning.cache)?, pool),
            (Design::Rewo, false) => settled(Rewo::open(of, tuning.cache)?, pool),
        })
    }

    fn assemble(
        index: Box<dyn Index>,
        store: Arc<dyn Store>,
        (design, key, value): (Design, Type, Type),
        is_new: bool,
        start: Instant,
    ) -> Self {
        Raw::new(index, store, design, key, value, is_new, start)
    }

    fn create_in(file: Mapped, wanted: &Wanted) -> Result<Self> {
        create(file, wanted)
    }
}

impl Opened for MultiRaw {
    const KIND: u8 = 1;
    const NAME: &'static str = "multimap";
    const DESIGN: Design = Design::Pea;
    type Index = dyn MultiIndex;

    fn index<M: Medium>(
        pool: &Arc<Pool<M>>,
        design: Design,
        tuning: Tuning,
        is_new: bool,
    ) -> Result<Box<dyn MultiIndex>> {
        let of = Arc::clone(pool);
        let pea = match (design, is_new) {
            (Design::Pea, true) => MultiPea::create(of, tuning.policy)?,
            (Design::Pea, false) => MultiPea::open(of, tuning.policy)?,
            (Design::Reh | Design::Esh | Design::Rewo, _) => {
                return Err(ErrorKind::Options { what: "only Pea Hash has multimaps" }.into());
            }
        };
        Ok(multi_settled(pea, pool))
    }

    fn assemble(
        index: Box<dyn MultiIndex>,
        store: Arc<dyn Store>,
        (design, key, value): (Design, Type, Type),
        _is_new: bool,
        start: Instant,
    ) -> Self {
        MultiRaw::new(index, Core::new(store, design, key, value, start))
    }

    fn create_in(file: Mapped, wanted: &Wanted) -> Result<Self> {
        create(file, wanted)
    }
}

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
    pub(crate) tuning: Tuning,
    /// Whether the file gets its name at once.
    pub(crate) publish: bool,
}

/// Makes a pool on `medium`, which is empty.
pub(crate) fn create<R: Opened, M: Medium>(medium: M, wanted: &Wanted) -> Result<R> {
    let start = Instant::now();
    let format = Format {
        design: wanted.design.number(),
        kind: R::KIND,
        key_type: wanted.key.tag(),
        value_type: wanted.value.tag(),
        geometry: wanted.geometry,
        seed: wanted.seed,
        max_bytes: wanted.max_bytes,
    };
    let pool = Arc::new(Pool::create(medium, &format)?);
    let index = R::index(&pool, wanted.design, wanted.tuning, true)?;
    if wanted.sync_mode != SyncMode::Process {
        pool.set_sync_mode(wanted.sync_mode)?;
    }
    if wanted.publish {
        pool.publish()?;
    }
    let Wanted { design, key, value, .. } = *wanted;
    Ok(R::assemble(index, pool, (design, key, value), true, start))
}

/// Opens the pool on `medium`, after `accept` has agreed to its design and types.
pub(crate) fn open<R: Opened, M: Medium>(
    medium: M,
    accept_suspect: bool,
    tuning: Tuning,
    accept: &dyn Fn(Design, Type, Type) -> Result<()>,
) -> Result<R> {
    let start = Instant::now();
    let types = read::<R>(&Pool::peek(&medium)?)?;
    accept(types.0, types.1, types.2)?;
    let pool = Arc::new(Pool::open(medium, accept_suspect)?);
    let index = R::index(&pool, types.0, tuning, false)?;
    Ok(R::assemble(index, pool, types, false, start))
}

/// Behind a log, an index that settles what it did.
fn settled<I: Index + 'static, M: Medium>(index: I, pool: &Arc<Pool<M>>) -> Box<dyn Index> {
    // A constant, so that what is not used is not compiled.
    if M::DRAIN_WAITS { Box::new(Settled::new(index, Arc::clone(pool))) } else { Box::new(index) }
}

/// The same of a multimap.
fn multi_settled<I: MultiIndex + 'static, M: Medium>(
    index: I,
    pool: &Arc<Pool<M>>,
) -> Box<dyn MultiIndex> {
    // A constant, so that what is not used is not compiled.
    if M::DRAIN_WAITS { Box::new(Settled::new(index, Arc::clone(pool))) } else { Box::new(index) }
}

/// Whether a pool can be opened, after `accept` has agreed to its design and types; the mode that it
/// is to be opened in if no other is asked for.
pub(crate) fn sync_mode<R: Opened, M: Medium>(
    medium: &M,
    accept: &dyn Fn(Design, Type, Type) -> Result<()>,
) -> Result<SyncMode> {
    let (design, key, value) = read::<R>(&Pool::peek(medium)?)?;
    accept(design, key, value)?;
    Pool::sync_mode(medium)
}

/// Puts a log of about `log_bytes` bytes before the pool in `file`; one that it has is taken as it is.
/// Before a log is made, `accept` has agreed to the pool, and its design has found it sound.
pub(crate) fn behind_log<R: Opened>(
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
        let _ = open::<R, _>(reader, accept_suspect, Tuning::default(), accept)?;
        pool.add_log(log_bytes)?;
    }
    Logged::over_file(pool.into_medium(), mode, private_bytes)
}

/// Design, key and value of a format, if this library knows them, and it is of the wanted kind.
fn read<R: Opened>(format: &Format) -> Result<(Design, Type, Type)> {
    let design = Design::ALL.iter().find(|design| design.number() == format.design);
    let Some(design) = design.filter(|_| format.kind == R::KIND) else {
        let kind = [Raw::NAME, MultiRaw::NAME].get(usize::from(format.kind)).copied();
        let (found, wanted) = match (design, kind) {
            (Some(design), Some(kind)) => {
                (format!("a {kind} of {design}"), format!("a {}", R::NAME))
            }
            _ => (
                format!("design {} of kind {}", format.design, format.kind),
                "one that this build knows".into(),
            ),
        };
        return Err(ErrorKind::Design { found, wanted }.into());
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
