//! What a reader in another process maps of a pool that its writer has open.
//!
//! Where each byte is found:
//!
//! | The writer | All of the pool's bytes | Not there |
//! |---|---|---|
//! | without a log | the pool's file | |
//! | with a live image | the live file: a copy of the base as it was when the file was made, and all stores since | the log's area: zeros, which no reader looks at |
//! | with a log of lines | private pages of the writer: no reader sees them | |
//!
//! The counters ([`Readers`]) say which of the first two it is. They name the live file, by what tells it from any other, and the log's
//! area, on which its layout depends. The writer stores this before the epoch. A reader opens the live file by its path, takes it if it is
//! that one, and looks at nothing else: neither at the base and its heads nor at the ring, at marks, or at the live file's
//! header. Its pages are those that the writer stores to, so what a design says of its readers
//! (`designs/reh/onlooker.rs`) holds as it does for the pool's file.
//!
//! | What happens | What a reader sees |
//! |---|---|
//! | a snapshot, a checkpoint, a longer ring | nothing: no byte of the image moves |
//! | the pool grows | the live file is longer before the superblock says so, by which the reader follows |
//! | a growth fails | nothing: a file is cut back to what it had, never below what the superblock ever said |
//! | a close | a clean state word, and no counted epoch before any file is cut or goes. A live file that goes stays mapped; one that stays is cut only where nobody reads |
//! | the writer is killed | what it has left in the live file, which no longer changes: all that was acknowledged |
//! | another open, of any kind, as far as it knows counters | no counted epoch, before its first store: [`WriterGone`](ErrorKind::WriterGone). It may use this live file or another one, so the state word alone does not tell |
//! | the writer's disk fails | no counted epoch, before the image becomes private to the writer. Others return `WriterGone`, and then [`Locked`](ErrorKind::Locked), where those of the writer return the failure |
//! | bytes behind the end that a killed close has left | zeros, when the pool grows there once more: an old reader may be stopped before a load from there, so they are not cut off |
//!
//! *What is visible.* In `Interval` lookups of the writer's own process see stores that no snapshot has yet. Those of others see the same, and lose
//! the same to a loss of power. In `Strict` its own lookups see only what is noted, by its locks and by the epochs of deferred drains, of
//! which nothing lies in a file. So there are no readers in other processes then.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use super::file::{PoolFile, map_file, real_dir};
use super::map::{MAPPING, Mapping, Sharing};
use super::readers::Readers;
use super::{Flushes, Mapped, MappedOptions};
use crate::error::{Error, ErrorKind, Limit, Result};
use crate::identity::FileId;
use crate::medium::changes::Named;
use crate::medium::live::{FileName, Layout};
use crate::medium::logged::{self, SUPERBLOCK_BYTES};
use crate::medium::room::FIRST_BYTES;
use crate::medium::{ADDRESS_BYTES, Region, sys};

const OPENING: &str = "opening the pool to read it";

/// The live file that a reader sees in place of the pool's file.
pub(super) struct Image {
    file: File,
    path: PathBuf,
    layout: Layout,
}

impl Image {
    /// The one that the counters name; `None` where it is not at `path`.
    fn open(path: PathBuf, readers: &Readers) -> Result<Option<Image>> {
        let [device, inode, made, off, bytes] = readers.changes.named();
        let open = || match sys::open_no_link(&path, false) {
            Err(e) if e.kind() == io::ErrorKind::NotFound || sys::is(&e, Errno::LOOP) => Ok(None),
            opened => opened.and_then(|file| Ok(Some((FileName::of(&file)?, file)))),
        };
        let found = open().map_err(|e| Error::io(OPENING, Some(path.clone()), e))?;
        let found = found.filter(|(name, _)| *name == FileName([device, inode, made]));
        let layout = Layout::new(off..off.saturating_add(bytes));
        Ok(found.map(|(_, file)| Image { file, path, layout }))
    }

    fn error(&self, e: io::Error) -> Error {
        Error::io(MAPPING, Some(self.path.clone()), e)
    }

    /// Its first page, in a mapping that can be lengthened to `most` bytes.
    fn map(&self, most: u64) -> Result<(Mapping, Region)> {
        let map = self.layout.map_seen(&self.file);
        let mapping = Mapping::of_parts(SUPERBLOCK_BYTES, FIRST_BYTES, most, &map);
        let mapping = mapping.map_err(|e| self.error(e))?;
        if self.bytes()? < self.layout.file_bytes(SUPERBLOCK_BYTES) {
            return Err(Error::corrupt("the live image is too short", 0).at_path(&*self.path));
        }
        // SAFETY: the mapping is aligned, is to be read as far as that, and its caller keeps it as long as the region. The file is
        // not cut while the counters' file is locked, and no reader stores.
        let region = unsafe { Region::new(mapping.base(), SUPERBLOCK_BYTES, most) };
        Ok((mapping, region))
    }

    /// As [`Mapping::lengthen`].
    fn lengthen(&self, mapping: &Mapping, bytes: u64, most: u64) -> Result<bool> {
        let map = self.layout.map_seen(&self.file);
        mapping.lengthen_by_parts(bytes, most, &map).map_err(|e| self.error(e))
    }

    fn bytes(&self) -> Result<u64> {
        Ok(sys::metadata(&self.file).map_err(|e| self.error(e))?.len())
    }
}

impl Mapped {
    /// A pool that another process has open for writing, as it is from moment to moment; `None` where that process has not said
    /// that it may be read. Its live image, if it has one, is in `live_dir`, or beside it.
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
        let readers = readers.map_err(|e| file.error(OPENING, e))?;
        let Some(readers) = readers else { return Ok(None) };
        // Only now: from here on neither file is cut.
        let len = file.metadata()?.len();
        let most = options.max_bytes.min(ADDRESS_BYTES).max(len);
        let mut image = None;
        if readers.changes.named() != Named::default() {
            let dir = live_dir.map_or_else(|| real_dir(path), std::path::absolute);
            let dir = dir.map_err(|e| file.error(OPENING, e))?;
            image = Image::open(dir.join(file_id.live_name()), &readers)?;
            if image.is_none() {
                // The pool was closed just now, or opened by another process.
                if !readers.changes.are_as_named() {
                    return Ok(None);
                }
                let what = "the live image of the pool is in another directory: that is to be given here, too (live_dir)";
                return Err(ErrorKind::Options { what }.into());
            }
        }
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
            Some(_) => seen.follow_writer(logged::said_bytes(&seen.region)?.unwrap_or(0))?,
            None => seen.end_at(len)?,
        }
        Ok(Some(seen))
    }

    /// As [`Storage::follow`](crate::Storage::follow). One thread at a time.
    pub(super) fn follow_writer(&self, bytes: u64) -> Result<()> {
        if self.sharing != Sharing::Seen || bytes <= self.region.len() {
            return Ok(());
        }
        let full = |limit| Err(Error::full(bytes, limit).at_path(self.file.path()));
        if bytes > self.region.max_bytes() {
            return full(self.region.limit());
        }
        let reaches = match &self.image {
            Some(image) => image.bytes()? >= image.layout.file_bytes(bytes),
            None => self.file.metadata()?.len() >= bytes,
        };
        if !reaches {
            return Err(Error::corrupt("the pool is longer than its file", bytes));
        }
        match &self.image {
            None => self.reach(&self.mapping, self.sharing, bytes)?,
            Some(image) if !image.lengthen(&self.mapping, bytes, self.region.max_bytes())? => {
                return full(Limit::Addresses);
            }
            Some(_) => {}
        }
        // SAFETY: the file reaches there, is mapped so far, to be read, and no reader stores.
        unsafe { self.region.set_len(bytes) };
        Ok(())
    }
}
