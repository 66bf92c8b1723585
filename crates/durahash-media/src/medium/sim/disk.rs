//! A disk in memory that records its steps, for crash tests.
//!
//! It takes every step at once, as page cache and drive do for as long as they live. The bytes that
//! would have been on the disk at some instant are found from the recorded steps, by the rules of
//! [`Disk`] (crate `durahash-crash`, model `block`).

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::buffer::Buffer;
use crate::error::{Error, Limit, Result};
#[cfg(test)]
use crate::medium::Changes;
use crate::medium::live::disk::clear_marks;
use crate::medium::live::head::{self, Head, RING_OFF};
use crate::medium::live::{Places, batches, part_of};
use crate::medium::logged::format::{AREA_BYTES_MIN, BLOCK_BYTES, Layout, Line};
use crate::medium::logged::recover::{self, AreaHead, Recovered};
use crate::medium::{
    Disk, FileName, LINE_BYTES, LIVE_WORDS, Live, LiveDisk, LiveSource, Logged, Region, Storage,
    SyncMode,
};
use crate::primitive::lock;
use crate::word::PmU64;

/// The pool that is simulated.
const UUID: [u64; 2] = [0x5eed, 0xd15c];

/// Lines that a part of one block has room for.
const PART_ENTRIES: usize = 55;

/// A call to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskStep {
    /// Bytes were written to the log's area, durably.
    Log {
        /// Where in the area.
        off: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The same, of bytes that were read there before.
    Again {
        /// Where in the area.
        off: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The same, but they are on the disk only when the drive's cache was emptied.
    Soon {
        /// Where in the area.
        off: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes were written to the log's area, but the call failed.
    LogFailed {
        /// Where in the area.
        off: u64,
        /// The bytes that would have been written.
        bytes: Vec<u8>,
    },
    /// The staged words as they are now, written to the area without a sync.
    Staged(Vec<u8>),
    /// A line was written to the pool.
    Line {
        /// Where in the pool.
        off: u64,
        /// The line.
        line: Line,
    },
    /// The drive was told to put on the disk what is in its cache.
    FlushDrive,
    /// The pool was synced.
    SyncData,
    /// The same, but the call failed: no later sync is about what was written before.
    SyncDataFailed,
    /// The pool was given this length, durably.
    Resize(u64),
    /// The live file as it is now: the kernel has it, whatever becomes of the process.
    Live(Arc<LiveState>),
    /// A spill file was written, durably; or removed.
    Spill {
        /// The batch.
        batch: u64,
        /// The bytes.
        bytes: Option<Vec<u8>>,
    },
    /// The test that runs the simulation gives it a meaning.
    Mark(u64),
}

impl DiskStep {
    /// Where it writes a part of a batch: the part's index in that, and whether it is the final one.
    #[must_use]
    pub fn part(&self) -> Option<(u64, bool)> {
        match self {
            DiskStep::Log { off, bytes } if *off >= RING_OFF => part_of(bytes),
            _ => None,
        }
    }
}

/// What a live file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LiveState {
    /// Tells it from other live files.
    pub name: u64,
    /// Words of the header.
    pub header: Vec<u64>,
    /// Marks of the lines.
    pub marks: Vec<u8>,
    /// Words of the image.
    pub image: Vec<u64>,
}

impl LiveState {
    /// True if it could not be written back, so that no later process trusts it.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        head::is_bad(&self.header)
    }
}

/// A disk's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskImage {
    /// Words of the pool.
    pub pool: Vec<u64>,
    /// Bytes of the log's area.
    pub area: Vec<u8>,
    /// Spill files by the numbers of their batches.
    pub spills: BTreeMap<u64, Vec<u8>>,
    /// The live file, if there is one.
    pub live: Option<Arc<LiveState>>,
    /// The boot of the machine.
    pub boot: u64,
}

impl DiskImage {
    /// The disk after a loss of power: its live file is of another boot.
    #[cfg(test)]
    pub(crate) fn of_next_boot(mut self) -> Self {
        self.boot += 1;
        self
    }

    /// Does what `step` does.
    pub fn apply(&mut self, step: &DiskStep) {
        match step {
            DiskStep::Log { off, bytes }
            | DiskStep::Again { off, bytes }
            | DiskStep::Soon { off, bytes }
            | DiskStep::LogFailed { off, bytes } => {
                self.area[*off as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            DiskStep::Staged(bytes) => {
                self.area[Layout::STAGED_OFF as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            DiskStep::Line { off, line } => {
                self.pool[*off as usize / 8..][..line.len()].copy_from_slice(line);
            }
            DiskStep::Resize(bytes) => self.pool.resize(*bytes as usize / 8, 0),
            DiskStep::Live(live) => self.live = Some(Arc::clone(live)),
            DiskStep::Spill { batch, bytes: Some(bytes) } => {
                self.spills.insert(*batch, bytes.clone());
            }
            DiskStep::Spill { batch, bytes: None } => {
                self.spills.remove(batch);
            }
            DiskStep::FlushDrive
            | DiskStep::SyncData
            | DiskStep::SyncDataFailed
            | DiskStep::Mark(_) => {}
        }
    }
}

/// A simulated disk. Clones are handles to the same one.
#[derive(Clone)]
pub struct SimDisk(Arc<Inner>);

struct Inner {
    region: Region,
    /// The region's memory; taken out by `drop` only.
    buffer: Option<Buffer>,
    area_bytes: u64,
    staged: Option<Box<[PmU64]>>,
    /// As many of these words as the log uses.
    staged_words: AtomicUsize,
    state: Mutex<State>,
    /// True if writes to the log wait until they are let go, and how many do.
    held: Mutex<(bool, u64)>,
    let_go: Condvar,
    past_cache: AtomicBool,
    full_log: AtomicBool,
    part_entries: AtomicUsize,
    live: LiveWords,
    #[cfg(test)]
    changes: Changes,
}

/// The words of a live file that are not the image.
struct LiveWords {
    /// Zero while there is none.
    name: AtomicU64,
    header: Box<[PmU64]>,
    marks: Box<[AtomicU8]>,
    /// True if the system has an error to tell of it.
    is_bad: AtomicBool,
    /// True if stores reach it no more.
    is_abandoned: AtomicBool,
}

struct State {
    image: DiskImage,
    steps: Vec<DiskStep>,
    limit_bytes: u64,
    /// Calls left until the one that fails.
    fails_after: Option<u64>,
    /// Those behind it succeed.
    fails_once: bool,
    has_failed: bool,
}

impl State {
    /// Counts a call; whether it fails.
    fn fails(&mut self) -> bool {
        let left = self.fails_after.map(|left| left.saturating_sub(1));
        let fails = left == Some(0);
        self.has_failed |= fails;
        self.fails_after = left.filter(|_| !(fails && self.fails_once));
        fails
    }
}

impl SimDisk {
    /// An empty disk for a pool of up to `max_bytes`, with a log's area of `area_bytes`; with
    /// `keeps_staged`, staged lines outlive the process.
    #[must_use]
    pub fn new(max_bytes: u64, area_bytes: u64, keeps_staged: bool) -> Self {
        let area_bytes = area_bytes.max(AREA_BYTES_MIN);
        let image = DiskImage { area: vec![0; area_bytes as usize], ..DiskImage::default() };
        Self::resume(image, Vec::new(), max_bytes, keeps_staged)
    }

    /// A disk that holds `image`, and to which `steps` were done since.
    ///
    /// # Panics
    /// When the pool is longer than `max_bytes` then.
    #[must_use]
    pub fn resume(
        mut image: DiskImage,
        steps: Vec<DiskStep>,
        max_bytes: u64,
        keeps_staged: bool,
    ) -> Self {
        for step in &steps {
            image.apply(step);
        }
        let buffer = Buffer::take(max_bytes as usize, &image.pool);
        let pool_bytes = size_of_val(&*image.pool) as u64;
        // SAFETY: the buffer has `max_bytes`, aligned to 256, lives as long as the region, and is
        // reached through it only.
        let region = unsafe { Region::new(buffer.base(), pool_bytes, max_bytes) };
        let area_bytes = image.area.len() as u64;
        let staged_bytes = Layout::of(area_bytes).staged_bytes as usize;
        let staged = keeps_staged.then(|| {
            let bytes = &image.area[Layout::STAGED_OFF as usize..][..staged_bytes];
            let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            words.map(PmU64::new).collect()
        });
        let state = State {
            image,
            steps,
            limit_bytes: max_bytes,
            fails_after: None,
            fails_once: false,
            has_failed: false,
        };
        let buffer = Some(buffer);
        SimDisk(Arc::new(Inner {
            region,
            buffer,
            area_bytes,
            staged,
            staged_words: AtomicUsize::new(0),
            state: Mutex::new(state),
            held: Mutex::default(),
            let_go: Condvar::new(),
            past_cache: AtomicBool::new(false),
            full_log: AtomicBool::new(false),
            part_entries: AtomicUsize::new(PART_ENTRIES),
            live: LiveWords {
                name: AtomicU64::new(0),
                header: (0..LIVE_WORDS).map(|_| PmU64::new(0)).collect(),
                marks: (0..max_bytes.div_ceil(LINE_BYTES)).map(|_| AtomicU8::new(0)).collect(),
                is_bad: AtomicBool::new(false),
                is_abandoned: AtomicBool::new(false),
            },
            #[cfg(test)]
            changes: Changes::on_heap(4),
        }))
    }

    /// Says whether a recovery reads the ring on the drive, past the page cache; it does not at first.
    pub fn set_past_cache(&self, past_cache: bool) {
        self.0.past_cache.store(past_cache, Ordering::Relaxed);
    }

    /// Says whether there is no space for more of the log's area.
    pub fn set_full_log(&self, full: bool) {
        self.0.full_log.store(full, Ordering::Relaxed);
    }

    /// Says how many lines a part of a batch has room for, from the next [`create_live`](SimDisk::create_live) or
    /// [`open_live`](SimDisk::open_live) on; at first a block of them.
    pub fn set_part_entries(&self, entries: usize) {
        self.0.part_entries.store(entries, Ordering::Relaxed);
    }

    /// An empty pool behind a log on this disk.
    ///
    /// # Errors
    /// [`Options`](crate::ErrorKind::Options) for a mode without a log.
    pub fn create(self, mode: SyncMode) -> Result<Logged<SimDisk>> {
        let bytes = self.0.area_bytes;
        self.create_with(mode, bytes)
    }

    /// The same, of a log that uses the first `bytes` bytes of its area until the pool is longer.
    ///
    /// # Errors
    /// As [`create`](SimDisk::create).
    pub fn create_with(self, mode: SyncMode, bytes: u64) -> Result<Logged<SimDisk>> {
        let nothing = Recovered::nothing(UUID, Layout::of(bytes.max(AREA_BYTES_MIN)));
        let logged = Logged::over(self, nothing, mode.is_strict()?)?;
        logged.begin()?;
        Ok(logged)
    }

    /// The pool behind the log on this disk, to be recovered when it [begins](Storage::begin).
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where there is no log, or a damaged one;
    /// [`Options`](crate::ErrorKind::Options) for a mode without a log.
    pub fn open(self, mode: SyncMode) -> Result<Logged<SimDisk>> {
        let found = recover::look(&self, recover::newest_head(&self, UUID)?)?;
        Logged::over(self, found, mode.is_strict()?)
    }

    /// An empty pool with a live image on this disk, with a ring in the first `bytes` bytes of the area.
    ///
    /// # Errors
    /// [`Options`](crate::ErrorKind::Options) for a mode without a log.
    pub fn create_live(self, mode: SyncMode, bytes: u64) -> Result<Live<SimDisk>> {
        let ring_bytes = bytes.max(AREA_BYTES_MIN) - RING_OFF;
        let live = Live::over(self, Head::empty(0, UUID, ring_bytes, 1), mode.is_strict()?, false)?;
        live.begin()?;
        Ok(live)
    }

    /// The pool with a live image on this disk, to be recovered when it [begins](Storage::begin).
    ///
    /// # Errors
    /// As [`open`](SimDisk::open); [`NoLiveImage`](crate::ErrorKind::NoLiveImage).
    pub fn open_live(self, mode: SyncMode) -> Result<Live<SimDisk>> {
        match recover::newest_of_any(&self, UUID)? {
            AreaHead::Ring(head) => Live::over(self, head, mode.is_strict()?, false),
            AreaHead::Lines(_) => Err(Error::corrupt("the log is one of another kind", 0)),
        }
    }

    /// The batches that a recovery finds behind the head if it does not use the live image: of each where it lies in the
    /// area, and its number, if it is in a spill file.
    ///
    /// # Errors
    /// As [`open`](SimDisk::open).
    pub fn batches(&self) -> Result<Vec<Places>> {
        match recover::newest_of_any(self, UUID)? {
            AreaHead::Ring(head) if !head.closed => batches(self, &head),
            _ => Ok(Vec::new()),
        }
    }

    /// Says whether the system could not write the live file back.
    pub fn set_live_bad(&self, bad: bool) {
        self.0.live.is_bad.store(bad, Ordering::Relaxed);
    }

    /// Everything that was done, the staged words as they are now last.
    #[must_use]
    pub fn steps(&self) -> Vec<DiskStep> {
        self.record_staged();
        self.state().steps.clone()
    }

    /// Its present bytes, as a kill of the process leaves them.
    #[must_use]
    pub fn image(&self) -> DiskImage {
        self.record_staged();
        self.state().image.clone()
    }

    /// How many steps there are.
    #[must_use]
    pub fn step_count(&self) -> usize {
        self.state().steps.len()
    }

    /// Writes `mark` down, behind the staged words.
    pub fn mark(&self, mark: u64) {
        self.record_staged();
        self.state().steps.push(DiskStep::Mark(mark));
    }

    /// Lets the `nth` call that can fail, from here on, fail, and all behind it; the first is number 1.
    pub fn fail_at(&self, nth: u64) {
        self.state().fails_after = Some(nth);
    }

    /// The same, but those behind it succeed.
    pub fn fail_once_at(&self, nth: u64) {
        let mut state = self.state();
        (state.fails_after, state.fails_once) = (Some(nth), true);
    }

    /// True if a call has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// A call that takes no step, or has taken its steps: it fails if it is its turn.
    fn call(&self) -> io::Result<()> {
        if self.state().fails() { Err(Errno::IO.into()) } else { Ok(()) }
    }

    /// Lets writes to the log wait, or go on.
    pub fn hold(&self, hold: bool) {
        lock(&self.0.held).0 = hold;
        self.0.let_go.notify_all();
    }

    /// How many writes to the log wait.
    #[must_use]
    pub fn held(&self) -> u64 {
        lock(&self.0.held).1
    }

    /// Growing beyond `bytes` fails from here on, as on a full disk.
    pub fn set_limit(&self, bytes: u64) {
        self.state().limit_bytes = bytes.min(self.0.region.max_bytes());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    fn record_live(&self) {
        let live = &self.0.live;
        let name = live.name.load(Ordering::Relaxed);
        if name == 0 || live.is_abandoned.load(Ordering::Relaxed) {
            return;
        }
        let lines = self.0.region.len().div_ceil(LINE_BYTES) as usize;
        let Ok(words) = self.0.region.words(0, self.0.region.len() / 8) else { return };
        let now = LiveState {
            name,
            header: live.header.iter().map(PmU64::load).collect(),
            marks: live.marks[..lines].iter().map(|mark| mark.load(Ordering::Relaxed)).collect(),
            image: words.iter().map(PmU64::load).collect(),
        };
        let mut state = self.state();
        if state.image.live.as_deref() != Some(&now) {
            let step = DiskStep::Live(Arc::new(now));
            state.image.apply(&step);
            state.steps.push(step);
        }
    }

    fn record_staged(&self) {
        self.record_live();
        if let Some(words) = &self.0.staged {
            let count = self.0.staged_words.load(Ordering::Relaxed);
            let bytes = words[..count].iter().flat_map(|word| word.load().to_le_bytes()).collect();
            let step = DiskStep::Staged(bytes);
            let mut state = self.state();
            let State { image, steps, .. } = &mut *state;
            if steps.iter().rev().find(|step| matches!(step, DiskStep::Staged(_))) != Some(&step) {
                image.apply(&step);
                steps.push(step);
            }
        }
    }

    /// Does `step`, or `otherwise` if it is its turn to fail.
    fn act(&self, step: DiskStep, otherwise: Option<DiskStep>) -> io::Result<()> {
        self.record_live();
        let mut state = self.state();
        let (step, done) =
            if state.fails() { (otherwise, Err(Errno::IO.into())) } else { (Some(step), Ok(())) };
        let State { image, steps, .. } = &mut *state;
        if let Some(step) = step {
            image.apply(&step);
            steps.push(step);
        }
        done
    }

    fn wait_while_held(&self) {
        let mut held = lock(&self.0.held);
        held.1 += 1;
        let held = self.0.let_go.wait_while(held, |(hold, _)| *hold);
        held.unwrap_or_else(PoisonError::into_inner).1 -= 1;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            buffer.recycle(self.region.len() as usize);
        }
    }
}

impl Disk for SimDisk {
    /// Each has one of its own, as tests run side by side.
    fn device(&self) -> u64 {
        Arc::as_ptr(&self.0).addr() as u64
    }

    fn region(&self) -> &Region {
        &self.0.region
    }

    fn log_bytes(&self) -> u64 {
        self.0.area_bytes
    }

    fn bytes_beside_log(&self) -> u64 {
        self.0.region.len()
    }

    fn fill_log(&self, from: u64, to: u64) -> io::Result<()> {
        if self.0.full_log.load(Ordering::Relaxed) {
            return Err(Errno::NOSPC.into());
        }
        self.write_log(from, &vec![0; (to - from) as usize])
    }

    fn lay_out(&self, parts: Layout) {
        let state = self.state();
        let bytes = &state.image.area[Layout::STAGED_OFF as usize..][..parts.staged_bytes as usize];
        for (word, bytes) in self.0.staged.iter().flatten().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*bytes));
        }
        self.0.staged_words.store(parts.staged_bytes as usize / 8, Ordering::Relaxed);
    }

    fn read_log(&self, off: u64, bytes: &mut [u8]) -> io::Result<()> {
        bytes.copy_from_slice(&self.state().image.area[off as usize..][..bytes.len()]);
        Ok(())
    }

    fn written_in(&self, bytes: Range<u64>) -> Vec<Range<u64>> {
        let (image, block) = (&self.state().image, BLOCK_BYTES as u64);
        let blocks = bytes.step_by(BLOCK_BYTES).map(|off| off..off + block);
        let is_written =
            |b: &Range<u64>| image.area[b.start as usize..b.end as usize].iter().any(|b| *b != 0);
        blocks.filter(is_written).collect()
    }

    fn reads_drive(&self) -> bool {
        self.0.past_cache.load(Ordering::Relaxed)
    }

    fn flush_drive(&self) -> io::Result<()> {
        self.act(DiskStep::FlushDrive, None)
    }

    fn write_log(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        self.wait_while_held();
        self.record_staged();
        let bytes = bytes.to_vec();
        let failed = DiskStep::LogFailed { off, bytes: bytes.clone() };
        self.act(DiskStep::Log { off, bytes }, Some(failed))
    }

    fn rewrite_log(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        let bytes = bytes.to_vec();
        let failed = DiskStep::LogFailed { off, bytes: bytes.clone() };
        self.act(DiskStep::Again { off, bytes }, Some(failed))
    }

    fn staged(&self) -> Option<&[PmU64]> {
        self.0.staged.as_deref()
    }

    fn write_line(&self, off: u64, line: &Line) {
        let step = DiskStep::Line { off, line: *line };
        let mut state = self.state();
        state.image.apply(&step);
        state.steps.push(step);
    }

    fn read_pool(&self, off: u64, bytes: &mut [u8]) -> Result<()> {
        let state = self.state();
        let words = state.image.pool.get(off as usize / 8..).unwrap_or_default();
        if words.len() < bytes.len() / 8 {
            return Err(Error::corrupt("offset out of bounds", off));
        }
        for (out, word) in bytes.chunks_exact_mut(8).zip(words) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.act(DiskStep::SyncData, Some(DiskStep::SyncDataFailed))
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let bytes = bytes.next_multiple_of(8);
        if bytes > self.state().limit_bytes {
            return Err(Error::full(bytes, Limit::Disk));
        }
        if bytes > self.0.region.len() {
            self.act(DiskStep::Resize(bytes), None)
                .map_err(|e| Error::io("growing the pool", None, e))?;
            clear_marks(self.0.region.len()..bytes, |line| &self.0.live.marks[line as usize]);
            // SAFETY: all of the buffer is readable and writable.
            unsafe { self.0.region.set_len(bytes) };
        }
        Ok(())
    }

    fn trim(&self, bytes: u64) -> Result<()> {
        if bytes < self.0.region.len() {
            self.act(DiskStep::Resize(bytes), None)
                .map_err(|e| Error::io("cutting the pool", None, e))?;
        }
        Ok(())
    }
}

impl LiveSource for SimDisk {
    fn pool_name(&self) -> FileName {
        FileName([1, 2, 3])
    }

    fn boot(&self) -> [u64; 2] {
        [5, self.state().image.boot + 1]
    }

    fn mount(&self) -> u64 {
        1
    }

    fn find_live(&self) -> io::Result<Option<([u64; LIVE_WORDS], FileName)>> {
        let state = self.state();
        Ok(state
            .image
            .live
            .as_ref()
            .map(|live| (std::array::from_fn(|i| live.header[i]), FileName([1, 4, live.name]))))
    }

    fn adopt_live(&self) -> Result<()> {
        let live = self.state().image.live.clone();
        let Some(live) = live else { unreachable!("a live file was found") };
        // The pool's file may have been cut at a close, or a growth interrupted.
        let bytes = (live.image.len() as u64 * 8).min(self.0.region.len());
        let words = self.0.region.words(0, bytes / 8)?;
        words.iter().zip(&live.image).for_each(|(word, v)| word.store(*v));
        let LiveWords { name, header, marks, .. } = &self.0.live;
        header.iter().zip(&live.header).for_each(|(word, v)| word.store(*v));
        marks.iter().zip(&live.marks).for_each(|(mark, v)| mark.store(*v, Ordering::Relaxed));
        name.store(live.name, Ordering::Relaxed);
        Ok(())
    }

    fn check_live(&self) -> io::Result<()> {
        if self.0.live.is_bad.load(Ordering::Relaxed) { Err(Errno::IO.into()) } else { self.call() }
    }

    fn read_spill(&self, batch: u64) -> io::Result<Vec<u8>> {
        self.state().image.spills.get(&batch).cloned().ok_or_else(|| Errno::NOENT.into())
    }
}

impl LiveDisk for SimDisk {
    fn make_live(&self, watch: &mut dyn FnMut(u64, &[u8])) -> Result<FileName> {
        self.call().map_err(|e| Error::io("making the live image of the pool", None, e))?;
        let LiveWords { name, header, marks, .. } = &self.0.live;
        let before = self.state().image.live.as_ref().map_or(0, |live| live.name);
        header.iter().for_each(|word| word.store(0));
        marks.iter().for_each(|mark| mark.store(0, Ordering::Relaxed));
        let mut bytes = vec![0; self.0.region.len() as usize];
        self.read_image(0, &mut bytes)?;
        watch(0, &bytes);
        name.store(before + 1, Ordering::Relaxed);
        Ok(FileName([1, 4, before + 1]))
    }

    fn abandon_live(&self) {
        self.record_live();
        self.0.live.is_abandoned.store(true, Ordering::Relaxed);
    }

    #[cfg(test)]
    fn changes(&self) -> Option<&Changes> {
        Some(&self.0.changes)
    }

    fn header(&self) -> &[PmU64] {
        &self.0.live.header
    }

    fn mark(&self, line: u64) -> &AtomicU8 {
        &self.0.live.marks[line as usize]
    }

    fn marks(&self, lines: Range<u64>) -> &[AtomicU8] {
        &self.0.live.marks[lines.start as usize..lines.end as usize]
    }

    fn unused(&self) -> Range<u64> {
        u64::MAX..u64::MAX
    }

    fn read_image(&self, off: u64, bytes: &mut [u8]) -> Result<()> {
        let words = self.0.region.words(off, bytes.len() as u64 / 8)?;
        let (bytes, _) = bytes.as_chunks_mut();
        bytes.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.load().to_le_bytes());
        Ok(())
    }

    fn write_pages(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        self.record_live();
        let lines = bytes.chunks_exact(LINE_BYTES as usize);
        for (off, bytes) in (off..).step_by(LINE_BYTES as usize).zip(lines) {
            let words = bytes.as_chunks::<8>().0;
            self.write_line(off, &std::array::from_fn(|i| u64::from_le_bytes(words[i])));
        }
        self.call()
    }

    fn write_log_soon(&self, off: u64, bytes: &[u8]) -> io::Result<()> {
        let bytes = bytes.to_vec();
        let failed = DiskStep::LogFailed { off, bytes: bytes.clone() };
        self.act(DiskStep::Soon { off, bytes }, Some(failed))
    }

    fn write_spill(&self, batch: u64, bytes: &[u8]) -> io::Result<()> {
        self.act(DiskStep::Spill { batch, bytes: Some(bytes.to_vec()) }, None)
    }

    fn part_entries(&self) -> usize {
        self.0.part_entries.load(Ordering::Relaxed)
    }

    fn remove_spill(&self, batch: u64) {
        if self.state().image.spills.contains_key(&batch) {
            let _ = self.act(DiskStep::Spill { batch, bytes: None }, None);
        }
    }
}
