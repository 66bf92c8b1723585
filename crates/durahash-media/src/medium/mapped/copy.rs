//! A new file that a pool is copied into, byte by byte.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::file::{FileLock, PoolFile, map_file};
use super::map::{Mapping, Sharing};
use crate::error::{Error, Limit, Result};
use crate::identity::FileId;
use crate::medium::logged::format::BLOCK_BYTES;
use crate::medium::{Blank, Region, logged, sys};

/// Bytes that are copied at a time, and after how many the copy is synced.
const CHUNK_BYTES: u64 = 1 << 20;
const SYNC_BYTES: u64 = 64 << 20;
/// The heads of a log, at its beginning.
const HEADS_BYTES: u64 = 2 * BLOCK_BYTES as u64;

/// A copy that is being made. It has no name before it is [published](FileLock::publish), and goes away when dropped
/// before.
pub struct PoolCopy {
    /// The file once it is as long as it will be, to be stored to.
    lines: OnceLock<(Region, Mapping)>,
    file: Arc<PoolFile>,
    /// Without a name, beside it.
    kept: OnceLock<File>,
}

impl PoolCopy {
    /// A new file, for its owner alone to open.
    ///
    /// # Errors
    /// As [`Mapped::create`](crate::Mapped::create).
    pub fn create(path: &Path) -> Result<Self> {
        let file = Arc::new(PoolFile::create(path, 0o600)?);
        Ok(PoolCopy { lines: OnceLock::new(), file, kept: OnceLock::new() })
    }

    /// The file of a pool that was closed.
    pub fn into_lock(self) -> FileLock {
        FileLock(self.file)
    }

    /// The same of a pool that is a [cut](crate::CopiedAs::Cut): it says that it lies in this file, and has an empty log.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io); [`Corrupt`](crate::ErrorKind::Corrupt) where it is no pool.
    pub fn finish(self) -> Result<FileLock> {
        let (region, _) = self.mapped()?;
        logged::name_file(region, FileId::of(&self.file.metadata()?))?;
        for (off, bytes) in logged::empty_log(region)? {
            self.write(off, &bytes)?;
        }
        Ok(self.into_lock())
    }

    fn mapped(&self) -> Result<&(Region, Mapping)> {
        if self.lines.get().is_none() {
            let len = self.file.metadata()?.len();
            let (mapping, region) = map_file(&self.file, Sharing::PageCache, len, len, (false, 0))?;
            // One thread at a time makes a copy.
            let _ = self.lines.set((region, mapping));
        }
        self.lines.get().ok_or_else(|| Error::corrupt("the copy is not mapped", 0))
    }

    fn kept_file(&self) -> Result<&File> {
        if self.kept.get().is_none() {
            let _ = self.kept.set(self.file.unnamed_beside()?);
        }
        self.kept.get().ok_or_else(|| Error::corrupt("the copy has no file beside it", 0))
    }
}

impl Blank for PoolCopy {
    fn reach(&self, bytes: u64, hole: Range<u64>) -> Result<()> {
        let len = self.file.metadata()?.len();
        if bytes <= len {
            return Ok(());
        }
        let (start, end) = (hole.start.clamp(len, bytes), hole.end.clamp(len, bytes));
        self.file.extend(len, end, start)?;
        self.file.extend(end, bytes, bytes).map(drop)
    }

    fn write(&self, off: u64, bytes: &[u8]) -> Result<()> {
        let written = sys::write_at(self.file.file(), bytes, off);
        written.map_err(|e| self.file.no_space(e, bytes.len() as u64))
    }

    fn sync(&self) -> Result<()> {
        sys::sync_file_data(self.file.file()).map_err(|e| self.file.error("syncing the copy", e))
    }

    fn keep(&self, off: u64, bytes: &[u8]) -> Result<()> {
        let count = bytes.len() as u64;
        if count == 0 {
            return Ok(());
        }
        // The system answers an attempt beyond this limit with a signal that ends the process.
        if off + count > sys::file_size_limit() {
            return Err(Error::full(count, Limit::FileSize).at_path(self.file.path()));
        }
        let written = sys::write_at(self.kept_file()?, bytes, off);
        written.map_err(|e| self.file.no_space(e, count))
    }

    fn kept(&self, off: u64, bytes: &mut [u8]) -> Result<()> {
        let read = sys::read_at(self.kept_file()?, bytes, off);
        read.map_err(|e| self.file.error("reading what was kept for the copy", e))
    }

    fn store_line(&self, off: u64, words: &[u64]) -> Result<()> {
        let to = self.mapped()?.0.words(off, words.len() as u64)?;
        to.iter().zip(words).for_each(|(word, v)| word.store(*v));
        Ok(())
    }
}

/// Copies the first `len` bytes of a file that nobody writes to, but for what is behind the heads of its log.
pub(super) fn copy_file(
    file: &PoolFile,
    len: u64,
    log: Option<Range<u64>>,
    to: &dyn Blank,
    watch: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let reading = |e| file.error("reading the pool", e);
    let hole = log.map_or(len..len, |log| log.start + HEADS_BYTES..log.end);
    to.reach(len, hole.clone())?;
    let mut bytes = vec![0; CHUNK_BYTES as usize];
    let (mut off, mut unsynced) = (0, 0);
    while let Some(from) = sys::data_from(file.file(), off).map_err(reading)?
        && from < len
    {
        off = from;
        if hole.contains(&off) {
            off = hole.end;
            continue;
        }
        let end = if off < hole.start { hole.start } else { len };
        let bytes = &mut bytes[..(end - off).min(CHUNK_BYTES) as usize];
        sys::read_at(file.file(), bytes, off).map_err(reading)?;
        to.write(off, bytes)?;
        (off, unsynced) = (off + bytes.len() as u64, unsynced + bytes.len() as u64);
        if unsynced >= SYNC_BYTES {
            to.sync()?;
            unsynced = 0;
        }
        watch(off, len);
    }
    watch(len, len);
    Ok(())
}
