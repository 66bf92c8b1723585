//! The set of lines or blocks that an operation has touched.

/// Numbers with marks: an open-addressing table that is emptied in constant time, since that happens
/// at every operation.
#[derive(Default)]
pub(super) struct Touched {
    slots: Vec<Slot>,
    used: usize,
    /// A slot that was written in another round than this is empty.
    round: u32,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    number: u64,
    round: u32,
    marks: u32,
}

const FEWEST_SLOTS: usize = 64;

/// A table that a long operation made this large is given back.
const KEPT_SLOTS: usize = 1 << 16;

impl Touched {
    /// Marks `number`; true if it did not have this mark.
    #[inline]
    pub(super) fn first(&mut self, number: u64, mark: u32) -> bool {
        if self.used * 2 >= self.slots.len() {
            self.enlarge();
        }
        let slot = self.find(number);
        if slot.marks == 0 {
            slot.marks = mark;
            self.used += 1;
            return true;
        }
        let first = slot.marks & mark == 0;
        slot.marks |= mark;
        first
    }

    /// The slot of `number`; one that was empty has no marks.
    fn find(&mut self, number: u64) -> &mut Slot {
        let mask = self.slots.len() - 1;
        let mut at = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.slots[at].round == self.round && self.slots[at].number != number {
            at = (at + 1) & mask;
        }
        let slot = &mut self.slots[at];
        if slot.round != self.round {
            *slot = Slot { number, round: self.round, marks: 0 };
        }
        slot
    }

    fn enlarge(&mut self) {
        let slots = (self.slots.len() * 2).max(FEWEST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        let round = std::mem::replace(&mut self.round, 1);
        for slot in old.into_iter().filter(|slot| slot.round == round) {
            self.find(slot.number).marks = slot.marks;
        }
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
        if self.slots.len() > KEPT_SLOTS || self.round == u32::MAX {
            self.slots = Vec::new();
        } else {
            self.round += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn it_says_what_a_map_says() {
        let mut touched = Touched::default();
        let mut state = 1_u64;
        for round in 0..200_u64 {
            let mut model = HashMap::<u64, u32>::new();
            let count = if round % 50 == 49 { 100_000 } else { 300 };
            for _ in 0..count {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let number = state >> 33 & if count > 300 { 0xf_ffff } else { 0xff };
                let mark = 1 << (state >> 20 & 1);
                let marks = model.entry(number).or_default();
                assert_eq!(touched.first(number, mark), *marks & mark == 0);
                *marks |= mark;
            }
            assert_eq!(touched.used, model.len());
            touched.clear();
        }
    }
}
