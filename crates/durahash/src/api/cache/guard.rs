//! The time from the first handle of a cache to the last: its sweep, and what it leaves in the pool.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use durahash_media::Result;

use super::inner::Inner;
use super::sweep::Sweeper;
use crate::engine::Single;
use crate::engine::maps::Handle;
use crate::engine::settings::CacheOptions;

/// Lives as long as a handle of the cache.
pub(super) struct Guard {
    pub(super) inner: Arc<Inner>,
    sweeper: Mutex<Option<Sweeper>>,
}

impl Guard {
    /// That of the cache, which is made for the first handle.
    pub(super) fn of(handle: &Handle<Single>, options: &CacheOptions) -> Result<Arc<Self>> {
        let map = handle.engine.number();
        let mut all = handle.pool().shared();
        let known = all.get(&map).and_then(Weak::upgrade);
        if let Some(Ok(guard)) = known.map(Arc::downcast) {
            return Ok(guard);
        }
        let inner = Arc::new(Inner::open(handle, options)?);
        if let Some(bounds) = &inner.bounds {
            inner.shrink(bounds)?;
        }
        let sweeps = options.sweep && !handle.pool().store.is_read_only();
        let sweeper = if sweeps { Sweeper::start(Arc::clone(&inner)) } else { None };
        let guard = Arc::new(Guard { inner, sweeper: Mutex::new(sweeper) });
        let weak: Weak<Self> = Arc::downgrade(&guard);
        all.insert(map, weak as Weak<dyn Any + Send + Sync>);
        Ok(guard)
    }

    /// Ends what goes on beside the operations, and leaves in the pool what the next open needs.
    pub(super) fn end(&self) -> Result<()> {
        let pool = self.inner.handle.pool();
        let sweeper = self.sweeper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Err(e) = pool.check_process() {
            // The thread is its parent's.
            std::mem::forget(sweeper);
            return Err(e);
        }
        if let Some(sweeper) = sweeper {
            sweeper.end();
        }
        if pool.store.is_read_only() {
            return Ok(());
        }
        self.inner.store_time(true)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nothing is left that could report a failure. `close` reports.
        let _ = self.end();
    }
}
