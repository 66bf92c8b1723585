//! Counts of accesses to a medium, and of what a model of one makes of them.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counts {
    ($(#[$about:meta])* $Counts:ident, $Atomic:ident: $($(#[$doc:meta])* $name:ident,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl $Counts {
            /// Every count with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }

        impl Add for $Counts {
            type Output = $Counts;
            fn add(self, other: $Counts) -> $Counts {
                $Counts { $($name: self.$name + other.$name,)* }
            }
        }

        impl Sub for $Counts {
            type Output = $Counts;
            fn sub(self, other: $Counts) -> $Counts {
                $Counts { $($name: self.$name - other.$name,)* }
            }
        }

        /// The same of one thread, which alone stores them.
        #[derive(Default)]
        pub(super) struct $Atomic {
            $(pub(super) $name: AtomicU64,)*
        }

        impl $Atomic {
            pub(super) fn counts(&self) -> $Counts {
                $Counts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Counts of accesses to a medium. Distinct means counted once per operation and thread.
    Counts, AtomicCounts:
    /// Operations: from [`Event::Begin`](crate::Event::Begin) to [`Event::Ack`](crate::Event::Ack).
    operations,
    /// Distinct lines loaded from.
    lines_read,
    /// Distinct lines stored to.
    lines_written,
    /// Distinct blocks loaded from.
    blocks_read,
    /// Distinct blocks stored to.
    blocks_written,
    /// Lines flushed, each time that they are.
    flushes,
    /// Fences.
    fences,
    /// Drains.
    drains,
    /// Words stored past the cache.
    nt_stores,
    /// Bytes loaded, the same ones as often as they are.
    bytes_loaded,
    /// Bytes stored, the same ones as often as they are.
    bytes_stored,
}

counts! {
    /// What a model of a processor and a medium makes of the accesses. What its innermost cache answers is not counted.
    Traffic, AtomicTraffic:
    /// Lines found in the cache of the core.
    core_hits,
    /// Lines found in the part of the shared cache that this thread has.
    shared_hits,
    /// Lines that came from the medium.
    misses,
    /// Of these, lines that the medium had in its buffer.
    buffer_hits,
    /// Reads of the medium behind the buffer: blocks, or lines where it has no larger unit.
    media_reads,
    /// Of these, reads that complete a block of which only a part was written.
    merges,
    /// Lines that went to the medium: flushed, stored past the cache, or evicted with stores in them.
    lines_sent,
    /// Writes of the medium behind the buffer, in the same unit.
    media_writes,
}

/// Adds to a count of this thread's own.
#[inline(always)]
pub(super) fn add(count: &AtomicU64, n: u64) {
    count.store(count.load(Relaxed) + n, Relaxed);
}
