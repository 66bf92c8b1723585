//! Multimaps: any number of entries for each hash (§3.3).
//!
//! All entries of a hash are in one bucket: values in slots of their own, as long as there are few,
//! and behind that a list of value buffers (`buffer.rs`) in a slot that the head marks. So whatever
//! happens to a key is committed by one word: the head of its bucket, the payload of its list's
//! slot, or the state or link of one buffer. No log is needed, and none has to be replayed.
//!
//! One slot of each bucket stays free for the next list: where an entry finds no other slot, the key
//! that has most slots of the bucket gets a list there, in the same store that frees its slots
//! (compaction). A bucket whose keys all differ is full with one slot less than that of a map.
//!
//! # Commit steps
//! As in the [module docs](super), whose rows for insert and remove hold for values in slots. Entries of
//! a bucket stay in it, so only the first value of a hash may have to clear end bits.
//!
//! | Operation | Stores | Then | If power fails after this step |
//! |---|---|---|---|
//! | compaction | a buffer; `h` and its name in a free slot; head word 1 with the fingerprint | flush, fence | nothing names the buffer: free |
//! | | ✕ head word 0: the list, and not the slots whose values it has; then word 1 where lines keep order | flush, drain | the same values |
//! | add, to a list with room | the value, at a position that does not count | flush, fence, but in the state's line where lines keep order | not there |
//! | | ✕ the buffer's state | flush, drain | added |
//! | add, to a full buffer | a new one: twice the size with all values, or of the largest size before it | flush, fence | nothing names it: free |
//! | | ✕ payload of the list's slot | flush, drain | added |
//! | remove, of a list | copy of the last value at the missing position, if one is missing | flush, fence, as for add | the same values |
//! | | ✕ the buffer's state: another position is missing, or fewer count | flush, drain | removed |
//! | remove, most are gone | a smaller buffer with the others | flush, fence | nothing names it: free |
//! | | ✕ the word that named the larger one: payload of the slot, or link of the buffer before | flush, drain | removed |
//! | remove, the last of a buffer | ✕ the word that named it, with the name of the next one | flush, drain | removed |
//! | remove, one is left | it in a free slot; head word 1 | flush, fence | slot not live |
//! | | ✕ head word 0: that slot, and not the list | flush, drain | removed |
//! | remove all | ✕ head word 0 without the key's slots; then word 1 where lines keep order | flush, drain | all are there, or none |
//!
//! Buffers that nothing names any more go back to the pool after that; before the commit they are marked, so that
//! no sweep takes them for free in between.

mod add;
mod check;
mod compact;
mod count;
mod onlooker;
mod read;
mod remove;
mod remove_all;
mod store;

pub use onlooker::MultiOnlooker;

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Result};

use super::buffer::Lists;
use super::layout::{Bucket, Head};
use super::{Entry, MultiPea};
use crate::index::{
    Finding, Gone, IndexBase, IndexStats, Keys, MultiIndex, MultiReader, Scanned, Values,
    WalkOrder, operation,
};

/// The slots of a key in its bucket.
struct Own {
    /// Those that hold values.
    values: u16,
    /// The one that names its list.
    list: Option<u32>,
}

impl<M: Medium> MultiPea<M> {
    /// The slots of `h` in a bucket, whosever key they are.
    fn slots_of(&self, bucket: &Bucket, head: Head<true>, h: u64) -> u16 {
        head.candidates(h).fold(0, |slots, i| {
            let is_there = self.medium().load(&bucket.slots[i as usize].h) == h;
            slots | u16::from(is_there) << i
        })
    }

    fn payload(&self, bucket: &Bucket, slot: u32) -> u64 {
        self.medium().load(&bucket.slots[slot as usize].payload)
    }

    /// The slots of a key. The caller holds the bucket's lock, or validates its version afterwards.
    fn own(&self, bucket: &Bucket, head: Head<true>, h: u64, keys: &dyn Keys) -> Result<Own> {
        let mut own = Own { values: 0, list: None };
        for i in BitMask(self.slots_of(bucket, head, h)) {
            let payload = self.payload(bucket, i);
            if head.lists() & 1 << i == 0 {
                own.values |= u16::from(keys.is_meant(payload)?) << i;
            } else if keys.is_meant(self.buffer(h, payload)?.any(self.medium()))? {
                own.list = Some(i);
            }
        }
        Ok(own)
    }
}

impl<M: Medium> IndexBase for MultiPea<M> {
    type Slot = Scanned;

    fn reserve(&self, entries: u64) -> Result<()> {
        self.split_for(entries)
    }

    fn prefetch(&self, h: &[u64]) {
        self.prefetch_all(h);
    }

    fn scan(&self, at: u64, out: &mut Vec<(u64, Scanned)>) -> Result<Option<u64>> {
        let mut slots = Vec::new();
        let next = self.scan_unit(at, &mut slots, |bucket, h, entry| (h, bucket, entry))?;
        slots.sort_unstable_by_key(|(h, bucket, _)| (*h, *bucket));
        // A hash that left one bucket and came to another meanwhile is in one of them.
        for of_one in slots.chunk_by(|a, b| a.0 == b.0) {
            let (h, first, _) = of_one[0];
            let there = of_one.iter().filter(|(_, bucket, _)| *bucket == first);
            out.extend(there.map(|(_, _, Entry { payload, is_list })| {
                (h, if *is_list { Scanned::Many(*payload) } else { Scanned::One(*payload) })
            }));
        }
        Ok(next)
    }

    fn walk_order(&self) -> WalkOrder {
        self.directory.walk_order(&self.writers.growth)
    }

    fn mend(&self) -> Result<()> {
        self.mend_all()
    }

    fn len(&self) -> Result<u64> {
        let extra = self.count_extra()?;
        Ok(self.live_slots()? + extra)
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.check_all(found)?;
        match self.read_array() {
            Ok(array) => self.check_lists(&array.units, found),
            // It was found above.
            Err(_) => Ok(()),
        }
    }

    fn stats(&self) -> IndexStats {
        self.figures()
    }
}

impl<M: Medium> MultiIndex for MultiPea<M> {
    fn add(&self, h: u64, payload: u64, keys: &dyn Keys) -> Result<()> {
        self.pool.writable()?;
        operation(self.medium(), || self.add_entry(h, payload, keys))
    }

    fn read(&self, h: u64, keys: &dyn Keys, found: &mut Values, f: MultiReader<'_>) -> Result<()> {
        operation(self.medium(), || self.read_values(h, keys, found, f))
    }

    fn count(&self, h: u64, keys: &dyn Keys) -> Result<u64> {
        operation(self.medium(), || self.count_values(h, keys))
    }

    fn remove_one(
        &self,
        h: u64,
        keys: &dyn Keys,
        wanted: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        self.pool.writable()?;
        let removed = operation(self.medium(), || self.remove_value(h, keys, wanted))?;
        if removed.is_some() {
            self.merge_around(h);
        }
        Ok(removed)
    }

    fn remove_all(&self, h: u64, keys: &dyn Keys, gone: Option<Gone<'_>>) -> Result<u64> {
        self.pool.writable()?;
        let count = operation(self.medium(), || self.remove_key(h, keys, gone))?;
        if count > 0 {
            self.merge_around(h);
        }
        Ok(count)
    }

    fn wipe(&self, h: u64, gone: Gone<'_>) -> Result<()> {
        self.pool.writable()?;
        while self.wipe_bucket(h, gone)? {}
        self.merge_around(h);
        Ok(())
    }

    fn extra_count(&self) -> Option<u64> {
        self.writers.extra_count.get()
    }
}
