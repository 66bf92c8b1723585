//! The time by which entries expire.
//!
//! A cache asks the system for the time of day once, at its open, and from there on it counts by a clock that nobody
//! sets. The latest time that it has seen lies in the pool, stored at every close and once a second while entries
//! expire. An open begins no earlier. So while a cache is open, nothing that is done to the system's clock revives or
//! kills an entry; and a clock that is set back between two opens revives none, up to a second before a kill.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clock of a [`Cache`](crate::Cache): the system's, or one that a test sets.
///
/// ```
/// use std::time::Duration;
///
/// use durahash::cache::Clock;
/// use durahash::{Cache, Options};
///
/// # fn main() -> durahash::Result<()> {
/// let clock = Clock::manual(1_000_000);
/// let cache: Cache<str, u64> = Options::new().clock(clock.clone()).in_memory()?;
/// cache.put_for("key", &1, Duration::from_secs(60))?;
/// clock.advance(Duration::from_millis(59_999));
/// assert_eq!(cache.get("key")?, Some(1));
/// clock.advance(Duration::from_millis(1));
/// assert_eq!(cache.get("key")?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Milliseconds since 1970, where a test sets them.
    manual: Option<Arc<AtomicU64>>,
}

impl Clock {
    /// The clock of the system, which caches have unless [another](crate::Options::clock) is set.
    #[must_use]
    pub fn system() -> Self {
        Clock::default()
    }

    /// A clock that stands at so many milliseconds since 1970 until it is moved on. Clones are the same clock.
    #[must_use]
    pub fn manual(millis: u64) -> Self {
        Clock { manual: Some(Arc::new(AtomicU64::new(millis))) }
    }

    /// Moves the hands of a manual clock on, at most to the last millisecond that there is. That of the system stays as
    /// it is.
    pub fn advance(&self, by: Duration) {
        if let Some(millis) = &self.manual {
            let later = |now: u64| Some(now.saturating_add(millis_of(by)));
            let _ = millis.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        }
    }

    /// The time of day, in milliseconds since 1970.
    fn time_of_day(&self) -> u64 {
        match &self.manual {
            Some(millis) => millis.load(Ordering::SeqCst),
            None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis_of),
        }
    }
}

/// A duration in milliseconds.
pub(crate) fn millis_of(duration: Duration) -> u64 {
    duration.as_millis().try_into().unwrap_or(u64::MAX)
}

/// The time of one open of a cache.
pub(crate) struct Time {
    clock: Clock,
    /// The time at the open.
    base: u64,
    start: Instant,
}

impl Time {
    /// Begins at the time of day, and not before `seen`.
    pub(crate) fn new(clock: Clock, seen: u64) -> Self {
        Time { base: clock.time_of_day().max(seen), start: Instant::now(), clock }
    }

    /// Milliseconds since 1970.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if self.clock.manual.is_some() {
            return self.clock.time_of_day().max(self.base);
        }
        self.base.saturating_add(millis_of(self.start.elapsed()))
    }
}
