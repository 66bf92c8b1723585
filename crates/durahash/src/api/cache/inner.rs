//! What all handles of a cache and its sweep have in common, whatever the types of keys and values are.
//!
//! Beside the map lies a second one in the pool, whose name has [`SUFFIX`] behind it. It has
//!
//! | key | value |
//! |---|---|
//! | 0 | the latest time that the cache has seen, in milliseconds since 1970 |
//! | 1, 2 | the bounds of entries and of bytes, if they were set |
//! | 3 | the name of the policy, if it was set |
//! | 4 | 1, if it has what was evicted or has expired |
//! | 5, 6 | how many entries were evicted, and had expired and were removed, before the last close |
//! | 7 | `cache`: so it is told from a map of a caller |
//! | 8 | the number of the next entry that goes, stored by a close |
//! | from 2^16 on | the order in which entries go, as a close leaves it: see `saved.rs` |
//! | from 2^32 on | an entry that went: four bytes with the length of its key, key, value |

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use durahash_media::{Durability, ErrorKind, Result};

use super::super::map::Map;
use super::bounds::{Bounds, Max, NONE};
use super::queue::Queue;
use super::saved;
use crate::cache::Policy;
use crate::cache::clock::Time;
use crate::cache::planted::{Fault, planted};
use crate::engine::data::Type;
use crate::engine::expiry::NEVER;
use crate::engine::maps::{Handle, OpenPool};
use crate::engine::records::is_whole;
use crate::engine::settings::{CacheOptions, DesignOptions};
use crate::engine::spec::MapSpec;
use crate::engine::walk::Place;
use crate::engine::{Kind, Single, lock};
use crate::util::counter::Counter;

/// The end of the name of the map beside that of a cache.
pub(in crate::api) const SUFFIX: &str = ".cache";

/// The keys.
const TIME: u64 = 0;
const MAX_ENTRIES: u64 = 1;
const MAX_BYTES: u64 = 2;
const POLICY: u64 = 3;
const KEEPS: u64 = 4;
const EVICTED: u64 = 5;
const EXPIRED: u64 = 6;
const MARK: u64 = 7;
const NEXT: u64 = 8;
/// The value of [`MARK`].
const CACHE: &[u8] = b"cache";
/// Types of the keys and of the values.
const TYPES: (Type, Type) = (Type::U64, Type::Bytes);
/// Milliseconds after which the time is stored again. A thread that stores it may sleep as long: in all that is a second.
pub(super) const TIME_EVERY: u64 = 500;

thread_local! {
    /// Checks of caches that this thread makes, one inside of the other.
    static CHECKS: Cell<u32> = const { Cell::new(0) };
}

/// How far the sweep is in its round, a walk of the whole map.
#[derive(Default)]
pub(super) struct Round {
    /// Where it goes on; `None` where it begins.
    pub(super) at: Option<Place>,
    pub(super) counts: Counts,
    /// How many rounds have ended.
    pub(super) ended: u64,
}

/// The sweep of a cache rests while it lives.
pub(super) struct Rest<'a> {
    _round: Option<MutexGuard<'a, Round>>,
}

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        CHECKS.set(CHECKS.get() - 1);
    }
}

/// True if this thread checks a cache, and so holds up a sweep: it must not wait for another one, whose thread may wait for it.
pub(super) fn is_checking() -> bool {
    CHECKS.get() > 0
}

/// What a part of a round found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) looked: u64,
    pub(super) expired: u64,
    /// When the first of what is left expires.
    pub(super) soonest: Option<u64>,
}

impl Counts {
    pub(super) fn add(&mut self, other: Counts) {
        self.looked += other.looked;
        self.expired += other.expired;
        self.soonest = self.soonest.into_iter().chain(other.soonest).min();
    }
}

/// How many entries were removed: evicted, and because they had expired. Those of opens before that ended by a close are
/// among them.
#[derive(Default)]
pub(super) struct Went {
    pub(super) evicted: Counter,
    pub(super) expired: Counter,
}

/// See the module.
pub(crate) struct Inner {
    pub(super) handle: Handle<Single>,
    /// The map beside that of the cache; a pool that is only read may have none.
    pub(super) beside: Option<Map<u64, [u8]>>,
    pub(super) time: Time,
    /// The time that was stored last.
    stored: AtomicU64,
    /// There may be values that expire.
    pub(super) expires: AtomicBool,
    /// Nothing expires earlier than the lower of both: of what the last round left, and of what was stored since the one
    /// began that goes on, or the last one.
    pub(super) soonest: AtomicU64,
    pub(super) noted: AtomicU64,
    /// None where the cache may grow without, and where it is only read.
    pub(super) bounds: Option<Bounds>,
    /// Entries that went by themselves, if they are kept.
    pub(super) queue: Option<Queue>,
    pub(super) went: Went,
    /// Where the sweep is.
    round: Mutex<Round>,
}

/// The same, but for a pool without room, which is opened all the same: room is made in an open cache.
pub(super) fn unless_full(done: Result<()>) -> Result<()> {
    match done {
        Err(e) if matches!(e.kind(), ErrorKind::Full { .. }) => Ok(()),
        done => done,
    }
}

impl Inner {
    pub(super) fn open(handle: &Handle<Single>, options: &CacheOptions) -> Result<Self> {
        let beside = beside(handle)?.map(Map::<u64, [u8]>::new);
        let stored = match &beside {
            Some(beside) if !planted(Fault::TimeForgotten) => word(beside, TIME)?.unwrap_or(0),
            _ => 0,
        };
        let mut inner = Inner {
            handle: handle.clone(),
            beside,
            time: Time::new(options.clock.clone(), stored),
            stored: AtomicU64::new(stored),
            expires: AtomicBool::new(true),
            soonest: AtomicU64::new(0),
            noted: AtomicU64::new(u64::MAX),
            bounds: None,
            queue: None,
            went: Went::default(),
            round: Mutex::default(),
        };
        for (key, count) in inner.counts() {
            count.add(inner.setting(key, None)?.unwrap_or(0) as i64);
        }
        if !handle.pool().store.is_read_only() {
            inner.bounds = inner.bounds(options)?;
            let keeps = inner.setting(KEEPS, options.keep_evicted.then_some(1))?;
            let beside = inner.beside.clone().filter(|_| keeps.is_some());
            let next = inner.setting(NEXT, None)?.unwrap_or(0);
            inner.queue = beside.map(|beside| Queue::new(beside, next)).transpose()?;
            if let Some(queue) = &inner.queue {
                // Before anything goes: a kill leaves it to a pool that begins its opens anew, as a compaction makes it.
                unless_full(inner.setting(NEXT, Some(queue.end())).map(drop))?;
                let store = &handle.pool().store;
                if store.durability() == Durability::Interval {
                    // Nor does a loss of power give the same numbers to others.
                    store.sync()?;
                }
            }
            if let Some(beside) = &inner.beside
                && !is_marked(beside)?
            {
                beside.put(&MARK, CACHE)?;
            }
        }
        Ok(inner)
    }

    /// Stores what the next open needs, as far as a pool that is full has room for it; the order in which entries go where
    /// `saves_order`.
    pub(super) fn leave(&self, saves_order: bool) -> Result<()> {
        let next = self.queue.as_ref().map(|queue| self.setting(NEXT, Some(queue.next())));
        let next = unless_full(next.transpose().map(drop));
        let limits = unless_full(self.keep_limits());
        let time = unless_full(self.store_time(true));
        let counts = unless_full(self.store_counts());
        let bounds = self.bounds.as_ref().filter(|bounds| saves_order && self.can_save(bounds));
        let order = match (&self.beside, bounds.and_then(|bounds| bounds.order.as_ref())) {
            (Some(beside), Some(order)) => {
                unless_full(is_whole(saved::leave(beside, &**order)).map(drop))
            }
            _ => Ok(()),
        };
        next.and(limits).and(time).and(counts).and(order)
    }

    /// Stores what an open has set, if there was no room for it then.
    fn keep_limits(&self) -> Result<()> {
        let Some(bounds) = &self.bounds else { return Ok(()) };
        let (max_entries, max_bytes) = bounds.max();
        self.setting(MAX_ENTRIES, max_entries)?;
        self.setting(MAX_BYTES, max_bytes)?;
        self.policy(Some(bounds.policy)).map(drop)
    }

    /// False where the order in which entries go would take room that others may need before the next open gives it back.
    fn can_save(&self, bounds: &Bounds) -> bool {
        let (store, (entries, _)) = (&self.handle.engine.store, bounds.used());
        let space = store.facts().space;
        let free = store.max_bytes().saturating_sub(space.bytes) + space.free_bytes;
        free >= 16 * entries + space.bytes / 16
    }

    /// The bounds that are set, or were; what is stored counts for them. The policy begins with the entries in the order that
    /// the last close has saved, or else in that of the walk.
    fn bounds(&self, options: &CacheOptions) -> Result<Option<Bounds>> {
        // First, as it gives room back.
        let saved = self.beside.as_ref().map(saved::take).transpose()?.unwrap_or_default();
        let (max, policy) = self.limits(options)?;
        if max == (None, None) {
            return Ok(None);
        }
        let (max_entries, max_bytes) = (max.0.unwrap_or(NONE), max.1.unwrap_or(NONE));
        let engine = &*self.handle.engine;
        let entry_bytes = engine.entry_bytes(&[0; 8], &[0; 16]);
        let entries = max_entries.min(max_bytes / entry_bytes);
        // Where all are alike they are as small as expected.
        let bytes = engine.records.cell.map_or(max_bytes, |_| NONE);
        let order = policy.state(entries, bytes);
        let bounds = Bounds::new((policy, order), (max_entries, max_bytes));
        let mut entries = Vec::new();
        engine.each_size(bounds.has_bytes(), &mut |h, bytes| {
            bounds.add(1, bytes as i64);
            match &bounds.order {
                Some(order) if saved.is_empty() => order.inserted(h),
                Some(_) => entries.push(h),
                None => {}
            }
        })?;
        if let Some(order) = bounds.order.as_ref().filter(|_| !saved.is_empty()) {
            order.restore(entries, &saved);
        }
        Ok(Some(bounds))
    }

    /// The bounds of entries and of bytes, and the policy, that are set or were.
    pub(super) fn limits(&self, options: &CacheOptions) -> Result<(Max, Policy)> {
        let max_entries = self.limit(MAX_ENTRIES, options.max_entries)?;
        let max_bytes = self.limit(MAX_BYTES, options.max_bytes_used)?;
        let max = (max_entries.filter(|max| *max != NONE), max_bytes.filter(|max| *max != NONE));
        Ok((max, self.policy(options.eviction)?))
    }

    /// The number that an option sets, which the pool keeps; or the one that it has.
    fn setting(&self, key: u64, option: Option<u64>) -> Result<Option<u64>> {
        let Some(beside) = &self.beside else { return Ok(option) };
        let kept = word(beside, key)?;
        match option {
            None => Ok(kept),
            Some(set) => {
                if kept != option {
                    beside.put(&key, &set.to_le_bytes())?;
                }
                Ok(option)
            }
        }
    }

    /// The same of a bound: for want of room it holds for this open, as it may be what makes room, and a close stores it.
    fn limit(&self, key: u64, option: Option<u64>) -> Result<Option<u64>> {
        match self.setting(key, option) {
            Err(e) if matches!(e.kind(), ErrorKind::Full { .. }) => Ok(option),
            limit => limit,
        }
    }

    /// The same of the policy.
    fn policy(&self, option: Option<Policy>) -> Result<Policy> {
        let Some(beside) = &self.beside else { return Ok(option.unwrap_or_default()) };
        let kept = beside.get(&POLICY)?.map(|name| String::from_utf8_lossy(&name).parse());
        let kept: Option<Policy> = kept.transpose()?;
        if let Some(set) = option.filter(|set| Some(*set) != kept) {
            unless_full(beside.put(&POLICY, set.to_string().as_bytes()).map(drop))?;
        }
        Ok(option.or(kept).unwrap_or_default())
    }

    fn counts(&self) -> [(u64, &Counter); 2] {
        [(EVICTED, &self.went.evicted), (EXPIRED, &self.went.expired)]
    }

    /// Stores how many entries were removed, if any were.
    fn store_counts(&self) -> Result<()> {
        for (key, count) in self.counts() {
            let count = count.get();
            if count != 0 {
                self.setting(key, Some(count))?;
            }
        }
        Ok(())
    }

    /// Takes note that a value with this expiry was stored, perhaps: a round that began before may have missed it, and one
    /// that begins before this call meets it.
    #[inline]
    pub(super) fn notes(&self, expiry: u64) {
        if expiry != NEVER && !self.expires.load(Ordering::Relaxed) {
            self.expires.store(true, Ordering::Relaxed);
        }
        if expiry != NEVER && expiry < self.noted.load(Ordering::Relaxed) {
            self.noted.fetch_min(expiry, Ordering::Relaxed);
        }
    }

    /// The round. While it is locked the thread of the sweep stores nothing.
    pub(super) fn round(&self) -> MutexGuard<'_, Round> {
        lock(&self.round, &*self.handle.engine.store)
    }

    /// Lets the sweep rest during a check. The outermost one of a thread waits for the step that is under way. One inside of it does not, as
    /// who holds that step's lock may wait for this thread.
    pub(super) fn rest(&self) -> Rest<'_> {
        let round = if is_checking() { self.round.try_lock().ok() } else { Some(self.round()) };
        CHECKS.set(CHECKS.get() + 1);
        Rest { _round: round }
    }

    /// Stores the time, if it has not been for a while; or `always`, unless it stands still.
    pub(super) fn store_time(&self, always: bool) -> Result<()> {
        let (now, stored) = (self.time.now(), self.stored.load(Ordering::Relaxed));
        let due = stored.saturating_add(if always { 1 } else { TIME_EVERY });
        if now >= due
            && let Some(beside) = &self.beside
        {
            let _round = self.round();
            beside.put(&TIME, &now.to_le_bytes())?;
            self.stored.store(now, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A word of the map beside that of a cache.
fn word(beside: &Map<u64, [u8]>, key: u64) -> Result<Option<u64>> {
    let word = |value: &[u8]| value.try_into().map(u64::from_le_bytes).ok();
    Ok(beside.get_with(&key, word)?.flatten())
}

/// The map beside that of a cache, which is made where there is none.
fn beside(handle: &Handle<Single>) -> Result<Option<Handle<Single>>> {
    let (pool, engine) = (handle.pool(), &handle.engine);
    let name = pool.name(engine.number())? + SUFFIX;
    match pool.open(&name, Some(TYPES)) {
        Err(e) if matches!(e.kind(), ErrorKind::NoMap { .. }) => {}
        opened => return opened.map(Some),
    }
    if pool.store.is_read_only() {
        return Ok(None);
    }
    let spec = MapSpec {
        kind: Single::NUMBER,
        design: engine.design,
        key: TYPES.0,
        value: TYPES.1,
        geometry: engine.design.geometry(),
        seed: pool.store.format().seed,
        design_options: DesignOptions::default(),
    };
    pool.create(&name, &spec, |map| pool.handle(map, Some(TYPES))).map(Some)
}

fn is_marked(beside: &Map<u64, [u8]>) -> Result<bool> {
    Ok(beside.get(&MARK)?.is_some_and(|mark| mark == CACHE))
}

/// True if the map of this name is there, and was made to lie beside a cache.
pub(in crate::api) fn is_beside(pool: &Arc<OpenPool>, name: &str) -> Result<bool> {
    match pool.open(name, Some(TYPES)) {
        Ok(handle) => is_marked(&Map::new(handle)),
        Err(e) if matches!(e.kind(), ErrorKind::NoMap { .. } | ErrorKind::Types { .. }) => {
            Ok(false)
        }
        Err(e) => Err(e),
    }
}
