//! The layout of a live file.
//!
//! ```text
//! 0        4 KiB   64 KiB    3.8 MiB
//! +--------+-------+---------+-------+-------------------+-------+---------------------+--------- ... -+
//! | header | marks | 3.75 MiB| marks | the next 124 MiB  | marks | the next 128 MiB    | the next      |
//! |        | of    | of the  | of    | of the image      | of    | of the image        | 256 MiB, with |
//! |        | these | image   | these |                   | these |                     | marks before  |
//! +--------+-------+---------+-------+-------------------+-------+---------------------+--------- ... -+
//! ```
//!
//! Each *stretch* of the image lies behind its marks; from the third on each is as long as all before it. The image here is the pool
//! without the log's area, to which nobody stores: in memory that is a gap of zeros. In memory header and marks are one range of
//! addresses, and the image with its gap is another: of a pool that is not longer than the first stretch four mappings.
//!
//! The file has no holes, up to its end. The system may keep it in large pages, and where one of these has a hole, the first store to
//! any of its bytes takes space for all of it, and ends a process whose disk has none.
//!
//! It is made without a name that others could have taken: it is named by what tells the pool's file from others, lies in the
//! pool's directory unless another one is given, and has the pool's permissions. A short one goes when the pool is closed;
//! of a pool that is removed a long one stays behind.

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::mm::{MapFlags, ProtFlags};

use crate::medium::room::HUGE_PAGE_BYTES;
use crate::medium::{LINE_BYTES, sys};

/// Bytes of the header. They lie where the marks of so many lines before the image would.
pub(super) const HEADER_BYTES: u64 = 4 << 10;
/// What these lines would take. Places in the image are counted from their first: then stretches begin at round numbers.
const LEAD_BYTES: u64 = HEADER_BYTES * LINE_BYTES;
/// Where the first two stretches end.
const FIRST_END: u64 = 4 << 20;
const SECOND_END: u64 = 128 << 20;
/// No page of a processor is longer.
const PAGE_BYTES_MAX: u64 = 64 << 10;

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Pieces of a file, or of zeros, that a range of addresses is: how much of it lies before the piece, where that is in the file, and
/// how long it is.
type Piece = (u64, Option<u64>, u64);

/// Which bytes of a pool lie where in its live file.
pub(in crate::medium) struct Layout {
    /// The part of the log's area that the file does not have: whole pages.
    gap: Range<u64>,
    /// Where the second stretch would begin if there were no bytes before it, so that its pages are those of the image.
    shift: u64,
}

fn stretch(place: u64) -> Range<u64> {
    match place / SECOND_END {
        0 if place < FIRST_END => 0..FIRST_END,
        0 => FIRST_END..SECOND_END,
        n => {
            let start = SECOND_END << n.ilog2();
            start..2 * start
        }
    }
}

impl Layout {
    /// That of a pool whose log has this area.
    pub(in crate::medium) fn new(area: Range<u64>) -> Layout {
        let start = area.start.next_multiple_of(PAGE_BYTES_MAX);
        // Behind a gap in the first stretch huge pages of the image are made to be those of the file; behind another one they stay so.
        let align = if start + LEAD_BYTES < FIRST_END { PAGE_BYTES_MAX } else { HUGE_PAGE_BYTES };
        let bytes = area.end.saturating_sub(start) / align * align;
        let shift = bytes.wrapping_sub(LEAD_BYTES) % HUGE_PAGE_BYTES;
        Layout { gap: start..start + bytes, shift }
    }

    /// The bytes of the pool that the file does not have.
    pub(super) fn gap(&self) -> Range<u64> {
        self.gap.clone()
    }

    /// The place behind the first bytes of the pool.
    fn place_behind(&self, bytes: u64) -> u64 {
        let behind = bytes.saturating_sub(self.gap.end);
        LEAD_BYTES + bytes.min(self.gap.start) + behind
    }

    /// Where a place lies in the file, and the mark of the first of its stretch, with what is counted before the image.
    fn in_file(&self, place: u64) -> (u64, u64) {
        let Range { start, .. } = stretch(place);
        match start {
            0 => (place - LEAD_BYTES + FIRST_END / LINE_BYTES, 0),
            FIRST_END => {
                let marks = self.shift + start;
                (marks + HUGE_PAGE_BYTES + (place - start), marks)
            }
            _ => {
                // The marks of all stretches before it take as much as its own.
                let marks = self.shift + start + start / LINE_BYTES;
                (marks + start / LINE_BYTES + (place - start), marks)
            }
        }
    }

    /// Bytes of a live file whose pool has so many.
    pub(in crate::medium) fn file_bytes(&self, pool_bytes: u64) -> u64 {
        match self.place_behind(pool_bytes) {
            LEAD_BYTES => FIRST_END / LINE_BYTES,
            place => self.in_file(place - 1).0 + 1,
        }
    }

    /// Where the stretch ends in which a pool of so many bytes does: bytes of the pool, and of the header with the marks.
    pub(super) fn stretch_end(&self, pool_bytes: u64) -> (u64, u64) {
        let place = self.place_behind(pool_bytes).max(LEAD_BYTES + 1) - 1;
        let end = stretch(place).end;
        let bytes = end - LEAD_BYTES;
        let bytes =
            if bytes >= self.gap.start { bytes + self.gap.end - self.gap.start } else { bytes };
        (bytes, end / LINE_BYTES)
    }

    /// The pieces of the file that these bytes of the pool are.
    pub(super) fn image(&self, bytes: Range<u64>) -> impl Iterator<Item = Piece> {
        let mut off = bytes.start;
        std::iter::from_fn(move || {
            if off >= bytes.end {
                return None;
            }
            let (from, done) = (off, off - bytes.start);
            if self.gap.contains(&off) {
                off = self.gap.end.min(bytes.end);
                return Some((done, None, off - from));
            }
            let place = self.place_behind(off);
            let before_gap = if off < self.gap.start { self.gap.start } else { u64::MAX };
            off += (stretch(place).end - place).min(before_gap - off).min(bytes.end - off);
            Some((done, Some(self.in_file(place).0), off - from))
        })
    }

    /// The pieces that the marks of a pool of so many bytes are.
    pub(in crate::medium) fn all_marks(&self, pool_bytes: u64) -> impl Iterator<Item = Piece> {
        self.marks(HEADER_BYTES..self.place_behind(pool_bytes).div_ceil(LINE_BYTES))
    }

    /// The pieces that these bytes of header and marks are.
    pub(super) fn marks(&self, bytes: Range<u64>) -> impl Iterator<Item = Piece> {
        let mut off = bytes.start;
        std::iter::from_fn(move || {
            if off >= bytes.end {
                return None;
            }
            let from = off;
            let Range { start, end } = stretch(off * LINE_BYTES);
            off = (end / LINE_BYTES).min(bytes.end);
            let at = self.in_file(start.max(LEAD_BYTES)).1 + from - start / LINE_BYTES;
            Some((from - bytes.start, Some(at), off - from))
        })
    }

    /// Maps the image in `file`.
    pub(super) fn map_image(
        &self,
        file: &File,
        sharing: MapFlags,
    ) -> impl Fn(*mut u8, u64, u64, MapFlags) -> io::Result<*mut u8> {
        move |at, off, bytes, flags| {
            let pieces = self.image(off..off + bytes);
            map_pieces(file, (READ_WRITE, sharing), pieces, (at, bytes), flags)
        }
    }

    /// Maps the image in `file` for a reader beside its writer.
    pub(in crate::medium) fn map_seen(
        &self,
        file: &File,
    ) -> impl Fn(*mut u8, u64, u64, MapFlags) -> io::Result<*mut u8> {
        move |at, off, bytes, flags| {
            let pieces = self.image(off..off + bytes);
            map_pieces(file, (ProtFlags::READ, MapFlags::SHARED), pieces, (at, bytes), flags)
        }
    }

    /// Maps header and marks in `file`.
    pub(super) fn map_marks(
        &self,
        file: &File,
    ) -> impl Fn(*mut u8, u64, u64, MapFlags) -> io::Result<*mut u8> {
        move |at, off, bytes, flags| {
            let pieces = self.marks(off..off + bytes);
            map_pieces(file, (READ_WRITE, MapFlags::SHARED), pieces, (at, bytes), flags)
        }
    }
}

/// Maps `pieces` one behind the other.
fn map_pieces(
    file: &File,
    (prot, sharing): (ProtFlags, MapFlags),
    pieces: impl Iterator<Item = Piece>,
    (at, bytes): (*mut u8, u64),
    flags: MapFlags,
) -> io::Result<*mut u8> {
    // In place of a mapping of its own, which readers use meanwhile, each piece at once.
    let replaces = flags.contains(MapFlags::FIXED);
    let start = if replaces {
        at
    } else {
        let reserve = MapFlags::PRIVATE | MapFlags::NORESERVE | flags;
        // SAFETY: the flags that come in replace nothing.
        unsafe { sys::map_anonymous(at, bytes, ProtFlags::empty(), reserve) }?
    };
    for (done, from, len) in pieces {
        let at = start.wrapping_add(done as usize);
        let zeros = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let mapped = match from {
            // SAFETY: replaces a part of what was reserved just now, or of the mapping itself.
            Some(from) => unsafe {
                sys::map_file(at, len, prot, sharing | MapFlags::FIXED, (file, from))
            },
            // SAFETY: the same.
            None => unsafe { sys::map_anonymous(at, len, prot, zeros) },
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const AREAS: [Range<u64>; 7] = [
        0..0,
        128 << 10..168 * MIB,
        (128 << 10) + 4096..(600 << 10) + 4096,
        128 << 10..(128 << 10) + 4096,
        4 * MIB - LEAD_BYTES..200 * MIB,
        4 * MIB..168 * MIB,
        (10 << 30) + 4096..(10 << 30) + 160 * MIB,
    ];

    #[test]
    fn all_of_a_file_is_header_marks_and_image_and_each_has_its_place() {
        for area in AREAS {
            let layout = Layout::new(area.clone());
            let gap = layout.gap();
            assert!(gap.is_empty() || area.start <= gap.start && gap.end <= area.end, "{area:?}");
            for bytes in [0, 4096, area.start, area.end, area.end + 64, 5 * MIB, 1 << 44] {
                let has = bytes - bytes.saturating_sub(gap.start).min(gap.end - gap.start);
                let (end, marks_end) = layout.stretch_end(bytes);
                assert!(bytes <= end && HEADER_BYTES + has.div_ceil(64) <= marks_end);
                let image = layout.image(0..bytes).filter_map(|(_, at, len)| Some(at?..at? + len));
                let image: Vec<_> = image.collect();
                assert_eq!(image.iter().map(|piece| piece.end - piece.start).sum::<u64>(), has);
                let marks =
                    layout.marks(0..marks_end).map(|(_, at, len)| at.unwrap()..at.unwrap() + len);
                let mut all: Vec<_> = marks.chain(image).collect();
                all.sort_by_key(|piece| piece.start);
                assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start), "{all:?}");
                let (last, file_bytes) = (all.last().unwrap().end, layout.file_bytes(bytes));
                assert_eq!(last, file_bytes, "{area:?} {bytes}");
                assert!(
                    all.len() <= 45 && file_bytes <= has + has / 31 + 5 * MIB,
                    "{area:?} {bytes}: {file_bytes}, {}",
                    all.len()
                );
                assert!(has > 3 * MIB || file_bytes <= has + (64 << 10));
            }
        }
    }

    /// Pieces begin where pages do, and huge pages of memory are those of the file behind the first stretch.
    #[test]
    fn pages_of_memory_are_pages_of_the_file() {
        for area in AREAS {
            let layout = Layout::new(area.clone());
            for (done, at, _) in layout.image(0..1 << 42) {
                let Some(at) = at else { continue };
                let page =
                    if done > area.end.max(4 * MIB) { HUGE_PAGE_BYTES } else { PAGE_BYTES_MAX };
                assert!(at.abs_diff(done).is_multiple_of(page), "{area:?}: {done} at {at}");
                assert!(done.is_multiple_of(PAGE_BYTES_MAX) && at.is_multiple_of(PAGE_BYTES_MAX));
            }
            for (done, at, _) in layout.marks(0..1 << 36) {
                let at = at.unwrap();
                assert!(done.is_multiple_of(PAGE_BYTES_MAX) && at.is_multiple_of(PAGE_BYTES_MAX));
            }
        }
    }

    #[test]
    fn what_a_pool_grows_by_lies_behind_what_it_has() {
        for area in AREAS {
            let layout = Layout::new(area.clone());
            let lens = (0..4000).map(|i| area.end + i * (64 << 10));
            let ends: Vec<_> = lens.map(|len| layout.file_bytes(len)).collect();
            assert!(ends.windows(2).all(|pair| pair[0] < pair[1]));
            let inside = layout.gap().start..layout.gap().end;
            assert_eq!(layout.file_bytes(inside.start), layout.file_bytes(inside.end));
        }
    }
}
