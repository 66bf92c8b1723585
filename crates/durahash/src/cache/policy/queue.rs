//! A queue of hashes, in chunks: it takes 8 bytes for each, and a chunk or two.

use std::collections::VecDeque;

const CHUNK: usize = 128;

#[derive(Default)]
pub(super) struct Queue {
    chunks: VecDeque<Box<[u64; CHUNK]>>,
    /// Places of the first chunk that are taken out.
    first: usize,
    len: usize,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, hash: u64) {
        let at = self.first + self.len;
        if at == self.chunks.len() * CHUNK {
            self.chunks.push_back(Box::new([0; CHUNK]));
        }
        self.chunks[at / CHUNK][at % CHUNK] = hash;
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<u64> {
        self.len = self.len.checked_sub(1)?;
        let hash = self.chunks[0][self.first];
        self.first += 1;
        if self.first == CHUNK {
            self.chunks.pop_front();
            self.first = 0;
        }
        Some(hash)
    }

    /// The one that is popped when so many were.
    pub(super) fn peek(&self, index: usize) -> Option<u64> {
        let at = self.first + index;
        (index < self.len).then(|| self.chunks[at / CHUNK][at % CHUNK])
    }

    /// Takes one out of the middle; the last comes into its place.
    pub(super) fn swap_remove(&mut self, index: usize) -> u64 {
        self.len -= 1;
        let (at, last) = (self.first + index, self.first + self.len);
        let moved = self.chunks[last / CHUNK][last % CHUNK];
        let hash = std::mem::replace(&mut self.chunks[at / CHUNK][at % CHUNK], moved);
        if last % CHUNK == 0 {
            self.chunks.pop_back();
        }
        hash
    }

    /// Takes out those that are not to be kept.
    pub(super) fn retain(&mut self, keep: &mut dyn FnMut(u64) -> bool) {
        for _ in 0..self.len {
            let Some(hash) = self.pop() else { return };
            if keep(hash) {
                self.push(hash);
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK * 8 + self.chunks.capacity() * size_of::<usize>()
    }
}
