//! Pools made and opened, whatever their design: in memory, in files, and on any other medium.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use durahash_media::{
    Dax, Dram, Error, ErrorKind, FileDisk, FileLock, Format, Geometry, Live, LiveFiles, Logged,
    Mapped, Medium, Memory, Pool, Result, Storage, SyncMode,
};

use super::batch;
use super::design::Design;
use super::maps::OpenPool;
use super::settings::{DesignOptions, LOG_BYTES, RING_BYTES, Settings};
use super::spec::{MapSpec, Required, check_wanted, known, refused, seed};
use super::{At, Kind, Single};
use crate::designs::rewo::Cache;

/// A pool that may not grow to so many times its log has none unless one is asked for.
const LOG_PART: u64 = 8;

/// Opens of a pool that grows meanwhile, before it is called damaged.
const OPEN_TRIES: u32 = 100;

const NO_READERS: &str = "readers in other processes need a pool in the mode Process (sync_mode(SyncMode::Process)), or one with a \
    live image (live_image(true), on ext4, XFS or tmpfs)";

/// A pool that was made or opened, and the lock of its file.
pub(crate) type Made = (Arc<OpenPool>, Option<FileLock>);

/// Makes or opens one, whose own map is the one that is required. An error names the file. Not generic, so that
/// every design over every medium of the library is compiled in this crate, once, and not in each crate that
/// names its keys.
pub(crate) fn make(settings: &Settings, required: Required, at: At<'_>) -> Result<Made> {
    match at {
        At::Memory => create_in_memory(settings, required).map(|pool| (pool, None)),
        At::New(path) => create_file(settings, path, required)
            .map(|pool| (pool, None))
            .map_err(|e| e.at_path(path)),
        At::Existing(path) => open_file(settings, path, required)
            .map(|(pool, lock)| (pool, Some(lock)))
            .map_err(|e| e.at_path(path)),
    }
}

/// Opens the pool at `path`, or creates it where there is none.
pub(crate) fn open_or_create(
    settings: &Settings,
    required: Required,
    path: &Path,
) -> Result<Arc<OpenPool>> {
    let open = || make(settings, required, At::Existing(path)).map(|(pool, _)| pool);
    match open() {
        Err(e) if !settings.read_only && is_missing(&e) => {}
        opened => return opened,
    }
    match make(settings, required, At::New(path)) {
        // Another process or thread was quicker.
        Err(e) if matches!(e.kind(), ErrorKind::Exists) => open(),
        created => created.map(|(pool, _)| pool),
    }
}

fn create_in_memory(settings: &Settings, required: Required) -> Result<Arc<OpenPool>> {
    if settings.dax == Dax::Require {
        return Err(ErrorKind::NoDax.into());
    }
    let spec = CreateSpec::new(settings, required)?;
    create_on(settings.max_bytes.map_or_else(Dram::of_all_memory, Dram::new)?, &spec)
}

fn create_file(settings: &Settings, path: &Path, required: Required) -> Result<Arc<OpenPool>> {
    let spec = CreateSpec::new(settings, required)?;
    let options = settings.mapped(settings.max_bytes.unwrap_or(u64::MAX));
    let medium = Mapped::create(path, &options)?;
    let sync_mode = settings.sync_mode.unwrap_or_else(|| default_mode(settings, &medium));
    let spec = CreateSpec { sync_mode, ..spec };
    if sync_mode == SyncMode::Process || medium.is_dax() {
        return create_on(medium, &spec);
    }
    let live_image = settings.live_image.unwrap_or_else(|| medium.carries_live_image());
    if settings.readers && !live_image {
        return refused(NO_READERS);
    }
    // The log comes to a pool that is whole, and the name to one that is in use.
    let lock = medium.file_lock();
    create_on(medium, &CreateSpec { publish: false, is_for_log: true, ..spec })?.close_last()?;
    let file = Mapped::reopen(lock, &options)?;
    let lock = file.file_lock();
    let pool = open_behind_log(settings, file, (sync_mode, live_image), required)?;
    lock.publish()?;
    Ok(pool)
}

/// Opens the pool of a file; the lock of the file.
fn open_file(
    settings: &Settings,
    path: &Path,
    required: Required,
) -> Result<(Arc<OpenPool>, FileLock)> {
    let options = settings.mapped(settings.max_bytes.unwrap_or(u64::MAX));
    let mut medium = match Mapped::open(path, settings.read_only, &options) {
        Err(e) if settings.read_only && matches!(e.kind(), ErrorKind::Locked) => {
            match look_on(settings, path, required) {
                Err(e) if matches!(e.kind(), ErrorKind::Locked) => {
                    Mapped::open_after_a_moment(path, &options)?
                }
                looked_on => return looked_on,
            }
        }
        opened => opened?,
    };
    let mut lock = medium.file_lock();
    check_own(&Pool::peek(&medium)?, required, settings.read_only)?;
    if settings.read_only {
        return Ok((open_to_read(settings, medium, required)?, lock));
    }
    let mode = settings.sync_mode.map_or_else(|| Pool::sync_mode(&medium), Ok)?;
    let needs_no_log = mode == SyncMode::Process || medium.is_dax();
    let carries = || !medium.has_lines() && medium.carries_live_image();
    let to_live_image = settings.live_image.unwrap_or_else(carries);
    if settings.readers && !needs_no_log && !to_live_image {
        return refused(NO_READERS);
    }
    if medium.is_in_live_image() {
        let mode = if needs_no_log { SyncMode::INTERVAL } else { mode };
        let image = live_image(settings, medium, mode)?;
        if !needs_no_log && to_live_image {
            return Ok((open_on(settings, image, required)?, lock));
        }
        // For another use all of it is brought into the file first.
        image.begin()?;
        image.trim(image.region().len())?;
        drop(image);
        medium = Mapped::reopen(lock, &options)?;
        lock = medium.file_lock();
    }
    if needs_no_log {
        return Ok((open_on(settings, medium, required)?, lock));
    }
    let may_have_lines = settings.live_image.is_none() && !settings.readers && !medium.has_log();
    match open_behind_log(settings, medium, (mode, to_live_image), required) {
        // There is no space for the pool's length again.
        Err(e) if to_live_image && may_have_lines && matches!(e.kind(), ErrorKind::Full { .. }) => {
            let medium = Mapped::reopen(lock, &options)?;
            let lock = medium.file_lock();
            Ok((open_behind_log(settings, medium, (mode, false), required)?, lock))
        }
        opened => Ok((opened?, lock)),
    }
}

/// Opens a pool in private pages.
pub(crate) fn open_to_read(
    settings: &Settings,
    mut medium: Mapped,
    required: Required,
) -> Result<Arc<OpenPool>> {
    medium.show_live_image(settings.live_dir.as_deref(), settings.accept_suspect)?;
    open_on(settings, medium, required)
}

/// Opens a pool that another process has open for writing, if that lets others read it.
fn look_on(
    settings: &Settings,
    path: &Path,
    required: Required,
) -> Result<(Arc<OpenPool>, FileLock)> {
    let options = settings.mapped(settings.max_bytes.unwrap_or(u64::MAX));
    let mut tries = 0;
    loop {
        let Some(medium) = Mapped::look_on(path, settings.live_dir.as_deref(), &options)? else {
            return Err(ErrorKind::Locked.into());
        };
        let lock = medium.file_lock();
        match open_on(settings, medium, required) {
            // The pool grew while its tables were read.
            Err(e)
                if tries < OPEN_TRIES
                    && matches!(
                        e.kind(),
                        ErrorKind::Corrupt { .. } | ErrorKind::Truncated { .. }
                    ) =>
            {
                tries += 1;
            }
            opened => return Ok((opened?, lock)),
        }
    }
}

/// The live image of a pool that has a log.
fn live_image(settings: &Settings, file: Mapped, mode: SyncMode) -> Result<Live<LiveFiles>> {
    Live::over_file(file, mode, settings.live_dir.as_deref(), settings.accept_suspect)
}

/// Opens a pool behind a log, of lines or with a live image. Before a log is made, the pool's format was checked, and its design has found it
/// sound. A log that is shorter than an eighth of a closed pool makes place for a longer one, unless its size is
/// set.
fn open_behind_log(
    settings: &Settings,
    file: Mapped,
    (mode, is_live): (SyncMode, bool),
    required: Required,
) -> Result<Arc<OpenPool>> {
    let pool = Pool::open(file, settings.accept_suspect)?;
    if !pool.has_log()? {
        let reader = pool.medium().reader()?;
        // Without a cache of its own. A policy that cannot be is refused now.
        let design_options = DesignOptions { cache: Cache::default(), ..settings.design_options };
        let settings = Settings { design_options, warm: false, ..settings.clone() };
        let _ = open_on(&settings, reader, required)?;
    }
    // The area counts as a part of the pool, which may not be long.
    let part = pool.max_bytes() / LOG_PART;
    let log_bytes = if is_live { RING_BYTES.min(part).max(LOG_BYTES) } else { LOG_BYTES };
    pool.add_log(settings.log_bytes.unwrap_or(log_bytes), is_live)?;
    if settings.log_bytes.is_none() {
        match pool.replace_log(LOG_PART, log_bytes, is_live, settings.verify) {
            // The one that is there does.
            Err(e) if !matches!(e.kind(), ErrorKind::Full { .. }) => return Err(e),
            _ => {}
        }
    }
    if is_live {
        return open_on(settings, live_image(settings, pool.into_medium(), mode)?, required);
    }
    let medium: Logged<FileDisk> =
        Logged::over_file(pool.into_medium(), mode, settings.private_bytes)?;
    open_on(settings, medium, required)
}

/// The mode of a new pool for which none is asked. Behind a log it has four to seven times the inserts of
/// the best log-structured store that does not sync, one by one, and nearly all of its own lookups, and
/// the loss of power takes a moment instead of the pool (`docs/benchmarks.md`). Where that is no
/// question, or a log would be most of the pool, there is
/// none. On a disk that is too full for one, a pool without a log has to be asked for.
fn default_mode(settings: &Settings, medium: &Mapped) -> SyncMode {
    let forgets = medium.is_dax() || medium.is_in_memory();
    let log_bytes = settings.log_bytes.unwrap_or(LOG_BYTES);
    let is_large = settings.max_bytes.is_none_or(|max| max / LOG_PART >= log_bytes);
    if is_large && !forgets && !settings.force_flushes {
        SyncMode::INTERVAL
    } else {
        SyncMode::Process
    }
}

/// The properties of a new pool.
#[derive(Clone, Debug)]
pub(crate) struct CreateSpec {
    /// Its own map, if it has one.
    pub(crate) map: Option<MapSpec>,
    pub(crate) geometry: Geometry,
    pub(crate) seed: u64,
    pub(crate) max_bytes: u64,
    pub(crate) sync_mode: SyncMode,
    /// Gives the file its name at once.
    pub(crate) publish: bool,
    /// A log is made when it is closed.
    pub(crate) is_for_log: bool,
    /// Lookups verify every record.
    pub(crate) verify: bool,
}

impl CreateSpec {
    pub(crate) fn new(settings: &Settings, required: Required) -> Result<Self> {
        if settings.read_only {
            return refused("a new map cannot be read-only");
        }
        let map = MapSpec::new(settings, required)?;
        Ok(CreateSpec {
            geometry: settings.geometry.unwrap_or_else(|| Design::Reh.geometry()),
            seed: map.as_ref().map_or_else(|| seed(settings), |map| Ok(map.seed))?,
            map,
            max_bytes: settings.max_bytes.unwrap_or(u64::MAX),
            sync_mode: SyncMode::Process,
            publish: true,
            is_for_log: false,
            verify: settings.verify,
        })
    }

    fn format(&self) -> Format {
        let max_bytes = self.max_bytes;
        match &self.map {
            Some(map) => Format { max_bytes, ..map.format() },
            None => Format {
                design: 0,
                kind: Format::NO_MAP,
                cells: false,
                in_slots: false,
                key_type: 0,
                value_type: 0,
                geometry: self.geometry,
                seed: self.seed,
                max_bytes,
            },
        }
    }
}

/// Makes a pool on `medium`, which is empty.
pub(crate) fn create_on<M: Medium>(medium: M, spec: &CreateSpec) -> Result<Arc<OpenPool>> {
    let start = Instant::now();
    let pool = Arc::new(Pool::create(medium, &spec.format())?);
    let open = OpenPool::new(Box::new(Arc::clone(&pool)), spec.verify);
    if let Some(map) = &spec.map {
        open.start((0, pool.format()), map.design_options, true, start)?;
    }
    if spec.sync_mode != SyncMode::Process {
        pool.set_sync_mode(spec.sync_mode)?;
    }
    if spec.is_for_log {
        pool.await_log();
    }
    if spec.publish {
        pool.publish()?;
    }
    pool.count_changes();
    Ok(open.opened())
}

/// Opens the pool on `medium`: all of its maps are recovered.
pub(crate) fn open_on<M: Medium>(
    settings: &Settings,
    medium: M,
    required: Required,
) -> Result<Arc<OpenPool>> {
    let start = Instant::now();
    check_own(&Pool::peek(&medium)?, required, settings.read_only)?;
    let pool = Arc::new(Pool::open(medium, settings.accept_suspect)?);
    let looks_on = pool.looks_on();
    if settings.verify && !looks_on {
        pool.verify()?;
    }
    let maps = pool.maps();
    maps.iter().try_for_each(|(.., format)| known(format).map(drop))?;
    let open = OpenPool::new(Box::new(Arc::clone(&pool)), settings.verify || looks_on);
    let is_map = |number| {
        maps.iter().any(|(map, _, format)| *map == number && format.kind == Single::NUMBER)
    };
    // Beside a writer, that may be one of its own.
    let pending = if looks_on {
        None
    } else {
        Some(batch::pending(&open.store, is_map, settings.accept_suspect)?)
    };
    // All are found sound before the first begins to write: a pool that is refused stays as it is.
    let read = maps
        .iter()
        .map(|(map, _, format)| open.read((*map, format), settings.design_options, false, start));
    let rests = read.collect::<Result<Vec<_>>>()?;
    rests.into_iter().try_for_each(|rest| rest())?;
    // Where there is no map that has done it.
    pool.begin()?;
    if let Some(pending) = pending {
        batch::recover(&open.store, pending, |map| open.single(map), settings.accept_suspect)?;
    }
    pool.count_changes();
    if settings.warm {
        open.warm();
    }
    Ok(open.opened())
}

/// Refuses a pool whose own map is not the one that is required.
fn check_own(format: &Format, required: Required, read_only: bool) -> Result<()> {
    match required.kind {
        Some((kind, _)) => {
            let changes = required.changes && !required.expires && !read_only;
            check_wanted(format, kind, required.types, changes)
        }
        None if format.kind == Format::NO_MAP => Ok(()),
        None => known(format).map(drop),
    }
}

/// True if an open failed because there is no file.
fn is_missing(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Io { source, .. }
        if source.kind() == std::io::ErrorKind::NotFound)
}
