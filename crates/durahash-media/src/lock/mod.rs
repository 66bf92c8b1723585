//! Version locks for optimistic readers, and the lock of a directory.
//!
//! A [`VersionLock`] is a word {version, X, W}. **W** keeps writers out and lets readers pass; **X**
//! stops readers as well. A writer takes W, probes, and sets X before its first visible store; when
//! its commit is durable it releases both and raises the version in one store. A split or merge
//! holds W on all buckets that it concerns and X only around its switch, so that readers never wait
//! for a whole split.
//!
//! A reader takes the version before it looks and [validates](VersionLock::validate) it after its
//! last load. It stores nothing. It is enough that data are loaded with acquire and stored with
//! release order, as a [`Medium`] does: a reader that sees a store made under X also sees X, or the higher
//! version, when it validates. Versions never restart while a pool is open: at 62 bits they do not
//! wrap either. A [`EpochLock`] has 29 bits for it: it wraps, and a reader would be wrong that was held up
//! between two of its loads for exactly a multiple of 2^29 changes of one bucket.

#[cfg(not(loom))]
mod epoch;
#[cfg(all(test, loom))]
mod loom;

#[cfg(not(loom))]
pub use epoch::{EpochLock, Epochs, Present, Taken};

use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::medium::{Event, Memory};
use crate::primitive::{AtomicU64, Backoff, Ordering};

const W: u64 = 1;
const X: u64 = 2;
const VERSION: u64 = 4;

/// The state of a lock that a reader saw: equal words mean that nothing was changed in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

/// A version lock over a word in DRAM that the caller keeps. See the module docs in the source.
#[derive(Clone, Copy)]
pub struct VersionLock<'a>(&'a AtomicU64);

impl<'a> VersionLock<'a> {
    /// The lock in `word`; zero is unlocked.
    #[inline(always)]
    #[must_use]
    pub fn new(word: &'a AtomicU64) -> Self {
        VersionLock(word)
    }

    fn id(self) -> usize {
        std::ptr::from_ref(self.0).addr()
    }

    /// The version, after waiting for X to be released.
    #[inline(always)]
    pub fn read<M: Memory>(self, medium: &M) -> Version {
        let word = self.0.load(Ordering::Acquire);
        let version = if word & X == 0 { Version(word & !W) } else { self.read_slow(medium) };
        medium.event(Event::Look);
        version
    }

    /// The version, unless readers are kept out.
    #[inline(always)]
    #[must_use]
    pub fn try_read<M: Memory>(self, medium: &M) -> Option<Version> {
        let word = self.0.load(Ordering::Acquire);
        medium.event(Event::Look);
        (word & X == 0).then_some(Version(word & !W))
    }

    #[cold]
    fn read_slow<M: Memory>(self, medium: &M) -> Version {
        wait_for(medium, || {
            let word = self.0.load(Ordering::Acquire);
            (word & X == 0).then_some(Version(word & !W))
        })
    }

    /// True if nothing was changed since `version` was read. Loads made before this call, with
    /// acquire order, saw a consistent state if so.
    #[inline(always)]
    #[must_use]
    pub fn validate(self, version: Version) -> bool {
        self.0.load(Ordering::Acquire) & !W == version.0
    }

    /// Validates the version and that the lock is free; later writers are ordered after this call.
    #[inline]
    #[must_use]
    pub fn is_free_at(self, version: Version) -> bool {
        self.0.load(Ordering::SeqCst) == version.0
    }

    /// Takes W: no other writer from here on, readers pass.
    #[inline]
    #[track_caller]
    pub fn lock<M: Memory>(self, medium: &M) {
        let mut backoff = Backoff::new();
        while !self.try_lock(medium) {
            medium.event(Event::Wait);
            backoff.wait();
        }
    }

    /// Takes W if it is free.
    #[inline]
    #[must_use]
    #[track_caller]
    pub fn try_lock<M: Memory>(self, medium: &M) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let taken = word & W == 0
            // In one order with the closing of a pool's gate.
            && self
                .0
                .compare_exchange(word, word | W, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
        if taken {
            medium.event(Event::Locked(self.id()));
        }
        taken
    }

    /// Sets X: readers wait. The caller holds W.
    #[inline]
    pub fn exclude_readers(self) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & W != 0, "X is set by the holder of W only");
        // Release stores that follow carry this one with them (see the module docs).
        self.0.store(word | X, Ordering::Release);
    }

    /// Releases W, and X if set, and raises the version: the changes are durable.
    #[inline]
    #[track_caller]
    pub fn unlock_changed<M: Memory>(self, medium: &M) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & W != 0, "unlocked by a thread that does not hold it");
        medium.event(Event::Unlocked(self.id()));
        self.0.store((word & !(W | X)) + VERSION, Ordering::Release);
    }

    /// Releases W; nothing was changed, so readers under way stay valid.
    #[inline]
    #[track_caller]
    pub fn unlock_unchanged<M: Memory>(self, medium: &M) {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert!(word & (W | X) == W, "nothing may have been changed");
        medium.event(Event::Unlocked(self.id()));
        self.0.store(word & !W, Ordering::Release);
    }

    /// True if someone holds W.
    #[must_use]
    pub fn is_locked(self) -> bool {
        self.0.load(Ordering::Relaxed) & W != 0
    }
}

/// The lock of a directory: held shared by threads that store entries, exclusively by doubling and
/// halving. Readers of the directory do not take it.
pub struct DirectoryLock(AtomicU64);

const EXCLUSIVE: u64 = 1 << 63;

impl DirectoryLock {
    /// An unlocked lock.
    #[must_use]
    pub fn new() -> Self {
        DirectoryLock(AtomicU64::new(0))
    }

    /// Runs `f` while no doubling or halving happens.
    #[track_caller]
    pub fn shared<M: Memory, T>(&self, medium: &M, f: impl FnOnce() -> T) -> T {
        wait_for(medium, || self.try_add(1));
        self.run(medium, 1, f)
    }

    /// Runs `f` exclusively: no thread stores entries. Waiting writers keep later ones out.
    #[track_caller]
    pub fn exclusive<M: Memory, T>(&self, medium: &M, f: impl FnOnce() -> T) -> T {
        wait_for(medium, || self.try_add(EXCLUSIVE));
        wait_for(medium, || (self.0.load(Ordering::Acquire) == EXCLUSIVE).then_some(()));
        self.run(medium, EXCLUSIVE, f)
    }

    /// Adds a holder, unless one has the lock exclusively. A race that is lost to another thread is no reason to wait.
    fn try_add(&self, n: u64) -> Option<()> {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & EXCLUSIVE == 0 {
            let added =
                self.0.compare_exchange(word, word + n, Ordering::Acquire, Ordering::Relaxed);
            match added {
                Ok(_) => return Some(()),
                Err(found) => word = found,
            }
        }
        None
    }

    #[track_caller]
    fn run<M: Memory, T>(&self, medium: &M, by: u64, f: impl FnOnce() -> T) -> T {
        medium.event(Event::Locked(self.id()));
        let _release = Release { lock: self, by };
        let done = f();
        medium.event(Event::Unlocked(self.id()));
        done
    }

    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Default for DirectoryLock {
    fn default() -> Self {
        Self::new()
    }
}

/// Releases even when `f` panics.
struct Release<'a> {
    lock: &'a DirectoryLock,
    by: u64,
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.lock.0.fetch_sub(self.by, Ordering::Release);
    }
}

/// Takes a mutex whose holder may call the medium: it is polled, so that a simulated schedule can
/// let the holder go on.
pub fn wait_lock<'a, M: Memory, T>(mutex: &'a Mutex<T>, medium: &M) -> MutexGuard<'a, T> {
    wait_for(medium, || match mutex.try_lock() {
        Ok(guard) => Some(guard),
        // The guarded data only change after the steps that may fail.
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })
}

/// Polls until there is an answer.
#[track_caller]
pub(crate) fn wait_for<M: Memory, T>(medium: &M, mut poll: impl FnMut() -> Option<T>) -> T {
    let mut backoff = Backoff::new();
    loop {
        if let Some(answer) = poll() {
            return answer;
        }
        medium.event(Event::Wait);
        backoff.wait();
    }
}
