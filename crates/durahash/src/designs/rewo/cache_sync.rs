//! Threads that change copies in the cached table while writers wait for the medium (§3.5, Figs. 6 and 7).
//!
//! A writer that has decided on its change gives an order, makes the change durable, and then ends the order:
//!
//! | Signal | Set by | Then |
//! |---|---|---|
//! | `FREE` → `CLAIMED` | writer | it writes down the copy to be made |
//! | `CLAIMED` → `ORDERED` | writer | it goes on to the medium |
//! | `ORDERED` → `TAKEN` | thread | it locks the bucket of the copy, keeps readers out, changes the copy |
//! | `TAKEN` → `DONE` | thread | the bucket stays locked |
//! | `TAKEN` → `REFUSED` | thread | the bucket is locked: the writer does it, when its change is durable |
//! | `DONE` → `FREE` | writer, when its change is durable | it unlocks the bucket, so that readers see the copy |
//! | `ORDERED` → `CLAIMED` → `FREE` | writer, when its change is durable | no thread came for it: the writer does all of it |
//!
//! So no copy is seen before it is durable, or is left behind when the writer lets go of its locks in the pool,
//! and a writer waits for a thread only while that stores a few words. Where copies of two writers share a
//! bucket, the second may wait until the change of the first is durable. It waits for no other: the first waits for
//! nothing but the medium, threads wait for no bucket, and they take none that a writer waits for.
//!
//! A thread looks for orders for a moment, then sleeps. An order to one that sleeps is done by the writer, which
//! wakes it for the next ones. Where there are no threads ([`SYNC_BY_CALLS`]), a thread that calls
//! [`sync`](CacheSync::sync) does what one of them would do.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};

use durahash_media::process::{self, Process};
use durahash_media::{Error, Event, Medium, Pool, Result};

use super::cached::{Cached, Copy, Tried};
use super::planted::{Fault, planted};

/// No threads change copies while writers wait for the medium, but a thread that calls
/// [`sync_copies`](super::Rewo::sync_copies): a tester chooses the moments.
pub const SYNC_BY_CALLS: u32 = u32::MAX;

const FREE: u8 = 0;
const CLAIMED: u8 = 1;
const ORDERED: u8 = 2;
const TAKEN: u8 = 3;
const DONE: u8 = 4;
const REFUSED: u8 = 5;

/// Writers that have a signal of their own; others take the next that is free, of a few.
const SIGNALS: usize = 64;
const TRIES: usize = 4;
/// Looks at all its signals, in vain, after which a thread sleeps.
const LOOKS: u32 = 20_000;

/// The order of one writer. Alone in its pair of lines.
#[repr(align(128))]
#[derive(Default)]
struct Signal {
    state: AtomicU8,
    /// The kind of the change, and its payload.
    what: AtomicU8,
    h: AtomicU64,
    remixed: AtomicU64,
    payload: AtomicU64,
    /// The bucket that is locked, and one more; 0 for none.
    locked: AtomicU64,
}

impl Signal {
    fn write(&self, h: u64, remixed: u64, copy: Copy) {
        let (what, payload) = match copy {
            Copy::Insert(payload) => (0, payload),
            Copy::Set(payload) => (1, payload),
            Copy::Remove => (2, 0),
        };
        self.what.store(what, Ordering::Relaxed);
        self.payload.store(payload, Ordering::Relaxed);
        self.h.store(h, Ordering::Relaxed);
        self.remixed.store(remixed, Ordering::Relaxed);
        self.state.store(ORDERED, Ordering::Release);
    }

    fn read(&self) -> (u64, u64, Copy) {
        let payload = self.payload.load(Ordering::Relaxed);
        let copy = match self.what.load(Ordering::Relaxed) {
            0 => Copy::Insert(payload),
            1 => Copy::Set(payload),
            _ => Copy::Remove,
        };
        (self.h.load(Ordering::Relaxed), self.remixed.load(Ordering::Relaxed), copy)
    }
}

thread_local! {
    static SIGNAL: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % SIGNALS)
    };
}

/// The state that threads and writers share.
struct Shared {
    /// Not in the struct: they would lie on the stack of the thread that opens a pool first, which may be a small one.
    signals: Box<[Signal]>,
    /// Which threads sleep, or are about to.
    sleeps: Vec<AtomicBool>,
    ends: AtomicBool,
    done: AtomicU64,
}

/// The threads. See the head of this file.
pub(super) struct CacheSync {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The process that has them: a forked child has none.
    process: Process,
}

impl CacheSync {
    /// Starts so many threads; none for none.
    ///
    /// # Errors
    /// [`Io`](durahash_media::ErrorKind::Io) where the system gives no more threads.
    pub(super) fn start<M: Medium>(
        count: u32,
        pool: &Arc<Pool<M>>,
        cached: &Arc<Cached>,
    ) -> Result<Option<Self>> {
        if count == 0 || !cached.can_be_on() {
            return Ok(None);
        }
        let count = if count == SYNC_BY_CALLS { 0 } else { (count as usize).min(SIGNALS) };
        let shared = Arc::new(Shared {
            signals: (0..SIGNALS).map(|_| Signal::default()).collect(),
            sleeps: (0..count).map(|_| AtomicBool::new(false)).collect(),
            ends: AtomicBool::new(false),
            done: AtomicU64::new(0),
        });
        let (threads, process) = (Vec::with_capacity(count), Process::own());
        let mut cache_sync = CacheSync { shared, threads, process };
        for i in 0..count {
            let (shared, pool, cached) = (cache_sync.shared.clone(), pool.clone(), cached.clone());
            let serve = move || shared.serve(i, pool.medium(), &cached);
            let thread = process::spawn("durahash-sync", serve);
            cache_sync.threads.push(thread.map_err(|e| Error::io("starting a thread", None, e))?);
        }
        Ok(Some(cache_sync))
    }

    /// Orders done by threads so far.
    pub(super) fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Relaxed)
    }

    fn thread(&self, signal: usize) -> Option<(&AtomicBool, &Thread)> {
        let i = signal.checked_rem(self.threads.len())?;
        Some((&self.shared.sleeps[i], self.threads[i].thread()))
    }

    /// Does all that is ordered, as its thread would; true if there was something.
    pub(super) fn sync<M: Medium>(&self, medium: &M, cached: &Cached) -> bool {
        self.shared.take_all(self.shared.signals.iter(), medium, cached)
    }

    /// Gives an order, if a thread is awake to take it. The writer that gives it holds the locks of the hash in the pool.
    fn order(&self, h: u64, remixed: u64, copy: Copy) -> Option<&Signal> {
        let at = SIGNAL.get();
        if let Some((sleeps, thread)) = self.thread(at)
            && sleeps.load(Ordering::Relaxed)
        {
            thread.unpark();
            return None;
        }
        let mut signals = (at..at + TRIES).map(|i| &self.shared.signals[i % SIGNALS]);
        let signal = signals.find(|signal| {
            let state = &signal.state;
            state.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })?;
        signal.write(h, remixed, copy);
        Some(signal)
    }
}

impl Drop for CacheSync {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            if self.process != Process::own() {
                continue;
            }
            thread.thread().unpark();
            // One that broke off has said why.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve<M: Medium>(&self, thread: usize, medium: &M, cached: &Cached) {
        let mut looks = 0;
        while !self.ends.load(Ordering::Acquire) {
            let mine = self.signals.iter().skip(thread).step_by(self.sleeps.len());
            if self.take_all(mine, medium, cached) {
                looks = 0;
                continue;
            }
            looks += 1;
            if looks < LOOKS {
                std::hint::spin_loop();
                continue;
            }
            // An order that comes now is taken back by its writer.
            self.sleeps[thread].store(true, Ordering::Relaxed);
            std::thread::park();
            self.sleeps[thread].store(false, Ordering::Relaxed);
            looks = 0;
        }
    }

    /// Does the orders of these signals; true if there are any.
    fn take_all<'a, M: Medium>(
        &self,
        signals: impl Iterator<Item = &'a Signal>,
        medium: &M,
        cached: &Cached,
    ) -> bool {
        let done = signals.filter(|signal| Self::take(signal, medium, cached)).count();
        if done > 0 {
            self.done.fetch_add(done as u64, Ordering::Relaxed);
        }
        done > 0
    }

    fn take<M: Medium>(signal: &Signal, medium: &M, cached: &Cached) -> bool {
        let is_ordered = signal.state.load(Ordering::Relaxed) == ORDERED;
        if planted(Fault::SyncedLate) && is_ordered {
            let (h, remixed, copy) = signal.read();
            medium.event(Event::Look);
            if signal.state.load(Ordering::Relaxed) == FREE {
                if let Tried::Changed(Some(bucket)) = cached.try_change(medium, h, remixed, copy) {
                    cached.show(medium, bucket);
                }
                return true;
            }
        }
        if !is_ordered
            || signal
                .state
                .compare_exchange(ORDERED, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return false;
        }
        let (h, remixed, copy) = signal.read();
        let mut answer = Answer { signal, cached, is_given: false };
        match cached.try_change(medium, h, remixed, copy) {
            Tried::Changed(Some(bucket)) if planted(Fault::SyncedEarly) => {
                cached.show(medium, bucket);
                answer.give(DONE, None);
            }
            Tried::Changed(locked) => answer.give(DONE, locked),
            Tried::Busy => answer.give(REFUSED, None),
        }
        true
    }
}

/// The answer that a writer waits for, which it gets although the thread may panic.
struct Answer<'a> {
    signal: &'a Signal,
    cached: &'a Cached,
    is_given: bool,
}

impl Answer<'_> {
    fn give(&mut self, state: u8, locked: Option<u64>) {
        self.signal.locked.store(locked.map_or(0, |bucket| bucket + 1), Ordering::Relaxed);
        self.signal.state.store(state, Ordering::Release);
        self.is_given = true;
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if !self.is_given {
            self.cached.stop();
            self.give(DONE, None);
        }
    }
}

/// A change to copy when it is durable. Dropped without an end: the writer broke off.
pub(super) struct Ordered<'a, M: Medium> {
    medium: &'a M,
    cached: &'a Cached,
    signal: Option<&'a Signal>,
    h: u64,
    remixed: u64,
    copy: Copy,
}

impl<'a, M: Medium> Ordered<'a, M> {
    /// The writer holds the locks of the hash in the pool from here to the end.
    #[inline]
    pub(super) fn new(
        (medium, cached, cache_sync): (&'a M, &'a Cached, Option<&'a CacheSync>),
        (h, remixed): (u64, u64),
        copy: Copy,
    ) -> Self {
        let cache_sync = cache_sync.filter(|_| !cached.ignores(copy));
        let signal = cache_sync.and_then(|cache_sync| cache_sync.order(h, remixed, copy));
        Ordered { medium, cached, signal, h, remixed, copy }
    }

    /// The change is durable: the copy may be seen.
    #[inline]
    pub(super) fn end(mut self) {
        let locked = match self.signal.take() {
            Some(signal) => match collect(self.medium, signal) {
                Tried::Changed(locked) => locked,
                Tried::Busy => self.change(),
            },
            None if self.cached.ignores(self.copy) => None,
            None => self.change(),
        };
        if let Some(bucket) = locked {
            self.cached.show(self.medium, bucket);
        }
    }

    fn change(&self) -> Option<u64> {
        self.cached.change(self.medium, self.h, self.remixed, self.copy)
    }
}

/// The bucket that a thread has locked; `Busy` where none came, or did it. The signal is free then.
fn collect<M: Medium>(medium: &M, signal: &Signal) -> Tried {
    let state = &signal.state;
    let back = state.compare_exchange(ORDERED, CLAIMED, Ordering::Acquire, Ordering::Acquire);
    let mut now = back.map_or_else(|now| now, |_| REFUSED);
    while now == TAKEN {
        medium.wait();
        now = state.load(Ordering::Acquire);
    }
    let locked = signal.locked.load(Ordering::Relaxed).checked_sub(1);
    state.store(FREE, Ordering::Release);
    if now == DONE { Tried::Changed(locked) } else { Tried::Busy }
}

impl<M: Medium> Drop for Ordered<'_, M> {
    fn drop(&mut self) {
        if let Some(signal) = self.signal.take() {
            self.cached.stop();
            if let Tried::Changed(Some(bucket)) = collect(self.medium, signal) {
                self.cached.withdraw(self.medium, bucket);
            }
        }
    }
}
