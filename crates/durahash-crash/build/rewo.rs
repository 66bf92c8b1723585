//! The faults of Rewo-Hash, as changes of its sources: `build.rs` makes them in a copy.

use super::Change;

/// All of them. Where none is planted, the copy does what the design does, and may be held up in three
/// more places, where nothing but a processor would do it: between a look at the tables and that at the first lock,
/// of readers and of writers, and before a copy is made.
pub(crate) const CHANGES: &[Change] = &[
    Change {
        file: "write.rs",
        from: "        medium.fence();
        held.exclude_readers(number);",
        to: "        if !planted(Fault::CommitFirst) {
            medium.fence();
        }
        held.exclude_readers(number);",
    },
    Change {
        file: "write.rs",
        from: "        held.exclude_readers(at.bucket);
        medium.store(&slot.payload, payload);",
        to: "        if planted(Fault::CopyFirst) {
            let copied = self.copy_when_durable(h, remixed, Copy::Set(payload));
            copied.end();
        }
        if !planted(Fault::SeenFirst) {
            held.exclude_readers(at.bucket);
        }
        medium.store(&slot.payload, payload);",
    },
    Change {
        file: "write.rs",
        from: "        copied.end();
        Ok(Left::Nothing)",
        to: "        if !planted(Fault::CopyKept) {
            copied.end();
        }
        Ok(Left::Nothing)",
    },
    Change {
        file: "write.rs",
        from: "        copied.end();
        Ok(if commit.count() * 3",
        to: "        if !planted(Fault::CopyOutlives) {
            copied.end();
        }
        Ok(if commit.count() * 3",
    },
    Change {
        file: "cuckoo.rs",
        from: "        medium.store(&from.commit, BitMask(slots).fold(self.commit(from), Commit::with_leaving).0);",
        to: "        if !planted(Fault::Unmarked) {
            medium.store(&from.commit, BitMask(slots).fold(self.commit(from), Commit::with_leaving).0);
        }",
    },
    Change {
        file: "cuckoo.rs",
        from: "        for one in moves.all() {
            let target = self.bucket(one.to)?;",
        to: "        if planted(Fault::ClearedFirst) {
            self.drop_slots(held, moves.from, slots)?;
        }
        for one in moves.all() {
            let target = self.bucket(one.to)?;",
    },
    Change {
        file: "recover.rs",
        from: "if self.has_double(h, places.all(), (*number, slot))? {",
        to: "if planted(Fault::MarkedDropped)
                    || !planted(Fault::BothKept) && self.has_double(h, places.all(), (*number, slot))?
                {",
    },
    Change {
        file: "recover.rs",
        from: "self.clear(bucket, layout::Commit::new(live, 0));",
        to: "let marks = if planted(Fault::MarksStay) { before.leaving() & live } else { 0 };
            self.clear(bucket, layout::Commit::new(live, marks));",
    },
    Change {
        file: "grow.rs",
        from: "            loop {
                match self.migrate_bucket(",
        to: "            if planted(Fault::CursorFirst) && resizing.cursor + 1 < total {
                self.write_block(resizing, &wanted, resizing.cursor + 1)?;
            }
            loop {
                match self.migrate_bucket(",
    },
    Change {
        file: "grow.rs",
        from: "                self.plans.pass(&wanted, resizing.cursor);",
        to: "                let ahead = if planted(Fault::PassedFirst) { PASSES } else { 0 };
                self.plans.pass(&wanted, resizing.cursor + ahead);",
    },
    Change {
        file: "grow.rs",
        from: "        self.cached.sweep(self.medium(), left..resizing.unswept, |h| self.remix.mix(h));",
        to: "        if !planted(Fault::Unswept) {
            self.cached.sweep(self.medium(), left..resizing.unswept, |h| self.remix.mix(h));
        }",
    },
    Change {
        file: "plan.rs",
        from: "        self.passed.0.store(0, Ordering::Relaxed);",
        to: "        if !planted(Fault::PassedKept) {
            self.passed.0.store(0, Ordering::Relaxed);
        }",
    },
    Change {
        file: "grow.rs",
        from: "        medium.flush(block);
        medium.fence();",
        to: "        if !planted(Fault::RootFirst) {
            medium.flush(block);
            medium.fence();
        }",
    },
    Change {
        file: "grow.rs",
        from: "        let done = wanted.finished();
        self.write_block(resizing, &done, 0)?;",
        to: "        let done = wanted.finished();
        if planted(Fault::GivenUpFirst) {
            for (_, table) in wanted.all() {
                if !done.all().any(|(_, kept)| kept == table) {
                    self.release_table(table)?;
                }
            }
        }
        self.write_block(resizing, &done, 0)?;",
    },
    Change {
        file: "grow.rs",
        from: "        let kept: Vec<Table> = done.all().map(|(_, table)| table).collect();",
        to: "        if planted(Fault::GivenUpFirst) {
            return Ok(());
        }
        let kept: Vec<Table> = done.all().map(|(_, table)| table).collect();",
    },
    Change {
        file: "cached.rs",
        from: "self.fills.load(Ordering::SeqCst) && is_current();",
        to: "self.fills.load(Ordering::SeqCst)
            && (planted(Fault::FilledUnseen) || is_current());",
    },
    Change {
        file: "cached.rs",
        from: "        if !is_wanted || !lock.try_lock(medium) {",
        to: "        medium.event(durahash_media::Event::Look);
        if !is_wanted || !lock.try_lock(medium) {",
    },
    Change {
        file: "cached.rs",
        from: "        self.overflow.store(true, Ordering::SeqCst);
        self.replaced.add(1);",
        to: "        if !planted(Fault::OverflowKept) {
            self.overflow.store(true, Ordering::SeqCst);
        }
        self.replaced.add(1);",
    },
    Change {
        file: "cached.rs",
        from: "                } else {
                    self.overflow.store(true, Ordering::SeqCst);
                }
                has_room",
        to: "                } else if !planted(Fault::OverflowKept) {
                    self.overflow.store(true, Ordering::SeqCst);
                }
                has_room",
    },
    Change {
        file: "shadow.rs",
        from: "            Tried::Changed(locked) => answer.give(DONE, locked),",
        to: "            Tried::Changed(Some(bucket)) if planted(Fault::SyncedEarly) => {
                cached.show(medium, bucket);
                answer.give(DONE, None);
            }
            Tried::Changed(locked) => answer.give(DONE, locked),",
    },
    Change {
        file: "shadow.rs",
        from: "        let is_ordered = signal.state.load(Ordering::Relaxed) == ORDERED;",
        to: "        let is_ordered = signal.state.load(Ordering::Relaxed) == ORDERED;
        if planted(Fault::SyncedLate) && is_ordered {
            let (h, remixed, copy) = signal.read();
            medium.event(Event::Look);
            if signal.state.load(Ordering::Relaxed) == FREE {
                if let Tried::Changed(Some(bucket)) = cached.try_change(medium, h, remixed, copy) {
                    cached.show(medium, bucket);
                }
                return true;
            }
        }",
    },
    Change {
        file: "mod.rs",
        from: "            *version = Some(self.lock_of(*number).try_read(self.medium())?);
        }
        if !self.plans.is_current(plan) {",
        to: "            *version = Some(self.lock_of(*number).try_read(self.medium())?);
        }
        if !planted(Fault::TablesOnce) && !self.plans.is_current(plan) {",
    },
    Change {
        file: "mod.rs",
        from: "        let plan = self.plans.load();
        let places = self.plans.places(plan, h, remixed);
        self.prefetch_buckets(&places);
        let mut versions = [None; PLACES];
        for",
        to: "        let plan = self.plans.load();
        self.medium().event(Event::Look);
        let places = self.plans.places(plan, h, remixed);
        self.prefetch_buckets(&places);
        let mut versions = [None; PLACES];
        for",
    },
    Change {
        file: "hold.rs",
        from: "            let mut held = Held::new(self, plan, places);
            held.lock(places.all());
            if self.plans.is_current(plan) {",
        to: "            let mut held = Held::new(self, plan, places);
            self.medium().event(Event::Look);
            held.lock(places.all());
            if planted(Fault::TablesOnceToWrite) || self.plans.is_current(plan) {",
    },
    Change {
        file: "hold.rs",
        from: "            let lock = self.lock_at(stripe);
            lock.lock(self.medium());
            lock.unlock_changed(self.medium());",
        to: "            if planted(Fault::NotPassed) {
                break;
            }
            let lock = self.lock_at(stripe);
            lock.lock(self.medium());
            lock.unlock_changed(self.medium());",
    },
];
