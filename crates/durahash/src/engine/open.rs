//! Pools made and opened, whatever their design: in memory, in files, and on any other medium.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use durahash_media::{
    Dax, Dram, Error, ErrorKind, FileDisk, FileLock, Format, Geometry, Logged, Mapped, Medium,
    Pool, Result, SyncMode,
};

use super::data::Type;
use super::design::Design;
use super::settings::{DesignOptions, Settings};
use super::{At, CHAINED_COUNTER, Engine, KINDS, Kind, Made};

/// A file has no more bytes, unless another limit is set.
const FILE_BYTES: u64 = 1 << 40;
/// The same for a map in memory.
const MEMORY_BYTES: u64 = 64 << 30;
/// A pool that may not grow to so many times its log has none unless one is asked for.
const LOG_PART: u64 = 8;

/// Makes or opens one. `types`: of keys and values, if it must have these. An error names the file.
pub(crate) fn make<K: Kind>(
    settings: &Settings,
    types: Option<(Type, Type)>,
    at: At<'_>,
) -> Result<Made<K>> {
    match at {
        At::Memory => create_in_memory(settings, types).map(|engine| (engine, None)),
        At::New(path) => create_file(settings, path, types)
            .map(|engine| (engine, None))
            .map_err(|e| e.at_path(path)),
        At::Existing(path) => open_file(settings, path, types)
            .map(|(engine, lock)| (engine, Some(lock)))
            .map_err(|e| e.at_path(path)),
    }
}

/// Opens the pool at `path`, or creates it where there is none.
pub(crate) fn open_or_create<K: Kind>(
    settings: &Settings,
    types: Option<(Type, Type)>,
    path: &Path,
) -> Result<Engine<K>> {
    let open = || K::make(settings, types, At::Existing(path)).map(|(engine, _)| engine);
    match open() {
        Err(e) if !settings.read_only && is_missing(&e) => {}
        opened => return opened,
    }
    match K::make(settings, types, At::New(path)) {
        // Another process or thread was quicker.
        Err(e) if matches!(e.kind(), ErrorKind::Exists) => open(),
        created => created.map(|(engine, _)| engine),
    }
}

fn create_in_memory<K: Kind>(
    settings: &Settings,
    types: Option<(Type, Type)>,
) -> Result<Engine<K>> {
    if settings.dax == Dax::Require {
        return Err(ErrorKind::NoDax.into());
    }
    let spec = CreateSpec::new::<K>(settings, types)?;
    create_on(Dram::new(settings.max_bytes.unwrap_or(MEMORY_BYTES))?, &spec)
}

fn create_file<K: Kind>(
    settings: &Settings,
    path: &Path,
    types: Option<(Type, Type)>,
) -> Result<Engine<K>> {
    let spec = CreateSpec::new::<K>(settings, types)?;
    let options = settings.mapped(settings.max_bytes.unwrap_or(FILE_BYTES));
    let medium = Mapped::create(path, &options)?;
    let sync_mode = settings.sync_mode.unwrap_or_else(|| default_mode(settings, &medium));
    let spec = CreateSpec { sync_mode, ..spec };
    if sync_mode == SyncMode::Process || medium.is_dax() {
        return create_on(medium, &spec);
    }
    // The log comes to a pool that is whole, and the name to one that is in use.
    let lock = medium.file_lock();
    create_on::<K, _>(medium, &CreateSpec { publish: false, ..spec })?.close()?;
    let file = Mapped::reopen(lock, &options)?;
    let lock = file.file_lock();
    let engine = open_behind_log(settings, file, sync_mode, types)?;
    lock.publish()?;
    Ok(engine)
}

/// Opens the pool of a file; the lock of the file.
fn open_file<K: Kind>(
    settings: &Settings,
    path: &Path,
    types: Option<(Type, Type)>,
) -> Result<(Engine<K>, FileLock)> {
    let options = settings.mapped(settings.max_bytes.unwrap_or(u64::MAX));
    let medium = Mapped::open(path, settings.read_only, &options)?;
    let lock = medium.file_lock();
    check_format::<K>(&Pool::peek(&medium)?, types)?;
    let mode = settings.sync_mode.map_or_else(|| Pool::sync_mode(&medium), Ok)?;
    let engine = if mode == SyncMode::Process || settings.read_only || medium.is_dax() {
        open_on(settings, medium, types)
    } else {
        open_behind_log(settings, medium, mode, types)
    };
    Ok((engine?, lock))
}

/// Opens a pool behind a log; one that the pool has is taken as it is. Before a log is made, the pool's
/// format was checked, and its design has found it sound.
fn open_behind_log<K: Kind>(
    settings: &Settings,
    file: Mapped,
    mode: SyncMode,
    types: Option<(Type, Type)>,
) -> Result<Engine<K>> {
    let pool = Pool::open(file, settings.accept_suspect)?;
    if !pool.has_log()? {
        let reader = pool.medium().reader()?;
        let defaults = Settings { design_options: DesignOptions::default(), ..settings.clone() };
        let _ = open_on::<K, _>(&defaults, reader, types)?;
        pool.add_log(settings.log_bytes)?;
    }
    let medium: Logged<FileDisk> =
        Logged::over_file(pool.into_medium(), mode, settings.private_bytes)?;
    open_on(settings, medium, types)
}

/// The mode of a new pool for which none is asked. Behind a log it has seven times the inserts of
/// the best log-structured store that does not sync, one by one, and nearly all of its own lookups, and
/// the loss of power takes a moment instead of the pool (`docs/benchmarks.md`). Where that is no
/// question, or a log would be most of the pool, there is
/// none. On a disk that is too full for one, a pool without a log has to be asked for.
fn default_mode(settings: &Settings, medium: &Mapped) -> SyncMode {
    let forgets = medium.is_dax() || medium.is_in_memory();
    let is_large = settings.max_bytes.is_none_or(|max| max / LOG_PART >= settings.log_bytes);
    if is_large && !forgets && !settings.force_flushes {
        SyncMode::INTERVAL
    } else {
        SyncMode::Process
    }
}

/// The properties of a new pool.
#[derive(Clone, Debug)]
pub(crate) struct CreateSpec {
    pub(crate) design: Design,
    pub(crate) key: Type,
    pub(crate) value: Type,
    pub(crate) geometry: Geometry,
    pub(crate) seed: u64,
    pub(crate) max_bytes: u64,
    pub(crate) sync_mode: SyncMode,
    pub(crate) design_options: DesignOptions,
    /// Gives the file its name at once.
    pub(crate) publish: bool,
}

impl CreateSpec {
    pub(crate) fn new<K: Kind>(settings: &Settings, types: Option<(Type, Type)>) -> Result<Self> {
        let refused = |what| Err(ErrorKind::Options { what }.into());
        if settings.read_only {
            return refused("a new map cannot be read-only");
        }
        let Some((key, value)) = types.or(settings.types) else {
            return refused("the types of keys and values of a new pool are not set");
        };
        if [key, value].iter().any(|ty| matches!(ty, Type::Array(bytes) if *bytes >= 1 << 24)) {
            return refused("an array type has less than 16 MiB; longer values are bytes");
        }
        let seed = match settings.seed {
            Some(seed) => seed,
            None => getrandom::u64().map_err(|e| {
                Error::io("asking for random bytes", None, std::io::Error::other(e))
            })?,
        };
        Ok(CreateSpec {
            design: settings.design.unwrap_or(K::DESIGN),
            key,
            value,
            geometry: settings.geometry,
            seed,
            max_bytes: settings.max_bytes.unwrap_or(u64::MAX),
            sync_mode: SyncMode::Process,
            design_options: settings.design_options,
            publish: true,
        })
    }
}

/// Makes a pool on `medium`, which is empty.
pub(crate) fn create_on<K: Kind, M: Medium>(medium: M, spec: &CreateSpec) -> Result<Engine<K>> {
    let start = Instant::now();
    let format = Format {
        design: spec.design.number(),
        kind: K::NUMBER,
        key_type: spec.key.tag(),
        value_type: spec.value.tag(),
        geometry: spec.geometry,
        seed: spec.seed,
        max_bytes: spec.max_bytes,
    };
    let pool = Arc::new(Pool::create(medium, &format)?);
    let index = K::index(&pool, spec.design, spec.design_options, true)?;
    if spec.sync_mode != SyncMode::Process {
        pool.set_sync_mode(spec.sync_mode)?;
    }
    if spec.publish {
        pool.publish()?;
    }
    Ok(Engine::new(index, pool, (spec.design, spec.key, spec.value), Some(0), start))
}

/// Opens the pool on `medium`.
pub(crate) fn open_on<K: Kind, M: Medium>(
    settings: &Settings,
    medium: M,
    types: Option<(Type, Type)>,
) -> Result<Engine<K>> {
    let start = Instant::now();
    let (design, key, value) = check_format::<K>(&Pool::peek(&medium)?, types)?;
    let pool = Arc::new(Pool::open(medium, settings.accept_suspect)?);
    let index = K::index(&pool, design, settings.design_options, false)?;
    // A number that the pool cannot hold is none, whatever its checksum says.
    let max_bytes = pool.format().max_bytes;
    let chained = pool.saved(0, CHAINED_COUNTER).and_then(|count| count.checked_sub(1));
    let chained = chained.filter(|count| *count <= max_bytes);
    Ok(Engine::new(index, pool, (design, key, value), chained, start))
}

/// Design, key and value of a format, if this library knows them, and they are the wanted ones.
fn check_format<K: Kind>(
    format: &Format,
    types: Option<(Type, Type)>,
) -> Result<(Design, Type, Type)> {
    let design = Design::ALL.iter().find(|design| design.number() == format.design);
    let Some(design) = design.filter(|_| format.kind == K::NUMBER) else {
        let kind = KINDS.get(usize::from(format.kind)).copied();
        let (found, wanted) = match (design, kind) {
            (Some(design), Some(kind)) => {
                (format!("a {kind} of {design}"), format!("a {}", KINDS[usize::from(K::NUMBER)]))
            }
            _ => (
                format!("design {} of kind {}", format.design, format.kind),
                "one that this build knows".into(),
            ),
        };
        return Err(ErrorKind::Design { found, wanted }.into());
    };
    let (Some(key), Some(value)) =
        (Type::from_tag(format.key_type), Type::from_tag(format.value_type))
    else {
        return Err(ErrorKind::Types {
            found: format!("types {:#x} and {:#x}", format.key_type, format.value_type),
            wanted: "some that this build knows".into(),
        }
        .into());
    };
    match types {
        Some(types) if types != (key, value) => {
            let name = |(key, value)| format!("keys of {key} and values of {value}");
            Err(ErrorKind::Types { found: name((key, value)), wanted: name(types) }.into())
        }
        _ => Ok((*design, key, value)),
    }
}

/// True if an open failed because there is no file.
fn is_missing(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Io { source, .. }
        if source.kind() == std::io::ErrorKind::NotFound)
}
