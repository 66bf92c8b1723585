//! Counts of verbs.

use std::ops::{Add, Sub};

/// Round trips, verbs by kind, and bytes of payload. They are counted when they are posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Batches, flushes that had something to flush, and evictions.
    pub round_trips: u64,
    /// Reads.
    pub reads: u64,
    /// Writes that are awaited.
    pub writes: u64,
    /// Writes that are not.
    pub unsignaled: u64,
    /// Compare-and-swaps, successful or not.
    pub swaps: u64,
    /// Fetch-and-adds.
    pub adds: u64,
    /// Bytes towards nodes: what is written, and 16 for a compare-and-swap, 8 for a fetch-and-add.
    pub bytes_out: u64,
    /// Bytes from nodes: what is read, and 8 for each atomic.
    pub bytes_in: u64,
}

impl Counts {
    /// Verbs of all kinds.
    #[must_use]
    pub fn verbs(&self) -> u64 {
        self.reads + self.writes + self.unsignaled + self.swaps + self.adds
    }

    /// Counts a write that is not awaited.
    pub fn write_unsignaled(&mut self, bytes: &[u8]) {
        self.unsignaled += 1;
        self.bytes_out += bytes.len() as u64;
    }

    fn with(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Counts {
            round_trips: f(self.round_trips, other.round_trips),
            reads: f(self.reads, other.reads),
            writes: f(self.writes, other.writes),
            unsignaled: f(self.unsignaled, other.unsignaled),
            swaps: f(self.swaps, other.swaps),
            adds: f(self.adds, other.adds),
            bytes_out: f(self.bytes_out, other.bytes_out),
            bytes_in: f(self.bytes_in, other.bytes_in),
        }
    }
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }
}

/// The verbs between two moments: later counts minus earlier ones.
impl Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }
}
