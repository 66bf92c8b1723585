//! Value buffers: many values of one key, behind one slot of a multimap.
//!
//! ```text
//! byte  0  state   positions in use (bits 0-19), the missing one of them, plus one (20-39), check
//!                  sum (40-63)
//!       8  next    name of the next buffer of the list; 0 is none
//!      16  seal    over the hash, the number and the offset
//!      24  number  different in each buffer that was written since the pool was made
//!      32  values
//! ```
//!
//! A buffer is a block of 256 bytes, or of twice the size of the one that it takes the place of, up
//! to 512 KiB or a large segment; where that is full, a further buffer goes before it. So a *list* is a
//! chain of buffers, of which the first takes new values. The state is the commit word: values that it
//! does not count are not there, and neither is the position that it calls missing. With that one
//! position, a value in the middle goes by one store, and the next store that changes the buffer
//! fills the gap.
//!
//! A name has the offset in bits 0-47 and the first 16 bits of the seal above, so that a wrong name
//! does not lead to a buffer that was given up.

use durahash_media::hash::WordMix;
use durahash_media::{Error, Limit, Medium, Memory, PmU64, Pool, Result, bits, on_media};

use super::strategy::Shape;
use super::{MultiPea, Table};
use crate::util::cycle::CycleDetector;

on_media! {
    /// The header of a buffer.
    pub struct BufferHeader: 32, align 32 {
        /// Positions in use, the missing one, check sum.
        pub state: PmU64,
        /// Name of the next buffer of the list; 0 is none.
        pub next: PmU64,
        /// Says whose buffer this is.
        pub seal: PmU64,
        /// Different in each buffer.
        pub number: PmU64,
    }
}

const HEADER_WORDS: u64 = 4;
/// Bytes of the largest buffer, where large segments are as large.
const LARGEST_BYTES: u64 = 512 << 10;
/// Bytes of the smallest one, but in segments so small that it would be much of them.
const SMALLEST_BYTES: u64 = 256;
/// Values that stand in the header's line.
pub(super) const BESIDE_HEADER: usize = 4;

const COUNT_BITS: u32 = 20;
const SUM_SHIFT: u32 = 2 * COUNT_BITS;
const OFFSET_BITS: u32 = 48;
/// The error of a list that does not end.
pub(super) const CYCLE: &str = "a list of values has a cycle";

/// The offset in a name.
pub(super) fn offset(name: u64) -> u64 {
    bits(name, 0, OFFSET_BITS)
}

/// A buffer as it was loaded, found sound.
#[derive(Clone, Copy)]
pub(super) struct Buffer<'a> {
    pub(super) name: u64,
    pub(super) header: &'a BufferHeader,
    pub(super) values: &'a [PmU64],
    pub(super) state: State,
    pub(super) next: u64,
    seal: u64,
}

/// Which positions of a buffer hold values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) count: usize,
    /// Never the last of them.
    pub(super) missing: Option<usize>,
}

impl State {
    pub(super) const fn of(count: usize) -> Self {
        State { count, missing: None }
    }

    /// How many values there are.
    pub(super) fn live(self) -> usize {
        self.count - usize::from(self.missing.is_some())
    }

    /// Where the values are.
    pub(super) fn positions(self) -> impl Iterator<Item = usize> {
        (0..self.count).filter(move |i| self.missing != Some(*i))
    }

    /// Where the next value goes, and the state that has it, if there is room for `capacity`.
    pub(super) fn with_one(self, capacity: usize) -> Option<(usize, Self)> {
        let at = self.missing.unwrap_or(self.count);
        let state = State::of(self.count + usize::from(self.missing.is_none()));
        (at < capacity).then_some((at, state))
    }

    /// Without the value at `i`: where the last value has to be copied before, if it must, and the
    /// state without it.
    pub(super) fn without(self, i: usize) -> (Option<usize>, Self) {
        let last = self.count - 1;
        let trimmed = |count: usize, missing: usize| {
            if missing + 1 == count {
                State::of(count - 1)
            } else {
                State { count, missing: Some(missing) }
            }
        };
        match self.missing {
            None => (None, trimmed(self.count, i)),
            Some(missing) if i == last => (None, trimmed(last, missing)),
            Some(missing) => (Some(missing), trimmed(last, i)),
        }
    }
}

impl<'a> Buffer<'a> {
    /// Calls `f` with every value.
    pub(super) fn each<M: Medium>(&self, medium: &M, mut f: impl FnMut(u64)) {
        self.state.positions().for_each(|i| f(medium.load(&self.values[i])));
    }

    /// One of its values.
    pub(super) fn any<M: Medium>(&self, medium: &M) -> u64 {
        let at = self.state.positions().next().unwrap_or(0);
        medium.load(&self.values[at])
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.values.len() as u64 + HEADER_WORDS) * 8
    }
}

/// What lists are read by: that of a multimap, and of its readers in other processes.
pub(super) trait Lists {
    /// What the pool is on.
    type Medium: Medium;

    fn pool(&self) -> &Pool<Self::Medium>;

    fn mix(&self) -> &WordMix;

    /// The shape of large segments.
    fn large(&self) -> &Shape;

    fn smallest_bytes(&self) -> u64 {
        (self.segment_bytes() / 2048).clamp(64, SMALLEST_BYTES)
    }

    fn largest_bytes(&self) -> u64 {
        self.segment_bytes().min(LARGEST_BYTES)
    }

    /// Bytes of a large segment.
    fn segment_bytes(&self) -> u64 {
        self.large().extents * self.pool().extent_bytes()
    }

    /// Bytes of a buffer for so many values.
    fn bytes_for(&self, values: usize) -> u64 {
        let bytes = (values as u64 + HEADER_WORDS) * 8;
        bytes.next_power_of_two().max(self.smallest_bytes())
    }

    /// The seal of the value buffer of `h` at `off` that has this number.
    fn seal(&self, h: u64, number: u64, off: u64) -> u64 {
        let mix = self.mix();
        mix.mix(mix.mix(mix.mix(h) ^ number) ^ off)
    }

    fn state_word(&self, seal: u64, state: State) -> u64 {
        let missing = state.missing.map_or(0, |i| i as u64 + 1);
        let word = state.count as u64 | missing << COUNT_BITS;
        word | self.mix().mix(seal ^ word) >> SUM_SHIFT << SUM_SHIFT
    }

    /// The word of a buffer's new state.
    fn new_state(&self, buffer: &Buffer<'_>, state: State) -> u64 {
        self.state_word(buffer.seal, state)
    }

    /// The buffer of `h` that has this name.
    fn buffer(&self, h: u64, name: u64) -> Result<Buffer<'_>> {
        let (pool, off) = (self.pool(), offset(name));
        let corrupt = |what| Error::corrupt(what, off);
        let bytes = pool.block_bytes(off)?;
        if !bytes.is_power_of_two()
            || !(self.smallest_bytes()..=self.largest_bytes()).contains(&bytes)
        {
            return Err(corrupt("a block that is not a value buffer"));
        }
        let medium = pool.medium();
        let header = pool.at::<BufferHeader>(off)?;
        let seal = medium.load(&header.seal);
        if seal >> OFFSET_BITS != name >> OFFSET_BITS
            || seal != self.seal(h, medium.load(&header.number), off)
        {
            return Err(corrupt("not the value buffer that the link names"));
        }
        let next = medium.load(&header.next);
        let word = medium.load(&header.state);
        let count = bits(word, 0, COUNT_BITS) as usize;
        let missing = (bits(word, COUNT_BITS, COUNT_BITS) as usize).checked_sub(1);
        let state = State { count, missing };
        let capacity = (bytes / 8 - HEADER_WORDS) as usize;
        if word != self.state_word(seal, state)
            || count > capacity
            || count == 0
            || missing.is_some_and(|i| i + 1 >= count)
        {
            return Err(corrupt("the state of a value buffer"));
        }
        let values = pool.words(off + HEADER_WORDS * 8, capacity as u64)?;
        Ok(Buffer { name, header, values, state, next, seal })
    }

    /// Calls `f` with each buffer of the list that `name` begins, until it says false.
    fn walk(
        &self,
        h: u64,
        name: u64,
        still: &dyn Fn() -> bool,
        f: &mut dyn FnMut(&Buffer<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut name = name;
        let mut cycle = CycleDetector::default();
        loop {
            let buffer = self.buffer(h, name)?;
            if !f(&buffer)? || buffer.next == 0 || !still() {
                return Ok(());
            }
            cycle.step(offset(name), offset(buffer.next), CYCLE)?;
            name = buffer.next;
        }
    }
}

impl<M: Medium> Lists for MultiPea<M> {
    type Medium = M;

    fn pool(&self) -> &Pool<M> {
        &self.pool
    }

    fn mix(&self) -> &WordMix {
        &self.mix
    }

    fn large(&self) -> &Shape {
        &self.large
    }
}

impl<M: Medium> MultiPea<M> {
    /// Writes a buffer of `bytes` bytes, which nothing names yet, and flushes it; the caller fences.
    /// Its name.
    pub(super) fn write_buffer(
        &self,
        h: u64,
        bytes: u64,
        next: u64,
        values: impl Iterator<Item = u64>,
    ) -> Result<u64> {
        let medium = self.medium();
        let full = || Error::full(bytes, Limit::Design("free blocks are still being searched for"));
        let off = self.pool.alloc_block(bytes, false)?.ok_or_else(full)?;
        let number = self.writers.numbers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let seal = self.seal(h, number, off);
        let words = self.pool.words(off, bytes / 8)?;
        let (header, room) = words.split_at(HEADER_WORDS as usize);
        let mut count = 0;
        for (word, v) in room.iter().zip(values) {
            medium.store(word, v);
            count += 1;
        }
        let state = self.state_word(seal, State::of(count));
        for (word, v) in header.iter().zip([state, next, seal, number]) {
            medium.store(word, v);
        }
        medium.flush_fresh(&words[..HEADER_WORDS as usize + count]);
        Ok(off | seal >> OFFSET_BITS << OFFSET_BITS)
    }
}

impl<M: Medium, const MULTI: bool> Table<M, MULTI> {
    /// The number of the first buffer that is written in this open.
    pub(super) fn first_number(epoch: u32) -> u64 {
        u64::from(epoch) << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way to remove and to add, against a vector.
    #[test]
    fn a_value_goes_by_one_store_wherever_it_is() {
        fn go(mut values: Vec<u32>, state: State, left: u32) {
            let live = |values: &[u32], state: State| -> Vec<u32> {
                let mut live: Vec<u32> = state.positions().map(|i| values[i]).collect();
                live.sort_unstable();
                live
            };
            if left == 0 {
                return;
            }
            let before = live(&values, state);
            assert_eq!(before.len(), state.live());
            for i in state.positions().collect::<Vec<_>>() {
                if state.live() == 1 {
                    continue;
                }
                let (copy_to, new) = state.without(i);
                let mut values = values.clone();
                if let Some(to) = copy_to {
                    assert_eq!(Some(to), state.missing, "what is there is never written to");
                    values[to] = values[state.count - 1];
                    assert_eq!(live(&values, state), before);
                }
                let gone = values[i];
                let mut rest = before.clone();
                rest.retain(|v| *v != gone);
                assert_eq!(live(&values, new), rest);
                go(values, new, left - 1);
            }
            if let Some((at, new)) = state.with_one(6) {
                assert!(state.positions().all(|i| i != at));
                values.resize(6, 0);
                values[at] = 1000 + left;
                go(values, new, left - 1);
            } else {
                assert_eq!(state.live(), 6);
            }
        }
        go((0..5).collect(), State::of(5), 6);
    }
}
