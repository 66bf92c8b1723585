//! The gate of a pool's writers: it admits none once it is stopped, and while a batch is under way only the batch
//! to the hashes that it changes.
//!
//! A writer looks at one byte, under the lock of its bucket, and as a rule that is all. A batch closes the gate
//! for its hashes before it looks at the first lock. A writer of one of them therefore either releases the lock
//! before the batch comes to the bucket, which finds what it did; or takes it later, sees the gate closed, and
//! has changed nothing.
//!
//! The batch need not take the lock for that: it is enough to find it free. A writer stores to the lock, then loads
//! the state; the batch stores to the state, then loads the lock. So that one of them sees the other's store,
//! the writer's two accesses are sequentially consistent (on x86-64 the same instructions as without), and so are the
//! batch's store and the fence after it. If the batch loads the lock as it was before the writer's store, then
//! that fence is before the store in their one order, and the state that the writer loads after it is closed.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Mutex, OnceLock};

/// No writer is admitted.
const STOPPED: u8 = 1;
/// A batch is under way.
const BATCH: u8 = 2;

/// Bits that say which hashes a batch may change.
const BITS_SHIFT: u32 = 16;
const WORDS: usize = 1 << (BITS_SHIFT - 6);

/// See the module docs in the source.
#[derive(Default)]
pub struct Gate {
    state: AtomicU8,
    hashes: OnceLock<Box<Hashes>>,
    turn: Mutex<()>,
}

/// The hashes of a batch.
struct Hashes {
    /// A bit for each of them, and for others by chance, which wait with them.
    all: [AtomicU64; WORDS],
    /// The bits that are of several of its hashes, or of one that it has several times.
    several: [AtomicU64; WORDS],
}

impl Default for Hashes {
    fn default() -> Self {
        let none = || std::array::from_fn(|_| AtomicU64::new(0));
        Hashes { all: none(), several: none() }
    }
}

/// Which bit is a hash's. Hashes may agree in their first bits, or differ in no others.
fn bit(h: u64) -> (usize, u64) {
    let bit = h.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS_SHIFT);
    ((bit >> 6) as usize, 1 << (bit & 63))
}

impl Gate {
    /// True if everybody may write.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.state.load(Ordering::SeqCst) == 0
    }

    #[inline(always)]
    pub(super) fn is_stopped(&self) -> bool {
        self.state.load(Ordering::SeqCst) & STOPPED != 0
    }

    pub(super) fn stop(&self) {
        self.state.fetch_or(STOPPED, Ordering::SeqCst);
    }

    pub(super) fn start(&self) {
        self.state.fetch_and(!STOPPED, Ordering::SeqCst);
    }

    /// True if a batch that is under way may change `h`.
    pub(super) fn is_closed_for(&self, h: u64) -> bool {
        let (word, bit) = bit(h);
        let has_bit = |hashes: &Hashes| hashes.all[word].load(Ordering::Relaxed) & bit != 0;
        self.state.load(Ordering::Relaxed) & BATCH != 0
            && self.hashes.get().is_none_or(|hashes| has_bit(hashes))
    }

    /// The lock that a batch holds: there is one batch at a time.
    pub fn turn(&self) -> &Mutex<()> {
        &self.turn
    }

    /// Keeps others from changing these hashes, from the next time on that one of them takes the lock of its
    /// bucket: not the holders of locks that the caller does not find free afterwards. The caller has the
    /// [turn](Gate::turn).
    pub fn close_for(&self, hashes: impl Iterator<Item = u64>) {
        let Hashes { all, several } = &**self.hashes.get_or_init(Box::default);
        // No other thread stores.
        let set = |word: &AtomicU64, bit| {
            let before = word.load(Ordering::Relaxed);
            word.store(before | bit, Ordering::Relaxed);
            before & bit != 0
        };
        for (word, bit) in hashes.map(bit) {
            if set(&all[word], bit) {
                set(&several[word], bit);
            }
        }
        self.state.fetch_or(BATCH, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// True if a hash may be of several operations of the batch that has closed the gate: of most it is told that
    /// they are not.
    #[inline(always)]
    pub fn may_be_of_several(&self, h: u64) -> bool {
        let (word, bit) = bit(h);
        let has_bit = |hashes: &Hashes| hashes.several[word].load(Ordering::Relaxed) & bit != 0;
        self.hashes.get().is_none_or(|hashes| has_bit(hashes))
    }

    /// Ends that; `hashes` are the same.
    pub fn open_for(&self, hashes: impl Iterator<Item = u64>) {
        self.state.fetch_and(!BATCH, Ordering::SeqCst);
        let Some(closed_for) = self.hashes.get() else { return };
        for (word, _) in hashes.map(bit) {
            closed_for.all[word].store(0, Ordering::Relaxed);
            closed_for.several[word].store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_a_batch_and_few_others_wait() {
        let gate = Gate::default();
        assert!(gate.is_open() && !gate.is_closed_for(1));
        let hashes = || (0..100_u64).map(|i| i << 57 | i);
        gate.close_for(hashes());
        assert!(!gate.is_open() && !gate.is_stopped());
        assert!(hashes().all(|h| gate.is_closed_for(h)));
        let others = (0..1000_u64).filter(|i| gate.is_closed_for(i << 20 | 1)).count();
        assert!(others < 100, "{others} wait");
        assert!(hashes().filter(|h| gate.may_be_of_several(*h)).count() < 10);
        gate.open_for(hashes());
        gate.close_for(hashes().chain([3 << 57 | 3]));
        assert!(gate.may_be_of_several(3 << 57 | 3));
        gate.stop();
        gate.open_for(hashes());
        assert!(gate.is_stopped() && !hashes().any(|h| gate.is_closed_for(h)));
        gate.start();
        assert!(gate.is_open() && !hashes().any(|h| gate.may_be_of_several(h)));
    }
}
