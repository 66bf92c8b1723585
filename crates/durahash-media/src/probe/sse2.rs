//! SSE2, which every x86-64 processor has.

use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};

/// See [`match_byte`](super::match_byte).
#[inline(always)]
pub(super) fn match_byte(words: [u64; 2], byte: u8) -> u16 {
    // SAFETY: SSE2 is part of the x86-64 baseline; the intrinsics touch no memory.
    unsafe {
        let bytes = _mm_set_epi64x(words[1].cast_signed(), words[0].cast_signed());
        let equal = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed()));
        _mm_movemask_epi8(equal) as u16
    }
}
