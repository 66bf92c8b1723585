//! The crash simulator's medium: heap memory that records accesses.
//!
//! The words of a [`Sim`] always hold what the program stored, as a cache does. It does not
//! know which stores would have been durable: a recorded trace says all that is needed to find every
//! state that a crash may leave, under any model of persistence (crate `durahash-crash`).
//!
//! A crash tester opens a pool on a fresh medium millions of times, so making one costs a copy of
//! its image and little else; while nothing is recorded, counted or hooked, each call checks one
//! byte.

mod budget;
mod buffer;
mod disk;
mod fork;
mod signals;
#[cfg(test)]
mod tests;
mod trace;

use std::convert::Infallible;
use std::panic::Location;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

pub use super::live::LiveSteps;
pub use super::logged::LogSteps;
pub use super::sys::faults;
use super::{Changes, Durability, Event, LINE_BYTES, Memory, Region, Storage};
use crate::error::{Error, Limit, Result};
pub use crate::identity::{copies_pass, set_boot};
use crate::primitive::lock;
pub use crate::primitive::take_turns;
use crate::word::{OnMedia, PmU64};
pub use budget::{budget, seed};
use buffer::Buffer;
pub use disk::{DiskImage, DiskStep, LiveState, SimDisk};
pub use fork::in_forked_child;
pub use signals::interrupt_threads;
pub use trace::{Action, Call, Hook, Site, Step, name_thread};

/// Work beside the call itself; bits of `Inner::modes`.
const RECORD: u8 = 1;
const HOOK: u8 = 2;
const BUDGET: u8 = 4;

/// Counters of changes: so many, as a power of two, that changes of one hash do not hide that others are not counted.
const CHANGES_SHIFT: u32 = 8;

/// Calls that a thread may make while it unwinds, when it has no more.
const CALLS_TO_UNWIND: i64 = 1 << 20;

/// A simulated medium. Clones are handles to the same medium.
///
/// It keeps the [order within a line](Memory::same_line_order), unless [told
/// otherwise](Sim::with_line_order), so that both ways of a design can be tested.
#[derive(Clone)]
pub struct Sim {
    inner: Arc<Inner>,
    same_line_order: bool,
    durability: Durability,
}

struct Inner {
    region: Region,
    /// The region's memory; taken out by `drop` only.
    buffer: Option<Buffer>,
    changes: Changes,
    modes: AtomicU8,
    limit_bytes: AtomicU64,
    calls_left: AtomicI64,
    hook: OnceLock<Box<dyn Hook>>,
    /// Held while a store is done and written down, so that the trace has the order of the stores;
    /// never while a hook runs.
    log: Mutex<Log>,
}

struct Log {
    steps: Vec<Step>,
    /// The file's length, which [`trim`](Storage::trim) cuts.
    file_bytes: u64,
}

impl Sim {
    /// An empty medium that can grow to `max_bytes`.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        Self::from_image(&[], max_bytes)
    }

    /// A medium that holds `image`, as a crash left it, and can grow to `max_bytes`.
    ///
    /// # Panics
    /// When the image is longer than `max_bytes`.
    #[must_use]
    pub fn from_image(image: &[u64], max_bytes: u64) -> Self {
        let max_bytes = max_bytes.next_multiple_of(8);
        assert!(max_bytes / 8 <= u64::from(u32::MAX), "a trace counts words in 32 bits");
        let buffer = Buffer::take(max_bytes as usize, image);
        let file_bytes = size_of_val(image) as u64;
        // SAFETY: the buffer has `max_bytes`, aligned to 256, lives as long as the region, and is
        // reached through it only.
        let region = unsafe { Region::new(buffer.base(), file_bytes, max_bytes) };
        let inner = Arc::new(Inner {
            region,
            buffer: Some(buffer),
            changes: Changes::on_heap(CHANGES_SHIFT),
            modes: AtomicU8::new(0),
            limit_bytes: AtomicU64::new(max_bytes),
            calls_left: AtomicI64::new(0),
            hook: OnceLock::new(),
            log: Mutex::new(Log { steps: Vec::new(), file_bytes }),
        });
        Sim { inner, same_line_order: true, durability: Durability::Strict }
    }

    /// The same medium, with or without order of the stores to one line.
    #[must_use]
    pub fn with_line_order(self, same_line_order: bool) -> Self {
        Sim { same_line_order, ..self }
    }

    /// The same medium, which promises this much. With [`None`](Durability::None) a close of a pool
    /// writes no check words, for which it would flush what else nothing needs to flush.
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        Sim { durability, ..self }
    }

    /// All words of the file as the program sees them, durable or not.
    #[must_use]
    pub fn image(&self) -> Vec<u64> {
        let bytes = self.inner.log().file_bytes;
        let words = self.inner.region.words(0, bytes / 8);
        let words = words.expect("the file ends inside the region");
        words.iter().map(PmU64::load).collect()
    }

    /// Writes down every step from here on, behind those in `steps`.
    pub fn record(&self, steps: Vec<Step>) {
        self.inner.log().steps = steps;
        self.inner.modes.fetch_or(RECORD, Ordering::Relaxed);
    }

    /// Ends recording and returns the trace.
    #[must_use]
    pub fn recorded(&self) -> Vec<Step> {
        self.inner.modes.fetch_and(!RECORD, Ordering::Relaxed);
        std::mem::take(&mut self.inner.log().steps)
    }

    /// Writes `mark` into the trace. Only the test that runs the simulation gives it a meaning.
    #[track_caller]
    pub fn mark(&self, mark: u64) {
        if self.inner.modes.load(Ordering::Relaxed) & RECORD != 0 {
            let (thread, site) = (self.inner.thread(), Location::caller());
            self.inner.log().steps.push(Step { thread, site, action: Action::Mark(mark) });
        }
    }

    /// Calls `hook` before every call into the medium.
    ///
    /// # Panics
    /// When a hook was set before.
    pub fn set_hook(&self, hook: Box<dyn Hook>) {
        assert!(self.inner.hook.set(hook).is_ok(), "a medium has one hook");
        self.inner.modes.fetch_or(HOOK, Ordering::Release);
    }

    /// Panics after `calls` more calls into the medium, so that an endless loop fails. `None` lifts the bound.
    pub fn set_budget(&self, calls: Option<u64>) {
        if let Some(calls) = calls {
            self.inner.calls_left.store(calls.min(i64::MAX as u64) as i64, Ordering::Relaxed);
            self.inner.modes.fetch_or(BUDGET, Ordering::Relaxed);
        } else {
            self.inner.modes.fetch_and(!BUDGET, Ordering::Relaxed);
        }
    }

    /// Growing beyond `bytes` fails from here on, as on a full disk.
    pub fn set_limit(&self, bytes: u64) {
        let bytes = bytes.min(self.inner.region.max_bytes());
        self.inner.limit_bytes.store(bytes, Ordering::Relaxed);
    }
}

impl Inner {
    fn log(&self) -> MutexGuard<'_, Log> {
        // A panic of the program under test leaves whole steps only.
        lock(&self.log)
    }

    fn thread(&self) -> u32 {
        self.hook.get().map_or_else(trace::thread, |h| h.thread())
    }

    fn word_of(&self, word: &PmU64) -> u32 {
        (self.region.offset_of(word) / 8) as u32
    }

    #[inline]
    fn before(&self, modes: u8, call: Call, site: Site) {
        if modes & BUDGET != 0 {
            // Threads that race here lose a count now and then; the bound stays a bound.
            let left = self.calls_left.load(Ordering::Relaxed);
            // A guard that is dropped flushes what it guards, and must not panic a second time.
            let least = if std::thread::panicking() { -CALLS_TO_UNWIND } else { 0 };
            assert!(left > least, "more calls into the medium than were allowed");
            self.calls_left.store(left - 1, Ordering::Relaxed);
        }
        if modes & HOOK != 0
            && let Some(hook) = self.hook.get()
        {
            hook.before(call, site);
        }
    }

    /// Does `act`, with all that is done beside it.
    #[inline]
    fn act<T>(&self, call: Call, site: Site, action: Action, act: impl FnOnce() -> T) -> T {
        let modes = self.modes.load(Ordering::Relaxed);
        if modes == 0 {
            return act();
        }
        let Ok(done) = self.act_watched(modes, call, site, action, || Ok::<T, Infallible>(act()));
        done
    }

    /// As [`Inner::act`]; `action` is written down only where `act` succeeds.
    #[inline(never)]
    fn act_watched<T, E>(
        &self,
        modes: u8,
        call: Call,
        site: Site,
        action: Action,
        act: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.before(modes, call, site);
        if modes & RECORD == 0 {
            return act();
        }
        let thread = self.thread();
        let mut log = self.log();
        let done = act();
        if done.is_ok() {
            log.steps.push(Step { thread, site, action });
        }
        done
    }

    /// Gives the file another length.
    fn resize(&self, bytes: u64, site: Site) {
        let modes = self.modes.load(Ordering::Relaxed);
        self.before(modes, Call::System, site);
        let thread = self.thread();
        let mut log = self.log();
        log.file_bytes = bytes;
        if bytes > self.region.len() {
            // SAFETY: all of the buffer is readable and writable.
            unsafe { self.region.set_len(bytes) };
        }
        if modes & RECORD != 0 {
            let words = (bytes / 8) as u32;
            let action = Action::Resize { words };
            log.steps.push(Step { thread, site, action });
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            buffer.recycle(self.region.len() as usize);
        }
    }
}

impl Memory for Sim {
    #[inline(always)]
    fn same_line_order(&self) -> bool {
        self.same_line_order
    }
    #[inline(always)]
    fn region(&self) -> &Region {
        &self.inner.region
    }

    #[inline]
    fn changes(&self) -> Option<&Changes> {
        Some(&self.inner.changes)
    }

    #[inline]
    #[track_caller]
    fn load(&self, word: &PmU64) -> u64 {
        let modes = self.inner.modes.load(Ordering::Relaxed);
        if modes & (HOOK | BUDGET) != 0 {
            self.inner.before(modes, Call::Load, Location::caller());
        }
        word.load()
    }

    #[inline]
    #[track_caller]
    fn store(&self, word: &PmU64, v: u64) {
        let action = Action::Store { word: self.inner.word_of(word), v };
        self.inner.act(Call::Store, Location::caller(), action, || word.store(v));
    }

    #[inline]
    #[track_caller]
    fn cas(&self, word: &PmU64, old: u64, new: u64) -> Result<u64, u64> {
        let modes = self.inner.modes.load(Ordering::Relaxed);
        if modes == 0 {
            return word.cas(old, new);
        }
        let action = Action::Cas { word: self.inner.word_of(word), v: new };
        let swap = || word.cas(old, new);
        self.inner.act_watched(modes, Call::Store, Location::caller(), action, swap)
    }

    #[inline]
    #[track_caller]
    fn store_nt(&self, word: &PmU64, v: u64) {
        let action = Action::StoreNt { word: self.inner.word_of(word), v };
        self.inner.act(Call::Store, Location::caller(), action, || word.store(v));
    }
    fn prefetch<T: OnMedia + ?Sized>(&self, _obj: &T) {}

    #[inline]
    #[track_caller]
    fn flush<T: OnMedia + ?Sized>(&self, obj: &T) {
        let bytes = size_of_val(obj) as u64;
        if bytes == 0 || self.inner.modes.load(Ordering::Relaxed) == 0 {
            return;
        }
        let base = self.inner.region.base().addr().get();
        let off = (std::ptr::from_ref(obj).addr() - base) as u64;
        let line = off / LINE_BYTES;
        let action = Action::Flush {
            line: line as u32,
            lines: ((off + bytes).div_ceil(LINE_BYTES) - line) as u32,
        };
        self.inner.act(Call::Flush, Location::caller(), action, || ());
    }

    #[inline]
    #[track_caller]
    fn fence(&self) {
        self.inner.act(Call::Fence, Location::caller(), Action::Fence, || ());
    }
    #[inline]
    #[track_caller]
    fn drain(&self) {
        self.inner.act(Call::Drain, Location::caller(), Action::Drain, || ());
    }
    #[inline]
    #[track_caller]
    fn event(&self, event: Event) {
        self.inner.act(Call::Event(event), Location::caller(), Action::Event(event), || ());
    }
}

impl Storage for Sim {
    #[track_caller]
    fn grow(&self, bytes: u64) -> Result<()> {
        let bytes = bytes.next_multiple_of(8);
        if bytes > self.inner.limit_bytes.load(Ordering::Relaxed) {
            return Err(Error::full(bytes, Limit::Disk));
        }
        if bytes > self.inner.log().file_bytes {
            self.inner.resize(bytes, Location::caller());
        }
        Ok(())
    }

    #[track_caller]
    fn sync(&self, off: u64, bytes: u64) -> Result<()> {
        let action = Action::Sync {
            word: (off / 8) as u32,
            words: ((off + bytes).div_ceil(8) - off / 8) as u32,
        };
        self.inner.act(Call::System, Location::caller(), action, || ());
        Ok(())
    }

    #[track_caller]
    fn publish(&self) -> Result<()> {
        self.inner.act(Call::System, Location::caller(), Action::Publish, || ());
        Ok(())
    }

    #[track_caller]
    fn trim(&self, bytes: u64) -> Result<()> {
        let file_bytes = self.inner.log().file_bytes;
        let bytes = bytes.next_multiple_of(8).min(file_bytes);
        let cut = self.inner.region.words(bytes, (file_bytes - bytes) / 8)?;
        cut.iter().for_each(|word| word.store(0));
        self.inner.resize(bytes, Location::caller());
        Ok(())
    }

    fn durability(&self) -> Durability {
        self.durability
    }
    fn new_uuid(&self) -> Result<[u64; 2]> {
        Ok([1, 2])
    }
    fn boot_id(&self) -> [u64; 2] {
        [3, 4]
    }
}
