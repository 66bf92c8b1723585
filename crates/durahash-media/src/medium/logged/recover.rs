//! The contents of the log when the process ended: looked at, shown in the image, and, when the pool begins to
//! be written, brought into it.
//!
//! | Step | Then | If it stops after this step |
//! |---|---|---|
//! | [newest_head], [look]: the newest sound head, the blocks that continue it, then staged lines that continue those; the last of each line is shown in the image (`replay.rs`) | | nothing has changed |
//! | pool and design are looked at there, and may be refused | | nothing has changed |
//! | [begin]: the head and the staged lines that were read are written again, as they are; and so are the blocks, unless they came from the disk itself | durable | the same is found again |
//! | where they did: all that the drive may still hold in its cache | durable | the same is found again |
//! | the lines that were shown are written to the pool, from the image | sync | the same is found again, and written again |
//! | both heads: a new salt, from the line behind the last one on | each durable before the next | the one or the other is found; behind both there is nothing that the pool lacks |
//!
//! # Why it is written again
//! The bytes that are read here may be in caches only. The process may have been killed before it was synced, or the
//! sync may have failed: then the system calls these pages clean although the disk has something else,
//! and a second sync writes nothing and succeeds. So recovery relies on no sync of what it has read: it
//! writes what it relies on. It is not needed for the pool: all lines since the head are written to it
//! again, and what is older was synced, with success, before the head was written.
//!
//! Blocks that are read past the page cache are the drive's own answer. Of these, what was written last
//! may be in the drive's cache only, as the process may have been killed before the drive was told to empty
//! that; so it is told now.
//!
//! # Damage
//! A log ends where the next block is not sound. After a loss of power this is its end, for one write of
//! several blocks may leave any of them. But each block says which lines were on the disk before it was
//! written, and each open begins with two heads. So if a line cannot be read that any sound block of the
//! ring says was on the disk, then the log is damaged, and what was acknowledged is missing: such a pool is
//! refused. A salt does not matter, as an open begins behind all lines that were durable in those before.
//! Two cases look like a write that power interrupted: damage to the very last write; and, in a
//! ring larger than that, damage to more than [`NEAR_BLOCKS`] blocks behind which fewer than
//! [`FAR_BLOCKS`] follow, as only every so many are looked at there.

use std::io;
use std::ops::Range;
use std::sync::mpsc;
use std::thread;

use super::disk::{Disk, aligned};
use super::format::{
    AREA_BYTES_MIN, BLOCK_BYTES, BlockHead, Head, Layout, Line, STAGED_WORDS, line_of, staged_sum,
};
use super::replay::{Replayed, Replaying};
use crate::error::{Error, Result};
use crate::medium::LINE_BYTES;
use crate::medium::live::head as live;
use crate::medium::process::spawn_scoped;

/// The contents of a log.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The newest head.
    from: Head,
    /// Where the log goes on: that head, behind the lines that were found.
    head: Head,
    /// Lines behind the head.
    pub(crate) lines: u64,
    /// True if some of them were staged only.
    staged: bool,
    /// True if the blocks came from the drive.
    from_drive: bool,
    replayed: Replayed,
}

impl Recovered {
    #[cfg(any(not(loom), test, feature = "sim"))]
    /// The contents of a new area, which is zero, with these parts.
    pub(crate) fn nothing(uuid: [u64; 2], parts: Layout) -> Recovered {
        let (closed, line) = (true, 1);
        let from = Head { generation: 0, uuid, salt: 0, line, block: 0, chain: 0, closed, parts };
        Recovered::behind(from, false)
    }

    /// Where the log goes on.
    pub(in crate::medium) fn head(&self) -> Head {
        self.head
    }

    /// The contents of an area behind `from`, a closed head.
    pub(super) fn behind(from: Head, from_drive: bool) -> Recovered {
        Recovered {
            from,
            head: from,
            lines: 0,
            staged: false,
            from_drive,
            replayed: Replayed::default(),
        }
    }

    /// True if the pool was closed, or used without the log since.
    pub(crate) fn is_closed(&self) -> bool {
        self.from.closed
    }

    /// Bytes of the area that the log uses.
    pub(super) fn used_bytes(&self) -> u64 {
        self.from.parts.bytes()
    }

    /// The second of the two heads with which the log begins anew, as of another open.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) where there are no random bytes.
    pub(crate) fn next(&self, closed: bool) -> Result<Head> {
        let salt = getrandom::u64()
            .map_err(|e| Error::io("asking for random bytes", None, io::Error::other(e)))?;
        Ok(Head { generation: self.head.generation + 2, salt, closed, ..self.head })
    }
}

/// Blocks that are read at a time: at first, and in the end.
const READ_BLOCKS: (u64, u64) = (1, 1024);
/// Behind the end of a log so many blocks are all looked at for what proves that it went on,
pub(super) const NEAR_BLOCKS: u64 = 64 << 8;
/// and further on one in so many.
pub(super) const FAR_BLOCKS: u64 = 1 << 8;

fn failed<D: Disk>(disk: &D, doing: &'static str) -> impl Fn(io::Error) -> Error {
    let path = disk.path().map(std::path::Path::to_path_buf);
    move |e| Error::io(doing, path.clone(), e)
}

const READING: &str = "reading the log of the pool";
const WRITING: &str = "writing the log of the pool";

/// Writes `head` and the one before it, each durable when the next is written: if either is
/// lost, the other says the same.
///
/// # Errors
/// The system's error.
pub(crate) fn write_heads<D: Disk>(disk: &D, head: Head) -> io::Result<()> {
    head.pair().into_iter().try_for_each(|head| write_head(disk, head))
}

/// Writes one head; durable when this returns.
///
/// # Errors
/// The system's error.
pub(super) fn write_head<D: Disk>(disk: &D, head: Head) -> io::Result<()> {
    let mut buffer = Vec::new();
    let bytes = aligned(&mut buffer, BLOCK_BYTES);
    bytes.copy_from_slice(&head.to_bytes());
    disk.write_log(head.off(), bytes)
}

/// The newest sound head of an area, of a log of lines or of a ring of batches.
pub(in crate::medium) enum AreaHead {
    /// Of lines.
    Lines(Head),
    /// Of batches (`live`).
    Ring(live::Head),
}

/// The newest sound head of the area of pool `uuid`.
///
/// # Errors
/// [`Corrupt`](crate::ErrorKind::Corrupt) where there is none; [`Io`](crate::ErrorKind::Io) where it cannot
/// be read.
pub(in crate::medium) fn newest_of_any<D: Disk>(disk: &D, uuid: [u64; 2]) -> Result<AreaHead> {
    let area_bytes = disk.log_bytes();
    if area_bytes < AREA_BYTES_MIN {
        return Err(Error::corrupt("log area too small", 0));
    }
    let mut heads = vec![0; 2 * BLOCK_BYTES];
    disk.read_log(0, &mut heads).map_err(failed(disk, READING))?;
    let head = |bytes: &[u8]| {
        let lines = Head::from_bytes(bytes, area_bytes).filter(|head| head.uuid == uuid);
        let ring = || live::Head::from_bytes(bytes, area_bytes).filter(|head| head.uuid == uuid);
        let lines = lines.map(|head| (head.generation, AreaHead::Lines(head)));
        lines.or_else(|| ring().map(|head| (head.generation, AreaHead::Ring(head))))
    };
    let sound = heads.chunks_exact(BLOCK_BYTES).filter_map(head);
    let newest = sound.max_by_key(|(generation, _)| *generation);
    newest.map(|(_, head)| head).ok_or_else(|| Error::corrupt("no valid log header found", 0))
}

/// The same, of a log of lines.
///
/// # Errors
/// As [`newest_of_any`]; [`Corrupt`](crate::ErrorKind::Corrupt) where it is one of a ring.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn newest_head<D: Disk>(disk: &D, uuid: [u64; 2]) -> Result<Head> {
    match newest_of_any(disk, uuid)? {
        AreaHead::Lines(head) => Ok(head),
        AreaHead::Ring(_) => Err(Error::corrupt("the log is one of another kind", 0)),
    }
}

/// The lines of the log behind its newest head, which the image shows afterwards. Changes nothing else.
///
/// # Errors
/// [`Corrupt`](crate::ErrorKind::Corrupt) where a line lies outside the pool, and where the log is damaged
/// before its end; [`Io`](crate::ErrorKind::Io) where it cannot be read.
pub(crate) fn look<D: Disk>(disk: &D, head: Head) -> Result<Recovered> {
    let mut found = Recovered::behind(head, disk.reads_drive());
    if !found.is_closed() {
        found.replayed = Replayed::gather(disk, |replaying| replay(disk, &mut found, replaying))?;
        look_behind(disk, &found)?;
    }
    Ok(found)
}

/// True if a line lies in a pool of so many bytes.
fn check(pool_bytes: u64, off: u64) -> Result<()> {
    let inside = off.is_multiple_of(LINE_BYTES) && off <= pool_bytes.saturating_sub(LINE_BYTES);
    if inside { Ok(()) } else { Err(Error::corrupt("a log entry points outside the pool", off)) }
}

/// Takes every sound block behind the head, then staged lines.
fn replay<D: Disk>(
    disk: &D,
    found: &mut Recovered,
    replaying: &mut Replaying<'_, '_, D>,
) -> Result<()> {
    let pool_bytes = disk.region().len();
    let from = found.from;
    let layout = from.parts;
    let head = &mut found.head;
    each_block(disk, layout, from.block..from.block + layout.ring_blocks, &mut |_, block| {
        let Some(next) = BlockHead::next(head, block) else {
            return Ok(false);
        };
        for i in 0..next.count {
            let (off, line) = line_of(block, i);
            check(pool_bytes, off)?;
            replaying.put(off, &line);
        }
        head.chain = next.crc;
        head.line += next.count;
        head.block += 1;
        Ok(true)
    })?;
    found.lines = found.head.line - from.line;
    replay_staged(disk, pool_bytes, found, replaying)
}

/// Refuses a log in which a line is missing that was on the disk.
fn look_behind<D: Disk>(disk: &D, found: &Recovered) -> Result<()> {
    let Head { uuid, line, block, .. } = found.head;
    let layout = found.from.parts;
    let end = found.from.block + layout.ring_blocks;
    let mut refuse = |off, bytes: &[u8]| {
        if BlockHead::proves(bytes, uuid, line) {
            let what = "the log is damaged before its end, so what was acknowledged is missing; \
                        take a copy of the pool, if there is one (place in the log's area)";
            return Err(Error::corrupt(what, off));
        }
        Ok(true)
    };
    let near = end.min(block + NEAR_BLOCKS);
    each_block(disk, layout, block..near, &mut refuse)?;
    (near..end)
        .step_by(FAR_BLOCKS as usize)
        .try_for_each(|far| each_block(disk, layout, far..far + 1, &mut refuse))
}

/// Calls `f` with the place and the bytes of blocks of the ring, by their numbers, as long as it says so.
///
/// The next ones are read meanwhile, once it has come far enough.
fn each_block<D: Disk>(
    disk: &D,
    layout: Layout,
    numbers: Range<u64>,
    f: &mut dyn FnMut(u64, &[u8]) -> Result<bool>,
) -> Result<()> {
    // Mostly there is nothing, so one is read at first.
    let (mut most, in_the_end) = READ_BLOCKS;
    let mut number = numbers.start;
    let mut next = || {
        let straight = layout.ring_blocks - number % layout.ring_blocks;
        let first = number;
        let blocks = straight.min(numbers.end - number).min(most);
        number += blocks;
        most = (most * 4).min(in_the_end);
        (blocks > 0).then_some((first, blocks))
    };
    let read = |(first, blocks): (u64, u64), mut buffer: Vec<u8>| -> Result<Vec<u8>> {
        let bytes = aligned(&mut buffer, blocks as usize * BLOCK_BYTES);
        disk.read_ring(layout.block_off(first), bytes).map_err(failed(disk, READING))?;
        Ok(buffer)
    };
    let mut visit = |(first, blocks): (u64, u64), buffer: &mut Vec<u8>| -> Result<bool> {
        let bytes = aligned(buffer, blocks as usize * BLOCK_BYTES);
        for (number, block) in (first..).zip(bytes.chunks_exact(BLOCK_BYTES)) {
            if !f(layout.block_off(number), block)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let mut buffer = Vec::new();
    loop {
        let Some(part) = next() else {
            return Ok(());
        };
        buffer = read(part, buffer)?;
        if !visit(part, &mut buffer)? {
            return Ok(());
        }
        if part.1 == in_the_end {
            break;
        }
    }
    thread::scope(|scope| {
        let (send, receive) = mpsc::sync_channel(1);
        // Buffers come back, as new memory would have to be cleared.
        let (give_back, used) = mpsc::channel();
        let read_on = || {
            let (send, used) = (send, used);
            while let Some(part) = next() {
                let buffer = used.try_recv().unwrap_or_default();
                // The receiver is gone where the log has ended.
                if send.send((part, read(part, buffer))).is_err() {
                    return;
                }
            }
        };
        spawn_scoped(scope, "durahash-read", read_on)
            .map_err(|e| Error::io("starting a thread to read the log", None, e))?;
        for (part, buffer) in receive {
            let mut buffer = buffer?;
            if !visit(part, &mut buffer)? {
                return Ok(());
            }
            // The reader is gone where all is read.
            let _ = give_back.send(buffer);
        }
        Ok(())
    })
}

/// Lines that were staged when the process was killed; after a loss of power, perhaps some of them.
fn replay_staged<D: Disk>(
    disk: &D,
    pool_bytes: u64,
    found: &mut Recovered,
    replaying: &mut Replaying<'_, '_, D>,
) -> Result<()> {
    let lines = found.from.parts.staged_lines();
    for _ in 0..lines {
        let number = found.head.line;
        let mut bytes = [0; STAGED_WORDS * 8];
        let off = Layout::STAGED_OFF + number % lines * bytes.len() as u64;
        disk.read_log(off, &mut bytes).map_err(failed(disk, READING))?;
        let word = |i: usize| u64::from_le_bytes(bytes.as_chunks::<8>().0[i]);
        let line: Line = std::array::from_fn(|i| word(3 + i));
        let sum = staged_sum(found.head.salt, number, word(1), &line);
        if word(0) != number || word(2) != sum {
            break;
        }
        check(pool_bytes, word(1))?;
        replaying.put(word(1), &line);
        found.head.line += 1;
        found.lines += 1;
        found.staged = true;
    }
    Ok(())
}

/// Brings what the log held into the pool, from the image, where only what [`look`] has shown may have
/// been stored, and begins the log anew with `next`; see the module docs.
///
/// # Errors
/// [`Io`](crate::ErrorKind::Io); [`Corrupt`](crate::ErrorKind::Corrupt) where the log is not what was found.
pub(crate) fn begin<D: Disk>(disk: &D, found: &Recovered, next: Head) -> Result<()> {
    // A new disk, which is zero, has nothing to be relied on.
    if found.from.generation > 0 {
        write_again(disk, found)?;
    }
    // Lines behind the pool's end, stored before it was cut there, are not the pool's any more.
    let end = disk.region().len();
    for off in found.replayed.lines().filter(|off| *off < end) {
        let words = disk.region().words(off, LINE_BYTES / 8)?;
        disk.write_line(off, &std::array::from_fn(|i| words[i].load()));
    }
    disk.sync_data().map_err(failed(disk, "syncing the pool"))?;
    write_heads(disk, next).map_err(failed(disk, WRITING))
}

fn write_again<D: Disk>(disk: &D, found: &Recovered) -> Result<()> {
    let write = |off, bytes: &[u8]| disk.rewrite_log(off, bytes).map_err(failed(disk, WRITING));
    let layout = found.from.parts;
    write(found.from.off(), &found.from.to_bytes())?;
    if found.staged {
        let mut bytes = vec![0; layout.staged_bytes as usize];
        disk.read_log(Layout::STAGED_OFF, &mut bytes).map_err(failed(disk, READING))?;
        write(Layout::STAGED_OFF, &bytes)?;
    }
    if found.from_drive {
        return disk.flush_drive().map_err(failed(disk, WRITING));
    }
    // Blocks that adjoin, together.
    let mut head = found.from;
    let (mut first, mut blocks) = (0, Vec::new());
    each_block(disk, layout, found.from.block..found.head.block, &mut |off, block| {
        let Some(next) = BlockHead::next(&head, block) else {
            return Err(Error::corrupt("the log changed while it was read", off));
        };
        head.chain = next.crc;
        head.line += next.count;
        head.block += 1;
        let most = READ_BLOCKS.1 as usize * BLOCK_BYTES;
        if off != first + blocks.len() as u64 || blocks.len() == most {
            if !blocks.is_empty() {
                write(first, &blocks)?;
            }
            (first, blocks) = (off, Vec::new());
        }
        blocks.extend_from_slice(block);
        Ok(true)
    })?;
    if blocks.is_empty() { Ok(()) } else { write(first, &blocks) }
}
