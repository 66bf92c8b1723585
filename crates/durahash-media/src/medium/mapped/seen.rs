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
//! The counters ([`Changes`]) say which of the first two it is. They name the live file, by what tells it from any other, and the log's
//! area, on which its layout depends. The writer stores this before the epoch. A reader opens the live file by its path, takes it if it is
//! that one, and looks at nothing else, but for a backup (`live/beside.rs`): neither at the base and its heads nor at the ring, at marks, or
//! at the live file's header. Its pages are those that the writer stores to, so what a design says of its readers
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
//! which nothing lies in a file. So the writer stores two epochs beside the counters: `stored`, before it marks a line in an epoch for the first
//! time, and so before the first store of that epoch; and `durable`, behind S8 of a snapshot (`live/snapshot.rs`). A reader loads
//! `stored`, behind all that it has loaded, and waits until `durable` is no less. Behind that it looks whether the writer is the one that it
//! knows. `live/loom.rs` shows each of these orders, and that it is needed:
//!
//! | What it has seen | Why it is on the disk then |
//! |---|---|
//! | a store of epoch e | who stored it had stored `stored`, or found the mark of one who had: so it is e or more, as it never goes back beside a writer. All epochs up to `durable` are noted |
//! | one beside a writer that never rests | what is stored while a reader waits is not waited for |
//! | one that no drain of the writer follows | the snapshot that the writer takes 10 ms after the first store of an epoch has it |
//! | one whose snapshot fails | `WriterGone`, as above: no counted epoch, for which it looks while it waits, and behind that |
//! | one before another open, whose epochs may begin anew | the same, which who waits knows by a smaller `stored`, too |
//! | one of a writer that was killed | it need not be. Who waits looks every millisecond whether the pool is locked, and once it is not, waits no more: it sees what was left, as an open with `read_only` does. A child that this writer has forked keeps the pool locked, for readers as for the next writer |

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::file::{PoolFile, real_dir};
use super::map::{MAPPING, Mapping};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::FileId;
use crate::medium::changes::{Changes, Named};
use crate::medium::live::{EXTENTS_LINE, FileName, LIVE_WORDS, Layout, Writer};
use crate::medium::logged::area::{EXTENTS_OFF, LogArea, bytes_of};
use crate::medium::logged::{self, SUPERBLOCK_BYTES};
use crate::medium::room::FIRST_BYTES;
use crate::medium::{Line, Region, sys};

pub(super) const OPENING: &str = "opening the pool to read it";
pub(super) const LOOKING: &str = "looking for the writer of the pool";
/// Bytes of marks that are read at a time.
const MARKS_AT_ONCE: u64 = 1 << 16;

/// The live file that a reader sees in place of the pool's file.
pub(super) struct Image {
    file: File,
    path: PathBuf,
    layout: Layout,
}

impl Image {
    /// The one that the counters of `file` name, in `live_dir`, or beside it; `None` where that is the pool's own file.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) where the pool was closed just now, or opened by another process;
    /// [`Options`](ErrorKind::Options) where the live file is elsewhere.
    pub(super) fn find(
        file: &PoolFile,
        id: FileId,
        live_dir: Option<&Path>,
        changes: &Changes,
    ) -> Result<Option<Image>> {
        let [device, inode, made, off, bytes] = changes.named();
        if changes.named() == Named::default() {
            return Ok(None);
        }
        let dir = live_dir.map_or_else(|| real_dir(file.path()), std::path::absolute);
        let path = dir.map_err(|e| file.error(OPENING, e))?.join(id.live_name());
        let open = || match sys::open_no_link(&path, false) {
            Err(e) if e.kind() == io::ErrorKind::NotFound || sys::is(&e, Errno::LOOP) => Ok(None),
            opened => opened.and_then(|file| Ok(Some((FileName::of(&file)?, file)))),
        };
        let found = open().map_err(|e| Error::io(OPENING, Some(path.clone()), e))?;
        match found.filter(|(name, _)| *name == FileName([device, inode, made])) {
            Some((_, file)) => {
                let layout = Layout::new(off..off.saturating_add(bytes));
                Ok(Some(Image { file, path, layout }))
            }
            None if !changes.are_as_named() => Err(ErrorKind::Locked.into()),
            None => {
                let what = "the live image of the pool is in another directory: that is to be given here, too (live_dir)";
                Err(ErrorKind::Options { what }.into())
            }
        }
    }

    fn error(&self, e: io::Error) -> Error {
        Error::io(MAPPING, Some(self.path.clone()), e)
    }

    fn reading(&self, e: io::Error) -> Error {
        Error::io("reading the live image", Some(self.path.clone()), e)
    }

    /// Its first page, in a mapping that can be lengthened to `most` bytes.
    pub(super) fn map(&self, most: u64) -> Result<(Mapping, Region)> {
        let map = self.layout.map_seen(&self.file);
        let mapping = Mapping::of_parts(SUPERBLOCK_BYTES, FIRST_BYTES, most, &map);
        let mapping = mapping.map_err(|e| self.error(e))?;
        if !self.reaches(SUPERBLOCK_BYTES)? {
            return Err(Error::corrupt("the live image is too short", 0).at_path(&*self.path));
        }
        // SAFETY: the mapping is aligned, is to be read as far as that, and its caller keeps it as long as the region. The file is
        // not cut while the counters' file is locked, and no reader stores.
        let region = unsafe { Region::new(mapping.base(), SUPERBLOCK_BYTES, most) };
        Ok((mapping, region))
    }

    /// As [`Mapping::lengthen`].
    pub(super) fn lengthen(&self, mapping: &Mapping, bytes: u64, most: u64) -> Result<bool> {
        let map = self.layout.map_seen(&self.file);
        mapping.lengthen_by_parts(bytes, most, &map).map_err(|e| self.error(e))
    }

    /// True if the file has an image of so many bytes.
    pub(super) fn reaches(&self, bytes: u64) -> Result<bool> {
        let metadata = sys::metadata(&self.file).map_err(|e| self.error(e))?;
        Ok(metadata.len() >= self.layout.file_bytes(bytes))
    }

    /// True if a line of a pool of so many bytes has a mark: no snapshot has it yet.
    fn has_marks(&self, pool_bytes: u64) -> Result<bool> {
        let mut bytes = vec![0; MARKS_AT_ONCE as usize];
        for (_, at, len) in self.layout.all_marks(pool_bytes) {
            let Some(start) = at else { continue };
            for at in (start..start + len).step_by(MARKS_AT_ONCE as usize) {
                let marks = &mut bytes[..(start + len - at).min(MARKS_AT_ONCE) as usize];
                sys::read_at(&self.file, marks, at).map_err(|e| self.reading(e))?;
                if marks.iter().any(|mark| *mark != 0) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// The writer of a pool's file, as it was when this was made, and its live image.
pub(super) struct Beside<'a> {
    file: &'a PoolFile,
    region: &'a Region,
    image: &'a Image,
    changes: &'a Changes,
    counted: u64,
}

impl<'a> Beside<'a> {
    /// That of which a reader sees this region.
    pub(super) fn new(
        (file, region): (&'a PoolFile, &'a Region),
        image: &'a Image,
        changes: &'a Changes,
    ) -> Self {
        Beside { file, region, image, changes, counted: changes.counted() }
    }

    /// Where the log lies in the pool's file.
    pub(super) fn log_area(&self) -> Result<LogArea> {
        let [.., off, bytes] = self.changes.named();
        LogArea::at(off..off.saturating_add(bytes), self.region)
    }
}

impl Writer for Beside<'_> {
    fn is_there(&self) -> Result<()> {
        let is_open = sys::is_locked(self.file.file()).map_err(|e| self.file.error(LOOKING, e))?;
        let changes = self.changes;
        if is_open && changes.counted() == self.counted && changes.are_as_named() {
            return Ok(());
        }
        Err(ErrorKind::WriterGone.into())
    }

    fn pool_bytes(&self) -> Result<u64> {
        let bytes = logged::said_bytes(self.region)?.unwrap_or(0);
        if self.image.reaches(bytes)? {
            return Ok(bytes);
        }
        Err(Error::corrupt("the pool is longer than its live image", bytes))
    }

    fn said_bytes(&self, line: &Line) -> Result<u64> {
        let extents = line[(EXTENTS_OFF - EXTENTS_LINE) as usize / 8];
        let bytes = bytes_of(self.region, extents)?;
        bytes.ok_or_else(|| Error::corrupt("the number of extents", EXTENTS_OFF))
    }

    fn header(&self) -> Result<[u64; LIVE_WORDS]> {
        let mut bytes = [0; LIVE_WORDS * 8];
        sys::read_at(&self.image.file, &mut bytes, 0).map_err(|e| self.image.reading(e))?;
        Ok(std::array::from_fn(|i| u64::from_le_bytes(bytes.as_chunks().0[i])))
    }

    fn is_at_rest(&self, pool_bytes: u64) -> Result<bool> {
        self.image.has_marks(pool_bytes).map(|has_marks| !has_marks)
    }
}
