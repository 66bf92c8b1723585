//! How much a cache stores, and how much it may.
//!
//! An insert reserves its place before it is made, and evicts until it gets one. So no more is stored than the bounds
//! say, whatever threads do at once, but for values that closures make: how long one is, is known only when its bucket is locked, where
//! nothing can be evicted. Together they may be over the bound of bytes by a fiftieth of it, and others go for them at once. What
//! does not fit into that waits until the bucket is free and room was made. Where nothing is evicted there is no such allowance.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

use durahash_media::{Error, Limit};

use crate::cache::Policy;
use crate::cache::policy::Evict;
use crate::index::Room;
use crate::util::counter::Counter;

/// A bound that is none.
pub(super) const NONE: u64 = u64::MAX;
/// One part in so many of the bound of bytes is beyond it, for values that closures make.
const BEYOND_PART: i64 = 50;

thread_local! {
    /// Places in the hands of this thread, of all caches.
    static OWN: Cell<u64> = const { Cell::new(0) };
}

/// The bounds of entries and of bytes, where there are any.
pub(super) type Max = (Option<u64>, Option<u64>);

/// The bounds, and what counts for them.
pub(super) struct Bounds {
    pub(super) policy: Policy,
    /// The order in which entries go; none under [`Policy::None`].
    pub(super) order: Option<Box<dyn Evict>>,
    max_entries: i64,
    max_bytes: i64,
    used: Used,
}

/// What inserts change: not in the lines that hits read.
#[repr(align(128))]
#[derive(Default)]
struct Used {
    entries: AtomicI64,
    bytes: AtomicI64,
    /// Places in the hands of all threads. Who waits for one has none: threads do not wait for one another.
    places: Counter,
}

/// A bound as a number that sums are compared with.
fn signed(bound: u64) -> i64 {
    bound.try_into().unwrap_or(i64::MAX)
}

/// Adds to a count that never is more than `max` by that; returns what was added, if there was room.
fn add_up_to(count: &AtomicI64, more: i64, max: i64) -> Option<i64> {
    let sum = |now: i64| now.checked_add(more).filter(|sum| *sum <= max);
    if more != 0 {
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).ok()?;
    }
    Some(more)
}

impl Bounds {
    /// With a policy and the order that it has made.
    pub(super) fn new(
        (policy, order): (Policy, Option<Box<dyn Evict>>),
        (max_entries, max_bytes): (u64, u64),
    ) -> Self {
        Bounds {
            policy,
            order,
            max_entries: signed(max_entries),
            max_bytes: signed(max_bytes),
            used: Used::default(),
        }
    }

    /// True if bytes have a bound.
    pub(super) fn has_bytes(&self) -> bool {
        self.max_bytes != signed(NONE)
    }

    /// Entries and bytes that are stored, or about to be.
    pub(super) fn used(&self) -> (u64, u64) {
        let used = |count: &AtomicI64| count.load(Ordering::Relaxed).max(0) as u64;
        (used(&self.used.entries), used(&self.used.bytes))
    }

    /// The bounds of both.
    pub(super) fn max(&self) -> Max {
        let bound = |max: i64| (max != signed(NONE)).then_some(max as u64);
        (bound(self.max_entries), bound(self.max_bytes))
    }

    pub(super) fn add(&self, entries: i64, bytes: i64) {
        if entries != 0 {
            self.used.entries.fetch_add(entries, Ordering::Relaxed);
        }
        if bytes != 0 {
            self.used.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// True if more is stored than the bounds say.
    pub(super) fn is_over(&self) -> bool {
        self.used.entries.load(Ordering::Relaxed) > self.max_entries
            || self.used.bytes.load(Ordering::Relaxed) > self.max_bytes
    }

    /// A place for nothing, which says that a thread is about to change what is stored.
    pub(super) fn hand(&self) -> Place<'_> {
        self.used.places.add(1);
        OWN.set(OWN.get() + 1);
        Place { bounds: self, entries: 0, bytes: 0 }
    }

    /// True if other threads have places, for which this one may wait: they wait for none of its own.
    pub(super) fn are_others_at_it(&self) -> bool {
        OWN.get() == 0 && self.used.places.change() > 0
    }

    /// Reserves a place, if there is room.
    pub(super) fn reserve(&self, entries: i64, bytes: i64) -> Option<Place<'_>> {
        let entries = add_up_to(&self.used.entries, entries, self.max_entries)?;
        let added = add_up_to(&self.used.bytes, bytes, self.max_bytes);
        // What was added where there is no room for the other is given back with the place.
        let mut place = self.hand();
        (place.entries, place.bytes) = (entries, added.unwrap_or(0));
        added.map(|_| place)
    }

    /// True if an entry of so many bytes has room where there is no other.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        signed(bytes) <= self.max_bytes
    }

    /// The most bytes beside what a closure makes: others go for those beyond the bound, if any do.
    fn max_for_closures(&self) -> i64 {
        let beyond = if self.order.is_some() { self.max_bytes / BEYOND_PART } else { 0 };
        self.max_bytes.saturating_add(beyond)
    }

    /// The error of an insert that gets no room. `bytes`: of its entry.
    #[cold]
    pub(super) fn full(&self, bytes: u64) -> Error {
        let what = if !self.fits(bytes) {
            "the entry is larger than all that the cache may hold (`Options::max_bytes_used`)"
        } else {
            "the cache holds as much as it may (`Options::max_entries`, `max_bytes_used`), and evicts nothing"
        };
        Error::full(bytes, Limit::Design(what))
    }
}

/// The error of a change that has waited for room, and comes too late. `bytes`: of its entry.
#[cold]
pub(super) fn overtaken(bytes: i64) -> Error {
    Error::full(bytes as u64, Limit::Overtaken)
}

/// A place that is reserved, until it is settled or dropped.
pub(super) struct Place<'a> {
    bounds: &'a Bounds,
    entries: i64,
    bytes: i64,
}

impl Place<'_> {
    /// True if it is that of a new entry.
    pub(super) fn is_new(&self) -> bool {
        self.entries > 0
    }

    /// The room that a change may take, which may take `room` if it has a place for that.
    pub(super) fn room(place: &Option<Self>, room: Room) -> Room {
        if place.as_ref().is_none_or(Self::is_new) { room } else { Room::None }
    }

    /// Reserves so many bytes with it in all, if there is room.
    pub(super) fn reserve(&mut self, bytes: i64) -> bool {
        self.reserve_up_to(bytes, self.bounds.max_bytes)
    }

    /// The same for what a closure makes.
    pub(super) fn reserve_for_closure(&mut self, bytes: i64) -> bool {
        self.reserve_up_to(bytes, self.bounds.max_for_closures())
    }

    fn reserve_up_to(&mut self, bytes: i64, max: i64) -> bool {
        let more = (bytes - self.bytes).max(0);
        let added = add_up_to(&self.bounds.used.bytes, more, max);
        self.bytes += added.unwrap_or(0);
        added.is_some()
    }

    /// It has what an entry of so many bytes took that was removed.
    pub(super) fn take_over(&mut self, bytes: u64) {
        (self.entries, self.bytes) = (1, bytes as i64);
    }

    /// It has what `other` has, too.
    pub(super) fn join(&mut self, mut other: Self) {
        self.entries += std::mem::take(&mut other.entries);
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives up what it has beyond so many entries and bytes.
    pub(super) fn trim(&mut self, entries: i64, bytes: i64) {
        let over = [self.entries - entries, self.bytes - bytes].map(|over| over.max(0));
        self.bounds.add(-over[0], -over[1]);
        self.entries -= over[0];
        self.bytes -= over[1];
    }

    /// Gives what it has up for so much that is more, or less, than before.
    pub(super) fn settle(&mut self, entries: i64, bytes: i64) {
        self.bounds.add(entries - self.entries, bytes - self.bytes);
        (self.entries, self.bytes) = (0, 0);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.bounds.add(-self.entries, -self.bytes);
        self.bounds.used.places.add(-1);
        OWN.set(OWN.get() - 1);
    }
}
