//! Zeroed memory for atomic words that stays where it is.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, madvise};

use crate::error::{ErrorKind, Result};
use crate::medium::{ADDRESS_BYTES, Anonymous};

/// Memory that is zero at first, is accessed as atomics only, and begins at a line.
///
/// Address space is reserved at once, memory taken page by page as it is touched, in huge pages
/// where the system gives them.
pub(crate) struct Zeroed {
    base: NonNull<AtomicU64>,
    /// Keeps `base` valid: a mapping, or lines on the heap where they are few (which is what
    /// tests open by the thousand, and what Miri understands).
    mapping: Option<Anonymous>,
    _heap: Vec<AlignedLine>,
}

/// A line of words, so that what is on the heap keeps to lines as a mapping does.
#[repr(C, align(64))]
struct AlignedLine([AtomicU64; 8]);

// SAFETY: the memory is accessed as atomics, and what holds it is owned by the struct.
unsafe impl Send for Zeroed {}
// SAFETY: as above.
unsafe impl Sync for Zeroed {}

/// Up to this size memory is taken from the heap.
const HEAP_BYTES: u64 = 64 << 10;

impl Zeroed {
    /// `count` times `each` bytes.
    pub(crate) fn new(count: u64, each: u64) -> Result<Self> {
        let bytes = count
            .checked_mul(each)
            .filter(|bytes| *bytes <= ADDRESS_BYTES)
            .ok_or(ErrorKind::Options { what: "an array larger than the address space" })?;
        if bytes <= HEAP_BYTES {
            let mut heap = Vec::new();
            heap.resize_with(bytes.div_ceil(64).max(1) as usize, || {
                AlignedLine([const { AtomicU64::new(0) }; 8])
            });
            let base = NonNull::new(heap.as_mut_ptr()).expect("a vector's pointer").cast();
            return Ok(Zeroed { base, mapping: None, _heap: heap });
        }
        Ok(Self::over(Anonymous::reserve(bytes)?))
    }

    /// `count` times `each` bytes, of which there may be more later, up to `most` times.
    pub(crate) fn growing(count: u64, most: u64, each: u64) -> Result<Self> {
        if most.saturating_mul(each) <= HEAP_BYTES {
            return Self::new(most, each);
        }
        let [bytes, most] = [count, most].map(|count| count.saturating_mul(each));
        Ok(Self::over(Anonymous::growing(bytes, most)?))
    }

    fn over(mapping: Anonymous) -> Self {
        Zeroed { base: mapping.base().cast(), mapping: Some(mapping), _heap: Vec::new() }
    }

    /// Sees to it that there are `bytes` bytes, of `most` at the most. One thread at a time.
    pub(crate) fn cover(&self, bytes: u64, most: u64) -> Result<()> {
        self.mapping.as_ref().map_or(Ok(()), |mapping| mapping.cover(bytes, most))
    }

    /// Bytes that there are, where there may be more later.
    pub(crate) fn mapped_bytes(&self) -> Option<u64> {
        self.mapping.as_ref().map(Anonymous::bytes)
    }

    #[inline(always)]
    pub(crate) fn base(&self) -> NonNull<AtomicU64> {
        self.base
    }

    /// Gives the memory back to the system, after which it reads as zero. False if the system refused:
    /// nothing has changed then, and the owner of the words can store zeros. A thread that still reads
    /// sees the old value or zero.
    #[must_use]
    pub(crate) fn give_back(&self) -> bool {
        self.mapping.as_ref().is_some_and(|mapping| {
            let (start, bytes) = (mapping.base().as_ptr().cast(), mapping.bytes() as usize);
            // SAFETY: our own anonymous mapping; reading it afterwards gives zeros.
            unsafe { madvise(start, bytes, Advice::LinuxDontNeed) }.is_ok()
        })
    }
}
