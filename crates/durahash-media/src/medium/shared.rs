//! Memory that clients share: of one process, or of several that map the same file.
//!
//! Unlike a pool it has no recovery: it lives while the memory does, which in a
//! [`NodeFile`](super::NodeFile) is longer than any process. Any client may read and write any
//! byte at any time, so all access is by atomic words, and what a client finds is whatever the others
//! made of it.
//!
//! A file begins with a page whose first line identifies it, and is never written again:
//!
//! ```text
//! off  0  magic number "durareg\0"
//!      8  protocol version
//!     16  id: drawn at random, the same in all regions that belong together
//!     24  number of this region, and how many belong together
//!     40  rows of clients
//!     48  bytes of the region, which begins at offset 4096
//!     56  CRC-32 of the words before
//!     64  the rest of the page: zeros, but in the file of a node
//! ```

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;

use super::mapped::{Mapping, Sharing};
use super::{Anonymous, Region, sys};
use crate::error::{Error, ErrorKind, Limit, Result};
use crate::word::{PmU64, copy_out};

/// Bytes before the region in its file.
pub(super) const HEADER_BYTES: u64 = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"durareg\0");
/// The version of the meaning of a region's words, and those of its header.
const PROTOCOL: u64 = 1;
pub(super) const HEADER_WORDS: usize = 8;

/// The place of a region among the nodes, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedHeader {
    /// The same in all regions that belong together, and in no others.
    pub id: u64,
    /// The number of this region among those, from 0.
    pub number: u64,
    /// How many belong together.
    pub count: u64,
    /// How many clients there can be.
    pub rows: u64,
    /// Bytes of this region, a multiple of 4096.
    pub bytes: u64,
}

/// A region of shared memory, accessed by atomic words.
///
/// Offsets count from its first byte. An access of several words is not atomic as a whole: each word
/// is, and words of one access may be seen in any order.
///
/// A process that cuts the file while it is mapped ends this one (SIGBUS).
pub struct SharedRegion {
    region: Region,
    header: SharedHeader,
    /// The mapping that the region lies in.
    _memory: Box<dyn Send + Sync>,
}

impl SharedRegion {
    /// Zeroed memory of this process alone.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when the system has none; [`Options`](ErrorKind::Options) when the size
    /// is none.
    pub fn anonymous(header: SharedHeader) -> Result<Self> {
        check_bytes(header.bytes)?;
        let mapping = Anonymous::reserve(header.bytes)?;
        // SAFETY: the mapping is aligned to pages and no shorter than that; it lives in `self`.
        let region = unsafe { Region::new(mapping.base(), header.bytes, header.bytes) };
        Ok(SharedRegion { region, header, _memory: Box::new(mapping) })
    }

    /// A new file of zeros at `path`, which must be free. Its space is taken at once.
    ///
    /// # Errors
    /// As [`anonymous`](Self::anonymous); [`Exists`](ErrorKind::Exists); [`Io`](ErrorKind::Io) and
    /// [`Full`](ErrorKind::Full) when there is no space for it, and then it is not there.
    pub fn create(path: &Path, header: SharedHeader, mode: u32) -> Result<Self> {
        check_bytes(header.bytes)?;
        let failed = |e| Error::io("creating the region", Some(path.into()), e);
        let file = match sys::create(path, mode) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Error::from(ErrorKind::Exists).at_path(path));
            }
            other => other.map_err(failed)?,
        };
        let made = Self::format(&file, header, path)
            .and_then(|()| Self::map(&file, header).map_err(failed));
        if made.is_err() {
            // The first failure is what is told.
            let _ = sys::unlink(path);
        }
        made
    }

    fn format(file: &File, header: SharedHeader, path: &Path) -> Result<()> {
        let bytes = HEADER_BYTES + header.bytes;
        if bytes > sys::file_size_limit() {
            return Err(Error::full(bytes, Limit::FileSize).at_path(path));
        }
        // The header comes last: a file without one is not a region yet.
        sys::allocate(file, 0, bytes)
            .and_then(|()| sys::write_at(file, &header.to_bytes(), 0))
            .map_err(|e| match e.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    Error::full(bytes, Limit::Disk).at_path(path)
                }
                _ => Error::io("creating the region", Some(path.into()), e),
            })
    }

    /// Maps the file at `path`, which others may have mapped.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when it cannot be opened or mapped; [`Region`](ErrorKind::Region) and
    /// [`Truncated`](ErrorKind::Truncated) when it holds no region that this build knows.
    pub fn attach(path: &Path) -> Result<Self> {
        let failed = |e| Error::io("attaching the region", Some(path.into()), e);
        let file = sys::open(path, true).map_err(failed)?;
        let metadata = sys::metadata(&file).map_err(failed)?;
        if !metadata.is_file() {
            return Err(failed(std::io::Error::other("it is not a regular file")));
        }
        let found_bytes = metadata.len();
        let reaches = |expected_bytes| match found_bytes < expected_bytes {
            true => {
                Err(Error::from(ErrorKind::Truncated { found_bytes, expected_bytes }).at_path(path))
            }
            false => Ok(()),
        };
        reaches(HEADER_BYTES)?;
        let mut bytes = [0; HEADER_WORDS * 8];
        sys::read_at(&file, &mut bytes, 0).map_err(failed)?;
        let header = SharedHeader::from_bytes(&bytes).map_err(|e| e.at_path(path))?;
        reaches(HEADER_BYTES + header.bytes)?;
        Self::map(&file, header).map_err(failed)
    }

    pub(super) fn map(file: &File, header: SharedHeader) -> std::io::Result<Self> {
        let bytes = HEADER_BYTES + header.bytes;
        let mapping = Mapping::new(file, Sharing::PageCache, bytes, bytes, 0)?;
        // SAFETY: the mapping is that long, so this is inside of it.
        let base = unsafe { mapping.base().add(HEADER_BYTES as usize) };
        // SAFETY: a page after an aligned base; the file is that long, and nobody cuts it; the mapping
        // lives in `self`, and all processes access the file through this type, or read the header.
        let region = unsafe { Region::new(base, header.bytes, header.bytes) };
        Ok(SharedRegion { region, header, _memory: Box::new(mapping) })
    }

    /// Its first byte.
    pub(super) fn base(&self) -> NonNull<u8> {
        self.region.base()
    }

    /// The place of the region among the nodes.
    #[must_use]
    pub fn header(&self) -> SharedHeader {
        self.header
    }

    /// Copies the bytes from `off` on into `to`, word by word.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) when they are not in the region.
    pub fn read(&self, off: u64, to: &mut [u8]) -> Result<()> {
        let (words, _) = self.words(off, to.len())?;
        copy_out(words, (off % 8) as usize, to, PmU64::load);
        Ok(())
    }

    /// Copies `from` to the bytes from `off` on, word by word; other bytes of the first and last word
    /// stay as they are, also where other threads change them meanwhile.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) when they are not in the region.
    pub fn write(&self, off: u64, from: &[u8]) -> Result<()> {
        let (mut words, lead) = self.words(off, from.len())?;
        let (head, rest) = from.split_at(lead.min(from.len()));
        if !head.is_empty() {
            merge(&words[0], (off % 8) as usize, head);
            words = &words[1..];
        }
        let (whole, tail) = rest.as_chunks::<8>();
        for (bytes, word) in whole.iter().zip(words) {
            word.store(u64::from_le_bytes(*bytes));
        }
        if !tail.is_empty() {
            merge(&words[whole.len()], 0, tail);
        }
        Ok(())
    }

    /// Stores `new` in the word at `off` if it is `old`; returns the word before.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) when it is no word of the region.
    pub fn compare_swap(&self, off: u64, old: u64, new: u64) -> Result<u64> {
        let word = self.region.at::<PmU64>(off)?;
        Ok(word.cas(old, new).unwrap_or_else(|was| was))
    }

    /// Adds `n` to the word at `off`, with wrap-around; returns the word before.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) when it is no word of the region.
    pub fn fetch_add(&self, off: u64, n: u64) -> Result<u64> {
        Ok(self.region.at::<PmU64>(off)?.fetch_add(n))
    }

    /// The words that `len` bytes from `off` on lie in, and how many bytes are in the first one when
    /// they do not begin with it.
    fn words(&self, off: u64, len: usize) -> Result<(&[PmU64], usize)> {
        let skip = off % 8;
        let count = (skip + len as u64).div_ceil(8);
        let words = self.region.words(off - skip, count)?;
        Ok((words, if skip == 0 { 0 } else { 8 - skip as usize }))
    }
}

/// Stores bytes into a word from its byte `at` on.
fn merge(word: &PmU64, at: usize, bytes: &[u8]) {
    let mut was = word.load();
    loop {
        let mut new = was.to_le_bytes();
        new[at..at + bytes.len()].copy_from_slice(bytes);
        match word.cas(was, u64::from_le_bytes(new)) {
            Ok(_) => return,
            Err(now) => was = now,
        }
    }
}

pub(super) fn check_bytes(bytes: u64) -> Result<()> {
    if bytes == 0 || !bytes.is_multiple_of(4096) || bytes > super::ADDRESS_BYTES {
        let what = "the size of a region must be a multiple of 4096, at least 4096 bytes and at most 128 TiB";
        return Err(ErrorKind::Options { what }.into());
    }
    Ok(())
}

impl SharedHeader {
    pub(super) fn to_bytes(self) -> [u8; HEADER_WORDS * 8] {
        let SharedHeader { id, number, count, rows, bytes } = self;
        let mut page = [0; HEADER_WORDS * 8];
        let (words, _) = page.as_chunks_mut::<8>();
        for (to, word) in words.iter_mut().zip([MAGIC, PROTOCOL, id, number, count, rows, bytes]) {
            *to = word.to_le_bytes();
        }
        let sum = crc32fast::hash(&page[..(HEADER_WORDS - 1) * 8]);
        page[(HEADER_WORDS - 1) * 8..].copy_from_slice(&u64::from(sum).to_le_bytes());
        page
    }

    pub(super) fn from_bytes(page: &[u8; HEADER_WORDS * 8]) -> Result<Self> {
        let (words, _) = page.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        let expect = |what, found, expected| {
            if found == expected {
                return Ok(());
            }
            Err(Error::from(ErrorKind::Region { what, found, expected }))
        };
        expect("the magic number", word(0), MAGIC)?;
        expect("the protocol version", word(1), PROTOCOL)?;
        let sum = crc32fast::hash(&page[..(HEADER_WORDS - 1) * 8]);
        expect("the checksum of its header", word(HEADER_WORDS - 1), sum.into())?;
        let [id, number, count, rows, bytes] = [2, 3, 4, 5, 6].map(word);
        let header = SharedHeader { id, number, count, rows, bytes };
        check_bytes(header.bytes)?;
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bytes: u64) -> SharedHeader {
        SharedHeader { id: 7, number: 0, count: 1, rows: 4, bytes }
    }

    #[test]
    fn bytes_are_copied_at_any_offset_and_length() {
        let region = SharedRegion::anonymous(header(4096)).unwrap();
        let mut model = vec![0; 4096];
        let mut value = 0_u8;
        for off in 0..20 {
            for len in 0..30 {
                let bytes: Vec<u8> = (0..len)
                    .map(|_| {
                        value = value.wrapping_add(1);
                        value
                    })
                    .collect();
                region.write(off, &bytes).unwrap();
                model[off as usize..][..len].copy_from_slice(&bytes);
                let mut all = vec![1; 64];
                region.read(0, &mut all).unwrap();
                assert_eq!(all, model[..64]);
                let mut part = vec![0; len];
                region.read(off, &mut part).unwrap();
                assert_eq!(part, bytes);
            }
        }
    }

    #[test]
    fn accesses_outside_the_region_are_refused() {
        let region = SharedRegion::anonymous(header(4096)).unwrap();
        region.write(4095, &[1]).unwrap();
        assert!(region.write(4095, &[1, 2]).is_err());
        assert!(region.read(u64::MAX, &mut [0; 2]).is_err());
        assert!(region.compare_swap(4096, 0, 1).is_err());
        assert!(region.fetch_add(4, 1).is_err());
        for bytes in [0, 1, u64::MAX - 4095] {
            let refused = SharedRegion::anonymous(header(bytes)).err().unwrap();
            assert!(matches!(refused.kind(), ErrorKind::Options { .. }));
        }
    }

    #[test]
    fn two_mappings_of_a_file_are_the_same_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("region");
        let one = SharedRegion::create(&path, header(8192), 0o600).unwrap();
        let two = SharedRegion::attach(&path).unwrap();
        assert_eq!(two.header(), header(8192));
        one.write(8190, &[1, 2]).unwrap();
        let mut bytes = [0; 2];
        two.read(8190, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2]);
        assert_eq!(two.fetch_add(0, 3).unwrap(), 0);
        assert_eq!(one.compare_swap(0, 3, 9).unwrap(), 3);
        assert_eq!(one.compare_swap(0, 3, 10).unwrap(), 9);
        let taken = SharedRegion::create(&path, header(8192), 0o600).err().unwrap();
        assert!(matches!(taken.kind(), ErrorKind::Exists));
    }

    #[test]
    fn every_changed_byte_of_a_header_is_found() {
        let good = header(4096).to_bytes();
        assert_eq!(SharedHeader::from_bytes(&good).unwrap(), header(4096));
        for i in 0..good.len() {
            let mut bad = good;
            bad[i] ^= 0x10;
            let error = SharedHeader::from_bytes(&bad).err().unwrap();
            assert!(matches!(error.kind(), ErrorKind::Region { .. }), "byte {i}: {error}");
        }
    }

    #[test]
    fn a_file_that_is_no_region_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("region");
        let refused = || SharedRegion::attach(&path).err().unwrap();
        assert!(matches!(refused().kind(), ErrorKind::Io { .. }));
        std::fs::write(&path, "short").unwrap();
        assert!(matches!(refused().kind(), ErrorKind::Truncated { .. }));
        std::fs::write(&path, [0; 5000]).unwrap();
        assert!(matches!(refused().kind(), ErrorKind::Region { .. }));
        let mut cut = vec![0; 5000];
        cut[..HEADER_WORDS * 8].copy_from_slice(&header(4096).to_bytes());
        std::fs::write(&path, cut).unwrap();
        assert!(matches!(refused().kind(), ErrorKind::Truncated { .. }));
        std::fs::remove_file(&path).unwrap();
        let taken = || SharedRegion::create(&path, header(4096), 0o600);
        for nth in 1..=4 {
            sys::faults::arm(nth, 5);
            let failed = taken().err();
            assert!(sys::faults::disarm(), "there are {nth} system calls");
            assert!(matches!(failed.unwrap().kind(), ErrorKind::Io { .. }));
            assert!(!path.exists());
        }
    }
}
