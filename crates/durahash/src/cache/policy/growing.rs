//! A table that grows while others read it: one element for each hash, which no lock guards.
//!
//! It grows by a quarter of a power of two, and nothing moves: element `i` is split into `i` and `i + 2^n`, which begin
//! alike (linear hashing). Addresses are reserved ahead of use. Memory is taken as it grows, in huge pages from the first
//! on where many elements are expected: a change of a cache looks at some that lie anywhere, each in another small page.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use durahash_media::{DepthWord, Reserved};

/// Elements at first; and steps in which it doubles.
const FIRST: usize = 4;
/// Elements that addresses are reserved for at first, at the most; and at all.
const RESERVED: usize = 1 << 26;
const MOST: usize = 1 << 40;
/// Elements where the system has no addresses for more.
const FEW: u64 = 1 << 16;
/// It grows to so many times what is expected, which is said of a bound of bytes by the size of a common entry.
const SPARE: usize = 4;

/// The place of a hash among `len`, at least one: where its low bits say, or without the highest of them where there is
/// none yet.
#[inline]
pub(super) fn place(hash: u64, len: usize) -> usize {
    let bits = usize::MAX >> len.leading_zeros();
    let (at, parent) = (hash as usize & bits, hash as usize & bits >> 1);
    if at < len { at } else { parent }
}

/// The place that the new place `at` is split from.
pub(super) fn parent(at: usize) -> usize {
    at ^ 1 << at.ilog2()
}

/// The sizes from one on.
fn sizes(from: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(from), |size| Some(size + (1 << size.ilog2()) / FIRST))
}

/// Elements of `N` words.
pub(super) struct Growing<const N: usize, W: DepthWord> {
    elements: Reserved<N, W>,
    len: AtomicUsize,
    /// It grows no more where its length is this.
    limit: AtomicUsize,
    growing: Mutex<()>,
}

/// The elements that there were at a time: none goes.
pub(super) struct Now<'a, const N: usize, W: DepthWord> {
    elements: &'a Reserved<N, W>,
    len: usize,
}

impl<const N: usize, W: DepthWord> Clone for Now<'_, N, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const N: usize, W: DepthWord> Copy for Now<'_, N, W> {}

impl<const N: usize, W: DepthWord> Growing<N, W> {
    /// About so many elements are expected.
    pub(super) fn new(expected: usize) -> Self {
        let most = expected.saturating_mul(SPARE).clamp(SPARE * FIRST, MOST) as u64;
        // It is longer than what is wanted by up to a quarter.
        let first = (expected.min(RESERVED) * 5 / 4) as u64;
        // Where the system has no addresses for many it stays small, and leaves some to others; a few come from the heap.
        let sizes = [(first, most), (0, most.min(FEW)), (0, FIRST as u64)];
        let elements =
            sizes.into_iter().find_map(|(count, most)| Reserved::growing(count, most).ok());
        let elements = elements.expect("the heap has room for a few");
        let limit = AtomicUsize::new(elements.most() as usize);
        Growing { elements, len: AtomicUsize::new(FIRST), limit, growing: Mutex::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The elements that there are now.
    #[inline]
    pub(super) fn now(&self) -> Now<'_, N, W> {
        Now { elements: &self.elements, len: self.len() }
    }

    /// The element of a hash, by its low bits.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> &[W::Atomic; N] {
        self.now().of(hash)
    }

    /// The element at a place below [`len`](Self::len).
    #[inline]
    pub(super) fn at(&self, at: usize) -> &[W::Atomic; N] {
        self.elements.row(at as u64)
    }

    /// Grows to at least `len`, or as far as it may; new elements begin like those that they are split from. What is
    /// changed there meanwhile is changed in one of them.
    #[inline]
    pub(super) fn grow(&self, len: usize) {
        if self.len() < len.min(self.limit.load(Ordering::Relaxed)) {
            self.lengthen(len);
        }
    }

    #[inline(never)]
    fn lengthen(&self, len: usize) {
        // The thread that grows it already does it for others, too.
        let Ok(_growing) = self.growing.try_lock() else { return };
        let now = self.len();
        for (from, to) in sizes(now).zip(sizes(now).skip(1)).take_while(|(from, _)| *from < len) {
            if to as u64 > self.elements.most() || self.elements.cover(to as u64).is_err() {
                return self.limit.store(from, Ordering::Relaxed);
            }
            for at in from..to {
                let words = self.at(at).iter().zip(self.at(parent(at)));
                words.for_each(|(new, old)| W::load(old).store(new));
            }
            self.len.store(to, Ordering::Release);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.len() * size_of::<[W::Atomic; N]>() + size_of::<Self>()
    }
}

impl<'a, const N: usize, W: DepthWord> Now<'a, N, W> {
    #[inline]
    pub(super) fn of(&self, hash: u64) -> &'a [W::Atomic; N] {
        self.elements.row(place(hash, self.len) as u64)
    }

    /// Starts to fetch the element of a hash.
    #[inline]
    pub(super) fn fetch(&self, hash: u64) {
        self.elements.prefetch(place(hash, self.len) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash that was there finds what it found, whatever the size; and each element is of some hash.
    #[test]
    fn elements_are_split_and_do_not_move() {
        let table = Growing::<1, u64>::new(4000);
        for at in 0..FIRST {
            table.at(at)[0].store(at as u64, Ordering::Relaxed);
        }
        let hashes = (0..4000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20));
        let most = table.limit.load(Ordering::Relaxed);
        assert_eq!(most, 4 * SPARE * 1000);
        for len in (5..4000).step_by(7) {
            table.grow(len);
            assert!((len..=len + len / 4 + 1).contains(&table.len()), "{len}: {}", table.len());
            for hash in hashes.clone().take(100) {
                assert_eq!(table.of(hash)[0].load(Ordering::Relaxed), hash % FIRST as u64);
            }
        }
        hashes.for_each(|hash| table.of(hash)[0].store(u64::MAX, Ordering::Relaxed));
        let left =
            (0..table.len()).filter(|at| table.at(*at)[0].load(Ordering::Relaxed) < 9).count();
        assert!(left < table.len() / 2, "{left}");
        // As far as it may, once.
        table.grow(usize::MAX);
        assert!((most * 3 / 4..=most).contains(&table.len()), "{}", table.len());
        assert_eq!(table.limit.load(Ordering::Relaxed), table.len());
    }
}
