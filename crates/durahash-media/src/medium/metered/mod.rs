//! A medium that counts accesses to another one, and can make it slow.

mod cache;
mod counts;
mod model;
#[cfg(test)]
mod model_tests;
mod processor;
mod profile;
#[cfg(test)]
mod tests;
mod touched;

use std::cell::RefCell;
use std::ops::Add;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{
    BLOCK_BYTES, Changes, DiskSums, Durability, Event, LINE_BYTES, LogStats, Medium, Memory,
    Region, Storage, each_line,
};
use crate::error::Result;
use crate::identity::FileId;
use crate::primitive::lock;
use crate::word::{OnMedia, PmU64};
use counts::{AtomicCounts, AtomicTraffic, add};
pub use counts::{Counts, Traffic};
use model::{Access, Bandwidth, Thread};
pub use processor::{Processor, Touch};
use profile::Cost;
pub use profile::Profile;
use touched::Touched;

/// A medium that counts, per operation, accesses to the one inside it, and takes as long for them as a [`Profile`] says.
///
/// An operation lasts from [`Event::Begin`] to [`Event::Ack`] of a thread; its calls between
/// an acknowledgement and the next beginning count as one operation without number. The counts
/// depend on nothing but the calls, so they repeat exactly where the calls do. A prefetch is not counted: the load of its
/// line is. What the model of a profile finds where is counted apart, as [`Traffic`].
pub struct Metered<M> {
    inner: M,
    meter: Arc<Meter>,
}

/// The counts of a [`Metered`] medium, for those who have given it away to a pool.
pub struct Meter {
    /// Tells the state of this medium apart from that of others in a thread.
    id: u64,
    profile: Profile,
    bandwidth: Bandwidth,
    /// The model's times are nanoseconds since then.
    start: Instant,
    of_threads: Mutex<Vec<Arc<OfThread>>>,
}

/// The counts of one thread.
#[derive(Default)]
struct OfThread {
    counts: AtomicCounts,
    traffic: AtomicTraffic,
}

/// A thread's state for one medium.
struct Local {
    id: u64,
    of_thread: Arc<OfThread>,
    lines: Touched,
    blocks: Touched,
    /// Blocks on their way to a flat medium since the last fence.
    under_way: Touched,
    model: Option<Box<Thread>>,
    /// The line that was loaded from last, if the thread has done nothing else since: loads from it again change nothing but
    /// the bytes that are counted, and most are such ones. 0 is none.
    latest: u64,
}

thread_local! {
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

const READ: u32 = 1;
const WRITTEN: u32 = 2;

impl<M: Medium> Metered<M> {
    /// Counts accesses to `inner`.
    pub fn new(inner: M) -> Self {
        Self::with_profile(inner, Profile::NONE)
    }

    /// Counts accesses to `inner`, and makes it as slow as `profile` says.
    pub fn with_profile(inner: M, profile: Profile) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let meter = Meter {
            id: IDS.fetch_add(1, Relaxed),
            profile,
            bandwidth: Bandwidth::default(),
            start: Instant::now(),
            of_threads: Mutex::default(),
        };
        Metered { inner, meter: Arc::new(meter) }
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

    /// Counts a load. When its line is there.
    #[inline]
    fn loaded(&self, word: &PmU64) -> u64 {
        self.meter.local(|local| {
            let counts = &local.of_thread.counts;
            add(&counts.bytes_loaded, PmU64::BYTES as u64);
            let addr = word.addr().addr() as u64;
            if addr / LINE_BYTES == local.latest {
                return 0;
            }
            if local.lines.first(addr / LINE_BYTES, READ) {
                add(&counts.lines_read, 1);
                if local.blocks.first(addr / BLOCK_BYTES, READ) {
                    add(&counts.blocks_read, 1);
                    if let Cost::Flat { read_ns, .. } = self.meter.profile.cost {
                        spin(read_ns);
                    }
                }
            }
            let due = self.meter.model(local, |access| access.load(addr / LINE_BYTES));
            local.latest = addr / LINE_BYTES;
            due
        })
    }

    /// Counts a store. Until when it has to wait.
    #[inline]
    fn stored(&self, word: &PmU64) -> u64 {
        self.meter.local(|local| {
            count_store(local, word);
            self.meter.model(local, |access| access.store(word.addr().addr() as u64 / LINE_BYTES))
        })
    }

    fn flushed<T: ?Sized>(&self, obj: &T) {
        self.meter.local(|local| {
            each_line(obj, |line| {
                add(&local.of_thread.counts.flushes, 1);
                self.sent(local, line);
                self.meter.model(local, |access| {
                    access.flush(line.addr() as u64 / LINE_BYTES);
                    0
                });
            });
        });
    }

    /// The block of `addr` is on its way to a flat medium.
    fn sent(&self, local: &mut Local, addr: *const u8) {
        if let Cost::Flat { write_ns, .. } = self.meter.profile.cost
            && local.under_way.first(addr.addr() as u64 / BLOCK_BYTES, WRITTEN)
        {
            spin(write_ns);
        }
    }

    /// What is under way arrives. When it has.
    fn arrived(&self, local: &mut Local) -> u64 {
        local.under_way.clear();
        self.meter.model(local, |access| access.fence())
    }
}

impl Meter {
    /// The counts of all threads.
    ///
    /// **Concurrency.** Exact while no other thread uses the medium.
    pub fn counts(&self) -> Counts {
        let of_threads = lock(&self.of_threads);
        of_threads.iter().map(|one| one.counts.counts()).fold(Counts::default(), Counts::add)
    }

    /// What the model of the profile made of the accesses of all threads; nothing where it is flat.
    ///
    /// **Concurrency.** As [`counts`](Meter::counts).
    pub fn traffic(&self) -> Traffic {
        let of_threads = lock(&self.of_threads);
        of_threads.iter().map(|one| one.traffic.counts()).fold(Traffic::default(), Traffic::add)
    }

    /// Nanoseconds on the model's clock.
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Runs `f` on the model of this thread, if there is one. The time that it says.
    #[inline]
    fn model(&self, local: &mut Local, f: impl FnOnce(&mut Access<'_>) -> u64) -> u64 {
        local.latest = 0;
        let Some(thread) = &mut local.model else { return 0 };
        f(&mut Access {
            thread,
            bandwidth: &self.bandwidth,
            traffic: &local.of_thread.traffic,
            now: &|| self.now(),
        })
    }

    /// Waits until a time on the model's clock. The clock is read behind what came before, so a load that this machine
    /// takes its time for is a part of the wait.
    #[inline]
    fn wait_until(&self, ns: u64) {
        if ns > 0 {
            while self.now() < ns {
                std::hint::spin_loop();
            }
        }
    }

    /// Runs `f` on what this thread knows about this medium.
    #[inline]
    fn local<R>(&self, f: impl FnOnce(&mut Local) -> R) -> R {
        LOCALS.with_borrow_mut(|locals| {
            let at = match locals.iter().position(|local| local.id == self.id) {
                Some(at) => at,
                None => self.register(locals),
            };
            f(&mut locals[at])
        })
    }

    #[cold]
    fn register(&self, locals: &mut Vec<Local>) -> usize {
        // Media that are gone keep no counts.
        locals.retain(|local| Arc::strong_count(&local.of_thread) > 1);
        let of_thread = Arc::<OfThread>::default();
        lock(&self.of_threads).push(Arc::clone(&of_thread));
        let model = match self.profile.cost {
            Cost::Machine(machine) => Some(Box::new(Thread::new(machine))),
            Cost::Nothing | Cost::Flat { .. } => None,
        };
        locals.push(Local {
            id: self.id,
            of_thread,
            model,
            lines: Touched::default(),
            blocks: Touched::default(),
            under_way: Touched::default(),
            latest: 0,
        });
        locals.len() - 1
    }
}

impl Local {
    /// An operation begins or ends.
    fn forget(&mut self) {
        self.lines.clear();
        self.blocks.clear();
        self.latest = 0;
    }
}

#[inline]
fn count_store(local: &mut Local, word: &PmU64) {
    let counts = &local.of_thread.counts;
    add(&counts.bytes_stored, PmU64::BYTES as u64);
    let addr = word.addr().addr() as u64;
    if local.lines.first(addr / LINE_BYTES, WRITTEN) {
        add(&counts.lines_written, 1);
        if local.blocks.first(addr / BLOCK_BYTES, WRITTEN) {
            add(&counts.blocks_written, 1);
        }
    }
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
        let due = self.loaded(word);
        let value = self.inner.load(word);
        self.meter.wait_until(due);
        value
    }
    #[inline]
    #[track_caller]
    fn store(&self, word: &PmU64, v: u64) {
        self.meter.wait_until(self.stored(word));
        self.inner.store(word, v);
    }

    #[inline]
    #[track_caller]
    fn cas(&self, word: &PmU64, old: u64, new: u64) -> Result<u64, u64> {
        let due = self.loaded(word);
        let answer = self.inner.cas(word, old, new);
        self.meter.wait_until(due);
        if answer.is_ok() {
            self.stored(word);
        }
        answer
    }

    #[inline]
    #[track_caller]
    fn store_nt(&self, word: &PmU64, v: u64) {
        self.meter.local(|local| {
            count_store(local, word);
            add(&local.of_thread.counts.nt_stores, 1);
            self.sent(local, word.addr());
            self.meter.model(local, |access| {
                access.store_past(word.addr().addr() as u64 / LINE_BYTES);
                0
            });
        });
        self.inner.store_nt(word, v);
    }

    #[inline]
    fn prefetch<T: OnMedia + ?Sized>(&self, obj: &T) {
        self.inner.prefetch(obj);
        if let Cost::Machine(_) = self.meter.profile.cost {
            each_line(obj, |line| {
                let begun = self.meter.local(|local| {
                    self.meter
                        .model(local, |access| access.prefetch(line.addr() as u64 / LINE_BYTES))
                });
                self.meter.wait_until(begun);
            });
        }
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
        let durable = self.meter.local(|local| {
            add(&local.of_thread.counts.fences, 1);
            self.arrived(local)
        });
        self.inner.fence();
        self.meter.wait_until(durable);
    }

    #[inline]
    #[track_caller]
    fn drain(&self) {
        let durable = self.meter.local(|local| {
            add(&local.of_thread.counts.drains, 1);
            self.arrived(local)
        });
        self.inner.drain();
        self.meter.wait_until(durable);
    }

    #[track_caller]
    fn event(&self, event: Event) {
        if matches!(event, Event::Begin | Event::Ack) {
            self.meter.local(|local| {
                local.forget();
                if event == Event::Begin {
                    add(&local.of_thread.counts.operations, 1);
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
        fn is_copy() -> bool;
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
