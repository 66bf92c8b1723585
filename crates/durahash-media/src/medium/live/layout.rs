//! The layout of a live file.
//!
//! ```text
//! 0        2 MiB       4 MiB          132 MiB     134 MiB         262 MiB      266 MiB
//! +--------+-----------+--------------+-----------+---------------+------------+----------- ... -+
//! | header | marks     | 128 MiB of   | marks     | the next      | marks      | the next        |
//! |        | of these  | the image    | of these  | 128 MiB       | of these   | 256 MiB         |
//! +--------+-----------+--------------+-----------+---------------+------------+----------- ... -+
//! ```
//!
//! From the second stretch on each is as long as all before it. So the file is a 64th longer than the image, and in memory
//! marks and image are one range of addresses each, of a few mappings. Marks and image have space on the disk as far
//! as the pool reaches, in whole huge pages, but for the log's area, which nobody stores to. It is made without a name that
//! others could have taken: it is named by what tells the pool's file from others, lies in the pool's directory unless another
//! one is given, and has the pool's permissions. A short one goes when the pool is closed; of a pool that is removed a long one
//! stays behind.

use std::fs::File;
use std::io;

use rustix::mm::{MapFlags, ProtFlags};

use crate::medium::{LINE_BYTES, sys};

/// Where the marks of the first stretch begin.
pub(super) const HEADER_BYTES: u64 = 2 << 20;
/// Bytes of the image in the first two stretches, each.
const STRETCH_BYTES: u64 = 128 << 20;

/// Where a byte of the image lies in the live file, and how many lie behind it, itself included, in the same stretch.
pub(super) fn image_place(off: u64) -> (u64, u64) {
    let (start, len) = stretch(off);
    let base = HEADER_BYTES + start + start / LINE_BYTES;
    (base + len / LINE_BYTES + (off - start), start + len - off)
}

/// The same of a mark.
pub(super) fn mark_place(line: u64) -> (u64, u64) {
    let (start, len) = stretch(line * LINE_BYTES);
    let base = HEADER_BYTES + start + start / LINE_BYTES;
    (base + (line - start / LINE_BYTES), (start + len) / LINE_BYTES - line)
}

/// Where the stretch of a byte of the image begins, and how long it is.
fn stretch(off: u64) -> (u64, u64) {
    match off / STRETCH_BYTES {
        0 => (0, STRETCH_BYTES),
        n => {
            let start = STRETCH_BYTES << n.ilog2();
            (start, start)
        }
    }
}

/// The pieces of a file that `bytes` bytes from `off` on of a range are, each with its place in the range.
pub(super) fn pieces(
    (off, bytes): (u64, u64),
    place: impl Fn(u64) -> (u64, u64),
) -> impl Iterator<Item = (u64, u64, u64)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let (at, behind) = place(off + done);
        let len = behind.min(bytes - done);
        let piece = (done, at, len);
        done += len;
        (len > 0).then_some(piece)
    })
}

/// Bytes of a live file whose image has so many.
pub(super) fn file_bytes(image_bytes: u64) -> u64 {
    image_bytes.checked_sub(1).map_or(HEADER_BYTES, |last| image_place(last).0 + 1)
}

/// Maps pieces of `file` one behind the other.
pub(super) fn map_pieces(
    file: &File,
    place: impl Fn(u64) -> (u64, u64) + Copy,
    sharing: MapFlags,
) -> impl Fn(*mut u8, u64, u64, MapFlags) -> io::Result<*mut u8> {
    move |at, off, bytes, flags| {
        // In place of a mapping of its own, which readers use meanwhile, each piece at once.
        let replaces = flags.contains(MapFlags::FIXED);
        let start = if replaces {
            at
        } else {
            let reserve = MapFlags::PRIVATE | MapFlags::NORESERVE | flags;
            // SAFETY: the flags that come in replace nothing.
            unsafe { sys::map_anonymous(at, bytes, ProtFlags::empty(), reserve) }?
        };
        for (done, from, len) in pieces((off, bytes), place) {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            let (at, flags) = (start.wrapping_add(done as usize), sharing | MapFlags::FIXED);
            // SAFETY: replaces a part of what was reserved just now, or of the mapping itself.
            let mapped = unsafe { sys::map_file(at, len, prot, flags, (file, from)) };
            if let Err(e) = mapped {
                if !replaces {
                    // SAFETY: the mapping just made.
                    unsafe { sys::unmap(start, bytes) };
                }
                return Err(e);
            }
        }
        Ok(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_image_of_any_length_lie_apart_in_the_file() {
        let gib = 1 << 30;
        for bytes in [64, 4096, STRETCH_BYTES, STRETCH_BYTES + 4096, 5 * gib, 1 << 44] {
            let image = pieces((0, bytes), image_place).map(|(_, at, len)| at..at + len);
            let marks = pieces((0, bytes / 64), mark_place).map(|(_, at, len)| at..at + len);
            let mut all: Vec<_> = image.chain(marks).collect();
            all.sort_by_key(|piece| piece.start);
            assert!(all[0].start >= HEADER_BYTES && all.len() <= 40);
            assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start), "{all:?}");
            assert_eq!(all.last().unwrap().end, file_bytes(bytes));
            assert!(file_bytes(bytes) <= bytes + bytes / 32 + HEADER_BYTES + STRETCH_BYTES / 64);
        }
    }
}
