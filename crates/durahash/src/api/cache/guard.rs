//! The time from the first handle of a cache to the last: its sweep, and what it leaves in the pool.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use durahash_media::{Durability, Result};

use super::inner::{Inner, unless_full};
use super::sweep::Sweeper;
use crate::engine::Single;
use crate::engine::maps::Handle;
use crate::engine::settings::CacheOptions;

/// Lives as long as a handle of the cache.
pub(super) struct Guard {
    pub(super) inner: Arc<Inner>,
    sweeper: Mutex<Option<Sweeper>>,
    ended: AtomicBool,
}

impl Guard {
    /// That of the cache, which is made for the first handle, when one before has ended.
    pub(super) fn of(handle: &Handle<Single>, options: &CacheOptions) -> Result<Arc<Self>> {
        let (pool, map) = (handle.pool(), handle.engine.number());
        let mut all = pool.shared();
        while let Some(known) = all.get(&map) {
            if let Some(Ok(guard)) = known.upgrade().map(Arc::downcast) {
                return Ok(guard);
            }
            drop(all);
            pool.store.wait();
            all = pool.shared();
        }
        let inner = Arc::new(Inner::open(handle, options)?);
        if let Some(bounds) = &inner.bounds {
            unless_full(inner.shrink(bounds, |_| false))?;
        }
        let sweeps = options.sweep && !pool.store.is_read_only();
        let sweeper = if sweeps { Sweeper::start(Arc::clone(&inner)) } else { None };
        let (sweeper, ended) = (Mutex::new(sweeper), AtomicBool::new(false));
        let guard = Arc::new(Guard { inner, sweeper, ended });
        let weak: Weak<Self> = Arc::downgrade(&guard);
        all.insert(map, weak as Weak<dyn Any + Send + Sync>);
        Ok(guard)
    }

    /// Ends what goes on beside the operations, leaves in the pool what the next open needs, and makes way for it. The caller
    /// still has so many handles of the pool, which it drops next.
    pub(super) fn end(&self, handles: usize) -> Result<()> {
        if self.ended.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let (pool, map) = (self.inner.handle.pool(), self.inner.handle.engine.number());
        let sweeper = self.sweeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Err(e) = pool.check_process() {
            // The thread is its parent's.
            std::mem::forget(sweeper);
            return Err(e);
        }
        if let Some(sweeper) = sweeper {
            sweeper.end();
        }
        let is_read_only = pool.store.is_read_only();
        let saves_order = self.opens_again(handles);
        let stored = if is_read_only { Ok(()) } else { self.inner.leave(saves_order) };
        pool.shared().remove(&map);
        stored
    }

    /// False if nobody can open the cache again, since its pool is in memory, and goes with it.
    fn opens_again(&self, handles: usize) -> bool {
        let inner = &*self.inner;
        let own = 1 + usize::from(inner.beside.is_some()) + usize::from(inner.queue.is_some());
        let handles = handles + own;
        let pool = inner.handle.pool();
        pool.store.durability() != Durability::None || Arc::strong_count(pool) > handles
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nothing is left that could report a failure. `close` reports.
        let _ = self.end(0);
    }
}
