//! A pool file, mapped.
//!
//! The place of the file decides which failure an acknowledged operation survives:
//!
//! - on persistent memory with a DAX file system (`MAP_SYNC`), the loss of power. Flushes and fences
//!   are instructions; where the caches belong to the persistence domain (eADR) the flushes are left
//!   out, the fences never are.
//! - elsewhere in the page cache, the death of the process at any instant. There flushes and fences
//!   buy nothing, so they are left out: the system sees every store that was made, in order.
//!
//! A file is locked while it is open: for one writer, or for readers, who map it privately, so that
//! recovery happens in pages of their own. The lock belongs to the open file, not to the process: a
//! second open in the same process is refused as well. Children of a fork do not have the mapping.
//! The lock is advisory: a process that cuts the file while it is open ends this one
//! (SIGBUS).

mod copy;
mod domain;
mod file;
mod map;
mod readers;
mod seen;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::room::{HUGE_PAGE_BYTES, Map};
use super::{
    ADDRESS_BYTES, Blank, Changes, CopiedAs, Durability, Memory, Region, Storage, each_line,
    logged, sys,
};
use crate::copied::CopiedWords;
use crate::error::{Error, ErrorKind, Limit, Result};
use crate::flush::{self, WriteBack};
use crate::identity::{self, FileId};
use crate::primitive::lock;
use crate::word::{OnMedia, PmU64};
pub use copy::PoolCopy;
pub use file::FileLock;
use file::map_file;
pub(super) use file::{PoolFile, real_dir};
use logged::{OldLog, PoolView};
pub(super) use map::{MAPPING, Mapping, Sharing};
use readers::{Readers, distrust, unless_read};
#[cfg(not(loom))]
use seen::Beside;
use seen::Image;

/// The use of directly mapped persistent memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dax {
    /// Used where available; [`durability`](Storage::durability) says so.
    #[default]
    Auto,
    /// Without it the pool is not opened.
    Require,
    /// The page cache, even where there is DAX.
    Off,
}

/// How a file is mapped.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MappedOptions {
    /// Bytes beyond which the file never grows. Where the system has fewer addresses it grows less, but
    /// always all that it holds already is mapped.
    pub max_bytes: u64,
    /// The use of persistent memory.
    pub dax: Dax,
    /// Makes the flushes and fences real in the page cache, where they buy nothing: for benchmarks.
    pub force_flushes: bool,
    /// Lets other processes read the pool while this one writes it.
    pub readers: bool,
}

impl Default for MappedOptions {
    fn default() -> Self {
        let (force_flushes, readers) = (false, false);
        MappedOptions { max_bytes: u64::MAX, dax: Dax::Auto, force_flushes, readers }
    }
}

/// Which instructions a flush and a fence are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushes {
    /// Both are made.
    Real(WriteBack),
    /// The caches survive power failure: fences only.
    FencesOnly,
    /// Neither.
    None,
}

/// A hole of a file with at least so many bytes before it begins and ends with a huge page. Before others there are no huge pages:
/// a small pool is to be a small file.
const HUGE_BEFORE_BYTES: u64 = 64 << 20;

/// What may stay a hole of the part of a file that nobody stores to.
fn hole_in(unused: Range<u64>) -> Range<u64> {
    if unused.start < HUGE_BEFORE_BYTES {
        return unused;
    }
    let start = unused.start.next_multiple_of(HUGE_PAGE_BYTES).min(unused.end);
    start..(unused.end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES).max(start)
}

/// From where on a file with this part to which nobody stores has huge pages.
fn huge_from(unused: &Range<u64>) -> u64 {
    if unused.is_empty() || unused.start >= HUGE_BEFORE_BYTES {
        return 0;
    }
    unused.end.next_multiple_of(HUGE_PAGE_BYTES)
}

/// A mapped pool file. See the module docs.
pub struct Mapped {
    region: Region,
    flushes: Flushes,
    read_only: bool,
    dax: bool,
    /// The mapping holds the file's lock too, so it goes first.
    mapping: Mapping,
    /// The counters for readers in other processes, if there may be any; those of the writer, if this is one. They go
    /// before the pool's lock.
    readers: Option<Readers>,
    /// What a reader beside a writer with a live image sees.
    image: Option<Image>,
    file: Arc<PoolFile>,
    file_id: FileId,
    file_bytes: u64,
    /// The file had all of the pool when it was opened: no log was open.
    was_whole: bool,
    /// How the file is mapped once it is written to; privately before, where its log was not closed.
    sharing: Sharing,
    /// The log that the file had at open, until it is empty or another medium's.
    log: Mutex<Option<OldLog>>,
    /// True if there may be pages that are not on the disk and that the system calls clean, as an earlier
    /// sync of them failed. Held during a sync.
    unsynced: Mutex<bool>,
    /// Held while the file's length changes; true if it was cut for good.
    trimmed: Mutex<bool>,
}

impl Mapped {
    /// A new, empty pool file, without a name, or under a temporary one, until it is
    /// [published](Storage::publish); if it never is, it goes away when dropped.
    ///
    /// **Concurrency.** Of several that create the same path at once, one publishes.
    ///
    /// # Errors
    /// [`Exists`](ErrorKind::Exists) where the name is taken; [`NoDax`](ErrorKind::NoDax) where DAX
    /// is required and not there; [`Io`](ErrorKind::Io) with the system's error.
    pub fn create(path: &Path, options: &MappedOptions) -> Result<Self> {
        Self::map(Arc::new(PoolFile::create(path, 0o666)?), false, options)
    }

    /// The same, but for the owner alone to open.
    ///
    /// # Errors
    /// As [`create`](Mapped::create).
    pub fn create_private(path: &Path, options: &MappedOptions) -> Result<Self> {
        Self::map(Arc::new(PoolFile::create(path, 0o600)?), false, options)
    }

    /// An existing pool file.
    ///
    /// With `read_only`, the file needs to be readable only, stores never reach it, and other
    /// readers may have it open too.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) while another handle or process has it open for writing, or for reading if this
    /// is for writing; [`NotAPool`](ErrorKind::NotAPool) where it is empty or not a regular file;
    /// [`NoDax`](ErrorKind::NoDax) where DAX is required and not there; [`Io`](ErrorKind::Io) with
    /// what the system says.
    pub fn open(path: &Path, read_only: bool, options: &MappedOptions) -> Result<Self> {
        Self::map(Arc::new(PoolFile::open(path, read_only, !read_only)?), read_only, options)
    }

    /// The same to read, where nobody lets others [look on](Mapped::look_on): the process that has it open may have been killed.
    ///
    /// # Errors
    /// As [`open`](Mapped::open).
    pub fn open_after_a_moment(path: &Path, options: &MappedOptions) -> Result<Self> {
        Self::map(Arc::new(PoolFile::open(path, true, true)?), true, options)
    }

    /// A pool that another process has open for writing, as it is from moment to moment; `None` where that process has not said
    /// that it may be read. Its live image, if it has one, is in `live_dir`, or beside it (`seen.rs`).
    ///
    /// # Errors
    /// As [`open`](Mapped::open); [`Options`](ErrorKind::Options) where the live image is not there.
    pub fn look_on(
        path: &Path,
        live_dir: Option<&Path>,
        options: &MappedOptions,
    ) -> Result<Option<Self>> {
        let file = Arc::new(PoolFile::open_unlocked(path, true)?);
        let file_id = FileId::of(&file.metadata()?);
        let readers = Readers::of_reader(&file, file_id);
        let readers = readers.map_err(|e| file.error(seen::OPENING, e))?;
        // While the writer opens the pool, or has failed, nothing is counted.
        let Some(readers) = readers.filter(|readers| readers.changes.are_as_named()) else {
            return Ok(None);
        };
        // Only now: from here on neither file is cut.
        let len = file.metadata()?.len();
        let most = options.max_bytes.min(ADDRESS_BYTES).max(len);
        let image = Image::find(&file, file_id, live_dir, &readers.changes)?;
        let (mapping, region) = match &image {
            Some(image) => image.map(most)?,
            None => map_file(&file, Sharing::Seen, len, most, (false, u64::MAX))?,
        };
        let mut seen = Mapped {
            region,
            flushes: Flushes::None,
            read_only: true,
            dax: false,
            mapping,
            readers: Some(readers),
            image,
            file,
            file_id,
            file_bytes: 0,
            was_whole: false,
            sharing: Sharing::Seen,
            log: Mutex::new(None),
            unsynced: Mutex::new(false),
            trimmed: Mutex::new(false),
        };
        match seen.image {
            Some(_) => seen.follow(logged::said_bytes(&seen.region)?.unwrap_or(0))?,
            None => seen.end_at(len)?,
        }
        Ok(Some(seen))
    }

    fn map(file: Arc<PoolFile>, read_only: bool, options: &MappedOptions) -> Result<Self> {
        let map = |read_only, copied| Self::map_file(Arc::clone(&file), read_only, options, copied);
        let mapped = file.is_short_of_space().and_then(|is_short| {
            if !is_short {
                return map(read_only, false);
            }
            let mut copy = map(true, true)?;
            if read_only {
                let log = copy.log.get_mut().unwrap_or_else(PoisonError::into_inner);
                *log = log.take().filter(OldLog::is_in_image);
                return Ok(copy);
            }
            let (len, old) = (copy.region.len(), OldLog::look(&mut copy)?);
            copy.fill_holes(len, old.as_ref().map_or(len..len, OldLog::unused))?;
            map(false, false)
        });
        mapped.map_err(|e| e.at_path(file.path()))
    }

    /// The file mapped, or `copied` into memory, for a reader.
    fn map_file(
        file: Arc<PoolFile>,
        read_only: bool,
        options: &MappedOptions,
        copied: bool,
    ) -> Result<Self> {
        let metadata = file.metadata()?;
        let len = metadata.len();
        let write_back = WriteBack::detect();
        let dax = options.dax != Dax::Off
            && write_back.is_some()
            && Mapping::can_dax(file.file(), read_only)
                .map_err(|e| file.error("looking for DAX below", e))?;
        if options.dax == Dax::Require && !dax {
            return Err(ErrorKind::NoDax.into());
        }
        let max_bytes = options.max_bytes.min(ADDRESS_BYTES).max(len);
        let (sharing, most) = if read_only {
            (Sharing::Private, len)
        } else if dax {
            (Sharing::Dax, max_bytes)
        } else {
            (Sharing::PageCache, max_bytes)
        };
        let flushes = match write_back {
            _ if read_only => Flushes::None,
            Some(write_back) if options.force_flushes => Flushes::Real(write_back),
            None if options.force_flushes => {
                let what = "this processor has no instruction that writes a line back";
                return Err(ErrorKind::Options { what }.into());
            }
            Some(_) if dax && domain::caches_survive(Path::new("/sys"), metadata.dev()) => {
                Flushes::FencesOnly
            }
            Some(write_back) if dax => Flushes::Real(write_back),
            _ => Flushes::None,
        };
        // Where the page has to come from the disk, the first look at it would have many more come with it.
        sys::will_read(file.file(), 0, logged::SUPERBLOCK_BYTES);
        // What is read before the place of holes is known is in no huge page.
        let (mapping, region) = map_file(&file, sharing, len, most, (dax, u64::MAX))?;
        if copied {
            mapping.own(0, len).map_err(|e| file.error(MAPPING, e))?;
            file.copy_to(&region)?;
        }
        let (trimmed, log, unsynced) = (Mutex::new(false), Mutex::new(None), Mutex::new(false));
        let file_id = FileId::of(&metadata);
        let readers = match (read_only, options.readers) {
            (true, _) => None,
            (false, true) => {
                let readers = Readers::of_writer(&file, file_id);
                let doing = "making the file for readers of the pool";
                Some(readers.map_err(|e| file.error(doing, e))?)
            }
            (false, false) => {
                let doing = "emptying the file that another writer left for readers of the pool";
                distrust(&file, file_id).map_err(|e| file.error(doing, e))?;
                None
            }
        };
        let mut mapped = Mapped {
            region,
            flushes,
            read_only,
            dax,
            mapping,
            readers,
            image: None,
            file,
            file_id,
            file_bytes: len,
            was_whole: false,
            sharing,
            log,
            unsynced,
            trimmed,
        };
        // A pool that was open behind a log is not whole without it. But the file may be refused yet, for
        // its contents or for the caller's options, and then nothing may have been written.
        let is_copy = logged::is_copy(&mapped.region, mapped.file_id)?;
        let old = OldLog::look(&mut mapped);
        let old = old.map_err(|e| match e.kind() {
            ErrorKind::Corrupt { .. } | ErrorKind::Truncated { .. } if is_copy => {
                ErrorKind::Copied.into()
            }
            _ => e,
        })?;
        let unused = old.as_ref().map_or(len..len, OldLog::unused);
        mapped.mapping.set_huge_from(huge_from(&unused));
        let is_in_image = old.as_ref().is_some_and(OldLog::is_in_image);
        mapped.was_whole = old.as_ref().is_none_or(|old| !old.is_private());
        if is_in_image && read_only && is_copy {
            return Err(ErrorKind::Copied.into());
        }
        // A reader of a live image is shown that next.
        if !read_only || copied || is_in_image {
            mapped.log = Mutex::new(old);
        }
        mapped.unsynced = Mutex::new(logged::is_left_in_cache(&mapped.region)?);
        // The file's bytes behind the pool, even a tebibyte of holes, are no space of the pool's.
        if !is_in_image {
            mapped.end_at(len)?;
        }
        Ok(mapped)
    }

    /// Maps the file in another way. Stores to private pages are lost then.
    fn map_again(&self, sharing: Sharing) -> Result<()> {
        // SAFETY: all that points into the mapping accesses it as atomics, and may see other bytes at
        // any time.
        unsafe { self.mapping.replace(self.file.file(), sharing) }
            .map_err(|e| self.file.error(MAPPING, e))
    }

    /// Lets the first bytes of the mapping, as many as it has, be what `map` maps.
    pub(super) fn show_parts(&self, map: Map<'_>) -> io::Result<()> {
        // SAFETY: all that points into the mapping accesses it as atomics, and may see other bytes at any time.
        unsafe { self.mapping.replace_by_parts(self.mapping.bytes(), map) }
    }

    /// The pool ends where its superblock says, at the latest at `bytes`.
    pub(super) fn end_at(&mut self, bytes: u64) -> Result<()> {
        self.region.end_at(bytes);
        self.region.end_at(logged::pool_bytes(&self.region)?);
        Ok(())
    }

    /// The file mapped once more, of at most so many bytes.
    fn map_once_more(&self, sharing: Sharing, most: u64) -> Result<(Mapping, Region)> {
        let how = (self.dax, self.mapping.huge_from());
        map_file(&self.file, sharing, self.region.len(), most, how)
    }

    /// Maps the file in another way, elsewhere; the mapping that it had.
    fn exchange(&mut self, sharing: Sharing) -> Result<Mapping> {
        let (mapping, region) = self.map_once_more(sharing, self.region.max_bytes())?;
        self.region = region;
        Ok(std::mem::replace(&mut self.mapping, mapping))
    }

    /// The mapping with the stores to its private pages; stores to this one reach the file again.
    pub(super) fn take_image(&mut self) -> Result<Mapping> {
        self.exchange(self.sharing)
    }

    /// The file in private pages.
    pub(super) fn map_image(&self) -> Result<Mapping> {
        self.map_once_more(Sharing::Private, self.region.max_bytes()).map(|(mapping, _)| mapping)
    }

    /// Lengthens a mapping of the file to `bytes` bytes. One thread at a time.
    fn reach(&self, mapping: &Mapping, sharing: Sharing, bytes: u64) -> Result<()> {
        let most = self.region.max_bytes();
        match mapping.lengthen(self.file.file(), sharing, bytes, most) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let missing = bytes.saturating_sub(self.region.len());
                Err(Error::full(missing, Limit::Addresses).at_path(self.file.path()))
            }
            Err(e) => Err(self.error(MAPPING, e)),
        }
    }

    /// Lengthens an image of the file, which is mapped privately, to `bytes` bytes. One thread at a time.
    pub(super) fn reach_image(&self, image: &Mapping, bytes: u64) -> Result<()> {
        self.reach(image, Sharing::Private, bytes)
    }

    /// See [`PoolFile::fill_holes`].
    pub(super) fn fill_holes(&self, bytes: u64, unused: Range<u64>) -> Result<()> {
        self.file.fill_holes(bytes, hole_in(unused.start.min(bytes)..unused.end.min(bytes)))
    }

    /// Runs `cut`, which cuts the pool, or its live image, unless a reader in another process may have it mapped.
    pub(super) fn unless_read(&self, cut: impl FnOnce() -> Result<()>) -> Result<()> {
        unless_read((&self.file, self.file_id), self.readers.as_ref(), cut)
    }

    /// Cuts the file to `bytes` bytes.
    fn cut(&self, bytes: u64) -> Result<()> {
        // The region cannot shrink, as references into it may be about. They see zeros
        // there, and their stores are lost.
        self.mapping.detach(bytes).map_err(|e| self.file.error("cutting the pool", e))?;
        self.file.truncate(bytes)
    }

    /// Grows to `bytes` bytes, of which those from `hole` on take no space on the disk, and are not to be
    /// stored to.
    pub(super) fn grow_with_hole(&self, bytes: u64, hole: u64) -> Result<()> {
        if self.read_only {
            return Err(Error::from(ErrorKind::ReadOnly).at_path(self.file.path()));
        }
        let trimmed = lock(&self.trimmed);
        let len = self.region.len();
        if bytes <= len {
            return Ok(());
        }
        if bytes > self.region.max_bytes() || *trimmed {
            return Err(Error::full(bytes - len, self.region.limit()).at_path(self.file.path()));
        }
        self.reach(&self.mapping, self.sharing, bytes)?;
        let hole = hole_in(hole.max(len)..bytes);
        let had = self.file.extend(len, bytes, hole.start)?;
        self.file.fill(hole.end, bytes).inspect_err(|_| self.file.cut_back(had))?;
        if !hole.is_empty() {
            self.mapping.set_huge_from(huge_from(&hole));
        }
        // What is before a hole is a log, which is written by the file.
        let populated = if hole.is_empty() {
            // SAFETY: the file was just extended over the range, and the region does not reach there.
            unsafe { self.mapping.populate(len, bytes - len) }
        } else {
            Ok(())
        };
        let populated = populated.map_err(|e| self.file.error("growing the pool", e));
        // With DAX what is stored there is durable when fenced, so the length must be before.
        let durable = populated.and_then(|()| if self.dax { self.file.sync() } else { Ok(()) });
        if let Err(e) = durable {
            self.file.cut_back(had);
            return Err(e);
        }
        // SAFETY: all of the file is mapped readable and writable.
        unsafe { self.region.set_len(bytes) };
        Ok(())
    }

    /// As [`PoolFile::is_new`].
    pub(super) fn is_new(&self) -> bool {
        self.file.is_new()
    }

    /// As [`PoolFile::fill`].
    pub(super) fn fill(&self, from: u64, to: u64) -> Result<()> {
        self.file.fill(from, to)
    }

    pub(super) fn is_log_closed(&self) -> bool {
        lock(&self.log).as_ref().is_none_or(|old| !old.is_private())
    }

    /// True if the pool is in a live image, whose process has not closed it: the file alone is an older state.
    pub fn is_in_live_image(&self) -> bool {
        lock(&self.log).as_ref().is_some_and(OldLog::is_in_image)
    }

    /// True if the file's system can carry a live image: its mappings are to the next process as the last one left them, errors of
    /// write-back are told, and boots have ids.
    pub fn carries_live_image(&self) -> bool {
        sys::keeps_mappings(self.file.file()) && identity::boot_id() != [0; 2]
    }

    /// True if the pool has a log, of either kind.
    pub fn has_log(&self) -> bool {
        lock(&self.log).is_some()
    }

    /// True if the pool has a log of lines.
    pub fn has_lines(&self) -> bool {
        lock(&self.log).as_ref().is_some_and(|old| old.ring.is_none())
    }

    /// If the pool's log is a ring that was closed, lets no live image belong to it. One beside the pool goes.
    pub(super) fn disown_live_image(&self) -> Result<()> {
        let log = lock(&self.log);
        match log.as_ref().filter(|old| old.ring.is_some()) {
            Some(old) => self.begin_ring(old),
            None => Ok(()),
        }
    }

    fn begin_ring(&self, old: &OldLog) -> Result<()> {
        logged::begin_file(self, old)?;
        if let Ok(dir) = real_dir(self.file.path()) {
            let _ = sys::unlink(&dir.join(self.file_id.live_name()));
        }
        Ok(())
    }

    /// The opposite of [`take_log`](Mapped::take_log).
    pub(super) fn return_log(&self, log: Option<OldLog>) {
        *lock(&self.log) = log;
    }

    /// Lengthens the file, of which this medium shows as much as before, with zeros; the length that
    /// [`cut_back`](Mapped::cut_back) gives it again.
    pub(super) fn lengthen(&self, from: u64, to: u64) -> Result<u64> {
        let len = self.file.metadata()?.len();
        if len > from {
            self.file.clear(from, len)?;
        }
        self.file.extend(from, to, to)
    }

    /// Has no huge pages if the file has a hole before which there are none: of two kinds of pages a mapping is two.
    pub(super) fn keep_one_mapping(&self) {
        if self.mapping.huge_from() > 0 {
            self.mapping.set_huge_from(u64::MAX);
        }
    }

    /// Gives the mapping back: what follows is done on the file alone.
    ///
    /// # Safety
    /// Nothing points into the region, and no thread looks into it meanwhile.
    pub(super) unsafe fn unmap(&self) {
        self.region.end();
        // SAFETY: the caller's promise; from the region nothing is lent any more.
        unsafe { self.mapping.shorten(0) };
    }

    /// As [`PoolFile::cut_back`].
    pub(super) fn cut_back(&self, bytes: u64) {
        self.file.cut_back(bytes);
    }

    /// Takes the log that the file had at open. The caller brings its lines into the file.
    pub(super) fn take_log(&self) -> Option<OldLog> {
        lock(&self.log).take()
    }

    /// A file that stayed locked, opened again.
    ///
    /// # Errors
    /// As [`open`](Mapped::open).
    pub fn reopen(lock: FileLock, options: &MappedOptions) -> Result<Self> {
        match Arc::into_inner(lock.0) {
            Some(file) => Self::map(Arc::new(file), false, options),
            None => Err(ErrorKind::Locked.into()),
        }
    }

    /// The same file as it was when it was opened, in private pages: reads and recovery there leave no
    /// trace.
    ///
    /// # Errors
    /// As [`open`](Mapped::open).
    pub fn reader(&self) -> Result<Mapped> {
        let options = MappedOptions { dax: Dax::Off, ..MappedOptions::default() };
        Self::map(Arc::clone(&self.file), true, &options)
    }

    /// True if stores reach persistent memory.
    pub fn is_dax(&self) -> bool {
        self.dax
    }

    /// True if the file lies in memory, on a file system that has no disk.
    pub fn is_in_memory(&self) -> bool {
        sys::is_in_memory(self.file.file())
    }

    // Parts of the log's view of the file.

    /// Makes `bytes` bytes from `off`, changed or not, something that the next sync writes.
    pub(super) fn dirty_pages(&self, off: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the file reaches that far, and nothing is changed but for what the system knows.
        unsafe { self.mapping.populate(off, bytes) }
            .map_err(|e| self.file.error("opening the pool", e))
    }

    /// Another holder of the file's lock, for after this medium is gone.
    pub fn file_lock(&self) -> FileLock {
        FileLock(Arc::clone(&self.file))
    }
}

impl PoolView for Mapped {
    fn file(&self) -> &File {
        self.file.file()
    }

    fn current_path(&self) -> PathBuf {
        self.file.current_path()
    }

    fn error(&self, doing: &'static str, e: io::Error) -> Error {
        self.file.error(doing, e)
    }

    fn map_privately(&mut self) -> Result<()> {
        if !self.read_only {
            self.exchange(Sharing::Private)?;
        }
        Ok(())
    }

    fn map_pool(&self) -> Result<(Mapping, Region)> {
        self.map_once_more(self.sharing, self.region.len())
    }

    fn sync_pages(&self, off: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 || self.is_new() { Ok(()) } else { self.mapping.sync(off, bytes) }
    }
}

impl Memory for Mapped {
    #[inline(always)]
    fn same_line_order(&self) -> bool {
        cfg!(target_arch = "x86_64")
    }
    #[inline(always)]
    fn copy_words(&self, src: &[PmU64], dst: &mut CopiedWords) {
        dst.fill_at_once(src);
    }
    #[inline(always)]
    fn region(&self) -> &Region {
        &self.region
    }
    #[inline(always)]
    fn changes(&self) -> Option<&Changes> {
        self.readers.as_ref().map(|readers| &readers.changes)
    }
    #[inline]
    fn is_durable(&self) -> bool {
        self.readers.as_ref().is_none_or(Readers::is_all_durable)
    }
    /// Of a reader beside a writer in `Strict`.
    fn wait_until_durable(&self) -> Result<()> {
        let Some(readers) = &self.readers else { return Ok(()) };
        let waited = readers.wait_until_all_durable(self.file.file());
        waited.map_err(|e| self.file.error(seen::LOOKING, e))
    }
    #[inline(always)]
    fn store_nt(&self, word: &PmU64, v: u64) {
        match self.flushes {
            Flushes::Real(write_back) => flush::store_nt(Some(write_back), word, v),
            Flushes::FencesOnly => flush::store_nt(None, word, v),
            Flushes::None => word.store(v),
        }
    }

    #[inline(always)]
    fn flush<T: OnMedia + ?Sized>(&self, obj: &T) {
        if let Flushes::Real(write_back) = self.flushes {
            each_line(obj, |line| write_back.line(line));
        }
    }
    #[inline(always)]
    fn fence(&self) {
        if self.flushes != Flushes::None {
            flush::fence();
        }
    }
}

impl Storage for Mapped {
    fn write_back(&self) -> Result<()> {
        // Caches of the processor keep what the process stored. The system knows of which pages that
        // may be.
        if !self.dax || self.read_only {
            return Ok(());
        }
        let synced = self.sync_pages(0, self.region.len());
        synced.map_err(|e| self.error("syncing the pool", e))
    }

    fn begin(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        let mut log = lock(&self.log);
        let len = self.region.len();
        self.fill_holes(len, log.as_ref().map_or(len..len, OldLog::unused))?;
        if let Some(old) = &*log {
            if old.is_in_image() {
                let why = "its live image was not looked at";
                return Err(Error::from(ErrorKind::NoLiveImage { why }).at_path(self.file.path()));
            }
            match old.ring {
                Some(_) => self.begin_ring(old)?,
                None => logged::begin_file(self, old)?,
            }
            if old.is_private() {
                self.map_again(self.sharing)?;
            }
        }
        *log = None;
        Ok(())
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        self.grow_with_hole(bytes, bytes)
    }

    fn sync(&self, off: u64, bytes: u64) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        if self.dax {
            let first = off / 8;
            let end = (off + bytes).div_ceil(8).min(self.region.len() / 8);
            self.flush(self.region.words(first * 8, end.saturating_sub(first))?);
            self.fence();
            return Ok(());
        }
        if self.is_new() {
            return Ok(());
        }
        // A sync takes pages to the disk also where an earlier one, of this process or another, has
        // failed: else a close could call such a pool clean.
        let mut unsynced = lock(&self.unsynced);
        let len = self.region.len();
        if *unsynced {
            let end = off.saturating_add(bytes).min(len);
            // Not the log, which is not in use, and may be a hole.
            let log = logged::log_range(&self.region).unwrap_or(len..len);
            for (from, to) in [(off, end.min(log.start)), (off.max(log.end), end)] {
                self.dirty_pages(from, to.saturating_sub(from))?;
            }
        }
        let synced = self.mapping.sync(off, bytes);
        match &synced {
            Err(_) => *unsynced = true,
            Ok(()) if off == 0 && bytes >= len => *unsynced = false,
            Ok(()) => {}
        }
        synced.map_err(|e| self.file.error("syncing the pool", e))
    }

    fn publish(&self) -> Result<()> {
        self.file.publish()
    }
    fn file_id(&self) -> FileId {
        self.file_id
    }
    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    fn trim(&self, bytes: u64) -> Result<()> {
        if self.read_only {
            return Err(Error::from(ErrorKind::ReadOnly).at_path(self.file.path()));
        }
        let mut trimmed = lock(&self.trimmed);
        if bytes >= self.file.metadata()?.len() {
            return Ok(());
        }
        *trimmed = true;
        self.unless_read(|| self.cut(bytes))
    }

    fn follow(&self, bytes: u64) -> Result<()> {
        let _one = lock(&self.trimmed);
        if self.sharing != Sharing::Seen || bytes <= self.region.len() {
            return Ok(());
        }
        let reaches = match &self.image {
            Some(image) => image.reaches(bytes)?,
            None => self.file.metadata()?.len() >= bytes,
        };
        if !reaches {
            return Err(Error::corrupt("the pool is longer than its file", bytes));
        }
        let (most, full) = (self.region.max_bytes(), |limit| Error::full(bytes, limit));
        if bytes > most {
            return Err(full(self.region.limit()).at_path(self.path()));
        }
        match &self.image {
            None => self.reach(&self.mapping, self.sharing, bytes)?,
            Some(image) if image.lengthen(&self.mapping, bytes, most)? => {}
            Some(_) => return Err(full(Limit::Addresses).at_path(self.path())),
        }
        // SAFETY: the file reaches there, is mapped so far, to be read, and no reader stores.
        unsafe { self.region.set_len(bytes) };
        Ok(())
    }

    /// The file's bytes, where it is closed and nobody writes to it; or a cut, beside a writer with a live image.
    fn copy_to(&self, to: &dyn Blank, watch: &mut dyn FnMut(u64, u64)) -> Result<CopiedAs> {
        #[cfg(not(loom))]
        if let (Some(image), Some(readers)) = (&self.image, &self.readers) {
            let writer = Beside::new((&self.file, &self.region), image, &readers.changes);
            self.copy_beside(writer.log_area()?, &writer, to, watch)?;
            return Ok(CopiedAs::Cut);
        }
        let mut superblock = [0; logged::SUPERBLOCK_BYTES as usize];
        let read = sys::read_at(self.file.file(), &mut superblock, 0);
        read.map_err(|e| self.error("reading the pool", e))?;
        if !self.read_only || !self.was_whole || !logged::is_closed(&superblock) {
            return Ok(CopiedAs::Nothing);
        }
        let log = logged::log_range(&self.region);
        copy::copy_file(&self.file, self.region.len(), log, to, watch)?;
        Ok(CopiedAs::Closed)
    }

    fn durability(&self) -> Durability {
        if self.dax { Durability::Strict } else { Durability::Process }
    }
    fn read_only(&self) -> bool {
        self.read_only
    }
    fn huge_bytes(&self) -> Option<u64> {
        super::dram::huge_bytes(self.mapping.base().as_ptr().addr() as u64, self.mapping.bytes())
    }
    fn path(&self) -> Option<&Path> {
        Some(self.file.path())
    }
}
