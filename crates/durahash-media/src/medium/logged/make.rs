//! A log made in the file of a pool that has none.

use super::area::{PoolView, empty_heads, folio_bytes};
use super::format::{BLOCK_BYTES, LOG_ALIGN, Layout};
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
    let folio = folio_bytes();
    let blocks = folio / LOG_ALIGN;
    let ring_blocks = Layout::of(bytes).ring_blocks;
    let whole = (ring_blocks + blocks / 2) / blocks * blocks;
    (ring_blocks >= blocks).then(|| (Layout::area_bytes(whole), folio))
}

/// Where the area of a log of about `bytes` bytes ends that begins at `off`, so that its ring is written past the
/// page cache. `None` for a small one.
pub(crate) fn end_of_log(off: u64, bytes: u64) -> Option<u64> {
    let folio = folio_bytes();
    let end = off.checked_add(bytes)?.checked_next_multiple_of(folio)?;
    (bytes >= 4 * folio).then_some(end)
}

/// A medium over a file in which a log can be made.
pub(crate) trait LogSpace: Medium {
    /// As [`grow`](Storage::grow), but what is from `hole` on takes no space and is not stored to.
    fn grow_with_hole(&self, bytes: u64, hole: u64) -> Result<()>;

    /// Takes the space of holes.
    fn fill(&self, from: u64, to: u64) -> Result<()>;

    /// Writes bytes of the file beside what is mapped.
    fn write_file(&self, off: u64, bytes: &[u8]) -> Result<()>;

    /// Puts what was written so on the disk.
    fn sync_file(&self) -> Result<()>;

    /// True if the log that is there, if one is, was closed.
    fn is_log_closed(&self) -> bool;

    /// Lets no live image be used that belongs to the closed log, if one is there.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    fn disown_image(&self) -> Result<()>;
}

impl LogSpace for Mapped {
    fn grow_with_hole(&self, bytes: u64, hole: u64) -> Result<()> {
        Mapped::grow_with_hole(self, bytes, hole)
    }

    fn fill(&self, from: u64, to: u64) -> Result<()> {
        Mapped::fill(self, from, to)
    }

    fn write_file(&self, off: u64, bytes: &[u8]) -> Result<()> {
        sys::write_at(self.file(), bytes, off).map_err(|e| self.error(MAKING, e))
    }

    fn sync_file(&self) -> Result<()> {
        if self.is_new() {
            return Ok(());
        }
        sys::sync_file(self.file()).map_err(|e| self.error(MAKING, e))
    }

    fn is_log_closed(&self) -> bool {
        Mapped::is_log_closed(self)
    }

    fn disown_image(&self) -> Result<()> {
        self.disown_live_image()
    }
}

const MAKING: &str = "making the log of the pool";

/// Bytes that a new log uses of an area of so many.
pub(crate) fn used_at_first(area_bytes: u64) -> u64 {
    Layout::first(area_bytes).bytes()
}

/// Makes `bytes` unused bytes from `off` an empty log of pool `uuid`: a ring beside a live image, or lines.
///
/// # Errors
/// [`Io`](crate::ErrorKind::Io) with the system's error.
pub(crate) fn format_log<M: LogSpace>(
    medium: &M,
    off: u64,
    bytes: u64,
    uuid: [u64; 2],
    is_ring: bool,
) -> Result<()> {
    let parts = Layout::first(bytes);
    // Written, not only reserved: the first write to reserved space takes twice as long.
    medium.write_file(off, &vec![0; parts.bytes() as usize])?;
    medium.sync_file()?;
    for (at, head) in empty_heads(bytes, uuid, is_ring)? {
        medium.write_file(off + at, &head)?;
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
