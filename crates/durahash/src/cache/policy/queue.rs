//! A queue of hashes, in a ring: it takes 8 bytes for each, and up to an eighth more.

use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Queue(VecDeque<u64>);

/// Places of a ring of so many hashes that wait for others.
fn spare(len: usize) -> usize {
    len / 16 + 32
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn push(&mut self, hash: u64) {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(spare(self.0.len()));
        }
        self.0.push_back(hash);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u64> {
        let hash = self.pop_to_push();
        self.shrink();
        hash
    }

    /// The same where as many come in behind it.
    #[inline]
    pub(super) fn pop_to_push(&mut self) -> Option<u64> {
        self.0.pop_front()
    }

    /// Gives places back that nothing needs, nor soon will.
    #[inline]
    pub(super) fn shrink(&mut self) {
        let len = self.0.len();
        if self.0.capacity() > len + 2 * spare(len) {
            self.0.shrink_to(len + spare(len));
        }
    }

    /// The one that is popped when so many were.
    #[inline]
    pub(super) fn peek(&self, index: usize) -> Option<u64> {
        self.0.get(index).copied()
    }

    /// Takes one out of the middle; the last comes into its place.
    pub(super) fn swap_remove(&mut self, index: usize) -> Option<u64> {
        let hash = self.0.swap_remove_back(index);
        self.shrink();
        hash
    }

    /// From the next to be popped on.
    pub(super) fn each(&self, f: &mut dyn FnMut(u64)) {
        self.0.iter().for_each(|hash| f(*hash));
    }

    /// Takes out those that are not to be kept.
    pub(super) fn retain(&mut self, keep: &mut dyn FnMut(u64) -> bool) {
        self.0.retain(|hash| keep(*hash));
        self.shrink();
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}
