//! Resizing. The commit steps are in the [module docs](super).
//!
//! From a load of 0.8 on, a table is prepared: its space is taken, and its commit words emptied piece by
//! piece. At 0.92, or where an insert finds no room, it is added to the others, and the walk over the
//! sources begins, which migrates bucket after bucket. Writers do a piece of either after their own
//! operation, and so does [`step`](crate::index::IndexBase::step). Half of the slots are given back below 0.3.
//!
//! Beside a resize an operation migrates one bucket at the most, and waits for no more than that under the mutex
//! of resizes, which is let go of after each. Writers go on with the walk so often that it ends before there is
//! no room ([`set_pace`](Rewo::set_pace)): of the writes between two resizes, at the least fourteen for each bucket
//! of the sources, every fourth one migrates a bucket, and every one where a smaller table is rebuilt. Those
//! are too few where many threads find the mutex taken, or where hashes favour the others. So where there were
//! more inserts than that for each bucket, every writer waits for the mutex, and migrates one.
//!
//! In one corner that does not hold: where an insert finds no room although the tables are not full. In buckets of
//! fifteen slots, in tables of 2,048 buckets and more, that takes hashes that share their first bits, or that
//! are chosen. Then it goes on with the walk until it has room or is told that there is none, a bucket at a
//! time, and has done its piece of the resize with that; or it prepares the whole of the next table.
//!
//! How a resize goes on where a slot that it moves finds no room:
//!
//! | Resize | Then |
//! |---|---|
//! | grow, shrink | it is overtaken ([`Overtake`](Resize::Overtake)): all tables go into one |
//! | rebuild | the same ([`Again`](Resize::Again)), into a table at least twice as large as that it had |
//! | overtake, again | it waits, and inserts that find no room are told so ([`Skewed`](ErrorKind::Skewed)) |
//!
//! The last row takes hashes that are chosen, or one process after another that dies before the cursor is saved: what
//! overtakes is half full at the most with an insert for each bucket of all tables, and there are more of them
//! only where that leaves room, too ([`set_pace`](Rewo::set_pace)).

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use durahash_media::{Error, ErrorKind, Medium, Result, wait_lock};

use super::cached;
use super::cuckoo::{Moves, Room};
use super::layout::{self, BUCKET_BYTES, SLOTS, TABLES, Tables};
use super::locks::Locks;
use super::planted::{Fault, planted};
use super::scan::Listed;
use super::tables::{OVERTAKEN, RESERVED, Resize, Table, TableSet, View};
use super::write::Left;
use super::{Prepared, Resizing, Rewo};

/// Buckets that a writer prepares after an operation, and those of the cached table that it sweeps.
const WRITER_PIECE: u64 = 8;
/// The same of a step in the background, and those that it migrates.
const STEP_PIECE: u64 = 1024;
const STEP_MIGRATES: u64 = 64;

/// Parts of a walk over the sources after which the cursor is saved.
const SAVES: u64 = 8;
/// Buckets of it after which operations are told. Not each: lookups wait for the line of it.
const PASSES: u64 = 4;

/// A load below which a table is not full because there are too many slots, but because hashes share
/// their first bits, in hundredths.
const SKEWED: u64 = 50;
/// A load below which no table would help.
const HOPELESS: u64 = 2;
/// Loads at which a table is prepared, at which it is added, and at which one is given up.
const PREPARE: u64 = 80;
const GROW: u64 = 92;
const SHRINK: u64 = 30;

impl Prepared {
    const fn is_done(self) -> bool {
        self.done == self.table.buckets()
    }
}

/// The mutex of resizes, held. An operation that breaks off under it leaves the guarded state behind the
/// durable one.
pub(super) struct Guard<'a, M: Medium> {
    rewo: &'a Rewo<M>,
    resizing: MutexGuard<'a, Resizing>,
    /// The thread unwinds already, so no operation under it has panicked.
    unwinds: bool,
}

impl<M: Medium> std::ops::Deref for Guard<'_, M> {
    type Target = Resizing;

    fn deref(&self) -> &Resizing {
        &self.resizing
    }
}

impl<M: Medium> std::ops::DerefMut for Guard<'_, M> {
    fn deref_mut(&mut self) -> &mut Resizing {
        &mut self.resizing
    }
}

impl<M: Medium> Drop for Guard<'_, M> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinds {
            self.rewo.pool.poison();
        }
    }
}

/// True if a resize cannot begin: there is no space for its table, or it would not help.
fn is_no_table(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Full { .. } | ErrorKind::Skewed { .. })
}

/// How the migration of a bucket ended.
enum Migrated {
    Done,
    /// A slot finds no room where it shall go.
    Stuck,
    /// Another writer was in the way.
    Busy,
}

impl<M: Medium> Rewo<M> {
    fn per_extent(&self) -> u64 {
        self.pool.extent_bytes() / BUCKET_BYTES
    }

    pub(super) fn resizing(&self) -> Guard<'_, M> {
        self.guard(wait_lock(&self.writers.resizing, self.medium()))
    }

    fn guard<'a>(&'a self, resizing: MutexGuard<'a, Resizing>) -> Guard<'a, M> {
        Guard { rewo: self, resizing, unwinds: std::thread::panicking() }
    }

    fn try_resizing(&self) -> Option<Guard<'_, M>> {
        self.writers.resizing.try_lock().ok().map(|resizing| self.guard(resizing))
    }

    /// True if so many hundredths of the slots of some buckets are live.
    fn load_is(&self, hundredths: u64, buckets: u64) -> bool {
        self.live.get() * 100 >= hundredths * buckets * u64::from(self.slots)
    }

    /// Maintenance after a write of `h`. The write is done; damage, and a full medium, are for
    /// others to meet.
    pub(super) fn maintain(&self, h: u64, left: Left) {
        if left == Left::Excused {
            return;
        }
        let view = self.live_tables.load();
        let every = self.writers.pace.every.load(Ordering::Relaxed);
        if view.is_resizing() {
            let pace = &self.writers.pace;
            let todo = every * pace.todo.load(Ordering::Relaxed);
            if self.live.get() + todo > pace.limit.load(Ordering::Relaxed) {
                let mut resizing = self.resizing();
                // It may have been another's last bucket.
                if self.live_tables.is_current(view) {
                    let _ = self.work(&mut resizing, WRITER_PIECE);
                }
                return;
            }
        }
        let is_wanted = if view.is_resizing() {
            h.is_multiple_of(every)
        } else {
            self.writers.prepares.load(Ordering::Relaxed)
                || self.writers.sweeps.load(Ordering::Relaxed)
                || self.is_due(view, left)
        };
        if !is_wanted {
            return;
        }
        if let Some(mut resizing) = self.try_resizing() {
            let _ = self.work(&mut resizing, WRITER_PIECE);
        }
    }

    /// How often writers migrate a bucket during a resize: one of a few, if there is room for all of them to be
    /// inserts.
    pub(super) fn set_pace(&self, wanted: &TableSet, cursor: u64) {
        let pace = &self.writers.pace;
        let todo = wanted.total() - cursor;
        let full = GROW * wanted.finished().buckets() * u64::from(self.slots) / 100;
        let (live, few) = (self.live.get(), u64::from(self.slots / 4 + 1));
        let every = if live + few * todo <= full { few } else { 1 };
        pace.every.store(every, Ordering::Relaxed);
        pace.limit.store(live + every * todo, Ordering::Relaxed);
        pace.todo.store(todo, Ordering::Relaxed);
    }

    /// True if there may be a reason for a resize.
    fn is_due(&self, view: View, left: Left) -> bool {
        match left {
            Left::Nothing | Left::Excused => false,
            Left::Full => self.load_is(PREPARE, self.live_tables.wanted(view).buckets()),
            Left::Sparse => {
                let buckets = self.live_tables.wanted(view).buckets();
                buckets > self.per_extent() && !self.load_is(SHRINK, buckets)
            }
        }
    }

    /// Does a piece of the work that is due, with so many buckets prepared or swept; true if there is more.
    fn work(&self, resizing: &mut Resizing, piece: u64) -> Result<bool> {
        self.pool.writable()?;
        self.sweep_some(resizing, piece);
        Ok(self.resize_some(resizing, piece)? || resizing.unswept > 0)
    }

    /// The same of a resize alone.
    fn resize_some(&self, resizing: &mut Resizing, piece: u64) -> Result<bool> {
        if self.live_tables.load().is_resizing() {
            self.migrate(resizing)?;
            return Ok(true);
        }
        let wanted = self.live_tables.wanted(self.live_tables.load());
        let buckets = wanted.buckets();
        if self.load_is(PREPARE, buckets) {
            let is_done = self.prepare_some(resizing, self.larger(&wanted), piece)?;
            if is_done && self.load_is(GROW, buckets) {
                self.begin_larger(resizing, &wanted)?;
                return Ok(true);
            }
            return Ok(!is_done);
        }
        let is_kept = resizing.shrinks_below.is_some_and(|below| self.live.get() >= below);
        if buckets == self.per_extent() || self.load_is(SHRINK, buckets) || is_kept {
            self.forget_prepared(resizing)?;
            return Ok(false);
        }
        if wanted.count > 1 {
            self.forget_prepared(resizing)?;
            let shrunk = TableSet { resize: Resize::Shrink, ..wanted };
            self.begin(resizing, &shrunk)?;
            self.writers.shrinks.add(1);
        } else if self.prepare_some(resizing, buckets / 2, piece)? {
            self.begin_rebuild(resizing, &wanted, Resize::Rebuild)?;
            self.writers.shrinks.add(1);
        }
        Ok(true)
    }

    /// The body of [`IndexBase::step`](crate::index::IndexBase::step).
    pub(super) fn work_in_background(&self) -> Result<bool> {
        if self.pool.writable().is_err() {
            return Ok(false);
        }
        for _ in 0..STEP_MIGRATES {
            let was_resizing = self.live_tables.load().is_resizing();
            // Anew for each bucket: a thread that waits for the mutex waits for one.
            let done = self.work(&mut self.resizing(), STEP_PIECE);
            match done {
                Ok(true) if was_resizing && self.live_tables.load().is_resizing() => {}
                // Without a table, for which there is no space, or which would not help, nothing is left to
                // do here; an insert that finds no room is told.
                Err(e) if is_no_table(&e) => return Ok(self.resizing().unswept > 0),
                _ => return done,
            }
        }
        Ok(true)
    }

    /// An insert found no room when the tables were these: makes some, or does a piece of the work for it. True if
    /// that is its piece of a resize.
    pub(super) fn make_room(&self, view: View) -> Result<bool> {
        let mut resizing = self.resizing();
        self.pool.writable()?;
        if !self.live_tables.is_current(view) {
            return Ok(false);
        }
        if view.is_resizing() {
            self.migrate(&mut resizing)?;
            return Ok(true);
        }
        let wanted = self.live_tables.wanted(view);
        if !self.load_is(HOPELESS, wanted.buckets()) {
            return Err(ErrorKind::Skewed { depth: wanted.count as u32 }.into());
        }
        while !self.prepare_some(&mut resizing, self.larger(&wanted), STEP_PIECE)? {}
        self.begin_larger(&mut resizing, &wanted)?;
        Ok(false)
    }

    /// Buckets of the next table.
    fn larger(&self, wanted: &TableSet) -> u64 {
        let buckets = wanted.buckets();
        if wanted.count == TABLES { 2 * buckets } else { buckets }
    }

    /// Adds the table that was prepared to these.
    fn begin_larger(&self, resizing: &mut Resizing, wanted: &TableSet) -> Result<()> {
        let is_skewed = wanted.count > 1 && !self.load_is(SKEWED, wanted.buckets());
        if wanted.count == TABLES || is_skewed {
            return self.begin_rebuild(resizing, wanted, Resize::Rebuild);
        }
        let mut grown = TableSet { resize: Resize::Grow, count: wanted.count + 1, ..*wanted };
        grown.tables[wanted.count] = resizing.prepared.map(|prepared| prepared.table);
        self.begin(resizing, &grown)?;
        resizing.prepared = None;
        resizing.shrinks_below = None;
        self.writers.grows.add(1);
        Ok(())
    }

    /// Begins to move everything into the table that was prepared.
    fn begin_rebuild(
        &self,
        resizing: &mut Resizing,
        wanted: &TableSet,
        resize: Resize,
    ) -> Result<()> {
        let mut rebuilt = TableSet { resize, ..*wanted };
        rebuilt.tables[OVERTAKEN] = wanted.tables[RESERVED];
        rebuilt.tables[RESERVED] = resizing.prepared.map(|prepared| prepared.table);
        self.begin(resizing, &rebuilt)?;
        resizing.prepared = None;
        self.writers.rebuilds.add(1);
        Ok(())
    }

    /// Prepares a piece of a table of so many buckets; true if it is done. One of another size is given
    /// back.
    fn prepare_some(&self, resizing: &mut Resizing, buckets: u64, n: u64) -> Result<bool> {
        let medium = self.medium();
        if resizing.prepared.is_some_and(|prepared| prepared.table.buckets() != buckets) {
            self.forget_prepared(resizing)?;
        }
        let mut prepared = match resizing.prepared {
            Some(prepared) => prepared,
            None => {
                let extent = self.map.take_unit_extents(buckets / self.per_extent())?;
                let table = Table { first: extent * self.per_extent(), shift: buckets.ilog2() };
                Prepared { table, done: 0 }
            }
        };
        resizing.prepared = Some(prepared);
        if prepared.is_done() {
            return Ok(true);
        }
        self.writers.prepares.store(true, Ordering::Relaxed);
        let until = (prepared.done + n).min(buckets);
        for number in prepared.done..until {
            let bucket = self.bucket(prepared.table.first + number)?;
            medium.store(&bucket.commit, 0);
            medium.flush(&bucket.commit);
        }
        medium.fence();
        prepared.done = until;
        resizing.prepared = Some(prepared);
        if prepared.is_done() {
            self.writers.prepares.store(false, Ordering::Relaxed);
        }
        Ok(prepared.is_done())
    }

    /// Gives back a prepared table.
    pub(super) fn forget_prepared(&self, resizing: &mut Resizing) -> Result<()> {
        self.writers.prepares.store(false, Ordering::Relaxed);
        match resizing.prepared.take() {
            Some(prepared) => self.release_table(prepared.table),
            None => Ok(()),
        }
    }

    /// Gives back the space of a table that nothing names.
    fn release_table(&self, table: Table) -> Result<()> {
        let extents =
            table.first / self.per_extent()..(table.first + table.buckets()) / self.per_extent();
        extents.into_iter().try_for_each(|extent| self.pool.release_extent(extent))
    }

    /// Switches to these tables, whose resize begins.
    fn begin(&self, resizing: &mut Resizing, wanted: &TableSet) -> Result<()> {
        self.write_block(resizing, wanted, 0)?;
        resizing.cursor = 0;
        self.switch(resizing, wanted);
        Ok(())
    }

    /// All operations go by these tables from here on. The cached table's size follows, unless copies are
    /// still to be swept since it did the last time.
    ///
    /// Writers are passed by all locks at once, and not in pieces, as copies are swept: until the last nothing may
    /// migrate, no copy be made, no table be given up and no other switch begin, which would be a state between
    /// two resizes that the pace of writers, a close and `check` had to know.
    fn switch(&self, resizing: &mut Resizing, wanted: &TableSet) {
        self.set_pace(wanted, 0);
        self.live_tables.publish(wanted);
        if resizing.unswept > 0 {
            self.pass_writers();
            return;
        }
        resizing.unswept = self.cached.resize(self.cache_buckets(wanted), || self.pass_writers());
        self.writers.sweeps.store(resizing.unswept > 0, Ordering::Relaxed);
    }

    /// Drops copies that belong elsewhere from some buckets of the cached table.
    fn sweep_some(&self, resizing: &mut Resizing, piece: u64) {
        if resizing.unswept == 0 {
            return;
        }
        let left = resizing.unswept.saturating_sub(piece);
        if !planted(Fault::Unswept) {
            self.cached.sweep(self.medium(), left..resizing.unswept, |h| self.remix.mix(h));
        }
        resizing.unswept = left;
        self.writers.sweeps.store(left > 0, Ordering::Relaxed);
    }

    /// Buckets of the cached table beside these tables.
    pub(super) fn cache_buckets(&self, wanted: &TableSet) -> u64 {
        let eighth = || wanted.buckets() * BUCKET_BYTES / 8;
        self.cache.bytes.unwrap_or_else(eighth) / cached::BUCKET_BYTES
    }

    /// Writes a block that says this, and switches the root to it.
    pub(super) fn write_block(
        &self,
        resizing: &mut Resizing,
        wanted: &TableSet,
        cursor: u64,
    ) -> Result<()> {
        let medium = self.medium();
        // The other of two.
        let number = resizing.block ^ 1;
        let block: &Tables = self.pool.at(number * BUCKET_BYTES)?;
        let words = self.block_words(wanted, cursor);
        self.pool.touch(number * BUCKET_BYTES);
        for (word, v) in layout::fields(block).zip(words) {
            medium.store(word, v);
        }
        medium.store(&block.sum, layout::sum_of(self.remix, words.into_iter()));
        if !planted(Fault::RootFirst) {
            medium.flush(block);
            medium.fence();
        }
        self.map.set_root(layout::ROOT, layout::root_word(self.remix, number))?;
        self.count_all();
        resizing.block = number;
        resizing.saved = cursor;
        Ok(())
    }

    /// The words of a block, before its check sum.
    pub(super) fn block_words(&self, wanted: &TableSet, cursor: u64) -> [u64; layout::BLOCK_WORDS] {
        let per_extent = self.per_extent();
        let mut words = [0; layout::BLOCK_WORDS];
        words[0] = wanted.resize as u64 | (wanted.count as u64) << 3;
        words[1] = cursor;
        for (i, table) in wanted.all() {
            let extents = u64::from(table.shift - per_extent.ilog2());
            words[2 + i] = (table.first / per_extent) << 8 | extents;
        }
        words
    }

    /// Migrates a bucket, and ends the resize behind the last.
    fn migrate(&self, resizing: &mut Resizing) -> Result<()> {
        let view = self.live_tables.load();
        let wanted = self.live_tables.wanted(view);
        let total = wanted.total();
        if let Some((table, number)) = wanted.source(resizing.cursor) {
            if resizing.cursor.is_multiple_of(PASSES) {
                let ahead = if planted(Fault::PassedFirst) { PASSES } else { 0 };
                self.live_tables.pass(&wanted, resizing.cursor + ahead);
            }
            if planted(Fault::CursorFirst) && resizing.cursor + 1 < total {
                self.write_block(resizing, &wanted, resizing.cursor + 1)?;
            }
            loop {
                match self.migrate_bucket(view, table, number)? {
                    Migrated::Done => break,
                    Migrated::Stuck => return self.overtake(resizing, &wanted),
                    Migrated::Busy => {
                        self.medium().wait();
                    }
                }
            }
            resizing.cursor += 1;
            self.writers.walked.add(1);
            self.writers.pace.todo.store(total - resizing.cursor, Ordering::Relaxed);
            let is_due = resizing.cursor - resizing.saved >= (total / SAVES).max(1);
            if is_due && resizing.cursor < total {
                self.write_block(resizing, &wanted, resizing.cursor)?;
            }
        }
        if resizing.cursor < total { Ok(()) } else { self.finish(resizing, &wanted) }
    }

    /// Moves slots that belong elsewhere out of a bucket of table number `table`, as many at once as there
    /// is room for where they go.
    fn migrate_bucket(&self, view: View, table: usize, number: u64) -> Result<Migrated> {
        let mut held = self.hold_bucket(view, number);
        let done = self.pool.writable().and_then(|()| {
            let mut leaving = Vec::with_capacity(SLOTS as usize);
            self.each_slot(view, number, &mut |slot| {
                if view.target(slot.h) != table {
                    leaving.push(slot);
                }
            })?;
            self.migrate_slots(&mut held, number, leaving)
        });
        if done.is_err() {
            // Slots may be filled that no commit word will name.
            self.count_all();
        }
        held.release();
        done
    }

    fn migrate_slots(
        &self,
        held: &mut Locks<'_, M>,
        number: u64,
        leaving: Vec<Listed>,
    ) -> Result<Migrated> {
        let mark = held.mark();
        let mut moves = Moves::new(number);
        for Listed { slot, h, is_found, .. } in leaving {
            let remixed = self.remix.mix(h);
            let pair = self.live_tables.pair(held.view, held.view.target(h), remixed);
            let is_double = moves.has(h)
                || self.probe(h, pair[0])?.is_some()
                || self.probe(h, pair[1])?.is_some();
            if is_double || !is_found {
                // Only damage leaves two, or one that no lookup finds. The one where new ones go counts.
                self.drop_slots(held, number, 1 << slot)?;
                self.live.add(-1);
                self.cached.forget(self.medium(), h, remixed);
                self.count_change(remixed);
                continue;
            }
            if moves.is_full() || !self.add_move(held, &mut moves, slot, pair)? {
                self.end_moves(held, &mut moves)?;
                held.release_since(mark);
                if !self.add_move(held, &mut moves, slot, pair)? {
                    match self.make_place(held, h, pair)? {
                        Room::At(to) => self.move_slot(held, (number, slot), to)?,
                        Room::Busy => return Ok(Migrated::Busy),
                        Room::None => return Ok(Migrated::Stuck),
                    }
                    self.writers.migrated.add(1);
                    held.release_since(mark);
                }
            }
        }
        self.end_moves(held, &mut moves)?;
        Ok(Migrated::Done)
    }

    /// Copies a slot into one of two buckets; true if there was room, besides the slots on their way
    /// there.
    fn add_move(
        &self,
        held: &mut Locks<'_, M>,
        moves: &mut Moves,
        slot: u32,
        pair: [u64; 2],
    ) -> Result<bool> {
        let Some(to) = self.choose_beside(pair, |to| moves.taken_of(to))? else {
            return Ok(false);
        };
        // Looked at again: now no other thread takes free slots.
        if !held.try_take(to) || self.choose_beside([to; 2], |to| moves.taken_of(to))?.is_none() {
            return Ok(false);
        }
        self.copy_slot(moves, slot, to)?;
        Ok(true)
    }

    /// Ends the moves that were begun.
    fn end_moves(&self, held: &mut Locks<'_, M>, moves: &mut Moves) -> Result<()> {
        self.writers.migrated.add(moves.count() as u64);
        self.retire(held, moves)
    }

    /// A bucket of two for a slot alone, out of which others go if need be.
    fn make_place(&self, held: &mut Locks<'_, M>, h: u64, pair: [u64; 2]) -> Result<Room> {
        if !held.try_take(pair[0]) || !held.try_take(pair[1]) {
            return Ok(Room::Busy);
        }
        match self.choose(pair)? {
            Some(to) => Ok(Room::At(to)),
            None => self.evict(held, h, pair),
        }
    }

    /// A resize cannot go on: everything goes to a table with more room, from all that there are.
    #[cold]
    fn overtake(&self, resizing: &mut Resizing, wanted: &TableSet) -> Result<()> {
        let (resize, mut buckets) = match (wanted.resize, wanted.tables[RESERVED]) {
            (Resize::Grow | Resize::Shrink, _) => (Resize::Overtake, self.per_extent()),
            (Resize::Rebuild, Some(table)) => (Resize::Again, 2 * table.buckets()),
            _ => return Err(ErrorKind::Skewed { depth: wanted.count as u32 }.into()),
        };
        // It takes from all tables that there are. Every write meanwhile may be an insert, one for each bucket.
        let sources: u64 = wanted.all().map(|(_, table)| table.buckets()).sum();
        let most = self.live.get() + sources;
        while most * 100 >= SKEWED * buckets * u64::from(self.slots) {
            buckets *= 2;
        }
        while !self.prepare_some(resizing, buckets, STEP_PIECE)? {}
        // A forged counter may say that there are none.
        let live = self.live.get();
        resizing.shrinks_below = Some((live / 4 * 3).max(live.min(1)));
        self.begin_rebuild(resizing, wanted, resize)
    }

    /// Ends a resize whose walk is at its end.
    fn finish(&self, resizing: &mut Resizing, wanted: &TableSet) -> Result<()> {
        let done = wanted.finished();
        if planted(Fault::GivenUpFirst) {
            for (_, table) in wanted.all() {
                if !done.all().any(|(_, kept)| kept == table) {
                    self.release_table(table)?;
                }
            }
        }
        self.write_block(resizing, &done, 0)?;
        self.switch(resizing, &done);
        resizing.cursor = 0;
        if planted(Fault::GivenUpFirst) {
            return Ok(());
        }
        let kept: Vec<Table> = done.all().map(|(_, table)| table).collect();
        let dropped = wanted.all().filter(|(_, table)| !kept.contains(table));
        dropped.map(|(_, table)| table).try_for_each(|table| self.release_table(table))
    }
}
