//! Room for what comes, by what goes.

use std::cell::Cell;
use std::sync::MutexGuard;

use durahash_media::Result;

use super::bounds::{Bounds, Place};
use super::inner::Inner;
use super::queue::{Queue, parts};
use crate::cache::planted::{Fault, planted};
use crate::cache::policy::{Policy, Victim};
use crate::engine::edit::Rule;
use crate::engine::expiry::{NEVER, is_over, split};
use crate::engine::records::{is_damage, is_whole};
use crate::engine::settings::CacheOptions;
use crate::engine::stats::CacheStats;
use crate::engine::{ENTRY_BYTES, Engine, Single};
use crate::index::{Change, Room};

/// How often a thread finds nothing to evict, and no other thread about to change that, before it is an error.
const TRIES: u32 = 10_000;

thread_local! {
    /// A victim that this thread has chosen, of whose entry nothing is fetched yet, and the address of its cache: a hint.
    static CHOSEN: Cell<Option<(usize, u64)>> = const { Cell::new(None) };
}

/// An entry before or after a change: its bytes, as they count, if it is there.
pub(super) type Entry = Option<i64>;

/// Bytes by which an entry becomes longer.
pub(super) fn growth(before: Entry, after: i64) -> i64 {
    (after - before.unwrap_or(0)).max(0)
}

impl Inner {
    fn engine(&self) -> &Engine<Single> {
        &self.handle.engine
    }

    /// Starts to fetch what is noted of this hash.
    #[inline]
    pub(super) fn fetch(&self, h: u64) {
        if let Some(order) = self.bounds.as_ref().and_then(|bounds| bounds.order.as_ref()) {
            order.fetch(h);
        }
    }

    /// The same before a change, which may insert. The lines of the entry that was chosen last come meanwhile: where they are is a line of
    /// the directory that is waited for, as one is for this hash, and no lock lies between, so both are waited for at once.
    fn fetch_to_insert(&self, h: u64) {
        self.fetch(h);
        self.fetch_chosen(None);
    }

    /// Starts to fetch the entry that this thread has chosen last, before it chooses `next`.
    fn fetch_chosen(&self, next: Option<u64>) {
        let this = std::ptr::from_ref(self).addr();
        if let Some((of, h)) = CHOSEN.replace(next.map(|h| (this, h)))
            && of == this
        {
            self.engine().index.prefetch(&[h]);
        }
    }

    /// Takes note of a lookup that found the key of this hash.
    #[inline]
    pub(super) fn hit(&self, h: u64) {
        if let Some(order) = self.bounds.as_ref().and_then(|bounds| bounds.order.as_ref()) {
            order.hit(h);
        }
    }

    /// Makes `value`, which has its expiry, the value of `key`, in place of what is damaged, too.
    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.put_sound(key, value) {
            Err(e) if is_damage(&e) => {
                self.clear_damaged(self.engine().records.hash(key))?;
                self.put_sound(key, value)
            }
            done => done,
        }
    }

    /// The same, if nothing of its hash is damaged, as far as that is read. It comes too late where a key that was there is gone, for
    /// which no place is reserved, where the value grows by more than is reserved, and where the old value has expired and
    /// is still to be kept: then all begins again.
    fn put_sound(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let engine = self.engine();
        let mut more = 0;
        loop {
            let after = self.bytes(key, value);
            let mut place = self.place(key, Room::ForNew, (after, more), false)?;
            if self.queue.is_none() && place.as_ref().is_none_or(Place::is_new) {
                let mut before = Vec::new();
                let reads = self.bounds.as_ref().is_some_and(Bounds::has_bytes);
                let differ = engine.records.cell.is_none() || engine.is_in_slots();
                let old = (reads && differ).then_some(&mut before);
                let (_, had) = engine.change(key, Some(value), Rule::Always, old)?;
                let before = had.then(|| self.bytes(key, &before));
                self.settle(place, engine.records.hash(key), before, Some(after));
                return Ok(());
            }
            let turn = self.turn(key)?;
            let room = Place::room(&place, Room::ForNew);
            let (mut before, mut is_late) = (None, false);
            engine.update(key, room, &mut |old| {
                before = old.map(|old| self.bytes(key, old));
                is_late = match old {
                    Some(old) if turn.is_some() && self.has_expired(old) => true,
                    Some(_) => {
                        more = growth(before, after);
                        place.as_mut().is_some_and(|place| !place.reserve(more))
                    }
                    None => room == Room::None,
                };
                Ok(if is_late { Change::Keep } else { Change::Set(value.to_vec()) })
            })?;
            drop(turn);
            if !is_late {
                self.settle(place, engine.records.hash(key), before, Some(after));
                return Ok(());
            }
        }
    }

    /// Makes `payload`, which is a value, that of a hash, where its slot has or gets it; false where [`put`](Self::put)
    /// has to do it.
    pub(super) fn put_in_slot(&self, h: u64, payload: u64) -> Result<bool> {
        let engine = self.engine();
        let has_bytes = self.bounds.as_ref().is_some_and(Bounds::has_bytes);
        let bytes = if has_bytes { ENTRY_BYTES as i64 } else { 0 };
        loop {
            let place = match &self.bounds {
                _ if self.queue.is_some() => return Ok(false),
                Some(bounds) => {
                    self.fetch_to_insert(h);
                    let is_new = engine.index.get(h)?.is_none();
                    if is_new {
                        // It comes while another entry goes.
                        engine.index.prefetch_to_insert(h);
                    }
                    Some(self.place_of(bounds, is_new, (bytes, 0), |_| false)?)
                }
                None => None,
            };
            let room = Place::room(&place, Room::ForNew);
            let (mut is_late, mut is_named) = (false, false);
            let found = engine.update_word(h, room, &mut |found| {
                is_late = found.is_none() && room == Room::None;
                is_named = found.is_some_and(|found| !engine.records.has_value(found));
                Ok(if is_late || is_named { Change::Keep } else { Change::Set(payload) })
            })?;
            if is_named {
                return Ok(false);
            }
            if !is_late {
                self.settle(place, h, found.map(|_| bytes), Some(bytes));
                return Ok(true);
            }
        }
    }

    /// True if these bytes have an expiry that is past.
    fn has_expired(&self, bytes: &[u8]) -> bool {
        split(bytes).is_some_and(|(expiry, _)| is_over(expiry, self.time.now()))
    }

    /// Takes the turn of `key`, if there are turns, and keeps what has expired of its hash.
    pub(super) fn turn(&self, key: &[u8]) -> Result<Option<MutexGuard<'_, ()>>> {
        let Some(queue) = &self.queue else { return Ok(None) };
        self.turn_of(queue, self.engine().records.hash(key)).map(Some)
    }

    /// Takes the turn of a hash, and keeps what has expired of it.
    fn turn_of<'a>(&self, queue: &'a Queue, h: u64) -> Result<MutexGuard<'a, ()>> {
        let turn = queue.turn(h);
        let mut expiries = Vec::new();
        self.engine().expiries(h, &mut expiries)?;
        let now = self.time.now();
        if expiries.iter().any(|expiry| is_over(*expiry, now)) {
            self.keep_expired(queue, h, &turn)?;
        }
        Ok(turn)
    }

    /// False of what is kept with this number, if it stays in the cache after all. The batch that moves an entry is seen to put it
    /// here before it is seen to remove it, and may be undone between; it has ended when the turn is free.
    pub(super) fn has_gone(&self, id: u64, entry: &[u8]) -> Result<bool> {
        let (Some(queue), Some(beside)) = (&self.queue, &self.beside) else { return Ok(true) };
        let Some((key, _)) = parts(entry).filter(|_| !planted(Fault::ToldEarly)) else {
            return Ok(true);
        };
        drop(queue.turn(self.engine().records.hash(key)));
        beside.contains_key(&id)
    }

    /// Moves what has expired of a hash to what is kept; how many entries that were.
    fn keep_expired(&self, queue: &Queue, h: u64, turn: &MutexGuard<'_, ()>) -> Result<u64> {
        let mut pairs = Vec::new();
        self.engine().pairs(h, &mut pairs)?;
        pairs.retain(|(_, value)| self.has_expired(value));
        for pair in &pairs {
            queue.take(&self.handle, h, pair, turn)?;
            self.note_expired(h, &pair.0, &pair.1);
        }
        Ok(pairs.len() as u64)
    }

    /// Removes the entries of a hash that have expired; how many that were.
    pub(super) fn remove_expired(&self, h: u64) -> Result<u64> {
        if let Some(queue) = &self.queue {
            return self.keep_expired(queue, h, &queue.turn(h));
        }
        let mut removed = 0;
        self.engine().remove_expired(h, self.time.now(), &mut |key, value| {
            removed += 1;
            self.note_expired(h, key, value);
        })?;
        Ok(removed)
    }

    /// Reserves a place for a change of `key`, whose entry gets so many bytes, 0 if that is not known; and where there is
    /// one already, so many `more`. An entry that `stays` does not go for it, nor for others that have a choice.
    pub(super) fn place(
        &self,
        key: &[u8],
        room: Room,
        (after, more): (i64, i64),
        stays: bool,
    ) -> Result<Option<Place<'_>>> {
        let Some(bounds) = &self.bounds else { return Ok(None) };
        let engine = self.engine();
        let key_hash = engine.key_hash(key);
        let h = engine.records.hashes.h(key_hash);
        if stays {
            self.hit(h)
        } else {
            self.fetch_to_insert(h)
        }
        let is_new = room == Room::ForNew && !engine.contains_bytes(key, key_hash)?;
        self.place_of(bounds, is_new, (after, more), |other| stays && other == h).map(Some)
    }

    /// The same of an entry that is new, or not.
    fn place_of<'a>(
        &self,
        bounds: &'a Bounds,
        is_new: bool,
        (after, more): (i64, i64),
        spared: impl Fn(u64) -> bool + Copy,
    ) -> Result<Place<'a>> {
        if !bounds.fits(after as u64) {
            return Err(bounds.full(after as u64));
        }
        self.room(bounds, is_new.into(), if is_new { after } else { more }, spared)
    }

    /// True if an entry of so many bytes, `more` than before, whose value a closure has made, may be stored now. If it never fits
    /// that is an error.
    pub(super) fn may_store(
        &self,
        place: &mut Option<Place<'_>>,
        after: i64,
        more: i64,
    ) -> Result<bool> {
        let (Some(bounds), Some(place)) = (&self.bounds, place) else { return Ok(true) };
        if more > 0 && !bounds.fits(after as u64) {
            return Err(bounds.full(after as u64));
        }
        Ok(place.reserve_for_closure(more))
    }

    /// Reserves a place, for which other entries go where there is no room: not what is `spared`.
    fn room<'a>(
        &self,
        bounds: &'a Bounds,
        entries: i64,
        bytes: i64,
        spared: impl Fn(u64) -> bool + Copy,
    ) -> Result<Place<'a>> {
        let mut tries = if bounds.order.is_some() { TRIES } else { 0 };
        let mut place = bounds.reserve(entries, bytes);
        if place.is_none() && bounds.order.is_none() {
            self.sweep_until(&mut || {
                place = bounds.reserve(entries, bytes);
                place.is_some()
            })?;
        }
        let mut is_whole = place.is_some();
        while !is_whole {
            if tries == 0 {
                return Err(bounds.full(bytes as u64));
            }
            if let Some(mut went) = self.evict(bounds, spared)? {
                // The place of what went is that of what comes, with all that went before: others would take it again and again.
                place.take().into_iter().for_each(|before| went.join(before));
                went.trim(entries, bytes);
                is_whole = went.reserve(bytes) && !bounds.is_over();
                place = Some(went);
            } else {
                // Nobody who waits has what others wait for.
                drop(place.take());
                self.engine().store.writable()?;
                tries -= u32::from(!bounds.are_others_at_it());
                self.engine().store.wait();
                place = bounds.reserve(entries, bytes);
                is_whole = place.is_some();
            }
        }
        if planted(Fault::CountedLate) {
            bounds.add(-entries, -bytes);
            self.engine().store.wait();
            bounds.add(entries, bytes);
        }
        Ok(place.unwrap_or_else(|| bounds.hand()))
    }

    /// Takes note of a change that was made of an entry with this hash.
    pub(super) fn settle(&self, place: Option<Place<'_>>, h: u64, before: Entry, after: Entry) {
        let (Some(bounds), Some(mut place)) = (&self.bounds, place) else { return };
        let count = |entry: Entry| i64::from(entry.is_some());
        let bytes = |entry: Entry| entry.unwrap_or(0);
        place.settle(count(after) - count(before), bytes(after) - bytes(before));
        if let Some(order) = &bounds.order {
            match (before, after) {
                (None, Some(_)) => order.inserted(h),
                (Some(_), None) => order.removed(h),
                (Some(_), Some(_)) => order.hit(h),
                (None, None) => {}
            }
        }
        // Who waits for a place has it from here on, or a victim.
        drop(place);
        // A closure may have made a value longer. Who cannot evict now leaves it to the next insert.
        let is_there = after.is_some();
        let _ = self.shrink(bounds, |other| is_there && other == h);
    }

    /// The bytes of an entry, as they count.
    pub(super) fn bytes(&self, key: &[u8], value: &[u8]) -> i64 {
        match &self.bounds {
            Some(bounds) if bounds.has_bytes() => self.engine().entry_bytes(key, value) as i64,
            _ => 0,
        }
    }

    /// Evicts what is more than the bounds say, and not `spared`.
    pub(super) fn shrink(
        &self,
        bounds: &Bounds,
        spared: impl Fn(u64) -> bool + Copy,
    ) -> Result<()> {
        let mut tries = TRIES;
        while bounds.order.is_some() && bounds.is_over() && tries > 0 {
            if self.evict(bounds, spared)?.is_none() {
                tries -= 1;
                self.engine().store.wait();
            }
        }
        Ok(())
    }

    /// Removes the next to go that is not `spared`; its place, or none where that is in other hands.
    fn evict<'a>(
        &self,
        bounds: &'a Bounds,
        spared: impl Fn(u64) -> bool,
    ) -> Result<Option<Place<'a>>> {
        let Some(order) = &bounds.order else { return Ok(None) };
        let (mut stay, mut hand) = (Vec::new(), None);
        let chosen = loop {
            let chosen = match bounds.policy {
                Policy::Soonest => self.soonest(bounds, &**order),
                _ => order.next_victim(),
            };
            match chosen {
                Some(Victim { hash, .. }) if spared(hash) => {
                    // Others that find nothing to evict wait for these.
                    hand.get_or_insert_with(|| bounds.hand());
                    stay.push(hash);
                }
                _ => break chosen,
            }
        };
        stay.into_iter().for_each(|h| order.inserted(h));
        drop(hand);
        let Some(Victim { hash: h, next: [soon, later] }) = chosen else { return Ok(None) };
        // Others that find nothing to evict wait for this.
        let mut place = bounds.hand();
        let engine = self.engine();
        self.fetch_chosen(later);
        // What its slot has came with the bucket.
        soon.filter(|_| !engine.is_in_slots()).inspect(|h| engine.prefetch_entry(*h));
        match self.evict_one(h) {
            Ok(Some((bytes, expiry))) => {
                place.take_over(if bounds.has_bytes() { bytes } else { 0 });
                let has_expired = expiry != NEVER && is_over(expiry, self.time.now());
                let count = if has_expired { &self.went.expired } else { &self.went.evicted };
                count.add(1);
                return Ok(Some(place));
            }
            // The thread that has removed it tells of it, or did.
            Ok(None) => order.inserted(h),
            Err(e) => {
                order.inserted(h);
                let cleared = if is_damage(&e) { self.clear_damaged(h) } else { Err(e) };
                // Where the damage keeps it from being removed it stays, and counts.
                is_whole(cleared)?;
            }
        }
        Ok(None)
    }

    /// Removes one entry of a hash; its bytes and its expiry, if there is one.
    fn evict_one(&self, h: u64) -> Result<Option<(u64, u64)>> {
        let Some(queue) = &self.queue else { return self.engine().evict(h) };
        let turn = queue.turn(h);
        let mut pairs = Vec::new();
        self.engine().pairs(h, &mut pairs)?;
        let Some(pair) = pairs.first() else { return Ok(None) };
        queue.take(&self.handle, h, pair, &turn)?;
        let expiry = split(&pair.1).map_or(NEVER, |(expiry, _)| expiry);
        Ok(Some((self.engine().entry_bytes(&pair.0, &pair.1), expiry)))
    }

    /// Takes note that an entry was removed because it has expired.
    pub(super) fn note_expired(&self, h: u64, key: &[u8], value: &[u8]) {
        self.went.expired.add(1);
        if let Some(bounds) = &self.bounds {
            bounds.add(-1, -self.bytes(key, value));
            if let Some(order) = &bounds.order {
                order.removed(h);
            }
        }
    }

    /// Figures.
    pub(super) fn stats(&self) -> Result<CacheStats> {
        let bounds = self.bounds.as_ref();
        let used = bounds.map(Bounds::used);
        // A cache that is only read keeps to no bounds, but may tell of them.
        let (max, policy) = match bounds {
            Some(bounds) => (bounds.max(), bounds.policy),
            None => self.limits(&CacheOptions::default())?,
        };
        Ok(CacheStats {
            entries: used.map(|used| used.0),
            bytes_used: bounds.filter(|bounds| bounds.has_bytes()).and(used).map(|used| used.1),
            max_entries: max.0,
            max_bytes_used: max.1,
            eviction: (max != (None, None)).then_some(policy),
            policy_bytes: bounds.and_then(|b| b.order.as_ref()).map_or(0, |order| order.bytes()),
            evicted: self.went.evicted.get(),
            expired: self.went.expired.get(),
        })
    }

    /// Removes all entries, damaged ones too. What has expired is kept, where what goes by itself is.
    pub(super) fn clear(&self) -> Result<()> {
        let engine = self.engine();
        engine.store.writable()?;
        // The sweep keeps nothing of a hash that is damaged either.
        let turn = |h| match self.queue.as_ref().map(|queue| self.turn_of(queue, h)) {
            Some(Err(e)) if is_damage(&e) => Ok(None),
            turn => turn.transpose(),
        };
        if self.queue.is_some() {
            // What is moved is durable one by one, so it is moved before the removals, which are durable together.
            engine.each_sound_unit(&mut |slots| {
                slots.iter().try_for_each(|(h, _)| turn(*h).map(drop))
            })?;
        }
        engine.clear_by(&mut |h| {
            let _turn = turn(h)?;
            self.clear_hash(h, false)
        })
    }

    /// Removes what has this hash, if some of it is damaged: what it was cannot be told.
    fn clear_damaged(&self, h: u64) -> Result<()> {
        let _turn = self.queue.as_ref().map(|queue| queue.turn(h));
        self.clear_hash(h, true)
    }

    /// Removes what has this hash, or only what is damaged, and tells nothing of it.
    fn clear_hash(&self, h: u64, damaged: bool) -> Result<()> {
        let sizes = self.engine().clear_hash(h, damaged)?;
        if let Some(bounds) = &self.bounds {
            let bytes = if bounds.has_bytes() { sizes.iter().sum::<u64>() } else { 0 };
            bounds.add(-(sizes.len() as i64), -(bytes as i64));
            if let Some(order) = &bounds.order {
                sizes.iter().for_each(|_| order.removed(h));
            }
        }
        Ok(())
    }
}
