//! A log made in the file of a pool that has none.

use rustix::param::page_size;

use super::format::{BLOCK_BYTES, LOG_ALIGN, Layout};
use super::old::FOLIO_PAGES_MAX;
use super::old::PoolView;
use super::recover::Recovered;
use crate::error::Result;
use crate::medium::mapped::Mapped;
use crate::medium::{Medium, sys};

impl Layout {
    /// Bytes of the smallest area with a ring of so many blocks.
    fn area_bytes(ring_blocks: u64) -> u64 {
        let mut blocks = ((ring_blocks + 2) / 7 * 8).saturating_sub(1);
        while Layout::of(blocks * BLOCK_BYTES as u64).ring_blocks < ring_blocks {
            blocks += 1;
        }
        blocks * BLOCK_BYTES as u64
    }
}

/// How the area of a log of about `bytes` bytes may lie in a file so that its ring is written past the
/// page cache: so many bytes, ending at a multiple of the other number. `None` for a small one.
pub(crate) fn place_log(bytes: u64) -> Option<(u64, u64)> {
    let folio = FOLIO_PAGES_MAX * page_size() as u64;
    let blocks = folio / LOG_ALIGN;
    let ring_blocks = Layout::of(bytes).ring_blocks;
    let whole = (ring_blocks + blocks / 2) / blocks * blocks;
    (ring_blocks >= blocks).then(|| (Layout::area_bytes(whole), folio))
}

/// A medium over a file in which a log can be made.
pub(crate) trait LogSpace: Medium {
    /// Writes bytes of the file beside what is mapped.
    fn write_file(&self, off: u64, bytes: &[u8]) -> Result<()>;

    /// Puts what was written so on the disk.
    fn sync_file(&self) -> Result<()>;

    /// True if the log that is there, if one is, was closed.
    fn is_log_closed(&self) -> bool;
}

impl LogSpace for Mapped {
    fn write_file(&self, off: u64, bytes: &[u8]) -> Result<()> {
        sys::write_at(self.file(), bytes, off).map_err(|e| self.error(MAKING, e))
    }

    fn sync_file(&self) -> Result<()> {
        sys::sync_file(self.file()).map_err(|e| self.error(MAKING, e))
    }

    fn is_log_closed(&self) -> bool {
        Mapped::is_log_closed(self)
    }
}

const MAKING: &str = "making the log of the pool";

/// Makes `bytes` bytes from `off`, which nobody uses, an empty log of pool `uuid`.
///
/// # Errors
/// [`Io`](crate::ErrorKind::Io) with what the system says.
pub(crate) fn format_log<M: LogSpace>(
    medium: &M,
    off: u64,
    bytes: u64,
    uuid: [u64; 2],
) -> Result<()> {
    const CHUNK_BYTES: u64 = 1 << 20;
    let zeros = vec![0; CHUNK_BYTES.min(bytes) as usize];
    // Written, not only reserved: the first write to reserved space takes twice as long.
    for at in (off..off + bytes).step_by(CHUNK_BYTES as usize) {
        let chunk = CHUNK_BYTES.min(off + bytes - at);
        medium.write_file(at, &zeros[..chunk as usize])?;
    }
    medium.sync_file()?;
    for head in Recovered::nothing(uuid).next(true)?.pair() {
        medium.write_file(off + head.off(), &head.to_bytes())?;
        medium.sync_file()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_is_the_smallest_with_its_ring() {
        for ring_blocks in [4, 5, 13, 2048, 2049, 14336] {
            let bytes = Layout::area_bytes(ring_blocks);
            assert_eq!(Layout::of(bytes).ring_blocks, ring_blocks);
            assert!(Layout::of(bytes - BLOCK_BYTES as u64).ring_blocks < ring_blocks);
        }
    }
}
