//! Where the live file and the spill files of a pool's file lie, and what a reader sees of them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use rustix::io::Errno;
use rustix::mm::MapFlags;

use super::beside::{Writer, copy_beside};
use super::disk::LiveSource;
use super::head::{FileName, LIVE_WORDS};
use super::layout::{HEADER_BYTES, Layout};
use super::open;
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{self, FileId};
use crate::medium::logged::area::{LogArea, OPENING, PoolView, SUPERBLOCK_BYTES, View};
use crate::medium::mapped::{MAPPING, Mapped, real_dir};
use crate::medium::{Blank, CHECKS_OFF, LINE_BYTES, Memory, Storage, sys};
use crate::primitive::lock;
use crate::word::PmU64;

/// The files beside a pool's file, by their names.
pub(super) struct LivePlace {
    /// The live file.
    pub(super) path: PathBuf,
    /// Where the pool's file lies.
    pub(super) pool_dir: PathBuf,
    pub(super) pool_name: FileName,
    pub(super) layout: Layout,
    file_id: FileId,
    /// The live file that was found, until it is adopted.
    found: Mutex<Option<File>>,
    /// Bytes of the image in the file that was adopted.
    pub(super) image_bytes: AtomicU64,
}

impl LivePlace {
    /// That of `view`, which has a log with this area, and whose live file is in `dir`, or beside it.
    pub(super) fn new(view: &Mapped, area: LogArea, dir: Option<&Path>) -> Result<Self> {
        let failed = |e| view.error(OPENING, e);
        // Where it is now: the process may change its directory, and a link lead elsewhere.
        let pool_dir = real_dir(view.path().unwrap_or(Path::new(""))).map_err(failed)?;
        let live_dir = match dir {
            Some(dir) => std::path::absolute(dir).map_err(failed)?,
            None => pool_dir.clone(),
        };
        Ok(LivePlace {
            path: live_dir.join(view.file_id().live_name()),
            pool_dir,
            pool_name: FileName::of(view.file()).map_err(failed)?,
            layout: Layout::new(area.off..area.off + area.bytes),
            file_id: view.file_id(),
            found: Mutex::new(None),
            image_bytes: AtomicU64::new(u64::MAX),
        })
    }

    fn found(&self) -> MutexGuard<'_, Option<File>> {
        lock(&self.found)
    }

    pub(super) fn mount(&self) -> u64 {
        self.found().as_ref().map_or(0, sys::mount_of)
    }

    /// As [`LiveSource::find_live`].
    pub(super) fn find(&self, to_write: bool) -> io::Result<Option<([u64; LIVE_WORDS], FileName)>> {
        let file = match sys::open_no_link(&self.path, to_write) {
            Ok(file) => file,
            // A link in its place is not it.
            Err(e) if e.kind() == io::ErrorKind::NotFound || sys::is(&e, Errno::LOOP) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let metadata = sys::metadata(&file)?;
        if !metadata.is_file() || metadata.len() < HEADER_BYTES {
            return Ok(None);
        }
        let mut bytes = [0; LIVE_WORDS * 8];
        sys::read_at(&file, &mut bytes, 0)?;
        let words = std::array::from_fn(|i| u64::from_le_bytes(bytes.as_chunks().0[i]));
        let name = FileName::of(&file)?;
        *self.found() = Some(file);
        Ok(Some((words, name)))
    }

    pub(super) fn check(&self) -> io::Result<()> {
        self.found().as_ref().map_or(Ok(()), sys::write_back_error)
    }

    /// The file that was found, if there is one, is not to be used.
    pub(super) fn refuse(&self) {
        *self.found() = None;
    }

    /// The file that was found, whose image is taken for that of a pool of so many bytes: that may be longer, if a growth was
    /// interrupted.
    pub(super) fn take(&self, pool_bytes: u64) -> Result<File> {
        let Some(file) = self.found().take() else {
            unreachable!("a live file was found");
        };
        let len = sys::metadata(&file).map_err(|e| self.error(OPENING, e))?.len();
        let (mut low, mut high) = (0, pool_bytes / LINE_BYTES);
        while low < high {
            let middle = (low + high).div_ceil(2);
            let fits = self.layout.file_bytes(middle * LINE_BYTES) <= len;
            if fits { low = middle } else { high = middle - 1 }
        }
        let is_whole = self.layout.file_bytes(pool_bytes) <= len;
        let image_bytes = if is_whole { pool_bytes } else { low * LINE_BYTES };
        self.image_bytes.store(image_bytes, Ordering::Relaxed);
        Ok(file)
    }

    /// A failure on the live file.
    pub(super) fn error(&self, doing: &'static str, e: io::Error) -> Error {
        Error::io(doing, Some(self.path.clone()), e)
    }

    pub(super) fn spill_path(&self, batch: u64) -> PathBuf {
        self.pool_dir.join(format!("durahash-{:016x}-{batch}.spill", self.file_id.0))
    }

    pub(super) fn read_spill(&self, batch: u64) -> io::Result<Vec<u8>> {
        let file = sys::open(&self.spill_path(batch), false)?;
        let mut bytes = vec![0; sys::metadata(&file)?.len() as usize];
        sys::read_at(&file, &mut bytes, 0)?;
        Ok(bytes)
    }
}

impl LiveSource for View<'_, Mapped, LivePlace> {
    fn pool_name(&self) -> FileName {
        self.live.pool_name
    }

    fn boot(&self) -> [u64; 2] {
        identity::boot_id()
    }

    fn mount(&self) -> u64 {
        self.live.mount()
    }

    fn find_live(&self) -> io::Result<Option<([u64; LIVE_WORDS], FileName)>> {
        self.live.find(false)
    }

    fn check_live(&self) -> io::Result<()> {
        self.live.check()
    }

    /// In private pages. They are shown before anything is lent from the image, so only its length is left to its owner.
    fn adopt_live(&self) -> Result<()> {
        let file = self.live.take(self.view.region().len())?;
        let map = self.live.layout.map_image(&file, MapFlags::PRIVATE | MapFlags::NORESERVE);
        self.view.show_parts(&map).map_err(|e| self.live.error(MAPPING, e))?;
        // Check words are of the base (S-8).
        if self.view.region().len() >= SUPERBLOCK_BYTES {
            self.view.region().at::<PmU64>(CHECKS_OFF)?.store(0);
        }
        Ok(())
    }

    fn read_base(&self, off: u64, bytes: &mut [u8]) -> Result<()> {
        sys::read_at(self.view.file(), bytes, off)
            .map_err(|e| self.view.error("reading the pool", e))
    }

    fn read_spill(&self, batch: u64) -> io::Result<Vec<u8>> {
        self.live.read_spill(batch)
    }
}

impl Mapped {
    /// Copies the pool, which another process has open with a live image, and whose log has this area (`beside.rs`).
    pub(in crate::medium) fn copy_beside(
        &self,
        area: LogArea,
        writer: &dyn Writer,
        to: &dyn Blank,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let view = View::new(self, area).with_live(LivePlace::new(self, area, None)?);
        copy_beside(&view, area, writer, to, watch)
    }

    /// Shows a reader the pool as its last process left it in its live image, which is in `dir`, or beside it.
    ///
    /// # Errors
    /// As [`Live::over_file`](super::Live::over_file).
    pub fn show_live_image(&mut self, dir: Option<&Path>, accept_suspect: bool) -> Result<()> {
        let Some(old) = self.take_log() else { return Ok(()) };
        let Some(head) = old.ring else { return Ok(()) };
        let is_open_copy = old.is_copied(self.file_id());
        let view = View::new(self, old.area).with_live(LivePlace::new(self, old.area, dir)?);
        let found = open::look(&view, &head, accept_suspect);
        let image_bytes = view.live.image_bytes.load(Ordering::Relaxed);
        found.map_err(|e| match e.kind() {
            ErrorKind::NoLiveImage { .. } if is_open_copy => ErrorKind::Copied.into(),
            _ => e,
        })?;
        if is_open_copy && !accept_suspect {
            return Err(Error::from(ErrorKind::Copied).at_path(self.path()));
        }
        self.end_at(image_bytes)
    }
}
