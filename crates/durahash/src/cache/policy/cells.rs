//! Two bits for each entry, found by its hash: how often it was hit.
//!
//! A cell belongs to every entry that hashes there: there is no room for telling them apart. With eight cells for an
//! entry one in nine shares its own. A byte has four cells; threads that change two of them at once may lose a change.
//!
//! The table grows by a quarter of a power of two, and no cell moves: byte `i` is split into `i` and `i + 2^n`, which
//! begin alike (linear hashing).

use std::array;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// Bytes for each entry.
const BYTES_PER_ENTRY: usize = 2;
/// Bytes of the first chunk.
const FIRST: usize = 128;
/// Chunks for each doubling.
const STEPS: usize = 4;
const CHUNKS: usize = 1 + STEPS * 33;

/// The place of a hash among `len`, at least one: where its low bits say, or without the highest of them where there is
/// none yet.
pub(super) fn place(hash: u64, len: usize) -> usize {
    let bits = usize::BITS - len.leading_zeros();
    let at = hash as usize & ((1 << bits) - 1);
    if at < len { at } else { parent(at) }
}

/// The place that the new place `at` is split from.
pub(super) fn parent(at: usize) -> usize {
    at ^ 1 << at.ilog2()
}

pub(super) struct Cells {
    chunks: [OnceLock<Box<[AtomicU8]>>; CHUNKS],
    /// Bytes.
    len: AtomicUsize,
    growing: Mutex<()>,
}

/// The cell of a hash, as it was.
pub(super) struct Cell<'a> {
    byte: &'a AtomicU8,
    shift: u32,
    value: u8,
}

impl Cell<'_> {
    pub(super) fn value(&self) -> u8 {
        self.value
    }

    /// Changes the value, at most 3.
    pub(super) fn set(&self, value: u8) {
        if value != self.value {
            let others = self.byte.load(Ordering::Relaxed) & !(3 << self.shift);
            self.byte.store(others | value << self.shift, Ordering::Relaxed);
        }
    }
}

impl Cells {
    pub(super) fn new() -> Self {
        let cells = Cells {
            chunks: array::from_fn(|_| OnceLock::new()),
            len: AtomicUsize::new(0),
            growing: Mutex::default(),
        };
        cells.grow(1);
        cells
    }

    pub(super) fn cell(&self, hash: u64) -> Cell<'_> {
        let byte = self.byte(place(hash >> 2, self.len.load(Ordering::Acquire)));
        let shift = (hash & 3) as u32 * 2;
        Cell { byte, shift, value: byte.load(Ordering::Relaxed) >> shift & 3 }
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        let (chunk, at) = if at < FIRST {
            (0, at)
        } else {
            // A doubling begins at `FIRST` times a power of two, and has its chunks one behind the other.
            let doubling = (at / FIRST).ilog2();
            let shift = doubling + (FIRST / STEPS).ilog2();
            let behind = at - (FIRST << doubling);
            (1 + STEPS * doubling as usize + (behind >> shift), behind & ((1 << shift) - 1))
        };
        &self.chunks[chunk].get().expect("`len` grows behind its chunks")[at]
    }

    /// Makes room for so many entries.
    pub(super) fn grow(&self, entries: usize) {
        if self.len.load(Ordering::Relaxed) >= entries * BYTES_PER_ENTRY {
            return;
        }
        // Whoever grows it already does it for others, too.
        let Ok(_growing) = self.growing.try_lock() else { return };
        while self.len.load(Ordering::Relaxed) < entries * BYTES_PER_ENTRY {
            let len = self.len.load(Ordering::Relaxed);
            let made = self.chunks.iter().take_while(|chunk| chunk.get().is_some()).count();
            let Some(chunk) = self.chunks.get(made) else { return };
            let bytes = match made {
                0 => FIRST,
                _ => (FIRST / STEPS) << ((made - 1) / STEPS),
            };
            let like = |at| match at {
                0..FIRST => 0,
                _ => self.byte(parent(at)).load(Ordering::Relaxed),
            };
            let new = (len..len + bytes).map(|at| AtomicU8::new(like(at))).collect();
            let _ = chunk.set(new);
            self.len.store(len + bytes, Ordering::Release);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.len.load(Ordering::Relaxed) + size_of::<Self>()
    }
}
