//! The place of the log in a pool's file, and its lines when the file is opened.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::param::page_size;

use super::disk::{Disk, aligned, store_line};
use super::format::{AREA_BYTES_MIN, BLOCK_BYTES, Head, LOG_ALIGN, Layout, Line, word};
use super::recover::{self, AreaHead, Recovered};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::FileId;
use crate::medium::live::head as live;
use crate::medium::mapped::Mapping;
use crate::medium::{Memory, Region, Storage, sys};
use crate::word::{PmU64, bits};

/// A mapped pool file, as its log sees it.
pub(in crate::medium) trait PoolView: Memory + Storage {
    fn file(&self) -> &File;

    /// The name that the file has now, which is not its own before it is published.
    fn current_path(&self) -> PathBuf;

    /// A failure of `doing` on the file.
    fn error(&self, doing: &'static str, e: io::Error) -> Error;

    /// Lets no store reach the file from now on.
    fn map_privately(&mut self) -> Result<()>;

    /// The file as stores reach it, where the pages of this mapping are private.
    fn map_pool(&self) -> Result<(Mapping, Region)>;

    /// Writes the pages of `bytes` bytes from `off` to the disk; of a file that has no name yet, nothing.
    fn sync_pages(&self, off: u64, bytes: u64) -> io::Result<()>;
}

/// No log of this many bytes is of use, and its heads count blocks in half a word.
const BYTES_MAX: u64 = 1 << 43;

/// The most pages of a folio.
pub(super) const FOLIO_PAGES_MAX: u64 = 1 << 11;

/// Bytes of the largest folio.
pub(super) fn folio_bytes() -> u64 {
    FOLIO_PAGES_MAX * page_size() as u64
}

/// Where a log's area is in a pool's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogArea {
    pub(in crate::medium) off: u64,
    pub(in crate::medium) bytes: u64,
    pub(in crate::medium) uuid: [u64; 2],
}

/// Words of the superblock: the medium is below the pool, and needs them before there is one.
const MAGIC: u64 = u64::from_le_bytes(*b"DURAHASH");
/// The format that this library reads and writes.
pub(crate) const FORMAT_VERSION: u64 = 6;
const VERSION_OFF: u64 = 16;
const GEOMETRY_OFF: u64 = 40;
const UUID_OFF: u64 = 64;
const STATE_OFF: u64 = 128;
pub(in crate::medium) const EXTENTS_OFF: u64 = 152;
/// Offsets of further extent tables, and how many.
pub(crate) const TABLES_OFF: u64 = 336;
pub(crate) const TABLES: u64 = 19;
pub(in crate::medium) const SUPERBLOCK_BYTES: u64 = 512;
/// The state's bit of a pool that was closed.
const CLEAN: u32 = 32;
const FILE_OFF: u64 = 184;
/// Where the area's offset stands, zero if there is none, and behind it how long it is.
pub(crate) const LOG_OFF: u64 = 160;

fn is_pool(magic: u64, version: u64) -> bool {
    magic == MAGIC && version == FORMAT_VERSION
}

/// Where the superblock and the extent tables of the pool in `region` are, which say where its log is: offsets
/// and bytes.
pub(super) fn head_parts(region: &Region) -> Result<Vec<(u64, u64)>> {
    let word = |off: u64| region.at::<PmU64>(off).map(PmU64::load);
    let extent_bytes = 1 << bits(word(GEOMETRY_OFF)?, 0, 6);
    let mut parts = vec![(0, extent_bytes)];
    for k in 0..TABLES {
        let off = word(TABLES_OFF + k * 8)?;
        if off != 0 {
            parts.push((off, (extent_bytes / 2) << k));
        }
    }
    Ok(parts)
}

/// Where the log of the pool in `region` lies, if it has one that can be.
pub(in crate::medium) fn log_range(region: &Region) -> Option<Range<u64>> {
    let area = LogArea::find(region).ok()??;
    Some(area.off..area.off + area.bytes)
}

impl LogArea {
    /// That which lies there, of the pool in `region`.
    pub(in crate::medium) fn at(bytes: Range<u64>, region: &Region) -> Result<LogArea> {
        let word = |off: u64| region.at::<PmU64>(off).map(PmU64::load);
        let uuid = [word(UUID_OFF)?, word(UUID_OFF + 8)?];
        Ok(LogArea { off: bytes.start, bytes: bytes.end - bytes.start, uuid })
    }

    /// The area of the pool in `region`, if it is a pool and has one. One of another version has none
    /// that is known: an open of the pool refuses it for that.
    pub(crate) fn find(region: &Region) -> Result<Option<LogArea>> {
        if region.len() < SUPERBLOCK_BYTES {
            return Ok(None);
        }
        let word = |off: u64| region.at::<PmU64>(off).map(PmU64::load);
        let (off, bytes) = (word(LOG_OFF)?, word(LOG_OFF + 8)?);
        if !is_pool(word(0)?, word(VERSION_OFF)?) || off == 0 {
            return Ok(None);
        }
        let (shift, extents) = (bits(word(GEOMETRY_OFF)?, 0, 8), word(EXTENTS_OFF)?);
        let expected_bytes = extents.checked_mul(1 << shift.min(63)).unwrap_or(0);
        if expected_bytes > region.len() {
            let found_bytes = region.len();
            return Err(ErrorKind::Truncated { found_bytes, expected_bytes }.into());
        }
        let aligned = [off, bytes].iter().all(|v| v.is_multiple_of(LOG_ALIGN));
        let fits = off.checked_add(bytes).is_some_and(|end| end <= region.len());
        if !aligned || !fits || !(AREA_BYTES_MIN..=BYTES_MAX).contains(&bytes) {
            return Err(Error::corrupt("place of the log", LOG_OFF));
        }
        Ok(Some(LogArea { off, bytes, uuid: [word(UUID_OFF)?, word(UUID_OFF + 8)?] }))
    }

    /// As [`Disk::written_in`], of the pool in `file`; where the system does not tell, or what cannot be, all from there on.
    pub(in crate::medium) fn written_in(self, file: &File, bytes: Range<u64>) -> Vec<Range<u64>> {
        let (mut parts, mut at, end) = (Vec::new(), self.off + bytes.start, self.off + bytes.end);
        while at < end
            && let Some(from) = sys::data_from(file, at).unwrap_or(Some(at))
            && from < end
        {
            let from = from.max(at);
            let hole = sys::hole_from(file, from).ok().filter(|hole| *hole > from);
            at = hole.map_or(end, |hole| hole.min(end));
            parts.push(from - self.off..at - self.off);
        }
        parts
    }

    /// The parts of all of it, for a log that has `head`: the ring begins and ends with a folio where the
    /// area ends with one.
    pub(super) fn whole(self, head: &Head) -> Layout {
        let (folio, end) = (folio_bytes(), self.off + self.bytes);
        let (plain, now) = (Layout::of(self.bytes), head.parts);
        let plain = if plain.ring_off() < now.ring_off() { now } else { plain };
        if now.bytes() == self.bytes {
            return now;
        }
        if !end.is_multiple_of(folio) {
            return plain;
        }
        // The folio nearest to where an eighth is for staged lines; none in which there were staged lines.
        let first = self.off + now.ring_off().max(Layout::first(self.bytes).ring_off());
        let near = (self.off + plain.ring_off() + folio / 2) / folio * folio;
        let ring = near.max(first.next_multiple_of(folio));
        if ring < end { Layout::with_ring_at(self.bytes, ring - self.off) } else { plain }
    }

    /// True if no folio has both pages of the ring and others, once all of it is used with these parts.
    pub(super) fn stands_apart(self, whole: Layout) -> bool {
        let (ring, end) = (self.off + whole.ring_off(), self.off + whole.bytes());
        ring.is_multiple_of(folio_bytes()) && end.is_multiple_of(folio_bytes())
    }
}

/// True if the pool in `region` was used without a log and not closed: pages of it may not be on the disk
/// although the system calls them clean, as an earlier process may have failed to sync them.
pub(in crate::medium) fn is_left_in_cache(region: &Region) -> Result<bool> {
    const PAGE_CACHE: u32 = 34;
    if region.len() < SUPERBLOCK_BYTES {
        return Ok(false);
    }
    let state = region.at::<PmU64>(STATE_OFF)?.load();
    Ok(bits(state, CLEAN, 1) == 0 && bits(state, PAGE_CACHE, 1) == 1)
}

/// How long the pool in `region` says it is, if there is one.
pub(in crate::medium) fn said_bytes(region: &Region) -> Result<Option<u64>> {
    if region.len() < SUPERBLOCK_BYTES {
        return Ok(None);
    }
    let word = |off: u64| region.at::<PmU64>(off).map(PmU64::load);
    if !is_pool(word(0)?, word(VERSION_OFF)?) {
        return Ok(None);
    }
    bytes_of(region, word(EXTENTS_OFF)?)
}

/// How long the pool in `region` is if it has so many extents, `None` if that is no possible size.
pub(in crate::medium) fn bytes_of(region: &Region, extents: u64) -> Result<Option<u64>> {
    let shift = bits(region.at::<PmU64>(GEOMETRY_OFF)?.load(), 0, 6) as u32;
    let bytes = extents.checked_shl(shift).filter(|bytes| bytes >> shift == extents);
    Ok(bytes.filter(|bytes| *bytes >= SUPERBLOCK_BYTES))
}

/// The same; the length of the region if there is no pool, or it says that it is longer.
pub(in crate::medium) fn pool_bytes(region: &Region) -> Result<u64> {
    let len = region.len();
    Ok(said_bytes(region)?.map_or(len, |bytes| bytes.min(len)))
}

/// True if the pool in `region` was open in another file: this one, `file`, is a copy.
pub(in crate::medium) fn is_copy(region: &Region, file: FileId) -> Result<bool> {
    let word = |off: u64| region.at::<PmU64>(off).map(PmU64::load);
    Ok(region.len() >= SUPERBLOCK_BYTES
        && is_pool(word(0)?, word(VERSION_OFF)?)
        && bits(word(STATE_OFF)?, CLEAN, 1) == 0
        && file.differs(FileId(word(FILE_OFF)?)))
}

/// True if the pool whose file begins with `bytes` was closed.
pub(in crate::medium) fn is_closed(bytes: &[u8; SUPERBLOCK_BYTES as usize]) -> bool {
    let word = |off: u64| word(bytes, off as usize);
    is_pool(word(0), word(VERSION_OFF)) && bits(word(STATE_OFF), CLEAN, 1) == 1
}

/// Lets the pool in `region` say that it lies in `file`.
pub(in crate::medium) fn name_file(region: &Region, file: FileId) -> Result<()> {
    let word = |off: u64| region.at::<PmU64>(off);
    if region.len() < SUPERBLOCK_BYTES || !is_pool(word(0)?.load(), word(VERSION_OFF)?.load()) {
        return Err(Error::corrupt("the copy is no pool", 0));
    }
    word(FILE_OFF)?.store(file.0);
    Ok(())
}

/// Two heads of a log, each with its place in the area.
type Heads = [(u64, Vec<u8>); 2];

/// Those of an empty log of pool `uuid` in an area of so many bytes: of a ring beside a live image, or of lines.
pub(super) fn empty_heads(area_bytes: u64, uuid: [u64; 2], is_ring: bool) -> Result<Heads> {
    let head = Recovered::nothing(uuid, Layout::first(area_bytes)).next(true)?;
    if is_ring {
        return Ok(ring_heads(&head));
    }
    Ok(head.pair().map(|head| (head.off(), head.to_bytes())))
}

/// Those of an empty ring in the place of a log that was closed with `log`. No live image that is there belongs to it.
fn ring_heads(log: &Head) -> Heads {
    let heads = log_as_ring(log).disowned().pair();
    heads.map(|head| (head.off(), head.to_bytes()))
}

/// What makes the log of the pool in `region` an empty ring, where its area is zeros: bytes of the pool.
pub(in crate::medium) fn empty_log(region: &Region) -> Result<Vec<(u64, Vec<u8>)>> {
    let Some(area) = LogArea::find(region)? else {
        return Ok(Vec::new());
    };
    let heads = empty_heads(area.bytes, area.uuid, true)?;
    Ok(heads.into_iter().map(|(at, head)| (area.off + at, head)).collect())
}

/// The contents of a file's log when it was opened.
pub(in crate::medium) struct OldLog {
    pub(in crate::medium) area: LogArea,
    /// The parts of the area when all of it is used.
    pub(super) whole: Layout,
    pub(in crate::medium) found: Recovered,
    /// The head of a ring of batches, if the area has one; the log is an empty one then.
    pub(in crate::medium) ring: Option<live::Head>,
}

impl OldLog {
    /// Looks at the log of the pool in `view`, if it has one. Changes nothing but the contents of `view`, if
    /// the log was not closed: the file as it is, in private pages, with the lines of the log.
    pub(in crate::medium) fn look(view: &mut impl PoolView) -> Result<Option<OldLog>> {
        let Some(area) = LogArea::find(view.region())? else {
            return Ok(None);
        };
        let head = match recover::newest_of_any(&View::new(view, area), area.uuid)? {
            AreaHead::Lines(head) => head,
            AreaHead::Ring(ring) => {
                // What lies behind its head is not looked at here, and the base as it is not stored to.
                if !ring.closed {
                    view.map_privately()?;
                }
                let head = ring_as_log(&ring, area.uuid);
                let (whole, found) = (area.whole(&head), Recovered::behind(head, false));
                return Ok(Some(OldLog { area, whole, found, ring: Some(ring) }));
            }
        };
        if !head.closed {
            view.map_privately()?;
        }
        // Where it cannot be had, through the page cache.
        let whole = area.whole(&head);
        let past_cache = if area.stands_apart(whole) {
            open_same(view, sys::open_direct).map_err(|e| view.error(OPENING, e))?
        } else {
            None
        };
        let ring = area.off + head.parts.ring_off();
        let mut buffer = Vec::new();
        let block = aligned(&mut buffer, BLOCK_BYTES);
        let past_cache = past_cache.filter(|file| sys::read_at(file, block, ring).is_ok());
        let found = recover::look(&View { past_cache, ..View::new(view, area) }, head)?;
        // Later reads of the image must be about this log.
        if LogArea::find(view.region())? != Some(area) {
            return Err(Error::corrupt(
                "the log holds a line that overwrites the log's own location",
                LOG_OFF,
            ));
        }
        Ok(Some(OldLog { area, whole, found, ring: None }))
    }

    /// True if the pool in `region` still has this log.
    pub(in crate::medium) fn is_there(&self, region: &Region) -> Result<bool> {
        Ok(LogArea::find(region)? == Some(self.area))
    }

    /// The part of its area that the log does not use: a hole of the file.
    pub(in crate::medium) fn unused(&self) -> Range<u64> {
        let LogArea { off, bytes, .. } = self.area;
        off + self.found.used_bytes()..off + bytes
    }

    /// True if the pages of the view are private.
    pub(in crate::medium) fn is_private(&self) -> bool {
        !self.found.is_closed() || self.is_in_image()
    }

    /// True if the pool is in a live image, with a ring that was not closed.
    pub(in crate::medium) fn is_in_image(&self) -> bool {
        self.ring.is_some_and(|ring| !ring.closed)
    }

    /// True if that was of another file: this one, `file`, is a copy.
    pub(in crate::medium) fn is_copied(&self, file: FileId) -> bool {
        self.ring.is_some_and(|ring| !ring.closed && file.differs(ring.pool))
    }
}

/// The head of an empty log of lines in the place of a ring with this one.
fn ring_as_log(ring: &live::Head, uuid: [u64; 2]) -> Head {
    let parts = Layout::of(live::RING_OFF + ring.ring_bytes);
    let (generation, line) = (ring.generation, ring.line);
    Head { generation, uuid, salt: 0, line, block: 0, chain: 0, closed: true, parts }
}

/// The head of an empty ring in the place of a log that was closed with this one.
pub(in crate::medium) fn log_as_ring(log: &Head) -> live::Head {
    let ring_bytes = log.parts.bytes() - live::RING_OFF;
    live::Head::empty(log.generation, log.uuid, ring_bytes / LOG_ALIGN * LOG_ALIGN, log.line)
}

/// Brings the lines of `old` from the private pages of `view` into the pool, which is used without a log
/// from now on. A log that was closed is closed again: the head that says so was only read, and may not be
/// on the disk, where an older one would bring its lines back over later stores. A ring stays one, whose live image is not
/// used any more.
pub(in crate::medium) fn begin_file(view: &impl PoolView, old: &OldLog) -> Result<()> {
    if let Some(ring) = old.ring {
        let disk = View::new(view, old.area);
        let mut heads = ring.disowned().pair().into_iter();
        return heads
            .try_for_each(|head| disk.write_log(head.off(), &head.to_bytes()))
            .map_err(|e| view.error(OPENING, e));
    }
    let pool = if old.is_private() { Some(view.map_pool()?) } else { None };
    let disk = View { pool: pool.as_ref(), ..View::new(view, old.area) };
    recover::begin(&disk, &old.found, old.found.next(true)?)
}

/// The disk of a file that is only recovered.
pub(in crate::medium) struct View<'a, V, L = ()> {
    pub(in crate::medium) view: &'a V,
    area: LogArea,
    /// The file for reads past the page cache.
    past_cache: Option<File>,
    /// Where the pool is written, if the pages of `view` are private.
    pool: Option<&'a (Mapping, Region)>,
    /// Where the live file is, for a reader of one.
    pub(in crate::medium) live: L,
}

impl<'a, V: PoolView> View<'a, V> {
    pub(in crate::medium) fn new(view: &'a V, area: LogArea) -> Self {
        View { view, area, past_cache: None, pool: None, live: () }
    }

    pub(in crate::medium) fn with_live<L>(self, live: L) -> View<'a, V, L> {
        let View { view, area, past_cache, pool, .. } = self;
        View { view, area, past_cache, pool, live }
    }
}

impl<V: PoolView, L: Send + Sync> Disk for View<'_, V, L> {
    fn region(&self) -> &Region {
        self.view.region()
    }

    fn log_bytes(&self) -> u64 {
        self.area.bytes
    }

    fn read_log(&self, off: u64, bytes: &mut [u8]) -> io::Result<()> {
        sys::read_at(self.view.file(), bytes, self.area.off + off)
    }

    fn read_ring(&self, off: u64, bytes: &mut [u8]) -> io::Result<()> {
        let file = self.past_cache.as_ref().unwrap_or(self.view.file());
        sys::read_at(file, bytes, self.area.off + off)
    }

    fn written_in(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        self.area.written_in(self.view.file(), bytes)
    }

    fn reads_drive(&self) -> bool {
        self.past_cache.is_some()
    }

    /// A sync of data flushes the drive, even without data.
    fn flush_drive(&self) -> io::Result<()> {
        sys::sync_file_data(self.view.file())
    }

    fn write_log(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        sys::write_at(self.view.file(), bytes, self.area.off + off)?;
        sys::sync_file(self.view.file())
    }

    fn staged(&self) -> Option<&[PmU64]> {
        None
    }

    fn write_line(&self, off: u64, line: &Line) {
        store_line(self.pool.map_or(self.region(), |(_, region)| region), off, line);
    }

    fn read_pool(&self, off: u64, bytes: &mut [u8]) -> Result<()> {
        let pool = self.pool.map_or(self.region(), |(_, region)| region);
        self.view.copy_out(pool.words(off, bytes.len() as u64 / 8)?, 0, bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let sync = |off, bytes| match self.pool {
            Some((mapping, _)) => mapping.sync(off, bytes),
            None => self.view.sync_pages(off, bytes),
        };
        // All but the area, which would cost as much again.
        let end = self.area.off + self.area.bytes;
        sync(0, self.area.off)?;
        sync(end, self.region().len() - end)
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        Storage::grow(self.view, bytes)
    }

    fn trim(&self, bytes: u64) -> Result<()> {
        Storage::trim(self.view, bytes)
    }

    fn path(&self) -> Option<&Path> {
        self.view.path()
    }
}

pub(in crate::medium) const OPENING: &str = "opening the pool";

/// The file of `view`, opened in another way; `None` where that cannot be done. Without a /proc its name is used, and `None`
/// is the answer also where that leads to another file by now.
pub(in crate::medium) fn open_same(
    view: &impl PoolView,
    open: impl Fn(&Path) -> io::Result<File>,
) -> io::Result<Option<File>> {
    match open(&sys::link_to(view.file())) {
        Err(e) if sys::is_no_proc(&e) => {}
        opened => return Ok(opened.ok()),
    }
    let Ok(file) = open(&view.current_path()) else {
        return Ok(None);
    };
    let (own, other) = (sys::metadata(view.file())?, sys::metadata(&file)?);
    let same = (own.dev(), own.ino()) == (other.dev(), other.ino());
    Ok(Some(file).filter(|_| same))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::make::end_of_log;
    use super::*;
    use crate::medium::logged::recover::Recovered;

    /// Wherever an area lies, and whatever its parts: bytes written past the cache were never staged.
    #[test]
    fn all_of_an_area_has_its_ring_behind_what_was_staged_before() {
        const EXTENT_BYTES: u64 = 64 << 10;
        for log_bytes in [512 << 10, 2 << 20, 8 << 20, 33 << 20, 64 << 20] {
            for off in (2..300).map(|i| i * EXTENT_BYTES) {
                let near = end_of_log(off, log_bytes).unwrap_or(off + log_bytes);
                for end in [near, (off + log_bytes).next_multiple_of(folio_bytes())] {
                    let bytes = end - off;
                    assert!(bytes >= log_bytes);
                    let area = LogArea { off, bytes, uuid: [0, 0] };
                    let mut parts = Layout::first(bytes);
                    for _ in 0..20 {
                        let nothing = Recovered::nothing(area.uuid, parts);
                        let whole = area.whole(&nothing.next(true).unwrap());
                        assert!(whole.bytes() <= bytes && whole.ring_blocks > 0);
                        assert!(whole.ring_off() >= parts.ring_off(), "{area:?}");
                        let next = Layout::of(parts.bytes() * 2);
                        let fits = next.bytes() < whole.bytes();
                        parts =
                            if fits && next.ring_off() <= whole.ring_off() { next } else { whole };
                    }
                    assert_eq!(parts.bytes(), bytes);
                    let head = Recovered::nothing(area.uuid, parts).next(true).unwrap();
                    assert_eq!(area.whole(&head), parts, "the same on a machine with other pages");
                }
            }
        }
    }
}
