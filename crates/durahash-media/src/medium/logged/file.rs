//! A pool's file with a log's area in it.
//!
//! The file is mapped twice: shared, as [`Mapped`] does, which is how the pool is written; and
//! privately, which is the image.
//!
//! # Past the page cache
//! The ring is written past the page cache, each write durable when it returns, where that is safe: it
//! takes one command to the drive, where a write through the cache takes two. Everything else in the
//! file is written through the page cache: the pool and staged lines by a mapping, heads by writes that
//! are durable when they return. The system keeps a file in *folios*, runs of pages, and writes a folio
//! back as a whole: if some of a folio's pages were written past the cache while others were dirtied in
//! it, the write-back could bring the old bytes of the former back. Therefore:
//!
//! - No folio has pages of the ring and others. A folio is aligned to its size, and has at most
//!   [`FOLIO_PAGES_MAX`](super::area::FOLIO_PAGES_MAX) pages, the most that the index of the page cache (an XArray) has room for in one
//!   entry. The ring is written past the cache only if it begins and ends at multiples of that, as
//!   the rings of large logs do ([`place_log`](super::make::place_log)).
//! - No page of the ring is dirty in the cache while it is written past it. No thread stores to it through
//!   a mapping. It is written through the cache when a log is made and when a recovery writes it again,
//!   each time synced, with success, before the first direct write; or, in a new file, before that has its name.
//! - That such pages are clean in the cache, or are read into it meanwhile, harms nobody: they are never
//!   written back, and each direct write drops them.
//!
//! A log that does not use all of its area yet (`extend.rs`) has staged lines and a ring before that place, which are
//! written through the cache; the part of its ring behind it is written past the cache, as nothing but blocks was
//! ever there.
//!
//! A ring that does not lie so, of a small log, and any ring where the file system has no direct writes,
//! is written through the cache.
//!
//! # Syncs that fail
//! The system tells each open file once of a write-back that failed, in the next sync. If
//! a growth took the report that a checkpoint needs, the checkpoint would go on. So the syncs of one
//! open file come one after the other, and after one that failed there is none ([`Syncs`]). The mapping,
//! writes through the cache, and direct writes have an open file each, and each of these is told. In `Interval` a log's
//! writes, which nobody waits for, have an open file anew each time: it is told of what fails from its opening on, which is
//! all of its own write; and what was written before was durable, or the log has ended. It is opened by the link in `/proc` to
//! the file of the mapping, not by its name, which may lead elsewhere by now, or be slow to look up. Without a `/proc` it stays
//! open. If none can be had, as the process may have no more files or has lost the right to open this one, the write goes
//! through the file of the mapping, and a sync of that follows.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use rustix::io::Errno;

use super::area::{
    LogArea, OPENING, OldLog, PoolView, View, head_parts, is_left_in_cache, open_same,
};
use super::background;
use super::disk::Disk;
use super::format::{BLOCK_BYTES, Layout, Line};
use super::{Logged, SyncMode};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::FileId;
use crate::medium::mapped::{MAPPING, Mapped, Mapping};
use crate::medium::room::HUGE_PAGE_BYTES;
use crate::medium::{Memory, Region, Storage, sys};
use crate::primitive::lock;
use crate::word::PmU64;

/// The part of the private bytes that is never given back: a quarter.
const OWN_PART: u64 = 4;
/// The syncs of one open file: one at a time, and none after the first that failed.
#[derive(Default)]
pub(in crate::medium) struct Syncs(Mutex<Option<i32>>);

impl Syncs {
    pub(in crate::medium) fn run<T>(&self, sync: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        const EIO: i32 = rustix::io::Errno::IO.raw_os_error();
        let mut failed = lock(&self.0);
        if let Some(errno) = *failed {
            return Err(io::Error::from_raw_os_error(errno));
        }
        sync().inspect_err(|e| *failed = Some(e.raw_os_error().unwrap_or(EIO)))
    }
}

/// How the log is written.
enum Way {
    /// Not in this way.
    None,
    /// By a file that stays open.
    Kept(File),
    /// By one that is opened for each write, by its link in `/proc`.
    Anew,
}

/// A pool's file behind a log.
pub struct FileDisk {
    /// The image; the mapping under it goes after it.
    region: Region,
    image: Mapping,
    /// The image is memory of this process from here to there, whatever is stored: bytes that the file grows
    /// by begin with zeros, and a store to a page of a file would copy it to one of our own all
    /// the same, in small pages.
    own: Range<u64>,
    /// For writes past the page cache, where these are safe.
    direct: Way,
    /// For writes through it, each durable when it returns. Where there is no way, the file of the view does this.
    cached: Way,
    cached_syncs: Syncs,
    /// True if staged lines lie in the file.
    keeps_staged: bool,
    private_bytes_max: u64,
    area: LogArea,
    whole: Layout,
    /// The part of its area that the log does not use at open.
    unused: Range<u64>,
    device: u64,
    view: Mapped,
    view_syncs: Syncs,
}

impl FileDisk {
    /// The disk whose image is what `view` shows, with the pages that are private if `is_private`.
    fn new(
        mut view: Mapped,
        old: &OldLog,
        keeps_staged: bool,
        private_bytes_max: u64,
    ) -> Result<Self> {
        let OldLog { area, whole, .. } = *old;
        let (len, most) = (view.region().len(), view.region().max_bytes());
        let image = if old.is_private() { view.take_image()? } else { view.map_image()? };
        view.keep_one_mapping();
        let own_from = len.next_multiple_of(HUGE_PAGE_BYTES);
        let own_bytes = private_bytes_max / OWN_PART / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        let own = own_from..own_from.saturating_add(own_bytes).min(most);
        image.own(own.start, own.end).map_err(|e| view.error(MAPPING, e))?;
        // SAFETY: the mapping is aligned, readable and writable as far as the file reaches, and
        // lives as long as `self`; the file is locked, and is never cut under it (see `trim`).
        let region = unsafe { Region::new(image.base(), len, most) };
        let open = |direct| {
            // In `Interval` nobody waits for the opening, and a pool is to have one open file.
            if keeps_staged && reopen_durable(&view, direct).is_ok() {
                return Ok(Way::Anew);
            }
            let file = open_durable(&view, direct).map_err(|e| view.error(OPENING, e))?;
            Ok::<_, Error>(file.map_or(Way::None, Way::Kept))
        };
        let cached = open(false)?;
        let direct = if area.stands_apart(whole) { open(true)? } else { Way::None };
        let device = view.file().metadata().map_err(|e| view.error(OPENING, e))?.dev();
        Ok(FileDisk {
            region,
            image,
            own,
            direct,
            cached,
            cached_syncs: Syncs::default(),
            keeps_staged,
            private_bytes_max,
            area,
            whole,
            unused: old.unused(),
            device,
            view,
            view_syncs: Syncs::default(),
        })
    }

    /// Writes durably, past the page cache or through it, if there is a way now.
    pub(super) fn write_durably(
        &self,
        direct: bool,
        bytes: &[u8],
        off: u64,
    ) -> Option<io::Result<()>> {
        let at = self.area.off + off;
        match if direct { &self.direct } else { &self.cached } {
            Way::None => None,
            Way::Kept(file) => Some(sys::write_at(file, bytes, at)),
            Way::Anew => {
                let file = reopen_durable(&self.view, direct).ok()?;
                Some(sys::write_at(&file, bytes, at))
            }
        }
    }

    fn view(&self) -> View<'_, Mapped> {
        View::new(&self.view, self.area)
    }

    /// The range of the ring, if it shares no folio; true if it is written past the cache.
    #[cfg(all(test, not(loom)))]
    pub(super) fn place(&self) -> (Option<(u64, u64)>, bool) {
        let LogArea { off, bytes, .. } = self.area;
        let ring = (off + self.whole.ring_off(), off + bytes);
        (self.area.stands_apart(self.whole).then_some(ring), !matches!(self.direct, Way::None))
    }
}

/// The file of `view`, opened for writes that are durable when they return.
fn open_durable(view: &Mapped, direct: bool) -> io::Result<Option<File>> {
    open_same(view, |path| sys::open_durable(path, direct))
}

/// The same, whatever its name is, where there is a /proc.
fn reopen_durable(view: &Mapped, direct: bool) -> io::Result<File> {
    sys::open_durable(&sys::link_to(view.file()), direct)
}

/// Dirties the pages that an earlier process may have failed to sync, so that the next sync is one.
///
/// Pages of a pool that was used without a log and not closed: all of them. Else the superblock and
/// the extent table, which say where the log is: the rest was synced by the close.
pub(in crate::medium) fn dirty_again(view: &Mapped, area: &LogArea) -> Result<()> {
    let region = view.region();
    if !is_left_in_cache(region)? {
        let len = region.len();
        return head_parts(region)?.into_iter().try_for_each(|(off, bytes)| {
            let off = off.min(len);
            view.dirty_pages(off, bytes.min(len - off))
        });
    }
    // Not the area, which is written again by itself, and perhaps past the cache from now on.
    let end = area.off + area.bytes;
    view.dirty_pages(0, area.off)?;
    view.dirty_pages(end, region.len() - end)
}

impl Disk for FileDisk {
    fn region(&self) -> &Region {
        &self.region
    }

    fn log_bytes(&self) -> u64 {
        self.area.bytes
    }

    fn whole(&self) -> Layout {
        self.whole
    }

    fn fill_log(&self, from: u64, to: u64) -> io::Result<()> {
        const CHUNK_BYTES: u64 = 1 << 20;
        let off = self.area.off;
        // The pool may need the space. If it is not given back, the next try finds it.
        let give_back = |_: &io::Error| {
            let _ = sys::punch(self.view.file(), off + from, to - from);
        };
        let reserved = sys::zero(self.view.file(), off + from, to - from);
        match &reserved {
            // The first write to what is only reserved takes twice as long, and in `Strict` is waited for.
            Ok(()) if self.keeps_staged => return Ok(()),
            Err(e) if !sys::is(e, Errno::OPNOTSUPP) => return reserved.inspect_err(give_back),
            _ => {}
        }
        // An open file of its own: a write that fails for want of space says nothing about those of others.
        let Some(file) = open_durable(&self.view, false)? else {
            return reserved.map_err(|_| Errno::NOSPC.into());
        };
        let zeros = vec![0; CHUNK_BYTES as usize];
        let write = |at: u64| {
            let bytes = (to - at).min(CHUNK_BYTES) as usize;
            sys::write_at(&file, &zeros[..bytes], off + at)
        };
        (from..to).step_by(CHUNK_BYTES as usize).try_for_each(write).inspect_err(give_back)
    }

    fn read_log(&self, off: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.view().read_log(off, bytes)
    }

    fn flush_drive(&self) -> io::Result<()> {
        self.view_syncs.run(|| self.view().flush_drive())
    }

    fn write_log(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        let in_ring = off >= self.whole.ring_off();
        let written = if in_ring { self.write_durably(true, bytes, off) } else { None };
        written.unwrap_or_else(|| self.rewrite_log(off, bytes))
    }

    /// Through the cache, as it was read.
    fn rewrite_log(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        let write = || self.write_durably(false, bytes, off).transpose();
        if self.cached_syncs.run(write)?.is_some() {
            return Ok(());
        }
        self.view_syncs.run(|| {
            sys::write_at(self.view.file(), bytes, self.area.off + off)?;
            sys::sync_file_data(self.view.file())
        })
    }

    fn staged(&self) -> Option<&[PmU64]> {
        // Some of them are of the ring, while the log does not use all of its area.
        let bytes = self.whole.staged_bytes;
        let words = self.view.region().words(self.area.off + Layout::STAGED_OFF, bytes / 8);
        words.ok().filter(|_| self.keeps_staged)
    }

    fn write_line(&self, off: u64, line: &Line) {
        self.view().write_line(off, line);
    }

    fn read_pool(&self, off: u64, bytes: &mut [u8]) -> Result<()> {
        self.view().read_pool(off, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.view_syncs.run(|| self.view().sync_data())
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let len = self.region.len();
        if bytes <= len {
            return Ok(());
        }
        if bytes > self.region.max_bytes() {
            return Err(Error::full(bytes - len, self.region.limit()).at_path(self.path()));
        }
        let had = self.image.bytes();
        self.view.reach_image(&self.image, bytes)?;
        self.image
            .own(self.own.start.max(had), self.own.end)
            .map_err(|e| self.view.error(MAPPING, e))?;
        self.view().grow(bytes)?;
        // One page of it takes the file's new length to the disk. Also if the file was that long
        // before: no thread relied on it yet.
        let page = BLOCK_BYTES as u64;
        let first = len.max(bytes.saturating_sub(page));
        self.view_syncs
            .run(|| self.view.sync_pages(first, bytes - first))
            .map_err(|e| self.view.error("growing the pool", e))?;
        // SAFETY: the file reaches there now, so all of the image does.
        unsafe { self.region.set_len(bytes) };
        Ok(())
    }

    fn begin(&self) -> Result<()> {
        self.view.fill_holes(self.view.region().len(), self.unused.clone())?;
        dirty_again(&self.view, &self.area)
    }

    fn shows_pool(&self, off: u64, bytes: u64) -> bool {
        if self.own.contains(&off) {
            return false;
        }
        let [image, pool] = [&self.region, self.view.region()].map(|r| r.words(off, bytes / 8));
        let (Ok(image), Ok(pool)) = (image, pool) else {
            return false;
        };
        image.iter().zip(pool).all(|(word, other)| word.load() == other.load())
    }

    fn forget(&self, off: u64, bytes: u64) -> bool {
        if off < self.own.end && off + bytes > self.own.start {
            return false;
        }
        // SAFETY: the file has the same bytes there, and all that points into the image accesses it as
        // atomics.
        unsafe { self.image.forget(off, bytes) }.is_ok()
    }

    fn private_bytes_max(&self) -> u64 {
        self.private_bytes_max
    }

    fn trim(&self, bytes: u64) -> Result<()> {
        if bytes < self.region.len() {
            // Late readers see zeros there.
            self.image.detach(bytes).map_err(|e| self.view.error("cutting the pool", e))?;
        }
        self.view().trim(bytes)
    }

    fn file_id(&self) -> FileId {
        self.view.file_id()
    }

    fn device(&self) -> u64 {
        self.device
    }

    fn file_bytes(&self) -> u64 {
        self.view.file_bytes()
    }

    fn path(&self) -> Option<&Path> {
        self.view.path()
    }
}

impl Logged<FileDisk> {
    /// The pool in a file that has a log. Nothing is written before [`begin`](Storage::begin). Where more
    /// bytes of it are memory of this process than is given, half of the machine's if nothing is, pages
    /// are given back.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) where it has none, or for a mode without a log;
    /// [`Corrupt`](ErrorKind::Corrupt) where the log is damaged; [`Io`](ErrorKind::Io) with what the
    /// system says.
    pub fn over_file(
        mut file: Mapped,
        mode: SyncMode,
        private_bytes_max: Option<u64>,
    ) -> Result<Self> {
        let strict = mode.is_strict()?;
        let old = match file.take_log() {
            Some(old) if old.is_there(file.region())? => Some(old),
            // It was made just now.
            _ => OldLog::look(&mut file)?,
        };
        let Some(old) = old else {
            let what = "the pool has no log";
            return Err(Error::from(ErrorKind::Options { what }).at_path(file.path()));
        };
        let private_bytes_max = private_bytes_max.unwrap_or_else(|| sys::memory_bytes() / 2);
        let disk = FileDisk::new(file, &old, !strict, private_bytes_max)?;
        let mut logged = Logged::over(disk, old.found, strict)?;
        logged.background = Some(background::start(&logged.log, mode));
        Ok(logged)
    }
}
