//! Any entry.

use super::queue::Queue;
use super::sharded::Queues;

#[derive(Default)]
pub(super) struct Random {
    entries: Queue,
    state: u64,
}

impl Queues for Random {
    type Table = ();
    const HAS_ORDER: bool = false;

    fn insert(&mut self, hash: u64, _table: &()) {
        self.entries.push(hash);
    }

    fn pop(&mut self, _table: &()) -> Option<u64> {
        if self.entries.len() == 0 {
            return None;
        }
        // A Weyl sequence, mixed by a multiplication: its high half is even enough for this.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ self.state >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let index = (u128::from(mixed) * self.entries.len() as u128) >> 64;
        self.entries.swap_remove(index as usize)
    }

    fn each(&self, _table: &(), f: &mut dyn FnMut(u64, u8)) {
        self.entries.each(&mut |hash| f(hash, 0));
    }

    fn restore(&mut self, hash: u64, _known: u8, _table: &()) {
        self.entries.push(hash);
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn retain(&mut self, keep: &mut dyn FnMut(u64) -> bool) {
        self.entries.retain(keep);
    }

    fn bytes(&self) -> usize {
        self.entries.bytes()
    }
}
