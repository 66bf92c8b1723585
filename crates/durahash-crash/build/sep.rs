//! The faults of SepHash, as changes of its sources: `build.rs` makes them in a copy.

use super::Change;

/// All of them. Where none is planted, the copy does what the design does.
pub(crate) const CHANGES: &[Change] = &[
    Change {
        file: "cache.rs",
        from: ".filter(|view| view.a == a)",
        to: ".filter(|view| {
            view.a == a || planted(Fault::KnownByAddress) && view.a.main() == a.main()
        })",
    },
    Change {
        file: "check.rs",
        from: "        if !pending.is_none() {",
        to: "        if !pending.is_none() && !planted(Fault::PendingOverlooked) {",
    },
    Change {
        file: "check.rs",
        from: "(hint[0] == a.generation() as u8)",
        to: "(hint[0] == crate::narrowed(a.generation() as u8))",
    },
    Change {
        file: "epoch.rs",
        from: "        *self.tags.entry(self.latest).or_default() += 1;
        self.latest",
        to: "        let tag = if planted(Fault::TagOfRow) { self.row.epoch() } else { self.latest };
        *self.tags.entry(tag).or_default() += 1;
        tag",
    },
    Change {
        file: "epoch.rs",
        from: "        self.core.epochs.borrow_mut().leave(self.tag);
        // Not left twice",
        to: "        if planted(Fault::WaitsHolding) {
            self.core.fabric.sleep_ns(ns).await;
            return;
        }
        self.core.epochs.borrow_mut().leave(self.tag);
        // Not left twice",
    },
    Change {
        file: "epoch.rs",
        from: "        let Some(lease_ns) = self.fabric.lease_ns() else { return Ok(()) };",
        to: "        let Some(lease_ns) = self.fabric.lease_ns() else { return Ok(()) };
        if planted(Fault::LeaseBefore) && part == 2 || planted(Fault::LeaseAfter) && part == 1 {
            return Ok(());
        }",
    },
    Change {
        file: "epoch.rs",
        from: "                (epochs.row, epochs.beat_ns) = (new, posted_ns);",
        to: "                let now_ns = self.fabric.now_ns();
                let beat_ns = if planted(Fault::BeatWhenSeen) { now_ns } else { posted_ns };
                (epochs.row, epochs.beat_ns) = (new, beat_ns);",
    },
    Change {
        file: "epoch.rs",
        from: "            epochs.tags.keys().next().map_or(global, |&tag| tag.min(global))",
        to: "            let lowest = epochs.tags.keys().next();
            lowest.filter(|_| !planted(Fault::RowIsLatest)).map_or(global, |&tag| tag.min(global))",
    },
    Change {
        file: "epoch.rs",
        from: "        if lowest > self.epochs.borrow().row.epoch() {",
        to: "        if lowest > self.epochs.borrow().row.epoch() && !planted(Fault::Unflushed) {",
    },
    Change {
        file: "epoch.rs",
        from: "        if ready && self.epochs",
        to: "        if (ready || planted(Fault::RowsUnasked)) && self.epochs",
    },
    Change {
        file: "epoch.rs",
        from: "            if late && self.fabric.evict(idx).await? {",
        to: "            if late && (planted(Fault::Unfenced) || self.fabric.evict(idx).await?) {",
    },
    Change {
        file: "epoch.rs",
        from: "                return Ok(Epochs { latest, ..Epochs::new(new, posted_ns) });",
        to: "                let latest = if planted(Fault::EpochOnce) { new.epoch() } else { latest };
                return Ok(Epochs { latest, ..Epochs::new(new, posted_ns) });",
    },
    Change {
        file: "fold.rs",
        from: "            let newest = known.is_none_or(",
        to: "            let forgets = planted(Fault::TombstoneMerged) && entry.is_tombstone()
                || planted(Fault::KeysUncompared) && hint.is_none();
            let newest = forgets || known.is_none_or(",
    },
    Change {
        file: "fold.rs",
        from: "        let dep = if depth % 4 == 3 {",
        to: "        let dep = if depth % 4 == 3 && !planted(Fault::DepthBitsKept) {",
    },
    Change {
        file: "fptable.rs",
        from: "        clamp(from - before - 1)..clamp(to + after + 1)",
        to: "        if planted(Fault::RangeBare) {
            return clamp(from)..clamp(to);
        }
        clamp(from - before - 1)..clamp(to + after + 1)",
    },
    Change {
        file: "grow.rs",
        from: "        let turning = a.generation().wrapping_add(1).is_multiple_of(STRIDE);",
        to: "        let stride = if planted(Fault::Narrow) { 1 } else { STRIDE };
        let turning = a.generation().wrapping_add(1).is_multiple_of(stride);",
    },
    Change {
        file: "grow.rs",
        from: "            if turning && full",
        to: "            if turning && !planted(Fault::TurnsUnwaited) && full",
    },
    Change {
        file: "grow.rs",
        from: "            let splits = self.geometry.splits(a, full.header.len);",
        to: "            let unknown = full.frozen.cur.iter().filter(|(_, hint)| hint.is_none()).count();
            let uncounted = if planted(Fault::SplitByHints) { unknown as u32 } else { 0 };
            let splits = self.geometry.splits(a, full.header.len.saturating_sub(uncounted));",
    },
    Change {
        file: "grow.rs",
        from: "        self.space.borrow_mut().retire(op.tag, block, block_bytes(bytes));",
        to: "        if planted(Fault::ReusedAtOnce) {
            self.space.borrow_mut().put(block, block_bytes(bytes));
            return;
        }
        self.space.borrow_mut().retire(op.tag, block, block_bytes(bytes));",
    },
    Change {
        file: "grow.rs",
        from: "            (hint[0] == a.generation() as u8).then_some(hint[1])",
        to: "            let is_known = hint[0] == crate::narrowed(a.generation() as u8);
            (is_known || planted(Fault::HintOfAny)).then_some(hint[1])",
    },
    Change {
        file: "grow.rs",
        from: "            batch.write(at, &[a.generation() as u8, fp2]);",
        to: "            batch.write(at, &[crate::narrowed(a.generation() as u8), fp2]);",
    },
    Change {
        file: "grow.rs",
        from: "        let mut batch = Batch::new();
        batch.write(main.addr(), &bytes);",
        to: "        let mut batch = Batch::new();
        if planted(Fault::CommitWithMain) {
            batch.compare_swap(cur.addr(), a.0, a.merged(main).0);
        }
        batch.write(main.addr(), &bytes);",
    },
    Change {
        file: "grow.rs",
        from: "        op.post(batch).await?;
        let new = a.merged(main);
        let mut batch = Batch::new();
        batch.compare_swap(cur.addr(), a.0, new.0);",
        to: "        let new = a.merged(main);
        if !planted(Fault::CommitWithMain) {
            op.post(batch).await?;
            batch = Batch::new();
            batch.compare_swap(cur.addr(), a.0, new.0);
        }",
    },
    Change {
        file: "grow.rs",
        from: "        let mut batch = Batch::new();
        batch.write(low.addr(), &lower_bytes);",
        to: "        let mut batch = Batch::new();
        let place_of_buddy = cur.addr().add(self.geometry.buddy_off(depth));
        if planted(Fault::BuddyWithHalves) {
            batch.compare_swap(place_of_buddy, 0, buddy.word());
        }
        batch.write(low.addr(), &lower_bytes);",
    },
    Change {
        file: "grow.rs",
        from: "        op.post(batch).await?;
        let mut batch = Batch::new();
        batch.compare_swap(cur.addr().add(self.geometry.buddy_off(depth)), 0, buddy.word());
        let found",
        to: "        if !planted(Fault::BuddyWithHalves) {
            op.post(batch).await?;
            batch = Batch::new();
            batch.compare_swap(place_of_buddy, 0, buddy.word());
        }
        let mut early = None;
        if planted(Fault::BuddyLast) {
            let mut first = Batch::new();
            first.compare_swap(cur.addr(), a.0, a.split(low).0);
            early = Some(self.swap_word(op, first).await?);
        }
        let found",
    },
    Change {
        file: "grow.rs",
        from: "        let swapped = self.swap_word(op, batch).await?;",
        to: "        let swapped = match early {
            Some(swapped) => swapped,
            None => self.swap_word(op, batch).await?,
        };",
    },
    Change {
        file: "grow.rs",
        from: "            Ref::from_word(found)
        };",
        to: "            if planted(Fault::NotAdopted) { buddy } else { Ref::from_word(found) }
        };",
    },
    Change {
        file: "grow.rs",
        from: "        if swapped != a.0 {",
        to: "        if planted(Fault::LoserFrees) && swapped != a.0 && found == 0 {
            let mut space = self.space.borrow_mut();
            space.put(up, block_bytes(sizes[1]));
            space.put(buddy, block_bytes(sizes[2]));
        }
        if swapped != a.0 {",
    },
    Change {
        file: "grow.rs",
        from: "            let bytes = 8u64 << global;",
        to: "            if planted(Fault::DoubledFirst) {
                let mut batch = Batch::new();
                batch.compare_swap(ROOT, global.into(), u64::from(global) + 1);
                self.fabric.post(batch).await?;
            }
            let bytes = 8u64 << global;",
    },
    Change {
        file: "layout.rs",
        from: "                | u64::from(generation & 127) << 53",
        to: "                | u64::from(generation & crate::generation_bits()) << 53",
    },
    Change {
        file: "layout.rs",
        from: "        if self.0 != 0 && bits == u64::from(generation & 127) {",
        to: "        if self.0 != 0 && bits == u64::from(generation & crate::generation_bits()) {",
    },
    Change {
        file: "layout.rs",
        from: "u64::from(generation.wrapping_sub(1) & 127) {",
        to: "u64::from(generation.wrapping_sub(1) & crate::generation_bits()) {",
    },
    Change {
        file: "look.rs",
        from: "                    let known_a = known.a;
                    let seen = self.glance(op, cur, known, hash, scope, block).await?;
                    if seen.a != known_a {",
        to: "                    let mut known_a = known.a;
                    let seen = self.glance(op, cur, known, hash, scope, block).await?;
                    if planted(Fault::ComparedLate) {
                        let now = self.cache.borrow().snapshot(cur, self.geometry.cur, op.tag);
                        known_a = now.map_or(known_a, |now| now.a);
                        if seen.a != known_a {
                            self.cache.borrow_mut().turn(cur, seen.a, op.tag);
                            continue;
                        }
                    }
                    let is_same = planted(Fault::KnownByAddress) && seen.a.main() == known_a.main();
                    if seen.a != known_a && !is_same {",
    },
    Change {
        file: "look.rs",
        from: "            if suffix(hash, a.depth()) != place.bits {",
        to: "            let level = (hash ^ place.bits).trailing_zeros().min(self.geometry.max_depth - 1);
            let is_early = planted(Fault::ZeroBuddy) && self.cache.borrow().buddy(cur, level).is_none();
            if suffix(hash, a.depth()) != place.bits && !is_early {",
    },
    Change {
        file: "look.rs",
        from: "            if snapshot.as_ref().is_some_and(|known| known.a != a) {",
        to: "            let is_other = |known: &Snapshot| {
                known.a != a
                    && !planted(Fault::OffsetKept)
                    && !planted(Fault::ComparedLate)
                    && !(planted(Fault::KnownByAddress) && known.a.main() == a.main())
            };
            if snapshot.as_ref().is_some_and(is_other) {",
    },
    Change {
        file: "look.rs",
        from: "                sight.newer = read.chain(before).collect();",
        to: "                sight.newer = read.chain(before).collect();
                if planted(Fault::OldestFirst) {
                    sight.newer.reverse();
                }",
    },
    Change {
        file: "look.rs",
        from: "                match entry.state(a.generation()) {",
        to: "                let state = match entry.state(a.generation()) {
                    State::Other if planted(Fault::OtherIsFree) => State::Free,
                    state => state,
                };
                match state {",
    },
    Change {
        file: "look.rs",
        from: "                        let rest = read.take_while",
        to: "                        let behind = read.clone();
                        let rest = read.take_while",
    },
    Change {
        file: "look.rs",
        from: "                        let idx = offset + live.len() as u32;",
        to: "                        let idx = offset + live.len() as u32;
                        if planted(Fault::BehindFree) {
                            live.extend(behind.filter(|e| e.state(a.generation()) == State::Live));
                        }",
    },
    Change {
        file: "look.rs",
        from: "            if end == self.geometry.cur {",
        to: "            if end == self.geometry.cur || planted(Fault::WindowIsAll) {",
    },
    Change {
        file: "look.rs",
        from: "            if from && to {",
        to: "            if from && to || planted(Fault::RangeUnchecked) {",
    },
    Change {
        file: "space.rs",
        from: "        self.waiting.push_back(Waiting { epoch: epoch + 3, block, bytes });",
        to: "        let epochs = if planted(Fault::TwoEpochs) { 2 } else { 3 };
        self.waiting.push_back(Waiting { epoch: epoch + epochs, block, bytes });",
    },
    Change {
        file: "write.rs",
        from: "            let sight = self.look(op, hash, Scope::Append, block).await?;",
        to: "            let mut none = None;
            let first = if planted(Fault::EntryFirst) { &mut none } else { &mut *block };
            let sight = self.look(op, hash, Scope::Append, first).await?;",
    },
    Change {
        file: "write.rs",
        from: "                    Swap::Done => {
                        self.appended(op, &sight, idx).await;",
        to: "                    Swap::Done => {
                        if let Some((at, bytes)) = block.take() {
                            let mut batch = Batch::new();
                            batch.write(at.addr(), &bytes);
                            op.post(batch).await?;
                        }
                        self.appended(op, &sight, idx).await;",
    },
    Change {
        file: "write.rs",
        from: "                    // What was there first is of this generation",
        to: "                    Swap::Lost(_) if planted(Fault::SwapUnseen) => return Ok(()),
                    // What was there first is of this generation",
    },
    Change {
        file: "write.rs",
        from: "                // The block was never published.",
        to: "                Ok(Swap::Lost(_)) if planted(Fault::DecidedOnce) => {
                    self.space.borrow_mut().put(kv.at, kv.bytes);
                    self.append(key, value.as_deref()).await?;
                    return Ok((found, true));
                }
                // The block was never published.",
    },
    Change {
        file: "write.rs",
        from: "        let hint = [a.generation() as u8, fp2(hash)];",
        to: "        let hint = [crate::narrowed(a.generation() as u8), fp2(hash)];",
    },
    Change {
        file: "write.rs",
        from: "        self.merge(op, sight.cur, sight.a).await
    }",
        to: "        if planted(Fault::OthersMerge) {
            return Ok(());
        }
        self.merge(op, sight.cur, sight.a).await
    }",
    },
    Change {
        file: "write.rs",
        from: "                    Some(value) if i < now.len() => return Ok(value),",
        to: "                    Some(None) if planted(Fault::TombstonePassed) => {}
                    Some(value) if i < now.len() => return Ok(value),",
    },
];
