//! Readers of a multimap that another process writes. They find segments and buckets as those of maps do (`pea/onlooker.rs`,
//! whose rules and reasons hold here); what is new are several slots of one hash, and lists.
//!
//! # What the writer counts
//! - **ON-1** The hash of each slot that comes or goes, whosever entry brings that about; so that of a key whose slots become a list, too.
//!   And the hash of each list that is changed. After the commit word, before a lock is released.
//! - **ON-2**, **ON-3** as of maps.
//! - **ON-4** With the first of these each hash is *noted*, too (`Changes::note`), but for slots that are moved with what they hold. A buffer or a
//!   record is given back after that.
//!
//! # Why the slots that are found are right
//! A look at them counts if the counter of the hash `h` is the same behind it. Of each bucket it loads the head, then the slots that this
//! says may have `h`, then the head's first word again: if that is another one, again from the head on. So:
//!
//! | the writer stores | a reader that comes then | why that is right |
//! |---|---|---|
//! | payload, then `h`, of a slot that is not live, for an added value, a list, or the last value of one | passes by; or has found the slot live before, as another entry's, and finds `h`: then the bit is gone when it loads the word again, until the commit | the slot's bit comes with the commit, and lives on until ON-1 tells; with the bit of lists, whose change is another word as well |
//! | head word 1, with fingerprints of slots that are not live | the same | fingerprints of live slots stay |
//! | head word 0: slots come, go, both (the commit) | all slots that `h` had before, or all that it has behind | the bits of `h` change by this one store only, so a reader that has the same word twice has not met it in between, and finds the slots of that word: or one more that was added, which the word has, too |
//! | head word 1 of a removal, behind that | has the new word, and knows the slots as not live; or the old one, misses some by their fingerprints, and finds another word | it is not counted yet: the slots have no other entry |
//! | payload of a list's slot | the list before, or behind | one word |
//! | others, of the same bucket | maybe looks again | bits and slots of `h` stay, but for moves and lists that are made, which are counted |
//!
//! Slots of a hash are in one bucket. Where a look finds none in one, and goes on, the reasons of maps hold.
//!
//! # Why a list that is read is right
//! A list may take long to read, and records that slots and lists name longer; hashes that share a counter are changed meanwhile,
//! segments split. All this is nothing to a list: buffers stay where they are, whatever becomes of the bucket. So what is read behind the slots counts
//! if no change of `h` was noted since before the look at them. Then one operation on `h` at most has stored, and:
//!
//! | the writer stores | a reader that comes then |
//! |---|---|
//! | a new buffer, of the list or of a key's slots | is led to none, but by the commit |
//! | a value, or a copy of the last one, at a position that does not count | does not load it, unless the new state says so |
//! | the buffer's state; a link; payload of the slot; head word 0 (the commit) | one or the other: one word. What the old one leads to stays as it is until the change is noted |
//! | anything, into a buffer or record that was given back | is late, and a note told |
//!
//! The operation that is held up commits by one word, so it does not matter that slots and buffers are read at different moments. A
//! reader asks behind each piece of some values, and each record, if what it has still counts, and believes no count or length
//! otherwise. Once it was told no, that try is over.
//!
//! # Why a walk is right
//! That over segments is one of maps: each bucket has at a moment what each of its hashes had there. Of a hash in two
//! buckets, which was removed and came back, the first one's slots are given. Who walks reads lists by lookups.
//!
//! # Limits
//! A key that is changed without pause, in less time than its values are read in, may keep its readers looking. Other keys do so only
//! with more notes at one counter than are kept, between two questions: fifteen changes within some microseconds.

use std::cell::Cell;

use durahash_media::hash::WordMix;
use durahash_media::{Error, ErrorKind, Event, Medium, Place, Pool, Result};

use super::read::gather;
use crate::designs::pea::buffer::Lists;
use crate::designs::pea::layout::{Entry, Head};
use crate::designs::pea::onlooker::{Seen, Segments};
use crate::designs::pea::planted::{Fault, planted};
use crate::designs::pea::strategy::{Shape, Strategy};
use crate::extendible::extend::{self, MAX_DEPTH};
use crate::extendible::unit::Unit;
use crate::index::{
    Finding, Gone, IndexBase, IndexStats, Keys, MultiIndex, MultiReader, Scanned, Values, operation,
};

/// A reader beside the writer of a multimap in another process.
#[doc(hidden)]
pub struct MultiOnlooker<M: Medium> {
    segments: Segments<M, true>,
    mix: WordMix,
}

impl<M: Medium> Lists for MultiOnlooker<M> {
    type Medium = M;

    fn pool(&self) -> &Pool<M> {
        self.segments.watch.pool()
    }

    fn mix(&self) -> &WordMix {
        &self.mix
    }

    fn large(&self) -> &Shape {
        &self.segments.large
    }
}

impl<M: Medium> MultiOnlooker<M> {
    /// One of the table in `map`.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) for a geometry that cannot be.
    pub fn new(map: impl Into<Place<M>>) -> Result<Self> {
        let map = map.into();
        let mix = WordMix::new(map.format().seed);
        Ok(MultiOnlooker { segments: Segments::of(map)?, mix })
    }

    fn medium(&self) -> &M {
        self.segments.watch.medium()
    }

    /// The entries of `h`, which the caller validates by its counter; `None` if the look was in vain.
    fn entries(&self, h: u64, still: &dyn Fn() -> bool) -> Result<Option<Vec<Entry>>> {
        let (medium, segments) = (self.medium(), &self.segments);
        let Some((_, place)) = segments.seek(h)? else { return Ok(None) };
        let mut entries = Vec::new();
        for number in segments.shape(place).homes(h).buckets(Strategy::of(place)) {
            let bucket = segments.bucket(place, number)?;
            let head = loop {
                let head = segments.head(bucket);
                entries.clear();
                for i in head.candidates(h) {
                    let slot = &bucket.slots[i as usize];
                    if medium.load(&slot.h) == h {
                        let is_list = head.lists() & 1 << i != 0;
                        entries.push(Entry { payload: medium.load(&slot.payload), is_list });
                    }
                }
                if medium.load(&bucket.head[0]) == head.0[0] || planted(Fault::HeadOnce) {
                    break head;
                }
                if !still() {
                    return Ok(None);
                }
                medium.event(Event::Wait);
            };
            if !entries.is_empty() || head.0[0] & Head::<true>::END != 0 {
                break;
            }
        }
        Ok(Some(entries))
    }

    /// Looks at the entries of `h`, and all that they lead to, until no change of `h` was noted meanwhile.
    fn look<T>(
        &self,
        h: u64,
        mut f: impl FnMut(&[Entry], &dyn Fn() -> bool) -> Result<T>,
    ) -> Result<T> {
        let watch = &self.segments.watch;
        let changes = watch.changes()?;
        let begin = || {
            let known = Cell::new(Some(changes.noted(h)));
            move || {
                known.set(known.get().and_then(|known| changes.noted_others(h, known)));
                known.get().is_some()
            }
        };
        watch.look_while(begin, |still| {
            let entries = watch.look(h, u64::BITS, |still| self.entries(h, still))?;
            // They may name blocks in an extent that is new.
            watch.pool().follow()?;
            f(&entries, still).map(Some)
        })
    }

    fn live_in_list(&self, h: u64, name: u64, still: &dyn Fn() -> bool) -> Result<u64> {
        let mut count = 0;
        self.walk(h, name, still, &mut |buffer| {
            count += buffer.state.live() as u64;
            Ok(true)
        })?;
        Ok(count)
    }

    /// How many entries a hash has.
    fn count_all(&self, h: u64) -> Result<u64> {
        self.look(h, |entries, still| {
            entries.iter().try_fold(0, |count, entry| {
                let Entry { payload, is_list } = *entry;
                Ok(count + if is_list { self.live_in_list(h, payload, still)? } else { 1 })
            })
        })
    }

    /// The slots of a unit, in the order of their hashes, and what is wrong in it.
    fn unit(&self, at: u64, found: &mut Vec<Finding>) -> Result<(Unit, Option<u64>, Vec<Seen>)> {
        let mut seen = Vec::new();
        let (prefix, place) = self.segments.segment(at, &mut seen, found)?;
        seen.sort_unstable_by_key(|(h, bucket, _)| (*h, *bucket));
        let (mut of, mut first) = (None, 0);
        seen.retain(|(h, bucket, _)| {
            if of.replace(*h) != Some(*h) {
                first = *bucket;
            }
            *bucket == first
        });
        Ok((place, extend::next(prefix, place.depth()), seen))
    }

    /// Calls `f` with each unit, its slots, and what is wrong in it.
    fn each_unit(
        &self,
        mut f: impl FnMut(Unit, &[Seen], Vec<Finding>) -> Result<()>,
    ) -> Result<()> {
        let mut at = Some(0);
        while let Some(from) = at {
            let mut found = Vec::new();
            let (place, next, seen) = self.unit(from, &mut found)?;
            f(place, &seen, found)?;
            at = next;
        }
        Ok(())
    }

    fn refuse<T>(&self) -> Result<T> {
        Err(Error::from(ErrorKind::ReadOnly).at_path(self.medium().path()))
    }
}

impl<M: Medium> IndexBase for MultiOnlooker<M> {
    type Slot = Scanned;

    fn scan(&self, at: u64, out: &mut Vec<(u64, Scanned)>) -> Result<Option<u64>> {
        let (_, next, seen) = self.unit(at, &mut Vec::new())?;
        out.extend(seen.into_iter().map(|(h, _, Entry { payload, is_list })| {
            (h, if is_list { Scanned::Many(payload) } else { Scanned::One(payload) })
        }));
        Ok(next)
    }

    fn len(&self) -> Result<u64> {
        let mut len = 0;
        self.each_unit(|_, seen, _| {
            for of_one in seen.chunk_by(|a, b| a.0 == b.0) {
                let has_list = of_one.iter().any(|(.., entry)| entry.is_list);
                len += if has_list { self.count_all(of_one[0].0)? } else { of_one.len() as u64 };
            }
            Ok(())
        })?;
        Ok(len)
    }

    fn stats(&self) -> IndexStats {
        let (mut units, mut slots_used) = (Vec::new(), 0);
        let mut depths = vec![0; MAX_DEPTH as usize + 1];
        // Of all that can be read.
        let _ = self.each_unit(|place, seen, _| {
            units.push(place);
            slots_used += seen.len() as u64;
            depths[place.depth() as usize] += 1;
            Ok(())
        });
        let global_depth = units.iter().map(|place| place.depth()).max().unwrap_or(0);
        depths.truncate(global_depth as usize + 1);
        let figures = self.segments.figures_of(&units, global_depth);
        IndexStats { slots_used, global_depth, depths, ..figures }
    }

    /// As of a map. Who reads all lists verifies PEA-8.
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let checked = self.each_unit(|_, _, all| {
            all.into_iter().for_each(&mut *found);
            Ok(())
        });
        match checked {
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt { .. }) => {
                found(Finding::new("PEA-1", 0, e.to_string()));
                Ok(())
            }
            checked => checked,
        }
    }
}

impl<M: Medium> MultiIndex for MultiOnlooker<M> {
    fn add(&self, _h: u64, _payload: u64, _keys: &dyn Keys) -> Result<()> {
        self.refuse()
    }

    fn read(&self, h: u64, keys: &dyn Keys, found: &mut Values, f: MultiReader<'_>) -> Result<()> {
        operation(self.medium(), || {
            self.look(h, |entries, still| {
                found.payloads.clear();
                found.buffers.clear();
                let done = gather(self, (h, entries.iter().copied()), keys, found, still);
                f(&found.payloads, still).and(done)
            })
        })
    }

    fn count(&self, h: u64, keys: &dyn Keys) -> Result<u64> {
        operation(self.medium(), || {
            self.look(h, |entries, still| {
                let (mut count, mut list) = (0, None);
                for Entry { payload, is_list } in entries {
                    if !is_list {
                        count += u64::from(keys.is_meant(*payload)?);
                    } else if keys.is_meant(self.buffer(h, *payload)?.any(self.medium()))? {
                        list = Some(*payload);
                    }
                }
                let more = list.map(|name| self.live_in_list(h, name, still)).transpose()?;
                Ok(count + more.unwrap_or(0))
            })
        })
    }

    fn remove_one(
        &self,
        _h: u64,
        _keys: &dyn Keys,
        _wanted: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<Option<u64>> {
        self.refuse()
    }

    fn remove_all(&self, _h: u64, _keys: &dyn Keys, _gone: Option<Gone<'_>>) -> Result<u64> {
        self.refuse()
    }

    fn wipe(&self, _h: u64, _gone: Gone<'_>) -> Result<()> {
        self.refuse()
    }

    fn extra_count(&self) -> Option<u64> {
        None
    }
}
