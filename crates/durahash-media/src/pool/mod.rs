//! Pools: one file, or one anonymous mapping, of extents.
//!
//! A pool begins with the [superblock](Superblock) and an extent table, one byte for each extent
//! of a small pool (`table.rs`); all else is extents of one [`ExtentKind`] each. It has one map, which the
//! superblock describes, and may have others (`maps.rs`); each has its own [`Place`]. Space is found again by
//! reachability: space that no root reaches is free, so a crash never leaks and no allocation log is
//! needed.
//!
//! # Invariants
//! - **POOL-1** The first [`extents`](Superblock::extents) extents are backed by the file, never
//!   sparsely; the word is stored after they are. The table says free of all others.
//! - **POOL-2** The table says an extent's kind, durably, before any thread can link into it.
//!   An extent may hold any bytes when it is taken.
//! - **POOL-3** The state word says unclean, on the disk, before the first store of an open
//!   ([`Pool::begin`]), or with it where the medium keeps cuts; and clean only after all data are where the medium keeps them.
//! - **POOL-4** A block that was not stored to since the last close has the check word that is stored for
//!   it (`checks.rs`).
//!
//! # Steps
//!
//! | Operation | Stores | Then | If it stops after this step |
//! |---|---|---|---|
//! | begin | (file) | holes filled | the same bytes |
//! | begin, if power was lost | root words that are doubted: 0 | flush, drain, sync | still lost to the next open; designs do without these words |
//! | | state: suspect | flush, drain, sync | lost and suspect |
//! | begin | boot id, then state: epoch + 1, unclean (one line) | flush, drain, sync, but where the medium keeps cuts: each that has a later store has these | recovered at the next open; in an older cut, as it was |
//! | grow | (file) | allocated and mapped | file longer than the pool: cut or used later |
//! | | extents | flush, fence | extents exist, kind 0 |
//! | grow past a table | see `table.rs` | | |
//! | take an extent | table byte (word of eight) | flush, fence | extent of that kind in which nothing is reachable |
//! | release an extent | table byte | flush, fence | found to be free again, whatever the table says |
//! | take a chunk or a run | table bytes of its extents, in any order | flush, fence (that of a run comes with what is written there) | rests without a head: free; a shorter chunk or run, in which nothing is reachable |
//! | release a chunk or a run | table bytes, that of the last extent first | flush, fence of each | a shorter chunk or run, in which nothing is reachable |
//! | make a log | see `log.rs` | | |
//! | make, rename, remove a map | see `maps.rs` | | |
//! | first store to a block | see `checks.rs` | | |
//! | close | saved counters, their CRC | sync of everything | unclean; counters ignored |
//! | | check words, see `checks.rs` | sync | the same |
//! | | state: clean | flush, drain, sync | closed |
//! | | (file) | cut behind the last extent in use | file longer than the pool |

mod alloc;
mod blocks;
mod checks;
#[cfg(test)]
mod chunk_tests;
mod class;
mod extents;
mod gate;
mod log;
#[cfg(test)]
mod log_tests;
mod map_table;
mod maps;
mod place;
mod readers;
#[cfg(test)]
mod sum_tests;
mod superblock;
mod sweep;
mod table;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod verify;

pub use blocks::PoolStats;
pub use extents::ExtentKind;
pub use gate::Gate;
pub use map_table::MapEntry;
pub use place::Place;
pub use superblock::{Format, Geometry, Superblock};

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::identity::FileId;
use crate::lock::{wait_for, wait_lock};
use crate::medium::{Changes, Durability, Medium};
use crate::word::{OnMedia, PmU64};
use blocks::Blocks;
use checks::Checks;
use class::Classes;
use extents::Extents;
use map_table::Maps;
use superblock::State;
use table::Table;

/// A pool on a medium. See the module docs in the source.
pub struct Pool<M: Medium> {
    pub(crate) medium: M,
    format: Format,
    uuid: [u64; 2],
    state: State,
    /// The state word that was read at the open, and how many maps had been removed.
    read_state: (u64, u64),
    /// The state of a pool that lost power, until this open has marked it as suspect.
    lost: Option<State>,
    /// Offsets of the root words that become zero then.
    doubted: Mutex<Vec<u64>>,
    /// True if the last writer closed the pool.
    was_clean: bool,
    read_only: bool,
    gate: Gate,
    begun: AtomicBool,
    /// The next open makes a log, and no use of check words.
    is_for_log: AtomicBool,
    pub(crate) maps: Mutex<Maps>,
    /// Where the kinds of extents stand.
    pub(crate) table: Arc<Table>,
    pub(crate) classes: Classes,
    /// There are check words, of which the first store to a block takes note.
    has_checks: bool,
    checks: Arc<Checks>,
    pub(crate) extents: Mutex<Extents>,
    pub(crate) blocks: Mutex<Blocks>,
}

impl<M: Medium> Pool<M> {
    /// Formats `medium`, which is empty. The pool is unclean until [`close`](Pool::close); a file
    /// gets its name by [`publish`](Pool::publish), after the design has made its root, with which
    /// all that was flushed before is durable.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) for a geometry or limit that cannot be;
    /// [`Full`](ErrorKind::Full) where the first extents do not fit.
    pub fn create(medium: M, format: &Format) -> Result<Self> {
        let path = medium.path().map(Path::to_path_buf);
        Self::make(medium, format).map_err(|e| e.at_path(path.as_deref()))
    }

    fn make(medium: M, format: &Format) -> Result<Self> {
        let mut format = format.clone();
        if !format.geometry.is_possible() {
            return Err(ErrorKind::Options { what: "the geometry is out of range" }.into());
        }
        if format.is_limited() {
            format.max_bytes = format.max_bytes.min(medium.region().max_bytes()).min(1 << 48);
            format.max_bytes &= !(format.extent_bytes() - 1);
        }
        if format.max_extents() <= 1 {
            let what = "max_bytes is too small for a pool, which has two extents at least, 128 KiB; some designs need 256";
            return Err(ErrorKind::Options { what }.into());
        }
        medium.grow(format.extent_bytes())?;
        let uuid = medium.new_uuid()?;
        let state = State {
            epoch: 1,
            clean: false,
            suspect: false,
            page_cache: medium.durability() == Durability::Process,
        };
        let superblock = medium.region().at::<Superblock>(0)?;
        superblock.write_fixed(&medium, &format, uuid)?;
        superblock.write_boot_id(&medium);
        superblock.name_file(&medium);
        medium.store(&superblock.extents, 1);
        medium.store(&superblock.state, state.to_word());
        medium.flush(superblock);
        let table = Arc::new(Table::create(&format));
        let classes = Classes::new(format.extent_bytes());
        let extents = Extents::create(&medium, &format, &table)?;
        Ok(Pool {
            read_only: false,
            gate: Gate::default(),
            begun: AtomicBool::new(true),
            is_for_log: AtomicBool::new(false),
            maps: Mutex::new(Maps::new(&format, None)),
            has_checks: false,
            checks: Arc::clone(&extents.checks),
            blocks: Mutex::new(Blocks::new(&extents, &classes, format.extent_bytes())),
            extents: Mutex::new(extents),
            table,
            classes,
            medium,
            format,
            uuid,
            state,
            read_state: (0, 0),
            lost: None,
            doubted: Mutex::default(),
            was_clean: true,
        })
    }

    /// The format of the pool on `medium`. Writes nothing.
    ///
    /// # Errors
    /// [`NotAPool`](ErrorKind::NotAPool), [`Version`](ErrorKind::Version),
    /// [`ByteOrder`](ErrorKind::ByteOrder), [`Corrupt`](ErrorKind::Corrupt) as the bytes are.
    pub fn peek(medium: &M) -> Result<Format> {
        let read = Self::read_fixed(medium).map(|(_, (format, _))| format);
        read.map_err(|e| e.at_path(medium.path()))
    }

    fn read_fixed(medium: &M) -> Result<(&Superblock, (Format, [u64; 2]))> {
        if medium.region().len() < size_of::<Superblock>() as u64 {
            let why = "it is too short";
            return Err(ErrorKind::NotAPool { why }.into());
        }
        let superblock = medium.region().at::<Superblock>(0)?;
        Ok((superblock, superblock.read_fixed(medium)?))
    }

    /// Opens the pool on `medium`. Nothing is written before [`begin`](Pool::begin). Space of units
    /// is found by the design's recovery, space of record blocks by the
    /// [sweep](Pool::sweep_pending).
    ///
    /// # Errors
    /// [`NotAPool`](ErrorKind::NotAPool), [`Version`](ErrorKind::Version),
    /// [`ByteOrder`](ErrorKind::ByteOrder), [`Truncated`](ErrorKind::Truncated),
    /// [`Corrupt`](ErrorKind::Corrupt) as the bytes are; [`PowerLoss`](ErrorKind::PowerLoss) unless
    /// `accept_suspect`. The file is untouched then.
    pub fn open(medium: M, accept_suspect: bool) -> Result<Self> {
        let path = medium.path().map(Path::to_path_buf);
        Self::read(medium, accept_suspect).map_err(|e| e.at_path(path.as_deref()))
    }

    fn read(medium: M, accept_suspect: bool) -> Result<Self> {
        let found_bytes = medium.region().len();
        let (superblock, (format, uuid)) = Self::read_fixed(&medium)?;
        let extents = medium.load(&superblock.extents);
        if extents == 0 || extents > format.max_extents() {
            return Err(Error::corrupt("number of extents out of range", 152));
        }
        let expected_bytes = extents << format.geometry.extent_shift;
        if found_bytes < expected_bytes {
            return Err(ErrorKind::Truncated { found_bytes, expected_bytes }.into());
        }
        let removed_maps = medium.changes().map_or(0, Changes::removed_maps);
        let before = superblock.state(&medium);
        let before = State { clean: before.clean && !medium.is_copy(), ..before };
        let booted = [medium.load(&superblock.boot_id[0]), medium.load(&superblock.boot_id[1])];
        let same_boot = booted == medium.boot_id() && booted != UNKNOWN_BOOT;
        let lost = !before.clean && before.page_cache && !same_boot;
        let named = FileId(medium.load(&superblock.file));
        let copied = !before.clean && (medium.is_copy() || medium.file_id().differs(named));
        if (lost || copied) && !accept_suspect {
            return Err(if copied { ErrorKind::Copied } else { ErrorKind::PowerLoss }.into());
        }
        let lost = lost || copied;
        let loaded = superblock.counters().load(&medium, before);
        let table = Arc::new(Table::open(&medium, &format, extents)?);
        let classes = Classes::new(format.extent_bytes());
        let extents = Extents::open(&medium, &format, extents, &table, &classes, lost)?;
        let state = State {
            epoch: before.epoch.wrapping_add(1),
            clean: false,
            suspect: before.suspect || lost,
            // Stores of an earlier open may still be in the page cache, but where a log was
            // begun after a sync.
            page_cache: medium.durability() == Durability::Process
                || (before.page_cache && !before.clean && medium.log_stats().is_none()),
        };
        let lost = lost.then_some(before);
        let blocks = Blocks::new(&extents, &classes, format.extent_bytes());
        let has_checks = extents.checks.exist() && medium.disk_sums().is_none();
        let gate = Gate::default();
        gate.stop();
        let pool = Pool {
            read_only: medium.read_only(),
            gate,
            begun: AtomicBool::new(false),
            is_for_log: AtomicBool::new(false),
            maps: Mutex::new(Maps::new(&format, loaded)),
            medium,
            format,
            uuid,
            state,
            read_state: (before.to_word(), removed_maps),
            lost,
            doubted: Mutex::default(),
            was_clean: before.clean,
            has_checks,
            checks: Arc::clone(&extents.checks),
            extents: Mutex::new(extents),
            table,
            classes,
            blocks: Mutex::new(blocks),
        };
        pool.read_maps(before)?;
        pool.check_readable(before)?;
        Ok(pool)
    }

    /// Begins to write: from here on the pool is unclean, on the disk. A design calls this when its
    /// recovery has found the map sound, and before its first store; a pool that is refused before is
    /// left as it was. Of several maps, all of which are sound, the first begins for all.
    ///
    /// # Errors
    /// [`Full`](ErrorKind::Full) where the file has holes and there is no space to fill them;
    /// [`Io`](ErrorKind::Io) when the state could not be synced.
    pub fn begin(&self) -> Result<()> {
        if self.begun.swap(true, Ordering::SeqCst) || self.looks_on() {
            return Ok(());
        }
        let medium = &self.medium;
        // Not before: a pool that is not sound is left as it was, holes too.
        medium.begin()?;
        if !self.was_clean {
            medium.write_back()?;
        }
        let superblock = self.at::<Superblock>(0)?;
        let bytes = size_of::<Superblock>() as u64;
        if let Some(before) = self.lost {
            // First of all: under the new boot id nothing would tell that power was lost.
            self.checks.forget(medium)?;
            medium.sync(0, bytes)?;
            for off in wait_lock(&self.doubted, medium).drain(..) {
                self.store_word(self.at(off)?, 0);
                medium.sync(off, size_of::<PmU64>() as u64)?;
            }
            self.store_state(State { suspect: true, ..before })?;
            medium.sync(0, bytes)?;
        }
        // In the state's line, with which it is flushed; it is read only where the sync matters.
        superblock.write_boot_id(medium);
        superblock.name_file(medium);
        self.store_state(self.state)?;
        if !self.read_only {
            let before = State::from_word(self.read_state.0);
            // A cut is before this open, or has all of the above. But what no cut shows is told first; who backs up beside this
            // process takes the last batch that is noted for one of its own; and behind a batch the pool that was closed is no
            // more taken for this one, if it comes back into its place.
            let is_told = self.lost.is_some() || before.page_cache || before.clean;
            let is_told = is_told || medium.changes().is_some();
            if is_told || !medium.keeps_cuts() {
                medium.sync(0, bytes)?;
            }
            self.gate.start();
        }
        if !self.checks.exist() {
            // Those of a loss of power, or damaged.
            self.checks.forget(medium)?;
        }
        self.begin_sums()?;
        wait_lock(&self.extents, medium).release_headless(medium)?;
        self.remove_halves()
    }

    #[track_caller]
    fn store_state(&self, state: State) -> Result<()> {
        self.store_word(&self.at::<Superblock>(0)?.state, state.to_word());
        Ok(())
    }

    #[track_caller]
    fn store_word(&self, word: &PmU64, v: u64) {
        self.medium.store(word, v);
        self.medium.flush(word);
        self.medium.drain();
    }

    /// Puts a new pool in its place: everything is synced, then its file gets its name.
    ///
    /// # Errors
    /// [`Exists`](ErrorKind::Exists), [`Io`](ErrorKind::Io).
    pub fn publish(&self) -> Result<()> {
        self.medium.sync(0, self.medium.region().len())?;
        self.medium.publish()
    }

    /// The medium.
    #[inline(always)]
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// The pool's format.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The pool never has more bytes, where it lies.
    pub fn max_bytes(&self) -> u64 {
        self.format.max_bytes.min(self.medium.region().max_bytes())
    }

    /// The random name of this pool.
    pub fn uuid(&self) -> [u64; 2] {
        self.uuid
    }

    /// The number of this open: larger than that of every open before.
    pub fn epoch(&self) -> u32 {
        self.state.epoch
    }

    /// True if the pool was ever opened although pages may have been missing.
    pub fn is_suspect(&self) -> bool {
        self.state.suspect
    }

    /// True if pages may be missing, or older than others, since the last open: power was lost, or the file was
    /// copied while it was in use.
    pub fn may_lack_pages(&self) -> bool {
        self.lost.is_some()
    }

    /// True if the pool is new or was closed cleanly before this open.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// True if this is a read-only open.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The `T` at `off`.
    ///
    /// # Errors
    /// As [`Region::at`](crate::Region::at).
    #[inline(always)]
    pub fn at<T: OnMedia>(&self, off: u64) -> Result<&T> {
        self.medium.region().at(off)
    }

    /// `count` words from `off`.
    ///
    /// # Errors
    /// As [`Region::words`](crate::Region::words).
    #[inline]
    pub fn words(&self, off: u64, count: u64) -> Result<&[PmU64]> {
        self.medium.region().words(off, count)
    }

    /// True if the pool takes writes.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly), [`Poisoned`](ErrorKind::Poisoned).
    #[inline(always)]
    pub fn writable(&self) -> Result<()> {
        if self.gate.is_stopped() { self.refuses() } else { Ok(()) }
    }

    #[cold]
    fn refuses(&self) -> Result<()> {
        let kind = if self.read_only { ErrorKind::ReadOnly } else { ErrorKind::Poisoned };
        Err(Error::from(kind).at_path(self.medium.path()))
    }

    /// True if the pool takes a write of `h` by the caller, who has the lock of its bucket; if not, a batch is
    /// under way that may change it, and the caller releases the lock and [waits](Pool::wait_for_batch).
    ///
    /// # Errors
    /// As [`writable`](Pool::writable).
    #[inline(always)]
    pub fn admits(&self, h: u64, in_batch: bool) -> Result<bool> {
        let admits = self.gate.is_open() || in_batch && !self.gate.is_stopped();
        if admits { Ok(true) } else { self.admits_some(h, in_batch) }
    }

    #[cold]
    fn admits_some(&self, h: u64, in_batch: bool) -> Result<bool> {
        self.writable()?;
        Ok(in_batch || !self.gate.is_closed_for(h))
    }

    /// Waits while a batch is under way that may change `h`.
    pub fn wait_for_batch(&self, h: u64) {
        let may_go_on = || self.gate.is_stopped() || !self.gate.is_closed_for(h);
        wait_for(&self.medium, || may_go_on().then_some(()));
    }

    /// The gate of writers.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Lets a reader store to its own copy of the pool, in which it recovers what the file keeps as it is.
    pub fn recover_copy(&self, is_begin: bool) {
        debug_assert!(!self.looks_on(), "it has no copy of its own");
        if self.read_only {
            if is_begin { self.gate.start() } else { self.gate.stop() }
        }
    }

    /// Closes the pool to writes until it is opened again: an operation broke off, or a sync
    /// failed. Acknowledged changes stay.
    pub fn poison(&self) {
        self.gate.stop();
    }

    /// The batch that is being applied, as [`set_batch`](Pool::set_batch) has named it; 0 is none.
    ///
    /// # Errors
    /// Never for a pool that is open; the bounds are checked all the same.
    pub fn batch(&self) -> Result<u64> {
        Ok(self.medium.load(&self.at::<Superblock>(0)?.batch))
    }

    /// Names the batch that is being applied, by one durable store.
    ///
    /// # Errors
    /// Never for a pool that is open; the bounds are checked all the same.
    pub fn set_batch(&self, name: u64) -> Result<()> {
        let word = &self.at::<Superblock>(0)?.batch;
        self.touch(0);
        self.medium.store(word, name);
        self.medium.flush(word);
        self.medium.drain();
        Ok(())
    }

    /// Says that a log is made for this pool, which is new and empty, as soon as it is closed: the close leaves no
    /// check words.
    pub fn await_log(&self) {
        self.is_for_log.store(true, Ordering::Relaxed);
    }

    /// Closes the pool: nothing may be under way. Data first, then the clean flag, then the file is
    /// cut behind its last extent in use. A poisoned pool stays unclean.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) from the sync or the cut. Nothing is lost then: the pool is recovered at the next
    /// open, or its file is longer than it need be.
    pub fn close(&self) -> Result<()> {
        self.writable()?;
        self.gate.stop();
        self.retire_free_block_extents()?;
        let medium = &self.medium;
        let superblock = self.at::<Superblock>(0)?;
        let records = self.checks_records();
        let (extents, checked) = {
            let mut extents = wait_lock(&self.extents, medium);
            let is_for_log = self.is_for_log.load(Ordering::Relaxed);
            if medium.durability() != Durability::None && !is_for_log {
                extents.make_checks(medium)?;
            }
            (extents.cut(medium)?, extents.checked(records))
        };
        let state = State { clean: true, ..self.state };
        self.checks.touch(medium, 0);
        self.save_counters(state)?;
        if medium.log_stats().is_some() {
            // A log knows only what was flushed. Elsewhere the sync takes the counters along, and
            // where it does not, their checksum says so.
            medium.flush(superblock);
        }
        let bytes = extents << self.format.geometry.extent_shift;
        let sync = |off, bytes| if medium.keeps_cuts() { Ok(()) } else { medium.sync(off, bytes) };
        sync(0, bytes)?;
        match (self.checks.area(), medium.disk_sums()) {
            (Some(_), Some(sums)) => sums.complete(&checked)?,
            (Some(area), None) => {
                self.checks.renew(medium, &checked);
                let Range { start, end } = area.bytes();
                medium.sync(start, end - start)?;
            }
            (None, _) => {}
        }
        self.store_state(state)?;
        medium.sync(0, size_of::<Superblock>() as u64)?;
        medium.trim(bytes)
    }

    /// Figures about the pool's space.
    pub fn stats(&self) -> PoolStats {
        let records = self.checks_records();
        let extents = wait_lock(&self.extents, &self.medium);
        let blocks = wait_lock(&self.blocks, &self.medium);
        let stats = blocks.stats(&extents, self.format.extent_bytes());
        drop(blocks);
        let checked = extents.checked(records);
        PoolStats {
            max_bytes: self.format.is_limited().then_some(self.format.max_bytes),
            checked_blocks: self.checks.blocks_in(&checked),
            verifiable_blocks: self.checks.count(&self.medium, &checked),
            ..stats
        }
    }
}

/// Where the system does not tell: such a boot is not the same as any other.
const UNKNOWN_BOOT: [u64; 2] = [0; 2];
