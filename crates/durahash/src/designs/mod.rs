//! The designs, each an [`Index`](crate::index::Index) over a pool. None uses another.

use durahash_media::{ErrorKind, Format, PmU64, Result, on_media};

on_media! {
    /// A hash and its payload.
    pub struct Slot: 16, align 16 {
        /// The hash.
        pub h: PmU64,
        /// The payload.
        pub payload: PmU64,
    }
}

/// Slots of a bucket of a pool: all that there are, unless the geometry says fewer; `what` is the error.
fn slots_of(format: &Format, all: u32, what: &'static str) -> Result<u32> {
    match u32::from(format.geometry.slots) {
        0 => Ok(all),
        slots if (2..=all).contains(&slots) => Ok(slots),
        _ => Err(ErrorKind::Options { what }.into()),
    }
}

/// Leaves one slot of each hash of a unit, whose slots are sorted by it. A slot that is on its way is there twice,
/// with one payload. Where payloads differ, damage has made two of one, or it was changed meanwhile: the one that a
/// lookup finds is left.
fn one_of_each(
    unit: &mut Vec<(u64, u64)>,
    find: impl Fn(u64) -> Result<Option<u64>>,
) -> Result<()> {
    let mut unsure = Vec::new();
    unit.dedup_by(|next, kept| {
        let is_double = next.0 == kept.0;
        if is_double && next.1 != kept.1 {
            unsure.push(kept.0);
        }
        is_double
    });
    for h in unsure {
        let found = find(h)?;
        unit.retain_mut(|slot| {
            slot.0 != h
                || found.is_some_and(|payload| {
                    slot.1 = payload;
                    true
                })
        });
    }
    Ok(())
}

/// The value of a result; where that is an error, releases the locks that are held and returns it.
macro_rules! or_release {
    ($held:ident, $done:expr) => {
        match $done {
            Ok(done) => done,
            Err(e) => {
                $held.release_unchanged();
                return Err(e);
            }
        }
    };
}

/// The locks of `h` by `$hold`, for a writer. A writer that waited for a lock may get it from an operation that broke
/// off, which leaves the state in DRAM behind the durable one: it must not write on.
macro_rules! hold_admitted {
    ($of:ident, $h:ident, $room:ident, $hold:expr) => {
        loop {
            let held = $hold;
            if or_release!(held, $of.pool.admits($h, $room.is_of_batch())) {
                return Ok(held);
            }
            held.release_unchanged();
            $of.pool.wait_for_batch($h);
        }
    };
}

/// The methods of [`IndexBase`](crate::index::IndexBase) that all have alike.
macro_rules! base_methods {
    () => {
        fn stats(&self) -> IndexStats {
            self.figures()
        }

        fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
            self.check_all(found)
        }
    };
}

/// The methods of [`Index`](crate::index::Index) that designs of extendible hashing have alike.
macro_rules! index_methods {
    () => {
        fn read(&self, h: u64, f: Reader<'_>) -> Result<()> {
            operation(self.medium(), || self.read_with(h, f))
        }

        #[inline(always)]
        fn update(&self, h: u64, room: Room, f: Updater<'_>) -> Result<Option<u64>> {
            self.pool.writable()?;
            // No closure, which would be a function of its own.
            self.medium().event(Event::Begin);
            let done = self.update_slot(h, room, f);
            self.medium().event(Event::Ack);
            let (found, change) = done?;
            if change == Change::Remove && found.is_some() {
                self.merge_around(h);
            }
            Ok(found)
        }

        fn make_way(&self, h: u64, f: Updater<'_>) -> Result<Option<u64>> {
            if h.is_multiple_of(4) {
                return self.update(h, Room::None, f);
            }
            self.pool.writable()?;
            operation(self.medium(), || self.update_slot(h, Room::None, f)).map(|(found, _)| found)
        }
    };
}

/// The method of [`Index`](crate::index::Index) for batches, of designs whose `approach` is to one hash.
macro_rules! looks_in_batches {
    () => {
        fn look_in_batch(&self, h: &[u64], rooms: &[Room], out: &mut [Option<Option<u64>>]) {
            for h in h {
                self.directory.prefetch(*h);
            }
            let mut sought = [const { None }; PREFETCHED];
            for (h, sought) in h.iter().zip(&mut sought) {
                *sought = self.approach(*h);
            }
            for (((h, room), out), sought) in h.iter().zip(rooms).zip(out).zip(&sought) {
                *out = operation(self.medium(), || self.look_unlocked(*h, *room, sought.as_ref()?));
            }
        }
    };
}

mod onlooker;

// From low to high.
pub mod esh;
pub mod pea;
pub mod reh;
pub mod rewo;

#[cfg(test)]
mod tests {
    use super::one_of_each;

    #[test]
    fn of_two_slots_of_a_hash_the_one_that_lookups_find_is_left() {
        let mut unit = vec![(1, 5), (1, 7), (2, 3), (2, 3), (4, 8), (4, 9), (6, 6)];
        let find = |h| {
            assert!([1, 4].contains(&h), "{h}: nothing to ask");
            Ok((h == 1).then_some(7))
        };
        one_of_each(&mut unit, find).unwrap();
        assert_eq!(unit, [(1, 7), (2, 3), (6, 6)]);
    }
}
