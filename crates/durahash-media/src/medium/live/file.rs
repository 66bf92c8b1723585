//! A pool's file, and the file of its live image beside it.
//!
//! The ring, the heads and the pages of the base are written past the page cache, each write of the ring and of a head
//! durable when it returns. What was stored through a mapping before, or when the pool was made, is synced when the pool begins, as are
//! the pages that batches have changed, behind a loss of power; nothing is stored so from then on. So no page that is written past
//! the cache is dirty in it: but a write that has an end which is no whole block goes through the cache, and the sync that follows
//! has it before the next one. Where the file system has no such writes, all go through the cache.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::MapFlags;

use super::Live;
use super::background;
use super::disk::{LiveDisk, LiveSource, clear_marks};
use super::head::{FileName, GENERATION_MAX, LIVE_WORDS};
use super::layout::{HEADER_BYTES, Layout};
use super::place::LivePlace;
use crate::error::{Error, ErrorKind, Limit, Result};
use crate::identity::{self, FileId};
use crate::medium::logged::area::{
    LogArea, OPENING, OldLog, PoolView, is_copy, log_as_ring, open_same, pool_bytes,
};
use crate::medium::logged::file::{Syncs, dirty_again};
use crate::medium::logged::format::{BLOCK_BYTES, Line};
use crate::medium::logged::{Disk, SyncMode};
use crate::medium::mapped::{MAPPING, Mapped, Mapping};
use crate::medium::room::round_up;
use crate::medium::{Changes, LINE_BYTES, Memory, Region, Storage, prefetch_line, sys};
use crate::word::PmU64;

/// A pool that is closed keeps its live file only if it is longer: a shorter one is copied in ten milliseconds.
const COPIED_BYTES: u64 = 16 << 20;
const MAKING: &str = "making the live image of the pool";
const GROWING: &str = "growing the live image of the pool";

/// How the pool's file is written past the page cache.
enum Way {
    /// It is not.
    None,
    /// By a file that stays open.
    Kept(File),
    /// By one that is opened for each write, as nobody waits for that.
    Anew,
}

type Opener = fn(&Path) -> io::Result<File>;

impl Way {
    fn new(view: &Mapped, keeps: bool, open: Opener) -> Result<Way> {
        let opened = open_same(view, open).map_err(|e| view.error(OPENING, e))?;
        Ok(match opened {
            // A process of many pools has one open file for each, and that of its live image.
            Some(_) if !keeps && open(&sys::link_to(view.file())).is_ok() => Way::Anew,
            opened => opened.map_or(Way::None, Way::Kept),
        })
    }

    fn write(&self, view: &Mapped, open: Opener, bytes: &[u8], off: u64) -> Option<io::Result<()>> {
        let block = BLOCK_BYTES as u64;
        if !off.is_multiple_of(block) || !(bytes.len() as u64).is_multiple_of(block) {
            return None;
        }
        match self {
            Way::None => None,
            Way::Kept(file) => Some(sys::write_at(file, bytes, off)),
            Way::Anew => {
                let file = open(&sys::link_to(view.file())).ok()?;
                Some(sys::write_at(&file, bytes, off))
            }
        }
    }
}

fn open_durable(path: &Path) -> io::Result<File> {
    sys::open_durable(path, true)
}

/// A live file that is in use.
struct LiveFile {
    file: File,
    /// Header and marks.
    marks: Mapping,
}

/// A pool's file with a live image.
pub struct LiveFiles {
    /// The image; the mapping under it goes after it.
    region: Region,
    image: Mapping,
    live: OnceLock<LiveFile>,
    /// The mark of the first line.
    marks: AtomicPtr<AtomicU8>,
    /// So many lines have no marks, and this one is the first behind them.
    gap_lines: u64,
    gap_end: u64,
    /// Behind the pool's end the live file has space and zeros up to there.
    cleared_to: AtomicU64,
    place: LivePlace,
    area: LogArea,
    unused: Range<u64>,
    writes_zeros: bool,
    /// True once the pool is closed.
    is_cut: AtomicBool,
    /// For the ring and heads, durable when a write returns; and for pages of the base.
    durable: Way,
    direct: Way,
    syncs: Syncs,
    device: u64,
    view: Mapped,
}

impl LiveFiles {
    fn new(mut view: Mapped, old: &OldLog, strict: bool, dir: Option<&Path>) -> Result<Self> {
        let (len, most) = (view.region().len(), view.region().max_bytes());
        let image = if old.is_private() { view.take_image()? } else { view.map_image()? };
        // SAFETY: the mapping is aligned, readable and writable as far as the file reaches, and
        // lives as long as `self`; the file is locked, and is never cut under it (see `trim`).
        let region = unsafe { Region::new(image.base(), len, most) };
        let metadata = sys::metadata(view.file()).map_err(|e| view.error(OPENING, e))?;
        let place = LivePlace::new(&view, old.area, dir)?;
        let gap = place.layout.gap();
        Ok(LiveFiles {
            region,
            image,
            live: OnceLock::new(),
            marks: AtomicPtr::new(null_mut()),
            gap_lines: (gap.end - gap.start) / LINE_BYTES,
            gap_end: gap.end / LINE_BYTES,
            cleared_to: AtomicU64::new(0),
            place,
            area: old.area,
            unused: old.unused(),
            writes_zeros: strict,
            is_cut: AtomicBool::new(false),
            durable: Way::new(&view, strict, open_durable)?,
            direct: Way::new(&view, strict, sys::open_direct_write)?,
            syncs: Syncs::default(),
            device: metadata.dev(),
            view,
        })
    }

    fn live(&self) -> &LiveFile {
        self.live.get().expect("the pool has begun")
    }

    fn layout(&self) -> &Layout {
        &self.place.layout
    }

    /// A failure on the live file.
    fn error(&self, doing: &'static str, e: io::Error) -> Error {
        self.place.error(doing, e)
    }

    fn no_space(&self, e: io::Error, wanted_bytes: u64, doing: &'static str) -> Error {
        let limit = if [Errno::NOSPC, Errno::DQUOT].into_iter().any(|errno| sys::is(&e, errno)) {
            Limit::Disk
        } else if sys::is(&e, Errno::FBIG) {
            Limit::FileSize
        } else {
            return self.error(doing, e);
        };
        Error::full(wanted_bytes, limit).at_path(self.place.path.as_path())
    }

    /// Takes space for bytes of the live file, of a pool that is to have `wanted_bytes` more.
    fn allocate(
        &self,
        file: &File,
        bytes: Range<u64>,
        wanted_bytes: u64,
        doing: &'static str,
    ) -> Result<()> {
        if bytes.end > sys::file_size_limit() {
            return Err(
                Error::full(wanted_bytes, Limit::FileSize).at_path(self.place.path.as_path())
            );
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let taken = sys::allocate(file, bytes.start, bytes.end - bytes.start);
        taken.map_err(|e| self.no_space(e, wanted_bytes, doing))
    }

    /// Copies the pool's file, which is whole, to the live file, but for holes, zeros and the log's area.
    fn copy_to(&self, file: &File, watch: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        const CHUNK_BYTES: u64 = 1 << 20;
        let (len, area) = (self.region.len(), self.area.off..self.area.off + self.area.bytes);
        let mut bytes = vec![0; CHUNK_BYTES as usize];
        let mut off = 0;
        let read_error = |e| self.view.error("reading the pool", e);
        while let Some(from) = sys::data_from(self.view.file(), off).map_err(read_error)?
            && from < len
        {
            off = from;
            if area.contains(&off) {
                off = area.end;
                continue;
            }
            let stop = if off < area.start { area.start.min(len) } else { len };
            let stop = stop.min(off + CHUNK_BYTES);
            let Some((_, Some(at), count)) = self.layout().image(off..stop).next() else {
                unreachable!("all but the area has a place");
            };
            let bytes = &mut bytes[..count as usize];
            let read = sys::read_at(self.view.file(), bytes, off);
            read.map_err(read_error)?;
            watch(off, bytes);
            if bytes.iter().any(|byte| *byte != 0) {
                sys::write_at(file, bytes, at).map_err(|e| self.error(MAKING, e))?;
            }
            off += count;
        }
        Ok(())
    }

    /// Lets image, marks and header be those of `file`; its name.
    fn show(&self, file: File) -> Result<FileName> {
        let failed = |e| self.error(MAPPING, e);
        let name = FileName::of(&file).map_err(failed)?;
        let (end, marks_end) = self.layout().stretch_end(self.region.len());
        let most = self.layout().stretch_end(self.region.max_bytes()).1;
        let marks = Mapping::of_parts(marks_end, marks_end, most, &self.layout().map_marks(&file))
            .map_err(failed)?;
        // SAFETY: nothing was lent from behind the region's end. All that points into the image accesses it as atomics, and the
        // file shows the same bytes.
        unsafe {
            self.image.shorten(end);
            // The live file has no holes.
            self.image.set_huge_from(0);
            let map = self.layout().map_image(&file, MapFlags::SHARED);
            self.image.replace_by_parts(self.image.bytes(), &map)
        }
        .map_err(failed)?;
        let first = marks.base().as_ptr().wrapping_add(HEADER_BYTES as usize);
        self.marks.store(first.cast(), Ordering::Release);
        if self.live.set(LiveFile { file, marks }).is_err() {
            unreachable!("the pool begins once");
        }
        // SAFETY: the image is another mapping, and nobody else has `view`.
        unsafe { self.view.unmap() };
        if let Some(changes) = self.changes() {
            let FileName([device, inode, made]) = name;
            changes.name([device, inode, made, self.area.off, self.area.bytes]);
        }
        Ok(name)
    }

    /// Cuts the live file to so many bytes, if it has more.
    fn cut_live(&self, live: &LiveFile, bytes: u64) -> Result<()> {
        let cut = || {
            if sys::metadata(&live.file)?.len() > bytes {
                sys::truncate(&live.file, bytes)?;
            }
            Ok(())
        };
        cut().map_err(|e| self.error("cutting the live image", e))
    }

    /// Makes what the live file has from `from` on zeros, and cuts them off unless readers in other processes may have them mapped;
    /// where it ends then.
    fn clear_live(&self, live: &LiveFile, from: u64) -> Result<u64> {
        let failed = |e| self.error(GROWING, e);
        let len = || Ok(sys::metadata(&live.file).map_err(failed)?.len().max(from));
        let had = len()?;
        if had > from.max(self.cleared_to.load(Ordering::Relaxed)) {
            self.cleared_to.store(0, Ordering::Relaxed);
            sys::punch(&live.file, from, had - from).map_err(failed)?;
            // Those of this writer have the lock by which it would know.
            if self.changes().is_none() {
                self.view.unless_read(|| self.cut_live(live, from))?;
            }
        }
        len()
    }

    /// Where the mark of a line lies that may be stored to.
    #[inline(always)]
    fn mark_of(&self, line: u64) -> *mut AtomicU8 {
        let line = line - if line < self.gap_end { 0 } else { self.gap_lines };
        self.marks.load(Ordering::Relaxed).wrapping_add(line as usize)
    }

    /// The mark of such a line, as far as the marks are mapped.
    #[inline(always)]
    fn mark_at(&self, line: u64) -> &AtomicU8 {
        debug_assert!(!(self.gap_end - self.gap_lines..self.gap_end).contains(&line));
        // SAFETY: the marks are mapped as far as the image is, before the region reaches there, and live as long as `self`.
        unsafe { &*self.mark_of(line) }
    }

    /// A new file with the owner and the permissions of the pool.
    fn create(&self, path: &Path) -> io::Result<File> {
        let file = sys::create(path, 0o600)?;
        self.share(&file)?;
        Ok(file)
    }

    /// Gives `file` the owner and the permissions of the pool.
    fn share(&self, file: &File) -> io::Result<()> {
        let (pool, own) = (sys::metadata(self.view.file())?, sys::metadata(file)?);
        // Where that is not allowed, others who may open the pool do not trust it.
        if own.uid() != pool.uid() {
            let _ = sys::change_owner(file, Some(pool.uid()), None);
        }
        if own.gid() != pool.gid() {
            let _ = sys::change_owner(file, None, Some(pool.gid()));
        }
        let is_groups = sys::metadata(file)?.gid() == pool.gid();
        let mode = if is_groups { 0o666 } else { 0o600 };
        sys::change_mode(file, pool.permissions().mode() & mode)
    }

    /// Through the cache, durably.
    fn write_cached(&self, bytes: &[u8], off: u64) -> io::Result<()> {
        self.syncs.run(|| {
            sys::write_at(self.view.file(), bytes, off)?;
            sys::sync_file_data(self.view.file())
        })
    }
}

impl Drop for LiveFiles {
    fn drop(&mut self) {
        // Of a pool whose making has failed.
        if self.view.is_new() && self.live.get().is_some() {
            let _ = sys::unlink(&self.place.path);
        }
    }
}

impl Disk for LiveFiles {
    fn region(&self) -> &Region {
        &self.region
    }

    fn log_bytes(&self) -> u64 {
        self.area.bytes
    }

    fn fill_log(&self, from: u64, to: u64) -> io::Result<()> {
        let off = self.area.off;
        let zeroed = sys::zero(self.view.file(), off + from, to - from);
        match &zeroed {
            // The first write to what is only reserved takes twice as long, and in `Strict` is waited for.
            Ok(()) if !self.writes_zeros => return Ok(()),
            Err(e) if !sys::is(e, Errno::OPNOTSUPP) => {
                // The pool may need the space. If it is not given back, the next try finds it.
                let _ = sys::punch(self.view.file(), off + from, to - from);
                return zeroed;
            }
            _ => {}
        }
        let mut buffer = Vec::new();
        let zeros = crate::medium::logged::disk::aligned(&mut buffer, 1 << 20);
        (from..to).step_by(zeros.len()).try_for_each(|at| {
            self.write_pages(off + at, &zeros[..((to - at) as usize).min(zeros.len())])
        })
    }

    fn read_log(&self, off: u64, bytes: &mut [u8]) -> io::Result<()> {
        sys::read_at(self.view.file(), bytes, self.area.off + off)
    }

    fn written_in(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        self.area.written_in(self.view.file(), bytes)
    }

    fn will_read_log(&self, off: u64) {
        sys::will_read(self.view.file(), self.area.off + off, BLOCK_BYTES as u64);
    }

    /// A sync of data flushes the drive, even without data.
    fn flush_drive(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn write_log(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        let off = self.area.off + off;
        if self.view.is_new() {
            self.write_pages(off, bytes)?;
            return self.sync_data();
        }
        let written = self.durable.write(&self.view, open_durable, bytes, off);
        written.unwrap_or_else(|| self.write_cached(bytes, off))
    }

    fn staged(&self) -> Option<&[PmU64]> {
        None
    }

    fn write_line(&self, _off: u64, _line: &Line) {
        unreachable!("the base is written by pages");
    }

    fn read_pool(&self, off: u64, bytes: &mut [u8]) -> Result<()> {
        sys::read_at(self.view.file(), bytes, off)
            .map_err(|e| self.view.error("reading the pool", e))
    }

    /// Of a file that has no name yet, nothing: the sync for the name has all that was written before it was asked for.
    fn sync_data(&self) -> io::Result<()> {
        if self.view.is_new() {
            return Ok(());
        }
        self.syncs.run(|| sys::sync_file_data(self.view.file()))
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let len = self.region.len();
        if bytes <= len {
            return Ok(());
        }
        let most = self.region.max_bytes();
        let full = |limit| Error::full(bytes - len, limit).at_path(self.path());
        if bytes > most {
            return Err(full(self.region.limit()));
        }
        let (live, layout) = (self.live(), self.layout());
        // What a close that was killed has left behind the end is other bytes in each of the files.
        let from = layout.file_bytes(len);
        let had_live = self.clear_live(live, from)?;
        let had = self.view.lengthen(len, bytes)?;
        // One open file tells once of pages that were not written: this sync must not take that from a checkpoint's.
        if !self.view.is_new() {
            let synced = self.syncs.run(|| sys::sync_file(self.view.file()));
            synced.map_err(|e| self.view.error("growing the pool", e))?;
        }
        let cleared = self.cleared_to.load(Ordering::Relaxed);
        let end = layout.file_bytes(bytes).max(had_live);
        let added = from.max(cleared)..end;
        let lengthened = self.allocate(&live.file, added, bytes - len, GROWING).and_then(|()| {
            let image = layout.map_image(&live.file, MapFlags::SHARED);
            let (image_end, marks_end) = layout.stretch_end(bytes);
            let marks = layout.map_marks(&live.file);
            let marks = live.marks.lengthen_by_parts(marks_end, marks_end, &marks);
            let image_end = image_end.min(most);
            let fits = marks
                .and_then(
                    |fits| Ok(fits && self.image.lengthen_by_parts(bytes, image_end, &image)?),
                )
                .map_err(|e| self.error(MAPPING, e))?;
            if fits { Ok(()) } else { Err(full(Limit::Addresses)) }
        });
        if let Err(e) = lengthened {
            // Space that is not given back is taken over by the next growth.
            let _ = self.cut_live(live, had_live);
            self.view.cut_back(had);
            return Err(e);
        }
        clear_marks(len..bytes, |line| self.mark_at(line));
        self.cleared_to.store(end, Ordering::Relaxed);
        // SAFETY: both files reach there now, and the mappings do.
        unsafe { self.region.set_len(bytes) };
        Ok(())
    }

    fn begin(&self) -> Result<()> {
        // The file may be far longer than the pool.
        let len = self.region.len();
        self.view.fill_holes(len, self.unused.clone())?;
        dirty_again(&self.view, &self.area)?;
        let end = self.area.off + self.area.bytes;
        let synced = self.syncs.run(|| {
            if self.view.is_new() {
                return sys::write_back(self.view.file());
            }
            self.view.sync_pages(0, self.area.off)?;
            self.view.sync_pages(end, len.saturating_sub(end))?;
            // Also the area's heads.
            sys::sync_file_data(self.view.file())
        });
        synced.map_err(|e| self.view.error("syncing the pool", e))
    }

    fn trim(&self, bytes: u64) -> Result<()> {
        self.is_cut.store(true, Ordering::SeqCst);
        if let Some(changes) = self.changes() {
            changes.count_for(0);
        }
        if bytes < self.region.len() {
            // Late readers see zeros there.
            self.image.detach(bytes).map_err(|e| self.error("cutting the live image", e))?;
        }
        self.view.trim(bytes)?;
        if bytes.saturating_sub(self.area.bytes) <= COPIED_BYTES {
            // If it stays, the next open uses it.
            let _ = sys::unlink(&self.place.path);
            return Ok(());
        }
        self.view.unless_read(|| self.cut_live(self.live(), self.layout().file_bytes(bytes)))
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

impl LiveSource for LiveFiles {
    fn pool_name(&self) -> FileName {
        self.place.pool_name
    }

    fn boot(&self) -> [u64; 2] {
        identity::boot_id()
    }

    fn mount(&self) -> u64 {
        self.live.get().map_or_else(|| self.place.mount(), |live| sys::mount_of(&live.file))
    }

    fn find_live(&self) -> io::Result<Option<([u64; LIVE_WORDS], FileName)>> {
        self.place.find(true)
    }

    fn check_live(&self) -> io::Result<()> {
        match self.live.get() {
            Some(live) => sys::write_back_error(&live.file),
            None => self.place.check(),
        }
    }

    fn adopt_live(&self) -> Result<()> {
        let file = self.place.take(self.region.len())?;
        // Those of the pool may have changed. Only the owner can follow; for others they stay.
        let _ = self.share(&file);
        self.show(file).map(drop)
    }

    fn read_spill(&self, batch: u64) -> io::Result<Vec<u8>> {
        self.place.read_spill(batch)
    }
}

impl LiveDisk for LiveFiles {
    fn shown(&mut self) -> Result<()> {
        self.region.end_at(*self.place.image_bytes.get_mut());
        self.region.end_at(pool_bytes(&self.region)?);
        Ok(())
    }

    fn make_live(&self, watch: &mut dyn FnMut(u64, &[u8])) -> Result<FileName> {
        // What is there is of another boot, or not to be trusted.
        self.place.refuse();
        match sys::unlink(&self.place.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(self.error(MAKING, e)),
            _ => {}
        }
        let mut make = || {
            let failed = |e| self.error(MAKING, e);
            let file = self.create(&self.place.path).map_err(failed)?;
            if !sys::keeps_mappings(&file) || !sys::keeps_mappings(self.view.file()) {
                let what = "a pool with a live image must lie on ext4, XFS or tmpfs, and so must the live \
                            image (live_dir); do without it (live_image(false))";
                return Err(
                    Error::from(ErrorKind::Options { what }).at_path(self.place.path.as_path())
                );
            }
            let bytes = self.layout().file_bytes(self.region.len());
            self.allocate(&file, 0..bytes, bytes, MAKING)?;
            self.copy_to(&file, watch)?;
            self.show(file)
        };
        make().inspect_err(|_| {
            // The next open would not trust it.
            let _ = sys::unlink(&self.place.path);
        })
    }

    fn abandon_live(&self) {
        let Some(live) = self.live.get().filter(|_| !self.is_cut.load(Ordering::SeqCst)) else {
            return;
        };
        if let Some(changes) = self.changes() {
            changes.count_for(0);
        }
        let replace = |sharing| {
            let map = self.layout().map_image(&live.file, sharing);
            // SAFETY: all that points into the image accesses it as atomics, and the file shows the same bytes.
            unsafe { self.image.replace_by_parts(round_up(self.region.len()), &map) }
        };
        // Where it may not have the memory: all of it as before, and failed operations go on to change the live file. Where
        // not even that can be had, the process must not go on with half of each; a kill is what the file is made for.
        if replace(MapFlags::PRIVATE | MapFlags::NORESERVE).is_err()
            && replace(MapFlags::SHARED).is_err()
        {
            std::process::abort();
        }
    }

    #[inline(always)]
    fn changes(&self) -> Option<&Changes> {
        self.view.changes()
    }

    fn header(&self) -> &[PmU64] {
        let base = self.live().marks.base().cast::<PmU64>();
        // SAFETY: the first page of the mapping, which lives as long as `self`; accessed as atomics only.
        unsafe { std::slice::from_raw_parts(base.as_ptr(), LIVE_WORDS) }
    }

    #[inline(always)]
    fn mark(&self, line: u64) -> &AtomicU8 {
        debug_assert!(line < self.region.len().div_ceil(LINE_BYTES));
        self.mark_at(line)
    }

    fn marks(&self, lines: Range<u64>) -> &[AtomicU8] {
        debug_assert!(lines.end <= self.region.len().div_ceil(LINE_BYTES));
        if lines.is_empty() {
            return &[];
        }
        // SAFETY: as that of the first, they are mapped, one behind the other.
        unsafe {
            std::slice::from_raw_parts(
                self.mark_at(lines.start),
                (lines.end - lines.start) as usize,
            )
        }
    }

    #[inline(always)]
    fn prefetch_mark(&self, line: u64) {
        prefetch_line(self.mark_of(line).cast());
    }

    fn unused(&self) -> Range<u64> {
        self.area.off..self.area.off + self.area.bytes
    }

    /// By the file, as a page that its disk cannot read ends no process then.
    fn read_image(&self, off: u64, bytes: &mut [u8]) -> Result<()> {
        let live = &self.live().file;
        let mut pieces = self.layout().image(off..off + bytes.len() as u64);
        let read = pieces.try_for_each(|(done, at, len)| {
            let bytes = &mut bytes[done as usize..(done + len) as usize];
            match at {
                Some(at) => sys::read_at(live, bytes, at),
                None => {
                    bytes.fill(0);
                    Ok(())
                }
            }
        });
        read.map_err(|e| self.error("reading the live image of the pool", e))
    }

    fn write_pages(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        let written = self.direct.write(&self.view, sys::open_direct_write, bytes, off);
        written.unwrap_or_else(|| sys::write_at(self.view.file(), bytes, off))
    }

    fn write_pages_lazily(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        sys::write_at(self.view.file(), bytes, off)
    }

    fn write_log_soon(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_pages(self.area.off + off, bytes)
    }

    fn will_read(&self, off: u64) {
        sys::will_read(self.view.file(), off, BLOCK_BYTES as u64);
    }

    fn write_spill(&self, batch: u64, bytes: &[u8]) -> io::Result<()> {
        let (path, new) = (
            self.place.spill_path(batch),
            self.place.pool_dir.join(self.file_id().live_name() + ".spill"),
        );
        // One that another process began.
        let _ = sys::unlink(&new);
        let file = self.create(&new)?;
        sys::write_at(&file, bytes, 0)?;
        sys::sync_file(&file)?;
        // At once: the name never leads to nothing once a part of the ring says it.
        sys::rename(&new, &path)?;
        sys::sync_dir(&self.place.pool_dir)
    }

    fn remove_spill(&self, batch: u64) {
        let _ = sys::unlink(&self.place.spill_path(batch));
    }
}

impl Live<LiveFiles> {
    /// The pool in a file that has a log, with its live image in `dir`, or beside it. Nothing is written before
    /// [`begin`](Storage::begin), but for a log of lines that was not closed, which is brought into the pool.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) where it has no log, or for a mode without one;
    /// [`NoLiveImage`](ErrorKind::NoLiveImage) where that is missing after a kill, unless the caller accepts it;
    /// [`Corrupt`](ErrorKind::Corrupt) where the log is damaged; [`Io`](ErrorKind::Io) with what the system says.
    pub fn over_file(
        mut file: Mapped,
        mode: SyncMode,
        dir: Option<&Path>,
        accept_suspect: bool,
    ) -> Result<Self> {
        let strict = mode.is_strict()?;
        let mut old = match file.take_log() {
            Some(old) if old.is_there(file.region())? => Some(old),
            // It was made just now.
            _ => OldLog::look(&mut file)?,
        };
        if old.as_ref().is_some_and(|old| old.ring.is_none() && old.is_private()) {
            file.return_log(old.take());
            file.begin()?;
            old = OldLog::look(&mut file)?;
        }
        let Some(old) = old else {
            let what = "the pool has no log";
            return Err(Error::from(ErrorKind::Options { what }).at_path(file.path()));
        };
        let lines = old.found.head();
        if old.ring.is_none() && lines.generation >= GENERATION_MAX {
            let what = "the pool's log is too old for a live image: compact the pool";
            return Err(Error::from(ErrorKind::Options { what }).at_path(file.path()));
        }
        let head = old.ring.unwrap_or_else(|| log_as_ring(&lines));
        let is_open_copy = old.is_copied(file.file_id());
        let is_copy = is_copy(file.region(), file.file_id())? || is_open_copy;
        let disk = LiveFiles::new(file, &old, strict, dir)?;
        let live = Live::over(disk, head, strict, accept_suspect);
        let mut live = live.map_err(|e| match e.kind() {
            ErrorKind::NoLiveImage { .. } if is_copy => ErrorKind::Copied.into(),
            _ => e,
        })?;
        // In another boot there is no live image that would tell.
        if is_open_copy && !accept_suspect {
            return Err(Error::from(ErrorKind::Copied).at_path(live.path()));
        }
        live.is_copy = is_open_copy;
        live.background = Some(background::start(&live.core, mode));
        Ok(live)
    }
}
