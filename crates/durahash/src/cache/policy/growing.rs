//! A table that grows while others read it: one element for each hash, which no lock guards.
//!
//! It grows by a quarter of a power of two, and nothing moves: element `i` is split into `i` and `i + 2^n`, which begin
//! alike (linear hashing).

use std::array;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// Elements at first, each a chunk; and chunks for each doubling.
const FIRST: usize = 4;
const CHUNKS: usize = FIRST * 40;

/// The place of a hash among `len`, at least one: where its low bits say, or without the highest of them where there is
/// none yet.
pub(super) fn place(hash: u64, len: usize) -> usize {
    let bits = usize::MAX >> len.leading_zeros();
    let (at, parent) = (hash as usize & bits, hash as usize & bits >> 1);
    if at < len { at } else { parent }
}

/// The chunk of a place, the place in it, and elements of the chunk.
fn chunk_of(at: usize) -> (usize, usize, usize) {
    // A doubling begins at `FIRST` times a power of two, and has its chunks one behind the other.
    let doubling = (at | FIRST).ilog2() - FIRST.ilog2();
    let elements = 1 << doubling;
    ((at >> doubling) + FIRST * doubling as usize, at & (elements - 1), elements)
}

/// The place that the new place `at` is split from.
pub(super) fn parent(at: usize) -> usize {
    at ^ 1 << at.ilog2()
}

pub(super) struct Growing<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
    len: AtomicUsize,
    growing: Mutex<()>,
}

impl<T: Default> Growing<T> {
    pub(super) fn new() -> Self {
        let chunks = array::from_fn(|chunk| {
            if chunk < FIRST { OnceLock::from(Box::from([T::default()])) } else { OnceLock::new() }
        });
        Growing { chunks, len: AtomicUsize::new(FIRST), growing: Mutex::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The element of a hash, by its low bits.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> &T {
        self.at(place(hash, self.len()))
    }

    /// The element at a place below [`len`](Self::len).
    #[inline]
    pub(super) fn at(&self, at: usize) -> &T {
        let (chunk, at, _) = chunk_of(at);
        &self.chunks[chunk].get().expect("`len` grows behind its chunks")[at]
    }

    /// Grows to at least `len`; new elements begin `like` those that they are split from. What is changed there
    /// meanwhile is changed in one of them.
    pub(super) fn grow(&self, len: usize, like: impl Fn(&T) -> T) {
        if self.len() >= len {
            return;
        }
        // The thread that grows it already does it for others, too.
        let Ok(_growing) = self.growing.try_lock() else { return };
        let mut now = self.len();
        while now < len {
            let (chunk, _, elements) = chunk_of(now);
            let new = (now..now + elements).map(|at| like(self.at(parent(at)))).collect();
            self.chunks[chunk].get_or_init(|| new);
            now += elements;
            self.len.store(now, Ordering::Release);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.len() * size_of::<T>() + size_of::<Self>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// A hash that was there finds what it found, whatever the size; and each element is of some hash.
    #[test]
    fn elements_are_split_and_do_not_move() {
        let table = Growing::<AtomicU64>::new();
        for at in 0..FIRST {
            table.at(at).store(at as u64, Ordering::Relaxed);
        }
        let hashes = (0..4000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20));
        for len in (5..4000).step_by(7) {
            table.grow(len, |old| AtomicU64::new(old.load(Ordering::Relaxed)));
            assert!((len..=len + len / 4 + 1).contains(&table.len()), "{len}: {}", table.len());
            for hash in hashes.clone().take(100) {
                assert_eq!(table.of(hash).load(Ordering::Relaxed), hash % FIRST as u64);
            }
        }
        hashes.for_each(|hash| table.of(hash).store(u64::MAX, Ordering::Relaxed));
        let left = (0..table.len()).filter(|at| table.at(*at).load(Ordering::Relaxed) < 9).count();
        assert!(left < table.len() / 2, "{left}");
    }
}
