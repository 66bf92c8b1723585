//! A medium that counts accesses to another one, and can make it slow.

#[cfg(test)]
mod tests;
mod touched;

use std::cell::RefCell;
use std::ops::{Add, Sub};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{
    BLOCK_BYTES, Changes, DiskSums, Durability, Event, LINE_BYTES, LogStats, Medium, Memory,
    Region, Storage, each_line,
};
use crate::error::Result;
use crate::identity::FileId;
use crate::word::{OnMedia, PmU64};
use touched::Touched;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of accesses to a medium. Distinct means counted once per operation and thread.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Every count with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }

        impl Add for Counts {
            type Output = Counts;
            fn add(self, other: Counts) -> Counts {
                Counts { $($name: self.$name + other.$name,)* }
            }
        }

        impl Sub for Counts {
            type Output = Counts;
            fn sub(self, other: Counts) -> Counts {
                Counts { $($name: self.$name - other.$name,)* }
            }
        }

        /// The counts of one thread, which alone stores them.
        #[derive(Default)]
        struct AtomicCounts {
            $($name: AtomicU64,)*
        }

        impl AtomicCounts {
            fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Operations: from [`Event::Begin`] to [`Event::Ack`].
    operations,
    /// Distinct lines loaded from.
    lines_read,
    /// Distinct lines stored to.
    lines_written,
    /// Distinct blocks loaded from.
    blocks_read,
    /// Distinct blocks stored to.
    blocks_written,
    /// Lines flushed, each time that they are.
    flushes,
    /// Fences.
    fences,
    /// Drains.
    drains,
    /// Words stored past the cache.
    nt_stores,
    /// Bytes loaded, the same ones as often as they are.
    bytes_loaded,
    /// Bytes stored, the same ones as often as they are.
    bytes_stored,
}

/// How much slower than DRAM an emulated medium is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Its name: the label of every figure.
    pub name: &'static str,
    /// Nanoseconds added when an operation loads from a block for the first time.
    pub read_ns: u64,
    /// Nanoseconds added when a block is flushed, or stored to past the cache, for the first time
    /// since the last fence.
    pub write_ns: u64,
}

impl Latency {
    /// Nothing is added.
    pub const DRAM: Latency = Latency { name: "dram", read_ns: 0, write_ns: 0 };
    /// Optane DCPMM, after Rewo-Hash, Table 3. Writes are acknowledged by the controller's
    /// queue, so they cost their part of the bandwidth: 256 bytes at 6 GB/s.
    pub const OPTANE: Latency = Latency { name: "optane", read_ns: 300, write_ns: 43 };
    /// CXL-based NVM, after the same table; 256 bytes at 4 GB/s.
    pub const CXL: Latency = Latency { name: "cxl", read_ns: 900, write_ns: 64 };
}

/// A medium that counts, per operation, accesses to the one inside it.
///
/// An operation lasts from [`Event::Begin`] to [`Event::Ack`] of a thread; its calls between
/// an acknowledgement and the next beginning count as one operation without number. The counts
/// depend on nothing but the calls, so they repeat exactly where the calls do. A prefetch is neither
/// counted nor charged: the load of its line is.
pub struct Metered<M> {
    inner: M,
    latency: Latency,
    meter: Arc<Meter>,
}

/// The counts of a [`Metered`] medium, for those who have given it away to a pool.
pub struct Meter {
    /// Tells the state of this medium apart from that of others in a thread.
    id: u64,
    of_threads: Mutex<Vec<Arc<AtomicCounts>>>,
}

/// A thread's state for one medium.
struct Local {
    id: u64,
    counts: Arc<AtomicCounts>,
    lines: Touched,
    blocks: Touched,
    /// Blocks on their way to the medium since the last fence.
    under_way: Touched,
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

const READ: u32 = 1;
const WRITTEN: u32 = 2;

impl<M: Medium> Metered<M> {
    /// Counts accesses to `inner`.
    pub fn new(inner: M) -> Self {
        Self::with_latency(inner, Latency::DRAM)
    }

    /// Counts accesses to `inner`, and makes it as slow as `latency` says.
    pub fn with_latency(inner: M, latency: Latency) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        Metered {
            inner,
            latency,
            meter: Arc::new(Meter { id: IDS.fetch_add(1, Relaxed), of_threads: Mutex::default() }),
        }
    }

    /// The medium inside.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// The counts, to be read while a pool owns the medium.
    #[must_use]
    pub fn meter(&self) -> &Arc<Meter> {
        &self.meter
    }

    /// As [`Meter::counts`].
    pub fn counts(&self) -> Counts {
        self.meter.counts()
    }

    #[inline]
    fn loaded(&self, word: &PmU64) {
        self.meter.local(|local| {
            add(&local.counts.bytes_loaded, PmU64::BYTES as u64);
            let addr = word.addr().addr() as u64;
            if local.lines.first(addr / LINE_BYTES, READ) {
                add(&local.counts.lines_read, 1);
                if local.blocks.first(addr / BLOCK_BYTES, READ) {
                    add(&local.counts.blocks_read, 1);
                    spin(self.latency.read_ns);
                }
            }
        });
    }

    #[inline]
    fn stored(&self, word: &PmU64) {
        self.meter.local(|local| {
            add(&local.counts.bytes_stored, PmU64::BYTES as u64);
            let addr = word.addr().addr() as u64;
            if local.lines.first(addr / LINE_BYTES, WRITTEN) {
                add(&local.counts.lines_written, 1);
                if local.blocks.first(addr / BLOCK_BYTES, WRITTEN) {
                    add(&local.counts.blocks_written, 1);
                }
            }
        });
    }

    fn flushed<T: ?Sized>(&self, obj: &T) {
        self.meter.local(|local| {
            each_line(obj, |line| {
                add(&local.counts.flushes, 1);
                self.sent(local, line);
            });
        });
    }

    /// The block of `addr` is on its way to the medium.
    fn sent(&self, local: &mut Local, addr: *const u8) {
        if local.under_way.first(addr.addr() as u64 / BLOCK_BYTES, WRITTEN) {
            spin(self.latency.write_ns);
        }
    }
}

impl Meter {
    /// The counts of all threads.
    ///
    /// **Concurrency.** Exact while no other thread uses the medium.
    pub fn counts(&self) -> Counts {
        let of_threads = self.of_threads.lock().unwrap_or_else(PoisonError::into_inner);
        of_threads.iter().map(|counts| counts.counts()).fold(Counts::default(), Counts::add)
    }

    /// Runs `f` on what this thread knows about this medium.
    #[inline]
    fn local(&self, f: impl FnOnce(&mut Local)) {
        LOCALS.with_borrow_mut(|locals| {
            let at = match locals.iter().position(|local| local.id == self.id) {
                Some(at) => at,
                None => self.register(locals),
            };
            f(&mut locals[at]);
        });
    }

    #[cold]
    fn register(&self, locals: &mut Vec<Local>) -> usize {
        // Media that are gone keep no counts.
        locals.retain(|local| Arc::strong_count(&local.counts) > 1);
        let counts = Arc::<AtomicCounts>::default();
        self.of_threads.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&counts));
        locals.push(Local {
            id: self.id,
            counts,
            lines: Touched::default(),
            blocks: Touched::default(),
            under_way: Touched::default(),
        });
        locals.len() - 1
    }
}

impl Local {
    /// An operation begins or ends.
    fn forget(&mut self) {
        self.lines.clear();
        self.blocks.clear();
    }
}

/// Adds to a count of this thread's own.
#[inline(always)]
fn add(count: &AtomicU64, n: u64) {
    count.store(count.load(Relaxed) + n, Relaxed);
}

#[inline]
fn spin(ns: u64) {
    if ns != 0 {
        let start = Instant::now();
        let wait = Duration::from_nanos(ns);
        while start.elapsed() < wait {
            std::hint::spin_loop();
        }
    }
}

/// Methods that are those of the medium inside.
macro_rules! forward {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $answer:ty)?;)*) => {$(
        #[inline]
        #[track_caller]
        fn $name(&self $(, $arg: $ty)*) $(-> $answer)? {
            self.inner.$name($($arg),*)
        }
    )*};
}

impl<M: Medium> Memory for Metered<M> {
    const DRAIN_WAITS: bool = M::DRAIN_WAITS;
    #[inline(always)]
    fn same_line_order(&self) -> bool {
        self.inner.same_line_order()
    }
    #[inline]
    fn region(&self) -> &Region {
        self.inner.region()
    }
    #[inline]
    fn changes(&self) -> Option<&Changes> {
        self.inner.changes()
    }
    #[inline]
    fn load(&self, word: &PmU64) -> u64 {
        self.loaded(word);
        self.inner.load(word)
    }
    #[inline]
    #[track_caller]
    fn store(&self, word: &PmU64, v: u64) {
        self.stored(word);
        self.inner.store(word, v);
    }

    #[inline]
    #[track_caller]
    fn cas(&self, word: &PmU64, old: u64, new: u64) -> Result<u64, u64> {
        self.loaded(word);
        let answer = self.inner.cas(word, old, new);
        if answer.is_ok() {
            self.stored(word);
        }
        answer
    }

    #[inline]
    #[track_caller]
    fn store_nt(&self, word: &PmU64, v: u64) {
        self.stored(word);
        self.meter.local(|local| {
            add(&local.counts.nt_stores, 1);
            self.sent(local, word.addr());
        });
        self.inner.store_nt(word, v);
    }

    #[inline]
    fn prefetch<T: OnMedia + ?Sized>(&self, obj: &T) {
        self.inner.prefetch(obj);
    }
    #[inline]
    #[track_caller]
    fn flush<T: OnMedia + ?Sized>(&self, obj: &T) {
        self.flushed(obj);
        self.inner.flush(obj);
    }
    #[inline]
    #[track_caller]
    fn flush_fresh<T: OnMedia + ?Sized>(&self, obj: &T) {
        self.flushed(obj);
        self.inner.flush_fresh(obj);
    }

    #[inline]
    #[track_caller]
    fn fence(&self) {
        self.meter.local(|local| {
            add(&local.counts.fences, 1);
            local.under_way.clear();
        });
        self.inner.fence();
    }

    #[inline]
    #[track_caller]
    fn drain(&self) {
        self.meter.local(|local| {
            add(&local.counts.drains, 1);
            local.under_way.clear();
        });
        self.inner.drain();
    }

    #[track_caller]
    fn event(&self, event: Event) {
        if matches!(event, Event::Begin | Event::Ack) {
            self.meter.local(|local| {
                local.forget();
                if event == Event::Begin {
                    add(&local.counts.operations, 1);
                }
            });
        }
        self.inner.event(event);
    }

    forward! {
        fn defer(defer: bool);
        fn is_durable() -> bool;
        fn wait_until_durable() -> Result<()>;
        fn copy_durable(off: u64, out: &mut [u8]) -> Result<()>;
    }
}

impl<M: Medium> Storage for Metered<M> {
    forward! {
        fn begin() -> Result<()>;
        fn write_back() -> Result<()>;
        fn grow(bytes: u64) -> Result<()>;
        fn sync(off: u64, bytes: u64) -> Result<()>;
        fn publish() -> Result<()>;
        fn trim(bytes: u64) -> Result<()>;
        fn disk_sums() -> Option<&dyn DiskSums>;
        fn durability() -> Durability;
        fn keeps_cuts() -> bool;
        fn log_stats() -> Option<LogStats>;
        fn new_uuid() -> Result<[u64; 2]>;
        fn boot_id() -> [u64; 2];
        fn file_id() -> FileId;
        fn file_bytes() -> u64;
        fn read_only() -> bool;
        fn huge_bytes() -> Option<u64>;
        fn path() -> Option<&Path>;
    }
}
