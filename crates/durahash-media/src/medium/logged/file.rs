//! A pool's file with a log's area in it, and the threads behind a log.
//!
//! The file is mapped twice: shared, as [`Mapped`] does, which is how the pool is written; and
//! privately, which is the image. The log is written past the page cache, each write durable when it
//! returns, where the file system can do that.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::disk::Disk;
use super::format::{AREA_BYTES_MIN, BLOCK_BYTES, Head, Layout, Line};
use super::log::{Log, Wake};
use super::{Logged, SyncMode, recover};
use crate::error::{Error, ErrorKind, Result};
use crate::medium::mapped::{Mapped, Mapping, Sharing};
use crate::medium::{LINE_BYTES, Medium, Region, sys};
use crate::word::PmU64;

/// Where a log's area is in a pool's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogArea {
    off: u64,
    bytes: u64,
    uuid: [u64; 2],
}

/// Words of the superblock: the medium is below the pool, and needs them before there is one.
const MAGIC: u64 = u64::from_le_bytes(*b"DURAHASH");
const UUID_OFF: u64 = 64;
/// Where the area's offset stands, zero if there is none, and behind it how long it is.
pub(crate) const LOG_OFF: u64 = 160;

impl LogArea {
    /// The area of the pool in `region`, if it is a pool and has one.
    pub(crate) fn find(region: &Region) -> Result<Option<LogArea>> {
        const SUPERBLOCK_BYTES: u64 = 512;
        if region.len() < SUPERBLOCK_BYTES {
            return Ok(None);
        }
        let word = |off: u64| region.at::<PmU64>(off).map(PmU64::load);
        let (off, bytes) = (word(LOG_OFF)?, word(LOG_OFF + 8)?);
        if word(0)? != MAGIC || off == 0 {
            return Ok(None);
        }
        let aligned = [off, bytes].iter().all(|v| v.is_multiple_of(BLOCK_BYTES as u64));
        let fits = off.checked_add(bytes).is_some_and(|end| end <= region.len());
        if !aligned || !fits || bytes < AREA_BYTES_MIN {
            return Err(Error::corrupt("place of the log", LOG_OFF));
        }
        Ok(Some(LogArea { off, bytes, uuid: [word(UUID_OFF)?, word(UUID_OFF + 8)?] }))
    }
}

/// Brings what the log of the pool in `view` holds into the file. `None` if it has no log.
pub(in crate::medium) fn recover_file(view: &Mapped) -> Result<Option<Head>> {
    let Some(area) = LogArea::find(view.region())? else {
        return Ok(None);
    };
    recover::recover(&View { view, area }, area.uuid).map(Some)
}

/// Brings it into the private pages of `view`, which is read-only.
pub(in crate::medium) fn replay_file(view: &Mapped) -> Result<()> {
    let region = view.region();
    let Some(area) = LogArea::find(region)? else {
        return Ok(());
    };
    let disk = View { view, area };
    recover::replay(&disk, area.uuid, &mut |off, _| recover::check_line(region.len(), off))?;
    recover::replay(&disk, area.uuid, &mut |off, line| {
        disk.write_line(off, line);
        Ok(())
    })?;
    Ok(())
}

impl Mapped {
    /// Makes `bytes` bytes from `off`, which nobody uses, an empty log of pool `uuid`.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) where that is too little for a log; [`Io`](ErrorKind::Io) with
    /// what the system says.
    pub(crate) fn format_log(&self, off: u64, bytes: u64, uuid: [u64; 2]) -> Result<(u64, u64)> {
        const CHUNK_BYTES: u64 = 1 << 20;
        let block = BLOCK_BYTES as u64;
        let (first, end) = (off.next_multiple_of(block), (off + bytes) / block * block);
        let bytes = end.saturating_sub(first);
        if bytes < AREA_BYTES_MIN {
            return Err(Error::corrupt("extents of a log that are too few for one", off));
        }
        let zeros = vec![0; CHUNK_BYTES.min(bytes) as usize];
        let mut at = first;
        // Written, not only reserved: the first write to reserved space takes twice as long.
        while at < end {
            let chunk = CHUNK_BYTES.min(end - at);
            sys::write_at(self.file(), &zeros[..chunk as usize], at)
                .map_err(|e| self.error("making the log of the pool", e))?;
            at += chunk;
        }
        let disk = View { view: self, area: LogArea { off: first, bytes, uuid } };
        recover::renew(&disk, recover::first_head(uuid))?;
        Ok((first, bytes))
    }
}

/// The disk of a file that is only recovered.
struct View<'a> {
    view: &'a Mapped,
    area: LogArea,
}

impl Disk for View<'_> {
    fn region(&self) -> &Region {
        self.view.region()
    }

    fn log_bytes(&self) -> u64 {
        self.area.bytes
    }

    fn read_log(&self, off: u64, bytes: &mut [u8]) -> io::Result<()> {
        sys::read_at(self.view.file(), bytes, self.area.off + off)
    }

    fn write_log(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        sys::write_at(self.view.file(), bytes, self.area.off + off)?;
        sys::sync_file(self.view.file())
    }

    fn sync_log(&self) -> io::Result<()> {
        sys::sync_file(self.view.file())
    }

    fn staged(&self) -> Option<&[PmU64]> {
        None
    }

    fn write_line(&self, off: u64, line: &Line) {
        let words = self.region().words(off, LINE_BYTES / 8);
        for (word, v) in words.into_iter().flatten().zip(line) {
            word.store(*v);
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        // All but the area, which would cost as much again.
        let end = self.area.off + self.area.bytes;
        self.view.sync_pages(0, self.area.off)?;
        self.view.sync_pages(end, self.region().len() - end)
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let len = self.region().len();
        if bytes <= len {
            return Ok(());
        }
        Medium::grow(self.view, bytes)?;
        // One page of it takes the file's new length to the disk.
        let page = BLOCK_BYTES as u64;
        self.view
            .sync_pages(len.max(bytes.saturating_sub(page)), page.min(bytes - len))
            .map_err(|e| self.view.error("growing the pool", e))
    }

    fn trim(&self, bytes: u64) -> Result<()> {
        Medium::trim(self.view, bytes)
    }

    fn path(&self) -> Option<&Path> {
        Some(self.view.pool_path())
    }
}

/// A pool's file behind a log.
pub struct FileDisk {
    /// The image; the mapping under it goes after it.
    region: Region,
    image: Mapping,
    /// The file for writes past the page cache, where there are such.
    direct: Option<File>,
    /// Whether staged lines lie in the file.
    keeps_staged: bool,
    area: LogArea,
    view: Mapped,
}

impl FileDisk {
    fn new(view: Mapped, area: LogArea, keeps_staged: bool) -> Result<Self> {
        let file = view.region();
        let (len, wanted) = (file.len(), file.reserved());
        let image = Mapping::new(view.file(), Sharing::Private, wanted, len)
            .map_err(|e| view.error("mapping the pool", e))?;
        let reserved = image.bytes().min(wanted);
        // SAFETY: the mapping is aligned, readable and writable as far as the file reaches, and
        // lives as long as `self`; the file is locked, and is never cut under it (see `trim`).
        let region = unsafe { Region::new(image.base(), len, reserved) };
        let direct = direct(&view).map_err(|e| view.error("opening the pool", e))?;
        Ok(FileDisk { region, image, direct, keeps_staged, area, view })
    }

    fn view(&self) -> View<'_> {
        View { view: &self.view, area: self.area }
    }
}

/// The same file, opened for direct writes; `None` where there are none.
fn direct(view: &Mapped) -> io::Result<Option<File>> {
    let Ok(file) = sys::open_direct(view.pool_path()) else {
        return Ok(None);
    };
    // The name may lead to another file by now.
    let (own, other) = (sys::metadata(view.file())?, sys::metadata(&file)?);
    let same = (own.dev(), own.ino()) == (other.dev(), other.ino());
    Ok(Some(file).filter(|_| same))
}

impl Disk for FileDisk {
    fn region(&self) -> &Region {
        &self.region
    }

    fn log_bytes(&self) -> u64 {
        self.area.bytes
    }

    fn read_log(&self, off: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.view().read_log(off, bytes)
    }

    fn write_log(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        match &self.direct {
            Some(file) => sys::write_at(file, bytes, self.area.off + off),
            None => {
                sys::write_at(self.view.file(), bytes, self.area.off + off)?;
                sys::sync_file_data(self.view.file())
            }
        }
    }

    fn sync_log(&self) -> io::Result<()> {
        self.view().sync_log()
    }

    fn staged(&self) -> Option<&[PmU64]> {
        let bytes = Layout::of(self.area.bytes).staged_bytes;
        let words = self.view.region().words(self.area.off + Layout::STAGED_OFF, bytes / 8);
        words.ok().filter(|_| self.keeps_staged)
    }

    fn write_line(&self, off: u64, line: &Line) {
        self.view().write_line(off, line);
    }

    fn sync_data(&self) -> io::Result<()> {
        self.view().sync_data()
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let len = self.region.len();
        if bytes > self.region.reserved() {
            return Err(ErrorKind::Full { wanted_bytes: bytes - len }.into());
        }
        self.view().grow(bytes)?;
        if bytes > len {
            // SAFETY: the file reaches there now, so all of the image does.
            unsafe { self.region.set_len(bytes) };
        }
        Ok(())
    }

    fn fill_holes(&self) -> Result<()> {
        Medium::fill_holes(&self.view)
    }

    fn trim(&self, bytes: u64) -> Result<()> {
        if bytes < self.region.len() {
            // What late readers still see there are zeros.
            self.image.detach(bytes).map_err(|e| self.view.error("cutting the pool", e))?;
        }
        self.view().trim(bytes)
    }

    fn path(&self) -> Option<&Path> {
        Some(self.view.pool_path())
    }
}

impl Logged<FileDisk> {
    /// The pool in a file that has a log, which is empty: it was [opened](Mapped::open) just now.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) where it has none, or for a mode without a log;
    /// [`Io`](ErrorKind::Io) with what the system says.
    pub fn over_file(file: Mapped, mode: SyncMode) -> Result<Self> {
        let strict = mode.is_strict()?;
        let none = || Error::from(ErrorKind::Options { what: "the pool has no log" });
        let area = LogArea::find(file.region())?.ok_or_else(none)?;
        let head = recover_file(&file)?.ok_or_else(none)?;
        let mut logged = Logged::over(FileDisk::new(file, area, !strict)?, head, strict)?;
        logged.keeper = Some(Keeper::start(&logged.log, mode)?);
        Ok(logged)
    }
}

/// The threads behind a log: one makes checkpoints, and in `Interval` one writes.
pub(super) struct Keeper {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// The process that has them: a fork's child has none.
    process: u32,
}

impl Keeper {
    fn start(log: &Arc<Log<FileDisk>>, mode: SyncMode) -> Result<Self> {
        let process = std::process::id();
        let stop = Arc::new(AtomicBool::new(false));
        let mut keeper = Keeper { stop, threads: Vec::new(), process };
        let checkpointer = keeper.spawn("durahash-check", log, |log| {
            if log.is_half_full() && !log.has_failed() {
                log.checkpoint();
            } else {
                std::thread::park();
            }
        })?;
        let writer = match mode {
            SyncMode::Interval(every) => Some(keeper.spawn("durahash-log", log, move |log| {
                log.commit(log.next());
                // Whoever asks for less does not mean a thread that never rests.
                std::thread::park_timeout(every.max(Duration::from_millis(1)));
            })?),
            SyncMode::Process | SyncMode::Strict => None,
        };
        let _ = log.wake.set(Wake { writer, checkpointer });
        Ok(keeper)
    }

    /// Runs `step` again and again until the end.
    fn spawn(
        &mut self,
        name: &str,
        log: &Arc<Log<FileDisk>>,
        step: impl Fn(&Log<FileDisk>) + Send + 'static,
    ) -> Result<std::thread::Thread> {
        let (log, stop) = (Arc::clone(log), Arc::clone(&self.stop));
        let run = move || {
            while !stop.load(Ordering::Acquire) {
                step(&log);
            }
        };
        match std::thread::Builder::new().name(name.into()).spawn(run) {
            Ok(handle) => {
                let thread = handle.thread().clone();
                self.threads.push(handle);
                Ok(thread)
            }
            Err(e) => {
                self.stop_all();
                Err(Error::io("starting a thread for the log", None, e))
            }
        }
    }

    pub(super) fn stop(mut self) {
        self.stop_all();
    }

    fn stop_all(&mut self) {
        self.stop.store(true, Ordering::Release);
        for handle in self.threads.drain(..) {
            handle.thread().unpark();
            if self.process == std::process::id() {
                // It panics only where a bug does; whoever drops the map cannot act on it.
                let _ = handle.join();
            }
        }
    }
}
