//! What the log held when the process ended: read, and brought into the pool.
//!
//! | Step | Then | If it stops after this step |
//! |---|---|---|
//! | read the newest sound head, its blocks as far as they continue it, then staged lines as far as they continue those | | nothing has changed |
//! | the area is synced: what was read may have been in caches only | sync | the same is found again |
//! | every line that was read is written to the pool, in order | sync | the same is found again, and written again |
//! | the other head: a new salt, from the line behind the last one on | durable | nothing is left to do |

use std::io;

use super::disk::Disk;
use super::format::{
    AREA_BYTES_MIN, BLOCK_BYTES, Head, Layout, Line, STAGED_WORDS, check_block, line_of, staged_sum,
};
use super::log::aligned;
use crate::error::{Error, Result};
use crate::medium::LINE_BYTES;

/// What was found in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where the log goes on: its newest head, behind the lines that were found.
    pub(crate) head: Head,
    /// Lines behind the head.
    pub(crate) lines: u64,
}

/// Blocks that are read at a time.
const READ_BLOCKS: u64 = 256;

fn failed(e: io::Error) -> Error {
    Error::io("reading the log of the pool", None, e)
}

/// The head of a new area, which is zero.
pub(crate) fn first_head(uuid: [u64; 2]) -> Head {
    Head { generation: 0, uuid, salt: 0, line: 1, block: 0, chain: 0 }
}

/// Begins the log anew behind what `head` says, as of another open; durable when this returns.
///
/// # Errors
/// What the system says.
pub(crate) fn renew<D: Disk>(disk: &D, head: Head) -> Result<Head> {
    let salt = getrandom::u64()
        .map_err(|e| Error::io("asking for random bytes", None, io::Error::other(e)))?;
    let head = Head { generation: head.generation + 1, salt, ..head };
    write_head(disk, head)?;
    Ok(head)
}

fn write_head<D: Disk>(disk: &D, head: Head) -> Result<()> {
    let mut buffer = Vec::new();
    let bytes = aligned(&mut buffer, BLOCK_BYTES);
    bytes.copy_from_slice(&head.to_bytes());
    disk.write_log(head.off(), bytes)
        .map_err(|e| Error::io("writing the log of the pool", disk.path().map(Into::into), e))
}

/// Calls `apply` with every line that the log of pool `uuid` holds, in order. Changes nothing.
///
/// # Errors
/// [`Corrupt`](crate::ErrorKind::Corrupt) where there is no sound head of this pool;
/// [`Io`](crate::ErrorKind::Io) where it cannot be read; those of `apply`.
pub(crate) fn replay<D: Disk>(
    disk: &D,
    uuid: [u64; 2],
    apply: &mut dyn FnMut(u64, &Line) -> Result<()>,
) -> Result<Found> {
    if disk.log_bytes() < AREA_BYTES_MIN {
        return Err(Error::corrupt("log area too small", 0));
    }
    let layout = Layout::of(disk.log_bytes());
    let mut heads = vec![0; 2 * BLOCK_BYTES];
    disk.read_log(0, &mut heads).map_err(failed)?;
    let sound = heads.chunks_exact(BLOCK_BYTES).filter_map(Head::from_bytes);
    let head = sound
        .filter(|head| head.uuid == uuid)
        .max_by_key(|head| head.generation)
        .ok_or_else(|| Error::corrupt("no head of the log is sound", 0))?;
    let mut found = Found { head, lines: 0 };
    replay_blocks(disk, layout, &mut found, apply)?;
    replay_staged(disk, layout, &mut found, apply)?;
    Ok(found)
}

fn replay_blocks<D: Disk>(
    disk: &D,
    layout: Layout,
    found: &mut Found,
    apply: &mut dyn FnMut(u64, &Line) -> Result<()>,
) -> Result<()> {
    let salted = found.head;
    let end = salted.block + layout.ring_blocks;
    let mut buffer = Vec::new();
    // Mostly there is nothing.
    let mut most = 1;
    while found.head.block < end {
        let block = found.head.block;
        let straight = layout.ring_blocks - block % layout.ring_blocks;
        let blocks = straight.min(end - block).min(most);
        most = (most * 4).min(READ_BLOCKS);
        buffer.resize(blocks as usize * BLOCK_BYTES, 0);
        disk.read_log(layout.block_off(block), &mut buffer).map_err(failed)?;
        for bytes in buffer.chunks_exact(BLOCK_BYTES) {
            let Head { chain, line, .. } = found.head;
            let Some((crc, count)) = check_block(&salted, chain, line, bytes) else {
                return Ok(());
            };
            for i in 0..count {
                let (off, line) = line_of(bytes, i);
                apply(off, &line)?;
            }
            found.head.chain = crc;
            found.head.line += count;
            found.head.block += 1;
            found.lines += count;
        }
    }
    Ok(())
}

/// Lines that were staged when the process was killed; after a loss of power, perhaps some of them.
fn replay_staged<D: Disk>(
    disk: &D,
    layout: Layout,
    found: &mut Found,
    apply: &mut dyn FnMut(u64, &Line) -> Result<()>,
) -> Result<()> {
    let lines = layout.staged_lines();
    for _ in 0..lines {
        let number = found.head.line;
        let mut bytes = [0; STAGED_WORDS * 8];
        let off = Layout::STAGED_OFF + number % lines * bytes.len() as u64;
        disk.read_log(off, &mut bytes).map_err(failed)?;
        let word = |i: usize| u64::from_le_bytes(bytes.as_chunks::<8>().0[i]);
        let line: Line = std::array::from_fn(|i| word(3 + i));
        let sum = staged_sum(found.head.salt, number, word(1), &line);
        if word(0) != number || word(2) != sum {
            break;
        }
        apply(word(1), &line)?;
        found.head.line += 1;
        found.lines += 1;
    }
    Ok(())
}

/// Brings what the log holds into the pool, and forgets it; see the module docs. Writes nothing where
/// it holds nothing.
///
/// # Errors
/// As [`replay`]; [`Corrupt`](crate::ErrorKind::Corrupt) where a line lies outside the pool.
pub(crate) fn recover<D: Disk>(disk: &D, uuid: [u64; 2]) -> Result<Head> {
    let pool_bytes = disk.region().len();
    // Twice: nothing is written before all is known to be sound and on the disk.
    let found = replay(disk, uuid, &mut |off, _| check_line(pool_bytes, off))?;
    if found.lines == 0 {
        return Ok(found.head);
    }
    let path = || disk.path().map(Into::into);
    disk.sync_log().map_err(|e| Error::io("syncing the log of the pool", path(), e))?;
    let again = replay(disk, uuid, &mut |off, line| {
        disk.restore_line(off, line);
        Ok(())
    })?;
    if again != found {
        return Err(Error::corrupt("the log changed while it was read", 0));
    }
    disk.sync_data().map_err(|e| Error::io("syncing the pool", path(), e))?;
    renew(disk, found.head)
}

/// Whether a line lies in a pool of so many bytes.
pub(crate) fn check_line(pool_bytes: u64, off: u64) -> Result<()> {
    let inside = off.is_multiple_of(LINE_BYTES) && off <= pool_bytes.saturating_sub(LINE_BYTES);
    if inside { Ok(()) } else { Err(Error::corrupt("line of the log outside the pool", off)) }
}
